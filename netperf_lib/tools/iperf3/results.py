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
from collections.abc import Iterator
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


def read_document(doc: dict[str, Any], *, after: str = "", cut: str = "") -> ParsedRun:
    """Read a document with any of ``start``, ``intervals``, ``end``, ``error``.

    `after` is the text after it, such as a message on stderr; `cut` says why it is not whole, empty if it is.
    """
    start, end = as_dict(doc.get("start")), as_dict(doc.get("end"))
    test = as_dict(start.get("test_start"))
    intervals = Intervals(doc)
    texts = (start.get("version"), test.get("protocol"), doc.get("error"))
    version, protocol, message = (value if isinstance(value, str) else "" for value in texts)
    run = Draft(
        NAME, version=version.removeprefix("iperf").strip() or None, test=protocol.lower() or None
    )
    run.parameters, run.intervals = _parameters(start, test, end), intervals.columns()
    error: str | Damaged = message.strip()
    if not error and (m := ERROR.search(after)):
        error = m[1].strip()
    if not cut and re.match(r'\s*[}\],":]', after):
        cut = "the document is damaged: figures follow its end"
    if not error and not cut:
        try:
            _metrics(run, start, test, end, intervals)
        except Damaged as e:
            error = e
            run.warnings = []
    run.warnings += intervals.warnings
    damaged = cut or isinstance(error, Contradictory)
    error = error or cut
    if not error and run.metrics:
        return run.run()
    if not error and intervals:
        error = "the test has no result: the document ends after its intervals"
    elif not error:
        error = "the test did not run: the document has no intervals and no result"
    return run.run("partial" if intervals or (damaged and end) else "failed", error)


