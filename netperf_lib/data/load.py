"""Tables of measured data: one experiment, or several together, as data frames."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa

from ..errors import NotMeasured, UsageError, visible
from ..experiment.factors import dimensions
from ..experiment.model import Contrast, Experiment
from ..experiment.origin import Measured, Origin, joined
from ..metrics import METRICS
from .declaration import Declaration, claims, declaration, read_plan
from .files import Location, explained, last_name
from .ingest import current, read_part
from .layout import experiment_folders
from .raw import exclusions
from .shipped import located
from .tables import SCHEMAS, TableName

Locations = Location | Iterable[Location]

_ORDER = ["deployment", "round", "order", "attempt"]


@dataclass(repr=False, eq=False)
class Results:
    """Runs, where they come from, and what was declared before them; see `read`.

    Attributes
    ----------
    folder : Path or None
        The folder of one experiment; None for several, for logs, and for a table.
    instead : str or None
        What a reader must know about where the data come from: a notebook may show the recorded
        experiment.
    given : Measured or None
        The runs that are not those of one folder.
    parts : tuple of Results
        The experiments, where there are several.
    called : str
        What to call these runs.
    """

    folder: Path | None = field(default=None, repr=False)
    instead: str | None = None
    given: Measured | None = None
    parts: tuple[Results, ...] = ()
    called: str = "runs"

    @property
    def own_folder(self) -> Path:
        """The folder of the experiment; UsageError where there is none, or several."""
        if self.folder is None:
            raise UsageError(
                f"{self.called}: these are not the runs of one experiment; give its folder"
            )
        return self.folder

    @property
    def name(self) -> str:
        """Name of the experiment's folder, or of each."""
        if self.parts:
            return ", ".join(one.name for one in self.parts)
        return last_name(self.folder) if self.folder else self.called

    @property
    def path(self) -> str:
        """Where the data are."""
        return str(self.own_folder)

    @cached_property
    def _declared(self) -> Declaration:
        """The declaration.

        Contrasts other than those in force when the runs were measured count as added.
        """
        declared = declaration(self.own_folder)
        measured = set(self._whole["declaration_sha256"].dropna())
        if declared.digest is None or measured <= {declared.digest}:
            return declared
        experiment = declared.experiment.model_copy(update={"contrasts": ()})
        added = (*declared.experiment.contrasts, *declared.added)
        return replace(declared, experiment=experiment, added=added)

    @property
    def declaration(self) -> Experiment:
        """The experiment as declared, with the contrasts declared before the first run."""
        return self._declared.experiment

    @cached_property
    def _whole(self) -> pd.DataFrame:
        return _frame(self.own_folder, "runs")

    @cached_property
    def _measured(self) -> list[Results]:
        """Return those of several experiments that were measured."""
        measured = []
        for one in self.parts:
            with suppress(NotMeasured):
                _ = one.runs
                measured.append(one)
        return measured

    @cached_property
    def origin(self) -> Origin:
        """The declaration, and what must be said of these data."""
        if self.given is not None:
            return self.given.origin
        if self.parts:
            return joined([one.origin for one in self._measured])
        notices = (*sorted(self._whole["notice"].dropna().unique()), self.instead)
        folder = self.own_folder
        with explained(folder):
            return Origin(
                declared=self.declaration.model_dump(mode="json"),
                path=self.path,
                notice=" ".join(filter(None, notices)) or None,
                looked=bool((read_plan(folder) or {}).get("looked")),
                added=len(self.added),
                failed_claims=tuple(
                    claim for claim in claims(folder) if claim["holds"] is False
                ),
            )

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The table of runs, one row each, sorted by round, with the columns that have a value.

        A missing value is null. What to group is the table of `netperf_lib.observe`. The column
        ``declared`` says that the experiment declared contrasts: what is asked of the table is
        exploratory then, however it is filtered.
        """
        if self.given is not None:
            return self.given.runs
        if self.parts:
            return _together([one.runs for one in self._measured])
        runs = self._whole.dropna(axis="columns", how="all")
        for name in runs.select_dtypes(["Int64", "boolean"]):
            if runs[name].notna().all():  # without a gap it has a type of numpy
                runs[name] = runs[name].to_numpy()
        return runs.assign(declared=True) if self.contrasts else runs

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """Interval reports of the tools during the runs."""
        return _frame(self.own_folder, "intervals")

    @cached_property
    def percentiles(self) -> pd.DataFrame:
        """Latency percentiles reported by the tools."""
        return _frame(self.own_folder, "percentiles")

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The contrasts declared before the first run. Only these get verdicts."""
        declared = self.origin.declared.get("contrasts") or ()
        return tuple(map(Contrast.model_validate, declared))

    @property
    def added(self) -> tuple[Contrast, ...]:
        """Contrasts declared after the first run: they get an interval and no verdict."""
        return self._declared.added if self.folder else ()

    @property
    def metrics(self) -> list[str]:
        """The metrics that were measured."""
        return [name for name in METRICS if name in self.runs]

    @property
    def factors(self) -> list[str]:
        """The factors that vary."""
        levels = self.runs[dimensions(self.runs.columns)].nunique(dropna=False)
        return list(levels.index[levels > 1])

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
        runs = f"{len(self.runs)} runs ({states}), {len(self.contrasts)} contrasts"
        columns = ", ".join(self.factors) or "nothing that varies"
        group = "group npl.observe(exp, metric).table, not exp.runs"
        head = f"<{self.name}: {runs}>\nconditions: {columns}\n{group}"
        return f"{self.notice}\n{head}" if self.notice else head


