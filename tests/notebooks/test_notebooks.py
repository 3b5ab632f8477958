"""Every notebook: what it shows is on its pages, parameters take values, lessons hold."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pypdf
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

import netperf_lib as npl
from netperf_lib.analysis.words import as_text
from netperf_lib.data.raw import digest_of
from netperf_lib.reporting import notebooks
from netperf_lib.reporting.execute import parameters_of
from netperf_lib.reporting.workshop import exercises, lay_out

with pytest.MonkeyPatch.context() as _patch:  # the script of `make workshop`
    _patch.syspath_prepend(Path(__file__).parents[2] / "docs")
    import workshop

from ..kernels import own_sockets
from . import reference
from .cells import executed

HERE = Path(__file__).parent
REPO = HERE.parents[1]
RECORDED = npl.recorded().parent
SECOND = [
    ("01-placement", {"metric": "throughput_bps", "baseline": "ppg"}),
    ("02-accelerated", {"metric": "throughput_bps"}),
    (
        "03-streams",
        {"metric": "throughput_sent_bps", "share": 0.9, "advertised_gbps": 8.0},
    ),
    ("04-tcp-buffers", {"target_gbps": 2.5, "eta": 0.7}),
    ("05-paths", {"metric": "throughput_bps", "baseline": "vpn"}),
    ("06-tails", {"metric": "latency_oneway_p999_us"}),
    ("factor", {"factor": "streams", "metric": "throughput_bps", "baseline": "4"}),
    ("time", {"name": "lab-full", "metric": "throughput_bps"}),
    ("published", {"source": "oci-phoenix-vmstandard2.16"}),
    (
        "before-after",
        {"before": str(npl.recorded()), "metric": "throughput_bps", "margin": 0.2},
    ),
    ("explore", {"metric": "throughput_bps", "factor": "streams"}),
]


def squeezed(words):
    return re.sub(r"[\s\u200b]+", "", words)


def cells(book):
    return nbformat.read(book, as_version=4).cells


def code(book):
    return [cell for cell in cells(book) if cell.cell_type == "code"]


# -- the report of the recorded experiment ---------------------------------------------------------

FOOTER, HEIGHT = 40, 757
"""Points below the text of a page, and of the text."""


@pytest.fixture(scope="module")
def reports(recorded):
    steps = []
    pdfs = npl.report(recorded, progress=lambda *step: steps.append(step))
    assert steps[-1][:2] == (len(pdfs), len(pdfs))
    assert len({name for _, _, name in steps}) > 3
    return {p.stem: p for p in pdfs}


@cache
def read_pages(pdf):
    """Of each page its text, and how far above its foot the words stand."""
    found = []
    for page in pypdf.PdfReader(pdf).pages:
        drawn = []
        text = page.extract_text(
            visitor_text=lambda words, cm, tm, *_, drawn=drawn: drawn.append(
                (words, cm, tm)
            )
        )
        heights = [
            tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            for words, cm, tm in drawn
            if words.strip()
        ]
        found.append((text, heights))
    return found


def texts(pdf):
    return [text for text, _ in read_pages(pdf)]


def test_every_notebook_has_a_page_and_the_last_is_all_of_them(reports):
    assert list(reports)[-1] == "report"
    pages = npl.analysis.pages(npl.read(npl.recorded()))
    assert set(reports) == {*(p.key for p in pages), "report"}


def figures(book):
    """Return what stands in the tables of an executed notebook."""
    kept = [c for c in cells(book) if "detail" not in c.metadata.get("tags", [])]
    outputs = [output for cell in kept for output in cell.get("outputs", ())]
    shown = "\n".join(
        output.get("data", {}).get("text/markdown", "") for output in outputs
    )
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    found = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    return [squeezed(as_text(cell)) for cell in found if "Warning" not in cell]


def test_no_number_of_a_table_is_missing_on_the_pages(reports):
    *others, report = reports.values()
    whole = squeezed("".join(texts(report)))
    for pdf in others:
        page = squeezed("".join(texts(pdf)))
        for figure in figures(pdf.with_suffix(".ipynb")):
            assert figure in page, (pdf.stem, figure)
            assert figure in whole, (pdf.stem, figure)


def test_figures_are_vectors_with_text(reports):
    pages = pypdf.PdfReader(reports["01-placement-latency"]).pages
    assert [image for page in pages for image in page.images] == []
    assert "10.2 ms" in "".join(texts(reports["01-placement-latency"]))


def test_the_report_opens_with_verdicts_and_ends_with_its_origin(reports):
    pdf = reports["report"]
    first, *others = map(squeezed, texts(pdf))
    for words in ("Whatthenetworkgives", "ppgagainstsame-zone", "lessone-waylatency"):
        assert words in first
    assert re.search(r"One-waylatency:[\d.]+µsand[\d.]+µs", first)
    assert digest_of(npl.read(npl.recorded()).folder) in "".join(others[-2:])


RAW = r"\d{7,}|\b(?:True|False|NaN|None)\b|run_id|\bobs\.|\d-\d\d-[a-z]"
"""What is no word or figure for people."""


def test_the_report_is_for_who_decides(reports):
    pages = texts(reports["report"])
    assert len(pages) <= 8
    *others, _ = re.split("How this report was made", "\n".join(pages))
    settings = r"net\.\S+ = .*"  # to be typed as they are
    assert re.findall(RAW, re.sub(settings, "", "".join(others))) == []
    lines = "".join(others).splitlines()
    assert [line for line in lines if re.match(r"(µs|ms|[GMk]?bit/s|it/s)\b", line)] == []
    titles = [entry.title for entry in flat(pypdf.PdfReader(reports["report"]).outline)]
    assert not any("By hand" in title or "behind it" in title for title in titles)
    whole = " ".join("".join(others).split())
    checked = r"3 of 3 ratios, computed again with scipy, agree to every printed digit"
    assert re.search(rf"{checked}\. See 01-placement-latency\.ipynb", whole)


def flat(outline):
    for entry in outline:
        yield from flat(entry) if isinstance(entry, list) else [entry]


def test_no_page_ends_early_and_no_heading_stands_alone(reports):
    reader = pypdf.PdfReader(reports["report"])
    heads = {n: [] for n in range(len(reader.pages) + 1)}
    for entry in flat(reader.outline):
        heads[reader.get_destination_page_number(entry)].append(float(entry.top))
    for n, (_, heights) in enumerate(read_pages(reports["report"])[:-1]):
        low = min(y for y in heights if y > FOOTER)
        assert low < FOOTER + HEIGHT / 5, f"page {n + 1} ends early"
        begins_anew = max(heads[n + 1], default=0) > 0.95 * HEIGHT + FOOTER
        under = min(heads[n], default=HEIGHT) - low
        # a heading, two lines and a formula take 50 points
        assert begins_anew or under > 45, (
            f"page {n + 1} ends with a heading and little else"
        )


def shown_raw(book):
    """Return what a table outside of details shows as a machine has it."""
    open_cells = [c for c in code(book) if "detail" not in c.metadata.get("tags", [])]
    outputs = [output for cell in open_cells for output in cell.outputs]
    pages = " ".join(output.get("data", {}).get("text/html", "") for output in outputs)
    words = re.sub(r"(?s)<style.*?</style>|<[^>]+>", " ", pages)
    return re.findall(rf"{RAW}|NaT|\d\.\d{{4,}}|(?:client|server)_\w+|\bunit\b", words)


@pytest.mark.parametrize("name", [n for n in notebooks() if n != "published"])
def test_a_table_of_a_page_is_for_people(name):
    """Of published figures the rows are shown as they are; their page is in no report."""
    assert shown_raw(reference.FOLDER / f"{name}.ipynb") == []


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), SECOND, ids=[name for name, _ in SECOND])
def test_every_parameter_takes_a_second_value(name, values):
    declared = parameters_of(notebooks()[name])
    assert set(values) == set(declared) - {"experiment"}
    assert all(declared[key].default != repr(value) for key, value in values.items())
    place = RECORDED / ("paths" if name == "05-paths" else "lab-full")
    names, outputs = executed(notebooks()[name], {"experiment": str(place), **values})
    assert outputs
    assert "Not in this experiment" not in "\n".join(map(str, outputs))
    assert np.all(names.get("same", True)), "by hand and on page one"


# -- what is committed -----------------------------------------------------------------------------

COMMITTED = sorted((REPO / "notebooks").rglob("*.ipynb"))


@pytest.mark.parametrize("book", COMMITTED, ids=lambda p: p.stem)
def test_a_notebook_is_committed_without_outputs_and_imports_the_library_alone(book):
    assert [cell for cell in code(book) if cell.outputs or cell.execution_count] == []
    for source in (cell.source for cell in code(book)):
        for part, name in re.findall(r"npl\.(analysis|plots|workshop)\.(\w+)", source):
            assert hasattr(getattr(npl, part), name), f"npl.{part}.{name}"
        assert not re.search(r"(?m)^\s*(from|import) netperf_lib\.", source)


@pytest.mark.parametrize("book", COMMITTED, ids=lambda p: p.stem)
def test_every_notebook_names_its_parameters(book):
    [cell] = [c for c in code(book) if "parameters" in c.metadata.get("tags", [])]
    example = reference.OTHERS.get(book.stem)
    named = f"data/recorded/{example}" if example else "results/lab"
    assert re.findall(r'(?m)^experiment = "(.+?)"', cell.source) == [named]
    commented = ["  # " in line for line in cell.source.splitlines()]
    assert all(commented) or book.parent.name != "notebooks"


@pytest.mark.parametrize("name", [n for n in notebooks() if n != "explore"])
def test_prose_holds_no_typed_number(name):
    for cell in cells(notebooks()[name]):
        if cell.cell_type == "markdown":
            prose = re.sub(
                r"(?s)\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|RFC \d+", "", cell.source
            )
            assert not re.search(r"\d", prose), cell.source[:80]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A notebook in a folder in which, and above which, no experiment was measured."""
    book = nbformat.read(notebooks()["summary"], as_version=4)
    code = [
        "import netperf_lib as npl",
        "len(npl.read(experiment).runs)",
        "npl.load('results/typo')",
    ]
    book.cells = [*book.cells[:2], *map(nbformat.v4.new_code_cell, code)]
    book.cells[-1].metadata["tags"] = ["raises-exception"]
    where = {"metadata": {"path": str(tmp_path_factory.mktemp("elsewhere"))}}
    with own_sockets() as sockets:
        config = Config(KernelManager=sockets)
        NotebookClient(book, resources=where, timeout=900, config=config).execute()
    return book


