"""A deployment as plain az commands: what an architect can read, paste and change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

__all__ = ["script"]


def script(given: Mapping[str, Any], *, group: str, location: str, hours: float) -> str:
    """The deployment as plain az commands, to read, to paste and to change.

    Parameters
    ----------
    given : mapping
        What `parameters` returned.
    group, location : str
        Resource group to make, and where.
    hours : float
        Time to live, for its expiry tag.

    Returns
    -------
    str
        A bash script. It makes the same resources as the template; cloud-init comes from files ``VM.yaml``.
    """
    p = {name: entry["value"] for name, entry in given["parameters"].items()}
    out = [
        "#!/bin/bash",
        "# The same as the template, in plain commands. The experiment itself deploys the template: one request,",
        "# validated before anything is made, in parallel, safe to repeat.",
        "set -euo pipefail",
        f"group={shlex.quote(group)}",
        "key=${key:-$HOME/.ssh/id_ed25519.pub}   # public key that opens the VMs",
    ]

    def az(words: str, *more: str) -> None:
        out.append(" ".join(["az", words, *(m if m.startswith('"$') else shlex.quote(m) for m in more), "-o none"]))

    def g(words: str, *more: str) -> None:
        az(f'{words} -g "$group"', *more)

    def subnet(vm: Mapping[str, Any]) -> list[str]:
        return (
            ["--subnet", vm["subnetId"]]
            if vm["subnetId"]
            else ["--vnet-name", f"vnet-{vm['network']}", "--subnet", "hosts"]
        )

    tags = [f"{k}={v}" for k, v in p["tags"].items() if k != "netperf-expires"]
    out.append(f"expires=$(date -u -d '+{hours:g} hours' +%FT%TZ)")
    az('group create -n "$group"', "-l", location, "--tags", '"$(printf netperf-expires=%s "$expires")"', *tags)
    for x in p["ppgs"]:
        zone = ["-z", x["zone"]] if x["zone"] else []
        g("ppg create", "-n", x["name"], "-l", x["location"], "-t", "Standard", *zone, "--intent-vm-sizes", *x["sizes"])
    for n in p["networks"]:
        g("network nsg create", "-n", f"nsg-{n['name']}", "-l", n["location"])
        rule = ["--nsg-name", f"nsg-{n['name']}", "-n", "ssh-from-caller", "--priority", "100", "--protocol", "Tcp"]
        g(
            "network nsg rule create",
            *rule,
            "--access",
            "Allow",
            "--source-address-prefixes",
            *p["sshFrom"],
            "--destination-port-ranges",
            "22",
        )
        if not n["existing"]:
            hosts, gateway = (s["properties"]["addressPrefix"] for s in n["subnets"])
            g(
                "network vnet create",
                "-n",
                f"vnet-{n['name']}",
                "-l",
                n["location"],
                "--address-prefixes",
                n["prefix"],
                "--subnet-name",
                "hosts",
                "--subnet-prefixes",
                hosts,
            )
            g(
                "network vnet subnet create",
                "--vnet-name",
                f"vnet-{n['name']}",
                "-n",
                "GatewaySubnet",
                "--address-prefixes",
                gateway,
            )
    for x in p["peerings"]:
        g(
            "network vnet peering create",
            "--vnet-name",
            f"vnet-{x['from']}",
            "-n",
            f"to-{x['to']}",
            "--remote-vnet",
            f"vnet-{x['to']}",
            "--allow-vnet-access",
        )
    for x in p["balancers"]:
        where = subnet({"subnetId": x["subnetId"], "network": x["network"]})
        g(
            "network lb create",
            "-n",
            x["name"],
            "-l",
            x["location"],
            "--sku",
            "Standard",
            *where,
            "--frontend-ip-name",
            "front",
            "--backend-pool-name",
            "servers",
        )
        g("network lb probe create", "--lb-name", x["name"], "-n", "ssh", "--protocol", "Tcp", "--port", "22")
        g(
            "network lb rule create",
            "--lb-name",
            x["name"],
            "-n",
            "ha-ports",
            "--protocol",
            "All",
            "--frontend-port",
            "0",
            "--backend-port",
            "0",
            "--frontend-ip-name",
            "front",
            "--backend-pool-name",
            "servers",
            "--probe-name",
            "ssh",
        )
    urn = ":".join(p["image"][k] for k in ("publisher", "offer", "sku", "version"))
    for v in sorted(p["vms"], key=lambda v: bool(v["after"])):
        address = []
        if v["publicAddress"]:
            g(
                "network public-ip create",
                "-n",
                f"ip-{v['name']}",
                "-l",
                v["location"],
                "--sku",
                "Standard",
                "--allocation-method",
                "Static",
            )
            address = ["--public-ip-address", f"ip-{v['name']}"]
        pool = ["--lb-name", f"lb-{v['name']}", "--lb-address-pools", "servers"] if v["behindBalancer"] else []
        nic = [
            "-n",
            f"nic-{v['name']}",
            "-l",
            v["location"],
            *subnet(v),
            "--network-security-group",
            f"nsg-{v['network']}",
        ]
        g("network nic create", *nic, *address, *pool, "--accelerated-networking", str(v["accelerated"]).lower())
        where = (["--zone", v["zone"]] if v["zone"] else []) + (["--ppg", v["ppg"]] if v["ppg"] else [])
        secure = ["--security-type", p["securityType"]]
        g(
            "vm create", "-n", v["name"], "-l", v["location"], "--nics", f"nic-{v['name']}", "--image", urn,
            "--size", v["size"], *where, *secure, "--storage-sku", p["diskType"],
            "--admin-username", p["adminUsername"], "--ssh-key-values", '"$key"', "--custom-data", f"{v['name']}.yaml",
        )  # fmt: skip
    for x in p["publicPairs"]:
        source = f'"$(az network public-ip show -g "$group" -n ip-{x["client"]} --query ipAddress -o tsv)"'
        g(
            "network nsg rule create",
            "--nsg-name",
            f"nsg-{x['network']}",
            "-n",
            f"tests-from-{x['client']}",
            "--priority",
            str(x["priority"]),
            "--protocol",
            "*",
            "--access",
            "Allow",
            "--destination-port-ranges",
            "1024-65535",
            "--source-address-prefixes",
            source,
        )
    for x in p["gateways"]:
        zones = ["--zone", *x["zones"]] if x["zones"] else []
        g(
            "network public-ip create",
            "-n",
            f"ip-gw-{x['name']}",
            "-l",
            x["location"],
            "--sku",
            "Standard",
            "--allocation-method",
            "Static",
            *zones,
        )
        g(
            "network vnet-gateway create",
            "-n",
            f"gw-{x['name']}",
            "-l",
            x["location"],
            "--vnet",
            f"vnet-{x['network']}",
            "--gateway-type",
            x["kind"],
            "--sku",
            x["sku"],
            "--public-ip-addresses",
            f"ip-gw-{x['name']}",
        )
    for x in p["connections"]:
        ends = ["-n", x["name"], "-l", x["location"], "--vnet-gateway1", f"gw-{x['from']}"]
        if x["to"]:
            g(
                "network vpn-connection create",
                *ends,
                "--vnet-gateway2",
                f"gw-{x['to']}",
                "--shared-key",
                '"${shared_key:?a long random text}"',
            )
        else:
            g("network vpn-connection create", *ends, "--express-route-circuit2", p["circuitId"])
    out += ["# when it is no longer needed:", '# az group delete -n "$group" --yes']
    return "\n".join(out) + "\n"
