"""The studies whose hosts are an inventory, measured over real SSH: their yaml with other addresses."""

import re
import shlex
import shutil
import subprocess
from getpass import getuser
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib import pipeline

from ..sshd import Sshd
from .published import DECLARED

TOOLS = {"study-domains": "qperf", "study-ladder": "iperf3"}


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()


@pytest.mark.parametrize(
    "name", ["study-domains", pytest.param("study-ladder", marks=pytest.mark.slow)]
)
def test_a_study_on_hosts_of_ones_own_is_measured(name, sshd, tmp_path):
    if shutil.which(TOOLS[name]) is None:
        pytest.skip(f"needs {TOOLS[name]}")
    declared = yaml.safe_load((DECLARED / f"{name}.yaml").read_text("utf-8"))
    reach(declared["hosts"]["options"], sshd)
    for test in declared["tests"]:
        if test["tool"] == "iperf3":  # as fast as loopback can it would keep two processors busy
            test["options"] = {"bitrate": "2M"}
            test["streams"] = [1, 16, 32, 64]  # those that are compared
    place = tmp_path / f"{name}.yaml"
    place.write_text(yaml.safe_dump(declared), "utf-8")
    pipeline.collect(
        place,
        root=tmp_path / "data",
        rounds=1,
        duration_s=1 if TOOLS[name] == "iperf3" else 0.3,
        anyway=True,  # these hosts are one machine
        say=lambda _: None,
    )
    results = npl.read(tmp_path / "data" / name)
    runs = results.runs
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert len(npl.analysis.overview(runs)) > 0
    assert len(npl.analysis.contrasts(results)) == len(results.contrasts) > 0


def test_the_tutorial_on_own_hosts_is_typed(sshd, tmp_path, python, monkeypatch):
    """Up to the report, which the tutorial on own logs types; the addresses are the reader's."""
    page = DECLARED.parents[1] / "docs" / "tutorials" / "own-hosts.md"
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"(?m)^\$ npl (.*)", page.read_text("utf-8")):
        words = shlex.split(line, comments=True)
        if words[0] == "report":
            continue
        command = [python, "-m", "netperf_lib", *words]
        command += ["--anyway"] if words[0] == "collect" else []  # these hosts are one machine
        done = subprocess.run(command, input="\n\n", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (line, done.stderr)
        if words[0] == "init":
            own_addresses(Path("my-hosts.yaml"), sshd)
    assert set(npl.read("results/my-hosts").runs["status"]) == {"ok"}


def reach(options, sshd):
    """Make every host of an inventory one of this machine."""
    options |= {"user": getuser(), "identity": str(sshd.identity)}
    for number, machine in enumerate(options["hosts"].values(), 1):
        machine |= {"address": "127.0.0.1", "port": sshd.port, "known_hosts": str(sshd.known_hosts)}
        machine["data_address"] = f"127.0.0.{number}"


def own_addresses(place, sshd):
    """Write the addresses of hosts into a file, and make it short."""
    declared = yaml.safe_load(place.read_text("utf-8"))
    reach(declared["hosts"]["options"], sshd)
    declared["rounds"] = 1
    for test in declared["tests"]:
        test |= {"duration_s": 1, "omit_s": 0}
    declared["tests"][1]["options"] = {"bitrate": "20M"}
    place.write_text(yaml.safe_dump(declared), "utf-8")
