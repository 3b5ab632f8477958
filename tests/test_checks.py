"""Lint, format and types: what `make check` says, beside the other tests."""

import subprocess

import pytest

from .conftest import REPO


@pytest.mark.skipif(
    not (REPO / ".venv/bin/mypy").exists(), reason="`make setup` was not run here"
)
def test_the_checks_find_nothing():
    command = ["make", "--old-file", ".venv/ready", "check"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
