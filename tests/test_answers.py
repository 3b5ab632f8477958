"""The recorded experiments and the five studies answer what they answered before."""

import json

import pytest

from .answers import FOLDER, NAMES, answer

SECONDS = ("study-ladder-logs", "study-minute-logs", "study-paths", "study-paths-logs")
"""Of many runs: `make test-all` asks them."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SECONDS else name
        for name in NAMES
    ],
)
def test_answers_are_as_before(name, tmp_path):
    before = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert answer(name, tmp_path) == before
