"""iperf 2 (the program ``iperf``): throughput over TCP and UDP, and with ``-e`` details of writes and datagrams.

Its text, plain and enhanced, and its CSV (``-y C``) are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..parsed import ParsedRun
from . import csv
from .commands import LOAD_TESTS, OPTIONS, PACKAGE, TESTS, VERSION, commands, rate_bps
from .starts import tests
from .text import NAME as NAME
from .text import read_text

MARKS = (
    "Client connecting to ",
    "Server listening on ",
    "connected with ",
    "connect failed",
    "iperf: ",
    ",0.0-",
)


def sightings(text: str) -> Iterator[int]:
    """Yield the offsets where a run starts."""
    if ",0.0-" in text:
        yield from csv.sightings(text)
    yield from (at for at, complete in tests(text) if complete)


def read(text: str) -> list[ParsedRun]:
    """Read the tests of one program, in either format."""
    if re.match(r"\s*\d{14}", text):
        return csv.read_csv(text)
    several = text.count(" connected with ") > 1
    return read_text(text, [at for at, _ in tests(text)][1:] if several else [])
