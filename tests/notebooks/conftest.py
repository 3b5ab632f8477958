"""What the notebooks are executed on: measured data wherever those hold the factors, made-up data where they do not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import netperf_lib as npl
from netperf_lib.reporting import execute
from tests.report import made

PATHS = {"ppg": "standard-lb", "cross-zone": "vpn"}
"""The lab has no gateways: a made-up experiment, some of whose placements are called paths."""


@pytest.fixture(scope="session", autouse=True)
def one_kernel() -> Iterator[None]:
    """One warm kernel for the library's notebooks of all tests: each report would start one of its own."""
    patch, own, made = pytest.MonkeyPatch(), execute._warm_kernel, []
    with ExitStack() as stack:

        @contextmanager
        def shared() -> Iterator[Any]:
            if not made:
                made.append(stack.enter_context(own()))
            yield made[0]

        patch.setattr(execute, "_warm_kernel", shared)
        yield
        patch.undo()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded experiment, where reports may be left beside it."""
    return Path(shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("recorded") / "lab-full"))


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up experiment with paths instead of places."""
    return made.experiment(tmp_path_factory.mktemp("paths"), rename=PATHS)
