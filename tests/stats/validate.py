"""Simulations with planted truth: does the library keep its word about errors, coverage and power?

``python -m tests.stats.validate [--seed N] [--samples N] [--only WORD]`` prints a table and exits with 1 when a figure
is out of bounds. Without a seed a fresh one is drawn, and printed: the claims hold for any. Everything goes through
the public path: a table of runs, contrasts as in the yaml, `netperf_lib.stats.judge`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from netperf_lib import stats
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.stats import intervals, samples, sides

ALPHA = 0.05
MARGIN = 0.10
EDGE = math.log1p(MARGIN)
METRIC = "latency_oneway_us"
LAB = np.array([0.0, -0.357, -1.1, 1.25, 1.25, 5.1, -0.017])
"""Log levels of a report as the lab gives it: five differences far beyond the margin, one inside it."""


class Figure(NamedTuple):
    """A measured figure in percent, its Monte-Carlo error, and where it must lie."""

    name: str
    value: float
    low: float
    high: float
    samples: int

    @property
    def error(self) -> float:
        p = min(max(self.value / 100, 0.5 / self.samples), 1 - 0.5 / self.samples)
        return 100 * math.sqrt(p * (1 - p) / self.samples)

    @property
    def holds(self) -> bool:
        """Whether the bounds lie within three Monte-Carlo errors."""
        return self.low - 3 * self.error <= self.value <= self.high + 3 * self.error


# --- tables -----------------------------------------------------------------------------------------------------------


def table(
    logs: np.ndarray,
    rng: np.random.Generator,
    *,
    deployment: np.ndarray | int = 1,
    experiment: np.ndarray | str = "e",
    orders: np.ndarray | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """Table of runs from logs of shape (rounds, conditions), in random order within each round."""
    n, k = logs.shape
    order = np.argsort(rng.random((n, k)), axis=1) if orders is None else orders
    rows = np.repeat(np.arange(n), k)
    flat = order.ravel()
    unit = np.broadcast_to(deployment, n)
    number = np.concatenate([np.arange(1, (unit == u).sum() + 1) for u in pd.unique(unit)])
    of = np.broadcast_to(experiment, n)
    if np.unique(of).size > 1:
        number = np.concatenate([np.arange(1, (of == e).sum() + 1) for e in pd.unique(of)])
    return pd.DataFrame(
        {
            "experiment": of[rows],
            "deployment": unit[rows],
            "round": number[rows],
            "order": np.arange(n * k),
            "attempt": 1,
            "status": "ok",
            "tool": "qperf",
            "test": "tcp_lat",
            "placement": np.array([f"p{i}" for i in range(k)])[flat],
            METRIC: 100 * np.exp(logs[rows, flat]),
        }
        | {name: values[rows, flat] for name, values in columns.items()}
    )


def contrasts(m: int, margin: float = MARGIN, **more: Any) -> list[dict[str, Any]]:
    """Conditions 1 … m against condition 0."""
    return [
        {"metric": METRIC, "a": {"placement": f"p{i}"}, "b": {"placement": "p0"}, "margin": margin, **more}
        for i in range(1, m + 1)
    ]


def is_false(verdict: str, truth: float, edge: float = EDGE) -> bool:
    """Whether a verdict on a log ratio (less is better) is untrue."""
    if verdict == "equivalent":
        return abs(truth) >= edge - 1e-9
    return (verdict == "better" and truth >= -1e-9) or (verdict == "worse" and truth <= 1e-9)


@dataclass
class Report:
    """One simulated report: the family, and the true log ratio of each contrast."""

    family: stats.Family
    truth: np.ndarray
    edge: float = EDGE

    @property
    def false(self) -> bool:
        return any(is_false(v, t, self.edge) for v, t in zip(self.family.verdicts, self.truth, strict=True))

    def covered(self) -> list[bool]:
        inside = [
            math.log(c.low) - 1e-9 <= t <= math.log(c.high) + 1e-9 if c.low > 0 else True
            for c, t in zip(self.family, self.truth, strict=True)
        ]
        return [bool(v) for v in inside]


TRUTHS = {
    "null": lambda m: np.zeros(m),
    "edge": lambda m: EDGE * np.where(np.arange(m) % 2, 1.0, -1.0),
    "mixed": lambda m: np.where(np.arange(m) % 2, 0.0, EDGE),
    "lab": lambda m: LAB[1 : m + 1],
}

Noise = Callable[[np.random.Generator, int, int], np.ndarray]
"""Random numbers, rounds and conditions to logs of that shape."""


def one(noise: Noise, n: int, truth: str = "null", m: int = 6, **judge: Any) -> Callable[[np.random.Generator], Report]:
    """A report on one deployment."""

    def make(rng: np.random.Generator) -> Report:
        true = TRUTHS[truth](m)
        logs = noise(rng, n, m + 1) + np.concatenate([[0.0], true])
        return Report(stats.judge(table(logs, rng), contrasts(m), alpha=ALPHA, **judge), true)

    return make


# --- noise ------------------------------------------------------------------------------------------------------------


def iid(cv: float, shared: float = 0.1) -> Noise:
    return lambda rng, n, k: cv * rng.standard_normal((n, k)) + shared * rng.standard_normal((n, 1))


def uneven(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return rng.standard_normal((n, k)) * np.where(np.arange(k) % 2, 0.20, 0.04)


def lognormal(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return 0.29 * rng.standard_normal((n, k))


def slow(share: float, odd: bool) -> Noise:
    def make(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        hit = (rng.random((n, k)) < share) & ((np.arange(k) % 2 == 1) | (not odd))
        return 0.08 * rng.standard_normal((n, k)) + math.log(3) * hit

    return make


def quantised(value: float, step: float) -> Noise:
    def make(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        x = value * np.exp(0.02 * rng.standard_normal((n, k)))
        return np.log(np.round(x / step) * step / value)

    return make


def autoregressive(phi: float, cv: float = 0.08) -> Noise:
    def make(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        e = rng.standard_normal((n, k))
        for t in range(1, n):
            e[t] = phi * e[t - 1] + math.sqrt(1 - phi * phi) * e[t]
        return cv * e

    return make


def regimes(size: float, cv: float, which: str, stay: float = 0.8, these_hours: bool = False) -> Noise:
    """Paths that change between two states; of `these_hours` their mean in the rounds measured is part of the truth."""

    def make(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        state = rng.random((n, k)) < 0.5
        for t in range(1, n):
            state[t] = state[t - 1] ^ (rng.random(k) > stay)
        hit = np.arange(k) % 2 == 1 if which == "odd" else np.arange(k) == 0
        moved = 2.0 * state - 1
        if these_hours:
            moved -= moved.mean(axis=0)
        return cv * rng.standard_normal((n, k)) + size * np.where(hit, moved, 0.0)

    return make


def wave(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """A quarter of a diurnal wave of 10 % on one path; its mean over these hours is no error but part of the truth."""
    t = 2 * np.pi * (np.arange(n) / n / 4 + rng.random())
    logs = 0.08 * rng.standard_normal((n, k))
    logs[:, 1] += 0.1 * (np.sin(t) - np.sin(t).mean())
    return logs


# --- the scenarios ----------------------------------------------------------------------------------------------------


@dataclass
class Scenario:
    """What is simulated, and what is read off each report."""

    name: str
    make: Callable[[np.random.Generator], Report]
    read: dict[str, tuple[Callable[[Report], Any], float, float]] = field(default_factory=dict)
    """Name of a figure to: what is true or not in a report (or in each of several things), lower and upper bound."""
    weight: float = 1.0
    """Share of the samples: slow ones are simulated less often."""


def promise(bound: float = 5.0) -> dict[str, tuple[Callable[[Report], Any], float, float]]:
    return {"false reports": (lambda r: r.false, 0.0, bound)}


def verdict_is(place: int, word: str, low: float) -> dict[str, tuple[Callable[[Report], Any], float, float]]:
    return {f"contrast {place + 1} is {word}": (lambda r: r.family.verdicts[place] == word, low, 100.0)}


def failing(kind: str, truth: float, cv: float, n: int) -> Callable[[np.random.Generator], Report]:
    """Four in five of A's slower half fail: repeated, dropped from the table, or left out with the whole round."""

    def make(rng: np.random.Generator) -> Report:
        logs = cv * rng.standard_normal((n, 2)) + np.array([0.0, truth])
        lost = (logs[:, 1] > truth) & (rng.random(n) < 0.8)
        again = cv * rng.standard_normal(n) + truth
        for _ in range(20):
            bad = lost & (again > truth) & (rng.random(n) < 0.8)
            again = np.where(bad, cv * rng.standard_normal(n) + truth, again)
        runs = table(logs, rng)
        hit = runs["placement"].eq("p1") & runs["round"].isin(np.flatnonzero(lost) + 1)
        if kind == "repeated":
            repeated = runs[hit].copy()
            repeated[METRIC] = 100 * np.exp(again[repeated["round"].to_numpy() - 1])
            repeated["attempt"] = 2
            runs.loc[hit, ["status", METRIC]] = ["failed", np.nan]
            runs = pd.concat([runs, repeated], ignore_index=True)
        elif kind == "failed":
            runs.loc[hit, ["status", METRIC]] = ["failed", np.nan]
        elif kind == "missing":
            runs = runs[~hit]
        else:
            runs = runs[~runs["round"].isin(np.flatnonzero(lost) + 1)]
        return Report(stats.judge(runs, contrasts(1), alpha=ALPHA, rounds=n), np.array([truth]))

    return make


