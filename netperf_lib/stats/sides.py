"""What was measured on each side of a contrast: one value per round, what failed, and what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..experiment.factors import factor as known
from ..experiment.factors import level_words
from ..metrics import plural
from .contrasts import Question, side_key
from .result import Floats
from .runs_table import HOSTS, PLACES, Factors, Mask, Rows, RunsTable
from .samples import TINY, Sample, half_step

THESE = "for these VMs"
"""What the statements of one deployment apply to."""
FEW = 10
"""A percentile with fewer packets beyond it is not yet a property of the network."""


@dataclass(slots=True)
class Side:
    """One side by block: log of the value (NaN: none), whether it failed there, and which rows are in it."""

    log: Floats
    failed: Mask
    present: Mask
    rows: Rows
    several: bool
    nonpositive: int
    zeros: int
    step: float
    key: frozenset[tuple[str, Any]]

    @property
    def value(self) -> Floats:
        """Value by block (NaN: none)."""
        return np.where(self.log > math.log(TINY) / 2, np.exp(self.log), np.where(np.isnan(self.log), np.nan, 0.0))


class Sides:
    """Sides of contrasts, made once each."""

    def __init__(self, table: RunsTable, rounds: int | None) -> None:
        self.table = table
        self.blocks = int(table.block.max()) + 1
        first = np.unique(table.block, return_index=True)[1]
        self.deployment = table.deployment[first]
        self.experiment = table.experiment[first]
        self.absent = self._absent(first, rounds)
        self.hour = table.hour(first)
        self.unchained = table.unchained()
        self._made: dict[tuple[str, frozenset[tuple[str, Any]]], Side] = {}

    def _absent(self, first: Rows, rounds: int | None) -> dict[int, int]:
        """Rounds of each deployment without any run: gaps in their numbers, and rounds planned but not measured."""
        absent = {}
        number = self.table.values("round")[first] if "round" in self.table.columns else np.zeros(first.size)
        for d in np.unique(self.deployment):
            have = number[self.deployment == d]
            have = have[np.isfinite(have)]
            span = int(have.max() - have.min()) + 1 if have.size and np.all(have == np.round(have)) else have.size
            absent[int(d)] = max(span, rounds or 0, have.size) - have.size
        return absent

    def side(self, metric: str, factors: Factors) -> Side:
        """One side of a contrast of this metric."""
        key = side_key(factors)
        if (metric, key) not in self._made:
            self._made[metric, key] = self._make(metric, factors, key)
        return self._made[metric, key]

    def _make(self, metric: str, factors: Factors, key: frozenset[tuple[str, Any]]) -> Side:
        t = self.table
        values = t.values(metric)
        giving = t.codes("tool", "test")
        gives = np.isin(giving, np.unique(giving[t.ok & np.isfinite(values)]))  # other tests have no such metric
        mask = t.mask(factors) & (gives if gives.any() else True)
        good = mask & t.ok & np.isfinite(values)
        nonpositive, zeros = int((good & (values < 0)).sum()), int((good & (values == 0)).sum())
        good &= values >= 0
        log = np.full(self.blocks, np.nan)
        failed = np.zeros(self.blocks, dtype=bool)
        bad = mask & ((t.failed & ~t.excluded) | t.retried | (t.ok & ~np.isfinite(values) & ~t.superseded))
        failed[t.block[bad]] = True
        rows = np.flatnonzero(good)
        block, x = t.block[rows], np.log(np.maximum(values[rows], TINY))
        several = rows.size > np.unique(block).size
        if several:
            x, short = self._levelled(block, t.condition[rows], x)
            failed |= short
        size = np.bincount(block, minlength=self.blocks)
        total = np.bincount(block, weights=x, minlength=self.blocks)
        log[size > 0] = total[size > 0] / size[size > 0]
        present = np.zeros(self.blocks, dtype=bool)
        present[t.block[mask]] = True
        return Side(
            log,
            failed,
            present,
            rows,
            several,
            nonpositive,
            zeros,
            half_step(values[rows]),
            key,
        )

    def _levelled(self, block: Rows, condition: Rows, x: Floats) -> tuple[Floats, Mask]:
        """Bring the conditions (pairs) of a side to one level; also return the blocks in which one is missing."""
        codes, which = np.unique(condition, return_inverse=True)
        x = x.copy()
        means = np.array([x[which == i].mean() for i in range(codes.size)])
        x += means.mean() - means[which]
        seen = np.zeros((self.blocks, codes.size), dtype=bool)
        seen[block, which] = True
        usual = seen.sum(axis=0) * 2 > seen.any(axis=1).sum()
        return x, np.asarray(seen.any(axis=1) & ~seen[:, usual].all(axis=1))


def sample(sides: Sides, q: Question, paired: bool) -> Sample:
    """What the table has for a question."""
    t = sides.table
    t.values(q.metric)
    a = sides.side(q.metric, q.a)
    b = None if q.b is None else sides.side(q.metric, q.b)
    both = [a] if b is None else [a, b]
    apart = b is not None and (not paired or "round" not in t.columns or not (a.present & b.present).any())
    # a deployment (or an experiment) in which a side never ran is not part of it
    asked = np.isin(sides.deployment, np.unique(sides.deployment[a.present]))
    if b is not None and not apart:
        asked &= np.isin(sides.deployment, np.unique(sides.deployment[b.present]))
    for side in both:  # a run that was excluded for a recorded cause has not failed
        asked &= np.isfinite(side.log) | side.failed | ~side.present
    several = np.unique(sides.experiment[asked]).size > 1
    code = sides.experiment if several else sides.deployment
    names, context = _names(t, q, [side.rows for side in both])
    refusal, warnings = _premises(t, q, both, names)
    common: dict[str, Any] = {
        "margin": q.margin,
        "better": q.better,
        "threshold": q.threshold,
        "limit": q.limit.replace("_", " "),
        "declared": q.declared,
        "moved": b is not None and _other_hosts(t, q, (a.rows, b.rows)),
        "unit_name": "experiment" if several else "deployment",
        "step": sum(side.step for side in both),
        "refusal": refusal,
    }
    about = {
        "names": (names[0], names[1] if b is not None else q.wanted),
        "metric": q.metric,
        "context": context,
        "hosts": _hosts(t, both),
        "question": q.question,
    }
    placed = any(c in t.columns for c in ("deployment", "experiment", *HOSTS))
    count = np.unique(code[asked]).size
    about["scope"] = f"over {count} {common['unit_name']}s" if count > 1 else THESE if placed else ""
    if apart and b is not None:
        (x, y), means = _apart(sides, a, b)
        lost = [np.arange(v.size) < side.failed.sum() for v, side in zip((x, y), both, strict=True)]
        return Sample(
            a=np.exp(x), b=np.exp(y), failed_a=lost[0], failed_b=lost[1], paired=False, unit_means=means,
            warnings=tuple(warnings), about=about, **common
        )  # fmt: skip
    absent = np.repeat(*np.array([(code[sides.deployment == d][0], n) for d, n in sides.absent.items()]).T)
    absent = absent[np.isin(absent, code[asked])]
    if b is not None and sides.unchained and t.conditions <= 3:
        warnings.append("rounds were not chained: what one condition leaves behind for the next does not cancel")

    def padded(v: Any, missing: Any) -> Any:
        return np.concatenate([v[asked], np.full(absent.size, missing)])

    return Sample(
        a=padded(a.value, np.nan),
        b=None if b is None else padded(b.value, np.nan),
        failed_a=padded(a.failed, False),
        failed_b=None if b is None else padded(b.failed, False),
        unit=np.concatenate([code[asked], absent]),
        hour=None if sides.hour is None else padded(sides.hour, -1),
        warnings=tuple(warnings),
        about=about,
        **common,
    )


def _premises(t: RunsTable, q: Question, both: Sequence[Side], names: tuple[str, str]) -> tuple[str, list[str]]:
    """What rules out a verdict, and what the reader must know."""
    rows = [side.rows for side in both]
    named = {**q.a, **(q.b or {})}
    refusal, warnings = "", []
    for side, name in zip(both, names, strict=False):
        if not side.rows.size:
            refusal = refusal or f"no run of {name} has a value of {q.metric}"
        warnings += _mixed(t, named, side, name)
    if all(r.size for r in rows):
        warnings += _confounded(t, named, rows)
    below = sum(side.nonpositive + (side.zeros if len(both) > 1 else 0) for side in both)
    if below:
        refusal = refusal or f"{plural(below, 'value')} of zero or less: there is no ratio"
    return refusal or _few_packets(t, q, rows, names), warnings


def _hosts(t: RunsTable, both: Sequence[Side]) -> tuple[str, ...]:
    """Hosts that the sides were measured on."""
    rows = np.concatenate([side.rows for side in both])
    hosts: list[Hashable] = []
    for column in HOSTS:
        if column in t.columns:
            codes, levels = t.levels(column)
            names = list(levels)  # null comes last, its code is -1
            hosts += [names[code] for code in dict.fromkeys(codes[rows].tolist()) if code >= 0]
    return tuple(dict.fromkeys(map(str, hosts)))


def _apart(sides: Sides, a: Side, b: Side) -> tuple[tuple[Floats, Floats], bool]:
    """Logs of two sides that share no round: by deployment where both have several, else by round."""
    made = []
    for side in (a, b):
        ok = np.isfinite(side.log)
        made.append((side.log[ok], sides.deployment[ok]))
    units = all(np.unique(d).size > 1 for _, d in made)
    if units:
        made = [(np.array([x[d == u].mean() for u in np.unique(d)]), d) for x, d in made]
    return (made[0][0], made[1][0]), units


def _other_hosts(table: RunsTable, q: Question, have: Sequence[Rows]) -> bool:
    """Whether the sides were measured on different VMs, so their placement is part of the difference."""
    if any(q.a.get(f) != (q.b or {}).get(f) for f in PLACES):
        return True
    for host in HOSTS:
        if host in table.columns:
            codes, _ = table.levels(host)
            if not np.array_equal(np.unique(codes[have[0]]), np.unique(codes[have[1]])):
                return True
    return False


def _mixed(table: RunsTable, given: Factors, side: Side, name: str) -> list[str]:
    """Warn about a factor that varies within a side."""
    if not side.rows.size:
        return []
    named = dict(given) | (dict.fromkeys(table.factors) if "condition" in given else {})
    inside = table.varying(side.rows, table.factors, named)
    found = []
    for factor, levels in inside.items():
        shown = ", ".join(level_words(factor, v) for v in levels[:4]) + (", …" if len(levels) > 4 else "")
        how = "the geometric mean of a round's runs is used" if side.several else "rounds are not alike"
        found.append(f"{factor} varies within {name} ({shown}): {how}; name {factor} in the contrast")
    if side.several and not inside:
        found.append(f"{name} has several runs in a round: their geometric mean is used")
    return found


def _confounded(table: RunsTable, given: Factors, have: Sequence[Rows]) -> list[str]:
    """Warn about a second factor in which the sides differ."""
    named = dict(given) | (dict.fromkeys(table.factors) if "condition" in given else {})
    # the scope says which VMs the sides were measured on; where these are belongs to the placement
    implied = {c for c in table.context if set(known(c).follows) & named.keys()} | set(HOSTS)
    implied |= {*PLACES, "client_zone_physical", "server_zone_physical"} if named.keys() & set(PLACES) else set()
    columns = [c for c in (*table.factors, *table.context) if c not in implied]
    both = [set(table.varying(rows, columns, named)) for rows in have]
    found = []
    for factor in table.varying(np.concatenate(have), columns, named):
        if not any(factor in inside for inside in both) and len(have) == 2:
            one, two = (level_words(factor, table.level_of(factor, rows[0])) for rows in have)
            found.append(f"the sides also differ in {factor} ({one} and {two}): the difference may be due to that")
    return found + _unproven(table, have)


def _unproven(table: RunsTable, have: Sequence[Rows]) -> list[str]:
    """Warn if the virtual function of accelerated networking is the same on two sides that differ in acceleration."""
    if len(have) != 2 or not {"accelerated", "vf_up"} <= set(table.columns) or not all(rows.size for rows in have):
        return []
    switched, functions = ([set(table.levels(f)[0][rows].tolist()) for rows in have] for f in ("accelerated", "vf_up"))
    up = table.level_of("vf_up", have[0][0])
    if switched[0] & switched[1] or functions[0] != functions[1] or len(functions[0]) > 1 or up is None:
        return []
    state = "a" if up else "no"
    return [f"the sides differ in accelerated networking, but both had {state} virtual function: it was not switched"]


_COUNTS = ("packets_count", "messages_count")


def _few_packets(table: RunsTable, q: Question, have: Sequence[Rows], names: tuple[str, str]) -> str:
    """Why there is no verdict if too few packets lie beyond a percentile, else empty."""
    match = re.search(r"_p(9+|[0-9]{2})(?=_|$)", q.metric)
    if match is None:
        return ""
    share = 1 - float(f"0.{match[1]}")
    for rows, name in zip(have, names, strict=False):
        for column in _COUNTS:
            if column in table.columns:
                count = table.values(column)[rows]
                count = count[np.isfinite(count)]
                if count.size and (fewest := float(count.min())) * share < FEW - 1e-9:
                    return (
                        f"a run of {name} has {fewest:.0f} packets, about {fewest * share:.2g} beyond this percentile; "
                        f"at least {FEW} are needed: measure longer"
                    )
    return ""


def _names(table: RunsTable, q: Question, have: Sequence[Rows]) -> tuple[tuple[str, str], str]:
    """Names of both sides from what differs between them, and the words for what they share."""
    sides = [dict(q.a), dict(q.a if q.b is None else q.b)]
    factors = list(dict.fromkeys([*sides[0], *sides[1]]))
    for side, rows in zip(sides, have, strict=False):
        # a factor that only the other side names: the runs themselves show its level here
        for factor in factors:
            if factor not in side and rows.size and not table.varying(rows, [factor], {}):
                side[factor] = table.level_of(factor, rows[0])
    one, two = sides
    moved = [f for f in factors if q.b is None or (f in one) != (f in two) or one.get(f) != two.get(f)]
    a, b = (", ".join(level_words(f, side[f]) for f in moved if f in side) or "all" for side in sides)
    measured = np.flatnonzero(table.ok & np.isfinite(table.values(q.metric)))
    telling = table.varying(measured, factors, {})
    return (a, b), ", ".join(level_words(f, one[f]) for f in factors if f not in moved and f in telling)
