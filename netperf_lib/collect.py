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
import re
import signal
import threading
import uuid
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from . import facts, tools
from .errors import CollectError, HostError, NetperfError, ParseError, UsageError
from .live import Watcher, watcher
from .model import Deployment, ParsedRun, TestSpec, Trial
from .plan import Plan, describe, estimate_s
from .ssh import BUSY, MISSING, Process
from .stations import Station
from .store import Store

__all__ = ["Tally", "collect"]

RECORD_SCHEMA = 1
"""Version of run.json."""
FIRST_PORT, PORTS, PORTS_EACH = 20_000, 1_000, 4
"""Test ports: a trial gets some of its own out of this range, which firewalls between the hosts must let through."""
SETTLE_S, LOAD_TAIL_S = 1.0, 4.0
"""A load runs so long before the test that it disturbs, and so long beyond the test's duration: the test must not
outlast it, and needs some time itself to begin and to end."""


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
    with store.lock(), _log_file(store):
        collector = _Collector(plan, deployment, store, number, watch or watcher(), install, until_precise)
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
            collector.watch.end()


log = logging.getLogger("netperf_lib.collect")


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


def _finish(work: Coroutine[Any, Any, Tally]) -> Tally:
    """Run to the end; in a notebook too, whose own event loop already runs in this thread."""
    inside_loop = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        inside_loop = False
    if not inside_loop:
        return asyncio.run(_until_terminated(work))
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


async def _until_terminated(work: Coroutine[Any, Any, Tally]) -> Tally:
    """Let a signal to terminate do what Ctrl-C does: hosts are left as they were found."""
    task = asyncio.ensure_future(work)
    if threading.current_thread() is not threading.main_thread():
        return await task
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            raise CollectError("terminated by a signal; the same command goes on where it stopped") from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@dataclass(slots=True)
class _Past:
    """What happened to a trial so far."""

    attempts: int = 0
    """Runs that exist, whatever came of them."""
    spent: int = 0
    """Those whose tool was started: they count towards the limit."""
    done: bool = False