def carried(k: int, n: int) -> Callable[[np.random.Generator], Report]:
    """What is measured right after the baseline takes a fifth longer."""

    names = [f"p{i}" for i in range(k)]
    declared = Experiment.model_validate(
        {
            "name": "carried",
            "hosts": {"source": "inventory"},
            "pairs": [{"client": "c", "server": name, "placement": name} for name in names],
            "tests": [{"tool": "qperf", "test": "tcp_lat"}],
            "rounds": n,
        }
    )

    def make(rng: np.random.Generator) -> Report:
        plan = schedule(declared, seed=int(rng.integers(2**31)))
        orders = np.array([names.index(t.pair.placement) for t in plan.trials]).reshape(n, k)
        logs = 0.08 * rng.standard_normal((n, k))
        flat = orders.ravel()
        after = np.concatenate([[False], flat[:-1] == 0])
        rows = np.repeat(np.arange(n), k)
        logs[rows[after], flat[after]] += math.log(1.2)
        return Report(stats.judge(table(logs, rng, orders=orders), contrasts(k - 1), alpha=ALPHA), np.zeros(k - 1))

    return make


def deployments(
    count: int, rounds: int, tau: float, truth: str = "null", m: int = 3, cv: float = 0.03, shared: float = 0.0
) -> Callable[[np.random.Generator], Report]:
    """Each deployment is a draw of where VMs land; the claim is about placements in general."""

    def make(rng: np.random.Generator) -> Report:
        true = TRUTHS[truth](m)
        landed = tau * rng.standard_normal((count, m + 1)) + shared * rng.standard_normal((count, 1))
        unit = np.repeat(np.arange(count), rounds)
        logs = landed[unit] + cv * rng.standard_normal((count * rounds, m + 1)) + np.concatenate([[0.0], true])
        return Report(stats.judge(table(logs, rng, deployment=unit), contrasts(m), alpha=ALPHA), true)

    return make


