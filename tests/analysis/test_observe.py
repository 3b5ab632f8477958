"""One projection: what splits, what is pooled, what is missing; on made-up experiments and on
the recorded one."""

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

FACTORS = {
    "placement": ["ppg", "same-zone", "cross-zone"],
    "accelerated": [True, False],
    "streams": [1, 16],
    "tool": ["iperf3", "iperf2"],
    "mss": [None, 1400],
    "congestion": ["cubic", "bbr"],
    "rack": ["a", "b", None],
    "server_vm_size": ["D8", "D16"],
    "server": ["h1", "h2"],
    "during": [None, "iperf3 tcp ×4"],
    "bitrate": ["1G", None],
    "server_zone": ["1", "2", None],
    "tool_version": ["3.9", "3.12"],
}


def experiment(rng):
    """Random factors, crossed in each round of one or two deployments, with failures, gaps and
    repeated attempts."""
    names = [str(n) for n in rng.choice(list(FACTORS), rng.integers(1, 6), replace=False)]
    cells = [()]
    for name in names:
        cells = [
            (*cell, level)
            for cell in cells
            for level in FACTORS[name][: rng.integers(2, 4)]
        ]
    cells = [cell for cell in cells if rng.random() < 0.8] or cells
    rows = []
    for deployment in range(1, rng.integers(2, 4)):
        for number in range(1, rng.integers(2, 8)):
            for order, i in enumerate(rng.permutation(len(cells))):
                row = dict(zip(names, cells[i], strict=True))
                row |= {
                    "deployment": deployment,
                    "round": number,
                    "order": order,
                    "test": "tcp",
                    "status": "ok",
                }
                row |= {
                    "kernel": "6.8" if number < 4 else "6.9",
                    "client": f"c{deployment}",
                }
                row["throughput_bps"] = float(1e9 * np.exp(rng.normal()))
                if rng.random() < 0.05:
                    row |= {"status": "failed", "throughput_bps": np.nan}
                if rng.random() > 0.05:
                    rows.append(row)
    if not any(row["status"] == "ok" for row in rows):
        rows.append(row | {"status": "ok", "throughput_bps": 1e9, "round": 9})
    runs = pd.DataFrame(rows).assign(experiment="x", attempt=1)
    runs["run_id"] = [f"run{i}-a1" for i in range(len(runs))]
    again = runs.sample(frac=0.05, random_state=1)
    again = again.assign(attempt=2, run_id=[f"{run[:-1]}2" for run in again["run_id"]])
    return pd.concat([runs, again], ignore_index=True), names


@given(st.integers(0, 2**32))
@settings(max_examples=12)
def test_no_row_holds_two_runs_of_one_round_unless_pool_says_so(seed):
    rng = np.random.default_rng(seed)
    runs, names = experiment(rng)
    varying = [
        c
        for c in names
        if runs.loc[runs["status"] == "ok", c].nunique(dropna=False) > 1  # noqa: PD101
    ]
    by = (
        [
            str(b)
            for b in rng.choice(varying, rng.integers(0, len(varying) + 1), replace=False)
        ]
        if varying
        else []
    )
    obs = observe(runs, "throughput_bps", by=by)
    last = runs[
        ~runs["run_id"].str.replace(r"-a\d$", "", regex=True).duplicated(keep="last")
    ]
    size = last.groupby([*obs.by, "deployment", "round"], dropna=False).size()
    assert size.max() == 1
    assert not obs.table.duplicated(["condition", "replicate", "round"]).any()
    assert set(by) <= set(obs.by)
    assert obs.conditions.index.is_unique
    assert not any("up to" in note for note in obs.notes)
    # nothing is lost, and nothing is counted twice
    assert int(levels(obs)["n"].sum()) == int((last["status"] == "ok").sum())
    for part in (obs, obs.main()):
        assert sorted(part.complete["run_id"]) == sorted(part.runs["run_id"])
        assert set(part.runs["condition"]) <= set(part.conditions.index)
    # hosts can be pooled without pooling what they differ in
    hosts = observe(runs, "throughput_bps", pool="pairs")
    assert not [
        f
        for f in hosts.facts
        if factor(f).always_splits
        and f != "server_zone"
        and (hosts.facts[f] == SEVERAL).any()
    ]
    if varying:
        name = str(rng.choice(varying))
        pooled = observe(runs, "throughput_bps", pool=name)
        assert name not in pooled.by
        assert not pooled.table.duplicated(["condition", "replicate", "round"]).any()
        if len(pooled.conditions) < len(obs.conditions):
            assert (
                any(note.startswith("pooled") for note in pooled.notes)
                or pooled.table["state"].eq("missing").any()
            )


