"""Run commands on a host: one connection, kept alive; argument lists, never shell text.

Nothing outlives its time.

Everything runs under a worker, a few lines of POSIX shell on the host that

- mark it (an environment variable), so that leftovers of a killed collector can be told from other
  processes;
- end it when its time is up or the connection breaks: the worker waits for the end of its standard
  input;
- report when a server listens, from the kernel's tables, without a probe that would count as a
  client.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import secrets
import shlex
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import asyncssh

from ..errors import SSHError, UnreachableError
from ..experiment.deployment import Host

CONNECT_S = 10.0
"""A host that does not answer within this time is unreachable."""
PROXY_S = 60.0
"""The same through a proxy, which may have to start first, such as a slow cloud tunnel."""
ALIVE_S, ALIVE_COUNT = 5.0, 3
"""Interval between probes of a silent connection, and the number of unanswered probes after
which it is dropped."""
GRACE_S = 10.0
"""Time beyond a command's own limit after which the host hangs, not the command."""
KNOWN_HOSTS = "~/.ssh/known_hosts"
RETRY_S = 1.0
"""Pause before the one more try of a connection that was lost before the login."""
MAX_LOGINS = 8
"""Connections that are made at once, and shells that are started at once.

A server with its defaults refuses some connections from the tenth on (MaxStartups), and the first
shells of many hosts behind one jump host take longer together than one may take.
"""
MAX_OUTPUT_BYTES = 256 * 2**20
"""A command that prints more is ended; a longer log would not be read."""

_LASTING = (
    asyncssh.PermissionDenied, asyncssh.HostKeyNotVerifiable, asyncssh.KeyImportError,
    FileNotFoundError, PermissionError, ValueError,
)  # fmt: skip

MISSING, BUSY, HUNG, STOPPED, FLOODED, KILLED = 127, 98, 124, 143, 153, 137
"""Exit codes: the program is not installed; the port is in use, if only by a connection that
just ended; the program exceeded its time; it was asked to end; it printed too much (the code of
a shell for a file that is too large); it was killed."""

_WORKER = r"""
export NETPERF_LIB="$1" LC_ALL=C PATH="$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin"
word=$2
exec 3<&0 </dev/null
say() { printf '\000%s %s\000' "$word" "$1"; printf '\000%s %s\000' "$word" "$1" >&2; }
look() {
  grep -Eqis "^ *[0-9]+: [0-9A-F]+:$(printf %04X "${1#*:}") $2" "/proc/net/${1%:*}" "/proc/net/${1%:*}6"
}
used() { for s in $sockets; do look "$s" "[0-9A-F]+:[0-9A-F]+ " && return; done; false; }
listen() { for s in $sockets; do look "$s" "[0-9A-F]+:0000 0[A7] " || return; done; }
say ready
while IFS= read -r limit <&3; do
  [ "$limit" ] || continue
  IFS= read -r sockets <&3
  command=
  while IFS= read -r line <&3 && [ "$line" != "$word" ]; do command="$command$line
"; done
  eval "set -- $command"
  command -v "$1" >/dev/null || { say 127; continue; }
  if [ "$sockets" ] && used; then say 98; continue; fi
  timeout -k 3 "$limit" "$@" 3<&- & tool=$!
  ( read -r _ <&3; kill -TERM $tool; sleep 2; kill -KILL -$tool ) >/dev/null 2>&1 & watch=$!
  poll=
  if [ "$sockets" ]; then
    ( until listen; do sleep 0.01; done; printf '\000%s listening\000' "$word" >&2 ) 3<&- & poll=$!
  fi
  wait $tool 2>/dev/null; code=$?  # a shell would have its own word on how it ended
  kill $watch $poll 2>/dev/null; wait $watch $poll 2>/dev/null
  kill -KILL -$tool 2>/dev/null
  say $code
done
"""  # noqa: E501  (as it is run or printed)
"""A shell that runs one command after the other. It reads for each the time limit, the sockets
that show that it is ready, and its quoted words up to a line with the worker's own word. An
empty line, or the end of the input, ends the command: a single character, so that its reader
cannot be killed with half of it read. One login shell, whose start-up files may be slow, serves
a whole measurement."""

_END_LEFTOVERS = r"""
ended=
for look in 1 2 3 4 5; do
  found=$(grep -lszxF "NETPERF_LIB=$1" /proc/[0-9]*/environ)
  [ "$found" ] || break
  for f in $found; do pid=${f#/proc/}; kill -KILL "${pid%/environ}" && ended="$ended $f"; done 2>/dev/null
  sleep 0.05
done
printf '%s\n' $ended | sort -u | grep -c environ
"""  # noqa: E501  (as it is run or printed)
"""A process may start another one while it is being looked for: look again until none is found."""

