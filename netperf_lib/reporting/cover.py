"""Where the data come from: the facts on the first page and the provenance on the last, read from the runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..data.layout import Store
from ..errors import StoreError, UsageError
from ..hosts import SOURCES, source
from ..metrics import plural
from ..questions.lead import conclude
from ..questions.observe import observe
from ..questions.runs import given, status_counts
from ..questions.words import headline, shortened
from ..stats.intervals import DEPLOYMENTS
from .blocks import Shown, markup, say, table

if TYPE_CHECKING:
    import pandas as pd

    from ..stats import Comparison

SOFTWARE = ("netperf_lib", "papermill", "typst", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "pyarrow")


def _levels(runs: pd.DataFrame, *columns: str) -> list[str]:
    seen = {str(v) for c in columns if c in runs for v in runs[c].dropna().unique()}
    return sorted(seen)


def _some(values: list[str], most: int = 3) -> str:
    if not values:
        return "–"
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def cover(
    runs: pd.DataFrame,
    family: Iterable[Comparison] | None = None,
    *,
    words: str | Iterable[str] | None = None,
    kicker: str = "Network performance report",
) -> Shown:
    """Show what the report is based on; in the PDF this is the top of the first page.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    family : Family, optional
        Its clearest finding becomes the headline.
    words : str or iterable of str, optional
        Headline to use instead; several lines are the paragraphs of a lead.
    kicker : str
        The line above the title.
    """
    experiment: dict[str, Any] = runs.attrs.get("experiment") or {}
    notice: str | None = runs.attrs.get("notice")
    ok, failed, excluded = status_counts(runs)
    started = runs["started_utc"].dropna()
    first: Any = started.min() if len(started) else None
    last: Any = started.max() if len(started) else None
    measured = "–"
    if first is not None:
        one_day = first.date() == last.date()
        measured = f"{first:%d %B %Y}" if one_day else f"{first:%d %b} – {last:%d %b %Y}"
    added = runs.attrs.get("added") or 0
    names = _levels(runs, "experiment")
    name = f"{len(names)} experiments" if len(names) > 1 else str(experiment.get("name") or _some(names))
    sizes = _levels(runs, "client_vm_size", "server_vm_size")
    source = (experiment.get("hosts") or {}).get("source")
    facts = [
        ["Experiment", name],
        ["Hosts", f"{len(_levels(runs, 'client', 'server'))}{f' ({source})' if source else ''}"],
        *([["VM size", _some(sizes, 2)]] if sizes else []),
        ["Contrasts", f"{len(experiment.get('contrasts') or ())} declared{f', {added} added later' if added else ''}"],
        ["Regions", _some(_levels(runs, "client_region", "server_region"), 2)],
        ["Rounds", f"{runs['round'].nunique()} in {plural(runs['deployment'].nunique(), 'deployment')}"],
        ["Runs", f"{ok} ok, {failed} failed" + (f", {excluded} excluded" if excluded else "")],
        ["Tools", _some(_levels(runs, "tool"), 4)],
        ["Measured", measured],
    ]
    if claims := _claims(runs):
        facts.append(["Placement", _proven(claims)])
    if root := root_of(runs):
        facts.append(["Root digest", root[:16]])
    if len(names) > 1:  # of these the experiments have different ones
        facts = [row for row in facts if row[0] not in ("Contrasts", "Rounds")]
    says = headline(family) if words is None and family is not None else words
    if says is not None and not isinstance(says, str):
        says = "\n".join(says)
    return Shown(
        "cover",
        html=markup("cover", facts, notice, says, "#0072b2"),
        text="\n".join([*(f"{k}: {v}" for k, v in facts), says or "", notice or ""]).strip(),
        kicker=kicker,
        subtitle=str(experiment.get("title") or ""),
        facts=facts,
        notice=notice,
        notice_short=shortened(notice) if notice else None,
        headline=says,
        running=f"{name} · {measured}",
        date=last.isoformat() if last is not None else None,
    )


def glance(runs: pd.DataFrame) -> list[Any]:
    """What was measured, for the first page: matrices of the pairs, a long experiment over time, else a table.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.

    Returns
    -------
    list
        Figures, words and tables to display, one after another.
    """
    from .. import plots, questions

    if len(_levels(runs, "experiment")) > 1:  # each has a report of its own
        counts = runs.assign(ok=runs["status"] == "ok").groupby("experiment", sort=False)
        found = counts.agg(runs=("ok", "size"), complete=("ok", "sum"), started=("started_utc", "min")).reset_index()
        found["started"] = found["started"].dt.strftime("%Y-%m-%d %H:%M").fillna("–")
        return [table(found, "The experiments of this data root.")]
    planned: dict[str, list[str]] = {}
    for page in questions.pages(runs):
        planned.setdefault(page.notebook, []).append(page.parameters.get("metric", ""))
    shown: list[Any] = []
    for metric in planned.get("pairs", ()):
        ends = questions.ends_of(runs, metric)
        obs = observe(runs.dropna(subset=list(ends)), metric, by=ends).main()
        shown += [plots.matrix(obs), say(questions.pairs_words(obs))]
    shown += [plots.over_time(questions.ask_history(runs, metric)) for metric in planned.get("time", ())]
    if shown and runs["placement"].nunique() < 2:
        return shown
    medians = questions.overview(runs)
    medians, sentences = _folded(medians)
    heads = {c: c if i else c.capitalize() for i, c in enumerate(map(str, medians))}
    medians_shown = table(medians, "Medians of the complete runs; a dash: not measured.", columns=heads)
    return [medians_shown, *([say(*sentences)] if sentences else []), *shown]


def _folded(medians: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """What was measured in one place only, as a sentence for each place instead of rows of dashes."""
    values = medians.iloc[:, 1:]
    alone = values.notna().sum(axis="columns") == 1
    if medians.columns[0] != "measured" or alone.all() or values.shape[1] < 2:
        return medians, []
    sentences = []
    for place in values.columns[values[alone].notna().any()]:
        cells = medians.loc[alone & values[place].notna(), ["measured", place]].itertuples(index=False)
        listed = "; ".join(f"{what[:1].lower()}{what[1:]}: {value}" for what, value in cells)
        sentences.append(f"Only {place}: {listed}.")
    return medians[~alone].dropna(axis="columns", how="all"), sentences


def caveats(runs: pd.DataFrame, family: Iterable[Comparison]) -> Shown:
    """Show what the verdicts of a report hold for, and what is uncertain about them.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    family : Family
        The verdicts.
    """
    _, failed, excluded = status_counts(runs)
    deployments = runs["deployment"].nunique()
    where = "these VMs" if deployments == 1 else f"these {deployments} deployments"
    family = list(family)
    what = "The verdicts hold" if family else "The values hold"
    lines = [f"- {what} for {where} and the hours in which they were measured."]
    if deployments < DEPLOYMENTS:
        lines[0] += (
            " Another deployment of the same request may land elsewhere; only "
            f"{DEPLOYMENTS} or more deployments say something about a placement as such."
        )
    if assumed := dict.fromkeys(a for c in family for a in c.assumptions):
        lines.append(f"- Assumed: {'; '.join(assumed)}.")
    if added := runs.attrs.get("added"):
        lines.append(
            f"- {plural(added, 'contrast')} added after the first run: exploratory, an interval but no verdict."
        )
    if unlabelled := int(runs["placement"].isna().sum()):
        lines.append(f"- The placement of {plural(unlabelled, 'run')} is not known: label them, or they count as one.")
    if false := [
        f"{c['host'] or c['deployment']}: {c['claim']}" for c in _stored(runs) if c["factor"] and c["holds"] is False
    ]:
        lines.append(f"- Measured although declared factors are proven false: {'; '.join(false)}.")
    open_ = [c.topic for c in family if c.verdict in ("inconclusive", "no verdict")]
    if open_:
        lines.append(f"- Not decided: {'; '.join(dict.fromkeys(open_))}.")
    if failed or excluded:
        lines.append(f"- {plural(failed, 'run')} of {len(runs)} failed and {excluded} were excluded; none are used.")
    return say(*lines)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "–"


PROOFS = "proofs of placement"
"""Title of a group of rows that a report with a page on quality does not repeat."""
HOLDS = {True: "holds", False: "does NOT hold", None: "not shown"}


def _claims(runs: pd.DataFrame) -> list[tuple[str, str, str, str]]:
    """Claims about the hosts: where, what, whether it holds, and the evidence."""
    return [(c["host"] or c["deployment"], c["claim"], HOLDS[c["holds"]], c["evidence"] or "") for c in _stored(runs)]


def _stored(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Claims about the hosts as they are stored; a table made by hand has none."""
    try:
        return Store.at(runs.attrs["path"]).claims()
    except (KeyError, StoreError):
        return []


