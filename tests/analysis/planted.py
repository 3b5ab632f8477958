"""Measurements with planted truth. Everything is on the log scale: noise multiplies."""

from itertools import product

import numpy as np
import pandas as pd

from netperf_lib.analysis.judging import family_of
from netperf_lib.analysis.verdicts import Sample


def runs(
    levels,
    rounds=12,
    *,
    by="placement",
    metric="latency_oneway_us",
    noise=0.0,
    seed=3,
    **columns,
):
    """Return a run of each level in each round, ten minutes after the one before; a level has one
    value, or one for each round."""
    values = np.column_stack([np.broadcast_to(v, rounds) for v in levels.values()])
    order = np.arange(values.size)
    values = values.ravel() * np.exp(
        noise * np.random.default_rng(seed).standard_normal(values.size)
    )
    tool = ("qperf", "tcp_lat") if metric.startswith("latency") else ("iperf3", "tcp")
    usual = {
        "deployment": 1,
        "round": order // len(levels) + 1,
        "order": order,
        "run_id": [f"r{number}" for number in order],
        "status": "ok",
        "tool": tool[0],
        "test": tool[1],
        "started_utc": pd.Timestamp("2026-03-02T06:00Z")
        + pd.to_timedelta(10 * order, unit="min"),
        metric: values,
    }
    table = pd.DataFrame([*levels] * rounds, columns=np.atleast_1d(by))
    return table.assign(**usual | columns)


FACTORS = {
    "placement": ["ppg", "same-zone", "cross-zone"],
    "accelerated": [True, False],
    "streams": [1, 16],
    "tool": ["iperf3", "iperf2"],
    "tcp_buffer_bytes": [None, 1 << 20],
    "congestion": ["cubic", "bbr"],
    "rack": ["a", "b", None],
    "server": ["h1", "h2"],
    "server_zone": ["1", "2", None],
    "during": [None, "iperf3 tcp ×4"],
    "bitrate": ["1G", None],
    "tool_version": ["3.9", "3.12"],
}


def design(rng, gaps):
    """Return runs of random factors, crossed in each round of one or two deployments but for a
    share of gaps, with failures and repeated attempts; and the factors."""
    names = [str(n) for n in rng.choice([*FACTORS], rng.integers(1, 5), replace=False)]
    numbers = range(1, rng.integers(2, 8))
    levels = [FACTORS[name][: rng.integers(2, 4)] for name in names]
    deployments = range(1, rng.integers(2, 4))
    cells = product(deployments, numbers, *levels)
    runs = pd.DataFrame([*cells], columns=["deployment", "round", *names], dtype=object)
    runs = runs[rng.random(len(runs)) >= gaps].sample(frac=1, random_state=rng)
    runs = runs.sort_values(["deployment", "round"], kind="stable", ignore_index=True)
    numeric = {"deployment": int, "round": int}
    usual = {"client": "c", "server": "h1", "tool": "iperf3", "test": "tcp", "attempt": 1}
    runs = runs.assign(**{k: v for k, v in usual.items() if k not in names})
    runs = runs.astype(numeric).assign(experiment="x", status="ok", order=runs.index)
    runs["kernel"] = np.where(runs["round"] < 4, "6.8", "6.9")
    runs["run_id"] = [f"run{number}-a1" for number in runs.index]
    start = pd.Timestamp("2026-03-02T06:00Z")
    runs["started_utc"] = start + pd.to_timedelta(runs.index, unit="min")
    runs["throughput_bps"] = rng.lognormal(20, 1, len(runs))
    failed = rng.random(len(runs)) < 0.05
    runs.loc[failed, ["status", "throughput_bps"]] = ["failed", np.nan]
    again = runs.sample(frac=0.05, random_state=1)
    again = again.assign(attempt=2, run_id=again["run_id"].str.replace("-a1", "-a2"))
    return pd.concat([runs, again], ignore_index=True), names


def sample(a, b, **rest):
    """Return the sample of one deployment."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    return Sample(a=a, b=b, replicate=np.zeros(a.size, int), **rest)


def compared(a, b, *, paired=True, family=1, alpha=0.05, names=("A", "B"), **rest):
    """Judge two conditions, given as one value a round, in a family whose others are equal."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if not paired:
        a, b = (
            np.append(a, np.full(b.size, np.nan)),
            np.append(np.full(a.size, np.nan), b),
        )
    others = [sample(np.ones(12), np.ones(12))] * (family - 1)
    every = [sample(a, b, **rest), *others]
    return family_of(every, [names] * family, alpha=alpha)[0]
