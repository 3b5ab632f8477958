"""Checks whether the figures of a sockperf log agree: most are printed twice, or limit each other."""

from __future__ import annotations

import math
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
    return (
        _counts(figures, v, parameters, test) or _distribution(figures, v, percentiles) or _rates(figures, parameters)
    )


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


def _distribution(figures: Figures, v: Mapping[str, float], percentiles: Mapping[float, float]) -> str | None:
    """Check the order, and the limits from mean and deviation: Bhatia-Davis for the ends, Chebyshev for percentiles."""
    points = [(0.0, v["min"])] if "min" in v else []
    points += sorted(percentiles.items())
    points += [(100.0, v["max"])] if "max" in v else []
    for (p, low), (q, high) in pairwise(points):
        if low > high:
            return f"percentile {p:g} is {low:g}, percentile {q:g} is {high:g}"
    if "mean" not in v:
        return None
    mean, deviation, n = v["mean"], v["deviation"], v.get("observations")
    if v.get("summary", mean) != mean:
        return f"the average is {mean:g}, the summary says {v['summary']:g}"
    if "cv" in v:
        inside = v["ci_low"] <= mean + 0.002 and mean <= v["ci_high"] + 0.002
        if not inside or not (figures["cv"] * figures["mean"]).agrees(figures["deviation"], 0.0, 0.001):
            return f"mean {mean:g}, standard deviation {deviation:g}, cv {v['cv']:g}"
        if n and not (figures["error"] * math.sqrt(n)).agrees(figures["deviation"], 0.0, 0.001):
            return f"standard deviation {deviation:g} of {n:.0f}, standard error {v['error']:g}"
    if n is None:
        return None
    if "min" in v and "max" in v:
        most = (v["max"] - mean + 0.001) * (mean - v["min"] + 0.001) * n / max(n - 1, 1)
        if not v["min"] - 0.001 <= mean <= v["max"] + 0.001 or deviation**2 > most * 1.001 + 0.001:
            return f"mean {mean:g} and standard deviation {deviation:g} are impossible with this minimum and maximum"
    for p, value in points:
        after = beyond_of(p, n)
        beyond = 1 if p == 0.0 else after + 1 if value > mean else n - after
        if beyond * (value - mean) ** 2 > n * (deviation + 0.001) ** 2 * 1.01 + 0.01:
            return f"percentile {p:g} is {value:g}, too far from the mean {mean:g} for a deviation of {deviation:g}"
    return None


def _rates(figures: Figures, parameters: Mapping[str, Any]) -> str | None:
    rate, bandwidth, message = figures.get("rate"), figures.get("bandwidth"), parameters.get("message_bytes")
    if rate and "sent" in figures:
        sent, seconds = figures["sent"], figures["sent_s"]
        if not (sent / seconds).agrees(rate, 0.0, 0.5 + 1e-4 * rate.value / max(seconds.value, 1e-4)):
            return f"{sent.value:.0f} messages in {seconds.value:g} s, {rate.value:.0f} per second"
    if bandwidth and not (bandwidth * 8).agrees(figures["bandwidth_bits"], 1e-6):
        return f"{bandwidth.value} MBps, {figures['bandwidth_bits'].value} Mbps"
    if bandwidth and rate and message and not (payload(rate, message, bandwidth) or on_wire(rate, message, bandwidth)):
        return f"{rate.value:.0f} messages of {message} bytes a second, {bandwidth.value} MBps"
    return None


def payload(rate: Figure, message: int, bandwidth: Figure) -> bool:
    """Return whether the bandwidth is that of the messages."""
    return bandwidth.agrees(Figure(rate.value * message / 2**20), 1e-6)


def on_wire(rate: Figure, message: int, bandwidth: Figure) -> bool:
    """Return whether the bandwidth counts IP and UDP headers, as in the first versions ("vperf")."""
    return payload(rate, message + 28 * -(-message // 1472), bandwidth)
