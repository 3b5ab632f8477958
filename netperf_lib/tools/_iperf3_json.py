"""iperf3's JSON, of every version since 3.0: a document, a stream of events, or what is left of one.

What sets the versions apart, and how it is met:

- 3.0 to 3.9 print for UDP only ``end.sum``: the sender's rate beside the receiver's loss and jitter. The receiver's
  rate is then not in the document, and stays null.
- 3.7 to 3.10.1 print ``sum``, ``sum_sent`` and ``sum_received`` twice with ``--bidir``; later versions call the
  second ones ``…_bidir_reverse``.
- A server that receives knows nothing of the sender and prints 0; so does a client whose server went away.
- ``error`` may be missing (3.9), or stand beside a filled ``end``.

The format says most things twice: a rate beside its bytes and seconds, a sum beside its streams. Figures that
contradict each other are damaged, and are not passed on.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import orjson

from ..model import Columns, ParsedRun, Status

NAME = "iperf3"

_RATE_TOLERANCE = 3e-5
"""The oldest versions print six digits."""
_WRAPPED = 2**31
"""Counters of 32 bits that went below zero, and -1, stand for "not known"."""

_RECORD = frozenset(
    "socket start end seconds bytes bits_per_second retransmits snd_cwnd snd_wnd rtt rttvar pmtu omitted sender "
    "reorder jitter_ms lost_packets packets lost_percent out_of_order "
    "max_snd_cwnd max_snd_wnd max_rtt min_rtt mean_rtt".split()
)
_END = frozenset(
    "streams sum sum_sent sum_received sum_bidir_reverse sum_sent_bidir_reverse sum_received_bidir_reverse "
    "cpu_utilization_percent sender_tcp_congestion receiver_tcp_congestion".split()
)
_CPU = frozenset("host_total host_user host_system remote_total remote_user remote_system".split())
_START = frozenset("connected version timestamp connecting_to accepted_connection test_start tcp_mss_default".split())
_TEST = frozenset("protocol num_streams blksize omit duration bytes blocks reverse bidir".split())
_TOP = frozenset("start intervals end error".split())


class Contradiction(Exception):  # noqa: N818 - not an error of the program: a finding about the log
    """Two figures of the log cannot both be right."""


def decode_documents(text: str) -> tuple[dict[str, Any] | None, str, list[str]]:
    """Return the document at the start of `text`, what follows it, and warnings; None where there is no whole one."""
    try:
        doc = orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    else:
        if isinstance(doc, dict):
            if has_doubles(doc):
                doc = json.loads(text, object_pairs_hook=_keep_doubles)
            return doc, "", []
    for repaired, warnings in _repairs(text):
        try:
            doc, end = _DECODER.raw_decode(repaired)
        except (ValueError, RecursionError):
            continue
        if isinstance(doc, dict):
            return doc, repaired[end:], warnings
    return None, "", []


def _no_number(_: str) -> None:
    return None


_NAN = re.compile(r'(:\s*)[-+]?(?:nan|inf)(?:inity)?(?=\s*[,}\]])', re.IGNORECASE)  # fmt: skip
_EXPONENT = re.compile(r"(:\s*-?\d+(?:\.\d+)?[eE]) (\d+)(?=\s*[,}\]])")


def _repairs(text: str) -> Iterator[tuple[str, list[str]]]:
    yield text, []
    repaired = _NAN.sub(r"\1null", text)
    warnings = []
    if _EXPONENT.search(repaired):
        repaired = _EXPONENT.sub(r"\1+\2", repaired)
        warnings.append("a number lost the plus sign of its exponent and is read with it")
    if repaired != text:
        yield repaired, warnings


def has_doubles(doc: dict[str, Any]) -> bool:
    """Whether this is a --bidir document of the versions that repeat keys, of which a plain reader keeps the last."""
    end = doc.get("end")
    streams = end.get("streams") if isinstance(end, dict) else None
    if not isinstance(streams, list) or len(streams) < 2 or not isinstance(end, dict):
        return False
    if "sum_sent_bidir_reverse" in end or "sum_bidir_reverse" in end:
        return False
    senders = {_record(s, "sender", "udp").get("sender") for s in streams if isinstance(s, dict)}
    return senders == {True, False}


def _keep_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Name the second ``sum*`` of an object as the later versions do."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set()
        for key, value in pairs:
            if key in seen and key.startswith("sum"):
                found[f"{key}_bidir_reverse"] = value
            elif key not in seen:
                found[key] = value
            seen.add(key)
    return found


def _record(stream: Any, *names: str) -> dict[str, Any]:
    for name in names:
        if isinstance(stream, dict) and isinstance(stream.get(name), dict):
            found: dict[str, Any] = stream[name]
            return found
    return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _count(value: Any) -> int | None:
    """Return a counter, or None where it wrapped around or was never set."""
    number = _number(value)
    return int(number) if number is not None and 0 <= number < _WRAPPED and number == int(number) else None


def read_document(
    doc: dict[str, Any], *, after: str = "", warnings: list[str] | None = None, cut: str = ""
) -> ParsedRun:
    """Read a document.

    Parameters
    ----------
    doc : dict
        With keys ``start``, ``intervals``, ``end``, ``error``, each where it is there.
    after : str
        What the log holds after the document: a message on stderr may have landed there.
    warnings : list of str, optional
        What was noticed on the way here.
    cut : str
        Why the document is not whole; empty when it is.
    """
    start, end = _dict(doc.get("start")), _dict(doc.get("end"))
    test = _dict(start.get("test_start"))
    found = list(warnings or [])
    version = start.get("version")
    version = version.removeprefix("iperf").strip() if isinstance(version, str) else None
    error = doc.get("error")
    error = error.strip() if isinstance(error, str) and error.strip() else None
    if error is None and (m := ERROR.search(after)):
        error = m[1].strip()
    if after.lstrip()[:1] in tuple('}],":'):
        cut = cut or "the document is damaged: its figures go on after its end"
    intervals, notes = _intervals(doc)
    found += notes

    metrics: dict[str, float] = {}
    status: Status
    try:
        _refuse_damaged_keys(doc, start, test, end)
        if error is None and not cut:
            metrics, notes = _metrics(start, test, end, doc.get("intervals"))
            found += notes
    except Contradiction as e:
        error = str(e)
    if cut or (error and "contradict" in error):
        status, error = "partial", error or cut
    elif error is not None:
        status = "partial" if intervals else "failed"
    elif not metrics and intervals:
        status, error = "partial", "the test has no result: the document ends after its intervals"
    elif not metrics:
        status, error = "failed", "the test did not run: the document has no intervals and no result"
    else:
        status = "ok"
    protocol = test.get("protocol")
    return ParsedRun(
        tool=NAME,
        tool_version=version,
        test=protocol.lower() if isinstance(protocol, str) else None,
        status=status,
        error=error,
        warnings=tuple(found),
        metrics=metrics if status == "ok" else {},
        parameters=_parameters(start, test, end),
        intervals=intervals,
    )


ERROR = re.compile(
    r"^[^\n]{0,80}?\biperf3: ((?:error|interrupt)\b[^\n]*|unrecognized option[^\n]*|parameter error[^\n]*)",
    re.MULTILINE,
)


def _refuse_damaged_keys(doc: dict[str, Any], start: dict[str, Any], test: dict[str, Any], end: dict[str, Any]) -> None:
    """Find keys that differ from a known one in a letter or two: a later version's new keys do not."""
    records = [end.get(k) for k in _END if k.startswith("sum")]
    records += [r for s in _list(end.get("streams")) for r in _dict(s).values()]
    known: list[tuple[frozenset[str], Any]] = [(_TOP, doc), (_START, start), (_TEST, test), (_END, end)]
    known += [(_CPU, end.get("cpu_utilization_percent")), *((_RECORD, r) for r in records)]
    known += [(frozenset({"sender", "receiver", "udp"}), s) for s in _list(end.get("streams"))]
    for names, value in known:
        for key in _dict(value).keys() - names:
            for name in names:
                if len(name) == len(key) and name not in value and sum(map(str.__ne__, name, key)) <= 2:
                    raise Contradiction(f"the keys contradict iperf3's: {key!r} stands where {name!r} is expected")