def far_placing(count: int) -> Callable[[np.random.Generator], Report]:
    """One placing in ten lands three times slower: not equivalent within 10 % on average."""

    def make(rng: np.random.Generator) -> Report:
        far = math.log(3) * (rng.random(count) < 0.1)
        unit = np.repeat(np.arange(count), 5)
        logs = 0.03 * rng.standard_normal((count * 5, 2)) + 0.01 * rng.standard_normal((count, 2))[unit]
        logs[:, 1] += far[unit]
        true = np.array([0.1 * math.log(3)])
        return Report(stats.judge(table(logs, rng, deployment=unit), contrasts(1), alpha=ALPHA), true)

    return make


def several_experiments(rng: np.random.Generator) -> Report:
    unit = np.repeat(np.arange(4), 10)
    logs = 0.03 * rng.standard_normal((40, 4)) + 0.05 * rng.standard_normal((4, 4))[unit]
    runs = table(logs, rng, experiment=np.array([f"e{i}" for i in range(4)])[unit])
    return Report(stats.judge(runs, contrasts(3), alpha=ALPHA), np.zeros(3))


def looking(
    cv: float, m: int, truth: str = "null", most: int = 40, step: int = 6, first: int = 10
) -> Callable[[np.random.Generator], Report]:
    """Rounds are added until every contrast is settled: the report then printed is wrong, or not."""

    def make(rng: np.random.Generator) -> Report:
        true = TRUTHS[truth](m)
        runs = table(cv * rng.standard_normal((most, m + 1)) + np.concatenate([[0.0], true]), rng)
        for n in range(first, most + 1, step):
            progress = stats.until_decided(runs[runs["round"] <= n], contrasts(m), rounds_left=most - n, alpha=ALPHA)
            if len(progress.settled) == m or n + step > most:
                report = Report(progress.family, true)
                report.rounds = n  # type: ignore[attr-defined]
                return report
        raise AssertionError

    return make


