"""The real az over HTTPS against the emulated cloud, and real SSH to a stand-in for every VM.

Nothing here was ever run against Azure itself; `make test-azure` does that, with the experiment of `test_real.py`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pypdf
import pytest
import yaml

import netperf_lib as npl
from netperf_lib import pipeline
from netperf_lib.data.load import load
from netperf_lib.errors import AzureError
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.placements import PLACED
from netperf_lib.hosts import azure, inventory
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure import template
from netperf_lib.questions.lead import Lead
from netperf_lib.reporting.summary import Summary

from . import test_real
from .cloud import BASE, OTHER, SUBSCRIPTION
from .conftest import PRICES, World, experiment, preflight
from .direct import DirectAz
from .emulator import CALLER, login
from .recordings import fault
from .test_doctor import SUBJECTS
from .test_landing_zone import hub
from .test_place import CIRCUIT, NSG, outside
from .transcript import whole_way

pytestmark = pytest.mark.slow
SUBNET = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/x"
PAIRS = (
    "c p ppg", "c z same-zone", "c x cross-zone", "d y same-zone off", "c r cross-region", "c v vnet-peering",
    "c l standard-lb", "c i public-ip", "c w vpn", "c e expressroute", "c o other-subnet", "c k nva",
    "c q global-peering", "g n nat-gateway",
)  # fmt: skip


def write(declared: Experiment, folder: Path) -> Path:
    place = folder / f"{declared.name}.yaml"
    place.write_text(
        yaml.safe_dump(declared.model_dump(mode="json", exclude_defaults=True)), "utf-8"
    )
    return place


def test_every_placement_is_placed_proven_measured_once_and_removed(
    world: World, tmp_path: Path
) -> None:
    assert {p.split()[2] for p in PAIRS} == set(PLACED)
    existing = {"expressroute_circuit": CIRCUIT, "hub": hub(world.cloud), "next_hop": "10.2.0.4"}
    before = json.dumps(world.cloud.resources, sort_keys=True)
    declared = experiment(*PAIRS, **world.options(**existing, prices={"ErGw1AZ": 0.4}))
    said: list[str] = []
    pipeline.collect(
        write(declared, tmp_path), root=tmp_path / "data", rounds=1, duration_s=0.3, say=said.append
    )

    assert set(world.cloud.groups) == {"net"}
    assert json.dumps(world.cloud.resources, sort_keys=True) == before
    assert not list(tmp_path.rglob("id_ed25519"))
    runs = load(tmp_path / "data" / "probe")
    assert sorted(runs["placement"]) == sorted(p.split()[2] for p in PAIRS)
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert (runs["latency_oneway_us"] > 0).all()
    by = runs.set_index("server")
    assert by.loc["x", "server_zone"] == "2"
    assert by.loc["x", "server_zone_physical"] == "westeurope-az2"
    assert by.loc["r", "server_region"] == "northeurope"
    assert not by.loc["y", "accelerated"]
    record = json.loads(
        next((tmp_path / "data" / "probe" / "raw").glob("*/run.json")).read_text("utf-8")
    )
    ends = record["trial"]["client"], record["trial"]["server"]
    ways = {p["claim"]: p["evidence"] for p in record["path"]}
    assert "hops, MTU " in ways["path from {} to {}".format(*ends)]
    assert any("effective route" in evidence for evidence in ways.values())
    proofs = record["hosts"]["server"]["proofs"]
    assert {"Hyper-V host", "kernel", "image"} <= {p["claim"] for p in proofs}
    assert [p["claim"] for p in proofs if not p["holds"]] == []


def test_what_make_test_azure_runs_goes_the_whole_way(world: World, tmp_path: Path) -> None:
    """Its ladder, with its experiment, before somebody pays for it."""
    declared = test_real.declared()
    declared.hosts.options.update(
        {k: v for k, v in world.options(prices=PRICES).items() if v is not None}
    )
    pace = "from netperf_lib.hosts import azure; azure.CLOCK = azure.Clock(0.2)"
    shown, codes = whole_way(declared, tmp_path, pace)
    assert not any(codes), shown
    assert re.findall(r"^ok +(.+?)  ", shown, re.MULTILINE) == list(SUBJECTS)
    assert "NOT TRUE" not in shown
    assert "claims are proven" in shown
    assert SUBSCRIPTION not in shown
    assert "203.0.113" not in shown
    assert set(load(tmp_path / "results" / "real")["status"]) == {"ok"}
    assert not world.cloud.groups


def test_servers_behind_one_frontend_are_all_served_and_the_one_that_answers_is_told(
    world: World, tmp_path: Path
) -> None:
    """Every tool, through a load balancer that really chooses: control and data connections meet the same server."""
    declared = experiment(
        "c l standard-lb", "c s standard-lb", **world.options(vms={"l": {"backends": 3}})
    )
    # at full speed over loopback they would keep two processors busy
    slow = {"options": {"bitrate": "20M"}}
    busy = {"tool": "iperf2", "test": "tcp"} | slow
    tests = [
        {"tool": "qperf", "test": "tcp_lat"}, {"tool": "qperf", "test": "udp_lat"},
        {"tool": "iperf3", "test": "tcp", "streams": [4]} | slow, {"tool": "iperf3", "test": "udp", "options": {"bitrate": "1M"}},
        {"tool": "iperf2", "test": "tcp"} | slow, {"tool": "sockperf", "test": "ping-pong"},
        {"tool": "sockperf", "test": "ping-pong", "options": {"protocol": "tcp"}, "during": busy},
    ]  # fmt: skip
    file = write(declared, tmp_path)
    file.write_text(
        yaml.safe_dump(yaml.safe_load(file.read_text("utf-8")) | {"tests": tests}), "utf-8"
    )
    store = pipeline.collect(file, root=tmp_path / "data", rounds=1, duration_s=1)
    (made,) = store.deployments().values()
    hosts = {h["name"]: h for h in made["hosts"]}
    assert list(hosts) == ["c", "l", "l-2", "l-3", "s"]
    assert len({hosts[n]["data_address"] for n in ("l", "l-2", "l-3")}) == 1
    assert [c for h in made["hosts"] for c in h["proofs"] if not c["holds"]] == []

    runs = load(tmp_path / "data" / "probe")
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert len(runs) == 2 * len(tests)
    assert runs.groupby("server")["server_backend"].nunique().to_dict() == {"l": 1, "s": 0}
    assert set(runs["server_backends"].dropna()) == {"3"}
    assert npl.verify(tmp_path / "data") == []
    for run_id in store.run_ids():
        record = store.records(run_id)[run_id]
        server, asked = record["hosts"]["server"], record["trial"]["server"]
        assert record["facts"]["server"]["nic"] == "eth0"
        assert record["counters"]["server"]["delta"]["Ip.InReceives"]
        if record["trial"]["tool"] == "sockperf":
            assert server["own_address"] in record["commands"]["server"]
            assert server["data_address"] in record["commands"]["client"]
        if asked == "s":
            assert "backends" not in record
            continue
        received = record["backends"]
        assert set(received) == {asked, f"{asked}-2", f"{asked}-3"}
        assert (
            max(received, key=received.__getitem__) == server["name"] == server["labels"]["backend"]
        )
        assert not any("several servers" in w for w in record["warnings"]), record["warnings"]
        assert {f"server@{n}.out" for n in received if n != server["name"]} <= set(record["files"])


@pytest.mark.usefixtures("canned_preflight")
def test_connections_that_a_load_balancer_parts_are_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Azure's own default; iperf3, which has a connection for control, gets no answer then."""
    text = template.template_text().replace('"SourceIP"', '"Default"')
    monkeypatch.setattr(template, "template_text", lambda: text)
    file = write(
        experiment("c l standard-lb", **world.options(vms={"l": {"backends": 3}})), tmp_path
    )
    tests = [{"tool": "iperf2", "test": "tcp", "streams": [16]}]
    file.write_text(
        yaml.safe_dump(yaml.safe_load(file.read_text("utf-8")) | {"tests": tests}), "utf-8"
    )
    pipeline.collect(file, root=tmp_path / "data", rounds=1, duration_s=1)
    runs = load(tmp_path / "data" / "probe")  # on a busy machine the first attempt may stall
    (warnings,) = runs.loc[runs["status"] == "ok", "warnings"]
    assert any("several servers behind" in w for w in warnings)


