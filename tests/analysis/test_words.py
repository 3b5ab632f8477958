"""The words of an answer, branch by branch."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netperf_lib import analysis
from netperf_lib.analysis import words
from netperf_lib.analysis.verdicts import advice
from netperf_lib.errors import NothingToReport, UsageError

from .planted import compared


def judged(verdict, **changes):
    one = compared([58.0] * 8, [84.0] * 8, better="lower", names=("ppg", "same-zone"))
    return replace(one, verdict=analysis.Verdict(verdict), **changes)


@pytest.mark.parametrize(
    ("verdict", "changes", "text"),
    [
        (
            "no verdict",
            {"reason": "8 rounds, at least 9 are needed"},
            "8 rounds, at least 9 are needed.",
        ),
        ("no verdict", {"reason": ""}, "Keep measuring."),
        (
            "exploratory",
            {},
            "Declare it as a contrast of the next measurement to have a verdict.",
        ),
        (
            "inconclusive",
            {"more_rounds": 3},
            "Measure about 3 more rounds, or leave the question open.",
        ),
        (
            "inconclusive",
            {"more_rounds": 1},
            "Measure about 1 more round, or leave the question open.",
        ),
        (
            "inconclusive",
            {"more_rounds": 0, "reason": "values of zero are ranked"},
            "Values of zero are ranked.",
        ),
        ("better", {"factor": "placement"}, "Use ppg where value matters."),
        ("worse", {"factor": "placement"}, "Use same-zone where value matters."),
        ("equivalent", {"factor": "placement"}, "Either will do for value."),
        ("better", {}, ""),
    ],
)
def test_what_to_do_about_a_verdict(verdict, changes, text):
    assert advice(judged(verdict, **changes)) == text


@pytest.mark.parametrize(
    ("ratio", "options", "text"),
    [
        (math.nan, {}, "–"),
        (0.0, {}, "–"),
        (0.9998, {}, "0.0 %"),  # zero has no sign
        (0.69, {}, "−31 %"),
        (4.2, {}, "×4.2"),
        (1.4, {"times": True}, "×1.4"),
        (0.744, {"outward": 1}, "−25 %"),
        (0.598, {"outward": -1}, "−41 %"),
        (3.14, {"outward": -1}, "×3.1"),
        (3.11, {"outward": 1}, "×3.2"),
        (1 / 158.4, {"outward": 1}, "−99.3 %"),  # as a sentence says it
    ],
)
def test_a_ratio_is_written_as_a_change_and_the_end_of_an_interval_outwards(
    ratio, options, text
):
    assert words.effect(ratio, **options) == text


def test_the_interval_of_a_comparison_is_written_as_its_ratio():
    assert words.span(0.6, 0.5, 0.7) == "−50 % to −30 %"
    assert words.span(4.0, 3.1, 5.0) == "×3.1 to ×5.0"
    assert words.span(4.0, 0.0, math.inf) == "–"


@given(st.floats(1e-3, 200), st.floats(1e-3, 200), st.floats(1e-3, 200))
@example(4.0, 1.0, 1.0)
@example(1.2, 1.0, 1.0)
def test_both_ends_of_an_interval_are_written_as_the_ratio(ratio, low, high):
    times = words.span(ratio, low, high).count("×")
    assert times == (2 if ratio >= 3 else 0)
    assert words.span(ratio, low, high, short=True).count("×") == times


@pytest.mark.parametrize(
    ("n", "options", "text"),
    [
        ([12], {}, "its 95 % interval by order statistics"),
        ([12], {"deployments": 3}, "Student's t over the medians of 3 deployments"),
        ([1], {}, "no interval (one run each)"),
        ([3], {}, "the range of the runs, at a lower confidence"),
        ([3, 12], {}, "or, below 6 runs, the range of the runs"),
    ],
)
def test_an_interval_is_described_by_how_many_runs_there_are(n, options, text):
    assert text in words.interval_words(n, **options)


def test_what_a_contrast_is_about_and_a_factor_that_does_not_exist():
    with pytest.raises(UsageError, match="no factor 'rack'"):
        analysis.contrasts(pd.DataFrame({"placement": ["ppg"]}), "rack")
    with pytest.raises(NothingToReport, match="nothing here"):
        words.end("nothing here")
    assert words.heading("Placement", "latency_oneway_us") == "Placement: one-way latency"
    assert words.shortened("One. Two.") == "One"
    assert len(words.shortened("x" * 200)) == 130
