"""From declared pairs to VMs, networks and their connections: pure functions, which report all errors in them."""

from __future__ import annotations

import ipaddress
import json
import re
import zlib
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
"""Sizes that Azure runs with accelerated networking whatever the interface asks for: from version 5 on, except for
confidential ones (https://learn.microsoft.com/azure/virtual-network/manage-accelerated-networking)."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A virtual network of this project, or an existing subnet."""

    name: str
    region: str
    prefix: str = ""
    subnet_id: str = ""
    nat: bool = False
    """Its VMs reach the outside through a NAT gateway."""
    routes: tuple[tuple[str, str], ...] = ()
    """(prefix, address of the next hop)"""

    @property
    def subnets(self) -> dict[str, str]:
        """Subnet to prefix: the lower half for hosts, the next quarter for a second subnet, the end for gateways."""
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
    balancer: str = ""
    """Server whose load balancer it is behind."""
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
    hub: str = ""
    """Existing virtual network with which all of this project's are peered."""

    def backends(self, name: str) -> tuple[str, ...]:
        """VMs behind the same load balancer as `name`, including that one, if there are several."""
        balancer = self.vm(name).balancer
        behind = tuple(v.name for v in self.vms if balancer and v.balancer == balancer)
        return behind if len(behind) > 1 else ()

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

    def public_addresses(self, management: str) -> list[str]:
        """Region of each public address: of VPN gateways, NAT gateways, and VMs with public `management`."""
        out = [g.region for g in self.gateways if g.kind == "Vpn"] + [
            n.region for n in self.networks if n.nat
        ]
        return out + ([v.region for v in self.vms] if management == "public" else [])

    @property
    def joining_hub(self) -> list[str]:
        """Names of the networks that are peered with the hub."""
        return [n.name for n in self.networks if self.hub and n.prefix]

    @property
    def ppgs(self) -> dict[str, tuple[Vm, ...]]:
        """Proximity placement group to its members."""
        names = dict.fromkeys(v.ppg for v in self.vms if v.ppg)
        return {name: tuple(v for v in self.vms if v.ppg == name) for name in names}

    def unzoned(self, regions: Collection[str]) -> Topology:
        """Return the same without zones in these regions."""
        vms = tuple(replace(v, zone="", ppg=v.ppg.removesuffix(f"-{v.zone}")) if v.region in regions else v
                    for v in self.vms)  # fmt: skip
        return replace(self, vms=vms)

    def parts(self) -> dict[str, str]:
        """The parts of the deployment by name, to compare with those created earlier."""
        parts: tuple[Vm | Network | Gateway, ...] = (*self.vms, *self.networks, *self.gateways)
        named: dict[str, Any] = {f"{type(p).__name__} {p.name}": asdict(p) for p in parts}
        joined = {f"{kind} {a} {b}": [a, b] for kind in ("peerings", "connections", "public_pairs")
                  for a, b in getattr(self, kind)}  # fmt: skip
        return {name: json.dumps(part, sort_keys=True) for name, part in (named | joined).items()}


def in_words(topology: Topology, expires_h: float) -> str:
    """What one deployment consists of, as a paragraph: VMs, networks, gateways, and when it expires."""
    sizes = Counter((vm.size, vm.region) for vm in topology.vms)
    gateways = Counter((g.kind, g.sku, g.region) for g in topology.gateways)
    counted = {
        "virtual network": [network for network in topology.networks if not network.subnet_id],
        "peering": topology.peerings,
        "load balancer": {v.balancer for v in topology.vms if v.balancer},
        "proximity placement group": topology.ppgs,
    }
    parts = [
        *(f"{plural(n, 'VM')} of {size} in {region}" for (size, region), n in sizes.items()),
        *(plural(len(several), what) for what, several in counted.items() if several),
        *(
            f"{plural(n, f'{kind} gateway')} {sku} in {region}"
            for (kind, sku, region), n in gateways.items()
        ),
    ]
    hosts = ", ".join(f"{vm.name} (zone {vm.zone})" if vm.zone else vm.name for vm in topology.vms)
    return (
        f"`npl up` would make, for each deployment: {', '.join(parts)}.\nHosts: {hosts}.\n"
        f"Everything carries a tag that says that it expires after {expires_h:g} h; `npl down` removes it.\n"
        "Nothing was created, and Azure was not contacted.\n"
    )


