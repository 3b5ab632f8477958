"""The process of a lab: it starts the hosts and the emulator between them, which end with it.

Only files have to be cleaned up after it: the hosts have no names in the system, and the kernel
kills them (as their first process requested) when the supervisor is gone, even after ``kill -9``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pwd
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...experiment.model import Deployment, Host, Proof
from ...metrics import format_value
from . import namespace, requirements
from .emulator import Emulator
from .host_process import HOME, SSHD_FOLDER, HostProcess
from .topology import STRETCH, Link, Options

log = logging.getLogger(__name__)


TOLERANCE, NOISE_US = 0.05, 20.0
"""Share of a delay, and at least how much, by which it may differ from what was asked for."""
_PROBE = """
import errno, json, socket, statistics, sys, time
now = time.perf_counter
def least_and_quartiles(address):
    ways_us, begin = [], now()
    while now() < begin + 0.05 or (len(ways_us) < 10 and now() < begin + 1):
        with socket.socket() as probe:
            probe.settimeout(0.5)
            start = now()
            refusal = probe.connect_ex((address, 1))
            ways_us += [(now() - start) / 2e-6] if refusal == errno.ECONNREFUSED else []
        if refusal not in (errno.ECONNREFUSED, errno.EAGAIN):
            sys.exit(f"the hosts of the lab cannot reach each other: {errno.errorcode[refusal]}")
    return [min(ways_us), *statistics.quantiles(ways_us[1:], n=4)] if len(ways_us) > 2 else None
