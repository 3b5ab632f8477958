"""What is left out of a pattern because its literals are not in a text could not have matched there."""

from __future__ import annotations

from pathlib import Path

import pytest

from netperf_lib.tools import clean, decode, iperf3, sockperf
from netperf_lib.tools._alternatives import Alternatives

LOGS = [p for p in sorted((Path(__file__).parents[1] / "logs").glob("*/*")) if not p.name.endswith(".expected.json")]


@pytest.mark.parametrize("pattern", [iperf3._START, sockperf._STAGE], ids=["iperf3", "sockperf"])
def test_the_chosen_alternatives_find_what_all_find(pattern: Alternatives) -> None:
    found = 0
    for log in LOGS:
        text = clean(decode(log.read_bytes()[:20_000]))
        for part in (text, text[len(text) // 3 :], text.replace("s", "z", 7), text[::2]):
            whole = [(m.lastgroup, m.span()) for m in pattern.whole().finditer(part)]
            assert [(m.lastgroup, m.span()) for m in pattern.finditer(part)] == whole, log.name
            found += len(whole)
    assert found > 500
