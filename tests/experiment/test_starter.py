"""Experiment files to start from."""

import pytest
from click.testing import CliRunner

from netperf_lib import hosts
from netperf_lib.cli import npl as command
from netperf_lib.errors import UsageError
from netperf_lib.experiment.starter import HOST_SOURCES, QUESTIONS, starter
from netperf_lib.experiment.yaml import load_experiment

ASKED = [
    (s, q) for s in HOST_SOURCES for q in QUESTIONS if (s, q) != ("inventory", "buffers")
]


@pytest.mark.parametrize(("source", "question"), ASKED)
def test_every_starter_can_be_planned_as_it_stands(tmp_path, source, question):
    place = tmp_path / "mine.yaml"
    place.write_text(starter("mine", source, question, 12))
    declared = load_experiment(place)
    hosts.options(declared)
    assert declared.rounds == 12
    assert declared.contrasts


def test_hosts_of_others_are_not_asked_about_buffers():
    with pytest.raises(UsageError, match="not changed"):
        starter("mine", "inventory", "buffers")


def test_init_writes_what_plan_takes_and_overwrites_nothing(tmp_path):
    def npl(*words):
        return CliRunner().invoke(command, words)

    place = tmp_path / "my question.yaml"
    assert npl("init", str(place), "--question", "streams").exit_code == 0
    assert "name: my-question" in place.read_text()
    planned = npl("plan", str(place))
    assert planned.exit_code == 0, planned.output
    assert npl("init", str(place)).exit_code == 2
