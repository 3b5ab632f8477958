"""The runs of the five studies as people keep them: a folder of logs, and a table of labels with
names of hosts."""

import json
import math
import zlib
from datetime import timedelta

import numpy as np
import pandas as pd

from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment

from .. import printed
from .published import DECLARED, START, STUDIES

SLOW = 9 / 22, 13 / 22
"""Part of the rounds in which the study of every minute is 18 % slower."""


def _below(metric, limit, **sides):
    [(factor, levels)] = sides.items()
    return [{"metric": metric, "a": {factor: level}, "below": limit} for level in levels]


LOGS = {
    "study-placement": (12, []),
    "study-ladder": (14, []),
    "study-paths": (12, []),
    "study-domains": (
        8,
        _below("latency_oneway_us", "1 ms", server=("ad1", "ad2", "ad3")),
    ),
    "study-minute": (300, _below("rtt_us", "100 us", placement=("ppg",))),
}
"""Rounds, and contrasts that are declared with the logs."""


def kept(name, folder, *, rounds, noise=0.01):
    """Write a study's logs into a folder; return it, and labels that name hosts."""
    experiment = load_experiment(DECLARED / f"{name}.yaml")
    experiment = experiment.model_copy(update={"rounds": rounds})
    speeds = (experiment.hosts.options.get("bandwidth_mbps") or {}).values()
    bandwidth = experiment.bandwidth_mbps or next(iter(speeds), None)
    folder.mkdir(parents=True)
    rows, at = [], START
    trials = [t for t in schedule(experiment, seed=1).trials if not t.leading]
    for number, trial in enumerate(trials):
        pair = trial.pair
        random = np.random.default_rng([5, zlib.crc32(trial.run_id.encode())])
        slow = name == "study-minute" and SLOW[0] <= (trial.round - 1) / rounds < SLOW[1]
        values = {
            key: value * math.exp(random.normal(0, noise)) * (1.18 if slow else 1)
            for key, value in STUDIES[name](trial).items()
        }
        file = folder / f"{number:04d}-{trial.test.tool}.log"
        file.write_text(_log(trial, values, at))
        row = {"file": file.name, "client": pair.client, "server": pair.server}
        row |= {"round": trial.round, "placement": pair.placement}
        row |= {
            "accelerated": "on" if pair.accelerated else "off",
            "started": at.isoformat(),
        }
        row |= {"tcp_buffer_bytes": trial.tcp_buffer_bytes, **pair.labels}
        rows.append(row | {"bandwidth_mbps": bandwidth})
        at += timedelta(seconds=60)
    labels = pd.DataFrame(rows).dropna(axis="columns", how="all").astype(object)
    return folder, labels.where(labels.notna(), None)


def _log(trial, values, at):
    if "latency_oneway_us" in values:
        return printed.qperf(values["latency_oneway_us"])
    if "rtt_us" in values:
        return _sockperf(values["rtt_us"])
    return json.dumps(_iperf3(values, trial.streams or 1, at))


def _sockperf(us):
    """Return a summary of 1,000 round trips, as sockperf 3.7 prints it with ``--full-rtt``."""
    random = np.random.default_rng(int(us * 1e9))  # no two runs have one histogram
    points = np.array(printed.PERCENTILES)
    noise = random.uniform(0.9999, 1.0001, len(points))
    values = sorted((0.9 + points / 500) * us * noise, reverse=True)
    percentiles = dict(zip(printed.PERCENTILES, values, strict=True))
    lines = printed.sockperf("rtt", percentiles, mean=us, least=us * 0.9, most=us * 1.2)
    return "\n".join(
        [
            "sockperf: == version #3.7-no.git == ",
            "sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)",
            "[ 0] IP = 10.0.0.5        PORT =    80 # TCP",
            *lines,
            "",
        ]
    )


def _iperf3(values, streams, at):
    """Return the document of a run of two seconds, in which all streams carry the same."""
    shape = 2, streams
    lost = np.zeros(shape, int)
    lost[1, 0] = values.get("retransmits_count", 0)
    return printed.iperf3(
        np.full(shape, round(values["throughput_bps"] / 8 / streams)),
        np.full(shape, int(values.get("rtt_loaded_us", 100))),
        lost=lost,
        window=1448 * int(values.get("cwnd_max_bytes", 1.4e6) / 1448),
        at=at,
    )
