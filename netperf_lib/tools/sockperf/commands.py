"""The commands that a sockperf trial runs on both ends."""

from __future__ import annotations

import math

from ...errors import UsageError
from ..interface import Commands
from ..options import Option, arguments, check_unloaded, checked, levels
from ..request import Request

PACKAGE = "sockperf"
VERSION = ("sockperf", "--version")
TESTS = ("ping-pong", "under-load", "throughput")
LOAD_TESTS: tuple[str, ...] = ()
OPTIONS = (
    Option("protocol", ("udp", "tcp"), "transport protocol", default="udp"),
    Option(
        "full_rtt", bool, "report whole round trips instead of halves", "--full-rtt", default=False
    ),
    Option("mps", "messages", "messages sent in a second, or max", "--mps", unit="1/s"),
    Option(
        "reply_every",
        int,
        "every n-th message is answered",
        "--reply-every",
        100,
        tests=("under-load",),
    ),
    Option("burst", int, "messages sent in one go", "--burst", default=1),
    Option("samples", bool, "keep every packet (--full-log)", default=False),
)
_MESSAGE_BYTES, _RATE = 14, 10_000
"""Defaults of sockperf: message size in bytes, and messages per second under load."""


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the commands of both ends of one trial."""
    settings = checked(request, TESTS, OPTIONS)
    if ":" in server_address:
        raise UsageError(
            f"sockperf cannot use an IPv6 address ({server_address}); use one of IPv4, or qperf"
        )
    protocol = settings.get("protocol", "udp")
    if request.test == "ping-pong" and protocol == "udp":
        check_unloaded(request, "declare options: {protocol: tcp}, or test: under-load")
    both = ["-i", server_address, "-p", str(port)]
    if protocol == "tcp":
        both.append("--tcp")
    both += levels(request, buffer="--buffer-size")
    options = [
        "-t",
        str(math.ceil(request.duration_s)),
        *levels(request, message="-m"),
        *arguments(OPTIONS, settings),
    ]
    if settings.get("samples"):
        options += ["--full-log", "/dev/stdout"]
    return Commands(
        client=("sockperf", request.test, *both, *options),
        server=("sockperf", "server", *both),
        listens=((str(protocol), port),),
        timeout_s=request.duration_s + 60,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends, answers included; 0 for ping-pong, which waits for each answer."""
    options, test = request.options, request.test
    rate = options.get("mps", _RATE if test == "under-load" else "max")
    if test == "ping-pong":
        return 0.0
    if rate == "max":
        return math.inf
    answered = 1 / float(options.get("reply_every", 100) or 1) if test == "under-load" else 0.0
    return float(rate) * 8 * (request.message_bytes or _MESSAGE_BYTES) * (1 + answered)
