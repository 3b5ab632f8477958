"""The experiments that come with the project, one for each published study among them: each can be
planned."""

import pytest

from netperf_lib import hosts
from netperf_lib.experiment.estimate import Preview
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment

from ..conftest import REPO

ALL = sorted((REPO / "data" / "experiments").glob("*.yaml"))


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_every_experiment_can_be_planned(path):
    declared = load_experiment(path)
    hosts.options(declared)
    plan = schedule(declared, seed=1)
    assert declared.name == path.stem
    told = str(Preview(plan=plan))
    assert told.startswith(declared.name)
    assert " 1 conditions" not in told
