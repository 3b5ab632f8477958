"""Simulated experiments with planted truth: how often is a report false, and how often is the
right thing said?

``python -m tests.analysis.validate [--seed N] [--samples N] [--only WORD] [--write]`` runs this
library and what people use today (benchstat's Mann-Whitney test, Welch's t on the means, a
tolerance of 10 %) on the same experiments, prints their false reports and their power side by side,
and exits with 1 where this library misses its bounds. ``--write`` writes the page of the
documentation.

A method is a function from a table of runs and contrasts, as `netperf_lib.analysis.judge` takes
them, to one verdict for each contrast: "better", "worse", "equivalent", or anything else for
"cannot say". ``simulate(scenario, methods, …)`` runs any such functions.
"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import scipy

from netperf_lib.analysis import intervals, judging, samples
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule

from .power import NOISE, TESTS, power

ALPHA, MARGIN = 0.05, 0.10
EDGE, UP = math.log1p(MARGIN), math.log(1.2)
METRIC = "latency_oneway_us"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "validation.md"
SERIES = "## Changes in a series"
"""The page's last section, which `series_yardstick` writes."""
Contrasts = list[dict[str, Any]]
Generator = np.random.Generator


# --- methods --------------------------------------------------------------------------------------


def this_library(runs, asked, rounds=None, declared=None):
    family = judging.judge(runs, asked, alpha=ALPHA, rounds=rounds, declared=declared)
    return [str(v) for v in family.verdicts]


def by_side(decide):
    """A method that looks at the values of both sides, whatever their round."""

    def method(runs, asked):
        ok = runs[runs["status"] == "ok"]
        values = {p: x.to_numpy(float) for p, x in ok.groupby("placement")[METRIC]}
        sides = [
            [values.get(c[s]["placement"], np.empty(0)) for s in "ab"] for c in asked
        ]
        return [decide(a, b) if min(a.size, b.size) > 1 else "" for a, b in sides]

    return method


def mann_whitney(a, b):
    """As benchstat does it: a difference where p < 0.05, else nothing is said."""
    exact = "exact" if max(a.size, b.size) <= 50 else "auto"
    p = scipy.stats.mannwhitneyu(a, b, method=exact).pvalue
    return "" if p >= 0.05 else "worse" if np.median(a) > np.median(b) else "better"


