"""The tables.

Their columns, how a run becomes rows, and how rows become parquet that any engine reads.

Rows of one part are in the order of its runs, in row groups of 2^17 rows, so that pandas, DuckDB,
Polars, Dask and Spark skip what a filter rules out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreError
from ..experiment.factors import FACTORS, dimensions, factor, factors_of
from ..metrics import EVIDENCE, METRICS
from ..tools.parsed import Columns, ParsedRun
from .connections import largest_buffer, settings_of
from .files import appearing
from .raw import Record

GROUP_ROWS = 1 << 17
"""Rows in a row group: enough to compress well, few enough to skip well; a writer keeps no more
in memory."""

TableName = Literal["runs", "intervals", "percentiles"]

_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}


def _columns(names: Iterable[str], kind: str) -> list[tuple[str, pa.DataType]]:
    """Return columns of a schema, all of one kind."""
    return [(name, _TYPES[kind]) for name in names]


SCHEMAS: dict[TableName, pa.Schema] = {
    "runs": pa.schema(
        [
            *_columns(
                "experiment run_id status error command notice raw_path raw_sha256 "
                "declaration_sha256 reader_version".split(),
                "text",
            ),
            *_columns("round order deployment attempt".split(), "integer"),
            *((f.name, _TYPES[f.kind]) for f in FACTORS.values()),
            ("started_utc", pa.timestamp("us", "UTC")),
            ("warnings", pa.list_(pa.string())),
            *_columns((*METRICS, *EVIDENCE), "number"),
        ]
    ),
    "intervals": pa.schema(
        [
            ("run_id", pa.string()),
            ("stream", pa.int32()),
            ("direction", pa.string()),
            *_columns("start_s end_s".split(), "number"),
            ("omitted", pa.bool_()),
            *_columns(
                "throughput_bps retransmits_count rtt_loaded_us cwnd_bytes".split(),
                "number",
            ),
            ("experiment", pa.string()),
        ]
    ),
    "percentiles": pa.schema(
        [
            *_columns("run_id basis".split(), "text"),
            *_columns("percentile latency_us".split(), "number"),
            ("beyond", pa.int64()),
            ("experiment", pa.string()),
        ]
    ),
}


@contextmanager
def part_writer(
    file: Path, schema: pa.Schema, footer: Mapping[str, Any]
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that adds rows to a part of a table, which appears when the block succeeds.

    At most one row group more than what is added is held in memory. The footer is written last.
    """
    # figures hardly repeat: a dictionary of them would be built and discarded
    text = [field.name for field in schema if pa.types.is_string(field.type)]
    options = {"use_dictionary": text, "write_page_checksum": True, "store_schema": False}
    waiting: list[pa.Table] = []

    def add(rows: pa.Table) -> None:
        waiting.append(rows)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            flush()

    def flush() -> None:
        writer.write_table(pa.concat_tables(waiting), row_group_size=GROUP_ROWS)
        waiting.clear()

    with (
        appearing(file) as draft,
        pq.ParquetWriter(draft, schema, compression="zstd", **options) as writer,
    ):
        yield add
        if waiting:
            flush()
        content = orjson.dumps(footer).decode()
        writer.add_key_value_metadata({"netperf_part": content})


def detail(
    experiment: str, run_id: str, parsed: Sequence[ParsedRun]
) -> Iterator[tuple[TableName, pa.Table]]:
    """Return rows of a run for every table but ``runs``, a batch at a time."""
    same = {"experiment": experiment, "run_id": run_id}
    for run in parsed:
        if run.percentiles:
            basis = same | {"basis": run.percentile_basis}
            points = [asdict(point) | basis for point in run.percentiles]
            yield "percentiles", pa.Table.from_pylist(points, SCHEMAS["percentiles"])
        if run.intervals:
            yield "intervals", _intervals(run.intervals, same)


def _intervals(columns: Columns, same: Mapping[str, str]) -> pa.Table:
    """Return rows of one run for the table of intervals; a column that is not given is null."""
    size, arrays = len(columns["start_s"]), []
    for column in SCHEMAS["intervals"]:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pa.repeat(pa.scalar(same.get(column.name), column.type), size))
        else:
            arrays.append(pa.array(values, column.type, from_pandas=True))
    return pa.table(arrays, schema=SCHEMAS["intervals"])


