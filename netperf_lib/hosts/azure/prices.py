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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from importlib import resources
from typing import Any, NamedTuple

from ...experiment.placements import AT_BALANCER, PLACED
from ..source import Workload
from .options import Options
from .topology import Topology

PRICES_URL = "https://prices.azure.com/api/retail/prices"
ADDRESS_URL = "https://api.ipify.org"
"""It returns the caller's public address as text."""
NO_ANSWER = (OSError, HTTPException, ValueError)
"""What is raised if a service does not answer, or not as it should."""
CURRENCY = "USD"
DISK = "disk StandardSSD_LRS"
PLACE_S = {"vm": 15 * 60, "gateway": 60 * 60}
"""Time for creating and removing, which is also paid for."""
HOURS = {"1/Month": 730}
"""Of a unit in which time is priced, if not an hour."""
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


class _Meter(NamedTuple):
    """What the price list is asked for."""

    name: str
    """Pattern of the meter's name."""
    unit: str
    where: Mapping[str, str]


class _Item(NamedTuple):
    """Something that is paid for."""

    name: str
    """In `hosts.options.prices`."""
    label: str
    quantity: float
    """Number, or the most GB."""
    kind: str
    """As in `prices.toml`, or ``transfer``."""
    meters: Sequence[_Meter] | None
    """Their prices add up to that of one; None: not known."""


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
    for item in _items(topology, workload.traffic):
        price = options.prices.get(item.name)
        if price is None and reached:
            try:
                price = _price(item)
            except NO_ANSWER:
                reached = False
        if price is None:
            unknown.append(item.label)
            continue
        amount, unit = item.quantity * price, "GB"
        total[item.kind] += amount
        if item.kind != "transfer":
            amount, unit = amount * hours, "×"
        if amount:
            what = f"{item.quantity:,.0f} {unit} {item.label}"
            parts.append(f"{what}: {amount:.2f} {CURRENCY}")
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
        meters = [_hour_of(what, region, kind)]
        yield _Item(what, f"{what} in {region}", n, kind, meters)
    sendable: Counter[tuple[str, str, str]] = Counter()
    for (client, server), sent in traffic.items():
        regions = topology.vm(client).region, topology.vm(server).region
        sendable[topology.paths[client, server], *regions] += round(sent)
    for way, sent in sorted((+sendable).items()):
        name = f"transfer {way[0]}"
        yield _Item(name, name, sent / 1e9, "transfer", _gigabyte_by(*way))


def _hour_of(what: str, region: str, kind: str) -> _Meter:
    """What an hour, or a month, is asked for by."""
    row = _TABLE["meters"][kind]
    sku = _TABLE["skus"].get(what, what)
    where = {"armRegionName": region}
    for key, value in row["where"].items():
        where[key] = value.format(sku)
    return _Meter(row["name"].format(re.escape(sku)), row["unit"], where)


def _gigabyte_by(path: str, source: str, target: str) -> list[_Meter] | None:
    """What a GB from one region to the other is asked for by, out and in."""
    known = PLACED[path].meters
    if known is None:
        return None
    meters = []
    for meter in known:
        if meter.far and source == target:
            continue
        region = {"": "Global", "client": source, "server": target}[meter.end]
        if meter.zoned:
            region = _billing_zone(region)
        where = {"serviceName": meter.service, "armRegionName": region}
        meters.append(_Meter(meter.name, "1 GB", where))
    return meters


def _billing_zone(region: str) -> str:
    """The zone of a region, which sets the price of transfer, or one that has no price."""
    zones: dict[str, str] = _TABLE["zones"]
    for zone, regions in zones.items():
        if re.search(regions, region):
            return zone
    return ""


def _price(item: _Item) -> float | None:
    """The price of one for an hour, or of a GB; None if the list has none."""
    if item.meters is None:
        return None
    total = 0.0
    for meter in item.meters:
        prices = _listed(meter)
        if not prices:
            return None
        # a budget must not be kept by a price that is too low
        total += max(prices) / HOURS.get(meter.unit, 1)
    return total


def _listed(meter: _Meter) -> list[float]:
    """The prices that the list has for a meter, for Linux, and not of what can be evicted."""
    asked = {**meter.where, "priceType": "Consumption"}
    condition = " and ".join(f"{k} eq '{v}'" for k, v in asked.items())
    prices = []
    for row in _pages(f"{PRICES_URL}?{urllib.parse.urlencode({'$filter': condition})}"):
        name = str(row.get("meterName"))
        words = f"{row.get('productName')} {row.get('skuName')} {name}"
        is_other = re.search("Windows|Spot|Low Priority|CloudServices", words)
        is_meter = re.fullmatch(meter.name, name)
        if is_meter and not is_other and row.get("unitOfMeasure") == meter.unit:
            prices.append(float(row["retailPrice"]))
    return prices


@cache
def _pages(url: str) -> list[dict[str, Any]]:
    """All rows of an answer; one of `NO_ANSWER` if a page is missing."""
    rows = []
    following: str | None = url
    while following:
        page = json.loads(_get(following))
        rows += page.get("Items", [])
        following = page.get("NextPageLink")
    return rows


def _get(url: str) -> str:
    # a context of its own: from Python 3.13 on, a process reads the certificates once
    context = ssl.create_default_context()
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
        return str(answer.read(2**20).decode("utf-8", "replace"))


def public_address() -> str | None:
    """Return this machine's address as seen from the internet, or None if it is not known."""
    try:
        return str(ipaddress.ip_address(_get(ADDRESS_URL).strip()))
    except NO_ANSWER:
        return None
