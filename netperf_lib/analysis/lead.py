"""The lead paragraph: what was measured in figures, factor by factor, what of it is shown, and what to do.

A sentence of figures for each factor comes first. Then each level has one sentence: what all its metrics show against
the ordinary level, and one recommendation. Last comes what is not decided. A threshold begins with its count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import pandas as pd

from ..data.files import Location
from ..data.load import Results, read
from ..data.shipped import located
from ..errors import NotMeasured, UsageError
from ..experiment.attached import attached
from ..experiment.factors import FACTORS, LOG_NAME, factor
from ..experiment.model import Contrast
from ..experiment.placements import GATEWAYS
from ..metrics import ALPHA, METRICS, format_span, format_value, in_words, plural, rounds_required
from .compare import compare, within
from .comparison import Comparison, Family
from .details import filling_words, saturation
from .families import figures_only, judged_by_rule, of_main_tools, runs_with, usual
from .history import ask_history
from .judging import NOTICEABLE, Pair, judge_pairs, lost_share
from .limits import held_words, of_conditions, with_causes
from .observe import PAIR, Data, Observations, is_label, level_names, levels, observe
from .result import log_size, size_words
from .runs import read_data, runs_of, states, table_of
from .transfer_limits import UNKNOWN
from .words import Headline, contrasts, factor_of, span

ORDER = ("placement", PAIR, "gateway_sku", "accelerated", "streams", "tcp_buffer_bytes")
"""Factors in the order of the paragraph; others come after the hosts' own."""
WIDE = 1.5
"""A level whose interval is wider than this ratio is not one figure."""
ALIKE = 1.03
"""Levels within this ratio are said together, with one figure."""
FEW = 6
"""Conditions whose figures are listed where no factor has a sentence."""
LISTED = 12
"""Of more levels than this a sentence has the range."""
OBVIOUS = 10.0
"""A difference of this size needs no sentence: the figures say it."""
LONG = 240
"""Runs of one condition from which on a stretch of time at another level is looked for."""
SMALL_US = 100.0
"""A difference of fewer microseconds is also said in microseconds."""
NOUNS = {
    "latency_oneway_us": "latency",
    "rtt_us": "round-trip time",
    "rtt_p50_us": "round-trip time",
    "throughput_bps": "throughput",
    "throughput_sent_bps": "throughput at the sender",
    "transaction_rate_per_s": "transaction rate",
}
DO = {
    "streams": "use several connections for bulk transfers",
    "tcp_buffer_bytes": "raise the TCP buffer limits on both ends",
    "accelerated": "keep it on",
    "gateway_sku": "the gateway is the limit of this path",
}
"""What to do where more of a factor is better."""
RAISES = {
    "streams": (
        "window",
        "receive window",
        "send buffer",
        "loss",
        "sender's CPU",
        "receiver's CPU",
    ),
    "tcp_buffer_bytes": ("window", "receive window", "send buffer"),
}
"""What more of a factor can raise; where something else is known to limit the transfer, it is not advised."""
_KIND = {"better": "good", "worse": "bad", "equivalent": "same", "inconclusive": "open"}


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead paragraph of an experiment.

    Attributes
    ----------
    lines : tuple of str
        A line for each factor, then notes on the family.
    family : Family
        The comparisons that it mentions; those of throughput with what limits both sides.
    contrasts : tuple of Contrast
        One for each comparison.
    declared : bool
        Whether the experiment declares them; if not, they were made by rule from the labels.
    recommendations : tuple of str
        What to do about each comparison, the same for all comparisons of a level; may be empty.
    """

    lines: tuple[str, ...]
    family: Family
    contrasts: tuple[Contrast, ...]
    declared: bool
    recommendations: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is a table of answers: what was declared, or any comparison by rule with enough rounds."""
        return self.declared or any(
            c.verdict not in ("no verdict", "exploratory") for c in self.family
        )

    def __str__(self) -> str:
        return " ".join(self.lines)

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        return Headline("\n".join(self.lines))._repr_markdown_()


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of two levels of a factor, in the words of the paragraph."""

    obs: Observations
    condition: str
    base: str
    kind: str
    """``good``, ``bad``, ``same``, ``open`` or ``none``."""
    ratio: float
    low: float
    high: float
    margin: float
    level: str
    base_level: str
    slice: str
    """Levels of the other factors."""
    index: int
    """Number of the comparison in the family."""
    where: str
    """What the slice begins with: a placement (``on``), or other levels (``with``)."""

    @property
    def size(self) -> float:
        """How large the effect is, whatever its direction."""
        return log_size(self.ratio)

    def effect(self, *, with_figures: bool = False) -> str:
        """``30 % less latency``; with figures: ``73 % less latency (147 to 39.8 µs)``."""
        obs, r = self.obs, self.ratio
        size, short = size_words(r), _noun(obs.metric)
        words = (
            f"{size} the {short}"
            if size.endswith("times")
            else f"{size} {'more' if r > 1 else 'less'} {short}"
        )
        before, after = (obs.value(c) for c in (self.base, self.condition))
        if with_figures:
            return f"{words} ({format_span(before, after, obs.unit)})"
        if obs.unit == "us" and max(before, after) < SMALL_US and r > 1:
            return f"{words} (+{format_value(after - before, obs.unit, 2)})"
        return words


def _cause(obs: Observations, condition: str) -> str:
    """What limits a condition; empty where that is no question."""
    one = of_conditions(obs).get(condition)
    return one.cause if one else ""


def _noun(metric: str) -> str:
    return NOUNS.get(metric, metric)


@dataclass(frozen=True, slots=True)
class Judged:
    """A comparison and the conditions that it is about; `two` is empty for a threshold."""

    index: int
    obs: Observations
    contrast: Contrast
    result: Comparison
    one: str
    two: str


@dataclass(slots=True)
class Paragraph:
    """What the paragraph has said so far, so that it says it once."""

    observed: list[Observations]
    judged: list[Judged]
    contrasts: Sequence[Contrast]
    lines: list[str] = field(default_factory=list)
    recommendations: dict[int, str] = field(default_factory=dict)
    margin_said: bool = False
    limit_said: bool = False


def lead_paragraph(
    data: Data,
    *,
    metric: str | None = None,
    margin: float | None = None,
    family: Sequence[Contrast] | None = None,
    judged: Sequence[Comparison] | None = None,
) -> Lead:
    """Return the lead paragraph of an experiment.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs or its folder.
    metric : str, optional
        Only this metric.
    family : sequence of Contrast, optional
        The contrasts to judge; default: those declared, else a family by rule (see `netperf_lib.analysis.families`).
    margin : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; default: as declared, else 0.05.
    judged : sequence of Comparison, optional
        The comparisons of `family`, if they are known.

    Returns
    -------
    Lead

    Examples
    --------
    >>> npl.analysis.lead_paragraph(exp.runs).lines[-1][:53]
    'Throughput is limited by: link on 5 of 13 conditions;'
    """
    runs = table_of(data)
    declared = [
        c for c in (contrasts(runs) if family is None else family) if metric in (None, c.metric)
    ]
    observed = of_main_tools(runs, metric, declared)
    pairs: list[Pair] = []
    if not declared:
        comparisons, pairs = judged_by_rule(observed, margin)
    elif judged is not None:
        comparisons = Family(tuple(judged))
    else:
        comparisons = compare(runs, contrasts=declared, margin=margin)
    used = declared or [pair.as_contrast() for pair in pairs]
    sides = (
        [_conditions(observed, c) for c in declared] if declared else [x.conditions for x in pairs]
    )
    rows = [
        Judged(i, obs, used[i], comparisons[i], one, two)
        for i, (obs, one, two) in enumerate(sides)
        if obs
    ]
    others = [] if declared else figures_only(observed, margin)
    for pair, comparison in zip(others, judge_pairs(others), strict=True):
        obs, one, two = pair.conditions
        if obs:
            rows.append(Judged(len(rows), obs, pair.as_contrast(), comparison, one, two))
    p = Paragraph(observed, rows, declared)
    p.lines += _thresholds(p)
    for name in sorted(dict.fromkeys(f for obs in observed for f in obs.factors), key=_position):
        p.lines += _of_factor(p, name)
    p.lines += [_of_one_condition(obs) for obs in observed if not obs.factors]
    p.lines += [line for obs in observed if not declared and (line := _by_other_tools(runs, obs))]
    if not p.lines:
        p.lines += [_plain(p, obs) for obs in observed]
    p.lines += filter(None, map(_lost, observed))
    for obs in observed:  # of all the conditions that `limits` lists
        every = observe(runs, obs.metric) if obs.where and obs.unit == "bps" else obs
        p.lines += filter(
            None, [held_words(list(of_conditions(every).values()), share=not p.limit_said)]
        )
    p.lines += _about_the_family(p, len(used), declared=bool(declared))
    p.lines += [] if any(states(runs)[0]) else ["No run is complete"]
    advice = tuple(p.recommendations.get(i, "") for i in range(len(used)))
    return Lead(
        tuple(f"{line}." for line in p.lines),
        with_causes(comparisons, sides),
        tuple(used),
        bool(declared),
        advice,
    )


def conclude(
    data: Data,
    *,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    margin: float | None = None,
) -> tuple[Family, Lead]:
    """The comparisons of one experiment, declared or by rule, and its lead paragraph; see `compare`.

    Raises UsageError if there is nothing to compare.
    """
    results = read_data(data, pattern)
    runs = runs_of(results, where)
    declared = [c for c in contrasts(runs) if metric in (None, c.metric)]
    if declared:
        family = compare(results, metric=metric, where=where, margin=margin)
        answered = within(results, declared, where or {})
        lead = lead_paragraph(runs, family=answered, judged=family[: len(answered)])
        return replace(family, comparisons=(*lead.family, *family[len(answered) :])), lead
    lead = lead_paragraph(runs, metric=metric, margin=margin)
    if not lead.family:
        notice = attached(runs).notice if LOG_NAME in runs else None
        said = " ".join(filter(None, [*lead.lines, notice]))
        raise UsageError(f"there is nothing to compare by rule. {said}")
    return replace(lead.family, notice=attached(runs).notice), lead


def opening(location: Location) -> Lead:
    """Return the lead paragraph of an experiment; for a data root, one line for each experiment, worst first.

    An experiment is worse than another one if more of its runs failed, then if it misses more thresholds.

    Examples
    --------
    >>> npl.analysis.opening("data/recorded/zones").judged
    True
    """
    results = read(located(location)[0])
    if isinstance(results, Results):
        return lead_paragraph(results.runs)
    rows = []
    for one in results:
        try:
            runs = one.runs
        except NotMeasured:
            rows.append((1.0, 0, f"{one.name}: nothing was measured yet"))
            continue
        failed = float((runs["status"] != "ok").mean())
        if failed == 1:
            rows.append((1.0, 0, f"{one.name}: no run is complete"))
            continue
        lead = lead_paragraph(runs)
        missed = sum(c.threshold is not None and c.verdict == "worse" for c in lead.family)
        started = runs["started_utc"].dropna()
        when = f" ({started.min():%-d %B %Y})" if len(started) else ""
        share = (
            f"{(runs['status'] != 'ok').sum()} of {plural(len(runs), 'run')} failed. "
            if failed
            else ""
        )
        rows.append((failed, missed, f"{one.name}{when}: {share}{' '.join(lead.lines[:2])}"))
    rows.sort(key=lambda row: (-row[0], -row[1], row[2]))
    return Lead(tuple(line for _, _, line in rows), Family(()), (), declared=False)


def _position(name: str) -> float:
    return ORDER.index(name) if name in ORDER else 2.5


def _conditions(
    observed: Sequence[Observations], contrast: Contrast
) -> tuple[Observations | None, str, str]:
    """The conditions of both sides of a contrast; none if one names no single condition: it is left to its page."""
    obs = next((obs for obs in observed if obs.metric == contrast.metric), None)
    one, two = (obs.condition(side) if obs else "" for side in (contrast.a, contrast.b))
    return (obs, one, two) if one and (two or contrast.b is None) else (None, "", "")


# -- figures -----------------------------------------------------------------------------------------------------------


def _level_name(obs: Observations, condition: str, name: str, among: Sequence[str]) -> str:
    """A level in the sentence of its factor: ``off``, ``125 MiB``, ``expressroute ErGw1AZ``."""
    if name == PAIR:
        ends = (
            w.removeprefix("zone ")
            for w in condition.split(", ")
            if "→" in w or w.startswith(("to ", "from "))
        )
        return next(ends, condition)
    level = obs.at(condition, name)
    if isinstance(level, bool):
        text = "on" if level else "off"
    elif level is None and name in FACTORS:
        planned = (obs.declaration.get("hosts") or {}).get("source", "imported") != "imported"
        text = "default" if planned or factor(name).null == "default" else "not stated"
    elif is_label(name):
        text = str(level)
    else:
        text, title = factor(name).level_words(level), factor(name).label
        text = text.replace(f" {title}", "") if title else text
    labels = [
        str(obs.at(condition, g))
        for g in obs.other_factors(name)
        if is_label(g)
        and obs.at(condition, g) is not None
        and len({obs.at(c, g) for c in among}) > 1
    ]
    return " ".join([text, *labels])


def _slice(obs: Observations, condition: str, name: str) -> str:
    """Levels of the other factors, of those that vary among the conditions in which the factor varies."""
    varying = obs.varying(name)
    named = [g for g in varying if obs.at(condition, g) is not None or len(varying) == 1]
    return ", ".join(factor(g).level_words(obs.at(condition, g)) for g in named)


def _alike(
    obs: Observations, conditions: Sequence[tuple[str, str]], *, ladder: bool
) -> list[tuple[list[str], list[float], str]]:
    """Group (name, condition) by like medians: names, medians, and the first condition; each of a ladder by itself."""
    groups: list[tuple[list[str], list[float], str]] = []
    for name, condition in conditions:
        value = obs.value(condition)
        near = [g for g in groups if max(value, *g[1]) <= ALIKE * min(value, *g[1])]
        if near and not ladder and not _range(obs, condition) and not _range(obs, near[0][2]):
            near[0][0].append(name)
            near[0][1].append(value)
        else:
            groups.append(([name], [value], condition))
    return groups


def _value(obs: Observations, values: Sequence[float], condition: str) -> str:
    """Write like medians as a span, or as one figure where they are written alike; a single run has two digits."""
    digits = 2 if obs.value(condition, "n") == 1 else 3
    low, high = min(values), max(values)
    alike = format_value(low, obs.unit, digits) == format_value(high, obs.unit, digits)
    return (
        format_value(low, obs.unit, digits) if alike else format_span(low, high, obs.unit, digits)
    )


def _figures(
    p: Paragraph, obs: Observations, conditions: Sequence[tuple[str, str]], *, ladder: bool = False
) -> str:
    """``ppg 39.7 µs, same-zone and cross-zone 57, cross-region 9.85 ms``: a unit is said where it changes."""
    if len(conditions) > LISTED:
        ranked = sorted(conditions, key=lambda row: obs.value(row[1]))
        span = _value(obs, [obs.value(c) for _, c in (ranked[0], ranked[-1])], ranked[0][1])
        return f"{span} on {len(ranked):,} levels (lowest {ranked[0][0]}, highest {ranked[-1][0]})"
    groups = _alike(obs, conditions, ladder=ladder)
    parts: list[str] = []
    last_unit = ""
    top = max(value for _, values, _ in groups for value in values)
    for names, values, condition in groups:
        text = _value(obs, values, condition)
        number, _, unit = text.rpartition(" ")
        share = (
            _share(p, obs, condition) if ladder or (max(values) == top and not p.limit_said) else ""
        )
        share += _range(obs, condition) if len(values) == 1 else ""
        if len(groups) == 1 and len(names) > 2:
            parts.append(f"{text} on all {len(names)}{share}")
        elif all("→" in name or "," in name for name in names):
            parts.append(f"{text} for {in_words(names)}{share}")
        else:
            colon = ":" if any(name[-1:].isdigit() for name in names) else ""  # "burst 1: 187 µs"
            parts.append(f"{in_words(names)}{colon} {number if unit == last_unit else text}{share}")
        last_unit = unit
    return ", ".join(parts)


def _range(obs: Observations, condition: str) -> str:
    """The range of the runs where the median stands for runs that differ widely; otherwise empty."""
    n, low, high, smallest, largest = (
        obs.value(condition, c) for c in "n low high smallest largest".split()
    )
    return (
        f" ({format_span(smallest, largest, obs.unit)} in {n:,.0f} runs)"
        if high > WIDE * low
        else ""
    )


def _share(p: Paragraph, obs: Observations, condition: str) -> str:
    """The share of the advertised bandwidth: in full the first time."""
    limit = obs.fact(condition, "advertised_bps")
    if obs.unit != "bps" or not isinstance(limit, int | float) or not limit > 0:
        return ""
    share = f"{100 * obs.value(condition) / limit:.0f} %"
    words = share if p.limit_said else f"{share} of the advertised {format_value(limit, 'bps')}"
    p.limit_said = True
    return f" ({words})"


# -- what is shown -----------------------------------------------------------------------------------------------------


def _findings(p: Paragraph, name: str) -> list[Finding]:
    """The comparisons between two levels of a factor; of what is switched on or raised, what more of it does."""
    rows = []
    for row in p.judged:
        obs, result, one, two = row.obs, row.result, row.one, row.two
        if (
            not two
            or name not in obs.factors
            or obs.at(one, name) == obs.at(two, name)
            or not obs.same(one, two, name, PAIR)
        ):
            continue
        kind, ratio, low, high = (
            _KIND.get(str(result.verdict), "none"),
            result.ratio,
            result.low,
            result.high,
        )
        less = factor(name).key(obs.at(one, name)) < factor(name).key(obs.at(two, name))
        if name in ("accelerated", "tcp_buffer_bytes") and less and ratio > 0:
            one, two = two, one
            ratio, low, high = 1 / ratio, 1 / high, 1 / low if low > 0 else math.inf
            kind = {"good": "bad", "bad": "good"}.get(kind, kind)
        among = obs.names if name == "placement" else []
        level, base_level = (_level_name(obs, c, name, among) for c in (one, two))
        where = "on" if obs.other_factors(name)[:1] == ["placement"] else "with"
        slice_ = _slice(obs, one, name)
        rows.append(
            Finding(
                obs,
                one,
                two,
                kind,
                ratio,
                low,
                high,
                result.margin,
                level,
                base_level,
                slice_,
                row.index,
                where,
            )
        )
    return rows


def _best_step(name: str, findings: list[Finding]) -> list[Finding]:
    """Of a ladder only the first level that gives as much as the best one speaks, and those that are worse."""
    steps = [
        x for x in findings if x.kind == "good" and isinstance(x.obs.at(x.condition, name), int)
    ]
    if name == "accelerated" or len({x.level for x in steps}) < 2:
        return findings
    reach = {
        level: max(x.size for x in steps if x.level == level)
        for level in dict.fromkeys(x.level for x in steps)
    }
    best = next(
        level for level, size in reach.items() if size >= max(reach.values()) - math.log(ALIKE)
    )
    return [x for x in findings if x.level == best or (x.kind == "bad" and x.level not in reach)]


def _conclusions(
    p: Paragraph, name: str, findings: list[Finding], *, with_figures: bool
) -> list[str]:
    """A sentence for each level: what its metrics show, and one recommendation; then what is not decided."""
    sentences: list[str] = []
    undecided: list[str] = []
    less: list[Finding] = []
    base = ""
    findings = _best_step(name, findings)
    for level in dict.fromkeys(x.level for x in findings):
        some = [x for x in findings if x.level == level]
        undecided += [_open_words(x) for x in some if x.kind == "open"]
        kinds = {x.kind for x in some}
        obvious = any(x.kind == "bad" and not 1 / OBVIOUS < x.ratio < OBVIOUS for x in some)
        if obvious and "good" not in kinds:
            continue
        if name == "streams" and kinds == {"bad"}:
            less += some
            continue
        if name == "streams" and (filled := _filled(some)):
            sentences.append(filled[0])
            p.recommendations |= {x.index: filled[1] for x in some}
            continue
        words = _effects(p, some, with_figures=with_figures)
        if name == PAIR and len({x.level for x in findings}) > 1:
            continue  # the figures of the pairs say it
        only_same = "same" in kinds and not kinds & {"good", "bad"}
        if not words or (only_same and ("open" in kinds or name != "placement")):
            continue
        advice = _recommendation(
            name, some, findings, [_cause(x.obs, x.base) for x in some if x.kind == "good"]
        )
        p.recommendations |= {
            x.index: advice[:1].upper() + advice[1:] for x in some if x.kind != "open"
        }
        against = (
            ""
            if some[0].base_level == base or name == "accelerated"
            else f" against {some[0].base_level}"
        )
        label = factor(name).label
        unnamed = level.endswith(("stream", "streams")) or name not in DO or is_label(name)
        subject = label if name == "accelerated" else level if unnamed else f"{level} {label}"
        sentences.append(f"{subject}{against}: {in_words(words)}{f'; {advice}' if advice else ''}")
        base = some[0].base_level
    if less:
        counts, sizes = (
            [_count(x.level) for x in less],
            [f"{100 * (1 - x.ratio):.0f} %" for x in less],
        )
        sentences.append(
            f"{in_words(counts)} streams carry {in_words(sizes)} less than {_count(less[0].base_level)}"
        )
    sentences += _in_these_runs(findings)
    if name not in ("placement", PAIR):
        sentences = [s[:1].upper() + s[1:] for s in sentences]
    return [*sentences, *([f"Not decided: {in_words(undecided)}"] if undecided else [])]


def _in_these_runs(findings: Sequence[Finding]) -> list[str]:
    """What too few runs show without a verdict: the largest difference of each metric."""
    sentences = []
    open_ones = [x for x in findings if x.kind == "none" and x.size > math.log(ALIKE)]
    for metric in dict.fromkeys(x.obs.metric for x in open_ones):
        x = max((x for x in open_ones if x.obs.metric == metric), key=lambda x: x.size)
        one, two = (int(x.obs.value(c, "n")) for c in (x.condition, x.base))
        if min(one, two) > 1:
            where = f" {x.where} {x.slice}" if x.slice else ""
            sentences.append(
                f"{x.level} against {x.base_level}: {x.effect()}{where} in these {one} and {two} runs"
            )
    return sentences


def _filled(some: Sequence[Finding]) -> tuple[str, str] | None:
    """Where a ladder of streams shows which number fills its path: that, what more cost, and what to do."""
    sentences = {}
    for x in some:
        obs = x.obs
        path = level_names(obs, [f for f in obs.by if f != "streams"])[x.condition]
        fit = saturation(obs, obs.metric).get(path)
        if (
            x.kind != "good"
            or fit is None
            or len(fit.levels) < 3
            or fit.enough in (None, max(fit.levels))
        ):
            return None
        sentences[x.slice if len(some) > 1 else ""] = filling_words(obs, path, fit), fit.enough
    words = "; ".join(
        f"{where}: {text}" if where else text for where, (text, _) in sentences.items()
    )
    counts = in_words(str(n) for n in dict.fromkeys(n for _, n in sentences.values()))
    return words, f"Use {counts} connections for bulk transfers"


def _count(level: str) -> str:
    return level.removesuffix(" streams").removesuffix(" stream")


def _open_words(x: Finding) -> str:
    condition = ", ".join(filter(None, [x.level, x.slice]))
    return f"{_noun(x.obs.metric)} of {condition} ({span(x.ratio, x.low, x.high, short=True)})"


def _effects(p: Paragraph, findings: Sequence[Finding], *, with_figures: bool) -> list[str]:
    """What a level does to each metric: what is better, what is worse, what is the same."""
    words: list[str] = []
    for kind in ("good", "bad", "same"):
        for metric in dict.fromkeys(x.obs.metric for x in findings if x.kind == kind):
            every = [x for x in findings if x.obs.metric == metric]
            some = sorted((x for x in every if x.kind == kind), key=lambda x: x.size)
            where = ""
            if len(some) < len(every) and some[0].slice:
                where = (
                    " otherwise"
                    if kind == "same" and words
                    else f" {some[0].where} {in_words(x.slice for x in some)}"
                )
            if kind == "same":
                margin = "" if p.margin_said else f" within {100 * some[0].margin:.0f} %"
                p.margin_said = True
                size = f"the same {_noun(metric)}{margin}"
            else:
                size = ("" if len(some) == 1 else "up to ") + some[-1].effect(
                    with_figures=with_figures
                )
            words.append(size + where)
    return words


def _recommendation(
    name: str, some: Sequence[Finding], findings: Sequence[Finding], held: Sequence[str]
) -> str:
    """The one recommendation for a level, from all its metrics; none that figures outside of the family contradict.

    `held` is what limits the baselines: more streams or buffers are advised against what they can raise.
    """
    good, bad, same = ([x for x in some if x.kind == kind] for kind in ("good", "bad", "same"))
    if worse := _contradictions(name, [*good, *same], findings):
        cause = (
            ": its gateway is the bottleneck"
            if worse[0].level in GATEWAYS and worse[0].obs.unit == "bps"
            else ""
        )
        return f"but {worse[0].effect()} {worse[0].where} {worse[0].slice} (exploratory){cause}"
    losses = [lost_share(x.obs, [x.condition]) for x in good if x.obs.unit == "bps"]
    if losses and max(losses) > NOTICEABLE:
        return f"but {format_value(max(losses), 'ratio')} of the datagrams are lost"
    if name == "bitrate" or (any(x.kind == "open" for x in some) and not good):
        return ""  # what was asked for is no gain
    better, worse_metrics = (in_words(_noun(x.obs.metric) for x in rows) for rows in (good, bad))
    if "throughput" in worse_metrics and some[0].level in GATEWAYS:
        return f"its gateway is the bottleneck{', but ' + better + ' gains' if good else ''}"
    if good and bad:
        return f"a choice between {better} and {worse_metrics}"
    if (
        good
        and name in RAISES
        and not any(c in (*RAISES[name], "", UNKNOWN) for h in held for c in h.split(", then "))
    ):
        return ""
    if good and name in DO:
        where = (
            f" {good[0].where} {in_words(x.slice for x in good)}" if same and good[0].slice else ""
        )
        return DO[name] + where
    if good:
        large = any(x.size > math.log1p(x.margin) for x in good)
        return f"use it where {better} matters" if large else ""
    return "" if bad else "no disadvantage found"


def _contradictions(
    name: str, some: Sequence[Finding], findings: Sequence[Finding]
) -> list[Finding]:
    """Slices outside of the family in which the level is worse by more than twice the margin."""
    rows = []
    for x in some:
        obs = x.obs
        judged = {y.condition for y in findings if y.obs is obs}
        for c in obs.names:
            for d in obs.names:
                levels_fit = (obs.at(c, name), obs.at(d, name)) == (
                    obs.at(x.condition, name),
                    obs.at(x.base, name),
                )
                if c == d or c in judged or not levels_fit or not obs.same(c, d, name, PAIR):
                    continue
                ratio = obs.value(c) / obs.value(d)
                if (
                    ratio if METRICS[obs.metric].better == "lower" else 1 / ratio
                ) > 1 + 2 * x.margin:
                    rows.append(
                        replace(x, condition=c, base=d, ratio=ratio, slice=_slice(obs, c, name))
                    )
    return rows


# -- sentences ---------------------------------------------------------------------------------------------------------


def _thresholds(p: Paragraph) -> list[str]:
    """``9 of 9 runs are below 1 ms (largest 411 µs)``: contrasts with one limit are counted together."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for row in p.judged:
        if not row.two:
            groups.setdefault((row.contrast.metric, row.result.names[1]), []).append(row)
    sentences = []
    for (_, limit), members in groups.items():
        obs, contrast, result = members[0].obs, members[0].contrast, members[0].result
        conditions = [row.one for row in members]
        below = contrast.below is not None
        t = obs.table
        values = t.loc[t["condition"].isin(conditions) & (t["state"] == "ok"), "value"].to_numpy(
            float
        )
        if not values.size:
            continue
        hits = int(
            (values < result.threshold).sum() if below else (values >= result.threshold).sum()
        )
        limit = limit.removeprefix("below ").removeprefix("at least ")
        limit = f"{contrast.at_least} of {contrast.of}" if contrast.of else limit
        where = "" if len(obs.names) == len(members) else f" on {in_words(conditions)}"
        extreme = format_value(float(values.max() if below else values.min()), obs.unit)
        verb = "are below" if below else "reach"
        word = "largest" if below else "smallest"
        sentences.append(
            f"{hits:,} of {values.size:,} runs{where} {verb} {limit} ({word} {extreme})"
        )
    return sentences


