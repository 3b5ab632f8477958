"""From declared pairs to VMs, networks and what joins them: pure, and everything that can be wrong is said here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import ExperimentError
from ...experiment.model import Experiment, Pair
from ._options import Options, VmOptions

__all__ = ["PLACEMENTS", "Gateway", "Network", "Topology", "Vm", "topology"]

HOME = "home"

PLACEMENTS = {
    "ppg": "same zone and proximity placement group",
    "same-zone": "same zone, same virtual network",
    "cross-zone": "another zone, same virtual network",
    "vnet-peering": "same zone, another virtual network, peered",
    "standard-lb": "same zone, behind a standard internal load balancer with HA ports",
    "cross-region": "another region over global peering",
    "global-peering": "another region over global peering",
    "public-ip": "another region over public addresses",
    "vpn": "another region over two VPN gateways",
    "expressroute": "another region over two gateways of one ExpressRoute circuit",
}
FAR = {  # placement -> network of its servers
    "cross-region": "remote",
    "global-peering": "remote",
    "public-ip": "public",
    "vpn": "vpn",
    "expressroute": "expressroute",
}


@dataclass(frozen=True, kw_only=True)
class Network:
    """A virtual network of ours, or an existing subnet."""

    name: str
    region: str
    prefix: str = ""
    subnet_id: str = ""

    @property
    def hosts_prefix(self) -> str:
        """Where its VMs are: the lower half; "" in an existing subnet."""
        return str(next(ipaddress.ip_network(self.prefix).subnets(1))) if self.prefix else ""

    @property
    def gateways_prefix(self) -> str:
        """Where its gateways are: the end; "" in an existing subnet."""
        return str(list(ipaddress.ip_network(self.prefix).subnets(new_prefix=27))[-1]) if self.prefix else ""


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """A virtual network gateway."""

    name: str
    network: str
    region: str
    kind: str
    """`Vpn` or `ExpressRoute`."""
    sku: str


@dataclass(frozen=True, kw_only=True)
class Vm:
    """One VM and where it goes."""

    name: str
    network: str
    region: str
    zone: str
    """Logical zone, or "" in a region without zones."""
    size: str
    accelerated: bool
    ppg: str = ""
    behind_balancer: bool = False
    tcp_buffer_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Topology:
    """All that one deployment is made of."""

    vms: tuple[Vm, ...]
    networks: tuple[Network, ...]
    peerings: tuple[tuple[str, str], ...] = ()
    gateways: tuple[Gateway, ...] = ()
    connections: tuple[tuple[str, str], ...] = ()
    """Ordered pairs of gateways (VPN), or (gateway, "") for one connected to the circuit."""
    public_pairs: tuple[tuple[str, str], ...] = ()
    """(client, server) over public addresses: the server lets the client's address in."""
    placements: Mapping[str, str] = field(default_factory=dict)
    """Server name to the placement that decided where it goes."""

    def vm(self, name: str) -> Vm:
        """Return the VM called `name`."""
        return next(v for v in self.vms if v.name == name)

    def network(self, name: str) -> Network:
        """Return the network called `name`."""
        return next(n for n in self.networks if n.name == name)

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions, home first."""
        return tuple(dict.fromkeys(v.region for v in self.vms))

    @property
    def ppgs(self) -> dict[str, tuple[Vm, ...]]:
        """Proximity placement group to its members."""
        names = dict.fromkeys(v.ppg for v in self.vms if v.ppg)
        return {name: tuple(v for v in self.vms if v.ppg == name) for name in names}

    def resized(self, size_from: str, size_to: str) -> Topology:
        """Return the same with another VM size."""
        return replace(self, vms=tuple(replace(v, size=size_to) if v.size == size_from else v for v in self.vms))


class _Wishes:
    """What pairs and options say about one host; two that differ are an error that names both."""

    def __init__(self, experiment: Experiment, host: str) -> None:
        self.experiment, self.host = experiment, host
        self.said: dict[str, tuple[Any, str]] = {}

    def want(self, what: str, value: Any, who: str) -> None:
        before = self.said.setdefault(what, (value, who))
        if before[0] != value:
            raise ExperimentError(
                f"{self.experiment.name}: host {self.host!r} should have {what} {_word(before[0])} ({before[1]}) and "
                f"{_word(value)} ({who}); name another host in one of them"
            )

    def get(self, what: str, default: Any) -> Any:
        return self.said[what][0] if what in self.said else default


def _word(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _who(pair: Pair) -> str:
    return f"pair {pair.client} → {pair.server}, {pair.placement}"


def topology(experiment: Experiment, options: Options, *, attempt: int = 0) -> Topology:
    """Derive what has to be made.

    A client stands in the home network, in the first zone; each server stands where the placement of its pair says,
    relative to the client; `options.vms` overrules region, zone, size and more for a single VM.

    Parameters
    ----------
    experiment : Experiment
        Its pairs decide.
    options : Options
        Sizes, regions, zones.
    attempt : int
        After capacity failures: which of the allowed alternatives (see `attempts`); 0 is as declared.

    Raises
    ------
    ExperimentError
        Unknown or retired placement, two pairs that contradict each other, a missing option; one sentence each.
    """
    options = alternatives(options)[attempt]
    for pair in experiment.pairs:
        _check(experiment, options, pair)
    wishes = {n: _Wishes(experiment, n) for p in experiment.pairs for n in (p.client, p.server)}
    for name in options.vms:
        if name not in wishes:
            raise ExperimentError(
                f"{experiment.name}: hosts.options.vms names {name!r}, which is in no pair (hosts: {', '.join(wishes)})"
            )
    for name, wish in wishes.items():
        for what, value in options.vms.get(name, VmOptions()).model_dump(exclude_none=True).items():
            wish.want(what, value, f"hosts.options.vms.{name}")
    placements: dict[str, str] = {}
    for pair in experiment.pairs:
        _apply(pair, wishes[pair.client], wishes[pair.server], options)
        _one_address(experiment, placements, pair)

    vms = tuple(_vm(name, wish, options) for name, wish in wishes.items())
    return _joined(experiment, options, vms, placements)


def alternatives(options: Options) -> list[Options]:
    """The options as declared, and then every alternative that the experiment allows after a capacity failure."""
    out = [options]
    if options.alternative_zones:
        zones = options.zones
        out += [options.model_copy(update={"zones": zones[i:] + zones[:i]}) for i in range(1, len(zones))]
    out += [options.model_copy(update={"vm_size": size}) for size in options.alternative_sizes]
    return out


def _check(experiment: Experiment, options: Options, pair: Pair) -> None:
    where = f"{experiment.name}: {_who(pair)}"
    if pair.placement == "basic-lb":
        raise ExperimentError(
            f"{where}: Azure retired the basic load balancer on 2025-09-30 and makes no new ones; use standard-lb"
        )
    if pair.placement not in PLACEMENTS:
        raise ExperimentError(f"{where}: unknown placement for Azure (known: {', '.join(PLACEMENTS)})")
    for name in (pair.client, pair.server):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?", name):
            raise ExperimentError(
                f"{where}: {name!r} cannot name a VM: use at most 48 lower-case letters, digits and inner hyphens"
            )
    if pair.placement in FAR and not options.remote_region:
        raise ExperimentError(f"{where}: set hosts.options.remote_region")
    if pair.placement == "cross-zone" and len(options.zones) < 2 and pair.server not in options.vms:
        raise ExperimentError(f"{where}: hosts.options.zones must name two zones")
    if pair.placement == "expressroute" and not options.expressroute_circuit:
        raise ExperimentError(
            f"{where}: set hosts.options.expressroute_circuit to the resource id of an existing circuit "
            "(az network express-route list --query [].id)"
        )
    if options.subnet and pair.placement in ("vnet-peering", "vpn", "expressroute"):
        raise ExperimentError(
            f"{where}: hosts.options.subnet is an existing network, and those are left as they are; "
            "leave subnet out, or read hosts that stand there already with source inventory"
        )
    if options.subnet and pair.placement in ("cross-region", "global-peering") and not options.remote_subnet:
        raise ExperimentError(f"{where}: with hosts.options.subnet give remote_subnet, a network connected to it, too")
    if pair.placement == "public-ip" and options.management == "private":
        raise ExperimentError(f"{where}: hosts.options.management private makes no public addresses")


def _one_address(experiment: Experiment, placements: dict[str, str], pair: Pair) -> None:
    """A host is measured at one address: its own, its public one, or its load balancer's."""
    before = placements.setdefault(pair.server, pair.placement)
    for special in ("standard-lb", "public-ip"):
        if (special in (before, pair.placement)) and before != pair.placement:
            raise ExperimentError(
                f"{experiment.name}: host {pair.server!r} is the server of {before} and of {pair.placement}, which are "
                "measured at different addresses; name another host in one of them"
            )


