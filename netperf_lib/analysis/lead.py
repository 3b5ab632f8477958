"""The lead paragraph: what was measured in figures, factor by factor, what of it is shown, and what to do.

`Finding` is a row of the table behind it: a comparison of two levels of one factor. The line of a factor has the
figures first, then a sentence for each level and what to do about it, and last what is not decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from ..data.files import Location
from ..data.load import Results, read
from ..data.shipped import located
from ..errors import NotMeasured, UsageError
from ..experiment.factors import LOG_NAME, factor
from ..experiment.model import Contrast
from ..experiment.placements import GATEWAYS
from ..metrics import ALPHA, METRICS, format_span, format_value, in_words, plural, rounds_required
from .compare import compare, within
from .comparison import Comparison, Family
from .families import judged_by_rule, of_main_tools, other_factors, usual
from .history import ask_history
from .judging import NOTICEABLE, lost_share
from .limits import WINDOWS, limit_sentences, of_conditions, with_causes
from .observe import PAIR, Data, Observations, is_label, level_names, observe
from .result import log_size, size_words, value_words
from .runs import Observed, read_data, runs_of, states, table_of
from .streams import filling, saturation
from .words import Words, capital, contrasts, factor_of, span

ORDER = ("placement", PAIR, "gateway_sku", "accelerated", "streams", "tcp_buffer_bytes")
"""Factors in the order of the paragraph; others come after the hosts' own."""
WORDS = 25
"""Words that a sentence has at most."""
WIDE = 1.5
"""A level whose interval is wider than this ratio is not one figure."""
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
RAISES = {
    "streams": {*WINDOWS, "loss", "sender's CPU", "receiver's CPU"},
    "tcp_buffer_bytes": {*WINDOWS},
}
"""What more of a factor can raise; where something else is known to limit the transfer, it is not advised."""
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

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        return Words.lead(self.lines).shown


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of two levels of a factor, all others being equal."""

    name: str
    """The factor."""
    obs: Observations
    condition: str
    base: str
    ratio: float
    result: Comparison
    index: int
    """Number of the comparison in the family."""
    noun: str
    level: str
    base_level: str
    slice: str
    """Levels of the other factors."""

    @property
    def verdict(self) -> str:
        """The verdict on the level."""
        return str(self.result.verdict)

    @property
    def size(self) -> float:
        """How large the effect is, whatever its direction."""
        return log_size(self.ratio)

    def where(self, slices: Sequence[str]) -> str:
        """The end of a sentence about some slices: `` on ppg``, `` with 16 streams``."""
        on = other_factors(self.obs, self.name)[:1] == ["placement"]
        return f" {'on' if on else 'with'} {_listed(slices)}" if self.slice else ""

    def effect(self, *, with_figures: bool = False) -> str:
        """``30 % less latency``; with figures: ``73 % less latency (147 to 39.8 µs)``."""
        obs, size, more = self.obs, size_words(self.ratio), self.ratio > 1
        how = "the" if size.endswith("times") else "more" if more else "less"
        before, after = (obs.value(c) for c in (self.base, self.condition))
        figures = ""
        if with_figures:
            figures = f" ({format_span(before, after, obs.unit)})"
        elif obs.unit == "us" and max(before, after) < SMALL_US and more:
            figures = f" (+{format_value(after - before, obs.unit, 2)})"
        return f"{size} {how} {self.noun}{figures}"


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


def _noun(metric: str) -> str:
    return NOUNS.get(metric, metric)


def _is_decided(family: Iterable[Comparison]) -> bool:
    return any(c.verdict not in ("no verdict", "exploratory") for c in family)


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
    >>> npl.analysis.lead_paragraph(exp).lines[-1][:57]
    'Limits: The link limits throughput on 4 of 13 conditions.'
    """
    source = Observed.of(data)
    used = [
        c for c in (contrasts(source) if family is None else family) if metric in (None, c.metric)
    ]
    observed = of_main_tools(source, metric, used)
    declared = bool(used)
    if not declared:
        comparisons, pairs = judged_by_rule(observed, margin)
        used, sides = [p.as_contrast() for p in pairs], [p.conditions for p in pairs]
    else:
        known = None if judged is None else Family(tuple(judged))
        comparisons = known or compare(source, contrasts=used, margin=margin)
        sides = [_conditions(observed, c) for c in used]
    about = list(zip(comparisons, sides, strict=True))
    w = Writer()
    _thresholds(w, [(c, *both) for c, both in zip(used, about, strict=True)])
    findings = _findings(about)
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
            _limits(w, obs, observe(source, obs.metric) if obs.where else obs)
    w.add("", _about_the_family(observed, comparisons, declared))
    w.add("", [] if any(states(source.runs)[0]) else ["No run is complete."])
    advice = tuple(w.advice.get(i, "") for i in range(len(used)))
    return Lead(tuple(w.lines), with_causes(comparisons, sides), tuple(used), declared, advice)


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
    notice = runs.origin.notice
    if not lead.family:
        said = [*lead.lines, notice if LOG_NAME in runs.runs else None]
        raise UsageError(f"there is nothing to compare by rule. {' '.join(filter(None, said))}")
    return replace(lead.family, notice=notice), lead


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
    if not good.any():
        return 0.0, 0, Words.line(one.name, "No run is complete.")
    lead = lead_paragraph(one)
    missed = sum(c.threshold is not None and c.verdict == "worse" for c in lead.family)
    started = runs["started_utc"].dropna()
    when = f" ({started.min():%-d %B %Y})" if len(started) else ""
    failed = [f"{(~good).sum()} of {plural(len(runs), 'run')} failed."] if not good.all() else []
    line = Words.line(one.name + when, " ".join([*failed, *lead.lines[:2]]))
    return float(good.mean()), -missed, line


