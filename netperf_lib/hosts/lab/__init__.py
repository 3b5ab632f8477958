"""The local lab.

Emulated hosts on this machine, reached over real SSH, with real TCP over links of chosen delay.

For learning, teaching and testing without a cloud account. Hosts are network namespaces; root is
not needed where ordinary users may create namespaces and open /dev/net/tun. A lab runs in one
supervisor process, and ends when that process or its caller ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ...errors import HostError, LabError, UsageError
from ...experiment.deployment import Deployment, Host
from ...experiment.model import Experiment
from ...tools import TOOLS
from ..owner import check_owner
from ..source import NOTHING_KNOWN, Price, Workload, read_options
from ..source import spent as spent
from .requirements import check_linux, need
from .requirements import program as program
from .topology import LabHost as LabHost
from .topology import Link as Link
from .topology import Options as Options

if (
    sys.platform == "linux"
):  # elsewhere an experiment can only be planned; `check` says why
    from . import lock

EPHEMERAL = True
HOLDS = False
"""A lab ends with the process that started it."""

_START_S, _STOP_S = 60, 5
_DEPLOYMENT = TypeAdapter(Deployment)

_PREFIX = "netperf-lab-"


@dataclass(frozen=True, slots=True)
class _Lab:
    """A lab that this process started."""

    process: subprocess.Popen[str]
    folder: Path
    options: Options
    number: int


_started: dict[Path, _Lab] = {}
"""By the folder that the lab's own folder was made in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStatus:
    """A running lab."""

    folder: Path
    pid: int
    """Process id of its supervisor."""
    deployment: Deployment | None
    """None while the lab is being set up."""


