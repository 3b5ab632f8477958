"""Trials and hosts to raw run folders. It can be killed at any moment; the same call goes on where it stopped.

A trial: the server is started and listens, the client runs, both are ended; counters are read before and after on both
hosts at once, beside what must be waited for anyway. Whatever happens to a trial, its folder says so; a trial that
failed is tried again at the end of its round, so that it still belongs to that block of time.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import threading
import uuid
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from . import facts, tools
from .errors import CollectError, HostError, NetperfError, ParseError
from .live import Silent, Watcher, watcher
from .model import Deployment, ParsedRun, Trial
from .plan import Plan, describe, estimate_s
from .ssh import BUSY, MISSING, Process, Remote
from .store import Store

__all__ = ["Tally", "collect"]

RECORD_SCHEMA = 1
"""Version of run.json."""
FIRST_PORT, PORTS, PORTS_EACH = 20_000, 1_000, 4
"""Test ports: a trial gets some of its own out of this range, which firewalls between the hosts must let through."""


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
        Runs that failed, those included whose trial succeeded later.
    """

    scheduled: int = 0
    before: int = 0
    ok: int = 0
    failed: int = 0
    attempts_failed: int = 0


def collect(
    plan: Plan, deployment: Deployment, store: Store, *, number: int = 1, watch: Watcher | None = None
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
    """
    watch = watch or watcher()
    with store.lock():
        collector = _Collector(plan, deployment, store, number, watch)
        try:
            return _finish(collector.collect())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise CollectError(
                f"{store.path}: the disk is full; free some space and give the same command again, "
                "it goes on where it stopped"
            ) from None
        finally:
            watch.end()


def _finish(work: Coroutine[Any, Any, Tally]) -> Tally:
    """Run to the end, in a notebook too, whose own event loop already runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    box: list[Tally | BaseException] = []

    def inside() -> None:
        try:
            box.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 (handed to the caller's thread)
            box.append(error)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


@dataclass(slots=True)
class _Past:
    """What earlier calls did about a trial."""

    attempts: int = 0
    """Runs that exist, whatever came of them."""
    spent: int = 0
    """Those whose tool was started: they count towards the limit."""
    done: bool = False


@dataclass(slots=True)
class _Run:
    """A run in the making: what its record will say."""

    trial: Trial
    run_id: str
    attempt: int
    folder: Path
    record: dict[str, Any]
    parsed: ParsedRun | None = None
    processes: list[Process] = field(default_factory=list)
    files: ExitStack = field(default_factory=ExitStack)

    def file(self, name: str) -> BinaryIO:
        """Open a file of the run folder, so that what arrives is there at once."""
        return self.files.enter_context((self.folder / name).open("wb", buffering=0))


class _Collector:
    def __init__(self, plan: Plan, deployment: Deployment, store: Store, number: int, watch: Watcher) -> None:
        self.plan, self.deployment, self.store, self.number = plan, deployment, store, number
        self.watch: Watcher = watch or Silent()
        self.trials = [t for t in plan.trials if t.deployment == number]
        place = f"{uuid.getnode()}:{store.path.resolve()}"
        marker = f"{plan.experiment.name}:{hashlib.blake2s(place.encode(), digest_size=8).hexdigest()}"
        self.remotes: dict[str, Remote] = {}
        for name in dict.fromkeys(n for t in self.trials for n in (t.pair.client, t.pair.server)):
            try:
                self.remotes[name] = Remote(deployment.host(name), marker)
            except KeyError as error:
                raise HostError(f"{plan.experiment.name}: {error.args[0]}; name one of these in `pairs`") from None
        self.facts: dict[str, dict[str, Any]] = {}
        self.past = self._past()
        self.tally = Tally(scheduled=len(self.trials))
        self.log = logging.getLogger("netperf_lib.collect")

    def _past(self) -> dict[str, _Past]:
        past: dict[str, _Past] = {}
        for state in self.store.runs():
            known = past.setdefault(state.trial, _Past())
            known.attempts = max(known.attempts, state.attempt)
            if state.status == "ok":
                record = self.store.run(state.run_id)
                known.done |= record.get("log", {}).get("status", "ok") == "ok"
                known.spent += 1
            else:
                known.spent += self.store.run(state.run_id).get("started_utc") is not None
        return past

    # -- the schedule ------------------------------------------------------------------------------------------------

    async def collect(self) -> Tally:
        handler = logging.FileHandler(self.store.log_file, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.log.addHandler(handler)
        self.log.setLevel(logging.INFO)
        self.log.propagate = False
        limit = self.plan.experiment.attempts
        past = {t.run_id: self.past.setdefault(t.run_id, _Past()) for t in self.trials}
        open_trials = [t for t in self.trials if not past[t.run_id].done and past[t.run_id].spent < limit]
        self.tally.before = sum(p.done for p in past.values())
        self.tally.failed = len(self.trials) - self.tally.before - len(open_trials)
        self.remaining = {t.run_id: estimate_s(t, self.plan.experiment) for t in open_trials}
        self.log.info("begin: %d of %d trials open, seed %d", len(open_trials), len(self.trials), self.plan.seed)
        self.watch.begin(len(self.trials), self.tally.before, sum(self.remaining.values()))
        try:
            await self._greet_all(open_trials)
            for _, trials in groupby(open_trials, key=lambda t: t.round):
                await self._round(list(trials))
        finally:
            await asyncio.gather(*(r.close() for r in self.remotes.values()), return_exceptions=True)
            self.log.info("end: %s", self.tally)
            self.log.removeHandler(handler)
            handler.close()
        return self.tally

    async def _round(self, trials: list[Trial]) -> None:
        """Measure every trial of a round; those that failed again at its end, until their attempts are used up."""
        tries = dict.fromkeys((t.run_id for t in trials), 0)
        while trials:
            again = []
            reached = False
            for trial in trials:
                record = await self._attempt(trial)
                reached |= record["started_utc"] is not None
                past = self.past[trial.run_id]
                tries[trial.run_id] += 1
                if past.done:
                    self.tally.ok += 1
                elif max(tries[trial.run_id], past.spent) < self.plan.experiment.attempts:
                    again.append(trial)
                else:
                    self.tally.failed += 1
                if self.plan.experiment.pause_s:
                    await asyncio.sleep(self.plan.experiment.pause_s)
            if not reached and not any(r.connected for r in self.remotes.values()):
                raise CollectError(
                    f"no host of {self.plan.experiment.name!r} can be reached: {record['error']}; "
                    "when they can, give the same command again, it goes on where it stopped"
                )
            trials = again

    # -- one trial ---------------------------------------------------------------------------------------------------

    async def _attempt(self, trial: Trial) -> dict[str, Any]:
        past = self.past[trial.run_id]
        past.attempts += 1
        run_id = f"{trial.run_id}-a{past.attempts}"
        self.watch.started(trial)
        with self.store.new_run(run_id) as folder:
            run = _Run(trial, run_id, past.attempts, folder, self._record(trial, run_id, past.attempts))
            record = run.record
            try:
                await self._measure(run)
            except NetperfError as error:
                record |= {"status": "failed", "error": str(error)}
            finally:
                run.files.close()
            record["ended_utc"] = record["ended_utc"] or _now()
            self._read(run)
            self.store.write_record(folder, record)
        past.spent += record["started_utc"] is not None
        past.done = record["status"] == "ok" and record["log"]["status"] == "ok"
        if past.done or past.spent >= self.plan.experiment.attempts:
            self.remaining.pop(trial.run_id, None)
        if not past.done:
            self.tally.attempts_failed += 1
        why = None if past.done else record["error"] or record["log"]["error"]
        self.log.log(logging.INFO if past.done else logging.WARNING, "%s %s", run_id, why or "ok")
        self.watch.ended(trial, run_id, why, run.parsed, sum(self.remaining.values()))
        return record

    def _record(self, trial: Trial, run_id: str, attempt: int) -> dict[str, Any]:
        hosts = {s: self.remotes[n].host for s, n in (("client", trial.pair.client), ("server", trial.pair.server))}
        return {
            "schema": RECORD_SCHEMA,
            "run_id": run_id,
            "attempt": attempt,
            "experiment": self.plan.experiment.name,
            "deployment": trial.deployment,
            "deployment_id": self.deployment.deployment_id,
            "round": trial.round,
            "order": trial.order,
            "seed": self.plan.seed,
            "status": "ok",
            "error": None,
            "trial": describe(trial),
            "hosts": {side: asdict(host) for side, host in hosts.items()},
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

    async def _measure(self, run: _Run) -> None:
        trial, record = run.trial, run.record
        client, server = self.remotes[trial.pair.client], self.remotes[trial.pair.server]
        await _both(self._greet(client), self._greet(server))
        for side, remote in (("client", client), ("server", server)):
            record["facts"][side] = self.facts[remote.host.name]
        version = self.facts[client.host.name].get("tools", {}).get(tools.tool(trial.test.tool).VERSION[0])
        record["tool_version"] = version.splitlines()[0] if version else None
        before = asyncio.gather(self._counters(client), self._counters(server))
        try:
            commands, listener = await self._serve(run, server)
            counted = await before
        except BaseException:
            before.cancel()
            with suppress(BaseException):
                await before
            await self._stop(run)
            raise
        record["started_utc"] = _now()
        try:
            process = await client.start(
                commands.client,
                out=run.file("client.out"),
                err=run.file("client.err"),
                limit_s=commands.timeout_s,
            )
            record["exit"]["client"] = code = await process.wait()
            record["ended_utc"] = _now()
        finally:
            record["exit"]["server"] = await listener.stop(grace_s=0.5 * commands.server_ends) if listener else None
        after = await asyncio.gather(self._counters(client), self._counters(server))
        for side, remote, old, new in zip(("client", "server"), (client, server), counted, after, strict=True):
            record["counters"][side] = {
                "before": {"time_s": old.get("time_s")},
                "delta": facts.difference(old, new),
                "state": new.get("state", {}),
            }
            record["warnings"] += facts.warnings(old, new, remote.host.name)
        if code == 124:
            raise CollectError(
                f"{commands.client[0]} on {client} hung: it was ended after {commands.timeout_s:g} s; "
                "see what client.err and server.err say"
            )
        if code == MISSING:
            raise CollectError(_missing(trial.test.tool, client))
        if code:
            said = _last_line(run.folder / "client.err") or _last_line(run.folder / "client.out")
            raise CollectError(f"{commands.client[0]} on {client} ended with exit code {code}: {said or 'no message'}")

    async def _serve(self, run: _Run, server: Remote) -> tuple[tools.Commands, Process | None]:
        """Start the server's side; another port where one is taken by something else."""
        trial, record = run.trial, run.record
        for number in range(5):
            slot = (trial.order + run.attempt - 1 + 31 * number) * PORTS_EACH % PORTS
            commands: tools.Commands = tools.tool(trial.test.tool).commands(
                trial, server.host.data_address, FIRST_PORT + slot
            )
            record["commands"] = {"client": list(commands.client), "server": list(commands.server or ())}
            if commands.server is None:
                return commands, None
            process = await server.start(
                commands.server,
                out=run.file("server.out"),
                err=run.file("server.err"),
                limit_s=commands.timeout_s + 20,
                listens=commands.listens,
            )
            run.processes.append(process)
            if not commands.listens or await process.listening():
                return commands, process
            code = await process.stop()
            record["exit"]["server"] = code
            if code == MISSING:
                raise CollectError(_missing(trial.test.tool, server))
            if code != BUSY:
                said = _last_line(run.folder / "server.err") or _last_line(run.folder / "server.out") or "no message"
                raise CollectError(f"{commands.server[0]} on {server} does not listen (exit code {code}): {said}")
        raise CollectError(f"{server}: something else listens on the test ports; free ports {FIRST_PORT} and following")

    async def _stop(self, run: _Run) -> None:
        for process in run.processes:
            with suppress(NetperfError):
                await process.stop()

    def _read(self, run: _Run) -> None:
        """Note what the log says now: it decides whether the trial is tried again; tables read it anew."""
        place = run.folder / "client.out"
        read: dict[str, Any] = {"status": "failed", "error": "the tool printed nothing"}
        if place.exists():
            try:
                found = tools.parse(place.read_bytes(), file=place.name)
            except ParseError as error:
                read["error"] = str(error)
            else:
                run.parsed = next((p for p in found if p.tool == run.trial.test.tool), found[0] if found else None)
                if run.parsed:
                    read = {"status": run.parsed.status, "error": run.parsed.error}
        run.record["log"] = read

    # -- hosts -------------------------------------------------------------------------------------------------------

    async def _greet_all(self, trials: list[Trial]) -> None:
        """Meet every host before the first trial, all at once; one that cannot be met fails its own trials later."""
        names = dict.fromkeys(n for t in trials for n in (t.pair.client, t.pair.server))
        for outcome in await asyncio.gather(*(self._greet(self.remotes[n]) for n in names), return_exceptions=True):
            if isinstance(outcome, NetperfError):
                self.log.error("%s", outcome)
                self.watch.say(str(outcome))
            elif outcome is not None:
                raise outcome

    async def _greet(self, remote: Remote) -> None:
        """Connect where needed; at each new connection clear up what an earlier one left."""
        if not await remote.connect():
            return
        ended = await remote.end_leftovers()
        if ended:
            self.log.warning("%s: ended %d processes that a killed collector had left", remote, ended)
        if remote.host.name not in self.facts:
            needed = dict.fromkeys(
                t.test.tool for t in self.trials if remote.host.name in (t.pair.client, t.pair.server)
            )
            versions = [" ".join(tools.tool(name).VERSION) for name in needed]
            told = await remote.script(facts.FACTS, remote.host.data_address, *versions, limit_s=60)
            self.facts[remote.host.name] = facts.read_facts(told.out)
            self.log.info("%s: %s", remote, self.facts[remote.host.name].get("kernel"))

    async def _counters(self, remote: Remote) -> dict[str, Any]:
        nic = self.facts[remote.host.name].get("nic") or ""
        return facts.read_counters((await remote.script(facts.COUNTERS, nic)).out)


async def _both(first: Coroutine[Any, Any, None], second: Coroutine[Any, Any, None]) -> None:
    """Do both; when one fails the other is done all the same, and the first failure is raised."""
    for outcome in await asyncio.gather(first, second, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _missing(tool: str, remote: Remote) -> str:
    package = tools.tool(tool).PACKAGE
    return f"{tool} is not installed on {remote}; install it there (Debian, Ubuntu: apt-get install {package})"


def _last_line(place: Path) -> str:
    if not place.exists():
        return ""
    lines = [line.strip() for line in tools.clean(tools.decode(place.read_bytes())).splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
