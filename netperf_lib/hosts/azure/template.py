"""What is deployed: `template.json`, its parameters, and the first start of each VM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

from ...tools import TOOLS
from .options import Options
from .topology import Topology, Vm

USER = "azureuser"
"""Administrator account of the VMs."""
PACKAGES = ("ethtool", *(tool.PACKAGE for tool in TOOLS.values()))


def template_text(name: str = "template.json") -> str:
    """Return the ARM template, or another file, as shipped in the package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def rehearsal_text(group: str, location: str, tags: Mapping[str, str]) -> str:
    """Return the template wrapped in its resource group, so that Azure can validate it beforehand.

    It takes the parameters of the template. It is validated and never deployed: the group and the
    template are created separately.
    """
    document = json.loads(template_text("rehearsal.json"))
    own, deployment = document["resources"]
    inner = json.loads(template_text())
    own |= {"name": group, "location": location, "tags": dict(tags)}
    deployment["resourceGroup"] = group
    deployment["dependsOn"] = [f"[subscriptionResourceId('{own['type']}', '{group}')]"]
    deployment["properties"] |= {
        "template": inner,
        "parameters": {n: {"value": f"[parameters('{n}')]"} for n in inner["parameters"]},
    }
    return json.dumps(document | {"parameters": inner["parameters"]})


def first_start(vm: Vm, host_key: tuple[str, str]) -> str:
    """Return the cloud-init configuration of one VM: packages, TCP buffers, and its host key.

    `host_key` is the private and the public one.
    """
    config = yaml.safe_load(template_text("cloud-init.yaml"))
    config["ssh_keys"] = {"ed25519_private": host_key[0], "ed25519_public": host_key[1]}
    config["runcmd"].append(["/usr/local/sbin/npl-prepare", *PACKAGES])
    if n := vm.tcp_buffer_bytes:
        config["write_files"].append(
            {
                "path": "/etc/sysctl.d/99-netperf.conf",
                "content": f"net.core.rmem_max = {n}\nnet.ipv4.tcp_rmem = 4096 131072 {n}\n"
                f"net.core.wmem_max = {n}\nnet.ipv4.tcp_wmem = 4096 16384 {n}\n",
            }
        )
    # JSON is YAML, and takes a hundredth of the time to write
    return f"#cloud-config\n{json.dumps(config, indent=1)}\n"


def parameters(
    topology: Topology, options: Options, tags: Mapping[str, str], **more: Any
) -> dict[str, Any]:
    """Return the parameters of the template, in the form of a parameter file.

    The `tags` are put on every resource; the one with the expiry determines when the VMs are
    stopped. What is not known from the declaration is given by name, as the template has it.
    """
    publisher, offer, sku, version = options.image.split(":")
    shutdown_at = ""
    if options.stopped:
        shutdown_at = tags["netperf-expires"][11:16].replace(":", "")
    values = topology.values() | {
        "tags": tags,
        "subnetId": options.subnet or "",
        "image": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        "trustedLaunch": options.security_type == "TrustedLaunch",
        "shutdownAt": shutdown_at,
        "adminUsername": USER,
        **more,
    }
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"
    return {
        "$schema": schema,
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in values.items()},
    }
