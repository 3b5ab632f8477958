"""The process of a lab: it starts the hosts and the emulator between them, which end with it.

Only files have to be cleaned up after it: the hosts have no names in the system, and the kernel kills them (as their
first process requested) when the supervisor is gone, even after ``kill -9``.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import select
import shutil
import signal
import socket
import statistics
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import LabError
from . import namespace, requirements
from .emulator import Emulator
from .host_process import HOME, SSHD_FOLDER, HostProcess
from .rtt_probe import one_way_us, receive
from .topology import Options

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One-way delay from the first host to another, in microseconds."""

    host: str
    asked_us: float
    quartiles_us: tuple[float, ...]
    """Lower quartile, median, upper quartile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Delay added by the emulation itself, in microseconds, and the delays after subtracting it."""

    floors_us: tuple[float, ...]
    reached: tuple[Reached, ...] = ()

    @property
    def floor_us(self) -> float:
        """Lower quartile of the measurements, because other programs on this machine can only add to them."""
        return max(0.0, statistics.quantiles(self.floors_us, n=4, method="inclusive")[0])

    @property
    def spread_us(self) -> float:
        """Difference between the upper and the lower quartile of the measurements."""
        lower, _, upper = statistics.quantiles(self.floors_us, n=4, method="inclusive")
        return upper - lower


class Supervisor:
    """A lab, from its start to its end; keys, configuration and logs are in an absolute folder."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.ports: dict[str, int] = {}
        self.warnings: dict[str, list[str]] = {}
        self.calibration: Calibration | None = None
        self._hosts: dict[str, int] = {}
        self._controls: dict[str, socket.socket] = {}
        self._tuns: dict[str, int] = {}
        self._emulator: tuple[int, int] | None = None

    def start(self) -> None:
        """Create everything, and check that it works; LabError if something cannot be created here."""
        sshd = requirements.program("sshd")
        assert sshd is not None, "checked before"
        _keygen(self.folder / "id")
        namespace.keep_awake()
        for host in self.options.hosts:
            self._start_host(host.name, sshd)
        self._write_ssh_files()
        self._start_emulator(0)
        self._try_ssh(self.options.hosts[0].name)
        if self.options.calibrate:
            self._calibrate()

    def wait(self, caller: int) -> str:
        """Wait until the lab is told to end, or its `caller` ends; return which.

        LabError if a part of the lab failed.
        """
        assert self._emulator is not None
        parts = {os.pidfd_open(pid): f"host {name}" for name, pid in self._hosts.items()}
        parts[os.pidfd_open(self._emulator[0])] = "the emulator"
        try:
            calling = os.pidfd_open(caller)
        except ProcessLookupError:
            return "the caller ended"
        if os.getppid() != caller:  # it ended earlier, and its pid belongs to another process by now
            return "the caller ended"
        signals = _signals()
        ready, _, _ = select.select([signals, calling, *parts], [], [])
        if ready[0] in parts:
            raise LabError(f"{parts[ready[0]]} of the lab ended unexpectedly")
        return "told to end" if ready[0] == signals else "the caller ended"

    def stop(self) -> None:
        """Stop the hosts and the emulator; they are gone when this returns."""
        self._stop_emulator()
        for control in self._controls.values():
            control.close()
        for pid in self._hosts.values():
            _wait_or_kill(pid)
        for fd in self._tuns.values():
            os.close(fd)
        self._hosts, self._controls, self._tuns = {}, {}, {}

    def _start_host(self, name: str, sshd: str) -> None:
        folder = self.folder / "hosts" / name
        folder.mkdir(parents=True)
        _keygen(folder / "host_key")
        (folder / "authorized_keys").write_bytes((self.folder / "id.pub").read_bytes())
        (folder / "sshd_config").write_text(_sshd_config())
        process = HostProcess(self.options, name, folder, sshd)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.ports[name] = listener.getsockname()[1]
            self._hosts[name], self._controls[name] = process.start(listener)
        try:
            reply, tun = receive(self._controls[name])
        except OSError as error:
            raise LabError(f"the lab's host {name} cannot be created: {error}") from None
        assert tun is not None
        self._tuns[name] = tun
        self.warnings[name] = reply["warnings"]
        for warning in reply["warnings"]:
            log.warning("%s: %s", name, warning)

    def _write_ssh_files(self) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        config, known = "", ""
        for name, port in self.ports.items():
            config += f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n"
            known += f"[127.0.0.1]:{port} {(self.folder / 'hosts' / name / 'host_key.pub').read_text()}"
        config += (
            f'Host *\n  User {user}\n  IdentityFile "{self.folder}/id"\n  IdentitiesOnly yes\n  IdentityAgent none\n'
            f'  UserKnownHostsFile "{self.folder}/known_hosts"\n  GlobalKnownHostsFile /dev/null\n'
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
        )
        (self.folder / "known_hosts").write_text(known)
        (self.folder / "ssh_config").write_text(config)

    def _try_ssh(self, name: str) -> None:
        server = self.folder / "hosts" / name / "sshd.log"
        for _ in range(2):
            with suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    [requirements.program("ssh") or "ssh", "-F", str(self.folder / "ssh_config"), name, "hostname"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=15,
                    check=False,
                )
                break
        else:
            raise LabError(
                f"the lab's host {name} does not answer over SSH: this machine is too busy, or a "
                f"start-up file of your shell (~/.bashrc) hangs (log: {server})"
            )
        if done.returncode or done.stdout.split() != [name]:
            output = (done.stderr + (server.read_text() if server.exists() else "") + done.stdout).strip().splitlines()
            raise LabError(f"logging in to the lab's host {name} fails: {'; '.join(output[-3:])} (log: {server})")

    def _start_emulator(self, overhead_us: float) -> None:
        reading, writing = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            os.close(reading)
            self._emulator = pid, writing
            return
        try:
            namespace.close_all_but(reading, *self._tuns.values())
            namespace.die_with_parent(supervisor)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            namespace.realtime(2)  # the hosts have 1
            counters = Emulator(self.options, self._tuns, overhead_us=overhead_us).run(reading)
            log.info("emulator: %s", json.dumps(asdict(counters)))
        except Exception:
            log.exception("the emulator broke")
        finally:
            os._exit(0)

    def _stop_emulator(self) -> None:
        if self._emulator is not None:
            pid, pipe = self._emulator
            os.close(pipe)
            _wait_or_kill(pid)
            self._emulator = None

    def _calibrate(self) -> None:
        """Measure what the emulation adds to the shortest path, subtract it from all paths, and check each of them."""
        first, *others = (h.name for h in self.options.hosts)

        def asked_us(other: str) -> float:
            path = self.options.path(first, other)
            return path.delay_us + path.jitter_us / 2

        def measured_us(other: str, seconds: float) -> tuple[float, ...]:
            address = self.options.address(other)
            return one_way_us(self._controls[first], self._controls[other], address, seconds)

        nearest = min(others, key=asked_us)
        try:
            floors = tuple(measured_us(nearest, 0.15)[1] - asked_us(nearest) for _ in range(5))
            calibration = Calibration(floors_us=floors)
            self._stop_emulator()
            self._start_emulator(calibration.floor_us)
            reached = tuple(Reached(host=o, asked_us=asked_us(o), quartiles_us=measured_us(o, 0.1)) for o in others)
        except OSError as error:
            raise LabError(f"the hosts of the lab cannot reach each other: {error}") from None
        self.calibration = Calibration(floors_us=floors, reached=reached)
        log.info("calibration: %s", json.dumps(asdict(self.calibration)))


FILES = ("id", "id.pub", "known_hosts", "ssh_config", "deployment.json", "options.json")
"""Files of a lab in its folder, in addition to its lock, its log and the folder `hosts`."""


def clean(folder: Path) -> None:
    """Remove what a lab left in its folder, except its lock and its log."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "hosts", ignore_errors=True)