class _Needs:
    """What pairs and options say about one host; a conflict is an error that names both."""

    def __init__(self, experiment: Experiment, host: str) -> None:
        self.experiment, self.host = experiment, host
        self.requests: dict[str, tuple[Any, str]] = {}

    def add(self, what: str, value: Any, who: str) -> None:
        before = self.requests.setdefault(what, (value, who))
        if before[0] != value:
            raise ExperimentError(
                f"{self.experiment.name}: host {self.host!r} should have {what} {_word(before[0])} ({before[1]}) and "
                f"{_word(value)} ({who}); name another host in one of them"
            )

    def get(self, what: str, default: Any) -> Any:
        return self.requests[what][0] if what in self.requests else default


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _who(pair: Pair) -> str:
    return f"pair {pair.client} → {pair.server}, {pair.placement}"


def topology(experiment: Experiment, options: Options, *, attempt: int = 0) -> Topology:
    """Derive what has to be created; ExperimentError if that is impossible.

    A client is in the home network, in the first zone; each server is where the placement of its pair puts it, relative
    to the client; `options.vms` overrides region, zone, size and more for a single VM. `attempt` chooses one of
    `alternatives` after a capacity failure; 0 is as declared.
    """
    options = alternatives(options)[attempt]
    for pair in experiment.pairs:
        if problem := next(_problems(experiment, options, pair), None):
            raise ExperimentError(f"{experiment.name}: {_who(pair)}: {problem}")
    needs = {n: _Needs(experiment, n) for p in experiment.pairs for n in (p.client, p.server)}
    for name in options.vms:
        if name not in needs:
            raise ExperimentError(
                f"{experiment.name}: hosts.options.vms names {name!r}, which is in no pair (hosts: {', '.join(needs)})"
            )
    for name, need in needs.items():
        for what, value in options.vms.get(name, VmOptions()).model_dump(exclude_none=True).items():
            need.add(what, value, f"hosts.options.vms.{name}")
    addresses: dict[str, str] = {}
    for pair in experiment.pairs:
        _apply(pair, needs[pair.client], needs[pair.server], options)
        _one_address(experiment, addresses, pair)
    vms = tuple(vm for name, need in needs.items() for vm in _vms(name, need, options))
    if twice := [name for name, n in Counter(v.name for v in vms).items() if n > 1]:
        raise ExperimentError(
            f"{experiment.name}: {twice[0]!r} would also be the name of a backend; rename the host"
        )
    _refuse_always_accelerated(experiment, options, vms)
    return _joined(experiment, options, vms, needs)


def _refuse_always_accelerated(
    experiment: Experiment, options: Options, vms: tuple[Vm, ...]
) -> None:
    for vm in vms:
        sizes = (vm.size, *(options.alternative_sizes if vm.size == options.vm_size else ()))
        for size in () if vm.accelerated else sizes:
            if ALWAYS_ACCELERATED.fullmatch(size):
                older = re.fullmatch(r"(Standard_[DE]\d+a?d?s)_v\d+", size)
                raise ExperimentError(
                    f"{experiment.name}: host {vm.name!r} should have accelerated networking off, but size {size} "
                    f"is always accelerated; choose a size of version 4 or 3, for example "
                    f"{older[1] if older else 'Standard_D8s'}_v4, for all hosts that are compared"
                )


def alternatives(options: Options) -> list[Options]:
    """The options as declared, and then every alternative that the experiment allows after a capacity failure."""
    out = [options]
    if options.alternative_zones:
        zones = options.zones
        out += [
            options.model_copy(update={"zones": zones[i:] + zones[:i]})
            for i in range(1, len(zones))
        ]
    out += [options.model_copy(update={"vm_size": size}) for size in options.alternative_sizes]
    return out


