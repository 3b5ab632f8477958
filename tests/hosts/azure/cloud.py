"""A small Azure Resource Manager: documents with their history, deployments that take time, faults.

Work takes time on a clock that may be real or a test's own; what is due happens when the next
request comes in. A template's resources are made one after the other, in the order that is worst
for a template that forgot a dependency. A cloud that lags denies what is young, and shows what was.
"""

import copy
import math
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
TENANT = "7e7e7e7e-0000-4000-8000-000000000002"
BASE = f"/subscriptions/{SUBSCRIPTION}"
REGIONS = dict.fromkeys(
    ("westeurope", "northeurope", "eastus", "westus2", "eastasia"), 3
) | {"westus": 0}
"""Region to its number of zones."""
OLD_S, NEW_S = 60, 30
"""How old what is shown may be, and for how long what was made may be denied, in seconds."""
DEPLOYMENTS = "/providers/Microsoft.Resources/deployments"


@dataclass
class Answer:
    """Of a request."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """Something that goes wrong.

    `at` says where: ``request`` (matched against "METHOD path"), ``validate`` (the name of a VM),
    ``resource`` ("type name", while a deployment makes it), ``delete`` (a group), ``token``.
    """

    at: str
    match: str
    status: int = 409
    code: str = ""
    message: str = ""
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


class ArmError(Exception):
    """An answer that is an error."""

    def __init__(self, status, code, message, details=(), headers=None):
        super().__init__(f"{code}: {message}")
        self.status, self.headers = status, headers or {}
        self.error = {"code": code, "message": message, "details": list(details)}


def refuse(wrong, code, about="", status=400):
    """Answer with an error if something is wrong."""
    if wrong:
        raise ArmError(status, code, f"It cannot be: {about}")


@dataclass
class Deploying:
    """A deployment that runs."""

    where: str
    left: list[arm.Item]
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
        self.versions = {}
        """Every document that there was: id to times and contents, None where it was deleted."""
        self.deploying, self.ending, self.kept = {}, {}, {}
        """What runs; groups that are being deleted, and ids that cannot be yet: until when."""
        self.faults, self.requests = [], []
        self.limits, self.stopped = {}, set()
        self.moment = None
        """When what is being done was due."""
        self.lag = None
        """It decides what is answered late; None: nothing is."""
        self.scattered = False
        """Proximity placement groups do not keep their members together."""

    # documents

    def write(self, where, document):
        """Add a version; None deletes."""
        versions = self.versions.setdefault(where.lower(), [])
        now = self.clock() if self.moment is None else self.moment
        versions.append((now, copy.deepcopy(document)))

    def read(self, where, until=math.inf):
        """The document that there was at a time, or None."""
        past = [
            made for when, made in self.versions.get(where.lower(), ()) if when <= until
        ]
        return past[-1] if past else None

    def within(self, prefix, until=math.inf):
        """All documents whose ids begin so."""
        begin = prefix.lower()
        found = {w: self.read(w, until) for w in self.versions if w.startswith(begin)}
        return {where: made for where, made in found.items() if made is not None}

    @property
    def groups(self):
        """Groups by name."""
        found = self.within(f"{BASE}/resourcegroups/")
        return {g["name"].lower(): g for w, g in found.items() if "/providers/" not in w}

    @property
    def resources(self):
        """Resources by id."""
        found = self.within(f"{BASE}/resourcegroups/")
        own = DEPLOYMENTS.lower()
        return {w: r for w, r in found.items() if "/providers/" in w and own not in w}

    def names(self, kind):
        """Names of all resources of a type, sorted."""
        every = self.resources.values()
        return sorted(r["name"] for r in every if r["type"].lower() == kind.lower())

    def get(self, kind, name):
        """One resource."""
        every = self.resources.values()
        alike = (r for r in every if r["type"].lower() == kind.lower())
        return next(r for r in alike if r["name"] == name)

    # time

    def settle(self):
        """Let everything that is under way come to its end."""
        self._advance(math.inf)

    def _advance(self, now):
        while True:
            due = [(d.due, 0, where) for where, d in self.deploying.items()]
            due += [(when, 1, group) for group, when in self.ending.items()]
            when, is_end, what = min(due, default=(math.inf, 0, ""))
            if not what or when > now:
                return
            self.moment = when
            (self._end if is_end else self._step)(what)
            self.moment = None

    def _fault(self, at, text):
        for fault in self.faults:
            if fault.at == at and fault.times and re.search(fault.match, text, re.I):
                fault.times -= 1
                return fault
        return None

    def _fail(self, at, text):
        if fault := self._fault(at, text):
            raise ArmError(fault.status, fault.code, fault.message, (), fault.headers)

    # requests

    def request(self, method, path, query=None, body=None):
        """Answer a request; paths are taken in any case and with doubled slashes."""
        path = re.sub(r"/{2,}", "/", unquote(path)).rstrip("/")
        self.requests.append(f"{method} {path}")
        self._advance(self.clock())
        try:
            fault = self._fault("request", f"{method} {path}")
            if fault and fault.body is not None:
                return Answer(fault.status, fault.body, fault.headers)
            if fault:
                raise ArmError(fault.status, fault.code, fault.message, (), fault.headers)
            status, answer = self._route(method, path, query or {}, body)
        except ArmError as error:
            return Answer(error.status, {"error": error.error}, error.headers)
        return Answer(status, answer)

    def _route(self, method, path, query, body):
        parts = re.fullmatch(
            r"/subscriptions/([^/]+)(/resourcegroups/([^/]+))?(/.*)?", path, re.I
        )
        refuse(not parts, "NotFound", path, 404)
        identity, in_group, group, tail = *parts.groups()[:3], parts[4] or ""
        low = tail.lower()
        if low == "/locations":
            return 200, {"value": list(_locations(shift=identity.lower() == OTHER))}
        refuse(identity.lower() != SUBSCRIPTION, "SubscriptionNotFound", identity, 404)
        until = math.inf
        if self.lag and method == "GET" and self.lag.random() < 0.6:
            until = self.clock() - self.lag.uniform(0, OLD_S)
        if in_group:
            return self._in_group(method, group, tail, query, body, until)
        if low == "/resourcegroups":
            return 200, {"value": self._tagged(query, until)}
        if low.endswith("/usages"):
            return 200, {"value": list(self._usages(low.split("/")[-2]))}
        refuse(not low.startswith(DEPLOYMENTS.lower()), "NotFound", path, 404)
        return 200, self._rehearse(tail.split("/")[-2], body)

    def _in_group(self, method, group, tail, query, body, until):
        home = f"{BASE}/resourceGroups/{group}"
        if method == "PUT" and not tail:
            return self._put_group(home, group, body)
        made = [when for when, _ in self.versions.get(home.lower(), ())]
        young = self.lag and made and self.clock() - made[0] < NEW_S
        there = self.read(home, until)
        hidden = young and method != "GET" and self.lag.random() < 0.5
        refuse(there is None or hidden, "ResourceGroupNotFound", group, 404)
        if method == "DELETE":
            return self._delete(home, there)
        if not tail:
            return 200, there
        deleting = there["properties"]["provisioningState"] == "Deleting"
        refuse(method == "PUT" and deleting, "ResourceGroupBeingDeleted", group, 409)
        if tail.lower().startswith(DEPLOYMENTS.lower()):
            name, _, verb = tail[len(DEPLOYMENTS) + 1 :].partition("/")
            where = f"{home}{DEPLOYMENTS}/{name}"
            return self._deployment(method, where, name, verb, body, until)
        return 200, self._look(home + tail, query, until)

    def _tagged(self, query, until):
        wanted = re.search(r"tagName eq '([^']*)'", query.get("$filter", ""))
        found = self.within(f"{BASE}/resourcegroups/", until)
        groups = [g for w, g in found.items() if "/providers/" not in w]
        return [g for g in groups if not wanted or wanted[1] in g["tags"]]

    def _usages(self, region):
        here = [r for r in self.resources.values() if r.get("location") == region]
        used = sum(r["type"].endswith("/publicIPAddresses") for r in here)
        for name in ("PublicIPAddresses", "IPv4StandardSkuPublicIpAddresses"):
            limit = self.limits.get((region, name), 350)
            words = {"value": name, "localizedValue": name}
            yield {"currentValue": used, "limit": limit, "unit": "Count", "name": words}

    # groups

    def _put_group(self, home, name, body):
        before = self.read(home)
        ending = before and before["properties"]["provisioningState"] == "Deleting"
        refuse(ending, "ResourceGroupBeingDeleted", name, 409)
        refuse(
            body["location"] not in REGIONS, "LocationNotAvailableForResourceGroup", name
        )
        refuse(
            not re.fullmatch(r"[\w.()-]{0,89}[\w()-]", name), "InvalidResourceGroup", name
        )
        made = {"id": home, "name": name, "type": "Microsoft.Resources/resourceGroups"}
        made |= {"location": body["location"], "tags": body.get("tags") or {}}
        made["properties"] = {"provisioningState": "Succeeded"}
        self.write(home, made)
        return 200 if before else 201, made

    def _delete(self, home, group):
        group = copy.deepcopy(group)
        group["properties"]["provisioningState"] = "Deleting"
        self.write(home, group)
        for where in [w for w in self.deploying if w.startswith(f"{home}/".lower())]:
            self._close(where, "Canceled")
        self.ending[home.lower()] = self.clock() + 3 * self.step_s
        return 202, None

    def _end(self, home):
        """Delete a group and all in it, unless something refuses."""
        del self.ending[home]
        kept = [w for w, end in self.kept.items() if end > self.clock()]
        if self._fault("delete", home) or any(w.startswith(home) for w in kept):
            group = copy.deepcopy(self.read(home))
            group["properties"]["provisioningState"] = "Succeeded"
            self.write(home, group)
            return
        for where in [w for w in self.versions if w == home or w.startswith(f"{home}/")]:
            self.write(where, None)
        gone = self.clock() - OLD_S
        for where, versions in list(self.versions.items()):
            when, last = versions[-1]
            if last is None and when < gone:
                del self.versions[where]

    # deployments

    def _deployment(self, method, where, name, verb, body, until):
        low = where.lower()
        if method == "GET" and not name:
            return 200, {"value": list(self.within(low, until).values())}
        if verb == "validate":
            self._expand(where.split("/")[4], "", body)
            return 200, {"name": name, "properties": {"provisioningState": "Succeeded"}}
        if method == "PUT":
            refuse(low in self.deploying, "DeploymentActive", name, 409)
            group = self.groups[where.split("/")[4].lower()]
            scope, items = self._expand(group["name"], group["location"], body)
            due, template = self.clock() + self.step_s, body["properties"]["template"]
            self.deploying[low] = Deploying(low, items, scope, template, due)
            shown = {"id": where, "name": name, "properties": {}}
            self._show(low, shown, "Accepted")
            return 201, self.read(low)
        document = self.read(low, until)
        refuse(document is None, "DeploymentNotFound", name, 404)
        if verb == "cancel":
            refuse(low not in self.deploying, "DeploymentCannotBeCancelled", name, 409)
            self._close(low, "Canceled")
            return 204, None
        return 200, document

    def _show(self, where, document, state, **more):
        document = copy.deepcopy(document)
        document["properties"] |= {"provisioningState": state, **more}
        self.write(where, document)

    def _close(self, where, state, **more):
        del self.deploying[where]
        self._show(where, self.read(where), state, **more)

    def _expand(self, group, region, body):
        """Scope and resources of a template; ArmError if it is not valid."""
        given = body["properties"].get("parameters") or {}
        template = body["properties"]["template"]
        values = {name: entry["value"] for name, entry in given.items()}
        unknown = values.keys() - (template.get("parameters") or {}).keys()
        refuse(unknown, "InvalidTemplate", f"unknown parameters {unknown}")
        scope = arm.Scope(SUBSCRIPTION, group, region, values, self.read, zones=REGIONS)
        try:
            items = arm.expand(template, scope)
        except arm.TemplateError as error:
            raise ArmError(400, "InvalidTemplate", str(error)) from None
        vms = [item for item in items if item.type.endswith("Machines")]
        found = [fault for vm in vms if (fault := self._fault("validate", vm.name))]
        if found:
            details = [{"code": f.code, "message": f.message} for f in found]
            raise ArmError(400, "InvalidTemplateDeployment", "See inner errors.", details)
        return scope, items

    def _rehearse(self, name, body):
        """Check a template that makes a group and deploys into it; tell what it would make."""
        values = {k: v["value"] for k, v in body["properties"]["parameters"].items()}
        group, nested = body["properties"]["template"]["resources"]
        refuse(group["location"] not in REGIONS, "LocationNotAvailableForResourceGroup")
        scope = arm.Scope(SUBSCRIPTION, "", "", values, self.read)
        inner = nested["properties"]
        given = {
            k: {"value": scope.value(v["value"])} for k, v in inner["parameters"].items()
        }
        within = {"properties": {"template": inner["template"], "parameters": given}}
        _, items = self._expand(group["name"], group["location"], within)
        changes = [{"resourceId": item.id, "changeType": "Create"} for item in items]
        states = {"provisioningState": "Succeeded", "changes": changes}
        return {"name": name, "status": "Succeeded", "properties": states}

    def _step(self, where):
        """Make one more resource."""
        running = self.deploying[where]
        running.due += self.step_s
        waiting = {item.id.lower() for item in running.left} | running.failed.keys()
        ready = [item for item in running.left if not item.depends & waiting]
        if not ready:
            running.left.clear()  # what is left waits for something that failed
        for item in ready[-1:]:
            running.left.remove(item)
            try:
                self._fail("resource", f"{item.type} {item.name}")
                self.put(item.id, item.evaluate())
            except (arm.NotYet, arm.TemplateError) as error:
                code = {"code": "InvalidTemplate", "message": f"{item.name}: {error!r}"}
                running.failed[item.id.lower()] = code
            except ArmError as error:
                running.failed[item.id.lower()] = error.error
        if running.left:
            self._show(where, self.read(where), "Running")
        elif running.failed:
            causes = list(running.failed.values())
            wrapped = {
                "code": "ResourceDeploymentFailure",
                "message": "",
                "details": causes,
            }
            error = {"code": "DeploymentFailed", "message": "", "details": [wrapped]}
            self._close(where, "Failed", error=error)
        else:
            outputs = arm.outputs(running.template, running.scope)
            self._close(where, "Succeeded", outputs=outputs)

    # resources

    def put(self, where, body):
        """Write a resource; ArmError if the rules do not allow it."""
        parts = where.split("/providers/", 1)[1].split("/")
        old, parent = self.read(where), where.rsplit("/", 2)[0]
        refuse(
            len(parts) > 3 and not self.read(parent), "ParentResourceNotFound", where, 404
        )
        new = {"id": where, "name": parts[-1], "type": "/".join([parts[0], *parts[1::2]])}
        new["properties"] = body.get("properties") or {}
        new |= {k: body[k] for k in ("tags", "sku", "zones", "location") if k in body}
        self.write(where, complete(self, copy.deepcopy(new), old))

    def _look(self, where, query, until):
        """A resource, all of a type, or the state of a VM."""
        if where.lower().endswith("/instanceview"):
            return self._power(where.split("/")[-2])
        kind = where.split("/providers/", 1)[1].split("/")
        if len(kind) % 2 == 0:
            found = self.within(f"{where}/", until).items()
            return {
                "value": [
                    shown(r) for w, r in found if w.rsplit("/", 1)[0] == where.lower()
                ]
            }
        document = self.read(where, until)
        refuse(document is None, "ResourceNotFound", where, 404)
        out = shown(document)
        if "instanceview" in query.get("$expand", "").lower():
            out["properties"]["instanceView"] = self._power(out["name"])
        if "includeColocationStatus" in query:
            text = "NotAligned" if self.scattered else "Aligned"
            status = {"code": f"ColocationStatus/{text}", "displayStatus": text}
            ids = [
                {"id": r["id"]}
                for r in self.resources.values()
                if where.lower() in _ids(r)
            ]
            out["properties"] |= {"virtualMachines": ids, "colocationStatus": status}
        return out

    def _power(self, name):
        power = "deallocated" if name in self.stopped else "running"
        texts = {"ProvisioningState/succeeded": "Provisioning succeeded"}
        texts[f"PowerState/{power}"] = f"VM {power}"
        return {"statuses": [{"code": c, "displayStatus": t} for c, t in texts.items()]}


def _locations(shift):
    """Regions; zones are mapped differently in each, and in each subscription."""
    for number, (region, zones) in enumerate(REGIONS.items(), shift):
        zone = [(i + 1, (i + number) % 3 + 1) for i in range(zones)]
        pairs = [
            {"logicalZone": f"{a}", "physicalZone": f"{region}-az{b}"} for a, b in zone
        ]
        more = {"availabilityZoneMappings": pairs} if pairs else {}
        yield {"name": region, "displayName": region, "type": "Region"} | more


def shown(resource):
    """A resource as it is read: without what is secret."""
    out = {k: v for k, v in copy.deepcopy(resource).items() if not k.startswith("_")}
    if ppg := out["properties"].get("proximityPlacementGroup"):
        # Azure gives its group in capitals
        ppg["id"] = re.sub(
            "(?<=/resourceGroups/)[^/]+", lambda m: m[0].upper(), ppg["id"]
        )
    out["properties"].get("osProfile", {}).pop("customData", None)
    return out


# what the resource manager checks and fills in


def _references(node):
    """Ids of other resources in the properties of one."""
    for entry in node if isinstance(node, list) else ():
        yield from _references(entry)
    for key, entry in node.items() if isinstance(node, dict) else ():
        if key == "id" and "/providers/" in entry:
            yield entry
        else:
            yield from _references(entry)


def _ids(resource):
    return {where.lower() for where in _references(resource["properties"])}


def there(cloud, where):
    """What is referred to: a resource, or a part of one such as a subnet."""
    if found := cloud.read(where):
        return found
    parent, _, name = where.rpartition("/")
    holder = cloud.read(parent.rpartition("/")[0]) or {"properties": {}}
    parts = holder["properties"].get(parent.rpartition("/")[2]) or []
    found = next((part for part in parts if part["name"] == name), None)
    refuse(found is None, "InvalidResourceReference", where)
    return found


def _free(cloud, subnet):
    """A private address, as Azure keeps the first ones."""
    used = str([r["properties"] for r in cloud.resources.values()])
    hosts = list(ip_network(subnet["properties"]["addressPrefix"]).hosts())[3:]
    return next(str(host) for host in hosts if f"'{host}'" not in used)


def complete(cloud, new, old):
    """Check a resource by the rules of its type, and fill in what Azure fills in."""
    kind, p, zones = (
        new["type"].rsplit("/", 1)[1].lower(),
        new["properties"],
        new.get("zones"),
    )
    before = old["properties"] if old else {}
    name = new["name"]
    refuse(
        not re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,78}\w)?", name),
        "InvalidResourceName",
        name,
    )
    far = kind in ("connections", "virtualnetworkpeerings", "securityrules")
    for where in _references(p):
        near = {new.get("location")}
        if not where.startswith(f"{new['id']}/"):
            near.add(there(cloud, where).get("location"))
        refuse(not far and len(near - {None}) > 1, "InvalidResourceReference", where)
    bad = [z for z in zones or () if int(z) > REGIONS[new["location"]]]
    refuse(bad, "AvailabilityZoneNotSupported", name)
    if kind != "proximityplacementgroups":
        p["provisioningState"] = "Succeeded"
    if fill := RULES.get(kind):
        fill(cloud, new, p, before)
    return new


def _address(cloud, new, p, before):
    used = {r["properties"].get("ipAddress") for r in cloud.resources.values()}
    free = (f"203.0.113.{i}" for i in range(10, 250))
    p["ipAddress"] = before.get("ipAddress") or next(a for a in free if a not in used)


def _configurations(cloud, new, p, before):
    for key in ("ipConfigurations", "frontendIPConfigurations"):
        for entry, past in zip(p.get(key, ()), before.get(key) or [None], strict=False):
            inside = entry["properties"]
            subnet = there(cloud, inside["subnet"]["id"])
            kept = past and past["properties"]["privateIPAddress"]
            inside["privateIPAddress"] = kept or _free(cloud, subnet)
            inside["primary"] = True
    p |= {key: before[key] for key in ("virtualMachine",) if key in before}


def _vm(cloud, new, p, before):
    host = p["osProfile"]["computerName"]
    refuse(re.search(r"[_.]|^-|-$", host) or len(host) > 64, "InvalidParameter", host)
    data = before.get("osProfile", p["osProfile"])["customData"]
    changed = p["osProfile"]["customData"] != data
    refuse(changed, "PropertyChangeNotAllowed", new["id"], 409)
    for entry in p["networkProfile"]["networkInterfaces"]:
        nic = copy.deepcopy(there(cloud, entry["id"]))
        nic["properties"]["virtualMachine"] = {"id": new["id"]}
        cloud.write(nic["id"], nic)
        given = nic["properties"]["ipConfigurations"][0]["properties"].get(
            "publicIPAddress"
        )
        address = there(cloud, given["id"]) if given else new
        code = "ComputeResourceZoneConstraintDoesNotMatchPublicIPAddressZoneConstraint"
        refuse(address.get("zones") != new.get("zones"), code, new["id"])


def _gateway(cloud, new, p, before):
    given = p["ipConfigurations"][0]["properties"]["publicIPAddress"]["id"]
    bare = REGIONS[new["location"]] and not there(cloud, given).get("zones")
    refuse(bare, "VmssVpnGatewayPublicIpsMustHaveZonesConfigured", given)


def _connection(cloud, new, p, before):
    new["_key"] = p.pop("sharedKey")
    # printable, without space, hyphen and tilde
    refuse(
        not re.fullmatch("[!-,./-}]{1,128}", new["_key"]), "InvalidSharedKey", new["id"]
    )
    p["connectionStatus"] = "Unknown"
    ends = [p[f"virtualNetworkGateway{n}"]["id"] for n in (1, 2)]
    for other in cloud.resources.values():
        back = other["properties"]
        if [back.get(f"virtualNetworkGateway{n}", {}).get("id") for n in (2, 1)] == ends:
            status = "Connected" if other["_key"] == new["_key"] else "NotConnected"
            p["connectionStatus"] = status
            cloud.write(
                other["id"], other | {"properties": back | {"connectionStatus": status}}
            )


def _peering(cloud, new, p, before):
    mine = cloud.read(new["id"].rsplit("/", 2)[0])
    other = there(cloud, p["remoteVirtualNetwork"]["id"])
    spaces = [
        h["properties"]["addressSpace"]["addressPrefixes"][0] for h in (mine, other)
    ]
    one, two = map(ip_network, spaces)
    refuse(one.overlaps(two), "VnetAddressSpacesOverlap", new["id"])
    p["peeringState"] = "Initiated"
    for back in cloud.within(f"{other['id']}/").values():
        if back["properties"].get("remoteVirtualNetwork", {}).get("id") == mine["id"]:
            p["peeringState"] = "Connected"
            state = back["properties"] | {"peeringState": "Connected"}
            cloud.write(back["id"], back | {"properties": state})


RULES = {
    "connections": _connection,
    "loadbalancers": _configurations,
    "networkinterfaces": _configurations,
    "publicipaddresses": _address,
    "virtualmachines": _vm,
    "virtualnetworkgateways": _gateway,
    "virtualnetworkpeerings": _peering,
}


def accelerated(cloud, nic):
    """Whether a guest gets a virtual function: newer sizes do whatever the interface asks for."""
    vm = cloud.read(nic["virtualMachine"]["id"])
    newer = re.search(r"_v[5-9]$", vm["properties"]["hardwareProfile"]["vmSize"])
    return bool(nic["enableAcceleratedNetworking"] or newer)
