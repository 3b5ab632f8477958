"""Running a coroutine to completion from synchronous code: in a script, in a thread, in a notebook.

It runs in a thread of its own, for two reasons. In a notebook an event loop is already running
while a cell executes. And Ctrl-C, or a signal that ends a process by an exception of its handler,
would raise that exception in the middle of a callback, which leaves a connection in an unknown
state; so it is raised in the thread that waits, and the coroutine is cancelled, and given time to
clean up.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, whether or not an event loop runs in this thread.

    An exception of a signal's handler cancels it, and is raised when it has cleaned up; a second
    one is raised at once.
    """
    cancel: Future[Callable[[], object]] = Future()
    ended: Future[Result] = Future()

    async def inside() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel.set_result(partial(loop.call_soon_threadsafe, task.cancel))
        return await work

    def run() -> None:
        try:
            ended.set_result(asyncio.run(inside()))
        except BaseException as error:  # noqa: BLE001 (raised where it is waited for)
            ended.set_exception(error)

    # a daemon: a process that is told twice to end does not wait for it
    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        _wait_for(ended)
    except BaseException:
        if thread.ident is None:  # no thread can be started
            raise
        with contextlib.suppress(RuntimeError):  # it has just ended
            cancel.result()()
        _wait_for(ended)
        raise
    return ended.result()


def _wait_for(ended: Future[Any]) -> None:
    while not ended.done():
        wait([ended], 1)  # Windows notices Ctrl-C only between two waits
