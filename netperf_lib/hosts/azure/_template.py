"""What is deployed: `template.json`, its parameters, and the first start of each VM."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from importlib import resources
from itertools import pairwise
from typing import Any

import yaml

from ._options import Options
from ._pins import pinned
from ._topology import Topology, Vm

__all__ = ["parameters", "rehearsal_text", "template_text", "user_data"]

TOOLS = ("ethtool", "iperf", "iperf3", "qperf", "sockperf")


def template_text() -> str:
    """The ARM template as it stands in the package."""
    return resources.files(__package__).joinpath("template.json").read_text("utf-8")


def rehearsal_text(group: str, location: str, tags: Mapping[str, str]) -> str:
    """The same template with its resource group around it, so that Azure can be asked before there is a group.

    It takes the parameters of the template. It is validated and never deployed: what it would make, the group and then
    the template make.
    """
    inner = json.loads(template_text())
    document = {
        "$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": inner["parameters"],
        "resources": [
            {
                "type": "Microsoft.Resources/resourceGroups",
                "apiVersion": "2024-03-01",
                "name": group,
                "location": location,
                "tags": dict(tags),
            },
            {
                "type": "Microsoft.Resources/deployments",
                "apiVersion": "2024-03-01",
                "name": "npl",
                "resourceGroup": group,
                "dependsOn": [f"[subscriptionResourceId('Microsoft.Resources/resourceGroups', '{group}')]"],
                "properties": {
                    "mode": "Incremental",
                    "expressionEvaluationOptions": {"scope": "inner"},
                    "template": inner,
                    "parameters": {name: {"value": f"[parameters('{name}')]"} for name in inner["parameters"]},
                },
            },
        ],
    }
    return json.dumps(document)


def user_data(vm: Vm, options: Options, host_key: tuple[str, str]) -> str:
    """Cloud-init configuration of one VM.

    Parameters
    ----------
    vm : Vm
        Its TCP buffers are set here.
    options : Options
        Package manager and versions.
    host_key : (str, str)
        Private and public ed25519 key.
    """
    config = yaml.safe_load(resources.files(__package__).joinpath("cloud-init.yaml").read_text("utf-8"))
    config["ssh_keys"] = {"ed25519_private": host_key[0], "ed25519_public": host_key[1]}
    versions = pinned(options)
    packages = [f"{p}={versions[p]}" if p in versions else p for p in TOOLS]
    # sockperf is not packaged everywhere in the Red Hat family: it is built there
    packages = packages if options.package_manager == "apt" else [p for p in packages if p != "sockperf"]
    config["runcmd"].append(["/usr/local/sbin/npl-prepare", options.package_manager, *packages])
    if vm.tcp_buffer_bytes:
        n = vm.tcp_buffer_bytes
        lines = [
            f"net.core.{k}_max = {n}\nnet.ipv4.tcp_{k} = 4096 {d} {n}\n" for k, d in (("rmem", 131072), ("wmem", 16384))
        ]
        config["write_files"].append({"path": "/etc/sysctl.d/99-netperf.conf", "content": "".join(lines)})
    return "#cloud-config\n" + yaml.safe_dump(config, sort_keys=False, width=120)


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
    """Parameters of the template, in the form of a parameter file.

    Parameters
    ----------
    topology : Topology
        What to make.
    options : Options
        Image, disk, user.
    tags : mapping
        Put on every resource.
    public_key : str
        Opens the VMs.
    allow_from : tuple of str
        Prefixes that may reach port 22.
    host_key : callable
        VM name to its (private, public) host key.
    shared_key : str
        Of VPN connections.
    rarity : callable
        Sort key: members of a proximity placement group are made in this order, the rarest first.
    """
    after: dict[str, str] = {}
    for members in topology.ppgs.values():
        order = sorted(members, key=lambda v: (rarity(v), v.name))
        after |= {b.name: a.name for a, b in pairwise(order)}
    publisher, offer, sku, version = options.image.split(":")
    subnet = {n.name: n.subnet_id for n in topology.networks}
    given: dict[str, Any] = {
        "tags": dict(tags),
        "vms": [
            {
                "name": v.name,
                "network": v.network,
                "location": v.region,
                "zone": v.zone,
                "size": v.size,
                "accelerated": v.accelerated,
                "ppg": v.ppg,
                "after": after.get(v.name, ""),
                "subnetId": subnet[v.network],
                "publicAddress": options.management == "public",
                "behindBalancer": v.behind_balancer,
            }
            for v in topology.vms
        ],
        "networks": [
            {
                "name": n.name,
                "location": n.region,
                "prefix": n.prefix,
                "hosts": n.hosts_prefix,
                "gateways": n.gateways_prefix,
                "nat": options.management == "private" and not n.subnet_id,
                "existing": bool(n.subnet_id),
            }
            for n in topology.networks
        ],
        "ppgs": [
            {"name": name, "location": m[0].region, "zone": m[0].zone, "sizes": sorted({v.size for v in m})}
            for name, m in topology.ppgs.items()
        ],
        "peerings": [{"from": a, "to": b} for a, b in topology.peerings],
        "balancers": [
            {"name": f"lb-{v.name}", "network": v.network, "location": v.region, "subnetId": subnet[v.network]}
            for v in topology.vms
            if v.behind_balancer
        ],
        "publicPairs": [
            {"client": c, "server": s, "network": topology.vm(s).network, "priority": 200 + i}
            for i, (c, s) in enumerate(topology.public_pairs)
        ],
        "gateways": [
            {"name": g.name, "network": g.network, "location": g.region, "kind": g.kind, "sku": g.sku}
            for g in topology.gateways
        ],
        "connections": [
            {
                "name": f"cn-{a}-{b}" if b else f"cn-{a}",
                "location": next(g.region for g in topology.gateways if g.name == a),
                "from": a,
                "to": b,
            }
            for a, b in topology.connections
        ],
        "circuitId": options.expressroute_circuit or "",
        "sharedKey": shared_key,
        "image": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        "diskType": options.disk,
        "securityType": options.security_type,
        "adminUsername": options.user,
        "sshPublicKey": public_key,
        "sshFrom": list(allow_from),
        "userData": {
            v.name: base64.b64encode(user_data(v, options, host_key(v.name)).encode()).decode() for v in topology.vms
        },
    }
    return {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in given.items()},
    }
