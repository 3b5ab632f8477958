"""Record of what was placed and where: written before anything is created, so that all of it can be found again."""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncssh
from pydantic import TypeAdapter

from ...errors import AzureError
from ...experiment.model import Deployment
from .groups import Target
from .prices import Cost

_COST, _DEPLOYMENT = TypeAdapter(Cost), TypeAdapter(Deployment)


class State:
    """The folder of one experiment's deployments: a list of resource groups, and the keys to the VMs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "azure.json"
        self.data: dict[str, Any] = {}
        if self._file.exists():
            try:
                self.data = json.loads(self._file.read_text("utf-8"))
            except ValueError:
                raise AzureError(
                    f"{self._file} is damaged: find what was placed with `npl down --all`, then delete the file"
                ) from None

    @classmethod
    @contextmanager
    def locked(cls, folder: Path) -> Iterator[State]:
        """The state, for one process at a time."""
        import fcntl  # not on Windows

        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "azure.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise AzureError(
                    f"another process is placing or removing the hosts in {folder}: wait until it ends"
                ) from None
            yield cls(folder)

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Every deployment that was or may have been created: ``{name, number, attempt, made}``, and additions."""
        return list(self.data.get("groups", []))

    def begin(
        self, number: int, attempt: int, experiment: str, subscription: str, shared: str | None
    ) -> dict[str, Any]:
        """Return the record of this attempt; a new one is on disk before anything can be created."""
        self.data.setdefault("experiment", experiment)
        if self.data.setdefault("subscription", subscription) != subscription:
            raise AzureError(
                f"deployments of {experiment} are in subscription {self.data['subscription']}, but az has "
                f"{subscription} selected: run `az account set -s {self.data['subscription']}`, or `npl down`"
            )
        mark = self.data.setdefault("mark", secrets.token_hex(3))
        for group in self.data.setdefault("groups", []):
            if group["number"] == number and group["attempt"] == attempt:
                return dict(group)
        tail = f"{mark}-d{number}" + (f"-{attempt + 1}" if attempt else "")
        # also the name of a deployment, which may have 64 characters
        record = {"name": f"npl-{experiment[:40]}-{tail}", "number": number, "attempt": attempt, "made": False}
        if shared:
            record |= {"shared": shared, "prefix": f"npl-{tail}-"}
        self.data["groups"].append(record)
        self._write()
        return dict(self.data["groups"][-1])

    def note(self, name: str, **facts: Any) -> None:
        """Add facts to the record of a group."""
        for group in self.data.get("groups", []):
            if group["name"] == name:
                group.update(facts)
        self._write()

    def open(self, number: int) -> list[dict[str, Any]]:
        """Records of a deployment that were not given up, in the order of the attempts."""
        return [g for g in self.groups if g["number"] == number and not g.get("given_up")]

    def asked_for(self, name: str) -> bool:
        """Whether Azure may have been asked to create this group; its tags are recorded just before that."""
        return any("tags" in g or g["made"] for g in self.groups if g["name"] == name)

    def target(self, record: dict[str, Any]) -> Target:
        """Where the deployment of a record is."""
        return Target(name=record["name"], shared=record.get("shared", ""), prefix=record.get("prefix", ""))

    def remember(self, number: int, deployment: Deployment, parts: dict[str, str]) -> None:
        """Store a complete deployment, and its parts."""
        self.data.setdefault("parts", {})[str(number)] = parts
        self.data.setdefault("deployments", {})[str(number)] = _DEPLOYMENT.dump_python(deployment)
        self._write()

    def deployment(self, number: int) -> Deployment | None:
        """Return the complete deployment of this number, if there is one."""
        stored = self.data.get("deployments", {}).get(str(number))
        return None if stored is None else _DEPLOYMENT.validate_python(stored)

    def parts(self, number: int) -> dict[str, str]:
        """The parts of the deployment of this number."""
        return dict(self.data.get("parts", {}).get(str(number), {}))

    def priced(self, cost: Cost) -> None:
        """Store the prices, so that the cost can be computed later without querying anything."""
        self._bill.write_text(json.dumps({"cost": _COST.dump_python(cost), "hours": self._past_h()}), "utf-8")

    def spent(self, now: dt.datetime, *, done: float) -> float | None:
        """Cost of the machines so far, including removed ones, and of the share `done` of the planned traffic."""
        if not self._bill.exists():
            return None
        hours = self._past_h() + sum(_age_h(g, now) for g in self.groups)
        return _COST.validate_python(json.loads(self._bill.read_text("utf-8"))["cost"]).spent(hours, done)

    @property
    def _bill(self) -> Path:
        """Prices, and hours of machines that are gone: it stays when everything else is removed."""
        return self.folder / "azure-cost.json"

    def _past_h(self) -> float:
        return float(json.loads(self._bill.read_text("utf-8"))["hours"]) if self._bill.exists() else 0.0

    def forget(self, number: int) -> None:
        """Forget a deployment that no longer exists."""
        if self.data.get("deployments", {}).pop(str(number), None):
            self._write()

    def gone(self, name: str) -> None:
        """Remove a deployment that was verified to be gone; its hours still count towards the cost."""
        now = dt.datetime.now(dt.UTC)
        lived = sum(_age_h(g, now) for g in self.groups if g["name"] == name and g["made"])
        number = next((g["number"] for g in self.groups if g["name"] == name), None)
        self.data.get("deployments", {}).pop(str(number), None)
        if self._bill.exists():
            bill = json.loads(self._bill.read_text("utf-8"))
            self._bill.write_text(json.dumps(bill | {"hours": bill["hours"] + lived}), "utf-8")
        self.data["groups"] = [g for g in self.data.get("groups", []) if g["name"] != name]
        self._write()

    def clear(self) -> None:
        """Delete the keys and the record, once nothing is placed any more."""
        shutil.rmtree(self.files, ignore_errors=True)
        self._file.unlink(missing_ok=True)
        self.data = {}

    def _write(self) -> None:
        draft = self._file.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)

    @property
    def files(self) -> Path:
        """Folder of the keys, and of files passed to az and SSH."""
        return self.folder / "ssh"

    @property
    def identity(self) -> Path:
        """The private key that opens the VMs."""
        return self.files / "id_ed25519"

    def public_key(self) -> str:
        """Public key of the experiment; generated if there is none."""
        return self._key(self.identity)[1]

    def host_key(self, group: str, vm: str) -> tuple[str, str]:
        """Private and public host key of a VM: made here and given to the VM, and so known before the first contact.

        Azure does not report a VM's host key: it would have to be read from the log of the serial console or by a
        command run through the VM's agent, both slow and no more trustworthy than this. The private key travels as a
        secure parameter, which no deployment record shows, inside the first start's data, which the metadata service
        does not serve (that is user data). In the VM it is readable by root, who can read ``/etc/ssh`` anyway; here by
        the caller until `down`, like the key that opens the VM. It identifies one VM for as long as that VM exists.

        A VM that presents another key is refused, and never trusted at first contact: either there is an attacker in
        between, or the first start did not run, and then there are no tools to measure with.
        """
        return self._key(self.files / "hosts" / f"{group}-{vm}")

    def secret(self, name: str) -> str:
        """A random secret, the same until it is cleared."""
        place = self.files / name
        if not place.exists():
            self._private(place, secrets.token_urlsafe(32))
        return place.read_text("utf-8")

    def known_hosts(self, group: str, addresses: dict[str, str]) -> Path:
        """File with the host keys of a group's VMs, for these addresses."""
        place = self.files / f"known_hosts-{group}"
        lines = [f"{address} {self.host_key(group, vm)[1]}\n" for vm, address in addresses.items()]
        self._private(place, "".join(lines))
        return place

    def _key(self, place: Path) -> tuple[str, str]:
        if not place.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", comment="netperf_lib")
            self._private(place.with_suffix(".pub"), key.export_public_key().decode())
            self._private(place, key.export_private_key().decode())
        return place.read_text("utf-8"), place.with_suffix(".pub").read_text("utf-8").strip()

    def _private(self, place: Path, text: str) -> None:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(place)

    def file(self, name: str, text: str) -> Path:
        """A private file that is deleted with the deployment."""
        self._private(self.files / name, text)
        return self.files / name


def _age_h(record: dict[str, Any], now: dt.datetime) -> float:
    created = (record.get("tags") or {}).get("netperf-created")
    return max(0.0, (now - dt.datetime.fromisoformat(created)).total_seconds() / 3600) if created else 0.0
