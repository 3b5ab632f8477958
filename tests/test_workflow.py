"""The workflows are valid, their commands exist, and they store no secret."""

from __future__ import annotations

import re

import click
import yaml

from netperf_lib.cli import npl

from .conftest import REPO


def test_the_scheduled_report_calls_verbs_that_exist() -> None:
    text = (REPO / ".github/workflows/report.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    triggers = workflow[True]  # what yaml makes of "on"
    assert triggers["schedule"][0]["cron"].count(" ") == 4
    assert workflow["permissions"] == {"contents": "read", "id-token": "write"}
    steps = workflow["jobs"]["report"]["steps"]
    verbs = [m[1] for s in steps if (m := re.match(r"\.venv/bin/npl (\w+)", s.get("run", "")))]
    assert verbs == ["ingest", "verify", "report"]
    assert isinstance(npl, click.Group)
    assert set(verbs) <= set(npl.commands)
    assert "secrets." not in text
    assert not re.search(r"(?i)(account_?key|connection_?string|sas)\s*[:=]", text)


def test_the_gate_compares_with_the_baseline_and_opens_nothing_but_its_log() -> None:
    text = (REPO / ".github/workflows/gate.yml").read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["gate"]["steps"]
    lines = [m[1].split() for s in steps if (m := re.match(r"\.venv/bin/npl (.*)", s.get("run", "")))]
    assert [words[0] for words in lines] == ["collect", "compare"]
    assert isinstance(npl, click.Group)
    for words in lines:
        command = npl.commands[words[0]]
        command.make_context(words[0], [w.strip('"').replace("$MARGIN", "5%") for w in words[1:]])
    assert "--fail-on" in lines[1]
    assert "secrets." not in text
    assert not any("upload" in s.get("uses", "") for s in steps)