def root_of(runs: pd.DataFrame) -> str | None:
    """The digest that ties this page to a folder, for `npl verify --root`; a table made by hand has none."""
    try:
        return Store.at(runs.attrs["path"]).root_digest()
    except (KeyError, StoreError):
        return None


def _proven(claims: list[tuple[str, str, str, str]]) -> str:
    """How many claims about the hosts are proven, and how many are not."""
    count = Counter(holds for _, _, holds, _ in claims)
    flagged = [
        f"{n} {words if n == 1 else words.replace('does', 'do')}" for words, n in count.items() if words != HOLDS[True]
    ]
    return f"{count[HOLDS[True]]} of {len(claims)} claims proven" + (f"; {', '.join(flagged)}" if flagged else "")


def proofs(runs: pd.DataFrame) -> Shown:
    """Show the evidence of where the hosts were and how they were set up."""
    import pandas as pd

    claims = pd.DataFrame(_claims(runs), columns=["where", "claim", "holds", "evidence"])
    if claims.empty:
        return say("The source of the hosts recorded no proof of where they were: the placements are as declared.")
    if (claims["holds"] == HOLDS[True]).all():
        return table(claims.drop(columns="holds"), "Claims about the hosts, and the evidence for each; all hold.")
    return table(claims, "Claims about the hosts, and the evidence for each.")


