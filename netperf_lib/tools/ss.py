"""The kernel's account of a run's connections.

Samples taken on both hosts while it ran, read into columns.

A file of samples is text, as `SCRIPT` prints it: ``@time``, the
lines of ``ss -tinmHO``, ``=time``, a line ``task id on waiting`` (``/proc/PID/task/ID/schedstat``,
nanoseconds) for each thread of the tool, and the lines of ``/proc/stat`` for each core. Times of
the kernel are cumulative: only differences after slow start count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any

SCRIPT = r"""
command -v ss >/dev/null || exit 0
ports="( sport ge :$1 and sport le :$2 ) or ( dport ge :$1 and dport le :$2 )"
tcp() { ss "$1" state established "$ports"; }
looks=0; pids=
while :; do
  printf '@'; date +%s.%N
  if [ $looks -lt 2 ]; then
    lines=$(tcp -tinmHOp); printf '%s\n' "$lines"
    seen=$(printf '%s' "$lines" | grep -o 'pid=[0-9]*' | sort -u) && pids=$seen && looks=$((looks + 1))
  else tcp -tinmHO; fi
  printf '='; date +%s.%N
  for p in $pids; do
    for f in "/proc/${p#pid=}/task/"*/schedstat; do
      read -r on waiting _ <"$f" && f=${f%/schedstat} && echo "task ${f##*/} $on $waiting"
    done
  done 2>/dev/null
  grep '^cpu[0-9]' /proc/stat
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
_SENT = re.compile(
    r" (bytes_acked|busy|rwnd_limited|sndbuf_limited|notsent|data_segs_out|snd_wnd"
    r"|rtt|minrtt|delivery_rate|bbr|retrans)[: ]"
    r"(?:\(bw:|(?<=retrans:)\d+/)?(\d+(?:\.\d+)?)"
)
_RECEIVED = re.compile(r" (bytes_received|skmem):(?:\(r\d+,rb)?(\d+)")
"""The figures of a sender and of a receiver that are used; a line has four times as many. Of
``retrans`` the segments on the whole connection, of ``skmem`` the size of the receive buffer."""


@dataclass(slots=True)
class SocketSample:
    """One sample of a host."""

    at_s: float
    tasks_at_s: float = 0.0
    sockets: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Figures of each connection as they are written, by its local and peer address."""
    tasks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds on a processor, and waiting for one, of each thread."""
    cores: dict[str, list[int]] = field(default_factory=dict)


def read_samples(text: str, *, receiver: bool = False) -> list[SocketSample]:
    """Read a file of samples: what is used of the sender of the data, or of their receiver.

    A sample that was cut short keeps what it has, and damaged lines are left out.
    """
    samples: list[SocketSample] = []
    figures = _RECEIVED if receiver else _SENT
    for line in text.splitlines():
        kind = line[:1]
        try:
            if kind == "@":
                samples.append(SocketSample(float(line[1:])))
            elif not samples:
                continue
            elif kind.isdecimal():
                unread, _, *ends = line.split(maxsplit=4)[:4]
                found = dict(figures.findall(line), unread=unread)
                if " app_limited" in line:
                    found["app"] = "1"
                samples[-1].sockets[ends[0], ends[1]] = found
            elif kind == "=":
                samples[-1].tasks_at_s = float(line[1:])
            elif kind == "t" and samples[-1].tasks_at_s:
                _, task, on, waiting = line.split()
                samples[-1].tasks[task] = float(on) / 1e9, float(waiting) / 1e9
            elif kind == "c" and receiver:
                core, *spent = line.split()[:9]
                samples[-1].cores[core] = [int(word) for word in spent]
        except (ValueError, IndexError):
            continue
    return samples


Series = list[tuple[float, dict[str, str]]]


