"""From declared pairs to VMs, networks and their connections: pure functions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...errors import ExperimentError
from ...experiment.model import Experiment, Pair
from ...experiment.placements import AT_PUBLIC, PLACED, PLACEMENTS, Placement
from .options import Options

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
    def behind_nat(self) -> list[TemplateRow]:
        """Networks behind a NAT gateway."""
        return [network for network in self.networks if network["nat"]]

    @property
    def addresses(self) -> list[str]:
        """The region of each public address; there are none in an existing subnet."""
        regions = [row["region"] for row in (*self.gateways, *self.behind_nat)]
        if self.networks[0]["prefix"]:
            regions += [vm.region for vm in self.vms]
        return regions

    def values(self) -> dict[str, list[Any]]:
        """Return the parts by kind, as parameters of the template."""
        parts = asdict(self)
        del parts["paths"]
        return parts


@dataclass
class _Needs:
    """What pairs and options say about one host."""

    values: dict[str, Any] = field(default_factory=dict)
    """Fields of a VM; `ppg` is whether it is in a proximity placement group."""
    sources: dict[str, str] = field(default_factory=dict)
    """Who said it."""

    def add(self, who: str, **needs: Any) -> None:
        """Note what a host needs, if not None; a conflict is an error that names both."""
        for what, value in needs.items():
            if value is None:
                continue
            before = self.values.setdefault(what, value)
            by = self.sources.setdefault(what, who)
            if before != value:
                first, second = WORDS.get(before, before), WORDS.get(value, value)
                raise ExperimentError(
                    f"a host should have {what} {first} ({by}) and {second} ({who}); "
                    "name another host in one of them"
                )


def alternatives(experiment: Experiment, options: Options) -> list[Topology]:
    """Return what is declared, then what else is allowed after a capacity failure, each once."""
    found = [topology(experiment, options)]
    zones = options.zones
    for turn in range(1, len(zones)) if options.alternative_zones else ():
        turned = options.model_copy(update={"zones": zones[turn:] + zones[:turn]})
        with contextlib.suppress(ExperimentError):
            other = topology(experiment, turned)
            if other not in found:
                found.append(other)
    return found


def topology(experiment: Experiment, options: Options) -> Topology:
    """Derive what has to be created; ExperimentError if that is impossible.

    A client is in the home network, in the first zone; each server is where the placement of its
    pair puts it, relative to the client; `options.vms` overrides region, zone and size of a VM.
    """
    try:
        return _joined(experiment.pairs, options, _vms(experiment.pairs, options))
    except ExperimentError as error:
        raise ExperimentError(f"{experiment.name}: {error}") from None


def _vms(pairs: Sequence[Pair], options: Options) -> dict[str, Vm]:
    """The VMs by name, in the order of the pairs."""
    needs: dict[str, _Needs] = {}
    for pair in pairs:
        needs.setdefault(pair.client, _Needs())
        needs.setdefault(pair.server, _Needs())
    _check_names(needs)
    for name, own in options.vms.items():
        if name not in needs:
            raise ExperimentError(
                f"hosts.options.vms names {name!r}, which is in no pair "
                f"(hosts: {', '.join(needs)})"
            )
        needs[name].add(f"hosts.options.vms.{name}", **own.model_dump())
    for pair in pairs:
        _apply(pair, needs[pair.client], needs[pair.server], options)
    usual = Vm("", options.region, "".join(options.zones[:1]), options.vm_size)
    vms = {}
    for name, need in needs.items():
        is_grouped = need.values.pop("ppg", False)
        vm = replace(usual, name=name, **need.values)
        if is_grouped:
            place = filter(None, ("ppg", vm.region, vm.zone))
            vm = replace(vm, ppg="-".join(place))
        _check_size(vm, options)
        vms[name] = vm
    return vms


def _check_names(names: Iterable[str]) -> None:
    """Refuse hosts that cannot have their names in Azure, which does not distinguish case."""
    known: dict[str, str] = {}
    for name in names:
        if not HOST_NAME.fullmatch(name):
            raise ExperimentError(
                f"host {name!r} cannot be a VM of Azure: a name has 1 to 60 letters, digits and "
                "hyphens, and neither begins nor ends with a hyphen"
            )
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ExperimentError(
                f"hosts {other!r} and {name!r} have one name in Azure; name one differently"
            )


def _check_size(vm: Vm, options: Options) -> None:
    """Refuse a size that a VM cannot have."""
    if not vm.accelerated and ALWAYS_ACCELERATED.fullmatch(vm.vm_size):
        raise ExperimentError(
            f"host {vm.name!r} should have accelerated networking off, "
            f"but size {vm.vm_size} is always accelerated; choose a size of version 4 or 3, "
            "for example Standard_D8s_v4, for all hosts that are compared"
        )
    is_arm = bool(ARM.fullmatch(vm.vm_size))
    if is_arm != ("arm64" in options.image.lower()):
        processor, other = ("an Arm", "server-arm64") if is_arm else ("an x86", "server")
        raise ExperimentError(
            f"host {vm.name!r} has size {vm.vm_size} with {processor} processor, for which image "
            f"{options.image} is not; give hosts.options.image one, for example "
            f"Canonical:ubuntu-24_04-lts:{other}:latest"
        )


def _rule(who: str, pair: Pair, options: Options) -> Placement:
    """The entry of a pair's placement, if it can be created."""
    rule = PLACEMENTS.get(pair.placement, Placement())
    if not rule.meaning:
        unknown = f"unknown placement for Azure (known: {', '.join(PLACED)})"
        raise ExperimentError(f"{who}: {rule.retired or unknown}")
    if options.subnet and (rule.network or rule.client_network):
        raise ExperimentError(
            f"{who}: hosts.options.subnet is an existing network, in which this cannot be made; "
            "remove subnet, or list VMs of your own as an inventory"
        )
    return rule


