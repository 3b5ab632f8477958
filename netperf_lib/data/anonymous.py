"""A copy of an experiment that does not tell whose it is: stable stand-ins in place of names and addresses.

Subscriptions and other UUIDs, resources, users, hosts, hardware addresses and public addresses are replaced in
everything that is copied, raw logs included. Private addresses, labels, regions and VM sizes stay: they say nothing
about the owner, or are what was measured. Digests and tables are made anew, and the figures must stay as they were.
"""

from __future__ import annotations

import gzip
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import StoreError, UsageError
from ..experiment.factors import FACTORS
from ..metrics import METRICS
from ..tools import READERS
from .files import sha256_of
from .imports import is_address
from .ingest import ingest
from .layout import RECORD, RECORDS, RawFolder, Store, digest_of, packed_records
from .load import load

_ROLES = (
    "admin administrator azureuser client debian ec2-user host lab localhost ppg region root server ubuntu user "
    "xzone zone plain"
)
GENERIC = {*_ROLES.split(), *FACTORS, *READERS, *FACTORS["placement"].order}
"""Names that tell nothing about their owner, and are words of logs and labels too."""
_LEAST = 3
_HERE = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
_NAMED = re.compile(
    r"Connecting to host (\S+), port|onnecting to (\S+)[,:] |"
    r'"(?:host|remote_host|local_host)":\s*"([^"]+)"|"system_info":\s*"\w+ (\S+) |^Linux (\S+) \d+\.\d+|'
    r'computername="([^"]+)"|\b(?:from|to) (\S+) \(\S*\) port|Handshake phase \d with +(\S+)',
    re.MULTILINE,
)
"""Where the tools print the name of a host."""
_RESOURCE = re.compile(
    r"/(?:resourceGroups|providers/[\w.]+/\w+|virtualMachines|subnets)/([\w.()-]+)", re.IGNORECASE
)
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\)([^/\\\s\"':]+)")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DOMAIN = re.compile(
    r"(?<![\w@.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    r"(?:com|net|org|io|dev|cloud|internal|local|lan|corp|home|intranet|azure)(?![\w-])",
    re.IGNORECASE,
)
_UUID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE
)
_MAC = re.compile(
    r"(?<![0-9a-f:-])(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?![0-9a-f:-])",
    re.IGNORECASE,
)
_V4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.IGNORECASE)
_NETS = (
    "192.0.2",
    "198.51.100",
    "203.0.113",
    *(f"198.{18 + i // 256}.{i % 256}" for i in range(512)),
)
"""Networks for documentation and benchmarks: no host on the internet has their addresses."""


_UNICAST = ipaddress.ip_network("2000::/3")


