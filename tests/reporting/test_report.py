"""Reports: what is refused, what fails, and what the pages hold."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pypdf
import pytest
import yaml
from click.testing import CliRunner
from papermill.inspection import inspect_notebook

import netperf_lib as npl
from netperf_lib.analysis.contents import fleet_pages
from netperf_lib.analysis.lead import opening
from netperf_lib.analysis.words import as_markdown
from netperf_lib.cli import npl as cli
from netperf_lib.data.layout import Store
from netperf_lib.errors import ReportError, UsageError
from netperf_lib.experiment.model import Deployment, Host, Proof
from netperf_lib.reporting.cover import cover, provenance
from netperf_lib.reporting.execute import _pages, notebooks, parameters_of, parse_parameters

from ..sshd import wait_until
from . import made


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.experiment(tmp_path_factory.mktemp("{results}"))


def notebook(folder: Path, *sources: str, name: str = "mine") -> Path:
    """A notebook with a parameters cell and the given code."""
    first: Any = nbformat.v4.new_code_cell(
        'experiment = "here"  # folder\nlimit = 3  # a number\nfree: float | None = None'
    )
    first.metadata["tags"] = ["parameters"]
    cells = [
        nbformat.v4.new_markdown_cell("# Mine"),
        first,
        *map(nbformat.v4.new_code_cell, sources),
    ]
    place = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place)
    return place


def text(pdf: Path) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(pdf).pages)


@pytest.fixture(scope="module")
def placement(experiment: Path) -> Path:
    (made_file,) = npl.report(experiment, notebooks=["01-placement"])
    return made_file


def test_a_report_stands_beside_its_executed_notebook(placement: Path) -> None:
    assert placement.name == "01-placement.pdf"
    assert placement.with_suffix(".ipynb").is_file()


def test_the_verdicts_on_the_page_are_those_of_compare(placement: Path, experiment: Path) -> None:
    page = " ".join(text(placement).split())
    runs = npl.load(experiment)
    asked = [
        c for c in npl.analysis.contrasts(runs, "placement") if c.metric == "latency_oneway_us"
    ]
    for c in npl.compare(runs, contrasts=asked):
        assert " ".join(c.words.split()) in page


def test_every_page_carries_the_notice(placement: Path) -> None:
    for page in pypdf.PdfReader(placement).pages:
        assert "Made-up numbers for a test" in page.extract_text()


def test_the_pdf_is_tagged_titled_and_embeds_its_fonts(placement: Path) -> None:
    reader = pypdf.PdfReader(placement)
    assert reader.metadata is not None
    assert reader.metadata.title == "Placement"
    root: Any = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert b"pdfuaid" in root["/Metadata"].get_data()
    pages: Any = reader.pages
    fonts = [f.get_object() for page in pages for f in page["/Resources"]["/Font"].values()]
    assert fonts
    for font in fonts:
        inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        assert {"/FontFile", "/FontFile2", "/FontFile3"} & set(inner["/FontDescriptor"]), font[
            "/BaseFont"
        ]


def test_the_same_data_give_the_same_bytes(placement: Path, experiment: Path) -> None:
    before = placement.read_bytes()
    (again,) = npl.report(experiment, notebooks=["01-placement"])
    assert again.read_bytes() == before


def test_a_notebook_that_fails_costs_its_own_page_and_no_other(
    experiment: Path, tmp_path: Path
) -> None:
    bad = notebook(tmp_path, "x = 1", "1 / 0", "print('never seen')")
    with pytest.raises(
        ReportError, match=r"mine: cell 4 failed: ZeroDivisionError.*mine\.ipynb"
    ) as raised:
        npl.report(experiment, notebooks=[bad, "02-accelerated"])
    pdf, other, whole = raised.value.reports
    assert [pdf.name, other.name, whole.name] == ["mine.pdf", "02-accelerated.pdf", "report.pdf"]
    for page in (text(pdf), text(whole)):
        assert "This page could not be made" in page
        assert "ZeroDivisionError" in page
        assert "never seen" not in page
    assert "Accelerated networking" in text(whole)
    kept = nbformat.read(pdf.with_suffix(".ipynb"), as_version=4)
    assert any(
        o.get("ename") == "ZeroDivisionError" for c in kept.cells for o in c.get("outputs", ())
    )


def test_leaving_the_kernel_early_is_a_failure(experiment: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cells were not executed"):
        npl.report(
            experiment,
            notebooks=[notebook(tmp_path, "import sys; sys.exit(0)", "print(1)", name="early")],
        )


def test_a_dying_kernel_is_a_failure(experiment: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="kernel died"):
        npl.report(
            experiment, notebooks=[notebook(tmp_path, "import os; os._exit(3)", name="dying")]
        )


def test_nothing_to_report_is_said_and_is_no_failure(experiment: Path, tmp_path: Path) -> None:
    book = notebook(
        tmp_path,
        "from netperf_lib.errors import NothingToReport\nraise NothingToReport('one VM size, and two are needed')",
        "print('never seen')",
        name="nothing",
    )
    (pdf,) = npl.report(experiment, notebooks=[book])
    assert "one VM size, and two are needed" in " ".join(text(pdf).split())
    assert "never seen" not in text(pdf)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"margen": 1}, r"no parameter 'margen' in mine \(parameters: free, limit\)"),
        ({"limit": "many"}, "parameter limit of mine takes an integer, not 'many'"),
        ({"limit": 2.5}, "takes an integer"),
        ({"limit": True}, "takes an integer"),
        ({"free": "x"}, "takes a number or null"),
        ({"experiment": "elsewhere"}, "no parameter 'experiment'"),
        ({"free": "1e"}, "takes a number or null"),
    ],
)
def test_unknown_and_ill_typed_parameters_are_refused(
    experiment: Path, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        npl.report(experiment, notebooks=[notebook(tmp_path, "1")], parameters=given)


def test_parameters_of_the_command_line_get_the_notebooks_types(
    experiment: Path, tmp_path: Path
) -> None:
    book = notebook(tmp_path, "print(repr((limit, free)))", name="typed")
    (pdf,) = npl.report(
        experiment, notebooks=[book], parameters=parse_parameters(["limit=8", "free=1e-2"])
    )
    assert "(8, 0.01)" in text(pdf)


def test_a_default_may_be_an_expression(experiment: Path, tmp_path: Path) -> None:
    book = notebook(tmp_path, "print(start + 1)", name="{computed")
    cells = nbformat.read(book, as_version=4)
    cells.cells[1].source += "\nstart = 2 * 3600"
    nbformat.write(cells, book)
    (pdf,) = npl.report(experiment, notebooks=[book])
    assert "7201" in text(pdf)


def test_nothing_of_one_notebook_is_left_in_the_next(experiment: Path, tmp_path: Path) -> None:
    books = [
        notebook(
            tmp_path,
            "import os, netperf_lib as npl\nlimit = 99\nos.environ['LEFT'] = '1'",
            name="one",
        ),
        notebook(tmp_path, "import os\nprint('LEFT' in os.environ, limit)", name="two"),
    ]
    assert "False 3" in text(npl.report(experiment, notebooks=books)[1])


def test_reports_of_what_cannot_be_written_go_to_the_working_directory(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) != experiment and access(path, mode)
    )
    (pdf,) = npl.report(experiment, notebooks=[notebook(tmp_path, "1")])
    assert pdf == tmp_path / "reports" / experiment.name / "mine.pdf"


def test_parameters_without_a_value_are_refused() -> None:
    with pytest.raises(UsageError, match="name=value"):
        parse_parameters(["metric"])


@pytest.mark.parametrize("short", ["03", "streams"])
def test_a_notebook_is_named_by_its_number_or_without_it(short: str) -> None:
    (page,) = _pages([], [short], {}, {})
    assert (page.notebook, page.key) == (notebooks()["03-streams"], "03-streams")


def test_an_unknown_notebook_is_refused_with_those_that_exist(experiment: Path) -> None:
    with pytest.raises(UsageError, match="01-placement"):
        npl.report(experiment, notebooks=["02-placement-of-old"])


def test_html_is_one_file_without_code_unless_asked_and_needs_nothing_from_elsewhere(
    experiment: Path,
) -> None:
    (page,) = npl.report(experiment, notebooks=["04-tcp-buffers"], to="html")
    body = page.read_text("utf-8")
    assert "Made-up numbers" in body
    assert "npl</span>" not in body
    assert "data:image/svg+xml" in body
    assert "<math" in body, "formulas are set without a script"
    assert "<script" not in body
    here = r"(?!data:|#|explorer\.html)"  # the explorer is beside the page, for whoever clicks
    fetched = re.findall(
        rf"""(?:src|href)=["']{here}[^"']*|url\(\s*["']?{here}[^)]*|@import[^;]*""", body
    )
    assert fetched == []
    (page,) = npl.report(experiment, notebooks=["04-tcp-buffers"], to="html", code=True)
    assert "npl</span>" in page.read_text("utf-8")


def test_papermill_itself_knows_every_parameter() -> None:
    for book in npl_notebooks().values():
        assert set(inspect_notebook(str(book))) == set(parameters_of(book)), book.name


def test_every_notebook_has_a_commented_parameters_cell() -> None:
    for book in npl_notebooks().values():
        cells = [
            c
            for c in nbformat.read(book, as_version=4).cells
            if "parameters" in c.metadata.get("tags", [])
        ]
        assert len(cells) == 1, book.name
        for line in cells[0].source.splitlines():
            assert "  # " in line, f"{book.name}: {line}: a parameter without a comment"
        assert "experiment" in parameters_of(book), book.name


def npl_notebooks() -> dict[str, Path]:
    from netperf_lib.reporting import notebooks

    return notebooks()


def test_notebooks_run_beside_their_files_and_this_process_stays_where_it_is(
    experiment: Path, tmp_path: Path
) -> None:
    here = Path.cwd()
    books = []
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.txt").write_text(name)
        code = f"import time, pathlib\ntime.sleep(0.5)\nassert pathlib.Path('{name}.txt').read_text() == '{name}'"
        books.append(notebook(tmp_path, code, name=name))
    npl.report(experiment, notebooks=[str(b) for b in books])
    assert Path.cwd() == here


def test_every_report_says_what_is_proven_of_the_hosts_and_what_is_not(tmp_path: Path) -> None:
    folder = made.experiment(tmp_path)
    proofs = (
        Proof(claim="zone 1", holds=True, evidence="logical 1, physical az3"),
        Proof(claim="virtual function up", holds=False, evidence="eth0 hv_netvsc up"),
        Proof(claim="Hyper-V host", holds=None, evidence="the guest does not tell"),
    )
    host = Host(name="client", address="192.0.2.1", data_address="10.0.0.1", proofs=proofs)
    peered = Proof(
        claim="network home is peered with remote", holds=True, evidence="peering Connected"
    )
    Store.at(folder).write_deployment(
        1, Deployment(deployment_id="d1", source="azure", hosts=(host,), proofs=(peered,))
    )
    runs = npl.load(folder)
    assert ["Placement", "2 of 4 claims checked; 1 does NOT hold, 1 not shown"] in cover(runs).facts
    for shown in (npl.analysis.proofs(runs)._repr_markdown_(), provenance(runs)):
        for proof in (*proofs, peered):
            assert proof.claim in shown
            assert as_markdown(proof.evidence) in shown
        assert "does NOT hold" in shown
        assert "not shown" in shown
    (page,) = npl.report(folder, notebooks=["07-quality"], to="html")  # none can leave it out
    assert "2 of 4 claims checked" in page.read_text("utf-8")
    assert "How this report was made" in page.read_text("utf-8")


def test_nothing_is_said_of_proofs_where_there_are_none(experiment: Path) -> None:
    assert "Placement" not in dict(cover(npl.load(experiment)).facts)


def test_the_experiment_chooses_notebooks_and_their_parameters(
    experiment: Path, tmp_path: Path
) -> None:
    found = npl.analysis.pages(npl.load(experiment))
    mine = str(notebook(tmp_path, "1"))
    wanted = ["summary", "01-placement", "03-streams", mine]
    own = {"03-streams": {"share": 0.9}, "01-placement": {"metric": "throughput_bps"}}
    chosen = _pages(found, wanted, own, {"share": "0.8"})
    assert [p.key for p in chosen] == [
        "summary",
        "01-placement-throughput",
        "03-streams-throughput",
        "mine",
    ]
    assert chosen[2].parameters == {"metric": "throughput_bps", "share": 0.8}
    both = _pages(found, ["01-placement"], {}, {})
    assert [p.parameters["metric"] for p in both] == ["latency_oneway_us", "throughput_bps"]
    for wrong in ({"03-streams": {"shar": 1}}, {"05-paths": {"metric": "x"}}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            _pages(found, ["03-streams"], wrong, {})
    with pytest.raises(
        UsageError,
        match="no page is about metric=throughput; there are: latency_oneway_us, throughp",
    ):
        _pages(found, None, {}, {"metric": "throughput"})


def test_a_measurement_is_compared_with_the_one_set_aside_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("lab-20261106T050000", "lab-20261113T050000", "lab")):
        folder = made.experiment(tmp_path, rounds=6, seed=number, name=name)
    declared = yaml.safe_load((folder / "experiment.yaml").read_text())
    (folder / "experiment.yaml").write_text(
        yaml.safe_dump(declared | {"report": {"notebooks": ["before-after"]}})
    )
    (pdf,) = npl.report(folder)
    changed = npl.compare(tmp_path / "lab-20261113T050000", folder)
    headline = changed.summary
    said = f"lab against lab-20261113T050000: {headline}"
    assert "".join(said.split()) in "".join(text(pdf).split())  # a name may break at its hyphen
    assert npl.summary(folder).headline.startswith(f"Since the last time: {headline}")
    monkeypatch.chdir(tmp_path)
    kept = (folder / "reports" / "before-after.pdf").read_bytes()
    mistyped = CliRunner().invoke(cli, ["report", "lab", "--against", "lab-20261106T05000"])
    assert "no experiment here" in str(mistyped.exception)
    assert (folder / "reports" / "before-after.pdf").read_bytes() == kept
    (pdf,) = npl.report(
        "lab", parameters={"before": "lab-20261106T050000"}
    )  # from here, not from the notebook
    assert "labagainstlab-20261106T050000" in "".join(text(pdf).split())


def test_the_report_of_a_data_root_shows_each_experiment_over_all_its_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("lab", "lab-20261120T090100", "other")):
        made.experiment(tmp_path, rounds=4, seed=number, name=name)
    # what was measured once, and for an hour, has no history
    assert [p.key for p in fleet_pages(tmp_path)] == [
        "summary",
        "time-lab-latency",
        "time-lab-throughput",
    ]
    lines = opening(tmp_path).lines
    assert sorted(line.partition(" (")[0] for line in lines) == [
        "lab",
        "lab-20261120T090100",
        "other",
    ]
    assert all("Placement: Latency is " in line for line in lines)
    monkeypatch.chdir(tmp_path.parent)  # notebooks are executed elsewhere
    pdf = npl.report(tmp_path.name, parameters={"name": "lab", "metric": "throughput_bps"})[-1]
    assert pdf.parent == tmp_path / "reports"
    runs = npl.load([tmp_path / "lab", tmp_path / "lab-20261120T090100"])
    found = npl.analysis.ask_history(runs, "throughput_bps").runs
    for book in (tmp_path / "reports").glob(
        "*.ipynb"
    ):  # HTML would warn of an output that shows nothing
        shown = [o for c in nbformat.read(book, 4).cells for o in c.get("outputs", ())]  # type: ignore[no-untyped-call]
        assert all(o.get("data", True) for o in shown)
    assert f"{len(found)} runs from 2026-11-20" in " ".join(text(pdf).split())


def registered(folder: Path, *argv: str) -> None:
    """Register a kernel called python3, as a user may have."""
    theirs = folder / "kernels" / "python3" / "kernel.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))


def test_a_kernel_that_the_user_registered_as_python3_is_not_what_the_librarys_notebooks_run_in(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(tmp_path, "/bin/false")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    (pdf,) = npl.report(experiment, notebooks=["summary"])
    assert "could not be made" not in text(pdf)


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
def test_notebooks_of_the_users_own_run_in_their_kernel_and_a_kernel_that_does_not_start_is_told(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    book = notebook(tmp_path, "print('never seen')")
    registered(tmp_path, program)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    with pytest.raises(ReportError, match="kernel did not start"):
        npl.report(experiment, notebooks=[book])


def test_a_kernel_is_given_no_port_that_another_program_may_take_first(
    experiment: Path, tmp_path: Path
) -> None:
    talks = "import ipykernel\nprint('talks over', ipykernel.get_connection_info(unpack=True)['transport'])"
    (pdf,) = npl.report(experiment, notebooks=[notebook(tmp_path, talks)])
    assert "talks over ipc" in text(pdf)


def test_ctrl_c_ends_a_report_and_its_kernels(experiment: Path, tmp_path: Path) -> None:
    code = "import os, pathlib, time\npathlib.Path(f'pid-{os.getpid()}').touch()\ntime.sleep(600)"
    books = [notebook(tmp_path, code, name=name) for name in ("one", "two", "three")]
    words = [word for book in books for word in ("--notebook", str(book))]
    with subprocess.Popen(
        [sys.executable, "-m", "netperf_lib", "report", str(experiment), *words]
    ) as report:
        assert wait_until(lambda: any(tmp_path.glob("pid-*")), seconds=120)
        report.send_signal(signal.SIGINT)
        assert report.wait(timeout=60) == 130
    for file in tmp_path.glob(
        "pid-*"
    ):  # at once: a kernel that lost its parent would end by itself a second later
        assert not Path("/proc", file.name.removeprefix("pid-"), "exe").is_symlink()
