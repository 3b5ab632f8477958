"""What is missing on this machine, and how to install it."""

from __future__ import annotations

import os
import platform
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
    ok: bool
    found: str
    remedy: str
    """How to install what is missing; empty where nothing is."""


def _program(name: str, package: str, needed_for: str) -> Prerequisite:
    if path := lab.program(name):
        return Prerequisite(name, needed_for, True, path, "")
    apt = "" if getattr(os, "geteuid", lambda: 1)() == 0 else "sudo "
    return Prerequisite(
        name, needed_for, False, "not found", f"{apt}apt-get install {package}"
    )


def _lab() -> Prerequisite:
    try:
        lab.check()
    except LabError as error:
        problem, _, remedy = str(error).partition(": ")
        return Prerequisite("emulated hosts", "local lab", False, problem, remedy)
    return Prerequisite("emulated hosts", "local lab", True, "can be created here", "")


def _az() -> Prerequisite:
    try:
        return Prerequisite("az", "Azure", True, find_az(), "")
    except AzureError:
        return Prerequisite("az", "Azure", False, "not found", pip_install("azure-cli"))


def doctor() -> list[Prerequisite]:
    """Check this machine for everything that a part of the project needs; nothing is changed.

    Examples
    --------
    >>> {finding.what for finding in npl.doctor()} >= {"ssh", "iperf3"}
    True
    """
    return [
        Prerequisite(
            "Python", "everything", True, platform.python_version(), ""
        ),  # pip installs into no older one
        _program("ssh", "openssh-client", "local lab"),
        _program("sshd", "openssh-server", "local lab"),
        *(_program(t.VERSION[0], t.PACKAGE, "local lab") for t in tools.TOOLS.values()),
        _lab(),
        _az(),
    ]
