"""Results of other projects that drive the same tools: flent, PerfKit Benchmarker, k8s-netperf.

They are summaries, not logs. Averages are read unchanged; zeros that a project writes for lack of a value are left
out. Formats: flent's data file version 4 (its documentation, "Data files"), PerfKit Benchmarker's samples as
newline-delimited JSON, k8s-netperf's documents of ``--json``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from statistics import fmean
from typing import Any, ClassVar

from .draft import Draft, interval_columns
from .parsed import Columns, ParsedRun


@dataclass(frozen=True)
class Peer:
    """A reader of one project's results; a text is either entirely in its format or not at all."""

    NAME: str
    """Name of the project in every table."""
    MARKS: tuple[str, ...]
    """Strings that all occur in its files."""
    documents: Callable[[list[dict[str, Any]]], list[ParsedRun]]
    """Reads the decoded JSON documents of a file."""
    STATES_CONDITIONS: ClassVar[bool] = True
    """The parameters of its runs are conditions that somebody chose, not whatever a log contains."""

    def sightings(self, text: str) -> Iterator[int]:
        """Offset of the first document."""
        if text.lstrip()[:1] in ("{", "[") and all(mark in text for mark in self.MARKS):
            yield len(text) - len(text.lstrip())

    def read(self, text: str) -> list[ParsedRun]:
        """Read every document of a file."""
        try:
            documents = _documents(text)
        except ValueError as error:
            return [
                ParsedRun(
                    tool=self.NAME, status="failed", error=f"the JSON is damaged or cut ({error})"
                )
            ]
        try:
            return self.documents(documents)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            return [
                ParsedRun(
                    tool=self.NAME,
                    status="failed",
                    error=f"not of the form of {self.NAME} ({error})",
                )
            ]


def _documents(text: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except ValueError:
        document = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        d for d in (document if isinstance(document, list) else [document]) if isinstance(d, dict)
    ]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _run(
    tool: str,
    test: str | None,
    metrics: Mapping[str, float | None],
    parameters: Mapping[str, object],
    version: str | None = None,
    *warnings: str,
) -> ParsedRun:
    stated = {k: v for k, v in parameters.items() if isinstance(v, str | int | float) and v != ""}
    draft = Draft(tool, 1, version, test, dict(metrics), stated, list(warnings))
    if all(v is None for v in metrics.values()):
        return draft.run("failed", "none of its figures is a known metric")
    return draft.run()


# -- flent -------------------------------------------------------------------------------------------------------------


def _flent(document: Mapping[str, Any]) -> ParsedRun:
    """Read one test: round trips before the traffic are idle ones, those until its end are under load."""
    meta, series = document.get("metadata") or {}, document.get("results") or {}

    def values(*names: str) -> list[float | None]:
        each = ([_number(v) for v in series.get(name) or ()] for name in names)
        return next((row for row in each if any(v is not None for v in row)), [])

    up = values("TCP upload sum", "TCP upload", "TCP upload BE", "UDP upload")
    down = values("TCP download sum", "TCP download", "TCP download BE", "UDP download")
    pings = values("Ping (ms) avg", *(name for name in series if name.startswith("Ping (ms)")))
    busy = sorted(i for row in (up, down) for i, v in enumerate(row) if v is not None)
    first, last = (busy[0], busy[-1]) if busy else (len(pings), -1)
    metrics = {
        "throughput_bps": _mean(up, 1e6),
        "throughput_reverse_bps": _mean(down, 1e6),
        "rtt_us": _mean(pings[:first], 1e3),
        "rtt_loaded_us": _mean(pings[first : last + 1], 1e3),
    }
    flows = [n for n in series if re.fullmatch(r"TCP upload(?:::\d+| (?!sum|avg)\w+)?", n)]
    parameters = {
        "server": meta.get("HOST"),
        "client": meta.get("LOCAL_HOST"),
        "duration_s": _number(meta.get("LENGTH")),
        "started_utc": meta.get("T0") or meta.get("TIME"),
        "title": meta.get("TITLE"),
        "streams": len(flows) or None,
        "protocol": "tcp" if busy and flows else None,
    }
    note = "averages over the time of the test, as flent keeps them"
    run = _run("flent", meta.get("NAME"), metrics, parameters, meta.get("FLENT_VERSION"), note)
    return replace(
        run, intervals=_series(document.get("x_values") or [], up, pings, range(first, last + 1))
    )


