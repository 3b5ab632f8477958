"""Running coroutines to completion from synchronous code: in a script, in a thread, in a notebook.

In a notebook an event loop is already running while a cell executes. The coroutine then gets a loop
in a thread of its own, and interrupting the cell ends it as Ctrl-C ends a script: it is cancelled,
and given time to clean up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, whether or not an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it in a separate thread; interrupting this thread cancels it."""
    begun: Future[Callable[[], object]] = Future()

    async def inside() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        begun.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(asyncio.run, inside())
        try:
            return ended.result()
        except BaseException:
            if not ended.done():
                begun.result()()
            raise