def _problems(experiment: Experiment, options: Options, pair: Pair) -> Iterator[str]:
    """Why a pair cannot be placed, and what to do about it."""
    rule, own = PLACEMENTS.get(pair.placement), options.vms.get(pair.server, VmOptions())
    if rule is None or not rule.meaning:
        yield (rule and rule.retired) or f"unknown placement for Azure (known: {', '.join(PLACED)})"
        return
    for name in (pair.client, pair.server):
        # Azure allows 64 characters, including the mark of a deployment in a shared group and the number of a backend
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
            yield f"{name!r} cannot name a VM: use at most 40 lower-case letters, digits and inner hyphens"
    far = options.remote_region or own.region or options.vms.get(pair.client, VmOptions()).region
    if rule.far == "always" and not far:
        yield f"set hosts.options.remote_region, or the region of {pair.server} in vms"
    if "VirtualAppliance" in rule.next_hops and not options.next_hop:
        yield "set hosts.options.hub and next_hop, the address of the appliance there"
    for test in experiment.tests if rule.address == AT_BALANCER else ():
        through = not test.placements or pair.placement in test.placements
        if through and test.tool in ("qperf", "iperf3") and test.duration_s + test.omit_s > IDLE_S:
            yield (
                f"the load balancer drops connections that are idle for {IDLE_S / 60:.0f} minutes, as the control "
                f"connection of {test.tool} is while it measures; give its test a shorter duration_s"
            )
    if rule.other_zone and len(options.zones) < 2 and pair.server not in options.vms:
        yield "hosts.options.zones must name two zones"
    if rule.gateway == "ExpressRoute" and not options.expressroute_circuit:
        yield (
            "set hosts.options.expressroute_circuit to the resource id of an existing circuit "
            "(az network express-route list --query [].id)"
        )
    if own.subnet:
        return
    if rule.address == AT_PUBLIC and options.management == "private":
        yield "hosts.options.management private creates no public addresses; use another placement"
    if not options.subnet:
        return
    own_network = rule.network and not rule.address and rule.far != "always"
    if own_network or rule.gateway or rule.subnet != "hosts":
        yield (
            "hosts.options.subnet is an existing network, which is not changed; "
            f"give {pair.server} a subnet of its own in vms, or remove subnet"
        )
    if rule.network == "remote" and not options.remote_subnet:
        yield "hosts.options.subnet also needs remote_subnet, a network connected to it"


def _one_address(experiment: Experiment, placements: dict[str, str], pair: Pair) -> None:
    """A host is measured at one address: its own, its public one, or its load balancer's."""
    before = placements.setdefault(pair.server, pair.placement)
    if PLACED[before].address != PLACED[pair.placement].address:
        raise ExperimentError(
            f"{experiment.name}: host {pair.server!r} is the server of {before} and of {pair.placement}, which are "
            "measured at different addresses; name another host in one of them"
        )


def _apply(pair: Pair, client: _Needs, server: _Needs, options: Options) -> None:
    who, rule = _who(pair), PLACED[pair.placement]
    for need in (client, server):
        for what in ("accelerated", "tcp_buffer_bytes"):
            if getattr(pair, what) is not None:
                need.add(what, getattr(pair, what), who)
    if rule.far:
        if client.get("network", HOME) == _far(pair, client, options)[0]:
            _network(
                server, HOME, who
            )  # the way back: the client is the far one, by an earlier pair
            return
        network, region = _far(pair, server, options)
        sku = client.get("gateway_sku", "")
        _network(client, rule.client_network or (f"{HOME}-{sku.lower()}" if sku else HOME), who)
        _network(server, network, who)
        server.add("region", region, who)
        return
    _network(client, client.get("network", HOME), who)
    _network(server, rule.network or HOME, who)
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
        server.add("balancer", pair.server, who)


def _far(pair: Pair, host: _Needs, options: Options) -> tuple[str, str]:
    """Network and region of a far host: every far region, and every SKU of a gateway, has networks of its own."""
    usual = options.remote_region or options.region
    region, sku = host.get("region", usual), host.get("gateway_sku", "")
    parts = [
        PLACED[pair.placement].network,
        *([region] if region != usual else []),
        *([sku.lower()] if sku else []),
    ]
    name = "-".join(parts)
    # Azure allows a network 64 characters, including the mark of a deployment in a shared group
    return name if len(name) <= 40 else f"{name[:31]}-{zlib.crc32(name.encode()):08x}", region


def _network(host: _Needs, name: str, who: str) -> None:
    """Put a host into a network of this project, unless it has an existing subnet of its own."""
    subnet = host.get("subnet", "")
    if not subnet:
        host.add("network", name, who)
        return
    words = subnet.lower().split("/")
    own = re.sub("[^a-z0-9-]", "-", f"{words[words.index('virtualnetworks') + 1]}-{words[-1]}")[:40]
    host.add("network", f"given-{own}", f"hosts.options.vms.{host.host}")


