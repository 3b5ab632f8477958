"""From trials and hosts to raw run folders.

It can be killed at any moment; the same call resumes where it stopped.

The folder of a trial records whatever happens to it. A trial that failed is repeated at the end of
its round, so that it still belongs to that block of time. While a host cannot be reached, the
others are measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from ..data.declaration import freeze
from ..data.files import last_name
from ..data.layout import lock, trial_of
from ..data.raw import Record, new_run, runs, write_record
from ..errors import (
    CollectError,
    HostError,
    InUseError,
    NetperfError,
    UnreachableError,
)
from ..experiment.deployment import Deployment
from ..experiment.estimate import clock, trial_s
from ..experiment.model import Trial
from ..experiment.schedule import Plan, trial_levels
from . import say_aloud
from .event_loop import finish
from .session import HostSession
from .ssh import MAX_LOGINS
from .trial import TrialRun, all_of, missing

TELL_S = 30.0
"""How often it is said how far a measurement is."""
PATIENCE_S = 300.0
"""How long to wait for a host that is unreachable for a while."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Result of a call of `collect`."""

    scheduled: int = 0
    before: int = 0
    """Trials of this deployment that were already measured."""
    ok: int = 0
    failed: int = 0
    """Trials that have no good run after all attempts."""
    attempts_failed: int = 0
    """Runs that failed now, including those whose trial succeeded later."""
    stopped_after_round: int | None = None
    """The round after which measuring stopped early."""
    stopped: str = ""
    """Why it stopped early."""

    def __str__(self) -> str:
        text = f"{self.ok} of {self.scheduled} trials measured"
        if self.before:
            text += f", {self.before} measured before"
        if self.failed:
            text += f", {self.failed} failed in every attempt"
        if self.attempts_failed:
            text += f", {self.attempts_failed} failed runs are kept"
        if self.stopped:
            text += f", stopped after round {self.stopped_after_round}: {self.stopped}"
        return text


def collect(
    plan: Plan,
    deployment: Deployment,
    folder: Path,
    *,
    locked: bool = False,
    number: int = 1,
    say: Callable[[str], None] = say_aloud,
    install: bool = False,
    enough: Callable[[], str | None] | None = None,
    spent: Callable[[], str | None] | None = None,
    patience_s: float = PATIENCE_S,
) -> Tally:
    """Measure the trials of one deployment that have not been measured yet.

    Parameters
    ----------
    plan : Plan
        The schedule.
    deployment : Deployment
        The hosts.
    folder : Path
        The folder of the experiment, where the runs go.
    locked : bool
        Whether the caller keeps other collectors out.
    number : int
        Which deployment of the plan this is, from 1.
    say : callable, optional
        Called with each line on how it goes on; default: to standard error.
    install : bool
        Install missing tools on the hosts.
    enough : callable, optional
        Called between rounds; returns why no further round is needed, or None.
    spent : callable, optional
        Called between trials; returns why to stop there, or None.
    patience_s : float
        How long to wait for an unreachable host.

    Raises
    ------
    StoreError
        Another collector is measuring this experiment.
    CollectError
        Nothing more can be measured: no host can be reached.
    HostError
        The plan names a host that the deployment does not have, or another collector measures on
        one.
    """
    with nullcontext() if locked else lock(folder):
        tasks = _tasks(plan, folder, number)
        collector = _Collector(
            plan=plan,
            deployment=deployment,
            folder=folder,
            declaration=freeze(folder),
            tasks=tasks,
            sessions=_sessions(tasks, deployment, _mark(folder), install, say),
            say=say,
            enough=enough,
            spent=spent,
            patience_s=patience_s,
        )
        try:
            return finish(collector.collect())
        except (KeyboardInterrupt, SystemExit):  # of a signal, see `netperf_lib.cli.main`
            say("interrupted; run the same command again to resume")
            raise


