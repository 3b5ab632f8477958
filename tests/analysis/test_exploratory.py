"""A table of runs never gives more verdicts than its experiment, whatever was done to it."""

from pathlib import Path

import pandas as pd
import pytest

import netperf_lib as npl

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
EXPLORATORY = {"exploratory", "no verdict"}


@pytest.fixture(scope="module")
def exp():
    return npl.read(RECORDED / "lab-full")


def filtered(exp):
    return exp.runs[exp.runs["tool"] != "sockperf"]


def loaded(exp):
    return npl.load(exp.path)


def written(exp):
    return pd.DataFrame(exp.runs.to_dict("records"))


@pytest.mark.parametrize("table", [lambda exp: exp.runs, filtered, loaded, written])
@pytest.mark.parametrize(
    "options", [{}, {"margin": 0.2}, {"metric": "throughput_bps", "by": "streams"}]
)
def test_runs_of_a_declared_experiment_get_no_verdicts(exp, table, options):
    family = npl.compare(table(exp), **options)
    assert len(family)
    assert {*family.verdicts} <= EXPLORATORY
    assert any("where=" in warning for warning in family.warnings)


def test_contrasts_named_with_the_runs_are_no_declaration(exp):
    family = npl.compare(exp.runs, contrasts=exp.contrasts)
    assert {*family.verdicts} <= EXPLORATORY
    assert {*npl.analysis.judge(exp.runs, exp.contrasts).verdicts} <= EXPLORATORY


def test_a_table_of_what_declared_nothing_is_judged_as_its_experiment():
    zones = npl.read(RECORDED / "zones")
    one, two = npl.compare(zones), npl.compare(zones.runs)
    assert two.verdicts == one.verdicts
    assert "better" in one.verdicts


def test_the_lead_of_a_table_judges_nothing(exp):
    assert not npl.analysis.lead_paragraph(filtered(exp)).judged


def test_another_margin_says_why_it_is_exploratory(exp):
    family = npl.compare(exp, margin=0.05)
    assert {*family.verdicts} <= EXPLORATORY
    assert any("margin" in warning for warning in family.warnings)
