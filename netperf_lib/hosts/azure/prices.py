"""Cost of deployments, item by item, from the public price list; unknown prices stay unknown."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
import ssl
import tomllib
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

from ...experiment.placements import AT_BALANCER, PLACED
from ..source import Workload
from .options import Options
from .topology import Topology

PRICES_URL = "https://prices.azure.com/api/retail/prices"
ADDRESS_URL = "https://api.ipify.org"
"""It returns the caller's public address as text."""
CURRENCY = "USD"
DISK = "disk StandardSSD_LRS"
PLACE_S = {"vm": 15 * 60, "gateway": 60 * 60}
"""Time for creating and removing, which is also paid for."""
MONTH_H = 730
_Item = tuple[str, str, float, str, Callable[[], float | None]]
"""Name in `hosts.options.prices`; name; number of units, or the most GB; kind as in `prices.toml`,
or `transfer`; what asks the list for the price of a unit for an hour, or of a GB."""
_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("prices.toml").read_text("utf-8")
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate; what has no price is not in it."""

    hours: float
    """Hours for which the machines are expected to run, all deployments together."""
    running_h: float
    """Cost of an hour of all."""
    idle_h: float
    """Cost of an hour of what goes on costing when the VMs are stopped."""
    transfer: float
    """The most that all traffic costs."""
    parts: tuple[str, ...]
    """What each part costs, by hours or by traffic."""
    unknown: tuple[str, ...]
    """What has no price."""
    reached: bool
    """The price list answered."""

    @property
    def amount(self) -> float | None:
        """The most that all items cost; None if a price is unknown."""
        return None if self.unknown else self.spent(self.hours, 1)

    @property
    def is_partial(self) -> bool:
        """Whether something that is paid by the hour has no price."""
        return any(not name.startswith("transfer ") for name in self.unknown)

    def spent(self, hours: float, share: float) -> float:
        """Return the cost after so many hours, with this share of the traffic, as far as known."""
        return hours * self.running_h + share * self.transfer

    def __str__(self) -> str:
        if self.amount is not None:
            return f"at most {self.amount:.2f} {CURRENCY} for {self.hours:.1f} h"
        why = f"no price for {', '.join(self.unknown)}"
        if not self.reached:
            why = "the price list could not be reached"
        return f"unknown for {self.hours:.1f} h ({why}; give hosts.options.prices)"


class _UnreachableError(Exception):
    """The price list did not answer."""


def paid(topology: Topology) -> Counter[tuple[str, str, str]]:
    """Count what is paid by the hour: name, region, and kind as in `prices.toml`."""
    items = [("public address", region, "address") for region in topology.addresses]
    for vm in topology.vms:
        items += [(vm.vm_size, vm.region, "vm"), (DISK, vm.region, "disk")]
        if vm.address == AT_BALANCER:
            items.append(("load balancer", vm.region, "balancer"))
    for gateway in topology.gateways:
        items.append((gateway["sku"], gateway["region"], gateway["kind"]))
    for network in topology.behind_nat:
        items.append(("nat gateway", network["region"], "nat"))
    return Counter(items)


def cost(
    topology: Topology, options: Options, workload: Workload, deployments: int
) -> Cost:
    """Estimate what all deployments cost: machines, disks, addresses, gateways, and data transfer.

    Declared prices override the list.
    """
    place_s = PLACE_S["gateway" if topology.gateways else "vm"]
    hours = (workload.measuring_s + deployments * place_s) / 3600
    total: dict[str, float] = defaultdict(float)
    parts, unknown, reached = [], [], True
    for declared, name, quantity, kind, ask in _items(topology, workload.traffic):
        price = options.prices.get(declared)
        if price is None and reached:
            try:
                price = ask()
            except _UnreachableError:
                reached = False
        if price is None:
            unknown.append(name)
            continue
        total[kind] += quantity * price
        times, unit = (1.0, "GB") if kind == "transfer" else (hours, "×")
        if price:
            amount = f"{quantity * price * times:.2f} {CURRENCY}"
            parts.append(f"{quantity:,.0f} {unit} {name}: {amount}")
    transfer = total.pop("transfer", 0.0)
    running_h = sum(total.values())
    return Cost(
        hours=hours,
        running_h=running_h,
        idle_h=running_h - total["vm"],
        transfer=transfer,
        parts=tuple(parts),
        unknown=tuple(unknown),
        reached=reached,
    )


def source(estimate: Cost) -> str:
    """Return where prices come from."""
    if not estimate.reached:
        return f"the price list could not be reached ({PRICES_URL})"
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return f"list prices of {today}, and those of hosts.options.prices"


def _items(
    topology: Topology, traffic: Mapping[tuple[str, str], float]
) -> Iterator[_Item]:
    for (what, region, kind), n in sorted(paid(topology).items()):
        yield what, f"{what} in {region}", n, kind, partial(_hour, what, region, kind)
    sendable: Counter[tuple[str, str, str]] = Counter()
    for (client, server), sent in traffic.items():
        regions = topology.vm(client).region, topology.vm(server).region
        sendable[topology.paths[client, server], *regions] += round(sent)
    for way, sent in sorted((+sendable).items()):
        name = f"transfer {way[0]}"
        yield name, name, sent / 1e9, "transfer", partial(_gigabyte, *way)


def _hour(what: str, region: str, kind: str) -> float | None:
    """The price of an hour; None if there is none."""
    meter = _TABLE["meters"][kind]
    sku = _TABLE["skus"].get(what, what)
    where = {key: value.format(sku) for key, value in meter["where"].items()}
    if not meter.get("everywhere"):
        where["armRegionName"] = region
    unit, name = meter.get("unit", "1 Hour"), meter["name"].format(re.escape(sku))
    # of a price by steps, the first that is not free
    paid = [price for price in _listed(where, unit, name, region) if price > 0]
    if not paid:
        return None
    return min(paid) / (MONTH_H if "unit" in meter else 1)


def _gigabyte(path: str, source: str, target: str) -> float | None:
    """The price of a GB from one region to the other by a path, out and in."""
    meters = PLACED[path].meters
    if meters is None:
        return None
    total = 0.0
    for meter in meters:
        if meter.far and source == target:
            continue
        where = {"serviceName": meter.service}
        if region := {"client": source, "server": target}.get(meter.end):
            place = zone_of(region) if meter.zoned else region
            if place is None:
                return None
            where["armRegionName"] = place
        # the highest price that matches: a cap must not be too low
        matching = _listed(where, "1 GB", meter.name, source)
        if not matching:
            return None
        total += max(matching)
    return total


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
        known = {item.get("armRegionName") for item in items}
        region = next((r for r in (near, "Global", "") if r in known), None)
        items = [i for i in items if region in (None, i.get("armRegionName"))]
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
