"""A real sshd on a loopback port, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path

from netperf_lib.experiment.deployment import Host
from netperf_lib.experiment.model import Experiment


def on_hosts(hosts, **options):
    """Return an experiment on an inventory of hosts `a` and `b`."""
    source = {"source": "inventory", "options": {"hosts": hosts, **options}}
    pair = {"client": "a", "server": "b", "placement": "same-zone"}
    test = {"tool": "qperf", "test": "tcp_lat", "duration_s": 1}
    declared = {
        "name": "probe",
        "hosts": source,
        "pairs": [pair],
        "tests": [test],
        "rounds": 6,
    }
    return Experiment.model_validate(declared)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def keygen(place):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place)], check=True
    )
    return place


def processes(holds):
    """Processes, but this one, of whose folder in `/proc` something holds."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if holds(place) and place.name != str(os.getpid()):
                found.append(int(place.name))
    return found


def alive(word):
    """Processes whose command line holds `word`."""

    def holds(place):
        return word.encode() in (place / "cmdline").read_bytes().replace(b"\0", b" ")

    return processes(holds)


def parent(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])


@dataclass
class Sshd:
    """One server; `host` tells how to reach it."""

    folder: Path
    port: int = field(default_factory=free_port)
    more: str = ""
    """Further lines of its configuration."""

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        keygen(self.folder / "host_key")
        self.identity = keygen(self.folder / "id")
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        public = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        self.known_hosts = self.folder / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}\n")
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey "
            f"{self.folder}/host_key\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPidFile none\nPermitRootLogin "
            "yes\nLogLevel ERROR\n"
            f"{self.more}"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = shutil.which("sshd", path="/usr/sbin:/sbin:" + os.environ["PATH"])
        assert program, "openssh-server is not installed; make setup installs it"
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            [program, "-D", "-e", "-f", str(config)], stderr=log, start_new_session=True
        )
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text())

    @property
    def sessions(self):
        """Processes of sshd that serve a connection: since OpenSSH 9.8 a monitor, and below it what
        talks."""
        found, level = [], [self.process.pid]

        def serves(place):
            is_sshd = (place / "comm").read_text().startswith("sshd")
            return is_sshd and parent(place.name) in level

        while level := processes(serves):
            found += level
        return found

    def host(self, **changed):
        given = {
            "name": "local",
            "address": "127.0.0.1",
            "data_address": "127.0.0.1",
            "port": self.port,
            "user": getuser(),
            "identity": str(self.identity),
            "known_hosts": str(self.known_hosts),
        }
        return Host(**(given | changed))

    def close(self):
        for pid in [*self.sessions, self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def wait_until(check, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False
