"""One colour and marker for a condition, in every figure and in the explorer."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any

from ..experiment.factors import dimensions, factor, level_words, plain
from .observe import SEVERAL, Observations

PLACES = (
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
OTHERS = ("#332288", "#aa4499", "#117733", "#882255", "#44aa99", "#999933", "#cc6677", "#661100")
"""Paul Tol's muted colours, for whatever is no placement."""
MARKERS = "osD^v<>p*hPX"
MOST = 24
"""Of more conditions than this some share a colour, and differ in their markers."""
SHADES = (0.0, 0.4, -0.45, 0.55, -0.7, 0.2, -0.25)
"""How conditions of one placement differ: mixed with white, or, below 0, with black."""


_DOCUMENT: ContextVar[Mapping[str, tuple[str, str]]] = ContextVar("_DOCUMENT", default={})  # noqa: B039 - never changed
"""Styles of the conditions of what is being drawn, by their names in its figure."""
_UNSAID = {"streams": (None, 1)}
"""Levels that make no other colour: a transfer of one stream looks like the latency of its path."""
_MEANS = ("tool", "test", "protocol", "direction", "client", "server")


@contextmanager
def document_colours(obs: Observations) -> Iterator[None]:
    """Within the block `colours` gives a condition the style that it has in every figure of the experiment.

    All combinations of levels that the experiment holds are numbered once, whatever a figure shows and calls them.
    """
    runs, held = obs._source.runs, obs.facts
    split = [
        f
        for f in dimensions(runs.columns)
        if f not in _MEANS and factor(f).always_splits and f in held
    ]
    split = [f for f in split if not held[f].map(repr).eq(repr(SEVERAL)).any()]
    rows = runs[split].drop_duplicates().itertuples(index=False)
    order = sorted(dict.fromkeys(tuple(map(plain, row)) for row in rows), key=partial(_key, split))
    styles = _numbered([_identity(split, levels) for levels in order])
    called = {str(name): _identity(split, levels) for name, *levels in held[split].itertuples()}
    token = _DOCUMENT.set(
        {name: styles[identity] for name, identity in called.items() if identity in styles}
    )
    try:
        yield
    finally:
        _DOCUMENT.reset(token)


def _key(split: Sequence[str], levels: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(factor(f).key(level) for f, level in zip(split, levels, strict=True))


def _identity(split: Sequence[str], levels: Sequence[Any]) -> tuple[str, str]:
    """The placement of a condition, and its other levels that are not the usual ones."""
    level_of = {f: plain(level) for f, level in zip(split, levels, strict=True)}
    usual = {f: _UNSAID.get(f, (None, factor(f).ordinary)) for f in level_of}
    others = [
        level_words(f, v) for f, v in level_of.items() if f != "placement" and v not in usual[f]
    ]
    return str(level_of.get("placement") or ""), ", ".join(others)


def _numbered(identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Styles by identity: a placement's own colour, then shades of it in order; other names one after another."""
    places = factor("placement").order
    styles: dict[tuple[str, str], tuple[str, str]] = {}
    used: Counter[str] = Counter()
    for placement, others in dict.fromkeys(identities):
        if placement in places:
            used[placement] += bool(others)
            number = (
                used[placement] * len(SHADES) if others else 0
            )  # another shade and another marker each time
            styles[placement, others] = _style(PLACES, places.index(placement), number)
        else:
            styles[placement, others] = _style(OTHERS, used[""], used[""] // len(OTHERS))
            used[""] += 1
    return styles


def colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Give each condition a colour and a marker.

    A placement has the same colour everywhere, and its conditions are shades of it; what is no placement has one of
    other colours. Within `document_colours` all figures of an experiment agree; else they follow from the names alone,
    unless two would look the same.

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
    places = factor("placement").order
    document = _DOCUMENT.get()
    styles: dict[str, tuple[str, str]] = {}
    for name in names:
        if name in document and document[name] not in styles.values():
            styles[name] = document[name]
            continue
        head, _, others = name.partition(", ")
        is_placement = head in places
        palette = PLACES if is_placement else OTHERS
        rank = places.index(head) if is_placement else zlib.crc32(name.encode())
        number = zlib.crc32(others.encode()) if is_placement and others else 0
        used = (
            {colour for colour, _ in styles.values()}
            if not is_placement and len(styles) < MOST
            else set()
        )
        for step in count():
            style = _style(
                palette,
                rank + (not is_placement) * step,
                number + (step if is_placement else step // len(palette)),
            )
            if style not in styles.values() and style[0] not in used:
                break
        styles[name] = style
    return styles


def _style(palette: Sequence[str], rank: int, number: int) -> tuple[str, str]:
    """A colour of the palette and a marker; other numbers are other shades and markers, and 0 is the colour itself."""
    shades = len(SHADES) - 1
    shade = SHADES[1 + number % shades] if number else SHADES[0]
    return _shade(palette[rank % len(palette)], shade), MARKERS[
        (rank + number // shades) % len(MARKERS)
    ]


def _shade(colour: str, share: float) -> str:
    """A colour mixed with a share of white, or, below 0, of black."""
    towards = 255 if share > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(share) * (towards - part)):02x}" for part in parts)
