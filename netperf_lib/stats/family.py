"""The contrasts of a report, judged together from the table of runs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import StatsError
from ..experiment.factors import factor as known
from ..experiment.factors import level_words
from ..experiment.model import Contrast
from ..metrics import METRICS
from .contrast import About, Comparison
from .contrast import compare as compare_values
from .deployments import DEPLOYMENTS, placement
from .planning import LOOKING
from .result import html_table, percent, plural, quantity
from .table import HOSTS, PLACES, Factors, Rows, RunsTable, Values

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Family", "compare"]


@dataclass(frozen=True, slots=True, repr=False)
class Family(Sequence[Comparison]):
    """Contrasts that were judged together, and the runs behind them.

    Attributes
    ----------
    comparisons : tuple of Comparison
    ok, failed, excluded : int
        Runs that were used, that failed or were cut short, and that were excluded for a recorded cause.
    alpha : float
        Share of families that may hold a false verdict.
    declared : int
        Contrasts declared in the experiment; they share `alpha`.
    experiment : str
        Its name.
    warnings : tuple of str
    notice : str or None
        What every table made from these runs must say.
    """

    comparisons: tuple[Comparison, ...]
    ok: int
    failed: int
    excluded: int
    alpha: float
    declared: int
    experiment: str = ""
    warnings: tuple[str, ...] = ()
    notice: str | None = None

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __getitem__(self, index: Any) -> Any:
        return self.comparisons[index]

    @property
    def counts(self) -> str:
        """How many runs were used, in words."""
        return f"{plural(self.ok, 'run')} ok, {self.failed} failed, {self.excluded} excluded"

    @property
    def words(self) -> str:
        """One sentence a contrast, a line each."""
        return "\n".join(c.words for c in self)

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row a contrast."""
        import pandas as pd

        names = [f.name for f in dataclasses.fields(Comparison) if f.name not in ("names", "assumptions")]
        rows = [
            {"contrast": " / ".join(c.names), "a": c.names[0], "b": c.names[1]}
            | {name: getattr(c, name) for name in names}
            | {"warnings": "; ".join(c.warnings), "words": c.words}
            for c in self
        ]
        columns = [
            "metric",
            "contrast",
            "verdict",
            "ratio",
            "low",
            "high",
            "confidence",
            "n",
            "unit",
            "words",
            "reason",
        ]
        columns += ["a", "b", *(n for n in names if n not in columns)]
        return pd.DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything in types that JSON knows."""
        return {
            "experiment": self.experiment,
            "notice": self.notice,
            "runs": {"ok": self.ok, "failed": self.failed, "excluded": self.excluded},
            "alpha": self.alpha,
            "declared": self.declared,
            "warnings": list(self.warnings),
            "comparisons": [c.to_dict() for c in self],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table that people read; see `HEAD`."""
        return [
            (
                c.names[0] + " / " + c.names[1],
                c.quantity,
                f"{c.ratio:.3g} ({c.low:.3g} to {c.high:.3g})" if np.isfinite(c.ratio) else "–",
                plural(c.n, c.unit),
                c.verdict,
                c.words,
            )
            for c in self
        ]

    @property
    def note(self) -> str:
        """What stands below the table."""
        rule = f"at most {percent(self.alpha)} of reports hold a false verdict"
        shared = f" ({plural(self.declared, 'declared contrast')} share it)" if self.declared else ""
        return f"{self.counts}; {rule}{shared}" + (f"; {self.notice}" if self.notice else "")

    def __repr__(self) -> str:
        lines = [f"Family of {plural(len(self), 'contrast')}: {self.note}"]
        lines += [f"  ! {w}" for w in self.warnings]
        for c in self:
            lines += [f"  {c.words}", *(f"    ! {w}" for w in c.warnings)]
        return "\n".join(lines)

    def __rich__(self) -> Any:
        """Return the table for the terminal."""
        from rich.markup import escape
        from rich.table import Table

        colour = {"better": "green", "worse": "red", "equivalent": "cyan"}
        table = Table("verdict", "in words", "ratio (interval)", caption=self.note, caption_justify="left")
        for c, row in zip(self, self.rows(), strict=True):
            words = "\n".join((c.words, *(f"! {w}" for w in c.warnings)))
            table.add_row(
                f"[{colour.get(c.verdict, 'default')}]{c.verdict}[/]", escape(words), row[2], end_section=True
            )
        return table

    def _repr_html_(self) -> str:
        own = (f"{' / '.join(c.names)}: {w}" for c in self for w in c.warnings)
        return html_table(HEAD, self.rows(), "; ".join((self.note, *self.warnings, *own)))


