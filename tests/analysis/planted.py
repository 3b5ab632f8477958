"""Measurements with planted truth. Everything is on the log scale: noise multiplies."""

from __future__ import annotations

import numpy as np

from netperf_lib.analysis.samples import Sample, judge_samples


def drift(rng: np.random.Generator, samples: int, n: int, total: float = 0.10) -> np.ndarray:
    """What all conditions of a round share: a slope and a wave over the experiment."""
    t = np.linspace(0, 1, n)
    slope = total * rng.standard_normal((samples, 1))
    phase = 2 * np.pi * rng.random((samples, 1))
    return slope * t + total / 2 * np.sin(2 * np.pi * t + phase)


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
