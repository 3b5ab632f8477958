"""Simulated experiments whose truth is known: how often is a report false, how often right?

``python -m tests.analysis.validate [experiments]`` prints the tables of the page of the
documentation, this library beside what people use today, and exits with 1 where the library
misses its bounds.
"""

import math
import sys
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

import netperf_lib as npl
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.origin import Measured, Origin
from netperf_lib.experiment.schedule import schedule

ALPHA, MARGIN = 0.05, 0.10
EDGE, UP = math.log1p(MARGIN), math.log(1.2)
METRIC = "latency_oneway_us"


def this_library(runs, contrasts, declared=None, rounds=0):
    """Return the verdicts; `declared` is how many contrasts were chosen before the data."""
    before = Origin({"contrasts": contrasts[:declared], "rounds": rounds})
    family = npl.compare(Measured(runs, before), contrasts=contrasts)
    return [str(verdict) for verdict in family.verdicts]


def mann_whitney(a, b):
    """As benchstat does it."""
    p = scipy.stats.mannwhitneyu(a, b).pvalue
    return "" if p >= 0.05 else "worse" if np.median(a) > np.median(b) else "better"


def welch(a, b):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # values that are all alike
        p = scipy.stats.ttest_ind(a, b, equal_var=False).pvalue
    return "" if not p < 0.05 else "worse" if a.mean() > b.mean() else "better"


def tolerance(a, b):
    """As k8s-netperf compares two results."""
    change = a.mean() / b.mean() - 1
    return "equivalent" if abs(change) <= MARGIN else "worse" if change > 0 else "better"


OTHERS = {"Mann-Whitney": mann_whitney, "Welch's t": welch, "tolerance 10 %": tolerance}


def by_side(decide, runs, contrasts):
    """Return the verdicts of a method that looks at all values of both sides."""
    good = runs[runs["status"] == "ok"]
    values = {p: x.to_numpy(float) for p, x in good.groupby("placement")[METRIC]}
    sides = [
        (values[c["a"]["placement"]], values[c["b"]["placement"]]) for c in contrasts
    ]
    return [decide(a, b) for a, b in sides]


class Simulated(NamedTuple):
    """An experiment: its runs, the true log ratio of each contrast over the hours measured, and
    what else was planned."""

    runs: pd.DataFrame
    truth: np.ndarray
    planned: dict | None = None
    margin: float = MARGIN

    def contrasts(self):
        """Conditions 1 … against condition 0; one alone is held against 100 µs."""
        common = {"metric": METRIC, "margin": self.margin}
        if self.runs["placement"].nunique() == len(self.truth):
            names = sorted(self.runs["placement"].unique())
            return [common | {"a": {"placement": p}, "below": "100 us"} for p in names]
        common["b"] = {"placement": "p0"}
        numbers = range(1, len(self.truth) + 1)
        return [common | {"a": {"placement": f"p{n}"}} for n in numbers]


def chained(rng, n, k):
    """Each round begins with the condition that ended the one before; the rest is random."""
    orders = [rng.permutation(k)]
    for _ in range(n - 1):
        first = orders[-1][-1]
        others = np.delete(np.arange(k), first)
        orders.append(np.concatenate([[first], rng.permutation(others)]))
    return np.array(orders)


def table(logs, orders, deployments=1):
    """Return runs from the logs of their values: rounds down, conditions across."""
    n, k = logs.shape
    rounds, conditions = np.repeat(np.arange(n), k), orders.ravel()
    each = n // deployments
    columns = {
        "deployment": rounds // each + 1,
        "round": rounds % each + 1,
        "order": np.arange(n * k),
        "placement": [f"p{c}" for c in conditions],
        METRIC: 100 * np.exp(logs[rounds, conditions]),
    }
    same = {"attempt": 1, "status": "ok", "tool": "qperf", "test": "tcp_lat"}
    return pd.DataFrame(columns).assign(**same)


def planted(rng, n, effects, noise, hours=0.0, **planned):
    """One deployment; what the hours add to a path is part of the truth."""
    k = len(effects) + 1
    levels = np.array([0.0, *effects]) + np.zeros((n, k))
    if callable(hours):
        levels = levels + hours(rng, n, k)
    runs = table(levels + noise(rng, n, k), chained(rng, n, k))
    means = levels.mean(axis=0)
    return Simulated(runs, means[1:] - means[0], planned)


