"""The network between the hosts: a process that holds every packet for as long as its path takes.

A star of TUN devices instead of netem on veth pairs: it needs no kernel module, no ``tc`` and no root, and its delays
are accurate to a few microseconds, because the process spins for the last stretch before a deadline. Whether netem is
better could not be measured, since the available kernels lack it; so it is not used.
"""

from __future__ import annotations

import gc
import heapq
import os
import random
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .namespace import VNET_HEADER, exact_timers
from .topology import Options

_SPIN_NS = 100_000
"""How long before a deadline to stop sleeping, and how long after a packet to wait for the next one without sleeping:
longer than a sleep overruns, and than a host needs for an answer."""
_FRAME_BYTES = VNET_HEADER + 65_536
_READS_IN_A_ROW, _WRITES_IN_A_ROW = 16, 64
"""Bounds that keep one busy host from starving the others, and reading from starving writing."""

_VERSION = VNET_HEADER
_DESTINATION = slice(VNET_HEADER + 16, VNET_HEADER + 20)


@dataclass(slots=True)
class Counters:
    """What the emulator did with the packets (super-packets count once)."""

    forwarded: int = 0
    forwarded_bytes: int = 0
    dropped_queue: int = 0
    """Dropped because a queue was full: the path carries no more."""
    dropped_loss: int = 0
    """Lost on purpose."""
    dropped_refused: int = 0
    """Dropped because the receiving interface accepted no more."""
    unroutable: int = 0
    """Not addressed to a host of the lab: multicast, broadcast, IPv6."""
    latest_us: float = 0
    """Largest delay of a packet beyond its due time."""


@dataclass(slots=True)
class _Lane:
    """One direction between two hosts: the path in the loop's units, and until when it is occupied."""

    fd: int
    delay_ns: int
    jitter_ns: float
    link_ns_per_byte: float
    loss: float
    link_free_ns: int = 0
    last_ns: int = 0


class Emulator:
    """All links of a lab, between the open TUN devices of its hosts.

    `overhead_us` is what the emulation itself adds to every one-way delay; it is subtracted from the requested delays.
    """

    def __init__(self, options: Options, tuns: Mapping[str, int], *, overhead_us: float = 0) -> None:
        self._queue_ns = round(options.queue_us * 1000)
        self._tuns: Sequence[int] = [tuns[h.name] for h in options.hosts]
        self._egress_ns_per_byte = {tuns[h.name]: 8e9 / h.egress_bps for h in options.hosts}
        self._lanes: dict[int, dict[bytes, _Lane]] = {}
        for a in options.hosts:
            lanes = self._lanes[tuns[a.name]] = {}
            for b in options.hosts:
                if a.name != b.name:
                    path = options.path(a.name, b.name)
                    delay_ns = round(max(0, path.delay_us - overhead_us) * 1000)
                    per_byte = 8e9 / path.rate_bps if path.rate_bps else 0.0
                    lane = _Lane(tuns[b.name], delay_ns, path.jitter_us * 1000, per_byte, path.loss)
                    lanes[socket.inet_aton(options.address(b.name))] = lane

    def run(self, stop: int) -> Counters:
        """Carry packets until the descriptor `stop` becomes readable.

        This is the hot path: it runs some 100,000 times a second, and every microsecond in it is a microsecond of
        latency that the emulation adds. Hence one long function with local names and no avoidable call.
        """
        exact_timers()
        gc.disable()  # nothing here makes cycles, and a collection would be a pause of milliseconds
        count = Counters()
        now, read, write, uniform = time.monotonic_ns, os.read, os.write, random.random
        push, pop = heapq.heappush, heapq.heappop
        lanes_of, egress_ns_per_byte, queue_ns = self._lanes, self._egress_ns_per_byte, self._queue_ns
        egress_free_ns = dict.fromkeys(self._tuns, 0)
        waiting: list[tuple[int, int, int, bytes]] = []  # (when due, serial, descriptor, frame): a heap
        serial = 0  # packets due at the same time leave in the order in which they came
        latest_ns = worked_ns = 0

        poller = select.epoll()
        for fd in (*self._tuns, stop):
            poller.register(fd, select.EPOLLIN)
        poll, sleepers = poller.poll, (poller.fileno(),)

        while True:
            worked = False
            for fd, _ in poll(0):
                if fd == stop:
                    count.latest_us = latest_ns / 1000
                    return count
                worked = True
                lanes = lanes_of[fd]
                for _ in range(_READS_IN_A_ROW):
                    try:
                        frame = read(fd, _FRAME_BYTES)
                    except BlockingIOError:
                        break
                    arrived = now()
                    lane = lanes.get(frame[_DESTINATION])
                    if lane is None or frame[_VERSION] >> 4 != 4:
                        count.unroutable += 1
                        continue
                    size = len(frame) - VNET_HEADER
                    if lane.loss and uniform() < 1 - (1 - lane.loss) ** _segments(frame):
                        count.dropped_loss += 1
                        continue

                    # the sender's interface: one packet after the other, unless too many are already waiting
                    sent = egress_free_ns[fd]
                    if sent < arrived:
                        sent = arrived
                    elif sent - arrived > queue_ns:
                        count.dropped_queue += 1
                        continue
                    sent += int(size * egress_ns_per_byte[fd])
                    egress_free_ns[fd] = sent

                    # the link, if it is slower: the same again
                    if lane.link_ns_per_byte:
                        start = lane.link_free_ns
                        if start < sent:
                            start = sent
                        elif start - sent > queue_ns:
                            count.dropped_queue += 1
                            continue
                        sent = lane.link_free_ns = start + int(size * lane.link_ns_per_byte)

                    due = sent + lane.delay_ns
                    if lane.jitter_ns:
                        due += int(uniform() * lane.jitter_ns)
                        if due < lane.last_ns:  # no reordering: TCP would take it for loss
                            due = lane.last_ns
                        lane.last_ns = due
                    serial += 1
                    push(waiting, (due, serial, lane.fd, frame))

            time_ns = now()
            for _ in range(_WRITES_IN_A_ROW):
                if not waiting or waiting[0][0] > time_ns:
                    break
                due, _, fd, frame = pop(waiting)
                try:
                    write(fd, frame)
                except OSError:  # interface down or full
                    count.dropped_refused += 1
                else:
                    count.forwarded += 1
                    count.forwarded_bytes += len(frame) - VNET_HEADER
                if time_ns - due > latest_ns:
                    latest_ns = time_ns - due
                time_ns = now()
                worked = True

            if worked:
                worked_ns = time_ns
                continue
            if time_ns - worked_ns < _SPIN_NS:
                continue
            _sleep(sleepers, waiting[0][0] if waiting else None)


def _sleep(descriptors: Sequence[int], due_ns: int | None) -> None:
    """Sleep until a descriptor is readable or shortly before a packet is due.

    By select and not epoll, whose time-out is no finer than a millisecond.
    """
    if due_ns is None:
        select.select(descriptors, (), ())
    elif (rest_ns := due_ns - time.monotonic_ns() - _SPIN_NS) > 0:
        select.select(descriptors, (), (), rest_ns * 1e-9)


def _segments(frame: bytes) -> int:
    """Number of packets that a super-packet becomes on a wire (virtio_net_hdr: byte 1 gso_type, bytes 4-5 gso_size)."""
    largest = frame[4] | frame[5] << 8
    return -(-(len(frame) - VNET_HEADER) // largest) if frame[1] and largest else 1
