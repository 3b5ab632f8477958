"""Numbers that people read are recomputed from the raw table of the recorded data."""

import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.hosts.lab.supervisor import NOISE_US
from netperf_lib.metrics import ALPHA, format_value
from netperf_lib.reporting import explorer

from ..tools.test_conformance import UNSENT
from . import limits_matrix, validate

REPO = Path(__file__).parents[2]
PUBLISHED = REPO / "data" / "published" / "figures.tsv"
FIGURE = re.compile(r"\d[\d.,]*\s?(?:%|µs|us|ms|[MG]bit/s|[kMG]i?B|times)(?!\w)")
COMPUTED = {
    "5 %": lambda: f"{100 * ALPHA:g} %",
    "10 %": lambda: (
        f"{100 * max(c.margin for c in npl.read(npl.recorded()).contrasts):g} %"
    ),
    "9.1 %": lambda: (
        f"{100 * (1 - 1 / (1 + max(c.margin for c in npl.read(npl.recorded()).contrasts))):.1f} %"
    ),
    "128 MB": lambda: next(
        c.removesuffix(" buffers")
        for c in pd.read_csv(PUBLISHED, sep="\t")["condition"].dropna()
        if c.endswith("MB buffers")
    ),
    "0.3 MB": lambda: f"{UNSENT / 1e6:g} MB",
    "20 µs": lambda: format_value(NOISE_US, "us"),
}
"""Every figure with a unit in the prose of the lessons, of README.md and of the documentation,
and what makes it."""
SIMULATED = ("limits", "validation")
"""Pages whose tables `make validate` and `make validate-limits` write."""
MEASURED = {"logs": ["2 %", "30 %", "0.9 times", "1.8 times"]}
MEASURED["logs"] += [
    "0.13 MB",
    "14.5 MB",
    "1.015 times",
    "0.94 times",
    "1.10 times",
    "256 MiB",
]
MEASURED |= {
    "limits": ["200 Mbit/s", "1 %", "50 ms", "97%", "20%", "10 %", "8 Gbit/s"],
    "method": ["93 %", "24 %", "4 %"],
    "validation": ["2 %", "15 %", "20 %", "0.25 %"],
}
"""Figures of how data are stored, of what tools report and of simulations, which the tests below
and those of these compare; what causes were planted up to, and the example of a delay."""


