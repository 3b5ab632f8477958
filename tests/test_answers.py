"""The recorded experiments and the five studies answer what they answered before."""

import json

import pytest

from .answers import FOLDER, NAMES, answer


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_as_before(name, tmp_path):
    before = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert answer(name, tmp_path) == before
