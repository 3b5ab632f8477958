"""Whether the planned rounds can decide the declared contrasts: the verdicts are simulated, which takes seconds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..errors import NothingToReport
from ..experiment.estimate import Outlook
from ..experiment.model import Contrast, Experiment
from ..stats import rounds_needed
from .judging import Blocks
from .observe import observe

ASSUMED_CV = 0.03
"""Variation between runs of a condition where no pilot shows it."""
ASSUMED_SLOW = 0.03
"""Share of runs that are slow on any real cloud."""
ASSUMED_BETWEEN = 0.02
"""Variation of a ratio from one deployment to the next."""
PILOT_ROUNDS = 4
"""Fewer do not show how much runs vary."""


def outlook(experiment: Experiment, pilot: pd.DataFrame | None = None) -> list[Outlook]:
    """Which contrasts have enough rounds for their margin, by the variation in a pilot's runs or an assumed one."""
    outlooks = []
    for contrast in experiment.contrasts:
        if contrast.b is None:
            continue  # a threshold: how far the level lies from it is not known before
        cv = None if pilot is None else _variation(pilot, contrast)
        needed = rounds_needed(
            ASSUMED_CV if cv is None else cv,
            margin=contrast.margin,
            alpha=experiment.alpha,
            family=len(experiment.contrasts),
            rounds=experiment.rounds if experiment.deployments > 1 else None,
            between=ASSUMED_BETWEEN,
            slow=ASSUMED_SLOW,
        )
        source = "as in the pilot" if cv is not None else "assumed"
        if cv is None and pilot is not None:
            source += f": the pilot has fewer than {PILOT_ROUNDS} rounds with both sides"
        outlooks.append(
            Outlook(
                question=contrast.question or contrast.metric,
                rounds=needed.rounds,
                enough=experiment.rounds >= needed.rounds
                and experiment.deployments >= needed.deployments,
                words=f"{needed.words} ({source})",
            )
        )
    return outlooks


def _variation(pilot: pd.DataFrame, contrast: Contrast) -> float | None:
    """Coefficient of variation of a condition's runs, beyond what a round's two sides share; None: too few to tell."""
    try:
        obs = observe(pilot, contrast.metric)
    except NothingToReport:
        return None
    a, b = (Blocks(obs).side(obs.matching(side)).value for side in (contrast.a, contrast.b or {}))
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    if len(a) < PILOT_ROUNDS or (a <= 0).any() or (b <= 0).any():
        return None
    # the spread of a ratio is that of two runs
    return max(1e-6, float(np.log(a / b).std()) / math.sqrt(2))
