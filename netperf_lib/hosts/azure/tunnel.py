"""A tunnel through Azure Bastion as an SSH ProxyCommand: ``python tunnel.py AZ BASTION VM``, by resource ids.

SSH waits for it, so this file uses only the standard library, which imports quickly.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

WAIT_S = 60
LEASH = 'exec 3<&0 </dev/null; { read -r _; kill -9 "-$$"; } <&3 >/dev/null 2>&1 & exec "$@" 3<&-'
"""Script that becomes a command, and kills it and its children when its standard input is closed."""


@contextlib.contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start az in a session of its own; anything left of it is killed at the end of the block, or of this process.

    A killed caller must not leave an `az` behind that goes on creating resources, or serving a tunnel. No Python code
    runs while az is started (`preexec_fn`, hooks of `fork`): Python drops exceptions raised by signals there, so Ctrl-C
    would be lost.
    """
    leashed = ["sh", "-c", LEASH, "sh", *command]
    # Ctrl-C reaches this process alone, which decides what happens to az
    with subprocess.Popen(
        leashed, stdin=subprocess.PIPE, start_new_session=True, **more
    ) as process:
        leash, process.stdin = process.stdin, None  # which `communicate` would close
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if leash is not None:
                leash.close()


def main(az: str, bastion: str, vm: str) -> int:
    """Join standard input and output with port 22 of a VM."""
    words = bastion.split("/")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        az,
        "network",
        "bastion",
        "tunnel",
        "--subscription",
        words[2],
        "--resource-group",
        words[4],
    ]
    command += [
        "--name",
        words[-1],
        "--target-resource-id",
        vm,
        "--resource-port",
        "22",
        "--port",
        str(port),
    ]
    with running(command, stdout=subprocess.DEVNULL) as tunnel:
        end = time.monotonic() + WAIT_S
        while True:
            try:
                joined = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except OSError:
                if tunnel.poll() is not None or time.monotonic() > end:
                    print(
                        f"no tunnel through {words[-1]}: try `az network bastion tunnel` yourself",
                        file=sys.stderr,
                    )
                    return 1
                time.sleep(0.2)
        with joined:
            joined.settimeout(None)
            pump(joined)
    return 0


def pump(joined: socket.socket) -> None:
    """Copy in both directions until one ends."""
    while True:
        for ready in select.select([0, joined.fileno()], [], [])[0]:
            data = os.read(ready, 1 << 16)
            if not data:
                return
            if ready == 0:
                joined.sendall(data)
            else:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
