"""The main job as a user types it: hosts, real tools over real SSH, raw runs, tables, verdicts,
PDF."""

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.data.raw import run_ids
from netperf_lib.hosts.lab.topology import Options

from .sshd import wait_until

pytestmark = pytest.mark.usefixtures("lab_runs")

# five times the lab's own delays, between which it sleeps
DELAYS_US = {"ppg": 2000, "cross-region": 50_000}
LAB = {"links": {placement: {"delay_us": us} for placement, us in DELAYS_US.items()}}
SERVERS = {"ppg": "ppg", "region": "cross-region"}
"""Each with its placement, from the lab's `client`."""


def declare(folder, rounds, **more):
    """Declare an experiment on latency alone; its two placements are the contrast."""
    contrast = {"metric": "latency_oneway_us", "margin": 0.1}
    for side, placement in zip("ab", SERVERS.values(), strict=True):
        contrast[side] = {"placement": placement}
    experiment = {
        "name": "small",
        "hosts": {"source": "lab", "options": LAB},
        "pairs": [
            {"client": "client", "server": s, "placement": p} for s, p in SERVERS.items()
        ],
        "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 0.3}],
        "rounds": rounds,
        "contrasts": [contrast],
    }
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(experiment | more))
    return file


def command(*words):
    return [sys.executable, "-m", "netperf_lib", *map(str, words)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    words = ["run", declare(folder, 6), "--root", folder / "results", "--seed", "1"]
    words += ["--pdf", folder / "out.pdf"]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=840)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "out.pdf").read_bytes().startswith(b"%PDF")
    assert done.stdout == f"{folder / 'out.pdf'}\n"
    assert "Placement: One-way latency" in done.stderr
    return Path(folder / "results", "small")


def test_every_trial_became_a_run_with_its_raw_logs(measured):
    runs = npl.load(measured)
    good = runs[runs["status"] == "ok"]
    rounds = good.groupby("placement")["round"].nunique()
    assert rounds.to_dict() == dict.fromkeys(SERVERS.values(), 6)
    assert (good["latency_oneway_us"] > 0).all()
    assert "Emulated" in (npl.read(measured).notice or "")
    for run_id in runs["run_id"]:
        held = {p.name for p in (measured / "raw" / run_id).iterdir()}
        assert {
            "run.json",
            "client.out",
            "client.err",
            "server.out",
            "server.err",
        } <= held


def test_the_verdict_agrees_with_the_delays_that_the_lab_was_given(measured):
    lab = Options.model_validate(LAB)
    near, far = (lab.path("client", server).delay_us for server in SERVERS)
    assert far > 20 * near, "far outside what a busy machine adds to a delay"
    (result,) = npl.compare(npl.read(measured))
    assert result.high < 1 / 2
    # rounds that are not independent, as by chance on a busy machine, get no verdict
    assert result.verdict == "better" or "not independent" in str(result.reason)


# -- killed ----------------------------------------------------------------------------------------


def processes(holds):
    """Return the processes whose folder of `/proc` holds what is looked for."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found |= {entry} if holds(entry) else set()
    return found


def namespace(entry):
    return str((entry / "ns" / "net").readlink())


@pytest.mark.slow
def test_kill_9_leaves_nothing_and_the_same_command_goes_on(tmp_path):
    file, root = declare(tmp_path, 2, contrasts=[]), tmp_path / "results"
    store, mark = Path(root, "small"), str(uuid.uuid4())
    words = command("collect", file, "--root", root)

    def marked(entry):
        return mark.encode() in (entry / "environ").read_bytes()

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        words, env=os.environ | {"NETPERF_TEST_MARK": mark}, **quiet
    )
    try:
        assert wait_until(lambda: len(run_ids(store)) >= 2, 180)
        own = namespace(Path("/proc/self"))
        namespaces = {namespace(entry) for entry in processes(marked)} - {own}
        assert namespaces, "the lab's hosts are in namespaces of their own"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert wait_until(lambda: not processes(marked))
    assert wait_until(lambda: not processes(lambda entry: namespace(entry) in namespaces))
    complete = set(run_ids(store))
    assert all((store / "raw" / i / "run.json").is_file() for i in complete)

    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert complete < set(run_ids(store))
    runs = npl.load(store)
    assert sum(runs["status"] == "ok") == 2 * len(SERVERS)
    assert not list((store / "raw").glob(".*"))
