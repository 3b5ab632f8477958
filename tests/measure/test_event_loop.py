"""Running a coroutine from synchronous code."""

import asyncio
import os
import signal
import sys

import pytest

from netperf_lib.measure import event_loop
from netperf_lib.measure.event_loop import finish

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals")


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request):
    before = signal.signal(request.param, lambda number, _: sys.exit(128 + number))
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_never_ends_a_callback_in_the_middle(number):
    happened = []

    def callback():
        os.kill(os.getpid(), number)
        happened.append("whole")

    async def work():
        asyncio.get_running_loop().call_soon(callback)
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0)
            happened.append("clean")

    with pytest.raises(SystemExit) as ended:
        finish(work())
    assert ended.value.code == 128 + number
    assert happened == ["whole", "clean"]


def test_a_second_signal_ends_the_cleaning(number):
    async def work():
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(20)
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(20)

    with pytest.raises(SystemExit) as ended:
        finish(work())
    assert ended.value.code == 128 + number


def test_a_signal_within_a_lock_cancels_too(monkeypatch):
    """An exception of a handler that meets the lock of a condition leaves it as RuntimeError."""
    wait, errors, happened = event_loop.wait, [RuntimeError("release unlocked lock")], []

    def interrupted(*arguments):
        if happened and errors:
            raise errors.pop()
        return wait(*arguments)

    async def work():
        happened.append("begun")
        try:
            await asyncio.sleep(20)
        finally:
            happened.append("clean")

    monkeypatch.setattr(event_loop, "wait", interrupted)
    with pytest.raises(RuntimeError, match="unlocked"):
        finish(work())
    assert happened == ["begun", "clean"]


def test_the_handlers_of_the_caller_are_there_again(number):
    handler = signal.getsignal(number)
    assert finish(asyncio.sleep(0, "done")) == "done"
    assert signal.getsignal(number) is handler


def test_a_signal_at_the_very_end_is_not_lost(number):
    async def work():
        os.kill(os.getpid(), number)

    with pytest.raises(SystemExit) as ended:
        finish(work())
    assert ended.value.code == 128 + number
