"""qperf: latency and bandwidth between two nodes (0.4.x).

A run is a block: the name of the test, then ``name = value unit`` lines. One call prints several blocks, one for each
test and each step of ``--loop``. What the figures mean is told by `calc_results` in qperf.c: a latency is the time of
the client over the messages that both ends received, so half a round trip; ``bw`` is what the receiver got.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import to_bps, to_bytes, to_us
from .interface import Commands
from .options import Option, checked
from .parsed import ParsedRun

if TYPE_CHECKING:
    from ..experiment.model import Trial

NAME = "qperf"
PACKAGE = "qperf"
VERSION = ("qperf", "--version")
TESTS = ("tcp_lat", "tcp_bw", "udp_lat", "udp_bw", "sctp_lat", "sctp_bw")
LOAD_TESTS: tuple[str, ...] = ()
OPTIONS: tuple[Option, ...] = ()
MARKS = ("_lat:", "_bw:", "_mr:", "bad test; try: qperf")


def commands(trial: Trial, server_address: str, port: int) -> Commands:
    """Both ends of one trial; the test itself uses the port after the one that the ends talk on.

    Unified units keep every digit, and all statistics are asked for, so that each figure can be checked against others.

    Raises
    ------
    UsageError
        qperf has no such test, or no such option.
    """
    spec = trial.test
    checked(spec, TESTS, OPTIONS)
    options: list[str] = []
    if trial.message_bytes is not None:
        options += ["-m", str(trial.message_bytes)]
    if trial.tcp_buffer_bytes not in (None, trial.pair.tcp_buffer_bytes):
        options += ["-sb", str(trial.tcp_buffer_bytes)]
    seconds = str(math.ceil(spec.duration_s))  # qperf cuts fractions off
    return Commands(
        client=(
            *("qperf", server_address, "-lp", str(port), "-ip", str(port + 1), "-t", seconds),
            *("-uu", "-vvs", "-vvt", "-vvu", *options, spec.test),
        ),
        server=("qperf", "-lp", str(port)),
        listens=(("tcp", port),),
        timeout_s=spec.duration_s + 30,
    )


def rate_bps(trial: Trial) -> float:
    """Bits per second that a trial sends: as fast as it can, or 0 for a latency test, which waits for each answer."""
    return math.inf if trial.test.test.endswith("_bw") else 0.0


# --- where runs are ---------------------------------------------------------------------------------------------------

_KNOWN = (
    r"(?:rds|sctp|sdp|tcp|udp)_(?:bw|lat)|(?:rc|uc|ud|xrc)_(?:bi_bw|bw|lat)|rc_rdma_read_(?:bw|lat)"
    r"|(?:rc|uc)_rdma_write_(?:bw|lat|poll_lat)|rc_(?:compare_swap|fetch_add)_mr|ver_rc_(?:compare_swap|fetch_add)|conf"
)
_HEADER = re.compile(
    r"^(?:server: .*\n)?(?:"  # the server's complaint comes before the header
    rf"(?:[ \t>]*|.*\bqperf\b.*?)(?P<known>{_KNOWN}):[ \t]*$"  # a lost line end glues it to the command
    r"|[ \t>]*(?P<other>\w+):[ \t]*\n(?=[ \t>]*(?:latency|(?:send_)?bw|msg_rate)[ \t]+=[ \t]+\d)"
    r"|(?P<bad>\S+): bad test; try: qperf --help tests"
    r")",
    re.MULTILINE,
)
_LINE = re.compile(r"[ \t>]*([a-z_]+)[ \t]*=[ \t]+(\S.*)")
_ONLY_LINES = re.compile(r"(?:[ \t>]*(?:[a-z_]+[ \t]*=[ \t]+\S.*)?\n)*")


def sightings(text: str) -> Iterator[int]:
    """Offsets of the first block of each call: blocks that directly follow each other are one call's."""
    after: int | None = None
    for m in _HEADER.finditer(text):
        if after is None or not _ONLY_LINES.fullmatch(text, after + 1, m.start()):
            if m["known"] == "conf":
                continue
            yield m.start()
        after = None if m["known"] == "conf" else m.end()


