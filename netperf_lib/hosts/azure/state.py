"""Record of what was placed: written before anything is created, so that it can be found again."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
from pydantic import TypeAdapter

from ...errors import AzureError
from ...experiment.model import Deployment
from .groups import Target
from .prices import Cost


@dataclass(kw_only=True, eq=False)
class Record(Target):
    """A deployment that was or may have been created."""

    number: int
    attempt: int
    made: bool = False
    """Its resource group exists."""
    given_up: bool = False
    shared: str = ""
    """Resource group of others, in which earlier releases placed VMs."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags of its resources, recorded just before Azure is asked to create anything."""
    allow_from: list[str] = field(default_factory=list)
    """Prefixes that its port 22 is open to."""

    @property
    def requested(self) -> bool:
        """Whether Azure was asked to create any of it; then it may exist, and is deleted."""
        return bool(self.tags) or self.made

    def age_h(self, now: dt.datetime) -> float:
        """Hours since it was created, 0 if it was not."""
        created = self.tags.get("netperf-created")
        if not created:
            return 0.0
        return max(0.0, (now - dt.datetime.fromisoformat(created)).total_seconds() / 3600)


@dataclass
class Stored:
    """What `azure.json` holds."""

    subscription: str = ""
    mark: str = ""
    """Part of every name, so that no other experiment has the same."""
    groups: list[Record] = field(default_factory=list)
    deployments: dict[int, Deployment] = field(default_factory=dict)
    """The complete ones, by number."""
    parts: dict[int, dict[str, str]] = field(default_factory=dict)
    """The parts of each deployment, as `Topology.parts` gives them."""


@dataclass
class Bill:
    """What `azure-cost.json` holds: it stays when everything else is removed."""

    cost: Cost
    hours: float = 0.0
    """Hours of machines that are gone."""


_STORED, _BILL = TypeAdapter(Stored), TypeAdapter(Bill)


class State:
    """The folder of one experiment's deployments: the list of groups, and the keys to the VMs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "azure.json"
        try:
            content = self._file.read_bytes() if self._file.exists() else b"{}"
            self.data = _STORED.validate_json(content)
        except ValueError:
            raise AzureError(
                f"{self._file} is damaged: find what was placed with `npl down --all`, "
                "then delete the file"
            ) from None
        if old := [r.shared for r in self.data.groups if r.shared]:
            raise AzureError(
                f"an earlier release placed VMs in resource group {old[0]}: remove them with it, "
                f"or by their tag netperf-deployment; then delete {self._file}"
            )

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

    def begin(self, number: int, attempt: int, experiment: str, subscription: str) -> Record:
        """Return the record of this attempt; a new one is on disk before anything is created."""
        data = self.data
        data.subscription = data.subscription or subscription
        if data.subscription != subscription:
            raise AzureError(
                f"deployments of {experiment} are in subscription {data.subscription}, and this "
                f"is {subscription}: name the first one in hosts.options.subscription, "
                "or run `npl down`"
            )
        data.mark = data.mark or secrets.token_hex(3)
        for record in data.groups:
            if (record.number, record.attempt) == (number, attempt):
                return record
        tail = f"{data.mark}-d{number}" + (f"-{attempt + 1}" if attempt else "")
        record = Record(name=f"npl-{experiment[:40]}-{tail}", number=number, attempt=attempt)
        data.groups.append(record)
        self.write()
        return record

    def note(self, record: Record, **fields: Any) -> None:
        """Change fields of a record."""
        for name, value in fields.items():
            setattr(record, name, value)
        self.write()

    def open(self, number: int) -> list[Record]:
        """Return the records of a deployment that were not given up, in order of the attempts."""
        return [r for r in self.data.groups if r.number == number and not r.given_up]

    def remember(self, number: int, deployment: Deployment, parts: dict[str, str]) -> None:
        """Store a complete deployment, and its parts."""
        self.data.parts[number], self.data.deployments[number] = parts, deployment
        self.write()

    def forget(self, number: int) -> None:
        """Forget that a deployment is complete."""
        self.data.deployments.pop(number, None)
        self.write()

    def gone(self, record: Record) -> None:
        """Remove a deployment that is proven to be gone; its hours still count to the cost."""
        self.data.deployments.pop(record.number, None)
        if record.made and (bill := self._bill()):
            self._write_bill(bill.cost, bill.hours + record.age_h(dt.datetime.now(dt.UTC)))
        self.data.groups.remove(record)
        self.write()

    def priced(self, cost: Cost) -> None:
        """Store the prices, so that the cost can be computed later without querying anything."""
        bill = self._bill()
        self._write_bill(cost, bill.hours if bill else 0.0)

    def spent(self, now: dt.datetime, *, done: float) -> float | None:
        """Return the cost so far, of all machines and the share `done` of the planned traffic."""
        bill = self._bill()
        if not bill:
            return None
        return bill.cost.spent(bill.hours + sum(r.age_h(now) for r in self.data.groups), done)

    def _bill(self) -> Bill | None:
        file = self.folder / "azure-cost.json"
        return _BILL.validate_json(file.read_bytes()) if file.exists() else None

    def _write_bill(self, cost: Cost, hours: float) -> None:
        self._replace(self.folder / "azure-cost.json", _BILL.dump_json(Bill(cost, hours)))

    def clear(self) -> None:
        """Delete the keys and the record, once nothing is placed any more."""
        shutil.rmtree(self.files, ignore_errors=True)
        self._file.unlink(missing_ok=True)
        self.data = Stored()

    def write(self) -> None:
        """Write the record."""
        self._replace(self._file, _STORED.dump_json(self.data, indent=1))

    def _replace(self, file: Path, content: bytes) -> None:
        """Write a file whole: whenever it is interrupted, the one before is still there."""
        draft = file.with_suffix(".new")
        with draft.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)

    @property
    def files(self) -> Path:
        """Folder of the keys, and of files passed to az and SSH."""
        return self.folder / "ssh"

    @property
    def identity(self) -> Path:
        """The private key that opens the VMs."""
        return self.files / "id_ed25519"

    def public_key(self) -> str:
        """Return the public key of the experiment; generated if there is none."""
        return self._key(self.identity)[1]

    def host_key(self, group: str, vm: str) -> tuple[str, str]:
        """Return the private and public host key of a VM: made here, and so known beforehand.

        Azure does not report a VM's host key. The private key travels as a secure parameter, which
        no deployment record shows, inside the first start's data, which the metadata service does
        not serve. A VM that presents another key is refused: either there is an attacker in
        between, or the first start did not run, and then there are no tools to measure with.
        """
        return self._key(self.files / "hosts" / f"{group}-{vm}")

    def known_hosts(self, group: str, addresses: dict[str, str]) -> Path:
        """Return the file with the host keys of a group's VMs, for these addresses."""
        lines = [f"{address} {self.host_key(group, vm)[1]}\n" for vm, address in addresses.items()]
        return self.file(f"known_hosts-{group}", "".join(lines))

    def _key(self, path: Path) -> tuple[str, str]:
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", comment="netperf_lib")
            self._private(path.with_suffix(".pub"), key.export_public_key().decode())
            self._private(path, key.export_private_key().decode())
        return path.read_text("utf-8"), path.with_suffix(".pub").read_text("utf-8").strip()

    def _private(self, path: Path, text: str) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        new = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(new, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)

    def file(self, name: str, text: str) -> Path:
        """Write and return a private file that is deleted with the deployment."""
        self._private(self.files / name, text)
        return self.files / name
