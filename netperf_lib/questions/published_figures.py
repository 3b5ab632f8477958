"""Published figures, for comparison with your own: figures of single runs, as printed and as numbers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pandas as pd

from ..data.shipped import shipped
from ..errors import NothingToReport, UsageError
from ..experiment.attached import attached
from ..experiment.factors import level_words
from ..metrics import format_span, format_value, to_bps, to_bytes, to_us
from .families import of_main_tool
from .observe import Data, Observations, levels
from .runs import table_of
from .tables import Table
from .words import Headline

METRICS = {
    "one-way latency": "latency_oneway_us",
    "round-trip latency": "rtt_us",
    "throughput at the receiver": "throughput_bps",
    "throughput at the sender": "throughput_sent_bps",
    "cwnd": "cwnd_max_bytes",
}
"""A published figure's name for a metric, and the name of the metric here."""
ENDS = {"throughput_bps", "throughput_sent_bps"}
"""The rates at both ends of a path: the page of one shows the figures of both."""
HEADS = {
    "path": "Path",
    "condition": "Condition",
    "accelerated": "Accelerated",
    "streams": "Streams",
    "tool": "Tool",
    "metric": "Metric",
    "printed": "Printed",
    "note": "Note",
}


def load_published() -> pd.DataFrame:
    """Load figures published by others, one per row, each with the condition it was measured under.

    Columns: `source`, `path`, `accelerated`, `streams`, `tool`, `metric`, `value` and `unit` as printed, `raw_log`
    (where it was published; relative to ``.attrs["path"]``, the folder with the raw logs), `note`.
    """
    folder = shipped("data", "published")
    figures = pd.read_csv(folder / "figures.tsv", sep="\t", dtype=str, keep_default_na=False)
    figures = figures.replace("", None).astype({"streams": "Int64"})
    figures["accelerated"] = (
        figures["accelerated"].map({"on": True, "off": False}).astype("boolean")
    )
    figures.attrs["path"] = str(folder)
    return figures


def published(source: str | None = None) -> pd.DataFrame:
    """Published figures, of one source or of all; raises NothingToReport if there is no such source.

    Examples
    --------
    >>> npl.questions.published("azure-eastasia-d8sv3")["path"].iloc[0]
    'direct'
    """
    figures = load_published()
    sources = sorted(figures["source"].unique())
    if source is not None and source not in sources:
        raise NothingToReport(
            f"there is no source {source!r}; the sources are {', '.join(sources)}"
        )
    return figures if source is None else figures[figures["source"] == source]


_PATHS = {
    "direct": "same-zone",
    "cross-region-pip": "public-ip",
    "cross-region-vpn": "vpn",
    "cross-region-peering": "cross-region",
    "cross-region-er": "expressroute",
}
"""A published path whose placement has another name here."""
_BUFFERS = {
    "128 MB buffers": 131072000,
    "buffers of 131072000 bytes": 131072000,
    "default buffers": None,
}


def published_beside(data: Data, metric: str | None = None) -> Table:
    """Published figures beside your own, condition by condition, for one metric or all.

    A condition matches a figure of the same metric if its placement (or its two hosts), streams, buffers and
    acceleration are those that the source names.

    Returns
    -------
    DataFrame
        ``condition``, ``metric``, ``source``, ``published``, ``here`` (median with interval), ``here / published``; no
        rows where nothing matches, or where hosts are emulated.

    Examples
    --------
    >>> len(npl.questions.published_beside(exp.runs))
    0
    """
    rows: list[tuple[str, ...]] = []
    runs = table_of(data)
    if (attached(runs).declared.get("hosts") or {}).get("source") == "lab":
        runs = runs.iloc[:0]  # nothing of a real cloud is to be expected of it
    figures = load_published()
    for name, ours in METRICS.items():
        chosen = metric in (None, ours) or {metric, ours} == ENDS
        if not chosen or ours not in runs or not runs[ours].notna().any():
            continue
        obs = of_main_tool(runs, ours)
        listed: Any = figures[figures["metric"] == name].itertuples()
        for figure in listed:
            value = _number(str(figure.value), str(figure.unit))
            matches = [c for c in obs.names if _matches(obs, c, figure)] if value else []
            rows += [_beside(obs, c, figure, sum(value or ()) / 2) for c in matches]
    heads = ["condition", "metric", "source", "published", "here", "here / published"]
    caption = "Published figures of the same conditions, and what was measured here."
    return Table.of(pd.DataFrame(rows, columns=heads), caption)


def _beside(obs: Observations, condition: str, figure: Any, value: float) -> tuple[str, ...]:
    median, low, high = (obs.value(condition, c) for c in ("median", "low", "high"))
    here = format_value(median, obs.unit)
    if obs.value(condition, "n") > 1:
        here += f" ({format_span(low, high, obs.unit)})"
    printed = f"{figure.value} {figure.unit}".replace(" us", " µs")
    source = figure.source
    if obs.fact(condition, "accelerated") is None and not pd.isna(figure.accelerated):
        source += f", {level_words('accelerated', bool(figure.accelerated))}"  # ours may be either
    return condition, figure.metric, source, printed, here, f"{median / value:#.3g}"


