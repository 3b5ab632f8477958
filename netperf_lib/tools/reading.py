"""Find every run in a text and read it with the reader of its tool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from ..errors import ParseError
from ..metrics import METRICS, computed
from . import iperf3
from .interface import Reader
from .parsed import ParsedRun
from .registry import READERS
from .surroundings import clean, decode, foreign, trace, without_colours

_NAMES = (
    re.compile(r"\bcookie\"?:\s*\"?([\w.-]{20,})", re.IGNORECASE),
    re.compile(r'"local_port":\s*(\d+)[^{}]*\}(?s:.){,2000}?"timesecs":\s*(\d+)'),
)
"""What the two ends call a run: its cookie; else its port and its start."""
_HEAD = 1 << 16
"""Characters at the start of a run that hold its name, if it has one."""
_UNIQUE = re.compile(
    r"\A\s*[{<]|\blocal \S+ port \d+|_port\"?: *\d{4,}|\d\d:\d\d:\d\d|(?:percentile .*\n.*){5}"
)
"""A document, a port, a time or a long histogram: two runs do not print the same lines with one."""

LARGEST = 256 << 20
"""Maximum size of a text in bytes; its runs and intervals take up to twelve times as much memory."""
_SAVE = "save what the tool prints to a file, such as `iperf3 -c HOST > log.txt`, and pass that"
_MIXED = "the log next to it may contain lines of another process: lines of this run may be missing"


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
        The tool that printed it, if nothing is around its lines, as in the files of a measurement. All tools are looked
        for without it, or if it finds nothing.

    Returns
    -------
    list of ParsedRun
        In the order of the text. An empty text is one failed run.

    Raises
    ------
    ParseError
        The text contains no run of a known tool, or other programs put something around it, or it is larger than
        `LARGEST`.
    """
    if isinstance(data, bytes) and (document := iperf3.read_whole(data)):
        return [_complete(document, file)]
    if len(data) > LARGEST:
        raise ParseError(
            f"the text is larger than {LARGEST >> 20} MiB and not a complete iperf3 JSON document: "
            "split it into one run per file, or measure with longer intervals, sockperf for fewer seconds or without "
            "--full-log",
            file=file,
        )
    text = decode(data) if isinstance(data, bytes) else data
    text = without_colours(text) if tool else clean(text)
    if not text or text.isspace():
        error = "the log is empty: nothing was printed"
        return [ParsedRun(tool="unknown", status="failed", error=error, file=file)]
    around = "" if tool else foreign(text)
    if around:
        raise ParseError(f"not as a tool prints it: {around}; {_SAVE}", file=file)
    try:
        runs = [_complete(run, file) for run in _runs(text, tool)]
    except ParseError as error:  # a reader does not know the file
        raise ParseError(str(error), file=file) from None
    if not runs and tool:
        return parse(data, file=file)
    if not any(run.status == "ok" or run.contradictory for run in runs) and (why := trace(text)):
        raise ParseError(f"not as a tool prints it: {why}; {_SAVE}", file=file)
    if not runs:
        raise ParseError(
            f"no run of a known tool in this text; pass the complete output of one of {', '.join(READERS)}",
            file=file,
        )
    return _beside_others(runs)


def _beside_others(runs: list[ParsedRun]) -> list[ParsedRun]:
    """Warn if the run before or after a run, of the same tool, may contain lines of another process."""
    pairs = [*pairwise(range(len(runs))), *pairwise(range(len(runs) - 1, -1, -1))]
    doubted = {b for a, b in pairs if runs[a].contradictory and runs[a].tool == runs[b].tool}
    return [
        _warned(run, _MIXED) if number in doubted and run.status == "ok" else run
        for number, run in enumerate(runs)
    ]


def identity(text: str) -> str | None:
    """Return what tells the run of a text from any other; None if nothing does."""
    for name in _NAMES:
        if m := name.search(text, 0, _HEAD):
            return " ".join(m.groups(""))
    if not _UNIQUE.search(text):
        return None
    return hashlib.blake2s(" ".join(text.split()).encode(), digest_size=9).hexdigest()


def _runs(text: str, tool: str | None = None) -> list[ParsedRun]:
    runs: list[ParsedRun] = []
    seen: dict[str, int] = {}
    segments = [*_segments(text, [READERS[tool]] if tool else READERS.values())]
    for line, segment, readers in segments:
        parsed = next(filter(None, (reader.read(segment) for reader in readers)), [])
        measured = len(segments) > 1 and parsed and parsed[0].status != "failed"
        name = identity(segment) if measured else None
        if name in seen:
            first = seen[name]
            runs[first] = _warned(
                runs[first], f"printed a second time in line {line}; counted once"
            )
            continue
        if name:
            seen[name] = len(runs)
        runs += [replace(run, line=line + run.line - 1) for run in parsed]
    return runs


def _complete(run: ParsedRun, file: str | None) -> ParsedRun:
    """Return the run with the metrics that follow from its own, and without those that no table has."""
    unknown = sorted(run.metrics.keys() - METRICS.keys())
    warnings = tuple(
        f"left out, since netperf_lib.metrics does not have it: {name}" for name in unknown
    )
    metrics = {name: value for name, value in run.metrics.items() if name not in unknown}
    metrics |= computed(metrics)
    return replace(run, metrics=metrics, warnings=(*run.warnings, *warnings), file=file)


def _warned(run: ParsedRun, warning: str) -> ParsedRun:
    return replace(run, warnings=(*run.warnings, warning))


def _segments(text: str, readers: Iterable[Reader]) -> Iterator[tuple[int, str, list[Reader]]]:
    """Split `text` at every sighting: the line where a segment starts, its text, and the tools that claim it."""
    claims: dict[int, list[Reader]] = {}
    for module in readers:
        if any(mark in text for mark in module.MARKS):
            for offset in module.sightings(text):
                claims.setdefault(offset, []).append(module)
    line = 1
    for start, end in pairwise([*sorted({0, *claims}), len(text)]):
        segment = text[start:end]
        if start in claims:
            yield line, segment, claims[start]
        line += segment.count("\n")
