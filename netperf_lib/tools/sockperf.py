"""sockperf: latency of single messages, with the whole distribution (3.x).

Without ``--full-rtt`` every printed latency is half a round trip. In ``throughput`` mode the server
sends nothing back, so the bandwidth is the sender's. "MBps" are 2^20 bytes. "GBps", which
``--giga-size`` and ``--increase_output_precision`` print with different meanings, are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import UsageError
from .interface import Commands
from .options import Option, arguments, check_unloaded, checked, levels
from .parsed import ParsedRun, Percentile
from .request import Request
from .shared import Contradictory, Damaged, fill_run, line_start, or_above

NAME = "sockperf"
MARKS = (
    "sockperf",
    "vperf",
    "test was performed using the following parameters: ",
    "PORT = ",
    " observation",
)

PACKAGE = "sockperf"
VERSION = ("sockperf", "--version")
TESTS = ("ping-pong", "under-load", "throughput")
LOAD_TESTS: tuple[str, ...] = ()
OPTIONS = (
    Option("protocol", ("udp", "tcp"), "transport protocol", default="udp"),
    Option(
        "full_rtt",
        bool,
        "report whole round trips instead of halves",
        "--full-rtt",
        default=False,
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
    return Commands(
        client=("sockperf", request.test, *both, *options),
        server=("sockperf", "server", *both),
        listens=((str(protocol), port),),
        timeout_s=request.duration_s + 60,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends, answers included.

    Ping-pong waits for each answer, so none is planned for it: 0.
    """
    options, test = request.options, request.test
    rate = options.get("mps", _RATE if test == "under-load" else "max")
    if test == "ping-pong":
        return 0.0
    if rate == "max":
        return math.inf
    answered = (
        1 / float(options.get("reply_every", 100) or 1) if test == "under-load" else 0.0
    )
    return float(rate) * 8 * (request.message_bytes or _MESSAGE_BYTES) * (1 + answered)


# --- where runs are ------------------------------------------------------------------------------

# each alternative begins with a literal character: the engine looks for these alone
_COMMAND = (
    r"s(?<=\bs)ockperf (ping-pong|pp|under-load|ul|throughput|tp|playback|pb|server|sr) "
    r"(?=.*\n.*(?:version #|perf: |Usage: |: Run sockperf ))"
)
_STAGES = (
    (0, _COMMAND),
    (0, r"perf: \+INFO:[ \t]*$"),
    (1, r"=(?:3D=3D|=) version #"),
    (2, r"perf\[(?:CLIENT|SERVER)\]"),
    (2, r"\[(?:CLIENT|SERVER)\] (?:send|listen) on"),
    (2, r"\[ ?\d+\] IP =(?:3D)? "),
    (3, r"perf: Warmup stage"),
    (4, r"perf: Starting test"),
    # "by signal 2" may come at any later time
    (5, r"perf: Test end(?:ed\b| \(interrupted by (?:timer|user)\))"),
    (6, r"perf: \[Total Run\]"),
    (6, r"perf: Total of \d+ messages"),
    (6, r"perf: No messages were received"),
    (7, r"perf: =+ Printing statistics for Server No: 0"),
    (7, r"perf: NOTE: test was performed"),
    (8, r"perf: \[Valid Duration\]"),
    (8, r"perf: Summary: Message Rate"),
    (9, r"perf: =*> avg-"),
    (9, r"perf: Summary: BandWidth"),
    (10, r"perf: .{0,9}# dropped messages"),
    (11, r"perf: Summary: (?:Latency|Round trip)"),
    (12, r"perf: Total \d+ observations"),
    (13, r"perf: ---> .?MAX"),
    (14, r"perf: ---> .?MIN"),
    (15, r"U(?<=^U)sage: sockperf "),
)
"""The lines of a run in printed order; a step back in this order begins another run."""
_VERSION, _STATISTICS = 1, 6
_STAGE = re.compile(
    "|".join(f"{line}(?P<s{number}>)" for number, (_, line) in enumerate(_STAGES))
    + r"|t(?<=^t)est was performed using the following parameters: (?P<log>)|perf: (?P<any>)",
    re.MULTILINE,
)
_RULE = re.compile(r"-{30}\n")
_TOTALS = re.compile(r"\[Total Run\].*")


