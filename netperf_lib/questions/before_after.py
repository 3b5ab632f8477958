"""Two measurements, condition by condition: levels of both, their ratio, and a verdict.

Time separates the two sides, and so does whatever else changed between them. The runs are therefore compared unpaired,
and every answer says so. The family consists of all conditions that both sides share.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..data.imports import are_logs, read_logs
from ..data.load import Fleet, Results, read
from ..data.shipped import located
from ..errors import StatsError, UsageError
from ..experiment.factors import dimensions, level_words, plain
from ..metrics import COMPARED, METRICS, format_value, plural
from ..stats import Comparison, Family, Level, judge, level
from ..stats.result import plain as as_json
from ..stats.result import quantity
from ..stats.verdict import compare as compare_runs
from .conditions import named
from .lead import lead_paragraph
from .question import Question
from .question import ask as ask_runs
from .words import contrasts

if TYPE_CHECKING:
    import pandas as pd

Data: TypeAlias = "Results | Fleet | pd.DataFrame | str | os.PathLike[str]"
"""An experiment, a data root, a table of runs, or the path of one of these or of logs."""

_SIDE = "measurement"
_APART = frozenset({"client", "server", "client_vm_size", "server_vm_size"})


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
        found = [f"{counts[v]} {v}" for v in order if counts[v]]
        said = f"{', '.join(found) or 'nothing'} of {plural(len(self), 'comparison')}"
        return f"{self.names[1]} against {self.names[0]}: {said}."

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
            found: dict[str, Any] = {"condition": row.condition, "metric": row.metric}
            for side, at in (("before", row.before), ("after", row.after)):
                found |= {side: at.median, f"{side}_low": at.low, f"{side}_high": at.high, f"{side}_n": at.n}
            c = row.comparison
            found |= {"ratio": c.ratio, "low": c.low, "high": c.high, "verdict": str(c.verdict), "words": c.words}
            rows.append(found)
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

        found = []
        for row in self.rows:
            about, c = METRICS[row.metric], row.comparison
            sides = (_level_words(row.before, about.unit), _level_words(row.after, about.unit))
            found.append((row.condition, quantity(row.metric), *sides, c.ratio_words, str(c.verdict)))
        return pd.DataFrame(found, columns=["condition", "metric", "before", "after", "after / before", "verdict"])

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
    margin: float = 0.05,
    alpha: float = 0.05,
) -> BeforeAfter:
    """Compare two tables of runs, condition by condition; see `compare` for the parameters.

    `metrics` are by default those of `COMPARED` that both sides measured, and `by` every factor that varies and that
    the sides share. Empty if the sides share no condition: then `only` lists the conditions of each. Raises
    StatsError if a side has no run, or a factor or metric does not exist.
    """
    import pandas as pd

    for name, side in zip(names, (before, after), strict=True):
        if not len(side):
            raise StatsError(f"{name}: there are no runs to compare")
    wanted = _metrics(before, after, metrics)
    factors, changed = _factors(before, after, by)
    sides = [_keyed(side, factors) for side in (before, after)]
    # a run that failed may not know its condition
    counted = [side[side["status"] == "ok"] if "status" in side.columns else side for side in sides]
    keys: list[dict[Any, pd.DataFrame]] = [dict(list(side.groupby("_key", sort=False))) for side in counted]
    varying = [f for i, f in enumerate(factors) if len({k[i] for some in keys for k in some}) > 1]
    every = list({k: None for some in keys for k in some})
    words = dict(zip(every, named(pd.DataFrame(every, columns=factors, dtype=object), factors), strict=True))
    shared = sorted((key for key in keys[0] if key in keys[1]), key=words.__getitem__)
    columns = dict.fromkeys(
        [*factors, *dimensions([*before.columns, *after.columns]), *wanted, "status", "attempt", "order"]
    )
    parts: list[pd.DataFrame] = []
    first = 0
    for name, side in zip(names, sides, strict=True):
        rounds = _rounds(side)
        part = side.reindex(columns=[c for c in columns if c in side.columns]).copy()
        part[_SIDE], part["round"] = name, rounds + first
        parts.append(part)
        first += int(rounds.max()) + 1
    stacked = pd.concat(parts, ignore_index=True)
    asked: list[dict[str, Any]] = []
    found: list[tuple[str, str, Level, Level]] = []
    for key in shared:
        condition = {f: v for f, v in zip(factors, key, strict=True) if f in varying}
        for metric in wanted:
            values = [runs[key][metric].dropna() for runs in keys]
            if all(len(v) for v in values):
                a, b = ({**condition, _SIDE: name} for name in (names[1], names[0]))
                asked.append({"metric": metric, "a": a, "b": b, "margin": margin})
                found.append((words[key], metric, level(values[0], metric=metric), level(values[1], metric=metric)))
    family = judge(stacked, asked, alpha=alpha, paired=False)
    told = [replace(c, names=(names[1], names[0]), context=row[0]) for row, c in zip(found, family, strict=True)]
    family = replace(family, comparisons=tuple(told))
    rows = tuple(Row(*row, comparison=c) for row, c in zip(found, told, strict=True))
    only = tuple(tuple(words[k] for k in mine if k not in other) for mine, other in (keys, keys[::-1]))
    return BeforeAfter(
        names=names,
        rows=rows,
        family=family,
        only=(only[0], only[1]),
        changed=changed,
        when=_when(before, after),
    )


def _metrics(before: pd.DataFrame, after: pd.DataFrame, metrics: Sequence[str] | None) -> list[str]:
    def measured(side: pd.DataFrame, metric: str) -> bool:
        return metric in side.columns and bool(side[metric].notna().any())

    wanted = list(metrics or COMPARED)
    lacking = [m for m in wanted if m not in METRICS]
    if lacking:
        raise StatsError(f"{lacking[0]!r} is not a metric; known metrics are, for example, {', '.join(COMPARED)}")
    found = [m for m in wanted if measured(before, m) and measured(after, m)]
    if metrics is None and "throughput_bps" in found:  # the sender's view stands in where no receiver's is known
        found = [m for m in found if m != "throughput_sent_bps"]
    return found


def _factors(
    before: pd.DataFrame, after: pd.DataFrame, by: Sequence[str] | None
) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Factors that distinguish conditions on both sides, and those that changed between them."""
    if by is not None:
        for factor in by:
            if factor not in before.columns or factor not in after.columns:
                raise StatsError(
                    f"{factor!r} is not a column of both sides; columns are {', '.join(dimensions(before.columns))}"
                )
        return list(by), {}
    kept: list[str] = []
    changed: dict[str, tuple[str, str]] = {}
    everywhere = dimensions([*before.columns, *(c for c in after.columns if c not in before.columns)])
    for factor in everywhere:
        levels = [_levels(side, factor) for side in (before, after)]
        if levels[0] & levels[1]:
            kept.append(factor)
        elif factor not in _APART:
            told = [", ".join(sorted(level_words(factor, v) for v in side)) for side in levels]
            changed[factor] = (told[0], told[1])
    return kept, changed


