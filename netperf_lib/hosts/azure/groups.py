"""Resource groups, each with one deployment: validate, create, wait, cancel, delete, find again.

Azure's resource manager is replicated, and lags: for some seconds it may deny what exists, or show
what was there before. What it denies is therefore asked for again before it counts.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from ...errors import AzureError
from ...metrics import plural
from .az import Clock, Runs, find
from .failures import AzError, error_of, stood_for

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
        """Whether it has expired; a group with an unreadable tag counts as expired."""
        try:
            return now >= dt.datetime.fromisoformat((self.expires_utc or "").replace("Z", "+00:00"))
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


class _Denied:
    """Whether Azure denied something so often, without a break, that it counts."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.times = clock, list[float]()

    def __call__(self, denied: bool) -> bool:
        self.times = [*self.times, self.clock.now()] if denied else []
        return len(self.times) >= LOOKS and self.times[-1] - self.times[0] >= LOOKS_S


def assured(look: Callable[[], Seen | None], clock: Clock) -> Seen | None:
    """Return what `look` shows, or None once it has shown nothing for as long as Azure may lag."""
    begun = clock.now()
    for looks in count(1):
        seen = look()
        if seen is not None or (looks >= LOOKS and clock.now() - begun >= clock.lag_s):
            return seen
        clock.sleep(clock.poll_s)
    raise AssertionError("the looks end before")


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
    *,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    gone: Callable[[AnyTarget], None] = lambda _: None,
) -> None:
    """Delete resource groups and verify that they are gone; one that fails does not hold up others.

    A deployment that may still run is cancelled first, and waited for. `gone` is called with each
    group that is proven to be gone; AzureError says what is left, and why. Safe to repeat.
    """
    end = clock.now() + DEADLINE_S
    left = {target: _removal(az, target, clock, say) for target in targets}
    trouble: dict[str, str] = {}
    while left and clock.now() <= end:
        for target in list(left):
            name = target.name
            try:
                next(left[target])
            except StopIteration:
                del left[target]
                trouble.pop(name, None)
                gone(target)
                say(f"{name}: gone")
            except AzError as failure:
                if failure.deed == "login":
                    raise
                trouble[name] = f"{name} cannot be deleted: {failure}"
                if failure.deed == "retry" or failure.code == "Timeout":
                    left[target] = _removal(az, target, clock, say)
                else:
                    del left[target]
                    say(trouble[name])
        if left:
            clock.sleep(clock.poll_s)
    late = {t.name: f"{t.name} is still there after {DEADLINE_S / 60:.0f} min" for t in left}
    if trouble or late:
        raise AzureError("; ".join((late | trouble).values()) + "; repeat `npl down`")


def _removal(az: Runs, target: Target, clock: Clock, say: Callable[[str], None]) -> Iterator[None]:
    """Remove a group, with a pause at each `yield`; it ends when the group is proven to be gone.

    Both a look and a deletion say that it is not there: after Azure was seen deleting it, or often
    enough for anything that was just created to appear.
    """
    if not target.quiet:
        yield from _silence(az, target, clock)
    target.quiet = True
    delete = ("group", "delete", "--name", target.name, "--yes", "--no-wait")
    denied, deletions, asked_s, deleting = _Denied(clock), 0, float("-inf"), False
    while True:
        group = find(az, "group", "show", "--name", target.name)
        if group is None:
            known = _asked(az, *delete)
            if denied(not known) or (deleting and not known):
                return
            asked_s = clock.now() if known else asked_s
        else:
            denied(False)
            deleting = group["properties"]["provisioningState"] == "Deleting"
            if not deleting and clock.now() - asked_s > clock.lag_s:
                deletions += 1
                if deletions > DELETIONS:
                    text = f"it is still there after {DELETIONS} deletions: "
                    text += f"see `az resource list -g {target.name} -o table`"
                    raise AzError(text, code="ResourcesLeft", kind="other")
                if _asked(az, *delete):
                    asked_s = clock.now()
                    say(f"{target.name}: deleting")
        yield


def _silence(az: Runs, target: Target, clock: Clock) -> Iterator[None]:
    """Cancel what is being deployed into a group, with pauses, until nothing goes on."""
    group = ("--resource-group", target.name)
    denied, cancelled_s = _Denied(clock), float("inf")
    while True:
        listed = find(az, "deployment", "group", "list", *group) or ()
        states = {d["name"]: d["properties"]["provisioningState"].lower() for d in listed}
        running = [name for name, state in states.items() if state in RUNNING]
        if states and not running and target.started in ("", *states):
            return
        # it may not have begun, or have ended by now
        known = [
            _asked(az, "deployment", "group", "cancel", *group, "--name", name, but=("retry",))
            for name in running or [target.started]
            if name
        ]
        if running or any(known):
            cancelled_s = min(cancelled_s, clock.now())
        if denied(not running and not any(known)) or clock.now() - cancelled_s > CANCEL_S:
            return
        yield


def _asked(az: Runs, *command: str, but: tuple[str, ...] = ()) -> bool:
    """Ask for the end of something; return whether Azure knows it."""
    try:
        az(*command)
    except AzError as failure:
        if failure.deed not in ("absent", *but):
            raise
        return False
    return True


def deploy(
    az: Runs,
    target: Target,
    files: tuple[str, ...],
    *,
    deadline_s: float,
    clock: Clock,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Deploy the template into the group and return its outputs.

    A deployment that is already running (an earlier process was stopped) is waited for, not started
    twice. AzError has the root cause; its kind is ``timeout`` if the deadline passed.
    """
    begun = clock.now()
    named = ("--resource-group", target.name, "--name", target.started)
    while not _started(az, *named, *files, unsure=clock.now() - begun < clock.lag_s):
        clock.sleep(clock.poll_s)
    states: dict[str, str] = {}
    while True:
        shown = find(az, "deployment", "group", "show", *named)
        operations = find(az, "deployment", "operation", "group", "list", *named)
        properties = (shown or {}).get("properties") or {"provisioningState": "Accepted"}
        listed = [o["properties"] for o in operations or ()]
        reached = properties["provisioningState"].lower()
        target.quiet = reached not in RUNNING
        if reached == "succeeded":
            outputs = properties.get("outputs") or {}
            return {name: entry["value"] for name, entry in outputs.items()}
        if target.quiet:
            raise _why(target, properties, listed)
        for p in listed:
            name = (p.get("targetResource") or {}).get("resourceName")
            if name and states.get(name) != p["provisioningState"]:
                states[name] = p["provisioningState"]
                say(f"{target.name}: {name} {p['provisioningState'].lower()}")
        if clock.now() - begun > deadline_s:
            waiting = [n for n, s in states.items() if s != "Succeeded"]
            raise AzError(
                f"deployment of {target.name} is not complete after {deadline_s / 60:.0f} min "
                f"(waiting for {', '.join(waiting) or 'its first resource'}): "
                "see `az deployment operation group list`",
                code="Deadline",
                kind="timeout",
            )
        clock.sleep(clock.poll_s)


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


def _why(
    target: Target, properties: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]
) -> AzError:
    """The root cause: the failed operations know more than the deployment itself."""
    details: list[Any] = [properties.get("error") or {"code": "Unknown", "message": "no cause"}]
    for p in operations:
        message = p.get("statusMessage")
        if p["provisioningState"] == "Failed" and isinstance(message, dict):
            status = stood_for(str(p.get("statusCode") or ""))
            details += [{"code": code, "message": ""} for code, _ in status]
            details.append(message.get("error", message))
    outer = {"code": "DeploymentFailed", "message": "", "details": details}
    return error_of(f"deployment of {target.name}", outer)
