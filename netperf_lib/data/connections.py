"""The kernel's account of a run's connections.

Samples taken on both hosts while it ran, read into columns.

A file of samples is text, as `netperf_lib.measure.facts.CONNECTIONS` prints it: ``@time``, the
lines of ``ss -tinmHO``, ``=time``, a line ``task id on waiting`` (``/proc/PID/task/ID/schedstat``,
nanoseconds) for each thread of the tool, and the lines of ``/proc/stat`` for each core. Times of
the kernel are cumulative: only differences after slow start count.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from .logs import MAX_BYTES

if TYPE_CHECKING:
    from .layout import RawFolder

SAMPLES = "-connections.gz"
"""End of the name of a file of samples, after ``client`` or ``server``."""
LOAD = "client-load"
"""Name in the record of the load under which a test is measured: the side whose connections were
sampled, if so."""
DATA_BYTES = 20_000
"""A connection that carried fewer bytes is the control connection of a tool."""
SLOW_START_S = 0.7
"""The start that is left out, of a run of three seconds or more."""
_FIGURE = re.compile(r"\b([a-z_]+)(?:[: ]|:\(bw:)(\d+(?:\.\d+)?)")
_MEMORY = re.compile(r"skmem:\(r\d+,rb(\d+),")
_SENT_AGAIN = re.compile(r"retrans:\d+/(\d+)")


@dataclass(slots=True)
class SocketSample:
    """One sample of a host."""

    at_s: float
    tasks_at_s: float = 0.0
    sockets: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """Figures of each connection, by its local and peer address."""
    tasks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds on a processor, and waiting for one, of each thread."""
    cores: dict[str, list[int]] = field(default_factory=dict)


def _socket(line: str, words: list[str]) -> dict[str, float]:
    figures = {name: float(value) for name, value in _FIGURE.findall(line)}
    figures |= {
        "unread": float(words[0]),
        "app": float(" app_limited" in line),
    }
    for name, pattern in (("buffer", _MEMORY), ("again", _SENT_AGAIN)):
        if m := pattern.search(line):
            figures[name] = float(m[1])
    return figures


def read_samples(text: str) -> list[SocketSample]:
    """Read a file of samples.

    A sample that was cut short keeps what it has, and damaged lines are left out.
    """
    samples: list[SocketSample] = []
    for line in text.splitlines():
        words = line.split()
        try:
            if line.startswith("@"):
                samples.append(SocketSample(float(line[1:])))
            elif not samples or not words:
                continue
            elif line.startswith("="):
                samples[-1].tasks_at_s = float(line[1:])
            elif words[0] == "task" and samples[-1].tasks_at_s:
                samples[-1].tasks[words[1]] = float(words[2]) / 1e9, float(words[3]) / 1e9
            elif words[0].startswith("cpu"):
                samples[-1].cores[words[0]] = [int(word) for word in words[1:9]]
            elif words[0].isdecimal():
                samples[-1].sockets[words[2], words[3]] = _socket(line, words)
        except (ValueError, IndexError):
            continue
    return samples


Series = list[tuple[float, dict[str, float]]]


def _flows(samples: Sequence[SocketSample], bytes_of: str) -> list[Series]:
    """Samples of each data connection."""
    flows: dict[tuple[str, str], Series] = {}
    for sample in samples:
        for addresses, figures in sample.sockets.items():
            if figures.get(bytes_of, 0) > DATA_BYTES:
                flows.setdefault(addresses, []).append((sample.at_s, figures))
    return [series for series in flows.values() if len(series) >= 3]


