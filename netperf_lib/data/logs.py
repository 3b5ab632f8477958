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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from .. import tools
from ..errors import ParseError, naming
from ..metrics import computed
from ..tools.parsed import ParsedRun
from ..tools.surroundings import decode

BATCH = 64
"""Number of files per task of a worker."""
SHARED = 8 << 20
"""Fewer bytes than this are read in this process alone: starting a worker takes as long."""
MOST = 1 << 30
"""Largest log that is read, in unpacked bytes."""


def parse(path: str | os.PathLike[str], *, tool: str | None = None) -> list[ParsedRun]:
    """Read every run in a log of any known tool.

    Parameters
    ----------
    path : str or path-like
        The file, which may be gzipped; ``-`` for standard input.
    tool : str, optional
        The tool that printed it; only for a log without other text around it, as in the files of a measurement.

    Returns
    -------
    list of ParsedRun
        In the order of the log; see `ParsedRun.status` for which values are valid.

    Raises
    ------
    ParseError
        There is no such file, or it contains no run of a known tool.

    Examples
    --------
    >>> for run in npl.parse("data/published/azure-westeurope-d16v3/iperf2-ppg.txt"):
    ...     print(run.tool, run.status)
    iperf2 ok
    """
    name = os.fspath(path)
    if name == "-":
        return tools.parse(_unpacked(io.BytesIO(sys.stdin.buffer.read(MOST + 1)), name), file=name)
    if "\0" in name:
        raise ParseError("no such file; for the text of a log use parse_text", file=name[:80])
    try:
        return read_log(name, tool=tool)
    except FileNotFoundError:
        raise ParseError(
            "no such file; pass the path of a log, or its text to parse_text", file=name
        ) from None
    except IsADirectoryError:
        one = "a folder: parse reads one log, npl.import_logs(folder) and npl.compare(folder) read all in it"
        raise ParseError(
            one if any(Path(name).iterdir()) else "a folder without files", file=name
        ) from None
    except MemoryError:
        raise ParseError(
            "too large for the memory; split it, or read it on a larger machine", file=name
        ) from None
    except OSError as e:
        raise ParseError(
            f"cannot be read ({e.strerror}); pass a readable file", file=name
        ) from None


