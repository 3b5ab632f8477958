"""Estimates before a measurement starts.

Time, traffic, the fewest rounds that can decide anything.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..metrics import format_value, plural, rounds_required
from ..tools import tool
from .model import Experiment, Trial
from .schedule import Plan, load_trial

OVERHEAD_S = 0.3
"""Time that a trial takes in addition to its test: starting the server, waiting for it, reading
the counters."""
ASSUMED_BPS = 10e9
ASSUMED = f"at most {format_value(ASSUMED_BPS, 'bps')} (assumed)"
"""Assumed rate of a test that sends as fast as it can, where no bandwidth is declared."""


def trial_s(trial: Trial, experiment: Experiment) -> float:
    """Return the seconds that a trial takes when nothing fails."""
    return trial.test.duration_s + trial.test.omit_s + OVERHEAD_S + experiment.pause_s


def duration_s(plan: Plan) -> float:
    """Return the seconds that measuring takes when nothing fails."""
    return sum(trial_s(t, plan.experiment) for t in plan.trials)


def sending_bps(trial: Trial) -> float:
    """Return the bits per second that a trial puts on the network, its load included.

    A latency test on an idle path puts none there.
    """
    rate = tool(trial.test.tool).rate_bps(trial.request)
    load = load_trial(trial)
    if load is not None:
        rate += tool(load.test.tool).rate_bps(load.request)
    if trial.advertised_bps is not None:
        ways = 2 if trial.options.get("bidir") else 1
        return min(rate, ways * trial.advertised_bps)
    return ASSUMED_BPS if math.isinf(rate) else rate


def traffic(plan: Plan) -> dict[tuple[str, str], float]:
    """Return (client, server) to the most bytes that the tests send between them."""
    total = defaultdict[tuple[str, str], float](float)
    for trial in plan.trials:
        seconds = trial.test.duration_s + trial.test.omit_s
        total[trial.pair.client, trial.pair.server] += sending_bps(trial) * seconds / 8
    return {pair: sent for pair, sent in total.items() if sent}


@dataclass(frozen=True)
class Price:
    """What the hosts of a measurement cost."""

    words: str = ""
    parts: tuple[str, ...] = ()
    """What each part costs: hosts by hours, traffic by way."""
    creates: tuple[str, ...] = ()
    """What will exist, and for how long."""

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, kw_only=True, repr=False)
class Preview:
    """Preview of an experiment.

    What it measures, how long it takes, what it costs and what it can decide.
    """

    plan: Plan
    price: Price = Price()
    """Cost of the hosts during the measurement."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document: the plan and the estimates."""
        estimates = {
            "trials": len(self.plan.trials),
            "conditions": self.plan.conditions,
            "duration_s": round(duration_s(self.plan), 1),
            "traffic_bytes": round(sum(traffic(self.plan).values())),
            "cost": self.price.words or None,
            "cost_parts": list(self.price.parts),
            "creates": list(self.price.creates),
            "notes": self.notes(),
        }
        return self.plan.to_dict() | {"estimates": estimates}

    def notes(self) -> list[str]:
        """Return the warnings before the start.

        Programs that a configuration may run, and rounds that cannot decide anything.
        """
        e = self.plan.experiment
        notes = [
            f"ssh_config {file} can run programs on this machine (ProxyCommand, Match exec): "
            "read it if it is not yours"
            for file in dict.fromkeys(_ssh_configs(e.hosts.options))
        ]
        asked = len(e.contrasts)
        fewest = rounds_required(e.alpha, max(1, asked))
        if asked and e.deployments == 1 and e.rounds < fewest:
            notes.append(
                f"{e.rounds} rounds give no verdict, however clear the difference: a family of "
                f"{asked} contrasts needs at least {fewest}"
            )
        return notes

    def __str__(self) -> str:
        """Summarize it in a few lines."""
        plan, e = self.plan, self.plan.experiment
        lines = [f"{e.name}: {e.title}".removesuffix(": "), self._trials()]
        lines.append(f"about {clock(duration_s(plan))} of measuring, seed {plan.seed}")
        if total := sum(traffic(plan).values()):
            words = f"up to {total / 1e9:,.3f} GB of traffic"
            if total > 1e10:
                words = f"up to {total / 1e9:,.0f} GB of traffic"
            if not all(t.advertised_bps for t in plan.trials):
                words += f", without a declared bandwidth {ASSUMED}"
            lines.append(words)
        if self.price.words:
            lines.append(f"cost: {self.price}")
        lines += [f"  {part}" for part in self.price.parts]
        lines += self.price.creates
        lines += [f"note: {note}" for note in self.notes()]
        return "\n".join(lines)

    __repr__ = __str__  # what a notebook shows

    def _trials(self) -> str:
        """Say how many trials there are: ``42 trials = 14 conditions × 3 rounds``."""
        plan, e = self.plan, self.plan.experiment
        leading = sum(t.leading for t in plan.trials)
        words = f"{plural(len(plan.trials) - leading, 'trial')} = "
        words += f"{plural(plan.conditions, 'condition')} × {plural(e.rounds, 'round')}"
        if e.deployments > 1:
            words += f" × {e.deployments} deployments"
        if leading == 1:
            words += ", and 1 that leads"
        elif leading:
            words += f", and {leading} that lead"
        return words


def _ssh_configs(options: Any) -> Iterator[str]:
    """Yield every ssh_config that the options of the hosts name."""
    if isinstance(options, dict):
        if options.get("ssh_config"):
            yield str(options["ssh_config"])
        for part in options.values():
            yield from _ssh_configs(part)


def clock(seconds: float) -> str:
    """Return a duration in words: ``9 min 04 s``."""
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
