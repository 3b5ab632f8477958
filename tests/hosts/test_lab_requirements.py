"""Where the lab cannot run it says so in one sentence; an ordinary user can run it. Each
situation is made for real.

In mount and user namespaces of their own, so that nothing of this machine changes; that needs root.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from netperf_lib.errors import LabError
from netperf_lib.experiment.model import Experiment, HostsSpec, Pair, TestSpec
from netperf_lib.hosts import lab

REPOSITORY = Path(__file__).parents[2]
CHECK = """
from netperf_lib.errors import LabError
from netperf_lib.hosts import lab
try:
    lab.check()
    print("it can run")
except LabError as error:
    print(error)
    raise SystemExit
"""
LAB = """
import os, subprocess
from pathlib import Path
from netperf_lib.hosts import lab
folder = Path("/tmp/state")
hosts = [h for h in lab.Options().hosts if h.name in ("client", "ppg", "region")]
made = lab.start(lab.Options(hosts=hosts), folder, 1)
def run(host, command):
    words = lab.ssh_command(made.host(host), command)
    return subprocess.run(words, capture_output=True, text=True, timeout=180)
facts = "hostname; id -u; ls /sys/class/net; cat /proc/sys/net/ipv4/tcp_wmem; echo $LD_LIBRARY_PATH"
print(os.geteuid(), run("region", facts).stdout.split())
print([p for h in made.hosts for p in h.proofs])
setting = "/proc/sys/net/ipv4/tcp_wmem"
print(run("ppg", f"echo 4096 16384 1000000 >{setting}; cat {setting}").stdout.split()[-1:])
run("ppg", "setsid iperf3 -s >/dev/null 2>&1 </dev/null & sleep 0.5")
said = run("client", "iperf3 -c 10.10.0.5 -t 1 -u -b 50M")
print("receiver" in said.stdout or said)
lab.stop(folder)
print(sorted(p.name for p in folder.iterdir()))
"""


def can_unshare(*what):
    try:
        return (
            os.geteuid() == 0
            and not subprocess.run(["unshare", *what, "true"], check=False).returncode
        )
    except FileNotFoundError:
        return False


needs_root = pytest.mark.skipif(
    not can_unshare("-m"), reason="only root can make this situation"
)
needs_users = pytest.mark.skipif(
    not can_unshare("-Ur"), reason="no user namespaces here, as below chroot"
)


def said_where(situation, code=CHECK, *, user=""):
    """Run `code` in a new mount namespace after the shell commands `situation`; as `user`, when
    that is given.

    The interpreter and the checkout may lie where that user may not look: they are shown to him
    below /mnt.
    """
    site = Path(pytest.__file__).parents[1]
    python = Path(
        "/mnt/python", Path(sys.executable).resolve().relative_to(sys.base_prefix)
    )
    script = f"""set -e
        mount -t tmpfs -o mode=755 none /mnt
        mkdir /mnt/python /mnt/repository /mnt/site
        {situation}
        mount --rbind {shlex.quote(sys.base_prefix)} /mnt/python
        mount --bind {shlex.quote(str(REPOSITORY))} /mnt/repository
        mount --bind {shlex.quote(str(site))} /mnt/site
        mount -t tmpfs none /tmp
        cd /
        export PYTHONPATH=/mnt/repository:/mnt/site LD_LIBRARY_PATH=/mnt/python/lib PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
        exec {user} {python} -c {shlex.quote(code)}
    """  # noqa: E501  (as it is run or printed)
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tun(mode):
    return f"""mount -t tmpfs -o dev,mode=755 none /dev/net
        mknod -m {mode} /dev/net/tun c 10 200"""


def somebody():
    return """cp -p /etc/passwd /mnt/passwd
        echo somebody:x:4321:4321::/tmp:/bin/sh >> /mnt/passwd
        mount --bind /mnt/passwd /etc/passwd"""


AS_SOMEBODY = "setpriv --reuid 4321 --regid 4321 --clear-groups"


@needs_root
def test_an_ordinary_user_can_run_it():
    situation = f"{somebody()}\n{tun('666')}"
    checked, *said = said_where(situation, CHECK + LAB, user=AS_SOMEBODY).splitlines()
    if "namespaces" in checked:
        pytest.skip(checked)
    assert checked == "it can run"
    who, proofs, buffer, udp, left = said
    assert (
        who
        == "4321 ['region', '4321', 'eth0', 'lo', '4096', '16384', '2621440', '/mnt/python/lib']"
    )
    # a container may refuse a view of the own processes alone
    own_view = subprocess.run(
        [*AS_SOMEBODY.split(), "unshare", "-Urpf", "--mount-proc", "true"],
        capture_output=True,
    )
    assert proofs == "[]" or (own_view.returncode and "/proc shows" in proofs), (
        "no other step was refused"
    )
    assert buffer == "['1000000']", "the buffers of a trial need no sudo"
    assert udp == "True"
    assert left == "[]"


@pytest.mark.slow
@needs_root
def test_root_with_a_locked_password_can_log_in():
    locked = """sed 's/^root:[^:]*:/root:!:/' /etc/shadow > /mnt/shadow; chmod 600 /mnt/shadow
        mount --bind /mnt/shadow /etc/shadow"""
    who, *_ = said_where(locked, LAB).splitlines()
    assert who.startswith("0 ['region', '0', 'eth0'")


@needs_root
@pytest.mark.parametrize(
    ("situation", "user", "message"),
    [
        (
            "mount -t tmpfs none /dev/net",
            "",
            r"network devices here \(No such file.*: run 'sudo modprobe tun; sudo chmod",
        ),
        pytest.param(
            f"{somebody()}\n{tun('600')}",
            AS_SOMEBODY,
            r"devices.*\(Permission denied\)",
            marks=pytest.mark.slow,
        ),
        (
            "mount --bind /dev/null $(command -v sshd)",
            "",
            "needs sshd.*apt-get install openssh-server'",
        ),
        pytest.param(
            "mount --bind /dev/null $(command -v ssh-keygen)",
            "",
            "needs ssh-keygen.*openssh-client'",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "mount --bind /dev/null $(command -v tc)",
            "",
            "needs tc.*iproute2'",
            marks=pytest.mark.slow,
        ),
        (
            "",
            "setpriv --bounding-set=-sys_admin",
            "may not create network namespaces.*a container with '--privileged'",
        ),
        pytest.param(
            "",
            AS_SOMEBODY,
            "user id 4321 has no entry in /etc/passwd",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "",
            "unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_net_namespaces; exec \"$@\"' sh",
            "max_net_namespaces",
            marks=[needs_users, pytest.mark.slow],
        ),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(situation, user, message):
    said = said_where(situation, user=user)
    assert said.count("\n") == 1
    with pytest.raises(LabError, match=message):
        raise LabError(said.rstrip())


def test_only_linux_will_do_but_plans_can_be_made_elsewhere():
    elsewhere = """