def _matches(obs: Observations, condition: str, figure: Any) -> bool:
    """Whether a published figure was measured under this condition, as far as the source says."""
    region = obs.fact(condition, "client_region")
    if region is not None and str(figure.source).split("-")[1] not in str(region):
        return False
    note = None if pd.isna(figure.condition) else str(figure.condition)
    ends = tuple(obs.fact(condition, side) for side in ("client", "server"))
    path = _PATHS.get(str(figure.path), str(figure.path))
    if "-".join(map(str, ends)) != path and obs.fact(condition, "placement") != path:
        return False
    if note is not None and note not in _BUFFERS and note.lower() not in str(region):
        return False  # a gateway or circuit that has no name here
    wish = {
        "accelerated": None if pd.isna(figure.accelerated) else bool(figure.accelerated),
        "streams": None if pd.isna(figure.streams) or obs.unit == "us" else int(figure.streams),
        "tcp_buffer_bytes": _BUFFERS.get(note or ""),
    }
    for factor_name in ("accelerated", "streams"):
        level = obs.fact(condition, factor_name)
        if wish[factor_name] is not None and level is not None and level != wish[factor_name]:
            return False
    buffer = obs.fact(condition, "tcp_buffer_bytes")
    return obs.unit == "us" or buffer == wish["tcp_buffer_bytes"]


def published_words(figures: pd.DataFrame) -> Headline:
    """How many figures from how many sources, in a sentence.

    Examples
    --------
    >>> npl.questions.published_words(npl.questions.published())
    '66 published figures from 6 sources, 15 of them with the log that they were taken from.'
    """
    logged = int(figures["raw_log"].notna().sum())
    return Headline(
        f"{len(figures)} published figures from {figures['source'].nunique()} sources, {logged} of them with the log "
        "that they were taken from."
    )


def published_metrics(figures: pd.DataFrame) -> list[str]:
    """Metrics of the published figures.

    Examples
    --------
    >>> npl.questions.published_metrics(npl.questions.published())
    ['latency_oneway_us', 'rtt_us', 'throughput_bps', 'throughput_sent_bps', 'cwnd_max_bytes']
    """
    return [ours for name, ours in METRICS.items() if (figures["metric"] == name).any()]


def published_table(figures: pd.DataFrame) -> Table:
    """Figures as they were published, with the columns that the source provides.

    Examples
    --------
    >>> npl.questions.published_table(npl.questions.published("azure-eastasia-d8sv3"))["Printed"].iloc[0]
    '3.65 Gbit/s'
    """
    listed = figures.assign(
        printed=(figures["value"] + " " + figures["unit"].fillna("")).str.strip()
    )
    names = [c for c in HEADS if listed[c].notna().any()]
    sources = " and ".join(dict.fromkeys(figures["source"]))
    caption = f"Every figure of {sources}, as it was printed; a dash: the source does not say."
    return Table.of(listed[names].rename(columns=HEADS), caption)


def _number(value: str, unit: str) -> tuple[float, float] | None:
    """Lower and upper end of a printed figure, in the library's units; None if it is not such a number."""
    match = re.fullmatch(r"([\d.]+)(?:\s*-\s*([\d.]+))?", value.strip())
    if not match:
        return None
    ends = [float(match[1]), float(match[2] or match[1])]
    if unit.endswith("bit/s"):
        low, high = (to_bps(v, unit.removesuffix("bit/s"), "bit") for v in ends)
    elif unit.endswith("B"):
        low, high = (to_bytes(v, unit.removesuffix("B")) for v in ends)
    else:
        low, high = (to_us(v, unit) for v in ends)
    return low, high


def published_levels(figures: pd.DataFrame, metric: str, data: Data | None = None) -> pd.DataFrame:
    """Published figures of a metric as levels, and your own below them.

    ``condition``, ``n``, ``median``, ``low``, ``high``, ``source``: a published figure has n 1 and no interval.
    Raises UsageError if no source published this metric.

    Examples
    --------
    >>> figures = npl.questions.published("azure-eastasia-d8sv3")
    >>> float(npl.questions.published_levels(figures, "latency_oneway_us")["median"].min())
    40.0
    """
    names = [name for name, ours in METRICS.items() if ours == metric]
    if not names:
        raise UsageError(
            f"no figure was published of {metric!r} (published: {', '.join(METRICS.values())})"
        )
    rows: list[Any] = []
    listed: Any = figures[figures["metric"].isin(names)].itertuples()
    for row in listed:
        ends = _number(str(row.value), str(row.unit))
        if ends is None:
            continue
        words = [str(row.path)]
        if not pd.isna(row.condition):
            words.append(str(row.condition))
        if not pd.isna(row.accelerated):
            words.append(
                "accelerated networking" if row.accelerated else "no accelerated networking"
            )
        if not pd.isna(row.streams) and row.streams != 1:
            words.append(f"{row.streams} streams")
        span = (None, None) if ends[0] == ends[1] else ends
        rows.append(
            {
                "condition": ", ".join(words),
                "n": 1,
                "median": sum(ends) / 2,
                "low": span[0],
                "high": span[1],
            }
            | {"source": str(row.source)}
        )
    if data is not None:
        with suppress(NothingToReport):
            rows += (
                levels(data, metric)
                .reset_index()
                .assign(source="this experiment")
                .to_dict("records")
            )
    return pd.DataFrame(rows, columns=["condition", "n", "median", "low", "high", "source"])