def _spent(runs: pd.DataFrame, experiment: dict[str, Any], plan: dict[str, Any]) -> list[list[str]]:
    """What the hosts did cost, by the prices that were planned with, and per answered question."""
    declared = experiment.get("hosts") or {}
    if declared.get("source") not in SOURCES or not plan.get("trials"):
        return []
    done = min(1.0, len(runs) / len(plan["trials"]))
    amount = source(declared["source"]).spent(state=Store.at(runs.attrs["path"]).path / "hosts", done=done)
    if amount is None:
        return []
    currency = (declared.get("options") or {}).get("currency", "USD")
    with suppress(UsageError):
        family, _ = conclude(runs)
        answered = sum(c.verdict in ("better", "worse", "equivalent") for c in family)
        each = f"; {amount / answered:.2f} for each of {plural(answered, 'answered question')}" if answered else ""
        return [["cost of the hosts", f"about {amount:.2f} {currency}, by the price list{each}"]]
    return [["cost of the hosts", f"about {amount:.2f} {currency}, by the price list"]]


def provenance(runs: pd.DataFrame) -> Shown:
    """Show how the report was made: data, hosts and the proof of their placement, tools, seed, versions, hashes."""
    experiment: dict[str, Any] = runs.attrs.get("experiment") or {}
    ok, failed, excluded = status_counts(runs)
    kept: dict[str, Any] = {}
    with suppress(KeyError, StoreError):  # a table that was made by hand has no folder
        kept = Store.at(runs.attrs["path"]).read_plan() or {}
    hashes = "\n".join(sorted(f"{i} {h}" for i, h in zip(runs["run_id"], runs["raw_sha256"], strict=True)))
    started = runs["started_utc"].dropna()
    data = [
        ["experiment", str(experiment.get("name") or _some(_levels(runs, "experiment")))],
        ["runs", f"{ok} ok, {failed} failed or cut short, {excluded} excluded"],
        ["rounds", f"{runs['round'].nunique()}"],
        ["seed of the order", str(kept.get("seed", experiment.get("seed") or "not kept"))],
        ["measured", f"{started.min():%Y-%m-%d %H:%M} to {started.max():%Y-%m-%d %H:%M} UTC" if len(started) else "–"],
        ["SHA-256 of all raw logs", hashlib.sha256(hashes.encode()).hexdigest()],
        ["root digest", root_of(runs) or "–"],
        ["version of the readers", _some(_levels(runs, "reader_version"))],
    ]
    data += _spent(runs, experiment, kept)
    failures = [
        [str(r.run_id), str(r.excluded if given(r.excluded) else r.error or r.status)]
        for r in runs.filter(["run_id", "status", "error", "excluded"]).itertuples()
        if r.status != "ok" or given(getattr(r, "excluded", None))
    ]
    tools = sorted(
        {f"{t} {v}" if given(v) else str(t) for t, v in zip(runs["tool"], runs["tool_version"], strict=True)}
    )
    known = [
        ["tools", _some(tools, 8)],
        ["kernels", _some(_levels(runs, "kernel"))],
        ["congestion control", _some(_levels(runs, "congestion_control"))],
        ["network drivers", _some(_levels(runs, "nic_driver"))],
        ["hosts", _some(_levels(runs, "client", "server"), 16)],
    ]
    machines = [row for row in known if row[1] != "–"]
    shown = [
        [f"{where}: {what}", holds + (f" ({shows})" if shows else "")] for where, what, holds, shows in _claims(runs)
    ]
    software = ", ".join(f"{p} {_version(p)}" for p in SOFTWARE)
    machines.append(["software", f"Python {platform.python_version()}, {software}"])
    groups: list[dict[str, Any]] = [
        {"title": "data", "rows": data},
        {"title": "machines and tools", "rows": machines},
        {"title": PROOFS, "rows": shown or [["none", "the source of the hosts recorded no proof"]]},
        *([{"title": "runs that do not count", "rows": failures}] if failures else []),
    ]
    planned = (experiment.get("hosts") or {}).get("source") != "imported"
    text = (
        ("Measured in rounds, in an order drawn at random within each round; the" if planned else "The")
        + " run is the unit of every statistic. "
        "Raw logs are kept unchanged; the notebooks make tables, figures and words from them, and anyone can execute "
        "them again."
    )
    return Shown(
        "provenance",
        html=markup("provenance", text, groups),
        text=text,
        title="How this report was made",
        groups=groups,
        words=text,
    )
