"""Comparisons as lines of text: one line a comparison, the worst first, at 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..metrics import METRICS, format_span, format_value
from .comparison import UNDECIDED as WORDS
from .comparison import Family, verdict_counts
from .result import quantity
from .words import UNKNOWN, as_markdown, effect, span

WIDTH = 80
_ALIKE = 3
"""Lines that share a group get a heading of their own from this number on."""
ORDER = ("worse", "better", "inconclusive", "no verdict", "exploratory", "equivalent")
"""Verdicts in the order of the lines."""
_INDENT = "  "
_LEAST = 12
"""With less room than this, names that are longer have lines of their own."""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison; `name` is that of its condition, `group` is said once above all lines that have it."""

    name: str
    group: str
    metric: str
    before: str
    after: str
    change: str
    interval: str
    verdict: str
    n: str
    reason: str
    held: str = ""
    """What limits the two levels of throughput."""
    warnings: tuple[str, ...] = ()
    """What is uncertain about it: footnotes."""

    @property
    def title(self) -> str:
        """The name in full."""
        return ", ".join(filter(None, [self.group, self.name]))


def lines(family: Family, *, two: bool = False) -> list[Line]:
    """The comparisons in their order; `two`: of two measurements, whose names are the heads of the columns."""
    rows = []
    for c in family:
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        after, before = (format_value(v, unit) for v in c.medians)
        before = format_value(c.threshold, unit) if c.threshold is not None else before
        group, _, name = c.context.partition(", ") if two else (c.context, "", " / ".join(c.names))
        interval = span(c.ratio, c.low, c.high, short=True).strip("–")
        n = "/".join(reversed(c.size.split("/")))  # as the columns are
        causes = " / ".join(dict.fromkeys(filter(None, reversed(c.held_back))))
        rows.append(
            Line(
                name, group, c.metric, before, after, effect(c.ratio), interval, str(c.verdict), n, c.reason,
                causes, c.warnings,
            )
        )  # fmt: skip
    return rows


def text(
    rows: Sequence[Line], heads: tuple[str, str] = ("before", "after"), *, notes: Sequence[str] = ()
) -> str:
    """The lines as text: the counts, a heading for each metric and what its names share, and footnotes."""
    blocks = [verdict_counts(r.verdict for r in rows)]
    footnotes: dict[str, int] = {}
    rows = sorted(rows, key=lambda r: ORDER.index(r.verdict))
    for metric in dict.fromkeys(r.metric for r in rows):
        members = [r for r in rows if r.metric == metric]
        size = Counter(r.group for r in members)
        heading = {r: r.group if size[r.group] >= _ALIKE else "" for r in members}
        for group in dict.fromkeys(heading.values()):
            some = [r for r in members if heading[r] == group]
            blocks.append("\n".join(_block(metric, group, some, heads, footnotes)))
    foot = (
        ["~: not decided; the change is the interval"]
        if any(r.verdict in WORDS for r in rows)
        else []
    )
    foot += [_wrapped(f"[{number}] {reason}") for reason, number in footnotes.items()]
    if any(_MORE.fullmatch(r.reason) for r in rows if r.verdict in WORDS):
        foot.append("(+n): about n more rounds, or runs per side, would decide it")
    foot += [_wrapped(note) for note in notes]
    return "\n\n".join([*blocks, *(["\n".join(foot)] if foot else [])])


def levels_text(table: pd.DataFrame, metric: str) -> str:
    """Levels of conditions, a line each: median, interval and runs."""
    unit = METRICS[metric].unit
    n = sorted(set(table["n"]))
    cells = [
        [
            f"{format_value(row['median'], unit):>11}",
            f"({format_span(row['low'], row['high'], unit)})" if row["n"] > 1 else "",
            f"n = {row['n']}" if len(n) > 1 else "",
            "  ".join(f"{row[c]} {c}" for c in ("failed", "missing") if row.get(c)),
        ]
        for row in table.to_dict("records")
    ]
    title = f"{quantity(metric)}, n = {n[0]}" if len(n) == 1 else quantity(metric)
    return "\n".join([title, *_rows(list(map(str, table["condition"])), cells, left=(1, 2, 3))])


_MORE = re.compile(r"about (\d+) more [a-z ]+ would settle it")


def paragraph(sentences: Sequence[str]) -> str:
    """A line of the lead paragraph after another, wrapped."""
    return "\n".join(map(_wrapped, sentences))


def _wrapped(words: str, depth: int = 0) -> str:
    first, more = depth * _INDENT, (depth + 1) * _INDENT
    return textwrap.fill(
        words, WIDTH, initial_indent=first, subsequent_indent=more, break_on_hyphens=False
    )


