"""Hooks of the documentation site.

Pages that live in the root of the repository, the page of the command line, which is made of the commands
themselves, and fences that name a file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
}
"""Pages of the repository's root, and where the site has them; what the README says, the first page says, too."""

LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'>\s]+""")
FENCE = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the repository's root."""
    for name, place in PROJECT.items():
        if place != "index.md":
            files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/cli.md", content=commands_page()))
    return files


COMMANDS = """# Command line

`crosswind COMMAND --help` says the same. Every command takes `--json`, and then prints JSON on standard output, for
programs. Errors go to standard error. Exit codes are 0, 1 after an error, 2 after wrong usage and 130 after Ctrl-C.
"""


def commands_page() -> str:
    """Return the page of the command line."""
    from crosswind.cli.main import crosswind

    return "\n\n".join([COMMANDS, *command_parts(crosswind, "crosswind", 1)])


def command_parts(command: click.Command, name: str, level: int) -> list[str]:
    """Return what a command and those below it say of themselves, as paragraphs."""
    context = click.Context(command, info_name=name)
    parts = []
    if level > 1:
        given = " ".join(p.make_metavar(context) for p in command.params if isinstance(p, click.Argument))
        parts.append(f"{'#' * level} {name}")
        parts += [f"`{name} {given}`"] if given else []
        parts += [" ".join(text.split()) for text in (command.help or "").split("\n\n")]
    if isinstance(command, click.Group):
        for child in sorted(command.commands):
            parts += command_parts(command.commands[child], f"{name} {child}", level + 1)
        return parts
    records = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option)]
    rows = [f"| `{left}` | {right} |".replace("||", "|") for left, right in (r for r in records if r is not None)]
    return [*parts, "\n".join(["| option | |", "|---|---|", *rows])]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at where the site has what they name, and show names of files as titles."""
    here = page.file.src_uri
    written = next((name for name, place in PROJECT.items() if place == here != "index.md"), f"docs/{here}")

    def link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(written), target))
        place = PROJECT.get(path, path.removeprefix("docs/"))
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor})"

    return FENCE.sub(r'```\1 title="\2"', LINK.sub(link, markdown))


def on_post_build(config: Any, **_: Any) -> None:
    """Refuse a site that would load anything from elsewhere: it must work without the internet."""
    for path in Path(config.site_dir).rglob("*.html"):
        found = [text for text in LOADED.findall(path.read_text(encoding="utf-8")) if 'rel="canonical"' not in text]
        if found:
            raise SystemExit(f"{path}: loads from elsewhere: {found[0]}")
