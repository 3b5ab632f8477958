"""Running coroutines to completion from synchronous code: in a script, in a thread, in a notebook.

In a notebook an event loop is already running while a cell executes. The coroutine then gets a loop
in a thread of its own, and interrupting the cell ends it as Ctrl-C ends a script: it is cancelled,
and given time to clean up.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def finish(
    work: Coroutine[Any, Any, Result], *, stopped: BaseException | None = None
) -> Result:
    """Run a coroutine to completion, whether or not an event loop is running in this thread.

    `stopped` is the error to raise if the process is terminated or loses its terminal meanwhile:
    `work` is cancelled first, so that it can clean up. Without it, signals are handled as before.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        main = threading.current_thread() is threading.main_thread()
        return asyncio.run(_watched(work, stopped) if stopped and main else work)
    return _in_thread(work)


async def _watched(work: Coroutine[Any, Any, Result], stopped: BaseException) -> Result:
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    numbers = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    handlers = {number: signal.getsignal(number) for number in numbers}
    # ignored: nohup does that
    before = {n: one for n, one in handlers.items() if one not in (None, signal.SIG_IGN)}
    for number in before:
        loop.add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if interrupted:
            raise stopped from None
        raise
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


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
