"""Measurements with planted truth. Everything is on the log scale: noise multiplies."""

from __future__ import annotations

import numpy as np
import scipy

from netperf_lib.analysis.samples import Sample, judge_samples

KINDS = ("normal", "t3", "skewed", "contaminated")


def noise(
    rng: np.random.Generator, kind: str, size: tuple[int, ...], cv: float = 0.02
) -> np.ndarray:
    """Run-to-run noise of a kind."""
    if kind == "normal":
        return cv * rng.standard_normal(size)
    if kind == "t3":
        return cv * rng.standard_t(3, size)
    if kind == "skewed":
        return 2 * cv * rng.exponential(1.0, size)
    if kind == "contaminated":  # one run in ten has a noisy neighbour that takes a quarter
        return cv * rng.standard_normal(size) - 0.25 * (rng.random(size) < 0.1)
    if kind == "bimodal":  # two paths, 12 % apart
        return cv * rng.standard_normal(size) - 0.12 * (rng.random(size) < 0.35)
    raise ValueError(kind)


def median_of(kind: str, cv: float = 0.02) -> float:
    """True median of that noise."""
    if kind in ("normal", "t3"):
        return 0.0
    if kind == "skewed":
        return 2 * cv * float(np.log(2))
    share, shift = (0.1, 0.25) if kind == "contaminated" else (0.35, 0.12)
    cdf = scipy.special.ndtr
    return float(
        scipy.optimize.brentq(
            lambda m: (1 - share) * cdf(m / cv) + share * cdf((m + shift) / cv) - 0.5, -0.3, 0.3
        )
    )


def drift(rng: np.random.Generator, samples: int, n: int, total: float = 0.10) -> np.ndarray:
    """What all conditions of a round share: a slope and a wave over the experiment."""
    t = np.linspace(0, 1, n)
    slope = total * rng.standard_normal((samples, 1))
    phase = 2 * np.pi * rng.random((samples, 1))
    return slope * t + total / 2 * np.sin(2 * np.pi * t + phase)


def pair(
    rng: np.random.Generator,
    kind: str,
    samples: int,
    n: int,
    log_ratio: float = 0.0,
    cv: float = 0.02,
):
    """Both sides of a contrast by round, logs, with shared drift."""
    shared = drift(rng, samples, n)
    return shared + noise(rng, kind, (samples, n), cv) + log_ratio, shared + noise(
        rng, kind, (samples, n), cv
    )


def neighbour(
    rng: np.random.Generator, samples: int, n: int, stay: float, amplitude: float = 0.10
) -> np.ndarray:
    """A noisy neighbour that stays from round to round with this probability."""
    state = np.empty((samples, n), dtype=bool)
    state[:, 0] = rng.random(samples) < 0.5
    for i in range(1, n):
        state[:, i] = state[:, i - 1] ^ (rng.random(samples) > stay)
    return -amplitude * state


def seconds(
    rng: np.random.Generator, shape: tuple[int, ...], phi: float = 0.6, sd: float = 0.05
) -> np.ndarray:
    """One-second intervals within a run: a first-order autoregression along the last axis."""
    e = sd * np.sqrt(1 - phi**2) * rng.standard_normal(shape)
    x = np.empty(shape)
    x[..., 0] = sd * rng.standard_normal(shape[:-1])
    for t in range(1, shape[-1]):
        x[..., t] = phi * x[..., t - 1] + e[..., t]
    return x


def law(n: np.ndarray, rate: float = 1e9, sigma: float = 0.05, kappa: float = 4e-4) -> np.ndarray:
    """Universal Scalability Law."""
    return rate * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def often_slow(rng: np.random.Generator, size: int) -> np.ndarray:
    """Latencies of which 15 % are slow."""
    return np.exp(0.1 * rng.standard_normal(size) + np.log(3) * (rng.random(size) < 0.15))


def compared(a, b, *, paired: bool = True, family: int = 1, alpha: float = 0.05, **subject):
    """Judge two conditions, given as one value a round, in a family whose others are equal."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if not paired:
        a, b = np.append(a, np.full(b.size, np.nan)), np.append(np.full(a.size, np.nan), b)
    others = [Sample(a=np.ones(12), b=np.ones(12))] * (family - 1)
    return judge_samples([Sample(a=a, b=b, **subject), *others], alpha=alpha)[0]
