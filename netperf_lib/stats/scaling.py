"""Parallel streams: how many are enough, and where more of them begin to hurt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from .judge import judge_paired, rounds_required
from .levels import Level, level, median_interval
from .result import Floats, Result, check_share, html_table, percent, plural, value_words

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Streams", "saturation", "streams", "universal_scalability"]


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
    peak, peak_low, peak_high : float
        Number of streams with the highest throughput by the Universal Scalability Law, and its interval; infinite
        where more streams never hurt, NaN where the law could not be fitted.
    contention, coherence : Level or None
        Coefficients sigma and kappa of the law, over the rounds.
    advertised : Level or None
        Share of the advertised bandwidth at the best number of streams.
    """

    enough: int | None
    best: int
    share: float
    levels: Mapping[int, Level]
    peak: float = math.nan
    peak_low: float = math.nan
    peak_high: float = math.nan
    contention: Level | None = None
    coherence: Level | None = None
    advertised: Level | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        """The result in a few sentences."""
        said = (
            f"{plural(self.enough, 'stream')} reach{'es' if self.enough == 1 else ''} {percent(self.share)} of the "
            f"best throughput ({value_words(self.levels[self.best].median, 'bps')} with {self.best})"
            if self.enough is not None
            else f"no verdict on how many streams are enough: {self.reason}"
        )
        most = max(self.levels)
        if math.isinf(self.peak):
            said += "; the fitted law has no peak: more streams do not hurt"
        elif self.peak == self.peak:
            high = "without bound" if math.isinf(self.peak_high) else f"{self.peak_high:.0f}"
            said += f"; the fitted law puts the peak near {plural(round(self.peak), 'stream')}"
            said += f" ({self.peak_low:.0f} to {high})" if high != f"{self.peak_low:.0f}" else ""
            said += f", beyond the {most} that were measured" if self.peak > most else ""
        if self.advertised is not None:
            a = self.advertised
            said += (
                f"; {percent(a.median)} of the advertised bandwidth ({percent(a.low)} to {percent(a.high)}, "
                f"{percent(a.confidence)})"
            )
        return said

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row a number of streams."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"streams": k, "median": v.median, "low": v.low, "high": v.high, "n": v.n, "confidence": v.confidence}
                for k, v in self.levels.items()
            ]
        )

    def _repr_html_(self) -> str:
        rows = [(k, v.words) for k, v in self.levels.items()]
        return html_table(("streams", "throughput"), rows, "; ".join((self.words, self.basis, *self.warnings)))