def _mark(folder: Path) -> str:
    """The marker of this measurement's processes on a host.

    It depends on the location of the data: a copy of the folder is another measurement, and the
    processes of the original may be running.
    """
    file = Path("/etc/machine-id")
    machine = file.read_text() if file.exists() else ""
    identity = f"{folder.resolve()} {platform.node()} {machine}".encode()
    return f"{last_name(folder)}:{hashlib.blake2s(identity, digest_size=8).hexdigest()}"


@dataclass(slots=True)
class _Task:
    """A trial, and what happened to it so far."""

    trial: Trial
    attempts: int = 0
    """Runs that exist, whatever their result."""
    used: int = 0
    """Runs whose tool was started: they count towards the limit."""
    done: bool = False
    before: bool = False
    """Whether it was done before this call."""
    given_up: bool = False
    why: str = ""
    """Why the last run failed."""
    failed: int = 0
    """Runs that failed in this call."""
    reached: bool = False
    """Whether its hosts were reached in this call."""

    def add(self, record: Record) -> None:
        """Take note of a run."""
        why = record.failure
        if record.attempt > self.attempts:
            self.attempts, self.why = record.attempt, why or ""
        self.used += record.started_utc is not None
        # one that only leads is not repeated
        self.done |= why is None or self.trial.leading


def _tasks(plan: Plan, folder: Path, number: int | None = None) -> list[_Task]:
    """Return the trials of a deployment, or of all, with what happened to each."""
    tasks = {}
    for trial in plan.trials:
        if number in (None, trial.deployment):
            tasks[trial.run_id] = _Task(trial)
    for record in runs(folder):
        if task := tasks.get(trial_of(record.run_id)):
            task.add(record)
    for task in tasks.values():
        task.before = task.done
        task.given_up = not task.done and task.used >= plan.experiment.attempts
    return list(tasks.values())


def is_complete(plan: Plan, folder: Path, *, number: int = 1) -> bool:
    """Return whether every trial of deployment `number` has a good run, or no attempt left."""
    return all(task.done or task.given_up for task in _tasks(plan, folder, number))


def failures(plan: Plan, folder: Path) -> str | None:
    """Return how many trials were tried without a good run, and why; None if there are none."""
    left = [t for t in _tasks(plan, folder) if t.attempts and not t.done]
    if not left:
        return None
    words = (
        f"{len(left)} of {len(plan.trials)} trials have no good run after all attempts; the last "
        f"reason: {left[-1].why}"
    )
    if any(task.given_up for task in left):
        how = f"raise attempts (now {plan.experiment.attempts}) in the experiment to try again"
        words += f"; once that is mended, {how}"
    return words


CLOCK_STEP_S = 1.0
"""A clock that is set by more than this was not just kept right."""


class _Clock:
    """The clock of this machine, which gives runs their time, against one that nobody sets."""

    def __init__(self) -> None:
        self.offset_s = _clock_offset_s()

    def shift(self) -> str | None:
        """Say by how much the clock was set since the last call; None if it was not."""
        before, self.offset_s = self.offset_s, _clock_offset_s()
        step_s = self.offset_s - before
        if abs(step_s) < CLOCK_STEP_S:
            return None
        direction = "forward" if step_s > 0 else "back"
        return (
            f"the clock of the collecting machine was set {direction} by {abs(step_s):.0f} s since "
            "the run before: the times of these runs are not in the order of the runs"
        )


def _clock_offset_s() -> float:
    # where there is one, the clock that also counts while the machine sleeps
    steady = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() - (
        time.monotonic() if steady is None else time.clock_gettime(steady)
    )


