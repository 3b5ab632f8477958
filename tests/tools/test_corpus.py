"""Every log of the shared collection, against the figures that its index quotes
(tests/tools/corpus_*.tsv)."""

import csv
import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError

HERE = Path(__file__).parent
LOGS = Path(os.environ.get("NETPERF_SHARED", HERE.parents[2] / "shared")) / "logs"

TOOLS = ("iperf2", "iperf3", "ntttcp", "qperf", "sockperf", "udp")
"""How the folders of the tools that are read begin; the collection has logs of others."""

Expectation = tuple[str, str, dict[str, str]]


@cache
def expectations():
    """Log -> for each run in it: its number, its status, its figures."""
    found = defaultdict(list)
    for table in sorted(HERE.glob("corpus_*.tsv")):
        for line in table.read_text().splitlines():
            if line and not line.startswith("#"):
                log, run, status, figures = line.split("\t")
                pairs = re.findall(r"([\w.]+)=(.*?)(?=\s+[\w.]+=|$)", figures)
                found[log].append((run, status, dict(pairs)))
    return dict(found)


def half_unit(number):
    """Half a unit of the last digit as written: what rounding may take away."""
    mantissa, _, exponent = number.lower().partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def value(run, name):
    if name == "intervals":
        return len(run.intervals["start_s"]) if run.intervals else 0
    if name.startswith("interval_"):
        column = {
            "interval_bps": "throughput_bps",
            "interval_retransmits": "retransmits_count",
        }[name]
        return run.intervals[column][0]
    if m := re.fullmatch(r"(p[\d.]+)(_beyond)?", name):
        point = next(p for p in run.percentiles if p.percentile == float(m[1][1:]))
        return point.beyond if m[2] else point.latency_us
    return run.metrics.get(name)


@pytest.mark.skipif(
    not LOGS.exists(), reason=f"no collection of logs at {LOGS} (set NETPERF_SHARED)"
)
def test_figures_of_the_index():
    for log, expected in sorted(expectations().items()):
        check(log, expected)


def check(log, expected):
    data = (LOGS / log).read_bytes()
    if expected[0][1] == "refused":
        with pytest.raises(ParseError):
            tools.parse(data)
        return
    runs = tools.parse(data)
    assert len(runs) == len(expected), [
        (log, r.tool, r.line, r.status, r.error) for r in runs
    ]
    for (_, status, figures), run in zip(expected, runs, strict=True):
        assert run.status == status, (log, run.error)
        for name, text in figures.items():
            if name == "error":
                assert text in (run.error or ""), log
                continue
            found = value(run, name)
            if text == "null":
                assert found is None, (log, name)
            else:
                assert found is not None, (log, name)
                # the figures of whole numbers are exact; 0.1 % lets 67.2 GBytes stand for its bytes
                slack = half_unit(text) if "." in text or "e" in text.lower() else 0.5
                assert abs(found - float(text)) <= slack * 1.001, (
                    f"{log}: {name}: {found} is not {text}"
                )


@pytest.mark.skipif(
    not (LOGS / "udp").exists(),
    reason=f"no collection of logs at {LOGS} (set NETPERF_SHARED)",
)
def test_public_documents_over_udp_are_read():
    """270 of 270 of the best-known benchmark of container networks were refused once; 30 of them
    are in the sample."""
    with (LOGS / "udp" / "INDEX.tsv").open(encoding="utf-8") as table:
        rows = [
            row
            for row in csv.DictReader(table, delimiter="\t")
            if row["status"] == "ok" and row["tool"] == "iperf3"
        ]
    assert len(rows) > 20
    for row in rows:
        run = tools.parse((LOGS / "udp" / row["file"]).read_text("utf-8"))[0]
        assert (run.status, run.error) == ("ok", None), row["file"]
        for name, figure in re.findall(r"(\w+)=([\d.e+-]+)", row["key_figures"]):
            # text states CPU times, too, which are not read
            found = run.metrics.get(
                name, float(figure) if name.startswith("cpu_") else None
            )
            assert found == pytest.approx(float(figure), rel=1e-6), (row["file"], name)
