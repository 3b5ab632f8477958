"""What is deployed: `template.json`, its parameters, and the first start of each VM."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import yaml

from ...tools import TOOLS
from .options import Options
from .topology import Topology, Vm

SUBNETS = {"hosts": "hosts", "hosts2": "hosts2", "gateways": "GatewaySubnet"}
PACKAGES = ("ethtool", *(tool.PACKAGE for tool in TOOLS.values()))


def template_text() -> str:
    """The ARM template as shipped in the package."""
    return resources.files(__package__).joinpath("template.json").read_text("utf-8")


@cache
def _versions() -> dict[str, str]:
    return {r["type"].lower(): r["apiVersion"] for r in json.loads(template_text())["resources"]}


def api_version(kind: str) -> str:
    """API version with which the template creates a type of resource; "" for one that comes with another."""
    return _versions().get(
        kind.lower(), "2024-03-02" if kind.lower() == "microsoft.compute/disks" else ""
    )


def rehearsal_text(group: str, location: str, tags: Mapping[str, str]) -> str:
    """The same template wrapped in its resource group, so that Azure can validate it before the group exists.

    It takes the parameters of the template. It is validated and never deployed: the group and the template are created
    separately.
    """
    document = json.loads(
        resources.files(__package__).joinpath("rehearsal.json").read_text("utf-8")
    )
    group_resource, deployment = document["resources"]
    inner = deployment["properties"]["template"] = json.loads(template_text())
    document["parameters"] = inner["parameters"]
    deployment["properties"]["parameters"] = {
        n: {"value": f"[parameters('{n}')]"} for n in inner["parameters"]
    }
    group_resource |= {"name": group, "location": location, "tags": dict(tags)}
    deployment["resourceGroup"] = group
    deployment["dependsOn"] = [f"[subscriptionResourceId('{group_resource['type']}', '{group}')]"]
    return json.dumps(document)


def user_data(vm: Vm, options: Options, host_key: tuple[str, str]) -> str:
    """Cloud-init configuration of one VM: its TCP buffers, packages, and (private, public) ed25519 host key."""
    config = json.loads(_first_start())
    config["ssh_keys"] = {"ed25519_private": host_key[0], "ed25519_public": host_key[1]}
    versions = options.pinned()
    packages = [f"{p}={versions[p]}" if p in versions else p for p in PACKAGES]
    # sockperf is not packaged everywhere in the Red Hat family: it is built there
    packages = (
        packages if options.package_manager == "apt" else [p for p in packages if p != "sockperf"]
    )
    config["runcmd"].append(["/usr/local/sbin/npl-prepare", options.package_manager, *packages])
    if vm.tcp_buffer_bytes:
        n = vm.tcp_buffer_bytes
        lines = [
            f"net.core.{k}_max = {n}\nnet.ipv4.tcp_{k} = 4096 {d} {n}\n"
            for k, d in (("rmem", 131072), ("wmem", 16384))
        ]
        config["write_files"].append(
            {"path": "/etc/sysctl.d/99-netperf.conf", "content": "".join(lines)}
        )
    return f"#cloud-config\n{json.dumps(config, indent=1)}\n"  # JSON is YAML, and takes a hundredth of the time to write


@cache
def _first_start() -> str:
    return json.dumps(
        yaml.safe_load(resources.files(__package__).joinpath("cloud-init.yaml").read_text("utf-8"))
    )


def _fields(part: Any, prefix: str, *prefixed: str) -> dict[str, Any]:
    """Fields of a part of the topology, as the template calls them; those `prefixed` begin with the prefix."""
    fields = {
        name: prefix + value if name in prefixed and value else value
        for name, value in asdict(part).items()
    }
    return fields | {"location": fields.pop("region")}


def _machines(
    topology: Topology, options: Options, prefix: str, rarity: Callable[[Vm], Any]
) -> dict[str, Any]:
    """Parameters about the VMs, where they are placed, and the load balancers before them."""
    after: dict[str, str] = {}
    for members in topology.ppgs.values():
        order = sorted(members, key=lambda v: (rarity(v), v.name))
        after |= {b.name: prefix + a.name for a, b in pairwise(order)}
    subnet = {n.name: n.subnet_id for n in topology.networks}
    vms = [
        _fields(v, prefix, "name", "network", "ppg")
        | {
            "host": v.name,
            "after": after.get(v.name, ""),
            "subnetId": subnet[v.network],
            "publicAddress": options.management == "public",
            "balancer": f"lb-{prefix}{v.balancer}" if v.balancer else "",
        }
        for v in topology.vms
    ]
    return {
        "vms": vms,
        "ppgs": [
            {
                "name": prefix + name,
                "location": m[0].region,
                "zone": m[0].zone,
                "sizes": sorted({v.size for v in m}),
            }
            for name, m in topology.ppgs.items()
        ],
        "balancers": [
            vm | {"name": vm["balancer"]} for vm in vms if vm["balancer"] == f"lb-{vm['name']}"
        ],
    }


def _paths(topology: Topology, prefix: str) -> dict[str, Any]:
    """Parameters about the networks and how they are joined: peerings, gateways, connections."""
    appliance = {"nextHopType": "VirtualAppliance"}
    to_hub = {"to": "", "name": "to-hub", "remoteId": topology.hub}
    return {
        "networks": [
            _fields(n, prefix, "name")
            | {part: n.subnets.get(key, "") for part, key in SUBNETS.items()}
            | {
                "existing": bool(n.subnet_id),
                "routes": [
                    {
                        "name": f"route-{i}",
                        "properties": appliance | {"addressPrefix": to, "nextHopIpAddress": by},
                    }
                    for i, (to, by) in enumerate(n.routes, 1)
                ],
            }
            for n in topology.networks
        ],
        "peerings": [
            *(
                {"from": prefix + a, "to": prefix + b, "name": f"to-{prefix}{b}", "remoteId": ""}
                for a, b in topology.peerings
            ),
            *(
                {"from": prefix + n.name} | to_hub
                for n in topology.networks
                if topology.hub and n.prefix
            ),
        ],
        "gateways": [_fields(g, prefix, "name", "network") for g in topology.gateways],
        "connections": [
            {
                "name": prefix + connection_name(a, b),
                "location": next(g.region for g in topology.gateways if g.name == a),
                "from": prefix + a,
                "to": prefix + b if b else "",
            }
            for a, b in topology.connections
        ],
    }


def parameters(
    topology: Topology,
    options: Options,
    *,
    tags: Mapping[str, str],
    public_key: str,
    allow_from: tuple[str, ...],
    host_key: Callable[[str], tuple[str, str]],
    shared_key: str = "",
    rarity: Callable[[Vm], Any] = lambda vm: vm.size,
    prefix: str = "",
    plan: bool = False,
) -> dict[str, Any]:
    """Parameters of the template, in the form of a parameter file.

    The `tags` are put on every resource; the one with the expiry determines when the VMs are stopped. Addresses in
    `allow_from` reach port 22; `host_key` returns the (private, public) host key of a VM. Members of a proximity
    placement group are created in the order of `rarity`, the rarest first. All names begin with `prefix`, so that they
    do not collide with other resources in a shared group.
    """
    publisher, offer, sku, version = options.image.split(":")
    security: dict[str, Any] = {"encryptionAtHost": True} if options.encryption_at_host else {}
    if options.security_type != "Standard":  # unknown to versions of the API before 2025-11-01
        settings = {"secureBootEnabled": True, "vTpmEnabled": True}
        security |= {"securityType": options.security_type, "uefiSettings": settings}
    key = (
        {"diskEncryptionSet": {"id": options.disk_encryption_set}}
        if options.disk_encryption_set
        else {}
    )
    who = (
        {"type": "UserAssigned", "userAssignedIdentities": {options.identity: {}}}
        if options.identity
        else {}
    )
    sources = {  # one rule for each address and network that admits it
        (topology.vm(s).network, _source(topology, c, prefix)): c for c, s in topology.public_pairs
    }
    values: dict[str, Any] = {
        "tags": dict(tags),
        **_machines(topology, options, prefix, rarity),
        **_paths(topology, prefix),
        "publicPairs": [
            {
                "name": f"tests-from-{c}",
                "network": prefix + network,
                "address": address,
                "priority": 200 + i,
            }
            for i, ((network, address), c) in enumerate(sources.items())
        ],
        "circuitId": options.expressroute_circuit or "",
        "sharedKey": shared_key,
        "image": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        "plan": {"name": sku, "product": offer, "publisher": publisher} if plan else {},
        "managedDisk": {"storageAccountType": options.disk} | key,
        "securityProfile": security,
        "identity": who,
        "shutdownAt": tags["netperf-expires"][11:16].replace(":", "") if options.shutdown else "",
        "adminUsername": options.user,
        "sshPublicKey": public_key,
        "sshFrom": list(allow_from),
        "userData": {
            v.name: base64.b64encode(user_data(v, options, host_key(v.name)).encode()).decode()
            for v in topology.vms
        },
    }
    return {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in values.items()},
    }


def connection_name(a: str, b: str) -> str:
    """Name of the connection between two gateways, or of one to the circuit."""
    return f"cn-{a}-{b}" if b else f"cn-{a}"


def _source(topology: Topology, client: str, prefix: str) -> str:
    """The public source address of a client's packets: a NAT gateway takes precedence over its own address."""
    network = topology.network(topology.vm(client).network)
    return f"ip-nat-{prefix}{network.name}" if network.nat else f"ip-{prefix}{client}"
