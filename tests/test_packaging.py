"""What is built and installed: a wheel and an sdist that need no compiler, with everything in them."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from fnmatch import fnmatch
from pathlib import Path

import pytest

import crosswind as cw

ROOT = Path(__file__).parent.parent
INSTALL_SECONDS_MAX = 280


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder of a wheel and an sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_wheel_is_pure_typed_and_complete(built):
    (path,) = built.glob("*.whl")
    assert path.name == f"crosswind-{cw.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        about = message_from_bytes(wheel.read(f"crosswind-{cw.__version__}.dist-info/METADATA"))
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    sources = {str(path.relative_to(ROOT / "src")) for path in files}
    assert sources <= names
    assert {"crosswind/py.typed", "crosswind/monitor/page.html", "crosswind/monitor/page.js"} <= names
    assert not [name for name in names if not name.startswith(("crosswind/", "crosswind-"))]
    assert set(about.get_all("Provides-Extra")) >= {"spark", "kafka", "lab"}
    assert about["Requires-Python"] == ">=3.11"


def test_the_sdist_has_what_its_tests_need(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "tests/oracle.py", "deploy/grafana/crosswind.json"} <= names


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_and_runs_without_a_compiler(built, tmp_path, kind):
    (package,) = built.glob(kind)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True, timeout=120)
    programs = tmp_path / "fresh" / "bin"
    # Nothing but this environment and the shell's own: no cc, no c++.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CC", "CXX", "VIRTUAL_ENV")}
    environment |= {"PATH": str(programs), "CROSSWIND_CACHE_DIR": str(tmp_path / "cache")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(
        programs / "python", "-m", "pip", "install", "--quiet", "--only-binary", "numba,llvmlite,pyarrow,numpy", package
    )
    assert run(programs / "crosswind", "--version") == f"crosswind {cw.__version__}\n"
    run(programs / "crosswind", "init", "try")
    report = json.loads(run(programs / "crosswind", "run", "--json", "try/job.toml"))
    assert report["results"] > 0


def test_spark_submit_sends_no_pyspark(tmp_path):
    """Programs that the script calls are played: each notes how it was called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("spark-submit", "venv-pack", "crosswind"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@" >> "{tmp_path}/calls"\n')
        program.chmod(0o755)
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    paths = os.pathsep.join([str(programs), os.environ["PATH"]])
    subprocess.run(
        ["bash", str(ROOT / "deploy" / "spark-submit.sh"), "--master", "yarn", "--cells", "8", "job.toml", "--verbose"],
        cwd=tmp_path,
        env={**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    calls = (tmp_path / "calls").read_text().splitlines()
    patterns = [calls[k + 1] for k, word in enumerate(calls) if word == "--exclude"]
    packages = "lib/python3.12/site-packages"
    for path, is_sent in {
        f"{packages}/pyspark/jars/spark-sql_2.13-4.3.0.jar": False,
        f"{packages}/pyspark-4.3.0.dist-info/METADATA": False,
        f"{packages}/py4j/java_gateway.py": False,
        "bin/spark-submit": False,
        f"{packages}/crosswind/spark/daemon.py": True,
        f"{packages}/pyarrow/lib.so": True,
        "bin/python": True,
    }.items():
        assert is_sent != any(fnmatch(path, pattern) for pattern in patterns), path
    assert {"--master", "yarn", "--verbose", "spark.sql.shuffle.partitions=8"} <= set(calls)
    assert not (tmp_path / "environment").exists()


def test_environments_of_other_pyspark_versions_have_what_is_locked_but_pyspark():
    script = runpy.run_path(str(ROOT / "scripts" / "test-spark-versions"))
    locked = {line.partition("==")[0] for line in script["requirements"]().splitlines() if "==" in line}
    assert locked >= {"numba", "numpy", "pandas", "protobuf", "pyarrow", "sqlglot", "grpcio", "zstandard"}
    assert not locked & {"pyspark", "py4j", "pytest"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    assert {re.match(r"[\w-]+", text)[0] for text in needed} - locked == {"pyspark"}
