"""The recorded experiments and the five studies answer what they answered before."""

import json

import pytest

from .answers import FOLDER, NAMES, answer

FIRST = (
    "lab-full paths zones before-after study-placement study-domains study-domains-logs"
)
"""Each kind of question, declared and by rule, and logs; `make test-all` asks the others."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in FIRST.split() else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
    ],
)
def test_answers_are_as_before(name, tmp_path):
    before = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert answer(name, tmp_path) == before
