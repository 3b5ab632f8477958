"""Fuzz the readers: whatever the bytes, they give runs or raise `ParseError`, soon.

Run with ``make fuzz`` (SECONDS=60), which installs atheris, and only it needs atheris. The golden
logs are the corpus; an input that breaks a promise is left in ``.fuzz/`` and its path printed.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["netperf_lib.tools"]):
    from netperf_lib import tools


from netperf_lib.errors import ParseError
from netperf_lib.metrics import METRICS

LOGS = Path(__file__).parent / "logs"


def one(data):
    """Read `data` and hold what comes to the promises."""
    try:
        runs = tools.parse(data)
    except ParseError:
        return
    for run in runs:
        assert (run.error is None) == (run.status == "ok")
        assert run.status == "ok" or not run.metrics
        assert run.metrics.keys() <= METRICS.keys()
        assert all(v == v and abs(v) != float("inf") for v in run.metrics.values())
        assert len({len(column) for column in run.intervals.values()}) <= 1
        assert run.line >= 1


def main():
    """Fuzz for as long as libFuzzer is told to."""
    corpus = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for log in LOGS.glob("*/*"):
        if not log.name.endswith(".expected.json") and log.stat().st_size < 10_000:
            shutil.copy(log, corpus / f"{log.parent.name}-{log.name}")
    kept = Path(".fuzz")
    kept.mkdir(exist_ok=True)
    atheris.Setup(
        [
            *sys.argv,
            f"-artifact_prefix={kept}/",
            "-timeout=20",
            "-rss_limit_mb=2048",
            str(corpus),
        ],
        one,
    )
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(corpus, ignore_errors=True)


if __name__ == "__main__":
    main()
