"""What a notebook shows: HTML in Jupyter, and the same as data for the report.

Every piece carries its content under a MIME type of its own, which the exporter turns into a typeset block, so that
the page and the notebook cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..metrics import METRICS, format_value
from ..questions.conditions import describe
from ..questions.words import MIME, advice, effect, span

if TYPE_CHECKING:
    import pandas as pd

    from ..experiment.model import Contrast
    from ..stats import Comparison, Family

__all__ = [
    "Shown",
    "answers",
    "callout",
    "cards",
    "findings",
    "measured",
    "say",
    "table",
    "verdicts",
]


class Shown:
    """Something to look at, in Jupyter and on paper.

    Parameters
    ----------
    kind : str
        Which block of the report it is.
    html : str
        What Jupyter shows.
    text : str
        What a terminal shows.
    **content
        The data of the block.
    """

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
    words = _Words("words", html="", text=text)
    words.content["text"] = text
    return words


def measured(runs: pd.DataFrame, metric: str) -> Shown:
    """Show what was measured: metric, tool, conditions, rounds, lengths.

    Parameters
    ----------
    runs : DataFrame
        As `select` gives it.
    metric : str
        Column.
    """
    return say(describe(runs, metric))


class _Words(Shown):
    """Prose: Jupyter renders its markdown."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/markdown": self.text, MIME: self.content}


CALLOUTS = {"note": "#0072b2", "tip": "#00795a", "important": "#0072b2", "warning": "#e69f00", "caution": "#b8420a"}


def callout(text: str, *, title: str | None = None, level: str = "note") -> Shown:
    """Show a box with a message.

    Parameters
    ----------
    text : str
        The message; markdown is read in the report.
    title : str, optional
        Goes before it.
    level : {"note", "tip", "important", "warning", "caution"}
        Its weight.
    """
    colour = CALLOUTS.get(level, CALLOUTS["note"])
    head = f"<strong>{escape(title)}</strong><br>" if title else ""
    html = (
        f'<div style="border-left:4px solid {colour};background:{colour}14;padding:.6em .9em;margin:.6em 0;'
        f'max-width:60em"><small style="text-transform:uppercase;letter-spacing:.06em;font-weight:700;color:{colour}">'
        f"{escape(level)}</small> {head}{escape(text)}</div>"
    )
    shown = f"{level.upper()}: {title + ': ' if title else ''}{text}"
    box = Shown("callout", html=html, text=shown, level=level, title=title)
    box.content["text"] = text
    return box


# -- tables --------------------------------------------------------------------------------------------------------


LEVEL = ("median", "low", "high", "smallest", "largest")
"""Columns of a table of levels that have the unit of the metric."""


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
    index: bool = False,
) -> Shown:
    """Show a table, all of its rows; a missing value is a dash.

    Parameters
    ----------
    frame : DataFrame
        The rows. A column named as a metric is shown with its unit.
    caption : str, optional
        What it shows.
    metric : str, optional
        Metric whose unit the columns of a level have (median, low, high, smallest, largest).
    columns : dict, optional
        Columns to show, and their headings; default all.
    index : bool
        Show the index too.
    """
    import pandas as pd

    if index:
        frame = frame.reset_index()
    names = dict(columns) if columns else {str(c): _heading(str(c)) for c in frame.columns}
    plain = frame.rename(columns=str)[list(names)]
    units = {c: METRICS[c].unit if c in METRICS else None for c in names}
    if metric is not None:
        units |= {c: METRICS[metric].unit for c in LEVEL if c in names}
    rows = [
        [
            _cell(v.item() if hasattr(v, "item") and not isinstance(v, pd.Timestamp) else v, units[c])
            for c, v in zip(names, row, strict=True)
        ]
        for row in plain.itertuples(index=False, name=None)
    ]
    return _table(list(names.values()), rows, caption)


HEADINGS = {"n": "Runs", "low": "Lower end", "high": "Upper end"}


def _heading(name: str) -> str:
    if name in HEADINGS:
        return HEADINGS[name]
    return METRICS[name].label if name in METRICS else name[:1].upper() + name[1:].replace("_", " ")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str | None) -> Shown:
    text = "\n".join("  ".join(r) for r in [head, *rows])
    return Shown(
        "table",
        html=_html(head, rows, caption),
        text=text,
        caption=caption,
        columns=list(head),
        rows=[*map(list, rows)],
    )