def _parameters(
    start: dict[str, Any], test: dict[str, Any], end: dict[str, Any]
) -> dict[str, str | int | float | bool]:
    found: dict[str, Any] = {
        "streams": _count(test.get("num_streams")),
        "message_bytes": _count(test.get("blksize")),
        "protocol": test.get("protocol"),
        "duration_s": _number(test.get("duration")) or None,
        "omit_s": _number(test.get("omit")),
        "tcp_buffer_bytes": _count(start.get("sock_bufsize")) or None,
        "congestion_control": end.get("sender_tcp_congestion") or end.get("receiver_tcp_congestion"),
        "server": _dict(start.get("connecting_to")).get("host"),
        "port": _count(_dict(start.get("connecting_to")).get("port")),
    }
    if test:
        both = test.get("bidir") or any(k.endswith("_bidir_reverse") for k in end)
        found["direction"] = "bidir" if both else "reverse" if test.get("reverse") else "forward"
    if isinstance(found["protocol"], str):
        found["protocol"] = found["protocol"].lower()
    seconds = _number(_dict(start.get("timestamp")).get("timesecs"))
    if seconds is not None and 0 < seconds < 1e11:
        found["started_utc"] = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {k: v for k, v in found.items() if isinstance(v, str | int | float)}


# -- the result ------------------------------------------------------------------------------------------------------


