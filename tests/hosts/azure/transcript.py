"""What the command line shows of a whole experiment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from .record import clean

REPOSITORY = Path(__file__).resolve().parents[3]
LADDER = (
    "npl doctor --azure {0}.yaml",
    "npl up {0}.yaml",
    "npl up {0}.yaml",
    "npl collect {0}.yaml",
    "npl ingest results/{0}",
    "npl down {0}.yaml",
    "npl down --all --expired --yes",
)


def program(folder, before="", python=sys.executable):
    """Write a program `npl` that first runs some Python; return an environment that has it."""
    place = folder / "bin" / "npl"
    place.parent.mkdir(exist_ok=True)
    code = f"{before}\nfrom netperf_lib.cli import main; main()"
    place.write_text(f'#!/bin/sh\nexec {python} -c "{code}" "$@"\n', "utf-8")
    place.chmod(0o755)
    paths = {"PATH": place.parent, "PYTHONPATH": REPOSITORY}
    joined = {
        k: os.pathsep.join([str(v), os.environ.get(k, "")]) for k, v in paths.items()
    }
    return {**os.environ, **joined, "COLUMNS": "160"}


def whole_way(declared, folder, environment):
    """Run every step in `folder`; return what was printed, fit to be sent to others, and the
    exit codes.

    The steps that remove are taken whatever came before.
    """
    document = declared.model_dump(mode="json", exclude_defaults=True)
    (folder / f"{declared.name}.yaml").write_text(yaml.safe_dump(document), "utf-8")
    shown, codes = "", [0]
    for step in LADDER:
        words = step.format(declared.name)
        if any(codes) and " down " not in words:
            continue
        code, text = typed(words, folder, environment)
        codes.append(code)
        said = re.sub(re.escape(str(folder)) + "/?", "", text)
        part = f"$ {words}\n{clean(said)}" + (f"[exit code {code}]\n" if code else "")
        print(part, end="", flush=True)
        shown += part
    return shown, codes[1:]


def typed(line, folder, environment):
    """Type a line in a folder; return its exit code, and what it printed."""
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, **out)
    return done.returncode, done.stdout
