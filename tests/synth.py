"""A synthetic fleet of any size: raw logs as the tools print them, and the true effects planted in them.

For benchmarks, demonstrations and acceptance: the library's results on such data can be checked against ``truth.json``.
Every run is marked as synthetic, so nothing made from it can be mistaken for a measurement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from netperf_lib.data.files import Location, explained, write
from netperf_lib.data.layout import BLOCK_ROUNDS, Store, new_record
from netperf_lib.data.workers import processes, run_all
from netperf_lib.errors import UsageError
from netperf_lib.experiment.model import Experiment, Trial
from netperf_lib.experiment.schedule import schedule, trial_levels

NOTICE = "Synthetic data: made up by the tests, measured nowhere."

LATENCY_US = {"ppg": 40.0, "same-zone": 58.0, "cross-zone": 150.0, "cross-region": 10_000.0}
"""Median one-way latency of each placement."""
THROUGHPUT_BPS = {"ppg": 24e9, "same-zone": 23e9, "cross-zone": 20e9, "cross-region": 2e9}
ZONE_PAIR = {("az1", "az2"): 0.5, ("az1", "az3"): 1.0, ("az2", "az3"): 1.6}
"""Factor on the latency between two physical zones, in both directions."""
TOOLS = ("qperf", "iperf3", "sockperf")
START = datetime(2026, 1, 1, tzinfo=UTC)
CHANGE = 1.1
"""The latency of placement ``same-zone`` is multiplied by this…"""
CHANGED_AT = 0.6
"""…after this share of the days."""
SAMPLES_SD = 0.15
"""Standard deviation of the logarithm of a latency between the packets of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    """Description of the fleet to generate."""

    runs: int
    experiments: int
    samples: int
    tools: tuple[str, ...]
    seed: int
    days: float
    deployment_sd: float
    run_sd: float

    @property
    def changed(self) -> datetime:
        return START + timedelta(days=self.days * CHANGED_AT)

    def count(self, number: int) -> int:
        """Runs of an experiment."""
        return self.runs // self.experiments + (number <= self.runs % self.experiments)


