"""What proves where the hosts were, and how they were set up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from ..data.declaration import claims
from ..data.layout import experiment_folder
from ..errors import StoreError
from .runs import Data, measurement
from .words import Words

SHOWN = ["host", "claim", "holds", "evidence"]
HOLDS = {True: "holds", False: "does NOT hold", None: "not shown"}


def stored(data: Data) -> list[dict[str, Any]]:
    """Return the claims about the hosts as they are stored; a table made by hand has none."""
    folder = folder_of(data)
    return claims(folder) if folder else []


def folder_of(data: Data) -> Path | None:
    """Return the folder that runs come from; None for a table made by hand."""
    folder = measurement(data).origin.folder
    try:
        return experiment_folder(folder) if folder else None
    except StoreError:
        return None


def proofs(data: Data) -> pd.DataFrame | Words:
    """Return the evidence of where the hosts were and how they were set up.

    Examples
    --------
    >>> npl.analysis.proofs(exp).columns.to_list()
    ['claim', 'holds', 'evidence']
    """
    rows = pd.DataFrame(stored(data), columns=["deployment", *SHOWN])
    if rows.empty:
        return Words(
            "The source of the hosts recorded no proof of where they were: the placements are as "
            "declared."
        )
    rows["holds"] = [HOLDS[holds] for holds in rows["holds"]]
    named = rows["host"].fillna("") != ""
    rows["host"] = rows["host"].where(named, rows["deployment"])
    return rows[SHOWN].set_index("host").rename_axis(None)
