"""One colour and marker for a condition, in every figure and in the explorer."""

from __future__ import annotations

from collections.abc import Sequence

from ..experiment.factors import factor

PLACES = ("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#8a7f00", "#cc79a7", "#7f7f7f", "#000000", "#aa7744")
"""Okabe and Ito, for placements; yellow is replaced by a dark one that print can show."""
OTHERS = ("#332288", "#aa4499", "#117733", "#882255", "#44aa99", "#999933", "#cc6677", "#661100")
"""Paul Tol's muted colours, for whatever is no placement."""
MARKERS = "osD^v<>p*hPX"
SHADES = (0.0, 0.45, -0.45, 0.65, -0.7, 0.25, -0.25)
"""How conditions of one placement differ: mixed with white, or, below 0, with black."""


def colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each condition a colour and a marker.

    A placement has the same colour everywhere, and its conditions are shades of it; what is no placement has one of
    other colours, in its order.

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
    heads = [name.split(", ")[0] for name in names]
    others = list(dict.fromkeys(head for head in heads if head not in places))
    count: dict[str, int] = {}
    styles = {}
    for name, head in zip(names, heads, strict=True):
        known = head in places
        rank = places.index(head) if known else others.index(head)
        number = count[head] = count.get(head, -1) + 1
        palette = PLACES if known else OTHERS
        colour = _shade(palette[rank % len(palette)], SHADES[number % len(SHADES)])
        styles[name] = (colour, MARKERS[(rank + 3 * number) % len(MARKERS)])
    return styles


def _shade(colour: str, share: float) -> str:
    """A colour mixed with a share of white, or, below 0, of black."""
    towards = 255 if share > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(share) * (towards - part)):02x}" for part in parts)