def _metrics(
    start: dict[str, Any], test: dict[str, Any], end: dict[str, Any], intervals: Any
) -> tuple[dict[str, float], list[str]]:
    """Return the metrics of a finished test, or none where `end` holds no result, and warnings.

    Raises
    ------
    Contradiction
        The figures of the result do not fit together.
    """
    streams = [s for s in _list(end.get("streams")) if isinstance(s, dict)]
    udp = any("udp" in s for s in streams) or test.get("protocol") == "UDP"
    both = any(k in end for k in ("sum_sent_bidir_reverse", "sum_received_bidir_reverse", "sum_bidir_reverse"))
    found: dict[str, float] = {}
    warnings: list[str] = []
    if "sum_sent" not in end and "sum_received" not in end and "sum" not in end:
        return {}, []
    serving = "accepted_connection" in start
    linux = str(start.get("system_info")).startswith("Linux")
    for suffix, word in (("", ""), ("_bidir_reverse", "_reverse")) if both else (("", ""),):
        # With --bidir the client's own streams are the first ones; `sender` tells them, seen from where the log is.
        forward = (word == "") != serving
        mine = [s for s in streams if not both or _record(s, "sender", "udp").get("sender") in (None, forward)]
        sent, received = _dict(end.get(f"sum_sent{suffix}")), _dict(end.get(f"sum_received{suffix}"))
        overall = _dict(end.get(f"sum{suffix}"))
        senders = [_record(s, "sender", "udp") for s in mine]
        receivers = [_record(s, "receiver") for s in mine]
        if udp:
            _datagrams(found, warnings, overall, received, senders, word)
            if not sent and not received:
                if serving and not test.get("reverse"):
                    received = overall
                else:
                    sent = overall
                    warnings.append("this version prints no receiver's throughput for UDP")
        _rates(found, sent, senders, f"throughput{word}_sent_bps", f"sent{word}_bytes", "sent")
        length = _rates(
            found,
            received,
            receivers if not udp else [],
            f"throughput{word}_bps",
            f"transferred{word}_bytes",
            "received",
        )
        if length is not None and not word:
            found["duration_measured_s"] = length
        if (
            received
            and not _number(received.get("bytes"))
            and not (serving and bool(test.get("reverse")) != bool(word))
        ):
            raise Contradiction("the receiver's figures are missing: they contradict that data were sent")
        if not udp and not received:
            raise Contradiction("the result has no sum_received, which contradicts that the test is over")
        if found.get(f"throughput{word}_sent_bps") is not None:
            resent = _count(sent.get("retransmits"))
            each = [_count(r.get("retransmits")) for r in senders]
            if resent is not None:
                if None not in each and each and sum(e for e in each if e is not None) != resent:
                    raise Contradiction(
                        f"the retransmits contradict each other: {resent} in sum, {each} in the streams"
                    )
                found[f"retransmits{word}_count"] = resent
        if not word:
            _path(
                found,
                warnings,
                senders,
                receivers,
                mine,
                _list(intervals),
                local_sends=not serving if both else None,
                linux=linux,
            )
    if serving or "connecting_to" in start:
        _cpu(found, warnings, _dict(end.get("cpu_utilization_percent")), serving="server" if serving else "client")
    elif "cpu_utilization_percent" in end:
        warnings.append("the log does not say from which end it is: the CPU times are left out")
    return found, warnings