def prose(place):
    """The text that people read, without code."""
    if place.suffix == ".md":
        tables = r"|^\|.*?$" if place.stem in SIMULATED else ""
        return re.sub(
            rf"```.*?```|`[^`]*`{tables}",
            "",
            place.read_text("utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
    cells = json.loads(place.read_text("utf-8"))["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"\$\$.*?\$\$|`[^`]*`", "", text, flags=re.DOTALL)


LESSONS = sorted((REPO / "notebooks").rglob("*.ipynb"))
PAGES = [
    p
    for p in sorted((REPO / "docs").rglob("*.md"))
    if not {"_build", "generated", "gallery"} & set(p.parts)
]
PLACES = [REPO / "README.md", *LESSONS, *PAGES]


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.relative_to(REPO).as_posix())
def test_a_figure_in_prose_is_made_by_a_query(place):
    for figure in FIGURE.findall(prose(place)):
        if figure in MEASURED.get(place.stem, ()):
            continue
        assert figure in COMPUTED, f"nothing computes {figure!r}"
        assert COMPUTED[figure]() == figure


def documented(name):
    return (REPO / "docs" / f"{name}.md").read_text("utf-8")


def table_rows(page):
    """The rows of the tables of a page by their first cell; a point and a dash hold nothing."""
    rows = [
        [c.strip() for c in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in rows if row[0]}


def test_the_page_on_limits_counts_its_own_table():
    text = documented("explanation/limits")
    page, causes = " ".join(text.split()), limits_matrix.CAUSES
    cells = {name: row for name, row in table_rows(text).items() if name in causes}
    rows = {name: [0 if c == "·" else int(c) for c in row] for name, row in cells.items()}
    right = sum(row[causes.index(name)] for name, row in rows.items())
    unknown, every = sum(row[-1] for row in rows.values()), sum(map(sum, rows.values()))
    counts = f"{right} right ({right / every:.0%}), {every - right - unknown} wrong"
    assert f"{every} runs of {every} (0 left out: the lab" in page
    assert f"**{counts}, {unknown} not known**" in page
    rounds = int(re.search(r"Rounds: (\d+)", page)[1])
    planted = limits_matrix.settings().planted.values()
    assert every == rounds * len(planted)
    pairs = sum(len(causes) > 1 for causes in planted)
    assert f"{pairs * rounds} of these runs are pairs, of six settings" in page


def test_the_pages_on_method_and_validation_say_what_their_tables_hold():
    page = " ".join(documented("appendix/validation").split())
    assert (
        f"The margin is {100 * validate.MARGIN:g} %, and a report may be false with a chance of "
        f"{100 * ALPHA:g} %" in page
    )
    size = re.search(r"(\d+) experiments in each row", page)
    assert size
    error = 100 * (ALPHA * (1 - ALPHA) / int(size[1])) ** 0.5
    assert f"off by {error:.1f} points" in page
    rows = [
        row[::2]
        for row in table_rows(documented("appendix/validation")).values()
        if len(row) == 8 and row[0] != "this library: false"
    ]
    library, *others = (
        [float(cell) for cell in column if cell != "–"]
        for column in zip(*rows, strict=True)
    )
    assert max(library) <= 100 * ALPHA + 3 * error
    assert sum(library) / len(library) < 100 * ALPHA
    assert all(max(other) > 50 for other in others)
    right = table_rows(documented("appendix/validation"))["CV 8 %, +20 %, 10 rounds"][1]
    assert f"signed-rank test finds in {right} % of cases with 10 rounds" in " ".join(
        documented("explanation/method").split()
    )


@pytest.fixture(scope="module")
def runs():
    return npl.load(npl.recorded())


def raw(runs, metric, factors):
    """The medians of the complete runs by their levels, by nothing but pandas."""
    rows = runs[(runs["status"] == "ok") & runs[metric].notna()]
    levels = rows[factors].astype(object).where(rows[factors].notna(), None)
    values = defaultdict(dict)
    keys = map(tuple, levels.to_numpy())
    for key, number, value in zip(keys, rows["round"], rows[metric], strict=True):
        assert number not in values[key], "one run of each round"
        values[key][number] = value
    return {key: statistics.median(found.values()) for key, found in values.items()}


def test_readme_code_agrees_with_the_verdict(capsys, monkeypatch):
    text = (REPO / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(REPO)
    names = {}
    exec(code, names)
    *verdicts, by_hand = capsys.readouterr().out.splitlines()
    ratio, p_value = map(float, by_hand.split())
    (answer,) = [
        line
        for line in verdicts
        if "- ppg against same-zone: one-way latency −32 %" in line
    ]
    assert answer.startswith("better")
    assert ratio == pytest.approx(0.685, abs=0.005)
    assert p_value < 0.005


def test_readme_shows_what_compare_prints():
    text = (REPO / "README.md").read_text("utf-8")
    (shown,) = re.findall(
        r"\$ npl compare data/recorded/lab-full\n(.*?)```", text, re.DOTALL
    )
    command = [sys.executable, "-m", "netperf_lib", "compare", "data/recorded/lab-full"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    assert shown.rstrip() in done.stdout


def test_every_level_and_run_of_the_explorer_is_that_of_the_raw_table(runs):
    data = explorer._data(npl.read(npl.recorded()))
    of_run = runs.set_index("run_id")
    for metric in data["metrics"]:
        factors = [data["factors"][i] for i in metric["by"]]
        medians = raw(runs, metric["name"], [f["name"] for f in factors])
        for c in metric["conditions"]:
            pairs = zip(factors, c["levels"], strict=True)
            median = medians[tuple(f["levels"][i] for f, i in pairs)]
            assert c["median"] == pytest.approx(median, rel=1e-4), c["name"]
            values = of_run.loc[
                [data["runs"]["id"][i] for i in c["runs"]], metric["name"]
            ]
            assert c["values"] == pytest.approx(list(values), rel=1e-4)  # five digits
            assert (c["n"], c["failed"], c["missing"]) == (len(values), 0, 0)
    assert len(data["metrics"]) > 5
