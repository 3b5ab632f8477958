"""Comparisons of conditions: what is typed by hand is as honest as the report."""

import inspect
from itertools import chain

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.words import effect, span
from netperf_lib.cli import npl as cli
from netperf_lib.errors import UsageError
from netperf_lib.metrics import format_value

from . import planted as made

RECORDED = npl.recorded()
US = "latency_oneway_us"


def planted(rounds=12, far=1.0):
    """Latency of two placements, accelerated (40 µs) or not (120 µs), 2 % noise."""
    levels = {
        (place, on): times * (40.0 if on else 120.0)
        for place, times in (("near", 1.0), ("far", far))
        for on in (True, False)
    }
    return made.runs(levels, rounds, by=["placement", "accelerated"], noise=0.02)


def test_a_comparison_names_its_factor(exp, compared):
    declared = {c.factor for c in compared}
    assert {"placement", "accelerated", "tcp_buffer_bytes"} <= declared
    by = npl.compare(exp, metric="throughput_bps", by="streams")
    assert {c.factor for c in by} == {"streams"}
    changed = npl.compare(RECORDED.with_name("before"), RECORDED.with_name("after"))
    assert {c.factor for c in changed} == {"measurement"}
    zones = npl.compare(RECORDED.with_name("zones"), metric=US)
    assert {c.factor for c in zones} == {"pair"}


def test_conditions_that_differ_in_something_else_are_not_compared():
    family = npl.compare(planted(far=1.5), metric=US, by="placement")
    assert sorted((*c.names, c.context) for c in family) == [
        ("near", "far", "accelerated networking"),
        ("near", "far", "no accelerated networking"),
    ]
    assert [c.ratio for c in family] == pytest.approx([1 / 1.5] * 2, rel=0.03)
    assert {*family.verdicts} == {"exploratory"}


def test_what_was_declared_has_the_verdict_of_the_report_in_both_directions(
    exp, compared
):
    opposite = {"better": "worse", "worse": "better"}
    report = {}
    for c in compared:
        report[c.metric, *c.medians] = str(c.verdict)
        report[c.metric, *c.medians[::-1]] = opposite.get(str(c.verdict), str(c.verdict))
    family = npl.compare(exp, metric=US, by="placement")
    judged = [c for c in family if c.verdict != "exploratory"]
    assert len(judged) >= 3
    for c in judged:
        assert c.verdict == report[c.metric, *c.medians]


def test_a_level_of_all_runs_is_the_declared_question(exp):
    where = {"duration_s": exp.runs["duration_s"].iloc[0]}
    family = npl.compare(exp, metric=US, by="placement", where=where)
    assert "exploratory" not in {str(c.verdict) for c in family}


def test_a_second_difference_is_told():
    runs = planted()
    runs["kernel"] = runs["placement"].map({"near": "6.1", "far": "6.8"})
    family = npl.compare(runs, metric=US, by="placement")
    assert all(any("also differ in kernel" in w for w in c.warnings) for c in family)


def test_factors_of_two_hosts_are_compared_as_pairs():
    by = ["server", "server_zone"]
    levels = {("b1", "1"): 40.0, ("b2", "2"): 60.0, ("b3", "3"): 80.0}
    runs = made.runs(levels, by=by, client="a", client_zone="1", noise=0.02)
    family = npl.compare(runs, metric=US, by="server_zone")
    assert [c.ratio for c in family] == pytest.approx([1.5, 2, 4 / 3], rel=0.03)
    assert family[0].names == ("zone 1 → 2", "zone 1 → 1")


def test_an_answer_shows_itself(exp):
    answer = npl.ask(exp, "streams", "throughput_bps")
    shown, markdown = repr(answer), answer._repr_markdown_()
    assert len(answer.verdicts) > 0
    assert all(str(name) in shown for name in answer.levels.index)
    for c in answer.verdicts:
        assert c.words in shown
        assert f"| {effect(c.ratio)} | {span(c.ratio, c.low, c.high)} |" in markdown
    _, ax = plt.subplots()
    assert answer.plot(ax=ax) is ax
    assert len(ax.get_yticks()) == len(answer.main.conditions) == 4
    assert npl.ask(exp, by="streams").metric == "throughput_bps"  # latency has no streams


PLOTTED = {
    "over_time": (RECORDED.with_name("day"),),
    "limits": (RECORDED,),
    "forest": (None,),
}
"""What a plot is drawn of, where it is not the latency of the experiment that comes with the
library."""
HELPERS = {"label_axis", "in_units"}
DRAWN = [n for n in npl.plots.__all__ if n[0].islower() and n not in HELPERS]


