"""From a declared experiment to a schedule.

Rounds in which every condition is measured once, in random order.

Rounds are chained: each begins with the condition that ended the one before. Every condition is
then preceded equally often by each, itself included, so the after-effects of a run (a warm cache, a
used-up burst of the host) cancel in every comparison. Two conditions that are chained leave nothing
to chance: they are measured as ABBA or BAAB, by a coin for every two rounds. Where the coin breaks
the chain, and at the start, a run of the first condition leads the two rounds; it is measured, kept
and not used.

The orders are a function of the experiment and the seed alone. The order of a round does not depend
on the number of rounds, so that an experiment can be extended, and an interrupted one resumed.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise, product
from typing import Any

from ..errors import UsageError
from .factors import Level, factor
from .model import Experiment, TestSpec, Trial

CANDIDATES = 4
"""Orders drawn for each round; the best balanced is taken."""
RULE = "chained-3"
"""Name of the rule that draws the order: a plan says which one it was drawn by, so that it can
be drawn again."""
MOST_TRIALS = 200_000
"""More than any measurement needs: two months of trials of half a minute."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule.

    Its trials in the order in which they run, by deployment, by round, then at random.
    """

    experiment: Experiment
    seed: int
    """Seed of the random order."""
    trials: tuple[Trial, ...]

    @cached_property
    def conditions(self) -> int:
        """How many conditions each round measures."""
        return len({t.condition for t in self.trials})

    def in_order_of(self, rows: Mapping[str, Mapping[str, Any]]) -> Plan:
        """Return the plan with the trials of `rows`, by run id, at the positions given there.

        The further ones follow: what was measured keeps its position when rounds are added.
        """
        free = count(max((int(row["order"]) for row in rows.values()), default=-1) + 1)
        trials = []
        for trial in self.trials:
            row = rows.get(trial.run_id)
            order = int(row["order"]) if row else next(free)
            trials.append(replace(trial, order=order))
        trials.sort(key=lambda t: (t.deployment, t.round, t.order))
        return replace(self, trials=tuple(trials))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        return {
            "experiment": self.experiment.model_dump(mode="json"),
            "seed": self.seed,
            "rule": RULE,
            "trials": [
                {
                    "run_id": t.run_id,
                    "deployment": t.deployment,
                    "round": t.round,
                    "order": t.order,
                }
                | ({"leading": True} if t.leading else {})
                | trial_levels(t)
                for t in self.trials
            ],
        }


def trial_levels(trial: Trial) -> dict[str, Level]:
    """Return every factor of a trial with its level.

    Its pair, its test, and each option and label by its own name.

    The record of a run keeps this whole, and each entry is a column of the table of runs.
    """
    return {
        **trial.options,
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
    """Schedule an experiment: deployments outermost, then rounds.

    Each round has every condition once, in random order.

    The seed defaults to the experiment's own, else a new one. UsageError if it is not from 0 to
    2**63 - 1.
    """
    if seed is None:
        seed = (
            experiment.seed if experiment.seed is not None else secrets.randbelow(2**31)
        )
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed}: must be from 0 to 2**63 - 1")
    each = list(conditions(experiment))
    trials: list[Trial] = []
    for deployment in range(1, experiment.deployments + 1):
        for number, order in enumerate(
            _rounds(each, experiment.rounds, f"{seed}/{deployment}"), 1
        ):
            for trial in order:
                trials.append(
                    replace(trial, deployment=deployment, round=number, order=len(trials))
                )
    return Plan(experiment=experiment, seed=seed, trials=tuple(trials))


def _rounds(each: Sequence[Trial], rounds: int, key: str) -> Iterator[list[Trial]]:
    """Trials of each round in their order.

    Two conditions: ABBA or BAAB for every two rounds, led by a run of the first condition where
    that did not end the two rounds before. More: after the first condition the order is random: of
    several that are drawn, the one that is best balanced with those before, in what follows what
    and in the positions.
    """
    names = [repr(trial.condition) for trial in each]

    def drawn_order(attempt: str) -> list[int]:
        """Return a random order: a function of the seed, the names and the attempt alone."""
        keys = [
            hashlib.blake2s(f"{key}/{attempt}/{name}".encode(), digest_size=16).digest()
            for name in names
        ]
        return sorted(range(len(each)), key=keys.__getitem__)

    if len(each) == 2:
        before = -1
        for number in range(rounds):
            first, second = drawn_order(f"block {number // 2}")
            order = [second, first] if number % 2 else [first, second]
            leading = (
                []
                if number % 2 or first == before
                else [replace(each[first], leading=True)]
            )
            before = first
            yield leading + [each[i] for i in order]
        return
    follows: Counter[tuple[int, int]] = Counter()
    positions: Counter[tuple[int, int]] = Counter()
    last: list[int] = []
    for number in range(1, rounds + 1):
        drawn = []
        for attempt in range(CANDIDATES):
            order = drawn_order(f"{number}/{attempt}")
            drawn.append([*last, *(i for i in order if i not in last)])
        best = min(
            drawn,
            key=lambda o: (
                sum(follows[p] for p in pairwise(o))
                + sum(positions[p] for p in enumerate(o))
            ),
        )
        follows.update(pairwise(best))
        positions.update(enumerate(best))
        last = best[-1:]
        yield [each[i] for i in best]


def _crossed(spec: TestSpec) -> list[tuple[Any, ...]]:
    """Levels that a test is crossed with.

    Streams and TCP buffers, if they apply to it, message sizes, options.
    """
    return [
        spec.streams if factor("streams").applies(spec.tool, spec.test) else (1,),
        spec.tcp_buffer_bytes
        if factor("tcp_buffer_bytes").applies(spec.tool, spec.test)
        else (None,),
        spec.message_bytes,
        *(
            value if isinstance(value, tuple) else (value,)
            for value in spec.options.values()
        ),
    ]


def conditions_count(experiment: Experiment) -> int:
    """Return how many conditions a round measures, without building them."""
    return sum(
        (spec.placements is None or pair.placement in spec.placements)
        * math.prod(map(len, _crossed(spec)))
        for spec, pair in product(experiment.tests, experiment.pairs)
    )


def conditions(experiment: Experiment) -> Iterator[Trial]:
    """Return the trials of every round in the order of the declaration, not yet scheduled."""
    for spec, pair in product(experiment.tests, experiment.pairs):
        if spec.placements is not None and pair.placement not in spec.placements:
            continue
        for number, buffer, size, *values in product(*_crossed(spec)):
            yield Trial(
                deployment=0,
                round=0,
                order=0,
                pair=pair,
                test=spec,
                streams=number,
                tcp_buffer_bytes=pair.tcp_buffer_bytes if buffer is None else buffer,
                message_bytes=size,
                options={
                    name: v
                    for name, v in zip(spec.options, values, strict=True)
                    if v is not None
                },
                advertised_bps=experiment.advertised_bps(pair),
            )


def load_trial(trial: Trial, duration_s: float | None = None) -> Trial | None:
    """Return the load during a trial, as a trial of the same or the given duration.

    None if the path is idle.
    """
    if (load := trial.test.during) is None:
        return None
    spec = TestSpec(
        tool=load.tool, test=load.test, duration_s=duration_s or trial.test.duration_s
    )
    return replace(
        trial,
        test=spec,
        streams=load.streams,
        options=load.options,
        tcp_buffer_bytes=None,
        message_bytes=None,
    )
