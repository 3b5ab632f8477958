"""Reading measured data: one experiment or a fleet of them, as data frames or as lazy tables."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NoReturn

import pandas as pd
import pyarrow as pa

from ..errors import NotMeasured, UsageError, no_table, visible
from ..experiment.factors import dimensions
from ..experiment.model import Contrast, Experiment
from ..experiment.origin import Origin, joined
from ..metrics import METRICS, PAGES
from .files import Location, explained
from .ingest import Part, current
from .layout import Declaration, Store, is_experiment, stores
from .shipped import located
from .tables import SCHEMAS, TableName, unified

Locations = Location | Iterable[Location]

GROUP = "npl.observe(exp, metric).table"
"""The table whose rows are grouped by condition; one of runs mixes them."""
_ORDER = ["deployment", "round", "order", "attempt"]


@dataclass(repr=False)
class Results:
    """The data of one experiment; see `read`."""

    store: Store = field(repr=False)
    instead: str | None = None
    """What a reader must know about where the data come from: a notebook may show the recorded experiment."""

    @property
    def name(self) -> str:
        """Name of the experiment's folder."""
        return self.store.experiment

    @property
    def path(self) -> str:
        """Where the data are."""
        return self.store.url

    @cached_property
    def _declared(self) -> Declaration:
        return _untouched(self.store.declaration(), self._whole)

    @property
    def declaration(self) -> Experiment:
        """The experiment as declared, with the contrasts declared before the first run."""
        return self._declared.experiment

    @cached_property
    def _whole(self) -> pd.DataFrame:
        return _frame(self.store, "runs")

    @cached_property
    def origin(self) -> Origin:
        """The declaration, and what must be said of these data."""
        notices = (*sorted(self._whole["notice"].dropna().unique()), self.instead)
        with explained(self.path):
            declared = self._declared
            return Origin(
                declared=declared.experiment.model_dump(mode="json"),
                path=self.path,
                notice=" ".join(filter(None, notices)) or None,
                looked=bool((self.store.read_plan() or {}).get("looked")),
                added=len(declared.added),
                failed_claims=tuple(c for c in self.store.claims() if c["holds"] is False),
            )

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The table of runs, one row each, sorted by round, with the columns that have a value.

        A missing value is null. What to group is the table of `netperf_lib.observe`.
        """
        return _plain(self._whole)

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """Interval reports of the tools during the runs."""
        return _frame(self.store, "intervals")

    @cached_property
    def percentiles(self) -> pd.DataFrame:
        """Latency percentiles reported by the tools."""
        return _frame(self.store, "percentiles")

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The latency of every packet."""
        return _frame(self.store, "samples")

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts declared before the first run. Only these get verdicts."""
        return self.declaration.contrasts

    @property
    def added(self) -> tuple[Contrast, ...]:
        """Contrasts declared after the first run: they get an interval and no verdict."""
        return self._declared.added

    @property
    def frozen_utc(self) -> str | None:
        """Time of the first run, which froze the contrasts; None for data of version 0.1."""
        return self._declared.frozen_utc

    @property
    def metrics(self) -> list[str]:
        """The metrics that were measured."""
        return [m for m in METRICS if m in self.runs]

    @property
    def factors(self) -> list[str]:
        """The factors that vary."""
        return [f for f in dimensions(self.runs.columns) if len(self.runs[f].unique()) > 1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if near := get_close_matches(name, dir(type(self)), n=1, cutoff=0.8):
            raise AttributeError(f"an experiment has no {name!r}; did you mean {near[0]}?")
        if hasattr(pd.DataFrame, name):
            raise no_table("an experiment", name, "exp.runs")
        raise AttributeError(
            f"an experiment has no {name!r}; functions take it, as npl.levels(exp, …); see dir(npl)"
        )

    def __getitem__(self, name: Any) -> NoReturn:
        if name in dir(type(self)):
            raise UsageError(f"an experiment is no mapping: write exp.{name}")
        raise UsageError(
            f"an experiment is no table: exp.runs has a row for each run, and columns such as {name!r}"
        )

    @property
    def notice(self) -> str | None:
        """The caveat to show with these data."""
        return self.origin.notice

    def __len__(self) -> int:
        return len(self.runs)

    def __bool__(self) -> bool:
        return True  # also before anything was measured

    def __repr__(self) -> str:
        counts = self.runs["status"].value_counts().to_dict()
        states = ", ".join(f"{n} {status}" for status, n in counts.items())
        added = f", {len(self.added)} added later" if self.added else ""
        runs = f"{len(self.runs)} runs ({states}), {len(self.contrasts)} contrasts{added}"
        return f"<{self.name}: {runs}>\n{self._conditions}"

    @property
    def _conditions(self) -> str:
        """What makes a condition of the runs, and where the conditions are."""
        columns = ", ".join(self.factors) or "nothing that varies"
        return f"conditions: {columns}\ngroup {GROUP}, not exp.runs"

    def _repr_html_(self) -> str:
        measured, factors = self.metrics, self.factors
        rows = {
            "title": self.declaration.title,
            "runs": repr(self).partition("\n")[0].partition(": ")[2].rstrip(">"),
            "frozen": self.frozen_utc or "not recorded",
            "metrics": ", ".join(m for m in PAGES if m in measured),
            "conditions": ", ".join(factors),
            "group": f"{GROUP}, not exp.runs",
            "ask": f"npl.ask(exp, {(factors or ['placement'])[0]!r})",
            "notice": self.notice,
            "path": self.path,
        }
        cells = (
            f"<tr><th>{k}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items() if v
        )
        return f"<table><caption>{html.escape(self.name)}</caption>{''.join(cells)}</table>"


@dataclass(repr=False)
class Fleet:
    """Several experiments under one data root; see `read`."""

    path: str
    experiments: tuple[Results, ...]

    def __iter__(self) -> Iterator[Results]:
        return iter(self.experiments)

    def __len__(self) -> int:
        return len(self.experiments)

    def __getitem__(self, name: str | int) -> Results:
        if isinstance(name, int):
            return self.experiments[name]
        for one in self.experiments:
            if one.name == name:
                return one
        raise KeyError(f"no experiment {name!r} (known: {', '.join(e.name for e in self)})")

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs of all experiments; `experiment`, `deployment` and `round` together name a block of time."""
        return _together([one.runs for one in self._measured], self.path)

    @cached_property
    def _measured(self) -> list[Results]:
        measured = []
        for one in self.experiments:
            with suppress(NotMeasured):
                _ = one.runs
                measured.append(one)
        return measured

    @cached_property
    def origin(self) -> Origin:
        """The declaration of the first experiment, and what must be said of any of them."""
        return joined([one.origin for one in self._measured])

    @property
    def notice(self) -> str | None:
        """The caveat to show with these data."""
        return self.origin.notice

    def __repr__(self) -> str:
        return f"<{self.path}: {len(self)} experiments: {', '.join(e.name for e in self)}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>" + "".join(
            e._repr_html_() for e in self.experiments[:20]
        )


