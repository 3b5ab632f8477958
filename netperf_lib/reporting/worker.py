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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import NothingToReport

PROGRAM = f"from {__name__} import serve; serve()"
ENGINE = "netperf"


def _python() -> str:
    return sys.executable


def _started() -> subprocess.Popen[str]:
    # a session of its own: Ctrl-C reaches the report alone, which then ends this
    words, pipe = [_python(), "-c", PROGRAM], subprocess.PIPE
    return subprocess.Popen(
        words, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", start_new_session=True
    )


def _answer(process: subprocess.Popen[str], request: Mapping[str, Any]) -> str:
    """The answer of a worker; empty if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    return ""


def _end(process: subprocess.Popen[str]) -> None:
    """Wait until a worker that was terminated has ended its kernel and itself."""
    try:
        process.communicate(timeout=10)
    except (subprocess.TimeoutExpired, OSError, ValueError):
        process.kill()
        process.wait()


@contextmanager
def workers(n: int) -> Iterator[Callable[..., Future[str | None]]]:
    """Run workers for as long as the block does, which begins while they start; yields what submits, see `execute`."""
    processes, free = [_started() for _ in range(n)], list(range(n))
    threads, stopping = ThreadPoolExecutor(n), threading.Event()

    def run(request: Mapping[str, Any]) -> str | None:
        number = free.pop()
        try:
            if answer := _answer(processes[number], request):
                problem: str | None = json.loads(answer)
                return problem
            processes[number].terminate()
            _end(processes[number])
            if not stopping.is_set():
                processes[number] = _started()
            return "the kernel died"
        finally:
            free.append(number)

    try:
        yield lambda **request: threads.submit(run, request)
    finally:  # notebooks that wait are not begun, those in work are ended
        stopping.set()
        threads.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        threads.shutdown()
        for process in processes:
            _end(process)


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

    with tempfile.TemporaryDirectory(
        prefix="netperf-report-", ignore_cleanup_errors=True
    ) as folder:
        try:
            papermill.execute_notebook(
                *paths,
                parameters=parameters,
                language="python",
                kernel_name="python3",
                cwd=Path(notebook).parent
                if own
                else None,  # a relative path in a parameter is the user's
                progress_bar=False,
                log_output=False,
                **(_kernel(folder) if own else {"engine_name": ENGINE}),
            )
        except PapermillExecutionError as error:
            if error.ename == NothingToReport.__name__:
                return None
            return (
                f"cell {error.exec_count} failed: {error.ename}: {' '.join(error.evalue.split())}"
            )
        except DeadKernelError:
            return "the kernel died"
        except (
            RuntimeError,
            OSError,
            KeyError,
        ) as error:  # it died, does not answer, or is not there
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
            self.failure = new.new_output(
                "error", ename=etype.__name__, evalue=str(evalue), traceback=stb
            )

    shell: Any = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))

    def run(source: str) -> list[Any]:
        shell.failure = None
        with capture_output() as captured:
            shell.display_trap.hook = hooks.CapturingDisplayHook(
                shell=shell, outputs=shell.display_pub.outputs
            )
            shell.run_cell(source, store_history=True)
        streams = (("stdout", captured.stdout), ("stderr", captured.stderr))
        outputs = [new.new_output("stream", name=name, text=text) for name, text in streams if text]
        for output in captured.outputs:
            data = {
                t: base64.b64encode(v).decode() if isinstance(v, bytes) else v
                for t, v in output.data.items()
            }
            if data:  # none where the value has shown itself
                outputs.append(new.new_output("display_data", data, metadata=output.metadata or {}))
        return [*outputs, *([shell.failure] if shell.failure else [])]

    class InThisProcess(papermill.Engine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
            shell.reset(new_session=True)
            nb_man.output_path, final = (
                None,
                nb_man.output_path,
            )  # written when it ends, not after every cell
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
    logging.getLogger("papermill").setLevel(
        logging.ERROR
    )  # it calls a parameter unknown whose type is a union
    gc.disable()
    import netperf_lib as npl

    _ = npl.plots, npl.load, npl.compare, npl.ask, npl.summary
    _register()
    gc.freeze()  # what stays until the end is not searched for garbage
    gc.enable()
    for line in requests:
        answer = json.dumps(execute(**json.loads(line)))
        try:
            answers.write(f"{answer}\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # who asked was killed, and nobody reads a traceback
