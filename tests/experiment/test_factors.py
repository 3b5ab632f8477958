"""The one list of factors, and that whatever differs between two runs keeps them apart up to the
verdict."""

import itertools

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.data.raw import Record
from netperf_lib.data.tables import run_row, runs_table
from netperf_lib.errors import UsageError
from netperf_lib.experiment.factors import (
    FACTORS,
    Factor,
    dimensions,
    factor,
    level_words,
    plain,
    sort_levels,
)
from netperf_lib.experiment.model import Contrast, Experiment
from netperf_lib.experiment.origin import Measured, Origin
from netperf_lib.experiment.schedule import schedule, trial_levels
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.tools.parsed import ParsedRun

from .declared import TCP

CUBIC_OR_BBR = {
    "name": "t-cc",
    "hosts": {"source": "inventory"},
    "pairs": [
        {
            "client": "c",
            "server": "far",
            "placement": "cross-region",
            "accelerated": True,
            "labels": {"rack": 7},
        },
        {"client": "c", "server": "near", "placement": "same-zone", "accelerated": True},
    ],
    "tests": [
        TCP | {"options": {"congestion": "cubic"}},
        TCP | {"options": {"congestion": "bbr"}},
    ],
    "rounds": 8,
    "contrasts": [
        {
            "metric": "throughput_bps",
            "a": {"placement": "cross-region", "congestion": "bbr"},
            "b": {"placement": "cross-region", "congestion": "cubic"},
            "margin": 0.1,
        }
    ],
}


def measured(declared):
    """The table of runs of an experiment in which bbr is three times as fast as cubic, far away."""
    experiment = Experiment.model_validate(declared)
    rng = np.random.default_rng(1)
    rows = []
    for trial in schedule(experiment, seed=1).trials:
        bps = (
            3e9
            if trial.test.options.get("congestion") == "bbr"
            and trial.pair.server == "far"
            else 1e9
        )
        parsed = ParsedRun(
            tool="iperf3",
            status="ok",
            metrics={"throughput_bps": bps * rng.lognormal(0, 0.02)},
            parameters={},
        )
        record = Record(
            experiment=experiment.name,
            run_id=trial.run_id,
            deployment=1,
            round=trial.round,
            order=trial.order,
            trial=trial_levels(trial),
            hosts={
                "client": {"vm_size": "D4"},
                "server": {"vm_size": "D4", "labels": {"row": "b"}},
            },
            facts={"client": {"congestion_control": "cubic"}},
            commands={"client": ["iperf3"]},
        )
        rows.append(run_row(record, [parsed], None))
    runs = runs_table(rows).to_pandas()
    return Measured(runs, Origin(experiment.model_dump(mode="json")))


def test_cubic_and_bbr_are_two_conditions_from_the_plan_to_the_verdict():
    assert schedule(Experiment.model_validate(CUBIC_OR_BBR), seed=1).conditions == 4
    runs = measured(CUBIC_OR_BBR)
    assert len(runs.runs.groupby(["placement", "congestion"])) == 4
    obs = npl.observe(runs, "throughput_bps", where={"placement": "cross-region"})
    assert sorted(obs.conditions.index) == ["bbr", "cubic"]
    (found,) = npl.compare(runs)
    assert found.verdict == "better"
    assert 2.8 < found.ratio < 3.2
    assert not [w for w in found.warnings if "differ" in w or "varies" in w]
    # and whoever does not say which compares each with its like
    by_placement = npl.compare(runs, metric="throughput_bps", by="placement")
    assert [c.context for c in by_placement] == ["bbr", "cubic"]
    assert any("congestion control varies" in note for note in by_placement.warnings)


def test_the_congestion_control_of_the_table_is_the_one_that_the_run_used():
    runs = measured(CUBIC_OR_BBR).runs
    assert (runs["congestion_control"] == runs["congestion"]).all()


def test_labels_of_pairs_and_hosts_are_columns_and_levels_of_a_contrast_without_registration():
    runs = measured(CUBIC_OR_BBR).runs
    assert "rack" not in FACTORS
    assert set(runs.loc[runs["server"] == "far", "rack"]) == {"7"}
    assert runs.loc[runs["server"] == "near", "rack"].isna().all()
    assert set(runs["server_row"]) == {"b"}
    assert {"rack", "server_row"} <= set(dimensions(runs.columns))
    contrast = Contrast(
        metric="throughput_bps",
        a={"rack": 7, "congestion": "bbr"},
        b={"rack": 7, "congestion": "cubic"},
    )
    (found,) = npl.compare(runs, contrasts=[contrast])
    assert found.n == 8


def test_every_column_of_a_run_is_a_dimension_a_metric_or_a_known_mark_of_the_run():
    runs = runs_table([])
    own = dimensions(runs.column_names, roles=("condition", "host", "observed"))
    assert own == list(FACTORS)


