"""Comparisons of conditions: what is typed by hand is as honest as the report."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.cli import npl as cli
from netperf_lib.errors import UsageError

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "lab-full"


@pytest.fixture(scope="module")
def exp() -> npl.Results:
    return npl.read(RECORDED)


def planted(rounds: int = 12, **scale: float) -> pd.DataFrame:
    """Latency of two placements, accelerated (40 µs) or not (120 µs), 2 % noise; `scale` by placement."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {"placement": p, "accelerated": on, "round": r, "tool": "qperf", "test": "tcp_lat", "status": "ok"}
        | {"latency_oneway_us": (40 if on else 120) * scale.get(p, 1.0) * random.lognormal(0, 0.02)}
        for r in range(1, rounds + 1)
        for p in ("near", "far")
        for on in (True, False)
    )


def test_every_run_that_is_ok_is_used(exp: npl.Results) -> None:
    for by in ("placement", "streams"):
        family = npl.compare(exp, metric="throughput_bps", by=by)
        assert {c.n for c in family} == {12}
        assert not any("failed" in c.reason for c in family)


def test_conditions_that_differ_in_something_else_are_not_compared() -> None:
    family = npl.compare(planted(far=1.5), metric="latency_oneway_us", by="placement")
    assert {(*c.names, c.context) for c in family} == {
        ("near", "far", "accelerated networking"),
        ("near", "far", "no accelerated networking"),
    }
    assert [c.ratio for c in family] == pytest.approx([1 / 1.5] * len(family), rel=0.03)
    assert len(family) == 2
    assert {str(c.verdict) for c in family} == {"exploratory"}


def test_what_was_declared_has_the_verdict_of_the_report_in_both_directions(exp: npl.Results) -> None:
    report = {(c.metric, *c.medians): str(c.verdict) for c in npl.compare(exp) if c.threshold is None}
    family = npl.compare(exp, metric="latency_oneway_us", by="placement")
    judged = [c for c in family if c.verdict != "exploratory"]
    assert len(judged) >= 3
    opposite = {"better": "worse", "worse": "better"}
    for c in judged:
        same, turned = report.get((c.metric, *c.medians)), report.get((c.metric, *c.medians[::-1]))
        assert str(c.verdict) in (same, opposite.get(turned or "", turned))


def test_another_margin_or_a_part_of_the_runs_is_another_question(exp: npl.Results) -> None:
    for change in ({"margin": 0.3}, {"where": {"duration_s": exp.runs["duration_s"].iloc[0]}}):
        family = npl.compare(exp, metric="latency_oneway_us", by="placement", **change)
        assert {str(c.verdict) for c in family} == {"exploratory"}


def test_pooled_factors_do_not_split() -> None:
    (only,) = npl.compare(planted(), metric="latency_oneway_us", by="placement", pool="accelerated")
    assert only.context == ""
    assert only.n == 12


def test_a_second_difference_is_told() -> None:
    runs = planted()
    runs["kernel"] = runs["placement"].map({"near": "6.1", "far": "6.8"})
    family = npl.compare(runs, metric="latency_oneway_us", by="placement")
    assert all(any("also differ in kernel" in w for w in c.warnings) for c in family)


def test_factors_of_two_hosts_are_compared_as_pairs() -> None:
    runs = planted().query("placement == 'near' and accelerated")
    parts = [
        runs.assign(
            client="a", server=f"b{z}", client_zone="1", server_zone=z, latency_oneway_us=runs["latency_oneway_us"] * k
        )
        for k, z in ((1.0, "1"), (1.5, "2"), (2.0, "3"))
    ]
    family = npl.compare(pd.concat(parts, ignore_index=True), metric="latency_oneway_us", by="server_zone")
    assert [round(c.ratio, 2) for c in family] == [1.5, 2.0, 1.33]
    assert family[0].names == ("zone 1 → 2", "zone 1 → 1")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: npl.compare(e, "last-wek"), "'last-wek' is neither a folder nor a metric"),
        (lambda e: npl.compare(e, "throughput"), "did you mean throughput_bps"),
        (lambda e: npl.compare(e, metric="throughput_bps", by="zone"), "did you mean client_zone or server_zone"),
        (lambda e: npl.compare(e, metric="throughput_bps", by="mss"), "no factor 'mss'|mss does not vary"),
        (lambda e: npl.compare(e, metric="throughput_bps", by="streams", baseline=3), "has streams 3, the baseline"),
        (lambda e: npl.compare(e, by="placement"), "needs a metric"),
        (lambda e: npl.ask(e, "banana", "throughput_bps"), "no factor 'banana'"),
    ],
)
def test_a_wrong_question_gets_one_line(exp: npl.Results, call: object, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        call(exp)  # type: ignore[operator]
    assert "\n" not in str(error.value)


def test_an_answer_shows_itself(exp: npl.Results) -> None:
    answer = npl.ask(exp, "streams", "throughput_bps")
    shown = answer._repr_mimebundle_()
    for name in answer.levels.index:
        assert str(name) in shown["text/plain"]
        assert str(name) in shown["text/html"]
    assert all(c.words in shown["text/plain"] for c in answer.verdicts)
    assert "every run in time order" in answer.plot().caption
    _, ax = plt.subplots()
    assert answer.plot(ax=ax) is ax
    assert len(ax.lines) == len(answer.main.conditions) == 4
    assert npl.ask(exp, by="streams").metric == "throughput_bps"  # latency has no streams


def test_the_command_line_asks_the_same(exp: npl.Results) -> None:
    done = CliRunner().invoke(cli, ["compare", str(RECORDED), "--by", "placement", "--metric", "throughput_bps"])
    assert done.exit_code == 0, done.output
    for name in npl.levels(exp, "throughput_bps", by="placement").index:
        assert str(name) in done.output
    assert max(map(len, done.output.splitlines())) <= 100


def test_every_plot_splits_by_the_factors_that_are_asked_about_and_draws_into_given_axes(exp: npl.Results) -> None:
    percentiles, intervals = exp.percentiles, exp.intervals
    _, axes = plt.subplots(2)
    assert npl.plots.ecdf(percentiles, exp, hue="placement", ax=axes[0]) is axes[0]
    assert npl.plots.intervals(intervals, exp, hue="streams", ax=axes[1]) is axes[1]
    assert all(ax.lines for ax in axes)
    for plot, table in ((npl.plots.ecdf, percentiles), (npl.plots.intervals, intervals)):
        with pytest.raises(UsageError, match="no factor 'banana'"):
            plot(table, exp, hue="banana")


@pytest.mark.parametrize("part", ["fleet", "hosts", "page", "plots", "questions", "stats", "workshop"])
def test_a_module_lists_its_public_names_and_nothing_else(part: str) -> None:
    module = getattr(npl, part)
    names = dir(module)
    assert names
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib", "np", "pd", "os", "re"} & set(names)
    for name in names:
        value = getattr(module, name)
        assert getattr(value, "__module__", "netperf_lib").startswith("netperf_lib"), f"{name} is another library's"
