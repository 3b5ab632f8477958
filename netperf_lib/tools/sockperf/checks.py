"""Do the figures of a sockperf log agree? Most are told twice, or bound each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any


def beyond_of(percentile: float, n: int | None) -> int | None:
    """How many of `n` observations come after the one that sockperf prints (client.cpp, `printPercentiles`)."""
    return None if n is None else n - int(0.5 + round(percentile / 100, 7) * n)


def mebibytes(number: str, prefix: str) -> tuple[float, float]:
    """2^20 bytes a second, and half of the last digit, of what is printed before "Bps" or "bps".

    Raises
    ------
    ValueError
        A unit that sockperf does not print.
    """
    nine = len(number.partition(".")[2]) > 3  # --increase_output_precision of 3.7 says G where it means M
    factor = {"M": 1.0, "G": 1.0 if nine else 1000.0}.get(prefix)
    if factor is None:
        raise ValueError(f"unknown unit {prefix + 'Bps'!r} of a bandwidth: {number} {prefix}Bps")
    return float(number) * factor, 0.5e-9 if nine else 0.5e-3 * factor


def contradiction(
    found: Mapping[str, tuple[str, ...]],
    percentiles: Mapping[float, float],
    parameters: Mapping[str, Any],
    test: str | None,
) -> str | None:
    """Tell which figures cannot stand together; None when all can."""
    checks = [_counts(found, parameters, test), _distribution(found, percentiles), _rates(found, parameters)]
    return next((c for c in checks if c), None)


def _counts(found: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Any], test: str | None) -> str | None:
    n = int(found["observations"][0]) if "observations" in found else None
    if n is not None and abs(n / 100 - float(found["observations"][1])) > 0.0051:
        return f"{n} observations, {found['observations'][1]} in each percentile"
    if "valid" not in found:
        return None
    seconds, sent, received = float(found["valid"][0]), int(found["valid"][1]), int(found["valid"][2])
    if n is not None and n != received:
        return f"{received} messages received in the valid duration, {n} observations"
    if received > sent:
        return f"{received} of {sent} messages received"
    every = int(parameters.get("reply_every", 1 if test == "ping-pong" else 0))
    if every and "losses" in found:  # of every n-th message the answer came, was lost, or came out of order
        asked = (sent - 1) // every + 1
        if received + int(found["losses"][0]) + int(found["losses"][2]) != asked:
            return f"{asked} answers due, {received} received, {found['losses'][0]} dropped"
    if "total" in found:
        all_seconds, all_sent, all_received = float(found["total"][0]), int(found["total"][1]), int(found["total"][2])
        if seconds > all_seconds + 0.001 or sent > all_sent or received > all_received or all_received > all_sent:
            return "more in the valid duration than in the total run"
    return None


def _distribution(found: Mapping[str, tuple[str, ...]], percentiles: Mapping[float, float]) -> str | None:
    """Order, and what mean and standard deviation allow: Bhatia-Davis for the ends, Chebyshev for the percentiles."""
    points = [(p, v) for p, v in sorted(percentiles.items())]
    if "min" in found:
        points.insert(0, (0.0, float(found["min"][0])))
    if "max" in found:
        points.append((100.0, float(found["max"][0])))
    for (p, v), (q, w) in pairwise(points):
        if v > w:
            return f"percentile {p:g} is {v:g}, percentile {q:g} is {w:g}"
    if "average" not in found:
        return None
    mean, deviation = float(found["average"][1]), float(found["average"][2])
    if "summary" in found and found["summary"][2] != found["average"][1]:
        return f"the average is {found['average'][1]}, the summary says {found['summary'][2]}"
    if found["average"][6]:
        n = int(found["observations"][0]) if "observations" in found else None
        cv, error, low, high = map(float, found["average"][6:10])
        if abs(cv * mean - deviation) > 0.0006 * mean + 0.001 or not low <= mean + 0.002 or not mean <= high + 0.002:
            return f"mean {mean:g}, standard deviation {deviation:g}, cv {cv:g}"
        if n and abs(error * math.sqrt(n) - deviation) > 0.0006 * math.sqrt(n) + 0.001:
            return f"standard deviation {deviation:g} of {n}, standard error {error:g}"
    if "observations" not in found:
        return None
    n = int(found["observations"][0])
    ends = dict(points)
    if 0.0 in ends and 100.0 in ends:
        if not ends[0.0] - 0.001 <= mean <= ends[100.0] + 0.001:
            return f"the mean {mean:g} is not between minimum and maximum"
        most = (ends[100.0] - mean + 0.001) * (mean - ends[0.0] + 0.001) * n / max(n - 1, 1)
        if deviation**2 > most * 1.001 + 0.001:
            return f"standard deviation {deviation:g} is more than minimum and maximum allow"
    for p, v in points:
        beyond = (beyond_of(p, n) or 0) + 1 if v > mean else n - (beyond_of(p, n) or 0)
        if p == 0.0:
            beyond = 1
        if beyond * (v - mean) ** 2 > n * (deviation + 0.001) ** 2 * 1.01 + 0.01:
            return f"percentile {p:g} is {v:g}, too far from the mean {mean:g} for the standard deviation {deviation:g}"
    return None


def _rates(found: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Any]) -> str | None:
    rate = int(found["rate"][0]) if "rate" in found else None
    if rate is not None and "sent" in found:
        sent, seconds = int(found["sent"][0]), float(found["sent"][1])
        if not sent / (seconds + 0.0006) - 1 <= rate <= sent / max(seconds - 0.0006, 1e-4) + 1:
            return f"{sent} messages in {seconds:g} s, {rate} in a second"
    if "bandwidth" in found:
        number, prefix, bits, bit_prefix = found["bandwidth"]
        try:
            (size, half), (eighth, half_bits) = mebibytes(number, prefix), mebibytes(bits, bit_prefix)
        except ValueError:
            return None  # told where it is read
        if abs(size * 8 - eighth) > half * 8 + half_bits + 1e-6 * eighth:
            return f"{number} {prefix}Bps, {bits} {bit_prefix}bps"
        message = parameters.get("message_bytes")
        if (
            rate is not None
            and message
            and not _payload(rate, message, size, half)
            and not on_wire(rate, message, size, half)
        ):
            return f"{rate} messages of {message} bytes a second, {number} {prefix}Bps"
    return None


def _payload(rate: int, message: int, mebibytes: float, half: float) -> bool:
    return abs(rate * message / 2**20 - mebibytes) <= half + 1e-6 * mebibytes


def on_wire(rate: int, message: int, mebibytes: float, half: float) -> bool:
    """Tell whether the bandwidth counts IP and UDP headers, as the first versions did ("vperf")."""
    return _payload(rate, message + 28 * -(-message // 1472), mebibytes, half)
