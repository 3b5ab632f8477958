"""What is checked before any money is spent."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import AzureError
from ...experiment.model import Experiment
from .az import Runs
from .failures import AzError
from .groups import Change, in_words
from .options import Options
from .prices import Cost, public_address
from .topology import Topology, Vm

__all__ = ["Preflight", "callers", "locations", "look", "refuse"]


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
    unzoned: tuple[str, ...] = ()
    """Far regions that have no zones: VMs there are in none."""
    plan: bool = False
    """The image is sold with a marketplace plan."""
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
class Findings:
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
    experiment: Experiment,
    options: Options,
    topology: Topology,
    az: Runs,
    *,
    estimate: Cost,
    measuring_s: float,
    noted: Iterable[str] = (),
) -> Preflight:
    """Look at everything that can be known beforehand.

    Parameters
    ----------
    experiment, options, topology
        What is to be made.
    az : callable
        Runs az.
    estimate : Cost
        What all deployments are expected to cost.
    measuring_s : float
        Estimated time of measuring, all deployments together.
    noted : iterable of str
        What the plan has to say, for example that the rounds do not suffice for a contrast.

    Raises
    ------
    AzureError
        Nobody is logged in, or the subscription is not accessible: nothing else can be looked at.
    """
    found = Findings(warnings=list(noted))
    account = az("account", "show", *(("--subscription", options.subscription) if options.subscription else ()))
    if account.get("state") not in (None, "Enabled"):
        found.problems.append(
            f"subscription {account.get('name')} is {account['state']}: choose another (az account set)"
        )
    physical, unzoned = _zones(locations(az, account["id"]), options, topology, found)
    topology = topology.unzoned(unzoned)
    skus = _skus(az, options, topology, found)
    _quota(az, topology, options, skus, found)
    plan = _image(az, options, topology, skus, found)
    _given(az, options, topology, found)
    allow_from = callers(options, found)
    _login(account, estimate, found)
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
        unzoned=unzoned,
        plan=plan,
    )


def locations(az: Runs, subscription: str) -> list[dict[str, Any]]:
    """Regions of a subscription, with its own mapping of zones.

    ``az account list-locations`` knows no ``--subscription``, and the mapping differs from one to the next.
    """
    answer = az("rest", "--method", "get", "--url", f"/subscriptions/{subscription}/locations?api-version=2022-12-01")
    return list(answer["value"])


def _login(account: Mapping[str, Any], estimate: Cost, found: Findings) -> None:
    """A login by an assertion, as pipelines have it, cannot be renewed when it ends."""
    name = str((account.get("user") or {}).get("assignedIdentityInfo") or "")
    if not name and os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL") and estimate.hours > 1:
        found.warnings.append(
            f"a pipeline's federated login may end before {estimate.hours:.1f} h are over, and nothing could be "
            "deleted then: renew it (azure/login again) before `npl down`, which is safe to repeat"
        )


def _zones(
    known_regions: list[dict[str, Any]], options: Options, topology: Topology, found: Findings
) -> tuple[dict[tuple[str, str], str], tuple[str, ...]]:
    known = {place["name"]: place for place in known_regions}
    out, unzoned = {}, []
    for region in topology.regions:
        if region not in known:
            found.problems.append(f"region {region!r} is not open to this subscription (az account list-locations)")
        mappings = known.get(region, {}).get("availabilityZoneMappings") or ()
        for m in mappings:
            out[region, m["logicalZone"]] = m["physicalZone"]
        if region in known and not mappings and region != options.region:
            unzoned.append(region)
    for vm in topology.vms:
        if vm.region in known and vm.zone and (vm.region, vm.zone) not in out and vm.region not in unzoned:
            found.problems.append(f"{vm.name}: region {vm.region} has no zone {vm.zone}; give hosts.options.zones")
    return out, tuple(unzoned)


def _trusted(sku: Mapping[str, Any]) -> bool:
    generations = _capability(sku, "HyperVGenerations") or "V1,V2"
    return "V2" in generations and (_capability(sku, "TrustedLaunchDisabled") or "").lower() != "true"


def _skus(az: Runs, options: Options, topology: Topology, found: Findings) -> dict[tuple[str, str], Mapping[str, Any]]:
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
                f"{vm.name}: size {vm.size} is not available in zone {vm.zone} of {vm.region}, {there}"
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


def _quota(
    az: Runs,
    topology: Topology,
    options: Options,
    skus: Mapping[tuple[str, str], Mapping[str, Any]],
    found: Findings,
) -> None:
    for region in topology.regions:
        need: Counter[str] = Counter()
        for vm in topology.vms:
            if vm.region == region and (sku := skus.get((region, vm.size))):
                need[sku["family"].lower()] += vcpus(sku)
                need["cores"] += vcpus(sku)
        if need:
            _free(az("vm", "list-usage", "--location", region), need, region, "vCPUs", found)
        addresses = sum(n.nat for n in topology.networks if n.region == region)
        addresses += sum(g.kind == "Vpn" for g in topology.gateways if g.region == region)
        addresses += sum(v.region == region for v in topology.vms) if options.management == "public" else 0
        if addresses:
            # the second counts only those that a region's first does not tell apart
            wanted = Counter({"publicipaddresses": addresses, "standardskupublicipaddresses": addresses})
            _free(az("network", "list-usages", "--location", region), wanted, region, "public addresses", found)


def _free(usages: Iterable[Mapping[str, Any]], need: Counter[str], region: str, what: str, found: Findings) -> None:
    for usage in usages or ():
        name = usage["name"]["value"]
        free = int(usage["limit"]) - int(usage["currentValue"])
        if need[name.lower()] > max(free, 0):
            found.problems.append(
                f"quota of {name} in {region}: {need[name.lower()]} {what} needed, {free} free of {usage['limit']}; "
                "ask for more at https://aka.ms/quota, or declare fewer or smaller VMs"
            )


def _image(
    az: Runs,
    options: Options,
    topology: Topology,
    skus: Mapping[tuple[str, str], Mapping[str, Any]],
    found: Findings,
) -> bool:
    """The image against sizes and security type; returns whether it is sold with a plan."""
    plan = False
    for region in topology.regions:
        try:
            image = az("vm", "image", "show", "--location", region, "--urn", options.image)
        except AzError as failure:
            if failure.kind not in ("missing", "usage", "other"):
                raise
            found.problems.append(
                f"image {options.image} is not available in {region}: choose one of `az vm image list --all "
                f"-l {region} --publisher {options.image.split(':')[0]}`"
            )
            continue
        if ((image.get("osDiskImage") or {}).get("operatingSystem") or "Linux") != "Linux":
            found.problems.append(f"image {options.image} is a Windows image; the measuring tools run on Linux")
        plan = plan or bool(image.get("plan"))
        generation, chip = image.get("hyperVGeneration") or "V1", image.get("architecture") or "x64"
        if options.security_type == "TrustedLaunch" and generation == "V1":
            found.problems.append(
                f"image {options.image} is of generation 1, which has no trusted launch; choose one of generation 2, "
                "or security_type: Standard"
            )
        for vm in topology.vms:
            sku = skus.get((vm.region, vm.size))
            if vm.region != region or sku is None:
                continue
            if generation not in (_capability(sku, "HyperVGenerations") or "V1,V2"):
                found.elsewhere.append(
                    f"{vm.name}: size {vm.size} does not start images of generation {generation[1:]}; choose another "
                    "size or image"
                )
            if chip.lower() != (_capability(sku, "CpuArchitectureType") or "x64").lower():
                found.elsewhere.append(f"{vm.name}: size {vm.size} does not run {chip} images; choose another")
            if options.encryption_at_host and (_capability(sku, "EncryptionAtHostSupported") or "").lower() != "true":
                found.elsewhere.append(f"{vm.name}: size {vm.size} cannot encrypt at the host; choose another")
    if options.plan is None and plan:
        publisher, offer, sku_name, _ = options.image.split(":")
        terms = az("vm", "image", "terms", "show", "--publisher", publisher, "--offer", offer, "--plan", sku_name)
        if not terms.get("accepted"):
            found.problems.append(
                f"the terms of image {options.image} are not accepted: read them, then run `az vm image terms accept "
                f"--urn {options.image}`"
            )
    return plan if options.plan is None else options.plan


def _given(az: Runs, options: Options, topology: Topology, found: Findings) -> None:
    """What stands already and is built upon: a gateway would be made for most of an hour before it is missed."""
    subnets = [(f"existing subnet {n.subnet_id}", n.subnet_id) for n in topology.networks if n.subnet_id]
    existing = [
        *((what, ("network", "vnet", "subnet", "show", "--ids", where)) for what, where in subnets),
        *([(f"hub {options.hub}", ("network", "vnet", "show", "--ids", options.hub))] if options.hub else ()),
        *(
            [(f"resource group {options.resource_group}", ("group", "show", "--name", options.resource_group))]
            if options.resource_group
            else ()
        ),
    ]
    for what, command in existing:
        try:
            az(*command)
        except AzError as failure:
            found.problems.append(f"{what}: {_unread(failure)}")
    if options.shutdown:
        state = az("provider", "show", "--namespace", "Microsoft.DevTestLab").get("registrationState")
        if state != "Registered":
            found.problems.append(
                f"provider Microsoft.DevTestLab is {state}, and its schedules stop forgotten VMs: run `az provider "
                "register --wait --namespace Microsoft.DevTestLab`, or set hosts.options.shutdown: false"
            )
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


def callers(options: Options, found: Findings) -> tuple[str, ...]:
    """Prefixes that may reach port 22; empty where that cannot be known, which `found` then says."""
    if options.allow_from is not None:
        return tuple(a if "/" in a else f"{a}/32" for a in options.allow_from)
    if options.management == "private":
        return ("VirtualNetwork",)
    address = public_address(options.address_url)
    if address is None or ":" in address:
        found.problems.append(
            "this machine's public IPv4 address cannot be found out: give hosts.options.allow_from "
            "(port 22 is never opened to all)"
        )
        return ()
    return (f"{address}/32",)


def _money(experiment: Experiment, estimate: Cost, found: Findings) -> None:
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
