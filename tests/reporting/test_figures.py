"""Figures as a reader sees them: no text is cut, none lies over another, none is too small."""

import re
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import netperf_lib as npl
from netperf_lib.plots.figure import STYLE
from netperf_lib.reporting import notebooks

from ..conftest import REPO
from ..notebooks.cells import executed, last_value

GALLERY = REPO / "docs" / "figures.md"
SMALLEST, PAGE = 7.0, 6.54
"""Points of the smallest text as printed, and inches of a page between its margins."""


@pytest.fixture(scope="module")
def gallery():
    """The figures of the gallery by the name of their function."""
    names = {}
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(GALLERY.parent)
        for code in re.findall(
            r"(?ms)^```python\n(.*?)^```", Path(GALLERY).read_text("utf-8")
        ):
            shown = last_value(code, names)
            if isinstance(shown, Axes):
                found[re.findall(r"npl\.plots\.(\w+)\(", code)[-1]] = shown.figure
    return found


@pytest.fixture(
    scope="module",
    params=["gallery", pytest.param("notebooks", marks=pytest.mark.slow)],
)
def shown(request, gallery):
    """The figures of the gallery, or those of a page of each notebook."""
    found = gallery
    if request.param == "notebooks":
        with mpl.rc_context(STYLE):  # as the kernels of a report have it
            found = drawn_by_notebooks()
    assert found
    return found


@dataclass
class Seen:
    """A figure as it was drawn; one that is written as SVG after that has its texts elsewhere."""

    is_plot: bool
    bbox: Bbox
    width: float
    texts: list[tuple[str, Bbox, float]]
    """Each with its place and its size."""


@pytest.fixture(scope="module")
def figures(shown):
    """The same, drawn."""
    found = {}
    for name, figure in shown.items():
        FigureCanvasAgg(figure)
        figure.canvas.draw()
        found[name] = Seen(
            isinstance(figure, npl.plots.Plot),
            figure.bbox.frozen(),
            figure.get_tightbbox().width,
            [
                (text.get_text(), text.get_window_extent(), text.get_fontsize())
                for text in texts(figure)
            ],
        )
    plt.close("all")
    return found


def drawn_by_notebooks():
    """The figures of a page of each notebook."""
    recorded = npl.load(npl.recorded())
    pages = {page.notebook: page for page in npl.analysis.pages(recorded)}
    found = {}
    for page in pages.values():
        given = {"experiment": str(npl.recorded()), **page.parameters}
        _, outputs = executed(notebooks()[page.notebook], given)
        for n, output in enumerate(outputs):
            figure = output.figure if isinstance(output, npl.plots.Chart) else output
            if isinstance(figure, Figure):
                found[f"{page.key}, {n}"] = figure
    return found


def outside(figure):
    """Labels of ticks that lie outside of their axis, which are not drawn."""
    hidden = set()
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not low <= tick.get_loc() <= high:
                    hidden |= {id(tick.label1), id(tick.label2)}
            if not axes.axison:
                hidden.add(id(axis.label))
    return hidden


def texts(figure):
    hidden = outside(figure)
    every = (
        text
        for text in figure.findobj(Text)
        if text.get_visible() and id(text) not in hidden
    )
    return [text for text in every if text.get_text().strip()]


def test_the_gallery_has_a_figure_of_each_function(gallery):
    assert {n for n in npl.plots.__all__ if n[0].islower()} - {"in_units"} == set(gallery)


def test_a_figure_carries_the_notice_and_a_short_caption(gallery):
    for figure in gallery.values():
        if isinstance(figure, npl.plots.Plot):
            *caption, notice = figure.get_supxlabel().split("\n")
            assert re.match("Emulated hosts|Synthetic data|Imported logs", notice)
            assert notice in figure.svg()
            assert len(caption) <= 2


def test_no_text_of_a_figure_is_cut(figures):
    cut = [
        (name, words)
        for name, figure in figures.items()
        if figure.is_plot  # Jupyter makes others as large as their texts
        for words, box, _ in figure.texts
        if not all(figure.bbox.padded(1).contains(*end) for end in box.corners())
    ]
    assert cut == []


def test_no_text_of_a_figure_lies_over_another(figures):
    over = []
    for name, figure in figures.items():
        boxes = [(words, box.padded(-0.5)) for words, box, _ in figure.texts]
        pairs = combinations(boxes, 2)
        over += [(name, a, b) for (a, one), (b, other) in pairs if one.overlaps(other)]
    assert over == []


def test_a_unit_stands_on_the_line_of_its_number():
    family = npl.compare(npl.recorded(), metric="latency_oneway_p99_us")
    long = replace(family[0], medians=(648.0, 1020.0), context="")
    axes = npl.plots.forest(replace(family, comparisons=(long,)))
    lines = [line for text in texts(axes.figure) for line in text.get_text().split("\n")]
    assert [line for line in lines if re.match(r"(µs|ms)\b", line)] == []


def test_no_text_of_a_figure_is_too_small(figures):
    small = []
    for name, figure in figures.items():
        scale = min(1, PAGE / figure.width)
        sizes = {words: scale * size for words, _, size in figure.texts}
        small += [(name, words, size) for words, size in sizes.items() if size < SMALLEST]
    assert small == []
