"""Requirements for running a lab on this machine."""

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
_FOR_DEVICES = (
    "run 'sudo modprobe tun; sudo chmod 666 /dev/net/tun'; a container needs "
    "'--device /dev/net/tun --cap-add NET_ADMIN --cap-add SYS_ADMIN'"
)
_FOR_NAMESPACES = (
    "run the lab with sudo, a container with '--privileged'; for ordinary users 'sudo sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0 kernel.unprivileged_userns_clone=1', and "
    "raise user.max_net_namespaces and user.max_user_namespaces where none are left"
)


def check() -> None:
    """Raise LabError, with reason and remedy, if a lab cannot run here."""
    check_linux()
    for package, programs in _PROGRAMS.items():
        for name in programs:
            need(name, package, "the lab needs")
    _check_user()
    _check_kernel()


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
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise LabError(
            f"user id {os.geteuid()} has no entry in /etc/passwd, so sshd refuses logins: add one"
        ) from None


_DEVICE = 128
"""Added to the number of an error of the device."""


def _check_kernel() -> None:
    """Try in a child what every host will do: create namespaces, and a TUN device in them."""
    from . import namespace  # only on Linux

    if (child := os.fork()) == 0:
        failed, step = errno.EIO, 0
        try:
            namespace.enter_own()
            step = _DEVICE
            namespace.open_tun("probe")
            failed = step = 0
        except OSError as error:
            failed = error.errno or errno.EIO
        finally:
            os._exit(failed + step)
    failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if failed:
        why = os.strerror(failed % _DEVICE)
        if failed > _DEVICE:
            raise LabError(
                f"the lab may not create network devices here ({why}): {_FOR_DEVICES}"
            )
        what = "the lab may not create network namespaces here"
        raise LabError(f"{what} ({why}): {_FOR_NAMESPACES}")
