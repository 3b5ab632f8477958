"""A small Azure Resource Manager: documents by id, deployments that take time, faults.

Work takes time on a clock that may be real or a test's own; what is due happens when the next
request comes in. A template's resources are made one after the other, in the order that is worst
for a template that forgot a dependency. A cloud that lags denies what is young, and shows what was.
"""

import copy
import re
import time
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any
from urllib.parse import unquote

from . import arm

SUBSCRIPTION = "5a5a5a5a-0000-4000-8000-000000000001"
OTHER = "07070707-0000-4000-8000-000000000003"
"""Another subscription of the same user."""
BASE = f"/subscriptions/{SUBSCRIPTION}"
ZONED = ("westeurope", "northeurope", "eastus", "westus2", "eastasia")
REGIONS = dict.fromkeys(ZONED, 3) | {"westus": 0}
"""Region to its number of zones."""
OLD_S, NEW_S = 60, 30
"""How old what is shown may be, and for how long what was made may be denied, in seconds."""
DEPLOYMENTS = "/providers/microsoft.resources/deployments"
PUBLIC = "203.0.113.0/24"


@dataclass
class Fault:
    """Something that goes wrong.

    `at` says where: ``request`` (matched against "METHOD path"), ``validate`` (the name of a VM),
    ``resource`` ("type name", while a deployment makes it), ``delete`` (a group).
    """

    at: str
    match: str
    status: int = 409
    code: str = ""
    message: str = ""
    times: int = 1
    body: Any = None


class ArmError(Exception):
    """An answer that is an error."""

    def __init__(self, status, code, message, details=()):
        super().__init__(f"{code}: {message}")
        self.status = status
        self.error = {"code": code, "message": message, "details": list(details)}


def refuse(wrong, code, about="", status=400):
    """Answer with an error if something is wrong."""
    if wrong:
        raise ArmError(status, code, f"It cannot be: {about}")


@dataclass
class Work:
    """A deployment that runs."""

    left: dict[str, arm.Item]
    scope: arm.Scope
    template: dict[str, Any]
    due: float
    failed: dict[str, Any] = field(default_factory=dict)


class Cloud:
    """The state of one subscription: `step_s` is the time that every resource takes."""

    def __init__(self, *, step_s=0.02, clock=time.monotonic):
        self.step_s, self.clock = step_s, clock
        self.reset()

    def reset(self):
        """Forget everything."""
        self.docs, self.history, self.work = {}, [], {}
        """Documents by id in lower case, as they are and as they were; what runs."""
        self.ending, self.kept, self.leases, self.made = {}, {}, {}, {}
        """Groups that are deleted, and ids that cannot be yet: until when; addresses; when groups
        were made."""
        self.faults, self.requests, self.stopped = [], [], set()
        self.moment = None
        """When what is being done was due."""
        self.lag = None
        """It decides what is answered late; None: nothing is."""
        self.scattered = False
        """Proximity placement groups do not keep their members together."""

    def write(self, where, document):
        """Change a document; None deletes."""
        self.docs = {k: v for k, v in self.docs.items() if k != where.lower()}
        if document is not None:
            self.docs[where.lower()] = copy.deepcopy(document)
        now = self.clock() if self.moment is None else self.moment
        self.history = [*self.history[-200:], (now, self.docs)]

    def read(self, where):
        """A document, or None."""
        return self.docs.get(where.lower())

    def seen(self):
        """The documents as somebody sees them who looks."""
        if not self.lag or self.lag.random() > 0.6:
            return self.docs
        then = self.clock() - self.lag.uniform(0, OLD_S)
        past = [docs for when, docs in self.history if when <= then]
        return past[-1] if past else {}

    def change(self, where, **properties):
        """Change some properties."""
        document = self.read(where)
        self.write(where, document | {"properties": document["properties"] | properties})

    @property
    def groups(self):
        """Groups by name."""
        return {d["name"].lower(): d for w, d in self.docs.items() if w.count("/") == 4}

    @property
    def resources(self):
        """Resources by id."""
        found = {w: d for w, d in self.docs.items() if w.count("/") > 4}
        return {w: d for w, d in found.items() if DEPLOYMENTS not in w}

    def names(self, kind):
        """Names of all resources of a type, sorted."""
        return sorted(r["name"] for r in self.resources.values() if r["type"] == kind)

    def get(self, kind, name):
        """One resource."""
        alike = (r for r in self.resources.values() if r["type"] == kind)
        return next(r for r in alike if r["name"] == name)

    def settle(self):
        """Let everything that is under way come to its end."""
        self._advance(float("inf"))

    def _advance(self, now):
        while True:
            due = {w: work.due for w, work in self.work.items()} | self.ending
            where = min(due, key=due.get, default=None)
            if where is None or due[where] > now:
                return
            self.moment = due[where]
            (self._end if where in self.ending else self._step)(where)
            self.moment = None

    def _fault(self, at, text):
        for fault in self.faults:
            if fault.at == at and fault.times and re.search(fault.match, text, re.I):
                fault.times -= 1
                return fault
        return None

    def request(self, method, path, query=None, body=None):
        """Answer a request with a status and a document."""
        path = re.sub(r"/{2,}", "/", unquote(path)).rstrip("/")
        self.requests.append(f"{method} {path}")
        self._advance(self.clock())
        try:
            fault = self._fault("request", f"{method} {path}")
            if fault and fault.body is not None:
                return fault.status, fault.body
            if fault:
                raise ArmError(fault.status, fault.code, fault.message)
            return self._route(method, path, query or {}, body)
        except ArmError as error:
            return error.status, {"error": error.error}

    def _route(self, method, path, query, body):
        form = r"/subscriptions/([^/]+)(?:/resourcegroups/([^/]+))?(/.*)?"
        identity, group, tail = re.fullmatch(form, path, re.I).groups(default="")
        if tail.lower() == "/locations":
            return 200, {"value": list(_locations(identity == OTHER))}
        refuse(identity != SUBSCRIPTION, "SubscriptionNotFound", identity, 404)
        if group:
            return self._in_group(method, group, tail, query, body)
        if tail.lower() != "/resourcegroups":
            return 200, self._rehearse(tail.split("/")[-2], body)
        tag = re.search(r"tagName eq '([^']*)'", query.get("$filter", ""))
        groups = [d for w, d in self.seen().items() if w.count("/") == 4]
        return 200, {"value": [g for g in groups if not tag or tag[1] in g["tags"]]}

    def _in_group(self, method, name, tail, query, body):
        home, now = f"{BASE}/resourceGroups/{name}", self.clock()
        docs = self.seen() if method == "GET" else self.docs
        group = docs.get(home.lower())
        state = group and group["properties"]["provisioningState"]
        refuse(
            method == "PUT" and state == "Deleting",
            "ResourceGroupBeingDeleted",
            name,
            409,
        )
        if method == "PUT" and not tail:
            refuse(
                not re.fullmatch(r"[\w.()-]{0,89}[\w()-]", name), "InvalidResourceGroup"
            )
            refuse(
                body["location"] not in REGIONS, "LocationNotAvailableForResourceGroup"
            )
            made = {
                "id": home,
                "name": name,
                "properties": {"provisioningState": "Succeeded"},
            }
            made |= {"tags": {}} | (group or {}) | body
            self.made.setdefault(home.lower(), now)
            self.write(home, made)
            return 201, made
        is_changed = self.lag and group and method != "GET"
        young = is_changed and now - self.made[home.lower()] < NEW_S
        hidden = young and self.lag.random() < 0.5
        refuse(group is None or hidden, "ResourceGroupNotFound", name, 404)
        if method == "DELETE":
            self.change(home, provisioningState="Deleting")
            for where in [w for w in self.work if w.startswith(home.lower())]:
                self._close(where, "Canceled")
            self.ending[home.lower()] = now + 3 * self.step_s
            return 202, None
        if not tail:
            return 200, group
        where = f"{home}{tail}"
        if tail.lower().startswith(DEPLOYMENTS) and method != "GET":
            return self._deploy(method, where, group, body)
        return 200, self._look(where, query, docs)

    def _end(self, home):
        """Delete a group and all in it, unless something refuses."""
        del self.ending[home]
        kept = [w for w, end in self.kept.items() if end > self.clock()]
        if self._fault("delete", home) or any(w.startswith(home) for w in kept):
            self.change(home, provisioningState="Succeeded")
            return
        for where in [w for w in self.docs if f"{w}/".startswith(f"{home}/")]:
            self.write(where, None)
            self.leases.pop(where, None)

    def _deploy(self, method, where, group, body):
        low, name = where.lower(), where.split("/")[8]
        if method == "POST" and low.endswith("/cancel"):
            low = low.removesuffix("/cancel")
            refuse(low not in self.docs, "DeploymentNotFound", name, 404)
            refuse(low not in self.work, "DeploymentCannotBeCancelled", name, 409)
            self._close(low, "Canceled")
            return 204, None
        scope, items = self._expand(group["id"], body["properties"])
        shown = {
            "id": where,
            "name": name,
            "properties": {"provisioningState": "Accepted"},
        }
        if method == "POST":
            return 200, shown | {"properties": {"provisioningState": "Succeeded"}}
        refuse(low in self.work, "DeploymentActive", name, 409)
        template = body["properties"]["template"]
        self.work[low] = Work(items, scope, template, self.clock() + self.step_s)
        self.write(low, shown)
        return 201, shown

    def _close(self, where, state, **more):
        del self.work[where]
        self.change(where, provisioningState=state, **more)

    def _expand(self, group_id, properties):
        """Scope and resources of a template; ArmError if it is not valid."""
        values = {k: entry["value"] for k, entry in properties["parameters"].items()}
        unknown = values.keys() - properties["template"]["parameters"].keys()
        refuse(unknown, "InvalidTemplate", f"unknown parameters {unknown}")
        scope = arm.Scope(group_id, values, self.read, REGIONS)
        try:
            items = scope.expand(properties["template"])
        except arm.TemplateError as error:
            raise ArmError(400, "InvalidTemplate", str(error)) from None
        for where in [w for w in items if "/virtualmachines/" in w]:
            if fault := self._fault("validate", where):
                detail = {"code": fault.code, "message": fault.message}
                raise ArmError(400, "InvalidTemplateDeployment", "See inner.", [detail])
        return scope, items

    def _rehearse(self, name, body):
        """Check a template that makes a group and deploys into it; tell what it would make."""
        given = body["properties"]["parameters"]
        group, nested = body["properties"]["template"]["resources"]
        refuse(group["location"] not in REGIONS, "LocationNotAvailableForResourceGroup")
        inner = nested["properties"]
        parameters = {k: given[k] for k in inner["parameters"] if k in given}
        group_id = f"{BASE}/resourceGroups/{group['name']}"
        _, items = self._expand(group_id, inner | {"parameters": parameters})
        changes = [{"resourceId": i.id, "changeType": "Create"} for i in items.values()]
        states = {"provisioningState": "Succeeded", "changes": changes}
        return {"name": name, "status": "Succeeded", "properties": states}

    def _step(self, where):
        """Make one more resource."""
        work = self.work[where]
        work.due += self.step_s
        waiting = work.left.keys() | work.failed.keys()
        ready = [w for w, item in work.left.items() if not item.depends & waiting]
        if ready:
            item = work.left.pop(ready[-1])
            kind = item.source["type"]
            try:
                fault = self._fault("resource", f"{kind} {item.id.rsplit('/', 1)[1]}")
                if fault:
                    raise ArmError(fault.status, fault.code, fault.message)
                self.put(item.id, work.scope.evaluate(item))
            except (ArmError, arm.TemplateError) as error:
                invalid = {"code": "InvalidTemplate", "message": f"{item.id}: {error}"}
                work.failed[item.id.lower()] = getattr(error, "error", invalid)
        if ready and work.left:
            self.change(where, provisioningState="Running")
        elif work.failed:
            # what is left waits for something that failed
            cause = {
                "code": "ResourceDeploymentFailure",
                "details": [*work.failed.values()],
            }
            error = {"code": "DeploymentFailed", "message": "", "details": [cause]}
            self._close(where, "Failed", error=error)
        else:
            self._close(where, "Succeeded", outputs=work.scope.outputs(work.template))

    def put(self, where, body):
        """Write a resource; ArmError if the rules do not allow it."""
        space, *parts = where.split("/providers/", 1)[1].split("/")
        name, kind = parts[-1], parts[-2].lower()
        refuse(
            not re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,78}\w)?", name),
            "InvalidResourceName",
            name,
        )
        parent = where.rsplit("/", 2)[0]
        refuse(
            len(parts) > 2 and not self.read(parent), "ParentResourceNotFound", where, 404
        )
        new = {"id": where, "name": name, "type": "/".join([space, *parts[::2]])}
        new |= {k: body[k] for k in ("tags", "sku", "zones", "location") if k in body}
        p = new["properties"] = copy.deepcopy(body.get("properties") or {})
        for target in _references(p):
            if not target.startswith(f"{where}/"):
                self.there(target)
        bad = [z for z in new.get("zones", ()) if int(z) > REGIONS[new["location"]]]
        refuse(bad, "AvailabilityZoneNotSupported", name)
        p["provisioningState"] = "Succeeded"
        if rule := RULES.get(kind):
            rule(self, new, p, self.read(where))
        self.write(where, new)

    def there(self, where):
        """What is referred to: a resource, or a part of one such as a subnet."""
        if found := self.read(where):
            return found
        parent, kind, name = where.rsplit("/", 2)
        parts = (self.read(parent) or {"properties": {}})["properties"].get(kind, ())
        found = next((part for part in parts if part["name"] == name), None)
        refuse(found is None, "InvalidResourceReference", where)
        return found

    def lease(self, where, network):
        """An address of a network, always the same; Azure keeps the first ones."""
        free = map(str, list(ip_network(network).hosts())[9:])
        used = set(self.leases.values())
        return self.leases.setdefault(
            where.lower(), next(a for a in free if a not in used)
        )

    def _look(self, where, query, docs):
        """A document, all of a type, or the state of a VM."""
        low = where.lower()
        if low.endswith("/instanceview"):
            return self._power(where.split("/")[-2])
        if len(low.split("/providers/", 1)[1].split("/")) % 2 == 0:
            alike = [d for w, d in docs.items() if w.rsplit("/", 1)[0] == low]
            return {"value": [shown(document) for document in alike]}
        missing = "DeploymentNotFound" if DEPLOYMENTS in low else "ResourceNotFound"
        refuse(low not in docs, missing, where, 404)
        out = shown(docs[low])
        if "instanceview" in query.get("$expand", "").lower():
            out["properties"]["instanceView"] = self._power(out["name"])
        if "includeColocationStatus" in query:
            status = {"displayStatus": "NotAligned" if self.scattered else "Aligned"}
            vms = [
                {"id": w}
                for w, d in docs.items()
                if low in map(str.lower, _references(d))
            ]
            out["properties"] |= {"virtualMachines": vms, "colocationStatus": status}
        return out

    def _power(self, name):
        power = "deallocated" if name in self.stopped else "running"
        made = {"code": "ProvisioningState/succeeded", "displayStatus": "Succeeded"}
        return {
            "statuses": [
                made,
                {"code": f"PowerState/{power}", "displayStatus": f"VM {power}"},
            ]
        }


