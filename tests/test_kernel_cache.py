"""Generated source and machine code on disk: many processes, no room to write, named by content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crosswind.kernel.jit import cache_folder, load_source

_SOURCE = '''"""A kernel for tests."""

from crosswind.kernel.jit import jit


@jit("int64(int64)")
def twice(value):
    return 2 * value
'''

_QUERY = """
import json, sys
import crosswind as cw
from crosswind.kernel.jit import cache_folder
result = cw.run("SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE R.x BETWEEN S.a - 1 AND S.a + 1",
                {"R": {"x": [1, 5], "ts": [1, 1]}, "S": {"a": [2, 9], "ts": [1, 1]}})
made = [m for name, m in sys.modules.items() if name.startswith("crosswind_kernel_")]
functions = [f for m in made for f in vars(m).values() if hasattr(f, "stats") and f.__module__ == m.__name__]
print(json.dumps({
    "rows": result.to_pylist(),
    "folder": str(cache_folder()),
    "hits": sum(sum(f.stats.cache_hits.values()) for f in functions),
    "misses": sum(sum(f.stats.cache_misses.values()) for f in functions),
}))
"""


def start(folder: Path, temporary: Path) -> subprocess.Popen:
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "CROSSWIND_CACHE_DIR": str(folder), "TMPDIR": str(temporary)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _QUERY], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def outcome(process: subprocess.Popen) -> dict:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors.decode()
    told = json.loads(output)
    assert told["rows"] == [{"x": 1, "a": 2}]
    return told


def test_eight_processes_compile_the_same_query_at_once(tmp_path):
    cache = tmp_path / "cache"
    told = [outcome(process) for process in [start(cache, tmp_path / "tmp") for _ in range(8)]]
    assert {entry["folder"] for entry in told} == {str(cache / "kernels")}
    sources = {path: path.stat().st_mtime_ns for path in (cache / "kernels").glob("*.py")}
    assert sources
    assert not list((cache / "kernels").glob("*.tmp")), "nothing is left aside"
    after = outcome(start(cache, tmp_path / "tmp"))
    assert after["hits"] > 0
    assert after["misses"] == 0, "a later process compiles nothing"
    assert {path: path.stat().st_mtime_ns for path in sources} == sources, "files are written once"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    told = outcome(start(blocked, tmp_path / "tmp"))
    assert Path(told["folder"]).parent == tmp_path / "tmp"


def test_generated_source_is_named_by_its_content():
    source = _SOURCE
    module = load_source(source)
    assert load_source(source) is module
    assert Path(module.__file__).parent == cache_folder()
    assert Path(module.__file__).read_text() == source
    other = load_source(source.replace("for tests", "for a test"))
    assert other.__name__ != module.__name__
    assert sys.modules[module.__name__] is module
    assert module.twice.__module__ == module.__name__


def test_source_that_fails_leaves_no_module_behind():
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load_source('"""Fails."""\n1 / 0\n')
    assert not [name for name in set(sys.modules) - before if name.startswith("crosswind_kernel_")]
