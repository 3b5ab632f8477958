"""What will exist, for how long, and what goes on costing: from the declaration alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from .options import Options
from .prices import CURRENCY, Cost, paid, source
from .topology import Topology, Vm

_SIZE = re.compile(
    r"(?:Standard|Basic)_([A-Z]+)(\d+)(?:-(\d+))?([a-z]*)(?:_[A-Z]\w*?)?(?:_(v\d+))?"
)
"""Letters, processors, processors that are used, features and version
(learn.microsoft.com/azure/virtual-machines/vm-naming-conventions)."""


def vcpus(vm_size: str) -> tuple[str, int] | None:
    """Return family and number of virtual processors of a size; None if its name does not say.

    Examples
    --------
    >>> vcpus("Standard_D8s_v4")
    ('DSv4', 8)
    """
    parts = _SIZE.fullmatch(vm_size)
    if parts is None:
        return None
    letters, number, used, features, version = parts.groups()
    return f"{letters}{features.upper()}{version or ''}", int(used or number)


def _place(vm: Vm) -> str:
    zone = f"zone {vm.zone}" if vm.zone else "no zone"
    group = f", proximity placement group {vm.ppg}" if vm.ppg else ""
    return f"{vm.vm_size} in {vm.region}, {zone}{group}"


def _processors(topology: Topology) -> str:
    """The sum over all VMs, as quotas count it."""
    total: Counter[tuple[str, str]] = Counter()
    unknown = set()
    for vm in topology.vms:
        known = vcpus(vm.vm_size)
        if known is None:
            unknown.add(vm.vm_size)
            continue
        family, number = known
        total[family, vm.region] += number
    words = [f"{n} of {family} in {region}" for (family, region), n in total.items()]
    if unknown:
        words.append(f"unknown for {', '.join(sorted(unknown))}")
    return f"vCPUs: {', '.join(words)}"


def contents(topology: Topology, options: Options) -> Iterator[str]:
    """Yield a line for everything that a deployment creates, and for what is open to whom."""
    together: dict[str, list[str]] = {}
    for vm in topology.vms:
        together.setdefault(_place(vm), []).append(vm.name)
    for place, names in together.items():
        yield f"{len(names)} × {place}: {', '.join(names)}"
    yield _processors(topology)
    for (what, region, kind), n in paid(topology).items():
        if kind != "vm":
            gateway = "VPN gateway " if kind == "Vpn" else ""
            yield f"{n} × {gateway}{what} in {region}"
    for network in topology.networks:
        where = network["prefix"] or f"in {options.subnet}"
        yield f"network {network['name']} in {network['region']}: {where}"
    own = ("the public address of the machine where `npl up` runs",)
    yield f"port 22 is open to {', '.join(options.callers or own)}"
    for name, address in topology.admitted:
        yield f"ports 1024 to 65535 of network {name} are open to {address}"


def duration(options: Options, cost: Cost) -> Iterator[str]:
    """Yield what is paid, what stops after how long, and what goes on costing."""
    yield f"all of it costs {_rate(cost.running_h, cost)}"
    stops = "a schedule stops" if options.stopped else "nothing stops"
    yield (
        f"after {options.expires_h:g} h {stops} the VMs; the rest goes on costing "
        f"{_rate(cost.idle_h, cost)} until `npl down`"
    )


def _rate(hourly: float, cost: Cost) -> str:
    """The cost by time; what has no price is not in it."""
    if cost.is_partial and not hourly:
        return "an unknown amount"
    least = "at least " * cost.is_partial
    return f"{least}{hourly:.2f} {CURRENCY} an hour, {24 * hourly:.2f} a day"


def preview(
    topology: Topology, options: Options, cost: Cost, deployments: int
) -> tuple[str, ...]:
    """Return the lines of `npl plan` on what will exist."""
    lead = "creates, in a resource group of its own:"
    if deployments > 1:
        lead = f"creates {deployments} times, one after the other, in a group of its own:"
    lines = [*contents(topology, options), *duration(options, cost), source(cost)]
    return lead, *(f"  {line}" for line in lines)
