"""Further questions of single pages: network cards, advertised bandwidth, load, steadiness, windows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport, StatsError
from ..experiment.placements import PLACES
from ..metrics import format_value
from ..metrics import metric as metric_of
from ..stats import Buffers, Quantiles, Streams, buffer_needed, buffers, by_round, diagnose, streams, warmup
from ..stats.steady_state import kept
from .conditions import label, levels, ok_runs, select
from .conditions import shift as shift_of
from .history import ask_history
from .question import headline_metrics

if TYPE_CHECKING:
    import pandas as pd

LEAST, LEAST_OF_CHANGES = 6, 30
"""Fewest runs with which drift can be tested, and those with which changes of level are looked for."""


def network_cards(runs: pd.DataFrame) -> pd.DataFrame:
    """Network cards as the guests saw them, by condition of `select`; no row if nothing was recorded."""
    found = runs.groupby("condition", observed=True)[["nic_driver", "vf_up"]].first()
    found = found.dropna(how="all").reset_index()
    return found.set_axis(["condition", "driver", "virtual_function_up"], axis=1)


def advertised_bps(runs: pd.DataFrame, gbps: float | None = None) -> float | None:
    """Advertised bandwidth of the smallest VM in bit/s: as given in Gbit/s, else as the experiment declares it."""
    if gbps:
        return gbps * 1e9
    known = runs["advertised_bps"].dropna() if "advertised_bps" in runs else ()
    return float(min(known)) if len(known) else None


def steadiness(runs: pd.DataFrame, metrics: list[str]) -> str:
    """Conditions whose runs drift, change their level or depend on each other, in sentences."""
    runs = runs.reset_index(drop=True)
    chosen = {metric: select(runs, metric) for metric in metrics}
    series = [(m, str(c), g) for m, kept in chosen.items() for c, g in kept.groupby("condition", observed=True)]
    place = runs.groupby([c for c in ("experiment", "deployment", "round") if c in runs])["order"].rank()
    lines = []
    for metric, condition, group in series:
        found = diagnose(group[metric].astype(float), order=place[group.index].astype(float), series=len(series))
        remarks = [found.words] if found.warnings else []
        if len(group) >= LEAST_OF_CHANGES:
            with contextlib.suppress(NothingToReport):
                points = ask_history(group, metric).changes
                remarks += [p.words(metric) for name in points for p in points[name]]
        if remarks:
            lines.append(f"- {metric_of(metric).label}, **{condition}**: {'; '.join(remarks)}.")
    if not metrics:
        return "No complete run has a value."
    if runs["started_utc"].isna().all():
        return "The order in time is not known, so drift cannot be seen."
    if all(len(group) < LEAST for _, _, group in series):
        return f"No condition has the {LEAST} runs that tests of drift need."
    return "\n".join(lines) or "No condition shows drift, changes of level or dependence beyond chance."


def places(runs: pd.DataFrame) -> list[str] | None:
    """Placements that are places, where there are several: ``ppg`` to ``cross-region``; else None, which is all."""
    found = [p for p in PLACES if p in set(ok_runs(runs)["placement"].dropna())]
    return found if len(found) > 1 else None


def ladders(runs: pd.DataFrame, metric: str, *, share: float, advertised_bps: float | None) -> dict[str, Streams]:
    """The result of `netperf_lib.stats.streams` for each condition; one that cannot be fitted is left out.

    The runs are as ``select(runs, metric, along="streams")`` gives them; `share` of the best throughput counts as
    saturated.
    """
    found = {}
    for name, group in runs.groupby("condition", observed=True):
        with contextlib.suppress(StatsError):
            found[str(name)] = streams(by_round(group, metric, "streams"), share=share, advertised_bps=advertised_bps)
    return found


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """The levels of conditions in a sentence, for a headline."""
    info = metric_of(metric)
    shown = ", ".join(
        f"{format_value(float(m), info.unit)} ({c})" for c, m in zip(table["condition"], table["median"], strict=True)
    )
    return f"{info.label}: {shown}."


def spread_words(runs: pd.DataFrame) -> str:
    """By how much single runs of the same condition differ, in the first headline metric."""
    metric = next(iter(headline_metrics(runs)), None)
    if metric is None:
        return "This experiment has no complete run to compare them with."
    chosen = select(runs, metric)
    spread = chosen.groupby("condition", observed=True)[metric].agg(lambda v: v.max() / v.min() - 1)
    quantity = metric_of(metric).label
    return (
        f"In this experiment the {quantity[:1].lower()}{quantity[1:]} of runs of the same condition differs by "
        f"up to {100 * spread.max():.2g} % ({spread.idxmax()}), and by {100 * spread.median():.2g} % in the median "
        "condition. Two published figures that differ by less may be the same condition measured twice."
    )


def interval_rows(runs: pd.DataFrame, intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals of the complete runs with a throughput, with their conditions; no row where there are none."""
    import pandas as pd

    found = []
    for metric in [m for m in headline_metrics(runs) if m.startswith("throughput")]:
        with contextlib.suppress(NothingToReport):
            found.append(label(kept(intervals), select(runs, metric)))
    return found[0] if len(found) == 1 else pd.concat(found) if found else intervals.head(0)


