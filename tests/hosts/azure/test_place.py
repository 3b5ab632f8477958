"""Up, proven, down: against the emulated cloud in this process, on a clock of its own."""

from __future__ import annotations

import importlib
import json
import os
import re
import stat
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import pipeline
from netperf_lib.errors import AzureError, HostError
from netperf_lib.experiment.factors import factors_of
from netperf_lib.experiment.model import Host
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure.failures import AzError
from netperf_lib.hosts.azure.groups import in_words
from netperf_lib.hosts.azure.prices import Cost
from netperf_lib.hosts.azure.proof import observe
from netperf_lib.hosts.azure.state import State

from .cloud import BASE, SUBSCRIPTION, Cloud, Fault
from .conftest import PRICES, experiment, preflight
from .direct import Clock, DirectAz
from .recordings import fault

CIRCUIT = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/expressRouteCircuits/c1"
VM, NIC, NSG = (
    "Microsoft.Compute/virtualMachines",
    "Microsoft.Network/networkInterfaces",
    "Microsoft.Network/networkSecurityGroups",
)


def outside(cloud: Cloud) -> None:
    """What stands in the subscription already, and must stay as it is."""
    cloud.request("PUT", f"{BASE}/resourceGroups/net", {}, {"location": "westeurope"})
    cloud.put(CIRCUIT, {})
    network = {
        "addressSpace": {"addressPrefixes": ["10.1.0.0/16"]},
        "subnets": [{"name": "x", "properties": {"addressPrefix": "10.1.0.0/24"}}],
    }
    cloud.put(
        f"{BASE}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v",
        {"properties": network},
    )


def claims(host: Host) -> dict[str, bool | None]:
    return {p.claim: p.holds for p in host.proofs}


