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
from typing import Any

import orjson

from ..parsed import Columns, ParsedRun
from ..shared import Contradictory, Damaged, add_cpu_costs, add_path, added, fill_run

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


_EVENTS = {
    "start",
    "intervals",
    "end",
    "error",
    "server_output_text",
    "server_output_json",
}


def from_events(text: str) -> tuple[Object, str]:
    """Return the document made from the events of ``--json-stream``, and what is wrong with it."""
    doc: Object = {"intervals": []}
    for line in re.findall(r'^\{\s*"event".*', text, re.MULTILINE):
        event = whole_document(line) or {}
        if event.keys() != {"event", "data"}:
            return doc, "the stream is cut short or damaged"
        if event["event"] == "interval":
            doc["intervals"].append(event["data"])
        else:
            doc[str(event["event"])] = event["data"]
    over = "error" in doc or doc.keys() >= {"start", "end"}
    return (
        doc,
        "" if over and doc.keys() <= _EVENTS else "the stream is cut short or damaged",
    )


def count(value: Any) -> int | None:
    """Return a counter; None if it wrapped around (32 bits) or was never set."""
    return int(value) if value is not None and 0 <= value < 2**31 else None


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
    printed = ERROR.search(after)

    def fill(run: ParsedRun, doc: Object) -> None:
        error = str(doc.get("error") or (printed[1] if printed else "")).strip()
        try:
            _fill(run, doc, error or cut)
        except (AttributeError, KeyError, TypeError) as wrong:
            lacking = f"a figure is missing, or none that iperf3 prints: {wrong}"
            raise Damaged(error or cut or lacking) from None
        finally:
            if doc.get("end") and not error:
                run.status = "partial"

    return fill_run(ParsedRun(tool=NAME), fill, doc)


def _fill(run: ParsedRun, doc: Object, error: str) -> None:
    start, end = doc.get("start") or {}, doc.get("end") or {}
    test, steps = start.get("test_start") or {}, doc.get("intervals") or []
    serving = "accepted_connection" in start
    both = any(key.endswith("_bidir_reverse") for key in end)
    run.tool_version = (start.get("version") or "").removeprefix("iperf").strip() or None
    run.test = (test.get("protocol") or "").lower() or None
    run.parameters = _parameters(start, test, end, both=both) | {"protocol": run.test}
    intervals = [one["streams"] for one in steps]
    sums = [
        one[name] for one in steps for name in ("sum", "sum_bidir_reverse") if name in one
    ]
    rows = [row for one in intervals for row in one]
    run.intervals = _columns(
        rows, sums, serving=serving, reverse=bool(test.get("reverse"))
    )
    run.status = "partial" if rows or sums else "failed"
    if error:
        raise Damaged(error)
    streams = end.get("streams") or []
    for stream in streams:
        stream["sender"] = stream.get("sender") or stream.get("udp")
        if not stream["sender"]:
            raise Contradictory(
                "a stream of the result has no figures, which contradicts it"
            )
    senders = [stream["sender"] for stream in streams]
    for alike in (rows, sums, senders):
        _refuse_gaps(alike)
    if not both and len({one.get("sender") for one in senders}) > 1:
        raise Damaged(
            "this version (3.7 to 3.10.1) prints one direction of --bidir over the other in JSON: "
            "save the text, or measure with a later one"
        )
    if not any(key.startswith("sum") for key in end):
        raise Damaged("the test did not run, or has no result")
    if not (serving or "connecting_to" in start):
        raise Damaged("the document does not say from which end it is")
    for word, suffix in (("", ""), ("_reverse", "_bidir_reverse"))[: 1 + both]:
        # with --bidir the client's own streams are the first ones, as seen from this end
        own = (None, (word == "") != serving)
        each = [
            stream
            for stream in streams
            if not both or stream["sender"].get("sender") in own
        ]
        totals = [
            end.get(f"{name}{suffix}") or {}
            for name in ("sum", "sum_sent", "sum_received")
        ]
        _one_way(run, test, totals, each, word, serving=serving)
        # with --bidir the local kernel knows only the data sent from this end
        if not word and not (both and serving):
            _path(run, intervals, [stream["sender"] for stream in each])
    _cpu(run, end.get("cpu_utilization_percent") or {}, serving=serving)
    add_cpu_costs(run.metrics)
    if not any(value is not None for value in run.metrics.values()):
        raise Damaged("the result has no figures")


_STATED = {
    "streams": "num_streams",
    "message_bytes": "blksize",
    "duration_s": "duration",
    "omit_s": "omit",
}


