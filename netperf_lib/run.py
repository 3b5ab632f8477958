"""The verbs that join the parts: place, measure, read, report."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import hosts
from .collect import collect as measure
from .errors import StoreError
from .model import Deployment, Experiment
from .plan import load_experiment, schedule
from .store import Store

__all__ = ["collect", "down", "run", "up"]


def _prepare(
    file: str | os.PathLike[str],
    root: str | os.PathLike[str],
    rounds: str | int | None,
    duration_s: float | None,
) -> tuple[Experiment, Store]:
    experiment = load_experiment(file, rounds=rounds, duration_s=duration_s)
    hosts.options(experiment)
    return experiment, Store(root, experiment.name)