def test_rights_on_one_resource_group_suffice_to_place_measure_and_remove(
    world: World, tmp_path: Path
) -> None:
    outside(world.cloud)
    before = json.dumps(world.cloud.resources, sort_keys=True)
    theirs = f"[A-Z]+ {BASE}/(locations|providers/(?![^/]+/operation)|deployments)"  # who began one may ask for its end
    world.cloud.faults.append(fault("403-authorization-storage", match=theirs, times=999))
    declared = experiment("a b same-zone", **world.options(resource_group="net"))
    pipeline.collect(write(declared, tmp_path), root=tmp_path / "data", rounds=1, duration_s=0.3)
    assert set(load(tmp_path / "data" / "probe")["status"]) == {"ok"}
    assert json.dumps(world.cloud.resources, sort_keys=True) == before


def test_all_zone_pairs_in_an_existing_subnet_and_what_is_not_proven_is_in_the_report(
    world: World, tmp_path: Path
) -> None:
    outside(world.cloud)
    before = json.dumps(world.cloud.resources, sort_keys=True)
    zones = ("1", "2", "3")
    declared = experiment(
        *(f"z{a} z{b} cross-zone" for a in zones for b in zones if a != b),
        **world.options(
            zones=zones,
            vms={f"z{z}": {"zone": z} for z in zones},
            subnet=SUBNET,
            management="private",
            resource_group="net",
        ),
    )
    world.machines.without_vf.add("z3")
    store = pipeline.collect(
        write(declared, tmp_path), root=tmp_path / "data", rounds=1, duration_s=0.3, anyway=True
    )
    assert json.dumps(world.cloud.resources, sort_keys=True) == before
    assert set(world.cloud.groups) == {"net"}
    runs = load(tmp_path / "data" / "probe")
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    logical = {f"{a}→{b}" for a, b in zip(runs["client_zone"], runs["server_zone"], strict=True)}
    assert logical == {f"{a}→{b}" for a in zones for b in zones if a != b}
    assert set(runs["server_zone_physical"]) == {f"westeurope-az{z}" for z in zones}

    assert "z3: virtual function present" in Summary(Lead((), (), (), declared=False), runs).caveats
    (pdf,) = npl.report(tmp_path / "data" / "probe", notebooks=["07-quality"])
    page = " ".join(" ".join(p.extract_text() for p in pypdf.PdfReader(pdf).pages).split())
    (deployment,) = store.deployments().values()
    claims = [p for h in deployment["hosts"] for p in h["proofs"]]
    (flagged,) = (p for p in claims if not p["holds"])
    assert flagged["claim"] == "virtual function present and up in the guest"
    assert "1 does NOT hold" in page
    ways = {p["claim"]: p["holds"] for p in deployment["proofs"]}
    assert ways["traffic from z1 to z2 takes the virtual function"]
    assert ways["traffic from z3 to z1 takes the virtual function"] is None
    assert ways["path from z1 to z2"]
    said = page.replace("\u00ad", "").replace("-", "").replace(" ", "")
    for claim in {
        p["claim"] for p in claims
    }:  # in the table of the quality page, and again in the provenance
        assert said.count(claim.replace("-", "").replace(" ", "")) >= 2, claim


