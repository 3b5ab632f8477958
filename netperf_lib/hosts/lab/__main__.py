"""The supervisor's own process, started by `lab.start`: ``python -m netperf_lib.hosts.lab FOLDER NUMBER CALLER``.

It reads its options from standard input, prints one line of JSON on standard output (ready, or an error), and runs
until it is told to end or its caller is gone. Without arguments it only checks whether a lab could run, which also
needs a single-threaded process, unlike the caller.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from ...errors import LabError
from . import lock, namespace, requirements
from .deployment import describe, write
from .supervisor import Supervisor, clean
from .topology import Options

log = logging.getLogger("netperf_lib.hosts.lab")


def main(folder: Path, number: int, caller: int) -> int:
    """Run a lab; return the exit code."""
    namespace.die_with_parent(caller)  # the hosts die with this process, at any stage
    answer = os.dup(1)  # not inherited by child processes
    if (other := lock.acquire(folder / "lock")) is not None:
        _say(answer, error=f"process {other} already runs a lab in {folder}")
        return 1
    clean(folder)  # leftovers of a killed lab
    options = Options.model_validate_json(sys.stdin.read())
    _log_to(folder / "lab.log")
    supervisor = Supervisor(options, folder)
    try:
        try:
            requirements.check()
            supervisor.start()
            write(describe(supervisor, number), folder)
        except LabError as error:
            _say(answer, error=str(error))
            raise
        _say(answer, ready="")
        namespace.outlive_parent()  # from here on it watches its caller, and removes its files when that ends
        log.info("it ends: %s", supervisor.wait(caller))
    except LabError as error:
        log.error("%s", error)  # noqa: TRY400  the message says it all
        return 1
    finally:
        supervisor.stop()
        clean(folder)
    return 0


def check() -> int:
    """Report whether a lab could run; return the exit code."""
    try:
        requirements.check()
    except LabError as error:
        _say(1, error=str(error))
        return 1
    _say(1, ready="")
    return 0


def _say(answer: int, **message: str) -> None:
    with os.fdopen(answer, "w") as file:
        json.dump(message, file)
        file.write("\n")


def _log_to(file: Path) -> None:
    """Send the log and all output of the parts to `file`: a supervisor has no terminal."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])) if sys.argv[1:] else check())
