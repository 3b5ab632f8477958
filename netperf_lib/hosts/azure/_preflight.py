"""What is checked before any money is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import AzureError
from ...experiment.model import Experiment
from ._az import Runs
from ._failures import AzError
from ._options import Options
from ._prices import Cost, cost, public_address
from ._rehearsal import Change, in_words
from ._topology import Topology, Vm

__all__ = ["Preflight", "look"]


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What was found."""

    subscription: str
    user: str
    measuring_s: float
    cost: Cost
    allow_from: tuple[str, ...]
    physical_zones: Mapping[tuple[str, str], str]
    """(region, logical zone) to physical zone."""
    skus: Mapping[tuple[str, str], Mapping[str, Any]]
    """(region, size) to what Azure says of that size there."""
    problems: tuple[str, ...] = ()
    """Each forbids to start."""
    elsewhere: tuple[str, ...] = ()
    """So does each of these, but another zone or size may do."""
    warnings: tuple[str, ...] = ()
    changes: tuple[Change, ...] | None = None
    """What would become of each resource, as Azure says; None: it was not asked."""

    def rarity(self, vm: Vm) -> tuple[int, int]:
        """Sort key of VMs, the hardest to place first: offered in the fewest zones, then the largest."""
        sku = self.skus.get((vm.region, vm.size))
        return (len(zones_of(sku, vm.region)) if sku else 0, -vcpus(sku) if sku else 0)

    def __str__(self) -> str:
        lines = [
            f"subscription {self.subscription}, user {self.user}",
            f"about {self.measuring_s / 60:.0f} min of measuring; {self.cost}",
            f"port 22 open to {', '.join(self.allow_from) or 'nobody yet'}",
        ]
        if self.changes is not None:
            lines.append(f"Azure finds it valid, and would {in_words(self.changes)}")
        lines += [f"warning: {w}" for w in self.warnings] + [f"problem: {p}" for p in (*self.problems, *self.elsewhere)]
        return "\n".join(lines)


@dataclass
class _Findings:
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def vcpus(sku: Mapping[str, Any]) -> int:
    """Number of virtual processors of a size."""
    return int(_capability(sku, "vCPUsAvailable") or _capability(sku, "vCPUs") or 0)


def _capability(sku: Mapping[str, Any], name: str) -> str | None:
    return next((c["value"] for c in sku.get("capabilities") or () if c["name"] == name), None)


def zones_of(sku: Mapping[str, Any], region: str) -> set[str]:
    """Zones of a region in which a size may be had by this subscription."""
    offered = {
        z for i in sku.get("locationInfo") or () if i["location"].lower() == region for z in i.get("zones") or ()
    }
    for r in sku.get("restrictions") or ():
        info = r.get("restrictionInfo") or {}
        offered -= set(info.get("zones") or ()) if r["type"] == "Zone" else offered
    return offered


def look(
    experiment: Experiment, options: Options, topology: Topology, az: Runs, *, measuring_s: float, noted: list[str]
) -> Preflight:
    """Look at everything that can be known beforehand.

    Parameters
    ----------
    experiment, options, topology
        What is to be made.
    az : callable
        Runs az.
    measuring_s : float
        Estimated time of measuring, all deployments together.
    noted : list of str
        What the plan has to say, for example that the rounds do not suffice for a contrast.

    Raises
    ------
    AzError
        Nobody is logged in, or the subscription is not to be had: nothing else can be looked at.
    """
    found = _Findings(warnings=list(noted))
    account = az("account", "show", *(("--subscription", options.subscription) if options.subscription else ()))
    if account.get("state") not in (None, "Enabled"):
        found.problems.append(
            f"subscription {account.get('name')} is {account['state']}: choose another (az account set)"
        )
    physical = _zones(az("account", "list-locations"), topology, found)
    skus = _skus(az, options, topology, found)
    _quota(az, topology, skus, found)
    _given(az, options, topology, found)
    allow_from = _callers(options, found)
    estimate = cost(topology, options, measuring_s=measuring_s, deployments=experiment.deployments)
    _money(experiment, estimate, found)
    each_h = estimate.hours / experiment.deployments
    if each_h > options.expires_h:
        found.problems.append(
            f"a deployment is expected to live {each_h:.1f} h, longer than hosts.options.expires_h "
            f"{options.expires_h:g}: raise it, or measure less"
        )
    return Preflight(
        subscription=account["id"],
        user=(account.get("user") or {}).get("name", "unknown"),
        measuring_s=measuring_s,
        cost=estimate,
        allow_from=allow_from,
        physical_zones=physical,
        skus=skus,
        problems=tuple(found.problems),
        elsewhere=tuple(found.elsewhere),
        warnings=tuple(found.warnings),
    )


def _zones(locations: list[Mapping[str, Any]], topology: Topology, found: _Findings) -> dict[tuple[str, str], str]:
    known = {place["name"]: place for place in locations}
    out = {}
    for region in topology.regions:
        if region not in known:
            found.problems.append(f"region {region!r} is not open to this subscription (az account list-locations)")
        for m in known.get(region, {}).get("availabilityZoneMappings") or ():
            out[region, m["logicalZone"]] = m["physicalZone"]
    for vm in topology.vms:
        if vm.region in known and vm.zone and (vm.region, vm.zone) not in out:
            found.problems.append(f"{vm.name}: region {vm.region} has no zone {vm.zone}; give hosts.options.zones")
    return out


