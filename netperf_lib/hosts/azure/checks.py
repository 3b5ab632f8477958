"""Checks made before any money is spent: what Azure itself does not say in time, or not clearly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...experiment.model import Experiment
from ..source import Workload
from . import az as az_module
from .az import Runs, Zones, locations
from .failures import AzError
from .options import Options
from .plan import duration
from .prices import Cost, cost, public_address
from .topology import Topology


@dataclass(kw_only=True)
class Preflight:
    """What is to be placed, what for, and what the checks find."""

    experiment: Experiment
    options: Options
    topology: Topology
    workload: Workload
    subscription: str = ""
    allow_from: tuple[str, ...] = ()
    physical_zones: Zones = field(default_factory=dict)

    @cached_property
    def cost(self) -> Cost:
        """The cost of all deployments."""
        deployments = self.experiment.deployments
        return cost(self.topology, self.options, self.workload, deployments)


Finding = tuple[str, str, str]
"""Subject, what was found or what to do, and the kind of failure that it is, or ""."""
Inspection = Callable[[Runs, Preflight], str]
"""It returns what it found; AzError says what is wrong."""


def _problem(text: str) -> AzError:
    return AzError(text, code="Checked", kind="permanent")


def account(name: str | None) -> Any:
    """Return what az says of a subscription, by name or id; None: the selected one."""
    chosen = ("--subscription", name) if name else ()
    return az_module.Az()("account", "show", *chosen)


def examine(
    preflight: Preflight, name: str | None, rehearse: Inspection
) -> Iterator[Finding]:
    """Yield a finding of each check; nothing is created.

    `name` is of the subscription, which is looked up once; every later command names its id.
    `rehearse` has Azure validate the whole. AzureError if nobody is logged in.
    """
    chosen = account(name)
    preflight.subscription = chosen["id"]
    user = (chosen.get("user") or {}).get("name", "unknown")
    yield "login", f"user {user}, subscription {chosen['name']} ({chosen['id']})", ""
    az = az_module.Az(preflight.subscription)
    is_wrong = False
    for subject, check in {**CHECKS, "validation": rehearse}.items():
        if check is rehearse and is_wrong:
            return  # it would say the same
        kind = ""
        try:
            words = check(az, preflight)
        except AzError as failure:
            kind = failure.kind
            if kind == "login":
                raise
            is_wrong = True
            words = re.sub("^az [^:]*: ", "", str(failure))
        yield subject, words, kind


def _zones(az: Runs, preflight: Preflight) -> str:
    zones = preflight.physical_zones = locations(az, preflight.subscription)
    regions, problems = {}, []
    for vm in preflight.topology.vms:
        there = zones.get(vm.region)
        if there is None:
            problems.append(
                f"region {vm.region!r} is not open to this subscription: "
                "choose one of `az account list-locations`"
            )
            continue
        if vm.zone and vm.zone not in there:
            problems.append(
                f"region {vm.region} has no zone {vm.zone} (it has "
                f"{', '.join(there) or 'none'}): correct hosts.options.zones, or the zone of its "
                "VMs in hosts.options.vms"
            )
        regions[vm.region] = f"{vm.region} ({len(there)} zones)"
    if problems:
        raise _problem("; ".join(dict.fromkeys(problems)))
    return ", ".join(regions.values())


def _access(az: Runs, preflight: Preflight) -> str:
    """Who may reach port 22: what is declared, or this machine; that nobody is known is wrong."""
    preflight.allow_from = preflight.options.callers
    if not preflight.allow_from:
        address = public_address()
        if not address or ":" in address:
            raise _problem(
                "this machine's public IPv4 address cannot be determined: "
                "give hosts.options.allow_from (port 22 is never opened to all)"
            )
        preflight.allow_from = (f"{address}/32",)
    return f"port 22 will be open to {', '.join(preflight.allow_from)}"


def _price(az: Runs, preflight: Preflight) -> str:
    """The estimate for the whole experiment against its budget."""
    estimate, budget = preflight.cost, preflight.experiment.budget
    words = str(estimate)
    if budget is not None:
        if estimate.amount is None:
            raise _problem(f"budget {budget:g} cannot be kept: its cost is {estimate}")
        if estimate.amount > budget:
            raise _problem(
                f"a cost of {estimate} is above the budget of {budget:g}: "
                "measure less, use smaller VMs, or raise it"
            )
        words += f", within the budget of {budget:g}"
    return "; ".join([words, *duration(preflight.options, estimate)])


def _time(az: Runs, preflight: Preflight) -> str:
    """The time that a deployment runs against its expiry."""
    expires_h = preflight.options.expires_h
    each_h = preflight.cost.hours / preflight.experiment.deployments
    words = f"a deployment is expected to run for {each_h:.1f} h, and expires after {expires_h:g}"
    if each_h > expires_h:
        raise _problem(f"{words}: raise hosts.options.expires_h, or measure less")
    return "; ".join([words, *preflight.workload.notes])


CHECKS: dict[str, Inspection] = {
    "zones": _zones,
    "access": _access,
    "price": _price,
    "time": _time,
}
"""Subject to check, in this order."""
