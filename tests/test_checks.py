"""Lint, format and types: what `make check` says, beside the other tests."""

import subprocess

import pytest

from .conftest import REPO

pytestmark = pytest.mark.skipif(
    not (REPO / ".venv/bin/mypy").exists(), reason="`make setup` was not run here"
)


@pytest.mark.parametrize(
    "words",
    [
        "ruff check .",
        "ruff format --check .",
        # a minute of processor time, where nothing is kept from before
        pytest.param("mypy", marks=pytest.mark.slow),
    ],
)
def test_a_check_finds_nothing(words):
    program, *options = words.split()
    command = [REPO / ".venv/bin" / program, *options]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
