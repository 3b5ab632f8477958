"""What several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with further material (published figures, a corpus of logs), where there is one beside the checkout."""
    folder = Path(os.environ.get("NETPERF_SHARED") or REPO.parent / "shared")
    if not (folder / "logs" / "INDEX.tsv").is_file():
        pytest.skip("the folder with the corpus of logs is not here (NETPERF_SHARED)")
    return folder
