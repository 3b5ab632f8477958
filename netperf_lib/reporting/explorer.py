"""The explorer: one HTML file that shows an experiment without a server, a network or Python.

Python writes what `observe`, `levels` and `compare` say about each condition; the page arranges it and computes no
statistic. Its content security policy allows this script and this style, by their digests, and nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..analysis.colours import colours
from ..analysis.lead import Lead, lead_paragraph
from ..analysis.limits import of_conditions
from ..analysis.observe import Observations, Observed, levels, observe
from ..analysis.words import effect, span
from ..data.files import plain_file
from ..errors import StoreError, UsageError
from ..experiment.factors import factor, plain, sort_levels
from ..metrics import HEADLINES, METRICS, WRITTEN
from .cover import root_of

if TYPE_CHECKING:
    from ..data.load import Results

TEMPLATES = Path(__file__).parent / "templates"
LOGS_IN_BLOCK = 100
"""Runs whose logs are unpacked together when the log of one is read."""
LOG_BUDGET = 20_000_000
"""Characters of logs in a page, before packing."""
COMPARISONS = 1000
"""Exploratory comparisons of a headline metric in a page, at most."""


class Explorer:
    """A page to look around in an experiment; it shows itself in Jupyter, in a sandboxed frame.

    Attributes
    ----------
    page : str
        The page, complete: HTML that loads nothing.
    """

    def __init__(self, page: str) -> None:
        self.page = page

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which any browser opens."""
        file = Path(path)
        file.write_text(self.page, "utf-8", newline="\n")
        return file

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts allow-downloads" width="100%" height="800" style="border:0" '
            f'srcdoc="{html.escape(self.page)}"></iframe>'
        )


def explore(experiment: Results | str | os.PathLike[str]) -> Explorer:
    """Make a page that shows every run of an experiment, by condition, in any browser.

    Parameters
    ----------
    experiment : Results or path
        An experiment, or its folder.

    Returns
    -------
    Explorer
        Shows itself in Jupyter; `Explorer.save` writes it to a file.

    Raises
    ------
    StoreError
        There is no experiment at this path.
    UsageError
        This is not one experiment.

    Examples
    --------
    >>> page = explore("data/recorded/lab-full")
    >>> len(page.page) < 5_000_000
    True
    """
    from ..data.load import Results, read

    exp = read(experiment) if isinstance(experiment, str | os.PathLike) else experiment
    if not isinstance(exp, Results):
        raise UsageError(
            "explore shows one experiment: give the folder of one, or what read() returns for it"
        )
    data = _data(exp)
    return Explorer(_page(data, _logs(exp, data["runs"]["id"])))


def _data(exp: Results) -> dict[str, Any]:
    """Everything that the page shows but the logs."""
    runs = exp.runs
    ids = list(runs["run_id"])
    number = {run_id: i for i, run_id in enumerate(ids)}
    names = [m for m in METRICS if m in runs and ((runs["status"] == "ok") & runs[m].notna()).any()]
    names.sort(key=lambda m: m not in HEADLINES)
    source = Observed.of(exp)
    observations = {m: observe(source, m) for m in names}
    lead = lead_paragraph(runs)
    factors = dict.fromkeys(f for obs in observations.values() for f in obs.by)
    levels_of = {
        f: sort_levels(
            f, [v for obs in observations.values() if f in obs.by for v in obs.conditions[f]]
        )
        for f in factors
    }
    return {
        "name": exp.name,
        "notice": (exp.notice or "").removesuffix(exp.instead or "").strip(),
        "root": (root_of(runs) or "")[:16],
        "lead": lead.lines,
        "path": os.path.relpath(exp.path) if Path(exp.path).exists() else exp.path,
        "units": WRITTEN,
        "logs_in_block": LOGS_IN_BLOCK,
        "factors": [
            {
                "name": f,
                "label": factor(f).label or f.replace("_", " "),
                "levels": values,
                "words": [factor(f).level_words(v) for v in values],
                "colours": [colour for colour, _ in colours([str(v) for v in values]).values()],
            }
            for f, values in levels_of.items()
        ],
        "metrics": [_metric(obs, levels_of, number, lead) for obs in observations.values()],
        "verdicts": _verdicts(lead, observations),
        "runs": {
            "id": ids,
            "round": [plain(r) for r in runs["round"]],
            "utc": [str(t)[:19] for t in runs["started_utc"]],
        },
    }


def _metric(
    obs: Observations,
    levels_of: Mapping[str, Sequence[Any]],
    number: Mapping[str, int],
    lead: Lead,
) -> dict[str, Any]:
    """A metric: its conditions with their levels, and every run of them in the order of time."""
    metric = METRICS[obs.metric]
    rows = levels(obs)
    tables = dict(
        iter(
            obs.table.sort_values(["unit", "round"]).groupby("condition", sort=False, observed=True)
        )
    )
    held = of_conditions(obs)
    conditions = []
    for index, row in rows.iterrows():
        name = str(index)
        seen = tables[name][tables[name]["run_id"].notna()]
        conditions.append(
            {
                "name": name,
                "levels": [levels_of[f].index(plain(obs.conditions.loc[name, f])) for f in obs.by],
                "n": int(row["n"]),
                "failed": int(row["failed"]),
                "missing": int(row["missing"]),
                **{k: _digits(row[k]) for k in ("median", "low", "high", "confidence")},
                "runs": [number[run_id] for run_id in seen["run_id"]],
                "values": [_digits(v) for v in seen["value"]],
                "held": held[name].short if name in held else None,
            }
        )
    return {
        "name": metric.name,
        "label": metric.label,
        "unit": metric.unit,
        "better": metric.better,
        "by": [list(levels_of).index(f) for f in obs.by],
        "notes": list(obs.notes),
        "conditions": conditions,
        "comparisons": _comparisons(obs, lead) if metric.name in HEADLINES else {},
    }


