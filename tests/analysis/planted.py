"""Measurements with planted truth. Everything is on the log scale: noise multiplies."""

import numpy as np

from netperf_lib.analysis.judging import family_of
from netperf_lib.analysis.verdicts import Sample


def drift(rng, samples, n, total=0.10):
    """What all conditions of a round share: a slope and a wave over the experiment."""
    t = np.linspace(0, 1, n)
    slope = total * rng.standard_normal((samples, 1))
    phase = 2 * np.pi * rng.random((samples, 1))
    return slope * t + total / 2 * np.sin(2 * np.pi * t + phase)


def law(n, rate=1e9, sigma=0.05, kappa=4e-4):
    """Universal Scalability Law."""
    return rate * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def often_slow(rng, size):
    """Latencies of which 15 % are slow."""
    return np.exp(0.1 * rng.standard_normal(size) + np.log(3) * (rng.random(size) < 0.15))


def sample(a, b, **rest):
    """Return the sample of one deployment."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    return Sample(a=a, b=b, replicate=np.zeros(a.size, int), **rest)


def compared(a, b, *, paired=True, family=1, alpha=0.05, names=("A", "B"), **rest):
    """Judge two conditions, given as one value a round, in a family whose others are equal."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if not paired:
        a, b = (
            np.append(a, np.full(b.size, np.nan)),
            np.append(np.full(a.size, np.nan), b),
        )
    others = [sample(np.ones(12), np.ones(12))] * (family - 1)
    every = [sample(a, b, **rest), *others]
    return family_of(every, [names] * family, alpha=alpha)[0]
