"""What is read of every text that the tests beside this parse, in full: parameters, figures, intervals, warnings.

A test asserts what it is about; `parse` stands in for `netperf_lib.tools.parse` (see ``conftest.py``) and asserts that
the rest is as before, too. ``make golden`` takes what is read now, for a person to check what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun
from tests.tools import golden

DIGESTS = Path(__file__).with_name("parsed.digests")
EXPECTED = (
    dict(line.split() for line in DIGESTS.read_text().splitlines()) if DIGESTS.exists() else {}
)
FOUND: dict[str, str] | None = {} if os.environ.get("RECORD") else None
MOST = 100
"""A test that parses more texts than this draws them."""
LARGE = 500_000
"""A text of so many bytes tests speed or memory."""
_parse = tools.parse


def parse(
    data: str | bytes, *, file: str | None = None, tool: str | None = None
) -> list[ParsedRun]:
    """Parse a text; if it is one of those that were recorded, what is read must be as before."""
    key = digest([data if isinstance(data, str) else data.hex(), tool]) if len(data) < LARGE else ""
    if not key or (FOUND is None and key not in EXPECTED):
        return _parse(data, file=file, tool=tool)
    runs, refusal = [], None
    try:
        runs = _parse(data, file=file, tool=tool)
    except ParseError as error:
        refusal = error
    read = digest([golden.complete(run) for run in runs])
    if FOUND is not None:
        FOUND[key] = read
    else:
        assert read == EXPECTED[key], (
            "something else is read of this text than before; `make golden` takes it"
        )
    if refusal:
        raise refusal
    return runs


def digest(value: list[Any]) -> str:
    """A digest in which figures have 12 digits, for from Python 3.12 on sums are exact."""
    rounded = json.loads(json.dumps(value), parse_float=lambda text: f"{float(text):.12g}")
    return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()[:10]