def _mean(values: list[float | None], factor: float) -> float | None:
    measured = [v for v in values if v is not None]
    return fmean(measured) * factor if measured else None


def _series(
    times: list[float], up: list[float | None], pings: list[float | None], busy: range
) -> Columns:
    """Return throughput and round trips against time; samples outside of the traffic are marked as omitted."""
    rows = [
        (i, v if v is None else v * 1e6, p if p is None else p * 1e3)
        for i, (v, p) in enumerate(zip_longest(up, pings))
        if i + 1 < len(times) and (v is not None or p is not None)
    ]
    return interval_columns(
        [times[i] for i, _, _ in rows],
        [times[i + 1] for i, _, _ in rows],
        omitted=[i not in busy for i, _, _ in rows],
        throughput_bps=[v for _, v, _ in rows],
        rtt_loaded_us=[p for _, _, p in rows],
    )


# -- PerfKit Benchmarker -----------------------------------------------------------------------------------------------

_LABEL = re.compile(r"\|([^:|]+):(.*?)\|(?:,|$)")
_SCALE = {"us": 1.0, "ms": 1e3, "s": 1e6, "Mbits/sec": 1e6, "Gbits/sec": 1e9, "Kbits/sec": 1e3}
_PERFKIT_LABELS = {
    "sending_zone": "client_zone",
    "receiving_zone": "server_zone",
    "sending_thread_count": "streams",
    "netperf_num_streams": "streams",
    "num_streams": "streams",
    "ip_type": "ip_type",
    "runtime_in_seconds": "duration_s",
}
_STATISTIC = {
    "p50": "p50",
    "p90": "p90",
    "p99": "p99",
    "min": "min",
    "max": "max",
    "stddev": "stdev",
}
_PING = {
    "Min Latency": "min",
    "Average Latency": "",
    "Max Latency": "max",
    "Latency Std Dev": "stdev",
}


def _perfkit(documents: list[dict[str, Any]]) -> list[ParsedRun]:
    """Read samples. Those of one run are adjacent; a repeated metric, or other labels, begin the next run."""
    runs: list[tuple[tuple[object, ...], dict[str, Any], dict[str, float | None]]] = []
    unread: Counter[str] = Counter()
    for sample in documents:
        labels = sample.get("metadata") or dict(_LABEL.findall(str(sample.get("labels") or "")))
        named = _perfkit_metric(
            str(sample.get("test")), str(sample.get("metric")), str(sample.get("unit"))
        )
        value = _number(sample.get("value"))
        if named is None or value is None:
            unread[f"{sample.get('test')} {sample.get('metric')}"] += 1
            continue
        test, metric, factor = named
        shared = {new: labels[old] for old, new in _PERFKIT_LABELS.items() if old in labels}
        key = (sample.get("test"), sample.get("run_uri"), test, *sorted(map(str, shared.items())))
        if not runs or runs[-1][0] != key or metric in runs[-1][2]:
            numbers = {k: int(v) for k, v in shared.items() if re.fullmatch(r"\d{1,9}", str(v))}
            parameters = shared | numbers | {"benchmark": sample.get("test")} | _placement(shared)
            stamp = _number(sample.get("timestamp"))
            if stamp is not None:
                parameters["started_utc"] = datetime.fromtimestamp(stamp, UTC).isoformat()
            runs.append((key, {"test": test} | parameters, {}))
        runs[-1][2][metric] = value * factor
    omitted = "; ".join(f"{count} of {name}" for name, count in sorted(unread.items()))
    notes = [f"samples without a counterpart here are not read: {omitted}"] if omitted else []
    return [
        _run("perfkit", str(p.pop("test")), metrics, p, None, *(notes if i == 0 else ()))
        for i, (_, p, metrics) in enumerate(runs)
    ]


