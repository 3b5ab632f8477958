"""Declaring what is asked: families in one line, and thresholds."""

import pytest
import yaml

from netperf_lib.errors import ExperimentError
from netperf_lib.experiment.contrasts import threshold
from netperf_lib.experiment.yaml import read_experiment

from .declared import LATENCY, TCP

PLACES = ("ppg", "same-zone", "cross-zone", "cross-region")


def declared(**changed):
    document = {
        "name": "c",
        "hosts": {"source": "inventory"},
        "pairs": [{"client": "a", "server": p, "placement": p} for p in PLACES],
        "tests": [
            LATENCY,
            TCP | {"streams": [1, 16]},
            TCP
            | {
                "options": {"congestion": "bbr"},
                "placements": ["cross-region"],
            },
        ],
        "rounds": 9,
    }
    return yaml.safe_dump(document | changed, sort_keys=False)


def test_a_family_in_one_line_differs_in_its_factor_alone():
    compare = {
        "factor": "placement",
        "baseline": "same-zone",
        "metrics": ["latency_oneway_us"],
        "margin": "10 %",
    }
    found = read_experiment(declared(compare=compare))
    assert [(c.a["placement"], (c.b or {})["placement"]) for c in found.contrasts] == [
        ("ppg", "same-zone"),
        ("cross-zone", "same-zone"),
        ("cross-region", "same-zone"),
    ]
    assert {c.margin for c in found.contrasts} == {0.1}
    assert found.compare == ()
    assert "compare" not in found.model_dump(exclude_unset=True)


def test_every_level_of_the_other_factors_has_its_own_contrast():
    found = read_experiment(
        declared(
            compare={
                "factor": "placement",
                "metrics": ["throughput_bps"],
                "levels": ["ppg"],
                "baseline": "same-zone",
            }
        )
    )
    assert [c.a.get("streams") for c in found.contrasts] == [1, 16]
    both = read_experiment(
        declared(compare=[{"factor": "streams"}, {"factor": "congestion"}])
    )
    assert [
        (c.a["placement"], c.a["streams"], (c.b or {})["streams"])
        for c in both.contrasts[:4]
    ] == [(p, 16, 1) for p in PLACES]
    assert [
        (c.a["congestion"], (c.b or {})["congestion"]) for c in both.contrasts[4:]
    ] == [("bbr", None)]


THROUGHPUT = "throughput_bps"
PPG = {"placement": "ppg"}


def contrast(metric, a, **sides):
    return {"contrasts": [{"metric": metric, "a": a, **sides}]}


@pytest.mark.parametrize(
    ("changed", "line", "datum"),
    [
        ({"compare": {"factor": "placment"}}, "compare[1]", "did you mean placement"),
        (
            {"compare": {"factor": "placement", "baseline": "same zone"}},
            "compare[1]",
            "did you mean same-zone",
        ),
        (
            {"compare": {"factor": "placement", "metrics": ["latency"]}},
            "compare[1]",
            "latency_oneway_us",
        ),
        ({"compare": {"factor": "message_bytes"}}, "compare[1]", "no two conditions"),
        (contrast(THROUGHPUT, PPG), "contrasts[1]", "below"),
        (
            contrast(THROUGHPUT, PPG, at_least="5 ms"),
            "contrasts[1].at_least",
            "900 Mbit/s",
        ),
        (
            contrast(THROUGHPUT, PPG, at_least="90 %"),
            "contrasts[1].at_least",
            "of what",
        ),
        (
            contrast(THROUGHPUT, PPG, at_least="0 % of 1 Gbit/s"),
            "contrasts[1].at_least",
            "not a threshold above zero",
        ),
        (
            contrast(THROUGHPUT, PPG, at_least="9.9.9 % of 1 Gbit/s"),
            "contrasts[1].at_least",
            "9.9.9",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_place(changed, line, datum):
    with pytest.raises(ExperimentError) as error:
        read_experiment(declared(**changed), file="x.yaml")
    place, message = str(error.value).split(": ", 1)
    number = int(place.removeprefix("x.yaml:"))
    assert number > 1
    assert message.startswith(line + ":")
    assert datum in message


@pytest.mark.parametrize(
    ("metric", "asked", "value"),
    [
        ("throughput_bps", {"at_least": "90 % of 4 Gbit/s"}, 3.6e9),
        ("throughput_bps", {"at_least": "90 %", "of": "4 Gbit/s"}, 3.6e9),
        ("lost_ratio", {"below": "1 %"}, 0.01),
        ("latency_oneway_us", {"below": "1 ms"}, 1000),
    ],
)
def test_a_threshold_is_in_the_unit_of_its_metric(metric, asked, value):
    text = declared(**contrast(metric, PPG, **asked))
    (found,) = read_experiment(text).contrasts
    assert threshold(found) == pytest.approx(value)
