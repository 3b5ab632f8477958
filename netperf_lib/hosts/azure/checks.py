"""Checks made before any money is spent: what Azure itself does not say in time, or not clearly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...experiment.model import Experiment
from ..source import Workload
from .az import Runs, Zones, locations
from .failures import AzError
from .options import Options
from .prices import CURRENCY, MONTH_H, Cost, cost, public_address
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
    skus: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """(region, size) to Azure's description of that size there."""
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

    @property
    def left_running(self) -> str:
        """What goes on costing when a deployment has expired."""
        stops = "a schedule stops" if self.options.stopped else "nothing stops"
        hour = self.cost.idle_h
        return (
            f"After {self.options.expires_h:g} h {stops} the VMs; gateways, addresses, load "
            f"balancers and disks go on costing {24 * hour:.2f} {CURRENCY} a day, "
            f"{MONTH_H * hour:.0f} a month"
        )


Inspection = Callable[[Runs, Preflight], str]


def _capability(sku: Mapping[str, Any], name: str) -> str:
    listed = sku.get("capabilities") or ()
    return next((str(c["value"]).lower() for c in listed if c["name"] == name), "")


def zones_of(sku: Mapping[str, Any], region: str) -> set[str]:
    """Return the zones of a region in which a size is available to this subscription."""
    infos = [i for i in sku.get("locationInfo") or () if i["location"].lower() == region]
    barred = [r.get("restrictionInfo") or {} for r in sku.get("restrictions") or ()]
    closed = {z for info in barred for z in info.get("zones") or ()}
    return {z for i in infos for z in i.get("zones") or ()} - closed


def examine(
    findings: Preflight, az: Runs, rehearse: Inspection
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    `rehearse` has Azure validate the whole. AzureError if nobody is logged in.
    """
    for subject, check in {**CHECKS, "validation": rehearse}.items():
        problems, elsewhere = len(findings.problems), len(findings.elsewhere)
        if check is rehearse and problems + elsewhere:
            return  # it would say the same
        words = ""
        try:
            words = check(az, findings)
        except AzError as failure:
            if subject == "login" or failure.deed == "login":
                raise
            may_help = failure.deed == "alternative"
            trouble = findings.elsewhere if may_help else findings.problems
            trouble.append(re.sub("^az [^:]*: ", "", str(failure)))
        wrong = findings.problems[problems:] + findings.elsewhere[elsewhere:]
        yield subject, "; ".join(wrong) or words, not wrong


def _login(az: Runs, findings: Preflight) -> str:
    """Who is logged in, and to which subscription."""
    name = findings.options.subscription
    account = az("account", "show", *(("--subscription", name) if name else ()))
    findings.subscription = account["id"]
    user = (account.get("user") or {}).get("name", "unknown")
    return f"user {user}, subscription {findings.subscription}"


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


def _sizes(az: Runs, findings: Preflight) -> str:
    asked = [(v.region, v.vm_size, v.zone, v.accelerated) for v in findings.topology.vms]
    for region, size, zone, accelerated in dict.fromkeys(asked):
        if region not in findings.physical_zones:
            continue
        if (region, size) not in findings.skus:
            # without --all, az leaves out what is closed to the subscription
            only = (
                "--location",
                region,
                "--size",
                size,
                "--resource-type",
                "virtualMachines",
            )
            listed = [s for s in az("vm", "list-skus", *only) or () if s["name"] == size]
            # az lists a size once more for the edge sites of a region, which have no zones
            best: Mapping[str, Any] = max(
                listed, key=lambda s: len(zones_of(s, region)), default={}
            )
            findings.skus[region, size] = best
        if why := _refused(findings, region, size, zone, accelerated=accelerated):
            findings.elsewhere.append(f"size {size} {why}")
    return ", ".join(f"{size} in {region}" for region, size in findings.skus)


def _refused(
    findings: Preflight, region: str, size: str, zone: str, *, accelerated: bool
) -> str:
    """Why VMs of a size cannot be placed, or ""."""
    sku = findings.skus[region, size]
    if not sku:
        return f"is not offered to this subscription in {region}: choose another"
    offered = zones_of(sku, region)
    if zone and zone in findings.physical_zones[region] and zone not in offered:
        others = ", ".join(sorted(offered)) or "none: choose another size"
        return f"is not available in zone {zone} of {region}, only in {others}"
    if accelerated and _capability(sku, "AcceleratedNetworkingEnabled") != "true":
        return "cannot have accelerated networking: choose another, or accelerated: false"
    return ""


def _quota(az: Runs, findings: Preflight) -> str:
    topology, counted = findings.topology, []
    addresses = Counter(topology.public_addresses(not findings.options.subnet))
    for region in topology.regions:
        need: Counter[str] = Counter()
        for vm in [v for v in topology.vms if v.region == region]:
            sku = findings.skus.get((region, vm.vm_size), {})
            cores = int(
                _capability(sku, "vCPUsAvailable") or _capability(sku, "vCPUs") or 0
            )
            need.update({sku.get("family", "").lower(): cores, "cores": cores})
        for kind in ("", "standardsku", "ipv4standardsku"):
            need[f"{kind}publicipaddresses"] = addresses[region]
        counted.append(
            f"{need['cores']} vCPUs and {addresses[region]} addresses in {region}"
        )
        vcpus = az("vm", "list-usage", "--location", region) or ()
        for usage in (
            *vcpus,
            *(az("network", "list-usages", "--location", region) or ()),
        ):
            name, limit = usage["name"]["value"], int(usage["limit"])
            left = limit - int(usage["currentValue"])
            # a limit of -1 is none
            if need[name.lower()] > max(left, 0) and limit != -1:
                findings.problems.append(
                    f"quota of {name} in {region}: {need[name.lower()]} needed, {left} free of "
                    f"{limit}; ask for more at https://aka.ms/quota, or declare fewer or smaller "
                    "VMs"
                )
    return f"{', '.join(counted)} are free"


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
    """Return the prefixes that may reach port 22; none if they are not known."""
    if options.allow_from is not None:
        return options.allow_from
    if options.subnet:
        return ("VirtualNetwork",)
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
    within = f", within the budget of {budget:g}" if budget is not None else ""
    return f"{estimate}{within}; {findings.left_running}"


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
    "login": _login,
    "zones": _zones,
    "sizes": _sizes,
    "quota": _quota,
    "access": _access,
    "price": _price,
    "time": _time,
}
"""Subject to check: each adds what is wrong to the findings, and returns what it found."""
