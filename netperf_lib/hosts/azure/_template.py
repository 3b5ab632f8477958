"""What is deployed: the parameters of `template.json`, the first start of each VM, and the same as plain az commands."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import yaml

from ._options import Options
from ._topology import Topology, Vm

__all__ = ["parameters", "script", "template", "user_data"]

TOOLS = ("ethtool", "iperf", "iperf3", "qperf", "sockperf")


def template() -> dict[str, Any]:
    """The ARM template."""
    found: dict[str, Any] = json.loads(template_text())
    return found


def template_text() -> str:
    """The ARM template as it stands in the package."""
    return resources.files(__package__).joinpath("template.json").read_text("utf-8")


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
    packages = [f"{p}={options.versions[p]}" if p in options.versions else p for p in TOOLS]
    # sockperf is not packaged everywhere in the Red Hat family: it is built there
    packages = packages if options.package_manager == "apt" else [p for p in packages if p != "sockperf"]
    config["runcmd"].append(["/usr/local/sbin/npl-prepare", options.package_manager, *packages])
    if vm.tcp_buffer_bytes:
        n = vm.tcp_buffer_bytes
        lines = [f"net.core.{k}_max = {n}\nnet.ipv4.tcp_{k} = 4096 {d} {n}\n" for k, d in (("rmem", 131072), ("wmem", 16384))]
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
        after |= {b.name: a.name for a, b in zip(order, order[1:], strict=False)}
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
                "subnets": [] if n.subnet_id else n.subnets,
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
            {
                "name": g.name,
                "network": g.network,
                "location": g.region,
                "kind": g.kind,
                "sku": g.sku,
                "zones": ["1", "2", "3"] if g.sku.endswith("AZ") else [],
            }
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
        'key=${key:-$HOME/.ssh/id_ed25519.pub}   # public key that opens the VMs',
    ]

    def az(words: str, *more: str) -> None:
        out.append(" ".join(["az", words, *(m if m.startswith('"$') else shlex.quote(m) for m in more), "-o none"]))

    def g(words: str, *more: str) -> None:
        az(f'{words} -g "$group"', *more)

    def subnet(vm: Mapping[str, Any]) -> list[str]:
        return ["--subnet", vm["subnetId"]] if vm["subnetId"] else ["--vnet-name", f"vnet-{vm['network']}", "--subnet", "hosts"]

    tags = [f"{k}={v}" for k, v in p["tags"].items() if k != "netperf-expires"]
    out.append(f"expires=$(date -u -d '+{hours:g} hours' +%FT%TZ)")
    az('group create -n "$group"', "-l", location, "--tags", '"$(printf netperf-expires=%s "$expires")"', *tags)
    for x in p["ppgs"]:
        zone = ["-z", x["zone"]] if x["zone"] else []
        g("ppg create", "-n", x["name"], "-l", x["location"], "-t", "Standard", *zone, "--intent-vm-sizes", *x["sizes"])
    for n in p["networks"]:
        g("network nsg create", "-n", f"nsg-{n['name']}", "-l", n["location"])
        rule = ["--nsg-name", f"nsg-{n['name']}", "-n", "ssh-from-caller", "--priority", "100", "--protocol", "Tcp"]
        g("network nsg rule create", *rule, "--access", "Allow", "--source-address-prefixes", *p["sshFrom"], "--destination-port-ranges", "22")
        if not n["existing"]:
            hosts, gateway = (s["properties"]["addressPrefix"] for s in n["subnets"])
            g("network vnet create", "-n", f"vnet-{n['name']}", "-l", n["location"], "--address-prefixes", n["prefix"], "--subnet-name", "hosts", "--subnet-prefixes", hosts)
            g("network vnet subnet create", "--vnet-name", f"vnet-{n['name']}", "-n", "GatewaySubnet", "--address-prefixes", gateway)
    for x in p["peerings"]:
        g("network vnet peering create", "--vnet-name", f"vnet-{x['from']}", "-n", f"to-{x['to']}", "--remote-vnet", f"vnet-{x['to']}", "--allow-vnet-access")
    for x in p["balancers"]:
        where = subnet({"subnetId": x["subnetId"], "network": x["network"]})
        g("network lb create", "-n", x["name"], "-l", x["location"], "--sku", "Standard", *where, "--frontend-ip-name", "front", "--backend-pool-name", "servers")
        g("network lb probe create", "--lb-name", x["name"], "-n", "ssh", "--protocol", "Tcp", "--port", "22")
        g("network lb rule create", "--lb-name", x["name"], "-n", "ha-ports", "--protocol", "All", "--frontend-port", "0", "--backend-port", "0", "--frontend-ip-name", "front", "--backend-pool-name", "servers", "--probe-name", "ssh")
    urn = ":".join(p["image"][k] for k in ("publisher", "offer", "sku", "version"))
    for v in sorted(p["vms"], key=lambda v: bool(v["after"])):
        address = []
        if v["publicAddress"]:
            g("network public-ip create", "-n", f"ip-{v['name']}", "-l", v["location"], "--sku", "Standard", "--allocation-method", "Static")
            address = ["--public-ip-address", f"ip-{v['name']}"]
        pool = ["--lb-name", f"lb-{v['name']}", "--lb-address-pools", "servers"] if v["behindBalancer"] else []
        nic = ["-n", f"nic-{v['name']}", "-l", v["location"], *subnet(v), "--network-security-group", f"nsg-{v['network']}"]
        g("network nic create", *nic, *address, *pool, "--accelerated-networking", str(v["accelerated"]).lower())
        where = (["--zone", v["zone"]] if v["zone"] else []) + (["--ppg", v["ppg"]] if v["ppg"] else [])
        secure = ["--security-type", p["securityType"]]
        g(
            "vm create", "-n", v["name"], "-l", v["location"], "--nics", f"nic-{v['name']}", "--image", urn,
            "--size", v["size"], *where, *secure, "--storage-sku", p["diskType"], "--admin-username", p["adminUsername"],
            "--ssh-key-values", '"$key"', "--custom-data", f"{v['name']}.yaml",
        )  # fmt: skip
    for x in p["publicPairs"]:
        source = f'"$(az network public-ip show -g "$group" -n ip-{x["client"]} --query ipAddress -o tsv)"'
        g("network nsg rule create", "--nsg-name", f"nsg-{x['network']}", "-n", f"tests-from-{x['client']}", "--priority", str(x["priority"]), "--protocol", "*", "--access", "Allow", "--destination-port-ranges", "1024-65535", "--source-address-prefixes", source)
    for x in p["gateways"]:
        zones = ["--zone", *x["zones"]] if x["zones"] else []
        g("network public-ip create", "-n", f"ip-gw-{x['name']}", "-l", x["location"], "--sku", "Standard", "--allocation-method", "Static", *zones)
        g("network vnet-gateway create", "-n", f"gw-{x['name']}", "-l", x["location"], "--vnet", f"vnet-{x['network']}", "--gateway-type", x["kind"], "--sku", x["sku"], "--public-ip-addresses", f"ip-gw-{x['name']}")
    for x in p["connections"]:
        ends = ["-n", x["name"], "-l", x["location"], "--vnet-gateway1", f"gw-{x['from']}"]
        if x["to"]:
            g("network vpn-connection create", *ends, "--vnet-gateway2", f"gw-{x['to']}", "--shared-key", '"${shared_key:?a long random text}"')
        else:
            g("network vpn-connection create", *ends, "--express-route-circuit2", p["circuitId"])
    out += ["# when it is no longer needed:", '# az group delete -n "$group" --yes']
    return "\n".join(out) + "\n"