_IN_REGION = re.compile(r"-\d$|-[a-z]$|(?<=\d)[a-z]$")
"""What follows the region in the name of a zone: eastus-1, us-central1-a, us-east-1a."""


def _placement(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return where the hosts were to each other, if their zones are known."""
    zones = [str(labels[end]) for end in ("client_zone", "server_zone") if labels.get(end)]
    if len(zones) < 2:
        return {}
    one, other = zones
    if one == other:
        return {"placement": "same-zone"}
    regions = {_IN_REGION.sub("", zone) for zone in zones}
    if regions & set(zones):
        return {}  # not a known form of names
    return {"placement": "cross-zone" if len(regions) == 1 else "cross-region"}


def _perfkit_metric(benchmark: str, name: str, unit: str) -> tuple[str, str, float] | None:
    """Return test, metric and factor of a sample's metric; None if it has no counterpart here."""
    if benchmark == "iperf" and name == "Throughput" and unit in _SCALE:
        return (
            "tcp",
            "throughput_sent_bps",
            _SCALE[unit],
        )  # the client of iperf 2 prints what was sent
    if benchmark == "ping" and name in _PING and unit in _SCALE:
        return "icmp", "_".join(filter(None, ("rtt", _PING[name], "us"))), _SCALE[unit]
    if m := re.fullmatch(r"((?:TCP|UDP)_\w+?)_(Throughput|Transaction_Rate|Latency_(\w+))", name):
        if m[2] == "Throughput" and unit in _SCALE:
            return (
                m[1],
                "throughput_bps" if m[1].startswith("TCP") else "throughput_sent_bps",
                _SCALE[unit],
            )
        if m[2] == "Transaction_Rate":
            return m[1], "transaction_rate_per_s", 1.0
        if m[1].endswith("_RR") and m[3] in _STATISTIC and unit in _SCALE:
            return m[1], f"rtt_{_STATISTIC[m[3]]}_us", _SCALE[unit]
    return None


# -- k8s-netperf -------------------------------------------------------------------------------------------------------


def _k8s(document: Mapping[str, Any]) -> ParsedRun:
    profile = str(document.get("profile") or "")
    # zero means that the figure could not be computed
    throughput, latency = (
        _number(document.get(name)) or None for name in ("throughput", "latency")
    )
    metrics: dict[str, float | None] = {}
    if profile.endswith("STREAM"):
        metrics["throughput_bps"] = None if throughput is None else throughput * 1e6
    elif profile.endswith("RR"):
        metrics["transaction_rate_per_s"] = throughput
        metrics["rtt_p99_us"] = latency
    if profile == "TCP_STREAM":
        metrics["retransmits_count"] = _number(document.get("tcpRetransmits"))
    if profile == "UDP_STREAM":
        lost = _number(document.get("udpLossPercent"))
        metrics["lost_ratio"] = None if lost is None else lost / 100
    parameters = {
        "protocol": profile.split("_")[0].lower(),
        "streams": document.get("parallelism"),
        "message_bytes": document.get("messageSize"),
        "duration_s": document.get("duration"),
        "started_utc": document.get("timestamp"),
        "driver": document.get("driver"),
        "host_network": document.get("hostNetwork"),
        "service": document.get("service"),
        "same_node": document.get("local"),
        "across_zones": document.get("acrossAZ"),
    }
    samples = document.get("samples")
    notes = (
        [f"an average of {samples} samples, as k8s-netperf keeps them"]
        if samples and samples != 1
        else []
    )
    return _run(
        "k8s-netperf", profile or None, metrics, parameters, document.get("toolVersion"), *notes
    )


FLENT = Peer("flent", ('"x_values"',), lambda documents: list(map(_flent, documents)))
PERFKIT = Peer("perfkit", ('"metric"', '"value"', '"run_uri"'), _perfkit)
K8S_NETPERF = Peer(
    "k8s-netperf", ('"tputMetric"', '"profile"'), lambda documents: list(map(_k8s, documents))
)
