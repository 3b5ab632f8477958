"""The lead paragraph: what was measured in figures, factor by factor, and what of it is shown.

The line of a factor has the figures of its levels, a sentence for each two levels of which
something is settled, and what is not decided. Every word of a comparison is made from the
comparison; what was observed gives the figures.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..data.door import Readable, read
from ..data.load import Results
from ..errors import NotMeasured
from ..experiment.factors import LOG_NAME
from ..experiment.model import Contrast
from ..experiment.placements import GATEWAYS
from ..metrics import (
    ALPHA,
    format_span,
    format_value,
    in_words,
    plural,
    rounds_required,
)
from .compare import (
    judge_declared,
    of_main_tools,
    other_factors,
    questions_by_rule,
    usual,
)
from .judging import NOTICEABLE, judge_questions, lost_share
from .limits import limits_words, of_conditions
from .observe import Observations, observe
from .runs import PAIR, Data, Levels, measurement, varying
from .series import ask_history
from .streams import filled
from .verdicts import Comparison, Family, factor_of
from .words import (
    TIMES,
    UNDECIDED,
    UNKNOWN,
    Line,
    capital,
    label,
    log_size,
    percent,
    quantity,
    size_words,
    span,
    unit_of,
)

LISTED = 12
"""Of more levels than this a sentence has the lowest and the highest."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead paragraph of an experiment.

    Attributes
    ----------
    lines : tuple of Line
        One for each factor, then notes on the family.
    family : Family
        The comparisons that it mentions; those of throughput with what limits both sides.
    declared : bool
        Whether the experiment declares them; if not, they were made by rule from the labels.
    """

    lines: tuple[Line, ...]
    family: Family = field(default_factory=Family)
    declared: bool = False

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """What each comparison was asked as."""
        return tuple(c.question.as_contrast() for c in self.family)

    @property
    def judged(self) -> bool:
        """Whether there is a table of answers: what was declared, or enough rounds for the rule."""
        return self.declared or self.family.decided

    def __str__(self) -> str:
        return " ".join(self.lines)

    def _repr_markdown_(self) -> str:
        return "\n>\n".join(line._repr_markdown_() for line in self.lines)


def lead_paragraph(
    data: Data,
    *,
    metric: str | None = None,
    where: Levels | None = None,
    pattern: str | None = None,
    margin: float | None = None,
) -> Lead:
    """Return the lead paragraph of an experiment, and the comparisons behind it.

    Declared, else by rule.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs or its folder.
    metric : str, optional
        Only this metric.
    where, pattern : optional
        Only runs with these levels; and the pattern of the paths of raw logs. See
        `netperf_lib.compare`.
    margin : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; default: as declared, else 0.05.

    Returns
    -------
    Lead

    Examples
    --------
    >>> npl.analysis.lead_paragraph(exp).lines[-2][:64]
    'Limits: The send buffer limits throughput on 5 of 13 conditions.'
    """
    whole = measurement(data, pattern)
    source = whole.only(where)
    every = (*whole.contrasts, *whole.added)
    contrasts = [c for c in every if metric in (None, c.metric)]
    observed = of_main_tools(source, metric, contrasts)
    if contrasts:
        family = judge_declared(whole, metric, where, margin)
    else:
        family = judge_questions(questions_by_rule(observed, margin), source)
    lines = [("", text) for text in _thresholds(family)]
    by_factor = dict[str, list[Comparison]]()
    for obs in observed:
        for name in obs.factors:
            by_factor[name] = []
    for c in family:
        if c.threshold is None:
            by_factor.setdefault(c.factor, []).append(c)
    for name, about in by_factor.items():
        title = "paths" if name == PAIR else label(name)
        asked = [c for c in contrasts if factor_of(c) == name]
        sentences = [*_figures(observed, name, asked), *_conclusions(about)]
        lines.append((capital(title), " ".join(sentences)))
    for obs in observed:
        if not obs.factors:
            [condition] = obs.names
            lines.append((condition, _level(obs, condition)))
        if obs.unit == "bps":
            limited = of_conditions(observe(source, obs.metric) if obs.where else obs)
            if (limited["cause"] != UNKNOWN).any():
                lines.append(("Limits", limits_words(limited)))
    lines.append(("", _notes(observed, family, declared=bool(contrasts))))
    if source.complete.empty:
        lines.append(("", "No run is complete."))
    return Lead(
        lines=tuple(Line(topic, text) for topic, text in lines if text),
        family=family,
        declared=bool(contrasts),
    )


def opening(location: Readable) -> Lead:
    """Return the lead paragraph of an experiment; of several a line for each.

    Those of which the largest share of runs failed come first.

    Examples
    --------
    >>> npl.analysis.opening("data/recorded/zones").judged
    True
    """
    results = read(location)
    if not results.parts:
        return lead_paragraph(results)
    lines = sorted(map(_opening, results.parts))
    return Lead(tuple(line for _, line in lines))


def _opening(one: Results) -> tuple[float, Line]:
    """Return the share of runs that are complete, and the line of an experiment."""
    try:
        runs = measurement(one).runs
    except NotMeasured:
        return 0.0, Line(one.name, "Nothing was measured yet.")
    words: list[str] = [*lead_paragraph(one).lines[:2]]
    good = runs["status"] == "ok"
    if not good.all():
        words.insert(0, f"{(~good).sum()} of {plural(len(runs), 'run')} failed.")
    topic, started = one.name, runs["started_utc"].min()
    if not pd.isna(started):
        topic += f" ({started:%-d %B %Y})"
    return float(good.mean()), Line(topic, " ".join(words))


# -- what was measured -----------------------------------------------------------------------------


def _thresholds(family: Family) -> list[str]:
    """Return ``9 of 9 runs are below 1 ms (largest 411 µs).``, a sentence for each threshold."""
    groups = defaultdict[tuple[Observations, str], list[Comparison]](list)
    for c in family:
        q = c.question
        if c.threshold is not None and q.obs is not None and q.a:
            groups[q.obs, c.names[1]].append(c)
    sentences = []
    for (obs, bound), met_by in groups.items():
        names = [c.question.a for c in met_by]
        values = obs.complete.set_index("condition").loc[names, "value"]
        met = values < met_by[0].threshold
        extreme = f"largest {format_value(values.max(), obs.unit)}"
        if met_by[0].better == "higher":
            met = ~met
            extreme = f"smallest {format_value(values.min(), obs.unit)}"
        where = "" if len(names) == len(obs.names) else f" on {in_words(names)}"
        sentences.append(
            f"{met.sum():,} of {met.size:,} runs{where} are {bound} ({extreme})."
        )
    return sentences


def _figures(
    observed: Iterable[Observations], name: str, contrasts: Sequence[Contrast]
) -> list[str]:
    """Return the figures of the levels of a factor, and how many streams fill a path."""
    sentences = []
    for obs in observed:
        if name in obs.factors:
            sentences += _levels(obs, name, usual(obs, name, contrasts))
            sentences += filled(obs) if name == "streams" else []
    return sentences


def _levels(obs: Observations, name: str, shown: Sequence[str]) -> list[str]:
    """Return ``Throughput (1 stream) is 7.6 Gbit/s (ppg), 727 Mbit/s (cross-region).``

    What the largest is of an advertised bandwidth follows. Empty where no level is comparable.
    """
    apart = varying(obs.facts.loc[[*shown]].astype(str), obs.by)
    if not apart:
        return []
    called, head = obs.called(apart), capital(quantity(obs.metric))
    shared = [one for one in other_factors(obs, name) if one in {*obs.apart} - {*apart}]
    if shared:
        head += f" ({obs.called(shared)[shown[0]]})"
    figures = {c: f"{format_value(obs.value(c), obs.unit)} ({called[c]})" for c in shown}
    least, most = min(shown, key=obs.value), max(shown, key=obs.value)
    text = ", ".join(figures.values())
    if len(shown) > LISTED:
        text = f"{figures[least]} to {figures[most]} on {len(shown):,} levels"
    sentences = [f"{head} is {text}."]
    advertised = obs.at(most, "advertised_bps")
    if obs.unit == "bps" and isinstance(advertised, int | float) and advertised > 0:
        share = 100 * obs.value(most) / advertised
        whole = format_value(advertised, "bps")
        sentences.append(f"The most is {share:.0f} % of the advertised {whole}.")
    return sentences


def _level(obs: Observations, condition: str) -> str:
    """Return ``Round-trip time 48 µs (46.6 to 49.3 µs in 1,320 runs).``

    The clearest change of its level follows.
    """
    figures = obs.levels.loc[condition].to_dict()
    text = f"{capital(quantity(obs.metric))} {format_value(figures['median'], obs.unit)}"
    if figures["n"] > 1:
        extremes = format_span(figures["smallest"], figures["largest"], obs.unit)
        text += f" ({extremes} in {figures['n']:,.0f} runs)"
    if obs.runs["started_utc"].notna().any():
        changes = ask_history(obs).changes.get(condition, [])
        if changes:
            clearest = max(changes, key=lambda change: log_size(change.ratio))
            text += f". {capital(clearest.words(obs.metric))}"
    return f"{text}."


# -- what is shown ---------------------------------------------------------------------------------


def _conclusions(comparisons: Iterable[Comparison]) -> list[str]:
    """Return a sentence for each two levels, then what is not decided."""
    asked: Counter[tuple[Any, str]] = Counter()
    contexts: dict[Any, dict[tuple[str, str], list[str]]] = defaultdict(dict)
    at_gateway = set()
    undecided = []
    for c in comparisons:
        asked[c.names, c.quantity] += 1
        if c.settled:
            key = c.quantity, _effect(c)
            contexts[c.names].setdefault(key, []).append(c.context)
        elif c.verdict in UNDECIDED and math.isfinite(c.high):
            interval = span(c.ratio, c.low, c.high, short=True)
            undecided.append(f"{c.quantity} of {c.label} ({interval})")
        if _shows_gateway(c):
            at_gateway.add(c.names)
    sentences = []
    for names, found in contexts.items():
        effects = []
        for (measured, effect), where in found.items():
            # where it holds goes without saying if it holds of all
            if len(where) < asked[names, measured]:
                effect += f" ({'; '.join(where)})"
            effects.append(effect)
        sentences.append(f"{capital(names[0])} against {names[1]}: {in_words(effects)}.")
        if names in at_gateway:
            sentences.append("The gateway is the limit.")
    if undecided:
        sentences.append(f"Not decided: {'; '.join(undecided)}.")
    return sentences


def _effect(c: Comparison) -> str:
    """Return ``32 % less one-way latency``, ``the same throughput``."""
    if c.verdict == "equivalent":
        return f"the same {c.quantity}"
    if not 0 < c.ratio < math.inf:
        a, b = (format_value(value, unit_of(c.metric)) for value in c.medians)
        return f"{c.quantity} {a} for {b}"
    size = size_words(c.ratio)
    if c.ratio >= TIMES:
        return f"{size} the {c.quantity}"
    text = f"{size} {'more' if c.ratio > 1 else 'less'} {c.quantity}"
    q = c.question
    if q.obs is not None and c.metric.startswith("throughput"):
        lost = lost_share(q.obs, q.a)
        if lost > NOTICEABLE:
            text += f" with {percent(lost)} of the datagrams lost"
    return text


def _shows_gateway(c: Comparison) -> bool:
    """Return whether a comparison shows that a gateway limits a path."""
    q = c.question
    if q.obs is None or not c.metric.startswith("throughput"):
        return False
    changed = c.factor == "gateway_sku" and c.verdict in ("better", "worse")
    slower = c.factor == "placement" and c.verdict == "worse"
    return (changed or slower) and q.obs.at(q.a, "placement") in GATEWAYS


def _notes(observed: Sequence[Observations], family: Family, *, declared: bool) -> str:
    """Return what the same means, how many rounds would do, and how comparisons were made."""
    if any(LOG_NAME in obs.by for obs in observed):
        return "What only the names of the logs tell apart is not judged: label them."
    paired = all(c.paired for c in family)
    needed = rounds_required(ALPHA, max(1, len(family)), paired=paired)
    most = max((int(obs.levels["n"].max()) for obs in observed), default=needed)
    if most < needed and not family.decided:
        enough = f"{needed} {'rounds' if paired else 'runs each'} would be enough"
        n = plural(most, "run")
        return f"{n} per condition: figures but no verdicts ({enough})."
    notes = []
    margins = {c.margin for c in family if c.verdict == "equivalent"}
    if margins:
        notes.append(f"The same: within {in_words(map(percent, sorted(margins)))}.")
    if family and not declared:
        count = plural(len(family), "comparison")
        notes.append(f"{count} by rule: every level against its baseline.")
    return " ".join(notes)
