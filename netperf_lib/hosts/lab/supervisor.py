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
import signal
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...errors import LabError
from ...experiment.deployment import Deployment, Host, Proof
from . import namespace, requirements
from .emulator import Emulator
from .host_process import HOME, SSHD_FOLDER, HostProcess
from .topology import STRETCH, Options

log = logging.getLogger(__name__)


class Supervisor:
    """A lab, from its start to its end; keys, configuration and logs are in an absolute folder."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.ports: dict[str, int] = {}
        self.warnings: dict[str, list[str]] = {}
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
        self._start_emulator()
        self._log_in(self.options.hosts[0].name)

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
        """Describe what was started as deployment `number`."""
        options, hosts = self.options, list[Host]()
        same: dict[str, Any] = {
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "ssh_config": str(self.folder / "ssh_config"),
            "identity": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        for h in options.hosts:
            proofs = [Proof("set up as asked", False, w) for w in self.warnings[h.name]]
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

    def _log_in(self, name: str) -> None:
        """Raise LabError, with what sshd wrote, if a login to a host does not work."""
        server = self.folder / "hosts" / name / "sshd.log"
        ssh = requirements.program("ssh") or "ssh"
        command = [ssh, "-F", str(self.folder / "ssh_config"), name, "hostname"]
        why = "no answer; does a start-up file of your shell hang?"
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, timeout=40, check=False, capture_output=True, text=True
            )
            if done.returncode == 0 and done.stdout.split()[-1:] == [name]:
                return
            lines = f"{server.read_text()}\n{done.stderr}".split("\n")
            why = "; ".join([*filter(None, lines)][-3:])
        raise LabError(f"logging in to the lab's host {name} fails: {why}")

    def _stop_emulator(self) -> None:
        if self._emulator is not None:
            pid, pipe = self._emulator
            os.close(pipe)
            _wait_or_kill(pid)
            self._emulator = None

    def _start_emulator(self) -> None:
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
            Emulator(self.options, self._tuns).run(reading)
        except Exception:
            log.exception("the emulator broke")
        finally:
            os._exit(0)


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
