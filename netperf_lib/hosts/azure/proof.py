"""Proofs that the placement took effect: what the cloud reports of VMs, and what guests show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...experiment.deployment import Host, Proof
from ..guests import accelerated, guest_proofs
from . import az as az_module
from .az import Runs, Zones, find
from .topology import WORDS, Topology, Vm

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


@dataclass(frozen=True)
class Placed:
    """One VM as the cloud describes it."""

    facts: Mapping[str, Any]
    """Fields of a host: region, zones, size, group; none if the cloud does not list it."""
    proofs: Sequence[Proof]
    power: str = ""
    """As Azure shows it, for example ``VM running``."""

    @property
    def stopped(self) -> bool:
        """Whether it is known not to run."""
        return bool(self.power) and self.power not in ("VM running", "VM starting")


def cloud(
    az: Runs, group: str, topology: Topology, zones: Zones
) -> tuple[dict[str, Placed], list[Proof]]:
    """Return what the cloud says of VMs, and proofs of the connections of gateways.

    Azure may show for a while what was there before, so it is asked until all is proven, for a
    time. `zones` is what `locations` returned.
    """
    end = time.monotonic() + (CONNECTED_S if topology.connections else az_module.LAG_S)
    while True:
        placed = observe(az, group, topology, zones)
        links = list(_links(az, group, topology))
        proofs = [*links]
        for vm in placed.values():
            proofs += vm.proofs
        if time.monotonic() >= end or all(proof.holds for proof in proofs):
            return placed, links
        time.sleep(az_module.POLL_S)


def observe(az: Runs, group: str, topology: Topology, zones: Zones) -> dict[str, Placed]:
    """Return the cloud's description of each declared VM, with proofs, by name."""
    within = ("list", "--resource-group", group)
    nics = {nic["id"].lower(): nic for nic in find(az, "network", "nic", *within) or ()}
    shown = {vm["name"]: vm for vm in find(az, "vm", *within, "--show-details") or ()}
    placed = {}
    for wanted in topology.vms:
        vm = shown.get(wanted.name)
        if vm is None:
            evidence = f"the cloud does not list {wanted.name}"
            missing = Proof("the VM exists", False, evidence, factor=True)
            placed[wanted.name] = Placed({}, [missing])
            continue
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id") or ""
        (zone,) = vm.get("zones") or [None]
        region = vm["location"]
        facts = {
            "region": region,
            "vm_size": vm["hardwareProfile"]["vmSize"],
            "zone": zone,
            "zone_physical": zones.get(region, {}).get(zone or ""),
            "ppg": ppg.rpartition("/")[2] or None,
        }
        interface = vm["networkProfile"]["networkInterfaces"][0]["id"].lower()
        asked = nics.get(interface, {}).get("enableAcceleratedNetworking")
        proofs = list(_claims(wanted, facts | {"accelerated": asked}))
        if wanted.ppg:
            proofs.append(_together(az, wanted.ppg, ppg))
        placed[wanted.name] = Placed(facts, proofs, vm.get("powerState") or "")
    return placed


def _claims(wanted: Vm, facts: Mapping[str, Any]) -> Iterator[Proof]:
    for name, label in CLAIMS.items():
        actual, level = facts[name], getattr(wanted, name)
        holds = (actual or None) == (level or None)
        claim = f"{label} {WORDS.get(level, level)}"
        yield Proof(claim, holds, f"Azure: {actual}", factor=True)


def _together(az: Runs, name: str, ppg: str) -> Proof:
    """Whether a group is aligned; an empty one says that it is, of nothing."""
    words = "unknown"
    if ppg:
        show = ("ppg", "show", "--include-colocation-status", "--ids", ppg)
        shown = find(az, *show) or {}
        if shown.get("virtualMachines"):
            words = str(shown["colocationStatus"]["displayStatus"])
    holds = {"aligned": True, "unknown": None}.get(words.lower(), False)
    text = f"{name} keeps its members together"
    return Proof(text, holds, f"colocation {words}", factor=True)


def _links(az: Runs, group: str, topology: Topology) -> Iterator[Proof]:
    """Proofs of the connections of gateways; other ways are proven by the guests' paths."""
    sku = {gateway["name"]: gateway["sku"] for gateway in topology.gateways}
    show = ("network", "vpn-connection", "show", "--resource-group", group, "--name")
    for link in topology.connections:
        shown = find(az, *show, link["name"]) or {}
        status = str(shown.get("connectionStatus"))
        known = {"Connected": True, "NotConnected": False, "Connecting": False}
        text = f"gateway {link['one']} is connected with {link['other']}"
        evidence = f"connection {status}, SKU {sku[link['one']]}"
        yield Proof(text, known.get(status), evidence, factor=True)


def proven(
    topology: Topology,
    placed: Mapping[str, Placed],
    hosts: Iterable[Host],
    guests: Guests,
) -> Iterator[Host]:
    """Yield the hosts with proofs, holding or not, from the cloud and the guests."""
    for host in hosts:
        vm, guest = placed[host.name], guests[host.name]
        proofs = *vm.proofs, *guest_proofs(topology.vm(host.name).accelerated, guest)
        # newer sizes are accelerated whatever the interface asks for
        facts = {**vm.facts, "accelerated": accelerated(guest)}
        yield replace(host, **facts if vm.facts else {}, proofs=proofs)


def path_proofs(
    topology: Topology, seen: Mapping[tuple[str, str], Mapping[str, Any] | str]
) -> list[Proof]:
    """Return proofs from what `guests.paths` read: hops, MTU, use of the virtual function."""
    proofs = []
    for (client, server), facts in seen.items():
        claim = f"path from {client} to {server}"
        if isinstance(facts, str):
            proofs.append(Proof(claim, None, facts))
            continue
        hops, vf, sent = map(facts.get, ("hops", "vf_tx_packets", "sent"))
        words = f"{hops} hops, MTU {facts.get('mtu')}"
        proofs.append(Proof(claim, bool(hops) or None, words))
        if topology.vm(client).accelerated:
            holds = None
            if vf is not None and sent:
                holds = vf / sent >= 0.5
            words = f"vf_tx_packets +{vf} for {sent} packets sent"
            claim = f"traffic from {client} to {server} takes the virtual function"
            proofs.append(Proof(claim, holds, words, factor=True))
    return proofs