def _parameters(start: dict[str, Any], test: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    server = as_dict(start.get("connecting_to"))
    parameters: dict[str, Any] = {
        "streams": count(test.get("num_streams")),
        "message_bytes": count(test.get("blksize")),
        "protocol": test.get("protocol"),
        "duration_s": number(test.get("duration")) or None,
        "omit_s": number(test.get("omit")),
        "tcp_buffer_bytes": count(start.get("sock_bufsize")) or None,
        "congestion_control": end.get("sender_tcp_congestion")
        or end.get("receiver_tcp_congestion"),
        "server": server.get("host"),
        "port": count(server.get("port")),
    }
    if test:
        both = test.get("bidir") or goes_both_ways(end)
        parameters["direction"] = (
            "bidir" if both else "reverse" if test.get("reverse") else "forward"
        )
    if isinstance(parameters["protocol"], str):
        parameters["protocol"] = parameters["protocol"].lower()
    if seconds := count(as_dict(start.get("timestamp")).get("timesecs")):
        parameters["started_utc"] = datetime.fromtimestamp(seconds, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
    return {k: v for k, v in parameters.items() if isinstance(v, str | int | float)}


def _metrics(
    run: Draft,
    start: dict[str, Any],
    test: dict[str, Any],
    end: dict[str, Any],
    intervals: Intervals,
) -> None:
    """Take metrics (none if `end` has no result) and warnings of a finished test; `Damaged` if metrics clash."""
    streams = [s for s in as_list(end.get("streams")) if isinstance(s, dict)]
    if not all(record(s, "sender", "receiver", "udp") for s in streams):
        raise Contradictory("a stream of the result has no figures, which contradicts it")
    if not any(key.startswith("sum") for key in end):
        return
    udp = any("udp" in s for s in streams) or test.get("protocol") == "UDP"
    both, serving = goes_both_ways(end), "accepted_connection" in start
    for suffix, word in (("", ""), ("_bidir_reverse", "_reverse")) if both else (("", ""),):
        # With --bidir the client's own streams are the first ones; `sender` marks them, as seen from this end.
        forward = (word == "") != serving
        here_sends = serving and bool(test.get("reverse")) != bool(word)
        one_way = [
            s
            for s in streams
            if not both or record(s, "sender", "udp").get("sender") in (None, forward)
        ]
        senders = [record(s, "sender", "udp") for s in one_way]
        overall, sent, received = (
            as_dict(end.get(f"{name}{suffix}")) for name in ("sum", "sum_sent", "sum_received")
        )
        if bool(sent) != bool(received):
            names = f"sum_sent{suffix} and sum_received{suffix}"
            raise Contradictory(f"one of {names} is missing, which contradicts the other")
        if udp and here_sends:
            # a server that sends is not told what was lost, and prints 0
            if packets := count(overall.get("packets")):
                run.metrics[f"packets{word}_count"] = packets
        elif udp:
            _datagrams(run, overall, received, senders, word, test)
            if not sent and not received:
                if serving and not test.get("reverse"):
                    received = overall
                    if not number(overall.get("bytes")) and intervals:
                        run.warnings.append(
                            "the total is given as 0 bytes: the throughput is left out"
                        )
                else:
                    sent = overall
                    run.warnings.append("this version prints no receiver's throughput for UDP")
        _rates(run, sent, senders, word, "sent")
        length = _rates(
            run, received, [] if udp else [record(s, "receiver") for s in one_way], word, "received"
        )
        if length is not None and not word:
            run.metrics["duration_measured_s"] = length
        if received and not number(received.get("bytes")) and not here_sends:
            raise Contradictory("the receiver's figures are missing, although data were sent")
        if not udp and not received:
            raise Contradictory("the result has no sum_received, although the test is over")
        if f"throughput{word}_sent_bps" in run.metrics:
            run.metrics[f"retransmits{word}_count"] = _retransmits(sent, senders)
        # With --bidir the local kernel knows only the data sent from this end.
        if not word and not (both and serving):
            run.metrics |= intervals.path(senders)
    if serving or "connecting_to" in start:
        sides = ("server", "client") if serving else ("client", "server")
        _cpu(run, as_dict(end.get("cpu_utilization_percent")), *sides)
    elif "cpu_utilization_percent" in end:
        run.warnings.append("the log does not say from which end it is: the CPU times are left out")
    add_cpu_costs(run.metrics)


def _retransmits(sent: dict[str, Any], senders: list[dict[str, Any]]) -> int | None:
    resent, each = count(sent.get("retransmits")), [count(r.get("retransmits")) for r in senders]
    if resent is not None and added(each) not in (None, resent):
        raise Contradictory(
            f"the retransmits contradict each other: {resent} in sum, {each} in the streams"
        )
    return resent


def _rates(
    run: Draft, total: dict[str, Any], parts: list[dict[str, Any]], word: str, what: str
) -> float | None:
    """Take a rate and its bytes if they agree; return their duration in seconds."""
    rate, size = number(total.get("bits_per_second")), number(total.get("bytes"))
    if not total or (not rate and not size):
        return None
    if rate is None or size is None:
        raise Contradictory(
            f"the figures of sum_{what} contradict each other: {size} bytes at {rate} bit/s"
        )
    lengths = (x for record in (total, *parts) for x in _lengths(record))
    fitting = next(
        (s for s in lengths if s > 0 and abs(size * 8 / s - rate) <= RATE_TOLERANCE * rate), None
    )
    if fitting is None:
        raise Contradictory(
            f"the figures of sum_{what} contradict each other: "
            f"{size} bytes in {total.get('seconds')} s are not {rate} bit/s"
        )
    each = [number(p.get("bytes")) for p in parts]
    if added(each) not in (None, size):
        raise Contradictory(
            f"the bytes of sum_{what} contradict those of its streams: {size} and {each}"
        )
    rate_name, bytes_name = ("_sent_bps", "sent") if what == "sent" else ("_bps", "transferred")
    run.metrics |= {
        f"throughput{word}{rate_name}": float(rate),
        f"{bytes_name}{word}_bytes": int(size),
    }
    return float(fitting)


def _lengths(record: dict[str, Any]) -> Iterator[float]:
    seconds, a, b = (number(record.get(k)) for k in ("seconds", "start", "end"))
    if seconds is not None:
        yield seconds
    if a is not None and b is not None:
        yield b - a


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
    lost, packets = count(views[0].get("lost_packets")), count(views[-1].get("packets"))
    arrived = count(views[0].get("packets"))
    if arrived != packets and not _counted_apart(received, lost, packets, test):
        raise Contradictory("the counts of packets contradict each other")
    for key, value in (("lost_packets", lost), ("packets", packets)):
        each = added(count(s.get(key)) for s in streams)
        if (
            key == "lost_packets" and any(count(v.get(key)) != value for v in views)
        ) or each not in (None, value):
            raise Contradictory(f"the counts of {key} contradict each other")
    if not packets:
        return
    if arrived is not None and lost is not None and arrived < packets:
        run.metrics[f"unaccounted{word}_count"] = packets - arrived
    run.metrics[f"packets{word}_count"] = packets
    if lost is not None and lost <= packets:
        percent = number(views[0].get("lost_percent"))
        if percent is not None and abs(percent - 100 * lost / packets) > 1e-3:
            raise Contradictory(
                f"the loss contradicts itself: {lost} of {packets} are not {percent} %"
            )
        run.metrics |= {f"lost{word}_count": lost, f"lost{word}_ratio": lost / packets}
    else:
        run.warnings.append(
            f"lost_packets is {views[0].get('lost_packets')} of {packets} and is left out"
        )
    _jitter(run, views, streams, word, [*_lengths(overall), *_lengths(received)])
    disorder = added(count(s.get("out_of_order")) for s in streams)
    if not word and disorder is not None:
        run.metrics["out_of_order_count"] = disorder


def _jitter(
    run: Draft,
    views: list[dict[str, Any]],
    streams: list[dict[str, Any]],
    word: str,
    lengths: list[float],
) -> None:
    jitter = number(views[0].get("jitter_ms"))
    each = [j for s in streams if (j := number(s.get("jitter_ms"))) is not None]
    if jitter is None:
        raise Contradictory("the jitter is not a number, although datagrams arrived")
    mean = sum(each) / len(each) if each else jitter
    alike = abs(mean - jitter) <= 1e-5 * jitter + 1e-9
    if not alike or number(views[-1].get("jitter_ms")) != jitter:
        run.warnings.append("the jitter of sum contradicts that of its streams and is left out")
    elif all(jitter > 1e3 * length for length in lengths):
        run.warnings.append(f"a jitter of {jitter} ms is longer than the test and is left out")
    else:
        run.metrics[f"jitter{word}_us"] = jitter * 1e3


def _counted_apart(
    received: dict[str, Any], lost: int | None, sent: int | None, test: dict[str, Any]
) -> bool:
    """Whether the receiver's count is its own, and right: it counts until another moment than the sender.

    Datagrams are under way when a test ends or its omitted start is over, and a shaper may hold many more. What
    arrived, without the lost ones, is as many whole blocks as the bytes that arrived.
    """
    arrived, size = count(received.get("packets")), number(received.get("bytes"))
    block = count(test.get("blksize"))
    if (
        arrived is None
        or lost is None
        or sent is None
        or size is None
        or not block
        or lost > min(arrived, sent)
    ):
        return False
    apart = abs((arrived - lost) * block - size)
    # what was lost before the omitted start was over is counted with the rest
    return apart == 0 or (
        bool(test.get("omit")) and size % block == 0 and apart <= 0.05 * sent * block
    )


def _cpu(run: Draft, cpu: dict[str, Any], here: str, there: str) -> None:
    for end, side in (("host", here), ("remote", there)):
        total, user, system = (number(cpu.get(f"{end}_{k}")) for k in ("total", "user", "system"))
        if total is None and cpu:
            run.warnings.append(f"the {end}'s CPU time is missing")
        if total is None or (not total and end == "remote"):
            continue
        if total < 0 or (
            user is not None
            and system is not None
            and abs(total - user - system) > 0.02 + 0.002 * total
        ):
            run.warnings.append(f"the {end}'s CPU time contradicts its parts and is left out")
            continue
        run.metrics[f"cpu_{side}_ratio"] = total / 100