def _shown_conditions(
    p: Paragraph, obs: Observations, name: str, findings: Sequence[Finding]
) -> list[str]:
    """The conditions whose figures the sentence of a factor gives; empty where another sentence has them."""
    if name in ("placement", PAIR) or "placement" not in obs.factors:
        selected = usual(obs, name, [c for c in p.contrasts if factor_of(c) == name])
        # on another path a level says nothing about the factor
        return [
            c
            for c in selected
            if name == PAIR or any(c != d and obs.same(c, d, name) for d in selected)
        ] or selected
    decided = [x for x in findings if x.obs is obs and x.kind != "same"]
    if not decided or is_label(name):
        return []
    largest = max(x.size for x in decided)
    clear = max(
        (x for x in decided if x.size > largest - math.log(ALIKE)),
        key=lambda x: obs.value(x.condition),
    )
    return [c for c in obs.names if c == clear.base or obs.same(c, clear.base, name, PAIR)]


def _of_factor(p: Paragraph, name: str) -> list[str]:
    """The line of a factor: its figures, and what they show."""
    findings = _findings(p, name)
    clauses: list[str] = []
    others = ""
    with_figures = False
    for obs in (obs for obs in p.observed if name in obs.factors):
        main = _shown_conditions(p, obs, name, findings)
        if not main or (name != "placement" and len({obs.at(c, name) for c in main}) == 1):
            continue
        decided = [x for x in findings if x.obs is obs and x.kind in ("good", "bad")]
        if len(main) == 2 and name not in ("placement", PAIR) and decided:
            with_figures = True  # two levels: the figures stand in the conclusion
            others = _other_slices(p, obs, name, decided[0].condition, findings)
            continue
        ladder = len(main) > 3 and name not in ("placement", PAIR) and _is_numeric(obs, main, name)
        main = _steps(obs, main) if ladder else main
        clauses.append(
            f"{_heading(obs, name, main)} {_figures(p, obs, _named(obs, main, name), ladder=ladder)}"
        )
        if name == "placement" and (full := _at_its_best(obs, main)):
            clauses.append(
                f"{_heading(obs, name, full)} {_figures(p, obs, _named(obs, full, name))}"
            )
    zones = any("client_zone" in obs.by for obs in p.observed)
    head = (
        ("Zones" if zones else "Pairs")
        if name == PAIR
        else factor(name).label or name.replace("_", " ")
    )
    line = [f"{head[:1].upper() + head[1:]}: {'; '.join(clauses)}"] if clauses else []
    conclusions = _conclusions(p, name, findings, with_figures=with_figures)
    if others and conclusions:
        conclusions[0] += f" ({others})"
    return [". ".join(line + conclusions)] if line or conclusions else []


