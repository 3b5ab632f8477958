"""Experiment files to start from."""

import subprocess
import sys

import pytest

from netperf_lib import hosts
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


def test_init_writes_what_plan_takes_and_overwrites_nothing(python, tmp_path):
    def npl(*words, python=python):
        command = [python, "-m", "netperf_lib", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    place = tmp_path / "my question.yaml"
    assert (
        npl("init", place, "--question", "streams", python=sys.executable).returncode == 0
    )
    assert "name: my-question" in place.read_text()
    planned = npl("plan", place)
    assert planned.returncode == 0, planned.stderr
    assert npl("init", place).returncode == 2
