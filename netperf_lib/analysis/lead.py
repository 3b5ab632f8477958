"""The lead paragraph.

What was measured in figures, factor by factor, what of it is shown, and what to do.

`Finding` is a row of the table behind it: a comparison of two levels of one factor. The line of a
factor has the figures first, then a sentence for each level and what to do about it, and last what
is not decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pandas as pd

from ..data.door import read
from ..data.files import Location
from ..data.load import Results
from ..errors import NotMeasured
from ..experiment.factors import FACTORS, LOG_NAME, factor
from ..experiment.model import Contrast
from ..experiment.placements import GATEWAYS
from ..metrics import (
    ALPHA,
    METRICS,
    format_span,
    format_value,
    in_words,
    plural,
    rounds_required,
)
from .caveats import NOTICEABLE, lost_share
from .compare import judge_by_rule, judge_declared
from .history import ask_history
from .limits import limit_sentences, of_conditions
from .observe import Observations, is_label, level_names, observe
from .rule import of_main_tools, other_factors, usual
from .runs import PAIR, Data, measurement, states
from .streams import filled
from .verdicts import Comparison, Family, Question, declared_question, factor_of
from .words import Words, capital, log_size, size_words, span, value_words

FACTOR_ORDER = (
    "placement",
    PAIR,
    "gateway_sku",
    "accelerated",
    "streams",
    "tcp_buffer_bytes",
)
"""Factors in the order of the paragraph; others come after the hosts' own."""
WORDS = 25
"""Words that a sentence has at most."""
NEGLIGIBLE_RATIO = 1.03
"""Levels within this ratio are said together, with one figure."""
FEW = 6
"""Conditions that are named one by one."""
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
ABBREVIATIONS = {
    "ppg": "proximity placement group",
    "vpn": "virtual private network",
    "standard-lb": "load balancer",
}
"""Placements that are written out where they first stand."""


def abbreviations(text: str, known: Mapping[str, str] = ABBREVIATIONS) -> str:
    """Return the abbreviations in a text with what they stand for; empty if there are none."""
    used = (name for name in known if re.search(rf"\b{name}\b", text))
    return "; ".join(f"{name}: {known[name]}" for name in used)


PREPOSITIONS = {"placement": "on", PAIR: "for"}
"""What a level of a factor stands behind; any other level stands before its figure."""
DECIDED = ("better", "worse")


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead paragraph of an experiment.

    Attributes
    ----------
    lines : tuple of Words
        One for each factor, then notes on the family.
    family : Family
        The comparisons that it mentions; those of throughput with what limits both sides.
    contrasts : tuple of Contrast
        One for each comparison.
    declared : bool
        Whether the experiment declares them; if not, they were made by rule from the labels.
    recommendations : tuple of str
        What to do about each comparison, the same for all comparisons of a level; may be empty.
    """

    lines: tuple[Words, ...]
    family: Family = field(default_factory=lambda: Family(()))
    contrasts: tuple[Contrast, ...] = ()
    declared: bool = False
    recommendations: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is a table of answers: what was declared, or enough rounds for the rule."""
        return self.declared or _is_decided(self.family)

    def __str__(self) -> str:
        return " ".join(self.lines)

    def _repr_markdown_(self) -> str:
        return Words.lead(self.lines).shown


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of two levels of a factor, all others being equal; `index` is its number."""

    name: str
    obs: Observations
    condition: str
    base: str
    result: Comparison
    index: int

    @property
    def verdict(self) -> str:
        """The verdict on the level."""
        return str(self.result.verdict)

    @property
    def size(self) -> float:
        """How large the effect is, whatever its direction."""
        return log_size(self.result.ratio)

    @property
    def noun(self) -> str:
        """The metric in a sentence."""
        return _noun(self.obs)

    def level(self, condition: str = "") -> str:
        """Return the level of a condition, or of the first one, in a sentence."""
        return _level_name(
            self.obs, condition or self.condition, self.name, self.obs.names
        )

    @property
    def slice(self) -> str:
        """Levels of the other factors, of those that vary where this one varies."""
        obs, name = self.obs, self.name
        wide = {c for c, _ in _alike_but(obs, obs.names, name, PAIR)}
        varying = [f for f in other_factors(obs, name) if _varies(obs, wide, f)]
        levels = {f: obs.at(self.condition, f) for f in varying}
        named = [f for f in varying if levels[f] is not None or len(varying) == 1]
        return ", ".join(factor(f).level_words(levels[f]) for f in named)

    def where(self, findings: Sequence[Finding]) -> str:
        """Return the end of a sentence about some slices: `` on ppg``, `` with 16 streams``."""
        word = "on" if other_factors(self.obs, self.name)[:1] == ["placement"] else "with"
        return f" {word} {_listed([x.slice for x in findings])}" if self.slice else ""

    def effect(self, *, with_figures: bool = False) -> str:
        """Return ``30 % less latency``; with figures: ``73 % less latency (147 to 39.8 µs)``."""
        unit, size, more = (
            self.obs.unit,
            size_words(self.result.ratio),
            self.result.ratio > 1,
        )
        how = "the" if size.endswith("times") else "more" if more else "less"
        before, after = map(self.obs.value, (self.base, self.condition))
        figures = ""
        if with_figures:
            figures = f" ({format_span(before, after, unit)})"
        elif unit == "us" and after < SMALL_US and more:
            figures = f" (+{format_value(after - before, unit, 2)})"
        return f"{size} {how} {self.noun}{figures}"

    def elsewhere(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the same two levels in slices outside of the family."""
        obs, found = self.obs, []
        levels = [obs.at(c, self.name) for c in (self.condition, self.base)]
        judged = {x.condition for x in findings if x.obs is obs}
        for a, b in _alike_but(obs, obs.names, self.name, PAIR):
            if a not in judged and [obs.at(a, self.name), obs.at(b, self.name)] == levels:
                result = replace(self.result, ratio=obs.value(a) / obs.value(b))
                found.append(replace(self, condition=a, base=b, result=result))
        return found


