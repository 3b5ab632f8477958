"""Where runs of sockperf start in a text, and what its lines say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from ..alternatives import alternatives
from ..cleaning import clean, decode
from ..parsed import ParsedRun, Percentile
from .checks import beyond_of, contradiction, mebibytes, on_wire

NAME = "sockperf"
MARKS = ("sockperf", "vperf", "test was performed using the following parameters: ", "PORT = ", " observation")

# --- where runs are ---------------------------------------------------------------------------------------------------

_COMMAND = r"\bsockperf (ping-pong|pp|under-load|ul|throughput|tp|playback|pb|server|sr) "
_COMMANDS = re.compile(_COMMAND.replace(r"\bs", r"s(?<=\bs)", 1))  # begins with a literal character: five times as fast
_STAGES = (
    (0, _COMMAND.replace("(", "(?:") + r"(?=.*\n.*(?:version #|perf: |Usage: |: Run sockperf ))"),
    (0, r"perf: \+INFO:[ \t]*$"),
    (1, r"== version #"),
    (1, r"=3D=3D version #"),
    (2, r"perf\[(?:CLIENT|SERVER)\]"),
    (2, r"\[(?:CLIENT|SERVER)\] (?:send|listen) on"),
    (2, r"\[ ?\d+\] IP =(?:3D)? "),
    (3, r"perf: Warmup stage"),
    (4, r"perf: Starting test"),
    (5, r"perf: Test end(?:ed\b| \(interrupted by (?:timer|user)\))"),  # "by signal 2" may come any time later
    (6, r"perf: \[Total Run\]"),
    (6, r"perf: Total of \d+ messages"),
    (6, r"perf: No messages were received"),
    (7, r"perf: =+ Printing statistics for Server No: 0"),
    (7, r"perf: NOTE: test was performed"),
    (8, r"perf: \[Valid Duration\]"),
    (8, r"perf: Summary: Message Rate"),
    (9, r"perf: =*> avg-"),
    (9, r"perf: Summary: BandWidth"),
    (10, r"perf: .{0,9}# dropped messages"),
    (11, r"perf: Summary: (?:Latency|Round trip)"),
    (12, r"perf: Total \d+ observations"),
    (13, r"perf: ---> .?MAX"),
    (14, r"perf: ---> .?MIN"),
)
"""The lines of a run in the order in which they are printed: where the order goes back, another run begins."""
_VERSION, _STATISTICS, _LAST = 1, 6, 14
_STAGE_OF = {f"s{i}": stage for i, (stage, _) in enumerate(_STAGES)}
_STAGE = alternatives(
    {
        **{f"s{i}": line for i, (_, line) in enumerate(_STAGES)},
        "log": r"^test was performed using the following parameters: ",
        "usage": r"^Usage: sockperf ",
        "server": r"perf: =+ Printing statistics for Server No: \d",
        "any": r"perf: ",
    },
    prefix="perf: ",
)
_RULE = "-" * 30 + "\n"


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
            stage = _STAGE_OF[kind]
        if reached is None or stage < reached or (kind in _STAGE_OF and stage == reached == _VERSION):
            in_log = kind == "log"
            start = text.rfind("\n", 0, m.start()) + 1
            if in_log and (above := text.rfind("\n", 0, max(start - 1, 0)) + 1) + len(_RULE) == start:
                start = above if text.startswith(_RULE, above) else start
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
    r"\[Total Run\](?P<total>)|\[Valid Duration\](?P<valid>)|=> avg-(?P<average>)|# dropped(?P<losses>)"
    r"|Summary: (?P<summary>)|Total \d+ observations(?P<observations>)|---> (?P<percentile>)"
    r"|Total of \d+ messages(?P<sent>)"
)
"""What shows that a line holds figures, and which."""
_LIKELY = {"summary": ("summary", "rate", "bandwidth"), "percentile": ("max", "min", "percentile")}
_CANDIDATES = {
    anchor: [(n, _READABLE[n]) for n in dict.fromkeys((*_LIKELY.get(anchor, (anchor,)), *_READABLE))]
    for anchor in _ANCHOR.groupindex
}
"""Figures by the anchor of a line, the likely ones first: a damaged line may hold several anchors."""
_TITLES = b"packet, txTime(sec), rxTime(sec), "
_HEADER = re.compile(  # before 3.0 with two columns
    r"^(?:packet, txTime\(sec\), rxTime\(sec\), (?:latency|rtt)\(usec\)|txTime, rxTime)[ \t]*\n", re.MULTILINE
)
_STATISTICS_OF = "Printing statistics"
_FURTHER_SERVER = re.compile(_STATISTICS_OF + r" for Server No: [1-9].*\n")
_MODES = {"pp": "ping-pong", "ul": "under-load", "tp": "throughput", "pb": "playback", "sr": "server"}
_COMPLAINTS = re.compile(
    r"ERROR:? .*|No messages were received from the server.*|No valid observations found.*|Test end before test start.*"
)


def read(text: str) -> list[ParsedRun]:
    """Read one run; where a client talked to several servers, one for each."""
    text = text.replace("**", "")  # marked bold where it was pasted
    if "=3D" in text:  # an e-mail as it travels
        text = text.replace("=\n", "").replace("=3D", "=")
    starts = [0, *(text.rfind("\n", 0, m.start()) + 1 for m in _FURTHER_SERVER.finditer(text)), len(text)]
    common = text[: text.rfind("\n", 0, at) + 1] if (at := text.find(_STATISTICS_OF)) >= 0 else ""
    runs = []
    for start, end in pairwise(starts):
        part = text[start:end]
        head, rows = part, None
        if "txTime" in part and (m := _HEADER.search(part)):
            head, rows = part[: m.start()], part[m.end() :]
        line = text.count("\n", 0, start) + 1
        run = _run(common + head if start else head, line)
        if rows is not None:
            from .packets import with_rows  # with numpy, which no other log needs

            run = with_rows(run, rows, text.count("\n", 0, end - len(rows)) + 1)
        runs.append(run)
    return runs


def _run(text: str, line: int = 1) -> ParsedRun:
    """Read the lines of one run without its packets."""
    parameters, mode = _parameters(text)
    version = re.search(r"version #(\S+) ?==", text)

    def result(test: str | None, **what: Any) -> ParsedRun:
        return ParsedRun(
            tool=NAME,
            test=test,
            tool_version=version[1] if version else None,
            parameters=parameters,
            line=line,
            **what,
        )

    found: dict[str, tuple[str, ...]] = {}
    percentiles: dict[float, float] = {}
    cut = False
    rows = text.splitlines(keepends=True)
    for row in rows:
        anchor = _ANCHOR.search(row)
        if not anchor:
            continue
        whole = row.rstrip() + "\n" if row.endswith("\n") else row
        candidates = _CANDIDATES[str(anchor.lastgroup)]
        name, m = next(((n, m) for n, p in candidates if (m := p.search(whole))), (None, None))
        if m is None or name is None or (name == "percentile" and float(m[1]) not in _PERCENTILES):
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
    if lost := _lost(found, percentiles):
        return result(test, status="failed", error=f"lines are lost, or of another process: {lost}")
    wrong = contradiction(found, percentiles, parameters, test)
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
        points = tuple(Percentile(p, v, beyond_of(p, n)) for p, v in sorted(percentiles.items()))
    warnings = []
    wanted = {"sent": "messages_count", "rate": "message_rate_per_s", "bandwidth": "throughput_sent_bps"}
    if basis:
        wanted = {"valid": "duration_measured_s", "losses": "lost_count"}
        if "percentile 50.000" in found:  # since 2.8 these are printed of any number of observations
            wanted |= {f"percentile {p:.3f}": f"{basis}_{_NAMES[p]}_us" for p in _NAMES if p not in (95.0, 25.0)}
    if gone := [f"{metric} (a line is missing)" for line, metric in wanted.items() if line not in found]:
        warnings.append(f"without {', '.join(gone)}")
    if cut or (basis and "min" not in found) or (not basis and "bandwidth" not in found):
        warnings.append(f"the log ends early, after {rows[-1].strip()!r}")
    if basis and "average" not in found:
        warnings.append("the lines before the percentiles are missing, so halves of round trips are assumed")
    size = int(parameters.get("message_bytes", 0))
    if (
        size
        and {"rate", "bandwidth"} <= found.keys()
        and on_wire(int(found["rate"][0]), size, *mebibytes(*found["bandwidth"][:2]))
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
    if m := re.search(r"using msg-size=(\d+)", text) or re.search(r"\t(?<=^\t)msg_size = (\d+)", text, re.MULTILINE):
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
    command = _COMMANDS.search(text)
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


_PERCENTILES = {*_NAMES, 99.5}


def _lost(found: Mapping[str, tuple[str, ...]], percentiles: Mapping[float, float]) -> str | None:
    """Tell which line is missing between others; a log that begins late or ends early has none."""
    lines: list[str | float] = [
        "average",
        "losses",
        "observations",
        "max",
        *sorted(set(_NAMES) - {95.0}, reverse=True),
        "min",
    ]
    there = [name in found or name in percentiles for name in lines]
    if True not in there or not {"average", "observations"} & found.keys():
        return None
    first, last = there.index(True), len(there) - 1 - there[::-1].index(True)
    # of few observations not every percentile is printed
    n, most = int(found.get("observations", ("100000",))[0]), max(percentiles, default=0)
    missing = [x for x, t in zip(lines[first:last], there[first:last], strict=True) if not t]
    missing = [x for x in missing if isinstance(x, str) or (n >= 100 and (x < most or n >= 100_000))]
    return ", ".join(f"percentile {n:g}" if isinstance(n, float) else str(n) for n in missing) or None


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


def _throughput(found: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if "rate" in found:
        metrics["message_rate_per_s"] = int(found["rate"][0])
    if "bandwidth" in found:
        number, prefix, _, _ = found["bandwidth"]
        metrics["throughput_sent_bps"] = mebibytes(number, prefix)[0] * 2**20 * 8
    if "sent" in found:
        metrics |= {"messages_count": int(found["sent"][0]), "duration_measured_s": float(found["sent"][1])}
    return metrics


# --- the file of --full-log -------------------------------------------------------------------------------------------


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
    from .packets import incomplete, span, streamed

    found = span(chunks, first)
    if found is None:
        return None
    end, last = found
    at = next(sightings(head))
    [run] = read(head[at:])  # partial: none of its packets is in this text
    if run.status == "failed":
        return [replace(run, line=1 + head.count("\n", 0, at))]
    whole = _run(head[at : head.index(_TITLES.decode(), at)])
    count = int(last.partition(b",")[0]) + 1 if last else 0
    halves = 1 if whole.percentile_basis == "rtt" else 2
    samples = partial(streamed, chunks, first, end, halves, head.count("\n") + 1)
    run = replace(whole, line=1 + head.count("\n", 0, at), samples_count=count, samples=samples)
    wanted = whole.metrics.get("messages_count")
    if count != wanted:
        run = incomplete(run, f"the log ends after {count} of {wanted or 0:.0f} packets")
    return [run]
