"""The frame of the lab: papers, figures as files, the page, the command line."""

from __future__ import annotations

import csv
import dataclasses
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
from crosswind.lab import page as page_module
from crosswind.lab import report
from crosswind.lab.figure import Figure, Series
from crosswind.lab.page import number, write_page
from crosswind.lab.papers import PAPERS, Paper, papers_here, the_paper
from crosswind.lab.report import as_csv, make_report, save_figure
from crosswind.lab.setting import Experiment, Setting
from crosswind.lab.theatre import theatre
from crosswind.lab.verdict import compare

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
        Series("a formula", (4.0, 8.0), (38.0, 70.0), "computed"),
        Series("theirs", (4.0, 8.0), (30.0, 60.0), "published", "section 4"),
    ),
    (compare("doubles", 1.9, low=1.5, published="2 times", place="section 4", unit=" times"),),
    "faster",
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
        return {"figure-0": Experiment(lambda _: FIGURE, lambda found: found)}


def test_every_paper_says_its_claim_and_what_is_not_shown():
    assert papers_here()
    for paper in papers_here():
        assert len(paper.claim) > 80, paper.folder
        assert all(name and why for name, why in paper.not_shown)


def test_a_paper_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"no paper 'celljon'.*celljoin"):
        the_paper("celljon")
    with pytest.raises(InputError, match="'figure-99' is no figure of celljoin; there are: figure-7"):
        the_paper("celljoin").run(Setting(quick=True), "figure-99")
    assert not Paper("nowhere", "", "").is_here


def test_a_figure_is_written_as_csv_json_and_png(tmp_path):
    table, points, png = save_figure(FIGURE, tmp_path / "new", MACHINE, Setting(quick=True, seed=7))
    assert png.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.reader(io.StringIO(table.read_text())))
    assert rows[0] == ["series", "source", "place", "cores", "tuples/s"]
    assert rows[4] == ["ours", "simulated", "", "8.0", "70.0"]
    assert rows[-1] == ["theirs", "published", "section 4", "8.0", "60.0"]
    assert len(rows) == 9
    data = json.loads(points.read_text())
    assert data["series"][1]["source"] == "simulated"
    assert data["verdict"] == data["checks"][0]["verdict"] == "agrees"
    assert data["machine"]["versions"] == {"crosswind": "0"}
    assert data["machine"]["load_average_1min"] == 0.0
    assert data["settings"]["seed"] == 7
    assert as_csv(FIGURE) == table.read_text()


def test_points_need_no_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "can_draw", lambda: False)
    monkeypatch.setattr(page_module, "can_draw", lambda: False)
    page = make_report([Fake("celljoin", "CellJoin", "someone")], tmp_path, Setting(quick=True), tell=lambda _: None)
    assert "Plots need matplotlib" in page.read_text()
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".csv", ".json"}


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    page = make_report([Fake("celljoin", "CellJoin", "someone")], tmp_path, Setting(quick=True), tell=lambda _: None)
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert not outline.open
    assert not outline.outside
    # Namespaces are names; nothing is fetched from there.
    assert not re.search(r'(?:href|src)="https?://|url\(http|@import', text)
    assert {link.lstrip("#") for link in outline.links} <= outline.anchors
    for said in ("A &lt;title&gt; &amp; more", "doubles", "off by 3 %", "Not shown, and why", "@inproceedings"):
        assert said in text
    assert (tmp_path / "figures" / "celljoin-figure-0.png").exists()
    assert json.loads((tmp_path / "report.json").read_text())["figures"][0]["name"] == "figure-0"


def test_the_page_opens_with_what_the_papers_state_and_the_verdicts():
    page = write_page([(Fake("celljoin", "CellJoin", ""), [FIGURE])], MACHINE, {"sizes": "quick"}, theatre())
    summary = page[page.index('id="verdicts"') : page.index("</table>")]
    said = re.findall(r"<t[hd]>(.*?)</t[hd]>", summary)
    assert said[:5] == ["Paper", "Claim", "Published", "Here", "Verdict"]
    assert said[6:9] == ["doubles", "2 times<br><i>section 4</i>", "1.9 times"]
    assert ">agrees<" in said[9]
    assert "1 statements of the papers, held against runs on this machine: 1 agrees, 0 differs" in page
    assert page.index('id="verdicts"') < page.index("Processor") < page.index('id="celljoin-figure-0"')


