"""The first page of a report: what the data answer, what was measured, and what is uncertain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..analysis.compare import compare
from ..analysis.intervals import DEPLOYMENTS
from ..analysis.lead import Lead, opening
from ..analysis.observe import levels
from ..analysis.runs import headline_metrics, measurement, states, status_counts, warned
from ..analysis.words import UNDECIDED, Line, Words
from ..data.declaration import last_set_aside
from ..data.door import Readable, read
from ..data.load import Results
from ..errors import NetperfError
from ..metrics import plural
from .blocks import Shown, measured, verdicts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Summary:
    """What an experiment, or many, answer; see `summary`.

    Attributes
    ----------
    lead : Lead
        The lead paragraph, and the comparisons that it speaks of.
    data : Results
        What was measured.
    since : str
        What changed since the last measurement of this name; empty if there is none.
    """

    lead: Lead
    data: Results
    since: str = ""

    @property
    def runs(self) -> pd.DataFrame:
        """The table of runs."""
        return measurement(self.data).runs

    @property
    def headline(self) -> Lead:
        """The lead paragraph: what changed since the last time, and a line for each factor."""
        if not self.since:
            return self.lead
        since = Line("Since the last time", self.since)
        return replace(self.lead, lines=(since, *self.lead.lines))

    def plot(self, *, ax: Axes | None = None) -> Axes | Words:
        """Draw the answers: both values, effect, interval and verdict of each comparison."""
        from ..plots import forest

        return forest(self.lead.family, ax=ax) if len(self.lead.family) else Words()

    @property
    def several(self) -> bool:
        """Whether these are several experiments, each of which has a report of its own."""
        return len(set(self.runs["experiment"])) > 1

    @property
    def verdicts(self) -> Shown | Words:
        """The table of answers."""
        lead = self.lead
        if lead.judged:
            return verdicts(lead.family, lead.contrasts)
        if self.several:
            return Words("Nothing is judged here: each experiment has its own report.")
        if len(lead.family):
            return Words("Nothing is judged: there are too few rounds.")
        return Words("Nothing is judged: there is nothing to compare.")

    @property
    def measured(self) -> list[Shown]:
        """The levels of each headline metric; of several experiments nothing."""
        if self.several:
            return []
        metrics = headline_metrics(self.data)
        return [measured(levels(self.data, metric), metric) for metric in metrics]

    @property
    def caveats(self) -> Words:
        """What the verdicts hold for, and what is uncertain about them."""
        runs = self.runs
        family = list(self.lead.family) if self.lead.judged else []
        _, failed, excluded = status_counts(runs)
        deployments, added = runs["deployment"].nunique(), self.data.origin.added
        what = "verdicts" if family else "values"
        where = (
            plural(deployments, "deployment") if deployments > 1 else "virtual machines"
        )
        holds = f"The {what} hold for these {where} and the hours in which they were measured."
        if deployments < DEPLOYMENTS:
            holds += (
                " Another deployment of the same request may land elsewhere; only "
                f"{DEPLOYMENTS} or more deployments say something about a placement as such."
            )
        lines = [holds]
        if assumed := dict.fromkeys(a for c in family for a in c.assumptions):
            lines.append(f"Assumed: {'; '.join(assumed)}.")
        if added:
            late = f"{plural(added, 'comparison')} added after the first run: exploratory"
            lines.append(f"{late}, an interval but no verdict.")
        if unknown := int(runs["placement"].isna().sum()):
            lines.append(
                f"The placement of {plural(unknown, 'run')} is not known: label them, or they "
                "count as one."
            )
        if left := dict.fromkeys(c.topic for c in family if c.verdict in UNDECIDED):
            lines.append(f"Not decided: {'; '.join(left)}.")
        if failed or excluded:
            lost = f"{plural(failed, 'run')} of {len(runs)} failed"
            lines.append(f"{lost} and {excluded} were excluded; none are used.")
        if told := warned(runs[states(runs)[0]]):
            lines.append(f"{told}. The page on quality counts them.")
        return Words("\n".join(f"- {line}" for line in lines))

    def __repr__(self) -> str:
        return "\n".join(self.headline.lines)

    def _repr_markdown_(self) -> str:
        return self.headline._repr_markdown_()


def summary(experiment: Readable) -> Summary:
    """Summarise an experiment in a paragraph.

    A line for each factor, with the comparisons behind it.

    Parameters
    ----------
    experiment : Results or path
        An experiment, its folder, or what else `read` takes: a pattern or a list of several.

    Returns
    -------
    Summary
        It shows its headline. ``verdicts``, ``measured`` and ``caveats`` show the rest of the first
        page of a report.

    Examples
    --------
    >>> npl.summary("data/recorded/zones").headline.lines[0][:5]
    'Paths'
    """
    results = read(experiment)
    return Summary(opening(results), results, _since(results))


def _since(results: Results) -> str:
    """What changed since the measurement that was set aside before this one."""
    before = last_set_aside(results.folder) if results.folder else None
    if before is None:
        return ""
    try:
        change = compare(before, results)
    except NetperfError:  # nothing that both measured
        return ""
    changed = [c.words for c in change if c.verdict in ("worse", "better")][:3]
    if not changed:
        changed = ["No change is proven"]
    return f"{change.summary}. {'. '.join(changed)}."
