"""Proofs that the placement took effect: what the cloud reports of VMs, and what guests show."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Any

from ...errors import AzureError
from ...experiment.model import Host, Proof
from ...experiment.placements import PLACED
from ..guests import VF_DRIVERS, accelerated, guest_proofs
from . import az as az_module
from .az import Clock, Runs, Zones, find, locations
from .failures import AzError
from .options import Options
from .template import connection_name
from .topology import Topology, Vm

CONNECTED_S = 300
"""Connections of gateways may take so long to come up."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One VM as the cloud describes it."""

    name: str
    region: str
    zone: str | None
    zone_physical: str | None = None
    size: str
    image: str | None
    ppg: str | None
    colocation: str = "unknown"
    """Colocation status of its proximity placement group."""
    accelerated: bool | None
    balancer: str
    """Load balancer that it is behind, or ""."""
    private: str | None
    public: str | None
    tags: Mapping[str, str]


def observe(az: Runs, group: str, zones: Zones) -> dict[str, Placed]:
    """Return the cloud's description of the VMs in a resource group, by name.

    `zones` is what `locations` returned.
    """

    def listed(*kind: str) -> list[dict[str, Any]]:
        return find(az, *kind, "list", "--resource-group", group) or []

    nics = {n["id"].lower(): n for n in listed("network", "nic")}
    addresses = {a["id"].lower(): a for a in listed("network", "public-ip")}
    colocation: dict[str, str] = {}
    vms: dict[str, Placed] = {}
    for vm in listed("vm"):
        reference = _primary(vm["networkProfile"]["networkInterfaces"])
        nic = nics.get(reference["id"].lower(), {})
        address = _primary(nic.get("ipConfigurations") or [{}])
        public = ((address.get("publicIPAddress") or {}).get("id") or "").lower()
        pools = address.get("loadBalancerBackendAddressPools") or ()
        balancers = {p["id"].split("/")[8] for p in pools}
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id")
        if ppg and ppg not in colocation:  # it may be in another resource group
            shown = find(az, "ppg", "show", "--include-colocation-status", "--ids", ppg)
            colocation[ppg] = _colocation(shown or {})
        zone = (vm.get("zones") or [None])[0]
        edge_site = (vm.get("extendedLocation") or {}).get("name")  # which is elsewhere
        vms[vm["name"]] = Placed(
            name=vm["name"],
            region=edge_site or vm["location"],
            zone=zone,
            zone_physical=zones.get(vm["location"], {}).get(zone or ""),
            size=vm["hardwareProfile"]["vmSize"],
            image=_image((vm.get("storageProfile") or {}).get("imageReference") or {}),
            ppg=ppg.rsplit("/", 1)[1] if ppg else None,
            colocation=colocation.get(ppg or "", "unknown"),
            accelerated=nic.get("enableAcceleratedNetworking"),
            balancer=", ".join(balancers),
            private=address.get("privateIPAddress"),
            public=addresses.get(public, {}).get("ipAddress"),
            tags=vm.get("tags") or {},
        )
    return vms


def _image(reference: Mapping[str, Any]) -> str | None:
    """The image of a VM as publisher:offer:sku:version, or the id of one of a gallery."""
    version = reference.get("exactVersion") or reference.get("version")
    named = [reference.get(part) for part in ("publisher", "offer", "sku")]
    ids = [reference.get(f"{kind}Id") for kind in ("sharedGalleryImage", "communityGalleryImage")]
    parts = named if named[0] else [reference.get("id"), *ids]
    return ":".join(str(part) for part in (*parts, version) if part) or None


def _colocation(group: Mapping[str, Any]) -> str:
    """Colocation status; an empty group says that it is aligned, of nothing."""
    status = group.get("colocationStatus") or {} if group.get("virtualMachines") else {}
    return str(status.get("code") or status.get("displayStatus") or "unknown")