def _at_its_best(obs: Observations, main: Sequence[str]) -> list[str]:
    """The number of streams that carries most over all placements of `main`, if it carries twice as much as theirs."""
    if "streams" not in obs.factors or obs.unit != "bps":
        return []
    slices = []
    for level in dict.fromkeys(obs.at(c, "streams") for c in obs.names):
        some = [
            [
                c
                for c in obs.names
                if obs.at(c, "streams") == level and obs.same(c, d, "streams", PAIR)
            ][:1]
            for d in main
        ]
        slices.append([c for found in some for c in found])
    complete = [s for s in slices if len(s) == len(main)]
    best = max(complete, key=lambda s: sum(map(obs.value, s)), default=[])
    return (
        best
        if best and median(obs.value(b) / obs.value(c) for b, c in zip(best, main, strict=True)) > 2
        else []
    )


def _is_numeric(obs: Observations, conditions: Sequence[str], name: str) -> bool:
    return all(isinstance(obs.at(c, name), int | None) for c in conditions)


def _steps(obs: Observations, conditions: Sequence[str]) -> list[str]:
    """Of a ladder the first step, the first that gives as much as the best, and the last if it gives less.

    If all give the same: the first and the last.
    """
    top = max(map(obs.value, conditions))
    best = next(c for c in conditions if obs.value(c) >= top / ALIKE)
    less = obs.value(conditions[-1]) < 0.99 * top or best == conditions[0]
    return list(dict.fromkeys([conditions[0], best, *(conditions[-1:] if less else [])]))