def test_held_up_it_can_be_looked_at_used_again_and_taken_down(
    world: World, tmp_path: Path
) -> None:
    """The slow parts once: what `up` left is proven, read as an inventory, compared with the other az, and removed."""
    declared = experiment("a b ppg", "a r cross-region", **world.options())
    world.machines.without_vf.add("b")
    told = preflight(declared)
    assert not world.cloud.groups
    assert told.changes is not None
    assert {c.name for c in told.changes if c.type == "virtualMachines"} == {"a", "b", "r"}
    assert {c.change for c in told.changes} == {"Create"}
    made = azure.up(declared, number=1, state=tmp_path)
    group = made.deployment_id
    rules = world.cloud.get(NSG, "nsg-home")["properties"]["securityRules"]
    assert rules[0]["properties"]["sourceAddressPrefix"] == f"{CALLER}/32"
    assert all(p.holds for p in made.proofs)
    assert [(h.name, p.claim) for h in made.hosts for p in h.proofs if not p.holds] == [
        ("b", "virtual function present and up in the guest")
    ]

    same_as_the_real_az(world, group)

    moved = experiment("a b ppg", "a r cross-region", **world.options(allow_from=["198.51.100.9"]))
    assert azure.up(moved, number=1, state=tmp_path) == made
    rules = world.cloud.get(NSG, "nsg-home")["properties"]["securityRules"]
    assert "198.51.100.9/32" in json.dumps(rules[0])
    assert f"{CALLER}/32" not in json.dumps(rules[0])

    options = {"resource_group": group, "user": "azureuser", "identity": made.hosts[0].identity}
    options["hosts"] = {h.name: {"known_hosts": h.known_hosts} for h in made.hosts}
    there = declared.model_copy(
        update={
            "hosts": declared.hosts.model_copy(update={"source": "inventory", "options": options})
        }
    )
    state = dict(world.cloud.resources)
    found = inventory.up(there, number=1, state=tmp_path / "inventory")
    inventory.down(there, state=tmp_path / "inventory")
    assert world.cloud.resources == state
    assert [(h.name, h.address, h.zone_physical, h.ppg, h.owned) for h in found.hosts] == [
        (h.name, h.address, h.zone_physical, h.ppg, False) for h in made.hosts
    ]
    assert any(p.claim == "kernel" and p.holds for p in found.hosts[0].proofs)

    assert [g.name for g in azure.leftovers()] == [group]
    assert azure.leftovers(expired=True) == []
    azure.down(declared, state=tmp_path)
    azure.down(declared, state=tmp_path)
    assert not world.cloud.groups
    assert not list(tmp_path.rglob("id_ed25519"))


