"""Network interfaces of the current namespace, configured through rtnetlink: up, address, and a cap for UDP.

Why not ``ip`` and ``tc``: they may not be installed, and an ordinary user's rights in a namespace of their own do not
survive starting another program. See rtnetlink(7) and the kernel's ``include/uapi/linux/{rtnetlink,pkt_sched}.h``.
"""

from __future__ import annotations

import os
import socket
import struct

_NEW_LINK, _NEW_ADDRESS, _NEW_QDISC, _NEW_CLASS, _NEW_FILTER = 16, 20, 36, 40, 44
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR = 2
_IFF_UP = 1
_IFLA_MTU, _IFLA_TXQLEN = 4, 13
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TCA_KIND, _TCA_OPTIONS = 1, 2
_HTB_PARMS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_U32_CLASSID, _U32_SEL, _U32_TERMINAL = 1, 5, 1
_TICK_NS = 64  # the unit of time in the kernel's packet schedulers
_ROOT, _QDISC, _CLASS = 0xFFFFFFFF, 0x00010000, 0x00010001  # handles: the root, 1:, 1:1
_BURST_BYTES = 32_000


def _attribute(kind: int, payload: bytes) -> bytes:
    body = struct.pack("=HH", 4 + len(payload), kind) + payload
    return body + bytes(-len(body) % 4)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return _attribute(kind, struct.pack("=I", number))


class Rtnetlink:
    """A connection to the kernel for the interfaces of the namespace in which it was opened.

    Every method raises OSError if the kernel refuses.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _ask(self, kind: int, body: bytes, what: str, flags: int = 0) -> None:
        length = 16 + len(body)
        self._socket.send(struct.pack("=IHHII", length, kind, _REQUEST | _ACK | flags, 1, 0) + body)
        answer = self._socket.recv(65536)
        (kind,) = struct.unpack_from("=H", answer, 4)
        (code,) = struct.unpack_from("=i", answer, 16)
        if kind == _ERROR and code:
            raise OSError(-code, f"{what}: {os.strerror(-code)}")

    def up(self, name: str, *, mtu: int | None = None, queue: int | None = None) -> None:
        """Bring the interface up, with its MTU in bytes and the number of packets that it may queue."""
        body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(name), _IFF_UP, _IFF_UP)
        body += b"" if mtu is None else _number(_IFLA_MTU, mtu)
        body += b"" if queue is None else _number(_IFLA_TXQLEN, queue)
        self._ask(_NEW_LINK, body, f"{name} up")

    def address(self, name: str, address: str, prefix: int) -> None:
        """Give the interface an IPv4 address, and with it the route to its subnet."""
        raw = socket.inet_aton(address)
        body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
        body += _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw)
        self._ask(_NEW_ADDRESS, body, f"{name} address {address}", _CREATE | _EXCLUSIVE)

    def cap_udp(self, name: str, rate_bps: float) -> None:
        """Limit UDP that leaves through the interface to `rate_bps`; everything else passes unchanged.

        As ``tc qdisc add … htb; tc class add … htb rate …; tc filter add … u32 match ip protocol 17``. A datagram
        waits in the scheduler and stays charged to its sender's socket, so a fast sender blocks instead of losing data.
        """
        index = socket.if_nametoindex(name)

        def put(kind: int, handle: int, parent: int, info: int, scheduler: str, options: bytes) -> None:
            body = struct.pack("=BxHiIII", socket.AF_UNSPEC, 0, index, handle, parent, info)
            body += _text(_TCA_KIND, scheduler) + _attribute(_TCA_OPTIONS, options)
            self._ask(kind, body, f"{name} {scheduler}", _CREATE | _EXCLUSIVE)

        # no default class: packets that match no filter go straight to the device
        put(_NEW_QDISC, _QDISC, _ROOT, 0, "htb", _attribute(_HTB_INIT, struct.pack("=5I", 3, 10, 0, 0, 0)))

        rate = int(rate_bps / 8)
        ethernet = 1  # "linklayer": anything but 0 tells the kernel to compute, where old tc handed tables over
        spec = struct.pack("=BBHhHI", 0, ethernet, 0, 0, 0, min(rate, 0xFFFFFFFF))
        burst = max(1, round(_BURST_BYTES / rate * 1e9 / _TICK_NS))
        parms = spec + spec + struct.pack("=5I", burst, burst, _BURST_BYTES, 0, 0)
        wide = struct.pack("=Q", rate)
        put(
            _NEW_CLASS,
            _CLASS,
            _QDISC,
            0,
            "htb",
            _attribute(_HTB_PARMS, parms) + _attribute(_HTB_RATE64, wide) + _attribute(_HTB_CEIL64, wide),
        )

        # one key: the 32-bit word at byte 8 of the IP header holds the protocol in its second byte
        key = struct.pack("!II", 0x00FF0000, socket.IPPROTO_UDP << 16) + struct.pack("=ii", 8, 0)
        selector = struct.pack("=BBBxHHhhI", _U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + key
        priority_and_protocol = 1 << 16 | socket.htons(0x0800)
        put(
            _NEW_FILTER,
            0,
            _QDISC,
            priority_and_protocol,
            "u32",
            _number(_U32_CLASSID, _CLASS) + _attribute(_U32_SEL, selector),
        )
