"""An answer as a picture to paste: 1200 × 630 points, with its question, its caveat and the digest of its data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport, UsageError
from ..experiment.attached import attached
from ..metrics import METRICS, format_value, plural
from ..questions.colours import colours
from ..questions.lead import lead_paragraph
from ..questions.observe import Observations, levels, observe
from ..questions.words import advice, effect, span
from ..stats.result import log_size
from .cover import root_of

if TYPE_CHECKING:
    from ..data.load import Results
    from ..plots import Plot
    from ..stats import Comparison

SIZE = (1200, 630)
"""Pixels: what chats and tickets show of a link."""


def card(exp: Results) -> Plot:
    """The first answer of an experiment as a card, or that of its clearest comparison.

    Parameters
    ----------
    exp : Results
        An experiment.

    Returns
    -------
    Plot
        ``savefig(path, dpi=100)`` writes it with 1200 × 630 pixels.

    Raises
    ------
    NothingToReport
        There is nothing to compare.
    """
    lead = lead_paragraph(exp.runs)
    if not len(lead.family):
        raise NothingToReport("there is nothing to compare, so there is no answer for a card")
    number = chosen(lead.family)
    c = lead.family[number]
    question = lead.contrasts[number].question
    return draw(observe(exp, c.metric), c, question=question, todo=lead.recommendations[number])


def write(folder: str) -> Path:
    """Write the card of an experiment beside its reports; see `card`."""
    from ..data.load import Results, read
    from ..data.shipped import report_folder

    exp = read(folder)
    if not isinstance(exp, Results):
        raise UsageError("a card shows one experiment: give its folder")
    file = report_folder(exp.path, exp.name) / "card.png"
    card(exp).savefig(file, dpi=100, metadata={"Software": None})
    return file


def chosen(family: Sequence[Comparison]) -> int:
    """Number of the first comparison that is decided, else of the largest effect."""
    settled = (i for i, c in enumerate(family) if c.settled)
    return next(settled, max(range(len(family)), key=lambda i: log_size(family[i].ratio)))


def draw(obs: Observations, c: Comparison, *, question: str | None = None, todo: str = "") -> Plot:
    """Draw the card of a comparison.

    Parameters
    ----------
    obs : Observations
        What the conditions gave.
    c : Comparison
        The answer.
    question : str, optional
        The question; default: from the names of its conditions.
    todo : str
        What to do.
    """
    import matplotlib as mpl

    from ..plots.figure import INK, MUTE, STYLE, VERDICTS, Plot

    question = question or f"{c.label}: {c.quantity}?"
    sentence = f"{c.words}."
    notice, root = attached(obs.table).notice, root_of(obs.table)
    colour = VERDICTS.get(c.verdict, MUTE)
    figures = f"{effect(c.ratio)}   ({span(c.ratio, c.low, c.high)}; {100 * c.confidence:.4g} %)"
    with mpl.rc_context(STYLE):
        figure = Plot(figsize=(SIZE[0] / 100, SIZE[1] / 100))
        figure.caption, figure.alt = sentence, f"{question} {sentence} {todo}"

        def line(y: float, text: str, size: float, width: int, **style: Any) -> None:
            lines = textwrap.fill(text, width, max_lines=2, placeholder=" …")
            _fit(figure.text(0.04, y, lines, size=size, va="top", linespacing=1.15, **style), 0.92)

        line(0.94, question, 25, 78, weight="bold")
        line(0.77, sentence, 17, 112)
        _runs(figure.add_axes((0.3, 0.33, 0.66, 0.27)), obs, c)
        verdict = f"{c.verdict.upper()}   {figures if c.low > 0 else c.reason}"
        line(0.225, verdict, 18, 100, color=colour, weight="bold")
        line(0.155, todo or advice(c, ""), 17, 110, color=INK)
        line(0.085, notice or "", 11, 190, color="#8a5a00")
        figure.text(
            0.96, 0.02, f"root {root[:16]}" if root else "", size=10, color=MUTE, ha="right"
        )
    return figure


def _runs(axes: Any, obs: Observations, c: Comparison) -> None:
    """Every run of both sides, and their medians."""
    from ..plots.figure import INK, MUTE, axis

    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    painted = colours(c.names)
    every: list[float] = []
    for y, (name, median) in enumerate(zip(c.names, c.medians, strict=True)):
        if not math.isfinite(median):
            continue
        values = _values(obs, name, median)
        every += [*values, median]
        ink, marker = painted[name]
        heights = [y + 0.22 * math.sin(2.4 * i) for i in range(len(values))]
        axes.plot(values, heights, marker, color=ink, ms=8, alpha=0.6, mec="white", mew=0.6, ls="")
        axes.plot([median, median], [y - 0.36, y + 0.36], color=INK, lw=3.5)
        left = {"transform": axes.get_yaxis_transform(), "clip_on": False}
        name = name if len(name) <= 34 else f"{name[:32]} …"
        _fit(axes.text(-0.4, y - 0.08, name, size=17, weight="bold", va="center", **left), 0.26)
        runs = f", {plural(len(values), 'run')}" if values else ""
        axes.text(
            -0.4,
            y + 0.3,
            f"median {format_value(median, unit)}{runs}",
            size=12,
            color=MUTE,
            va="center",
            **left,
        )
    axes.set_ylim(len(c.names) - 0.45, -0.55)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axis(axes, c.metric, every, which="x")
    axes.tick_params(axis="x", labelsize=12)
    axes.xaxis.label.set_size(13)
    if c.threshold is not None:
        axes.axvline(c.threshold, color=INK, lw=1.2, ls="--")
    elif axes.get_xscale() == "linear":
        axes.set_xlim(0, None)


def _fit(text: Any, share: float) -> None:
    """Make a text that is wider than this share of the card so small that it is not."""
    while text.get_window_extent().width > share * text.figure.bbox.width:
        text.set_size(0.9 * text.get_size())


def _values(obs: Observations, name: str, median: float) -> list[float]:
    """The runs of a side: of the condition with its name, or of the one with its median."""
    alike = [
        str(n)
        for n, v in levels(obs)["median"].items()
        if n == name or math.isclose(float(v), median, rel_tol=1e-9)
    ]
    fitting = [n for n in alike if n == name] or (alike if len(alike) == 1 else [])
    rows = obs.table[obs.table["condition"].isin(fitting) & (obs.table["state"] == "ok")]
    return [float(v) for v in rows["value"]]
