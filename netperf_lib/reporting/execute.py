"""Execute notebooks on an experiment and typeset them."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ..data.shipped import PathLike, report_folder, shipped
from ..errors import NetperfError, ReportError, UsageError, pip_install
from .cover import cover, provenance
from .document import Document, combine, document, finished, marked

# what takes a while to load is imported where it is used: a report starts its workers first
if TYPE_CHECKING:
    from ..analysis.contents import Page
    from ..data.layout import Store

__all__ = ["Parameter", "notebooks", "parameters_of", "parse_parameters", "report"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a notebook: its name, its default, and the types that it takes."""

    name: str
    default: Any
    types: tuple[type, ...]

    @property
    def takes(self) -> str:
        """The types that it takes, in words."""
        words = {
            str: "text",
            bool: "true or false",
            int: "an integer",
            float: "a number",
            list: "a list",
            type(None): "null",
            dict: "a mapping",
        }
        return " or ".join(
            dict.fromkeys(words[t] for t in self.types if t is not int or float not in self.types)
        )


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


def _book(name: str) -> tuple[str, Path]:
    """Name and file of a notebook: the user's file, or one of the library, of which ``03`` or ``streams`` is enough."""
    library = notebooks()
    full_name = next((n for n in library if n[0].isdigit() and name in n.split("-", 1)), name)
    if full_name in library:
        return full_name, library[full_name]
    if name.endswith(".ipynb") and Path(name).is_file():
        return name, Path(name)
    raise UsageError(
        f"no notebook {name!r} (known: {', '.join(library)}; or the path of an .ipynb file)"
    )


def _refuse_files(declared: Sequence[str]) -> None:
    """Refuse files that an experiment names: its folder may come from anybody, and a notebook is a program."""
    library = notebooks()
    if files := [name for name in declared if name not in library]:
        raise UsageError(
            f"experiment.yaml names the notebook {files[0]!r}, which is a program; to run it, name it yourself: "
            f"npl report FOLDER --notebook {files[0]}"
        )


