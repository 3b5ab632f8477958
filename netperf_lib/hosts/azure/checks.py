"""Checks made before any money is spent: what Azure itself does not say in time, or not clearly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...errors import AzureError, did_you_mean
from ...experiment.model import Experiment
from ..source import Workload
from .az import Runs, Zones, locations
from .failures import AzError
from .options import Options
from .prices import MONTH_H, Cost, cost, public_address
from .topology import Topology, Vm

OLDEST_AZ = (2, 76)
"""It asks for a second factor where Azure wants one."""


@dataclass(kw_only=True)
class Preflight:
    """What is to be placed, what for, and what the checks find."""

    experiment: Experiment
    options: Options
    declared: Topology
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
    warnings: list[str] = field(default_factory=list)
    unzoned: tuple[str, ...] = ()
    """Far regions without zones."""

    @property
    def topology(self) -> Topology:
        """What is declared, without zones in regions that have none."""
        return self.declared.unzoned(self.unzoned)

    @cached_property
    def cost(self) -> Cost:
        """The cost of all deployments."""
        return cost(
            self.declared,
            self.options,
            measuring_s=self.workload.measuring_s,
            deployments=self.experiment.deployments,
            traffic=self.workload.traffic,
        )

    @property
    def expiry(self) -> str:
        """What happens when a deployment expires."""
        options = self.options
        stops = "a schedule stops" if options.stopped else "nothing stops"
        return (
            f"after {options.expires_h:g} h {stops} the VMs; "
            "gateways, addresses, load balancers and disks go on costing"
        )

    @property
    def left_running(self) -> str:
        """What goes on costing when a deployment has expired."""
        hour = self.cost.idle_h
        money = f"{24 * hour:.2f} {self.cost.currency} a day, {MONTH_H * hour:.0f} a month"
        return f"{self.expiry} {money}"

    def rarity(self, vm: Vm) -> tuple[int, int]:
        """Sort key of VMs, the hardest to place first: in the fewest zones, then the largest."""
        sku = self.skus.get((vm.region, vm.size))
        return (len(zones_of(sku, vm.region)), -vcpus(sku)) if sku else (0, 0)


Inspection = Callable[[Runs, Preflight], str]


def vcpus(sku: Mapping[str, Any]) -> int:
    """Return the number of virtual processors of a size."""
    return int(_capability(sku, "vCPUsAvailable") or _capability(sku, "vCPUs") or 0)


def _capability(sku: Mapping[str, Any], name: str) -> str:
    listed = sku.get("capabilities") or ()
    return next((str(c["value"]) for c in listed if c["name"] == name), "")


def zones_of(sku: Mapping[str, Any], region: str) -> set[str]:
    """Return the zones of a region in which a size is available to this subscription."""
    infos = [i for i in sku.get("locationInfo") or () if i["location"].lower() == region]
    offered = {z for i in infos for z in i.get("zones") or ()}
    for r in sku.get("restrictions") or ():
        info = r.get("restrictionInfo") or {}
        offered -= set(info.get("zones") or ()) if r["type"] == "Zone" else offered
    return offered


def _login(az: Runs, findings: Preflight) -> str:
    """Who is logged in, and to which subscription.

    AzureError if nobody is, or az is too old: nothing else can be known then.
    """
    text = str((az("version") or {}).get("azure-cli", "0"))
    if tuple(int(part) for part in re.findall(r"\d+", text)[:2]) < OLDEST_AZ:
        oldest = ".".join(map(str, OLDEST_AZ))
        raise AzureError(
            f"az {text} is too old to log in with a second factor: "
            f"run `az upgrade` ({oldest} or later)"
        )
    name = findings.options.subscription
    account = az("account", "show", *(("--subscription", name) if name else ()))
    findings.subscription = account["id"]
    if account.get("state") not in (None, "Enabled"):
        findings.problems.append(
            f"subscription {account.get('name')} is {account['state']}: "
            "choose another (az account set)"
        )
    user = (account.get("user") or {}).get("name", "unknown")
    return f"user {user}, subscription {findings.subscription}, az {text}"


def examine(
    findings: Preflight, az: Runs, *, rehearse: Inspection | None = None
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    `rehearse` has Azure validate the whole. AzureError if nobody is logged in.
    """
    subjects = {**CHECKS, **({"validation": rehearse} if rehearse else {})}
    for subject, check in subjects.items():
        before = len(findings.problems), len(findings.elsewhere), len(findings.warnings)
        if subject == "validation" and (findings.problems or findings.elsewhere):
            yield subject, "not asked of Azure, because of the above", True
            return
        try:
            words = check(az, findings)
        except AzError as failure:
            if subject == "login" or failure.deed == "login":
                raise
            findings.problems.append(re.sub("^az [^:]*: ", "", str(failure)))
            words = ""
        trouble = findings.problems[before[0] :] + findings.elsewhere[before[1] :]
        warnings = findings.warnings[before[2] :]
        yield subject, "; ".join([*trouble, *warnings]) or words, not trouble


