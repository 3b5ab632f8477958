"""The short version of ``make validate``, and proof that it fails when a guard is taken away."""

from __future__ import annotations

import numpy as np
import pytest

from . import validate

SHORT = {
    "independent, CV 8 %, n=10, mixed": 40,
    "as the lab, CV 8 %, n=10": 40,
    "paths change state ±10 %, CV 2 %, n=20, null": 40,
    "slow runs fail, repeated, n=20, equal, CV 20 %": 40,
    "4 deployments, 5 % between them, null": 40,
    "one placing in ten far off, 4 deployments": 40,
    "chosen after the data, best of 15": 10,
}


def measured(name: str, samples: int) -> list[validate.Figure]:
    scenario = next(s for s in validate.scenarios() if s.name == name)
    scenario.weight = 1.0
    return validate.simulate(scenario, np.random.SeedSequence(20_000), samples)


@pytest.mark.parametrize("name", SHORT)
def test_the_statistics_keep_their_word(name):
    for figure in measured(name, SHORT[name]):
        assert figure.holds, figure


@pytest.mark.parametrize("name", [n for n in validate.MUTATIONS if n != "looking ignored"])  # that one takes a minute
def test_the_validation_fails_without_a_guard(name):
    mutation = validate.MUTATIONS[name]
    with mutation.applied():
        assert not all(figure.holds for figure in measured(mutation.scenario, mutation.samples))


def test_it_runs_as_a_program(capsys):
    assert (
        validate.main(["--seed", "1", "--samples", "20", "--only", "exactly at the threshold, m=1", "--workers", "1"])
        == 0
    )
    assert "1 of 1 figures hold" in capsys.readouterr().out
