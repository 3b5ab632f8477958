"""What is missing on this machine, and how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .. import tools

__all__ = ["Finding", "doctor"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for; where it is missing, the remedy says how to get it."""

    what: str
    needed_for: str
    ok: bool
    found: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.ok:
            object.__setattr__(self, "remedy", "")


def _program(name: str, package: str, needed_for: str) -> Finding:
    place = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    apt = "" if getattr(os, "geteuid", lambda: 1)() == 0 else "sudo "
    return Finding(name, needed_for, place is not None, place or "not found", f"{apt}apt-get install {package}")


def _tun() -> Finding:
    place = Path("/dev/net/tun")
    ok = place.exists() and os.access(place, os.R_OK | os.W_OK)
    found = "usable" if ok else "not writable" if place.exists() else "not there"
    return Finding(str(place), "local lab", ok, found, "sudo modprobe tun && sudo chmod 666 /dev/net/tun")


def _namespaces() -> Finding:
    if os.geteuid() == 0:
        return Finding("network namespaces", "local lab", Path("/proc/self/ns/net").exists(), "as root")
    closed_at = {
        "/proc/sys/user/max_user_namespaces": "0",
        "/proc/sys/kernel/unprivileged_userns_clone": "0",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
    }
    for name, value in closed_at.items():
        place = Path(name)
        if place.exists() and place.read_text().strip() == value:
            remedy = f"run as root, or open {name.removeprefix('/proc/sys/').replace('/', '.')} with sysctl"
            return Finding("network namespaces", "local lab", False, f"closed by {name}", remedy)
    return Finding("network namespaces", "local lab", True, "in a user namespace")


def doctor() -> list[Finding]:
    """Look for everything that some part of the project needs; nothing is started and nothing is changed."""
    python = platform.python_version()
    findings = [
        Finding("Python", "everything", sys.version_info >= (3, 11), python, "install Python 3.11 or later"),
        Finding("Linux", "local lab", sys.platform == "linux", platform.platform(), "use a Linux machine or WSL2"),
        _program("ssh", "openssh-client", "local lab"),
        _program("sshd", "openssh-server", "local lab"),
    ]
    findings += [_program(t.VERSION[0], t.PACKAGE, "local lab") for t in tools.TOOLS.values()]
    if sys.platform == "linux":
        findings += [_tun(), _namespaces()]
    az = shutil.which("az")
    bundled = importlib.util.find_spec("azure") is not None and importlib.util.find_spec("azure.cli") is not None
    found = az or ("python -m azure.cli" if bundled else "not found")
    findings.append(Finding("az", "Azure", bool(az or bundled), found, "pip install azure-cli adlfs"))
    return findings
