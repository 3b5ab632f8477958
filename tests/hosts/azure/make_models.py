"""Write `models.json`: what Azure's own Python packages say of the resources in the template, class by class.

    python make_models.py NETWORK=FOLDER … >models.json

NETWORK is the API version of the package azure-mgmt-network in the folder (pip install --target): 28.1.0 is 2024-05-01,
29.0.0 is 2024-07-01; beside one of them azure-mgmt-compute 33.0.0 and azure-mgmt-devtestlabs 9.0.0. They are
© Microsoft Corporation under the MIT License, too large to be installed for a test, and az brings others.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

NETWORK = {
    "networkSecurityGroups": "NetworkSecurityGroup",
    "networkSecurityGroups/securityRules": "SecurityRule",
    "routeTables": "RouteTable",
    "virtualNetworks": "VirtualNetwork",
    "virtualNetworks/virtualNetworkPeerings": "VirtualNetworkPeering",
    "publicIPAddresses": "PublicIPAddress",
    "natGateways": "NatGateway",
    "loadBalancers": "LoadBalancer",
    "networkInterfaces": "NetworkInterface",
    "connections": "VirtualNetworkGatewayConnection",
    "virtualNetworkGateways": "VirtualNetworkGateway",
}
COMPUTE = {
    "proximityPlacementGroups": "ProximityPlacementGroup",
    "virtualMachines": "VirtualMachine",
}
LABS = {"schedules": "Schedule"}


def read(network: str, folder: str) -> dict[str, Any]:
    """Type of resource and API version to its class; class to the JSON keys that may be written."""
    sys.path.insert(0, folder)
    template = Path(__file__).parents[3] / "netperf_lib" / "hosts" / "azure" / "template.json"
    used = {
        f"{r['type']}@{r['apiVersion']}"
        for r in json.loads(template.read_text("utf-8"))["resources"]
    }
    out: dict[str, Any] = {}
    for module, version, namespace, roots in (
        ("network.models", network, "Network", NETWORK),
        ("compute.v2024_07_01.models", "2024-07-01", "Compute", COMPUTE),
        ("devtestlabs.models", "2018-09-15", "DevTestLab", LABS),
    ):
        try:
            models = importlib.import_module(f"azure.mgmt.{module}")
        except ImportError:
            continue
        left = []
        for kind, root in roots.items():
            if f"Microsoft.{namespace}/{kind}@{version}" in used:
                out[f"Microsoft.{namespace}/{kind}@{version}"] = f"{namespace} {version} {root}"
                left.append(root)
        while left:
            name = left.pop()
            key, cls = f"{namespace} {version} {name}", getattr(models, name)
            if key in out:
                continue
            out[key] = {}
            said = "\n".join(c.__doc__ or "" for c in reversed(cls.__mro__))
            for attribute, how in cls._attribute_map.items():
                rules = cls._validation.get(attribute, {})
                if rules.get("readonly"):
                    continue
                text = re.findall(rf":ivar {attribute}:(.*?):vartype", said, re.S)
                values = re.findall(
                    r'"([^"]+)"', " ".join(text[-1:]).partition("Known values are:")[2]
                )
                out[key][how["key"]] = [
                    how["type"],
                    *(["required"] if rules.get("required") else []),
                    *values,
                ]
                left += [w for w in re.findall(r"\w+", how["type"]) if w[:1].isupper()]
    return out


if __name__ == "__main__":
    version, given, place = sys.argv[1].partition("=")
    document: dict[str, Any] = {} if len(sys.argv) > 2 else read(version, place)
    for more in sys.argv[2:] and sys.argv[1:]:
        done = subprocess.run(
            [sys.executable, __file__, more], check=True, capture_output=True, text=True
        )
        document |= json.loads(done.stdout)
    print(json.dumps(document, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"'))
