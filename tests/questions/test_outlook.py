"""Which contrasts the planned rounds can decide."""

from __future__ import annotations

import random

import pandas as pd

from netperf_lib.experiment.estimate import Preview
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.questions.outlook import outlook


def test_the_outlook_takes_the_spread_of_a_pilot() -> None:
    declared = Experiment.model_validate(
        {
            "name": "small",
            "hosts": {"source": "inventory"},
            "pairs": [{"client": "a", "server": p, "placement": p} for p in ("ppg", "same-zone")],
            "tests": [{"tool": "qperf", "test": "tcp_lat"}],
            "rounds": 12,
            "contrasts": [
                {
                    "metric": "latency_oneway_us",
                    "a": {"placement": "ppg"},
                    "b": {"placement": "same-zone"},
                },
                {"metric": "latency_oneway_us", "a": {"placement": "ppg"}, "below": "1 ms"},
            ],
        }
    )
    (assumed,) = outlook(declared)  # of a threshold nothing is known before
    assert "assumed" in assumed.words
    rng = random.Random(1)
    rows = [
        {
            "deployment": 1,
            "round": r,
            "placement": p,
            "status": "ok",
            "latency_oneway_us": 50 * rng.lognormvariate(0, 0.15),
        }
        for r in range(1, 40)
        for p in ("ppg", "same-zone")
    ]
    (found,) = outlook(declared, pd.DataFrame(rows))
    assert "pilot" in found.words
    assert found.rounds > 3 * assumed.rounds
    assert not found.enough
    assert "TOO FEW" in str(Preview(plan=schedule(declared), outlook=(found,)))
    (few,) = outlook(declared, pd.DataFrame(rows[:6]))
    assert few.rounds == assumed.rounds
    assert "assumed" in few.words
