"""Options that an experiment declares for its VMs."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from ipaddress import IPv4Address, IPv4Network, ip_network
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
        pattern=r"^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/.+$",
        examples=["/subscriptions/ID/resourceGroups/GROUP/providers/TYPE/NAME"],
    ),
]
GatewaySku = Annotated[
    str,
    Field(
        pattern=r"^(VpnGw[1-5](AZ)?|ErGw[1-3]AZ|Standard|HighPerformance|UltraPerformance)$",
        examples=["VpnGw1AZ", "ErGw1AZ"],
    ),
]

PINS: dict[str, dict[str, str]] = tomllib.loads(
    resources.files(__package__).joinpath("pins.toml").read_text("utf-8")
)
"""Beginning of publisher:offer:sku, in lower case, to package to version with a final ``*``."""
UBUNTU = "Canonical:ubuntu-24_04-lts:server:latest"
WINDOWS = (
    "microsoftwindowsserver:*",
    "microsoftwindowsdesktop:*",
    "*:windows*",
    "microsoftsqlserver:*-ws20*",
)


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class VmOptions(_Declared):
    """Options of one VM; null: as given by its pairs and the common options."""

    region: Region | None = None
    """Region of this VM. Servers of `cross-region` and the other far paths may be in any region, one in each."""
    zone: Zone | None = None
    """Logical zone; an empty text places the VM in no zone."""
    vm_size: Size | None = None
    """VM size."""
    accelerated: bool | None = None
    """Accelerated networking."""
    ppg: bool | None = None
    """Member of the proximity placement group of its region and zone."""
    subnet: ResourceId | None = None
    """Existing subnet for this VM."""
    gateway_sku: GatewaySku | None = None
    """SKU of the gateway of this VM's network, on `vpn` and `expressroute`. A client and a server with the same SKU get
    networks and gateways of their own, so that several SKUs are compared in one experiment."""
    backends: int | None = Field(default=None, ge=1, le=64)
    """Number of VMs behind the load balancer of this server of `standard-lb`; the others have its name with `-2`,
    `-3` and so on. The load balancer chooses by the client's address, since all connections of a test must reach the
    same VM (qperf and iperf3 have a second one for control): a client is always served by the same VM, and several
    clients by several. Each run records which VM answered, as `server_backend`."""


class Options(_Declared):
    """VMs created for the experiment, one resource group per deployment; their placement follows from the pairs."""

    region: Region
    """Home region: clients, and the servers of all near placements."""
    remote_region: Region | None = None
    """Region of the servers of `cross-region`, `public-ip`, `nat-gateway`, `vpn` and `expressroute`, unless
    `vms` names another. Null: `expressroute`, `public-ip` and `nat-gateway` stay inside the home region."""
    zones: tuple[Zone, ...] = ("1", "2")
    """Zones: the first is the home zone; `cross-zone` servers go to the next. Empty: no zones."""
    remote_zones: tuple[Zone, ...] | None = None
    """The same for far regions; null: as `zones`, and none in regions without zones."""
    vm_size: Size
    """Default size of the VMs."""
    image: Annotated[
        str, Field(pattern=r"^[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+$", examples=[UBUNTU])
    ] = UBUNTU
    """Linux marketplace image as publisher:offer:sku:version."""
    plan: bool | None = None
    """Whether the image is sold with a marketplace plan (its terms must be accepted once in the subscription); null:
    as Azure describes the image."""
    packages: Literal["apt", "dnf"] | None = None
    """Package manager of the image; null: by its publisher."""
    versions: dict[str, str] = {}
    """Version to install of each package, exact or with a final `*`; `*` alone: the distribution's version. Tools that
    are not named are pinned to the version of the image's release, if it is known (Ubuntu 22.04 and 24.04, Debian 12
    and 13, Enterprise Linux 9). The installed versions are recorded in full; a version that is not available is
    flagged, and replaced by the distribution's own."""
    disk: Literal["Standard_LRS", "StandardSSD_LRS", "Premium_LRS"] = "StandardSSD_LRS"
    """Type of the system disks."""
    disk_encryption_set: ResourceId | None = None
    """Existing disk encryption set (customer-managed key) of the system disks."""
    encryption_at_host: bool = False
    """Encrypt temporary disks and caches on the host; the feature must be registered in the subscription."""
    identity: ResourceId | None = None
    """Existing user-assigned managed identity of the VMs, for example to reach a storage account."""
    security_type: Literal["TrustedLaunch", "Standard"] = "TrustedLaunch"
    """`Standard` omits the security type: older sizes and images of generation 1 do not support trusted launch."""
    accelerated: bool = True
    """Accelerated networking of VMs whose pairs do not specify it."""
    vms: dict[str, VmOptions] = {}
    """Options of single VMs, by host name."""

    subscription: str | None = None
    """Subscription, by name or id; null: the one that `az` has selected."""
    resource_group: (
        Annotated[str, Field(pattern=r"^[\w.()-]{1,89}[\w()-]$", examples=["my-group"])] | None
    ) = None
    """Existing resource group to work in, with no rights beyond it; null: a new one for each deployment. Only resources
    that the experiment created are deleted from it."""
    user: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$", examples=["azureuser"])] = (
        "azureuser"
    )
    """Administrator account of the VMs."""
    management: Literal["public", "private"] = "public"
    """How SSH reaches the VMs. `private` gives them no public address, and needs a way in: `jump_host`, `bastion`,
    `ssh_config`, or a `hub` or `subnet` that is reachable from here. The VMs of new networks then reach the package
    archives through a NAT gateway."""
    jump_host: (
        Annotated[
            str, Field(pattern=r"^([\w.-]+@)?[\w.-]+(:\d+)?$", examples=["me@jump.example.com:22"])
        ]
        | None
    ) = None
    """SSH jump host as user@host:port; its keys come from your SSH agent and configuration."""
    bastion: ResourceId | None = None
    """Existing Azure Bastion (Standard, native client support on) to tunnel SSH through."""
    ssh_config: str | None = None
    """OpenSSH configuration file for reaching the private addresses."""
    allow_from: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """IPv4 addresses or prefixes that may reach port 22; null: this machine's own public address, discovered."""
    address_space: IPv4Network = IPv4Network("10.77.0.0/16")
    """Private address range for the virtual networks."""
    subnet: ResourceId | None = None
    """Existing subnet for the VMs of the home network, instead of a new virtual network. With `management: private` it
    needs its own way out (a NAT gateway, a firewall), through which the measuring tools are installed."""
    remote_subnet: ResourceId | None = None
    """Existing subnet for the servers of `cross-region`; the two networks must be connected already."""
    hub: ResourceId | None = None
    """Existing virtual network that the new networks are peered with, in both directions."""
    hub_gateway: bool = False
    """Use the gateway of the hub, so that on-premises networks reach the VMs."""
    next_hop: IPv4Address | None = None
    """Address of an existing network appliance or firewall in the hub: the next hop of placement `nva`."""
    way_out: Literal["nat-gateway", "next-hop", "none"] = "nat-gateway"
    """How private VMs of new networks reach the package archives: a NAT gateway of their own (which has a public
    address), the appliance at `next_hop`, or not at all (an image that includes the measuring tools)."""
    vpn_sku: Annotated[str, Field(pattern=r"^VpnGw[1-5](AZ)?$", examples=["VpnGw1AZ"])] = "VpnGw1AZ"
    """VpnGw1AZ to VpnGw5AZ, also in regions without zones."""
    expressroute_circuit: ResourceId | None = None
    """Existing circuit that the gateways of `expressroute` are connected to."""
    expressroute_sku: Literal[
        "ErGw1AZ", "ErGw2AZ", "ErGw3AZ", "Standard", "HighPerformance", "UltraPerformance"
    ] = "ErGw1AZ"
    """SKU of the ExpressRoute gateways."""

    expires_h: float = Field(default=12, gt=0, le=24 * 14)
    """Hours after which a schedule in the group stops the VMs, and anything left counts as expired
    (`npl down --all --expired`)."""
    shutdown: bool = True
    """Stop (deallocate) the VMs when they expire, by an Azure schedule, which reaches at most 24 hours ahead."""
    deadline_min: float | None = Field(default=None, gt=0)
    """Longest wait for the VMs; null: 30 minutes, or 90 with gateways."""
    alternative_zones: bool = False
    """After a capacity failure, try again with the zones in another order."""
    alternative_sizes: tuple[Size, ...] = ()
    """After a capacity failure, try these sizes, in this order."""
    tags: dict[str, str] = {}
    """Tags for every resource, in addition to the project's own."""
    bandwidth_mbps: dict[Size, Annotated[float, Field(gt=0)]] = {}
    """Advertised bandwidth by VM size, which Azure's list of sizes lacks; unproven if not given."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Prices of items for which the public price list does not apply: an hour of a VM size or gateway SKU, or an item
    by the name that `npl doctor --azure` prints, for example `transfer vnet-peering` for a GB."""
    unpriced: tuple[str, ...] = ()
    """Items, by the same names, whose price may be unknown: the budget is then checked without them."""
    prices_url: str = "https://prices.azure.com/api/retail/prices"
    """URL of the retail price list."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["EUR"])] = "USD"
    """Currency of all prices and of the budget."""
    address_url: str = "https://api.ipify.org"
    """URL that returns the caller's public address as text."""

    @field_validator("image")
    @classmethod
    def _linux(cls, image: str) -> str:
        if any(fnmatchcase(image.lower(), pattern) for pattern in WINDOWS):
            raise ValueError(
                f"{image} is a Windows image; the measuring tools run on Linux: choose a Linux image"
            )
        return image

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
                    f"{text!r} would open port 22 to {network.num_addresses} addresses; give only your own"
                )
        return ranges

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        ways = [name for name in ("jump_host", "bastion", "ssh_config") if getattr(self, name)]
        reachable = ways or self.subnet or self.hub or any(vm.subnet for vm in self.vms.values())
        space, sku = self.address_space, self.vpn_sku
        rules = {
            f"address_space {space} must be private, and of at least /20": space.prefixlen > 20
            or not space.is_private,
            # neither validate nor what-if reports it
            f"Azure creates no new gateways of SKU {sku} since November 2025; use {sku}AZ": not sku.endswith(
                "AZ"
            ),
            "zones: each may be given once": len(set(self.zones)) != len(self.zones),
            f"remote_region is {self.region}, the region itself; remove it": self.remote_region
            == self.region,
            f"expires_h {self.expires_h:g}: a shutdown schedule reaches 24 hours ahead at most; set shutdown: false, "
            "and run `npl down` yourself": self.shutdown and self.expires_h > 24,
            "way_out: next-hop needs next_hop, the address of the appliance": self.way_out
            == "next-hop"
            and not self.next_hop,
            "next_hop and hub_gateway belong to a hub; give its resource id": (
                self.next_hop or self.hub_gateway
            )
            and not self.hub,
            f"{' and '.join(ways)} are different ways to the VMs; give one": len(ways) > 1,
            f"{'/'.join(ways)} leads to private addresses; set management: private": ways
            and self.management == "public",
            "management: private creates networks that cannot be reached from outside; give jump_host, bastion, "
            "ssh_config, a hub to peer with, or an existing subnet": self.management == "private"
            and not reachable,
        }
        for rule, broken in rules.items():
            if broken:
                raise ValueError(rule)
        return self

    @property
    def package_manager(self) -> str:
        """`apt` or `dnf`."""
        publisher = self.image.split(":", 1)[0].lower()
        return self.packages or ("apt" if publisher in ("canonical", "debian") else "dnf")

    def pinned(self) -> dict[str, str]:
        """Package to the version to install, exact or with a final ``*``.

        The experiment's versions take precedence over those known for the image's release; ``*`` alone leaves the
        choice to the distribution. Empty for unknown releases.
        """
        image = self.image.lower()
        pinned = next(
            (pins for pattern, pins in PINS.items() if fnmatchcase(image, f"{pattern}*")), {}
        )
        return {p: v for p, v in {**pinned, **self.versions}.items() if v != "*"}