def _conditions(observed: Sequence[Observations], contrast: Contrast) -> Compared:
    """The conditions of both sides of a contrast; none if one names no single condition: it is left to its page."""
    obs = next((obs for obs in observed if obs.metric == contrast.metric), None)
    one, two = (obs.condition(side) if obs else "" for side in (contrast.a, contrast.b))
    return (obs, one, two) if one and (two or contrast.b is None) else (None, "", "")


def _findings(about: Iterable[tuple[Comparison, Compared]]) -> list[Finding]:
    """The comparisons of two levels of one factor."""
    rows = []
    for index, (result, (obs, one, two)) in enumerate(about):
        for name in obs.factors if obs and two else ():
            if obs and obs.at(one, name) != obs.at(two, name) and obs.same(one, two, name, PAIR):
                rows.append(_finding(name, obs, one, two, result.ratio, result, index))
                break
    return rows


def _finding(
    name: str,
    obs: Observations,
    one: str,
    two: str,
    ratio: float,
    result: Comparison,
    index: int = -1,
) -> Finding:
    """The row of two conditions."""
    level, base = (_level_name(obs, c, name, obs.names) for c in (one, two))
    noun, where = _noun(obs.metric), _slice(obs, one, name)
    return Finding(name, obs, one, two, ratio, result, index, noun, level, base, where)


# -- names and figures ---------------------------------------------------------------------------------------------


def _level_name(obs: Observations, condition: str, name: str, among: Sequence[str]) -> str:
    """A level in the sentence of its factor: ``125 MiB TCP buffer``, ``zone 1 → 2``, ``expressroute ErGw1AZ``.

    A placement has the labels with it that vary among some conditions.
    """
    if name == PAIR:
        return level_names(obs, [f for f in obs.by if f not in obs.factors])[condition]
    labels = [f for f in other_factors(obs, name) if name == "placement" and is_label(f)]
    more = [str(obs.at(condition, f)) for f in labels if _varies(obs, among, f)]
    level = obs.at(condition, name)
    text = str(level) if is_label(name) else factor(name).level_words(level)
    return " ".join([text, *(label for label in more if label != "None")])


def _varies(obs: Observations, conditions: Iterable[str], name: str) -> bool:
    return len({obs.at(c, name) for c in conditions}) > 1


def _slice(obs: Observations, condition: str, name: str) -> str:
    """Levels of the other factors, of those that vary among the conditions in which the factor varies."""
    wide = [c for c in obs.names if any(c != d and obs.same(c, d, name, PAIR) for d in obs.names)]
    varying = [f for f in other_factors(obs, name) if _varies(obs, wide, f)]
    named = [g for g in varying if obs.at(condition, g) is not None or len(varying) == 1]
    return ", ".join(factor(g).level_words(obs.at(condition, g)) for g in named)


