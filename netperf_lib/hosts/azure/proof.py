"""Proofs that the placement took effect: what the cloud reports of VMs, and what guests show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...experiment.deployment import Host, Proof
from ..guests import accelerated, guest_proofs
from . import az as az_module
from .az import Runs, Zones, find
from .groups import clock_s, pause
from .topology import Topology, Vm

CONNECTED_S = 300
"""Connections of gateways may take so long to come up."""
CLAIMS = {
    "region": "region",
    "vm_size": "VM size",
    "zone": "zone",
    "ppg": "proximity placement group",
    "accelerated": "accelerated networking of the interface",
}
"""Field of a VM to what is claimed of it."""
Guests = Mapping[str, Mapping[str, Any] | str]
"""Host to its facts, or to the reason why there are none."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One VM as the cloud describes it."""

    name: str
    region: str
    zone: str | None
    zone_physical: str | None
    vm_size: str
    ppg: str | None
    colocation: str
    """Colocation status of its proximity placement group."""
    accelerated: bool | None
    power: str = ""
    """As Azure shows it, for example ``VM running``."""

    @property
    def stopped(self) -> bool:
        """Whether it is known not to run."""
        return bool(self.power) and self.power not in ("VM running", "VM starting")


def observe(az: Runs, group: str, zones: Zones) -> dict[str, Placed]:
    """Return the cloud's description of the VMs in a resource group, by name.

    `zones` is what `locations` returned.
    """

    def listed(*kind: str, details: bool = False) -> list[dict[str, Any]]:
        more = ("--show-details",) if details else ()
        return find(az, *kind, "list", "--resource-group", group, *more) or []

    nics = {nic["id"].lower(): nic for nic in listed("network", "nic")}
    vms: dict[str, Placed] = {}
    for vm in listed("vm", details=True):
        interfaces = vm["networkProfile"]["networkInterfaces"]
        first = max(interfaces, key=lambda interface: bool(interface.get("primary")))
        nic = nics.get(first["id"].lower(), {})
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id") or ""
        zone = (vm.get("zones") or [None])[0]
        vms[vm["name"]] = Placed(
            name=vm["name"],
            region=vm["location"],
            zone=zone,
            zone_physical=zones.get(vm["location"], {}).get(zone or ""),
            vm_size=vm["hardwareProfile"]["vmSize"],
            ppg=ppg.rsplit("/", 1)[-1] or None,
            colocation=_colocation(az, ppg) if ppg else "",
            accelerated=nic.get("enableAcceleratedNetworking"),
            power=vm.get("powerState") or "",
        )
    return vms


def _colocation(az: Runs, ppg: str) -> str:
    """Colocation status of a group; an empty one says that it is aligned, of nothing."""
    shown = find(az, "ppg", "show", "--include-colocation-status", "--ids", ppg) or {}
    status = (shown.get("virtualMachines") and shown.get("colocationStatus")) or {}
    return str(status.get("displayStatus") or "unknown")


def cloud(
    az: Runs, group: str, topology: Topology, zones: Zones
) -> tuple[dict[str, Placed], list[Proof]]:
    """Return what the cloud says of VMs, and proofs of the connections of gateways.

    Azure may show for a while what was there before, so it is asked until all is proven, for a
    time.
    """
    end = clock_s() + (CONNECTED_S if topology.connections else az_module.CLOCK.lag_s)
    while True:
        placed = observe(az, group, zones)
        links = list(_links(az, group, topology))
        proofs = [*links]
        for vm in topology.vms:
            proofs += _vm_proofs(vm, placed)
        if clock_s() >= end or all(proof.holds for proof in proofs):
            return placed, links
        pause()


def _vm_proofs(vm: Vm, placed: Mapping[str, Placed]) -> list[Proof]:
    seen = placed.get(vm.name)
    if seen is None:
        return [
            Proof(
                "the VM exists", False, f"the cloud does not list {vm.name}", factor=True
            )
        ]
    return cloud_proofs(vm, seen)


def proven(
    topology: Topology,
    placed: Mapping[str, Placed],
    hosts: tuple[Host, ...],
    facts: Guests,
) -> tuple[Host, ...]:
    """Return the hosts with proofs, holding or not, from the cloud and the guests' `facts`."""
    out = []
    for host in hosts:
        vm, guest = topology.vm(host.name), facts[host.name]
        proofs = _vm_proofs(vm, placed)
        if vm.name in placed:
            # newer sizes are accelerated whatever the interface asks for
            names = ("region", "zone", "zone_physical", "ppg", "vm_size")
            known = {name: getattr(placed[vm.name], name) for name in names}
            host = replace(host, **known, accelerated=accelerated(guest))
        proofs += guest_proofs(vm.accelerated, guest)
        out.append(replace(host, proofs=tuple(proofs)))
    return tuple(out)


def cloud_proofs(wanted: Vm, vm: Placed) -> list[Proof]:
    """Return proofs from the cloud's description."""
    out = []
    for field, label in CLAIMS.items():
        actual, level = getattr(vm, field), getattr(wanted, field)
        words = {True: "on", False: "off", None: "none", "": "none"}.get(level, level)
        holds = (actual or None) == (level or None)
        out.append(Proof(f"{label} {words}", holds, f"Azure: {actual}", factor=True))
    if wanted.ppg:
        together = {"aligned": True, "unknown": None}.get(vm.colocation.lower(), False)
        text = f"{wanted.ppg} keeps its members together"
        out.append(Proof(text, together, f"colocation {vm.colocation}", factor=True))
    return out


def _links(az: Runs, group: str, topology: Topology) -> Iterable[Proof]:
    """Proofs of the connections of gateways; other ways are proven by the guests' paths."""
    within = ("--resource-group", group)
    sku = {g["name"]: g["sku"] for g in topology.gateways}
    for c in topology.connections:
        shown = (
            find(az, "network", "vpn-connection", "show", *within, "--name", c["name"])
            or {}
        )
        status = str(shown.get("connectionStatus"))
        holds = {"Connected": True, "NotConnected": False, "Connecting": False}.get(
            status
        )
        text = f"gateway {c['one']} is connected with {c['other']}"
        yield Proof(text, holds, f"connection {status}, SKU {sku[c['one']]}", factor=True)


def path_proofs(
    topology: Topology, seen: Mapping[tuple[str, str], Mapping[str, Any] | str]
) -> list[Proof]:
    """Return proofs from what `guests.paths` read: hops, MTU, use of the virtual function."""
    out = []
    for (client, server), facts in seen.items():
        way = f"{client} to {server}"
        if isinstance(facts, str):
            out.append(Proof(f"path from {way}", None, facts))
            continue
        hops, vf, sent = map(facts.get, ("hops", "vf_tx_packets", "sent"))
        words = f"{hops} hops, MTU {facts.get('mtu')}"
        out.append(Proof(f"path from {way}", True if hops else None, words))
        if topology.vm(client).accelerated:
            holds = None if vf is None or not sent else vf / sent >= 0.5
            words = f"vf_tx_packets +{vf} for {sent} packets sent"
            text = f"traffic from {way} takes the virtual function"
            out.append(Proof(text, holds, words, factor=True))
    return out
