"""What an experiment declares about its VMs."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["Options", "VmOptions"]

Zone = Annotated[str, Field(pattern=r"^[123]$")]
Region = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]+$")]
Size = Annotated[str, Field(pattern=r"^(Standard|Basic)_[A-Za-z0-9_-]+$")]
ResourceId = Annotated[str, Field(pattern=r"^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/.+$")]


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class VmOptions(_Declared):
    """What one VM has of its own; null: as its pairs and the options of all say."""

    region: Region | None = None
    zone: Zone | None = None
    vm_size: Size | None = None
    accelerated: bool | None = None
    ppg: bool | None = None
    """Member of the proximity placement group of its region and zone."""


class Options(_Declared):
    """VMs made for the experiment, one resource group a deployment; where each goes follows from its pairs."""

    region: Region
    remote_region: Region | None = None
    """Where the servers of `cross-region`, `public-ip`, `vpn` and `expressroute` go."""
    zones: tuple[Zone, ...] = ("1", "2")
    """The first is the home of all that need one zone; `cross-zone` servers go to the next. Empty: no zones."""
    vm_size: Size
    image: Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+$")] = (
        "Canonical:ubuntu-24_04-lts:server:latest"
    )
    """Marketplace image as publisher:offer:sku:version."""
    packages: Literal["apt", "dnf"] | None = None
    """Package manager of the image; null: by its publisher."""
    versions: dict[str, str] = {}
    """Package to the version to install, exact or with a final `*`; `*` alone: as the distribution has it. Tools that
    are not named are pinned to the version of the image's release, where it is a known one (Ubuntu 22.04 and 24.04,
    Debian 12 and 13, Enterprise Linux 9). What is installed is recorded in full, so that it can be asked for again; a
    version that is not to be had is flagged, and the distribution's own is taken."""
    disk: Literal["Standard_LRS", "StandardSSD_LRS", "Premium_LRS"] = "StandardSSD_LRS"
    security_type: Literal["TrustedLaunch", "Standard"] = "TrustedLaunch"
    accelerated: bool = True
    """Accelerated networking of VMs whose pairs do not say."""
    vms: dict[str, VmOptions] = {}
    """Host name to what that VM has of its own."""

    subscription: str | None = None
    """Name or id; null: the one that `az` has selected."""
    user: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "azureuser"
    management: Literal["public", "private"] = "public"
    """How SSH reaches the VMs. `private` gives them no public address: for use from inside the network. They reach the
    package archives through a NAT gateway then."""
    allow_from: tuple[str, ...] | None = None
    """Addresses or prefixes that may reach port 22; null: this machine's own public address, discovered."""
    address_space: str = "10.77.0.0/16"
    """Private addresses to take the virtual networks from."""
    subnet: ResourceId | None = None
    """Existing subnet for the VMs of the home network, instead of a new virtual network. With `management: private` it
    has to have a way out of its own (a NAT gateway, a firewall): the measuring tools are installed through it."""
    remote_subnet: ResourceId | None = None
    """Existing subnet for the servers of `cross-region`; the two networks must be connected already."""
    vpn_sku: Annotated[str, Field(pattern=r"^VpnGw[1-5](AZ)?$")] = "VpnGw1AZ"
    """VpnGw1AZ to VpnGw5AZ, also in regions without zones."""
    expressroute_circuit: ResourceId | None = None
    """Existing circuit that both gateways of `expressroute` are connected to."""
    expressroute_sku: Literal["ErGw1AZ", "ErGw2AZ", "ErGw3AZ", "Standard", "HighPerformance", "UltraPerformance"] = (
        "ErGw1AZ"
    )

    expires_h: float = Field(default=12, gt=0, le=24 * 14)
    """Hours after which what is left counts as forgotten (`npl down --all --expired`)."""
    deadline_min: float | None = Field(default=None, gt=0)
    """Longest wait for the VMs; null: 30 minutes, or 90 with gateways."""
    alternative_zones: bool = False
    """After a capacity failure try again with the zones in another order."""
    alternative_sizes: tuple[Size, ...] = ()
    """After a capacity failure try these sizes, in this order."""
    tags: dict[str, str] = {}
    bandwidth_mbps: dict[Size, float] = {}
    """VM size to its advertised bandwidth: Azure's list of sizes does not tell it; unproven where it is not given."""
    prices: dict[str, float] = {}
    """Price an hour of a VM size or gateway SKU, where the public price list does not apply."""
    prices_url: str = "https://prices.azure.com/api/retail/prices"
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    address_url: str = "https://api.ipify.org"
    """Answers with the caller's public address as text."""

    @field_validator("allow_from")
    @classmethod
    def _narrow(cls, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in given or ():
            try:
                network = ipaddress.ip_network(text, strict=False)
            except ValueError:
                raise ValueError(f"{text!r} is no address or prefix (write 203.0.113.7 or 203.0.113.0/28)") from None
            if network.num_addresses > 2**16:
                raise ValueError(f"{text!r} would open port 22 to {network.num_addresses} addresses; give your own")
        return given

    @field_validator("address_space")
    @classmethod
    def _wide(cls, text: str) -> str:
        network = ipaddress.ip_network(text)
        if network.version != 4 or network.prefixlen > 20 or not network.is_private:
            raise ValueError(f"{text!r} must be private IPv4 of at least /20")
        return text

    @field_validator("vpn_sku")
    @classmethod
    def _current(cls, sku: str) -> str:
        if not sku.endswith("AZ"):  # neither validate nor what-if would tell
            raise ValueError(f"Azure makes no new gateways of SKU {sku} since November 2025; use {sku}AZ")
        return sku

    @field_validator("zones")
    @classmethod
    def _distinct(cls, zones: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(zones)) != len(zones):
            raise ValueError("a zone stands twice")
        return zones

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        if self.remote_region == self.region:
            raise ValueError(f"remote_region is {self.region}, the region itself")
        return self

    @property
    def package_manager(self) -> str:
        """`apt` or `dnf`."""
        publisher = self.image.split(":", 1)[0].lower()
        known = {"canonical": "apt", "debian": "apt"}
        return self.packages or known.get(publisher, "dnf")
