"""A lab's folder that another user made, or may write into, is not used: what it names would run
as this user."""

import fcntl
import os
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from netperf_lib.errors import HostError
from netperf_lib.experiment.model import Deployment, Host
from netperf_lib.hosts import lab
from netperf_lib.hosts.lab import lock

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
@pytest.mark.parametrize("use", ["status", "shell", "stop", "start"])
def test_foreign_lab_folder_is_refused(tmp_path, make, use):
    folder = tmp_path / "lab"
    forged_lab(folder)
    folder.chmod(0o700)
    named = make(folder)
    calls = {
        "status": lambda: lab.status(named),
        "shell": lambda: lab.shell("client", named, ("true",)),
        "stop": lambda: lab.stop(named),
        "start": lambda: lab.run_foreground(folder=named),
    }
    command = [sys.executable, "-c", HOLD, str(folder / "lock"), lock.MARK.decode()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(HostError, match="remove it, or choose another one"):
            calls[use]()
        assert holder.poll() is None
        holder.stdin.close()
    assert not (folder / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="a lab needs Linux")
def test_lock_that_names_no_process_marks_a_lab(tmp_path):
    """Those of earlier releases name none, and stay when their lab ends."""
    file = tmp_path / "lock"
    earlier = "folder of a netperf_lib lab: what it holds is removed when the lab ends\n"
    file.write_text(earlier)
    assert lock.is_marked(file)
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock.holder(file) == 0
    assert lock.holder(file) is None


def test_own_lab_folder_is_closed_to_others(tmp_path, lab_runs):
    folder = tmp_path / "hosts"
    folder.mkdir(mode=0o755)
    folder.chmod(0o775)
    options = lab.Options.model_validate({"hosts": [{"name": "client"}, {"name": "ppg"}]})
    try:
        lab.start(options, folder)
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        lab.stop(folder)
