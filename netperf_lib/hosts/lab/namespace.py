"""System calls that Python lacks (before 3.12).

Namespaces, mounts, the parent-death signal, and the TUN device.

Nothing here is specific to the lab; see namespaces(7), mount(2), prctl(2) and the kernel's tuntap
documentation.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from pathlib import Path

_NEW_MOUNTS = 0x00020000
_NEW_UTS = 0x04000000
_NEW_IPC = 0x08000000
_NEW_USER = 0x10000000
_NEW_PIDS = 0x20000000
_NEW_NET = 0x40000000

_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29
_SIGKILL = 9
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_NET_ADMIN = 47, 2, 12
_CAPABILITIES_V3 = 0x20080522

_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4, _TUN_F_TSO6 = 1, 2, 4

VNET_HEADER = 10
"""Bytes of `struct virtio_net_hdr` before each packet read from or written to a TUN device."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def enter_own() -> None:
    """Leave the namespaces of network, mounts, name, processes and IPC for new ones.

    Only the next child enters that of processes. Users other than root first create a user
    namespace, in which they keep their own id. A mapping to root would seem simpler, but sshd as
    root calls setgroups(), which is forbidden there.
    """
    kinds = _NEW_NET | _NEW_MOUNTS | _NEW_UTS | _NEW_PIDS | _NEW_IPC
    uid, gid = os.geteuid(), os.getegid()
    _check(_libc.unshare(kinds if uid == 0 else kinds | _NEW_USER), "unshare")
    if uid:
        proc = Path("/proc/self")
        (proc / "setgroups").write_text("deny")
        (proc / "uid_map").write_text(f"{uid} {uid} 1")
        (proc / "gid_map").write_text(f"{gid} {gid} 1")


def mount(kind: str, where: str, options: str = "") -> None:
    """Mount a fresh file system of `kind` (proc, sysfs, tmpfs)."""
    raw = kind.encode()
    _check(
        _libc.mount(
            raw, where.encode(), raw, ctypes.c_ulong(0), options.encode() or None
        ),
        f"mount {where}",
    )


def bind(what: int, where: str) -> None:
    """Show the file or folder of the descriptor `what` in place of `where`."""
    source = f"/proc/self/fd/{what}".encode()
    _check(
        _libc.mount(source, where.encode(), None, ctypes.c_ulong(_MS_BIND), None),
        f"bind {where}",
    )


def private_mounts() -> None:
    """Make sure that nothing mounted from now on is visible outside."""
    _check(
        _libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None),
        "mount --make-rprivate /",
    )


def _prctl(option: int, value: int, argument: int = 0) -> None:
    _check(
        _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(argument), 0, 0),
        f"prctl {option}",
    )


def keep_network_rights() -> None:
    """Let the programs that this process becomes change the settings of its network namespace.

    Whoever its user is.

    A process that enters a user namespace holds every right there, and loses it with `exec` unless
    it is ambient; see capabilities(7).
    """
    header = struct.pack("=Ii", _CAPABILITIES_V3, 0)
    data = ctypes.create_string_buffer(
        24
    )  # effective, permitted, inheritable; then the same for rights from 32 on
    _check(_libc.capget(header, data), "capget")
    sets = list(struct.unpack("=6I", data.raw))
    sets[2] |= 1 << _CAP_NET_ADMIN
    _check(_libc.capset(header, struct.pack("=6I", *sets)), "capset")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_NET_ADMIN)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which must be its parent, dies.

    However it dies.
    """
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:  # it died before the call above could see it
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def exact_timers() -> None:
    """Wake up on time: the kernel may otherwise be 50 µs late on purpose, to save power."""
    _prctl(_PR_SET_TIMERSLACK, 1)


def keep_awake() -> None:
    """Keep the processors from sleeping until this process ends, where that is permitted (root).

    To wake one takes some 50 µs in a virtual machine, and a different time at each packet. The
    kernel holds the request for as long as the file is open (its PM quality of service).
    """
    with contextlib.suppress(OSError):
        os.write(
            os.open("/dev/cpu_dma_latency", os.O_WRONLY | os.O_CLOEXEC),
            struct.pack("=i", 0),
        )


def realtime(priority: int) -> None:
    """Go before everything of ordinary priority on this machine, where that is permitted (root)."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))


def close_all_but(*keep: int) -> None:
    """Close what a fork inherited.

    A copied socket or pipe in one process would hide its closing from another.
    """
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208  only the names are needed
        if fd > 2 and fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)


def open_tun(name: str) -> int:
    """Create the TUN interface `name` in the current network namespace.

    It exists as long as the descriptor is open.

    Its packets carry a `virtio_net_hdr`, so the kernel hands over TCP super-packets of up to 64 KB
    whole and without checksum, which makes a few Gbit/s possible for one process.
    """
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(
            fd,
            _TUNSETIFF,
            struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR),
        )
        fcntl.ioctl(fd, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4 | _TUN_F_TSO6)
    except OSError:
        os.close(fd)
        raise
    return fd
