"""Latency histograms as lagscope and latte print them: lower edge of each bin in whole microseconds, and a count."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from .draft import CONTRADICTION, Contradictory, Draft
from .parsed import Percentile

_TABLE = re.compile(r"^Interval\(usec\)[ \t]+Frequency[ \t]*\n((?:.*\n?)*)", re.MULTILINE)
_ROW = re.compile(r"[ \t]*(\d+)[ \t]+(\d+)[ \t]*")
POINTS = {
    p: "p" + f"{p:g}".replace(".", "") for p in (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999)
}
"""The percentiles that are read, and their names in metrics."""


def histogram(run: Draft, text: str, mean: float, count: float | None) -> None:
    """Take percentiles from the table "Interval(usec) Frequency", if there is one and it allows it.

    Percentiles are lower edges of the bins. All bins must be one microsecond wide and count all messages.
    Raises `Contradictory` if the table contradicts the other figures.
    """
    m = _TABLE.search(text)
    if not m:
        return
    bins: list[tuple[int, int]] = []
    for row in m[1].split("\n"):
        if not row.strip():
            break
        r = _ROW.fullmatch(row)
        if not r:
            run.warnings.append(
                f"no percentiles: the histogram is not whole, {row.strip()[:60]!r} stands in it"
            )
            return
        bins.append((int(r[1]), int(r[2])))
    total = sum(n for _, n in bins)
    if total and count is not None and total != count:
        raise Contradictory(
            f"{CONTRADICTION}the histogram counts {total} messages, the log {count:.0f}"
        )
    if not total or any(b != a + 1 for (a, _), (b, _) in pairwise(bins)):
        run.warnings.append("no percentiles: the histogram has gaps, or counts nothing")
        return
    low = sum(e * n for e, n in bins) / total
    if not low - 0.01 <= mean <= low + 1.01:
        raise Contradictory(
            f"{CONTRADICTION}the mean of the histogram is about {low + 0.5:.1f} us, not {mean:g}"
        )
    percentiles(run, bins)


def percentiles(run: Draft, bins: Iterable[tuple[int, int]]) -> None:
    """Take percentiles of counted latencies, as lagscope finds them (latencies_stats.c, `get_percentile_latency`)."""
    table = sorted(bins)
    seen = list(accumulate(n for _, n in table))
    for p in POINTS:
        index = int(p * (seen[-1] + 1) / 100 - 1)
        edge = float(table[bisect_right(seen, index)][0])
        run.percentiles += (Percentile(p, edge, seen[-1] - 1 - index),)
        run.metrics[f"rtt_{POINTS[p]}_us"] = edge
    run.basis = "rtt"
