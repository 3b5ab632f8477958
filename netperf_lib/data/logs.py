"""Logs on disk: read files, one or thousands, and return their contents as JSON or as tables."""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from .. import tools
from ..errors import ParseError, explain, naming
from ..tools.parsed import ParsedRun
from ..tools.surroundings import decode

MAX_BYTES = 1 << 30
"""Largest log that is read, in unpacked bytes."""


def parse(path: str | os.PathLike[str], *, tool: str | None = None) -> list[ParsedRun]:
    """Read every run in a log of any known tool.

    Parameters
    ----------
    path : str or path-like
        The file, which may be gzipped; ``-`` for standard input.
    tool : str, optional
        The tool that printed it; only for a log without other text around it, as in the files of a
        measurement.

    Returns
    -------
    list of ParsedRun
        In the order of the log; see `ParsedRun.status` for which values are valid.

    Raises
    ------
    ParseError
        It contains no run of a known tool.
    OSError
        There is no such file, or it cannot be read.

    Examples
    --------
    >>> for run in npl.parse("data/published/azure-westeurope-d16v3/iperf2-ppg.txt"):
    ...     print(run.tool, run.status)
    iperf2 ok
    """
    name = os.fspath(path)
    if name == "-":
        return tools.parse(
            _unpacked(io.BytesIO(sys.stdin.buffer.read(MAX_BYTES + 1)), name), file=name
        )
    if "\n" in name:
        first = name.partition("\n")[0]
        raise ParseError("no such file; its text is what parse_text reads", file=first)
    # not methods of `Path`: thousands of small files, and every microsecond counts
    status = os.stat(name)  # noqa: PTH116
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        how = "to read a pipe, pass it as standard input"
        raise ParseError(f"not a regular file; {how}", file=name)
    if status.st_size > MAX_BYTES:
        raise ParseError(_TOO_LARGE, file=name)
    with open(name, "rb", buffering=0) as file, naming(name):  # noqa: PTH123
        data = [_unpacked(file, name)]
    # no other reference is left once it is decoded
    return tools.parse(data.pop(), file=name, tool=tool)


def parse_text(text: str | bytes) -> list[ParsedRun]:
    r"""Read every run in the text of a log: the output of a tool, with any text around it.

    Parameters
    ----------
    text : str or bytes
        The text, or the bytes of a file.

    Returns
    -------
    list of ParsedRun
        As returned by `parse`; `ParsedRun.file` is None.

    Raises
    ------
    ParseError
        The text contains no run of a known tool.

    Examples
    --------
    >>> (run,) = npl.parse_text("tcp_lat:\n    latency  =  39.4 us\n")
    >>> run.metrics["latency_oneway_us"]
    39.4
    """
    return tools.parse(
        text if isinstance(text, str) else _unpacked(io.BytesIO(text), None)
    )


def text(path: Path) -> str:
    """Return the text of a log, as `parse` counts its lines."""
    with path.open("rb") as file:
        return re.sub(r"\r*\n|\r", "\n", decode(_unpacked(file, path.name)))


_TOO_LARGE = (
    f"larger than {MAX_BYTES >> 30} GiB: split it, one run a file, or ask the tool for longer "
    "intervals"
)


def _unpacked(file: BinaryIO, name: str | None) -> bytes:
    """Read a file from its start, and unpack gzip; no archive is read, no more than `MAX_BYTES`."""
    start = file.read(2)
    file.seek(0)
    if start == b"PK":
        raise ParseError("packed by zip; unpack it first", file=name)
    data = _gunzipped(file, name) if start == b"\x1f\x8b" else file.read()
    if data[257:262] == b"ustar":
        raise ParseError("packed by tar; unpack it first", file=name)
    if len(data) > MAX_BYTES:
        raise ParseError(_TOO_LARGE, file=name)
    return data


def _gunzipped(file: BinaryIO, name: str | None) -> bytes:
    try:
        with gzip.open(file) as unpacked:
            # it may unpack to a thousandfold: nothing is held before that is known
            if sum(map(len, iter(lambda: unpacked.read(1 << 20), b""))) > MAX_BYTES:
                raise ParseError(f"{_TOO_LARGE}, when it is unpacked", file=name)
            unpacked.seek(0)
            return unpacked.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        why = f"packed by gzip and damaged ({error}); copy it again"
        raise ParseError(why, file=name) from None


_RECEIVERS = ("iperf2", "iperf3", "ntttcp")
"""Tools whose servers print what arrived."""
RECEIVED = (
    "throughput_bps transferred_bytes jitter_us lost_count lost_ratio packets_count "
    "out_of_order_count duplicated_count"
).split()