@dataclass(slots=True)
class Writer:
    """Writes sentences of at most `WORDS` words, and says once what is said once."""

    lines: list[Words] = field(default_factory=list)
    advice: dict[int, str] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def first(self, what: str) -> bool:
        """Return whether this is said for the first time."""
        new = what not in self.said
        self.said.add(what)
        return new

    def advise(self, findings: Iterable[Finding], advice: str) -> None:
        """Keep what to do about some comparisons."""
        decided = [x.index for x in findings if x.verdict != "inconclusive"]
        self.advice |= dict.fromkeys(decided, capital(advice))

    def add(self, topic: str, sentences: Sequence[str]) -> None:
        """Add a line, unless it is empty."""
        if sentences:
            self.lines.append(Words.line(topic, " ".join(sentences)))

    def written_out(self, text: str) -> str:
        """Return the text with each abbreviation written out where it first stands."""
        for name, words in ABBREVIATIONS.items():
            alone = rf"(?<![\w-]){name}(?![\w-])"
            if re.search(alone, text) and self.first(name):
                text = re.sub(alone, f"{name} ({words})", text, count=1)
        return text

    def sentences(
        self,
        head: str,
        parts: Iterable[str],
        join: Callable[[Sequence[str]], str] = ", ".join,
    ) -> list[str]:
        """Return the parts behind their head, in as many sentences as they need."""
        groups: list[tuple[str, list[str]]] = [(self.written_out(head), [])]
        for part in map(self.written_out, parts):
            first, group = groups[-1]
            if group and len(" ".join([first, *group, part]).split()) > WORDS:
                groups.append(("Also ", group := []))
            group.append(part)
        return [f"{capital(first + join(group))}." for first, group in groups if group]

    def each(self, texts: Iterable[str]) -> list[str]:
        """Return each text as a sentence of its own."""
        return [f"{capital(self.written_out(text))}." for text in texts]


