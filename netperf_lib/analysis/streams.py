"""One stream and many.

How many streams fill a path, what limits a stream's window, and which buffer it needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import NothingToReport, StatsError
from ..metrics import ALPHA, format_value, plural, rounds_required
from .intervals import Rounds
from .median_ci import MedianInterval, level
from .observe import Data, Observations, level_names, observe
from .result import check_share, percent, value_words
from .runs import table_of
from .tables import Table
from .words import Words

PAGE = 4096
LARGEST_BUFFER = 2**31 - 1
"""The kernel keeps the limits of buffers in a signed 32-bit number."""
DEFAULT_BUFFER = "tcp_buffer_default_bytes"

# -- how many streams ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Streams:
    """How throughput grows with parallel streams.

    Attributes
    ----------
    enough : int or None
        Smallest number of streams shown to reach `share` of the best; None without a verdict.
    share : float
    counts : list of int
        The numbers of streams.
    n : int
        Whole rounds.
    words : str
        The result in a few sentences.
    """

    enough: int | None
    share: float
    counts: list[int]
    n: int
    words: str


def streams(wide: pd.DataFrame, *, share: float = 0.95, alpha: float = ALPHA) -> Streams:
    """Return how many parallel streams are enough.

    A number is enough where its ratio to each other one is shown to exceed `share`, by one-sided
    signed-rank bounds. All of them must hold, so each is tested at the full level
    (intersection-union test, Berger, Technometrics 24 (1982) 295-300); any of the numbers may be
    named, so they share alpha (Bonferroni). That holds whichever is the best.

    Parameters
    ----------
    wide : DataFrame
        Bits per second: rounds down, numbers of streams across. Rounds with a missing value are
        left out.
    share : float, default 0.95
        Share of the best throughput that is enough.
    alpha : float, default 0.05
        Chance of falsely calling a number of streams enough.

    Examples
    --------
    >>> streams(pd.DataFrame({1: [1e9] * 8, 2: [1.9e9] * 8, 4: [2e9] * 8})).enough
    4
    """
    wide = wide.where(wide > 0).sort_index(axis=1)
    counts = list(map(int, wide.columns))
    logs = np.log(wide.dropna())
    n, others = len(logs), max(1, len(counts) - 1)
    need = rounds_required(2 * alpha, others)

    def is_enough(k: int) -> bool:
        ratios = (Rounds((logs[k] - logs[j]).to_numpy()) for j in counts if j != k)
        error = 2 * alpha / others
        return all(ratio.interval(error)[0] > math.log(share) for ratio in ratios)

    enough = next(filter(is_enough, counts), None) if n >= need else None
    best = wide.median().idxmax()
    if enough is not None:
        reach = f"{plural(enough, 'stream')} {'reaches' if enough == 1 else 'reach'}"
        most = f"{value_words(wide[best].median(), 'bps')} with {best}"
        text = f"{reach} {percent(share)} of the best throughput ({most})"
        last = enough == counts[-1] > 1
        text += "; more than were measured may still be faster" if last else ""
    else:
        text = f"no number is shown to reach {percent(share)} of all others in {n} rounds"
        if n < need:
            text = f"{plural(n, 'whole round')}, at least {need} are needed ({need - n} more)"
        text = f"no verdict on how many streams are enough: {text}"
    return Streams(enough, share, counts, n, text)


def advertised_bps(data: Any, gbps: float | None = None) -> float | None:
    """Return the advertised bandwidth of the smallest VM in bit/s.

    As given in Gbit/s, else as the experiment declares it.

    Examples
    --------
    >>> npl.analysis.advertised_bps(exp, 12.5)
    12500000000.0
    """
    if gbps:
        return gbps * 1e9
    smallest = table_of(data).get("advertised_bps", pd.Series(dtype=float)).min()
    return None if pd.isna(smallest) else float(smallest)


def saturation(
    data: Data, metric: str | None = None, *, share: float = 0.95
) -> dict[str, Streams]:
    """Return how many streams are enough for each condition.

    `share` of the best throughput counts as saturated. A condition that cannot be fitted is left
    out. The metric is by default the throughput at the receiver.

    Examples
    --------
    >>> {fit.enough for fit in npl.analysis.saturation(exp).values()}
    {4}
    """
    check_share(share, "share")
    obs = getattr(data, "observations", data)
    if not isinstance(obs, Observations):
        obs = observe(data, metric or "throughput_bps", "streams")
    paths = level_names(obs, [f for f in obs.by if f != "streams"])
    counts = {c: obs.at(c, "streams") for c in obs.names}
    rows = obs.complete.astype({"condition": object})
    rows = rows.assign(streams=rows["condition"].map(counts)).dropna(subset=["streams"])
    fits = {}
    for path in dict.fromkeys(paths.values()):
        part = rows[rows["condition"].map(paths) == path]
        wide = part.pivot_table("value", ["unit", "round"], "streams", aggfunc="median")
        if len(wide.columns) > 1:
            fits[path] = streams(wide, share=share)
    if not fits:
        raise NothingToReport(
            f"streams does not vary in any condition with a value of {obs.metric}"
        )
    return fits


def filled(obs: Observations) -> dict[str, tuple[int, list[str]]]:
    """Return how many streams fill each path with a ladder of three steps and more, in words."""
    found = {}
    for path, fit in saturation(obs).items() if obs.unit == "bps" else ():
        most = fit.counts[-1]
        if fit.enough is None or len(fit.counts) < 3:
            continue
        fill = "fills" if fit.enough == 1 else "fill"
        share = f"(at least {percent(fit.share)} of the best)"
        first = f"{plural(fit.enough, 'stream')} {fill} the path {share}"
        more = "more than were measured may carry more"
        if fit.enough < most:
            more = f"{plural(most, 'stream')} give no more"
        found[path] = fit.enough, [first, more]
    return found


# -- which buffer --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class BufferAdvice:
    """Which TCP buffer a rate needs, and how to set it.

    Attributes
    ----------
    buffer_bytes : int
        Largest buffer to allow, in whole pages.
    words : str
        The advice in a sentence.
    """

    buffer_bytes: int
    words: str

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

    def __repr__(self) -> str:
        return "\n".join([self.words, *(f"  {line}" for line in self.sysctl)])


def buffer_needed(target_bps: float, rtt_us: float, eta: float = 0.5) -> BufferAdvice:
    """Return the TCP buffer that one stream needs for a rate, and the sysctl lines that allow it.

    Parameters
    ----------
    target_bps : float
        Rate wanted, bits per second.
    rtt_us : float
        Round-trip time under load, microseconds.
    eta : float, default 0.5
        Share of the buffer that is in flight; `ask_windows` measures it. Linux keeps half a receive
        buffer for its own bookkeeping by default (``tcp_adv_win_scale`` = 1).

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
    rate, rtt = format_value(target_bps, "bps"), format_value(rtt_us, "us")
    buffer = format_value(size, "bytes", 4)
    if size > LARGEST_BUFFER:
        raise StatsError(
            f"{rate} at {rtt} needs a buffer of {buffer}, more than Linux accepts (2 GiB): "
            "use several streams"
        )
    flight = f"({percent(eta)} of a buffer is in flight)"
    words = f"one stream needs a TCP buffer of {buffer} for {rate} at a round-trip time of {rtt}"
    return BufferAdvice(size, f"{words} {flight}")