def welch(a, b):
    """Welch's t on the means."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # values that are all alike
        p = scipy.stats.ttest_ind(a, b, equal_var=False).pvalue
    return "" if not p < 0.05 else "worse" if a.mean() > b.mean() else "better"


def tolerance(a, b):
    """Means that differ by more than 10 % differ, as k8s-netperf compares two results; others
    are the same."""
    ratio = a.mean() / b.mean()
    return (
        "worse"
        if ratio > 1 + MARGIN
        else "better"
        if ratio < 1 - MARGIN
        else "equivalent"
    )


METHODS = {
    "this library": this_library,
    "Mann-Whitney": by_side(mann_whitney),
    "Welch's t": by_side(welch),
    "tolerance 10 %": by_side(tolerance),
}


# --- experiments ----------------------------------------------------------------------------------


class Simulated(NamedTuple):
    """One experiment.

    Its runs, what is asked, the true log ratio of each contrast over the hours measured, the rounds
    that were planned, where some may be missing, and how many contrasts were declared.
    """

    runs: pd.DataFrame
    asked: Contrasts
    truth: np.ndarray
    rounds: int | None = None
    declared: int | None = None


class Scenario(NamedTuple):
    """Experiments of one kind."""

    group: str
    name: str
    make: Callable[[Generator], Simulated]
    power: float = 0.0
    """Percent of the contrasts with a plain truth that must be told rightly."""


def table(logs, rng, orders=None, deployment=1):
    """Table of runs from logs of shape (rounds, conditions); by default chained, as the library
    schedules them."""
    n, k = logs.shape
    rows, flat = (
        np.repeat(np.arange(n), k),
        (chained(rng, n, k) if orders is None else orders).ravel(),
    )
    unit = pd.Series(np.broadcast_to(deployment, n))
    return pd.DataFrame(
        {
            "deployment": unit.to_numpy()[rows],
            "round": unit.groupby(unit).cumcount().to_numpy()[rows] + 1,
            "order": np.arange(n * k),
            "placement": np.array([f"p{i}" for i in range(k)], dtype=object)[flat],
            "attempt": 1,
            "status": "ok",
            "tool": "qperf",
            "test": "tcp_lat",
            METRIC: 100 * np.exp(logs[rows, flat]),
        }
    )


def chained(rng, n, k):
    """Each round begins with the condition that ended the one before; the rest is random."""
    orders = [rng.permutation(k)]
    for _ in range(n - 1):
        first = orders[-1][-1]
        orders.append(
            np.concatenate([[first], rng.permutation(np.delete(np.arange(k), first))])
        )
    return np.array(orders)


def contrasts(m, **more):
    """Conditions 1 … m against condition 0."""
    common = {"metric": METRIC, "b": {"placement": "p0"}, "margin": MARGIN} | more
    return [{"a": {"placement": f"p{i}"}} | common for i in range(1, m + 1)]


def still(rng, n, k):
    return np.zeros((n, k))


def planted(rng, n, noise, effects, hours=still):
    """One deployment; the log ratios of the contrasts as planted, and what the hours add to
    them."""
    k, level = len(effects) + 1, np.array([0.0, *effects])
    logs, drift = noise(rng, n, k), hours(rng, n, k)
    truth = (level + drift.mean(axis=0))[1:] - drift[:, 0].mean()
    return Simulated(table(logs + drift + level, rng), contrasts(k - 1), truth)


def iid(cv, shared=0.0):
    return lambda rng, n, k: (
        cv * rng.standard_normal((n, k)) + shared * rng.standard_normal((n, 1))
    )


def uneven(rng, n, k):
    return rng.standard_normal((n, k)) * np.where(np.arange(k) % 2, 0.20, 0.04)


def slow(share, size=3.0, cv=0.08):
    """A share of all runs is slower."""
    quiet = iid(cv)
    return lambda rng, n, k: (
        quiet(rng, n, k) + math.log(size) * (rng.random((n, k)) < share)
    )


def quantised(rng, n, k):
    """Values of about seven steps of the resolution."""
    return np.log(np.round(7 * np.exp(0.02 * rng.standard_normal((n, k)))) / 7)


def drifting(rng, n, k):
    """All conditions drift together over the experiment, by 15 %."""
    return (
        0.08 * rng.standard_normal((n, k)) + np.linspace(0, math.log1p(0.15), n)[:, None]
    )


def states(rho, sd):
    """A slow state of each path; its mean over the hours is part of the truth."""

    def hours(rng, n, k):
        e = rng.standard_normal((n, k))
        for t in range(1, n):
            e[t] = rho * e[t - 1] + math.sqrt(1 - rho * rho) * e[t]
        return sd * e

    return hours


def dependent(rng, rho, n):
    half = 0.08 / math.sqrt(2)
    return planted(rng, n, iid(half), [0.0] * 6, states(rho, half))


def regimes(size, hit):
    """Paths that change between two states, and stay in four rounds of five."""

    def hours(rng, n, k):
        state = rng.random((n, k)) < 0.5
        for t in range(1, n):
            state[t] = state[t - 1] ^ (rng.random(k) > 0.8)
        return size * np.where(hit(np.arange(k)), 2.0 * state - 1, 0.0)

    return hours


def wave(rng, n, k):
    """A quarter of a diurnal wave of 10 % on one path."""
    hours = np.zeros((n, k))
    hours[:, 1] = 0.1 * np.sin(2 * np.pi * (np.arange(n) / n / 4 + rng.random()))
    return hours


def incident(size, path):
    """For a quarter of the rounds everything, or one path, is slower."""

    def hours(rng, n, k):
        found, length = np.zeros((n, k)), round(n / 4)
        start = int(rng.integers(0, n - length + 1))
        found[start : start + length, path] = math.log1p(size)
        return found

    return hours


def first_quarter(rng, n, k):
    """Credits: A is three times as fast in the first quarter only; equal when sustained."""
    logs = 0.03 * rng.standard_normal((n, k))
    logs[: n // 4, 1] -= math.log(3)
    return logs


def failing(rng, kind, truth, cv, n):
    """Four in five of A's slower half fail: repeated, failed, or missing from the table."""
    logs = cv * rng.standard_normal((n, 2)) + np.array([0.0, truth])
    lost = np.flatnonzero((logs[:, 1] > truth) & (rng.random(n) < 0.8)) + 1
    runs = table(logs, rng)
    whole = runs["round"].isin(lost)
    hit = whole & runs["placement"].eq("p1")
    if kind in ("repeated", "failed"):
        again = runs[hit].assign(attempt=2)
        again[METRIC] = 100 * np.exp(cv * rng.standard_normal(len(again)) + truth)
        runs.loc[hit, ["status", METRIC]] = ["failed", np.nan]
        if kind == "repeated":
            runs = pd.concat([runs, again], ignore_index=True)
    else:
        runs = runs[~(hit if kind == "missing" else whole)]
    return Simulated(runs, contrasts(1), np.array([truth]), rounds=n)


