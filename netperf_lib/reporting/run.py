"""Execute notebooks on an experiment and typeset them."""

from __future__ import annotations

import ast
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..data.shipped import shipped
from ..data.store import Store
from ..errors import NothingToReport, ReportError, UsageError
from . import combine

__all__ = ["Parameter", "notebooks", "parameters_of", "parse_parameters", "report"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a notebook: its name, its default, and the types that it takes."""

    name: str
    default: Any
    types: tuple[type, ...]

    @property
    def wanted(self) -> str:
        """What it takes, in words."""
        words = {
            str: "text",
            bool: "true or false",
            int: "an integer",
            float: "a number",
            list: "a list",
            type(None): "null",
            dict: "a mapping",
        }
        return " or ".join(dict.fromkeys(words[t] for t in self.types if t is not int or float not in self.types))


def notebooks() -> dict[str, Path]:
    """Notebooks that come with the library, by name, in the order of a report.

    Raises
    ------
    ReportError
        The installation lacks them.
    """
    found = {p.stem: p for p in sorted(shipped("notebooks").glob("*.ipynb"))}
    if found:
        return found
    raise ReportError("no notebook came with this installation of netperf_lib; install it again")


def _chosen(wanted: Sequence[PathLike] | None) -> list[Path]:
    """The notebooks asked for: by name, or the file of one's own."""
    known = notebooks()
    if wanted is None:
        asked = [name for name in known if name not in (combine.FIRST, "explore")]
        return [known[name] for name in (combine.FIRST, *asked) if name in known]
    found = []
    for each in wanted:
        name = os.fspath(each)
        if name in known:
            found.append(known[name])
        elif name.endswith(".ipynb") and Path(name).is_file():
            found.append(Path(name))
        else:
            raise UsageError(f"no notebook {name!r} (known: {', '.join(known)}; or the path of an .ipynb file)")
    return found


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types


# -- parameters ------------------------------------------------------------------------------------------------------


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """Parameters that a notebook declares in its cell tagged ``parameters``."""
    found: dict[str, Parameter] = {}
    for cell in _read(notebook).cells:
        if "parameters" not in cell.metadata.get("tags", []):
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                name, value, note = node.target.id, node.value, ast.unparse(node.annotation)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value, note = node.targets[0].id, node.value, ""
            else:
                continue
            default = ast.literal_eval(value)
            found[name] = Parameter(name, default, _types(default, note))
    return found


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
    found = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not given or not name.strip():
            raise UsageError(f"parameter {text!r}: write it as name=value, for example metric=throughput_bps")
        found[name.strip()] = value
    return found


def _typed(parameter: Parameter, value: Any, notebook: str) -> Any:
    """The value as the notebook wants it; text from a command line is read as yaml unless text is wanted."""
    given = value
    if isinstance(value, str) and str not in parameter.types:
        try:
            value = yaml.safe_load(value)
        except yaml.YAMLError:
            value = given
    elif value == "null" and type(None) in parameter.types:
        value = None
    if isinstance(value, tuple):
        value = list(value)
    fits = type(value) in parameter.types
    if not fits:
        raise UsageError(f"parameter {parameter.name} of {notebook} takes {parameter.wanted}, not {given!r}")
    return value


def _checked(books: Sequence[Path], given: Mapping[str, Any]) -> dict[Path, dict[str, Any]]:
    """What each notebook is given: every parameter belongs to at least one, and has its type."""
    declared = {book: parameters_of(book) for book in books}
    known = sorted({name for p in declared.values() for name in p} - {"experiment"})
    for name in given:
        if name == "experiment" or name not in known:
            where = books[0].stem if len(books) == 1 else "these notebooks"
            raise UsageError(f"no parameter {name!r} in {where} (parameters: {', '.join(known) or 'none'})")
    return {book: {n: _typed(p[n], v, book.stem) for n, v in given.items() if n in p} for book, p in declared.items()}


# -- making ----------------------------------------------------------------------------------------------------------


def report(
    experiment_path: PathLike,
    notebooks: Sequence[PathLike] | None = None,
    parameters: Mapping[str, Any] | None = None,
    to: str = "pdf",
    code: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Execute notebooks on an experiment and make a report of each.

    Parameters
    ----------
    experiment_path : path
        The experiment's folder.
    notebooks : sequence of str or path, optional
        Names of notebooks of the library, or files; default: all that answer a question, and one combined report.
    parameters : dict, optional
        Parameters of the notebooks by name. Text is read as the parameter's type.
    to : {"pdf", "html"}
        PDF (typeset, tagged), or a self-contained HTML page.
    code : bool
        Show the code too.
    progress : callable, optional
        Called with (notebooks done, notebooks in all).

    Returns
    -------
    list of Path
        The reports, under the experiment's ``reports`` folder, beside the executed notebooks; the combined report,
        where there is one, is the last.

    Raises
    ------
    UsageError
        Unknown notebook; unknown or ill-typed parameter: the text names those that exist.
    ReportError
        A notebook failed: the executed notebook is kept, and no report of it.
    """
    if to not in ("pdf", "html"):
        raise UsageError(f"to={to!r}: a report is 'pdf' or 'html'")
    store = Store.at(experiment_path)
    books = _chosen(notebooks)
    given = _checked(books, parameters or {})
    store.ingest()
    folder = store.reports_dir
    whole = folder / f"report.{to}" if notebooks is None else None
    if whole:
        whole.unlink(missing_ok=True)
    steps = len(books) + (whole is not None)
    executed: dict[Path, Any] = {}
    made: dict[Path, Path] = {}
    failures: list[ReportError] = []
    with ThreadPoolExecutor(max_workers=min(len(books), os.cpu_count() or 1, 4)) as pool:
        jobs = {pool.submit(_one, book, store.location, given[book], folder, to, code): book for book in books}
        for job in as_completed(jobs):
            book = jobs[job]
            try:
                executed[book], made[book] = job.result()
            except ReportError as error:
                failures.append(error)
            if progress:
                progress(len(executed) + len(failures), steps)
    if failures:
        raise ReportError("; ".join(map(str, failures)))
    results = [made[book] for book in books]
    if whole:
        results.append(_convert(combine.combine({b.stem: executed[b] for b in books}), whole, to, code))
        if progress:
            progress(steps, steps)
    store.publish([*results, *(folder / book.name for book in books)])
    return results


def _one(book: Path, experiment: str, given: dict[str, Any], folder: Path, to: str, code: bool) -> tuple[Any, Path]:
    place = folder / book.name
    final = folder / f"{book.stem}.{to}"
    final.unlink(missing_ok=True)  # an old report beside a failed notebook would look finished
    _execute(book, place, given | {"experiment": experiment})
    done = _ended(_read(place))
    defaults = {name: p.default for name, p in parameters_of(place).items()}
    values = done.metadata.get("papermill", {}).get("parameters", {})
    done.metadata["netperf"] = {"parameters": {book.stem: defaults | values}}
    return done, _convert(done, final, to, code)


def _execute(book: Path, executed: Path, given: dict[str, Any]) -> None:
    """Execute a notebook; it ends well, or with nothing to report, or in an error."""
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from papermill.execute import execute_notebook

    declared = parameters_of(book)
    try:
        execute_notebook(  # type: ignore[no-untyped-call]  # papermill has no types
            book,
            executed,
            parameters={n: v for n, v in given.items() if n in declared},
            kernel_name="python3",
            language="python",
            progress_bar=False,
            log_output=False,
            # the kernel's folder; papermill's own `cwd` would change that of this whole process, for all threads
            resources={"metadata": {"path": str(book.parent)}},
            start_timeout=120,
            # all output has arrived by then, and a kernel that is asked to end politely may stumble over its own closed
            # sockets, and say so on the terminal
            shutdown_kernel="immediate",
            extra_arguments=["--IPKernelApp.log_level=50"],  # it talks over loopback, and says so each time
        )
    except PapermillExecutionError as error:
        if error.ename == NothingToReport.__name__:
            return
        raise ReportError(
            f"{book.stem}: cell {error.exec_count} failed: {error.ename}: {_line(error.evalue)} (the executed notebook "
            f"is {executed})"
        ) from None
    except DeadKernelError:
        raise ReportError(f"{book.stem}: the kernel died; what was executed is in {executed}") from None
    # leaving the kernel early (sys.exit) counts as success for papermill; for a reader it is half a report
    skipped = [
        c for c in _read(executed).cells if c.cell_type == "code" and c.source.strip() and c.execution_count is None
    ]
    if skipped:
        raise ReportError(f"{book.stem}: {len(skipped)} cells were not executed; the executed notebook is {executed}")


def _line(text: str) -> str:
    return " ".join(text.split())


def _convert(book: Any, final: Path, to: str, code: bool) -> Path:
    """Make the page of an executed notebook; it appears whole or not at all."""
    resources = {"metadata": {"name": final.stem, "path": str(final.parent)}}
    if to == "html":
        from .page import PageExporter

        body = PageExporter(code=code).from_notebook_node(book, resources)[0].encode()
    else:
        from .typst import TypstPDFExporter

        pdf = TypstPDFExporter(code=code)  # type: ignore[no-untyped-call]  # nbconvert has no types
        body = pdf.from_notebook_node(book, resources)[0]
    with tempfile.NamedTemporaryFile(dir=final.parent, prefix=f".{final.name}.", delete=False) as aside:
        aside.write(body)
    Path(aside.name).chmod(0o644)
    shutil.move(aside.name, final)
    return final


def _ended(book: Any) -> Any:
    """Leave out what stands after the cell that had nothing to report, and what papermill says about it."""
    book.cells = [c for c in book.cells if "papermill-error-cell-tag" not in c.metadata.get("tags", [])]
    for i, cell in enumerate(book.cells):
        if any(o.get("ename") == NothingToReport.__name__ for o in cell.get("outputs", ())):
            ends = [c for c in book.cells[i + 1 :] if "always" in c.metadata.get("tags", [])]
            book.cells = [*book.cells[: i + 1], *ends]
            break
    return book