def read(location: Locations) -> Results | Fleet:
    """Read an experiment, or several: all under a data root, or those that are listed.

    Parameters
    ----------
    location : path, URL or iterable of them
        An experiment's folder, or a data root; or folders of experiments.

    Returns
    -------
    Results or Fleet
        For an experiment its tables, contrasts and declaration; for a data root all its experiments.

    Raises
    ------
    StoreError
        There is no experiment.

    Examples
    --------
    >>> npl.read("data/recorded/zones")
    <zones: 144 runs (144 ok), 0 contrasts>
    conditions: test, client, server
    group npl.observe(exp, metric).table, not exp.runs
    """
    if not isinstance(location, str | os.PathLike):
        return Fleet("", tuple(map(Results, stores(location))))
    location, instead = located(location)
    if is_experiment(location):
        return Results(Store.at(location), instead)
    return Fleet(str(location), tuple(Results(store) for store in stores(location)))


def load(path: Locations, table: TableName = "runs") -> pd.DataFrame:
    """Load a tidy table of one experiment, or of several combined.

    Parameters
    ----------
    path : path, URL or iterable of them
        Experiment folders, for example ``results/lab``; `experiments` lists those of a data root. Of several, those
        that were not measured yet are left out.
    table : {"runs", "intervals", "percentiles", "samples"}
        ``runs`` has one row per run: identity, factors, options and labels, context, metrics (missing is null),
        provenance.

    Returns
    -------
    pandas.DataFrame
        A plain table. What was declared is with what `read` returns.

    Raises
    ------
    StoreError
        There is no experiment, or nothing was measured.

    Examples
    --------
    >>> len(npl.load("data/recorded/lab-full"))
    264
    """
    if isinstance(path, str | os.PathLike):
        return _frame(Store.at(located(path)[0]), table)
    frames = []
    for store in stores(path):
        with suppress(NotMeasured):
            frames.append(_frame(store, table))
    return _together(frames, "these folders")


