"""The first page of a report: what the data answer, what was measured, and what is uncertain."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.claims import stored
from ..analysis.compare import compare
from ..analysis.contents import pages
from ..analysis.details import overview
from ..analysis.history import ask_history, measurements
from ..analysis.intervals import DEPLOYMENTS
from ..analysis.lead import Lead, opening
from ..analysis.observe import observe
from ..analysis.pairs import ends_of, pairs_words
from ..analysis.runs import status_counts
from ..analysis.tables import Table
from ..analysis.words import Headline, Words
from ..data.layout import Store
from ..data.load import Results, load
from ..errors import NetperfError
from ..experiment.attached import attached
from ..metrics import plural
from .blocks import Shown, verdicts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Parts(list[Any]):
    """Figures, words and tables, which show themselves one after another."""

    def parts(self) -> list[Any]:
        """Return them."""
        return self

    def _ipython_display_(self) -> None:
        from IPython.display import display

        for part in self:
            display(part)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Summary:
    """What an experiment, or many, answer; see `summary`.

    Attributes
    ----------
    lead : Lead
        The lead paragraph, and the comparisons that it speaks of.
    runs : DataFrame
        The table of runs.
    since : str
        What changed since the last measurement of this name; empty if there is none.
    """

    lead: Lead
    runs: pd.DataFrame
    since: str = ""

    @property
    def headline(self) -> Headline:
        """The lead paragraph: what changed since the last time, and a line for each factor."""
        since = [Words.line("Since the last time", self.since)] if self.since else []
        return Headline.lead([*since, *self.lead.lines])

    def plot(self, *, ax: Axes | None = None) -> Axes | Words:
        """Draw the answers: both values, effect, interval and verdict of each comparison."""
        from ..plots import forest

        if not len(self.lead.family):
            return Words()
        return forest(self.lead.family, ax=ax)

    @property
    def verdicts(self) -> Shown | Words:
        """The table of answers."""
        lead = self.lead
        if lead.judged:
            return verdicts(lead.family, lead.contrasts, lead.recommendations)
        if len(set(self.runs["experiment"])) > 1:
            return Words("Nothing is judged here: each experiment has its own report.")
        return Words(
            f"Nothing is judged: there {'are too few rounds' if len(lead.family) else 'is nothing to compare'}."
        )

    @property
    def measured(self) -> Parts:
        """What was measured: matrices of the pairs, a long experiment over time, else a table."""
        from .. import plots

        runs = self.runs
        if len(set(runs["experiment"])) > 1:  # each has a report of its own
            counts = runs.assign(ok=runs["status"] == "ok").groupby("experiment", sort=False)
            table = counts.agg(
                runs=("ok", "size"), complete=("ok", "sum"), started=("started_utc", "min")
            )
            table["started"] = table["started"].dt.strftime("%Y-%m-%d %H:%M").fillna("–")
            return Parts([Table.of(table.reset_index(), "The experiments of this data root.")])
        planned: dict[str, list[str]] = {}
        for page in pages(runs):
            planned.setdefault(page.notebook, []).append(page.parameters.get("metric", ""))
        parts = Parts()
        for metric in planned.get("pairs", ()):
            ends = ends_of(runs, metric)
            obs = observe(runs.dropna(subset=list(ends)), metric, by=ends).main()
            parts += [plots.matrix(obs), Words(pairs_words(obs))]
        parts += [plots.over_time(ask_history(runs, metric)) for metric in planned.get("time", ())]
        if parts and runs["placement"].nunique() < 2:
            return parts
        table, alone = _folded(overview(runs))
        heads = {c: c if i else c.capitalize() for i, c in enumerate(map(str, table))}
        caption = f"Medians of the complete runs{'; a dash: not measured' if table.isna().any(axis=None) else ''}."
        return Parts(
            [
                Table.of(table, caption, columns=heads),
                *([Words.of(*alone)] if alone else []),
                *parts,
            ]
        )

    @property
    def caveats(self) -> Words:
        """What the verdicts hold for, and what is uncertain about them."""
        runs, family = self.runs, list(self.lead.family) if self.lead.judged else []
        _, failed, excluded = status_counts(runs)
        deployments = runs["deployment"].nunique()
        where = "these VMs" if deployments == 1 else f"these {deployments} deployments"
        what = "The verdicts hold" if family else "The values hold"
        lines = [f"- {what} for {where} and the hours in which they were measured."]
        if deployments < DEPLOYMENTS:
            lines[0] += (
                " Another deployment of the same request may land elsewhere; only "
                f"{DEPLOYMENTS} or more deployments say something about a placement as such."
            )
        if assumed := dict.fromkeys(a for c in family for a in c.assumptions):
            lines.append(f"- Assumed: {'; '.join(assumed)}.")
        if added := attached(runs).added:
            lines.append(
                f"- {plural(added, 'contrast')} added after the first run: exploratory, an interval but no verdict."
            )
        if unknown := int(runs["placement"].isna().sum()):
            lines.append(
                f"- The placement of {plural(unknown, 'run')} is not known: label them, or they count as one."
            )
        claimed = [c for c in stored(runs) if c["factor"] and c["holds"] is False]
        if false := [f"{c['host'] or c['deployment']}: {c['claim']}" for c in claimed]:
            lines.append(
                f"- Measured although declared factors are proven false: {'; '.join(false)}."
            )
        if open_ := [c.topic for c in family if c.verdict in ("inconclusive", "no verdict")]:
            lines.append(f"- Not decided: {'; '.join(dict.fromkeys(open_))}.")
        if failed or excluded:
            lines.append(
                f"- {plural(failed, 'run')} of {len(runs)} failed and {excluded} were excluded; none are used."
            )
        return Words("\n".join(lines))

    def __repr__(self) -> str:
        return str(self.headline)

    def _repr_markdown_(self) -> str:
        return self.headline._repr_markdown_()


def _folded(medians: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """What was measured in one placement only, as a sentence for each of them instead of rows of dashes."""
    values = medians.iloc[:, 1:]
    alone = values.notna().sum(axis="columns") == 1
    if medians.columns[0] != "measured" or alone.all() or values.shape[1] < 2:
        return medians, []
    sentences = []
    for placement in values.columns[values[alone].notna().any()]:
        cells = medians.loc[alone & values[placement].notna(), ["measured", placement]].itertuples(
            index=False
        )
        by_metric: dict[str, list[str]] = {}
        for (metric, _, condition), value in (
            (what.partition(", "), value) for what, value in cells
        ):
            by_metric.setdefault(metric, []).append(
                f"{value} ({condition})" if condition else str(value)
            )
        listed = (
            f"{metric[:1].lower()}{metric[1:]} {', '.join(figures)}"
            for metric, figures in by_metric.items()
        )
        sentences.append(f"Only on {placement}: {'; '.join(listed)}.")
    return medians[~alone].dropna(axis="columns", how="all"), sentences


def summary(experiment: Results | str | os.PathLike[str]) -> Summary:
    """Summarise an experiment in a paragraph: a line for each factor, with the comparisons behind it.

    Parameters
    ----------
    experiment : Results, path or URL
        An experiment, its folder, or a data root with several.

    Returns
    -------
    Summary
        It shows its headline. ``verdicts``, ``measured`` and ``caveats`` show the rest of the first page of a report.

    Examples
    --------
    >>> npl.summary("data/recorded/zones").headline.splitlines()[0][:5]
    'Zones'
    """
    folder = experiment.path if isinstance(experiment, Results) else experiment
    return Summary(opening(folder), load(measurements(folder)), _since(folder))


def _since(folder: str | os.PathLike[str]) -> str:
    """What changed since the measurement that was set aside before this one."""
    try:
        before = Store.at(folder).last_set_aside()
        change = compare(before, folder) if before else None
    except NetperfError:  # a data root; or nothing that both measured
        return ""
    if change is None:
        return ""
    changed = [c.words for c in change if c.verdict in ("worse", "better")]
    said = f"{'. '.join(changed[:3])}." if changed else "No change is proven."
    return f"{change.summary}. {said}"
