"""How many rounds the declared contrasts need, by the variation that a pilot measured."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..experiment.estimate import RoundsNeeded
from ..experiment.model import Contrast, Experiment
from .judging import by_round, paired_conditions
from .power import rounds_needed
from .runs import Observed

PILOT_ROUNDS = 4
"""Fewer do not show how much runs vary."""


def needed_by_pilot(experiment: Experiment, pilot: pd.DataFrame) -> list[RoundsNeeded]:
    """Return the rounds that each contrast of two conditions needs to show equivalence."""
    found = []
    for contrast in experiment.contrasts:
        if contrast.b is None:
            continue  # how far a level lies from its threshold is not known before
        cv = variation(pilot, contrast)
        rounds = None
        if cv is not None:
            rounds = rounds_needed(
                cv,
                margin=contrast.margin,
                alpha=experiment.alpha,
                family=len(experiment.contrasts),
            )
        question = contrast.question or contrast.metric
        found.append(
            RoundsNeeded(question, contrast.margin, cv, rounds, experiment.rounds)
        )
    return found


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