@dataclass(frozen=True, slots=True)
class Windows:
    """Whether the window limits a stream, and which buffer a path needs.

    Attributes
    ----------
    eta : MedianInterval or None
        Share of the buffer in flight; None if no buffer is the limit.
    needs : Table
        ``path``, ``rtt_loaded_us``, ``buffer``: the buffer that a stream needs for the target.
    words : Words
        The model, in sentences.
    settings : Words
        The sysctl lines for the path that needs the largest buffer; empty if no round trip is
        known.
    """

    eta: MedianInterval | None
    needs: Table
    words: Words
    settings: Words


def window_model(runs: pd.DataFrame) -> tuple[MedianInterval | None, str]:
    """Return the share of a buffer in flight where the buffer is the limit, and what that says.

    The bandwidth-delay product: throughput = min(cap, eta · buffer / RTT). Buffers below 90 % of
    the throughput with the largest one are the limit, and eta is their share in flight: the median
    of each round, as a level over the rounds.

    Parameters
    ----------
    runs : DataFrame
        Runs of one stream: ``tcp_buffer_bytes``, ``throughput_bps``, ``rtt_loaded_us``,
        ``deployment``, ``round``.
    """
    names = ["tcp_buffer_bytes", "throughput_bps", "rtt_loaded_us"]
    runs = runs[(runs[names] > 0).all(axis=1)]
    size, rate = runs["tcp_buffer_bytes"], runs["throughput_bps"]
    if size.nunique() < 2:
        return None, "it needs two buffer sizes with a round-trip time"
    shares = rate * runs["rtt_loaded_us"] / 8e6 / size
    rates, typical = rate.groupby(size).median(), shares.groupby(size).median()
    limited = rates.index[rates < 0.9 * rates.iloc[-1]]
    if limited.empty:
        return None, "no buffer size limits the throughput"
    rounds = [runs["deployment"], runs["round"]]
    eta = level(shares[size.isin(limited)].groupby(rounds, dropna=False).median())
    ends = f"{percent(eta.low)} to {percent(eta.high)}, {percent(eta.confidence)}"
    words = f"{percent(eta.median)} of a buffer is in flight ({ends})"
    off = [b for b in limited if abs(math.log(typical[b] / eta.median)) > math.log(1.1)]
    if off:
        sizes = ", ".join(format_value(b, "bytes") for b in off)
        words += f"; the data do not confirm this model at {sizes}"
    if typical.iloc[-1] > 0.9 * eta.median:
        words += "; the largest buffer still limits"
    return eta, words


