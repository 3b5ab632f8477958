"""One file a tool: what to run, beside how to read what it prints.

A tool is a module in this folder (one whose name has no leading underscore); there is no list to keep. It offers

``NAME``
    The tool's name in every table.
``MARKS``
    Literal strings: a text that holds none of them holds no run of this tool. They spare the search by pattern.
``sightings(text) -> Iterator[int]``
    Offsets in `text` where a run of this tool starts (the first line that belongs to it).
``read(text) -> list[ParsedRun]``
    Read one run (rarely several: the loop of a client): `text` is cleaned (`clean`) and reaches from one sighting to
    the next one of any tool, so noise may follow the run. `ParsedRun.line` counts from the first line of `text`.
    Empty when a closer look shows that this is no run of the tool. Never raises for damaged text: the run says
    `partial` or `failed`, and the reason.

where logs grow large, one or both of

``read_whole(data) -> list[ParsedRun] | None``
    Read a file that is large, or begins as a document, in one go (bytes), or None when it is not wholly this tool's;
    then it goes the way of all.
``read_stream(chunks) -> list[ParsedRun] | None``
    Read a file that may be larger than the memory: ``chunks()`` gives its bytes from the start, anew at each call.

and, where the project can run it,

``PACKAGE``, ``VERSION``
    The Debian package, and the argument list that prints the version.
``TESTS``
    Names of the tests it offers, for error messages and for the schema.
``commands(trial, server_address, port) -> Commands``
    Argument lists of both ends for one trial.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from types import ModuleType

from ..errors import ParseError, UsageError
from ._embedded import embedded
from ._wrapping import from_docker, unwrapped
from .parsed import ParsedRun

__all__ = ["Commands", "clean", "decode", "parse", "parse_stream", "tool", "tools"]

LARGE = 4 << 20
"""From this many bytes on a file is first offered to `read_stream` and `read_whole`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Argument lists of one trial: nothing here ever passes through a shell unquoted."""

    client: tuple[str, ...]
    server: tuple[str, ...] | None
    listens: tuple[tuple[str, int], ...] = ()
    """What shows that the server is ready: (``"tcp"`` or ``"udp"``, port) that it listens on."""
    timeout_s: float
    """The client is hung when it takes longer than this."""
    server_ends: bool = False
    """The server ends by itself after its client: it is given the time to print its side."""


@cache
def tools() -> dict[str, ModuleType]:
    """Every tool of this folder, by name."""
    names = "iperf2 iperf3 lagscope latte netperf ntttcp qperf sockperf uperf".split()
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {module.NAME: module for module in modules}


def tool(name: str) -> ModuleType:
    """Return the tool called `name`.

    Raises
    ------
    UsageError
        Unknown; the text names those known.
    """
    try:
        return tools()[name]
    except KeyError:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(tools())})") from None


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def decode(data: bytes) -> str:
    """Text of a log as it lies on disk: UTF-8, or UTF-16 as PowerShell's ``>`` writes it, even without its mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:64]:
        low, high = data[:64:2].count(0), data[1:64:2].count(0)
        if max(low, high) > 24 or max(low, high) > 0.9 * len(data) / 2:
            return data.decode("utf-16-le" if high > low else "utf-16-be", errors="replace")
    return data.decode("utf-8", errors="replace")


def clean(text: str) -> str:
    """Take out what terminals, Windows and collectors of logs add: marks, colours, heads of lines. Lines stay lines."""
    text = from_docker(text.replace("\ufeff", ""))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return unwrapped(text)


def parse(data: str | bytes, *, file: str | None = None) -> list[ParsedRun]:
    """Read every run of every known tool in a text.

    Parameters
    ----------
    data : str or bytes
        What the tool printed, with whatever stands around it.
    file : str, optional
        Where it came from; kept in the runs and named in errors.

    Returns
    -------
    list of ParsedRun
        In the order of the text. An empty text is one failed run.

    Raises
    ------
    ParseError
        The text holds no run of a known tool.
    """
    if isinstance(data, bytes):
        if len(data) >= LARGE or data.startswith(b"{"):
            for module in tools().values():
                whole: list[ParsedRun] | None = module.read_whole(data) if hasattr(module, "read_whole") else None
                if whole:
                    return [_placed(r, file) for r in whole]
        data = decode(data)
    text = clean(data)
    if not text or text.isspace():
        return [ParsedRun(tool="unknown", status="failed", error="the log is empty: nothing was printed", file=file)]

    if (inner := embedded(text)) and (runs := _each(inner, file)):
        return runs
    runs = []
    seen: dict[str, int] = {}
    line, counted = 1, 0
    for start, end, modules in _segments(text):
        line += text.count("\n", counted, start)
        counted = start
        segment = text[start:end]
        for module in modules:
            found: list[ParsedRun] = module.read(segment)
            if not found:
                continue
            found = [_placed(r, file, line) for r in found]
            # Only a document (JSON, XML) carries what tells a second print from a second run with equal figures.
            body = segment.strip()
            if body[0] in "{<" and body in seen and found[0].status != "failed":
                _warn(runs, seen[body], f"printed a second time in line {line}; counted once")
            else:
                seen.setdefault(body, len(runs))
                runs += found
            break
    if not runs:
        raise ParseError(
            f"no run of a known tool in this text; known are {', '.join(tools())}, "
            "so pass what one of them printed, whole",
            file=file,
        )
    return runs


def _each(logs: list[tuple[int, str]], file: str | None) -> list[ParsedRun]:
    """Read logs that were found inside of another document, each with the line where that begins."""
    runs: list[ParsedRun] = []
    seen: dict[str, int] = {}
    for line, log in logs:
        if log in seen and log.startswith("{"):
            _warn(runs, seen[log], "printed a second time; counted once")
            continue
        try:
            found = parse(log)
        except ParseError:
            continue  # some other text
        seen[log] = len(runs)
        runs += [replace(r, file=file, line=line) for r in found if r.tool != "unknown"]
    return runs


def parse_stream(chunks: Callable[[], Iterator[bytes]], *, file: str | None = None) -> list[ParsedRun] | None:
    """Read a large file piece by piece where a tool can; None where none does and it must be read whole."""
    for module in tools().values():
        found: list[ParsedRun] | None = module.read_stream(chunks) if hasattr(module, "read_stream") else None
        if found:
            return [_placed(r, file) for r in found]
    return None


def _placed(run: ParsedRun, file: str | None, line: int = 1) -> ParsedRun:
    """Say where a run stands. A tool has just made it and nobody else holds it: no copy is needed."""
    object.__setattr__(run, "file", file)
    object.__setattr__(run, "line", line + run.line - 1)
    return run


def _warn(runs: list[ParsedRun], index: int, warning: str) -> None:
    runs[index] = replace(runs[index], warnings=(*runs[index].warnings, warning))


def _segments(text: str) -> Iterator[tuple[int, int, list[ModuleType]]]:
    """Split `text` at every sighting: start, end, and the tools that claim it."""
    claims: dict[int, list[ModuleType]] = {}
    for module in tools().values():
        for mark in module.MARKS:
            if mark in text:
                for offset in module.sightings(text):
                    claims.setdefault(offset, []).append(module)
                break
    starts = sorted(claims)
    for start, end in pairwise([*starts, len(text)]):
        yield start, end, claims[start]
