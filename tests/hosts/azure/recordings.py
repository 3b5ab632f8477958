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
        sent = {
            k.title(): v
            for k, v in self.headers.items()
            if k in ("content-type", "www-authenticate")
        }
        sent |= {"Retry-After": "0.01"} if self.status == 429 or self.status >= 500 else {}
        return Answer(self.status, self.body, sent)

    def fault(self, at: str, match: str, times: int, status: int | None = None) -> Fault:
        """The same failure, to happen in the emulated cloud."""
        error = self.error
        while at != "request" and error.get(
            "details"
        ):  # a request is answered whole, a resource fails by itself
            error = error["details"][-1]
        given = self.answer()
        body = given.body if at in ("request", "token") else None
        code, message = error.get("code", self.code or ""), error.get("message", "")
        return Fault(at, match, status or self.status, code, message, times, given.headers, body)


@cache
def recordings() -> dict[str, Recording]:
    """Every recording, by name."""
    lines = (
        FILE.read_text("utf-8")
        .replace("/subscriptions/00000000-0000-0000-0000-000000000000", BASE)
        .splitlines()
    )
    return {r.name: r for r in (Recording(**json.loads(line)) for line in lines)}


@cache
def cited() -> dict[str, tuple[int, str]]:
    """What no recording under a licence shows: a code (and what is special) to its status, and a sentence in few words.

    `cited.tsv` names a public page for each.
    """
    lines = FILE.with_name("cited.tsv").read_text("utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {
        name: (int(status), sentence.replace("\\n", "\n")) for name, status, sentence, _ in rows
    }


EXPIRED = {
    "error": "invalid_client",
    "error_description": (
        "AADSTS7000222: The provided client secret keys are expired.\r\n"
        "Trace ID: 00000000-0000-0000-0000-000000000001\r\n"
        "Correlation ID: 00000000-0000-0000-0000-000000000002\r\nTimestamp: 2020-04-13 19:49:19Z"
    ),
    "error_codes": [7000222],
    "timestamp": "2020-04-13 19:49:19Z",
    "trace_id": "00000000-0000-0000-0000-000000000001",
    "correlation_id": "00000000-0000-0000-0000-000000000002",
}
"""What the token service answered, with status 401 and other ids: a log in MicrosoftDocs/azure-docs (samples: MIT),
articles/azure-arc/kubernetes/troubleshooting.md."""


def fault(name: str, at: str = "request", match: str = ".", times: int = 1, **more: Any) -> Fault:
    """The failure that a recording shows, or one that is cited, to happen in the emulated cloud."""
    if name in cited():
        status, message = cited()[name]
        return Fault(at, match, status, name.partition(",")[0], message, times, **more)
    return recordings()[f"failures/{name}"].fault(at, match, times, **more)


@dataclass
class Replay:
    """A cloud that answers with recordings: (method, path, answer); what is not recorded, as the emulator does."""

    cloud: Cloud
    rules: list[tuple[str, str, Answer]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    base: str = ""
    """Where it is served."""

    def request(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Any = None
    ) -> Answer:
        """Answer one request."""
        self.requests.append(f"{method} {path}")
        for verb, pattern, answer in self.rules:
            if verb == method and re.search(pattern, path, re.I):
                return answer
        return self.cloud.request(method, path, query, body)

    def _fault(self, at: str, text: str) -> Fault | None:
        return self.cloud._fault(at, text)
