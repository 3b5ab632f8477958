"""The studies whose hosts are an inventory, measured over real SSH: their yaml with other addresses."""

import shutil
from getpass import getuser

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
    options = declared["hosts"]["options"]
    options |= {"user": getuser(), "identity": str(sshd.identity)}
    for number, machine in enumerate(options["hosts"].values(), 1):
        machine |= {"address": "127.0.0.1", "port": sshd.port, "known_hosts": str(sshd.known_hosts)}
        machine["data_address"] = f"127.0.0.{number}"
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
