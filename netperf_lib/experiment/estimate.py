"""Estimates before a measurement starts: time, traffic, the fewest rounds that can decide anything."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..metrics import format_value, plural, rounds_required
from ..tools import tool
from .model import Experiment, TestSpec, Trial
from .placements import PLACEMENTS
from .schedule import Plan, load_trial, notes

OVERHEAD_S = 0.3
"""Time that a trial takes in addition to its test: starting the server, waiting for it, reading the counters."""
ASSUMED_BPS = 10e9
"""Assumed rate of a test that sends as fast as it can, where no bandwidth is declared."""
SHORT_S = 2.0
"""Duration of a test between regions that `cheaper` proposes."""


def trial_s(trial: Trial, experiment: Experiment) -> float:
    """Seconds that a trial takes when nothing fails."""
    return trial.test.duration_s + trial.test.omit_s + OVERHEAD_S + experiment.pause_s


def duration_s(plan: Plan) -> float:
    """Seconds that measuring takes when nothing fails."""
    return sum(trial_s(t, plan.experiment) for t in plan.trials)


def sending_bps(trial: Trial) -> float:
    """Bits per second that a trial puts on the network, its load included; 0 for a latency test on an idle path."""
    rate = sum(
        tool(t.test.tool).rate_bps(t.request) for t in (trial, load_trial(trial)) if t is not None
    )
    cap = trial.advertised_bps
    if cap is None:
        return ASSUMED_BPS if math.isinf(rate) else rate
    return min(rate, 2 * cap if trial.options.get("bidir") else cap)


def is_far(placement: str) -> bool:
    """Whether a placement leads to another region, where every GB may cost something."""
    return placement in PLACEMENTS and bool(PLACEMENTS[placement].far)


def traffic(plan: Plan) -> dict[tuple[str, str], float]:
    """(client, server) to the most bytes that the tests send between them."""
    total = defaultdict[tuple[str, str], float](float)
    for trial in plan.trials:
        seconds = trial.test.duration_s + trial.test.omit_s
        total[trial.pair.client, trial.pair.server] += sending_bps(trial) * seconds / 8
    return {pair: sent for pair, sent in total.items() if sent}


def cheaper(experiment: Experiment) -> Iterator[tuple[str, Experiment]]:
    """What could be cut, and the experiment without it: rounds beyond the needed, tests between regions."""
    fewest = fewest_rounds(experiment)
    if experiment.contrasts and experiment.rounds > fewest:
        words = f"{fewest} rounds instead of {experiment.rounds}, the fewest that can decide"
        yield words, experiment.model_copy(update={"rounds": fewest})
    placements = list(dict.fromkeys(p.placement for p in experiment.pairs))
    for i, test in enumerate(experiment.tests):
        measured = [p for p in test.placements or placements if p in placements]
        far, near = tuple(filter(is_far, measured)), tuple(p for p in measured if not is_far(p))

        def instead(
            test: TestSpec = test, i: int = i, near: tuple[str, ...] = near, **change: Any
        ) -> Experiment:
            """The experiment with another test between regions."""
            tests = [test.model_copy(update={"placements": near})] if near else []
            tests.append(test.model_copy(update=change))
            return experiment.model_copy(
                update={"tests": (*experiment.tests[:i], *tests, *experiment.tests[i + 1 :])}
            )

        where = f"of {test.tool} {test.test} on {', '.join(far)}"
        if far and test.duration_s + test.omit_s > SHORT_S:
            words = f"{SHORT_S:g} s instead of {test.duration_s + test.omit_s:g} s {where}"
            yield words, instead(placements=far, duration_s=SHORT_S, omit_s=0.0)
        if far and 1 in test.streams and len(test.streams) > 1:
            several = tuple(n for n in test.streams if n > 1)
            yield f"no single stream {where}", instead(placements=far, streams=several)


def fewest_rounds(experiment: Experiment) -> int:
    """Rounds below which no contrast of one deployment can get a verdict, however clear the difference."""
    return rounds_required(experiment.alpha, max(1, len(experiment.contrasts)))


@dataclass(frozen=True, slots=True)
class RoundsNeeded:
    """How many rounds a contrast needs, by the variation that a pilot measured."""

    question: str
    margin: float
    variation: float | None
    """Coefficient of variation from run to run; None: the pilot has too few rounds."""
    rounds: int | None
    planned: int

    def __str__(self) -> str:
        """Say whether the planned rounds are enough."""
        if self.rounds is None or self.variation is None:
            return f"{self.question}: the pilot has too few rounds with both sides"
        enough = "enough" if self.planned >= self.rounds else "TOO FEW"
        varies = f"runs of the pilot vary by {format_value(self.variation, 'ratio', 2)}"
        margin = format_value(self.margin, "ratio", 2)
        return (
            f"{enough} rounds: {self.question}: {self.rounds} show equivalence within {margin} "
            f"with 90 % chance; {varies}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Preview:
    """Preview of an experiment: what it measures, how long it takes, what it costs and what it can decide."""

    plan: Plan
    cost: str | None = None
    """Cost of the hosts during the measurement, in words."""
    parts: tuple[str, ...] = ()
    """What each part of the hosts and the traffic costs."""
    savings: tuple[str, ...] = ()
    """What to cut first, and what that saves, if requested."""
    rounds_needed: tuple[RoundsNeeded, ...] = ()
    """How many rounds each contrast needs, by a pilot."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document: the plan, the estimates, the rounds needed."""
        estimates = {
            "trials": len(self.plan.trials),
            "conditions": self.plan.conditions,
            "duration_s": round(duration_s(self.plan), 1),
            "traffic_bytes": round(sum(traffic(self.plan).values())),
            "cost": self.cost,
            "cost_parts": list(self.parts),
            "savings": list(self.savings),
            "notes": self.notes(),
        }
        return self.plan.to_dict() | {
            "estimates": estimates,
            "rounds_needed": [asdict(needed) for needed in self.rounds_needed],
        }

    def notes(self) -> list[str]:
        """Warnings before the start: factors that do not apply, and rounds that cannot decide anything."""
        e = self.plan.experiment
        remarks = notes(e)
        remarks += [
            f"ssh_config {file} can run programs on this machine (ProxyCommand, Match exec): read it if it is not yours"
            for file in _ssh_configs(e.hosts.options)
        ]
        if e.contrasts and e.deployments == 1 and e.rounds < (fewest := fewest_rounds(e)):
            remarks.append(
                f"{e.rounds} rounds give no verdict, however clear the difference: a family of {len(e.contrasts)} "
                f"contrasts needs at least {fewest}"
            )
        return remarks

    def __str__(self) -> str:
        """Summarize it in a few lines."""
        plan, e = self.plan, self.plan.experiment
        leading = sum(t.leading for t in plan.trials)
        lead = f", and {leading} that {'leads' if leading == 1 else 'lead'}" if leading else ""
        lines = [
            f"{e.name}: {e.title}" if e.title else e.name,
            f"{plural(len(plan.trials) - leading, 'trial')} = "
            f"{plural(plan.conditions, 'condition')} × {plural(e.rounds, 'round')}"
            + (f" × {e.deployments} deployments" if e.deployments > 1 else "")
            + lead,
            f"about {clock(duration_s(plan))} of measuring, seed {plan.seed}",
        ]
        if total := sum(traffic(plan).values()):
            first = [t for t in plan.trials if t.round == 1]
            assumed = any(sending_bps(t) == ASSUMED_BPS and t.advertised_bps is None for t in first)
            at = f", where no rate or bandwidth is given, at {format_value(ASSUMED_BPS, 'bps')} (assumed)"
            lines.append(
                f"up to {total / 1e9:,.{0 if total > 1e10 else 3}f} GB of traffic{at if assumed else ''}"
            )
        lines += [f"cost: {self.cost}"] if self.cost else []
        lines += [f"  {part}" for part in self.parts]
        lines += [f"cut first: {saving}" for saving in self.savings]
        lines += map(str, self.rounds_needed)
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes())])

    __repr__ = __str__  # what a notebook shows


def _ssh_configs(options: Any) -> list[str]:
    """Every ssh_config that the options of the hosts name."""
    if not isinstance(options, dict):
        return []
    own = [str(options["ssh_config"])] if options.get("ssh_config") else []
    return list(
        dict.fromkeys([*own, *(file for part in options.values() for file in _ssh_configs(part))])
    )


def clock(seconds: float) -> str:
    """A duration in words: ``9 min 04 s``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02d} min"
        if hours
        else f"{minutes} min {seconds:02d} s"
        if minutes
        else f"{seconds} s"
    )