def universal_scalability(counts: npt.ArrayLike, rates: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Fit the Universal Scalability Law to each round.

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)).

    Parameters
    ----------
    counts : array_like, shape (levels,)
        Numbers of streams, at least 4 different ones.
    rates : array_like, shape (rounds, levels)
        Throughput; rounds with a missing level give NaN.

    Returns
    -------
    rate, sigma, kappa : ndarray, shape (rounds,)
        Rate of one stream without contention, in the unit of `rates`; contention; coherence. None is negative.

    Notes
    -----
    Gunther, "A General Theory of Computational Scalability Based on Rational Functions", arXiv:0808.1431 (2008). In
    the form N / X = (1 + sigma (N - 1) + kappa N (N - 1)) / lambda the law is linear; errors relative to X make it the
    least squares of X/N times the right side against 1, solved with coefficients that are not negative.
    """
    n = np.asarray(counts, dtype=float)
    x = np.atleast_2d(np.asarray(rates, dtype=float))
    if np.unique(n).size < 4:
        raise StatsError(f"the scalability law has 3 coefficients: 4 numbers of streams are needed, got {n.size}")
    terms = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    found = np.full((x.shape[0], 3), np.nan)
    for i, row in enumerate(x):
        if np.isfinite(row).all() and (row > 0).all():
            scale = row[np.argmin(n)]
            found[i], _ = scipy.optimize.nnls(terms * (row / scale / n)[:, None], np.ones_like(n))
            found[i, 0] = found[i, 0] or np.nan
            found[i, 1:] /= found[i, 0]
            found[i, 0] = scale / found[i, 0]
    return found[:, 0], found[:, 1], found[:, 2]


def saturation(rates: Floats, share: float, alpha: float) -> tuple[int | None, int]:
    """Index of the smallest level shown to reach `share` of the best one, and of the best one.

    Parameters
    ----------
    rates : ndarray, shape (rounds, levels)
        By increasing number of streams.

    Notes
    -----
    A fixed sequence of one-sided signed-rank tests at `alpha`, from the best level downwards, that ends at the first
    level not shown to reach the share; such a sequence needs no further correction (Maurer, Hothorn and Lehmacher
    1995). The best level is the one with the highest median, so its luck counts against the smaller ones.
    """
    best = int(np.argmax(np.median(rates, axis=0)))
    enough = best
    for k in range(best - 1, -1, -1):
        # the lower end of the two-sided interval at 1 - 2 alpha is the one-sided bound at 1 - alpha
        judged = judge_paired(np.log(rates[:, k] / rates[:, best])[None, :], 0.5, 2 * alpha, 1)
        if judged.code[0] == -2 or judged.low[0] <= math.log(share):
            break
        enough = k
    return enough, best


def streams(
    throughput: pd.DataFrame | Mapping[int, Sequence[float]],
    *,
    share: float = 0.95,
    alpha: float = 0.05,
    advertised_bps: float | None = None,
    metric: str = "throughput_bps",
) -> Streams:
    """How many parallel streams are enough, and where is the peak?

    Parameters
    ----------
    throughput : DataFrame or mapping, shape (rounds, levels)
        Bits per second by round; columns (or keys) are numbers of streams. `by_round(runs, "throughput_bps",
        "streams")` makes it. Rounds with a missing level are left out and counted.
    share : float, default 0.95
        Share of the best that is enough.
    alpha : float, default 0.05
        Chance to call a number enough that is not.
    advertised_bps : float, optional
        Bandwidth that the VM size is advertised with.
    metric : str
        Name of the metric, for the words.

    Returns
    -------
    Streams

    Raises
    ------
    StatsError
        No number of streams, or values that are no throughput.
    """
    import pandas as pd

    check_share(share, "share")
    check_share(alpha, "alpha", below=0.25)
    data = (throughput if isinstance(throughput, pd.DataFrame) else pd.DataFrame(dict(throughput))).astype(float)
    try:
        data.columns = pd.Index([int(c) for c in data.columns])
    except (TypeError, ValueError):
        raise StatsError(f"columns must be numbers of streams; got {list(data.columns)!r}") from None
    data = data.sort_index(axis=1)
    if data.empty:
        raise StatsError("no throughput at any number of streams")
    if (data <= 0).any(axis=None):
        raise StatsError("throughput must be above zero; a failed run is a missing value")
    whole = data.dropna()
    dropped = len(data) - len(whole)
    warnings = [f"{plural(dropped, 'round')} left out: a number of streams is missing"] if dropped else []
    counts = [int(c) for c in data.columns]
    rates = whole.to_numpy(dtype=float)
    enough, reason = None, ""
    need = rounds_required(2 * alpha)
    best = int(np.argmax(data.median().to_numpy()))
    if len(whole) >= need:
        place, best = saturation(rates, share, alpha)
        enough = None if place is None else counts[place]
    else:
        reason = f"{plural(len(whole), 'whole round')}, at least {need} are needed ({need - len(whole)} more)"
    if enough is not None and counts[best] == max(counts) and enough == max(counts) and len(counts) > 1:
        warnings.append(f"the best is the largest number measured ({max(counts)}): more streams may still be faster")
    levels = {k: level(data[k].to_numpy(), metric=metric) for k in counts}
    law: dict[str, Any] = {}
    if len(counts) >= 4 and len(whole):
        law = _law(counts, rates)
        if len(whole) < 6:
            warnings.append(f"the peak's interval is the range over {plural(len(whole), 'round')}")
    else:
        warnings.append("the scalability law needs 4 numbers of streams and a whole round")
    advertised = level(data[counts[best]].to_numpy() / advertised_bps) if advertised_bps else None
    return Streams(
        enough=enough,
        best=counts[best],
        share=share,
        levels=levels,
        advertised=advertised,
        reason=reason,
        n=len(whole),
        confidence=1 - alpha,
        method="fixed sequence of one-sided signed-rank tests by round; Universal Scalability Law fitted by round",
        assumptions=("rounds are independent blocks", "all numbers of streams are measured in every round"),
        warnings=tuple(warnings),
        **law,
    )


def _law(counts: list[int], rates: Floats) -> dict[str, Any]:
    """Coefficients and peak of the law over the rounds."""
    _, sigma, kappa = universal_scalability(counts, rates)
    ok = np.isfinite(sigma)
    if not ok.any():
        return {}
    # peak = sqrt((1 - sigma) / kappa); its inverse square is finite where the peak is not, and keeps the order
    inverse = np.divide(kappa[ok], 1 - sigma[ok], out=np.full(int(ok.sum()), np.inf), where=sigma[ok] < 1)
    inverse = np.minimum(inverse, 1.0)
    middle, low, high, _ = (v if isinstance(v, float) else float(v[0]) for v in median_interval(inverse[None, :]))
    peak, least, most = (1 / math.sqrt(v) if v > 0 else math.inf for v in (middle, high, low))
    return {
        "peak": peak,
        "peak_low": least,
        "peak_high": most,
        "contention": level(sigma[ok]),
        "coherence": level(kappa[ok]),
    }
