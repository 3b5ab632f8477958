"""Trials and hosts to raw run folders. It can be killed at any moment; the same call goes on where it stopped.

Whatever happens to a trial, its folder says so. A trial that failed is tried again at the end of its round, so that it
still belongs to that block of time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from ..data.layout import Store
from ..data.load import load
from ..errors import CollectError, HostError, NetperfError, UsageError
from ..experiment.estimate import trial_s
from ..experiment.model import Deployment, Trial
from ..experiment.schedule import Plan, describe
from .event_loop import finish
from .progress import Watcher, watcher
from .session import Station
from .trial import Run, asked_buffers, missing, now

__all__ = ["Tally", "collect", "is_complete", "told_when_full"]


@dataclass(slots=True)
class Tally:
    """What a call of `collect` did.

    Parameters
    ----------
    scheduled, before : int
        Trials of this deployment, and how many of them were measured before.
    ok, failed : int
        Trials that were measured now, and that have no good run after all attempts.
    attempts_failed : int
        Runs that failed now, those included whose trial succeeded later.
    stopped_after_round : int or None
        Where every contrast was precise enough to stop before the last round.
    """

    scheduled: int = 0
    before: int = 0
    ok: int = 0
    failed: int = 0
    attempts_failed: int = 0
    stopped_after_round: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.ok} of {self.scheduled} trials measured"]
        parts += [f"{self.before} were measured before"] if self.before else []
        parts += [f"{self.failed} failed in every attempt"] if self.failed else []
        parts += [f"{self.attempts_failed} failed runs are kept"] if self.attempts_failed else []
        if self.stopped_after_round is not None:
            parts.append(f"precise enough after round {self.stopped_after_round}")
        return ", ".join(parts)


def collect(
    plan: Plan,
    deployment: Deployment,
    store: Store,
    *,
    number: int = 1,
    watch: Watcher | None = None,
    install: bool = False,
    until_precise: float | None = None,
) -> Tally:
    """Measure the trials of one deployment that were not measured yet.

    Parameters
    ----------
    plan : Plan
        The schedule.
    deployment : Deployment
        The hosts.
    store : Store
        Where the runs go.
    number : int
        Which deployment of the plan this is, from 1.
    watch : Watcher, optional
        Told what happens; default: a display on standard error.
    install : bool
        Install tools that a host lacks.
    until_precise : float, optional
        Stop after the round in which every declared contrast is known within ± this share (0.02: 2 %).

    Returns
    -------
    Tally

    Raises
    ------
    StoreError
        Another collector is at work on this experiment.
    CollectError
        Nothing more can be measured: the disk is full, or no host can be reached.
    HostError
        The plan names a host that the deployment does not have.
    UsageError
        `until_precise` without contrasts, or no share between 0 and 1.
    """
    if until_precise is not None:
        if not 0 < until_precise < 1:
            raise UsageError(f"until precise {until_precise:g}: must be a share above 0 and below 1, such as 0.02")
        if not plan.experiment.contrasts:
            raise UsageError(f"{plan.experiment.name}: declares no contrasts, so that nothing can become precise")
    with told_when_full(store), store.lock(), _log_file(store):
        collector = _Collector(plan, deployment, store, number, watch or watcher(), install, until_precise)
        try:
            return finish(collector.collect(), stopped=_stopped)
        finally:
            collector.watch.end()


@contextmanager
def told_when_full(store: Store) -> Iterator[None]:
    """Say what to do when there is no room for what the block writes.

    Raises
    ------
    CollectError
        The disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CollectError(
            f"{store.location}: the disk is full; free some space and give the same command again, "
            "it goes on where it stopped"
        ) from None


log = logging.getLogger("netperf_lib.measure.collector")


