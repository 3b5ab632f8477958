"""What the command line shows of a whole experiment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from netperf_lib.experiment.model import Experiment

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