def _apply(pair: Pair, client: _Needs, server: _Needs, options: Options) -> None:
    """Note what a pair needs of its hosts."""
    who = f"pair {pair.client} → {pair.server}, {pair.placement}"
    rule = _rule(who, pair, options)
    both = {"accelerated": pair.accelerated, "tcp_buffer_bytes": pair.tcp_buffer_bytes}
    # the client may be in the group for the sake of another pair
    client.add(who, **both, ppg=rule.grouped or None)
    server.add(who, **both, ppg=rule.grouped, address=rule.address)
    if rule.far:
        _apply_far(who, rule, client, server, options)
        return
    client.add(who, network=client.values.get("network", HOME_NETWORK))
    server.add(who, network=rule.network or HOME_NETWORK)
    home = zone = client.values.get("zone", "".join(options.zones[:1]))
    if rule.other_zone:
        others = [zone for zone in options.zones if zone != home]
        zone = server.values.get("zone", "".join(others[:1]) or home)
        if zone == home:
            raise ExperimentError(
                f"{who}: both hosts would be in zone {home}; give hosts.options.zones two, "
                "or the server another one"
            )
    server.add(who, zone=zone or None)


def _apply_far(
    who: str, rule: Placement, client: _Needs, server: _Needs, options: Options
) -> None:
    """Put the server into another region, in no zone, unless the client is there already."""
    there = client.values.get("region")
    region = server.values.get("region") or options.remote_region
    if rule.far == "always" and not (there or region):
        raise ExperimentError(
            f"{who}: set hosts.options.remote_region, or the region of the server in vms"
        )
    usual = options.remote_region or options.region
    if client.values.get("network") == f"{rule.network}-{there or usual}":
        # the way back: the client is the far one, by an earlier pair
        server.add(who, network=HOME_NETWORK)
        return
    region = region or options.region
    client.add(who, network=rule.client_network or HOME_NETWORK)
    # every far region has networks of its own
    server.add(who, network=f"{rule.network}-{region}", region=region)
    if region != (there or options.region):
        server.values.setdefault("zone", "")
        server.sources.setdefault("zone", who)


def _joined(pairs: Sequence[Pair], options: Options, vms: dict[str, Vm]) -> Topology:
    networks = _networks(options, vms.values())
    peerings, admitted = [], []
    gateways: dict[str, TemplateRow] = {}
    connections: dict[str, TemplateRow] = {}
    for pair in pairs:
        rule = PLACED[pair.placement]
        home, far = vms[pair.client].network, vms[pair.server].network
        if rule.peered and home != far:
            peerings += [(home, far), (far, home)]
        if rule.address == AT_PUBLIC:
            source = pair.client
            if networks[home]["nat"]:
                # a NAT gateway precedes the client's own address
                source = f"nat-{home}"
            admitted.append((far, f"ip-{source}"))
        if rule.gateway:
            for network, other in ((home, far), (far, home)):
                name, end = f"{pair.placement}-{network}", f"{pair.placement}-{other}"
                region = networks[network]["region"]
                place = {"name": name, "network": network, "region": region}
                gateways[name] = place | {"kind": rule.gateway, "sku": options.vpn_sku}
                link = {"name": f"cn-{name}-{end}", "one": name, "other": end}
                connections[link["name"]] = place | link
    return Topology(
        vms=list(vms.values()),
        networks=list(networks.values()),
        ppgs=_groups(vms.values()),
        gateways=list(gateways.values()),
        connections=list(connections.values()),
        peerings=list(dict.fromkeys(peerings)),
        admitted=list(dict.fromkeys(admitted)),
        paths={(p.client, p.server): p.placement for p in pairs},
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


def _networks(options: Options, vms: Iterable[Vm]) -> dict[str, TemplateRow]:
    blocks = options.address_space.subnets(new_prefix=23)
    behind_nat = {rule.client_network for rule in PLACED.values()} - {""}
    rows: dict[str, TemplateRow] = {}
    for vm in vms:
        if vm.network not in rows:
            prefix = "" if options.subnet else str(next(blocks))
            nat = vm.network in behind_nat
            row = {"name": vm.network, "region": vm.region, "prefix": prefix, "nat": nat}
            rows[vm.network] = row
        if vm.region != rows[vm.network]["region"]:
            raise ExperimentError(
                f"hosts of virtual network {vm.network} are in {vm.region} "
                f"and in {rows[vm.network]['region']}"
            )
    return rows