_AS_ROOT = (
    '[ "$(id -u)" = 0 ] || [ "${NETPERF_OWN_NETWORK:-}" ] || exec sudo -n "$@"; exec "$@"'
)


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a short command."""

    exit_code: int
    out: str
    err: str


def patience_s(host: Host) -> float:
    """Return how long to wait for a host to answer."""
    with contextlib.suppress(OSError):
        if (
            host.ssh_config
            and "proxy" in Path(host.ssh_config).read_text("utf-8", "replace").lower()
        ):
            return PROXY_S
    return CONNECT_S


class _Client(asyncssh.SSHClient):
    """Learns why the key exchange failed, also where the server closes at once."""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        # asyncssh tells of the end in the turn of the event loop in which the exchange fails,
        # which hides its error; asyncio tells of it again one turn later
        conn.eof_received = lambda: None  # type: ignore[method-assign]


class Remote:
    """One host, and the connection to it.

    The processes started here carry `marker`: the same for every collector of one measurement, so
    that a later one recognizes what an earlier one left, and different for every other measurement.
    """

    def __init__(
        self, host: Host, marker: str, logins: asyncio.Semaphore | None = None
    ) -> None:
        self.host = host
        self._logins = logins or contextlib.nullcontext()
        self.marker = f"{marker}:{host.name}"
        self._connection: asyncssh.SSHClientConnection | None = None
        self._lock = asyncio.Lock()
        self._idle: list[_Worker] = []

    def __str__(self) -> str:
        place = self.host.address
        if self.host.port != 22:
            place += f":{self.host.port}"
        return f"host {self.host.name} ({place})"

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and not self._connection.is_closed()

    async def connect(self) -> bool:
        """Connect if there is no connection; return whether a new one was made.

        UnreachableError if the host does not answer, refuses the key, or has another host key than
        the pinned one.
        """
        async with self._lock:
            if self.connected:
                return False
            waits_s = patience_s(self.host)
            options = self._options(waits_s)
            try:
                self._connection = await self._login(options, waits_s)
            except (OSError, asyncssh.Error, ValueError) as error:
                # whether a later connection would fail in the same way
                lasting = isinstance(error, _LASTING)
                if isinstance(error, socket.gaierror):
                    lasting = error.errno != socket.EAI_AGAIN
                reason = _reason(error, self.host, waits_s)
                raise UnreachableError(f"{self}: {reason}", lasting=lasting) from None
            self._idle = []
            return True

    async def _login(
        self, options: dict[str, Any], waits_s: float
    ) -> asyncssh.SSHClientConnection:
        """Make a connection; once more where it was lost."""

        async def login() -> asyncssh.SSHClientConnection:
            async with self._logins, asyncio.timeout(2 * waits_s):
                return await asyncssh.connect(self.host.address, **options)

        try:
            return await login()
        except (ConnectionResetError, BrokenPipeError, asyncssh.ConnectionLost):
            await asyncio.sleep(RETRY_S)
        return await login()

    def _options(self, waits_s: float) -> dict[str, Any]:
        """Return what is not left to the ssh configuration: Port, User, ProxyJump, …"""
        host = self.host
        options: dict[str, Any] = {
            "client_factory": _Client,
            "connect_timeout": waits_s,
            "login_timeout": waits_s,
            "keepalive_interval": ALIVE_S,
            "keepalive_count_max": ALIVE_COUNT,
            "password_auth": False,
            "kbdint_auth": False,
        }
        if host.port != 22:
            options["port"] = host.port
        if host.user:
            options["username"] = host.user
        if host.ssh_config:
            options["config"] = [host.ssh_config]
        if host.known_hosts:
            options["known_hosts"] = host.known_hosts
        if host.identity:
            # a key with a passphrase: the agent has it
            options |= {"client_keys": [host.identity], "ignore_encrypted": True}
            if host.owned:
                # our own key: an agent full of others would use up the server's patience
                options["agent_path"] = None
        return options

    async def close(self) -> None:
        """Close the connection, which ends any commands still running under it."""
        if self._connection is not None:
            self._connection.close()
            with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
                await asyncio.wait_for(self._connection.wait_closed(), 2)
            self._connection = None

    def abort(self) -> None:
        """Drop the connection at once: the host hangs."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def script(
        self, text: str, *arguments: str, limit_s: float = 20, root: bool = False
    ) -> Output:
        """Run a short shell script of this project; `arguments` are its ``$1``, ``$2`` …

        With `root` it runs as the superuser, by passwordless sudo for any other user, except on the
        lab's hosts, where every user may change the settings of the network. UnreachableError if
        the connection broke, SSHError if the script took longer than `limit_s`.
        """
        out, err = io.BytesIO(), io.BytesIO()
        command = ["sh", "-c", text, "sh", *arguments]
        if root:
            command = ["sh", "-c", _AS_ROOT, "sh", *command]
        process = await self.start(command, out=out, err=err, limit_s=limit_s)
        code = await process.wait()
        if code == HUNG:
            raise SSHError(
                f"{self}: a command of {limit_s:g} s at most was not done in time; is the host "
                "overloaded?"
            )
        return Output(code, _text(out), _text(err))

    async def end_leftovers(self) -> int:
        """End processes that an earlier collector of this measurement left running here.

        Return how many.

        Must be called before anything is started here.
        """
        within = ["timeout", f"{CONNECT_S:g}"]
        command = [*within, "sh", "-c", _END_LEFTOVERS, "sh", self.marker]
        waits = self._within(CONNECT_S + GRACE_S, "it answers no command")
        async with self._logins, waits:
            done = await self._connected().run(shlex.join(command))
        # a start-up file of the login shell may have printed something before
        count = re.search(r"(\d+)\s*\Z", str(done.stdout))
        return int(count[1]) if count else 0

    async def start(
        self,
        command: Sequence[str],
        *,
        out: BinaryIO,
        err: BinaryIO,
        limit_s: float,
        listens: Iterable[tuple[str, int]] = (),
    ) -> Process:
        """Start a command without shell interpretation; it is ended after `limit_s`.

        `out` and `err` receive its output as it is printed. The sockets that it `listens` on, as
        (``"tcp"`` or ``"udp"``, port), show that it is ready.
        """
        sockets = " ".join(f"{protocol}:{port}" for protocol, port in listens)
        turn: AbstractAsyncContextManager[Any] = self._logins
        if self._idle:
            turn = contextlib.nullcontext()
        async with turn, self._within(CONNECT_S + GRACE_S, "it starts no command"):
            worker = self._idle.pop() if self._idle else await self._worker()
            worker.process.stdin.write(
                f"{limit_s:g}\n{sockets}\n{shlex.join(command)}\n{worker.word}\n".encode()
            )
        return Process(self, worker, command, out, err, limit_s)

    async def _worker(self) -> _Worker:
        word = secrets.token_hex(8)
        line = shlex.join(["sh", "-c", _WORKER, "worker", self.marker, word])
        worker = _Worker(
            await self._connected().create_process(line, encoding=None), word
        )
        for stream in (worker.process.stdout, worker.process.stderr):
            async for _ in _output(stream, word, "ready".__eq__):
                pass
        return worker

    def _connected(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise UnreachableError(
                f"{self}: the connection broke; is the machine still running?"
            )
        return self._connection

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float, otherwise: str) -> AsyncIterator[None]:
        """Turn connection failures during a command into errors of this project."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self.abort()
            raise UnreachableError(
                f"{self} hangs: {otherwise} within {seconds:g} s; look at its console"
            ) from None
        except (asyncssh.Error, ConnectionError, EOFError) as error:
            why = f" ({error})".removesuffix(" ()")
            self.abort()
            raise UnreachableError(
                f"{self}: the connection broke{why}; is the machine still running?"
            ) from None


@dataclass(frozen=True, slots=True)
class _Worker:
    process: asyncssh.SSHClientProcess[bytes]
    word: str


def _text(printed: io.BytesIO) -> str:
    return printed.getvalue().decode("utf-8", errors="replace")


async def _output(
    stream: Any, word: str, heard: Callable[[str], bool]
) -> AsyncIterator[bytes]:
    """Yield what a stream of a worker brings, without the worker's own words.

    Until `heard` accepts one.
    """
    token = b"\0" + word.encode() + b" "
    held = b""
    while chunk := await stream.read(1 << 17):
        held += chunk
        while (at := held.find(token)) >= 0 and (end := held.find(b"\0", at + 1)) >= 0:
            yield held[:at]
            line, held = held[at + len(token) : end].decode(), held[end + 1 :]
            if heard(line):
                return
        # a partial word is completed by the next chunk
        if at < 0:
            at = held.rfind(b"\0", max(0, len(held) - len(token)))
        if at < 0:
            at = len(held)
        yield held[:at]
        held = held[at:]
    yield held
    raise EOFError


class Process:
    """A command that runs on a host."""

    def __init__(
        self,
        remote: Remote,
        worker: _Worker,
        command: Sequence[str],
        out: BinaryIO,
        err: BinaryIO,
        limit_s: float,
    ) -> None:
        self.remote, self.command, self.limit_s = remote, tuple(command), limit_s
        self._worker = worker
        self.ends_itself = True
        """It ends by itself, so waiting a little for it is worthwhile."""
        self._code: int | None = None
        self._begun = time.monotonic()
        self._flooded = False
        self._listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done: asyncio.Future[tuple[None, None]] = asyncio.gather(
            self._copy(worker.process.stdout, out), self._copy(worker.process.stderr, err)
        )
        self._done.add_done_callback(self._release)

    def _release(self, done: asyncio.Future[tuple[None, None]]) -> None:
        """Leave the worker to the next command, if it is in order."""
        if not done.cancelled() and done.exception() is None:
            self.remote._idle.append(self._worker)

    def _heard(self, line: str) -> bool:
        if line == "listening":
            self._listening.set_result(None)
            return False
        self._code = int(line)
        if self._flooded:
            self._code = FLOODED
        elif self._code == KILLED and time.monotonic() - self._begun >= self.limit_s:
            self._code = HUNG  # it ignored being asked to end
        return True

    async def _copy(self, stream: Any, sink: BinaryIO) -> None:
        left = MAX_OUTPUT_BYTES
        async for data in _output(stream, self._worker.word, self._heard):
            sink.write(data[: max(0, left)])
            left -= len(data)
            if left < 0 and not self._flooded:
                self._flooded = True
                self._ask_to_end()

    def _ask_to_end(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            self._worker.process.stdin.write(b"\n")

    @property
    def ended(self) -> bool:
        """Whether it has ended, as far as is known."""
        return self._done.done()

    async def listening(self, limit_s: float = 10) -> bool:
        """Wait until it listens; False if it ended first or did not listen in time."""
        both: set[asyncio.Future[Any]] = {self._listening, self._done}
        await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        return self._listening.done() and not self._done.done()

    async def wait(self) -> int:
        """Wait until it ends.

        Return its exit code (`HUNG`: it exceeded its time, `FLOODED`: it printed too much).

        UnreachableError if the connection broke or the host hangs, OSError if its output cannot be
        written here.
        """
        async with self.remote._within(
            self.limit_s + GRACE_S, f"{self.command[0]} did not end"
        ):
            await asyncio.shield(self._done)
        assert self._code is not None
        return self._code

    async def stop(self, *, grace_s: float = 0) -> int | None:
        """End it if it is still running after `grace_s`.

        Return its exit code, None if even that failed.
        """
        with contextlib.suppress(TimeoutError, UnreachableError):
            await asyncio.wait({self._done}, timeout=grace_s)
            if not self._done.done():
                self._ask_to_end()
            async with asyncio.timeout(8):
                return await self.wait()
        return None


def _configured(host: Host) -> Any:
    """Return what the ssh configuration says of a host."""
    config = [host.ssh_config] if host.ssh_config else ()
    return asyncssh.SSHClientConnectionOptions(host=host.address, config=config)


def _reason(error: BaseException, host: Host, waits_s: float) -> str:
    """What went wrong with a connection, and what to do about it."""
    match error:
        case asyncssh.KeyExchangeFailed():
            offered = str(error).rpartition(" received ")[2]
            return (
                f"the server offers only algorithms that are too old ({offered[:200]}): allow one "
                "in ssh_config (KexAlgorithms, HostKeyAlgorithms, Ciphers, MACs), or update the "
                "server"
            )
        case asyncssh.ConnectionLost() | ConnectionResetError() | BrokenPipeError() if (
            jump := _configured(host).tunnel
        ):
            return (
                f"the connection through the jump host {jump} was lost before the login; can it "
                "reach the host, and does its sshd refuse some connections (MaxStartups)?"
            )
        case asyncssh.PermissionDenied():
            user = f" for user {host.user}" if host.user else ""
            return (
                f"the key was refused{user}; add the public key to the host's authorized_keys, "
                "or name the right user and identity (one with a passphrase: ssh-add it first)"
            )
        case asyncssh.HostKeyNotVerifiable():
            return _unverified(host)
        case asyncssh.KeyImportError() | FileNotFoundError() if host.identity:
            return (
                f"the identity file cannot be used ({error}); name a private key in OpenSSH "
                "format"
            )
        case ValueError():
            file = host.known_hosts or KNOWN_HOSTS
            return f"{file}, or the ssh configuration, cannot be read ({error}); mend it"
        case TimeoutError():
            return (
                f"no answer within {waits_s:g} s; is the machine running, and does a firewall or "
                f"security group let port {host.port} through from here?"
            )
        case ConnectionRefusedError():
            return "connection refused; is the machine up and sshd running on that port?"
        case _:
            text = str(error) or type(error).__name__
            return f"no connection ({text}); check the address, the route and the ssh configuration"


def _unverified(host: Host) -> str:
    """What to do about a host key that was refused: it is unknown, or another one than before."""
    pinned = Path(host.known_hosts or KNOWN_HOSTS).expanduser()
    with contextlib.suppress(OSError, ValueError):
        if any(asyncssh.match_known_hosts(str(pinned), host.address, "", host.port)[:2]):
            return (
                f"its host key is not the one pinned in {pinned}: if you expect a new machine at "
                "this address, check the key and replace it there (ssh-keygen -R, then ssh once)"
            )
    return (
        f"its host key is not known: {pinned} has none of {host.address}; ssh there once and "
        "compare the key"
    )
