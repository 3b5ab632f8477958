"""Tables of an experiment for a spreadsheet: runs, intervals, levels and verdicts."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from ..data.files import Folder
from ..data.load import Fleet, Results
from ..data.shipped import report_folder
from ..errors import NothingToReport, UsageError, as_cell, pip_install
from ..metrics import COMPARED
from .compare import compare
from .observe import Data, levels
from .runs import read_data, table_of


def export(
    data: Data,
    to: Literal["csv", "xlsx", "parquet"] = "csv",
    into: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Write the tables of an experiment.

    Parameters
    ----------
    data : Results, Fleet, DataFrame or path
        What `netperf_lib.read` gives, its folder, or a table of runs.
    to : {"csv", "xlsx", "parquet"}
        The format: one file for each table, or one ``xlsx`` workbook with a sheet for each.
    into : path, optional
        Folder to write to; default: ``reports`` of the experiment or, for a table of runs, the current folder.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    UsageError
        The format is not known, or its package is not installed.

    Examples
    --------
    >>> import tempfile
    >>> [file.name for file in npl.export(exp, "csv", tempfile.mkdtemp())]
    ['lab-full-runs.csv', 'lab-full-levels.csv', 'lab-full-intervals.csv', 'lab-full-verdicts.csv']
    """
    results = read_data(data)
    runs = table_of(results)
    name = results.name if isinstance(results, Results) else "fleet"
    if into is None:
        into = report_folder(results.path, name) if isinstance(results, Results | Fleet) else "."
    tables = {"runs": runs, "levels": _levels(runs)}
    if isinstance(results, Results):
        tables["intervals"] = results.intervals
        if results.contrasts or results.added:
            tables["verdicts"] = compare(results).to_frame()
    cells = {table: as_cells(frame) for table, frame in tables.items()}
    folder = Folder(os.fspath(into))  # a file is there when it is complete
    if to == "xlsx":
        folder.write(f"{name}.xlsx", _workbook(cells))
        return [folder.path / f"{name}.xlsx"]
    if to not in ("csv", "parquet"):
        raise UsageError(f"unknown format {to!r} (known: csv, xlsx, parquet)")
    for table, flat in cells.items():
        with folder.new_file(f"{name}-{table}.{to}") as file:
            flat.to_csv(file, index=False) if to == "csv" else flat.to_parquet(file, index=False)
    return [folder.path / f"{name}-{table}.{to}" for table in cells]


def _levels(runs: pd.DataFrame) -> pd.DataFrame:
    """Median and interval of each condition and metric that is compared."""
    tables = []
    for metric in [m for m in COMPARED if m in runs]:
        with suppress(NothingToReport):
            tables.append(levels(runs, metric).reset_index().assign(metric=metric))
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=["condition", "metric", "n"])
    )


def as_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A table for any spreadsheet: lists become text, no text is a formula, times are in UTC without a zone."""
    flat = frame.copy()
    flat.attrs = {}
    flat.columns = [as_cell(str(name)) for name in flat.columns]
    for column in flat.columns:
        if isinstance(flat[column].dtype, pd.DatetimeTZDtype):
            flat[column] = flat[column].dt.tz_convert("UTC").dt.tz_localize(None)
        elif not pd.api.types.is_numeric_dtype(flat[column]):
            flat[column] = [
                v
                if v is None or isinstance(v, int | float | bool) or v is pd.NA
                else as_cell(_text(v))
                for v in flat[column].astype(object)
            ]
    return flat


def _text(value: Any) -> str:
    return (
        "; ".join(map(str, value))
        if isinstance(value, list | tuple) or hasattr(value, "tolist")
        else str(value)
    )


def _workbook(tables: dict[str, pd.DataFrame]) -> bytes:
    file = io.BytesIO()  # openpyxl fails in its own way on a disk that is full
    try:
        with pd.ExcelWriter(file, engine="openpyxl") as writer:
            for table, flat in tables.items():
                flat.to_excel(writer, sheet_name=table, index=False)
    except ModuleNotFoundError:
        raise UsageError(
            f"xlsx needs the package openpyxl: {pip_install('openpyxl')}, or export to csv"
        ) from None
    return file.getvalue()
