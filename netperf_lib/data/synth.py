"""A fleet of any size, made up: raw logs as the tools print them, and the truth that was planted in them.

For benchmarks, demonstrations and acceptance: what the library says of such data can be held against ``truth.json``.
Every run says that it is synthetic, so nothing made from it can be taken for a measurement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from ..errors import UsageError
from ..experiment.model import Experiment, Trial
from ..experiment.schedule import describe, schedule
from .files import Location, explained, folder
from .layout import BLOCK_ROUNDS, Store
from .workers import Engine

__all__ = ["NOTICE", "Truth", "synth"]

NOTICE = "Synthetic data: made up by npl synth, measured nowhere."

LATENCY_US = {"ppg": 40.0, "same-zone": 58.0, "cross-zone": 150.0, "cross-region": 10_000.0}
"""Median one-way latency of each placement."""
THROUGHPUT_BPS = {"ppg": 24e9, "same-zone": 23e9, "cross-zone": 20e9, "cross-region": 2e9}
ZONE_PAIR = {("az1", "az2"): 0.5, ("az1", "az3"): 1.0, ("az2", "az3"): 1.6}
"""Factor on the latency between two physical zones, in both directions."""
TOOLS = ("qperf", "iperf3", "sockperf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was planted; ratios multiply."""

    seed: int
    runs: int
    experiments: int
    latency_us: dict[str, float]
    """Placement to median one-way latency."""
    throughput_bps: dict[str, float]
    zone_pair: dict[str, float]
    """Physical zones ``az1-az2`` to the factor on the latency between them."""
    deployment_sd: float
    """Standard deviation of the logarithm between deployments."""
    run_sd: float
    """The same between the runs of a deployment."""
    samples_sd: float
    """The same between the packets of a run."""
    changed_utc: str | None
    """When the latency of placement ``same-zone`` changed."""
    change: float
    """By which factor."""


