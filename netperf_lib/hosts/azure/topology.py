"""From declared pairs to VMs, networks and their connections: pure functions."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

from ...errors import ExperimentError
from ...experiment.model import Experiment, Pair
from ...experiment.placements import AT_BALANCER, AT_PUBLIC, PLACED, PLACEMENTS
from .options import Options, VmOptions

HOME_NETWORK = "home"
ALWAYS_ACCELERATED = re.compile(r"Standard_(?!DC|EC)[A-Z].*_v([5-9]|\d\d)")
"""Sizes that Azure accelerates whatever the interface asks for: from version 5 on, but for
confidential ones (learn.microsoft.com/azure/virtual-network/manage-accelerated-networking)."""
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,58}[A-Za-z0-9])?")
"""Names that are allowed for a VM, its host name, and for what is named after it
(learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules)."""
ARM = re.compile(r"Standard_[A-Z]+\d+[a-oq-z]*p[a-z]*_v\d+")
"""Sizes with an Arm processor have a p behind the number of processors
(learn.microsoft.com/azure/virtual-machines/vm-naming-conventions)."""
WORDS = {True: "on", False: "off", "": "none"}
"""Levels as they are said."""
TemplateRow = dict[str, Any]
"""A part, as the template takes it."""


@dataclass(frozen=True)
class Vm:
    """One VM and its placement."""

    name: str
    region: str
    zone: str
    """Logical zone, or ""."""
    vm_size: str
    network: str = HOME_NETWORK
    subnet: str = "hosts"
    accelerated: bool = True
    ppg: str = ""
    address: str = ""
    """Where it is measured, if not at its own address; see `Placement.address`."""
    tcp_buffer_bytes: int | None = None


@dataclass(frozen=True)
class Topology:
    """All parts of one deployment, as the template takes them; it describes their rows."""

    vms: list[Vm]
    networks: list[TemplateRow]
    ppgs: list[TemplateRow]
    gateways: list[TemplateRow]
    connections: list[TemplateRow]
    peerings: list[tuple[str, str]]
    admitted: list[tuple[str, str]]
    """A network, and the public address whose packets it lets in."""
    paths: Mapping[tuple[str, str], str]
    """(client, server) to placement."""

    def vm(self, name: str) -> Vm:
        """Return the VM called `name`."""
        return {vm.name: vm for vm in self.vms}[name]

    @property
    def balanced(self) -> list[Vm]:
        """VMs behind a load balancer."""
        return [vm for vm in self.vms if vm.address == AT_BALANCER]

    @property
    def regions(self) -> list[str]:
        """Regions, home first."""
        return list(dict.fromkeys(v.region for v in self.vms))

    def public_addresses(self, public: bool) -> list[str]:
        """Return the region of each public address: VPN and NAT gateways, and `public` VMs."""
        behind_nat = filter(itemgetter("nat"), self.networks)
        regions = [row["region"] for row in (*self.gateways, *behind_nat)]
        if public:
            regions += map(attrgetter("region"), self.vms)
        return regions

    def values(self) -> dict[str, list[Any]]:
        """Return the parts by kind, as parameters of the template."""
        parts = asdict(self)
        del parts["paths"]
        return parts

    def text(self) -> str:
        """Return all parts, to compare with those created earlier."""
        return json.dumps(self.values())


class _Needs(TemplateRow):
    """What pairs and options say about one host."""

    def add(self, who: str, **needs: Any) -> None:
        """Note what a host needs; a conflict is an error that names both."""
        for what, value in needs.items():
            before, by = self.setdefault(what, (value, who))
            if before != value:
                first, second = WORDS.get(before, before), WORDS.get(value, value)
                raise ExperimentError(
                    f"a host should have {what} {first} ({by}) and {second} ({who}); "
                    "name another host in one of them"
                )

    def level(self, what: str, default: Any) -> Any:
        """Return what it needs."""
        return self.get(what, (default, ""))[0]


def alternatives(experiment: Experiment, options: Options) -> list[Topology]:
    """Return what is declared, then what else is allowed after a capacity failure, each once."""
    declared = topology(experiment, options)
    found = {declared.text(): declared}
    zones = options.zones
    turns = range(1, len(zones)) if options.alternative_zones else ()
    for turn in turns:
        turned = options.model_copy(update={"zones": zones[turn:] + zones[:turn]})
        with contextlib.suppress(ExperimentError):
            other = topology(experiment, turned)
            found.setdefault(other.text(), other)
    return list(found.values())


def topology(experiment: Experiment, options: Options) -> Topology:
    """Derive what has to be created; ExperimentError if that is impossible.

    A client is in the home network, in the first zone; each server is where the placement of its
    pair puts it, relative to the client; `options.vms` overrides region, zone and size of a VM.
    """
    for pair in experiment.pairs:
        if problem := next(_problems(options, pair), None):
            raise ExperimentError(f"{experiment.name}: {_who(pair)}: {problem}")
    needs: dict[str, _Needs] = {}
    for pair in experiment.pairs:
        needs.setdefault(pair.client, _Needs())
        needs.setdefault(pair.server, _Needs())
    if problem := next(_misnamed(needs), None):
        raise ExperimentError(f"{experiment.name}: {problem}")
    for name, own in options.vms.items():
        if name not in needs:
            raise ExperimentError(
                f"{experiment.name}: hosts.options.vms names {name!r}, which is in no pair "
                f"(hosts: {', '.join(needs)})"
            )
        needs[name].add(f"hosts.options.vms.{name}", **own.model_dump(exclude_none=True))
    for pair in experiment.pairs:
        _apply(pair, needs[pair.client], needs[pair.server], options)
    vms = {name: _vm(name, need, options) for name, need in needs.items()}
    for vm in vms.values():
        if problem := next(_unsuitable(vm, options), None):
            raise ExperimentError(f"{experiment.name}: host {vm.name!r} {problem}")
    return _joined(experiment, options, vms)


def _misnamed(names: Iterable[str]) -> Iterator[str]:
    """Which hosts cannot have their names in Azure, which does not distinguish case."""
    known: dict[str, str] = {}
    for name in names:
        if not HOST_NAME.fullmatch(name):
            yield (
                f"host {name!r} cannot be a VM of Azure: a name has 1 to 60 letters, digits and "
                "hyphens, and neither begins nor ends with a hyphen"
            )
        other = known.setdefault(name.lower(), name)
        if other != name:
            yield f"hosts {other!r} and {name!r} have one name in Azure; name one differently"


def _unsuitable(vm: Vm, options: Options) -> Iterator[str]:
    """Why a VM cannot have its size, and what to do about it."""
    if not vm.accelerated and ALWAYS_ACCELERATED.fullmatch(vm.vm_size):
        yield (
            "should have accelerated networking off, "
            f"but size {vm.vm_size} is always accelerated; choose a size of version 4 or 3, "
            "for example Standard_D8s_v4, for all hosts that are compared"
        )
    arm = bool(ARM.fullmatch(vm.vm_size))
    if arm != ("arm64" in options.image.lower()):
        processor, other = ("an Arm", "server-arm64") if arm else ("an x86", "server")
        yield (
            f"has size {vm.vm_size} with {processor} processor, for which image {options.image} is "
            "not; give hosts.options.image one, for example "
            f"Canonical:ubuntu-24_04-lts:{other}:latest"
        )


def _who(pair: Pair) -> str:
    return f"pair {pair.client} → {pair.server}, {pair.placement}"


def _problems(options: Options, pair: Pair) -> Iterator[str]:
    """Why a pair cannot be placed, and what to do about it."""
    rule = PLACEMENTS.get(pair.placement)
    if rule is None or not rule.meaning:
        yield (
            rule and rule.retired
        ) or f"unknown placement for Azure (known: {', '.join(PLACED)})"
        return
    unknown = VmOptions()
    client = options.vms.get(pair.client, unknown)
    server = options.vms.get(pair.server, unknown)
    is_known = options.remote_region or client.region or server.region
    if rule.far == "always" and not is_known:
        yield f"set hosts.options.remote_region, or the region of {pair.server} in vms"
    if options.subnet and (rule.network or rule.client_network or rule.subnet != "hosts"):
        yield (
            "hosts.options.subnet is an existing network, in which this cannot be made; "
            "remove subnet, or list VMs of your own as an inventory"
        )


def _apply(pair: Pair, client: _Needs, server: _Needs, options: Options) -> None:
    who, rule = _who(pair), PLACED[pair.placement]
    for what in ("accelerated", "tcp_buffer_bytes"):
        if (value := getattr(pair, what)) is not None:
            client.add(who, **{what: value})
            server.add(who, **{what: value})
    server.add(who, address=rule.address)
    usual = options.remote_region or options.region
    if rule.far:
        if client.level("network", HOME_NETWORK) == _far(
            rule.network, client.level("region", usual), usual
        ):
            # the way back: the client is the far one, by an earlier pair
            server.add(who, network=HOME_NETWORK)
            return
        region = server.level("region", usual)
        client.add(who, network=rule.client_network or HOME_NETWORK)
        server.add(who, network=_far(rule.network, region, usual), region=region)
        if region != client.level("region", options.region):
            server.setdefault("zone", ("", who))
        return
    client.add(who, network=client.level("network", HOME_NETWORK))
    server.add(who, network=rule.network or HOME_NETWORK)
    if rule.subnet != "hosts":
        server.add(who, subnet=rule.subnet)
    home = zone = client.level("zone", "".join(options.zones[:1]))
    if rule.other_zone:
        others = [zone for zone in options.zones if zone != home]
        zone = server.level("zone", "".join(others[:1]) or home)
        if zone == home:
            raise ExperimentError(
                f"{who}: both hosts would be in zone {home}; give hosts.options.zones two, "
                "or the server another one"
            )
    if zone:
        server.add(who, zone=zone)
    if rule.grouped:
        client.add(who, ppg=True)
    if rule.grouped is not None:
        # the client may be in the group for the sake of another pair
        server.add(who, ppg=rule.grouped)


def _far(network: str, region: str, usual: str) -> str:
    """Network of a far host: every far region has networks of its own."""
    return network if region == usual else f"{network}-{region}"


def _vm(name: str, need: _Needs, options: Options) -> Vm:
    vm = Vm(name, options.region, "".join(options.zones[:1]), options.vm_size)
    vm = replace(vm, **{what: value for what, (value, _) in need.items()})
    if not vm.ppg:
        return replace(vm, ppg="")
    return replace(vm, ppg="-".join(filter(None, ("ppg", vm.region, vm.zone))))


def _joined(experiment: Experiment, options: Options, vms: dict[str, Vm]) -> Topology:
    networks = _networks(experiment, options, vms)
    peerings: list[tuple[str, str]] = []
    admitted: list[tuple[str, str]] = []
    gateways: dict[str, TemplateRow] = {}
    connections: dict[tuple[str, str], TemplateRow] = {}
    for pair in experiment.pairs:
        rule = PLACED[pair.placement]
        ends = [networks[vms[name].network] for name in (pair.client, pair.server)]
        a, b = (end["name"] for end in ends)
        if rule.peered and a != b:
            peerings += [(a, b), (b, a)]
        if rule.address == AT_PUBLIC:
            # a NAT gateway precedes the client's own address
            admitted.append((b, f"ip-nat-{a}" if ends[0]["nat"] else f"ip-{pair.client}"))
        for mine, far in (ends, ends[::-1]) if rule.gateway else ():
            one, other = (f"{pair.placement}-{end['name']}" for end in (mine, far))
            place = {"name": one, "network": mine["name"], "region": mine["region"]}
            gateways[one] = place | {"kind": rule.gateway, "sku": options.vpn_sku}
            link = {"name": f"cn-{one}-{other}", "one": one, "other": other}
            connections[one, other] = place | link
    return Topology(
        vms=list(vms.values()),
        networks=list(networks.values()),
        ppgs=_groups(vms.values()),
        peerings=list(dict.fromkeys(peerings)),
        gateways=list(gateways.values()),
        connections=list(connections.values()),
        admitted=list(dict.fromkeys(admitted)),
        paths={(p.client, p.server): p.placement for p in experiment.pairs},
    )


def _groups(vms: Iterable[Vm]) -> list[TemplateRow]:
    """The proximity placement groups, with the sizes of their members."""
    rows: dict[str, TemplateRow] = {}
    for vm in vms:
        if vm.ppg:
            place = {"name": vm.ppg, "region": vm.region, "zone": vm.zone, "sizes": []}
            sizes = rows.setdefault(vm.ppg, place)["sizes"]
            sizes[:] = sorted({*sizes, vm.vm_size})
    return list(rows.values())


def _networks(
    experiment: Experiment, options: Options, vms: dict[str, Vm]
) -> dict[str, TemplateRow]:
    blocks = options.address_space.subnets(new_prefix=23)
    behind_nat = set(map(attrgetter("client_network"), PLACEMENTS.values()))
    rows: dict[str, TemplateRow] = {}
    for vm in vms.values():
        if vm.network not in rows:
            prefix = "" if options.subnet else str(next(blocks))
            nat = vm.network in behind_nat
            row = {"name": vm.network, "region": vm.region, "prefix": prefix, "nat": nat}
            rows[vm.network] = row
        if vm.region != rows[vm.network]["region"]:
            raise ExperimentError(
                f"{experiment.name}: hosts of virtual network {vm.network} are in {vm.region} "
                f"and in {rows[vm.network]['region']}"
            )
    return rows