def parse_ends(
    client: Path, server: Path | None = None, *, tool: str | None = None
) -> list[ParsedRun]:
    """Read the log of a client, and from that of its server what the client cannot know.

    iperf 2 over TCP, and old versions of iperf3 over UDP, print at the client only what was sent.
    A server's log without this information does not fail the client's run, but adds a warning.
    OSError or MemoryError if a log cannot be
    read now.
    """
    runs = parse(client, tool=tool)
    lacking = [run for run in runs if _lacks_received(run)]
    if len(lacking) == 1 and server is not None:
        runs[runs.index(lacking[0])] = _with_received(lacking[0], server, tool)
    return runs


def _lacks_received(run: ParsedRun) -> bool:
    sends = run.status == "ok" and run.tool in _RECEIVERS
    sends = sends and run.parameters.get("direction") != "reverse"
    known = run.metrics.keys()
    return sends and "throughput_sent_bps" in known and "throughput_bps" not in known


def _with_received(run: ParsedRun, server: Path, tool: str | None) -> ParsedRun:
    try:
        told, *others = tools.parse(server.read_bytes(), file=server.name, tool=tool)
        another = bool(others) or told.tool != run.tool
        why = told.error or ("it holds another test" if another else "")
    except ParseError as error:
        why = error.message
    if why:
        warning = f"{server.name} does not tell what arrived: {why}"
        return replace(run, warnings=[*run.warnings, warning])
    said = [f"{server.name}: {text}" for text in told.warnings]
    unique = list(dict.fromkeys([*run.warnings, *said]))
    return replace(with_received(run, told), warnings=unique)


def with_received(run: ParsedRun, server: ParsedRun) -> ParsedRun:
    """Return the run of a client with what only its server knows: what arrived."""
    received = {name: v for name, v in server.metrics.items() if name in RECEIVED}
    return replace(run, metrics=received | run.metrics)


_PLAIN = ("file", "line", "tool", "tool_version", "test", "status", "error")


def to_json(run: ParsedRun) -> dict[str, Any]:
    """Return one run as plain data: columns as counts, everything else as it is."""
    return {name: getattr(run, name) for name in _PLAIN} | {
        "warnings": list(run.warnings),
        "parameters": dict(run.parameters),
        "metrics": dict(run.metrics),
        "intervals": len(run.intervals["start_s"]) if run.intervals else 0,
        "percentiles": [asdict(p) for p in run.percentiles],
    }


def parse_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Read many logs.

    Parameters
    ----------
    paths : iterable of path-like
        The files; a folder means all files in it, a pattern that is not a file name (`*`, `?`, `[`)
        those that it matches, ``-`` standard input.
    progress : callable, optional
        Called with (files read, files to read).

    Returns
    -------
    tuple of list
        The runs as returned by `to_json`, in the order of the files, and a message for each file
        that cannot be read.
    """
    names, errors = list[str](), list[str]()
    for path in paths:
        names += expand(os.fspath(path))
    runs: list[dict[str, Any]] = []
    for done, name in enumerate(names, 1):
        try:
            runs += map(to_json, parse(name))
        except ParseError as error:
            errors.append(str(error))
        except (OSError, MemoryError) as error:
            errors.append(f"{explain(error)}")
        if progress is not None:
            progress(done, len(names))
    return runs, errors


def expand(name: str) -> list[str]:
    """Return the files that a name stands for.

    The name itself if there are none, to be reported as an error.
    """
    found: list[str] = []
    # functions of os.path, as the methods of Path raise for what lies in a closed folder before
    # Python 3.14
    if os.path.isdir(name):  # noqa: PTH112
        errors: list[OSError] = []  # folders that cannot be read are reported as errors
        for top, _, names in os.walk(name, onerror=errors.append):
            inside = [
                os.path.join(top, file)  # noqa: PTH118
                for file in names
                if not file.startswith(".")  # noqa: PTH118, RUF100
            ]
            found += filter(_is_file, inside)
        found += [str(error.filename) for error in errors]
    # shells of Windows leave patterns to us
    elif is_pattern(name) and not os.path.exists(name):  # noqa: PTH110
        # a pattern may begin at the root
        found += filter(_is_file, glob.glob(name, recursive=True))  # noqa: PTH207
    return sorted(found) or [name]


def is_pattern(name: str) -> bool:
    """Return whether a name may stand for several files."""
    return bool(set("*?[") & set(name))


def _is_file(path: str) -> bool:
    """Whether it is a file, or may be one: an inaccessible path is reported as an error."""
    try:
        # `Path.is_file` does not raise since Python 3.14
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except PermissionError:
        return True
    except OSError:
        return False
