"""Every notebook, executed by papermill: what it shows is on its pages, and every parameter takes another value."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pypdf
import pytest

import netperf_lib as npl
from netperf_lib.report import notebooks
from netperf_lib.report.lessons import CHECKS, lay_out
from netperf_lib.report.run import parameters_of
from tests.report import made

HERE = Path(__file__).parent
REPO = HERE.parents[1]
MIME = "application/vnd.netperf+json"
SECOND: dict[str, dict[str, Any]] = {
    "summary": {"alpha": 0.1},
    "01-placement": {"metric": "throughput_bps", "tool": "iperf3", "confidence": 0.9},
    "02-accelerated": {"metric": "throughput_bps", "tool": "iperf3", "confidence": 0.9},
    "03-streams": {"metric": "throughput_sent_bps", "tool": "iperf3", "share": 0.9, "advertised_gbps": 8.0},
    "04-tcp-buffers": {"target_gbps": 2.5, "eta": 0.7, "tool": "iperf3"},
    "05-paths": {"metric": "throughput_bps", "baseline": "same-zone", "tool": "iperf3"},
    "06-tails": {"metric": "latency_oneway_p999_us", "tool": "sockperf", "margin": 0.2},
    "published": {"source": "azure-westeurope-d16v3"},
    "07-quality": {"metric": "retransmits_count", "extra_s": 0.5},
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.experiment(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def reports(experiment: Path) -> dict[str, Path]:
    steps: list[tuple[int, int]] = []
    pdfs = npl.report(experiment, progress=lambda done, every: steps.append((done, every)))
    assert steps[-1] == (len(pdfs), len(pdfs))
    return {p.stem: p for p in pdfs}


def text(pdf: Path) -> str:
    # a word that was broken at a soft place is whole again
    pages = "\n".join(page.extract_text() for page in pypdf.PdfReader(pdf).pages)
    return pages.replace("\u200b", "")


def squeezed(words: str) -> str:
    return re.sub(r"[\s\u200b]+", "", words)


def blocks(executed: Path, kind: str) -> list[dict[str, Any]]:
    book = nbformat.read(executed, as_version=4)
    shown = [o["data"][MIME] for c in book.cells for o in c.get("outputs", ()) if MIME in o.get("data", {})]
    return [b for b in shown if b["kind"] == kind]


def answering() -> list[str]:
    return [n for n in notebooks() if n != "explore"]


def test_every_notebook_has_a_page_and_the_last_is_all_of_them(reports: dict[str, Path]) -> None:
    assert list(reports)[-1] == "report"
    assert set(reports) == {*answering(), "report"}


def test_no_number_of_a_table_is_missing_on_the_pages(reports: dict[str, Path]) -> None:
    whole = squeezed(text(reports["report"]))
    for name, pdf in reports.items():
        if name == "report":
            continue
        page = squeezed(text(pdf))
        for block in [*blocks(pdf.with_suffix(".ipynb"), "table"), *blocks(pdf.with_suffix(".ipynb"), "verdicts")]:
            for row in block["rows"]:
                for cell in row:
                    # a verdict begins with a capital on the page
                    seen = squeezed(cell)[1:]
                    assert seen in page, (name, cell)
                    assert seen in whole, (name, cell)


def test_figures_and_tables_are_numbered_and_captioned(reports: dict[str, Path]) -> None:
    page = squeezed(text(reports["report"]))
    captions = [
        squeezed(b["caption"])
        for name, pdf in reports.items()
        if name != "report"
        for b in blocks(pdf.with_suffix(".ipynb"), "figure")
    ]
    assert len(captions) >= 12
    for caption in captions:
        assert caption in page
    assert f"Figure{len(captions)}." in page


def test_figures_are_vectors_with_text(reports: dict[str, Path]) -> None:
    pages: Any = pypdf.PdfReader(reports["01-placement"]).pages
    images = [i for page in pages for i in page.images]
    assert images == []
    assert "Round" in text(reports["01-placement"])


def test_the_combined_report_opens_with_the_verdicts_and_ends_with_its_origin(reports: dict[str, Path]) -> None:
    reader = pypdf.PdfReader(reports["report"])
    first, last = reader.pages[0].extract_text(), reader.pages[-1].extract_text()
    assert "What the network gives" in first
    assert "Does a proximity placement group lower" in " ".join(first.split())
    assert "SHA-256" in "".join(p.extract_text() for p in reader.pages[-3:])
    assert squeezed("parameters of 07-quality").upper() in squeezed(last).upper()
    assert "Not in this experiment" in text(reports["report"])


def test_every_chapter_is_in_the_contents(reports: dict[str, Path]) -> None:
    outline = pypdf.PdfReader(reports["report"]).outline
    titles = [str(o.title) for o in outline if not isinstance(o, list)]  # type: ignore[union-attr]
    for title in ("Placement", "Accelerated networking", "Parallel streams", "TCP buffers", "Tails", "Quality"):
        assert any(title in t for t in titles), titles


@pytest.mark.parametrize("name", SECOND)
def test_every_parameter_takes_a_second_value(name: str, tmp_path: Path) -> None:
    book = notebooks()[name]
    declared = parameters_of(book)
    assert set(SECOND[name]) == set(declared) - {"experiment"}
    rename = {"ppg": "standard-lb", "cross-zone": "vpn"} if name == "05-paths" else {}
    (pdf,) = npl.report(made.experiment(tmp_path, rename=rename), notebooks=[name], parameters=SECOND[name])
    page = squeezed(text(pdf))
    for parameter, value in SECOND[name].items():
        assert squeezed(f"{parameter}{value}") in page


def test_paths_are_compared_where_there_are_some(tmp_path: Path) -> None:
    where = made.experiment(tmp_path, rename={"ppg": "standard-lb", "cross-zone": "vpn"})
    (pdf,) = npl.report(where, notebooks=["05-paths"])
    assert "standard-lb" in text(pdf)
    assert "Not in this experiment" not in text(pdf)


def test_an_experiment_without_contrasts_is_described_and_not_judged(tmp_path: Path) -> None:
    where = made.experiment(tmp_path)
    place = where / "experiment.yaml"
    place.write_text(place.read_text("utf-8").split("contrasts:")[0], "utf-8")
    pdfs = {p.stem: p for p in npl.report(where)}
    page = text(pdfs["report"])
    assert "Better" not in page
    assert "no verdict" in page.lower()


# -- what is committed -------------------------------------------------------------------------------------------------


def committed() -> list[Path]:
    return sorted((REPO / "notebooks").rglob("*.ipynb"))


@pytest.mark.parametrize("place", committed(), ids=lambda p: p.stem)
def test_committed_without_outputs(place: Path) -> None:
    for cell in nbformat.read(place, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("place", committed(), ids=lambda p: p.stem)
def test_notebooks_import_the_library_and_nothing_below_it(place: Path) -> None:
    for cell in nbformat.read(place, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        python = "\n".join(line for line in cell.source.splitlines() if not line.startswith("!"))
        for node in ast.walk(ast.parse(python)):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("netperf_lib"), node.module
            if isinstance(node, ast.Import):
                assert all(not a.name.startswith("netperf_lib.") for a in node.names)


@pytest.mark.parametrize("name", answering())
def test_prose_holds_no_typed_number(name: str) -> None:
    for cell in nbformat.read(notebooks()[name], as_version=4).cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`", "", cell.source, flags=re.DOTALL)
            assert not re.search(r"\d", prose), cell.source[:80]


# -- the workshop ------------------------------------------------------------------------------------------------------

LESSONS = sorted((REPO / "notebooks" / "workshop").glob("*.ipynb"))


def taught(place: Path, experiment: Path, folder: Path) -> list[dict[str, Any]]:
    """Execute a lesson, without the cells that need a running lab; return what its checks said."""
    book = nbformat.read(place, as_version=4)
    book.cells = [c for c in book.cells if "live" not in c.metadata.get("tags", [])]
    copy = folder / place.name
    nbformat.write(book, copy)
    (pdf,) = npl.report(experiment, notebooks=[copy])
    callouts = blocks(pdf.with_suffix(".ipynb"), "callout")
    return [c for c in callouts if c["title"] in ("That holds", "Not yet", "Not answered yet", "No check here")]


@pytest.mark.parametrize("place", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_waits_for_answers_and_its_solution_holds(place: Path, experiment: Path, tmp_path: Path) -> None:
    said = taught(place, experiment, tmp_path)
    assert said
    assert {c["title"] for c in said} == {"Not answered yet"}
    solved = taught(place.parent / "solutions" / place.name, experiment, tmp_path)
    assert len(solved) == len(said)
    assert {c["title"] for c in solved} == {"That holds"}, solved


@pytest.mark.parametrize("name", CHECKS)
def test_a_wrong_answer_gets_a_hint_and_not_the_answer(name: str, experiment: Path) -> None:
    runs = npl.load(experiment)
    right = CHECKS[name].truth(runs)
    for wrong in ("something else", -1, 1e12, [], "nan"):
        said = npl.check(name, wrong, runs)
        assert said.content["title"] == "Not yet", wrong
        assert not isinstance(right, float) or f"{right:.3g}" not in said.text
    assert npl.check(name, right, runs).content["title"] == "That holds"
    assert npl.check(name, ..., runs).content["title"] == "Not answered yet"


def test_lessons_are_laid_out_once_and_keep_what_was_written(tmp_path: Path, experiment: Path) -> None:
    made_files = lay_out(tmp_path / "desk", experiment)
    assert [p.name for p in made_files] == [p.name for p in LESSONS]
    assert str(experiment) in made_files[0].read_text("utf-8")
    assert not (tmp_path / "desk" / "solutions").exists()
    made_files[0].write_text("mine", "utf-8")
    lay_out(tmp_path / "desk", experiment)
    assert made_files[0].read_text("utf-8") == "mine"


# -- reference notebooks -----------------------------------------------------------------------------------------------


def nbval(folder: Path, experiment: Path) -> subprocess.CompletedProcess[str]:
    options = ["-p", "no:cacheprovider", "-o", "addopts=", "-q", "--nbval", "--nbval-cell-timeout", "120"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--nbval-sanitize-with", str(HERE / "sanitize.cfg"), str(folder)],
        env={**os.environ, "NETPERF_EXPERIMENT": str(experiment)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_reference_notebooks_come_out_the_same(experiment: Path, tmp_path: Path) -> None:
    shutil.copytree(HERE / "reference", tmp_path / "reference")
    done = nbval(tmp_path / "reference", experiment)
    assert done.returncode == 0, done.stdout[-4000:]
    compared = re.search(r"(\d+) passed", done.stdout)
    assert compared
    assert int(compared[1]) > 50
    assert "skipped" not in done.stdout


def test_the_comparison_really_compares(experiment: Path, tmp_path: Path) -> None:
    book = nbformat.read(HERE / "reference" / "summary.ipynb", as_version=4)
    changed = False
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "31 %" in str(data.get("text/plain", "")):
                data["text/plain"] = data["text/plain"].replace("31 %", "32 %")
                changed = True
    assert changed
    (tmp_path / "reference").mkdir()
    nbformat.write(book, tmp_path / "reference" / "summary.ipynb")
    done = nbval(tmp_path / "reference", experiment)
    assert done.returncode == 1, done.stdout[-2000:]
    assert "32 %" in done.stdout