def read_log(path: str | os.PathLike[str], *, tool: str | None = None) -> list[ParsedRun]:
    """Read a log as `parse` does; an error of the machine, which may pass, is an OSError or MemoryError."""
    name = os.fspath(path)
    # not `Path.open`: thousands of small files, and every microsecond counts
    with open(
        name, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | _AT_ONCE)
    ) as f:
        status = os.fstat(f.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ParseError(
                "not a regular file; to read a pipe, pass it as standard input", file=name
            )
        if status.st_size > MOST:
            raise ParseError(_TOO_LARGE, file=name)
        with naming(name):
            held = [_unpacked(f, name)]
    # no other reference is left once it is decoded
    return tools.parse(held.pop(), file=name, tool=tool)


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
    return tools.parse(text if isinstance(text, str) else _unpacked(io.BytesIO(text), None))


def text(path: Path) -> str:
    """Return the text of a log, as `parse` counts its lines."""
    with path.open("rb") as file:
        return re.sub(r"\r*\n|\r", "\n", decode(_unpacked(file, path.name)))


_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Flag that opens a file without waiting for the other end of a pipe."""
_TOO_LARGE = (
    f"larger than {MOST >> 30} GiB: split it, one run a file, or ask the tool for longer intervals"
)
_GZIP = b"\x1f\x8b"
_PACKED = {
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"(\xb5/\xfd": "zstd",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "7z",
}


def _unpacked(file: BinaryIO, name: str | None) -> bytes:
    """Read a file from its start, and unpack gzip; no other compression is read, and no more than `MOST`."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith(_GZIP):
        for mark, packer in _PACKED.items():
            if start.startswith(mark):
                raise ParseError(f"packed by {packer}; unpack it first", file=name)
        data = file.read()
        if len(data) > MOST:
            raise ParseError(_TOO_LARGE, file=name)
    else:
        try:
            data = b""
            with gzip.open(file) as unpacked:
                size = 0  # it may unpack to a thousandfold: nothing is held before that is known
                while piece := unpacked.read(1 << 20):
                    size += len(piece)
                    if size > MOST:
                        raise ParseError(f"{_TOO_LARGE}, when it is unpacked", file=name)
                unpacked.seek(0)
                data = unpacked.read()
        except (gzip.BadGzipFile, EOFError, zlib.error) as e:
            raise ParseError(
                f"packed by gzip and damaged ({e}); copy it again", file=name
            ) from None
    if data[257:262] == b"ustar":
        raise ParseError("packed by tar; unpack it first", file=name)
    return data


_RECEIVERS = ("iperf2", "iperf3", "ntttcp")
"""Tools whose servers print what arrived."""
_RECEIVED = (
    "throughput_bps transferred_bytes jitter_us lost_count lost_ratio packets_count out_of_order_count duplicated_count"
).split()


def parse_ends(
    client: Path, server: Path | None = None, *, tool: str | None = None
) -> list[ParsedRun]:
    """Read the log of a client, and what arrived from that of its server if the client cannot know it.

    iperf 2 over TCP, and old versions of iperf3 over UDP, print at the client only what was sent. A server's log
    without this information does not fail the client's run, but adds a warning. OSError or MemoryError if a log cannot be
    read now.
    """
    runs = read_log(client, tool=tool)
    lacking = [
        i
        for i, run in enumerate(runs)
        if run.status == "ok"
        and run.tool in _RECEIVERS
        and run.parameters.get("direction") != "reverse"
        if "throughput_sent_bps" in run.metrics and "throughput_bps" not in run.metrics
    ]
    if len(lacking) == 1 and server is not None:
        runs[lacking[0]] = _with_received(runs[lacking[0]], server, tool=tool)
    return runs


def _with_received(run: ParsedRun, server: Path, *, tool: str | None) -> ParsedRun:
    metrics: dict[str, float] = {}
    problems: list[str] = []
    unknown = f"{server.name} does not tell what arrived"
    try:
        heard = tools.parse(server.read_bytes(), file=server.name, tool=tool)
    except ParseError as e:
        problems.append(f"{unknown}: {e}")
    else:
        problems += (f"{server.name}: {w}" for r in heard for w in r.warnings)
        one = heard[0]
        a, b = (
            {"protocol": None, "direction": None, **r.parameters, "tool": r.tool}
            for r in (run, one)
        )
        same = all(None in (a[k], b[k]) or a[k] == b[k] for k in ("tool", "protocol", "direction"))
        if len(heard) > 1 or (one.status == "ok" and not same):
            problems.append(f"{unknown}: it holds another test than the client's, or several")
        elif one.status != "ok":
            problems.append(f"{unknown}: {one.error}")
        else:
            metrics = {name: one.metrics[name] for name in _RECEIVED if name in one.metrics}
    warnings = dict.fromkeys((*run.warnings, *problems))
    metrics |= run.metrics
    return replace(run, metrics=metrics | computed(metrics), warnings=tuple(warnings))


_PLAIN = ("file", "line", "tool", "tool_version", "test", "status", "error")


def to_json(run: ParsedRun) -> dict[str, Any]:
    """Return one run as plain data: columns and packets as counts, everything else as it is."""
    return {name: getattr(run, name) for name in _PLAIN} | {
        "warnings": list(run.warnings),
        "parameters": dict(run.parameters),
        "metrics": dict(run.metrics),
        "intervals": len(run.intervals["start_s"]) if run.intervals else 0,
        "samples": run.samples_count,
        "percentiles": [asdict(p) for p in run.percentiles],
    }


def parse_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Read many logs, in parallel if they are large or many.

    Parameters
    ----------
    paths : sequence of path-like
        The files; a folder means all files in it, a pattern that is not a file name (`*`, `?`, `[`) those that it
        matches, ``-`` standard input.
    workers : int, optional
        Number of processes; by default as many as there are processors, and none for little data.
    progress : callable, optional
        Called with (files read, files to read).

    Returns
    -------
    tuple of list
        The runs as returned by `to_json`, in the order of the files, and a message for each file that cannot be read.
    """
    from .workers import processes, run_all

    names = [name for p in paths for name in expand(os.fspath(p))]
    if "-" in names:
        workers = 1  # other processes cannot read the standard input of this one
    batch = BATCH
    if len(names) > 1 and workers is None and sum(map(_size, names)) >= SHARED:
        workers = os.cpu_count()
        batch = 1 if len(names) < BATCH else BATCH  # a large file is worth a separate task
    tasks = [tuple(names[i : i + batch]) for i in range(0, len(names), batch)]
    results: dict[tuple[str, ...], tuple[list[dict[str, Any]], list[str]]] = {}
    with processes(workers or 1) as executor:
        for task, result in run_all(_read_batch, tasks, executor):
            results[task] = result
            if progress is not None:
                progress(sum(map(len, results)), len(names))
    ordered = [results[task] for task in tasks]
    return [run for runs, _ in ordered for run in runs], [
        error for _, errors in ordered for error in errors
    ]


def expand(name: str) -> list[str]:
    """Return the files that a name stands for; the name itself if there are none, to be reported as an error."""
    path = Path(name)
    files: Iterable[Path]
    # functions of os.path, as the methods of Path raise for what lies in a closed folder before Python 3.14
    if os.path.isdir(name):  # noqa: PTH112
        unreadable: list[str] = []  # folders, which are also reported as errors
        walk = os.walk(path, onerror=lambda error: unreadable.append(str(error.filename)))
        inside = [
            Path(folder, name)
            for folder, _, names in walk
            for name in names
            if not name.startswith(".")
        ]
        files = (*filter(_is_file, inside), *map(Path, unreadable))
    elif set("*?[") & set(name) and not os.path.exists(name):  # noqa: PTH110 - shells of Windows leave patterns to us
        files = filter(_is_file, map(Path, glob.glob(name, recursive=True)))  # noqa: PTH207 - a pattern may begin at the root
    else:
        return [name]
    return sorted(map(str, files)) or [name]


def _is_file(path: Path) -> bool:
    """Whether it is a file, or may be one: an inaccessible path is reported as an error."""
    try:
        return stat.S_ISREG(path.stat().st_mode)  # `Path.is_file` does not raise since Python 3.14
    except PermissionError:
        return True
    except OSError:
        return False


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0


def _read_batch(*names: str) -> tuple[list[dict[str, Any]], list[str]]:
    runs: list[dict[str, Any]] = []
    errors: list[str] = []
    for name in names:
        try:
            runs += map(to_json, parse(name))
        except ParseError as e:
            errors.append(str(e))
    return runs, errors
