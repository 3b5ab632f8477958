"""The lock of a lab's folder: the kernel releases it when its holder ends.

Its content marks the folder as a lab's.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

MARK = b"folder of a netperf_lib lab: what it holds is removed when the lab ends\n"

# struct flock on 64-bit Linux: type, whence, start, length, process
_FLOCK = struct.Struct("@hhqqi4x")


def acquire(file: Path) -> int | None:
    """Hold `file` until this process ends; return None, or the process that already holds it."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return holder(file) or 0
    os.pwrite(fd, MARK, 0)
    return None  # the descriptor stays open on purpose: closing it would release the lock


def is_marked(file: Path) -> bool:
    """Return whether a lab wrote `file`.

    Not for the holder: closing the file anywhere in its process drops the lock.
    """
    try:
        return file.is_file() and file.read_bytes() == MARK
    except OSError:
        return False


def holder(file: Path) -> int | None:
    """Return the process that holds `file`, if there is one."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(
            fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
    finally:
        os.close(fd)
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else pid
