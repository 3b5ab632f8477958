"""iperf 2 (the program ``iperf``): throughput over TCP and UDP, and with ``-e`` what each write and each datagram met.

What it prints is read from its text, plain and enhanced, and from its CSV (``-y C``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..errors import UsageError
from ..model import ParsedRun, Trial
from . import Commands
from ._iperf2_csv import read_csv
from ._iperf2_csv import sightings as csv_sightings
from ._iperf2_text import read_text
from ._options import Known, checked

NAME = "iperf2"
MARKS = ("Client connecting to ", "Server listening on ", "connected with ", "connect failed", "iperf: ", ",0.0-")
PACKAGE = "iperf"
VERSION = ("iperf", "--version")
TESTS = ("tcp", "udp")
OPTIONS: Final[Known] = {"bitrate": str, "reverse": bool, "congestion": str, "interval_s": float, "nodelay": bool}
"""What `TestSpec.options` may hold, and of which kind."""

_START = re.compile(  # each begins with a literal character: the engine looks for these first
    r"Client connecting to \S+, (?:TCP|UDP) port(?P<client>)"
    r"|Server listening on (?:TCP|UDP) port(?P<server>)"
    r"|\[\s*[^\]\n]{1,20}\] local \S+ port \d+ connected with (?P<local>)"
    r"|\[\s*(?P<id>[^\]\[\n]{1,20}?)\s*\]\s*(?P<from>\d+\.\d+)\s*-\s*(?P<to>\d+\.\d+)\s+sec\s+[\d.]+ [KMGT]?B"
    r"(?P<row>)"
    r"|i(?<=\bi)perf: (?!done)\S|listener bind failed|connect failed: ",
    re.MULTILINE,
)


def sightings(text: str) -> Iterator[int]:
    """Offsets where a run starts."""
    if ",0.0-" in text:
        yield from csv_sightings(text)
    begun, kind = -1, ""
    rows: dict[str, int] = {}
    finished = rows_seen = False
    for m in _START.finditer(text):
        now = m.lastgroup or "error"
        line = text.rfind("\n", 0, m.start()) + 1
        if now == "row":
            if begun < 0:
                continue
            count = rows[m["id"]] = rows.get(m["id"], 0) + 1
            finished = float(m["from"]) == 0 and (
                count > 1 or float(m["to"]) != int(float(m["to"])) or "SUM" in m["id"]
            )
            rows_seen = True
            continue
        if now in ("client", "server"):
            # One program prints two banners with -d, and the first connection above its banner when it is quick.
            new = not kind or rows_seen or kind == "client" or (kind == now == "server")
            at = _rule_above(text, line)
        elif now == "local":
            new, at = not kind or finished, line
            if not new:
                continue
        elif m.start() - line > 60:
            continue
        else:
            new, at = not kind or (rows_seen and "connect failed" not in m[0]), line
            if not new:
                continue
        if new:
            begun, rows, finished, rows_seen = at, {}, False, False
            yield at
        kind = now


def _rule_above(text: str, line: int) -> int:
    above = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return above if above < line and text[above:line].strip(" >\n").startswith("-----") else line


def read(text: str) -> list[ParsedRun]:
    """Read one run, of whichever format."""
    if re.match(r"\s*\d{14}", text):
        return read_csv(text)
    return read_text(text)


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
