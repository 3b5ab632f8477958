"""Notebooks executed by papermill, each in a kernel of its own."""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ipykernel import kernelspec as ipykernel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from traitlets.config import Config

from ..errors import NothingToReport, explain

STYLE_FILE = Path(__file__).parent / "templates" / "matplotlibrc"
"""The looks of figures that a notebook draws: the same each time."""
STARTED_KERNELS: set[Kernel] = set()


class Kernel(AsyncKernelManager):
    """A kernel that `end_kernels` can end."""

    async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
        """Start it with the looks of a report."""
        STARTED_KERNELS.add(self)
        environment = {**os.environ, "MATPLOTLIBRC": str(STYLE_FILE)}
        await super().start_kernel(**{"env": environment, **options})


class OwnKernel(Kernel):
    """The interpreter that runs this, whatever kernels a user has registered."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """How it is started."""
        argv = ipykernel.make_ipkernel_cmd()
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def end_kernels() -> None:
    """End every kernel at once."""
    for kernel in list(STARTED_KERNELS):
        process = getattr(kernel.provisioner, "process", None)
        if process is not None and process.poll() is None:
            process.kill()


def execute(
    notebook: Path, executed: Path, parameters: dict[str, Any], *, ours: bool
) -> str | None:
    """Execute a notebook and write it; return what went wrong, None if nothing did.

    A notebook of the user's own gets the kernel that it names, in its own folder.
    """
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    papermill: Any = importlib.import_module("papermill.execute")  # without types
    # it takes braces for places of parameters
    paths = (str(path).replace("{", "{{").replace("}", "}}") for path in (notebook, executed))
    with tempfile.TemporaryDirectory(prefix="netperf-", ignore_cleanup_errors=True) as folder:
        # sockets are files where they can be, as a port may be taken before it is used
        files = os.name == "posix" and len(folder) < 80
        sockets = {"transport": "ipc", "ip": f"{folder}/kernel"} if files else {}
        try:
            papermill.execute_notebook(
                *paths,
                parameters=parameters,
                language="python",
                kernel_name="python3",
                cwd=None if ours else notebook.parent,
                progress_bar=False,
                log_output=False,
                kernel_manager_class=OwnKernel if ours else Kernel,
                config=Config({"KernelManager": sockets}),
                shutdown_kernel="immediate",
                extra_arguments=[
                    "--IPKernelApp.log_level=50",
                    "--InlineBackend.figure_formats=svg",
                ],
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
    return None
