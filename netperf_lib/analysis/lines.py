"""Comparisons as lines of text: one line a comparison, the worst first, at 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..metrics import METRICS, format_span, format_value
from .comparison import UNDECIDED, Family, verdict_counts
from .result import quantity
from .words import UNKNOWN, as_markdown, effect, span

WIDTH = 80
ALIKE_GROUPS = 3
"""Lines that share a group get a heading of their own from this number on."""
ORDER = ("worse", "better", "inconclusive", "no verdict", "exploratory", "equivalent")
"""Verdicts in the order of the lines."""
LEAST = 12
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
    """The effect where it is decided, else its interval."""
    verdict: str
    n: str
    reason: str
    """Why it is not decided."""
    held: str = ""
    """What limits the two levels of throughput."""
    warnings: tuple[str, ...] = ()
    """What is uncertain about it: footnotes."""
    more: int = 0
    """About how many more rounds would decide it."""

    @property
    def title(self) -> str:
        """The name in full."""
        return ", ".join(filter(None, [self.group, self.name]))


def lines(family: Family, *, two: bool = False) -> list[Line]:
    """The comparisons, the worst first; `two`: of two measurements, whose names are the heads of the columns."""
    rows = []
    for c in family:
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        after, before = (format_value(v, unit) for v in c.medians)
        group, _, name = c.context.partition(", ") if two else (c.context, "", " / ".join(c.names))
        interval = span(c.ratio, c.low, c.high, short=True).strip("–")
        is_open = c.verdict in (*UNDECIDED, "exploratory")
        rows.append(
            Line(
                name,
                group,
                c.metric,
                before if c.threshold is None else format_value(c.threshold, unit),
                after,
                (interval if is_open else "") or effect(c.ratio),
                str(c.verdict),
                "/".join(reversed(c.size.split("/"))),  # as the columns are
                c.reason if c.verdict in UNDECIDED else "",
                " / ".join(dict.fromkeys(filter(None, reversed(c.held_back)))),
                c.warnings,
                c.more_rounds if c.verdict in UNDECIDED else 0,
            )
        )
    return sorted(rows, key=lambda r: ORDER.index(r.verdict))


class Notes(dict[str, int]):
    """Footnotes and their numbers."""

    def marks(self, row: Line, *, reason: bool) -> str:
        """The numbers of a line's footnotes, which are new where nobody referred to them before."""
        said = [row.reason] if row.reason and reason else []
        numbers = [str(self.setdefault(note, len(self) + 1)) for note in (*said, *row.warnings)]
        return f" [{', '.join(numbers)}]" if numbers else ""

    @property
    def numbered(self) -> list[str]:
        """The footnotes with their numbers."""
        return [f"[{number}] {note}" for note, number in self.items()]


def text(
    rows: Sequence[Line], heads: tuple[str, str] = ("before", "after"), *, notes: Sequence[str] = ()
) -> str:
    """The lines as text: the counts, a heading for each metric and what its names share, and footnotes."""
    blocks = [verdict_counts(r.verdict for r in rows)]
    footnotes = Notes()
    size = Counter((r.metric, r.group) for r in rows)
    parts: dict[tuple[str, str], list[Line]] = {}
    for metric in dict.fromkeys(r.metric for r in rows):
        for r in rows:
            if r.metric == metric:
                group = r.group if size[metric, r.group] >= ALIKE_GROUPS else ""
                parts.setdefault((metric, group), []).append(r)
    blocks += ["\n".join(_block(*key, some, heads, footnotes)) for key, some in parts.items()]
    is_open = any(r.verdict in UNDECIDED for r in rows)
    foot = ["~: not decided; the change is the interval"] if is_open else []
    foot += map(wrapped, footnotes.numbered)
    if any(r.more for r in rows):
        foot.append("(+n): about n more rounds, or runs per side, would decide it")
    return "\n\n".join(filter(None, [*blocks, "\n".join([*foot, *map(wrapped, notes)])]))


