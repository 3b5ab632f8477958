"""What Azure has answered: `recordings.jsonl`, an answer a line, from recordings in Azure/azure-cli (MIT).

Each line names its source; a failure also its kind, and the code that is its cause. Ids were replaced by the authors
of the recordings; long links and lists are cut here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .cloud import BASE, Answer, Cloud, Fault

FILE = Path(__file__).with_name("recordings.jsonl")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """An answer of Azure."""

    name: str
    meaning: str
    source: str
    licence: str
    method: str
    uri: str
    status: int
    headers: dict[str, str]
    body: Any
    kind: str | None = None
    """Of a failure: a key of `KINDS`."""
    deed: str | None = None
    """What an experienced operator does about it: a key of `DEEDS`."""
    code: str | None = None

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a failure that is a document."""
        body = self.body if isinstance(self.body, dict) else {}
        return dict(body.get("error") or (body.get("properties") or {}).get("error") or body)

    def answer(self) -> Answer:
        """The same answer, to be given by the emulator; az does not wait before it tries again."""
        sent = {k.title(): v for k, v in self.headers.items() if k in ("content-type", "www-authenticate")}
        sent |= {"Retry-After": "0"} if self.status == 429 or self.status >= 500 else {}
        return Answer(self.status, self.body, sent)

    def fault(self, at: str = "request", match: str = ".", times: int = 1) -> Fault:
        """The same failure, to happen in the emulated cloud."""
        error = self.error
        code, message = error.get("code", self.code or ""), error.get("message", "")
        given = self.answer()
        body = given.body if at == "request" else None
        return Fault(at, match, self.status, code, message, times=times, headers=given.headers, body=body)


@cache
def recordings() -> dict[str, Recording]:
    """Every recording, by name."""
    lines = FILE.read_text("utf-8").replace("/subscriptions/00000000-0000-0000-0000-000000000000", BASE).splitlines()
    return {r.name: r for r in (Recording(**json.loads(line)) for line in lines)}


@dataclass
class Replay:
    """A cloud that answers with recordings: (method, path, answer); what is not recorded, as the emulator does."""

    cloud: Cloud
    rules: list[tuple[str, str, Answer]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    base: str = ""
    """Where it is served."""

    def request(self, method: str, path: str, query: dict[str, str] | None = None, body: Any = None) -> Answer:
        """Answer one request."""
        self.requests.append(f"{method} {path}")
        for verb, pattern, answer in self.rules:
            if verb == method and re.search(pattern, path, re.I):
                return answer
        return self.cloud.request(method, path, query, body)

    def _fault(self, at: str, text: str) -> Fault | None:
        return self.cloud._fault(at, text)
