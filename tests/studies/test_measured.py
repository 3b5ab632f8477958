"""Hosts of an inventory, measured over real SSH: a study with other addresses, and the tutorial."""

import re
import shlex
import shutil
import subprocess
from contextlib import closing
from getpass import getuser
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib import pipeline

from ..sshd import Sshd
from .published import DECLARED


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    with closing(Sshd(tmp_path_factory.mktemp("sshd"))) as server:
        yield server


def reach(declared, sshd):
    """Make every host of an inventory one of this machine."""
    options = declared["hosts"]["options"]
    options |= {"user": getuser(), "identity": str(sshd.identity)}
    for number, machine in enumerate(options["hosts"].values(), 1):
        machine |= {
            "address": "127.0.0.1",
            "port": sshd.port,
            "known_hosts": str(sshd.known_hosts),
        }
        machine["data_address"] = f"127.0.0.{number}"


def changed(place, change, *given):
    declared = yaml.safe_load(place.read_text("utf-8"))
    change(declared, *given)
    place.write_text(yaml.safe_dump(declared), "utf-8")


@pytest.mark.skipif(shutil.which("qperf") is None, reason="needs qperf")
def test_a_study_on_hosts_of_ones_own_is_measured(sshd, tmp_path):
    place = Path(shutil.copy(DECLARED / "study-domains.yaml", tmp_path))
    changed(place, reach, sshd)
    # these hosts are one machine
    told = {"rounds": 1, "duration_s": 0.3, "anyway": True, "say": lambda _: None}
    results = npl.read(pipeline.collect(place, root=tmp_path / "data", **told))
    assert set(results.runs["status"]) == {"ok"}, results.runs["error"].to_list()
    assert len(npl.analysis.contrasts(results)) == len(results.contrasts) > 0


def shortened(declared):
    declared["rounds"] = 1
    latency, stream = declared["tests"]
    latency["duration_s"] = 0.3  # two processors are busy while qperf runs
    stream |= {"duration_s": 1, "omit_s": 0, "options": {"bitrate": "20M"}}


def test_the_tutorial_on_own_hosts_is_typed(sshd, tmp_path, python, monkeypatch):
    """Up to the report, which the tutorial on own logs types; the addresses are the reader's."""
    page = DECLARED.parents[1] / "docs" / "tutorials" / "own-hosts.md"
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"(?m)^\$ npl (.*)", page.read_text("utf-8")):
        words = shlex.split(line, comments=True)
        if words[0] == "report":
            continue
        words += (
            ["--anyway"] if words[0] == "collect" else []
        )  # these hosts are one machine
        command = [python, "-m", "netperf_lib", *words]
        done = subprocess.run(
            command, input="\n\n", capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (line, done.stderr)
        if words[0] == "init":
            changed(Path("my-hosts.yaml"), reach, sshd)
            changed(Path("my-hosts.yaml"), shortened)
    assert set(npl.read("results/my-hosts").runs["status"]) == {"ok"}
