"""Parallel streams: how many are enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import StatsError
from ..metrics import ALPHA, plural
from .intervals import Rounds, rounds_required
from .median_ci import Level, level
from .result import Floats, Result, check_share, percent, value_words

if TYPE_CHECKING:
    import pandas as pd


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

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row per number of streams."""
        import pandas as pd

        rows = [(k, v.median, v.low, v.high, v.n, v.confidence) for k, v in self.levels.items()]
        return pd.DataFrame(rows, columns=["streams", "median", "low", "high", "n", "confidence"])


def saturation(rates: Floats, share: float, alpha: float) -> tuple[int | None, int]:
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
        return all(Rounds(d).ends(2 * tail)[0] > math.log(share) for d in ratios)

    return next((k for k in range(levels) if enough(k)), None), best


def streams(
    throughput: pd.DataFrame | Mapping[int, Sequence[float]],
    *,
    share: float = 0.95,
    alpha: float = ALPHA,
    advertised_bps: float | None = None,
    metric: str = "throughput_bps",
) -> Streams:
    """How many parallel streams are enough?

    Parameters
    ----------
    throughput : DataFrame or mapping, shape (rounds, levels)
        Bits per second by round; columns (or keys) are numbers of streams. Rounds with a missing level are left out
        and counted.
    share : float, default 0.95
        Share of the best that is enough.
    alpha : float, default 0.05
        Chance of calling a number of streams enough that is not.
    advertised_bps : float, optional
        Advertised bandwidth of the VM size.
    metric : str
        Name of the metric, for the words.

    Raises
    ------
    StatsError
        No number of streams, or values that are not a throughput.

    Examples
    --------
    >>> npl.stats.streams({1: [1e9] * 8, 2: [1.9e9] * 8, 4: [2e9] * 8}).enough
    4
    """
    check_share(share, "share")
    check_share(alpha, "alpha", below=0.25)
    data = _by_streams(throughput)
    complete = data.dropna()
    dropped = len(data) - len(complete)
    warnings = [f"{plural(dropped, 'round')} left out: a number of streams is missing"] if dropped else []
    counts = [int(c) for c in data.columns]
    place, best, reason = _enough(data, share, alpha)
    enough = None if place is None else counts[place]
    if enough is not None and counts[best] == max(counts) and enough == max(counts) and len(counts) > 1:
        warnings.append(f"the best is the largest number measured ({max(counts)}): more streams may still be faster")
    return Streams(
        enough=enough,
        best=counts[best],
        share=share,
        levels={k: level(data[k].to_numpy(), metric=metric) for k in counts},
        advertised=level(data[counts[best]].to_numpy() / advertised_bps) if advertised_bps else None,
        reason=reason,
        n=len(complete),
        confidence=1 - alpha,
        method="one-sided signed-rank bounds against every other number of streams, by round",
        assumptions=("rounds are independent blocks", "all numbers of streams are measured in every round"),
        warnings=tuple(warnings),
    )


def _enough(data: pd.DataFrame, share: float, alpha: float) -> tuple[int | None, int, str]:
    """Return the places of the number of streams that is enough and of the best, and why none is enough."""
    rates = data.dropna().to_numpy(dtype=float)
    need = rounds_required(2 * alpha, max(1, rates.shape[1] - 1))
    if len(rates) < need:
        reason = f"{plural(len(rates), 'whole round')}, at least {need} are needed ({need - len(rates)} more)"
        return None, int(np.argmax(data.median().to_numpy())), reason
    place, best = saturation(rates, share, alpha)
    reason = f"no number is shown to reach {percent(share)} of all others in {plural(len(rates), 'round')}"
    return place, best, reason if place is None else ""


def _by_streams(throughput: pd.DataFrame | Mapping[int, Sequence[float]]) -> pd.DataFrame:
    """Return the throughput with its numbers of streams in order."""
    import pandas as pd

    data = (throughput if isinstance(throughput, pd.DataFrame) else pd.DataFrame(dict(throughput))).astype(float)
    try:
        data.columns = pd.Index([int(c) for c in data.columns])
    except (TypeError, ValueError):
        raise StatsError(f"columns must be numbers of streams; got {list(data.columns)!r}") from None
    if data.empty:
        raise StatsError("no throughput at any number of streams")
    if (data <= 0).any(axis=None):
        raise StatsError("throughput must be above zero; a failed run is a missing value")
    return data.sort_index(axis=1)
