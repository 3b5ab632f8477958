"""Two measurements, condition by condition: levels of both, their ratio, and a verdict.

Time separates the two sides, and so does whatever else changed between them. The runs are therefore compared unpaired,
and every answer says so. The family consists of all conditions that both sides share.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..experiment.factors import dimensions, level_words, plain
from ..metrics import ALPHA, COMPARED, MARGIN, METRICS, format_value, plural
from ..metrics import metric as metric_of
from ..stats import Comparison, Family, Level
from ..stats.result import plain as as_json
from ..stats.result import quantity
from .judging import Pair, judge_pairs
from .observe import MEASUREMENT, Observations, level_names, level_of, nearest, observe

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Row:
    """One condition and metric: the level before, the level after, and what the data say of the ratio."""

    condition: str
    metric: str
    before: Level
    after: Level
    comparison: Comparison


@dataclass(frozen=True, slots=True, repr=False)
class BeforeAfter:
    """What changed between two measurements.

    Attributes
    ----------
    names : tuple of str
        What the sides are called: the measurement before, and the one after.
    rows : tuple of Row
        Every condition and metric that both sides have.
    family : Family
        The comparisons of the rows, judged together.
    only : tuple of tuple of str
        Conditions that only the side before has, and only the side after.
    changed : dict
        Factors that have no level in common: what was changed, with the levels of both sides in words.
    when : str
        Times of the two sides, in words; empty where they are not known.
    """

    names: tuple[str, str]
    rows: tuple[Row, ...]
    family: Family
    only: tuple[tuple[str, ...], tuple[str, ...]]
    changed: dict[str, tuple[str, str]]
    when: str

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def words(self) -> str:
        """How many conditions have each verdict, the worst first."""
        counts = Counter(str(row.comparison.verdict) for row in self.rows)
        order = ["worse", "better", "equivalent", "inconclusive", "no verdict"]
        parts = [f"{counts[v]} {v}" for v in order if counts[v]]
        summary = f"{', '.join(parts) or 'nothing'} of {plural(len(self), 'comparison')}"
        return f"{self.names[1]} against {self.names[0]}: {summary}."

    @property
    def notes(self) -> list[str]:
        """Notes on the comparison, one sentence each."""
        notes = [
            f"{self.names[1]} against {self.names[0]}: runs are not paired, and time separates the sides"
            + (f" ({self.when})" if self.when else "")
            + ", so a difference may have causes other than the intended change."
        ]
        notes += [f"Changed: {factor}: {a} before, {b} after." for factor, (a, b) in self.changed.items()]
        for name, conditions in zip(self.names, self.only, strict=True):
            if conditions:
                notes.append(f"Only in {name}: {'; '.join(conditions)}.")
        why = {row.comparison.reason for row in self.rows if row.comparison.verdict == "no verdict"}
        return [*notes, *(f"No verdict: {reason}." for reason in sorted(why)), *self.family.warnings]

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each condition and metric.

        Returns
        -------
        pandas.DataFrame
            Columns `condition`, `metric`, `before`, `before_low`, `before_high`, `before_n`, the same of `after`,
            `ratio`, `low`, `high`, `verdict`, `words`. Levels are in the unit of the metric, ratios are after / before.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for row in self.rows:
            cells: dict[str, Any] = {"condition": row.condition, "metric": row.metric}
            for side, at in (("before", row.before), ("after", row.after)):
                cells |= {side: at.median, f"{side}_low": at.low, f"{side}_high": at.high, f"{side}_n": at.n}
            c = row.comparison
            cells |= {"ratio": c.ratio, "low": c.low, "high": c.high, "verdict": str(c.verdict), "words": c.words}
            rows.append(cells)
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; NaN is null."""
        return {
            "before": self.names[0],
            "after": self.names[1],
            "notes": self.notes,
            "only_before": list(self.only[0]),
            "only_after": list(self.only[1]),
            "alpha": self.family.alpha,
            "comparisons": as_json(self.to_frame().to_dict("records")),
        }

    @property
    def labels(self) -> list[str]:
        """What to call each row in a figure: its condition, and the metric where there are several."""
        several = len({row.metric for row in self.rows}) > 1
        return [f"{r.condition}: {quantity(r.metric)}" if several else r.condition for r in self.rows]

    def shown(self) -> pd.DataFrame:
        """Return the table that people read, in words: condition, metric, before, after, after / before, verdict."""
        import pandas as pd

        rows = []
        for row in self.rows:
            about, c = METRICS[row.metric], row.comparison
            sides = (_level_words(row.before, about.unit), _level_words(row.after, about.unit))
            rows.append((row.condition, quantity(row.metric), *sides, c.ratio_words, str(c.verdict)))
        return pd.DataFrame(rows, columns=["condition", "metric", "before", "after", "after / before", "verdict"])

    def __repr__(self) -> str:
        table = self.shown()
        return "\n".join([" | ".join(cells) for cells in (table.columns, *table.to_numpy())] + self.notes)

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return self.shown().to_html(index=False, border=0) + notes


def _level_words(at: Level, unit: str) -> str:
    if at.n == 0:
        return "–"
    if at.n == 1:
        return f"{format_value(at.median, unit)} (1 run, no interval)"
    low, high = format_value(at.low, unit), format_value(at.high, unit)
    sure = "" if at.confidence >= 0.95 else f", {100 * at.confidence:.0f} %"
    return f"{format_value(at.median, unit)} ({low} to {high}{sure}, n = {at.n})"