def test_every_placement_up_proven_and_down(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    outside(cloud)
    kept = dict(cloud.resources)
    declared = experiment(
        "c p ppg", "c z same-zone", "c x cross-zone", "d y same-zone off", "c r cross-region", "c v vnet-peering",
        "c l standard-lb", "c i public-ip", "c w vpn", "c e expressroute", expressroute_circuit=CIRCUIT,
    )  # fmt: skip
    made = azure.up(declared, number=1, state=tmp_path)

    assert [h.name for h in made.hosts] == cloud_order(declared)
    for host in made.hosts:
        assert [c for c, holds in claims(host).items() if not holds] == [], host.name
        assert host.zone_physical
        assert host.owned
    assert all(p.holds for p in made.proofs)
    claims_of_links = [p.claim for p in made.proofs]
    assert sum(" reaches " in c for c in claims_of_links) == 10
    assert sum(c.startswith("gateway of ") for c in claims_of_links) == 4
    assert "traffic from c to p takes the virtual function" in claims_of_links
    assert not any("from d to y takes" in c for c in claims_of_links)
    front = cloud.get("Microsoft.Network/loadBalancers", "lb-l")["properties"][
        "frontendIPConfigurations"
    ][0]
    assert made.host("l").data_address == front["properties"]["privateIPAddress"]
    assert made.host("i").data_address == made.host("i").address
    assert made.host("x").data_address.startswith("10.77.")
    assert not made.host("y").accelerated
    assert (made.host("c").zone, made.host("x").zone) == ("1", "2")
    assert made.host("p").ppg == made.host("c").ppg == "ppg-westeurope-1"

    azure.down(declared, state=tmp_path)
    cloud.settle()
    assert set(cloud.groups) == {"net"}
    assert cloud.resources == kept
    assert not list(tmp_path.rglob("id_*"))
    azure.down(declared, state=tmp_path)


def cloud_order(declared: Any) -> list[str]:
    return list(dict.fromkeys(n for p in declared.pairs for n in (p.client, p.server)))


def test_access_is_narrow(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    made = azure.up(experiment("c i public-ip", "c p ppg"), number=1, state=tmp_path)
    rules = [r for n in cloud.names(NSG) for r in cloud.get(NSG, n)["properties"]["securityRules"]]
    ssh = [r["properties"] for r in rules if r["properties"].get("destinationPortRange") == "22"]
    assert [r["sourceAddressPrefix"] for r in ssh] == ["192.0.2.7/32"] * 2
    subnets = [
        cloud.get("Microsoft.Network/virtualNetworks/subnets", n)["properties"]
        for n in ("hosts", "hosts2")
    ]
    assert all(s["networkSecurityGroup"] for s in subnets)  # landing zones deny subnets without
    tests = [r["properties"] for r in rules if r["properties"].get("destinationPortRange") != "22"]
    assert [r["sourceAddressPrefix"] for r in tests] == [made.host("c").address]
    identity = Path(made.hosts[0].identity or "")
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert stat.S_IMODE(identity.parent.stat().st_mode) == 0o700
    known = Path(made.hosts[0].known_hosts or "").read_text("utf-8").splitlines()
    assert [line.split()[:2] for line in known] == [[h.address, "ssh-ed25519"] for h in made.hosts]
    keys = {
        json.dumps(v["osProfile"]["linuxConfiguration"]["ssh"])
        for v in (cloud.get(VM, n)["properties"] for n in cloud.names(VM))
    }
    assert len(keys) == 1


def test_without_public_addresses_vms_still_reach_the_package_archives(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    declared = experiment(
        "c p ppg",
        "c l standard-lb",
        "c r cross-region",
        management="private",
        jump_host="me@jump",
        allow_from=None,
    )
    azure.up(declared, number=1, state=tmp_path)
    assert cloud.names("Microsoft.Network/publicIPAddresses") == ["ip-nat-home", "ip-nat-remote"]
    for name in ("vnet-home", "vnet-remote"):
        subnets = cloud.get("Microsoft.Network/virtualNetworks", name)["properties"]["subnets"]
        hosts = next(s["properties"] for s in subnets if s["name"] == "hosts")
        assert (
            hosts["defaultOutboundAccess"] is False
        )  # no hidden way out that could be mistaken for this one
        assert hosts["natGateway"]["id"].endswith(name.replace("vnet-", "/nat-"))
    (rule,) = cloud.get(NSG, "nsg-home")["properties"]["securityRules"]
    assert rule["properties"]["sourceAddressPrefix"] == "VirtualNetwork"


def test_gateways_are_zone_redundant_where_the_region_has_zones(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    declared = experiment("c w vpn", "c p ppg", region="westus", zones=[])
    azure.up(declared, number=1, state=tmp_path)
    zones = {
        name: cloud.get("Microsoft.Network/publicIPAddresses", name).get("zones", [])
        for name in ("ip-gw-vpn-home", "ip-gw-vpn-vpn")
    }
    assert zones == {"ip-gw-vpn-home": [], "ip-gw-vpn-vpn": ["1", "2", "3"]}


def test_everything_is_tagged_and_found_by_tag(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    azure.up(experiment(tags={"team": "net"}), number=1, state=tmp_path)
    tagged = [
        r
        for r in cloud.resources.values()
        if r["type"].count("/") == 1 and not r["type"].endswith("disks")
    ]
    for resource in [*tagged, *cloud.groups.values()]:
        assert {"netperf-experiment", "netperf-created", "netperf-expires", "team"} <= set(
            resource["tags"]
        ), resource["id"]
    outside(cloud)
    (found,) = azure.leftovers()
    assert found.experiment == "probe"
    assert azure.leftovers(expired=True) == []
    azure.down_all([found])
    assert set(cloud.groups) == {"net"}


def test_a_deployment_is_looked_for_in_the_subscription_where_it_was_placed(
    az: DirectAz, cloud: Cloud, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = azure.up(experiment(), number=1, state=tmp_path)
    elsewhere = Cloud(step_s=4, clock=clock.now)  # another one is selected now
    of_name = {SUBSCRIPTION: az, None: DirectAz(elsewhere)}
    monkeypatch.setattr(az_module, "Az", lambda subscription, **_: of_name[subscription])
    assert azure.up(experiment(), number=1, state=tmp_path) == first
    assert not elsewhere.requests
    with State.locked(tmp_path) as store, pytest.raises(AzureError) as refused:
        store.begin(2, 0, "probe", "another", None)
    assert str(refused.value) == (
        f"deployments of probe are in subscription {SUBSCRIPTION}, and this is another: name the first one in "
        "hosts.options.subscription, or run `npl down`"
    )


def test_up_twice_places_once(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    first = azure.up(experiment(), number=1, state=tmp_path)
    count = len(az.commands)
    assert azure.up(experiment(), number=1, state=tmp_path) == first
    assert {c[:2] for c in az.commands[count:]} == {("group", "show"), ("vm", "list")}
    other = azure.up(experiment(), number=2, state=tmp_path)
    assert other.deployment_id != first.deployment_id
    assert len(cloud.groups) == 2
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


def test_up_after_someone_deleted_the_group_places_anew(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    made = azure.up(experiment(), number=1, state=tmp_path)
    cloud.request("DELETE", f"{BASE}/resourceGroups/{made.deployment_id}")
    cloud.settle()
    assert azure.up(experiment(), number=1, state=tmp_path).hosts[0].name == "a"
    assert len(cloud.groups) == 1


def test_existing_subnets_are_used_and_left_alone(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    outside(cloud)
    before = json.dumps(cloud.resources, sort_keys=True)
    subnet = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/x"
    declared = experiment("a b ppg", "a l standard-lb", subnet=subnet, management="private")
    made = azure.up(declared, number=1, state=tmp_path)
    assert all(h.address.startswith("10.1.0.") for h in made.hosts)
    assert cloud.names("Microsoft.Network/virtualNetworks") == ["v"]
    assert not cloud.names("Microsoft.Network/publicIPAddresses")
    azure.down(declared, state=tmp_path)
    assert json.dumps(cloud.resources, sort_keys=True) == before


def test_a_claim_that_does_not_hold_is_flagged(
    az: DirectAz, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = azure.guests
    bare = {"nic": [("eth0", "hv_netvsc", "up")], "hyperv": ""}
    monkeypatch.setattr(
        azure,
        "guests",
        lambda hosts, **k: {
            **answers(hosts, **k),
            "b": answers(hosts, **k)["b"] | bare,
            "c": "no answer",
        },
    )
    cloud.scattered = True
    said: list[str] = []
    made = azure.up(
        experiment("a b ppg", "a c same-zone"), number=1, state=tmp_path, say=said.append
    )
    b, c = claims(made.host("b")), claims(made.host("c"))
    assert b["virtual function present and up in the guest"] is False
    assert b["ppg-westeurope-1 keeps its members together"] is False
    assert b["Hyper-V host"] is None
    assert c["facts of the guest"] is None
    assert any("b: NOT TRUE: virtual function" in line for line in said)


def test_what_the_guest_contradicts_is_not_measured(
    az: DirectAz, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size that nobody knew to be always accelerated: the interface says off, the guest has a virtual function."""
    monkeypatch.setattr(
        importlib.import_module("netperf_lib.hosts.azure.topology"),
        "ALWAYS_ACCELERATED",
        re.compile("none"),
    )
    declared = experiment(
        "a b same-zone off", vms={name: {"vm_size": "Standard_D4s_v5"} for name in "ab"}
    )
    made = azure.up(declared, number=1, state=tmp_path / "state")
    assert [h.accelerated for h in made.hosts] == [True, True]
    (record,) = (
        {"trial": {"accelerated": False}, "hosts": {s: asdict(made.hosts[0])}} for s in ["client"]
    )
    assert factors_of(record)["accelerated"] is False
    record["hosts"]["server"] = asdict(made.hosts[1])
    assert factors_of(record)["accelerated"] is True
    azure.down(declared, state=tmp_path / "state")
    said: list[str] = []
    file = tmp_path / "probe.yaml"
    file.write_text(json.dumps(declared.model_dump(mode="json", exclude_defaults=True)), "utf-8")
    with pytest.raises(
        HostError, match=r"nothing was measured, .* a: no virtual function .* measure --anyway"
    ):
        pipeline.collect(file, root=tmp_path / "data", say=said.append)
    assert "b: no virtual function in the guest (eth0 hv_netvsc up, enP1s1 mlx5_core up)" in said[0]
    assert not cloud.groups


def test_a_vm_that_others_made_is_described_by_its_primary_interface(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    """Two interfaces, two pools of one balancer, an image of a gallery, and an empty group that Azure calls aligned."""
    group = azure.up(
        experiment("a b ppg", "a l standard-lb"), number=1, state=tmp_path
    ).deployment_id
    vm, nic = (
        cloud.resources[cloud.get(kind, name)["id"].lower()]
        for kind, name in ((VM, "l"), (NIC, "nic-l"))
    )
    first = {"id": cloud.get(NIC, "nic-b")["id"], "properties": {"primary": False}}
    vm["properties"]["networkProfile"]["networkInterfaces"] = [
        first,
        {"id": nic["id"], "properties": {"primary": True}},
    ]
    gallery = "/SharedGalleries/g/Images/i"
    vm["properties"]["storageProfile"]["imageReference"] = {
        "sharedGalleryImageId": gallery,
        "exactVersion": "1.1.2",
    }
    address = nic["properties"]["ipConfigurations"][0]["properties"]
    address["loadBalancerBackendAddressPools"] *= 2

    def empty(*words: str) -> Any:
        return az(*words) | {"virtualMachines": []} if words[0] == "ppg" else az(*words)

    placed = observe(empty, group, {})
    assert placed["l"].private == address["privateIPAddress"]
    assert placed["l"].balancer == "l"
    assert placed["l"].image == f"{gallery}/versions/1.1.2"
    assert placed["a"].colocation == "unknown"
    assert observe(az, group, {})["a"].colocation == "ColocationStatus/Aligned"


def test_rarest_size_of_a_placement_group_goes_first(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    order: list[str] = []
    put = cloud.put
    cloud.put = lambda where, body: (order.append(where), put(where, body))[1]  # type: ignore[method-assign,func-returns-value]
    vms = {"b": {"vm_size": "Standard_F72s_v2"}, "c": {"vm_size": "Standard_D16s_v5"}}
    azure.up(
        experiment("a b ppg", "a c ppg", vms=vms, prices=None, prices_url="https://localhost:1/"),
        number=1,
        state=tmp_path,
    )
    made = [w.rsplit("/", 1)[1] for w in order if VM in w]
    assert made == ["b", "c", "a"]
    ppg = cloud.get("Microsoft.Compute/proximityPlacementGroups", "ppg-westeurope-1")
    assert ppg["properties"]["intent"]["vmSizes"] == [
        "Standard_D16s_v5",
        "Standard_D4s_v5",
        "Standard_F72s_v2",
    ]


# before any money is spent


def test_what_azure_would_make_is_told_before_and_is_what_is_made(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    declared = experiment(
        "c p ppg", "c r cross-region", "c i public-ip", "c l standard-lb", "c w vpn"
    )
    found = preflight(declared)
    assert not cloud.groups
    assert not cloud.resources
    assert found.changes is not None
    assert {c.change for c in found.changes} == {"Create"}
    assert "1 loadBalancers" in in_words(found.changes)
    assert "6 virtualMachines" in in_words(found.changes)

    azure.up(declared, number=1, state=tmp_path)
    # what belongs to a resource is told with it: subnets and the rules that stand in the template of their group
    parts = ("/disks", "/subnets", "/securityrules")
    made = {
        (r["type"].split("/", 1)[1], r["id"].split("/providers/")[1].split("/", 2)[2])
        for r in cloud.resources.values()
        if not r["type"].lower().endswith(parts)
    }
    told = {
        (c.type, c.name if "/" not in c.name else c.name.replace("/", "/virtualNetworkPeerings/"))
        for c in found.changes
        if c.type not in ("resourceGroups", "networkSecurityGroups/securityRules")
    }
    assert told == made
    order = [c[:3] for c in az.commands]
    first = order.index(("group", "create", "--name"))
    assert ("deployment", "sub", "validate") in order[:first]
    assert ("deployment", "sub", "what-if") in order[:first]


@pytest.mark.parametrize(
    ("name", "words", "remedy"),
    [
        ("quota-total-regional-cores", "QuotaExceeded: ", "ask for more at https://aka.ms/quota"),
        (
            "RequestDisallowedByPolicy",
            "RequestDisallowedByPolicy: Resource 'x' was disallowed",
            "for an exemption",
        ),
    ],
)
def test_what_azure_refuses_beforehand_leaves_no_trace(
    az: DirectAz, cloud: Cloud, tmp_path: Path, name: str, words: str, remedy: str
) -> None:
    cloud.faults.append(fault(name, "validate", "b$", 2))
    found = preflight(experiment())
    assert found.changes is None
    (problem,) = found.problems
    assert words in problem
    assert remedy in problem
    said: list[str] = []
    with pytest.raises(AzError, match=words):
        azure.up(experiment(), number=1, state=tmp_path, say=said.append)
    assert said[-1].endswith(": nothing was created")
    assert not [c for c in az.commands if "create" in c or "delete" in c]
    asked = len(az.commands)
    azure.down(experiment(), state=tmp_path)
    assert len(az.commands) == asked
    assert not list(tmp_path.rglob("id_*"))


def test_going_on_is_not_stopped_by_the_quota_that_its_own_vms_use(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    cloud.limits["westeurope", "standardDSv5Family"] = 8
    azure.up(experiment(), number=1, state=tmp_path / "whole")
    create = next(
        i for i, c in enumerate(az.commands) if c[:3] == ("deployment", "group", "create")
    )
    azure.down(experiment(), state=tmp_path / "whole")
    az.commands.clear()
    az.interrupt_at, az.interrupt_after = create, True
    with pytest.raises(KeyboardInterrupt):
        azure.up(experiment(), number=1, state=tmp_path)
    az.interrupt_at = None
    cloud.settle()
    made = azure.up(experiment(), number=1, state=tmp_path)
    assert [h.name for h in made.hosts] == ["a", "b"]
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"vm_size": "Standard_HB120rs_v3"},
            "a, b: size Standard_HB120rs_v3 is not available in zone 1 of westeurope, in no zone",
        ),
        ({"vm_size": "Standard_E4s_v5"}, "closed to this subscription in westeurope"),
        (
            {"vm_size": "Standard_F72s_v2", "zones": ["2"]},
            "not available in zone 2 of westeurope, only in zone 1",
        ),
        ({"vm_size": "Standard_D99s_v5"}, "size Standard_D99s_v5 is not offered in westeurope"),
        (
            {"vm_size": "Standard_B2s"},
            "cannot have accelerated networking; choose another, or accelerated: false",
        ),
        (
            {"vm_size": "Standard_D2s_v3i"},
            "cannot have trusted launch; choose another, or security_type: Standard",
        ),
        ({"region": "westus"}, "region westus has no zone 1"),
        ({"region": "atlantis"}, "region 'atlantis' is not open"),
        (
            {"allow_from": None, "address_url": "https://localhost:1/"},
            "give hosts.options.allow_from",
        ),
        ({"expires_h": 0.1}, "longer than hosts.options.expires_h"),
    ],
)
def test_what_can_be_known_beforehand_is_refused_beforehand(
    az: DirectAz, cloud: Cloud, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    options = {"prices_url": "https://localhost:1/", **options}
    with pytest.raises(AzureError, match="nothing was created, because") as caught:
        azure.up(experiment(**options), number=1, state=tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not cloud.groups
    assert not [c for c in az.commands if "create" in c]


def test_cost_and_budget(az: DirectAz, tmp_path: Path) -> None:
    found = preflight(experiment(deployments=4), workload=Workload(measuring_s=60))
    hours = found.cost.hours
    assert found.cost.amount == pytest.approx(2 * 0.2 * hours)
    assert hours > 4 * 0.25
    with pytest.raises(AzureError, match=r"above the budget of 0.05"):
        azure.up(experiment(budget=0.05), number=1, state=tmp_path)


def test_unknown_prices_are_unknown_and_no_budget_is_kept_by_them(
    az: DirectAz, tmp_path: Path
) -> None:
    offline = experiment(prices=None, prices_url="https://localhost:1/", budget=100)
    found = preflight(offline)
    assert found.cost.amount is None
    assert "cost unknown" in str(found.cost)
    with pytest.raises(AzureError, match="budget 100 cannot be kept: cost unknown"):
        azure.up(offline, number=1, state=tmp_path)


def test_what_is_built_upon_is_looked_at_before_a_gateway_is_made(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    outside(cloud)
    over = experiment("c e expressroute", expressroute_circuit=CIRCUIT)
    assert not preflight(over).problems
    gone = CIRCUIT.replace("c1", "c2")
    with pytest.raises(AzureError, match=r"nothing was created.*Circuits/c2 .*correct it in"):
        azure.up(
            experiment("c e expressroute", expressroute_circuit=gone), number=1, state=tmp_path
        )
    cloud.put(CIRCUIT, {"properties": {"serviceProviderProvisioningState": "NotProvisioned"}})
    (problem,) = preflight(over).problems
    assert "Circuits/c1 is NotProvisioned" in problem
    subnet = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/"
    assert not preflight(experiment(subnet=f"{subnet}x", management="private")).problems
    (problem,) = preflight(experiment(subnet=f"{subnet}y", management="private")).problems
    assert "subnets/y does not exist" in problem


def test_a_gateway_without_a_known_price_makes_the_cost_unknown(az: DirectAz, cloud: Cloud) -> None:
    prices = {name: price for name, price in PRICES.items() if name != "ErGw1AZ"}
    outside(cloud)
    offline = {
        "prices": prices,
        "prices_url": "https://localhost:1/",
        "expressroute_circuit": CIRCUIT,
    }
    found = preflight(experiment("c w vpn", "c e expressroute", **offline))
    assert found.cost.amount is None
    assert found.cost.unknown == ("ErGw1AZ in northeurope", "ErGw1AZ in westeurope")
    assert (
        "no price for ErGw1AZ in northeurope, ErGw1AZ in westeurope; give hosts.options.prices"
        in str(found.cost)
    )


# capacity


@pytest.mark.parametrize(
    "code",
    [
        "ZonalAllocationFailed",
        "AllocationFailed",
        "OverconstrainedZonalAllocationRequest",
        "SkuNotAvailable",
    ],
)
def test_capacity_is_tried_elsewhere_only_if_allowed(
    az: DirectAz, cloud: Cloud, tmp_path: Path, code: str
) -> None:
    cloud.faults.append(fault(code, "resource", f"{VM} b", 2))
    with pytest.raises(
        AzError, match=rf"{code}: [^{{}}\n]*; Azure has no capacity .*alternative_zones"
    ) as caught:
        azure.up(experiment(), number=1, state=tmp_path)
    assert caught.value.kind == "capacity"
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups

    made = azure.up(experiment("a b cross-zone", alternative_zones=True), number=1, state=tmp_path)
    assert [h.zone for h in made.hosts] == ["2", "1"]
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


def test_another_size_after_a_capacity_failure(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    cloud.full.add("standardFSv2Family")
    declared = experiment(vm_size="Standard_F72s_v2", alternative_sizes=["Standard_D2s_v5"])
    made = azure.up(declared, number=1, state=tmp_path)
    assert {h.vm_size for h in made.hosts} == {"Standard_D2s_v5"}
    assert azure.up(declared, number=1, state=tmp_path) == made
    azure.down(declared, state=tmp_path)
    assert not cloud.groups


# what stops at once


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (
            fault("quota-total-regional-cores", "validate", "b$"),
            "QuotaExceeded: .*exceeding .*; ask for more",
        ),
        (
            fault("403-authorization-storage", match="PUT .*resourcegroups/npl-[^/]*$"),
            "role Contributor",
        ),
        (
            fault("RequestDisallowedByPolicy", "resource", NIC),
            "no such sizes.*a policy or lock forbids it",
        ),
        (fault("401-expired-token", match="GET .*usages"), "run `az login`"),
        (
            fault("409-provider-devtestlab", match="POST .*validate"),
            "az provider register --wait --namespace Microsoft.DevTestLab",
        ),
        (fault("quota-total-regional-cores", "resource", VM), "ask for more"),
    ],
)
def test_what_cannot_be_helped_stops_at_once_and_leaves_nothing(
    az: DirectAz, cloud: Cloud, tmp_path: Path, failing: Fault, said: str
) -> None:
    cloud.faults.append(failing)
    declared = experiment(alternative_zones=True, alternative_sizes=["Standard_D2s_v5"])
    with pytest.raises(AzError, match=said) as caught:
        azure.up(declared, number=1, state=tmp_path)
    assert "\n" not in str(caught.value)
    assert len([c for c in az.commands if c[:2] == ("group", "create")]) <= 1
    azure.down(declared, state=tmp_path)
    cloud.settle()
    assert not cloud.groups
    assert not cloud.resources


def test_a_deployment_that_never_ends_meets_its_deadline(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    cloud.step_s = 1000
    with pytest.raises(
        AzError, match=r"not complete after 30 min .* raise hosts.options.deadline_min"
    ):
        azure.up(experiment(), number=1, state=tmp_path)
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


def test_a_deletion_that_fails_is_repeated(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    azure.up(experiment(), number=1, state=tmp_path)
    cloud.faults.append(fault("nic-in-use", "delete", times=2))
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups
    assert len([c for c in az.commands if c[:2] == ("group", "delete")]) == 3


def test_a_lock_on_the_group_is_told_and_down_can_be_repeated(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    azure.up(experiment(), number=1, state=tmp_path)
    cloud.faults.append(fault("ScopeLocked", match="DELETE"))
    with pytest.raises(AzureError, match="locked; a policy or lock forbids it"):
        azure.down(experiment(), state=tmp_path)
    assert list(tmp_path.rglob("id_ed25519"))
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


def test_a_record_without_tags_whose_group_exists_is_deleted(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    """As a person may have edited it: nothing that costs money is dropped without being deleted."""
    azure.up(experiment(), number=1, state=tmp_path)
    stored = json.loads((tmp_path / "azure.json").read_text("utf-8"))
    for record in stored["groups"]:
        assert record["made"]
        record["tags"] = {}
    (tmp_path / "azure.json").write_text(json.dumps(stored), "utf-8")
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


# interruptions


def commands_of_up(az: DirectAz, cloud: Cloud, folder: Path) -> int:
    azure.up(experiment("a b ppg", "a c cross-region"), number=1, state=folder)
    count = len(az.commands)
    azure.down(experiment("a b ppg", "a c cross-region"), state=folder)
    az.commands.clear()
    return count


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_interrupted_at_any_command_down_leaves_nothing_and_up_goes_on(
    az: DirectAz, cloud: Cloud, tmp_path: Path, after: bool
) -> None:
    declared = experiment("a b ppg", "a c cross-region")
    cloud.step_s = 0.8  # asked some times only while it is made: each is interrupted twice
    az.interrupt_after = after
    for index in range(commands_of_up(az, cloud, tmp_path / "whole")):
        state = tmp_path / f"{index}"
        az.commands.clear()
        az.interrupt_at = index
        with pytest.raises(KeyboardInterrupt):
            azure.up(declared, number=1, state=state)
        az.interrupt_at = None
        if (index + after) % 2:  # every second time: first go on, then take it down
            made = azure.up(declared, number=1, state=state)
            assert len(made.hosts) == 3
            assert len(cloud.groups) == 1
        azure.down(declared, state=state)
        cloud.settle()
        assert not cloud.groups, index
        assert not cloud.resources
        assert not list(state.rglob("id_*"))


def test_interrupted_down_is_repeated(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    for index in range(4):
        azure.up(experiment(), number=1, state=tmp_path)
        az.commands.clear()
        az.interrupt_at = index
        try:
            azure.down(experiment(), state=tmp_path)
        except KeyboardInterrupt:
            assert (tmp_path / "azure.json").exists()
        az.interrupt_at = None
        azure.down(experiment(), state=tmp_path)
        assert not cloud.groups


def test_two_at_once_are_told_apart(az: DirectAz, tmp_path: Path) -> None:
    from netperf_lib.hosts.azure.state import State

    with (
        State.locked(tmp_path),
        pytest.raises(AzureError, match=r"another process is placing or removing"),
    ):
        azure.up(experiment(), number=1, state=tmp_path)


def test_a_damaged_state_says_how_to_find_what_was_placed(az: DirectAz, tmp_path: Path) -> None:
    (tmp_path / "azure.json").write_text("{half", "utf-8")
    with pytest.raises(AzureError, match="is damaged: find what was placed with `npl down --all`"):
        azure.down(experiment(), state=tmp_path)


def test_an_interruption_leaves_the_account_of_costs_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half of it would end every later `npl up`, `collect` and `down`."""
    store = State(tmp_path)
    store.priced(Cost(hours=3, currency="USD"))

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.priced(Cost(hours=4, currency="USD"))
    assert json.loads((tmp_path / "azure-cost.json").read_text("utf-8"))["cost"]["hours"] == 3


def test_one_404_of_the_group_is_no_removal(
    az: DirectAz, cloud: Cloud, clock: Clock, tmp_path: Path
) -> None:
    azure.up(experiment(), number=1, state=tmp_path)
    cloud.faults.append(
        Fault("request", r"GET .*/resourceGroups/npl[^/]*$", 404, "ResourceGroupNotFound")
    )
    azure.down(experiment(), state=tmp_path)
    cloud.settle()
    assert not cloud.groups
    assert not cloud.names(VM)


def test_a_404_after_the_start_is_not_the_end(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    started = r"GET .*/deployments/[^/]+/operations"
    cloud.faults.append(Fault("request", started, 404, "DeploymentNotFound"))
    made = azure.up(experiment(), number=1, state=tmp_path)
    assert len(made.hosts) == 2
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups
