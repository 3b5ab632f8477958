"""A small Azure Resource Manager: documents by id, what goes on, faults.

Work takes time on a clock that may be real or a test's own; what is due happens when the next
request comes in. A template's resources are made one after the other, in the order that is worst
for a template that forgot a dependency. A cloud that lags denies what is young, and shows what was.
"""

import copy
import re
import time
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import unquote

from .arm import ArmError, Scope, refuse

SUBSCRIPTION = "5a5a5a5a-0000-4000-8000-000000000001"
OTHER = "07070707-0000-4000-8000-000000000003"
"""Another subscription of the same user."""
BASE = f"/subscriptions/{SUBSCRIPTION}"
ZONED = ("westeurope", "northeurope", "eastus", "westus2", "eastasia")
REGIONS = dict.fromkeys(ZONED, 3) | {"westus": 0}
"""Region to its number of zones."""
OLD_S, NEW_S = 60, 30
"""How old what is shown may be, and for how long what was made may be denied, in seconds."""
PUBLIC = "203.0.113.0/24"


@dataclass
class Fault:
    """Something that goes wrong.

    `at` says where: ``request`` (matched against "METHOD path"), ``validate`` (the name of a VM),
    ``resource`` ("type name", while a deployment makes it).
    """

    at: str
    match: str
    status: int = 409
    code: str = ""
    message: str = ""
    times: int = 1
    body: Any = None


