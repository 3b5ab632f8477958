"""Time that collection takes beside the tests, on the local lab: between two tools, and in all.

Run by ``make bench``; the promise is for tests of at least ten seconds.
"""

import os
import statistics
import time
from datetime import datetime
from itertools import pairwise

import pytest

from netperf_lib.data.layout import Store
from netperf_lib.errors import LabError
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.hosts import lab
from netperf_lib.measure.collector import collect
from netperf_lib.measure.progress import Progress

DURATION = int(os.environ.get("DURATION", "10"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PROMISED = 1.1
LAB = {"source": "lab", "options": {"hosts": [{"name": "client"}, {"name": "near"}]}}
NEAR = {"client": "client", "server": "near", "placement": "same-zone"}

try:
    lab.check()
except LabError as error:
    pytest.skip(f"no lab here: {error}", allow_module_level=True)


def gaps(store):
    """Seconds from the end of one tool to the start of the next, from the records."""
    spans = sorted(
        (datetime.fromisoformat(r["started_utc"]), datetime.fromisoformat(r["ended_utc"]))
        for _, r in store.runs()
    )
    return [(b[0] - a[1]).total_seconds() for a, b in pairwise(spans)]


def test_time_beside_the_tests(tmp_path):
    tests = [
        {"tool": "iperf3", "test": "tcp", "streams": [1, 4]},
        {"tool": "qperf", "test": "tcp_lat"},
    ]
    declared = Experiment.model_validate(
        {
            "name": "bench",
            "hosts": LAB,
            "pairs": [NEAR],
            "tests": [t | {"duration_s": DURATION} for t in tests],
            "rounds": ROUNDS,
        }
    )
    plan, store = schedule(declared, seed=1), Store(tmp_path, "bench")
    store.declare(declared)
    deployment = lab.up(declared, state=tmp_path / "lab")
    try:
        begun = time.monotonic()
        tally = collect(plan, deployment, store, progress=Progress())
        took = time.monotonic() - begun
    finally:
        lab.stop(tmp_path / "lab")
    assert tally.failed == 0
    asked = DURATION * len(plan.trials)
    between = gaps(store)
    print(
        f"\n{len(plan.trials)} trials of {DURATION} s: between tools median {1e3 * statistics.median(between):.0f} ms, "
        f"largest {1e3 * max(between):.0f} ms; in all {took / asked:.3f} times the tests' own duration "
        f"(promised: {PROMISED} for 10 s); {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    assert DURATION < 10 or took <= PROMISED * asked
