"""Files that come with the library, and the search for the experiment that a notebook names."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from ..errors import UsageError
from .files import is_there

PathLike = str | os.PathLike[str]
PACKAGE_FOLDER = Path(__file__).resolve().parent.parent
DEFAULT = Path("results", "lab")
"""Default experiment of the notebooks: the one that `make report` measures."""


def shipped(*parts: str) -> Path:
    """Return the path of a file or folder that comes with the library: ``"notebooks", "workshop"``.

    A checkout has it next to the package; a wheel contains a copy.
    """
    in_checkout = PACKAGE_FOLDER.parent.joinpath(*parts)
    return (
        in_checkout
        if in_checkout.exists()
        else PACKAGE_FOLDER.joinpath(f"_{parts[0]}", *parts[1:])
    )


def recorded() -> Path:
    """Return the folder of the recorded experiment that comes with the package.

    Measured in the lab.

    Examples
    --------
    >>> npl.recorded().name
    'lab-full'
    """
    return shipped("data", "recorded", "lab-full")


def located(path: str | os.PathLike[str]) -> tuple[str | os.PathLike[str], str | None]:
    """Find the folder of an experiment that is named by a relative path.

    Also return what a reader must know about it.

    A notebook's working directory is its own folder, or that of the program that executes it, and
    rarely the folder that contains ``results``. So a relative path is looked up in the working
    directory and in every folder above it. If a notebook names `DEFAULT` and nothing has been
    measured yet, the recorded experiment takes its place.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the path of a folder; got {type(path).__name__}")
    text = os.fspath(path)
    if Path(text).is_absolute():
        return path, None
    working = Path.cwd()
    for folder in (working, *working.parents):
        if is_there(folder / text / "experiment.yaml"):
            return (path if folder == working else folder / text), None
    if (
        Path(text).parts[:2] == ("data", "recorded")
        and (packaged := shipped(*Path(text).parts)).exists()
    ):
        return packaged, None  # a notebook of a wheel, which has no checkout around it
    kernel = sys.modules.get("ipykernel.kernelapp")
    if (
        Path(text) != DEFAULT or kernel is None or not kernel.IPKernelApp.initialized()
    ):  # not in a notebook
        return path, None
    if (PACKAGE_FOLDER.parent / DEFAULT / "experiment.yaml").is_file():
        return PACKAGE_FOLDER.parent / DEFAULT, None
    notice = (
        f"There is no {DEFAULT} yet, so this page shows the recorded experiment that comes with "
        "netperf_lib. "
        "“make report” measures one here; the notebook's parameter “experiment” names another "
        "folder."
    )
    _print_once(
        notice
    )  # a page that a person opens has no cover, on which a report says it
    return recorded(), notice


@cache
def _print_once(notice: str) -> None:
    print(notice)


def report_folder(location: str, name: str) -> Path:
    """Return where reports and exported tables go: to the folder ``reports`` next to the data.

    Where those are elsewhere, of the installation, or cannot be written: to one in the working
    directory.
    """
    from .files import own_path

    data = Path(location)
    ours = data.resolve().is_relative_to(PACKAGE_FOLDER)
    if not ours and os.access(data, os.W_OK):
        reports = own_path(data, "reports")
        reports.mkdir(exist_ok=True)
        return reports
    here = Path("reports", name).resolve()
    here.mkdir(parents=True, exist_ok=True)
    return here
