"""From declared pairs to VMs, networks and their connections: pure functions."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...errors import ExperimentError
from ...experiment.model import Experiment, Pair
from ...experiment.placements import AT_BALANCER, AT_PUBLIC, PLACED, PLACEMENTS
from ...metrics import plural
from .options import Options, VmOptions

HOME = "home"
IDLE_S = 30 * 60
"""Idle timeout of load balancers in the template: the maximum that Azure's interface documents."""
ALWAYS_ACCELERATED = re.compile(r"Standard_(?!DC|EC)[A-Z].*_v([5-9]|\d\d)")
"""Sizes that Azure accelerates whatever the interface asks for: from version 5 on, but for
confidential ones (learn.microsoft.com/azure/virtual-network/manage-accelerated-networking)."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A virtual network of this project, or an existing subnet."""

    name: str
    region: str
    prefix: str = ""
    subnet_id: str = ""
    nat: bool = False
    """Its VMs reach the outside through a NAT gateway."""

    @property
    def subnets(self) -> dict[str, str]:
        """Subnet to prefix: the lower half for hosts, then a second one, the end for gateways."""
        if not self.prefix:
            return {}
        low, high = ipaddress.ip_network(self.prefix).subnets(1)
        return {
            "hosts": str(low),
            "hosts2": str(next(high.subnets(1))),
            "GatewaySubnet": str(list(high.subnets(new_prefix=27))[-1]),
        }


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
    """One VM and its placement."""

    name: str
    network: str
    region: str
    zone: str
    """Logical zone, or "" in a region without zones."""
    size: str
    accelerated: bool
    subnet: str = "hosts"
    ppg: str = ""
    balanced: bool = False
    """It is behind a load balancer of its own."""
    tcp_buffer_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Topology:
    """All parts of one deployment."""

    vms: tuple[Vm, ...]
    networks: tuple[Network, ...]
    peerings: tuple[tuple[str, str], ...] = ()
    gateways: tuple[Gateway, ...] = ()
    connections: tuple[tuple[str, str], ...] = ()
    """Ordered pairs of gateways (VPN), or (gateway, "") for one connected to the circuit."""
    public_pairs: tuple[tuple[str, str], ...] = ()
    """(client, server) over public addresses: the server admits the client's address."""
    paths: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(client, server) to placement."""

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

    def public_addresses(self, public: bool) -> list[str]:
        """Region of each public address: of VPN gateways, NAT gateways, and of `public` VMs."""
        gateways = [g.region for g in self.gateways if g.kind == "Vpn"]
        nat = [n.region for n in self.networks if n.nat]
        return gateways + nat + ([v.region for v in self.vms] if public else [])

    @property
    def ppgs(self) -> dict[str, tuple[Vm, ...]]:
        """Proximity placement group to its members."""
        names = dict.fromkeys(v.ppg for v in self.vms if v.ppg)
        return {name: tuple(v for v in self.vms if v.ppg == name) for name in names}

    def unzoned(self, regions: Collection[str]) -> Topology:
        """Return the same without zones in these regions."""

        def bare(vm: Vm) -> Vm:
            return replace(vm, zone="", ppg=vm.ppg.removesuffix(f"-{vm.zone}"))

        return replace(self, vms=tuple(bare(v) if v.region in regions else v for v in self.vms))

    def parts(self) -> dict[str, str]:
        """The parts of the deployment by name, to compare with those created earlier."""
        parts: tuple[Vm | Network | Gateway, ...] = (*self.vms, *self.networks, *self.gateways)
        named: dict[str, Any] = {f"{type(p).__name__} {p.name}": asdict(p) for p in parts}
        for kind in ("peerings", "connections", "public_pairs"):
            named |= {f"{kind} {a} {b}": [a, b] for a, b in getattr(self, kind)}
        return {name: json.dumps(part, sort_keys=True) for name, part in named.items()}


def in_words(topology: Topology) -> str:
    """Return what one deployment consists of, as sentences: VMs, networks, gateways, hosts."""
    vms = Counter(("VM", f" of {vm.size} in {vm.region}") for vm in topology.vms)
    others = Counter(
        {
            ("virtual network", ""): sum(not n.subnet_id for n in topology.networks),
            ("peering", ""): len(topology.peerings),
            ("load balancer", ""): sum(vm.balanced for vm in topology.vms),
            ("proximity placement group", ""): len(topology.ppgs),
        }
    )
    gateways = Counter((f"{g.kind} gateway", f" {g.sku} in {g.region}") for g in topology.gateways)
    counted = vms + others + gateways
    parts = ", ".join(f"{plural(n, what)}{where}" for (what, where), n in counted.items())
    hosts = ", ".join(f"{vm.name} (zone {vm.zone})" if vm.zone else vm.name for vm in topology.vms)
    return f"`npl up` would make, for each deployment: {parts}.\nHosts: {hosts}.\n"


class _Needs(dict[str, Any]):
    """What pairs and options say about one host; a conflict is an error that names both."""

    def __init__(self, experiment: Experiment, host: str) -> None:
        self.where = f"{experiment.name}: host {host!r}"
        self.who: dict[str, str] = {}

    def add(self, what: str, value: Any, who: str) -> None:
        before = self.setdefault(what, value)
        if before != value:
            raise ExperimentError(
                f"{self.where} should have {what} {_word(before)} ({self.who[what]}) and "
                f"{_word(value)} ({who}); name another host in one of them"
            )
        self.who.setdefault(what, who)


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _who(pair: Pair) -> str:
    return f"pair {pair.client} → {pair.server}, {pair.placement}"


def topology(experiment: Experiment, options: Options, *, attempt: int = 0) -> Topology:
    """Derive what has to be created; ExperimentError if that is impossible.

    A client is in the home network, in the first zone; each server is where the placement of its
    pair puts it, relative to the client; `options.vms` overrides region, zone and size of a VM.
    `attempt` chooses one of `alternatives` after a capacity failure; 0 is as declared.
    """
    options = alternatives(options)[attempt]
    for pair in experiment.pairs:
        if problem := next(_problems(experiment, options, pair), None):
            raise ExperimentError(f"{experiment.name}: {_who(pair)}: {problem}")
    needs = {n: _Needs(experiment, n) for p in experiment.pairs for n in (p.client, p.server)}
    for name, own in options.vms.items():
        if name not in needs:
            raise ExperimentError(
                f"{experiment.name}: hosts.options.vms names {name!r}, which is in no pair "
                f"(hosts: {', '.join(needs)})"
            )
        for what, value in own.model_dump(exclude_none=True).items():
            needs[name].add(what, value, f"hosts.options.vms.{name}")
    placements: dict[str, str] = {}
    for pair in experiment.pairs:
        _apply(pair, needs[pair.client], needs[pair.server], options)
        before = placements.setdefault(pair.server, pair.placement)
        if PLACED[before].address != PLACED[pair.placement].address:
            raise ExperimentError(
                f"{experiment.name}: host {pair.server!r} is the server of {before} and of "
                f"{pair.placement}, which are measured at different addresses; "
                "name another host in one of them"
            )
    vms = tuple(_vm(name, need, options) for name, need in needs.items())
    _refuse_always_accelerated(experiment, options, vms)
    return _joined(experiment, options, vms)


def _refuse_always_accelerated(
    experiment: Experiment, options: Options, vms: tuple[Vm, ...]
) -> None:
    for vm in vms:
        sizes = (vm.size, *(options.alternative_sizes if vm.size == options.vm_size else ()))
        for size in () if vm.accelerated else sizes:
            if ALWAYS_ACCELERATED.fullmatch(size):
                raise ExperimentError(
                    f"{experiment.name}: host {vm.name!r} should have accelerated networking off, "
                    f"but size {size} is always accelerated; choose a size of version 4 or 3, "
                    "for example Standard_D8s_v4, for all hosts that are compared"
                )


def alternatives(options: Options) -> list[Options]:
    """Return the options as declared, then each alternative allowed after a capacity failure."""
    out = [options]
    if options.alternative_zones:
        zones = options.zones
        turned = [zones[i:] + zones[:i] for i in range(1, len(zones))]
        out += [options.model_copy(update={"zones": order}) for order in turned]
    out += [options.model_copy(update={"vm_size": size}) for size in options.alternative_sizes]
    return out


def _problems(experiment: Experiment, options: Options, pair: Pair) -> Iterator[str]:
    """Why a pair cannot be placed, and what to do about it."""
    rule = PLACEMENTS.get(pair.placement)
    if rule is None or not rule.meaning:
        yield (rule and rule.retired) or f"unknown placement for Azure (known: {', '.join(PLACED)})"
        return
    for name in (pair.client, pair.server):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
            yield (
                f"{name!r} cannot name a VM: use at most 40 lower-case letters, digits and "
                "inner hyphens"
            )
    ends = (options.vms.get(name, VmOptions()) for name in (pair.client, pair.server))
    if rule.far == "always" and not (options.remote_region or any(end.region for end in ends)):
        yield f"set hosts.options.remote_region, or the region of {pair.server} in vms"
    for test in experiment.tests if rule.address == AT_BALANCER else ():
        through = not test.placements or pair.placement in test.placements
        if through and test.tool in ("qperf", "iperf3") and test.duration_s + test.omit_s > IDLE_S:
            yield (
                f"the load balancer drops connections that are idle for {IDLE_S / 60:.0f} minutes, "
                f"as the control connection of {test.tool} is while it measures; "
                "give its test a shorter duration_s"
            )
    if rule.other_zone and len(options.zones) < 2 and pair.server not in options.vms:
        yield "hosts.options.zones must name two zones"
    if rule.gateway == "ExpressRoute" and not options.expressroute_circuit:
        yield (
            "set hosts.options.expressroute_circuit to the resource id of an existing circuit "
            "(az network express-route list --query [].id)"
        )
    if options.subnet and (rule.network or rule.client_network or rule.subnet != "hosts"):
        yield (
            "hosts.options.subnet is an existing network, in which this cannot be made; "
            "remove subnet, or list VMs of your own as an inventory"
        )


def _apply(pair: Pair, client: _Needs, server: _Needs, options: Options) -> None:
    who, rule = _who(pair), PLACED[pair.placement]
    for need in (client, server):
        for what in ("accelerated", "tcp_buffer_bytes"):
            if getattr(pair, what) is not None:
                need.add(what, getattr(pair, what), who)
    if rule.far:
        if client.get("network", HOME) == _far(pair, client, options)[0]:
            # the way back: the client is the far one, by an earlier pair
            server.add("network", HOME, who)
            return
        network, region = _far(pair, server, options)
        client.add("network", rule.client_network or HOME, who)
        server.add("network", network, who)
        server.add("region", region, who)
        return
    client.add("network", client.get("network", HOME), who)
    server.add("network", rule.network or HOME, who)
    if rule.subnet != "hosts":
        server.add("part", rule.subnet, who)
    home_zone = zone = client.get("zone", options.zones[0] if options.zones else "")
    if rule.other_zone:
        zone = server.get("zone", next((z for z in options.zones if z != home_zone), home_zone))
        if zone == home_zone:
            raise ExperimentError(
                f"{who}: both hosts would be in zone {home_zone}; give the server another zone"
            )
    if zone:
        server.add("zone", zone, who)
    if rule.grouped:
        client.add("ppg", True, who)
    if rule.grouped is not None:
        # the client may be in the group for the sake of another pair
        server.add("ppg", rule.grouped, who)
    if rule.address == AT_BALANCER:
        server.add("balanced", True, who)


def _far(pair: Pair, host: _Needs, options: Options) -> tuple[str, str]:
    """Network and region of a far host: every far region has networks of its own."""
    usual = options.remote_region or options.region
    region = host.get("region", usual)
    network = PLACED[pair.placement].network
    return (network if region == usual else f"{network}-{region}"), region


def _vm(name: str, need: _Needs, options: Options) -> Vm:
    region = need.get("region", options.region)
    zone = need.get("zone", options.zones[0] if options.zones else "")
    group = f"ppg-{region}{'-' + zone if zone else ''}"
    return Vm(
        name=name,
        network=need.get("network", HOME),
        region=region,
        zone=zone,
        size=need.get("vm_size", options.vm_size),
        accelerated=need.get("accelerated", True),
        subnet=need.get("part", "hosts"),
        ppg=group if need.get("ppg") else "",
        balanced=need.get("balanced", False),
        tcp_buffer_bytes=need.get("tcp_buffer_bytes"),
    )


def _joined(experiment: Experiment, options: Options, vms: tuple[Vm, ...]) -> Topology:
    networks = _networks(experiment, options, vms)
    network = {v.name: v.network for v in vms}
    peerings: list[tuple[str, str]] = []
    gateways: dict[str, Gateway] = {}
    connections: list[tuple[str, str]] = []
    for pair in experiment.pairs:
        rule, a, b = PLACED[pair.placement], network[pair.client], network[pair.server]
        if rule.peered and a != b:
            peerings += [(a, b), (b, a)]
        if not rule.gateway:
            continue
        vpn = rule.gateway == "Vpn"
        one, other = f"{pair.placement}-{a}", f"{pair.placement}-{b}"
        for name, end in ((one, a), (other, b)):
            gateways[name] = Gateway(
                name=name,
                network=end,
                region=networks[end].region,
                kind=rule.gateway,
                sku=options.vpn_sku if vpn else options.expressroute_sku,
            )
        connections += [(one, other), (other, one)] if vpn else [(one, ""), (other, "")]
    at_public = [p for p in experiment.pairs if PLACED[p.placement].address == AT_PUBLIC]
    return Topology(
        vms=vms,
        networks=tuple(networks.values()),
        peerings=tuple(dict.fromkeys(peerings)),
        gateways=tuple(gateways.values()),
        connections=tuple(dict.fromkeys(connections)),
        public_pairs=tuple((p.client, p.server) for p in at_public),
        paths={(p.client, p.server): p.placement for p in experiment.pairs},
    )


def _networks(experiment: Experiment, options: Options, vms: tuple[Vm, ...]) -> dict[str, Network]:
    blocks = options.address_space.subnets(new_prefix=23)
    behind_nat = {p.client_network for p in PLACEMENTS.values()}
    out: dict[str, Network] = {}
    for name, region in dict.fromkeys((v.network, v.region) for v in vms):
        if name in out:
            where = ", ".join(f"{v.name} in {v.region}" for v in vms)
            raise ExperimentError(
                f"{experiment.name}: hosts of one virtual network are in two regions ({where})"
            )
        prefix, nat = ("", False) if options.subnet else (str(next(blocks)), name in behind_nat)
        out[name] = Network(
            name=name, region=region, subnet_id=options.subnet or "", prefix=prefix, nat=nat
        )
    return out
