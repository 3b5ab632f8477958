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
from .factors import Level, is_latency
from .model import Experiment, Pair, TestSpec, Trial

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
        orders = {run_id: int(row["order"]) for run_id, row in rows.items()}
        free = count(max(orders.values(), default=-1) + 1)
        trials = []
        for trial in self.trials:
            order = orders.get(trial.run_id)
            if order is None:
                order = next(free)
            trials.append(replace(trial, order=order))
        trials.sort(key=lambda t: (t.deployment, t.round, t.order))
        return replace(self, trials=tuple(trials))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        rows = []
        for trial in self.trials:
            place = ("run_id", "deployment", "round", "order")
            row = {name: getattr(trial, name) for name in place}
            if trial.leading:
                row["leading"] = True
            rows.append(row | trial_levels(trial))
        declared = self.experiment.model_dump(mode="json")
        return {"experiment": declared, "seed": self.seed, "rule": RULE, "trials": rows}


def trial_levels(trial: Trial) -> dict[str, Level]:
    """Return every factor of a trial with its level.

    Its pair, its test, and each option and label by its own name.

    The record of a run keeps this whole, and each entry is a column of the table of runs.
    """
    pair, spec = trial.pair, trial.test
    return {
        **trial.options,
        **pair.labels,
        "client": pair.client,
        "server": pair.server,
        "placement": pair.placement,
        "accelerated": pair.accelerated,
        "tool": spec.tool,
        "test": spec.test,
        "duration_s": spec.duration_s,
        "omit_s": spec.omit_s,
        "streams": trial.streams,
        "tcp_buffer_bytes": trial.tcp_buffer_bytes,
        "message_bytes": trial.message_bytes,
        "during": str(spec.during) if spec.during else None,
        "advertised_bps": trial.advertised_bps,
    }


def schedule(experiment: Experiment, *, seed: int | None = None) -> Plan:
    """Schedule an experiment: deployments outermost, then rounds.

    Each round has every condition once, in random order.

    The seed defaults to the experiment's own, else a new one. UsageError if it is not from 0 to
    2**63 - 1.
    """
    if seed is None:
        seed = experiment.seed
    if seed is None:
        seed = secrets.randbelow(2**31)
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed}: must be from 0 to 2**63 - 1")
    each = {repr(trial.condition): trial for trial in conditions(experiment)}
    draw = _blocks if len(each) == 2 else _chained
    trials: list[Trial] = []
    for deployment in range(1, experiment.deployments + 1):
        orders = draw(list(each), experiment.rounds, f"{seed}/{deployment}")
        for number, order in enumerate(orders, 1):
            for place, name in enumerate(order):
                trial = replace(
                    each[name],
                    deployment=deployment,
                    round=number,
                    order=len(trials),
                    leading=name in order[place + 1 :],
                )
                trials.append(trial)
    return Plan(experiment=experiment, seed=seed, trials=tuple(trials))


def _drawn(names: Sequence[str], key: str) -> list[str]:
    """Return a random order: a function of the names and the key alone."""

    def rank(name: str) -> bytes:
        return hashlib.blake2s(f"{key}/{name}".encode(), digest_size=16).digest()

    return sorted(names, key=rank)


def _blocks(names: Sequence[str], rounds: int, key: str) -> Iterator[list[str]]:
    """Yield the rounds of two conditions: ABBA or BAAB for every two rounds.

    The first condition is there twice where a run of it leads, since it did not end the two rounds
    before.
    """
    before = ""
    for number in range(rounds):
        first, second = _drawn(names, f"{key}/block {number // 2}")
        if number % 2:
            yield [second, first]
        elif first == before:
            yield [first, second]
        else:
            yield [first, first, second]
        before = first


def _chained(names: Sequence[str], rounds: int, key: str) -> Iterator[list[str]]:
    """Yield the rounds of more conditions, each of which begins as the one before ended.

    After the first condition the order is random: of several that are drawn, the one that is best
    balanced with those before, in what follows what and in the positions.
    """
    if not names:  # imported runs were not scheduled here
        return
    met: Counter[tuple[object, str]] = Counter()
    last = ""
    for number in range(1, rounds + 1):
        candidates = []
        for attempt in range(CANDIDATES):
            order = _drawn(names, f"{key}/{number}/{attempt}")
            order.sort(key=last.__ne__)
            candidates.append((order, [*pairwise(order), *enumerate(order)]))
        order, steps = min(candidates, key=lambda one: sum(map(met.__getitem__, one[1])))
        met.update(steps)
        last = order[-1]
        yield order


def has_streams(spec: TestSpec) -> bool:
    """Return whether a test can run on parallel streams."""
    return spec.tool.startswith("iperf")


def _crossed(spec: TestSpec) -> list[tuple[Any, ...]]:
    """Levels that a test is crossed with.

    Streams and TCP buffers, if they apply to it, message sizes, options.
    """
    streams: tuple[int, ...] = (1,)
    buffers: tuple[int | None, ...] = (None,)
    if not is_latency(spec.test):
        buffers = spec.tcp_buffer_bytes
        if has_streams(spec):
            streams = spec.streams
    options = [v if isinstance(v, tuple) else (v,) for v in spec.options.values()]
    return [streams, buffers, spec.message_bytes, *options]


def _measured(experiment: Experiment) -> Iterator[tuple[TestSpec, Pair]]:
    """Yield every test with each pair that it is run on."""
    for spec, pair in product(experiment.tests, experiment.pairs):
        if spec.placements is None or pair.placement in spec.placements:
            yield spec, pair


def conditions_count(experiment: Experiment) -> int:
    """Return how many conditions a round measures, without building them."""
    return sum(math.prod(map(len, _crossed(spec))) for spec, _ in _measured(experiment))


def conditions(experiment: Experiment) -> Iterator[Trial]:
    """Return the trials of every round in the order of the declaration, not yet scheduled."""
    for spec, pair in _measured(experiment):
        advertised_bps = experiment.advertised_bps(pair)
        for streams, buffer, size, *values in product(*_crossed(spec)):
            options = zip(spec.options, values, strict=True)
            yield Trial(
                pair=pair,
                test=spec,
                streams=streams,
                tcp_buffer_bytes=pair.tcp_buffer_bytes if buffer is None else buffer,
                message_bytes=size,
                options={name: v for name, v in options if v is not None},
                advertised_bps=advertised_bps,
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
