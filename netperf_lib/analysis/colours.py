"""One colour and marker for a condition, in every figure and in the explorer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import count

from ..experiment.placements import PLACEMENTS

PLACE_STYLES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#56b4e9",
    "#d55e00",
    "#8a7f00",
    "#cc79a7",
    "#7f7f7f",
    "#aa7744",
    "#000000",
)
"""Okabe and Ito, for placements; yellow is replaced by a dark one that print can show."""
SPARE_STYLES = (
    "#332288",
    "#aa4499",
    "#117733",
    "#882255",
    "#44aa99",
    "#999933",
    "#cc6677",
    "#661100",
)
"""Paul Tol's muted colours, for whatever is no placement."""
MARKERS = "osD^v<>p*hPX"
MAX_STYLES = 24
"""Of more conditions than this some share a colour, and differ in their markers."""
SHADES = (0.0, 0.4, -0.45, 0.55, -0.7, 0.2, -0.25)
"""How conditions of one placement differ: mixed with white, or, below 0, with black."""


def colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each condition a colour and a marker.

    A placement has the same colour everywhere, and its conditions are shades of it; what is no
    placement has one of other colours. They follow from the names alone, unless two would look the
    same.

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
    >>> colours(["cross-zone", "ppg"]) == {"cross-zone": ("#56b4e9", "^"), "ppg": ("#0072b2", "o")}
    True
    """
    places = list(PLACEMENTS)
    styles: dict[str, tuple[str, str]] = {}
    for name in names:
        head, _, others = name.partition(", ")
        used = (
            {colour for colour, _ in styles.values()}
            if len(styles) < MAX_STYLES
            else set()
        )
        for step in count():
            if head in places:
                number = zlib.crc32(others.encode()) + step if others else step
                style = _style(PLACE_STYLES, places.index(head), number)
            else:
                style = _style(
                    SPARE_STYLES,
                    zlib.crc32(name.encode()) + step,
                    step // len(SPARE_STYLES),
                )
            if style not in styles.values() and (head in places or style[0] not in used):
                break
        styles[name] = style
    return styles


def _style(palette: Sequence[str], rank: int, number: int) -> tuple[str, str]:
    """A colour of the palette and a marker.

    Other numbers are other shades and markers, and 0 is the colour itself.
    """
    shades = len(SHADES) - 1
    shade = SHADES[1 + number % shades] if number else SHADES[0]
    return _shade(palette[rank % len(palette)], shade), MARKERS[
        (rank + number // shades) % len(MARKERS)
    ]


def _shade(colour: str, share: float) -> str:
    """A colour mixed with a share of white, or, below 0, of black."""
    towards = 255 if share > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(
        f"{round(part + abs(share) * (towards - part)):02x}" for part in parts
    )
