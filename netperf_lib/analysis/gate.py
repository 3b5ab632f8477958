"""Verdicts for a pipeline: an exit code of its own."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import NetperfError
from .verdicts import Family


class GateError(NetperfError):
    """The verdicts do not let a change pass."""

    exit_code = 3


def check(family: Family, fail_on: Collection[str]) -> str:
    """Say that the gate lets a change pass, and on which verdicts.

    Raises GateError if a comparison has one of the verdicts in `fail_on`, or if there is nothing to
    judge: a gate that saw no data must not open.
    """
    if not len(family):
        raise GateError(
            "gate: nothing was compared (no data, or no condition that both sides share)"
        )
    refused = [c for c in family if c.verdict in fail_on]
    if refused:
        others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise GateError(f"gate: {refused[0].verdict}: {refused[0].words}{others}")
    if all(c.verdict in ("no verdict", "exploratory") for c in family):
        raise GateError(
            f"gate: no comparison has a verdict; the first: {family[0].words}"
        )
    return f"gate: passed, none is {' or '.join(fail_on)}; {family.summary}"
