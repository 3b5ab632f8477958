"""What a notebook shows: HTML in Jupyter, and the same as data for the report.

Every piece carries its content under a separate MIME type, which the exporter turns into a typeset block, so the page
and the notebook cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..metrics import METRICS, format_value, plural
from ..questions.words import MIME, advice, as_markdown, effect, span
from ..stats.limits import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from ..experiment.model import Contrast
    from ..stats import Comparison, Family


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader

    folder = Path(__file__).parent / "templates"
    return Environment(loader=FileSystemLoader(folder), autoescape=True).get_template("blocks.html").module


def markup(block: str, *content: Any) -> str:
    """HTML of a block; everything in it is escaped."""
    return str(getattr(_templates(), block)(*content))


class Shown:
    """Something shown: `html` in Jupyter, `text` in a terminal, and a kind of block with its data in the report."""

    def __init__(self, kind: str, *, html: str, text: str, **content: Any) -> None:
        self.content = {"kind": kind, **content}
        self.html, self.text = html, text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/html": self.html, MIME: self.content}


# -- words ---------------------------------------------------------------------------------------------------------


def say(*sentences: str) -> Shown:
    """Show sentences that were computed from the data: a paragraph, or a list where each begins with a dash."""
    kept = [s.strip() for s in sentences if s and s.strip()]
    text = ("\n" if all(s.startswith("- ") for s in kept) else " ").join(kept)
    return _Words("words", text)


class _Words(Shown):
    """Sentences: text, which is escaped where it is rendered."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, html="", text=text)
        self.content["text"] = text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/markdown": as_markdown(self.text), MIME: self.content}


CALLOUTS = {"note": "#0072b2", "tip": "#00795a", "important": "#0072b2", "warning": "#e69f00", "caution": "#b8420a"}


def callout(text: str, *, title: str | None = None, level: str = "note") -> Shown:
    """Show a box with a message.

    Parameters
    ----------
    text : str
        The message.
    title : str, optional
        Shown before the message.
    level : {"note", "tip", "important", "warning", "caution"}
        Its severity.
    """
    html = markup("callout", text, title, level, CALLOUTS.get(level, CALLOUTS["note"]))
    shown = f"{level.upper()}: {title + ': ' if title else ''}{text}"
    box = Shown("callout", html=html, text=shown, level=level, title=title)
    box.content["text"] = text
    return box


# -- tables --------------------------------------------------------------------------------------------------------


LEVEL = ("median", "low", "high", "smallest", "largest")
"""Columns of a table of levels that have the unit of the metric."""
SHARE = ("confidence", "variation", "slowest")
"""Columns that are shares."""


def _same_words(column: str, value: float) -> str:
    """What a caption says instead of a column that is the same in all rows."""
    return f"{plural(int(value), 'run')} each" if column == "n" else f"confidence {100 * value:.4g} %"


def _cell(value: Any, unit: str | None) -> str:
    import pandas as pd

    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is not None:
        return format_value(float(value), unit)
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    return str(value)