def _named(obs: Observations, conditions: Sequence[str], name: str) -> list[tuple[str, str]]:
    names = [_level_name(obs, c, name, conditions) for c in conditions]
    return [(n if names.count(n) == 1 else c, c) for n, c in zip(names, conditions, strict=True)]


def _heading(obs: Observations, name: str, main: Sequence[str]) -> str:
    """The metric and the levels at which it is shown: ``throughput (cross-region, 1 stream)``."""
    held = [
        g
        for g in obs.other_factors(name)
        if len({obs.at(c, g) for c in obs.names}) > 1 and len({obs.at(c, g) for c in main}) == 1
    ]
    levels = [(g, obs.at(main[0], g)) for g in held]
    words = [
        str(level) if is_label(g) else factor(g).level_words(level)
        for g, level in levels
        if level not in (None, factor(g).ordinary)
    ]
    words += [str(obs.where["test"])] if "test" in obs.where else []
    ends = level_names(obs, [f for f in obs.by if f not in obs.factors])
    if (
        name != PAIR
        and PAIR in obs.factors
        and "placement" not in obs.factors
        and len({ends[c] for c in main}) == 1
    ):
        words.insert(0, ends[main[0]])
    return _noun(obs.metric) + (f" ({', '.join(words)})" if words else "")