def test_wide_has_rounds_down_and_conditions_across():
    rows = [
        ("ppg", 1, 10.0),
        ("same-zone", 1, 20.0),
        ("same-zone", 2, 40.0),
        ("ppg", 2, 30.0),
    ]
    runs = pd.DataFrame(rows, columns=["placement", "round", "rtt_us"])
    obs = observe(runs, "rtt_us", by="placement")
    ratio = obs.wide["ppg"] / obs.wide["same-zone"]
    assert ratio.to_dict() == {1: 0.5, 2: 0.75}
    assert ratio.index.name == "round"


def test_wide_has_a_row_for_each_deployment_and_round():
    rows = [("ppg", 1, 1, 10.0), ("same-zone", 1, 1, 20.0), ("ppg", 2, 1, 30.0)]
    runs = pd.DataFrame(rows, columns=["placement", "deployment", "round", "rtt_us"])
    wide = observe(runs, "rtt_us", by="placement").wide
    assert wide.index.names == ["deployment", "round"]
    assert wide["ppg"].to_dict() == {(1, 1): 10.0, (2, 1): 30.0}
    assert np.isnan(wide.loc[(2, 1), "same-zone"])


@pytest.fixture(scope="module")
def recorded():
    return npl.read(npl.recorded())


def median(table, **where):
    rows = table
    for name, level in where.items():
        rows = rows[rows[name].isna()] if level is None else rows[rows[name] == level]
    assert len(rows) == 1
    return float(rows["median"].iloc[0])


def test_a_placement_is_split_by_what_else_varies(recorded):
    table = levels(recorded, "latency_oneway_us", by="placement", where={"tool": "qperf"})
    runs = recorded.runs[recorded.runs["tool"] == "qperf"]
    for accelerated in (True, False):
        there = runs[
            (runs["placement"] == "same-zone") & (runs["accelerated"] == accelerated)
        ]
        expected = there["latency_oneway_us"].median()
        assert median(
            table, placement="same-zone", accelerated=accelerated
        ) == pytest.approx(expected)
    assert set(table["n"]) == {runs["round"].nunique()}


def test_only_tests_that_give_a_metric_can_fail_at_it(recorded):
    obs = observe(recorded, "throughput_bps", by="placement")
    assert not obs.table["state"].ne("ok").any()
    broken = recorded.runs.copy()
    first = broken.index[broken["tool"] == "qperf"][0]
    broken.loc[first, "status"] = "failed"
    assert not observe(broken, "throughput_bps").table["state"].eq("failed").any()
    assert observe(broken, "latency_oneway_us").table["state"].eq("failed").sum() == 1


def test_a_round_that_was_planned_and_not_measured_is_missing(recorded):
    runs = recorded.runs
    gone = runs.index[(runs["tool"] == "qperf") & (runs["placement"] == "ppg")][:2]
    obs = observe(runs.drop(gone), "latency_oneway_us", where={"tool": "qperf"})
    assert obs.table["state"].eq("missing").sum() == 2
    assert "2 observations missing" in obs.notes


@pytest.mark.parametrize(("began", "repeated"), [(False, 0), (True, 1)])
def test_an_attempt_that_found_no_host_is_not_repeated_by_the_next(
    recorded, began, repeated
):
    runs = recorded.runs
    ok = runs[(runs["tool"] == "qperf") & (runs["status"] == "ok")]
    again = ok.iloc[[0]]
    start = again["started_utc"] if began else pd.NaT
    first = again.assign(status="failed", latency_oneway_us=np.nan, started_utc=start)
    again = again.assign(attempt=2, run_id=again["run_id"].str.replace("-a1", "-a2"))
    obs = observe(
        pd.concat([first, again, ok.iloc[1:]], ignore_index=True),
        "latency_oneway_us",
        by="placement",
    )
    assert obs.table["repeated"].sum() == repeated
    assert len(obs.table) == len(ok)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            {"metric": "latency_oneway_us", "by": "zone"},
            "did you mean client_zone or server_zone?",
        ),
        ({"metric": "throughput"}, "did you mean throughput_bps"),
        (
            {"metric": "latency_oneway_us", "by": "kernel"},
            "kernel does not vary in runs of latency_oneway_us; these do",
        ),
        (
            {"metric": "latency_oneway_us", "where": {"placement": "vpn"}},
            "placement is never 'vpn'",
        ),
        ({"metric": "jitter_us"}, "no complete run has a value of jitter_us"),
    ],
)
def test_a_name_that_is_not_known_gets_the_nearest(recorded, call, words):
    with pytest.raises(UsageError) as refused:
        observe(recorded, **call)
    assert words in str(refused.value)


