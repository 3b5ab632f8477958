"""The same experiment against a real subscription: `make test-azure` (asks first, costs money).

Not part of the usual tests; until someone has run it, nothing of this source was ever run against Azure itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from netperf_lib import pipeline
from netperf_lib.data.load import load
from netperf_lib.experiment.model import Experiment
from netperf_lib.hosts import azure

pytestmark = [
    pytest.mark.skipif(os.environ.get("NETPERF_AZURE") != "yes", reason="places VMs and costs money: make test-azure"),
    pytest.mark.timeout(3 * 3600),
]
PATHS = ("vpn",)


def declared() -> Experiment:
    """Every placement that needs nothing but a subscription; NETPERF_AZURE_VPN=yes adds gateways (an hour more)."""
    pairs = ["ppg", "same-zone", "cross-zone", "vnet-peering", "standard-lb", "cross-region", "public-ip"]
    pairs += [p for p in PATHS if os.environ.get(f"NETPERF_AZURE_{p.upper()}") == "yes"]
    return Experiment.model_validate(
        {
            "name": "real",
            "hosts": {
                "source": "azure",
                "options": {
                    "region": os.environ.get("NETPERF_AZURE_REGION", "westeurope"),
                    "remote_region": os.environ.get("NETPERF_AZURE_REMOTE_REGION", "northeurope"),
                    "vm_size": os.environ.get("NETPERF_AZURE_SIZE", "Standard_D2s_v5"),
                    "expires_h": 4,
                    "alternative_zones": True,
                },
            },
            "pairs": [{"client": "client", "server": p, "placement": p, "accelerated": True} for p in pairs]
            + [{"client": "plain-client", "server": "plain", "placement": "same-zone", "accelerated": False}],
            "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 2}],
            "rounds": 1,
            "budget": float(os.environ.get("NETPERF_AZURE_BUDGET", "10")),
        }
    )


def test_placed_proven_measured_once_and_removed(tmp_path: Path) -> None:
    experiment = declared()
    file = tmp_path / "real.yaml"
    file.write_text(yaml.safe_dump(experiment.model_dump(mode="json", exclude_defaults=True)), "utf-8")
    before = {g.group for g in azure.leftovers()}
    print(azure.preflight(experiment))
    state = tmp_path / "data" / "real" / "hosts"
    try:
        made = pipeline.up(file, root=tmp_path / "data")[0]
        for host in made.hosts:
            for proof in host.proofs:
                print(host.name, proof.claim, proof.holds, proof.evidence)
        false = [(h.name, p.claim, p.evidence) for h in made.hosts for p in h.proofs if p.holds is False]
        assert not false
        pipeline.collect(file, root=tmp_path / "data")
        runs = load(tmp_path / "data" / "real")
        assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    finally:
        azure.down(experiment, state=state)
    assert {g.group for g in azure.leftovers()} <= before
