"""Loss of datagrams by the rate that was asked for: planted figures, and real logs."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pypdf
import pytest

import netperf_lib as npl
from netperf_lib.questions.udp import datagrams, datagrams_words
from tests.tools import conformance


def table(
    losses: dict[str, list[float]], path: str = "same-zone", streams: int = 1
) -> pd.DataFrame:
    rows = [
        {
            "run_id": f"{path}-{rate}-{i}", "status": "ok", "tool": "iperf3", "test": "udp", "protocol": "udp",
            "placement": path, "bitrate": rate, "round": i + 1, "deployment": 1, "streams": streams, "lost_ratio": loss,
            "throughput_bps": 1e8, "throughput_sent_bps": 1e8, "jitter_us": 10.0 + i,
        }
        for rate, values in losses.items()
        for i, loss in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_largest_rate_is_the_last_before_one_that_loses_more() -> None:
    runs = table(
        {"1G": [0.0, 0.0, 0.002], "100M": [0.0] * 3, "2G": [0.1, 0.2, 0.3], "3G": [0.0] * 3},
        streams=2,
    )
    rates = datagrams(runs)
    assert list(rates["asked_bps"]) == [2e8, 2e9, 4e9, 6e9]
    assert list(rates["lost_ratio"]) == [0, 0, 0.2, 0]
    assert list(rates["lost_most_ratio"]) == [0, 0.002, 0.3, 0]
    assert set(rates["jitter_us"]) == {11.0}
    (line,) = datagrams_words(rates).splitlines()
    assert "the largest rate with at most 0.1 % of the datagrams lost is 2 Gbit/s" in line
    assert "none lost, median of 3 runs; up to 0.2 %); at 4 Gbit/s it is 20 % lost." in line


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (
            {"1M": [0.0] * 3, "2M": [0.0005] * 3},
            "2 Mbit/s (0.05 % lost, median of 3 runs), which is the highest",
        ),
        (
            {"1M": [0.5] * 3, "2M": [0.7] * 3},
            "every rate loses more than 0.1 % (50 % lost at 1 Mbit/s)",
        ),
    ],
)
def test_rates_that_are_all_carried_or_none(losses: dict[str, list[float]], words: str) -> None:
    assert words in datagrams_words(datagrams(table(losses)))


def test_each_path_has_its_own_rates() -> None:
    near, far = (
        table({"1M": [0.0] * 3, "2M": [0.0] * 3}),
        table({"1M": [0.0] * 3, "2M": [0.1] * 3}, "cross-zone"),
    )
    lines = datagrams_words(datagrams(pd.concat([near, far], ignore_index=True))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["cross-zone", "same-zone"]
    assert "is 1 Mbit/s" in lines[0]
    assert "is 2 Mbit/s" in lines[1]


def test_the_page_of_real_logs(tmp_path: Path) -> None:
    """iperf3 at three rates over a path of 60 Mbit/s."""
    labels = ["file,placement,bitrate,round"]
    for d in conformance.read():
        words = d["command"].split()
        if (
            d["tool"] == "iperf3"
            and d["end"] == "client"
            and d["rate"] == conformance.RATE
            and not d["event"]
        ):
            rate = words[words.index("-b") + 1] if "-b" in words else ""
            if (
                {"-u", "-J"} <= set(words)
                and words[-2:] == ["1", "-J"]
                and rate in ("15M", "20M", "90M")
            ):
                if (
                    set(words) & {"-R", "--bidir"}
                    or json.loads(d["text"])["start"]["test_start"]["omit"]
                ):
                    continue
                name = f"{len(labels)}.json"
                (tmp_path / name).write_text(d["text"])
                labels.append(
                    f"{name},same-zone,{rate},{sum(f',{rate},' in row for row in labels) + 1}"
                )
    (tmp_path / "labels.csv").write_text("\n".join(labels))
    mine = npl.import_logs(
        tmp_path, labels=tmp_path / "labels.csv", into=tmp_path / "results" / "udp"
    )
    assert "09-datagrams" in [page.notebook for page in npl.questions.pages(mine.runs)]
    (pdf,) = npl.report(mine.path, notebooks=["09-datagrams"])
    page = " ".join(" ".join(p.extract_text() for p in pypdf.PdfReader(pdf).pages).split())
    assert "the largest rate with at most 0.1 % of the datagrams lost is 20 Mbit/s" in page
    assert "at 90 Mbit/s it is 3" in page
    assert "Not in this experiment" not in page
    (pdf,) = npl.report(mine.path, notebooks=["09-datagrams"], parameters={"loss": 0.5})
    assert "90 Mbit/s" in (text := " ".join(p.extract_text() for p in pypdf.PdfReader(pdf).pages))
    assert "which is the highest that was asked for" in " ".join(text.split())


def test_a_function_is_no_module() -> None:
    """A module of the same name would take the place of the function as soon as it is loaded."""
    assert callable(npl.questions.datagrams)
    assert callable(npl.questions.datagrams)
