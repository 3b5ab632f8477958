"""A made-up experiment in the shape of the lab's, for tests: planted levels, one deployment, the declared contrasts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from netperf_lib.data.layout import Store
from netperf_lib.data.tables import SCHEMAS

NOTICE = (
    "Made-up numbers for a test. No host was measured; nothing here says anything about a network."
)
LEVEL = {"ppg": 40.0, "same-zone": 58.0, "cross-zone": 57.0, "cross-region": 10_400.0}
"""One-way latency, µs."""
START = pd.Timestamp("2026-11-20T09:00Z")
CONSTANT = {
    "deployment": 1,
    "attempt": 1,
    "status": "ok",
    "protocol": "tcp",
    "direction": "forward",
    "client_vm_size": "made-up",
    "server_vm_size": "made-up",
    "client_region": "here",
    "client_zone": "1",
    "kernel": "6.1.0",
    "congestion_control": "cubic",
    "nic_driver": "tun",
    "notice": NOTICE,
    "tool_version": "1.0",
    "reader_version": "0123456789ab",
    "raw_path": "raw/none",
    "raw_sha256": "0" * 64,
    "warnings": [],
}
"""What every run has in common."""
DECLARED = Path(__file__).parents[2] / "data" / "experiments" / "lab.yaml"


def experiment(
    root: Path,
    *,
    rounds: int = 12,
    seed: int = 7,
    name: str = "lab",
    rename: dict[str, str] | None = None,
) -> Path:
    """Write the tables of an experiment as if its raw runs had been read; return its folder.

    `rename` gives other names to placements.
    """
    text = DECLARED.read_text("utf-8")
    for old, new in (rename or {}).items():
        text = re.sub(rf"(placement: |\[|, ){old}\b", rf"\g<1>{new}", text)
    declared = yaml.safe_load(text) | {"rounds": rounds, "name": name}
    store = Store(root, name)
    store.path.mkdir(parents=True)
    (store.path / "experiment.yaml").write_text(yaml.safe_dump(declared, sort_keys=False), "utf-8")
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    intervals: list[dict[str, Any]] = []
    percentiles: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        drift = 1 + 0.01 * np.sin(number / 3)
        trials = list(_trials(declared))
        random.shuffle(trials)
        for order, (pair, test, streams) in enumerate(trials):
            tuned = f"-{pair['tcp_buffer_bytes']}" if pair["tcp_buffer_bytes"] else ""
            noise = drift * np.exp(random.normal(0, 0.02))
            row = {
                **_row(pair, test, streams),
                **_metrics(pair, test, streams, noise, random),
                "experiment": name,
                "run_id": f"d01-r{number:03d}-{test['tool']}-{pair['server']}-{streams}{tuned}-a1",
                "round": number,
                "order": (number - 1) * len(trials) + order,
                "started_utc": START + pd.Timedelta(seconds=60 * number + 3 * order),
            }
            if number == 3 and order == 0:
                row |= {"status": "failed", "error": "iperf3: error - unable to connect to server"}
                row |= {"throughput_bps": None, "latency_oneway_us": None}
            rows.append(row)
            if test["tool"] == "iperf3":
                intervals += _intervals(row, random)
            if test["tool"] == "sockperf":
                percentiles += _percentiles(row)
    _write(store, "runs", rows)
    _write(store, "intervals", intervals)
    _write(store, "percentiles", percentiles)
    return store.path


def _trials(declared: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], int]]:
    for pair in declared["pairs"]:
        for test in declared["tests"]:
            if pair["placement"] in (test.get("placements") or [pair["placement"]]):
                for streams in test.get("streams", [1]):
                    for buffers in test.get("tcp_buffer_bytes", [None]):
                        yield pair | {"tcp_buffer_bytes": buffers}, test, streams


def _row(pair: dict[str, Any], test: dict[str, Any], streams: int) -> dict[str, Any]:
    far, other = pair["placement"] == "cross-region", pair["placement"] == "cross-zone"
    shared = ("placement", "client", "server", "accelerated", "tcp_buffer_bytes")
    return {
        **CONSTANT,
        **{name: pair[name] for name in shared},
        "streams": streams,
        "tool": test["tool"],
        "command": test["tool"],
        "test": test["test"],
        "duration_s": float(test["duration_s"]),
        "omit_s": float(test.get("omit_s", 0)),
        "server_region": "there" if far else "here",
        "server_zone": "2" if other else "1",
    }


def _metrics(
    pair: dict[str, Any], test: dict[str, Any], streams: int, noise: float, random: Any
) -> dict[str, Any]:
    one_way = LEVEL.get(pair["placement"], 40.0) + (0 if pair["accelerated"] else 120)
    if test["tool"] == "qperf":
        return {"latency_oneway_us": one_way * noise}
    if test["tool"] == "sockperf":
        times = {"": 1.05, "_p50": 1.0, "_p99": 1.6, "_p999": 3.52, "_max": 8.0}
        return {f"latency_oneway{s}_us": one_way * noise * f for s, f in times.items()}
    window = pair["tcp_buffer_bytes"] or 2_000_000
    top = 2.4e9 if pair["placement"] == "cross-region" else 8e9
    got = min(top, streams * window * 8 / (2 * one_way * 1e-6)) * noise
    return {
        "throughput_bps": got,
        "throughput_sent_bps": got * 1.01,
        "rtt_loaded_us": 2 * one_way * 1.2 * noise,
        "retransmits_count": float(random.poisson(3)),
    }


def _intervals(row: dict[str, Any], random: Any) -> list[dict[str, Any]]:
    value = row["throughput_bps"]
    return [
        {
            "run_id": row["run_id"],
            "stream": -1,
            "direction": "forward",
            "start_s": i / 2,
            "end_s": (i + 1) / 2,
            "omitted": i / 2 < row["omit_s"],
            "throughput_bps": value
            and value * (1 - 0.5 * np.exp(-i)) * np.exp(random.normal(0, 0.04)),
            "retransmits_count": float(random.poisson(0.5)),
            "rtt_loaded_us": row["rtt_loaded_us"],
            "cwnd_bytes": 1e6,
        }
        for i in range(int((row["duration_s"] + row["omit_s"]) * 2))
    ]


def _percentiles(row: dict[str, Any]) -> list[dict[str, Any]]:
    middle = row["latency_oneway_p50_us"]
    points = {25: 0.97, 50: 1.0, 75: 1.05, 90: 1.2, 99: 1.6, 99.9: 3.5, 99.99: 6.0}
    return [
        {
            "run_id": row["run_id"],
            "basis": "latency_oneway",
            "percentile": float(p),
            "latency_us": middle * f,
            "beyond": int(20_000 * (1 - p / 100)),
        }
        for p, f in points.items()
    ]


def _write(store: Store, table: Any, rows: list[dict[str, Any]]) -> None:
    folder = store.path / "tables" / table
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]), folder / "part-0.parquet")
