"""Reports: what is refused, what fails, and what the pages hold."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pypdf
import pytest
import yaml
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.contents import fleet_pages
from netperf_lib.analysis.lead import opening
from netperf_lib.analysis.words import effect
from netperf_lib.cli import npl as cli
from netperf_lib.data.layout import Store
from netperf_lib.errors import ReportError, UsageError
from netperf_lib.experiment.model import Deployment, Host, Proof
from netperf_lib.reporting.cover import cover
from netperf_lib.reporting.execute import _pages, notebooks, parameters_of, parse_parameters
from netperf_lib.reporting.kernels import Kernels

from ..sshd import wait_until
from . import made

NOTHING = "from netperf_lib.errors import NothingToReport\nraise NothingToReport('one VM size')"


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.experiment(tmp_path_factory.mktemp("{results}"))


def notebook(folder: Path, *sources: str, name: str = "mine") -> Path:
    """A notebook with a parameters cell and the given code."""
    lines = ['experiment = "here"  # folder', "limit = 3  # a number", "start = 2 * 3600"]
    first = nbformat.v4.new_code_cell(
        "\n".join([*lines, "free = None  # type: float|None"]), metadata={"tags": ["parameters"]}
    )
    cells = [nbformat.v4.new_markdown_cell("# Mine"), first]
    cells += map(nbformat.v4.new_code_cell, sources)
    place = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place)
    return place


def text(pdf: Path) -> str:
    pages = (page.extract_text() for page in pypdf.PdfReader(pdf).pages)
    return " ".join(" ".join(pages).split())


@pytest.fixture(scope="module")
def placement(experiment: Path) -> Path:
    (made_file,) = npl.report(experiment, notebooks=["01-placement"])
    return made_file


def test_a_report_stands_beside_its_executed_notebook(placement: Path) -> None:
    assert placement.name == "01-placement.pdf"
    assert placement.with_suffix(".ipynb").is_file()


def test_the_effects_on_a_page_are_those_of_compare(placement: Path, experiment: Path) -> None:
    declared = npl.analysis.contrasts(npl.read(experiment), "placement", "latency_oneway_us")
    for c in npl.compare(experiment, contrasts=declared):
        assert effect(c.ratio) in text(placement)


def test_every_page_carries_the_notice(placement: Path) -> None:
    for page in pypdf.PdfReader(placement).pages:
        assert "Made-up numbers for a test" in page.extract_text()


def test_the_pdf_is_tagged_titled_and_embeds_its_fonts(placement: Path) -> None:
    reader = pypdf.PdfReader(placement)
    root: Any = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert b"pdfuaid" in root["/Metadata"].get_data()
    assert reader.metadata is not None
    assert reader.metadata.title == "Placement"
    pages: Any = reader.pages
    fonts = [f.get_object() for page in pages for f in page["/Resources"]["/Font"].values()]
    inner = [f["/DescendantFonts"][0].get_object() if "/DescendantFonts" in f else f for f in fonts]
    files = {"/FontFile", "/FontFile2", "/FontFile3"}
    assert inner
    assert all(files & set(font["/FontDescriptor"]) for font in inner)


def test_the_same_data_give_the_same_bytes(placement: Path, experiment: Path) -> None:
    before = placement.read_bytes()
    (again,) = npl.report(experiment, notebooks=["01-placement"])
    assert again.read_bytes() == before


def test_a_notebook_that_fails_costs_its_own_page_alone(experiment: Path, tmp_path: Path) -> None:
    bad = notebook(tmp_path, "x = 1", "1 / 0", "print('never seen')")
    with pytest.raises(ReportError, match=r"cell 4 failed: ZeroDivisionError.*mine\.ipynb") as e:
        npl.report(experiment, notebooks=[bad, "02-accelerated"])
    pdf, other, whole = e.value.reports
    assert [pdf.name, other.name, whole.name] == ["mine.pdf", "02-accelerated.pdf", "report.pdf"]
    for page in (text(pdf), text(whole)):
        assert "This page could not be made" in page
        assert "ZeroDivisionError" in page
        assert "never seen" not in page
    assert "Accelerated networking" in text(whole)
    assert "ZeroDivisionError" in pdf.with_suffix(".ipynb").read_text("utf-8")


@pytest.mark.parametrize(
    ("code", "said"),
    [("import sys; sys.exit(0)", "cells were not executed"), ("import os; os._exit(3)", "died")],
)
def test_leaving_the_kernel_is_a_failure(
    experiment: Path, tmp_path: Path, code: str, said: str
) -> None:
    with pytest.raises(ReportError, match=said):
        npl.report(experiment, notebooks=[notebook(tmp_path, code, "print(1)")])


def test_nothing_to_report_is_said_and_is_no_failure(experiment: Path, tmp_path: Path) -> None:
    book = notebook(tmp_path, NOTHING, "print('never seen')")
    (pdf,) = npl.report(experiment, notebooks=[book])
    assert "Not in this experiment: one VM size." in text(pdf)
    assert "never seen" not in text(pdf)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"margen": 1}, r"no parameter 'margen' in mine \(parameters: free, limit, start\)"),
        ({"limit": "many"}, "parameter limit of mine takes an integer, not 'many'"),
        ({"limit": 2.5}, "takes an integer"),
        ({"limit": True}, "takes an integer"),
        ({"free": "x"}, "takes a number or null"),
        ({"free": "1e"}, "takes a number or null"),
        ({"experiment": "elsewhere"}, "no parameter 'experiment'"),
    ],
)
def test_unknown_and_ill_typed_parameters_are_refused(
    experiment: Path, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        npl.report(experiment, notebooks=[notebook(tmp_path, "1")], parameters=given)


def test_parameters_of_the_command_line_have_types(experiment: Path, tmp_path: Path) -> None:
    book = notebook(tmp_path, "print(repr((limit, free, start)))", name="{typed")
    given = parse_parameters(["limit=8", "free=1e-2"])
    (pdf,) = npl.report(experiment, notebooks=[book], parameters=given)
    assert "(8, 0.01, 7200)" in text(pdf)
    with pytest.raises(UsageError, match="name=value"):
        parse_parameters(["metric"])


def test_notebooks_share_neither_names_nor_folders(experiment: Path, tmp_path: Path) -> None:
    """Each runs beside its files, and this process stays where it is."""
    here, books = Path.cwd(), []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
        code = "import os\nprint(open('data.txt').read(), os.environ.get('LEFT'), limit)"
        left = "limit = 99\nos.environ['LEFT'] = 'something'"
        books.append(notebook(tmp_path / name, code, left, name=name))
    reports = npl.report(experiment, notebooks=books)
    for name, pdf in zip(("one", "two", "three"), reports, strict=False):
        assert f"{name} None 3" in text(pdf)
    assert Path.cwd() == here


def test_notebooks_of_the_library_leave_no_names_in_their_kernel(tmp_path: Path) -> None:
    books = [
        notebook(tmp_path, "x = 1", name="one"),
        notebook(tmp_path, "'x' in dir()", name="two"),
    ]
    with Kernels() as kernels:
        for book in books:
            done = tmp_path / f"{book.stem}-done.ipynb"
            running = kernels.submit(
                lambda *given: kernels.execute(*given, ours=True), book, done, {}
            )
            assert running.result() is None
    assert "False" in (tmp_path / "two-done.ipynb").read_text("utf-8")


def test_outputs_of_a_widget_do_not_stop_a_notebook(tmp_path: Path) -> None:
    shown = ["import ipywidgets\nout = ipywidgets.Output()\nout"]
    printed = ["with out:\n    print(1)"] * 60
    book = notebook(tmp_path, *shown, *printed)
    with Kernels() as kernels:
        execute = partial(kernels.execute, book, tmp_path / "done.ipynb", {}, ours=True)
        assert kernels.submit(execute).result(timeout=120) is None


def test_reports_of_what_cannot_be_written_go_to_the_working_directory(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    access = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: Path(p) != experiment and access(p, mode))
    (pdf,) = npl.report(experiment, notebooks=[notebook(tmp_path, "1")])
    assert pdf == tmp_path / "reports" / experiment.name / "mine.pdf"


@pytest.mark.parametrize("short", ["03", "streams"])
def test_a_notebook_is_named_by_its_number_or_without_it(short: str) -> None:
    (page,) = _pages([], [short], {}, {})
    assert (page.notebook, page.key) == (notebooks()["03-streams"], "03-streams")
    with pytest.raises(UsageError, match="01-placement"):
        _pages([], ["02-placement-of-old"], {}, {})


def test_html_is_one_file_that_needs_nothing_from_elsewhere(
    experiment: Path, tmp_path: Path
) -> None:
    (page,) = npl.report(experiment, notebooks=["04-tcp-buffers"], to="html")
    body = page.read_text("utf-8")
    for part in ("Made-up numbers", "data:image/svg+xml", "<math"):
        assert part in body
    for part in ("npl</span>", "<script"):
        assert part not in body
    here = r"(?!data:|#|explorer\.html)"  # the explorer is beside the page
    loads = rf"""(?:src|href)=["']{here}[^"']*|url\(\s*["']?{here}[^)]*|@import[^;]*"""
    assert re.findall(loads, body) == []
    book = notebook(tmp_path, "import netperf_lib as npl")
    (page,) = npl.report(experiment, notebooks=[book], to="html", code=True)
    assert "npl</span>" in page.read_text("utf-8")


def test_every_notebook_has_a_commented_parameters_cell() -> None:
    for book in notebooks().values():
        every = nbformat.read(book, as_version=4).cells
        (cell,) = [c for c in every if "parameters" in c.metadata.get("tags", [])]
        assert [line for line in cell.source.splitlines() if "  # " not in line] == []
        assert "experiment" in parameters_of(book), book.name


def test_every_report_says_what_is_proven_of_the_hosts(experiment: Path, tmp_path: Path) -> None:
    folder = made.experiment(tmp_path)
    proofs = (
        Proof(claim="zone 1", holds=True, evidence="logical 1, physical az3"),
        Proof(claim="virtual function up", holds=False, evidence="eth0 hv_netvsc up"),
        Proof(claim="Hyper-V host", holds=None, evidence="the guest does not tell"),
    )
    host = Host(name="client", address="192.0.2.1", data_address="10.0.0.1", proofs=proofs)
    Store.at(folder).write_deployment(
        1, Deployment(deployment_id="d1", source="azure", hosts=(host,))
    )
    (page,) = npl.report(folder, notebooks=["07-quality"], to="html")
    body = page.read_text("utf-8")
    for words in ("1 of 3 claims checked; does NOT hold: 1; not shown: 1", "How this report was"):
        assert words in body
    for proof in proofs:
        assert proof.claim in body
    assert "Placement" not in cover(npl.read(experiment)).facts


def test_the_experiment_chooses_notebooks_and_parameters(experiment: Path, tmp_path: Path) -> None:
    found = npl.analysis.pages(npl.read(experiment))
    wanted = ["summary", "01-placement", "03-streams", str(notebook(tmp_path, "1"))]
    own = {"03-streams": {"share": 0.9}, "01-placement": {"metric": "throughput_bps"}}
    chosen = _pages(found, wanted, own, {"share": "0.8"})
    keys = ["summary", "01-placement-throughput", "03-streams-throughput", "mine"]
    assert [page.key for page in chosen] == keys
    assert chosen[2].parameters == {"metric": "throughput_bps", "share": 0.8}
    both = [page.parameters["metric"] for page in _pages(found, ["01-placement"], {}, {})]
    assert both == ["latency_oneway_us", "throughput_bps"]
    for wrong in ({"03-streams": {"shar": 1}}, {"05-paths": {"metric": "x"}}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            _pages(found, ["03-streams"], wrong, {})
    with pytest.raises(UsageError, match="no page is about metric=throughput; there are: latency"):
        _pages(found, None, {}, {"metric": "throughput"})


def test_page_one_says_what_changed_since_the_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`npl run --anew` sets the measurement before aside, under its name and time."""
    for number, name in enumerate(("lab-20261106T050000", "lab-20261113T050000", "lab")):
        folder = made.experiment(tmp_path, rounds=6, seed=number, name=name)
    declared = yaml.safe_load((folder / "experiment.yaml").read_text())
    declared["report"] = {"notebooks": ["summary"]}
    (folder / "experiment.yaml").write_text(yaml.safe_dump(declared))
    pdf = npl.report(folder)[-1]
    changed = npl.compare(tmp_path / "lab-20261113T050000", folder).summary
    first = " ".join(pypdf.PdfReader(pdf).pages[0].extract_text().split())
    assert f"Since the last time: {changed}" in first
    monkeypatch.chdir(tmp_path)
    mistyped = CliRunner().invoke(cli, ["report", "lab", "--against", "lab-20261106T05000"])
    assert "no experiment here" in str(mistyped.exception)
    other = {"before": "lab-20261106T050000"}  # from here, not from the notebook
    (pdf,) = npl.report("lab", notebooks=["before-after"], parameters=other)
    # a name may break at its hyphen
    assert "labagainstlab-20261106T050000" in "".join(text(pdf).split())


