"""One trial on two hosts: tune, serve, load, measure, and report what went wrong.

The server is started and listens, the client runs, both are ended; counters are read before and
after on both hosts at once, during waits that are needed anyway.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import re
from collections.abc import Awaitable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from .. import tools
from ..data.connections import LOAD
from ..data.raw import Record
from ..errors import CollectError, NetperfError, ParseError
from ..experiment.model import Trial
from ..experiment.schedule import load_trial
from ..tools.parsed import ParsedRun
from ..tools.ss import SAMPLES, SCRIPT
from . import facts
from .session import HostSession
from .ssh import BUSY, FLOODED, HUNG, MAX_OUTPUT_BYTES, MISSING, STOPPED, Process

FIRST_PORT, PORTS, PORTS_EACH = 20_000, 1_000, 4
"""Test ports: each trial uses some of this range, which firewalls between the hosts must allow."""
LAST_PORT = FIRST_PORT + PORTS - 1
WHOLE_BYTES, END_BYTES = 4 * 2**20, 64 * 1024
"""Of the output of a tool that failed, all is looked at up to the first size, and of a longer
one only the end."""
UNREAD = "unknown"
"""Name of the tool of a log that is not recognized."""
SETTLE_S, LOAD_TAIL_S = 1.0, 4.0
"""How long a load runs before the test, and beyond the test's duration: the test must not
outlast it, and itself needs some time to begin and to end."""


@dataclass(frozen=True, slots=True)
class _Traffic:
    """A test, or the load under which it is measured: its server is ready."""

    trial: Trial
    commands: tools.Commands
    server: Process | None
    """None for a tool that needs none."""

    @property
    def fills(self) -> bool:
        """Whether it sends as much as it can, or as was asked for, over TCP."""
        trial = self.trial
        if "udp" in trial.test.test or trial.options.get("protocol") == "udp":
            return False
        rate_bps = tools.tool(trial.test.tool).rate_bps(trial.request)
        return bool(self.commands.listens) and rate_bps > 0


@dataclass(slots=True)
class TrialRun:
    """A run in progress."""

    trial: Trial
    client: HostSession
    server: HostSession
    attempt: int
    folder: Path
    record: Record
    """What is known before it begins; what becomes known is added to its tables."""
    files: ExitStack = field(default_factory=ExitStack)
    processes: dict[str, Process] = field(default_factory=dict)
    samplers: list[Process] = field(default_factory=list)
    sampled: str = "client"
    started_utc: str | None = None
    ended_utc: str | None = None

    @property
    def sides(self) -> dict[str, HostSession]:
        """Both hosts by their side."""
        return {"client": self.client, "server": self.server}

    def ended(self, error: NetperfError | None) -> Record:
        """Return the record of the run."""
        program = tools.tool(self.trial.test.tool).VERSION[0]
        client = self.record.facts.get("client", {})
        return replace(
            self.record,
            tool_version=client.get("tools", {}).get(program),
            sampled=self.sampled,
            status="failed" if error else "ok",
            error=str(error) if error else None,
            started_utc=self.started_utc,
            ended_utc=self.ended_utc or now(),
            log=self._read(failed=error is not None),
        )

    async def measure(self) -> None:
        """Measure; CollectError with the reason if it did not succeed."""
        await all_of(host.meet() for host in self.sides.values())
        for side, host in self.sides.items():
            self.record.facts[side] = host.facts
        trial = await self._tune()
        serving = self._serve(trial, ""), self._serve_load()
        try:
            before, test, load = await all_of([self._count(), *serving])
            died, unloaded = await self._run(test, load)
        finally:
            await self._end()
        self._compare(before, await self._count())
        self._judge(test, died, unloaded)

    # -- the steps -----------------------------------------------------------------------------

    async def _tune(self) -> Trial:
        """Set the trial's TCP buffers on hosts that this project created.

        Return the trial as its tool should run.
        """
        trial, size = self.trial, self.trial.requested_buffer_bytes
        hosts = self.sides.values()
        if all(session.host.owned for session in hosts):
            await all_of(session.tcp_buffers(size) for session in hosts)
            return replace(trial, tcp_buffer_bytes=trial.pair.tcp_buffer_bytes)
        if size is not None:
            for session in hosts:
                _uncut(session, size)
            self.record.warnings.append(
                "TCP buffers were set on the tool's own sockets: "
                f"{self.client.host.name} and {self.server.host.name} were not "
                "made by this project, so that their settings are left alone"
            )
        return trial

    async def _count(self) -> list[dict[str, Any]]:
        return await all_of(host.counters() for host in self.sides.values())

    async def _serve_load(self) -> _Traffic | None:
        """Serve the load under which the test is measured; None if the path is idle."""
        spec = self.trial.test
        seconds = SETTLE_S + spec.omit_s + spec.duration_s + LOAD_TAIL_S
        load = load_trial(self.trial, float(round(seconds)))
        if load is None:
            return None
        return await self._serve(load, "-load")

    async def _serve(self, trial: Trial, suffix: str) -> _Traffic:
        """Start the server side; use another port if one is taken."""
        tool = tools.tool(trial.test.tool)
        host, name = self.server.host, f"server{suffix}"
        # behind a load balancer, or a public address, it listens at its own
        own_address = host.own_address or host.data_address
        first = FIRST_PORT + bool(suffix) * PORTS_EACH // 2
        for number in range(5):
            slot = self.trial.order + 97 * (self.attempt - 1) + 31 * number
            port = first + slot * PORTS_EACH % PORTS
            commands = tool.commands(trial.request, host.data_address, port)
            served = tool.commands(trial.request, own_address, port).server or ()
            self.record.commands[f"client{suffix}"] = list(commands.client)
            self.record.commands[name] = list(served)
            if not served:
                return _Traffic(trial, commands, None)
            server = await self._start(
                self.server, name, commands.timeout_s + 20, commands.listens
            )
            server.ends_itself = commands.server_ends
            if not commands.listens or await server.listening():
                return _Traffic(trial, commands, server)
            code = self.record.exit[name] = await server.stop()
            if code == MISSING:
                raise CollectError(missing(trial.test.tool, self.server))
            if code != BUSY:
                cause = self._cause(name)
                raise CollectError(
                    f"{served[0]} on {self.server} does not listen ({cause})"
                )
        raise CollectError(
            f"{self.server}: something else listens on the test ports; free ports {FIRST_PORT} to "
            f"{LAST_PORT}"
        )

    async def _run(self, test: _Traffic, load: _Traffic | None) -> tuple[bool, bool]:
        """Start the load, run the test's client, and wait for the end of both.

        Return whether the server or the load ended before the client did.
        """
        if test.fills:
            await self._sample(test)
        elif load and load.fills:
            self.sampled = LOAD
            await self._sample(load)
        loading = None
        if load:
            loading = await self._start(self.client, LOAD, load.commands.timeout_s)
            await asyncio.sleep(SETTLE_S)
        self.started_utc = now()
        client = await self._start(self.client, "client", test.commands.timeout_s)
        self.record.exit["client"] = await client.wait()
        self.ended_utc = now()
        died = bool(test.server and test.server.ended and not test.commands.server_ends)
        unloaded = bool(loading and loading.ended)
        if loading:
            self.record.exit[LOAD] = await loading.wait()
        if MISSING in (self.record.exit["client"], self.record.exit.get(LOAD)):
            # nothing ran: the trial keeps its attempts until the tool is installed
            self.started_utc = None
        return died, unloaded

    async def _sample(self, traffic: _Traffic) -> None:
        """Sample the connections of what fills the path, on both ends."""
        port = traffic.commands.listens[0][1]
        ports = str(port), str(port + PORTS_EACH // 2 - 1)
        # five or more, but not more than four a second
        every_s = min(1.0, max(0.25, self.trial.test.duration_s / 8))
        command = ["sh", "-c", SCRIPT, "sh", *ports, f"{every_s:g}"]
        limit_s = traffic.commands.timeout_s + 20
        for side, session in self.sides.items():
            log: Any = gzip.GzipFile(self.folder / f"{side}{SAMPLES}", "wb", mtime=0)
            self.files.enter_context(log)
            start = session.remote.start
            sampler = await start(command, out=log, err=io.BytesIO(), limit_s=limit_s)
            self.samplers.append(sampler)

    async def _start(
        self,
        session: HostSession,
        name: str,
        limit_s: float,
        listens: Iterable[tuple[str, int]] = (),
    ) -> Process:
        """Start the command that the record calls `name`."""
        process = self.processes[name] = await session.remote.start(
            self.record.commands[name],
            out=self.file(f"{name}.out"),
            err=self.file(f"{name}.err"),
            limit_s=limit_s,
            listens=listens,
        )
        return process

    def file(self, name: str) -> BinaryIO:
        """Open an unbuffered file in the run folder."""
        return self.files.enter_context((self.folder / name).open("wb", buffering=0))

    async def _end(self) -> None:
        """End everything that was started, and record how it ended."""
        stops = [p.stop(grace_s=0.5 * p.ends_itself) for p in self.processes.values()]
        samplers = [sampler.stop() for sampler in self.samplers]
        codes = await asyncio.gather(*stops, *samplers)
        self.record.exit.update(zip(self.processes, codes, strict=False))

    def _compare(self, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
        """Record how the counters of both hosts grew, and what that makes doubtful."""
        both = zip(self.sides.items(), before, after, strict=True)
        for (side, session), old, new in both:
            grown = facts.difference(old, new)
            self.record.counters[side] = {"delta": grown, "state": new.get("state", {})}
            host = session.host
            doubts = facts.warnings(old, new, host.name, host.accelerated)
            self.record.warnings.extend(doubts)

    # -- what went wrong -----------------------------------------------------------------------

    def _judge(self, test: _Traffic, died: bool, unloaded: bool) -> None:
        """Raise CollectError with the reason, and what to do, if the client or its load failed."""
        tool, load = self.trial.test.tool, self.trial.test.during
        if died:
            what = f"the server of {tool} ended during the run"
            self.record.warnings.append(f"{self.server.host.name}: {what}")
        if self.record.exit["client"] == MISSING:
            raise CollectError(missing(tool, self.client))
        program = test.commands.client[0]
        if self.record.exit["client"] and died:
            cause = self._cause("server")
            raise CollectError(
                f"{program} on {self.server} ended while it served ({cause})"
            )
        if self.record.exit["client"]:
            cause = self._cause("client", test.commands.timeout_s)
            also = self._also(cause, "server")
            raise CollectError(f"{program} on {self.client}: {cause}{also}")
        if load and self.record.exit[LOAD] == MISSING:
            raise CollectError(missing(load.tool, self.client))
        if unloaded:
            cause = self._cause(LOAD)
            also = self._also(cause, "server-load")
            raise CollectError(
                f"the load ({load}) from {self.client} ended before the test did ({cause}){also}; "
                "what was measured is not latency under load"
            )

    def _cause(self, name: str, limit_s: float = 0) -> str:
        """Return how a process ended."""
        code, message = self.record.exit[name], self._message(name)
        if code == HUNG:
            return f"it hung and was ended after {limit_s:g} s ({message})"
        if code == FLOODED:
            most = f"{MAX_OUTPUT_BYTES // 2**20} MiB"
            return f"it printed more than {most} and was ended; ask it for less output"
        return f"exit code {code}: {message}"

    def _message(self, name: str) -> str:
        """Return the last message of a process: from its standard error, else from its log."""
        words = _lines(self.folder / f"{name}.err")
        log = self.folder / f"{name}.out"
        if not words:
            runs = _runs(_end(log), log.name)
            words = [run.error for run in runs if run.error and run.tool != UNREAD]
        words = words or _lines(log)
        return words[-1][:300] if words else "no message"

    def _also(self, message: str, server: str) -> str:
        """Return what to add to a client's message.

        The server's, if it failed too, and what to do where the network seems to be closed.
        """
        words = ""
        if self.record.exit.get(server) not in (None, 0, HUNG, STOPPED):
            words = f"; the server said: {self._cause(server)}"
        if _FULL.search(f"{message}{words}"):
            return (
                f"{words}; free some disk space on both hosts (iperf3 needs some in /tmp)"
            )
        if not _BLOCKED.search(message):
            return words
        return (
            f"{words}; does a firewall or security group block TCP or UDP ports {FIRST_PORT} to "
            f"{LAST_PORT} from {self.client.host.data_address} to "
            f"{self.server.host.data_address}?"
        )

    def _read(self, *, failed: bool) -> dict[str, Any]:
        """Return what the log says now, which decides whether the trial is repeated.

        Tables read the log again.
        """
        file = self.folder / "client.out"
        runs = _runs(_end(file) if failed else file.read_bytes(), file.name)
        own = [run for run in runs if run.tool == self.trial.test.tool]
        read = (own or runs)[0]
        error = read.error
        if error:
            error += self._also(error, "server")
        return {"status": read.status, "error": error}


async def all_of(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """Return all results, in order; if one fails, wait for the others, then raise the first."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def _uncut(session: HostSession, size: int) -> None:
    """Raise CollectError if the kernel of a host would cut a TCP buffer of this size.

    Most tools are not told.
    """
    names = ("net.core.rmem_max", "net.core.wmem_max")
    settings = session.facts.get("sysctl", {})
    limits = [int(settings[name]) for name in names if settings.get(name)]
    if size > min(limits, default=size):
        how = " ".join(f"{name}={size}" for name in names)
        raise CollectError(
            f"{session}: a TCP buffer of {size} bytes cannot be set, since its kernel allows "
            f"{min(limits)}; ask for less, or run there: sudo sysctl -w {how}"
        )


