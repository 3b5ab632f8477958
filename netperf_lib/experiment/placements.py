"""What is known of placements, an entry each.

It tells what is created, at which price and with which proof, and the words of a report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

AT_BALANCER, AT_PUBLIC = "its load balancer", "its public address"


@dataclass(frozen=True, slots=True)
class Meter:
    """Meters of Azure's price list that count each GB that is sent."""

    service: str
    name: str
    """Pattern of the meter's name."""
    end: Literal["", "client", "server"] = ""
    """Whose region determines the price, if one does."""
    zoned: bool = False
    """The price is that of the region's billing zone."""
    far: bool = False
    """Counts between regions only."""


@dataclass(frozen=True)
class Placement:
    """A known way from a client to its server."""

    meaning: str = ""
    """In words; empty: a name for own measurements, which no source of hosts creates."""
    _: KW_ONLY
    retired: str = ""
    """Why it cannot be created, and what to use instead."""
    is_place: bool = False
    """Whether it says where the server is; any other is a path."""
    network: str = ""
    """Virtual network of the server, if not the client's."""
    client_network: str = ""
    """Virtual network of the client, behind a NAT gateway, if not the usual one."""
    other_zone: bool = False
    """The server is in another zone than the client."""
    grouped: bool | None = None
    """Whether both ends are in a proximity placement group, or the server must not be; None:
    either."""
    far: Literal["", "always", "possibly"] = ""
    """Whether the server is in another region."""
    peered: bool = False
    """The networks of client and server are peered."""
    gateway: Literal["", "Vpn", "ExpressRoute"] = ""
    """Kind of the gateways at both ends."""
    address: str = ""
    """Where the server is measured, if not at its own address."""
    meters: tuple[Meter, ...] | None = ()
    """What a GB costs; None: unknown."""


_PEERING = tuple(
    Meter("Virtual Network", f"Intra-Region {way}") for way in ("Egress", "Ingress")
)
_FAR = "Inter-Virtual Network Data Transfer Out"
_GLOBAL = tuple(
    Meter("VPN Gateway", _FAR, end, zoned=True) for end in ("client", "server")
)
_INTERNET = Meter(
    "Bandwidth", "Int(er|ra)[ -]Continent Data Transfer Out.*", "client", far=True
)

PLACEMENTS: Mapping[str, Placement] = {
    "ppg": Placement(
        "same zone and proximity placement group",
        is_place=True,
        grouped=True,
    ),
    "same-zone": Placement("same zone, same subnet", is_place=True, grouped=False),
    # traffic between zones is free since 2024, although meters are still listed
    "cross-zone": Placement(
        "another zone, same virtual network",
        is_place=True,
        other_zone=True,
    ),
    "direct": Placement(),
    "same-vnet": Placement(),
    "vnet-peering": Placement(
        "same zone, another virtual network, peered",
        network="peered",
        peered=True,
        meters=_PEERING,
    ),
    "standard-lb": Placement(
        "same zone, behind a standard internal load balancer with HA ports",
        address=AT_BALANCER,
        meters=(Meter("Load Balancer", "Standard Data Processed"),),
    ),
    "cross-region": Placement(
        "another region over global peering",
        is_place=True,
        network="remote",
        far="always",
        peered=True,
        meters=_GLOBAL,
    ),
    "public-ip": Placement(
        "another virtual network or region over public addresses",
        network="public",
        far="possibly",
        address=AT_PUBLIC,
        meters=(_INTERNET,),
    ),
    "nat-gateway": Placement(
        "as public-ip, the client behind a NAT gateway",
        client_network="nat",
        network="public",
        far="possibly",
        address=AT_PUBLIC,
        meters=(_INTERNET, Meter("NAT Gateway", "Standard Data Processed")),
    ),
    "vpn": Placement(
        "another region over two VPN gateways",
        network="vpn",
        far="always",
        gateway="Vpn",
        meters=(Meter("VPN Gateway", _FAR, "client", zoned=True, far=True),),
    ),
    "expressroute": Placement(
        retired="an ExpressRoute circuit belongs to others; list VMs at its ends as an inventory",
        gateway="ExpressRoute",
    ),
    "basic-lb": Placement(
        retired="Azure retired the basic load balancer on 2025-09-30; use standard-lb"
    ),
}
"""By name, the nearest first; any other name is a path of the user's own."""
PLACED = {name: p for name, p in PLACEMENTS.items() if p.meaning}
"""Placements that can be created."""
PLACES = tuple(name for name, p in PLACEMENTS.items() if p.is_place)
"""Placements that are places."""
_ZONE = re.compile(r"(?:az|zone|availability[-_ ]zone)[-_ ]?\w{1,2}", re.IGNORECASE)


def is_place(name: str) -> bool:
    """Return whether a placement says where the server is: a known one, or the name of a zone."""
    return name in PLACES or bool(_ZONE.fullmatch(name))


FAR_PLACES = tuple(name for name in PLACES if PLACEMENTS[name].far)
"""Direct ways to another region, which the other ways there are compared with."""
GATEWAYS = tuple(name for name, p in PLACEMENTS.items() if p.gateway)
"""Placements whose traffic goes through a gateway, unlike that of the direct path that they are
compared with."""
USUAL = (
    "same-zone",
    "same-vnet",
    "direct",
    "ppg",
    "cross-zone",
    "cross-region",
    "vnet-peering",
)
"""Placements that the others are compared with, the likeliest first."""
