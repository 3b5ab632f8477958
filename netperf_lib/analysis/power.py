"""Whether a running experiment may stop."""

from __future__ import annotations

from dataclasses import dataclass

from ..metrics import plural
from .comparison import Family, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """Whether a running experiment may stop.

    Attributes
    ----------
    stop : bool
        Every contrast is settled or futile, or no rounds are left.
    words : str
        The decision in a sentence.
    more_rounds : int
        About how many more rounds will settle all open contrasts; at most the rounds left.
    """

    stop: bool
    words: str
    more_rounds: int


def until_decided(family: Family, *, rounds_left: int) -> InterimAnalysis:
    """Decide after a round whether to continue measuring.

    Parameters
    ----------
    family : Family
        The contrasts, judged from all runs so far with the sequential design: looking costs
        nothing, and the number of looks need not be known.
    rounds_left : int
        Rounds (for several deployments: deployments) that the budget still allows.

    Examples
    --------
    >>> import pandas as pd
    >>> near, far = [[level + i for i in range(12)] for level in (50.0, 90.0)]
    >>> runs = {"round": range(12), "near": near, "far": far}
    >>> wide = pd.DataFrame(runs).set_index("round")
    >>> family = npl.judge(wide, baseline="far", better="lower")
    >>> npl.analysis.until_decided(family, rounds_left=3).words
    'stop: 1 of 1 contrast settled'
    """
    unsettled = [c for c in family if not c.settled]
    more = [
        max(c.more_rounds, 1)
        for c in unsettled
        if c.more_rounds <= rounds_left
        and (c.more_rounds or c.verdict != Verdict.NONE or not c.n)
    ]
    state = f"{len(family) - len(unsettled)} of {plural(len(family), 'contrast')} settled"
    if futile := len(unsettled) - len(more):
        state += f", {futile} that the remaining rounds will not settle"
    rounds = min(max(more, default=0), max(rounds_left, 0))
    stop = not more or rounds_left <= 0
    words = f"stop: {state}"
    if not stop:
        words = f"continue: {state}; about {plural(rounds, 'more round')}"
    return InterimAnalysis(stop=stop, words=words, more_rounds=rounds)
