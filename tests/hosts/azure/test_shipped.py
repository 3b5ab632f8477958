"""The experiments that come with the project and are placed in Azure."""

import json
import re

import pytest

from netperf_lib import pipeline
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.hosts import Workload, azure

from ...conftest import REPO
from . import arm, schemas
from .cloud import REGIONS
from .conftest import PRICES, nothing_is_left
from .test_place import unproven

EVERY = sorted((REPO / "data" / "experiments").glob("*.yaml"))
SHIPPED = {p.stem: p for p in EVERY if load_experiment(p).hosts.source == "azure"}


def parameters(declared, folder):
    """What a deployment hands over to the template."""
    findings = azure._proposals(declared, Workload())[0]
    findings.allow_from = ("192.0.2.7/32",)
    with azure.State.locked(folder) as store:
        return azure._begin(findings, store).parameters()["parameters"]


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_placed_as_declared(name, az, cloud, tmp_path):
    """The emulator refuses what Azure's own schemas do not know."""
    declared = load_experiment(SHIPPED[name])
    options = declared.hosts.options
    known = {
        options["vm_size"]: 0.8,
        "transfer cross-region": 0.02,
        "transfer vnet-peering": 0.02,
    }
    options |= {"prices": PRICES | known, "allow_from": ["192.0.2.7"]}
    made = azure.up(declared, number=1, state=tmp_path)
    assert unproven(made) == []
    names = {name for pair in declared.pairs for name in (pair.client, pair.server)}
    assert {h.name for h in made.hosts} == names
    azure.down(declared, state=tmp_path)
    nothing_is_left(cloud, tmp_path)


@pytest.mark.parametrize("name", SHIPPED)
def test_its_template_fits_the_schemas_of_azure(name, tmp_path):
    given = parameters(load_experiment(SHIPPED[name]), tmp_path)
    values = {name: entry["value"] for name, entry in given.items()}
    there = {"properties": {"ipAddress": "203.0.113.9"}}
    scope = arm.Scope(
        "/subscriptions/s/resourceGroups/g", values, lambda _: there, REGIONS
    )
    items = scope.expand(json.loads(azure.template.template_text())).values()
    assert len(items) > 10
    for item in items:
        assert schemas.wrong(scope.evaluate(item)) == []


def test_a_schema_is_closed():
    made = {
        "type": "Microsoft.Compute/virtualMachines",
        "apiVersion": "2024-07-01",
        "name": "x",
    }
    (problem,) = schemas.wrong(made | {"properties": {"hardwareProfil": {}}})
    assert "hardwareProfil" in problem


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_planned_within_its_budget(name, price_list):
    """The parts add up to the highest cost that is said."""
    preview = pipeline.plan(SHIPPED[name])
    found = re.match(r"at most ([\d.]+) USD for [\d.]+ h", preview.price.words)
    assert found, preview.price
    parts = sum(float(text.split()[-2]) for text in preview.price.parts)
    assert parts == pytest.approx(float(found[1]), abs=0.05)
    assert 0 < parts <= (preview.plan.experiment.budget or 0)
