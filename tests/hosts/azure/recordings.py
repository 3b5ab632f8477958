"""Failures that Azure has answered with, to happen in the emulated cloud.

`recordings.jsonl` has an answer a line, from recordings in Azure/azure-cli (MIT), each with its
source; `cited.tsv` has codes of public pages.
"""

import json
from functools import cache
from pathlib import Path

from .cloud import Fault

HERE = Path(__file__).parent


@cache
def _recorded():
    lines = (HERE / "recordings.jsonl").read_text("utf-8").splitlines()
    return {r["name"]: r for r in map(json.loads, lines)}


@cache
def _cited():
    """Code to its status, and a sentence in few words."""
    lines = (HERE / "cited.tsv").read_text("utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {
        name: (int(status), text.replace("\\n", "\n")) for name, status, text, _ in rows
    }


def fault(name, at="request", match=".", times=1):
    """The failure that a recording shows, or one that is cited."""
    if name in _cited():
        status, message = _cited()[name]
        return Fault(at, match, status, name.partition(",")[0], message, times)
    recorded = _recorded()[f"failures/{name}"]
    body, status = recorded["body"], recorded["status"]
    error = body.get("error", body) if isinstance(body, dict) else {}
    while at != "request" and error.get("details"):
        # a request is answered whole, a resource fails by itself
        error = error["details"][-1]
    passing = status == 429 or status >= 500
    # az does not wait before it tries again
    headers = {"Retry-After": "0.01"} if passing else {}
    whole = body if at == "request" else None
    code = error.get("code", recorded.get("code") or "")
    return Fault(at, match, status, code, error.get("message", ""), times, headers, whole)