def test_a_notebook_runs_where_vs_code_and_jupyter_start_it(elsewhere):
    *_, shown, _ = elsewhere.cells
    assert "264" in str(shown.outputs)
    assert "shows the recorded experiment" in str(shown.outputs)


def test_a_notebook_that_names_another_experiment_never_gets_the_recorded_one(elsewhere):
    [error] = elsewhere.cells[-1].outputs
    assert error.output_type == "error"
    assert "no experiment here" in error.evalue


NEXT = {
    book.stem: re.findall(r"(?m)^npl\..*$", cell.source)
    for book in sorted((REPO / "notebooks").glob("*.ipynb"))
    for cell in cells(book)
    if "try-next" in cell.metadata.get("tags", [])
}
LINES = {
    line.partition("  #")[0].replace("experiment", "exp"): reference.OTHERS.get(
        name, "lab-full"
    )
    for name, lines in NEXT.items()
    for line in lines
}
"""Each line once, with the recording on which it is tried."""


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(data, marks=pytest.mark.slow) if data == "lab-full" else data
        for data in sorted(set(LINES.values()))
    ],
)
def test_what_to_try_next_works_as_typed(data, tmp_path):
    exp = npl.read(shutil.copytree(RECORDED / data, tmp_path / data))
    for line in [line for line, other in LINES.items() if other == data]:
        assert eval(line, {"npl": npl, "exp": exp}) is not None, line
        plt.close("all")


