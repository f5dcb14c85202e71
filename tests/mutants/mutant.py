"""What a mutant is, and how it is put into a copy of the source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["PACKAGE", "ROOT", "Mutant", "mutants_of", "position"]

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path("src") / "crosswind"


@dataclass(frozen=True)
class Mutant:
    """A fault in the source that some test must notice.

    Parameters
    ----------
    name : str
        How it is called, after its room: ``window-end``.
    file : str
        The file of its room, such as ``axis.py``.
    old, new : str
        What stands there, exactly once, and what it is replaced with.
    why : str
        What would go wrong for a user.
    tests : str
        The tests that should notice, most likely ones first: ids below ``tests``, separated by blanks.
    equivalent : str
        If no test can notice: why nothing goes wrong.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: str
    equivalent: str = ""
    room: str = ""

    @property
    def path(self) -> Path:
        """The file below the root of the repository."""
        return PACKAGE / self.room / self.file

    @property
    def test_ids(self) -> list[str]:
        """The tests as pytest wants them."""
        return [f"tests/{test}" for test in self.tests.split()]

    def fault(self, root: Path) -> str:
        """Return what is wrong with this entry, nothing if it is up to date."""
        path = root / self.path
        if not path.is_file():
            return f"{self.path} is not there"
        count = path.read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"its old text stands {count} times in {self.path}, not once"
        return ""

    def apply(self, root: Path) -> None:
        """Put the fault into the copy of the repository at ``root``."""
        path = root / self.path
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


def mutants_of(room: str, entries: list[Mutant]) -> list[Mutant]:
    """Return the entries of one room, under its name."""
    return [replace(entry, room=room, name=f"{room}/{entry.name}") for entry in entries]


def position(mutant: Mutant, root: Path) -> str:
    """Return file and line of the fault."""
    text = (root / mutant.path).read_text(encoding="utf-8")
    return f"{mutant.path}:{text[: max(0, text.find(mutant.old))].count(chr(10)) + 1}"
