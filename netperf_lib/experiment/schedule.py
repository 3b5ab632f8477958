"""From a declared experiment to a schedule: rounds in which every condition is measured once, in random order.

The order is a function of the experiment and the seed alone: each round sorts its conditions by a keyed hash. A round's
order does not depend on how many rounds there are, so that an experiment can be extended, and a killed one goes on
where it stopped.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

from ..errors import ExperimentError, UsageError
from .factors import Level, factor
from .model import Experiment, TestSpec, Trial

__all__ = ["Plan", "conditions", "conditions_count", "describe", "load_trial", "notes", "schedule"]

MOST_TRIALS = 200_000
"""More than any measurement can hold: two months of trials of half a minute."""


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
    """

    experiment: Experiment
    seed: int
    trials: tuple[Trial, ...]

    @cached_property
    def conditions(self) -> int:
        """How many conditions each round measures."""
        return len({t.condition for t in self.trials})

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document; `from_dict` reads it back."""
        return {
            "experiment": self.experiment.model_dump(mode="json"),
            "seed": self.seed,
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
        "advertised_bps": trial.advertised_bps,
    }


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

    Raises
    ------
    UsageError
        The seed is not from 0 to 2**63 - 1, or the schedule would be larger than `MOST_TRIALS`.
    """
    if seed is None:
        seed = experiment.seed if experiment.seed is not None else secrets.randbelow(2**31)
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed}: must be from 0 to 2**63 - 1")
    if (n := conditions_count(experiment) * experiment.rounds * experiment.deployments) > MOST_TRIALS:
        raise UsageError(
            f"{experiment.name}: {n:,} trials are more than {MOST_TRIALS:,}; lower rounds, deployments or levels"
        )
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


def _crossed(spec: TestSpec) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Levels of the factors that a test is crossed with: streams and TCP buffers where these apply to it."""
    streams = spec.streams if factor("streams").applies(spec.tool, spec.test) else (1,)
    buffers = spec.tcp_buffer_bytes if factor("tcp_buffer_bytes").applies(spec.tool, spec.test) else (None,)
    return streams, buffers


def conditions_count(experiment: Experiment) -> int:
    """How many conditions a round measures, without making them."""
    found = 0
    for spec in experiment.tests:
        streams, buffers = _crossed(spec)
        pairs = sum(spec.placements is None or p.placement in spec.placements for p in experiment.pairs)
        found += pairs * len(streams) * len(buffers) * len(spec.message_bytes)
    return found


def conditions(experiment: Experiment) -> Iterator[Trial]:
    """What every round measures, as trials that have no place in the schedule yet, in the order of the declaration."""
    for spec, pair in product(experiment.tests, experiment.pairs):
        if spec.placements is not None and pair.placement not in spec.placements:
            continue
        streams, buffers = _crossed(spec)
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
                advertised_bps=experiment.advertised_bps(pair),
            )


def load_trial(trial: Trial) -> Trial | None:
    """The load that runs while a trial measures, as a trial of its own; None where the path is idle."""
    if (load := trial.test.during) is None:
        return None
    spec = TestSpec(tool=load.tool, test=load.test, options=load.options, duration_s=trial.test.duration_s)
    return replace(trial, test=spec, streams=load.streams, tcp_buffer_bytes=None, message_bytes=None)


def notes(experiment: Experiment) -> list[str]:
    """What was declared and does not apply: such a factor is not crossed with the test."""
    return [
        f"{name} does not apply to test {number}, {spec.tool} {spec.test}: not crossed with it"
        for number, spec in enumerate(experiment.tests, 1)
        for name, default in (("streams", (1,)), ("tcp_buffer_bytes", (None,)))
        if not factor(name).applies(spec.tool, spec.test) and getattr(spec, name) != default
    ]
