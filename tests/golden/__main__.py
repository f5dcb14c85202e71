"""Write what this version of Crosswind writes: ``python -m tests.golden snapshots 3 states 4 checkpoints 4``."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path

from tests.golden import FOLDER, ON_SPARK, QUERIES, batch, feed, make_simulation, open_golden


def main(what: str, number: int) -> None:
    """Write snapshots, or states or checkpoints on Spark, into ``format-number``."""
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
    if what == "checkpoints":
        from tests.golden.checkpoint import CHECKPOINTS, write_checkpoint
        from tests.spark.session import session

        for name in CHECKPOINTS:
            with tempfile.TemporaryDirectory() as scratch:
                write_checkpoint(name, folder / f"{name}.checkpoint.zip", Path(scratch), session())


if __name__ == "__main__":
    for what, number in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(what, int(number))
