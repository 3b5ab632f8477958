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


class Kind(NamedTuple):
    """Failures that have the same remedy."""

    deed: str
    """A key of `DEEDS`."""
    codes: str
    """Pattern of Azure's error codes."""
    remedy: str
    sentences: str = ""
    """Pattern of sentences of Azure that say it under a code that does not, or is not known."""


_TABLE: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("failures.toml").read_text("utf-8")
)
DEEDS: dict[str, str] = _TABLE["deeds"]
"""What is done about a failure."""
KINDS: dict[str, Kind] = {
    name: Kind(**row | {column: "|".join(row.get(column, ())) for column in ("codes", "sentences")})
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

    def __init__(self, message: str, *, code: str, kind: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.code, self.kind, self.wait_s = code, kind, wait_s

    @property
    def deed(self) -> str:
        """What to do about it: a key of `DEEDS`."""
        special = (deed for pattern, deed in EXCEPTIONS.items() if re.fullmatch(pattern, self.code))
        return next(special, KINDS[self.kind].deed)


def waits(failure: AzError, attempt: int) -> float | None:
    """Seconds to wait before the same command is tried again, or None if that is pointless."""
    if failure.kind == "throttled":
        return max(failure.wait_s or 0.0, min(10.0 * 2.0**attempt, 120.0))
    if failure.kind == "unavailable":
        return min(5.0 * 2.0**attempt, 60.0)
    return None


def kind_of(code: str, message: str = "") -> str:
    """Kind of failure of an error code and its sentence."""
    if re.search(
        r"multi-?factor|\bMFA\b", message, re.IGNORECASE
    ):  # since 2026 refused as if by a policy
        return "login"

    def says(kind: Kind) -> bool:
        return bool(
            kind.sentences and re.search(kind.sentences, message, re.IGNORECASE | re.DOTALL)
        )

    by_code = [
        n for n, kind in KINDS.items() if code not in WRAPPERS and re.fullmatch(kind.codes, code)
    ]
    by_sentence = [n for n, kind in KINDS.items() if says(kind)]
    first = [*(by_sentence + by_code if code in VAGUE else by_code + by_sentence), "other"][:1]
    # what sounds like a mistake by the code's name may pass by its sentence
    passing = [n for n in by_sentence if KINDS[n].deed == "retry"] if first == ["usage"] else []
    return (passing or first)[0]


def error_of(what: str, error: Any) -> AzError:
    """AzError from an error object of Azure: ``{code, message, details}``, possibly nested."""
    pairs = list(_walk(error))
    return _failure(what, pairs or [("Unknown", json.dumps(error)[:300])])


def read_failure(what: str, exit_code: int, text: str) -> AzError:
    """AzError from the standard error of an az command."""
    documents = list(_documents(text))
    if documents and (status := re.match(r"ERROR: ([A-Z]\w+(?: [A-Z]\w+)*)\(\{", text)):  # az rest
        documents[:0] = stood_for(status[1].replace(" ", ""))
    # of a document that was cut, parts without a message may be left
    pairs = documents if any(message for _, message in documents) else []
    pairs += re.findall(r"^\s*Code:\s*(\w+)\s*\n\s*Message:\s*(.*)$", text, re.MULTILINE)
    pairs += re.findall(r"Exception Details:\s*\((\w+)\)\s*(.*)", text)
    for shape in (
        r'"[Cc]ode": "(\w+)", "[Mm]essage": "([^"]*)',  # a document that was cut
        r"^(?:ERROR|[\w.]+Error): \((\w+)\)\s*(.*)",
        r"(AADSTS\d+): ([^\n]*?)(?: Trace ID.*)?$",
    ):
        pairs = pairs or re.findall(shape, text, re.MULTILINE)[:1]
    pairs = pairs or documents
    if pairs:
        return _failure(what, pairs, text)
    message = _sentence(text) or f"exit code {exit_code} without a message"
    code = "Usage" if exit_code == 2 else "Unknown"
    errors = re.sub(r"^WARNING: .*\n", "", text, flags=re.MULTILINE)
    for sign in _TABLE["signs"]:
        if m := re.search(sign["text"], errors, re.MULTILINE | re.IGNORECASE):
            part = m[1] if m.re.groups else ""
            code, message = (
                sign["code"].format(part.replace(" ", "")),
                sign["sentence"].format(part) or message,
            )
            break
    return _failure(what, [(code, message)], text)


def _failure(what: str, pairs: list[tuple[str, str]], text: str = "") -> AzError:
    kinds = {pair: kind_of(*pair) for pair in pairs}
    # a code of its own says more than one that stands for many, and an unknown one less
    rank = [
        [p for p in pairs if kinds[p] != "other" and (p[0] in VAGUE) == vague]
        for vague in (False, True)
    ]
    rank.append([p for p in pairs if p[0] not in WRAPPERS])
    ranked = next(filter(None, rank), pairs)
    # the worst cause first: a permanent failure outranks one that may succeed elsewhere
    code, message = ([p for p in ranked if kinds[p] != "capacity"] or ranked)[-1]
    kind = kinds[code, message]
    if not message:  # a status: what it stands for follows
        causes = pairs[pairs.index((code, message)) + 1 :]
        code, message = next((p for p in reversed(causes) if p[1]), (code, message))
    remedy = KINDS[kind].remedy
    if kind == "provider" and (m := re.search(r"namespace '([\w.]+)'", message)):
        remedy = f"run `az provider register --wait --namespace {m[1]}`"
    if kind == "login" and (
        commands := re.findall(r"^\s*(az log(?:in|out)\b.*?)\s*$", text, re.MULTILINE)
    ):
        # word for word: with a tenant, or the challenge that a second factor is asked for with
        remedy = f"run {', then '.join(f'`{c}`' for c in dict.fromkeys(commands))}, then try again"
    wait = re.search(r"(?:after|in) '?(\d+)'? seconds", message)
    text = re.sub(r"\s+", " ", message).strip().rstrip(".")
    text = re.split(
        r"\. (?:Setup Alerts|Read more|Submit a|Find out more|Please read more|For more)", text
    )[0]
    cause = f"{code}: {text[:600]}" if text else code
    return AzError(
        f"{what}: {cause}; {remedy}", code=code, kind=kind, wait_s=float(wait[1]) if wait else None
    )


def stood_for(status: str) -> list[tuple[str, str]]:
    """The status of an answer, as the cause of one that is not known; a conflict may be all."""
    return [] if status in ("", "Conflict") else [(status, "")]


def _documents(text: str) -> Iterator[tuple[str, str]]:
    """The errors of every JSON document in a text, which may begin anywhere."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            position += 1
        else:
            yield from _walk(document)


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    """Every (code, message) in an error document, outermost first."""
    if not isinstance(node, dict):
        return
    node = {str(key)[:1].lower() + str(key)[1:]: value for key, value in node.items()}
    if isinstance(node.get("error"), dict):
        yield from _walk(node["error"])
    elif "code" in node:
        code, message = str(node["code"] or "").strip(), str(node.get("message") or "")
        quoted: list[tuple[str, str]] = []
        if message.lstrip().startswith("{"):  # a resource provider's error, quoted as text
            with contextlib.suppress(ValueError):
                quoted = list(_walk(json.loads(message)))
        yield from stood_for(code) if quoted else [(code, message)]
        yield from quoted
        for detail in node.get("details") or ():
            yield from _walk(detail)


def _sentence(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("ERROR: "):
            return line.removeprefix("ERROR: ").strip()
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith("WARNING")
    ]
    return lines[-1] if lines else ""
