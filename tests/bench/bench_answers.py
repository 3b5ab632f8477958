"""How long an answer takes, in units measured at the same time; run by ``make bench``."""

import shutil
import statistics
import subprocess
import sys
import time
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

import netperf_lib as npl
from netperf_lib.analysis.compare import compare
from netperf_lib.experiment.origin import Measured, Origin

from ..analysis.planted import compared
from .bench_logs import times

START = [sys.executable, "-c", "import pandas, scipy.stats, pyarrow"]


def seconds(words):
    begun = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - begun


@pytest.mark.parametrize(
    ("words", "most"),
    [("compare", 1.2), ("report --notebook 01-placement", 2.5), ("report", 7)],
)
def test_answer_takes_so_many_start_ups(words, most, tmp_path):
    """Of Python with pandas, scipy.stats and pyarrow."""
    folder = shutil.copytree(npl.recorded(), tmp_path / "lab-full")
    verb, *options = words.split()
    command = [sys.executable, "-m", "netperf_lib", verb, str(folder), *options]
    seconds(START), seconds(command)  # once for the disk
    ratio = statistics.median(seconds(command) / seconds(START) for _ in range(7))
    print(f"\nnpl {words}: {ratio:.2f} start-ups (at most {most})")
    assert ratio <= most


def sides(digits):
    """Return 50 times 30 rounds of two conditions; of two digits, they have ties."""
    random = np.random.default_rng(1)
    return [random.lognormal(0, 0.02, (2, 30)).round(digits) for _ in range(50)]


def wilcoxons(work, digits=6):
    """Return how many of scipy's Wilcoxon tests take as long as the work."""
    pairs = sides(digits)
    return 50 * times(work, lambda: [wilcoxon(np.log(a / b)) for a, b in pairs])


@pytest.mark.parametrize("digits", [6, 2])
def test_compare_of_30_rounds(digits):
    ratio = wilcoxons(lambda: [compared(a, b) for a, b in sides(digits)]) / 50
    print(
        f"\ncompare of 30 rounds, {digits} digits: {ratio:.2f} Wilcoxon tests (at most 2)"
    )
    assert ratio <= 2


def family(conditions, contrasts, rounds=30):
    """Return runs of so many conditions of one level, and contrasts of them."""
    names = [f"p{i}" for i in range(conditions)] * rounds
    values = 1e9 * np.random.default_rng(2).lognormal(0, 0.02, len(names))
    same = {
        "deployment": 1,
        "status": "ok",
        "excluded": None,
        "tool": "iperf3",
        "test": "tcp",
    }
    runs = pd.DataFrame({"placement": names, "server": names, "throughput_bps": values})
    runs = runs.assign(**same, client="client", streams=1)
    runs["round"] = np.repeat(np.arange(rounds), conditions)
    pairs = [*combinations(names[:conditions], 2)][:contrasts]
    metric = {"metric": "throughput_bps"}
    declared = [metric | {"a": {"placement": a}, "b": {"placement": b}} for a, b in pairs]
    return Measured(runs, Origin({"name": "bench", "contrasts": declared, "alpha": 0.05}))


def test_family_of_1000_contrasts():
    runs = family(46, 1000)
    assert len(compare(runs)) == 1000
    ratio = wilcoxons(lambda: compare(runs)) / 1000
    print(f"\nfamily of 1,000 contrasts: {ratio:.2f} Wilcoxon tests each (at most 2)")
    assert ratio <= 2