def missing(tool: str, session: HostSession) -> str:
    """Return the message that a host lacks a tool."""
    package = tools.tool(tool).PACKAGE
    if why := session.refused.get(tool):
        return f"{tool} is not installed, and {why}; install it there by hand"
    return (
        f"{tool} is not installed on {session}; use --install, or run there: apt-get install "
        f"{package}"
    )


_BLOCKED = re.compile(
    r"(?i)timed? ?out|unreachable|no route|unable to connect|failed to connect|hung|no messages "
    r"were received"
)
_FULL = re.compile(r"(?i)no space left|bad address|bus error|exit code 13[4569]\b")
"""iperf3 keeps what it sends in a file; if the disk is full, its pages cannot be allocated."""


def _runs(printed: bytes, name: str) -> list[ParsedRun]:
    """Return the runs of what a process printed: one that failed where it is no log."""
    try:
        return tools.parse(printed, file=name)
    except ParseError as error:
        return [ParsedRun(tool=UNREAD, status="failed", error=str(error))]


def _lines(file: Path) -> list[str]:
    text = tools.clean(tools.decode(_end(file)))
    return [line.strip() for line in text.splitlines() if line.strip()]


def _end(file: Path) -> bytes:
    """Return the last of what a tool printed: all of it, but for one that printed without end."""
    if not file.exists():
        return b""
    size = file.stat().st_size
    with file.open("rb") as log:
        if size > WHOLE_BYTES:
            log.seek(size - END_BYTES)
        return log.read()


def now() -> str:
    """Return the time, for a record."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
