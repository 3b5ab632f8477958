"""Where the logs are: those of the project, and the larger collection beside the checkout when there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "logs"
SHARED = Path(os.environ.get("NETPERF_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def shared_logs() -> Path:
    if not (SHARED / "logs" / "INDEX.tsv").exists():
        pytest.skip(f"no collection of logs in {SHARED} (set NETPERF_SHARED)")
    return SHARED / "logs"
