"""Host keys that are not known in advance.

Pinned at the first contact, and checked from then on.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh

from ..experiment.model import Host, Proof
from ..measure.ssh import MAX_LOGINS, patience_s
from .guests import side_by_side
from .owner import check_owner


def pinned(
    hosts: tuple[Host, ...], folder: Path
) -> tuple[tuple[Host, ...], dict[str, Proof]]:
    """Pin the host keys of hosts that have none, in a folder.

    Remove a file there to accept a new key.

    The first contact is trusted blindly: an attacker in between at that moment can stay there, so
    the proof for such a key does not hold. From then on any other key is refused. A host that does
    not answer is returned unchanged, so that connecting reports why.
    """
    logins = asyncio.Semaphore(MAX_LOGINS)

    async def first_contact(host: Host) -> asyncssh.SSHKey | None:
        options: dict[str, Any] = {"config": [host.ssh_config]} if host.ssh_config else {}
        if host.port != 22:
            options["port"] = host.port
        try:
            async with logins, asyncio.timeout(patience_s(host)):
                return await asyncssh.get_server_host_key(host.address, **options)
        except (OSError, asyncssh.Error, ValueError):
            return None

    files = {
        h.name: folder / f"{h.name}.known_hosts" for h in hosts if h.known_hosts is None
    }
    if folder.exists():
        check_owner(folder)
    strangers = [h for h in hosts if h.name in files and not files[h.name].exists()]
    for host, key in zip(
        strangers, side_by_side(map(first_contact, strangers)), strict=True
    ):
        if key is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # one file per host, valid for any name or address that it is reached by
            files[host.name].touch(mode=0o600)
            files[host.name].write_text(
                f"* {key.export_public_key().decode().strip()}\n", "utf-8"
            )
    out, proofs = [], {}
    for host in hosts:
        file = files.get(host.name)
        if file is None:
            proofs[host.name] = Proof(
                "host key", True, f"known before: {host.known_hosts}"
            )
        elif file.exists():
            check_owner(file)
            key = asyncssh.import_public_key(file.read_text("utf-8").partition(" ")[2])
            evidence = (
                f"{key.get_fingerprint()}, pinned at the first contact: compare it with "
                "the host's own"
            )
            proofs[host.name] = Proof("host key", None, evidence)
            host = replace(host, known_hosts=str(file.resolve()))
        out.append(host)
    return tuple(out), proofs
