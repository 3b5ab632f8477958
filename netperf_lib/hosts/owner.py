"""What a file or folder says may be believed only if nobody else can write it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from ..errors import HostError


def check_owner(path: Path) -> None:
    """Refuse a link, and a file or folder that another user owns or that others may write."""
    if sys.platform == "win32":  # there, modes say nothing
        return
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        fault = "is a link"
    elif info.st_uid != os.geteuid():
        fault = "belongs to another user"
    elif info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        fault = "can be written by other users"
    else:
        return
    raise HostError(
        f"{path} {fault}, so that it is not used: remove it, or choose another one"
    )
