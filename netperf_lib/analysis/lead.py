"""The lead paragraph: what was measured in figures, factor by factor, what of it is shown, and what to do.

`Finding` is a row of the table behind it: a comparison of two levels of one factor. The line of a factor has the
figures first, then a sentence for each level and what to do about it, and last what is not decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.files import Location
from ..data.load import Results, read
from ..data.shipped import located
from ..errors import NotMeasured
from ..experiment.factors import LOG_NAME, factor
from ..experiment.model import Contrast
from ..experiment.placements import GATEWAYS
from ..metrics import ALPHA, METRICS, format_span, format_value, in_words, plural, rounds_required
from .compare import judge_declared
from .comparison import Comparison, Family
from .families import judged_by_rule, of_main_tools, other_factors, usual
from .history import ask_history
from .judging import NOTICEABLE, lost_share
from .limits import limit_sentences, of_conditions
from .observe import PAIR, Data, Observations, is_label, level_names, observe
from .result import log_size, size_words, value_words
from .runs import read_data, runs_of, states, table_of
from .streams import filled
from .words import Words, capital, contrasts, factor_of, span

ORDER = ("placement", PAIR, "gateway_sku", "accelerated", "streams", "tcp_buffer_bytes")
"""Factors in the order of the paragraph; others come after the hosts' own."""
WORDS = 25
"""Words that a sentence has at most."""
ALIKE = 1.03
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
PREPOSITIONS = {"placement": "on", PAIR: "for"}
"""What a level of a factor stands behind; any other level stands before its figure."""
DECIDED = ("better", "worse")
Compared = tuple[Observations | None, str, str]
"""Observations and two of their conditions; the second is empty for a threshold."""


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
        """Whether there is a table of answers: what was declared, or any comparison by rule with enough rounds."""
        return self.declared or _is_decided(self.family)

    def __str__(self) -> str:
        return " ".join(self.lines)

    def _repr_markdown_(self) -> str:
        return Words.lead(self.lines).shown


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of two levels of a factor, all others being equal.

    Attributes
    ----------
    name : str
        The factor.
    obs : Observations
    condition, base : str
        The two conditions.
    result : Comparison
    index : int
        Number of the comparison in the family.
    """

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

    @property
    def level(self) -> str:
        """The level in a sentence."""
        return _level_name(self.obs, self.condition, self.name, self.obs.names)

    @property
    def base_level(self) -> str:
        """The level that it is compared with."""
        return _level_name(self.obs, self.base, self.name, self.obs.names)

    @property
    def slice(self) -> str:
        """Levels of the other factors, of those that vary where this one varies."""
        obs, name = self.obs, self.name
        wide = [
            c for c in obs.names if any(c != d and obs.same(c, d, name, PAIR) for d in obs.names)
        ]
        varying = [f for f in other_factors(obs, name) if _varies(obs, wide, f)]
        levels = {f: obs.at(self.condition, f) for f in varying}
        named = [f for f in varying if levels[f] is not None or len(varying) == 1]
        return ", ".join(factor(f).level_words(levels[f]) for f in named)

    def where(self, findings: Sequence[Finding]) -> str:
        """The end of a sentence about some slices: `` on ppg``, `` with 16 streams``."""
        on = other_factors(self.obs, self.name)[:1] == ["placement"]
        slices = [x.slice for x in findings]
        return f" {'on' if on else 'with'} {_listed(slices)}" if self.slice else ""

    def effect(self, *, with_figures: bool = False) -> str:
        """``30 % less latency``; with figures: ``73 % less latency (147 to 39.8 µs)``."""
        unit, size, more = self.obs.unit, size_words(self.result.ratio), self.result.ratio > 1
        how = "the" if size.endswith("times") else "more" if more else "less"
        before, after = map(self.obs.value, (self.base, self.condition))
        figures = ""
        if with_figures:
            figures = f" ({format_span(before, after, unit)})"
        elif unit == "us" and after < SMALL_US and more:
            figures = f" (+{format_value(after - before, unit, 2)})"
        return f"{size} {how} {self.noun}{figures}"

    def elsewhere(self, findings: Sequence[Finding]) -> list[Finding]:
        """The same two levels in slices outside of the family."""
        obs, name = self.obs, self.name
        level, base = obs.at(self.condition, name), obs.at(self.base, name)
        judged = {x.condition for x in findings if x.obs is obs}
        ones = [c for c in obs.names if c not in judged and obs.at(c, name) == level]
        twos = [c for c in obs.names if obs.at(c, name) == base]
        pairs = [(a, b) for a in ones for b in twos if a != b and obs.same(a, b, name, PAIR)]
        return [
            replace(
                self,
                condition=a,
                base=b,
                result=replace(self.result, ratio=obs.value(a) / obs.value(b)),
            )
            for a, b in pairs
        ]


@dataclass(slots=True)
class Writer:
    """Writes sentences of at most `WORDS` words, and says once what is said once."""

    lines: list[Words] = field(default_factory=list)
    advice: dict[int, str] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def first(self, what: str) -> bool:
        """Whether this is said for the first time."""
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
        """The text with the abbreviations that stand in it for the first time written out."""
        for name, words in ABBREVIATIONS.items():
            alone = rf"(?<![\w-]){name}(?![\w-])"
            if re.search(alone, text) and self.first(name):
                text = re.sub(alone, f"{name} ({words})", text, count=1)
        return text

    def sentences(
        self, head: str, parts: Iterable[str], join: Callable[[Sequence[str]], str] = ", ".join
    ) -> list[str]:
        """The parts behind their head, in as many sentences as they need."""
        head = self.written_out(head)
        groups = [[head]]
        for part in map(self.written_out, parts):
            *_, group = groups
            if len(group) > 1 and len(f"{' '.join(group)} {part}".split()) > WORDS:
                groups.append(group := ["Also "])
            group.append(part)
        return [f"{capital(first + join(others))}." for first, *others in groups if others]

    def each(self, texts: Iterable[str]) -> list[str]:
        """Each text as a sentence of its own."""
        return [s for text in texts for s in self.sentences("", [text])]


def _noun(obs: Observations) -> str:
    return NOUNS.get(obs.metric, obs.metric)


def _is_decided(family: Iterable[Comparison]) -> bool:
    return any(c.verdict not in ("no verdict", "exploratory") for c in family)


def lead_paragraph(
    data: Data,
    *,
    metric: str | None = None,
    where: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    margin: float | None = None,
) -> Lead:
    """Return the lead paragraph of an experiment, and the comparisons behind it: declared, else by rule.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs or its folder.
    metric : str, optional
        Only this metric.
    where, pattern : optional
        Only runs with these levels; and the pattern of the paths of raw logs. See `netperf_lib.compare`.
    margin : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; default: as declared, else 0.05.

    Returns
    -------
    Lead

    Examples
    --------
    >>> npl.analysis.lead_paragraph(exp).lines[-1][:57]
    'Limits: The link limits throughput on 4 of 13 conditions.'
    """
    results = read_data(data, pattern)
    source = runs_of(results, where)
    added = results.added if isinstance(results, Results) else ()
    used = [c for c in (*contrasts(source), *added) if metric in (None, c.metric)]
    observed = of_main_tools(source, metric, used)
    declared = bool(used)
    if declared:
        family, pairs = judge_declared(results, metric, where, margin)
        used = [p.contrast for p in pairs if p.contrast]
        sides = [_conditions(observed, c) for c in used]
    else:
        family, pairs = judged_by_rule(observed, margin)
        family = replace(family, notice=source.origin.notice)
        used, sides = [p.as_contrast() for p in pairs], [p.conditions for p in pairs]
    w = Writer()
    _thresholds(w, used, family, sides)
    findings = _findings(family, sides)
    names = dict.fromkeys(f for obs in observed for f in obs.factors)
    for name in sorted(names, key=lambda f: ORDER.index(f) if f in ORDER else 2.5):
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
    """Return the lead paragraph of an experiment; for a data root, one line for each experiment, worst first.

    An experiment is worse than another one if more of its runs failed, then if it misses more thresholds.

    Examples
    --------
    >>> npl.analysis.opening("data/recorded/zones").judged
    True
    """
    results = read(located(location)[0])
    if isinstance(results, Results):
        return lead_paragraph(results)
    return Lead(tuple(line for *_, line in sorted(map(_opening, results))))


def _opening(one: Results) -> tuple[float, int, Words]:
    """The share of runs that are complete, minus the thresholds that are missed, and the line of an experiment."""
    try:
        runs = table_of(one)
    except NotMeasured:
        return 0.0, 0, Words.line(one.name, "Nothing was measured yet.")
    good = runs["status"] == "ok"
    lead = lead_paragraph(one)
    missed = sum(c.threshold is not None and c.verdict == "worse" for c in lead.family)
    started = runs["started_utc"].dropna()
    when = f" ({started.min():%-d %B %Y})" if len(started) else ""
    failed = [] if good.all() else [f"{(~good).sum()} of {plural(len(runs), 'run')} failed."]
    line = Words.line(one.name + when, " ".join([*failed, *lead.lines[:2]]))
    return float(good.mean()), -missed, line


def _conditions(observed: Sequence[Observations], contrast: Contrast) -> Compared:
    """The conditions of both sides of a contrast; none if one names no single condition: it is left to its page."""
    obs = next((obs for obs in observed if obs.metric == contrast.metric), None)
    one, two = (obs.condition(side) if obs else "" for side in (contrast.a, contrast.b))
    return (obs, one, two) if one and (two or contrast.b is None) else (None, "", "")


def _findings(family: Iterable[Comparison], sides: Iterable[Compared]) -> list[Finding]:
    """The comparisons of two levels of one factor."""
    rows = []
    for index, (result, (obs, one, two)) in enumerate(zip(family, sides, strict=True)):
        for name in obs.factors if obs and two else ():
            if obs and obs.at(one, name) != obs.at(two, name) and obs.same(one, two, name, PAIR):
                rows.append(Finding(name, obs, one, two, result, index))
                break
    return rows


# -- names and figures ---------------------------------------------------------------------------


def _level_name(obs: Observations, condition: str, name: str, among: Sequence[str]) -> str:
    """A level in the sentence of its factor: ``125 MiB TCP buffer``, ``zone 1 → 2``, ``expressroute ErGw1AZ``.

    A placement has the labels with it that vary among some conditions.
    """
    if name == PAIR:
        return level_names(obs, [f for f in obs.by if f not in obs.factors])[condition]
    labels = [f for f in other_factors(obs, name) if name == "placement" and is_label(f)]
    more = [obs.at(condition, f) for f in labels if _varies(obs, among, f)]
    text = _words(name, obs.at(condition, name))
    return " ".join([text, *(str(label) for label in more if label is not None)])


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
    said = {f: v for f, v in levels.items() if v not in (None, factor(f).ordinary)}
    words = [_words(f, v) for f, v in said.items()]
    if "placement" not in obs.factors and PAIR in obs.factors and name != PAIR:
        words[:0] = dict.fromkeys(_level_name(obs, c, PAIR, main) for c in main)
    words += [str(obs.where["test"])] if "test" in obs.where else []
    return _noun(obs) + (f" ({', '.join(words)})" if words else "")


def _value(obs: Observations, conditions: Sequence[str]) -> str:
    """Write like medians as a span, or as one figure where they are written alike."""
    values = [obs.value(c) for c in conditions]
    low, high = min(values), max(values)
    same = format_value(low, obs.unit)
    return same if same == format_value(high, obs.unit) else format_span(low, high, obs.unit)


def _runs(obs: Observations, condition: str) -> str:
    """The range of the runs: `` (44.8 to 59.5 µs in 288 runs)``."""
    n, low, high = (obs.value(condition, c) for c in ("n", "smallest", "largest"))
    return f" ({format_span(low, high, obs.unit)} in {n:,.0f} runs)" if n > 1 else ""


def _alike(obs: Observations, conditions: Iterable[str]) -> list[list[str]]:
    """The conditions in groups of like medians."""
    groups: list[list[str]] = []
    for one in conditions:
        for group in groups:
            values = [obs.value(c) for c in (*group, one)]
            if max(values) <= ALIKE * min(values):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _shown(
    obs: Observations, name: str, findings: Sequence[Finding], asked: Sequence[Contrast]
) -> list[str]:
    """The conditions whose figures the sentence of a factor gives; empty where another sentence has them."""
    some = [x for x in findings if x.obs is obs]
    if name in PREPOSITIONS or "placement" not in obs.factors or not (some or is_label(name)):
        chosen = usual(obs, name, asked)
        # on another path a level says nothing about the factor
        varied = [c for c in chosen if any(c != d and obs.same(c, d, name) for d in chosen)]
        return chosen if name == PAIR else varied or chosen
    decided = [x for x in some if x.verdict != "equivalent" and not is_label(name)]
    if not decided:
        return []
    base = max(decided, key=lambda x: (round(x.size, 1), obs.value(x.condition))).base
    return [c for c in obs.names if c == base or obs.same(c, base, name, PAIR)]


def _figures(w: Writer, obs: Observations, name: str, main: Sequence[str]) -> list[str]:
    """``Latency is 39.7 µs on ppg, 57 µs on same-zone and cross-zone``; of a ladder each with its share."""
    word = PREPOSITIONS.get(name, "")
    numbers = all(isinstance(obs.at(c, name), int | None) for c in main)
    ladder = numbers and not word and len(main) > 3
    heading = _heading(obs, name, main) + (" is " if word else ": ")
    names = [_level_name(obs, c, name, main) for c in main]
    called = {c: n if names.count(n) == 1 else c for n, c in zip(names, main, strict=True)}
    return w.sentences(heading, _values(w, obs, called, word, ladder=ladder))


def _values(
    w: Writer, obs: Observations, called: Mapping[str, str], word: str, *, ladder: bool = False
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
        notes = _share(w, obs, group[0]) if ladder or full else ""
        colon = ":" if any(n[-1:].isdigit() for n in names) else ""  # "burst 1: 187 µs"
        if len(groups) == 1 and len(names) > 2:
            parts.append(f"{text} on all {len(names)}{notes}")
        elif word:
            parts.append(f"{text} {word} {_listed(names)}{notes}")
        else:
            parts.append(f"{_listed(names)}{colon} {text}{notes}")
    return parts


def _share(w: Writer, obs: Observations, condition: str) -> str:
    """The share of the advertised bandwidth: in full the first time."""
    limit = obs.at(condition, "advertised_bps")
    if obs.unit != "bps" or not isinstance(limit, int | float) or not limit > 0:
        return ""
    of = f" of the advertised {format_value(limit, 'bps')}" if w.first("limit") else ""
    return f" ({100 * obs.value(condition) / limit:.0f} %{of})"


# -- lines ---------------------------------------------------------------------------------------


def _thresholds(
    w: Writer,
    used: Iterable[Contrast],
    family: Iterable[Comparison],
    sides: Iterable[Compared],
) -> None:
    """``9 of 9 runs are below 1 ms (largest 411 µs)``: contrasts with one limit are counted together."""
    groups: dict[Any, tuple[Contrast, Observations, list[str]]] = {}
    for contrast, result, (obs, one, two) in zip(used, family, sides, strict=True):
        if obs and not two:
            key = contrast.metric, contrast.below is None, result.threshold
            groups.setdefault(key, (contrast, obs, []))[-1].append(one)
    for (_, reach, limit), (contrast, obs, names) in groups.items():
        rows = obs.complete
        values = rows.loc[rows["condition"].isin(names), "value"]
        met = values >= limit if reach else values < limit
        extreme = format_value(values.min() if reach else values.max(), obs.unit)
        words = value_words(limit, obs.unit)
        words = f"{contrast.at_least} of {contrast.of}" if contrast.of else words
        ends = f"reach {words} (smallest" if reach else f"are below {words} (largest"
        where = "" if len(obs.names) == len(names) else f" on {_listed(names)}"
        w.add("", w.each([f"{met.sum():,} of {values.size:,} runs{where} {ends} {extreme})"]))


def _factor(
    w: Writer,
    name: str,
    observed: Sequence[Observations],
    findings: Sequence[Finding],
    asked: Sequence[Contrast],
) -> None:
    """The line of a factor: its figures, and what they show."""
    sentences: list[str] = []
    pairs: list[Finding] = []
    for obs in (obs for obs in observed if name in obs.factors):
        main = _shown(obs, name, findings, asked)
        if not main or (name != "placement" and not _varies(obs, main, name)):
            continue
        decided = [x for x in findings if x.obs is obs and x.verdict in DECIDED]
        if len(main) == 2 and name not in PREPOSITIONS and decided:
            pairs.append(decided[0])  # the figures of two levels stand in the conclusion
            continue
        sentences += _figures(w, obs, name, main)
    conclusions = _conclusions(w, name, findings, with_figures=bool(pairs))
    for x in pairs[-1:]:
        called = {y.condition: y.slice for y in x.elsewhere(findings) if y.slice}
        parts = _values(w, x.obs, called, "on") if called else []
        conclusions += w.sentences(f"{x.level}: ", parts)
    zones = any("client_zone" in obs.by for obs in observed)
    title = ("zones" if zones else "pairs") if name == PAIR else factor(name).label
    w.add(capital(title or name.replace("_", " ")), sentences + conclusions)


def _conclusions(
    w: Writer, name: str, every: Sequence[Finding], *, with_figures: bool
) -> list[str]:
    """What all metrics show of each level, and one recommendation; then what is not decided."""
    sentences: list[str] = []
    base = ""
    by_level: dict[str, list[Finding]] = {}
    for x in every:
        by_level.setdefault(x.level, []).append(x)
    if name == PAIR and len(by_level) > 1:
        by_level = {}
    if name == "streams" and (sentences := _filled(w, every)):
        by_level = {}
    for some in by_level.values():
        verdicts = {x.verdict for x in some}
        worse = max((x.size for x in some if x.verdict == "worse"), default=0.0)
        effects = _effects(w, some, with_figures=with_figures)
        plain = name != "placement" and verdicts <= {"equivalent", "inconclusive"}
        obvious = "better" not in verdicts and worse >= math.log(OBVIOUS)
        if plain or obvious or not effects:
            continue
        against = "" if some[0].base_level == base else f" against {some[0].base_level}"
        base = some[0].base_level
        subject = "" if name == "accelerated" else f"{some[0].level}{against}: "
        sentences += w.sentences(subject, effects, in_words)
        advice = _recommendation(name, some, every)
        if advice and (name not in DO or w.first(advice)):
            sentences += w.each([advice])
        w.advise(some, advice)
    undecided = [
        f"{x.noun} of {', '.join(filter(None, [x.level, x.slice]))} "
        f"({span(x.result.ratio, x.result.low, x.result.high, short=True)})"
        for x in every
        if x.verdict == "inconclusive"
    ]
    return sentences + w.sentences("Not decided: ", undecided, in_words)


def _effects(w: Writer, findings: Sequence[Finding], *, with_figures: bool) -> list[str]:
    """What a level does to each metric: better, worse, the same, and what too few runs show."""
    words: list[str] = []
    for verdict in (*DECIDED, "equivalent", "no verdict"):
        for noun in dict.fromkeys(x.noun for x in findings if x.verdict == verdict):
            every = [x for x in findings if x.noun == noun]
            some = sorted((x for x in every if x.verdict == verdict), key=lambda x: x.size)
            x = some[-1]
            where = x.where(some) if len(some) < len(every) else ""
            if verdict == "equivalent":
                margin = f" within {100 * x.result.margin:.0f} %" if w.first("margin") else ""
                words.append(f"the same {noun}{margin}{' otherwise' if where and words else where}")
                continue
            counts = [int(x.obs.value(c, "n")) for c in (x.condition, x.base)]
            # without a common round there is no ratio
            seen = min(counts) > 1 and x.size > math.log(ALIKE)
            if verdict not in DECIDED and not seen:
                continue
            several = "up to " if len(some) > 1 else ""
            text = f"{several}{x.effect(with_figures=with_figures)}{where}"
            runs = f" in these {counts[0]} and {counts[1]} runs"
            words.append(text if verdict in DECIDED else f"{text}{runs}")
    return words


def _filled(w: Writer, every: Sequence[Finding]) -> list[str]:
    """Which number of streams fills each path, what more cost, and what to do; empty where it is not shown."""
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


def _recommendation(name: str, some: Sequence[Finding], findings: Sequence[Finding]) -> str:
    """The one recommendation for a level, from all its metrics; none that figures outside of the family contradict."""
    good, bad, same = (
        [x for x in some if x.verdict == verdict] for verdict in (*DECIDED, "equivalent")
    )
    for x in (*good, *same):
        if against := _contradiction(x, findings):
            return against
    lost = max((lost_share(x.obs, [x.condition]) for x in good if x.obs.unit == "bps"), default=0)
    if lost > NOTICEABLE:
        return f"but {format_value(lost, 'ratio')} of the datagrams are lost"
    if any(x.verdict == "inconclusive" for x in some) and not good:
        return ""
    gains, losses = (in_words(x.noun for x in rows) for rows in (good, bad))
    if "throughput" in losses and some[0].level in GATEWAYS:
        return f"its gateway is the bottleneck{f', but {gains} gains' if good else ''}"
    if bad:
        return f"a choice between {gains} and {losses}" if good else ""
    if not good:
        return "no disadvantage found" if same else ""
    if name in DO:
        return DO[name] + (good[0].where(good) if same else "")
    return f"use it where {gains} matters"


def _contradiction(x: Finding, findings: Sequence[Finding]) -> str:
    """A slice outside of the family in which the level is worse by more than twice the margin."""
    lower = METRICS[x.obs.metric].better == "lower"
    for y in x.elsewhere(findings):
        loss = y.result.ratio if lower else 1 / y.result.ratio
        if loss > 1 + 2 * x.result.margin:
            gateway = y.level in GATEWAYS and y.obs.unit == "bps"
            cause = ": its gateway is the bottleneck" if gateway else ""
            return f"but {y.effect()}{y.where([y])} (exploratory){cause}"
    return ""


def _plain(w: Writer, obs: Observations) -> None:
    """``ppg: Round-trip time 48 µs (46.6 to 49.3 µs in 1,320 runs).``, and the clearest change of its level."""
    for c in obs.names[:FEW]:
        tool = " ".join(str(v) for v in obs.where.values() if v) or obs.at(c, "tool")
        name = str(tool or c) if c == "all runs" or obs.where else c
        texts = [f"{capital(_noun(obs))} {_value(obs, [c])}{_runs(obs, c)}"]
        if len(obs.complete) >= LONG * len(obs.names) and obs.complete["started_utc"].notna().all():
            points = ask_history(obs).changes.get(c, [])
            clear = max(points, key=lambda p: log_size(p.ratio), default=None)
            texts += [clear.words(obs.metric)] if clear else []
        w.add(w.written_out(name), w.each(texts))


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
        return [f"{n} per condition: figures but no verdicts ({enough})."]
    if declared or not family:
        return []
    return [f"{plural(len(family), 'comparison')} by rule: every level against its baseline."]
