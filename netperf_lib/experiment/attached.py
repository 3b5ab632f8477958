"""What is attached to a table: where it comes from, and what must be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import pandas as pd

_KEY = "netperf_lib"


@dataclass(frozen=True, slots=True, eq=False)
class Attached:
    """What a table of runs or of levels carries besides its columns: the one thing in `attrs` of a data frame.

    Runs that are cut by hand are compared, too, as their experiment declared it and with its notice, and pandas hands
    on nothing but `attrs`. It is frozen, and shared by all tables that are cut from one; no copy is made of it.

    Attributes
    ----------
    declared : mapping
        The experiment as declared, as JSON types; empty where there is none.
    path : str or list
        Where the data are; of tables that were joined a list; empty for a table that was made by hand.
    notice : str or None
        The caveat to show with the data.
    looked : bool
        Whether rounds were added while looking at the results.
    added : int
        Contrasts that were declared after the first run.
    failed_claims : tuple of mapping
        Claims about the hosts that do not hold.
    metric : str or None
        The metric of a table of levels.
    deployments : int
        Deployments behind a table of levels.
    """

    declared: Mapping[str, Any] = field(default_factory=dict)
    path: str | list[Any] = ""
    notice: str | None = None
    looked: bool = False
    added: int = 0
    failed_claims: tuple[Mapping[str, Any], ...] = ()
    metric: str | None = None
    deployments: int = 1

    @property
    def folder(self) -> str | None:
        """The one folder of the data; None if there are several or none."""
        return self.path if self.path and isinstance(self.path, str) else None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # pandas copies what is attached in each operation


def attached(frame: Any) -> Attached:
    """What is attached to a table; to anything else, and to a table made by hand, nothing."""
    return getattr(frame, "attrs", {}).get(_KEY) or Attached()


def attach(frame: pd.DataFrame, **changes: Any) -> None:
    """Change what is attached to a table; tables that it was cut from keep theirs."""
    frame.attrs = {_KEY: replace(attached(frame), **changes)}


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table below the other; the first one's declaration, every path and every notice are attached to it."""
    import pandas as pd

    of_each = [attached(frame) for frame in frames]
    every = pd.concat(frames, ignore_index=True)
    if len(frames) > 1:
        paths, looked = [a.path for a in of_each], any(a.looked for a in of_each)
        notice = " ".join(dict.fromkeys(a.notice for a in of_each if a.notice)) or None
        every.attrs = {
            _KEY: replace(
                of_each[0], path=paths if all(paths) else "", looked=looked, notice=notice
            )
        }
    return every
