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
import time
from contextlib import contextmanager
from pathlib import Path

import yaml

from .cloud import accelerated

SCRIPT = Path(__file__).with_name("machine.sh")
CLONE_NEWNET = 0x40000000
NETWORKS = ("127.0.0.1/8", "203.0.113.1/24", "10.77.0.1/16", "10.1.0.1/24")


def possible():
    """Why it cannot be done here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [
        t
        for t in ("ip", "sshd", "unshare", "qperf")
        if not shutil.which(t, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    ]
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
            for network in NETWORKS[1:]:
                subprocess.run(["ip", "address", "add", network, "dev", "lo"], check=True)
            yield
        finally:
            if libc.setns(before.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")


class Machines:
    """Stand-ins for all VMs of a cloud, kept in step with it.

    Parameters
    ----------
    cloud : Cloud
        Its VMs are looked at whenever `follow` is called.
    folder : Path
        For the files of the stand-ins.
    """

    def __init__(self, cloud, folder):
        self.cloud, self.folder = cloud, folder
        self.started = 0
        self.running = {}
        self.without_vf = set()
        """VMs whose virtual function is missing although it was asked for."""

    def follow(self):
        """Start what was made, end what is gone."""
        vms = {
            w: r
            for w, r in self.cloud.resources.items()
            if r["type"].endswith("/virtualMachines")
        }
        for where in [w for w in self.running if w not in vms]:
            self._end(where)
        for where, vm in vms.items():
            if where not in self.running:
                self._start(where, vm)

    def close(self):
        """End all."""
        for where in list(self.running):
            self._end(where)

    def _end(self, where):
        process = self.running.pop(where)
        process.kill()  # the first process of its PID namespace: all others in it go with it
        process.wait()

    def _start(self, where, vm):
        resources, p = self.cloud.resources, vm["properties"]
        nic = resources[p["networkProfile"]["networkInterfaces"][0]["id"].lower()][
            "properties"
        ]
        entry = nic["ipConfigurations"][0]["properties"]
        public = resources.get((entry.get("publicIPAddress") or {}).get("id", "").lower())
        address = (
            public["properties"]["ipAddress"] if public else entry["privateIPAddress"]
        )
        profile = p["osProfile"]
        self.started += 1
        home = self.folder / f"{self.started}-{vm['name']}"
        home.mkdir(parents=True)
        first_start = yaml.safe_load(base64.b64decode(profile["customData"]))
        trusted = profile["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"]
        (home / "host_key").write_text(
            first_start["ssh_keys"]["ed25519_private"], "utf-8"
        )
        (home / "host_key").chmod(0o600)
        (home / "authorized").write_text(trusted + "\n", "utf-8")
        physical = f"AMS21PRDH{vm['location'][0]}{vm.get('zones', ['0'])[0]}"
        vf = accelerated(self.cloud, nic) and vm["name"] not in self.without_vf
        of_vm = (
            str(home),
            profile["adminUsername"],
            address,
            vm["name"],
            physical,
            "vf" * vf,
        )
        apart = "unshare --mount --uts --pid --fork --kill-child --mount-proc sh".split()
        with (home / "log").open("wb") as log:
            self.running[where] = subprocess.Popen(
                [*apart, str(SCRIPT), *of_vm],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(100):
            listens = b"Server listening" in (home / "log").read_bytes()
            if listens or self.running[where].poll() is not None:
                break
            time.sleep(0.02)
