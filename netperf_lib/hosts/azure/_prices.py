"""What an hour costs, from the public retail price list; cached for a day; unknown stays unknown."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._options import Options
from ._topology import Topology

__all__ = ["Cost", "cost", "public_address"]

FRESH_S = 24 * 3600
PLACE_S = {"vm": 15 * 60, "gateway": 60 * 60}
"""Time that making and removing takes, and that is paid for, too."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate."""

    hours: float
    """Hours that the machines are expected to live, all deployments together."""
    amount: float | None
    """None where a price is unknown."""
    currency: str
    unknown: tuple[str, ...] = ()
    """What no price was found for."""

    def __str__(self) -> str:
        if self.amount is None:
            what = ", ".join(self.unknown)
            return f"cost unknown for {self.hours:.1f} h (no price for {what}; give hosts.options.prices)"
        sum_ = f"about {self.amount:.2f} {self.currency} for {self.hours:.1f} h"
        return f"{sum_}, without data transfer between zones and regions"


def cost(topology: Topology, options: Options, *, measuring_s: float, deployments: int) -> Cost:
    """Estimate what the machines of all deployments cost.

    Parameters
    ----------
    topology : Topology
        Machines and gateways of one deployment.
    options : Options
        Declared prices overrule the list.
    measuring_s : float
        Time of measuring, all deployments together.
    deployments : int
        How often it is placed.
    """
    place_s = PLACE_S["gateway" if topology.gateways else "vm"]
    hours = (measuring_s + deployments * place_s) / 3600
    wanted = [(v.size, v.region, "vm") for v in topology.vms] + [(g.sku, g.region, g.kind) for g in topology.gateways]
    prices = {w: _price(*w, options) for w in set(wanted)}
    unknown = tuple(sorted({f"{sku} in {region}" for (sku, region, _), price in prices.items() if price is None}))
    total = None if unknown else sum(prices[w] or 0 for w in wanted) * hours
    return Cost(hours=hours, amount=total, currency=options.currency, unknown=unknown)


def _price(sku: str, region: str, kind: str, options: Options) -> float | None:
    if sku in options.prices:
        return options.prices[sku]
    service = {"vm": "Virtual Machines", "Vpn": "VPN Gateway", "ExpressRoute": "ExpressRoute"}[kind]
    name = "armSkuName" if kind == "vm" else "skuName"
    where = {"serviceName": service, "armRegionName": region, name: sku, "priceType": "Consumption"}
    wanted = " and ".join(f"{k} eq '{v}'" for k, v in where.items())
    query = urllib.parse.urlencode({"currencyCode": f"'{options.currency}'", "$filter": wanted})
    answer = _cached(f"{options.prices_url}?{query}")
    found = [float(item["retailPrice"]) for item in (answer or {}).get("Items", []) if _plain_hour(item)]
    return min((price for price in found if price > 0), default=None)


def _plain_hour(item: Mapping[str, Any]) -> bool:
    """An hour of a Linux machine that is not taken away again."""
    words = " ".join(str(item.get(k)) for k in ("productName", "skuName", "meterName"))
    return item.get("unitOfMeasure") == "1 Hour" and not re.search("Windows|Spot|Low Priority|CloudServices", words)


def _cached(url: str) -> Any:
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netperf_lib" / "azure-prices.json"
    try:
        kept = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    entry = kept.get(url)
    if entry and time.time() - entry["time"] < FRESH_S:
        return entry["answer"]
    answer = _get(url)
    if answer is None:
        return None
    try:
        document = json.loads(answer)
    except ValueError:
        return None
    kept[url] = {"time": time.time(), "answer": document}
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(kept), "utf-8")
        draft.replace(place)
    except OSError:
        pass  # a cache that cannot be written is no cache
    return document


def _get(url: str, timeout_s: float = 10) -> str | None:
    if not url.startswith("https://"):
        return None
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - https is checked above
            return str(answer.read(2**20).decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError, ValueError):
        return None


def public_address(url: str) -> str | None:
    """Return this machine's address as the internet sees it, or None when nobody tells."""
    try:
        return str(ipaddress.ip_address((_get(url) or "").strip()))
    except ValueError:
        return None
