"""Progress of a measurement for a person: a line for what fails, and one now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..errors import visible
from ..experiment.estimate import clock


def _print(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)


class Progress:
    """Says how a measurement goes on."""

    def __init__(self, say: Callable[[str], None] = _print) -> None:
        self.say, self.every_s = say, 30.0
        self._last, self._total, self._done = time.monotonic(), 0, 0

    def begin(self, trials: int, done: int, seconds: float) -> None:
        """Say that measuring begins: `trials` scheduled, `done` already measured.

        The rest takes `seconds`.
        """
        self._total, self._done = trials, done
        before = f", {done} measured before" if done else ""
        self.say(f"{trials} trials{before}; about {clock(seconds)}")

    def ended(
        self, number: int, run_id: str, error: str | None, remaining_s: float
    ) -> None:
        """Count a run of round `number`, or say why it failed."""
        if error is None:
            self._done += 1
        else:
            self.say(f"{run_id} failed: {error}")
        if time.monotonic() - self._last >= self.every_s:
            self._last = time.monotonic()
            done = f"{self._done} of {self._total} trials"
            self.say(f"round {number}: {done}, {clock(remaining_s)} left")