def _primary(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The primary one of several interfaces or addresses, or the first."""

    def primary(part: dict[str, Any]) -> bool:
        return bool(part.get("primary") or (part.get("properties") or {}).get("primary"))

    return next(filter(primary, parts), parts[0])


def patient(
    look: Callable[[], Any],
    proofs: Callable[[Any], Iterable[Proof]],
    *,
    clock: Clock,
    wait_s: float,
) -> Any:
    """Return what `look` returns once it proves all, or the last it returns within `wait_s`.

    Azure may show for a while what was there before.
    """
    end = clock.now() + wait_s
    while True:
        seen = look()
        if clock.now() >= end or all(p.holds for p in proofs(seen) if p.factor):
            return seen
        clock.sleep(clock.poll_s)


def placed_proofs(
    topology: Topology, options: Options, placed: Mapping[str, Placed]
) -> list[Proof]:
    """Return the cloud's proofs of all VMs."""
    return [p for vm in topology.vms for p in _vm_proofs(vm, options, placed.get(vm.name))]


def _vm_proofs(vm: Vm, options: Options, placed: Placed | None) -> list[Proof]:
    if placed is None:
        return [Proof("the VM exists", False, f"the cloud does not list {vm.name}", factor=True)]
    return cloud_proofs(vm, placed, options.bandwidth_mbps.get(placed.size))


def proven(
    topology: Topology,
    options: Options,
    placed: Mapping[str, Placed],
    hosts: tuple[Host, ...],
    facts: Mapping[str, Mapping[str, Any] | str],
) -> tuple[Host, ...]:
    """Return the hosts with proofs, holding or not, from the cloud and the guests' `facts`."""
    ended = {n for ends, path in topology.paths.items() if PLACED[path].gateway for n in ends}
    out = []
    for host in hosts:
        vm, seen, guest = topology.vm(host.name), placed.get(host.name), facts[host.name]
        proofs = _vm_proofs(vm, options, seen)
        if seen:
            # newer sizes are accelerated whatever the interface asks for
            host = replace(host, **facts_of(seen) | {"accelerated": accelerated(guest)})
        if not isinstance(guest, str):
            words = "made here and given to the VM: another one would have been refused"
            proofs.append(Proof("host key", True, words))
        skus = {g.sku for g in topology.gateways if g.network == vm.network and vm.name in ended}
        labels = {"gateway_sku": ", ".join(sorted(skus))} if skus else {}
        proofs += guest_proofs(vm.accelerated, guest)
        out.append(replace(host, labels=labels, proofs=tuple(proofs)))
    return tuple(out)


def one_hardware(facts: Mapping[str, Mapping[str, Any] | str]) -> tuple[Proof, ...]:
    """Return whether all guests have the same network card: the same size lands on several."""
    cards: dict[str, list[str]] = {}
    for name, guest in facts.items():
        for _, driver, _ in () if isinstance(guest, str) else guest["nic"]:
            if driver in VF_DRIVERS:
                cards.setdefault(VF_DRIVERS[driver], []).append(name)
    if not cards:
        return ()
    words = "; ".join(f"{card}: {', '.join(names)}" for card, names in cards.items())
    return (Proof("all accelerated hosts have the same network card", len(cards) == 1, words),)


def facts_of(vm: Placed) -> dict[str, Any]:
    """Return the fields of the `Host` of a VM."""
    names = ("region", "zone", "zone_physical", "ppg", "accelerated")
    return {name: getattr(vm, name) for name in names} | {"vm_size": vm.size}


def cloud_proofs(requested: Vm | None, vm: Placed, mbps: float | None = None) -> list[Proof]:
    """Return proofs from the cloud's description; without `requested`, facts only."""
    target = requested or vm
    group = f"member of {target.ppg}" if target.ppg else "in no proximity placement group"
    rows: list[tuple[str, Any, Any]] = [
        (f"region {target.region}", vm.region, target.region),
        (f"VM size {target.size}", vm.size, target.size),
        (group, vm.ppg or "", target.ppg or ""),
    ]
    if target.zone:
        rows.append((f"zone {target.zone}", vm.zone, target.zone))
    if vm.accelerated is not None:
        text = f"accelerated networking {'on' if target.accelerated else 'off'} on the interface"
        rows.append((text, vm.accelerated, target.accelerated))
    if requested and requested.balanced:
        rows.append(("behind its load balancer", vm.balancer, f"lb-{vm.name}"))
    out = [
        Proof(text, None if actual is None else actual == wanted, f"Azure: {actual}", factor=True)
        for text, actual, wanted in rows
    ]
    if target.ppg:
        status = vm.colocation.rsplit("/", 1)[-1].lower()
        holds = {"aligned": True, "unknown": None}.get(status, False)
        text = f"{target.ppg} keeps its members together"
        out.append(Proof(text, holds, f"colocation {vm.colocation}", factor=True))
    facts = {
        "physical zone": vm.zone_physical if target.zone else "none",
        "advertised bandwidth": f"{mbps:g} Mbit/s, as declared" if mbps else "",
        "image": vm.image,
    }
    unknown = "not known"
    return out + [Proof(k, True if v else None, v or unknown) for k, v in facts.items()]


def joined(az: Runs, group: str, topology: Topology, *, clock: Clock) -> tuple[Proof, ...]:
    """Return proofs that peerings and connections of gateways are connected."""
    look = lambda: (*_peered(az, group, topology), *_connected(az, group, topology))  # noqa: E731
    wait_s = CONNECTED_S if topology.connections else clock.lag_s
    proofs: tuple[Proof, ...] = patient(look, tuple, clock=clock, wait_s=wait_s)
    skus = [
        Proof(f"gateway of {g.network} ({g.kind})", True, f"SKU {g.sku}") for g in topology.gateways
    ]
    return (*proofs, *skus)


def _peered(az: Runs, group: str, topology: Topology) -> Iterable[Proof]:
    if not topology.peerings:
        return
    listed = find(az, "network", "vnet", "list", "--resource-group", group) or ()
    states = {
        (n["name"], p["name"]): p.get("peeringState")
        for n in listed
        for p in n.get("virtualNetworkPeerings") or ()
    }
    for a, b in topology.peerings:
        state = states.get((f"vnet-{a}", f"to-{b}"))
        holds = None if state is None else state == "Connected"
        evidence = f"peering {state or 'not listed'}"
        yield Proof(f"network {a} is peered with {b}", holds, evidence, factor=True)


def _connected(az: Runs, group: str, topology: Topology) -> Iterable[Proof]:
    for a, b in topology.connections:
        named = ("--resource-group", group, "--name", connection_name(a, b))
        try:
            status = str(az("network", "vpn-connection", "show", *named).get("connectionStatus"))
        except AzError as failure:
            status = f"unknown ({failure.code})"
        holds = {"Connected": True, "NotConnected": False, "Connecting": False}.get(status)
        text = f"gateway {a} is connected with {b or 'the circuit'}"
        yield Proof(text, holds, f"connection {status}", factor=True)


def routes(az: Runs, group: str, topology: Topology, hosts: tuple[Host, ...]) -> tuple[Proof, ...]:
    """Return proofs from effective routes that packets leave each client by their path."""
    data = {h.name: h.data_address for h in hosts}
    tables: dict[str, list[dict[str, Any]] | str] = {}
    out = []
    for (client, server), placement in topology.paths.items():
        if topology.network(topology.vm(client).network).subnet_id:
            continue  # in an existing network any path may be right
        if client not in tables:
            tables[client] = _table(az, group, client)
        table, hops = tables[client], PLACED[placement].next_hops
        claim = f"{client} reaches {server} by {' or '.join(hops)}"
        if isinstance(table, str):
            out.append(Proof(claim, None, f"effective routes unknown ({table})"))
            continue
        block, hop = _route(table, data[server])
        evidence = f"effective route {block} by {hop}"
        out.append(Proof(claim, hop in hops if hop else None, evidence, factor=True))
    return tuple(out)


def _table(az: Runs, group: str, client: str) -> list[dict[str, Any]] | str:
    command = ("network", "nic", "show-effective-route-table")
    try:
        answer = az(*command, "--resource-group", group, "--name", f"nic-{client}")
    except AzError as failure:
        return failure.code
    return list((answer or {}).get("value") or ())


def _route(table: Iterable[Mapping[str, Any]], address: str) -> tuple[str, str]:
    """Prefix and type of next hop of the most specific active route."""
    found = [
        (ip_network(text), str(route.get("nextHopType") or ""))
        for route in table
        for text in route.get("addressPrefix") or ()
        if route.get("state") in (None, "Active") and ip_address(address) in ip_network(text)
    ]
    network, hop = max(found, key=lambda f: f[0].prefixlen, default=("none", ""))
    return str(network), hop


def path_proofs(
    topology: Topology, seen: Mapping[tuple[str, str], Mapping[str, Any] | str]
) -> tuple[Proof, ...]:
    """Return proofs from what `guests.paths` read: hops, MTU, use of the virtual function."""
    out = []
    for (client, server), facts in seen.items():
        way = f"{client} to {server}"
        if isinstance(facts, str):
            out.append(Proof(f"path from {way}", None, facts))
            continue
        hops, mtu, vf, sent = map(facts.get, ("hops", "mtu", "vf_tx_packets", "sent"))
        words = f"{hops or 'unknown number of'} hops, MTU {mtu or 'unknown'}"
        out.append(Proof(f"path from {way}", True if hops else None, words))
        if not topology.vm(client).accelerated:
            continue
        share = None if vf is None or not sent else vf / sent
        holds = None if share is None or 0.1 <= share < 0.5 else share >= 0.5
        words = "no such counter"
        if vf is not None:
            words = f"vf_tx_packets +{vf} for {sent} packets sent"
        text = f"traffic from {way} takes the virtual function"
        out.append(Proof(text, holds, words, factor=True))
    return tuple(out)


def existing(
    group: str, *, tag: str | None = None, subscription: str | None = None
) -> list[Placed]:
    """Describe the existing VMs in a resource group; nothing is created or changed.

    With `tag`, ``name`` or ``name=value``, only those that carry it.
    """
    az = az_module.Az(subscription)
    account = az("account", "show", *(("--subscription", subscription) if subscription else ()))
    name, _, value = (tag or "").partition("=")
    chosen = [
        vm
        for vm in observe(az, group, locations(az, account["id"])).values()
        if not tag or (name in vm.tags and value in ("", vm.tags[name]))
    ]
    if not chosen:
        tagged = f" with tag {tag}" if tag else ""
        raise AzureError(
            f"resource group {group} contains no VM{tagged} "
            f"(az vm list -g {shlex.quote(group)} -o table)"
        )
    return chosen
