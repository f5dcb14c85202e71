"""Machine code on disk: many processes, no room to write, damaged files, and files that others planted."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import crosswind as cw
from crosswind.folders import cache_root, distrust, make_private, read_trusted
from crosswind.kernel import store
from crosswind.kernel.jit import load_source
from crosswind.kernel.store import cache_folder, fingerprint
from tests.conftest import ENGINES, pytest_collection_modifyitems, use_kernel_cache

_SOURCE = '''"""A kernel for tests."""

from crosswind.kernel.jit import jit


@jit("int64(int64)")
def twice(value):
    return 2 * value
'''

_QUERY = """
import crosswind as cw
def rows():
    return cw.run("SELECT R.x, S.a FROM R [RANGE 5], S [RANGE 5] WHERE R.x BETWEEN S.a - 1 AND S.a + 1",
                  {"R": {"x": [1, 5], "ts": [1, 1]}, "S": {"a": [2, 9], "ts": [1, 1]}}).num_rows == 1
"""

_KERNEL = f"""
from crosswind.kernel.jit import load_source
def rows():
    return load_source({_SOURCE!r}).twice(21) == 42
"""
"""Compiled in no time, for tests that are not about queries."""

_TOLD = """
import json, os, sys
from crosswind.kernel.store import cache_folder
assert rows()
made = [m for name, m in sys.modules.items() if name.startswith("crosswind_kernel_")]
functions = [f for m in made for f in vars(m).values() if hasattr(f, "stats") and f.__module__ == m.__name__]
print(json.dumps({
    "folder": str(cache_folder()),
    "hits": sum(sum(f.stats.cache_hits.values()) for f in functions),
    "misses": sum(sum(f.stats.cache_misses.values()) for f in functions),
}))
"""

_FORKS = """
import os
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        os._exit(0 if rows() else 1)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0], codes
"""


def start(folder: Path, temporary: Path, program: str = _KERNEL, filters: tuple[str, ...] = ("-W", "error")):
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "CROSSWIND_CACHE_DIR": str(folder), "TMPDIR": str(temporary)}
    command = [sys.executable, *filters, "-c", program + _TOLD]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outcome(process: subprocess.Popen) -> dict:
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors.decode()
    return json.loads(output) | {"errors": errors.decode()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """Return a folder with a kernel in it, to be copied."""
    folder = tmp_path_factory.mktemp("filled") / "cache"
    assert outcome(start(folder, folder.parent / "tmp"))["misses"] > 0
    return folder


@pytest.fixture
def cache(filled, tmp_path) -> Path:
    """Return a copy of that folder."""
    return Path(shutil.copytree(filled, tmp_path / "cache"))


# -- many processes -------------------------------------------------------------------------------


def test_eight_processes_compile_the_same_query_at_once(tmp_path):
    cache = tmp_path / "cache"
    told = [outcome(process) for process in [start(cache, tmp_path / "tmp", _QUERY) for _ in range(8)]]
    assert {entry["folder"] for entry in told} == {str(cache / "kernels")}
    kept = {path: path.stat().st_mtime_ns for path in (cache / "kernels").iterdir()}
    assert {path.suffix for path in kept} == {".kernel"}, "nothing is left aside"
    assert sum(entry["misses"] for entry in told) < 4 * len(kept), "they wait for one another"
    after = outcome(start(cache, tmp_path / "tmp", _QUERY))
    assert after["hits"] > 0
    assert after["misses"] == 0, "a later process compiles nothing"
    assert {path: path.stat().st_mtime_ns for path in (cache / "kernels").iterdir()} == kept, "files are written once"


def test_forked_processes_share_what_was_compiled(tmp_path):
    outcome(start(tmp_path / "cache", tmp_path / "tmp", _KERNEL + _FORKS))
    assert outcome(start(tmp_path / "cache", tmp_path / "tmp"))["misses"] == 0
    assert not list((tmp_path / "tmp").iterdir())


def test_folders_are_made_for_this_user_alone(tmp_path):
    folder = tmp_path / "a" / "b" / "c"
    before = os.umask(0)
    try:
        make_private(folder)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder, *folder.parents[:2])] == [0o700] * 3


# -- no folder to be had --------------------------------------------------------------------------


def in_the_way(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    told = outcome(start(in_the_way(tmp_path), tmp_path / "tmp"))
    assert told["folder"] == "None"
    assert not list((tmp_path / "tmp").iterdir()), "nothing is written anywhere else"


def test_forked_processes_without_a_cache_leave_nothing_behind(tmp_path):
    told = outcome(start(in_the_way(tmp_path), tmp_path / "tmp", _KERNEL + _FORKS))
    assert told["folder"] == "None"
    assert not list((tmp_path / "tmp").iterdir())


def test_folders_of_a_predictable_name_are_not_touched(tmp_path):
    """Such a folder among the temporary ones was taken for our own once, whoever had made it."""
    made = f"name = '{tmp_path}/tmp/crosswind-kernels-%d-%d' % (os.getuid(), os.getpid())\nos.mkdir(name)\n"
    program = f"import os\n{made}{_KERNEL}assert rows() and os.listdir(name) == []\n"
    outcome(start(in_the_way(tmp_path), tmp_path / "tmp", program))


def test_a_user_without_a_home_compiles_for_itself(monkeypatch):
    monkeypatch.delenv("CROSSWIND_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(lambda _: (_ for _ in ()).throw(RuntimeError("no home"))))
    assert cache_root() is None
    assert cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/not/allowed")
    assert cache_root() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/of/a/user")
    assert cache_root() == Path("/var/cache/of/a/user/crosswind")


# -- folders and files of others ------------------------------------------------------------------


class Planted:
    """An object whose pickle, when it is read, leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def plant(folder: Path, trace: Path) -> None:
    """Put code into every file of machine code, checksum and all."""
    body = pickle.dumps(Planted(trace))
    for path in folder.glob("*.kernel"):
        path.write_bytes(store._FORMAT + hashlib.sha256(body).digest() + body)


