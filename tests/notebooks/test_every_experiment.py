"""Every page of every experiment that can be declared: no traceback, no empty figure. Cells run in this process."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.lead import Lead, lead_paragraph
from netperf_lib.errors import NothingToReport, UsageError
from netperf_lib.experiment.attached import attach, attached
from netperf_lib.metrics import METRICS
from netperf_lib.reporting import notebooks
from tests.conftest import REPO
from tests.reporting import made

Runs = pd.DataFrame
NOT_HERE = ("summary", "explore")


def pages(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, *only: str, **tables: pd.DataFrame
) -> dict[str, list[Any]]:
    """Run the code of each page, or of `only` some, on tables in memory; return what it shows."""
    empty = {
        n: pd.DataFrame(columns=list(made.SCHEMAS[n].names)) for n in ("intervals", "percentiles")
    } | tables  # type: ignore[index]
    tables = {"runs": runs.copy()} | empty  # in one piece, as what is read
    monkeypatch.setattr(npl, "load", lambda place, table="runs": tables[table])
    monkeypatch.setattr(npl, "read", lambda place: SimpleNamespace(**tables))
    monkeypatch.setattr(npl, "experiments", lambda place: [])
    monkeypatch.setattr("netperf_lib.reporting.answer.lead_paragraph", once(lead_paragraph))
    found = {}
    planned = npl.analysis.pages(runs)
    assert len({p.key for p in planned}) == len(planned)
    for page in planned:
        if page.notebook not in NOT_HERE and (not only or page.key in only):
            found[page.key] = shown(notebooks()[page.notebook], page.parameters, monkeypatch)
    return found


def once(lead: Callable[..., Lead]) -> Callable[..., Lead]:
    """Every page asks the first one, in a process of its own: here they share its answer on the same runs."""
    known: dict[Any, Lead] = {}

    def asked(data: Runs, **options: Any) -> Lead:
        key = (*data["run_id"], *data.columns, *options.items())
        if key not in known:
            known[key] = lead(data, **options)
        return known[key]

    return asked


def shown(book: Path, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    outputs: list[Any] = []
    monkeypatch.setattr(
        builtins, "display", lambda *several: outputs.extend(several), raising=False
    )
    names: dict[str, Any] = {}
    for cell in nbformat.read(book, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(re.sub(r"(?m)^%.*$", "", cell.source))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, book.name, "exec"), names)
        if isinstance(last, ast.Expr):
            last_value = eval(compile(ast.Expression(last.value), book.name, "eval"), names)
            outputs += last_value.parts() if hasattr(last_value, "parts") else [last_value]
        if "parameters" in cell.metadata.get("tags", []):
            names |= parameters
    plt.close("all")  # what seaborn drew
    for output in outputs:
        if isinstance(output, npl.plots.Chart) and not output.drawn.empty:
            assert all(axes.has_data() for axes in output.drawn.axes if axes.get_visible()), (
                book.name
            )
            assert output.drawn.caption
            output.drawn.svg()
    return outputs


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return npl.load(made.experiment(tmp_path_factory.mktemp("lab")))


def changed(runs: Runs, change: Callable[[Runs], Runs], **declared: Any) -> Runs:
    found = change(runs.copy())
    found.attrs = runs.attrs
    attach(found, declared={**attached(runs).declared, "contrasts": [], **declared})
    return found


LATENCIES = [
    "latency_oneway_us",
    "latency_oneway_p50_us",
    "latency_oneway_p99_us",
    "latency_oneway_p999_us",
]


def round_trips(runs: Runs) -> Runs:
    kept = runs[runs["latency_oneway_us"].notna()].copy()
    kept["rtt_us"] = 2 * kept["latency_oneway_us"]
    kept[[c for c in kept if str(c).startswith("latency_oneway")]] = np.nan
    return kept


def imported(runs: Runs) -> Runs:
    """Logs of somebody else's: neither clock nor facts nor zones."""
    nothing = [c for c in runs if str(c).endswith(("_zone", "_region", "_vm_size", "_physical"))]
    runs[[*nothing, "kernel", "nic_driver", "accelerated", "tool_version"]] = None
    runs["started_utc"] = pd.Series(pd.NaT, index=runs.index).dt.tz_localize("UTC")
    runs["rack"] = runs["placement"].map({"ppg": "a1"}).fillna("b2")
    return runs


