"""Simulated experiments with planted truth: how often is a report false, and how often is the right thing said?

``python -m tests.analysis.validate [--seed N] [--samples N] [--only WORD] [--write]`` runs this library and what
people use today (benchstat's Mann-Whitney test, Welch's t on the means, a tolerance of 10 %) on the same experiments,
prints their false reports and their power side by side, and exits with 1 where this library misses its bounds.
``--write`` writes the page of the documentation.

A method is a function from a table of runs and contrasts, as `netperf_lib.analysis.judge` takes them, to one verdict
for each contrast: "better", "worse", "equivalent", or anything else for "cannot say".
``simulate(scenario, methods, …)`` runs any such functions.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import scipy

from netperf_lib.analysis import intervals, judging, samples
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule

ALPHA, MARGIN = 0.05, 0.10
EDGE = math.log1p(MARGIN)
METRIC = "latency_oneway_us"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "validation.md"
Contrasts = list[dict[str, Any]]
Method = Callable[[pd.DataFrame, Contrasts], Sequence[str]]


# --- methods ----------------------------------------------------------------------------------------------------------


def this_library(runs: pd.DataFrame, asked: Contrasts) -> Sequence[str]:
    return [
        str(v)
        for v in judging.judge(runs, asked, alpha=ALPHA, rounds=runs.attrs.get("rounds")).verdicts
    ]


def _by_contrast(
    runs: pd.DataFrame, asked: Contrasts, decide: Callable[[np.ndarray, np.ndarray], str]
) -> list[str]:
    ok = (runs["status"] == "ok").to_numpy()
    place, x = runs["placement"].to_numpy()[ok], runs[METRIC].to_numpy(dtype=float)[ok]
    values = {p: x[place == p] for p in np.unique(place)}
    none = np.empty(0)
    sides = [[values.get(c[s]["placement"], none) for s in "ab"] for c in asked]
    return [decide(a, b) if min(a.size, b.size) > 1 else "" for a, b in sides]


def mann_whitney(runs: pd.DataFrame, asked: Contrasts) -> Sequence[str]:
    """As benchstat does it: a difference where p < 0.05, else nothing is said."""

    def decide(a: np.ndarray, b: np.ndarray) -> str:
        p = scipy.stats.mannwhitneyu(
            a, b, method="exact" if max(a.size, b.size) <= 50 else "auto"
        ).pvalue
        return "" if p >= 0.05 else "worse" if np.median(a) > np.median(b) else "better"

    return _by_contrast(runs, asked, decide)


def welch(runs: pd.DataFrame, asked: Contrasts) -> Sequence[str]:
    """Welch's t on the means."""

    def decide(a: np.ndarray, b: np.ndarray) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # values that are all alike
            p = scipy.stats.ttest_ind(a, b, equal_var=False).pvalue
        return "" if not p < 0.05 else "worse" if a.mean() > b.mean() else "better"

    return _by_contrast(runs, asked, decide)


def tolerance(runs: pd.DataFrame, asked: Contrasts) -> Sequence[str]:
    """Means that differ by more than 10 % differ, as k8s-netperf compares two results; others are the same."""

    def decide(a: np.ndarray, b: np.ndarray) -> str:
        ratio = a.mean() / b.mean()
        return "worse" if ratio > 1 + MARGIN else "better" if ratio < 1 - MARGIN else "equivalent"

    return _by_contrast(runs, asked, decide)


METHODS: dict[str, Method] = {
    "this library": this_library,
    "Mann-Whitney": mann_whitney,
    "Welch's t": welch,
    "tolerance 10 %": tolerance,
}


# --- experiments ------------------------------------------------------------------------------------------------------


class Simulated(NamedTuple):
    """One experiment: its runs, what is asked, and the true log ratio of each contrast over the hours measured."""

    runs: pd.DataFrame
    asked: Contrasts
    truth: np.ndarray


Make = Callable[[np.random.Generator], Simulated]


class Scenario(NamedTuple):
    """Experiments of one kind."""

    group: str
    name: str
    make: Make
    bound: float = 5.0
    """Percent of reports that may be false."""
    power: float = 0.0
    """Percent of the contrasts with a plain truth that must be told rightly."""


