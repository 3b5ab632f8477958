"""Histograms of latencies as lagscope and latte print them: lower edge of a bin in whole microseconds, and a count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from .parsed import Percentile

_TABLE = re.compile(r"^Interval\(usec\)[ \t]+Frequency[ \t]*\n((?:.*\n?)*)", re.MULTILINE)
_ROW = re.compile(r"[ \t]*(\d+)[ \t]+(\d+)[ \t]*")
POINTS = {
    50.0: "p50",
    75.0: "p75",
    90.0: "p90",
    95.0: "p95",
    99.0: "p99",
    99.9: "p999",
    99.99: "p9999",
    99.999: "p99999",
}
"""Percentiles that are given, and their names in metrics."""


def histogram(
    text: str, mean: float | None, count: float | None, basis: str
) -> tuple[tuple[Percentile, ...], dict[str, float], str | None]:
    """Percentiles from the table "Interval(usec) Frequency", where there is one that can tell them.

    Returns
    -------
    percentiles : tuple of Percentile
        Lower edges of the bins, when all bins are one microsecond wide and the counts are those of all messages.
    metrics : dict
        The same by name.
    warning : str or None
        Why a table that is there was not used.

    Raises
    ------
    ValueError
        The table contradicts the other figures.
    """
    m = _TABLE.search(text)
    if not m:
        return (), {}, None
    bins: list[tuple[int, int]] = []
    for row in m[1].split("\n"):
        if not row.strip():
            break
        r = _ROW.fullmatch(row)
        if not r:
            return (), {}, f"no percentiles: the histogram is not whole, {row.strip()[:60]!r} stands in it"
        bins.append((int(r[1]), int(r[2])))
    total = sum(n for _, n in bins)
    if not total:
        return (), {}, "no percentiles: the histogram counts nothing"
    if count is not None and total != count:
        raise ValueError(f"the histogram counts {total} messages, the log {count:.0f}")
    edges = [e for e, _ in bins]
    for a, b in pairwise(edges):
        if b != a + 1:
            return (), {}, f"no percentiles: bins of one microsecond are needed, here {b} follows {a}"
    low = sum(e * n for e, n in bins) / total
    if mean is not None and not low - 0.01 <= mean <= low + 1.01:
        raise ValueError(f"the mean of the histogram is about {low + 0.5:.1f} us, not {mean:g}")
    points = percentiles(bins)
    return points, {f"{basis}_{POINTS[p.percentile]}_us": p.latency_us for p in points}, None


def percentiles(bins: Iterable[tuple[int, int]]) -> tuple[Percentile, ...]:
    """Percentiles of counted latencies, as lagscope finds them (latencies_stats.c, `get_percentile_latency`)."""
    table = sorted(bins)
    total = sum(n for _, n in table)
    points = []
    for p in POINTS:
        place = int(p * (total + 1) / 100 - 1)
        if place < 0:
            continue
        seen = 0
        for edge, n in table:
            seen += n
            if seen > place:
                points.append(Percentile(p, float(edge), total - 1 - place))
                break
    return tuple(points)
