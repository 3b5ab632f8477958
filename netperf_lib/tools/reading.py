"""Find every run in a text and read it with the reader of its tool."""

from __future__ import annotations

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
from .wrapping import Voice, cleaned, decode, repaired, started, without_colours

_DOCUMENT = re.compile(r"\s*[{<]")

LARGEST = 256 << 20
"""Maximum size of a text in bytes; its runs and intervals take up to twelve times as much memory."""


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
        The tool that printed it, if nothing is around its lines, as in the files of a measurement. All tools and such
        surroundings are looked for without it, or if it finds nothing.

    Returns
    -------
    list of ParsedRun
        In the order of the text. An empty text is one failed run.

    Raises
    ------
    ParseError
        The text contains no run of a known tool, or is larger than `LARGEST`.
    """
    if isinstance(data, bytes) and (document := iperf3.read_whole(data)):
        return [_located(document, Voice(""), file)]
    if len(data) > LARGEST:
        raise ParseError(
            f"the text is larger than {LARGEST >> 20} MiB and not a complete iperf3 JSON document: "
            "split it into one run per file, or measure with longer intervals, sockperf for fewer seconds or without "
            "--full-log",
            file=file,
        )
    if isinstance(data, bytes):
        data = decode(data)
    sources = [Voice(without_colours(data))] if tool else cleaned(data)
    if all(not source.text or source.text.isspace() for source in sources):
        return [
            ParsedRun(
                tool="unknown",
                status="failed",
                error="the log is empty: nothing was printed",
                file=file,
            )
        ]
    try:
        runs = sorted(
            (run for source in sources for run in _of_source(source, file, tool)),
            key=lambda run: run.line,
        )
    except ParseError as error:  # a reader does not know the file
        raise ParseError(str(error), file=file) from None
    if not runs and tool:
        return parse(data, file=file)
    if not runs:
        raise ParseError(
            f"no run of a known tool in this text; pass the complete output of one of {', '.join(READERS)}",
            file=file,
        )
    return _beside_others(runs)


def _of_source(source: Voice, file: str | None, tool: str | None) -> list[ParsedRun]:
    """Read the runs of one source; if none is usable, as it may have been before a terminal or a locale changed it."""
    runs = [_located(run, source, file) for run in _runs(source.text, tool)]
    if not tool and not any(run.status == "ok" or run.contradictory for run in runs):
        for text, remark in repaired(source.text):
            again = [_located(run, Voice(text), file) for run in _runs(text)]
            if any(run.status == "ok" for run in again):
                return [replace(run, warnings=(*run.warnings, remark)) for run in again]
    return runs


def _beside_others(runs: list[ParsedRun]) -> list[ParsedRun]:
    """Warn if the run before or after a run, of the same tool, may contain lines of another process."""
    mixed = {i for i, r in enumerate(runs) if r.contradictory}
    for i in {i + step for i in mixed for step in (-1, 1)} - mixed:
        if (
            0 <= i < len(runs)
            and runs[i].status == "ok"
            and any(runs[i].tool == runs[j].tool for j in mixed)
        ):
            _warn(
                runs,
                i,
                "the log next to it may contain lines of another process: lines of this run may be missing",
            )
    return runs


def _located(run: ParsedRun, source: Voice, file: str | None) -> ParsedRun:
    """Set the position of a run in its file, and its start time if its lines have times.

    A reader has just made it and nothing else refers to it, so no copy is needed.
    """
    run = _with_metrics(run)
    stamp = next(
        (source.stamps[i] for i in range(run.line - 1, run.line + 2) if i in source.stamps), None
    )
    times = started(stamp) if stamp else {}
    if times and not any(name.startswith("started") for name in run.parameters):
        object.__setattr__(run, "parameters", dict(run.parameters) | times)
    object.__setattr__(run, "file", file)
    object.__setattr__(run, "line", source.line_in_file(run.line))
    return run


def _runs(text: str, tool: str | None = None) -> list[ParsedRun]:
    """Read the runs of one source."""
    runs: list[ParsedRun] = []
    seen: dict[str, int] = {}
    for line, segment, modules in _segments(text, [READERS[tool]] if tool else READERS.values()):
        for module in modules:
            parsed = module.read(segment)
            if not parsed:
                continue
            for run in parsed:
                object.__setattr__(run, "line", line + run.line - 1)
            # Only in a document (JSON, XML) can a second print be told from a second run with equal figures.
            document = segment.strip() if _DOCUMENT.match(segment) else ""
            if document in seen and parsed[0].status != "failed":
                _warn(runs, seen[document], f"printed a second time in line {line}; counted once")
            else:
                if document:
                    seen.setdefault(document, len(runs))
                runs += parsed
            break
    return runs


def _with_metrics(run: ParsedRun) -> ParsedRun:
    """The run with the metrics that follow from its own, and without those that no table has."""
    unknown = sorted(run.metrics.keys() - METRICS.keys())
    if unknown:
        warnings = (
            f"left out, since netperf_lib.metrics does not have it: {name}" for name in unknown
        )
        metrics = {name: value for name, value in run.metrics.items() if name in METRICS}
        run = replace(run, metrics=metrics, warnings=(*run.warnings, *warnings))
    values = computed(run.metrics)
    return replace(run, metrics={**run.metrics, **values}) if values else run


def _warn(runs: list[ParsedRun], index: int, warning: str) -> None:
    runs[index] = replace(runs[index], warnings=(*runs[index].warnings, warning))


def _segments(text: str, readers: Iterable[Reader]) -> Iterator[tuple[int, str, list[Reader]]]:
    """Split `text` at every sighting: the line where a segment starts, its text, and the tools that claim it."""
    claims: dict[int, list[Reader]] = {}
    for module in readers:
        for mark in module.MARKS:
            if mark in text:
                for offset in module.sightings(text):
                    claims.setdefault(offset, []).append(module)
                break
    line = 1
    for start, end in pairwise([*sorted({0, *claims}), len(text)]):
        segment = text[start:end]
        if start in claims:
            yield line, segment, claims[start]
        line += segment.count("\n")
