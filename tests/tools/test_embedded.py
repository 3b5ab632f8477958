"""Logs inside of JSON that others made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.embedded import embedded

LOGS = Path(__file__).parents[1] / "logs"
DOCUMENT = (LOGS / "iperf3" / "gen-3.12-udp.json").read_text()
OTHER = (LOGS / "iperf3" / "gen-3.21-tcp-P2.json").read_text()
QPERF = (LOGS / "qperf" / "gen-v.txt").read_text()


def figures(*logs: str) -> list[dict[str, float]]:
    return [dict(r.metrics) for log in logs for r in tools.parse(log)]


@pytest.mark.parametrize("indent", [None, 2])
def test_results_in_lists_and_by_name(indent: int | None) -> None:
    one, two = json.loads(DOCUMENT), json.loads(OTHER)
    for value in (
        [one, two],
        {"vm-1": one, "vm-2": {"rounds": [two]}},
        {"host": "a", "results": [one, two]},
    ):
        assert figures(json.dumps(value, indent=indent)) == figures(DOCUMENT, OTHER)


def test_what_commands_printed_as_strings() -> None:
    ansible = {"cmd": "qperf", "stdout": QPERF, "stdout_lines": QPERF.splitlines(), "stderr": ""}
    assert figures(json.dumps({"plays": [ansible]}, indent=1)) == figures(QPERF)
    lines = [{"level": "info", "msg": "begin"}, {"level": "info", "msg": "done", "out": DOCUMENT}]
    runs = tools.parse("".join(json.dumps(x) + "\n" for x in lines))
    assert [(r.line, dict(r.metrics)) for r in runs] == [(2, *figures(DOCUMENT))]
    line = json.dumps(json.loads(DOCUMENT))
    for end in ("stdout", "stderr"):  # its lines are not a second result
        (run,) = tools.parse(json.dumps({"host": "a", end: line, f"{end}_lines": [line]}))
        assert run.warnings == tools.parse(line)[0].warnings


def test_keys_printed_twice_are_both_kept() -> None:
    twice = (LOGS / "iperf3" / "gen-3.7-bidir-dupkeys.json").read_text()
    assert figures('{"host": "a", "result": ' + twice + "}") == figures(twice)


def test_a_document_after_a_word_in_a_log() -> None:
    line = (
        "2024-05-01T12:00:00Z INFO result: "
        + json.dumps(json.loads(DOCUMENT))
        + "\n2024-05-01T12:00:01Z INFO done\n"
    )
    assert figures(line) == figures(DOCUMENT)


def test_the_same_result_twice_is_one_run_and_a_warning() -> None:
    (run,) = tools.parse(json.dumps([json.loads(DOCUMENT)] * 2))
    assert "a second time" in run.warnings[-1]


def test_a_failed_result_is_not_lost() -> None:
    refused = (LOGS / "iperf3" / "gen-3.12-refused.json").read_text()
    runs = tools.parse(json.dumps([json.loads(refused), json.loads(DOCUMENT)]))
    assert [r.status for r in runs] == ["failed", "ok"]


def test_other_json_is_no_log() -> None:
    with pytest.raises(ParseError):
        tools.parse('{"begin": "2024-05-01", "end": "2024-05-02", "rows": [1, 2]}')
    with pytest.raises(ParseError):
        tools.parse('[{"a": "some\\nlines"}]')


@pytest.mark.parametrize(
    "name", ["gen-3.12-udp.json", "gen-3.21-tcp-P2.json", "gen-3.12-refused.json"]
)
def test_a_document_with_something_put_before_its_own_keys(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = (LOGS / "iperf3" / name).read_text()
    looked = 0

    def counted(text: str) -> list[tuple[int, str]]:
        nonlocal looked
        looked += 1
        return embedded(text)

    monkeypatch.setattr(tools, "embedded", counted)
    (run,) = tools.parse(plain.replace("{", '{"host": "a", ', 1))
    (alone,) = tools.parse(plain)
    assert (run.status, run.error, run.metrics) == (alone.status, alone.error, alone.metrics)
    assert looked <= 3