def load(path: Locations, table: TableName = "runs") -> pd.DataFrame:
    """Load a tidy table of one experiment, or of several combined.

    Parameters
    ----------
    path : path or iterable of them
        The folder of an experiment, a pattern such as ``"results/*"``, or several. Of several,
        those that were not measured yet are left out.
    table : {"runs", "intervals", "percentiles"}
        ``runs`` has one row per run: identity, factors, options and labels, context, metrics
        (missing is null), provenance.

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
        path, _ = located(path)
    folders = experiment_folders(path)
    if len(folders) == 1:
        return _table(folders[0], table)
    frames = []
    for folder in folders:
        with suppress(NotMeasured):
            frames.append(_table(folder, table))
    return _together(frames)


def _table(folder: Path, table: TableName) -> pd.DataFrame:
    """Return a table of an experiment; its runs say whether it declared contrasts."""
    if table != "runs":
        return _frame(folder, table)
    results = Results(folder)
    runs = results._whole
    return runs.assign(declared=True) if results.declaration.contrasts else runs


def _together(frames: list[pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        raise NotMeasured(
            "nothing was measured in these folders yet; run `npl collect` first"
        )
    return pd.concat(frames, ignore_index=True)


def _frame(folder: Path, table: TableName) -> pd.DataFrame:
    """Return a table of an experiment as a data frame."""
    if table not in SCHEMAS:
        raise UsageError(f"no table {table!r} (known: {', '.join(SCHEMAS)})")
    with explained(folder):
        tables = current(folder, table)
        runs = tables.parts("runs")
        if not runs:
            where = f"{folder}: nothing was measured here yet"
            raise NotMeasured(f"{where}; run `npl collect` first")
        schema = SCHEMAS[table]
        parts = [schema.empty_table()]
        for block, path in tables.parts(table).items():
            if block in runs:
                parts.append(read_part(path, table, tables.most_rows(table, block)))
        # what a part lacks is null
        data = pa.concat_tables(parts, promote_options="permissive")
        if table != "runs":
            return data_frame(data.select(schema.names))
        # a label is text; a part of another release may have further figures
        text = {field.name for field in data.schema if pa.types.is_string(field.type)}
        labels = sorted(text.intersection(dimensions(text)) - set(schema.names))
        frame = data_frame(data.select([*schema.names, *labels]))
        causes = frame["run_id"].map(exclusions(folder))
        frame["excluded"] = causes.astype(frame["run_id"].dtype)
        return frame.sort_values(_ORDER, ignore_index=True)


def data_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame.

    Integers and flags keep their type even if some are missing.
    """
    types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get)
    for column in table.schema:
        if pa.types.is_list(
            column.type
        ):  # a cell holds text, which pandas can count and group
            texts = frame[column.name].map("; ".join, na_action="ignore")
            frame[column.name] = texts.astype("str").replace("", pd.NA)
        elif not pa.types.is_string(column.type):
            continue
        # labels of others may hold control characters
        seen = frame[column.name].dropna().unique()
        if any(visible(text) != text for text in seen):
            frame[column.name] = frame[column.name].map(visible, na_action="ignore")
    return frame
