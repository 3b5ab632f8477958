"""An emulated Azure Resource Manager: groups, resources, deployments, long operations, faults. No I/O.

Work takes time on a clock that may be real or a test's own; what is due happens when the next request comes in.
A template's resources are made one after the other, in the order that is worst for a template that forgot a dependency.
"""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from . import arm, models
from .rules import (
    CHIPS,
    EMBEDDED,
    FIRST_GENERATION,
    GENERATIONS,
    IMAGES,
    NOT_LINUX,
    NVME,
    REGIONS,
    SIZES,
    ArmError,
    Resource,
    apply,
)

SUBSCRIPTION = "5a5a5a5a-0000-4000-8000-000000000001"
OTHER = "07070707-0000-4000-8000-000000000003"
"""Another subscription of the same user: nothing but its regions can be read."""
OLD_S, NEW_S = 60, 30
"""How old what is shown may be, and for how long what was made may be denied, in seconds."""
TENANT = "7e7e7e7e-0000-4000-8000-000000000002"
BASE = f"/subscriptions/{SUBSCRIPTION}"
PROVIDERS = {
    "Microsoft.Compute": ("virtualMachines", "proximityPlacementGroups", "disks"),
    "Microsoft.Network": (
        "virtualNetworks",
        "networkInterfaces",
        "networkSecurityGroups",
        "publicIPAddresses",
        "loadBalancers",
        "natGateways",
        "virtualNetworkGateways",
        "connections",
        "expressRouteCircuits",
    ),
    "Microsoft.DevTestLab": ("schedules",),
    "Microsoft.Resources": ("deployments", "resourceGroups"),
}


@dataclass
class Answer:
    """Of a request."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """Something that goes wrong.

    `at` says where: ``request`` (matched against "METHOD path"), ``validate`` (against "size region zones name"),
    ``resource`` (against "type name", while a deployment makes it), ``token`` (the login).
    """

    at: str
    match: str
    status: int = 409
    code: str = ""
    message: str = ""
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def error(self) -> ArmError:
        """The error to answer with."""
        return ArmError(self.status, self.code, self.message, headers=self.headers)


@dataclass
class Operation:
    """A long operation."""

    id: str
    due: float
    work: Callable[[], Any]
    status: str = "InProgress"
    error: Resource | None = None
    result: Any = None
    steps: list[str] = field(default_factory=list)
    """States that are told while it is in progress."""


@dataclass
class Running:
    """A deployment."""

    document: Resource
    group: str
    left: list[arm.Item]
    scope: arm.Scope
    template: Resource
    due: float
    operations: list[Resource] = field(default_factory=list)
    failed: list[tuple[arm.Item, Resource]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)


Route = tuple[str, "re.Pattern[str]", str]
ROUTES: list[Route] = []


def route(method: str, path: str) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Register a method for a path such as ``/resourceGroups/{group}``, relative to the subscription."""
    pattern = re.sub(r"\{(\w+)\+\}", r"(?P<\1>.+)", path)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)

    def register(function: Callable[..., Answer]) -> Callable[..., Answer]:
        ROUTES.append((method, re.compile(pattern, re.I), function.__name__))
        return function

    return register


