"""qperf: latency and bandwidth between two nodes (0.4.x).

A run is a block: the name of the test, then ``name = value unit`` lines. One call prints several
blocks, one for each test and each step of ``--loop``. `calc_results` in qperf.c defines the
figures: a latency is the client's time divided by the messages that both ends received, so half a
round trip; ``bw`` is the rate at the receiver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache

from ..metrics import to_bps, to_bytes, to_us
from .interface import Commands
from .options import Option, check_unloaded, checked, levels
from .parsed import ParsedRun
from .request import Request
from .shared import Contradictory, Damaged, add_cpu_costs, fill_run, line_start, or_above

NAME = "qperf"
PACKAGE = "qperf"
VERSION = ("qperf", "--version")
TESTS = ("tcp_lat", "tcp_bw", "udp_lat", "udp_bw", "sctp_lat", "sctp_bw")
LOAD_TESTS: tuple[str, ...] = ()
OPTIONS: tuple[Option, ...] = ()
MARKS = ("_lat:", "_bw:", "_mr:", "bad test; try: qperf")


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the commands of both ends of one trial.

    The test itself uses the port after the control port.

    Unified units keep every digit, and all statistics are requested, so that each figure can be
    checked against others.
    """
    checked(request, TESTS, OPTIONS)
    if request.test == "udp_lat":
        check_unloaded(request, "declare test: tcp_lat")
    seconds = str(math.ceil(request.duration_s))  # qperf cuts fractions off
    return Commands(
        client=(
            *f"qperf {server_address} -lp {port} -ip {port + 1} -t {seconds}".split(),
            *(
                "-uu",
                "-vvs",
                "-vvt",
                "-vvu",
                *levels(request, message="-m", buffer="-sb"),
            ),
            request.test,
        ),
        server=("qperf", "-lp", str(port)),
        listens=(("tcp", port),),
        timeout_s=request.duration_s + 30,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends.

    Unlimited, or 0 for a latency test, which waits for answers.
    """
    return math.inf if request.test.endswith("_bw") else 0.0


# --- where runs are ------------------------------------------------------------------------------

_KNOWN = (
    r"(?:rds|sctp|sdp|tcp|udp)_(?:bw|lat)|(?:rc|uc|ud|xrc)_(?:bi_bw|bw|lat)|rc_rdma_read_(?:bw|lat)"
    r"|(?:rc|uc)_rdma_write_(?:bw|lat|poll_lat)|rc_(?:compare_swap|fetch_add)_mr"
    r"|ver_rc_(?:compare_swap|fetch_add)|conf"
)
_HEADER = re.compile(
    r"^(?:server: .*\n)?(?:"  # the server's complaint comes before the header
    # a lost line end glues it to the command
    rf"(?:[ \t>]*|.*\bqperf\b.*?)(?P<known>{_KNOWN}):[ \t]*$"
    rf"|.*[^\w\n](?P<glued>{_KNOWN}):[ \t]*\n(?=[ \t>]*[a-z_]+[ \t]*=[ \t]+\d)"
    r"|[ \t>]*(?P<other>\w+):[ \t]*\n(?=[ \t>]*(?:latency|(?:send_)?bw|msg_rate)[ \t]+=[ \t]+\d)"
    r"|(?P<bad>\S+): bad test; try: qperf --help tests"
    r")",
    re.MULTILINE,
)


_LINE_ENDS = re.compile(r":(?=[ \t]*$| bad test)", re.MULTILINE)
_COMPLAINS = re.compile("server: ")


def find_runs(text: str) -> Iterator[int]:
    """Yield the offset of each block."""
    for m in _LINE_ENDS.finditer(text):
        start = line_start(text, m.start())
        above = or_above(text, start, _COMPLAINS)
        if _HEADER.match(text, above):
            yield above
        elif _HEADER.match(text, start):
            yield start


def read(text: str) -> list[ParsedRun]:
    """Read a block; what qperf says of its hosts (`conf`) is none."""
    header = _HEADER.match(text)
    if header is None or header["known"] == "conf":
        return []
    name = str(header[header.lastgroup or 0])
    line = 1 + text[: header.start(header.lastgroup or 0)].count("\n")
    run = ParsedRun(tool=NAME, line=line, test=name)
    if header["bad"]:
        run.error = header[0].strip()
        return [run]
    return [fill_run(run, _fill, text)]


# --- one block -----------------------------------------------------------------------------------

_LINE = re.compile(r"[ \t>]*([a-z_]+)[ \t]*=[ \t]+(\S.*?)(?: +-+> .*)?")
"""A figure; people put notes behind arrows."""
_NAME = re.compile(r"^[ \t>]*([a-z_]+[ \t]*)=", re.MULTILINE)
Figures = dict[str, float]
"""Figures by their printed names."""
_NUMBER = re.compile(
    r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?: ([^\s(]\S*(?: cpus)?))?(?: \(([\d,]+)\))?"
)
_UNITS = {
    "time": r"(ns|us|ms|sec)",
    "cost": r"(ns|us|ms|sec)/GB",
    "band": r"([KMGT]?)(?:(?P<byte>B|bytes)|b|bits)/sec",
    "rate": r"([KMGT]?)/sec",
    "share": r"() ?% cpus",
    "size": r"([KMGT]i?)B|bytes",
    "count": r"(thousand|million|billion|trillion)?",
}
"""Kind of figure to its units."""
_THOUSANDS = {"thousand": "K", "million": "M", "billion": "G", "trillion": "T"}
_KINDS = {
    "latency": "time",
    "time": "time",
    "real_time": "time",
    "msg_size": "size",
    "sock_buf_size": "size",
    "bytes": "size",
    "bw": "band",
    "msg_rate": "rate",
    "cpus_used": "share",
    "cost": "cost",
    "msgs": "count",
}
_ENDS = re.compile(r"^(?:loc_|rem_)?(?:send_|recv_)?")
_ORDER = "latency bw send_bw recv_bw msg_rate parameter send_cost recv_cost later".split()
"""qperf prints the result, then the parameters, and then the rest."""


@cache
def _factor(kind: str, text: str) -> float | None:
    """Return the factor of a unit to µs, bit/s, 1/s, µs per GB, CPUs or bytes; None if unknown."""
    unit = re.fullmatch(_UNITS[kind], text)
    if unit is None:
        return None
    name = unit[1] or ""
    if kind in ("time", "cost"):
        return to_us(1, name)
    if kind == "band":
        return to_bps(1, name, "byte" if unit["byte"] else "bit")
    if kind == "share":
        return 0.01
    return to_bytes(1, _THOUSANDS.get(name, name))


def _figure(kind: str, text: str) -> float:
    """Read a figure; `Damaged` if it is none."""
    m = _NUMBER.fullmatch(text)
    factor = _factor(kind, m[2] or "") if m else None
    if m is None or factor is None:
        raise Damaged("not a number with a known unit")
    # 8.03 GB/sec are 64 240 000 000 bit/s, not 64 239 999 999.99999
    value = float(f"{float(m[1].replace(',', '')) * factor:.15g}")
    if m[3] and float(m[3].replace(",", "")) != value:
        raise Damaged("the exact value in brackets is different")
    return value


def _fill(run: ParsedRun, text: str) -> None:
    """Read one block."""
    test = run.test or ""
    figures = _figures(text)
    if not figures:
        complaints = [row.strip() for row in text.split("\n") if _COMPLAINT.search(row)]
        nothing = f"no result: nothing follows the name of the test, {test}"
        raise Damaged([*complaints, nothing][0])
    if wrong := _lacking(test, figures.keys()):
        raise Damaged(f"the log is cut or damaged: {wrong}")
    names = _NAME.findall(text)
    longest = max(len(name.rstrip()) for name in names)
    # qperf aligns the equals signs to the longest name
    if max(map(len, names)) > longest + 2:
        run.warnings.append(
            "lines are missing: the others are not aligned to the longest"
        )
    _check(test, figures)
    _metrics(run, test, figures)
    if gone := _incomplete(test, figures.keys()):
        run.warnings.append(f"lines are missing: {gone}")


@cache
def _place(key: str) -> tuple[str | None, int]:
    """Return the kind of a figure, and where qperf prints it."""
    plain = _ENDS.sub("", key)
    place = "later"
    if key in _ORDER:
        place = key
    elif plain == key:
        place = "parameter"
    return _KINDS.get(plain), _ORDER.index(place)


def _figures(text: str) -> Figures:
    """Return the figures of a block by their names."""
    figures: Figures = {}
    last, unread = 0, ""
    for row in text.partition(":")[2].split("\n")[1:]:
        m = _LINE.fullmatch(row)
        if m is None:
            unread = unread or row.strip()
            continue
        key, printed = m.groups()
        kind, rank = _place(key)
        if kind is None:
            continue
        if figures and unread:
            raise Damaged(f"line {unread!r} is not readable")
        if key in figures or rank < last:
            raise Contradictory(
                f"lines are lost, or of another process: before {row.strip()!r}"
            )
        if kind == "count" and text.endswith(row):
            raise Damaged(f"the line of {key} may be cut")
        last = rank
        try:
            figures[key] = _figure(kind, printed.rstrip())
        except Damaged as error:
            raise Damaged(f"{error} in {row.strip()!r}") from None
    return figures


_ONE_WAY = re.compile(r"(?:tcp|udp|sctp|sdp|rds|rc|uc|ud)_(?:bw|lat)")
_COMPLAINT = re.compile(
    r"fail|unable|error|refused|timed out|not responding|cannot|bad |upgrade|interrupt|terminated",
    re.IGNORECASE,
)


def _incomplete(test: str, seen: AbstractSet[str]) -> str:
    """Say which lines are not all there; nothing if all are."""
    both = 8 if test.endswith(("_lat", "_bi_bw")) else 4
    each: dict[str | tuple[str, ...], tuple[int, ...]] = {
        ("_bytes", "_msgs"): (0, both, 8),
        "_cpus_used": (0, 2),
        "_cost": (0, 2),
        "_real_time": (0, 2),
    }
    for end, counts in each.items():
        found = sorted(key for key in seen if key.endswith(end))
        if len(found) not in counts:
            return f"only {', '.join(found)}"
    counted = any(key.endswith(("_msgs", "_used")) for key in seen)
    # the rate is printed with the figures that it is computed from
    if _ONE_WAY.fullmatch(test) and counted != ("msg_rate" in seen):
        return "msg_rate, or what it is computed from"
    return ""


def _lacking(test: str, seen: AbstractSet[str]) -> str:
    """Say which figure a test must print and lacks, or never prints and has.

    Nothing if all is well.
    """
    ways = sorted({"bw", "send_bw", "recv_bw"} & seen)
    if test.endswith("_lat") and (ways or "latency" not in seen):
        return f"a latency test prints no {ways[0]}" if ways else "no latency"
    if test.endswith("_bw") and (
        "latency" in seen or ways not in (["bw"], ["recv_bw", "send_bw"])
    ):
        return "a bandwidth test prints bw, or send_bw and recv_bw"
    return ""


def _first(figures: Figures, *keys: str) -> float | None:
    """Return the figure that a test prints under one of several names."""
    return next((figures[key] for key in keys if key in figures), None)


def _both_ends(figures: Figures, what: str) -> list[float]:
    """Return a count of one end, or of both if both send."""
    keys = (what, f"loc_{what}", f"rem_{what}")
    return [figures[key] for key in keys if key in figures]


def _metrics(run: ParsedRun, test: str, figures: Figures) -> None:
    latency, sent = figures.get("latency"), figures.get("send_bw")
    received, rate = _first(figures, "recv_bw", "bw"), figures.get("msg_rate")
    if latency == 0 or not (latency or received or sent or rate):
        raise Damaged(
            "no message arrived: qperf prints 0 when it has nothing to divide by"
        )
    real = _first(figures, "loc_real_time", "send_real_time")
    run.metrics = {
        # this one times a request until its answer, the others both directions of a ping-pong
        "rtt_us" if test == "rc_rdma_read_lat" else "latency_oneway_us": latency,
        "throughput_bps": received,
        "throughput_sent_bps": sent,
        "message_rate_per_s": rate,
        "cpu_client_ratio": _first(figures, "loc_cpus_used", "send_cpus_used"),
        "cpu_server_ratio": _first(figures, "rem_cpus_used", "recv_cpus_used"),
        "duration_measured_s": real / 1e6 if real else None,
    }
    totals = {"messages_count": "recv_msgs"}
    if received:
        totals |= {"transferred_bytes": "recv_bytes", "sent_bytes": "send_bytes"}
    for name, what in totals.items():
        counts = _both_ends(figures, what)
        # in a latency test each end counts its own
        if len(counts) > test.endswith("_lat"):
            run.metrics[name] = round(sum(counts))
    add_cpu_costs(run.metrics)
    duration, buffer = figures.get("time"), figures.get("sock_buf_size")
    protocol = test.partition("_")[0]
    run.parameters = {
        "duration_s": duration / 1e6 if duration else None,
        "message_bytes": int(figures.get("msg_size", 0)) or None,
    }
    if protocol in ("tcp", "udp", "sctp", "rds", "sdp"):
        run.parameters["protocol"] = protocol
    if buffer and protocol == "tcp":
        run.parameters["tcp_buffer_bytes"] = int(buffer)


def _check(test: str, figures: Figures) -> None:
    """Refuse figures that contradict each other."""
    ways = figures.keys() & {"send_cpus_used", "recv_cpus_used"}
    ends = figures.keys() & {"loc_cpus_used", "rem_cpus_used"}
    if ways and (ends or re.fullmatch(r"[a-z]+_lat", test)):
        raise Contradictory(f"lines are lost, or of another process: {min(ways)}")
    for what in ("bw", "bytes", "msgs"):
        arrived = figures.get(f"recv_{what}", 0.0)
        if arrived > 1.1 * figures.get(f"send_{what}", arrived):
            raise Contradictory(f"more received than sent: recv_{what} is {arrived:g}")
    latency, rate = figures.get("latency"), figures.get("msg_rate")
    if latency and rate and not 0.9 < latency * rate / 1e6 < 1.1:
        raise Contradictory(f"latency {latency:g} us and {rate:g} messages a second")
    received = _first(figures, "recv_bw", "bw")
    moved = sum(_both_ends(figures, "recv_bytes"))
    # the end that receives may have begun later, on a busy host by a tenth
    names = ("loc_real_time", "send_real_time", "recv_real_time")
    times = [figures[name] / 1e6 for name in names if figures.get(name)]
    if not (received and moved and times):
        return
    for seconds in times:
        if 0.9 < received * seconds / (8 * moved) < 1.1:
            return
    raise Contradictory(f"{moved:.0f} bytes in {times[0]:g} s are not {received:g} bit/s")
