"""The kernel's account of a run's connections.

Samples taken on both hosts while it ran, read into columns.

A file of samples is text, as `SCRIPT` prints it: ``@time``, the lines of ``ss -tinHO``, ``=time``,
and a line ``task id on waiting`` (``/proc/PID/task/ID/schedstat``, nanoseconds) for each thread of
the tool. Times of the kernel are cumulative: only differences after slow start count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

SCRIPT = r"""
command -v ss >/dev/null || exit 0
ports="( sport ge :$1 and sport le :$2 ) or ( dport ge :$1 and dport le :$2 )"
tcp() { ss "$1" state established "$ports"; }
looks=0; pids=
while :; do
  printf '@'; date +%s.%N
  if [ $looks -lt 2 ]; then
    lines=$(tcp -tinHOp); printf '%s\n' "$lines"
    seen=$(printf '%s' "$lines" | grep -o 'pid=[0-9]*' | sort -u) && pids=$seen && looks=$((looks + 1))
  else tcp -tinHO; fi
  printf '='; date +%s.%N
  for p in $pids; do
    for f in "/proc/${p#pid=}/task/"*/schedstat; do
      read -r on waiting _ <"$f" && f=${f%/schedstat} && echo "task ${f##*/} $on $waiting"
    done
  done 2>/dev/null
  sleep "$3"
done
"""  # noqa: E501  (as it is run or printed)
"""Sample the TCP connections of the ports ``$1`` to ``$2`` every ``$3`` seconds, until it is
stopped.

Looking up the processes of sockets is the expensive part, which is done until they are known.
"""
SAMPLES = "-connections.gz"
"""End of the name of a file of samples, after ``client`` or ``server``."""
DATA_BYTES = 20_000
"""A connection that carried fewer bytes is the control connection of a tool."""
SLOW_START_S = 0.7
"""The start that is left out, of a run of three seconds or more."""
_FIGURE = re.compile(
    r" (bytes_acked|bytes_received|busy|rwnd_limited|sndbuf_limited):(\d+)"
)
"""The figures that are used."""


@dataclass(slots=True)
class SocketSample:
    """One sample of a host."""

    at_s: float
    tasks_at_s: float = 0.0
    sockets: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Figures of each connection as they are written, by its local and peer address."""
    tasks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds on a processor, and waiting for one, of each thread."""


def read_samples(text: str, *, connections: bool = True) -> list[SocketSample]:
    """Read a file of samples, with the figures of the connections or without.

    A sample that was cut short keeps what it has, and damaged lines are left out.
    """
    samples: list[SocketSample] = []
    for line in text.splitlines():
        kind = line[:1]
        try:
            if kind == "@":
                samples.append(SocketSample(float(line[1:])))
            elif not samples:
                continue
            elif kind.isdecimal() and connections:
                _, _, here, there = line.split(maxsplit=4)[:4]
                figures = dict(_FIGURE.findall(line))
                figures["app"] = " app_limited" in line
                samples[-1].sockets[here, there] = figures
            elif kind == "=":
                samples[-1].tasks_at_s = float(line[1:])
            elif kind == "t" and samples[-1].tasks_at_s:
                _, task, on, waiting = line.split()
                samples[-1].tasks[task] = float(on) / 1e9, float(waiting) / 1e9
        except ValueError:
            continue
    return samples


Series = list[tuple[float, dict[str, Any]]]


def _flows(samples: Sequence[SocketSample]) -> list[Series]:
    """Samples of each connection that sends data."""
    flows: dict[tuple[str, str], Series] = {}
    for sample in samples:
        for addresses, figures in sample.sockets.items():
            if int(figures.get("bytes_acked", 0)) > DATA_BYTES:
                flows.setdefault(addresses, []).append((sample.at_s, figures))
    return [series for series in flows.values() if len(series) >= 3]


def _processor(samples: Sequence[SocketSample]) -> tuple[float | None, float | None]:
    """Shares of the time that the fullest thread spent on a processor, and waiting for one.

    They are those of the median interval: in the mean, the one in which the transfer ended would
    hide a processor at its limit.
    """
    threads: dict[str, list[tuple[float, float]]] = {}
    for a, b in pairwise(s for s in samples if s.tasks):
        time_s = b.tasks_at_s - a.tasks_at_s
        if time_s <= 0:
            continue
        for thread in a.tasks.keys() & b.tasks.keys():
            on = (b.tasks[thread][0] - a.tasks[thread][0]) / time_s
            waiting = (b.tasks[thread][1] - a.tasks[thread][1]) / time_s
            threads.setdefault(thread, []).append((on, waiting))
    medians = [sorted(parts, key=sum)[len(parts) // 2] for parts in threads.values()]
    return max(medians, key=sum, default=(None, None))


def evidence(
    sender: str, receiver: str, *, duration_s: float = 10.0, omit_s: float = 0.0
) -> dict[str, Any]:
    """Return the columns of evidence (see `netperf_lib.metrics.EVIDENCE`) of one run.

    Parameters
    ----------
    sender, receiver : str
        Samples of the host that sends the data and of the one that receives them; either may be
        empty.
    duration_s, omit_s : float
        Of the test: its start is left out.

    Returns
    -------
    dict
        What is known: empty without samples of a data connection at the sender.
    """
    samples = {"sender": read_samples(sender)}
    samples["receiver"] = read_samples(receiver, connections=False)
    sent = _flows(samples["sender"])
    if not sent:
        return {}
    start = min(series[0][0] for series in sent)
    since = start + omit_s + min(SLOW_START_S, duration_s / 4)
    until = max(series[-1][0] for series in sent) + 0.1
    totals: dict[str, float] = {}
    span, applications, connections = 0.0, [], 0
    for series in sent:
        used = [(time, figures) for time, figures in series if time >= since]
        if len(used) < 2:
            continue
        (begin, first), (end, last) = used[0], used[-1]
        connections += 1
        span += end - begin
        applications += [figures["app"] for _, figures in used]
        for name in ("bytes_acked", "busy", "rwnd_limited", "sndbuf_limited"):
            grown = int(last.get(name, 0)) - int(first.get(name, 0))
            totals[name] = totals.get(name, 0) + grown
    if not connections:
        return {}
    milliseconds = 1e3 * span
    columns: dict[str, Any] = {
        "limit_connections": connections,
        "limit_bps": totals["bytes_acked"] * 8 / (span / connections),
        "limit_busy_ratio": totals["busy"] / milliseconds,
        "limit_receive_window_ratio": totals["rwnd_limited"] / milliseconds,
        "limit_send_buffer_ratio": totals["sndbuf_limited"] / milliseconds,
        "limit_application_ratio": fmean(applications),
    }
    for side, every in samples.items():
        during = [sample for sample in every if since <= sample.at_s <= until]
        on, waiting = _processor(during)
        columns |= {f"limit_{side}_on_ratio": on, f"limit_{side}_waiting_ratio": waiting}
    return columns