def _processor(samples: Sequence[SocketSample]) -> tuple[float | None, float | None]:
    """Shares of the time on a processor, and waiting for one, of the fullest thread.

    Of the median interval.

    Of the mean, the interval in which the transfer ended would hide a processor at its limit.
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
    samples = {"sender": read_samples(sender), "receiver": read_samples(receiver)}
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
        return sum(
            series[-1][1].get(name, 0) - series[0][1].get(name, 0) for series in used
        )

    def column(name: str) -> list[float]:
        return [f[name] for f in rows if name in f]

    columns: dict[str, Any] = {
        "limit_connections": n,
        "limit_bps": grown("bytes_acked") * 8 / (span / n),
        "limit_busy_ratio": grown("busy") / 1e3 / span,
        "limit_receive_window_ratio": grown("rwnd_limited") / 1e3 / span,
        "limit_send_buffer_ratio": grown("sndbuf_limited") / 1e3 / span,
        "limit_application_ratio": mean(f["app"] for f in rows),
        "limit_unsent_none_ratio": mean(not f.get("notsent") for f in rows),
        "limit_sent_again_ratio": grown("again") / max(1.0, grown("data_segs_out")),
        "limit_sent_again_count": grown("again"),
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
        buffers = [f["buffer"] for f in theirs if "buffer" in f]
        columns["limit_receive_buffer_bytes"] = max(buffers, default=None)
        columns["limit_unread_bytes"] = median(f["unread"] for f in theirs)
    for side, every in samples.items():
        during = [s for s in every if since <= s.at_s <= until]
        on, waiting = _processor(during)
        columns |= {f"limit_{side}_on_ratio": on, f"limit_{side}_waiting_ratio": waiting}
        if side == "receiver":
            core, softirq = _core(during)
            columns["limit_receiver_core_ratio"] = core
            columns["limit_receiver_softirq_ratio"] = softirq
    return columns


def of_record(folder: RawFolder, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of evidence of a run from the files in its folder and its record.

    What is absent is left out.

    Only files that are as the record describes them are read; ValueError for another one.
    """
    trial = record["trial"]
    options = {**trial, **(trial.get("options") or {})}
    backwards = (
        "-R" in record["commands"][LOAD]
        if record.get("sampled") == LOAD
        else options.get("reverse")
    )
    hosts = ("server", "client") if backwards else ("client", "server")
    texts = {}
    for host in hosts:
        name = f"{host}{SAMPLES}"
        data = b""
        if name in record["files"]:
            data = folder.file(name, record).read_bytes()
        # a stream that was cut short, as after a crash, keeps what came before; one of others may
        # unpack to anything
        texts[host] = (
            zlib.decompressobj(wbits=31)
            .decompress(data, MAX_BYTES)
            .decode("utf-8", "replace")
        )
    columns = _buffers(record, *hosts)
    if any(texts.values()):
        times = {name: float(options.get(name) or 0) for name in ("duration_s", "omit_s")}
        columns |= evidence(texts[hosts[0]], texts[hosts[1]], **times)
    return columns


def settings_of(record: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    """Return the sysctl settings of a host when a run was measured; empty if not known."""
    facts = (record.get("facts") or {}).get(host) or {}
    return facts.get("sysctl") or {}


def largest_buffer(settings: Mapping[str, Any] | None, name: str) -> int | None:
    """Return the last of the three sizes of ``tcp_rmem`` or ``tcp_wmem``; None if not known."""
    size = str((settings or {}).get(name)).split()[2:]
    return int(size[0]) if size and size[0].isdecimal() else None


def _buffers(record: Mapping[str, Any], sender: str, receiver: str) -> dict[str, Any]:
    """The largest TCP buffers: what the tool asks for, which the kernel doubles.

    Else the hosts' settings.
    """
    command = list(map(str, record["commands"][record.get("sampled", "client")]))
    asked = [int(b) for a, b in pairwise(command) if a == "-w" and b.isdecimal()]
    columns: dict[str, Any] = {}
    for column, host, name, core in (
        ("limit_send_max_bytes", sender, "tcp_wmem", "net.core.wmem_max"),
        ("limit_receive_max_bytes", receiver, "tcp_rmem", "net.core.rmem_max"),
    ):
        sysctl = settings_of(record, host)
        counters = (record.get("counters") or {}).get(host) or {}
        state = counters.get("state")
        size = largest_buffer(state, name) or largest_buffer(sysctl, f"net.ipv4.{name}")
        if asked:
            size = 2 * min(asked[0], int(sysctl.get(core) or asked[0]))
        if size is not None:
            columns[column] = size
    return columns