def _apply(pair: Pair, client: _Wishes, server: _Wishes, options: Options) -> None:
    who = _who(pair)
    for wish in (client, server):
        if pair.accelerated is not None:
            wish.want("accelerated", pair.accelerated, who)
        if pair.tcp_buffer_bytes is not None:
            wish.want("tcp_buffer_bytes", pair.tcp_buffer_bytes, who)
    home_zone = client.get("zone", options.zones[0] if options.zones else "")
    if pair.placement in FAR and client.get("network", HOME) == FAR[pair.placement]:
        server.want("network", HOME, who)  # the way back: the client is the far one, by an earlier pair
        return
    client.want("network", HOME, who)
    if pair.placement in FAR:
        server.want("network", FAR[pair.placement], who)
        server.want("region", options.remote_region, who)
        return
    server.want("network", "peered" if pair.placement == "vnet-peering" else HOME, who)
    if pair.placement == "cross-zone":
        other = [z for z in options.zones if z != home_zone]
        zone = server.get("zone", other[0] if other else None)
        if zone is None or zone == home_zone:
            raise ExperimentError(f"{who}: both hosts would stand in zone {home_zone}; give the server another zone")
        server.want("zone", zone, who)
        return
    if home_zone:
        server.want("zone", home_zone, who)
    if pair.placement == "ppg":
        client.want("ppg", True, who)
        server.want("ppg", True, who)
    elif pair.placement == "same-zone":
        # the client may be in the group for the sake of another pair; this server must not be
        server.want("ppg", False, who)
    elif pair.placement == "standard-lb":
        server.want("behind_balancer", True, who)


