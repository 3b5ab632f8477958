"""Notebooks with papermill's parameters, each in a process of its own that starts at once.

One process imports what notebooks import, and every notebook runs in a copy of it (a fork): its
names are its own, and nothing is imported twice. The jobs are a line of JSON on standard input; how
each ended is a line on standard output. When the input ends, so do all of these processes.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode, writes
from nbformat.v4 import new_notebook, new_output
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from traitlets.config import Config

from ..data.files import write
from ..errors import NothingToReport
from ..plots.figure import STYLE

AT_ONCE = 2
"""Notebooks that are executed at the same time."""
ENDS = (NothingToReport.__name__, SystemExit.__name__)
"""Errors that end a notebook without a failure: it says itself why, or how far it came."""


def _shown_as_people_read(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:.6g}"


# -- a cell and what it shows ----------------------------------------------------------------------


class Shell(InteractiveShell):
    """What executes cells; the outputs of the current one are in `outputs`."""

    outputs: list[NotebookNode]

    def keep(self, kind: str, **content: Any) -> None:
        """Keep an output of the current cell."""
        self.outputs.append(new_output(kind, **content))  # type: ignore[no-untyped-call]

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: figures are shown inline."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.keep("error", ename=etype.__name__, evalue=str(evalue), traceback=list(stb))


class Publisher(DisplayPublisher):
    """Keeps what ``display`` shows."""

    def publish(self, data: Any, metadata: Any = None, **_: Any) -> None:  # type: ignore[override]
        """Keep a display."""
        Shell.instance().keep("display_data", data=data, metadata=metadata or {})


class Hook(DisplayHook):
    """Keeps the value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Write nothing: the value is kept instead."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Keep a value."""
        shown: Any = {"data": format_dict, "metadata": md_dict or {}}
        shown["execution_count"] = self.prompt_count
        Shell.instance().keep("execute_result", **shown)

    def finish_displayhook(self) -> None:
        """Write no line after it."""


class Printed(io.TextIOBase):
    """A stream of the cell, which keeps what is printed in its order."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.shell, self.name = shell, name

    def writable(self) -> bool:
        """Return that it takes text."""
        return True

    def write(self, text: str) -> int:
        """Keep a text; what follows on the same stream continues it."""
        outputs = self.shell.outputs
        if not (outputs and outputs[-1].get("name") == self.name):
            self.shell.keep("stream", name=self.name, text="")
        outputs[-1].text += text
        return len(text)


def _new_shell() -> Any:
    config: Any = Config()
    config.HistoryManager.enabled = False
    config.InlineBackend.figure_formats = {"svg"}
    Shell.displayhook_class.default_value = Hook
    Shell.display_pub_class.default_value = Publisher
    shell: Any = Shell.instance(config=config, colors="NoColor")
    shell.outputs = []
    shell.system = shell.system_piped
    sys.stdout, sys.stderr = Printed(shell, "stdout"), Printed(shell, "stderr")
    return shell


def _run(book: NotebookNode) -> str:
    """Execute cells until one fails; return what went wrong, empty if nothing did."""
    shell = _new_shell()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for cell in code:  # what an earlier execution left
        cell.execution_count, cell.outputs = None, []
    for cell in code:
        if not cell.source.strip():
            continue
        shell.outputs = cell.outputs
        cell.execution_count = shell.execution_count
        if shell.run_cell(cell.source, store_history=True).success:
            continue
        [error] = [one for one in cell.outputs if one.output_type == "error"]
        if error.ename in ENDS:
            return ""
        words = " ".join(error.evalue.split())
        return f"cell {cell.execution_count} failed: {error.ename}: {words}"
    return ""


# -- a notebook in its process ---------------------------------------------------------------------


def _executed(job: dict[str, Any]) -> str:
    """Execute a notebook and write it whole; return what went wrong, empty if nothing did."""
    if job["folder"]:
        os.chdir(job["folder"])
        sys.path.insert(0, job["folder"])
    np.random.seed(0)  # noqa: NPY002  # of seaborn's jitter: the same data give the same pages
    load: Any = load_notebook_node  # without types
    parameterize: Any = parameterize_notebook
    book = load(job["notebook"])
    if job["parameters"]:
        kernel = {"kernel_name": "python3", "language": "python"}
        book = parameterize(book, job["parameters"], **kernel)
    error = _run(book)
    text: str = writes(book)  # type: ignore[no-untyped-call]
    write(Path(job["executed"]), text.encode(), durable=False)
    return error


def _work(job: dict[str, Any], answer: Connection) -> None:
    """Execute a notebook in this copy of the process, and say how that ended."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        answer.send(_executed(job))
    except OSError as failed:  # of a full disk
        answer.send(" ".join(str(failed).split()))


def _prepare() -> None:
    """Import what notebooks do, and draw and write figures as a report does."""
    import pandas.io.formats.style as styled_tables
    import scipy.stats
    import seaborn as sns

    from .. import analysis, plots

    _ = scipy.stats, styled_tables, sns, analysis, plots
    new_notebook()  # type: ignore[no-untyped-call]  # compiles the schema that all are held to
    mpl.rcParams.update(STYLE)
    pd.options.display.max_colwidth = None
    pd.options.display.float_format = _shown_as_people_read


def serve() -> None:
    """Execute the jobs of standard input; write the key and the error of each as it ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no reply
    _prepare()
    # copies that look for garbage among all that was imported would also copy its memory
    gc.freeze()
    waiting = json.loads(sys.stdin.readline() or "[]")
    context = get_context("fork")
    running: dict[Any, Any] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            job = waiting.pop(0)
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(job, writer))
            process.start()
            writer.close()  # so that the pipe ends with the process
            running[reader] = job["key"], process
        inputs: list[Any] = [sys.stdin, *running]
        ready: list[Any] = wait(inputs)
        for source in ready:
            if source is sys.stdin:  # the report has ended
                os.killpg(0, signal.SIGKILL)
            key, process = running.pop(source)
            try:
                error = source.recv()
            except EOFError:
                process.join()
                error = f"its process died (exit code {process.exitcode})"
            print(json.dumps([key, error]), file=replies, flush=True)