def _other_slices(
    p: Paragraph, obs: Observations, name: str, condition: str, findings: Sequence[Finding]
) -> str:
    """Figures of a level in slices outside of the family: ``125 MiB on cross-region 1.92 Gbit/s``."""
    judged = {x.condition for x in findings}
    others = [
        c
        for c in obs.names
        if obs.at(c, name) == obs.at(condition, name)
        and c not in judged
        and _slice(obs, c, name)
        and any(d != c and obs.same(c, d, name, PAIR) for d in obs.names)
    ]
    if not others:
        return ""
    figures = _figures(p, obs, [(_slice(obs, c, name), c) for c in others])
    return f"{_level_name(obs, condition, name, others)} on {figures}"


def _plain(p: Paragraph, obs: Observations) -> str:
    """The figures of the first conditions, where no factor has a sentence."""
    some = [(c, c) for c in obs.names[:FEW]]
    others = len(obs.names) - len(some)
    words = _noun(obs.metric)
    return f"{words[:1].upper()}{words[1:]}: {_figures(p, obs, some)}{f' and {others} more conditions' if others else ''}"


def _for(name: str) -> str:
    """``for udp_lat``, ``to 127.0.0.1``: a condition that begins with its direction needs no other word."""
    return name if name.startswith(("to ", "from ")) else f"for {name}"