def read(text: str) -> list[ParsedRun]:
    """Read the blocks of one call."""
    headers = list(_HEADER.finditer(text))
    runs: list[ParsedRun] = []
    for m, following in zip(headers, [*headers[1:], None], strict=True):
        group = next(g for g in ("known", "other", "bad") if m[g])
        line = text.count("\n", 0, m.start(group)) + 1
        rest = text[m.end() : following.start() if following else len(text)]
        if m["known"] == "conf":
            version = re.search(r"loc_qperf[ \t]*=[ \t]+(\d+(?:\.\d+)+)[ \t]*\n", rest)
            runs = [replace(r, tool_version=version[1]) for r in runs] if version else runs
        elif m["bad"]:
            runs.append(ParsedRun(tool=NAME, test=m[group], status="failed", error=m[0].strip(), line=line))
        else:
            runs += _block(m[group], m[0][: m.start(group) - m.start()], rest, line)
    mixed = any(r.error and _FOREIGN in r.error for r in runs)
    return [_compared(run, runs, mixed=mixed) for run in runs]


_FOREIGN = "lines are lost, or of another process"
_ALIKE = ("message_rate_per_s", "cpu_client_ratio", "cpu_server_ratio")


def _compared(run: ParsedRun, runs: list[ParsedRun], *, mixed: bool) -> ParsedRun:
    """Name the figures that other tests of the same call have: one call asks the same of all its tests."""
    others = {k for r in runs if r.status == "ok" for k in r.metrics.keys() & _ALIKE}
    gone = sorted(others - run.metrics.keys()) if run.status == "ok" else []
    warnings = [f"without {', '.join(gone)}"] if gone else []
    if mixed and run.status == "ok":
        warnings.append("another test of this log holds lines that are not its own, which this one may lack")
    return replace(run, warnings=(*run.warnings, *warnings)) if warnings else run


# --- one block --------------------------------------------------------------------------------------------------------


class _Figure(NamedTuple):
    """A printed number in base units (bytes, bits per second, µs, …) and half of its last digit."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?: ([^\s(]\S*(?: cpus)?))?(?: \(([\d,]+)\))?")
_ANY_SIZE = {
    None,
    "ns",
    "ns/GB",
    "bytes",
    "bytes/sec",
    "bits/sec",
    "/sec",
    "% cpus",
    "sec",
    "TB",
    "TB/sec",
    "Tb/sec",
    "trillion",
}
"""The units of ``-uu``, and the largest ones: only with these a number may be above 1000."""
_COUNTS = {None: 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


_ORDER = {"latency": 0, "bw": 0, "send_bw": 0, "recv_bw": 1, "msg_rate": 2, "send_cost": 4, "recv_cost": 5}
_PARAMETER, _LATER = 3, 6
"""qperf prints the result, what was asked for, and then the rest."""


def _rank(key: str) -> int:
    return _ORDER.get(key, _LATER if re.match("loc_|rem_|send_|recv_", key) else _PARAMETER)


@lru_cache(maxsize=256)
def _kind(key: str) -> str:
    """What a name's value is; empty where it is of no use here."""
    base = re.sub(r"^(?:loc|rem|send|recv)_", "", key)
    base = re.sub(r"^(?:send|recv)_", "", base)
    return {
        "latency": "time",
        "time": "time",
        "timeout": "time",
        "real_time": "time",
        "cpu_time": "time",
        "bw": "band",
        "msg_rate": "rate",
        "cpus_used": "share",
        "cost": "cost",
        "msg_size": "size",
        "sock_buf_size": "size",
        "bytes": "size",
        "msgs": "count",
    }.get(base, "")


class _Unit(NamedTuple):
    factor: float
    exact: Decimal
    """The factor: 8.03 GB/sec is 64 240 000 000 bit/s, not 64 239 999 999.99999."""


@lru_cache(maxsize=256)
def _unit(kind: str, unit: str | None) -> _Unit:
    """Return what a unit is in base units.

    Raises
    ------
    ValueError
        Not a unit that qperf prints for this kind of figure.
    """
    match kind, unit:
        case "time", "ns" | "us" | "ms" | "sec":
            factor = to_us(1, unit)
        case "band", str() if u := re.fullmatch(r"(bytes|[KMGT]B|bits|[KMGT]b)/sec", unit):
            prefix = u[1][0] if len(u[1]) == 2 else ""
            factor = to_bps(1, prefix, "byte" if u[1][-1] == "B" or u[1] == "bytes" else "bit")
        case "rate", str() if u := re.fullmatch(r"([KMGT]?)/sec", unit):
            factor = to_bytes(1, u[1])
        case "cost", "ns/GB" | "us/GB" | "ms/GB" | "sec/GB":
            factor = to_us(1, unit.removesuffix("/GB"))
        case "share", "% cpus":
            factor = 0.01
        case "size", str() if u := re.fullmatch(r"bytes|([KMGT]i?)B", unit):
            factor = to_bytes(1, u[1] or "")
        case "count", None | "thousand" | "million" | "billion" | "trillion":
            factor = _COUNTS[unit]
        case _:
            raise ValueError(f"unknown unit {unit or ''!r}")
    return _Unit(factor, Decimal(repr(factor)))


