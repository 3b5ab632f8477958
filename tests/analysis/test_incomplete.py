"""Designs that are not complete: each is answered, or refused with an error of ours."""

import shutil
from contextlib import suppress

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.contents import pages
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.observe import describe, observe
from netperf_lib.cli import npl as command
from netperf_lib.errors import NetperfError
from netperf_lib.reporting.blocks import verdicts

from ..conftest import REPO

LEVELS = {
    "placement": ["ppg", "same-zone", "cross-zone"],
    "accelerated": [True, False],
    "streams": [1, 16],
    "tool": ["iperf3", "iperf2"],
    "rack": ["a", "b", None],
    "server": ["h1", "h2"],
    "tcp_buffer_bytes": [None, 1 << 20],
}
METRICS = ("throughput_bps", "latency_oneway_us")
PLOTS = ("rounds", "levels", "over_time")


def design(seed):
    """Return runs of random factors that are not crossed, and the factors that were drawn."""
    rng = np.random.default_rng(seed)
    names = [str(n) for n in rng.choice(list(LEVELS), rng.integers(1, 5), replace=False)]
    rounds = int(rng.choice([0, 1, 2, 6]))  # none: not known
    rows = []
    for number in range(1, max(rounds, 1) + 1):
        for _ in range(rng.integers(1, 7)):
            row = {n: LEVELS[n][rng.integers(len(LEVELS[n]))] for n in names}
            value = float(np.exp(rng.normal()))
            run = {"tool": "iperf3", "test": "tcp", "client": "c", "server": "h1", **row}
            run |= {"status": "ok", "round": number if rounds else None}
            if rng.random() < 0.3:
                run |= {
                    "tool": "qperf",
                    "test": "tcp_lat",
                    "latency_oneway_us": 50 * value,
                }
            else:
                run["throughput_bps"] = 1e9 * value
            rows.append(run)
    runs = pd.DataFrame(rows).assign(
        experiment="x", deployment=1, duration_s=10.0, error=None
    )
    runs["run_id"] = [f"run{i}" for i in range(len(runs))]
    runs["started_utc"] = pd.date_range(
        "2026-03-02T06:00Z", periods=len(runs), freq="min"
    )
    failed = rng.random(len(runs)) < 0.1
    if rng.random() < 0.3:  # one side has no run that is complete
        failed |= (runs[names[0]] == runs[names[0]].iloc[0]).to_numpy(
            bool, na_value=False
        )
    runs.loc[failed, "status"] = "failed"
    runs.loc[failed, [m for m in METRICS if m in runs]] = np.nan
    return runs, names


def calls(seed):
    """Return what a person, a report and a plot ask of the runs of a design."""
    runs, names = design(seed)
    drawn = getattr(npl.plots, PLOTS[seed % len(PLOTS)])

    def page_one():
        lead = lead_paragraph(runs)
        return verdicts(lead.family, lead.contrasts)

    asked = [
        page_one,
        lambda: repr(npl.compare(runs)),
        lambda: pages(runs),
        lambda: npl.limits(runs),
        lambda: npl.ask(runs, names[0]).parts(),
    ]
    for metric in METRICS:
        asked.append(lambda m=metric: describe(observe(runs, m)))
        asked.append(lambda m=metric: drawn(runs, m))
        for name in names:
            asked += [
                lambda m=metric, f=name: repr(npl.levels(runs, m, by=f)),
                lambda m=metric, f=name: repr(npl.compare(runs, metric=m, by=f)),
                lambda m=metric, f=name: observe(runs, m, by=f).wide,
            ]
    return asked


@pytest.mark.parametrize("seed", [0, 2, 164])
def test_a_design_with_gaps_ends_in_no_error_from_inside(seed):
    for call in calls(seed):
        with suppress(NetperfError):
            call()
    plt.close("all")


def folder(seed, place):
    """Return an experiment of which a random part was measured, and one host not at all."""
    rng = np.random.default_rng(seed)
    source = REPO / "data" / "recorded" / ("before", "paths", "zones")[seed % 3]
    (place / "tables" / "runs").mkdir(parents=True)
    for name in ("experiment.yaml", "plan.json"):
        shutil.copy(source / name, place)
    runs = pq.read_table(source / "tables" / "runs")
    servers = runs["server"].to_numpy()
    kept = (rng.random(len(runs)) < rng.choice([0.05, 0.3, 0.9])) & (
        servers != rng.choice(servers)
    )
    kept[rng.integers(len(runs))] = True
    pq.write_table(runs.filter(kept), place / "tables" / "runs" / "part-0.parquet")
    return place


@pytest.mark.parametrize("seed", range(2))
def test_a_command_on_a_part_of_an_experiment(seed, tmp_path):
    place = str(folder(seed, tmp_path / "part"))
    for words in (
        ["compare", place],
        ["compare", place, "--by", "placement", "--metric", "latency_oneway_us"],
        ["compare", place, "--by", "streams", "--metric", "throughput_bps", "--json"],
        ["limits", place],
        ["show", place],
        ["explore", place, "--no-browser", "-o", str(tmp_path / "page.html")],
    ):
        done = CliRunner().invoke(command, words)
        assert isinstance(done.exception, (NetperfError, SystemExit, type(None))), words