def _parameters(start: Object, test: Object, end: Object, *, both: bool) -> Object:
    parameters: Object = {name: count(test.get(key)) for name, key in _STATED.items()}
    parameters["duration_s"] = parameters["duration_s"] or None
    parameters["tcp_buffer_bytes"] = count(start.get("sock_bufsize")) or None
    algorithm = end.get("sender_tcp_congestion") or end.get("receiver_tcp_congestion")
    parameters["congestion_control"] = algorithm
    parameters["server"] = (start.get("connecting_to") or {}).get("host")
    if test:
        one = "reverse" if test.get("reverse") else "forward"
        parameters["direction"] = "bidir" if test.get("bidir") or both else one
    if seconds := count((start.get("timestamp") or {}).get("timesecs")):
        started = datetime.fromtimestamp(seconds, UTC)
        parameters["started_utc"] = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    return parameters


_COUNTED = {
    "retransmits_count": "retransmits",
    "rtt_loaded_us": "rtt",
    "cwnd_bytes": "snd_cwnd",
}


def _columns(
    rows: list[Object], sums: list[Object], *, serving: bool, reverse: bool
) -> Columns:
    """Return the table of intervals (`ParsedRun.intervals`): streams in time order, then sums."""
    every = [*rows, *sums]
    for row in every:
        rate = row["bits_per_second"] * row["seconds"]
        off = abs(8 * row["bytes"] - rate)
        if row["end"] < row["start"] or off > _TOLERANCE * rate + 8e-6 * row["bytes"]:
            raise Contradictory(
                f"the figures of an interval contradict each other: {row}"
            )
    # before 3.6 a row does not say who sends: a test has one direction
    default = reverse if serving else not reverse
    forward = [row.get("sender", default) is not serving for row in every]
    table: dict[str, list[Any]] = {
        "stream": [count(row["socket"]) for row in rows] + [-1] * len(sums),
        "direction": ["forward" if way else "reverse" for way in forward],
        "start_s": [row["start"] for row in every],
        "end_s": [row["end"] for row in every],
        "omitted": [row.get("omitted") is True for row in every],
        # a rate over no time is meaningless
        "throughput_bps": [
            r["bits_per_second"] if r["seconds"] >= 1e-6 else None for r in every
        ],
    }
    for name, key in _COUNTED.items():
        table[name] = [count(row.get(key)) for row in every]
    table["rtt_loaded_us"] = [rtt or None for rtt in table["rtt_loaded_us"]]
    return table if every else {}


def _one_way(
    run: ParsedRun,
    test: Object,
    totals: list[Object],
    streams: list[Object],
    word: str,
    *,
    serving: bool,
) -> None:
    """Take the metrics of one direction."""
    overall, sent, received = totals
    senders = [stream["sender"] for stream in streams]
    udp = test.get("protocol") == "UDP" or any("udp" in stream for stream in streams)
    if bool(sent) != bool(received) or not (udp or received):
        raise Contradictory(
            "sum_sent or sum_received is missing, although the test is over"
        )
    sends = serving and bool(test.get("reverse")) != bool(word)
    if udp and sends:
        # a server that sends is not told what was lost, and prints 0
        run.metrics[f"packets{word}_count"] = count(overall.get("packets")) or None
    elif udp:
        _datagrams(run, overall, received, senders, word, test)
        if not sent and serving and not test.get("reverse"):
            received = overall
        elif not sent:
            sent = overall
            run.warnings.append("this version prints no receiver's throughput for UDP")
    _rates(run, sent, senders, f"{word}_sent_bps", f"sent{word}_bytes")
    receivers = [] if udp else [stream["receiver"] for stream in streams]
    length = _rates(run, received, receivers, f"{word}_bps", f"transferred{word}_bytes")
    if not word:
        run.metrics["duration_measured_s"] = length
    if received and not received["bytes"] and not sends:
        raise Contradictory("the receiver's figures are missing, although data were sent")
    if f"throughput{word}_sent_bps" in run.metrics:
        if (
            run.test == "tcp"
            and len({"retransmits" in one for one in (sent, *senders)}) > 1
        ):
            raise Contradictory("the retransmits of the sum or of a stream are missing")
        resent = count(sent.get("retransmits"))
        each = added(count(one.get("retransmits")) for one in senders)
        if resent is not None and each not in (None, resent):
            raise Contradictory(
                f"the retransmits contradict each other: {resent} and {each}"
            )
        run.metrics[f"retransmits{word}_count"] = resent


def _rates(
    run: ParsedRun, total: Object, parts: list[Object], rate_name: str, bytes_name: str
) -> float | None:
    """Take a rate and its bytes if they agree; return their duration in seconds."""
    rate, size = total.get("bits_per_second"), total.get("bytes")
    if not rate and not size:
        return None
    rate, size = float(total["bits_per_second"]), int(total["bytes"])
    fits = [
        length
        for length in _lengths(total, *parts)
        if abs(size * 8 - rate * length) <= _TOLERANCE * rate * length
    ]
    if not fits or (parts and sum(part["bytes"] for part in parts) != size):
        raise Contradictory(
            f"the figures of {bytes_name} contradict each other: {size} bytes in "
            f"{total.get('seconds')} s are not {rate} bit/s, or not those of its streams"
        )
    run.metrics |= {f"throughput{rate_name}": rate, bytes_name: size}
    return float(fits[0])


