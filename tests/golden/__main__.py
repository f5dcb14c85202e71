"""Write what the installed version of Crosswind writes: ``python -m tests.golden FORMAT``."""

from __future__ import annotations

import base64
import json
import sys

from tests.golden import FOLDER, ON_SPARK, QUERIES, batch, feed, make_simulation, open_golden


def main(number: int) -> None:
    """Write the snapshots and states into ``format-number``, which must not be there yet."""
    folder = FOLDER / f"format-{number}"
    folder.mkdir()
    for name in QUERIES:
        with open_golden(name) as join:
            feed(name, join, 0)
            feed(name, join, 6)
            (folder / f"{name}.snapshot").write_bytes(join.snapshot())
    for name in ON_SPARK:
        simulation = make_simulation(name)
        for start in (0, 6):
            simulation.batch({stream: batch(stream, start) for stream in "RS"})
        (state,) = simulation.now.states.values()
        content = {part: base64.b64encode(data).decode() for part, data in state.items()}
        about = {"watermark": simulation.watermark, "highs": simulation._highs, "content": content}
        (folder / f"{name}.state.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
