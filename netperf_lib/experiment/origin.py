"""Where runs come from: what was declared, and what must be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table of runs comes from.

    Attributes
    ----------
    declared : mapping
        The experiment as declared, as JSON types; empty where there is none.
    path : str or list
        Where the data are; of several experiments a list; empty for a table that was made by hand.
    notice : str or None
        The caveat to show with the data.
    looked : bool
        Whether rounds were added while looking at the results.
    added : int
        Contrasts that were declared after the first run.
    failed_claims : tuple of mapping
        Claims about the hosts that do not hold.
    """

    declared: Mapping[str, Any] = field(default_factory=dict)
    path: str | list[Any] = ""
    notice: str | None = None
    looked: bool = False
    added: int = 0
    failed_claims: tuple[Mapping[str, Any], ...] = ()

    @property
    def folder(self) -> str | None:
        """The one folder of the data; None if there are several or none."""
        return self.path if self.path and isinstance(self.path, str) else None

    @property
    def source(self) -> str:
        """Where the hosts come from, as declared; empty without a declaration."""
        return str((self.declared.get("hosts") or {}).get("source") or "")

    @property
    def planned(self) -> int:
        """Rounds planned in each deployment; 0: not known. Logs that were imported miss nothing."""
        return 0 if self.source == "imported" else int(self.declared.get("rounds") or 0)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A table of runs, and where they come from."""

    runs: pd.DataFrame
    origin: Origin = field(default_factory=Origin)


def joined(origins: Sequence[Origin]) -> Origin:
    """Return the origin of several experiments.

    The first one's declaration, all paths and notices.
    """
    first, paths = origins[0], [one.path for one in origins]
    if len(origins) == 1:
        return first
    notices = dict.fromkeys(one.notice for one in origins if one.notice)
    return replace(
        first,
        path=paths if all(paths) else "",
        looked=any(one.looked for one in origins),
        notice=" ".join(notices) or None,
    )
