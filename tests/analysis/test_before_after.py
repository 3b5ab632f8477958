"""Two measurements, condition by condition; a gate on the verdicts; tables for a spreadsheet."""

import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from netperf_lib.analysis import Family, gate
from netperf_lib.analysis.compare import between, compare, judge
from netperf_lib.analysis.runs import measurement
from netperf_lib.cli import npl as cli
from netperf_lib.data.door import read
from netperf_lib.errors import UsageError
from netperf_lib.metrics import format_value
from netperf_lib.terminal import text, verdict_blocks

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "lab-full"


def runs(seed, *, scale=1.0, rounds=12, **fixed):
    """A measurement of two placements: one-way latencies of 40 and 60 µs, times `scale` in ppg,
    2 % noise."""
    random = np.random.default_rng(seed)
    rows = [
        {
            "placement": p,
            "tool": "qperf",
            "test": "tcp_lat",
            "deployment": 1,
            "round": r,
            "status": "ok",
        }
        | {"latency_oneway_us": level * random.lognormal(0, 0.02)}
        | fixed
        for r in range(1, rounds + 1)
        for p, level in (("ppg", 40.0 * scale), ("same-zone", 60.0))
    ]
    return pd.DataFrame(rows)


def before_after(before, after, **options):
    return between(
        {"before": measurement(before), "after": measurement(after)}, **options
    )


def verdicts(found):
    return {c.context: str(c.verdict) for c in found}


def test_what_changed_and_what_did_not():
    found = before_after(runs(1), runs(2, scale=1.3), margin=0.1)
    assert verdicts(found) == {"ppg": "worse", "same-zone": "equivalent"}
    assert found[0].names == ("after", "before")
    assert found[0].medians == (pytest.approx(52, rel=0.03), pytest.approx(40, rel=0.03))
    assert found[0].low <= 1.3 <= found[0].high
    assert (
        "better"
        in verdicts(before_after(runs(1, scale=1.3), runs(2), margin=0.1)).values()
    )


def test_what_holds_the_throughput_back_on_each_side_is_told():
    """Before, the link of 1 Gbit/s; after, the rate that was asked for. Latency is limited by
    nothing."""
    before, after = runs(1), runs(2)
    for side, bps, cap, asked in ((before, 0.97e9, 1e9, None), (after, 4e9, 8e9, "4G")):
        side["throughput_bps"], side["advertised_bps"], side["bitrate"] = bps, cap, asked
    found = before_after(before, after, metric="throughput_bps")
    causes = "rate asked for", "advertised bandwidth"
    assert [c.limited_by for c in found] == [causes] * 2
    shown = text(verdict_blocks(found, two=True), 120)
    assert shown.count("advertised bandwidth / rate asked for") == 2
    assert {c.limited_by for c in before_after(runs(1), runs(2))} == {("", "")}


def test_the_notice_of_each_side_is_told():
    recorded = RECORDED.parent
    lab, synthetic = (read(recorded / name).notice for name in ("lab-full", "before"))
    for one, two in (("lab-full", "before"), ("before", "lab-full")):
        notice = (
            compare(recorded / one, recorded / two, metric="latency_oneway_us").notice
            or ""
        )
        assert str(lab) in notice
        assert str(synthetic) in notice


def test_numbers_of_runs_stand_in_the_order_of_the_columns():
    found = before_after(runs(1, rounds=12), runs(2, rounds=16))
    assert text(verdict_blocks(found, two=True), 80).count("12/16") == 1


def test_the_same_runs_on_both_sides_are_told():
    one = RECORDED.parent / "before"
    assert "both sides are the same runs" in compare(one, one).warnings[0]
    assert "both sides are" not in compare(one, RECORDED.parent / "after").warnings[0]


def test_runs_that_are_all_of_the_other_side_are_no_evidence():
    whole = read(RECORDED.parent / "before").runs
    part = whole[whole["round"] <= 8]
    with pytest.raises(UsageError, match=r"every run of .*after.* is one of .*before"):
        compare(whole, part, metric="latency_oneway_us")


def test_a_data_root_of_different_questions_has_no_verdict(tmp_path):
    for name in ("before", "paths"):
        (tmp_path / name).symlink_to(RECORDED.parent / name)
    done = CliRunner().invoke(cli, ["compare", str(tmp_path)])
    assert "holds 2 experiments; give one of" in str(done.exception)
    assert compare(tmp_path, metric="latency_oneway_us", by="placement")


def deployed(seed, deployments, apart=0.05):
    """A measurement of several deployments, which land `apart` (standard deviation)."""
    random = np.random.default_rng(seed)
    parts = [
        runs(seed + 1000 * n).assign(deployment=n) for n in range(1, deployments + 1)
    ]
    for part in parts:
        part["latency_oneway_us"] *= random.lognormal(0, apart)
    return pd.concat(parts, ignore_index=True)


