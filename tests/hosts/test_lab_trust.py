"""A lab's folder that another user made, or may write into, is not used: what it names would run
as this user."""

import os
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from netperf_lib.errors import LabError
from netperf_lib.experiment.deployment import Deployment, Host
from netperf_lib.hosts import lab

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(sys.argv[2], end="", file=lock, flush=True)
print("held", flush=True)
sys.stdin.read()
"""
NOBODY = 65534


def forged_lab(folder):
    """Write what a running lab leaves, with a host whose connection runs a program."""
    folder.mkdir()
    config = folder / "cfg"
    config.write_text(f"Host client\n  ProxyCommand sh -c 'touch {folder}/ran; exit 1'\n")
    host = Host(
        name="client",
        address="127.0.0.1",
        data_address="127.0.0.1",
        ssh_config=str(config),
    )
    deployment = Deployment(deployment_id="lab-1", source="lab", hosts=(host,))
    (folder / "deployment.json").write_bytes(
        TypeAdapter(Deployment).dump_json(deployment)
    )


def open_to_all(folder):
    folder.chmod(0o777)
    return folder


def of_another_user(folder):
    if os.geteuid():
        pytest.skip("only root can give a folder to another user")
    os.chown(folder, NOBODY, NOBODY)
    return folder


def behind_a_link(folder):
    link = folder.with_name("link")
    link.symlink_to(folder)
    return link


@pytest.mark.skipif(sys.platform != "linux", reason="a lab needs Linux")
@pytest.mark.parametrize("make", [open_to_all, of_another_user, behind_a_link])
def test_the_lab_of_another_user_is_no_lab(tmp_path, make):
    folder = tmp_path / "other"
    forged_lab(folder)
    folder.chmod(0o700)
    make(folder).rename(tmp_path / "netperf-lab-x")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "netperf-lab-x" / "lock"), "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert lab.status(tmp_path) is None
        with pytest.raises(LabError, match="no lab is running"):
            lab.shell("client", tmp_path, ("true",))
        holder.stdin.close()
    assert not list(tmp_path.rglob("ran"))