def _figure(kind: str, text: str) -> _Figure:
    """Read ``1.23 million``, ``64 KiB (65,536)``, ``840 Mb/sec`` …

    Raises
    ------
    ValueError
        Not a number, or not a unit that qperf prints for this kind of figure.
    """
    m = _NUMBER.fullmatch(text)
    if not m:
        raise ValueError("not a number with a unit")
    whole, fraction, unit, exact = m.groups()
    number = whole.replace(",", "") + (fraction or "")
    factor, exact_factor = _unit(kind, unit)
    value = float(number)
    if value > 1000 and unit not in _ANY_SIZE and not (kind == "size" and exact):
        raise ValueError(f"qperf writes {number} {unit} in the next larger unit")
    if factor != 1:
        value = float(Decimal(number) * exact_factor)
    if exact and float(exact.replace(",", "")) != value:
        raise ValueError("the exact value in brackets is another one")
    counted = kind in ("size", "count") and factor == 1
    return _Figure(value, 0.0 if counted or exact else 0.5 * 10.0 ** -(len(fraction or ".") - 1) * factor)


def _block(test: str, before: str, body: str, line: int) -> list[ParsedRun]:
    """Read one block; figures that follow without a header of their own become a failed run."""

    def failed(error: str) -> ParsedRun:
        return ParsedRun(tool=NAME, test=test, status="failed", error=error, line=line)

    found: dict[str, _Figure] = {}
    words: list[str] = []  # lines that are no figures
    orphans: list[ParsedRun] = []
    seen: set[str] = set()
    rank = 0
    columns: set[int] = set()  # of the equals sign, which qperf aligns
    rows = body.split("\n")
    whole = body.endswith("\n")
    for i, row in enumerate(rows):
        m = _LINE.fullmatch(row)
        if not m:
            if row.strip(" \t>"):
                words.append(row.strip())
            continue
        key, value = m[1], m[2].rstrip(" \t")
        kind = _kind(key)
        if words and found and kind:
            lost = f"line {words[-1]!r} is not readable"
            if key in seen:
                error = f"figures of a test whose name is not readable: {words[-1]!r}"
                orphans.append(ParsedRun(tool=NAME, status="failed", error=error, line=line + i))
                break
            return [failed(lost)]
        if key in seen:
            return [failed(f"two lines for {key!r}: {row.strip()!r} is the second")]
        if _rank(key) < rank:
            return [failed(f"{_FOREIGN}: {row.strip()!r} is not where qperf prints it")]
        rank = _rank(key)
        seen.add(key)
        if kind:
            # two blanks and more, unless somebody squeezed them
            columns.add(row.index("=") if "  =" in row and "\t" not in row else -1)
            try:
                found[key] = _figure(kind, value)
            except ValueError as e:
                return [failed(f"{e} in {row.strip()!r}")]
            if i == len(rows) - 1 and not whole and kind == "count":
                del found[key]  # the last digits of a bare number may be cut off
    if not found:
        told = [w for w in [*before.splitlines(), *words] if _COMPLAINT.search(w)]
        return [failed(told[0] if told else f"no result: nothing follows the name of the test, {test}")]
    if len(columns) > 1:
        return [failed(f"{_FOREIGN}: they are not aligned")]
    lacking = _lacking(test, found) or _foreign(test, seen)
    if lacking:
        return [failed(f"the log is cut or damaged: {lacking}")]
    wrong = _contradiction(found)
    if wrong:
        return [failed(f"the figures contradict each other, the log is damaged: {wrong}")]
    run = _run(test, found, line)
    if gone := _companions(test, seen):
        run = replace(run, warnings=(f"lines are missing: {', '.join(gone)}",))
    return [run, *orphans]


_ENDS = {"loc": "rem", "rem": "loc", "send": "recv", "recv": "send", "bytes": "msgs", "msgs": "bytes"}


def _companions(test: str, seen: set[str]) -> list[str]:
    """What qperf prints of both ends and both ways, and is there of one of them only."""
    others = set()
    for key in seen:
        parts = key.split("_")
        if test.endswith("_bw") and len(parts) == 3 and parts[0] in ("loc", "rem"):  # one end sends, one receives
            others.add("_".join(_ENDS.get(part, part) for part in parts[:2]) + f"_{parts[2]}")
            continue
        for i, part in enumerate(parts):
            if part in _ENDS and len(parts) > 1 and parts[-1] in ("used", "cost", "bytes", "msgs"):
                others.add("_".join([*parts[:i], _ENDS[part], *parts[i + 1 :]]))
    return sorted(others - seen)