@dataclass(slots=True)
class _Run:
    """A run in the making."""

    trial: Trial
    run_id: str
    attempt: int
    folder: Path
    record: dict[str, Any]
    parsed: ParsedRun | None = None
    processes: dict[str, Process] = field(default_factory=dict)
    files: ExitStack = field(default_factory=ExitStack)

    def file(self, name: str) -> BinaryIO:
        """Open a file of the run folder, so that what arrives is there at once."""
        return self.files.enter_context((self.folder / name).open("wb", buffering=0))

    def said(self, name: str) -> str:
        """Last line that stands in one of the files."""
        place = self.folder / name
        text = tools.clean(tools.decode(place.read_bytes())) if place.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


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
        place = f"{uuid.getnode()}:{store.path.resolve()}"
        marker = f"{self.experiment.name}:{hashlib.blake2s(place.encode(), digest_size=8).hexdigest()}"
        self.stations: dict[str, Station] = {}
        for name in dict.fromkeys(n for t in self.trials for n in (t.pair.client, t.pair.server)):
            mine = [t.test for t in self.trials if name in (t.pair.client, t.pair.server)]
            needed = [s.tool for s in mine] + [s.during.tool for s in mine if s.during]
            try:
                self.stations[name] = Station(deployment.host(name), marker, needed, install=install)
            except KeyError as error:
                raise HostError(f"{self.experiment.name}: {error.args[0]}; name one of these in `pairs`") from None
        self.past = self._past()
        self.tally = Tally(scheduled=len(self.trials))
        self.remaining: dict[str, float] = {}

    def _past(self) -> dict[str, _Past]:
        past = {t.run_id: _Past() for t in self.trials}
        for state in self.store.runs():
            if known := past.get(state.trial):
                record = self.store.run(state.run_id)
                known.attempts = max(known.attempts, state.attempt)
                known.spent += record.get("started_utc") is not None
                known.done |= _good(record)
        return past

    # -- the schedule ------------------------------------------------------------------------------------------------

    async def collect(self) -> Tally:
        limit = self.experiment.attempts
        todo = [t for t in self.trials if not self.past[t.run_id].done and self.past[t.run_id].spent < limit]
        self.tally.before = sum(p.done for p in self.past.values())
        self.tally.failed = len(self.trials) - self.tally.before - len(todo)
        self.remaining = {t.run_id: estimate_s(t, self.experiment) for t in todo}
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
        changed = [t for t in self.trials if _buffers(t) is not None]
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
                self.watch.say(_missing(tool, station))

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
        from .stats.planning import stop_rule
        from .stats.table import RunsTable

        runs = self.store.load()
        table = RunsTable(runs)
        family = len(self.experiment.contrasts)
        for contrast in self.experiment.contrasts:
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
            "schema": RECORD_SCHEMA,
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

    async def _measure(self, run: _Run) -> None:
        trial, record = run.trial, run.record
        client, server = self.stations[trial.pair.client], self.stations[trial.pair.server]
        await _both(client.meet(), server.meet())
        record["facts"] = {"client": client.facts, "server": server.facts}
        version = client.facts.get("tools", {}).get(tools.tool(trial.test.tool).VERSION[0])
        record["tool_version"] = version.splitlines()[0] if version else None
        asked = await self._tune(run, client, server)
        before = asyncio.gather(client.counters(), server.counters())
        try:
            commands, listener = await self._serve(run, asked, server)
            load = await self._load(run, client, server)
            counted = await before
            if load:
                await asyncio.sleep(SETTLE_S)
            record["started_utc"] = _now()
            code = await (await self._start(run, commands, client, "client")).wait()
            record["ended_utc"] = _now()
            record["exit"]["client"] = code
            died = listener is not None and listener.ended and not commands.server_ends
            if load:
                record["exit"]["client-load"] = await load.wait()
        finally:
            before.cancel()
            with suppress(asyncio.CancelledError, NetperfError):
                await before
            for side, process in run.processes.items():
                record["exit"][side] = await process.stop(grace_s=0.5 * process.ends)
        after = await asyncio.gather(client.counters(), server.counters())
        for side, station, old, new in zip(("client", "server"), (client, server), counted, after, strict=True):
            record["counters"][side] = {
                "before": {"time_s": old.get("time_s")},
                "delta": facts.difference(old, new),
                "state": new.get("state", {}),
            }
            record["warnings"] += facts.warnings(old, new, station.host.name)
        if died:
            record["warnings"].append(f"{server.host.name}: the server of {trial.test.tool} ended during the run")
        if code:
            raise CollectError(self._why(run, commands, code, client, server, died))

    async def _tune(self, run: _Run, client: Station, server: Station) -> Trial:
        """Set the TCP buffers that the trial wants on hosts that are ours; return the trial that its tool is to run."""
        trial, wanted = run.trial, _buffers(run.trial)
        if client.host.owned and server.host.owned:
            await _both(client.tcp_buffers(wanted), server.tcp_buffers(wanted))
            return replace(trial, tcp_buffer_bytes=trial.pair.tcp_buffer_bytes)
        if wanted is not None:
            run.record["warnings"].append(
                f"TCP buffers were set on the tool's own sockets: {client.host.name} and {server.host.name} were not "
                "made by this project, so that their settings are left alone"
            )
        return trial

    async def _serve(
        self, run: _Run, asked: Trial, server: Station, side: str = ""
    ) -> tuple[tools.Commands, Process | None]:
        """Start the server's side; another port where one is taken by something else."""
        record = run.record
        for number in range(5):
            slot = (run.trial.order + run.attempt - 1 + 31 * number) * PORTS_EACH % PORTS
            port = FIRST_PORT + slot + (PORTS_EACH // 2 if side else 0)
            commands: tools.Commands = tools.tool(asked.test.tool).commands(asked, server.host.data_address, port)
            record["commands"][f"client{side}"] = list(commands.client)
            record["commands"][f"server{side}"] = list(commands.server or ())
            if commands.server is None:
                return commands, None
            process = await self._start(run, commands, server, f"server{side}")
            if not commands.listens or await process.listening():
                return commands, process
            code = record["exit"][f"server{side}"] = await process.stop()
            if code == MISSING:
                raise CollectError(_missing(asked.test.tool, server))
            if code != BUSY:
                said = run.said(f"server{side}.err") or run.said(f"server{side}.out") or "no message"
                raise CollectError(f"{commands.server[0]} on {server} does not listen (exit code {code}): {said}")
        last = FIRST_PORT + PORTS - 1
        raise CollectError(f"{server}: something else listens on the test ports; free ports {FIRST_PORT} to {last}")

    async def _load(self, run: _Run, client: Station, server: Station) -> Process | None:
        """Start the load that the test is to be measured under."""
        spec, during = run.trial.test, run.trial.test.during
        if during is None:
            return None
        load = TestSpec(
            tool=during.tool,
            test=during.test,
            duration_s=float(round(SETTLE_S + spec.omit_s + spec.duration_s + LOAD_TAIL_S)),
            options=during.options,
        )
        asked = replace(run.trial, test=load, streams=during.streams, tcp_buffer_bytes=None, message_bytes=None)
        commands, _ = await self._serve(run, asked, server, "-load")
        return await self._start(run, commands, client, "client-load")

    async def _start(self, run: _Run, commands: tools.Commands, station: Station, side: str) -> Process:
        serves = side.startswith("server")
        process = await station.remote.start(
            (commands.server or ()) if serves else commands.client,
            out=run.file(f"{side}.out"),
            err=run.file(f"{side}.err"),
            limit_s=commands.timeout_s + (20 if serves else 0),
            listens=commands.listens if serves else (),
        )
        process.ends = not serves or commands.server_ends
        run.processes[side] = process
        return process

    def _why(self, run: _Run, commands: tools.Commands, code: int, client: Station, server: Station, died: bool) -> str:
        """Say why a client failed, and what to do about it."""
        tool = commands.client[0]
        if code == MISSING:
            return _missing(run.trial.test.tool, client)
        if died:
            said = run.said("server.err") or run.said("server.out") or "no message"
            return f"{tool} on {server} ended while it served: {said}"
        said = run.said("client.err") or run.said("client.out") or "no message"
        if code == 124:
            said = f"it hung and was ended after {commands.timeout_s:g} s ({said})"
        else:
            said = f"exit code {code}: {said}"
        return f"{tool} on {client}: {said}{_remedy(said, client, server)}"

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
                    said = run.parsed.error
                    if said:
                        client, server = (self.stations[n] for n in (run.trial.pair.client, run.trial.pair.server))
                        said += _remedy(said, client, server)
                    read = {"status": run.parsed.status, "error": said}
        run.record["log"] = read


def _good(record: dict[str, Any]) -> bool:
    """Whether a run counts as its trial done: the tool ended well, and its log says so too."""
    return bool(record["status"] == "ok" and record.get("log", {}).get("status", "ok") == "ok")


def _buffers(trial: Trial) -> int | None:
    """TCP buffers that the test asks for, where they are not what the hosts have anyway."""
    return None if trial.tcp_buffer_bytes == trial.pair.tcp_buffer_bytes else trial.tcp_buffer_bytes


async def _both(first: Awaitable[None], second: Awaitable[None]) -> None:
    """Do both; when one fails the other is done all the same, and the first failure is raised."""
    for outcome in await asyncio.gather(first, second, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _missing(tool: str, station: Station) -> str:
    package = tools.tool(tool).PACKAGE
    return f"{tool} is not installed on {station}; --install installs it, or there: apt-get install {package}"


_BLOCKED = re.compile(r"timed? ?out|unreachable|no route|unable to connect|failed to connect|hung", re.IGNORECASE)


def _remedy(said: str, client: Station, server: Station) -> str:
    if "No space left" in said:
        return f"; free some disk space on {client} and {server}"
    if _BLOCKED.search(said):
        last = FIRST_PORT + PORTS - 1
        return (
            f"; does a firewall or security group block TCP or UDP ports {FIRST_PORT} to {last} from "
            f"{client.host.data_address} to {server.host.data_address}?"
        )
    return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