def _price(az: Runs, findings: Preflight) -> str:
    """The estimate for the whole experiment against its budget."""
    estimate, budget = findings.cost, findings.experiment.budget
    if total := sum(sent.most_bytes for sent in findings.workload.traffic.values()):
        findings.warnings.append(f"up to {total / 1e9:,.0f} GB of traffic")
    if budget is not None and estimate.amount is None:
        findings.problems.append(f"budget {budget:g} cannot be kept: {estimate}")
    elif budget is not None and (estimate.amount or 0) > budget:
        findings.problems.append(
            f"{estimate} is above the budget of {budget:g}: "
            "measure less, use smaller VMs, or raise it"
        )
    within = f", within the budget of {budget:g}" if budget is not None else ""
    return f"{estimate}{within}; {findings.left_running}"


def _time(az: Runs, findings: Preflight) -> str:
    """The time that a deployment runs against its expiry."""
    findings.warnings += findings.workload.notes
    expires_h = findings.options.expires_h
    each_h = findings.cost.hours / findings.experiment.deployments
    if each_h > expires_h:
        findings.problems.append(
            f"a deployment is expected to run for {each_h:.1f} h, longer than "
            f"hosts.options.expires_h {expires_h:g}: raise it, or measure less"
        )
    return f"a deployment is expected to run for {each_h:.1f} h, and expires after {expires_h:g}"


def _zones(az: Runs, findings: Preflight) -> str:
    topology = findings.declared
    zones = findings.physical_zones = locations(az, findings.subscription)
    bare = [r for r in topology.regions if zones.get(r) == {}]
    findings.unzoned = tuple(r for r in bare if r != findings.options.region)
    for region in topology.regions:
        if region not in zones:
            findings.problems.append(
                f"region {region!r} is not open to this subscription: "
                f"{did_you_mean(region, zones)}choose one of `az account list-locations`"
            )
    for (region, zone), names in _together(findings.topology, "region", "zone"):
        named = zones.get(region, {zone: ""})
        if zone and zone not in named:
            choice = f"choose of {', '.join(named)}" if named else "set hosts.options.zones: []"
            findings.problems.append(f"{names}: region {region} has no zone {zone}: {choice}")
    return ", ".join(f"{r} ({len(zones.get(r, ()))} zones)" for r in topology.regions)


