"""The font of a report, and what to print where it lacks a character.

A missing glyph would be an empty box (and PDF/UA forbids it), so a character that the font lacks is spelled out:
``‹rocket›`` for an emoji, ``‹U+4E2D›`` for anything without a short name.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from functools import cache
from pathlib import Path

SELECTORS = "\ufe0e\ufe0f"
"""They choose between a black and a coloured picture, which is spelled out anyway."""
COMBINING = "".join(
    chr(c) for c in range(0x300, 0x20F0) if unicodedata.category(chr(c)).startswith("M")
)
"""Marks that combine with the character before them: not where that is spelled out."""


@cache
def font_folder() -> Path:
    """Return the folder of matplotlib's DejaVu fonts, without importing matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"


@cache
def _characters() -> frozenset[int]:
    from fontTools.ttLib import TTFont

    with TTFont(font_folder() / "DejaVuSans.ttf", lazy=True) as font:
        return frozenset(font.getBestCmap() or ())


def _name(character: str) -> str:
    name = unicodedata.name(character, "").lower()
    if not name or "ideograph" in name or len(name) >= 40:
        return f"U+{ord(character):04X}"
    return name


def printable(text: str) -> str:
    """Return the text with every character spelled out that the font lacks."""
    lacking = {c for c in text if ord(c) > 126 and ord(c) not in _characters()}
    lacking -= {*SELECTORS}
    text = re.sub(f"[{SELECTORS}]+", "", text)
    if not lacking:
        return text
    pattern = f"[{re.escape(''.join(sorted(lacking)))}][{COMBINING}]*"
    return re.sub(pattern, lambda found: "".join(f"‹{_name(c)}›" for c in found[0]), text)