def _rates(
    found: dict[str, float],
    total: dict[str, Any],
    parts: list[dict[str, Any]],
    rate_name: str,
    bytes_name: str,
    what: str,
) -> float | None:
    """Put a rate and its bytes into `found` when they agree; return the seconds that they are over."""
    rate, size = _number(total.get("bits_per_second")), _number(total.get("bytes"))
    if not total or (not rate and not size):
        return None
    if rate is None or size is None or rate < 0 or size < 0:
        raise Contradiction(f"the figures of sum_{what} contradict each other: {size} bytes at {rate} bit/s")
    lengths = [*_lengths(total), *(x for p in parts for x in _lengths(p))]
    fits = [s for s in lengths if s > 0 and abs(size * 8 / s - rate) <= _RATE_TOLERANCE * rate]
    if not fits:
        raise Contradiction(
            f"the figures of sum_{what} contradict each other: "
            f"{size} bytes in {total.get('seconds')} s are not {rate} bit/s"
        )
    each = [_number(p.get("bytes")) for p in parts]
    if each and None not in each and sum(e for e in each if e is not None) != size:
        raise Contradiction(f"the bytes of sum_{what} contradict those of its streams: {size} and {each}")
    found[rate_name], found[bytes_name] = float(rate), int(size)
    return float(fits[0])


def _lengths(record: dict[str, Any]) -> Iterator[float]:
    seconds, a, b = (_number(record.get(k)) for k in ("seconds", "start", "end"))
    if seconds is not None:
        yield seconds
    if a is not None and b is not None:
        yield b - a


def _datagrams(
    found: dict[str, float],
    warnings: list[str],
    overall: dict[str, Any],
    received: dict[str, Any],
    streams: list[dict[str, Any]],
    word: str,
) -> None:
    views = [v for v in (received, overall) if "lost_packets" in v and "packets" in v]
    if not views:
        return
    lost, packets = (_count(views[0].get(k)) for k in ("lost_packets", "packets"))
    for key, value in (("lost_packets", lost), ("packets", packets)):
        each = [_count(s.get(key)) for s in streams]
        if any(_count(v.get(key)) != value for v in views) or (
            each and None not in each and sum(e for e in each if e is not None) != value
        ):
            raise Contradiction(f"the counts of {key} contradict each other")
    if packets:
        found[f"packets{word}_count"] = packets
        if lost is not None and lost <= packets:
            percent = _number(views[0].get("lost_percent"))
            if percent is not None and abs(percent - 100 * lost / packets) > 1e-3 * max(percent, 1):
                raise Contradiction(f"the loss contradicts itself: {lost} of {packets} are not {percent} %")
            found[f"lost{word}_count"] = lost
            found[f"lost{word}_ratio"] = lost / packets
        else:
            warnings.append(f"lost_packets is {views[0].get('lost_packets')} of {packets} and is left out")
    jitter = _number(views[0].get("jitter_ms"))
    if not packets:
        return
    if jitter is None:
        raise Contradiction("the jitter is no number, which contradicts that datagrams arrived")
    each_jitter = [j for s in streams if (j := _number(s.get("jitter_ms"))) is not None]
    mean = sum(each_jitter) / len(each_jitter) if each_jitter else jitter
    others = [_number(v.get("jitter_ms")) for v in views]
    if any(o is None or abs(o - jitter) > 1e-5 * jitter for o in others) or abs(mean - jitter) > 1e-5 * jitter + 1e-9:
        warnings.append("the jitter of sum contradicts that of its streams and is left out")
    elif jitter > 1e3 * max(*_lengths(overall), *_lengths(received), 0.0, 0.0) or jitter < 0:
        warnings.append(f"a jitter of {jitter} ms is longer than the test and is left out")
    else:
        found[f"jitter{word}_us"] = jitter * 1e3
    disorder = [_count(s.get("out_of_order")) for s in streams]
    if not word and disorder and None not in disorder:
        found["out_of_order_count"] = sum(d for d in disorder if d is not None)


