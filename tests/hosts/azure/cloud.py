"""An emulated Azure Resource Manager: groups, resources, deployments, long operations, faults.
No I/O.

Work takes time on a clock that may be real or a test's own; what is due happens when the next
request comes in. A template's resources are made one after the other, in the order that is worst
for a template that forgot a dependency.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

from . import arm, schemas
from .rules import EMBEDDED, REGIONS, SIZES, ArmError, Resource, apply, refuse

SUBSCRIPTION = "5a5a5a5a-0000-4000-8000-000000000001"
OTHER = "07070707-0000-4000-8000-000000000003"
"""Another subscription of the same user: nothing but its regions can be read."""
OLD_S, NEW_S = 60, 30
"""How old what is shown may be, and for how long what was made may be denied, in seconds."""
TENANT = "7e7e7e7e-0000-4000-8000-000000000002"
BASE = f"/subscriptions/{SUBSCRIPTION}"


@dataclass
class Answer:
    """Of a request."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """Something that goes wrong.

    `at` says where: ``request`` (matched against "METHOD path"), ``validate`` (against the name of
    a VM), ``resource`` (against "type name", while a deployment makes it), ``token`` (the login).
    """

    at: str
    match: str
    status: int = 409
    code: str = ""
    message: str = ""
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def error(self):
        """The error to answer with."""
        return ArmError(self.status, self.code, self.message, headers=self.headers)


@dataclass
class Running:
    """A deployment."""

    document: Resource
    group: str
    left: list[arm.Item]
    scope: arm.Scope
    template: Resource
    due: float
    failed: list[tuple[arm.Item, Resource]] = field(default_factory=list)

    def stop(self):
        """Make no more."""
        self.left.clear()
        self.document["properties"]["provisioningState"] = "Canceled"


ROUTES = []


def route(method, path):
    """Register a method for a path such as ``/resourceGroups/{group}``, relative to the
    subscription."""
    pattern = re.sub(r"\{(\w+)\+\}", r"(?P<\1>.+)", path)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)

    def register(function):
        ROUTES.append((method, re.compile(pattern, re.I), function.__name__))
        return function

    return register


def stamp():
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

    def __init__(self, *, step_s=0.02, clock=time.monotonic):
        self.step_s, self.clock = step_s, clock
        self.reset()

    def reset(self):
        """Forget everything."""
        self.groups = {}
        self.resources = {}
        self.deployments = {}
        self.ending = []
        """Deletions of groups, and when they are done."""
        self.faults = []
        self.limits = {}
        self.requests = []
        self.stopped = set()
        """Names of VMs that are deallocated."""
        self.lag = None
        """It decides what is answered late; None: nothing is."""
        self.born = {}
        """When each group was made."""
        self.history = []
        self.kept = {}
        """Resources that refuse to be deleted, until when."""
        self.scattered = False
        """Proximity placement groups do not keep their members together."""

    # what tests look at

    def names(self, kind):
        """Names of all resources of a type, sorted."""
        return sorted(
            r["id"].rsplit("/", 1)[1]
            for r in self.resources.values()
            if r["type"].lower() == kind.lower()
        )

    def get(self, kind, name):
        """Properties of one resource."""
        found = next(
            r
            for r in self.resources.values()
            if r["type"].lower() == kind.lower() and r["id"].endswith(f"/{name}")
        )
        return self.show(found)

    def settle(self):
        """Let everything that is under way come to its end."""
        self._advance(math.inf)

    # time

    def _advance(self, now):
        while True:
            steps = [
                (d.due, partial(self._step, d))
                for d in self.deployments.values()
                if d.left
            ]
            due, step = min(
                [*steps, *self.ending], key=itemgetter(0), default=(math.inf, None)
            )
            if step is None or due > now:
                return
            self.ending = [end for end in self.ending if end[1] is not step]
            step()
            self._remember(due)

    # lag

    def _remember(self, now):
        """Keep what there is, so that it can be shown later."""
        if self.lag is None:
            return
        shown = {w: r.document for w, r in self.deployments.items()}
        self.history = [h for h in self.history[-200:] if h[0] > now - 4 * OLD_S]
        self.history.append((now, pickle.dumps((self.groups, self.resources, shown))))

    def _denied(self, method, path):
        """Whether a group that was just made is denied: creations are not known everywhere."""
        named = re.match(
            r"/subscriptions/[^/]+/resourcegroups/(npl-[^/]+)(/.*)?$", path, re.I
        )
        if self.lag is None or not named or (method == "PUT" and not named[2]):
            return False
        young = self.clock() - self.born.get(named[1].lower(), -NEW_S) < NEW_S
        return young and self.lag.random() < 0.5

    @contextmanager
    def _earlier(self, method, path):
        """Show what there was up to a minute ago, of what is looked at."""
        if self.lag is None or method != "GET" or self.lag.random() < 0.4:
            yield
            return
        until = self.clock() - self.lag.uniform(0, OLD_S)
        before = [content for time_, content in self.history if time_ <= until]
        now = self.groups, self.resources, self.deployments
        if before:
            self.groups, self.resources, shown = pickle.loads(before[-1])
        else:
            # nothing that this project makes was there
            self.groups = {
                n: g for n, g in self.groups.items() if not n.startswith("npl-")
            }
            self.resources = {w: r for w, r in self.resources.items() if "/npl-" not in w}
            shown = {}
        empty = arm.Scope(SUBSCRIPTION, "", "", {}, self._reference)
        self.deployments = {
            w: Running(document, "", [], empty, {}, 0.0) for w, document in shown.items()
        }
        try:
            yield
        finally:
            self.groups, self.resources, self.deployments = now

    def _fault(self, at, text):
        for fault in self.faults:
            if fault.at == at and fault.times and re.search(fault.match, text, re.I):
                fault.times -= 1
                return fault
        return None

    # requests

    def request(self, method, path, query=None, body=None):
        """Answer a request to the resource manager; paths are taken in any case and with doubled
        slashes."""
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

    def _route(self, method, path, query, body):
        head, _, tail = path[1:].partition("/")
        identity, _, tail = tail.partition("/")
        if head.lower() != "subscriptions":
            raise ArmError(404, "NotFound", path)
        if identity.lower() == OTHER and tail == "locations":
            return self.locations(shifted=1)
        if identity.lower() != SUBSCRIPTION:
            raise ArmError(
                404,
                "SubscriptionNotFound",
                f"The subscription '{identity}' could not be found.",
            )
        for verb, pattern, name in ROUTES:
            match = pattern.fullmatch("/" + tail if tail else "")
            if verb == method and match:
                return getattr(self, name)(query=query, body=body, **match.groupdict())
        raise ArmError(404, "NotFound", f"{method} {path}")

    @route("GET", "/locations")
    def locations(self, shifted=0, **_):
        """Regions; zones are mapped differently in each, and in each subscription."""
        out = []
        for shift, (region, zones) in enumerate(REGIONS.items(), shifted):
            mapped = [
                {
                    "logicalZone": str(i + 1),
                    "physicalZone": f"{region}-az{(i + shift) % 3 + 1}",
                }
                for i in range(zones)
            ]
            more = {"availabilityZoneMappings": mapped} if mapped else {}
            out.append({"name": region, "displayName": region, "type": "Region"} | more)
        return Answer(200, {"value": out})

    @route("GET", "/providers/Microsoft.Compute/skus")
    def skus(self, query, **_):
        """Sizes."""
        wanted = re.search(r"location eq '([^']+)'", query.get("$filter", ""))
        regions = [r for r in REGIONS if not wanted or wanted[1].lower() == r]
        return Answer(200, {"value": [_size(r, name) for r in regions for name in SIZES]})

    @route("GET", "/providers/Microsoft.{part}/locations/{region}/usages")
    def usages(self, part, region, **_):
        """Quota of addresses or of cores."""
        here = [r for r in self.resources.values() if r.get("location") == region]
        if part.lower() == "network":
            names = ("PublicIPAddresses", "StandardSkuPublicIpAddresses")
            used = dict.fromkeys((*names, "IPv4StandardSkuPublicIpAddresses"), 0)
            for name in used:
                used[name] = sum(r["type"].endswith("/publicIPAddresses") for r in here)
        else:
            used = dict.fromkeys(("cores", *(size[0] for size in SIZES.values())), 0)
            for vm in (r for r in here if r["type"].endswith("/virtualMachines")):
                family, cpus, *_rest = SIZES[
                    vm["properties"]["hardwareProfile"]["vmSize"]
                ]
                used[family] += cpus
                used["cores"] += cpus
        entries = []
        for name, count in used.items():
            limit = self.limits.get((region, name), 350)
            told = {"value": name, "localizedValue": name}
            entries.append(
                {"currentValue": count, "limit": limit, "unit": "Count", "name": told}
            )
        return Answer(200, {"value": entries})

    # resource groups

    def _group(self, name, *, writing=False):
        found = self.groups.get(name.lower(), {})
        refuse(not found, "ResourceGroupNotFound", name, status=404)
        deleting = found["properties"]["provisioningState"] == "Deleting"
        refuse(writing and deleting, "ResourceGroupBeingDeleted", name, status=409)
        return found

    @route("GET", "/resourceGroups")
    def list_groups(self, query, **_):
        """All groups, or those with a tag."""
        wanted = re.search(r"tagName eq '([^']*)'", query.get("$filter", ""))
        found = [g for g in self.groups.values() if not wanted or wanted[1] in g["tags"]]
        return Answer(200, {"value": found})

    @route("GET", "/resourceGroups/{name}")
    def show_group(self, name, **_):
        """One group."""
        return Answer(200, self._group(name))

    @route("PUT", "/resourceGroups/{name}")
    def put_group(self, name, body, **_):
        """Make a group."""
        fresh = name.lower() not in self.groups
        if not fresh:
            self._group(name, writing=True)
        made = {
            "id": f"{BASE}/resourceGroups/{name}",
            "name": name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": self._region(name, body["location"]),
            "tags": body.get("tags") or {},
            "properties": {"provisioningState": "Succeeded"},
        }
        self.groups[name.lower()] = made
        if fresh:
            self.born[name.lower()] = self.clock()
        return Answer(201 if fresh else 200, made)

    def _region(self, group, text):
        region = text.replace(" ", "").lower()
        refuse(region not in REGIONS, "LocationNotAvailableForResourceGroup", region)
        refuse(
            not re.fullmatch(r"[\w.()-]{1,90}(?<!\.)", group),
            "InvalidResourceGroup",
            group,
        )
        return region

    @route("DELETE", "/resourceGroups/{name}")
    def delete_group(self, name, **_):
        """Delete a group and all in it; deployments that run in it are stopped."""
        group = self._group(name)
        group["properties"]["provisioningState"] = "Deleting"
        inside = f"{BASE}/resourcegroups/{name}/".lower()
        for where, running in self.deployments.items():
            if where.startswith(inside) and running.left:
                running.stop()

        def work():
            refusing = [w for w, until in self.kept.items() if w.startswith(inside)]
            refusing = [w for w in refusing if self.kept[w] > self.clock()]
            if refusing or self._fault("delete", name):
                group["properties"]["provisioningState"] = "Succeeded"
                return
            for store in (self.resources, self.deployments):
                for where in [w for w in store if w.startswith(inside)]:
                    del store[where]
            self.groups.pop(name.lower(), None)

        self.ending.append((self.clock() + 3 * self.step_s, work))
        return Answer(202)

    # deployments

    @route(
        "PUT", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}"
    )
    def put_deployment(self, group, name, body, **_):
        """Start a deployment."""
        self._group(group, writing=True)
        where = f"{BASE}/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}"
        before = self.deployments.get(where.lower())
        refuse(before and before.left, "DeploymentActive", name, status=409)
        scope, template, items = self._read(group, name, body)
        properties = {"provisioningState": "Accepted", "mode": "Incremental"}
        document = {
            "id": where,
            "name": name,
            "type": "Microsoft.Resources/deployments",
            "properties": properties | {"timestamp": stamp(), "duration": "PT1S"},
        }
        due = self.clock() + self.step_s
        running = Running(document, group, items, scope, template, due)
        self.deployments[where.lower()] = running
        return Answer(201, copy.deepcopy(document))

    def _read(self, group, name, body, location=None):
        scope, template = self._scope(
            group, location or self._group(group)["location"], body
        )
        try:
            items = arm.expand(template, scope)
        except arm.TemplateError as error:
            raise ArmError(400, "InvalidTemplate", str(error)) from None
        if problems := self._problems(items):
            text = f"The template deployment '{name}' is not valid. See inner errors for details."
            raise ArmError(400, "InvalidTemplateDeployment", text, details=problems)
        return scope, template, items

    def _scope(self, group, location, body):
        """A template, and the values of its parameters."""
        template = body["properties"]["template"]
        given = body["properties"].get("parameters") or {}
        given = {k: v.get("value") for k, v in given.items()}
        declared = template.get("parameters") or {}
        unknown = set(given) - set(declared)
        refuse(unknown, "InvalidTemplate", f"unknown parameters {unknown}")
        missing = [
            k for k, d in declared.items() if k not in given and "defaultValue" not in d
        ]
        refuse(missing, "InvalidTemplate", f"no value for {missing}")
        scope = arm.Scope(
            SUBSCRIPTION, group, location, {}, self._reference, zones=REGIONS
        )
        defaults = {k: scope.value(d.get("defaultValue")) for k, d in declared.items()}
        scope.parameters = defaults | given
        return scope, template

    def _reference(self, where):
        found = self.resources.get(where.lower())
        return self.show(found) if found else None

    def _problems(self, items):
        """What goes wrong before a deployment starts."""
        found = [
            self._fault("validate", i.name) for i in items if i.type.endswith("Machines")
        ]
        return [f.error().error for f in found if f]

    def _step(self, running):
        """Make one more resource."""
        running.due += self.step_s
        running.document["properties"]["provisioningState"] = "Running"
        waiting = {i.id.lower() for i in running.left}
        lost = {i.id.lower() for i, _ in running.failed}
        ready = [i for i in running.left if not i.depends & (waiting | lost)]
        if not ready:
            running.left.clear()  # what is left waits for something that failed
        for item in ready[-1:]:
            running.left.remove(item)
            try:
                body = item.evaluate()
                if fault := self._fault("resource", f"{item.type} {item.name}"):
                    raise fault.error()
                unknown = schemas.wrong(body)
                refuse(unknown, "InvalidRequestContent", f"{item.name}: {unknown}")
                self.put(item.id, body)
            except (arm.NotYet, arm.TemplateError) as error:
                code = {"code": "InvalidTemplate", "message": f"{item.name}: {error!r}"}
                running.failed.append((item, code))
            except ArmError as error:
                running.failed.append((item, error.error))
        if not running.left:
            self._close(running)

    def _close(self, running):
        properties = running.document["properties"]
        if running.failed:
            details = [
                {
                    "code": "ResourceDeploymentFailure",
                    "message": "It failed.",
                    "details": [e],
                }
                for _, e in running.failed
            ]
            error = {"code": "DeploymentFailed", "message": "At least one failed."}
            properties |= {
                "provisioningState": "Failed",
                "error": error | {"details": details},
            }
            return
        scope, outputs = running.scope, {}
        for name, output in (running.template.get("outputs") or {}).items():
            each = output["copy"]
            value = list(scope.loop(each, lambda each=each: scope.value(each["input"])))
            outputs[name] = {"type": output["type"], "value": value}
        properties |= {"provisioningState": "Succeeded", "outputs": outputs}

    def _deployment(self, group, name):
        self._group(group)
        where = f"{BASE}/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}"
        found = self.deployments.get(where.lower())
        if found is None:
            raise ArmError(
                404, "DeploymentNotFound", f"Deployment '{name}' could not be found."
            )
        return found

    @route("GET", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments")
    def list_deployments(self, group, **_):
        """All deployments of a group."""
        self._group(group)
        inside = f"{BASE}/resourceGroups/{group}/".lower()
        found = [r.document for w, r in self.deployments.items() if w.startswith(inside)]
        return Answer(200, {"value": found})

    @route(
        "POST",
        "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}/cancel",
    )
    def cancel(self, group, name, **_):
        """End a deployment; what it made stays."""
        running = self._deployment(group, name)
        refuse(not running.left, "DeploymentCannotBeCancelled", name, status=409)
        running.stop()
        return Answer(204)

    @route(
        "GET", "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}"
    )
    def show_deployment(self, group, name, **_):
        """One deployment."""
        return Answer(200, self._deployment(group, name).document)

    @route(
        "POST",
        "/resourceGroups/{group}/providers/Microsoft.Resources/deployments/{name}/validate",
    )
    def validate(self, group, name, body, **_):
        """Check a template, as az does before it deploys one."""
        self._group(group, writing=True)
        self._read(group, name, body)
        return Answer(
            200, {"name": name, "properties": {"provisioningState": "Succeeded"}}
        )

    @route("POST", "/providers/Microsoft.Resources/deployments/{name}/{what}")
    def rehearse(self, name, what, body, **_):
        """Check a template that makes a group and deploys into it; tell what it would make."""
        scope, template = self._scope("", "", body)
        sources = [
            {k: v for k, v in r.items() if k != "properties"}
            for r in template["resources"]
        ]
        group, nested = map(scope.value, sources)
        inner = template["resources"][1]["properties"]
        region = self._region(group["name"], group["location"])
        given = {
            "template": inner["template"],
            "parameters": scope.value(inner["parameters"]),
        }
        items = self._read(group["name"], nested["name"], {"properties": given}, region)[
            2
        ]
        changes = [{"resourceId": i.id, "changeType": "Create"} for i in items]
        properties = {
            "provisioningState": "Succeeded",
            "mode": "Incremental",
            "changes": changes,
        }
        return Answer(
            200, {"name": name, "status": "Succeeded", "properties": properties}
        )

    # resources

    def put(self, where, body):
        """Write a resource; ArmError if the rules of its type do not allow it."""
        home = self._group(where.split("/")[4], writing=True)
        parts = where.split("/providers/", 1)[1].split("/")
        kind = "/".join([parts[0], *parts[1::2]])
        old = self.resources.get(where.lower())
        orphan = len(parts) > 3 and where.rsplit("/", 2)[0].lower() not in self.resources
        refuse(orphan, "ParentResourceNotFound", where, status=404)
        body = arm.without_nulls(copy.deepcopy(body))
        new = {"id": where, "name": parts[-1], "type": kind}
        new["properties"] = body.get("properties") or {}
        new |= {k: body[k] for k in ("tags", "sku", "zones") if k in body}
        if len(parts) == 3:
            new["location"] = (
                (body.get("location") or home["location"]).replace(" ", "").lower()
            )
            bad = [z for z in new.get("zones", []) if int(z) > REGIONS[new["location"]]]
            refuse(bad, "AvailabilityZoneNotSupported", where)
        before = dict(self.resources)
        self.resources[where.lower()] = new  # its children look for their parent
        try:
            apply(self, new, old)
        except BaseException:
            self.resources.clear()
            self.resources.update(before)
            raise
        return new

    def show(self, resource):
        """A resource as it is read: with its children, without what is secret."""
        if "_later" in resource and self.clock() >= resource["_later"][0]:
            resource["properties"].update(resource.pop("_later")[1])
        out = copy.deepcopy({k: v for k, v in resource.items() if not k.startswith("_")})
        properties = out["properties"]
        if ppg := properties.get("proximityPlacementGroup"):
            # Azure gives its group in capitals
            ppg["id"] = re.sub(
                "(?<=/resourceGroups/)[^/]+", lambda m: m[0].upper(), ppg["id"]
            )
        for key in EMBEDDED.get(resource["type"].lower().rsplit("/", 1)[-1], ()):
            inside = f"{resource['id']}/{key}/".lower()
            listed = [r for w, r in self.resources.items() if w.startswith(inside)]
            properties[key] = [self.show(r) for r in listed]
        properties.get("osProfile", {}).pop("customData", None)
        return out

    @route(
        "GET", "/resourceGroups/{group}/providers/.*/virtualMachines/{name}/instanceView"
    )
    def instance_view(self, group, name, **_):
        """State of a VM."""
        self._group(group)
        power = "deallocated" if name in self.stopped else "running"
        texts = {
            "ProvisioningState/succeeded": "Provisioning succeeded",
            f"PowerState/{power}": f"VM {power}",
        }
        statuses = [{"code": c, "displayStatus": text} for c, text in texts.items()]
        return Answer(200, {"statuses": statuses})

    @route("GET", "/resourceGroups/{group}/providers/{tail+}")
    def read(self, group, tail, query, **_):
        """One resource, or all of a type."""
        where = f"{self._group(group)['id']}/providers/{tail}".lower()
        if len(tail.split("/")) % 2 == 0:
            inside = [w for w in self.resources if w.rsplit("/", 1)[0] == where]
            return Answer(200, {"value": [self.show(self.resources[w]) for w in inside]})
        refuse(where not in self.resources, "ResourceNotFound", tail, status=404)
        resource = self.resources[where]
        out = self.show(resource)
        if "instanceview" in query.get("$expand", "").lower():
            out["properties"]["instanceView"] = self.instance_view(
                group, resource["name"]
            ).body
        if query.get("includeColocationStatus", "").lower() == "true":
            every = self.resources.values()
            groups = [(r, r["properties"].get("proximityPlacementGroup")) for r in every]
            members = [
                {"id": r["id"]} for r, g in groups if g and g["id"].lower() == where
            ]
            code = (
                "ColocationStatus/NotAligned"
                if self.scattered
                else "ColocationStatus/Aligned"
            )
            status = {
                "code": code,
                "level": "Info",
                "displayStatus": code.rsplit("/", 1)[1],
            }
            out["properties"] |= {"virtualMachines": members, "colocationStatus": status}
        return Answer(200, out)


def _size(region, name):
    """A size as a region lists it."""
    family, cpus, accelerated, only, barred = SIZES[name]
    zones = REGIONS[region]
    offered = sorted(only or {str(i + 1) for i in range(zones)}) if zones else []
    capabilities = {
        "vCPUs": cpus,
        "AcceleratedNetworkingEnabled": accelerated,
    }
    within = {"locations": [region]} | ({"zones": offered} if barred == "Zone" else {})
    reason = "NotAvailableForSubscription"
    restriction = {"type": barred, "restrictionInfo": within, "reasonCode": reason}
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": family,
        "locations": [region],
        "locationInfo": [{"location": region, "zones": offered, "zoneDetails": []}],
        "capabilities": [{"name": k, "value": str(v)} for k, v in capabilities.items()],
        "restrictions": [restriction] if barred else [],
    }
