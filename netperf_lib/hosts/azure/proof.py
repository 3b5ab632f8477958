"""What shows that the placement asked for took effect: what the cloud says of each VM, and what its guest shows."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import AzureError
from ...experiment.model import Host, Proof
from ..guests import guest_proofs
from . import az as az_module
from .az import Runs
from .checks import locations
from .failures import AzError
from .groups import Clock
from .template import connection_name
from .topology import Topology, Vm

__all__ = [
    "Observed",
    "Placed",
    "existing",
    "joined",
    "observe",
    "path_proofs",
    "proofs_of",
    "proven",
    "routes",
]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One VM as the cloud describes it."""

    name: str
    """Of the host: without what stands before the names of a deployment in a shared group."""
    id: str
    region: str
    zone: str | None
    size: str
    image: str | None
    ppg: str | None
    accelerated: bool | None
    private: str | None
    power: str | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A resource group as the cloud describes it."""

    vms: Mapping[str, Placed]
    colocation: Mapping[str, str]
    """Proximity placement group to its colocation status."""


def observe(az: Runs, group: str, prefix: str = "") -> Observed:
    """Read what the cloud says of the VMs in a resource group whose names begin with `prefix`."""
    interfaces = {n["id"].lower(): n for n in az("network", "nic", "list", "--resource-group", group) or ()}
    vms: dict[str, Placed] = {}
    ppgs: dict[str, None] = {}
    for vm in az("vm", "list", "--resource-group", group) or ():
        if not vm["name"].startswith(prefix):
            continue
        first = vm["networkProfile"]["networkInterfaces"][0]["id"].lower()
        nic = interfaces.get(first, {})
        address = (nic.get("ipConfigurations") or [{}])[0]
        image = (vm.get("storageProfile") or {}).get("imageReference") or {}
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id")
        if ppg:
            ppgs[ppg] = None
        name = vm["name"].removeprefix(prefix)
        vms[name] = Placed(
            name=name,
            id=vm["id"],
            region=vm["location"],
            zone=(vm.get("zones") or [None])[0],
            size=vm["hardwareProfile"]["vmSize"],
            image=":".join(str(image.get(k)) for k in ("publisher", "offer", "sku"))
            + f":{image.get('exactVersion') or image.get('version')}"
            if image.get("publisher")
            else image.get("id"),
            ppg=ppg.rsplit("/", 1)[1].removeprefix(prefix) if ppg else None,
            accelerated=nic.get("enableAcceleratedNetworking"),
            private=address.get("privateIPAddress"),
            power=vm.get("provisioningState"),
        )
    colocation = {
        # the group of an existing VM may stand in another resource group
        where.rsplit("/", 1)[1].removeprefix(prefix): _status(
            az("ppg", "show", "--include-colocation-status", "--ids", where)
        )
        for where in ppgs
    }
    return Observed(vms=vms, colocation=colocation)


def _status(ppg: Mapping[str, Any]) -> str:
    status = ppg.get("colocationStatus") or {}
    return str(status.get("code") or status.get("displayStatus") or "unknown")


def proven(
    topology: Topology | None,
    observed: Observed,
    hosts: tuple[Host, ...],
    facts: Mapping[str, Mapping[str, Any] | str],
    physical: Mapping[tuple[str, str], str],
    bandwidth_mbps: Mapping[str, float] | None = None,
    versions: Mapping[str, str] | None = None,
) -> tuple[Host, ...]:
    """Hosts with what is shown, and what is not.

    Parameters
    ----------
    topology : Topology, optional
        What was asked for; None: nothing was, and only facts are recorded.
    observed : Observed
        What the cloud says.
    hosts : tuple of Host
        The hosts; those that are no VM of `observed` get only their guests' facts.
    facts : mapping
        Host name to what `guests` read, or the text of an error.
    physical : mapping
        (region, logical zone) to physical zone.
    bandwidth_mbps : mapping, optional
        VM size to the bandwidth that is advertised for it, as declared.
    versions : mapping, optional
        Package to the version that was asked for.
    """
    return tuple(
        _host(
            topology, observed, host, facts.get(host.name, "not asked"), physical, bandwidth_mbps or {}, versions or {}
        )
        for host in hosts
    )


def _host(
    topology: Topology | None,
    observed: Observed,
    host: Host,
    guest: Mapping[str, Any] | str,
    physical: Mapping[tuple[str, str], str],
    bandwidth_mbps: Mapping[str, float],
    versions: Mapping[str, str],
) -> Host:
    vm = observed.vms.get(host.name)
    asked = topology.vm(host.name) if topology else None
    proofs: list[Proof] = []
    if vm is not None:
        zone = physical.get((vm.region, vm.zone or ""))
        host = replace(
            host,
            region=vm.region,
            zone=vm.zone,
            zone_physical=zone,
            ppg=vm.ppg,
            vm_size=vm.size,
            accelerated=vm.accelerated,
        )
        proofs += cloud_proofs(asked, vm, observed, zone, bandwidth_mbps.get(vm.size))
    elif asked is not None:
        proofs.append(Proof(claim="the VM exists", holds=False, evidence=f"the cloud does not list {host.name}"))
    if not isinstance(guest, str) and asked is not None:
        evidence = "made here and given to the VM: another one would have been refused"
        proofs.append(Proof(claim="host key", holds=True, evidence=evidence))
    wanted = asked.accelerated if asked else host.accelerated
    return replace(host, proofs=(*proofs, *guest_proofs(wanted, guest, versions)))


def cloud_proofs(asked: Vm | None, vm: Placed, observed: Observed, zone: str | None, mbps: float | None) -> list[Proof]:
    def claim(text: str, said: Any, wanted: Any, evidence: str) -> Proof:
        return Proof(claim=text, holds=None if said is None else asked is None or said == wanted, evidence=evidence)

    wanted = asked or vm
    out = [
        claim(f"region {wanted.region}", vm.region, wanted.region, f"Azure: {vm.region}"),
        claim(f"VM size {wanted.size}", vm.size, wanted.size, f"Azure: {vm.size}"),
        Proof(
            claim="advertised bandwidth",
            holds=None if mbps is None else True,
            evidence=f"{mbps:g} Mbit/s, as declared" if mbps else "not declared (hosts.options.bandwidth_mbps)",
        ),
        Proof(claim="image", holds=bool(vm.image) or None, evidence=vm.image or ""),
    ]
    if wanted.zone:
        out.insert(
            1, claim(f"zone {wanted.zone}", vm.zone, wanted.zone, f"logical {vm.zone}, physical {zone or 'unknown'}")
        )
        out.insert(
            2, Proof(claim="physical zone", holds=bool(zone) or None, evidence=zone or "not in the list of regions")
        )
    if vm.accelerated is not None:
        word = "on" if wanted.accelerated else "off"
        said = "on" if vm.accelerated else "off"
        out.append(
            claim(
                f"accelerated networking {word} on the interface", vm.accelerated, wanted.accelerated, f"Azure: {said}"
            )
        )
    if wanted.ppg:
        out.append(claim(f"member of {wanted.ppg}", vm.ppg or "", wanted.ppg, f"Azure: {vm.ppg or 'none'}"))
        status = observed.colocation.get(wanted.ppg, "unknown")
        holds = {"aligned": True, "unknown": None}.get(status.rsplit("/", 1)[-1].lower(), False)
        out.append(
            Proof(claim=f"{wanted.ppg} keeps its members together", holds=holds, evidence=f"colocation {status}")
        )
    elif asked is not None:
        out.append(claim("in no proximity placement group", vm.ppg or "", "", f"Azure: {vm.ppg or 'none'}"))
    return out


def joined(
    az: Runs, group: str, topology: Topology, prefix: str = "", *, clock: Clock, wait_s: float
) -> tuple[Proof, ...]:
    """Proofs that the networks are joined: peerings and gateway connections are connected."""
    out = []
    if topology.peerings:
        networks = {n["name"]: n for n in az("network", "vnet", "list", "--resource-group", group) or ()}
        for a, b in topology.peerings:
            found = networks.get(f"vnet-{prefix}{a}", {}).get("virtualNetworkPeerings") or []
            state = next((p.get("peeringState") for p in found if p["name"] == f"to-{prefix}{b}"), None)
            out.append(
                Proof(
                    claim=f"network {a} is peered with {b}",
                    holds=None if state is None else state == "Connected",
                    evidence=f"peering {state or 'not listed'}",
                )
            )
    end = clock.now() + wait_s
    for a, b in topology.connections:
        name = prefix + connection_name(a, b)
        while True:
            try:
                status = az("network", "vpn-connection", "show", "--resource-group", group, "--name", name).get(
                    "connectionStatus"
                )
            except AzError as failure:
                status = f"unknown ({failure.code})"
            if status == "Connected" or clock.now() > end:
                break
            clock.sleep(clock.poll_s)
        holds = {"Connected": True, "NotConnected": False, "Connecting": False}.get(str(status))
        out.append(
            Proof(
                claim=f"gateway {a} is connected with {b or 'the circuit'}",
                holds=holds,
                evidence=f"connection {status}",
            )
        )
    return tuple(out)


NEXT_HOPS = {
    "vnet-peering": ("VNetPeering",),
    "nva": ("VirtualAppliance",),
    "cross-region": ("VNetGlobalPeering", "VNetPeering"),
    "global-peering": ("VNetGlobalPeering", "VNetPeering"),
    "public-ip": ("Internet",),
    "nat-gateway": ("Internet",),
    "vpn": ("VirtualNetworkGateway",),
    "expressroute": ("VirtualNetworkGateway",),
}
"""Placement to the type of next hop that its packets take; all others stay in their virtual network."""


def routes(az: Runs, group: str, topology: Topology, hosts: tuple[Host, ...], prefix: str = "") -> tuple[Proof, ...]:
    """Proofs that the packets of each pair leave the client by the path of its placement: its effective routes."""
    data = {h.name: h.data_address for h in hosts}
    tables: dict[str, list[dict[str, Any]] | str] = {}
    out = []
    for (client, server), placement in topology.paths.items():
        if topology.network(topology.vm(client).network).subnet_id:
            continue  # in a network of others any path may be right
        if client not in tables:
            name = f"nic-{prefix}{client}"
            try:
                answer = az("network", "nic", "show-effective-route-table", "--resource-group", group, "--name", name)
                tables[client] = list((answer or {}).get("value") or ())
            except AzError as failure:
                tables[client] = failure.code
        table = tables[client]
        wanted = NEXT_HOPS.get(placement, ("VnetLocal",))
        claim = f"{client} reaches {server} by {' or '.join(wanted)}"
        if isinstance(table, str):
            out.append(Proof(claim=claim, holds=None, evidence=f"effective routes unknown ({table})"))
            continue
        prefix_, hop, via = _route(table, data[server])
        evidence = f"effective route {prefix_} by {hop}{f' {via}' if via else ''}"
        out.append(Proof(claim=claim, holds=hop in wanted if hop else None, evidence=evidence))
    return tuple(out)


def _route(table: Iterable[Mapping[str, Any]], address: str) -> tuple[str, str, str]:
    """Prefix, type and address of the next hop of the most specific active route; a user's own goes first."""
    best: tuple[tuple[int, bool], tuple[str, str, str]] = ((-1, False), ("none", "", ""))
    for route in table:
        if route.get("state") not in (None, "Active"):
            continue
        for text in route.get("addressPrefix") or ():
            network = ipaddress.ip_network(text)
            if ipaddress.ip_address(address) in network:
                rank = (network.prefixlen, route.get("source") == "User")
                hop = (text, str(route.get("nextHopType") or ""), ", ".join(route.get("nextHopIpAddress") or ()))
                best = max(best, (rank, hop))
    return best[1]