# -- reference notebooks ---------------------------------------------------------------------------

REFERENCES = sorted(reference.FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("place", REFERENCES, ids=lambda p: p.stem)
def test_a_reference_has_the_cells_of_its_notebook(place):
    tagged = [
        c for c in cells(place) if "injected-parameters" not in c.metadata.get("tags", [])
    ]
    assert [c.source for c in tagged] == [
        c.source for c in cells(notebooks()[place.stem])
    ]


def compared(python, folder):
    """Have nbval execute a folder's notebooks and compare them; return what it prints."""
    options = ["-p", "no:cacheprovider", "-o", "addopts=", "-q", "--nbval"]
    options += [
        "--nbval-cell-timeout=300",
        f"--nbval-sanitize-with={HERE / 'sanitize.cfg'}",
    ]
    # pytest looks at what lies beside each folder above, which may be somebody else's
    options += [f"--rootdir={folder}", f"--confcutdir={folder}"]
    command = [python, "-m", "pytest", *options, str(folder)]
    env = os.environ | {"NETPERF_RECORDED": str(RECORDED)}
    done = subprocess.run(
        command, env=env, cwd=reference.FOLDER, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.slow
def test_notebooks_come_out_as_their_references(python, tmp_path):
    """And a number that was changed is found."""
    for place in REFERENCES:
        shutil.copy(place, tmp_path)
    changed = tmp_path / "07-quality.ipynb"
    text = (reference.FOLDER / changed.name).read_text("utf-8")
    assert "264 runs: 264 ok" in text
    changed.write_text(text.replace("264 runs: 264 ok", "264 runs: 265 ok"), "utf-8")
    said = compared(python, tmp_path)
    assert re.search(r"\b1 failed, \d+ passed", said), (
        f"python -m tests.notebooks.reference writes them anew\n{said[-4000:]}"
    )
    assert "264 runs: 265 ok" in said


# -- the workshop ----------------------------------------------------------------------------------

CHECKS = exercises()


@pytest.fixture(scope="module", autouse=True)
def figures_of_runs():
    """Several exercises ask for the same figures of the same runs: each is computed once."""
    names = CHECKS["placement.median"].truth.__globals__
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_values", "_rounds", "_rate", "_verdict", "_answered"):
            patch.setitem(names, name, cache(names[name]))
        yield


LESSONS = sorted((REPO / "notebooks" / "workshop").glob("*.ipynb"))
LONG = ("3-placement", "7-accelerated-networking", "8-tails")
"""Their solutions take half of the time of all."""


@pytest.fixture(scope="module")
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    main = sys.modules["__main__"]
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()
    # the shell had put its own there, from which no process can be started
    sys.modules["__main__"] = main


def answered(shell, cell):
    """Execute a cell; return what its check says."""
    plt.close("all")  # as in a notebook, a cell begins a figure of its own
    done = shell.run_cell(cell.source.replace('"results/lab"', "str(npl.recorded())"))
    assert done.success, (cell.source, done.error_in_exec)
    return done.result.title if ".check(" in cell.source else None


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=pytest.mark.slow) if place.stem in LONG else place
        for place in LESSONS
    ],
    ids=lambda place: place.stem,
)
def test_a_lesson_waits_for_answers_and_its_solution_holds(
    place, shell, tmp_path, monkeypatch
):
    """Both in one run: a cell of the lesson comes before that of the solution."""
    monkeypatch.chdir(tmp_path)
    shell.reset(new_session=False)
    shell.run_cell("import netperf_lib as npl")
    waiting, solved = [], []
    pairs = zip(code(place), code(place.parent / "solutions" / place.name), strict=True)
    for learned, cell in pairs:
        if "live" in cell.metadata.get("tags", []):
            continue
        if ".check(" in learned.source:
            waiting.append(answered(shell, learned))
        solved.append(answered(shell, cell))
    assert set(waiting) == {"Not answered yet"}
    assert [*filter(None, solved)] == ["Correct"] * len(waiting)


