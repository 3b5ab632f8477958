"""Cost of deployments, item by item, from the public price list; unknown prices stay unknown."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import math
import re
import ssl
import tomllib
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ...experiment.placements import PLACED
from .options import Options
from .topology import Topology

PRICES_URL = "https://prices.azure.com/api/retail/prices"
ADDRESS_URL = "https://api.ipify.org"
"""It returns the caller's public address as text."""
CURRENCY = "USD"
DISK = "disk StandardSSD_LRS"
Way = tuple[str, str, str]
"""Path, and the regions of the client and of the server."""
PLACE_S = {"vm": 15 * 60, "gateway": 60 * 60}
"""Time for creating and removing, which is also paid for."""
MONTH_H = 730
_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("prices.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class Item:
    """An item that costs money."""

    name: str
    """Name in `hosts.options.prices`, with the region of a resource."""
    quantity: float
    """Number of units, or the most GB."""
    price: float | None
    """Price of one unit for an hour, or of a GB; None: unknown."""
    kind: str
    """As in `prices.toml`, or `transfer`."""

    def cost(self, hours: float, share: float = 1) -> float:
        """Return the cost of so many hours, or of this share of the traffic, as far as known."""
        return (
            self.quantity
            * (self.price or 0)
            * (share if self.kind == "transfer" else hours)
        )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate."""

    hours: float
    """Hours for which the machines are expected to run, all deployments together."""
    items: tuple[Item, ...] = ()
    date: str = ""
    """When the price list was asked."""
    reached: bool = True
    """The price list answered."""

    @property
    def unpriced(self) -> tuple[Item, ...]:
        """Items without a price."""
        return tuple(item for item in self.items if item.price is None)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the items without a price."""
        return tuple(item.name for item in self.unpriced)

    @property
    def amount(self) -> float | None:
        """The most that all items cost; None if a price is unknown."""
        return None if self.unknown else self.spent(self.hours, 1)

    @property
    def source(self) -> str:
        """Where the prices come from."""
        if not self.reached:
            return f"the price list could not be reached ({PRICES_URL})"
        return f"list prices of {self.date}, and those of hosts.options.prices"

    def spent(self, hours: float, share: float) -> float:
        """Return the cost after so many hours, with this share of the traffic, as far as known."""
        return math.fsum(item.cost(hours, share) for item in self.items)

    @property
    def idle_h(self) -> float:
        """Cost of an hour of what goes on costing when the VMs are stopped, as far as known."""
        return sum(item.cost(1, 0) for item in self.items if item.kind != "vm")

    @property
    def running_h(self) -> float:
        """Cost of an hour of all, as far as known."""
        return self.spent(1, 0)

    def parts(self) -> tuple[str, ...]:
        """Return what each part costs, by hours or by traffic; none if a price is unknown."""
        if self.unknown:
            return ()
        lines = []
        for item in self.items:
            unit = "GB" if item.kind == "transfer" else "×"
            amount = f"{item.cost(self.hours):.2f} {CURRENCY}"
            if item.price:
                lines.append(f"{item.quantity:,.0f} {unit} {item.name}: {amount}")
        return tuple(lines)

    def __str__(self) -> str:
        if self.amount is not None:
            return f"at most {self.amount:.2f} {CURRENCY} for {self.hours:.1f} h"
        why = f"no price for {', '.join(self.unknown)}"
        if not self.reached:
            why = "the price list could not be reached"
        return f"unknown for {self.hours:.1f} h ({why}; give hosts.options.prices)"


def cost(
    topology: Topology,
    options: Options,
    *,
    measuring_s: float,
    deployments: int,
    traffic: Mapping[tuple[str, str], float],
) -> Cost:
    """Estimate what all deployments cost: machines, disks, addresses, gateways, and data transfer.

    Time and `traffic` (see `Workload`) are of all deployments together. Declared prices override
    the list.
    """
    prices = _Prices(options.prices)
    items = []
    for (what, region, kind), n in sorted(Counter(_paid(topology, options)).items()):
        price = prices.hour(what, region, kind)
        items.append(Item(f"{what} in {region}", n, price, kind))
    most: Counter[Way] = Counter()
    for (client, server), sent in traffic.items():
        regions = topology.vm(client).region, topology.vm(server).region
        most[topology.paths[client, server], *regions] += round(sent)
    for way, sendable in sorted((+most).items()):
        price, name = prices.transfer(*way), f"transfer {way[0]}"
        lost = [region for region in way[1:] if zone_of(region) is None]
        if price is None and lost:
            name += f" (billing zone of {lost[0]} not known)"
        items.append(Item(name, sendable / 1e9, price, "transfer"))
    place_s = PLACE_S["gateway" if topology.gateways else "vm"]
    hours = (measuring_s + deployments * place_s) / 3600
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return Cost(hours=hours, items=tuple(items), date=today, reached=prices.reached)


def _paid(topology: Topology, options: Options) -> Iterator[tuple[str, str, str]]:
    """What is paid by the hour: name, region and kind."""
    for vm in topology.vms:
        yield vm.vm_size, vm.region, "vm"
        yield DISK, vm.region, "disk"
    for vm in topology.balanced:
        yield "load balancer", vm.region, "balancer"
    for gateway in topology.gateways:
        yield gateway["sku"], gateway["region"], gateway["kind"]
    for region in topology.public_addresses(not options.subnet):
        yield "public address", region, "address"
    for network in topology.networks:
        if network["nat"]:
            yield "nat gateway", network["region"], "nat"


class _UnreachableError(Exception):
    """The price list did not answer."""


class _Prices:
    """Declared prices, then those of the list, until it does not answer."""

    def __init__(self, declared: Mapping[str, float]) -> None:
        self.declared, self.reached = declared, True

    def hour(self, what: str, region: str, kind: str) -> float | None:
        """Return the price of an hour; None if there is none."""
        if what in self.declared:
            return self.declared[what]
        meter = _TABLE["meters"][kind]
        sku = _TABLE["skus"].get(what, what)
        where = {key: value.format(sku) for key, value in meter["where"].items()}
        if not meter.get("everywhere"):
            where["armRegionName"] = region
        unit, name = meter.get("unit", "1 Hour"), meter["name"].format(re.escape(sku))
        # of a price by steps, the first that is not free
        paid = [price for price in self._listed(where, unit, name, region) if price > 0]
        if not paid:
            return None
        return min(paid) / (MONTH_H if "unit" in meter else 1)

    def transfer(self, path: str, source: str, target: str) -> float | None:
        """Return the price of a GB from one region to the other by a path, out and in."""
        if (declared := self.declared.get(f"transfer {path}")) is not None:
            return declared
        meters = PLACED[path].meters if path in PLACED else ()
        if meters is None:
            return None
        total = 0.0
        for meter in meters:
            if meter.far and source == target:
                continue
            region = {"client": source, "server": target}.get(meter.end)
            place = zone_of(region) if region and meter.zoned else region
            if region and place is None:
                return None
            where = {"serviceName": meter.service}
            if place:
                where["armRegionName"] = place
            # the highest price that matches: a cap must not be too low
            matching = self._listed(where, "1 GB", meter.name, source)
            if not matching:
                return None
            total += max(matching)
        return total

    def _listed(
        self, where: Mapping[str, str], unit: str, meter: str, near: str
    ) -> list[float]:
        """Prices of the list; none once it did not answer."""
        if not self.reached:
            return []
        try:
            return _listed(where, unit, meter, near)
        except _UnreachableError:
            self.reached = False
            return []


def zone_of(region: str) -> str | None:
    """Return the billing zone of a region, which sets the price of transfer; None: not known."""
    zones: dict[str, str] = _TABLE["zones"]
    for zone, regions in zones.items():
        if re.search(regions, region):
            return zone
    return None


def _listed(where: Mapping[str, str], unit: str, meter: str, near: str) -> list[float]:
    """Matching prices from all pages of the list, those of an hour from the first unit on.

    Meters that are not asked for by region are listed for several: those of region `near` count, or
    else the general ones, rather than those of an edge site or of a government's cloud.
    _UnreachableError if a page is missing.
    """
    asked = {**where, "priceType": "Consumption"}
    condition = " and ".join(f"{k} eq '{v}'" for k, v in asked.items())
    url: str | None = f"{PRICES_URL}?{urllib.parse.urlencode({'$filter': condition})}"
    items: list[dict[str, Any]] = []
    while url:
        page = _page(url)
        if page is None:
            # half a list may lack the price that applies
            raise _UnreachableError
        items += page.get("Items", [])
        url = page.get("NextPageLink")
    if "armRegionName" not in where:
        by_region: dict[str, list[dict[str, Any]]] = {}
        for item in items:
            by_region.setdefault(item.get("armRegionName", ""), []).append(item)
        usual = by_region.get("Global") or by_region.get("") or items
        items = by_region.get(near) or usual
    prices = []
    for item in items:
        is_unit = item.get("unitOfMeasure") == unit
        # of a GB, every step counts
        is_first = unit == "1 GB" or not float(item.get("tierMinimumUnits") or 0)
        is_meter = re.fullmatch(meter, str(item.get("meterName")))
        if is_unit and is_first and is_meter and _plain(item):
            prices.append(float(item["retailPrice"]))
    return prices


def _plain(item: Mapping[str, Any]) -> bool:
    """Whether the price is for Linux, and not for a VM that can be evicted."""
    words = " ".join(str(item.get(k)) for k in ("productName", "skuName", "meterName"))
    return not re.search("Windows|Spot|Low Priority|CloudServices|P2S", words)


@cache
def _page(url: str) -> Any:
    try:
        return json.loads(_get(url) or "")
    except ValueError:
        return None


def _get(url: str) -> str | None:
    try:
        # a context of its own: from Python 3.13 on, a process reads the certificates once
        context = ssl.create_default_context()
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
            return str(answer.read(2**20).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def public_address() -> str | None:
    """Return this machine's address as seen from the internet, or None if it is not known."""
    try:
        return str(ipaddress.ip_address((_get(ADDRESS_URL) or "").strip()))
    except ValueError:
        return None