def _path(
    found: dict[str, float],
    warnings: list[str],
    senders: list[dict[str, Any]],
    receivers: list[dict[str, Any]],
    streams: list[dict[str, Any]],
    intervals: list[Any],
    local_sends: bool | None,
    linux: bool,
) -> None:
    """What the sender's kernel knows of the path: round trip under load, congestion window."""
    if local_sends is False or not senders:
        return
    sockets = {s.get("socket") for s in senders}
    rows = [r for iv in intervals for r in _list(_dict(iv).get("streams")) if _dict(r).get("socket") in sockets]
    per_stream = Counter(r.get("socket") for r in rows)
    timed = [r for r in rows if "rtt" in r]
    if intervals and (set(per_stream) != sockets or max(per_stream.values()) < len(intervals) - 1):
        warnings.append("intervals lack streams: round-trip times and congestion windows are left out")
        return
    if (
        len(set(per_stream.values())) > 1
        or len(timed) not in (0, len(rows))
        or any(0 < sum(_count(r.get(k)) is not None for r in rows) < len(rows) for k in ("rtt", "snd_cwnd"))
    ):
        warnings.append("rows of intervals are damaged: round-trip times and congestion windows are left out")
        return
    means, lows, highs = ([_count(s.get(k)) for s in senders] for k in ("mean_rtt", "min_rtt", "max_rtt"))
    every = [(r, x.get("omitted")) for x in rows if (r := _count(x.get("rtt")))]
    if all(means) and all(lows) and all(highs):
        ends = min(x for x in lows if x), max(x for x in highs if x)
        if not every:
            found |= {"rtt_loaded_us": sum(m for m in means if m) / len(means)}
            found |= {"rtt_loaded_min_us": ends[0], "rtt_loaded_max_us": ends[1]}
        elif (min(r for r, _ in every), max(r for r, _ in every)) != ends or not _mean_fits(senders, rows):
            warnings.append("the round-trip times of the result contradict those of the intervals and are left out")
        elif counted := [r for r, omitted in every if not omitted]:
            # iperf3's own mean, least and largest count the omitted seconds too
            found |= {"rtt_loaded_us": sum(counted) / len(counted)}
            found |= {"rtt_loaded_min_us": min(counted), "rtt_loaded_max_us": max(counted)}
    _windows(found, warnings, senders, rows, linux=linux)


def _windows(
    found: dict[str, float],
    warnings: list[str],
    senders: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    *,
    linux: bool,
) -> None:
    """Add the streams' congestion windows, the last ones and the largest ones, the omitted seconds left out."""
    last = largest = 0
    for s in senders:
        mine = [r for r in rows if r.get("socket") == s.get("socket")]
        each = [w for r in mine if (w := _count(r.get("snd_cwnd")))]
        counted = [w for r in mine if not r.get("omitted") and (w := _count(r.get("snd_cwnd")))]
        if not counted:
            return
        said = _count(s.get("max_snd_cwnd"))
        # Linux counts its window in segments, so that all are multiples of one size: 88 bytes is its smallest.
        if (said is not None and said != max(each)) or (linux and len(each) > 1 and math.gcd(*each) < 88):
            warnings.append("the congestion windows contradict each other and are left out")
            return
        last, largest = last + counted[-1], largest + max(counted)
    if last:
        found |= {"cwnd_bytes": last, "cwnd_max_bytes": largest}


def _mean_fits(senders: list[dict[str, Any]], rows: list[dict[str, Any]]) -> bool:
    """Whether each stream's mean is that of its intervals (with or without those omitted), cut to a whole number."""
    for s in senders:
        mine = [r for r in rows if r.get("socket") == s.get("socket")]
        fits = False
        for chosen in (mine, [r for r in mine if not r.get("omitted")]):
            rtts = [r for x in chosen if (r := _count(x.get("rtt"))) is not None]
            fits |= bool(rtts) and sum(rtts) // len(rtts) == _number(s.get("mean_rtt"))
        if not fits:
            return False
    return True