def by_chance(rng, n):
    """Any run may fail."""
    found = planted(rng, n, iid(0.08), [UP])
    found.runs.loc[rng.random(2 * n) < 0.1, ["status", METRIC]] = ["failed", np.nan]
    return found


@cache
def plans(k, n, number):
    """A plan of the library's own order, of k conditions."""
    names = [f"p{i}" for i in range(k)]
    pairs = [{"client": "c", "server": name, "placement": name} for name in names]
    tests = [{"tool": "qperf", "test": "tcp_lat"}]
    hosts = {"source": "inventory"}
    given = {
        "name": "scheduled",
        "hosts": hosts,
        "pairs": pairs,
        "tests": tests,
        "rounds": n,
    }
    return schedule(Experiment.model_validate(given), seed=number)


def scheduled(rng, k, n, hit, *, led=True):
    """Some runs are 10 % slower, whatever their condition, in the library's own order; noise 2
    %, margin 5 %."""
    trials = plans(k, n, int(rng.integers(400))).trials
    used = np.array([not t.leading for t in trials])
    every = np.array([int(t.pair.placement[1:]) for t in trials])
    flat = every[used]
    slower = hit(rng, every)[used] if led else hit(rng, flat)
    logs = 0.02 * rng.standard_normal((n, k))
    logs[np.repeat(np.arange(n), k)[slower], flat[slower]] += math.log1p(0.1)
    asked = contrasts(k - 1, margin=0.05)
    return Simulated(table(logs, rng, flat.reshape(n, k)), asked, np.zeros(k - 1))


def carried(rng, flat):
    """What is measured right after the last condition."""
    return np.concatenate([[False], flat[:-1] == flat.max()])