def _lengths(*rows: Object) -> list[float]:
    pairs = [(row["seconds"], row["end"] - row["start"]) for row in rows]
    return [length for pair in pairs for length in pair if length > 0]


def _datagrams(
    run: ParsedRun,
    overall: Object,
    received: Object,
    streams: list[Object],
    word: str,
    test: Object,
) -> None:
    told = received if "lost_packets" in received else overall
    lost, arrived, packets = map(
        count, (told["lost_packets"], told["packets"], overall["packets"])
    )
    each = [
        added(count(s.get(key)) for s in streams) for key in ("lost_packets", "packets")
    ]
    # the receiver counts until another moment: what arrived is as many blocks as its bytes
    apart = arrived != packets and not _counted_apart(received, test, packets or 0)
    if (
        apart
        or lost is None
        or packets is None
        or count(overall["lost_packets"]) != lost
        or lost > packets
        or each not in ([lost, packets], [None, None])
    ):
        raise Contradictory("the counts of packets contradict each other")
    if not packets:
        return
    percent = told.get("lost_percent")
    if percent is not None and abs(percent - 100 * lost / packets) > 1e-3:
        raise Contradictory(
            f"the loss contradicts itself: {lost} of {packets} are not {percent} %"
        )
    jitter = told["jitter_ms"]
    jitters: list[Any] = [stream.get("jitter_ms", jitter) for stream in streams] or [
        jitter
    ]
    if (
        abs(sum(jitters) / len(jitters) - jitter) > 1e-5 * jitter + 1e-9
        or overall["jitter_ms"] != jitter
        or jitter > 1e3 * max(_lengths(told, overall))
    ):
        raise Contradictory(
            f"a jitter of {jitter} ms is not that of the streams, or impossible"
        )
    run.metrics |= {
        f"packets{word}_count": packets,
        f"lost{word}_count": lost,
        f"lost{word}_ratio": lost / packets,
        f"jitter{word}_us": jitter * 1e3,
    }
    if arrived is not None and arrived < packets:
        run.metrics[f"unaccounted{word}_count"] = packets - arrived
    if not word:
        lacking = [stream for stream in streams if "out_of_order" not in stream]
        old = (run.tool_version or "").startswith("3.0")
        if old and lacking:
            run.warnings.append("without out_of_order_count: 3.0 does not print it")
        else:
            run.metrics["out_of_order_count"] = added(
                count(stream["out_of_order"]) for stream in streams
            )


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
    near = (
        test.get("omit") and block and size % block == 0 and apart <= 0.05 * sent * block
    )
    return 0 <= lost <= min(arrived, sent) and (apart == 0 or bool(near))


def _path(run: ParsedRun, intervals: list[list[Object]], senders: list[Object]) -> None:
    """Take round trips under load and congestion windows, as the kernel of the `senders` says."""
    rtts: list[int] = []
    windows: list[list[Any]] = []
    for sender in senders:
        rows = [
            row for one in intervals for row in one if row["socket"] == sender["socket"]
        ]
        if not rows:
            return
        kept = [row for row in rows if row.get("omitted") is not True]
        gaps = [abs(b["start"] - a["end"]) > 0.011 for a, b in pairwise(kept)]
        if len(rows) != len(intervals) or any(gaps):
            raise Contradictory("an interval of a stream is missing")
        # iperf3's own mean, minimum and maximum include the omitted seconds
        trips, own = (
            [count(row.get("rtt")) or 0 for row in part] for part in (rows, kept)
        )
        sizes = [count(row.get("snd_cwnd")) or 0 for row in rows]
        told = [sender.get(key) for key in ("min_rtt", "max_rtt", "max_snd_cwnd")]
        means = [sum(part) // len(part) for part in (trips, own) if part]
        wrong = any(trips) and (
            told[:2] != [min(trips), max(trips)] or sender["mean_rtt"] not in means
        )
        if wrong or (
            any(sizes) and (not all(sizes) or told[2] not in (None, max(sizes)))
        ):
            run.warnings.append(
                "round-trip times or congestion windows contradict each other, and are left out"
            )
            return
        rtts += own if any(trips) else []
        if any(sizes):
            windows.append([count(row.get("snd_cwnd")) for row in kept])
    add_path(run.metrics, rtts, windows)


def _cpu(run: ParsedRun, cpu: Object, *, serving: bool) -> None:
    if not cpu:
        run.warnings.append("the CPU times are missing")
        return
    ends = ("remote", "host") if serving else ("host", "remote")
    for end, side in zip(ends, ("client", "server"), strict=True):
        total, user, system = (cpu[f"{end}_{key}"] for key in ("total", "user", "system"))
        if total < 0 or abs(total - user - system) > 0.02 + 0.002 * total:
            raise Contradictory(f"the {end}'s CPU time contradicts its parts")
        if total or end == "host":
            run.metrics[f"cpu_{side}_ratio"] = total / 100