def synth(
    root: Location,
    *,
    runs: int = 1000,
    experiments: int = 1,
    samples: int = 1000,
    tools: Sequence[str] = TOOLS,
    seed: int = 0,
    days: float = 365,
    deployment_sd: float = 0.05,
    run_sd: float = 0.02,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a fleet of synthetic experiments with raw logs, and the true effects to ``<root>/truth.json``.

    Parameters
    ----------
    root : path or URL
        The data root. Experiments are called ``fleet-0001`` and so on; each is one deployment in one subscription,
        whose logical zones map to the physical ones in an order of its own.
    runs, experiments : int
        Total number of runs, and the number of experiments over which they are spread evenly.
    samples : int
        Number of packets in the log of a sockperf run.
    tools : sequence of {"qperf", "iperf3", "sockperf"}
        Which logs to write; runs take turns.
    seed : int
        Random seed; the same seed writes the same bytes.
    days : float
        Number of days over which the runs are spread.
    deployment_sd, run_sd : float
        Standard deviations of the logarithm, between deployments and between runs.
    workers : int
        Number of writing processes.
    progress : callable, optional
        Called with (runs written, runs in all).

    Raises
    ------
    UsageError
        A number is not positive, or a tool is unknown.
    """
    if runs < 1 or experiments < 1 or samples < 1 or not days > 0 or runs < experiments:
        raise UsageError(
            "synth: runs, experiments, samples and days must be positive, and runs at least experiments"
        )
    if not tools or set(tools) - set(TOOLS):
        raise UsageError(f"synth: tools must be some of {', '.join(TOOLS)}")
    fleet = _Fleet(
        runs=runs,
        experiments=experiments,
        samples=samples,
        tools=tuple(tools),
        seed=seed,
        days=days,
        deployment_sd=deployment_sd,
        run_sd=run_sd,
    )
    truth = {
        **asdict(fleet),
        "latency_us": LATENCY_US,
        "throughput_bps": THROUGHPUT_BPS,
        "zone_pair": {"-".join(pair): factor for pair, factor in ZONE_PAIR.items()},
        "changed_utc": fleet.changed.isoformat(),
        "change": CHANGE,
    }
    done = 0
    with explained(root), processes(workers) as executor:
        for _, written in run_all(_write, _tasks(fleet, str(root)), executor):
            done += written
            if progress:
                progress(done, runs)
        write(Path(root, "truth.json"), orjson.dumps(truth, option=orjson.OPT_INDENT_2))


def _tasks(fleet: _Fleet, root: str) -> Iterator[tuple[Any, ...]]:
    """Declare each experiment; a task writes the runs of one block of rounds."""
    for number in range(1, fleet.experiments + 1):
        experiment = _experiment(fleet, number)
        store = Store(root, experiment.name)
        store.declare(experiment)
        store.write_plan(schedule(experiment).to_dict())
        frozen = store.freeze(START.isoformat())
        block = BLOCK_ROUNDS * len(LATENCY_US) * len(fleet.tools)
        for first in range(0, fleet.count(number), block):
            yield fleet, root, number, range(first, min(fleet.count(number), first + block)), frozen


def _experiment(fleet: _Fleet, number: int) -> Experiment:
    tests = {
        "qperf": {"tool": "qperf", "test": "tcp_lat"},
        "iperf3": {"tool": "iperf3", "test": "tcp"},
        "sockperf": {
            "tool": "sockperf",
            "test": "ping-pong",
            "options": {"protocol": "tcp", "samples": True},
        },
    }
    return Experiment.model_validate(
        {
            "name": f"fleet-{number:04d}",
            "title": "A synthetic fleet",
            "hosts": {"source": "azure", "options": {}},
            "pairs": [
                {"client": "client", "server": p, "placement": p, "accelerated": True}
                for p in LATENCY_US
            ],
            "tests": [tests[tool] for tool in fleet.tools],
            "rounds": math.ceil(fleet.count(number) / (len(LATENCY_US) * len(fleet.tools))),
            "seed": number,
            "contrasts": [
                {
                    "metric": "latency_oneway_us",
                    "a": {"tool": "qperf", "placement": "ppg"},
                    "b": {"tool": "qperf", "placement": "same-zone"},
                }
            ]
            if "qperf" in fleet.tools
            else [],
        }
    )


def _write(fleet: _Fleet, root: str, number: int, chosen: range, frozen: dict[str, Any]) -> int:
    store = Store(root, _experiment(fleet, number).name)
    store.frozen = frozen
    here = _Deployment(fleet, number)
    for trial in _trials(fleet, number)[chosen.start : chosen.stop]:
        at = START + timedelta(days=fleet.days * (trial.order + 0.5) / fleet.count(number))
        rng = np.random.default_rng([fleet.seed, number, trial.order])
        text, version = _log(trial, here.values(trial, at, rng), fleet.samples, at, rng)
        with store.new_run(trial.run_id, durable=False) as place:
            files = {"client.out": text, "client.err": "", "server.out": "", "server.err": ""}
            for name, content in files.items():
                (place / name).write_text(content, "utf-8")
            store.write_record(place, here.record(store.experiment, trial, at, version))
    return len(chosen)


@lru_cache(maxsize=2)
def _trials(fleet: _Fleet, number: int) -> tuple[Trial, ...]:
    return tuple(t for t in schedule(_experiment(fleet, number)).trials if not t.leading)


class _Deployment:
    """Where the hosts of one experiment were placed, and the effect on every latency."""

    def __init__(self, fleet: _Fleet, number: int) -> None:
        rng = np.random.default_rng([fleet.seed, number, 1 << 40])
        self.fleet = fleet
        self.luck = {
            p: float(np.exp(fleet.deployment_sd * rng.standard_normal())) for p in LATENCY_US
        }
        physical = [f"az{i}" for i in rng.permutation(3) + 1]
        # logical zones differ between subscriptions: the same number is another place elsewhere
        self.zones = {
            "client": (1, physical[0]),
            "ppg": (1, physical[0]),
            "same-zone": (1, physical[0]),
        }
        self.zones |= {"cross-zone": (2, physical[1]), "cross-region": (3, physical[2])}

    def values(self, trial: Trial, at: datetime, rng: np.random.Generator) -> tuple[float, float]:
        """True latency (one way, µs) and throughput (bit/s) of a run."""
        placement = trial.pair.placement
        luck = self.luck[placement] * math.exp(self.fleet.run_sd * rng.standard_normal())
        latency, throughput = LATENCY_US[placement] * luck, THROUGHPUT_BPS[placement] / luck
        if placement == "cross-zone":
            one, other = sorted((self.zones["client"][1], self.zones["cross-zone"][1]))
            latency *= ZONE_PAIR[one, other]
        if placement == "same-zone" and at >= self.fleet.changed:
            latency *= CHANGE
        return latency, throughput

    def record(self, experiment: str, trial: Trial, at: datetime, version: str) -> dict[str, Any]:
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

        facts = {
            "kernel": "6.8.0-1021-azure",
            "congestion_control": "cubic",
            "nic_driver": "mlx5_core",
            "vf_up": True,
        }
        commands = {"qperf": "qperf 10.0.0.5 tcp_lat", "iperf3": "iperf3 -c 10.0.0.5 -J -t 10"}
        command = commands.get(
            trial.test.tool, "sockperf ping-pong -i 10.0.0.5 --tcp -t 1 --full-log /dev/stdout"
        )
        return new_record(
            run_id=trial.run_id,
            experiment=experiment,
            deployment=trial.deployment,
            round=trial.round,
            order=trial.order,
            trial=trial_levels(trial),
            hosts={"client": host(trial.pair.client), "server": host(trial.pair.server)},
            notice=NOTICE,
            commands={"client": command.split(), "server": [trial.test.tool]},
            exit={"client": 0, "server": None},
            started_utc=at.isoformat(),
            ended_utc=(at + timedelta(seconds=10)).isoformat(),
            tool_version=version,
            facts={"client": facts, "server": facts},
            log={"status": "ok", "error": None},
        )


def _log(
    trial: Trial, values: tuple[float, float], samples: int, at: datetime, rng: np.random.Generator
) -> tuple[str, str]:
    latency, throughput = values
    match trial.test.tool:
        case "qperf":
            return _qperf(latency), "0.4.11"
        case "iperf3":
            return _iperf3(throughput, latency, at, rng), "iperf 3.12"
        case _:
            return "\n".join(_sockperf(latency, samples, rng)), "3.7"


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
    rtts = (
        np.round(2 * latency_us * np.exp(0.1 * rng.standard_normal(seconds))).astype(int).tolist()
    )
    lost = rng.poisson(0.5, seconds).tolist()

    def moved(start: int, end: int, rate: float, **more: Any) -> dict[str, Any]:
        size = round(rate * (end - start) / 8)
        times = {"start": start, "end": end, "seconds": float(end - start)}
        return times | {"bytes": size, "bits_per_second": rate, "sender": True} | more

    intervals = []
    for i in range(seconds):
        sum_ = moved(i, i + 1, rates[i], retransmits=lost[i], omitted=False)
        window = {
            "snd_cwnd": 3_000_000 + 1448 * lost[i],
            "snd_wnd": 3_145_728,
            "rtt": rtts[i],
            "rttvar": 12,
        }
        intervals.append({"streams": [sum_ | window | {"socket": 5, "pmtu": 1500}], "sum": sum_})
    sent, received = moved(0, seconds, bps, retransmits=sum(lost)), moved(0, seconds, bps)
    rtt = {"max_rtt": max(rtts), "min_rtt": min(rtts), "mean_rtt": sum(rtts) // seconds}
    hosts = {
        "local_host": "10.0.0.4",
        "local_port": 40000,
        "remote_host": "10.0.0.5",
        "remote_port": 5201,
    }
    test = {
        "protocol": "TCP",
        "num_streams": 1,
        "blksize": 131072,
        "omit": 0,
        "duration": seconds,
        "bytes": 0,
    }
    document = {
        "start": {
            "connected": [{"socket": 5, **hosts}],
            "version": "iperf 3.12",
            "system_info": "Linux client 6.8.0-1021-azure x86_64",
            "timestamp": {
                "time": at.strftime("%a, %d %b %Y %H:%M:%S GMT"),
                "timesecs": int(at.timestamp()),
            },
            "connecting_to": {"host": "10.0.0.5", "port": 5201},
            "cookie": "synthetic",
            "tcp_mss_default": 1448,
            "target_bitrate": 0,
            "sock_bufsize": 0,
            "sndbuf_actual": 16384,
            "rcvbuf_actual": 131072,
            "test_start": test | {"blocks": 0, "reverse": 0, "tos": 0, "target_bitrate": 0},
        },
        "intervals": intervals,
        "end": {
            "streams": [
                {"sender": {"socket": 5, **sent, **rtt}, "receiver": {"socket": 5, **received}}
            ],
            "sum_sent": sent,
            "sum_received": received,
            "cpu_utilization_percent": {"host_total": 42.0, "remote_total": 63.0},
            "sender_tcp_congestion": "cubic",
            "receiver_tcp_congestion": "cubic",
        },
    }
    return json.dumps(document, indent="\t") + "\n"


_PERCENTILES = (99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0)


def _sockperf(latency_us: float, n: int, rng: np.random.Generator) -> Iterator[str]:
    rtt = 2 * latency_us * np.exp(SAMPLES_SD * rng.standard_normal(n))
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
