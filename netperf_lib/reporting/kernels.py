"""Notebooks executed by papermill, in kernels that start while the rest is loaded."""

from __future__ import annotations

import importlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from ipykernel import kernelspec as ipykernel
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from traitlets import Type

from ..data.files import scratch
from ..data.shipped import shipped
from ..errors import NothingToReport

AT_ONCE = 2
"""Notebooks that are executed at the same time."""
BEFORE = """
import matplotlib, netperf_lib.analysis, netperf_lib.plots, pandas, scipy.stats, seaborn
matplotlib.rcParams.update(netperf_lib.plots.figure.STYLE)
pandas.options.display.max_colwidth = None
pandas.options.display.float_format = lambda v: f"{v:,.0f}" if abs(v) >= 1e6 else f"{v:.6g}"
"""
"""What a kernel does before it is asked to: it imports what the notebooks of the library do, draws
like the library, and writes names whole and throughput without powers of ten."""
KERNEL_OPTIONS = (
    "--IPKernelApp.log_level=50",
    "--InlineBackend.figure_formats=svg",
    *(f"--IPKernelApp.exec_lines={line}" for line in BEFORE.strip().splitlines()),
)


class ShellChannel(AsyncZMQSocketChannel):
    """A channel that does not miss a reply which arrives while it sends.

    Outputs of a widget are sent back to the kernel. To send takes the signal that a reply has
    come, and without one asyncio never looks (https://github.com/jupyter/nbclient/issues/312).
    """

    async def get_msg(  # type: ignore[override]
        self, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return the next message; look for it ten times a second, signal or not."""
        while timeout is None and not await self.socket.poll(100):
            pass
        return await super().get_msg(timeout)


class Client(AsyncKernelClient):
    """What papermill executes the cells of a notebook with."""

    shell_channel_class = Type(ShellChannel)


class Kernel(KernelManager):
    """The interpreter that runs this, whatever kernels a user has registered."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """How it is started."""
        argv = [*ipykernel.make_ipkernel_cmd(), *KERNEL_OPTIONS]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


class Kernels:
    """The kernels of a report, which end with it.

    A notebook of the user's own has one to itself, in its folder. Those of the library follow each
    other in one for each thread: to load what they import takes longer than to execute them.
    """

    library = shipped("notebooks")

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._thread = threading.local()
        self._until_end = ExitStack()
        self._started: list[Kernel] = []

    def __enter__(self) -> Self:
        # files in it are the sockets, as a port may be taken before it is used
        self._folder = self._until_end.enter_context(scratch())
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for kernel in self._started:
            _end(kernel)
        self._until_end.close()

    def prepare(self) -> None:
        """Start a kernel now, in a thread that executes notebooks."""
        self._pool.submit(self._own)

    def submit(
        self, notebook: Path, executed: Path, parameters: dict[str, Any]
    ) -> Future[str | None]:
        """Execute a notebook and write it; the result is what went wrong, None if nothing did."""
        executed.unlink(missing_ok=True)
        return self._pool.submit(self._execute, notebook, executed, parameters)

    def _start(self, folder: Path | None = None) -> Kernel:
        file = Path(self._folder, f"{threading.get_ident()}-{len(self._started)}.json")
        kernel = Kernel(
            kernel_name="python3",
            connection_file=str(file),
            transport="ipc",
            client_class=f"{__name__}.{Client.__name__}",
        )
        self._started.append(kernel)
        # without a time of its own, a picture is the same each time
        env = {"SOURCE_DATE_EPOCH": "0", **os.environ}
        kernel.start_kernel(cwd=None if folder is None else str(folder), env=env)
        return kernel

    def _own(self) -> Kernel:
        """The kernel of this thread, without what the notebook before has left."""
        if not hasattr(self._thread, "kernel"):
            self._thread.kernel = self._start()
            return self._thread.kernel  # type: ignore[no-any-return]
        client = self._thread.kernel.blocking_client()
        client.start_channels()
        client.execute("%reset -f", reply=True, timeout=60)
        client.stop_channels()
        return self._thread.kernel  # type: ignore[no-any-return]

    def _execute(
        self, notebook: Path, executed: Path, parameters: dict[str, Any]
    ) -> str | None:
        from papermill.exceptions import PapermillExecutionError

        papermill: Any = importlib.import_module("papermill.execute")  # without types
        ours = notebook.parent == self.library
        kernel = self._own() if ours else self._start(notebook.parent)
        # it takes braces for places of parameters
        paths = (
            str(path).replace("{", "{{").replace("}", "}}")
            for path in (notebook, executed)
        )
        try:
            papermill.execute_notebook(
                *paths,
                parameters=parameters,
                language="python",
                kernel_name="python3",
                progress_bar=False,
                log_output=False,
                km=kernel,
            )
        except PapermillExecutionError as error:
            if error.ename == NothingToReport.__name__:
                return None
            why = " ".join(error.evalue.split())
            return f"cell {error.exec_count} failed: {error.ename}: {why}"
        except (
            OSError,
            RuntimeError,
        ) as error:  # of a full disk, or of a kernel that died
            return " ".join(str(error).split())
        finally:
            if not ours:
                _end(kernel)
        return None


def _end(kernel: Kernel) -> None:
    process = getattr(kernel.provisioner, "process", None)
    if process is not None:
        process.kill()
        process.wait()