def same_as_the_real_az(world: World, group: str) -> None:
    """What the fast tests' az answers is what the real one does, as far as anybody reads it."""
    ours, real = DirectAz(world.cloud), az_module.Az()
    ppg = world.cloud.get("Microsoft.Compute/proximityPlacementGroups", "ppg-westeurope-1")["id"]
    for command in (
        ("rest", "--method", "get", "--url", f"{BASE}/locations?api-version=2022-12-01"),
        ("vm", "image", "show", "--location", "westeurope", "--urn", "Canonical:ubuntu-24_04-lts:server:latest"),
        ("vm", "image", "terms", "show", "--publisher", "resf", "--offer", "rockylinux-x86_64", "--plan", "9-base"),
        ("network", "list-usages", "--location", "westeurope"),
        ("provider", "show", "--namespace", "Microsoft.DevTestLab"),
        ("resource", "list", "--resource-group", group),
        ("resource", "list", "--tag", "netperf-experiment"),
        ("network", "nic", "show-effective-route-table", "--resource-group", group, "--name", "nic-a"),
        ("vm", "list-skus", "--location", "westeurope", "--size", "Standard_D4s_v5", "--resource-type", "virtualMachines", "--all"),
        ("vm", "list-usage", "--location", "westeurope"),
        ("group", "list", "--tag", "netperf-experiment"),
        ("deployment", "group", "show", "--resource-group", group, "--name", "npl"),
        ("deployment", "operation", "group", "list", "--resource-group", group, "--name", "npl"),
        ("vm", "list", "--resource-group", group),
        ("vm", "list", "--resource-group", group, "--show-details"),
        ("network", "nic", "list", "--resource-group", group),
        ("network", "vnet", "list", "--resource-group", group),
        ("ppg", "show", "--include-colocation-status", "--ids", ppg),
    ):  # fmt: skip
        assert not missing(ours(*command), real(*command)), command


IGNORED = {
    "etag",
    "provisioningState",
    "timestamp",
    "parameters",
    "providers",
    "dependencies",
    "type",
    "zoneDetails",
    "restrictionInfo",
    "operationId",
}


def missing(wanted: Any, got: Any, where: str = "") -> list[str]:
    """Where `got` lacks what `wanted` says; more is fine."""
    if isinstance(wanted, dict):
        return [
            m
            for k, v in wanted.items()
            if k not in IGNORED
            for m in missing(v, (got or {}).get(k), f"{where}.{k}")
        ]
    if isinstance(wanted, list):
        if len(wanted) != len(got or ()):
            return [f"{where}: {len(wanted)} entries, {len(got or ())}"]
        return [m for i, v in enumerate(wanted) for m in missing(v, got[i], f"{where}[{i}]")]
    return (
        []
        if wanted in (None, "", got) or str(wanted).lower() == str(got).lower()
        else [f"{where}: {wanted!r}, {got!r}"]
    )


def test_zones_are_those_of_the_subscription_asked_for_and_not_of_the_selected_one(
    world: World,
) -> None:
    login(world.folder / "emulator" / "az", selected=OTHER)
    az = az_module.Az("emulated")
    selected, asked = az("account", "show"), az("account", "show", "--subscription", "emulated")
    assert (selected["id"], asked["id"]) == (OTHER, SUBSCRIPTION)
    zones = az_module.locations(az, asked["id"])["westeurope"]
    assert zones == {z: f"westeurope-az{z}" for z in "123"}
    assert az_module.locations(az, OTHER)["westeurope"] != zones
    assert az("extension", "list") == []  # it has no --subscription


def test_az_is_told_apart_from_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        AzureError,
        match=f"not installed here: run `{re.escape(shlex.quote(sys.executable))} -m pip install azure-cli`",
    ):
        preflight(experiment())


@pytest.mark.usefixtures("real_az")
def test_the_guard_sees_who_looks_outside(world: World) -> None:
    command = ["python3", "-c", "import socket; socket.getaddrinfo('management.azure.com', 443)"]
    assert subprocess.run(command, capture_output=True).returncode
    assert "management.azure.com" in world.journal.read_text("utf-8")
    world.journal.write_text("", "utf-8")
    assert SUBSCRIPTION in json.dumps(az_module.Az()("account", "show"))