def _sshd_config() -> str:
    path = requirements.search_path()
    return (
        f"HostKey {SSHD_FOLDER}/host_key\n"
        f"AuthorizedKeysFile {SSHD_FOLDER}/authorized_keys\n"
        # the hosts find the same tools as this process, and an ordinary user may change the settings of their networks
        f'SetEnv "PATH={path}" HOME={HOME} NETPERF_OWN_NETWORK=1\n'
        "AuthenticationMethods publickey\n"
        "PermitRootLogin prohibit-password\n"
        "PermitUserRC no\n"
        "StrictModes no\n"  # in an ordinary user's namespace even / seems to belong to another user
        "UsePAM no\n"
        "UseDNS no\n"
        "PrintMotd no\n"
        "PrintLastLog no\n"
        "PidFile none\n"
        "MaxSessions 200\n"
        "Subsystem sftp internal-sftp\n"
    )


def _keygen(file: Path) -> None:
    program = requirements.program("ssh-keygen") or "ssh-keygen"
    subprocess.run(
        [program, "-q", "-t", "ed25519", "-N", "", "-C", "netperf_lib lab", "-f", str(file)],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def _signals() -> int:
    """Return a descriptor that becomes readable when this process is told to end."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _wait_or_kill(pid: int, patience_s: float = 2) -> None:
    """Wait for a child to end, and kill it if it does not."""
    deadline = time.monotonic() + patience_s
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.01)