def chosen_after(rng: np.random.Generator) -> Report:
    """The best of 15 contrasts, named after the data."""
    runs = table(0.08 * rng.standard_normal((10, 16)), rng)
    asked = contrasts(1, declared=True)[:1] + contrasts(15, declared=False)[1:]
    family = stats.judge(runs, asked, alpha=ALPHA)
    return Report(family, np.zeros(15))


def rare_packets(few: int, many: int) -> Callable[[np.random.Generator], Report]:
    def make(rng: np.random.Generator) -> Report:
        level = np.exp(0.02 * rng.standard_normal((2, 20)))
        values = np.stack(
            [
                [np.percentile(v * rng.lognormal(3, 0.5, c), 99.9) for v in row]
                for row, c in zip(level, (few, many), strict=True)
            ],
            axis=1,
        )
        runs = pd.DataFrame(
            {
                "round": np.repeat(np.arange(20), 2),
                "placement": ["p0", "p1"] * 20,
                "latency_oneway_p999_us": values.ravel(),
                "packets_count": [few, many] * 20,
            }
        )
        asked = [
            {"metric": "latency_oneway_p999_us", "a": {"placement": "p1"}, "b": {"placement": "p0"}, "margin": MARGIN}
        ]
        return Report(stats.judge(runs, asked, alpha=ALPHA), np.zeros(1))

    return make


def at_threshold(m: int) -> Callable[[np.random.Generator], Report]:
    """Conditions that have nothing in common, each exactly at its threshold."""

    def make(rng: np.random.Generator) -> Report:
        runs = table(0.08 * rng.standard_normal((20, m)), rng)
        asked = [{"metric": METRIC, "a": {"placement": f"p{i}"}, "below": "100 us"} for i in range(m)]
        return Report(stats.judge(runs, asked, alpha=ALPHA), np.zeros(m))

    return make


def unblocked(rng: np.random.Generator) -> Report:
    runs = table(0.08 * rng.standard_normal((20, 2)), rng)
    return Report(stats.judge(runs, contrasts(1), alpha=ALPHA, paired=False), np.zeros(1))


def steps(cv: float) -> Callable[[np.random.Generator], Any]:
    """Four streams carry 94 % of the best."""

    def make(rng: np.random.Generator) -> Any:
        rates = np.log(np.array([0.3, 0.6, 0.94, 1.0, 1.0]))
        data = np.exp(rates + cv * rng.standard_normal((10, 5)))
        return stats.streams(pd.DataFrame(data, columns=[1, 2, 4, 8, 16]))

    return make


