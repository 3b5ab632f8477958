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
    from tests.tools.intact import FOLDER, read


def main():
    """Fuzz for as long as libFuzzer is told to."""
    corpus = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for log in FOLDER.glob("*/*"):
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
        read,
    )
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(corpus, ignore_errors=True)


if __name__ == "__main__":
    main()
