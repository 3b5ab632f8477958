"""Checks whether the figures of a sockperf log agree: most are printed twice, or limit each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ..draft import Damaged, Figure

Figures = Mapping[str, Figure]
"""Figures of a log by name, see `reader`."""


def beyond_of(percentile: float, n: float) -> int:
    """Return how many of `n` observations are beyond the one that sockperf prints (client.cpp, `printPercentiles`)."""
    return int(n) - int(0.5 + round(percentile / 100, 7) * n)


def mebibytes(number: str, prefix: str) -> Figure:
    """Return units of 2^20 per second from a number and the prefix of "Bps" or "bps"; `Damaged` if it is unknown."""
    nine = len(number.partition(".")[2]) > 3  # --increase_output_precision of 3.7 says G where it means M
    factor = {"M": 1.0, "G": 1.0 if nine else 1000.0}.get(prefix)
    if factor is None:
        raise Damaged(f"unknown unit {prefix + 'Bps'!r} of a bandwidth: {number} {prefix}Bps")
    return Figure.printed(number, factor)


def contradiction(
    figures: Figures, percentiles: Mapping[float, float], parameters: Mapping[str, Any], test: str | None
) -> str | None:
    """Say which figures contradict each other; None if none do."""
    v = {name: figure.value for name, figure in figures.items()}
    return _counts(figures, v, parameters, test) or _order(v, percentiles)


def _counts(figures: Figures, v: Mapping[str, float], parameters: Mapping[str, Any], test: str | None) -> str | None:
    n = v.get("observations")
    if n is not None and not figures["observations_each"].agrees(Figure(n / 100)):
        return f"{n:.0f} observations, {v['observations_each']} in each percentile"
    if "valid_s" not in v:
        return None
    sent, received = v["valid_sent"], v["valid_received"]
    if (n is not None and n != received) or received > sent:
        return f"{received:.0f} of {sent:.0f} messages received in the valid duration, {n} observations"
    every = int(parameters.get("reply_every", 1 if test == "ping-pong" else 0))
    if every and "dropped" in v:  # the answer to every n-th message arrived, was lost, or was out of order
        due = (sent - 1) // every + 1
        if received + v["dropped"] + v["disorder"] != due:
            return f"{due:.0f} answers due, {received:.0f} received, {v['dropped']:.0f} dropped"
    if "total_s" in v:
        total = v["total_s"] + 0.001, v["total_sent"], v["total_received"]
        if any(a > b for a, b in zip((v["valid_s"], sent, received), total, strict=True)) or total[2] > total[1]:
            return "more in the valid duration than in the total run"
    return None


def _order(v: Mapping[str, float], percentiles: Mapping[float, float]) -> str | None:
    points = [(0.0, v["min"])] if "min" in v else []
    points += sorted(percentiles.items())
    points += [(100.0, v["max"])] if "max" in v else []
    for (p, low), (q, high) in pairwise(points):
        if low > high:
            return f"percentile {p:g} is {low:g}, percentile {q:g} is {high:g}"
    if "mean" in v and {"min", "max"} <= v.keys() and not points[0][1] <= v["mean"] <= points[-1][1]:
        return f"the average is {v['mean']:g}, and all latencies are {points[0][1]:g} to {points[-1][1]:g}"
    if v.get("summary") != v.get("mean") and {"summary", "mean"} <= v.keys():
        return f"the average is {v['mean']:g}, the summary says {v['summary']:g}"
    return None


def on_wire(rate: Figure, message: int, bandwidth: Figure) -> bool:
    """Return whether the bandwidth counts IP and UDP headers, as in the first versions ("vperf")."""
    return bandwidth.agrees(Figure(rate.value * (message + 28 * -(-message // 1472)) / 2**20), 1e-6)
