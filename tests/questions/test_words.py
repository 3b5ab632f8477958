"""What to do about a verdict follows from the sides of its contrast."""

from __future__ import annotations

from typing import Any

import pytest

from netperf_lib.experiment.model import Contrast
from netperf_lib.questions.words import ADVICE, advice
from netperf_lib.stats import compare_samples

FEW, MANY = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01], [3.0, 3.02, 2.97, 3.01, 3.03, 2.98, 3.0, 3.02]


@pytest.mark.parametrize(
    ("about", "less", "more"), [("streams", 1, 16), ("tcp_buffer_bytes", None, 1 << 20), ("accelerated", False, True)]
)
def test_the_advice_is_the_same_whichever_side_comes_first(about: str, less: Any, more: Any) -> None:
    told = set()
    for a, b, x, y in ((more, less, MANY, FEW), (less, more, FEW, MANY)):
        contrast = Contrast(metric="throughput_bps", a={about: a}, b={about: b})
        told.add(advice(compare_samples(x, y, metric="throughput_bps"), contrast))
    assert told == {ADVICE[about]["better"]}


def test_a_threshold_is_kept_or_not() -> None:
    contrast = Contrast(metric="throughput_bps", a={"placement": "ppg"}, at_least="2 Gbit/s")
    assert advice(compare_samples(MANY, FEW), contrast) == ADVICE["threshold"]["better"]