class Cloud:
    """The state of one subscription: `step_s` is the time that every resource takes."""

    def __init__(self, *, step_s=0.02, clock=time.monotonic):
        self.step_s, self.clock = step_s, clock
        self.reset()

    def reset(self):
        """Forget everything."""
        self.now = self.clock()
        self.docs, self.history, self.work = {}, [], {}
        """Documents by id in lower case, as they are and as they were; what goes on: when the next
        step is due, and the steps."""
        self.kept, self.leases, self.made = {}, {}, {}
        """Until when ids cannot be deleted; addresses; when groups were made."""
        self.faults, self.requests, self.stopped = [], [], set()
        self.lag = None
        """It decides what is answered late; None: nothing is."""
        self.scattered = False
        """Proximity placement groups do not keep their members together."""

    def write(self, where, document):
        """Change a document; None deletes."""
        self.docs = {k: v for k, v in self.docs.items() if k != where.lower()}
        if document is not None:
            self.docs[where.lower()] = copy.deepcopy(document)
        self.history = [*self.history[-200:], (self.now, self.docs)]

    def read(self, where):
        """A document, or None."""
        return self.docs.get(where.lower())

    def change(self, where, **properties):
        """Change some properties."""
        document = self.read(where)
        self.write(where, document | {"properties": document["properties"] | properties})

    def seen(self):
        """The documents as somebody sees them who looks."""
        if not self.lag or self.lag.random() > 0.6:
            return self.docs
        then = self.clock() - self.lag.uniform(0, OLD_S)
        past = [docs for when, docs in self.history if when <= then]
        return past[-1] if past else {}

    @property
    def groups(self):
        """Groups by name."""
        return {d["name"].lower(): d for d in self.docs.values() if "type" not in d}

    @property
    def resources(self):
        """Resources by id."""
        return {w: d for w, d in self.docs.items() if "/" in d.get("type", "")}

    def alike(self, kind):
        """Resources of a type by name, sorted."""
        found = {d["name"]: d for d in self.docs.values() if d.get("type") == kind}
        return dict(sorted(found.items()))

    def settle(self):
        """Let everything that is under way come to its end."""
        self._advance(float("inf"))

    def _advance(self, until):
        while self.work:
            where = min(self.work, key=lambda w: self.work[w][0])
            self.now, steps = self.work[where]
            if self.now > until:
                break
            self.work[where] = self.now + self.step_s, steps
            if next(steps, "ended") == "ended":
                del self.work[where]
        self.now = self.clock()

    def _begin(self, where, steps):
        self.work[where] = self.now + self.step_s, steps

    def fail(self, at, text):
        """Answer with a fault, if there is one."""
        for fault in self.faults:
            if fault.at == at and fault.times and re.search(fault.match, text, re.I):
                fault.times -= 1
                raise ArmError(fault.status, fault.code, fault.message, body=fault.body)

    def request(self, method, path, query=None, body=None):
        """Answer a request with a status and a document."""
        path = re.sub(r"/{2,}", "/", unquote(path)).rstrip("/")
        self.requests.append(f"{method} {path}")
        self._advance(self.clock())
        try:
            self.fail("request", f"{method} {path}")
            return self._route(method, path, query or {}, body)
        except ArmError as error:
            document = {"error": error.error}
            return error.status, document if error.body is None else error.body

    def _route(self, method, path, query, body):
        _, _, identity, kind, *inside = path.split("/")
        if kind == "locations":
            return 200, {"value": list(_locations(identity == OTHER))}
        refuse(identity != SUBSCRIPTION, "SubscriptionNotFound", identity, 404)
        if kind == "providers":
            return 200, self._rehearse(body)
        if inside:
            name, *tail = inside
            return self._in_group(method, name, "/".join(tail), query, body)
        tag = re.search(r"tagName eq '([^']*)'", query.get("$filter", ""))
        groups = [d for d in self.seen().values() if "type" not in d]
        return 200, {"value": [g for g in groups if not tag or tag[1] in g["tags"]]}

    def _in_group(self, method, name, tail, query, body):
        home = f"{BASE}/resourceGroups/{name}"
        low, where = home.lower(), f"{home}/{tail}"
        docs = self.seen() if method == "GET" else self.docs
        group = docs.get(low)
        if method == "PUT":
            ending = group and group["properties"]["provisioningState"] == "Deleting"
            refuse(ending, "ResourceGroupBeingDeleted", name, 409)
        if method == "PUT" and not tail:
            wrong = not re.fullmatch(r"[\w.()-]{0,89}[\w()-]", name)
            refuse(wrong, "InvalidResourceGroup", name)
            known = body["location"] in REGIONS
            refuse(not known, "LocationNotAvailableForResourceGroup")
            made = {"id": home, "name": name, "tags": {}, **(group or {}), **body}
            made["properties"] = {"provisioningState": "Succeeded"}
            self.made.setdefault(low, self.now)
            self.write(home, made)
            return 201, made
        # what is young may be denied to whoever wants to change it
        is_young = method != "GET" and self.now - self.made.get(low, 0) < NEW_S
        hidden = self.lag and group and is_young and self.lag.random() < 0.5
        refuse(group is None or hidden, "ResourceGroupNotFound", name, 404)
        if method == "DELETE":
            self.change(home, provisioningState="Deleting")
            for running in [w for w in self.work if w.startswith(f"{low}/")]:
                self._cancel(running)
            self._begin(low, self._delete(low))
            return 202, None
        if not tail:
            return 200, group
        if "/deployments/" in where.lower() and method != "GET":
            return self._deploy(method, where, group, body)
        return 200, self._look(where, query, docs)

    def _delete(self, home):
        """Delete a group and all in it, unless something refuses."""
        yield
        yield
        kept = [w for w, end in self.kept.items() if end > self.now]
        if any(w.startswith(home) for w in kept):
            self.change(home, provisioningState="Succeeded")
            return
        for where in [w for w in self.docs if f"{w}/".startswith(f"{home}/")]:
            self.write(where, None)
            self.leases.pop(where, None)

    def _deploy(self, method, where, group, body):
        low, name = where.lower(), where.split("/")[8]
        if low.endswith("/cancel"):
            low = low.removesuffix("/cancel")
            refuse(low not in self.docs, "DeploymentNotFound", name, 404)
            refuse(low not in self.work, "DeploymentCannotBeCancelled", name, 409)
            self._cancel(low)
            return 204, None
        scope, items = self._expand(group["id"], body["properties"])
        shown = {"id": where, "name": name, "type": "deployment"}
        shown["properties"] = {"provisioningState": "Accepted"}
        if method == "POST":
            # az validates first
            return 200, shown
        refuse(low in self.work, "DeploymentActive", name, 409)
        steps = self._make(low, scope, items, body["properties"]["template"])
        self._begin(low, steps)
        self.write(low, shown)
        return 201, shown

    def _cancel(self, where):
        del self.work[where]
        self.change(where, provisioningState="Canceled")

    def _expand(self, group_id, properties):
        """Scope and resources of a template; ArmError if it is not valid."""
        values = {k: entry["value"] for k, entry in properties["parameters"].items()}
        unknown = values.keys() - properties["template"]["parameters"].keys()
        refuse(unknown, "InvalidTemplate", f"unknown parameters {unknown}")
        scope = Scope(group_id, values, self.read, REGIONS)
        items = scope.expand(properties["template"])
        for where in items:
            try:
                self.fail("validate", where)
            except ArmError as error:
                inner = [error.error]
                raise ArmError(400, "InvalidTemplateDeployment", "", inner) from None
        return scope, items

    def _rehearse(self, body):
        """Check a template that makes a group and deploys into it; tell what it would make."""
        given = body["properties"]["parameters"]
        group, nested = body["properties"]["template"]["resources"]
        known = group["location"] in REGIONS
        refuse(not known, "LocationNotAvailableForResourceGroup")
        group_id = f"{BASE}/resourceGroups/{group['name']}"
        inner = nested["properties"] | {"parameters": given}
        _, items = self._expand(group_id, inner)
        changes = [{"resourceId": i.id, "changeType": "Create"} for i in items.values()]
        states = {"provisioningState": "Succeeded", "changes": changes}
        return {"status": "Succeeded", "properties": states}

    def _make(self, where, scope, items, template):
        """Make one resource after the other; what waits for something that failed is not made."""
        failed = {}
        while True:
            waiting = items.keys() | failed.keys()
            ready = [w for w, item in items.items() if not item.depends & waiting]
            if not ready:
                break
            item = items.pop(ready[-1])
            try:
                name = item.id.rpartition("/")[2]
                self.fail("resource", f"{item.source['type']} {name}")
                self.put(item.id, scope.evaluate(item))
            except ArmError as error:
                failed[ready[-1]] = error.error
            self.change(where, provisioningState="Running")
            yield
        if failed:
            details = [*failed.values()]
            cause = {"code": "ResourceDeploymentFailure", "details": details}
            error = {"code": "DeploymentFailed", "message": "", "details": [cause]}
            self.change(where, provisioningState="Failed", error=error)
            return
        outputs = scope.outputs(template)
        self.change(where, provisioningState="Succeeded", outputs=outputs)

    def put(self, where, body):
        """Write a resource; ArmError if the rules do not allow it."""
        space, *parts = where.split("/providers/", 1)[1].split("/")
        name, kind = parts[-1], parts[-2].lower()
        is_name = re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,78}\w)?", name)
        refuse(not is_name, "InvalidResourceName", name)
        alone = len(parts) > 2 and not self.read(where.rsplit("/", 2)[0])
        refuse(alone, "ParentResourceNotFound", where, 404)
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
        first = next(a for a in free if a not in used)
        return self.leases.setdefault(where.lower(), first)

    def _look(self, where, query, docs):
        """A document, or all of a type."""
        low = where.lower()
        if len(low.split("/")) % 2 == 0:
            alike = [d for w, d in docs.items() if w.rpartition("/")[0] == low]
            return {"value": [shown(document) for document in alike]}
        missing = "DeploymentNotFound" if "/deployments/" in low else "ResourceNotFound"
        refuse(low not in docs, missing, where, 404)
        out = shown(docs[low])
        if "instanceview" in query.get("$expand", "").lower():
            power = "deallocated" if out["name"] in self.stopped else "running"
            state = {"code": f"PowerState/{power}", "displayStatus": f"VM {power}"}
            out["properties"]["instanceView"] = {"statuses": [state]}
        if "includeColocationStatus" in query:
            status = {"displayStatus": "NotAligned" if self.scattered else "Aligned"}
            vms = []
            for other, document in docs.items():
                if low in map(str.lower, _references(document)):
                    vms.append({"id": other})
            out["properties"] |= {"virtualMachines": vms, "colocationStatus": status}
        return out


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
    p = out["properties"]
    p.pop("sharedKey", None)
    p.get("osProfile", {}).pop("customData", None)
    if ppg := p.get("proximityPlacementGroup"):
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
    changed = old and old["properties"]["osProfile"]["customData"] != data
    refuse(changed, "PropertyChangeNotAllowed", host, 409)
    address, zones = public_address(cloud, new), new.get("zones")
    code = "ComputeResourceZoneConstraintDoesNotMatchPublicIPAddressZoneConstraint"
    refuse(address and address.get("zones") != zones, code, host)


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


def interface(cloud, vm):
    """The network interface of a VM."""
    (entry,) = vm["properties"]["networkProfile"]["networkInterfaces"]
    return cloud.there(entry["id"])["properties"]


def public_address(cloud, vm):
    """The public address of a VM, or None."""
    (inside,) = interface(cloud, vm)["ipConfigurations"]
    given = inside["properties"].get("publicIPAddress")
    return given and cloud.there(given["id"])


def accelerated(cloud, vm):
    """Whether a guest gets a virtual function: newer sizes do whatever the interface asks for."""
    newer = re.search(r"_v[5-9]$", vm["properties"]["hardwareProfile"]["vmSize"])
    return bool(interface(cloud, vm)["enableAcceleratedNetworking"] or newer)
