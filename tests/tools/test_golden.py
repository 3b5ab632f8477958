"""Each log of the collection reads as a person reads it."""

import pytest

from netperf_lib import tools
from tests.tools import golden
from tests.tools.intact import read

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
    rows = golden.edges()
    assert [row["text"] for row in rows if row["read"] != golden.digest(row)] == []


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
    read(log.read_bytes())
