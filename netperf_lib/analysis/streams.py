"""One stream and many: how many streams fill a path, what limits a stream's window, and which buffer it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import NothingToReport, StatsError
from ..metrics import ALPHA, METRICS, format_value, in_words, plural, rounds_required
from .intervals import Rounds
from .median_ci import Level, level
from .observe import Data, Observations, level_names, observe, parts
from .result import Floats, Statement, check_share, numbers, percent, value_words
from .runs import table_of
from .tables import Table
from .words import Words

PAGE = 4096
LARGEST_BUFFER = 2**31 - 1
"""The kernel keeps the limits of buffers in a signed 32-bit number."""
DEFAULT = "tcp_buffer_default_bytes"
COSTS = {
    "retransmits_count": ("{} instead of {} retransmitted segments", 10.0),
    "rtt_loaded_us": ("{} instead of {} round trip under load", 1.2),
}
"""What too many streams raise, in words, and from which ratio on that is said."""


# -- how many streams ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Streams(Statement):
    """How throughput grows with parallel streams.

    Attributes
    ----------
    enough : int or None
        Smallest number of streams shown to reach `share` of the best; None without a verdict.
    best : int
        Number of streams with the highest median.
    share : float
    levels : mapping of int to Level
        Throughput at each number of streams, bits per second.
    n : int
        Whole rounds.
    advertised : Level or None
        Share of the advertised bandwidth at the best number of streams.
    reason : str
        Why none is called enough.
    """

    enough: int | None
    best: int
    share: float
    levels: Mapping[int, Level]
    n: int
    advertised: Level | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        """The result in a few sentences."""
        best = value_words(self.levels[self.best].median, "bps")
        text = f"no verdict on how many streams are enough: {self.reason}"
        if self.enough is not None:
            reach = "reaches" if self.enough == 1 else "reach"
            text = f"{plural(self.enough, 'stream')} {reach} {percent(self.share)} of the best "
            text += f"throughput ({best} with {self.best})"
        if self.enough == max(self.levels) > 1:
            text += "; more than were measured may still be faster"
        if a := self.advertised:
            text += f"; {percent(a.median)} of the advertised bandwidth "
            text += f"({percent(a.low)} to {percent(a.high)}, {percent(a.confidence)})"
        return text


def enough_and_best(rates: Floats, share: float, alpha: float) -> tuple[int | None, int]:
    """Index of the smallest level shown to reach `share` of every other one, and of the one with the highest median.

    The rates are (rounds, levels), by increasing number of streams. A level is enough where its ratio to each other
    level is shown to exceed `share`, by one-sided signed-rank bounds. All of them must hold, so each is tested at the
    full level (intersection-union test, Berger, Technometrics 24 (1982) 295-300); any of the levels may be named, so
    they share alpha (Bonferroni). That holds whichever level is the best.
    """
    logs = np.log(rates)
    levels = range(rates.shape[1])
    tail = alpha / max(1, len(levels) - 1)

    def enough(k: int) -> bool:
        ratios = (logs[:, k] - logs[:, j] for j in levels if j != k)
        return all(Rounds(d).interval(2 * tail)[0] > math.log(share) for d in ratios)

    return next(filter(enough, levels), None), int(np.argmax(np.median(rates, axis=0)))


def streams(
    throughput: Mapping[int, npt.ArrayLike],
    *,
    share: float = 0.95,
    alpha: float = ALPHA,
    advertised_bps: float | None = None,
) -> Streams:
    """Return how many parallel streams are enough.

    Parameters
    ----------
    throughput : mapping of int to array_like, shape (rounds,)
        Number of streams to bits per second by round. Rounds with a missing level (NaN) are left out.
    share : float, default 0.95
        Share of the best throughput that is enough.
    alpha : float, default 0.05
        Chance of falsely calling a number of streams enough.
    advertised_bps : float, optional
        Advertised bandwidth of the VM size.

    Raises
    ------
    StatsError
        Numbers of rounds that differ, or values that are not a throughput.

    Examples
    --------
    >>> streams({1: [1e9] * 8, 2: [1.9e9] * 8, 4: [2e9] * 8}).enough
    4
    """
    check_share(share, "share")
    check_share(alpha, "alpha", below=0.25)
    counts = sorted(throughput)
    columns = [numbers(throughput[k], f"throughput of {plural(k, 'stream')}") for k in counts]
    if len({x.size for x in columns}) != 1:
        raise StatsError("give a throughput for each round at every number of streams")
    rates = np.column_stack(columns)
    if not rates.size or (rates <= 0).any():
        raise StatsError("throughput must be above zero; a failed run is a missing value")
    complete = rates[np.isfinite(rates).all(axis=1)]
    n, need = len(complete), rounds_required(2 * alpha, max(1, len(counts) - 1))
    smallest, top = None, int(np.argmax(np.nanmedian(rates, axis=0)))
    reason = f"{plural(n, 'whole round')}, at least {need} are needed ({need - n} more)"
    if n >= need:
        smallest, top = enough_and_best(complete, share, alpha)
        reason = f"no number is shown to reach {percent(share)} of all others in {n} rounds"
    return Streams(
        enough=None if smallest is None else counts[smallest],
        best=counts[top],
        share=share,
        levels={k: level(x, metric="throughput_bps") for k, x in zip(counts, columns, strict=True)},
        n=n,
        advertised=level(columns[top] / advertised_bps) if advertised_bps else None,
        reason="" if smallest is not None else reason,
    )


def advertised_bps(data: Any, gbps: float | None = None) -> float | None:
    """Advertised bandwidth of the smallest VM in bit/s: as given in Gbit/s, else as the experiment declares it.

    Examples
    --------
    >>> npl.analysis.advertised_bps(exp, 12.5)
    12500000000.0
    """
    if gbps:
        return gbps * 1e9
    runs = table_of(data)
    advertised = runs["advertised_bps"].dropna() if "advertised_bps" in runs else ()
    return float(min(advertised)) if len(advertised) else None


def saturation(
    data: Data,
    metric: str | None = None,
    *,
    share: float = 0.95,
    advertised_bps: float | None = None,
) -> dict[str, Streams]:
    """Return how many streams are enough for each condition.

    `share` of the best throughput counts as saturated. A condition that cannot be fitted is left out. The metric is by
    default the throughput at the receiver.

    Examples
    --------
    >>> {fit.enough for fit in npl.analysis.saturation(exp).values()}
    {4}
    """
    check_share(share, "share")
    inside = getattr(data, "observations", data)
    if not isinstance(inside, Observations):
        inside = observe(data, metric or "throughput_bps", "streams")
    fits = {}
    for name, rows in _by_path(inside).items():
        wide = rows.pivot_table(
            index=["unit", "round"], columns="streams", values="value", aggfunc="median"
        )
        with suppress(StatsError):
            rates = {int(k): wide[k].to_numpy(float) for k in wide.columns}
            fits[name] = streams(rates, share=share, advertised_bps=advertised_bps)
    return fits


def _by_path(obs: Observations) -> dict[str, pd.DataFrame]:
    """What was observed on each path with several numbers of streams, which are a column."""
    found = {}
    for path, part in parts(obs, [f for f in obs.by if f != "streams"]).items():
        rows, streams = part.complete, part.conditions.get("streams", pd.Series())
        rows = rows.assign(streams=rows["condition"].astype(object).map(streams))
        if rows["streams"].nunique() > 1:  # noqa: PD101
            found[path] = rows
    if not found:
        raise NothingToReport(
            f"streams does not vary in any condition with a value of {obs.metric}"
        )
    return found


def filling(obs: Observations, path: str, fit: Streams) -> list[str]:
    """How many streams fill a path, and what the most that were measured cost: two sentences."""
    enough, most = fit.enough or 0, max(fit.levels)
    fill = "fills" if enough == 1 else "fill"
    share = f"(at least {percent(fit.share)} of the best)"
    first = f"{plural(enough, 'stream')} {fill} the path {share}"
    if enough == most:
        return [first, "more than were measured may carry more"]
    rows, runs = _by_path(obs)[path], obs.runs.set_index("run_id")
    costs = []
    for name in COSTS if len(runs) else ():
        if name not in runs:
            continue
        sentence, ratio = COSTS[name]
        by_streams = runs[name].groupby(rows.set_index("run_id")["streams"]).median()
        few, many = by_streams.get(enough, math.nan), by_streams.get(most, math.nan)
        if many > ratio * max(few, 1):
            figures = (format_value(v, METRICS[name].unit) for v in (many, few))
            costs.append(sentence.format(*figures))
    cost = f" and cost {in_words(costs)}" if costs else ""
    return [first, f"{plural(most, 'stream')} give no more{cost}"]


def filled_paths(obs: Observations) -> list[str]:
    """For each ladder of three steps and more a line: how many streams fill its path, and what more cost."""
    if obs.asked != ("streams",) or obs.unit != "bps":
        return []
    fits = saturation(obs)
    ladder = {p: fit for p, fit in fits.items() if len(fit.levels) > 2 and fit.enough is not None}
    return [f"{path}: {'. '.join(filling(obs, path, fit))}." for path, fit in ladder.items()]


# -- which buffer --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BufferAdvice(Statement):
    """Which TCP buffer a rate needs, and how to set it.

    Attributes
    ----------
    target_bps, rtt_us : float
        The rate wanted from one stream, and the round-trip time that it sees under load.
    eta : float
        Share of the buffer that is in flight.
    buffer_bytes : int
        Largest buffer to allow, in whole pages.
    """

    target_bps: float
    rtt_us: float
    eta: float
    buffer_bytes: int

    @property
    def sysctl(self) -> tuple[str, ...]:
        """Lines for ``/etc/sysctl.d``, for both ends."""
        size = self.buffer_bytes
        return (
            f"net.core.rmem_max = {size}",
            f"net.core.wmem_max = {size}",
            # least, default and largest; the first two are the kernel's own defaults
            f"net.ipv4.tcp_rmem = 4096 131072 {size}",
            f"net.ipv4.tcp_wmem = 4096 16384 {size}",
        )

    @property
    def words(self) -> str:
        """The advice in a sentence."""
        size = format_value(self.buffer_bytes, "bytes", 4)
        rate, rtt = format_value(self.target_bps, "bps"), format_value(self.rtt_us, "us")
        return (
            f"one stream needs a TCP buffer of {size} for {rate} at a round-trip time of {rtt} "
            f"({percent(self.eta)} of a buffer is in flight)"
        )

    @property
    def basis(self) -> str:
        """The lines of sysctl."""
        return "; ".join(self.sysctl)


def buffer_needed(target_bps: float, rtt_us: float, eta: float = 0.5) -> BufferAdvice:
    """Return the TCP buffer that one stream needs for a rate, and the sysctl lines that allow it.

    Parameters
    ----------
    target_bps : float
        Rate wanted, bits per second.
    rtt_us : float
        Round-trip time under load, microseconds.
    eta : float, default 0.5
        Share of the buffer that is in flight; `ask_windows` measures it. Linux keeps half a receive buffer for its own
        bookkeeping by default (``tcp_adv_win_scale`` = 1).

    Raises
    ------
    StatsError
        A value that is not above zero, or a buffer larger than any kernel accepts.

    Examples
    --------
    >>> advice = npl.analysis.buffer_needed(10e9, 30_000, eta=0.5)
    >>> advice.buffer_bytes
    75001856
    >>> advice.sysctl[2]
    'net.ipv4.tcp_rmem = 4096 131072 75001856'
    """
    for name, v in {"target_bps": target_bps, "rtt_us": rtt_us, "eta": eta}.items():
        if not (v > 0 and math.isfinite(v)):
            raise StatsError(f"{name} must be above zero; got {v!r}")
    size = math.ceil(target_bps * rtt_us * 1e-6 / 8 / eta / PAGE) * PAGE
    if size > LARGEST_BUFFER:
        rate, rtt = format_value(target_bps, "bps"), format_value(rtt_us, "us")
        raise StatsError(
            f"{rate} at {rtt} needs a buffer of {format_value(size, 'bytes')}, "
            "more than Linux accepts (2 GiB): use several streams"
        )
    return BufferAdvice(target_bps=target_bps, rtt_us=rtt_us, eta=eta, buffer_bytes=size)


@dataclass(frozen=True, slots=True)
class Buffers:
    """Fit of the bandwidth-delay product model: throughput = min(cap, eta · window / RTT).

    Attributes
    ----------
    eta : Level or None
        Share of the buffer in flight; None if no buffer is the limit.
    cap : Level or None
        Throughput that no buffer exceeds, bits per second; None if it was not reached.
    off : dict of int to float
        Buffer sizes whose typical throughput is more than a tenth off the model, and by which ratio.
    """

    eta: Level | None
    cap: Level | None
    off: Mapping[int, float]

    @property
    def words(self) -> str:
        """The result in a few sentences."""
        parts = ["no buffer size limits the throughput"]
        if e := self.eta:
            bounds = f"{percent(e.low)} to {percent(e.high)}, {percent(e.confidence)}"
            parts = [f"{percent(e.median)} of a buffer is in flight ({bounds})"]
        most = "the largest buffer still limits"
        if c := self.cap:
            value, low, high = (value_words(v, "bps") for v in (c.median, c.low, c.high))
            most = f"larger buffers stop helping at {value} ({low} to {high})"
        off = ", ".join(format_value(size, "bytes") for size in self.off)
        fit = f"the data do not confirm this model at {off}" if off else ""
        return "; ".join(
            filter(
                None,
                [*parts, most, fit or "the model is within 10 % of the data at every buffer size"],
            )
        )


def window_fit(x: Floats, y: Floats) -> tuple[float, float]:
    """Fit y = min(cap, eta + x), all logs: the best of all splits into points limited by the window and by the cap.

    x is window / RTT and y the throughput, both in bits per second. What the data do not determine is infinite (no
    point is limited by the window; all are). Least absolute deviations, so that one odd buffer size does not bend the
    rest. A second limit must be justified by Schwarz's criterion (Ann. Statist. 6 (1978) 461-464, here with
    double-exponential errors).
    """
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    n = x.size
    best = (math.inf, math.inf, math.inf)
    for k in range(n + 1):
        if 0 < k < n and x[k] == x[k - 1]:
            continue  # equal windows are limited alike
        eta = float(np.median(y[:k] - x[:k])) if k else math.inf
        cap = float(np.median(y[k:])) if k < n else math.inf
        error = float(np.abs(y - np.minimum(cap, eta + x)).sum())
        score = 2 * n * math.log(error + 1e-9) + math.log(n) * (2 if 0 < k < n else 1)
        best = min(best, (score, eta, cap))
    return best[1], best[2]


def buffers(runs: pd.DataFrame) -> Buffers:
    """Compare the bandwidth-delay product model with measured throughput.

    eta and cap are fitted in each round and then given as levels over the rounds: a fit over all runs at once would
    take runs of one round as independent.

    Parameters
    ----------
    runs : DataFrame
        Runs of one stream: ``tcp_buffer_bytes``, ``throughput_bps``, ``rtt_loaded_us``, ``deployment``, ``round``.

    Raises
    ------
    StatsError
        Fewer than two buffer sizes with values.
    """
    names = ["tcp_buffer_bytes", "throughput_bps", "rtt_loaded_us"]
    runs = runs[(runs[names] > 0).all(axis=1)]
    if runs["tcp_buffer_bytes"].nunique() < 2:
        raise StatsError("it needs two buffer sizes with a round-trip time")
    size, rate, rtt = (runs[name].to_numpy(float) for name in names)
    x, y = np.log(8e6 * size / rtt), np.log(rate)
    rounds = runs.groupby(["deployment", "round"], dropna=False).ngroup().to_numpy()
    fitted = np.array([window_fit(x[rounds == r], y[rounds == r]) for r in np.unique(rounds)])
    eta, cap = np.median(fitted, axis=0)
    misses = y - np.minimum(cap, eta + x)
    typical = {int(b): float(np.median(misses[size == b])) for b in np.unique(size)}
    off = {b: math.exp(miss) for b, miss in typical.items() if abs(miss) > math.log(1.1)}
    # a limit counts when most rounds show it
    limits = [np.exp(v[np.isfinite(v)]) for v in fitted.T]
    share, most = (level(v) if 2 * len(v) > len(fitted) else None for v in limits)
    return Buffers(share, most, off)


@dataclass(frozen=True, slots=True)
class Windows:
    """Whether the window limits a stream, and which buffer a path needs.

    Attributes
    ----------
    fit : Buffers or None
        The model; None where fewer than two sizes are known.
    needs : Table
        ``path``, ``rtt_loaded_us``, ``buffer``: the buffer that a stream needs for the target.
    words : Words
        The model, in sentences.
    settings : Words
        The sysctl lines for the path that needs the largest buffer; empty if no round trip is known.
    """

    fit: Buffers | None
    needs: Table
    words: Words
    settings: Words


def ask_windows(data: Data, target_gbps: float, *, eta: float | None = None) -> Windows:
    """Return which TCP buffer a stream needs.

    Parameters
    ----------
    data : what `observe` takes
        The experiment. Transfers of one stream are used, except those that only fill the path for another test.
    target_gbps : float
        Throughput wanted for one stream, in Gbit/s.
    eta : float, optional
        Share of a buffer that is in flight; default: estimated from the data, else one half.

    Raises
    ------
    NothingToReport
        There is no run of one stream with a throughput.

    Examples
    --------
    >>> npl.analysis.ask_windows(exp, 1.0).needs["path"].nunique()
    5
    """
    obs = observe(data, "throughput_bps", where={"streams": 1})
    if "during" in obs.by and None in set(obs.conditions["during"]):
        obs = observe(data, "throughput_bps", where={"streams": 1, "during": None})
    paths = level_names(obs, [f for f in obs.by if f != "tcp_buffer_bytes"])
    runs = obs.runs.assign(path=obs.runs["condition"].astype(str).map(paths))
    default = ""
    if DEFAULT in runs:
        sizes = runs.loc[runs["tcp_buffer_bytes"].isna(), DEFAULT].dropna().unique()
        named = " or ".join(format_value(float(s), "bytes") for s in sizes)
        default = f" The default buffer of these hosts is {named}." if named else ""
        runs["tcp_buffer_bytes"] = runs["tcp_buffer_bytes"].fillna(runs[DEFAULT])
    timed = runs[runs["rtt_loaded_us"].notna()]
    fit, path = None, timed.groupby("path")["tcp_buffer_bytes"].nunique()
    try:
        best = str(path.idxmax()) if len(path) else ""
        fit = buffers(timed[timed["path"] == best])
        model = f"On {best}: {fit.words}."
    except StatsError as error:
        model = f"The model of the window is not fitted: {error}."
    used = eta or (fit.eta.median if fit and fit.eta else 0.5)
    # a buffer beyond the need fills a queue, which makes the round trip longer: the shortest one counts
    by_buffer = timed.groupby(["path", timed["tcp_buffer_bytes"].fillna(0)])["rtt_loaded_us"]
    shortest = by_buffer.median().groupby("path").min().astype(float)
    needs = {str(p): buffer_needed(target_gbps * 1e9, rtt, used) for p, rtt in shortest.items()}
    rows = [(p, need.rtt_us, format_value(need.buffer_bytes, "bytes")) for p, need in needs.items()]
    settings: list[str] = []
    if needs:
        far = max(needs, key=lambda p: needs[p].buffer_bytes)
        rate = format_value(target_gbps * 1e9, "bps")
        settings = [f"For {rate} over {far}, set on both ends:"]
        settings += [f"- {line}" for line in needs[far].sysctl]
    heads = {"path": "Path", "rtt_loaded_us": "Round trip under load", "buffer": "Buffer needed"}
    caption = f"Buffer that one stream needs on each path for {target_gbps:g} Gbit/s, at the "
    caption += "shortest round trip under load."
    table = Table.of(pd.DataFrame(rows, columns=list(heads)), caption, columns=heads)
    return Windows(fit, table, Words(model + default), Words("\n".join(settings)))