def _locations(shift):
    """Regions; zones are mapped differently in each, and in each subscription."""
    for number, (region, zones) in enumerate(REGIONS.items(), shift):
        pairs = []
        for i in range(zones):
            physical = f"{region}-az{(i + number) % 3 + 1}"
            pairs.append({"logicalZone": f"{i + 1}", "physicalZone": physical})
        yield {"name": region, "type": "Region", "availabilityZoneMappings": pairs}


def shown(document):
    """A document as it is read: without what is secret, and a group's name in capitals."""
    out = copy.deepcopy(document)
    out["properties"].pop("sharedKey", None)
    out["properties"].get("osProfile", {}).pop("customData", None)
    if ppg := out["properties"].get("proximityPlacementGroup"):
        ppg["id"] = re.sub(
            "(?<=Groups/)[^/]+", lambda m: m[0].upper(), ppg["id"], count=1
        )
    return out


def _references(node):
    """Ids of other resources in a resource."""
    for key, entry in node.items() if isinstance(node, dict) else enumerate(node):
        if key == "id" and "/providers/" in entry:
            yield entry
        elif isinstance(entry, (dict, list)):
            yield from _references(entry)


def _address(cloud, new, p, old):
    p["ipAddress"] = cloud.lease(new["id"], PUBLIC)


