"""Notebooks executed by papermill, in kernels that start while the rest is loaded."""

from __future__ import annotations

import importlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Self

from ipykernel import kernelspec as ipykernel
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from traitlets import Type

from ..data.files import scratch
from ..errors import NothingToReport, explain

TEMPLATES = Path(__file__).parent / "templates"
AT_ONCE = 2
"""Notebooks that are executed at the same time."""
KERNEL_OPTIONS = ["--IPKernelApp.log_level=50", "--InlineBackend.figure_formats=svg"]
LOADED = ("netperf_lib.analysis", "netperf_lib.plots", "scipy.stats", "seaborn")
"""What the notebooks of the library import, loaded by a kernel before it is asked to."""


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


class OwnKernel(KernelManager):
    """The interpreter that runs this, whatever kernels a user has registered."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """How it is started."""
        lines = [f"--IPKernelApp.exec_lines=__import__({name!r})" for name in LOADED]
        argv = [*ipykernel.make_ipkernel_cmd(), *lines]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


class Kernels:
    """The kernels of a report, which end with it.

    A notebook of the user's own has one to itself. Those of the library follow each other in one
    for each thread: to load what they import takes longer than to execute them.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._thread = threading.local()
        self._started: list[KernelManager] = []
        self._numbers = count()
        self._until_end = ExitStack()

    def __enter__(self) -> Self:
        # files in it are the sockets, as a port may be taken before it is used
        self._folder = self._until_end.enter_context(scratch())
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for manager in self._started:
            _end(manager)
        self._until_end.close()

    def submit(self, function: Any, *arguments: Any) -> Any:
        """Call a function in a thread that can execute notebooks."""
        return self._pool.submit(function, *arguments)

    def prepare(self) -> None:
        """Start the kernel of this thread."""
        self._thread.manager = self._start(OwnKernel)

    def _start(self, kind: type[KernelManager], folder: Path | None = None) -> KernelManager:
        file = Path(self._folder, f"{next(self._numbers)}.json")
        files = os.name == "posix" and len(str(file)) < 80
        manager = kind(
            kernel_name="python3",
            connection_file=str(file),
            transport="ipc" if files else "tcp",
            client_class=f"{__name__}.{Client.__name__}",
        )
        self._started.append(manager)
        looks = {"MATPLOTLIBRC": str(TEMPLATES / "matplotlibrc")}
        manager.start_kernel(
            extra_arguments=KERNEL_OPTIONS,
            cwd=None if folder is None else str(folder),
            env={**os.environ, **looks},
        )
        return manager

    def _empty(self) -> KernelManager:
        """The kernel of this thread, without what the notebook before has left."""
        manager = getattr(self._thread, "manager", None)
        if manager is None or not manager.is_alive():
            self.prepare()
            return self._thread.manager  # type: ignore[no-any-return]
        client = manager.blocking_client()
        client.start_channels()
        client.execute("%reset -f", reply=True, timeout=60)
        client.stop_channels()
        return manager  # type: ignore[no-any-return]

    def execute(
        self, notebook: Path, executed: Path, parameters: dict[str, Any], *, ours: bool
    ) -> str | None:
        """Execute a notebook and write it; return what went wrong, None if nothing did."""
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        papermill: Any = importlib.import_module("papermill.execute")  # without types
        # it takes braces for places of parameters
        paths = (str(path).replace("{", "{{").replace("}", "}}") for path in (notebook, executed))
        kernel: Any = None
        try:
            kernel = self._empty() if ours else self._start(KernelManager, notebook.parent)
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
        except DeadKernelError:
            return "the kernel died"
        except OSError as error:
            return f"the kernel did not start, or a file cannot be written: {explain(error)}"
        except (RuntimeError, KeyError) as error:
            return f"the kernel did not start: {' '.join(str(error).split())}"
        finally:
            if not ours:
                _end(kernel)
        return None


def _end(manager: KernelManager | None) -> None:
    process = getattr(getattr(manager, "provisioner", None), "process", None)
    if process is not None:
        process.kill()
        process.wait()
