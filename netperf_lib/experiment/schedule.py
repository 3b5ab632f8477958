"""From a declared experiment to a schedule: rounds in which every condition is measured once, in random order.

The order is a function of the experiment and the seed alone: each round sorts its conditions by a keyed hash. A round's
order does not depend on how many rounds there are, so that an experiment can be extended, and a killed one goes on
where it stopped.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ExperimentError
from ..metrics import format_value, to_bps
from ..stats.planning import rounds_needed
from ..stats.table import RunsTable
from .factors import Level, factor, is_latency
from .model import Contrast, Experiment, Trial

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outlook", "Plan", "conditions", "describe", "estimate_s", "notes", "schedule"]

OVERHEAD_S = 0.3
"""Time that a trial takes beside its test: starting the server, waiting for it, reading the counters."""

ASSUMED_BPS = 10e9
"""Rate of a throughput test, for the estimate of its traffic, where none is asked for."""
ASSUMED_CV = 0.03
"""Variation between runs of a condition, for the outlook, where no pilot tells it."""

PILOT_ROUNDS = 4
"""Fewer do not tell how much runs vary."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule.

    Parameters
    ----------
    experiment : Experiment
        As declared.
    seed : int
        What the random order was made from.
    trials : tuple of Trial
        In the order in which they are to run: by deployment, by round, then at random.
    cost : str, optional
        What the hosts cost meanwhile, in words; None: nobody asked.
    pilot : pandas.DataFrame, optional
        The table of runs of an earlier measurement, which tells how much runs vary.
    """

    experiment: Experiment
    seed: int
    trials: tuple[Trial, ...]
    cost: str | None = field(default=None, compare=False)
    pilot: pd.DataFrame | None = field(default=None, compare=False, repr=False)

    @cached_property
    def conditions(self) -> int:
        """How many conditions each round measures."""
        return len({t.condition for t in self.trials})

    @property
    def duration_s(self) -> float:
        """Seconds that measuring takes when nothing fails."""
        return sum(estimate_s(t, self.experiment) for t in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document; `from_dict` reads it back."""
        return {
            "experiment": self.experiment.model_dump(mode="json"),
            "seed": self.seed,
            "estimates": {
                "trials": len(self.trials),
                "conditions": self.conditions,
                "duration_s": round(self.duration_s, 1),
                "traffic_bytes": round(self.traffic_bytes),
                "cost": self.cost,
            },
            "trials": [
                {"run_id": t.run_id, "deployment": t.deployment, "round": t.round, "order": t.order} | describe(t)
                for t in self.trials
            ],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` wrote.

        Raises
        ------
        ExperimentError
            The trials listed are not those that this experiment and seed give.
        """
        plan = schedule(Experiment.model_validate(document["experiment"]), seed=int(document["seed"]))
        if [t["run_id"] for t in document["trials"]] != [t.run_id for t in plan.trials]:
            raise ExperimentError(
                "the plan was changed by hand or made by another version: its trials are not those of its seed; "
                "schedule the experiment anew"
            )
        return plan

    @property
    def traffic_bytes(self) -> float:
        """Data that the throughput tests send: at the rate asked for, else at `ASSUMED_BPS`."""
        return sum(_rate(t) * (t.test.duration_s + t.test.omit_s) / 8 for t in self.trials)

    def outlook(self) -> list[Outlook]:
        """Which contrasts will have enough rounds for their margin, by the pilot's variation or an assumed one."""
        e = self.experiment
        found = []
        for contrast in e.contrasts:
            cv = None if self.pilot is None else _variation(self.pilot, contrast)
            needed = rounds_needed(
                ASSUMED_CV if cv is None else cv, margin=contrast.margin, alpha=e.alpha, family=len(e.contrasts)
            )
            told = "as in the pilot" if cv is not None else "assumed"
            if cv is None and self.pilot is not None:
                told += f": the pilot has fewer than {PILOT_ROUNDS} rounds with both sides"
            found.append(
                Outlook(
                    question=contrast.question or contrast.metric,
                    rounds=needed.rounds,
                    enough=e.rounds >= needed.rounds,
                    words=f"{needed.words} ({told})",
                )
            )
        return found

    def summary(self) -> str:
        """Say in a few lines what would be measured, how long it takes, what it costs and what it can decide."""
        e = self.experiment
        lines = [
            f"{e.name}: {e.title}" if e.title else e.name,
            f"{len(self.trials)} trials = {self.conditions} conditions × {e.rounds} rounds"
            + (f" × {e.deployments} deployments" if e.deployments > 1 else ""),
            f"about {_clock(self.duration_s)} of measuring, seed {self.seed}",
        ]
        if self.traffic_bytes:
            assumed = f"where no rate is given, at {format_value(ASSUMED_BPS, 'bps')} (assumed)"
            lines.append(f"up to {self.traffic_bytes / 1e9:,.0f} GB of traffic, {assumed}")
        lines += [f"cost: {self.cost}"] if self.cost else []
        lines += [f"{'enough' if o.enough else 'TOO FEW'} rounds: {o.question} {o.words}" for o in self.outlook()]
        lines += [f"note: {note}" for note in notes(e)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Whether the rounds planned can decide a contrast."""

    question: str
    rounds: int
    """So many are needed."""
    enough: bool
    words: str


def _rate(trial: Trial) -> float:
    """Bits per second that a trial puts on the network; 0 for a latency test without load."""
    spec = trial.test
    options = spec.options if not is_latency(spec.test) else spec.during.options if spec.during else None
    if options is None:
        return 0
    asked = re.fullmatch(r"([0-9.]+)([KMGT]?)", str(options.get("bitrate", "")), re.IGNORECASE)
    rate = to_bps(float(asked[1]), asked[2], "bit") * trial.streams if asked else ASSUMED_BPS
    return 2 * rate if options.get("bidir") else rate


def _variation(pilot: pd.DataFrame, contrast: Contrast) -> float | None:
    """Coefficient of variation of a condition's runs, beyond what a round's two sides share; None: too few to tell."""
    table = RunsTable(pilot)
    if contrast.metric not in table.columns:
        return None
    a, b = (
        table.runs[table.mask(side) & table.ok].groupby(["deployment", "round"])[contrast.metric].first().dropna()
        for side in (contrast.a, contrast.b)
    )
    a, b = a.astype(float).align(b.astype(float), join="inner")
    if len(a) < PILOT_ROUNDS or (a <= 0).any() or (b <= 0).any():
        return None
    # the spread of a ratio is that of two runs
    return max(1e-6, float(np.log(a / b).std()) / math.sqrt(2))


def describe(trial: Trial) -> dict[str, Level]:
    """Every factor of a trial with its level: its pair, its test, and each option and label by its own name.

    The record of a run keeps this whole, and each entry is a column of the table of runs.
    """
    return {
        **trial.test.options,
        **trial.pair.labels,
        "client": trial.pair.client,
        "server": trial.pair.server,
        "placement": trial.pair.placement,
        "accelerated": trial.pair.accelerated,
        "tool": trial.test.tool,
        "test": trial.test.test,
        "duration_s": trial.test.duration_s,
        "omit_s": trial.test.omit_s,
        "streams": trial.streams,
        "tcp_buffer_bytes": trial.tcp_buffer_bytes,
        "message_bytes": trial.message_bytes,
        "during": str(trial.test.during) if trial.test.during else None,
    }


def estimate_s(trial: Trial, experiment: Experiment) -> float:
    """Seconds that a trial takes when nothing fails."""
    return trial.test.duration_s + trial.test.omit_s + OVERHEAD_S + experiment.pause_s


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def schedule(experiment: Experiment, *, seed: int | None = None) -> Plan:
    """Schedule an experiment: deployments outermost, then rounds; in each round every condition once, at random.

    Parameters
    ----------
    experiment : Experiment
        What is to be measured.
    seed : int, optional
        Seed of the random order; default: the experiment's own, else a new one.

    Returns
    -------
    Plan
    """
    if seed is None:
        seed = experiment.seed if experiment.seed is not None else secrets.randbelow(2**31)
    each = list(conditions(experiment))
    trials: list[Trial] = []
    for deployment in range(1, experiment.deployments + 1):
        for number in range(1, experiment.rounds + 1):
            key = f"{seed}/{deployment}/{number}"
            for trial in sorted(each, key=partial(_draw, key)):
                trials.append(replace(trial, deployment=deployment, round=number, order=len(trials)))
    return Plan(experiment=experiment, seed=seed, trials=tuple(trials))


def _draw(key: str, trial: Trial) -> bytes:
    """Where a condition comes in its round: as good as random, and a function of seed, round and condition alone."""
    return hashlib.blake2s(f"{key}/{trial.condition!r}".encode(), digest_size=16).digest()


def conditions(experiment: Experiment) -> Iterator[Trial]:
    """What every round measures, as trials that have no place in the schedule yet, in the order of the declaration."""
    for spec, pair in product(experiment.tests, experiment.pairs):
        if spec.placements is not None and pair.placement not in spec.placements:
            continue
        streams = spec.streams if factor("streams").applies(spec.tool, spec.test) else (1,)
        buffers = spec.tcp_buffer_bytes if factor("tcp_buffer_bytes").applies(spec.tool, spec.test) else (None,)
        for number, buffer, size in product(streams, buffers, spec.message_bytes):
            yield Trial(
                deployment=0,
                round=0,
                order=0,
                pair=pair,
                test=spec,
                streams=number,
                tcp_buffer_bytes=pair.tcp_buffer_bytes if buffer is None else buffer,
                message_bytes=size,
            )


def notes(experiment: Experiment) -> list[str]:
    """What was declared and does not apply: such a factor is not crossed with the test."""
    return [
        f"{name} does not apply to test {number}, {spec.tool} {spec.test}: not crossed with it"
        for number, spec in enumerate(experiment.tests, 1)
        for name, default in (("streams", (1,)), ("tcp_buffer_bytes", (None,)))
        if not factor(name).applies(spec.tool, spec.test) and getattr(spec, name) != default
    ]
