"""The hosts of a deployment while they are measured: met once, cleared up, tuned, counted, and left as they were."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

from . import facts, tools, tuning
from .errors import CollectError, NetperfError, UsageError
from .model import Host
from .ssh import Remote

__all__ = ["Station"]

log = logging.getLogger("netperf_lib.collect")


class Station:
    """One host.

    Parameters
    ----------
    host : Host
        Where it is.
    marker : str
        See `Remote`.
    needed : iterable of str
        Names of the tools that it must have.
    install : bool
        Install those that it lacks.
    """

    def __init__(self, host: Host, marker: str, needed: Iterable[str], *, install: bool = False) -> None:
        self.host, self.remote = host, Remote(host, marker)
        self.needed, self.install = tuple(dict.fromkeys(needed)), install
        self.facts: dict[str, Any] = {}
        self._buffers: int | None = None

    def __str__(self) -> str:
        return str(self.remote)

    @property
    def missing(self) -> list[str]:
        """Tools that it needs and does not have."""
        return [t for t in self.needed if tools.tool(t).VERSION[0] not in self.facts.get("tools", {})]

    async def meet(self) -> None:
        """Connect where there is no connection; on a new one clear up what a killed collector left.

        Raises
        ------
        UnreachableError
            No connection.
        CollectError
            What was left cannot be put back.
        """
        if not await self.remote.connect():
            return
        if ended := await self.remote.end_leftovers():
            log.warning("%s: ended %d processes that a killed collector had left", self, ended)
        self._buffers = None
        if self.host.owned and await self._root(tuning.RESTORE, "the TCP buffers cannot be put back"):
            log.warning("%s: put back the TCP buffers that a killed collector had changed", self)
        if not self.facts:
            await self._look()
            if self.missing and self.install:
                packages = sorted(str(tools.tool(t).PACKAGE) for t in self.missing)
                log.info("%s: installing %s", self, ", ".join(packages))
                await self._root(tuning.INSTALL, f"{', '.join(packages)} cannot be installed", *packages, limit_s=600)
                await self._look()

    async def _look(self) -> None:
        versions = [" ".join(tools.tool(tool).VERSION) for tool in self.needed]
        told = await self.remote.script(facts.FACTS, self.host.data_address, *versions, limit_s=60)
        offset, uncertainty = await self.remote.clock_offset()
        self.facts = facts.read_facts(told.out) | {
            "clock_offset_s": round(offset, 6),
            "clock_uncertainty_s": round(uncertainty, 6),
        }
        log.info("%s: %s, clock %+.3f s (±%.3f s)", self, self.facts.get("kernel"), offset, uncertainty)

    async def _root(self, script: str, otherwise: str, *arguments: str, limit_s: float = 20) -> str:
        done = await self.remote.script(script, *arguments, root=True, limit_s=limit_s)
        if done.exit_code:
            said = (done.err or done.out).strip().splitlines()
            raise CollectError(
                f"{self}: {otherwise} ({said[-1] if said else f'exit code {done.exit_code}'}); "
                "the user there must be root, or one whom sudo asks no password"
            )
        return done.out.strip()

    async def counters(self) -> dict[str, Any]:
        """Read the counters of the kernel and the network interface."""
        return facts.read_counters((await self.remote.script(facts.COUNTERS, self.facts.get("nic") or "")).out)

    async def tcp_buffers(self, limit: int | None) -> None:
        """Let TCP buffers grow to `limit` bytes; None: as they were found.

        Raises
        ------
        UsageError
            The host is not this project's to change.
        CollectError
            It cannot be done.
        """
        if limit == self._buffers:
            return
        if not self.host.owned:
            raise UsageError(f"{self}: its settings are not changed, for it was not made by this project")
        if limit is None:
            await self._root(tuning.RESTORE, "the TCP buffers cannot be put back")
        else:
            await self._root(tuning.SET, f"TCP buffers of {limit} bytes cannot be set", str(limit))
        self._buffers = limit

    async def leave(self) -> None:
        """Put back what was changed, and end the connection."""
        if self._buffers is not None and self.remote.connected:
            try:
                await self.tcp_buffers(None)
            except NetperfError as error:
                log.error("%s: %s; the next contact will try again", self, error)  # noqa: TRY400 (users get sentences)
        with contextlib.suppress(NetperfError):
            await self.remote.close()