@pytest.mark.parametrize("name", DRAWN)
def test_every_plot_returns_axes_that_show_themselves_and_composes(exp, compared, name):
    data, *metric = PLOTTED.get(name, (exp, US))
    plot = getattr(npl.plots, name)
    alone = plot(data or compared, *metric)
    assert isinstance(alone, npl.plots.Chart)
    shown, told = alone._repr_mimebundle_()
    assert "<svg" in shown["image/svg+xml"]
    assert told["image/svg+xml"]["alt"]
    assert alone.get_title(loc="left") or alone.texts
    _, grid = plt.subplots(1, 2)
    assert plot(data or compared, *metric, ax=grid[1]) is grid[1]
    assert grid[1].has_data()
    assert not grid[0].has_data()
    takes = set(inspect.signature(plot).parameters)
    assert takes == {"data", "ax"} if name == "forest" else {"where", "ax"} <= takes
    plt.close("all")


def test_a_legend_covers_no_point_and_no_title(exp):
    first = npl.plots.rounds(exp, US, by="placement")
    first.figure.canvas.draw()
    for axes in first.figure.axes:
        box = axes.get_legend().get_window_extent()
        assert axes.get_window_extent().x1 <= box.x0 + 1
        assert not box.overlaps(axes._left_title.get_window_extent())


def legends(ax):
    """The words of the legend of each panel."""
    panels = [panel.get_legend().get_texts() for panel in ax.figure.axes]
    return [[text.get_text() for text in texts] for texts in panels]


def test_hue_groups_as_in_seaborn_and_a_panel_has_few_lines(exp):
    hue = legends(npl.plots.rounds(exp, "throughput_bps", hue="placement"))
    assert {*chain(*hue)} == {"ppg", "same-zone", "cross-zone", "cross-region"}
    every = legends(npl.plots.rounds(exp, "throughput_bps"))
    assert max(map(len, every)) <= 6
    assert sum(map(len, every)) == 13


def test_a_filter_leaves_out_what_has_no_runs_and_keeps_what_has_all_of_them(
    exp, compared
):
    every = {c.words for c in compared}
    some = npl.compare(exp, where={"streams": "1"})
    assert "1 contrast left out: no runs with streams=1 on both sides" in some.warnings
    assert len(some) == 9
    assert {c.words for c in some} <= every
    with pytest.raises(
        UsageError, match="no contrast is about streams=16, with runs on both sides"
    ):
        npl.compare(exp, where={"streams": 16})


def test_an_answer_says_that_rounds_were_planned_only_where_they_were(exp):
    planned = "measured once in every planned round"
    assert planned in npl.ask(exp, "placement").words
    by_hand = pd.DataFrame(exp.runs.to_dict("list"))
    assert planned not in npl.ask(by_hand, "placement").words


@pytest.mark.parametrize(
    ("name", "metric", "by"),
    [
        ("lab-full", US, "placement"),  # long names
        (
            "lab-full",
            "throughput_bps",
            "during",
        ),  # five footnotes, what limits both sides
        pytest.param(
            "paths", "throughput_bps", "tcp_buffer_bytes", marks=pytest.mark.slow
        ),
    ],
)
def test_levels_and_comparisons_of_a_factor_fit_on_80_columns(name, metric, by):
    folder = RECORDED.with_name(name)
    words = ["compare", str(folder), "--metric", metric, "--by", by]
    out = CliRunner().invoke(cli, words).output
    assert max(map(len, out.splitlines())) <= 80
    wrapped = " ".join(npl.observe(folder, metric, by).names).split()
    assert [word for word in wrapped if word not in out] == []


def test_a_level_has_one_median_whatever_it_is_compared_with():
    slower = np.where(np.arange(12) < 6, 40.0, 80.0)
    levels = {"near": slower, "far": 60.0, "third": 60.0}
    runs = made.runs(levels, noise=0.02)
    runs = runs[runs["placement"].ne("third") | runs["round"].le(6)]
    medians = npl.levels(runs, US)["median"]
    family = npl.compare(runs, metric=US, by="placement")
    apart = set()
    for c in family:
        assert c.medians == tuple(medians[list(c.names)])
        if any("not the quotient" in w for w in c.warnings):
            apart.add(c.names)
    # the others have all rounds in common, or one level
    assert apart == {("third", "near")}
    lead = str(npl.analysis.lead_paragraph(runs))
    assert all(format_value(median, "us").split()[0] in lead for median in medians)


@pytest.mark.parametrize(
    "name", ["default", "Off", "none", "before", "vorher", "baseline"]
)
def test_a_level_with_the_name_of_a_baseline_is_one(name):
    runs = made.runs({"1M": 2.0, name: 1.0, "64M": 3.0}, 10, by="setting")
    assert {c.names[1] for c in npl.compare(runs)} == {f"setting {name}"}


def test_of_levels_measured_one_after_the_other_the_first_is_the_baseline():
    runs = made.runs({"neu": 2.0, "zuvor": 1.0}, 10, by="side")
    runs.loc[runs["side"] == "neu", "started_utc"] += pd.Timedelta(days=3)
    assert {c.names for c in npl.compare(runs)} == {("side neu", "side zuvor")}
