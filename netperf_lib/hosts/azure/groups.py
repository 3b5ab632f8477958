"""Resource groups, each with one deployment: validate, create, wait, cancel, delete, find again.

Azure's resource manager is replicated, and lags: for some seconds it may deny what exists, or show
what was there before. What it denies is therefore asked for again before it counts.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import AzureError
from ...metrics import plural
from ..source import say_aloud
from . import az as az_module
from .az import Runs, find
from .failures import AzError, error_of

RUNNING = {
    *("accepted", "running", "creating", "created", "updating", "validating", "ready"),
    "canceling",
}
DEADLINE_S = 90 * 60
CANCEL_S = 15 * 60
"""A deployment that is cancelled may take so long to end."""
LOOKS, LOOKS_S = 3, 30
"""What Azure denies so often, over so many seconds, is not there."""
DELETIONS = 4
"""Gateways and their networks sometimes need more than one."""
TAG = "netperf-deployment"
AnyTarget = TypeVar("AnyTarget", bound="Target")
Seen = TypeVar("Seen")


@dataclass(kw_only=True, eq=False)
class Target:
    """A deployment, and the resource group that it has for itself."""

    name: str
    """Name of the group."""
    starts: int = 0
    """How often a deployment was started; each start has a name of its own."""
    quiet: bool = True
    """No deployment is under way."""

    @property
    def started(self) -> str:
        """Name of the latest deployment, or ""."""
        return f"npl-{self.starts}" if self.starts else ""


@dataclass(kw_only=True, eq=False)
class Leftover(Target):
    """An existing deployment of this project."""

    experiment: str
    created_utc: str | None
    expires_utc: str | None
    quiet: bool = False

    def expired(self, now: dt.datetime) -> bool:
        """Return whether it has expired; a group with an unreadable tag counts as expired."""
        try:
            return now >= dt.datetime.fromisoformat(self.expires_utc or "")
        except ValueError:
            return True


def leftovers(az: Runs) -> list[Leftover]:
    """Return every resource group with this project's tag in the subscription."""
    listed = az("group", "list", "--tag", "netperf-experiment") or ()
    return [
        Leftover(
            name=group["name"],
            experiment=group["tags"]["netperf-experiment"],
            created_utc=group["tags"].get("netperf-created"),
            expires_utc=group["tags"].get("netperf-expires"),
        )
        for group in listed
    ]


def clock_s() -> float:
    """Return the time in seconds."""
    return az_module.CLOCK.now()


def pause() -> None:
    """Let Azure work."""
    az_module.CLOCK.sleep(az_module.CLOCK.poll_s)


class _Denied:
    """Whether Azure denied something so often, without a break, that it counts."""

    times: list[float] = []  # noqa: RUF012 - replaced, never changed

    def __call__(self, denied: bool) -> bool:
        self.times = [*self.times, clock_s()] if denied else []
        return len(self.times) >= LOOKS and self.times[-1] - self.times[0] >= LOOKS_S


def assured(look: Callable[[], Seen | None]) -> Seen | None:
    """Return what `look` shows, or None once it has shown nothing for as long as Azure may lag."""
    begun = clock_s()
    while (seen := look()) is None and clock_s() - begun <= az_module.CLOCK.lag_s:
        pause()
    return seen


def rehearse(az: Runs, *arguments: str) -> str:
    """Have Azure validate a deployment and preview it; nothing is created.

    Returns what it would do, and what it could not check, for example a limit that applies only
    when a resource is created. AzError if it is not valid, or not permitted.
    """
    az("deployment", "sub", "validate", *arguments)
    plain = ("--no-pretty-print", "--result-format", "ResourceIdOnly")
    answer = az("deployment", "sub", "what-if", *arguments, *plain)
    counts = Counter(c["changeType"].lower() for c in answer.get("changes") or ())
    words = " and ".join(f"{verb} {plural(n, 'resource')}" for verb, n in counts.items())
    remarks = [str(d.get("message")) for d in answer.get("diagnostics") or ()]
    return "; ".join([f"Azure finds it valid, and would {words}", *remarks])


def remove(
    az: Runs,
    targets: Iterable[AnyTarget],
    gone: Callable[[AnyTarget], None] = lambda _: None,
) -> None:
    """Delete resource groups and verify that they are gone; one that fails does not hold up others.

    A deployment that may still run is cancelled first, and waited for. `gone` is called with each
    group that is proven to be gone; AzureError says what is left, and why. Safe to repeat.
    """
    end = clock_s() + DEADLINE_S
    left = {target: _removal(az, target) for target in targets}
    trouble: dict[str, str] = {}
    while left and clock_s() <= end:
        for target in list(left):
            try:
                next(left[target])
            except StopIteration:
                del left[target]
                trouble.pop(target.name, None)
                gone(target)
                say_aloud(f"{target.name}: gone")
            except AzError as failure:
                if failure.deed == "login":
                    raise
                trouble[target.name] = f"{target.name} cannot be deleted: {failure}"
                if failure.deed == "retry" or failure.code == "Timeout":
                    left[target] = _removal(az, target)
                else:
                    del left[target]
        pause()
    late = {
        t.name: f"{t.name} is still there after {DEADLINE_S / 60:.0f} min" for t in left
    }
    if trouble or late:
        raise AzureError("; ".join((late | trouble).values()) + "; repeat `npl down`")


