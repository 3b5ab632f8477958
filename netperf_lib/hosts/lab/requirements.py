"""Requirements for running a lab on this machine: one check, one sentence and one remedy each."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

from ...errors import LabError

_PROGRAMS = {
    "openssh-server": ("sshd",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "iproute2": ("ip", "tc"),
}
"""Package to the programs of it that every lab needs."""
_TUN = Path("/dev/net/tun")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def check() -> None:
    """Raise LabError, with reason and remedy, if a lab cannot run here."""
    check_linux()
    for package, programs in _PROGRAMS.items():
        for name in programs:
            need(name, package, "the lab needs")
    _check_user()
    _check_tun()
    _check_namespaces()


def check_linux() -> None:
    """Raise LabError if this system has no namespaces at all."""
    if sys.platform != "linux":
        raise LabError(
            f"the lab needs Linux, and this is {sys.platform}: run it in a Linux machine (a VM, "
            "or WSL 2 on Windows)"
        )


def search_path() -> str:
    """Return where programs are looked for.

    PATH, the environment of this Python, and the folders of administrators.

    Tools that an ordinary user unpacked are beside Python; the SSH server is rarely on an ordinary
    user's PATH.
    """
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return os.pathsep.join((path, str(Path(sys.executable).parent), "/usr/sbin", "/sbin"))


def program(name: str) -> str | None:
    """Return the path of a program, or None where it is not installed."""
    return shutil.which(name, path=search_path())


def need(name: str, package: str, who: str) -> None:
    """Raise LabError if a program is not installed: `who` needs it."""
    if program(name) is None:
        raise LabError(
            f"{who} {name}, which is not installed here: run 'sudo apt-get install {package}'"
        )


def _check_user() -> None:
    import pwd  # not on Windows

    try:
        shell = pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    except KeyError:
        raise LabError(
            f"user id {os.geteuid()} has no entry in /etc/passwd, so sshd refuses logins: add one"
        ) from None
    if not os.access(shell, os.X_OK) or Path(shell).name in ("nologin", "false"):
        raise LabError(
            f"the login shell of this user, {shell}, runs no commands: change it ('chsh -s "
            "/bin/sh')"
        )


def _check_tun() -> None:
    if not _TUN.exists():
        raise LabError(
            f"the lab needs {_TUN}, which is missing: run 'sudo modprobe tun', or in a container "
            "start that with "
            f"'--device {_TUN} --cap-add NET_ADMIN --cap-add SYS_ADMIN'"
        )
    try:
        os.close(os.open(_TUN, os.O_RDWR))
    except OSError as error:
        remedy = (
            f"run 'sudo chmod 666 {_TUN}'"
            if os.geteuid()
            else "allow the device in this container"
        )
        raise LabError(
            f"the lab may not open {_TUN} ({error.strerror}): {remedy}, or run the lab as root"
        ) from None


def _check_namespaces() -> None:
    """Try in a child what every host will do: create namespaces, and a TUN device in them."""
    from . import namespace  # only on Linux

    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        failed = errno.EIO
        try:
            namespace.enter_own()
            os.write(writing, b".")  # what fails from here on is the device
            namespace.open_tun("probe")
            failed = 0
        except OSError as error:
            failed = error.errno or errno.EIO
        finally:
            os._exit(failed)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        at_device = bool(pipe.read())
    if not (failed := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])):
        return
    why = os.strerror(failed)
    if at_device:
        raise LabError(
            f"the lab cannot create a network device through {_TUN} ({why}): load the tun module "
            "of this kernel"
        )
    if failed == errno.ENOSPC:
        names = "user.max_net_namespaces and user.max_user_namespaces"
        remedy = f"none are left: raise the sysctls {names}"
    elif os.geteuid() == 0:
        remedy = "in a container, start that with '--privileged'"
    elif _APPARMOR.exists() and _APPARMOR.read_text().strip() == "1":
        allow = f"sudo sysctl kernel.{_APPARMOR.name}=0"
        remedy = f"AppArmor forbids them for ordinary users: run the lab with sudo, or '{allow}'"
    else:
        remedy = (
            "run the lab with sudo, or allow user namespaces (sysctl "
            "kernel.unprivileged_userns_clone=1)"
        )
    raise LabError(f"the lab may not create network namespaces here ({why}): {remedy}")