def test_a_data_root_shows_each_experiment_over_its_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("lab", "lab-20261120T090100", "other")
    for number, name in enumerate(names):
        made.experiment(tmp_path, rounds=4, seed=number, name=name)
    # what was measured once, and for an hour, has no history
    keys = ["summary", "time-lab-latency", "time-lab-throughput"]
    assert [page.key for page in fleet_pages(tmp_path)] == keys
    lines = opening(tmp_path).lines
    assert sorted(line.partition(" (")[0] for line in lines) == sorted(names)
    assert all("Placement: Latency is " in line for line in lines)
    monkeypatch.chdir(tmp_path.parent)  # notebooks are executed elsewhere
    pdf = npl.report(tmp_path.name, parameters={"name": "lab", "metric": "throughput_bps"})[-1]
    assert pdf.parent == tmp_path / "reports"
    runs = npl.load([tmp_path / name for name in names[:2]])
    found = npl.analysis.ask_history(runs, "throughput_bps").runs
    assert f"{len(found)} runs from 2026-11-20" in text(pdf)


def registered(folder: Path, *argv: str) -> None:
    """Register a kernel called python3, as a user may have."""
    theirs = folder / "kernels" / "python3" / "kernel.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))


def test_a_kernel_of_the_users_runs_their_notebooks_and_not_the_librarys(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(tmp_path, "/no/such/program")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    with pytest.raises(ReportError, match="mine: the kernel did not start") as raised:
        npl.report(experiment, notebooks=[notebook(tmp_path, "1"), "07-quality"])
    assert "could not be made" not in text(raised.value.reports[1])


def test_a_kernel_is_given_no_port_that_another_may_take(experiment: Path, tmp_path: Path) -> None:
    talks = "from ipykernel import get_connection_info\nget_connection_info(unpack=True)"
    (pdf,) = npl.report(experiment, notebooks=[notebook(tmp_path, f"{talks}['transport']")])
    assert "'ipc'" in text(pdf)


def test_ctrl_c_ends_a_report_and_its_kernels(experiment: Path, tmp_path: Path) -> None:
    code = "import os, pathlib, time\npathlib.Path(f'pid-{os.getpid()}').touch()\ntime.sleep(600)"
    books = [str(notebook(tmp_path, code, name=name)) for name in ("one", "two", "three")]
    words = [word for book in books for word in ("--notebook", book)]
    command = [sys.executable, "-m", "netperf_lib", "report", str(experiment), *words]
    with subprocess.Popen(command) as report:
        assert wait_until(lambda: any(tmp_path.glob("pid-*")), seconds=120)
        report.send_signal(signal.SIGINT)
        assert report.wait(timeout=60) == 130
    # at once: a kernel that lost its parent would end by itself a second later
    pids = [file.name.removeprefix("pid-") for file in tmp_path.glob("pid-*")]
    assert not any(Path("/proc", pid, "exe").is_symlink() for pid in pids)