def _listed(names: Sequence[str]) -> str:
    """The names in words; of many their number."""
    return in_words(names) if len(names) <= FEW else f"{len(names)} conditions"


def _heading(obs: Observations, name: str, main: Sequence[str]) -> str:
    """The metric and the levels at which it is shown: ``throughput (cross-region, 1 stream)``."""
    held = [f for f in other_factors(obs, name) if not _varies(obs, main, f)]
    levels = {f: obs.at(main[0], f) for f in held if _varies(obs, obs.names, f)}
    said = {f: v for f, v in levels.items() if v not in (None, factor(f).ordinary)}
    words = [str(v) if is_label(f) else factor(f).level_words(v) for f, v in said.items()]
    if "placement" not in obs.factors and PAIR in obs.factors and name != PAIR:
        words[:0] = {_level_name(obs, c, PAIR, main) for c in main}
    words += [str(obs.where["test"])] if "test" in obs.where else []
    return _noun(obs.metric) + (f" ({', '.join(words)})" if words else "")


def _value(obs: Observations, conditions: Sequence[str]) -> str:
    """Write like medians as a span, or as one figure where they are written alike; a single run has two digits."""
    digits = 2 if obs.value(conditions[0], "n") == 1 else 3
    values = [obs.value(c) for c in conditions]
    low, high = (format_value(end(values), obs.unit, digits) for end in (min, max))
    return low if low == high else format_span(min(values), max(values), obs.unit, digits)


def _runs(obs: Observations, condition: str) -> str:
    """The range of the runs: `` (44.8 to 59.5 µs in 288 runs)``."""
    n, low, high = (obs.value(condition, c) for c in ("n", "smallest", "largest"))
    return f" ({format_span(low, high, obs.unit)} in {n:,.0f} runs)" if n > 1 else ""


def _is_wide(obs: Observations, condition: str) -> bool:
    """Whether the median stands for runs that differ widely."""
    return obs.value(condition, "high") > WIDE * obs.value(condition, "low")


def _alike(obs: Observations, conditions: Iterable[str]) -> list[list[str]]:
    """The conditions in groups of like medians; one whose runs differ widely is by itself."""
    groups: list[list[str]] = []
    for one in conditions:
        for group in groups:
            values = [obs.value(c) for c in (*group, one)]
            wide = _is_wide(obs, one) or _is_wide(obs, group[0])
            if max(values) <= ALIKE * min(values) and not wide:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _steps(obs: Observations, conditions: Sequence[str]) -> list[str]:
    """Of a ladder the first step, the first that gives as much as the best, and the last if it gives less.

    If all give the same: the first and the last.
    """
    first, last = conditions[0], conditions[-1]
    top = max(map(obs.value, conditions))
    best = next(c for c in conditions if obs.value(c) >= top / ALIKE)
    less = obs.value(last) < 0.99 * top or best == first
    return list(dict.fromkeys([first, best, last] if less else [first, best]))


def _at_its_best(obs: Observations, main: Sequence[str]) -> list[str]:
    """The number of streams that carries most over all placements of `main`, if it carries twice as much as theirs."""
    slices: dict[Any, list[str]] = {}
    for c in obs.names if "streams" in obs.factors and obs.unit == "bps" else ():
        if any(obs.same(c, d, "streams", PAIR) for d in main):
            slices.setdefault(obs.at(c, "streams"), []).append(c)
    complete = [s for s in slices.values() if len(s) == len(main)]
    best = max(complete, key=lambda s: sum(map(obs.value, s)), default=[])
    gains = [obs.value(b) / obs.value(c) for b, c in zip(best, main, strict=False)]
    return best if gains and median(gains) > 2 else []


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
    largest = max((x.size for x in decided), default=0.0) - math.log(ALIKE)
    large = [x for x in decided if x.size > largest]
    base = max(large, key=lambda x: obs.value(x.condition)).base if large else ""
    return [c for c in obs.names if base and (c == base or obs.same(c, base, name, PAIR))]


