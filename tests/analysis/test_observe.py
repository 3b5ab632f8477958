"""One projection: what splits, what is pooled, what is missing; on made-up experiments and on
the recorded one."""

from itertools import permutations, product
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import netperf_lib as npl
from netperf_lib.analysis.observe import SEVERAL, levels, observe
from netperf_lib.errors import UsageError
from netperf_lib.experiment.factors import factor

from . import planted as made

US, BPS = "latency_oneway_us", "throughput_bps"


@given(st.integers(0, 2**32))
@settings(max_examples=6)
def test_no_row_holds_two_runs_of_one_round_unless_pool_says_so(seed):
    rng = np.random.default_rng(seed)
    runs, names = made.design(rng, gaps=0.05)
    complete = runs[runs["status"] == "ok"]
    varying = [c for c in names if len({*complete[c]}) > 1]
    by = [name for name in varying if rng.random() < 0.5]
    obs = observe(runs, BPS, by=by)
    trial = runs["run_id"].str.replace(r"-a\d$", "", regex=True)
    last = runs[~trial.duplicated(keep="last")]
    size = last.groupby([*obs.by, "deployment", "round"], dropna=False).size()
    assert size.max() == 1
    assert not obs.table.duplicated(["condition", "replicate", "round"]).any()
    assert {*by} <= {*obs.by}
    assert obs.conditions.index.is_unique
    assert not any("up to" in note for note in obs.notes)
    # nothing is lost, and nothing is counted twice
    assert levels(obs)["n"].sum() == (last["status"] == "ok").sum()
    for part in (obs, obs.main()):
        assert sorted(part.complete["run_id"]) == sorted(part.runs["run_id"])
        assert {*part.runs["condition"]} <= {*part.conditions.index}
    # hosts can be pooled without pooling what they differ in
    facts = observe(runs, BPS, pool="pairs").facts
    splitting = {f for f in facts if factor(f).always_splits} - {"server_zone"}
    assert [f for f in splitting if (facts[f] == SEVERAL).any()] == []
    for name in varying[:1]:
        pooled = observe(runs, BPS, pool=name)
        assert name not in pooled.by
        assert not pooled.table.duplicated(["condition", "replicate", "round"]).any()
        if len(pooled.conditions) < len(obs.conditions):
            told = any(note.startswith("pooled") for note in pooled.notes)
            assert told or pooled.table["state"].eq("missing").any()


def test_wide_has_rounds_down_and_conditions_across():
    both = made.runs({"ppg": [10.0, 30.0], "same-zone": [20.0, 40.0]}, 2)
    wide = observe(both, US, by="placement").wide
    assert wide.to_dict() == {"ppg": {1: 10, 2: 30}, "same-zone": {1: 20, 2: 40}}
    assert wide.index.name == "round"
    later = made.runs({"ppg": 50.0}, 1, deployment=2, run_id="later")
    wide = observe(pd.concat([both, later]), US, by="placement").wide
    assert wide.index.names == ["deployment", "round"]
    assert wide["ppg"].to_dict() == {(1, 1): 10, (1, 2): 30, (2, 1): 50}
    assert np.isnan(wide.loc[(2, 1), "same-zone"])


def test_a_placement_is_split_by_what_else_varies(exp):
    table = levels(exp, US, by="placement", where={"tool": "qperf"})
    runs = exp.runs.query("tool == 'qperf'")
    medians = runs.groupby(["placement", "accelerated"])[US].median()
    found = table.set_index(["placement", "accelerated"])["median"]
    assert found.to_dict() == pytest.approx(medians.to_dict())
    assert {*table["n"]} == {runs["round"].nunique()}


def test_only_tests_that_give_a_metric_can_fail_at_it(exp):
    obs = observe(exp, BPS, by="placement")
    assert not obs.table["state"].ne("ok").any()
    broken = exp.runs.copy()
    first = broken.index[broken["tool"] == "qperf"][0]
    broken.loc[first, "status"] = "failed"
    assert not observe(broken, BPS).table["state"].eq("failed").any()
    assert observe(broken, US).table["state"].eq("failed").sum() == 1


