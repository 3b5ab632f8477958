"""The short version of ``make validate``: fixed seeds, fewer samples, bounds that allow for that."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from . import validate


@pytest.mark.parametrize("part", validate.PARTS, ids=lambda part: part.__name__)
def test_the_statistics_keep_their_word(part):
    for figure in part(np.random.default_rng(20_000), 1000):
        # three standard errors beyond each bound, for there are few samples
        p = min(max(figure.value / 100, 0.02), 0.98)
        slack = validate.chance(figure.samples, p)
        assert figure.low - slack <= figure.value <= figure.high + slack, figure


def test_wrong_methods_are_seen_to_be_wrong():
    controls = [f for f in validate.deployments(np.random.default_rng(1), 1000) if f.name.startswith("NEGATIVE")]
    assert len(controls) == 2
    assert all(f.value > 30 for f in controls)


def test_a_broken_method_fails_the_validation(monkeypatch, capsys):
    """Intervals computed at 80 % and sold as 95 % must be found out."""
    honest = validate.judge_paired
    monkeypatch.setattr(validate, "judge_paired", lambda d, margin, alpha, family: honest(d, margin, 4 * alpha, family))
    monkeypatch.setattr(validate, "PARTS", (validate.coverage_of_ratios,))
    assert validate.main(["--seed", "1", "--samples", "200"]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_it_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "tests.stats.validate", "--help"], capture_output=True, text=True, check=True
    )
    assert "--seed" in done.stdout
