"""Archives of the tests, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive into a folder, as Python 3.14 does by itself; 3.11.2 has no filters."""
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = staticmethod(tarfile.data_filter)
        archive.extractall(folder)
