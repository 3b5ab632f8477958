"""Ways to VMs without public addresses: a jump host, Azure Bastion, the user's own configuration, a hub network."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from .az import Runs, find, find_az
from .options import Options
from .state import Record, State
from .topology import Topology


def ssh_config(options: Options, store: State, name: str, vms: Mapping[str, str]) -> str | None:
    """Path of the OpenSSH configuration for reaching the VMs (address: id); None: the user's usual one."""
    if options.ssh_config:
        return str(Path(options.ssh_config).expanduser())
    lines = []
    if options.jump_host:
        lines = [f"Host {' '.join(vms)}", f"  ProxyJump {options.jump_host}"]
    for address, vm in vms.items() if options.bastion else ():
        script = Path(__file__).with_name("tunnel.py")
        tunnel = [sys.executable, "-I", str(script), find_az(), options.bastion or "", vm]
        lines += [f"Host {address}", f"  ProxyCommand {shlex.join(tunnel)}"]
    if not lines:
        return None
    own = Path.home() / ".ssh" / "config"  # its settings for the jump host still apply
    lines += ["Host *", f"  Include {own}"] if own.exists() else []
    return str(store.file(f"config-{name}", "\n".join(lines) + "\n").resolve())


def join_hub(
    az: Runs, target: Record, topology: Topology, options: Options, subscription: str
) -> None:
    """Peer this project's networks with the hub: the hub's side first, then the use of its gateway."""
    networks = [f"vnet-{target.prefix}{name}" for name in topology.joining_hub]
    where = (
        f"/subscriptions/{subscription}/resourceGroups/{target.group}/providers/Microsoft.Network"
    )
    for network, peering in zip(networks, target.hub_peerings, strict=True):
        az(
            *_peering("create", peering),
            *("--remote-vnet", f"{where}/virtualNetworks/{network}"),
            *("--allow-vnet-access", "--allow-forwarded-traffic"),
            *(("--allow-gateway-transit",) if options.hub_gateway else ()),
        )
        if options.hub_gateway:
            az(
                *(
                    "network",
                    "vnet",
                    "peering",
                    "update",
                    "--name",
                    "to-hub",
                    "--resource-group",
                    target.group,
                ),
                *("--vnet-name", network, "--set", "useRemoteGateways=true"),
            )


def _peering(verb: str, where: str) -> tuple[str, ...]:
    """A command about the peering of this resource id."""
    words = where.split("/")
    named = (
        "--name",
        words[-1],
        "--resource-group",
        words[4],
        "--vnet-name",
        words[8],
        "--subscription",
        words[2],
    )
    return ("network", "vnet", "peering", verb, *named)


def leave_hub(az: Runs, records: list[Record], store: State) -> None:
    """Delete the hub's side of all peerings; the other side is deleted with its network."""
    for record in records:
        for peering in record.hub_peerings:
            find(az, *_peering("delete", peering))
        store.note(record, hub_peerings=[])
