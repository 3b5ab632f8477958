"""The short version of ``make validate``, and proof that it fails when a guard is taken away."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from netperf_lib.stats import dependence, verdict

from . import validate

SHORT = {
    "independent, CV 8 %, n=10, mixed": 60,
    "as the lab, CV 8 %, n=10": 60,
    "slow runs fail, repeated, n=20, equal, CV 20 %": 60,
    "4 deployments, 5 % between them, null": 60,
    "one placing in ten far off, 4 deployments": 60,
    "chosen after the data, best of 15": 20,
}


def measured(name: str, samples: int) -> list[validate.Figure]:
    scenario = next(s for s in validate.scenarios() if s.name == name)
    scenario.weight = 1.0
    return validate.simulate(scenario, np.random.SeedSequence(20_000), samples)


@pytest.mark.parametrize("name", SHORT)
def test_the_statistics_keep_their_word(name):
    for figure in measured(name, SHORT[name]):
        assert figure.holds, figure


def _no_alarm(patch):
    patch.setattr(dependence.Dependence, "alarm", property(lambda _: False))
    patch.setattr(verdict, "autocorrelation_factor", lambda _: 1.0)


@pytest.mark.parametrize(
    ("mutation", "name", "samples"),
    [
        (_no_alarm, "rounds autocorrelated 0.6, n=20, null", 60),
    ],
    ids=lambda v: v.__name__.strip("_") if callable(v) else None,
)
def test_the_validation_fails_without_a_guard(mutation, name, samples, monkeypatch):
    mutation(monkeypatch)
    assert not all(figure.holds for figure in measured(name, samples))


def test_it_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "tests.stats.validate", "--help"], capture_output=True, text=True, check=True
    )
    assert "--seed" in done.stdout
