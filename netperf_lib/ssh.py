"""Run commands on a host: one connection, kept alive; argument lists, never shell text; nothing outlives its time.

Every tool runs under a guard, a few lines of POSIX shell on the host that

- mark it (an environment variable), so that a leftover of a killed collector is told from other people's processes;
- end it when its time is over, and when the connection dies: the guard waits for the end of its standard input;
- say when a server listens, by looking where the kernel says so, with no probe that would count as a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from .errors import SSHError, UnreachableError
from .model import Host

__all__ = ["Output", "Process", "Remote"]

CONNECT_S = 10.0
"""A host that does not answer for so long is unreachable."""
AGAIN_S = 10.0
"""An unreachable host is not tried again sooner; every trial until then fails at once."""
ALIVE_S, ALIVE_COUNT = 5.0, 3
"""A silent connection is probed so often, and given up after so many probes without an answer."""
GRACE_S = 10.0
"""Time beyond a command's own limit after which the host hangs, not the command."""

MISSING, BUSY = 127, 98
"""Exit codes of the guard: the program is not installed; something else listens on the port."""

_READY = b"\0listening\0"
_GUARD = r"""
marker=$1 limit=$2 listens=$3; shift 3
export NETPERF_LIB="$marker" LC_ALL=C PATH="$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin"
exec 3<&0 </dev/null
command -v "$1" >/dev/null || exit 127
open() {
  case $1 in tcp) state=0A;; *) state=07;; esac
  grep -qis ":$(printf %04X "$2") [0-9A-F]*:0000 $state " "/proc/net/$1" "/proc/net/${1}6"
}
for l in $listens; do if open "${l%:*}" "${l#*:}"; then exit 98; fi; done
timeout -k 3 "$limit" "$@" 3<&- & tool=$!
( read -r _ <&3; kill -TERM $tool; sleep 2; kill -KILL -$tool ) >/dev/null 2>&1 & watch=$!
poll=
if [ "$listens" ]; then
  ( for l in $listens; do until open "${l%:*}" "${l#*:}"; do sleep 0.01; done; done
    printf '\000listening\000' >&2 ) 3<&- & poll=$!
fi
wait $tool; code=$?
kill $watch $poll 2>/dev/null
exit $code
"""

_END_LEFTOVERS = r"""
ended=0
for round in 1 2 3; do
  found=$(grep -lszxF "NETPERF_LIB=$1" /proc/[0-9]*/environ)
  [ "$found" ] || break
  for f in $found; do pid=${f#/proc/}; kill -KILL "${pid%/environ}" 2>/dev/null && ended=$((ended + 1)); done
done
echo $ended
"""


@dataclass(frozen=True, slots=True)
class Output:
    """What a short command gave back."""

    exit_code: int
    out: str
    err: str