def _cpu(found: dict[str, float], warnings: list[str], cpu: dict[str, Any], serving: str) -> None:
    other = "client" if serving == "server" else "server"
    for end, side in (("host", serving), ("remote", other)):
        total, user, system = (_number(cpu.get(f"{end}_{k}")) for k in ("total", "user", "system"))
        if total is None or (not total and end == "remote"):
            continue
        if total < 0 or (user is not None and system is not None and abs(total - user - system) > 0.02 + 0.002 * total):
            warnings.append(f"the {end}'s CPU time contradicts its parts and is left out")
            continue
        found[f"cpu_{side}_ratio"] = total / 100


# -- the intervals ---------------------------------------------------------------------------------------------------

_COMMON = itemgetter("start", "end", "seconds", "bytes", "bits_per_second")


def _intervals(doc: dict[str, Any]) -> tuple[Columns, list[str]]:
    """Return the intervals in columns, per stream and (stream -1) summed, and warnings."""
    raw = doc.get("intervals")
    if not isinstance(raw, list) or not raw:
        return {}, []
    start = _dict(doc.get("start"))
    test = _dict(start.get("test_start"))
    serving = "accepted_connection" in start
    # Without the key `sender` (before 3.6) a test has one direction.
    default = not bool(test.get("reverse"))
    warnings: list[str] = []
    rows: list[dict[str, Any]] = []
    streams: list[int] = []
    add, number = rows.append, streams.append
    last: Any = None
    for interval in raw:
        if not isinstance(interval, dict):
            continue
        if interval == last:
            warnings.append("an interval is printed twice; counted once")
            continue
        last = interval
        for row in interval.get("streams") or ():
            if isinstance(row, dict):
                add(row)
                socket = row.get("socket")
                number(socket if isinstance(socket, int) else 0)
        for key in ("sum", "sum_bidir_reverse"):
            row = interval.get(key)
            if isinstance(row, dict):
                add(row)
                number(-1)
    if not rows:
        return {}, warnings
    try:
        begins, ends, seconds, sizes, rates = map(list, zip(*map(_COMMON, rows), strict=True))
        wrong = [
            i
            for i, (s, b, r) in enumerate(zip(seconds, sizes, rates, strict=True))
            if s < 1e-6 or abs(b * 8 - r * s) > _RATE_TOLERANCE * r * s
        ]
    except (KeyError, TypeError):
        begins, ends, seconds, sizes, rates = (
            [_number(r.get(k)) for r in rows] for k in ("start", "end", "seconds", "bytes", "bits_per_second")
        )
        wrong = [
            i
            for i, (s, b, r) in enumerate(zip(seconds, sizes, rates, strict=True))
            if s is None or b is None or r is None or s < 1e-6 or abs(b * 8 - r * s) > _RATE_TOLERANCE * abs(r * s)
        ]
    for i in wrong:
        length = seconds[i]
        if length is None or length >= 1e-6:
            span = (ends[i] - begins[i]) if ends[i] is not None and begins[i] is not None else 0
            if (
                rates[i] is not None
                and sizes[i] is not None
                and abs(sizes[i] * 8 - rates[i] * span) <= 1e-4 * abs(rates[i] * span)
            ):
                continue
            if len(warnings) < 5:
                warnings.append(f"the interval at {begins[i]} s contradicts itself: its throughput is left out")
        rates[i] = None  # also over no time at all: such a rate has no meaning
    return {
        "stream": streams,
        "direction": [
            "forward" if row.get("sender", default if not serving else not default) is not serving else "reverse"
            for row in rows
        ],
        "start_s": begins,
        "end_s": ends,
        "omitted": [row.get("omitted") is True for row in rows],
        "throughput_bps": rates,
        "retransmits_count": [
            n if (n := row.get("retransmits")) is None or (type(n) is int and 0 <= n < _WRAPPED) else None
            for row in rows
        ],
        "rtt_loaded_us": [row.get("rtt") or None for row in rows],
        "cwnd_bytes": [
            n if (n := row.get("snd_cwnd")) is None or (type(n) is int and 0 <= n < _WRAPPED * 8) else None
            for row in rows
        ],
    }, warnings