def every(rng, runs, k, n):
    """Runs of 10 s, one each 15 s, in which a job starts that a clock starts, once in so many
    runs."""

    def hit(rng, flat):
        seconds = 15 * runs
        start = (
            np.cumsum(15 + 0.1 * rng.standard_normal(flat.size)) + seconds * rng.random()
        )
        return np.asarray((start + 10) // seconds > start // seconds)

    return scheduled(rng, k, n, hit)


def deployments(rng, count, tau, effects, shared=0.0):
    """Each deployment of 5 rounds is a draw of where VMs land; the claim is about placements in
    general."""
    k, unit = len(effects) + 1, np.repeat(np.arange(count), 5)
    landed = tau * rng.standard_normal((count, k)) + shared * rng.standard_normal(
        (count, 1)
    )
    logs = (
        landed[unit]
        + 0.03 * rng.standard_normal((unit.size, k))
        + np.array([0.0, *effects])
    )
    return Simulated(
        table(logs, rng, deployment=unit), contrasts(k - 1), np.array(effects)
    )


def far_placing(rng, count):
    """One placing in ten lands three times slower: not equivalent within 10 % on average."""
    found, unit = (
        deployments(rng, count, 0.01, [0.0]),
        np.flatnonzero(rng.random(count) < 0.1),
    )
    far = found.runs["deployment"].isin(unit) & found.runs["placement"].eq("p1")
    found.runs.loc[far, METRIC] *= 3
    return found._replace(truth=np.array([0.1 * math.log(3)]))


def apart(rng, n, effect):
    """The sides share no round."""
    found = planted(rng, n, iid(0.08), [effect])
    found.runs.loc[found.runs["placement"] == "p1", "round"] += n
    return found


def two_measurements(rng, count, effect):
    """Before and after, each of several deployments of 5 rounds: the sides share no round."""
    found = deployments(rng, count, 0.05, [effect])
    found.runs.loc[found.runs["placement"] == "p1", "deployment"] += count
    return found


def looked(rng, rounds, effects):
    """The results are looked at after every third round, and measuring ends once each contrast
    has a verdict."""
    found = planted(rng, rounds, iid(0.08), effects)
    runs = found.runs.assign(design="sequential")
    for n in range(6, rounds + 1, 3):
        so_far = runs[runs["round"] <= n]
        if all(c.settled for c in judging.judge(so_far, found.asked, alpha=ALPHA)):
            break
    return found._replace(runs=so_far)


def chosen_after(rng, m):
    """Contrasts of which one was declared and the others named after the data."""
    return planted(rng, 10, iid(0.08), [0.0] * m)._replace(declared=1)


def below(rng, runs, truth):
    """Each condition against a threshold of 100 µs."""
    names = [f"p{i}" for i in range(len(truth))]
    asked = [{"metric": METRIC, "a": {"placement": p}, "below": "100 us"} for p in names]
    return Simulated(runs, asked, np.array(truth))


def at_threshold(rng, m):
    """Conditions that have nothing in common, each exactly at its threshold."""
    return below(rng, table(0.08 * rng.standard_normal((20, m)), rng), [0.0] * m)


def long_day(rng, truth):
    """A run a minute for 22 hours against a threshold: neighbours are alike; slow runs, an
    incident of 4 h."""
    e = scipy.signal.lfilter([math.sqrt(1 - 0.81)], [1, -0.9], rng.standard_normal(1520))[
        200:
    ]
    logs = truth + 0.05 * e
    if truth:
        logs += math.log(1.5) * (rng.random(1320) < 0.03)
        logs[540:780] += math.log(1.18)
    minutes = pd.to_timedelta(np.arange(1320), unit="min")
    started = pd.Timestamp("2026-03-02T06:00Z") + minutes
    return below(rng, table(logs[:, None], rng).assign(started_utc=started), [truth])


LAB = [-0.357, -1.1, 1.25, 1.25, 5.1, -0.017]
ODD = partial(np.bitwise_and, 1)
MIXED = [0.0, EDGE] * 3
SIZES = [(k, n) for k in (2, 3, 7) for n in (10, 20, 40)]
PERIODS = [(runs, k, n) for k, n in SIZES for runs in (k, 2 * k)]
KINDS = ("repeated", "failed", "missing", "without the round")
ROWS = {
    # name, experiment, what of it is in the name (with the power that it must have), and the rest
    "independent runs": [
        (
            "CV 8 %, +20 %, {} rounds",
            planted,
            {8: 85, 10: 93, 15: 95, 24: 95},
            iid(0.08),
            [UP],
        ),
        ("CV 20 %, +50 %, {} rounds", planted, {10: 91}, iid(0.20), [math.log(1.5)]),
        ("CV 8 %, equal, {} rounds", planted, (10, 20), iid(0.08), [0.0]),
        ("CV 20 %, equal, {} rounds", planted, (10, 20), iid(0.20), [0.0]),
        ("CV 8 %, at the margin, {} rounds", planted, (10, 20), iid(0.08), [EDGE]),
        ("uneven noise of 4 and 20 %, {} rounds", planted, (10, 20), uneven, MIXED),
        ("resolution of 7 steps, {} rounds", planted, (20,), quantised, [0.0] * 6),
        ("chosen after the data, best of {}", chosen_after, (15,)),
        ("looked at after every third round, equal, {} rounds", looked, (30,), [0.0] * 3),
        ("looked at after every third round, +20 %, {} rounds", looked, {30: 85}, [UP]),
    ],
    "unpaired": [
        ("the sides share no round, equal, {} rounds", apart, (5, 12), 0.0),
        ("the sides share no round, +20 %, {} rounds", apart, {12: 90}, UP),
        ("{} deployments before and as many after, equal", two_measurements, (3, 6), 0.0),
        ("{} deployments before and as many after, +20 %", two_measurements, (3, 6), UP),
    ],
    "several contrasts": [
        ("6 equal, CV 8 %, {} rounds", planted, (10, 20), iid(0.08, 0.1), [0.0] * 6),
        ("20 equal, CV 8 %, {} rounds", planted, (20,), iid(0.08, 0.1), [0.0] * 20),
        ("6 equal or at the margin, {} rounds", planted, (10, 20), iid(0.08), MIXED),
        (
            "20 equal or at the margin, {} rounds",
            planted,
            (20,),
            iid(0.08),
            [0.0, EDGE] * 10,
        ),
        ("6 as the lab, CV 8 %, {} rounds", planted, {24: 95}, iid(0.08, 0.4), LAB),
        ("exactly at the threshold, m={}", at_threshold, (1, 20)),
    ],
    "drift": [
        ("15 %, equal, {} rounds", planted, (10,), drifting, [0.0]),
        ("15 %, +20 %, {} rounds", planted, {10: 93}, drifting, [UP]),
        (
            "rounds vary by 40 %, +20 %, {} rounds",
            planted,
            {10: 93},
            iid(0.08, 0.4),
            [UP],
        ),
    ],
    "dependence, hours measured": [
        (
            "slow states, correlation {}, {} rounds",
            dependent,
            [(rho, n) for rho in (0.3, 0.6, 0.9) for n in (10, 24)],
        ),
        (
            "paths change by ±10 %, {} rounds",
            planted,
            (10, 20, 40),
            iid(0.02),
            [0.0] * 6,
            regimes(0.1, ODD),
        ),
        (
            "baseline changes by ±20 %, {} rounds",
            planted,
            (10, 20, 40),
            iid(0.08),
            [0.0] * 6,
            regimes(0.2, np.logical_not),
        ),
        ("a wave on one path, {} rounds", planted, (20,), iid(0.08), [0.0] * 6, wave),
    ],
    "carry-over, in the order of a plan": [
        ("10 % carried over, {} conditions, {} rounds", scheduled, SIZES, carried)
    ],
    "a job of a clock, in the order of a plan": [
        ("10 % in one of {} runs, {} conditions, {} rounds", every, PERIODS)
    ],
    "slow runs": [
        (
            "3 % 1.5 times slower, CV 4 %, {} equal, {} rounds",
            lambda rng, m, n: planted(rng, n, slow(0.03, 1.5, 0.04), [-0.017] * m),
            {(1, 12): 90, (6, 16): 80, (13, 16): 70},
        ),
        (
            "3 % 1.5 times slower, at the margin, {} rounds",
            planted,
            (16,),
            slow(0.03, 1.5, 0.04),
            [EDGE] * 6,
        ),
        ("10 % 3 times slower, {} rounds", planted, (20, 40), slow(0.1), MIXED),
        ("credits of the first quarter, {} rounds", planted, (24,), first_quarter, [0.0]),
    ],
    "failures": [
        ("10 % by chance, +20 %, {} rounds", by_chance, {10: 80, 15: 93, 24: 94}),
        ("slow runs fail, {}, equal, 20 rounds", failing, KINDS, 0.0, 0.2, 20),
        ("slow runs fail, {}, 10 % slower, 40 rounds", failing, KINDS, EDGE, 0.08, 40),
    ],
    "deployments": [
        (
            "{} of 5 rounds, 5 % apart, equal",
            deployments,
            (2, 3, 4, 6, 10),
            0.05,
            [0.0] * 3,
        ),
        (
            "{} of 5 rounds, 5 % apart, mixed",
            deployments,
            (2, 4, 10),
            0.05,
            [EDGE, 0.0, EDGE],
        ),
        ("{} of 5 rounds, 2 % apart, +20 %", deployments, {6: 90}, 0.02, [UP] * 3, 0.05),
        ("one placing in ten far off, {}", far_placing, (4, 10)),
    ],
    "incidents": [
        (
            "all 18 % slower for a quarter of {} rounds, +20 %",
            planted,
            {20: 95},
            iid(0.04),
            [UP],
            incident(0.18, slice(None)),
        ),
        (
            "all 18 % slower for a quarter of {} rounds, equal",
            planted,
            {20: 90},
            iid(0.04),
            [0.0] * 3,
            incident(0.18, slice(None)),
        ),
        (
            "one path 50 % slower for a quarter of {} rounds",
            planted,
            (20,),
            iid(0.04),
            [0.0] * 3,
            incident(0.5, 1),
        ),
        (
            "a day against a threshold, log ratio {:.2f}",
            long_day,
            {0.0: 0, math.log(0.46): 100},
        ),
    ],
}


def scenarios():
    for group, rows in ROWS.items():
        for name, make, cases, *fixed in rows:
            for case in cases:
                shown = case if isinstance(case, tuple) else (case,)
                power = cases[case] if isinstance(cases, dict) else 0.0
                make_one = partial(_made, make, shown, fixed)
                yield Scenario(group, name.format(*shown), make_one, power)


def _made(make, shown, fixed, rng):
    return globals().get(make.__name__, make)(rng, *shown, *fixed)


# --- running --------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """What one method did in one scenario, in percent."""

    scenario: Scenario
    method: str
    false: float
    right: float
    """Share of the contrasts with a plain truth that was told; NaN: there is none."""
    samples: int

    def error(self, value):
        """Monte-Carlo error of a percentage."""
        p = min(max(value / 100, 0.5 / self.samples), 1 - 0.5 / self.samples)
        return 100 * math.sqrt(p * (1 - p) / self.samples)

    @property
    def holds(self):
        """Whether the promise and the power lie within three Monte-Carlo errors."""
        power, bound = self.scenario.power, 100 * ALPHA
        enough = not power or self.right >= power - 3 * self.error(power)
        return enough and self.false <= bound + 3 * self.error(bound)


def is_false(verdict, truth):
    """Whether a verdict on a log ratio (less is better) is untrue."""
    if verdict == "equivalent":
        return abs(truth) >= EDGE - 1e-9
    return (verdict == "better" and truth >= -0.005) or (
        verdict == "worse" and truth <= 0.005
    )


def is_right(verdict, truth, threshold):
    """Whether it says what is plainly so; None where nothing is: at the edge, or near it."""
    if abs(truth) > EDGE + 1e-9 or (threshold and abs(truth) > 0.005):
        return verdict == ("worse" if truth > 0 else "better")
    return verdict == "equivalent" if abs(truth) < EDGE / 2 and not threshold else None


def simulate(scenario, methods, seed, samples):
    """Run methods on the same simulated experiments of one scenario."""
    false = dict.fromkeys(methods, 0)
    right = {name: [] for name in methods}
    for child in seed.spawn(samples):
        runs, asked, truth, *planned = scenario.make(np.random.default_rng(child))
        for name, method in methods.items():
            if "b" not in asked[0] and method is not this_library:
                continue  # only this library compares with a threshold
            verdicts = method(runs, asked, *(planned if method is this_library else ()))
            false[name] += any(map(is_false, verdicts, truth))
            told = (
                is_right(v, t, "b" not in c)
                for v, t, c in zip(verdicts, truth, asked, strict=True)
            )
            right[name] += [v for v in told if v is not None]
    return [
        Figure(
            scenario,
            name,
            100 * false[name] / samples,
            100 * float(np.mean(told)) if told else math.nan,
            samples,
        )
        for name, told in right.items()
    ]


# --- mutations ------------------------------------------------------------------------------------


def _undeclared_judged():
    plain = samples._comparison

    def judged(ratios, *rest, **options):
        sample = replace(ratios.sample, declared=True)
        found = plain(replace(ratios, sample=sample), *rest, **options)
        return replace(found, declared=ratios.sample.declared)

    return mock.patch.object(samples, "_comparison", judged)


def _off_by_one():
    plain = judging.by_round

    def rolled(obs):
        value = plain(obs)
        return value.assign(p0=np.roll(value["p0"], 1))

    return mock.patch.object(judging, "by_round", rolled)


def _alone(e, edges, alpha, sequential, **_):
    each = zip(e, edges, strict=True)
    return [
        intervals.decide([x], [edge], alpha, sequential=sequential)[0] for x, edge in each
    ]


MUTATIONS = {
    "family size ignored": (
        "exactly at the threshold, m=20",
        15,
        lambda: mock.patch.object(samples, "decide", _alone),
    ),
    "undeclared contrasts judged": (
        "chosen after the data, best of 15",
        20,
        _undeclared_judged,
    ),
    "rounds paired off by one": (
        "rounds vary by 40 %, +20 %, 10 rounds",
        15,
        _off_by_one,
    ),
    "failures ignored": (
        "slow runs fail, failed, equal, 20 rounds",
        60,
        lambda: mock.patch.object(samples, "_excess", lambda more, fewer: more[:0]),
    ),
    "no run leads": (
        "10 % carried over, 2 conditions, 20 rounds",
        150,
        lambda: mock.patch.dict(globals(), scheduled=partial(scheduled, led=False)),
    ),
}
"""A guard that is taken away, and the scenario that must then miss its bounds, in so many
experiments."""


# --- the page -------------------------------------------------------------------------------------

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

The rows with the order of a plan have noise of 2 %, a margin of 5 %, and conditions that do not differ. In those of
carry-over, the last condition makes the run after it 10 % slower. In those of a clock, a job makes the run in which it
starts 10 % slower: once in as many runs as there are conditions, or in twice as many; a run takes 15 s. Not covered: an
effect that lasts for more than one run, a failed run that is repeated at the end of its round, and conditions that are
measured at the same time.
"""  # noqa: E501  (as it is run or printed)

POWER = """## Power on measured noise

In how many of these experiments, in percent, a planted difference is found: the noise is that of consecutive
measurements of others (`tests/analysis/real.csv.gz`), and of made ones of which 15 % are three times slower. One
contrast, margin 5 %; the other tests at 5 %, without a margin.
"""  # noqa: E501  (as it is run or printed)

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
"""  # noqa: E501  (as it is run or printed)


def page(figures, seed):
    """The page of the documentation."""
    methods = list(dict.fromkeys(f.method for f in figures))
    count = figures[0].samples
    chance = 100 * math.sqrt(0.05 * 0.95 / count)
    lines = [
        INTRODUCTION,
        f"{count} experiments in each row, seed {seed}: by chance a figure of 5 % is off by",
        f"{chance:.1f} points (one standard error).\n",
    ]
    rows = {}
    for f in figures:
        right = "–" if math.isnan(f.right) else f"{f.right:.0f}"
        cells = rows.setdefault(f.scenario.group, {}).setdefault(f.scenario.name, {})
        cells[f.method] = f"{f.false:.1f} | {right}"
    for group, scenes in rows.items():
        lines += [f"## {group[0].upper()}{group[1:]}\n"]
        lines += ["| | " + " | ".join(f"{m}: false | right" for m in methods) + " |"]
        lines += ["|---" * (1 + 2 * len(methods)) + "|"]
        for name, cells in scenes.items():
            shown = " | ".join(cells.get(m, "– | –") for m in methods)
            lines.append(f"| {name} | {shown} |")
        lines.append("")
    return "\n".join([*lines, *power_table(count), HOWTO])


def power_table(count):
    """The section on measured noise."""
    lines = [POWER, f"| | {' | '.join(TESTS)} |", "|---" * (1 + len(TESTS)) + "|"]
    for name, rounds, effect in product(NOISE, (10, 20), (0.1, 0.2, 0.5)):
        found = power(name, rounds, effect, count)
        cells = " | ".join(f"{share:.0f}" for share in found.values())
        lines.append(f"| {name}, {100 * effect:+.0f} %, {rounds} rounds | {cells} |")
    return [*lines, ""]


def _by_name(name, seed, count):
    """Figures without their scenario, whose functions do not travel between processes."""
    [scenario] = (s for s in scenarios() if s.name == name)
    return [figure[1:] for figure in simulate(scenario, METHODS, seed, count)]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("seed", secrets.randbits(32)),
        ("samples", 400),
        ("workers", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--only", default="", help="only scenarios with this text in their name"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the page of the documentation"
    )
    asked = parser.parse_args(arguments)
    print(
        f"seed {asked.seed}, {asked.samples} experiments a scenario; percent false / right"
    )
    chosen = [s for s in scenarios() if asked.only in s.name]
    # each scenario has its own stream of random numbers
    seeds = np.random.SeedSequence(asked.seed).spawn(len(chosen))
    figures = []
    wrong = 0
    with ProcessPoolExecutor(asked.workers) as pool:
        names = [s.name for s in chosen]
        found = pool.map(_by_name, names, seeds, [asked.samples] * len(chosen))
        for scenario, some in zip(chosen, found, strict=True):
            ours, *others = (Figure(scenario, *figure) for figure in some)
            figures += [ours, *others]
            wrong += not ours.holds
            cells = "".join(f"{f.false:7.1f} /{f.right:6.1f}" for f in (ours, *others))
            print(
                f"{'ok  ' if ours.holds else 'FAIL'}  {scenario.name:<56}{cells}",
                flush=True,
            )
    print(f"{len(chosen) - wrong} of {len(chosen)} scenarios hold")
    if asked.write:
        _, title, series = PAGE.read_text("utf-8").partition(SERIES)
        written = page(figures, asked.seed)
        PAGE.write_text(f"{written}\n{title}{series}" if title else written, "utf-8")
        print(f"wrote {PAGE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