def test_everything_that_holds_runs_is_accepted(recorded):
    forms = [
        recorded,
        recorded.runs,
        npl.recorded(),
        str(npl.recorded()),
        recorded.runs[recorded.runs["round"] > 2],
    ]
    by = [observe(form, "latency_oneway_us", by="placement").by for form in forms]
    assert len(set(by)) == 1
    with pytest.raises(UsageError, match="expected an experiment"):
        observe(3, "latency_oneway_us")


def test_before_and_after_are_levels_of_a_factor(recorded):
    slower = recorded.runs.copy()
    slower["latency_oneway_us"] *= 1.1
    both = observe(
        {"before": recorded.runs, "after": slower}, "latency_oneway_us", by="measurement"
    )
    table = levels(both)
    assert list(dict.fromkeys(table["measurement"])) == ["before", "after"]
    for _, rows in table.groupby(list(both.by[1:]), dropna=False):
        before, after = rows["median"]
        assert after / before == pytest.approx(1.1)


def test_pairs_are_pooled_only_by_name():
    rows = [
        {
            "run_id": f"r{n}{server}-a1",
            "experiment": "x",
            "deployment": 1,
            "round": n,
            "status": "ok",
            "attempt": 1,
            "placement": "cross-zone",
            "client": "a",
            "server": server,
            "tool": "qperf",
            "test": "tcp_lat",
            "latency_oneway_us": us * (1 + n / 100),
        }
        for n in range(1, 9)
        for server, us in (("b", 50.0), ("c", 200.0))
    ]
    runs = pd.DataFrame(rows)
    assert list(levels(runs, "latency_oneway_us")["n"]) == [8, 8]
    pooled = observe(runs, "latency_oneway_us", pool="pairs")
    assert any("geometric mean of up to 2 runs" in note for note in pooled.notes)
    assert levels(pooled)["median"].iloc[0] == pytest.approx(100 * 1.045, rel=1e-3)


def test_pooled_pairs_keep_what_the_hosts_differ_in(recorded):
    pooled, split = (
        observe(recorded, "latency_oneway_us", by="placement", pool=pool)
        for pool in ("pairs", ())
    )
    assert (
        set(pooled.by) == set(split.by) == {"placement", "accelerated", "during", "tool"}
    )
    assert levels(pooled)["median"].to_dict() == levels(split)["median"].to_dict()


def test_a_figure_shows_the_levels_of_what_was_asked_and_one_of_everything_else(
    recorded,
):
    main = observe(recorded, "throughput_bps", by="streams").main()
    assert list(main.conditions.index) == [
        "1 stream",
        "2 streams",
        "4 streams",
        "16 streams",
    ]
    shared = {f: set(main.conditions[f]) for f in main.by if f != "streams"}
    assert shared == {
        "placement": {"cross-region"},
        "accelerated": {True},
        "tcp_buffer_bytes": {None},
        "during": {None},
    }
    runs = recorded.runs
    mine = runs[
        (runs["placement"] == "cross-region")
        & runs["during"].isna()
        & runs["tcp_buffer_bytes"].isna()
    ]
    for streams, name in ((1, "1 stream"), (16, "16 streams")):
        expected = mine[mine["streams"] == streams]["throughput_bps"].median()
        assert levels(main).loc[name, "median"] == pytest.approx(float(expected))
    buffers = observe(recorded, "throughput_bps", by="placement")
    assert set(buffers.main().runs["streams"]) == {1}
    declared = [
        SimpleNamespace(metric="throughput_bps", a={"streams": 4}, b={"streams": 4})
    ]  # what all contrasts name is the level to show
    assert set(buffers.main(declared).runs["streams"]) == {4}


def test_a_kernel_that_changes_between_rounds_splits_nothing(recorded):
    runs = recorded.runs.copy()
    runs["kernel"] = np.where(runs["round"] > 6, "6.9", "6.8")
    obs = observe(runs, "latency_oneway_us")
    assert "kernel" not in obs.by


