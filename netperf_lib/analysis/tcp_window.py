"""TCP buffers and the bandwidth-delay product: what limits a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..metrics import ALPHA, format_value, plural
from .comparison import Comparison
from .median_ci import Level, level
from .result import Floats, Result, Statement, numbers, percent, value_words
from .samples import compare_samples

_PAGE = 4096
_LARGEST = 2**31 - 1
"""The kernel keeps these limits in a signed 32-bit number."""


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
    sysctl : tuple of str
        Lines for ``/etc/sysctl.d``, for both ends.
    """

    target_bps: float
    rtt_us: float
    eta: float
    buffer_bytes: int
    sysctl: tuple[str, ...]

    @property
    def words(self) -> str:
        """The advice in a sentence."""
        return (
            f"one stream needs a TCP buffer of {format_value(self.buffer_bytes, 'bytes', 4)} for "
            f"{format_value(self.target_bps, 'bps')} at a round-trip time of {format_value(self.rtt_us, 'us')} "
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
        Share of the buffer that is in flight; measured by `buffers`. Linux keeps half a receive buffer for its own
        bookkeeping by default (``tcp_adv_win_scale`` = 1).

    Raises
    ------
    StatsError
        A value that is not above zero, or a buffer larger than any kernel accepts.

    Examples
    --------
    >>> advice = buffer_needed(10e9, 30_000, eta=0.5)
    >>> advice.buffer_bytes
    75001856
    >>> advice.sysctl[2]
    'net.ipv4.tcp_rmem = 4096 131072 75001856'
    """
    for name, v in {"target_bps": target_bps, "rtt_us": rtt_us, "eta": eta}.items():
        if not (v > 0 and math.isfinite(v)):
            raise StatsError(f"{name} must be above zero; got {v!r}")
    size = math.ceil(target_bps * rtt_us * 1e-6 / 8 / eta / _PAGE) * _PAGE
    if size > _LARGEST:
        raise StatsError(
            f"{format_value(target_bps, 'bps')} at {format_value(rtt_us, 'us')} needs a buffer of "
            f"{format_value(size, 'bytes')}, more than Linux accepts (2 GiB): use several streams"
        )
    return BufferAdvice(
        target_bps=target_bps,
        rtt_us=rtt_us,
        eta=eta,
        buffer_bytes=size,
        sysctl=(
            f"net.core.rmem_max = {size}",
            f"net.core.wmem_max = {size}",
            # least, default and largest; the first two are the kernel's own defaults
            f"net.ipv4.tcp_rmem = 4096 131072 {size}",
            f"net.ipv4.tcp_wmem = 4096 16384 {size}",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Buffers(Result):
    """Fit of the bandwidth-delay product model: throughput = min(cap, eta · window / RTT).

    Attributes
    ----------
    eta : Level or None
        Share of the buffer in flight; None if no buffer is the limit.
    cap : Level or None
        Throughput that no buffer exceeds, bits per second; None if it was not reached.
    fits : mapping of int to Comparison
        Buffer size to measured against predicted; each round is predicted from the other rounds.
    """

    eta: Level | None
    cap: Level | None
    fits: Mapping[int, Comparison]

    @property
    def equivalent(self) -> bool:
        """Whether the model is shown to be equivalent to the data at every buffer size."""
        return all(c.verdict == "equivalent" for c in self.fits.values())

    @property
    def words(self) -> str:
        """The result in a few sentences."""
        parts = ["no buffer size limits the throughput"]
        if e := self.eta:
            bounds = f"{percent(e.low)} to {percent(e.high)}, {percent(e.confidence)}"
            parts = [f"{percent(e.median)} of a buffer is in flight ({bounds})"]
        if self.cap:
            low, high = (value_words(v, "bps") for v in (self.cap.low, self.cap.high))
            parts.append(
                f"larger buffers stop helping at {value_words(self.cap.median, 'bps')} ({low} to {high})"
            )
        else:
            parts.append("the largest buffer still limits")
        margin = next((c.margin for c in self.fits.values()), 0.1)
        if self.equivalent:
            parts.append(
                f"the model agrees with the data within {percent(margin)} at every buffer size"
            )
        else:
            off = [
                format_value(k, "bytes") for k, c in self.fits.items() if c.verdict != "equivalent"
            ]
            parts.append(f"the data do not confirm this model at {', '.join(off)}")
        return "; ".join(parts)


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


def buffers(
    windows: npt.ArrayLike,
    throughput: npt.ArrayLike,
    rtt_us: npt.ArrayLike,
    rounds: npt.ArrayLike,
    *,
    margin: float = 0.1,
    alpha: float = ALPHA,
) -> Buffers:
    """Compare the bandwidth-delay product model with measured throughput.

    Parameters
    ----------
    windows, throughput, rtt_us : array_like, shape (runs,)
        Buffer size of each run of one stream in bytes, its throughput in bits per second, and its round-trip time
        under load in microseconds. Runs that lack one of them are left out and counted.
    rounds : array_like of int, shape (runs,)
        Round of each run; with several buffer sizes in each.
    margin : float, default 0.1
        The model agrees with the data when measured / predicted is equivalent to 1 within this margin.
    alpha : float, default 0.05
        Chance of finding agreement falsely, over all buffer sizes.

    Raises
    ------
    StatsError
        Arrays of different length, or fewer than two buffer sizes with values.

    Notes
    -----
    eta and cap are fitted in each round and then given as levels over the rounds: a fit over all runs at once would
    take runs of one round as independent.

    Examples
    --------
    >>> sizes, rounds = np.tile([2**20, 2**22, 2**24], 8), np.repeat(np.arange(8), 3)
    >>> rates = np.minimum(1e9, 0.5 * sizes * 8 / 0.02)
    >>> round(npl.analysis.buffers(sizes, rates, np.full(24, 20_000), rounds).eta.median, 3)
    0.5
    """
    columns = [
        numbers(v, name)
        for v, name in ((windows, "windows"), (throughput, "throughput"), (rtt_us, "rtt_us"))
    ]
    (size, rate, rtt), complete = _complete(columns, np.asarray(rounds).size)
    numbers_of_rounds, block = np.unique(np.asarray(rounds)[complete], return_inverse=True)
    x, y = np.log(8e6 * size / rtt), np.log(rate)
    fitted = np.array(
        [window_fit(x[block == b], y[block == b]) for b in range(numbers_of_rounds.size)]
    )
    fits = _held_out(x, y, block, size, fitted, margin, alpha)
    # a limit counts when most rounds show it
    eta, cap = (
        level(np.exp(v[np.isfinite(v)])) if np.isfinite(v).mean() > 0.5 else None for v in fitted.T
    )
    dropped = int((~complete).sum())
    return Buffers(
        eta=eta,
        cap=cap,
        fits=fits,
        n=numbers_of_rounds.size,
        confidence=min(v.confidence for v in (eta, cap) if v is not None),
        method="bandwidth-delay product fitted by round; each round predicted from the others",
        assumptions=("rounds are independent blocks", "the round-trip time is the one under load"),
        warnings=(f"{plural(dropped, 'run')} left out: buffer, throughput or RTT is missing",)
        if dropped
        else (),
    )


def _complete(columns: Sequence[Floats], runs: int) -> tuple[list[Floats], npt.NDArray[np.bool_]]:
    """The values of the runs that have all of them, and which ones these are."""
    if len({runs, *(x.size for x in columns)}) > 1:
        raise StatsError("windows, throughput, rtt_us and rounds must have one value per run")
    complete = np.logical_and.reduce([np.isfinite(x) & (x > 0) for x in columns])
    if (sizes := np.unique(columns[0][complete]).size) < 2:
        raise StatsError(
            f"the model needs two buffer sizes or more with throughput and RTT; got {sizes}"
        )
    return [x[complete] for x in columns], complete


def _held_out(
    x: Floats,
    y: Floats,
    block: npt.NDArray[np.intp],
    windows: Floats,
    fitted: Floats,
    margin: float,
    alpha: float,
) -> dict[int, Comparison]:
    """Measured against predicted for each buffer size, each round predicted from the other rounds."""
    predicted = np.full(y.size, np.nan)
    for b in range(len(fitted)):
        others = np.delete(fitted, b, axis=0)
        if len(others):
            eta, cap = np.median(others, axis=0)
            predicted[block == b] = np.minimum(cap, eta + x[block == b])
    sizes = np.unique(windows)
    comparisons = {}
    for size in sizes:
        sides = np.full((2, len(fitted)), np.nan)
        for b in np.unique(block[windows == size]):
            runs = (block == b) & (windows == size)
            sides[:, b] = math.exp(np.median(y[runs])), math.exp(np.median(predicted[runs]))
        comparisons[int(size)] = compare_samples(
            sides[0],
            sides[1],
            margin=margin,
            alpha=alpha,
            family=sizes.size,
            better=None,
            metric="throughput_bps",
            quantity="throughput",
            names=("measured", "predicted"),
            context=f"{format_value(float(size), 'bytes')} buffer",
        )
    return comparisons
