"""Progress of a measurement for a person: a display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import statistics
import time

import rich.live
import rich.progress
from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.table import Table
from rich.text import Text

from ..errors import visible
from ..experiment.estimate import clock
from ..experiment.model import Trial
from ..metrics import METRICS, format_value
from ..tools.parsed import ParsedRun


class Progress:
    """Receives the events of a measurement; this class shows nothing."""

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Measuring begins: `trials` scheduled, `done` already measured; the rest takes about `seconds`."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def ended(
        self,
        trial: Trial,
        run_id: str,
        error: str | None,
        parsed: ParsedRun | None,
        remaining_s: float,
    ) -> None:
        """A run has ended: why it failed, or None; its parsed log; the time that the rest takes."""

    def say(self, text: str) -> None:
        """Pass on a message to the user."""

    def end(self) -> None:
        """There are no more events."""


class LineProgress(Progress):
    """A line for each event that matters, and a progress line now and then: for log files and pipes.

    In a notebook, which shows what is printed and cannot draw over it, that line is renewed after each trial.
    """

    def __init__(self, console: Console, *, in_notebook: bool = False) -> None:
        self.console, self.in_notebook, self.every_s = console, in_notebook, 30
        self.trials = self.done = self._width = 0
        self._last = time.monotonic()

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Print how much there is to do."""
        self.trials, self.done = trials, done
        before = f", {done} measured before" if done else ""
        self.say(f"{trials} trials{before}; about {clock(seconds)}")

    def ended(
        self,
        trial: Trial,
        run_id: str,
        error: str | None,
        parsed: ParsedRun | None,
        remaining_s: float,
    ) -> None:
        """Print failures, and the progress now and then."""
        if error is None:
            self.done += 1
        else:
            self.say(f"{run_id} failed: {error}")
        line = (
            f"round {trial.round}: {self.done} of {self.trials} trials, {clock(remaining_s)} left"
        )
        if self.in_notebook:
            self.console.file.write("\r" + line.ljust(self._width))
            self.console.file.flush()
            self._width = len(line)
        elif time.monotonic() - self._last >= self.every_s:
            self._last = time.monotonic()
            self.say(line)

    def say(self, text: str) -> None:
        """Print a line, below the renewed one."""
        self.end()
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Leave the last state of the line."""
        if self._width:
            self.console.file.write("\n")
            self._width = 0


class LiveProgress(Progress):
    """A display redrawn once a second: drawing costs CPU time on what may be the measuring machine."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.progress = rich.progress.Progress(*columns, console=console)
        self.task = self.progress.add_task("measuring", total=None, left="")
        self.values: dict[str, tuple[str, list[float]]] = {}
        """Condition to the metric shown for it and its values so far."""
        self.failed: dict[str, int] = {}
        self.live = rich.live.Live(
            get_renderable=self._drawn, console=console, refresh_per_second=1, transient=True
        )

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Draw the display."""
        self.progress.update(self.task, total=trials, completed=done, left=f"{clock(seconds)} left")
        self.live.start()

    def started(self, trial: Trial) -> None:
        """Show which trial is running."""
        self.progress.update(
            self.task, description=escape(f"round {trial.round}: {condition(trial)}")
        )

    def ended(
        self,
        trial: Trial,
        run_id: str,
        error: str | None,
        parsed: ParsedRun | None,
        remaining_s: float,
    ) -> None:
        """Advance, and show the value measured."""
        name = condition(trial)
        if error is not None:
            self.failed[name] = self.failed.get(name, 0) + 1
            self.say(f"{run_id} failed: {error}")
        else:
            self.progress.advance(self.task)
            metrics = parsed.metrics if parsed else {}
            if metric := next((m for m in _HEADLINES if metrics.get(m) is not None), None):
                self.values.setdefault(name, (metric, []))[1].append(metrics[metric])
        self.progress.update(self.task, left=f"{clock(remaining_s)} left")

    def say(self, text: str) -> None:
        """Print a line above the display."""
        self.live.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Remove the display."""
        self.live.stop()

    def _drawn(self) -> Group:
        table = Table(
            "condition",
            "last",
            "median (range) so far",
            "runs",
            "failed",
            box=None,
            header_style="bold",
        )
        for name in sorted({*self.values, *self.failed}):
            metric, values = self.values.get(name, ("", []))
            failed = str(self.failed.get(name, "")) or ""
            if values:
                figures = (values[-1], statistics.median(values), min(values), max(values))
                last, median, low, high = (format_value(v, METRICS[metric].unit) for v in figures)
                level = f"{median}  ({low} to {high})" if len(values) > 1 else median
                table.add_row(Text(visible(name)), last, level, str(len(values)), failed)
            else:
                table.add_row(Text(visible(name)), "–", "–", "0", failed)
        return Group(table, self.progress)


_HEADLINES = (
    "latency_oneway_p50_us",
    "latency_oneway_us",
    "rtt_p50_us",
    "rtt_us",
    "throughput_bps",
)
"""Metrics of which the first that a run has represents it best."""


def condition(trial: Trial) -> str:
    """A readable name for the condition of a trial."""
    words = [trial.test.tool, trial.test.test, f"{trial.pair.client}→{trial.pair.server}"]
    words += [f"×{trial.streams}"] if trial.streams > 1 else []
    for value, word in ((trial.tcp_buffer_bytes, "buffers"), (trial.message_bytes, "messages")):
        words += [f"{format_value(value, 'bytes')} {word}"] if value else []
    words += [f"{name}={value}" for name, value in sorted(trial.options.items())]
    words += [f"during {trial.test.during}"] if trial.test.during else []
    return " ".join(words)


def make_progress(console: Console | None = None) -> Progress:
    """Return the appropriate display: live on a terminal, one line in a notebook, lines elsewhere."""
    console = console or Console(stderr=True, emoji=False)
    if "JPY_PARENT_PID" in os.environ:  # set by the kernel, also for `!npl …`
        return LineProgress(console, in_notebook=True)
    return LiveProgress(console) if console.is_terminal else LineProgress(console)