def test_a_check_that_differs_is_shown_so_with_the_reason_of_one_that_is_open():
    checks = (compare("doubles", 1.0, low=1.5), compare("triples", 3.0, low=2.5, errors=[0.74]))
    figure = dataclasses.replace(FIGURE, checks=checks)
    page = write_page([(Fake("celljoin", "CellJoin", ""), [figure])], MACHINE, {"sizes": "quick"}, theatre())
    assert ">agrees<" not in page
    assert page.count(">differs<") == 3
    assert "the simulation misses the real engine by 74%" in page


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
    assert "not shown  figures-1-to-6: drawings" in done.output
    listed = json.loads(CliRunner().invoke(crosswind, ["lab", "list", "--json"]).output)
    assert [entry["paper"] for entry in listed] == [paper.folder for paper in PAPERS if paper.is_here]
    assert listed[2]["options"]["figure-12"] == ["cores", "segment", "buffers", "seed"]


def test_run_tells_what_it_cannot_run():
    done = CliRunner().invoke(crosswind, ["lab", "run", "cell"])
    assert done.exit_code == 1
    assert "the lab has no paper 'cell'" in done.output


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from crosswind.lab.draw import as_png\nfrom crosswind.lab.figure import Figure\n"
        "as_png(Figure('p', 'n', '', '', '', '', (), (), ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'crosswind[lab]'" in done.stderr


@pytest.mark.parametrize("paper", papers_here(), ids=lambda paper: paper.folder)
def test_every_experiment_is_named_by_its_figure(paper):
    assert paper.experiments
    shown, left_out = set(paper.experiments), {name for name, _ in paper.not_shown}
    assert not shown & left_out


def test_papers_are_cited_in_full():
    done = CliRunner().invoke(crosswind, ["lab", "cite"])
    assert done.exit_code == 0, done.output
    for paper in PAPERS[:5]:
        assert paper.bibtex in done.output
        for field in ("author", "title", "year", "pages"):
            assert re.search(rf"^  {field} +=", paper.bibtex, re.MULTILINE), paper.folder
    wrong = CliRunner().invoke(crosswind, ["lab", "cite", "nobody"])
    assert "there is no citation 'nobody'; there are: celljoin" in wrong.output


def test_run_takes_settings_and_writes_them_down(tmp_path):
    arguments = ["lab", "run", "fpga", "cores", "--quick", "--cores", "2,4", "--segment", "4", "--out", str(tmp_path)]
    done = CliRunner().invoke(crosswind, arguments)
    assert done.exit_code == 0, done.output
    assert "run with settings that are not the paper's: --cores 2,4, --segment 4" in done.output
    data = json.loads((tmp_path / "fpga-cores.json").read_text())
    assert data["settings"]["cores"] == [2, 4]
    assert data["series"][0]["x"] == [2.0, 4.0]
    assert data["command"] == "crosswind lab run fpga cores --quick --cores 2,4 --segment 4"


def test_settings_that_cannot_be_are_told():
    wrong = CliRunner().invoke(crosswind, ["lab", "run", "fpga", "clock-500k", "--rate", "5"])
    assert "--rate is not an option of this figure; its options are: --seed." in wrong.output
    wrong = CliRunner().invoke(crosswind, ["lab", "run", "fpga", "cores", "--buffers", "8"])
    assert "'8' is not 2 numbers of 1 or more" in wrong.output
    wrong = CliRunner().invoke(crosswind, ["lab", "run", "fpga", "cores", "--cores", "2,x"])
    assert "'2,x' is not numbers of 1 or more" in wrong.output