def path_proofs(topology: Topology, seen: Mapping[tuple[str, str], Mapping[str, Any] | str]) -> tuple[Proof, ...]:
    """Proofs from what `guests.paths` read: hops, MTU, and whether traffic takes the virtual function."""
    out = []
    for (client, server), facts in seen.items():
        way = f"{client} to {server}"
        if isinstance(facts, str):
            out.append(Proof(claim=f"path from {way}", holds=None, evidence=facts))
            continue
        hops, mtu, vf = facts.get("hops"), facts.get("mtu"), facts.get("vf_tx_packets")
        words = f"{hops or 'unknown number of'} hops, MTU {mtu or 'unknown'}"
        out.append(Proof(claim=f"path from {way}", holds=True if hops else None, evidence=words))
        if topology.vm(client).accelerated:
            sent = facts.get("sent")
            out.append(
                Proof(
                    claim=f"traffic from {way} takes the virtual function",
                    holds=None if vf is None or not sent else vf >= sent / 2,
                    evidence=f"vf_tx_packets +{vf} for {sent} packets sent" if vf is not None else "no such counter",
                )
            )
    return tuple(out)


def existing(group: str, *, tag: str | None = None, subscription: str | None = None) -> list[dict[str, Any]]:
    """Describe the VMs that stand in a resource group; nothing is made or changed.

    Parameters
    ----------
    group : str
        Resource group.
    tag : str, optional
        Only VMs with this tag, as ``name`` or ``name=value``.
    subscription : str, optional
        Name or id; None: the selected one.

    Returns
    -------
    list of dict
        `placed` (see `Placed`), `public` address or None, `colocation`, `zone_physical`.
    """
    az = az_module.Az(subscription)
    account = az("account", "show", *(("--subscription", subscription) if subscription else ()))
    observed = observe(az, group)
    name, _, value = (tag or "").partition("=")
    chosen = [
        vm["name"]
        for vm in az("vm", "list", "--resource-group", group) or ()
        if not tag or (name in (vm.get("tags") or {}) and (not value or vm["tags"][name] == value))
    ]
    if not chosen:
        raise AzureError(
            f"resource group {group} holds no VM{f' with tag {tag}' if tag else ''} (az vm list -g {group} -o table)"
        )
    nics = {n["id"].lower(): n for n in az("network", "nic", "list", "--resource-group", group) or ()}
    addresses = {
        a["id"].lower(): a.get("ipAddress") for a in az("network", "public-ip", "list", "--resource-group", group) or ()
    }
    public = {}
    for nic in nics.values():
        owner = ((nic.get("virtualMachine") or {}).get("id") or "").rsplit("/", 1)[-1]
        for entry in nic.get("ipConfigurations") or ():
            at = ((entry.get("publicIPAddress") or {}).get("id") or "").lower()
            if addresses.get(at):
                public[owner] = addresses[at]
    zones = {
        (place["name"], m["logicalZone"]): m["physicalZone"]
        for place in locations(az, account["id"])
        for m in place.get("availabilityZoneMappings") or ()
    }
    return [
        {
            "placed": observed.vms[n],
            "public": public.get(n),
            "colocation": observed.colocation.get(observed.vms[n].ppg or ""),
            "zone_physical": zones.get((observed.vms[n].region, observed.vms[n].zone or "")),
        }
        for n in chosen
    ]


def proofs_of(entry: dict[str, Any]) -> tuple[Proof, ...]:
    """Proofs from what `existing` says of one VM: facts, since nothing was asked for."""
    placed: Placed = entry["placed"]
    observed = Observed(vms={placed.name: placed}, colocation={placed.ppg or "": entry["colocation"] or "unknown"})
    return tuple(cloud_proofs(None, placed, observed, entry["zone_physical"], None))