def find_runs(text: str) -> Iterator[int]:
    """Yield the offset of the first line of each run."""
    reached: int | None = None
    start, in_log = 0, False
    for m in _STAGE.finditer(text):
        kind = str(m.lastgroup)
        stage, again = reached or 0, False
        if kind == "log":
            # the file of --full-log: by itself, or printed after the statistics of its run
            stage = _STATISTICS - 1
            own, its = _TOTALS.search(text, start, m.end()), _TOTALS.search(text, m.end())
            if not in_log and own and its and own[0] == its[0]:
                reached = stage
            in_log = True
        elif kind != "any":
            stage = _STAGES[int(kind[1:])][0]
            again = stage == _VERSION == reached
        if reached is None or stage < reached or again:
            in_log = kind == "log"
            start = line_start(text, m.start())
            start = or_above(text, start, _RULE) if in_log else start
            yield start
        reached = stage


# --- one run -------------------------------------------------------------------------------------

_LINE = re.compile(
    r"""
    \[Total\ Run\]\ RunTime=(?P<seconds>\d+\.\d{3})\ sec;
        \ (?:Warm\ up\ [a-z]+=\d+(?:\ msec)?;\ )?SentMessages=(?P<messages>\d+);
        \ ReceivedMessages=(?P<received>\d+)(?:;\ SkippedMessages=\d+)?\s*\n
    |\[Valid\ Duration\]\ RunTime=(?P<valid_seconds>\d+\.\d{3})\ sec;
        \ SentMessages=(?P<valid_messages>\d+);
        \ ReceivedMessages=(?P<valid_received>\d+)(?:;\ SkippedMessages=\d+)?\s*\n
    |avg-(?:rtt|latency|lat)=\ *(?P<mean>\d+\.\d{3})(?!\d)
        \ \(std-dev=\ *(?P<deviation>\d+\.\d{3})(?!\d)(?:,\ mean-ad=.*)?\)
    |\#\ dropped\ messages\ =\ (?P<dropped>\d+);\ \#\ duplicated\ messages\ =\ (?P<duplicated>\d+);
        \ \#\ out-of-order\ messages\ =\ (?P<disorder>\d+)\s*\n
    |Summary:\ (?:Round\ trip|Latency)(?:\ of\ burst\ of\ \d+\ messages)?
        \ is\ (?P<summary>\d+\.\d{3})(?!\d)\ usec
    |Total\ (?P<observations>\d+)\ observations;\ each\ percentile\ contains
        \ \d+\.\d\d\ observations
    |--->\ <?MAX>?\ observation\ =\ *(?P<maximum>\d+\.\d{3})(?!\d)
    |--->\ <?MIN>?\ observation\ =\ *(?P<minimum>\d+\.\d{3})(?!\d)
    |--->\ percentile\ *(?P<percentile>\d+\.\d{3})\ =\ *(?P<latency>\d+\.\d{3})(?!\d)
    |Total\ of\ (?P<sent>\d+)\ messages\ sent\ in\ (?P<sent_s>\d+\.\d{3})\ sec
    |Summary:\ Message\ Rate\ is\ (?P<rate>\d+)\ \[msg/sec\]
    |Summary:\ BandWidth\ is\ (?P<bandwidth>\d+\.\d{3})\ MBps\ \(\d+\.\d{3}\ Mbps\)
    """,
    re.VERBOSE,
)
"""Lines with figures."""
_ANCHOR = re.compile(
    r"\[Total Run\]|\[Valid Duration\]|=> avg-|# dropped|Summary: |Total \d+ observations|---> "
    r"|Total of \d+ messages"
)
"""Shows that a line has figures."""
_HEADER = re.compile(
    r"^packet, txTime\(sec\), rxTime\(sec\), (?:latency|rtt)\(usec\)[ \t]*\n",
    re.MULTILINE,
)
_MODES = {
    "pp": "ping-pong",
    "ul": "under-load",
    "tp": "throughput",
    "pb": "playback",
    "sr": "server",
}
_COMPLAINTS = re.compile(
    r"ERROR:? .*|No messages were received from the server.*|No valid observations found.*"
    r"|Test end before test start.*"
)
_PERCENTILES = (99.999, 99.99, 99.9, 99.5, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0)


