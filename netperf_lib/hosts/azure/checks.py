"""Checks made before any money is spent: everything that can be known of a subscription beforehand."""

from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from ...errors import AzureError, did_you_mean
from ...experiment.model import Experiment
from ..source import Workload
from .az import RENEWED_BY, Runs, Zones, find, locations
from .failures import AzError
from .groups import Change
from .options import Options
from .prices import Cost, cost, public_address
from .topology import Topology, Vm

OLDEST_AZ = (2, 76)
"""It asks for a second factor where Azure wants one."""
WRITES = (
    "Microsoft.Resources/deployments/write",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Network/virtualNetworks/write",
    "Microsoft.Network/networkInterfaces/write",
)
"""Actions that placing VMs needs."""


@dataclass(kw_only=True)
class Preflight:
    """What is to be placed, what for, and what the checks find."""

    experiment: Experiment
    options: Options
    declared: Topology
    workload: Workload
    subscription: str = ""
    user_type: str = ""
    """`user` or `servicePrincipal`."""
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
    plan: bool = False
    """The image is sold with a marketplace plan."""
    changes: tuple[Change, ...] | None = None
    """What Azure would do with each resource; None if it was not asked."""

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

    def blame(self, vm: Vm, words: str, messages: list[str]) -> None:
        """Add what is wrong with a VM to `problems` or `elsewhere`: once for all VMs of which it is true."""
        tail = f": {words}"
        same = next((i for i, message in enumerate(messages) if message.endswith(tail)), None)
        if same is None:
            messages.append(f"{vm.name}{tail}")
        else:
            messages[same] = f"{messages[same].removesuffix(tail)}, {vm.name}{tail}"

    def rarity(self, vm: Vm) -> tuple[int, int]:
        """Sort key of VMs, the hardest to place first: offered in the fewest zones, then the largest."""
        sku = self.skus.get((vm.region, vm.size))
        return (len(zones_of(sku, vm.region)) if sku else 0, -vcpus(sku) if sku else 0)


Inspection = Callable[[Runs, Preflight], str]


def vcpus(sku: Mapping[str, Any]) -> int:
    """Number of virtual processors of a size."""
    return int(_capability(sku, "vCPUsAvailable") or _capability(sku, "vCPUs") or 0)


def _capability(sku: Mapping[str, Any], name: str, otherwise: str = "") -> str:
    return (
        next((c["value"] for c in sku.get("capabilities") or () if c["name"] == name), None)
        or otherwise
    )


def _can(sku: Mapping[str, Any], name: str) -> bool:
    return _capability(sku, name).lower() == "true"


def zones_of(sku: Mapping[str, Any], region: str) -> set[str]:
    """Zones of a region in which a size is available to this subscription."""
    infos = [i for i in sku.get("locationInfo") or () if i["location"].lower() == region]
    offered = {z for i in infos for z in i.get("zones") or ()}
    for r in sku.get("restrictions") or ():
        info = r.get("restrictionInfo") or {}
        offered -= set(info.get("zones") or ()) if r["type"] == "Zone" else offered
    return offered


def login(az: Runs, findings: Preflight) -> str:
    """Who is logged in, and to which subscription.

    AzureError if nobody is, or the subscription is not accessible: nothing else can be checked then.
    """
    subscription = findings.options.subscription
    account = az("account", "show", *(("--subscription", subscription) if subscription else ()))
    user = account.get("user") or {}
    findings.subscription = account["id"]
    findings.user_type = user.get("type", "")
    if account.get("state") not in (None, "Enabled"):
        findings.problems.append(
            f"subscription {account.get('name')} is {account['state']}: choose another (az account set)"
        )
    return f"user {user.get('name', 'unknown')}, subscription {findings.subscription}"


def version(az: Runs) -> str:
    """Version of az; AzureError if it is too old to log in with a second factor."""
    text = str((az("version") or {}).get("azure-cli", "0"))
    if tuple(int(part) for part in re.findall(r"\d+", text)[:2]) < OLDEST_AZ:
        oldest = ".".join(map(str, OLDEST_AZ))
        raise AzureError(
            f"az {text} is too old to log in with a second factor: run `az upgrade` ({oldest} or later)"
        )
    return text


