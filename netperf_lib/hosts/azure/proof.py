"""Proofs that the requested placement took effect: what the cloud reports of each VM, and what its guest shows."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import AzureError
from ...experiment.model import Host, Proof
from ...experiment.placements import PLACED
from ..guests import accelerated, guest_proofs
from . import az as az_module
from .az import Clock, Runs, Zones, locations
from .failures import AzError
from .options import Options
from .template import connection_name
from .topology import Topology, Vm


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One VM as the cloud describes it."""

    name: str
    """Name of the host, without the prefix of a deployment in a shared group."""
    id: str
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


def observe(az: Runs, group: str, zones: Zones, prefix: str = "") -> dict[str, Placed]:
    """Read the cloud's description of the VMs in a resource group whose names begin with `prefix`, by host name.

    `zones` is what `locations` returned.
    """
    listed = {
        what: {
            n["id"].lower(): n for n in az("network", what, "list", "--resource-group", group) or ()
        }
        for what in ("nic", "public-ip")
    }
    colocation: dict[str, str] = {}
    vms: dict[str, Placed] = {}
    for vm in az("vm", "list", "--resource-group", group) or ():
        if not vm["name"].startswith(prefix):
            continue
        nic = listed["nic"].get(
            _primary(vm["networkProfile"]["networkInterfaces"])["id"].lower(), {}
        )
        address = _primary(nic.get("ipConfigurations") or [{}])
        public = ((address.get("publicIPAddress") or {}).get("id") or "").lower()
        pools = [
            p["id"].split("/")[8] for p in address.get("loadBalancerBackendAddressPools") or ()
        ]
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id")
        if ppg and ppg not in colocation:  # it may be in another resource group
            colocation[ppg] = _colocation(
                az("ppg", "show", "--include-colocation-status", "--ids", ppg)
            )
        name, zone = vm["name"].removeprefix(prefix), (vm.get("zones") or [None])[0]
        edge_site = (vm.get("extendedLocation") or {}).get("name")  # which is elsewhere
        vms[name] = Placed(
            name=name,
            id=vm["id"],
            region=edge_site or vm["location"],
            zone=zone,
            zone_physical=zones.get(vm["location"], {}).get(zone or ""),
            size=vm["hardwareProfile"]["vmSize"],
            image=_image((vm.get("storageProfile") or {}).get("imageReference") or {}),
            ppg=ppg.rsplit("/", 1)[1].removeprefix(prefix) if ppg else None,
            colocation=colocation.get(ppg or "", "unknown"),
            accelerated=nic.get("enableAcceleratedNetworking"),
            balancer=", ".join(dict.fromkeys(pool.removeprefix(f"lb-{prefix}") for pool in pools)),
            private=address.get("privateIPAddress"),
            public=listed["public-ip"].get(public, {}).get("ipAddress"),
            tags=vm.get("tags") or {},
        )
    return vms


def _image(reference: Mapping[str, Any]) -> str | None:
    """The image of a VM as publisher:offer:sku:version, or the resource id of one that is not of the marketplace."""
    version = reference.get("exactVersion") or reference.get("version")
    if reference.get("publisher"):
        return ":".join(
            str(part) for part in (*map(reference.get, ("publisher", "offer", "sku")), version)
        )
    ids = ("id", "sharedGalleryImageId", "communityGalleryImageId")
    stored = next(filter(None, map(reference.get, ids)), None)
    return (
        f"{stored}/versions/{version}"
        if stored and version and "/versions/" not in stored.lower()
        else stored
    )


def _colocation(group: Mapping[str, Any]) -> str:
    """Colocation status of a proximity placement group; an empty one says that it is aligned, of nothing."""
    status = group.get("colocationStatus") or {} if group.get("virtualMachines") else {}
    return str(status.get("code") or status.get("displayStatus") or "unknown")


