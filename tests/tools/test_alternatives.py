"""What is searched for fast is found where the plain alternation finds it."""

from __future__ import annotations

import re
from pathlib import Path

from netperf_lib.tools import clean, decode
from netperf_lib.tools.alternatives import alternatives

LOGS = [p for p in sorted((Path(__file__).parents[1] / "logs").glob("*/*")) if not p.name.endswith(".expected.json")]
PATTERNS = {
    "banner": r"\biperf \d\.\d+[^\n]*$",
    "ended": r"perf: Test end(?:ed\b| )",
    "total": r"perf: \[Total Run\]",
    "usage": r"^Usage: ",
    "row": r"\]\s*\d+\.\d+-\d+\.\d+\s+sec",
    "any": r"perf: ",
}


def test_all_is_found_that_the_plain_alternation_finds() -> None:
    plain = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS.items()), re.MULTILINE)
    for fast in (alternatives(PATTERNS), alternatives(PATTERNS, prefix="perf: ")):
        found = set()
        for log in LOGS:
            text = clean(decode(log.read_bytes()[:20_000]))
            for part in (text, text[len(text) // 3 :], text.replace("s", "z", 7), "x" + text, text[::2]):
                whole = [(m.lastgroup, m.span()) for m in plain.finditer(part)]
                assert [(m.lastgroup, m.span()) for m in fast.finditer(part)] == whole, log.name
                found.update(name for name, _ in whole)
        assert found == PATTERNS.keys()
