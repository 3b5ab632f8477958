"""The answer to a question.

The levels of each condition and how they compare, which shows itself in a notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..analysis.compare import (
    asked_about,
    compare,
    judge_declared,
    pairs,
    usual_level,
)
from ..analysis.contents import ends_of
from ..analysis.judging import read_margin
from ..analysis.lead import lead_paragraph
from ..analysis.observe import Observations, levels, measured_by, observe
from ..analysis.runs import (
    MEASUREMENT,
    Data,
    Measurement,
    headline_metrics,
    measurement,
)
from ..analysis.streams import filled
from ..analysis.verdicts import Family
from ..analysis.words import Headline, Words, as_json, levels_words, log_size
from ..errors import NothingToReport, UsageError
from ..experiment.factors import factor
from ..experiment.model import Contrast
from ..metrics import format_span, format_value, in_words, plural
from ..metrics import metric as metric_of
from .blocks import notice, verdicts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FIGURES = [
    "ratio", "low", "high", "confidence", "margin", "family", "n", "verdict", "paired",
]  # fmt: skip
"""What is compared of a verdict with a check by hand."""
IN_ROUNDS = (
    "Every condition is measured once in every planned round, so that drift affects all "
    "alike."
)
ALIKE = 0.02
"""Pairs whose medians differ by no more are not called best and worst."""
MAX_DIFFERENCES = 12
"""Comparisons that a page shows where there are more than twice as many, and nobody declared
them."""


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The effect of factors on a metric.

    Attributes
    ----------
    observations : Observations
        The value of each condition in each round.
    verdicts : Family
        The contrasts between levels of these factors, as declared or, if the experiment declares
        none at all, as made by rule (see `compare`). For other factors: every level against the
        baseline, exploratory. Empty if no two conditions can be compared.
    contrasts : tuple of Contrast
        The contrasts that were declared or made by rule.
    pairs : tuple of tuple of str
        The two conditions of each verdict, as `observations` names them; empty names at a
        threshold.
    """

    observations: Observations
    verdicts: Family
    contrasts: tuple[Contrast, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def metric(self) -> str:
        """The metric that was asked about."""
        return self.observations.metric

    @property
    def main(self) -> Observations:
        """The conditions of figures, with every factor that was not asked about at one level."""
        obs = self.observations
        return obs.main(self.contrasts) if obs.asked else obs

    def compared(self, obs: Observations | None = None) -> pd.DataFrame:
        """Return the verdicts between these conditions as numbers, to be checked by hand.

        Parameters
        ----------
        obs : Observations, optional
            `main` (the default) or `observations`.

        Returns
        -------
        DataFrame
            ``a`` and ``b`` are columns of ``obs.wide``; ``ratio`` of a to b, ``low`` and ``high``
            its interval at ``confidence``; ``margin``; ``family``: how many comparisons share the
            error; ``n``, ``verdict``, and ``paired`` by round or not.
        """
        import pandas as pd

        every, main = self.observations, self.main if obs is None else obs
        shown = every.names
        if len(main.names) < len(shown):
            shown = every.usual(every.asked, self.contrasts)
        names = dict(zip(shown, main.names, strict=True))
        sides = pd.DataFrame(self.pairs, columns=["a", "b"]).map(names.get)
        figures = self.verdicts.to_frame().reindex(columns=FIGURES)
        table = sides.join(figures).dropna(subset=["a", "b"])
        return table.reset_index(drop=True)

    @property
    def levels(self) -> pd.DataFrame:
        """Level of each condition, as `netperf_lib.levels` returns it."""
        return levels(self.observations)

    @property
    def headline(self) -> Headline:
        """The clearest finding in a sentence.

        That of streams is how many fill a path, that of pairs the best and the worst.
        """
        main = self.main
        if len(main.asked) == 2 and main.asked[0].startswith("client"):
            return Headline(pairs_words(main))
        ladders = filled(self.observations) if main.asked == ("streams",) else []
        if ladders:
            return Headline("\n".join(ladders))
        settled = [c.words for c in self.verdicts if c.settled]
        if not settled:
            return Headline(levels_words(levels(main), self.metric))
        if len(settled) == 1:
            return Headline(f"{settled[0]}.")
        others = plural(len(settled) - 1, "more verdict")
        return Headline(f"{settled[0]}. ({others} below.)")

    @property
    def words(self) -> Words:
        """What was measured, and what splits the conditions, in sentences."""
        every, main = self.observations, self.main
        sentences = [describe(every)]
        if (main.origin.source or "imported") != "imported":
            sentences.append(IN_ROUNDS)
        sentences += [f"{note[:1].upper()}{note[1:]}." for note in every.notes]
        shared = []
        for name in main.by:
            values = set(main.conditions[name])
            if name not in main.asked and len(values) == 1:
                shared.append(factor(name).level_words(*values))
        if shared and len(main.names) < len(every.names):
            sentences.append(f"Figures show {', '.join(shared)}.")
        return Words.of(*sentences)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw every run, and the median with its interval: see `netperf_lib.plots.levels`."""
        from ..plots import levels

        return levels(self.main, ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; levels in the unit of the metric."""
        columns = "condition n median low high failed missing".split()
        figures = self.levels.reset_index().astype({"condition": str})[columns]
        return {
            "factor": ", ".join(self.observations.asked),
            "metric": self.metric,
            "notes": list(self.observations.notes),
            "levels": as_json(figures),
            **self.verdicts.to_dict(),
        }

    def __repr__(self) -> str:
        figures = self.levels[["n", "median", "low", "high", "unit"]]
        lines = [figures.rename_axis(columns=None).to_string()]
        lines += [f"  {c.words}" for c in self.verdicts]
        lines += [f"  ! {note}" for note in self.observations.notes]
        return "\n".join([*map(str, notice(self.observations.origin.notice)), *lines])

    def parts(self, *, short: bool = False) -> list[Any]:
        """Return what a notebook shows: notice, headline, and the comparisons with what to do.

        Of very many comparisons that nobody declared these are the largest. What is `short` is
        part of a report, whose first pages have the notice and the warnings.
        """
        family = self.verdicts
        first = [
            *notice(None if short else self.observations.origin.notice),
            self.headline,
        ]
        if not len(family):
            return first
        if self.contrasts:
            return [*first, verdicts(family, self.contrasts, short=short)]
        if len(family) <= 2 * MAX_DIFFERENCES:
            return [*first, verdicts(family)]  # page two has no others than declared ones
        order = sorted(family, key=lambda c: log_size(c.ratio), reverse=True)
        largest = replace(family, comparisons=tuple(order[:MAX_DIFFERENCES]))
        words = (
            f"Shown are the {MAX_DIFFERENCES} largest of {len(family):,} differences; "
            f"npl compare FOLDER --by {','.join(self.observations.asked)} prints all."
        )
        return [*first, verdicts(largest), Words(words)]

    def _repr_markdown_(self) -> str:
        return "\n\n".join(part._repr_markdown_() for part in self.parts())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        short = "\n\n".join(part._repr_markdown_() for part in self.parts(short=True))
        shown = {"text/plain": repr(self), "text/markdown": self._repr_markdown_()}
        return shown, {"text/markdown": {"short": short}}


def ask(
    data: Data,
    by: str | Sequence[str] = (),
    metric: str | None = None,
    *,
    baseline: Any = None,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    pattern: str | None = None,
    margin: float | str | None = None,
) -> Answer:
    """Show how factors affect a metric: levels, comparisons, and what else splits the conditions.

    Parameters
    ----------
    data : Results, DataFrame, path or Observations
        An experiment, its runs, its folder, or raw logs.
    by : str or sequence of str
        The factors that are asked about; ``"pairs"`` for the two ends of every pair, such as zones.
    metric : str, optional
        Default: the first headline metric for which the factors vary.
    baseline : optional
        Level of the first factor that the others are compared with. Default: as in the declared
        contrasts on these factors, or those made by rule, else the usual level.
    where, pool
        See `netperf_lib.observe`.
    pattern : str, optional
        Pattern of the paths of raw logs; see `netperf_lib.import_logs`.
    margin : float, optional
        Ratios between 1/(1 + margin) and 1 + margin are equivalent; default: as declared, else
        0.05.

    Returns
    -------
    Answer

    Raises
    ------
    UsageError
        Unknown factor, level or metric, with the nearest ones.
    NothingToReport
        No complete run has the metric, or the factors do not vary in those that have.

    Examples
    --------
    >>> import netperf_lib as npl
    >>> answer = npl.ask("data/recorded/lab-full", "streams", "throughput_bps")
    >>> list(answer.main.conditions.index)
    ['1 stream', '2 streams', '4 streams', '16 streams']
    """
    source = getattr(data, "observations", data)
    if isinstance(source, Observations):
        metrics = [metric or source.metric]
    else:
        source = measurement(source, pattern)
        metrics = [metric] if metric else headline_metrics(source)
    obs = _observed(source, metrics, by, where=where, pool=pool)
    if baseline is None and isinstance(source, Measurement):
        judged = _judged(source, obs, where or {}, margin)
        if judged:
            return judged
    return _against(obs, baseline, margin)


def _observed(
    source: Any, metrics: Iterable[str], by: str | Sequence[str], **options: Any
) -> Observations:
    """Return the first of some metrics that the question has an answer for."""
    problem = None
    for metric in metrics:
        try:
            if by != "pairs":
                return observe(source, metric, by, **options)
            ends = [*ends_of(source, metric)]
            obs = observe(source, metric, ends, **options)
        except UsageError as error:
            problem = problem or error
        else:  # a run whose ends are not known is of no pair
            known = obs.conditions[ends].notna().all(axis=1)
            return obs.only(obs.conditions.index[known])
    raise problem or NothingToReport(
        "no complete run has a latency, a round trip or a throughput"
    )


def _judged(
    source: Measurement,
    obs: Observations,
    where: Mapping[str, Any],
    margin: float | str | None,
) -> Answer | None:
    """What is declared about these conditions, or what page one says by rule if nothing is.

    None where neither is about them.
    """
    if MEASUREMENT in source.factors:  # what one of several declares is not asked of all
        return None
    size = None if margin is None else read_margin(margin)
    if declared := source.contrasts:
        if not asked_about(obs, declared, where):
            return None
        family = judge_declared(source, obs.metric, margin=size, contrasts=declared)
        used = [c.question.as_contrast() for c in family]
    else:
        lead = lead_paragraph(source, margin=size)
        if not lead.judged:
            return None
        family, used = lead.family, [*lead.contrasts]
    asked = asked_about(obs, used, where)
    if not asked:
        return None
    chosen = [c for c, contrast in zip(family, used, strict=True) if contrast in asked]
    shown = replace(family, comparisons=tuple(chosen), notice=obs.origin.notice)
    sides = tuple((obs.condition(c.a), obs.condition(c.b)) for c in asked)
    return Answer(obs, shown, contrasts=tuple(asked), pairs=sides)


def _against(obs: Observations, baseline: Any, margin: float | str | None) -> Answer:
    """Every level against the baseline, or the ordinary one; each with each where there is none."""
    if not obs.asked:
        return Answer(obs, Family(()), (), ())
    level = baseline
    if level is None:
        level = usual_level(obs, obs.asked[0])
    sides = tuple(pairs(obs, level))
    if not sides:
        return Answer(obs, Family(()), (), ())
    return Answer(obs, compare(obs, baseline=level, margin=margin), (), sides)


def describe(obs: Observations) -> str:
    """Return in a sentence what was observed: metric, tools, conditions, rounds."""
    info, table = metric_of(obs.metric), obs.complete
    found = (
        plural(table["condition"].nunique(), "condition"),
        plural(table["round"].nunique(), "round"),
        plural(table["replicate"].nunique(), "deployment"),
        plural(len(table), "complete run"),
    )
    text = info.label
    if info.basis and info.basis not in info.label.lower():
        text += f" ({info.basis})"
    text += f", measured by {measured_by(obs)}: {in_words(found)}."
    if info.better:
        text += f" {info.better.capitalize()} is better."
    return text


def pairs_words(obs: Observations) -> str:
    """Return which pair is best and worst, in a sentence."""
    info = metric_of(obs.metric)
    known = obs.conditions[[*obs.asked]].notna().all(axis=1)
    medians = obs.levels["median"][known].dropna()
    medians = medians.sort_values(ascending=info.better != "higher")
    low, high = medians.min(), medians.max()
    words = [format_value(value, info.unit) for value in medians]
    if high > (1 + ALIKE) * low:
        first, *_, last = medians.index
        return f"Best is {first} with {words[0]}, worst {last} with {words[-1]}."
    if words[0] == words[-1]:
        return f"All pairs have {words[0]}."
    return f"All pairs have {format_span(low, high, info.unit)}."