def _trusted(sku: Mapping[str, Any]) -> bool:
    generations = _capability(sku, "HyperVGenerations") or "V1,V2"
    return "V2" in generations and (_capability(sku, "TrustedLaunchDisabled") or "").lower() != "true"


def _skus(az: Runs, options: Options, topology: Topology, found: _Findings) -> dict[tuple[str, str], Mapping[str, Any]]:
    out: dict[tuple[str, str], Mapping[str, Any]] = {}
    for region, size in dict.fromkeys((v.region, v.size) for v in topology.vms):
        listed = az(
            "vm", "list-skus", "--location", region, "--size", size, "--resource-type", "virtualMachines", "--all"
        )
        exact = [s for s in listed or () if s["name"].lower() == size.lower()]
        if not exact:
            found.elsewhere.append(f"size {size} is not offered in {region} (az vm list-skus -l {region} --zone)")
        else:
            out[region, size] = exact[0]
    for vm in topology.vms:
        sku = out.get((vm.region, vm.size))
        if sku is None:
            continue
        barred = [r for r in sku.get("restrictions") or () if r["type"] == "Location"]
        if barred:
            reason = barred[0].get("reasonCode")
            found.elsewhere.append(
                f"{vm.name}: size {vm.size} is closed to this subscription in {vm.region} ({reason})"
            )
        elif vm.zone and vm.zone not in (open_zones := zones_of(sku, vm.region)):
            there = f"only in zone {', '.join(sorted(open_zones))}" if open_zones else "in no zone"
            found.elsewhere.append(
                f"{vm.name}: size {vm.size} is not to be had in zone {vm.zone} of {vm.region}, {there}"
            )
        if vm.accelerated and (_capability(sku, "AcceleratedNetworkingEnabled") or "").lower() != "true":
            found.elsewhere.append(
                f"{vm.name}: size {vm.size} cannot have accelerated networking; choose another, or accelerated: false"
            )
        if options.security_type == "TrustedLaunch" and not _trusted(sku):
            found.elsewhere.append(
                f"{vm.name}: size {vm.size} cannot have trusted launch; choose another, or security_type: Standard"
            )
    return out


def _quota(az: Runs, topology: Topology, skus: Mapping[tuple[str, str], Mapping[str, Any]], found: _Findings) -> None:
    for region in topology.regions:
        need: Counter[str] = Counter()
        for vm in topology.vms:
            if vm.region == region and (sku := skus.get((region, vm.size))):
                need[sku["family"].lower()] += vcpus(sku)
                need["cores"] += vcpus(sku)
        if not need:
            continue
        for usage in az("vm", "list-usage", "--location", region):
            name = usage["name"]["value"]
            free = int(usage["limit"]) - int(usage["currentValue"])
            if need[name.lower()] > free:
                found.problems.append(
                    f"quota of {name} in {region}: {need[name.lower()]} vCPUs needed, {free} free of {usage['limit']}; "
                    "ask for more at https://aka.ms/quota, or declare fewer or smaller VMs"
                )


def _given(az: Runs, options: Options, topology: Topology, found: _Findings) -> None:
    """What stands already and is built upon: a gateway would be made for most of an hour before it is missed."""
    for network in topology.networks:
        if network.subnet_id:
            try:
                az("network", "vnet", "subnet", "show", "--ids", network.subnet_id)
            except AzError as failure:
                found.problems.append(f"existing subnet {network.subnet_id}: {_unread(failure)}")
    if options.expressroute_circuit and any(g.kind == "ExpressRoute" for g in topology.gateways):
        try:
            circuit = az("network", "express-route", "show", "--ids", options.expressroute_circuit)
        except AzError as failure:
            found.problems.append(f"circuit {options.expressroute_circuit}: {_unread(failure)}")
            return
        state = circuit.get("serviceProviderProvisioningState")
        if state not in (None, "Provisioned"):
            found.problems.append(
                f"circuit {circuit['name']} is {state}: its provider has to provision it before it can be connected"
            )


def _unread(failure: AzError) -> str:
    if failure.kind != "missing":
        raise failure
    return f"{failure.code}: correct the id in hosts.options"


def _callers(options: Options, found: _Findings) -> tuple[str, ...]:
    if options.allow_from is not None:
        return tuple(a if "/" in a else f"{a}/{128 if ':' in a else 32}" for a in options.allow_from)
    if options.management == "private":
        return ("VirtualNetwork",)
    address = public_address(options.address_url)
    if address is None:
        found.problems.append(
            "this machine's public address cannot be found out: give hosts.options.allow_from "
            "(port 22 is never opened to all)"
        )
        return ()
    return (f"{address}/{128 if ':' in address else 32}",)


def _money(experiment: Experiment, estimate: Cost, found: _Findings) -> None:
    if experiment.budget is None:
        return
    if estimate.amount is None:
        found.problems.append(f"budget {experiment.budget:g} cannot be kept: {estimate}")
    elif estimate.amount > experiment.budget:
        found.problems.append(
            f"{estimate} is above the budget of {experiment.budget:g}: measure less, use smaller VMs, or raise it"
        )


def refuse(found: Preflight, name: str) -> None:
    """Raise when there is a problem.

    Raises
    ------
    AzureError
        All problems in one message.
    """
    if found.problems or found.elsewhere:
        raise AzureError(f"{name}: nothing was made, because " + "; ".join((*found.problems, *found.elsewhere)))
