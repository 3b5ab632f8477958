"""What shows that the placement asked for took effect: what the cloud says of each VM, and what its guest shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...experiment.model import Host, Proof
from ..guests import guest_proofs
from ._az import Runs
from ._deploy import Clock
from ._failures import AzError
from ._topology import Topology, Vm

__all__ = ["Observed", "Placed", "joined", "observe", "proven"]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One VM as the cloud describes it."""

    name: str
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


def observe(az: Runs, group: str) -> Observed:
    """Read what the cloud says of the VMs in a resource group."""
    interfaces = {n["id"].lower(): n for n in az("network", "nic", "list", "--resource-group", group) or ()}
    vms: dict[str, Placed] = {}
    ppgs: dict[str, None] = {}
    for vm in az("vm", "list", "--resource-group", group) or ():
        first = vm["networkProfile"]["networkInterfaces"][0]["id"].lower()
        nic = interfaces.get(first, {})
        address = (nic.get("ipConfigurations") or [{}])[0]
        image = (vm.get("storageProfile") or {}).get("imageReference") or {}
        ppg = (vm.get("proximityPlacementGroup") or {}).get("id")
        if ppg:
            ppgs[ppg] = None
        vms[vm["name"]] = Placed(
            name=vm["name"],
            region=vm["location"],
            zone=(vm.get("zones") or [None])[0],
            size=vm["hardwareProfile"]["vmSize"],
            image=":".join(str(image.get(k)) for k in ("publisher", "offer", "sku"))
            + f":{image.get('exactVersion') or image.get('version')}"
            if image.get("publisher")
            else image.get("id"),
            ppg=ppg.rsplit("/", 1)[1] if ppg else None,
            accelerated=nic.get("enableAcceleratedNetworking"),
            private=address.get("privateIPAddress"),
            power=vm.get("provisioningState"),
        )
    colocation = {
        # the group of an existing VM may stand in another resource group
        where.rsplit("/", 1)[1]: _status(az("ppg", "show", "--include-colocation-status", "--ids", where))
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


def joined(az: Runs, group: str, topology: Topology, *, clock: Clock, wait_s: float) -> tuple[Proof, ...]:
    """Proofs that the networks are joined: peerings and gateway connections are connected."""
    out = []
    if topology.peerings:
        networks = {n["name"]: n for n in az("network", "vnet", "list", "--resource-group", group) or ()}
        for a, b in topology.peerings:
            found = networks.get(f"vnet-{a}", {}).get("virtualNetworkPeerings") or []
            state = next((p.get("peeringState") for p in found if p["name"] == f"to-{b}"), None)
            out.append(
                Proof(
                    claim=f"network {a} is peered with {b}",
                    holds=None if state is None else state == "Connected",
                    evidence=f"peering {state or 'not listed'}",
                )
            )
    end = clock.now() + wait_s
    for a, b in topology.connections:
        name = f"cn-{a}-{b}" if b else f"cn-{a}"
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