def test_a_lesson_is_its_solution_without_the_marked_lines():
    made = workshop.lessons()
    assert list(made) == [p.stem for p in LESSONS]
    for place in LESSONS:
        solution = cells(place.parent / "solutions" / place.name)
        tasks = [c.source for c in solution if "exercise" in c.metadata.get("tags", [])]
        assert tasks
        assert all(workshop.MARK in source for source in tasks)
        wanted = nbformat.writes(made[place.stem]) + "\n"
        assert place.read_text("utf-8") == wanted, "`make workshop` writes it"


@pytest.mark.parametrize("name", [p.stem for p in LESSONS])
def test_a_slide_has_at_most_one_code_cell(name):
    """Text of all headings is shown, and no exercise that only a notebook can take."""
    book = workshop.lessons([name])[name]
    prose = "\n".join(c.source for c in book.cells if c.cell_type == "markdown")
    page = workshop.slides(book)
    shown = page.split("<section>")[1:]
    assert max(slide.count("<pre") for slide in shown) == 1
    headings = len(re.findall(r"<h[1-6]", "".join(shown)))
    assert headings == len(re.findall(r"(?m)^#+ (.*)", prose))
    assert "answer = ..." not in page


def test_a_single_round_ranks_equal_zones_by_chance():
    where = {"tool": "qperf", "placement": ["same-zone", "cross-zone"]}
    obs = npl.observe(npl.recorded(), "latency_oneway_us", "placement", where=where)
    wide = obs.main().wide
    nearer = wide["cross-zone"] < wide["same-zone"]
    assert 0.3 <= nearer.mean() <= 0.7
    guide = (REPO / "notebooks" / "workshop" / "TEACHER.md").read_text("utf-8")
    assert f"nearer one in {nearer.sum()} of {len(wide)} rounds" in guide


