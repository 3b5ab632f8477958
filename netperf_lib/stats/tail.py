"""Tails: percentiles of very many packets, and how two distributions differ from end to end.

The run stays the unit: a percentile is one value per run, however many packets it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..metrics import ALPHA, MARGIN, plural
from ..tools.parsed import Percentile
from .comparison import About, Comparison
from .result import Result
from .samples import compare_samples

FEW = 10
"""A percentile with fewer packets beyond it is not yet a property of the network."""
Samples = npt.ArrayLike | Callable[[], Iterable[npt.ArrayLike]]


def percentiles(
    samples: Samples, percentiles: Sequence[float] = (50, 90, 99, 99.9, 99.99), *, overwrite_input: bool = False
) -> tuple[Percentile, ...]:
    """Percentiles of latencies; needs the memory of one copy of them, or none.

    Parameters
    ----------
    samples : array_like, shape (packets,), or callable
        Latencies (not negative), or a function that gives them in batches.
    percentiles : sequence of float
        In 0 … 100.
    overwrite_input : bool, default False
        Sort an array of single precision in place, as `numpy.percentile` does, instead of copying it.

    Returns
    -------
    tuple of Percentile
        Values in the unit of the samples (of single precision: 7 digits), interpolated linearly between neighbours
        as `numpy.percentile` does, and how many observations lie beyond each. Empty where there are no samples.

    Raises
    ------
    StatsError
        A percentile outside 0 … 100; a latency that is negative or not a number.

    Examples
    --------
    >>> npl.stats.percentiles(range(1000), [99])[0].latency_us
    989.01
    """
    for p in percentiles:
        if not 0 <= p <= 100:
            raise StatsError(f"a percentile lies between 0 and 100; got {p!r}")
    parts = [np.asarray(part, dtype=np.float32) for part in (samples() if callable(samples) else (samples,))]
    if any(part.ndim != 1 for part in parts):
        raise StatsError("samples must be one row of latencies")
    x = parts[0] if len(parts) == 1 and overwrite_input else _joined(parts)
    if not x.size:
        return ()
    x.sort()  # faster than a partition at many positions; the negative come first, infinity and NaN last
    if x[0] < 0 or not np.isfinite(x[-1]):
        wrong = int((~(np.isfinite(x) & (x >= 0))).sum())
        raise StatsError(f"{plural(wrong, 'sample')} negative or not finite: latencies must be numbers from 0 up")
    place = np.array([(x.size - 1) * p / 100 for p in percentiles])
    below = np.floor(place).astype(np.int64)
    made = []
    for p, at, k in zip(percentiles, place, below, strict=True):
        low, high = float(x[k]), float(x[min(k + 1, x.size - 1)])
        made.append(Percentile(float(p), low + (float(at) - int(k)) * (high - low), x.size - 1 - int(k)))
    return tuple(made)


def _joined(parts: list[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """All batches in one array. Each is freed once it is copied, so that there are never two of everything."""
    x = np.empty(sum(part.size for part in parts), dtype=np.float32)
    end = x.size
    while parts:
        part = parts.pop()
        x[end - part.size : end] = part
        end -= part.size
    return x


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Quantiles(Result):
    """How two conditions differ at several percentiles.

    Attributes
    ----------
    comparisons : tuple of Comparison
        One per percentile; they share `alpha` with each other.
    percentiles : tuple of float
    beyond : tuple of int or None
        Fewest observations beyond each percentile in any run; None if the logs do not say.
    notice : str, optional
        What must be said wherever these data are shown.
    """

    comparisons: tuple[Comparison, ...]
    percentiles: tuple[float, ...]
    beyond: tuple[int | None, ...]
    notice: str | None = None

    @property
    def flagged(self) -> tuple[float, ...]:
        """Percentiles with fewer than 10 observations beyond them in some run."""
        return tuple(p for p, k in zip(self.percentiles, self.beyond, strict=True) if k is not None and k < FEW)

    @property
    def words(self) -> str:
        """One sentence per percentile, one per line."""
        return "\n".join(c.words for c in self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)


def name_of(percentile: float) -> str:
    """Name a percentile: ``median``, ``99.9th percentile``."""
    if percentile == 50:
        return "median"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(int(percentile) % 10, "th") if percentile == int(percentile) else "th"
    return f"{percentile:g}{'th' if percentile in (11, 12, 13) else ending} percentile"


Run = npt.ArrayLike | Sequence[Percentile]


def _points(run: Run, levels: Sequence[float]) -> list[tuple[float, int | None]]:
    """Value and observations beyond it, of each percentile of a run; NaN if the run does not say."""
    stated: Iterable[Any] = run if isinstance(run, Sequence) and run and isinstance(run[0], Percentile) else ()
    known = {q.percentile: q for q in stated}
    if not known:
        known = {q.percentile: q for q in percentiles(np.asarray(run, dtype=np.float32), levels)}
    return [(known[p].latency_us, known[p].beyond) if p in known else (math.nan, None) for p in levels]


def tails(
    a: Sequence[Run],
    b: Sequence[Run],
    *,
    percentiles: Sequence[float] = (99.0, 99.9),
    margin: float = MARGIN,
    alpha: float = ALPHA,
    **about: Unpack[About],
) -> Quantiles:
    """Compare percentiles of two conditions, one value per run; many of them form Doksum's shift function.

    Parameters
    ----------
    a, b : sequence of array_like or of Percentile
        The runs of each side by round: the latencies of each run, or its percentiles if its log has only these.
    percentiles : sequence of float
        Percentiles to compare, in 0 … 100.
    margin, **about
        As in `compare_samples`.
    alpha : float, default 0.05
        Share of calls that may hold a false verdict; the percentiles share it.

    Raises
    ------
    StatsError
        Sides of different length, or latencies that cannot be read.

    Examples
    --------
    >>> near, far = ([np.full(1000, us + i) for i in range(8)] for us in (50.0, 100.0))
    >>> [str(c.verdict) for c in npl.stats.tails(near, far)]
    ['better', 'better']
    """
    levels = tuple(float(p) for p in percentiles)
    left, right = ([_points(run, levels) for run in side] for side in (a, b))
    what = about.get("quantity", "latency")
    made, fewest = [], []
    for i, p in enumerate(levels):
        names: About = {**about, "quantity": f"{what} ({name_of(p)})"}
        sides = [[run[i][0] for run in side] for side in (left, right)]
        made.append(compare_samples(*sides, margin=margin, alpha=alpha, family=len(levels), better="lower", **names))
        counts = [run[i][1] for side in (left, right) for run in side]
        known = [k for k in counts if k is not None]
        fewest.append(min(known) if known else None)
    warnings = [
        f"{name_of(p)}: a run has only {plural(k, 'observation')} beyond it, fewer than {FEW}"
        for p, k in zip(levels, fewest, strict=True)
        if k is not None and k < FEW
    ]
    return Quantiles(
        comparisons=tuple(made),
        percentiles=levels,
        beyond=tuple(fewest),
        n=min((c.n for c in made), default=0),
        confidence=min((c.confidence for c in made), default=0.0),
        method="percentiles of each run, paired by round, exact signed rank",
        assumptions=("rounds are independent blocks", "packets are never counted as observations"),
        warnings=tuple(warnings),
    )
