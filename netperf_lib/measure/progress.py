"""Progress of a measurement for a person: a display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time

import rich.progress
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from ..errors import visible
from ..experiment.estimate import clock
from ..experiment.model import Trial
from ..metrics import format_value


class Progress:
    """Receives the events of a measurement; this class shows nothing."""

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Measuring begins: `trials` scheduled, `done` already measured; the rest takes about `seconds`."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def ended(self, trial: Trial, run_id: str, error: str | None, remaining_s: float) -> None:
        """A run has ended: why it failed, or None; the time that the rest takes."""

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

    def ended(self, trial: Trial, run_id: str, error: str | None, remaining_s: float) -> None:
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
    """A bar redrawn once a second: drawing costs CPU time on what may be the measuring machine."""

    def __init__(self, console: Console) -> None:
        self.bar = rich.progress.Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            refresh_per_second=1,
            transient=True,
        )
        self.task = self.bar.add_task("measuring", total=None, left="")

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Draw the bar."""
        self.bar.update(self.task, total=trials, completed=done, left=f"{clock(seconds)} left")
        self.bar.start()

    def started(self, trial: Trial) -> None:
        """Show which trial is running."""
        words = f"round {trial.round}: {condition(trial)}"
        self.bar.update(self.task, description=escape(visible(words)))

    def ended(self, trial: Trial, run_id: str, error: str | None, remaining_s: float) -> None:
        """Advance, or print what failed."""
        if error is None:
            self.bar.advance(self.task)
        else:
            self.say(f"{run_id} failed: {error}")
        self.bar.update(self.task, left=f"{clock(remaining_s)} left")

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Remove the bar."""
        self.bar.stop()


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