HEAD = ("contrast", "metric", "ratio (interval)", "n", "verdict", "in words")


def compare(
    runs: pd.DataFrame,
    metric: str | None = None,
    *,
    by: str | None = None,
    baseline: Any = None,
    margin: float | None = None,
    contrasts: Iterable[Contrast | Mapping[str, Any]] | None = None,
    where: Factors | None = None,
    alpha: float | None = None,
    paired: bool = True,
    looked: bool | None = None,
) -> Family:
    """Judge contrasts from the table of runs.

    Without `by` and `contrasts`: those that the experiment declared (of `metric`, when given). Contrasts pair by
    deployment and round, one value a run. Every declared contrast of the experiment, shown or not, shares `alpha`
    (Bonferroni); a contrast that was not declared gets an interval and no verdict.

    Parameters
    ----------
    runs : DataFrame, or what `read` gives
        The table of runs, as `load` gives it; the declared experiment is in ``runs.attrs["experiment"]``.
    metric : str, optional
        Column to compare; needed with `by`.
    by : str, optional
        Factor whose levels are compared with each other, for example ``"placement"``.
    baseline : optional
        Level of `by` that the others are compared with; without it every two levels are.
    margin : float, optional
        Margin of the contrasts made by `by`; default 0.05, or that of the declared contrast.
    contrasts : iterable of Contrast or dict, optional
        Contrasts to judge instead. Where the experiment declares none, these are taken as its declaration.
    where : dict, optional
        Factors and levels that both sides share.
    alpha : float, optional
        Share of reports that may hold a false verdict; default: as the experiment says, 0.05.
    paired : bool, default True
        False for runs that were not measured in rounds; labelled "unblocked".
    looked : bool, optional
        True: rounds were added until the intervals were narrow enough (`stop_rule`), so that the intervals are
        computed at a higher confidence than they are quoted with. Default: ``runs.attrs["looked"]``, else False.

    Returns
    -------
    Family

    Raises
    ------
    StatsError
        No such column, nothing to compare, or a table without runs.
    """
    runs = getattr(runs, "runs", runs)
    table = RunsTable(runs)
    experiment: Mapping[str, Any] = runs.attrs.get("experiment") or {}
    declared = [c for c in map(_contrast, experiment.get("contrasts") or ()) if c.b is not None]
    alpha = alpha if alpha is not None else float(experiment.get("alpha") or 0.05)
    looked = bool(runs.attrs.get("looked")) if looked is None else looked
    error = alpha * LOOKING if looked else alpha
    where = dict(where or {})
    warnings: list[str] = []
    if looked:
        warnings.append("the rounds were stopped by the width of the intervals, which are wider for it")
    if contrasts is not None:
        chosen = [_contrast(c) for c in contrasts]
        if not declared:
            declared = chosen
            warnings.append("the contrasts were named with the analysis, not declared with the experiment")
    elif by is not None:
        if metric is None:
            raise StatsError(f"compare(runs, by={by!r}) needs a metric, for example metric='throughput_bps'")
        chosen = _by(table, metric, by, baseline, where, margin)
    else:
        chosen = [c for c in declared if metric is None or c.metric == metric]
        if not chosen:
            known = ", ".join(sorted({c.metric for c in declared}))
            raise StatsError(
                f"the experiment declares no contrast{f' of {metric}' if metric else ''}"
                f"{f' (declared: {known})' if known else ''}: name a factor, for example "
                f"compare(runs, {metric or 'throughput_bps'!r}, by='placement')"
            )
    asked = {_question(d): d for d in reversed(declared)}
    claims = runs.attrs.get("failed_claims") or ()
    judged = []
    for c in chosen:
        c = c.model_copy(update={"a": {**where, **c.a}, "b": {**where, **(c.b or {})}})
        twin = asked.get(_question(c))
        size = twin.margin if twin is not None and margin is None else margin if margin is not None else c.margin
        # another margin is another question
        is_declared = twin is not None and math.isclose(size, twin.margin)
        judged.append(_judge(table, c, size, error, len(declared) if is_declared else 1, is_declared, paired, claims))
    return Family(
        comparisons=tuple(judged),
        ok=int(table.ok.sum()),
        failed=int(table.failed.sum()),
        excluded=int(table.excluded.sum()),
        alpha=alpha,
        declared=len(declared),
        experiment=str(experiment.get("name") or ""),
        warnings=tuple(warnings),
        notice=runs.attrs.get("notice"),
    )


