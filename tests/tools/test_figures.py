"""A table of figures is imported as runs: metrics and factors are its columns."""

import pytest

import netperf_lib as npl
from netperf_lib import tools
from netperf_lib.errors import NetperfError

TABLE = """\
placement,round,tool,streams,rack,rtt_us,rtt_p99_us
ppg,1,netperf,1,a,61.2,88
cross-zone,1,netperf,1,b,402.9,
"""


def imported(folder, text):
    table = folder / "figures.csv"
    table.write_text(text)
    return npl.import_logs(table, into=folder / "e")


def test_row_is_a_run_with_typed_factors(tmp_path):
    runs = imported(tmp_path, TABLE).runs.sort_values("rtt_us")

    assert runs["placement"].tolist() == ["ppg", "cross-zone"]
    assert runs["round"].tolist() == [1, 1]
    assert runs["streams"].tolist() == [1, 1]
    assert runs["tool"].tolist() == ["netperf", "netperf"]
    assert runs["rack"].tolist() == ["a", "b"]


def test_empty_cell_is_unknown(tmp_path):
    runs = imported(tmp_path, TABLE).runs.sort_values("rtt_us")

    assert runs["rtt_us"].tolist() == [61.2, 402.9]
    assert runs["rtt_p99_us"].isna().tolist() == [False, True]


def test_row_without_figure_failed():
    runs = tools.parse(TABLE + "ppg,2,netperf,1,a,,\n")

    assert [run.status for run in runs] == ["ok", "ok", "failed"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rtt_p99_us", "rtt_p98_us", "line 1: unknown metric 'rtt_p98_us'"),
        ("rack", "streams", "line 1: the column 'streams' is there twice"),
        ("402.9", "4e", "line 3: rtt_us is '4e'; write a number in us"),
        ("402.9", "-1", "line 3: rtt_us is '-1'"),
        ("b,402.9", "402.9", "line 3: 6 cells under 7 columns"),
        ("rack", "status", "column 'status': a name that the library uses itself"),
    ],
)
def test_table_is_refused_by_line(tmp_path, old, new, message):
    with pytest.raises(NetperfError, match=r"figures\.csv") as refusal:
        imported(tmp_path, TABLE.replace(old, new))

    assert message in str(refusal.value)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_cells_are_separated_as_labels_are(separator):
    text = TABLE.replace(",", separator).replace("61.2", "61,2")

    assert tools.parse(text)[0].metrics == tools.parse(TABLE)[0].metrics


def test_nearest_metric_is_named_where_none_is_right():
    with pytest.raises(NetperfError, match="did you mean rtt_p99_us"):
        tools.parse("placement,rtt_p99_usec_us\nppg,61.2\n")