rounds = [[least_and_quartiles(address) for address in sys.argv[1:]] for _ in range(3)]
print(json.dumps([min(filter(None, way), key=lambda q: q[2], default=None) for way in zip(*rounds)]))
"""  # noqa: E501  (as it is run or printed)
"""Half of the time after which a connection is refused, for each address, its least and its
quartiles: nothing listens on port 1. The quickest of three rounds, since other programs on this
machine can only add to it; None: too much is lost, or it takes too long."""


def added_us(way_us: Sequence[float], path: Link) -> float:
    """Return what the emulation itself adds, from the least and the quartiles of what one way took.

    By the least way, which a busy machine hardly changes: what it adds to the median would be
    missing when it is quiet again. By the median if the path has jitter, which the least way shows
    little of.
    """
    least_us, _, median_us, _ = way_us
    return min(least_us - path.delay_us, median_us - _typical_us(path))


def _typical_us(path: Link) -> float:
    """One way as it was asked for."""
    return path.delay_us + path.jitter_us / 2


class Supervisor:
    """A lab, from its start to its end; keys, configuration and logs are in an absolute folder."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.ports: dict[str, int] = {}
        self.warnings: dict[str, list[str]] = {}
        self.one_way_us: dict[str, list[float] | None] = {}
        """Host to the least and the quartiles of what one way from the first host takes; None:
        not known."""
        self._hosts: dict[str, int] = {}
        self._controls: dict[str, socket.socket] = {}
        self._tuns: dict[str, int] = {}
        self._emulator: tuple[int, int] | None = None

    def start(self) -> None:
        """Create everything, and check that it works.

        LabError if something cannot be created here.
        """
        sshd = requirements.program("sshd")
        assert sshd is not None, "checked before"
        _keygen(self.folder / "id")
        namespace.keep_awake()
        for host in self.options.hosts:
            self._start_host(host.name, sshd)
        self._write_ssh_files()
        self._start_emulator(0)
        first, *others = (h.name for h in self.options.hosts)
        nearest = min(others, key=self._requested_us)
        if (way_us := self._measure(first, [nearest])[nearest]) is not None:
            self._stop_emulator()
            self._start_emulator(added_us(way_us, self.options.path(first, nearest)))
        self.one_way_us = self._measure(first, others)

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
        if (
            os.getppid() != caller
        ):  # it ended earlier, and its pid belongs to another process by now
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

    def describe(self, number: int) -> Deployment:
        """Describe what was started as deployment `number`, with proofs of what was measured."""
        options, hosts = self.options, list[Host]()
        same: dict[str, Any] = {
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "ssh_config": str(self.folder / "ssh_config"),
            "identity": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        for h in options.hosts:
            proofs = [Proof("set up as asked", False, w) for w in self.warnings[h.name]]
            if h.name in self.one_way_us:
                proofs.insert(0, self._delay(h.name))
            own = h.model_dump(include={"name", "region", "zone", "ppg", "accelerated"})
            own |= {"port": self.ports[h.name], "data_address": options.address(h.name)}
            hosts.append(
                Host(address="127.0.0.1", owned=True, proofs=tuple(proofs), **own, **same)
            )
        delays = ""
        if options.links == Options().links:
            delays = f"its delays inside a region are {STRETCH} times those of a real one, and "
        return Deployment(
            deployment_id=f"lab-{number}",
            source="lab",
            hosts=tuple(hosts),
            notice=f"Emulated hosts: network namespaces of one Linux machine; {delays}"
            "its numbers say nothing about a real cloud.",
            created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _requested_us(self, other: str) -> float:
        """One way from the first host to another, as it was asked for."""
        return _typical_us(self.options.path(self.options.hosts[0].name, other))

    def _delay(self, other: str) -> Proof:
        first, requested_us = self.options.hosts[0].name, self._requested_us(other)
        claim = f"one way between {first} and {other} takes {format_value(requested_us, 'us')}"
        if (way_us := self.one_way_us[other]) is None:
            why = "it takes too long to be measured, or too much is lost on the way"
            return Proof(claim, None, why)
        low, median, high = (format_value(v, "us") for v in way_us[1:])
        return Proof(
            claim,
            abs(way_us[2] - requested_us) <= max(NOISE_US, TOLERANCE * requested_us),
            f"half of the time until a TCP connection is refused: median {median}, quartiles "
            f"{low} and {high}; the "
            "quickest of three rounds",
        )

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
        message, tuns, _, _ = socket.recv_fds(self._controls[name], 65536, 1)
        reply: dict[str, Any] = (
            json.loads(message) if message else {"error": "it ended without output"}
        )
        if "error" in reply:
            raise LabError(f"the lab's host {name} cannot be created: {reply['error']}")
        (self._tuns[name],) = tuns
        self.warnings[name] = reply["warnings"]
        for warning in reply["warnings"]:
            log.warning("%s: %s", name, warning)

    def _write_ssh_files(self) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        config, host_keys = "", ""
        for name, port in self.ports.items():
            config += f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n"
            host_keys += (
                f"[127.0.0.1]:{port} "
                f"{(self.folder / 'hosts' / name / 'host_key.pub').read_text()}"
            )
        config += (
            f'Host *\n  User {user}\n  IdentityFile "{self.folder}/id"\n  IdentitiesOnly yes\n  '
            "IdentityAgent none\n"
            f'  UserKnownHostsFile "{self.folder}/known_hosts"\n  GlobalKnownHostsFile /dev/null\n'
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
        )
        (self.folder / "known_hosts").write_text(host_keys)
        (self.folder / "ssh_config").write_text(config)

    def _measure(self, first: str, others: list[str]) -> dict[str, list[float] | None]:
        """Log in to the first host, and measure from there the way to each of the others."""
        server = self.folder / "hosts" / first / "sshd.log"
        addresses = map(self.options.address, others)
        command = (
            f"hostname; exec {shlex.join([sys.executable, '-I', '-S', '-', *addresses])}"
        )
        ssh = [
            requirements.program("ssh") or "ssh",
            "-F",
            str(self.folder / "ssh_config"),
            first,
            command,
        ]
        pipes: dict[str, Any] = {"input": _PROBE, "capture_output": True, "text": True}
        ways, why = "", "no answer; does a start-up file of your shell hang?"
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(ssh, timeout=40, check=False, **pipes)
            name, _, ways = done.stdout.partition("\n")
            if done.returncode or name != first:
                said = f"{server.read_text()}\n{done.stderr}".split("\n")
                ways, why = "", "; ".join([*filter(None, said)][-3:])
        if not ways:
            raise LabError(
                f"logging in to the lab's host {first} fails: {why} (log: {server})"
            )
        log.info(
            "one way from %s to %s, least and quartiles in µs: %s",
            first,
            ", ".join(others),
            ways.strip(),
        )
        return dict(zip(others, json.loads(ways), strict=True))

    def _stop_emulator(self) -> None:
        if self._emulator is not None:
            pid, pipe = self._emulator
            os.close(pipe)
            _wait_or_kill(pid)
            self._emulator = None

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
            Emulator(self.options, self._tuns, overhead_us).run(reading)
        except Exception:
            log.exception("the emulator broke")
        finally:
            os._exit(0)


FILES = ("id", "id.pub", "known_hosts", "ssh_config", "deployment.json")
"""Files of a lab in its folder, in addition to its lock, its log and the folder `hosts`."""


def clean(folder: Path) -> None:
    """Remove what a lab left in its folder, except its lock and its log."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "hosts", ignore_errors=True)


def _sshd_config() -> str:
    # the hosts find the same tools as this process, and the libraries that its Python may need
    same = {
        "PATH": requirements.search_path(),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"),
    }
    environment = " ".join(f'"{name}={value}"' for name, value in same.items() if value)
    return (
        f"HostKey {SSHD_FOLDER}/host_key\n"
        f"AuthorizedKeysFile {SSHD_FOLDER}/authorized_keys\n"
        # NETPERF_OWN_NETWORK: an ordinary user may change the settings of their networks
        f"SetEnv {environment} HOME={HOME} NETPERF_OWN_NETWORK=1\n"
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
        [
            program,
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "netperf_lib lab",
            "-f",
            str(file),
        ],
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


def _wait_or_kill(pid: int) -> None:
    """Wait for a child to end, and kill it if it does not."""
    handle = os.pidfd_open(pid)
    if not select.select([handle], [], [], 2)[0]:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(handle)