@contextmanager
def _log_file(store: Store) -> Iterator[None]:
    handler = logging.FileHandler(store.log_file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        with suppress(OSError):  # a full disk was told already
            handler.close()


def _stopped() -> CollectError:
    return CollectError("terminated by a signal; the same command goes on where it stopped")


@dataclass(slots=True)
class _Past:
    """What happened to a trial so far."""

    attempts: int = 0
    """Runs that exist, whatever came of them."""
    spent: int = 0
    """Those whose tool was started: they count towards the limit."""
    done: bool = False


def _past(trials: list[Trial], store: Store) -> dict[str, _Past]:
    past = {t.run_id: _Past() for t in trials}
    for state in store.runs():
        if known := past.get(state.trial):
            known.attempts = max(known.attempts, state.attempt)
            known.spent += state.record.get("started_utc") is not None
            known.done |= _good(state.record)
    return past


def _todo(trials: list[Trial], past: dict[str, _Past], attempts: int) -> list[Trial]:
    return [t for t in trials if not past[t.run_id].done and past[t.run_id].spent < attempts]


def is_complete(plan: Plan, store: Store, *, number: int = 1) -> bool:
    """Whether nothing is left to measure of deployment `number`: every trial has a good run, or no attempt left."""
    trials = [t for t in plan.trials if t.deployment == number]
    return not _todo(trials, _past(trials, store), plan.experiment.attempts)


class _Collector:
    def __init__(
        self,
        plan: Plan,
        deployment: Deployment,
        store: Store,
        number: int,
        watch: Watcher,
        install: bool,
        until_precise: float | None,
    ) -> None:
        self.plan, self.deployment, self.store, self.watch = plan, deployment, store, watch
        self.experiment = plan.experiment
        self.until_precise = until_precise
        self.trials = [t for t in plan.trials if t.deployment == number]
        marker = f"{self.experiment.name}:{store.token}"
        self.stations: dict[str, Station] = {}
        for name in dict.fromkeys(n for t in self.trials for n in (t.pair.client, t.pair.server)):
            mine = [t.test for t in self.trials if name in (t.pair.client, t.pair.server)]
            needed = [s.tool for s in mine] + [s.during.tool for s in mine if s.during]
            try:
                self.stations[name] = Station(deployment.host(name), marker, needed, install=install)
            except KeyError as error:
                raise HostError(f"{self.experiment.name}: {error.args[0]}; name one of these in `pairs`") from None
        self.past = _past(self.trials, store)
        self.tally = Tally(scheduled=len(self.trials))
        self.remaining: dict[str, float] = {}

    # -- the schedule ------------------------------------------------------------------------------------------------

    async def collect(self) -> Tally:
        todo = _todo(self.trials, self.past, self.experiment.attempts)
        self.tally.before = sum(p.done for p in self.past.values())
        self.tally.failed = len(self.trials) - self.tally.before - len(todo)
        self.remaining = {t.run_id: trial_s(t, self.experiment) for t in todo}
        log.info("begin: %d of %d trials to do, seed %d", len(todo), len(self.trials), self.plan.seed)
        self.watch.begin(len(self.trials), self.tally.before, sum(self.remaining.values()))
        try:
            await self._meet_all(todo)
            for number, trials in groupby(todo, key=lambda t: t.round):
                if self._precise(number - 1):
                    break
                await self._round(list(trials))
        finally:
            await asyncio.gather(*(s.leave() for s in self.stations.values()), return_exceptions=True)
            log.info("end: %s", self.tally)
        return self.tally

    async def _meet_all(self, todo: list[Trial]) -> None:
        """Meet every host before the first trial, all at once; one that cannot be met fails its own trials later."""
        # A collector killed after its last trial may have left settings changed on hosts with nothing left to do.
        changed = [t for t in self.trials if asked_buffers(t) is not None]
        names = dict.fromkeys(n for t in (*todo, *changed) for n in (t.pair.client, t.pair.server))
        stations = [self.stations[n] for n in names]
        for station, outcome in zip(
            stations, await asyncio.gather(*(s.meet() for s in stations), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, NetperfError):
                log.error("%s", outcome)
                self.watch.say(str(outcome))
            elif outcome is not None:
                raise outcome
            for tool in station.missing if station.facts else ():
                self.watch.say(missing(tool, station))

    async def _round(self, trials: list[Trial]) -> None:
        """Measure every trial of a round; those that failed again at its end, until their attempts are used up."""
        tries = dict.fromkeys((t.run_id for t in trials), 0)
        while trials:
            records = await self._pass(trials)
            again = []
            for trial in trials:
                past = self.past[trial.run_id]
                tries[trial.run_id] += 1
                if past.done:
                    self.tally.ok += 1
                elif max(tries[trial.run_id], past.spent) < self.experiment.attempts:
                    again.append(trial)
                else:
                    self.tally.failed += 1
                    self.remaining.pop(trial.run_id, None)
            nobody = not any(s.remote.connected for s in self.stations.values())
            if nobody and not any(r["started_utc"] for r in records):
                raise CollectError(
                    f"no host of {self.experiment.name!r} can be reached: {records[-1]['error']}; "
                    "when they can, give the same command again, it goes on where it stopped"
                )
            trials = again

    async def _pass(self, trials: list[Trial]) -> list[dict[str, Any]]:
        """Measure each of these once: one after the other, or side by side where no two share a host."""
        waiting, records = list(trials), []
        running: dict[asyncio.Task[dict[str, Any]], set[str]] = {}
        try:
            while waiting or running:
                for trial in list(waiting):
                    hosts = {trial.pair.client, trial.pair.server}
                    if running and not (
                        self.experiment.concurrent and hosts.isdisjoint(set().union(*running.values()))
                    ):
                        continue
                    waiting.remove(trial)
                    running[asyncio.ensure_future(self._attempt(trial))] = hosts
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del running[task]
                    records.append(task.result())
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return records

    def _precise(self, rounds: int) -> bool:
        """Whether the rounds measured so far are enough for every contrast."""
        if self.until_precise is None or not self.store.run_ids():
            return False
        from ..stats.planning import stop_rule
        from ..stats.table import RunsTable

        runs = load(self.store.location)
        table = RunsTable(runs)
        family = len(self.experiment.contrasts)
        for contrast in self.experiment.contrasts:
            if contrast.b is None:
                continue
            a, b = (
                table.runs[table.mask(side) & table.ok].groupby(["deployment", "round"])[contrast.metric].first()
                for side in (contrast.a, contrast.b)
            )
            a, b = a.dropna().align(b.dropna(), join="inner")
            decision = stop_rule(
                a.to_numpy(dtype=float),
                b.to_numpy(dtype=float),
                width=self.until_precise,
                confidence=1 - self.experiment.alpha,
                family=family,
            )
            log.info("%s: %s", contrast.question or contrast.metric, decision.words)
            if not decision.stop:
                return False
        self.tally.stopped_after_round = rounds
        return True

    # -- one trial ---------------------------------------------------------------------------------------------------

    async def _attempt(self, trial: Trial) -> dict[str, Any]:
        past = self.past[trial.run_id]
        past.attempts += 1
        run_id = f"{trial.run_id}-a{past.attempts}"
        self.watch.started(trial)
        with self.store.new_run(run_id) as folder:
            client, server = self.stations[trial.pair.client], self.stations[trial.pair.server]
            record = self._record(trial, run_id, past.attempts)
            run = Run(trial, client, server, past.attempts, folder, record)
            try:
                await run.measure()
            except NetperfError as error:
                record |= {"status": "failed", "error": str(error)}
            finally:
                run.files.close()
            record["ended_utc"] = record["ended_utc"] or now()
            run.read()
            self.store.write_record(folder, record)
        past.spent += record["started_utc"] is not None
        past.done = _good(record)
        why = None if past.done else record["error"] or record["log"]["error"]
        if past.done:
            self.remaining.pop(trial.run_id, None)
        else:
            self.tally.attempts_failed += 1
        log.log(logging.INFO if past.done else logging.WARNING, "%s %s", run_id, why or "ok")
        for warning in record["warnings"]:
            log.warning("%s %s", run_id, warning)
        self.watch.ended(trial, run_id, why, run.parsed, sum(self.remaining.values()))
        if self.experiment.pause_s:
            await asyncio.sleep(self.experiment.pause_s)
        return record

    def _record(self, trial: Trial, run_id: str, attempt: int) -> dict[str, Any]:
        return {
            "run_id": run_id,
            "attempt": attempt,
            "experiment": self.experiment.name,
            "deployment": trial.deployment,
            "deployment_id": self.deployment.deployment_id,
            "round": trial.round,
            "order": trial.order,
            "seed": self.plan.seed,
            "status": "ok",
            "error": None,
            "trial": describe(trial),
            "hosts": {
                "client": asdict(self.stations[trial.pair.client].host),
                "server": asdict(self.stations[trial.pair.server].host),
            },
            "notice": self.deployment.notice,
            "commands": {"client": [], "server": []},
            "exit": {"client": None, "server": None},
            "started_utc": None,
            "ended_utc": None,
            "tool_version": None,
            "facts": {"client": {}, "server": {}},
            "counters": {"client": {}, "server": {}},
            "warnings": [],
            "log": {"status": None, "error": None},
        }


def _good(record: Mapping[str, Any]) -> bool:
    """Whether a run counts as its trial done: the tool ended well, and its log says so too."""
    return bool(record["status"] == "ok" and record.get("log", {}).get("status", "ok") == "ok")
