"""Finds the runs of sockperf in a text and reads their lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from ..draft import CONTRADICTION, Contradictory, Damaged, Draft, line_start, or_above
from ..parsed import ParsedRun, Percentile

NAME = "sockperf"
MARKS = (
    "sockperf",
    "vperf",
    "test was performed using the following parameters: ",
    "PORT = ",
    " observation",
)

# --- where runs are ---------------------------------------------------------------------------------------------------

# Each alternative begins with a literal character: for these the engine searches first, which is five times as fast.
_COMMAND = r"s(?<=\bs)ockperf (ping-pong|pp|under-load|ul|throughput|tp|playback|pb|server|sr) "
_STAGES = (
    (
        _COMMAND + r"(?=.*\n.*(?:version #|perf: |Usage: |: Run sockperf ))",
        r"perf: \+INFO:[ \t]*$",
    ),
    (r"=(?:3D=3D|=) version #",),
    (
        r"perf\[(?:CLIENT|SERVER)\]",
        r"\[(?:CLIENT|SERVER)\] (?:send|listen) on",
        r"\[ ?\d+\] IP =(?:3D)? ",
    ),
    (r"perf: Warmup stage",),
    (r"perf: Starting test",),
    (
        r"perf: Test end(?:ed\b| \(interrupted by (?:timer|user)\))",
    ),  # "by signal 2" may come at any later time
    (r"perf: \[Total Run\]", r"perf: Total of \d+ messages", r"perf: No messages were received"),
    (r"perf: =+ Printing statistics for Server No: 0", r"perf: NOTE: test was performed"),
    (r"perf: \[Valid Duration\]", r"perf: Summary: Message Rate"),
    (r"perf: =*> avg-", r"perf: Summary: BandWidth"),
    (r"perf: .{0,9}# dropped messages",),
    (r"perf: Summary: (?:Latency|Round trip)",),
    (r"perf: Total \d+ observations",),
    (r"perf: ---> .?MAX",),
    (r"perf: ---> .?MIN",),
)
"""The lines of a run in printed order; a step back in this order begins another run."""
_VERSION, _STATISTICS = 1, 6
_STAGE_OF = {
    f"s{stage}_{i}": stage for stage, lines in enumerate(_STAGES) for i in range(len(lines))
}
_STAGE = re.compile(
    "|".join(
        f"{line}(?P<{name}>)"
        for name, line in {
            **dict(zip(_STAGE_OF, (line for lines in _STAGES for line in lines), strict=True)),
            "log": r"t(?<=^t)est was performed using the following parameters: ",
            "usage": r"U(?<=^U)sage: sockperf ",
            "server": r"perf: =+ Printing statistics for Server No: \d",
            "any": r"perf: ",
        }.items()
    ),
    re.MULTILINE,
)
_RULE = re.compile(r"-{30}\n")


def sightings(text: str) -> Iterator[int]:
    """Yield the offset of the first line of each run."""
    reached: int | None = None
    start, in_log = 0, False
    for m in _STAGE.finditer(text):
        kind = str(m.lastgroup)
        if kind == "any":
            stage = reached or 0
        elif kind == "server":  # a further server of the same run
            reached = stage = _STATISTICS + 1
        elif kind == "usage":  # nothing follows
            stage = len(_STAGES)
        elif (
            kind == "log"
        ):  # the file of --full-log: by itself, or printed after the statistics of its run
            stage = _STATISTICS - 1
            if not in_log and _repeats(text, start, m.end()):
                reached = stage
            in_log = True
        else:
            stage = _STAGE_OF[kind]
        if (
            reached is None
            or stage < reached
            or (kind in _STAGE_OF and stage == reached == _VERSION)
        ):
            in_log = kind == "log"
            start = line_start(text, m.start())
            start = or_above(text, start, _RULE) if in_log else start
            yield start
        reached = stage


def _repeats(text: str, start: int, log: int) -> bool:
    """Return whether the log that begins at `log` has the totals of the run that begins at `start`."""
    own, its = (
        re.compile(r"\[Total Run\].*").search(text, *span)
        for span in ((start, log), (log, log + 500))
    )
    return bool(own and its and own[0] == its[0])


# --- one run ----------------------------------------------------------------------------------------------------------

_US = r"(\d+\.\d{3})(?!\d)"
_MOVED = r"RunTime=(\d+\.\d{3}) sec; (?:Warm up [a-z]+=\d+(?: msec)?; )?SentMessages=(\d+); ReceivedMessages=(\d+)"
_LINES = {
    "total": (
        rf"\[Total Run\] {_MOVED}(?:; SkippedMessages=\d+)?\s*\n",
        "total_s total_sent total_received",
    ),
    "valid": (rf"\[Valid Duration\] {_MOVED}\s*\n", "valid_s valid_sent valid_received"),
    "average": (
        rf"avg-(rtt|latency|lat)= *{_US} \(std-dev= *{_US}(?:, mean-ad=.*)?\)",
        "rtt mean deviation",
    ),
    "losses": (
        r"# dropped messages = (\d+); # duplicated messages = (\d+); # out-of-order messages = (\d+)\s*\n",
        "dropped duplicated disorder",
    ),
    "summary": (
        rf"Summary: (Latency|Round trip)(?: of burst of (\d+) messages)? is {_US} usec",
        "rtt - summary",
    ),
    "observations": (
        r"Total (\d+) observations; each percentile contains (\d+\.\d\d) observations",
        "observations observations_each",
    ),
    "max": (rf"---> <?MAX>? observation = *{_US}", "max"),
    "min": (rf"---> <?MIN>? observation = *{_US}", "min"),
    "sent": (r"Total of (\d+) messages sent in (\d+\.\d{3}) sec", "sent sent_s"),
    "rate": (r"Summary: Message Rate is (\d+) \[msg/sec\]", "rate"),
    "bandwidth": (r"Summary: BandWidth is (\d+\.\d{3,9}) (\w?)Bps \((\d+\.\d{3,9}) (\w?)bps\)", ""),
    "percentile": (rf"---> percentile *(\d+\.\d{{2,3}}) = *{_US}", ""),
}
"""Lines with figures: a pattern, and the names of the figures in it."""
_READABLE = {name: re.compile(pattern) for name, (pattern, _) in _LINES.items()}
_ANCHOR = re.compile(
    r"\[Total Run\](?P<total>)|\[Valid Duration\](?P<valid>)|=> avg-(?P<average>)|# dropped(?P<losses>)"
    r"|Summary: (?P<summary>)|Total \d+ observations(?P<observations>)|---> (?P<percentile>)"
    r"|Total of \d+ messages(?P<sent>)"
)
"""Shows that a line has figures, and which."""
_LIKELY = {"summary": ("summary", "rate", "bandwidth"), "percentile": ("max", "min", "percentile")}
_CANDIDATES = {
    anchor: [
        (n, _READABLE[n]) for n in dict.fromkeys((*_LIKELY.get(anchor, (anchor,)), *_READABLE))
    ]
    for anchor in _ANCHOR.groupindex
}
"""Lines by their anchor, the likely ones first; a damaged line may have several anchors."""
_HEADER = re.compile(  # before 3.0 with two columns
    r"^(?:packet, txTime\(sec\), rxTime\(sec\), (?:latency|rtt)\(usec\)|txTime, rxTime)[ \t]*\n",
    re.MULTILINE,
)
_STATISTICS_OF = "Printing statistics"
_FURTHER_SERVER = re.compile(_STATISTICS_OF + r" for Server No: [1-9].*\n")
_MODES = {
    "pp": "ping-pong",
    "ul": "under-load",
    "tp": "throughput",
    "pb": "playback",
    "sr": "server",
}
_COMPLAINTS = re.compile(
    r"ERROR:? .*|No messages were received from the server.*|No valid observations found.*|Test end before test start.*"
)
_NAMES = {
    p: "p" + f"{p:g}".replace(".", "")
    for p in (99.999, 99.99, 99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0)
}


def read(text: str) -> list[ParsedRun]:
    """Read one run, or one per server if a client talked to several."""
    starts = [0, *(line_start(text, m.start()) for m in _FURTHER_SERVER.finditer(text)), len(text)]
    at = text.find(_STATISTICS_OF)
    common = text[: line_start(text, len(text) if at < 0 else at)]
    runs = []
    for start, end in pairwise(starts):
        part = text[start:end]
        m = _HEADER.search(part) if "txTime" in part else None
        head = part[: m.start()] if m else part
        draft = Draft(NAME, 1 + text[:start].count("\n"))
        run = draft.filled(_fill, common + head if start else head)
        if m:
            from .packets import with_rows  # needs numpy, which no other log does

            run = with_rows(run, part[m.end() - 1 :], 1 + text[: start + m.end()].count("\n"))
        runs.append(run)
    return runs


def _fill(run: Draft, text: str) -> None:
    run.version = m[1] if (m := re.search(r"version #(\S+) ?==", text)) else None
    run.parameters, mode = _parameters(text)
    run.test = mode
    lines, figures, percentiles, cut = _lines(text)
    last = text.splitlines()[-1].strip() if text else ""
    latency, throughput = (
        {"average", "observations"} & lines.keys(),
        {"rate", "bandwidth"} & lines.keys(),
    )
    run.test = "throughput" if throughput else mode or _latency_mode(figures, run.parameters)
    if not latency and not throughput:
        raise Damaged(_why_nothing(text, last))
    if latency and throughput:
        raise Contradictory("figures of two modes in one run: a line between them is damaged")
    if lost := _lost(lines, percentiles):
        raise Contradictory(f"lines are lost, or of another process: {lost}")
    if wrong := _contradiction(figures, percentiles):
        raise Contradictory(CONTRADICTION + wrong)
    metrics = (
        _throughput(run, lines, figures)
        if throughput
        else _latencies(run, lines, figures, percentiles)
    )
    if gone := [
        f"{metric} (a line is missing)" for key, metric in metrics.items() if key not in lines
    ]:
        run.warnings.append(f"without {', '.join(gone)}")
    if cut or ("bandwidth" if throughput else "min") not in lines:
        run.warnings.append(f"the log ends early, after {last!r}")
    run.warnings += [m.strip() for m in _COMPLAINTS.findall(text)]


def _lines(
    text: str,
) -> tuple[dict[str, tuple[str, ...]], dict[str, float], dict[float, float], bool]:
    """Return the groups of each line by its name, the figures, the percentiles, and whether the last line is cut."""
    lines: dict[str, tuple[str, ...]] = {}
    figures: dict[str, float] = {}
    percentiles: dict[float, float] = {}
    cut = False
    rows = text.splitlines(keepends=True)
    for row in rows:
        anchor = _ANCHOR.search(row)
        if not anchor:
            continue
        candidates = _CANDIDATES[str(anchor.lastgroup)]
        name, m = next(((n, m) for n, p in candidates if (m := p.search(row))), ("", None))
        if m is None or (name == "percentile" and float(m[1]) not in {*_NAMES, 99.5}):
            cut = row is rows[-1] and not row.endswith("\n")
            if not cut:
                raise Damaged(f"not readable: {row.strip()!r}")
            continue
        if name == "percentile":
            name = f"percentile {m[1]}"
            percentiles[float(m[1])] = float(m[2])
        elif name == "bandwidth":
            figures[name] = _mebibytes(m[1], m[2])
        else:
            pairs = zip(_LINES[name][1].split(), m.groups(), strict=True)
            figures |= {n: float(g) for n, g in pairs if g is not None and n not in ("-", "rtt")}
        if lines.setdefault(name, m.groups()) != m.groups():
            raise Contradictory(f"two different values of {name}: {row.strip()!r} is the second")
    return lines, figures, percentiles, cut


def _throughput(
    run: Draft, lines: Mapping[str, tuple[str, ...]], figures: Mapping[str, float]
) -> dict[str, str]:
    """Take the figures of throughput mode; return the lines that it prints, each with its metric."""
    if "sent" in lines and "bandwidth" in lines and "rate" not in lines:
        raise Contradictory("lines are lost, or of another process: the message rate")
    rate, bandwidth, size = (
        figures.get("rate"),
        figures.get("bandwidth"),
        run.parameters.get("message_bytes"),
    )
    run.metrics = {
        "message_rate_per_s": rate,
        "throughput_sent_bps": bandwidth * 2**20 * 8 if bandwidth else None,
        "messages_count": figures.get("sent"),
        "duration_measured_s": figures.get("sent_s"),
    }
    if size and rate and bandwidth and _counts_headers(rate, int(size), bandwidth):
        run.warnings.append("the bandwidth counts 28 bytes of IP and UDP header per packet")
    return {
        "sent": "messages_count",
        "rate": "message_rate_per_s",
        "bandwidth": "throughput_sent_bps",
    }


def _latencies(
    run: Draft,
    lines: Mapping[str, tuple[str, ...]],
    figures: Mapping[str, float],
    percentiles: Mapping[float, float],
) -> dict[str, str]:
    """Take the figures of the other modes; return the lines that they print, each with its metric."""
    rtt = {"rtt", "Round trip"} & {*lines.get("average", ()), *lines.get("summary", ())}
    run.basis = "rtt" if rtt or run.parameters.get("full_rtt") else "latency_oneway"
    n = figures.get("observations")
    run.metrics = _latency(figures, percentiles, run.basis)
    run.percentiles = tuple(
        Percentile(p, v, None if n is None else _beyond(p, n))
        for p, v in sorted(percentiles.items())
    )
    metrics = {"valid": "duration_measured_s", "losses": "lost_count"}
    if _since_2_8(lines):  # these are printed for any number of observations
        least = 25.0 if n and n >= 4 else 50.0
        metrics |= {
            f"percentile {p:.3f}": f"{run.basis}_{_NAMES[p]}_us"
            for p in _NAMES
            if p != 95.0 and p >= least
        }
    if "summary" in lines or "full_rtt" in run.parameters:
        metrics["average"] = f"{run.basis}_stdev_us"
    elif "average" not in lines:
        if lines.keys() & {"total", "valid"} or "min" not in lines:
            raise Damaged(
                "the log does not tell whether its latencies are round trips or half round trips"
            )
        run.warnings.append(
            "the lines before the percentiles are missing, so half round trips are assumed"
        )
    return metrics


def _since_2_8(lines: Collection[str]) -> bool:
    """Return whether percentiles have three decimals; with two, there is none of 99.999."""
    return any(re.fullmatch(r"percentile \d+\.\d{3}", name) for name in lines)


def _why_nothing(text: str, last: str) -> str:
    if complaint := _COMPLAINTS.search(text):
        return complaint[0].strip()
    if re.search(r"^Usage: sockperf ", text, re.MULTILINE):
        return "no run: sockperf printed how it is used, so an option was wrong"
    if "[SERVER]" in text:
        return "the log of a server, which prints no figures; pass the client's"
    return f"no statistics: the log ends after {last!r}"


def _parameters(text: str) -> tuple[dict[str, str | int | float | bool], str | None]:
    """Return the settings that the log states, and the mode if it shows a command."""
    parameters: dict[str, str | int | float | bool] = {}
    if m := re.search(r"IP = (\S+)\s+PORT = +(\d+) # (TCP|UDP)", text):
        parameters |= {"server": m[1], "port": int(m[2]), "protocol": m[3].lower()}
    if m := re.search(r"using msg-size=(\d+)", text) or re.search(
        r"\t(?<=^\t)msg_size = (\d+)", text, re.MULTILINE
    ):
        parameters["message_bytes"] = int(m[1])
    if m := re.search(r"test was performed using the following parameters: (.*)\n", text):
        names = {
            "mps": "mps",
            "burst": "burst",
            "reply-every": "reply_every",
            "msg-size": "message_bytes",
        }
        for key, value in re.findall(r"--([a-z-]+)=(\d+)(?=\s|$)", m[1]):
            if key in names:
                parameters[names[key]] = int(value)
            elif key == "time":
                parameters["duration_s"] = float(value)
        if "--full-rtt" in m[1]:
            parameters["full_rtt"] = True
    if m := re.search(r"burst of (\d+) messages", text):
        parameters["burst"] = int(m[1])
    command = re.search(_COMMAND, text)
    return parameters, _MODES.get(command[1], command[1]) if command else None


def _latency_mode(
    figures: Mapping[str, float], parameters: Mapping[str, str | int | float | bool]
) -> str | None:
    """Tell ping-pong (each message waits for the previous answer) from under-load by the counts."""
    if int(parameters.get("reply_every", 1)) > 1:
        return "under-load"
    if "total_sent" not in figures or "dropped" not in figures:
        return None
    waiting = figures["total_sent"] - figures["total_received"] - figures["dropped"]
    return "ping-pong" if waiting <= int(parameters.get("burst", 1)) else "under-load"


def _lost(groups: Mapping[str, tuple[str, ...]], percentiles: Mapping[float, float]) -> str | None:
    """Say which lines are missing between others; None if none are, even if the log begins late or ends early."""
    printed = [p for p in _NAMES if p != 95.0 and (p != 99.999 or _since_2_8(groups))]
    lines: list[str | float] = ["average", "losses", "observations", "max", *printed, "min"]
    there = [name in groups or name in percentiles for name in lines]
    if not {"average", "observations"} & groups.keys():
        return None
    first, last = there.index(True), len(there) - 1 - there[::-1].index(True)
    # with few observations not every percentile is printed
    n, most = int(groups.get("observations", ("100000",))[0]), max(percentiles, default=0)
    missing = [x for x, t in zip(lines[first:last], there[first:last], strict=True) if not t]
    missing = [
        x for x in missing if isinstance(x, str) or (n >= 100 and (x < most or n >= 100_000))
    ]
    return (
        ", ".join(f"percentile {n:g}" if isinstance(n, float) else str(n) for n in missing) or None
    )


def _latency(
    value: Mapping[str, float], percentiles: Mapping[float, float], basis: str
) -> dict[str, float | None]:
    counts = {
        "messages_count": "observations",
        "lost_count": "dropped",
        "duplicated_count": "duplicated",
    }
    counts["out_of_order_count"] = "disorder"
    return {
        f"{basis}_us": value.get("mean", value.get("summary")),
        f"{basis}_stdev_us": value.get("deviation")
        or None,  # 0.000 with one observation, which has no deviation
        f"{basis}_min_us": value.get("min"),
        f"{basis}_max_us": value.get("max"),
        **{f"{basis}_{_NAMES[p]}_us": v for p, v in percentiles.items() if p in _NAMES},
        **{name: value.get(key) for name, key in counts.items()},
        "duration_measured_s": value.get("valid_s") or None,
    }


# --- do the figures agree? --------------------------------------------------------------------------------------------


def _beyond(percentile: float, n: float) -> int:
    """Return how many of `n` observations are beyond the one that sockperf prints (client.cpp, `printPercentiles`)."""
    return int(n) - int(0.5 + round(percentile / 100, 7) * n)


def _mebibytes(number: str, prefix: str) -> float:
    """Return units of 2^20 per second from a number and the prefix of "Bps" or "bps"; `Damaged` if it is unknown."""
    nine = (
        len(number.partition(".")[2]) > 3
    )  # --increase_output_precision of 3.7 says G where it means M
    factor = {"M": 1.0, "G": 1.0 if nine else 1000.0}.get(prefix)
    if factor is None:
        raise Damaged(f"unknown unit {prefix + 'Bps'!r} of a bandwidth: {number} {prefix}Bps")
    return float(number) * factor


def _contradiction(v: Mapping[str, float], percentiles: Mapping[float, float]) -> str | None:
    """Say which figures contradict each other; None if none do."""
    if (n := v.get("observations")) is not None and v.get("valid_received", n) != n:
        return f"{v['valid_received']:.0f} messages received in the valid duration, {n:.0f} observations"
    points = [(0.0, v["min"])] if "min" in v else []
    points += sorted(percentiles.items())
    points += [(100.0, v["max"])] if "max" in v else []
    for (p, low), (q, high) in pairwise(points):
        if low > high:
            return f"percentile {p:g} is {low:g}, percentile {q:g} is {high:g}"
    if v.keys() >= {"min", "mean", "max"} and not v["min"] <= v["mean"] <= v["max"]:
        return f"the average is {v['mean']:g}, and all latencies are {v['min']:g} to {v['max']:g}"
    if v.get("summary") != v.get("mean") and {"summary", "mean"} <= v.keys():
        return f"the average is {v['mean']:g}, the summary says {v['summary']:g}"
    return None


def _counts_headers(rate: float, message: int, bandwidth: float) -> bool:
    """Return whether the bandwidth counts IP and UDP headers, as in the first versions ("vperf")."""
    with_headers = rate * (message + 28 * -(-message // 1472)) / 2**20
    return abs(bandwidth - with_headers) < abs(bandwidth - rate * message / 2**20)