def _levels(side: pd.DataFrame, factor: str) -> set[Any]:
    return {plain(v) for v in side[factor].unique()} if factor in side.columns else {None}


def _rounds(side: pd.DataFrame) -> pd.Series[int]:
    """Number the rounds of a side from 0; a run that belongs to no round is a round of its own."""
    import pandas as pd

    keys = [c for c in ("experiment", "deployment", "round") if c in side.columns]
    if "round" not in keys or side["round"].isna().any():
        return pd.Series(range(len(side)), index=side.index)
    return side.groupby(keys, dropna=False).ngroup()


def _keyed(side: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    columns = [[plain(v) for v in side[f]] if f in side.columns else [None] * len(side) for f in factors]
    keys: list[Any] = list(zip(*columns, strict=True)) if factors else [()] * len(side)
    return side.assign(_key=keys)


def _when(before: pd.DataFrame, after: pd.DataFrame) -> str:
    days = []
    for side in (before, after):
        times = side["started_utc"].dropna() if "started_utc" in side.columns else ()
        if not len(times):
            return ""
        days.append(f"{min(times):%-d %B %Y}")
    return f"{days[0]} and {days[1]}" if days[0] != days[1] else f"both on {days[0]}"


def compare(
    data: Data,
    after: Data | None = None,
    *,
    metric: str | None = None,
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    where_after: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    margin: float | None = None,
    alpha: float | None = None,
    **options: Any,
) -> Family | BeforeAfter:
    """Compare the conditions of one experiment, or two experiments condition by condition.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, as `netperf_lib.read` gives it, its table of runs, or its folder; or raw logs: a file, a folder
        or a pattern such as ``"before/*.txt"``.
    after : Results, DataFrame or path, optional
        A second one: the two are then compared, with `data` as the side before. A metric's name here means `metric`.
    metric : str, optional
        Only this metric.
    by : str or sequence of str, optional
        One experiment: the factor whose levels are compared; such comparisons were not declared and get no verdict.
        Two: the factors that distinguish conditions.
    where, where_after : dict, optional
        Only runs with these levels; `where_after` is for the side after, by default the same as `where`.
    pattern : str, optional
        Pattern of the paths of raw logs, for example ``"{placement}/r{round}.txt"``; see `netperf_lib.import_logs`.
    margin, alpha : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; the share of answers that may hold a false verdict.
        Default: as declared, else 0.05.
    **options
        Further parameters of `netperf_lib.stats.compare`, for one experiment.

    Returns
    -------
    Family or BeforeAfter
        The declared comparisons of one experiment, or a row for each condition of two.

    Raises
    ------
    UsageError
        There is nothing to compare, or a factor or metric is not known.

    Examples
    --------
    >>> import netperf_lib as npl
    >>> len(npl.compare("data/recorded/lab-full"))  # doctest: +SKIP
    7
    """
    if isinstance(after, str) and (after in METRICS or not ("/" in after or os.path.exists(after))):  # noqa: PTH110
        metric, after = after, None
    if after is not None:
        others = where if where_after is None else where_after
        names = (_name(data, where), _name(after, others))
        return before_after(
            _runs(data, where, pattern),
            _runs(after, others, pattern),
            names=names if names[0] != names[1] else (f"{names[0]} (before)", f"{names[1]} (after)"),
            metrics=None if metric is None else [metric],
            by=[by] if isinstance(by, str) else by,
            margin=0.05 if margin is None else margin,
            alpha=0.05 if alpha is None else alpha,
        )
    results = _read(data, pattern)
    runs = results.runs if isinstance(results, Results | Fleet) else results
    options |= {"where": dict(where or {}), "margin": margin, "alpha": alpha}
    if isinstance(results, Results) and by is None and options.get("contrasts") is None:
        added = [{**c.model_dump(), "declared": False} for c in results.added if metric in (None, c.metric)]
        if added:  # the others were declared before the data, and alone get a verdict
            options["contrasts"] = [*(c for c in results.contrasts if metric in (None, c.metric)), *added]
    if by is not None and not isinstance(by, str):
        if len(by) != 1:
            raise StatsError("one experiment is compared by one factor; use `where` for the levels of others")
        by = by[0]
    return compare_runs(runs, metric, by=by, **options)


def conclude(
    data: Data,
    *,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    margin: float | None = None,
) -> tuple[Family, tuple[str, ...]]:
    """The comparisons of one experiment, declared or by rule, and the lines of its lead paragraph; see `compare`.

    Raises UsageError if there is nothing to compare.
    """
    results = _read(data, pattern)
    runs = _runs(results, where, None)
    declared = [c for c in contrasts(runs) if metric in (None, c.metric)]
    if declared:
        family = compare(results, metric=metric, where=where, margin=margin)
        assert isinstance(family, Family)
        return family, lead_paragraph(runs, family=declared, judged=family[: len(declared)]).lines
    lead = lead_paragraph(runs, metric=metric, margin=margin)
    if not isinstance(lead.family, Family):
        raise UsageError(f"there is nothing to compare: each metric has one condition. {' '.join(lead.lines)}")
    return lead.family, lead.lines


def ask(
    data: Data,
    about: str,
    *,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    margin: float | None = None,
) -> Question:
    """What a factor does to a metric, in an experiment or in raw logs; see `compare` and `questions.ask`."""
    return ask_runs(_runs(data, where, pattern), about, metric, margin=margin)


def _read(data: Data, pattern: str | None) -> Results | Fleet | pd.DataFrame:
    """Read an experiment or a data root; logs that are neither are read as they are."""
    if not isinstance(data, str | os.PathLike):
        return data
    return read_logs(data, pattern=pattern) if are_logs(data) else read(located(data)[0])


def _runs(data: Data, where: Mapping[str, Any] | None, pattern: str | None) -> pd.DataFrame:
    found = _read(data, pattern)
    runs = found.runs if isinstance(found, Results | Fleet) else found
    for name, wanted in (where or {}).items():
        if name not in runs.columns:
            raise StatsError(f"{name!r} is not a column of the runs; columns are {', '.join(dimensions(runs.columns))}")
        runs = runs[[_same(plain(v), wanted) for v in runs[name]]]
    return runs


def _same(level: Any, wanted: Any) -> bool:
    return level == wanted or str(level).lower() == str(wanted).lower()


def _name(data: Data, where: Mapping[str, Any] | None) -> str:
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data).rstrip("/").rpartition("/")[2]
    else:
        name = data.name if isinstance(data, Results) else "runs"
    slice_ = ", ".join(f"{k}={v}" for k, v in (where or {}).items())
    return f"{name} ({slice_})" if slice_ else name