def test_what_is_planted_would_run_if_it_were_trusted(cache, tmp_path):
    """So that the tests below can fail: with the rights of this user, anything goes."""
    plant(cache / "kernels", tmp_path / "ran")
    outcome(start(cache, tmp_path / "tmp"))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["kernels", ".", ".."], ids=["the folder", "its parent", "above"])
def test_a_folder_that_others_may_write_is_not_used(cache, tmp_path, where):
    inner = tmp_path / "inner"
    inner.mkdir()
    cache = cache.rename(inner / "cache")
    plant(cache / "kernels", tmp_path / "ran")
    wide = (cache / where).resolve()
    wide.chmod(0o777)
    told = outcome(start(cache, tmp_path / "tmp", filters=()))
    assert not (tmp_path / "ran").exists()
    assert (told["folder"], told["hits"]) == ("None", 0)
    assert told["errors"].count("CrosswindWarning") == 1, "said once a process"
    assert (
        f"Compiled queries are not kept in {cache}/kernels: other users may write to {wide} (its mode is 0777). What "
        "others can write there would be run. Each process compiles for itself meanwhile. Take the right to write "
        "there from others (chmod go-w), or name a folder of your own in CROSSWIND_CACHE_DIR."
    ) in told["errors"]


def test_a_sticky_folder_above_is_no_danger(tmp_path):
    tmp_path.chmod(0o1777)
    make_private(tmp_path / "cache" / "kernels")
    assert distrust(tmp_path / "cache" / "kernels") is None
    (tmp_path / "cache" / "kernels").chmod(0o1777)
    assert "may write to" in distrust(tmp_path / "cache" / "kernels")


