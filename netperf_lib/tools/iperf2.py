"""iperf 2 (the program ``iperf``): throughput over TCP and UDP, and with ``-e`` what each write and each datagram met.

What it prints is read from its text, plain and enhanced, and from its CSV (``-y C``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..errors import UsageError
from . import Commands
from ._iperf2_csv import read_csv
from ._iperf2_csv import sightings as csv_sightings
from ._iperf2_tests import tests
from ._iperf2_text import read_text
from ._options import Known, checked
from .parsed import ParsedRun

if TYPE_CHECKING:
    from ..experiment.model import Trial

NAME = "iperf2"
MARKS = ("Client connecting to ", "Server listening on ", "connected with ", "connect failed", "iperf: ", ",0.0-")
PACKAGE = "iperf"
VERSION = ("iperf", "--version")
TESTS = ("tcp", "udp")
OPTIONS: Final[Known] = {"bitrate": str, "reverse": bool, "congestion": str, "interval_s": float, "nodelay": bool}
"""What `TestSpec.options` may hold, and of which kind."""


def sightings(text: str) -> Iterator[int]:
    """Offsets where a run starts."""
    if ",0.0-" in text:
        yield from csv_sightings(text)
    yield from (at for at, whole in tests(text) if whole)


def read(text: str) -> list[ParsedRun]:
    """Read the tests of one program, in whichever format."""
    if re.match(r"\s*\d{14}", text):
        return read_csv(text)
    several = text.count(" connected with ") > 1
    return read_text(text, [at for at, _ in tests(text)][1:] if several else [])


def commands(trial: Trial, server_address: str, port: int) -> Commands:
    """Argument lists of both ends for one trial; the server's log holds what arrived.

    Raises
    ------
    UsageError
        The trial asks for something that iperf 2 does not offer.
    """
    spec = trial.test
    o = checked(spec, TESTS, OPTIONS)
    if spec.omit_s:
        raise UsageError("iperf2 cannot leave out the first seconds; set omit_s to 0, or measure with iperf3")
    # -f k: the bare figures are cut to three digits
    both = ["-p", str(port), "-e", "-f", "k", "-i", f"{float(o.get('interval_s', 1)):g}"]
    client = ["iperf", "-c", server_address, *both, "-t", f"{spec.duration_s:g}"]
    server = ["iperf", "-s", *both]
    if trial.streams > 1:
        client += ["-P", str(trial.streams)]
    if trial.tcp_buffer_bytes not in (None, trial.pair.tcp_buffer_bytes):
        # a level of the test; what the hosts of the pair allow is theirs, and -w would switch off autotuning
        client += ["-w", str(trial.tcp_buffer_bytes)]
        server += ["-w", str(trial.tcp_buffer_bytes)]
    if trial.message_bytes is not None:
        client += ["-l", str(trial.message_bytes)]
        server += ["-l", str(trial.message_bytes)] if spec.test == "udp" else []
    if spec.test == "udp":
        client += ["-u", "-b", str(o.get("bitrate", "1m"))]
        server.append("-u")
    elif "bitrate" in o:
        client += ["-b", str(o["bitrate"])]
    if "congestion" in o:
        client += ["-Z", str(o["congestion"])]
    if o.get("reverse"):
        client.append("-R")
    if o.get("nodelay"):
        client.append("-N")
    return Commands(
        client=tuple(client),
        server=tuple(server),
        listens=(("udp" if spec.test == "udp" else "tcp", port),),
        timeout_s=spec.duration_s + 30,
    )
