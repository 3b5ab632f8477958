"""From trials and hosts to raw run folders.

It can be killed at any moment; the same call resumes where it stopped.

The folder of a trial records whatever happens to it. A trial that failed is repeated at the end of
its round, so that it still belongs to that block of time. While a host cannot be reached, the
others are measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from ..data.declaration import freeze
from ..data.files import last_name, own_path
from ..data.layout import is_leading, lock, trial_of
from ..data.raw import new_record, new_run, runs, write_record
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
from .trial import TrialRun, all_of, missing, now

TELL_S = 30.0
"""How often it is said how far a measurement is."""
PATIENCE_S = 300.0
"""How long to wait for a host that is unreachable for a while."""


@dataclass(slots=True)
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
        counted = {
            "measured before": self.before,
            "failed in every attempt": self.failed,
            "failed runs are kept": self.attempts_failed,
        }
        parts = [f"{self.ok} of {self.scheduled} trials measured"]
        parts += [f"{count} {what}" for what, count in counted.items() if count]
        if self.stopped:
            parts.append(
                f"stopped after round {self.stopped_after_round}: {self.stopped}"
            )
        return ", ".join(parts)


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
    # outside the hierarchy of loggers: two measurements in one process do not share it
    log = logging.Logger("collect", logging.INFO)
    with (
        nullcontext() if locked else lock(folder),
        closing(_LogFile(own_path(folder, "collect.log"), say)) as file,
    ):
        log.addHandler(file)
        trials = [t for t in plan.trials if t.deployment == number]
        collector = _Collector(
            plan=plan,
            deployment=deployment,
            folder=folder,
            declaration=freeze(folder),
            trials=trials,
            sessions=_sessions(trials, deployment, _mark(folder), install, log),
            past=_past(trials, folder),
            say=say,
            log=log,
            enough=enough,
            spent=spent,
            patience_s=patience_s,
        )
        try:
            return finish(collector.collect())
        except (KeyboardInterrupt, SystemExit):  # of a signal, see `netperf_lib.cli.main`
            say("interrupted; run the same command again to resume")
            raise


class _LogFile(logging.FileHandler):
    """A log whose first failure is said in a line; the measurement goes on without it."""

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        super().__init__(file, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._say: Callable[[str], None] | None = say

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        if self._say is not None:
            why = sys.exc_info()[1]
            self._say(f"{self.baseFilename} cannot be written ({why}); it is incomplete")
            self._say = None

    def close(self) -> None:
        with suppress(OSError):  # a full disk was reported before
            super().close()


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
class _Past:
    """What happened to a trial so far."""

    attempts: int = 0
    """Runs that exist, whatever their result."""
    used: int = 0
    """Runs whose tool was started: they count towards the limit."""
    done: bool = False
    why: str = ""
    """Why the last one failed."""


def _past(trials: Sequence[Trial], folder: Path) -> dict[str, _Past]:
    past = {t.run_id: _Past() for t in trials}
    for record in runs(folder):
        if trial := past.get(trial_of(record.run_id)):
            why = record.failure
            if record.attempt > trial.attempts:
                trial.attempts, trial.why = record.attempt, why or ""
            trial.used += record.started_utc is not None
            trial.done |= why is None or is_leading(record.run_id)
    return past


def _todo(
    trials: Sequence[Trial], past: Mapping[str, _Past], attempts: int
) -> list[Trial]:
    return [
        t for t in trials if not past[t.run_id].done and past[t.run_id].used < attempts
    ]


def is_complete(plan: Plan, folder: Path, *, number: int = 1) -> bool:
    """Return whether every trial of deployment `number` has a good run, or no attempt left."""
    trials = [t for t in plan.trials if t.deployment == number]
    return not _todo(trials, _past(trials, folder), plan.experiment.attempts)


def failures(plan: Plan, folder: Path) -> str | None:
    """Return how many trials were tried without a good run, and why; None if there are none."""
    left = [p for p in _past(plan.trials, folder).values() if p.attempts and not p.done]
    if not left:
        return None
    attempts = plan.experiment.attempts
    words = (
        f"{len(left)} of {len(plan.trials)} trials have no good run after all attempts"
    )
    words += f"; the last reason: {left[-1].why}"
    if any(p.used >= attempts for p in left):
        how = f"raise attempts (now {attempts}) in the experiment to try again"
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
    trials: Sequence[Trial],
    deployment: Deployment,
    marker: str,
    install: bool,
    log: logging.Logger,
) -> dict[str, HostSession]:
    """Return a session with each host of the trials, by its name; none is contacted yet."""
    needed: dict[str, list[str]] = {}
    for trial in trials:
        tools = [spec.tool for spec in (trial.test, trial.test.during) if spec]
        for name in (trial.pair.client, trial.pair.server):
            needed.setdefault(name, []).extend(tools)
    known = {host.name: host for host in deployment.hosts}
    if missing := needed.keys() - known.keys():
        names = ", ".join(known)
        raise HostError(
            f"no host {min(missing)!r} (known: {names}); name one of these in `pairs`"
        )
    logins = asyncio.Semaphore(MAX_LOGINS)
    return {
        name: HostSession(
            known[name], marker, tools, install=install, log=log, logins=logins
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
    trials: Sequence[Trial]
    sessions: Mapping[str, HostSession]
    past: Mapping[str, _Past]
    say: Callable[[str], None]
    log: logging.Logger
    enough: Callable[[], str | None] | None
    spent: Callable[[], str | None] | None
    patience_s: float
    tally: Tally = field(default_factory=Tally)
    remaining: dict[str, float] = field(default_factory=dict)
    """Seconds that each trial that is still to do takes."""
    steady: _Clock = field(default_factory=_Clock)
    told: float = field(default_factory=time.monotonic)
    """When it was said last how far the measurement is."""

    # -- the schedule ------------------------------------------------------------------------------

    async def collect(self) -> Tally:
        experiment = self.plan.experiment
        todo = _todo(self.trials, self.past, experiment.attempts)
        done = [t for t in self.trials if self.past[t.run_id].done]
        self.tally.scheduled = sum(not t.leading for t in self.trials)
        self.tally.before = sum(not t.leading for t in done)
        self.tally.failed = len(self.trials) - len(done) - len(todo)
        self.remaining |= {t.run_id: trial_s(t, experiment) for t in todo}
        self.log.info(
            "begin: %d of %d trials to do, seed %d",
            len(todo),
            len(self.trials),
            self.plan.seed,
        )
        before = f", {len(done)} measured before" if done else ""
        left = clock(sum(self.remaining.values()))
        self.say(f"{len(self.trials)} trials{before}; about {left}")
        try:
            await self._contact_all(todo)
            for number, trials in groupby(todo, key=lambda t: t.round):
                # a round that has begun is completed: verdicts need both sides of it
                if self.enough and any(p.attempts for p in self.past.values()):
                    self._stop(number - 1, self.enough())
                if self.tally.stopped:
                    break
                await self._round(number, list(trials))
        finally:
            await asyncio.gather(
                *(s.leave() for s in self.sessions.values()), return_exceptions=True
            )
            self.log.info("end: %s", self.tally)
        return self.tally

    def _stop(self, number: int, why: str | None) -> None:
        """Stop after a round if there is a reason."""
        if why and not self.tally.stopped:
            self.tally.stopped_after_round, self.tally.stopped = number, why

    def _ends(self, trial: Trial) -> tuple[HostSession, HostSession]:
        return self.sessions[trial.pair.client], self.sessions[trial.pair.server]

    async def _contact_all(self, todo: list[Trial]) -> None:
        """Meet all hosts at once before the first trial.

        A host that cannot be met fails its own trials later.
        """
        # A collector killed after its last trial may have left settings changed on hosts with
        # nothing left to do.
        changed = [t for t in self.trials if t.requested_buffer_bytes is not None]
        sessions = list(
            dict.fromkeys(s for t in (*todo, *changed) for s in self._ends(t))
        )
        outcomes = await asyncio.gather(
            *(s.meet() for s in sessions), return_exceptions=True
        )
        for session, outcome in zip(sessions, outcomes, strict=True):
            if isinstance(outcome, NetperfError) and not isinstance(outcome, InUseError):
                self.log.error("%s", outcome)
                self.say(str(outcome))
            elif outcome is not None:
                raise outcome
            for tool in session.missing if session.facts else ():
                self.say(missing(tool, session))

    async def _round(self, number: int, trials: list[Trial]) -> None:
        """Measure every trial of a round.

        Repeating failed ones at its end until their attempts are used up.
        """
        tries, reached = dict.fromkeys((t.run_id for t in trials), 0), False
        while trials:
            records = await self._pass(number, trials)
            again = []
            for trial in trials:
                if (record := records.get(trial.run_id)) is None:
                    continue  # the budget is spent
                past = self.past[trial.run_id]
                tries[trial.run_id] += 1
                if past.done:
                    self.tally.ok += not trial.leading
                elif (
                    record["reached"]
                    and max(tries[trial.run_id], past.used)
                    < self.plan.experiment.attempts
                ):
                    again.append(trial)
                else:
                    self.tally.failed += 1
                    self.remaining.pop(trial.run_id, None)
            reached |= any(r["reached"] for r in records.values())
            if records and not reached:
                *_, last = records.values()
                raise CollectError(
                    f"no pair of hosts of {self.plan.experiment.name!r} can be reached: "
                    f"{last['error']}; "
                    "once one can, run the same command again to resume"
                )
            trials = [] if self.tally.stopped else again

    async def _pass(self, number: int, trials: list[Trial]) -> dict[str, dict[str, Any]]:
        """Measure each of these once.

        Those whose hosts do not answer come last: the outage may be over by then.
        """
        waiting, records = list(trials), dict[str, dict[str, Any]]()
        while waiting:
            if self.spent:
                self._stop(number, self.spent())
            if self.tally.stopped:
                break
            waiting.sort(key=self._away)
            patient = all(map(self._away, waiting))
            trial = waiting.pop(0)
            if (record := await self._attempt(trial, patient)) is None:
                waiting.append(trial)
            else:
                records[trial.run_id] = record
        return records

    def _away(self, trial: Trial) -> bool:
        return any(s.away for s in self._ends(trial))

    # -- one trial ---------------------------------------------------------------------------------

    async def _attempt(self, trial: Trial, patient: bool) -> dict[str, Any] | None:
        """Measure a trial, and return the record.

        None if it should wait for an unreachable host.
        """
        client, server = self._ends(trial)
        patience_s = self.patience_s if patient else 0.0
        failed: NetperfError | None = None
        try:
            await all_of(s.wait(patience_s, self.say) for s in (client, server))
        except NetperfError as error:
            failed = error
        if isinstance(failed, UnreachableError) and not (patient or failed.lasting):
            return None
        past = self.past[trial.run_id]
        past.attempts += 1
        run_id = f"{trial.run_id}-a{past.attempts}"
        with new_run(self.folder, run_id) as folder:
            record = self._record(trial, run_id, past.attempts)
            run = TrialRun(trial, client, server, past.attempts, folder, record)
            try:
                if failed:
                    raise failed
                await run.measure()
            except NetperfError as error:
                record |= {"status": "failed", "error": str(error)}
            finally:
                run.files.close()
            record["ended_utc"] = record["ended_utc"] or now()
            if shift := self.steady.shift():
                record["warnings"].append(shift)
            run.read()
            why = write_record(folder, record, self.declaration).failure
        past.used += record["started_utc"] is not None
        past.done = why is None or trial.leading  # one that only leads is not repeated
        if past.done:
            self.remaining.pop(trial.run_id, None)
        self.tally.attempts_failed += why is not None
        self.log.log(
            logging.INFO if why is None else logging.WARNING, "%s %s", run_id, why or "ok"
        )
        for warning in record["warnings"]:
            self.log.warning("%s %s", run_id, warning)
        self._tell(trial.round, run_id, why)
        if (
            self.plan.experiment.pause_s and self.remaining
        ):  # no pause after the last trial
            await asyncio.sleep(self.plan.experiment.pause_s)
        return record | {"reached": not isinstance(failed, UnreachableError)}

    def _tell(self, number: int, run_id: str, why: str | None) -> None:
        """Say why a run failed and, now and then, how far the measurement is."""
        if why is not None:
            self.say(f"{run_id} failed: {why}")
        if time.monotonic() - self.told >= TELL_S:
            self.told = time.monotonic()
            done = sum(past.done for past in self.past.values())
            left = clock(sum(self.remaining.values()))
            self.say(f"round {number}: {done} of {len(self.trials)} trials, {left} left")

    def _record(self, trial: Trial, run_id: str, attempt: int) -> dict[str, Any]:
        hosts = {"client": trial.pair.client, "server": trial.pair.server}
        return new_record(
            run_id=run_id,
            attempt=attempt,
            experiment=self.plan.experiment.name,
            deployment=trial.deployment,
            deployment_id=self.deployment.deployment_id,
            round=trial.round,
            order=trial.order,
            seed=self.plan.seed,
            trial=trial_levels(trial),
            hosts={
                side: asdict(self.sessions[name].host) for side, name in hosts.items()
            },
            notice=self.deployment.notice,
        )