def _together(topology: Topology, *fields: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each combination of these fields of VMs, and the names of the VMs that have it."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for vm in topology.vms:
        found.setdefault(tuple(getattr(vm, f) for f in fields), []).append(vm.name)
    return ((key, ", ".join(names)) for key, names in found.items())


def _sizes(az: Runs, findings: Preflight) -> str:
    for (region, size), names in _together(findings.topology, "region", "size"):
        only = ("--resource-type", "virtualMachines", "--all")
        listed = az("vm", "list-skus", "--location", region, "--size", size, *only) or ()
        # az lists a size once more for the edge sites of a region, which have no zones
        if exact := [s for s in listed if s["name"].lower() == size.lower()]:
            sku = max(exact, key=lambda s: len(zones_of(s, region)))
            findings.skus[region, size] = sku
            _controller(az, findings, region, size, names)
        elif region in findings.physical_zones:
            findings.elsewhere.append(
                f"{names}: size {size} is not offered in {region}: "
                f"choose one of `az vm list-skus -l {region} --zone -o table`"
            )
    asked = _together(findings.topology, "region", "size", "zone", "accelerated")
    for (region, size, zone, accelerated), names in asked:
        sku = findings.skus.get((region, size), {})
        wrong = _refused(findings, sku, region, zone, accelerated) if sku else ""
        if wrong:
            findings.elsewhere.append(f"{names}: size {size} {wrong}")
    return ", ".join(f"{size} in {region}" for region, size in findings.skus)


def _refused(
    findings: Preflight, sku: Mapping[str, Any], region: str, zone: str, accelerated: bool
) -> str:
    """Why VMs of a size cannot be placed, or ""."""
    barred = [r for r in sku.get("restrictions") or () if r["type"] == "Location"]
    if barred:
        reasons = ", ".join(str(r.get("reasonCode")) for r in barred)
        return (
            f"is closed to this subscription in {region} ({reasons}): choose another size or region"
        )
    offered, exists = zones_of(sku, region), zone in findings.physical_zones.get(region, ())
    if zone and exists and zone not in offered:
        others = f"only in zone {', '.join(sorted(offered))}"
        nowhere = "in no zone: choose another size"
        return f"is not available in zone {zone} of {region}, {others if offered else nowhere}"
    if accelerated and _capability(sku, "AcceleratedNetworkingEnabled").lower() != "true":
        return "cannot have accelerated networking; choose another, or accelerated: false"
    return ""


def _controller(az: Runs, findings: Preflight, region: str, size: str, names: str) -> None:
    """A size whose disks are NVMe starts no image that knows SCSI only."""
    if _capability(findings.skus[region, size], "DiskControllerTypes").upper() != "NVME":
        return
    image = findings.options.image
    shown = az("vm", "image", "show", "--location", region, "--urn", image) or {}
    features = {f["name"]: str(f["value"]) for f in shown.get("features") or ()}
    if "NVME" not in features.get("DiskControllerTypes", "").upper():
        findings.elsewhere.append(
            f"{names}: size {size} has NVMe disks only, which image {image} does not start from; "
            "choose a newer image, or a size of version 5"
        )


def _quota(az: Runs, findings: Preflight) -> str:
    topology, counted = findings.topology, []
    for region in topology.regions:
        need: Counter[str] = Counter()
        for vm in topology.vms:
            if vm.region == region and (sku := findings.skus.get((region, vm.size))):
                need[sku["family"].lower()] += vcpus(sku)
                need["cores"] += vcpus(sku)
        free(az("vm", "list-usage", "--location", region), need, region, "vCPUs", findings)
        counted.append(f"{need['cores']} vCPUs in {region}")
        if n := topology.public_addresses(findings.options.public).count(region):
            kinds = ("", "standardsku", "ipv4standardsku")
            addresses = Counter({f"{kind}publicipaddresses": n for kind in kinds})
            usages = az("network", "list-usages", "--location", region)
            free(usages, addresses, region, "public addresses", findings)
            counted.append(f"{n} public addresses in {region}")
    return f"{', '.join(counted)} are free"


def free(
    usages: Iterable[Mapping[str, Any]] | None,
    need: Counter[str],
    region: str,
    what: str,
    findings: Preflight,
) -> None:
    """Add a problem for each quota that does not suffice."""
    for usage in usages or ():
        name, limit = usage["name"]["value"], int(usage["limit"])
        left = limit - int(usage["currentValue"])
        # a limit of -1 is none
        if need[name.lower()] > max(left, 0) and limit != -1:
            findings.problems.append(
                f"quota of {name} in {region}: {need[name.lower()]} {what} needed, {left} free of "
                f"{limit}; ask for more at https://aka.ms/quota, or declare fewer or smaller VMs"
            )


def _caller(az: Runs, findings: Preflight) -> str:
    findings.allow_from = callers(findings.options, findings.problems)
    return f"port 22 will be open to {', '.join(findings.allow_from)}"


CHECKS: dict[str, Inspection] = {
    "login": _login,
    "zones": _zones,
    "sizes": _sizes,
    "quota": _quota,
    "access": _caller,
    "price": _price,
    "time": _time,
}
"""Subject to check: each adds what is wrong to the findings, and returns what it found."""


def callers(options: Options, problems: list[str]) -> tuple[str, ...]:
    """Return the prefixes that may reach port 22; that they are not known is a problem."""
    if options.allow_from is not None:
        return tuple(a if "/" in a else f"{a}/32" for a in options.allow_from)
    if not options.public:
        return ("VirtualNetwork",)
    address = public_address()
    if address is None or ":" in address:
        problems.append(
            "this machine's public IPv4 address cannot be determined: "
            "give hosts.options.allow_from (port 22 is never opened to all)"
        )
        return ()
    return (f"{address}/32",)
