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
Inspection = Callable[[Runs, Preflight], list[str]]
"""It returns what it found, and then what is wrong."""


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
    wrong = False
    for subject, check in {**CHECKS, "validation": rehearse}.items():
        if check is rehearse and wrong:
            return  # it would say the same
        kind = "permanent"
        try:
            words, *problems = check(az, preflight)
        except AzError as failure:
            if failure.kind == "login":
                raise
            kind, words = failure.kind, ""
            problems = [re.sub("^az [^:]*: ", "", str(failure))]
        wrong = wrong or bool(problems)
        yield subject, "; ".join(problems) or words, kind if problems else ""


def _zones(az: Runs, preflight: Preflight) -> list[str]:
    zones = preflight.physical_zones = locations(az, preflight.subscription)
    regions, problems = {}, []
    for vm in preflight.topology.vms:
        there = zones.get(vm.region)
        if there is None:
            problems.append(
                f"region {vm.region!r} is not open to this subscription: "
                "choose one of `az account list-locations`"
            )
        elif vm.zone and vm.zone not in there:
            problems.append(
                f"region {vm.region} has no zone {vm.zone} (it has "
                f"{', '.join(there) or 'none'}): correct hosts.options.zones, or the zone of its "
                "VMs in hosts.options.vms"
            )
        regions[vm.region] = f"{vm.region} ({len(there or ())} zones)"
    return [", ".join(regions.values()), *dict.fromkeys(problems)]


def _access(az: Runs, preflight: Preflight) -> list[str]:
    """Who may reach port 22: what is declared, or this machine; that nobody is known is wrong."""
    address = public_address() if not preflight.options.callers else None
    own = (f"{address}/32",) if address and ":" not in address else ()
    preflight.allow_from = preflight.options.callers or own
    found = f"port 22 will be open to {', '.join(preflight.allow_from)}"
    if preflight.allow_from:
        return [found]
    problem = (
        "this machine's public IPv4 address cannot be determined: "
        "give hosts.options.allow_from (port 22 is never opened to all)"
    )
    return [found, problem]


def _price(az: Runs, preflight: Preflight) -> list[str]:
    """The estimate for the whole experiment against its budget."""
    estimate, budget = preflight.cost, preflight.experiment.budget
    rates = "; ".join(duration(preflight.options, estimate))
    if budget is None:
        return [f"{estimate}; {rates}"]
    if estimate.amount is None:
        return ["", f"budget {budget:g} cannot be kept: its cost is {estimate}"]
    if estimate.amount > budget:
        problem = (
            f"a cost of {estimate} is above the budget of {budget:g}: "
            "measure less, use smaller VMs, or raise it"
        )
        return ["", problem]
    return [f"{estimate}, within the budget of {budget:g}; {rates}"]


def _time(az: Runs, preflight: Preflight) -> list[str]:
    """The time that a deployment runs against its expiry."""
    expires_h = preflight.options.expires_h
    each_h = preflight.cost.hours / preflight.experiment.deployments
    words = f"a deployment is expected to run for {each_h:.1f} h, and expires after {expires_h:g}"
    if each_h > expires_h:
        return ["", f"{words}: raise hosts.options.expires_h, or measure less"]
    return ["; ".join([words, *preflight.workload.notes])]


CHECKS: dict[str, Inspection] = {
    "zones": _zones,
    "access": _access,
    "price": _price,
    "time": _time,
}
"""Subject to check, in this order."""