def _lacking(test: str, found: Mapping[str, _Figure]) -> str | None:
    """Tell what a test of this name always prints and is not there, or never prints and is there."""
    ways = {"bw", "send_bw", "recv_bw"} & found.keys()
    if test.endswith("_lat"):
        return f"a latency test prints no {min(ways)}" if ways else None if "latency" in found else "no latency"
    if test.endswith("_bw"):
        if "latency" in found:
            return "a bandwidth test prints no latency"
        return None if "bw" in found or len(ways) == 2 else "no recv_bw" if ways == {"send_bw"} else "no bw"
    return None


def _foreign(test: str, seen: set[str]) -> str | None:
    """Tell which figure is of a test that goes the other number of ways; one way has a sender and a receiver."""
    if not re.fullmatch(r"(?:tcp|udp|sctp|sdp|rds|rc|uc|ud)_(?:bw|lat)", test):
        return None
    others = r"(?:loc|rem)_cpus_used" if test.endswith("_bw") else r"(?:send|recv)_(?:cpus_used|cost)"
    key = next((k for k in seen if re.match(others, k)), None)
    return f"{_FOREIGN}: {key}" if key else None


_COMPLAINT = re.compile(
    r"fail|unable|error|refused|timed out|not responding|cannot|bad |upgrade|interrupt|terminated", re.I
)
_ROUND_TRIP = {"rc_rdma_read_lat"}
"""Tests that time a request until its answer; the others count both directions of a ping-pong."""


