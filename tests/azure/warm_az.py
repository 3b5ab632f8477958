"""The real az without its start: a parent that has az imported forks for every command.

The program that the tests put on PATH as `az` hands its arguments, folder, environment and files over a socket to this
server, which forks. The child runs ``python -m azure.cli`` as the real program does, with the same arguments,
environment, standard files and exit code. Killing the program kills the child; SIGINT and SIGTERM are passed on.
A child that ends tells which modules it imported, and the parent imports them for the children to come.

    python warm_az.py SOCKET            serve, until standard input is closed
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from pathlib import Path

CLIENT = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@" # a path of Python may hold a space
' '''
import array, json, os, signal, socket, struct, sys
try:
    server = socket.socket(socket.AF_UNIX)
    server.connect({address!r})
except OSError:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
server.sendmsg([struct.pack("!I", len(asked))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(asked)
answer = server.recv(4)
if len(answer) < 4:
    sys.exit("the server of az is gone")
code = struct.unpack("!i", answer)[0]
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -9 else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def client(place: Path, address: Path, real: Path) -> None:
    """Write the program that asks the server at `address`, and starts the real az where there is none."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(CLIENT.format(python=sys.executable, address=str(address), real=str(real)), "utf-8")
    place.chmod(0o755)


class Server:
    """Fork for every command."""

    def __init__(self, address: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, sys.exit)

    def serve(self) -> None:
        """Until standard input is closed."""
        while True:
            for key, _ in self.selector.select():
                if self.selector.get_map().get(key.fd) is key:  # what went before may have ended it
                    key.data()

    def accept(self) -> None:
        """One command."""
        asking, _ = self.listener.accept()
        header, files = b"", array.array("i")
        while len(header) < 4:
            data, extra, *_ = asking.recvmsg(4 - len(header), socket.CMSG_SPACE(3 * files.itemsize))
            if not data:
                asking.close()
                return
            header += data
            for _, _, content in extra:
                files.frombytes(content)
        left, asked = struct.unpack("!I", header)[0], b""
        while len(asked) < left and (data := asking.recv(left - len(asked))):
            asked += data
        told, tells = os.pipe()
        os.set_blocking(told, False)
        child = os.fork()
        if not child:
            self.selector.close()
            self.listener.close()
            asking.close()
            run(*json.loads(asked), files.tolist(), tells)
        os.close(tells)
        for file in files:
            os.close(file)
        ended = os.pidfd_open(child)

        def heard() -> None:
            try:
                number = asking.recv(1)
            except ConnectionError:
                number = b""
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(ended, number[0] if number else signal.SIGKILL)
            if not number:
                self.selector.unregister(asking)

        def end() -> None:
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(OSError):
                asking.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
            for key in (asking, ended):
                with contextlib.suppress(KeyError):
                    self.selector.unregister(key)
            asking.close()
            os.close(ended)
            with contextlib.suppress(OSError):  # less than what a pipe holds
                learn(os.read(told, 1 << 16).decode().split())
            os.close(told)

        self.selector.register(asking, selectors.EVENT_READ, heard)
        self.selector.register(ended, selectors.EVENT_READ, end)


def learn(names: list[str]) -> None:
    """Import what a child needed."""
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    gc.freeze()  # a child that collects garbage copies no page of its parent


def run(arguments: list[str], folder: str, environment: dict[str, str], files: list[int], tells: int) -> None:
    """Be `az`; never returns."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for wanted, given in enumerate(files):
            os.dup2(given, wanted)
            os.close(given)
        sys.stdin, sys.stdout, sys.stderr = (open(i, mode, encoding="utf-8") for i, mode in enumerate("rww"))  # noqa: PTH123, SIM115
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({"AZ_INSTALLER": "PIP"} | environment)
        sys.argv = ["az", *arguments]
        known = set(sys.modules)
        try:
            runpy.run_module("azure.cli", run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(tells, " ".join(set(sys.modules) - known).encode()[:65000])
    finally:
        os._exit(code)


if __name__ == "__main__":
    learn(["azure.cli.core", "azure.cli.core.telemetry", "azure.cli.core.intercept_survey", "requests", "msal"])
    Server(sys.argv[1]).serve()
