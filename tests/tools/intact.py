"""What an undamaged log holds, to hold a damaged one against it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun


@cache
def content(log: Path) -> bytes:
    return log.read_bytes()


def read(data: bytes) -> list[ParsedRun]:
    """Read every run, and none where there is none: any other error is a fault of the reader."""
    try:
        return tools.parse(data)
    except ParseError:
        return []


@cache
def intact(log: Path) -> list[ParsedRun]:
    return read(content(log))