def _primary(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the primary one of several interfaces or addresses, or the first."""
    return next(
        (p for p in parts if p.get("primary") or (p.get("properties") or {}).get("primary")),
        parts[0],
    )


def proven(
    topology: Topology,
    options: Options,
    placed: Mapping[str, Placed],
    hosts: tuple[Host, ...],
    facts: Mapping[str, Mapping[str, Any] | str],
) -> tuple[Host, ...]:
    """Hosts with proofs, holding or not, from the cloud (`placed`) and the guests (`facts`, or an error)."""
    out = []
    for host in hosts:
        requested, vm, guest = topology.vm(host.name), placed.get(host.name), facts[host.name]
        if vm is None:
            proofs = [Proof("the VM exists", False, f"the cloud does not list {host.name}")]
        else:
            # what the interface asks for is not what the guest gets: newer sizes are accelerated whatever it says
            host = replace(host, **facts_of(vm) | {"accelerated": accelerated(guest)})
            proofs = cloud_proofs(requested, vm, options.bandwidth_mbps.get(vm.size))
        if not isinstance(guest, str):
            proofs.append(
                Proof(
                    "host key",
                    True,
                    "made here and given to the VM: another one would have been refused",
                )
            )
        behind_gateways = {
            name for pair, path in topology.paths.items() if PLACED[path].gateway for name in pair
        }
        skus = {
            g.sku
            for g in topology.gateways
            if g.network == requested.network and host.name in behind_gateways
        }
        labels = {"gateway_sku": ", ".join(sorted(skus))} if skus else {}
        labels |= {"backends": str(len(host.backends))} if host.backends else {}
        proofs += guest_proofs(requested.accelerated, guest, options.pinned())
        out.append(replace(host, labels=labels, proofs=tuple(proofs)))
    return tuple(out)


def facts_of(vm: Placed) -> dict[str, Any]:
    """Fields of the `Host` of a VM."""
    fields = {
        name: getattr(vm, name)
        for name in ("region", "zone", "zone_physical", "ppg", "accelerated")
    }
    return fields | {"vm_size": vm.size}


def cloud_proofs(requested: Vm | None, vm: Placed, mbps: float | None = None) -> list[Proof]:
    """Proofs from the cloud's description; without `requested`, facts only, since nothing was requested."""

    def claim(text: str, actual: Any, target: Any, evidence: str) -> Proof:
        return Proof(
            text,
            None if actual is None else requested is None or actual == target,
            evidence,
            factor=True,
        )

    target = requested or vm
    out = [claim(f"region {target.region}", vm.region, target.region, f"Azure: {vm.region}")]
    if target.zone:
        evidence = f"logical {vm.zone}, physical {vm.zone_physical or 'unknown'}"
        out.append(claim(f"zone {target.zone}", vm.zone, target.zone, evidence))
        physical = vm.zone_physical or "not in the list of regions"
        out.append(Proof("physical zone", bool(vm.zone_physical) or None, physical))
    out.append(claim(f"VM size {target.size}", vm.size, target.size, f"Azure: {vm.size}"))
    declared = (
        f"{mbps:g} Mbit/s, as declared" if mbps else "not declared (hosts.options.bandwidth_mbps)"
    )
    out.append(Proof("advertised bandwidth", None if mbps is None else True, declared))
    out.append(Proof("image", bool(vm.image) or None, vm.image or ""))
    if vm.accelerated is not None:
        requested_word, actual_word = (
            "on" if state else "off" for state in (target.accelerated, vm.accelerated)
        )
        text = f"accelerated networking {requested_word} on the interface"
        out.append(claim(text, vm.accelerated, target.accelerated, f"Azure: {actual_word}"))
    if target.balancer:
        text = f"behind the load balancer of {target.balancer}"
        out.append(claim(text, vm.balancer, target.balancer, f"Azure: {vm.balancer or 'none'}"))
    if target.ppg:
        out.append(
            claim(f"member of {target.ppg}", vm.ppg or "", target.ppg, f"Azure: {vm.ppg or 'none'}")
        )
        holds = {"aligned": True, "unknown": None}.get(
            vm.colocation.rsplit("/", 1)[-1].lower(), False
        )
        out.append(
            Proof(
                f"{target.ppg} keeps its members together",
                holds,
                f"colocation {vm.colocation}",
                factor=True,
            )
        )
    elif requested is not None:
        out.append(
            claim("in no proximity placement group", vm.ppg or "", "", f"Azure: {vm.ppg or 'none'}")
        )
    return out


def joined(
    az: Runs, group: str, topology: Topology, prefix: str = "", *, clock: Clock, wait_s: float
) -> tuple[Proof, ...]:
    """Proofs that the networks are joined: peerings and gateway connections are connected, gateways have their SKU."""
    out = []
    if topology.peerings:
        networks = {
            n["name"]: n for n in az("network", "vnet", "list", "--resource-group", group) or ()
        }
        for a, b in topology.peerings:
            listed = networks.get(f"vnet-{prefix}{a}", {}).get("virtualNetworkPeerings") or []
            state = next(
                (p.get("peeringState") for p in listed if p["name"] == f"to-{prefix}{b}"), None
            )
            holds = None if state is None else state == "Connected"
            out.append(
                Proof(
                    f"network {a} is peered with {b}",
                    holds,
                    f"peering {state or 'not listed'}",
                    factor=True,
                )
            )
    end = clock.now() + wait_s
    for a, b in topology.connections:
        name = prefix + connection_name(a, b)
        while True:
            try:
                connection = az(
                    "network", "vpn-connection", "show", "--resource-group", group, "--name", name
                )
                status = str(connection.get("connectionStatus"))
            except AzError as failure:
                status = f"unknown ({failure.code})"
            if status == "Connected" or clock.now() > end:
                break
            clock.sleep(clock.poll_s)
        holds = {"Connected": True, "NotConnected": False, "Connecting": False}.get(status)
        text = f"gateway {a} is connected with {b or 'the circuit'}"
        out.append(Proof(text, holds, f"connection {status}", factor=True))
    out += [
        Proof(f"gateway of {g.network} ({g.kind})", True, f"SKU {g.sku}") for g in topology.gateways
    ]
    return tuple(out)


def routes(
    az: Runs, group: str, topology: Topology, hosts: tuple[Host, ...], prefix: str = ""
) -> tuple[Proof, ...]:
    """Proofs from effective routes that the packets of each pair leave the client by the path of its placement."""
    data = {h.name: h.data_address for h in hosts}
    tables: dict[str, list[dict[str, Any]] | str] = {}
    out = []
    for (client, server), placement in topology.paths.items():
        if topology.network(topology.vm(client).network).subnet_id:
            continue  # in an existing network any path may be right
        if client not in tables:
            name = f"nic-{prefix}{client}"
            try:
                answer = az(
                    "network",
                    "nic",
                    "show-effective-route-table",
                    "--resource-group",
                    group,
                    "--name",
                    name,
                )
                tables[client] = list((answer or {}).get("value") or ())
            except AzError as failure:
                tables[client] = failure.code
        table = tables[client]
        hops = PLACED[placement].next_hops
        claim = f"{client} reaches {server} by {' or '.join(hops)}"
        if isinstance(table, str):
            out.append(Proof(claim, None, f"effective routes unknown ({table})"))
            continue
        block, hop, via = _route(table, data[server])
        evidence = f"effective route {block} by {hop}{f' {via}' if via else ''}"
        out.append(Proof(claim, hop in hops if hop else None, evidence, factor=True))
    return tuple(out)


def _route(table: Iterable[Mapping[str, Any]], address: str) -> tuple[str, str, str]:
    """Prefix, type and address of the next hop of the most specific active route; user routes take precedence."""
    best: tuple[tuple[int, bool], tuple[str, str, str]] = ((-1, False), ("none", "", ""))
    for route in table:
        if route.get("state") not in (None, "Active"):
            continue
        for text in route.get("addressPrefix") or ():
            network = ipaddress.ip_network(text)
            if ipaddress.ip_address(address) in network:
                rank = (network.prefixlen, route.get("source") == "User")
                hop = (
                    text,
                    str(route.get("nextHopType") or ""),
                    ", ".join(route.get("nextHopIpAddress") or ()),
                )
                best = max(best, (rank, hop))
    return best[1]


def path_proofs(
    topology: Topology, seen: Mapping[tuple[str, str], Mapping[str, Any] | str]
) -> tuple[Proof, ...]:
    """Proofs from what `guests.paths` read: hops, MTU, and whether traffic takes the virtual function."""
    out = []
    for (client, server), facts in seen.items():
        way = f"{client} to {server}"
        if isinstance(facts, str):
            out.append(Proof(f"path from {way}", None, facts))
            continue
        hops, mtu, vf, sent = map(facts.get, ("hops", "mtu", "vf_tx_packets", "sent"))
        words = f"{hops or 'unknown number of'} hops, MTU {mtu or 'unknown'}"
        out.append(Proof(f"path from {way}", True if hops else None, words))
        if topology.vm(client).accelerated:
            share = None if vf is None or not sent else vf / sent
            holds = None if share is None or 0.1 <= share < 0.5 else share >= 0.5
            words = (
                f"vf_tx_packets +{vf} for {sent} packets sent"
                if vf is not None
                else "no such counter"
            )
            out.append(
                Proof(f"traffic from {way} takes the virtual function", holds, words, factor=True)
            )
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
        raise AzureError(
            f"resource group {group} contains no VM{f' with tag {tag}' if tag else ''} (az vm list -g {group} -o table)"
        )
    return chosen