def _figures(
    w: Writer, obs: Observations, name: str, main: Sequence[str], *, ladder: bool = False
) -> list[str]:
    """``Latency is 39.7 µs on ppg, 57 µs on same-zone and cross-zone, 9.85 ms on cross-region.``"""
    names = [_level_name(obs, c, name, main) for c in main]
    called = {c: n if names.count(n) == 1 else c for n, c in zip(names, main, strict=True)}
    head = _heading(obs, name, main) + (" is " if name in PREPOSITIONS else ": ")
    return w.sentences(head, _values(w, obs, called, PREPOSITIONS.get(name, ""), ladder=ladder))


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
        notes += _runs(obs, group[0]) if _is_wide(obs, group[0]) else ""
        if len(groups) == 1 and len(names) > 2:
            parts.append(f"{text} on all {len(names)}{notes}")
        elif word:
            parts.append(f"{text} {word} {_listed(names)}{notes}")
        else:
            colon = ":" if any(n[-1:].isdigit() for n in names) else ""  # "burst 1: 187 µs"
            parts.append(f"{_listed(names)}{colon} {text}{notes}")
    return parts


def _share(w: Writer, obs: Observations, condition: str) -> str:
    """The share of the advertised bandwidth: in full the first time."""
    limit = obs.at(condition, "advertised_bps")
    if obs.unit != "bps" or not isinstance(limit, int | float) or not limit > 0:
        return ""
    of = f" of the advertised {format_value(limit, 'bps')}" if w.first("limit") else ""
    return f" ({100 * obs.value(condition) / limit:.0f} %{of})"


# -- lines ---------------------------------------------------------------------------------------------------------


def _thresholds(w: Writer, rows: Iterable[tuple[Contrast, Comparison, Compared]]) -> None:
    """``9 of 9 runs are below 1 ms (largest 411 µs)``: contrasts with one limit are counted together."""
    groups: dict[Any, tuple[Contrast, Observations, list[str]]] = {}
    for contrast, result, (obs, one, two) in rows:
        if obs and not two:
            key = contrast.metric, contrast.below is None, result.threshold
            groups.setdefault(key, (contrast, obs, []))[-1].append(one)
    for (_, reach, limit), (contrast, obs, names) in groups.items():
        values = obs.complete.set_index("condition")["value"]
        values = values[values.index.isin(names)]
        if values.empty:
            continue
        met = values >= limit if reach else values < limit
        extreme = format_value(values.min() if reach else values.max(), obs.unit)
        words = value_words(limit, obs.unit)
        words = f"{contrast.at_least} of {contrast.of}" if contrast.of else words
        ends = f"reach {words} (smallest" if reach else f"are below {words} (largest"
        where = "" if len(obs.names) == len(names) else f" on {_listed(names)}"
        text = f"{met.sum():,} of {values.size:,} runs{where} {ends} {extreme})"
        w.add("", w.sentences("", [text]))


def _factor(
    w: Writer,
    name: str,
    observed: Sequence[Observations],
    findings: Sequence[Finding],
    asked: Sequence[Contrast],
) -> None:
    """The line of a factor: its figures, and what they show."""
    sentences: list[str] = []
    pairs: list[tuple[Observations, Finding]] = []
    for obs in (obs for obs in observed if name in obs.factors):
        main = _shown(obs, name, findings, asked)
        if not main or (name != "placement" and not _varies(obs, main, name)):
            continue
        decided = [x for x in findings if x.obs is obs and x.verdict in DECIDED]
        if len(main) == 2 and name not in PREPOSITIONS and decided:
            pairs.append((obs, decided[0]))  # the figures of two levels stand in the conclusion
            continue
        numbers = all(isinstance(obs.at(c, name), int | None) for c in main)
        ladder = len(main) > 3 and name not in PREPOSITIONS and numbers
        sentences += _figures(w, obs, name, _steps(obs, main) if ladder else main, ladder=ladder)
        if name == "placement" and (best := _at_its_best(obs, main)):
            sentences += _figures(w, obs, name, best)
    conclusions = _conclusions(w, name, findings, with_figures=bool(pairs))
    for obs, x in pairs[-1:] if conclusions else ():
        conclusions += _other_slices(w, obs, x, findings)
    zones = any("client_zone" in obs.by for obs in observed)
    title = ("zones" if zones else "pairs") if name == PAIR else factor(name).label
    w.add(capital(title or name.replace("_", " ")), sentences + conclusions)


