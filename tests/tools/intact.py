"""What an undamaged log holds, to hold a damaged one against it."""

import math
import re
from functools import cache
from pathlib import Path

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.metrics import METRICS

FOLDER = Path(__file__).parents[1] / "logs"


def printed(*names):
    """Logs as these tools printed them: the forms are written by hand."""
    logs = [log for name in names for log in FOLDER.glob(f"{name}/*")]
    aside = re.compile(r"forms-|.*\.expected\.json")
    return sorted(log for log in logs if not aside.match(log.name))


@cache
def content(log):
    return log.read_bytes()


def read(data):
    """Read every run, and none where there is none: any other error is a fault of the reader.

    Each run keeps the promises that every run makes.
    """
    try:
        runs = tools.parse(data)
    except ParseError:
        return []
    for run in runs:
        assert (run.error is None) == (run.status == "ok")
        assert run.status == "ok" or not run.metrics
        assert run.metrics.keys() <= METRICS.keys()
        assert all(map(math.isfinite, run.metrics.values()))
        assert len({len(column) for column in run.intervals.values()}) <= 1
        assert run.line >= 1
    return runs


@cache
def intact(log):
    return read(content(log))
