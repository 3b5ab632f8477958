"""Numbers that people read are recomputed from the raw table of the recorded data."""

import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib.reporting import explorer

REPO = Path(__file__).parents[2]


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
