"""One emulated host: process 1 of its own namespaces, which sets up its network and answers SSH.

The socket on which it accepts SSH connections was created *before* it left the network namespace of
its starter, and a socket stays where it was created. So ``ssh -p PORT 127.0.0.1`` ends inside the
host, without a management network that would affect the measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from . import namespace, requirements
from .topology import Options

SSHD_FOLDER = Path("/run/netperf-lab")
"""Where a host's own sshd finds its files, inside."""
HOME = Path("/run/home")
"""Home folder on a host: the shell start-up files of the real home must not affect a
measurement."""

_NETWORK = """link set lo up
link set eth0 mtu {mtu} txqueuelen 1000 up
address add {address}/24 dev eth0
"""
"""Commands of `ip`."""
_UDP_RATE = """qdisc add dev eth0 root handle 1: htb
class add dev eth0 parent 1: classid 1:1 htb rate {bps:.0f}bit burst 32000 cburst 32000
filter add dev eth0 parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:1
"""
"""Commands of `tc`, which hold UDP back and let everything else pass: a datagram waits in the
scheduler and stays charged to its sender's socket, so a fast sender blocks instead of losing
data."""


@dataclass(frozen=True, slots=True)
class HostProcess:
    """Settings of process 1."""

    options: Options
    name: str
    """Of this host."""
    folder: Path
    """Its own folder outside, with `sshd_config`, `host_key` and `authorized_keys`."""
    sshd: str
    """Path of the SSH server."""

    def start(self, listener: socket.socket) -> tuple[int, socket.socket]:
        """Fork the host.

        Return the process that represents it outside, and the socket that controls it.

        A message on that socket carries the host's warnings and its TUN device. The host ends, with
        everything running in it, when the socket is closed or the calling process dies, however it
        dies.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            theirs.close()
            return pid, ours
        try:
            namespace.close_all_but(listener.fileno(), theirs.fileno())
            namespace.die_with_parent(parent)
            namespace.enter_own()
            namespace.die_with_parent(
                parent
            )  # again: entering a new user namespace resets it
            representative = os.getpid()
            if child := os.fork():  # a new process namespace begins with the next child
                theirs.close()
                listener.close()
                os.waitpid(child, 0)
                os._exit(0)
            self._main_loop(representative, listener, theirs)
        # whatever it is, the supervisor has to hear of it
        except BaseException as error:  # noqa: BLE001  told to the parent
            with contextlib.suppress(OSError):
                theirs.send(json.dumps({"error": f"{error}"}).encode())
        finally:
            os._exit(1)

    def _main_loop(
        self, parent: int, listener: socket.socket, control: socket.socket
    ) -> NoReturn:
        # the parent is in another process namespace, where it has no pid to compare
        namespace.die_with_parent(0)
        namespace.private_mounts()
        steps = list(self._mount_private_dirs())
        log = self._prepare_sshd()
        warnings = list(_tolerate(steps))
        tun = namespace.open_tun("eth0")
        self._connect(warnings)
        namespace.realtime(1)
        socket.send_fds(control, [json.dumps({"warnings": warnings}).encode()], [tun])
        os.close(tun)
        os.chdir("/")
        signal.signal(
            signal.SIGCHLD, signal.SIG_IGN
        )  # the kernel reaps all processes that end in here
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listener, control], [], [])
            if control in ready:
                os._exit(
                    0
                )  # it was closed; the kernel ends all other processes of this namespace
            connection, _ = listener.accept()
            if os.fork() == 0:
                try:
                    self._answer_ssh(connection, log)
                finally:
                    os._exit(1)
            connection.close()

    def _mount_private_dirs(self) -> Iterable[tuple[str, Callable[[], object]]]:
        """Steps that make the inside look like a separate host.

        A container may forbid some of them.
        """
        yield (
            "/proc shows the processes of the whole machine",
            partial(namespace.mount, "proc", "/proc"),
        )
        yield (
            "/sys shows the interfaces of the machine",
            partial(namespace.mount, "sysfs", "/sys"),
        )
        yield "it has the machine's name", partial(socket.sethostname, self.name)
        names = self.folder / "hosts"
        lines = "".join(
            f"{self.options.address(h.name)} {h.name}\n" for h in self.options.hosts
        )
        names.write_text(f"127.0.0.1 localhost\n{lines}")
        # open before /run is hidden, as the lab's folder may be there
        views = {"/etc/hosts": os.open(names, os.O_PATH)}
        if unlocked := _unlocked_shadow():
            shadow = self.folder / "shadow"
            shadow.touch(mode=0o600)
            shadow.write_text(unlocked)
            views["/etc/shadow"] = os.open(shadow, os.O_PATH)
        for path, fd in views.items():
            yield f"{path} is the one of this machine", partial(namespace.bind, fd, path)

    def _prepare_sshd(self) -> int:
        """Give the host a /run of its own with what sshd reads.

        Return the descriptor of its log.
        """
        log = os.open(
            self.folder / "sshd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        files = {
            name: (self.folder / name).read_bytes()
            for name in ("sshd_config", "host_key", "authorized_keys")
        }
        namespace.mount("tmpfs", "/run", "mode=755")
        Path("/run/sshd").mkdir(mode=0o755)  # a server of root wants it
        SSHD_FOLDER.mkdir(mode=0o700)
        HOME.mkdir(mode=0o700)
        for name, content in files.items():
            (SSHD_FOLDER / name).touch(mode=0o600)
            (SSHD_FOLDER / name).write_bytes(content)
        return log

    def _connect(self, warnings: list[str]) -> None:
        options, host = self.options, self.options.host(self.name)
        with contextlib.suppress(
            OSError
        ):  # a container may forbid it; then only root changes the network
            namespace.keep_network_rights()
        _run("ip", _NETWORK.format(mtu=options.mtu, address=options.address(self.name)))
        pace = partial(
            _run, "tc", _UDP_RATE.format(bps=min(options.udp_bps, host.egress_bps))
        )
        steps: list[tuple[str, Callable[[], object]]] = [
            ("UDP is not paced here, fast UDP tests lose datagrams", pace)
        ]
        for key, value in (options.sysctls | host.sysctls).items():
            setting = Path("/proc/sys", *key.split("."))
            steps.append(
                (
                    f"sysctl {key}={value} has no effect",
                    partial(setting.write_text, value),
                )
            )
        warnings += _tolerate(steps)

    def _answer_ssh(self, connection: socket.socket, log: int) -> None:
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for standard, fd in enumerate((connection.fileno(), connection.fileno(), log)):
            os.dup2(fd, standard)
        os.closerange(3, 1024)
        os.setsid()
        os.execv(  # noqa: S606
            self.sshd, [self.sshd, "-i", "-e", "-f", str(SSHD_FOLDER / "sshd_config")]
        )


def _run(program: str, commands: str) -> None:
    """Run commands of `ip` or `tc`; OSError with the reason if one is refused."""
    command = [requirements.program(program) or program, "-batch", "-"]
    done = subprocess.run(
        command, input=commands, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"{program}: {done.stderr.strip()}")


def _tolerate(steps: Iterable[tuple[str, Callable[[], object]]]) -> Iterable[str]:
    """Take each step; for those that are refused, yield what that means."""
    for meaning, step in steps:
        try:
            step()
        except OSError as error:
            yield f"{meaning} ({error})"


def _unlocked_shadow() -> str | None:
    """Return /etc/shadow with root's password impossible instead of locked.

    If it is locked (as on Ubuntu).

    sshd without PAM refuses a locked account, even with a key.
    """
    if os.geteuid():
        return None
    lines = Path("/etc/shadow").read_text().splitlines()
    entries = [line.split(":") for line in lines]
    if not any(entry[0] == "root" and entry[1].startswith("!") for entry in entries):
        return None
    return "".join(
        ":".join([e[0], "*" if e[0] == "root" else e[1], *e[2:]]) + "\n" for e in entries
    )
