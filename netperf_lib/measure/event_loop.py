"""Running coroutines to completion from synchronous code: in a script, in a thread, in a notebook.

In a notebook an event loop is already running while a cell executes. The coroutine then gets a loop
in a thread of its own, and interrupting the cell ends it as Ctrl-C ends a script: it is cancelled,
and given time to clean up.

So do the signals that end a process by an exception of their handler. An exception that such a
handler raises in the middle of a callback would leave a connection in an unknown state, and nothing
could be put back over it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

ENDS = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""Signals that ask a process to end; `asyncio.run` itself treats Ctrl-C in this way."""


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, whether or not an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _in_this_thread(work)
    return _in_thread(work)


def _in_this_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it here; a signal cancels it, and its handler runs when it has cleaned up."""
    handlers = _handlers()
    received: list[int] = []

    async def inside() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int, _: object) -> None:
            received.append(number)
            _set(handlers)  # a second signal ends it at once
            loop.call_soon_threadsafe(task.cancel)

        _set(dict.fromkeys(handlers, cancel))
        try:
            return await work
        finally:
            _set(handlers)

    try:
        return asyncio.run(inside())
    finally:
        for number in received:
            handlers[number](number, None)


def _handlers() -> dict[int, Callable[[int, Any], Any]]:
    """Return the functions that handle the signals to end, where they can be replaced."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in ENDS}
    return {number: handler for number, handler in found.items() if callable(handler)}


def _set(handlers: dict[int, Callable[[int, Any], Any]]) -> None:
    for number, handler in handlers.items():
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
