"""One trial on two hosts: tune, serve, load, measure, and report what went wrong.

The server is started and listens, the client runs, both are ended; counters are read before and
after on both hosts at once, during waits that are needed anyway.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from .. import tools
from ..data.connections import LOAD
from ..errors import CollectError, ParseError
from ..experiment.model import Trial
from ..experiment.schedule import load_trial
from ..tools.parsed import ParsedRun
from ..tools.ss import SAMPLES, SCRIPT
from . import facts
from .session import HostSession
from .ssh import BUSY, FLOODED, HUNG, MAX_OUTPUT_BYTES, MISSING, STOPPED, Process

FIRST_PORT, PORTS, PORTS_EACH = 20_000, 1_000, 4
"""Test ports: each trial uses some of this range, which firewalls between the hosts must allow."""
WHOLE_BYTES, END_BYTES = 4 * 2**20, 64 * 1024
"""Of the output of a tool that failed, all is looked at up to the first size, and of a longer
one only the end."""
UNREAD = "unknown"
"""Name of the tool of a log that is not recognized."""
SETTLE_S, LOAD_TAIL_S = 1.0, 4.0
"""How long a load runs before the test, and beyond the test's duration: the test must not
outlast it, and itself needs some time to begin and to end."""


Sampled = tuple[Trial, tools.Commands]
"""A test or a load, and its commands."""


@dataclass(slots=True)
class TrialRun:
    """A run in progress."""

    trial: Trial
    client: HostSession
    server: HostSession
    attempt: int
    folder: Path
    record: dict[str, Any]
    processes: dict[str, Process] = field(default_factory=dict)
    samplers: list[Process] = field(default_factory=list)
    files: ExitStack = field(default_factory=ExitStack)

    @property
    def sides(self) -> dict[str, HostSession]:
        """Both hosts by their side."""
        return {"client": self.client, "server": self.server}

    def file(self, name: str) -> BinaryIO:
        """Open an unbuffered file in the run folder."""
        return self.files.enter_context((self.folder / name).open("wb", buffering=0))

    def message(self, side: str) -> str:
        """Return the last message of one side: from its standard error, else from its log."""
        words = _lines(self.folder / f"{side}.err")
        words = words or [
            run.error for run in self._log(side) if run.error and run.tool != UNREAD
        ]
        words = words or _lines(self.folder / f"{side}.out")
        return words[-1][:300] if words else "no message"

    def _log(self, side: str) -> list[ParsedRun]:
        """Read the log of one side; of a run that failed, only its end."""
        log = self.folder / f"{side}.out"
        if not log.exists():
            return []
        failed = self.record["status"] == "failed" or self.record["exit"].get(side)
        text = _end(log) if failed else log.read_bytes()
        try:
            return tools.parse(text, file=log.name)
        except ParseError as error:
            return [ParsedRun(tool=UNREAD, status="failed", error=str(error))]

    async def measure(self) -> None:
        """Measure; the record shows what happened, even if it failed."""
        record, hosts = self.record, list(self.sides.values())
        await all_of(host.meet() for host in hosts)
        program = tools.tool(self.trial.test.tool).VERSION[0]
        record["tool_version"] = self.client.facts.get("tools", {}).get(program)
        record["facts"] = {side: host.facts for side, host in self.sides.items()}
        tuned = await self._tune(hosts)
        before = asyncio.gather(*(host.counters() for host in hosts))
        try:
            commands, died, unloaded = await self._run(tuned, before)
        finally:
            before.cancel()
            await asyncio.gather(before, return_exceptions=True)
            await self._end()
        after = await asyncio.gather(*(host.counters() for host in hosts))
        counted = zip(self.sides.items(), before.result(), after, strict=True)
        for (side, session), old, new in counted:
            grown = facts.difference(old, new)
            record["counters"][side] = {"delta": grown, "state": new.get("state", {})}
            host = session.host
            record["warnings"] += facts.warnings(old, new, host.name, host.accelerated)
        if died:
            what = f"the server of {self.trial.test.tool} ended during the run"
            record["warnings"].append(f"{self.server.host.name}: {what}")
        if record["exit"]["client"]:
            raise CollectError(self._why(commands, died))
        if unloaded:
            raise CollectError(self._why_unloaded())

    async def _run(
        self, tuned: Trial, before: Awaitable[Any]
    ) -> tuple[tools.Commands, bool, bool]:
        """Start the server and the load, run the client, and wait for its end.

        Return what ran, and whether the server or the load ended before the client did.
        """
        record = self.record
        commands, listener = await self._serve(tuned)
        sampled = {"client": (self.trial, commands)}
        load = await self._load(sampled)
        await before
        await self._sample(sampled)
        if load:
            await asyncio.sleep(SETTLE_S)
        record["started_utc"] = now()
        client = await self._start(commands, self.client, "client")
        code = record["exit"]["client"] = await client.wait()
        record["ended_utc"] = now()
        ended = listener is not None and listener.ended
        died = ended and not commands.server_ends
        unloaded = load is not None and load.ended
        if load:
            record["exit"]["client-load"] = await load.wait()
        if MISSING in (code, record["exit"].get("client-load")):
            # nothing ran: the trial keeps its attempts until the tool is installed
            record["started_utc"] = None
        return commands, died, unloaded

    async def _end(self) -> None:
        """End everything that was started, and record how it ended."""
        stops = [p.stop(grace_s=0.5 * p.ends_itself) for p in self.processes.values()]
        samplers = [sampler.stop() for sampler in self.samplers]
        stopped, _ = await asyncio.gather(
            asyncio.gather(*stops), asyncio.gather(*samplers)
        )
        self.record["exit"] |= dict(zip(self.processes, stopped, strict=True))

    async def _tune(self, hosts: Sequence[HostSession]) -> Trial:
        """Set the trial's TCP buffers on hosts that this project created.

        Return the trial as its tool should run.
        """
        trial, size = self.trial, self.trial.requested_buffer_bytes
        if all(h.host.owned for h in hosts):
            await all_of(h.tcp_buffers(size) for h in hosts)
            return replace(trial, tcp_buffer_bytes=trial.pair.tcp_buffer_bytes)
        if size is not None:
            for session in hosts:
                _uncut(session, size)
            self.record["warnings"].append(
                "TCP buffers were set on the tool's own sockets: "
                f"{' and '.join(h.host.name for h in hosts)} were not "
                "made by this project, so that their settings are left alone"
            )
        return trial

    async def _serve(
        self, trial: Trial, side: str = ""
    ) -> tuple[tools.Commands, Process | None]:
        """Start the server side; use another port if one is taken."""
        record, words = self.record, tools.tool(trial.test.tool).commands
        server, name = self.server, f"server{side}"
        for number in range(5):
            slot = (
                (self.trial.order + 97 * (self.attempt - 1) + 31 * number)
                * PORTS_EACH
                % PORTS
            )
            port = FIRST_PORT + slot + (PORTS_EACH // 2 if side else 0)
            commands: tools.Commands = words(
                trial.request, server.host.data_address, port
            )
            record["commands"][f"client{side}"] = list(commands.client)
            # behind a load balancer, or a public address, it listens at its own
            own = server.host.own_address or server.host.data_address
            served = words(trial.request, own, port)
            record["commands"][name] = list(served.server or ())
            if commands.server is None:
                return commands, None
            started = await self._start(served, server, name)
            if not commands.listens or await started.listening():
                return commands, started
            code = record["exit"][name] = await started.stop()
            if code == MISSING:
                raise CollectError(missing(trial.test.tool, server))
            if code != BUSY:
                cause = self._cause(name)
                raise CollectError(
                    f"{commands.server[0]} on {server} does not listen ({cause})"
                )
        last = FIRST_PORT + PORTS - 1
        raise CollectError(
            f"{server}: something else listens on the test ports; free ports {FIRST_PORT} to {last}"
        )

    async def _load(self, sampled: dict[str, Sampled]) -> Process | None:
        """Start the load under which the test is measured, and add what it runs to `sampled`."""
        spec = self.trial.test
        seconds = SETTLE_S + spec.omit_s + spec.duration_s + LOAD_TAIL_S
        load = load_trial(self.trial, float(round(seconds)))
        if load is None:
            return None
        commands, _ = await self._serve(load, "-load")
        sampled[LOAD] = load, commands
        return await self._start(commands, self.client, "client-load")

    async def _sample(self, sampled: Mapping[str, Sampled]) -> None:
        """Sample the connections of what fills the path, on both ends: the test, or its load."""
        filling = [side for side, what in sampled.items() if _fills(*what)]
        if not filling:
            return
        self.record["sampled"] = filling[0]
        _, commands = sampled[filling[0]]
        port = commands.listens[0][1]
        ports = str(port), str(port + PORTS_EACH // 2 - 1)
        # five or more, but not more than four a second
        every_s = min(1.0, max(0.25, self.trial.test.duration_s / 8))
        command = ["sh", "-c", SCRIPT, "sh", *ports, f"{every_s:g}"]
        limit_s = commands.timeout_s + 20
        for side, session in self.sides.items():
            log: Any = gzip.GzipFile(self.folder / f"{side}{SAMPLES}", "wb", mtime=0)
            self.files.enter_context(log)
            start = session.remote.start
            sampler = await start(command, out=log, err=io.BytesIO(), limit_s=limit_s)
            self.samplers.append(sampler)

    async def _start(
        self, commands: tools.Commands, session: HostSession, side: str
    ) -> Process:
        serves = side.startswith("server")
        process = await session.remote.start(
            (commands.server or ()) if serves else commands.client,
            out=self.file(f"{side}.out"),
            err=self.file(f"{side}.err"),
            limit_s=commands.timeout_s + (20 if serves else 0),
            listens=commands.listens if serves else (),
        )
        process.ends_itself = not serves or commands.server_ends
        self.processes[side] = process
        return process

    def _cause(self, side: str, limit_s: float = 0) -> str:
        """Return how a process ended."""
        code, message = self.record["exit"][side], self.message(side)
        if code == HUNG:
            return f"it hung and was ended after {limit_s:g} s ({message})"
        if code == FLOODED:
            most = f"{MAX_OUTPUT_BYTES // 2**20} MiB"
            return f"it printed more than {most} and was ended; ask it for less output"
        return f"exit code {code}: {message}"

    def _why(self, commands: tools.Commands, died: bool) -> str:
        """Return why a client failed, and what to do about it."""
        tool = commands.client[0]
        if self.record["exit"]["client"] == MISSING:
            return missing(self.trial.test.tool, self.client)
        if died:
            cause = self._cause("server")
            return f"{tool} on {self.server} ended while it served ({cause})"
        cause = self._cause("client", commands.timeout_s)
        return f"{tool} on {self.client}: {cause}{self._also(cause)}"

    def _why_unloaded(self) -> str:
        """Return why the load did not last as long as the test measured under it."""
        load = self.trial.test.during
        if load and self.record["exit"]["client-load"] == MISSING:
            return missing(load.tool, self.client)
        cause = self._cause("client-load")
        return (
            f"the load ({load}) from {self.client} ended before the test did ({cause})"
            f"{self._also(cause, '-load')}; what was measured is not latency under load"
        )

    def _also(self, message: str, side: str = "") -> str:
        """Return what to add to a client's message.

        The server's, if it failed too, and what to do where the network seems to be closed.
        """
        words = ""
        if self.record["exit"].get(f"server{side}") not in (None, 0, HUNG, STOPPED):
            words = f"; the server said: {self._cause(f'server{side}')}"
        if _FULL.search(f"{message}{words}"):
            return (
                f"{words}; free some disk space on both hosts (iperf3 needs some in /tmp)"
            )
        if not _BLOCKED.search(message):
            return words
        last = FIRST_PORT + PORTS - 1
        return (
            f"{words}; does a firewall or security group block TCP or UDP ports {FIRST_PORT} to "
            f"{last} from {self.client.host.data_address} to {self.server.host.data_address}?"
        )

    def read(self) -> None:
        """Record what the log says now, which decides whether the trial is repeated.

        Tables read the log again.
        """
        read: dict[str, Any] = {"status": "failed", "error": "the tool printed nothing"}
        if runs := self._log("client"):
            parsed = next((p for p in runs if p.tool == self.trial.test.tool), runs[0])
            error = parsed.error
            if error:
                error += self._also(error)
            read = {"status": parsed.status, "error": error}
        self.record["log"] = read


async def all_of(work: Iterable[Awaitable[None]]) -> None:
    """Await all, even if one fails; then raise the first failure."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _fills(trial: Trial, commands: tools.Commands) -> bool:
    """Return whether a test sends as much as it can, or as was asked for, over TCP."""
    if "udp" in trial.test.test or trial.options.get("protocol") == "udp":
        return False
    rate_bps = tools.tool(trial.test.tool).rate_bps(trial.request)
    return bool(commands.listens) and rate_bps > 0


def _uncut(session: HostSession, size: int) -> None:
    """Raise CollectError if the kernel of a host would cut a TCP buffer of this size.

    Most tools are not told.
    """
    names = ("net.core.rmem_max", "net.core.wmem_max")
    limits = [
        int(most) for name in names if (most := session.facts.get("sysctl", {}).get(name))
    ]
    if size > min(limits, default=size):
        raise CollectError(
            f"{session}: a TCP buffer of {size} bytes cannot be set, since its kernel allows "
            f"{min(limits)}; ask for "
            f"less, or run there: sudo sysctl -w {' '.join(f'{name}={size}' for name in names)}"
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


def _lines(file: Path) -> list[str]:
    text = tools.clean(tools.decode(_end(file))) if file.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _end(file: Path) -> bytes:
    """Return the last of what a tool printed: all of it, but for one that printed without end."""
    size = file.stat().st_size
    with file.open("rb") as log:
        log.seek(0 if size <= WHOLE_BYTES else size - END_BYTES)
        return log.read()


_FULL = re.compile(r"(?i)no space left|bad address|bus error|exit code 13[4569]\b")
"""iperf3 keeps what it sends in a file; if the disk is full, its pages cannot be allocated."""


def now() -> str:
    """Return the time, for a record."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