def _of_one_condition(obs: Observations) -> str:
    (condition,) = obs.names
    n, median_, smallest, largest = (
        obs.value(condition, c) for c in ("n", "median", "smallest", "largest")
    )
    span = f" ({format_span(smallest, largest, obs.unit)} in {n:,.0f} runs)" if n > 1 else ""
    name = " ".join(str(v) for v in obs.where.values() if v is not None) or condition
    name = str(obs.fact(condition, "tool") or name) if name == "all runs" else name
    return f"{name}: {_noun(obs.metric)} {format_value(median_, obs.unit)}{span}{_incident(obs)}"


def _by_other_tools(runs: pd.DataFrame, obs: Observations) -> str:
    """``Throughput by other tools or tests: 1.2 Gbit/s for TCP, ntttcp``: what nothing is compared with."""
    means = {name: level for name, level in obs.where.items() if name in ("tool", "test")}
    every = observe(runs_with(runs, obs.metric), obs.metric)
    rows = levels(every).drop(list(every.matching(means)))
    rows = rows[rows["n"] > 0] if means else rows[:0]
    if rows.empty:
        return ""
    figures = [
        f"{format_value(float(v), obs.unit, 3)} {_for(str(name))}"
        for name, v in rows["median"][:FEW].items()
    ]
    others = f" and {len(rows) - FEW} more conditions" if len(rows) > FEW else ""
    return f"{_noun(obs.metric).capitalize()} by other tools or tests: {'; '.join(figures)}{others}"