def synth(
    root: Location,
    *,
    runs: int = 1000,
    experiments: int = 1,
    samples: int = 1000,
    tools: Sequence[str] = TOOLS,
    seed: int = 0,
    start: str = "2026-01-01",
    days: float = 365,
    change: float = 1.1,
    changed_at: float | None = 0.6,
    deployment_sd: float = 0.05,
    run_sd: float = 0.02,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """Write a fleet of synthetic experiments, raw logs included, and what was planted in ``<root>/truth.json``.

    Parameters
    ----------
    root : path or URL
        The data root. Experiments are called ``fleet-0001`` and so on; each is one deployment in one subscription,
        whose logical zones stand for the physical ones in an order of its own.
    runs : int
        Runs in all, spread evenly.
    experiments : int
        Experiments.
    samples : int
        Packets in the log of a sockperf run.
    tools : sequence of {"qperf", "iperf3", "sockperf"}
        Which logs to write; runs take turns.
    seed : int
        The same seed writes the same bytes.
    start : str
        First day.
    days : float
        The runs are spread over so many days.
    change, changed_at : float
        The latency of placement ``same-zone`` is multiplied by `change` after this share of the days; None: never.
    deployment_sd, run_sd : float
        Standard deviations of the logarithm, between deployments and between runs.
    workers : int
        Processes that write.
    progress : callable, optional
        Called with (runs written, runs in all).

    Raises
    ------
    UsageError
        A number is not positive, or a tool is not known.
    """
    if runs < 1 or experiments < 1 or samples < 1 or days <= 0 or runs < experiments:
        raise UsageError("synth: runs, experiments, samples and days must be positive, and runs at least experiments")
    if not tools or set(tools) - set(TOOLS):
        raise UsageError(f"synth: tools must be some of {', '.join(TOOLS)}")
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    changed = None if changed_at is None else begin + timedelta(days=days * changed_at)
    truth = Truth(
        seed=seed,
        runs=runs,
        experiments=experiments,
        latency_us=LATENCY_US,
        throughput_bps=THROUGHPUT_BPS,
        zone_pair={"-".join(pair): factor for pair, factor in ZONE_PAIR.items()},
        deployment_sd=deployment_sd,
        run_sd=run_sd,
        samples_sd=0.15,
        changed_utc=changed.isoformat() if changed else None,
        change=change,
    )
    share = [runs // experiments + (i < runs % experiments) for i in range(experiments)]
    done = 0
    with explained(root), Engine(workers=workers) as engine:
        for _, written in engine.each(_write, _tasks(truth, str(root), share, samples, tuple(tools), begin, days)):
            done += written
            if progress:
                progress(done, runs)
        folder(root).write("truth.json", orjson.dumps(asdict(truth), option=orjson.OPT_INDENT_2))
    return truth


def _tasks(
    truth: Truth, root: str, share: Sequence[int], samples: int, tools: tuple[str, ...], begin: datetime, days: float
) -> Iterator[tuple[Any, ...]]:
    """Declare each experiment; a task writes the runs of one block of rounds."""
    for number, count in enumerate(share, 1):
        experiment = _experiment(number, count, tools)
        store = Store(root, experiment.name)
        store.declare(experiment)
        store.write_plan(schedule(experiment).to_dict())
        start = begin.isoformat()
        frozen = store.freeze(start)
        block = BLOCK_ROUNDS * len(LATENCY_US) * len(tools)
        for first in range(0, count, block):
            trials = range(first, min(count, first + block))
            yield truth, root, number, count, trials, samples, tools, start, days, frozen


def _name(number: int) -> str:
    return f"fleet-{number:04d}"


def _experiment(number: int, runs: int, tools: Sequence[str]) -> Experiment:
    tests = {
        "qperf": {"tool": "qperf", "test": "tcp_lat"},
        "iperf3": {"tool": "iperf3", "test": "tcp"},
        "sockperf": {"tool": "sockperf", "test": "ping-pong", "options": {"protocol": "tcp", "samples": True}},
    }
    return Experiment.model_validate(
        {
            "name": _name(number),
            "title": "A synthetic fleet",
            "hosts": {"source": "azure", "options": {}},
            "pairs": [{"client": "client", "server": p, "placement": p, "accelerated": True} for p in LATENCY_US],
            "tests": [tests[tool] for tool in tools],
            "rounds": math.ceil(runs / (len(LATENCY_US) * len(tools))),
            "seed": number,
            "contrasts": [
                {
                    "metric": "latency_oneway_us",
                    "a": {"tool": "qperf", "placement": "ppg"},
                    "b": {"tool": "qperf", "placement": "same-zone"},
                }
            ]
            if "qperf" in tools
            else [],
        }
    )


def _write(
    truth: Truth,
    root: str,
    number: int,
    count: int,
    chosen: range,
    samples: int,
    tools: Sequence[str],
    start: str,
    days: float,
    frozen: dict[str, Any],
) -> int:
    experiment = _experiment(number, count, tools)
    store = Store(root, experiment.name)
    store.frozen = frozen
    here = _Deployment(truth, number)
    begin = datetime.fromisoformat(start)
    for trial in _trials(number, count, tuple(tools))[chosen.start : chosen.stop]:
        at = begin + timedelta(days=days * (trial.order + 0.5) / count)
        rng = np.random.default_rng([truth.seed, number, trial.order])
        text, version = _log(trial, here.values(trial, at, rng), samples, at, truth.samples_sd, rng)
        with store.new_run(trial.run_id, durable=False) as place:
            files = {"client.out": text, "client.err": "", "server.out": "", "server.err": ""}
            for name, content in files.items():
                (place / name).write_text(content, "utf-8")
            store.write_record(place, here.record(trial, at, version))
    return len(chosen)


@lru_cache(maxsize=2)
def _trials(number: int, count: int, tools: tuple[str, ...]) -> tuple[Trial, ...]:
    return schedule(_experiment(number, count, tools)).trials


class _Deployment:
    """Where the hosts of one experiment came to lie, and what that makes of every latency."""

    def __init__(self, truth: Truth, number: int) -> None:
        rng = np.random.default_rng([truth.seed, number, 1 << 40])
        self.truth, self.number = truth, number
        self.luck = {p: float(np.exp(truth.deployment_sd * rng.standard_normal())) for p in LATENCY_US}
        physical = [f"az{i}" for i in rng.permutation(3) + 1]
        # logical zones are the subscription's own: the same number is another place elsewhere
        self.zones = {"client": (1, physical[0]), "ppg": (1, physical[0]), "same-zone": (1, physical[0])}
        self.zones |= {"cross-zone": (2, physical[1]), "cross-region": (3, physical[2])}
        self.changed = datetime.fromisoformat(truth.changed_utc) if truth.changed_utc else None

    def values(self, trial: Trial, at: datetime, rng: np.random.Generator) -> tuple[float, float]:
        """True latency (one way, µs) and throughput (bit/s) of a run."""
        placement = trial.pair.placement
        luck = self.luck[placement] * math.exp(self.truth.run_sd * rng.standard_normal())
        latency, throughput = LATENCY_US[placement] * luck, THROUGHPUT_BPS[placement] / luck
        if placement == "cross-zone":
            one, other = sorted((self.zones["client"][1], self.zones["cross-zone"][1]))
            latency *= ZONE_PAIR[one, other]
        if placement == "same-zone" and self.changed and at >= self.changed:
            latency *= self.truth.change
        return latency, throughput

    def record(self, trial: Trial, at: datetime, version: str) -> dict[str, Any]:
        """What the collector would have written."""

        def host(name: str) -> dict[str, Any]:
            logical, physical = self.zones[name]
            region = "northeurope" if name == "cross-region" else "westeurope"
            return {
                "name": name,
                "address": "192.0.2.1",
                "data_address": "10.0.0.4",
                "region": region,
                "zone": str(logical),
                "zone_physical": f"{region}-{physical}",
                "vm_size": "Standard_D8s_v5",
                "accelerated": True,
            }

        facts = {"kernel": "6.8.0-1021-azure", "congestion_control": "cubic", "nic_driver": "mlx5_core", "vf_up": True}
        commands = {"qperf": "qperf 10.0.0.5 tcp_lat", "iperf3": "iperf3 -c 10.0.0.5 -J -t 10"}
        command = commands.get(trial.test.tool, "sockperf ping-pong -i 10.0.0.5 --tcp -t 1 --full-log /dev/stdout")
        return {
            "run_id": trial.run_id,
            "attempt": 1,
            "experiment": _name(self.number),
            "deployment": trial.deployment,
            "round": trial.round,
            "order": trial.order,
            "status": "ok",
            "error": None,
            "trial": describe(trial),
            "hosts": {"client": host(trial.pair.client), "server": host(trial.pair.server)},
            "notice": NOTICE,
            "commands": {"client": command.split(), "server": [trial.test.tool]},
            "exit": {"client": 0, "server": None},
            "started_utc": at.isoformat(),
            "ended_utc": (at + timedelta(seconds=10)).isoformat(),
            "tool_version": version,
            "facts": {"client": facts, "server": facts},
            "counters": {"client": {}, "server": {}},
            "warnings": [],
            "log": {"status": "ok", "error": None},
        }


def _log(
    trial: Trial, values: tuple[float, float], samples: int, at: datetime, spread: float, rng: np.random.Generator
) -> tuple[str, str]:
    latency, throughput = values
    match trial.test.tool:
        case "qperf":
            return _qperf(latency), "0.4.11"
        case "iperf3":
            return _iperf3(throughput, latency, at, rng), "iperf 3.12"
        case _:
            return "\n".join(_sockperf(latency, samples, spread, rng)), "3.7"


def _qperf(latency_us: float) -> str:
    rate = 1e6 / latency_us  # qperf counts the messages of both ends
    return (
        "tcp_lat:\n"
        f"    latency   =  {latency_us * 1e3:.0f} ns\n"
        f"    msg_rate  =  {rate:.0f} /sec\n"
        "    msg_size  =  1 bytes\n"
        "    time      =  2 sec\n"
    )


def _iperf3(bps: float, latency_us: float, at: datetime, rng: np.random.Generator) -> str:
    seconds = 10
    rates = bps * np.exp(0.02 * rng.standard_normal(seconds))
    rates *= bps / rates.mean()
    rtts = np.round(2 * latency_us * np.exp(0.1 * rng.standard_normal(seconds))).astype(int)
    lost = rng.poisson(0.5, seconds)
    common: dict[str, Any] = {"sender": True}
    intervals = []
    for i in range(seconds):
        core: dict[str, Any] = {
            "start": i,
            "end": i + 1,
            "seconds": 1.0,
            "bytes": round(rates[i] / 8),
            "bits_per_second": rates[i],
        }
        core |= {"retransmits": int(lost[i])}
        window = {"snd_cwnd": 3_000_000 + 1448 * int(lost[i]), "snd_wnd": 3_145_728, "rtt": int(rtts[i]), "rttvar": 12}
        intervals.append(
            {
                "streams": [core | window | {"socket": 5, "pmtu": 1500, "omitted": False} | common],
                "sum": core | {"omitted": False} | common,
            }
        )
    total = {"start": 0, "end": seconds, "seconds": seconds, "bytes": round(bps * seconds / 8), "bits_per_second": bps}
    sent = {**total, "retransmits": int(lost.sum()), **common}
    rtt = {"max_rtt": int(rtts.max()), "min_rtt": int(rtts.min()), "mean_rtt": int(rtts.mean())}
    received = {**total, **common}
    connected = {"socket": 5, "local_host": "10.0.0.4", "local_port": 40000, "remote_host": "10.0.0.5"}
    document = {
        "start": {
            "connected": [{**connected, "remote_port": 5201}],
            "version": "iperf 3.12",
            "system_info": "Linux client 6.8.0-1021-azure x86_64",
            "timestamp": {"time": at.strftime("%a, %d %b %Y %H:%M:%S GMT"), "timesecs": int(at.timestamp())},
            "connecting_to": {"host": "10.0.0.5", "port": 5201},
            "cookie": "synthetic",
            "tcp_mss_default": 1448,
            "target_bitrate": 0,
            "sock_bufsize": 0,
            "sndbuf_actual": 16384,
            "rcvbuf_actual": 131072,
            "test_start": {
                "protocol": "TCP",
                "num_streams": 1,
                "blksize": 131072,
                "omit": 0,
                "duration": seconds,
                "bytes": 0,
                "blocks": 0,
                "reverse": 0,
                "tos": 0,
                "target_bitrate": 0,
            },
        },
        "intervals": intervals,
        "end": {
            "streams": [{"sender": {"socket": 5, **sent, **rtt}, "receiver": {"socket": 5, **received}}],
            "sum_sent": sent,
            "sum_received": received,
            "cpu_utilization_percent": {"host_total": 42.0, "remote_total": 63.0},
            "sender_tcp_congestion": "cubic",
            "receiver_tcp_congestion": "cubic",
        },
    }
    return json.dumps(document, indent="\t") + "\n"


_PERCENTILES = (99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0)


def _sockperf(latency_us: float, n: int, spread: float, rng: np.random.Generator) -> Iterator[str]:
    rtt = 2 * latency_us * np.exp(spread * rng.standard_normal(n))
    tail = rng.random(n) < 0.01
    rtt[tail] += latency_us * rng.exponential(1.0, int(tail.sum()))
    rtt_ns = np.maximum(1, np.round(rtt * 1e3)).astype(np.int64)
    gaps = np.round(200 + rng.exponential(500, n)).astype(np.int64)
    sent = 2_400_000_000 + np.cumsum(rtt_ns + gaps) - rtt_ns
    received = sent + rtt_ns
    half = rtt_ns / 2000
    ranked = np.sort(half)
    seconds = (received[-1] - sent[0]) / 1e9
    dashes = "-" * 30
    yield dashes
    yield (
        "test was performed using the following parameters: --mps=max --burst=1 --reply-every=1 --msg-size=14 --time=1"
    )
    yield dashes
    yield (
        f"sockperf: [Total Run] RunTime={seconds + 0.45:.3f} sec; Warm up time=400 msec; SentMessages={n + 1}; "
        f"ReceivedMessages={n}"
    )
    yield "sockperf: ========= Printing statistics for Server No: 0"
    yield f"sockperf: [Valid Duration] RunTime={seconds:.3f} sec; SentMessages={n}; ReceivedMessages={n}"
    yield f"sockperf: ====> avg-latency={half.mean():.3f} (std-dev={half.std(ddof=1):.3f})"
    yield "sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0"
    yield f"sockperf: Summary: Latency is {half.mean():.3f} usec"
    yield f"sockperf: Total {n} observations; each percentile contains {n / 100:.2f} observations"
    yield f"sockperf: ---> <MAX> observation = {ranked[-1]:8.3f}"
    for p in _PERCENTILES:
        yield f"sockperf: ---> percentile {p:.3f} = {ranked[max(0, int(p / 100 * n + 0.5) - 1)]:8.3f}"
    yield f"sockperf: ---> <MIN> observation = {ranked[0]:8.3f}"
    yield dashes
    yield "packet, txTime(sec), rxTime(sec), latency(usec)"
    columns = (np.arange(n), sent // 10**9, sent % 10**9, received // 10**9, received % 10**9, half)
    for i, ts, tn, rs, rn, latency in zip(*(c.tolist() for c in columns), strict=True):
        yield f"{i}, {ts}.{tn:09d}, {rs}.{rn:09d}, {latency:.3f}"
    yield dashes
    yield ""
