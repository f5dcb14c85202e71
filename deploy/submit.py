"""Runs a job under ``spark-submit``: the master, the memory and the cores are those that it was given.

spark-submit --master yarn --archives environment.tar.gz#environment deploy/submit.py JOB.toml

What follows the job file are options of ``crosswind run``.
"""

from __future__ import annotations

import sys

from crosswind.cli.main import crosswind

if __name__ == "__main__":
    crosswind(["run", "--engine", "spark", *sys.argv[1:]], prog_name="crosswind")