def table(
    logs: np.ndarray, rng: np.random.Generator, orders: np.ndarray | None = None, **columns: Any
) -> pd.DataFrame:
    """Table of runs from logs of shape (rounds, conditions); by default chained, as the library schedules them."""
    n, k = logs.shape
    order = chained(rng, n, k) if orders is None else orders
    rows, flat = np.repeat(np.arange(n), k), order.ravel()
    unit = np.broadcast_to(columns.pop("deployment", 1), n)
    number = np.concatenate([np.arange(1, (unit == u).sum() + 1) for u in pd.unique(unit)])
    names = np.array([f"p{i}" for i in range(k)], dtype=object)[flat]
    common = {"attempt": 1, "status": "ok", "tool": "qperf", "test": "tcp_lat"}
    placed = {
        "deployment": unit[rows],
        "round": number[rows],
        "order": np.arange(n * k),
        "placement": names,
    }
    values = {METRIC: 100 * np.exp(logs[rows, flat])} | {
        c: v[rows, flat] for c, v in columns.items()
    }
    return pd.DataFrame(placed | common | values)


def chained(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Each round begins with the condition that ended the one before; the rest is random."""
    orders = [rng.permutation(k)]
    for _ in range(n - 1):
        first = orders[-1][-1]
        orders.append(np.concatenate([[first], rng.permutation(np.delete(np.arange(k), first))]))
    return np.array(orders)


def contrasts(m: int, **more: Any) -> Contrasts:
    """Conditions 1 … m against condition 0."""
    return [
        {
            "metric": METRIC,
            "a": {"placement": f"p{i}"},
            "b": {"placement": "p0"},
            "margin": MARGIN,
            **more,
        }
        for i in range(1, m + 1)
    ]


Noise = Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
"""Random numbers, rounds and conditions to noise of that shape, and the part of it that is true of the hours."""


def one(noise: Noise, n: int, effects: Sequence[float], orders: str = "chained") -> Make:
    """One deployment; the log ratios of the contrasts as planted, and what the hours add to them."""

    def make(rng: np.random.Generator) -> Simulated:
        k = len(effects) + 1
        logs, hours = noise(rng, n, k)
        level = np.concatenate([[0.0], effects])
        order = np.argsort(rng.random((n, k)), axis=1) if orders == "random" else None
        true = level + hours.mean(axis=0)
        return Simulated(
            table(logs + hours + level, rng, order), contrasts(k - 1), true[1:] - true[0]
        )

    return make


def iid(cv: float, shared: float = 0.0) -> Noise:
    return lambda rng, n, k: (
        cv * rng.standard_normal((n, k)) + shared * rng.standard_normal((n, 1)), np.zeros((n, k))
    )  # fmt: skip


def uneven(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((n, k)) * np.where(np.arange(k) % 2, 0.20, 0.04), np.zeros((n, k))


def slow(share: float, size: float = 3.0, cv: float = 0.08) -> Noise:
    """A share of all runs is slower."""
    return lambda rng, n, k: (
        cv * rng.standard_normal((n, k)) + math.log(size) * (rng.random((n, k)) < share), np.zeros((n, k))
    )  # fmt: skip


def quantised(value: float, step: float) -> Noise:
    def make(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        x = value * np.exp(0.02 * rng.standard_normal((n, k)))
        return np.log(np.round(x / step) * step / value), np.zeros((n, k))

    return make


def drifting(total: float, cv: float) -> Noise:
    """All conditions drift together over the experiment."""
    return lambda rng, n, k: (
        cv * rng.standard_normal((n, k)) + np.linspace(0, math.log1p(total), n)[:, None], np.zeros((n, k))
    )  # fmt: skip


def states(rho: float, cv: float = 0.08) -> Noise:
    """Half of the variance is a slow state of each path; its mean over the hours is part of the truth."""

    def make(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        e = rng.standard_normal((n, k))
        for t in range(1, n):
            e[t] = rho * e[t - 1] + math.sqrt(1 - rho * rho) * e[t]
        return cv / math.sqrt(2) * rng.standard_normal((n, k)), cv / math.sqrt(2) * e

    return make


def regimes(size: float, cv: float, which: str) -> Noise:
    """Paths that change between two states, and stay in four rounds of five."""

    def make(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        state = rng.random((n, k)) < 0.5
        for t in range(1, n):
            state[t] = state[t - 1] ^ (rng.random(k) > 0.8)
        hit = np.arange(k) % 2 == 1 if which == "odd" else np.arange(k) == 0
        return cv * rng.standard_normal((n, k)), size * np.where(hit, 2.0 * state - 1, 0.0)

    return make


def wave(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A quarter of a diurnal wave of 10 % on one path."""
    hours = np.zeros((n, k))
    hours[:, 1] = 0.1 * np.sin(2 * np.pi * (np.arange(n) / n / 4 + rng.random()))
    return 0.08 * rng.standard_normal((n, k)), hours


def incident(share: float, size: float, path: int | None) -> Noise:
    """For some hours everything, or one path, is slower."""

    def make(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        hours, length = np.zeros((n, k)), max(1, round(share * n))
        start = int(rng.integers(0, n - length + 1))
        hours[start : start + length, slice(None) if path is None else path] = math.log1p(size)
        return 0.04 * rng.standard_normal((n, k)), hours

    return make


def failing(kind: str, truth: float, cv: float, n: int) -> Make:
    """Four in five of A's slower half fail: repeated, failed, or missing from the table."""

    def make(rng: np.random.Generator) -> Simulated:
        logs = cv * rng.standard_normal((n, 2)) + np.array([0.0, truth])
        lost = (logs[:, 1] > truth) & (rng.random(n) < 0.8)
        runs = table(logs, rng)
        hit = runs["placement"].eq("p1") & runs["round"].isin(np.flatnonzero(lost) + 1)
        if kind == "repeated":
            again = runs[hit].assign(attempt=2)
            again[METRIC] = 100 * np.exp(cv * rng.standard_normal(len(again)) + truth)
            runs.loc[hit, ["status", METRIC]] = ["failed", np.nan]
            runs = pd.concat([runs, again], ignore_index=True)
        elif kind == "failed":
            runs.loc[hit, ["status", METRIC]] = ["failed", np.nan]
        elif kind == "missing":
            runs = runs[~hit]
        else:  # whole rounds
            runs = runs[~runs["round"].isin(np.flatnonzero(lost) + 1)]
        runs.attrs["rounds"] = n
        return Simulated(runs, contrasts(1), np.array([truth]))

    return make


def by_chance(n: int, effect: float, share: float = 0.1) -> Make:
    """Any run may fail."""

    def make(rng: np.random.Generator) -> Simulated:
        runs = table(0.08 * rng.standard_normal((n, 2)) + np.array([0.0, effect]), rng)
        runs.loc[rng.random(len(runs)) < share, ["status", METRIC]] = ["failed", np.nan]
        return Simulated(runs, contrasts(1), np.array([effect]))

    return make


Hit = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Random numbers and the conditions in order of time to the runs that are slower."""


def scheduled(k: int, n: int, cv: float, hit: Hit) -> Make:
    """Some runs are 10 % slower, whatever their condition; in the order of the library's own schedule."""
    names = [f"p{i}" for i in range(k)]
    declared = Experiment.model_validate(
        {
            "name": "scheduled",
            "hosts": {"source": "inventory"},
            "pairs": [{"client": "c", "server": name, "placement": name} for name in names],
            "tests": [{"tool": "qperf", "test": "tcp_lat"}],
            "rounds": n,
        }
    )

    def make(rng: np.random.Generator) -> Simulated:
        plan = schedule(declared, seed=int(rng.integers(2**31)))
        orders = np.array([names.index(t.pair.placement) for t in plan.trials]).reshape(n, k)
        logs, flat = cv * rng.standard_normal((n, k)), orders.ravel()
        slower = hit(rng, flat)
        logs[np.repeat(np.arange(n), k)[slower], flat[slower]] += math.log1p(0.1)
        return Simulated(table(logs, rng, orders), contrasts(k - 1), np.zeros(k - 1))

    return make


def carried(rng: np.random.Generator, flat: np.ndarray) -> np.ndarray:
    """What is measured right after the last condition."""
    return np.concatenate([[False], flat[:-1] == flat.max()])


def every(seconds: float) -> Hit:
    """Runs of 10 s, one each 15 s, in which a job starts that a clock starts."""

    def hit(rng: np.random.Generator, flat: np.ndarray) -> np.ndarray:
        start = np.cumsum(15 + 0.1 * rng.standard_normal(flat.size)) + seconds * rng.random()
        return np.asarray((start + 10) // seconds > start // seconds)

    return hit


def bursts(n: int) -> Make:
    """Credits: A is three times as fast in the first quarter only; equal when sustained."""

    def make(rng: np.random.Generator) -> Simulated:
        logs = 0.03 * rng.standard_normal((n, 2))
        logs[: n // 4, 1] -= math.log(3)
        return Simulated(table(logs, rng), contrasts(1), np.zeros(1))

    return make


def deployments(
    count: int, rounds: int, tau: float, effects: Sequence[float], shared: float = 0.0
) -> Make:
    """Each deployment is a draw of where VMs land; the claim is about placements in general."""

    def make(rng: np.random.Generator) -> Simulated:
        k, true = len(effects) + 1, np.array(effects)
        landed = tau * rng.standard_normal((count, k)) + shared * rng.standard_normal((count, 1))
        unit = np.repeat(np.arange(count), rounds)
        logs = (
            landed[unit]
            + 0.03 * rng.standard_normal((count * rounds, k))
            + np.concatenate([[0.0], true])
        )
        return Simulated(table(logs, rng, deployment=unit), contrasts(k - 1), true)

    return make


def far_placing(count: int) -> Make:
    """One placing in ten lands three times slower: not equivalent within 10 % on average."""

    def make(rng: np.random.Generator) -> Simulated:
        unit = np.repeat(np.arange(count), 5)
        logs = (
            0.03 * rng.standard_normal((count * 5, 2))
            + 0.01 * rng.standard_normal((count, 2))[unit]
        )
        logs[:, 1] += (math.log(3) * (rng.random(count) < 0.1))[unit]
        return Simulated(
            table(logs, rng, deployment=unit), contrasts(1), np.array([0.1 * math.log(3)])
        )

    return make


def apart(n: int, effect: float) -> Make:
    """The sides share no round."""

    def make(rng: np.random.Generator) -> Simulated:
        runs = table(0.08 * rng.standard_normal((n, 2)) + np.array([0.0, effect]), rng)
        runs.loc[runs["placement"] == "p1", "round"] += n
        return Simulated(runs, contrasts(1), np.array([effect]))

    return make


def two_measurements(count: int, tau: float, effect: float) -> Make:
    """Before and after, each of several deployments of 5 rounds: the sides share no round."""

    def make(rng: np.random.Generator) -> Simulated:
        landed = tau * rng.standard_normal((2, count)) + np.array([[0.0], [effect]])
        logs = np.repeat(landed, 5, axis=1).T + 0.03 * rng.standard_normal((5 * count, 2))
        runs = table(logs, rng, deployment=np.repeat(np.arange(count), 5))
        runs.loc[runs["placement"] == "p1", "deployment"] += count
        return Simulated(runs, contrasts(1), np.array([effect]))

    return make


def looked(rounds: int, effects: Sequence[float]) -> Make:
    """The results are looked at after every third round, and measuring ends once each contrast has a verdict."""

    def make(rng: np.random.Generator) -> Simulated:
        logs = 0.08 * rng.standard_normal((rounds, len(effects) + 1)) + np.array([0.0, *effects])
        runs = table(logs, rng).assign(design="sequential")
        asked = contrasts(len(effects))
        for n in range(6, rounds + 1, 3):
            so_far = runs[runs["round"] <= n]
            if all(c.settled for c in judging.judge(so_far, asked, alpha=ALPHA)):
                break
        return Simulated(so_far, asked, np.array(effects))

    return make


def tail(n: int, effect: float, packets: int = 20_000) -> Make:
    """The 99.9th percentile of the packets of a run."""

    def make(rng: np.random.Generator) -> Simulated:
        beyond = packets // 1000
        shares = rng.beta(packets - beyond, beyond + 1, (n, 2))
        logs = 0.5 * (scipy.special.ndtri(shares) - scipy.special.ndtri(0.999)) + np.array(
            [0.0, effect]
        )
        runs = table(logs + 0.05 * rng.standard_normal((n, 2)), rng).assign(packets_count=packets)
        runs["latency_oneway_p999_us"] = runs[METRIC]
        return Simulated(runs, contrasts(1, metric="latency_oneway_p999_us"), np.array([effect]))

    return make


def chosen_after(rng: np.random.Generator) -> Simulated:
    """Fifteen contrasts, of which one was declared and the others named after the data."""
    runs = table(0.08 * rng.standard_normal((10, 16)), rng)
    asked = contrasts(1, declared=True)[:1] + contrasts(15, declared=False)[1:]
    return Simulated(runs, asked, np.zeros(15))


def at_threshold(m: int) -> Make:
    """Conditions that have nothing in common, each exactly at its threshold."""

    def make(rng: np.random.Generator) -> Simulated:
        asked = [
            {"metric": METRIC, "a": {"placement": f"p{i}"}, "below": "100 us"} for i in range(m)
        ]
        return Simulated(table(0.08 * rng.standard_normal((20, m)), rng), asked, np.zeros(m))

    return make


def long_day(truth: float) -> Make:
    """A run a minute for 22 hours against a threshold: neighbours are alike; slow runs, an incident of 4 h."""

    def make(rng: np.random.Generator) -> Simulated:
        e = scipy.signal.lfilter([math.sqrt(1 - 0.81)], [1, -0.9], rng.standard_normal(1520))[200:]
        logs = truth + 0.05 * e
        if truth:
            logs = logs + math.log(1.5) * (rng.random(1320) < 0.03)
            logs[540:780] += math.log(1.18)
        runs = table(logs[:, None], rng)
        runs["started_utc"] = pd.Timestamp("2026-03-02T06:00Z") + pd.to_timedelta(
            np.arange(1320), unit="min"
        )
        asked = [{"metric": METRIC, "a": {"placement": "p0"}, "below": "100 us"}]
        return Simulated(runs, asked, np.array([truth]))

    return make


def scenarios() -> Iterator[Scenario]:
    up, half = math.log(1.2), math.log(1.5)
    g = "independent runs"
    for n, power in ((8, 85.0), (10, 93.0), (15, 95.0), (24, 95.0)):
        yield Scenario(g, f"CV 8 %, +20 %, {n} rounds", one(iid(0.08), n, [up]), power=power)
    yield Scenario(g, "CV 20 %, +50 %, 10 rounds", one(iid(0.20), 10, [half]), power=91.0)
    for n in (10, 20):
        yield Scenario(g, f"CV 8 %, equal, {n} rounds", one(iid(0.08), n, [0.0]))
        yield Scenario(g, f"CV 20 %, equal, {n} rounds", one(iid(0.20), n, [0.0]))
        yield Scenario(g, f"CV 8 %, at the margin, {n} rounds", one(iid(0.08), n, [EDGE]))
        yield Scenario(
            g, f"uneven noise of 4 and 20 %, {n} rounds", one(uneven, n, [0.0, EDGE] * 3)
        )
    yield Scenario(g, "resolution of 7 steps, 20 rounds", one(quantised(7, 1), 20, [0.0] * 6))
    yield Scenario(g, "chosen after the data, best of 15", chosen_after)
    yield Scenario(g, "the sides share no round, equal, 12 rounds", apart(12, 0.0))
    yield Scenario(g, "the sides share no round, +20 %, 12 rounds", apart(12, up), power=90.0)
    yield Scenario(g, "99.9th percentile, equal, 20 rounds", tail(20, 0.0))
    yield Scenario(g, "99.9th percentile, +20 %, 20 rounds", tail(20, up), power=80.0)
    yield Scenario(g, "looked at after every third round, equal, 30 rounds", looked(30, [0.0] * 3))
    yield Scenario(
        g, "looked at after every third round, +20 %, 30 rounds", looked(30, [up]), power=85.0
    )
    g = "several contrasts"
    for n, m in ((10, 6), (20, 6), (20, 20)):
        yield Scenario(g, f"{m} equal, CV 8 %, {n} rounds", one(iid(0.08, 0.1), n, [0.0] * m))
        yield Scenario(
            g, f"{m} equal or at the margin, {n} rounds", one(iid(0.08), n, [0.0, EDGE] * (m // 2))
        )
    lab = [-0.357, -1.1, 1.25, 1.25, 5.1, -0.017]
    yield Scenario(g, "6 as the lab, CV 8 %, 24 rounds", one(iid(0.08, 0.4), 24, lab), power=95.0)
    for m in (1, 20):
        yield Scenario(g, f"exactly at the threshold, m={m}", at_threshold(m))
    g = "drift"
    yield Scenario(g, "15 %, equal, 10 rounds", one(drifting(0.15, 0.08), 10, [0.0]))
    yield Scenario(g, "15 %, +20 %, 10 rounds", one(drifting(0.15, 0.08), 10, [up]), power=93.0)
    yield Scenario(
        g, "rounds vary by 40 %, +20 %, 10 rounds", one(iid(0.08, 0.4), 10, [up]), power=93.0
    )
    g = "dependence, hours measured"
    for rho in (0.3, 0.6, 0.9):
        for n in (10, 24):
            yield Scenario(
                g, f"slow states, correlation {rho}, {n} rounds", one(states(rho), n, [0.0] * 6)
            )
    for n in (10, 20, 40):
        yield Scenario(
            g, f"paths change by ±10 %, {n} rounds", one(regimes(0.1, 0.02, "odd"), n, [0.0] * 6)
        )
        yield Scenario(
            g,
            f"baseline changes by ±20 %, {n} rounds",
            one(regimes(0.2, 0.08, "base"), n, [0.0] * 6),
        )
    yield Scenario(g, "a wave on one path, 20 rounds", one(wave, 20, [0.0] * 6))
    for k, n, cv in (
        (2, 10, 0.08),
        (2, 24, 0.08),
        (2, 15, 0.05),
        (3, 15, 0.05),
        (3, 24, 0.08),
        (7, 20, 0.08),
    ):
        name = f"10 % carried over, {k} conditions, {n} rounds"
        yield Scenario("carry-over, chained", name, scheduled(k, n, cv, carried))
    for k, n, period in ((2, 10, 60), (2, 20, 60), (2, 40, 60), (2, 20, 30), (3, 20, 45)):
        name = f"a job every {period} s, {k} conditions, {n} rounds"
        yield Scenario("what a clock starts", name, scheduled(k, n, 0.02, every(period)))
    g = "slow runs"
    for n, m, power in ((12, 1, 90.0), (16, 6, 80.0), (16, 13, 70.0)):
        name = f"3 % 1.5 times slower, CV 4 %, {m} equal, {n} rounds"
        yield Scenario(g, name, one(slow(0.03, 1.5, 0.04), n, [-0.017] * m), power=power)
    yield Scenario(
        g,
        "3 % 1.5 times slower, at the margin, 16 rounds",
        one(slow(0.03, 1.5, 0.04), 16, [EDGE] * 6),
    )
    for n in (20, 40):
        yield Scenario(g, f"10 % 3 times slower, {n} rounds", one(slow(0.1), n, [0.0, EDGE] * 3))
    yield Scenario(g, "credits of the first quarter, 24 rounds", bursts(24))
    g = "failures"
    for n, power in ((10, 80.0), (15, 93.0), (24, 94.0)):
        yield Scenario(g, f"10 % by chance, +20 %, {n} rounds", by_chance(n, up), power=power)
    for kind in ("repeated", "failed", "missing", "without the round"):
        yield Scenario(g, f"slow runs fail, {kind}, equal, 20 rounds", failing(kind, 0.0, 0.2, 20))
        yield Scenario(
            g, f"slow runs fail, {kind}, 10 % slower, 40 rounds", failing(kind, EDGE, 0.08, 40)
        )
    g = "deployments"
    for count in (2, 3, 4, 6, 10):
        yield Scenario(
            g, f"{count} of 5 rounds, 5 % apart, equal", deployments(count, 5, 0.05, [0.0] * 3)
        )
        yield Scenario(
            g,
            f"{count} of 5 rounds, 5 % apart, mixed",
            deployments(count, 5, 0.05, [EDGE, 0.0, EDGE]),
        )
    yield Scenario(
        g, "6 of 5 rounds, 2 % apart, +20 %", deployments(6, 5, 0.02, [up] * 3, 0.05), power=90.0
    )
    for count in (3, 6):
        name = f"{count} before and {count} after, 5 % apart"
        yield Scenario(g, f"{name}, equal", two_measurements(count, 0.05, 0.0))
        yield Scenario(g, f"{name}, +20 %", two_measurements(count, 0.05, up))
    for count in (4, 10):
        yield Scenario(g, f"one placing in ten far off, {count}", far_placing(count))
    g = "incidents"
    yield Scenario(
        g,
        "all 18 % slower for a quarter, +20 %",
        one(incident(0.25, 0.18, None), 20, [up]),
        power=95.0,
    )
    yield Scenario(
        g,
        "all 18 % slower for a quarter, equal",
        one(incident(0.25, 0.18, None), 20, [0.0] * 3),
        power=90.0,
    )
    yield Scenario(
        g, "one path 50 % slower for a quarter", one(incident(0.25, 0.5, 1), 20, [0.0] * 3)
    )
    yield Scenario(g, "a day against a threshold, at it", long_day(0.0))
    yield Scenario(g, "a day with an incident, far below", long_day(math.log(0.46)), power=100.0)


# --- running ----------------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """What one method did in one scenario, in percent."""

    scenario: Scenario
    method: str
    false: float
    right: float
    """Share of the contrasts with a plain truth that was told; NaN: there is none."""
    samples: int

    def error(self, value: float) -> float:
        """Monte-Carlo error of a percentage."""
        p = min(max(value / 100, 0.5 / self.samples), 1 - 0.5 / self.samples)
        return 100 * math.sqrt(p * (1 - p) / self.samples)

    @property
    def holds(self) -> bool:
        """Whether the bounds lie within three Monte-Carlo errors."""
        return self.false <= self.scenario.bound + 3 * self.error(self.scenario.bound) and (
            not self.scenario.power
            or self.right >= self.scenario.power - 3 * self.error(self.scenario.power)
        )


def is_false(verdict: str, truth: float) -> bool:
    """Whether a verdict on a log ratio (less is better) is untrue."""
    if verdict == "equivalent":
        return abs(truth) >= EDGE - 1e-9
    return (verdict == "better" and truth >= -0.005) or (verdict == "worse" and truth <= 0.005)


def is_right(verdict: str, truth: float, threshold: bool) -> bool | None:
    """Whether it says what is plainly so; None where nothing is: at the edge, or near it."""
    if abs(truth) > EDGE + 1e-9 or (threshold and abs(truth) > 0.005):
        return verdict == ("worse" if truth > 0 else "better")
    return verdict == "equivalent" if abs(truth) < EDGE / 2 and not threshold else None


def simulate(
    scenario: Scenario, methods: Mapping[str, Method], seed: np.random.SeedSequence, samples: int
) -> list[Figure]:
    """Run methods on the same simulated experiments of one scenario."""
    false = dict.fromkeys(methods, 0)
    right: dict[str, list[bool]] = {name: [] for name in methods}
    for child in seed.spawn(samples):
        runs, asked, truth = scenario.make(np.random.default_rng(child))
        for name, method in methods.items():
            if "b" not in asked[0] and method is not this_library:
                continue  # only this library compares with a threshold
            verdicts = list(method(runs, asked))
            false[name] += any(is_false(v, t) for v, t in zip(verdicts, truth, strict=True))
            told = [
                is_right(v, t, "b" not in c) for v, t, c in zip(verdicts, truth, asked, strict=True)
            ]
            right[name] += [v for v in told if v is not None]
    return [
        Figure(
            scenario,
            m,
            100 * false[m] / samples,
            100 * float(np.mean(right[m])) if right[m] else math.nan,
            samples,
        )
        for m in methods
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

    def judged(data: Any, *rest: Any, **how: Any) -> Any:
        declared = data.sample.declared
        data.sample = replace(data.sample, declared=True)
        return replace(plain(data, *rest, **how), declared=declared)

    return [mock.patch.object(samples, "_comparison", judged)]


def _off_by_one() -> list[Any]:
    plain = judging.Blocks._side

    def rolled(self: Any, name: str) -> Any:
        side = plain(self, name)
        if name == "p0":
            side.value = np.roll(side.value, 1)
        return side

    return [mock.patch.object(judging.Blocks, "_side", rolled)]


def _alone(e: Any, edges: Any, alpha: float, **how: Any) -> Any:
    return [
        intervals.decide([x], [edge], alpha, **how)[0] for x, edge in zip(e, edges, strict=True)
    ]


MUTATIONS = {
    "family size ignored": Mutation(
        "exactly at the threshold, m=20", 15, lambda: [mock.patch.object(samples, "decide", _alone)]
    ),
    "undeclared contrasts judged": Mutation(
        "chosen after the data, best of 15", 20, _undeclared_judged
    ),
    "rounds paired off by one": Mutation("rounds vary by 40 %, +20 %, 10 rounds", 15, _off_by_one),
    "failures ignored": Mutation(
        "slow runs fail, failed, equal, 20 rounds",
        60,
        lambda: [mock.patch.object(samples, "_excess", lambda more, fewer: more[:0])],
    ),
}


# --- the page ---------------------------------------------------------------------------------------------------------

INTRODUCTION = """# How it compares with what people use

False reports stay near the promised 5 % in every row for this library. Each of the other methods is false in more than
half of the reports in some rows.

`make validate` writes these tables. This library, the Mann-Whitney test as benchstat uses it, Welch's *t* on the
means, and a tolerance of 10 % on the means (as k8s-netperf compares two results) judge the same simulated experiments,
whose truth is known. The margin is 10 %, and a report may be false with a chance of 5 %. CV is the coefficient of
variation of the runs.

- **False**: the percentage of reports with at least one verdict that is false for the hours measured: a difference
  where there is none or the opposite, or equality where the difference reaches the margin.
- **Right**: the percentage of right verdicts on contrasts whose truth is clear: beyond the margin, or inside half of it
  (only this library and the tolerance can call two conditions equal). A dash: the truth is at the margin, or the method
  does not apply.
"""

HOWTO = """## With a method of your own

A method is a function from a table of runs and contrasts to one verdict for each contrast: `"better"`, `"worse"`,
`"equivalent"`, or anything else if it is undecided. The table has a row for each run (`deployment`, `round`, `order`,
`attempt`, `status`, `placement`, `latency_oneway_us`; failed runs have no value), and a contrast is what the YAML
declares: `{"metric": …, "a": {"placement": "p1"}, "b": {"placement": "p0"}, "margin": 0.1}`. In a checkout:

```python
import numpy as np
from tests.analysis.validate import METHODS, scenarios, simulate


def medians(runs, contrasts):
    middle = runs[runs["status"] == "ok"].groupby("placement")["latency_oneway_us"].median()
    ratios = [middle[c["a"]["placement"]] / middle[c["b"]["placement"]] for c in contrasts]
    return ["worse" if r > 1.1 else "better" if r < 1 / 1.1 else "equivalent" for r in ratios]


scenario = next(s for s in scenarios() if s.name == "CV 20 %, equal, 10 rounds")
for figure in simulate(scenario, METHODS | {"medians": medians}, np.random.SeedSequence(1), 20):
    print(figure.method, figure.false, figure.right)
```

For this library, the function is `netperf_lib.analysis.judge(runs, contrasts).verdicts`.
"""


def page(figures: Sequence[Figure], seed: int) -> str:
    """The page of the documentation."""
    methods = list(dict.fromkeys(f.method for f in figures))
    count = figures[0].samples
    chance = (
        f"by chance a figure of 5 % is off by {100 * math.sqrt(0.05 * 0.95 / count):.1f} points"
    )
    lines = [
        INTRODUCTION,
        f"{count} experiments in each row, seed {seed}: {chance} (one standard error).\n",
    ]
    for group in dict.fromkeys(f.scenario.group for f in figures):
        lines += [f"## {group[0].upper()}{group[1:]}\n"]
        lines += ["| | " + " | ".join(f"{m}: false | right" for m in methods) + " |"]
        lines += ["|---" * (1 + 2 * len(methods)) + "|"]
        rows: dict[str, list[str]] = {}
        for f in figures:
            if f.scenario.group == group:
                asked = "threshold" not in f.scenario.name and "a day" not in f.scenario.name
                known = asked or f.method == "this library"
                right = "–" if math.isnan(f.right) or not known else f"{f.right:.0f}"
                rows.setdefault(f.scenario.name, []).extend(
                    [f"{f.false:.1f}" if known else "–", right]
                )
        lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()] + [""]
    return "\n".join([*lines, HOWTO])


def _by_name(name: str, seed: np.random.SeedSequence, samples: int) -> list[tuple[Any, ...]]:
    """Figures without their scenario, whose functions do not travel between processes."""
    return [
        f[1:]
        for f in simulate(next(s for s in scenarios() if s.name == name), METHODS, seed, samples)
    ]


def validate(
    seed: int, samples: int = 400, only: str = "", workers: int = 1
) -> Iterator[list[Figure]]:
    """Simulate everything; each scenario has its own stream of random numbers."""
    every = list(scenarios())
    seeds = dict(
        zip((s.name for s in every), np.random.SeedSequence(seed).spawn(len(every)), strict=True)
    )
    chosen = [s for s in every if only in s.name]
    if workers < 2:
        for s in chosen:
            yield simulate(s, METHODS, seeds[s.name], samples)
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting = [pool.submit(_by_name, s.name, seeds[s.name], samples) for s in chosen]
        for s, future in zip(chosen, waiting, strict=True):
            yield [Figure(s, *f) for f in future.result()]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="seed of the simulations; default: a fresh one")
    parser.add_argument(
        "--samples", type=int, default=400, help="experiments a scenario (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="only scenarios with this text in their name")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the page of the documentation")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else secrets.randbits(32)
    started = time.monotonic()
    print(f"seed {seed}, {chosen.samples} experiments a scenario; percent false / right")
    figures: list[Figure] = []
    wrong = 0
    for found in validate(seed, chosen.samples, chosen.only, chosen.workers):
        figures += found
        ours = found[0]
        wrong += not ours.holds
        cells = "".join(f"{f.false:7.1f} /{f.right:6.1f}" for f in found)
        print(f"{'ok  ' if ours.holds else 'FAIL'}  {ours.scenario.name:<56}{cells}", flush=True)
    total = len(figures) // len(METHODS)
    print(f"{total - wrong} of {total} scenarios hold, {time.monotonic() - started:.0f} s")
    if chosen.write:
        PAGE.write_text(page(figures, seed), "utf-8")
        print(f"wrote {PAGE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
