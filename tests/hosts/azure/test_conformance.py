"""Every recorded answer of Azure, served to the real az and read by the product: its meaning, its kind, its deed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netperf_lib.experiment.model import Host
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure import checks, groups, proof, template
from netperf_lib.hosts.azure.failures import DEEDS, KINDS, AzError, kind_of

from .cloud import BASE, SUBSCRIPTION, TENANT, Answer, Cloud
from .conftest import World, experiment, proposal
from .direct import DirectAz
from .emulator import CLIENT
from .recordings import Replay, cited, recordings
from .shapes import ASKED_FOR, RECORDED, fields, shape

pytestmark = pytest.mark.slow

ALL = recordings()
FAILURES = {name: r for name, r in ALL.items() if r.kind}
UNREAD = {
    "compute/quota-usages-2023": "quota is asked of Compute itself, whose answer needs no further provider registered",
    "policy/assignments-list": "which policies there are says nothing: validate says which of them refuses",
    "policy/states": "what stands already is not judged",
}
"""Recordings that nothing of the product asks for, and why."""
NETWORK = f"{BASE}/resourceGroups/g1/providers/Microsoft.Network"


@pytest.fixture
def replay(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    """Az is answered with recordings."""
    served = Replay(world.cloud)
    world.cloud.request("PUT", f"{BASE}/resourceGroups/g1", body={"location": "westeurope"})
    monkeypatch.setattr(world.emulator, "cloud", served)
    monkeypatch.setattr(world.emulator, "after", lambda: None)
    return served


def ask(*command: str) -> Any:
    return az_module.Az(patience_s=0)(*command)


def files(folder: Path) -> tuple[str, ...]:
    """An empty template, for a command that needs one."""
    schema = "https://schema.management.azure.com/schemas/{}#"
    levels = (
        "2019-04-01/deploymentTemplate.json",
        "2018-05-01/subscriptionDeploymentTemplate.json",
    )
    for name, level in zip(("group", "sub"), levels, strict=True):
        document = {"$schema": schema.format(level), "contentVersion": "1.0.0.0", "resources": []}
        (folder / f"{name}.json").write_text(json.dumps(document), "utf-8")
    (folder / "parameters.json").write_text(
        '{"contentVersion": "1.0.0.0", "parameters": {}}', "utf-8"
    )
    return ("--parameters", f"@{folder / 'parameters.json'}", "--template-file")


# failures

COMMANDS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    # method -> the product's commands that can meet the failure: path, command
    "GET": [
        ("/resourcegroups/g1$", ("group", "show", "--name", "g1")),
        ("/networkInterfaces$", ("network", "nic", "list", "--resource-group", "g1")),
        ("/locations$", ("rest", "--method", "get", "--url", f"{BASE}/locations?api-version=2022-12-01")),
    ],
    "PUT": [
        ("/deployments/npl$", ("deployment", "group", "create", "--resource-group", "g1", "--name", "npl", "--no-wait", "group")),
        ("/resourcegroups/g1$", ("group", "create", "--name", "g1", "--location", "westeurope")),
        ("/virtualNetworkPeerings/x$", ("network", "vnet", "peering", "create", "--name", "x", "--resource-group", "g1", "--vnet-name", "v1", "--remote-vnet", f"{NETWORK}/virtualNetworks/v2")),
    ],
    "POST": [("/validate$", ("deployment", "sub", "validate", "--location", "westeurope", "--name", "npl-westeurope", "sub"))],
    "DELETE": [("/virtualNetworks/v1$", ("resource", "delete", "--ids", f"{NETWORK}/virtualNetworks/v1", "--api-version", "2023-09-01", "--verbose"))],
}  # fmt: skip
WHERE = {
    # what the other commands lose: az prints the same words for a page of 401, 429 and 503, and not the text of a 401
    "failures/401-html": 2,
    "failures/429-plain-text": 2,
    "failures/quota-capital-keys-401": 0,
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_recorded_failure_has_its_kind_and_its_deed(
    name: str, replay: Replay, tmp_path: Path
) -> None:
    recorded = FAILURES[name]
    if recorded.status < 400:  # a long operation that failed: a deployment tells it among its own
        failed = {
            "provisioningState": "Failed",
            "statusMessage": {"status": "Failed", "error": recorded.error},
        }
        replay.rules = [
            ("GET", "/operations$", Answer(200, {"value": [{"id": "/o", "properties": failed}]}))
        ]
        operations = ask(
            "deployment", "operation", "group", "list", "--resource-group", "g1", "--name", "npl"
        )
        failure = groups._why(groups.Target(name="g1"), {}, [o["properties"] for o in operations])
    else:
        able = COMMANDS[recorded.method]
        path, command = able[WHERE.get(name, list(FAILURES).index(name) % len(able))]
        if command[0] == "deployment":
            command = (*command[:-1], *files(tmp_path), str(tmp_path / f"{command[-1]}.json"))
        replay.rules = [(recorded.method, path, recorded.answer())]
        with pytest.raises(AzError) as caught:
            ask(*command)
        failure = caught.value
    assert (failure.kind, failure.deed) == (recorded.kind, recorded.deed), str(failure)
    assert recorded.code in (None, failure.code, "Unauthorized")
    assert not set("{}<>\n") & set(str(failure)), "a sentence, and no document"


def test_every_failure_has_a_deed_and_every_deed_a_meaning() -> None:
    assert {kind.deed for kind in KINDS.values()} == set(DEEDS)
    assert len(FAILURES) >= 44


# answers


def body(name: str, **changes: Any) -> Any:
    return deepcopy(ALL[name].body) | changes if changes else deepcopy(ALL[name].body)


def some(*things: Any) -> Answer:
    return Answer(200, {"value": list(things)})


def vm(name: str) -> Callable[[Replay], Any]:
    """Fields of `Placed`: of two interfaces, the second is the primary one, and accelerated."""

    def read(replay: Replay) -> dict[str, Any]:
        machine = body(name)
        machine["resources"] = [
            {"id": r["id"]} for r in machine.get("resources", [])
        ]  # so it is listed
        nics = []
        for i, reference in enumerate(machine["properties"]["networkProfile"]["networkInterfaces"]):
            nic = body("network/nic-accelerated", id=reference["id"].upper())
            nic["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"] = (
                f"10.0.{i}.4"
            )
            nic["properties"]["enableAcceleratedNetworking"] = bool(i)
            nics.append(nic)
        replay.rules = [
            ("GET", "/virtualMachines$", some(machine)),
            ("GET", "/networkInterfaces$", some(*nics)),
            ("GET", "/publicIPAddresses$", some()),
            ("GET", "/proximityPlacementGroups/", Answer(200, body("compute/ppg-colocation"))),
        ]
        (placed,) = proof.observe(ask, "g1", {"westus": {"1": "westus-az2"}}).values()
        return {
            key: getattr(placed, key)
            for key in (
                "name",
                "region",
                "size",
                "image",
                "ppg",
                "colocation",
                "accelerated",
                "private",
            )
        }

    return read


def nic(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        listed = body(name)
        each = listed.get("value", [listed])
        machines = []
        for n, one in enumerate(each):
            machine = body("compute/vm-list")["value"][0] | {"name": f"vm{n}"}
            machine["properties"]["networkProfile"]["networkInterfaces"] = [
                {"id": one["id"].upper()}
            ]
            machines.append(machine)
        replay.rules = [
            ("GET", "/virtualMachines$", some(*machines)),
            ("GET", "/networkInterfaces$", some(*each)),
            ("GET", "/publicIPAddresses$", some(body("network/pip-standard-zones"))),
        ]
        return [
            (p.accelerated, p.private, p.balancer) for p in proof.observe(ask, "g1", {}).values()
        ]

    return read


def power(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        machine = body(name)
        replay.rules = [
            ("GET", "/virtualMachines$", some(machine)),
            ("GET", "/instanceView$", Answer(200, machine["properties"]["instanceView"])),
            ("GET", "/virtualMachines/", Answer(200, machine)),
            ("GET", "/networkInterfaces/", Answer(200, body("network/nic-accelerated"))),
            ("GET", "/networkInterfaces$", some()),
            ("GET", "/publicIPAddresses$", some()),
        ]
        return [
            v["powerState"] for v in ask("vm", "list", "--resource-group", "g1", "--show-details")
        ]

    return read


def usages(*command: str) -> Callable[[str], Callable[[Replay], Any]]:
    def of(name: str) -> Callable[[Replay], Any]:
        def read(replay: Replay) -> Any:
            replay.rules = [("GET", "/usages$", Answer(200, body(name)))]
            listed = ask(*command, "--location", "westus")
            found: Any = SimpleNamespace(problems=[])
            checks._free(
                listed,
                Counter({u["name"]["value"].lower(): 10**12 for u in listed}),
                "westus",
                "x",
                found,
            )
            return len(listed), len(found.problems)

        return read

    return of


vcpus, addresses = usages("vm", "list-usage"), usages("network", "list-usages")


def peering(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        network = body("network/vnet-list-rg")["value"][0] | {"name": "vnet-a"}
        listed = body(name)
        one = (listed["value"][0] if "value" in listed else listed) | {"name": "to-b"}
        network["properties"]["virtualNetworkPeerings"] = [one]
        replay.rules = [("GET", "/virtualNetworks$", some(network))]
        joined: Any = SimpleNamespace(peerings=[("a", "b")], connections=[], gateways=[])
        return [
            (p.holds, p.evidence)
            for p in proof.joined(ask, "g1", joined, clock=az_module.Clock(), wait_s=0)
        ]

    return read


def connection(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/connections/", Answer(200, body(name)))]
        joined: Any = SimpleNamespace(peerings=[], connections=[("a", "b")], gateways=[])
        clock = az_module.Clock(now=iter(range(9)).__next__)
        return [
            (p.holds, p.evidence) for p in proof.joined(ask, "g1", joined, clock=clock, wait_s=0)
        ]

    return read


def shown(path: str, name: str, *command: str, field: str) -> Callable[[Replay], Any]:
    """A field of what a command shows."""

    def read(replay: Replay) -> Any:
        replay.rules = [("GET", path, Answer(200, body(name)))]
        answer = ask(*command)
        for part in field.split("."):
            answer = answer[part]
        return answer

    return read


def image(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [
            ("GET", "/versions$", Answer(200, body("compute/image-versions-list"))),
            ("GET", "/versions/", Answer(200, body(name))),
        ]
        answer = ask("vm", "image", "show", "--location", "westus", "--urn", "a:b:c:latest")
        return (
            answer["hyperVGeneration"],
            answer["osDiskImage"]["operatingSystem"],
            answer.get("plan"),
        )

    return read


def locations(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/locations$", Answer(200, body(name)))]
        zones = az_module.locations(ask, SUBSCRIPTION)
        return len(zones), sum(map(bool, zones.values())), zones["westeurope"].get("1")

    return read


def skus(replay: Replay) -> Any:
    replay.rules = [("GET", "/skus$", Answer(200, body("compute/skus-2017")))]
    listed = ask(
        "vm",
        "list-skus",
        "--location",
        "westus",
        "--size",
        "Standard_D4s_v3",
        "--resource-type",
        "virtualMachines",
        "--all",
    )
    return [(s["name"], checks.vcpus(s), checks.zones_of(s, "westus")) for s in listed]


def routes(replay: Replay) -> Any:
    where = f"{BASE}/providers/Microsoft.Network/locations/eastus/operationResults/1?api-version=2017-10-01"
    polled = Answer(202, None, {"Location": where, "retry-after-ms": "20"})
    polled.headers["Location"] = f"{replay.base}{where}"
    replay.rules = [
        ("POST", "/effectiveRouteTable$", polled),
        ("GET", "/operationResults/1$", Answer(200, body("network/effective-routes-2022"))),
    ]
    network: Any = SimpleNamespace(
        paths={("a", "b"): "same-zone"},
        vm=lambda name: SimpleNamespace(network="n"),
        network=lambda name: SimpleNamespace(subnet_id=""),
    )
    hosts = (
        Host(name="a", address="a", data_address="10.0.0.4"),
        Host(name="b", address="b", data_address="10.0.0.5"),
    )
    return [(p.holds, p.evidence) for p in proof.routes(ask, "g1", network, hosts)]


def what_if(name: str, level: str) -> Callable[[Replay], Any]:
    def read(replay: Replay, folder: Path) -> Any:
        where = f"{replay.base}{BASE}/operationresults/1?api-version=2022-09-01"
        replay.rules = [
            ("POST", "/validate$", Answer(200, {"properties": {"provisioningState": "Succeeded"}})),
            ("POST", "/whatIf$", Answer(202, None, {"Location": where, "retry-after-ms": "20"})),
            ("GET", "/operationresults/1$", Answer(200, body(name))),
        ]
        files(folder)
        target = groups.Target(name="g1", shared="g1" if level == "group" else "")
        changes, _ = groups.rehearse(
            ask, target, "westeurope", folder / f"{level}.json", folder / "parameters.json"
        )
        return [(c.change, c.type) for c in changes]

    return read  # type: ignore[return-value]


def deployment(replay: Replay) -> Any:
    replay.rules = [
        ("GET", "/deployments/npl$", Answer(200, body("resource/deployment-succeeded")))
    ]
    answer = ask("deployment", "group", "show", "--resource-group", "g1", "--name", "npl")[
        "properties"
    ]
    return (
        answer["provisioningState"],
        sorted(answer["outputs"]),
        [e["type"] for e in answer["outputs"].values()],
    )


def operations(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/operations$", Answer(200, body(name)))]
        listed = ask(
            "deployment", "operation", "group", "list", "--resource-group", "g1", "--name", "npl"
        )
        kinds = [(o["properties"].get("targetResource") or {}).get("resourceType") for o in listed]
        return [k and k.rpartition("/")[2] for k in kinds]

    return read


def group_state(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/resourcegroups/g1$", Answer(200, body(name)))]
        return groups.state_of(ask, groups.Target(name="g1"))

    return read


def tagged(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/resources$", Answer(200, body(name)))]
        return [r["name"] for r in ask("resource", "list", "--tag", "netperf-experiment")]

    return read


def terms(name: str) -> Callable[[Replay], Any]:
    command = ("vm", "image", "terms", "show", "--publisher", "a", "--offer", "b", "--plan", "c")
    return shown("/agreements/current$", name, *command, field="accepted")


def provider(name: str) -> Callable[[Replay], Any]:
    return shown(
        "/providers/X$", name, "provider", "show", "--namespace", "X", field="registrationState"
    )


def addresses_of(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "/publicIPAddresses$", some(body(name)))]
        listed = ask("network", "public-ip", "list", "--resource-group", "g1")
        return [(p["name"], p.get("ipAddress")) for p in listed]

    return read


def account(name: str) -> Callable[[Replay], Any]:
    """A login lists the subscriptions, as the accounts that the product reads."""

    def read(replay: Replay) -> Any:
        replay.rules = [("GET", "^/subscriptions$", Answer(200, body(name)))]
        who = ("--username", CLIENT, "--password", "x", "--tenant", TENANT)
        listed = ask("login", "--service-principal", *who)
        return len(listed), {a["state"] for a in listed}, {a["user"]["type"] for a in listed}

    return read


def locks(name: str) -> Callable[[Replay], Any]:
    def read(replay: Replay) -> Any:
        listed = body(name)
        replay.rules = [
            ("GET", "/Microsoft.Authorization/locks$", some(*listed.get("value", [listed])))
        ]
        findings = proposal(experiment())
        checks._locks(ask, findings)
        return [p.partition(":")[0] for p in findings.problems]

    return read


def bastion(replay: Replay) -> Any:
    return shown(
        "/bastionHosts/b$",
        "network/bastion",
        "rest",
        "--method",
        "get",
        "--url",
        f"{NETWORK}/bastionHosts/b?api-version=2023-09-01",
        field="properties.enableTunneling",
    )(replay)


PLAIN = {
    "region": "westus",
    "size": "Standard_DS1_v2",
    "ppg": None,
    "colocation": "unknown",
    "accelerated": False,
    "private": "10.0.0.4",
}
ANSWERS: dict[str, tuple[Any, Any]] = {
    # recording: (how the product reads it, what it must read)
    "account/locations-2022-extended": (locations("account/locations-2022-extended"), (13, 9, "westeurope-az3")),
    "account/locations-2019": (locations("account/locations-2019"), (17, 0, None)),
    "account/subscriptions-2019": (account("account/subscriptions-2019"), (1, {"Enabled"}, {"servicePrincipal"})),
    "account/subscriptions-2016": (account("account/subscriptions-2016"), (12, {"Enabled", "Disabled"}, {"servicePrincipal"})),
    "policy/lock-readonly": (locks("policy/lock-readonly"), ["lock cli-test-lock000001 (ReadOnly)"]),
    "policy/locks-list": (locks("policy/locks-list"), ["lock cli-test-lock000001 (ReadOnly)"]),
    "compute/skus-2017": (skus, [("Standard_D4s_v3", 4, set())]),
    "compute/usages-2024": (vcpus("compute/usages-2024"), (165, 165)),
    "network/usages-2023": (addresses("network/usages-2023"), (46, 46)),
    "network/usages-older": (addresses("network/usages-older"), (42, 42)),
    "compute/vm-ppg-2024": (vm("compute/vm-ppg-2024"), PLAIN | {"name": "vm1", "image": "Debian:debian-10:10:0.20240430.1733", "ppg": "ppg1"}),
    "compute/vm-two-nics": (vm("compute/vm-two-nics"), PLAIN | {"name": "multinicvm1", "size": "Standard_DS3", "image": "Canonical:UbuntuServer:18.04-LTS:latest", "accelerated": True, "private": "10.0.1.4"}),
    "compute/vm-image-community": (vm("compute/vm-image-community"), PLAIN | {"name": "vm_sg000003", "region": "eastus2", "image": "/CommunityGalleries/pubname-7e677663-3593-4d4c-be98-291dcea50185/Images/image000006/Versions/1.1.2"}),
    "compute/vm-image-shared": (vm("compute/vm-image-shared"), PLAIN | {"name": "vm_sgv000004", "image": "/SharedGalleries/0b1f6471-1bf0-4dda-aec3-cb9272f09590-GELLERYUHD26LYJ7/Images/image000008/Versions/1.1.2"}),
    "compute/vm-windows": (vm("compute/vm-windows"), PLAIN | {"name": "vm1", "image": "MicrosoftWindowsServer:WindowsServer:2012-Datacenter:3.127.20190214"}),
    "compute/vm-failed": (vm("compute/vm-failed"), PLAIN | {"name": "vm-000003", "image": None}),
    "compute/vm-list": (nic("network/nic-accelerated"), [(True, "10.0.0.4", "")]),
    "compute/vm-instance-deallocated": (power("compute/vm-instance-deallocated"), ["VM deallocated"]),
    "compute/vm-instance-stopped": (power("compute/vm-instance-stopped"), ["VM stopped"]),
    "compute/image-version-v2": (image("compute/image-version-v2"), ("V2", "Windows", None)),
    "compute/image-version-v1": (image("compute/image-version-v1"), ("V1", "Linux", None)),
    "compute/image-versions-list": (image("compute/image-version-v1"), ("V1", "Linux", None)),
    "compute/ppg-colocation": (vm("compute/vm-ppg-2024"), PLAIN | {"name": "vm1", "image": "Debian:debian-10:10:0.20240430.1733", "ppg": "ppg1"}),
    "network/nic-list-subscription": (nic("network/nic-list-subscription"), [(None, "10.0.0.5", ""), (None, "10.0.0.4", ""), (True, "10.3.0.4", ""), (False, "10.1.0.5", ""), (False, "10.5.0.5", ""), (False, "10.6.0.4", "")]),
    "network/nic-accelerated": (nic("network/nic-accelerated"), [(True, "10.0.0.4", "")]),
    "network/nic-many-ipconfigs": (nic("network/nic-many-ipconfigs"), [(None, "10.0.0.4", "")]),
    "network/nic-ipv6": (nic("network/nic-ipv6"), [(None, "10.0.0.4", "")]),
    "network/pip-dynamic-unassigned": (addresses_of("network/pip-dynamic-unassigned"), [("pubip1", None)]),
    "network/pip-standard-zones": (addresses_of("network/pip-standard-zones"), [("pubip1", "4.149.225.195")]),
    "network/vnet-list-rg": (peering("network/peering-initiated"), [(False, "peering Initiated")]),
    "network/peering-initiated": (peering("network/peering-initiated"), [(False, "peering Initiated")]),
    "network/peering-localnotinsync": (peering("network/peering-localnotinsync"), [(False, "peering Initiated")]),
    "network/peering-list": (peering("network/peering-list"), [(True, "peering Connected")]),
    "network/connection-2022": (connection("network/connection-2022"), [(None, "connection Unknown")]),
    "network/connection-connected": (connection("network/connection-connected"), [(False, "connection NotConnected")]),
    "network/bastion": (bastion, True),
    "network/effective-routes-2022": (routes, [(True, "effective route 10.0.0.0/16 by VnetLocal")]),
    "network/effective-routes-202": (routes, [(True, "effective route 10.0.0.0/16 by VnetLocal")]),
    "resource/group-show": (group_state("resource/group-show"), "Succeeded"),
    "resource/group-deleting": (group_state("resource/group-deleting"), "Deleting"),
    "resource/deployment-succeeded": (deployment, ("Succeeded", ["storageAccountId"], ["String"])),
    "resource/deployment-operations": (operations("resource/deployment-operations"), ["networkSecurityGroups", None]),
    "resource/deployment-operations-crossrg": (operations("resource/deployment-operations-crossrg"), ["storageAccounts", "deployments", None]),
    "resource/what-if-group": (what_if("resource/what-if-group", "group"), [("Modify", "storageAccounts")]),
    "resource/what-if-sub": (what_if("resource/what-if-sub", "sub"), [("Modify", "policyDefinitions")]),
    "resource/resources-by-tag": (tagged("resource/resources-by-tag"), ["vnet-000002"]),
    "resource/resources-by-name": (tagged("resource/resources-by-name"), ["mytestvnet"]),
    "resource/provider-registered": (provider("resource/provider-registered"), "Registered"),
    "resource/provider-notregistered": (provider("resource/provider-notregistered"), "NotRegistered"),
    "policy/terms-not-accepted": (terms("policy/terms-not-accepted"), False),
    "policy/terms-accepted": (terms("policy/terms-accepted"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_recorded_answer_is_read_as_what_it_says(
    name: str, replay: Replay, world: World, tmp_path: Path
) -> None:
    read, meaning = ANSWERS[name]
    replay.base = world.emulator.base
    assert (read(replay, tmp_path) if "what-if" in name else read(replay)) == meaning


def test_an_edge_site_is_no_region_and_a_vm_there_is_not_in_one(replay: Replay) -> None:
    replay.rules = [("GET", "/locations$", Answer(200, body("account/locations-2022-extended")))]
    known = az_module.locations(ask, SUBSCRIPTION)
    assert "eastus2" in known
    assert "attatlanta1" not in known, "an edge site of eastus2"
    findings = proposal(experiment(region="losangeles"))
    checks._zones(ask, findings)
    assert "region 'losangeles' is not open to this subscription" in findings.problems[0]
    machine = body("compute/vm-ppg-2024")
    machine["resources"], machine["extendedLocation"] = (
        [],
        {"name": "losangeles", "type": "EdgeZone"},
    )
    replay.rules = [
        ("GET", "/virtualMachines$", some(machine)),
        ("GET", "/proximityPlacementGroups/", Answer(200, body("compute/ppg-colocation"))),
    ]
    assert [p.region for p in proof.observe(ask, "g1", known).values()] == ["losangeles"]
    sizes = body("compute/skus-2017")
    size = next(
        s for s in sizes["value"] if s["name"] == "Standard_D4s_v3" and "westus" in s["locations"]
    )
    size |= {"locationInfo": [{"location": "westus", "zones": ["1"]}], "restrictions": []}
    edge = deepcopy(size) | {
        "locationInfo": [
            {
                "location": "westus",
                "zones": [],
                "type": "EdgeZone",
                "extendedLocations": ["losangeles"],
            }
        ]
    }
    replay.rules = [("GET", "/skus$", some(edge, size))]
    findings = proposal(
        experiment(
            region="westus", zones=["1"], vm_size="Standard_D4s_v3", security_type="Standard"
        )
    )
    checks._sizes(ask, findings)
    assert not [p for p in findings.elsewhere if "zone" in p], "the region's own entry counts"


CRASHES = {
    # an answer that az does not expect, and what comes of the Python traceback that az prints then
    "no list": ("/networkInterfaces$", {"value": 5}, "Crashed", "keep"),
    "no document": ("/networkInterfaces$", [1, 2], "Crashed", "keep"),
}


@pytest.mark.parametrize("case", CRASHES)
def test_az_that_crashes_over_an_answer_is_told_in_a_sentence(case: str, replay: Replay) -> None:
    path, answer, code, deed = CRASHES[case]
    replay.rules = [("GET", path, Answer(200, answer))]
    with pytest.raises(AzError) as caught:
        ask("network", "nic", "list", "--resource-group", "g1")
    assert (caught.value.code, caught.value.deed) == (code, deed), str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


# the emulator


@pytest.fixture
def emulated(az: DirectAz, cloud: Cloud, tmp_path: Path) -> Cloud:
    """A cloud with a resource of every type that was recorded."""
    azure.up(
        experiment("c p ppg", "c l standard-lb", "c v vnet-peering", "c w vpn", "g n nat-gateway"),
        number=1,
        state=tmp_path,
    )
    return cloud


NEWER = {
    # asked for or answered by versions of the API after the recordings, or by resources of another configuration
    "microsoft.network/loadbalancers": {
        ".properties.frontendipconfigurations.properties.privateipaddress"
    },
    "microsoft.network/publicipaddresses": {
        ".properties.ipconfiguration",
        ".properties.ipconfiguration.id",
    },
}


def test_the_emulator_shows_resources_as_azure_does(emulated: Cloud) -> None:
    """Each has what every recorded one has, and nothing that is neither recorded nor asked for by the template."""
    own = {
        *map(str.lower, ASKED_FOR),
        "virtualnetworkpeerings",
    }  # peerings are compared as a type of their own
    asked = {word.lower() for word in re.findall(r"\w+", template.template_text())}
    for kind, names in RECORDED.items():
        bodies = [ALL[name].body for name in names]
        known = {f for b in bodies for r in b.get("value", [b]) for f in fields(r)} | NEWER.get(
            kind, set()
        )
        shown = [
            set(fields(emulated.show(r)))
            for r in emulated.resources.values()
            if r["type"].lower() == kind
        ]
        assert shown, kind
        lacking = set(fields(shape(kind))) - set.intersection(*shown)
        assert {f for f in lacking if not own & set(f.split("."))} == set(), kind
        invented = set.union(*shown) - known
        assert {
            f for f in invented if f.rpartition(".")[2] not in asked and not own & set(f.split("."))
        } == set(), kind


LISTS = {
    # what is asked: recordings of the answer; what only newer versions of the API or other resources say
    "/locations": (["account/locations-2022-extended"], set()),
    "/providers/Microsoft.Compute/skus": (["compute/skus-2017"], {".family", ".locationinfo", ".restrictions.restrictioninfo"}),
    "/providers/Microsoft.Compute/locations/westeurope/usages": (["compute/usages-2024"], set()),
    "/providers/Microsoft.Network/locations/westeurope/usages": (["network/usages-2023", "network/usages-older"], set()),
    "/providers/Microsoft.Compute": (["resource/provider-registered", "resource/provider-notregistered"], {".resourcetypes.zonemappings"}),
    "/providers/Microsoft.Compute/locations/westeurope/publishers/canonical/artifacttypes/vmimage/offers/ubuntu-24_04-lts/skus/server/versions/1": (
        ["compute/image-version-v2", "compute/image-version-v1"], set(),
    ),
    "/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/a/offers/b/plans/c/agreements/current": (
        ["policy/terms-accepted", "policy/terms-not-accepted"], set(),
    ),
    "/resourceGroups/{group}": (["resource/group-show", "resource/group-deleting"], {".tags"}),
    "/resourceGroups/{group}/resources": (["resource/resources-by-tag", "resource/resources-by-name"], set()),
    "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/npl": (["resource/deployment-succeeded"], set()),
    "/resourceGroups/{group}/deployments/npl/operations": (
        ["resource/deployment-operations", "resource/deployment-operations-crossrg"], set(),
    ),
}  # fmt: skip
OURS = {".tags", ".properties.outputs", ".properties.parameters", ".properties.outputresources"}
"""What the template or the experiment names."""


@pytest.mark.parametrize("path", LISTS)
def test_the_emulator_invents_no_field_of_an_answer(path: str, emulated: Cloud) -> None:
    names, newer = LISTS[path]
    group = next(iter(emulated.groups.values()))["name"]
    answer = emulated.request("GET", BASE + path.format(group=group)).body

    def shown(document: Any) -> set[str]:
        each = document.get("value", [document]) if isinstance(document, dict) else document
        return {f for one in each for f in fields(one)}

    known = set.union(*(shown(ALL[name].body) for name in names))
    allowed = OURS | newer
    invented = {
        f
        for f in shown(answer) - known
        if not any(f == a or f.startswith(f"{a}.") for a in allowed)
    }
    assert not invented


def test_the_emulator_answers_long_operations_as_azure_does(
    emulated: Cloud, az: DirectAz, tmp_path: Path
) -> None:
    group = next(iter(emulated.groups.values()))["name"]
    where = f"{BASE}/resourceGroups/{group}/providers"
    body = {"properties": {"mode": "Incremental", "template": {"resources": []}}}
    emulated.put(
        f"{where}/Microsoft.Network/networkSecurityGroups/nsg-x", {"location": "westeurope"}
    )
    answers = {
        "resource/deployment-put-201": emulated.request(
            "PUT", f"{where}/Microsoft.Resources/deployments/other", body=body
        ),
        "network/effective-routes-202": emulated.request(
            "POST", f"{where}/Microsoft.Network/networkInterfaces/nic-c/effectiveRouteTable"
        ),
        "network/vnet-delete-202": emulated.request(
            "DELETE", f"{where}/Microsoft.Network/networkSecurityGroups/nsg-x"
        ),
        "resource/group-head-204": emulated.request("HEAD", f"{BASE}/resourceGroups/{group}"),
        "resource/group-head-404": emulated.request("HEAD", f"{BASE}/resourceGroups/none"),
    }
    polled = emulated.request(
        "GET",
        answers["resource/deployment-put-201"].headers["Azure-AsyncOperation"].partition("?")[0],
    )
    assert ALL["resource/deployment-status-running"].body == {"status": "Running"}
    assert polled.body["status"] in ("Accepted", "Running", "Succeeded")
    answers["resource/group-delete-poll"] = emulated.request(
        "DELETE", f"{BASE}/resourceGroups/{group}"
    )
    for name, answer in answers.items():
        recorded = ALL[name]
        signs = {"location", "azure-asyncoperation"}
        assert (answer.status, signs & {h.lower() for h in answer.headers}) == (
            recorded.status,
            signs & set(recorded.headers),
        ), name
        if isinstance(recorded.body, dict):
            assert set(fields(answer.body)) >= {
                f for f in fields(recorded.body) if f.count(".") == 1
            }


def test_every_recording_is_used() -> None:
    elsewhere = {name for names in RECORDED.values() for name in names} | {
        # compared with the emulator's answers above
        "network/vnet-delete-202", "resource/group-head-204", "resource/group-head-404", "resource/group-delete-poll",
        "resource/deployment-put-201", "resource/deployment-status-running",
    }  # fmt: skip
    unread = set(ALL) - set(FAILURES) - set(ANSWERS) - elsewhere
    assert unread == set(UNREAD)
    assert {r.licence for r in ALL.values()} == {"MIT"}
    assert len(ALL) - len(unread) >= 100


def test_what_fails_in_the_emulated_cloud_is_recorded_or_cited() -> None:
    """No test makes a failure up: each names a recording, or a code with the page that has it."""
    for file in Path(__file__).parent.glob("test_*.py"):
        made_up = re.findall(r"Fault\((?!\"token\")\s*\"[^)]*", file.read_text("utf-8"))
        assert not made_up, f"{file.name}: {made_up}"
    assert all(
        kind_of(name.partition(",")[0], sentence) != "other"
        for name, (_, sentence) in cited().items()
    )
