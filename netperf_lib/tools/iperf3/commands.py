"""The commands that an iperf3 trial runs on both ends."""

from __future__ import annotations

import math

from ...errors import UsageError
from ..interface import Commands
from ..options import Option, arguments, bits_per_second, checked, levels
from ..request import Request

PACKAGE = "iperf3"
VERSION = ("iperf3", "--version")
TESTS = LOAD_TESTS = ("tcp", "udp")
OPTIONS = (
    Option("reverse", bool, "the server sends", "-R", default=False),
    Option("bidir", bool, "both ends send at the same time", "--bidir", default=False),
    Option(
        "bitrate",
        "rate",
        "rate that each stream sends at; 0 is as fast as possible",
        "-b",
        0,
        "bit/s",
    ),
    Option("congestion", "word", "congestion control algorithm of TCP", "-C", tests=("tcp",)),
    Option("mss", int, "maximum segment size of TCP", "-M", unit="bytes", tests=("tcp",)),
    Option("zerocopy", bool, "send with sendfile, which needs less CPU", "-Z", default=False),
    Option("interval_s", float, "time between two rows of the log", default=1.0, unit="s"),
)


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the argument lists of both ends for one trial."""
    settings = checked(request, TESTS, OPTIONS)
    if request.duration_s != int(request.duration_s) or request.omit_s != int(request.omit_s):
        raise UsageError(
            f"iperf3 counts whole seconds, not {request.duration_s:g} and {request.omit_s:g}; round duration_s and "
            "omit_s"
        )
    if settings.get("reverse") and settings.get("bidir"):
        raise UsageError("iperf3 takes reverse or bidir, not both")
    client = [
        "iperf3",
        "-c",
        server_address,
        "-p",
        str(port),
        "-J",
        "-t",
        str(int(request.duration_s)),
    ]
    client += ["-i", f"{float(settings.get('interval_s', 1)):g}", "--connect-timeout", "5000"]
    if request.omit_s:
        client += ["-O", str(int(request.omit_s))]
    client += levels(request, streams="-P", buffer="-w", message="-l")
    if request.test == "udp":
        client.append("-u")
        settings.setdefault("bitrate", 0)  # without a rate iperf3 sends UDP at 1 Mbit/s
    return Commands(
        client=(*client, *arguments(OPTIONS, settings)),
        server=("iperf3", "-s", "-1", "-p", str(port), "-J"),
        listens=(("tcp", port),),
        timeout_s=request.duration_s + request.omit_s + 30,
        server_ends=True,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends; `math.inf` without a rate, also for UDP (see `commands`)."""
    options = request.options
    each = bits_per_second(options.get("bitrate", 0)) or math.inf
    return each * request.streams * (2 if options.get("bidir") else 1)
