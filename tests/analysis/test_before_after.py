"""Two measurements, condition by condition; a gate on the verdicts; tables for a spreadsheet."""

import json
import math
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.compare import between, compare
from netperf_lib.analysis.runs import measurement
from netperf_lib.analysis.verdicts import GateError, check_gate
from netperf_lib.data.door import read
from netperf_lib.errors import UsageError
from netperf_lib.terminal import text, verdict_blocks

from . import planted

LAB = npl.recorded()
BEFORE, AFTER = LAB.with_name("before"), LAB.with_name("after")
US = "latency_oneway_us"


def runs(seed, *, scale=1.0, rounds=12, **columns):
    """A measurement of two placements, times `scale` in ppg, 2 % noise."""
    levels = {"ppg": 40.0 * scale, "same-zone": 60.0}
    return planted.runs(levels, rounds, noise=0.02, seed=seed, **columns)


def before_after(before, after, **options):
    sides = {"before": measurement(before), "after": measurement(after)}
    return between(sides, **options)


def verdicts(found):
    return {c.context: str(c.verdict) for c in found}


def test_what_changed_and_what_did_not():
    found = before_after(runs(1), runs(2, scale=1.3), margin=0.1)
    assert verdicts(found) == {"ppg": "worse", "same-zone": "equivalent"}
    assert found[0].names == ("after", "before")
    assert found[0].medians == pytest.approx((52, 40), rel=0.03)
    assert found[0].low <= 1.3 <= found[0].high
    back = before_after(runs(1, scale=1.3), runs(2), margin=0.1)
    assert verdicts(back) == {"ppg": "better", "same-zone": "equivalent"}


def test_what_holds_the_throughput_back_on_each_side_is_told():
    """Before, the link of 1 Gbit/s; after, the rate that was asked for."""
    link = {"throughput_bps": 0.97e9, "advertised_bps": 1e9}
    asked = {"throughput_bps": 4e9, "advertised_bps": 8e9, "bitrate": "4G"}
    found = before_after(runs(1, **link), runs(2, **asked), metric="throughput_bps")
    causes = "rate asked for", "advertised bandwidth"
    assert [c.limited_by for c in found] == [causes] * 2
    shown = text(verdict_blocks(found, two=True), 120)
    assert shown.count("advertised bandwidth / rate asked for") == 2


def test_the_notice_of_each_side_is_told():
    notice = str(compare(LAB, BEFORE, metric=US).notice)
    assert str(read(LAB).notice) in notice
    assert str(read(BEFORE).notice) in notice


def test_numbers_of_runs_stand_in_the_order_of_the_columns():
    found = before_after(runs(1, rounds=12), runs(2, rounds=16))
    assert text(verdict_blocks(found, two=True), 80).count("12/16") == 1


def test_the_same_runs_on_both_sides_are_told():
    assert "both sides are the same runs" in compare(BEFORE, BEFORE).warnings[0]


def test_runs_that_are_all_of_the_other_side_are_no_evidence():
    whole = read(BEFORE).runs
    with pytest.raises(UsageError, match=r"every run of .*after.* is one of .*before"):
        compare(whole, whole[whole["round"] <= 8], metric=US)


def deployed(seed, deployments, apart=0.05, **more):
    """A measurement of several deployments, which land `apart` (standard deviation)."""
    landed = np.random.default_rng(seed).lognormal(0, apart, deployments)
    parts = []
    for number, times in enumerate(landed, 1):
        part = runs(seed + 1000 * number, deployment=number, **more)
        parts.append(part.assign(**{US: times * part[US]}))
    return pd.concat(parts, ignore_index=True)


def test_deployments_are_the_replicates_before_and_after():
    found = before_after(deployed(1, 3), deployed(501, 3))
    assert (found[0].counted, found[0].n) == ("deployment", 3)
    assert "Welch" in found[0].method


@pytest.mark.slow
def test_deployments_that_did_not_change_are_seldom_called_changed():
    pairs = [
        before_after(deployed(seed, 3), deployed(seed + 500, 3)) for seed in range(60)
    ]
    changed = [verdicts(pair)["ppg"] in ("better", "worse") for pair in pairs]
    assert sum(changed) <= 7  # 5 %, and three standard errors


def test_a_difference_between_deployments_is_found():
    before = deployed(1, 4, apart=0.02)
    after = deployed(501, 5, apart=0.02, scale=1.5)
    assert verdicts(before_after(before, after))["ppg"] == "worse"


def test_one_deployment_against_several_has_no_verdict():
    found = before_after(deployed(1, 1), deployed(501, 3))
    assert set(verdicts(found).values()) == {"no verdict"}
    assert found[0].reason.startswith("3 deployments against 1")


def test_rounds_of_the_two_sides_are_not_paired():
    """A drift that both sides share would make a paired interval far too narrow for sides
    measured at other times."""
    sides = [runs(seed) for seed in (1, 2)]
    for side in sides:
        side[US] *= np.linspace(1, 1.5, 12).repeat(2)
    found = before_after(*sides)
    assert all(c.high / c.low > 1.1 for c in found)
    assert any("not paired" in note for note in found.notes)


