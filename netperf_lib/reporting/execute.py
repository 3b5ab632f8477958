"""Execute notebooks on an experiment and typeset them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..data.shipped import PathLike, report_folder, shipped
from ..errors import NetperfError, ReportError, UsageError, pip_install

# what takes a while to load is imported where it is used: while it is, notebooks get ready
if TYPE_CHECKING:
    from ..analysis.contents import Page
    from ..data.load import Results
    from .cover import Cover
    from .document import Document

__all__ = ["notebooks", "parameters_of", "parse_parameters", "report"]

ENGINE = [
    sys.executable,
    "-c",
    # importing libraries creates hardly any garbage: collecting takes a tenth of the time
    f"import gc; gc.set_threshold(100_000); from {__package__} import engine; engine.serve()",
]
"""The program that executes the notebooks of a report."""
Places = PathLike | Sequence[PathLike]
PageProgress = Callable[[int, int, str], None]


def notebooks() -> dict[str, Path]:
    """Return the notebooks that come with the library, by name, in the order of a report."""
    return {p.stem: p for p in sorted(shipped("notebooks").glob("*.ipynb"))}


def _book(name: str) -> tuple[str, Path]:
    """Name and file of a notebook: the user's, or the library's, of which ``03`` is enough."""
    library = notebooks()
    for full, book in library.items():
        number = full.split("-", 1) if full[0].isdigit() else []
        if name in (full, *number):
            return full, book
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name).stem, Path(name).resolve()
    known = ", ".join(library)
    raise UsageError(
        f"no notebook {name!r} (known: {known}; or the path of an .ipynb file)"
    )


# -- parameters ------------------------------------------------------------------------------------


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # without types


def parameters_of(notebook: Path) -> dict[str, Any]:
    """Return the parameters in the cell tagged ``parameters``, as papermill reads them."""
    from papermill.translators import PythonTranslator

    inspect: Any = PythonTranslator.inspect  # without types
    found: dict[str, Any] = {}
    for cell in _read(notebook).cells:
        if "parameters" in cell.metadata.get("tags", []):
            found |= {one.name: one for one in inspect(cell)}
    return found


def parse_parameters(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` as the command line gives it: numbers, true, null, else text.

    Raises
    ------
    UsageError
        There is no ``=``.
    """
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            example = "metric=throughput_bps"
            raise UsageError(
                f"parameter {text!r}: write it as name=value, for example {example}"
            )
        parameters[name] = value
        with suppress(ValueError):
            parameters[name] = json.loads(value)
    return parameters


# -- pages -----------------------------------------------------------------------------------------


def _pages(
    possible: Sequence[Page],
    books: Mapping[str, Path],
    given: Mapping[str, Any],
) -> dict[str, Page]:
    """Return the pages to execute by the name of their files: those `possible` that are wanted.

    Parameters that are `given` go to each whose notebook has them.
    """
    known = {
        name: parameters_of(book).keys() - {"experiment"} for name, book in books.items()
    }
    there = sorted(set().union(*known.values()))
    if wrong := [name for name in given if name not in there]:
        names = f"{', '.join(books)} (parameters: {', '.join(there) or 'none'})"
        raise UsageError(f"no parameter {wrong[0]!r} in {names}")
    pages = {}
    for page in possible:
        values = {n: v for n, v in given.items() if n in known[page.notebook]}
        changed = replace(page, parameters=page.parameters | values)
        if page.subject.items() <= changed.subject.items():
            pages[page.key] = changed
    if not pages:
        words = ", ".join(f"{name}={value}" for name, value in given.items())
        raise UsageError(f"no page is about {words}; npl report FOLDER makes all")
    return pages


