"""Kernels of Jupyter that tests start."""

import contextlib
import tempfile


@contextlib.contextmanager
def own_sockets():
    """Give the options of a kernel manager whose kernel listens in a folder of its own.

    Jupyter looks for free ports of TCP and lets them go: another program may have taken one before
    the kernel binds it.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
