"""The real az over HTTPS against the emulated cloud, and real SSH to a stand-in for every VM.

Nothing here was ever run against Azure itself; `make test-azure` does that, with the experiment of `test_real.py`.
"""

# ruff: noqa: E501 - a failure a line

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from netperf_lib import pipeline
from netperf_lib.errors import AzureError
from netperf_lib.hosts import azure, inventory
from netperf_lib.hosts.azure import _az
from netperf_lib.hosts.azure._failures import AzError
from netperf_lib.model import Experiment
from netperf_lib.store import load

from .cloud import BASE, SUBSCRIPTION, Fault
from .conftest import World, experiment
from .direct import DirectAz
from .emulator import CALLER, logout
from .test_place import CIRCUIT, NSG, VM, cloud_order, outside

pytestmark = pytest.mark.slow
PAIRS = (
    "c p ppg", "c z same-zone", "c x cross-zone", "d y same-zone off", "c r cross-region", "c v vnet-peering",
    "c l standard-lb", "c i public-ip", "c w vpn", "c e expressroute",
)  # fmt: skip


def write(declared: Experiment, folder: Path) -> Path:
    place = folder / f"{declared.name}.yaml"
    place.write_text(yaml.safe_dump(declared.model_dump(mode="json", exclude_defaults=True)), "utf-8")
    return place


def test_every_placement_is_placed_proven_measured_once_and_removed(world: World, tmp_path: Path) -> None:
    outside(world.cloud)
    before = dict(world.cloud.resources)
    declared = experiment(*PAIRS, **world.options(expressroute_circuit=CIRCUIT, prices={"ErGw1AZ": 0.4}))
    said: list[str] = []
    store = pipeline.collect(
        write(declared, tmp_path), root=tmp_path / "data", rounds=1, duration_s=0.3, say=said.append
    )

    assert set(world.cloud.groups) == {"net"}
    assert world.cloud.resources == before
    assert not list(tmp_path.rglob("id_ed25519"))
    store.ingest()
    runs = load(tmp_path / "data" / "probe")
    assert sorted(runs["placement"]) == sorted(p.split()[2] for p in PAIRS)
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert (runs["latency_oneway_us"] > 0).all()
    by = runs.set_index("server")
    assert by.loc["x", "server_zone"] == "2"
    assert by.loc["x", "server_zone_physical"] == "westeurope-az2"
    assert by.loc["r", "server_region"] == "northeurope"
    assert not by.loc["y", "accelerated"]
    record = json.loads(next((tmp_path / "data" / "probe" / "raw").glob("*/run.json")).read_text("utf-8"))
    proofs = record["hosts"]["server"]["proofs"]
    assert {"Hyper-V host", "kernel", "image"} <= {p["claim"] for p in proofs}
    assert [p["claim"] for p in proofs if not p["holds"]] == []


def test_held_up_it_can_be_looked_at_used_again_and_taken_down(world: World, tmp_path: Path) -> None:
    """The slow parts once: what `up` left is proven, read as an inventory, compared with the other az, and removed."""
    declared = experiment("a b ppg", "a r cross-region", **world.options())
    world.machines.without_vf.add("b")
    told = azure.preflight(declared)
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

    options = {"resource_group": group, "user": "azureuser", "identity": made.hosts[0].identity}
    options["hosts"] = {h.name: {"known_hosts": h.known_hosts} for h in made.hosts}
    there = declared.model_copy(
        update={"hosts": declared.hosts.model_copy(update={"source": "inventory", "options": options})}
    )
    state = dict(world.cloud.resources)
    found = inventory.up(there, number=1, state=tmp_path / "inventory")
    inventory.down(there, state=tmp_path / "inventory")
    assert world.cloud.resources == state
    assert [(h.name, h.address, h.zone_physical, h.ppg, h.owned) for h in found.hosts] == [
        (h.name, h.address, h.zone_physical, h.ppg, False) for h in made.hosts
    ]
    assert any(p.claim == "kernel" and p.holds for p in found.hosts[0].proofs)

    assert [g.group for g in azure.leftovers()] == [group]
    assert azure.down_all(expired=True) == []
    azure.down(declared, state=tmp_path)
    azure.down(declared, state=tmp_path)
    assert not world.cloud.groups
    assert not list(tmp_path.rglob("id_ed25519"))