def normal(cv):
    return lambda rng, n, k: cv * rng.standard_normal((n, k))


def uneven(rng, n, k):
    return rng.standard_normal((n, k)) * np.where(np.arange(k) % 2, 0.20, 0.04)


def slow(rng, n, k):
    """A tenth of the runs is three times slower."""
    return normal(0.08)(rng, n, k) + math.log(3) * (rng.random((n, k)) < 0.1)


def shared(rng, n, k):
    """Rounds vary."""
    return normal(0.04)(rng, n, k) + 0.4 * rng.standard_normal((n, 1))


def burst(rng, n, k):
    """The second is three times as fast in the first quarter only: equal when sustained."""
    logs = normal(0.03)(rng, n, k)
    logs[: n // 4, 1] -= math.log(3)
    return logs


def states(rng, n, k):
    """A slow state of each path, which resembles that of the round before."""
    e = rng.standard_normal((n, k))
    for t in range(1, n):
        e[t] = 0.6 * e[t - 1] + 0.8 * e[t]
    return 0.057 * e


def regimes(rng, n, k):
    """The baseline changes between two states, and stays in four rounds of five."""
    changes = rng.random(n) > 0.8
    state = np.logical_xor.accumulate(changes)
    return np.where(np.arange(k) == 0, 0.2, 0) * (2.0 * state - 1)[:, None]


def incident(size, path, rng, n, k):
    """For a quarter of the rounds one path, or all, is slower."""
    hours = np.zeros((n, k))
    start = int(rng.integers(0, n - n // 4 + 1))
    hours[start : start + n // 4, path] = math.log1p(size)
    return hours


ONE, ALL = partial(incident, 0.5, 1), partial(incident, 0.18, slice(None))


def failing(rng, kind, truth):
    """Four in five of the slower half of A's runs fail, or are missing."""
    found = planted(rng, 20, [truth], normal(0.2), rounds=20)
    runs = found.runs
    median = runs.loc[runs["placement"] == "p1", METRIC].median()
    lost = (runs["placement"] == "p1") & (runs[METRIC] > median)
    lost &= rng.random(len(runs)) < 0.8
    if kind == "failed":
        runs.loc[lost, ["status", METRIC]] = ["failed", np.nan]
        return found
    return found._replace(runs=runs[~lost])


def by_chance(rng, n):
    """Any run may fail."""
    found = planted(rng, n, [UP], normal(0.08))
    found.runs.loc[rng.random(2 * n) < 0.1, ["status", METRIC]] = ["failed", np.nan]
    return found


def scheduled(rng, k, n, slower):
    """In the library's own order some runs are 10 % slower, whatever their condition."""
    pairs = [{"client": "c", "server": f"p{i}", "placement": f"p{i}"} for i in range(k)]
    tests = [{"tool": "qperf", "test": "tcp_lat"}]
    given = {"name": "x", "hosts": {"source": "inventory"}, "pairs": pairs, "rounds": n}
    declared = Experiment.model_validate(given | {"tests": tests})
    trials = schedule(declared, seed=int(rng.integers(1 << 30))).trials
    every = np.array([int(t.pair.placement[1:]) for t in trials])
    kept = np.array([not t.leading for t in trials])
    order, hit = every[kept], slower(rng, every)[kept]
    logs = normal(0.02)(rng, n, k)
    logs[np.repeat(np.arange(n), k)[hit], order[hit]] += math.log1p(0.1)
    return Simulated(table(logs, order.reshape(n, k)), np.zeros(k - 1), margin=0.05)


def carried(_rng, order):
    """What is measured right after the last condition."""
    return np.concatenate([[False], order[:-1] == order.max()])


def clock(rng, order):
    """A job starts in one of four runs of 15 s, when a clock says so."""
    starts = np.cumsum(15 + 0.1 * rng.standard_normal(order.size)) + 60 * rng.random()
    return (starts + 10) // 60 > starts // 60


def deployments(rng, count, apart, effects):
    """Five rounds each; where the VMs land is a draw, the claim is about placements."""
    k = len(effects) + 1
    landed = np.repeat(apart * rng.standard_normal((count, k)), 5, axis=0)
    logs = landed + normal(0.03)(rng, 5 * count, k) + np.array([0.0, *effects])
    runs = table(logs, chained(rng, 5 * count, k), count)
    return Simulated(runs, np.array(effects))


def far_placing(rng, count):
    """One placing in ten lands three times slower: not equivalent within 10 % on average."""
    found = deployments(rng, count, 0.01, [0.0])
    far = rng.random(count + 1)[found.runs["deployment"]] < 0.1
    found.runs.loc[far & (found.runs["placement"] == "p1"), METRIC] *= 3
    return found._replace(truth=np.array([0.1 * math.log(3)]))


def apart(rng, column, make, *given):
    """The sides share no round, or no deployment."""
    found = make(rng, *given)
    runs = found.runs
    runs.loc[runs["placement"] == "p1", column] += runs[column].max()
    return found


def looked(rng, effects):
    """After every third round the results are looked at, until each contrast is settled."""
    found = planted(rng, 30, effects, normal(0.08))
    runs = found.runs.assign(design="sequential")
    for n in range(6, 31, 3):
        so_far = found._replace(runs=runs[runs["round"] <= n])
        family = npl.compare(so_far.runs, contrasts=so_far.contrasts())
        if all(c.settled for c in family):
            break
    return so_far


def threshold(rng, m):
    """Conditions that have nothing in common, each exactly at its threshold."""
    return Simulated(table(normal(0.08)(rng, 20, m), chained(rng, 20, m)), np.zeros(m))


def long_day(rng, truth):
    """A run a minute for 22 hours: neighbours are alike; slow runs, an incident of 4 h."""
    white = rng.standard_normal(1520)
    logs = truth + 0.05 * scipy.signal.lfilter([math.sqrt(0.19)], [1, -0.9], white)[200:]
    logs += math.log(1.5) * (rng.random(1320) < 0.03)
    logs[540:780] += math.log(1.18)
    minutes = pd.to_timedelta(np.arange(1320), unit="min")
    runs = table(logs[:, None], np.zeros((1320, 1), int))
    started = pd.Timestamp("2026-03-02T06:00Z") + minutes
    return Simulated(runs.assign(started_utc=started), np.array([truth]))


MIXED = [0.0, EDGE] * 3
SCENARIOS = {
    "CV 8 %, +20 %, 10 rounds": (85, planted, 10, [UP], normal(0.08)),
    "CV 20 %, equal, 10 rounds": (0, planted, 10, [0.0], normal(0.2)),
    "uneven noise, at the margin, 20 rounds": (0, planted, 20, [EDGE], uneven),
    "6 equal, 20 rounds": (45, planted, 20, [0.0] * 6, normal(0.08)),
    "6 equal or at the margin, 20 rounds": (0, planted, 20, MIXED, normal(0.08)),
    "20 at their threshold, 20 rounds": (0, threshold, 20),
    "best of 15, chosen after the data": (
        0,
        partial(planted, declared=1),
        10,
        [0.0] * 15,
        normal(0.08),
    ),
    "looked at after every third round, equal": (35, looked, [0.0] * 3),
    "rounds vary by 40 %, +20 %, 10 rounds": (85, planted, 10, [UP], shared),
    "10 % of runs 3 times slower, 20 rounds": (0, planted, 20, MIXED, slow),
    "credits of the first quarter, 24 rounds": (0, planted, 24, [0.0], burst),
    "slow states, correlation 0.6, 24 rounds": (
        0,
        planted,
        24,
        [0.0] * 6,
        normal(0.057),
        states,
    ),
    "baseline changes by ±20 %, 20 rounds": (
        0,
        planted,
        20,
        [0.0] * 6,
        normal(0.08),
        regimes,
    ),
    "all slower for a quarter of 20 rounds, +20 %": (
        95,
        planted,
        20,
        [UP],
        normal(0.04),
        ALL,
    ),
    "one path slower for a quarter of 20 rounds": (
        0,
        planted,
        20,
        [0.0] * 3,
        normal(0.04),
        ONE,
    ),
    "10 % carried over, 2 conditions, 20 rounds": (0, scheduled, 2, 20, carried),
    "10 % carried over, 7 conditions, 20 rounds": (0, scheduled, 7, 20, carried),
    "10 % in one of 4 runs, 2 conditions, 20 rounds": (0, scheduled, 2, 20, clock),
    "10 % fail by chance, +20 %, 15 rounds": (93, by_chance, 15),
    "slow runs fail, equal, 20 rounds": (0, failing, "failed", 0.0),
    "slow runs are missing, equal, 20 rounds": (0, failing, "missing", 0.0),
    "no round shared, +20 %, 12 rounds": (
        90,
        apart,
        "round",
        planted,
        12,
        [UP],
        normal(0.08),
    ),
    "4 deployments, 5 % apart, equal": (0, deployments, 4, 0.05, [0.0] * 3),
    "10 deployments, 5 % apart, equal or at the margin": (
        0,
        deployments,
        10,
        0.05,
        [EDGE, 0.0, EDGE],
    ),
    "6 deployments, 2 % apart, +20 %": (90, deployments, 6, 0.02, [UP] * 3),
    "one placing in ten far off, 4 deployments": (0, far_placing, 4),
    "3 deployments before and 3 after, equal": (
        0,
        apart,
        "deployment",
        deployments,
        3,
        0.05,
        [0.0],
    ),
    "a day against a threshold, half of it": (100, long_day, math.log(0.46)),
}
"""The percentage of plain truths that must be told, how an experiment is made, and of what."""


def is_false(verdict, truth):
    """Whether a verdict on a log ratio (less is better) is untrue."""
    if verdict == "equivalent":
        return abs(truth) >= EDGE - 1e-9
    better = verdict == "better" and truth >= -0.005
    return better or (verdict == "worse" and truth <= 0.005)


def is_right(verdict, truth, contrast):
    """Whether it says what is plainly so; None where nothing is: at the edge, or near it."""
    if abs(truth) > EDGE + 1e-9 or ("b" not in contrast and abs(truth) > 0.005):
        return verdict == ("worse" if truth > 0 else "better")
    plain = abs(truth) < EDGE / 2 and "b" in contrast
    return verdict == "equivalent" if plain else None


def simulate(name, method, samples, seed=20_000):
    """Return the percentages of false reports, and of plain truths told (NaN: there is none)."""
    false, told = 0, []
    _, make, *given = SCENARIOS[name]
    for child in np.random.SeedSequence(seed).spawn(samples):
        found = make(np.random.default_rng(child), *given)
        contrasts = found.contrasts()
        if method is this_library:
            verdicts = this_library(found.runs, contrasts, **(found.planned or {}))
        else:
            verdicts = by_side(method, found.runs, contrasts)
        false += any(map(is_false, verdicts, found.truth))
        told += map(is_right, verdicts, found.truth, contrasts)
    plain = [right for right in told if right is not None]
    return 100 * false / samples, 100 * float(np.mean(plain)) if plain else math.nan


def holds(name, false, right, samples):
    """Whether the promise and the power lie within three Monte-Carlo errors."""
    bound, power = 100 * ALPHA, SCENARIOS[name][0]
    errors = [3 * math.sqrt(p * (100 - p) / samples) for p in (bound, power)]
    return false <= bound + errors[0] and not right < power - errors[1]


def main(samples=400):
    methods = {"this library": this_library} | OTHERS
    print("| | " + " | ".join(f"{m}: false | right" for m in methods) + " |")
    print("|---" * (1 + 2 * len(methods)) + "|")
    missed = 0
    for name in SCENARIOS:
        cells = []
        for method in methods.values():
            if "threshold" in name and method is not this_library:
                cells.append("– | –")  # only this library compares with a threshold
                continue
            false, right = simulate(name, method, samples)
            if method is this_library:
                missed += not holds(name, false, right, samples)
            cells.append(f"{false:.1f} | {'–' if math.isnan(right) else f'{right:.0f}'}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
