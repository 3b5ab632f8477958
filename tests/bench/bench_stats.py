"""What the statistics promise about time and memory. Run by ``make bench``; importing is not counted."""

import time

import numpy as np
import pandas as pd
from numpy.random import default_rng
from scipy.stats import wilcoxon

from netperf_lib.analysis.compare import compare
from netperf_lib.experiment.origin import Measured, Origin

from ..analysis.planted import compared


def best(work, times=5):
    """Shortest of several durations, in seconds: the machine may be busy with something else."""
    took = []
    for _ in range(times):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def sides(digits=6):
    """50 times 30 rounds of two conditions; rounded to two digits, they have ties."""
    rng = default_rng(1)
    return [
        (rng.lognormal(0, 0.02, 30).round(digits), rng.lognormal(0, 0.02, 30).round(digits))
        for _ in range(50)
    ]


def wilcoxons(work):
    """How many of scipy's Wilcoxon tests of 30 rounds take as long as `work`, measured before and after."""
    pairs = sides()
    before, took, after = map(
        best, (unit := lambda: [wilcoxon(np.log(a / b)) for a, b in pairs], work, unit)
    )
    return took / min(before, after) * len(pairs)


def test_compare_of_30_rounds():
    compared(*sides()[0])  # null distributions are computed once in a process
    for name, pairs in (("compare of 30 rounds", sides()), ("the same with ties", sides(digits=2))):
        ratio = wilcoxons(lambda pairs=pairs: [compared(a, b) for a, b in pairs]) / len(pairs)
        print(f"\n{name}: {ratio:.2f} times scipy's Wilcoxon test (at most 2)")
        assert ratio <= 2


def family(conditions, contrasts, rounds=30):
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
        {"metric": "throughput_bps", "a": {"placement": f"p{i}"}, "b": {"placement": f"p{j}"}}
        for i, j in pairs
    ]
    return Measured(runs, Origin({"name": "bench", "contrasts": declared, "alpha": 0.05}))


def test_family_of_1000_contrasts():
    runs = family(46, 1000)
    assert len(compare(runs)) == 1000
    ratio = wilcoxons(lambda: compare(runs)) / 1000
    print(
        f"\nfamily of 1,000 contrasts: {ratio:.2f} times scipy's Wilcoxon test for each (at most 2)"
    )
    assert ratio <= 2
