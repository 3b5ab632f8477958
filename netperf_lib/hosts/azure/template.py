"""What is deployed: `template.json`, its parameters, and the first start of each VM."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
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


def user_data(vm: Vm, host_key: tuple[str, str]) -> str:
    """Return the cloud-init configuration of one VM: packages, TCP buffers, and its host key."""
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
    topology: Topology,
    options: Options,
    *,
    tags: Mapping[str, str],
    public_key: str,
    allow_from: tuple[str, ...],
    host_key: Callable[[str], tuple[str, str]],
    shared_key: str,
) -> dict[str, Any]:
    """Return the parameters of the template, in the form of a parameter file.

    The `tags` are put on every resource; the one with the expiry determines when the VMs are
    stopped. Addresses in `allow_from` reach port 22; `host_key` returns the (private, public) host
    key of a VM.
    """
    publisher, offer, sku, version = options.image.split(":")
    shutdown_at = ""
    if options.stopped:
        shutdown_at = tags["netperf-expires"][11:16].replace(":", "")
    starts = {}
    for vm in topology.vms:
        text = user_data(vm, host_key(vm.name))
        starts[vm.name] = base64.b64encode(text.encode()).decode()
    values = topology.values() | {
        "tags": dict(tags),
        "subnetId": options.subnet or "",
        "sharedKey": shared_key,
        "image": {"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        "trustedLaunch": options.security_type == "TrustedLaunch",
        "shutdownAt": shutdown_at,
        "adminUsername": USER,
        "sshPublicKey": public_key,
        "sshFrom": list(allow_from),
        "userData": starts,
    }
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"
    return {
        "$schema": schema,
        "contentVersion": "1.0.0.0",
        "parameters": {name: {"value": value} for name, value in values.items()},
    }
