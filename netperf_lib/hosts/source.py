"""What a source of hosts offers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from ..experiment.model import Deployment, Experiment, Pair


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What the plan knows of the measurement that hosts are wanted for."""

    measuring_s: float = 0.0
    """Time of measuring, all deployments together."""
    traffic: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """(client, server) to the bytes that the tests send between them at most, and the seconds that they send for, all
    deployments together."""
    notes: tuple[str, ...] = ()
    """What should be known before hosts are paid for, for example that the rounds do not suffice for a contrast."""


NOTHING_KNOWN = Workload()


class Source(Protocol):
    """Where hosts come from and how they go. A module or package satisfies it; `SOURCES` in this package names it."""

    @property
    def Options(self) -> type[BaseModel]:  # noqa: N802 - a class
        """What may stand under ``hosts: options:`` of an experiment; each field has a type, a default, a docstring."""

    @property
    def EPHEMERAL(self) -> bool:  # noqa: N802 - a constant
        """True when the hosts are made for the measurement: ``npl run`` takes them down after it."""

    @property
    def HOLDS(self) -> bool:  # noqa: N802 - a constant
        """True when hosts outlive the process that made them: ``npl up`` may leave them running."""

    def up(self, experiment: Experiment, *, number: int, state: Path, workload: Workload = ...) -> Deployment:
        """Place the hosts of deployment `number` (from 1). `state` is a folder of the source's own. Safe to repeat."""

    def down(self, experiment: Experiment, *, state: Path, number: int | None = None) -> None:
        """Take away what was placed: one deployment, or all. Safe to repeat."""

    def cost(self, experiment: Experiment, *, workload: Workload) -> str:
        """What it costs to have the hosts for the measurement, in words."""

    def spent(self, experiment: Experiment, *, state: Path, done: float) -> float | None:
        """What the hosts have cost so far, with this share of the plan `done`; None where nothing is paid."""


def spent(experiment: Experiment, *, state: Path, done: float) -> float | None:
    """Return None: what a source says whose hosts nobody pays for. See `Source.spent`."""


def unknown_host(pairs: Iterable[Pair], known: Collection[str], source: str) -> str | None:
    """Tell which host of a pair a source does not have; None where it has them all."""
    gone = next((n for pair in pairs for n in (pair.client, pair.server) if n not in known), None)
    return gone and f"a pair names host {gone!r}, which is not in the {source} (known: {', '.join(known)})"
