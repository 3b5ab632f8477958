"""An `az` that writes down what the real one is asked and answers, without ids: ``python
record.py REAL FILE …``."""

import json
import re
import subprocess
import sys
from pathlib import Path

PRIVATE = {
    # often the company's name
    r"(\bsubscription )[^(\n]*(?= \()": r"\1…",
    r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "00000000-…",
    r"[\w.+-]+@[\w-]+(\.[\w-]+)+": "someone@…",
    r"\b(?!10\.|127\.|169\.254\.)\d{1,3}(\.\d{1,3}){3}\b": "192.0.2.…",
    r"eyJ[\w-]{20,}(\.[\w-]+)*": "eyJ…",
    r"ssh-(ed25519|rsa) [\w+/=]+": r"ssh-\1 …",
    r"\b[\w-]+(?=\.onmicrosoft\.com)": "someone",
    # in a document that is quoted in another
    r'(\\*"(?:tenant(?:DisplayName|DefaultDomain)|displayName|sharedKey)\\*": \\*")'
    r'[^"\\]*': r"\1…",
}
"""Ids, mail addresses, public addresses, tokens, keys and names of companies are nobody's
business."""


def clean(text):
    """The same without what is private."""
    for pattern, instead in PRIVATE.items():
        text = re.sub(pattern, instead, text)
    return text


def program(folder, real, into):
    """Write a program `az` that records."""
    folder.mkdir()
    place = folder / "az"
    call = f'"{sys.executable}" -IS "{__file__}" "{real}" "{into}"'
    place.write_text(f'#!/bin/sh\nexec {call} "$@"\n', "utf-8")
    place.chmod(0o755)


def main(real, into, *words):
    """Run az, and write a line: command, exit code, what it printed."""
    done = subprocess.run([real, *words], capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    out = "" if "get-access-token" in words else done.stdout
    if words[:2] == ("account", "show"):  # the subscription's name often is the company's
        out = re.sub(r'("name": ")[^"]*', r"\1…", out)
    line = {"command": words, "exit_code": done.returncode}
    line |= {"stdout": out, "stderr": done.stderr}
    with Path(into).open("a", encoding="utf-8") as file:
        file.write(clean(json.dumps(line)) + "\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