@pytest.mark.slow
def test_slides_and_handout_show_the_lessons_and_no_solution(tmp_path):
    name = "7-accelerated-networking"
    slides, handout = workshop.build(tmp_path, [name])
    assert slides.name == f"{name}.slides.html"
    page, printed = slides.read_text("utf-8"), squeezed("".join(texts(handout)))
    title = (
        workshop.lessons([name])[name].cells[0].source.split("\n")[0].removeprefix("# ")
    )
    assert title in page
    assert squeezed("A switch in the portal") in printed
    assert "NETWORKPERFORMANCEREPORT" not in printed
    assert all(slide.count("<img") <= 1 for slide in page.split("<section"))
    assert "size: 1280px 720px" in page  # printed landscape
    assert 'src="http' not in page  # presented without a network
    assert "<link" not in page
    for secret in ("146/40", "3.65/4", workshop.MARK, "Not answered yet"):
        assert squeezed(secret) not in squeezed(page) + printed, secret


def test_lessons_are_laid_out_once_and_keep_what_was_written(tmp_path, recorded):
    made = lay_out(tmp_path / "desk", recorded)
    assert [p.name for p in made] == [p.name for p in LESSONS]
    assert str(recorded) in made[0].read_text("utf-8")
    assert not (tmp_path / "desk" / "solutions").exists()
    made[0].write_text("mine", "utf-8")
    lay_out(tmp_path / "desk", recorded)
    assert made[0].read_text("utf-8") == "mine"


# -- answers of learners ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured():
    """The recorded experiment; what is right is computed from it once, for it takes its time."""
    runs, before = npl.read(npl.recorded()), dict(CHECKS)
    for name, asked in before.items():
        right, slips = asked.truth(runs), asked.mistakes(runs)
        known = {
            "truth": lambda _, right=right: right,
            "mistakes": lambda _, slips=slips: slips,
        }
        CHECKS[name] = replace(asked, **known)
    yield runs
    CHECKS.update(before)


