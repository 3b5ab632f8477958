"""Which columns of imported runs are factors: decided at import, where a person can act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..experiment.factors import (
    FACTORS,
    LOG_NAME,
    dimensions,
    factor,
    factors_of,
    is_address,
)
from .raw import Record

if TYPE_CHECKING:
    import pandas as pd

_HOSTS = ("client", "server")
_MOST_LEVELS = 12
"""A label with more levels, a run each, is a remark."""
_SENTENCE, _PHRASE = 5, 3
"""Words of a label that is a sentence; and of one that some runs have and others have not."""


def decide_factors(
    records: Iterable[Record],
) -> tuple[list[str], dict[str, str]]:
    """Decide which columns of runs are factors.

    Parameters
    ----------
    records : iterable of Record
        Of each run.

    Returns
    -------
    tuple of list and dict
        The columns that vary and describe a condition; and those that vary and do not, each with
        the reason.
    """
    import pandas as pd

    rows = []
    for record in records:
        levels = factors_of(record.trial, record.hosts, record.facts)
        rows.append(levels | {"round": record.round})
    runs = pd.DataFrame(rows, dtype=object)
    # a label that a run lacks is like one that is null
    runs = runs.where(runs.notna(), None)
    counts = runs.nunique(dropna=False)
    names = dimensions(runs.columns, roles=("condition", "host"))
    varying = [name for name in names if counts[name] > 1]
    factors, others = list[str](), dict[str, str]()
    for name in varying:
        if why := _why_not(runs, name, counts[varying]):
            others[name] = why
        else:
            factors.append(name)
    return factors, others


def _why_not(runs: pd.DataFrame, name: str, counts: pd.Series[int]) -> str:
    """Return why a column is no factor; empty if it is one.

    `counts` has the number of levels of each column that varies.
    """
    if name in _HOSTS:
        return "addresses that change from run to run" if _change(runs) else ""
    if name in FACTORS or name == LOG_NAME:
        return ""
    column = runs[name].dropna()
    levels, size = column.nunique(), len(runs)
    most = _SENTENCE if len(column) == size else _PHRASE
    if max(len(str(label).split()) for label in column.unique()) >= most:
        return "free text"
    rounds = runs["round"].nunique()
    of_rounds = runs.groupby("round")[name].nunique().max() == 1
    if 1 < rounds < size and levels == rounds and of_rounds:
        return "it goes with the round"
    # a name for each of a few logs is a factor, where nothing else tells them apart
    few = map(str, counts.index[counts < size])
    others = [one for one in few if factor(one).always_splits]
    repeated = bool(others) and bool(runs.duplicated(others).any())
    if levels == len(column) > 1 and (levels > _MOST_LEVELS or repeated):
        return "another value for each run"
    return ""


def _change(runs: pd.DataFrame) -> bool:
    """Return whether hosts are addresses that change from run to run, as those of pods do."""
    import pandas as pd

    known = runs.reindex(columns=[*_HOSTS]).dropna()
    if runs["round"].notna().all() or known.empty:
        return False
    addresses = pd.unique(known.to_numpy().ravel())
    return all(map(is_address, addresses)) and bool((known.value_counts() == 1).any())
