"""How many parallel streams fill a path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import NothingToReport
from ..metrics import ALPHA, plural, rounds_required
from .intervals import Rounds, check_share
from .observe import Observations, level_names, observe
from .runs import Data, measurement
from .words import percent, value_words


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
    smallest = measurement(data).runs["advertised_bps"].min()
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
        wide = part.pivot_table(
            "value", ["replicate", "round"], "streams", aggfunc="median"
        )
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
