"""The main job as a user types it: hosts, real tools over real SSH, raw runs, tables, verdicts,
PDF."""

import subprocess
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.hosts.lab.topology import Options

pytestmark = pytest.mark.usefixtures("lab_runs")

# five times the lab's own delays, between which it sleeps
DELAYS_US = {"ppg": 2000, "cross-region": 50_000}
LAB = {"links": {placement: {"delay_us": us} for placement, us in DELAYS_US.items()}}
SERVERS = {"ppg": "ppg", "region": "cross-region"}
"""Each with its placement, from the lab's `client`."""


def declare(folder):
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
        "rounds": 6,
        "contrasts": [contrast],
    }
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(experiment))
    return file


@pytest.fixture(scope="module")
def measured(tmp_path_factory, python):
    folder = tmp_path_factory.mktemp("measured")
    words = [python, "-m", "netperf_lib", "run", declare(folder), "--seed", "1"]
    words += ["--root", folder / "results", "--pdf", folder / "out.pdf"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=840)
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
