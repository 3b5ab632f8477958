"""The font of a report, and what to print where it lacks a character.

A missing glyph would be an empty box (and PDF/UA forbids it), so a character that the font lacks is
spelled out: ``‹U+4E2D›``.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

SELECTORS = "[\ufe0e\ufe0f]+"
"""They choose between a black and a coloured picture, which is spelled out anyway."""


@cache
def font_folder() -> Path:
    """Return the folder of matplotlib's DejaVu fonts, without importing matplotlib."""
    spec: Any = importlib.util.find_spec("matplotlib")
    (place,) = spec.submodule_search_locations
    return Path(place, "mpl-data", "fonts", "ttf")


@cache
def _characters() -> frozenset[int]:
    from fontTools.ttLib import TTFont

    with TTFont(font_folder() / "DejaVuSans.ttf", lazy=True) as font:
        return frozenset(font.getBestCmap() or ())


def printable(text: str) -> str:
    """Return the text with every character spelled out that the font lacks."""
    text = re.sub(SELECTORS, "", text)
    lacking = {ord(c) for c in text if ord(c) > 126} - _characters()
    return text.translate({c: f"‹U+{c:04X}›" for c in lacking})
