"""The shipped studies are settled by the rounds that they declare, though three runs in a hundred
are slow."""

import math
import zlib

import numpy as np
import pytest

import netperf_lib as npl
from netperf_lib.experiment.yaml import load_experiment

from .published import DECLARED, STUDIES, planted


def with_slow_runs(truth):
    """The same, with a run in 33 half as slow again."""

    def values(trial):
        if (
            np.random.default_rng(zlib.crc32(f"slow {trial.run_id}".encode())).random()
            >= 0.03
        ):
            return truth(trial)
        return {
            name: v / 1.5 if name.startswith("throughput") else v * 1.5
            for name, v in truth(trial).items()
        }

    return values


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_what_is_plainly_so_is_settled(name, tmp_path):
    experiment = load_experiment(DECLARED / f"{name}.yaml")
    exact = npl.compare(
        planted(experiment, STUDIES[name], tmp_path / "exact", noise=1e-6)
    )
    noisy = npl.compare(
        planted(experiment, with_slow_runs(STUDIES[name]), tmp_path / "noisy", noise=0.02)
    )
    open_ = []
    for truth, found in zip(exact, noisy, strict=True):
        size, edge = abs(math.log(truth.ratio)), math.log1p(truth.margin)
        if truth.threshold is not None or size > edge * 1.05 or size < edge / 2:
            assert found.verdict == truth.verdict or not found.settled
            open_ += [] if found.settled else [found.words]
    assert not open_
