"""The hosts of a deployment while they are measured: met once, cleared up, tuned, counted, and left as they were."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

from .. import tools
from ..errors import CollectError, NetperfError, UsageError
from ..experiment.model import Host
from . import facts, tcp_buffers
from .ssh import MISSING, Remote

__all__ = ["Station"]

log = logging.getLogger("netperf_lib.measure.collector")

_UNKNOWN = -1
"""TCP buffers of a host that may have been changed, or changed in part."""


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
        self.refused: dict[str, str] = {}
        """Tools that could not be installed, and why."""
        self._met = False
        self._buffers: int | None = _UNKNOWN

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
        if await self.remote.connect():
            self._met = False
        if self._met:
            return
        if ended := await self.remote.end_leftovers():
            log.warning("%s: ended %d processes that a killed collector had left", self, ended)
        self._buffers = _UNKNOWN
        if self.host.owned and await self._put_back():
            log.warning("%s: put back the TCP buffers that a killed collector had changed", self)
        if not self.facts:
            await self._look()
            if self.missing and self.install:
                await self._install()
                await self._look()
        self._met = True

    async def _install(self) -> None:
        """Install each tool that is missing by itself: one that is not to be had must not keep the others away."""
        for tool in self.missing:
            package = str(tools.tool(tool).PACKAGE)
            log.info("%s: installing %s", self, package)
            try:
                await self._root(tcp_buffers.INSTALL, f"{package} cannot be installed", package, limit_s=600)
            except CollectError as error:
                log.error("%s", error)  # noqa: TRY400 (users get sentences)
                self.refused[tool] = str(error)

    async def _look(self) -> None:
        versions = [" ".join(tools.tool(tool).VERSION) for tool in self.needed]
        told = await self.remote.script(facts.FACTS, self.host.data_address, *versions, limit_s=60)
        offset, uncertainty = await self.remote.clock_offset() or (None, None)
        self.facts = facts.read_facts(told.out) | {
            "clock_offset_s": None if offset is None else round(offset, 6),
            "clock_uncertainty_s": None if uncertainty is None else round(uncertainty, 6),
        }
        clock = "not known" if offset is None else f"{offset:+.3f} s (±{uncertainty:.3f} s)"
        log.info("%s: %s, clock %s", self, self.facts.get("kernel"), clock)

    async def _root(self, script: str, otherwise: str, *arguments: str, remedy: str = "", limit_s: float = 20) -> None:
        done = await self.remote.script(script, *arguments, root=True, limit_s=limit_s)
        if done.exit_code:
            said = (done.err or done.out).strip().splitlines()
            why = said[-1] if said else f"exit code {done.exit_code}"
            if done.exit_code == MISSING or "sudo" in why or "denied" in why:
                remedy = "the user there must be root, or one whom sudo asks no password"
            raise CollectError(f"{self}: {otherwise} ({why}){f'; {remedy}' if remedy else ''}")

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
        self._buffers = _UNKNOWN  # one of two settings may be changed when the other cannot be
        if limit is None:
            await self._put_back()
        else:
            remedy = "let /proc/sys be written there, or leave tcp_buffer_bytes out"
            await self._root(tcp_buffers.SET, f"TCP buffers of {limit} bytes cannot be set", str(limit), remedy=remedy)
            self._buffers = limit

    async def _put_back(self) -> bool:
        """Put the TCP buffers back as they were found; return whether they were changed."""
        # who may not change anything has nothing to put back, and needs no right to find that out
        changed = (await self.remote.script(tcp_buffers.CHANGED)).exit_code == 0
        if changed:
            remedy = "let /proc/sys be written there: what was found stands in /run/netperf_lib.tcp_buffers"
            await self._root(tcp_buffers.RESTORE, "the TCP buffers cannot be put back", remedy=remedy)
        self._buffers = None
        return changed

    async def leave(self) -> None:
        """Put back what was changed, and end the connection."""
        if self._met and self._buffers is not None and self.host.owned and self.remote.connected:
            try:
                await self.tcp_buffers(None)
            except NetperfError as error:
                log.error("%s: %s; the next contact will try again", self, error)  # noqa: TRY400 (users get sentences)
        with contextlib.suppress(NetperfError):
            await self.remote.close()
