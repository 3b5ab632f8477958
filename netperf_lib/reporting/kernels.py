"""Kernels that notebooks of a report are executed in: started early, used again, and ended whatever they are doing."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from typing import Any

from ..errors import ReportError

_FOLDER = "netperf-report-"
QUIET = ["--IPKernelApp.log_level=50"]
"""Options that keep a kernel from reporting each time that it talks over loopback."""
_START_TIMEOUT = 120
"""Seconds that a kernel has to start."""
_RESET = """
import os as _os
get_ipython().reset(new_session=True)
_os.chdir({folder!r})
"""
"""What a warm kernel executes before a notebook, so that nothing of the previous one is left."""


class Kernel:
    """A kernel that loads the library while this process loads papermill, and executes one notebook after another.

    Or, if `beside` names a folder, one for a user's notebook there, with nothing loaded. Sockets are
    files in a folder where their paths are short enough: a port may be taken before it is used.
    """

    def __init__(self, folder: Path, name: str, beside: Path | None = None) -> None:
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import KernelManager

        self.name = name
        self.folder = folder
        self.own: Kernel | None = None
        self._client: Any = None
        self._stopped = False
        short = len(str(folder)) < 80
        self._manager: Any = KernelManager(
            client_class="jupyter_client.asynchronous.AsyncKernelClient",
            # this interpreter, whatever a user has registered as python3, except for notebooks of theirs
            kernel_spec_manager=KernelSpecManager(**({} if beside else {"kernel_dirs": []})),
            connection_file=str(folder / f"{name}.json"),  # with the key to the kernel
            **({"transport": "ipc", "ip": str(folder / name)} if short else {}),
        )
        preload = "import netperf_lib as npl; npl.plots; npl.load; npl.compare; npl.ask, npl.summary"
        # what stays until the end is not searched for garbage before each notebook
        lines = f"import gc; gc.disable(); {preload}; gc.freeze(); gc.enable()"
        loaded = [] if beside else ["--HistoryManager.enabled=False", f"--IPKernelApp.exec_lines={lines}"]
        where = {"cwd": str(beside)} if beside else {}
        with _starting():
            self._manager.start_kernel(extra_arguments=[*QUIET, *loaded], **where)

    def client(self) -> Any:
        """Return what talks to the kernel, connected once for all notebooks."""
        from jupyter_core.utils import run_sync

        if self._client is None:
            self._client = self._manager.client()
            self._client.allow_stdin = False
            self._client.start_channels()
            with _starting():
                run_sync(_ready)(self._client)
        return self._client

    def executor(self, notebook: Any) -> Any:
        """Return papermill's executor of a notebook in this kernel."""
        made: Any = importlib.import_module("papermill.clientwrap").PapermillNotebookClient
        executor = made(notebook, km=self._manager)
        executor.kc = self.client()
        return executor

    def reset(self, folder: Path) -> None:
        """Forget what was executed in it, and work in a folder."""
        from jupyter_core.utils import ensure_async, run_sync

        client, code = self.client(), _RESET.format(folder=str(folder))

        async def wait() -> None:
            await ensure_async(client.execute(code, silent=True, reply=True, timeout=_START_TIMEOUT))

        with _starting():
            run_sync(wait)()

    def restart(self) -> None:
        """Start it again after it died, unless it was stopped."""
        self.disconnect()
        if not self._stopped:
            self._manager.restart_kernel(now=True)

    def stop(self) -> None:
        """End it, whatever it is doing."""
        self._stopped = True
        for kernel in (self, self.own):
            if kernel is not None:
                # all output has arrived by then, and a kernel that is asked to end politely may stumble over its own
                # closed sockets, and say so on the terminal
                kernel._manager.shutdown_kernel(now=True)

    @contextmanager
    def beside(self, notebook: Path) -> Iterator[Kernel]:
        """Another kernel for a user's notebook, which may leave anything behind."""
        self.own = Kernel(self.folder, f"{self.name}-own", notebook.parent)
        if self._stopped:  # meanwhile
            self.own.stop()
        try:
            yield self.own
        finally:
            own, self.own = self.own, None
            own.stop()
            own.disconnect()

    def disconnect(self) -> None:
        """Leave nothing open that talks to it."""
        if self._client is not None:
            self._client.stop_channels()
            self._client = None


async def _ready(client: Any) -> None:
    """Wait until a kernel answers and its output is received.

    The client's own `wait_for_ready` waits until the kernel has been silent for a fifth of a second. That is not
    needed: executing a cell skips messages left over from earlier ones.
    """
    until = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < until:
        client.kernel_info()
        with suppress(Empty):
            await client.get_shell_msg(timeout=1)
            await client.get_iopub_msg(timeout=0.2)
            return
        if not await client.is_alive():
            raise RuntimeError("it died before it answered")
    raise RuntimeError(f"no answer within {_START_TIMEOUT} s")


@contextmanager
def _starting() -> Iterator[None]:
    """Report why a kernel did not start: it died, does not answer, is not registered, or its program is missing."""
    try:
        yield
    except (RuntimeError, OSError, KeyError) as error:
        raise ReportError(f"the kernel did not start: {' '.join(str(error).split())}") from error


class Kernels:
    """Kernels, and a thread for each: work is done in the first that is free."""

    def __init__(self, folder: Path, n: int) -> None:
        self._kernels = [Kernel(folder, f"kernel{i}") for i in range(n)]
        free = list(self._kernels)
        self._mine = threading.local()
        self._threads = ThreadPoolExecutor(n, initializer=lambda: setattr(self._mine, "kernel", free.pop()))

    def submit(self, work: Callable[[Kernel], None]) -> Future[None]:
        """Start work in a kernel, or queue it."""
        return self._threads.submit(lambda: work(self._mine.kernel))

    def stop(self) -> None:
        """End them; pages that wait are not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for kernel in self._kernels:
            kernel.stop()
        self._threads.shutdown()
        for kernel in self._kernels:
            kernel.disconnect()


@contextmanager
def warm_kernels(n: int) -> Iterator[Kernels]:
    """Kernels for as long as the block runs; the block begins while they start."""
    with _own_folder() as folder:
        kernels = Kernels(folder, n)
        try:
            yield kernels
        finally:
            kernels.stop()


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder for as long as the block runs; folders left by killed reports are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        from ..data.files import is_alive  # only here: kernels are started before the library is loaded

        pid = left.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def engine(kernel: Kernel) -> Any:
    """Engine of papermill that executes in a kernel which is running already."""
    papermill: Any = importlib.import_module("papermill.engines")

    class Running(papermill.NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kw: Any) -> None:
            executor = kernel.executor(nb_man)
            # written when it ends, however it ends, and not before and after every cell
            final, nb_man.output_path = nb_man.output_path, None
            try:
                executor.execute()
            finally:
                nb_man.output_path = final

    return Running
