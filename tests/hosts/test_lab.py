"""The local lab, for real: namespaces, sshd, TUN devices and the tools."""

from __future__ import annotations

import subprocess

import pytest

from netperf_lib.errors import LabError
from netperf_lib.hosts import lab
from netperf_lib.model import Experiment, HostsSpec, Pair, TestSpec

try:
    lab.check()
except LabError as error:
    pytest.skip(f"no lab here: {error}", allow_module_level=True)


def experiment(**options):
    return Experiment(
        name="t",
        hosts=HostsSpec(source="lab", options=options),
        pairs=(Pair(client="client", server="ppg", placement="ppg"),),
        tests=(TestSpec(tool="qperf", test="tcp_lat"),),
    )


def run(deployment, host, command):
    done = subprocess.run(
        lab.ssh_command(deployment.host(host), command), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_a_host_is_a_host_of_its_own(tmp_path):
    deployment = lab.up(experiment(calibrate=False), state=tmp_path)
    try:
        assert [h.name for h in deployment.hosts] == [
            *("client", "ppg", "zone", "xzone", "region", "plain", "zone-64m", "region-64m")
        ]
        assert run(deployment, "region", "hostname; touch /tmp/mine; ls /tmp").split() == ["region", "mine"]
        assert run(deployment, "client", "ls /tmp; getent hosts region | cut -d' ' -f1").split() == ["10.10.0.8"]
        assert "67108864" in run(deployment, "zone-64m", "cat /proc/sys/net/ipv4/tcp_wmem")
        assert "Emulated" in deployment.notice
    finally:
        lab.down(experiment(), state=tmp_path)
    assert lab.status(tmp_path) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lab.log", "lock", "options.json"]
    lab.down(experiment(), state=tmp_path)
