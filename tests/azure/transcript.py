"""What the command line shows when one scenario runs against the emulated cloud: python -m tests.azure.transcript"""

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

from . import conftest
from .conftest import experiment

REPOSITORY = Path(__file__).resolve().parents[2]


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
        declared = experiment(
            "client ppg ppg", "client far cross-region", name="two-places", budget=5, **world.options()
        )
        document = declared.model_dump(mode="json", exclude_defaults=True)
        document["rounds"] = 1
        (folder / "two-places.yaml").write_text(yaml.safe_dump(document), "utf-8")
        # polls at the pace of the emulator; everything else is as it is delivered
        driver = (
            "from netperf_lib.hosts import azure; azure.CLOCK = azure.Clock(poll_s=0.3)\n"
            "from netperf_lib.cli import main; main()"
        )
        world.cloud.step_s = 0.5
        for words in (
            "npl up --check two-places.yaml",
            "npl up two-places.yaml",
            "npl collect two-places.yaml",
            "npl ingest results/two-places",
            "npl down two-places.yaml",
            "npl down --all",
        ):
            print(f"$ {words}")
            path = f"{REPOSITORY}{os.pathsep}{os.environ['PYTHONPATH']}"
            done = subprocess.run(
                [sys.executable, "-c", driver, *words.split()[1:]],
                cwd=folder, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            print(re.sub(re.escape(str(folder)) + "/?", "", done.stdout), end="")
            if done.returncode:
                print(f"[exit code {done.returncode}]")
        print(f"# resource groups left in the emulated cloud: {len(world.cloud.groups)}")
    finally:
        making.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
