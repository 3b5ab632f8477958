"""The checksums of an experiment, as anybody checks them."""

from __future__ import annotations

import subprocess
from pathlib import Path

COMMAND = "sha256sum --check --quiet digests/*.sha256"


def changed_files(folder: str | Path) -> list[str]:
    """Return the files of an experiment that are missing, or are not what they were."""
    done = subprocess.run(
        ["bash", "-c", COMMAND], cwd=folder, capture_output=True, text=True, check=False
    )
    return [line.partition(": FAILED")[0] for line in done.stdout.splitlines()]
