"""The runs of the five studies as people keep them: a folder of logs, and a table of labels with names of hosts."""

from __future__ import annotations

import json
import math
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netperf_lib.experiment.model import Trial
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment

from ..synth import _qperf
from .published import DECLARED, START, STUDIES

SLOW = 9 / 22, 13 / 22
"""Part of the rounds in which the study of every minute is 18 % slower."""

LOGS: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "study-placement": (12, []),
    "study-ladder": (14, []),
    "study-paths": (12, []),
    "study-domains": (
        8,
        [
            {"metric": "latency_oneway_us", "a": {"server": s}, "below": "1 ms"}
            for s in ("ad1", "ad2", "ad3")
        ],
    ),
    "study-minute": (300, [{"metric": "rtt_us", "a": {"placement": "ppg"}, "below": "100 us"}]),
}
"""Rounds, and contrasts that are declared with the logs."""


def kept(name: str, folder: Path, *, rounds: int, noise: float = 0.01) -> tuple[Path, pd.DataFrame]:
    """Write a study's logs into a folder; return it, and labels that name hosts where the logs have addresses."""
    experiment = load_experiment(DECLARED / f"{name}.yaml")
    experiment = experiment.model_copy(update={"rounds": rounds})
    speeds = (experiment.hosts.options.get("bandwidth_mbps") or {}).values()
    bandwidth = experiment.bandwidth_mbps or next(iter(speeds), None)
    folder.mkdir(parents=True)
    rows, at = [], START
    trials = [t for t in schedule(experiment, seed=1).trials if not t.leading]
    for number, trial in enumerate(trials):
        random = np.random.default_rng([5, zlib.crc32(trial.run_id.encode())])
        values = {
            key: value * math.exp(random.normal(0, noise))
            for key, value in STUDIES[name](trial).items()
        }
        if name == "study-minute" and SLOW[0] <= (trial.round - 1) / rounds < SLOW[1]:
            values = {key: 1.18 * value for key, value in values.items()}
        file = folder / f"{number:04d}-{trial.test.tool}.log"
        file.write_text(_log(trial, values, at))
        row = {
            "file": file.name,
            "client": trial.pair.client,
            "server": trial.pair.server,
            "round": trial.round,
        }
        row |= {
            "placement": trial.pair.placement,
            "accelerated": "on" if trial.pair.accelerated else "off",
        }
        row |= {
            "started": at.isoformat(),
            "tcp_buffer_bytes": trial.tcp_buffer_bytes,
            **trial.pair.labels,
        }
        rows.append(row | {"bandwidth_mbps": bandwidth})
        at += timedelta(seconds=60)
    labels = pd.DataFrame(rows).dropna(axis="columns", how="all").astype(object)
    return folder, labels.where(labels.notna(), None)


def _log(trial: Trial, values: dict[str, float], at: datetime) -> str:
    if "latency_oneway_us" in values:
        return _qperf(values["latency_oneway_us"])
    if "rtt_us" in values:
        return _sockperf(values["rtt_us"])
    return json.dumps(_iperf3(values, trial.streams or 1, at))


def _sockperf(us: float) -> str:
    """A summary of 1,000 round trips, as sockperf 3.7 prints it with ``--full-rtt``."""
    percentiles = (99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0)
    random = np.random.default_rng(int(us * 1e9))  # no two runs have one histogram
    noise = random.uniform(0.9999, 1.0001, len(percentiles))
    values = sorted((0.9 + np.array(percentiles) / 500) * us * noise, reverse=True)
    rows = [
        f"sockperf: ---> percentile {p:.3f} = {value:8.3f}"
        for p, value in zip(percentiles, values, strict=True)
    ]
    return "\n".join(
        [
            "sockperf: == version #3.7-no.git == ",
            "sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)",
            "[ 0] IP = 10.0.0.5        PORT =    80 # TCP",
            "sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=1001; ReceivedMessages=1000",
            "sockperf: ========= Printing statistics for Server No: 0",
            "sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=1000; ReceivedMessages=1000",
            f"sockperf: ====> avg-rtt={us:.3f} (std-dev=3.100)",
            "sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0",
            f"sockperf: Summary: Round trip is {us:.3f} usec",
            "sockperf: Total 1000 observations; each percentile contains 10.00 observations",
            f"sockperf: ---> <MAX> observation = {us * 1.2:8.3f}",
            *rows,
            f"sockperf: ---> <MIN> observation = {us * 0.9:8.3f}",
            "",
        ]
    )


def _iperf3(values: dict[str, float], streams: int, at: datetime) -> dict[str, Any]:
    """The document of a run of two seconds, in which all streams carry the same."""
    each = round(values["throughput_bps"] / 8 / streams)
    retransmits = int(values.get("retransmits_count", 0))
    rtt = int(values.get("rtt_loaded_us", 100))
    window = 1448 * int(values.get("cwnd_max_bytes", 1.4e6) / 1448)

    def moved(seconds: int, size: int, start: float = 0, **more: Any) -> dict[str, Any]:
        times = {"start": start, "end": start + seconds, "seconds": float(seconds), "sender": True}
        return times | {"bytes": size, "bits_per_second": 8.0 * size / seconds} | more

    intervals = []
    for second in range(2):
        again = retransmits if second else 0
        state = {
            "snd_cwnd": window,
            "snd_wnd": 3145728,
            "rtt": rtt,
            "rttvar": 12,
            "pmtu": 1500,
            "omitted": False,
        }
        rows = [
            moved(1, each, second, retransmits=0 if i else again, socket=5 + 2 * i) | state
            for i in range(streams)
        ]
        total = moved(1, each * streams, second, retransmits=again, omitted=False)
        intervals.append({"streams": rows, "sum": total})
    rtts = {
        "max_rtt": rtt,
        "min_rtt": rtt,
        "mean_rtt": rtt,
        "max_snd_cwnd": window,
        "max_snd_wnd": 3145728,
    }
    ends = [
        {
            "sender": moved(2, 2 * each, retransmits=0 if i else retransmits, socket=5 + 2 * i)
            | rtts,
            "receiver": moved(2, 2 * each, socket=5 + 2 * i),
        }
        for i in range(streams)
    ]
    hosts = {"local_host": "10.0.0.4", "remote_host": "10.0.0.5", "remote_port": 5201}
    test = {
        "protocol": "TCP",
        "num_streams": streams,
        "blksize": 131072,
        "omit": 0,
        "duration": 2,
        "bytes": 0,
    }
    stamp = {"time": at.strftime("%a, %d %b %Y %H:%M:%S GMT"), "timesecs": int(at.timestamp())}
    start = {
        "version": "iperf 3.12",
        "timestamp": stamp,
        "connecting_to": {"host": "10.0.0.5", "port": 5201},
    }
    start |= {
        "connected": [
            {"socket": 5 + 2 * i, "local_port": 40000 + i} | hosts for i in range(streams)
        ]
    }
    start |= {
        "system_info": "Linux vm 6.8.0 x86_64",
        "cookie": "x",
        "tcp_mss_default": 1448,
        "sock_bufsize": 0,
    }
    size = 2 * each * streams
    sums = {"sum_sent": moved(2, size, retransmits=retransmits), "sum_received": moved(2, size)}
    start |= {"test_start": test | {"blocks": 0, "reverse": 0, "tos": 0, "target_bitrate": 0}}
    return {"start": start, "intervals": intervals, "end": {"streams": ends, **sums}}
