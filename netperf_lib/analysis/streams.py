"""How many parallel streams fill a path."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import NothingToReport
from ..metrics import ALPHA, format_value, plural, rounds_required
from .intervals import Rounds, check_share
from .observe import Observations, observe
from .runs import Data
from .words import percent

ENOUGH = 0.95
"""Share of the best throughput that counts as all of it."""


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
        The result in a sentence.
    """

    enough: int | None
    share: float
    counts: list[int]
    n: int
    words: str


def streams(
    wide: pd.DataFrame, *, share: float = ENOUGH, alpha: float = ALPHA
) -> Streams:
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
    logs = wide.dropna().transform(np.log)
    n, others = len(logs), max(1, len(counts) - 1)
    error = 2 * alpha / others
    missing = rounds_required(2 * alpha, others) - n
    if missing > 0:
        words = f"{plural(n, 'whole round')}, {missing} more are needed for a verdict"
        return Streams(None, share, counts, n, words)
    for count in counts:
        ratios = logs.drop(columns=count).rsub(logs[count], axis=0)
        bounds = [Rounds(ratios[k].to_numpy()).interval(error)[0] for k in ratios]
        if min(bounds, default=0.0) > math.log(share):
            break
    else:
        words = (
            f"no number is shown to reach {percent(share)} of all others in {n} rounds"
        )
        return Streams(None, share, counts, n, words)
    level = format_value(wide[count].median(), "bps")
    fill = "fills" if count == 1 else "fill"
    words = f"{plural(count, 'stream')} {fill} the path: {level}, "
    words += f"at least {percent(share)} of the best"
    if count == counts[-1] > 1:
        words += ", but more than were measured may carry more"
    return Streams(count, share, counts, n, words)


def saturation(
    data: Data, metric: str | None = None, *, share: float = ENOUGH
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
    fits = _fits(obs, share)
    if not fits:
        raise NothingToReport(
            f"streams does not vary in any condition with a value of {obs.metric}"
        )
    return fits


def _fits(obs: Observations, share: float) -> dict[str, Streams]:
    """Return how many streams are enough for each path with several numbers of them."""
    paths = obs.called([name for name in obs.by if name != "streams"])
    rows = obs.complete.astype({"condition": object})
    rows["path"] = rows["condition"].map(paths)
    rows["streams"] = rows["condition"].map(obs.facts["streams"])
    fits = {}
    for path in dict.fromkeys(paths.values()):
        part = rows[rows["path"] == path]
        wide = part.pivot_table("value", ["replicate", "round"], "streams", "median")
        if len(wide.columns) > 1:
            fits[path] = streams(wide, share=share)
    return fits


def filled(obs: Observations) -> list[str]:
    """Return how many streams fill each path that was measured with three numbers and more."""
    if obs.unit != "bps" or "streams" not in obs.by:
        return []
    sentences = []
    for path, fit in _fits(obs, ENOUGH).items():
        if fit.enough is not None and len(fit.counts) > 2:
            sentences.append(f"{path}: {fit.words}.")
    return sentences
