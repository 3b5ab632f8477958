"""iperf3's JSON of every version since 3.0: a document, a stream of events, or the rest of one.

The versions differ as follows:

- 3.0 to 3.9 print for UDP only ``end.sum``: the sender's rate with the receiver's loss and jitter.
  The receiver's rate is then not in the document, and stays null.
- 3.7 to 3.10.1 print the sums under the same name twice with ``--bidir``, which no JSON can hold:
  refused.
- A server that receives knows nothing about the sender and prints 0; so does a client that lost its
  server.
- ``error`` may be missing (3.9), or occur together with a filled ``end``.

The format gives most figures twice: a rate with its bytes and seconds, a sum with its streams. A
document whose figures contradict each other, or whose rows do not all have the same figures, is
damaged and is not used.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean
from typing import Any

import orjson

from ..parsed import Columns, ParsedRun
from ..shared import (
    Contradictory,
    Damaged,
    add_cpu_costs,
    add_path,
    added,
    fill_run,
    found,
)

NAME = "iperf3"
Object = dict[str, Any]

# --- the document --------------------------------------------------------------------------------


def whole_document(data: str | bytes) -> Object | None:
    """Return the document that a text is as a whole; None for any other text."""
    try:
        doc = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return doc if isinstance(doc, dict) else None


def first_document(text: str) -> tuple[Object | None, str]:
    """Return the document at the start of `text`, and the text after it.

    None if there is no whole one.
    """
    if (whole := whole_document(text)) is not None:
        return whole, ""
    try:
        doc, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return doc, text[end:]


_EVENTS = {*"start intervals end error server_output_text server_output_json".split()}


def from_events(text: str) -> tuple[Object, str]:
    """Return the document made from the events of ``--json-stream``, and what is wrong with it."""
    doc: Object = {"intervals": []}
    whole = True
    for line in re.findall(r'^\{\s*"event".*', text, re.MULTILINE):
        event = whole_document(line) or {}
        whole = event.keys() == {"event", "data"}
        if not whole:
            break
        if event["event"] == "interval":
            doc["intervals"].append(event["data"])
        else:
            doc[str(event["event"])] = event["data"]
    over = "error" in doc or doc.keys() >= {"start", "end"}
    if whole and over and doc.keys() <= _EVENTS:
        return doc, ""
    return doc, "the stream is cut short or damaged"


def count(value: Any) -> int | None:
    """Return a counter; None if it wrapped around (32 bits) or was never set."""
    return int(value) if value is not None and 0 <= value < 2**31 else None


def _added(rows: list[Object], key: str) -> float | None:
    """Return the sum of a counter; None if one is unknown."""
    return added(count(row.get(key)) for row in rows)


def _refuse_gaps(rows: list[Object]) -> None:
    """Refuse rows that do not have the same figures as the others of their sender.

    A line is lost.
    """
    kinds = {(row.get("sender"), frozenset(row)) for row in rows}
    senders = {sender for sender, _ in kinds}
    if len(kinds) > len(senders) or (None in senders and len(senders) > 1):
        raise Contradictory("rows of one kind have different figures: a line is missing")


# --- the result ----------------------------------------------------------------------------------

ERROR = re.compile(
    # it begins with a literal character: the engine looks for that first
    r"i(?<=\bi)perf3(?:\.exe)?: ((?:error|interrupt|the server|unable|parameter)\b.*"
    r"|unrecognized option.*|(?:command )?not found.*)"
)
_TOLERANCE = 3e-5
"""The oldest versions print only six digits of a rate."""


def read_document(doc: Object, *, after: str = "", cut: str = "") -> ParsedRun:
    """Read a document with any of ``start``, ``intervals``, ``end``, ``error``.

    `after` is the text after it, such as a message on stderr; `cut` says why it is not whole.
    """
    if not cut and re.match(r'\s*[}\],":]', after) and re.search(r'"\w+"\s*:', after):
        cut = "the document is damaged: figures follow its end"
    error = str(doc.get("error") or found(ERROR, after) or "").strip()
    run = ParsedRun(tool=NAME)
    if doc.get("end") and not error:
        run.status = "partial"
    return fill_run(run, _fill, (doc, error or cut))


def _fill(run: ParsedRun, log: tuple[Object, str]) -> None:
    doc, error = log
    try:
        _take(run, doc, error)
    except (AttributeError, KeyError, TypeError) as wrong:
        lacking = f"a figure is missing, or none that iperf3 prints: {wrong}"
        raise Damaged(error or lacking) from None


def _take(run: ParsedRun, doc: Object, error: str) -> None:
    start, end = doc.get("start") or {}, doc.get("end") or {}
    test = start.get("test_start") or {}
    serving = "accepted_connection" in start
    both = any(key.endswith(_BACK) for key in end)
    run.tool_version = (start.get("version") or "").removeprefix("iperf").strip() or None
    run.test = (test.get("protocol") or "").lower() or None
    run.parameters = _parameters(start, test, end, both=both) | {"protocol": run.test}
    rows: list[Object] = []
    sums: list[Object] = []
    for step in doc.get("intervals") or []:
        rows += step["streams"]
        sums += [step[name] for name in ("sum", "sum" + _BACK) if name in step]
    # before 3.6 a row does not say who sends: a test has one direction
    sends = serving == bool(test.get("reverse"))
    run.intervals = _columns(rows, sums, serving=serving, sends=sends)
    if run.intervals:
        run.status = "partial"
    if error:
        raise Damaged(error)
    streams = _streams(end)
    senders = [stream["sender"] for stream in streams]
    for alike in (rows, sums, senders):
        _refuse_gaps(alike)
    if not both and len({sender.get("sender") for sender in senders}) > 1:
        raise Damaged(
            "this version (3.7 to 3.10.1) prints one direction of --bidir over the other in JSON: "
            "save the text, or measure with a later one"
        )
    if not any(key.startswith("sum") for key in end):
        raise Damaged("the test did not run, or has no result")
    if not (serving or "connecting_to" in start):
        raise Damaged("the document does not say from which end it is")
    for back in ("", _BACK)[: 1 + both]:
        # the client's own streams are the first ones, as seen from this end
        own = bool(back) == serving
        ways = [one for one in streams if not both or one["sender"]["sender"] is own]
        _one_way(run, test, end, ways, back, serving=serving)
    # with --bidir the local kernel knows only the data sent from this end
    if not (both and serving):
        _path(run, rows, [one for one in senders if not both or one["sender"]])
    _cpu(run, end.get("cpu_utilization_percent") or {}, serving=serving)
    add_cpu_costs(run.metrics)
    if not any(value is not None for value in run.metrics.values()):
        raise Damaged("the result has no figures")


def _streams(end: Object) -> list[Object]:
    """Return the streams of the result, also those of UDP with their ``sender``."""
    streams: list[Object] = end.get("streams") or []
    for stream in streams:
        if not stream.setdefault("sender", stream.get("udp")):
            raise Contradictory(
                "a stream of the result has no figures, which contradicts it"
            )
    return streams


_STATED = {
    "streams": "num_streams",
    "message_bytes": "blksize",
    "duration_s": "duration",
    "omit_s": "omit",
}


def _parameters(start: Object, test: Object, end: Object, *, both: bool) -> Object:
    parameters: Object = {}
    for name, key in _STATED.items():
        parameters[name] = count(test.get(key))
    parameters["duration_s"] = parameters["duration_s"] or None
    parameters["tcp_buffer_bytes"] = count(start.get("sock_bufsize")) or None
    algorithm = end.get("sender_tcp_congestion") or end.get("receiver_tcp_congestion")
    parameters["congestion_control"] = algorithm
    parameters["server"] = (start.get("connecting_to") or {}).get("host")
    if both or test.get("bidir"):
        parameters["direction"] = "bidir"
    elif test:
        parameters["direction"] = "reverse" if test.get("reverse") else "forward"
    if seconds := count((start.get("timestamp") or {}).get("timesecs")):
        started = datetime.fromtimestamp(seconds, UTC)
        parameters["started_utc"] = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    return parameters


def _columns(
    rows: list[Object], sums: list[Object], *, serving: bool, sends: bool
) -> Columns:
    """Return the table of intervals (`ParsedRun.intervals`): streams in time order, then sums.

    `sends` says of rows that do not whether this end sends.
    """
    cells = []
    for row in (*rows, *sums):
        rate, seconds, size = row["bits_per_second"], row["seconds"], row["bytes"]
        if row["end"] < row["start"] or not _fits(size, rate, seconds, 8e-6 * size):
            raise Contradictory(
                f"the figures of an interval contradict each other: {row}"
            )
        cells.append(
            (
                "reverse" if row.get("sender", sends) is serving else "forward",
                row["start"],
                row["end"],
                row.get("omitted") is True,
                # a rate over no time is meaningless
                rate if seconds >= 1e-6 else None,
                count(row.get("retransmits")),
                count(row.get("rtt")) or None,
                count(row.get("snd_cwnd")),
            )
        )
    if not cells:
        return {}
    numbers = [count(row["socket"]) for row in rows] + [-1] * len(sums)
    columns = map(list, zip(*cells, strict=True))
    return {"stream": numbers, **dict(zip(_COLUMNS, columns, strict=True))}


_COLUMNS = (
    "direction start_s end_s omitted throughput_bps retransmits_count rtt_loaded_us cwnd_bytes"
).split()
_SUMS = ("sum", "sum_sent", "sum_received")
_BACK = "_bidir_reverse"
"""End of the names of sums of the other direction."""


def _one_way(
    run: ParsedRun,
    test: Object,
    end: Object,
    streams: list[Object],
    back: str,
    *,
    serving: bool,
) -> None:
    """Take the metrics of the streams of one direction; names of its sums end in `back`."""
    word = back.removeprefix("_bidir")
    overall, sent, received = (end.get(name + back) or {} for name in _SUMS)
    senders = [stream["sender"] for stream in streams]
    udp = run.test == "udp" or any("udp" in stream for stream in streams)
    if bool(sent) != bool(received) or not (udp or received):
        raise Contradictory(
            "sum_sent or sum_received is missing, although the test is over"
        )
    sends = serving and bool(test.get("reverse")) != bool(word)
    if udp and sends:
        # a server that sends is not told what was lost, and prints 0
        run.metrics[f"packets{word}_count"] = count(overall.get("packets")) or None
    elif udp:
        _datagrams(run, overall, received or overall, senders, word, test)
        if not sent and serving:
            received = overall
        elif not sent:
            sent = overall
            run.warnings.append("this version prints no receiver's throughput for UDP")
    receivers = []
    if not udp:
        receivers = [stream["receiver"] for stream in streams]
    _rates(run, sent, senders, f"{word}_sent_bps", f"sent{word}_bytes")
    length = _rates(run, received, receivers, f"{word}_bps", f"transferred{word}_bytes")
    if not word:
        run.metrics["duration_measured_s"] = length
    if received and not received["bytes"] and not sends:
        raise Contradictory("the receiver's figures are missing, although data were sent")
    if udp or f"sent{word}_bytes" not in run.metrics:
        return
    resent = count(sent.get("retransmits"))
    known = {"retransmits" in row for row in (sent, *senders)}
    if len(known) > 1 and run.test == "tcp":
        raise Contradictory("the retransmits of the sum or of a stream are missing")
    if resent is not None and _added(senders, "retransmits") not in (None, resent):
        raise Contradictory("the retransmits contradict those of the streams")
    run.metrics[f"retransmits{word}_count"] = resent


def _rates(
    run: ParsedRun, total: Object, parts: list[Object], rate_name: str, bytes_name: str
) -> float | None:
    """Take a rate and its bytes if they agree; return their duration in seconds."""
    if not total.get("bits_per_second") and not total.get("bytes"):
        return None
    rate, size = float(total["bits_per_second"]), int(total["bytes"])
    lengths: list[float] = []
    for row in (total, *parts):
        lengths += [row["seconds"], row["end"] - row["start"]]
    fitting = [s for s in lengths if s > 0 and _fits(size, rate, s)]
    if not fitting:
        raise Contradictory(
            f"{size} bytes in {total.get('seconds')} s are not {rate} bit/s"
        )
    if parts and sum(part["bytes"] for part in parts) != size:
        raise Contradictory(f"{bytes_name} contradicts the streams")
    run.metrics |= {f"throughput{rate_name}": rate, bytes_name: size}
    return float(fitting[0])


def _fits(size: float, rate: float, seconds: float, slack: float = 0.0) -> bool:
    """Return whether a rate is that of bytes in a time."""
    off = abs(8 * size - rate * seconds)
    return off <= _TOLERANCE * rate * seconds + slack


def _datagrams(
    run: ParsedRun,
    overall: Object,
    told: Object,
    streams: list[Object],
    word: str,
    test: Object,
) -> None:
    """Take loss and jitter, as the receiver told them."""
    lost, packets = count(overall["lost_packets"]), count(overall["packets"])
    arrived, jitter = count(told["packets"]), told["jitter_ms"]
    each = [_added(streams, "lost_packets"), _added(streams, "packets")]
    if (
        lost is None
        or packets is None
        or arrived is None
        or not lost == told["lost_packets"] <= packets
        or each not in ([lost, packets], [None, None])
        or (arrived != packets and not _counted_apart(told, test, packets))
    ):
        raise Contradictory("the counts of packets contradict each other")
    if not packets:
        return
    jitters: list[Any] = [stream.get("jitter_ms", jitter) for stream in streams]
    mean = fmean(jitters or [jitter])
    impossible = overall["jitter_ms"] != jitter or jitter > 1e3 * told["end"]
    if impossible or abs(mean - jitter) > 1e-5 * jitter + 1e-9:
        raise Contradictory(
            f"a jitter of {jitter} ms is not that of the streams, or impossible"
        )
    run.metrics |= {
        f"packets{word}_count": packets,
        f"lost{word}_count": lost,
        f"lost{word}_ratio": lost / packets,
        f"jitter{word}_us": jitter * 1e3,
    }
    if arrived < packets:
        run.metrics[f"unaccounted{word}_count"] = packets - arrived
    if word:
        return
    run.metrics["out_of_order_count"] = _added(streams, "out_of_order")
    if not all("out_of_order" in stream for stream in streams):
        why = "its line is missing"
        if str(run.tool_version).startswith("3.0"):
            why = "3.0 does not print it"
        run.warnings.append(f"without out_of_order_count: {why}")


def _counted_apart(received: Object, test: Object, sent: int) -> bool:
    """Whether the receiver's count is its own, and right: it counts until another moment.

    Datagrams are under way when a test ends or its omitted start is over, and a shaper may hold
    many more. What arrived, without the lost ones, is as many whole blocks as the bytes that
    arrived.
    """
    arrived, lost = received["packets"], received["lost_packets"]
    size, block = received["bytes"], test["blksize"]
    apart = abs((arrived - lost) * block - size)
    # what was lost before the omitted start was over is counted with the rest
    if test.get("omit") and block and size % block == 0:
        apart = max(apart - 0.05 * sent * block, 0)
    return bool(lost <= arrived and apart == 0)


def _path(run: ParsedRun, rows: list[Object], senders: list[Object]) -> None:
    """Take round trips under load and congestion windows, as the kernel of the `senders` says."""
    streams: dict[Any, list[Object]] = {}
    for row in rows:
        streams.setdefault(row["socket"], []).append(row)
    rtts: list[int] = []
    windows: list[list[Any]] = []
    for sender in senders:
        steps = streams.get(sender.get("socket"))
        if steps is None:
            return
        kept = [row for row in steps if row.get("omitted") is not True]
        for a, b in pairwise(kept):
            if abs(b["start"] - a["end"]) > 0.011:
                raise Contradictory("an interval of a stream is missing")
        if not _agrees(sender, steps, kept):
            run.warnings.append(
                "round-trip times or congestion windows contradict each other, and are left out"
            )
            return
        rtts += filter(None, _counts(kept, "rtt"))
        sizes = _counts(kept, "snd_cwnd")
        if any(sizes):
            windows.append(sizes)
    add_path(run.metrics, rtts, windows)


def _counts(rows: list[Object], key: str) -> list[int]:
    return [count(row.get(key)) or 0 for row in rows]


def _agrees(sender: Object, steps: list[Object], kept: list[Object]) -> bool:
    """Return whether iperf3's own figures of a connection are those of its intervals."""
    sizes, trips = _counts(steps, "snd_cwnd"), _counts(steps, "rtt")
    if any(sizes):
        most = sender.get("max_snd_cwnd")
        if 0 in sizes or most not in (None, max(sizes)):
            return False
    if not any(trips):
        return True
    # its own mean, minimum and maximum include the omitted seconds; the mean may not
    shown = _counts(kept, "rtt") or trips
    means = (sum(trips) // len(trips), sum(shown) // len(shown))
    ends = sender.get("min_rtt"), sender.get("max_rtt")
    return ends == (min(trips), max(trips)) and sender["mean_rtt"] in means


def _cpu(run: ParsedRun, cpu: Object, *, serving: bool) -> None:
    if not cpu:
        run.warnings.append("the CPU times are missing")
        return
    ends = ("remote", "host") if serving else ("host", "remote")
    for end, side in zip(ends, ("client", "server"), strict=True):
        total, parts = cpu[f"{end}_total"], cpu[f"{end}_user"] + cpu[f"{end}_system"]
        if total < 0 or abs(total - parts) > 0.02 + 0.002 * total:
            raise Contradictory(f"the {end}'s CPU time contradicts its parts")
        if total or end == "host":
            run.metrics[f"cpu_{side}_ratio"] = total / 100
