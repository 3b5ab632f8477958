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


class Display:
    """A bar on a terminal; elsewhere a line for what fails, and one now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console, self.every_s = console or Console(stderr=True, emoji=False), 30.0
        self._last = time.monotonic()
        # a notebook, also of a command that begins with "!", cannot draw over what is printed
        self.live = self.console.is_terminal and "JPY_PARENT_PID" not in os.environ
        self.bar = rich.progress.Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            # drawing costs CPU time on what may be the measuring machine
            refresh_per_second=1,
            transient=True,
            disable=not self.live,
        )
        self.task = self.bar.add_task("measuring", total=None, left="")

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Say that measuring begins: `trials` scheduled, `done` already measured.

        The rest takes `seconds`.
        """
        self.bar.update(
            self.task, total=trials, completed=done, left=f"{clock(seconds)} left"
        )
        self.bar.start()
        before = f", {done} measured before" if done else ""
        self._line(f"{trials} trials{before}; about {clock(seconds)}")

    def started(self, trial: Trial) -> None:
        """Show which trial is running."""
        pair = f"{trial.pair.client}→{trial.pair.server}"
        words = f"round {trial.round}: {trial.test.tool} {trial.test.test} {pair}"
        self.bar.update(self.task, description=escape(visible(words)))

    def ended(
        self, trial: Trial, run_id: str, error: str | None, remaining_s: float
    ) -> None:
        """Advance, or print why a run failed."""
        if error is None:
            self.bar.advance(self.task)
        else:
            self.say(f"{run_id} failed: {error}")
        left = f"{clock(remaining_s)} left"
        self.bar.update(self.task, left=left)
        if time.monotonic() - self._last >= self.every_s:
            self._last = time.monotonic()
            [task] = self.bar.tasks
            self._line(
                f"round {trial.round}: {task.completed} of {task.total} trials, {left}"
            )

    def _line(self, text: str) -> None:
        if not self.live:
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Remove the bar."""
        self.bar.stop()
