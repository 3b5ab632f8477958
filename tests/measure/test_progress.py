"""What is said while an experiment is measured."""

from netperf_lib.measure.progress import Progress


def test_failures_are_told_and_how_far_it_is():
    lines = []
    progress = Progress(lines.append)
    progress.every_s = 0
    progress.begin(9, 2, 100)
    progress.ended(3, "r1", None, 61)
    progress.ended(3, "r2", "it [hung]", 60)
    assert lines == [
        "9 trials, 2 measured before; about 1 min 40 s",
        "round 3: 3 of 9 trials, 1 min 01 s left",
        "r2 failed: it [hung]",
        "round 3: 3 of 9 trials, 1 min 00 s left",
    ]