def labelled(**labels):
    """Two placements, a run of each in four rounds, with labels of the user's."""
    places = ["ppg", "same-zone"] * 4
    runs = pd.DataFrame(
        {"placement": places, "round": [n // 2 + 1 for n in range(8)], **labels}
    )
    return runs.assign(status="ok", latency_oneway_us=[40.0 + n for n in range(8)])


def test_a_label_with_a_value_for_each_run_is_judged_nowhere():
    """A table by hand says what is a factor; the factors of logs are decided at import."""
    runs = labelled(remark=[f"{n} h" for n in range(8)])
    obs = observe(runs, "latency_oneway_us", by="placement")
    assert obs.by == ("placement", "remark")
    assert not any(c.settled for c in npl.compare(runs))


def test_a_label_that_comes_back_is_a_factor():
    runs = labelled(rack=["a", "a", "b", "b"] * 2)
    assert observe(runs, "latency_oneway_us").by == ("placement", "rack")


def test_two_runs_of_a_round_with_one_condition_are_refused():
    runs = pd.concat([labelled(), labelled()[:1]]).assign(
        run_id=[f"r{n}" for n in range(9)]
    )
    with pytest.raises(UsageError, match="r0 and r8 differ in nothing known"):
        observe(runs, "latency_oneway_us")


def test_a_null_is_missing_where_no_column_says_that_a_run_failed():
    rates = pd.DataFrame(
        {
            "round": range(1, 5),
            "placement": "ppg",
            "throughput_bps": [1e9, np.nan, 1.1e9, 1.2e9],
        }
    )
    assert list(observe(rates, "throughput_bps").table["state"]) == [
        "ok",
        "missing",
        "ok",
        "ok",
    ]
    counts = levels(rates.assign(status="ok"), "throughput_bps").iloc[0]
    assert (counts["n"], counts["failed"], counts["missing"]) == (3, 1, 0)


def test_a_label_that_only_one_condition_has_is_no_difference_but_between_two_measurements():
    rows = [
        {
            "round": n,
            "placement": place,
            "rack": rack,
            "status": "ok",
            "throughput_bps": 1e9,
        }
        for n in range(1, 7)
        for place, rack in (("ppg", None), ("far", "x"), ("far", "y"))
    ]
    runs = pd.DataFrame(rows)
    obs = observe(runs, "throughput_bps", "placement")
    assert [obs.same(a, "ppg", "placement") for a in obs.names if a != "ppg"] == [
        True,
        True,
    ]
    assert not obs.same(
        "ppg", obs.names[1], "placement"
    )  # what the other one lacks is a difference
    both = observe({"before": runs, "after": runs}, "throughput_bps", "measurement")
    pairs = {
        (a, b)
        for a in both.names
        for b in both.names
        if a != b and both.same(a, b, "measurement")
    }
    assert (
        len(pairs) == 6
    )  # each condition after with itself before, and the other way round


def test_without_rounds_another_server_is_another_condition():
    one = {"status": "ok", "tool": "iperf3", "test": "tcp"}
    rows = [("far", 1, 0.7e9), ("far", 16, 2.5e9), ("near", 1, 7.5e9), ("next", 1, 7.6e9)]
    runs = pd.DataFrame(
        [one | {"server": s, "streams": n, "throughput_bps": x} for s, n, x in rows]
    )
    (pair,) = npl.compare(runs, metric="throughput_bps", by="streams")
    assert pair.medians == (2.5e9, 0.7e9)
    lead = npl.analysis.lead_paragraph(runs)
    assert "(to far) is 700 Mbit/s (1 stream), 2.5 Gbit/s (16 streams)" in str(lead)
    assert {c.medians for c in lead.family if "stream" in "".join(c.names)} == {
        (2.5e9, 0.7e9)
    }


def test_labels_split_in_their_own_order():
    names = ["zeta", "alpha", "mid", "beta", "omega"]
    bits = [
        {name: f"{name}{n >> i & 1}" for i, name in enumerate(names)} for n in range(32)
    ]
    runs = pd.DataFrame(
        [
            {"round": n, "status": "ok", "throughput_bps": 1e9} | b
            for n in (1, 2)
            for b in bits
        ]
    )
    assert list(observe(runs, "throughput_bps").by) == names


def test_experiments_by_name_or_below_each_other_are_measurements():
    both = {n: npl.recorded().with_name(n) for n in ("before", "after")}
    medians = {"before": 57.0, "after": 65.8}
    for data in (both, pd.concat([npl.read(one).runs for one in both.values()])):
        obs = observe(data, "latency_oneway_us", by="placement")
        assert any("measurement varies too" in note for note in obs.notes)
        table = levels(obs)
        rows = table[table["placement"] == "cross-zone"]
        assert (
            dict(zip(rows["measurement"], rows["median"].round(1), strict=True))
            == medians
        )
    change = npl.compare(
        both,
        metric="latency_oneway_us",
        by="measurement",
        where={"placement": "cross-zone"},
    )
    assert change[0].medians == pytest.approx((65.8, 57.0), abs=0.05)
