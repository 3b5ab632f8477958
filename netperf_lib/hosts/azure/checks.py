"""Checks made before any money is spent: what Azure itself does not say in time, or not clearly."""

from __future__ import annotations

import re
from collections import Counter
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
    problems: list[str] = field(default_factory=list)
    """Each prevents the start."""
    elsewhere: list[str] = field(default_factory=list)
    """Each prevents the start, but another zone or size may work."""

    @cached_property
    def cost(self) -> Cost:
        """The cost of all deployments."""
        return cost(
            self.topology,
            self.options,
            measuring_s=self.workload.measuring_s,
            deployments=self.experiment.deployments,
            traffic=self.workload.traffic,
        )


Inspection = Callable[[Runs, Preflight], str]
_ADDRESSES = (
    "publicipaddresses",
    "standardskupublicipaddresses",
    "ipv4standardskupublicipaddresses",
)


def account(name: str | None) -> Any:
    """Return what az says of a subscription, by name or id; None: the selected one."""
    chosen = ("--subscription", name) if name else ()
    return az_module.Az()("account", "show", *chosen)


def examine(
    findings: Preflight, name: str | None, rehearse: Inspection
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    `name` is of the subscription, which is looked up once; every later command names its id.
    `rehearse` has Azure validate the whole. AzureError if nobody is logged in.
    """
    chosen = account(name)
    findings.subscription = chosen["id"]
    user = (chosen.get("user") or {}).get("name", "unknown")
    yield "login", f"user {user}, subscription {chosen['name']} ({chosen['id']})", True
    az = az_module.Az(findings.subscription)
    for subject, check in {**CHECKS, "validation": rehearse}.items():
        problems, elsewhere = len(findings.problems), len(findings.elsewhere)
        if check is rehearse and problems + elsewhere:
            return  # it would say the same
        words = ""
        try:
            words = check(az, findings)
        except AzError as failure:
            if failure.kind == "login":
                raise
            may_help = failure.kind == "capacity"
            trouble = findings.elsewhere if may_help else findings.problems
            trouble.append(re.sub("^az [^:]*: ", "", str(failure)))
        wrong = findings.problems[problems:] + findings.elsewhere[elsewhere:]
        yield subject, "; ".join(wrong) or words, not wrong


def _zones(az: Runs, findings: Preflight) -> str:
    zones = findings.physical_zones = locations(az, findings.subscription)
    for region, zone in dict.fromkeys((v.region, v.zone) for v in findings.topology.vms):
        if region not in zones:
            findings.problems.append(
                f"region {region!r} is not open to this subscription: "
                "choose one of `az account list-locations`"
            )
        elif zone and zone not in zones[region]:
            findings.problems.append(
                f"region {region} has no zone {zone} (it has {', '.join(zones[region]) or 'none'}):"
                " correct hosts.options.zones, or the zone of its VMs in hosts.options.vms"
            )
    return ", ".join(
        f"{r} ({len(zones.get(r, ()))} zones)" for r in findings.topology.regions
    )


def _addresses(az: Runs, findings: Preflight) -> str:
    """Whether the public addresses are free, which Azure itself says too late."""
    public = findings.topology.public_addresses(not findings.options.subnet)
    need = Counter(region for region in public if region in findings.physical_zones)
    for region, number in need.items():
        for usage in az("network", "list-usages", "--location", region) or ():
            name, limit = usage["name"]["value"], int(usage["limit"])
            left = limit - int(usage["currentValue"])
            # a limit of -1 is none
            if name.lower() in _ADDRESSES and number > max(left, 0) and limit != -1:
                findings.problems.append(
                    f"quota of {name} in {region}: {number} needed, {left} free of {limit}; ask "
                    "for more at https://aka.ms/quota, or declare fewer VMs"
                )
    return ", ".join(f"{n} public addresses in {r}" for r, n in need.items()) or "none"


def _access(az: Runs, findings: Preflight) -> str:
    """Who may reach port 22; that nobody is known is a problem."""
    findings.allow_from = callers(findings.options)
    if not findings.allow_from:
        findings.problems.append(
            "this machine's public IPv4 address cannot be determined: "
            "give hosts.options.allow_from (port 22 is never opened to all)"
        )
    return f"port 22 will be open to {', '.join(findings.allow_from)}"


def callers(options: Options) -> tuple[str, ...]:
    """Return what may reach port 22, else this machine's own address; none if it is not known."""
    if options.callers:
        return options.callers
    address = public_address()
    return (f"{address}/32",) if address and ":" not in address else ()


def _price(az: Runs, findings: Preflight) -> str:
    """The estimate for the whole experiment against its budget."""
    estimate, budget = findings.cost, findings.experiment.budget
    if budget is not None and estimate.amount is None:
        findings.problems.append(
            f"budget {budget:g} cannot be kept: its cost is {estimate}"
        )
    elif budget is not None and (estimate.amount or 0) > budget:
        findings.problems.append(
            f"a cost of {estimate} is above the budget of {budget:g}: "
            "measure less, use smaller VMs, or raise it"
        )
    rates = "; ".join(duration(findings.options, estimate))
    within = f", within the budget of {budget:g}" if budget is not None else ""
    return f"{estimate}{within}; {rates}"


def _time(az: Runs, findings: Preflight) -> str:
    """The time that a deployment runs against its expiry."""
    expires_h = findings.options.expires_h
    each_h = findings.cost.hours / findings.experiment.deployments
    words = f"a deployment is expected to run for {each_h:.1f} h, and expires after {expires_h:g}"
    if each_h > expires_h:
        findings.problems.append(
            f"{words}: raise hosts.options.expires_h, or measure less"
        )
    return "; ".join([words, *findings.workload.notes])


CHECKS: dict[str, Inspection] = {
    "zones": _zones,
    "addresses": _addresses,
    "access": _access,
    "price": _price,
    "time": _time,
}
"""Subject to check: each adds what is wrong to the findings, and returns what it found."""
