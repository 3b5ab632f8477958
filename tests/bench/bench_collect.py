"""Time that collection takes beside the tests, on the local lab; run by ``make bench``."""

import statistics
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from netperf_lib.data.declaration import declare
from netperf_lib.data.raw import runs as stored_runs
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.hosts import lab
from netperf_lib.measure.collector import collect

DURATION = 10
DECLARED = {
    "name": "bench",
    "hosts": {
        "source": "lab",
        "options": {"hosts": [{"name": "client"}, {"name": "near"}]},
    },
    "pairs": [{"client": "client", "server": "near", "placement": "same-zone"}],
    "tests": [
        {"tool": "iperf3", "test": "tcp", "streams": [1, 4], "duration_s": DURATION},
        {"tool": "qperf", "test": "tcp_lat", "duration_s": DURATION},
    ],
    "rounds": 3,
}


def gaps(store):
    """Return the seconds from the end of each tool to the start of the next."""
    times = sorted((r.started_utc, r.ended_utc) for r in stored_runs(store))
    spans = [tuple(map(datetime.fromisoformat, span)) for span in times]
    return [(later[0] - earlier[1]).total_seconds() for earlier, later in pairwise(spans)]


def test_time_beside_the_tests(lab_runs, tmp_path):
    declared, store = Experiment.model_validate(DECLARED), Path(tmp_path, "bench")
    plan = schedule(declared, seed=1)
    declare(store, declared)
    deployment = lab.up(declared, state=tmp_path / "lab")
    try:
        begun = time.monotonic()
        tally = collect(plan, deployment, store, say=lambda _: None)
        ratio = (time.monotonic() - begun) / DURATION / len(plan.trials)
    finally:
        lab.stop(tmp_path / "lab")
    assert tally.failed == 0
    between = statistics.median(gaps(store))
    print(
        f"\n{ratio:.3f} times the tests' own duration (at most 1.1), {between:.2f} s between two"
    )
    assert ratio <= 1.1
