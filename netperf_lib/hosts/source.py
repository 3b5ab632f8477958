"""The interface of a source of hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import ExperimentError
from ..experiment.deployment import Deployment
from ..experiment.estimate import Price as Price
from ..experiment.model import Experiment, Pair
from ..experiment.yaml import line_of, sentence
from ..measure import say_aloud as say_aloud

AnyOptions = TypeVar("AnyOptions", bound=BaseModel)
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What the plan knows of the measurement that the hosts are for."""

    measuring_s: float = 0.0
    """Measuring time, all deployments together."""
    traffic: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(client, server) to the most bytes that the tests send, all deployments together."""
    notes: tuple[str, ...] = ()
    """Warnings to show before hosts cost money, for example that the rounds do not suffice for a
    contrast."""


NOTHING_KNOWN = Workload()


class Source(Protocol):
    """A source of hosts.

    A module or package with these members, named in `SOURCES` of this package.
    """

    EPHEMERAL: bool
    """True if the hosts are created for the measurement: ``npl run`` removes them afterwards."""
    HOLDS: bool
    """True if hosts outlive the process that created them: ``npl up`` may leave them running."""

    @property
    def Options(self) -> type[BaseModel]:  # noqa: N802 - a class
        """The options allowed under ``hosts: options:``.

        Each field has a type, a default and a docstring.
        """

    def up(
        self,
        experiment: Experiment,
        *,
        number: int,
        state: Path,
        workload: Workload = ...,
    ) -> Deployment:
        """Place the hosts of deployment `number` (from 1); `state` is the source's own folder.

        Safe to repeat.
        """

    def down(
        self, experiment: Experiment, *, state: Path, number: int | None = None
    ) -> None:
        """Remove what was placed: one deployment, or all. Safe to repeat."""

    def cost(self, experiment: Experiment, *, workload: Workload) -> Price:
        """Return the cost of the hosts for the measurement."""

    def spent(self, *, state: Path, done: float) -> float | None:
        """Return the cost of the hosts so far, with this share of the plan `done`.

        None if they cost nothing.
        """


def read_options(
    experiment: Experiment,
    model: type[AnyOptions],
    file: str | os.PathLike[str] | None = None,
) -> AnyOptions:
    """Check and return the experiment's options for a source.

    ExperimentError if one is unknown or impossible.
    """
    try:
        return model.model_validate(experiment.hosts.options, context=experiment.pairs)
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            key = ("hosts", "options", *fault["loc"])
            where = experiment.name
            if file is not None:
                where = f"{os.fspath(file)}:{line_of(file, key)}"
            name = ".".join(map(str, key))
            lines.append(f"{where}: {name}: {sentence(fault, model)}")
        raise ExperimentError("\n".join(lines)) from None


def say_doubts(deployment: Deployment, say: Say) -> None:
    """Tell what is not proven of a deployment, and how much is."""
    for doubt in deployment.doubts():
        say(doubt)
    holds = [proof.holds for _, proof in deployment.claims()]
    proven = f"{holds.count(True)} of {len(holds)} claims are proven"
    say(f"{deployment.deployment_id}: {proven}")


def spent(*, state: Path, done: float) -> float | None:
    """Return None, for sources whose hosts cost nothing. See `Source.spent`."""


def unknown_host(
    pairs: Iterable[Pair], names: Collection[str], source: str
) -> str | None:
    """Return a message about a host of a pair that the source does not have.

    None if it has them all.
    """
    for pair in pairs:
        for name in (pair.client, pair.server):
            if name not in names:
                known = f"(known: {', '.join(names)})"
                return f"a pair names host {name!r}, which is not in the {source} {known}"
    return None
