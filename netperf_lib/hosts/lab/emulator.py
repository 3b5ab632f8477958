"""The network between the hosts: a process that holds every packet for as long as its path takes.

A star of TUN devices instead of netem on veth pairs: it needs no kernel module and no root, and its
delays are accurate to a few microseconds, because the process spins for the last stretch before a
deadline. Whether netem is better could not be measured, since the available kernels lack it; so it
is not used.
"""

from __future__ import annotations

import gc
import os
import random
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from .namespace import VNET_HEADER, exact_timers
from .topology import Options

_SPIN_NS = 100_000
"""How long before a deadline to stop sleeping, and how long after a packet to wait for the next
one without sleeping: longer than a sleep overruns, and than a host needs for an answer."""
_SECOND_NS = 1_000_000_000
_FRAME_BYTES = VNET_HEADER + 65_536
_READS_IN_A_ROW, _WRITES_IN_A_ROW = 16, 64
"""Bounds that keep one busy host from starving the others, and reading from starving writing."""

_VERSION = VNET_HEADER
_DESTINATION = slice(VNET_HEADER + 16, VNET_HEADER + 20)


@dataclass(slots=True)
class _Queue:
    """What sends one packet after the other: the interface of a host, or a link."""

    rate_bps: float
    longest_ns: int
    """How long a packet may wait for its turn before it is dropped."""
    free_ns: int = 0

    def sent(self, arrived_ns: int, size: int) -> int:
        """When a packet is sent; 0: it is dropped."""
        start_ns = self.free_ns
        if start_ns < arrived_ns:
            start_ns = arrived_ns
        elif start_ns - arrived_ns > self.longest_ns:
            return 0
        self.free_ns = start_ns + int(size * 8e9 / self.rate_bps)
        return self.free_ns


@dataclass(slots=True)
class _Lane:
    """One direction between two hosts."""

    receiver: int
    interface: _Queue
    link: _Queue | None
    delay_ns: int
    jitter_ns: float
    variation: float
    loss: float
    extra_ns: int = 0
    """What the delay is longer by in this second."""
    second_ends_ns: int = 0
    last_ns: int = 0

    def due(self, frame: bytes, arrived_ns: int) -> int:
        """When a packet arrives; 0: it is lost on the way."""
        if self.loss and random.random() < 1 - (1 - self.loss) ** _segments(frame):
            return 0
        size = len(frame) - VNET_HEADER
        sent_ns = self.interface.sent(arrived_ns, size)
        if sent_ns and self.link is not None:
            sent_ns = self.link.sent(sent_ns, size)
        if not sent_ns:
            return 0
        due_ns = sent_ns + self.delay_ns
        if self.variation or self.jitter_ns:
            if arrived_ns > self.second_ends_ns:
                self.second_ends_ns = arrived_ns + _SECOND_NS
                self.extra_ns = int(random.gauss(0, self.variation) * self.delay_ns)
            due_ns += self.extra_ns + int(random.random() * self.jitter_ns)
            # no reordering: TCP would take it for loss
            due_ns = self.last_ns = max(self.last_ns, due_ns)
        return due_ns


class Emulator:
    """All links of a lab, between the open TUN devices of its hosts.

    What the emulation itself adds to a delay is subtracted from every delay.
    """

    def __init__(self, options: Options, tuns: Mapping[str, int]) -> None:
        queue_ns = round(options.queue_us * 1000)
        self._lanes: dict[int, dict[bytes, _Lane]] = {}
        for a in options.hosts:
            interface = _Queue(a.egress_bps, queue_ns)
            lanes = self._lanes[tuns[a.name]] = {}
            for b in options.hosts:
                if a.name != b.name:
                    path = options.path(a.name, b.name)
                    lanes[socket.inet_aton(options.address(b.name))] = _Lane(
                        receiver=tuns[b.name],
                        interface=interface,
                        link=_Queue(path.rate_bps, queue_ns) if path.rate_bps else None,
                        delay_ns=round(path.delay_us * 1000),
                        jitter_ns=path.jitter_us * 1000,
                        variation=path.variation,
                        loss=path.loss,
                    )

    def run(self, stop: int) -> None:  # noqa: C901
        """Carry packets until the descriptor `stop` becomes readable.

        This is the hot path: it runs some 100,000 times a second, and every microsecond in it is a
        microsecond of latency that the emulation adds. Hence local names, and no avoidable call.
        """
        exact_timers()
        gc.disable()  # nothing here makes cycles, and a collection would be a pause of milliseconds
        now, read, write, push, pop = (
            time.monotonic_ns,
            os.read,
            os.write,
            heappush,
            heappop,
        )
        lanes_of = self._lanes
        waiting: list[
            tuple[int, int, int, bytes]
        ] = []  # (when due, serial, receiver, frame): a heap
        serial = 0  # packets due at the same time leave in the order in which they came
        worked_ns = 0
        poller = select.epoll()
        for fd in (*lanes_of, stop):
            poller.register(fd, select.EPOLLIN)
        poll = poller.poll

        while True:
            worked = False
            for fd, _ in poll(0):
                if fd == stop:
                    return
                worked = True
                lanes = lanes_of[fd]
                for _ in range(_READS_IN_A_ROW):
                    try:
                        frame = read(fd, _FRAME_BYTES)
                    except BlockingIOError:
                        break
                    lane = lanes.get(frame[_DESTINATION])
                    if (
                        lane is not None
                        and frame[_VERSION] >> 4 == 4
                        and (due_ns := lane.due(frame, now()))
                    ):
                        serial += 1
                        push(waiting, (due_ns, serial, lane.receiver, frame))
            time_ns = now()
            for _ in range(_WRITES_IN_A_ROW):
                if not waiting or waiting[0][0] > time_ns:
                    break
                worked = True
                _, _, receiver, frame = pop(waiting)
                try:  # noqa: SIM105  faster
                    write(receiver, frame)
                except OSError:  # interface down or full
                    pass
                time_ns = now()
            if worked:
                worked_ns = time_ns
            elif time_ns - worked_ns >= _SPIN_NS:
                _sleep((poller.fileno(),), waiting[0][0] if waiting else None)


def _sleep(descriptors: Sequence[int], due_ns: int | None) -> None:
    """Sleep until a descriptor is readable or shortly before a packet is due.

    By select and not epoll, whose time-out is no finer than a millisecond.
    """
    if due_ns is None:
        select.select(descriptors, (), ())
    elif (left_ns := due_ns - time.monotonic_ns() - _SPIN_NS) > 0:
        select.select(descriptors, (), (), left_ns * 1e-9)


def _segments(frame: bytes) -> int:
    """Return the number of packets that a super-packet becomes on a wire.

    Of virtio_net_hdr, byte 1 is gso_type, and bytes 4 and 5 are gso_size.
    """
    largest = frame[4] | frame[5] << 8
    return -(-(len(frame) - VNET_HEADER) // largest) if frame[1] and largest else 1