def _vm(name: str, wish: _Wishes, options: Options) -> Vm:
    zone = wish.get("zone", options.zones[0] if options.zones else "")
    region = wish.get("region", options.region)
    return Vm(
        name=name,
        network=wish.get("network", HOME),
        region=region,
        zone=zone,
        size=wish.get("vm_size", options.vm_size),
        accelerated=wish.get("accelerated", options.accelerated),
        ppg=f"ppg-{region}{'-' + zone if zone else ''}" if wish.get("ppg", False) else "",
        behind_balancer=wish.get("behind_balancer", False),
        tcp_buffer_bytes=wish.get("tcp_buffer_bytes", None),
    )


def _joined(experiment: Experiment, options: Options, vms: tuple[Vm, ...], placements: dict[str, str]) -> Topology:
    blocks = list(ipaddress.ip_network(options.address_space).subnets(new_prefix=23))
    existing = {HOME: options.subnet or "", "remote": options.remote_subnet or ""}
    networks = []
    for i, (name, region) in enumerate(dict.fromkeys((v.network, v.region) for v in vms)):
        given = existing.get(name, "")
        networks.append(Network(name=name, region=region, subnet_id=given, prefix="" if given else str(blocks[i])))
    if len({n.name for n in networks}) < len(networks):
        names = ", ".join(f"{v.name} in {v.region}" for v in vms)
        raise ExperimentError(f"{experiment.name}: hosts of one virtual network stand in two regions ({names})")
    used = {n.name for n in networks if not n.subnet_id}
    peerings = [p for far in ("peered", "remote") if far in used for p in ((HOME, far), (far, HOME))]
    gateways: list[Gateway] = []
    connections: list[tuple[str, str]] = []
    for path, kind, sku in (
        ("vpn", "Vpn", options.vpn_sku),
        ("expressroute", "ExpressRoute", options.expressroute_sku),
    ):
        if path not in used:
            continue
        ends = [
            Gateway(name=f"{path}-{n.name}", network=n.name, region=n.region, kind=kind, sku=sku)
            for n in networks
            if n.name in (HOME, path)
        ]
        gateways += ends
        a, b = (g.name for g in ends)
        connections += [(a, b), (b, a)] if path == "vpn" else [(a, ""), (b, "")]
    return Topology(
        vms=vms,
        networks=tuple(networks),
        peerings=tuple(peerings),
        gateways=tuple(gateways),
        connections=tuple(connections),
        public_pairs=tuple((p.client, p.server) for p in experiment.pairs if p.placement == "public-ip"),
        placements=placements,
    )
