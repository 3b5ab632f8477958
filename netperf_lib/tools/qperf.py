"""qperf: latency and bandwidth between two nodes (0.4.x).

A run is a block: the name of the test, then ``name = value unit`` lines. One call prints several blocks, one for each
test and each step of ``--loop``. `calc_results` in qperf.c defines the figures: a latency is the client's time divided
by the messages that both ends received, so half a round trip; ``bw`` is the rate at the receiver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from ..metrics import to_bps, to_bytes, to_us
from .draft import CONTRADICTION, Contradictory, Damaged, Draft, add_cpu_costs, or_above
from .interface import Commands
from .options import Option, check_unloaded, checked, levels
from .parsed import ParsedRun
from .request import Request

NAME = "qperf"
PACKAGE = "qperf"
VERSION = ("qperf", "--version")
TESTS = ("tcp_lat", "tcp_bw", "udp_lat", "udp_bw", "sctp_lat", "sctp_bw")
LOAD_TESTS: tuple[str, ...] = ()
OPTIONS: tuple[Option, ...] = ()
MARKS = ("_lat:", "_bw:", "_mr:", "bad test; try: qperf")


def commands(request: Request, server_address: str, port: int) -> Commands:
    """Return the commands of both ends of one trial; the test itself uses the port after the control port.

    Unified units keep every digit, and all statistics are requested, so that each figure can be checked against others.
    """
    checked(request, TESTS, OPTIONS)
    if request.test == "udp_lat":
        check_unloaded(request, "declare test: tcp_lat")
    seconds = str(math.ceil(request.duration_s))  # qperf cuts fractions off
    return Commands(
        client=(
            *("qperf", server_address, "-lp", str(port), "-ip", str(port + 1), "-t", seconds),
            *("-uu", "-vvs", "-vvt", "-vvu", *levels(request, message="-m", buffer="-sb")),
            request.test,
        ),
        server=("qperf", "-lp", str(port)),
        listens=(("tcp", port),),
        timeout_s=request.duration_s + 30,
    )


def rate_bps(request: Request) -> float:
    """Return the bits per second that a trial sends: unlimited, or 0 for a latency test, which waits for answers."""
    return math.inf if request.test.endswith("_bw") else 0.0


# --- where runs are ---------------------------------------------------------------------------------------------------

_KNOWN = (
    r"(?:rds|sctp|sdp|tcp|udp)_(?:bw|lat)|(?:rc|uc|ud|xrc)_(?:bi_bw|bw|lat)|rc_rdma_read_(?:bw|lat)"
    r"|(?:rc|uc)_rdma_write_(?:bw|lat|poll_lat)|rc_(?:compare_swap|fetch_add)_mr|ver_rc_(?:compare_swap|fetch_add)|conf"
)
_HEADER = re.compile(
    r"^(?:server: .*\n)?(?:"  # the server's complaint comes before the header
    rf"(?:[ \t>]*|.*\bqperf\b.*?)(?P<known>{_KNOWN}):[ \t]*$"  # a lost line end glues it to the command
    rf"|.*[^\w\n](?P<glued>{_KNOWN}):[ \t]*\n(?=[ \t>]*[a-z_]+[ \t]*=[ \t]+\d)"
    r"|[ \t>]*(?P<other>\w+):[ \t]*\n(?=[ \t>]*(?:latency|(?:send_)?bw|msg_rate)[ \t]+=[ \t]+\d)"
    r"|(?P<bad>\S+): bad test; try: qperf --help tests"
    r")",
    re.MULTILINE,
)
_LINE = re.compile(r"[ \t>]*([a-z_]+)[ \t]*=[ \t]+(\S.*)")
_VERBOSE = re.compile(r".*\bqperf\b[^\n]* -v(?:v\w*)?\s")
"""A command that requests more than the result."""
_ONLY_LINES = re.compile(r"(?:[ \t>]*(?:[a-z_]+[ \t]*=[ \t]+\S.*)?\n)*")


def sightings(text: str) -> Iterator[int]:
    """Yield the offset of the first block of each call; blocks that directly follow each other belong to one call."""
    after: int | None = None
    for m in _HEADER.finditer(text):
        if (after is None or not _ONLY_LINES.fullmatch(text, after + 1, m.start())) and m[
            "known"
        ] != "conf":
            yield or_above(text, m.start(), _VERBOSE)
        after = None if m["known"] == "conf" else m.end()


def read(text: str) -> list[ParsedRun]:
    """Read the blocks of one call."""
    headers = list(_HEADER.finditer(text))
    runs: list[ParsedRun] = []
    printed: set[str] = set()  # figures in the lines of any of the tests, damaged ones too
    if headers and _VERBOSE.search(text[: headers[0].end()]):
        printed.add("message_rate_per_s")
    for m, end in zip(headers, [*(h.start() for h in headers[1:]), len(text)], strict=True):
        group = next(g for g in ("known", "glued", "other", "bad") if m[g])
        draft = Draft(NAME, 1 + text[: m.start(group)].count("\n"), test=m[group])
        body = text[m.end() : end]
        if m["known"] == "conf":
            version = re.search(r"loc_qperf[ \t]*=[ \t]+(\d+(?:\.\d+)+)[ \t]*\n", body)
            runs = [replace(r, tool_version=version[1]) for r in runs] if version else runs
        elif m["bad"]:
            runs.append(draft.run("failed", m[0].strip()))
        else:
            orphans: list[ParsedRun] = []
            before = m[0][: m.start(group) - m.start()].splitlines()
            runs += [draft.filled(partial(_fill, before=before, orphans=orphans), body), *orphans]
    printed |= {name for name, word in _ALIKE.items() if re.search(word, text)}
    return [_compared(run, printed) for run in runs]


_FOREIGN = "lines are lost, or of another process"
_ALIKE = {
    "message_rate_per_s": r"\bmsg_rate\b",
    "cpu_client_ratio": r"\b(?:loc|send)_cpus_used\b",
    "cpu_server_ratio": r"\b(?:rem|recv)_cpus_used\b",
}


def _compared(run: ParsedRun, printed: set[str]) -> ParsedRun:
    """Warn about figures that only other tests of the same call have: a call prints the same figures for all tests."""
    gone = sorted(printed - run.metrics.keys()) if run.status == "ok" else []
    return replace(run, warnings=(*run.warnings, f"without {', '.join(gone)}")) if gone else run


# --- one block --------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?: ([^\s(]\S*(?: cpus)?))?(?: \(([\d,]+)\))?"
)
_PREFIXES = ("", "K", "M", "G", "T")
_COUNTS = ("", "thousand", "million", "billion", "trillion")
_UNITS: dict[str, dict[str, float]] = {
    "time": {u: to_us(1, u) for u in ("ns", "us", "ms", "sec")},
    "band": {f"{p}{'B' if p else 'bytes'}/sec": to_bps(1, p, "byte") for p in _PREFIXES}
    | {f"{p}{'b' if p else 'bits'}/sec": to_bps(1, p, "bit") for p in _PREFIXES},
    "rate": {f"{p}/sec": to_bytes(1, p) for p in _PREFIXES},
    "cost": {f"{u}/GB": to_us(1, u) for u in ("ns", "us", "ms", "sec")},
    "share": {"% cpus": 0.01},
    "size": {
        f"{p}{i}B" if p else "bytes": to_bytes(1, p and p + i) for p in _PREFIXES for i in ("", "i")
    },
    "count": {name: to_bytes(1, p) for name, p in zip(_COUNTS, _PREFIXES, strict=True)},
}
"""Kind of figure to its units, in µs, bit/s, 1/s, µs per GB, CPUs, bytes."""
_ANY_SIZE = {"", "ns", "ns/GB", "bytes", "bytes/sec", "bits/sec", "/sec", "% cpus", "sec", "sec/GB"}
"""The units of ``-uu``, and the largest ones of times: only with these may a number be above 1000."""
_KINDS = {
    **dict.fromkeys(("latency", "time", "real_time"), "time"),
    **dict.fromkeys(("msg_size", "sock_buf_size", "bytes"), "size"),
} | {"bw": "band", "msg_rate": "rate", "cpus_used": "share", "cost": "cost", "msgs": "count"}
_ENDS = re.compile(r"^(?:loc_|rem_)?(?:send_|recv_)?")
_ORDER = "latency bw send_bw recv_bw msg_rate parameter send_cost recv_cost later".split()
"""qperf prints the result, then the parameters, and then the rest."""


def _figure(kind: str, text: str) -> float:
    """Read ``1.23 million``, ``64 KiB (65,536)``, ``840 Mb/sec`` …; raises `Damaged` for anything else."""
    m = _NUMBER.fullmatch(text)
    if not m or (m[3] or "") not in _UNITS[kind]:
        raise Damaged("not a number with a unit" if not m else f"unknown unit {m[3] or ''!r}")
    number, unit, exact = m[1].replace(",", "") + (m[2] or ""), m[3] or "", m[4]
    factor = _UNITS[kind][unit]
    if float(number) > 1000 and unit not in _ANY_SIZE and not exact:
        raise Damaged(f"qperf would print {number} {unit} in the next larger unit")
    # 8.03 GB/sec are 64 240 000 000 bit/s, not 64 239 999 999.99999
    value = float(f"{float(number) * factor:.15g}")
    if exact and float(exact.replace(",", "")) != value:
        raise Damaged("the exact value in brackets is different")
    return value


def _fill(run: Draft, body: str, before: list[str], orphans: list[ParsedRun]) -> None:
    """Read one block; figures that follow without their own header become a failed run in `orphans`."""
    figures: dict[str, float] = {}
    words: list[str] = []  # lines without figures
    seen: set[str] = set()
    rank = 0
    columns: set[int | None] = set()  # positions of the equals sign, which qperf aligns
    widths: list[int] = []  # of the names, which are padded to the longest one
    rows = body.split("\n")
    for i, row in enumerate(rows):
        m = _LINE.fullmatch(row)
        if not m:
            words += [row.strip()] if row.strip() else []
            continue
        key, value = m[1], m[2].rstrip()
        kind = _KINDS.get(_ENDS.sub("", key))
        if words and figures and kind:
            if key not in seen:
                raise Damaged(f"line {words[-1]!r} is not readable")
            error = f"figures of a test whose name is not readable: {words[-1]!r}"
            orphans.append(Draft(NAME, run.line + i).run("failed", error))
            break
        if key in seen:
            raise Contradictory(f"two lines for {key!r}: {row.strip()!r} is the second")
        now = _ORDER.index(
            key if key in _ORDER else "parameter" if _ENDS.sub("", key) == key else "later"
        )
        if now < rank:
            raise Contradictory(f"{_FOREIGN}: {row.strip()!r} is not where qperf prints it")
        rank = now
        seen.add(key)
        if kind:
            # two or more blanks, unless somebody removed them
            columns.add(row.index("=") if "  =" in row and "\t" not in row else None)
            widths.append(row.index("=") - row.index(key) - 2)
            try:
                figures[key] = _figure(kind, value)
            except Damaged as e:
                raise Damaged(f"{e} in {row.strip()!r}") from None
            if i == len(rows) - 1 and kind == "count":
                del figures[key]
                run.warnings.append(
                    f"the log ends without the end of its line: {key} may be cut and is left out"
                )
    if not figures:
        complaints = [w for w in [*before, *words] if _COMPLAINT.search(w)]
        raise Damaged(
            complaints[0]
            if complaints
            else f"no result: nothing follows the name of the test, {run.test}"
        )
    if len(columns) > 1:
        raise Contradictory(f"{_FOREIGN}: they are not aligned")
    test = run.test or ""
    if lacking := _lacking(test, seen):
        raise Damaged(f"the log is cut or damaged: {lacking}")
    if foreign := _other_direction(test, seen):
        raise Contradictory(f"{_FOREIGN}: {foreign}")
    if wrong := _contradiction(figures):
        raise Contradictory(CONTRADICTION + wrong)
    _metrics(run, test, figures)
    if gone := _companions(test, seen):
        run.warnings.append(f"lines are missing: {', '.join(gone)}")
    elif None not in columns and widths[-1] > max(map(len, seen)):
        run.warnings.append("lines are missing: the names are aligned with a longer one")


def _other_direction(test: str, seen: set[str]) -> str | None:
    """Return a figure of a test with the other number of directions; one direction has a sender and a receiver."""
    bandwidth = test.endswith("_bw")
    others = r"(?:loc|rem)_cpus_used" if bandwidth else r"(?:send|recv)_(?:cpus_used|cost)"
    if bandwidth and not seen & {
        "send_cpus_used",
        "recv_cpus_used",
    }:  # --unify_nodes: named by their ends
        others = "(?!)"
    return (
        next((k for k in seen if re.match(others, k)), None) if _ONE_WAY.fullmatch(test) else None
    )


_PARTNERS = {
    "loc": "rem",
    "rem": "loc",
    "send": "recv",
    "recv": "send",
    "bytes": "msgs",
    "msgs": "bytes",
}


def _companions(test: str, seen: set[str]) -> list[str]:
    """Return the figures that qperf prints for both ends or directions, but that are missing for one of them."""
    others = set()
    for key in seen:
        parts = key.split("_")
        if (
            test.endswith("_bw") and len(parts) == 3 and parts[0] in ("loc", "rem")
        ):  # one end sends, one receives
            others.add("_".join(_PARTNERS.get(part, part) for part in parts[:2]) + f"_{parts[2]}")
        elif len(parts) > 1 and parts[-1] in ("used", "cost", "bytes", "msgs"):
            swaps = ((i, _PARTNERS[part]) for i, part in enumerate(parts) if part in _PARTNERS)
            others |= {"_".join([*parts[:i], other, *parts[i + 1 :]]) for i, other in swaps}
    counted = any(key.endswith(("_msgs", "_used")) for key in seen)
    if _ONE_WAY.fullmatch(test) and counted != (
        "msg_rate" in seen
    ):  # printed with the figures it is computed from
        others.add("what follows msg_rate" if not counted else "msg_rate")
    return sorted(others - seen)


_ONE_WAY = re.compile(r"(?:tcp|udp|sctp|sdp|rds|rc|uc|ud)_(?:bw|lat)")


def _lacking(test: str, seen: set[str]) -> str | None:
    """Say which figure a test of this name must print and lacks, or never prints and has; None if all is well."""
    bandwidth = test.endswith("_bw")
    ways = {"bw", "send_bw", "recv_bw"} & seen
    if test.endswith("_lat") and (ways or "latency" not in seen):
        return f"a latency test prints no {min(ways)}" if ways else "no latency"
    if bandwidth and ("latency" in seen or not ("bw" in seen or len(ways) == 2)):
        return "a bandwidth test prints no latency" if "latency" in seen else "no bw, or no recv_bw"
    return None


_COMPLAINT = re.compile(
    r"fail|unable|error|refused|timed out|not responding|cannot|bad |upgrade|interrupt|terminated",
    re.I,
)
_ROUND_TRIP = {"rc_rdma_read_lat"}
"""Tests that time a request until its answer; the others count both directions of a ping-pong."""


def _metrics(run: Draft, test: str, figures: Mapping[str, float]) -> None:
    def value(*keys: str) -> float | None:
        return next((figures[k] for k in keys if k in figures), None)

    def total(direction: str, what: str) -> int | None:
        there = [figures[k] for k in _each_end(direction, what) if k in figures]
        if test.endswith("_lat") and len(there) < 2:  # each end counts its own
            return None
        return round(sum(there)) if there else None

    latency, received, sent = value("latency"), value("recv_bw", "bw"), value("send_bw")
    if latency == 0 or (latency is None and not received and not sent and not value("msg_rate")):
        raise Damaged("no message arrived: qperf prints 0 when it has nothing to divide by")
    real, duration = value("loc_real_time", "send_real_time"), value("time")
    run.metrics = {
        "rtt_us" if test in _ROUND_TRIP else "latency_oneway_us": latency,
        "throughput_bps": received,
        "throughput_sent_bps": sent,
        "message_rate_per_s": value("msg_rate"),
        "messages_count": total("recv", "msgs"),
        "transferred_bytes": total("recv", "bytes") if received else None,
        "sent_bytes": total("send", "bytes") if received else None,
        "cpu_client_ratio": value("loc_cpus_used", "send_cpus_used"),
        "cpu_server_ratio": value("rem_cpus_used", "recv_cpus_used"),
        "duration_measured_s": real / 1e6 if real else None,
    }
    add_cpu_costs(run.metrics)
    size, buffer, protocol = value("msg_size"), value("sock_buf_size"), test.partition("_")[0]
    run.parameters = {
        "protocol": protocol if protocol in ("tcp", "udp", "sctp", "rds", "sdp") else None,
        "duration_s": duration / 1e6 if duration else None,
        "message_bytes": int(size) if size else None,
        "tcp_buffer_bytes": int(buffer) if buffer and protocol == "tcp" else None,
    }


def _each_end(direction: str, what: str) -> tuple[str, ...]:
    """Return the keys of a count: of one end, or of both if both send."""
    return f"{direction}_{what}", f"loc_{direction}_{what}", f"rem_{direction}_{what}"


def _contradiction(figures: Mapping[str, float]) -> str | None:
    """Say which figures contradict each other; None if none do."""
    for what in ("bw", "bytes", "msgs"):
        if (arrived := figures.get(f"recv_{what}", 0.0)) > 1.1 * figures.get(
            f"send_{what}", arrived
        ):
            return f"more received than sent: recv_{what} is {arrived:g}"
    received = figures.get("recv_bw", figures.get("bw"))
    latency, rate = figures.get("latency"), figures.get("msg_rate")
    if latency and rate and not 0.9 < latency * rate / 1e6 < 1.1:
        return f"latency {latency:g} us and {rate:g} messages a second"
    moved = sum(figures.get(key, 0.0) for key in _each_end("recv", "bytes"))
    seconds = figures.get("loc_real_time", figures.get("send_real_time", 0.0)) / 1e6
    if moved and received and seconds and not 0.9 < received * seconds / 8 / moved < 1.1:
        return f"{moved:.0f} bytes in {seconds:g} s are not {received:g} bit/s"
    return None