def test_deployments_are_the_replicates_before_and_after():
    pairs = [
        before_after(deployed(seed, 3), deployed(seed + 500, 3)) for seed in range(60)
    ]
    found = [str(c.verdict) for pair in pairs for c in pair if c.context == "ppg"]
    assert (
        sum(v in ("better", "worse") for v in found) <= 7
    )  # 5 %, and three standard errors
    assert (pairs[0][0].counted, pairs[0][0].n) == ("deployment", 3)
    assert "Welch" in pairs[0][0].method


def test_a_difference_between_deployments_is_found():
    before, after = deployed(1, 4, apart=0.02), deployed(501, 5, apart=0.02)
    after["latency_oneway_us"] *= 1.5
    assert verdicts(before_after(before, after)) == {"ppg": "worse", "same-zone": "worse"}


def test_one_deployment_against_several_has_no_verdict():
    found = before_after(deployed(1, 1), deployed(501, 3))
    assert set(verdicts(found).values()) == {"no verdict"}
    assert found[0].reason.startswith("3 deployments against 1")


def test_rounds_of_the_two_sides_are_not_paired():
    """A drift that both sides share would make a paired interval far too narrow for sides
    measured at other times."""
    drift = np.linspace(1, 1.5, 12).repeat(2)
    a, b = runs(1), runs(2)
    for side in (a, b):
        side["latency_oneway_us"] *= drift
    found = before_after(a, b)
    assert all(c.high / c.low > 1.1 for c in found)
    assert any("not paired" in note for note in found.notes)


def test_what_only_one_side_has_is_listed():
    b = runs(2)
    found = before_after(runs(1), b[b["placement"] == "ppg"])
    assert [c.context for c in found] == ["ppg"]
    assert "only in before: same-zone" in found.warnings


def test_a_factor_without_a_common_level_is_what_was_changed():
    found = before_after(
        runs(1, tcp_buffer_bytes=1 << 20), runs(2, tcp_buffer_bytes=1 << 26)
    )
    assert set(verdicts(found)) == {"ppg", "same-zone"}
    assert (
        "changed: tcp_buffer_bytes: 1 MiB TCP buffer before, 64 MiB TCP buffer after"
        in found.warnings
    )


def test_the_senders_throughput_stands_in_where_no_receivers_is_known():
    sent = [
        runs(seed).rename(columns={"latency_oneway_us": "throughput_sent_bps"})
        for seed in (1, 2)
    ]
    assert {c.metric for c in before_after(*sent)} == {"throughput_sent_bps"}
    both = [side.assign(throughput_bps=side["throughput_sent_bps"]) for side in sent]
    assert {c.metric for c in before_after(*both)} == {"throughput_bps"}
    assert {c.metric for c in before_after(*both, metric="throughput_sent_bps")} == {
        "throughput_sent_bps"
    }
    with pytest.raises(UsageError, match="did you mean throughput_bps"):
        before_after(*both, metric="throughput")


def test_runs_without_rounds_are_each_on_their_own():
    a, b = runs(1).assign(round=pd.NA), runs(2, scale=1.3).assign(round=pd.NA)
    assert verdicts(before_after(a, b))["ppg"] == "worse"


def test_nothing_to_compare():
    with pytest.raises(UsageError):
        before_after(runs(1), runs(2).iloc[:0])
    with pytest.raises(UsageError, match="rack"):
        before_after(runs(1), runs(2), by=["rack"])
    assert (
        len(
            before_after(
                runs(1, protocol="tcp"), runs(2, protocol="udp"), by=["protocol"]
            )
        )
        == 0
    )


def test_slices_of_one_experiment():
    both = pd.concat([runs(1), runs(2, scale=1.3).assign(deployment=2)])
    found = compare(
        both, both, where={"deployment": "1"}, where_after={"deployment": "2"}
    )
    assert found[0].names == ("runs (after)", "runs (before)")
    assert verdicts(found)["ppg"] == "worse"


def test_thirty_comparisons_fit_on_a_page_of_80_columns():
    sides = []
    for number in (1, 2):
        parts = [
            runs(number, scale=1.5 if number == 2 and streams == 3 else 1.0).assign(
                streams=streams, rack=rack
            )
            for rack in ("near the window", "far", "basement of the annex")
            for streams in (1, 2, 3, 4, 5)
        ]
        sides.append(pd.concat(parts, ignore_index=True))
    changed = before_after(*sides, margin=0.1)
    assert len(changed) == 30
    out = text(verdict_blocks(changed, two=True), 80).splitlines()
    assert out[0] == "30 compared: 3 worse, 0 better, 27 equivalent, 0 not decided"
    assert len(out) <= 60
    assert max(map(len, out)) <= 80
    verdicts = [
        line.split()[-1] for line in out if line.endswith(("worse", "equivalent"))
    ]
    assert len(verdicts) == 30
    assert out.index(next(x for x in out if x.endswith("worse"))) < 6