def _sessions(
    tasks: Sequence[_Task],
    deployment: Deployment,
    marker: str,
    install: bool,
    say: Callable[[str], None],
) -> dict[str, HostSession]:
    """Return a session with each host of the trials, by its name; none is contacted yet."""
    needed: dict[str, list[str]] = {}
    for trial in [task.trial for task in tasks]:
        for name in (trial.pair.client, trial.pair.server):
            tools = needed.setdefault(name, [])
            tools.append(trial.test.tool)
            if trial.test.during:
                tools.append(trial.test.during.tool)
    known = {host.name: host for host in deployment.hosts}
    if absent := needed.keys() - known.keys():
        names = ", ".join(known)
        raise HostError(
            f"no host {min(absent)!r} (known: {names}); name one of these in `pairs`"
        )
    logins = asyncio.Semaphore(MAX_LOGINS)
    return {
        name: HostSession(
            known[name], marker, tools, install=install, say=say, logins=logins
        )
        for name, tools in needed.items()
    }


@dataclass(kw_only=True)
class _Collector:
    """A measurement of one deployment in progress."""

    plan: Plan
    deployment: Deployment
    folder: Path
    declaration: Mapping[str, Any] | None
    """What every record says of the contrasts that were declared."""
    tasks: Sequence[_Task]
    sessions: Mapping[str, HostSession]
    say: Callable[[str], None]
    enough: Callable[[], str | None] | None
    spent: Callable[[], str | None] | None
    patience_s: float
    stopped: tuple[int, str] | None = None
    """The round after which measuring stopped early, and why."""
    steady: _Clock = field(default_factory=_Clock)
    told: float = field(default_factory=time.monotonic)
    """When it was said last how far the measurement is."""

    # -- the schedule ------------------------------------------------------------------------------

    async def collect(self) -> Tally:
        todo = self._open()
        words = f"{len(self.tasks)} trials"
        if done := self._done():
            words += f", {done} measured before"
        self.say(f"{words}; about {self._left()}")
        try:
            await self._contact_all(todo)
            for number, tasks in groupby(todo, key=lambda task: task.trial.round):
                # a round that has begun is completed: verdicts need both sides of it
                if self.enough and any(task.attempts for task in self.tasks):
                    self._stop(number - 1, self.enough())
                if self.stopped:
                    break
                await self._round(number, list(tasks))
        finally:
            leaving = [session.leave() for session in self.sessions.values()]
            await asyncio.gather(*leaving, return_exceptions=True)
        return self._tally()

    def _open(self) -> list[_Task]:
        return [task for task in self.tasks if not task.done and not task.given_up]

    def _done(self) -> int:
        return sum(task.done for task in self.tasks)

    def _left(self) -> str:
        """Return the time that the trials take which are still to do."""
        experiment = self.plan.experiment
        return clock(sum(trial_s(task.trial, experiment) for task in self._open()))

    def _tally(self) -> Tally:
        tally = Tally()
        for task in self.tasks:
            tally.failed += task.given_up
            tally.attempts_failed += task.failed
            if not task.trial.leading:
                tally.scheduled += 1
                tally.before += task.before
                tally.ok += task.done and not task.before
        if self.stopped:
            tally.stopped_after_round, tally.stopped = self.stopped
        return tally

    def _stop(self, number: int, why: str | None) -> None:
        """Stop after a round if there is a reason."""
        if why and not self.stopped:
            self.stopped = number, why

    def _ends(self, trial: Trial) -> tuple[HostSession, HostSession]:
        return self.sessions[trial.pair.client], self.sessions[trial.pair.server]

    async def _contact_all(self, todo: Sequence[_Task]) -> None:
        """Meet all hosts at once before the first trial.

        A host that cannot be met fails its own trials later.
        """
        # A collector killed after its last trial may have left settings changed on hosts with
        # nothing left to do.
        changed = [t for t in self.tasks if t.trial.requested_buffer_bytes is not None]
        met: dict[HostSession, None] = {}
        for task in (*todo, *changed):
            met |= dict.fromkeys(self._ends(task.trial))
        meetings = [session.meet() for session in met]
        outcomes = await asyncio.gather(*meetings, return_exceptions=True)
        for session, outcome in zip(met, outcomes, strict=True):
            if isinstance(outcome, NetperfError) and not isinstance(outcome, InUseError):
                self.say(str(outcome))
            elif outcome is not None:
                raise outcome
            if session.facts:
                for tool in session.missing:
                    self.say(missing(tool, session))

    async def _round(self, number: int, tasks: Sequence[_Task]) -> None:
        """Measure every trial of a round.

        Those that failed are repeated at its end until their attempts are used up.
        """
        again = list(tasks)
        tried: list[_Task] = []
        while again and not self.stopped:
            tried += await self._pass(number, again)
            if tried and not any(task.reached for task in tried):
                raise CollectError(
                    f"no pair of hosts of {self.plan.experiment.name!r} can be reached: "
                    f"{tried[-1].why}; once one can, run the same command again to resume"
                )
            again = [task for task in again if not task.done and not task.given_up]

    async def _pass(self, number: int, tasks: Sequence[_Task]) -> list[_Task]:
        """Measure each of these once, and return those that were, in this order.

        Those whose hosts do not answer come last: the outage may be over by then.
        """
        waiting, tried = list(tasks), list[_Task]()
        while waiting:
            if self.spent:
                self._stop(number, self.spent())
            if self.stopped:
                break
            waiting.sort(key=self._away)
            task = waiting.pop(0)
            if await self._attempt(task, patient=self._away(task)):
                tried.append(task)
            else:
                waiting.append(task)
        return tried

    def _away(self, task: _Task) -> bool:
        return any(session.away for session in self._ends(task.trial))

    # -- one trial ---------------------------------------------------------------------------------

    async def _attempt(self, task: _Task, patient: bool) -> bool:
        """Measure a trial; return False if it should wait for an unreachable host."""
        ends = self._ends(task.trial)
        patience_s = self.patience_s if patient else 0.0
        failed: NetperfError | None = None
        try:
            await all_of(session.wait(patience_s) for session in ends)
        except NetperfError as error:
            failed = error
            if isinstance(error, UnreachableError) and not (patient or error.lasting):
                return False
        reached = not isinstance(failed, UnreachableError)
        number = task.attempts + 1
        run_id = f"{task.trial.run_id}-a{number}"
        with new_run(self.folder, run_id) as folder:
            blank = self._record(task.trial, run_id, number)
            run = TrialRun(task.trial, *ends, number, folder, blank)
            try:
                if failed:
                    raise failed
                await run.measure()
            except NetperfError as error:
                failed = error
            finally:
                run.files.close()
            if shift := self.steady.shift():
                blank.warnings.append(shift)
            ended = asdict(run.ended(failed)) | {"seed": self.plan.seed}
            record = write_record(folder, ended, self.declaration)
        self._note(task, record, reached)
        if self.plan.experiment.pause_s and self._open():  # no pause after the last trial
            await asyncio.sleep(self.plan.experiment.pause_s)
        return True

    def _record(self, trial: Trial, run_id: str, attempt: int) -> Record:
        """Return what is known of a run before it begins."""
        client, server = self._ends(trial)
        return Record(
            run_id=run_id,
            trial=trial_levels(trial),
            experiment=self.plan.experiment.name,
            deployment=trial.deployment,
            round=trial.round,
            order=trial.order,
            attempt=attempt,
            notice=self.deployment.notice,
            deployment_id=self.deployment.deployment_id,
            hosts={"client": asdict(client.host), "server": asdict(server.host)},
        )

    def _note(self, task: _Task, record: Record, reached: bool) -> None:
        """Take note of a run: say why it failed and, now and then, how far the measurement is."""
        task.add(record)
        task.reached |= reached
        task.failed += record.failure is not None
        used = max(task.failed, task.used)
        if not task.done:
            task.given_up = not reached or used >= self.plan.experiment.attempts
        if record.failure is not None:
            self.say(f"{record.run_id} failed: {record.failure}")
        if time.monotonic() - self.told >= TELL_S:
            self.told = time.monotonic()
            trials = f"{self._done()} of {len(self.tasks)} trials"
            self.say(f"round {task.trial.round}: {trials}, {self._left()} left")
