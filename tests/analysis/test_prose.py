"""Numbers that people read are recomputed from the raw table of the recorded data."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.cli import npl as command
from netperf_lib.metrics import HEADLINES, METRICS
from netperf_lib.reporting import explorer

REPO = Path(__file__).parents[2]


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


def test_readme_shows_what_compare_prints(monkeypatch):
    text = (REPO / "README.md").read_text("utf-8")
    shown = r"\$ npl (compare data/recorded/lab-full)\n(.*?)```"
    [(words, printed)] = re.findall(shown, text, re.DOTALL)
    monkeypatch.chdir(REPO)
    assert printed.rstrip() in CliRunner().invoke(command, words.split()).output


@pytest.fixture(scope="module")
def explored(exp):
    """What the explorer shows of the headlines of the recorded experiment and a few more."""
    others = [name for name in METRICS if name not in HEADLINES]
    some = {name: METRICS[name] for name in (*HEADLINES, *others[::6])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "METRICS", some)
        return explorer._data(exp)


def test_the_explorer_names_the_cause(explored):
    causes = {c["held"] for metric in explored["metrics"] for c in metric["conditions"]}
    assert "receive window" in causes


def test_every_level_and_run_of_the_explorer_is_that_of_the_raw_table(explored):
    runs = npl.load(npl.recorded()).set_index("run_id")
    complete = runs[runs["status"] == "ok"]
    told = {
        factor["name"]: runs[factor["name"]]
        .astype(object)
        .where(lambda one: one.notna(), None)
        for factor in explored["factors"]
    }
    for metric in explored["metrics"]:
        factors = [explored["factors"][i] for i in metric["by"]]
        measured = runs[metric["name"]]
        found = []
        for c in metric["conditions"]:
            ids = [explored["runs"]["id"][i] for i in c["runs"]]
            values = measured[ids]
            assert c["values"] == pytest.approx([*values], rel=1e-4)  # five digits
            assert c["median"] == pytest.approx(values.median(), rel=1e-4), c["name"]
            assert (c["n"], c["failed"], c["missing"]) == (len(ids), 0, 0)
            for factor, i in zip(factors, c["levels"], strict=True):
                assert {*told[factor["name"]][ids]} == {factor["levels"][i]}
            found += ids
        assert sorted(found) == sorted(complete[metric["name"]].dropna().index)
    assert len(explored["metrics"]) > 5