def _incident(obs: Observations) -> str:
    """The clearest change of level in a long series, as the page over time has it."""
    if len(obs.complete) < LONG or obs.complete["started_utc"].isna().any():
        return ""
    points = [p for some in ask_history(obs).changes.values() for p in some]
    clear = max(points, key=lambda p: abs(math.log(p.ratio)), default=None)
    return f"; {clear.words(obs.metric)}" if clear else ""


def _lost(obs: Observations) -> str:
    """``Datagrams lost: 37 % on cross-zone (80 Mbit/s sent, 48.9 Mbit/s received)``: the conditions that lose most."""
    if obs.unit != "bps":
        return ""
    losses = {c: loss for c in obs.names if (loss := lost_share(obs, [c])) > NOTICEABLE}
    clauses = []
    for c in sorted(losses, key=losses.__getitem__, reverse=True)[: FEW // 2]:
        received, sent = obs.value(c), obs.column("throughput_sent_bps", [c]).median()
        both = (
            f" ({format_value(sent, 'bps')} sent, {format_value(received, 'bps')} received)"
            if sent > received
            else ""
        )
        clauses.append(f"{format_value(losses[c], 'ratio')} on {c}{both}")
    uncertain = (
        f"; more than {format_value(NOTICEABLE, 'ratio')} on {len(losses) - FEW // 2} more"
        if len(losses) > FEW // 2
        else ""
    )
    return f"Datagrams lost: {'; '.join(clauses)}{uncertain}" if clauses else ""


def _about_the_family(p: Paragraph, size: int, *, declared: bool) -> list[str]:
    """How many rounds would do where there are too few, and which comparisons were made by rule."""
    if any(LOG_NAME in obs.by for obs in p.observed):
        return ["What only the names of the logs tell apart is not judged: label them"]
    counts = [int(n) for obs in p.observed for n in (obs.value(c, "n") for c in obs.names)]
    needed = rounds_required(ALPHA, max(1, size))
    decided = any(row.result.verdict not in ("no verdict", "exploratory") for row in p.judged)
    if counts and max(counts) < needed and not decided:
        n = (
            plural(max(counts), "run")
            if min(counts) == max(counts)
            else f"{min(counts)} to {max(counts)} runs"
        )
        return [f"{n} per condition: figures but no verdicts ({needed} rounds would be enough)"]
    if size and not declared:
        return [f"{plural(size, 'comparison')} by rule: every level against its baseline"]
    return []
