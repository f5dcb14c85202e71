"""A Spark session of our own, for commands and benchmarks: quiet, on the right Java, with its log in a file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crosswind.errors import SparkError
from crosswind.spark.session import local_checkpoints, settings

__all__ = ["BRIEF", "start_session"]

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a session of minutes: a JVM would spend much of them on compiling for hours to come."""

_JAVA_WANTED = 17
_JAVA_PACKAGE = "openjdk-17-jre-headless"
_JAVA_TIMEOUT_S = 30
_LOG_LINES = 8
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""In the environment of programs that ``spark-submit`` has started."""


def start_session(
    name: str, log: Path, *, master: str = "local[*]", cells: int | None = None, conf: Mapping[str, str] | None = None
) -> Any:
    """Start Spark in this process and return the session. What the JVM and the workers print goes to ``log``.

    Parameters
    ----------
    name : str
        The name of the application.
    log : Path
        A file, which is appended to.
    master : str
        Where it runs; ``local[*]`` is this machine, on all cores. Under ``spark-submit``, where that says.
    cells : int, optional
        As for :func:`crosswind.spark.settings`.
    conf : mapping of str to str, optional
        Spark settings, which have the last word.

    Raises
    ------
    SparkError
        There is no Java, or the JVM did not start; with what it said and what to do.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _check_java()
    builder = SparkSession.builder.appName(name)
    if _SUBMITTED in os.environ:  # spark-submit has said where it runs
        master = ""
    else:
        builder = builder.master(master)
    builder = builder.config(map={**settings(cells), **_quiet(master), **(conf or {})})
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise SparkError(
            f"Spark did not start: {str(error).splitlines()[0]}\n{_tail(log)}"
            f"The whole log is in {log}. Look for the first line with 'ERROR' or 'Exception' there."
        ) from error


def _quiet(master: str) -> dict[str, str]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",  # as in one process: times without a zone are what they say
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.sql.pyspark.jvmStacktrace.enabled": "true",  # not to be shown, but to find the cause in
    }
    if master.startswith("local"):  # nothing outside this machine has to find the driver
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | local_checkpoints()
    return conf


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(program) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no `java` on the PATH"
        raise SparkError(f"Spark runs on Java {_JAVA_WANTED} or later, and {where}. {_how_to_get_java()}")
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found and int(found[1]) < _JAVA_WANTED:
        raise SparkError(
            f"Spark runs on Java {_JAVA_WANTED} or later, and {program} is Java {found[0][9:]}. {_how_to_get_java()}"
        )


def _how_to_get_java() -> str:
    return (
        f"On Debian and Ubuntu, as root, type:  apt-get install {_JAVA_PACKAGE}\n"
        f"Elsewhere install any Java {_JAVA_WANTED} and set JAVA_HOME to its folder; in a clone of Crosswind "
        "`scripts/ensure-java` tries both.\nWithout Java everything runs in one process: --engine local."
    )


def _tail(log: Path) -> str:
    if not log.is_file():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line for line in lines if line.strip() and not line.lstrip().startswith("at ")]
    return "".join(f"  {line[:200]}\n" for line in told[-_LOG_LINES:])


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Let children that are started now write to ``log``: the JVM, and through it all workers.

    Java's own warnings and what workers print cannot be turned off by Spark's settings.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(stream, os.dup(stream)) for stream in (1, 2)]
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for stream, _ in kept:
            os.dup2(target, stream)
        yield
    finally:
        for stream, copy in kept:
            os.dup2(copy, stream)
            os.close(copy)
        os.close(target)
