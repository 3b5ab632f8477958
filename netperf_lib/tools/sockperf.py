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
from .shared import Contradictory, Damaged, fill_run, found, line_start, or_above

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

_COMMAND = (
    r"s(?<=\bs)ockperf (ping-pong|pp|under-load|ul|throughput|tp|playback|pb|server|sr) "
    r"(?=.*\n.*(?:version #|perf: |Usage: |: Run sockperf ))"
)
_ONCE = re.compile(
    # each alternative begins with a literal character: the engine looks for these alone
    rf"(?P<command>{_COMMAND})|(?P<version>== version #)"
    r"|(?P<log>test was performed using the following parameters: )"
    r"|perf: (?P<figure>\[T|\[V|=*> avg|# |Summary: [^B]|No m|Total o|Total (?=\d)|---> .?M[AI]).*"
    r"|(?P<head>perf\[(?:CLIENT|SERVER)\]|\[ ?\d+\] IP = )|(?P<usage>U(?<=^U)sage: sockperf )"
    r"|(?P<other>perf: )",
    re.MULTILINE,
)
"""A line that a run prints once, or any other that may be the first one."""
_RULE = re.compile(r"-{30}\n")
_HEADS = ("command", "version", "head")
_TOTALS = re.compile(r"perf: \[Total Run\].*")


def find_runs(text: str) -> Iterator[int]:
    """Yield the offset of the first line of each run.

    What a run prints once begins the next one when it is there again with other figures.
    """
    seen: dict[str, str] = {}
    for m in _ONCE.finditer(text):
        kind, line = m["figure"] or str(m.lastgroup), m[0]
        if kind == "log":
            # the file of --full-log, by itself or below the statistics of its run
            kind, total = "[T", _TOTALS.search(text, m.end())
            line = str(total and total[0])
            again = seen.get(kind) != line
        elif kind == "version":
            again = kind in seen
        else:
            again = bool(m["figure"]) and seen.get(kind, line) != line
        over = kind in _HEADS and seen.keys() - {*_HEADS, "other"}
        if not seen or again or over or kind == "command":
            seen = {}
            start = line_start(text, m.start())
            if m["log"]:
                start = or_above(text, start, _RULE)
            yield start
        seen[kind] = line


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
_PERCENTILES = (25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999)
Figures = dict[str | float, float]
"""Figures by the names in `_LINE`, latencies by their percentile."""


def read(text: str) -> list[ParsedRun]:
    """Read one run."""
    # the packets of --full-log are not read
    result = _HEADER.split(text, 1)[0]
    return [fill_run(ParsedRun(tool=NAME), _fill, result)]


def _fill(run: ParsedRun, text: str) -> None:
    run.tool_version = found(r"version #(\S+) ?==", text)
    run.parameters = _parameters(text)
    command = found(_COMMAND, text)
    run.test = mode = _MODES.get(str(command), command)
    figures = _figures(text)
    latency = figures.keys() & {"mean", "summary", "observations"}
    throughput = figures.keys() & {"rate", "bandwidth"}
    run.test = mode or _latency_mode(figures, run.parameters)
    if throughput:
        run.test = "throughput"
    if not latency and not throughput:
        raise Damaged(_why_nothing(text))
    if latency and throughput:
        raise Contradictory(
            "figures of two modes in one run: a line between them is damaged"
        )
    if throughput:
        _throughput(run, figures)
    else:
        basis = "latency_oneway"
        if re.search(r"parameters: .*--full-rtt|avg-rtt|Summary: Round trip", text):
            basis = "rtt"
        _latencies(run, figures, basis)
    run.warnings += [complaint.strip() for complaint in _COMPLAINTS.findall(text)]


def _figures(text: str) -> Figures:
    """Return the figures of all lines."""
    figures: Figures = {}
    for row in text.splitlines(keepends=True):
        if not _ANCHOR.search(row):
            continue
        m = _LINE.search(row)
        if m is None and not row.endswith("\n"):
            break
        if m is None or (m["percentile"] and float(m["percentile"]) not in _PERCENTILES):
            wide = "GBps" in row or "Gbps" in row
            remedy = ""
            if wide:
                remedy = " (leave out --giga-size, --increase_output_precision)"
            raise Damaged(f"not readable{remedy}: {row.strip()!r}")
        for name, printed in m.groupdict().items():
            if printed is None or name == "percentile":
                continue
            key = float(m["percentile"]) if name == "latency" else name
            if figures.setdefault(key, float(printed)) != float(printed):
                raise Contradictory(
                    f"two different values: {row.strip()!r} is the second"
                )
    return figures


def _refuse_gaps(figures: Figures, needed: Iterable[str | float]) -> None:
    if gone := [str(line) for line in needed if line not in figures]:
        raise Damaged(f"the log is cut, or lines are missing: {', '.join(gone)}")


def _throughput(run: ParsedRun, figures: Figures) -> None:
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
_PRINTED = (25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def _latencies(run: ParsedRun, figures: Figures, basis: str) -> None:
    _refuse_gaps(figures, _NEEDED)
    n = int(figures["observations"])
    printed = list(_PRINTED)
    if n < 4:
        printed.remove(25.0)
    _refuse_gaps(figures, printed)
    percentiles = [at for at in _PERCENTILES if at in figures]
    latencies = {
        "us": figures["mean"],
        # 0.000 with one observation, which has no deviation
        "stdev_us": figures["deviation"] or None,
        "min_us": figures["minimum"],
        "max_us": figures["maximum"],
    }
    points = [figures["minimum"]]
    for at in percentiles:
        points.append(figures[at])
        # sockperf rounds to the nearest observation (`printPercentiles` in client.cpp)
        beyond = n - int(0.5 + round(at / 100, 7) * n)
        run.percentiles += (Percentile(at, figures[at], beyond),)
        latencies[f"p{at:g}_us".replace(".", "")] = figures[at]
    latencies.pop("p995_us", None)
    _check(figures, [*points, figures["maximum"]])
    run.percentile_basis = basis
    run.metrics = {f"{basis}_{name}": value for name, value in latencies.items()}
    run.metrics |= {
        "messages_count": n,
        "lost_count": figures["dropped"],
        "duplicated_count": figures["duplicated"],
        "out_of_order_count": figures["disorder"],
        "duration_measured_s": figures["valid_seconds"] or None,
    }


def _check(figures: Figures, points: list[float]) -> None:
    """Refuse figures that contradict each other; `points` are latencies from least to most."""
    mean, n = figures["mean"], figures["observations"]
    if figures.get("valid_received", n) != n:
        raise Contradictory(
            f"{figures['valid_received']:.0f} messages received, {n:.0f} observations"
        )
    if points != sorted(points):
        raise Contradictory(f"percentiles that are not in order: {points}")
    if not points[0] <= mean <= points[-1] or figures.get("summary", mean) != mean:
        raise Contradictory(
            f"the average is {mean:g}, outside of all latencies or not that of the summary"
        )


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


def _latency_mode(figures: Figures, parameters: Mapping[str, Any]) -> str | None:
    """Tell ping-pong (each message waits for the previous answer) from under-load by the counts."""
    if parameters.get("reply_every", 1) > 1:
        return "under-load"
    if not figures.keys() >= {"messages", "dropped"}:
        return None
    waiting = figures["messages"] - figures["received"] - figures["dropped"]
    return "ping-pong" if waiting <= parameters.get("burst", 1) else "under-load"