@dataclass(frozen=True, slots=True)
class Warmup:
    """The cut of the warm-up, None if none was found, and the sentence about it."""

    cut_s: float | None
    words: str
    seen: bool = False
    """Whether the intervals change within the runs, so a figure of them is useful."""


def warmup_of(intervals: pd.DataFrame) -> Warmup:
    """How long the warm-up takes, from labelled intervals."""
    if not len(intervals):
        return Warmup(None, "No tool reported intervals.")
    try:
        found = warmup(intervals, extra_s=0)
    except StatsError as error:
        return Warmup(None, f"The warm-up is not known: {error}.")
    seen = bool(found.moving) or max(found.cuts.values(), default=0) > 0
    return Warmup(None if found.flagged else found.cut_s, f"{found.words[:1].upper()}{found.words[1:]}.", seen)


def under_load_levels(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Levels of the path idle and while another tool fills it; no row if that was not measured."""
    if runs["during"].isna().any() and runs["during"].notna().any():
        with contextlib.suppress(NothingToReport):
            return levels(select(runs.drop(columns="condition"), metric, about="during"), metric)
    return levels(runs.head(0), metric)


def tail_metric(runs: pd.DataFrame) -> str:
    """The percentile that is judged: the 99th of one-way latency, else of the round trip."""
    kept = ok_runs(runs)
    for name in ("latency_oneway_p99_us", "rtt_p99_us"):
        if kept[name].notna().any():
            return name
    return "latency_oneway_p99_us"


def tail_shift(
    percentiles: pd.DataFrame, runs: pd.DataFrame, *, margin: float = 0.1, sides: Sequence[str] = ()
) -> Quantiles | None:
    """How two conditions differ at every percentile: `sides`, else the first two; None where there is one condition."""
    names = [str(c) for c in runs["condition"].cat.categories]
    names = list(sides) if len(sides) == 2 and set(sides) <= set(names) else names
    with contextlib.suppress(NothingToReport):
        return shift_of(label(percentiles, runs), names[0], names[1], margin=margin) if len(names) > 1 else None
    return None


def idle_and_loaded(runs: pd.DataFrame) -> pd.DataFrame:
    """Round-trip time of each path, idle and while a transfer fills it: medians of the runs, as text.

    The idle one is twice the one-way latency where no round trip was measured; the one under load is TCP's own
    estimate. They come from different tools, so the factor is rough. No row where no path has both.
    """
    import pandas as pd

    kept = ok_runs(runs)
    kept = kept[kept["during"].isna() & kept["placement"].notna()]  # what is not labelled is not a path
    by = ["placement", "accelerated"]
    idle_of = kept["rtt_us"].fillna(2 * kept["latency_oneway_us"])
    idle = idle_of.groupby([kept[b] for b in by], dropna=False).median()
    loaded = kept["rtt_loaded_us"].groupby([kept[b] for b in by], dropna=False).median()
    both = pd.DataFrame({"idle": idle, "under_load": loaded}).dropna().reset_index().sort_values("idle")
    each: Any = both.itertuples()
    rows = [
        [
            r.placement + (", no accelerated networking" if str(r.accelerated) == "False" else ""),
            format_value(float(r.idle), "us"),
            format_value(float(r.under_load), "us"),
            f"×{r.under_load / r.idle:.1f}",
        ]
        for r in each
    ]
    return pd.DataFrame(rows, columns=["path", "idle", "under_load", "factor"])


@dataclass(frozen=True, slots=True)
class Windows:
    """Whether the window limits a stream, and which buffer a path needs.

    Attributes
    ----------
    runs : DataFrame
        Runs of one stream, with the size of the default buffer filled in where the hosts reported it.
    fit : Buffers or None
        The model; None where fewer than two sizes are known.
    needs : DataFrame
        ``path``, ``rtt_loaded_us``, ``buffer``: the buffer that a stream needs for the target.
    words : str
        The model, in sentences.
    settings : str
        The lines of sysctl for the path that needs most; empty where no round trip is known.
    """

    runs: pd.DataFrame
    fit: Buffers | None
    needs: pd.DataFrame
    words: str
    settings: str


def ask_windows(
    runs: pd.DataFrame, target_gbps: float, *, eta: float | None = None, tool: str | None = None
) -> Windows:
    """Ask which TCP buffer a stream needs.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    target_gbps : float
        Throughput wanted from one stream, in Gbit/s.
    eta : float, optional
        Share of a buffer that is in flight; default: estimated from the data, else one half.
    tool : str, optional
        Only runs of this tool.

    Raises
    ------
    NothingToReport
        There is no run of one stream with a throughput.
    """
    import pandas as pd

    metric = "throughput_bps"
    single = select(runs, metric, tool=tool, streams=1)
    default = "tcp_buffer_default_bytes"
    filled = single.copy()
    filled.attrs = single.attrs
    told = ""
    if default in single and single[default].notna().any():
        filled["tcp_buffer_bytes"] = single["tcp_buffer_bytes"].fillna(single[default])
        sizes = single.loc[single["tcp_buffer_bytes"].isna(), default].dropna().unique()
        if len(sizes):
            told = (
                f" The default buffer of these hosts is {' or '.join(format_value(float(s), 'bytes') for s in sizes)}."
            )
    loaded = filled[filled["rtt_loaded_us"].notna() & filled["tcp_buffer_bytes"].notna()]
    sizes_by_path = loaded.groupby("placement")["tcp_buffer_bytes"].nunique()
    fit, words = None, "The model of the window is not fitted: it needs two buffer sizes with a round-trip time."
    if len(sizes_by_path) and sizes_by_path.max() > 1:
        path = sizes_by_path.idxmax()
        try:
            fit = buffers(loaded[loaded["placement"] == path])
            words = f"On {path}: {fit.words}."
        except (StatsError, ValueError) as error:
            words = f"The model of the window is not fitted: {error}."
    used = eta or (fit.eta.median if fit and fit.eta else 0.5)
    rtts = filled[filled["rtt_loaded_us"].notna()]
    rows, most = [], None
    # a buffer beyond the need fills a queue, which makes the round trip longer: the shortest one counts
    plain = rtts["accelerated"].astype(str) == "False"
    mixed = plain.groupby(rtts["placement"]).transform("nunique") > 1
    named: Any = rtts["placement"].astype(str) + (plain & mixed).map({True: ", no accelerated networking", False: ""})
    by_buffer = rtts["rtt_loaded_us"].groupby([named.rename("path"), rtts["tcp_buffer_bytes"].fillna(0)]).median()
    for name, rtt in by_buffer.groupby("path").min().items() if len(by_buffer) else ():
        need = buffer_needed(target_gbps * 1e9, float(rtt), used)
        rows.append([str(name), float(rtt), format_value(need.buffer_bytes, "bytes")])
        most = max(most or (0.0, "", ()), (need.buffer_bytes, str(name), tuple(need.sysctl)))
    wanted = format_value(target_gbps * 1e9, "bps")
    settings = (
        f"For {wanted} over **{most[1]}**, set on both ends:\n\n```\n" + "\n".join(most[2]) + "\n```" if most else ""
    )
    needs = pd.DataFrame(rows, columns=["path", "rtt_loaded_us", "buffer"])
    return Windows(filled, fit, needs, words + told, settings)
