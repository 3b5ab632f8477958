"""VMs that stand in a resource group already, as the cloud describes them."""

from __future__ import annotations

from typing import Any

from ...errors import AzureError
from ...experiment.model import Proof
from . import _az, _proof

__all__ = ["existing", "proofs_of"]


def existing(group: str, *, tag: str | None = None, subscription: str | None = None) -> list[dict[str, Any]]:
    """Describe the VMs that stand in a resource group; nothing is made or changed.

    Parameters
    ----------
    group : str
        Resource group.
    tag : str, optional
        Only VMs with this tag, as ``name`` or ``name=value``.
    subscription : str, optional
        Name or id; None: the selected one.

    Returns
    -------
    list of dict
        `placed` (see `_proof.Placed`), `public` address or None, `colocation`, `zone_physical`.
    """
    az = _az.Az(subscription)
    observed = _proof.observe(az, group)
    name, _, value = (tag or "").partition("=")
    chosen = [
        vm["name"]
        for vm in az("vm", "list", "--resource-group", group) or ()
        if not tag or (name in (vm.get("tags") or {}) and (not value or vm["tags"][name] == value))
    ]
    if not chosen:
        raise AzureError(
            f"resource group {group} holds no VM{f' with tag {tag}' if tag else ''} (az vm list -g {group} -o table)"
        )
    nics = {n["id"].lower(): n for n in az("network", "nic", "list", "--resource-group", group) or ()}
    addresses = {
        a["id"].lower(): a.get("ipAddress") for a in az("network", "public-ip", "list", "--resource-group", group) or ()
    }
    public = {}
    for nic in nics.values():
        owner = ((nic.get("virtualMachine") or {}).get("id") or "").rsplit("/", 1)[-1]
        for entry in nic.get("ipConfigurations") or ():
            at = ((entry.get("publicIPAddress") or {}).get("id") or "").lower()
            if addresses.get(at):
                public[owner] = addresses[at]
    zones = {
        (place["name"], m["logicalZone"]): m["physicalZone"]
        for place in az("account", "list-locations")
        for m in place.get("availabilityZoneMappings") or ()
    }
    return [
        {
            "placed": observed.vms[n],
            "public": public.get(n),
            "colocation": observed.colocation.get(observed.vms[n].ppg or ""),
            "zone_physical": zones.get((observed.vms[n].region, observed.vms[n].zone or "")),
        }
        for n in chosen
    ]


def proofs_of(entry: dict[str, Any]) -> tuple[Proof, ...]:
    """Proofs from what `existing` says of one VM: facts, since nothing was asked for."""
    placed: _proof.Placed = entry["placed"]
    observed = _proof.Observed(
        vms={placed.name: placed}, colocation={placed.ppg or "": entry["colocation"] or "unknown"}
    )
    return tuple(_proof.cloud_proofs(None, placed, observed, entry["zone_physical"], None))
