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
    >>> page = explore("data/recorded/zones")
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
    names = sorted(source.measured(METRICS), key=lambda name: name not in HEADLINES)
    observed = [observe(source, name) for name in names]
    found: dict[str, list[Any]] = {}
    for obs in observed:
        for f in obs.by:
            found.setdefault(f, []).extend(obs.conditions[f])
    levels_of = {f: sort_levels(f, values) for f, values in found.items()}
    number = dict(zip(runs["run_id"], range(len(runs)), strict=True))
    place = exp.path
    if Path(place).exists():
        place = os.path.relpath(place)
    return {
        "name": exp.name,
        "notice": (exp.notice or "").removesuffix(exp.instead or "").strip(),
        "root": root_of(exp)[:16],
        "lead": lead_paragraph(exp).lines,
        "path": place,
        "units": WRITTEN,
        "factors": list(map(_factor, levels_of, levels_of.values())),
        "metrics": [_metric(obs, levels_of, number) for obs in observed],
        "runs": {
            "id": list(runs["run_id"]),
            "round": list(map(plain, runs["round"])),
            "utc": [str(start)[:19] for start in runs["started_utc"]],
        },
    }


def _factor(name: str, values: Sequence[Any]) -> dict[str, Any]:
    looks = colours(list(map(str, values))).values()
    return {
        "name": name,
        "label": factor(name).label or name.replace("_", " "),
        "levels": values,
        "words": list(map(factor(name).level_words, values)),
        "colours": [colour for colour, _ in looks],
    }


def _metric(
    obs: Observations, levels_of: Mapping[str, Sequence[Any]], number: Mapping[str, int]
) -> dict[str, Any]:
    """A metric: its conditions with their levels, and every run of them in the order of time."""
    metric = METRICS[obs.metric]
    measured = obs.table.dropna(subset=["run_id"]).sort_values(["replicate", "round"])
    measured = measured[["condition", "run_id", "value"]]
    causes = of_conditions(obs)["cause"]
    conditions = []
    for name, row in levels(obs).iterrows():
        runs = measured[measured["condition"] == name]
        condition: dict[str, Any] = {"name": str(name), "levels": []}
        for f in obs.by:
            level = plain(obs.at(str(name), f))
            condition["levels"].append(levels_of[f].index(level))
        for count in ("n", "failed", "missing"):
            condition[count] = int(row[count])
        for figure in ("median", "low", "high", "confidence"):
            condition[figure] = _digits(row[figure])
        condition["runs"] = [number[run_id] for run_id in runs["run_id"]]
        condition["values"] = list(map(_digits, runs["value"]))
        condition["held"] = causes.get(str(name))
        conditions.append(condition)
    return {
        "name": metric.name,
        "label": metric.label,
        "unit": metric.unit,
        "better": metric.better,
        "by": list(map(list(levels_of).index, obs.by)),
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
            for record in raw.records()[1]:
                stored[record.run_id] = raw, record
    for run_id in ids:
        text = ""
        with suppress(OSError, ValueError, KeyError, TypeError, StoreError):  # of others
            text = _log(*stored[run_id])
        if excess := max(0, len(text) - LONGEST_LOG):
            text = f"{text[:LONGEST_LOG]}\n… {excess:,} characters left out …"
        yield text


def _log(raw: RawFolder, record: Record) -> str:
    file = "client.out" if record.imported is None else next(iter(record.files))
    first, last = record.log.get("lines") or (1, None)
    whole = read_plain(raw.path.parent, f"{raw.name}/{file}").decode("utf-8", "replace")
    return "".join(whole.splitlines(keepends=True)[first - 1 : last])


def _as_json(value: Any) -> str:
    """Data in the page, which are never code: no ``<`` is left in them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(data: dict[str, Any], logs: Iterable[str]) -> str:
    """The page; data and logs are blocks of JSON in it, the logs packed."""
    style = (TEMPLATES / "explorer.css").read_text("utf-8")
    script = (TEMPLATES / "explorer.js").read_text("utf-8")
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
