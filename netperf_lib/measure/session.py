"""One host during a measurement.

Contacted, cleared of leftovers, described, tuned, counted, and restored.

TCP buffers are set by two kernel settings, ``tcp_rmem`` and ``tcp_wmem`` (smallest, initial and
largest size). Before the first change the host itself saves the original values, in a place that a
restart clears, as it resets the settings; the next session with the host restores them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from .. import tools
from ..errors import CollectError, InUseError, NetperfError, UnreachableError, UsageError
from ..experiment.deployment import Host
from . import facts
from .ssh import MISSING, Remote

_UNKNOWN = -1
"""TCP buffers of a host that may have been changed, wholly or in part."""
AGAIN_S = 5.0
"""Shortest time before an unreachable host is tried again."""
LEAVING_S = 15.0
"""Time that the processes of a collector that has just ended may take to end."""
WAIT_S = 30.0
"""Longest pause between two attempts to reach a host."""
FIRST_S = 60.0
"""How long to wait for a host that was not reached so far: it is rather declared wrongly than
away for a while."""

CHANGED = "[ -e /run/netperf_lib.tcp_buffers ]"
"""Whether there is something to restore; needs no privileges."""

SET = r"""
keep=/run/netperf_lib.tcp_buffers
cd /proc/sys/net/ipv4 || exit 1
if [ ! -e $keep ]; then
  for s in tcp_rmem tcp_wmem; do echo "$s $(cat $s)"; done >$keep.new || exit 1
  mv $keep.new $keep || exit 1
fi
while read -r s low first _; do
  [ "$first" -gt "$1" ] && first=$1
  [ "$low" -gt "$1" ] && low=$1
  echo "$low $first $1" >$s || exit 1
  now=$(echo $(cat $s))
  [ "$now" = "$low $first $1" ] || { echo "$s became $now, not $low $first $1" >&2; exit 1; }
done <$keep
"""
"""Let TCP send and receive buffers grow to ``$1`` bytes; needs root."""

RESTORE = r"""
keep=/run/netperf_lib.tcp_buffers
[ -e $keep ] || exit 0
cd /proc/sys/net/ipv4 || exit 1
while read -r s low first high; do
  [ "$(echo $(cat $s))" = "$low $first $high" ] || echo "$low $first $high" >$s || exit 1
  now=$(echo $(cat $s))
  [ "$now" = "$low $first $high" ] || { echo "$s became $now, not $low $first $high" >&2; exit 1; }
done <$keep
rm $keep
"""
"""Restore the values that `SET` found, where they have changed; needs root."""

INSTALL = r"""
export DEBIAN_FRONTEND=noninteractive
if command -v apt-get; then
  apt-get install -y -qq --no-install-recommends "$1" || {
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"
  }
elif command -v dnf; then dnf install -y -q "$1"
elif command -v yum; then yum install -y -q "$1"
elif command -v zypper; then zypper --non-interactive install "$1"
else echo "no known package manager (apt-get, dnf, yum, zypper)" >&2; false
fi >/dev/null
"""
"""Install the package ``$1``, updating the list of packages if it is not found; needs root."""

OTHERS = r"""
here=$(readlink /proc/self/ns/net)
for f in $(grep -lszE '^NETPERF_LIB=[^:]+:[0-9a-f]+:' /proc/[0-9]*/environ); do
  [ "$(readlink "${f%environ}ns/net")" = "$here" ] && tr '\0' '\n' <"$f" | sed -n 's/^NETPERF_LIB=//p'