def ask_windows(data: Data, target_gbps: float, *, eta: float | None = None) -> Windows:
    """Return which TCP buffer a stream needs.

    Parameters
    ----------
    data : what `observe` takes
        The experiment. Transfers of one stream are used, except those that only fill the path for
        another test.
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
    runs = runs.reindex(columns=[*runs, *({DEFAULT_BUFFER, "rtt_loaded_us"} - {*runs})])
    unset = runs.loc[runs["tcp_buffer_bytes"].isna(), DEFAULT_BUFFER].dropna().unique()
    named = " or ".join(format_value(float(s), "bytes") for s in unset)
    default = f" The default buffer of these hosts is {named}." if named else ""
    runs["tcp_buffer_bytes"] = runs["tcp_buffer_bytes"].fillna(runs[DEFAULT_BUFFER])
    timed = runs[runs["rtt_loaded_us"].notna()]
    sizes = timed.groupby("path")["tcp_buffer_bytes"]
    best = str(sizes.nunique().idxmax()) if len(timed) else ""
    fitted, model = window_model(timed[timed["path"] == best])
    share = eta or (fitted.median if fitted else 0.5)
    # a buffer beyond the need fills a queue, which makes the round trip longer
    every = ["path", timed["tcp_buffer_bytes"].fillna(0)]
    medians = timed.groupby(every)["rtt_loaded_us"].median().astype(float)
    shortest = medians.groupby("path").min()
    needs = {
        str(path): buffer_needed(target_gbps * 1e9, rtt, share)
        for path, rtt in shortest.items()
    }
    settings: list[str] = []
    if needs:
        far = max(needs, key=lambda path: needs[path].buffer_bytes)
        settings = [f"For {target_gbps:g} Gbit/s over {far}, set on both ends:"]
        settings += [f"- {line}" for line in needs[far].sysctl]
    table = pd.DataFrame({"path": [*needs], "rtt_loaded_us": [*shortest]})
    table["buffer"] = [format_value(a.buffer_bytes, "bytes") for a in needs.values()]
    caption = (
        f"Buffer that one stream needs on each path for {target_gbps:g} Gbit/s, at the "
        "shortest round trip under load."
    )
    words = Words(f"{f'On {best}' if best else 'Not known'}: {model}.{default}")
    return Windows(fitted, Table.of(table, caption), words, Words("\n".join(settings)))
