"""Failures read from the output of az: the root cause, its kind, and the advice in one message.

az prints a failure in one of these shapes: a JSON document after ``ERROR:``; several of them under
``Inner Errors:``; ``(Code) text`` with ``Code:`` and ``Message:`` lines, also inside a traceback;
the token service's ``AADSTS…: text``; a plain sentence.
"""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, NamedTuple

from ...errors import AzureError

Cause = tuple[str, str]
"""Azure's code, and its sentence."""
PASSING = "passing"
"""The kind of every failure that is not known to be of another."""


class Kind(NamedTuple):
    """Failures about which the same is done."""

    meaning: str
    """What is done about it."""
    advice: str
    """What the user is told to do."""
    codes: list[str]
    """Patterns of Azure's error codes."""
    sentences: list[str]
    """Patterns of sentences that say it under a code that says little, or is not known."""


_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("failures.toml").read_text("utf-8")
)
KINDS = {name: Kind(**row) for name, row in _TABLE["kinds"].items()}
"""What Azure can refuse: the first kind that fits counts."""


class AzError(AzureError):
    """A command of az, or a deployment, that failed: the message gives cause and advice.

    `code` is Azure's root error code; `kind` is a key of `KINDS`; `wait_s` is the number of seconds
    that Azure asks to wait.
    """

    def __init__(
        self, message: str, *, code: str, kind: str = PASSING, wait_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.code, self.kind, self.wait_s = code, kind, wait_s


def error_of(what: str, error: Any) -> AzError:
    """Return the AzError from an error of Azure: ``{code, message, details}``, possibly nested."""
    return _failure(what, list(_walk(error)) or [("Unknown", json.dumps(error)[:300])])


def read_failure(what: str, exit_code: int, text: str) -> AzError:
    """Return the AzError from the standard error of an az command."""
    causes: list[Cause] = []
    for shape in _TABLE["shapes"]:
        causes += re.findall(shape, text, re.MULTILINE)
    causes += _documents(text)
    return _failure(what, causes or [_sign(exit_code, text)], text)


def _sign(exit_code: int, text: str) -> Cause:
    """The cause of a failure that names no code: what it looks like, or the line with ERROR."""
    errors = re.sub(r"^WARNING: .*\n", "", text, flags=re.MULTILINE).strip()
    said = re.search(r"^ERROR: (.+)", errors, re.MULTILINE)
    sentence = said[1] if said else errors.rpartition("\n")[2]
    for sign in _TABLE["signs"]:
        if found := re.search(sign["text"], errors, re.MULTILINE | re.IGNORECASE):
            instead = sign.get("sentence") or sentence
            return sign["code"], instead.format(*found.groups())
    return "Unknown", sentence or f"exit code {exit_code} without a message"


def _kind(cause: Cause) -> str | None:
    """The kind that the code says, or else the sentence; None if it is not known."""
    code, sentence = cause
    by_code, by_sentence = [], []
    for name, kind in KINDS.items():
        if re.fullmatch("|".join(kind.codes), code):
            by_code.append(name)
        if re.search("|".join(kind.sentences), sentence, re.IGNORECASE | re.DOTALL):
            by_sentence.append(name)
    found = by_code + by_sentence
    if code in _TABLE["vague"]:
        found = by_sentence + by_code
    return found[0] if found else None


def _weight(cause: Cause) -> tuple[bool, bool, bool]:
    """How much a cause says: a code of its own more than one that stands for many.

    A permanent failure outranks one that may succeed elsewhere.
    """
    kind = _kind(cause)
    is_known = kind is not None
    return is_known and cause[0] not in _TABLE["vague"], is_known, kind != "capacity"


def _failure(what: str, causes: list[Cause], text: str = "") -> AzError:
    # of equal ones the last, which is the innermost
    code, sentence = cause = max(reversed(causes), key=_weight)
    kind = _kind(cause) or PASSING
    advice = KINDS[kind].advice
    logins = re.findall(r"^\s*(az log(?:in|out)\b.*?)\s*$", text, re.MULTILINE)
    if kind == "login" and logins:
        # word for word: with a tenant, or the challenge that a second factor is asked for with
        commands = ", then ".join(f"`{command}`" for command in dict.fromkeys(logins))
        advice = f"run {commands}, then try again"
    plain_text = " ".join(sentence.split()).rstrip(".")
    message = re.split(_TABLE["links"], plain_text)[0][:600]
    cause_text = f"{code}: {message}" if message else code
    wait = re.search(r"(?:after|in) '?(\d+)'? seconds", sentence)
    wait_s = float(wait[1]) if wait else 0.0
    return AzError(f"{what}: {cause_text}; {advice}", code=code, kind=kind, wait_s=wait_s)


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
    inner: Iterable[Any] = ()
    if isinstance(node, str):
        # a resource provider's error may be quoted as text
        with contextlib.suppress(ValueError):
            inner = [json.loads(node)]
    elif isinstance(node, list):
        inner = node
    elif isinstance(node, dict):
        inner = node.values()
        fields = {key.lower(): value for key, value in node.items()}
        code, sentence = fields.get("code"), str(fields.get("message") or "")
        if code is not None and not list(_walk(sentence)):
            yield str(code).strip(), sentence
    for entry in inner:
        yield from _walk(entry)
