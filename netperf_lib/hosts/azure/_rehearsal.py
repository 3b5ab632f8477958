"""Before anything is made: have Azure validate the deployment, and tell what it would make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ._az import Runs

__all__ = ["Change", "in_words", "rehearse"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What would become of one resource."""

    change: str
    """Create, Modify, NoChange, Ignore …, as Azure says it."""
    type: str
    """Without its namespace, for example ``virtualMachines``."""
    name: str


def in_words(changes: Iterable[Change]) -> str:
    """Count changes by kind and type of resource, for example ``create 2 virtualMachines, 1 virtualNetworks``."""
    counts: dict[str, Counter[str]] = {}
    for c in changes:
        counts.setdefault(c.change.lower(), Counter())[c.type] += 1
    return "; ".join(f"{verb} {', '.join(f'{n} {t}' for t, n in sorted(c.items()))}" for verb, c in counts.items())


def rehearse(
    az: Runs, group: str, location: str, template: Path, parameters: Path
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Have Azure validate the deployment and tell what it would make; nothing is made, not even the resource group.

    Returns
    -------
    changes : tuple of Change
        What would become of each resource.
    remarks : tuple of str
        What Azure could not look at, for example a limit that shows only when a resource is made.

    Raises
    ------
    AzError
        It is not valid, or not permitted.
    """
    files = ("--template-file", str(template), "--parameters", f"@{parameters}")
    where = ("--location", location, "--name", group)
    az("deployment", "sub", "validate", *where, *files)
    answer = az(
        "deployment", "sub", "what-if", *where, *files, "--no-pretty-print", "--result-format", "ResourceIdOnly"
    )
    changes = []
    for change in [*(answer.get("changes") or ()), *(answer.get("potentialChanges") or ())]:
        _, inside, tail = change["resourceId"].rpartition("/providers/")
        if inside:
            _, kind, *names = tail.split("/")
            kind, name = "/".join([kind, *names[1::2]]), "/".join(names[::2])
        else:
            kind, name = "resourceGroups", tail.rpartition("/")[2]
        changes.append(Change(change=change["changeType"], type=kind, name=name))
    return tuple(changes), tuple(str(d.get("message")) for d in answer.get("diagnostics") or ())
