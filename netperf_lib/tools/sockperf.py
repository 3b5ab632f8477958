"""sockperf: latency of single messages, with the whole distribution (2.x to 3.10).

Without ``--full-rtt`` every latency it prints is half of a round trip. In ``throughput`` mode nothing comes back: the
bandwidth is the sender's. Its "MBps" are 2^20 bytes and its "Mbps" are 2^20 bits; "GBps" are 1000 of them with
``--giga-size``, and still "MBps" (mislabelled) with 3.7's ``--increase_output_precision``, which shows nine decimals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

from ..errors import ParseError, UsageError
from ..model import Columns, ParsedRun, Percentile, Trial
from . import Commands, clean, decode

NAME = "sockperf"
PACKAGE = "sockperf"
VERSION = ("sockperf", "--version")
TESTS = ("ping-pong", "under-load", "throughput")
OPTIONS = {
    "protocol": ("udp", "`tcp` or `udp`"),
    "full_rtt": (False, "report whole round trips instead of halves"),
    "mps": (None, "messages a second; default: the tool's"),
    "reply_every": (None, "under-load: every n-th message is answered; default: the tool's, 100"),
    "burst": (None, "messages sent in one go"),
    "samples": (False, "keep every packet (`--full-log`)"),
}
"""Name of an option in `TestSpec.options`: its default, and what it does."""
MARKS = ("sockperf", "vperf", "test was performed using the following parameters: ", "PORT = ", " observation")


def commands(trial: Trial, server_address: str, port: int) -> Commands:
    """Both ends of one trial.

    Raises
    ------
    UsageError
        An option that this test has not.
    """
    spec = trial.test
    unknown = set(spec.options) - set(OPTIONS)
    if unknown:
        raise UsageError(f"sockperf has no option {min(unknown)!r} here (known: {', '.join(OPTIONS)})")
    given = {name: spec.options.get(name, default) for name, (default, _) in OPTIONS.items()}
    if given["protocol"] not in ("tcp", "udp"):
        raise UsageError(f"sockperf's option protocol is {given['protocol']!r}; it must be tcp or udp")
    both = ["-i", server_address, "-p", str(port)]
    if given["protocol"] == "tcp":
        both.append("--tcp")
    if trial.tcp_buffer_bytes not in (None, trial.pair.tcp_buffer_bytes):
        both += ["--buffer-size", str(trial.tcp_buffer_bytes)]
    options = ["-t", str(math.ceil(spec.duration_s))]
    if trial.message_bytes is not None:
        options += ["-m", str(trial.message_bytes)]
    for name, flag in (("mps", "--mps"), ("reply_every", "--reply-every"), ("burst", "--burst")):
        if given[name] is not None:
            options += [flag, str(given[name])]
    if given["full_rtt"]:
        options.append("--full-rtt")
    if given["samples"]:
        options += ["--full-log", "/dev/stdout"]
    return Commands(
        client=("sockperf", spec.test, *both, *options),
        server=("sockperf", "server", *both),
        listens=((str(given["protocol"]), port),),
        timeout_s=spec.duration_s + 60,
    )


# --- where runs are ---------------------------------------------------------------------------------------------------

_COMMAND = r"\bsockperf (ping-pong|pp|under-load|ul|throughput|tp|playback|pb|server|sr) "
_STAGES = (
    _COMMAND.replace("(", "(?:") + r"(?=.*\n.*(?:version #|perf: |Usage: |: Run sockperf ))",
    r"(?:==|=3D=3D) version #",
    r"perf\[(?:CLIENT|SERVER)\]|\[(?:CLIENT|SERVER)\] (?:send|listen) on|\[ ?\d+\] IP =(?:3D)? ",
    r"perf: Warmup stage",
    r"perf: Starting test",
    r"perf: Test end(?:ed)?\b",
    r"perf: \[Total Run\]|perf: Total of \d+ messages|perf: No messages were received",
    r"perf: =+ Printing statistics for Server No: 0|perf: NOTE: test was performed",
    r"perf: \[Valid Duration\]|perf: Summary: Message Rate",
    r"perf: =*> avg-|perf: Summary: BandWidth",
    r"perf: .{0,9}# dropped messages",
    r"perf: Summary: (?:Latency|Round trip)",
    r"perf: Total \d+ observations",
    r"perf: ---> .?MAX",
    r"perf: ---> .?MIN",
)
"""The lines of a run in the order in which they are printed: where the order goes back, another run begins."""
_STATISTICS, _LAST = 6, len(_STAGES) - 1
_STAGE = re.compile(
    "|".join(f"(?P<s{i}>{p})" for i, p in enumerate(_STAGES))
    + r"|(?P<log>^(?:-{30}\n)?test was performed using the following parameters: )"
    + r"|(?P<usage>^Usage: sockperf )"
    + r"|(?P<server>perf: =+ Printing statistics for Server No: \d)|(?P<any>perf: )",
    re.MULTILINE,
)


def sightings(text: str) -> Iterator[int]:
    """Offsets of the first line of each run."""
    reached: int | None = None
    start, in_log = 0, False
    for m in _STAGE.finditer(text):
        kind = str(m.lastgroup)
        if kind == "any":
            stage = -1 if reached is None else reached
        elif kind == "server":  # a further server of the same run
            reached = stage = _STATISTICS + 1
        elif kind == "usage":  # nothing follows
            stage = _LAST + 1
        elif kind == "log":  # the file of --full-log: by itself, or printed after the statistics of its run
            stage = _STATISTICS - 1
            if reached == _LAST and not in_log and _repeats(text, start, m.end()):
                reached = stage
            in_log = True
        else:
            stage = int(kind[1:])
        if reached is None or stage < reached:
            in_log = kind == "log"
            start = m.start() if in_log else text.rfind("\n", 0, m.start()) + 1
            yield start
        reached = stage


def _repeats(text: str, start: int, log: int) -> bool:
    """Tell whether the log that begins at `log` has the totals of the run that begins at `start`."""
    mine, its = (re.compile(r"\[Total Run\].*").search(text, *span) for span in ((start, log), (log, log + 500)))
    return bool(mine and its and mine[0] == its[0])


# --- one run ----------------------------------------------------------------------------------------------------------

_US = r"(\d+\.\d{3})(?!\d)"
_FIGURES = {
    "total": r"\[Total Run\] RunTime=(\d+\.\d{3}) sec; (?:Warm up [a-z]+=\d+(?: msec)?; )?"
    r"SentMessages=(\d+); ReceivedMessages=(\d+)(?:; SkippedMessages=\d+)?\n",
    "valid": r"\[Valid Duration\] RunTime=(\d+\.\d{3}) sec; SentMessages=(\d+); ReceivedMessages=(\d+)\n",
    "average": rf"avg-(rtt|latency|lat)= *{_US} \(std-dev= *{_US}(?:, mean-ad={_US}, median-ad={_US}, siqr={_US}, "
    rf"cv={_US}, std-error={_US}, [\d.]+% ci=\[-?{_US}, {_US}\])?\)",
    "losses": r"# dropped messages = (\d+); # duplicated messages = (\d+); # out-of-order messages = (\d+)\n",
    "summary": rf"Summary: (Latency|Round trip)(?: of burst of (\d+) messages)? is {_US} usec",
    "observations": r"Total (\d+) observations; each percentile contains (\d+\.\d\d) observations",
    "max": rf"---> <?MAX>? observation = *{_US}",
    "min": rf"---> <?MIN>? observation = *{_US}",
    "sent": r"Total of (\d+) messages sent in (\d+\.\d{3}) sec",
    "rate": r"Summary: Message Rate is (\d+) \[msg/sec\]",
    "bandwidth": r"Summary: BandWidth is (\d+\.\d{3,9}) (\w?)Bps \((\d+\.\d{3,9}) (\w?)bps\)",
}
_PERCENTILE = rf"---> percentile *(\d+\.\d{{2,3}}) = *{_US}"
_READABLE = {name: re.compile(p) for name, p in {**_FIGURES, "percentile": _PERCENTILE}.items()}
_ANCHOR = re.compile(
    r"\[Total Run\]|\[Valid Duration\]|=> avg-|# dropped|Summary: |Total \d+ observations|---> |Total of \d+ messages"
)
_HEADER = re.compile(r"^packet, txTime\(sec\), rxTime\(sec\), (latency|rtt)\(usec\)\n", re.MULTILINE)
_FURTHER_SERVER = re.compile(r"^.*Printing statistics for Server No: [1-9].*\n", re.MULTILINE)
_MODES = {"pp": "ping-pong", "ul": "under-load", "tp": "throughput", "pb": "playback", "sr": "server"}
_COMPLAINTS = re.compile(
    r"ERROR:? .*|No messages were received from the server.*|No valid observations found.*|Test end before test start.*"
)


def read(text: str) -> list[ParsedRun]:
    """Read one run; where a client talked to several servers, one for each."""
    text = text.replace("**", "")  # marked bold where it was pasted
    if "=3D" in text:  # an e-mail as it travels
        text = text.replace("=\n", "").replace("=3D", "=")
    starts = [0, *(m.start() for m in _FURTHER_SERVER.finditer(text)), len(text)]
    common = text[: m.start()] if (m := re.search(r"^.*Printing statistics", text, re.MULTILINE)) else ""
    runs = []
    for start, end in pairwise(starts):
        part = text[start:end]
        head, rows = part, None
        if m := _HEADER.search(part):
            head, rows = part[: m.start()], part[m.end() :]
        run = _run(common + head if start else head)
        if rows is not None:
            run = _with_rows(run, rows, text.count("\n", 0, end - len(rows)) + 1)
        runs.append(replace(run, line=text.count("\n", 0, start) + 1))
    return runs


def _run(text: str) -> ParsedRun:
    """Read the lines of one run without its packets."""
    parameters, mode = _parameters(text)
    version = re.search(r"version #(\S+) ?==", text)

    def result(test: str | None, **what: Any) -> ParsedRun:
        return ParsedRun(
            tool=NAME, test=test, tool_version=version[1] if version else None, parameters=parameters, **what
        )

    found: dict[str, tuple[str, ...]] = {}
    percentiles: dict[float, float] = {}
    cut = False
    rows = text.splitlines(keepends=True)
    for row in rows:
        if not _ANCHOR.search(row):
            continue
        line = row.rstrip() + "\n" if row.endswith("\n") else row
        name, m = next(((n, m) for n, p in _READABLE.items() if (m := p.search(line))), (None, None))
        if m is None or name is None or (name == "percentile" and float(m[1]) not in _NAMES):
            if row is rows[-1] and not row.endswith("\n"):
                cut = True
                continue
            return result(mode, status="failed", error=f"not readable: {row.strip()!r}")
        if name == "percentile":
            name = f"percentile {m[1]}"
            percentiles[float(m[1])] = float(m[2])
        if found.setdefault(name, m.groups()) != m.groups():
            return result(mode, status="failed", error=f"two different values of {name}: {row.strip()!r} is the second")

    test = "throughput" if {"rate", "bandwidth"} & found.keys() else mode or _latency_mode(found, parameters)
    if not {"average", "rate", "bandwidth", "observations"} & found.keys():
        complaint = _COMPLAINTS.search(text)
        if complaint:
            error = complaint[0].strip()
        elif re.search(r"^Usage: sockperf ", text, re.MULTILINE):
            error = "no run: sockperf printed how it is used, so an option was wrong"
        elif "[SERVER]" in text:
            error = "the log of a server, which prints no figures; pass the client's"
        else:
            error = f"no statistics: the log ends after {rows[-1].strip()!r}"
        return result(test, status="failed", error=error)
    if {"rate", "bandwidth"} & found.keys() and {"average", "observations"} & found.keys():
        return result(test, status="failed", error="figures of two modes in one run: a line between them is damaged")
    wrong = _contradiction(found, percentiles, parameters, test)
    if wrong:
        return result(test, status="failed", error=f"the figures contradict each other, the log is damaged: {wrong}")
    try:
        metrics = _throughput(found) if test == "throughput" else {}
    except ValueError as e:
        return result(test, status="failed", error=str(e))
    basis = None
    points: tuple[Percentile, ...] = ()
    if not metrics:
        rtt = found["average"][0] == "rtt" if "average" in found else found.get("summary", ("",))[0] == "Round trip"
        basis = "rtt" if rtt or parameters.get("full_rtt") else "latency_oneway"
        n = int(found["observations"][0]) if "observations" in found else None
        metrics = _latency(found, percentiles, basis)
        points = tuple(Percentile(p, v, _beyond(p, n)) for p, v in sorted(percentiles.items()))
    warnings = []
    if cut or (basis and "min" not in found) or (not basis and "bandwidth" not in found):
        warnings.append(f"the log ends early, after {rows[-1].strip()!r}")
    if basis and "average" not in found:
        warnings.append("the lines before the percentiles are missing, so halves of round trips are assumed")
    size = int(parameters.get("message_bytes", 0))
    if (
        size
        and {"rate", "bandwidth"} <= found.keys()
        and _on_wire(int(found["rate"][0]), size, *_mebibytes(*found["bandwidth"][:2]))
    ):
        warnings.append("the bandwidth counts 28 bytes of IP and UDP header a packet")
    warnings += [m.strip() for m in _COMPLAINTS.findall(text)]
    return result(
        test,
        status="ok",
        metrics=metrics,
        percentiles=points,
        percentile_basis=basis if points else None,
        warnings=tuple(warnings),
    )


def _parameters(text: str) -> tuple[dict[str, str | int | float | bool], str | None]:
    """What the log says was asked for, and the mode where a command is shown."""
    found: dict[str, str | int | float | bool] = {}
    if m := re.search(r"IP = (\S+)\s+PORT = +(\d+) # (TCP|UDP)", text):
        found |= {"server": m[1], "port": int(m[2]), "protocol": m[3].lower()}
    if m := re.search(r"using msg-size=(\d+)", text) or re.search(r"^\tmsg_size = (\d+)", text, re.MULTILINE):
        found["message_bytes"] = int(m[1])
    if m := re.search(r"test was performed using the following parameters: (.*)\n", text):
        names = {"mps": "mps", "burst": "burst", "reply-every": "reply_every", "msg-size": "message_bytes"}
        for key, value in re.findall(r"--([a-z-]+)=(\d+)(?=\s|$)", m[1]):
            if key in names:
                found[names[key]] = int(value)
            elif key == "time":
                found["duration_s"] = float(value)
        if "--full-rtt" in m[1]:
            found["full_rtt"] = True
    if m := re.search(r"burst of (\d+) messages", text):
        found["burst"] = int(m[1])
    command = re.search(_COMMAND, text)
    return found, _MODES.get(command[1], command[1]) if command else None


def _latency_mode(found: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Any]) -> str | None:
    """Tell ping-pong (each message waits for the answer to the one before) from under-load by the counts."""
    if int(parameters.get("reply_every", 1)) > 1:
        return "under-load"
    if "total" not in found or "losses" not in found:
        return None
    waiting = int(found["total"][1]) - int(found["total"][2]) - int(found["losses"][0])
    return "ping-pong" if waiting <= max(1, int(parameters.get("burst", 1))) else "under-load"


_NAMES = {
    99.999: "p99999",
    99.99: "p9999",
    99.9: "p999",
    99.0: "p99",
    95.0: "p95",
    90.0: "p90",
    75.0: "p75",
    50.0: "p50",
    25.0: "p25",
}


def _beyond(percentile: float, n: int | None) -> int | None:
    """How many of `n` observations come after the one that sockperf prints (client.cpp, `printPercentiles`)."""
    return None if n is None else n - int(0.5 + round(percentile / 100, 7) * n)


def _latency(found: Mapping[str, tuple[str, ...]], percentiles: Mapping[float, float], basis: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if "average" in found:
        metrics[f"{basis}_us"] = float(found["average"][1])
        if float(found["average"][2]) > 0:  # one observation has no deviation, although 0.000 is printed
            metrics[f"{basis}_stdev_us"] = float(found["average"][2])
    elif "summary" in found:
        metrics[f"{basis}_us"] = float(found["summary"][2])
    for end in ("min", "max"):
        if end in found:
            metrics[f"{basis}_{end}_us"] = float(found[end][0])
    metrics |= {f"{basis}_{_NAMES[p]}_us": v for p, v in percentiles.items() if p in _NAMES}
    if "observations" in found:
        metrics["messages_count"] = int(found["observations"][0])
    if "losses" in found:
        names = ("lost_count", "duplicated_count", "out_of_order_count")
        metrics |= {name: int(value) for name, value in zip(names, found["losses"], strict=True)}
    if "valid" in found and float(found["valid"][0]) > 0:  # 0.000 with one observation: it has no duration
        metrics["duration_measured_s"] = float(found["valid"][0])
    return metrics


def _mebibytes(number: str, prefix: str) -> tuple[float, float]:
    """2^20 bytes a second, and half of the last digit, of what is printed before "Bps" or "bps".

    Raises
    ------
    ValueError
        A unit that sockperf does not print.
    """
    nine = len(number.partition(".")[2]) > 3  # --increase_output_precision of 3.7 says G where it means M
    factor = {"M": 1.0, "G": 1.0 if nine else 1000.0}.get(prefix)
    if factor is None:
        raise ValueError(f"unknown unit {prefix + 'Bps'!r} of a bandwidth: {number} {prefix}Bps")
    return float(number) * factor, 0.5e-9 if nine else 0.5e-3 * factor


def _throughput(found: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if "rate" in found:
        metrics["message_rate_per_s"] = int(found["rate"][0])
    if "bandwidth" in found:
        number, prefix, _, _ = found["bandwidth"]
        metrics["throughput_sent_bps"] = _mebibytes(number, prefix)[0] * 2**20 * 8
    if "sent" in found:
        metrics |= {"messages_count": int(found["sent"][0]), "duration_measured_s": float(found["sent"][1])}
    return metrics


# --- do the figures agree? --------------------------------------------------------------------------------------------


def _contradiction(
    found: Mapping[str, tuple[str, ...]],
    percentiles: Mapping[float, float],
    parameters: Mapping[str, Any],
    test: str | None,
) -> str | None:
    """Tell which figures cannot stand together; None when all can."""
    checks = [_counts(found, parameters, test), _distribution(found, percentiles), _rates(found, parameters)]
    return next((c for c in checks if c), None)


def _counts(found: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Any], test: str | None) -> str | None:
    n = int(found["observations"][0]) if "observations" in found else None
    if n is not None and abs(n / 100 - float(found["observations"][1])) > 0.0051:
        return f"{n} observations, {found['observations'][1]} in each percentile"
    if "valid" not in found:
        return None
    seconds, sent, received = float(found["valid"][0]), int(found["valid"][1]), int(found["valid"][2])
    if n is not None and n != received:
        return f"{received} messages received in the valid duration, {n} observations"
    if received > sent:
        return f"{received} of {sent} messages received"
    every = int(parameters.get("reply_every", 1 if test == "ping-pong" else 0))
    if every and "losses" in found:  # of every n-th message the answer came, was lost, or came out of order
        asked = (sent - 1) // every + 1
        if received + int(found["losses"][0]) + int(found["losses"][2]) != asked:
            return f"{asked} answers due, {received} received, {found['losses'][0]} dropped"
    if "total" in found:
        all_seconds, all_sent, all_received = float(found["total"][0]), int(found["total"][1]), int(found["total"][2])
        if seconds > all_seconds + 0.001 or sent > all_sent or received > all_received or all_received > all_sent:
            return "more in the valid duration than in the total run"
    return None


def _distribution(found: Mapping[str, tuple[str, ...]], percentiles: Mapping[float, float]) -> str | None:
    """Order, and what mean and standard deviation allow: Bhatia-Davis for the ends, Chebyshev for the percentiles."""
    points = [(p, v) for p, v in sorted(percentiles.items())]
    if "min" in found:
        points.insert(0, (0.0, float(found["min"][0])))
    if "max" in found:
        points.append((100.0, float(found["max"][0])))
    for (p, v), (q, w) in pairwise(points):
        if v > w:
            return f"percentile {p:g} is {v:g}, percentile {q:g} is {w:g}"
    if "average" not in found:
        return None
    mean, deviation = float(found["average"][1]), float(found["average"][2])
    if "summary" in found and found["summary"][2] != found["average"][1]:
        return f"the average is {found['average'][1]}, the summary says {found['summary'][2]}"
    if found["average"][6]:
        n = int(found["observations"][0]) if "observations" in found else None
        cv, error, low, high = map(float, found["average"][6:10])
        if abs(cv * mean - deviation) > 0.0006 * mean + 0.001 or not low <= mean + 0.002 or not mean <= high + 0.002:
            return f"mean {mean:g}, standard deviation {deviation:g}, cv {cv:g}"
        if n and abs(error * math.sqrt(n) - deviation) > 0.0006 * math.sqrt(n) + 0.001:
            return f"standard deviation {deviation:g} of {n}, standard error {error:g}"
    if "observations" not in found:
        return None
    n = int(found["observations"][0])
    ends = dict(points)
    if 0.0 in ends and 100.0 in ends:
        if not ends[0.0] - 0.001 <= mean <= ends[100.0] + 0.001:
            return f"the mean {mean:g} is not between minimum and maximum"
        most = (ends[100.0] - mean + 0.001) * (mean - ends[0.0] + 0.001) * n / max(n - 1, 1)
        if deviation**2 > most * 1.001 + 0.001:
            return f"standard deviation {deviation:g} is more than minimum and maximum allow"
    for p, v in points:
        beyond = (_beyond(p, n) or 0) + 1 if v > mean else n - (_beyond(p, n) or 0)
        if p == 0.0:
            beyond = 1
        if beyond * (v - mean) ** 2 > n * (deviation + 0.001) ** 2 * 1.01 + 0.01:
            return f"percentile {p:g} is {v:g}, too far from the mean {mean:g} for the standard deviation {deviation:g}"
    return None


def _rates(found: Mapping[str, tuple[str, ...]], parameters: Mapping[str, Any]) -> str | None:
    rate = int(found["rate"][0]) if "rate" in found else None
    if rate is not None and "sent" in found:
        sent, seconds = int(found["sent"][0]), float(found["sent"][1])
        if not sent / (seconds + 0.0006) - 1 <= rate <= sent / max(seconds - 0.0006, 1e-4) + 1:
            return f"{sent} messages in {seconds:g} s, {rate} in a second"
    if "bandwidth" in found:
        number, prefix, bits, bit_prefix = found["bandwidth"]
        try:
            (size, half), (eighth, half_bits) = _mebibytes(number, prefix), _mebibytes(bits, bit_prefix)
        except ValueError:
            return None  # told where it is read
        if abs(size * 8 - eighth) > half * 8 + half_bits + 1e-6 * eighth:
            return f"{number} {prefix}Bps, {bits} {bit_prefix}bps"
        message = parameters.get("message_bytes")
        if (
            rate is not None
            and message
            and not _payload(rate, message, size, half)
            and not _on_wire(rate, message, size, half)
        ):
            return f"{rate} messages of {message} bytes a second, {number} {prefix}Bps"
    return None


def _payload(rate: int, message: int, mebibytes: float, half: float) -> bool:
    return abs(rate * message / 2**20 - mebibytes) <= half + 1e-6 * mebibytes


def _on_wire(rate: int, message: int, mebibytes: float, half: float) -> bool:
    """Tell whether the bandwidth counts IP and UDP headers, as the first versions did ("vperf")."""
    return _payload(rate, message + 28 * -(-message // 1472), mebibytes, half)


# --- the packets of --full-log ----------------------------------------------------------------------------------------

_T = TypeVar("_T")
_BLOCK = 16 << 20
_RULE = b"------------------------------"
_TITLES = b"packet, txTime(sec), rxTime(sec), "
_ROW = re.compile(r"\d+, \d+\.\d{9}, \d+\.\d{9}, -?\d+\.\d{3}")


def _with_rows(run: ParsedRun, text: str, line: int) -> ParsedRun:
    """Add the packets, up to the first line that is none; the run is whole when all observations are there."""
    rows = list(takewhile(_ROW.fullmatch, text.split("\n")))
    table = np.array([r.split(", ") for r in rows], dtype=float).reshape(-1, 4)
    good = _readable(*table.T, first=0, halves=1 if run.percentile_basis == "rtt" else 2)
    start = table[0, 1] if good else 0.0
    kept = replace(run, samples_count=good, samples=partial(_in_memory, table[:good, 1] - start, table[:good, 3]))
    wanted = run.metrics.get("messages_count")
    if run.status == "ok" and good == wanted:
        seconds = run.metrics.get("duration_measured_s") if not run.metrics.get("lost_count") else None
        span = table[-1, 2] - table[0, 1]
        wrong = _statistics_of(run, np.sort(table[:, 3]))
        if seconds is not None and abs(seconds - span) > 0.0021:
            wrong = f"the duration is {seconds:g} s, of the packets {span:.3f} s: the log is damaged"
        return replace(kept, status="failed", error=wrong, metrics={}, percentiles=()) if wrong else kept
    if run.status != "ok":
        return kept
    if wanted is None:
        return replace(kept, warnings=(*run.warnings, "how many packets there should be is not told"))
    rest = text.split("\n", good + 1)[good] if text.count("\n") >= good else ""
    return _incomplete(kept, f"{good} of {wanted:.0f} packets are readable; line {line + good} is {rest[:80]!r}")


def _statistics_of(run: ParsedRun, latency_us: Any) -> str | None:
    """Tell which statistic is not that of the packets, sorted; None when all are."""
    n, basis = len(latency_us), run.percentile_basis
    checks: list[tuple[str, float | None, float]] = [
        ("the minimum", run.metrics.get(f"{basis}_min_us"), latency_us[0]),
        ("the maximum", run.metrics.get(f"{basis}_max_us"), latency_us[-1]),
        ("the mean", run.metrics.get(f"{basis}_us"), latency_us.mean()),
        ("the deviation", run.metrics.get(f"{basis}_stdev_us"), latency_us.std(ddof=1) if n > 1 else 0.0),
    ]
    checks += [
        (f"percentile {p.percentile:g}", p.latency_us, latency_us[n - 1 - (p.beyond or 0)]) for p in run.percentiles
    ]
    for what, told, found in checks:
        if told is not None and abs(told - found) > 0.0016:
            return (
                f"the figures contradict each other, the log is damaged: {what} is {told:g}, of the packets {found:.3f}"
            )
    return None


def _incomplete(run: ParsedRun, error: str) -> ParsedRun:
    return replace(run, status="partial", error=error, metrics={}, percentiles=(), percentile_basis=None)


def _readable(packet: Any, tx_s: Any, rx_s: Any, latency_us: Any, *, first: int, halves: int) -> int:
    """Count the rows before the first that is damaged: out of order, or with a latency that its times deny."""
    off = np.abs((rx_s - tx_s) * (1e6 / halves) - latency_us) > 0.0021
    off |= packet != np.arange(first, first + len(packet))
    return int(np.argmax(off)) if off.any() else len(packet)


def _in_memory(t_s: Any, latency_us: Any) -> Iterator[Columns]:
    if len(t_s):
        yield {"t_s": t_s, "latency_us": latency_us}


def read_stream(chunks: Callable[[], Iterator[bytes]]) -> list[ParsedRun] | None:
    """Read the file of ``--full-log`` without holding its rows; None when it is something else, or more than one run.

    The rows themselves are read, and checked, when `ParsedRun.samples` is called: it raises `ParseError` at the first
    that is damaged.
    """
    start = next(chunks(), b"")
    titles = start.find(_TITLES)
    first = start.find(b"\n", titles) + 1
    if titles < 0 or not first or b"test was performed using the following parameters: " not in start[:titles]:
        return None
    head = clean(decode(start[:first]))
    if len(list(sightings(head))) != 1 or _FURTHER_SERVER.search(head) or not _HEADER.search(head):
        return None
    span = _span(chunks, first)
    if span is None:
        return None
    end, last = span
    at = next(sightings(head))
    [run] = read(head[at:])  # partial: none of its packets is in this text
    if run.status == "failed":
        return [replace(run, line=1 + head.count("\n", 0, at))]
    whole = _run(head[at : head.index(_TITLES.decode(), at)])
    count = int(last.partition(b",")[0]) + 1 if last else 0
    halves = 1 if whole.percentile_basis == "rtt" else 2
    samples = partial(_streamed, chunks, first, end, halves, head.count("\n") + 1)
    run = replace(whole, line=1 + head.count("\n", 0, at), samples_count=count, samples=samples)
    wanted = whole.metrics.get("messages_count")
    if count != wanted:
        run = _incomplete(run, f"the log ends after {count} of {wanted or 0:.0f} packets")
    return [run]


def _span(chunks: Callable[[], Iterator[bytes]], first: int) -> tuple[int, bytes] | None:
    """Find the offset behind the last row that begins at or after `first`, and that row; None when more follows."""
    place, before = 0, b""
    end: int | None = None
    rest = b""
    for piece in chunks():
        window, offset = before + piece, place - len(before)
        if end is not None:
            rest += piece
        elif (at := window.find(_RULE, max(0, first - offset))) >= 0:
            end, rest, before = offset + at, window[at + len(_RULE) :], window[:at]
        if rest.strip():
            return None
        if end is None:
            before = window[-256:]
        place += len(piece)
    if end is None:  # cut: the last line may not be whole
        end = place - (len(before) - before.rfind(b"\n") - 1)
        before = before[: before.rfind(b"\n") + 1]
    last = before.rstrip(b"\n").rpartition(b"\n")[2]
    return end, last if _ROW.fullmatch(last.decode("ascii", errors="replace")) else b""


def _streamed(chunks: Callable[[], Iterator[bytes]], first: int, end: int, halves: int, line: int) -> Iterator[Columns]:
    """Give the rows between two offsets in batches; raise `ParseError` at the first damaged one."""
    count, origin = 0, 0.0
    for columns, whole in _ahead(_table, _blocks(chunks, first, end)):
        good = _readable(*columns, first=count, halves=halves)
        if good:
            tx_s, latency_us = columns[1][:good], columns[3][:good]
            origin = origin if count else tx_s[0]
            yield {"t_s": tx_s - origin, "latency_us": latency_us}
        count += good
        if good < len(columns[0]) or not whole:
            raise ParseError("a packet's row is damaged; measure again, or cut the file there", line=line + count)


def _ahead(work: Callable[[bytes], _T], items: Iterator[bytes]) -> Iterator[_T]:
    """Map, and do the next item while the caller works on the last one."""
    with ThreadPoolExecutor(1) as thread:
        following = (thread.submit(work, item) for item in items)
        pending = next(following, None)
        while pending is not None:
            now, pending = pending, next(following, None)
            yield now.result()


def _table(block: bytes) -> tuple[list[Any], bool]:
    """Read rows into columns: packet, time sent, time received, latency; False where a row is none."""
    names = ReadOptions(column_names=["packet", "tx_s", "rx_s", "latency_us"])
    types = ConvertOptions(column_types=dict.fromkeys(names.column_names, pa.float64()) | {"packet": pa.int64()})
    try:
        return [c.combine_chunks().to_numpy() for c in read_csv(pa.py_buffer(block), names, None, types).columns], True
    except (pa.ArrowInvalid, ValueError):  # slowly, up to the row that is damaged
        rows = takewhile(_ROW.fullmatch, block.decode("ascii", errors="replace").split("\n"))
        return list(np.array([r.split(", ") for r in rows], dtype=float).reshape(-1, 4).T), False


def _blocks(chunks: Callable[[], Iterator[bytes]], first: int, end: int) -> Iterator[bytes]:
    """Cut the bytes between two offsets into large blocks of whole lines."""
    place, waiting, size = 0, list[bytes](), 0
    for piece in chunks():
        part = piece[max(0, first - place) : max(0, end - place)]
        place += len(piece)
        cut = part.rfind(b"\n") + 1
        if size + len(part) >= _BLOCK and cut:
            yield b"".join((*waiting, part[:cut]))
            part, waiting, size = part[cut:], [], 0
        waiting.append(part)
        size += len(part)
        if place >= end:
            break
    if block := b"".join(waiting):
        yield block