def _block(
    metric: str, group: str, rows: Sequence[Line], heads: tuple[str, str], footnotes: dict[str, int]
) -> list[str]:
    """The lines of a metric whose names share a group, under a heading."""
    parts = [(r.name if group else r.title).split(", ") for r in rows]
    shared = [p for p in parts[0] if len(rows) > 1 and all(p in other for other in parts)]
    names = [", ".join(p for p in part if p not in shared) for part in parts]
    if "" in names:
        shared, names = [], [", ".join(part) for part in parts]
    n = {r.n for r in rows}
    title = ", ".join(filter(None, [group, *shared]))
    title = f"{quantity(metric)}{f': {title}' if title else ''}{f', n = {rows[0].n}' if len(n) == 1 else ''}"
    cells = [[r.before, r.after, _change(r), _verdict(r, footnotes)] for r in rows]
    head = [*heads, "change", ""]
    for name, column in (
        ("n", [r.n for r in rows] if len(n) > 1 else []),
        ("limited by", _held(rows)),
    ):
        head += [name] if column else []
        cells = [[*c, more] for c, more in zip(cells, column, strict=True)] if column else cells
    return [_wrapped(title), *_rows(names, cells, head, left=(3,))]


def _rows(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    head: Sequence[str] = (),
    *,
    left: Sequence[int],
) -> list[str]:
    """Rows of names and figures in columns, those of `left` aligned there.

    A name for which there is no room has a line of its own, and so has the last cell where all of them are too wide.
    """
    widths = [
        max(map(len, column)) for column in zip(*([head] if head else []), *cells, strict=True)
    ]
    room = WIDTH - len(_INDENT) - sum(w + 2 for w in widths if w)
    below = room < 0
    room += widths.pop() + 2 if below else 0
    longest = max(map(len, names))
    wide = min(longest, room) if room >= min(longest, _LEAST) else 0

    def row(name: str, some: Sequence[str]) -> str:
        columns = zip(range(len(widths)), some, widths, strict=False)
        words = [cell.ljust(w) if i in left else cell.rjust(w) for i, cell, w in columns if w]
        return f"{_INDENT}{name.ljust(wide)}  {'  '.join(words)}".rstrip()

    out = [row("", head)] if head else []
    for name, some in zip(names, cells, strict=True):
        out += [_wrapped(name, 1)] if len(name) > wide else []
        out.append(row("" if len(name) > wide else name, some))
        out += [_wrapped(f"{head[-1]}: {some[-1]}", 2)] if below and some[-1] else []
    return out


def _held(rows: Sequence[Line]) -> list[str]:
    """What limits each row; nothing where it is not known of any: such a column says nothing."""
    return [r.held for r in rows] if any(r.held not in ("", UNKNOWN) for r in rows) else []


def _change(row: Line) -> str:
    """The effect where it is decided, else its interval."""
    return row.interval if row.verdict in (*WORDS, "exploratory") and row.interval else row.change


def _verdict(row: Line, footnotes: dict[str, int]) -> str:
    """The verdict, what would decide it, and the numbers of its footnotes."""
    open_ = row.verdict in WORDS
    more = _MORE.fullmatch(row.reason) if open_ else None
    notes = [row.reason] if open_ and row.reason and not more else []
    marks = [*([f"(+{more[1]})"] if more else []), *_marks([*notes, *row.warnings], footnotes)]
    return " ".join(["~" if open_ else row.verdict, *marks])


def _marks(notes: Sequence[str], footnotes: dict[str, int]) -> list[str]:
    """The numbers of these footnotes, which are new where nobody referred to them before."""
    numbers = ", ".join(str(footnotes.setdefault(note, len(footnotes) + 1)) for note in notes)
    return [f"[{numbers}]"] if numbers else []


def comment(text: str) -> str:
    """One line of Markdown that shows a text as it is, and calls nobody where it is written into a pull request.

    GitHub looks for @names and #numbers after it has read the Markdown, backslashes and all; only a blank without width
    keeps them text.
    """
    return re.sub("[@#]", r"\g<0>&#8203;", as_markdown(" ".join(text.split())))


def markdown(
    rows: Sequence[Line], heads: tuple[str, str] = ("before", "after"), *, notes: Sequence[str] = ()
) -> str:
    """The lines as a table of Markdown, for the comment of a pull request."""
    table = [
        f"| condition | metric | {heads[0]} | {heads[1]} | change | verdict |",
        "|---|---|---:|---:|---:|---|",
    ]
    if held := _held(rows):
        table = [f"{table[0]} limited by |", f"{table[1]}---|"]
    footnotes: dict[str, int] = {}
    for r in sorted(rows, key=lambda r: ORDER.index(r.verdict)):
        reason = [r.reason] if r.verdict in WORDS and r.reason else []
        verdict = " ".join(
            [WORDS.get(r.verdict, r.verdict), *_marks([*reason, *r.warnings], footnotes)]
        )
        cells = [r.title, quantity(r.metric), r.before, r.after, _change(r), verdict]
        cells += [r.held] if held else []
        table.append("| " + " | ".join(map(comment, cells)) + " |")
    numbered = [f"[{number}] {note}" for note, number in footnotes.items()]
    foot = [f"- {comment(note)}" for note in (*numbered, *notes)]
    return "\n".join(
        [f"**{verdict_counts(r.verdict for r in rows)}**", "", *table, "", *foot]
    ).rstrip()
