"""Messages between the supervisor and process 1 of each host: one JSON object a packet of a local socket."""

from __future__ import annotations

import json
import socket
from typing import Any


def receive(control: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Wait for a message: what it says, and the descriptor that came along; OSError where the other end failed."""
    message, fds, _, _ = socket.recv_fds(control, 65536, 1)
    said: dict[str, Any] = json.loads(message) if message else {"error": "it ended without a word"}
    if "error" in said:
        raise OSError(said["error"])
    return said, fds[0] if fds else None


def ask(control: socket.socket, question: dict[str, Any]) -> dict[str, Any]:
    """Send a question and wait for its answer; raises as `receive` does."""
    control.send(json.dumps(question).encode())
    return receive(control)[0]
