"""The own folder of a lab: its lock, which the kernel releases when its holder ends."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

LOG = "lab.log"


def acquire(file: Path) -> None:
    """Hold `file` until this process ends; its content names the process."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # the descriptor stays open on purpose: closing it would release the lock
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.pwrite(fd, str(os.getpid()).encode(), 0)


def holder(file: Path) -> int | None:
    """Return the process that holds `file`; 0 if it is not known, None if there is none."""
    try:
        with file.open("rb") as locked:
            fcntl.flock(locked, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = file.read_text("utf-8", "replace")
        return int(number) if number.isdigit() else 0
    except OSError:
        pass
    return None


def clean(folder: Path) -> None:
    """Remove what a lab left in its own folder, except its log."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != LOG:
            entry.unlink(missing_ok=True)
