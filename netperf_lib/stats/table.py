"""The table of runs, as contrasts ask it: which runs are in a condition, in which round, with which value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..experiment.factors import dimensions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunsTable", "by_round"]

HOSTS = ("client", "server")
PLACES = ("placement", "client", "server", "client_zone", "server_zone", "client_region", "server_region")
"""Factors that stand for where the VMs landed."""

Factors = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Values = npt.NDArray[np.float64]


class RunsTable:
    """The table of runs with what every contrast asks of it, looked up once."""

    def __init__(self, runs: pd.DataFrame) -> None:
        import pandas as pd

        if not isinstance(runs, pd.DataFrame):
            raise StatsError(f"compare needs the table of runs (a DataFrame); got {type(runs).__name__}")
        if runs.empty:
            raise StatsError("the table of runs is empty: nothing was measured, or nothing was ingested")
        order = [c for c in ("experiment", "deployment", "round", "order") if c in runs]
        runs = runs.copy(deep=False)
        runs.attrs = {}  # pandas copies them, deeply, at each look at a column
        self.runs = runs.sort_values(order, kind="stable") if order else runs
        self.columns = frozenset(runs.columns)
        self.factors = dimensions(runs.columns)
        """What makes up a condition: a group in which one of these varies, unnamed, mixes conditions."""
        self.context = dimensions(runs.columns, roles=("host", "observed"))
        """What should stay the same: a difference between the sides is a second explanation."""
        n = len(runs)
        self.excluded = self._excluded()
        status = self.runs["status"].to_numpy(dtype=object) if "status" in runs else np.full(n, "ok", dtype=object)
        self.ok: Mask = (status == "ok") & ~self.excluded
        self.failed: Mask = (status != "ok") & ~self.excluded
        self.deployment = self._codes("experiment", "deployment")
        self.block = self._codes("experiment", "deployment", "round")
        self._levels: dict[str, tuple[Rows, dict[Hashable, int]]] = {}
        self._constant: set[str] = set()
        self._values: dict[str, Values] = {}

    def _excluded(self) -> Mask:
        if "excluded" not in self.runs:
            return np.zeros(len(self.runs), dtype=bool)
        import pandas as pd

        cause = self.runs["excluded"]
        return np.array([bool(c) and not pd.isna(c) if pd.api.types.is_scalar(c) else bool(c) for c in cause])

    def _codes(self, *columns: str) -> Rows:
        have = [c for c in columns if c in self.runs]
        if not have:
            return np.zeros(len(self.runs), dtype=np.intp)
        return np.asarray(self.runs.groupby(have, sort=False, dropna=False).ngroup(), dtype=np.intp)

    def levels(self, factor: str) -> tuple[Rows, dict[Hashable, int]]:
        """Codes of a column's levels, and the code of each level; null is the level None."""
        import pandas as pd

        if factor not in self._levels:
            if factor not in self.runs:
                raise StatsError(f"the table of runs has no column {factor!r} (factors: {', '.join(self.factors)})")
            codes, levels = pd.factorize(self.runs[factor].astype(object), use_na_sentinel=True)
            names: dict[Hashable, int] = {v: i for i, v in enumerate(levels)}
            names[None] = -1
            if (codes == codes[0]).all():
                self._constant.add(factor)
            self._levels[factor] = codes, names
        return self._levels[factor]

    def mask(self, factors: Factors) -> Mask:
        """Runs in which every factor has the level asked for."""
        found = np.ones(len(self.runs), dtype=bool)
        for factor, level in factors.items():
            codes, names = self.levels(factor)
            found &= codes == names.get(level, -2)
        return found

    def values(self, metric: str) -> Values:
        """One value a run."""
        import pandas as pd

        if metric not in self._values:
            if metric not in self.runs:
                import difflib

                near = difflib.get_close_matches(metric, [str(c) for c in self.runs.columns], n=3)
                raise StatsError(
                    f"the table of runs has no column {metric!r}"
                    + (f"; did you mean {', '.join(near)}?" if near else "")
                )
            self._values[metric] = pd.to_numeric(self.runs[metric], errors="coerce").to_numpy(
                dtype=float, na_value=np.nan
            )
        return self._values[metric]

    def level_of(self, factor: str, row: np.intp) -> Any:
        """Level of a factor in a row."""
        import pandas as pd

        value = self.runs[factor].iloc[int(row)]
        return None if pd.isna(value) else value

    def varying(self, rows: Rows, columns: Iterable[str], named: Factors) -> dict[str, list[Hashable]]:
        """Columns not named in the contrast that have several levels in these rows."""
        found = {}
        for column in columns:
            if column in named or column not in self.columns:
                continue
            codes, names = self.levels(column)
            if column in self._constant:
                continue
            here = np.unique(codes[rows])
            if here.size > 1:
                by_code = {code: level for level, code in names.items()}
                found[column] = [by_code[int(c)] for c in here]
        return found


def by_round(runs: pd.DataFrame, metric: str, factor: str, where: Factors | None = None) -> pd.DataFrame:
    """Arrange one value a run by round and level of a factor, as `streams` and `buffers` take it.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    metric : str
        Column of values.
    factor : str
        Column whose levels become the columns, for example ``"streams"``; runs without a level are left out.
    where : dict, optional
        Levels of other factors that the runs must have.

    Returns
    -------
    DataFrame, shape (rounds, levels)
        Index: deployment and round; the median where a round has several such runs; NaN where it has none.

    Raises
    ------
    StatsError
        No such column, or no such run.
    """
    import pandas as pd

    table = RunsTable(runs)
    values = table.values(metric)
    use = np.flatnonzero(table.mask(where or {}) & table.ok & np.isfinite(values) & (table.levels(factor)[0] >= 0))
    if not use.size:
        raise StatsError(f"no run with a value of {metric} and a level of {factor} fits {dict(where or {})}")
    index = [c for c in ("experiment", "deployment", "round") if c in table.runs]
    chosen = table.runs.iloc[use]
    data = pd.DataFrame({**{c: chosen[c].to_numpy() for c in index}, factor: chosen[factor].to_numpy()})
    data[metric] = values[use]
    return data.pivot_table(index=index or None, columns=factor, values=metric, aggfunc="median", sort=True)
