"""How long a person waits for an answer, as a multiple of what no program of this kind can do without.

The unit is the start of Python with pandas, scipy.stats and pyarrow, measured on the same machine at the same time, so
that the promises hold on a slow machine and a fast one. Run by ``make bench``.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import netperf_lib as npl

REPEATS = 3
START = [sys.executable, "-c", "import pandas, scipy.stats, pyarrow"]


def seconds(words: list[str], repeats: int = REPEATS) -> float:
    """Median wall time of a command."""
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


@pytest.fixture(scope="module")
def unit() -> float:
    seconds(START, 1)  # once for the disk
    return seconds(START)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("bench") / "lab-full"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("what", "words", "most"),
    [
        ("npl compare", ["compare"], 0.8),
        ("one page", ["report", "--notebook", "01-placement"], 2.5),
        ("the whole report", ["report"], 7.0),
    ],
)
def test_an_answer_takes_so_many_start_ups(
    what: str, words: list[str], most: float, unit: float, experiment: Path
) -> None:
    verb, *options = words
    command = [sys.executable, "-m", "netperf_lib", verb, str(experiment), *options]
    seconds(command, 1)
    taken = seconds(command, 1 if most > 5 else REPEATS)
    print(f"\n{what}: {taken:.1f} s, {taken / unit:.2f} start-ups of {unit:.1f} s (promised: {most:g})")
    assert taken / unit <= most


def test_beside_benchstat(unit: float, tmp_path: Path) -> None:
    """The same question to benchstat, where it is installed: two conditions, 12 runs each."""
    benchstat = shutil.which("benchstat")
    if benchstat is None:
        pytest.skip("benchstat is not installed: go install golang.org/x/perf/cmd/benchstat@latest")
    runs = npl.load(npl.recorded())
    for placement in ("ppg", "same-zone"):
        some = runs[(runs["placement"] == placement) & (runs["tool"] == "qperf") & runs["latency_oneway_us"].notna()]
        lines = [f"BenchmarkLatency 1 {v * 1000:.0f} ns/op" for v in some["latency_oneway_us"]]
        (tmp_path / placement).write_text("\n".join(lines) + "\n")
    words = [benchstat, str(tmp_path / "same-zone"), str(tmp_path / "ppg")]
    answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    print(f"\nbenchstat: {seconds(words) / unit:.2f} start-ups\n{answer}")
