"""What the resource manager checks and fills in, by type of resource."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cloud import Cloud

Resource = dict[str, Any]

REGIONS = {"westeurope": 3, "northeurope": 3, "eastus": 3, "westus2": 3, "eastasia": 3, "westus": 0}
"""Region to its number of zones."""
SIZES = {
    # name: (family, vCPUs, accelerated networking, zones; None: all, restriction of this subscription)
    "Standard_D2s_v5": ("standardDSv5Family", 2, True, None, None),
    "Standard_D4s_v5": ("standardDSv5Family", 4, True, None, None),
    "Standard_D8s_v5": ("standardDSv5Family", 8, True, None, None),
    "Standard_D16s_v5": ("standardDSv5Family", 16, True, None, None),
    "Standard_D4s_v4": ("standardDSv4Family", 4, True, None, None),
    "Standard_D8s_v4": ("standardDSv4Family", 8, True, None, None),
    "Standard_D4s_v6": ("standardDSv6Family", 4, True, None, None),
    "Standard_B2s": ("standardBSFamily", 2, False, None, None),
    "Standard_F72s_v2": ("standardFSv2Family", 72, True, {"1"}, None),
    "Standard_HB120rs_v3": ("standardHBrsv3Family", 120, True, None, "Zone"),
    "Standard_E4s_v5": ("standardESv5Family", 4, True, None, "Location"),
    "Standard_D16_v3": ("standardDv3Family", 16, True, None, None),
    "Standard_D4ps_v5": ("standardDPSv5Family", 4, True, None, None),
}
GENERATIONS = {"Standard_D16_v3": "V1"}
CHIPS = {"Standard_D4ps_v5": "Arm64"}
NVME = {"Standard_D4s_v6"}
"""Sizes whose disks are NVMe only."""
IMAGES = {
    ("canonical", "ubuntu-24_04-lts", "server"): "24.04.202511100",
    ("almalinux", "almalinux-x86_64", "9-gen2"): "9.6.2025052201",
    ("canonical", "0001-com-ubuntu-server-jammy", "22_04-lts"): "22.04.202511100",
    ("contoso", "appliance", "plain"): "1.0.0",
}
FIRST_GENERATION = {"22_04-lts"}
NOT_LINUX = {"plain"}
EMBEDDED = {
    "virtualnetworks": ("subnets", "virtualNetworkPeerings"),
    "networksecuritygroups": ("securityRules",),
}


class ArmError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: list[Resource] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.headers = status, headers or {}
        self.error: Resource = {
            "code": code,
            "message": message,
            **({"details": details} if details else {}),
        }


def kind_of(where: str) -> str:
    """Type of the resource that an id names, lower case."""
    tail = (
        where.split("/providers/", 1)[1].split("/")
        if "/providers/" in where
        else where.lower().split("/providers/")[1].split("/")
    )
    return "/".join([tail[0], *tail[1::2]]).lower()


def apply(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    """Check a resource that is being written, and fill in what Azure fills in.

    Raises
    ------
    ArmError
        It cannot be.
    """
    rule = RULES.get(new["type"].lower())
    if rule is None:
        raise ArmError(
            400, "InvalidResourceType", f"The resource type '{new['type']}' could not be found."
        )
    rule(cloud, new, old)
    if not new["type"].lower().endswith("proximityplacementgroups"):
        new["properties"]["provisioningState"] = "Succeeded"


def _there(cloud: Cloud, where: str, by: Resource) -> Resource:
    found = cloud.resources.get(where.lower())
    if found is None and "/" in where:
        parent, _, name = where.rpartition("/")  # sub-objects such as a pool of a load balancer
        holder = cloud.resources.get(parent.rpartition("/")[0].lower())
        for entry in (holder or {}).get("properties", {}).get(parent.rpartition("/")[2], []):
            if entry["name"].lower() == name.lower():
                return dict(entry)
    if found is None:
        raise ArmError(
            400,
            "InvalidResourceReference",
            f"Resource {where} referenced by resource {by['id']} was not found. Please make sure that the referenced "
            "resource exists, and that both resources are in the same region.",
        )
    return found


def _same_region(a: Resource, b: Resource) -> None:
    if a["location"] != b["location"]:
        raise ArmError(
            400,
            "InvalidResourceReference",
            f"{a['id']} in {a['location']} refers to {b['id']} in {b['location']}: both must be in the same region.",
        )


def _plain(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    """Nothing to check."""


def accelerated(cloud: Cloud, nic: Resource) -> bool:
    """Whether the guest of an interface gets a virtual function: newer sizes do whatever the interface asks for."""
    size = cloud.resources[nic["virtualMachine"]["id"].lower()]["properties"]["hardwareProfile"][
        "vmSize"
    ]
    return bool(nic["enableAcceleratedNetworking"] or re.search(r"_v[5-9]$", size))


def _ppg(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    sizes = new["properties"].get("intent", {}).get("vmSizes", [])
    for zone in new.get("zones", []):
        for size in sizes:
            if size not in SIZES or (SIZES[size][3] and zone not in SIZES[size][3]):
                raise ArmError(
                    409,
                    "OverconstrainedZonalAllocationRequest",
                    f"The intent of {new['name']} cannot be met in zone {zone}: {size}",
                )
    if new.get("zones") and not sizes:
        raise ArmError(
            400, "BadRequest", "A zone of a proximity placement group needs intent.vmSizes."
        )


def _nsg(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    for rule in new["properties"].pop("securityRules", None) or ():
        cloud.put(f"{new['id']}/securityRules/{rule['name']}", {"properties": rule["properties"]})


def _rule(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    families = {":" in prefix for prefix in new["properties"].get("sourceAddressPrefixes") or ()}
    if len(families) > 1:
        raise ArmError(
            400,
            "ResourceCannotContainAddressPrefixesFromDifferentAddressFamilies",
            f"{new['name']} has address prefixes of different families.",
        )
    for prefix in new["properties"].get("sourceAddressPrefixes") or ():
        if not re.match(r"[0-9a-f.:]+(/\d+)?$", prefix, re.I):
            raise ArmError(
                400,
                "SecurityRuleInvalidAddressPrefix",
                f"{prefix}: a service tag cannot stand in a list of prefixes.",
            )
    parent = (
        new["id"].rpartition("/securityRules/")[0].lower()
        or new["id"].lower().rpartition("/securityrules/")[0]
    )
    for where, other in cloud.resources.items():
        if where.startswith(f"{parent}/securityrules/") and where != new["id"].lower():
            a, b = other["properties"], new["properties"]
            if (a["priority"], a["direction"]) == (b["priority"], b["direction"]):
                raise ArmError(
                    400,
                    "SecurityRuleConflict",
                    f"Security rule {new['name']} conflicts with rule {other['name']}.",
                )


def _vnet(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    wanted = new["properties"].pop("subnets", None) or ()
    new["properties"].pop("virtualNetworkPeerings", None)
    spaces = [ipaddress.ip_network(s) for s in new["properties"]["addressSpace"]["addressPrefixes"]]
    taken: list[Any] = []
    for subnet in wanted:
        p = subnet["properties"]
        prefix = ipaddress.ip_network(p.get("addressPrefix") or p["addressPrefixes"][0])
        if not any(prefix.subnet_of(s) for s in spaces):
            raise ArmError(
                400,
                "NetcfgInvalidSubnet",
                f"Subnet '{subnet['name']}' is not valid in virtual network '{new['name']}'.",
            )
        if any(prefix.overlaps(t) for t in taken):
            raise ArmError(
                400, "NetcfgSubnetRangesOverlap", f"Subnet '{subnet['name']}' overlaps another."
            )
        taken.append(prefix)
        cloud.put(f"{new['id']}/subnets/{subnet['name']}", {"properties": p})


def _peering(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    mine = new["id"].rsplit("/", 2)[0]
    other = _there(cloud, p["remoteVirtualNetwork"]["id"], new)
    spaces = [
        cloud.resources[x.lower()]["properties"]["addressSpace"]["addressPrefixes"][0]
        for x in (mine, other["id"])
    ]
    if ipaddress.ip_network(spaces[0]).overlaps(ipaddress.ip_network(spaces[1])):
        raise ArmError(
            400,
            "VnetAddressSpacesOverlap",
            f"Cannot create peering {new['id']}: address spaces overlap.",
        )
    back = next(
        (
            r
            for where, r in cloud.resources.items()
            if where.startswith(f"{other['id']}/virtualnetworkpeerings/".lower())
            and r["properties"]["remoteVirtualNetwork"]["id"].lower() == mine.lower()
        ),
        None,
    )
    p.update(peeringState="Initiated", peeringSyncLevel="RemoteNotInSync")
    p["remoteAddressSpace"] = dict(other["properties"]["addressSpace"])
    for end in (p, back["properties"]) if back else ():
        end.update(peeringState="Connected", peeringSyncLevel="FullyInSync")


def _public_ip(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    if new.get("sku", {}).get("name", "Basic") == "Basic":
        raise ArmError(
            400,
            "IPv4BasicSkuPublicIpCountLimitReached",
            "Cannot create more than 0 IPv4 Basic SKU public IP addresses for this subscription in this region.",
        )
    used = {r["properties"].get("ipAddress") for r in cloud.resources.values()}
    free = (f"203.0.113.{i}" for i in range(10, 250))
    kept = old["properties"]["ipAddress"] if old else None
    new["properties"]["ipAddress"] = kept or next(a for a in free if a not in used)


def _private(cloud: Cloud, subnet: Resource) -> str:
    used = set()
    for r in cloud.resources.values():
        for key in ("ipConfigurations", "frontendIPConfigurations"):
            used |= {
                c["properties"].get("privateIPAddress") for c in r["properties"].get(key) or ()
            }
    p = subnet["properties"]
    hosts = list(ipaddress.ip_network(p.get("addressPrefix") or p["addressPrefixes"][0]).hosts())
    return next(str(h) for h in hosts[3:] if str(h) not in used)  # Azure keeps the first ones


def _balancer(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    if new.get("sku", {}).get("name", "Basic") == "Basic":
        raise ArmError(
            400, "BasicSkuLoadBalancerRetired", "Basic SKU load balancers can no longer be created."
        )
    p = new["properties"]
    lists = (
        "frontendIPConfigurations",
        "backendAddressPools",
        "probes",
        "loadBalancingRules",
        "inboundNatRules",
        "outboundRules",
        "inboundNatPools",
    )
    for key in lists:
        for entry in p.setdefault(key, []):
            entry["id"] = f"{new['id']}/{key}/{entry['name']}"
            entry.setdefault("properties", {})
    before = {
        c["name"]: c for c in (old or {}).get("properties", {}).get("frontendIPConfigurations", [])
    }
    for front in p["frontendIPConfigurations"]:
        subnet = _there(cloud, front["properties"]["subnet"]["id"], new)
        kept = before.get(front["name"], {}).get("properties", {}).get("privateIPAddress")
        front["properties"]["privateIPAddress"] = kept or _private(cloud, subnet)
    names = {e["id"].lower() for key in lists for e in p[key]}
    for rule in p["loadBalancingRules"]:
        for key in ("frontendIPConfiguration", "backendAddressPool", "probe"):
            if rule["properties"].get(key) and rule["properties"][key]["id"].lower() not in names:
                raise ArmError(
                    400,
                    "InvalidResourceReference",
                    f"{rule['properties'][key]['id']} referenced by {rule['id']} was not found.",
                )


def _nic(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    p.setdefault("enableAcceleratedNetworking", False)
    before = {
        c["name"]: c["properties"]
        for c in (old or {}).get("properties", {}).get("ipConfigurations", [])
    }
    if old and "virtualMachine" in old["properties"]:
        p["virtualMachine"] = old["properties"]["virtualMachine"]
    if group := (p.get("networkSecurityGroup") or {}).get("id"):
        _same_region(new, _there(cloud, group, new))
    for entry in p["ipConfigurations"]:
        entry["id"] = f"{new['id']}/ipConfigurations/{entry['name']}"
        c = entry["properties"]
        subnet = _there(cloud, c["subnet"]["id"], new)
        _same_region(new, cloud.resources[subnet["id"].lower().rsplit("/subnets/", 1)[0]])
        if at := (c.get("publicIPAddress") or {}).get("id"):
            address = _there(cloud, at, new)
            _same_region(new, address)
            address["properties"]["ipConfiguration"] = {"id": entry["id"]}
        for pool in c.get("loadBalancerBackendAddressPools") or ():
            _there(cloud, pool["id"], new)
        c["privateIPAddress"] = before.get(entry["name"], {}).get("privateIPAddress") or _private(
            cloud, subnet
        )
        c.setdefault("privateIPAllocationMethod", "Dynamic")
        c["primary"] = True
    p["macAddress"] = (old or {}).get("properties", {}).get(
        "macAddress"
    ) or f"00-0D-3A-{uuid.uuid4().hex[:2]}-00-01".upper()


def _vm(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    size = p["hardwareProfile"]["vmSize"]
    family, _, accelerated, _, _ = SIZES[size]
    zones = new.get("zones") or []
    image = p["storageProfile"]["imageReference"]
    security = p.get("securityProfile", {}).get("securityType")
    if security not in (None, "TrustedLaunch", "ConfidentialVM"):
        raise ArmError(
            400,
            "InvalidParameter",
            f"The value '{security}' of parameter 'securityProfile.securityType' is not allowed. Allowed values are: TrustedLaunch, ConfidentialVM. Register the feature Microsoft.Compute/UseStandardSecurityType to use Standard.",
        )
    if security and (image.get("sku") in FIRST_GENERATION or size in GENERATIONS):
        raise ArmError(
            400, "BadRequest", "Use of TrustedLaunch setting is not supported for Generation 1 VMs."
        )
    if old:
        before = old["properties"].get("osProfile", {}).get("customData")
        if p.get("osProfile", {}).get("customData") != before:
            raise ArmError(
                409,
                "PropertyChangeNotAllowed",
                "Changing property 'osProfile.customData' is not allowed.",
            )
        if (old.get("zones") or []) != zones:
            raise ArmError(
                409, "PropertyChangeNotAllowed", "Changing property 'zones' is not allowed."
            )
    elif family in cloud.full:
        raise ArmError(
            409,
            "ZonalAllocationFailed" if zones else "AllocationFailed",
            "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance",
        )
    version = IMAGES.get(tuple(str(image.get(k)).lower() for k in ("publisher", "offer", "sku")))  # type: ignore[arg-type]
    if version is None:
        raise ArmError(
            404, "PlatformImageNotFound", f"The platform image '{image}' is not available."
        )
    image["exactVersion"] = version if image["version"] == "latest" else image["version"]
    disk = p["storageProfile"]["osDisk"]
    disk.setdefault("name", f"{new['name']}_OsDisk_1_{uuid.uuid4().hex}")
    os_profile = p["osProfile"]
    if (
        os_profile.get("adminPassword")
        or not os_profile["linuxConfiguration"]["disablePasswordAuthentication"]
    ):
        raise ArmError(400, "InvalidParameter", "passwords are not used here")
    for key in os_profile["linuxConfiguration"]["ssh"]["publicKeys"]:
        if not key["keyData"].startswith(("ssh-ed25519 ", "ssh-rsa ")):
            raise ArmError(
                400,
                "InvalidParameter",
                "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid.",
            )
    if group := (p.get("proximityPlacementGroup") or {}).get("id"):
        ppg = _there(cloud, group, new)
        members = [
            r
            for r in cloud.resources.values()
            if r["type"].lower() == "microsoft.compute/virtualmachines"
            and (r["properties"].get("proximityPlacementGroup") or {}).get("id", "").lower()
            == group.lower()
        ]
        for other in members:
            if other["id"].lower() != new["id"].lower() and (other.get("zones") or []) != zones:
                raise ArmError(
                    409,
                    "OverconstrainedZonalAllocationRequest",
                    "Allocation failed. VM(s) with the following constraints cannot be allocated, because the condition is too restrictive. Please remove some constraints and try again. Constraints applied are:\n  - Availability Zone\n  - Proximity Placement Group\n",
                )
        _same_region(new, ppg)
    for entry in p["networkProfile"]["networkInterfaces"]:
        nic = _there(cloud, entry["id"], new)
        _same_region(new, nic)
        owner = nic["properties"].get("virtualMachine", {}).get("id", new["id"])
        if owner.lower() != new["id"].lower():
            raise ArmError(
                409,
                "NicInUse",
                f"Network Interface {nic['id']} is used by existing resource {owner}.",
            )
        if nic["properties"]["enableAcceleratedNetworking"] and not accelerated:
            raise ArmError(
                409,
                "VMSizeIsNotPermittedToEnableAcceleratedNetworking",
                f"VM size {size} is not permitted to enable accelerated networking on the network interface {nic['id']}.",
            )
        nic["properties"]["virtualMachine"] = {"id": new["id"]}
    p["vmId"] = (old or {}).get("properties", {}).get("vmId") or str(uuid.uuid4())
    base = new["id"].rsplit("/providers/", 1)[0]
    cloud.put(
        f"{base}/providers/Microsoft.Compute/disks/{disk['name']}",
        {"location": new["location"], "properties": {"diskSizeGB": 30}},
    )


def _subnet(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    for key in ("natGateway", "networkSecurityGroup"):
        if used := new["properties"].get(key):
            _there(cloud, used["id"], new)


def _schedule(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    if not re.fullmatch(r"([01]\d|2[0-3])[0-5]\d", p["dailyRecurrence"]["time"]):
        raise ArmError(400, "InvalidDailyRecurrence", p["dailyRecurrence"]["time"])
    vm = _there(cloud, p["targetResourceId"], new)
    _same_region(new, vm)
    if new["name"] != f"shutdown-computevm-{vm['name']}":
        raise ArmError(
            400, "InvalidScheduleName", "A schedule for a VM is called shutdown-computevm-VM."
        )


def _nat_gateway(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    for address in new["properties"].get("publicIpAddresses") or ():
        _there(cloud, address["id"], new)


def _gateway(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    sku = p["sku"]["name"]
    if p["gatewayType"] == "Vpn" and not re.fullmatch(r"VpnGw[1-5]AZ", sku):
        raise ArmError(
            400,
            "NonAzSkusNotAllowedForVPNGateway",
            "VpnGw1-5 non-AZ SKUs are no longer supported for VPN gateways. Only VpnGw1-5AZ SKUs can be created going forward.",
        )
    if p["gatewayType"] == "ExpressRoute" and not re.fullmatch(r"ErGw[1-3]AZ", sku):
        raise ArmError(400, "InvalidParameter", f"sku {sku}")
    for entry in p["ipConfigurations"]:
        entry["id"] = f"{new['id']}/ipConfigurations/{entry['name']}"
        c = entry["properties"]
        subnet = _there(cloud, c["subnet"]["id"], new)
        if subnet["name"] != "GatewaySubnet":
            raise ArmError(
                400,
                "InvalidParameter",
                f"The subnet of {new['name']} must be called GatewaySubnet.",
            )
        for other in cloud.resources.values():
            if (
                other["type"].lower() == new["type"].lower()
                and other["id"] != new["id"]
                and other["properties"]["gatewayType"] == p["gatewayType"]
                and other["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"]
                == c["subnet"]["id"]
            ):
                raise ArmError(
                    409,
                    "GatewayTypeExists",
                    f"{subnet['id']} has a gateway of type {p['gatewayType']} already.",
                )
        if p["gatewayType"] == "ExpressRoute":
            if c.get("publicIPAddress"):
                raise ArmError(
                    400,
                    "InvalidParameter",
                    f"{new['name']}: Azure gives ExpressRoute gateways their address.",
                )
            continue
        if not c.get("publicIPAddress"):
            raise ArmError(
                400, "PublicIpForGatewayIsRequired", f"{new['name']} needs a public IP address."
            )
        address = _there(cloud, c["publicIPAddress"]["id"], new)
        if not address.get("zones") and REGIONS[new["location"]]:
            raise ArmError(
                400,
                "VmssVpnGatewayPublicIpsMustHaveZonesConfigured",
                "Standard Public IPs associated with VPN Gateways with AZ VPN skus must have zones configured.",
            )


def _connection(cloud: Cloud, new: Resource, old: Resource | None) -> None:
    p = new["properties"]
    first = _there(cloud, p["virtualNetworkGateway1"]["id"], new)
    if p["connectionType"] == "ExpressRoute":
        if first["properties"]["gatewayType"] != "ExpressRoute":
            raise ArmError(400, "InvalidConnection", f"{first['name']} is no ExpressRoute gateway.")
        _there(cloud, p["peer"]["id"], new)
        p["connectionStatus"] = "Connected"
        return
    second = _there(cloud, p["virtualNetworkGateway2"]["id"], new)
    if not p.get("sharedKey"):
        raise ArmError(400, "InvalidConnection", f"{new['name']} has no shared key.")
    key = p.pop("sharedKey")
    new["_key"] = key
    p["connectionStatus"] = "Unknown"
    for other in cloud.resources.values():
        q = other["properties"]
        if (
            other["type"].lower() == new["type"].lower()
            and q.get("virtualNetworkGateway2", {}).get("id") == first["id"]
            and q["virtualNetworkGateway1"]["id"] == second["id"]
        ):
            status = "Connected" if other.get("_key") == key else "NotConnected"
            new["_later"] = other["_later"] = (
                cloud.clock() + cloud.step_s,
                {"connectionStatus": status},
            )


RULES: dict[str, Callable[[Any, Resource, Resource | None], None]] = {
    "microsoft.compute/disks": _plain,
    "microsoft.compute/proximityplacementgroups": _ppg,
    "microsoft.compute/virtualmachines": _vm,
    "microsoft.devtestlab/schedules": _schedule,
    "microsoft.network/connections": _connection,
    "microsoft.network/expressroutecircuits": _plain,
    "microsoft.network/loadbalancers": _balancer,
    "microsoft.network/natgateways": _nat_gateway,
    "microsoft.network/networkinterfaces": _nic,
    "microsoft.network/networksecuritygroups": _nsg,
    "microsoft.network/networksecuritygroups/securityrules": _rule,
    "microsoft.network/publicipaddresses": _public_ip,
    "microsoft.network/virtualnetworkgateways": _gateway,
    "microsoft.network/virtualnetworks": _vnet,
    "microsoft.network/virtualnetworks/subnets": _subnet,
    "microsoft.network/virtualnetworks/virtualnetworkpeerings": _peering,
}
