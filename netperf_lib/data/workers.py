"""Parts of work on any `concurrent.futures.Executor`.

Processes of this machine, or those of a cluster.

A worker can die at any time: tasks are safe to repeat, so whoever started them runs the same
command again.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from ..errors import StoreError

Task = TypeVar("Task", bound=tuple[Any, ...])
Outcome = TypeVar("Outcome")


def run_all(
    function: Callable[..., Outcome],
    tasks: Iterable[Task],
    executor: Executor | None = None,
) -> Iterator[tuple[Task, Outcome]]:
    """Call `function` with the arguments of every task; yield each task with its result, in order.

    Without an executor, and for a single task, it is called in this process. StoreError if a worker
    died.
    """
    todo = list(tasks)
    if not todo:
        return
    each = map if executor is None or len(todo) < 2 else executor.map
    try:
        yield from zip(todo, each(function, *zip(*todo, strict=True)), strict=True)
    except BrokenExecutor:
        raise StoreError(
            "a worker died (out of memory?); what was written is kept: run the command again, "
            "with fewer workers"
        ) from None


@contextmanager
def processes(count: int) -> Iterator[Executor | None]:
    """Yield an executor with this many processes, which end with this one; None for one process."""
    if count < 2:
        yield None
        return
    # not forked: threads of this process may hold locks that a copy of it would never see released
    context = multiprocessing.get_context("spawn")
    watched, kept = context.Pipe(duplex=False)
    with ProcessPoolExecutor(
        count, mp_context=context, initializer=_end_with, initargs=(watched,)
    ) as pool:
        try:
            yield pool
        finally:
            # a worker that was killed may hold a lock for which the others would wait for ever
            kept.close()


def _end_with(watched: Connection) -> None:
    """End this worker when the other end of a pipe is closed.

    The process that started it holds that end until its work is done or it ends, however it ends.
    """

    def watch() -> None:
        wait([watched])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