def printed_verdicts(printed):
    return {c["verdict"] for c in json.loads(printed)["comparisons"]}


def test_what_is_not_decided_says_its_interval_and_why():
    out = text(verdict_blocks(before_after(runs(1), runs(2), margin=0.001), two=True), 80)
    assert "2 not decided" in out.splitlines()[0]
    assert re.search(r"[+−]?\d+ to [+−]?\d+ %", out)
    assert re.search(r"1.*\] about \d+ more \w+ would decide it", out)


# -- gate ------------------------------------------------------------------------------------------


def test_a_gate_opens_only_on_verdicts_that_pass():
    slower = before_after(runs(1), runs(2, scale=1.3), margin=0.1)
    passed = gate.check(before_after(runs(1), runs(2), margin=0.2), ["worse"])
    assert passed.startswith("gate: passed, none is worse; 2 compared: 0 worse, 0 better")
    with pytest.raises(gate.GateError, match="ppg"):
        gate.check(slower, ["worse"])
    with pytest.raises(gate.GateError):  # a gate that saw nothing
        gate.check(
            before_after(
                runs(1, protocol="tcp"), runs(2, protocol="udp"), by=["protocol"]
            ),
            ["worse"],
        )
    with pytest.raises(gate.GateError):
        gate.check(before_after(runs(1, rounds=1), runs(2, rounds=1)), ["worse"])


def test_exit_codes_and_formats(python, tmp_path):
    def npl(*words):
        return subprocess.run(
            [python, "-m", "netperf_lib", *map(str, words)],
            capture_output=True,
            text=True,
        )

    twice = (
        "compare",
        RECORDED,
        RECORDED,
        "--metric",
        "throughput_bps",
        "--by",
        "placement,streams,tcp_buffer_bytes",
    )
    done = npl(*twice, "--json")
    assert done.returncode == 0, done.stderr
    assert printed_verdicts(done.stdout) <= {"equivalent", "inconclusive"}
    refused = npl(
        *twice,
        "--margin",
        "0.1%",
        "--fail-on",
        "inconclusive",
    )
    assert refused.returncode == 3
    assert refused.stderr.startswith("npl: gate")
    assert npl(*twice, "--fail-on", "worse").returncode == 0
    near, far = "placement=ppg", "placement=cross-region"
    for before, after, verdict, code in (
        (near, far, "worse", 3),
        (far, near, "better", 0),
    ):
        sides = (
            "--where",
            before,
            "--where-after",
            after,
            "--by",
            "tool,accelerated",
            "--metric",
            "latency_oneway_us",
        )
        gated = npl("compare", RECORDED, RECORDED, *sides, "--fail-on", "worse", "--json")
        assert gated.returncode == code, gated.stderr
        assert printed_verdicts(gated.stdout) == {verdict}
        assert ("gate: worse" in gated.stderr) == (verdict == "worse")
    assert npl("compare", RECORDED, tmp_path / "nowhere").returncode == 1
    assert npl("compare", RECORDED, RECORDED, "--where", "deployment").returncode == 2


def test_a_factor_nobody_declared_has_levels_and_ratios_and_is_exploratory():
    asked = ("compare", RECORDED, "--by", "streams", "--metric", "throughput_bps")
    shown, found = (
        CliRunner().invoke(cli, [*map(str, asked), *more]).output
        for more in ([], ["--json"])
    )
    levels = {row["condition"]: row for row in json.loads(found)["levels"]}
    for streams in (1, 2, 4, 16):
        row = levels[f"cross-region, {streams} stream{'s' if streams > 1 else ''}"]
        assert row["low"] < row["median"] < row["high"]
        assert format_value(row["median"], "bps") in shown
    assert {c["verdict"] for c in json.loads(found)["comparisons"]} <= {
        "exploratory",
        "better",
    }  # 16 against 1: declared


def test_one_run_a_level_has_a_ratio_and_no_interval():
    found = compare(runs(1, rounds=1), by="placement", metric="latency_oneway_us")
    assert isinstance(found, Family)
    for c in found:
        assert (c.low, c.high) == (0, math.inf)
        assert "no interval" in c.words
    (limit,) = judge(
        runs(1, rounds=1),
        [{"metric": "latency_oneway_us", "a": {"placement": "ppg"}, "below": 1000}],
    )
    assert "no interval" in limit.words
