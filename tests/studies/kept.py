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
        return _qperf(values["latency_oneway_us"])
    if "rtt_us" in values:
        return _sockperf(values["rtt_us"])
    return json.dumps(_iperf3(values, trial.streams or 1, at))


def _qperf(us):
    """Return what a run of tcp_lat prints; its rate is of the messages of both ends."""
    return f"""\
tcp_lat:
    latency   =  {us * 1e3:.0f} ns
    msg_rate  =  {1e6 / us:.0f} /sec
    msg_size  =  1 bytes
    time      =  2 sec
"""


def _sockperf(us):
    """Return a summary of 1,000 round trips, as sockperf 3.7 prints it with ``--full-rtt``."""
    random = np.random.default_rng(int(us * 1e9))  # no two runs have one histogram
    points = np.array([99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0])
    noise = random.uniform(0.9999, 1.0001, len(points))
    values = sorted((0.9 + points / 500) * us * noise, reverse=True)
    rows = [
        f"sockperf: ---> percentile {p:.3f} = {value:8.3f}\n"
        for p, value in zip(points, values, strict=True)
    ]
    return f"""\
sockperf: == version #3.7-no.git ==\x20
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)
[ 0] IP = 10.0.0.5        PORT =    80 # TCP
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=1001; ReceivedMessages=1000
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=1000; ReceivedMessages=1000
sockperf: ====> avg-rtt={us:.3f} (std-dev=3.100)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is {us:.3f} usec
sockperf: Total 1000 observations; each percentile contains 10.00 observations
sockperf: ---> <MAX> observation = {us * 1.2:8.3f}
{"".join(rows)}sockperf: ---> <MIN> observation = {us * 0.9:8.3f}
"""  # noqa: E501  (as it is printed)


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
