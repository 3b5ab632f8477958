"""Logs on disk: read files, one or thousands, and say what is in them as JSON or as tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import tools
from .errors import ParseError
from .model import ParsedRun

__all__ = ["FileChunks", "parse", "to_json"]


@dataclass(frozen=True)
class FileChunks:
    """The bytes of a file from its start, a piece at a time; called anew for each pass."""

    path: str
    size: int = 1 << 20

    def __call__(self) -> Iterator[bytes]:
        """Give the bytes from the start of the file."""
        with Path(self.path).open("rb") as f:
            while chunk := f.read(self.size):
                yield chunk


def parse(source: str | bytes | os.PathLike[str]) -> list[ParsedRun]:
    """Read every run in a log of any known tool.

    Parameters
    ----------
    source : str, bytes or path-like
        A file, or the text itself: a string with a line break is a text, any other names a file when there is one.

    Returns
    -------
    list of ParsedRun
        In the order of the log; see `ParsedRun.status` for what stands and what does not.

    Raises
    ------
    ParseError
        No such file, or it holds no run of a known tool.
    """
    if isinstance(source, bytes):
        return tools.parse(source)
    if isinstance(source, str) and ("\n" in source or len(source) > 4096 or "\0" in source):
        return tools.parse(source)
    path = Path(source)
    try:
        large = path.stat().st_size >= tools.LARGE
        if large and (runs := tools.parse_stream(FileChunks(str(path)), file=str(path))):
            return runs
        data = path.read_bytes()
    except FileNotFoundError:
        if isinstance(source, str):
            try:
                return tools.parse(source)
            except ParseError:
                pass
        raise ParseError("no such file; pass the path of a log, or its text", file=str(source)) from None
    except OSError as e:
        raise ParseError(f"cannot be read ({e.strerror}); pass a readable file", file=str(source)) from None
    return tools.parse(data, file=str(path))


def to_json(run: ParsedRun) -> dict[str, Any]:
    """Return one run as plain data: columns and packets as counts, everything else as it is."""
    return {
        "file": run.file,
        "line": run.line,
        "tool": run.tool,
        "tool_version": run.tool_version,
        "test": run.test,
        "status": run.status,
        "error": run.error,
        "warnings": list(run.warnings),
        "metrics": dict(run.metrics),
        "intervals": len(run.intervals["start_s"]) if run.intervals else 0,
        "samples": run.samples_count,
        "percentiles": [asdict(p) for p in run.percentiles],
    }
