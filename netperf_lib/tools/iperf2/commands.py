"""The commands that an iperf 2 trial runs on both ends."""

from __future__ import annotations

import math

from ...errors import UsageError
from ..interface import Commands
from ..options import Option, arguments, bits_per_second, checked, levels
from ..request import Request

PACKAGE = "iperf"
VERSION = ("iperf", "--version")
TESTS = LOAD_TESTS = ("tcp", "udp")
OPTIONS = (
    Option(
        "bitrate",
        "rate",
        "rate that each stream sends at; the default of UDP is 1M",
        "-b",
        unit="bit/s",
    ),
    Option("congestion", "word", "congestion control algorithm of TCP", "-Z", tests=("tcp",)),
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option(
        "nodelay",
        bool,
        "send small segments at once (TCP_NODELAY)",
        "-N",
        default=False,
        tests=("tcp",),
    ),
    Option("interval_s", float, "time between two rows of the log", default=1.0, unit="s"),
)


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial; the received data are in the server's log."""
    settings = checked(request, TESTS, OPTIONS)
    if request.omit_s:
        raise UsageError(
            "iperf2 cannot leave out the first seconds; set omit_s to 0, or measure with iperf3"
        )
    # -f k: without it, figures are cut to three digits
    both = ["-p", str(port), "-e", "-f", "k", "-i", f"{float(settings.get('interval_s', 1)):g}"]
    if ":" in server_address:
        both.append("-V")  # IPv6; without it the server listens on IPv4 only
    client = ["iperf", "-c", server_address, *both, "-t", f"{request.duration_s:g}"]
    server = ["iperf", "-s", *both]
    client += levels(request, streams="-P", buffer="-w", message="-l")
    server += levels(request, buffer="-w", message="-l" if request.test == "udp" else "")
    if request.test == "udp":
        client.append("-u")
        server.append("-u")
        settings.setdefault("bitrate", "1m")
    if "bitrate" in settings:
        settings["bitrate"] = (
            f"{bits_per_second(settings['bitrate']):.0f}"  # its own M is 2^20, its m 10^6
        )
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=tuple(server),
        listens=(("udp" if request.test == "udp" else "tcp", port),),
        timeout_s=request.duration_s + 30,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends; without a rate, UDP 1 Mbit/s per stream, TCP `math.inf`."""
    rate = request.options.get("bitrate")
    if rate is None:
        return 1e6 * request.streams if request.test == "udp" else math.inf
    return bits_per_second(rate) * request.streams or math.inf
