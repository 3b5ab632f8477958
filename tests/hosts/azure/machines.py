"""Stand-ins for the VMs of the emulated cloud: a real sshd each, at the VM's own address, with
its own host key.

All of it lives in a network namespace whose loopback interface holds the addresses, and nothing
else: no packet can leave. Each stand-in has its own view of the few files that tell a guest in
Azure what it is.
"""

import base64
import ctypes
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import yaml

from ...sshd import wait_until
from .cloud import accelerated, interface, public_address

SCRIPT = Path(__file__).with_name("machine.sh")
APART = "unshare --mount --uts --pid --fork --kill-child --mount-proc sh".split()
CLONE_NEWNET = 0x40000000
NETWORKS = ("203.0.113.1/24", "10.77.0.1/16", "10.1.0.1/24")


def possible():
    """Why it cannot be done here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    tools = ("ip", "sshd", "unshare", "qperf")
    missing = [tool for tool in tools if not shutil.which(tool, path=path)]
    return f"not installed: {', '.join(missing)}" if missing else None


@contextmanager
def private_network():
    """A network of this thread's own, which its processes and threads inherit."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before:  # noqa: PTH123 - the open file is the handle
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            for network in NETWORKS:
                subprocess.run(["ip", "address", "add", network, "dev", "lo"], check=True)
            yield
        finally:
            if libc.setns(before.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")


class Machines:
    """Stand-ins for all VMs of a cloud, kept in step with it by `follow`; files are in `folder`."""

    def __init__(self, cloud, folder):
        self.cloud, self.folder = cloud, folder
        self.started = 0
        self.running = {}
        self.without_vf = set()
        """VMs whose virtual function is missing although it was asked for."""

    def follow(self):
        """Start what was made, end what is gone."""
        vms = {w: r for w, r in self.cloud.resources.items() if "/virtualmachines/" in w}
        for where in self.running.keys() - vms.keys():
            process = self.running.pop(where)
            process.kill()  # the first process of its PID namespace: all others go with it
            process.wait()
        for where in vms.keys() - self.running.keys():
            self.running[where] = self._start(vms[where])

    def _start(self, vm):
        profile = vm["properties"]["osProfile"]
        (inside,) = interface(self.cloud, vm)["ipConfigurations"]
        address = inside["properties"]["privateIPAddress"]
        if public := public_address(self.cloud, vm):
            address = public["properties"]["ipAddress"]
        self.started += 1
        home = self.folder / f"{self.started}-{vm['name']}"
        home.mkdir(parents=True)
        first_start = yaml.safe_load(base64.b64decode(profile["customData"]))
        (home / "host_key").touch(mode=0o600)
        (home / "host_key").write_text(
            first_start["ssh_keys"]["ed25519_private"], "utf-8"
        )
        trusted = profile["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"]
        (home / "authorized").write_text(trusted + "\n", "utf-8")
        physical = f"AMS21PRDH{vm['location'][0]}{vm.get('zones', ['0'])[0]}"
        has_vf = accelerated(self.cloud, vm) and vm["name"] not in self.without_vf
        words = [str(home), profile["adminUsername"], address, vm["name"], physical]
        command = [*APART, str(SCRIPT), *words, "vf" * has_vf]
        log = home / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, start_new_session=True
            )
        wait_until(
            lambda: b"listening" in log.read_bytes() or process.poll() is not None, 5
        )
        return process