def give_away(path: Path, monkeypatch) -> int:
    """Make ``path`` another user's than the one who runs; return that one."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1, follow_symlinks=False)
    else:
        owner = path.lstat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    return path.lstat().st_uid


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    other = give_away(folder, monkeypatch)
    assert f"belongs to user {other}, and this is user {os.geteuid()}" in distrust(folder)
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))
    with pytest.warns(cw.CrosswindWarning, match=f"belongs to user {other}"):
        assert cache_folder() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_folder() is None


def test_links_are_followed_to_folders_that_are_safe_all_the_way(tmp_path, monkeypatch):
    safe, wide = tmp_path / "safe", tmp_path / "wide"
    (safe / "kernels").mkdir(parents=True, mode=0o700)
    (wide / "kernels").mkdir(parents=True)
    wide.chmod(0o777)
    (safe / "to_wide").symlink_to("../wide")
    (safe / "to_safe").symlink_to(safe)
    (wide / "to_safe").symlink_to(safe)
    (safe / "loop").symlink_to("loop")
    assert distrust(safe / "to_safe" / "to_safe" / "kernels") is None
    assert distrust(safe / "to_wide" / ".." / "safe" / "kernels") is not None
    assert f"may write to {wide}" in distrust(safe / "to_wide" / "kernels")
    assert f"may write to {wide}" in distrust(wide / "to_safe" / "kernels"), "the link can be exchanged"
    assert "is a link of" in distrust(safe / "loop")
    tmp_path.chmod(0o1777)
    (tmp_path / "link").symlink_to(safe)
    assert distrust(tmp_path / "link" / "kernels") is None
    other = give_away(tmp_path / "link", monkeypatch)
    assert f"{other}" in distrust(tmp_path / "link" / "kernels")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o620, 0o602])
def test_a_file_that_others_may_write_is_not_read(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(mode)
    assert read_trusted(path) == (None if mode & 0o022 else b"content")


def test_files_that_are_not_ours_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert read_trusted(path) == b"content"
    assert read_trusted(tmp_path / "link") is None
    assert read_trusted(tmp_path / "pipe") is None, "and nobody waits for it"
    assert read_trusted(tmp_path) is None
    assert read_trusted(tmp_path / "missing") is None
    give_away(path, monkeypatch)
    assert read_trusted(path) is None


def test_a_private_group_may_write(tmp_path, monkeypatch):
    import grp
    import pwd

    user = pwd.getpwuid(os.geteuid())
    tmp_path.chmod(0o775)
    group = tmp_path.stat().st_gid
    owner = pwd.struct_passwd((user.pw_name, "x", user.pw_uid, group, *user[4:]))

    def members(*names: str, called: str = user.pw_name):
        monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group((called, "x", group, list(names))))

    monkeypatch.setattr(pwd, "getpwuid", lambda _: owner)
    members()
    assert distrust(tmp_path) is None
    members(user.pw_name, "somebody")
    assert "may write to" in distrust(tmp_path)
    members(called="staff")
    assert "may write to" in distrust(tmp_path)


# -- damaged files --------------------------------------------------------------------------------


def cut_short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    at = random.Random(7).randrange(100, len(content))
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES = {
    "cut short": cut_short,
    "empty": lambda _: b"",
    "only a head": lambda content: content[:30],
    "a flipped bit": flipped,
    "garbage": lambda content: random.Random(8).randbytes(len(content)),
    "more at the end": lambda content: content + b"x",
    "of another format": lambda content: content.replace(b"kernel 1", b"kernel 0", 1),
}


def loaded_again(folder: Path) -> int:
    """Load the kernel of these tests as a new process would; return how often the disk had it."""
    sys.modules.pop(load_source(_SOURCE).__name__)
    module = load_source(_SOURCE)
    assert module.twice(21) == 42
    assert len(list(folder.iterdir())) == 1
    return sum(module.twice.stats.cache_hits.values())


@pytest.fixture
def one_file(tmp_path, monkeypatch) -> Path:
    """Return the file of a kernel, in a folder of its own."""
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))
    sys.modules.pop(load_source(_SOURCE).__name__)
    load_source(_SOURCE)
    (path,) = (tmp_path / "kernels").iterdir()
    assert loaded_again(path.parent) == 1
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_made_anew(one_file, damage):
    one_file.write_bytes(DAMAGES[damage](one_file.read_bytes()))
    assert loaded_again(one_file.parent) == 0
    assert loaded_again(one_file.parent) == 1, "the damage is gone"


def test_any_flipped_bit_is_noticed(one_file):
    whole, rng = one_file.read_bytes(), random.Random(9)
    for _ in range(40):
        at = rng.randrange(len(whole))
        one_file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        assert loaded_again(one_file.parent) == 0, f"byte {at}"


def test_a_file_of_another_user_is_replaced(one_file, monkeypatch):
    with monkeypatch.context() as patch:
        if os.geteuid() == 0:
            give_away(one_file, patch)
        else:
            one_file.chmod(0o666)
        assert loaded_again(one_file.parent) == 0
    assert one_file.stat().st_uid == os.geteuid()
    assert loaded_again(one_file.parent) == 1


@pytest.mark.parametrize("body", [pickle.dumps(("some key", 5)), b"\x80\x04cno.such.module\nnothing\n."])
def test_what_cannot_be_loaded_is_made_anew(one_file, body):
    """A file that is whole and ours, but holds something else: another function, an old class."""
    one_file.write_bytes(store._FORMAT + hashlib.sha256(body).digest() + body)
    assert loaded_again(one_file.parent) == 0
    assert loaded_again(one_file.parent) == 1


def test_a_folder_in_place_of_a_file_is_done_without(one_file):
    one_file.unlink()
    one_file.mkdir()
    assert loaded_again(one_file.parent) == 0


def test_a_later_process_survives_damage(cache, tmp_path):
    (path,) = (cache / "kernels").iterdir()
    path.write_bytes(cut_short(path.read_bytes()))
    assert outcome(start(cache, tmp_path / "tmp"))["hits"] == 0
    assert outcome(start(cache, tmp_path / "tmp"))["misses"] == 0


def test_who_waits_for_another_process_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_WAIT_S", 0.1)
    sys.modules.pop(load_source(_SOURCE).__name__)
    module = load_source(_SOURCE)
    (path,) = (tmp_path / "kernels").iterdir()
    path.unlink()
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sys.modules.pop(module.__name__)
        assert load_source(_SOURCE).twice(4) == 8
    assert [entry.suffix for entry in path.parent.iterdir()] == [".kernel"]


# -- what decides machine code --------------------------------------------------------------------


def test_generated_source_is_named_by_its_content():
    source = _SOURCE
    module = load_source(source)
    assert load_source(source) is module
    other = load_source(source.replace("for tests", "for a test"))
    assert other.__name__ != module.__name__
    assert sys.modules[module.__name__] is module
    assert module.twice.__module__ == module.__name__
    assert module.twice(4) == 8


def test_a_traceback_shows_the_lines_of_generated_source():
    module = load_source('"""Fails when called."""\n\n\ndef wrong(value):\n    return 1 / value  # here\n')
    try:
        module.wrong(0)
    except ZeroDivisionError:
        assert "return 1 / value  # here" in traceback.format_exc()


def test_source_that_fails_leaves_no_module_behind():
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load_source('"""Fails."""\n1 / 0\n')
    assert not [name for name in set(sys.modules) - before if name.startswith("crosswind_kernel_")]


_IMPORTS = """
import importlib, pkgutil, sys
import crosswind
for package in ("kernel.compiled", "kernel.generated", "engine"):
    folder = importlib.import_module(f"crosswind.{package}")
    for module in pkgutil.walk_packages(folder.__path__, folder.__name__ + "."):
        importlib.import_module(module.name)
loaded = {"numba", "llvmlite"} & set(sys.modules)
assert not loaded, loaded
"""


def test_kernels_are_imported_without_a_compiler():
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


_CALLS = '''"""Kernels that call each other, compiled for what they are called with."""

from crosswind.kernel.jit import jit


@jit()
def once(value):
    return value + {number}


@jit()
def twice(value):
    return once(once(value))
'''


def test_threads_that_need_a_kernel_at_once_wait_for_each_other():
    """One may be compiling a kernel that another one is about to compile for a kernel that calls it."""
    for number in range(3):
        module = load_source(_CALLS.format(number=number))
        with ThreadPoolExecutor(8) as threads:
            calls = [module.once, module.twice] * 4
            results = [threads.submit(call, 5) for call in calls]
            assert [result.result(timeout=60) for result in results] == [5 + number, 5 + 2 * number] * 4


def fresh() -> str:
    for function in (store._environment, store._closure, store.module_source):
        function.cache_clear()
    return fingerprint(_SOURCE + "from crosswind.kernel.compiled.search import start\n")


def test_the_files_that_kernels_call_decide(monkeypatch):
    before = fresh()
    called = store._closure(frozenset(["crosswind.kernel.compiled.search"]))
    assert called >= {f"crosswind.kernel.{name}" for name in ("compiled.search", "compiled.runtime", "jit")}
    for module in called:
        changed = store.module_source(module) + "\n# changed\n"
        original = store.module_source

        def text(name: str, module: str = module, changed: str = changed, original=original) -> str:
            return changed if name == module else original(name)

        with monkeypatch.context() as patch:
            patch.setattr(store, "module_source", text)
            assert fingerprint(_SOURCE + "from crosswind.kernel.compiled.search import start\n") != before, module


@pytest.mark.parametrize(
    ("owner", "name"),
    [(store.numba, "__version__"), (store.llvmlite, "__version__"), (store.np, "__version__"), (sys, "version")]
    + [(store.config, name) for name in store._DECISIVE],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_versions_and_settings_decide(monkeypatch, owner, name):
    before = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, "another", raising=False)
        assert fresh() != before
    assert fresh() == before


def test_the_processor_decides(cache, tmp_path, monkeypatch):
    """Machine code for one processor is not run on another: Numba can be told which one it has."""
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    told = outcome(start(cache, tmp_path / "tmp"))
    assert told["hits"] == 0
    monkeypatch.delenv("NUMBA_CPU_NAME")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+sse2")
    assert outcome(start(cache, tmp_path / "tmp"))["hits"] == 0
    monkeypatch.delenv("NUMBA_CPU_FEATURES")
    assert outcome(start(cache, tmp_path / "tmp"))["misses"] == 0


# -- the tests' own folder ------------------------------------------------------------------------


def test_the_folder_of_the_tests_can_be_named(tmp_path, monkeypatch):
    named, default, wide = tmp_path / "named", tmp_path / "default", tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(named))
    use_kernel_cache(default)
    assert os.environ["CROSSWIND_CACHE_DIR"] == str(named)
    assert named.stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv("CROSSWIND_CACHE_DIR")
    use_kernel_cache(default)
    assert os.environ["CROSSWIND_CACHE_DIR"] == str(default)
    monkeypatch.setenv("CROSSWIND_CACHE_DIR", str(wide))
    with pytest.raises(pytest.exit.Exception, match=f"other users may write to {wide}"):
        use_kernel_cache(default)
    monkeypatch.delenv("CROSSWIND_CACHE_DIR")
    use_kernel_cache(wide)
    assert distrust(Path(os.environ["CROSSWIND_CACHE_DIR"])) is None


def test_tests_of_a_query_stand_beside_each_other():
    class Item:
        def __init__(self, name: str, **params: object) -> None:
            self.nodeid = f"{name}[{len(params)}]"
            self.callspec = SimpleNamespace(params=params)

        def get_closest_marker(self, name: str) -> object:
            return self.callspec.params.get(name)

    one, two = ENGINES[:2]
    items = [Item("f", engine=one, seed=0), Item("f", engine=one, seed=1), Item("f", engine=two, seed=0), Item("g")]
    items += [Item("g", spark=True)]
    ordered = list(items)
    pytest_collection_modifyitems(ordered)
    assert ordered == [items[4], items[0], items[2], items[1], items[3]]
