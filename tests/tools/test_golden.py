"""Each log of the collection reads as a person reads it."""

import re

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.metrics import METRICS
from tests.tools import golden

LOGS = golden.golden_logs()


@pytest.mark.parametrize("log", LOGS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_log_reads_as_expected(log):
    assert golden.expectation(log).exists(), (
        "no expectation: read the log, then `make golden`"
    )
    assert golden.difference(log) == ""


@pytest.mark.slow
def test_damaged_logs_read_as_before():
    """Status, error, warnings and figures of 20 damages of each log."""
    expected = dict(line.split() for line in golden.DAMAGED.read_text().splitlines())
    found = {
        f"{log.parent.name}/{log.name}": golden.damaged(log)
        for log in golden.small_logs()
    }
    assert [
        name for name in expected | found if expected.get(name) != found.get(name)
    ] == [], "`make golden` takes what is read now, once you have looked at it"


def test_texts_at_the_edge_of_a_rule_read_as_before():
    found = [row | {"read": golden.digest(row)} for row in golden.edges()]
    assert [row["text"] for row in found if row not in golden.edges()] == []


def test_every_tool_has_a_golden_log():
    covered = {p.parent.name for p in LOGS}
    # results of other projects are made in their own tests
    assert covered >= {
        name
        for name, reader in tools.readers().items()
        if not hasattr(reader, "STATES_CONDITIONS")
    }
    assert covered <= set(tools.readers()), "a folder of logs that no tool reads"


@pytest.mark.parametrize("log", LOGS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_contract_of_runs(log):
    if golden.expectation(log).read_text().startswith('"'):
        with pytest.raises(ParseError) as refusal:
            tools.parse(log.read_bytes())
        assert set(tools.readers()) <= set(re.findall(r"[\w-]+", str(refusal.value)))
        return
    runs = tools.parse(log.read_bytes())
    for run in runs:
        assert set(run.metrics) <= set(METRICS)
        assert all(isinstance(v, int | float) and v == v for v in run.metrics.values())
        assert (run.error is None) == (run.status == "ok")
        assert not (run.metrics and run.status == "failed"), "a failed run has no numbers"
        assert len({len(column) for column in run.intervals.values()}) <= 1
        assert set(run.intervals) <= {
            "stream", "direction", "start_s", "end_s", "omitted",
            "throughput_bps", "retransmits_count", "rtt_loaded_us", "cwnd_bytes",
        }  # fmt: skip
        assert run.line >= 1