def _contrast(c: Contrast | Mapping[str, Any]) -> Contrast:
    if isinstance(c, Contrast):
        return c
    try:
        return Contrast.model_validate(c)
    except ValueError as e:
        first = str(e).splitlines()
        raise StatsError(f"not a contrast (metric, a, b, margin): {' '.join(first[1:3]).strip()}") from None


def _question(c: Contrast) -> tuple[str, frozenset[frozenset[tuple[str, Any]]]]:
    """What a contrast asks, in whichever direction."""
    return c.metric, frozenset((frozenset(c.a.items()), frozenset((c.b or {}).items())))


def _by(table: RunsTable, metric: str, by: str, baseline: Any, where: Factors, margin: float | None) -> list[Contrast]:
    table.values(metric)
    codes, names = table.levels(by)
    use = table.mask(where) & np.isfinite(table.values(metric)) & table.ok
    here = [level for level, code in names.items() if (codes[use] == code).any()]
    numbers = all(isinstance(v, int | float) or v is None for v in here)
    levels = sorted(here, key=lambda v: (v is None, v or 0) if numbers else (v is None, str(v)))
    if len(levels) < 2:
        raise StatsError(f"{by} has {plural(len(levels), 'level')} with a value of {metric}: nothing to compare")
    if baseline is not None and baseline not in levels:
        known = ", ".join(str(v) for v in levels)
        raise StatsError(f"no run with a value of {metric} has {by}={baseline!r} (levels: {known})")
    two = (
        [(v, baseline) for v in levels if v != baseline] if baseline is not None else itertools.combinations(levels, 2)
    )
    extra = {} if margin is None else {"margin": margin}
    return [Contrast(metric=metric, a={by: _scalar(a)}, b={by: _scalar(b)}, **extra) for a, b in two]


