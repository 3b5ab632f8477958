"""Parallel work on any executor of the kind of `concurrent.futures`: processes here, a Dask cluster, or your own.

A worker can die at any time: tasks are safe to repeat, so whoever started them runs the same command again.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    as_completed,
)
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeAlias, TypeVar

from ..errors import StoreError, UsageError, pip_install

Workers: TypeAlias = int | str | Executor
"""Where work is done: on this many processes of this machine (1: in this one), on the Dask cluster whose scheduler has
this address (``tcp://10.0.0.5:8786``; its workers open the data root with credentials of their own), or in an executor,
which is left open."""

Task = TypeVar("Task", bound=tuple[Any, ...])
Outcome = TypeVar("Outcome")


def run_all(
    function: Callable[..., Outcome], tasks: Iterable[Task], workers: Workers = 1
) -> Iterator[tuple[Task, Outcome]]:
    """Call `function` with the arguments of every task; yield each task with its result as they complete.

    Raises
    ------
    StoreError
        Workers died.
    UsageError
        There are no workers: a number below 1, no scheduler at that address, or Dask is not installed.
    """
    todo = list(tasks)
    if workers == 1 or (isinstance(workers, int) and workers > 1 and len(todo) < 2):
        for task in todo:
            yield task, function(*task)
        return
    with _executor(workers) as executor:
        running = {executor.submit(function, *task): task for task in todo}
        for future in as_completed(running):
            try:
                result = future.result()
            except Exception as error:
                ended = (
                    "the scheduler ended"
                    if isinstance(error, CancelledError)
                    else "a worker died (out of memory?)"
                )
                # the last is Dask's, which is imported only where it is used
                if (
                    not isinstance(error, BrokenExecutor | CancelledError)
                    and type(error).__name__ != "KilledWorker"
                ):
                    raise
                raise StoreError(
                    f"{ended}; what was committed is kept: run the command again, with fewer or larger workers"
                ) from None
            yield running.pop(future), result


@contextmanager
def _executor(workers: Workers) -> Iterator[Executor]:
    if isinstance(workers, Executor):
        yield workers
    elif isinstance(workers, str):
        try:
            from distributed import Client

            client: Any = Client(workers, timeout=5, set_as_default=False)  # type: ignore[no-untyped-call]
        except ImportError:
            raise UsageError(f"Dask is not installed; `{pip_install('distributed')}`") from None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {workers} ({error}); give its tcp://host:port"
            ) from None
        with client, client.get_executor(pure=False) as executor:
            yield executor
    elif workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers}")
    else:
        # not forked: threads of this process may hold locks that a copy of it would never see released
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()


def _end_with_parent() -> None:
    """End this worker when the process that started it ends, however it ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
