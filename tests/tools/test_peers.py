"""Results of other projects, made here in their formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import netperf_lib as npl
from netperf_lib import tools
from netperf_lib.data.imports import understand

FLENT: dict[str, Any] = {
    "version": 4,
    "metadata": {
        "NAME": "tcp_nup",
        "HOST": "b",
        "LOCAL_HOST": "a",
        "LENGTH": 10,
        "T0": "2026-11-01T10:00:00Z",
    },
    "x_values": [0.0, 0.2, 0.4],
    "results": {
        "TCP upload::1": [40.0, 50.0, 60.0],
        "TCP upload sum": [90.0, None, 110.0],
        "Ping (ms) ICMP": [1.0, 2.0, None],
    },
    "raw_values": {},
}


def sample(
    metric: str, value: float, unit: str, test: str = "netperf", **labels: object
) -> dict[str, Any]:
    text = ",".join(f"|{k}:{v}|" for k, v in labels.items())
    return {
        "metric": metric,
        "value": value,
        "unit": unit,
        "test": test,
        "run_uri": "r1",
        "labels": text,
    }


def test_flent(tmp_path: Path) -> None:
    place = tmp_path / "a.flent.gz"
    place.write_bytes(gzip.compress(json.dumps(FLENT).encode()))
    (run,) = understand(place)
    assert run.parsed.tool == "flent"
    assert run.parsed.metrics == {"throughput_bps": 100e6, "rtt_loaded_us": 1500.0}
    assert run.get("server") == "b"
    assert run.get("started_utc") == "2026-11-01T10:00:00Z"


def test_a_ping_without_traffic_is_not_under_load() -> None:
    idle = FLENT | {"results": {"Ping (ms) ICMP": [1.0, 3.0]}}
    (run,) = tools.parse(json.dumps(idle))
    assert dict(run.metrics) == {"rtt_us": 2000.0}


def test_the_idle_time_around_the_traffic_is_not_under_load() -> None:
    """As in RRUL: five samples before the traffic and after it, twelve with it."""
    idle, busy = [11.4, 11.6, 11.5, 11.3, 11.7], [36.0, 37.0] * 6
    document = FLENT | {
        "x_values": [float(i) for i in range(23)],
        "results": {
            "TCP upload sum": [*[None] * 5, *[90.0] * 12, *[None] * 5],
            "Ping (ms) avg": [*idle, *busy, *idle],
        },
    }
    (run,) = tools.parse(json.dumps(document))
    assert dict(run.metrics) == pytest.approx(
        {"throughput_bps": 90e6, "rtt_us": 11500.0, "rtt_loaded_us": 36500.0}
    )
    assert list(run.intervals["omitted"]) == [True] * 5 + [False] * 12 + [True] * 5
    assert run.intervals["rtt_loaded_us"][5] == 36000.0
    assert run.intervals["start_s"][5] == 5.0


@pytest.mark.parametrize(
    ("client", "server", "placement"),
    [
        ("eastus-1", "eastus-1", "same-zone"),
        ("eastus-1", "eastus-2", "cross-zone"),
        ("eastus-1", "westus-1", "cross-region"),
        ("us-central1-a", "us-central1-b", "cross-zone"),
        ("us-east-1a", "us-east-1b", "cross-zone"),
        ("us-east-1a", "us-east-2a", "cross-region"),
        ("eastus", "westus", None),
    ],
)
def test_zones_of_perfkit_give_the_placement(
    client: str, server: str, placement: str | None
) -> None:
    zones = {"sending_zone": client, "receiving_zone": server}
    lines = [
        sample("TCP_RR_Transaction_Rate", 9000.0, "transactions_per_second", **zones),
        *[sample("packets_per_second", 1.0, "pps", "iperf", **zones)] * 8,
    ]
    (run,) = tools.parse("\n".join(map(json.dumps, lines)))
    assert run.parameters.get("placement") == placement
    assert run.warnings == (
        "samples without a counterpart here are not read: 8 of iperf packets_per_second",
    )


def test_perfkit_samples_of_one_run_are_one_run() -> None:
    zones = {"ip_type": "internal", "sending_zone": "z1", "receiving_zone": "z2"}
    lines = [
        sample("TCP_RR_Transaction_Rate", 9000.0, "transactions_per_second", **zones),
        sample("TCP_RR_Latency_p50", 105.0, "us", **zones),
        sample("TCP_RR_Latency_p99", 240.0, "us", **zones),
        sample("TCP_RR_Transaction_Rate", 9100.0, "transactions_per_second", **zones),
        sample("TCP_STREAM_Throughput", 9_400.0, "Mbits/sec", **zones),
        sample("Throughput", 15_000.0, "Mbits/sec", "iperf", sending_thread_count=8, **zones),
        sample("End to End Runtime", 100.0, "seconds", "iperf"),
    ]
    runs = tools.parse("\n".join(map(json.dumps, lines)))
    assert [dict(r.metrics) for r in runs] == [
        {"transaction_rate_per_s": 9000.0, "rtt_p50_us": 105.0, "rtt_p99_us": 240.0},
        {"transaction_rate_per_s": 9100.0},
        {"throughput_bps": 9.4e9},
        {"throughput_sent_bps": 15e9},
    ]
    assert runs[0].parameters["client_zone"] == "z1"
    assert runs[3].parameters["streams"] == 8


def test_a_zero_of_k8s_netperf_is_no_figure() -> None:
    document = {
        "driver": "netperf",
        "profile": "TCP_RR",
        "throughput": 12000.5,
        "latency": 0,
        "parallelism": 1,
    }
    document |= {"tputMetric": "OP/s", "messageSize": 1024, "acrossAZ": True, "samples": 3}
    runs = tools.parse(
        json.dumps([document, document | {"profile": "TCP_STREAM", "throughput": 9000.0}], indent=2)
    )
    assert [dict(r.metrics) for r in runs] == [
        {"transaction_rate_per_s": 12000.5},
        {"throughput_bps": 9e9},
    ]
    assert runs[0].parameters["across_zones"] is True


@pytest.mark.parametrize("cut", [50, 200])
def test_a_cut_document_is_a_failed_run_or_no_run(tmp_path: Path, cut: int) -> None:
    text = json.dumps(FLENT)
    place = tmp_path / "cut.flent"
    place.write_text(text[:-cut])
    try:
        runs = npl.parse(place)
    except npl.errors.ParseError:
        return
    assert {r.status for r in runs} == {"failed"}


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": "x", "results": {}, "x_values": []},
        {"metadata": {}, "results": {"TCP upload": 5}, "x_values": [0, 1]},
        {
            "metric": "Throughput",
            "value": 5,
            "unit": "Mbits/sec",
            "test": "iperf",
            "run_uri": "x",
            "timestamp": 1e300,
        },
    ],
)
def test_a_document_of_another_form_is_a_failed_run(document: dict[str, object]) -> None:
    (run,) = tools.parse(json.dumps(document))
    assert run.status == "failed"
    assert "not of the form" in str(run.error)


def test_a_result_without_the_name_of_its_test_has_none() -> None:
    flent = {"metadata": {}, "results": {"TCP upload": [5, 6]}, "x_values": [0, 1, 2]}
    assert [run.test for run in tools.parse(json.dumps(flent))] == [None]
