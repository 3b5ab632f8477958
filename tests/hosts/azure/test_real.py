"""The whole way against a real subscription: `make test-azure` (asks first, costs about 1 USD).

Two small VMs for some minutes. What the command line shows is written to azure-transcript.txt, and
every answer of az to azure-transcript.jsonl: both without ids and addresses, to be sent along with
a report, and added to the recordings. Not part of the usual tests; until someone has run it,
nothing of this source was ever run against Azure itself.
"""

import os
from pathlib import Path

import pytest

from netperf_lib.data.load import load
from netperf_lib.experiment.model import Experiment
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure.az import find_az

from . import record
from .transcript import program, whole_way

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NETPERF_AZURE") != "yes",
        reason="places VMs and costs money: make test-azure",
    ),
    pytest.mark.timeout(3 * 3600),
]


def declared():
    """One pair; NETPERF_AZURE_PLACEMENTS names more (``ppg,cross-zone,vpn``), each with a VM of
    its own."""
    placements = os.environ.get("NETPERF_AZURE_PLACEMENTS", "ppg").split(",")
    options = {
        "region": os.environ.get("NETPERF_AZURE_REGION", "westeurope"),
        "remote_region": os.environ.get("NETPERF_AZURE_REMOTE_REGION", "northeurope"),
        "vm_size": os.environ.get("NETPERF_AZURE_SIZE", "Standard_D2s_v5"),
        "expires_h": 4,
        "alternative_zones": True,
    }
    return Experiment.model_validate(
        {
            "name": "real",
            "hosts": {"source": "azure", "options": options},
            "pairs": [
                {"client": "client", "server": p, "placement": p, "accelerated": True}
                for p in placements
            ],
            "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 2}],
            "rounds": 1,
            "budget": float(os.environ.get("NETPERF_AZURE_BUDGET", "2")),
        }
    )


def test_placed_proven_measured_once_and_removed(tmp_path, monkeypatch):
    record.program(tmp_path / "bin", find_az(), Path("azure-transcript.jsonl").absolute())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    identity, _ = azure.subscription()
    before = {group.name for group in azure.leftovers(identity)}
    try:
        shown, codes = whole_way(declared(), tmp_path, program(tmp_path))
        Path("azure-transcript.txt").write_text(shown, "utf-8")
    finally:
        azure.down(declared(), state=tmp_path / "results" / "real" / "hosts")
    assert not any(codes)
    assert "NOT TRUE" not in shown
    runs = load(tmp_path / "results" / "real")
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert {group.name for group in azure.leftovers(identity)} <= before
