"""Failures read from the output of az: the root cause, its kind, and the remedy in one message.

az prints a failure in one of these shapes: a JSON document after ``ERROR:``; several of them under
``Inner Errors:``; ``(Code) text`` with ``Code:`` and ``Message:`` lines, also inside a traceback;
the token service's ``AADSTS…: text``; a plain sentence.
"""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

from ...errors import AzureError

Cause = tuple[str, str]
"""Azure's code, and its sentence."""


class Kind(NamedTuple):
    """Failures that have the same remedy."""

    deed: str
    """A key of `DEEDS`."""
    codes: str
    """Pattern of Azure's error codes."""
    remedy: str
    sentences: str
    """Pattern of sentences of Azure that say it under a code that does not, or is not known."""


_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("failures.toml").read_text("utf-8")
)
DEEDS: dict[str, str] = _TABLE["deeds"]
"""What is done about a failure."""
KINDS: dict[str, Kind] = {
    name: Kind(
        row["deed"],
        "|".join(row["codes"]),
        row["remedy"],
        "(?is)" + "|".join(row.get("sentences", ["(?!)"])),
    )
    for name, row in _TABLE["kinds"].items()
}
"""What Azure can refuse: the first kind that fits counts."""
EXCEPTIONS: dict[str, str] = _TABLE["exceptions"]
"""Patterns of codes whose deed is not that of their kind."""
WRAPPERS = set(_TABLE["wrappers"])
VAGUE = {*WRAPPERS, *_TABLE["vague"]}
"""Codes that say less than the sentence that comes with them."""


class AzError(AzureError):
    """A command of az, or a deployment, that failed: the message gives cause and remedy.

    `code` is Azure's root error code; `kind` is a key of `KINDS`; `wait_s` is the number of seconds
    that Azure asks to wait.
    """

    def __init__(
        self, message: str, *, code: str, kind: str, wait_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.code, self.kind, self.wait_s = code, kind, wait_s

    @property
    def deed(self) -> str:
        """What to do about it: a key of `DEEDS`."""
        special = (
            deed
            for pattern, deed in EXCEPTIONS.items()
            if re.fullmatch(pattern, self.code)
        )
        return next(special, KINDS[self.kind].deed)

    def waits(self, attempt: int) -> float | None:
        """Return the seconds before the same command is tried again; None if that is pointless."""
        pauses = {"throttled": (10.0, 120.0), "unavailable": (5.0, 60.0)}
        first, most = pauses.get(self.kind, (0.0, 0.0))
        return max(self.wait_s, min(first * 2.0**attempt, most)) if first else None


def kind_of(code: str, message: str = "") -> str:
    """Return the kind of failure of an error code and its sentence."""
    # since 2026 a missing second factor is refused as if by a policy
    if re.search(r"(?i)multi-?factor|\bMFA\b", message):
        return "login"
    by_code = [n for n, kind in KINDS.items() if re.fullmatch(kind.codes, code)]
    by_code = [] if code in WRAPPERS else by_code
    by_sentence = [n for n, kind in KINDS.items() if re.search(kind.sentences, message)]
    return [
        *(by_sentence + by_code if code in VAGUE else by_code + by_sentence),
        "other",
    ][0]


def error_of(what: str, error: Any) -> AzError:
    """Return the AzError from an error of Azure: ``{code, message, details}``, possibly nested."""
    return _failure(what, list(_walk(error)) or [("Unknown", json.dumps(error)[:300])])


def read_failure(what: str, exit_code: int, text: str) -> AzError:
    """Return the AzError from the standard error of an az command."""
    causes = list(_documents(text))
    for shape in _TABLE["shapes"]["every"]:
        causes += re.findall(shape, text, re.MULTILINE)
    for shape in _TABLE["shapes"]["first"]:
        causes = causes or re.findall(shape, text, re.MULTILINE)[:1]
    return _failure(what, causes or [_sign(exit_code, text)], text)


def _sign(exit_code: int, text: str) -> Cause:
    """The cause of a failure that names no code."""
    errors = re.sub(r"^WARNING: .*\n", "", text, flags=re.MULTILINE)
    for sign in _TABLE["signs"]:
        if m := re.search(sign["text"], errors, re.MULTILINE | re.IGNORECASE):
            part = "".join(m.groups())
            code = sign["code"].format(part.replace(" ", ""))
            return code, sign["sentence"].format(part) or _sentence(errors)
    return "Unknown", _sentence(errors) or f"exit code {exit_code} without a message"


def _sentence(text: str) -> str:
    """The line that says ERROR, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return next(iter(said + lines[::-1]), "").strip()


def _failure(what: str, causes: list[Cause], text: str = "") -> AzError:
    kinds = {cause: kind_of(*cause) for cause in causes}
    known = [c for c in causes if kinds[c] != "other"]
    # a code of its own says more than one that stands for many, and an unknown one less
    plain = [c for c in known if c[0] not in VAGUE]
    ranked = plain or known or causes
    # the worst cause first: a permanent failure outranks one that may succeed elsewhere
    code, message = ([c for c in ranked if kinds[c] != "capacity"] or ranked)[-1]
    kind = kinds[code, message]
    remedy = KINDS[kind].remedy
    logins = re.findall(r"^\s*(az log(?:in|out)\b.*?)\s*$", text, re.MULTILINE)
    if kind == "login" and logins:
        # word for word: with a tenant, or the challenge that a second factor is asked for with
        remedy = f"run {', then '.join(f'`{c}`' for c in dict.fromkeys(logins))}, then try again"
    wait = re.search(r"(?:after|in) '?(\d+)'? seconds", message)
    said = re.split(_TABLE["shapes"]["links"], " ".join(message.split()).rstrip("."))[0]
    cause = f"{code}: {said[:600]}" if said else code
    wait_s = float(wait[1]) if wait else 0.0
    return AzError(f"{what}: {cause}; {remedy}", code=code, kind=kind, wait_s=wait_s)


def _documents(text: str) -> Iterator[Cause]:
    """The errors of every JSON document in a text, which may begin anywhere."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            position += 1
        else:
            yield from _walk(document)


def _walk(node: Any) -> Iterator[Cause]:
    """Every cause in an error document, outermost first."""
    if not isinstance(node, dict):
        return
    node = {str(key)[:1].lower() + str(key)[1:]: value for key, value in node.items()}
    if isinstance(node.get("error"), dict):
        yield from _walk(node["error"])
    elif "code" in node:
        code, message = str(node["code"] or "").strip(), str(node.get("message") or "")
        quoted: list[Cause] = []
        if message.lstrip().startswith(
            "{"
        ):  # a resource provider's error, quoted as text
            with contextlib.suppress(ValueError):
                quoted = list(_walk(json.loads(message)))
        yield from quoted or [(code, message)]
        for detail in node.get("details") or ():
            yield from _walk(detail)
