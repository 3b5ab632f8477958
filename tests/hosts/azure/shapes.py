"""What every recorded resource of a type has: the emulated cloud fills it in, and a test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

RECORDED = {
    # type of resource -> recordings that show one or a list of them
    "microsoft.compute/virtualmachines": (
        "compute/vm-list", "compute/vm-ppg-2024", "compute/vm-two-nics", "compute/vm-image-community",
        "compute/vm-image-shared", "compute/vm-windows", "compute/vm-failed", "compute/vm-instance-stopped",
        "compute/vm-instance-deallocated",
    ),
    "microsoft.compute/proximityplacementgroups": ("compute/ppg-colocation", "compute/ppg-intent-zone"),
    "microsoft.compute/disks": ("compute/disk-zone",),
    "microsoft.network/networkinterfaces": (
        "network/nic-list-subscription", "network/nic-accelerated", "network/nic-many-ipconfigs", "network/nic-ipv6",
    ),
    "microsoft.network/publicipaddresses": ("network/pip-standard-zones", "network/pip-dynamic-unassigned"),
    "microsoft.network/virtualnetworks": ("network/vnet-list-rg",),
    "microsoft.network/virtualnetworks/virtualnetworkpeerings": (
        "network/peering-initiated", "network/peering-localnotinsync", "network/peering-list",
    ),
    "microsoft.network/natgateways": ("network/natgw",),
    "microsoft.network/loadbalancers": ("network/lb-standard",),
    "microsoft.network/virtualnetworkgateways": ("network/vnet-gateway-vpn", "network/vnet-gateway-updating"),
    "microsoft.network/connections": ("network/connection-2022", "network/connection-connected"),
    "microsoft.network/networksecuritygroups/securityrules": ("network/nsg-rule",),
}  # fmt: skip
ASKED_FOR = ("zones", "tags", "sharedKey", "publicIPPrefix", "id", "name")
"""Fields that a resource has if it was asked for with them, or that are its own."""


@cache
def shape(kind: str) -> Any:
    """The fields that all recordings of a type of resource have, with a recorded value."""
    from .recordings import recordings

    bodies = [recordings()[name].body for name in RECORDED.get(kind, ())]
    return _common([r for b in bodies for r in b.get("value", [b])]) if bodies else {}


def _common(nodes: list[Any]) -> Any:
    if all(isinstance(n, dict) for n in nodes):
        return {k: _common([n[k] for n in nodes]) for k in nodes[0] if all(k in n for n in nodes)}
    if all(isinstance(n, list) for n in nodes):
        entries = [e for n in nodes for e in n if isinstance(e, dict)]
        return [_common(entries)] if entries else nodes[0]
    return nodes[0]


def fill(resource: Any, wanted: Any) -> None:
    """Add what `wanted` has and a resource lacks."""
    if isinstance(resource, dict) and isinstance(wanted, dict):
        for key, value in wanted.items():
            if key in resource:
                fill(resource[key], value)
            elif key not in ASKED_FOR:
                resource[key] = deepcopy(value)
    elif isinstance(resource, list) and isinstance(wanted, list):
        for entry in resource:
            fill(entry, wanted[0] if wanted else {})


def fields(node: Any, at: str = "") -> Iterator[str]:
    """Path of every field, in lower case; what stands under tags is the user's own."""
    for entry in node if isinstance(node, list) else ():
        yield from fields(entry, at)
    for key, value in node.items() if isinstance(node, dict) and not at.endswith(".tags") else ():
        path = f"{at}.{key}".lower()
        yield path
        yield from fields(value, path)
