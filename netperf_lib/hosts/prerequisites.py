"""What is missing on this machine, and how to install it."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass

from .. import tools
from ..errors import AzureError, LabError, pip_install
from . import lab
from .azure.az import find_az


@dataclass(frozen=True, slots=True)
class Finding:
    """One prerequisite; if it is missing, the remedy says how to install it."""

    what: str
    needed_for: str
    ok: bool
    found: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.ok:
            object.__setattr__(self, "remedy", "")


def _program(name: str, package: str, needed_for: str) -> Finding:
    path = lab.program(name)
    apt = "" if getattr(os, "geteuid", lambda: 1)() == 0 else "sudo "
    return Finding(name, needed_for, path is not None, path or "not found", f"{apt}apt-get install {package}")


def _lab() -> Finding:
    try:
        lab.check()
    except LabError as error:
        problem, _, remedy = str(error).partition(": ")
        return Finding("emulated hosts", "local lab", False, problem, remedy)
    return Finding("emulated hosts", "local lab", True, "can be created here")


def doctor() -> list[Finding]:
    """Check for everything that any part of the project needs; nothing is changed.

    Examples
    --------
    >>> {finding.what for finding in npl.doctor()} >= {"ssh", "iperf3"}
    True
    """
    python = platform.python_version()
    findings = [
        Finding("Python", "everything", sys.version_info >= (3, 11, 2), python, "install Python 3.11.2 or later"),
        _program("ssh", "openssh-client", "local lab"),
        _program("sshd", "openssh-server", "local lab"),
    ]
    findings += [_program(t.VERSION[0], t.PACKAGE, "local lab") for t in tools.TOOLS.values()]
    findings.append(_lab())
    try:
        az, state = True, find_az()
    except AzureError:
        az, state = False, "not found"
    findings.append(Finding("az", "Azure", az, state, pip_install("azure-cli adlfs")))
    return findings
