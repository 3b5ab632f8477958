"""Reports: what is refused, what fails, and what the pages hold."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pypdf
import pytest

import netperf_lib as npl
from netperf_lib.analysis.contents import Page, pages_of_several
from netperf_lib.analysis.lead import opening
from netperf_lib.data.layout import experiment_folders
from netperf_lib.errors import ReportError, UsageError
from netperf_lib.metrics import HEADLINES
from netperf_lib.reporting.execute import (
    Job,
    Notebooks,
    _book,
    _pages,
    notebooks,
    parse_parameters,
)

from ..sshd import wait_until
from . import made

FEW = (*HEADLINES, "rtt_loaded_us")
"""Metrics of the experiments here: an explorer of all takes seconds."""
NOTHING = (
    "from netperf_lib.errors import NothingToReport\nraise NothingToReport('one VM size')"
)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    return made.experiment(tmp_path_factory.mktemp("{results}"), metrics=FEW)


def notebook(folder, *sources, name="mine"):
    """A notebook with a parameters cell and the given code."""
    lines = 'experiment = "here"  # folder\nlimit = 3  # a number\nstart = 2 * 3600'
    first = nbformat.v4.new_code_cell(lines, metadata={"tags": ["parameters"]})
    cells = [nbformat.v4.new_markdown_cell("# Mine"), first]
    cells += map(nbformat.v4.new_code_cell, sources)
    place = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place)
    return place


def text(pdf):
    pages = (page.extract_text() for page in pypdf.PdfReader(pdf).pages)
    return " ".join(" ".join(pages).split())


@pytest.fixture(scope="module")
def placement(experiment):
    (made_file,) = npl.report(experiment, notebooks=["01-placement"])
    return made_file


def test_a_pdf_is_tagged_has_the_notice_and_the_same_bytes(placement, experiment):
    reader = pypdf.PdfReader(placement)
    assert all(
        "Made-up numbers for a test" in page.extract_text() for page in reader.pages
    )
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert b"pdfuaid" in root["/Metadata"].get_data()
    assert reader.metadata is not None
    assert reader.metadata.title == "Placement"
    before = placement.read_bytes()
    (again,) = npl.report(experiment, notebooks=["01-placement"])
    assert again.read_bytes() == before


def test_a_notebook_that_fails_costs_its_own_page_alone(experiment, tmp_path):
    bad = notebook(tmp_path, "x = 1", "1 / 0", "print('never seen')")
    with pytest.raises(
        ReportError, match=r"cell 4 failed: ZeroDivisionError.*mine\.ipynb"
    ) as e:
        npl.report(experiment, notebooks=[bad, "02-accelerated"])
    pdf, other, whole = e.value.reports
    assert [pdf.name, other.name, whole.name] == [
        "mine.pdf",
        "02-accelerated.pdf",
        "report.pdf",
    ]
    for page in (text(pdf), text(whole)):
        assert "This page could not be made" in page
        assert "ZeroDivisionError" in page
        assert "never seen" not in page
    assert "Accelerated networking" in text(whole)
    assert "ZeroDivisionError" in pdf.with_suffix(".ipynb").read_text("utf-8")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(0)", "cells were not executed"),
        ("import os; os._exit(3)", r"its process died \(exit code 3\)"),
    ],
)
def test_leaving_the_kernel_is_a_failure(experiment, tmp_path, code, said):
    with pytest.raises(ReportError, match=said):
        npl.report(experiment, notebooks=[notebook(tmp_path, code, "print(1)")])


def test_nothing_to_report_is_said_and_is_no_failure(experiment, tmp_path):
    book = notebook(tmp_path, NOTHING, "print('never seen')")
    (pdf,) = npl.report(experiment, notebooks=[book])
    assert "Not in this experiment: one VM size." in text(pdf)
    assert "never seen" not in text(pdf)


def test_notebooks_run_beside_their_files_with_parameters_alone(experiment, tmp_path):
    here, books = Path.cwd(), []
    for name in ("one", "{two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
        code = "import os\nprint(open('data.txt').read(), os.environ.get('LEFT'), limit, start)"
        left = "os.environ['LEFT'] = 'something'"
        books.append(notebook(tmp_path / name, code, left, name=name))
    given = parse_parameters(["limit=8", "start=now"])
    made_files = npl.report(experiment, notebooks=books, parameters=given)
    for book, pdf in zip(books, made_files, strict=False):
        assert f"{book.stem} None 8 now" in text(pdf)
    assert Path.cwd() == here
    with pytest.raises(UsageError, match="name=value"):
        parse_parameters(["metric"])
    for name in ("margen", "experiment"):
        with pytest.raises(
            UsageError, match=rf"no parameter '{name}' in one.* limit, start\)"
        ):
            npl.report(experiment, notebooks=books, parameters={name: 1})


def executed(*books):
    """The text of notebooks that were executed one after another."""
    done = [book.with_name(f"{book.stem}-done.ipynb") for book in books]
    jobs = [
        Job(book.stem, str(book), str(end)) for book, end in zip(books, done, strict=True)
    ]
    with Notebooks() as processes:
        assert dict(processes.executed(jobs)) == {book.stem: "" for book in books}
    return [end.read_text("utf-8") for end in done]


def test_notebooks_of_the_library_leave_no_names_in_their_kernel(tmp_path):
    left = notebook(tmp_path, "left = 1", name="left")
    mine = notebook(tmp_path, "'left' in dir()")
    assert "False" in executed(left, mine)[1]


def test_what_a_cell_shows_is_kept_in_its_order(tmp_path):
    shown = "print('one')\ndisplay(2)\n!echo three\nprint('four')\n'five'"
    [text] = executed(notebook(tmp_path, shown))
    *_, cell = nbformat.reads(text, as_version=4).cells
    kept = [one.get("text") or one.data["text/plain"] for one in cell.outputs]
    assert " ".join(kept).split() == ["one", "2", "three", "four", "'five'"]


def test_outputs_of_a_widget_do_not_stop_a_notebook(tmp_path):
    shown = ["import ipywidgets\nout = ipywidgets.Output()\nout"]
    executed(notebook(tmp_path, *shown, *["with out:\n    print(1)"] * 60))


@pytest.mark.parametrize("short", ["03", "streams"])
def test_a_notebook_is_named_by_its_number_or_without_it(short):
    assert _book(short) == ("03-streams", notebooks()["03-streams"])
    with pytest.raises(UsageError, match="01-placement"):
        _book("02-placement-of-old")


@pytest.fixture(scope="module")
def body(experiment):
    """The first page and one other in HTML, in one file."""
    books = ["summary", "04-tcp-buffers"]
    return npl.report(experiment, notebooks=books, to="html")[-1].read_text("utf-8")


def test_page_one_begins_with_the_picture(body):
    assert body.count("<h1") == 1
    anchors = re.findall(r'href="#([^"]+)"', body)
    assert len(anchors) >= 4
    assert all(f'id="{anchor}"' in body for anchor in anchors)
    # a phone shows the picture first, then the answers in short, then the facts
    order = ["<img", "<strong>Placement:</strong>", "<dl>", "<nav", 'id="part-1"']
    assert sorted(order, key=body.index) == order


def test_html_is_one_file_that_needs_nothing_from_elsewhere(body):
    for part in ("Made-up numbers", "data:image/svg+xml", "<math"):
        assert part in body
    for part in ("npl</span>", "<script"):
        assert part not in body
    here = r"(?!data:|#|explorer\.html)"  # the explorer is beside the page
    loads = rf"""(?:src|href)=["']{here}[^"']*|url\(\s*["']?{here}[^)]*|@import[^;]*"""
    assert re.findall(loads, body) == []


def test_parameters_go_to_the_notebooks_that_have_them(experiment, tmp_path):
    found = npl.analysis.pages(npl.read(experiment))
    names = ["summary", "03-streams"]
    wanted = [page for page in found if page.notebook in names] + [Page("mine")]
    books = {name: notebooks()[name] for name in names} | {
        "mine": notebook(tmp_path, "1")
    }
    chosen = _pages(wanted, books, {"share": 0.8})
    streams = "03-streams-throughput"
    assert list(chosen) == ["summary", streams, "mine"]
    assert chosen[streams].parameters == {"metric": "throughput_bps", "share": 0.8}
    only = {"01-placement": notebooks()["01-placement"]}
    found = [page for page in found if page.notebook in only]
    both = _pages(found, only, {})
    assert list(both) == ["01-placement-latency", "01-placement-throughput"]
    with pytest.raises(UsageError, match="shar"):
        _pages(wanted, books, {"shar": 1})
    with pytest.raises(UsageError, match="no page is about metric=throughput"):
        _pages(found, only, {"metric": "throughput"})


def test_page_one_says_what_changed_since_the_last_time(tmp_path, monkeypatch):
    """`npl run --anew` sets the measurement before aside, under its name and time."""
    for number, name in enumerate(("lab-20261106T050000", "lab-20261113T050000", "lab")):
        folder = made.experiment(tmp_path, rounds=6, seed=number, name=name, metrics=FEW)
    (pdf,) = npl.report(folder, ["summary"])
    changed = npl.compare(tmp_path / "lab-20261113T050000", folder).summary
    first = " ".join(pypdf.PdfReader(pdf).pages[0].extract_text().split())
    assert f"Since the last time: {changed}" in first
    monkeypatch.chdir(tmp_path)
    other = {"before": "lab-20261106T050000"}  # from here, not from the notebook
    (pdf,) = npl.report("lab", notebooks=["before-after"], parameters=other)
    # a name may break at its hyphen
    assert "labagainstlab-20261106T050000" in "".join(text(pdf).split())


def test_a_pattern_shows_each_experiment_over_its_measurements(tmp_path, monkeypatch):
    names = ("lab", "lab-20261120T090100", "other")
    for number, name in enumerate(names):
        made.experiment(tmp_path, rounds=4, seed=number, name=name, metrics=HEADLINES)
    # what was measured once, and for an hour, has no history
    keys = ["summary", "time-lab-latency", "time-lab-throughput"]
    assert [
        page.key for page in pages_of_several(experiment_folders(f"{tmp_path}/*"))
    ] == keys
    lines = opening(f"{tmp_path}/*").lines
    assert sorted(line.partition(" (")[0] for line in lines) == sorted(names)
    assert all("Placement: " in line for line in lines)
    monkeypatch.chdir(tmp_path.parent)  # notebooks are executed elsewhere
    (pdf,) = npl.report(
        f"{tmp_path.name}/*",
        notebooks=["time"],
        parameters={"name": "lab", "metric": "throughput_bps"},
    )
    assert pdf.parent == tmp_path / "reports"
    runs = npl.load([tmp_path / name for name in names[:2]])
    found = npl.analysis.ask_history(runs, "throughput_bps").runs
    assert f"{len(found)} runs from" in text(pdf)


@pytest.mark.slow
@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_ends_a_report_at_once(early, experiment, tmp_path):
    """Also while notebooks get ready; nothing half-made is left."""
    folder = tmp_path / "lab"
    shutil.copytree(experiment, folder, ignore=shutil.ignore_patterns("reports"))
    code = "import os, pathlib, time\npathlib.Path(f'pid-{os.getpid()}').touch()\ntime.sleep(600)"
    books = [str(notebook(tmp_path, code, name=name)) for name in ("one", "two")]
    words = [word for book in books for word in ("--notebook", book)]
    command = [sys.executable, "-m", "netperf_lib", "report", str(folder), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as report:
        began = Path(f"/proc/{report.pid}/task/{report.pid}/children")
        began_work = began.read_text if early else lambda: [*tmp_path.glob("pid-*")]
        assert wait_until(lambda: bool(began_work()), seconds=120)
        report.send_signal(signal.SIGINT)
        _, said = report.communicate(timeout=60)
    assert report.returncode == 130
    assert said.strip() == "npl: interrupted"
    pids = [file.name.removeprefix("pid-") for file in tmp_path.glob("pid-*")]
    links = [Path("/proc", pid, "exe") for pid in pids]
    assert wait_until(lambda: not any(link.is_symlink() for link in links), seconds=30)
    assert [*folder.glob("reports/*")] == []
