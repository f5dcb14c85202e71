(function () {
  const NS = "http://www.w3.org/2000/svg", W = 250, H = 132, GAP = 26, TOP = 12;
  const BLUE = "#2563eb", ORANGE = "#ea580c", GREY = "#64748b";
  function node(parent, kind, attributes, text) {
    const made = document.createElementNS(NS, kind);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }
  function chips(svg, names, x, y, colour, place, values, spots, shift) {
    names.forEach(function (name, k) {
      const cx = x + 40 + k * 42, lit = place.lit.includes(name), guest = place.guests.includes(name);
      node(svg, "circle", {cx: cx, cy: y, r: 17, fill: lit ? colour : "white", stroke: guest ? "#0f172a" : colour,
        "stroke-width": 2, "stroke-dasharray": guest ? "4 3" : "none"});
      const ink = lit ? "white" : colour;
      node(svg, "text", {x: cx, y: y - 1, "text-anchor": "middle", "font-size": 12, fill: ink}, name);
      node(svg, "text", {x: cx, y: y + 11, "text-anchor": "middle", "font-size": 9, fill: ink}, values[name]);
      spots[name] = [cx, y + shift];
    });
  }
  function stage(element) {
    const play = JSON.parse(element.querySelector("script").textContent);
    const svg = element.querySelector("svg"), now = element.querySelector(".now"), met = element.querySelector(".met");
    const place0 = play.steps[0].places;
    const columns = Math.max(...place0.map(p => p.column)) + 1, rows = Math.max(...place0.map(p => p.row)) + 1;
    svg.setAttribute("viewBox", "0 0 " + (columns * (W + GAP) + GAP) + " " + (rows * (H + GAP) + TOP));
    let at = 0, timer = null;
    function draw() {
      const step = play.steps[at];
      svg.textContent = "";
      step.places.forEach(function (place) {
        const x = GAP + place.column * (W + GAP), y = TOP + place.row * (H + GAP), spots = {};
        const active = step.met.some(pair => place.lit.includes(pair[0]) && place.lit.includes(pair[1])
          && (place.r.includes(pair[0]) || place.s.includes(pair[1])));
        node(svg, "rect", {x: x, y: y, width: W, height: H, rx: 12, fill: active ? "#f0fdf4" : "white",
          stroke: active ? "#059669" : "#cbd5e1", "stroke-width": active ? 2 : 1});
        node(svg, "text", {x: x + W - 12, y: y + 18, "text-anchor": "end", "font-size": 11, fill: GREY}, place.name);
        node(svg, "text", {x: x + 10, y: y + 44, "font-size": 12, "font-weight": 700, fill: BLUE}, "R");
        node(svg, "text", {x: x + 10, y: y + 106, "font-size": 12, "font-weight": 700, fill: ORANGE}, "S");
        const lines = node(svg, "g", {});
        const guests = ["r", "s"].map(stream => place.guests.filter(name => name[0] === stream));
        chips(svg, guests[0].concat(place.r), x, y + 40, BLUE, place, play.values, spots, 17);
        chips(svg, guests[1].concat(place.s), x, y + 102, ORANGE, place, play.values, spots, -17);
        step.met.forEach(function (pair) {
          const a = spots[pair[0]], b = spots[pair[1]];
          if (!a || !b) return;
          const good = step.matched.some(m => m[0] === pair[0] && m[1] === pair[1]);
          node(lines, "line", {x1: a[0], y1: a[1], x2: b[0], y2: b[1], stroke: good ? "#059669" : "#94a3b8",
            "stroke-width": good ? 4 : 1.5});
        });
      });
      now.textContent = "Step " + (at + 1) + " of " + play.steps.length + ": " + step.text + ".";
      const past = play.steps.slice(0, at + 1), pairs = past.flatMap(s => s.matched);
      const count = past.reduce((sum, s) => sum + s.met.length, 0);
      met.textContent = count + " pairs have met; results: " + (pairs.map(p => p.join("-")).join(", ") || "none yet");
    }
    function go(to) { at = Math.max(0, Math.min(play.steps.length - 1, to)); draw(); }
    function stop() { clearInterval(timer); timer = null; element.querySelector(".play").textContent = "play"; }
    element.querySelector(".back").onclick = function () { stop(); go(at - 1); };
    element.querySelector(".next").onclick = function () { stop(); go(at + 1); };
    element.querySelector(".first").onclick = function () { stop(); go(0); };
    element.querySelector(".play").onclick = function () {
      if (timer) { stop(); return; }
      if (at === play.steps.length - 1) at = 0;
      element.querySelector(".play").textContent = "pause";
      timer = setInterval(function () { if (at === play.steps.length - 1) stop(); else go(at + 1); }, 900);
    };
    go(play.begin);
  }
  document.querySelectorAll(".stage").forEach(stage);
})();
