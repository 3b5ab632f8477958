"""The text of a log, without what terminals, Windows and collectors of logs added to it."""

from __future__ import annotations

import re

from .wrapping import Voice, from_docker, voices

__all__ = ["clean", "cleaned", "decode"]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def decode(data: bytes) -> str:
    """Text of a log as it lies on disk: UTF-8, or UTF-16 as PowerShell's ``>`` writes it, even without its mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:64]:
        low, high = data[:64:2].count(0), data[1:64:2].count(0)
        if max(low, high) > 24 or max(low, high) > 0.9 * len(data) / 2:
            return data.decode("utf-16-le" if high > low else "utf-16-be", errors="replace")
    return data.decode("utf-8", errors="replace")


def cleaned(text: str) -> list[Voice]:
    """Take out what terminals, Windows and collectors of logs add: marks, colours, times, names of hosts."""
    text = from_docker(text.replace("\ufeff", ""))
    if "\r" in text:
        text = re.sub(r"\r*\n|\r", "\n", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return voices(text)


def clean(text: str) -> str:
    """Return the text of all sources, one after the other."""
    return "".join(voice.text for voice in cleaned(text))