def _other_slices(
    w: Writer, obs: Observations, x: Finding, findings: Sequence[Finding]
) -> list[str]:
    """Figures of a level in slices outside of the family: ``125 MiB TCP buffer: 1.92 Gbit/s on cross-region``."""
    judged = {y.condition for y in findings}
    level = obs.at(x.condition, x.name)
    others = [c for c in obs.names if obs.at(c, x.name) == level and c not in judged]
    called = {
        c: words
        for c in others
        if (words := _slice(obs, c, x.name))
        and any(c != d and obs.same(c, d, x.name, PAIR) for d in obs.names)
    }
    return w.sentences(f"{x.level}: ", _values(w, obs, called, "on")) if called else []


def _conclusions(
    w: Writer, name: str, every: Sequence[Finding], *, with_figures: bool
) -> list[str]:
    """What all metrics show of each level, and one recommendation; then what is not decided."""
    sentences: list[str] = []
    less: list[Finding] = []
    base = ""
    by_level: dict[str, list[Finding]] = {}
    for x in _best_step(name, every):
        by_level.setdefault(x.level, []).append(x)
    for some in by_level.values() if name != PAIR or len(by_level) < 2 else ():
        verdicts = {x.verdict for x in some}
        worse = [x.ratio for x in some if x.verdict == "worse"]
        if "better" not in verdicts and any(not 1 / OBVIOUS < r < OBVIOUS for r in worse):
            continue
        if name == "streams" and verdicts == {"worse"}:
            less += some
            continue
        if name == "streams" and (filled := _filled(some)):
            *texts, advice = filled
        else:
            effects = _effects(w, some, with_figures=with_figures)
            against = "" if some[0].base_level == base else f" against {some[0].base_level}"
            if not effects or (name != "placement" and verdicts <= {"equivalent", "inconclusive"}):
                continue
            subject = "" if name == "accelerated" else f"{some[0].level}{against}: "
            sentences += w.sentences(subject, effects, in_words)
            base = some[0].base_level
            advice = _recommendation(name, some, every)
            texts = [advice] if advice else []
        sentences += [s for text in texts for s in w.sentences("", [text])]
        w.advice |= {x.index: capital(advice) for x in some if x.verdict != "inconclusive"}
    if less:
        counts = in_words(str(x.obs.at(x.condition, name)) for x in less)
        sizes = in_words(f"{100 * (1 - x.ratio):.0f} %" for x in less)
        most = less[0].obs.at(less[0].base, name)
        sentences += w.sentences("", [f"{counts} streams carry {sizes} less than {most}"])
    undecided = [
        f"{x.noun} of {', '.join(filter(None, [x.level, x.slice]))} "
        f"({span(x.ratio, x.result.low, x.result.high, short=True)})"
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
            x, same = some[-1], verdict == "equivalent"
            where = x.where([y.slice for y in some]) if len(some) < len(every) else ""
            if same:
                margin = f" within {100 * x.result.margin:.0f} %" if w.first("margin") else ""
                words.append(f"the same {noun}{margin}{' otherwise' if where and words else where}")
                continue
            several = "up to " if len(some) > 1 else ""
            text = f"{several}{x.effect(with_figures=with_figures)}{where}"
            counts = [int(x.obs.value(c, "n")) for c in (x.condition, x.base)]
            if verdict in DECIDED:
                words.append(text)
            elif min(counts) > 1 and x.size > math.log(ALIKE):
                words.append(f"{text} in these {counts[0]} and {counts[1]} runs")
    return words


def _best_step(name: str, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Of a ladder only the first level that gives as much as the best one speaks, and those that are worse."""
    reach: dict[str, float] = {}
    for x in findings:
        if x.verdict == "better" and isinstance(x.obs.at(x.condition, name), int):
            reach[x.level] = max(x.size, reach.get(x.level, 0.0))
    if name == "accelerated" or len(reach) < 2:
        return findings
    enough = max(reach.values()) - math.log(ALIKE)
    best = next(level for level, size in reach.items() if size >= enough)
    return [
        x for x in findings if x.level == best or (x.verdict == "worse" and x.level not in reach)
    ]


def _filled(some: Sequence[Finding]) -> list[str]:
    """Where a ladder of streams shows which number fills its path: that, what more cost, and last what to do."""
    texts: list[str] = []
    counts = []
    for x in some:
        path = level_names(x.obs, [f for f in x.obs.by if f != "streams"])[x.condition]
        fit = saturation(x.obs, x.obs.metric).get(path)
        if x.verdict != "better" or fit is None or len(fit.levels) < 3:
            return []
        if fit.enough in (None, max(fit.levels)):
            return []
        where = f"{x.slice}: " if len(some) > 1 else ""
        first, *others = filling(x.obs, path, fit)
        texts += [where + first, *others]
        counts.append(str(fit.enough))
    return [*texts, f"Use {in_words(counts)} connections for bulk transfers"]


def _recommendation(name: str, some: Sequence[Finding], findings: Sequence[Finding]) -> str:
    """The one recommendation for a level, from all its metrics; none that figures outside of the family contradict."""
    good, bad, same = (
        [x for x in some if x.verdict == verdict] for verdict in (*DECIDED, "equivalent")
    )
    if against := next(filter(None, (_contradiction(x, findings) for x in [*good, *same])), ""):
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
    if name in RAISES and not any(_is_raised(x) for x in good):
        return ""
    if name in DO:
        return DO[name] + (good[0].where([x.slice for x in good]) if same else "")
    return f"use it where {gains} matters"


def _is_raised(x: Finding) -> bool:
    """Whether more of a factor can raise what limits the baseline, or that is not known."""
    held = of_conditions(x.obs).get(x.base)
    causes = {*held.limit.causes} if held else set[str]()
    return not causes or bool(causes & RAISES[x.name])


def _contradiction(x: Finding, findings: Sequence[Finding]) -> str:
    """A slice outside of the family in which the level is worse by more than twice the margin."""
    obs, name = x.obs, x.name
    judged = {y.condition for y in findings if y.obs is obs}
    for c in obs.names:
        for d in (
            obs.names if c not in judged and obs.at(c, name) == obs.at(x.condition, name) else ()
        ):
            ratio = obs.value(c) / obs.value(d)
            loss = ratio if METRICS[obs.metric].better == "lower" else 1 / ratio
            base = obs.at(d, name) == obs.at(x.base, name) and obs.same(c, d, name, PAIR)
            if base and c != d and loss > 1 + 2 * x.result.margin:
                y = _finding(name, obs, c, d, ratio, x.result)
                gateway = y.level in GATEWAYS and obs.unit == "bps"
                cause = ": its gateway is the bottleneck" if gateway else ""
                return f"but {y.effect()}{y.where([y.slice])} (exploratory){cause}"
    return ""


def _plain(w: Writer, obs: Observations) -> None:
    """``ppg: Round-trip time 48 µs (46.6 to 49.3 µs in 1,320 runs).``, and the clearest change of its level."""
    noun = capital(_noun(obs.metric))
    for c in obs.names[:FEW]:
        tool = " ".join(str(v) for v in obs.where.values() if v) or obs.at(c, "tool")
        name = str(tool or c) if c == "all runs" or obs.where else c
        texts = [f"{noun} {_value(obs, [c])}{_runs(obs, c)}"]
        if len(obs.complete) >= LONG * len(obs.names) and obs.complete["started_utc"].notna().all():
            points = ask_history(obs).changes.get(c, [])
            clear = max(points, key=lambda p: log_size(p.ratio), default=None)
            texts += [clear.words(obs.metric)] if clear else []
        w.add(w.written_out(name), [s for text in texts for s in w.sentences("", [text])])


def _limits(w: Writer, obs: Observations, every: Observations) -> None:
    """Which conditions lose most datagrams; and what limits all of those that `limits` lists."""
    lost = {c: lost_share(obs, [c]) for c in obs.names}
    worst = sorted((c for c in lost if lost[c] > NOTICEABLE), key=lost.__getitem__, reverse=True)
    parts = [f"{format_value(lost[c], 'ratio')} on {c}" for c in worst[:FEW]]
    w.add("Datagrams lost", w.sentences("", parts))
    texts = limit_sentences([*of_conditions(every).values()], share="limit" not in w.said)
    w.add("Limits", [s for text in texts for s in w.sentences("", [text])])


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
        ends = dict.fromkeys((min(counts), max(counts)))
        n = f"{' to '.join(map(str, ends))} {'run' if max(counts) == 1 else 'runs'}"
        enough = f"{needed} {'rounds' if paired else 'runs each'} would be enough"
        return [f"{n} per condition: figures but no verdicts ({enough})."]
    if declared or not family:
        return []
    return [f"{plural(len(family), 'comparison')} by rule: every level against its baseline."]