def _block(
    metric: str, group: str, rows: Sequence[Line], heads: tuple[str, str], footnotes: Notes
) -> list[str]:
    """The lines of a metric whose names share a group, under a heading."""
    parts = [(r.name if group else r.title).split(", ") for r in rows]
    shared = [p for p in parts[0] if len(rows) > 1 and all(p in other for other in parts)]
    shared = [] if any({*part} <= {*shared} for part in parts) else shared
    names = [", ".join(p for p in part if p not in shared) for part in parts]
    title = ", ".join(filter(None, [group, *shared]))
    n = {r.n for r in rows}
    title = f"{quantity(metric)}{f': {title}' if title else ''}"
    title += f", n = {rows[0].n}" if len(n) == 1 else ""
    cells = []
    for r in rows:
        verdict = "~" if r.verdict in UNDECIDED else r.verdict
        verdict += f" (+{r.more})" if r.more else ""
        verdict += footnotes.marks(r, reason=not r.more)
        cells.append([r.before, r.after, r.change, verdict])
    table = pd.DataFrame(cells, columns=[*heads, "change", ""])
    if len(n) > 1:
        table["n"] = [r.n for r in rows]
    if held := _held(rows):
        table["limited by"] = held
    return [wrapped(title), *_rows(names, table, left=("",))]


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
    names = list(map(str, table["condition"]))
    _, *rows = _rows(
        names, pd.DataFrame(cells, columns=["", " ", "  ", "   "]), left=(" ", "  ", "   ")
    )
    return "\n".join([title, *rows])


def _rows(names: Sequence[str], table: pd.DataFrame, *, left: Sequence[str]) -> list[str]:
    """A head, and rows of names and figures in columns, those of `left` aligned there.

    A name for which there is no room has a line of its own.
    """
    table = table.loc[:, (table != "").any()]
    widths = {c: max(map(len, [*table[c], str(c).strip()])) for c in table}
    room = WIDTH - 2 - sum(w + 2 for w in widths.values())
    longest = max(map(len, names))
    wide = min(longest, room) if room >= min(longest, LEAST) else 0
    indent = "  " if wide else " " * max(0, min(2, room + 4))
    out = []
    for name, *cells in [
        ("", *(str(c).strip() for c in table)),
        *zip(names, *(table[c] for c in table), strict=True),
    ]:
        out += [wrapped(name, "  " if wide else "")] if len(name) > wide else []
        words = [
            cell.ljust(widths[c]) if c in left else cell.rjust(widths[c])
            for c, cell in zip(table, cells, strict=True)
        ]
        named = [("" if len(name) > wide else name).ljust(wide)] if wide else []
        out.append((indent + "  ".join([*named, *words])).rstrip())
    return out


def _held(rows: Sequence[Line]) -> list[str]:
    """What limits each row; nothing where it is not known of any: such a column says nothing."""
    return [r.held for r in rows] if any(r.held not in ("", UNKNOWN) for r in rows) else []


def wrapped(words: str, indent: str = "") -> str:
    """A sentence at the width of the text."""
    return textwrap.fill(
        words,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )


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
    held = _held(rows)
    names = ["condition", "metric", *heads, "change", "verdict", *(["limited by"] if held else [])]
    ruler = ["---", "---", "---:", "---:", "---:", "---", "---"][: len(names)]
    table = [f"| {' | '.join(names)} |", f"|{'|'.join(ruler)}|"]
    footnotes = Notes()
    for r in rows:
        verdict = UNDECIDED.get(r.verdict, r.verdict) + footnotes.marks(r, reason=True)
        cells = [r.title, quantity(r.metric), r.before, r.after, r.change, verdict]
        table.append(f"| {' | '.join(map(comment, [*cells, *([r.held] if held else [])]))} |")
    foot = [f"- {comment(note)}" for note in (*footnotes.numbered, *notes)]
    counts = verdict_counts(r.verdict for r in rows)
    return "\n".join([f"**{counts}**", "", *table, "", *foot]).rstrip()
