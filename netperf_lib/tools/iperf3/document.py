"""iperf3's JSON of every version since 3.0: a document, a stream of events, or the rest of one.

The versions differ as follows:

- 3.0 to 3.9 print for UDP only ``end.sum``: the sender's rate with the receiver's loss and jitter. The receiver's
  rate is then not in the document, and stays null.
- 3.7 to 3.10.1 print the sums twice with ``--bidir``: the second ones are
  here called ``…_bidir_reverse``, as later versions do.
- A server that receives knows nothing about the sender and prints 0; so does a client that lost its server.
- ``error`` may be missing (3.9), or occur together with a filled ``end``.

The format gives most figures twice: a rate with its bytes and seconds, a sum with its streams. Figures that
contradict each other are damaged and are not used.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

import orjson

from ..draft import Contradictory, Damaged, Draft, add_cpu_costs, added
from ..parsed import Columns, ParsedRun

NAME = "iperf3"

# --- the document --------------------------------------------------------------------------------

WRAPPED = 2**31
"""32-bit counters that went below zero, and -1, mean "unknown"."""


def record(stream: Any, *names: str) -> dict[str, Any]:
    """Return the first dictionary under one of these names, or an empty one."""
    inner = (as_dict(stream).get(name) for name in names)
    return next((value for value in inner if isinstance(value, dict)), {})


def as_dict(value: Any) -> dict[str, Any]:
    """Return a dictionary as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, or None."""
    kind = type(value)  # JSON has only built-in types
    return value if kind is int or (kind is float and math.isfinite(value)) else None


def count(value: Any) -> int | None:
    """Return a counter, or None if it wrapped around or was never set."""
    figure = number(value)
    whole = figure is not None and 0 <= figure < WRAPPED and figure == int(figure)
    return int(figure) if whole and figure is not None else None


def goes_both_ways(end: dict[str, Any]) -> bool:
    """Return whether the result has sums of both directions, under different names."""
    return any(key.endswith("_bidir_reverse") for key in end)


def whole_document(data: str | bytes) -> dict[str, Any] | None:
    """Return the document that a text is as a whole; None for any other text."""
    try:
        doc = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(doc, dict):
        return None
    return json.loads(data, object_pairs_hook=_keep_doubles) if _has_doubles(doc) else doc


def _has_doubles(doc: dict[str, Any]) -> bool:
    """Return whether this is a --bidir document of a version that repeats keys; a plain reader keeps only the last."""
    end = as_dict(doc.get("end"))
    streams = [record(s, "sender", "udp").get("sender") for s in as_list(end.get("streams"))]
    return not goes_both_ways(end) and {True, False} <= {s for s in streams if type(s) is bool}


def _keep_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Name the second ``sum*`` of an object as the later versions do."""
    unique: dict[str, Any] = {}
    for key, value in pairs:
        second = key in unique and key.startswith("sum")
        unique[f"{key}_bidir_reverse" if second else key] = value
    return unique


_NAN = re.compile(r"(:\s*)[-+]?(?:nan|inf)(?:inity)?(?=\s*[,}\]])", re.IGNORECASE)
"""What some versions print for a share of no datagrams, which is no JSON."""
_DECODER = json.JSONDecoder(object_pairs_hook=_keep_doubles)


