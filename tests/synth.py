"""A synthetic fleet of any size: raw logs as the tools print them, and the true effects planted in them.

For benchmarks, demonstrations and acceptance: the library's results on such data can be checked against ``truth.json``.
Every run is marked as synthetic, so nothing made from it can be mistaken for a measurement.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import orjson
import yaml

from netperf_lib.data.files import explained, write
from netperf_lib.data.layout import BLOCK_ROUNDS, Store, new_record
from netperf_lib.data.workers import processes, run_all
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule, trial_levels

from . import printed

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
CHANGED = START + timedelta(days=0.6 * 365)
"""…after this time."""
COMMANDS = {
    "qperf": "qperf 10.0.0.5 tcp_lat",
    "iperf3": "iperf3 -c 10.0.0.5 -J -t 10",
    "sockperf": "sockperf ping-pong -i 10.0.0.5 --tcp -t 1 --full-log /dev/stdout",
}
SAMPLES_SD = 0.15
"""Standard deviation of the logarithm of a latency between the packets of a run."""


DAYS = 365


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A fleet to generate: runs, spread evenly over experiments and a year, whose tools take turns."""

    runs: int = 1000
    experiments: int = 1
    samples: int = 1000
    """Packets in the log of a sockperf run."""
    tools: tuple[str, ...] = TOOLS
    deployment_sd: float = 0.05
    run_sd: float = 0.02
    """Standard deviations of the logarithm, between deployments and between runs."""

    def count(self, number):
        """Runs of an experiment."""
        return self.runs // self.experiments + (number <= self.runs % self.experiments)


def synth(root, workers=1, **given):
    """Write a fleet with raw logs, and the true effects to ``<root>/truth.json``; return its runs.

    Experiments are called ``fleet-0001`` and so on; each is one deployment in one subscription, whose logical zones
    map to the physical ones in an order of its own. The same fleet has the same bytes.
    """
    fleet = Fleet(**given)
    truth = {"changed_utc": CHANGED.isoformat(), "change": CHANGE}
    with explained(root), processes(workers) as executor:
        written = sum(n for _, n in run_all(_write, _tasks(fleet, str(root)), executor))
        write(Path(root, "truth.json"), orjson.dumps(truth))
    return written


def _tasks(fleet, root):
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


DECLARED = """
title: A synthetic fleet
hosts: {source: azure}
tests:
  - {tool: qperf, test: tcp_lat}
  - {tool: iperf3, test: tcp}
  - {tool: sockperf, test: ping-pong, options: {protocol: tcp, samples: true}}
contrasts:
  - metric: latency_oneway_us
    a: {tool: qperf, placement: ppg}
    b: {tool: qperf, placement: same-zone}
"""


def _experiment(fleet, number):
    declared = yaml.safe_load(DECLARED) | {"name": f"fleet-{number:04d}", "seed": number}
    ends = {"client": "client", "accelerated": True}
    declared["pairs"] = [ends | {"server": p, "placement": p} for p in LATENCY_US]
    declared["tests"] = [test for test in declared["tests"] if test["tool"] in fleet.tools]
    declared["contrasts"] *= "qperf" in fleet.tools
    declared["rounds"] = math.ceil(fleet.count(number) / len(LATENCY_US) / len(fleet.tools))
    return Experiment.model_validate(declared)


def _write(fleet, root, number, chosen, frozen):
    store = Store(root, _experiment(fleet, number).name)
    store.frozen = frozen
    here = _Deployment(fleet, number)
    for trial in _trials(fleet, number)[chosen.start : chosen.stop]:
        at = START + timedelta(days=DAYS * (trial.order + 0.5) / fleet.count(number))
        rng = np.random.default_rng([0, number, trial.order])
        text, version = _log(trial, here.values(trial, at, rng), fleet.samples, at, rng)
        with store.new_run(trial.run_id, durable=False) as place:
            files = {"client.out": text, "client.err": "", "server.out": "", "server.err": ""}
            for name, content in files.items():
                (place / name).write_text(content, "utf-8")
            store.write_record(place, here.record(store.experiment, trial, at, version))
    return len(chosen)