def lead_paragraph(
    data: Data,
    *,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
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
    >>> npl.analysis.lead_paragraph(exp).lines[-1][:64]
    'Limits: The send buffer limits throughput on 5 of 13 conditions.'
    """
    whole = measurement(data, pattern)
    source = whole.only(where)
    contrasts = (*whole.contrasts, *whole.added)
    used = [c for c in contrasts if metric in (None, c.metric)]
    observed = of_main_tools(source, metric, used)
    declared = bool(used)
    if declared:
        family, judged = judge_declared(whole, metric, where, margin)
        used = [q.contrast for q in judged if q.contrast]
        pairs = [_pair(observed, c) for c in used]
    else:
        family, pairs = judge_by_rule(source, observed, margin)
        used = [q.as_contrast() for q in pairs]
    w = Writer()
    _thresholds(w, family, pairs)
    findings = _findings(family, pairs)
    names = dict.fromkeys(f for obs in observed for f in obs.factors)
    for name in sorted(
        names, key=lambda f: FACTOR_ORDER.index(f) if f in FACTOR_ORDER else 2.5
    ):
        asked = [c for c in used if declared and factor_of(c) == name]
        _factor(w, name, observed, [x for x in findings if x.name == name], asked)
    plain = not w.lines
    for obs in observed:
        if plain or not obs.factors:
            _plain(w, obs)
    for obs in observed:
        if obs.unit == "bps":
            every = observe(source, obs.metric) if obs.where else obs
            w.add("Limits", w.each(limit_sentences([*of_conditions(every).values()])))
    w.add("", _about_the_family(observed, family, declared))
    w.add("", [] if any(states(source.runs)[0]) else ["No run is complete."])
    advice = tuple(w.advice.get(i, "") for i in range(len(used)))
    return Lead(tuple(w.lines), family, tuple(used), declared, advice)


def opening(location: Location) -> Lead:
    """Return the lead paragraph of an experiment; for a data root a line for each experiment.

    Those of which the largest share of runs failed come first.

    Examples
    --------
    >>> npl.analysis.opening("data/recorded/zones").judged
    True
    """
    results = read(location)
    if not results.parts:
        return lead_paragraph(results)
    return Lead(tuple(line for *_, line in sorted(map(_opening, results.parts))))


def _opening(one: Results) -> tuple[float, Words]:
    """The share of runs that are complete, and the line of an experiment."""
    try:
        runs = measurement(one).runs
    except NotMeasured:
        return 0.0, Words.line(one.name, "Nothing was measured yet.")
    good = runs["status"] == "ok"
    failed = (
        [] if good.all() else [f"{(~good).sum()} of {plural(len(runs), 'run')} failed."]
    )
    words = [*failed, *lead_paragraph(one).lines[:2]]
    started = runs["started_utc"].min()
    when = "" if pd.isna(started) else f" ({started:%-d %B %Y})"
    return float(good.mean()), Words.line(f"{one.name}{when}", " ".join(words))


def _pair(observed: Sequence[Observations], contrast: Contrast) -> Question:
    """The conditions of a contrast; none if a side names no single one: it is left to its page."""
    for obs in observed:
        one, two = obs.condition(contrast.a), obs.condition(contrast.b)
        if obs.metric == contrast.metric and one and (two or contrast.b is None):
            return declared_question(contrast, obs, one, two)
    return declared_question(contrast, None, "", "")


def _findings(family: Iterable[Comparison], pairs: Iterable[Question]) -> list[Finding]:
    """The comparisons of two levels of one factor."""
    rows: dict[int, Finding] = {}
    for index, (result, pair) in enumerate(zip(family, pairs, strict=True)):
        obs, one, two = pair.obs, pair.a, pair.b
        for name in obs.factors if obs and two else ():
            if (
                obs
                and obs.at(one, name) != obs.at(two, name)
                and obs.same(one, two, name, PAIR)
            ):
                rows.setdefault(index, Finding(name, obs, one, two, result, index))
    return list(rows.values())


# -- names and figures ---------------------------------------------------------------------------


def _noun(obs: Observations) -> str:
    return NOUNS.get(obs.metric, obs.metric)


def _is_decided(family: Iterable[Comparison]) -> bool:
    return any(c.verdict not in ("no verdict", "exploratory") for c in family)


def _alike_but(
    obs: Observations, names: Iterable[str], *factors: str
) -> list[tuple[str, str]]:
    """Each pair of conditions that differ in nothing but these factors."""
    pairs = product(names, repeat=2)
    return [(c, d) for c, d in pairs if c != d and obs.same(c, d, *factors)]


def _level_name(
    obs: Observations, condition: str, name: str, among: Sequence[str]
) -> str:
    """A level in the sentence of its factor.

    ``125 MiB TCP buffer``, ``zone 1 → 2``, ``expressroute ErGw1AZ``.

    A placement has the labels with it that vary among some conditions.
    """
    if name == PAIR:
        return level_names(obs, [f for f in obs.by if f not in obs.factors])[condition]
    others = [f for f in other_factors(obs, name) if name == "placement" and is_label(f)]
    labels = [obs.at(condition, f) for f in others if _varies(obs, among, f)]
    text = _words(name, obs.at(condition, name))
    return " ".join([text, *(str(label) for label in labels if label is not None)])


def _words(name: str, level: Any) -> str:
    return str(level) if is_label(name) else factor(name).level_words(level)


def _varies(obs: Observations, conditions: Iterable[str], name: str) -> bool:
    return len({obs.at(c, name) for c in conditions}) > 1


def _listed(names: Sequence[str]) -> str:
    """The names in words; of many their number."""
    return in_words(names) if len(names) <= FEW else f"{len(names)} conditions"


def _heading(obs: Observations, name: str, main: Sequence[str]) -> str:
    """The metric and the levels at which it is shown: ``throughput (cross-region, 1 stream)``."""
    held = [f for f in other_factors(obs, name) if not _varies(obs, main, f)]
    levels = {f: obs.at(main[0], f) for f in held if _varies(obs, obs.names, f)}
    words = [
        _words(f, v) for f, v in levels.items() if v not in (None, factor(f).ordinary)
    ]
    if "placement" not in obs.factors and PAIR in obs.factors and name != PAIR:
        words = [*dict.fromkeys(_level_name(obs, c, PAIR, main) for c in main), *words]
    return f"{_noun(obs)} ({', '.join(words)})" if words else _noun(obs)


def _value(obs: Observations, conditions: Sequence[str]) -> str:
    """Write like medians as a span, or as one figure where they are written alike."""
    values = [obs.value(c) for c in conditions]
    figures = {format_value(v, obs.unit) for v in values}
    return (
        format_span(min(values), max(values), obs.unit)
        if len(figures) > 1
        else figures.pop()
    )


def _alike(obs: Observations, conditions: Iterable[str]) -> list[list[str]]:
    """The conditions in groups of like medians."""
    groups: list[list[str]] = []
    for one in conditions:
        for group in groups:
            values = [obs.value(c) for c in (*group, one)]
            if max(values) <= NEGLIGIBLE_RATIO * min(values):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _shown(
    obs: Observations, name: str, findings: Sequence[Finding], asked: Sequence[Contrast]
) -> list[str]:
    """The conditions whose figures the sentence of a factor gives.

    Empty where another sentence has them.
    """
    some = [x for x in findings if x.obs is obs]
    if (
        name in PREPOSITIONS
        or "placement" not in obs.factors
        or not (some or is_label(name))
    ):
        chosen = usual(obs, name, asked)
        # on another path a level says nothing about the factor
        varied = list(dict.fromkeys(c for c, _ in _alike_but(obs, chosen, name)))
        return chosen if name == PAIR else varied or chosen
    decided = [x for x in some if x.verdict != "equivalent" and not is_label(name)]
    best = max(
        decided, key=lambda x: (round(x.size, 1), obs.value(x.condition)), default=None
    )
    base = best.base if best else None
    return [c for c in obs.names if base and (c == base or obs.same(c, base, name, PAIR))]


def _figures(w: Writer, obs: Observations, name: str, main: Sequence[str]) -> list[str]:
    """``Latency is 39.7 µs on ppg, 57 µs on same-zone and cross-zone``.

    The levels of a ladder come each with its share.
    """
    word = PREPOSITIONS.get(name, "")
    numbers = all(isinstance(obs.at(c, name), int | None) for c in main)
    heading = _heading(obs, name, main) + (" is " if word else ": ")
    names = [_level_name(obs, c, name, main) for c in main]
    called = {
        c: n if names.count(n) == 1 else c for n, c in zip(names, main, strict=True)
    }
    ladder = numbers and not word and len(main) > 3
    return w.sentences(heading, _values(w, obs, called, word, ladder=ladder))


def _values(
    w: Writer,
    obs: Observations,
    called: Mapping[str, str],
    word: str,
    *,
    ladder: bool = False,
) -> list[str]:
    """The figures of conditions by their names, those of like medians together."""
    if len(called) > LISTED:
        first, *_, last = sorted(called, key=obs.value)
        ends = f"lowest {called[first]}, highest {called[last]}"
        return [f"{_value(obs, [first, last])} on {len(called):,} levels ({ends})"]
    groups = [[c] for c in called] if ladder else _alike(obs, called)
    top = max(map(obs.value, called))
    parts = []
    for group in groups:
        text, names = _value(obs, group), [called[c] for c in group]
        full = max(map(obs.value, group)) == top and "limit" not in w.said
        share = _share(w, obs, group[0]) if ladder or full else ""
        if len(groups) == 1 and len(names) > 2:
            parts.append(f"{text} on all {len(names)}{share}")
        elif word:
            parts.append(f"{text} {word} {_listed(names)}{share}")
        else:
            colon = (
                ":" if any(n[-1:].isdigit() for n in names) else ""
            )  # "burst 1: 187 µs"
            parts.append(f"{_listed(names)}{colon} {text}{share}")
    return parts


def _share(w: Writer, obs: Observations, condition: str) -> str:
    """The share of the advertised bandwidth: in full the first time."""
    limit = obs.at(condition, "advertised_bps")
    if obs.unit != "bps" or not isinstance(limit, int | float) or not limit > 0:
        return ""
    full = f" of the advertised {format_value(limit, 'bps')}" if w.first("limit") else ""
    return f" ({100 * obs.value(condition) / limit:.0f} %{full})"


# -- lines ---------------------------------------------------------------------------------------


def _thresholds(
    w: Writer, family: Iterable[Comparison], pairs: Iterable[Question]
) -> None:
    """``9 of 9 runs are below 1 ms (largest 411 µs)``.

    Contrasts with one limit are counted together.
    """
    groups: dict[Any, list[str]] = {}
    for result, pair in zip(family, pairs, strict=True):
        if pair.obs and pair.threshold is not None and (c := pair.contrast):
            words = f"{c.at_least} of {c.of}" if c.of else ""
            key = pair.obs, c.below is None, result.threshold, words
            groups.setdefault(key, []).append(pair.a)
    for (obs, reach, limit, share), names in groups.items():
        values = obs.complete.set_index("condition").loc[names, "value"]
        met = values >= limit if reach else values < limit
        extreme = format_value(values.min() if reach else values.max(), obs.unit)
        ends = "reach {} (smallest {})" if reach else "are below {} (largest {})"
        ends = ends.format(share or value_words(limit, obs.unit), extreme)
        where = "" if len(obs.names) == len(names) else f" on {_listed(names)}"
        w.add("", w.each([f"{met.sum():,} of {values.size:,} runs{where} {ends}"]))


def _factor(
    w: Writer,
    name: str,
    observed: Sequence[Observations],
    findings: Sequence[Finding],
    asked: Sequence[Contrast],
) -> None:
    """The line of a factor: its figures, and what they show."""
    sentences: list[str] = []
    two: Finding | None = None
    for obs in (obs for obs in observed if name in obs.factors):
        main = _shown(obs, name, findings, asked)
        if not main or (name != "placement" and not _varies(obs, main, name)):
            continue
        decided = [x for x in findings if x.obs is obs and x.verdict in DECIDED]
        if len(main) == 2 and name not in PREPOSITIONS and decided:
            two = decided[0]  # the figures of two levels stand in the conclusion
            continue
        sentences += _figures(w, obs, name, main)
    sentences += _conclusions(w, name, findings, with_figures=two is not None)
    called = (
        {y.condition: y.slice for y in two.elsewhere(findings) if y.slice} if two else {}
    )
    if two and called:
        sentences += w.sentences(f"{two.level()}: ", _values(w, two.obs, called, "on"))
    zones = any("client_zone" in obs.by for obs in observed)
    title = ("zones" if zones else "pairs") if name == PAIR else factor(name).label
    w.add(capital(title or name.replace("_", " ")), sentences)


def _conclusions(
    w: Writer, name: str, every: Sequence[Finding], *, with_figures: bool
) -> list[str]:
    """What all metrics show of each level, and one recommendation; then what is not decided."""
    sentences = _filled(w, every) if name == "streams" else []
    by_level: dict[str, list[Finding]] = {}
    for x in every if not sentences else ():
        by_level.setdefault(x.level(), []).append(x)
    if name == PAIR and len(by_level) > 1:
        by_level = {}
    base, best = "", _best_choices(every)
    for level, some in by_level.items():
        verdicts = {x.verdict for x in some}
        worse = max((x.size for x in some if x.verdict == "worse"), default=0.0)
        plain = name != "placement" and verdicts <= {"equivalent", "inconclusive"}
        obvious = "better" not in verdicts and worse >= math.log(OBVIOUS)
        effects = _effects(w, some, with_figures=with_figures)
        if plain or obvious or not effects:
            continue
        against = some[0].level(some[0].base)
        subject = f"{level}: " if against == base else f"{level} against {against}: "
        base = against
        sentences += w.sentences(
            "" if name == "accelerated" else subject, effects, in_words
        )
        advice = _recommendation(name, some, every)
        if advice.startswith("use it") and some[0].condition not in best:
            advice = ""
        if advice and (name not in DO or w.first(advice)):
            sentences += w.each([advice])
        w.advise(some, advice)
    undecided = []
    for x in (x for x in every if x.verdict == "inconclusive"):
        what = ", ".join(filter(None, [x.level(), x.slice]))
        interval = span(x.result.ratio, x.result.low, x.result.high, short=True)
        undecided.append(f"{x.noun} of {what} ({interval})")
    return sentences + w.sentences("Not decided: ", undecided, in_words)


def _effects(w: Writer, findings: Sequence[Finding], *, with_figures: bool) -> list[str]:
    """What a level does to each metric: better, worse, the same, and what too few runs show."""
    words: list[str] = []
    kinds = [*DECIDED, "equivalent", "no verdict"]
    groups: dict[tuple[str, str], list[Finding]] = {}
    for x in sorted(
        findings, key=lambda x: kinds.index(x.verdict) if x.verdict in kinds else 4
    ):
        groups.setdefault((x.verdict, x.noun), []).append(x)
    for (verdict, noun), some in groups.items():
        x = max(some, key=lambda x: x.size)
        split = len(some) < sum(y.noun == noun for y in findings)
        where = x.where(some) if split else ""
        counts = [int(x.obs.value(c, "n")) for c in (x.condition, x.base)]
        if verdict == "equivalent":
            margin = f" within {100 * x.result.margin:.0f} %" if w.first("margin") else ""
            words.append(
                f"the same {noun}{margin}{' otherwise' if where and words else where}"
            )
            continue
        # without a common round there is no ratio
        seen = (
            verdict == "no verdict"
            and min(counts) > 1
            and x.size > math.log(NEGLIGIBLE_RATIO)
        )
        if verdict in DECIDED or seen:
            text = f"{'up to ' if some[1:] else ''}{x.effect(with_figures=with_figures)}{where}"
            words.append(
                f"{text} in these {counts[0]} and {counts[1]} runs" if seen else text
            )
    return words


def _filled(w: Writer, every: Sequence[Finding]) -> list[str]:
    """Which number of streams fills each path, what more cost, and what to do.

    Empty where it is not shown.
    """
    texts: list[str] = []
    counts = []
    better = {_path(x): x for x in every if x.verdict == "better"}
    for path, x in better.items():
        if path not in (paths := filled(x.obs)):
            return []
        enough, (first, *others) = paths[path]
        texts += [f"{x.slice}: {first}" if len(better) > 1 else first, *others]
        counts.append(str(enough))
    w.advise(better.values(), f"use {in_words(counts)} connections for bulk transfers")
    return w.each(texts)


def _path(x: Finding) -> str:
    return level_names(x.obs, [f for f in x.obs.by if f != "streams"])[x.condition]


def _recommendation(
    name: str, some: Sequence[Finding], findings: Sequence[Finding]
) -> str:
    """The one recommendation for a level, from all its metrics.

    None that figures outside of the family contradict.
    """
    kinds = (*DECIDED, "equivalent")
    good, bad, same = ([x for x in some if x.verdict == kind] for kind in kinds)
    for x in (*good, *same):
        if against := _contradiction(x, findings):
            return against
    lost = max(
        (lost_share(x.obs, x.condition) for x in good if x.obs.unit == "bps"), default=0
    )
    if lost > NOTICEABLE:
        return f"but {format_value(lost, 'ratio')} of the datagrams are lost"
    gains, losses = (in_words(x.noun for x in rows) for rows in (good, bad))
    if "throughput" in losses and some[0].level() in GATEWAYS:
        return f"its gateway is the bottleneck{f', but {gains} gains' if good else ''}"
    if bad:
        return f"a choice between {gains} and {losses}" if good else ""
    if not good:
        return "no disadvantage found" if len(same) == len(some) else ""
    if name in DO:
        return DO[name] + (good[0].where(good) if same else "")
    return f"use it where {gains} matters"


def _best_choices(findings: Sequence[Finding]) -> set[str]:
    """Return the conditions to recommend: of labels the first within the margin of the best."""
    chosen = {x.condition for x in findings if not is_label(x.name)}
    labels = [x for x in findings if is_label(x.name) and x.verdict == "better"]
    for key in dict.fromkeys((x.obs.metric, x.base) for x in labels):
        some = [x for x in labels if (x.obs.metric, x.base) == key]
        best = max(x.size for x in some)
        near = [x for x in some if x.size >= best - math.log1p(x.result.margin)]
        chosen.add(near[0].condition)
    return chosen


def _contradiction(x: Finding, findings: Sequence[Finding]) -> str:
    """A slice outside of the family in which the level is worse by more than twice the margin."""
    lower = METRICS[x.obs.metric].better == "lower"
    for y in x.elsewhere(findings):
        loss = y.result.ratio if lower else 1 / y.result.ratio
        if loss > 1 + 2 * x.result.margin:
            gateway = y.level() in GATEWAYS and y.obs.unit == "bps"
            cause = ": its gateway is the bottleneck" if gateway else ""
            return f"but {y.effect()}{y.where([y])} (exploratory){cause}"
    return ""


def _plain(w: Writer, obs: Observations) -> None:
    """``ppg: Round-trip time 48 µs (46.6 to 49.3 µs in 1,320 runs).``.

    The clearest change of its level follows.
    """
    for c in obs.names[:FEW]:
        tool = " ".join(str(v) for v in obs.where.values() if v) or obs.at(c, "tool")
        name = str(tool or c) if c == "all runs" or obs.where else c
        n, low, high = (obs.value(c, end) for end in ("n", "smallest", "largest"))
        runs = f" ({format_span(low, high, obs.unit)} in {n:,.0f} runs)" if n > 1 else ""
        texts = [f"{_noun(obs)} {_value(obs, [c])}{runs}"]
        if (
            len(obs.complete) >= LONG * len(obs.names)
            and obs.complete["started_utc"].notna().all()
        ):
            points = ask_history(obs).changes.get(c, [])
            clear = max(points, key=lambda p: log_size(p.ratio), default=None)
            texts += [clear.words(obs.metric)] if clear else []
        w.add(w.written_out(name), w.each(texts))


def _costly_labels(observed: Sequence[Observations], needed: int) -> list[str]:
    """Name the labels without which conditions would have runs enough for a verdict."""
    names = []
    for obs in observed:
        for name in (f for f in obs.by if f not in FACTORS):
            others = [f for f in obs.by if f != name]
            levels = obs.conditions.assign(n=[obs.value(c, "n") for c in obs.names])
            if not others:
                continue
            merged = levels.groupby(others, dropna=False)["n"].sum()
            if len(merged) > 1 and merged.min() >= needed:
                names.append(name)
    return [
        f"Without the label {name} there would be enough: leave its column out of the labels."
        for name in dict.fromkeys(names)
    ]


def _about_the_family(
    observed: Sequence[Observations], family: Family, declared: bool
) -> list[str]:
    """How many rounds would do where there are too few, and which comparisons were made by rule."""
    if any(LOG_NAME in obs.by for obs in observed):
        return ["What only the names of the logs tell apart is not judged: label them."]
    counts = [int(obs.value(c, "n")) for obs in observed for c in obs.names]
    paired = all(c.paired for c in family)
    needed = rounds_required(ALPHA, max(1, len(family)), paired=paired)
    if max(counts, default=needed) < needed and not _is_decided(family):
        n = plural(max(counts), "run")
        enough = f"{needed} {'rounds' if paired else 'runs each'} would be enough"
        few = f"{n} per condition: figures but no verdicts ({enough})."
        return [few, *_costly_labels(observed, needed)]
    if declared or not family:
        return []
    return [
        f"{plural(len(family), 'comparison')} by rule: every level against its baseline."
    ]
