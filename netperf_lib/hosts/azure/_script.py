"""A deployment as plain az commands: what an architect can read, paste and change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

__all__ = ["script"]

STANDARD = "--sku Standard --allocation-method Static"


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
    quote = shlex.quote  # names, regions and sizes are plain words: the options are checked before
    out = [
        "#!/bin/bash",
        "# The same as the template, in plain commands. The experiment itself deploys the template: one request,",
        "# validated before anything is made, in parallel, safe to repeat.",
        "set -euo pipefail",
        f"group={quote(group)}",
        "key=${key:-$HOME/.ssh/id_ed25519.pub}   # public key that opens the VMs",
        f"expires=$(date -u -d '+{hours:g} hours' +%FT%TZ)",
    ]

    def az(command: str) -> None:
        out.append(f"az {command} -o none")

    def subnet(place: Mapping[str, Any]) -> str:
        if place["subnetId"]:
            return f"--subnet {quote(place['subnetId'])}"
        return f"--vnet-name vnet-{place['network']} --subnet hosts"

    tags = " ".join(quote(f"{k}={v}") for k, v in p["tags"].items() if k != "netperf-expires")
    az(f'group create -n "$group" -l {location} --tags "netperf-expires=$expires" {tags}')
    for x in p["ppgs"]:
        zone = f"-z {x['zone']} " if x["zone"] else ""
        az(
            f'ppg create -g "$group" -n {x["name"]} -l {x["location"]} -t Standard {zone}'
            f"--intent-vm-sizes {' '.join(x['sizes'])}"
        )
    for n in p["networks"]:
        name, where = n["name"], f'-g "$group" -l {n["location"]}'
        az(f"network nsg create {where} -n nsg-{name}")
        callers = " ".join(map(quote, p["sshFrom"]))
        az(
            f'network nsg rule create -g "$group" --nsg-name nsg-{name} -n ssh-from-caller --priority 100 '
            f"--protocol Tcp --access Allow --source-address-prefixes {callers} --destination-port-ranges 22"
        )
        if n["existing"]:
            continue
        way_out = "--default-outbound false"
        if n["nat"]:
            az(f"network public-ip create {where} -n ip-nat-{name} {STANDARD}")
            az(f"network nat gateway create {where} -n nat-{name} --public-ip-addresses ip-nat-{name}")
            way_out += f" --nat-gateway nat-{name}"
        az(f"network vnet create {where} -n vnet-{name} --address-prefixes {n['prefix']}")
        for part, prefix, more in (("hosts", n["hosts"], f" {way_out}"), ("GatewaySubnet", n["gateways"], "")):
            az(
                f'network vnet subnet create -g "$group" --vnet-name vnet-{name} -n {part} '
                f"--address-prefixes {prefix}{more}"
            )
    for x in p["peerings"]:
        az(
            f'network vnet peering create -g "$group" --vnet-name vnet-{x["from"]} -n to-{x["to"]} '
            f"--remote-vnet vnet-{x['to']} --allow-vnet-access"
        )
    for x in p["balancers"]:
        az(
            f'network lb create -g "$group" -n {x["name"]} -l {x["location"]} --sku Standard {subnet(x)} '
            "--frontend-ip-name front --backend-pool-name servers"
        )
        az(
            f'network lb probe create -g "$group" --lb-name {x["name"]} -n ssh --protocol Tcp --port 22 --interval 5 '
            "--probe-threshold 2"
        )
        az(
            f'network lb rule create -g "$group" --lb-name {x["name"]} -n ha-ports --protocol All --frontend-port 0 '
            "--backend-port 0 --frontend-ip-name front --backend-pool-name servers --probe-name ssh --idle-timeout 30"
        )
    urn = ":".join(p["image"][k] for k in ("publisher", "offer", "sku", "version"))
    for v in sorted(p["vms"], key=lambda v: bool(v["after"])):
        name, where = v["name"], f'-g "$group" -l {v["location"]}'
        address = pool = ""
        if v["publicAddress"]:
            az(f"network public-ip create {where} -n ip-{name} {STANDARD}")
            address = f" --public-ip-address ip-{name}"
        if v["behindBalancer"]:
            pool = f" --lb-name lb-{name} --lb-address-pools servers"
        az(
            f"network nic create {where} -n nic-{name} {subnet(v)} --network-security-group nsg-{v['network']}"
            f"{address}{pool} --accelerated-networking {str(v['accelerated']).lower()}"
        )
        place = (f" --zone {v['zone']}" if v["zone"] else "") + (f" --ppg {v['ppg']}" if v["ppg"] else "")
        az(
            f"vm create {where} -n {name} --nics nic-{name} --image {quote(urn)} --size {v['size']}{place} "
            f"--security-type {p['securityType']} --storage-sku {p['diskType']} --admin-username {p['adminUsername']} "
            f'--ssh-key-values "$key" --custom-data {name}.yaml'
        )
    for x in p["publicPairs"]:
        source = f'"$(az network public-ip show -g "$group" -n ip-{x["client"]} --query ipAddress -o tsv)"'
        az(
            f'network nsg rule create -g "$group" --nsg-name nsg-{x["network"]} -n tests-from-{x["client"]} '
            f"--priority {x['priority']} --protocol '*' --access Allow --destination-port-ranges 1024-65535 "
            f"--source-address-prefixes {source}"
        )
    for x in p["gateways"]:
        name, where, address = x["name"], f'-g "$group" -l {x["location"]}', ""
        if x["kind"] == "Vpn":
            out.append("# without --zone where the region has none")
            az(f"network public-ip create {where} -n ip-gw-{name} {STANDARD} --zone 1 2 3")
            address = f" --public-ip-addresses ip-gw-{name}"
        else:
            address = " --allow-remote-vnet-traffic true"
        az(
            f"network vnet-gateway create {where} -n gw-{name} --vnet vnet-{x['network']} --gateway-type {x['kind']} "
            f"--sku {x['sku']}{address}"
        )
    for x in p["connections"]:
        if x["to"]:
            far = f'--vnet-gateway2 gw-{x["to"]} --shared-key "${{shared_key:?a long random text}}"'
        else:
            far = f"--express-route-circuit2 {quote(p['circuitId'])}"
        az(
            f'network vpn-connection create -g "$group" -n {x["name"]} -l {x["location"]} '
            f"--vnet-gateway1 gw-{x['from']} {far}"
        )
    out += ["# when it is no longer needed:", '# az group delete -n "$group" --yes']
    return "\n".join(out) + "\n"