def _configurations(cloud, new, p, old):
    for entry in p.get("ipConfigurations") or p["frontendIPConfigurations"]:
        inside = entry["properties"]
        subnet = cloud.there(inside["subnet"]["id"])["properties"]
        inside["privateIPAddress"] = cloud.lease(new["id"], subnet["addressPrefix"])
        inside["primary"] = True


def _vm(cloud, new, p, old):
    profile = p["osProfile"]
    host, data = profile["computerName"], profile["customData"]
    refuse(re.search(r"[_.]|^-|-$", host) or len(host) > 64, "InvalidParameter", host)
    before = old["properties"]["osProfile"]["customData"] if old else data
    refuse(data != before, "PropertyChangeNotAllowed", host, 409)
    for entry in p["networkProfile"]["networkInterfaces"]:
        (inside,) = cloud.there(entry["id"])["properties"]["ipConfigurations"]
        given = inside["properties"].get("publicIPAddress")
        address = cloud.there(given["id"]) if given else new
        code = "ComputeResourceZoneConstraintDoesNotMatchPublicIPAddressZoneConstraint"
        refuse(address.get("zones") != new.get("zones"), code, host)


def _gateway(cloud, new, p, old):
    address = cloud.there(p["ipConfigurations"][0]["properties"]["publicIPAddress"]["id"])
    bare = REGIONS[new["location"]] and not address.get("zones")
    refuse(bare, "VmssVpnGatewayPublicIpsMustHaveZonesConfigured", new["id"])


def _connection(cloud, new, p, old):
    # printable, without space, hyphen and tilde
    refuse(not re.fullmatch("[!-,./-}]{1,128}", p["sharedKey"]), "InvalidSharedKey")
    p["connectionStatus"] = "Connected"


RULES = {
    "connections": _connection,
    "loadbalancers": _configurations,
    "networkinterfaces": _configurations,
    "publicipaddresses": _address,
    "virtualmachines": _vm,
    "virtualnetworkgateways": _gateway,
}


def accelerated(cloud, vm):
    """Whether a guest gets a virtual function: newer sizes do whatever the interface asks for."""
    p = vm["properties"]
    nic = cloud.read(p["networkProfile"]["networkInterfaces"][0]["id"])["properties"]
    newer = re.search(r"_v[5-9]$", p["hardwareProfile"]["vmSize"])
    return bool(nic["enableAcceleratedNetworking"] or newer)