TURNED = {"better": "worse", "worse": "better"}
"""The verdict about two conditions in the other order."""


def _comparisons(obs: Observations, lead: Lead) -> dict[str, str]:
    """Words for each two conditions that differ in one factor, both ways: the verdict, or exploratory without one."""
    from ..analysis.samples import compare_samples

    complete = obs.table[obs.table["state"] == "ok"].set_index(["unit", "round"])
    values = {
        str(name): rows["value"] for name, rows in complete.groupby("condition", observed=True)
    }
    rows = {str(name): tuple(levels) for name, *levels in obs.conditions.itertuples()}
    neighbours = (
        (a, b)
        for a, b in combinations(values, 2)
        if sum(x != y for x, y in zip(rows[a], rows[b], strict=True)) == 1
    )
    judged = {
        (obs.condition(c.a), obs.condition(c.b)): result
        for c, result in zip(lead.contrasts, lead.family, strict=True)
        if c.metric == obs.metric and c.b
    }
    words = {}
    for a, b in islice(neighbours, COMPARISONS):
        a, b = (b, a) if (b, a) in judged else (a, b)
        both = pd.concat([values[a], values[b]], axis=1, keys=["a", "b"])
        both = both.dropna() if obs.blocked else both
        if not len(both):
            continue
        x, y = both["a"].dropna(), both["b"].dropna()
        one = judged.get((a, b)) or compare_samples(
            x, y, paired=obs.blocked, declared=False, metric=obs.metric
        )
        there = one.ratio, one.low, one.high
        back = tuple(1 / v if v else math.inf for v in (one.ratio, one.high, one.low))
        for key, ratios, verdict in (
            (f"{a}\n{b}", there, one.verdict),
            (f"{b}\n{a}", back, TURNED.get(one.verdict, one.verdict)),
        ):
            words[key] = f"{effect(ratios[0])} ({span(*ratios)}), {verdict}".replace(" (–)", "")
    return words


def _verdicts(lead: Lead, observations: Mapping[str, Observations]) -> list[dict[str, Any]]:
    """The family of comparisons: words, advice, and the conditions on each side."""
    rows = []
    for contrast, result, todo in zip(
        lead.contrasts, lead.family, lead.recommendations, strict=True
    ):
        obs = observations.get(contrast.metric)
        a, b = (
            obs.matching(side) if obs and side else () for side in (contrast.a, contrast.b or {})
        )
        words = {"verdict": str(result.verdict), "words": result.words, "advice": todo}
        rows.append(
            {"metric": contrast.metric, "question": contrast.question, **words, "a": a, "b": b}
        )
    return rows


def _digits(value: Any) -> float | int | None:
    """A number with five significant digits, or null."""
    if value is None or not math.isfinite(value):
        return None
    number = float(f"{value:.5g}")
    return int(number) if number.is_integer() else number


def _logs(exp: Results, ids: Sequence[str]) -> Iterator[str]:
    """Log of each run, cut in its middle to the share of the budget that it has."""
    share = max(400, min(20_000, LOG_BUDGET // max(len(ids), 1)))
    folders = exp.store.run_folders()
    for run_id in ids:
        name = folders.get(run_id, run_id)
        try:
            with exp.store.raw(name) as folder:
                record = folder.records[run_id]
                log = plain_file(
                    folder.path, "client.out" if name == run_id else next(iter(record["files"]))
                )
                lines = (record.get("log") or {}).get("lines")
                yield _part(log, lines[0], lines[1], share) if lines else _cut(log, share)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            StoreError,
        ):  # whatever a folder of others holds
            yield ""


def _part(log: Path, first: int, last: int | None, share: int) -> str:
    """Return the lines of a log of many runs that belong to one of them."""
    return "".join(_lines(log, log.stat().st_mtime_ns)[first - 1 : last])[:share]


@lru_cache(maxsize=1)
def _lines(log: Path, _changed: int) -> list[str]:
    return log.read_bytes().decode("utf-8", "replace").splitlines(keepends=True)


def _cut(log: Path, share: int) -> str:
    """Both ends of a log."""
    with log.open("rb") as file:
        excess = os.fstat(file.fileno()).st_size - share
        if excess <= 0:
            return file.read().decode("utf-8", "replace")
        head = file.read(share // 2)
        file.seek(-(share // 2), os.SEEK_END)
        note = f"\n  … {excess:,} bytes left out …\n"
        return head.decode("utf-8", "replace") + note + file.read().decode("utf-8", "replace")


def _block(name: str, value: Any, *, packed: bool = False) -> str:
    """Data in the page, which are never code: no ``<`` is left in them. Packed: gzip in base64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    if packed:
        text = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return (
        f'<script type="application/{"gzip" if packed else "json"}" id="{name}">{text}</script>\n'
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(data: dict[str, Any], logs: Iterator[str]) -> str:
    """The page; data and logs are blocks of JSON in it."""
    style, script = ((TEMPLATES / f"explorer.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; base-uri 'none'; "
        "form-action 'none'"
    )
    blocks = [_block("state", None), _block("data", data)]
    number = 0
    while texts := list(islice(logs, LOGS_IN_BLOCK)):
        blocks.append(_block(f"logs-{number}", texts, packed=True))
        number += 1
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(data['name'])}</title>\n<style>{style}</style></head>\n<body>\n<main></main>\n"
        "<noscript>This page needs JavaScript. It loads nothing from a network.</noscript>\n"
        f"{''.join(blocks)}<script>{script}</script>\n</body></html>\n"
    )