# -- what is left of a document --------------------------------------------------------------------------------------

_KEY = {
    k: re.compile(rf'"{k}"\s*:\s*(?=[{{"])') for k in ("start", "end", "error", "test_start", "timestamp", "version")
}
_INTERVAL = re.compile(r'\{\s*"streams"\s*:\s*\[')
_ROW = re.compile(r'\{\s*"socket"\s*:\s*\d+\s*,\s*"start"')


_EVENTS = ("start", "interval", "end", "error", "server_output_text", "server_output_json")
_DECODER = json.JSONDecoder(object_pairs_hook=_keep_doubles, parse_constant=_no_number)


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the whole rows of an interval of which the rest is lost."""
    found = []
    for m in _ROW.finditer(text):
        try:
            row, _ = _DECODER.raw_decode(text, m.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and "bits_per_second" in row:
            found.append({"streams": [row]})
    return found


def salvage(text: str) -> ParsedRun:
    """Read the whole parts of a document that is cut short or damaged."""
    decoder = _DECODER
    text = _EXPONENT.sub(r"\1+\2", _NAN.sub(r"\1null", text))
    doc: dict[str, Any] = {}

    def value(key: str, at: int = 0) -> Any:
        m = _KEY[key].search(text, at)
        if not m:
            return None
        try:
            return decoder.raw_decode(text, m.end())[0]
        except (ValueError, RecursionError):
            return None

    begun = re.search(r'"intervals"\s*:\s*\[', text)
    doc["start"] = value("start") if text[:20].count("start") else None
    if not isinstance(doc["start"], dict):
        doc["start"] = {k: v for k in ("version", "timestamp", "test_start") if (v := value(k)) is not None}
    at = begun.end() if begun else 0
    intervals: list[Any] = []
    for m in _INTERVAL.finditer(text, at):
        try:
            interval, _ = decoder.raw_decode(text, m.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(interval, dict) and "sum" in interval:
            intervals.append(interval)
    if not intervals:
        intervals = _rows(text[at:])  # not even one whole interval: its rows, where an excerpt holds some
    doc["intervals"] = intervals
    if isinstance(message := value("error", at), str):
        doc["error"] = message
    where = (
        "its end" if begun and re.search(r'"end"\s*:\s*\{', text[at:]) else "its intervals" if begun else "its start"
    )
    whole = text.rstrip().endswith("}") and begun and not _INTERVAL.search(text[-200:])
    cut = f"the document is damaged in {where}" if whole else f"the document is cut short in {where}"
    return read_document(doc, after=text, cut=cut)


# -- a stream of events ----------------------------------------------------------------------------------------------


def read_events(text: str) -> list[ParsedRun]:
    """Read one run of ``--json-stream``: a line an event."""
    doc: dict[str, Any] = {"start": {}, "intervals": []}
    cut = ""
    kinds: Counter[str] = Counter()
    for line in text.splitlines():
        line = line[line.find("{") :] if "{" in line else ""
        if not line.startswith('{"event"') and not re.match(r'\{\s*"event"', line):
            continue
        event, _, _ = decode_documents(line)
        if event is None:
            cut = "the stream is cut short or damaged in an event"
            doc["intervals"] += _rows(line)
            continue
        kind, data = event.get("event"), event.get("data")
        kinds[str(kind)] += 1
        if event.keys() != {"event", "data"} or kind not in _EVENTS:
            cut = f"the stream is damaged in an event: {line[:40]!r}"
        if kind == "start":
            doc["start"] = data
        elif kind == "interval":
            doc["intervals"].append(data)
        elif kind == "end":
            doc["end"] = data
        elif kind == "error":
            doc["error"] = data if isinstance(data, str) else json.dumps(data)
    if "end" not in doc and not cut and "error" not in doc:
        cut = "the stream has no event `end`: it was cut short"
    elif kinds["end"] and not kinds["start"] and "error" not in doc:
        cut = "the stream has no event `start`: its head is missing"
    return [read_document(doc, after=text, cut=cut)]