import subprocess, sys, pydantic
import netperf_lib.hosts
sys.platform = "win32"
sys.modules["fcntl"] = sys.modules["pwd"] = None
from pathlib import Path
"""
    code = elsewhere + CHECK.replace(
        "lab.check()", "lab.Options(), lab.status(), lab.stop(Path()); lab.check()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout.startswith(
        "the lab needs Linux, and this is win32: run it in a Linux machine"
    ), done.stderr


def test_a_missing_tool_is_named_before_anything_starts(monkeypatch, tmp_path):
    try:
        lab.check()
    except LabError as error:
        pytest.skip(f"no lab here: {error}")
    experiment = Experiment(
        name="t",
        hosts=HostsSpec(source="lab"),
        pairs=(Pair(client="client", server="ppg", placement="ppg"),),
        tests=(TestSpec(tool="qperf", test="tcp_lat"),),
    )
    for program in ("ssh", "ssh-keygen", "ip", "tc"):
        (tmp_path / program).symlink_to(lab.program(program))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        LabError,
        match="uses qperf, which is not installed here: run 'sudo apt-get install qperf'",
    ):
        lab.up(experiment, state=tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        LabError, match=r"cannot write to its folder .*file/state.*choose another one"
    ):
        lab.start(lab.Options(), tmp_path / "file" / "state", 1)