def _run(test: str, found: Mapping[str, _Figure], line: int) -> ParsedRun:
    def value(*keys: str) -> float | None:
        for k in keys:
            if k in found:
                return found[k].value
        return None

    def total(direction: str, what: str) -> int | None:
        one_way, both = f"{direction}_{what}", (f"loc_{direction}_{what}", f"rem_{direction}_{what}")
        there = [found[k].value for k in (one_way, *both) if k in found]
        if test.endswith("_lat") and len(there) < 2:  # each end counts its own
            return None
        return round(sum(there)) if there else None

    latency = value("latency")
    received, sent = value("recv_bw", "bw"), value("send_bw")
    if latency == 0 or (latency is None and not received and not sent and not value("msg_rate")):
        error = "no message arrived: qperf prints 0 where it has nothing to divide by"
        return ParsedRun(tool=NAME, test=test, status="failed", error=error, line=line)

    basis = "rtt" if test in _ROUND_TRIP else "latency_oneway"
    real = value("loc_real_time", "send_real_time")
    metrics = {
        f"{basis}_us": latency,
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
    duration, size, buffer = value("time"), value("msg_size"), value("sock_buf_size")
    protocol = test.partition("_")[0]
    parameters = {
        "protocol": protocol if protocol in ("tcp", "udp", "sctp", "rds", "sdp") else None,
        "duration_s": duration / 1e6 if duration else None,
        "message_bytes": int(size) if size else None,
        "tcp_buffer_bytes": int(buffer) if buffer and protocol == "tcp" else None,
    }
    return ParsedRun(
        tool=NAME,
        test=test,
        status="ok",
        line=line,
        metrics={k: v for k, v in metrics.items() if v is not None},
        parameters={k: v for k, v in parameters.items() if v is not None},
    )


# --- do the figures agree? --------------------------------------------------------------------------------------------

_TICK_US = 10_000.0
"""qperf reads the time in ticks of 10 ms."""
_SIDES = tuple(
    (f"{side}_bytes", f"{side}_msgs") for side in ("send", "recv", "loc_send", "loc_recv", "rem_send", "rem_recv")
)

_PROCESSORS = tuple(
    (f"{side}_cpus_used", f"{side}_real_time", f"{side}_cpu_time") for side in ("loc", "rem", "send", "recv")
)


def _contradiction(found: Mapping[str, _Figure]) -> str | None:
    """Tell which figures cannot stand together; None when all can.

    qperf divides the same few counts by the same two clocks. Every quotient that is printed beside its parts gives a
    duration, and all durations of a block must be one (within a tick or two) and whole ticks.
    """
    if len(found) < 2:
        return None

    def all_of(*keys: str) -> _Figure | None:
        parts = [found[k] for k in keys if k in found]
        return _Figure(sum(p.value for p in parts), sum(p.half for p in parts)) if parts else None

    messages = all_of("recv_msgs", "loc_recv_msgs", "rem_recv_msgs")
    received = all_of("recv_bytes", "loc_recv_bytes", "rem_recv_bytes")
    sent = all_of("send_bytes", "loc_send_bytes", "rem_send_bytes")
    rate, latency = found.get("msg_rate"), found.get("latency")
    bandwidth, sent_bandwidth = found.get("recv_bw", found.get("bw")), found.get("send_bw")

    durations: list[tuple[str, float, float]] = []

    def quotient(what: str, amount: _Figure | None, speed: _Figure | None, bits: int = 1) -> None:
        if amount and speed and amount.low > 0 and speed.low > 0:
            durations.append((what, amount.low * bits / speed.high * 1e6, amount.high * bits / speed.low * 1e6))

    both_ends, by_latency = {"loc_recv_msgs", "rem_recv_msgs"} <= found.keys(), "latency x messages"
    quotient("messages received over msg_rate", messages, rate)
    quotient("bytes received over their rate", received, bandwidth, bits=8)
    quotient("bytes sent over their rate", sent, sent_bandwidth, bits=8)
    if latency and messages:
        durations.append((by_latency, latency.low * messages.low, latency.high * messages.high))
    for what, low, high in durations:
        # rates of what both ends received are over the mean of two clocks, which may fall half-way between ticks
        tick = _TICK_US / 2 if both_ends and what != by_latency else _TICK_US
        if high - low < tick / 5 and math.floor(high / tick) * tick < low:
            return f"{what} is {low / 1e6:.4f} s, not whole ticks of the clock"
    durations += [(k, found[k].low, found[k].high) for k in found if k.endswith("real_time")]
    if durations:
        shortest, longest = min(durations, key=lambda d: d[2]), max(durations, key=lambda d: d[1])
        if longest[1] > 1.1 * shortest[2] + 1e5:
            return f"{longest[0]} gives {longest[1] / 1e6:.3g} s, {shortest[0]} gives {shortest[2] / 1e6:.3g} s"

    def apart(product: float, *figures: _Figure) -> bool:
        """Whether a product of figures is not 1, within their rounding and a few ticks of the clock."""
        return abs(product - 1) > 0.03 + sum(f.half / f.value for f in figures)

    if latency and rate and rate.value and latency.value and apart(latency.value * rate.value / 1e6, latency, rate):
        return f"latency {latency.value:g} us and {rate.value:g} messages a second"
    if sent_bandwidth and bandwidth and bandwidth.low > 1.1 * sent_bandwidth.high:
        return f"more received than sent: {bandwidth.value:g} and {sent_bandwidth.value:g} bit/s"
    for side, moved in (("send", sent_bandwidth or bandwidth), ("recv", bandwidth)):
        cost, used = found.get(f"{side}_cost"), found.get(f"{side}_cpus_used")
        if not (cost and used and moved and min(cost.value, used.value, moved.value) > 0):
            continue
        if apart(cost.value / 1e6 * moved.value / 8e9 / used.value, cost, used, moved):
            return f"{side}_cost x bw is not {side}_cpus_used"
    sizes = [("msg_size", found["msg_size"])] if "msg_size" in found else []
    for bytes_of, messages_of in _SIDES:
        amount, count = found.get(bytes_of), found.get(messages_of)
        if amount and count and count.low > 0:
            low, high = amount.low / count.high, amount.high / count.low
            sizes.append((f"{bytes_of} over {messages_of}", _Figure((low + high) / 2, (high - low) / 2)))
    if bandwidth and rate and "msg_size" in found and rate.low > 0:
        # over two clocks that differ by ticks
        low, high = bandwidth.low / 8 / rate.high / 1.2, bandwidth.high / 8 / rate.low * 1.2
        sizes.append(("bandwidth over msg_rate", _Figure((low + high) / 2, (high - low) / 2)))
    if sizes:
        smallest, largest = min(sizes, key=lambda s: s[1].high), max(sizes, key=lambda s: s[1].low)
        if largest[1].low > smallest[1].high * (1 + 1e-12):
            return f"{largest[0]} is {largest[1].value:.6g}, {smallest[0]} is {smallest[1].value:.6g}"
    for names in _PROCESSORS:
        used, real, cpu = map(found.get, names)
        if used and real and cpu and abs(used.value * real.value - cpu.value) > 0.02 * cpu.value + 2e4:
            return f"{names[2]} is not {names[0]} of {names[1]}"
    return None
