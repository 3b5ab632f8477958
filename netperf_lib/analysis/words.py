"""How numbers, conditions and verdicts are written: text is made last, and never read back."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn, Self

import pandas as pd

from ..errors import NothingToReport, visible
from ..experiment.factors import FACTORS, factor, level_words
from ..experiment.placements import PLACEMENTS
from ..metrics import METRICS, format_span, format_value
from ..metrics import metric as metric_of
from .runs import ENDS, MEANS, Levels

_MARKS = re.compile(r"[\\`*_\[\]{}<>|$~^&@#]|:(?=\S)|(?<=www)\.")
_FIRST = re.compile(r"^(\(?\w{1,9}(?=[.)])|(?=[:+=%-]))(.)")

RUNS = 6
"""Runs from which on their range covers the median with more than 95 % confidence."""
SEVERAL = "(several)"
"""Stands for the level of a factor that varies within a condition."""
DASH = "–"
"""Stands for a ratio or an interval where there is none."""
TIMES = 3.0
"""From this ratio on a change is written as a factor, and below it in per cent."""
MANY = 12
"""Conditions from which on a sentence has the smallest and the largest level."""
UNKNOWN = "not known"
"""What limits a transfer where no rule holds."""


def as_markdown(text: str) -> str:
    r"""Return the markdown that shows a text as it is.

    A label in it is no link, picture, code, formula, tag or border of a cell.

    Everything that is computed from data passes through here before it is rendered. Lines that
    begin with a dash are the items of a list.

    Examples
    --------
    >>> print(as_markdown("[fast](http://x): 2 * 3"))
    \[fast\](http\://x): 2 \* 3
    """
    lines = []
    for line in text.split("\n"):
        dash = "- " if line.startswith("- ") else ""
        words = visible(line.removeprefix("- ")).strip()
        words = _MARKS.sub(r"\\\g<0>", re.sub(r"(\s)\s*", r"\1", words))
        lines.append(dash + _FIRST.sub(r"\1\\\2", words))
    return "\n".join(lines)


def shortened(notice: str, most: int = 130) -> str:
    """Return what a notice says first, for a footer or a corner of a figure.

    The words before its first stop.
    """
    first = re.split(r"[;.] |[.;]$", notice)[0]
    return first if len(first) <= most else f"{first[: most - 1]}…"


class Words(str):
    """Sentences that were computed from data: text, which Jupyter and a report show as it is.

    Lines that begin with a dash are the items of a list.
    """

    @classmethod
    def of(cls, *sentences: str) -> Self:
        """Join sentences to a paragraph, or to a list where each begins with a dash."""
        parts = [s.strip() for s in sentences if s and s.strip()]
        is_list = all(part.startswith("- ") for part in parts)
        return cls(("\n" if is_list else " ").join(parts))

    def _repr_markdown_(self) -> str:
        # each line is a paragraph, but those of a list
        shown = re.sub(r"(?m)^(?!- )(.*)$", r"\1\n", as_markdown(str(self)))
        return shown.strip()


class Headline(Words):
    """The headline of a page; several lines are its paragraphs."""

    def _repr_markdown_(self) -> str:
        lines = [as_markdown(line) for line in self.split("\n") if line]
        if len(lines) == 1:
            return f"> **{lines[0]}**"
        return "\n>\n".join(f"> {line}" for line in lines)


class Line(Words):
    """A line of a lead: what it says about a topic, which is bold and may be empty."""

    topic: str

    def __new__(cls, topic: str, text: str) -> Self:
        """Return ``topic: text``, or the text alone."""
        line = super().__new__(cls, f"{topic}: {text}" if topic else text)
        line.topic = topic
        return line

    def _repr_markdown_(self) -> str:
        if not self.topic:
            return f"> {as_markdown(self)}"
        text = as_markdown(self.removeprefix(f"{self.topic}: "))
        return f"> **{as_markdown(self.topic)}:** {text}"


def capital(text: str) -> str:
    """Return a text that begins with a capital.

    Unless it begins with a name such as ``ppg`` or ``zone1``.
    """
    first = text.partition(" ")[0].rstrip(",:")
    named = first in PLACEMENTS or any(map(str.isdigit, first))
    if named:
        return text
    return text[:1].upper() + text[1:]


def as_text(markdown: str) -> str:
    """Return the text that `as_markdown` was given."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)


# -- numbers ---------------------------------------------------------------------------------------


def as_json(table: pd.DataFrame) -> Any:
    """Return the rows of a table as JSON types; a figure that is not finite becomes None."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def percent(share: float) -> str:
    """Write a share: ``95 %``, ``96.9 %``, ``0.42 %``."""
    number = 100 * share
    if 0 < abs(number) < 1:
        return f"{number:.2g} %"
    digits = 1
    # 99.97 % is not 100 %, and 95.0 % is 95 %
    if abs(number - round(number)) < 0.05:
        digits = 0
    elif abs(number) >= 99.95:
        digits = 2
    return f"{number:.{digits}f} %"


def log_size(ratio: float) -> float:
    """Return how far a ratio is from 1, upwards or downwards, as a logarithm.

    A ratio without a value is 0 far.
    """
    if 0 < ratio < math.inf:
        return abs(math.log(ratio))
    return 0.0


def size_words(ratio: float) -> str:
    """Return the size of a ratio without its direction: ``32 %``, ``4.2 times``."""
    times = ratio >= TIMES
    digits = _digits(ratio, times=times)
    if times:
        return f"{ratio:,.{digits}f} times"
    return f"{100 * abs(ratio - 1):,.{digits}f} %"


def _digits(ratio: float, *, times: bool) -> int:
    """Return how many decimals a ratio has as a factor, or as a change in per cent."""
    if times and ratio < 1:  # two digits that mean something
        return 2
    if times:
        return int(ratio < 20)
    # one digit more for what is small, and for what is nearly all
    change = 100 * (ratio - 1)
    return int(abs(change) < 9.95 or change <= -98.5)


def effect(ratio: float, outward: int = 0, *, times: bool | None = None) -> str:
    """Write a ratio as a change: ``−31 %``, ``×4.2``, ``−99.4 %``; a dash where there is none.

    An end of an interval is rounded outwards, down (−1) or up (1), so that the interval on the page
    never claims more than the one that decided; and it is written like its ratio (`times`).
    """
    if not math.isfinite(ratio) or ratio <= 0:
        return DASH
    if times is None:
        times = ratio >= TIMES
    digits = _digits(ratio, times=times)
    if times:
        return f"×{_rounded(ratio, digits, outward):,.{digits}f}"
    change = _rounded(100 * (ratio - 1), digits, outward)
    if not change:  # what is rounded to nothing has no sign
        return f"{change:.{digits}f} %"
    return f"{change:+,.{digits}f} %".replace("-", "−")


def _rounded(number: float, digits: int, outward: int) -> float:
    scaled = number * 10**digits
    if outward < 0:
        scaled = math.floor(scaled + 1e-9)
    elif outward > 0:
        scaled = math.ceil(scaled - 1e-9)
    return float(round(scaled) / 10**digits)


def span(ratio: float, low: float, high: float, *, short: bool = False) -> str:
    """Return the interval of a ratio, as `effect` writes it; a dash where there is none.

    Examples
    --------
    >>> span(0.69, 0.66, 0.703), span(2.9, 2.7, 3.1), span(3.1, 0.9, 3.3)
    ('−34 % to −29 %', '+170 % to +210 %', '×0.90 to ×3.3')
    >>> span(0.996, 0.981, 1.004, short=True)
    '−2 to +1 %'
    """
    if not (math.isfinite(high) and low > 0):
        return DASH
    times = ratio >= TIMES
    if short and not times and low > 0.1:
        ends = (
            f"{math.floor(100 * (low - 1) + 1e-9):+d} to "
            f"{math.ceil(100 * (high - 1) - 1e-9):+d} %"
        )
        return ends.replace("-", "−").replace("+0 ", "0 ")
    return f"{effect(low, -1, times=times)} to {effect(high, 1, times=times)}"


def quantity(metric: str) -> str:
    """Name of a metric for a sentence: ``one-way latency (99th percentile)``.

    An unknown name is returned as it is.
    """
    if metric not in METRICS:
        return metric
    name, _, statistic = METRICS[metric].label.partition(", ")
    name = name.removesuffix(
        " at the receiver"
    )  # the headline: the sender's view says so
    if name[1:2].islower():
        name = name[0].lower() + name[1:]
    if statistic not in ("", "mean"):
        name += f" ({statistic})"
    return name


def unit_of(metric: str) -> str:
    """Return the unit of a metric's stored numbers, empty when it is not known."""
    return METRICS[metric].unit if metric in METRICS else ""


def value_words(value: float, unit: str) -> str:
    """Write a value with its unit."""
    return format_value(value, unit, 4) if unit else f"{value:.4g}"


# -- conditions ------------------------------------------------------------------------------------


def label(name: str) -> str:
    """Name a factor in a sentence."""
    return (factor(name).label or name).replace("_", " ")


def levels_text(levels: Levels) -> str:
    """Write the levels of several factors."""
    return ", ".join(map(level_words, levels.keys(), levels.values()))


def condition_names(
    facts: pd.DataFrame, by: Sequence[str], varying: Collection[str]
) -> list[str]:
    """Return the name of each condition: its levels in words.

    Ordinary ones go unsaid where the rest is unique. Without a factor all have one name: their
    placement, where it is known.
    """
    if not by:
        places = {*facts.get("placement", [None])} - {SEVERAL}
        place = places.pop() if len(places) == 1 else None
        return [place or "all runs"] * len(facts)
    order = sorted(by, key=_rank)
    names = []
    for row in facts.astype(object).to_numpy():
        levels = dict(zip(map(str, facts), row, strict=True))
        phrases = _phrases(levels, order, varying)
        whole = ", ".join(phrases) or "unknown"
        told = ", ".join(phrase for phrase, ordinary in phrases.items() if not ordinary)
        names.append((told or whole, whole))
    # a short name that would stand for two conditions is written out
    meanings = Counter(short for short, _ in set(names))
    return [whole if meanings[short] > 1 else short for short, whole in names]


def _rank(name: str) -> tuple[bool, float]:
    """Order factors as the list has them, labels before hosts, and how it was measured last."""
    listed = list(FACTORS)
    if name not in FACTORS:
        return False, listed.index("client") - 0.5
    return name in MEANS, listed.index(name)


def _phrases(
    levels: Levels, by: Sequence[str], varying: Collection[str]
) -> dict[str, bool]:
    """Return the words for the levels, each with whether it goes without saying."""
    phrases: dict[str, bool] = {}
    for name in by:
        for pair in ENDS:
            # a path has one name, where both of its ends are known
            alone = {*pair} & {*varying} - {*by}
            if name in pair and not alone:
                phrases |= _path(*pair, levels)
                break
        else:
            level, ordinary = levels[name], factor(name).ordinary
            if name == "streams" and levels.get("during"):
                ordinary = 1  # of a probe beside a load, whose own streams its name tells
            phrases[level_words(name, level)] = level in (None, ordinary)
    return phrases


def _path(client: str, server: str, levels: Levels) -> dict[str, bool]:
    """Return the words for the two ends of a path."""
    one, two = levels.get(client), levels.get(server)
    zone = "zone " if client == "client_zone" else ""
    if one and two:
        return {f"{zone}{one} → {two}": False}
    if one:
        return {f"{zone}from {one}": False}
    if two:
        return {f"{zone}to {two}": False}
    return {}


def verdict_counts(verdicts: Iterable[str]) -> str:
    """Count verdicts: ``22 compared: 0 worse, 0 better, 17 equivalent, 5 not decided``."""
    counts = Counter(UNDECIDED.get(verdict, verdict) for verdict in map(str, verdicts))
    text = (
        f"{counts.total()} compared: {counts['worse']} worse, {counts['better']} better, "
        f"{counts['equivalent']} equivalent, {counts['not decided']} not decided"
    )
    if counts["exploratory"]:
        text += f", {counts['exploratory']} exploratory"
    return text


UNDECIDED = {"inconclusive": "not decided", "no verdict": "not decided"}


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """Return the levels of conditions in a sentence, for a headline."""
    info, medians = metric_of(metric), table["median"].dropna()
    if len(medians) > MANY:
        ends = format_span(medians.min(), medians.max(), info.unit)
        return f"{info.label}: {ends} in {len(medians)} conditions."
    figures = [f"{format_value(value, info.unit)} ({c})" for c, value in medians.items()]
    return f"{info.label}: {', '.join(figures)}."


# -- pages -----------------------------------------------------------------------------------------


def interval_words(n: Iterable[int], deployments: int = 1) -> str:
    """Return what the interval of a level is, for a caption: with few runs it is their range."""
    if deployments > 1:
        return f"its 95 % interval (Student's t over the medians of {deployments} deployments)"
    counts = [k for k in n if k > 1]
    if not counts:
        return "no interval (one run each)"
    enough = "its 95 % interval by order statistics"
    few = "the range of the runs, at a lower confidence"
    if max(counts) < RUNS:
        return few
    if min(counts) < RUNS:
        enough += f", or, below {RUNS} runs, {few}"
    return enough


def metric_label(metric: str) -> str:
    """Return the label of a metric, for readers.

    Examples
    --------
    >>> npl.analysis.metric_label("latency_oneway_p99_us")
    'One-way latency, 99th percentile'
    """
    return metric_of(metric).label


def heading(what: str, metric: str) -> str:
    """Return the heading of a page: ``Placement: one-way latency``."""
    quantity = metric_of(metric).label
    return f"{what}: {quantity[:1].lower()}{quantity[1:]}"


def end(reason: str) -> NoReturn:
    """End the notebook here, because the experiment lacks the data for it.

    The report shows `reason`.

    Examples
    --------
    >>> npl.analysis.end("no run was complete")
    Traceback (most recent call last):
        ...
    netperf_lib.errors.NothingToReport: no run was complete
    """
    raise NothingToReport(reason)
