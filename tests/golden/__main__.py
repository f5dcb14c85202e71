"""Write what the installed version of Crosswind writes: ``python -m tests.golden snapshots 3``, ``... states 4``."""

from __future__ import annotations

import base64
import json
import sys

from tests.golden import FOLDER, ON_SPARK, QUERIES, batch, feed, make_simulation, open_golden


def main(what: str, number: int) -> None:
    """Write snapshots, or states on Spark, into ``format-number``; each have formats of their own."""
    folder = FOLDER / f"format-{number}"
    folder.mkdir(exist_ok=True)
    for name in QUERIES if what == "snapshots" else ():
        with open_golden(name) as join:
            feed(name, join, 0)
            feed(name, join, 6)
            (folder / f"{name}.snapshot").write_bytes(join.snapshot())
    for name in ON_SPARK if what == "states" else ():
        simulation = make_simulation(name)
        for start in (0, 6):
            simulation.batch({stream: batch(stream, start) for stream in "RS"})
        (state,) = simulation.now.states.values()
        content = {part: base64.b64encode(data).decode() for part, data in state.items()}
        about = {"watermark": simulation.watermark, "highs": simulation._highs, "content": content}
        (folder / f"{name}.state.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