def test_a_declared_default_stays_a_level_whatever_size_the_log_names():
    trial = {
        "client": "a",
        "server": "b",
        "tool": "qperf",
        "test": "tcp_lat",
        "message_bytes": None,
    }
    parsed = ParsedRun(
        tool="qperf", status="ok", metrics={}, parameters={"message_bytes": 1}
    )
    row = run_row(Record(run_id="x", trial=trial), [parsed], None)
    assert row["message_bytes"] is None


@pytest.mark.parametrize(("reverse", "limit"), [(None, 4_194_304), (True, 2_621_440)])
def test_the_default_buffer_is_the_smaller_limit_of_sender_and_receiver(reverse, limit):
    sysctls = {
        "client": {
            "net.ipv4.tcp_wmem": "4096 16384 4194304",
            "net.ipv4.tcp_rmem": "4096 131072 6291456",
        },
        "server": {
            "net.ipv4.tcp_wmem": "4096 16384 2621440",
            "net.ipv4.tcp_rmem": "4096 131072 6291456",
        },
    }
    record = Record(
        run_id="x",
        trial=TCP | {"reverse": reverse},
        facts={side: {"sysctl": found} for side, found in sysctls.items()},
        status="failed",
    )
    assert run_row(record, [], None)["tcp_buffer_default_bytes"] == limit
    del record.facts["server"]
    assert run_row(record, [], None)["tcp_buffer_default_bytes"] is None


def test_levels_have_an_order_and_words():
    assert sort_levels("streams", [16, np.float64("nan"), 1, np.int64(2)]) == [
        None,
        1,
        2,
        16,
    ]
    assert sort_levels("placement", ["b", "vpn", "same-zone", "ppg", "a"]) == [
        "ppg",
        "same-zone",
        "vpn",
        "a",
        "b",
    ]
    assert sort_levels("accelerated", [True, False]) == [False, True]
    assert sort_levels("rack", ["r10", "r9", None]) == [None, "r9", "r10"]
    assert sort_levels("bitrate", ["1G", "1000K", "20M"]) == ["1000K", "20M", "1G"]
    assert level_words("streams", 1) == "1 stream"
    assert level_words("streams", np.float64(16)) == "16 streams"
    assert level_words("tcp_buffer_bytes", None) == "default TCP buffer"
    assert level_words("tcp_buffer_bytes", 1 << 20) == "1 MiB TCP buffer"
    assert level_words("bitrate", "800M") == "bitrate 800 Mbit/s"
    assert level_words("rack", "7") == "rack 7"
    for name in FACTORS:
        assert level_words(name, None), name
    assert plain(pd.NA) is plain(float("nan")) is plain(None) is None


CROSSED = """
name: crossed
hosts: {source: lab}
pairs: [{client: client, server: region, placement: cross-region}]
tests: [{tool: iperf3, test: tcp, congestion: [cubic, bbr], mss: [1400, null], streams: [1, 4]}]
"""


def test_options_are_crossed_with_everything_and_null_is_the_tools_own(tmp_path):
    place = tmp_path / "crossed.yaml"
    place.write_text(CROSSED)
    declared = load_experiment(place)
    trials = [t for t in schedule(declared, seed=1).trials if t.round == 1]
    levels = {(t.options["congestion"], t.options.get("mss"), t.streams) for t in trials}
    assert levels == set(itertools.product(["cubic", "bbr"], [1400, None], [1, 4]))
    assert len({t.run_id for t in trials}) == 8
    assert Experiment.model_validate(declared.model_dump(mode="json")) == declared
    assert schedule(declared, seed=1).conditions == 8


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("congestion:", "congestin:", "did you mean congestion"),
        (
            "tool: iperf3, test: tcp",
            "tool: qperf, test: tcp_lat",
            "qperf tcp_lat has no option",
        ),
        ("mss: [1400, null]", "mss: [1400, large]", "option 'mss' of iperf3 is 'large'"),
        (
            "mss: [1400, null]",
            "mss: 1400, options: {mss: 1400}",
            "mss stands in options and beside them",
        ),
    ],
)
def test_an_option_that_no_command_applies_is_refused_when_planned(
    before, after, words, tmp_path
):
    place = tmp_path / "crossed.yaml"
    place.write_text(CROSSED.replace(before, after))
    with pytest.raises(UsageError, match=words):
        load_experiment(place)


@pytest.mark.parametrize(
    ("name", "text", "level"),
    [
        ("tcp_buffer_bytes", "16 MiB", 16 << 20),
        ("tcp_buffer_bytes", "default", None),
        ("streams", "many", "many"),
        ("accelerated", "yes", True),
        ("accelerated", "off", False),
        ("interval_s", "0.5 s", 0.5),
        ("rack", "default", "default"),
    ],
)
def test_a_level_is_read_as_people_write_it(name, text, level):
    assert factor(name).cast(text) == level


def test_a_default_of_the_system_is_called_so_whatever_its_type():
    for kind in ("text", "integer"):
        known = Factor("dscp", "DSCP", kind=kind, null="default")
        assert known.level_words(None) == "default DSCP"
    assert Factor("rack").level_words(None) == "no rack"
