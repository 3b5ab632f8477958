"""Error levels of a comparison that is looked at more than once, and the decision to continue measuring."""

from __future__ import annotations

import math
from functools import lru_cache

import scipy

PRIOR = 0.5
"""Variance of the standardised effects that the mixture weighs: narrowest near 10 to 20 rounds."""


@lru_cache(maxsize=8192)
def nominal_level(n: int, alpha: float) -> float:
    """Two-sided level at which to test after `n` rounds so that all looks together err with at most `alpha`.

    The likelihood ratio of Student's t with a normal mixture over the standardised effect is a nonnegative
    martingale under the null hypothesis (Lai, Ann. Statist. 4 (1976) 265-280; Wang and Ramdas, "Anytime-valid t-tests
    and confidence sequences for Gaussian means with unknown variance", 2023), so it exceeds 1 / alpha at any time with
    a chance of at most alpha. The value of t at which it does so is turned into the level of the fixed-n test.
    """
    if n < 3:
        return 0.0
    spread = 1 + n * PRIOR
    c = (math.sqrt(spread) / alpha) ** (2 / n)
    if c >= spread:
        return 0.0
    t = math.sqrt((n - 1) * (c - 1) / (1 - c / spread))
    return 2 * float(scipy.special.stdtr(n - 1, -t))