class Remote:
    """One host, and the connection to it.

    Parameters
    ----------
    host : Host
        Where to connect, and how.
    marker : str
        What the processes started here are known by: equal for every collector of one measurement, so that a later
        one recognises what an earlier one left, and different from every other measurement's.
    """

    def __init__(self, host: Host, marker: str) -> None:
        self.host = host
        self.marker = f"{marker}:{host.name}"
        self._connection: asyncssh.SSHClientConnection | None = None
        self._lock = asyncio.Lock()
        self._failed: tuple[float, UnreachableError] | None = None

    def __str__(self) -> str:
        return f"host {self.host.name} ({self.host.address}{f':{self.host.port}' if self.host.port != 22 else ''})"

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and not self._connection.is_closed()

    async def connect(self) -> bool:
        """Connect where there is no connection; return whether it was made just now.

        Raises
        ------
        UnreachableError
            The host does not answer, refuses the key, or has another host key than the one pinned.
        """
        async with self._lock:
            if self.connected:
                return False
            if self._failed and time.monotonic() < self._failed[0] + AGAIN_S:
                raise self._failed[1]
            try:
                async with asyncio.timeout(2 * CONNECT_S):
                    self._connection = await asyncssh.connect(self.host.address, **self._options())
            except (OSError, asyncssh.Error, ValueError) as error:
                refused = UnreachableError(f"{self}: {_reason(error, self.host)}")
                self._failed = (time.monotonic(), refused)
                raise refused from None
            self._failed = None
            return True

    def _options(self) -> dict[str, Any]:
        host = self.host
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "login_timeout": CONNECT_S,
            "keepalive_interval": ALIVE_S,
            "keepalive_count_max": ALIVE_COUNT,
            "password_auth": False,
            "kbdint_auth": False,
        }
        # What is not said here is left to the ssh configuration: its Port, User, IdentityFile, ProxyJump, …
        if host.port != 22:
            options["port"] = host.port
        if host.user:
            options["username"] = host.user
        if host.ssh_config:
            options["config"] = [host.ssh_config]
        if host.identity:
            options["client_keys"] = [host.identity]
        if host.known_hosts:
            options["known_hosts"] = host.known_hosts
        if host.owned and host.identity:
            options["agent_path"] = None  # our own key: an agent full of others would use up the server's patience
        return options

    async def close(self) -> None:
        """End the connection, and with it whatever still runs under it."""
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

    async def script(self, text: str, *arguments: str, limit_s: float = 20) -> Output:
        """Run a short shell script of this project; `arguments` are its ``$1``, ``$2`` …

        Raises
        ------
        UnreachableError
            No connection, or it broke.
        SSHError
            It took longer than `limit_s`.
        """
        command = ["timeout", "-k", "3", f"{limit_s:g}", "sh", "-c", text, "sh", *arguments]
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                process = await self._open(command)
                process.stdin.write_eof()
                out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
                await process.wait_closed()
        except TimeoutError:
            self.abort()
            raise SSHError(
                f"{self} hangs: it did not answer for {limit_s + GRACE_S:g} s; look at its console"
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise self._lost(error) from None
        code = process.returncode
        if code is None:
            raise self._lost(None)
        if code == 124:
            raise SSHError(f"{self}: a command of {limit_s:g} s at most was not done in time; is the host overloaded?")
        return Output(code, _text(out), _text(err))

    async def end_leftovers(self) -> int:
        """End what an earlier collector of this measurement left running here; return how many processes."""
        done = await self.script(_END_LEFTOVERS, self.marker)
        return int(done.out or 0)

    async def start(
        self,
        command: Sequence[str],
        *,
        out: Path,
        err: Path,
        limit_s: float,
        listens: Iterable[tuple[str, int]] = (),
    ) -> Process:
        """Start a tool under the guard.

        Parameters
        ----------
        command : sequence of str
            Program and arguments: no part of it is read by a shell.
        out, err : Path
            Files here that receive what it prints, as it prints it.
        limit_s : float
            It is ended after so many seconds.
        listens : iterable of (str, int)
            Sockets that show that it is ready, as (``"tcp"`` or ``"udp"``, port).

        Raises
        ------
        UnreachableError
            No connection, or it broke.
        """
        sockets = " ".join(f"{protocol}:{port}" for protocol, port in listens)
        guard = ["sh", "-c", _GUARD, "guard", self.marker, f"{limit_s:g}", sockets, *command]
        try:
            async with asyncio.timeout(GRACE_S):
                process = await self._open(guard)
        except TimeoutError:
            self.abort()
            raise UnreachableError(f"{self} hangs: it starts no command; look at its console") from None
        except (OSError, asyncssh.Error) as error:
            raise self._lost(error) from None
        return Process(self, command, process, out, err, limit_s)

    async def _open(self, command: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        if self._connection is None:
            raise UnreachableError(f"{self}: there is no connection")
        return await self._connection.create_process(shlex.join(command), encoding=None)

    def _lost(self, error: BaseException | None) -> UnreachableError:
        why = f" ({error})" if error and str(error) else ""
        return UnreachableError(f"{self}: the connection broke{why}; is the machine still running?")


class Process:
    """A tool that runs on a host."""

    def __init__(
        self,
        remote: Remote,
        command: Sequence[str],
        process: asyncssh.SSHClientProcess[bytes],
        out: Path,
        err: Path,
        limit_s: float,
    ) -> None:
        self.remote, self.command, self.limit_s = remote, tuple(command), limit_s
        self._process = process
        self._listening = asyncio.Event()
        self._pumps = asyncio.gather(self._pump(process.stdout, out, b""), self._pump(process.stderr, err, _READY))

    async def _pump(self, stream: Any, place: Path, token: bytes) -> None:
        """Write a stream to a file, without the guard's own word in it."""
        held = b""
        with place.open("wb", buffering=0) as file:
            while chunk := await stream.read(1 << 16):
                if token:
                    held += chunk
                    if token not in held:
                        # a token that came in halves is completed by the next chunk
                        keep = next((n for n in range(len(token) - 1, 0, -1) if held.endswith(token[:n])), 0)
                        chunk, held = held[: len(held) - keep], held[len(held) - keep :]
                    else:
                        chunk, held, token = held.replace(token, b"", 1), b"", b""
                        self._listening.set()
                file.write(chunk)
            file.write(held)

    async def listening(self, limit_s: float = 10) -> bool:
        """Wait until it listens; False when it ended before, or did not listen in time."""
        ready = asyncio.ensure_future(self._listening.wait())
        closed = asyncio.ensure_future(self._process.wait_closed())
        try:
            await asyncio.wait({ready, closed}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            return self._listening.is_set() and not closed.done()
        finally:
            ready.cancel()
            closed.cancel()

    async def wait(self) -> int:
        """Wait until it ends; return its exit code (124: its time was over).

        Raises
        ------
        UnreachableError
            The connection broke.
        SSHError
            The host hangs.
        OSError
            What it printed cannot be written here.
        """
        try:
            async with asyncio.timeout(self.limit_s + GRACE_S):
                await self._pumps
                await self._process.wait_closed()
        except TimeoutError:
            self.remote.abort()
            raise UnreachableError(
                f"{self.remote} hangs: {self.command[0]} did not end in {self.limit_s + GRACE_S:g} s"
            ) from None
        except asyncssh.Error as error:
            raise self.remote._lost(error) from None
        code = self._process.returncode
        if code is None:
            raise self.remote._lost(None)
        return code

    async def stop(self, limit_s: float = 6) -> int | None:
        """End it where it still runs; return its exit code, None when even that failed."""
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write_eof()
        try:
            async with asyncio.timeout(limit_s):
                return await self.wait()
        except (TimeoutError, SSHError):
            return None


def _text(data: Any) -> str:
    return bytes(data or b"").decode("utf-8", errors="replace")


def _reason(error: BaseException, host: Host) -> str:
    """What went wrong with a connection, and what to do about it."""
    match error:
        case asyncssh.PermissionDenied():
            return (
                f"the key was refused{f' for user {host.user}' if host.user else ''}; add the public key to the host's "
                "authorized_keys, or name the right user and identity"
            )
        case asyncssh.HostKeyNotVerifiable():
            pinned = host.known_hosts or "known_hosts"
            return (
                f"its host key is not the one pinned in {pinned} (or none is pinned): if you expect a new machine at "
                f"this address, check the key and replace it there (ssh-keygen -R, then ssh once)"
            )
        case asyncssh.KeyImportError():
            return f"the identity file cannot be used ({error}); name a private key in OpenSSH format"
        case TimeoutError():
            return (
                f"no answer within {CONNECT_S:g} s; is the machine running, and does a firewall or security group let "
                "port 22 through from here?"
            )
        case ConnectionRefusedError():
            return "connection refused; is the machine up and sshd running on that port?"
        case _:
            text = str(error) or type(error).__name__
            return f"no connection ({text}); check the address, the route and the ssh configuration"
