"""The lock of a lab's folder: the kernel releases it when its holder ends.

Its content marks the folder as a lab's, and names the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

MARK = b"folder of a netperf_lib lab: what it holds is removed when the lab ends"


def acquire(file: Path) -> int | None:
    """Hold `file` until this process ends; return None, or the process that already holds it."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return holder(file) or 0
    os.ftruncate(fd, 0)
    os.pwrite(fd, MARK + f"; process {os.getpid()}".encode(), 0)
    return None  # the descriptor stays open on purpose: closing it would release the lock


def is_marked(file: Path) -> bool:
    """Return whether a lab wrote `file`."""
    try:
        return file.is_file() and file.read_bytes().startswith(MARK)
    except OSError:
        return False


def holder(file: Path) -> int | None:
    """Return the process that holds `file`; 0 if it is not known, None if there is none."""
    try:
        with file.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = file.read_bytes().rpartition(b" ")[2]
        return int(number) if number.isdigit() else 0
    except OSError:
        pass
    return None
