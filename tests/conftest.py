"""What several test files share."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

# The same examples each time: nobody's tests fail by luck. `make fuzz` looks for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

REPO = Path(__file__).resolve().parent.parent

# What a script starts in the background ignores Ctrl-C, and so would the programs that the tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where pytest runs several tests at once, `__main__` was not imported, which processes that start others expect.
if not hasattr(sys.modules["__main__"], "__spec__"):
    sys.modules["__main__"].__spec__ = None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of a file share its fixtures, so one worker runs them all; those that share a lab say so themselves."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.path.relative_to(REPO).as_posix()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how to get the programs that skipped tests need."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    missing = Counter(m[1] for reason in reasons if (m := re.search(r"apt-get install ([\w-]+)", reason)))
    if missing:
        programs = " ".join(sorted(missing))
        terminalreporter.line(f"{missing.total()} skipped tests need programs: sudo apt-get install {programs}")
    for command, count in Counter(
        m[1] for reason in reasons if (m := re.search(r"they come with: ([^)]+)", reason))
    ).items():
        terminalreporter.line(f"{count} skipped tests need what this gets: {command}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with further material (published figures, a corpus of logs), where there is one beside the checkout."""
    folder = Path(os.environ.get("NETPERF_SHARED") or REPO.parent / "shared")
    if not (folder / "logs" / "INDEX.tsv").is_file():
        pytest.skip("the folder with the corpus of logs is not here (NETPERF_SHARED)")
    return folder