def before_after(
    before: pd.DataFrame,
    after: pd.DataFrame,
    *,
    names: tuple[str, str] = ("before", "after"),
    metrics: Sequence[str] | None = None,
    by: Sequence[str] | None = None,
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> BeforeAfter:
    """Compare two tables of runs, condition by condition; see `compare` for the parameters.

    `metrics` are by default those of `COMPARED` that both sides measured. The measurement is the factor that is asked
    about; what has no level in common on the two sides was changed, and splits nothing. Empty if the sides share no
    condition: then `only` lists the conditions of each. Raises UsageError if a side has no run, or a factor or metric
    does not exist.
    """
    for name, side in zip(names, (before, after), strict=True):
        if not len(side):
            raise UsageError(f"{name}: there are no runs to compare")
    factors = _asked(before, after, by)
    changed = {} if by else _changed(before, after)
    every = [
        observe(dict(zip(names, (before, after), strict=True)), m, (MEASUREMENT, *factors), pool=tuple(changed))
        for m in _metrics(before, after, metrics)
    ]
    rows: list[tuple[str, Pair]] = []
    only: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for obs in every:
        shared, alone = _matched(obs, names)
        rows += [(words, Pair(obs, b, a, margin)) for words, (a, b) in shared.items()]
        for conditions, more in zip(only, alone, strict=True):
            conditions |= dict.fromkeys(more)
    order = list(dict.fromkeys(words for words, _ in sorted(rows, key=lambda row: row[0])))
    rows.sort(key=lambda row: order.index(row[0]))
    family = judge_pairs([pair for _, pair in rows], alpha) if rows else Family((), alpha=alpha)
    judged = [replace(c, names=(names[1], names[0]), context=words) for c, (words, _) in zip(family, rows, strict=True)]
    measured = {words for words, _ in rows}
    return BeforeAfter(
        names=names,
        rows=tuple(
            Row(words, pair.obs.metric, _level(pair.obs, pair.b), _level(pair.obs, pair.a), c)
            for c, (words, pair) in zip(judged, rows, strict=True)
        ),
        family=replace(family, comparisons=tuple(judged)),
        only=(tuple(w for w in only[0] if w not in measured), tuple(w for w in only[1] if w not in measured)),
        changed=changed,
        when=_when(before, after),
    )


def _matched(obs: Observations, names: tuple[str, str]) -> tuple[dict[str, tuple[str, str]], list[list[str]]]:
    """The conditions of both sides by what they share, and the conditions that only one of the sides has."""
    rest = [f for f in obs.by if f != MEASUREMENT]
    words = level_names(obs, rest) if rest else dict.fromkeys(obs.conditions.index, "all runs")
    if not rest and "placement" in obs.facts:
        words = {c: str(plain(obs.facts.loc[c, "placement"]) or "all runs") for c in obs.conditions.index}
    measured = obs.table[obs.table["state"] == "ok"]["condition"].unique()
    sides: list[dict[str, str]] = [
        {words[c]: c for c in obs.conditions.index if c in measured and obs.conditions.loc[c, MEASUREMENT] == name}
        for name in names
    ]
    before, after = sides
    shared = {w: (c, after[w]) for w, c in before.items() if w in after}
    return shared, [[w for w in side if w not in shared] for side in sides]


def _level(obs: Observations, condition: str) -> Level:
    rows = obs.complete
    return level_of(rows[rows["condition"] == condition], obs.metric)


def _metrics(before: pd.DataFrame, after: pd.DataFrame, metrics: Sequence[str] | None) -> list[str]:
    def measured(side: pd.DataFrame, metric: str) -> bool:
        return metric in side.columns and bool(side[metric].notna().any())

    for name in metrics or ():
        metric_of(name)  # an unknown one is an error with the nearest names
    names = [m for m in metrics or COMPARED if measured(before, m) and measured(after, m)]
    if metrics is None and "throughput_bps" in names:  # the sender's view stands in where no receiver's is known
        names = [m for m in names if m != "throughput_sent_bps"]
    return names


def _asked(before: pd.DataFrame, after: pd.DataFrame, by: Sequence[str] | None) -> tuple[str, ...]:
    """The factors of `by` that vary."""
    for name in by or ():
        if name not in before.columns or name not in after.columns:
            known = [c for c in dimensions(before.columns) if c in after.columns]
            raise UsageError(f"{name!r} is not a factor of both sides; {nearest(name, known)}")
    return tuple(name for name in by or () if len(_levels(before, name) | _levels(after, name)) > 1)


def _changed(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Factors that have no level in common on the two sides, with the levels of both in words."""
    changed: dict[str, tuple[str, str]] = {}
    for name in dimensions([*before.columns, *(c for c in after.columns if c not in before.columns)]):
        levels = [_levels(side, name) for side in (before, after)]
        if not levels[0] & levels[1] and name not in ("client", "server"):
            one, two = (", ".join(sorted(level_words(name, v) for v in side)) for side in levels)
            changed[name] = (one, two)
    return changed


def _levels(side: pd.DataFrame, factor: str) -> set[Any]:
    return {plain(v) for v in side[factor].unique()} if factor in side.columns else {None}


def _when(before: pd.DataFrame, after: pd.DataFrame) -> str:
    days = []
    for side in (before, after):
        times = side["started_utc"].dropna() if "started_utc" in side.columns else ()
        if not len(times):
            return ""
        days.append(f"{min(times):%-d %B %Y}")
    return f"{days[0]} and {days[1]}" if days[0] != days[1] else f"both on {days[0]}"
