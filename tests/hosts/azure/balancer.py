"""A load balancer for the emulated cloud: a process that hands every packet to a machine, and its answer back.

It does what Azure's does to packets for a frontend: the machine is chosen by a hash, of the client's address alone or
of the whole flow, as the rule says; the destination becomes the machine's own address, and the source of the answer
the frontend. Machines behind it have networks of their own, which nothing else leads to.

    balancer.py DESCRIPTOR '{"DESCRIPTOR": ["10.77.0.5", ...]}' '{"10.77.0.9": {"machines": [...], "flow": false}}'
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

TUNSETIFF, TUN, NO_PI = 0x400454CA, 0x0001, 0x1000
CHECKSUM = {socket.IPPROTO_TCP: 16, socket.IPPROTO_UDP: 6}
SOURCE, DESTINATION = slice(12, 16), slice(16, 20)


def device(name: str, addresses: list[str], pid: int | None = None) -> int:
    """Make a TUN device with these addresses in the network of a process, or in this one's; return its descriptor."""
    found: list[int] = []

    def make() -> None:
        if pid is not None:
            with Path(f"/proc/{pid}/ns/net").open() as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0):
                    raise OSError(ctypes.get_errno(), "setns")
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), TUN | NO_PI))
        commands = [f"address add {a}/32 dev {name}" for a in addresses] + [f"link set {name} up"]
        for command in commands + [f"route add default dev {name}"] * (pid is not None):
            subprocess.run(["ip", *command.split()], check=True)
        found.append(fd)

    thread = threading.Thread(target=make)  # it alone is in the other network
    thread.start()
    thread.join()
    return found[0]


def translate(packet: bytearray, which: slice, address: bytes) -> None:
    """Put another address into a packet, and set its checksums right (RFC 1624)."""
    old, head, protocol = bytes(packet[which]), 4 * (packet[0] & 15), packet[9]
    packet[which] = address
    sums = [10] + (
        [head + CHECKSUM[protocol]]
        if protocol in CHECKSUM and not packet[7] and not packet[6] & 31
        else []
    )
    for at in sums:
        (kept,) = struct.unpack_from("!H", packet, at)
        if at > 10 and protocol == socket.IPPROTO_UDP and not kept:
            continue  # it has none
        total = (
            (kept ^ 0xFFFF)
            + sum(w ^ 0xFFFF for w in struct.unpack("!2H", old))
            + sum(struct.unpack("!2H", address))
        )
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into("!H", packet, at, total ^ 0xFFFF)


def chosen(packet: bytes, machines: list[str], flow: bool) -> bytes:
    """The machine that a packet goes to."""
    head = 4 * (packet[0] & 15)
    seen = packet[12:20] + (packet[9:10] + packet[head : head + 4] if flow else b"")
    return socket.inet_aton(machines[zlib.crc32(seen) % len(machines)])


def run(outside: int, inside: dict[int, list[str]], fronts: dict[str, dict[str, Any]]) -> None:
    """Carry packets for ever."""
    to = {socket.inet_aton(a): fd for fd, addresses in inside.items() for a in addresses}
    rules = {socket.inet_aton(front): (r["machines"], r["flow"]) for front, r in fronts.items()}
    flows: dict[bytes, bytes] = {}

    def carry(fd: int, packet: bytearray) -> None:
        if packet[0] >> 4 != 4:
            return
        head = 4 * (packet[0] & 15)
        source, destination = bytes(packet[SOURCE]), bytes(packet[DESTINATION])
        ports = bytes(packet[head : head + 4])
        if fd != outside:
            if front := flows.get(bytes(packet[9:10]) + destination + ports[2:] + ports[:2]):
                translate(packet, SOURCE, front)
            os.write(outside, packet)
            return
        if destination in rules:
            flows[bytes(packet[9:10]) + source + ports] = destination
            destination = chosen(packet, *rules[destination])
            translate(packet, DESTINATION, destination)
        if destination in to:
            os.write(to[destination], packet)

    while True:
        for fd in select.select([outside, *inside], [], [])[0]:
            with contextlib.suppress(OSError):  # a machine is gone, and its network with it
                carry(fd, bytearray(os.read(fd, 65536)))


if __name__ == "__main__":
    run(
        int(sys.argv[1]),
        {int(k): v for k, v in json.loads(sys.argv[2]).items()},
        json.loads(sys.argv[3]),
    )
