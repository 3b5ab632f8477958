"""Claims about placement: each deployment is one draw of where VMs land, so deployments are the replicates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Unpack

import numpy as np
import numpy.typing as npt
import scipy

from .contrast import About, Better, Comparison, check_options, conclude, settle
from .judge import Judged, more_rounds, verdict_of
from .result import Floats, finite, plural

__all__ = ["DEPLOYMENTS", "judge_deployments", "placement"]

DEPLOYMENTS = 4
"""Fewest deployments a side from which anything is said about a placement in general."""


def judge_deployments(x: Floats, y: Floats, margin: float, alpha: float, family: int) -> Judged:
    """Judge the mean logs of deployments; rows are contrasts.

    Parameters
    ----------
    x, y : ndarray, shapes (samples, n) and (samples, m)
        A's and B's deployments.

    Notes
    -----
    Welch's interval for the difference of two means (Biometrika 34 (1947) 28-35).
    """
    n, m = x.shape[1], y.shape[1]
    vx, vy = x.var(axis=1, ddof=1) / n, y.var(axis=1, ddof=1) / m
    v = vx + vy
    df = np.divide(v * v, vx * vx / (n - 1) + vy * vy / (m - 1), out=np.full_like(v, min(n, m) - 1.0), where=v > 0)
    estimate = x.mean(axis=1) - y.mean(axis=1)
    ends = []
    for tail in (alpha / family / 2, alpha / family):
        half = scipy.special.stdtrit(df, 1 - tail) * np.sqrt(v)
        ends += [estimate - half, estimate + half]
    code = verdict_of(ends[0], ends[1], ends[2], ends[3], margin)
    one = np.ones_like(estimate)
    return Judged(estimate, ends[0], ends[1], code, one, one, 1 - alpha / family)


def placement(
    a: Iterable[npt.ArrayLike],
    b: Iterable[npt.ArrayLike],
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    family: int = 1,
    better: Better | None = "higher",
    **about: Unpack[About],
) -> Comparison:
    """Compare placement A with placement B over several deployments.

    Where VMs land is random: rounds in one deployment all measure the same draw, so they say nothing about the next
    one. Treating them as replicates finds a difference between two equal placements in some 60 % of experiments.

    Parameters
    ----------
    a, b : iterable of array_like
        One row of run values a deployment.
    margin, alpha, family, better, **about
        As in `compare`.

    Returns
    -------
    Comparison
        `n` counts the deployments of the smaller side, and `more_rounds` deployments a side. With fewer than 4 a side
        there is no verdict: `compare` then speaks for this VM pair only.

    Raises
    ------
    StatsError
        Values that are no numbers, or an option out of its range.
    """
    check_options(margin, alpha, family, better)
    sides, dropped, below = [], 0, 0
    for side in (a, b):
        means = []
        for runs in side:
            values, missing = finite(runs)
            dropped += missing
            below += int((values <= 0).sum())
            if values.size and (values > 0).all():
                means.append(float(np.log(values).mean()))
        sides.append(np.array(means))
    x, y = sides
    n = min(x.size, y.size)
    ratio, low, high, confidence, more = math.nan, 0.0, math.inf, 0.0, 0
    verdict, reason = conclude(0, 0, 0, better, False)
    if below:
        reason = f"{plural(below, 'value')} of zero or less: there is no ratio"
    elif n < DEPLOYMENTS:
        more = DEPLOYMENTS - n
        reason = (
            f"{plural(n, 'deployment')} on a side, at least {DEPLOYMENTS} are needed to speak of a placement "
            f"({more} more)"
        )
        if n:
            ratio = math.exp(float(x.mean() - y.mean()))
    else:
        judged = judge_deployments(x[None, :], y[None, :], margin, alpha, family)
        estimate, lo, hi = (float(v[0]) for v in (judged.estimate, judged.low, judged.high))
        ratio, low, high, confidence = math.exp(estimate), math.exp(lo), math.exp(hi), judged.confidence
        verdict, reason = conclude(int(judged.code[0]), lo, hi, better, about.get("declared", True))
        if verdict == "inconclusive":
            more = more_rounds(n, estimate, (hi - lo) / 2, margin)
            reason = settle(more, "deployments a side")
    about.setdefault(
        "scope", f"over {x.size} and {y.size} deployments" if x.size != y.size else f"over {n} deployments"
    )
    return Comparison(
        verdict=verdict,
        ratio=ratio,
        low=low,
        high=high,
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=confidence,
        method="deployments as replicates, Welch on the means of logs",
        assumptions=("each deployment is an independent draw of where VMs land", "deployment means are near normal"),
        warnings=(f"{plural(dropped, 'run')} dropped: the value is missing",) if dropped else (),
        margin=margin,
        alpha=alpha,
        family=int(family),
        better=better,
        unit="deployment",
        dropped=dropped,
        **about,
    )