def _together(frames: list[pd.DataFrame], where: str) -> pd.DataFrame:
    if not frames:
        raise NotMeasured(f"{where}: nothing was measured here yet; run `npl collect` first")
    return pd.concat(frames, ignore_index=True)


def _frame(store: Store, table: TableName) -> pd.DataFrame:
    """Return a table of an experiment as a data frame."""
    with explained(store.url):
        parts = _parts(store, table)
        schema = unified((part.schema for part in parts), table)
        # what a part lacks is null
        rows = map(Part.read, parts)
        data = pa.concat_tables([schema.empty_table(), *rows], promote_options="permissive").select(
            schema.names
        )
        if table == "runs":
            causes = store.exclusions()
            excluded = pa.array([causes.get(i) for i in data["run_id"].to_pylist()], pa.string())
            data = data.append_column("excluded", excluded)
        frame = data_frame(data)
        return frame.sort_values(_ORDER, ignore_index=True) if table == "runs" else frame


def _plain(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that have a value; those without a gap have types of numpy."""
    runs = runs.dropna(axis="columns", how="all")
    whole = [c for c in runs.select_dtypes(["Int64", "boolean"]) if runs[c].notna().all()]
    types = {str(c): runs[c].to_numpy().dtype for c in whole}
    return runs.astype(types)


def data_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame; integers and flags keep their type even if some are missing."""
    for i, column in enumerate(table.schema):  # labels of others may hold control characters
        if pa.types.is_string(column.type) and any(
            visible(v) != v for v in table[i].unique().drop_null().to_pylist()
        ):
            texts = [None if v is None else visible(v) for v in table[i].to_pylist()]
            table = table.set_column(i, column, pa.array(texts, column.type))
    for i, column in enumerate(table.schema):  # a cell holds text, which pandas can count and group
        if pa.types.is_list(column.type):
            texts = ["; ".join(cell) if cell else None for cell in table[i].to_pylist()]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get)
    return frame


def _untouched(declared: Declaration, runs: pd.DataFrame) -> Declaration:
    """Return the declaration; contrasts other than those in force when the runs were measured count as added."""
    if declared.digest is None or set(runs["declaration_sha256"].dropna()) <= {declared.digest}:
        return declared
    experiment = declared.experiment.model_copy(update={"contrasts": ()})
    added = (*declared.experiment.contrasts, *declared.added)
    return replace(declared, experiment=experiment, added=added)


def _parts(store: Store, table: TableName) -> list[Part]:
    """Return the parts of a table with all runs in them; StoreError if nothing was measured."""
    if table not in SCHEMAS:
        raise UsageError(f"no table {table!r} (known: {', '.join(SCHEMAS)})")
    tables = current(store, table)
    runs = tables.parts("runs")
    if not runs:
        raise NotMeasured(f"{store.url}: nothing was measured here yet; run `npl collect` first")
    return (
        list(runs.values())
        if table == "runs"
        else [p for block, p in tables.parts(table).items() if block in runs]
    )