def _vms(name: str, need: _Needs, options: Options) -> list[Vm]:
    balancer, several = need.get("balancer", ""), need.get("backends", 1)
    if several > 1 and not balancer:
        raise ExperimentError(
            f"{need.experiment.name}: hosts.options.vms.{name} has backends, but {name} is not the server "
            f"of a {' or '.join(n for n, p in PLACED.items() if p.address == AT_BALANCER)}"
        )
    region = need.get("region", options.region)
    zones = (
        options.zones
        if region == options.region or options.remote_zones is None
        else options.remote_zones
    )
    zone = need.get("zone", zones[0] if zones else "")
    vm = Vm(
        name=name,
        network=need.get("network", HOME),
        region=region,
        zone=zone,
        size=need.get("vm_size", options.vm_size),
        accelerated=need.get("accelerated", options.accelerated),
        subnet=need.get("part", "hosts"),
        ppg=f"ppg-{region}{'-' + zone if zone else ''}" if need.get("ppg", False) else "",
        balancer=balancer,
        tcp_buffer_bytes=need.get("tcp_buffer_bytes", None),
    )
    return [vm, *(replace(vm, name=f"{name}-{i}") for i in range(2, several + 1))]


def _joined(
    experiment: Experiment, options: Options, vms: tuple[Vm, ...], needs: Mapping[str, _Needs]
) -> Topology:
    networks = _networks(experiment, options, vms, needs)
    network = {v.name: v.network for v in vms}
    ways = [
        (PLACED[p.placement], p.placement, network[p.client], network[p.server])
        for p in experiment.pairs
    ]
    for rule, _, a, b in ways:
        for one, other in ((a, b), (b, a)) if "VirtualAppliance" in rule.next_hops else ():
            route = (networks[other].prefix, str(options.next_hop))
            networks[one] = replace(
                networks[one], routes=tuple(dict.fromkeys((*networks[one].routes, route)))
            )
    links = [
        (a, b)
        for rule, _, a, b in ways
        if rule.peered and networks[a].prefix and networks[b].prefix
    ]
    gateways: dict[str, Gateway] = {}
    connections: list[tuple[str, str]] = []
    for rule, path, *joined in ways:
        if not (kind := rule.gateway):
            continue
        usual = options.vpn_sku if kind == "Vpn" else options.expressroute_sku
        for end in joined:
            skus = {
                needs[v.balancer or v.name].get("gateway_sku", usual)
                for v in vms
                if v.network == end
            }
            if len(skus) > 1 or not networks[end].prefix:
                raise ExperimentError(
                    f"{experiment.name}: network {end} cannot have the gateway of {path}: its VMs ask for "
                    f"{' and '.join(sorted(skus))}, or it is an existing subnet; name other hosts"
                )
            name, region = f"{path}-{end}", networks[end].region
            gateways[name] = Gateway(
                name=name, network=end, region=region, kind=kind, sku=skus.pop()
            )
        a, b = (f"{path}-{end}" for end in joined)
        connections += [(a, b), (b, a)] if kind == "Vpn" else [(a, ""), (b, "")]
    return Topology(
        vms=vms,
        networks=tuple(networks.values()),
        peerings=tuple(dict.fromkeys(p for a, b in links for p in ((a, b), (b, a)) if a != b)),
        gateways=tuple(gateways.values()),
        connections=tuple(dict.fromkeys(connections)),
        public_pairs=tuple(
            (p.client, p.server)
            for p in experiment.pairs
            if PLACED[p.placement].address == AT_PUBLIC
        ),
        paths={(p.client, p.server): p.placement for p in experiment.pairs},
        hub=options.hub or "",
    )


def _networks(
    experiment: Experiment, options: Options, vms: tuple[Vm, ...], needs: Mapping[str, _Needs]
) -> dict[str, Network]:
    blocks = list(options.address_space.subnets(new_prefix=23))
    existing = {HOME: options.subnet or "", "remote": options.remote_subnet or ""}
    existing |= {
        v.network: needs[v.balancer or v.name].get("subnet", "")
        for v in vms
        if v.network.startswith("given-")
    }
    behind_nat = {p.client_network for p in PLACEMENTS.values()}
    nat = options.management == "private" and options.way_out == "nat-gateway"
    out: dict[str, Network] = {}
    for i, (name, region) in enumerate(dict.fromkeys((v.network, v.region) for v in vms)):
        if name in out:
            names = ", ".join(f"{v.name} in {v.region}" for v in vms)
            raise ExperimentError(
                f"{experiment.name}: hosts of one virtual network are in two regions ({names})"
            )
        subnet = existing.get(name, "")
        out[name] = Network(
            name=name,
            region=region,
            subnet_id=subnet,
            prefix="" if subnet else str(blocks[i]),
            nat=(nat or name in behind_nat) and not subnet,
            routes=(("0.0.0.0/0", str(options.next_hop)),)
            if options.way_out == "next-hop" and options.next_hop
            else (),
        )
    return out
