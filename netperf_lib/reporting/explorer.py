"""The explorer: one HTML file that shows an experiment without a server, a network or Python.

Python writes what `observe`, `levels` and `compare` say about each condition; the page arranges it
and computes no statistic. Its content security policy allows this script and this style, by their
digests, and nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.lead import lead_paragraph
from ..analysis.limits import of_conditions
from ..analysis.observe import Observations, levels, observe
from ..analysis.runs import measurement
from ..data.files import read_plain
from ..data.raw import DAMAGED, RawFolder, Record, open_raw
from ..errors import StoreError, UsageError
from ..experiment.factors import factor, plain, sort_levels
from ..metrics import HEADLINES, METRICS, WRITTEN
from ..plots.colours import colours
from .cover import root_of

if TYPE_CHECKING:
    from ..data.door import Readable
    from ..data.load import Results

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_LOG = 20_000
"""Characters of a log in a page, before packing."""


@dataclass(frozen=True, repr=False)
class Explorer:
    """A page to look around in an experiment; it shows itself in Jupyter, in a sandboxed frame.

    Attributes
    ----------
    page : str
        The page, complete: HTML that loads nothing.
    """

    page: str

    def __repr__(self) -> str:
        return 'an HTML page of every run; its save("explorer.html") writes it for any browser'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which any browser opens."""
        file = Path(path)
        file.write_text(self.page, "utf-8", newline="\n")
        return file

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts allow-downloads" width="100%" height="800" '
            'style="border:0" '
            f'srcdoc="{html.escape(self.page)}"></iframe>'
        )


def explore(experiment: Readable) -> Explorer:
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
    from ..data.door import read

    exp = read(experiment)
    if exp.own_folder is None:
        raise UsageError(
            "explore shows one experiment: give the folder of one, or what read() returns for it"
        )
    data = _data(exp)
    return Explorer(_page(data, _logs(exp, data["runs"]["id"])))


def _data(exp: Results) -> dict[str, Any]:
    """Everything that the page shows but the logs."""
    source = measurement(exp)
    runs = source.runs
    complete = runs[runs["status"] == "ok"]
    names = [m for m in METRICS if m in runs and complete[m].notna().any()]
    names.sort(key=lambda m: m not in HEADLINES)
    observed = {m: observe(source, m) for m in names}
    levels_of: dict[str, list[Any]] = {}
    for obs in observed.values():
        for f in obs.by:
            levels_of.setdefault(f, []).extend(obs.conditions[f])
    levels_of = {f: sort_levels(f, values) for f, values in levels_of.items()}
    number = {run_id: i for i, run_id in enumerate(runs["run_id"])}
    return {
        "name": exp.name,
        "notice": (exp.notice or "").removesuffix(exp.instead or "").strip(),
        "root": (root_of(exp) or "")[:16],
        "lead": lead_paragraph(exp).lines,
        "path": os.path.relpath(exp.path) if Path(exp.path).exists() else exp.path,
        "units": WRITTEN,
        "factors": [_factor(f, values) for f, values in levels_of.items()],
        "metrics": [_metric(obs, levels_of, number) for obs in observed.values()],
        "runs": {
            "id": list(runs["run_id"]),
            "round": [plain(r) for r in runs["round"]],
            "utc": [str(t)[:19] for t in runs["started_utc"]],
        },
    }


def _factor(name: str, values: Sequence[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "label": factor(name).label or name.replace("_", " "),
        "levels": values,
        "words": [factor(name).level_words(v) for v in values],
        "colours": [colour for colour, _ in colours([str(v) for v in values]).values()],
    }


def _metric(
    obs: Observations, levels_of: Mapping[str, Sequence[Any]], number: Mapping[str, int]
) -> dict[str, Any]:
    """A metric: its conditions with their levels, and every run of them in the order of time."""
    metric = METRICS[obs.metric]
    measured = obs.table.dropna(subset=["run_id"]).sort_values(["replicate", "round"])
    held = of_conditions(obs)["cause"]
    conditions = []
    for name, row in levels(obs).iterrows():
        seen = measured[measured["condition"] == name]
        at = obs.conditions.loc[str(name)]
        conditions.append(
            {
                "name": str(name),
                "levels": [levels_of[f].index(plain(at[f])) for f in obs.by],
                **{k: int(row[k]) for k in ("n", "failed", "missing")},
                **{k: _digits(row[k]) for k in ("median", "low", "high", "confidence")},
                "runs": [number[run_id] for run_id in seen["run_id"]],
                "values": [_digits(v) for v in seen["value"]],
                "held": held.get(str(name)),
            }
        )
    return {
        **{k: getattr(metric, k) for k in ("name", "label", "unit", "better")},
        "by": [list(levels_of).index(f) for f in obs.by],
        "notes": list(obs.notes),
        "conditions": conditions,
    }


def _digits(value: Any) -> float | None:
    """A number with five significant digits, or null."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _logs(exp: Results, ids: Sequence[str]) -> Iterator[str]:
    """Log of each run, its end left out where it is very long."""
    stored: dict[str, tuple[RawFolder, Record]] = {}
    for raw in open_raw(exp.own_folder):
        with suppress(*DAMAGED):
            stored |= {record.run_id: (raw, record) for record in raw.records()[1]}
    for run_id in ids:
        try:
            raw, record = stored[run_id]
            file = "client.out" if record.imported is None else next(iter(record.files))
            first, last = record.log.get("lines") or (1, None)
            log = read_plain(raw.path.parent, f"{raw.name}/{file}").decode(
                "utf-8", "replace"
            )
            text = "".join(log.splitlines(keepends=True)[first - 1 : last])
        except (OSError, ValueError, KeyError, TypeError, StoreError):  # others made it
            text = ""
        excess = len(text) - LONGEST_LOG
        yield (
            text
            if excess <= 0
            else f"{text[:LONGEST_LOG]}\n… {excess:,} characters left out …"
        )


def _as_json(value: Any) -> str:
    """Data in the page, which are never code: no ``<`` is left in them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(data: dict[str, Any], logs: Iterable[str]) -> str:
    """The page; data and logs are blocks of JSON in it, the logs packed."""
    style, script = (
        (TEMPLATES / f"explorer.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    packed = gzip.compress(_as_json(list(logs)).encode(), 9, mtime=0)
    values = {
        "script_digest": _digest(script),
        "style_digest": _digest(style),
        "name": html.escape(data["name"]),
        "style": style,
        "data": _as_json(data),
        "logs": base64.b64encode(packed).decode(),
        "script": script,
    }
    template = (TEMPLATES / "explorer.html").read_text("utf-8")
    return re.sub(r"{{ (\w+) }}", lambda place: values[place[1]], template)
