"""Keep processors from going idle while packets flow.

A processor without work halts, and waking it takes some 10 µs on a desktop and some 50 µs in a virtual machine: as much
as the delays that the lab emulates, and a different amount each time. On two virtual processors, the one-way delay
added by the emulation went from 57 µs, at times 12, to a steady 12.5 µs.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from pathlib import Path

from . import namespace

_LATENCY = Path("/dev/cpu_dma_latency")
_AT_ONCE, _WHENEVER = struct.pack("=i", 0), struct.pack("=i", 2_000_000_000)
_MOST_PROCESSORS = 4
"""Most processors that an ordinary user's lab uses, because each is kept busy."""


_CROWDED_NS = 300_000
_REST_S = 0.25
"""A loop that was off its processor for this long is not needed there, and rests. It would do harm: only a processor
without any work takes over tasks waiting for another one, and packets would be milliseconds late on a busy machine."""


class KeepAwake:
    """A request that can be held and released, and that ends with this process.

    Root makes it to the kernel (its PM quality of service, ``/dev/cpu_dma_latency``). Other users keep the processors
    busy with loops of the lowest scheduling class, which give way to everything at once.
    """

    def __init__(self) -> None:
        self._spinners: list[int] = []
        self._held = False
        try:
            self._device: int | None = os.open(_LATENCY, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._device = None
            me = os.getpid()
            for processor in os.sched_getaffinity(0):
                self._spinners.append(_spinner(processor, me))

    def hold(self) -> None:
        """Prevent sleeping from now on."""
        if not self._held:
            self._set(_AT_ONCE, signal.SIGCONT)

    def release(self) -> None:
        """Allow sleeping from now on."""
        if self._held:
            self._set(_WHENEVER, signal.SIGSTOP)

    def _set(self, latency: bytes, spin: signal.Signals) -> None:
        self._held = not self._held
        if self._device is not None:
            os.write(self._device, latency)
        for pid in self._spinners:
            os.kill(pid, spin)

    def close(self) -> None:
        """End the request for good."""
        if self._device is not None:
            os.close(self._device)
        for pid in self._spinners:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def few_processors() -> None:
    """Restrict this process and its children to a few processors, if they are kept awake by keeping them busy."""
    if not os.access(_LATENCY, os.W_OK):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_MOST_PROCESSORS])


def _spinner(processor: int, parent: int) -> int:
    if pid := os.fork():
        os.waitpid(pid, os.WUNTRACED)  # until it has stopped itself
        return pid
    namespace.die_with_parent(parent)
    namespace.close_all_but()
    os.sched_setaffinity(0, {processor})
    os.nice(19)  # so that it is counted as yielding work, not as load
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    now = time.monotonic_ns
    last = now()

    def resume(*_: object) -> None:
        nonlocal last
        last = now()

    signal.signal(signal.SIGCONT, resume)
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        time_ns = now()
        if time_ns - last > _CROWDED_NS:
            time.sleep(_REST_S)
            time_ns = now()
        last = time_ns
