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
from collections.abc import Iterator
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
    codes: str
    """Pattern of Azure's error codes."""
    sentences: str
    """Pattern of sentences that say it under a code that says little, or is not known."""


_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("failures.toml").read_text("utf-8")
)
KINDS: dict[str, Kind] = {}
"""What Azure can refuse: the first kind that fits counts."""
for _name, _row in _TABLE["kinds"].items():
    _codes, _sentences = ("|".join(_row[key]) for key in ("codes", "sentences"))
    KINDS[_name] = Kind(
        _row["meaning"], _row["advice"], _codes, f"(?is){_sentences or '(?!)'}"
    )
WRAPPERS = set(_TABLE["wrappers"])
VAGUE = {*WRAPPERS, *_TABLE["vague"]}
"""Codes that say less than the sentence that comes with them."""


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


def _known_kind(code: str, sentence: str) -> str | None:
    if re.search(KINDS["login"].sentences, sentence):
        return "login"
    by_code = [n for n, kind in KINDS.items() if re.fullmatch(kind.codes, code)]
    by_sentence = [n for n, kind in KINDS.items() if re.search(kind.sentences, sentence)]
    if code in WRAPPERS:
        by_code = []
    found = by_sentence + by_code if code in VAGUE else by_code + by_sentence
    return found[0] if found else None


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
        if found := re.search(sign["text"], errors, re.MULTILINE | re.IGNORECASE):
            sentence = sign.get("sentence") or _sentence(errors)
            return sign["code"], sentence.format(*found.groups())
    return "Unknown", _sentence(errors) or f"exit code {exit_code} without a message"


def _sentence(text: str) -> str:
    """The line that says ERROR, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")
    ]
    return next(iter(errors + lines[::-1]), "").strip()


def _failure(what: str, causes: list[Cause], text: str = "") -> AzError:
    kinds = {cause: _known_kind(*cause) for cause in causes}
    known = [cause for cause in causes if kinds[cause]]
    # a code of its own says more than one that stands for many, and an unknown one less
    plain = [cause for cause in known if cause[0] not in VAGUE]
    ranked = plain or known or causes
    # the worst cause first: a permanent failure outranks one that may succeed elsewhere
    worst = [cause for cause in ranked if kinds[cause] != "capacity"] or ranked
    code, sentence = worst[-1]
    kind = kinds[code, sentence] or PASSING
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
    return AzError(
        f"{what}: {cause_text}; {advice}",
        code=code,
        kind=kind,
        wait_s=float(wait[1]) if wait else 0.0,
    )


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
        return
    if "code" not in node:
        return
    code, sentence = str(node["code"] or "").strip(), str(node.get("message") or "")
    quoted: list[Cause] = []
    if sentence.lstrip().startswith("{"):
        # a resource provider's error, quoted as text
        with contextlib.suppress(ValueError):
            quoted = list(_walk(json.loads(sentence)))
    yield from quoted or [(code, sentence)]
    for detail in node.get("details") or ():
        yield from _walk(detail)
