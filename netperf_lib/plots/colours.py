"""One colour and marker for a condition, in every figure and in the explorer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
from matplotlib.colors import to_hex, to_rgb

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
    looks: dict[str, tuple[str, str]] = {}
    for name in names:
        used = {colour for colour, _ in looks.values()}
        if name.partition(", ")[0] in PLACEMENTS or len(looks) >= MAX_STYLES:
            used = set()
        for look in _candidates(name):
            if look[0] not in used and look not in looks.values():
                looks[name] = look
                break
    return looks


def _candidates(name: str) -> Iterator[tuple[str, str]]:
    """Looks of a condition: the first one is its own where no other condition has it."""
    place, _, others = name.partition(", ")
    if place in PLACEMENTS:
        rank = list(PLACEMENTS).index(place)
        for number in count(zlib.crc32(others.encode())):  # of no others 0
            yield _look(PLACE_STYLES, rank, number)
    first = zlib.crc32(name.encode())
    for number in count():
        yield _look(SPARE_STYLES, first + number, number // len(SPARE_STYLES))


def _look(palette: Sequence[str], rank: int, number: int) -> tuple[str, str]:
    """A colour of the palette and a marker.

    Other numbers are other shades and markers, and 0 is the colour itself.
    """
    turn, shade = divmod(number, len(SHADES) - 1)
    share = SHADES[shade + 1] if number else 0.0
    # towards white, or, below 0, towards black
    mixed = np.array(to_rgb(palette[rank % len(palette)])) * (1 - abs(share))
    red, green, blue = mixed + max(share, 0.0)
    return to_hex((red, green, blue)), MARKERS[(rank + turn) % len(MARKERS)]
