"""What the statistics promise about time and memory. Run by ``make bench``; importing is not counted."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.random import default_rng

from netperf_lib import stats
from netperf_lib.experiment.attached import attach
from netperf_lib.questions.compare import compare


def best(work: Callable[[], object], times: int = 5) -> float:
    """Shortest of several durations, in seconds: the machine may be busy with something else."""
    took = []
    for _ in range(times):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def test_compare_of_30_rounds() -> None:
    rng = default_rng(1)
    sides = [(rng.lognormal(0, 0.02, 30), rng.lognormal(0, 0.02, 30)) for _ in range(50)]
    stats.compare_samples(*sides[0])  # null distributions are computed once in a process
    took = best(lambda: [stats.compare_samples(a, b) for a, b in sides]) / len(sides)
    print(f"\ncompare of 30 rounds: {1e3 * took:.2f} ms (at most 2)")
    tied = [(np.round(a, 2), np.round(b, 2)) for a, b in sides]
    ties = best(lambda: [stats.compare_samples(a, b) for a, b in tied]) / len(tied)
    print(f"the same with ties: {1e3 * ties:.2f} ms (at most 2)")
    assert max(took, ties) <= 2e-3


def family(conditions: int, contrasts: int, rounds: int = 30) -> pd.DataFrame:
    """Runs of so many conditions of the same level, and contrasts of them."""
    rng = default_rng(2)
    runs = pd.DataFrame(
        {
            "deployment": 1,
            "round": np.repeat(np.arange(rounds), conditions),
            "status": "ok",
            "excluded": None,
            "placement": [f"p{i}" for i in range(conditions)] * rounds,
            "tool": "iperf3",
            "test": "tcp",
            "client": "client",
            "server": [f"s{i}" for i in range(conditions)] * rounds,
            "streams": 1,
            "throughput_bps": 1e9 * rng.lognormal(0, 0.02, rounds * conditions),
        }
    )
    pairs = [(i, j) for i in range(conditions) for j in range(i)][:contrasts]
    declared = [
        {"metric": "throughput_bps", "a": {"placement": f"p{i}"}, "b": {"placement": f"p{j}"}} for i, j in pairs
    ]
    attach(runs, declared={"name": "bench", "contrasts": declared, "alpha": 0.05})
    return runs


def test_family_of_1000_contrasts() -> None:
    runs = family(46, 1000)
    assert len(compare(runs)) == 1000
    took = best(lambda: compare(runs), 3)
    print(f"\nfamily of 1,000 contrasts: {took:.2f} s (at most 1)")
    assert took <= 1


def test_rounds_needed_answers_while_one_waits() -> None:
    took = best(lambda: stats.rounds_needed(0.03, family=21), 2)
    print(f"\nrounds_needed: {took:.2f} s (at most 3)")
    assert took <= 3
