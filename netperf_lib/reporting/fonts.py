"""Which font shows a character, and what to print where none does.

A missing glyph would be an empty box (and PDF/UA forbids it), so a character that no font of the report holds is
spelled out: ``‹rocket›`` for an emoji, ``‹U+4E2D›`` for anything without a short name.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

SELECTORS = "\ufe0e\ufe0f"
"""They choose between a black and a coloured picture, which is spelled out anyway."""
COMBINING = "".join(
    chr(c) for c in range(0x300, 0x20F0) if unicodedata.category(chr(c)).startswith("M")
)
"""Marks that combine with the character before them: not where that is spelled out."""


def _package_folder(package: str, *inside: str) -> Path | None:
    """Folder of an installed package, found without importing it (its import may change matplotlib's settings)."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent.joinpath(*inside) if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


@cache
def font_folders() -> tuple[Path, ...]:
    """Folders whose fonts the report may use: Source Sans, DejaVu, and a Japanese font where it is installed."""
    folders = (
        _package_folder("font_source_sans_pro", "files"),
        _package_folder("matplotlib", "mpl-data", "fonts", "ttf"),
        _package_folder("matplotlib_fontja", "fonts"),
    )
    return tuple(f for f in folders if f)


@cache
def _covered(file: str) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    for folder in font_folders():
        if (folder / file).is_file():
            with TTFont(folder / file, lazy=True) as font:
                return frozenset(font.getBestCmap() or ())
    return frozenset()


def _spelled(text: str) -> str:
    """Characters by their names, or by their numbers."""
    names = [(f"U+{ord(c):04X}", unicodedata.name(c, "").lower()) for c in text]
    return "".join(
        f"‹{name if name and 'ideograph' not in name and len(name) < 40 else code}›"
        for code, name in names
    )


def printable(*texts: str) -> tuple[str, str, dict[str, Any]]:
    """Spell out what no font holds, in two texts of one document.

    Also returned is what the template must know of them: further font families, and a pattern of those characters that
    the first font would put together from a letter and a mark, which programs that read a PDF take for the letter.
    """
    sans, base, japanese = map(
        _covered, ("SourceSansPro-Regular.ttf", "DejaVuSans.ttf", "ipaexg.ttf")
    )
    wide = {c for text in texts for c in text if ord(c) > 126 and ord(c) not in sans}
    composed = sorted(
        c for c in wide if ord(c) in base and re.match("[0-9A-F]", unicodedata.decomposition(c))
    )
    wide -= {c for c in wide if ord(c) in base}
    cjk = {c for c in wide if ord(c) in japanese}
    lacking = re.escape("".join(sorted(wide - cjk - {*SELECTORS})))
    pattern = re.compile(f"[{SELECTORS}]+|[{lacking or chr(0)}][{COMBINING}]*")
    first, second = (
        pattern.sub(lambda m: "" if m[0][0] in SELECTORS else _spelled(m[0]), text)
        for text in texts
    )
    further = {
        "fonts": ["IPAexGothic"] if cjk else [],
        "composed": f"[{''.join(composed)}]+" if composed else None,
    }
    return first, second, further