def unlabelled(runs: Runs, share: int = 1) -> Runs:
    """Logs of which nobody wrote down placement, round and hosts."""
    runs = imported(runs).drop(columns="rack")
    hit = np.arange(len(runs)) % share == 0
    for name in ("placement", "client", "server", "round"):
        runs[name] = runs[name].mask(hit)
    return runs


def deployments(runs: Runs) -> Runs:
    return pd.concat(
        [runs.assign(deployment=d, run_id=f"d{d}-" + runs["run_id"]) for d in (1, 2, 3)]
    )


EXPERIMENTS: dict[str, Callable[[Runs], Runs]] = {
    "only-round-trips": round_trips,
    "only-round-trips-of-one-condition": lambda r: round_trips(
        r[(r["placement"] == "ppg") & (r["tool"] == "qperf")]
    ),
    "only-throughput": lambda r: r[r["tool"] == "iperf3"],
    "only-sent": lambda r: r[r["tool"] == "iperf3"].assign(throughput_bps=np.nan),
    "one-condition": lambda r: r[(r["placement"] == "ppg") & (r["tool"] == "qperf")],
    "one-round": lambda r: r[r["round"] == 2],
    "three-rounds": lambda r: r[r["round"].isin([4, 5, 6])],
    "failures-only": lambda r: r.assign(status="failed", error="timeout").assign(
        **{c: np.nan for c in r if c in METRICS}
    ),
    "imported": imported,
    "unlabelled": unlabelled,
    "half-labelled": lambda r: unlabelled(r, 2),
    "three-deployments": deployments,
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_page_of_every_experiment(
    name: str, lab: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pages(changed(lab, EXPERIMENTS[name]), monkeypatch)
    assert "07-quality" in found


def test_declared_contrasts_are_answered_on_the_pages(
    lab: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = attached(lab).declared["contrasts"]
    found = pages(lab, monkeypatch)
    texts = "\n".join(repr(o) for outputs in found.values() for o in outputs)
    assert declared
    assert {"01-placement-latency", "02-accelerated-latency", "03-streams-throughput"} <= set(found)
    assert "better" in texts


def test_a_label_of_the_users_own_is_a_question(lab: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = changed(
        lab, lambda r: r.assign(rack=np.where(r["server"] == r["server"].iloc[0], "b7", "c1"))
    )
    key = next(p.key for p in npl.analysis.pages(runs) if p.parameters.get("factor") == "rack")
    shown = "\n".join(map(str, pages(runs, monkeypatch, key)[key]))
    assert "b7" in shown
    assert "c1" in shown


def zones(seed: int = 3) -> Runs:
    """Six pairs of three availability domains, one placement, three rounds, latency and throughput."""
    random = np.random.default_rng(seed)
    level = {("AD1", "AD2"): 402, ("AD2", "AD3"): 386, ("AD3", "AD1"): 113}
    rows = []
    for number in (1, 2, 3):
        for order, ((a, b), us) in enumerate(
            [*level.items(), *(((b, a), us + 6) for (a, b), us in level.items())]
        ):
            common = {
                "experiment": "zones",
                "deployment": 1,
                "round": number,
                "order": order,
                "status": "ok",
            }
            common |= {
                "client": f"vm-{a}",
                "server": f"vm-{b}",
                "client_zone": a,
                "server_zone": b,
                "tool": "qperf",
            }
            common |= {"placement": "cross-zone", "client_region": "phx", "server_region": "phx"}
            at = pd.Timestamp("2026-11-20T09:00Z") + pd.Timedelta(minutes=10 * number + order)
            for test, metric, value in (
                ("tcp_lat", "latency_oneway_us", us),
                ("tcp_bw", "throughput_bps", 16e9),
            ):
                run = {
                    "run_id": f"r{number}-{a}{b}-{test}",
                    "test": test,
                    metric: value * random.normal(1, 0.01),
                }
                rows.append(common | run | {"started_utc": at, "duration_s": 60.0, "attempt": 1})
    names = made.SCHEMAS["runs"].names
    runs = pd.DataFrame(rows).reindex(columns=names).astype({"latency_oneway_us": float})
    runs["raw_sha256"], runs["raw_path"] = "0", "raw"
    attach(runs, declared={"name": "zones", "contrasts": []}, notice=None)
    return runs


def test_pairs_of_one_placement_are_a_matrix_with_both_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = zones()
    answer = npl.ask(runs, "pairs", "latency_oneway_us")
    assert len(answer.levels) == 6
    assert answer.observations.asked == ("client_zone", "server_zone")
    assert "Best is AD3 → AD1" in answer.headline
    assert "75 %" in npl.plots.matrix(answer, intervals=True).figure.caption
    found = pages(runs, monkeypatch, "pairs-latency", "pairs-throughput")
    assert {"pairs-latency", "pairs-throughput"} == set(found)
    matrix = next(o for o in found["pairs-latency"] if isinstance(o, npl.plots.Chart))
    assert "AD3 to AD1 113" in repr(matrix) or "AD3 to AD1 11" in repr(matrix)


def test_the_interval_of_three_runs_tells_its_confidence() -> None:
    table = npl.levels(zones(), "latency_oneway_us", by=["client", "server"])
    assert set(table["confidence"]) == {0.75}


def test_a_placement_with_several_pairs_is_their_geometric_mean_in_each_round() -> None:
    runs = zones()
    near = runs.assign(placement="same-zone", server="x", client="y", run_id="n" + runs["run_id"])
    both = pd.concat([runs, near.drop_duplicates(["round", "test"])])
    both.attrs = runs.attrs
    answer = npl.ask(both, "placement", "latency_oneway_us", pool="pairs")
    assert "geometric mean" in answer.words
    rows = answer.observations.complete
    far = rows[rows["condition"] == "cross-zone"]
    assert len(far) == 3
    one = runs[(runs["round"] == 1) & runs["latency_oneway_us"].notna()]["latency_oneway_us"]
    assert far["latency_oneway_us"].iloc[0] == pytest.approx(float(np.exp(np.log(one).mean())))


def test_a_long_experiment_has_a_page_over_time_with_its_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(1)
    hours = np.arange(24 * 20)
    at = pd.Timestamp("2026-11-01T00:00Z") + pd.to_timedelta(hours, unit="h")
    rtt = np.where(hours < 24 * 12, 45.0, 58.0) * np.exp(random.normal(0, 0.02, hours.size))
    first = zones().iloc[[0] * hours.size].reset_index(drop=True)
    first = first.assign(
        run_id=[f"r{h}" for h in hours], round=hours + 1, order=hours, started_utc=at, rtt_us=rtt
    )
    runs = first.assign(
        latency_oneway_us=np.nan, tool="sockperf", test="ping-pong", placement="ppg"
    )
    attach(runs, declared={"name": "minutely", "contrasts": []}, notice=None)
    found = pages(runs, monkeypatch, "time-rtt")
    h = npl.analysis.ask_history(runs, "rtt_us")
    changes = [p for points in h.changes.values() for p in points]
    assert [p.at.date().isoformat() for p in changes] == ["2026-11-13"]
    assert sum(isinstance(o, npl.plots.Chart) for o in found["time-rtt"]) == 3


def test_a_page_that_has_nothing_says_so(lab: Runs) -> None:
    with pytest.raises(NothingToReport, match="during"):
        npl.ask(lab, "during", "latency_oneway_us")
    assert "during" in repr(npl.plots.under_load(lab, "latency_oneway_us"))


def test_plots_take_the_table_and_axes(lab: Runs) -> None:
    figure, axes = plt.subplots()
    assert npl.plots.rounds(lab, "latency_oneway_us", hue="placement", ax=axes) is axes
    assert axes.has_data()
    plt.close(figure)


def test_a_colour_is_one_condition(lab: Runs) -> None:
    drawn = npl.plots.rounds(lab, "latency_oneway_us", hue="placement")
    assert "same-zone, no accelerated networking" in repr(drawn)
    with pytest.raises(UsageError, match="no factor 'banana'"):
        npl.plots.rounds(lab, "latency_oneway_us", hue="banana")


def test_details_are_drawn_from_the_tables_that_reading_gives() -> None:
    exp = npl.read(npl.recorded())
    assert npl.plots.intervals(exp.intervals, exp.runs[exp.runs["streams"] == 16]).has_data()
    assert npl.plots.ecdf(exp.percentiles, exp.runs[exp.runs["tool"] == "sockperf"]).has_data()


def test_the_gallery_shows_every_plot() -> None:
    text = (REPO / "docs" / "figures.md").read_text("utf-8")
    drawn = [name for name in npl.plots.__all__ if name[0].islower()]
    assert [name for name in drawn if f"npl.plots.{name}(" not in text] == []
