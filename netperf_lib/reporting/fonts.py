"""Which font shows a character, and what to print where none does.

A missing glyph would be an empty box (and PDF/UA forbids it), so a character that no font of the report holds is
spelled out: ``‹rocket›`` for an emoji, ``‹U+4E2D›`` for anything without a short name.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from functools import cache
from pathlib import Path

JOINERS = {0xFE0E, 0xFE0F, 0x200D, 0x20E3, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
"""Selectors and joiners of emoji: they change a picture that is spelled out anyway."""


def _package_folder(package: str, *inside: str) -> Path | None:
    """Folder of an installed package, found without importing it (its import may change matplotlib's settings)."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent.joinpath(*inside) if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


@cache
def font_folders() -> tuple[Path, ...]:
    """Folders whose fonts the report may use: Source Sans, DejaVu, and a Japanese font where it is installed."""
    found = (
        _package_folder("font_source_sans_pro", "files"),
        _package_folder("matplotlib", "mpl-data", "fonts", "ttf"),
        _package_folder("matplotlib_fontja", "fonts"),
    )
    return tuple(f for f in found if f)


@cache
def _covered(file: str) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    for folder in font_folders():
        if (folder / file).is_file():
            with TTFont(folder / file, lazy=True) as font:
                return frozenset(font.getBestCmap() or ())
    return frozenset()


def _spelled(character: str) -> str:
    code = ord(character)
    if code in JOINERS:
        return ""
    name = unicodedata.name(character, "")
    return f"‹{name.lower()}›" if name and "IDEOGRAPH" not in name and len(name) < 40 else f"‹U+{code:04X}›"


def printable(*texts: str) -> tuple[str, str, list[str]]:
    """Spell out what no font holds, in two texts of one document; also the further font families that they need."""
    base = _covered("DejaVuSans.ttf")
    japanese = _covered("ipaexg.ttf")
    wide = {c for text in texts for c in text if ord(c) > 126 and ord(c) not in base}
    # a character that Source Sans alone holds is not worth the look-up: DejaVu holds all that it holds but a few
    wide -= {c for c in wide if ord(c) in _covered("SourceSansPro-Regular.ttf")}
    cjk = {c for c in wide if ord(c) in japanese}
    table = {ord(c): _spelled(c) for c in wide - cjk} | dict.fromkeys(JOINERS, "")
    first, second = (t.translate(table) for t in texts)
    return first, second, ["IPAexGothic"] if cjk else []
