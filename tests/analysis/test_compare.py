"""Comparisons of conditions: what is typed by hand is as honest as the report."""

import inspect
from pathlib import Path

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

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "lab-full"


@pytest.fixture(scope="module")
def exp():
    return npl.read(RECORDED)


def planted(rounds=12, **scale):
    """Latency of two placements, accelerated (40 µs) or not (120 µs), 2 % noise; `scale` by
    placement."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "placement": p,
            "accelerated": on,
            "round": r,
            "tool": "qperf",
            "test": "tcp_lat",
            "status": "ok",
        }
        | {
            "latency_oneway_us": (40 if on else 120)
            * scale.get(p, 1.0)
            * random.lognormal(0, 0.02)
        }
        for r in range(1, rounds + 1)
        for p in ("near", "far")
        for on in (True, False)
    )


def test_a_comparison_names_its_factor(exp):
    declared = {c.factor for c in npl.compare(exp)}
    assert {"placement", "accelerated", "tcp_buffer_bytes"} <= declared
    by = npl.compare(exp, metric="throughput_bps", by="streams")
    assert {c.factor for c in by} == {"streams"}
    recorded = RECORDED.parent
    changed = npl.compare(recorded / "before", recorded / "after")
    assert {c.factor for c in changed} == {"measurement"}
    zones = npl.compare(recorded / "zones", metric="latency_oneway_us")
    assert {c.factor for c in zones} == {"pair"}


def test_conditions_that_differ_in_something_else_are_not_compared():
    family = npl.compare(planted(far=1.5), metric="latency_oneway_us", by="placement")
    assert {(*c.names, c.context) for c in family} == {
        ("near", "far", "accelerated networking"),
        ("near", "far", "no accelerated networking"),
    }
    assert [c.ratio for c in family] == pytest.approx([1 / 1.5] * len(family), rel=0.03)
    assert len(family) == 2
    assert {str(c.verdict) for c in family} == {"exploratory"}


def test_what_was_declared_has_the_verdict_of_the_report_in_both_directions(
    exp,
):
    report = {
        (c.metric, *c.medians): str(c.verdict)
        for c in npl.compare(exp)
        if c.threshold is None
    }
    family = npl.compare(exp, metric="latency_oneway_us", by="placement")
    judged = [c for c in family if c.verdict != "exploratory"]
    assert len(judged) >= 3
    opposite = {"better": "worse", "worse": "better"}
    for c in judged:
        same, turned = (
            report.get((c.metric, *c.medians)),
            report.get((c.metric, *c.medians[::-1])),
        )
        assert str(c.verdict) in (same, opposite.get(turned or "", turned))


def test_another_margin_is_another_question(exp):
    family = npl.compare(exp, metric="latency_oneway_us", by="placement", margin=0.3)
    assert {str(c.verdict) for c in family} == {"exploratory"}


def test_a_level_of_all_runs_is_the_declared_question(exp):
    where = {"duration_s": exp.runs["duration_s"].iloc[0]}
    family = npl.compare(exp, metric="latency_oneway_us", by="placement", where=where)
    assert "exploratory" not in {str(c.verdict) for c in family}


def test_a_second_difference_is_told():
    runs = planted()
    runs["kernel"] = runs["placement"].map({"near": "6.1", "far": "6.8"})
    family = npl.compare(runs, metric="latency_oneway_us", by="placement")
    assert all(any("also differ in kernel" in w for w in c.warnings) for c in family)


def test_factors_of_two_hosts_are_compared_as_pairs():
    runs = planted().query("placement == 'near' and accelerated")
    parts = [
        runs.assign(
            client="a",
            server=f"b{z}",
            client_zone="1",
            server_zone=z,
            latency_oneway_us=runs["latency_oneway_us"] * k,
        )
        for k, z in ((1.0, "1"), (1.5, "2"), (2.0, "3"))
    ]
    family = npl.compare(
        pd.concat(parts, ignore_index=True), metric="latency_oneway_us", by="server_zone"
    )
    assert [round(c.ratio, 2) for c in family] == [1.5, 2.0, 1.33]
    assert family[0].names == ("zone 1 → 2", "zone 1 → 1")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: npl.compare(e, metric="throughput"), "did you mean throughput_bps"),
        (
            lambda e: npl.compare(e, metric="throughput_bps", by="zone"),
            "did you mean client_zone or server_zone",
        ),
        (
            lambda e: npl.compare(e, metric="throughput_bps", by="mss"),
            "no factor 'mss'|mss does not vary",
        ),
        (
            lambda e: npl.compare(e, metric="throughput_bps", by="streams", baseline=3),
            "has streams 3, the baseline",
        ),
        (lambda e: npl.ask(e, "banana", "throughput_bps"), "no factor 'banana'"),
    ],
)
def test_a_wrong_question_gets_one_line(exp, call, words):
    with pytest.raises(UsageError, match=words) as error:
        call(exp)
    assert "\n" not in str(error.value)


def test_an_answer_shows_itself(exp):
    answer = npl.ask(exp, "streams", "throughput_bps")
    shown = answer._repr_markdown_()
    assert all(str(name) in repr(answer) for name in answer.levels.index)
    assert all(c.words in repr(answer) for c in answer.verdicts)
    figures = [
        f"| {effect(c.ratio)} | {span(c.ratio, c.low, c.high)} |" for c in answer.verdicts
    ]
    assert figures
    assert all(row in shown for row in figures)
    assert "every run (points), median and its 95 % interval" in repr(answer.plot())
    _, ax = plt.subplots()
    assert answer.plot(ax=ax) is ax
    assert len(ax.get_yticks()) == len(answer.main.conditions) == 4
    assert npl.ask(exp, by="streams").metric == "throughput_bps"  # latency has no streams


def test_the_command_line_asks_the_same(exp):
    done = CliRunner().invoke(
        cli, ["compare", str(RECORDED), "--by", "placement", "--metric", "throughput_bps"]
    )
    assert done.exit_code == 0, done.output
    for name in npl.levels(exp, "throughput_bps", by="placement").index:
        assert str(name) in done.output
    assert max(map(len, done.output.splitlines())) <= 100


PLOTTED = {
    "over_time": ("data/recorded/day",),
    **dict.fromkeys(("limits", "forest"), (None,)),
}
"""What a plot is drawn of, where it is not the latency of the experiment that comes with the
library."""
HELPERS = {"label_axis", "in_units"}
DRAWN = [n for n in npl.plots.__all__ if n[0].islower() and n not in HELPERS]


@pytest.mark.parametrize("name", DRAWN)
def test_every_plot_returns_axes_that_show_themselves_and_composes(
    exp, name, monkeypatch
):
    monkeypatch.chdir(Path(__file__).parents[2])
    data, *metric = PLOTTED.get(name, (None, "latency_oneway_us"))
    plot = getattr(npl.plots, name)
    alone = plot(data or exp, *metric)
    assert isinstance(alone, npl.plots.Chart)
    shown, told = alone._repr_mimebundle_()
    assert "<svg" in shown["image/svg+xml"]
    assert told["image/svg+xml"]["alt"]
    assert alone.get_title(loc="left") or alone.texts
    _, grid = plt.subplots(1, 2)
    assert plot(data or exp, *metric, ax=grid[1]) is grid[1]
    assert grid[1].has_data()
    assert not grid[0].has_data()
    assert {"where", "ax"} <= set(inspect.signature(plot).parameters)
    plt.close("all")


def test_a_legend_covers_no_point_and_no_title(exp):
    first = npl.plots.rounds(exp, "latency_oneway_us", by="placement")
    first.figure.canvas.draw()
    for axes in first.figure.axes:
        box = axes.get_legend().get_window_extent()
        assert axes.get_window_extent().x1 <= box.x0 + 1
        assert not box.overlaps(axes._left_title.get_window_extent())


def test_hue_groups_as_in_seaborn_and_a_panel_has_few_lines(exp):
    first = npl.plots.rounds(exp, "throughput_bps", hue="placement")
    named = {
        text.get_text()
        for ax in first.figure.axes
        for text in ax.get_legend().get_texts()
    }
    assert named == {"ppg", "same-zone", "cross-zone", "cross-region"}
    every = npl.plots.rounds(exp, "throughput_bps")
    assert max(len(axes.get_legend().get_texts()) for axes in every.figure.axes) <= 6
    assert sum(len(axes.get_legend().get_texts()) for axes in every.figure.axes) == 13


@pytest.mark.parametrize("part", ["analysis", "hosts", "plots", "workshop"])
def test_a_module_lists_its_public_names_and_nothing_else(part):
    module = getattr(npl, part)
    names = dir(module)
    assert names
    assert not {
        "Any",
        "TYPE_CHECKING",
        "annotations",
        "importlib",
        "np",
        "pd",
        "os",
        "re",
    } & set(names)
    for name in names:
        value = getattr(module, name)
        assert getattr(value, "__module__", "netperf_lib").startswith("netperf_lib"), (
            f"{name} is another library's"
        )


def test_what_declares_nothing_is_compared_by_rule_as_the_command_line_does():
    by_rule, family = (
        npl.compare("data/recorded/day"),
        npl.analysis.lead_paragraph("data/recorded/day").family,
    )
    assert [c.words for c in by_rule] == [c.words for c in family]


def test_a_filter_leaves_out_what_has_no_runs_and_keeps_what_has_all_of_them():
    exp = npl.read("data/recorded/lab-full")
    every = {c.words for c in npl.compare(exp)}
    some = npl.compare(exp, where={"streams": "1"})
    assert len(some) == 9
    assert "1 contrast left out: no runs with streams=1 on both sides" in some.warnings
    assert {c.words for c in some if c.declared} <= every
    assert all(c.declared for c in some)
    assert len(npl.compare(exp, where={"accelerated": "true"})) == 8
    with pytest.raises(
        UsageError, match="no contrast is about streams=16, with runs on both sides"
    ):
        npl.compare(exp, where={"streams": 16})


def test_an_answer_says_that_rounds_were_planned_only_where_they_were():
    exp = npl.read("data/recorded/lab-full")
    planned = "measured once in every planned round"
    assert planned in npl.ask(exp, "placement").words
    by_hand = pd.DataFrame(exp.runs.to_dict("records"))
    assert planned not in npl.ask(by_hand, "placement").words
    with pytest.raises(UsageError, match=": give the experiment"):
        npl.plots.rounds(npl.ask(exp, "placement"), hue="streams")


@pytest.mark.parametrize(
    "arguments", [("--by", "round", "--metric", "throughput_bps"), ("--where", "round=1")]
)
def test_a_round_is_no_factor_and_those_that_vary_are_listed(arguments):
    done = CliRunner().invoke(cli, ["compare", str(RECORDED), *arguments])
    message = str(done.exception)
    assert (
        "no factor 'round' in these runs; there are: placement, accelerated, tool"
        in message
    )
    assert "mss" not in message


@pytest.mark.parametrize(
    ("name", "metric", "by"),
    [
        ("lab-full", "latency_oneway_us", "placement"),  # long names
        (
            "lab-full",
            "throughput_bps",
            "during",
        ),  # five footnotes, and what limits both sides
        ("paths", "throughput_bps", "tcp_buffer_bytes"),
    ],
)
def test_levels_and_comparisons_of_a_factor_fit_on_80_columns(name, metric, by):
    out = (
        CliRunner()
        .invoke(
            cli, ["compare", str(RECORDED.parent / name), "--metric", metric, "--by", by]
        )
        .output
    )
    assert max(map(len, out.splitlines())) <= 80
    for words in npl.observe(RECORDED.parent / name, metric, by).names:
        assert words in out


def test_a_level_has_one_median_whatever_it_is_compared_with():
    runs = planted(far=1.5)
    runs = runs[runs["accelerated"]]
    third = runs[runs["placement"] == "far"].assign(placement="third")
    slower = runs["round"].gt(6) & runs["placement"].eq("near")
    runs["latency_oneway_us"] *= slower.map(
        {True: 2.0, False: 1.0}
    )  # and "third" was measured in the first half only
    runs = pd.concat([runs, third[third["round"] <= 6]], ignore_index=True)
    levels = npl.levels(runs, "latency_oneway_us")["median"]
    family = npl.compare(runs, metric="latency_oneway_us", by="placement")
    for c in family:
        assert c.medians == tuple(levels[list(c.names)])
    said = {c.names: [w for w in c.warnings if "not the quotient" in w] for c in family}
    assert {names for names, words in said.items() if words} == {
        ("third", "far"),
        ("third", "near"),
    }
    assert not said["near", "far"]  # these have all rounds in common
    lead = str(npl.analysis.lead_paragraph(runs))
    shown = {format_value(m, "us") for c in npl.compare(runs) for m in c.medians}
    assert all(words.split()[0] in lead for words in shown)