def test_a_round_that_was_planned_and_not_measured_is_missing(exp):
    runs = exp.runs
    gone = runs.query("tool == 'qperf' and placement == 'ppg'").index[:2]
    obs = observe(runs.drop(gone), US, where={"tool": "qperf"})
    assert obs.table["state"].eq("missing").sum() == 2
    assert "2 observations missing" in obs.notes


@pytest.mark.parametrize("began", [False, True])
def test_an_attempt_that_found_no_host_is_not_repeated_by_the_next(began):
    runs = made.runs({"ppg": 40.0, "same-zone": 50.0}, run_id="x")
    runs["run_id"] = [f"r{n}-a1" for n in runs.index]
    again = runs[:1].assign(attempt=2, run_id="r0-a2")
    runs.loc[0, ["status", US]] = ["failed", np.nan]
    if not began:
        runs.loc[0, "started_utc"] = pd.NaT
    obs = observe(pd.concat([runs.assign(attempt=1), again]), US, by="placement")
    assert obs.table["repeated"].sum() == began
    assert len(obs.table) == len(runs)


def test_pairs_are_pooled_only_by_name():
    rising = 1 + np.arange(1, 9) / 100
    servers = {"b": 50 * rising, "c": 200 * rising}
    runs = made.runs(servers, 8, by="server", client="a", placement="cross-zone")
    assert [*levels(runs, US)["n"]] == [8, 8]
    pooled = observe(runs, US, pool="pairs")
    assert any("geometric mean of up to 2 runs" in note for note in pooled.notes)
    assert [*levels(pooled)["median"]] == pytest.approx([100 * 1.045], rel=1e-3)


def test_a_figure_shows_the_levels_of_what_was_asked_and_one_of_everything_else(exp):
    main = observe(exp, BPS, by="streams").main()
    streams = ["1 stream", "2 streams", "4 streams", "16 streams"]
    assert [*main.conditions.index] == streams
    shared = {f: {*main.conditions[f]} for f in main.by if f != "streams"}
    assert shared == {
        "placement": {"cross-region"},
        "accelerated": {True},
        "tcp_buffer_bytes": {None},
        "during": {None},
    }
    runs = exp.runs.query(
        "placement == 'cross-region' and during.isna() and tcp_buffer_bytes.isna()"
    )
    medians = runs.groupby("streams")[BPS].median()
    assert [*levels(main)["median"]] == pytest.approx([*medians])
    buffers = observe(exp, BPS, by="placement")
    assert {*buffers.main().runs["streams"]} == {1}
    # what all contrasts name is the level to show
    side = {"streams": 4}
    declared = [SimpleNamespace(metric=BPS, a=side, b=side)]
    assert {*buffers.main(declared).runs["streams"]} == {4}


def test_a_kernel_that_changes_between_rounds_splits_nothing(exp):
    runs = exp.runs.copy()
    runs["kernel"] = np.where(runs["round"] > 6, "6.9", "6.8")
    obs = observe(runs, US)
    assert "kernel" not in obs.by


def labelled(**labels):
    """Two placements, a run of each in four rounds, with labels of the user's."""
    return made.runs({"ppg": 40.0, "same-zone": 41.0}, 4, **labels)


def test_a_label_with_a_value_for_each_run_is_judged_nowhere():
    """A table by hand says what is a factor; the factors of logs are decided at import."""
    runs = labelled(remark=[f"{n} h" for n in range(8)])
    assert observe(runs, US, by="placement").by == ("placement", "remark")
    assert not any(c.settled for c in npl.compare(runs))


