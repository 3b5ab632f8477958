"""Options that an experiment declares for its VMs."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Zone = Annotated[
    str, Field(pattern=r"^[123]?$", coerce_numbers_to_str=True, examples=["1", "2", "3"])
]
Region = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]+$", examples=["westeurope"])]
Size = Annotated[
    str, Field(pattern=r"^(Standard|Basic)_[A-Za-z0-9_-]+$", examples=["Standard_D8s_v5"])
]
ResourceId = Annotated[
    str,
    Field(
        pattern=r"^/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/\S+$",
        examples=["/subscriptions/ID/resourceGroups/GROUP/providers/TYPE/NAME"],
    ),
]
Image = Annotated[
    str,
    Field(
        pattern=r"^\w[^:\s]*:[^:\s]+:[^:\s]+:[^:\s]+$",
        examples=["Canonical:ubuntu-24_04-lts:server:latest"],
    ),
]
Tag = Annotated[str, Field(pattern=r"^[^<>%&\\?/\s=@-][^<>%&\\?/\s=]*$", max_length=512)]
WINDOWS = (
    "microsoftwindowsserver:*",
    "microsoftwindowsdesktop:*",
    "*:windows*",
    "microsoftsqlserver:*-ws20*",
)
SCHEDULE_H = 24
"""A schedule that stops VMs reaches so far ahead."""


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class VmOptions(_Declared):
    """Options of one VM; null: as given by its pairs and the common options."""

    region: Region | None = None
    """Region of this VM. Servers of `cross-region` and the other far paths may be in any region,
    one in each."""
    zone: Zone | None = None
    """Logical zone; an empty text places the VM in no zone."""
    vm_size: Size | None = None
    """VM size."""


class Options(_Declared):
    """VMs created for the experiment; their placement follows from the pairs.

    Each deployment has a resource group of its own.
    """

    region: Region
    """Home region: clients, and the servers of all near placements."""
    remote_region: Region | None = None
    """Region of the servers of `cross-region`, `public-ip`, `nat-gateway`, `vpn` and
    `expressroute`, unless `vms` names another. Null: `expressroute`, `public-ip` and
    `nat-gateway` stay inside the home region."""
    zones: tuple[Zone, ...] = ("1", "2")
    """Zones: the first is the home zone; `cross-zone` servers go to the next. Empty: no zones."""
    vm_size: Size
    """Default size of the VMs."""
    image: Image = "Canonical:ubuntu-24_04-lts:server:latest"
    """Linux marketplace image as publisher:offer:sku:version."""
    security_type: Literal["TrustedLaunch", "Standard"] = "TrustedLaunch"
    """`Standard` omits the security type: older sizes and images of generation 1 do not support
    trusted launch."""
    vms: dict[str, VmOptions] = {}
    """Options of single VMs, by host name."""
    subscription: Annotated[str, Field(pattern=r"^\w[^@]*$")] | None = None
    """Subscription, by name or id; null: the one that `az` has selected."""
    allow_from: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """IPv4 addresses or prefixes that may reach port 22; null: this machine's own public address,
    discovered."""
    address_space: IPv4Network = IPv4Network("10.77.0.0/16")
    """Private address range for the virtual networks."""
    subnet: ResourceId | None = None
    """Existing subnet for the VMs, which then have no public addresses; needs `ssh_config`. It must
    have its own way out, through which the measuring tools are installed."""
    ssh_config: str | None = None
    """OpenSSH configuration file for reaching the private addresses in `subnet`."""
    vpn_sku: Annotated[str, Field(pattern=r"^VpnGw[1-5](AZ)?$", examples=["VpnGw1AZ"])] = "VpnGw1AZ"
    """VpnGw1AZ to VpnGw5AZ, also in regions without zones."""
    expressroute_circuit: ResourceId | None = None
    """Existing circuit that the gateways of `expressroute` are connected to."""
    expressroute_sku: Annotated[str, Field(examples=["ErGw1AZ"])] = "ErGw1AZ"
    """ErGw1AZ, ErGw2AZ or ErGw3AZ."""
    expires_h: float = Field(default=12, gt=0, le=24 * 14)
    """Hours after which the deployment counts as expired (`npl down --all --expired`). Up to 24, a
    schedule then stops the VMs; gateways, addresses, load balancers and disks go on costing."""
    alternative_zones: bool = False
    """After a capacity failure, try again with the zones in another order."""
    alternative_sizes: tuple[Size, ...] = ()
    """After a capacity failure, try these sizes, in this order."""
    tags: dict[Tag, Annotated[str, Field(max_length=256)]] = {}
    """Tags for every resource, in addition to the project's own."""
    bandwidth_mbps: dict[Size, Annotated[float, Field(gt=0)]] = {}
    """Advertised bandwidth by VM size, which Azure's list of sizes lacks; unproven if not given."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Prices of items for which the public price list does not apply: an hour of a VM size or
    gateway SKU, or an item by the name that `npl doctor --azure` prints, for example
    `transfer vnet-peering` for a GB."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["EUR"])] = "USD"
    """Currency of all prices and of the budget."""

    @field_validator("image")
    @classmethod
    def _linux(cls, image: str) -> str:
        if any(fnmatchcase(image.lower(), pattern) for pattern in WINDOWS):
            raise ValueError(
                f"{image} is a Windows image; the tools run on Linux: choose a Linux image"
            )
        return image

    @field_validator("vpn_sku", "expressroute_sku")
    @classmethod
    def _created(cls, sku: str) -> str:
        # neither validate nor what-if reports it
        if not re.fullmatch("VpnGw[1-5]AZ|ErGw[1-3]AZ", sku):
            instead = "VpnGw1AZ to VpnGw5AZ" if sku.startswith("Vpn") else "ErGw1AZ to ErGw3AZ"
            raise ValueError(f"Azure creates no new gateways of SKU {sku}; use one of {instead}")
        return sku

    @field_validator("allow_from")
    @classmethod
    def _narrow(cls, ranges: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in ranges or ():
            try:
                network = ip_network(text, strict=False)
            except ValueError:
                raise ValueError(
                    f"{text!r} is not an address or prefix (write 203.0.113.7 or 203.0.113.0/28)"
                ) from None
            if network.version != 4:
                raise ValueError(f"{text!r}: the VMs have IPv4 addresses only; give IPv4 addresses")
            if network.num_addresses > 2**16:
                raise ValueError(
                    f"{text!r} would open port 22 to {network.num_addresses} addresses; "
                    "give only your own"
                )
        return ranges

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        space = self.address_space
        rules = {
            f"address_space {space} must be private, and of at least /20": space.prefixlen > 20
            or not space.is_private,
            "zones: each may be given once": len(set(self.zones)) != len(self.zones),
            f"remote_region is {self.region}, the region itself; remove it": self.remote_region
            == self.region,
            "subnet and ssh_config belong together: VMs in an existing subnet have no public "
            "addresses, and are reached by ssh_config; give both": bool(self.subnet)
            != bool(self.ssh_config),
        }
        for rule, broken in rules.items():
            if broken:
                raise ValueError(rule)
        return self

    @property
    def public(self) -> bool:
        """Whether the VMs have public addresses."""
        return not self.subnet

    @property
    def stopped(self) -> bool:
        """Whether a schedule stops the VMs when they expire."""
        return self.expires_h <= SCHEDULE_H