def same_as_the_real_az(world: World, group: str) -> None:
    """What the fast tests' az answers is what the real one does, as far as anybody reads it."""
    ours, real = DirectAz(world.cloud), _az.Az()
    ppg = world.cloud.get("Microsoft.Compute/proximityPlacementGroups", "ppg-westeurope-1")["id"]
    for command in (
        ("account", "list-locations"),
        ("vm", "list-skus", "--location", "westeurope", "--size", "Standard_D4s_v5", "--resource-type", "virtualMachines", "--all"),
        ("vm", "list-usage", "--location", "westeurope"),
        ("group", "list", "--tag", "netperf-experiment"),
        ("deployment", "group", "show", "--resource-group", group, "--name", "npl"),
        ("deployment", "operation", "group", "list", "--resource-group", group, "--name", "npl"),
        ("vm", "list", "--resource-group", group),
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
            m for k, v in wanted.items() if k not in IGNORED for m in missing(v, (got or {}).get(k), f"{where}.{k}")
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


@pytest.mark.timeout(900)  # some forty processes of az, one after the other
@pytest.mark.parametrize(
    ("management", "pairs"),
    [
        ("private", ("a b ppg", "a l standard-lb", "a r cross-region")),
        ("public", ("a w vpn", "a e expressroute", "a i public-ip")),
    ],
)
def test_the_plain_script_makes_what_the_template_makes(
    world: World, tmp_path: Path, management: str, pairs: tuple[str, ...]
) -> None:
    outside(world.cloud)
    options = {"management": management, "expressroute_circuit": CIRCUIT}
    declared = experiment(*pairs, **world.options(allow_from=["192.0.2.7"], **options))
    vms = cloud_order(declared)
    shown = azure.dry_run(declared)
    world.machines.silent |= set(vms)
    world.cloud.request("PUT", f"{BASE}/resourceGroups/by-template", {}, {"location": "westeurope"})
    given = json.loads(shown.parameters.replace("YOUR_PUBLIC_KEY", "ssh-ed25519 AAAA"))["parameters"]
    given["sharedKey"] = {"value": "long"}
    body = {"properties": {"template": json.loads(shown.template), "parameters": given}}
    where = f"{BASE}/resourceGroups/by-template/providers/Microsoft.Resources/deployments/npl"
    assert world.cloud.request("PUT", where, {}, body).status == 201
    world.cloud.settle()
    assert world.cloud.request("GET", where).body["properties"]["provisioningState"] == "Succeeded"
    by_template = footprint(world, "by-template")
    for vm in vms:
        (tmp_path / f"{vm}.yaml").write_text("#cloud-config\nssh_keys: {ed25519_private: x}\n", "utf-8")
    (tmp_path / "key.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEmulatedKeyOfNobodyAtAllXXXXXXXXXXXXXXXXXX\n"
    )
    done = subprocess.run(
        ["bash", "-c", shown.script], cwd=tmp_path, capture_output=True, text=True, timeout=800,
        env={**os.environ, "key": str(tmp_path / "key.pub"), "shared_key": "long"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert footprint(world, "npl-probe-d1") == by_template


def footprint(world: World, group: str) -> dict[str, Any]:
    """What a group holds, as far as a measurement depends on it."""
    inside = f"{BASE}/resourceGroups/{group}/".lower()
    out: dict[str, Any] = {}
    for where, r in world.cloud.resources.items():
        if not where.startswith(inside) or r["type"].endswith("/disks"):
            continue
        p = r["properties"]
        facts = {"zones": r.get("zones"), "sku": (r.get("sku") or {}).get("name")}
        for key in (
            "enableAcceleratedNetworking", "intent", "peeringState", "connectionType", "connectionStatus", "gatewayType"
        ):  # fmt: skip
            facts[key] = p.get(key)
        facts["prefix"] = p.get("addressPrefix") or (p.get("addressPrefixes") or [None])[0]
        facts["outbound"] = (p.get("defaultOutboundAccess"), (p.get("natGateway") or {}).get("id", "")[-8:])
        source = p.get("sourceAddressPrefix") or ""
        facts["from"] = "the client" if source.startswith("203.0.113.") else source
        facts["size"] = (p.get("hardwareProfile") or {}).get("vmSize")
        facts["security"] = (p.get("securityProfile") or {}).get("securityType")
        facts["ppg"] = ((p.get("proximityPlacementGroup") or {}).get("id") or "").rsplit("/", 1)[-1]
        facts["rules"] = [
            (x["properties"]["protocol"], x["properties"]["frontendPort"], x["properties"].get("idleTimeoutInMinutes"))
            for x in p.get("loadBalancingRules", [])
        ]
        out[where.removeprefix(inside)] = facts
    return out


# failures, as the real az tells them


def once(code: str, message: str, *, status: int, match: str, times: int = 1, **more: Any) -> Fault:
    return Fault("request", match, status, code, message, times=times, **more)


GROUPS = "GET .*/resourcegroups$"
THROTTLED = "Number of requests exceeded the limit. Please try again after '1' seconds."
EXPIRED = {
    "error": "invalid_client",
    "error_description": "AADSTS7000222: The provided client secret keys are expired. Trace ID: 1 Timestamp: 2",
}
FAILURES: dict[str, tuple[Fault | None, tuple[str, ...], str, str, str]] = {
    # case: fault, command, code, kind, remedy
    "token of the resource manager expired": (
        once("ExpiredAuthenticationToken", "The access token expiry is earlier", status=401, match=GROUPS, times=9),
        ("group", "list"), "ExpiredAuthenticationToken", "login", "az login",
    ),
    "secret expired": (
        Fault("token", ".", 401, body=EXPIRED, times=9), ("group", "list"), "AADSTS7000222", "login", "az login",
    ),
    "not permitted": (
        once("AuthorizationFailed", "The client does not have authorization to perform action", status=403, match="PUT .*resourcegroups/g1$"),
        ("group", "create", "--name", "g1", "--location", "westeurope"), "AuthorizationFailed", "authorization", "role Contributor",
    ),
    "policy": (
        once("RequestDisallowedByPolicy", "Resource 'g1' was disallowed by policy", status=403, match="PUT .*resourcegroups/g1$"),
        ("group", "create", "--name", "g1", "--location", "westeurope"), "RequestDisallowedByPolicy", "policy", "exemption",
    ),
    "throttled for ever": (
        once("SubscriptionRequestsThrottled", THROTTLED, status=429, match=GROUPS, times=99, headers={"Retry-After": "0"}),
        ("group", "list"), "SubscriptionRequestsThrottled", "throttled", "wait some minutes",
    ),
    "no such group": (None, ("group", "show", "--name", "nope"), "ResourceGroupNotFound", "missing", "az resource list"),
    "no such VM": (None, ("vm", "show", "--resource-group", "nope", "--name", "x"), "ResourceGroupNotFound", "missing", "az resource list"),
    "wrong use": (None, ("group", "list", "--frobnicate"), "Usage", "usage", "correct hosts.options"),
    "argument missing": (None, ("group", "show"), "Usage", "usage", "correct hosts.options"),
    "no such subscription": (
        None, ("group", "list", "--subscription", "99999999-0000-0000-0000-000000000000"), "SubscriptionNotFound", "subscription", "az account set",
    ),
    "group in deletion": (
        once("ResourceGroupBeingDeleted", "is in deprovisioning state", status=409, match="PUT .*resourcegroups/g1$"),
        ("group", "create", "--name", "g1", "--location", "westeurope"), "ResourceGroupBeingDeleted", "conflict", "wait until it is done",
    ),
    "region closed": (
        None, ("group", "create", "--name", "g1", "--location", "marsnorth"), "LocationNotAvailableForResourceGroup", "usage", "correct",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_told_in_one_sentence_with_its_remedy(world: World, case: str) -> None:
    fault, command, code, kind, remedy = FAILURES[case]
    if fault:
        world.cloud.faults.append(fault)
    if fault and fault.at == "token":
        for cache in (world.folder / "emulator" / "az").glob("msal_token_cache*"):
            cache.unlink()
    with pytest.raises(AzError) as caught:
        _az.Az(patience_s=0)(*command)
    assert (caught.value.code, caught.value.kind) == (code, kind)
    text = str(caught.value)
    assert remedy in text
    assert "\n" not in text
    assert "Traceback" not in text


def test_nobody_logged_in(world: World, tmp_path: Path) -> None:
    logout(world.folder / "emulator" / "az")
    with pytest.raises(AzError, match="NotLoggedIn: nobody is logged in to az; run `az login`"):
        azure.up(experiment(**world.options()), number=1, state=tmp_path)
    assert not world.cloud.groups


@pytest.mark.parametrize("status", [429, 503])
def test_what_passes_is_waited_for(world: World, status: int) -> None:
    code = {429: "TooManyRequests", 503: "ServerBusy"}[status]
    world.cloud.faults.append(once(code, THROTTLED, status=status, match=GROUPS, times=2, headers={"Retry-After": "0"}))
    assert _az.Az()("group", "list") == []


def test_throttling_that_outlasts_az_is_waited_for_by_us(world: World) -> None:
    waits: list[float] = []
    world.cloud.faults.append(
        once("TooManyRequests", THROTTLED, status=429, match=GROUPS, times=10, headers={"Retry-After": "0"})
    )
    assert _az.Az(sleep=waits.append)("group", "list") == []
    assert waits
    assert all(w >= 1 for w in waits)


DEPLOYMENTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "quota, told by validate": (Fault("validate", "b$", code="QuotaExceeded", message="exceeding approved Cores quota"), {}, "QuotaExceeded: .*ask for more"),
    "size closed, told by validate": (Fault("validate", "b$", code="SkuNotAvailable", message="not available in location"), {}, "SkuNotAvailable: .*no room"),
    "no room in the zone": (Fault("resource", VM, code="ZonalAllocationFailed", message="We do not have sufficient capacity", times=9), {}, "ZonalAllocationFailed: .*no room"),
    "placement group full": (Fault("resource", f"{VM} b", code="OverconstrainedZonalAllocationRequest", message="too restrictive"), {}, "Overconstrained.*no room"),
    "policy forbids a resource": (Fault("resource", NSG, code="RequestDisallowedByPolicy", message="disallowed by policy"), {}, "RequestDisallowedByPolicy: .*exemption"),
    "no such image": (None, {"image": "Canonical:ubuntu-99:server:latest"}, "PlatformImageNotFound"),
    "provider not registered": (once("MissingSubscriptionRegistration", "not registered to use namespace 'Microsoft.Compute'", status=409, match="POST .*/validate", times=9), {}, "az provider register --wait --namespace Microsoft.Compute"),
    "a resource provider's error in quotes": (Fault("resource", NSG, code="Conflict", message='{"error": {"code": "PublicIPCountLimitReached", "message": "Cannot create more than 10"}}'), {}, "PublicIPCountLimitReached: .*ask for more"),
}  # fmt: skip


@pytest.mark.parametrize("case", DEPLOYMENTS)
def test_a_deployment_that_fails_says_why_and_leaves_nothing(
    world: World, tmp_path: Path, case: str, canned_preflight: None
) -> None:
    fault, options, said = DEPLOYMENTS[case]
    if fault:
        world.cloud.faults.append(fault)
    with pytest.raises(AzError, match=said) as caught:
        azure.up(experiment(**world.options(**options)), number=1, state=tmp_path)
    assert "\n" not in str(caught.value)
    azure.down(experiment(), state=tmp_path)
    assert not world.cloud.groups
    assert not world.cloud.resources


def test_az_that_hangs_or_dies_or_talks_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def az(script: str) -> _az.Az:
        program = tmp_path / "az"
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return _az.Az()

    with pytest.raises(AzError, match=r"did not answer within 1 s") as caught:
        az("sleep 60")("group", "list", timeout_s=1)
    assert caught.value.kind == "timeout"
    with pytest.raises(AzError, match="was ended by SIGKILL: repeat"):
        az("kill -9 $$")("group", "list")
    with pytest.raises(AzError, match=r"not JSON .'Name Location'"):
        az("echo 'Name  Location'")("group", "list")
    with pytest.raises(AzError, match="exit code 3 without a word"):
        az("exit 3")("group", "list")
    assert az("printf 'A new version is available: az upgrade\\n[1, 2]\\n'")("group", "list") == [1, 2]
    assert az("true")("group", "delete") is None
    said = "ERROR: The command failed with an unexpected error.\\nThe content for this response was already consumed"
    with pytest.raises(AzError, match="az lost the error that Azure gave"):
        az(f"printf '{said}' >&2; exit 1")("group", "list")


def test_az_is_told_apart_from_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AzureError, match=r"not installed here: run `pip install 'netperf_lib\[azure\]'`"):
        azure.preflight(experiment())


def test_the_guard_sees_who_looks_outside(world: World) -> None:
    command = ["python3", "-c", "import socket; socket.getaddrinfo('management.azure.com', 443)"]
    assert subprocess.run(command, capture_output=True).returncode
    assert "management.azure.com" in world.journal.read_text("utf-8")
    world.journal.write_text("", "utf-8")
    assert SUBSCRIPTION in json.dumps(_az.Az()("account", "show"))