def test_a_label_that_comes_back_is_a_factor():
    runs = labelled(rack=["a", "a", "b", "b"] * 2)
    assert observe(runs, US).by == ("placement", "rack")


def test_two_runs_of_a_round_with_one_condition_are_refused():
    runs = pd.concat([labelled(), labelled()[:1].assign(run_id="r8")])
    with pytest.raises(UsageError, match="r0 and r8 differ in nothing known"):
        observe(runs, US)


def test_a_null_is_missing_where_no_column_says_that_a_run_failed():
    runs = made.runs({"ppg": [40.0, np.nan, 41.0, 42.0]}, 4)
    unknown = observe(runs.drop(columns="status"), US)
    assert [*unknown.table["state"]] == ["ok", "missing", "ok", "ok"]
    counts = levels(runs, US).iloc[0]
    assert (counts["n"], counts["failed"], counts["missing"]) == (3, 1, 0)


def test_a_label_that_only_one_condition_has_is_no_difference_but_between_two_measurements():
    cells = {("ppg", None): 1e9, ("far", "x"): 1e9, ("far", "y"): 1e9}
    runs = made.runs(cells, 6, by=["placement", "rack"], metric=BPS)
    obs = observe(runs, BPS, "placement")
    ppg, *far = obs.names
    assert ppg == "ppg"
    assert all(obs.same(name, ppg, "placement") for name in far)
    # what the other one lacks is a difference
    assert not obs.same(ppg, far[0], "placement")
    both = observe({"before": runs, "after": runs}, BPS, "measurement")
    pairs = [p for p in permutations(both.names, 2) if both.same(*p, "measurement")]
    # each condition after with itself before, and the other way round
    assert len(pairs) == 6


def test_without_rounds_another_server_is_another_condition():
    cells = {
        ("far", 1): 0.7e9,
        ("far", 16): 2.5e9,
        ("near", 1): 7.5e9,
        ("next", 1): 7.6e9,
    }
    runs = made.runs(cells, 1, by=["server", "streams"], metric=BPS)
    runs = runs[["server", "streams", "status", "tool", "test", BPS]]
    (pair,) = npl.compare(runs, metric=BPS, by="streams")
    assert pair.medians == (2.5e9, 0.7e9)
    lead = npl.analysis.lead_paragraph(runs)
    streams = [c.medians for c in lead.family if "stream" in "".join(c.names)]
    assert streams == [(2.5e9, 0.7e9)]
    assert "700 Mbit/s (1 stream, to far)" in str(lead)


def test_labels_split_in_their_own_order():
    names = ["zeta", "alpha", "mid", "beta", "omega"]
    cells = dict.fromkeys(product("ab", repeat=5), 1e9)
    runs = made.runs(cells, 2, by=names, metric=BPS)
    assert [*observe(runs, BPS).by] == names


def test_experiments_by_name_or_below_each_other_are_measurements():
    both = {n: npl.recorded().with_name(n) for n in ("before", "after")}
    below = pd.concat([npl.read(one).runs for one in both.values()])
    for data in (both, below):
        obs = observe(data, US, by="placement")
        assert any("measurement varies too" in note for note in obs.notes)
        rows = levels(obs).query("placement == 'cross-zone'").set_index("measurement")
        medians = rows["median"].round(1).to_dict()
        assert medians == {"before": 57.0, "after": 65.8}


NAMES = "group cell part replicate state value host n median failed metric design".split()


@pytest.mark.parametrize("label", NAMES)
def test_a_label_may_be_called_as_a_column_of_the_library(label):
    runs = made.runs({"a": 1.0, "b": 2.0}, 8, by=label)
    obs = observe(runs, US)
    assert obs.by == (label,)
    assert list(obs.facts[label]) == ["a", "b"]
    table = levels(obs)
    assert list(table.iloc[:, 0]) == ["a", "b"]
    assert list(table["n"]) == [8, 8]
    assert len(npl.compare(runs, by=label, metric=US)) == 1
