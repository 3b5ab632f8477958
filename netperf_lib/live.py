"""What a person sees while an experiment is measured: a display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from .model import ParsedRun, Trial

__all__ = ["Lines", "Live", "Silent", "Watcher", "watcher"]


class Watcher(Protocol):
    """Told what happens while an experiment is measured."""

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """`trials` are scheduled, `done` of them were measured before; the rest takes about `seconds`."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def ended(self, trial: Trial, run_id: str, error: str | None, parsed: ParsedRun | None, remaining_s: float) -> None:
        """A run has ended: why it failed, or None; what its log says; the time that the rest takes."""

    def say(self, text: str) -> None:
        """Something else that a person should know."""

    def end(self) -> None:
        """Nothing more comes."""


class Silent:
    """Shows nothing."""

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Show nothing."""

    def started(self, trial: Trial) -> None:
        """Show nothing."""

    def ended(self, trial: Trial, run_id: str, error: str | None, parsed: ParsedRun | None, remaining_s: float) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""


class Lines(Silent):
    """A line for what matters, and one now and then for the progress: for log files and pipes."""

    def __init__(self, console: Console, every_s: float = 30) -> None:
        self.console, self.every_s = console, every_s
        self.trials = self.done = 0
        self._last = time.monotonic()

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Say how much there is to do."""
        self.trials, self.done = trials, done
        before = f", {done} measured before" if done else ""
        self.say(f"{trials} trials{before}; about {_clock(seconds)}")

    def ended(self, trial: Trial, run_id: str, error: str | None, parsed: ParsedRun | None, remaining_s: float) -> None:
        """Say what failed, and now and then how far it is."""
        if error is None:
            self.done += 1
        else:
            self.say(f"{run_id} failed: {error}")
        if time.monotonic() - self._last > self.every_s:
            self._last = time.monotonic()
            self.say(f"round {trial.round}: {self.done} of {self.trials} trials, {_clock(remaining_s)} left")

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Live(Silent):
    """A display that is drawn anew as things happen; drawing is rare, for it costs CPU on the measuring machine."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, refresh_per_second=2, transient=True)
        self.task: TaskID | None = None

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Draw the display."""
        self.progress.start()
        self.task = self.progress.add_task("measuring", total=trials, completed=done)

    def started(self, trial: Trial) -> None:
        """Show which trial runs."""
        if self.task is not None:
            text = f"round {trial.round}: {trial.test.tool} {trial.test.test} {trial.pair.client}→{trial.pair.server}"
            self.progress.update(self.task, description=text)

    def ended(self, trial: Trial, run_id: str, error: str | None, parsed: ParsedRun | None, remaining_s: float) -> None:
        """Advance."""
        if self.task is not None and error is None:
            self.progress.advance(self.task)
        if error is not None:
            self.say(f"{run_id} failed: {error}")

    def say(self, text: str) -> None:
        """Print a line above the display."""
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Take the display away."""
        self.progress.stop()


def watcher(console: Console | None = None) -> Watcher:
    """Return the display that suits: live on a terminal, lines elsewhere."""
    console = console or Console(stderr=True)
    return Live(console) if console.is_terminal else Lines(console)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