def _pages(
    possible: Sequence[Page],
    chosen: Sequence[PathLike] | None,
    own: Mapping[str, Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> list[_Page]:
    """The pages to execute: those `possible` for the notebooks `chosen`; a notebook without one is a page itself.

    `own` are parameters by notebook, as the experiment declares them; those of the call win.
    """
    books = dict(_book(os.fspath(name)) for name in chosen or [p.notebook for p in possible])
    if strange := sorted(own.keys() - books.keys()):
        raise UsageError(
            f"report.parameters: {strange[0]!r} is not among the notebooks ({', '.join(books)})"
        )
    checked = _checked(list(books.values()), parameters)
    pages = []
    for name, book in books.items():
        set_ = _checked([book], own.get(name, {}))[book] | checked[book]
        fitting = [p for p in possible if p.notebook == name]
        fit = [p for p in fitting if all(set_.get(k, v) == v for k, v in p.subject.items())]
        if not fitting or (not fit and not parameters):
            pages.append(_Page(book, book.stem, set_))
        pages += [_Page(book, p.key, p.parameters | set_, p.title) for p in fit]
    for name, value in parameters.items():
        about = dict.fromkeys(
            p.subject[name] for p in possible if p.notebook in books and name in p.subject
        )
        if about and value not in about:
            raise UsageError(
                f"no page is about {name}={value}; there are: {', '.join(map(str, about))}"
            )
    return pages


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types


# -- parameters ------------------------------------------------------------------------------------------------------


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """Parameters that a notebook declares in its cell tagged ``parameters``."""
    parameters: dict[str, Parameter] = {}
    for cell in _read(notebook).cells:
        if "parameters" not in cell.metadata.get("tags", []):
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                name, value, note = node.target.id, node.value, ast.unparse(node.annotation)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                # papermill knows a union as a comment only
                comment = re.search(
                    r"#\s*type:\s*(\S+)", cell.source.splitlines()[(node.end_lineno or 1) - 1]
                )
                name, value, note = node.targets[0].id, node.value, comment[1] if comment else ""
            else:
                continue
            try:
                default = ast.literal_eval(value)
            except (
                ValueError
            ):  # an expression, which papermill allows: only the kernel knows its value
                parameters[name] = Parameter(name, ast.unparse(value), _types(..., note))
                continue
            parameters[name] = Parameter(name, default, _types(default, note))
    return parameters


def _types(default: Any, annotation: str) -> tuple[type, ...]:
    named: dict[str, tuple[type, ...]] = {
        "str": (str,),
        "bool": (bool,),
        "int": (int,),
        "float": (float, int),
        "list": (list,),
        "dict": (dict,),
        "None": (type(None),),
    }
    parts = [part.split("[")[0].strip() for part in annotation.split("|")] if annotation else []
    if parts and all(p in named for p in parts):
        return tuple(dict.fromkeys(t for p in parts for t in named[p]))
    return named.get(type(default).__name__, (str, bool, int, float, list, dict, type(None)))


def parse_parameters(texts: Iterable[str]) -> dict[str, str]:
    """Read ``name=value`` as the command line gives it; the notebook's own types decide what the value means.

    Raises
    ------
    UsageError
        There is no ``=``.
    """
    parameters = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"parameter {text!r}: write it as name=value, for example metric=throughput_bps"
            )
        parameters[name.strip()] = value
    return parameters


def _typed(parameter: Parameter, value: Any, notebook: str) -> Any:
    """The value as the notebook wants it; text from a command line is read as yaml unless text is wanted."""
    read = list(value) if isinstance(value, tuple) else value
    if isinstance(value, str) and str not in parameter.types:
        with suppress(yaml.YAMLError, ValueError):
            read = yaml.safe_load(value)
            if isinstance(read, str) and float in parameter.types:
                read = float(read)  # yaml reads 1e-2 as text
    elif value == "null" and type(None) in parameter.types:
        read = None
    if type(read) not in parameter.types:
        raise UsageError(
            f"parameter {parameter.name} of {notebook} takes {parameter.takes}, not {value!r}"
        )
    return read


def _checked(books: Sequence[Path], values: Mapping[str, Any]) -> dict[Path, dict[str, Any]]:
    """The parameters for each notebook: every one belongs to at least one notebook, and has its type."""
    declared = {book: parameters_of(book) for book in books}
    names = sorted({name for p in declared.values() for name in p} - {"experiment"})
    if strange := [name for name in values if name not in names]:
        where = books[0].stem if len(books) == 1 else "these notebooks"
        raise UsageError(
            f"no parameter {strange[0]!r} in {where} (parameters: {', '.join(names) or 'none'})"
        )
    return {
        book: {n: _typed(p[n], v, book.stem) for n, v in values.items() if n in p}
        for book, p in declared.items()
    }


# -- making ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Page:
    """One notebook of a report on its way: executed, then converted."""

    notebook: Path
    key: str
    """Name of its files."""
    parameters: dict[str, Any]
    title: str = ""
    error: str | None = None


NEEDED = ("ipykernel", "jinja2", "nbconvert", "papermill", "pypandoc", "typst")
"""Packages of the extra ``report``."""


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
        Names of notebooks of the library, or files; default: as the experiment's ``report`` chooses, else a page for
        each question that the data can answer.
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
        The reports, next to the executed notebooks, in the folder ``reports`` of the experiment or data root (under
        ``reports`` in the working directory where that one cannot be written). Of several pages the last is the
        combined report.

    Raises
    ------
    UsageError
        Unknown notebook; unknown or ill-typed parameter: the message lists those that exist.
    ReportError
        A notebook failed. Every report is still made (the error's ``reports`` lists them), and the page of the failed
        notebook says why.
    """
    _check(experiment_path, to)
    store, location, folder, pages = _planned(experiment_path, notebooks, parameters or {})
    parts = _documents(pages, folder, location, code, progress)
    documents = {name: finished(part) for name, part in parts.items()}
    if len(parts) > 1:
        documents["report"] = combine(parts)
    explorer = _explorer(store, folder) if to == "html" else None
    reports = [_write(doc, folder / f"{n}.{to}", explorer) for n, doc in documents.items()]
    if progress is not None:
        progress(len(reports), len(reports), "report")
    if errors := [f"{p.key}: {p.error}" for p in pages if p.error]:
        others = f"; the other pages were made: {reports[-1]}" if len(pages) > len(errors) else ""
        error = ReportError("; ".join(errors) + others)
        error.reports = reports
        raise error
    return reports


def _check(experiment_path: PathLike, to: str) -> None:
    """Refuse what no report can be made of, before anything is started."""
    if to not in ("pdf", "html"):
        raise UsageError(f"to={to!r}: a report is 'pdf' or 'html'")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        needed = pip_install(shlex.quote("netperf_lib[report]"))
        raise UsageError(f"reports need {', '.join(missing)}: {needed}")
    if "://" not in os.fspath(experiment_path) and not Path(experiment_path).is_dir():
        _located(experiment_path)  # raises an error that says what is wrong


def _planned(
    experiment_path: PathLike, notebooks: Sequence[PathLike] | None, parameters: Mapping[str, Any]
) -> tuple[Store | None, str, Path, list[_Page]]:
    """The experiment (None: a data root), where it is, where its reports go, and their pages."""
    from ..data.files import split
    from ..data.ingest import current
    from ..experiment.model import Report

    store = _located(experiment_path)
    location = (
        store.location if store else "/".join(split(experiment_path))
    )  # absolute: notebooks run elsewhere
    folder = report_folder(location, "fleet" if store is None else store.experiment)
    if store is not None and folder.is_relative_to(location):
        current(store, "runs")
    chosen = (None if store is None or notebooks else store.declared().report) or Report()
    possible = [] if notebooks else _possible_pages(location if store is None else store)
    _refuse_files(chosen.notebooks or ())
    return (
        store,
        location,
        folder,
        _pages(possible, notebooks or chosen.notebooks, chosen.parameters, parameters),
    )


def _located(path: PathLike) -> Store | None:
    """An experiment; None for a data root, whose experiments are each reported over time."""
    from ..data.layout import Store, experiments

    return None if experiments(path) else Store.at(path)


def _possible_pages(data: Store | str) -> list[Page]:
    """The pages that an experiment, or a data root, can fill."""
    # loads pandas, which this process does not need if notebooks are named
    from ..analysis.contents import Page, fleet_pages, pages
    from ..data.load import load

    if isinstance(data, str):
        return fleet_pages(data)
    planned = pages(load(data.location))
    if planned and (before := data.last_set_aside()):
        planned.append(Page("before-after", {"before": before}))
    return planned


def _documents(
    pages: Sequence[_Page],
    folder: Path,
    location: str,
    code: bool,
    progress: Callable[[int, int, str], None] | None,
) -> dict[str, Document]:
    """Execute the notebooks, two at a time; each as a document, by the name of its files."""
    from ..analysis.history import measurements
    from ..data.load import load
    from .kernels import end_kernels

    library = set(notebooks().values())
    own = any(page.notebook not in library for page in pages)  # papermill changes the folder
    measured = cache(lambda name: load(measurements(location, name)))
    documents = {}
    with ThreadPoolExecutor(max_workers=1 if own else 2) as pool:
        started = [
            (page, pool.submit(_execute, page, folder, location, page.notebook in library))
            for page in pages
        ]
        try:
            for done, (page, execution) in enumerate(started):
                if progress is not None:
                    progress(done, len(pages) + 1, page.key)
                page.error = execution.result()
                documents[page.key] = _document(page, folder, code, measured)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_kernels()
            raise
    return documents


def _execute(page: _Page, folder: Path, location: str, ours: bool) -> str | None:
    """Execute a notebook; return what went wrong, None if nothing did."""
    from .kernels import execute

    executed = folder / f"{page.key}.ipynb"
    executed.unlink(missing_ok=True)
    declared = parameters_of(page.notebook)
    values = page.parameters | {"experiment": location}
    known = {name: value for name, value in values.items() if name in declared}
    problem = execute(page.notebook.resolve(), executed, known, ours=ours)
    return f"{problem}; the executed notebook is {executed}" if problem else None


def _document(
    page: _Page, folder: Path, code: bool, measured: Callable[[str | None], Any]
) -> Document:
    """The document of an executed notebook, which says what was measured and how it ended."""
    executed = folder / f"{page.key}.ipynb"
    book = _read(executed if executed.is_file() else page.notebook)
    made = document(book, name=page.key, code=code, base=page.notebook.parent)
    made.title = page.title or made.title
    skipped = [c for c in book.cells if c.cell_type == "code" and c.source.strip()]
    left = sum(cell.execution_count is None for cell in skipped)
    if left and not page.error and not made.nothing:
        # leaving the kernel early (sys.exit) counts as success for papermill
        page.error = f"{left} cells were not executed; the executed notebook is {executed}"
    if page.error:
        made.cells.append(marked("This page could not be made", f"{page.error}."))
    declared = parameters_of(page.notebook)
    values = {name: p.default for name, p in declared.items()} | page.parameters
    words = (f"{n} {v}" for n, v in values.items() if n != "experiment" and v is not None)
    made.parameters = {page.key: ", ".join(words)}
    if "experiment" in declared:
        name = page.parameters.get("name")
        with suppress(NetperfError):  # then the page says itself that there is no experiment
            made.cover = cover(measured(name))
            made.provenance = provenance(measured(name))
    return made


def _explorer(store: Store | None, folder: Path) -> str | None:
    """Write the explorer beside the pages; None where nothing is to be explored."""
    from .explorer import explore

    if store is not None:
        with suppress(NetperfError):
            return explore(store.location).save(folder / "explorer.html").name
    return None


def _write(document: Document, final: Path, explorer: str | None) -> Path:
    """Write a report; it appears complete or not at all."""
    from ..data.files import Folder

    if final.suffix == ".html":
        from .html import page

        body = page(document, explorer=explorer).encode()
    else:
        from .pdf import typeset

        body = typeset(document)
    Folder(str(final.parent)).write(final.name, body)
    return final
