"""The columns of evidence of a run, from the samples of its connections in its folder."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from ..tools.ss import SAMPLES, evidence
from .logs import MAX_BYTES
from .raw import RawFolder, Record

LOAD = "client-load"
"""Name in the record of the load under which a test is measured: the side whose connections were
sampled, if so."""


def of_record(folder: RawFolder, record: Record) -> dict[str, Any]:
    """Return the columns of evidence of a run from the files in its folder and its record.

    What is absent is left out.

    Only files that are as the record describes them are read; ValueError for another one.
    """
    options = {**record.trial, **(record.trial.get("options") or {})}
    backwards = options.get("reverse")
    if record.sampled == LOAD:
        backwards = "-R" in record.commands[LOAD]
    hosts = ("server", "client") if backwards else ("client", "server")
    texts = {}
    for host in hosts:
        name = f"{host}{SAMPLES}"
        data = b""
        if name in record.files:
            data = folder.file(name, record).read_bytes()
        # a stream that was cut short, as after a crash, keeps what came before; one of others may
        # unpack to anything
        texts[host] = (
            zlib.decompressobj(wbits=31)
            .decompress(data, MAX_BYTES)
            .decode("utf-8", "replace")
        )
    if not any(texts.values()):
        return {}
    times = {name: float(options.get(name) or 0) for name in ("duration_s", "omit_s")}
    return evidence(texts[hosts[0]], texts[hosts[1]], **times)


def settings_of(record: Record, host: str) -> Mapping[str, Any]:
    """Return the sysctl settings of a host when a run was measured; empty if not known."""
    return record.facts.get(host, {}).get("sysctl") or {}


def largest_buffer(settings: Mapping[str, Any] | None, name: str) -> int | None:
    """Return the last of the three sizes of ``tcp_rmem`` or ``tcp_wmem``; None if not known."""
    size = str((settings or {}).get(name)).split()[2:]
    return int(size[0]) if size and size[0].isdecimal() else None
