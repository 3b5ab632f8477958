"""What a notebook shows: HTML in Jupyter, and the same as data for the report.

Every piece carries its content under a separate MIME type, which the exporter turns into a typeset block, so the page
and the notebook cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..metrics import METRICS, format_value
from ..questions.words import MIME, Words, advice, effect, span
from ..stats.limits import UNKNOWN

if TYPE_CHECKING:
    from ..experiment.model import Contrast
    from ..stats import Comparison, Family


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader

    folder = Path(__file__).parent / "templates"
    return (
        Environment(loader=FileSystemLoader(folder), autoescape=True)
        .get_template("blocks.html")
        .module
    )


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


def outputs_of(cells: Iterable[Any], kind: str) -> list[Any]:
    """The outputs of executed cells that show something of one kind."""
    return [
        o
        for c in cells
        for o in c.get("outputs", ())
        if o.get("data", {}).get(MIME, {}).get("kind") == kind
    ]


def contents_of(cells: Iterable[Any], kind: str) -> list[dict[str, Any]]:
    """The data of what executed cells show of one kind."""
    return [output["data"][MIME] for output in outputs_of(cells, kind)]


def show(parts: Iterable[Any]) -> None:
    """Show one thing after another in a notebook."""
    from IPython.display import display

    for part in parts:
        display(part)  # type: ignore[no-untyped-call]


CALLOUTS = {
    "note": "#0072b2",
    "tip": "#00795a",
    "important": "#0072b2",
    "warning": "#e69f00",
    "caution": "#b8420a",
}


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
    words = f"{level.upper()}: {title + ': ' if title else ''}{text}"
    box = Shown("callout", html=html, text=words, level=level, title=title)
    box.content["text"] = text
    return box


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


class Findings(Words):
    """The sentences of a table of verdicts."""

    kind = "findings"


def findings(family: Iterable[Comparison], *, warnings: bool = True) -> Words:
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
    lines = [
        f"- {c.words}.{f' {mark}.' if mark else ''}" for c, mark in zip(family, marks, strict=True)
    ]
    return Findings.of(*lines, *(f"- {note}" for note in notes))


def _warnings(family: Sequence[Comparison]) -> tuple[list[str], list[str]]:
    """For each contrast the numbers of its warnings; and every warning once, with its number."""
    warnings = list(dict.fromkeys(w for c in family for w in c.warnings))
    numbers = [", ".join(str(warnings.index(w) + 1) for w in c.warnings) for c in family]
    marks = [f"Warning{'s' if ',' in ns else ''} {ns}" if ns else "" for ns in numbers]
    return marks, [f"Warning {i}: {w}." for i, w in enumerate(warnings, 1)]


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
    """A line of the forest, turned so that right is better for the user: effect, interval, and half of the margin."""
    lower = (METRICS[c.metric].better if c.metric in METRICS else "") == "lower"
    ratios = [(1 / r if r else math.inf) if lower else r for r in (c.low, c.ratio, c.high)]
    low, position, high = (_forest_position(r) for r in (reversed(ratios) if lower else ratios))
    bounded = c.low > 0 and math.isfinite(c.high)
    return {
        "position": position if math.isfinite(c.ratio) else None,
        "interval": [low, high] if bounded else None,
        "margin": _forest_position(1 + c.margin),
        "verdict": c.verdict,
    }


def verdicts(
    family: Family,
    contrasts: Sequence[Contrast] | None = None,
    recommendations: Sequence[str] = (),
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
    """
    rows = []
    marks, notes = _warnings(family)
    decided = {
        r for r, c in zip(recommendations, family, strict=False) if c.verdict != "equivalent"
    }
    for i, c in enumerate(family):
        todo = recommendations[i] if recommendations else ""
        todo = (
            "" if c.verdict == "equivalent" and todo in decided else todo
        )  # stands at the row that shows it
        limit = f" {c.names[1]}?" if c.threshold is not None else ""
        topic = f"{c.quantity[:1].upper()}{c.quantity[1:]}{limit}{f' ({c.context})' if c.context else ''}"
        question = (contrasts[i].question if contrasts else None) or topic
        rows.append(
            [
                c.verdict,
                question,
                _sides(c),
                f"{effect(c.ratio)}\n{span(c.ratio, c.low, c.high)}".removesuffix("\n–"),
                ("" if c.verdict == "exploratory" else advice(c, todo))
                + (f"\n{marks[i]}" if marks[i] else ""),
            ]
        )
    few = " (the range of the rounds: too few for a higher confidence)"
    ranged = {c.confidence for c in family if c.confidence == 1 - 2.0 ** (1 - c.n) < 1 - c.alpha}
    confidences = sorted({c.confidence for c in family if c.low > 0})
    sure = [f"{100 * share:.4g} %{few if share in ranged else ''}" for share in confidences]
    interval = (
        f"with its interval at {' to '.join(dict.fromkeys(sure[:1] + sure[-1:]))}"
        if sure
        else "without an interval"
    )
    columns = [
        "Verdict",
        "Question",
        "Measured",
        "Effect, interval",
        "What to do" if any(r[-1] for r in rows) else "",
    ]
    forest = [_forest(c) for c in family]
    held_words = " (what limits it)" if any(any(c.held_back) for c in family) else ""
    note = (
        family.note.replace(f"; {family.notice}", "")
        if any(c.declared for c in family)
        else family.counts
    )
    caption = (
        f"Verdicts. Measured: the median of the runs of each condition{held_words}. Effect: the first condition "
        f"divided by the second, round by round, {interval}; in the picture right is better for the user, and the "
        f"margin is blue. {note}."
    )
    if first := next((c for c in family if c.verdict == "exploratory"), None):
        caption += f" Exploratory: {advice(first)[:1].lower()}{advice(first)[1:]}"
    html = markup("verdicts", columns, rows, caption, MARKS, forest) + markup("notes", notes)
    text = "\n".join([*(c.words for c in family), *notes])
    content = {
        "caption": caption,
        "columns": columns,
        "rows": rows,
        "forest": forest,
        "notes": notes,
    }
    return Shown("verdicts", html=html, text=text, **content)


def _sides(c: Comparison) -> str:
    """What was measured on both sides, and what limits it: a ratio without its base says little."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    causes = ["" if cause in ("", UNKNOWN) else f" ({cause})" for cause in c.held_back]
    return "\n".join(
        f"{name}: {format_value(value, unit)}{cause}"
        for name, value, cause in zip(c.names, c.medians, causes, strict=True)
        if c.threshold is None or name != c.names[1]
    )