done 2>/dev/null | sort -u | grep -vF "$1:"
true
"""  # noqa: E501  (as it is run or printed)
"""Markers of other collectors' processes on this host's network; ``$1`` is this collector's own
marker."""


class HostSession:
    """One host, from the first contact to the last.

    With `install`, missing tools that are `needed` are installed.
    """

    def __init__(
        self,
        host: Host,
        marker: str,
        needed: Iterable[str],
        *,
        install: bool,
        say: Callable[[str], None],
        logins: asyncio.Semaphore,
    ) -> None:
        self.host, self.remote, self.marker = host, Remote(host, marker, logins), marker
        self.needed, self.install = tuple(dict.fromkeys(needed)), install
        self.say = say
        self.facts: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        """Tools that could not be installed, and why."""
        self.away: UnreachableError | None = None
        """Why the host could not be reached at the last attempt."""
        self._away_since = self._tried = 0.0
        self._met = False
        self._lock = asyncio.Lock()
        self._buffers: int | None = _UNKNOWN

    def __str__(self) -> str:
        return str(self.remote)

    @property
    def missing(self) -> list[str]:
        """Tools that the host needs and does not have."""
        found = self.facts.get("tools", {})
        return [t for t in self.needed if tools.tool(t).VERSION[0] not in found]

    async def meet(self) -> None:
        """Connect if there is no connection; on a new one, clean up what a killed collector left.

        UnreachableError if there is no connection, InUseError if another collector measures on this
        host, CollectError if changed settings cannot be restored.
        """
        async with self._lock:
            if self.away and time.monotonic() < self._tried + AGAIN_S:
                raise self.away
            try:
                await self._meet()
            except UnreachableError as error:
                self._tried = time.monotonic()
                if self.away is None:
                    self._away_since = self._tried
                self.away = error
                raise
            self.away = None

    async def wait(self, patience_s: float) -> None:
        """Meet the host.

        If it cannot be reached, retry until it has been away for `patience_s`, or `FIRST_S`.
        """
        pause = AGAIN_S
        patience_s = patience_s if self.facts else min(patience_s, FIRST_S)
        while True:
            try:
                return await self.meet()
            except UnreachableError as error:
                left = self._away_since + patience_s - time.monotonic()
                if error.lasting or left <= 0:
                    raise
                if pause == AGAIN_S:
                    self.say(f"{error}; retrying for {left:.0f} s")
                await asyncio.sleep(min(pause, left))
                pause = min(1.5 * pause, WAIT_S)

    async def _meet(self) -> None:
        if await self.remote.connect():
            self._met = False
        if self._met:
            return
        if ended := await self.remote.end_leftovers():
            self.say(f"{self}: ended {ended} processes that a killed collector had left")
        end = time.monotonic() + LEAVING_S
        while others := (await self.remote.script(OTHERS, self.marker)).out.split():
            if time.monotonic() < end:
                await asyncio.sleep(0.5)
                continue
            await self.remote.close()
            names = ", ".join(sorted({repr(other.partition(":")[0]) for other in others}))
            raise InUseError(
                f"{self}: another collector measures on it now (experiment {names}), and each "
                "would disturb the other's numbers; wait for it to finish, or stop it"
            )
        if self.host.owned and await self._put_back():
            self.say(
                f"{self}: put back the TCP buffers that a killed collector had changed"
            )
        if not self.facts:
            await self._read_facts()
            if self.missing and self.install:
                await self._install()
                await self._read_facts()
        self._met = True

    async def _install(self) -> None:
        """Install what is missing; one that is unavailable must not prevent the others."""
        for tool in self.missing:
            package = tools.tool(tool).PACKAGE
            self.say(f"{self}: installing {package}")
            try:
                failure = f"{package} cannot be installed"
                await self._root(INSTALL, failure, package, limit_s=600)
            except CollectError as error:
                self.refused[tool] = str(error)

    async def _read_facts(self) -> None:
        versions = [" ".join(tools.tool(tool).VERSION) for tool in self.needed]
        address = self.host.own_address or self.host.data_address
        done = await self.remote.script(facts.FACTS, address, *versions, limit_s=60)
        self.facts = facts.read_facts(done.out)

    async def _root(
        self,
        script: str,
        failure: str,
        *arguments: str,
        remedy: str = "",
        limit_s: float = 20,
    ) -> None:
        done = await self.remote.script(script, *arguments, root=True, limit_s=limit_s)
        if done.exit_code:
            lines = (done.err or done.out).strip().splitlines()
            why = lines[-1] if lines else f"exit code {done.exit_code}"
            if done.exit_code == MISSING or "sudo" in why or "denied" in why:
                remedy = "log in as root, or as a user with passwordless sudo"
            text = f"{self}: {failure} ({why})"
            if remedy:
                text += f"; {remedy}"
            raise CollectError(text)

    async def counters(self) -> dict[str, Any]:
        """Read the counters of the kernel and the network interface."""
        nic = self.facts.get("nic") or ""
        done = await self.remote.script(facts.COUNTERS, nic)
        return facts.read_counters(done.out)

    async def tcp_buffers(self, limit: int | None) -> None:
        """Let TCP buffers grow to `limit` bytes; None restores the original values.

        UsageError if the host was not created by this project, CollectError if the buffers cannot
        be set.
        """
        if limit == self._buffers:
            return
        if not self.host.owned:
            raise UsageError(
                f"{self}: its settings are not changed, since it was not created by this project"
            )
        if limit is None:
            await self._put_back()
            return
        # one of the two settings may be changed even if the other cannot be
        self._buffers = _UNKNOWN
        failure = f"TCP buffers of {limit} bytes cannot be set"
        remedy = "make /proc/sys writable there, or remove tcp_buffer_bytes"
        await self._root(SET, failure, str(limit), remedy=remedy)
        self._buffers = limit

    async def _put_back(self) -> bool:
        """Restore the TCP buffers; return whether they had been changed."""
        self._buffers = _UNKNOWN
        # a user who may not change settings has nothing to restore, and needs no privileges to find
        # that out
        changed = (await self.remote.script(CHANGED)).exit_code == 0
        if changed:
            remedy = (
                "make /proc/sys writable there; the original values are in "
                "/run/netperf_lib.tcp_buffers"
            )
            await self._root(RESTORE, "the TCP buffers cannot be restored", remedy=remedy)
        self._buffers = None
        return changed

    async def leave(self) -> None:
        """Restore what was changed, and close the connection."""
        changed = self._met and self.host.owned and self._buffers is not None
        if changed and self.remote.connected:
            try:
                await self.tcp_buffers(None)
            except NetperfError as error:
                self.say(f"{error}; the next contact will try again")
        with contextlib.suppress(NetperfError):
            await self.remote.close()