def runs_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Return rows of ``runs`` as a table; a factor that is not in the list is a text column.

    StoreError if a value does not fit the type of its column.
    """
    schema = SCHEMAS["runs"]
    known = set().union(*rows)
    for label in sorted(set(dimensions(known)) - set(schema.names)):
        schema = schema.append(pa.field(label, pa.string()))
    try:
        return pa.Table.from_pylist(list(rows), schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        how = "a record of a run was damaged; restore it from a copy"
        raise StoreError(f"{error}; {how}") from None


def moment(text: str | None) -> datetime | None:
    """Return a time as it is written; without a zone it is UTC, and None stays None."""
    at = datetime.fromisoformat(str(text)) if text else None
    return at.replace(tzinfo=UTC) if at and at.tzinfo is None else at


_COPIED = "experiment run_id round order deployment attempt notice status error".split()


def run_row(
    record: Record, parsed: Sequence[ParsedRun], unread: str | None
) -> dict[str, Any]:
    """Return one row of ``runs``: the plan, the hosts, and the results in the log."""
    levels = factors_of(record.trial, record.hosts, record.facts)
    row: dict[str, Any] = {n: factor(n).cast(level) for n, level in levels.items()}
    facts = record.facts.get("client", {})
    for name, known in FACTORS.items():
        if known.role == "observed" and name in facts:
            row[name] = facts[name]
    # what the run used
    row["congestion_control"] = row.get("congestion") or row.get("congestion_control")
    row.setdefault("tcp_buffer_default_bytes", _default_buffer(record))
    row |= {name: getattr(record, name) for name in _COPIED}
    row["declaration_sha256"] = (record.declaration or {}).get("sha256")
    row["command"] = " ".join(map(str, record.commands.get("client", ())))
    row["started_utc"] = moment(record.started_utc)
    row["warnings"] = list(record.warnings)
    # what the program said of itself, "qperf 0.4.11", where the log does not say it
    if version := re.search(r"\d+(?:\.\d+)+\S*", str(record.tool_version or "")):
        row["tool_version"] = version[0]
    for run in parsed:
        row["warnings"] += run.warnings
    if parsed:
        own = [run for run in parsed if run.tool == record.trial["tool"]]
        _add_results(row, record, (own or [*parsed])[0], parsed)
    elif row["status"] == "ok":
        row["status"], row["error"] = "failed", unread or "the tool printed nothing"
    return row


def _add_results(
    row: dict[str, Any], record: Record, main: ParsedRun, parsed: Sequence[ParsedRun]
) -> None:
    """Add what the log of a run says: how it ended, and figures if it ended well."""
    stated = {"tool_version": main.tool_version}
    stated |= {name: main.parameters.get(name) for name in ("protocol", "direction")}
    row |= {name: value for name, value in stated.items() if value is not None}
    if row["status"] != "ok":
        return
    row["status"], row["error"] = main.status, main.error
    length, planned = (
        main.metrics.get("duration_measured_s"),
        record.trial.get("duration_s"),
    )
    if length and planned and record.imported is None:
        longest = 1.5 * (planned + (record.trial.get("omit_s") or 0)) + 5
        if length > longest:
            asked = f"the tool counted {length:g} s, and {planned:g} s were asked for"
            row["status"], row["error"] = "partial", f"{asked}: its clock was stepped"
    if row["status"] == "ok":
        for run in (*reversed(parsed), main):  # the test's own tool has the last word
            row |= {name: value for name, value in run.metrics.items() if name in METRICS}


def _default_buffer(record: Record) -> int | None:
    """Bytes that a stream may have in flight with the settings of the hosts.

    The lower limit of sender and receiver.
    """
    ends = ["client", "server"]
    if record.trial.get("reverse"):
        ends.reverse()
    sent = largest_buffer(settings_of(record, ends[0]), "net.ipv4.tcp_wmem")
    received = largest_buffer(settings_of(record, ends[1]), "net.ipv4.tcp_rmem")
    return None if sent is None or received is None else min(sent, received)