def _scalar(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v


def _judge(
    table: RunsTable,
    c: Contrast,
    margin: float,
    alpha: float,
    family: int,
    declared: bool,
    paired: bool,
    claims: Iterable[Mapping[str, Any]] = (),
) -> Comparison:
    """Judge one contrast."""
    values = table.values(c.metric)
    masks = [table.mask(f) for f in (c.a, (c.b or {}))]
    lost = int(sum((mask & ~table.ok).sum() for mask in masks))
    have = [np.flatnonzero(mask & table.ok & np.isfinite(values)) for mask in masks]
    names, common = _names(table, c, have)
    warnings = _mixed(table, c, have, names)
    if lost:
        warnings.append(f"{plural(lost, 'run')} of this contrast failed or were excluded")
    warnings += _unfounded(table, claims, have)
    info = METRICS.get(c.metric)
    better = info.better if info else "higher"
    about = About(declared=declared, metric=c.metric, quantity=quantity(c.metric), names=names, context=common)
    moved = _other_hosts(table, c, have)
    if moved and all(np.unique(table.deployment[rows]).size >= DEPLOYMENTS for rows in have):
        first, second = (_by_deployment(table.deployment[rows], values[rows]) for rows in have)
        result = placement(first, second, margin=margin, alpha=alpha, family=family, better=better, **about)
    else:
        about["scope"] = _scope(table, have) if moved else ""
        left, right = _by_round(table, values, have) if paired else (values[have[0]], values[have[1]])
        result = compare_values(
            left, right, margin=margin, alpha=alpha, family=family, better=better, paired=paired, **about
        )
    reason = result.reason
    landed = np.unique(table.deployment[np.concatenate(have)]).size
    if moved and landed > 1 and result.dependent:
        reason = f"the {landed} deployments differ from each other: at least {DEPLOYMENTS} are needed to speak of more"
    for rows, name in zip(have, names, strict=True):
        if not rows.size:
            reason = f"no run of {name} has a value of {c.metric}"
    one, two = (float(np.median(values[rows])) if rows.size else math.nan for rows in have)
    return dataclasses.replace(result, warnings=(*warnings, *result.warnings), reason=reason, medians=(one, two))


def _by_deployment(deployments: Rows, values: Values) -> list[Values]:
    return [values[deployments == d] for d in np.unique(deployments)]


def _by_round(table: RunsTable, values: Values, have: Sequence[Rows]) -> tuple[Values, Values]:
    """Values of both sides by deployment and round; NaN where a side has none."""
    (block_a, a), (block_b, b) = (_one_a_block(table.block[rows], values[rows]) for rows in have)
    blocks = np.union1d(block_a, block_b)
    left, right = np.full(blocks.size, np.nan), np.full(blocks.size, np.nan)
    left[np.searchsorted(blocks, block_a)] = a
    right[np.searchsorted(blocks, block_b)] = b
    return left, right


def _other_hosts(table: RunsTable, c: Contrast, have: Sequence[Rows]) -> bool:
    """Whether the sides were measured on different VMs, so that where these landed is part of the difference."""
    if any(c.a.get(f) != (c.b or {}).get(f) for f in PLACES):
        return True
    for host in HOSTS:
        if host in table.columns:
            codes, _ = table.levels(host)
            if not np.array_equal(np.unique(codes[have[0]]), np.unique(codes[have[1]])):
                return True
    return False


def _one_a_block(blocks: Rows, values: Values) -> tuple[Rows, Values]:
    """One value a round: the median where a side has several runs in it."""
    unique, first, count = np.unique(blocks, return_index=True, return_counts=True)
    if (count == 1).all():
        return unique, values[first]
    return unique, np.array([np.median(values[blocks == b]) for b in unique])


def _mixed(table: RunsTable, c: Contrast, have: Sequence[Rows], names: tuple[str, str]) -> list[str]:
    """Warn of a second factor: inside a side, or between the sides."""
    found = []
    named = {**c.a, **(c.b or {})}
    if "condition" in named:  # a label that `select` made of every factor that varies
        named |= dict.fromkeys(table.factors)
    for rows, name in zip(have, names, strict=True):
        several = rows.size > np.unique(table.block[rows]).size
        inside = table.varying(rows, table.factors, named)
        for factor, levels in inside.items():
            shown = ", ".join(level_words(factor, v) for v in levels[:4]) + (", …" if len(levels) > 4 else "")
            how = "the median of a round's runs stands for it" if several else "rounds are not alike"
            found.append(f"{factor} varies within {name} ({shown}): {how}; name {factor} in the contrast")
        if several and not inside:
            found.append(f"{name} has several runs in a round: their median stands for it")
    # which VMs the sides were measured on is told by the scope; where these are goes with the placement
    implied = {c for c in table.context if set(known(c).follows) & named.keys()} | set(HOSTS)
    implied |= {*PLACES, "client_zone_physical", "server_zone_physical"} if named.keys() & set(PLACES) else set()
    others = [c for c in (*table.factors, *table.context) if c not in implied]
    both = [set(table.varying(rows, others, named)) for rows in have]
    if all(rows.size for rows in have):
        every = np.concatenate(have)
        for factor in table.varying(every, others, named):
            if factor not in both[0] and factor not in both[1]:
                one, two = (level_words(factor, table.level_of(factor, rows[0])) for rows in have)
                found.append(f"the sides also differ in {factor} ({one} and {two}): the difference may be due to that")
    return found


def _unfounded(table: RunsTable, claims: Iterable[Mapping[str, Any]], have: Sequence[Rows]) -> list[str]:
    """Warn where a claim about the hosts of a contrast turned out false: the verdict rests on it."""
    rows = np.concatenate(have)
    hosts: set[Any] = {None}
    for column in HOSTS:
        if column in table.columns:
            codes, names = table.levels(column)
            used = set(codes[rows].tolist())
            hosts |= {name for name, code in names.items() if code in used}
    return [
        f"it rests on a claim that does not hold: {claim['claim']}"
        + (f" ({claim['evidence']})" if claim.get("evidence") else "")
        for claim in claims
        if claim["host"] in hosts
    ]


def _scope(table: RunsTable, have: Sequence[Rows]) -> str:
    """What a claim about other VMs holds for: one act of placing them is one draw."""
    if "deployment" not in table.columns:
        return ""
    n = np.unique(table.deployment[np.concatenate(have)]).size
    return "for this VM pair" if n <= 1 else f"for these {n} deployments"


def _names(table: RunsTable, c: Contrast, have: Sequence[Rows]) -> tuple[tuple[str, str], str]:
    """Names of both sides from what differs between them, and the words for what they share."""
    factors = list(dict.fromkeys([*c.a, *(c.b or {})]))
    sides = [dict(c.a), dict(c.b or {})]
    for side, rows in zip(sides, have, strict=True):
        # a factor that only the other side names: the runs themselves tell its level here
        for factor in factors:
            if factor not in side and rows.size and not table.varying(rows, [factor], {}):
                side[factor] = table.level_of(factor, rows[0])
    one, two = sides
    moved = [f for f in factors if (f in one) != (f in two) or one.get(f) != two.get(f)]
    a, b = (", ".join(level_words(f, side[f]) for f in moved if f in side) or "all" for side in sides)
    measured = np.flatnonzero(table.ok & np.isfinite(table.values(c.metric)))
    telling = table.varying(measured, factors, {})
    return (a, b), ", ".join(level_words(f, one[f]) for f in factors if f not in moved and f in telling)
