"""What is missing on this machine, and how to install it."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from dataclasses import dataclass

from .. import tools
from ..errors import AzureError, LabError, pip_install
from . import lab
from .azure.az import find_az


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """What is needed for a part of the project, and whether it is here."""

    what: str
    needed_for: str
    found: str
    remedy: str = ""
    """How to install what is missing; empty where nothing is."""

    @property
    def ok(self) -> bool:
        """Whether it is here."""
        return not self.remedy


def _program(name: str, package: str) -> Prerequisite:
    path = lab.program(name)
    remedy = f"sudo apt-get install {package}"
    if sys.platform != "win32" and os.geteuid() == 0:
        remedy = remedy.removeprefix("sudo ")
    return _found(name, "local lab", path, remedy)


def _found(what: str, needed_for: str, path: str | None, remedy: str) -> Prerequisite:
    if path:
        return Prerequisite(what, needed_for, path)
    return Prerequisite(what, needed_for, "not found", remedy)


def _lab() -> Prerequisite:
    try:
        lab.check()
    except LabError as error:
        found = "cannot be created here"
        return Prerequisite("emulated hosts", "local lab", found, str(error))
    return Prerequisite("emulated hosts", "local lab", "can be created here")


def _az() -> Prerequisite:
    path = None
    with contextlib.suppress(AzureError):
        path = find_az()
    return _found("az", "Azure", path, pip_install("azure-cli"))


def doctor() -> list[Prerequisite]:
    """Check this machine for everything that a part of the project needs; nothing is changed.

    Examples
    --------
    >>> {finding.what for finding in npl.doctor()} >= {"ssh", "iperf3"}
    True
    """
    # pip installs into no older Python
    python = Prerequisite("Python", "everything", platform.python_version())
    programs = [_program(t.VERSION[0], t.PACKAGE) for t in tools.TOOLS.values()]
    ssh, sshd = _program("ssh", "openssh-client"), _program("sshd", "openssh-server")
    return [python, ssh, sshd, *programs, _lab(), _az()]