def first_document(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the document at the start of `text`, and the text after it; None if there is no whole one."""
    if (whole := whole_document(text)) is not None:
        return whole, ""
    text = _NAN.sub(r"\1null", text)
    try:
        doc, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return (doc, text[end:]) if isinstance(doc, dict) else (None, text)


def from_events(text: str) -> tuple[dict[str, Any], str]:
    """Return the document made from the events of ``--json-stream``, and what is wrong with it."""
    doc: dict[str, Any] = {"intervals": []}
    wrong = ""
    for line in text.splitlines():
        if not re.match(r'\s*\{\s*"event"', line):
            continue
        event = whole_document(line) or {}
        kind, data = str(event.get("event")), event.get("data")
        if event.keys() != {"event", "data"}:
            wrong = "the stream is cut short or damaged in an event"
        elif kind == "interval":
            doc["intervals"].append(data)
        elif kind in ("start", "end", "error"):
            doc[kind] = data
        elif not kind.startswith("server_output"):
            wrong = f"the stream is damaged in an event: {line[:40]!r}"
    lacking = [kind for kind in ("start", "end") if kind not in doc]
    if lacking and not wrong and "error" not in doc:
        wrong = f"the stream has no event `{lacking[0]}`: it was cut short"
    return doc, wrong


# --- intervals -----------------------------------------------------------------------------------

RATE_TOLERANCE = 3e-5
"""The oldest versions print only six digits."""


_KEYS: dict[str, int | None] = {
    "socket": 0,
    "start": None,
    "end": None,
    "seconds": None,
    "bytes": None,
    "bits_per_second": None,
    "omitted": 0,
    "sender": 0,
    "retransmits": WRAPPED,
    "rtt": WRAPPED,
    "snd_cwnd": WRAPPED,
}
"""The keys read from a row: finite numbers (None), counters below a limit, or anything (0)."""


def _column(rows: list[dict[str, Any]], key: str, below: int | None) -> list[Any]:
    """Return a column of the table; what is no finite number or no counter below a limit is None."""
    column = [row.get(key) for row in rows]
    if below is None:
        return [number(v) for v in column]
    return [v if type(v) is int and 0 <= v < below else None for v in column] if below else column


class Intervals:
    """The rows of ``intervals``: those of the streams in time order, then those of the sums."""

    def __init__(self, doc: dict[str, Any]) -> None:
        start = as_dict(doc.get("start"))
        self.warnings: list[str] = []
        self._serving = "accepted_connection" in start
        self._reverse = bool(as_dict(start.get("test_start")).get("reverse"))
        each = [as_dict(interval) for interval in as_list(doc.get("intervals"))]
        streams = [row for one in each for row in as_list(one.get("streams"))]
        sums = [one.get(name) for one in each for name in ("sum", "sum_bidir_reverse")]
        rows = [row for row in streams if isinstance(row, dict)]
        self._of_streams, self.count = len(rows), len(each)
        rows += [row for row in sums if isinstance(row, dict)]
        self._table = {key: _column(rows, key, below) for key, below in _KEYS.items()}
        self._leave_out_contradictions()

    def __bool__(self) -> bool:
        return bool(self._table["start"])

    def _leave_out_contradictions(self) -> None:
        """Leave out rates that contradict their bytes, and those over no time."""
        table, rates = self._table, self._table["bits_per_second"]
        for i, (s, size, rate) in enumerate(
            zip(table["seconds"], table["bytes"], rates, strict=True)
        ):
            known = None not in (s, size, rate)
            if known and s >= 1e-6 and abs(size * 8 - rate * s) <= RATE_TOLERANCE * abs(rate * s):
                continue
            rates[i] = None
            if s is None or s >= 1e-6:
                self.warnings.append(
                    "intervals contradict themselves: their throughput is left out"
                )

    def columns(self) -> Columns:
        """Return the table of intervals (`ParsedRun.intervals`)."""
        if not self:
            return {}
        table, n = self._table, self._of_streams
        # before 3.6 a row does not say who sends: a test has one direction
        default = self._reverse if self._serving else not self._reverse
        sends = [default if sender is None else sender for sender in table["sender"]]
        return {
            "stream": [s if type(s) is int else 0 for s in table["socket"][:n]]
            + [-1] * (len(sends) - n),
            "direction": ["forward" if s is not self._serving else "reverse" for s in sends],
            "start_s": table["start"],
            "end_s": table["end"],
            "omitted": [omitted is True for omitted in table["omitted"]],
            "throughput_bps": table["bits_per_second"],
            "retransmits_count": table["retransmits"],
            "rtt_loaded_us": [rtt or None for rtt in table["rtt"]],
            "cwnd_bytes": table["snd_cwnd"],
        }

    def path(self, senders: list[dict[str, Any]]) -> dict[str, float]:
        """Return round trips under load and windows, as the kernel of the `senders` in ``end`` says."""
        told = [[count(s.get(f"{k}_rtt")) or 0 for k in ("mean", "min", "max")] for s in senders]
        every = self._table["socket"][: self._of_streams]
        width = len(every) // max(self.count, 1)
        sockets = [s.get("socket") for s in senders]
        if not self.count:
            return (
                _round_trips(told, [[mean] for mean, _, _ in told]) if all(map(all, told)) else {}
            )
        if every != every[:width] * self.count or not {*sockets} <= {*every}:
            self.warnings.append(
                "intervals lack streams: round-trip times and windows are left out"
            )
            return {}
        if not senders or not width:
            return {}
        columns = [
            {k: self._table[k][every.index(s) :: width][: self.count] for k in _PATH}
            for s in sockets
        ]
        largest = [count(s.get("max_snd_cwnd")) for s in senders]
        return self._rtts(told, columns) | self._windows(largest, columns)

    def _rtts(self, told: list[list[int]], columns: list[dict[str, list[Any]]]) -> dict[str, float]:
        rtts = [column["rtt"] for column in columns]
        if not any(map(any, told)) or not any(map(any, rtts)):
            return {}  # the version, the system or the protocol has none
        kept = [_counted(column, "rtt") for column in columns]
        fits = all(map(all, told)) and not any(None in column for column in rtts)
        # iperf3's own mean, minimum and maximum include the omitted seconds
        if (
            not fits
            or min(map(min, rtts)) != min(low for _, low, _ in told)
            or max(map(max, rtts)) != max(high for _, _, high in told)
            or any(
                mean not in [sum(c) // len(c) for c in (whole, part) if c]
                for (mean, _, _), whole, part in zip(told, rtts, kept, strict=True)
            )
        ):
            self.warnings.append(
                "the round-trip times of the result contradict those of the intervals and are left out"
            )
            return {}
        return _round_trips([[0, min(c), max(c)] for c in kept], kept) if all(kept) else {}

    def _windows(
        self, largest: list[int | None], columns: list[dict[str, list[Any]]]
    ) -> dict[str, float]:
        """Add up the streams' last and largest congestion windows, without the omitted seconds."""
        windows = [column["snd_cwnd"] for column in columns]
        kept = [_counted(column, "snd_cwnd") for column in columns]
        if not all(map(any, windows)) or not all(kept):
            return {}
        told = zip(largest, windows, strict=True)
        if any(None in column or most not in (None, max(column)) for most, column in told):
            self.warnings.append("the congestion windows contradict each other and are left out")
            return {}
        return {
            "cwnd_bytes": sum(column[-1] for column in kept),
            "cwnd_max_bytes": sum(map(max, kept)),
        }


_PATH = ("rtt", "snd_cwnd", "omitted")


def _counted(column: dict[str, list[Any]], key: str) -> list[Any]:
    """Return the values of the seconds that are not omitted."""
    pairs = zip(column[key], column["omitted"], strict=True)
    return [value for value, omitted in pairs if omitted is not True]


def _round_trips(extremes: list[list[int]], columns: list[list[Any]]) -> dict[str, float]:
    return {
        "rtt_loaded_us": sum(map(sum, columns)) / sum(map(len, columns)),
        "rtt_loaded_min_us": min(low for _, low, _ in extremes),
        "rtt_loaded_max_us": max(high for _, _, high in extremes),
    }


# --- the result ----------------------------------------------------------------------------------

ERROR = re.compile(
    r"^[^\n]{0,80}?\biperf3: ((?:error|interrupt)\b[^\n]*|unrecognized option[^\n]*|parameter error[^\n]*)",
    re.MULTILINE,
)


_STATED = {
    "streams": "num_streams",
    "message_bytes": "blksize",
    "duration_s": "duration",
    "omit_s": "omit",
}


def read_document(doc: dict[str, Any], *, after: str = "", cut: str = "") -> ParsedRun:
    """Read a document with any of ``start``, ``intervals``, ``end``, ``error``.

    `after` is the text after it, such as a message on stderr; `cut` says why it is not whole.
    """
    intervals = Intervals(doc)
    start = as_dict(doc.get("start"))
    protocol = _text(as_dict(start.get("test_start")).get("protocol")).lower() or None
    run = Draft(NAME, test=protocol, begun=bool(intervals), intervals=intervals.columns())
    run.version = _text(start.get("version")).removeprefix("iperf").strip() or None
    run.parameters = _parameters(start, as_dict(doc.get("end"))) | {"protocol": protocol}
    printed = ERROR.search(after)
    message = _text(doc.get("error")).strip() or (printed[1].strip() if printed else "")
    if not cut and re.match(r'\s*[}\],":]', after):
        cut = "the document is damaged: figures follow its end"

    def fill(run: Draft, doc: dict[str, Any]) -> None:
        end = as_dict(doc.get("end"))
        if message or cut:
            raise Damaged(message or cut, "partial" if cut and end else None)
        try:
            _metrics(run, start, end, intervals)
        except Damaged:
            run.warnings = []
            run.begun |= bool(end)
            raise
        finally:
            run.warnings += intervals.warnings
        if not run.metrics:
            nothing = "the test did not run: the document has no intervals and no result"
            left = "the test has no result: the document ends after its intervals"
            raise Damaged(left if intervals else nothing)

    return run.filled(fill, doc)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parameters(start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    test, server = as_dict(start.get("test_start")), as_dict(start.get("connecting_to"))
    parameters: dict[str, Any] = {name: count(test.get(key)) for name, key in _STATED.items()}
    parameters["duration_s"] = parameters["duration_s"] or None
    parameters["tcp_buffer_bytes"] = count(start.get("sock_bufsize")) or None
    algorithm = end.get("sender_tcp_congestion") or end.get("receiver_tcp_congestion")
    parameters["congestion_control"] = _text(algorithm) or None
    parameters["server"] = _text(server.get("host")) or None
    parameters["port"] = count(server.get("port"))
    if test:
        one = "reverse" if test.get("reverse") else "forward"
        parameters["direction"] = "bidir" if test.get("bidir") or goes_both_ways(end) else one
    if seconds := count(as_dict(start.get("timestamp")).get("timesecs")):
        started = datetime.fromtimestamp(seconds, UTC)
        parameters["started_utc"] = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    return parameters


def _metrics(run: Draft, start: dict[str, Any], end: dict[str, Any], intervals: Intervals) -> None:
    """Take metrics (none if `end` has no result) and warnings; `Damaged` if metrics clash."""
    streams = [s for s in as_list(end.get("streams")) if isinstance(s, dict)]
    if not all(record(s, "sender", "receiver", "udp") for s in streams):
        raise Contradictory("a stream of the result has no figures, which contradicts it")
    if not any(key.startswith("sum") for key in end):
        return
    test = as_dict(start.get("test_start"))
    udp = any("udp" in s for s in streams) or test.get("protocol") == "UDP"
    both, serving = goes_both_ways(end), "accepted_connection" in start
    for word, suffix in (("", ""), ("_reverse", "_bidir_reverse"))[: 1 + both]:
        # with --bidir the client's own streams are the first ones, as seen from this end
        own = (None, (word == "") != serving)
        parts = [s for s in streams if not both or record(s, "sender", "udp").get("sender") in own]
        senders = [record(s, "sender", "udp") for s in parts]
        overall, sent, received = (
            as_dict(end.get(f"{name}{suffix}")) for name in ("sum", "sum_sent", "sum_received")
        )
        if bool(sent) != bool(received):
            raise Contradictory(f"sum_sent{suffix} or sum_received{suffix} is missing")
        here_sends = serving and bool(test.get("reverse")) != bool(word)
        if udp and here_sends:
            # a server that sends is not told what was lost, and prints 0
            run.metrics[f"packets{word}_count"] = count(overall.get("packets")) or None
        elif udp:
            _datagrams(run, overall, received, senders, word, test)
        elif not received:
            raise Contradictory("the result has no sum_received, although the test is over")
        if udp and not here_sends and not sent:
            if serving and not test.get("reverse"):
                received = overall
                if not number(overall.get("bytes")) and intervals:
                    run.warnings.append("the total is given as 0 bytes: the throughput is left out")
            else:
                sent = overall
                run.warnings.append("this version prints no receiver's throughput for UDP")
        _rates(run, sent, senders, f"{word}_sent_bps", f"sent{word}_bytes")
        receivers = [] if udp else [record(s, "receiver") for s in parts]
        length = _rates(run, received, receivers, f"{word}_bps", f"transferred{word}_bytes")
        if not word:
            run.metrics["duration_measured_s"] = length
        if received and not number(received.get("bytes")) and not here_sends:
            raise Contradictory("the receiver's figures are missing, although data were sent")
        if f"throughput{word}_sent_bps" in run.metrics:
            resent = count(sent.get("retransmits"))
            each = added(count(s.get("retransmits")) for s in senders)
            if resent is not None and each not in (None, resent):
                raise Contradictory(f"the retransmits contradict each other: {resent} and {each}")
            run.metrics[f"retransmits{word}_count"] = resent
        # with --bidir the local kernel knows only the data sent from this end
        if not word and not (both and serving):
            run.metrics |= intervals.path(senders)
    if serving or "connecting_to" in start:
        _cpu(run, as_dict(end.get("cpu_utilization_percent")), serving=serving)
    elif "cpu_utilization_percent" in end:
        run.warnings.append("the log does not say from which end it is: the CPU times are left out")
    add_cpu_costs(run.metrics)
    run.metrics = {name: value for name, value in run.metrics.items() if value is not None}


def _rates(
    run: Draft, total: dict[str, Any], parts: list[dict[str, Any]], rate_name: str, bytes_name: str
) -> float | None:
    """Take a rate and its bytes if they agree; return their duration in seconds."""
    rate, size = number(total.get("bits_per_second")), number(total.get("bytes"))
    if not rate and not size:
        return None
    lengths = [length for one in (total, *parts) for length in _lengths(one) if length > 0]
    fitting = [
        length
        for length in lengths
        if rate is not None
        and size is not None
        and abs(size * 8 / length - rate) <= RATE_TOLERANCE * rate
    ]
    if not fitting or rate is None or size is None:
        raise Contradictory(
            f"the figures of {bytes_name} contradict each other: {size} bytes in "
            f"{total.get('seconds')} s are not {rate} bit/s"
        )
    if added(number(part.get("bytes")) for part in parts) not in (None, size):
        raise Contradictory(f"the figures of {bytes_name} contradict those of its streams")
    run.metrics |= {f"throughput{rate_name}": float(rate), bytes_name: int(size)}
    return float(fitting[0])


def _lengths(total: dict[str, Any]) -> list[float]:
    seconds, a, b = (number(total.get(key)) for key in ("seconds", "start", "end"))
    return [x for x in (seconds, None if a is None or b is None else b - a) if x is not None]


def _datagrams(
    run: Draft,
    overall: dict[str, Any],
    received: dict[str, Any],
    streams: list[dict[str, Any]],
    word: str,
    test: dict[str, Any],
) -> None:
    views = [v for v in (received, overall) if "lost_packets" in v and "packets" in v]
    if not views:
        return
    told = views[0]
    lost, arrived, packets = (
        count(view.get(key))
        for view, key in ((told, "lost_packets"), (told, "packets"), (views[-1], "packets"))
    )
    each = [added(count(s.get(key)) for s in streams) for key in ("lost_packets", "packets")]
    if (
        (arrived != packets and not _counted_apart(received, lost, packets, test))
        or count(views[-1].get("lost_packets")) != lost
        or each[0] not in (None, lost)
        or each[1] not in (None, packets)
    ):
        raise Contradictory("the counts of packets contradict each other")
    if not packets:
        return
    metrics = run.metrics
    metrics[f"packets{word}_count"] = packets
    if arrived is not None and lost is not None and arrived < packets:
        metrics[f"unaccounted{word}_count"] = packets - arrived
    if lost is not None and lost <= packets:
        percent = number(told.get("lost_percent"))
        if percent is not None and abs(percent - 100 * lost / packets) > 1e-3:
            raise Contradictory(
                f"the loss contradicts itself: {lost} of {packets} are not {percent} %"
            )
        metrics |= {f"lost{word}_count": lost, f"lost{word}_ratio": lost / packets}
    else:
        run.warnings.append(f"lost_packets is {told['lost_packets']} of {packets} and is left out")
    if not word:
        metrics["out_of_order_count"] = added(count(s.get("out_of_order")) for s in streams)
    jitter, other = (number(view.get("jitter_ms")) for view in (told, views[-1]))
    if jitter is None:
        raise Contradictory("the jitter is not a number, although datagrams arrived")
    jitters = [x for s in streams if (x := number(s.get("jitter_ms"))) is not None] or [jitter]
    mean, length = sum(jitters) / len(jitters), max(_lengths(overall) + _lengths(received))
    if abs(mean - jitter) > 1e-5 * jitter + 1e-9 or other != jitter:
        run.warnings.append("the jitter of sum contradicts that of its streams and is left out")
    elif jitter > 1e3 * length:
        run.warnings.append(f"a jitter of {jitter} ms is longer than the test and is left out")
    else:
        metrics[f"jitter{word}_us"] = jitter * 1e3


def _counted_apart(
    received: dict[str, Any], lost: int | None, sent: int | None, test: dict[str, Any]
) -> bool:
    """Whether the receiver's count is its own, and right: it counts until another moment.

    Datagrams are under way when a test ends or its omitted start is over, and a shaper may hold many
    more. What arrived, without the lost ones, is as many whole blocks as the bytes that arrived.
    """
    arrived, size = count(received.get("packets")), number(received.get("bytes"))
    block = count(test.get("blksize"))
    if None in (arrived, lost, sent, size, block):
        return False
    arrived, lost, sent, size, block = (int(x or 0) for x in (arrived, lost, sent, size, block))
    apart = abs((arrived - lost) * block - size)
    # what was lost before the omitted start was over is counted with the rest
    near = test.get("omit") and block and size % block == 0 and apart <= 0.05 * sent * block
    return lost <= min(arrived, sent) and (apart == 0 or bool(near))


def _cpu(run: Draft, cpu: dict[str, Any], *, serving: bool) -> None:
    for end, side in zip(
        ("remote", "host")[:: 1 if serving else -1], ("client", "server"), strict=True
    ):
        total, user, system = (number(cpu.get(f"{end}_{k}")) for k in ("total", "user", "system"))
        if total is None:
            run.warnings += [f"the {end}'s CPU time is missing"] * bool(cpu)
            continue
        parts = total if user is None or system is None else user + system
        if total < 0 or abs(total - parts) > 0.02 + 0.002 * total:
            run.warnings.append(f"the {end}'s CPU time contradicts its parts and is left out")
        elif total or end == "host":
            run.metrics[f"cpu_{side}_ratio"] = total / 100
