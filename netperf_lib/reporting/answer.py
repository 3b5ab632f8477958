"""The answer to a question: the levels of each condition and how they compare, which shows itself in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport, UsageError
from ..metrics import PAGES, format_value
from ..metrics import metric as metric_of
from ..questions.compare import Data, compare, read_data
from ..questions.observe import Observations, levels, observe
from ..stats import Family
from ..stats.result import plain as as_json
from ..stats.result import quantity

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..plots.figure import Drawn

_FIGURES = ["condition", "n", "median", "low", "high", "failed", "missing"]


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """What some factors do to a metric.

    Attributes
    ----------
    observations : Observations
        What each condition gave in each round.
    verdicts : Family
        The comparisons of conditions that differ in these factors alone. Those that the experiment declares have a
        verdict, the others are exploratory. Empty where no two conditions can be compared.
    """

    observations: Observations
    verdicts: Family

    @property
    def metric(self) -> str:
        """The metric that was asked about."""
        return self.observations.metric

    @property
    def levels(self) -> pd.DataFrame:
        """Level of each condition, as `netperf_lib.levels` returns it."""
        return levels(self.observations)

    @property
    def notes(self) -> tuple[str, ...]:
        """What splits the conditions, and what was pooled or left out."""
        return self.observations.notes

    def plot(self, *, ax: Axes | None = None) -> Drawn:
        """Draw the value of each round, by condition; see `netperf_lib.plots.rounds`."""
        from ..plots import rounds

        return rounds(self.observations, self.metric, ax=ax)

    def card(self) -> Drawn:
        """Draw the clearest comparison as a card to paste; ``savefig(path, dpi=100)`` writes 1200 × 630 pixels.

        Raises NothingToReport if no two conditions can be compared.
        """
        from .card import chosen, draw

        if not len(self.verdicts):
            raise NothingToReport("there is nothing to compare, so there is no answer for a card")
        return draw(self.observations, self.verdicts[chosen(self.verdicts)])

    def to_frame(self) -> pd.DataFrame:
        """Return the comparisons, as `Family.to_frame` does."""
        return self.verdicts.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; levels in the unit of the metric."""
        table = self.levels.reset_index().astype({"condition": str})[_FIGURES]
        question = {"factor": ", ".join(self.observations.asked), "metric": self.metric, "notes": list(self.notes)}
        return {**question, "levels": as_json(table.to_dict("records")), **self.verdicts.to_dict()}

    def __repr__(self) -> str:
        unit = metric_of(self.metric).unit
        title = f"{quantity(self.metric)} by {', '.join(self.observations.asked)}"
        rows = []
        for name, row in self.levels.iterrows():
            median, low, high = (format_value(row[c], unit) for c in ("median", "low", "high"))
            span = f" ({low} to {high})" if row["n"] > 1 else ""
            rows.append(f"  {name}: {median}{span}, n = {row['n']}" if row["n"] else f"  {name}: –")
        return "\n".join([title, *rows, *(f"  {c.words}" for c in self.verdicts), *(f"  ! {n}" for n in self.notes)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        table = self.levels[["n", "median", "low", "high", "failed", "missing"]].copy()
        unit = metric_of(self.metric).unit
        for column in ("median", "low", "high"):
            table[column] = [format_value(v, unit) for v in table[column]]
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        shown = f"{table.to_html(border=0)}{self.verdicts._repr_html_() if len(self.verdicts) else ''}{notes}"
        return {"text/plain": repr(self), "text/html": shown}


def ask(
    data: Data,
    metric: str | None = None,
    by: str | Sequence[str] = (),
    *,
    baseline: Any = None,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
    pattern: str | None = None,
    margin: float | None = None,
) -> Answer:
    """What do these factors do to a metric: levels, comparisons, and what else splits the conditions.

    Parameters
    ----------
    data : Results, DataFrame, path or Observations
        An experiment, its runs, its folder, or raw logs.
    metric : str, optional
        Default: the first headline metric for which the factors vary.
    by : str or sequence of str
        The factors that are asked about.
    baseline : optional
        Level of the first factor that the others are compared with; default: each with each other.
    where, pool
        See `netperf_lib.observe`.
    pattern : str, optional
        Pattern of the paths of raw logs; see `netperf_lib.import_logs`.
    margin : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; default: as declared, else 0.05.

    Returns
    -------
    Answer

    Raises
    ------
    UsageError
        Unknown factor, level or metric, with the nearest ones.
    NothingToReport
        No complete run has a headline metric.

    Examples
    --------
    >>> import netperf_lib as npl
    >>> answer = npl.ask("data/recorded/lab-full", "throughput_bps", by="streams")
    >>> list(answer.levels.index)[:2]
    ['ppg, 1 stream', 'ppg, not accelerated networking']
    """
    source = read_data(data, pattern)
    if metric is None:
        metric = source.metric if isinstance(source, Observations) else _first(source, by, where, pool)
    obs = observe(source, metric, by, where=where, pool=pool)  # type: ignore[arg-type]
    try:
        family = compare(
            source, metric=metric, by=obs.asked or obs.by, baseline=baseline, where=where, pool=pool, margin=margin
        )
    except UsageError as error:
        if "nothing to compare" not in str(error):
            raise
        family = Family(())
    assert isinstance(family, Family)
    return Answer(obs, family)


def _first(source: Any, by: str | Sequence[str], where: Mapping[str, Any] | None, pool: str | Sequence[str]) -> str:
    """The first headline metric that the question has an answer for."""
    problem: UsageError | None = None
    runs = getattr(source, "runs", source)
    for metric in PAGES:
        if metric in runs and runs[metric].notna().any():
            try:
                observe(source, metric, by, where=where, pool=pool)
            except UsageError as error:
                problem = problem or error
            else:
                return metric
    raise problem or NothingToReport("no complete run has a latency, a round trip or a throughput")
