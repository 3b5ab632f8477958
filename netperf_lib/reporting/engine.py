"""Notebooks with papermill's parameters, each in a process of its own that starts at once.

One process imports what notebooks import, and every notebook runs in a copy of it (a fork): its
names are its own, and nothing is imported twice. Jobs are lines of JSON on standard input; how
each ended is a line on standard output. When the input ends, so do all of these processes.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode, writes
from nbformat.v4 import new_output
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from traitlets.config import Config

from ..data.files import write
from ..errors import NothingToReport
from ..plots.figure import STYLE

ENDS = (NothingToReport.__name__, SystemExit.__name__)
"""Errors that end a notebook without a failure: it says itself why, or how far it came."""
LINE = 3000
"""Characters of a message: a pipe takes so much in one piece."""


def _shown_as_people_read(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:.6g}"


class Shell(InteractiveShell):
    """What executes cells; the outputs of the current one are in `outputs`."""

    outputs: list[NotebookNode]
    number: int | None = None
    """That of the current cell."""

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: figures are shown inline."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        error = {"ename": etype.__name__, "evalue": str(evalue), "traceback": list(stb)}
        self.outputs.append(_output("error", **error))


class Publisher(DisplayPublisher):
    """Keeps what ``display`` shows."""

    def publish(self, data: Any, metadata: Any = None, **_: Any) -> None:  # type: ignore[override]
        """Keep a display."""
        shown = _output("display_data", data=data, metadata=metadata or {})
        Shell.instance().outputs.append(shown)


class Hook(DisplayHook):
    """Keeps the value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Write nothing: the value is kept instead."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Keep a value."""
        shell = Shell.instance()
        shown = {"data": format_dict, "metadata": md_dict or {}}
        result = _output("execute_result", execution_count=shell.number, **shown)
        shell.outputs.append(result)

    def finish_displayhook(self) -> None:
        """Write no line after it."""


class Printed(io.TextIOBase):
    """A stream of the cell, which keeps what is printed in its order."""

    def __init__(self, name: str) -> None:
        self.name = name

    def writable(self) -> bool:
        """Return that it takes text."""
        return True

    def write(self, text: str) -> int:
        """Keep a text; what follows on the same stream continues it."""
        outputs = Shell.instance().outputs
        if not (outputs and outputs[-1].get("name") == self.name):
            outputs.append(_output("stream", name=self.name, text=""))
        outputs[-1].text += text
        return len(text)


def _output(kind: str, **content: Any) -> NotebookNode:
    return new_output(kind, **content)  # type: ignore[no-untyped-call,no-any-return]


def _run(book: NotebookNode) -> str | None:
    """Execute cells until one fails; return what went wrong, None if nothing did."""
    shell = _new_shell()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for cell in code:  # what an earlier execution left
        cell.execution_count, cell.outputs = None, []
    for cell in code:
        if not cell.source.strip():
            continue
        shell.outputs = cell.outputs
        number = cell.execution_count = shell.number = shell.execution_count
        if shell.run_cell(cell.source, store_history=True).success:
            continue
        [error] = [one for one in cell.outputs if one.output_type == "error"]
        if error.ename in ENDS:
            return None
        return f"cell {number} failed: {error.ename}: {' '.join(error.evalue.split())}"
    return None


def _new_shell() -> Any:
    config: Any = Config()
    config.HistoryManager.enabled = False
    config.InlineBackend.figure_formats = {"svg"}
    Shell.displayhook_class.default_value = Hook
    Shell.display_pub_class.default_value = Publisher
    shell: Any = Shell.instance(config=config, colors="NoColor")
    shell.outputs = []
    shell.system = shell.system_piped
    sys.stdout, sys.stderr = Printed("stdout"), Printed("stderr")
    return shell


def _execute(job: dict[str, Any]) -> str | None:
    """Execute a notebook and write it whole; return what went wrong, None if nothing did."""
    notebook, executed = Path(job["notebook"]), Path(job["executed"])
    if job["folder"]:
        os.chdir(job["folder"])
        sys.path.insert(0, job["folder"])
    np.random.seed(0)  # noqa: NPY002  # of seaborn's jitter: the same data give the same pages
    load: Any = load_notebook_node  # without types
    parameterize: Any = parameterize_notebook
    book = load(str(notebook))
    if job["parameters"]:
        kernel = {"kernel_name": "python3", "language": "python"}
        book = parameterize(book, job["parameters"], **kernel)
    error = _run(book)
    write(executed, writes(book).encode(), durable=False)  # type: ignore[no-untyped-call]
    return error


def _child(job: dict[str, Any], replies: int) -> None:
    """Execute a notebook in this copy of the process, and end it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        try:
            error = _execute(job)
        except OSError as failed:  # of a full disk
            error = " ".join(str(failed).split())
        _reply(replies, job["key"], error)
        code = 0
    finally:
        os._exit(code)


def _reply(replies: int, key: str, error: str | None) -> None:
    words = json.dumps({"key": key, "error": error and error[:LINE]})
    os.write(replies, f"{words}\n".encode())


def _prepare() -> None:
    """Import what notebooks do, and draw and write figures as a report does."""
    import scipy.stats
    import seaborn as sns

    from .. import analysis, plots

    _ = scipy.stats, sns, analysis, plots
    mpl.rcParams.update(STYLE)
    pd.options.display.max_colwidth = None
    pd.options.display.float_format = _shown_as_people_read


def serve() -> None:
    """Execute jobs until there are no more to come."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no reply
    running: dict[int, str] = {}

    def ended(*_: Any) -> None:
        for pid in list(running):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found and (key := running.pop(pid)) and status:
                code = os.waitstatus_to_exitcode(status)
                _reply(replies, key, f"its process died (exit code {code})")

    _prepare()
    signal.signal(signal.SIGCHLD, ended)
    for line in sys.stdin:
        job = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            _child(job, replies)
        running[pid] = job["key"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    serve()
