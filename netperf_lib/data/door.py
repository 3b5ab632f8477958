"""The door: what a person names becomes `Results`, the one type that everything behind takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..errors import StoreError, UsageError
from ..experiment.origin import Measured, Origin
from .files import Location
from .imports import are_logs, read_logs
from .layout import experiment_folders, matching_experiments
from .load import Results
from .shipped import located

Readable: TypeAlias = (
    "Results | Measured | pd.DataFrame | Location | Iterable[Location | Results]"
)
"""What a person may name; see `read`."""


def read(source: Readable, *, pattern: str | None = None) -> Results:
    """Return the runs that a person names, with what was declared before them.

    This is the one place that asks what it was given.

    Parameters
    ----------
    source : path, iterable of paths, DataFrame or Results
        The folder of an experiment, or a pattern such as ``"results/azure*"``, or a list
        of several; a file, a folder or a pattern of logs; a table of runs. What was read already is
        returned as it is.
    pattern : str, optional
        Pattern of the paths of logs, as `netperf_lib.import_logs` takes it.

    Returns
    -------
    Results
        Its tables, contrasts and declaration. Of several experiments the runs together, without
        those that were not measured yet: `experiment`, `deployment` and `round` together name a
        block of time.

    Raises
    ------
    StoreError
        There is no experiment.
    UsageError
        There are neither experiments nor logs.

    Examples
    --------
    >>> npl.read("data/recorded/zones")
    Synthetic data: values planted around published figures; no network was measured.
    <zones: 144 runs (144 ok), 0 contrasts>
    conditions: test, client, server
    group npl.observe(exp, metric).table, not exp.runs
    """
    if isinstance(source, Results):
        return source
    known: Any = source
    origin = getattr(known, "origin", None)
    if isinstance(origin, Origin):
        return Results(given=Measured(known.runs, origin))
    if isinstance(source, pd.DataFrame):
        return Results(given=Measured(source, Origin(notice=_notices(source))))
    if isinstance(source, str | os.PathLike):
        return _of_path(source, pattern)
    if not isinstance(source, Iterable) or isinstance(source, Mapping):
        kind = type(source).__name__
        raise UsageError(
            f"expected an experiment, its table of runs, a folder, or several of these; got {kind}"
        )
    return _several([read(one, pattern=pattern) for one in source])


def _of_path(path: Location, pattern: str | None) -> Results:
    """Return the experiment of a folder, the experiments that a pattern names, or logs."""
    path, instead = located(path)
    if not matching_experiments(path) and are_logs(path):
        return Results(given=read_logs(path, pattern=pattern), called=Path(path).name)
    folders = experiment_folders(path)
    return _several([Results(folder, instead) for folder in folders])


def _several(parts: Sequence[Results]) -> Results:
    """Return several experiments as one; those that were not measured yet give no runs."""
    if not parts:
        raise StoreError("these folders: no experiment was given")
    return parts[0] if len(parts) == 1 else Results(parts=tuple(parts))


def _notices(runs: pd.DataFrame) -> str | None:
    """Return what a table of runs says that a reader must know."""
    if "notice" not in runs:
        return None
    return " ".join(map(str, sorted(runs["notice"].dropna().unique()))) or None
