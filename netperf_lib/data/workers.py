"""Parallel work: on any executor like those of `concurrent.futures`, on processes here, or on a Dask cluster.

A worker can die at any time. Its tasks are repeated by another, so they must be safe to repeat.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import ExitStack
from itertools import islice
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import Any, Self, TypeVar

from ..errors import StoreError, UsageError, pip_install

DEATHS = 3
"""Number of times that a pool of workers may break before the work is given up."""
AHEAD = 32
"""Tasks submitted and not yet collected: enough to keep workers busy, few enough to hold their results in memory."""

Task = TypeVar("Task", bound=tuple[Any, ...])
Result = TypeVar("Result")


class Engine:
    """Where work is done: in this process, in several here, on a Dask cluster, or in your own executor.

    Parameters
    ----------
    workers : int
        Processes on this machine; 1 works in this one.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.5:8786``. Its workers must be able to open the data root,
        with credentials of their own.
    executor : concurrent.futures.Executor, optional
        Used as it is, and left open.
    helps : bool, optional
        This process is one of the `workers`: it begins at once, while the others start. For many small tasks; a task
        that may need all the memory is better run where only a worker dies.

    Raises
    ------
    UsageError
        The scheduler cannot be reached, or Dask is not installed.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        scheduler: str | None = None,
        executor: Executor | None = None,
        helps: bool = False,
    ) -> None:
        if workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        self._stack = ExitStack()
        self._given, self._workers, self._scheduler = executor, workers, scheduler
        self._helps = helps
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        if self._given is None and self._scheduler is not None:
            self._given = self._cluster(self._scheduler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
        self._stack.close()

    def _cluster(self, scheduler: str) -> Executor:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(f"Dask is not installed; `{pip_install('distributed')}`") from None
        try:
            client: Any = Client(scheduler, timeout=5, set_as_default=False)  # type: ignore[no-untyped-call]
            self._stack.enter_context(client)
        except (OSError, ValueError) as error:
            raise UsageError(f"no Dask scheduler answers at {scheduler} ({error}); give its tcp://host:port") from None
        executor: Executor = self._stack.enter_context(client.get_executor(pure=False, retries=DEATHS))
        return executor

    def each(self, function: Callable[..., Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """Call `function` with the arguments of every task; yield each task with its result as they complete."""
        if self._given is None and self._workers == 1:
            for alone in tasks:
                yield alone, function(*alone)
            return
        coming, again = iter(tasks), deque[Task]()
        if self._given is None and self._pool is None:
            again.extend(islice(coming, 2))
            if len(again) == 1:  # nothing to share
                yield again[0], function(*again[0])
                return
        running: dict[Future[Result], Task] = {}
        ahead = (
            2 * self._workers if self._helps else AHEAD
        )  # with help from this process, little is left to wait for at the end
        deaths = 0
        while True:
            while len(running) < ahead:
                try:
                    task = again.popleft() if again else next(coming)
                except StopIteration:
                    break
                try:
                    running[self._executor().submit(function, *task)] = task
                except BrokenExecutor:
                    again.append(task)
                    break
            if not running and not again:
                return
            if self._helps and not any(future.done() for future in running):
                mine_now = again.popleft() if again else next(coming, None)
                if mine_now is not None:
                    yield mine_now, function(*mine_now)
                    continue
            finished = wait(running, return_when=FIRST_COMPLETED).done if running else set()
            broken = not running
            for future in finished:
                mine = running.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor:
                    again.append(mine)
                    broken = True
                    continue
                except CancelledError:
                    raise StoreError(
                        "the work was cancelled (did the scheduler end?); what was committed is kept, run the command "
                        "again"
                    ) from None
                except Exception as error:
                    if type(error).__name__ != "KilledWorker":  # Dask's: imported only where it is used
                        raise
                    raise StoreError(f"{error}; what was committed is kept, run the command again") from None
                yield mine, result
            if broken:
                deaths += 1
                again.extend(running.values())
                running.clear()
                if self._given is not None or deaths > DEATHS:
                    raise StoreError(
                        "the workers died (out of memory?); what was committed is kept, so run the command again, "
                        "with fewer workers or on larger machines"
                    )
                self._pool = None

    def _executor(self) -> Executor:
        if self._given is not None:
            return self._given
        if self._pool is None:
            # not forked: threads of this process may hold locks that a copy of it would never see released
            started = self._workers - self._helps
            self._pool = ProcessPoolExecutor(
                started, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
            )
        return self._pool


def _end_with_parent() -> None:
    """End this worker when the process that started it ends, however it ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