def _flows(samples: Sequence[SocketSample], bytes_of: str) -> list[Series]:
    """Samples of each data connection."""
    flows: dict[tuple[str, str], Series] = {}
    for sample in samples:
        for addresses, figures in sample.sockets.items():
            if float(figures.get(bytes_of, 0)) > DATA_BYTES:
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
        for thread in a.tasks.keys() & b.tasks.keys() if time_s > 0 else ():
            on, waiting = (
                (b.tasks[thread][i] - a.tasks[thread][i]) / time_s for i in (0, 1)
            )
            threads.setdefault(thread, []).append((on, waiting))
    medians = [sorted(parts, key=sum)[len(parts) // 2] for parts in threads.values()]
    return max(medians, key=sum, default=(None, None))


def _core(samples: Sequence[SocketSample]) -> tuple[float | None, float | None]:
    """Busy share of the fullest core, and the share of its time in soft interrupts."""
    cores = [s.cores for s in samples if s.cores]
    shares = []
    for core in cores[0].keys() & cores[-1].keys() - {"cpu"} if cores else ():
        moved = [b - a for a, b in zip(cores[0][core], cores[-1][core], strict=False)]
        if len(moved) == 8 and sum(moved) >= 20:
            shares.append((1 - (moved[3] + moved[4]) / sum(moved), moved[6] / sum(moved)))
    return max(shares, default=(None, None))


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
    samples["receiver"] = read_samples(receiver, receiver=True)
    sent = _flows(samples["sender"], "bytes_acked")
    if not sent:
        return {}
    since = (
        min(series[0][0] for series in sent) + omit_s + min(SLOW_START_S, duration_s / 4)
    )
    until = max(series[-1][0] for series in sent) + 0.1
    used = [[(t, f) for t, f in series if t >= since] for series in sent]
    used = [series for series in used if len(series) >= 2]
    if not used:
        return {}
    n, span = len(used), sum(series[-1][0] - series[0][0] for series in used)
    rows = [f for series in used for _, f in series]

    def grown(name: str) -> float:
        moved = 0.0
        for series in used:
            moved += float(series[-1][1].get(name, 0)) - float(series[0][1].get(name, 0))
        return moved

    def column(name: str) -> list[float]:
        return [float(f[name]) for f in rows if name in f]

    columns: dict[str, Any] = {
        "limit_connections": n,
        "limit_bps": grown("bytes_acked") * 8 / (span / n),
        "limit_busy_ratio": grown("busy") / 1e3 / span,
        "limit_receive_window_ratio": grown("rwnd_limited") / 1e3 / span,
        "limit_send_buffer_ratio": grown("sndbuf_limited") / 1e3 / span,
        "limit_application_ratio": fmean("app" in f for f in rows),
        "limit_unsent_none_ratio": fmean(not float(f.get("notsent", 0)) for f in rows),
        "limit_sent_again_ratio": grown("retrans") / max(1.0, grown("data_segs_out")),
        "limit_sent_again_count": grown("retrans"),
        "limit_delivery_bps": median(column("delivery_rate") or [0]) * n,
        "limit_bbr_bps": median(column("bbr")) * n if column("bbr") else None,
        "limit_window_bytes": max(column("snd_wnd"), default=None),
    }
    if column("rtt") and column("minrtt"):
        columns["limit_rtt_us"] = 1e3 * median(column("rtt"))
        columns["limit_rtt_min_us"] = 1e3 * min(column("minrtt"))
    received = _flows(samples["receiver"], "bytes_received")
    arrived = [row for series in received for row in series]
    if theirs := [f for t, f in arrived if t >= since]:
        buffers = [float(f["skmem"]) for f in theirs if "skmem" in f]
        columns["limit_receive_buffer_bytes"] = max(buffers, default=None)
        columns["limit_unread_bytes"] = median(float(f["unread"]) for f in theirs)
    for side, every in samples.items():
        during = [s for s in every if since <= s.at_s <= until]
        on, waiting = _processor(during)
        columns |= {f"limit_{side}_on_ratio": on, f"limit_{side}_waiting_ratio": waiting}
        if side == "receiver":
            core, softirq = _core(during)
            columns["limit_receiver_core_ratio"] = core
            columns["limit_receiver_softirq_ratio"] = softirq
    return columns
