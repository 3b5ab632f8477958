"""Processes that execute the notebooks of a report: started early, used again, and ended whatever they are doing.

IPython executes the library's notebooks in such a process, which loads the library once: a kernel for each notebook
would start for longer than it computes. A user's notebook gets a kernel of the kind that it names.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import NothingToReport

PROGRAM = f"from {__name__} import serve; serve()"
ENGINE = "netperf"


def _python() -> str:
    return sys.executable


class Worker:
    """A process that executes one notebook after another."""

    def __init__(self) -> None:
        self._stopped = False
        self._start()

    def _start(self) -> None:
        # a session of its own: Ctrl-C reaches the report alone, which then ends this
        self._process = subprocess.Popen(
            [_python(), "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def execute(self, **request: Any) -> str | None:
        """Execute a notebook, see `execute`; return what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(OSError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if answer:
            problem: str | None = json.loads(answer)
            return problem
        self._end()
        if not self._stopped:
            self._start()
        return "the kernel died"

    def stop(self) -> None:
        """End it, and the kernel of a user's notebook, whatever they are doing."""
        self._stopped = True
        self._process.terminate()

    def _end(self) -> None:
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]


class Workers:
    """Workers, and a thread for each: work is done in the first that is free."""

    def __init__(self, n: int) -> None:
        self._workers = [Worker() for _ in range(n)]
        free = list(self._workers)
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(n, initializer=lambda: setattr(self._mine, "worker", free.pop()))

    def submit(self, **request: Any) -> Future[str | None]:
        """Start to execute a notebook, or queue it; see `execute`."""
        return self._threads.submit(lambda: self._mine.worker.execute(**request))

    def stop(self) -> None:
        """End them; notebooks that wait are not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown()
        for worker in self._workers:
            worker._end()


@contextmanager
def workers(n: int) -> Iterator[Workers]:
    """Workers for as long as the block runs; the block begins while they start."""
    started = Workers(n)
    try:
        yield started
    finally:
        started.stop()


# -- in the process --------------------------------------------------------------------------------------------------


def execute(notebook: str, executed: str, parameters: dict[str, Any], own: bool) -> str | None:
    """Execute a notebook with papermill, and write it; return what went wrong, None if nothing did.

    A notebook of the user's own gets a kernel; a notebook of the library leaves nothing behind.
    """
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    papermill: Any = importlib.import_module("papermill.execute")  # without types
    # it takes braces for places of parameters
    paths = (path.replace("{", "{{").replace("}", "}}") for path in (notebook, executed))

    with tempfile.TemporaryDirectory(prefix="netperf-report-", ignore_cleanup_errors=True) as folder:
        try:
            papermill.execute_notebook(
                *paths,
                parameters=parameters,
                language="python",
                kernel_name="python3",
                cwd=Path(notebook).parent,
                progress_bar=False,
                log_output=False,
                **(_kernel(folder) if own else {"engine_name": ENGINE}),
            )
        except PapermillExecutionError as error:
            if error.ename == NothingToReport.__name__:
                return None
            return f"cell {error.exec_count} failed: {error.ename}: {' '.join(error.evalue.split())}"
        except DeadKernelError:
            return "the kernel died"
        except (RuntimeError, OSError, KeyError) as error:  # it died, does not answer, or is not there
            return f"the kernel did not start: {' '.join(str(error).split())}"
    return None


def _kernel(folder: str) -> dict[str, Any]:
    """Options of a user's kernel: its sockets are files where they can be, as a port may be taken before it is used.

    It ends with this process.
    """
    from traitlets.config import Config

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    files = os.name == "posix" and len(folder) < 80
    options = {"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}} if files else {}
    return {
        "config": Config(options),
        "shutdown_kernel": "immediate",
        "extra_arguments": ["--IPKernelApp.log_level=50"],
    }


def _register() -> None:
    """Give papermill an engine that executes a notebook in this process, without a kernel."""
    import base64

    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from nbformat import v4
    from traitlets.config import Config

    new: Any = v4
    hooks: Any = importlib.import_module("IPython.core.displayhook")
    papermill: Any = importlib.import_module("papermill.engines")

    class Shell(InteractiveShell):
        def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
            self.failure = new.new_output("error", ename=etype.__name__, evalue=str(evalue), traceback=stb)

    shell: Any = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))

    def run(source: str) -> list[Any]:
        shell.failure = None
        with capture_output() as captured:
            shell.display_trap.hook = hooks.CapturingDisplayHook(shell=shell, outputs=shell.display_pub.outputs)
            shell.run_cell(source, store_history=True)
        streams = (("stdout", captured.stdout), ("stderr", captured.stderr))
        outputs = [new.new_output("stream", name=name, text=text) for name, text in streams if text]
        for shown in captured.outputs:
            data = {t: base64.b64encode(v).decode() if isinstance(v, bytes) else v for t, v in shown.data.items()}
            outputs.append(new.new_output("display_data", data, metadata=shown.metadata or {}))
        return [*outputs, *([shell.failure] if shell.failure else [])]

    class InThisProcess(papermill.Engine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
            shell.reset(new_session=True)
            nb_man.output_path, final = None, nb_man.output_path  # written when it ends, not after every cell
            try:
                for index, cell in enumerate(nb_man.nb.cells):
                    if cell.cell_type != "code" or not cell.source.strip():
                        continue
                    nb_man.cell_start(cell, index)
                    cell.outputs, cell.execution_count = run(cell.source), shell.execution_count - 1
                    if shell.failure:
                        nb_man.cell_exception(cell, index)
                        break
                    nb_man.cell_complete(cell, index)
            finally:
                nb_man.output_path = final

    papermill.papermill_engines.register(ENGINE, InThisProcess)


def serve() -> None:
    """Execute the notebook of each line of the standard input, and answer with a line."""
    import gc
    import logging

    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a notebook's programs print is no answer
    logging.getLogger("papermill").setLevel(logging.ERROR)  # it calls a parameter unknown whose type is a union
    gc.disable()
    import netperf_lib as npl

    _ = npl.plots, npl.load, npl.compare, npl.ask, npl.summary
    _register()
    gc.freeze()  # what stays until the end is not searched for garbage
    gc.enable()
    for line in requests:
        answers.write(json.dumps(execute(**json.loads(line))) + "\n")
        answers.flush()
