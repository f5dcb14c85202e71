"""The frame of the lab: papers, figures as files, the page, the command line."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from crosswind.cli.main import crosswind
from crosswind.errors import InputError
from crosswind.lab.figure import Figure, Series
from crosswind.lab.page import number, write_page
from crosswind.lab.papers import PAPERS, Paper, papers_here, the_paper
from crosswind.lab.report import as_csv, make_report, save_figure
from crosswind.lab.theatre import theatre

FIGURE = Figure(
    "celljoin",
    "figure-0",
    "A <title> & more",
    "it grows",
    "cores",
    "tuples/s",
    (
        Series("ours", (1.0, 2.0), (10.0, 19.5), "measured"),
        Series("ours", (4.0, 8.0), (38.0, 70.0), "simulated"),
        Series("theirs", (4.0, 8.0), (30.0, 60.0), "published"),
    ),
    "doubles",
    "faster",
    "crosswind lab run celljoin figure-0",
    log_x=True,
    notes=("off by 3 %",),
)
MACHINE = {
    "processor": "a processor",
    "cores": 2,
    "vectors": ["avx2"],
    "memory_gb": 1.0,
    "system": "Linux",
    "python": "3.11",
    "versions": {"crosswind": "0"},
    "load_average_1min": 0.0,
}


class Outline(HTMLParser):
    """What a page refers to, and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given["id"]} if given.get("id") else set()
        if tag == "a":
            self.links.append(given["href"])
        self.outside += [given[name] for name in ("src",) if given.get(name)]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):  # noqa: ARG002 - html.parser's signature
        self.anchors |= {dict(attrs)["id"]} if dict(attrs).get("id") else set()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another"


class Fake(Paper):
    """A paper whose experiments cost nothing."""

    @property
    def experiments(self):
        return {"figure-0": lambda _: FIGURE}


def test_every_paper_says_its_claim_and_what_is_not_shown():
    assert papers_here()
    for paper in papers_here():
        assert len(paper.claim) > 80, paper.folder
        assert all(name and why for name, why in paper.not_shown)


def test_a_paper_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"no paper 'celljon'.*celljoin"):
        the_paper("celljon")
    with pytest.raises(InputError, match="'figure-99' is no figure of celljoin; there are: figure-7"):
        the_paper("celljoin").run(True, "figure-99")
    assert not Paper("nowhere", "", "").is_here


def test_a_figure_is_written_as_png_csv_and_json(tmp_path):
    png, table, points = save_figure(FIGURE, tmp_path / "new")
    assert png.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.reader(io.StringIO(table.read_text())))
    assert rows[0] == ["series", "source", "cores", "tuples/s"]
    assert rows[4] == ["ours", "simulated", "8.0", "70.0"]
    assert len(rows) == 7
    assert json.loads(points.read_text())["series"][1]["source"] == "simulated"
    assert as_csv(FIGURE) == table.read_text()


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    page = make_report([Fake("celljoin", "CellJoin", "someone")], tmp_path, quick=True, tell=lambda _: None)
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert not outline.open
    assert not outline.outside
    # Namespaces are names; nothing is fetched from there.
    assert not re.search(r'(?:href|src)="https?://|url\(http|@import', text)
    assert {link.lstrip("#") for link in outline.links} <= outline.anchors
    for said in ("A &lt;title&gt; &amp; more", "doubles", "off by 3 %", "Not shown, and why", "simulated"):
        assert said in text
    assert (tmp_path / "figures" / "celljoin-figure-0.png").exists()
    assert json.loads((tmp_path / "report.json").read_text())["figures"][0]["name"] == "figure-0"


def test_a_claim_that_a_run_does_not_show_is_not_called_agreement():
    missed = Figure(**{**vars(FIGURE), "holds": False})
    for figure, said in ((FIGURE, "<b>Agrees</b>"), (missed, "<b>Not seen in this run</b>")):
        page = write_page([(Fake("celljoin", "CellJoin", ""), [figure])], MACHINE, {"sizes": "quick"}, theatre())
        assert said in page
    assert "<b>Agrees</b>" not in page


def test_plots_on_one_page_do_not_share_names():
    other = Figure(**{**vars(FIGURE), "name": "figure-1"})
    page = write_page([(Fake("celljoin", "CellJoin", ""), [FIGURE, other])], MACHINE, {"sizes": "quick"}, theatre())
    clips = re.findall(r'<clipPath id="([^"]+)"', page)
    assert clips
    assert len(clips) == len(set(clips))


@pytest.mark.parametrize(("value", "said"), [(3.0, "3"), (1234.5, "1234"), (0.012345, "0.01235"), (1e6, "1,000,000")])
def test_numbers_are_short(value, said):
    assert number(value) == said


def test_list_names_papers_figures_and_what_is_not_shown():
    done = CliRunner().invoke(crosswind, ["lab", "list"])
    assert done.exit_code == 0, done.output
    assert "celljoin: Gedik" in done.output
    assert "not shown  figure-8: cycles an instruction" in done.output
    listed = json.loads(CliRunner().invoke(crosswind, ["lab", "list", "--json"]).output)
    assert [entry["paper"] for entry in listed] == [paper.folder for paper in PAPERS if paper.is_here]


def test_run_tells_what_it_cannot_run():
    done = CliRunner().invoke(crosswind, ["lab", "run", "cell"])
    assert done.exit_code == 1
    assert "the lab has no paper 'cell'" in done.output


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from crosswind.lab.draw import as_png\nfrom crosswind.lab.figure import Figure\n"
        "as_png(Figure('p', 'n', '', '', '', '', (), '', '', ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'crosswind[lab]'" in done.stderr


@pytest.mark.parametrize("paper", papers_here(), ids=lambda paper: paper.folder)
def test_every_experiment_is_named_by_its_figure(paper):
    assert paper.experiments
    shown, left_out = set(paper.experiments), {name for name, _ in paper.not_shown}
    assert not shown & left_out
