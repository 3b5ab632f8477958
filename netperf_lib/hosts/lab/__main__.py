"""The supervisor's own process, started by `lab.start`.

``python -m netperf_lib.hosts.lab FOLDER NUMBER CALLER``.

It reads its options from standard input, prints one line on standard output (ready, or an error),
and runs until it is told to end or its caller is gone. Without arguments it only checks whether a
lab could run, which also needs a single-threaded process, unlike the caller.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from ...data.files import write
from ...errors import LabError
from ...experiment.deployment import Deployment
from . import lock, namespace, requirements
from .supervisor import Supervisor
from .topology import Options

log = logging.getLogger("netperf_lib.hosts.lab")


def main(*arguments: str) -> int:
    """Run a lab, or without arguments only check whether one could run; return the exit code."""
    answer = os.dup(1)  # not inherited by child processes

    def say(message: str) -> None:
        with contextlib.suppress(OSError):  # after the first message nobody listens
            os.write(answer, f"{message}\n".encode())

    try:
        if arguments:
            _run(
                Path(arguments[0]),
                int(arguments[1]),
                int(arguments[2]),
                partial(say, "ready"),
            )
        else:
            requirements.check()
            say("ready")
    except LabError as error:
        log.error("%s", error)  # noqa: TRY400  the message says it all
        say(str(error))
        return 1
    return 0


def _run(folder: Path, number: int, caller: int, ready: Callable[[], None]) -> None:
    """Run a lab until it is told to end; `ready` is called when it is."""
    namespace.die_with_parent(caller)  # the hosts die with this process, at any stage
    lock.acquire(folder / "lock")
    options = Options.model_validate_json(sys.stdin.read())
    _log_to(folder / lock.LOG)
    supervisor = Supervisor(options, folder)
    try:
        requirements.check()
        supervisor.start()
        described = TypeAdapter(Deployment).dump_json(
            supervisor.describe(number), indent=2
        )
        write(
            folder / "deployment.json", described
        )  # for other processes that use the lab
        ready()
        # from here on it watches its caller, and removes its files when that ends
        namespace.outlive_parent()
        log.info("it ends: %s", supervisor.wait(caller))
    finally:
        supervisor.stop()
        lock.clean(folder)


def _log_to(file: Path) -> None:
    """Send the log and all output of the parts to `file`: a supervisor has no terminal."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
