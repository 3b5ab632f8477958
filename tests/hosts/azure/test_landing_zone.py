"""Azure as enterprises have it: private, policed, budgeted; against the emulated cloud in this process."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import netperf_lib as npl
from netperf_lib import hosts, pipeline
from netperf_lib.errors import AzureError
from netperf_lib.experiment import estimate
from netperf_lib.experiment.attached import attach, attached
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure import access, prices
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure.failures import error_of
from netperf_lib.hosts.azure.state import State
from netperf_lib.hosts.azure.topology import topology
from netperf_lib.questions.lead import conclude
from netperf_lib.reporting.cover import provenance

from ...conftest import REPO
from .cloud import BASE, OTHER, SUBSCRIPTION, Answer, Cloud
from .conftest import PRICES, experiment, preflight
from .direct import DirectAz
from .emulator import Emulator
from .recordings import fault
from .test_place import CIRCUIT, NSG, VM, claims, outside

NETWORK = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks"
SUBNET = f"{NETWORK}/v/subnets/x"


def links(made: Any) -> dict[str, bool | None]:
    return {p.claim: p.holds for p in made.proofs}


# money


def test_a_locked_group_does_not_keep_the_others(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        azure.up(experiment(), number=number, state=tmp_path)
    locked = next(g for g in cloud.groups if g.endswith("d1"))
    cloud.faults.append(fault("ScopeLocked", match=f"DELETE .*{locked}$", times=9))
    with pytest.raises(AzureError, match=locked):
        azure.down(experiment(), state=tmp_path)
    assert list(cloud.groups) == [locked]
    assert list(tmp_path.rglob("id_ed25519"))  # the keys stay as long as something does
    with pytest.raises(AzureError, match=locked):
        azure.down_all(azure.leftovers())
    cloud.faults.clear()
    azure.down(experiment(), state=tmp_path)
    assert not cloud.groups


def test_taking_one_deployment_down_leaves_the_others(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    declared = experiment(deployments=2)
    first, second = (azure.up(declared, number=n, state=tmp_path) for n in (1, 2))
    with hosts.deployed(declared, number=1, state=tmp_path) as made:
        assert made == first
    cloud.settle()
    assert list(cloud.groups) == [second.deployment_id]
    assert azure.up(declared, number=2, state=tmp_path) == second
    hosts.release(declared, state=tmp_path)
    assert not cloud.groups


TRAFFIC = {("a", "b"): estimate.Sent(1100e9, 880.0, 1100e9)}


def test_the_budget_counts_transfer(az: DirectAz, tmp_path: Path) -> None:
    declared = experiment(
        "a b cross-region", budget=60, prices={**PRICES, "transfer cross-region": 0.07}
    )
    cheap, dear = Workload(measuring_s=60), Workload(measuring_s=60, traffic=TRAFFIC)
    assert not preflight(declared, workload=cheap).problems
    found = preflight(declared, workload=dear)
    assert found.cost.amount == pytest.approx(1100 * 0.07, rel=0.05)
    assert any("budget of 60" in p for p in found.problems)
    # no more than the declared bandwidth can be sent: 1 Gbit/s for 880 s
    slow = experiment(
        "a b cross-region",
        budget=60,
        prices={**PRICES, "transfer cross-region": 0.07},
        bandwidth_mbps={"Standard_D4s_v5": 1000},
    )
    assert not preflight(slow, workload=dear).problems


def test_an_unknown_price_is_allowed_by_name_only(az: DirectAz, tmp_path: Path) -> None:
    offline = {"prices_url": "https://localhost:1/"}
    workload = Workload(measuring_s=60, traffic=TRAFFIC)
    refused = preflight(experiment("a b cross-region", budget=60, **offline), workload=workload)
    assert refused.cost.unknown == ("transfer cross-region",)
    assert any("transfer cross-region" in p for p in refused.problems)
    allowed = experiment(
        "a b cross-region", budget=60, unpriced=["transfer cross-region"], **offline
    )
    found = preflight(allowed, workload=workload)
    assert not found.problems
    assert "without transfer cross-region" in str(found.cost)


def listed_costs(price_list: Emulator, pair: str, **more: Any) -> dict[str, float | None]:
    """Price of what a pair needs, by name; a terabyte is sent from its client to its server."""
    declared = experiment(pair, prices=None, prices_url=f"{price_list.base}/prices", **more)
    options = hosts.options(declared)
    client, server, *_ = pair.split()
    sent = {(client, server): estimate.Sent(1e12, 1e9, 1e12)}
    found = prices.cost(
        topology(declared, options), options, measuring_s=60, deployments=1, traffic=sent
    )
    return {item.name: item.price for item in found.items}


@pytest.mark.parametrize(
    ("pair", "options", "name", "price"),
    [
        # beside it are Spot, Low Priority and Windows
        ("a b same-zone", {}, "Standard_D4s_v5 in westeurope", 0.23),
        ("a b cross-region", {}, "Standard_D4s_v5 in northeurope", 0.214),
        # beside it is what the operations and a shared disk cost
        ("a b same-zone", {"disk": "Premium_LRS"}, "disk Premium_LRS in westeurope", 5.8072 / 730),
        ("a b same-zone", {}, "disk StandardSSD_LRS in northeurope", None),
        # the same SKU has the meters of its connections
        ("a b vpn", {}, "VpnGw1AZ in westeurope", 0.21),
        # beside it are dynamic, basic and global ones
        ("a b same-zone", {}, "public address in westeurope", 0.005),
        ("a b nat-gateway", {}, "nat gateway in westeurope", 0.045),
        # without a region: beside the general one are those of edge sites and of the government's cloud
        ("a b standard-lb", {}, "load balancer in westeurope", 0.025),
    ],
)
def test_an_hour_has_the_price_of_the_recorded_list(
    price_list: Emulator, pair: str, options: dict[str, Any], name: str, price: float | None
) -> None:
    price_list.page = 2
    assert listed_costs(price_list, pair, **options).get(name) == (price and pytest.approx(price))


@pytest.mark.parametrize(
    ("sku", "price"),
    [("ErGw1AZ", 0.42), ("Standard", 0.19), ("HighPerformance", 0.49), ("UltraPerformance", 1.87)],
)
def test_every_expressroute_gateway_has_the_price_of_its_meter(
    price_list: Emulator, sku: str, price: float
) -> None:
    # no response with these meters was found: names and prices of https://azure.microsoft.com/pricing/details/expressroute
    meters = {
        "ErGw1AZ": 0.42,
        "Standard": 0.19,
        "High Performance": 0.49,
        "Ultra High Performance": 1.87,
    }
    (row,) = [r for r in price_list.listed if r["meterName"] == "Standard Gateway"]
    of = {"serviceName": "ExpressRoute", "armRegionName": "westeurope"}
    price_list.listed = [
        row | of | {"meterName": f"{meter} Gateway", "retailPrice": each}
        for meter, each in meters.items()
    ]
    found = listed_costs(
        price_list, "a b expressroute", expressroute_circuit=CIRCUIT, expressroute_sku=sku
    )
    assert found[f"{sku} in westeurope"] == price


NEAR = {"remote_region": None}
CLOSE = {"vms": {"b": {"region": "westeurope"}}}


@pytest.mark.parametrize(
    ("path", "options", "price"),
    [
        ("ppg", {}, 0.0), ("cross-zone", {}, 0.0), ("vnet-peering", {}, 0.02),
        ("nva", {"hub": f"{NETWORK}/hub", "next_hop": "10.200.0.4"}, 0.04),
        ("standard-lb", {}, 0.005), ("cross-region", {}, 0.07), ("vpn", {}, 0.035), ("vpn", CLOSE, 0.0),
        ("public-ip", {}, 0.05), ("nat-gateway", NEAR, 0.045),
        ("expressroute", {"expressroute_circuit": CIRCUIT}, None),
    ],
)  # fmt: skip
def test_transfer_has_the_prices_of_the_list(
    price_list: Emulator, path: str, options: dict[str, Any], price: float | None
) -> None:
    found = listed_costs(price_list, f"a b {path}", **options)
    assert found[f"transfer {path}"] == (None if price is None else pytest.approx(price))


@pytest.mark.parametrize(("broken", "price"), [("", 0.025), ("3", None)])
def test_every_page_of_the_list_is_read_and_half_a_list_is_none(
    price_list: Emulator, monkeypatch: pytest.MonkeyPatch, broken: str, price: float | None
) -> None:
    answer, price_list.page = price_list.answer, 3
    monkeypatch.setattr(
        price_list,
        "answer",
        lambda *given: (
            Answer(503) if broken and given[2].get("$skip") == broken else answer(*given)
        ),
    )
    assert listed_costs(price_list, "a b standard-lb")["load balancer in westeurope"] == price


SHIPPED = {
    path.stem: path
    for path in sorted((REPO / "data" / "experiments").glob("*.yaml"))
    if load_experiment(path).hosts.source == "azure"
}


def priced(name: str, folder: Path, prices_url: str, **more: Any) -> Path:
    """A shipped experiment that asks another price list."""
    document = yaml.safe_load(SHIPPED[name].read_text("utf-8"))
    document["hosts"]["options"] |= {"prices_url": f"{prices_url}/prices", **more}
    place = folder / f"{name}.yaml"
    place.write_text(yaml.safe_dump(document), "utf-8")
    return place


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_experiment_is_planned_within_its_own_budget(
    name: str, tmp_path: Path, price_list: Emulator
) -> None:
    """By recorded prices, and its dry run too: its parts add up to the likely and the highest cost that are said."""
    preview = pipeline.plan(priced(name, tmp_path, price_list.base), cheapest=True)
    budget = preview.plan.experiment.budget
    found = re.match(r"about ([\d.]+) USD(?:, at most ([\d.]+))? for [\d.]+ h", preview.cost or "")
    assert found, preview.cost
    likely, most = float(found[1]), float(found[2] or found[1])
    assert budget is not None
    assert likely <= most <= budget
    assert "ABOVE" not in str(preview.cost)
    sums = [re.search(r": ([\d.]+)(?: to at most ([\d.]+))? USD$", part) for part in preview.parts]
    assert sum(float(m[1]) for m in sums if m) == pytest.approx(likely, abs=0.06)
    assert sum(float(m[2] or m[1]) for m in sums if m) == pytest.approx(most, abs=0.06)
    saved = [
        float(m[1]) for m in re.finditer(r"saves up to ([\d.]+) USD", "\n".join(preview.savings))
    ]
    assert saved == sorted(saved, reverse=True)
    shown = azure.dry_run(preview.plan.experiment)
    assert "az deployment group create" in shown["commands"]


def test_what_is_sent_between_regions_is_cut_first(tmp_path: Path, price_list: Emulator) -> None:
    (first, *_) = pipeline.plan(
        priced("study-placement", tmp_path, price_list.base), cheapest=True
    ).savings
    assert first.startswith("2 s instead of 5 s of iperf2 tcp on cross-region (saves up to ")
    cheap = dict(
        estimate.cheaper(load_experiment(priced("azure-placement", tmp_path, price_list.base)))
    )
    rounds = next(
        changed for words, changed in cheap.items() if "the fewest that can decide" in words
    )
    assert rounds.rounds == estimate.fewest_rounds(rounds)
    without = cheap["no single stream of iperf3 tcp on cross-region"]
    streams = {
        (t.pair.placement, t.streams) for t in schedule(without).trials if t.test.tool == "iperf3"
    }
    assert ("cross-region", 1) not in streams
    assert {("cross-region", 16), ("same-zone", 1), ("same-zone", 16)} <= streams


def test_what_is_sent_to_another_region_is_little_of_what_is_paid(
    tmp_path: Path, price_list: Emulator
) -> None:
    """No test sends more than 5 seconds there."""
    for name in SHIPPED:
        plan = pipeline.plan(priced(name, tmp_path, price_list.base)).plan
        far = [
            t.test
            for t in plan.trials
            if estimate.is_far(t.pair.placement) and estimate.sending_bps(t)
        ]
        assert all(test.duration_s + test.omit_s <= 7 for test in far), name


@pytest.mark.parametrize(
    ("region", "zone"),
    [
        ("westeurope", "1"),
        ("eastus2", "1"),
        ("uksouth", "1"),
        ("japaneast", "2"),
        ("brazilsouth", "3"),
        ("brazilus", "3"),
    ],
)
def test_transfer_is_priced_by_the_billing_zone_of_the_region(region: str, zone: str) -> None:
    assert prices.zone_of(region) == f"Zone {zone}"


def test_what_is_spent_ends_the_collection_when_it_reaches_the_budget(
    az: DirectAz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = experiment(
        "a b cross-region", budget=60, prices={**PRICES, "transfer cross-region": 0.05}
    )
    workload = Workload(measuring_s=60, traffic=TRAFFIC)
    azure.up(declared, number=1, state=tmp_path, workload=workload)
    assert hosts.budget_reached(declared, state=tmp_path, done=0.5) is None
    assert "55" in str(hosts.source("azure").spent(state=tmp_path, done=1.0))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=20)
    assert State(tmp_path).spent(later, done=0.0) == pytest.approx(20 * 0.4, rel=0.01)
    assert hosts.budget_reached(
        declared.model_copy(update={"budget": 20}), state=tmp_path, done=0.5
    )
    azure.down(declared, state=tmp_path)
    lived = json.loads((tmp_path / "azure-cost.json").read_text("utf-8"))["hours"]
    assert 0 <= lived < 0.1


def test_azure_itself_stops_vms_whose_time_is_over(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    azure.up(experiment(expires_h=3), number=1, state=tmp_path)
    schedules = "Microsoft.DevTestLab/schedules"
    assert cloud.names(schedules) == ["shutdown-computevm-a", "shutdown-computevm-b"]
    (group,) = cloud.groups.values()
    properties = cloud.get(schedules, "shutdown-computevm-a")["properties"]
    expires = dt.datetime.fromisoformat(group["tags"]["netperf-expires"])
    assert properties["dailyRecurrence"] == {"time": expires.strftime("%H%M")}
    assert properties["targetResourceId"].endswith("/virtualMachines/a")
    azure.down(experiment(), state=tmp_path)
    azure.up(experiment(shutdown=False, expires_h=100), number=1, state=tmp_path)
    assert not cloud.names(schedules)
    cloud.unregistered.add("Microsoft.DevTestLab")
    (problem,) = preflight(experiment()).problems
    assert "Microsoft.DevTestLab" in problem


def test_the_zones_are_those_of_the_subscription_that_is_asked_for(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    here, other = (az_module.locations(az, s)["westeurope"] for s in (SUBSCRIPTION, OTHER))
    assert here != other
    made = azure.up(experiment("a b cross-zone", subscription="emulated"), number=1, state=tmp_path)
    assert [(h.zone, h.zone_physical) for h in made.hosts] == [(z, here[z]) for z in ("1", "2")]


def test_the_sku_of_a_gateway_is_a_property_of_the_hosts_behind_it(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    vms = {name: {"gateway_sku": "VpnGw2AZ"} for name in ("e", "f")}
    declared = experiment(
        "a b vpn", "e f vpn", "a c same-zone", vms=vms, prices={**PRICES, "VpnGw2AZ": 0.4}
    )
    made = azure.up(declared, number=1, state=tmp_path)
    skus = {h.name: h.labels.get("gateway_sku") for h in made.hosts}
    assert skus == {"a": "VpnGw1AZ", "b": "VpnGw1AZ", "e": "VpnGw2AZ", "f": "VpnGw2AZ", "c": None}


# what is up


def test_a_pair_that_is_added_is_placed_beside_what_is_up(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    first = azure.up(experiment("a b same-zone"), number=1, state=tmp_path)
    more = experiment("a b same-zone", "a c cross-zone")
    made = azure.up(more, number=1, state=tmp_path)
    assert [h.name for h in made.hosts] == ["a", "b", "c"]
    assert made.deployment_id == first.deployment_id
    assert len(cloud.groups) == 1
    assert azure.up(more, number=1, state=tmp_path) == made
    with pytest.raises(AzureError, match="npl down"):  # b would have to move
        azure.up(experiment("a b cross-zone"), number=1, state=tmp_path)
    assert azure.up(more, number=1, state=tmp_path) == made


def test_what_cannot_be_added_leaves_what_is_up(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    azure.up(experiment("a b same-zone"), number=1, state=tmp_path)
    cloud.faults.append(fault("ZonalAllocationFailed", "resource", f"{VM} c"))
    with pytest.raises(AzureError, match="insufficient capacity"):
        azure.up(experiment("a b same-zone", "a c cross-zone"), number=1, state=tmp_path)
    assert {"a", "b"} <= set(cloud.names(VM))


def test_stopped_vms_are_not_up(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    azure.up(experiment(), number=1, state=tmp_path)
    cloud.stopped.add("b")
    with pytest.raises(AzureError, match=r"b \(VM deallocated\)"):
        azure.up(experiment(), number=1, state=tmp_path)


def test_port_22_follows_the_caller(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    made = azure.up(experiment("a b cross-region"), number=1, state=tmp_path)
    assert (
        azure.up(
            experiment("a b cross-region", allow_from=["198.51.100.9"]), number=1, state=tmp_path
        )
        == made
    )
    for name in ("nsg-home", "nsg-remote"):
        (rule,) = cloud.get(NSG, name)["properties"]["securityRules"]
        assert rule["properties"]["sourceAddressPrefixes"] == ["198.51.100.9/32"]


# private by choice


def test_rights_on_one_resource_group_suffice(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    outside(cloud)
    forbidden = f"GET {BASE}/(locations|providers/)"
    cloud.faults.append(fault("403-authorization-storage", match=forbidden, times=99))
    declared = experiment("a b same-zone", resource_group="net")
    found = preflight(declared)
    assert not found.problems
    assert any("az vm list-skus" in w and "Reader" in w for w in found.warnings), found.warnings
    made = azure.up(declared, number=1, state=tmp_path)
    assert [c for h in made.hosts for c, holds in claims(h).items() if not holds] == [
        "physical zone"
    ] * 2
    azure.down(declared, state=tmp_path)
    assert not cloud.names(VM)
    # a group of its own cannot be made with these rights
    assert any("AuthorizationFailed" in p for p in preflight(experiment("a b same-zone")).problems)


def test_an_existing_group_is_shared_and_only_what_is_ours_is_deleted(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    outside(cloud)
    before = json.dumps(cloud.resources, sort_keys=True)
    declared = experiment(
        "a b ppg", "a l standard-lb", "a r cross-region", "a w vpn", resource_group="net"
    )
    made = azure.up(declared, number=1, state=tmp_path)
    assert [h.name for h in made.hosts] == ["a", "b", "l", "r", "w"]
    assert [c for h in made.hosts for c, holds in claims(h).items() if not holds] == []
    assert all(links(made).values()), links(made)
    assert not any("sub" in c[:2] for c in az.commands)  # rights on the group are enough
    azure.up(declared, number=2, state=tmp_path)  # no name meets another
    assert {g.shared for g in azure.leftovers()} == {"net"}
    azure.down(declared, state=tmp_path, number=2)
    assert azure.up(declared, number=1, state=tmp_path) == made
    azure.down(declared, state=tmp_path)
    assert json.dumps(cloud.resources, sort_keys=True) == before
    assert set(cloud.groups) == {"net"}


def test_each_vm_may_have_a_subnet_of_its_own(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    outside(cloud)
    cloud.put(f"{NETWORK}/v/subnets/y", {"properties": {"addressPrefix": "10.1.1.0/24"}})
    vms = {"a": {"subnet": SUBNET}, "b": {"subnet": SUBNET.replace("/x", "/y")}}
    declared = experiment("a b vnet-peering", vms=vms, management="private")
    made = azure.up(declared, number=1, state=tmp_path)
    assert [h.data_address.rsplit(".", 1)[0] for h in made.hosts] == ["10.1.0", "10.1.1"]
    assert cloud.names("Microsoft.Network/virtualNetworks") == ["v"]
    assert not cloud.names("Microsoft.Network/publicIPAddresses")


def hub(cloud: Cloud) -> str:
    outside(cloud)
    space = {"addressSpace": {"addressPrefixes": ["10.2.0.0/16"]}, "subnets": []}
    cloud.put(f"{NETWORK}/hub", {"properties": space})
    return f"{NETWORK}/hub"


def test_networks_are_peered_with_the_hub_and_no_public_address_is_needed(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    where = hub(cloud)
    before = set(cloud.resources)
    declared = experiment(
        "a b nva", "a c same-zone", hub=where, hub_gateway=True, next_hop="10.2.0.4", way_out="next-hop",
        management="private", allow_from=None,
    )  # fmt: skip
    made = azure.up(declared, number=1, state=tmp_path)
    peerings = [
        r["properties"] for w, r in cloud.resources.items() if "/virtualnetworkpeerings/" in w
    ]
    assert {p["peeringState"] for p in peerings} == {"Connected"}
    assert sum(bool(p.get("useRemoteGateways")) for p in peerings) == 2
    assert sum(bool(p.get("allowGatewayTransit")) for p in peerings) == 2
    assert not cloud.names("Microsoft.Network/publicIPAddresses")
    assert not cloud.names("Microsoft.Network/natGateways")
    assert links(made)["a reaches b by VirtualAppliance"]
    assert links(made)["a reaches c by VnetLocal"]
    azure.down(declared, state=tmp_path)
    assert set(cloud.resources) == before


def test_the_way_to_private_vms_is_written_for_ssh(
    az: DirectAz, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "find_az", lambda: "az")
    private = {"management": "private", "allow_from": None}
    made = azure.up(
        experiment(jump_host="me@jump.example:2222", **private), number=1, state=tmp_path / "j"
    )
    lines = Path(made.hosts[0].ssh_config or "").read_text("utf-8").splitlines()
    assert set(lines[0].split()) == {"Host", *(h.address for h in made.hosts)}
    assert lines[1].split() == ["ProxyJump", "me@jump.example:2222"]
    bastion = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/bastionHosts/b1"
    outside(cloud)
    cloud.put(bastion, {"location": "westeurope", "properties": {"enableTunneling": True}})
    az.extensions.append("bastion")
    made = azure.up(experiment(bastion=bastion, **private), number=1, state=tmp_path / "b")
    text = Path(made.hosts[0].ssh_config or "").read_text("utf-8")
    assert f"{bastion} " in text
    own = tmp_path / "config"
    own.write_text("Host *\n", "utf-8")
    made = azure.up(experiment(ssh_config=str(own), **private), number=1, state=tmp_path / "c")
    assert made.hosts[0].ssh_config == str(own)


# before it costs


def test_a_bastion_is_looked_at_before_vms_are_paid_for(az: DirectAz, cloud: Cloud) -> None:
    outside(cloud)
    where = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/bastionHosts/b1"
    declared = experiment(management="private", bastion=where)
    missing, without = preflight(declared).problems
    assert "az extension add --name bastion" in missing
    assert "bastionHosts/b1 does not exist" in without
    az.extensions.append("bastion")
    cloud.put(where, {"location": "westeurope", "sku": {"name": "Standard"}, "properties": {}})
    (problem,) = preflight(declared).problems
    assert "bastionHosts/b1 has native client support off" in problem
    cloud.put(where, {"location": "westeurope", "properties": {"enableTunneling": True}})
    assert not preflight(declared).problems


def test_quota_counts_what_is_needed(az: DirectAz, cloud: Cloud) -> None:
    cloud.limits["westeurope", "standardFSv2Family"] = -5
    assert not preflight(experiment()).problems
    cloud.limits["westeurope", "PublicIPAddresses"] = 1
    (problem,) = preflight(experiment()).problems
    assert "2 public addresses needed, 1 free" in problem
    cloud.limits["westeurope", "PublicIPAddresses"] = -1
    assert not preflight(experiment()).problems
    cloud.limits["westeurope", "IPv4StandardSkuPublicIpAddresses"] = 1
    (problem,) = preflight(experiment()).problems
    assert (
        "quota of IPv4StandardSkuPublicIpAddresses in westeurope: 2 public addresses needed, 1 free"
        in problem
    )


def test_a_login_that_may_end_on_the_way_is_told_before(
    az: DirectAz, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_URL", raising=False)
    az.user = {"name": "app", "type": "servicePrincipal"}
    long, short = Workload(measuring_s=2 * 3600), Workload(measuring_s=60)
    (told,) = preflight(experiment(), workload=long).warnings
    assert "AZURE_FEDERATED_TOKEN_FILE" in told
    assert not preflight(experiment(), workload=short).warnings
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", "/run/token")
    assert not preflight(experiment(), workload=long).warnings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"vm_size": "Standard_D16_v3", "security_type": "Standard"},
            "does not start images of generation 2",
        ),
        ({"vm_size": "Standard_D4ps_v5"}, "does not run x64 images"),
        ({"vm_size": "Standard_D2s_v3i", "encryption_at_host": True}, "cannot encrypt at the host"),
        (
            {"image": "Canonical:0001-com-ubuntu-server-jammy:22_04-lts:latest"},
            "is of generation 1",
        ),
        ({"image": "contoso:appliance:plain:latest"}, "is a Windows image"),
        ({"image": "resf:rockylinux-x86_64:9-base:latest"}, "terms of image"),
        ({"image": "nobody:nothing:none:latest"}, "is not available in westeurope"),
        ({"resource_group": "none"}, "resource group none"),
    ],
)
def test_image_size_and_security_fit_each_other(
    az: DirectAz, cloud: Cloud, options: dict[str, Any], said: str
) -> None:
    found = preflight(experiment(prices_url="https://localhost:1/", **options))
    assert any(said in p for p in (*found.problems, *found.elsewhere)), found


def test_the_standard_security_type_is_left_out_and_a_plan_is_put_in(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    old = "Canonical:0001-com-ubuntu-server-jammy:22_04-lts:latest"
    azure.up(experiment(image=old, security_type="Standard"), number=1, state=tmp_path / "old")
    assert "securityProfile" not in cloud.get(VM, "a")["properties"]
    azure.down(experiment(), state=tmp_path / "old")
    cloud.terms.add("9-base")
    rocky = experiment(image="resf:rockylinux-x86_64:9-base:latest", encryption_at_host=False)
    azure.up(rocky, number=1, state=tmp_path)
    assert cloud.get(VM, "a")["plan"] == {
        "name": "9-base",
        "product": "rockylinux-x86_64",
        "publisher": "resf",
    }


def test_encryption_and_identity_are_passed_on(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    where = f"{BASE}/resourceGroups/k/providers/Microsoft.Compute/diskEncryptionSets/d"
    who = f"{BASE}/resourceGroups/k/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
    declared = experiment(encryption_at_host=True, disk_encryption_set=where, identity=who)
    shown = azure.dry_run(declared)
    given = {k: v["value"] for k, v in json.loads(shown["parameters.json"])["parameters"].items()}
    assert given["securityProfile"]["encryptionAtHost"] is True
    assert given["managedDisk"]["diskEncryptionSet"] == {"id": where}
    assert list(given["identity"]["userAssignedIdentities"]) == [who]
    azure.up(declared, number=1, state=tmp_path)
    vm = cloud.get(VM, "a")
    assert vm["properties"]["securityProfile"]["encryptionAtHost"]
    assert vm["properties"]["storageProfile"]["osDisk"]["managedDisk"]["diskEncryptionSet"] == {
        "id": where
    }
    assert list(vm["identity"]["userAssignedIdentities"]) == [who]


def test_a_far_region_without_zones_is_used_without(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    declared = experiment("a b cross-region", "a c cross-region", remote_region="westus",
                          vms={"c": {"region": "northeurope"}})  # fmt: skip
    made = azure.up(declared, number=1, state=tmp_path)
    assert [(h.region, h.zone) for h in made.hosts] == [
        ("westeurope", "1"), ("westus", None), ("northeurope", "1"),
    ]  # fmt: skip
    assert all(p.holds for h in made.hosts for p in h.proofs)
    assert links(made)["a reaches c by VNetGlobalPeering or VNetPeering"]


def test_a_long_name_is_no_reason_to_fail(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    declared = experiment(name="x" * 63, resource_group="net")
    outside(cloud)
    azure.up(declared, number=99, state=tmp_path)
    azure.up(experiment(name="y" * 63), number=99, state=tmp_path / "own")
    host = "h" * 40
    many = experiment(
        f"a {host} standard-lb",
        vms={host: {"backends": 11}},
        resource_group="net",
        alternative_zones=True,
    )
    cloud.faults.append(fault("ZonalAllocationFailed", "resource", f"{VM} "))
    azure.up(many, number=100, state=tmp_path / "hosts")
    ends = {"gateway_sku": "UltraPerformance"}
    vms = {
        "a": ends,
        "b": ends | {"region": "australiasoutheast"},
        "c": ends | {"region": "australiaeast"},
    }
    prefix = "npl-abcdef-d100-2-"
    far = experiment("a b expressroute", "a c expressroute", vms=vms, expressroute_circuit=CIRCUIT)
    names = [n.name for n in topology(far, hosts.options(far)).networks]
    assert max(len(f"vnet-{prefix}{n}") for n in names) <= 64, names
    assert len(set(names)) == 3
    assert all(len(w.rsplit("/", 1)[1]) <= 64 for w in cloud.deployments)
    assert all(len(r["name"]) <= 64 for r in cloud.resources.values() if r["type"] == VM)


def test_one_client_may_reach_several_public_servers(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    made = azure.up(
        experiment("c i public-ip", "c j public-ip", "d j public-ip"), number=1, state=tmp_path
    )
    rules = cloud.get(NSG, "nsg-public")["properties"]["securityRules"]
    names = [r["name"] for r in rules]
    assert sorted(names) == ["ssh-from-caller", "tests-from-c", "tests-from-d"]
    assert len({r["properties"]["priority"] for r in rules}) == 3
    assert made.host("i").data_address != made.host("j").data_address


# what the studies need


def test_expressroute_inside_a_region_by_the_sku_of_its_gateways(
    az: DirectAz, cloud: Cloud, tmp_path: Path
) -> None:
    outside(cloud)
    skus = {"one": "ErGw1AZ", "ultra": "UltraPerformance"}
    declared = experiment(
        *(f"c-{n} s-{n} expressroute" for n in skus),
        remote_region=None,
        expressroute_circuit=CIRCUIT,
        vms={f"{end}-{n}": {"gateway_sku": sku} for n, sku in skus.items() for end in "cs"},
        prices={**PRICES, "UltraPerformance": 1.0},
    )
    made = azure.up(declared, number=1, state=tmp_path)
    assert {h.region for h in made.hosts} == {"westeurope"}
    gateways = "Microsoft.Network/virtualNetworkGateways"
    sold = [cloud.get(gateways, n)["properties"]["sku"]["name"] for n in cloud.names(gateways)]
    assert sorted(sold) == ["ErGw1AZ", "ErGw1AZ", "UltraPerformance", "UltraPerformance"]
    assert links(made)["c-ultra reaches s-ultra by VirtualNetworkGateway"]


def test_two_subnets_and_a_nat_gateway(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    made = azure.up(
        experiment("a b other-subnet", "n p nat-gateway", remote_region=None),
        number=1,
        state=tmp_path,
    )
    parts = [h.data_address.split(".")[2] for h in made.hosts[:2]]
    assert parts[0] != parts[1]
    assert links(made)["a reaches b by VnetLocal"]
    nat = cloud.get("Microsoft.Network/publicIPAddresses", "ip-nat-nat")["properties"]["ipAddress"]
    rules = cloud.get(NSG, "nsg-public")["properties"]["securityRules"]
    assert nat in [r["properties"].get("sourceAddressPrefix") for r in rules]
    assert made.host("p").data_address == made.host("p").address


def test_several_servers_behind_one_frontend(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    outside(cloud)
    declared = experiment(
        "a l standard-lb",
        "a m standard-lb",
        resource_group="net",
        vms={"l": {"backends": 3}},
        prices=PRICES,
    )
    cloud.limits["westeurope", "standardDSv5Family"] = 16
    assert any("20 vCPUs needed" in p for p in preflight(declared).problems)
    del cloud.limits["westeurope", "standardDSv5Family"]
    found = preflight(declared)
    bill = {i.name: i.quantity for i in found.cost.items}
    assert bill["Standard_D4s_v5 in westeurope"] == bill["public address in westeurope"] == 5
    assert bill["load balancer in westeurope"] == 2

    made = azure.up(declared, number=1, state=tmp_path)
    assert [h.name for h in made.hosts] == ["a", "l", "l-2", "l-3", "m"]
    assert made.host("l").backends == made.host("l-3").backends == ("l", "l-2", "l-3")
    assert made.host("m").backends == made.host("a").backends == ()
    assert len({made.host(n).data_address for n in ("l", "l-2", "l-3")}) == 1
    assert len({made.host(n).own_address for n in ("l", "l-2", "l-3")}) == 3
    assert made.host("l-2").labels == {"backends": "3"}
    assert [c for h in made.hosts for c, holds in claims(h).items() if not holds] == []
    assert claims(made.host("l-3"))["behind the load balancer of l"]
    balancers = "Microsoft.Network/loadBalancers"
    assert len(cloud.names(balancers)) == 2
    for name in cloud.names(balancers):
        (rule,) = cloud.get(balancers, name)["properties"]["loadBalancingRules"]
        assert (
            rule["properties"]["loadDistribution"] == "SourceIP"
        )  # qperf and iperf3 have several connections
    assert azure.up(declared, number=1, state=tmp_path) == made
    azure.down(declared, state=tmp_path)
    assert not cloud.names(balancers)


# dry run


def test_the_dry_run_is_what_up_runs(az: DirectAz, cloud: Cloud, tmp_path: Path) -> None:
    for options in ({}, {"resource_group": "net", "hub": hub(cloud), "hub_gateway": True}):
        declared: Experiment = experiment(
            "c p ppg", "c r cross-region", "c l standard-lb", **options
        )
        shown = azure.dry_run(declared)
        az.commands.clear()
        azure.up(declared, number=1, state=tmp_path / str(len(options)))
        done = [c for c in az.commands if {"create", "update", "validate", "what-if"} & set(c[:4])]
        told = [tuple(shlex.split(line)[1:]) for line in shown["commands"].splitlines()]
        assert [shape(c) for c in told] == [shape(c) for c in done]
        given = json.loads(shown["parameters.json"])["parameters"]
        assert [v["host"] for v in given["vms"]["value"]] == ["c", "p", "r", "l"]
        assert json.loads(shown["template.json"])["resources"]
        azure.down(declared, state=tmp_path / str(len(options)))


def shape(command: tuple[str, ...]) -> list[str]:
    """Verbs and options, without the values that only a deployment has."""
    return [
        w
        for w in command
        if w.startswith("--")
        or ("/" not in w and "npl-" not in w and ".json" not in w and "=" not in w)
    ]


def test_a_topology_can_be_read_without_azure() -> None:
    declared = experiment("a b cross-region", remote_region="japaneast")
    assert topology(declared, hosts.options(declared)).regions == ("westeurope", "japaneast")


def test_a_refusal_for_want_of_a_second_factor_asks_for_a_login() -> None:
    message = "Resource was disallowed by Azure: users must use MFA for Create operations."
    assert error_of("az", {"code": "RequestDisallowedByAzure", "message": message}).kind == "login"


def test_the_last_page_of_a_report_says_what_it_did_cost(tmp_path: Path) -> None:
    """By the prices that were planned with, after everything is gone, and for each answered question."""
    folder = tmp_path / "lab"
    shutil.copytree(REPO / "data" / "recorded" / "lab-full", folder)
    runs = npl.load(folder)
    before = str(provenance(runs))
    assert "cost of the hosts" not in before
    attach(runs, declared={**attached(runs).declared, "hosts": {"source": "azure", "options": {}}})
    assert "cost of the hosts" not in str(provenance(runs)), "nothing was recorded"
    items = (
        prices.Item(name="vm", quantity=2, price=0.5),
        prices.Item(name="transfer", quantity=100, likely=40, price=0.1, hourly=False),
    )
    with State.locked(folder / "hosts") as store:
        store.priced(prices.Cost(hours=3, currency="USD", items=items))
        record = store.begin(1, 0, "lab", SUBSCRIPTION, None)
        created = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        store.note(record, made=True, tags={"netperf-created": created})
        store.gone(record)
        store.clear()
    html = provenance(runs).html
    found = re.search(
        r"about ([\d.]+) USD, by the price list; ([\d.]+) for each of (\d+) answered questions",
        html,
    )
    assert found, html
    share = len(runs) / len(json.loads((folder / "plan.json").read_text("utf-8"))["trials"])
    assert float(found[1]) == pytest.approx(2 * 2 * 0.5 + 40 * 0.1 * min(1, share), abs=0.02)
    assert float(found[2]) == pytest.approx(float(found[1]) / int(found[3]), abs=0.01)
    family, _ = conclude(runs)
    assert int(found[3]) == sum(c.verdict in ("better", "worse", "equivalent") for c in family) > 0
