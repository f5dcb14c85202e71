"""The house rules that a machine can check: who imports whom, sizes, names, leftovers.

The reasons are in ARCHITECTURE.md (rooms) and CONTRIBUTING.md (the rest).
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "crosswind"

EVERYONE = {"errors", "clock", "loading", "folders"}
"""Modules beside the rooms that import nothing of ours and that everyone may import."""

MAY_IMPORT = {
    "errors": set(),
    "clock": set(),
    "loading": set(),
    "folders": set(),
    "query": EVERYONE,
    "plan": EVERYONE | {"query"},
    "window": EVERYONE | {"query", "plan"},
    "kernel": EVERYONE | {"query", "plan"},
    "io": EVERYONE | {"query", "plan", "window"},
    "engine": EVERYONE | {"query", "plan", "window", "kernel", "io"},
    "spark": EVERYONE | {"query", "plan", "window", "kernel", "io", "engine"},
    "lab": EVERYONE | {"query", "plan", "window", "kernel", "io", "engine", "testing", "bench"},
    "bench": EVERYONE | {"query", "plan", "window", "kernel", "io", "engine", "spark"},
    "testing": EVERYONE | {"io"},
    "monitor": EVERYONE,
    "cli": EVERYONE
    | {"query", "plan", "window", "kernel", "io", "engine", "spark", "lab", "bench", "testing", "monitor", "crosswind"},
    # The public face, which loads the rest on first use.
    "crosswind": EVERYONE | {"query", "plan", "engine", "spark", "testing"},
    "__main__": {"cli"},
}
"""Which rooms a room may import, besides itself.

One direction only: `query <- plan <- {window, kernel} <- engine <- spark <- bench <- lab <- cli`.
"""

ONLY_IN = {
    "numba": {"kernel"},
    "llvmlite": {"kernel"},
    "sqlglot": {"query"},
    "pyspark": {"spark"},
    "click": {"cli"},
    "rich": {"cli"},
    "pandas": {"spark"},
    "polars": {"bench"},
    "prometheus_client": {"monitor"},
    "duckdb": {"bench"},
    "matplotlib": {"lab"},
    "pytest": set(),
    "hypothesis": set(),
}
"""Libraries that only some rooms may import."""

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
CODE_STRING_LINES_MAX = 40
KERNEL_IMPORTS_INSIDE_MAX = 4
FORBIDDEN_NAMES = re.compile(r"utils?|helpers?|managers?|core|common|misc", re.IGNORECASE)


@cache
def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    return {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield what a file imports, wherever in it, with the line: modules, and names that may be modules."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            yield node.module or "", node.lineno
            for alias in node.names:
                if f"{node.module}.{alias.name}" in modules():
                    yield f"{node.module}.{alias.name}", node.lineno


def generated_imports(path: Path) -> list[str]:
    """Return what source that a file generates imports: such lines stand in it as strings."""
    strings = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)]
    found = [re.findall(r"(?:from|import) (crosswind[\w.]*)", text) for text in strings if isinstance(text, str)]
    return [module for some in found for module in some]


def python_files() -> list[Path]:
    folders = [PACKAGE, ROOT / "tests", ROOT / "examples"]
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_is_known():
    unknown = {room(module) for module in modules()} - set(MAY_IMPORT)
    assert not unknown, f"not in the plan of the house: {sorted(unknown)}. Add to MAY_IMPORT and ARCHITECTURE.md."


def test_rooms_import_only_what_lies_below_them():
    wrong = []
    for module, path in modules().items():
        here = room(module)
        for imported, line in imports(path):
            if imported.partition(".")[0] != "crosswind" or room(imported) == here:
                continue
            # `from crosswind import x` names the package as well as the room x.
            if imported == "crosswind" and here in ("cli", "crosswind"):
                continue
            if room(imported) not in MAY_IMPORT[here]:
                wrong.append(f"{short(path)}:{line}: {here} must not import {imported}")
    assert not wrong, "\n".join(wrong)


def test_libraries_stay_in_their_rooms():
    wrong = []
    for module, path in modules().items():
        for imported, line in imports(path):
            library = imported.partition(".")[0]
            allowed = ONLY_IN.get(library)
            if allowed is not None and room(module) not in allowed:
                where = ", ".join(sorted(allowed)) or "tests"
                wrong.append(f"{short(path)}:{line}: {library} belongs to {where}, not to {room(module)}")
    assert not wrong, "\n".join(wrong)


def test_the_oracle_shares_no_code_with_its_subject():
    for name in ("oracle.py", "cases.py", "expressions.py", "streams.py"):
        path = ROOT / "tests" / name
        shared = [f"{short(path)}:{line}" for imported, line in imports(path) if imported.startswith("crosswind")]
        assert not shared, f"imports crosswind: {shared}"


def test_every_module_is_used():
    """Each can be reached by imports from the public face, the command line, the tests or generated source."""
    reached: set[str] = set()
    waiting = ["crosswind", "crosswind.__main__", "crosswind.cli.main"]
    for path in (ROOT / "tests").rglob("*.py"):
        waiting += [imported for imported, _ in imports(path)]
    while waiting:
        module = waiting.pop()
        parent = module.rpartition(".")[0]
        if module in modules() and module not in reached:
            reached.add(module)
            waiting += [parent] if parent else []
            waiting += [imported for imported, _ in imports(modules()[module])]
            waiting += generated_imports(modules()[module])
    dead = sorted(short(modules()[module]) for module in set(modules()) - reached)
    assert not dead, f"nothing imports {dead}. Code that is no longer used goes."


def test_functions_fit_on_a_screen():
    """Docstrings do not count: documentation need not be short."""
    long = []
    for path in python_files():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                documentation = node.body[0]
                lines -= (documentation.end_lineno or documentation.lineno) - documentation.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{short(path)}:{node.lineno}: {node.name} has {lines} lines")
    assert not long, f"at most {FUNCTION_LINES_MAX} lines:\n" + "\n".join(long)


def test_files_fit_in_the_head():
    counts = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    long = {path: count for path, count in counts.items() if count > FILE_LINES_MAX}
    assert not long, f"at most {FILE_LINES_MAX} lines: {long}"


def documentation(path: Path) -> set[int]:
    """Return the docstrings of a file, and strings that stand below what they document."""
    expressions = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)]
    return {id(value) for value in expressions if isinstance(value, ast.Constant)}


def is_data(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def test_code_is_not_kept_in_strings():
    """No editor, linter or type checker sees it there. What has to be generated is put together from small pieces."""
    long = []
    for path in modules().values():
        known = documentation(path)
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in known:
                continue
            lines = node.value.count("\n")
            if lines > CODE_STRING_LINES_MAX and not is_data(node.value):
                long.append(f"{short(path)}:{node.lineno}: {lines} lines")
    assert not long, f"at most {CODE_STRING_LINES_MAX} lines:\n" + "\n".join(long)


def test_kernels_are_imported_at_the_top():
    """They cost nothing until they are compiled (:mod:`crosswind.kernel.jit`)."""
    inside = [
        f"{short(path)}:{node.lineno}"
        for path in modules().values()
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crosswind.kernel")
    ]
    assert len(inside) <= KERNEL_IMPORTS_INSIDE_MAX, "\n".join(inside)


def test_names_come_from_the_domain():
    named = [*python_files(), *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    vague = [short(path) for path in named if any(FORBIDDEN_NAMES.fullmatch(word) for word in path.stem.split("_"))]
    vague += [
        f"{short(path)}:{node.lineno}: {node.name}"
        for path in python_files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and re.search(r"(Utils?|Helper|Manager|Core)$", node.name)
    ]
    assert not vague, f"a name says what a thing is for: {vague}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_module_says_what_it_is(module):
    assert ast.get_docstring(tree(modules()[module])), f"{short(modules()[module])} needs a docstring"


def tracked_files() -> list[Path]:
    """Return the files that are, or would be, in the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_of_a_particular_machine_is_in_the_repository():
    # Written so that this file does not contain what it looks for.
    place = re.compile(r"(?<![\w.}])/(home|root|Users|work|opt/wheels)(?=/)")
    registry = re.compile("pypi[.]org|python" + "hosted|find-" + "links|--(extra-)?" + "index-url", re.IGNORECASE)
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if place.search(line) or (registry.search(line) and path.name not in ("lock", "test_tidy.py")):
                found.append(f"{short(path)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_scripts_can_be_run():
    for path in [ROOT / ".ci" / "run", *(p for p in (ROOT / "scripts").iterdir() if not p.suffix)]:
        assert path.stat().st_mode & 0o111, f"{short(path)} is not executable"


def classes() -> dict[str, list[tuple[Path, ast.ClassDef]]]:
    """Return the classes of the package by name."""
    found: dict[str, list[tuple[Path, ast.ClassDef]]] = {}
    for path in modules().values():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((path, node))
    return found


def test_a_name_means_one_class():
    twice = {name: [short(path) for path, _ in where] for name, where in classes().items() if len(where) > 1}
    assert not twice, f"classes of one name in {twice}; readers look for them by name"


def test_the_architecture_names_what_there_is():
    """Files, classes and methods that ARCHITECTURE.md walks through."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    known = classes()
    missing = [file for file in re.findall(r"[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py\b", text) if not _is_there(file)]
    for name, method in re.findall(r"^\s*\|?\s*([A-Z]\w+)(?:\.(\w+))?  ", text, re.MULTILINE):
        methods = {
            node.name
            for _, found in known.get(name, [])
            for node in ast.walk(found)
            if isinstance(node, ast.FunctionDef)
        }
        if name not in known or (method and method not in methods):
            missing.append(f"{name}.{method}")
    missing += [
        name
        for name in re.findall(r"\[([A-Z][A-Za-z]+)(?=[\]:])(?!\]\()", text)
        if name not in known and not name.isupper()
    ]
    assert not missing, f"ARCHITECTURE.md names {missing}"


def _is_there(file: str) -> bool:
    return any((folder / file).is_file() for folder in (ROOT, ROOT / "src", ROOT / "src" / "crosswind"))