def examine(
    findings: Preflight, az: Runs, *, rehearse: Inspection | None = None
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order), one after another; nothing is created.

    `rehearse` has Azure validate the whole; with it, all is asked at once. AzureError if `az` is too old or nobody is
    logged in: nothing else can be known then.
    """
    yield "az", version(az), True
    yield "login", login(az, findings), not findings.problems
    subjects = {**PERSONAL, **CHECKS, "policy": rehearse} if rehearse else CHECKS
    with ThreadPoolExecutor(12) as pool:
        ahead = dict.fromkeys(commands(findings) if rehearse else ())
        answers = {command: pool.submit(az, *command) for command in ahead}

        def ask(*command: str) -> Any:
            return answers[command].result() if command in answers else az(*command)

        look = _looking(ask, findings) if findings.options.resource_group else ask
        invalid = False
        for subject, check in subjects.items():
            before = len(findings.problems), len(findings.elsewhere), len(findings.warnings)
            try:
                words = check(ask if check is _existing else look, findings)
            except AzError as failure:
                if failure.deed == "login":
                    raise
                if (
                    subject == "policy"
                    and invalid
                    and failure.kind in ("usage", "missing", "capacity")
                ):
                    continue  # Azure refuses in its own words what was told above
                findings.problems.append(re.sub("^az [^:]*: ", "", str(failure)))
                words = ""
            trouble = findings.problems[before[0] :] + findings.elsewhere[before[1] :]
            warnings = findings.warnings[before[2] :]
            invalid |= bool(trouble) and subject in ("zones", "sizes", "built upon")
            yield subject, "; ".join([*trouble, *warnings]) or words, not trouble


def _second_factor(az: Runs, findings: Preflight) -> str:
    if findings.user_type == "servicePrincipal":
        return "not asked of a service principal"
    token = str((az("account", "get-access-token") or {}).get("accessToken", "")).split(".")
    claims = json.loads(base64.urlsafe_b64decode(token[1] + "==")) if len(token) == 3 else {}
    if "mfa" not in claims.get("amr", ()):
        warning = "not given: Azure asks for it when something is created; run `az logout`, then `az login`"
        findings.warnings.append(warning)
    return "given at this login"


def _rights(az: Runs, findings: Preflight) -> str:
    group = findings.options.resource_group
    scope = f"/subscriptions/{findings.subscription}{f'/resourceGroups/{group}' if group else ''}"
    url = f"{scope}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
    permissions = (az("rest", "--method", "get", "--url", url) or {}).get("value") or ()

    def fits(action: str, patterns: Any) -> bool:
        return any(fnmatchcase(action.lower(), str(pattern).lower()) for pattern in patterns or ())

    where = group or "the subscription"
    if lacking := [
        action
        for action in WRITES
        if not any(
            fits(action, p.get("actions")) and not fits(action, p.get("notActions"))
            for p in permissions
        )
    ]:
        findings.problems.append(
            f"no right to {', '.join(lacking)} in {where}: ask its owner for the role Contributor"
        )
    return f"may create what is needed in {where}"


def _price(az: Runs, findings: Preflight) -> str:
    """The estimate against the budget."""
    estimate, budget, workload = findings.cost, findings.experiment.budget, findings.workload
    if total := sum(sent.most_bytes for sent in workload.traffic.values()):
        findings.warnings.append(f"up to {total / 1e9:,.0f} GB of traffic")
    if budget is not None and estimate.amount is None:
        findings.problems.append(f"budget {budget:g} cannot be kept: {estimate}")
    elif budget is not None and (estimate.amount or 0) > budget:
        findings.problems.append(
            f"{estimate} is above the budget of {budget:g}: measure less, use smaller VMs, or raise it"
        )
    return f"{estimate}{f', within the budget of {budget:g}' if budget is not None else ''}"


def _time(az: Runs, findings: Preflight) -> str:
    """The time that a deployment runs against what ends it: its expiry, and the login."""
    findings.warnings += findings.workload.notes
    expires_h, each_h = (
        findings.options.expires_h,
        findings.cost.hours / findings.experiment.deployments,
    )
    if (
        findings.user_type == "servicePrincipal"
        and each_h > 1
        and not any(map(os.getenv, RENEWED_BY))
    ):
        findings.warnings.append(
            f"a deployment is expected to run for {each_h:.1f} h: a login by a federated token (OIDC) ends after one, "
            f"and leaves the VMs until they expire; set {RENEWED_BY[0]}, so that it is renewed"
        )
    if each_h > expires_h:
        findings.problems.append(
            f"a deployment is expected to run for {each_h:.1f} h, longer than hosts.options.expires_h "
            f"{expires_h:g}: raise it, or measure less"
        )
    return f"a deployment is expected to run for {each_h:.1f} h, and expires after {expires_h:g}"


def _looking(az: Runs, findings: Preflight) -> Runs:
    """Return None, with a warning, if reading is not permitted: rights on a resource group suffice to place VMs."""

    def look(*arguments: str) -> Any:
        try:
            return az(*arguments)
        except AzError as failure:
            if failure.kind != "authorization":
                raise
            words = " ".join(a for a in arguments[:3] if not a.startswith("--"))
            warning = f"not checked, since `az {words}` is not permitted; it needs the role Reader of the subscription"
            if warning not in findings.warnings:
                findings.warnings.append(warning)
            return None

    return look


def _zones(az: Runs, findings: Preflight) -> str:
    options, topology = findings.options, findings.topology
    zones = findings.physical_zones = locations(az, findings.subscription)
    if not zones:
        return "not known"
    findings.problems += [
        f"region {region!r} is not open to this subscription: {did_you_mean(region, zones)}choose one of "
        "`az account list-locations` that is no edge site"
        for region in topology.regions
        if region not in zones
    ]
    findings.unzoned = tuple(
        r for r in topology.regions if r != options.region and zones.get(r) == {}
    )
    for vm in findings.topology.vms:
        named = zones.get(vm.region, {vm.zone: ""})
        if vm.zone and vm.zone not in named:
            choice = (
                f"choose of {', '.join(sorted(named))}"
                if named
                else "set hosts.options.zones: [] to use none"
            )
            findings.blame(
                vm, f"region {vm.region} has no zone {vm.zone}: {choice}", findings.problems
            )
    return ", ".join(f"{r} ({len(zones.get(r, ()))} zones)" for r in topology.regions)


def _sizes(az: Runs, findings: Preflight) -> str:
    options, topology = findings.options, findings.topology
    for region, size in dict.fromkeys((v.region, v.size) for v in topology.vms):
        only = ("--resource-type", "virtualMachines", "--all")
        listed = az("vm", "list-skus", "--location", region, "--size", size, *only)
        if listed is None or (findings.physical_zones and region not in findings.physical_zones):
            continue
        # az lists a size once more for the edge sites of a region, which have no zones
        if exact := [s for s in listed if s["name"].lower() == size.lower()]:
            findings.skus[region, size] = max(exact, key=lambda s: len(zones_of(s, region)))
        else:
            findings.elsewhere.append(
                f"size {size} is not offered in {region}: choose one of `az vm list-skus -l {region} --zone -o table`"
            )
    for vm in topology.vms:
        sku = findings.skus.get((vm.region, vm.size))
        if sku is None:
            continue
        open_zones = zones_of(sku, vm.region)
        barred = [
            r.get("reasonCode") for r in sku.get("restrictions") or () if r["type"] == "Location"
        ]
        exists = vm.zone in findings.physical_zones.get(vm.region, {vm.zone: ""})
        others = (
            f"only in zone {', '.join(sorted(open_zones))}"
            if open_zones
            else "in no zone: choose another size"
        )
        trusted = "V2" in _capability(sku, "HyperVGenerations", "V1,V2") and not _can(
            sku, "TrustedLaunchDisabled"
        )
        wrong = {
            f"is closed to this subscription in {vm.region} ({', '.join(map(str, barred))}): choose another size or "
            "region": bool(barred),
            f"is not available in zone {vm.zone} of {vm.region}, {others}": vm.zone
            and exists
            and not barred
            and vm.zone not in open_zones,
            "cannot have accelerated networking; choose another, or accelerated: false": vm.accelerated
            and not _can(sku, "AcceleratedNetworkingEnabled"),
            "cannot have trusted launch; choose another, or security_type: Standard": not trusted
            and options.security_type == "TrustedLaunch",
            "cannot encrypt at the host; choose another": options.encryption_at_host
            and not _can(sku, "EncryptionAtHostSupported"),
        }
        for words, holds in wrong.items():
            if holds:
                findings.blame(vm, f"size {vm.size} {words}", findings.elsewhere)
    return ", ".join(f"{size} in {region}" for region, size in findings.skus)


def _quota(az: Runs, findings: Preflight) -> str:
    options, topology = findings.options, findings.topology
    counted = []
    for region in topology.regions:
        need: Counter[str] = Counter()
        for vm in topology.vms:
            if vm.region == region and (sku := findings.skus.get((region, vm.size))):
                need[sku["family"].lower()] += vcpus(sku)
                need["cores"] += vcpus(sku)
        _free(az("vm", "list-usage", "--location", region), need, region, "vCPUs", findings)
        counted += [f"{need['cores']} vCPUs in {region}"] if need else []
        if addresses := topology.public_addresses(options.management).count(region):
            names = (
                "publicipaddresses",
                "standardskupublicipaddresses",
                "ipv4standardskupublicipaddresses",
            )
            needed = Counter(dict.fromkeys(names, addresses))
            _free(
                az("network", "list-usages", "--location", region),
                needed,
                region,
                "public addresses",
                findings,
            )
            counted.append(f"{addresses} public addresses in {region}")
    return f"{', '.join(counted)} are free" if counted else "nothing to count"


def _free(
    usages: Iterable[Mapping[str, Any]],
    need: Counter[str],
    region: str,
    what: str,
    findings: Preflight,
) -> None:
    for usage in usages or ():
        name = usage["name"]["value"]
        free = int(usage["limit"]) - int(usage["currentValue"])
        if need[name.lower()] > max(free, 0) and int(usage["limit"]) != -1:  # unlimited
            findings.problems.append(
                f"quota of {name} in {region}: {need[name.lower()]} {what} needed, {free} free of {usage['limit']}; "
                "ask for more at https://aka.ms/quota, or declare fewer or smaller VMs"
            )


def _image(az: Runs, findings: Preflight) -> str:
    """The image against sizes, security type and plan."""
    options, topology = findings.options, findings.topology
    publisher, offer, sku_name, _ = options.image.split(":")
    for region in topology.regions:
        try:
            image = az("vm", "image", "show", "--location", region, "--urn", options.image)
        except AzError as failure:
            if failure.kind not in ("missing", "usage", "other"):
                raise
            findings.problems.append(
                f"image {options.image} is not available in {region}: choose one of `az vm image list --all "
                f"-l {region} --publisher {publisher}`"
            )
            continue
        if image is None:
            continue
        if ((image.get("osDiskImage") or {}).get("operatingSystem") or "Linux") != "Linux":
            findings.problems.append(
                f"image {options.image} is a Windows image; the measuring tools run on Linux"
            )
        findings.plan = findings.plan or bool(image.get("plan"))
        generation, chip = image.get("hyperVGeneration") or "V1", image.get("architecture") or "x64"
        if options.security_type == "TrustedLaunch" and generation == "V1":
            findings.problems.append(
                f"image {options.image} is of generation 1, which has no trusted launch; choose one of generation 2, "
                "or security_type: Standard"
            )
        for vm in topology.vms:
            sku = findings.skus.get((vm.region, vm.size)) if vm.region == region else None
            if sku and generation not in _capability(sku, "HyperVGenerations", "V1,V2"):
                words = f"does not start images of generation {generation[1:]}; choose another size or image"
                findings.blame(vm, f"size {vm.size} {words}", findings.elsewhere)
            if sku and chip.lower() != _capability(sku, "CpuArchitectureType", "x64").lower():
                words = f"does not run {chip} images; choose another"
                findings.blame(vm, f"size {vm.size} {words}", findings.elsewhere)
    if options.plan is None and findings.plan:
        terms = az(
            "vm",
            "image",
            "terms",
            "show",
            "--publisher",
            publisher,
            "--offer",
            offer,
            "--plan",
            sku_name,
        )
        if terms is not None and not terms.get("accepted"):
            findings.problems.append(
                f"the terms of image {options.image} are not accepted: read them, then run `az vm image terms accept "
                f"--urn {options.image}`"
            )
    findings.plan = findings.plan if options.plan is None else options.plan
    return options.image


def _existing(az: Runs, findings: Preflight) -> str:
    """Existing resources to build on: creating a gateway would take most of an hour before one is found missing."""
    options, topology = findings.options, findings.topology
    circuit = (
        options.expressroute_circuit
        if any(g.kind == "ExpressRoute" for g in topology.gateways)
        else None
    )
    bastion = f"{options.bastion}?api-version=2023-09-01" if options.bastion else ""
    subnets = [n.subnet_id for n in topology.networks if n.subnet_id]
    resources = [
        *((f"existing subnet {s}", "network vnet subnet show --ids", s) for s in subnets),
        (f"hub {options.hub}", "network vnet show --ids", options.hub or ""),
        (
            f"resource group {options.resource_group}",
            "group show --name",
            options.resource_group or "",
        ),
        (f"circuit {circuit}", "network express-route show --ids", circuit or ""),
        (f"bastion {options.bastion}", "rest --method get --url", bastion),
    ]
    if bastion and "bastion" not in {
        extension["name"] for extension in az("extension", "list") or ()
    }:
        findings.problems.append(
            "az cannot open tunnels through a bastion: run `az extension add --name bastion`"
        )
    for what, command, where in resources:
        resource = find(az, *command.split(), where) if where else {}
        if resource is None:
            findings.problems.append(f"{what} does not exist: correct it in hosts.options")
        elif (state := resource.get("serviceProviderProvisioningState")) not in (
            None,
            "Provisioned",
        ):
            findings.problems.append(
                f"{what} is {state}: its provider has to provision it before it can be connected"
            )
        elif (
            where
            and what.startswith("bastion")
            and not (resource.get("properties") or {}).get("enableTunneling")
        ):
            findings.problems.append(
                f"{what} has native client support off: `az network bastion update --enable-tunneling`"
            )
    return ", ".join(what for what, _, where in resources if where) or "nothing that exists already"


def _providers(az: Runs, findings: Preflight) -> str:
    shutdown = findings.options.shutdown
    names = [
        "Microsoft.Compute",
        "Microsoft.Network",
        *(["Microsoft.DevTestLab"] if shutdown else []),
    ]
    for name in names:
        provider = az("provider", "show", "--namespace", name)
        if provider is not None and (state := provider.get("registrationState")) != "Registered":
            other = (
                " (its schedules stop forgotten VMs), or set hosts.options.shutdown: false"
                if "Lab" in name
                else ""
            )
            findings.problems.append(
                f"provider {name} is {state}: run `az provider register --wait --namespace {name}`{other}"
            )
    return f"{', '.join(n.removeprefix('Microsoft.') for n in names)} are registered"


def _locks(az: Runs, findings: Preflight) -> str:
    """A lock would keep what is created from being removed, and it would go on costing money."""
    options = findings.options
    within = ("--resource-group", options.resource_group) if options.resource_group else ()
    listed = az("lock", "list", *within) or ()
    for lock in listed:
        where = f"the scope of {lock['id'].partition('/providers/Microsoft.Authorization')[0]}"
        if within or "/resourceGroups/" not in lock["id"]:
            findings.problems.append(
                f"lock {lock['name']} ({lock['level']}): nothing could be removed again in {where}; use another "
                "subscription or resource group, or have it lifted"
            )
    return "none" if not listed else f"{len(listed)} looked at"


def _caller(az: Runs, findings: Preflight) -> str:
    options = findings.options
    findings.allow_from = callers(options, findings.problems)
    return f"port 22 will be open to {', '.join(findings.allow_from)}"


PERSONAL: Mapping[str, Inspection] = {"second factor": _second_factor, "rights": _rights}
"""What a person wants to know beforehand, and Azure says when something is created."""
CHECKS: Mapping[str, Inspection] = {
    "providers": _providers,
    "zones": _zones,
    "sizes": _sizes,
    "quota": _quota,
    "image": _image,
    "built upon": _existing,
    "locks": _locks,
    "access": _caller,
    "price": _price,
    "time": _time,
}
"""Subject to check: each adds what is wrong to the findings, and returns what it found."""


def commands(findings: Preflight) -> list[tuple[str, ...]]:
    """What the checks ask az, as far as it does not depend on its answers."""
    noted: list[tuple[str, ...]] = []
    nowhere = replace(findings, problems=[], elsewhere=[], warnings=[])
    for name, check in {**PERSONAL, **CHECKS}.items():
        if name not in ("access", "price", "time"):  # they ask others
            check(lambda *command: noted.append(command), nowhere)
    return noted


def callers(options: Options, problems: list[str]) -> tuple[str, ...]:
    """Prefixes that may reach port 22; empty if unknown, which is then added to `problems`."""
    if options.allow_from is not None:
        return tuple(a if "/" in a else f"{a}/32" for a in options.allow_from)
    if options.management == "private":
        return ("VirtualNetwork",)
    address = public_address(options.address_url)
    if address is None or ":" in address:
        problems.append(
            "this machine's public IPv4 address cannot be determined: give hosts.options.allow_from "
            "(port 22 is never opened to all)"
        )
        return ()
    return (f"{address}/32",)
