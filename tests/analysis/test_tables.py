"""Tables and proofs show what they hold: planted cells and claims, and the words for each."""

import re

import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.claims import store_of
from netperf_lib.analysis.tables import Table, numeric
from netperf_lib.experiment.origin import Measured, Origin
from netperf_lib.metrics import format_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (pd.NA, "–"),
        (True, "yes"),
        (False, "no"),
        (1234.0, "1,234"),
        (0.123456, "0.1235"),
        (["a", 2], "a, 2"),
        ("text", "text"),
        (7, "7"),
    ],
)
def test_a_cell_is_written_by_its_kind(value, shown):
    frame = pd.DataFrame({"what": pd.Series([value, "beside"], dtype=object)})
    assert Table.of(frame).shown.iloc[0, 0] == shown


def test_a_level_has_the_unit_of_its_metric_and_no_empty_column():
    frame = pd.DataFrame(
        {"n": [12, 11], "median": [40.0, 57.0], "low": None, "failed": 0}
    )
    shown = Table.of(frame, "Levels.", metric="latency_oneway_us").shown
    assert list(shown) == ["Runs", "Median"]
    assert list(shown["Median"]) == ["40 µs", "57 µs"]


def test_a_condition_stands_for_its_levels():
    shown = npl.levels(npl.recorded(), "throughput_bps", by="streams").shown
    assert [*shown][:3] == ["Condition", "Runs", "Median"]


def test_a_table_without_rows_shows_nothing():
    shown = Table.of(pd.DataFrame(columns=["n"]), "Network cards.")._repr_markdown_()
    assert shown == ""


@pytest.mark.parametrize(
    ("cells", "is_numeric"),
    [
        (["1.2 µs", "–"], True),
        (["−3 % to 4 %", ""], True),
        (["–", "NaN"], False),
        (["12 runs a day", "3"], False),
    ],
)
def test_a_column_is_numeric_if_all_that_it_holds_are_numbers(cells, *, is_numeric):
    assert numeric(cells) is is_numeric


def test_a_table_made_by_hand_has_no_proof(tmp_path):
    runs = npl.load(npl.recorded())
    by_hand = pd.DataFrame(runs.to_dict("list"))
    assert store_of(by_hand) is None
    assert str(npl.analysis.proofs(by_hand)).endswith("the placements are as declared.")
    gone = Measured(by_hand, Origin(path=str(tmp_path / "gone")))
    assert str(npl.analysis.proofs(gone)).endswith("the placements are as declared.")


def test_proofs_that_do_not_all_hold_say_which(monkeypatch):
    exp = npl.read(npl.recorded())
    recorded = exp.store.claims()
    assert recorded
    assert all(claim["holds"] for claim in recorded)
    assert set(npl.analysis.proofs(exp)["holds"]) == {"holds"}

    planted = [recorded[0] | {"holds": False}, recorded[0] | {"holds": None}, *recorded]
    monkeypatch.setattr("netperf_lib.analysis.claims.stored", lambda _: planted)
    table = npl.analysis.proofs(exp)
    assert list(table["holds"]) == [
        "does NOT hold",
        "not shown",
        *["holds"] * len(recorded),
    ]


def test_levels_on_a_terminal_show_their_figures():
    table = npl.levels(
        npl.recorded(),
        "throughput_bps",
        by="placement",
        where={"streams": 1, "tcp_buffer_bytes": None},
    )
    _, _, figures = repr(table).partition("cloud.\n")  # after the notice
    head, *shown = figures.splitlines()
    assert re.split("  +", head.strip()) == ["Runs", "Median", "Lower end", "Upper end"]
    rows = [
        [name, str(n), *(format_value(v, "bps") for v in level)]
        for name, n, *level in table[["n", "median", "low", "high"]].itertuples()
    ]
    assert re.split("  +|\n *", "\n".join(shown).strip()) == [
        cell for row in rows for cell in row
    ]
    runs = npl.load(npl.recorded())
    runs.loc[runs["placement"].eq("ppg") & runs["round"].eq(1), "status"] = "failed"
    assert "Failed" in repr(npl.levels(runs, "throughput_bps", by="placement"))


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [(1.234, "ratio", "123 %"), (0.9996, "ratio", "100 %"), (999.6, "us", "1,000 µs")],
)
def test_no_value_is_written_with_an_exponent(value, unit, words):
    assert format_value(value, unit) == words
    assert "e+" not in format_value(value, unit, 2)
