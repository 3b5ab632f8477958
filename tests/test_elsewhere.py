"""What macOS and Windows lack is not needed to read, to compare and to open the notebooks."""

import subprocess
import sys

import pytest

from netperf_lib.experiment.yaml import load_experiment

from .conftest import REPO

HIDDEN = """
import builtins, io, sys
# they ask for the system
import asyncssh, jupyter_client, multiprocessing.pool, pandas, urllib.request

sys.platform = "darwin"
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None

def without_proc(opened):
    def call(file, *args, **options):
        if str(file).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        return opened(file, *args, **options)
    return call

builtins.open = io.open = without_proc(io.open)
"""


@pytest.mark.slow
def test_every_module_is_imported_and_data_are_compared():
    code = (
        "import pkgutil, importlib, netperf_lib as npl\n"
        "for m in pkgutil.walk_packages(npl.__path__, 'netperf_lib.'):\n"
        "    if '.hosts.lab' not in m.name and not m.name.endswith('__main__'):\n"
        "        importlib.import_module(m.name)\n"
        "print(len(npl.compare(npl.read('data/recorded/lab-full'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code], cwd=REPO, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(
        load_experiment(REPO / "data/recorded/lab-full/experiment.yaml").contrasts
    )
