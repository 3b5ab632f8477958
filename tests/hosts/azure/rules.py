"""What the resource manager checks and fills in, by type of resource."""

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

Resource = dict[str, Any]

REGIONS = {
    "westeurope": 3,
    "northeurope": 3,
    "eastus": 3,
    "westus2": 3,
    "eastasia": 3,
    "westus": 0,
}
"""Region to its number of zones."""
SIZES = {
    # name: (family, vCPUs, accelerated networking, zones; None: all, restriction)
    **{
        f"Standard_D{n}s_v5": ("standardDSv5Family", n, True, None, None)
        for n in (2, 4, 8, 16)
    },
    **{f"Standard_D{n}s_v4": ("standardDSv4Family", n, True, None, None) for n in (4, 8)},
    "Standard_B2s": ("standardBSFamily", 2, False, None, None),
    "Standard_F72s_v2": ("standardFSv2Family", 72, True, {"1"}, None),
    "Standard_HB120rs_v3": ("standardHBrsv3Family", 120, True, None, "Zone"),
    "Standard_E4s_v5": ("standardESv5Family", 4, True, None, "Location"),
}
EMBEDDED = {
    "virtualnetworks": ("subnets", "virtualNetworkPeerings"),
    "networksecuritygroups": ("securityRules",),
}


class ArmError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status,
        code,
        message,
        *,
        details=None,
        headers=None,
    ):
        super().__init__(f"{code}: {message}")
        self.status, self.headers = status, headers or {}
        more = {"details": details} if details else {}
        self.error = {"code": code, "message": message, **more}


def refuse(wrong, code, about="", *, status=400):
    """Answer with an error if something is wrong."""
    if wrong:
        raise ArmError(status, code, f"It cannot be: {about}")


def apply(cloud, new, old):
    """Check a resource that is being written, and fill in what Azure fills in."""
    kind = new["type"].lower()
    refuse(kind not in RULES, "InvalidResourceType", kind)
    name = new["name"]
    refuse(
        not re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,78}\w)?", name),
        "InvalidResourceName",
        name,
    )
    RULES[kind](cloud, new, old)
    if not kind.endswith("proximityplacementgroups"):
        new["properties"]["provisioningState"] = "Succeeded"


def _there(cloud, where, by):
    """What is referred to: a resource, or a part of one such as a pool of a load balancer."""
    found = cloud.resources.get(where.lower())
    if found is None:
        parent, _, name = where.rpartition("/")
        holder = cloud.resources.get(
            parent.rpartition("/")[0].lower(), {"properties": {}}
        )
        parts = holder["properties"].get(parent.rpartition("/")[2]) or []
        found = next((e for e in parts if e["name"].lower() == name.lower()), None)
    refuse(found is None, "InvalidResourceReference", f"{by['id']} refers to {where}")
    near = {r["location"] for r in (found or {}, by) if "location" in r}
    refuse(len(near) > 1, "InvalidResourceReference", f"{near} must be one region")
    return found or {}


def _plain(cloud, new, old):
    """Everything that it refers to must be there, in its region."""
    for where in _references(new["properties"]):
        _there(cloud, where, new)


def _references(node):
    """Ids of other resources in the properties of one."""
    for entry in node if isinstance(node, list) else ():
        yield from _references(entry)
    for key, entry in node.items() if isinstance(node, dict) else ():
        if key == "id" and "/providers/" in entry:
            yield entry
        else:
            yield from _references(entry)


def accelerated(cloud, nic):
    """Whether a guest gets a virtual function: newer sizes do whatever the interface asks for."""
    vm = cloud.resources[nic["virtualMachine"]["id"].lower()]
    newer = re.search(r"_v[5-9]$", vm["properties"]["hardwareProfile"]["vmSize"])
    return bool(nic["enableAcceleratedNetworking"] or newer)


def _nsg(cloud, new, old):
    for rule in new["properties"].pop("securityRules", None) or ():
        cloud.put(
            f"{new['id']}/securityRules/{rule['name']}",
            {"properties": rule["properties"]},
        )


def _vnet(cloud, new, old):
    for subnet in new["properties"].pop("subnets", None) or ():
        cloud.put(
            f"{new['id']}/subnets/{subnet['name']}", {"properties": subnet["properties"]}
        )


def _peering(cloud, new, old):
    p = new["properties"]
    mine = new["id"].rsplit("/", 2)[0]
    other = _there(cloud, p["remoteVirtualNetwork"]["id"], new)
    homes = (cloud.resources[mine.lower()], other)
    one, two = (
        ip_network(h["properties"]["addressSpace"]["addressPrefixes"][0]) for h in homes
    )
    refuse(one.overlaps(two), "VnetAddressSpacesOverlap", new["id"])
    p["peeringState"] = "Initiated"
    for where, back in cloud.resources.items():
        far = back["properties"].get("remoteVirtualNetwork", {}).get("id", "").lower()
        if where.startswith(f"{other['id']}/".lower()) and far == mine.lower():
            p["peeringState"] = back["properties"]["peeringState"] = "Connected"


def _public_ip(cloud, new, old):
    used = {r["properties"].get("ipAddress") for r in cloud.resources.values()}
    free = (f"203.0.113.{i}" for i in range(10, 250))
    kept = old["properties"]["ipAddress"] if old else None
    new["properties"]["ipAddress"] = kept or next(a for a in free if a not in used)


