"""The table of runs as contrasts use it: which runs are in a condition, in which round, with which value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..experiment.factors import FACTORS, dimensions

if TYPE_CHECKING:
    import pandas as pd

HOSTS = ("client", "server")
PLACES = ("placement", "client", "server", "client_zone", "server_zone", "client_region", "server_region")
"""Factors that describe where the VMs landed."""
Factors = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Values = npt.NDArray[np.float64]


class RunsTable:
    """The table of runs with what every contrast needs from it, looked up once.

    Columns that are missing have sensible defaults: one experiment, one deployment, every run ok, no order.
    """

    def __init__(self, runs: pd.DataFrame) -> None:
        import pandas as pd

        if not isinstance(runs, pd.DataFrame):
            raise StatsError(f"compare needs the table of runs (a DataFrame); got {type(runs).__name__}")
        if runs.empty:
            raise StatsError("the table of runs is empty: nothing was measured, or nothing was ingested")
        order = [c for c in ("experiment", "deployment", "round", "order", "attempt") if c in runs]
        runs = runs.copy(deep=False)
        runs.attrs = {}  # pandas copies them, deeply, at each look at a column
        self.runs = runs.sort_values(order, kind="stable") if order else runs
        self.blocked = "round" not in runs or not runs["round"].isna().any()
        """Whether every run belongs to a round; if one does not (imported logs), each run is a round of its own."""
        if not self.blocked:
            self.runs = self.runs.assign(round=np.arange(len(runs)))
        self.columns = frozenset(str(c) for c in runs.columns)
        self.factors = [c for c in dimensions(runs.columns) if self._is_factor(c)]
        """Factors that make up a condition: a group in which one of these varies, not named, mixes conditions."""
        self.context = dimensions(runs.columns, roles=("host", "observed"))
        """What should stay the same: a difference between the sides is a second explanation."""
        n = len(runs)
        self.excluded = self._excluded()
        status = self.runs["status"].to_numpy(dtype=object) if "status" in runs else np.full(n, "ok", dtype=object)
        self.ok: Mask = (status == "ok") & ~self.excluded
        self.failed: Mask = (status != "ok") & ~self.excluded
        self._levels: dict[str, tuple[Rows, dict[Hashable, int]]] = {}
        self._constant: set[str] = set()
        self._values: dict[str, Values] = {}
        self.experiment = self.codes("experiment")
        self.deployment = self.codes("experiment", "deployment")
        self.block = self.codes("experiment", "deployment", "round")
        """Rounds of different deployments or experiments are different blocks."""
        self.condition = self.codes(*self.factors)
        """What distinguishes the runs of a round."""
        self.conditions = np.unique(self.condition).size
        self.trial = self.codes("experiment", "deployment", "round", *self.factors)
        self.superseded, self.retried = self._attempts()
        self.ok &= ~self.superseded

    def _is_factor(self, column: str) -> bool:
        """Whether a column is a factor: one that is not listed may also be a measured value, or hold lists."""
        import pandas as pd

        if column == "design":
            return False
        if column in FACTORS:
            return True
        values = self.runs[column]
        try:
            levels = values.nunique(dropna=False)
        except TypeError:
            return False
        return not (pd.api.types.is_float_dtype(values) and levels > 12) and levels < max(3, len(values) // 2)

    def _attempts(self) -> tuple[Mask, Mask]:
        """Runs whose trial was repeated later, and runs whose trial failed before."""
        superseded, retried = np.zeros(len(self.runs), dtype=bool), np.zeros(len(self.runs), dtype=bool)
        if "attempt" not in self.columns:
            return superseded, retried
        attempt = self.values("attempt")
        retried = np.nan_to_num(attempt, nan=1.0) > 1
        for t in np.unique(self.trial[retried]):
            rows = np.flatnonzero(self.trial == t)
            good = rows[self.ok[rows]]
            last = good[-1] if good.size else rows[-1]
            superseded[rows[rows != last]] = True
            retried[rows] = True
        return superseded, retried

    def _excluded(self) -> Mask:
        if "excluded" not in self.runs:
            return np.zeros(len(self.runs), dtype=bool)
        import pandas as pd

        return np.array([not pd.isna(c) and bool(c) for c in self.runs["excluded"]])

    def codes(self, *columns: str) -> Rows:
        """One number for each combination of levels, in the order of the levels' first appearance in each column."""
        found = np.zeros(len(self.runs), dtype=np.intp)
        for column in columns:
            if column in self.columns:
                codes, names = self.levels(column)
                if column not in self._constant:
                    found = found * (len(names) + 1) + codes + 1
        return np.unique(found, return_inverse=True)[1].astype(np.intp)

    def hour(self, rows: Rows) -> Rows | None:
        """Hour in which each of these runs began; None where that is not known of all."""
        import pandas as pd

        if "started_utc" not in self.columns:
            return None
        started = pd.to_datetime(self.runs["started_utc"].iloc[rows], utc=True, errors="coerce")
        if started.isna().any():
            return None
        return np.asarray((started - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(hours=1), dtype=np.intp)

    def unchained(self) -> bool:
        """Whether most rounds began with another condition than the one that ended the round before."""
        if "order" not in self.columns or not np.isfinite(self.values("order")).all():
            return False
        start = np.flatnonzero((self.block[1:] != self.block[:-1]) & (self.deployment[1:] == self.deployment[:-1])) + 1
        return start.size > 1 and float((self.condition[start] != self.condition[start - 1]).mean()) > 0.5

    def levels(self, factor: str) -> tuple[Rows, dict[Hashable, int]]:
        """Codes of a column's levels, and the code of each level; null is the level None."""
        import pandas as pd

        if factor not in self._levels:
            if factor not in self.columns:
                raise StatsError(f"the table of runs has no column {factor!r} (factors: {', '.join(self.factors)})")
            codes, levels = pd.factorize(self.runs[factor].astype(object), use_na_sentinel=True)
            names: dict[Hashable, int] = {v: i for i, v in enumerate(levels)}
            names[None] = -1
            if (codes == codes[0]).all():
                self._constant.add(factor)
            self._levels[factor] = codes, names
        return self._levels[factor]

    def mask(self, factors: Factors) -> Mask:
        """Runs in which every factor has the level asked for, or one of a list of levels."""
        found = np.ones(len(self.runs), dtype=bool)
        for factor, level in factors.items():
            codes, names = self.levels(factor)
            wanted = level if isinstance(level, list | tuple) else [level]
            found &= np.isin(codes, [names.get(v, -2) for v in wanted])
        return found

    def values(self, metric: str) -> Values:
        """One value per run."""
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


def hours_of(runs: pd.DataFrame) -> npt.NDArray[np.datetime64] | None:
    """Hour in which each run began, as `level` takes it; None where that is not known of every run."""
    started = runs.get("started_utc")
    if started is None or started.isna().any() or not hasattr(started, "dt"):
        return None
    return np.asarray(started.dt.tz_localize(None), dtype="datetime64[h]")


def by_round(runs: pd.DataFrame, metric: str, factor: str, where: Factors | None = None) -> pd.DataFrame:
    """Arrange one value per run by round and level of a factor, as `streams` and `buffers` take it.

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
        Index: experiment, deployment and round; the median where a round has several such runs; NaN where it has none.

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