# -- making ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A page to make: a notebook to execute, and where it is written when it is complete.

    Attributes
    ----------
    key : str
        Name of the files of the page, without their ends.
    notebook, executed : str
        The notebook, and where it goes when it was executed.
    parameters : dict
        Its parameters.
    folder : str
        The working directory of a notebook of the user's own; empty for those of the library.
    chapter, title : str
        Name of the notebook, and the heading of the page if it is not that of the notebook.
    """

    key: str
    notebook: str
    executed: str
    parameters: dict[str, Any] = field(default_factory=dict)
    folder: str = ""
    chapter: str = ""
    title: str = ""


def _planned(
    place: Places, chosen: Sequence[PathLike] | None, given: Mapping[str, Any]
) -> tuple[str | list[str], Path, list[Job]]:
    """Return where the data are, where their reports go, and the pages of these."""
    from ..analysis.contents import Page, pages, pages_of_several
    from ..data.declaration import last_set_aside
    from ..data.door import read
    from ..data.files import own_path
    from ..data.ingest import current
    from ..data.layout import experiment_folders

    data, *others = experiment_folders(place)
    location: str | list[str] = str(data)
    if others:
        location = [str(data), *map(str, others)]
        folder = report_folder(str(data.parent), "several")
    else:
        folder = report_folder(str(data), data.name)
        if folder.is_relative_to(data):
            current(data, "runs")
    if chosen:
        books = dict(_book(os.fspath(name)) for name in chosen)
        possible = list(map(Page, books))
    else:
        possible = pages_of_several([data, *others]) if others else pages(read(str(data)))
        before = last_set_aside(data)
        if possible and before and not others:
            possible.append(Page("before-after", {"before": before}))
        books = dict(_book(page.notebook) for page in possible)
    jobs = []
    for key, page in _pages(possible, books, given).items():
        book = books[page.notebook]
        jobs.append(
            Job(
                key,
                str(book),
                str(own_path(folder, f"{key}.ipynb")),
                page.parameters | {"experiment": location},
                "" if book.parent == shipped("notebooks") else str(book.parent),
                page.notebook,
                page.title,
            )
        )
    return location, folder, jobs


class Notebooks:
    """The processes that execute the notebooks of a report, which end with it."""

    def __enter__(self) -> Self:
        # without a time of its own, a picture is the same each time
        env = {"SOURCE_DATE_EPOCH": "0", **os.environ}
        env["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        # a group of its own: Ctrl-C reaches this process alone, which ends them all at once
        self._process = subprocess.Popen(
            ENGINE,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def executed(self, jobs: Sequence[Job]) -> Iterator[tuple[str, str]]:
        """Execute notebooks; yield the key of each when it is done, and what went wrong."""
        told = json.dumps([asdict(job) for job in jobs])
        print(told, file=self._process.stdin, flush=True)
        replies: Any = self._process.stdout
        for _ in jobs:
            line = replies.readline()
            if not line:
                raise ReportError("the process that executes notebooks ended")
            key, error = json.loads(line)
            yield key, error


def report(
    experiment_path: Places | Results,
    notebooks: Sequence[PathLike] | None = None,
    parameters: Mapping[str, Any] | None = None,
    to: str = "pdf",
    code: bool = False,
    progress: PageProgress | None = None,
) -> list[Path]:
    """Execute notebooks on an experiment and make a report of each, and one of all of them.

    Parameters
    ----------
    experiment_path : path or Results
        The experiment's folder, or what `read` returned for it; or a pattern or a list of
        folders, to report on every one over time.
    notebooks : sequence of str or path, optional
        Names of notebooks of the library, or files; default: a page for each question that the
        data can answer.
    parameters : dict, optional
        Parameters of the notebooks by name.
    to : {"pdf", "html"}
        A typeset and tagged PDF, or a self-contained HTML page.
    code : bool
        Show the code too.
    progress : callable, optional
        Called with (pages done, all pages, name of the current page).

    Returns
    -------
    list of Path
        The reports, next to the executed notebooks, in the folder ``reports`` of the experiment,
        or beside several (in the working directory where that one cannot be written). Of
        several pages the last is the combined report.

    Raises
    ------
    UsageError
        Unknown notebook or parameter: the message lists those that exist.
    ReportError
        A notebook failed. Every report is still made (the error's ``reports`` lists them), and the
        page of the failed notebook says why.
    """
    if to not in ("pdf", "html"):
        raise UsageError(f"to={to!r}: a report is 'pdf' or 'html'")
    if not isinstance(experiment_path, str | os.PathLike | Sequence):
        paths = [one.path for one in experiment_path.parts]
        experiment_path = paths or experiment_path.path
    if find_spec("papermill") is None:
        needed = pip_install(shlex.quote("netperf_lib[report]"))
        raise UsageError(f"reports need papermill: {needed}")
    say = progress or (lambda *_: None)
    errors: dict[str, str] = {}
    with Notebooks() as processes:
        location, folder, jobs = _planned(experiment_path, notebooks, parameters or {})
        say(0, len(jobs) + 1, jobs[0].key)
        for key, error in processes.executed(jobs):
            errors[key] = error
            say(len(errors), len(jobs) + 1, key)
    from .document import combine

    cover = _cover(location)
    documents = {job.key: _document(job, errors[job.key], cover, code) for job in jobs}
    whole = {name: combine({name: part}) for name, part in documents.items()}
    if len(documents) > 1:
        whole["report"] = combine(documents)
    explorer = _explorer(location, folder) if to == "html" else None
    reports = [
        _write(doc, folder / f"{name}.{to}", explorer) for name, doc in whole.items()
    ]
    say(len(reports), len(reports), "report")
    failed = [f"{key}: {part.error}" for key, part in documents.items() if part.error]
    if failed:
        if len(failed) < len(documents):
            failed.append(f"the other pages were made: {reports[-1]}")
        wrong = ReportError("; ".join(failed))
        wrong.reports = reports
        raise wrong
    return reports


def _cover(location: Any) -> Cover:
    from ..data.door import read
    from .cover import Cover, cover

    try:
        return cover(read(location))
    except NetperfError:  # then each page says itself that there is no experiment
        return Cover()


def _explorer(location: Any, folder: Path) -> str | None:
    """Write the explorer beside the reports; return the name of its file."""
    from .explorer import explore

    try:
        return explore(location).save(folder / "explorer.html").name
    except NetperfError:  # several experiments, or nothing to explore
        return None


def _document(job: Job, error: str, cover: Cover, code: bool) -> Document:
    """Return the document of an executed notebook, which says how it ended."""
    from .document import document, marked

    executed = Path(job.executed)
    book = _read(executed if executed.is_file() else Path(job.notebook))
    made = document(book, name=executed.stem, code=code)
    made.cover, made.notebook, made.title = cover, job.chapter, job.title or made.title
    left = 0
    for cell in book.cells:
        if cell.cell_type == "code" and cell.source.strip():
            left += cell.execution_count is None
    # leaving the kernel early is no error
    if left and not made.nothing and not error:
        error = f"{left} cells were not executed"
    if error:
        made.error = f"{error}; the executed notebook is {executed}"
        made.cells.append(marked("This page could not be made", f"{made.error}."))
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