def table(
    frame: pd.DataFrame,
    caption: str | None = None,
    *,
    metric: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Shown:
    """Show a table, all of its rows; a missing value is a dash. A table without rows is not shown.

    Parameters
    ----------
    frame : DataFrame
        The rows. A column named as a metric is shown with its unit.
    caption : str, optional
        What it shows.
    metric : str, optional
        Metric that gives the unit of the columns of a level (median, low, high, smallest, largest).
    columns : dict, optional
        Columns to show, and their headings; default all.
    """
    import pandas as pd

    from .tables import numeric

    if frame.empty:  # what was not measured is not shown
        return say("")
    names = dict(columns) if columns else {str(c): _heading(str(c)) for c in frame.columns}
    plain = frame.rename(columns=str)[list(names)]
    if metric is not None and len(plain) > 1 and caption:
        same = [c for c in ("n", "confidence") if c in names and plain[c].notna().all() and len(set(plain[c])) == 1]
        words = [_same_words(c, plain[c].iloc[0]) for c in same]
        caption = f"{caption.rstrip('.')}{''.join(f'; {w}' for w in words)}."
        names = {c: name for c, name in names.items() if c not in same}
        plain = plain[list(names)]
    units = {c: METRICS[c].unit if c in METRICS else "ratio" if c in SHARE else None for c in names}
    units |= {c: "bps" for c in ("slowest_stream", "fastest_stream") if c in names}
    if metric is not None:
        units |= {c: METRICS[metric].unit for c in LEVEL if c in names}
    rows = [
        [
            _cell(v.item() if hasattr(v, "item") and not isinstance(v, pd.Timestamp) else v, units[c])
            for c, v in zip(names, row, strict=True)
        ]
        for row in plain.itertuples(index=False, name=None)
    ]
    head = list(names.values())
    right = [numeric([r[i] for r in rows]) for i in range(len(head))]
    html = markup("table", head, rows, caption, right)
    text = "\n".join("  ".join(r) for r in [head, *rows])
    return Shown("table", html=html, text=text, caption=caption, columns=head, rows=rows)


HEADINGS = {"n": "Runs", "low": "Lower end", "high": "Upper end"}


def _heading(name: str) -> str:
    if name in HEADINGS:
        return HEADINGS[name]
    return METRICS[name].label if name in METRICS else name[:1].upper() + name[1:].replace("_", " ")


# -- verdicts ------------------------------------------------------------------------------------------------------

MARKS = {
    "better": ("▲", "#00795a"),
    "worse": ("▼", "#b8420a"),
    "equivalent": ("■", "#0072b2"),
    "inconclusive": ("○", "#8a5a00"),
    "exploratory": ("·", "#5b6472"),
    "no verdict": ("–", "#5b6472"),
}
"""Shape and colour of a verdict; white text on each has a contrast above 4.5 : 1."""


def findings(family: Iterable[Comparison], *, warnings: bool = True) -> Shown:
    """Show every finding of a family in a separate sentence.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    warnings : bool
        Include the warnings; False if the table of `verdicts` is next to it and has them.
    """
    family = list(family)
    marks, notes = _warnings(family)
    notes = notes if warnings else []
    lines = [f"- {c.words}.{f' {mark}.' if mark else ''}" for c, mark in zip(family, marks, strict=True)]
    return _Words("findings", "\n".join([*lines, *(f"- {note}" for note in notes)]))


def _warnings(family: Sequence[Comparison]) -> tuple[list[str], list[str]]:
    """For each contrast the numbers of its warnings; and every warning once, with its number."""
    told = list(dict.fromkeys(w for c in family for w in c.warnings))
    numbers = [", ".join(str(told.index(w) + 1) for w in c.warnings) for c in family]
    marks = [f"Warning{'s' if ',' in found else ''} {found}" if found else "" for found in numbers]
    return marks, [f"Warning {i}: {w}." for i, w in enumerate(told, 1)]


LINEAR = 0.1
"""About up to this logarithm of a ratio (10 %), the axis of a forest is linear."""
FAR = 200.0
"""The ratio at the ends of the axis of a forest."""


def _forest_position(ratio: float) -> float:
    """Where a ratio lies on the axis of a forest, from -1 to 1: asinh shows both a margin and a factor of 100."""
    if ratio <= 0:
        return -1.0
    position = math.asinh(math.log(ratio) / LINEAR) / math.asinh(math.log(FAR) / LINEAR)
    return max(-1.0, min(1.0, round(position, 4)))


def _forest(c: Comparison) -> dict[str, Any]:
    """A line of the forest, turned so that right is better for the user: ends, middle, and half of the margin."""
    lower = (METRICS[c.metric].better if c.metric in METRICS else "") == "lower"
    ends = [(1 / r if r else math.inf) if lower else r for r in (c.low, c.ratio, c.high)]
    low, middle, high = (_forest_position(r) for r in (reversed(ends) if lower else ends))
    bounded = c.low > 0 and math.isfinite(c.high)
    return {
        "middle": middle if math.isfinite(c.ratio) else None,
        "interval": [low, high] if bounded else None,
        "margin": _forest_position(1 + c.margin),
        "verdict": c.verdict,
    }


def verdicts(
    family: Family,
    contrasts: Sequence[Contrast] | None = None,
    recommendations: Sequence[str] = (),
    held: Sequence[tuple[str, str]] = (),
) -> Shown:
    """Show a family of contrasts as the table that a reader acts on.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    contrasts : sequence of Contrast, optional
        The contrasts in the same order: their questions go into the table.
    recommendations : sequence of str, optional
        What the lead paragraph recommends for each contrast.
    held : sequence of (str, str), optional
        What holds the two levels of each contrast of throughput back.
    """
    rows = []
    marks, notes = _warnings(family)
    decided = {r for r, c in zip(recommendations, family, strict=False) if c.verdict != "equivalent"}
    for i, c in enumerate(family):
        todo = recommendations[i] if recommendations else ""
        todo = "" if c.verdict == "equivalent" and todo in decided else todo  # said at the row that shows it
        asked = contrasts[i] if contrasts else None
        question = (asked.question if asked else None) or (
            f"{c.names[0]} against {c.names[1]}: {c.quantity}{f' ({c.context})' if c.context else ''}"
        )
        rows.append(
            [
                c.verdict,
                question,
                _sides(c, held[i] if held else ()),
                f"{effect(c.ratio)}\n{span(c)}".removesuffix("\n–"),
                advice(c, todo) + (f"\n{marks[i]}" if marks[i] else ""),
            ]
        )
    few = " (the range of the rounds: too few for a higher confidence)"
    ranged = {c.confidence for c in family if c.confidence == 1 - 2.0 ** (1 - c.n) < 1 - c.alpha}
    found = sorted({c.confidence for c in family if c.low > 0})
    known = [f"{100 * sure:.4g} %{few if sure in ranged else ''}" for sure in found]
    interval = (
        f"with its interval at {' to '.join(dict.fromkeys((known[0], known[-1])))}" if known else "without an interval"
    )
    columns = ["Verdict", "Question", "Measured", "Effect, interval", "What to do"]
    forest = [_forest(c) for c in family]
    held_words = " (what holds it back)" if any(map(any, held)) else ""
    note = family.note.replace(f"; {family.notice}", "") if any(c.declared for c in family) else family.counts
    caption = (
        f"Verdicts. Measured: the median of the runs of each condition{held_words}. Effect: the first condition "
        f"divided by the second, round by round, {interval}; the picture has the margin in blue, and an asinh axis on "
        f"which right is better for the user. {note}."
    )
    html = markup("verdicts", columns, rows, caption, MARKS, forest) + markup("notes", notes)
    text = "\n".join([*(c.words for c in family), *notes])
    content = {"caption": caption, "columns": columns, "rows": rows, "forest": forest, "notes": notes}
    return Shown("verdicts", html=html, text=text, **content)


def _sides(c: Comparison, held: Sequence[str] = ()) -> str:
    """What was measured on both sides, and what holds it back: a ratio without its base says little."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    causes = ["" if cause in ("", UNKNOWN) else f" ({cause})" for cause in held]
    return "\n".join(
        f"{name}: {format_value(value, unit)}{cause}"
        for name, value, cause in zip(c.names, c.medians, causes or ("", ""), strict=True)
        if math.isfinite(value)
    )
