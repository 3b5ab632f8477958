"""How many rounds the declared contrasts need, by the variation that a pilot measured."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..experiment.model import Contrast, Experiment
from ..metrics import format_value
from .judging import by_round, paired_conditions
from .power import rounds_needed
from .runs import Observed

PILOT_ROUNDS = 4
"""Fewer do not show how much runs vary."""


def needed_by_pilot(experiment: Experiment, pilot: pd.DataFrame) -> list[str]:
    """Say of each contrast of two conditions whether the planned rounds show equivalence."""
    lines = []
    # how far a level lies from its threshold is not known before
    for contrast in (c for c in experiment.contrasts if c.b is not None):
        question, cv = contrast.question or contrast.metric, variation(pilot, contrast)
        if cv is None:
            lines.append(f"{question}: the pilot has too few rounds with both sides")
            continue
        family = len(experiment.contrasts)
        rounds = rounds_needed(
            cv, margin=contrast.margin, alpha=experiment.alpha, family=family
        )
        enough = "enough" if experiment.rounds >= rounds else "TOO FEW"
        margin, varies = (format_value(v, "ratio", 2) for v in (contrast.margin, cv))
        lines.append(
            f"{enough} rounds: {question}: {rounds} show equivalence within {margin} with 90 % "
            f"chance; runs of the pilot vary by {varies}"
        )
    return lines


def variation(pilot: pd.DataFrame, contrast: Contrast) -> float | None:
    """Return the coefficient of variation of runs beyond what a round shares.

    None: too few rounds.
    """
    [p] = paired_conditions(Observed.of(pilot), [contrast])
    if not p.obs or not p.a or not p.b:
        return None
    values = by_round(p.obs)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.log(values[p.a].to_numpy() / values[p.b].to_numpy())
    ratios = ratios[np.isfinite(ratios)]
    if ratios.size < PILOT_ROUNDS:
        return None
    # the spread of a ratio is that of two runs
    return max(1e-6, float(ratios.std(ddof=1)) / math.sqrt(2))
