"""Find every run in a text and read it with the reader of its tool."""

from __future__ import annotations

import gc
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from ..errors import NoLogError, ParseError
from ..metrics import METRICS
from . import iperf3
from .interface import Reader
from .parsed import ParsedRun
from .registry import readers
from .surroundings import (
    clean,
    decode,
    foreign,
    trace,
    without_colours,
    without_times,
)

_NAMES = (
    re.compile(r"ookie(?<=\b[Cc]ookie)\"?:\s*\"?([\w.-]{20,})"),
    re.compile(r'"local_port":\s*(\d+)[^{}]*\}(?s:.){,2000}?"timesecs":\s*(\d+)'),
)
"""What the two ends call a run: its cookie; else its port and its start."""
_HEAD = 1 << 16
"""Characters at the start of a run that hold its name, if it has one."""
_CONNECTION = re.compile(
    r"\] local ([^\s%]+)\S* port (\d+) connected (?:to|with) ([^\s%]+)\S* port (\d+)"
)
_UNIQUE = re.compile(
    r"\A\s*[{<]|\blocal \S+ port \d+|_port\"?: *\d{4,}|\d\d:\d\d:\d\d|(?:percentile .*\n.*){5}"
)
"""A document, a port, a time or a long histogram: two runs do not print the same lines with one."""

LARGEST = 256 << 20
"""Maximum size of a text in bytes; its runs and intervals take up to twelve times as much
memory."""


def parse(
    data: str | bytes, *, file: str | None = None, tool: str | None = None
) -> list[ParsedRun]:
    """Read every run of every known tool in a text.

    Parameters
    ----------
    data : str or bytes
        Output of the tool, as it was printed.
    file : str, optional
        Name of its file; kept in the runs and named in errors.
    tool : str, optional
        The tool that printed it, if nothing is around its lines, as in the files of a measurement.
        All tools are looked for without it, or if it finds nothing.

    Returns
    -------
    list of ParsedRun
        In the order of the text. An empty text is one failed run.

    Raises
    ------
    ParseError
        The text contains no run of a known tool, or other programs put something around it, or it
        is larger than `LARGEST`.
    """
    try:
        with _collector_paused():
            document = iperf3.read_whole(data) if isinstance(data, bytes) else None
            runs = [document] if document else _read(data, tool)
    except ParseError as error:
        raise type(error)(str(error), file=file) from None
    return [_complete(run, file) for run in runs]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the collector of cycles: rows form none, and it would visit each again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _read(data: str | bytes, tool: str | None) -> list[ParsedRun]:
    if len(data) > LARGEST:
        raise ParseError(
            f"the text is larger than {LARGEST >> 20} MiB and not a complete iperf3 JSON document: "
            "split it into one run per file, or measure with longer intervals",
            file=None,
        )
    text = data if isinstance(data, str) else decode(data)
    timed, around = False, ""
    if tool:
        text = without_colours(text)
        runs = _runs(text, [readers()[tool]])
    else:
        text, timed = without_times(clean(text))
        around = foreign(text)
        runs = [] if around else _runs(text, readers().values())
    if not text.strip():
        error = "the log is empty: nothing was printed"
        return [ParsedRun(tool="unknown", status="failed", error=error)]
    if not runs and tool:
        return _read(text, None)
    if not any(run.status == "ok" or run.contradictory for run in runs):
        around = around or trace(text)
    if around:
        raise ParseError(
            f"not as a tool prints it: {around}; save what the tool prints to a file, "
            "such as `iperf3 -c HOST > log.txt`, and pass that",
            file=None,
        )
    if not runs:
        raise NoLogError(
            "no run of a known tool in this text; pass the complete output of one of "
            f"{', '.join(readers())}",
            file=None,
        )
    mixed = {run.tool for run in runs if run.contradictory}
    for run in runs:
        if timed:
            run.warnings.append("the time at the beginning of each line was taken off")
        if run.status == "ok" and run.tool in mixed:
            run.warnings.append(
                "lines of another process are in this file: lines of this run may be missing"
            )
    return runs


def identity(text: str) -> str | None:
    """Return what tells the run of a text from any other; None if nothing does."""
    for name in _NAMES:
        if m := name.search(text, 0, _HEAD):
            return " ".join(m.groups(""))
    if not _UNIQUE.search(text):
        return None
    return hashlib.blake2s(" ".join(text.split()).encode(), digest_size=9).hexdigest()


def connections(text: str) -> frozenset[tuple[str, str]]:
    """Return the connections that a run names, each as (this end, the other end).

    The log of the other end names them the other way round.
    """
    found = _CONNECTION.findall(text, 0, _HEAD)
    return frozenset((f"{a} {b}", f"{c} {d}") for a, b, c, d in found)


def _runs(text: str, readers: Iterable[Reader]) -> list[ParsedRun]:
    """Split `text` where a reader sees a run, and read each part.

    A run that is there twice counts once.
    """
    claims: dict[int, Reader] = {}
    for reader in readers:
        if any(mark in text for mark in reader.MARKS):
            claims = dict.fromkeys(reader.find_runs(text), reader) | claims
    starts = sorted(claims)
    runs: list[ParsedRun] = []
    seen: dict[str, int] = {}
    line = 1 + text.count("\n", 0, min(starts, default=0))
    for start, end in pairwise([*starts, len(text)]):
        segment = text[start:end]
        parsed = claims[start].read(segment)
        measured = len(claims) > 1 and parsed and parsed[0].status != "failed"
        first = len(runs)
        if measured and (name := identity(segment)):
            first = seen.setdefault(name, first)
        if first < len(runs):
            runs[first].warnings.append(
                f"printed a second time in line {line}; counted once"
            )
        else:
            for run in parsed:
                run.line += line - 1
            runs += parsed
        line += segment.count("\n")
    return runs


def _complete(run: ParsedRun, file: str | None) -> ParsedRun:
    """Return the run without the metrics that no table has."""
    for name in sorted(run.metrics.keys() - METRICS.keys()):
        del run.metrics[name]
        run.warnings.append(
            f"left out, since netperf_lib.metrics does not have it: {name}"
        )
    run.file = file
    return run
