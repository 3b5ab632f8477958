"""What several test files share."""

import contextlib
import gc
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import execnet
import hypothesis
import pytest
from ipykernel import kernelspec

from netperf_lib.errors import LabError
from netperf_lib.hosts import lab
from netperf_lib.reporting import execute

from .groups import LONGEST, pytest_xdist_make_scheduler
from .warm import client, warm

__all__ = ["pytest_xdist_make_scheduler"]

# looking for garbage takes time, and hypothesis is called back by it: a signal that a test sends to
# itself would be lost there
gc.disable()

# The same examples each time: nobody's tests fail by luck. `make fuzz` looks for new ones.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=12
)
hypothesis.settings.load_profile("repeatable")

REPO = Path(__file__).resolve().parent.parent

# What a script starts in the background ignores Ctrl-C, and so would the programs that the tests
# interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where pytest runs several tests at once, `__main__` was not imported, which processes that start
# others expect.
if not hasattr(sys.modules["__main__"], "__spec__"):
    sys.modules["__main__"].__spec__ = None


IMPORTED = """
import ipykernel.kernelapp, ipykernel.kernelspec, matplotlib.pyplot
import matplotlib_inline.backend_inline
import nbclient, pandas, papermill, pyarrow.dataset, pyarrow.parquet, seaborn
import netperf_lib.hosts.azure, netperf_lib.measure.collector
import netperf_lib.reporting.execute
import netperf_lib as npl
npl.ask, npl.compare, npl.load, npl.plots, npl.report, npl.summary
# as in a kernel, which was not there when pandas was imported
pandas.options.display.max_columns = 20
ipykernel.kernelspec.make_ipkernel_cmd.__defaults__ = ("ipykernel_launcher", {python!r}, None, None)
netperf_lib.reporting.execute.ENGINE[0] = {python!r}
"""
"""What programs of the tests find imported, see `warm`: not the command line, which asks for its
terminal then."""


def pytest_collection_modifyitems(config, items):
    """Of several workers each collects in the same order, the longest first."""
    if hasattr(config, "workerinput"):
        rank = {f"tests/{name}": number for number, name in enumerate(LONGEST.split())}
        items.sort(
            key=lambda item: rank.get(item.path.relative_to(REPO).as_posix(), len(rank))
        )


@pytest.fixture(scope="session")
def lab_runs():
    """Skip where no lab can run."""
    try:
        lab.check()
    except LabError as error:
        pytest.skip(f"no lab here: {error}")


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright; skip where it is not installed."""
    names = "chromium", "chromium-browser", "google-chrome"
    place = next(filter(None, map(shutil.which, names)), None)
    if place is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(executable_path=place, args=options)
        yield started
        started.close()


@contextlib.contextmanager
def _warm_python():
    real = Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="netperf-warm-") as folder:
        program = Path(folder, "python")
        client(
            program.with_name("npl"),
            program.with_suffix(".socket"),
            real.with_name("npl"),
            ("-m", "netperf_lib"),
        )
        with warm(program, real, IMPORTED.format(python=str(program))):
            yield str(program)


PYTHON = pytest.StashKey[str]()


def pytest_xdist_setupnodes(config, specs):
    """Several workers share the Python that starts warm, and start so themselves."""
    stack = contextlib.ExitStack()
    config.add_cleanup(stack.close)
    program = stack.enter_context(_warm_python())
    config.stash[PYTHON] = program
    python = shlex.quote(program)
    specs[:] = [execnet.XSpec(f"{spec}//id={spec.id}//python={python}") for spec in specs]


def pytest_configure_node(node):
    """Each worker knows where that Python is."""
    node.workerinput["python"] = node.config.stash[PYTHON]


@pytest.fixture(scope="session")
def python(request):
    """A Python that starts warm, for programs of which not the start is tested; beside it stands
    such an `npl`."""
    if hasattr(request.config, "workerinput"):
        yield request.config.workerinput["python"]
    else:
        with _warm_python() as program:
            yield program


@pytest.fixture(scope="session", autouse=True)
def _kernels(python):
    """Kernels, and what executes the notebooks of a report, start warm, too, as in the programs
    of `python`."""
    command = kernelspec.make_ipkernel_cmd
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "ENGINE", [python, *execute.ENGINE[1:]])
        patch.setattr(
            kernelspec,
            "make_ipkernel_cmd",
            lambda **options: command(executable=python, **options),
        )
        yield
