"""A stop, and each of a dozen faults, at every command of az: nothing is left, nothing is silent.

Time is the clock's own, and what is repeated is repeated by the real code. Some commands in
`make test`, every one in `make test-all`.
"""

import os
import shutil
from contextlib import suppress
from itertools import product

import pytest

from netperf_lib.errors import AzureError
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure.failures import read_failure

from .conftest import experiment, nothing_is_left

CRASH = """ERROR: The command failed with an unexpected error. Here is the traceback:
Traceback (most recent call last):
  File "/opt/az/lib/python3.13/site-packages/knack/cli.py", line 233, in invoke
    cmd_result = self.invocation.execute(args)
{0}
"""
PRINTED = {
    "404 group": "ERROR: (ResourceGroupNotFound) Resource group 'npl-x' could not be found.",
    "404 deployment": "ERROR: (DeploymentNotFound) Deployment 'npl-1' could not be found.",
    "409": "ERROR: (AnotherOperationInProgress) Another operation is in progress.",
    "429": "ERROR: (TooManyRequests) Please try again after '17' seconds.",
    "401": "ERROR: (ExpiredAuthenticationToken) The access token has expired.",
    "login": "ERROR: AADSTS700082: The refresh token has expired. Trace ID: 1",
    "500": "ERROR: Internal Server Error",
    "502": "ERROR: (BadGatewayConnection) The gateway lost its connection.",
    "reset": "ERROR: ('Connection aborted.', ConnectionResetError(104, 'reset by peer'))",
    "cut off": CRASH.format(
        "ProtocolError: ('Connection broken: IncompleteRead(0 bytes)')"
    ),
    "crash": CRASH.format("KeyError: 'tokenType'"),
    "out of memory": "",
}
"""What az prints."""
ANSWERS = {"nothing": None, "an empty list": []}
"""What az answers, for a look that shows what was there before."""
WAYS = ("before", "after")


@pytest.fixture(autouse=True)
def power(monkeypatch):
    """Nobody pulls the plug, so that nothing has to wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Stopped(BaseException):
    """As Ctrl-C, SIGTERM and a closed terminal: whatever ends the process in an orderly way."""


def stop(az, when, index, state, frozen):
    """Stop at a command; a copy of the folder is what a kill would have left."""

    def hook(now, _):
        if now == index:
            if state.exists():
                shutil.copytree(state, frozen)
            raise Stopped

    setattr(az, when, hook)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("when", "killed", "cloud"),
    [*product(WAYS, [False, True], [1])],
    indirect=["cloud"],
)
def test_a_stop_at_every_command(az, cloud, tmp_path, capsys, when, killed, step):
    declared = experiment("a b ppg")
    for index in range(0, 1000, step):
        state, frozen = tmp_path / f"{index}", tmp_path / f"{index}-frozen"
        az.commands.clear()
        stop(az, when, index, state, frozen)
        stopped = True
        try:
            azure.up(declared, number=1, state=state)
            azure.down(declared, state=state)
            stopped = False
        except Stopped:
            left = [name for name in cloud.groups if name != "net"]
            assert not left or "may exist and cost money" in capsys.readouterr().err
            if killed and frozen.exists():
                shutil.rmtree(state)
                frozen.rename(state)
        setattr(az, when, lambda *_: None)
        if index % 3 == 2:
            # it may still be deleted
            with suppress(AzureError):
                azure.up(declared, number=1, state=state)
        azure.down(declared, state=state)
        nothing_is_left(cloud, state)
        if not stopped:
            break
    assert index > 15


def fail(az, when, name, index, times):
    """Let a command fail so often, and those like it."""
    failed = []

    def hook(now, words):
        alike = not failed or failed[0][:2] == words[:2]
        if now < index or len(failed) == times or not alike:
            return None
        failed.append(words)
        if name in ANSWERS:
            verb = next(w for w in reversed(words[:4]) if not w.startswith("-"))
            return [ANSWERS[name]] if verb.startswith("list") else None
        raise read_failure("az " + " ".join(words[:3]), 1, PRINTED[name])

    setattr(az, when, hook)


TELLING = [
    ("before", "429"),
    ("before", "nothing"),
    ("after", "404 group"),
    ("after", "500"),
    ("after", "reset"),
    ("after", "out of memory"),
]
"""Faults of each kind: az repeats it, az prints nothing, the cloud did it all the same."""


@pytest.mark.parametrize(
    ("when", "name", "times", "step"),
    [
        *((*fault, 3, 13) for fault in TELLING),
        *(
            pytest.param(when, name, times, 1, marks=pytest.mark.slow)
            for when, name, times in product(WAYS, [*PRINTED, *ANSWERS], (1, 3))
        ),
    ],
)
def test_a_fault_at_every_command(az, cloud, tmp_path, when, name, times, step):
    declared = experiment("a b ppg")
    for index in range(0, 1000, step):
        state = tmp_path / f"{index}"
        az.commands.clear()
        fail(az, when, name, index, times)
        silent = True
        with suppress(AzureError):
            azure.up(declared, number=1, state=state)
        try:
            azure.down(declared, state=state)
        except AzureError:
            silent = False
        cloud.settle()
        assert not cloud.groups or not silent, f"{name} {index}"
        setattr(az, when, lambda *_: None)
        azure.down(declared, state=state)
        nothing_is_left(cloud, state)
        if index >= len(az.commands):
            break
