"""Execute notebooks on an experiment and typeset them."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.shipped import PathLike, report_folder, shipped
from ..errors import NetperfError, ReportError, UsageError, pip_install

# what takes a while to load is imported where it is used: a report starts its kernels first
if TYPE_CHECKING:
    from ..analysis.contents import Page
    from ..data.layout import Store
    from .document import Document
    from .kernels import Kernels

__all__ = ["Parameter", "notebooks", "parameters_of", "parse_parameters", "report"]

NEEDED = ("ipykernel", "jinja2", "nbconvert", "papermill", "pypandoc", "typst")
"""Packages of the extra ``report``."""
TYPES = {
    "str": "text",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "list": "a list",
    "dict": "a mapping",
    "NoneType": "null",
}
"""Types that a parameter can have, in words."""


def notebooks() -> dict[str, Path]:
    """Notebooks that come with the library, by name, in the order of a report.

    Raises
    ------
    ReportError
        The installation has none.
    """
    if books := {p.stem: p for p in sorted(shipped("notebooks").glob("*.ipynb"))}:
        return books
    raise ReportError("this installation of netperf_lib has no notebooks; reinstall it")


_shipped = notebooks  # where a parameter has this name


def _book(name: str) -> tuple[str, Path]:
    """Name and file of a notebook: the user's, or the library's, of which ``03`` is enough."""
    library = notebooks()
    full_name = next((n for n in library if n[0].isdigit() and name in n.split("-", 1)), name)
    if full_name in library:
        return full_name, library[full_name]
    if name.endswith(".ipynb") and Path(name).is_file():
        return name, Path(name)
    known = ", ".join(library)
    raise UsageError(f"no notebook {name!r} (known: {known}; or the path of an .ipynb file)")


# -- parameters ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a notebook: its name, its default, and the names of the types it takes."""

    name: str
    default: Any
    types: tuple[str, ...]

    def read(self, value: Any, notebook: str) -> Any:
        """Return a value, if the notebook takes it; text is read as JSON unless text is wanted."""
        read = value
        if isinstance(value, str) and ("str" not in self.types or value == "null"):
            with suppress(ValueError):
                read = json.loads(value)
        kind = type(read).__name__
        if kind not in self.types and not (kind == "int" and "float" in self.types):
            takes = " or ".join(TYPES[name] for name in self.types)
            raise UsageError(f"parameter {self.name} of {notebook} takes {takes}, not {value!r}")
        return read


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # without types


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """Return the parameters in the cell tagged ``parameters``, as papermill reads them."""
    from papermill.translators import PythonTranslator

    cells = [c for c in _read(notebook).cells if "parameters" in c.metadata.get("tags", [])]
    inspect = PythonTranslator.inspect
    found = [one for cell in cells for one in inspect(cell)]  # type: ignore[no-untyped-call]  # without types
    return {one.name: _parameter(*one[:3]) for one in found}


def _parameter(name: str, hint: str, text: str) -> Parameter:
    """A parameter; one whose default is an expression takes everything."""
    try:
        default = literal_eval(text)
    except (ValueError, SyntaxError):
        return Parameter(name, text, tuple(TYPES))
    hints = type(default).__name__ if hint == "None" else hint.replace("None", "NoneType")
    names = tuple(part.partition("[")[0].strip() for part in hints.split("|"))
    known = all(part in TYPES for part in names) and names != ("NoneType",)
    return Parameter(name, default, names if known else tuple(TYPES))


def parse_parameters(texts: Iterable[str]) -> dict[str, str]:
    """Read ``name=value`` as the command line gives it.

    Raises
    ------
    UsageError
        There is no ``=``.
    """
    parameters = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            example = "metric=throughput_bps"
            raise UsageError(f"parameter {text!r}: write it as name=value, for example {example}")
        parameters[name.strip()] = value
    return parameters


def _checked(books: Sequence[Path], values: Mapping[str, Any]) -> dict[Path, dict[str, Any]]:
    """The parameters for each notebook; every one belongs to at least one of them."""
    declared = {book: parameters_of(book) for book in books}
    names = sorted({name for some in declared.values() for name in some} - {"experiment"})
    for name in values:
        if name not in names:
            where = books[0].stem if len(books) == 1 else "these notebooks"
            known = ", ".join(names) or "none"
            raise UsageError(f"no parameter {name!r} in {where} (parameters: {known})")
    return {
        book: {n: some[n].read(v, book.stem) for n, v in values.items() if n in some}
        for book, some in declared.items()
    }


