"""What a measurement takes: traffic as the tools send it, time, and the rounds below which
nothing can be decided."""

import pytest

from netperf_lib.experiment.estimate import (
    ASSUMED_BPS,
    OVERHEAD_S,
    Preview,
    duration_s,
    sending_bps,
    traffic,
)
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule

from .declared import LATENCY, PING, TCP


def experiment(*tests, **changed):
    declared = {
        "name": "small",
        "hosts": {"source": "inventory"},
        "pairs": [{"client": "a", "server": "b", "placement": "ppg"}],
        "tests": list(tests),
        "rounds": 3,
    }
    return Experiment.model_validate(declared | changed)


@pytest.mark.parametrize(
    ("test", "bps"),
    [
        (TCP, ASSUMED_BPS),
        (TCP | {"options": {"bitrate": 0}}, ASSUMED_BPS),
        (TCP | {"options": {"bitrate": "1G"}, "streams": [8]}, 8e9),
        (
            {
                "tool": "iperf3",
                "test": "udp",
                "options": {"bitrate": "800M", "bidir": True},
            },
            1.6e9,
        ),
        ({"tool": "iperf2", "test": "udp"}, 1e6),
        (LATENCY, 0),
        (PING, 0),
        (
            PING
            | {"during": {"tool": "iperf3", "streams": 8, "options": {"bitrate": "1G"}}},
            8e9,
        ),
        (PING | {"during": {"tool": "iperf3", "streams": 8}}, ASSUMED_BPS),
    ],
)
def test_the_rate_of_a_test_is_that_of_its_commands(test, bps):
    (trial,) = schedule(experiment(test, rounds=1), seed=1).trials
    assert sending_bps(trial) == pytest.approx(bps)


@pytest.mark.parametrize(
    "declared",
    [
        {"bandwidth_mbps": 4000},
        {
            "pairs": [
                {"client": "a", "server": "b", "placement": "ppg", "bandwidth_mbps": 4000}
            ],
            "bandwidth_mbps": 9,
        },
        {
            "hosts": {
                "source": "azure",
                "options": {"vm_size": "D8", "bandwidth_mbps": {"D8": 4000}},
            }
        },
        {
            "hosts": {
                "source": "azure",
                "options": {
                    "vm_size": "D8",
                    "vms": {"b": {"vm_size": "D2"}},
                    "bandwidth_mbps": {"D8": 9000, "D2": 4000},
                },
            }
        },
    ],
)
def test_the_declared_bandwidth_is_the_cap_and_stands_in_the_record(
    declared,
):
    plan = schedule(experiment(TCP, **declared), seed=1)
    assert {sending_bps(t) for t in plan.trials} == {4e9}
    assert plan.to_dict()["trials"][0]["advertised_bps"] == 4e9
    assert "assumed" not in str(Preview(plan=plan))
    assert repr(Preview(plan=plan)) == str(Preview(plan=plan)), (
        "a notebook shows it as the command line does"
    )


def test_traffic_and_time_add_up_by_pair():
    pairs = [{"client": "a", "server": s, "placement": s} for s in ("b", "c")]
    plan = schedule(
        experiment(
            TCP | {"duration_s": 8, "omit_s": 2}, pairs=pairs, bandwidth_mbps=1000
        ),
        seed=1,
    )
    sent = [3 * 10 * 1e9 / 8, 4 * 10 * 1e9 / 8]  # a run to c leads; no pair spans regions
    assert traffic(plan) == {
        ("a", "b"): sent[0],
        ("a", "c"): sent[1],
    }
    assert duration_s(plan) == pytest.approx(7 * (10 + OVERHEAD_S))
    assert Preview(plan=plan).to_dict()["estimates"]["traffic_bytes"] == 8_750_000_000
    assert "6 trials = 2 conditions × 3 rounds, and 1 that leads" in str(
        Preview(plan=plan)
    )


def test_rounds_that_cannot_decide_anything_are_named():
    pairs = [{"client": "a", "server": s, "placement": s} for s in ("b", "c")]
    asked = [
        {"metric": "throughput_bps", "a": {"placement": "b"}, "b": {"placement": "c"}}
    ]
    few = experiment(TCP, pairs=pairs, contrasts=asked)
    assert [n for n in Preview(plan=schedule(few)).notes() if "at least 6" in n]
    enough = experiment(TCP, pairs=pairs, contrasts=asked, rounds=6)
    assert not [n for n in Preview(plan=schedule(enough)).notes() if "at least" in n]
