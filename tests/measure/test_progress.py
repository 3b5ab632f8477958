"""What is shown while an experiment is measured."""

import io

from rich.console import Console

from netperf_lib.experiment.model import Pair, TestSpec, Trial
from netperf_lib.measure.progress import Display

PAIR = Pair(client="a", server="b", placement="ppg")


def trial(**changed):
    spec = TestSpec(tool="qperf", test="tcp_lat")
    return Trial(
        **(
            {"deployment": 1, "round": 3, "order": 0, "pair": PAIR, "test": spec}
            | changed
        )
    )


def test_a_terminal_shows_a_bar_and_what_failed():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    live = Display(console)
    live.begin(9, 2, 100)
    for _ in range(3):
        live.ended(trial(), "r", None, 40)
    live.ended(trial(streams=4), "d01-x-a1", "the server died", 40)
    live.started(trial(streams=4))
    with console.capture() as drawn:
        console.print(live.bar.get_renderable())
    live.end()
    assert "round 3: qperf tcp_lat a→b" in drawn.get()
    assert "5/9" in drawn.get()
    assert "40 s left" in drawn.get()
    assert "d01-x-a1 failed: the server died" in text.getvalue()


def test_without_a_terminal_there_are_plain_lines():
    text = io.StringIO()
    lines = Display(Console(file=text, width=40))
    lines.every_s = 0
    lines.begin(9, 2, 100)
    lines.started(trial())
    lines.ended(trial(), "r1", None, 61)
    lines.ended(trial(), "r2", "it [hung]", 60)
    lines.end()
    assert text.getvalue().splitlines() == [
        "9 trials, 2 measured before; about 1 min 40 s",
        "round 3: 3 of 9 trials, 1 min 01 s left",
        "r2 failed: it [hung]",
        "round 3: 3 of 9 trials, 1 min 00 s left",
    ]