def level_of(count: int) -> Callable[[np.random.Generator], Any]:
    """Levels over deployments."""

    def make(rng: np.random.Generator) -> Any:
        unit = np.repeat(np.arange(count), 10)
        x = np.exp(0.05 * rng.standard_normal(count)[unit] + 0.02 * rng.standard_normal(count * 10))
        return stats.level(x, units=unit)

    return make


def scenarios() -> Iterator[Scenario]:
    for n in (10, 20, 40):
        for truth in ("null", "edge", "mixed"):
            yield Scenario(f"independent, CV 8 %, n={n}, {truth}", one(iid(0.08), n, truth), promise())
    yield Scenario(
        "as the lab, CV 8 %, n=10", one(iid(0.08), 10, "lab"), promise() | verdict_is(0, "better", 95.0), 2.0
    )
    yield Scenario(
        "as the lab, rounds vary by 40 %, n=10",
        one(iid(0.08, 0.4), 10, "lab"),
        promise() | verdict_is(0, "better", 95.0),
    )
    yield Scenario("as the lab, CV 8 %, n=24", one(iid(0.08), 24, "lab"), promise() | verdict_is(5, "equivalent", 85.0))
    yield Scenario("independent, CV 2 %, n=10, edge", one(iid(0.02), 10, "edge"), promise())
    yield Scenario(
        "coverage of one interval, n=20",
        one(iid(0.08), 20, "null", 1),
        {"covers": (lambda r: r.covered()[0], 90.0, 97.5)},
    )
    for m in (1, 20):
        yield Scenario(f"family of {m}, CV 8 %, n=20, mixed", one(iid(0.08), 20, "mixed", m), promise())
    for n in (10, 20):
        yield Scenario(f"uneven noise, n={n}, mixed", one(uneven, n, "mixed"), promise())
        yield Scenario(f"lognormal CV 30 %, n={n}, mixed", one(lognormal, n, "mixed"), promise())
    yield Scenario("a quarter of odd conditions' runs, n=10, null", one(slow(0.25, True), 10, "null"), promise())
    for n in (20, 40):
        yield Scenario(
            f"a tenth of all runs 3 times slower, n={n}, mixed", one(slow(0.1, False), n, "mixed"), promise()
        )
        yield Scenario(f"a tenth of odd conditions' runs, n={n}, edge", one(slow(0.1, True), n, "edge"), promise())
        yield Scenario(f"a quarter of odd conditions' runs, n={n}, null", one(slow(0.25, True), n, "null"), promise())
    yield Scenario("40 µs to 0.1 µs, n=10, edge", one(quantised(40, 0.1), 10, "edge"), promise())
    yield Scenario("7 ms to 1 ms, n=20, null", one(quantised(7, 1), 20, "null"), promise())
    for phi in (0.3, 0.6):
        for n in (10, 20):
            for truth in ("null", "edge"):
                noise = autoregressive(phi)
                yield Scenario(f"rounds autocorrelated {phi}, n={n}, {truth}", one(noise, n, truth), promise())
    # the truth is the mean over all time: a path that kept one state in all rounds measured (13 % of paths in 10
    # rounds, 1.4 % in 20) cannot be told from one that differs, and the bounds say what remains
    for n, odd, base in ((10, 12.0, 25.0), (20, 5.0, 15.0), (40, 5.0, 5.0)):
        for truth in ("null", "edge"):
            noise = regimes(0.1, 0.02, "odd")
            yield Scenario(f"paths change state ±10 %, CV 2 %, n={n}, {truth}", one(noise, n, truth), promise(odd))
        noise = regimes(0.1, 0.02, "odd", these_hours=True)
        yield Scenario(f"paths change state ±10 %, these hours, n={n}", one(noise, n, "null"), promise())
        noise = regimes(0.2, 0.08, "base")
        yield Scenario(f"baseline changes state ±20 %, CV 8 %, n={n}", one(noise, n, "null"), promise(base))
        noise = regimes(0.2, 0.08, "base", these_hours=True)
        yield Scenario(f"baseline changes state ±20 %, these hours, n={n}", one(noise, n, "null"), promise())
    yield Scenario("wave on one path, these hours, n=20, null", one(wave, 20, "null"), promise())
    for k, n in ((2, 10), (2, 20), (4, 10), (4, 20), (7, 20)):
        yield Scenario(f"carry-over of 20 %, {k} conditions, n={n}", carried(k, n), promise())
    for kind in ("repeated", "failed", "missing", "without the round"):
        yield Scenario(f"slow runs fail, {kind}, n=20, equal, CV 20 %", failing(kind, 0.0, 0.2, 20), promise())
        yield Scenario(f"slow runs fail, {kind}, n=40, 10 % slower, CV 8 %", failing(kind, EDGE, 0.08, 40), promise())
    for count in (2, 3, 4, 6, 10):
        for truth in ("null", "mixed"):
            make = deployments(count, 5, 0.05, truth)
            yield Scenario(f"{count} deployments, 5 % between them, {truth}", make, promise())
    yield Scenario("4 deployments, same hosts, m=6", deployments(4, 10, 0.035, "null", 6), promise())
    yield Scenario(
        "6 deployments x 5, 2 % between them, shared 5 %",
        deployments(6, 5, 0.02 / math.sqrt(2), "null", 3, shared=0.05),
        promise() | verdict_is(0, "equivalent", 80.0),
    )
    for count in (4, 6, 10):
        yield Scenario(f"one placing in ten far off, {count} deployments", far_placing(count), promise())
    yield Scenario(
        "four experiments in one table",
        several_experiments,
        promise() | {"covers": (lambda r: r.covered(), 97.0, 99.9)},
    )
    for cv, m, truth, step in ((0.20, 1, "null", 2), (0.20, 6, "null", 6), (0.08, 6, "mixed", 6)):
        name = f"rounds added until settled, CV {cv:.0%}, m={m}, {truth}"
        yield Scenario(name, looking(cv, m, truth, step=step), promise(), 0.5)
    yield Scenario(
        "rounds added until settled, as the lab",
        looking(0.08, 6, "lab", 60, 1, 12),
        promise()
        | {
            "at most 34 rounds": (lambda r: r.rounds <= 34, 85.0, 100.0),
            "rounds": (lambda r: r.rounds / 100, 0.0, 24.0),
        },
        0.25,
    )
    yield Scenario(
        "chosen after the data, best of 15",
        chosen_after,
        promise() | {"undeclared verdicts": (lambda r: any(c.settled for c in r.family if not c.declared), 0.0, 0.0)},
    )
    yield Scenario("p99.9 of 2000 and 6000 packets", rare_packets(2000, 6000), promise(), 0.5)
    for m in (1, 20):
        yield Scenario(f"exactly at the threshold, m={m}", at_threshold(m), promise())
    yield Scenario("unblocked, n=20", unblocked, promise())
    for cv in (0.02, 0.08, 0.15):
        yield Scenario(
            f"streams, 94 % of the best, CV {cv:.0%}",
            steps(cv),
            {"called enough": (lambda s: s.enough is not None and s.enough <= 4, 0.0, 5.0)},
        )
    for count in (2, 4, 8):
        yield Scenario(
            f"level over {count} deployments",
            level_of(count),
            {"covers": (lambda v: v.low <= 1 <= v.high, 93.5, 97.0)},
            3.0,
        )


