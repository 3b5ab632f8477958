"""Where the logs are: those of the project, and the larger collection beside the checkout when there is one."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from netperf_lib import tools
from tests.tools import parsed

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "logs"
tools.parse = parsed.parse
SHARED = Path(os.environ.get("NETPERF_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def shared_logs() -> Path:
    if not (SHARED / "logs" / "INDEX.tsv").exists():
        pytest.skip(f"no collection of logs in {SHARED} (set NETPERF_SHARED)")
    return SHARED / "logs"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """With RECORD=1, collect what is read of the texts of a test, if it does not draw them."""
    if parsed.FOUND is None:
        return (yield)
    before = dict(parsed.FOUND)
    result = yield
    if (
        getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        or len(parsed.FOUND) > len(before) + parsed.MOST
    ):
        parsed.FOUND = before
    return result


def pytest_sessionfinish() -> None:
    if parsed.FOUND is not None:
        parsed.DIGESTS.write_text(
            "".join(f"{key} {read}\n" for key, read in sorted(parsed.FOUND.items()))
        )