# -- pages -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Page:
    """One notebook of a report on its way: executed, then converted."""

    notebook: Path
    key: str
    """Name of its files."""
    parameters: dict[str, Any]
    title: str = ""
    error: str | None = None


def _pages(
    possible: Sequence[Page],
    chosen: Sequence[PathLike] | None,
    own: Mapping[str, Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> list[_Page]:
    """The pages to execute: those `possible` for the notebooks `chosen`.

    A notebook without one is a page itself. `own` are parameters by notebook, as the experiment
    declares them; those of the call win.
    """
    books = dict(_book(os.fspath(name)) for name in chosen or [p.notebook for p in possible])
    if strange := sorted(own.keys() - books.keys()):
        known = ", ".join(books)
        raise UsageError(f"report.parameters: {strange[0]!r} is not among the notebooks ({known})")
    for name, value in parameters.items():
        subjects = [p.subject for p in possible if p.notebook in books and name in p.subject]
        about = dict.fromkeys(subject[name] for subject in subjects)
        if about and value not in about:
            known = ", ".join(map(str, about))
            raise UsageError(f"no page is about {name}={value}; there are: {known}")
    checked = _checked(list(books.values()), parameters)
    pages = []
    for name, book in books.items():
        wish = _checked([book], own.get(name, {}))[book] | checked[book]
        fitting = [p for p in possible if p.notebook == name]
        fit = [p for p in fitting if all(wish.get(k, v) == v for k, v in p.subject.items())]
        if not fitting or (not fit and not parameters):
            pages.append(_Page(book, book.stem, wish))
        pages += [_Page(book, p.key, p.parameters | wish, p.title) for p in fit]
    return pages


def _located(path: PathLike) -> Store | None:
    """An experiment; None for a data root, whose experiments are each reported over time."""
    from ..data.layout import Store, experiments

    return None if experiments(path) else Store.at(path)


def _planned(
    experiment_path: PathLike, notebooks: Sequence[PathLike] | None, parameters: Mapping[str, Any]
) -> tuple[Store | None, str, Path, list[_Page]]:
    """The experiment (None: a data root), where it is, where its reports go, and their pages."""
    from ..data.files import local
    from ..data.ingest import current
    from ..experiment.model import Report

    store = _located(experiment_path)
    if store is None:  # absolute: notebooks run elsewhere
        location, name, declared = os.path.realpath(local(experiment_path)), "fleet", None
    else:
        location, name, declared = store.location, store.experiment, store.declared().report
    folder = report_folder(location, name)
    if store is not None and folder.is_relative_to(location):
        current(store, "runs")
    if notebooks:
        return store, location, folder, _pages([], notebooks, {}, parameters)
    chosen = declared or Report()
    for book in chosen.notebooks or ():
        if book not in _shipped():  # the experiment may come from anybody
            raise UsageError(
                f"experiment.yaml names the notebook {book!r}, which is a program; "
                f"to run it, name it yourself: npl report FOLDER --notebook {book}"
            )
    possible = _possible_pages(store or location)
    return (
        store, location, folder, _pages(possible, chosen.notebooks, chosen.parameters, parameters),
    )  # fmt: skip


def _possible_pages(data: Store | str) -> list[Page]:
    """The pages that an experiment, or a data root, can fill."""
    from ..analysis.contents import Page, fleet_pages, pages
    from ..data.load import read

    if isinstance(data, str):
        return fleet_pages(data)
    planned = pages(read(data.location))
    if planned and (before := data.last_set_aside()):
        planned.append(Page("before-after", {"before": before}))
    return planned


# -- making ----------------------------------------------------------------------------------------


def report(
    experiment_path: PathLike,
    notebooks: Sequence[PathLike] | None = None,
    parameters: Mapping[str, Any] | None = None,
    to: str = "pdf",
    code: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Path]:
    """Execute notebooks on an experiment and make a report of each, and one of all of them.

    Parameters
    ----------
    experiment_path : path
        The experiment's folder; or a data root, to report on every experiment in it over time.
    notebooks : sequence of str or path, optional
        Names of notebooks of the library, or files; default: as the experiment's ``report``
        chooses, else a page for each question that the data can answer.
    parameters : dict, optional
        Parameters of the notebooks by name. Text is read as the parameter's type.
    to : {"pdf", "html"}
        A typeset and tagged PDF, or a self-contained HTML page.
    code : bool
        Show the code too.
    progress : callable, optional
        Called with (pages done, all pages, name of the current page).

    Returns
    -------
    list of Path
        The reports, next to the executed notebooks, in the folder ``reports`` of the experiment or
        data root (under ``reports`` in the working directory where that one cannot be written). Of
        several pages the last is the combined report.

    Raises
    ------
    UsageError
        Unknown notebook; unknown or ill-typed parameter: the message lists those that exist.
    ReportError
        A notebook failed. Every report is still made (the error's ``reports`` lists them), and the
        page of the failed notebook says why.
    """
    _check(to)
    from .kernels import Kernels

    with Kernels() as kernels:
        if not any(os.fspath(name).endswith(".ipynb") for name in notebooks or ()):
            kernels.submit(kernels.prepare)
        store, location, folder, pages = _planned(experiment_path, notebooks, parameters or {})
        parts = _documents(kernels, pages, folder, location, code, progress)
    from .document import combine

    documents = {name: combine({name: part}) for name, part in parts.items()}
    if len(parts) > 1:
        documents["report"] = combine(parts)
    explorer = None
    if to == "html" and store is not None:
        from .explorer import explore

        with suppress(NetperfError):  # nothing is to be explored
            explorer = explore(store.location).save(folder / "explorer.html").name
    reports = [_write(doc, folder / f"{n}.{to}", explorer) for n, doc in documents.items()]
    if progress is not None:
        progress(len(reports), len(reports), "report")
    if errors := [f"{p.key}: {p.error}" for p in pages if p.error]:
        others = f"; the other pages were made: {reports[-1]}" if len(pages) > len(errors) else ""
        error = ReportError("; ".join(errors) + others)
        error.reports = reports
        raise error
    return reports


def _check(to: str) -> None:
    """Refuse what no report can be made of, before anything is started."""
    if to not in ("pdf", "html"):
        raise UsageError(f"to={to!r}: a report is 'pdf' or 'html'")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        needed = pip_install(shlex.quote("netperf_lib[report]"))
        raise UsageError(f"reports need {', '.join(missing)}: {needed}")


def _documents(
    kernels: Kernels,
    pages: Sequence[_Page],
    folder: Path,
    location: str,
    code: bool,
    progress: Callable[[int, int, str], None] | None,
) -> dict[str, Document]:
    """Execute the notebooks; each as a document, by the name of its files."""
    from ..analysis.history import measurements
    from ..data.load import read
    from .cover import cover

    covers = cache(lambda name: cover(read(measurements(location, name))))
    running = [kernels.submit(_execute, kernels, page, folder, location) for page in pages]
    documents = {}
    for done, (page, execution) in enumerate(zip(pages, running, strict=True)):
        if progress is not None:
            progress(done, len(pages) + 1, page.key)
        page.error = execution.result()
        documents[page.key] = made = _document(page, folder, code)
        with suppress(NetperfError):  # then the page says itself that there is no experiment
            made.cover = covers(page.parameters.get("name"))
    return documents


def _execute(kernels: Kernels, page: _Page, folder: Path, location: str) -> str | None:
    """Execute a notebook; return what went wrong, None if nothing did."""
    executed = folder / f"{page.key}.ipynb"
    executed.unlink(missing_ok=True)
    values = page.parameters | {"experiment": location}
    known = {name: values[name] for name in parameters_of(page.notebook) if name in values}
    ours = page.notebook in notebooks().values()
    return kernels.execute(page.notebook.resolve(), executed, known, ours=ours)


def _document(page: _Page, folder: Path, code: bool) -> Document:
    """The document of an executed notebook, which says how it ended."""
    from .document import document, marked

    executed = folder / f"{page.key}.ipynb"
    book = _read(executed if executed.is_file() else page.notebook)
    made = document(book, name=page.key, code=code, base=page.notebook.parent)
    made.title = page.title or made.title
    cells = [c for c in book.cells if c.cell_type == "code" and c.source.strip()]
    left = sum(cell.execution_count is None for cell in cells)
    if left and not made.nothing:  # leaving the kernel early counts as success for papermill
        page.error = page.error or f"{left} cells were not executed"
    if page.error:
        page.error += f"; the executed notebook is {executed}"
        made.cells.append(marked("This page could not be made", f"{page.error}."))
    defaults = {name: one.default for name, one in parameters_of(page.notebook).items()}
    values = defaults | page.parameters | {"experiment": None}
    words = (f"{name} {value}" for name, value in values.items() if value is not None)
    made.parameters = {page.key: ", ".join(words)}
    return made


def _write(document: Document, final: Path, explorer: str | None) -> Path:
    """Write a report; it appears complete or not at all."""
    from ..data.files import own_path, write

    if final.suffix == ".html":
        from .html import page

        body = page(document, explorer=explorer).encode()
    else:
        from .pdf import typeset

        body = typeset(document)
    write(own_path(final.parent, final.name), body)
    return final