def simulate(scenario: Scenario, seed: np.random.SeedSequence, samples: int) -> list[Figure]:
    """Figures of one scenario."""
    count = max(20, int(samples * scenario.weight))
    seen: dict[str, list[Any]] = {name: [] for name in scenario.read}
    for child in seed.spawn(count):
        report = scenario.make(np.random.default_rng(child))
        for name, (read, _, _) in scenario.read.items():
            got = read(report)
            seen[name] += got if isinstance(got, list) else [got]
    return [
        Figure(f"{scenario.name}: {name}", 100 * float(np.mean(seen[name])), low, high, len(seen[name]))
        for name, (_, low, high) in scenario.read.items()
    ]


# --- mutations --------------------------------------------------------------------------------------------------------


class Mutation(NamedTuple):
    """A guard that is taken away, and the scenario that must then miss its bounds."""

    scenario: str
    samples: int
    patches: Callable[[], list[Any]]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            yield


def _undeclared_judged() -> list[Any]:
    plain = samples._comparison

    def judged(data: Any, *rest: Any) -> Any:
        declared = data.of_sample.declared
        data.of_sample = replace(data.of_sample, declared=True)
        return replace(plain(data, *rest), declared=declared)

    return [mock.patch.object(samples, "_comparison", judged)]


def _off_by_one() -> list[Any]:
    plain = sides.Sides._make

    def rolled(self: Any, metric: str, factors: Any, key: Any) -> Any:
        side = plain(self, metric, factors, key)
        if factors == {"placement": "p0"}:
            side.log = np.roll(side.log, 1)
        return side

    return [mock.patch.object(sides.Sides, "_make", rolled)]


