"""The pages of logs of ones own agree with the first page, which judges them by rule."""

import netperf_lib as npl
from netperf_lib.data.imports import import_logs
from netperf_lib.reporting.cover import cover

from .kept import kept


def test_an_answer_about_logs_is_that_of_page_one(tmp_path):
    folder, labels = kept("study-placement", tmp_path / "logs", rounds=12)
    results = import_logs(folder, labels=labels, into=tmp_path / "study")
    page_one = {c.words: c.verdict for c in npl.summary(results).lead.family}
    answer = npl.ask(results, "streams", "throughput_bps", pool="pairs")
    assert [page_one[c.words] for c in answer.verdicts] == [
        "equivalent",
        "equivalent",
        "equivalent",
        "better",
    ]
    assert [c.metric for c in answer.contrasts] == ["throughput_bps"] * 4


def test_a_log_that_does_not_tell_its_test_has_a_page():
    runs = npl.load(npl.recorded())
    runs.loc[runs.index[runs["tool"] == "iperf3"][0], "test"] = None
    assert "measured by iperf3 and iperf3 tcp and" in str(
        npl.ask(runs, "streams", "throughput_bps").words
    )


def test_what_logs_do_not_tell_is_left_out_and_not_zero(
    tmp_path,
):
    folder, _ = kept("study-placement", tmp_path / "logs", rounds=1)
    for log in folder.glob("*-iperf*.log"):
        log.unlink()
    results = import_logs(folder, into=tmp_path / "study")
    facts = dict(cover(results).facts)
    assert facts.keys() == {"Experiment", "Runs", "Tools", "Digest"}
    caveats = str(npl.summary(results).caveats)
    assert "The values hold for these virtual machines" in caveats
    assert "verdict" not in caveats
