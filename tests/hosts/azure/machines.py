"""Stand-ins for the VMs of the emulated cloud: a real sshd each, at the VM's own address, with its own host key.

All of it lives in a network namespace whose loopback interface holds the addresses, and nothing else: no packet can
leave. Each stand-in has its own view of the few files that tell a guest in Azure what it is.
"""

from __future__ import annotations

import base64
import ctypes
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from .cloud import Cloud
from .rules import accelerated

CLONE_NEWNET = 0x40000000
NETWORKS = ("127.0.0.1/8", "203.0.113.1/24", "10.77.0.1/16", "10.1.0.1/24")


def possible() -> str | None:
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
def private_network() -> Iterator[None]:
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

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.started = 0
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.silent: set[str] = set()
        """VMs that do not answer."""
        self.without_vf: set[str] = set()
        """VMs whose virtual function is missing although it was asked for."""

    def follow(self) -> None:
        """Start what was made, end what is gone."""
        vms = {
            w: r for w, r in self.cloud.resources.items() if r["type"].endswith("/virtualMachines")
        }
        for where in [w for w in self.running if w not in vms]:
            self._end(where)
        for where, vm in vms.items():
            if where not in self.running and vm["name"] not in self.silent:
                self._start(where, vm)

    def close(self) -> None:
        """End all."""
        for where in list(self.running):
            self._end(where)

    def _end(self, where: str) -> None:
        process = self.running.pop(where)
        process.kill()  # the first process of its PID namespace: all others in it go with it
        process.wait()

    def _start(self, where: str, vm: dict[str, Any]) -> None:
        nic = self.cloud.resources[
            vm["properties"]["networkProfile"]["networkInterfaces"][0]["id"].lower()
        ]["properties"]
        entry = nic["ipConfigurations"][0]["properties"]
        public = self.cloud.resources.get(
            (entry.get("publicIPAddress") or {}).get("id", "").lower()
        )
        address = public["properties"]["ipAddress"] if public else entry["privateIPAddress"]
        profile = vm["properties"]["osProfile"]
        self.started += 1
        home = self.folder / f"{self.started}-{vm['name']}"
        home.mkdir(parents=True)
        first_start = yaml.safe_load(base64.b64decode(profile["customData"]))
        key = home / "host_key"
        key.write_text(first_start["ssh_keys"]["ed25519_private"], "utf-8")
        key.chmod(0o600)
        # in Azure the user becomes root without a password; here it is root by another name
        user = profile["adminUsername"]
        passwd = Path("/etc/passwd").read_text("utf-8") + f"{user}:x:0:0::/tmp:/bin/sh\n"
        (home / "passwd").write_text(passwd, "utf-8")
        (home / "shadow").write_text(
            Path("/etc/shadow").read_text("utf-8") + f"{user}:*:19000:0:99999:7:::\n", "utf-8"
        )
        config = [
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            "PidFile none",
        ]
        config += ["UseDNS no", "MaxStartups 100", "AuthorizedKeysFile /var/lib/hyperv/authorized"]
        config += [f"ListenAddress {address}:22", f"HostKey {key}"]
        (home / "sshd_config").write_text("\n".join(config) + "\n", "utf-8")
        drivers = {"eth0": "hv_netvsc"}
        if accelerated(self.cloud, nic) and profile["computerName"] not in self.without_vf:
            drivers["enP30832s1"] = "mlx5_core"
        for name, driver in drivers.items():
            device = home / "net" / name / "device"
            device.mkdir(parents=True)
            (home / "net" / ".drivers" / driver).mkdir(parents=True)
            (device / "driver").symlink_to(f"../../.drivers/{driver}")
            (home / "net" / name / "operstate").write_text("up\n", "utf-8")
        # packets that are sent are counted as those of the virtual function, where there is one
        count = "awk '/lo:/ {n += $11} END {print \"     vf_tx_packets: \" n}' /proc/net/dev"
        counter = count if len(drivers) > 1 else "true"
        (home / "ethtool").write_text(f'#!/bin/sh\n[ "$1" != -S ] || {counter}\n', "utf-8")
        (home / "ethtool").chmod(0o755)
        pool = {
            "HostName": "AMS",
            "PhysicalHostName": f"AMS21PRDH{vm['location'][0]}{vm.get('zones', ['0'])[0]}",
        }
        (home / "upper" / "hyperv").mkdir(parents=True)
        (home / "work").mkdir()
        # where the user may read it: the folders above `home` may be closed to others
        trusted = profile["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"]
        (home / "upper" / "hyperv" / "authorized").write_text(trusted + "\n", "utf-8")
        records = b"".join(
            k.encode().ljust(512, b"\0") + v.encode().ljust(2048, b"\0") for k, v in pool.items()
        )
        (home / "upper" / "hyperv" / ".kvp_pool_3").write_bytes(records)
        here = {
            k: shlex.quote(str(home / k))
            for k in ("passwd", "shadow", "net", "ethtool", "upper", "work", "sshd_config")
        }
        script = f"""set -e
            mount --make-rprivate /
            mount --bind {here["passwd"]} /etc/passwd
            mount --bind {here["shadow"]} /etc/shadow
            mount -t tmpfs none {here["work"]}  # an overlay does not go on top of another one, such as a container's
            cd {here["work"]}
            mkdir upper work
            cp -rp {here["upper"]}/hyperv upper
            mount -t overlay none -o lowerdir=/var/lib,upperdir=upper,workdir=work /var/lib
            cd /
            mount --bind {here["net"]} /sys/class/net
            mount -t tmpfs none /usr/local/sbin
            cp {here["ethtool"]} /usr/local/sbin/ethtool
            mkdir -p /run/sshd
            hostname {shlex.quote(profile["computerName"])}
            exec /usr/sbin/sshd -D -e -f {here["sshd_config"]}"""
        with (home / "log").open("wb") as log:
            command = [
                "unshare",
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                script,
            ]
            self.running[where] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(100):
            if (
                b"Server listening" in (home / "log").read_bytes()
                or self.running[where].poll() is not None
            ):
                break
            time.sleep(0.02)
