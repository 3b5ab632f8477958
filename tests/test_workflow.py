"""The scheduled report is a valid workflow whose commands exist, and it stores no secret."""

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