def stamp() -> str:
    """Now."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cloud:
    """The state of one subscription.

    Parameters
    ----------
    step_s : float
        Time that every resource takes.
    clock : callable
        Time in seconds.
    """

    def __init__(
        self, *, step_s: float = 0.02, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.step_s, self.clock = step_s, clock
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.groups: dict[str, Resource] = {}
        self.resources: dict[str, Resource] = {}
        self.deployments: dict[str, Running] = {}
        self.operations: dict[str, Operation] = {}
        self.faults: list[Fault] = []
        self.limits: dict[tuple[str, str], int] = {}
        self.full: set[str] = set()
        """Families that there is no room for."""
        self.requests: list[str] = []
        self.stopped: set[str] = set()
        """Names of VMs that are deallocated."""
        self.lag: random.Random | None = None
        """It decides what is answered late; None: nothing is."""
        self.born: dict[str, float] = {}
        """When each group was made."""
        self.history: list[tuple[float, bytes]] = []
        self.scattered = False
        """Proximity placement groups do not keep their members together."""

    # what tests look at

    def names(self, kind: str) -> list[str]:
        """Names of all resources of a type, sorted."""
        return sorted(
            r["id"].rsplit("/", 1)[1]
            for r in self.resources.values()
            if r["type"].lower() == kind.lower()
        )

    def get(self, kind: str, name: str) -> Resource:
        """Properties of one resource."""
        found = next(
            r
            for r in self.resources.values()
            if r["type"].lower() == kind.lower() and r["id"].endswith(f"/{name}")
        )
        return self.show(found)

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        for _ in range(10_000):
            pending = [o.due for o in self.operations.values() if o.status == "InProgress"]
            pending += [d.due for d in self.deployments.values() if d.left]
            if not pending:
                return
            self._advance(max(pending))
        raise AssertionError("something never ends")

    # time

    def _advance(self, now: float) -> None:
        while True:
            steps: list[tuple[float, Callable[[], None]]] = [
                (o.due, lambda o=o: self._finish(o))
                for o in self.operations.values()
                if o.status == "InProgress"
            ]
            steps += [
                (d.due, lambda d=d: self._step(d)) for d in self.deployments.values() if d.left
            ]
            steps = [s for s in steps if s[0] <= now]
            if not steps:
                return
            due, step = min(steps, key=lambda s: s[0])
            step()
            self._remember(due)

    # lag

    def _remember(self, now: float) -> None:
        """Keep what there is, so that it can be shown later."""
        if self.lag is None:
            return
        shown = {w: (r.document, r.operations) for w, r in self.deployments.items()}
        self.history = [h for h in self.history[-200:] if h[0] > now - 4 * OLD_S]
        self.history.append((now, pickle.dumps((self.groups, self.resources, shown))))

    def _denied(self, method: str, path: str) -> bool:
        """Whether a group that was just made is denied: creations are not known everywhere."""
        named = re.match(r"/subscriptions/[^/]+/resourcegroups/(npl-[^/]+)(/.*)?$", path, re.I)
        if self.lag is None or not named or (method == "PUT" and not named[2]):
            return False
        young = self.clock() - self.born.get(named[1].lower(), -NEW_S) < NEW_S
        return young and self.lag.random() < 0.5

    @contextmanager
    def _earlier(self, method: str, path: str) -> Iterator[None]:
        """Show what there was up to a minute ago, of what is looked at."""
        operation = re.search("/operation(s|results|statuses)/", path, re.I)
        if self.lag is None or method != "GET" or operation or self.lag.random() < 0.4:
            yield
            return
        until = self.clock() - self.lag.uniform(0, OLD_S)
        before = [content for time_, content in self.history if time_ <= until]
        now = self.groups, self.resources, self.deployments
        if before:
            self.groups, self.resources, shown = pickle.loads(before[-1])
        else:
            # nothing that this project makes was there
            self.groups = {n: g for n, g in self.groups.items() if not n.startswith("npl-")}
            self.resources = {w: r for w, r in self.resources.items() if "/npl-" not in w}
            shown = {}
        empty = arm.Scope(SUBSCRIPTION, "", "", {}, {}, self._reference)
        self.deployments = {
            w: Running(document, "", [], empty, {}, 0.0, operations)
            for w, (document, operations) in shown.items()
        }
        try:
            yield
        finally:
            self.groups, self.resources, self.deployments = now

    def _finish(self, operation: Operation) -> None:
        try:
            operation.result = operation.work()
            operation.status = "Succeeded"
        except ArmError as error:
            operation.status, operation.error = "Failed", error.error

    def _start(self, work: Callable[[], Any] = lambda: None, steps: float = 1) -> Operation:
        operation = Operation(str(uuid.uuid4()), self.clock() + steps * self.step_s, work)
        self.operations[operation.id] = operation
        return operation

    def _fault(self, at: str, text: str) -> Fault | None:
        for fault in self.faults:
            if fault.at == at and fault.times and re.search(fault.match, text, re.I):
                fault.times -= 1
                return fault
        return None

    # requests

    def request(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Any = None
    ) -> Answer:
        """Answer a request to the resource manager; paths are taken in any case and with doubled slashes."""
        path = re.sub(r"/{2,}", "/", unquote(path)).rstrip("/")
        self.requests.append(f"{method} {path}")
        self._advance(self.clock())
        try:
            if fault := self._fault("request", f"{method} {path}"):
                if fault.body is not None:
                    return Answer(fault.status, fault.body, fault.headers)
                raise fault.error()
            if self._denied(method, path):
                name = path.split("/")[4]
                text = f"Resource group '{name}' could not be found."
                raise ArmError(404, "ResourceGroupNotFound", text)
            with self._earlier(method, path):
                answer = self._route(method, path, query or {}, body)
        except ArmError as error:
            return Answer(error.status, {"error": error.error}, error.headers)
        if method != "GET":
            self._remember(self.clock())
        return answer

    def _route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if path.lower() == "/subscriptions":
            return Answer(200, {"value": [self._subscription()]})
        if path.lower() == "/tenants":
            return Answer(200, {"value": [{"id": f"/tenants/{TENANT}", "tenantId": TENANT}]})
        head, _, tail = path[1:].partition("/")
        identity, _, tail = tail.partition("/")
        if head.lower() != "subscriptions":
            raise ArmError(404, "NotFound", path)
        if identity.lower() == OTHER and tail == "locations":
            return self.locations(shifted=1)
        if identity.lower() != SUBSCRIPTION:
            raise ArmError(
                404, "SubscriptionNotFound", f"The subscription '{identity}' could not be found."
            )
        for verb, pattern, name in ROUTES:
            match = pattern.fullmatch("/" + tail if tail else "")
            if verb == method and match:
                answer: Answer = getattr(self, name)(query=query, body=body, **match.groupdict())
                return answer
        raise ArmError(404, "NotFound", f"{method} {path}")

    def _subscription(self) -> Resource:
        return {
            "id": BASE,
            "subscriptionId": SUBSCRIPTION,
            "tenantId": TENANT,
            "displayName": "emulated",
            "state": "Enabled",
        }

    @route("GET", "")
    def subscription(self, **_: Any) -> Answer:
        """The subscription."""
        return Answer(200, self._subscription())

    @route("GET", "/locations")
    def locations(self, shifted: int = 0, **_: Any) -> Answer:
        """Regions; logical zones are mapped to physical ones differently in each, and in each subscription."""
        out = []
        for shift, (region, zones) in enumerate(REGIONS.items(), shifted):
            mapped = [
                {"logicalZone": str(i + 1), "physicalZone": f"{region}-az{(i + shift) % 3 + 1}"}
                for i in range(zones)
            ]
            out.append(
                {
                    "id": f"{BASE}/locations/{region}",
                    "name": region,
                    "displayName": region,
                    "regionalDisplayName": region,
                    "type": "Region",
                    "metadata": {"regionType": "Physical"},
                    **({"availabilityZoneMappings": mapped} if mapped else {}),
                }
            )
        return Answer(200, {"value": out})

    @route("GET", "/providers/Microsoft.Compute/skus")
    def skus(self, query: dict[str, str], **_: Any) -> Answer:
        """Sizes."""
        wanted = re.search(r"location eq '([^']+)'", query.get("$filter", ""))
        out = []
        for region, zones in REGIONS.items():
            if wanted and wanted[1].lower() != region:
                continue
            for name, (family, cpus, accelerated, only, barred) in SIZES.items():
                offered = sorted(only or {str(i + 1) for i in range(zones)}) if zones else []
                info = {
                    "Zone": {"locations": [region], "zones": offered},
                    "Location": {"locations": [region]},
                }.get(barred or "")
                capabilities = {
                    "vCPUs": cpus,
                    "AcceleratedNetworkingEnabled": accelerated,
                    "HyperVGenerations": GENERATIONS.get(name, "V1,V2"),
                    "CpuArchitectureType": CHIPS.get(name, "x64"),
                    "DiskControllerTypes": "NVMe" if name in NVME else "SCSI",
                }
                out.append({
                    "resourceType": "virtualMachines", "name": name, "family": family, "locations": [region], "tier": "Standard", "size": name.removeprefix("Standard_"),
                    "locationInfo": [{"location": region, "zones": offered, "zoneDetails": []}],
                    "capabilities": [{"name": k, "value": str(v)} for k, v in capabilities.items()],
                    "restrictions": [{"type": barred, "values": [region], "restrictionInfo": info, "reasonCode": "NotAvailableForSubscription"}] if barred else [],
                })  # fmt: skip
        return Answer(200, {"value": out})

    def _used(self, region: str) -> dict[str, int]:
        used: dict[str, int] = {}
        for r in self.resources.values():
            if r["type"].lower() == "microsoft.compute/virtualmachines" and r["location"] == region:
                family, cpus, *_ = SIZES[r["properties"]["hardwareProfile"]["vmSize"]]
                used[family] = used.get(family, 0) + cpus
        return used

    @route("GET", "/providers/Microsoft.Network/locations/{region}/usages")
    def network_usages(self, region: str, **_: Any) -> Answer:
        """Quota of addresses."""
        kinds = (
            r
            for r in self.resources.values()
            if r["type"].lower() == "microsoft.network/publicipaddresses"
        )
        used = sum(r["location"] == region for r in kinds)
        entries = [
            {"id": f"{BASE}/usages/{name}", "unit": "Count", "currentValue": used,
             "limit": self.limits.get((region, name), 1000), "name": {"value": name, "localizedValue": name}}
            for name in ("PublicIPAddresses", "StandardSkuPublicIpAddresses", "IPv4StandardSkuPublicIpAddresses")
        ]  # fmt: skip
        return Answer(200, {"value": entries})

    @route("GET", "/providers/Microsoft.Compute/locations/{region}/usages")
    def usages(self, region: str, **_: Any) -> Answer:
        """Quota."""
        used = self._used(region)
        entries = {
            "cores": sum(used.values()),
            **{f: used.get(f, 0) for f in sorted({s[0] for s in SIZES.values()})},
        }
        return Answer(200, {"value": [
            {"unit": "Count", "currentValue": n, "limit": self.limits.get((region, name), 350), "name": {"value": name, "localizedValue": name}}
            for name, n in entries.items()
        ]})  # fmt: skip

    @route(
        "GET",
        "/providers/Microsoft.Compute/locations/{region}/publishers/{publisher}/artifacttypes/vmimage/offers/{offer}/skus/{sku}/versions",
    )
    def image_versions(self, region: str, publisher: str, offer: str, sku: str, **_: Any) -> Answer:
        """Versions of an image."""
        version = IMAGES.get((publisher.lower(), offer.lower(), sku.lower()))
        if version is None:
            raise ArmError(
                404, "NotFound", f"Artifact: VMImage was not found ({publisher}:{offer}:{sku})."
            )
        return Answer(
            200, [{"location": region, "name": version, "id": f"{BASE}/versions/{version}"}]
        )

    @route(
        "GET",
        "/providers/Microsoft.Compute/locations/{region}/publishers/{publisher}/artifacttypes/vmimage/offers/{offer}/skus/{sku}/versions/{version}",
    )
    def image(
        self, region: str, publisher: str, offer: str, sku: str, version: str, **_: Any
    ) -> Answer:
        """One version of an image."""
        properties = {
            "hyperVGeneration": "V1" if sku in FIRST_GENERATION else "V2",
            "architecture": "x64",
            "osDiskImage": {"operatingSystem": "Windows" if sku in NOT_LINUX else "Linux"},
            "dataDiskImages": [],
            "automaticOSUpgradeProperties": {"automaticOSUpgradeSupported": False},
            "features": [{"name": "SecurityType", "value": "TrustedLaunchSupported"}],
        }
        return Answer(
            200,
            {
                "location": region,
                "name": version,
                "id": f"{BASE}/versions/{version}",
                "properties": properties,
            },
        )

    @route("GET", "/providers")
    def providers(self, **_: Any) -> Answer:
        """Resource providers."""
        return Answer(200, {"value": [self._provider(n) for n in PROVIDERS]})

    @route("GET", "/providers/{name}")
    def provider(self, name: str, **_: Any) -> Answer:
        """One resource provider."""
        return Answer(
            200, self._provider(next((n for n in PROVIDERS if n.lower() == name.lower()), name))
        )

    def _provider(self, name: str) -> Resource:
        zones = [
            {"location": r, "zones": [str(i + 1) for i in range(z)]} for r, z in REGIONS.items()
        ]
        kinds = [
            {
                "resourceType": t,
                "locations": list(REGIONS),
                "apiVersions": ["2024-07-01", "2024-05-01"],
                "zoneMappings": zones,
            }
            for t in PROVIDERS.get(name, ())
        ]
        return {
            "id": f"{BASE}/providers/{name}",
            "namespace": name,
            "registrationState": "Registered",
            "resourceTypes": kinds,
        }

    # long operations

    def _asynchronous(self, operation: Operation) -> dict[str, str]:
        return {
            "Azure-AsyncOperation": f"{BASE}/providers/Microsoft.Resources/operations/{operation.id}?api-version=2024-01-01",
            "retry-after-ms": "20",
        }

    def _location(self, operation: Operation) -> dict[str, str]:
        return {
            "Location": f"{BASE}/providers/Microsoft.Resources/operationresults/{operation.id}?api-version=2024-01-01",
            "retry-after-ms": "20",
        }

    @route("GET", "/providers/{provider}/operations/{identity}")
    def operation(self, identity: str, **_: Any) -> Answer:
        """State of a long operation."""
        found = self._operation(identity)
        error = {"error": found.error} if found.error else {}
        status = found.status
        if status == "InProgress" and found.steps:  # a deployment's own words
            status = found.steps.pop(0) if len(found.steps) > 1 else found.steps[0]
        return Answer(200, {"name": found.id, "status": status, **error}, {"retry-after-ms": "20"})

    @route("GET", "/providers/{provider}/operationresults/{identity}")
    def operation_result(self, identity: str, **_: Any) -> Answer:
        """Result of a long operation."""
        found = self._operation(identity)
        if found.status == "InProgress":
            return Answer(202, None, self._location(found))
        return Answer(409, {"error": found.error}) if found.error else Answer(200, found.result)

    def _operation(self, identity: str) -> Operation:
        if identity not in self.operations:
            raise ArmError(404, "NotFound", identity)
        return self.operations[identity]

    # resource groups

    def _group(self, name: str, *, writing: bool = False) -> Resource:
        found = self.groups.get(name.lower())
        if found is None:
            raise ArmError(
                404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found."
            )
        if writing and found["properties"]["provisioningState"] == "Deleting":
            raise ArmError(
                409,
                "ResourceGroupBeingDeleted",
                f"The resource group '{name}' is in deprovisioning state and cannot perform this operation.",
            )
        return found

    @route("GET", "/resourceGroups")
    def list_groups(self, query: dict[str, str], **_: Any) -> Answer:
        """All groups, or those with a tag."""
        wanted = dict(re.findall(r"(tagName|tagValue) eq '([^']*)'", query.get("$filter", "")))
        found = [
            g
            for g in self.groups.values()
            if not wanted
            or (
                wanted.get("tagName") in g["tags"]
                and wanted.get("tagValue", g["tags"].get(wanted["tagName"]))
                == g["tags"].get(wanted["tagName"])
            )
        ]
        return Answer(200, {"value": found})

    @route("GET", "/resourceGroups/{name}")
    def show_group(self, name: str, **_: Any) -> Answer:
        """One group."""
        return Answer(200, self._group(name))

    @route("HEAD", "/resourceGroups/{name}")
    def head_group(self, name: str, **_: Any) -> Answer:
        """Whether a group exists."""
        return Answer(204 if name.lower() in self.groups else 404)

    @route("PUT", "/resourceGroups/{name}")
    def put_group(self, name: str, body: Resource, **_: Any) -> Answer:
        """Make a group."""
        if name.lower() in self.groups:
            self._group(name, writing=True)
        region = body["location"].replace(" ", "").lower()
        self._check_group(name, region)
        made = {
            "id": f"{BASE}/resourceGroups/{name}",
            "name": name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": region,
            "tags": body.get("tags") or {},
            "properties": {"provisioningState": "Succeeded"},
        }
        fresh = name.lower() not in self.groups
        self.groups[name.lower()] = made
        if fresh:
            self.born[name.lower()] = self.clock()
        return Answer(201 if fresh else 200, made)

    def _check_group(self, name: str, region: str) -> None:
        if region not in REGIONS:
            raise ArmError(
                400,
                "LocationNotAvailableForResourceGroup",
                f"The provided location '{region}' is not available for resource group. List of available regions is '{','.join(REGIONS)}'.",
            )
        if not re.fullmatch(r"[\w.()-]{1,90}(?<!\.)", name):
            raise ArmError(
                400,
                "InvalidResourceGroup",
                f"The provided resource group name '{name}' has these invalid characters.",
            )

    @route("DELETE", "/resourceGroups/{name}")
    def delete_group(self, name: str, **_: Any) -> Answer:
        """Delete a group and all in it; deployments that run in it are stopped."""
        group = self._group(name)
        group["properties"]["provisioningState"] = "Deleting"
        inside = f"{BASE}/resourcegroups/{name}/".lower()
        for where, running in self.deployments.items():
            if where.startswith(inside) and running.left:
                running.left.clear()
                running.document["properties"]["provisioningState"] = "Canceled"

        def work() -> None:
            if fault := self._fault("delete", name):
                group["properties"]["provisioningState"] = "Succeeded"
                raise fault.error()
            for store in (self.resources, self.deployments):
                for where in [w for w in store if w.startswith(inside)]:
                    del store[where]  # type: ignore[attr-defined]
            self.groups.pop(name.lower(), None)

        return Answer(202, None, self._location(self._start(work, 3)))

    # deployments

    @route("PUT", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}")
    def put_deployment(self, group: str, name: str, body: Resource, **_: Any) -> Answer:
        """Start a deployment."""
        self._group(group, writing=True)
        if len(name) > 64:
            raise ArmError(
                400,
                "InvalidDeploymentName",
                f"The deployment name '{name}' has more than 64 characters.",
            )
        where = f"{BASE}/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}"
        if (running := self.deployments.get(where.lower())) and running.left:
            raise ArmError(
                409,
                "DeploymentActive",
                f"Unable to edit or replace deployment '{name}': previous deployment is still active.",
            )
        scope, template, items = self._read(group, name, body)
        secure = {
            k
            for k, v in template.get("parameters", {}).items()
            if v["type"].lower().startswith("secure")
        }
        document = {
            "id": where, "name": name, "type": "Microsoft.Resources/deployments",
            "properties": {
                "provisioningState": "Accepted", "correlationId": str(uuid.uuid4()), "mode": "Incremental", "timestamp": stamp(), "duration": "PT1S",
                "parameters": {k: {"type": "Object", "value": v} for k, v in scope.parameters.items() if k not in secure},
                "providers": [], "dependencies": [], "outputResources": [], "templateHash": "1",
            },
        }  # fmt: skip
        started = Running(document, group, items, scope, template, self.clock() + self.step_s)
        self.deployments[where.lower()] = started
        if not items:
            self._close(started)
        operation = self._start(steps=len(items) + 1)
        return Answer(201, copy.deepcopy(document), self._deployment_operation(operation, started))

    def _deployment_operation(self, operation: Operation, running: Running) -> dict[str, str]:
        def work() -> None:
            properties = running.document["properties"]
            if properties["provisioningState"] != "Succeeded":
                error = ArmError(409, "DeploymentFailed", "")
                error.error = properties.get("error") or {
                    "code": "DeploymentCanceled",
                    "message": "canceled",
                }
                raise error

        operation.work, operation.steps = work, ["Accepted", "Running"]
        where = f"{running.document['id']}/operationStatuses/{operation.id}?api-version=2024-01-01"
        return {"Azure-AsyncOperation": where, "retry-after-ms": "20"}

    @route(
        "GET",
        "/resourceGroups/[^/]+/providers/Microsoft.Resources/deployments/[^/]+/operationStatuses/{identity}",
    )
    def deployment_operation(self, identity: str, **_: Any) -> Answer:
        """State of a deployment."""
        return self.operation(identity)

    def _read(
        self, group: str, name: str, body: Resource, location: str | None = None
    ) -> tuple[arm.Scope, Resource, list[arm.Item]]:
        scope, template = self._scope(group, location or self._group(group)["location"], body)
        try:
            items = arm.expand(template, scope)
        except arm.TemplateError as error:
            raise ArmError(
                400, "InvalidTemplate", f"Deployment template validation failed: '{error}'."
            ) from None
        problems = self._problems(group, items)
        if problems:
            raise ArmError(
                400,
                "InvalidTemplateDeployment",
                f"The template deployment '{name}' is not valid according to the validation procedure. The tracking id is '{uuid.uuid4()}'. See inner errors for details.",
                details=problems,
            )
        return scope, template, items

    def _scope(self, group: str, location: str, body: Resource) -> tuple[arm.Scope, Resource]:
        """A template, and the values of its parameters."""
        properties = body["properties"]
        template = properties["template"]
        given = {k: v.get("value") for k, v in (properties.get("parameters") or {}).items()}
        declared = template.get("parameters") or {}
        try:
            if extra := set(given) - set(declared):
                raise arm.TemplateError(
                    f"The template parameters '{', '.join(sorted(extra))}' in the parameters file are not valid; they are not present in the original template."
                )
            missing = [k for k, d in declared.items() if k not in given and "defaultValue" not in d]
            if missing:
                raise arm.TemplateError(
                    f"The value for the template parameter '{missing[0]}' is not provided."
                )
            for k, v in given.items():
                kinds = {
                    "array": list,
                    "bool": bool,
                    "int": int,
                    "object": dict,
                    "secureobject": dict,
                    "securestring": str,
                    "string": str,
                }
                if not isinstance(v, kinds[declared[k]["type"].lower()]):
                    raise arm.TemplateError(
                        f"The provided value for the template parameter '{k}' is not valid: expected {declared[k]['type']}."
                    )
                if v not in declared[k].get("allowedValues", [v]):
                    raise arm.TemplateError(
                        f"The provided value '{v}' for the template parameter '{k}' is not part of the allowed value(s)."
                    )
            scope = arm.Scope(
                SUBSCRIPTION,
                group,
                location,
                {},
                template.get("variables") or {},
                self._reference,
                zones=REGIONS,
            )
            scope.parameters = {
                k: given.get(k, scope.value(d.get("defaultValue"))) for k, d in declared.items()
            }
        except arm.TemplateError as error:
            raise ArmError(
                400, "InvalidTemplate", f"Deployment template validation failed: '{error}'."
            ) from None
        return scope, template

    def _reference(self, where: str) -> Resource | None:
        found = self.resources.get(where.lower())
        return self.show(found) if found else None

    def _problems(self, group: str, items: list[arm.Item]) -> list[Resource]:
        """What Azure finds before it starts a deployment."""
        out: list[Resource] = []
        need: dict[tuple[str, str], int] = {}
        for item in items:
            if item.type.lower() != "microsoft.compute/virtualmachines":
                continue
            vm = item.evaluate()
            size, region, zones = (
                vm["properties"]["hardwareProfile"]["vmSize"],
                vm["location"],
                vm.get("zones", []),
            )
            if fault := self._fault("validate", f"{size} {region} {','.join(zones)} {item.name}"):
                out.append({"code": fault.code, "message": fault.message})
            elif size not in SIZES:
                out.append(
                    {
                        "code": "InvalidParameter",
                        "target": "vmSize",
                        "message": f"The value {size} provided for the VM size is not valid. The valid sizes in the current region are: {','.join(SIZES)}. Find out more on the valid VM sizes in each region at https://aka.ms/azure-regions.",
                    }
                )
            elif SIZES[size][4]:
                out.append(
                    {
                        "code": "SkuNotAvailable",
                        "message": f"The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: {size}' is currently not available in location '{region}'. Please try another size or deploy to a different location or different zone. See https://aka.ms/azureskunotavailable for details.",
                    }
                )
            elif item.id.lower() not in self.resources:
                need[region, SIZES[size][0]] = (
                    need.get((region, SIZES[size][0]), 0) + SIZES[size][1]
                )
        for (region, family), n in need.items():
            used, limit = self._used(region).get(family, 0), self.limits.get((region, family), 350)
            if used + n > limit:
                out.append(
                    {
                        "code": "QuotaExceeded",
                        "message": f"Operation could not be completed as it results in exceeding approved {family} Cores quota. Additional details - Deployment Model: Resource Manager, Location: {region}, Current Limit: {limit}, Current Usage: {used}, Additional Required: {n}, (Minimum) New Limit Required: {used + n}. Setup Alerts when Quota reaches threshold.",
                    }
                )
        return out

    def _step(self, running: Running) -> None:
        """Make one more resource."""
        running.due += self.step_s
        properties = running.document["properties"]
        properties["provisioningState"] = "Running"
        waiting = {i.id.lower() for i in running.left}
        lost = {i.id.lower() for i, _ in running.failed}
        ready = [i for i in running.left if not i.depends & (waiting | lost)]
        for item in reversed(ready):
            try:
                body = item.evaluate()
            except arm.NotYet as missing:
                if str(missing).lower() in waiting:
                    continue
                self._fail(
                    running,
                    item,
                    {
                        "code": "ResourceNotFound",
                        "message": f"The Resource '{missing}' was not found.",
                    },
                )
                return
            except arm.TemplateError as error:
                self._fail(running, item, {"code": "InvalidTemplate", "message": str(error)})
                return
            running.left.remove(item)
            try:
                if fault := self._fault("resource", f"{item.type} {item.name}"):
                    raise fault.error()
                if unknown := models.wrong(body):
                    raise ArmError(
                        400, "InvalidRequestContent", f"{item.name}: {'; '.join(unknown)}"
                    )
                self.put(item.id, body)
                running.operations.append(self._record(item, None))
                properties["outputResources"].append({"id": item.id})
            except ArmError as error:
                self._fail(running, item, error.error, taken=True)
            break
        else:
            running.left.clear()  # what is left waits for something that failed
        if not running.left:
            self._close(running)

    def _fail(
        self, running: Running, item: arm.Item, error: Resource, *, taken: bool = False
    ) -> None:
        if not taken:
            running.left.remove(item)
        running.failed.append((item, error))
        running.operations.append(self._record(item, error))
        if not running.left:
            self._close(running)

    def _record(self, item: arm.Item, error: Resource | None) -> Resource:
        state = "Failed" if error else "Succeeded"
        message = {"statusMessage": {"status": "Failed", "error": error}} if error else {}
        return {
            "id": f"{item.id}/operations/1",
            "operationId": uuid.uuid4().hex[:16].upper(),
            "properties": {
                "provisioningOperation": "Create",
                "provisioningState": state,
                "timestamp": stamp(),
                "duration": "PT1S",
                "statusCode": "Conflict" if error else "OK",
                "targetResource": {
                    "id": item.id,
                    "resourceType": item.type,
                    "resourceName": item.name,
                },
                **message,
            },
        }

    def _close(self, running: Running) -> None:
        properties = running.document["properties"]
        if running.failed:
            details = [
                {
                    "code": "ResourceDeploymentFailure",
                    "message": "The resource write operation failed to complete successfully, because it reached terminal provisioning state 'Failed'.",
                    "details": [e],
                }
                for _, e in running.failed
            ]
            properties.update(
                provisioningState="Failed",
                error={
                    "code": "DeploymentFailed",
                    "target": running.document["id"],
                    "message": "At least one resource deployment operation failed. Please list deployment operations for details. Please see https://aka.ms/arm-deployment-operations for usage details.",
                    "details": details,
                },
            )
            return
        outputs = {}
        try:
            for name, output in (running.template.get("outputs") or {}).items():
                if "copy" in output:
                    value: Any = list(
                        running.scope.loop(
                            output["copy"],
                            lambda output=output: running.scope.value(output["copy"]["input"]),
                        )
                    )
                else:
                    value = running.scope.value(output["value"])
                outputs[name] = {"type": output["type"], "value": value}
        except (arm.TemplateError, arm.NotYet) as error:
            properties.update(
                provisioningState="Failed",
                error={
                    "code": "DeploymentOutputEvaluationFailed",
                    "message": f"Unable to evaluate template outputs: {error}",
                },
            )
            return
        properties.update(provisioningState="Succeeded", outputs=outputs)

    def _deployment(self, group: str, name: str) -> Running:
        self._group(group)
        found = self.deployments.get(
            f"{BASE}/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}".lower()
        )
        if found is None:
            raise ArmError(404, "DeploymentNotFound", f"Deployment '{name}' could not be found.")
        return found

    @route("GET", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments")
    def list_deployments(self, group: str, **_: Any) -> Answer:
        """All deployments of a group."""
        self._group(group)
        inside = f"{BASE}/resourceGroups/{group}/".lower()
        found = [r.document for w, r in self.deployments.items() if w.startswith(inside)]
        return Answer(200, {"value": found})

    @route(
        "POST", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}/cancel"
    )
    def cancel(self, group: str, name: str, **_: Any) -> Answer:
        """End a deployment; what it made stays."""
        running = self._deployment(group, name)
        if not running.left:
            text = f"The deployment '{name}' cannot be cancelled."
            raise ArmError(409, "DeploymentCannotBeCancelled", text)
        running.left.clear()
        running.document["properties"]["provisioningState"] = "Canceled"
        return Answer(204)

    @route("GET", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}")
    def show_deployment(self, group: str, name: str, **_: Any) -> Answer:
        """One deployment."""
        return Answer(200, self._deployment(group, name).document)

    @route(
        "GET",
        "/resourceGroups/{group}/(?:providers/Microsoft.Resources/)?deployments/{name}/operations",
    )
    def deployment_operations(self, group: str, name: str, **_: Any) -> Answer:
        """What a deployment did so far."""
        return Answer(200, {"value": self._deployment(group, name).operations})

    @route(
        "POST", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}/validate"
    )
    def validate(self, group: str, name: str, body: Resource, **_: Any) -> Answer:
        """Check a template, as az does before it deploys one."""
        self._group(group, writing=True)
        self._read(group, name, body)
        return Answer(200, {"name": name, "properties": {"provisioningState": "Succeeded"}})

    @route("POST", "/providers/Microsoft.Resources/deployments/{name}/validate")
    def validate_subscription(self, name: str, body: Resource, **_: Any) -> Answer:
        """Check a template that makes a resource group and deploys into it."""
        items = self._rehearsed(name, body)[1]
        return Answer(
            200,
            {
                "id": f"{BASE}/providers/Microsoft.Resources/deployments/{name}",
                "name": name,
                "type": "Microsoft.Resources/deployments",
                "location": body["location"],
                "properties": {
                    "provisioningState": "Succeeded",
                    "mode": "Incremental",
                    "validatedResources": [{"id": i.id} for i in items],
                },
            },
        )

    @route("POST", "/providers/Microsoft.Resources/deployments/{name}/whatIf")
    def what_if_subscription(self, name: str, body: Resource, **_: Any) -> Answer:
        """Tell what a template would change that makes a resource group and deploys into it."""
        group, items = self._rehearsed(name, body)
        return self._what_if([f"{BASE}/resourceGroups/{group}", *(i.id for i in items)])

    def _what_if(self, ids: list[str]) -> Answer:
        there = {*self.resources, *(g["id"].lower() for g in self.groups.values())}
        changes = [
            {"resourceId": i, "changeType": "Modify" if i.lower() in there else "Create"}
            for i in ids
        ]
        properties = {"correlationId": str(uuid.uuid4()), "changes": changes}
        return Answer(200, {"status": "Succeeded", "properties": properties})

    def _rehearsed(self, name: str, body: Resource) -> tuple[str, list[arm.Item]]:
        """The group, and the resources of the deployment nested in it."""
        scope, template = self._scope("", "", body)
        try:
            group, nested = (
                scope.value({k: v for k, v in r.items() if k != "properties"})
                for r in template["resources"]
            )
            inner = template["resources"][1]["properties"]
            if (group["type"], nested["type"]) != (
                "Microsoft.Resources/resourceGroups",
                "Microsoft.Resources/deployments",
            ):
                raise arm.TemplateError("only a group and one deployment in it can be read here")
            if (
                inner["expressionEvaluationOptions"] != {"scope": "inner"}
                or nested["resourceGroup"] != group["name"]
            ):
                raise arm.TemplateError(
                    "the deployment must stand by itself, in the group of the template"
                )
            given = scope.value(inner["parameters"])
            scope.value(nested["dependsOn"])
        except arm.TemplateError as error:
            raise ArmError(
                400, "InvalidTemplate", f"Deployment template validation failed: '{error}'."
            ) from None
        self._check_group(group["name"], group["location"])
        properties = {"template": inner["template"], "parameters": given}
        return group["name"], self._read(
            group["name"], nested["name"], {"properties": properties}, group["location"]
        )[2]

    # resources

    def put(self, where: str, body: Resource) -> Resource:
        """Write a resource; the rules of its type apply.

        Raises
        ------
        ArmError
            They do not allow it.
        """
        group = where.split("/")[4]
        home = self._group(group, writing=True)
        parts = where.split("/providers/", 1)[1].split("/")
        kind = "/".join([parts[0], *parts[1::2]])
        old = self.resources.get(where.lower())
        if len(parts) > 3 and where.rsplit("/", 2)[0].lower() not in self.resources:
            raise ArmError(
                404,
                "ParentResourceNotFound",
                f"Failed to perform 'write' on resource(s) of type '{kind}', because the parent resource '{where.rsplit('/', 2)[0]}' could not be found.",
            )
        body = arm.without_nulls(copy.deepcopy(body))
        new: Resource = {
            "id": where,
            "name": parts[-1],
            "type": kind,
            **({"etag": f'W/"{uuid.uuid4()}"'} if kind.startswith("Microsoft.Network/") else {}),
            "properties": body.get("properties") or {},
        }
        new |= {k: body[k] for k in ("tags", "sku", "zones", "plan", "identity") if k in body}
        if len(parts) == 3:
            new["location"] = (body.get("location") or home["location"]).replace(" ", "").lower()
            bad = [z for z in new.get("zones", []) if int(z) > REGIONS[new["location"]]]
            if bad:
                raise ArmError(
                    400,
                    "AvailabilityZoneNotSupported",
                    f"The zone(s) '{','.join(bad)}' for resource '{where}' is not supported in '{new['location']}'.",
                )
        before = dict(self.resources)
        self.resources[where.lower()] = new  # its children look for their parent
        try:
            apply(self, new, old)
        except BaseException:
            self.resources.clear()
            self.resources.update(before)
            raise
        return new

    def show(self, resource: Resource) -> Resource:
        """A resource as it is read: with its children, without what is secret."""
        if "_later" in resource and self.clock() >= resource["_later"][0]:
            resource["properties"].update(resource.pop("_later")[1])
        out = copy.deepcopy({k: v for k, v in resource.items() if not k.startswith("_")})
        if ppg := out["properties"].get(
            "proximityPlacementGroup"
        ):  # Azure gives its group in capitals
            ppg["id"] = re.sub("(?<=/resourceGroups/)[^/]+", lambda m: m[0].upper(), ppg["id"])
        for key in (
            EMBEDDED.get(resource["type"].lower().split("/")[1], ())
            if resource["type"].count("/") == 1
            else ()
        ):
            inside = f"{resource['id']}/{key}/".lower()
            out["properties"][key] = [
                self.show(r) for w, r in self.resources.items() if w.startswith(inside)
            ]
        out["properties"].get("osProfile", {}).pop("customData", None)
        return out

    @route(
        "GET",
        "/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}/instanceView",
    )
    def instance_view(self, group: str, name: str, **_: Any) -> Answer:
        """State of a VM."""
        self._group(group)
        power = "deallocated" if name in self.stopped else "running"
        codes = {
            "ProvisioningState/succeeded": "Provisioning succeeded",
            f"PowerState/{power}": f"VM {power}",
        }
        return Answer(
            200,
            {
                "statuses": [
                    {"code": c, "level": "Info", "displayStatus": text} for c, text in codes.items()
                ]
            },
        )

    @route(
        "POST",
        "/resourceGroups/{group}/providers/Microsoft.Network/networkInterfaces/{name}/effectiveRouteTable",
    )
    def effective_routes(self, group: str, name: str, **_: Any) -> Answer:
        """Routes of an interface: of its network, its peerings and gateways, and those that a user gave it."""
        home = self._group(group)
        nic = self.resources[
            f"{home['id']}/providers/Microsoft.Network/networkInterfaces/{name}".lower()
        ]
        subnet = nic["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"].lower()
        network = subnet.rsplit("/subnets/", 1)[0]
        found = [
            (self._prefix(network), "VnetLocal", "Default", []),
            ("0.0.0.0/0", "Internet", "Default", []),
        ]
        for where, r in self.resources.items():
            kind, p = r["type"].lower().rsplit("/", 1)[-1], r["properties"]
            if kind == "virtualnetworkpeerings" and where.startswith(network + "/"):
                other = p["remoteVirtualNetwork"]["id"].lower()
                far = self.resources[network]["location"] != self.resources[other]["location"]
                found.append(
                    (
                        self._prefix(other),
                        "VNetGlobalPeering" if far else "VNetPeering",
                        "Default",
                        [],
                    )
                )
            if kind == "connections":
                found += [
                    (x, "VirtualNetworkGateway", "VirtualNetworkGateway", [])
                    for x in self._behind(network, p)
                ]
        value = [
            {
                "addressPrefix": [prefix],
                "nextHopType": hop,
                "source": source,
                "state": "Active",
                "nextHopIpAddress": via,
            }
            for prefix, hop, source, via in found
        ]
        return Answer(202, None, self._location(self._start(lambda: {"value": value}, steps=0)))

    def _prefix(self, network: str) -> str:
        return str(self.resources[network]["properties"]["addressSpace"]["addressPrefixes"][0])

    def _behind(self, network: str, connection: Resource) -> list[str]:
        """Prefixes that a network reaches through a connection."""

        def of(gateway: str) -> str:
            entry = self.resources[gateway.lower()]["properties"]["ipConfigurations"][0][
                "properties"
            ]
            return str(entry["subnet"]["id"].lower().rsplit("/subnets/", 1)[0])

        if of(connection["virtualNetworkGateway1"]["id"]) != network:
            return []
        if second := connection.get("virtualNetworkGateway2"):
            return [self._prefix(of(second["id"]))]
        others = (
            of(r["properties"]["virtualNetworkGateway1"]["id"])
            for r in self.resources.values()
            if r["type"].lower().endswith("/connections")
            and r["properties"].get("peer") == connection.get("peer")
        )
        return [self._prefix(o) for o in others if o != network]

    @route("GET", "/resourceGroups/{group}/providers/{tail+}")
    def read(self, group: str, tail: str, query: dict[str, str], **_: Any) -> Answer:
        """One resource, or all of a type."""
        home = self._group(group)
        where = f"{home['id']}/providers/{tail}"
        if len(tail.split("/")) % 2 == 0:
            inside = where.lower() + "/"
            found = [
                self.show(r)
                for w, r in self.resources.items()
                if w.startswith(inside) and "/" not in w[len(inside) :]
            ]
            return Answer(200, {"value": found})
        resource = self.resources.get(where.lower())
        if resource is None:
            raise ArmError(
                404,
                "ResourceNotFound",
                f"The Resource '{tail}' under resource group '{group}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
            )
        out = self.show(resource)
        if "instanceview" in query.get("$expand", "").lower():
            out["properties"]["instanceView"] = self.instance_view(group, resource["name"]).body
        if (
            resource["type"].lower().endswith("proximityplacementgroups")
            and query.get("includeColocationStatus", "").lower() == "true"
        ):
            out["properties"]["virtualMachines"] = [
                {"id": r["id"]}
                for r in self.resources.values()
                if (r["properties"].get("proximityPlacementGroup") or {}).get("id", "").lower()
                == where.lower()
            ]
            code = "ColocationStatus/NotAligned" if self.scattered else "ColocationStatus/Aligned"
            out["properties"]["colocationStatus"] = {
                "code": code,
                "level": "Info",
                "displayStatus": code.rsplit("/", 1)[1],
            }
        return Answer(200, out)

    @route("PUT", "/resourceGroups/{group}/providers/{tail+}")
    def write(self, group: str, tail: str, body: Resource, **_: Any) -> Answer:
        """Write one resource."""
        home = self._group(group, writing=True)
        fresh = f"{home['id']}/providers/{tail}".lower() not in self.resources
        made = self.put(f"{home['id']}/providers/{tail}", body)
        return Answer(201 if fresh else 200, self.show(made), self._asynchronous(self._start()))


def _listed(resource: Resource) -> Resource:
    """As a list of resources of all types shows one."""
    return {k: resource[k] for k in ("id", "name", "type", "location", "tags") if k in resource}
