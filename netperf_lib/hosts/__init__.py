"""Sources of hosts.

Each is a module of this package with the members of `Source`, imported on demand.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import ExperimentError, UsageError
from ..experiment.deployment import Deployment
from ..experiment.model import SOURCES as SOURCES
from ..experiment.model import Experiment
from .source import Price as Price
from .source import Source as Source
from .source import Workload as Workload
from .source import read_options

if TYPE_CHECKING:
    from . import azure, inventory, lab

    _typed: tuple[Source, ...] = (
        azure,
        inventory,
        lab,
    )  # the type checker compares each with the protocol

__all__ = [
    "SOURCES",
    "Price",
    "Source",
    "Workload",
    "budget_reached",
    "deployed",
    "options",
    "release",
    "source",
]


def __dir__() -> list[str]:
    return __all__


def source(name: str) -> Source:
    """Return the source called `name`; UsageError with the known names if there is none.

    Examples
    --------
    >>> npl.hosts.source("lab").__name__
    'netperf_lib.hosts.lab'
    """
    if name not in SOURCES:
        raise UsageError(
            f"unknown source of hosts {name!r} (known: {', '.join(SOURCES)})"
        )
    return cast("Source", importlib.import_module(f".{name}", __name__))


def options(experiment: Experiment, file: str | os.PathLike[str] | None = None) -> Any:
    """Check and return the experiment's options for its source of hosts.

    `file` is where it was read from.

    Raises
    ------
    ExperimentError
        An unknown source, or an unknown or impossible option.

    Examples
    --------
    >>> npl.hosts.options(npl.read("data/recorded/zones").declaration).hosts["zone1"].region
    'us-phoenix-1'
    """
    try:
        model = source(experiment.hosts.source).Options
    except UsageError as error:
        raise ExperimentError(f"{experiment.name}: hosts.source: {error}") from None
    return read_options(experiment, model, file)


@contextmanager
def deployed(
    experiment: Experiment,
    *,
    number: int = 1,
    state: Path,
    workload: Workload | None = None,
) -> Iterator[Deployment]:
    """Yield the hosts for the duration of the block.

    Those of an ephemeral source are removed after it, even after an error.

    Examples
    --------
    >>> with npl.hosts.deployed(npl.read("data/recorded/zones").declaration, state=Path("results")) as placed:
    ...     [host.name for host in placed.hosts]
    ['zone1', 'zone2', 'zone3']
    """  # noqa: E501  (an example is one line)
    try:
        yield source(experiment.hosts.source).up(
            experiment, number=number, state=state, workload=workload or Workload()
        )
    finally:
        release(experiment, state=state, number=number)


def budget_reached(experiment: Experiment, *, state: Path, done: float) -> str | None:
    """Return a message if the cost of the hosts has reached the budget, so that collection can end.

    Else None.

    Parameters
    ----------
    experiment : Experiment
        Its `budget` is the limit.
    state : Path
        The folder given to `deployed`.
    done : float
        Share of the planned trials that are complete, 0 to 1; this share of the planned traffic
        counts as sent.

    Examples
    --------
    >>> npl.hosts.budget_reached(npl.read("data/recorded/zones").declaration, state=Path("results"), done=1.0)
    """  # noqa: E501  (an example is one line)
    if experiment.budget is None:
        return None
    spent = source(experiment.hosts.source).spent(state=state, done=done)
    if spent is None or spent < experiment.budget:
        return None
    return (
        f"about {spent:.2f} of the budget of {experiment.budget:g} is spent: collection ends "
        "here"
    )


def release(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Remove the hosts of an ephemeral source, those of one deployment or all; safe to repeat.

    Examples
    --------
    >>> npl.hosts.release(npl.read("data/recorded/zones").declaration, state=Path("results"))  # others made them
    """  # noqa: E501  (an example is one line)
    chosen = source(experiment.hosts.source)
    if chosen.EPHEMERAL:
        chosen.down(experiment, state=state, number=number)
