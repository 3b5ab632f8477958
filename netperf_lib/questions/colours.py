"""One colour and marker for a condition, in every figure and in the explorer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import count

from ..experiment.factors import factor

PLACES = ("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#8a7f00", "#cc79a7", "#7f7f7f", "#000000", "#aa7744")
"""Okabe and Ito, for placements; yellow is replaced by a dark one that print can show."""
OTHERS = ("#332288", "#aa4499", "#117733", "#882255", "#44aa99", "#999933", "#cc6677", "#661100")
"""Paul Tol's muted colours, for whatever is no placement."""
MARKERS = "osD^v<>p*hPX"
MOST = 24
"""Of more conditions than this some share a colour, and differ in their markers."""
SHADES = (0.0, 0.45, -0.45, 0.65, -0.7, 0.25, -0.25)
"""How conditions of one placement differ: mixed with white, or, below 0, with black."""


def colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each condition a colour and a marker.

    A placement has the same colour everywhere, and its conditions are shades of it; what is no placement has one of
    other colours. Both follow from the name alone, so that every figure agrees, unless two names would look the same.

    Parameters
    ----------
    names : sequence of str
        Names of conditions, in their order.

    Returns
    -------
    dict
        By name the colour (``#rrggbb``) and the marker of matplotlib.

    Examples
    --------
    >>> colours(["cross-zone", "ppg"]) == {"cross-zone": ("#009e73", "D"), "ppg": ("#0072b2", "o")}
    True
    """
    places = factor("placement").order
    styles: dict[str, tuple[str, str]] = {}
    for name in names:
        head, _, rest = name.partition(", ")
        known = head in places
        palette = PLACES if known else OTHERS
        rank = places.index(head) if known else zlib.crc32(name.encode())
        number = zlib.crc32(rest.encode()) if known and rest else 0
        used = {colour for colour, _ in styles.values()} if not known and len(styles) < MOST else set()
        for step in count():
            style = _style(palette, rank + (not known) * step, number + (step if known else step // len(palette)))
            if style not in styles.values() and style[0] not in used:
                break
        styles[name] = style
    return styles


def _style(palette: Sequence[str], rank: int, number: int) -> tuple[str, str]:
    """A colour of the palette and a marker; other numbers are other shades and markers, and 0 is the colour itself."""
    shades = len(SHADES) - 1
    shade = SHADES[1 + number % shades] if number else SHADES[0]
    return _shade(palette[rank % len(palette)], shade), MARKERS[(rank + number // shades) % len(MARKERS)]


def _shade(colour: str, share: float) -> str:
    """A colour mixed with a share of white, or, below 0, of black."""
    towards = 255 if share > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(share) * (towards - part)):02x}" for part in parts)
