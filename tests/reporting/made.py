"""A made-up experiment in the shape of the lab's, for tests: planted levels, one deployment, the declared contrasts."""

from __future__ import annotations

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
DECLARED = Path(__file__).parents[2] / "data" / "experiments" / "lab.yaml"


def experiment(
    root: Path,
    *,
    rounds: int = 12,
    seed: int = 7,
    name: str = "lab",
    rename: dict[str, str] | None = None,
) -> Path:
    """Write the tables of an experiment as if its raw runs had been read; return its folder."""
    declared: dict[str, Any] = yaml.safe_load(DECLARED.read_text("utf-8")) | {
        "rounds": rounds,
        "name": name,
    }
    declared = _renamed(declared, rename or {})
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
            run_id = f"d01-r{number:03d}-{test['tool']}-{pair['server']}-{streams}{tuned}-a1"
            at = pd.Timestamp("2026-11-20T09:00Z") + pd.Timedelta(seconds=60 * number + 3 * order)
            row = _row(declared, pair, test, streams) | {
                "run_id": run_id,
                "round": number,
                "order": (number - 1) * len(trials) + order,
                "started_utc": at,
            }
            noise = drift * np.exp(random.normal(0, 0.02))
            row |= _metrics(pair, test, streams, noise, random)
            if number == 3 and order == 0:
                row |= {
                    "status": "failed",
                    "error": "iperf3: error - unable to connect to server",
                    "throughput_bps": None,
                    "latency_oneway_us": None,
                }
            rows.append(row)
            if test["tool"] == "iperf3":
                intervals += _intervals(run_id, row, random)
            if test["tool"] == "sockperf":
                percentiles += _percentiles(run_id, row)
    _write(store, "runs", rows)
    _write(store, "intervals", intervals)
    _write(store, "percentiles", percentiles)
    return store.path


def _renamed(declared: Any, rename: dict[str, str]) -> Any:
    """Other names for some placements, everywhere."""
    if isinstance(declared, dict):
        return {k: _renamed(v, rename) for k, v in declared.items()}
    if isinstance(declared, list):
        return [_renamed(v, rename) for v in declared]
    return rename.get(declared, declared) if isinstance(declared, str) else declared


def _trials(declared: dict[str, Any]) -> Any:
    for pair in declared["pairs"]:
        for test in declared["tests"]:
            if pair["placement"] in (test.get("placements") or [pair["placement"]]):
                for streams in test.get("streams", [1]):
                    for buffers in test.get("tcp_buffer_bytes", [None]):
                        yield pair | {"tcp_buffer_bytes": buffers}, test, streams


def _row(
    declared: dict[str, Any], pair: dict[str, Any], test: dict[str, Any], streams: int
) -> dict[str, Any]:
    far = pair["placement"] == "cross-region"
    return {
        "experiment": declared["name"],
        "deployment": 1,
        "attempt": 1,
        "status": "ok",
        "placement": pair["placement"],
        "client": pair["client"],
        "server": pair["server"],
        "accelerated": pair["accelerated"],
        "streams": streams,
        "tcp_buffer_bytes": pair["tcp_buffer_bytes"],
        "tool": test["tool"],
        "test": test["test"],
        "duration_s": float(test["duration_s"]),
        "omit_s": float(test.get("omit_s", 0)),
        "protocol": "tcp",
        "direction": "forward",
        "client_vm_size": "made-up",
        "server_vm_size": "made-up",
        "client_region": "here",
        "server_region": "there" if far else "here",
        "client_zone": "1",
        "kernel": "6.1.0",
        "server_zone": "2" if pair["placement"] == "cross-zone" else "1",
        "congestion_control": "cubic",
        "nic_driver": "tun",
        "vf_up": None,
        "notice": NOTICE,
        "tool_version": "1.0",
        "command": test["tool"],
        "reader_version": "0123456789ab",
        "raw_path": "raw/none",
        "raw_sha256": "0" * 64,
        "warnings": [],
    }


def _metrics(
    pair: dict[str, Any], test: dict[str, Any], streams: int, noise: float, random: Any
) -> dict[str, Any]:
    one_way = LEVEL.get(pair["placement"], 40.0) + (0 if pair["accelerated"] else 120)
    if test["tool"] == "qperf":
        return {"latency_oneway_us": one_way * noise}
    if test["tool"] == "sockperf":
        p99 = one_way * noise * 1.6
        return {
            "latency_oneway_us": one_way * noise * 1.05,
            "latency_oneway_p50_us": one_way * noise,
            "latency_oneway_p99_us": p99,
            "latency_oneway_p999_us": p99 * 2.2,
            "latency_oneway_max_us": p99 * 5,
        }
    window = pair["tcp_buffer_bytes"] or 2_000_000
    top = 2.4e9 if pair["placement"] == "cross-region" else 8e9
    got = min(top, streams * window * 8 / (2 * one_way * 1e-6)) * noise
    return {
        "throughput_bps": got,
        "throughput_sent_bps": got * 1.01,
        "rtt_loaded_us": 2 * one_way * 1.2 * noise,
        "retransmits_count": float(random.poisson(3)),
    }


def _intervals(run_id: str, row: dict[str, Any], random: Any) -> list[dict[str, Any]]:
    found = []
    for i in range(int((row["duration_s"] + row["omit_s"]) * 2)):
        ramp = 1 - 0.5 * np.exp(-i)
        value = row["throughput_bps"]
        found.append(
            {
                "run_id": run_id,
                "stream": -1,
                "direction": "forward",
                "start_s": i / 2,
                "end_s": (i + 1) / 2,
                "omitted": i / 2 < row["omit_s"],
                "throughput_bps": None
                if value is None
                else value * ramp * np.exp(random.normal(0, 0.04)),
                "retransmits_count": float(random.poisson(0.5)),
                "rtt_loaded_us": row["rtt_loaded_us"],
                "cwnd_bytes": 1e6,
            }
        )
    return found


def _percentiles(run_id: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    middle = row["latency_oneway_p50_us"]
    points = [(25, 0.97), (50, 1.0), (75, 1.05), (90, 1.2), (99, 1.6), (99.9, 3.5), (99.99, 6.0)]
    return [
        {
            "run_id": run_id,
            "basis": "latency_oneway",
            "percentile": float(p),
            "latency_us": middle * f,
            "beyond": int(20_000 * (1 - p / 100)),
        }
        for p, f in points
    ]


def _write(store: Store, table: Any, rows: list[dict[str, Any]]) -> None:
    folder = store.path / "tables" / table
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[table]), folder / "part-0.parquet")