def said(name, answer, runs):
    return str(npl.workshop.check(name, answer, runs).title)


ALWAYS_WRONG = ("something else", -1, 1e12, True, {}, "nan", "1 or 2", "61.8 bananas")


@pytest.mark.parametrize("name", CHECKS)
def test_a_wrong_answer_gets_a_hint_and_not_the_answer(name, measured):
    right = CHECKS[name].truth(measured)
    for wrong in ALWAYS_WRONG:
        words = npl.workshop.check(name, wrong, measured)
        assert words.title == "Not yet", wrong
        assert not isinstance(right, float) or f"{right:.3g}" not in words.text
    assert said(name, ..., measured) == "Not answered yet"
    assert not re.search(r"[·*/=]|divide|multiply", CHECKS[name].hint), "no formula"


def meant(runs):
    """What is right for each number that is computed from the runs, and what is near and wrong."""
    qperf = runs.runs.query("tool == 'qperf' and accelerated == True")
    latency = qperf.groupby("placement", observed=True)["latency_oneway_us"]
    (ppg, near), means = latency.median()[["ppg", "same-zone"]], latency.mean()
    step, mean_step = near - ppg, means["same-zone"] - means["ppg"]
    tails = {}
    for part in ("p99", "p50"):
        metric = f"latency_oneway_{part}_us"
        timed = npl.observe(runs, metric).runs.groupby("condition", observed=True)
        tails[part] = timed[metric].median()
    p99, p50 = tails.values()
    busy = next(name for name in p99.index if str(name).startswith("cross-region, load"))
    queue, typical = (v[busy] - v["cross-region"] for v in (p99, p50))
    return {
        "placement.median": (
            [near, f"{near:.2f} us", f"{near / 1000:.6f} ms"],
            [means["same-zone"], f"{near} ms", f"{near} MB"],
        ),
        "tails.p99": ([f"{p99['ppg']:.1f} µs"], [p50["ppg"], p99["same-zone"]]),
        "tails.load": ([f"{queue / 1000:.2f} ms"], [typical, -queue]),
        # the difference of the means prints the same digits, and is right too
        "paths.step": ([f"{step:.1f} µs", mean_step], [-step]),
    }


def test_what_was_meant_passes_and_its_neighbour_does_not(measured):
    for name, (right, wrong) in meant(measured).items():
        assert {said(name, r, measured) for r in right} == {"Correct"}, name
        assert {said(name, w, measured) for w in wrong} == {"Not yet"}, name


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("ping.basis", ("2", 2.0), ("0.5", 1)),
        (
            "ping.protocol",
            ("ICMP echo", "icmpv4", "ICMP."),
            ("TCP", "TCP or ICMP", "not ICMP"),
        ),
        (
            "placement.nearest",
            ("PPG", "the proximity placement group"),
            ("zone", "ppg or zone"),
        ),
        (
            "accelerated.factor",
            ("3.65", "365 %", "×3.65"),
            (40 / 146, 3.82 / 3.65, "106 µs"),
        ),
        ("accelerated.room", ("91 %", "0.9125"), ("95.5 %", "8.75 %", "3.65 Gbit/s")),
        ("tails.published", ("c)", "C"), ("a", "59")),
        ("tails.calls", ("63.4%", 1 - 0.99**100), ("100 %", 1, "36.6 %")),
        ("paths.balancer", (13, "13 µs", "0.013 ms"), ("13 ms", 26, 93)),
        ("paths.window", ("0.581 Gbit/s", "581 Mbps", 580), (549, "72.6", "581 MB")),
        ("verdict.inconclusive", ("b)", "(B)", "answer b"), ("a", "b or c", "bc")),
        ("verdict.scope", ("pair", "these VMs"), ("placement", "pair and placement")),
    ],
)
def test_an_answer_is_read_as_it_was_meant(name, right, wrong, measured):
    assert {said(name, r, measured) for r in right} == {"Correct"}
    assert {said(name, w, measured) for w in wrong} == {"Not yet"}
