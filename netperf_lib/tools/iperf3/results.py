"""iperf3's JSON of every version since 3.0: a document, a stream of events, or the rest of one.

The versions differ as follows:

- 3.0 to 3.9 print for UDP only ``end.sum``: the sender's rate with the receiver's loss and jitter. The receiver's
  rate is then not in the document, and stays null.
- 3.7 to 3.10.1 print the sums twice with ``--bidir``: see `document`.
- A server that receives knows nothing about the sender and prints 0; so does a client that lost its server.
- ``error`` may be missing (3.9), or occur together with a filled ``end``.

The format gives most figures twice: a rate with its bytes and seconds, a sum with its streams. Figures that
contradict each other are damaged and are not used.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from ..draft import Contradictory, Damaged, Draft, add_cpu_costs, added
from ..parsed import ParsedRun
from .document import as_dict, as_list, count, goes_both_ways, number, record
from .intervals import RATE_TOLERANCE, Intervals

NAME = "iperf3"

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
