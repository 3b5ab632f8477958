"""Where hosts come from and how they go: one file a source.

A source is a module or package in this folder whose name has no leading underscore; there is no list to keep. It offers

``Options``
    A pydantic model of what stands under ``hosts: options:`` in the experiment.
``EPHEMERAL``
    True when the hosts live only as long as the measurement (``npl run`` takes them down after it).
``HOLDS`` (optional)
    True when the hosts of an ephemeral source outlive the process that placed them: ``npl up`` may leave them running.
``up(experiment, *, number, state) -> Deployment``
    Place the hosts of deployment `number` (from 1). `state` is a folder of the source's own. Safe to repeat.
``down(experiment, *, state) -> None``
    Take away whatever was placed; safe to repeat.
``cost(experiment, *, measuring_s) -> str``
    What it costs to have the hosts for so long, in words.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import ExperimentError, UsageError
from ..experiment.model import Deployment, Experiment

__all__ = ["cost", "deployed", "options", "release", "source", "sources"]


def sources() -> tuple[str, ...]:
    """Names of the known sources."""
    return ("azure", "inventory", "lab")


def source(name: str) -> Any:
    """Return the module of the source called `name`.

    Raises
    ------
    UsageError
        Unknown; the text names those known.
    """
    if name not in sources():
        raise UsageError(f"unknown source of hosts {name!r} (known: {', '.join(sources())})")
    return importlib.import_module(f"{__name__}.{name}")


def options(experiment: Experiment) -> Any:
    """Check and return the options that the experiment gives its source of hosts.

    Raises
    ------
    ExperimentError
        An unknown or impossible option.
    """
    module = source(experiment.hosts.source)
    try:
        return module.Options.model_validate(experiment.hosts.options)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        known = ", ".join(module.Options.model_fields)
        raise ExperimentError(f"{experiment.name}: hosts.options: {said} (known options: {known})") from None


@contextmanager
def deployed(experiment: Experiment, *, number: int = 1, state: Path) -> Iterator[Deployment]:
    """Hosts for as long as the block runs; those of an ephemeral source are gone after it, whatever happens."""
    try:
        yield source(experiment.hosts.source).up(experiment, number=number, state=state)
    finally:
        release(experiment, state=state)


def cost(experiment: Experiment, *, measuring_s: float) -> str:
    """What it costs to have the hosts of an experiment for `measuring_s` seconds of measuring, in words."""
    return str(source(experiment.hosts.source).cost(experiment, measuring_s=measuring_s))


def release(experiment: Experiment, *, state: Path) -> None:
    """Take away hosts that are not to outlive the measurement; safe to repeat."""
    module = source(experiment.hosts.source)
    if module.EPHEMERAL:
        module.down(experiment, state=state)
