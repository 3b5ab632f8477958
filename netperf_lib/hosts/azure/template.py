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
from .topology import Network, Topology, Vm

USER = "azureuser"
"""Administrator account of the VMs."""
PACKAGES = ("ethtool", *(tool.PACKAGE for tool in TOOLS.values()))


def _shipped(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def template_text() -> str:
    """Return the ARM template as shipped in the package."""
    return _shipped("template.json")


def rehearsal_text(group: str, location: str, tags: Mapping[str, str]) -> str:
    """Return the template wrapped in its resource group, so that Azure can validate it beforehand.

    It takes the parameters of the template. It is validated and never deployed: the group and the
    template are created separately.
    """
    document = json.loads(_shipped("rehearsal.json"))
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


def user_data(vm: Vm, image: str, host_key: tuple[str, str]) -> str:
    """Return the cloud-init configuration of one VM: packages, TCP buffers, and its host key."""
    config = json.loads(_first_start())
    config["ssh_keys"] = {"ed25519_private": host_key[0], "ed25519_public": host_key[1]}
    debian = image.partition(":")[0].lower() in ("canonical", "debian")
    # sockperf is not packaged everywhere in the Red Hat family: it is built there
    packages = [p for p in PACKAGES if debian or p != "sockperf"]
    manager = "apt" if debian else "dnf"
    config["runcmd"].append(["/usr/local/sbin/npl-prepare", manager, *packages])
    if n := vm.tcp_buffer_bytes:
        lines = [
            f"net.core.{k}_max = {n}\nnet.ipv4.tcp_{k} = 4096 {d} {n}\n"
            for k, d in (("rmem", 131072), ("wmem", 16384))
        ]
        config["write_files"].append(
            {"path": "/etc/sysctl.d/99-netperf.conf", "content": "".join(lines)}
        )
    # JSON is YAML, and takes a hundredth of the time to write
    return f"#cloud-config\n{json.dumps(config, indent=1)}\n"


@cache
def _first_start() -> str:
    return json.dumps(yaml.safe_load(_shipped("cloud-init.yaml")))


def _located(part: Any) -> dict[str, Any]:
    """Fields of a part of the topology, as the template calls them."""
    fields = asdict(part)
    return fields | {"location": fields.pop("region")}


def _machines(topology: Topology, options: Options, rarity: Callable[[Vm], Any]) -> list[Any]:
    after: dict[str, str] = {}
    for members in topology.ppgs.values():
        order = sorted(members, key=lambda v: (rarity(v), v.name))
        after |= {b.name: a.name for a, b in pairwise(order)}
    return [
        _located(v)
        | {
            "after": after.get(v.name, ""),
            "subnetId": topology.network(v.network).subnet_id,
            "publicAddress": options.public,
            "balancer": f"lb-{v.name}" if v.balanced else "",
        }
        for v in topology.vms
    ]


def _network(network: Network) -> dict[str, Any]:
    subnets = network.subnets
    return _located(network) | {
        "hosts": subnets.get("hosts", ""),
        "hosts2": subnets.get("hosts2", ""),
        "gateways": subnets.get("GatewaySubnet", ""),
        "existing": bool(network.subnet_id),
    }


def _admitted(topology: Topology) -> list[dict[str, Any]]:
    """One rule for each address, and network that admits it."""
    sources = {
        (topology.vm(server).network, _source(topology, client)): client
        for client, server in topology.public_pairs
    }
    return [
        {"name": f"tests-from-{c}", "network": network, "address": address, "priority": 200 + i}
        for i, ((network, address), c) in enumerate(sources.items())
    ]


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
) -> dict[str, Any]:
    """Return the parameters of the template, in the form of a parameter file.

    The `tags` are put on every resource; the one with the expiry determines when the VMs are
    stopped. Addresses in `allow_from` reach port 22; `host_key` returns the (private, public) host
    key of a VM. Members of a proximity placement group are created in the order of `rarity`, the
    rarest first.
    """
    publisher, offer, sku, version = options.image.split(":")
    trusted = {
        "securityType": "TrustedLaunch",
        "uefiSettings": {"secureBootEnabled": True, "vTpmEnabled": True},
    }
    machines = _machines(topology, options, rarity)
    region = {g.name: g.region for g in topology.gateways}
    values: dict[str, Any] = {
        "tags": dict(tags),
        "vms": machines,
        "networks": [_network(n) for n in topology.networks],
        "ppgs": [
            {
                "name": name,
                "location": members[0].region,
                "zone": members[0].zone,
                "sizes": sorted({v.size for v in members}),
            }
            for name, members in topology.ppgs.items()
        ],
        "balancers": [m | {"name": m["balancer"]} for m in machines if m["balancer"]],
        "peerings": [{"from": a, "to": b} for a, b in topology.peerings],
        "gateways": [_located(g) for g in topology.gateways],
        "connections": [
            {"name": connection_name(a, b), "location": region[a], "from": a, "to": b}
            for a, b in topology.connections
        ],
        "publicPairs": _admitted(topology),
        "circuitId": options.expressroute_circuit or "",
        "sharedKey": shared_key,
        "image": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        # "Standard" is unknown to versions of the API before 2025-11-01: absence means it
        "securityProfile": trusted if options.security_type == "TrustedLaunch" else {},
        "shutdownAt": tags["netperf-expires"][11:16].replace(":", "") if options.stopped else "",
        "adminUsername": USER,
        "sshPublicKey": public_key,
        "sshFrom": list(allow_from),
        "userData": {
            v.name: base64.b64encode(
                user_data(v, options.image, host_key(v.name)).encode()
            ).decode()
            for v in topology.vms
        },
    }
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"
    return {
        "$schema": schema,
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in values.items()},
    }


def connection_name(a: str, b: str) -> str:
    """Return the name of the connection between two gateways, or of one to the circuit."""
    return f"cn-{a}-{b}" if b else f"cn-{a}"


def _source(topology: Topology, client: str) -> str:
    """The public source of a client's packets: a NAT gateway precedes its own address."""
    network = topology.network(topology.vm(client).network)
    return f"ip-nat-{network.name}" if network.nat else f"ip-{client}"
