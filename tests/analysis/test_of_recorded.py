"""The recorded experiment: a table of its runs gives no more verdicts than it, whatever was done to
it; a condition, a warning and a sentence are true of the runs at hand."""

from dataclasses import replace
from itertools import product

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.experiment.origin import Measured
from netperf_lib.reporting.answer import describe
from netperf_lib.reporting.cover import cover

from . import planted

RECORDED = npl.recorded()
US = "latency_oneway_us"
QPERF = {"tool": "qperf"}


# -- verdicts of tables ----------------------------------------------------------------------------

EXPLORATORY = {"exploratory", "no verdict"}


def filtered(exp):
    return exp.runs[exp.runs["tool"] != "sockperf"]


def loaded(exp):
    return npl.load(exp.path)


def written(exp):
    return pd.DataFrame(exp.runs.to_dict("list"))


TABLES = [lambda exp: exp.runs, filtered, loaded, written]
OPTIONS = [{}, {"margin": 0.2}, {"metric": "throughput_bps", "by": "streams"}]


@pytest.mark.parametrize(
    ("table", "options"),
    [
        *((table, OPTIONS[0]) for table in TABLES),
        *((TABLES[0], options) for options in OPTIONS[1:]),
        *(
            pytest.param(*both, marks=pytest.mark.slow)
            for both in product(TABLES[1:], OPTIONS[1:])
        ),
    ],
)
def test_runs_of_a_declared_experiment_get_no_verdicts(exp, table, options):
    family = npl.compare(table(exp), **options)
    assert len(family)
    assert {*family.verdicts} <= EXPLORATORY
    assert any("where=" in warning for warning in family.warnings)


def test_contrasts_named_with_the_runs_are_no_declaration(exp):
    family = npl.compare(exp.runs, contrasts=exp.contrasts)
    assert {*family.verdicts} <= EXPLORATORY


def test_a_table_of_what_declared_nothing_is_judged_as_its_experiment():
    zones = npl.read(RECORDED.with_name("zones"))
    one, two = npl.compare(zones), npl.compare(zones.runs)
    assert two.verdicts == one.verdicts
    assert "better" in one.verdicts


def test_the_lead_of_a_table_judges_nothing(exp):
    assert not npl.analysis.lead_paragraph(filtered(exp)).judged


def test_another_margin_says_why_it_is_exploratory(exp):
    family = npl.compare(exp, margin=0.05)
    assert {*family.verdicts} <= EXPLORATORY
    assert any("margin" in warning for warning in family.warnings)


# -- conditions ------------------------------------------------------------------------------------


def test_tcp_and_udp_are_never_one_condition(exp):
    sockperf, runs = {"tool": "sockperf"}, exp.runs.copy()
    alone = npl.observe(runs, US, where=sockperf).names
    assert not any("TCP" in name or "UDP" in name for name in alone)  # it does not vary
    udp = (runs["tool"] == "sockperf") & (runs["round"] % 2 == 0)
    runs.loc[udp, "protocol"] = "udp"
    mixed = npl.observe(runs, US, where=sockperf)
    assert mixed.runs.groupby("condition", observed=True)["protocol"].nunique().max() == 1
    assert len(mixed.names) == 2 * len(alone)


def test_one_run_of_each_condition_is_not_called_runs(exp):
    first = npl.observe(exp.runs.query("round == 1"), US, where=QPERF)
    told = "5 conditions, 1 round, 1 deployment and 5 complete runs"
    assert told in describe(first)


def test_an_ordinary_level_and_one_that_is_not_known_are_two_conditions(exp):
    runs = exp.runs.copy()
    unknown = (runs["placement"] == "ppg") & (runs["round"] % 2 == 0)
    runs["accelerated"] = runs["accelerated"].astype(object).mask(unknown)
    groups = npl.observe(runs, US, where=QPERF).runs.groupby("condition", observed=True)
    assert groups["accelerated"].nunique(dropna=False).max() == 1


@pytest.mark.parametrize(
    ("deployments", "unit", "method"),
    [(1, "12 rounds", "signed rank"), (4, "4 deployments", "Student")],
)
def test_the_caption_of_ratios_says_what_was_counted_and_each_comparison_its_method(
    exp, deployments, unit, method
):
    runs = exp.runs.assign(deployment=1 + exp.runs["round"] % deployments)
    family = npl.compare(Measured(runs, exp.origin))
    assert f"n = {unit} per comparison" in repr(npl.plots.forest(family))
    assert all(method in c.method for c in family if c.threshold is None)
    plt.close("all")


# -- warnings of runs ------------------------------------------------------------------------------

BUSY = "client: CPU 96 % busy: the number may be the machine's, not the network's"


def test_a_comparison_counts_the_warned_runs_of_both_sides(exp):
    runs = exp.runs.copy()
    runs.loc[runs["placement"] == "ppg", "warnings"] = BUSY
    where = QPERF | {"placement": ["ppg", "same-zone"], "accelerated": True}
    [c] = npl.compare(runs, metric=US, by="placement", baseline="same-zone", where=where)
    assert f"12 of 12 runs of ppg carry a warning, such as “{BUSY}”" in c.warnings


def test_a_comparison_without_warned_runs_says_nothing(compared):
    quiet = [c for c in compared if c.metric.startswith("latency")]
    assert quiet
    assert not any("carry a warning" in w for c in quiet for w in c.warnings)


def test_what_is_uncertain_counts_the_warned_runs(exp):
    warned = exp.runs["warnings"].notna().sum()
    told = f"{warned} of {len(exp.runs)} runs carry a warning"
    assert told in str(npl.summary(exp).caveats)
    zones = npl.summary(RECORDED.with_name("zones"))
    assert "carry a warning" not in str(zones.caveats)


# -- sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["run", "round"])
def test_runs_are_drawn_by_round_where_rounds_are_known(words):
    runs = planted.runs({"ppg": 40.0, "same-zone": 60.0}, 3)
    ax = npl.plots.rounds(runs if words == "round" else runs.drop(columns="round"), US)
    assert f"by {words}" in f"{ax.get_title(loc='left')} {ax.get_title()}"
    assert ax.get_xlabel() == words.capitalize()
    plt.close("all")


def test_no_order_by_chance_is_claimed_of_logs():
    exp = npl.read(RECORDED.with_name("before"))
    claim = "in an order drawn at random"
    assert claim in cover(exp).provenance
    declared = exp.origin.declared | {"hosts": {"source": "imported"}}
    logs = Measured(exp.runs, replace(exp.origin, declared=declared))
    assert claim not in cover(logs).provenance