def _private(cloud, subnet):
    used = {
        c["properties"].get("privateIPAddress")
        for r in cloud.resources.values()
        for key in ("ipConfigurations", "frontendIPConfigurations")
        for c in r["properties"].get(key) or ()
    }
    hosts = list(ip_network(subnet["properties"]["addressPrefix"]).hosts())
    return next(
        str(h) for h in hosts[3:] if str(h) not in used
    )  # Azure keeps the first ones


def _balancer(cloud, new, old):
    p = new["properties"]
    for key in (
        "frontendIPConfigurations",
        "backendAddressPools",
        "probes",
        "loadBalancingRules",
    ):
        for entry in p[key]:
            entry["id"] = f"{new['id']}/{key}/{entry['name']}"
    front = p["frontendIPConfigurations"][0]["properties"]
    subnet = _there(cloud, front["subnet"]["id"], new)
    before = old["properties"]["frontendIPConfigurations"][0]["properties"] if old else {}
    front["privateIPAddress"] = before.get("privateIPAddress") or _private(cloud, subnet)


def _nic(cloud, new, old):
    _plain(cloud, new, old)
    p, before = new["properties"], old["properties"] if old else {}
    p |= {k: v for k, v in before.items() if k == "virtualMachine"}
    (entry,) = p["ipConfigurations"]
    entry["id"] = f"{new['id']}/ipConfigurations/{entry['name']}"
    c = entry["properties"]
    subnet = _there(cloud, c["subnet"]["id"], new)
    kept = (
        before["ipConfigurations"][0]["properties"]["privateIPAddress"] if old else None
    )
    c |= {"privateIPAddress": kept or _private(cloud, subnet), "primary": True}


def _vm(cloud, new, old):
    _plain(cloud, new, old)
    p, zones = new["properties"], new.get("zones")
    host = p["osProfile"]["computerName"]
    refuse(re.search(r"[_.]|^-|-$", host) or len(host) > 64, "InvalidParameter", host)
    if old:
        before = old["properties"]["osProfile"]["customData"]
        changed = p["osProfile"]["customData"] != before or old.get("zones") != zones
        refuse(changed, "PropertyChangeNotAllowed", new["id"], status=409)
    for entry in p["networkProfile"]["networkInterfaces"]:
        nic = _there(cloud, entry["id"], new)["properties"]
        nic["virtualMachine"] = {"id": new["id"]}
        given = nic["ipConfigurations"][0]["properties"].get("publicIPAddress")
        address = _there(cloud, given["id"], new) if given else {"zones": zones}
        code = "ComputeResourceZoneConstraintDoesNotMatchPublicIPAddressZoneConstraint"
        refuse(address.get("zones") != zones, code, new["id"])
    base = new["id"].rsplit("/providers/", 1)[0]
    disk = f"{base}/providers/Microsoft.Compute/disks/{p['storageProfile']['osDisk']['name']}"
    cloud.put(disk, {"location": new["location"], "properties": {"diskSizeGB": 30}})


def _gateway(cloud, new, old):
    _plain(cloud, new, old)
    p = new["properties"]
    c = p["ipConfigurations"][0]["properties"]
    given = (c.get("publicIPAddress") or {}).get("id")
    refuse(
        bool(given) != (p["gatewayType"] == "Vpn"),
        "PublicIpForGatewayIsRequired",
        new["name"],
    )
    bare = (
        given and REGIONS[new["location"]] and not _there(cloud, given, new).get("zones")
    )
    refuse(bare, "VmssVpnGatewayPublicIpsMustHaveZonesConfigured", given)


def _connection(cloud, new, old):
    p = new["properties"]
    for where in _references(p):
        _there(cloud, where, {"id": new["id"]})  # the other end may be elsewhere
    new["_key"] = p.pop("sharedKey")
    refuse(
        not re.fullmatch("[!-,./-}]{1,128}", new["_key"]), "InvalidSharedKey", new["id"]
    )
    ends = [p[f"virtualNetworkGateway{n}"]["id"] for n in (2, 1)]
    p["connectionStatus"] = "Unknown"
    for other in cloud.resources.values():
        back = [
            other["properties"].get(f"virtualNetworkGateway{n}", {}).get("id")
            for n in (1, 2)
        ]
        if back == ends:
            status = "Connected" if other.get("_key") == new["_key"] else "NotConnected"
            later = (cloud.clock() + cloud.step_s, {"connectionStatus": status})
            new["_later"] = other["_later"] = later


RULES = {
    "microsoft.compute/disks": _plain,
    "microsoft.compute/proximityplacementgroups": _plain,
    "microsoft.compute/virtualmachines": _vm,
    "microsoft.devtestlab/schedules": _plain,
    "microsoft.network/connections": _connection,
    "microsoft.network/loadbalancers": _balancer,
    "microsoft.network/natgateways": _plain,
    "microsoft.network/networkinterfaces": _nic,
    "microsoft.network/networksecuritygroups": _nsg,
    "microsoft.network/networksecuritygroups/securityrules": _plain,
    "microsoft.network/publicipaddresses": _public_ip,
    "microsoft.network/virtualnetworkgateways": _gateway,
    "microsoft.network/virtualnetworks": _vnet,
    "microsoft.network/virtualnetworks/subnets": _plain,
    "microsoft.network/virtualnetworks/virtualnetworkpeerings": _peering,
}
