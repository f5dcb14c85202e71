"""The step view of the report: tuples meeting under each strategy, drawn by a script that the page carries."""

from __future__ import annotations

import dataclasses
import html
import json
from importlib import resources

from crosswind.lab.scene import SCENE
from crosswind.lab.steps import FAULTY, STRATEGIES, steps_of

__all__ = ["theatre"]

_PLAYS = {**STRATEGIES, **FAULTY}

_BEGIN = 9
"""The step that is shown first: by then all workers hold something."""


def theatre() -> str:
    """Return the step views as HTML with their script; nothing else is needed to play them."""
    intro = (
        "<p>Twelve tuples come in turn, R (blue) and S (orange); under each name is the value it is joined by. Two "
        f"match if their values differ by at most {SCENE.near} and they come less than {SCENE.window} time units "
        "apart. Lines join the pairs that are compared in this step; thick green ones are results. A dashed tuple is "
        "compared where it is not kept. Whatever the strategy, the same pairs meet, each once: only where and when "
        "differs. The last view leaves the copies of the second one out, and misses pairs. <code>crosswind lab show "
        "handshake</code> tells the same as text, and <code>crosswind lab show chip</code> a circuit's clocks.</p>"
    )
    script = resources.files("crosswind.lab").joinpath("theatre.js").read_text(encoding="utf-8")
    return f"{intro}{''.join(_stage(name) for name in _PLAYS)}<script>\n{script}</script>"


def _stage(name: str) -> str:
    steps = steps_of(name)
    title, _, caption = _PLAYS[name][2].partition(": ")
    caption = caption[:1].upper() + caption[1:]
    played = {
        "begin": min(_BEGIN, len(steps) - 1),
        "values": {arrival.name: arrival.value for arrival in SCENE.arrivals},
        "steps": [dataclasses.asdict(step) for step in steps],
    }
    data = json.dumps(played).replace("</", "<\\/")
    buttons = "".join(
        f'<button type="button" class="{kind}">{said}</button>'
        for kind, said in (("first", "start"), ("back", "back"), ("next", "next"), ("play", "play"))
    )
    return (
        f'<div class="stage"><h3>{html.escape(title)}</h3><p>{html.escape(caption)}.</p>'
        f'<script type="application/json">{data}</script><svg role="img" aria-label="{html.escape(name)}"></svg>'
        f'<div class="controls">{buttons}</div><div class="now"></div><div class="met"></div></div>'
    )
