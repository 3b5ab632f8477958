"""Take it away: delete resource groups, see that they are gone, and find what was forgotten."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...errors import AzureError
from ._az import Runs
from ._deploy import Clock
from ._failures import AzError

__all__ = ["Leftover", "leftovers", "remove"]

DEADLINE_S = 90 * 60


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A resource group of this project that exists."""

    group: str
    experiment: str
    region: str
    created_utc: str | None
    expires_utc: str | None
    state: str

    def expired(self, now: dt.datetime) -> bool:
        """Whether its time is over; a group whose tag cannot be read counts as expired."""
        try:
            return now >= dt.datetime.fromisoformat((self.expires_utc or "").replace("Z", "+00:00"))
        except ValueError:
            return True


def leftovers(az: Runs) -> list[Leftover]:
    """Every resource group with this project's tag in the subscription."""
    out = []
    for group in az("group", "list", "--tag", "netperf-experiment") or ():
        tags = group.get("tags") or {}
        if "netperf-experiment" in tags:
            out.append(
                Leftover(
                    group=group["name"],
                    experiment=tags["netperf-experiment"],
                    region=group["location"],
                    created_utc=tags.get("netperf-created"),
                    expires_utc=tags.get("netperf-expires"),
                    state=group["properties"]["provisioningState"],
                )
            )
    return out


def remove(
    az: Runs,
    names: Iterable[str],
    *,
    uncertain: Iterable[str] = (),
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    deadline_s: float = DEADLINE_S,
) -> list[str]:
    """Delete resource groups and verify that they are gone; safe to repeat.

    Parameters
    ----------
    az : callable
        Runs az.
    names : iterable of str
        The groups.
    uncertain : iterable of str
        Those whose making was cut short: they may appear a moment later, and are looked for more than once.
    clock : Clock
        How time passes.
    say : callable
        Told what happens.
    deadline_s : float
        Longest wait.

    Returns
    -------
    list of str
        The groups that are verified to be gone.

    Raises
    ------
    AzureError
        What is left, and why.
    """
    end = clock.now() + deadline_s
    left = {name: 3 if name in set(uncertain) else 1 for name in names}
    gone: list[str] = []
    asked: dict[str, int] = {}
    trouble: dict[str, str] = {}
    while left:
        for name in list(left):
            state = _group_state(az, name)
            if state is None:
                left[name] -= 1
                if not left[name] or name in asked:
                    del left[name]
                    gone.append(name)
                    say(f"{name}: gone")
            elif state != "Deleting":
                # also after a deletion that failed: gateways and their networks sometimes need a second one
                if asked.get(name, 0) >= 4:
                    raise AzureError(
                        f"resource group {name} is still there after 4 deletions: {trouble.get(name) or _look(name)}"
                    )
                asked[name] = asked.get(name, 0) + 1
                try:
                    az("group", "delete", "--name", name, "--yes", "--no-wait")
                    say(f"{name}: deleting")
                except AzError as failure:
                    if failure.kind not in ("conflict", "missing", "timeout"):
                        raise
                    trouble[name] = str(failure)
        if left:
            if clock.now() > end:
                raise AzureError(
                    f"still there after {deadline_s / 60:.0f} min: {', '.join(left)}; repeat `npl down` "
                    f"({_look(*left)})"
                )
            clock.sleep(clock.poll_s)
    return gone


def _look(*names: str) -> str:
    return "; ".join(f"see `az resource list -g {name} -o table`" for name in names)


def _group_state(az: Runs, name: str) -> str | None:
    try:
        found = az("group", "show", "--name", name)
    except AzError as failure:
        if failure.kind == "missing":
            return None
        raise
    return str(found["properties"]["provisioningState"])
