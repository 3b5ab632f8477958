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

WAIT_S = 60


def main(az: str, bastion: str, vm: str) -> int:
    """Join standard input and output with port 22 of a VM."""
    words = bastion.split("/")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [az, "network", "bastion", "tunnel", "--subscription", words[2], "--resource-group", words[4]]
    command += ["--name", words[-1], "--target-resource-id", vm, "--resource-port", "22", "--port", str(port)]
    tunnel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + WAIT_S
        while True:
            try:
                joined = socket.create_connection(("127.0.0.1", port), timeout=5)
                break
            except OSError:
                if tunnel.poll() is not None or time.monotonic() > end:
                    print(f"no tunnel through {words[-1]}: try `az network bastion tunnel` yourself", file=sys.stderr)
                    return 1
                time.sleep(0.2)
        with joined:
            joined.settimeout(None)
            pump(joined)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tunnel.pid, signal.SIGKILL)
        tunnel.wait()
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
