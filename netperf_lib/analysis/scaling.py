"""Parallel streams: how many are enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..metrics import ALPHA, plural, rounds_required
from .intervals import Rounds
from .median_ci import Level, level
from .result import Floats, Result, check_share, numbers, percent, value_words


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Streams(Result):
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
    advertised : Level or None
        Share of the advertised bandwidth at the best number of streams.
    """

    enough: int | None
    best: int
    share: float
    levels: Mapping[int, Level]
    advertised: Level | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        """The result in a few sentences."""
        text = (
            f"{plural(self.enough, 'stream')} reach{'es' if self.enough == 1 else ''} {percent(self.share)} of the "
            f"best throughput ({value_words(self.levels[self.best].median, 'bps')} with {self.best})"
            if self.enough is not None
            else f"no verdict on how many streams are enough: {self.reason}"
        )
        if self.advertised is not None:
            a = self.advertised
            text += (
                f"; {percent(a.median)} of the advertised bandwidth ({percent(a.low)} to {percent(a.high)}, "
                f"{percent(a.confidence)})"
            )
        return text


def enough_and_best(rates: Floats, share: float, alpha: float) -> tuple[int | None, int]:
    """Index of the smallest level shown to reach `share` of every other one, and of the one with the highest median.

    The rates are (rounds, levels), by increasing number of streams. A level is enough where its ratio to each other
    level is shown to exceed `share`, by one-sided signed-rank bounds. All of them must hold, so each is tested at the
    full level (intersection-union test, Berger, Technometrics 24 (1982) 295-300); any of the levels may be named, so
    they share alpha (Bonferroni). That holds whichever level is the best.
    """
    logs = np.log(rates)
    best = int(np.argmax(np.median(rates, axis=0)))
    levels = rates.shape[1]
    tail = alpha / max(1, levels - 1)

    def enough(k: int) -> bool:
        ratios = (logs[:, k] - logs[:, j] for j in range(levels) if j != k)
        return all(Rounds(d).interval(2 * tail)[0] > math.log(share) for d in ratios)

    return next((k for k in range(levels) if enough(k)), None), best


def _by_round(throughput: Mapping[int, npt.ArrayLike], counts: Sequence[int]) -> list[Floats]:
    """The throughput by round at each number of streams; StatsError if the rounds differ, or for what is none."""
    columns = [numbers(throughput[k], f"throughput of {plural(k, 'stream')}") for k in counts]
    if len({x.size for x in columns}) != 1 or not columns[0].size:
        raise StatsError(
            "give a throughput for each round at every number of streams; NaN where it is missing"
        )
    if any((x <= 0).any() for x in columns):
        raise StatsError("throughput must be above zero; a failed run is a missing value")
    return columns


def streams(
    throughput: Mapping[int, npt.ArrayLike],
    *,
    share: float = 0.95,
    alpha: float = ALPHA,
    advertised_bps: float | None = None,
) -> Streams:
    """How many parallel streams are enough?

    Parameters
    ----------
    throughput : mapping of int to array_like, shape (rounds,)
        Number of streams to bits per second by round. Rounds with a missing level (NaN) are left out and counted.
    share : float, default 0.95
        Share of the best throughput that is enough.
    alpha : float, default 0.05
        Chance of falsely calling a number of streams enough.
    advertised_bps : float, optional
        Advertised bandwidth of the VM size.

    Raises
    ------
    StatsError
        No number of streams, numbers of rounds that differ, or values that are not a throughput.

    Examples
    --------
    >>> npl.analysis.streams({1: [1e9] * 8, 2: [1.9e9] * 8, 4: [2e9] * 8}).enough
    4
    """
    check_share(share, "share")
    check_share(alpha, "alpha", below=0.25)
    counts = sorted(throughput)
    columns = _by_round(throughput, counts)
    rates = np.column_stack(columns)
    complete = rates[np.isfinite(rates).all(axis=1)]
    dropped = len(rates) - len(complete)
    warnings = (
        [f"{plural(dropped, 'round')} left out: a number of streams is missing"] if dropped else []
    )
    need, enough = rounds_required(2 * alpha, max(1, len(counts) - 1)), None
    best = counts[int(np.argmax(np.nanmedian(rates, axis=0)))]
    reason = f"{plural(len(complete), 'whole round')}, at least {need} are needed ({need - len(complete)} more)"
    if len(complete) >= need:
        smallest, top = enough_and_best(complete, share, alpha)
        best, enough = counts[top], None if smallest is None else counts[smallest]
        reason = f"no number is shown to reach {percent(share)} of all others in {plural(len(complete), 'round')}"
    if enough == best == max(counts) and len(counts) > 1:
        warnings.append(
            f"the best is the largest number measured ({best}): more streams may still be faster"
        )
    return Streams(
        enough=enough,
        best=best,
        share=share,
        levels={k: level(x, metric="throughput_bps") for k, x in zip(counts, columns, strict=True)},
        advertised=level(columns[counts.index(best)] / advertised_bps) if advertised_bps else None,
        reason="" if enough is not None else reason,
        n=len(complete),
        confidence=1 - alpha,
        method="one-sided signed-rank bounds against every other number of streams, by round",
        assumptions=(
            "rounds are independent blocks",
            "all numbers of streams are measured in every round",
        ),
        warnings=tuple(warnings),
    )