class StandIns:
    """The stand-in of every name; the same name, in capitals or not, always has the same one.

    Parameters
    ----------
    hidden : iterable of str
        Further words to replace, also inside of other words.
    """

    def __init__(self, hidden: Iterable[str] = ()) -> None:
        self.replaced: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._names: re.Pattern[str] | None = None
        self._hidden = list(hidden)
        for word in self._hidden:
            if not self.name("word", word, least=1):
                raise UsageError(
                    f"{word!r} cannot be hidden: the logs need this word, or it is an address or empty"
                )

    def _new(self, kind: str, text: str, form: Callable[[int], str]) -> str:
        key = text.casefold()
        if key not in self.replaced:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self.replaced[key] = form(self._counts[kind])
        return self.replaced[key]

    def name(self, kind: str, text: Any, *, least: int = _LEAST) -> bool:
        """Give a name of this kind its stand-in, unless it is generic, short, or an address, which has its own."""
        if (
            not isinstance(text, str)
            or len(text) < least
            or text.casefold() in GENERIC
            or is_address(text)
        ):
            return False
        self._new(kind, text, lambda n: f"{kind}-{n}")
        self._names = None
        return True

    def text(self, text: str) -> str:
        """Replace every name and address in a text."""
        text = _MAIL.sub(lambda m: self._new("mail", m[0], lambda n: f"user-{n}@example.org"), text)
        text = _UUID.sub(
            lambda m: self._new("uuid", m[0], lambda n: f"00000000-0000-4000-8000-{n:012d}"), text
        )
        text = _MAC.sub(self._hardware, text)
        text = self._replace_names(text)
        text = _DOMAIN.sub(lambda m: self._new("domain", m[0], lambda n: f"host-{n}.example"), text)
        text = _V4.sub(lambda m: self._address(m[0]), text)
        return _V6.sub(lambda m: self._address(m[0]), text)

    def _replace_names(self, text: str) -> str:
        if self._names is None:
            words = sorted((k for k in self.replaced if not is_address(k)), key=len, reverse=True)
            inside = {word.casefold() for word in self._hidden}
            forms = [re.escape(w) if w in inside else _HERE.format(re.escape(w)) for w in words]
            self._names = re.compile("|".join(forms) or r"(?!)", re.IGNORECASE)
        return self._names.sub(lambda m: self.replaced[m[0].casefold()], text)

    def _hardware(self, match: re.Match[str]) -> str:
        if set(match[0]) <= set("0:-") or match[0].lower().replace("-", ":") == "ff:ff:ff:ff:ff:ff":
            return match[0]
        return self._new(
            "hardware", match[0], lambda n: f"02:00:00:00:{n // 256:02x}:{n % 256:02x}"
        )

    def _address(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if not address.is_global or (address.version == 6 and address not in _UNICAST):
            return text
        if address.version == 6:
            return self._new("v6", text, lambda n: f"2001:db8::{n:x}")
        return self._new("v4", text, lambda n: f"{_NETS[(n - 1) // 254]}.{(n - 1) % 254 + 1}")

    def value(self, value: Any) -> Any:
        """Replace in every text of a document; its keys stay."""
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def data(self, data: bytes) -> bytes:
        """Replace in the content of a file: text of any encoding, plain or gzipped."""
        if data.startswith(b"\x1f\x8b"):
            return gzip.compress(self.data(gzip.decompress(data)), mtime=0)
        coding = _coding(data)
        return self.text(data.decode(coding, "surrogateescape")).encode(coding, "surrogateescape")


def _coding(data: bytes) -> str:
    for mark, coding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return coding
    return "utf-16-le" if data[1:40:2] == b"\0" * len(data[1:40:2]) and len(data) > 1 else "utf-8"


def anonymous_copy(store: Store, root: Path, hidden: Iterable[str] = ()) -> tuple[Store, StandIns]:
    """Write a copy of an experiment, with stand-ins, under another data root.

    Returns
    -------
    Store, StandIns
        The copy, with tables; and what was replaced.

    Raises
    ------
    StoreError
        A stand-in would change a figure: a name is also a word of a log.
    """
    ins = StandIns(hidden)
    if not store.run_ids():
        raise StoreError(f"{store.url}: no raw logs are here, of which an anonymous copy is made")
    _collect(store, ins)
    copy = Store(root, ins.text(store.experiment))
    declared = ins.value(yaml.safe_load(store.files.read("experiment.yaml")))
    declared["hosts"][
        "options"
    ] = {}  # how the hosts are made: names of resources, and nothing that was measured
    copy.files.write(
        "experiment.yaml", yaml.safe_dump(declared, sort_keys=False, allow_unicode=True).encode()
    )
    _copy_plan(store, copy, ins)
    for number, deployment in store.deployments().items():
        hosts = [_unreachable(host) for host in deployment["hosts"]]
        copy._write_json(
            f"hosts/deployment-{number:02d}.json", ins.value({**deployment, "hosts": hosts})
        )
    for raw, _ in store.raw_folders(store.run_folders()):
        with copy.new_run(ins.text(raw.name), durable=False) as folder:
            _copy_folder(raw, folder, copy, ins)
    for run_id, cause in store.exclusions().items():
        copy.exclude(ins.text(run_id), ins.text(cause))
    ingest(copy.location)
    _compare(store, copy)
    return copy, ins


def _collect(store: Store, ins: StandIns) -> None:
    """Give all names their stand-ins before the first is replaced."""
    declared = yaml.safe_load(store.files.read("experiment.yaml"))
    public = {""}
    for deployment in store.deployments().values():
        ins.name("deployment", deployment.get("deployment_id"))
        for host in deployment.get("hosts", ()):
            public |= {str(host.get(key)) for key in ("region", "zone", "zone_physical", "vm_size")}
            _collect_host(host, ins)
    for pair in declared.get("pairs") or ():
        for side in ("client", "server"):
            ins.name("host", pair.get(side))
    for value in _texts(declared["hosts"].get("options") or {}):
        if value not in public and not re.fullmatch(r"Standard_\w+|[\d.:/]+|.*\s.*", value):
            ins.name("resource", value, least=4)
    for _, record in store.runs():
        for host in (record.get("hosts") or {}).values():
            _collect_host(host, ins)
        for side in ("client", "server"):
            ins.name("host", (record.get("trial") or {}).get(side))
    for raw, _ in store.raw_folders(store.run_folders()):
        try:
            if raw.change:
                raise ValueError(raw.change)
            for file in [
                raw.path / RECORD,
                *(raw.file(name, raw.record) for name in sorted(raw.record["files"])),
            ]:
                _collect_text(file.read_bytes(), ins)
        except (OSError, ValueError) as error:
            wrong = f"{store.url}/raw/{raw.name}: {error}"
            raise StoreError(
                f"{wrong}; only an experiment that is as it was measured is copied"
            ) from None


def _collect_host(host: Mapping[str, Any], ins: StandIns) -> None:
    ins.name("host", host.get("name"))
    ins.name("user", host.get("user"))
    ins.name("resource", host.get("ppg"))
    for key in ("address", "data_address", "own_address"):
        ins.name("host", host.get(key))


def _collect_text(data: bytes, ins: StandIns) -> None:
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    text = data.decode(_coding(data), "replace")
    for match in _NAMED.finditer(text):
        ins.name("host", next(filter(None, match.groups())).rstrip(",:"))
    for kind, pattern in (("resource", _RESOURCE), ("user", _HOME)):
        for match in pattern.finditer(text):
            ins.name(kind, match[1])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _unreachable(host: Mapping[str, Any]) -> dict[str, Any]:
    """A host without what only the one who measured can use."""
    return {
        k: None if k in ("user", "ssh_config", "identity", "known_hosts") else v
        for k, v in host.items()
    }


def _copy_plan(store: Store, copy: Store, ins: StandIns) -> None:
    plan = store.read_plan()
    if plan is None:
        return
    plan = ins.value(plan) | {
        "rule": None
    }  # the order was drawn with the names, so nobody can draw it again
    if isinstance(plan.get("experiment"), dict):
        plan["experiment"]["hosts"]["options"] = {}
    if frozen := plan.get("frozen"):
        frozen["sha256"] = digest_of(frozen)
    copy._write_json("plan.json", plan)


def _copy_folder(raw: RawFolder, folder: Path, copy: Store, ins: StandIns) -> None:
    """Write the files and the record of a folder."""
    before = raw.record
    for name in before["files"]:
        if name != RECORDS:
            (folder / name).write_bytes(ins.data(raw.file(name, before).read_bytes()))
    if RECORDS in before["files"]:
        records = [_copied(record, ins) for record in raw.records.values()]
        digests = {file.name: sha256_of(file) for file in folder.iterdir()}
        for record in records:
            record["declaration"] = copy.freeze()
            record["files"] = {name: digests[name] for name in record["files"]}
        (folder / RECORDS).write_bytes(packed_records(records))
        before = {
            key: before[key] for key in before if key not in ("schema", "declaration", "files")
        }
    copy.write_record(folder, _copied(before, ins))


def _copied(record: Mapping[str, Any], ins: StandIns) -> dict[str, Any]:
    """Return a record with stand-ins; a log that was imported is called by its digest."""
    new: dict[str, Any] = ins.value(record)
    if "hosts" in new:
        new["hosts"] = {side: _unreachable(host) for side, host in new["hosts"].items()}
    if "imported" in new:
        new["imported"]["file"] = f"log-{new['imported']['log']}"
    return new


def _compare(store: Store, copy: Store) -> None:
    """Figures of the copy are those of the original; StoreError names the first that is not."""
    one, other = load(store.location), load(copy.location)
    if len(one) != len(other):
        raise StoreError(
            f"{store.url}: {len(one)} runs, but {len(other)} in the copy with stand-ins"
        )
    for column in ("status", *(m for m in METRICS if m in one or m in other)):
        original, copied = (frame.get(column) for frame in (one, other))
        if original is None or copied is None or not original.equals(copied):
            raise UsageError(
                f"{store.url}: with stand-ins, {column} would differ, as a name is also a word of the logs; "
                "rename that host in a copy"
            )
