"""What others published, beside one's own: figures of single runs, as printed and as numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport, UsageError
from ..metrics import to_bps, to_us
from .conditions import levels, select

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["published_levels"]

METRICS = {
    "one-way latency": "latency_oneway_us",
    "round-trip latency": "rtt_us",
    "throughput": "throughput_bps",
}
"""What a published figure calls a metric, and what it is here."""


def _number(value: str, unit: str) -> tuple[float, float] | None:
    """Lower and upper end of a printed figure, in the library's units; None where it is no such number."""
    found = re.fullmatch(r"([\d.]+)(?:\s*-\s*([\d.]+))?", value.strip())
    if not found:
        return None
    ends = [float(found[1]), float(found[2] or found[1])]
    rate = re.fullmatch(r"([KMGT]?)bit/s", unit)
    scaled = [to_bps(v, rate[1], "bit") if rate else to_us(v, unit) for v in ends]
    return scaled[0], scaled[1]


def published_levels(figures: pd.DataFrame, metric: str, runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Published figures of a metric as levels, and one's own below them.

    Parameters
    ----------
    figures : DataFrame
        As `load_published` gives it.
    metric : str
        Of the table of runs.
    runs : DataFrame, optional
        One's own table of runs.

    Returns
    -------
    DataFrame
        ``condition``, ``n``, ``median``, ``low``, ``high``, ``source``: a published figure has n 1 and no interval.

    Raises
    ------
    UsageError
        Nobody published this metric.
    """
    import pandas as pd

    names = [name for name, ours in METRICS.items() if ours == metric]
    if not names:
        raise UsageError(f"no published figure is of {metric!r} (published: {', '.join(METRICS.values())})")
    rows: list[dict[str, Any]] = []
    for r in figures[figures["metric"].isin(names)].itertuples():
        row: Any = r
        ends = _number(str(row.value), str(row.unit))
        if ends is None:
            continue
        words = [str(row.path)]
        if not pd.isna(row.accelerated) and not row.accelerated:
            words.append("no accelerated networking")
        if not pd.isna(row.streams) and row.streams != 1:
            words.append(f"{row.streams} streams")
        span = (None, None) if ends[0] == ends[1] else ends
        rows.append(
            {"condition": ", ".join(words), "n": 1, "median": sum(ends) / 2, "low": span[0], "high": span[1]}
            | {"source": str(row.source)}
        )
    own = []
    if runs is not None:
        try:
            own = levels(select(runs, metric), metric).assign(source="this experiment").to_dict("records")
        except NothingToReport:
            own = []
    kept = ["condition", "n", "median", "low", "high", "source"]
    return pd.DataFrame([*rows, *own], columns=kept)