MUTATIONS = {
    "looking ignored": Mutation(
        "rounds added until settled, CV 20%, m=1, null",
        400,
        lambda: [mock.patch.object(intervals, "nominal_level", lambda _, alpha: alpha)],
    ),
    "family size ignored": Mutation(
        "exactly at the threshold, m=20",
        15,
        lambda: [
            mock.patch.object(
                samples,
                "decide",
                lambda e, edges, alpha, **how: [
                    intervals.decide([x], [edge], alpha, **how)[0] for x, edge in zip(e, edges, strict=True)
                ],
            )
        ],
    ),
    "undeclared contrasts judged": Mutation("chosen after the data, best of 15", 20, _undeclared_judged),
    "rounds paired off by one": Mutation("as the lab, rounds vary by 40 %, n=10", 15, _off_by_one),
}


def mutated(name: str, seed: np.random.SeedSequence) -> bool:
    """Whether the validation notices a mutation."""
    mutation = MUTATIONS[name]
    scenario = next(s for s in scenarios() if s.name == mutation.scenario)
    scenario.weight = 1.0
    with mutation.applied():
        return not all(figure.holds for figure in simulate(scenario, seed, mutation.samples))


def _by_name(name: str, seed: np.random.SeedSequence, samples: int) -> list[Figure]:
    return simulate(next(s for s in scenarios() if s.name == name), seed, samples)


def validate(seed: int, samples: int = 400, only: str = "", workers: int = 1) -> Iterator[Figure]:
    """Simulate everything; each scenario has its own stream of random numbers."""
    every = list(scenarios())
    seeds = dict(zip((s.name for s in every), np.random.SeedSequence(seed).spawn(len(every)), strict=True))
    chosen = [s for s in every if only in s.name]
    if workers < 2:
        for scenario in chosen:
            yield from simulate(scenario, seeds[scenario.name], samples)
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting = [pool.submit(_by_name, s.name, seeds[s.name], samples) for s in chosen]
        for future in waiting:
            yield from future.result()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="seed of the simulations; default: a fresh one")
    parser.add_argument("--samples", type=int, default=400, help="simulated reports a scenario (default: %(default)s)")
    parser.add_argument("--only", default="", help="only scenarios with this text in their name")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else secrets.randbits(32)
    started = time.monotonic()
    print(f"seed {seed}, {chosen.samples} reports a scenario; percent ± Monte-Carlo error")
    wrong = total = 0
    for figure in validate(seed, chosen.samples, chosen.only, chosen.workers):
        total += 1
        wrong += not figure.holds
        word = "ok  " if figure.holds else "FAIL"
        bounds = f"in {figure.low:g} … {figure.high:.4g}"
        print(f"{word}  {figure.name:<76}{figure.value:7.2f} ±{figure.error:4.1f}  {bounds}", flush=True)
    if not chosen.only:
        for name, child in zip(MUTATIONS, np.random.SeedSequence(seed + 1).spawn(len(MUTATIONS)), strict=True):
            noticed = mutated(name, child)
            total += 1
            wrong += not noticed
            word, seen = ("ok  ", "noticed") if noticed else ("FAIL", "overlooked")
            print(f"{word}  mutation {seen}: {name}", flush=True)
    print(f"{total - wrong} of {total} figures hold, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