def read(text: str) -> list[ParsedRun]:
    """Read one run."""
    # the packets of --full-log are not read
    result = _HEADER.split(text, 1)[0]
    return [fill_run(ParsedRun(tool=NAME), _fill, result)]


def _fill(run: ParsedRun, text: str) -> None:
    version = re.search(r"version #(\S+) ?==", text)
    run.tool_version = version[1] if version else None
    run.parameters = _parameters(text)
    command = re.search(_COMMAND, text)
    run.test = mode = _MODES.get(command[1], command[1]) if command else None
    figures, percentiles = _lines(text)
    latency = figures.keys() & {"mean", "summary", "observations"}
    throughput = figures.keys() & {"rate", "bandwidth"}
    run.test = (
        "throughput" if throughput else mode or _latency_mode(figures, run.parameters)
    )
    if not latency and not throughput:
        raise Damaged(_why_nothing(text))
    if latency and throughput:
        raise Contradictory(
            "figures of two modes in one run: a line between them is damaged"
        )
    if throughput:
        _throughput(run, figures)
    else:
        whole = run.parameters.get("full_rtt") or re.search(
            r"avg-rtt|Summary: Round trip", text
        )
        _latencies(run, figures, percentiles, "rtt" if whole else "latency_oneway")
    run.warnings += [complaint.strip() for complaint in _COMPLAINTS.findall(text)]


def _lines(text: str) -> tuple[dict[str, float], dict[float, float]]:
    """Return the figures by their names, and the percentiles."""
    figures: dict[str, float] = {}
    percentiles: dict[float, float] = {}
    for row in text.splitlines(keepends=True):
        if not _ANCHOR.search(row):
            continue
        m = _LINE.search(row)
        if m is None and not row.endswith("\n"):
            break
        if m is None:
            wide = "GBps" in row or "Gbps" in row
            remedy = (
                " (leave out --giga-size, --increase_output_precision)" if wide else ""
            )
            raise Damaged(f"not readable{remedy}: {row.strip()!r}")
        found = {
            name: float(value)
            for name, value in m.groupdict().items()
            if value is not None
        }
        if "percentile" in found:
            at, value = found["percentile"], found["latency"]
            if at not in _PERCENTILES or percentiles.setdefault(at, value) != value:
                raise Contradictory(
                    f"another percentile before: {row.strip()!r} is the second"
                )
            continue
        for name, value in found.items():
            if figures.setdefault(name, value) != value:
                raise Contradictory(
                    f"two different values: {row.strip()!r} is the second"
                )
    return figures, percentiles


def _refuse_gaps(there: Iterable[str | float], needed: Iterable[str | float]) -> None:
    known = set(there)
    if gone := [str(line) for line in needed if line not in known]:
        raise Damaged(f"the log is cut, or lines are missing: {', '.join(gone)}")


def _throughput(run: ParsedRun, figures: Mapping[str, float]) -> None:
    _refuse_gaps(figures, ("rate", "bandwidth"))
    if "sent" not in figures:
        run.warnings.append("without messages_count: its line is missing")
    run.metrics = {
        "messages_count": figures.get("sent"),
        "message_rate_per_s": figures["rate"],
        "throughput_sent_bps": figures["bandwidth"] * 2**23 or None,
        "duration_measured_s": figures.get("sent_s"),
    }


_NEEDED = ("mean", "dropped", "observations", "maximum", "minimum", "valid_seconds")
"""What a latency test prints, besides percentiles."""


