"""The commands that an iperf 2 trial runs on both ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...errors import UsageError
from ..interface import Commands
from ..options import Option, arguments, bits_per_second, checked, levels

if TYPE_CHECKING:
    from ...experiment.model import Trial

PACKAGE = "iperf"
VERSION = ("iperf", "--version")
TESTS = LOAD_TESTS = ("tcp", "udp")
OPTIONS = (
    Option("bitrate", "rate", "rate that each stream sends at; the default of UDP is 1M", "-b", unit="bit/s"),
    Option("congestion", "word", "congestion control algorithm of TCP", "-Z", tests=("tcp",)),
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option("nodelay", bool, "send small segments at once (TCP_NODELAY)", "-N", default=False, tests=("tcp",)),
    Option("interval_s", float, "time between two rows of the log", default=1.0, unit="s"),
)


def commands(trial: Trial, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial; the received data are in the server's log."""
    spec = trial.test
    given = checked(spec, TESTS, OPTIONS)
    if spec.omit_s:
        raise UsageError("iperf2 cannot leave out the first seconds; set omit_s to 0, or measure with iperf3")
    # -f k: without it, figures are cut to three digits
    both = ["-p", str(port), "-e", "-f", "k", "-i", f"{float(given.get('interval_s', 1)):g}"]
    if ":" in server_address:
        both.append("-V")  # IPv6; without it the server listens on IPv4 only
    client = ["iperf", "-c", server_address, *both, "-t", f"{spec.duration_s:g}"]
    server = ["iperf", "-s", *both]
    client += levels(trial, streams="-P", buffer="-w", message="-l")
    server += levels(trial, buffer="-w", message="-l" if spec.test == "udp" else "")
    if spec.test == "udp":
        client.append("-u")
        server.append("-u")
        given.setdefault("bitrate", "1m")
    if "bitrate" in given:
        given["bitrate"] = f"{bits_per_second(given['bitrate']):.0f}"  # its own M is 2^20, its m 10^6
    return Commands(
        client=(*client, *arguments(OPTIONS, given)),
        server=tuple(server),
        listens=(("udp" if spec.test == "udp" else "tcp", port),),
        timeout_s=spec.duration_s + 30,
    )


def rate_bps(trial: Trial) -> float:
    """Return the bits per second that a trial sends; without a rate, UDP 1 Mbit/s per stream, TCP `math.inf`."""
    rate = trial.test.options.get("bitrate")
    if rate is None:
        return 1e6 * trial.streams if trial.test.test == "udp" else math.inf
    return bits_per_second(rate) * trial.streams or math.inf