def test_what_only_one_side_has_is_listed():
    found = before_after(runs(1), runs(2).query("placement == 'ppg'"))
    assert [c.context for c in found] == ["ppg"]
    assert "only in before: same-zone" in found.warnings


def test_a_table_of_other_comparisons_names_each_of_them():
    family = npl.compare(npl.recorded(), metric="throughput_bps")
    table = npl.analysis.compared_table(family)
    assert list(table.index) == [c.context or c.label for c in family]


def test_a_factor_without_a_common_level_is_what_was_changed():
    sides = [runs(n, tcp_buffer_bytes=size) for n, size in ((1, 1 << 20), (2, 1 << 26))]
    found = before_after(*sides)
    assert set(verdicts(found)) == {"ppg", "same-zone"}
    change = "changed: tcp_buffer_bytes: 1 MiB TCP buffer before, 64 MiB TCP buffer after"
    assert change in found.warnings


def test_the_senders_throughput_stands_in_where_no_receivers_is_known():
    bps, sent_bps = "throughput_bps", "throughput_sent_bps"
    sent = [runs(seed).rename(columns={US: sent_bps}) for seed in (1, 2)]
    both = [side.assign(throughput_bps=side[sent_bps]) for side in sent]
    for sides, options, metric in (
        (sent, {}, sent_bps),
        (both, {}, bps),
        (both, {"metric": sent_bps}, sent_bps),
    ):
        assert {c.metric for c in before_after(*sides, **options)} == {metric}


def test_runs_without_rounds_are_each_on_their_own():
    a, b = runs(1, round=pd.NA), runs(2, scale=1.3, round=pd.NA)
    assert verdicts(before_after(a, b))["ppg"] == "worse"


def test_nothing_to_compare():
    with pytest.raises(UsageError):
        before_after(runs(1), runs(2).iloc[:0])
    with pytest.raises(UsageError, match="rack"):
        before_after(runs(1), runs(2), by=["rack"])


def test_thirty_comparisons_fit_on_a_page_of_80_columns():
    racks = "near the window", "far", "basement of the annex"
    sides = []
    for number in (1, 2):
        parts = [
            runs(number, streams=n, rack=rack, scale=1.5 if number * n == 6 else 1.0)
            for rack in racks
            for n in (1, 2, 3, 4, 5)
        ]
        sides.append(pd.concat(parts, ignore_index=True))
    out = text(verdict_blocks(before_after(*sides, margin=0.1), two=True), 80)
    lines = out.splitlines()
    assert lines[0] == "30 compared: 3 worse, 0 better, 27 equivalent, 0 not decided"
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    ends = [line.split()[-1] for line in lines if line.endswith(("worse", "equivalent"))]
    assert ends == ["worse"] * 3 + ["equivalent"] * 27


def test_what_is_not_decided_says_its_interval_and_why():
    out = text(verdict_blocks(before_after(runs(1), runs(2), margin=0.001), two=True), 80)
    assert "2 not decided" in out.splitlines()[0]
    assert re.search(r"[+−]?\d+ to [+−]?\d+ %", out)
    assert re.search(r"1.*\] about \d+ more \w+ would decide it", out)


# -- gate ------------------------------------------------------------------------------------------


def test_a_gate_opens_only_on_verdicts_that_pass():
    passed = check_gate(before_after(runs(1), runs(2), margin=0.2), ["worse"])
    assert passed.startswith("gate: passed, none is worse; 2 compared: 0 worse, 0 better")
    with pytest.raises(GateError, match="ppg"):
        check_gate(before_after(runs(1), runs(2, scale=1.3), margin=0.1), ["worse"])


def test_a_gate_that_saw_nothing_or_no_verdict_stays_shut():
    tcp, udp = (runs(n, protocol=name) for n, name in ((1, "tcp"), (2, "udp")))
    nothing = before_after(tcp, udp, by=["protocol"])
    assert len(nothing) == 0
    few = before_after(runs(1, rounds=1), runs(2, rounds=1))
    for family in (nothing, few):
        with pytest.raises(GateError):
            check_gate(family, ["worse"])


SIDES = "--by tool,accelerated --metric latency_oneway_us --fail-on worse --json"
NEAR, FAR = "placement=ppg", "placement=cross-region"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "code"),
    [(NEAR, FAR, "worse", 3), (FAR, NEAR, "better", 0)],
)
def test_the_exit_code_of_a_gate(before, after, verdict, code, python):
    sides = [str(LAB), str(LAB), "--where", before, "--where-after", after]
    words = [python, "-m", "netperf_lib", "compare", *sides, *SIDES.split()]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)["comparisons"]
    assert {c["verdict"] for c in found} == {verdict}
    assert ("npl: gate: worse" in done.stderr) == (code > 0)


def test_one_run_a_level_has_a_ratio_and_no_interval():
    few = runs(1, rounds=1)
    [c] = compare(few, by="placement", metric=US)
    assert (c.low, c.high) == (0, math.inf)
    below = {"metric": US, "a": {"placement": "ppg"}, "below": 1000}
    [limit] = compare(few, contrasts=[below])
    assert "no interval" in c.words
    assert "no interval" in limit.words