def _html(
    head: Sequence[str], rows: Sequence[Sequence[str]], caption: str | None, raw: frozenset[int] = frozenset()
) -> str:
    from .tables import numeric

    right = [i not in raw and numeric([r[i] for r in rows]) for i in range(len(head))]
    style = [f'style="text-align:{"right" if r else "left"};white-space:{"nowrap" if r else "normal"}"' for r in right]
    top = "".join(f"<th {s}>{escape(h)}</th>" for h, s in zip(head, style, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td {s}>{c if i in raw else escape(c)}</td>" for i, (c, s) in enumerate(zip(row, style, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    # JupyterLab shows a caption in front of the table only when it stands outside of it
    above = f"<p><em>{escape(caption)}</em></p>" if caption else ""
    return f"{above}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def cards(*facts: tuple[str, str, str]) -> Shown:
    """Show a few numbers large: (value, what it is, where it holds)."""
    html = "".join(
        '<div style="background:#f4f6f9;color:#1f2937;padding:.7em 1em;border-radius:4px;min-width:9em">'
        f'<div style="font-size:1.6em;font-weight:700;color:#0b2545">{escape(v)}</div>'
        f"<strong>{escape(w)}</strong><br><small>{escape(n)}</small></div>"
        for v, w, n in facts
    )
    shown = [{"value": v, "label": w, "note": n} for v, w, n in facts]
    text = "; ".join(f"{v} {w} ({n})" for v, w, n in facts)
    return Shown(
        "cards", html=f'<div style="display:flex;gap:.8em;flex-wrap:wrap">{html}</div>', text=text, facts=shown
    )


# -- verdicts ------------------------------------------------------------------------------------------------------

MARKS = {
    "better": ("▲", "#00795a"),
    "worse": ("▼", "#b8420a"),
    "equivalent": ("■", "#0072b2"),
    "inconclusive": ("○", "#8a5a00"),
}


def _mark(verdict: str) -> str:
    sign, colour = MARKS.get(verdict, ("–", "#5b6472"))
    return f'<strong style="color:{colour};white-space:nowrap">{sign} {escape(verdict)}</strong>'


def findings(family: Iterable[Comparison]) -> Shown:
    """Show every finding of a family in a sentence of its own, and what to know before relying on it."""
    lines = []
    for c in family:
        lines.append(f"- {c.words}.")
        lines += [f"    - {w[:1].upper()}{w[1:]}." for w in c.warnings]
    words = _Words("words", html="", text="\n".join(lines))
    words.content["text"] = words.text
    return words


def verdicts(family: Family, contrasts: Sequence[Contrast] | None = None, caption: str | None = None) -> Shown:
    """Show a family of contrasts as the table that a reader acts on.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    contrasts : sequence of Contrast, optional
        The contrasts that were asked for, in the same order: their questions go into the table.
    caption : str, optional
        What it shows; default: the rule by which it was judged.
    """
    rows = []
    for i, c in enumerate(family):
        asked = contrasts[i] if contrasts else None
        question = (asked.question if asked else None) or f"{c.names[0]} against {c.names[1]}: {c.quantity}"
        rows.append([c.verdict, question, effect(c.ratio), span(c), advice(c, asked)])
    confidence = sorted({f"{100 * c.confidence:.4g} %" for c in family})
    columns = ["Verdict", "Question", "Effect", "Interval", "What to do"]
    caption = caption or (
        f"Verdicts. Effect: first against second condition of the question, with its interval at "
        f"{' to '.join(confidence)}. {family.note.replace(f'; {family.notice}', '')}."
    )
    painted = [[_mark(r[0]), *r[1:]] for r in rows]
    html = _html(columns, painted, caption, raw=frozenset({0}))
    text = "\n".join(c.words for c in family)
    return Shown("verdicts", html=html, text=text, caption=caption, columns=columns, rows=rows)


def answers(family: Iterable[Comparison], most: int = 3) -> Shown:
    """The verdicts that say most, as large numbers; an answer of "equivalent" is one too."""
    told = [c for c in family if c.verdict in ("better", "worse", "equivalent")]
    return cards(
        *((effect(c.ratio), f"{c.quantity}: {c.verdict}", f"{c.names[0]} against {c.names[1]}") for c in told[:most])
    )