def _latencies(
    run: ParsedRun,
    figures: Mapping[str, float],
    percentiles: Mapping[float, float],
    basis: str,
) -> None:
    _refuse_gaps(figures, _NEEDED)
    n = int(figures["observations"])
    least = 25.0 if n >= 4 else 50.0
    _refuse_gaps(
        percentiles, [p for p in _PERCENTILES if p >= least and p not in (95.0, 99.5)]
    )
    if wrong := _contradiction(figures, percentiles):
        raise Contradictory(wrong)
    # sockperf rounds to the nearest observation (`printPercentiles` in client.cpp)
    run.percentiles = tuple(
        Percentile(p, value, n - int(0.5 + round(p / 100, 7) * n))
        for p, value in sorted(percentiles.items())
    )
    run.percentile_basis = basis
    latencies = {
        "us": figures["mean"],
        # 0.000 with one observation, which has no deviation
        "stdev_us": figures["deviation"] or None,
        "min_us": figures["minimum"],
        "max_us": figures["maximum"],
    }
    latencies |= {
        f"p{p:g}_us".replace(".", ""): percentiles[p] for p in percentiles if p != 99.5
    }
    run.metrics = {f"{basis}_{name}": value for name, value in latencies.items()} | {
        "messages_count": n,
        "lost_count": figures["dropped"],
        "duplicated_count": figures["duplicated"],
        "out_of_order_count": figures["disorder"],
        "duration_measured_s": figures["valid_seconds"] or None,
    }


def _why_nothing(text: str) -> str:
    if complaint := _COMPLAINTS.search(text):
        return complaint[0].strip()
    if "[SERVER]" in text:
        return "the log of a server, which prints no figures; pass the client's"
    if "Usage: sockperf" in text:
        return "an option was wrong, and sockperf printed its usage"
    last = text.rstrip("\n").rpartition("\n")[2].strip()
    return f"no statistics: the log ends after {last!r}"


_STATED = {
    "server": r"IP = (\S+)\s+PORT = ",
    "protocol": r"IP = \S+\s+PORT = +\d+ # (TCP|UDP)",
    "message_bytes": r"using msg-size=(\d+)|^\tmsg_size = (\d+)|parameters: .*--msg-size=(\d+)",
    "burst": r"burst of (\d+) messages|parameters: .*--burst=(\d+)",
    "mps": r"parameters: .*--mps=(\d+)",
    "reply_every": r"parameters: .*--reply-every=(\d+)",
    "duration_s": r"parameters: .*--time=(\d+)",
}
"""Settings with how a log states them."""


def _parameters(text: str) -> dict[str, Any]:
    """Return the settings that the log states."""
    parameters: dict[str, Any] = {}
    for name, pattern in _STATED.items():
        if m := re.search(pattern, text, re.MULTILINE):
            value = m[m.lastindex or 0]
            parameters[name] = int(value) if value.isdecimal() else value.lower()
    if re.search("parameters: .*--full-rtt", text):
        parameters["full_rtt"] = True
    return parameters


def _latency_mode(
    figures: Mapping[str, float], parameters: Mapping[str, Any]
) -> str | None:
    """Tell ping-pong (each message waits for the previous answer) from under-load by the counts."""
    if parameters.get("reply_every", 1) > 1:
        return "under-load"
    if not figures.keys() >= {"messages", "dropped"}:
        return None
    waiting = figures["messages"] - figures["received"] - figures["dropped"]
    return "ping-pong" if waiting <= parameters.get("burst", 1) else "under-load"


def _contradiction(
    v: Mapping[str, float], percentiles: Mapping[float, float]
) -> str | None:
    """Say which figures contradict each other; None if none do."""
    if v.get("valid_received", n := v["observations"]) != n:
        return f"{v['valid_received']:.0f} messages received, {n:.0f} observations"
    points = [v["minimum"], *(at for _, at in sorted(percentiles.items())), v["maximum"]]
    if points != sorted(points):
        return f"percentiles that are not in order: {points}"
    mean = v["mean"]
    if not v["minimum"] <= mean <= v["maximum"] or v.get("summary", mean) != mean:
        return f"the average is {mean:g}, outside of all latencies or not that of the summary"
    return None
