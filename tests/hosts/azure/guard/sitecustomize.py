"""Nobody is to be looked up or connected to outside this machine; who tries is written down, and refused.

As `sitecustomize` on PYTHONPATH it watches every Python process of a test, az first of all.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import Any

STAND_INS = tuple(
    ipaddress.ip_network(n)
    for n in ("127.0.0.0/8", "::1/128", "203.0.113.0/24", "10.77.0.0/16", "10.1.0.0/24")
)
"""Loopback, and the addresses that the network of the tests gives to its loopback interface."""


def local(host: object) -> bool:
    """Whether a name or address stays on this machine."""
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_unspecified or any(
        address in n for n in STAND_INS if n.version == address.version
    )


LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
CONNECTIONS = frozenset({"socket.connect", "socket.sendto"})


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: called for every import, file and object of the process, so what it ignores must cost little."""
    if event not in LOOKUPS and event not in CONNECTIONS:
        return
    if not (journal := os.environ.get("NETPERF_GUARD")):
        return
    target = arguments[-1] if event in CONNECTIONS else arguments[0]
    if event in CONNECTIONS:
        if not isinstance(target, tuple) or not isinstance(target[0], str):
            return  # a socket of this machine's own kind
        target = target[0]
    if not local(target):
        with open(journal, "a", encoding="utf-8") as file:  # noqa: PTH123 - as little as possible in every process
            file.write(f"{event} {target} {' '.join(sys.orig_argv[-4:])}\n")
        raise OSError(f"the tests may not reach {target}")


if __name__ == "sitecustomize":
    sys.addaudithook(watch)
