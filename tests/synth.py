"""A synthetic fleet of any size: raw logs as the tools print them, of planted effects.

Every run is marked as synthetic, so nothing made of it can be mistaken for a measurement.
"""

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import yaml

from netperf_lib.data.declaration import declare, freeze, write_plan
from netperf_lib.data.raw import new_record, new_run, write_record
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule, trial_levels

from . import printed

NOTICE = "Synthetic data: made up by the tests, measured nowhere."
LATENCY_US = {
    "ppg": 40.0,
    "same-zone": 58.0,
    "cross-zone": 150.0,
    "cross-region": 10_000.0,
}
THROUGHPUT_BPS = {"ppg": 24e9, "same-zone": 23e9, "cross-zone": 20e9, "cross-region": 2e9}
TOOLS = {
    "qperf": {"tool": "qperf", "test": "tcp_lat"},
    "iperf3": {"tool": "iperf3", "test": "tcp"},
    "sockperf": {
        "tool": "sockperf",
        "test": "ping-pong",
        "options": {"protocol": "tcp"},
    },
}
COMMANDS = {
    "qperf": "qperf 10.0.0.5 tcp_lat",
    "iperf3": "iperf3 -c 10.0.0.5 -J -t 10",
    "sockperf": "sockperf ping-pong -i 10.0.0.5 --tcp -t 1",
}
VERSIONS = {"qperf": "0.4.11", "iperf3": "iperf 3.12", "sockperf": "3.7"}
START, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 365
DECLARED = """
title: A synthetic fleet
hosts: {source: azure}
contrasts:
  - metric: latency_oneway_us
    a: {tool: qperf, placement: ppg}
    b: {tool: qperf, placement: same-zone}
"""


def synth(root, *, runs, experiments=1, samples):
    """Write a fleet of experiments ``fleet-0001`` and so on; the same has the same bytes.

    Each is one deployment; `samples` are the packets of a run of sockperf.
    """
    for number in range(1, experiments + 1):
        count = runs // experiments + (number <= runs % experiments)
        experiment = _declared(number, count)
        store = Path(root, experiment.name)
        declare(store, experiment)
        plan = schedule(experiment)
        write_plan(store, plan.to_dict())
        frozen = freeze(store, START.isoformat())
        random = np.random.default_rng([0, number, 1 << 40])
        luck = {p: math.exp(0.05 * random.standard_normal()) for p in LATENCY_US}
        for trial in [t for t in plan.trials if not t.leading][:count]:
            at = START + timedelta(days=DAYS * (trial.order + 0.5) / count)
            random = np.random.default_rng([0, number, trial.order])
            factor = luck[trial.pair.placement] * math.exp(
                0.02 * random.standard_normal()
            )
            with new_run(store, trial.run_id, durable=False) as place:
                files = dict.fromkeys(("client.err", "server.out", "server.err"), "")
                files["client.out"] = _log(trial, factor, samples, at, random)
                for name, content in files.items():
                    (place / name).write_text(content, "utf-8")
                write_record(place, _record(experiment.name, trial, at), frozen)


def _declared(number, count):
    ends = {"client": "client", "accelerated": True}
    declared = yaml.safe_load(DECLARED) | {"name": f"fleet-{number:04d}", "seed": number}
    declared["pairs"] = [ends | {"server": p, "placement": p} for p in LATENCY_US]
    declared["tests"] = list(TOOLS.values())
    declared["rounds"] = math.ceil(count / len(LATENCY_US) / len(TOOLS))
    return Experiment.model_validate(declared)


def _record(experiment, trial, at):
    """Return what the collector would have written."""
    machine = {"address": "192.0.2.1", "data_address": "10.0.0.4", "accelerated": True}
    machine |= {"region": "westeurope", "zone": "1", "vm_size": "Standard_D8s_v5"}
    facts = {"kernel": "6.8.0-1021-azure", "congestion_control": "cubic"}
    facts |= {"nic_driver": "mlx5_core", "vf_up": True}
    tool = trial.test.tool
    return new_record(
        run_id=trial.run_id,
        experiment=experiment,
        deployment=trial.deployment,
        round=trial.round,
        order=trial.order,
        trial=trial_levels(trial),
        hosts={
            side: machine | {"name": getattr(trial.pair, side)}
            for side in ("client", "server")
        },
        notice=NOTICE,
        commands={"client": COMMANDS[tool].split(), "server": [tool]},
        exit={"client": 0, "server": None},
        started_utc=at.isoformat(),
        ended_utc=(at + timedelta(seconds=10)).isoformat(),
        tool_version=VERSIONS[tool],
        facts={"client": facts, "server": facts},
        log={"status": "ok", "error": None},
    )


def _log(trial, factor, samples, at, random):
    placement = trial.pair.placement
    latency = LATENCY_US[placement] * factor
    if trial.test.tool == "qperf":
        return printed.qperf(latency)
    if trial.test.tool == "iperf3":
        return iperf3(THROUGHPUT_BPS[placement] / factor, latency, at, random)
    return "\n".join([*sockperf(latency, samples, random), ""])


def iperf3(bps, latency_us, at, random, seconds=10):
    """Return the document of a run of iperf3."""
    rates = np.exp(0.02 * random.standard_normal((seconds, 1)))
    rates *= bps / rates.mean()
    rtts = np.round(2 * latency_us * np.exp(0.1 * random.standard_normal((seconds, 1))))
    lost = random.poisson(0.5, (seconds, 1))
    sent = np.round(rates / 8).astype(np.int64)
    window = 3_000_000 + 1448 * lost
    document = printed.iperf3(
        sent, rtts, lost=lost, window=window, at=at, cookie="synthetic"
    )
    return json.dumps(document, indent="\t") + "\n"


def sockperf(latency_us, n, random):
    """Return the lines of a log of `n` packets; one in a hundred is slow."""
    rtt = 2 * latency_us * np.exp(0.15 * random.standard_normal(n))
    slow = random.random(n) < 0.01
    rtt[slow] += latency_us * random.exponential(1.0, int(slow.sum()))
    rtt_ns = np.maximum(1, np.round(rtt * 1e3)).astype(np.int64)
    gaps = np.round(200 + random.exponential(500, n)).astype(np.int64)
    sent = 2_400_000_000 + np.cumsum(rtt_ns + gaps) - rtt_ns
    received = sent + rtt_ns
    half = rtt_ns / 2000
    ranked = np.sort(half)
    return printed.sockperf(
        "latency",
        {p: ranked[max(0, int(p / 100 * n + 0.5) - 1)] for p in printed.PERCENTILES},
        mean=half.mean(),
        deviation=half.std(ddof=1),
        least=ranked[0],
        most=ranked[-1],
        n=n,
        seconds=(received[-1] - sent[0]) / 1e9,
    )