def _removal(az: Runs, target: Target) -> Iterator[None]:
    """Remove a group, with a pause at each `yield`; it ends when the group is proven to be gone.

    Both a look and a deletion say that it is not there: after Azure was seen deleting it, or often
    enough for anything that was just created to appear.
    """
    if not target.quiet:
        yield from _silence(az, target)
    target.quiet = True
    delete = ("group", "delete", "--name", target.name, "--yes", "--no-wait")
    denied, deletions, asked_s, deleting = _Denied(), 0, float("-inf"), False
    while True:
        group = find(az, "group", "show", "--name", target.name)
        if group is not None:
            deleting = group["properties"]["provisioningState"] == "Deleting"
        waiting = deleting or clock_s() - asked_s <= az_module.CLOCK.lag_s
        known = group is not None
        if group is None or not waiting:
            known = _asked(az, *delete) or known
            asked_s = clock_s() if known else asked_s
            deletions += group is not None
        if denied(not known) or (deleting and not known):
            return
        if deletions > DELETIONS:
            text = f"it is still there after {DELETIONS} deletions: "
            text += f"see `az resource list -g {target.name} -o table`"
            raise AzError(text, code="ResourcesLeft", kind="other")
        yield


def _silence(az: Runs, target: Target) -> Iterator[None]:
    """Cancel what is being deployed into a group, with pauses, until nothing goes on."""
    group = ("--resource-group", target.name)
    cancel = ("deployment", "group", "cancel", *group, "--name")
    denied, cancelled_s = _Denied(), float("inf")
    while True:
        listed = find(az, "deployment", "group", "list", *group) or ()
        states = {d["name"]: d["properties"]["provisioningState"].lower() for d in listed}
        running = [name for name, state in states.items() if state in RUNNING]
        if states and not running and target.started in ("", *states):
            return
        # it may not have begun, or have ended by now
        names = filter(None, running or [target.started])
        known = [_asked(az, *cancel, name, but="retry") for name in names]
        if running or any(known):
            cancelled_s = min(cancelled_s, clock_s())
        if denied(not running and not any(known)) or clock_s() - cancelled_s > CANCEL_S:
            return
        yield


def _asked(az: Runs, *command: str, but: str = "") -> bool:
    """Ask for the end of something; return whether Azure knows it."""
    try:
        az(*command)
    except AzError as failure:
        if failure.deed not in ("absent", but):
            raise
        return False
    return True


def deploy(
    az: Runs, target: Target, files: tuple[str, ...], *, deadline_s: float
) -> dict[str, Any]:
    """Deploy the template into the group and return its outputs.

    A deployment that is already running (an earlier process was stopped) is waited for, not started
    twice. AzError has the root cause; its kind is ``timeout`` if the deadline passed.
    """
    begun = clock_s()
    named = ("--resource-group", target.name, "--name", target.started)
    while not _started(
        az, *named, *files, unsure=clock_s() - begun < az_module.CLOCK.lag_s
    ):
        pause()
    say_aloud(f"{target.name}: Azure is creating it")
    while True:
        shown = find(az, "deployment", "group", "show", *named) or {}
        properties = shown.get("properties") or {"provisioningState": "Accepted"}
        reached = properties["provisioningState"].lower()
        target.quiet = reached not in RUNNING
        if reached == "succeeded":
            return {
                name: o["value"] for name, o in (properties.get("outputs") or {}).items()
            }
        if target.quiet:
            unknown = {"code": "Unknown", "message": "no cause given"}
            raise error_of(
                f"deployment of {target.name}", properties.get("error") or unknown
            )
        if clock_s() - begun > deadline_s:
            raise AzError(
                f"deployment of {target.name} is not complete after {deadline_s / 60:.0f} min: "
                f"see `az deployment operation group list -g {target.name} -n {target.started}`",
                code="Deadline",
                kind="timeout",
            )
        pause()


def _started(az: Runs, *arguments: str, unsure: bool) -> bool:
    """Start a deployment; return whether it runs. A new group may be `unsure` for a while."""
    try:
        az("deployment", "group", "create", *arguments, "--no-wait")
    except AzError as failure:
        if failure.kind == "missing" and unsure:
            return False
        if not failure.code.startswith("DeploymentActive"):
            raise
    return True
