"""The short version of ``make validate``, proof that it fails when a guard is taken away, and a
method of one's own."""

import math
import os

import numpy as np
import pytest

from . import validate

SHORT = {
    "CV 8 %, +20 %, 10 rounds": 20,
    "6 equal, CV 8 %, 10 rounds": 10,
    "baseline changes by ±20 %, 20 rounds": 10,
    "10 % carried over, 2 conditions, 20 rounds": 10,
    "10 % in one of 4 runs, 2 conditions, 20 rounds": 10,
    "10 % by chance, +20 %, 15 rounds": 10,
    "slow runs fail, repeated, equal, 20 rounds": 10,
    "4 of 5 rounds, 5 % apart, equal": 15,
    "one placing in ten far off, 4": 15,
    "a day against a threshold, log ratio -0.78": 5,
    "the sides share no round, +20 %, 12 rounds": 10,
    "looked at after every third round, equal, 30 rounds": 4,
}
GUARDS = [*validate.MUTATIONS]
if not os.environ.get("FAULTS"):  # `make soak`: each
    GUARDS = ["rounds paired off by one", "undeclared contrasts judged"]
OURS = {"this library": validate.this_library}


def measured(name, samples, methods=OURS):
    scenario = next(s for s in validate.scenarios() if s.name == name)
    return validate.simulate(scenario, methods, np.random.SeedSequence(20_000), samples)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_the_statistics_keep_their_word(name):
    [figure] = measured(name, SHORT[name])
    assert figure.holds, figure


@pytest.mark.slow
@pytest.mark.parametrize("name", GUARDS)
def test_the_validation_fails_without_a_guard(name):
    scenario, samples, guard_taken = validate.MUTATIONS[name]
    with guard_taken():
        assert not all(figure.holds for figure in measured(scenario, samples))


def test_a_method_of_ones_own_is_a_function_from_runs_and_contrasts_to_verdicts():
    def medians(runs, contrasts):
        middle = (
            runs[runs["status"] == "ok"]
            .groupby("placement")["latency_oneway_us"]
            .median()
        )
        ratios = [
            middle[c["a"]["placement"]] / middle[c["b"]["placement"]] for c in contrasts
        ]
        return [
            "worse" if r > 1.1 else "better" if r < 1 / 1.1 else "equivalent"
            for r in ratios
        ]

    noisy = "CV 20 %, equal, 10 rounds"
    ours, theirs = measured(noisy, 8, OURS | {"medians": medians})
    assert theirs.false > 10 > ours.false
    page = validate.page([ours, theirs], 1)
    assert "| | this library: false | right | medians: false | right |" in page
    assert f"| {noisy} | {ours.false:.1f} |" in page


def test_it_runs_as_a_program(capsys):
    asked = "--seed 1 --samples 20 --workers 1 --only"
    assert validate.main([*asked.split(), "exactly at the threshold, m=1"]) == 0
    assert "1 of 1 scenarios hold" in capsys.readouterr().out


def test_what_is_false_and_what_is_right():
    edge = math.log(1.1)
    assert validate.is_false("equivalent", edge)
    assert validate.is_false("worse", 0.0)
    assert not validate.is_false("worse", 0.02)
    assert not validate.is_false("no verdict", edge)
    assert validate.is_right("worse", 0.2, False) is True
    assert validate.is_right("equivalent", edge, False) is None
