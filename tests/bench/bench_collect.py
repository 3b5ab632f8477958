"""Time that collection takes beside the tests, on the local lab: between two tools, and in all.

Run by ``make bench``; the promise is for tests of at least ten seconds. Where flent is installed, its batch mode drives
the same tool on the same hosts for as long, side by side.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from netperf_lib.data.layout import Store
from netperf_lib.errors import LabError
from netperf_lib.experiment.model import Deployment, Experiment
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


def gaps(store: Store) -> list[float]:
    """Seconds from the end of one tool to the start of the next, from the records."""
    spans = sorted(
        (datetime.fromisoformat(r["started_utc"]), datetime.fromisoformat(r["ended_utc"]))
        for _, r in store.runs()
    )
    return [(b[0] - a[1]).total_seconds() for a, b in pairwise(spans)]


def test_time_beside_the_tests(tmp_path: Path) -> None:
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
        flent = by_flent(deployment)
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
    print(flent)
    assert DURATION < 10 or took <= PROMISED * asked


ONLY_IPERF = """
AGGREGATOR = 'timeseries'
DESCRIPTION = 'iperf'
DEFAULTS = {'PLOT': 'iperf'}
TOTAL_LENGTH = LENGTH
DATA_SETS = o([('TCP upload', {'ip_version': IP_VERSION, 'interval': 1, 'length': LENGTH, 'host': HOST,
                               'units': 'Mbits/s', 'runner': 'iperf_csv'})])
PLOTS = o([('iperf', {'description': 'p', 'type': 'timeseries', 'series': [{'data': 'TCP upload', 'label': 'p'}]})])
"""


def by_flent(deployment: Deployment) -> str:
    """Time what flent's batch mode takes for as many runs between the same two hosts.

    With a test of its iperf runner, of one TCP stream as the collector's first; most of its own tests need netperf,
    which Debian does not carry. It leaves the server to its user: one is started before and serves all runs.
    """
    program = os.environ.get("FLENT") or shutil.which("flent")
    if not program:
        return "flent is not installed here, so there is no comparison (FLENT=/path/to/flent)"
    runs = 3 * ROUNDS
    batch = (
        f"[Batch::one]\nenabled = yes\noutput_path = out\npause = 0\nrepetitions = {runs}\ntest_name = @here/only\n"
        f"hosts = {deployment.host('near').data_address}\nlength = {DURATION}\nstep_size = 0.2\n"
    )
    script = (
        f"d=$(mktemp -d) && cd $d && mkdir out && printf %s {shlex.quote(batch)} >batch && "
        f"printf %s {shlex.quote(ONLY_IPERF)} >only.conf && sed -i s,@here,$d, batch && "
        f"{shlex.quote(program)} --batch-file batch --batch one 2>&1; ls out | grep -c flent; rm -r $d"
    )
    server = subprocess.Popen(
        lab.ssh_command(deployment.host("near"), "exec iperf -s"), stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(2)
        begun = time.monotonic()
        done = subprocess.run(
            lab.ssh_command(deployment.host("client"), script),
            capture_output=True,
            text=True,
            timeout=1200,
        )
        took = time.monotonic() - begun
    finally:
        server.kill()
        server.wait()
    made = int((done.stdout.split() or ["0"])[-1])
    if made != runs:
        return f"flent made {made} of {runs} runs: {done.stdout.strip()[-400:]}"
    return (
        f"flent, {runs} runs of its iperf runner in batch mode: {took / (DURATION * runs):.3f} times the tests' own "
        f"duration, {1e3 * (took / runs - DURATION):.0f} ms beside each"
    )
