"""Record of what was placed: written before anything is created, so that it can be found again."""

from __future__ import annotations

import datetime as dt
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from pydantic import ConfigDict, TypeAdapter

from ...data.files import appearing
from ...errors import AzureError
from .groups import TAG, Target
from .prices import Cost

CREATED, EXPIRES = "netperf-created", "netperf-expires"
"""Tags with the times in UTC."""


@dataclass(kw_only=True, eq=False)
class Record(Target):
    """A deployment that was or may have been created."""

    number: int
    attempt: int
    tags: dict[str, str]
    """Tags of its resources, also with its name and when it was made and expires."""
    proven: bool = False
    """It was complete once."""

    def renew(self, expires_h: float) -> None:
        """Let its time begin now, as far as it has not been started; it expires anew anyway."""
        now = dt.datetime.now(dt.UTC)
        if not self.starts:
            self.tags[CREATED] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
        expires = now + dt.timedelta(hours=expires_h)
        self.tags[EXPIRES] = f"{expires:%Y-%m-%dT%H:%M:%SZ}"

    def age_h(self, now: dt.datetime) -> float:
        """Return the hours since it was first started."""
        if not self.starts:
            return 0.0
        created = dt.datetime.fromisoformat(self.tags[CREATED])
        return max(0.0, (now - created).total_seconds() / 3600)


@dataclass
class Stored:
    """What `azure.json` holds; the bill stays when everything else is removed."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    subscription: str = ""
    mark: str = ""
    """Part of every name, so that no other experiment has the same."""
    groups: list[Record] = field(default_factory=list)
    cost: Cost | None = None
    hours: float = 0.0
    """Hours of machines that are gone."""


_STORED = TypeAdapter(Stored)


IDENTITY = "id_ed25519"
"""Name of the key that opens the VMs."""


class State:
    """The folder of one experiment's deployments: what was placed, and the keys to the VMs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, folder / "ssh"
        file = folder / "azure.json"
        try:
            content = file.read_bytes() if file.exists() else b"{}"
            self.data = _STORED.validate_json(content)
        except ValueError:
            raise AzureError(
                f"{file} is damaged, or of an earlier release: find what was placed with "
                "`npl down --all`, or by the tag netperf-deployment, then delete the file"
            ) from None

    @classmethod
    @contextmanager
    def locked(cls, folder: Path) -> Iterator[State]:
        """Yield the state, for one process at a time."""
        import fcntl  # not on Windows

        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "azure.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise AzureError(
                    f"another process is placing or removing the hosts in {folder}: "
                    "wait until it ends"
                ) from None
            yield cls(folder)

    def records(self, number: int | None = None) -> list[Record]:
        """Return the records of a deployment, or of all, in order of the attempts."""
        return [r for r in self.data.groups if number in (None, r.number)]

    def begin(
        self,
        number: int,
        attempt: int,
        experiment: str,
        subscription: str,
        tags: dict[str, str],
    ) -> Record:
        """Return the record of this attempt; a new one is on disk before anything is created."""
        data = self.data
        data.subscription = data.subscription or subscription
        if data.subscription != subscription:
            raise AzureError(
                f"deployments of {experiment} are in subscription {data.subscription}, and this "
                f"is {subscription}: name the first one in hosts.options.subscription, "
                "or run `npl down`"
            )
        for record in self.records(number):
            if record.attempt == attempt:
                return record
        data.mark = data.mark or secrets.token_hex(3)
        tail = f"{data.mark}-d{number}" + (f"-{attempt + 1}" if attempt else "")
        name = f"npl-{experiment[:40]}-{tail}"
        record = Record(
            name=name, number=number, attempt=attempt, tags={**tags, TAG: name}
        )
        data.groups.append(record)
        self.write()
        return record

    def gone(self, record: Record) -> None:
        """Remove a deployment that is proven to be gone; its hours still count to the cost."""
        self.data.hours += record.age_h(dt.datetime.now(dt.UTC))
        self.data.groups.remove(record)
        self.write()

    def spent(self, now: dt.datetime, *, done: float) -> float | None:
        """Return the cost so far, of all machines and the share `done` of the planned traffic."""
        hours = self.data.hours + sum(r.age_h(now) for r in self.data.groups)
        return self.data.cost.spent(hours, done) if self.data.cost else None

    def clear(self) -> None:
        """Delete the keys and the record, once nothing is placed any more; the bill stays."""
        shutil.rmtree(self.files, ignore_errors=True)
        self.data = Stored(cost=self.data.cost, hours=self.data.hours)
        self.write()

    def write(self) -> None:
        """Write the record whole: whenever it is interrupted, the one before is still there."""
        text = _STORED.dump_json(self.data, indent=1).decode()
        _private(self.folder / "azure.json", text)

    def host_key(self, group: str, vm: str) -> tuple[str, str]:
        """Return the private and public host key of a VM: made here, and so known beforehand.

        Azure does not report a VM's host key. The private key travels as a secure parameter, which
        Azure does not show again. A VM that presents another key was not met: somebody is in
        between, or the first start did not run, and then there are no tools to measure with.
        """
        return self.key(f"hosts/{group}-{vm}")

    def known_hosts(self, group: str, addresses: dict[str, str]) -> Path:
        """Return the file with the host keys of a group's VMs, for these addresses."""
        text = ""
        for vm, address in addresses.items():
            text += f"{address} {self.host_key(group, vm)[1]}\n"
        return self.file(f"known_hosts-{group}", text)

    def key(self, name: str) -> tuple[str, str]:
        """Return a private key and its public one; generated if there is none."""
        path, public = self.files / name, self.files / f"{name}.pub"
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", comment="netperf_lib")
            self.file(f"{name}.pub", key.export_public_key().decode())
            self.file(name, key.export_private_key().decode())
        return path.read_text("utf-8"), public.read_text("utf-8").strip()

    def file(self, name: str, text: str) -> Path:
        """Write and return a private file that is deleted with the deployment."""
        return _private(self.files / name, text)


def _private(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with appearing(path) as draft:
        draft.touch(mode=0o600)
        draft.write_text(text, "utf-8")
    return path
