"""What the command line shows of a whole experiment, emulated: python -m tests.hosts.azure.transcript."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from netperf_lib.experiment.model import Experiment

from . import conftest
from .conftest import experiment
from .record import clean

REPOSITORY = Path(__file__).resolve().parents[3]
LADDER = (
    "npl doctor --azure {0}.yaml",
    "npl up {0}.yaml",
    "npl up {0}.yaml",
    "npl collect {0}.yaml",
    "npl ingest results/{0}",
    "npl verify results/{0}",
    "npl down {0}.yaml",
    "npl down --all --expired --yes",
)


def whole_way(declared: Experiment, folder: Path, before: str = "") -> tuple[str, list[int]]:
    """Run every step in `folder`; return what was printed, fit to be sent to others, and the exit codes.

    The steps that remove are taken whatever came before. `before` is Python that runs before each step.
    """
    document = declared.model_dump(mode="json", exclude_defaults=True)
    (folder / f"{declared.name}.yaml").write_text(yaml.safe_dump(document), "utf-8")
    shown, codes = "", [0]
    for step in LADDER:
        words = step.format(declared.name)
        if any(codes) and " down " not in words:
            continue
        path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, "-c", f"{before}\nfrom netperf_lib.cli import main; main()", *words.split()[1:]],
            cwd=folder, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        codes.append(done.returncode)
        said = re.sub(re.escape(str(folder)) + "/?", "", done.stdout)
        part = f"$ {words}\n{clean(said)}" + (
            f"[exit code {done.returncode}]\n" if done.returncode else ""
        )
        print(part, end="", flush=True)
        shown += part
    return shown, codes[1:]


class _Folders:
    """What `tmp_path_factory` does, without pytest."""

    def mktemp(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=name))


def main() -> None:
    """Print the transcript."""
    making = conftest._world.__wrapped__(_Folders())  # type: ignore[attr-defined]
    try:
        world = next(making)
    except pytest.skip.Exception as why:
        sys.exit(f"cannot run here: {why}")
    folder = Path(tempfile.mkdtemp(prefix="transcript"))
    try:
        options = world.options(prices=conftest.PRICES | {"transfer cross-region": 0.07})
        declared = experiment(
            "client ppg ppg", "client far cross-region", name="two-places", budget=5, **options
        )
        # polls at the pace of the emulator; everything else is as it is delivered
        pace = "from netperf_lib.hosts import azure; azure.CLOCK = azure.Clock(poll_s=0.3)"
        world.cloud.step_s = 0.5
        whole_way(declared.model_copy(update={"rounds": 1}), folder, pace)
        print(f"# resource groups left in the emulated cloud: {len(world.cloud.groups)}")
    finally:
        making.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
