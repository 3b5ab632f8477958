"""Time that collection takes beside the tests, on the local lab: between two tools, and in all.

Run by ``make bench``; ``DURATION=10`` is the promise's own. Where flent is installed, its batch mode drives the same
tool on the same hosts for as long, side by side.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest

from netperf_lib.collect import collect
from netperf_lib.errors import LabError
from netperf_lib.hosts import lab
from netperf_lib.live import Silent
from netperf_lib.model import Deployment, Experiment
from netperf_lib.plan import schedule
from netperf_lib.store import Store

DURATION = int(os.environ.get("DURATION", "10"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
LAB = {"source": "lab", "options": {"hosts": [{"name": "client"}, {"name": "near"}], "calibrate": False}}
NEAR = {"client": "client", "server": "near", "placement": "same-zone"}

try:
    lab.check()
except LabError as error:
    pytest.skip(f"no lab here: {error}", allow_module_level=True)


def gaps(store: Store) -> list[float]:
    """Seconds from the end of one tool to the start of the next, from the records."""
    spans = sorted(
        (datetime.fromisoformat(r["started_utc"]), datetime.fromisoformat(r["ended_utc"]))
        for r in map(store.run, store.run_ids())
    )
    return [(b[0] - a[1]).total_seconds() for a, b in zip(spans, spans[1:], strict=False)]


def test_time_beside_the_tests(tmp_path: Path) -> None:
    tests = [{"tool": "iperf3", "test": "tcp", "streams": [1, 4]}, {"tool": "qperf", "test": "tcp_lat"}]
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
        tally = collect(plan, deployment, store, watch=Silent())
        took = time.monotonic() - begun
        flent = by_flent(deployment, tmp_path)
    finally:
        lab.stop(tmp_path / "lab")
    assert tally.failed == 0
    asked = DURATION * len(plan.trials)
    between = gaps(store)
    print(
        f"\n{len(plan.trials)} trials of {DURATION} s: between tools median {1e3 * statistics.median(between):.0f} ms "
        f"(promised: 150 ms), largest {1e3 * max(between):.0f} ms; in all {took / asked:.3f} times the tests' own "
        f"duration (promised: 1.1 for 10 s); {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(flent)


def by_flent(deployment: Deployment, folder: Path) -> str:
    """Time what flent's batch mode takes for as many runs on the same two hosts."""
    program = os.environ.get("FLENT") or shutil.which("flent")
    if not program:
        return "flent is not installed here: no comparison (FLENT=/path/to/flent)"
    server = deployment.host("near").data_address
    batch = folder / "flent.batch"
    batch.write_text(
        f"[Global]\noutput_path = {folder}/flent\npause = 0\nrepetitions = {3 * ROUNDS}\n"
        f"[Batch::one]\ntest_name = {os.environ.get('FLENT_TEST', 'ping')}\nhosts = {server}\n"
        f"length = {DURATION}\nfilename_extra = one\n"
    )
    (folder / "flent").mkdir()
    command = lab.ssh_command(
        deployment.host("client"),
        f"cd {folder}/flent && {program} --batch-file {batch} --batch-repetitions {3 * ROUNDS}",
    )
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    took = time.monotonic() - begun
    if done.returncode:
        return f"flent failed: {(done.stdout + done.stderr).strip()[-400:]}"
    made = len(list((folder / "flent").rglob("*.flent*")))
    return f"flent: {made} runs of {DURATION} s in {took / (DURATION * made):.3f} times the tests' own duration"
