"""Options that an experiment declares for its VMs."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

SCHEDULE_H = 24
"""A schedule that stops VMs reaches so far ahead."""


def _prefix(text: str) -> str:
    try:
        network = IPv4Network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an IPv4 address or prefix (write 203.0.113.7 or 203.0.113.0/28)"
        ) from None
    if network.prefixlen < 16:
        raise ValueError(
            f"{text!r} would open port 22 to too many; give only your own addresses"
        )
    return str(network)


Zone = Annotated[str, Field(pattern=r"^[123]?$", coerce_numbers_to_str=True)]
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
        pattern=r"^(?i:canonical|debian)(:[^:\s]+){3}$",
        examples=["Canonical:ubuntu-24_04-lts:server:latest"],
    ),
]
Tag = Annotated[str, Field(pattern=r"^[^<>%&\\?/\s=@-][^<>%&\\?/\s=]*$", max_length=512)]


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
    """Region of the servers of `cross-region`, `public-ip`, `nat-gateway` and `vpn`, unless
    `vms` names another. Null: `public-ip` and `nat-gateway` stay inside the home region."""
    zones: tuple[Zone, ...] = ("1", "2")
    """Zones: the first is the home zone; `cross-zone` servers go to the next. Empty: no zones."""
    vm_size: Size
    """Default size of the VMs."""
    image: Image = "Canonical:ubuntu-24_04-lts:server:latest"
    """Ubuntu or Debian image of the marketplace as publisher:offer:sku:version; packages are
    installed by apt."""
    security_type: Literal["TrustedLaunch", "Standard"] = "TrustedLaunch"
    """`Standard` omits the security type: older sizes and images of generation 1 do not support
    trusted launch."""
    vms: dict[str, VmOptions] = {}
    """Options of single VMs, by host name."""
    subscription: Annotated[str, Field(pattern=r"^\w[^@]*$")] | None = None
    """Subscription, by name or id; null: the one that `az` has selected."""
    allow_from: tuple[Annotated[str, AfterValidator(_prefix)], ...] | None = None
    """IPv4 addresses or prefixes that may reach port 22; null: this machine's own public address,
    discovered."""
    address_space: IPv4Network = IPv4Network("10.77.0.0/16")
    """Private address range for the virtual networks, a /23 for each."""
    subnet: ResourceId | None = None
    """Existing subnet for the VMs, which then have no public addresses; needs `ssh_config`. It must
    have its own way out, through which the measuring tools are installed."""
    ssh_config: str | None = None
    """OpenSSH configuration file for reaching the private addresses in `subnet`."""
    vpn_sku: Literal["VpnGw1AZ", "VpnGw2AZ", "VpnGw3AZ", "VpnGw4AZ", "VpnGw5AZ"] = (
        "VpnGw1AZ"
    )
    """SKU of VPN gateways, also in regions without zones; Azure creates no others any more."""
    expires_h: float = Field(default=12, gt=0, le=24 * 14)
    """Hours after which the deployment counts as expired (`npl down --all --expired`). Up to 24, a
    schedule then stops the VMs; gateways, addresses, load balancers and disks go on costing."""
    alternative_zones: bool = False
    """After a capacity failure, try again with the zones in another order."""
    tags: dict[Tag, Annotated[str, Field(max_length=256)]] = {}
    """Tags for every resource, in addition to the project's own."""
    bandwidth_mbps: dict[Size, Annotated[float, Field(gt=0)]] = {}
    """Advertised bandwidth by VM size, which Azure's list of sizes lacks; unproven if not given."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Prices in USD of items for which the public price list does not apply: an hour of a VM
    size or gateway SKU, `public address`, `nat gateway`, `load balancer`, or a GB by path, for
    example `transfer vnet-peering`."""

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        if self.remote_region == self.region:
            raise ValueError(
                f"remote_region is {self.region}, the region itself; remove it"
            )
        if bool(self.subnet) != bool(self.ssh_config):
            raise ValueError(
                "subnet and ssh_config belong together: VMs in an existing subnet have no public "
                "addresses, and are reached by ssh_config; give both"
            )
        return self

    @property
    def callers(self) -> tuple[str, ...]:
        """What may reach port 22, as far as it is declared."""
        if self.allow_from is not None:
            return self.allow_from
        return ("VirtualNetwork",) if self.subnet else ()

    @property
    def stopped(self) -> bool:
        """Whether a schedule stops the VMs when they expire."""
        return self.expires_h <= SCHEDULE_H