def default_folder() -> Path:
    """Return where the folder of a lab is made if nothing is named."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())


def up(
    experiment: Experiment,
    *,
    number: int = 1,
    state: Path,
    workload: Workload = NOTHING_KNOWN,
) -> Deployment:
    """Start the lab of an experiment, unless this process already runs the same one in `state`.

    LabError if it cannot run on this machine.
    """
    check_linux()
    for tool in (
        TOOLS[name] for name in sorted({test.tool for test in experiment.tests})
    ):
        need(
            tool.VERSION[0], tool.PACKAGE, "the experiment uses"
        )  # the hosts share this machine's programs
    options, folder = read_options(experiment, Options), state.absolute()
    if (made := _started.get(folder)) is not None:
        deployment = _read(made.folder)
        same = (made.options, made.number) == (options, number)
        if same and deployment and made.process.poll() is None:
            return deployment
        stop(folder)
    return start(options, folder, number)


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Stop the lab in `state`, and remove its files."""
    stop(state)


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Return that it costs nothing."""
    return Price("nothing: the lab is this machine")


def check() -> None:
    """Raise LabError, with reason and remedy, if a lab cannot run on this machine.

    Nothing is started or changed.
    """
    check_linux()
    _supervisor(Options()).wait()


def start(options: Options, folder: Path, number: int = 1) -> Deployment:
    """Start a lab as a child of this process, as deployment `number`; `stop` ends it.

    Its keys, settings and log are in a fresh folder inside `folder`, which only this user can
    read. LabError if it cannot run on this machine.
    """
    check_linux()
    folder = folder.absolute()
    if bad := re.search(r"""["%\\\x00-\x1f\x7f\ud800-\udfff]|\$\{""", str(folder)):
        raise LabError(
            f"the path of the lab's folder, {str(folder)!r}, contains {bad[0]!r}, which ssh "
            "cannot read: choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    except OSError as error:
        raise LabError(
            f"the lab cannot write to its folder {folder} ({error.strerror}): choose another one"
        ) from None
    try:
        process = _supervisor(options, str(own), str(number), str(os.getpid()))
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise
    _started[folder] = _Lab(process, own, options, number)
    deployment = _read(own)
    assert deployment is not None, "written before it is ready"
    return deployment


def _read(folder: Path) -> Deployment | None:
    """Return the deployment of a lab's own folder; None while it is being set up."""
    with contextlib.suppress(FileNotFoundError):
        return _DEPLOYMENT.validate_json((folder / "deployment.json").read_bytes())
    return None


def run_foreground(options: Options | None = None, folder: Path | None = None) -> None:
    """Run a lab, and print its folder and its SSH commands.

    Until it is interrupted (Ctrl-C, SIGTERM) or stopped from elsewhere.
    """
    folder = (folder or default_folder()).absolute()
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    code, log = 0, folder
    try:
        deployment = start(options or Options(), folder)
        made = _started[folder]
        log = made.folder / "lab.log"
        print(deployment.notice)
        print(f"the lab's folder: {made.folder}")
        for host in deployment.hosts:
            print(f"  {' '.join(ssh_command(host))}    # {host.data_address}")
        print("ready; press Ctrl-C to stop", flush=True)
        code = made.process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        stop(folder)
        signal.signal(signal.SIGTERM, previous)
    if code:
        raise LabError(f"the lab failed (exit code {code}); see {log}")


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders that labs of this user made inside `folder`, the newest last."""
    found = folder.glob(f"{_PREFIX}*") if sys.platform == "linux" else ()
    for own in sorted(found, key=lambda path: path.lstat().st_mtime):
        with contextlib.suppress(HostError):
            check_owner(own)
            yield own


def status(folder: Path | None = None) -> LabStatus | None:
    """Return the lab that runs in `folder`, the newest of several; None if there is none."""
    running = None
    for own in _folders((folder or default_folder()).absolute()):
        if (pid := lock.holder(own / "lock")) is not None:
            running = LabStatus(folder=own, pid=pid, deployment=_read(own))
    return running


def ssh_command(host: Host, *command: str) -> list[str]:
    """Return the command line that runs `command`, or else a shell, on a host of the lab."""
    assert host.ssh_config is not None, "every host of a lab has it"
    return [program("ssh") or "ssh", "-F", host.ssh_config, host.name, *command]


def shell(host: str, folder: Path | None = None, command: tuple[str, ...] = ()) -> int:
    """Open a shell on a host of the running lab, or run `command` there; return the exit code."""
    running = status(folder)
    if running is None or running.deployment is None:
        where = (folder or default_folder()).absolute()
        raise LabError(
            f"no lab is running in {where}: start one with 'npl lab up' in another terminal"
        )
    try:
        target = running.deployment.host(host)
    except KeyError as error:
        raise UsageError(str(error.args[0])) from None
    # ssh joins its arguments with spaces: several words stay one command line only if they are
    # quoted
    words = (shlex.join(command),) if len(command) > 1 else command
    return subprocess.run(ssh_command(target, *words), check=False).returncode


def stop(folder: Path) -> bool:
    """Stop the lab that this process started in `folder`, and remove its files.

    Return whether there was one. The log of a lab that failed stays.
    """
    made = _started.pop(folder.absolute(), None)
    if made is None:
        return False
    failed = bool(made.process.poll())
    made.process.terminate()
    try:
        made.process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        made.process.kill()
        made.process.wait()
    if failed:
        lock.clean(made.folder)
    else:
        shutil.rmtree(made.folder, ignore_errors=True)
    return True


def _supervisor(options: Options, *arguments: str) -> subprocess.Popen[str]:
    """Start this package's `__main__`, and wait for its first message.

    LabError if that is an error.
    """
    package_root = str(Path(__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a session of its own: Ctrl-C in a terminal must reach the caller alone, which then ends
        # the lab in order
        start_new_session=True,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(
                filter(None, (package_root, os.environ.get("PYTHONPATH")))
            )
        },
    )
    # three pipes, for mypy
    assert process.stdin and process.stdout and process.stderr  # noqa: PT018  for mypy
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(options.model_dump_json())
        if not select.select([process.stdout], [], [], _START_S)[0]:
            raise LabError(
                f"the lab was not ready after {_START_S} s: this machine is too busy; end other "
                "programs"
            )
        if not (line := process.stdout.readline()):
            process.kill()
            trouble = process.stderr.read().strip().splitlines() or ["no message"]
            raise LabError(f"the lab's supervisor died at startup: {trouble[-1]}")
        if line != "ready\n":
            process.wait()
            raise LabError(line.rstrip())
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stdout.close()
        process.stderr.close()
    return process