@lru_cache(maxsize=2)
def _trials(fleet, number):
    return tuple(t for t in schedule(_experiment(fleet, number)).trials if not t.leading)


class _Deployment:
    """Where the hosts of one experiment were placed, and the effect on every latency."""

    def __init__(self, fleet, number):
        rng = np.random.default_rng([0, number, 1 << 40])
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

    def values(self, trial, at, rng):
        """True latency (one way, µs) and throughput (bit/s) of a run."""
        placement = trial.pair.placement
        luck = self.luck[placement] * math.exp(self.fleet.run_sd * rng.standard_normal())
        latency, throughput = LATENCY_US[placement] * luck, THROUGHPUT_BPS[placement] / luck
        if placement == "cross-zone":
            one, other = sorted((self.zones["client"][1], self.zones["cross-zone"][1]))
            latency *= ZONE_PAIR[one, other]
        if placement == "same-zone" and at >= CHANGED:
            latency *= CHANGE
        return latency, throughput

    def record(self, experiment, trial, at, version):
        """What the collector would have written."""

        machine = {"address": "192.0.2.1", "data_address": "10.0.0.4", "accelerated": True}

        def host(name):
            logical, physical = self.zones[name]
            region = "northeurope" if name == "cross-region" else "westeurope"
            where = {
                "region": region,
                "zone": str(logical),
                "zone_physical": f"{region}-{physical}",
            }
            return machine | where | {"name": name, "vm_size": "Standard_D8s_v5"}

        facts = {"kernel": "6.8.0-1021-azure", "congestion_control": "cubic"}
        facts |= {"nic_driver": "mlx5_core", "vf_up": True}
        command = COMMANDS[trial.test.tool]
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


def _log(trial, values, samples, at, rng):
    latency, throughput = values
    match trial.test.tool:
        case "qperf":
            return printed.qperf(latency), "0.4.11"
        case "iperf3":
            return _iperf3(throughput, latency, at, rng), "iperf 3.12"
        case _:
            return "\n".join(_sockperf(latency, samples, rng)), "3.7"


def _iperf3(bps, latency_us, at, rng):
    seconds = 10
    rates = bps * np.exp(0.02 * rng.standard_normal((seconds, 1)))
    rates *= bps / rates.mean()
    rtts = np.round(2 * latency_us * np.exp(0.1 * rng.standard_normal((seconds, 1))))
    lost = rng.poisson(0.5, (seconds, 1))
    sent = np.round(rates / 8).astype(np.int64)
    window = 3_000_000 + 1448 * lost
    document = printed.iperf3(sent, rtts, lost=lost, window=window, at=at, cookie="synthetic")
    return json.dumps(document, indent="\t") + "\n"


def _sockperf(latency_us, n, rng):
    rtt = 2 * latency_us * np.exp(SAMPLES_SD * rng.standard_normal(n))
    tail = rng.random(n) < 0.01
    rtt[tail] += latency_us * rng.exponential(1.0, int(tail.sum()))
    rtt_ns = np.maximum(1, np.round(rtt * 1e3)).astype(np.int64)
    gaps = np.round(200 + rng.exponential(500, n)).astype(np.int64)
    sent = 2_400_000_000 + np.cumsum(rtt_ns + gaps) - rtt_ns
    received = sent + rtt_ns
    half = rtt_ns / 2000
    ranked = np.sort(half)
    summary = printed.sockperf(
        "latency",
        {p: ranked[max(0, int(p / 100 * n + 0.5) - 1)] for p in printed.PERCENTILES},
        mean=half.mean(),
        deviation=half.std(ddof=1),
        least=ranked[0],
        most=ranked[-1],
        n=n,
        seconds=(received[-1] - sent[0]) / 1e9,
    )
    yield printed.packets(summary).rstrip("\n")
    columns = (np.arange(n), sent // 10**9, sent % 10**9, received // 10**9, received % 10**9, half)
    for i, ts, tn, rs, rn, latency in zip(*(c.tolist() for c in columns), strict=True):
        yield f"{i}, {ts}.{tn:09d}, {rs}.{rn:09d}, {latency:.3f}"
    yield printed.LINE
    yield ""
