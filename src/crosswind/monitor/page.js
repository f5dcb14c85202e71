// Draws the state that the server sends. No library: a few numbers and two drawings.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const HISTORY_S = 120;
const byId = (id) => document.getElementById(id);
const show = (id, text) => { byId(id).textContent = text; };

function count(value) {
  if (value >= 1e10) return (value / 1e9).toPrecision(3) + " G";
  if (value >= 1e7) return (value / 1e6).toPrecision(3) + " M";
  return Math.round(value).toLocaleString("en");
}
function rate(value) { return value > 0 && value < 10 ? value.toPrecision(2) : count(value); }
function time(seconds) {
  if (seconds === undefined) return "-";
  return seconds >= 1 ? seconds.toPrecision(3) + " s" : (1000 * seconds).toPrecision(3) + " ms";
}
function bytes(value) { return value >= 1e9 ? (value / 1e9).toPrecision(3) + " GB" : (value / 1e6).toFixed(1) + " MB"; }
const sum = (list, key) => list.reduce((total, item) => total + (item[key] || 0), 0);

function make(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// -- figures ------------------------------------------------------------------------------------

function figures(state) {
  document.title = `${state.job} - Crosswind`;
  show("job", state.job);
  show("engine", state.engine);
  show("seconds", `${state.seconds.toFixed(1)} s`);
  show("rate-in", rate(sum(state.streams, "per_second")));
  show("tuples", state.streams.map((s) => `${s.name} ${count(s.tuples)}`).join(", ") || "nothing yet");
  show("rate-out", rate(state.results_per_second));
  show("results", `${count(state.results)} in ${count(state.batches)} batches`);
  show("latency", time(state.latency_s.p50));
  show("quantiles", ["p95", "p99"].filter((q) => q in state.latency_s).map((q) => `${q} ${time(state.latency_s[q])}`).join(", "));
  show("waiting", count(sum(state.windows, "tuples")));
  show("bytes", bytes(state.state_bytes) + (state.held ? `; ${count(state.held)} held back` : ""));
  const told = state.others ? [...state.streams, state.others] : state.streams;
  const lost = ["late", "rejected", "shed"].map((kind) => [kind, sum(told, kind)]);
  show("late", count(lost.reduce((total, [, number]) => total + number, 0)));
  show("lost", lost.map(([kind, number]) => `${kind} ${count(number)}`).join(", "));
  byId("losses").classList.toggle("some", lost.some(([, number]) => number > 0));
  show("notes", Object.entries(state.notes).map(([name, text]) => `${name}: ${text}`).join("\n"));
}

// -- the picture --------------------------------------------------------------------------------

const WIDTH = 1100, BOX = 190, LEFT = 10, RIGHT = WIDTH - BOX - 10;
let drawn = null;
const peaks = {};

function draw(state) {
  const svg = byId("picture");
  svg.replaceChildren();
  const streams = state.streams.length, workers = Math.max(1, state.workers.length);
  const columns = Math.ceil(workers / 8), rows = Math.ceil(workers / columns);
  const cell = { width: Math.min(190, 400 / columns - 10), height: Math.max(34, Math.min(74, 330 / rows - 10)) };
  const height = Math.max(streams * 104, rows * (cell.height + 10), 130) + 10;
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  const rails = make(svg, "g", {}), flows = [];
  const link = (x1, y1, x2, y2, found) => {
    const bend = (x2 - x1) / 2;
    const d = `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    make(rails, "path", { class: "rail", d });
    const flow = make(rails, "path", { class: "flow still" + (found ? " found" : ""), d });
    return { node: flow, speed: 0, offset: 0 };
  };
  drawn = { key: keyOf(state), streams: [], workers: [], flows, result: null };

  const middle = (k) => {
    const column = k % columns, row = Math.floor(k / columns);
    const left = WIDTH / 2 - (columns * (cell.width + 10) - 10) / 2 + column * (cell.width + 10);
    const top = height / 2 - (rows * (cell.height + 10) - 10) / 2 + row * (cell.height + 10);
    return { left, top, y: top + cell.height / 2 };
  };
  state.streams.forEach((stream, k) => {
    const top = height / 2 - (streams * 104 - 14) / 2 + k * 104, y = top + 45;
    const into = [];
    for (let w = 0; w < workers; w++) if (w % columns === 0) into.push(link(LEFT + BOX, y, middle(w).left, middle(w).y, false));
    flows.push(...into);
    make(svg, "rect", { class: "box", x: LEFT, y: top, width: BOX, height: 90, rx: 9 });
    const full = make(svg, "rect", { class: "full", x: LEFT, y: top + 90, width: BOX, height: 0, rx: 9 });
    make(svg, "text", { x: LEFT + 12, y: top + 25 }, stream.name);
    const speed = make(svg, "text", { x: LEFT + BOX - 12, y: top + 25, "text-anchor": "end" }, "");
    const waits = make(svg, "text", { class: "small", x: LEFT + 12, y: top + 52 }, "");
    const share = make(svg, "text", { class: "small", x: LEFT + 12, y: top + 74 }, "");
    drawn.streams.push({ full, speed, waits, share, top, into });
  });
  for (let k = 0; k < workers; k++) {
    const { left, top, y } = middle(k);
    const out = k % columns === columns - 1 || k === workers - 1 ? link(left + cell.width, y, RIGHT, height / 2, true) : null;
    if (out) flows.push(out);
    make(svg, "rect", { class: "box", x: left, y: top, width: cell.width, height: cell.height, rx: 7 });
    const load = make(svg, "rect", { class: "load", x: left, y: top, width: 0, height: cell.height, rx: 7 });
    const tall = cell.height >= 50;
    const name = make(svg, "text", { x: left + 10, y: tall ? y - 5 : y + 5 }, "");
    const busy = make(svg, "text", { x: left + cell.width - 10, y: tall ? y - 5 : y + 5, "text-anchor": "end" }, "");
    const holds = tall ? make(svg, "text", { class: "small", x: left + 10, y: y + 17 }, "") : null;
    drawn.workers.push({ load, name, busy, holds, out, width: cell.width });
  }
  const top = height / 2 - 45;
  make(svg, "rect", { class: "box", x: RIGHT, y: top, width: BOX, height: 90, rx: 9 });
  make(svg, "text", { x: RIGHT + 12, y: top + 25 }, "results");
  drawn.result = {
    speed: make(svg, "text", { x: RIGHT + BOX - 12, y: top + 25, "text-anchor": "end" }, ""),
    total: make(svg, "text", { class: "small", x: RIGHT + 12, y: top + 52 }, ""),
    per: make(svg, "text", { class: "small", x: RIGHT + 12, y: top + 74 }, ""),
  };
}

const keyOf = (state) => JSON.stringify([state.streams.map((s) => s.name), state.workers.map((w) => w.name)]);
const pace = (perSecond) => perSecond > 0 ? 14 + 26 * Math.log10(1 + perSecond) : 0;

function picture(state) {
  if (!state.streams.length) return;
  if (!drawn || drawn.key !== keyOf(state)) draw(state);
  const windows = Object.fromEntries(state.windows.map((w) => [w.name, w.tuples]));
  // Windows go by alias: where no name is that of a stream, and there are as many, they come in the same order.
  const loose = state.windows.filter((w) => !state.streams.some((s) => s.name === w.name));
  const paired = loose.length === state.streams.length;
  state.streams.forEach((stream, k) => {
    const node = drawn.streams[k];
    const name = stream.name in windows ? stream.name : paired ? loose[k].name : undefined;
    const waiting = name === undefined ? 0 : windows[name];
    peaks[stream.name] = Math.max(peaks[stream.name] || 1, waiting);
    const part = Math.min(1, waiting / peaks[stream.name]);
    node.full.setAttribute("y", node.top + 90 * (1 - part));
    node.full.setAttribute("height", 90 * part);
    node.speed.textContent = `${rate(stream.per_second)}/s`;
    node.waits.textContent = name === undefined ? "" : `${count(waiting)} wait`;
    node.share.textContent = name === undefined ? "" : `window ${Math.round(100 * part)}% of its fullest`;
    for (const flow of node.into) flow.speed = state.finished ? 0 : pace(stream.per_second);
  });
  const workers = state.workers.length ? state.workers : [{ name: "", load: null, tuples: null, results: null }];
  workers.forEach((worker, k) => {
    const node = drawn.workers[k];
    const load = worker.load === null ? 0 : worker.load;
    node.load.setAttribute("width", node.width * load);
    node.name.textContent = worker.name === "" ? state.engine : `${state.worker_kind} ${worker.name}`;
    node.busy.textContent = worker.load === null ? "" : `${Math.round(100 * load)}%`;
    if (node.holds) {
      node.holds.textContent = worker.tuples !== null ? `${count(worker.tuples)} wait`
        : worker.results !== null ? `${count(worker.results)} found` : "";
    }
    if (node.out) node.out.speed = state.finished ? 0 : pace(state.results_per_second);
  });
  drawn.result.speed.textContent = `${rate(state.results_per_second)}/s`;
  drawn.result.total.textContent = `${count(state.results)} in all`;
  const tuples = sum(state.streams, "tuples");
  drawn.result.per.textContent = tuples ? `${(state.results / tuples).toPrecision(2)} a tuple` : "";
}

let lastFrame = null;
function frame(now) {
  const passed = lastFrame === null ? 0 : Math.min(0.1, (now - lastFrame) / 1000);
  lastFrame = now;
  for (const flow of drawn ? drawn.flows : []) {
    flow.offset -= flow.speed * passed;
    flow.node.style.strokeDashoffset = flow.offset;
    flow.node.classList.toggle("still", flow.speed === 0);
  }
  requestAnimationFrame(frame);
}

// -- the chart ----------------------------------------------------------------------------------

const history = [];

function chart(state) {
  history.push({ at: state.seconds, in: sum(state.streams, "per_second"), out: state.results_per_second, wait: state.latency_s.p99 });
  while (history.length > 2 && history[0].at < state.seconds - HISTORY_S) history.shift();
  const svg = byId("chart"), width = 1100, height = 150;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  make(svg, "line", { class: "axis", x1: 0, x2: width, y1: height - 20, y2: height - 20 });
  const begin = Math.max(0, state.seconds - HISTORY_S);
  for (const [kind, label] of [["in", rate], ["out", rate], ["wait", time]]) {
    const points = history.filter((point) => point[kind] !== undefined);
    const top = Math.max(...points.map((point) => point[kind]), 1e-9);
    const d = points.map((point) => `${(width * (point.at - begin) / HISTORY_S).toFixed(1)},${(height - 22 - (height - 46) * point[kind] / top).toFixed(1)}`);
    if (points.length > 1) make(svg, "polyline", { class: `curve ${kind}`, points: d.join(" ") });
    const x = { in: 0, out: 240, wait: 480 }[kind];
    make(svg, "text", { class: "small", x, y: 14 }, points.length ? `${{ in: "in", out: "out", wait: "p99" }[kind]}: at most ${label(top)}` : "");
  }
  make(svg, "text", { class: "small", x: 0, y: height - 4 }, `${begin.toFixed(0)} s`);
  make(svg, "text", { class: "small", x: width, y: height - 4, "text-anchor": "end" }, `${(begin + HISTORY_S).toFixed(0)} s`);
}

// -- the connection -----------------------------------------------------------------------------

function status(text, kind) {
  const badge = byId("status");
  badge.textContent = text;
  badge.className = `badge ${kind}`;
}

let ended = false;
const events = new EventSource("/events");
events.onmessage = (event) => {
  const state = JSON.parse(event.data);
  figures(state);
  picture(state);
  chart(state);
  ended = state.finished;
  status(ended ? "ended" : "live", ended ? "" : "live");
};
events.onerror = () => {
  if (ended) events.close();
  else status("no connection: the job is not running", "lost");
};
requestAnimationFrame(frame);
