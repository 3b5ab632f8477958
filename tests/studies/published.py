"""The experiments of the five published studies, as if they had been measured: the published values
and some noise."""

import math
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from netperf_lib.data.declaration import declare, write_plan
from netperf_lib.data.raw import Record
from netperf_lib.data.tables import run_row, runs_table
from netperf_lib.experiment.estimate import trial_s
from netperf_lib.experiment.schedule import schedule, trial_levels
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.tools.parsed import ParsedRun

from ..conftest import REPO

NOTICE = "Made-up runs around published values, for a test. No host was measured."
DECLARED = REPO / "data" / "experiments"
START = datetime(2026, 11, 2, 6, tzinfo=UTC)


def placement(trial):
    """Tomas Kubica, West Europe, Standard_D16_v3."""
    place = trial.pair.placement
    if trial.test.tool == "qperf":
        us = {"ppg": 39.4, "same-zone": 58.2, "cross-zone": 57.2, "cross-region": 9900.0}
        return {"latency_oneway_us": us[place]}
    rate = {1: 0.721e9, 16: 2.55e9}[trial.streams]
    rate = {"ppg": 7.55e9, "same-zone": 7.56e9, "cross-zone": 7.54e9}.get(place, rate)
    # what was published is the sender's
    return {"throughput_bps": 0.998 * rate, "throughput_sent_bps": rate}


def minute(trial):
    """sockperf once a minute in a placement group: "4x-5x us"."""
    return {"rtt_us": 48.0}


def ladder(trial):
    """Streams between Windows VMs, Japan East, DS5 v2, in Gbit/s."""
    steps = {1: 0.856, 16: 7.98, 28: 8.65, 32: 11.2, 40: 10.6, 48: 9.57, 64: 9.67}
    peered = trial.pair.placement == "vnet-peering"
    share = 10.9 / 11.2 if peered else 1.0
    cap = 9.83 if trial.pair.placement == "expressroute" else 99.0
    cap = 1.4 if trial.pair.labels.get("gateway_sku") == "ErGw1AZ" else cap
    return {"throughput_bps": 1e9 * min(cap, share * steps[trial.streams])}


def domains(trial):
    """feifo on Qiita: Oracle Cloud, Phoenix, three availability domains."""
    if trial.test.test == "tcp_bw":
        return {"throughput_bps": 16e9}
    return {
        "latency_oneway_us": {"ad2": 402.0, "ad3": 386.0, "ad1": 113.0}[trial.pair.server]
    }


def paths(trial):
    """yinghli/AzureVMNetworkPerformance: East Asia, and East Asia to West US, Standard_D8s_v3."""
    name = trial.pair.placement if trial.pair.accelerated else "plain"
    if trial.test.tool == "qperf":
        us = {"plain": 146.0, "same-zone": 40.0, "standard-lb": 53.0}
        return {"latency_oneway_us": us.get(name, {"vpn": 84_000.0}.get(name, 93_000.0))}
    gbps, cwnd = {
        "plain": (3.65, 3.27),
        "same-zone": (3.82, 1.36),
        "standard-lb": (3.28, 1.61),
        "public-ip": (2.12, 24.5),
        "vpn": (0.549, 12.2),
        "cross-region": (1.76, 33.7),
    }[name]
    far = name in ("public-ip", "vpn", "cross-region")
    if far and trial.tcp_buffer_bytes is None:
        gbps, cwnd = 0.131, 6.02
    rtt = {"rtt_loaded_us": 168_000.0 if name == "vpn" else 186_000.0} if far else {}
    return {
        "throughput_bps": gbps * 1e9,
        "cwnd_max_bytes": cwnd * 1e6,
        "retransmits_count": 9.0 if far else 0.0,
    } | rtt


STUDIES = {
    "study-placement": placement,
    "study-minute": minute,
    "study-ladder": ladder,
    "study-domains": domains,
    "study-paths": paths,
}


def measured(name, root, *, noise=0.01, seed=5):
    """Write the table of runs of a study's experiment; return its folder."""
    experiment = load_experiment(DECLARED / f"{name}.yaml")
    return planted(experiment, STUDIES[name], root, noise=noise, seed=seed)


def unchanged(_at):
    return 1.0


def planted(
    experiment,
    truth,
    root,
    *,
    noise=0.01,
    seed=5,
    start=START,
    notice=NOTICE,
    change=unchanged,
):
    """Write the table of runs of an experiment: each truth with noise, changed by time."""
    store = Path(root, experiment.name)
    declare(store, experiment)
    plan = schedule(experiment, seed=1)
    write_plan(store, plan.to_dict())
    at, rows = start, []
    for trial in [trial for trial in plan.trials if not trial.leading]:
        # the same noise for a trial wherever the random order puts it
        random = np.random.default_rng([seed, zlib.crc32(trial.run_id.encode())])
        values = {
            name: value * change(at) * math.exp(random.normal(0, noise))
            for name, value in truth(trial).items()
        }
        parameters = {"protocol": "tcp"}
        tool = trial.test.tool
        parsed = ParsedRun(tool=tool, status="ok", metrics=values, parameters=parameters)
        record = _record(experiment, trial, at, notice)
        rows.append(run_row(record, [parsed], None) | NO_LOG)
        at += timedelta(seconds=trial_s(trial, experiment))
    folder = store / "tables" / "runs"
    folder.mkdir(parents=True)
    pq.write_table(runs_table(rows), folder / "part-0.parquet")
    return store


NO_LOG = {"raw_path": "raw/none", "raw_sha256": "0" * 64}
LIMITS = {
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
}


def _record(experiment, trial, at, notice):
    """Return what the collector would have written."""
    options = experiment.hosts.options
    far = trial.pair.placement in ("cross-region", "public-ip", "vpn")
    regions = {"client": "region", "server": "remote_region" if far else "region"}
    hosts = {}
    for side, region in regions.items():
        given = (options.get("hosts") or {}).get(getattr(trial.pair, side), {})
        where = {
            "region": given.get("region", options.get(region)),
            "zone": given.get("zone"),
        }
        hosts[side] = where | {"vm_size": options.get("vm_size")}
    return Record(
        experiment=experiment.name,
        run_id=f"{trial.run_id}-a1",
        deployment=1,
        round=trial.round,
        order=trial.order,
        attempt=1,
        status="ok",
        notice=notice,
        trial=trial_levels(trial),
        hosts=hosts,
        facts={side: {"kernel": "6.8.0", "sysctl": LIMITS} for side in hosts},
        commands={"client": [trial.test.tool]},
        started_utc=at.isoformat(),
    )
