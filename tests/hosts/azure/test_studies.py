"""The published studies whose hosts are VMs in Azure, from the files that come with the project."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import cli
from netperf_lib.experiment.model import Deployment, Experiment
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.hosts import azure

from ...conftest import REPO
from .cloud import Cloud
from .conftest import GUEST, PRICES
from .direct import DirectAz
from .test_landing_zone import shape

DECLARED = {p.stem: p for p in sorted((REPO / "data" / "experiments").glob("study-*.yaml"))}
AZURE = [name for name, path in DECLARED.items() if load_experiment(path).hosts.source == "azure"]
REACHED = {"vpn": "VirtualNetworkGateway", "cross-region": "VNetGlobalPeering or VNetPeering"}
"""Placement to the route that leads there, where it is not the network itself."""


def declared(name: str, **options: Any) -> Experiment:
    """A study as it comes with the project, with prices and an address that need no look-up."""
    experiment = load_experiment(DECLARED[name])
    size = experiment.hosts.options["vm_size"]
    known = {
        "prices": PRICES | {size: 0.8, "transfer cross-zone": 0.01, "transfer cross-region": 0.02},
        "allow_from": ["192.0.2.7"],
        "versions": dict(GUEST["package"]),
    }
    experiment.hosts.options.update(known | options)
    return experiment


def check(made: Deployment, experiment: Experiment) -> None:
    """Every host stands where its pair says, and every claim is proven."""
    options = experiment.hosts.options
    unproven = [(h.name, p.claim) for h in made.hosts for p in h.proofs if not p.holds]
    assert unproven + [p.claim for p in made.proofs if not p.holds] == []
    for pair in experiment.pairs:
        client, server = made.host(pair.client), made.host(pair.server)
        far = pair.placement in ("cross-region", "public-ip", "vpn")
        assert (client.region, server.region) == (
            options["region"],
            options["remote_region" if far else "region"],
        )
        assert client.accelerated == server.accelerated == pair.accelerated
        assert {client.vm_size, server.vm_size} == {options["vm_size"]}
        assert (client.ppg is not None and client.ppg == server.ppg) == (pair.placement == "ppg")
        if not far:
            assert (client.zone != server.zone) == (pair.placement == "cross-zone")
        if pair.placement != "public-ip":
            way = REACHED.get(pair.placement, "VnetLocal")
            assert f"{pair.client} reaches {pair.server} by {way}" in [p.claim for p in made.proofs]


def test_three_studies_are_placed_in_azure() -> None:
    assert AZURE == ["study-minute", "study-paths", "study-placement"]


@pytest.mark.parametrize("name", AZURE)
def test_a_study_is_shown_placed_as_shown_and_proven(
    name: str, az: DirectAz, cloud: Cloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.npl.main(["up", str(DECLARED[name]), "--dry-run"], standalone_mode=False)
    shown, _, rest = capsys.readouterr().out.partition("# --- template.json\n")
    document, _, words = rest.partition("# --- parameters.json\n")[2].partition("# --- in words\n")
    parameters = json.loads(document)["parameters"]
    assert "would make, for each deployment" in words
    assert not az.commands

    study = declared(name)
    made = azure.up(study, number=1, state=tmp_path)
    check(made, study)
    assert [v["host"] for v in parameters["vms"]["value"]] == [h.name for h in made.hosts]
    done = [c for c in az.commands if {"create", "validate", "what-if"} & set(c[:4])]
    assert [shape(tuple(shlex.split(line)[1:])) for line in shown.splitlines()] == [
        shape(c) for c in done
    ]

    azure.down(study, state=tmp_path)
    cloud.settle()
    assert not cloud.groups
