"""A quantity means the same wherever a person writes it, and what the library writes it reads."""

import pytest

from netperf_lib.experiment.factors import FACTORS
from netperf_lib.experiment.yaml import read_experiment
from netperf_lib.quantities import read_quantity
from netperf_lib.tools.options import bits_per_second


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("64K", "bytes", 65536),
        ("64 KiB", "bytes", 65536),
        ("64kb", "bytes", 65536),
        ("16mb", "bytes", 2**24),
        ("12,5 MiB", "bytes", 12.5 * 2**20),
        ("1G", "bps", 1e9),
        ("1 Gbit/s", "bps", 1e9),
        ("900 Mbit/s", "bps", 900e6),
        ("900M", "bps", 900e6),
        ("10s", "s", 10),
        ("1 ms", "us", 1000),
        ("5 %", "ratio", 0.05),
        (7, "us", 7),
    ],
)
def test_quantity_is_read_in_its_unit(text, unit, value):
    assert read_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1 ms", "bps"),
        ("fast", "bps"),
        ("-1 ms", "us"),
        ("9" * 5000, "us"),
        ("12,500", "bytes"),
    ],
)
def test_text_of_another_kind_is_refused(text, unit):
    with pytest.raises(ValueError, match="quantity"):
        read_quantity(text, unit)


LEVELS = {
    "flag": (True, False),
    "integer": (1, 4, 64, 1400),
    "number": (0.5, 1.0, 10.0),
    "text": ("x1", "cubic"),
    "bytes": (1, 64, 1024, 65536, 2**24),
    "bps": (1e9, 40e6),
}


@pytest.mark.parametrize("name", FACTORS)
def test_level_that_is_written_is_read(name):
    factor = FACTORS[name]
    kind = factor.unit if factor.unit in LEVELS else factor.kind
    levels = ("1G", "800M", "0") if name == "bitrate" else LEVELS[kind]

    for level in (None, *levels, *factor.order):
        written = factor.written(level)
        assert factor.cast(written) == level, written


@pytest.mark.parametrize("written", ["1000M", "1 Gbit/s", 1_000_000_000, "1g"])
def test_rate_is_one_level_however_it_is_written(written):
    assert FACTORS["bitrate"].cast(written) == "1G"


def test_sizes_and_times_of_an_experiment_may_have_units():
    text = """
name: x
hosts: {source: lab}
pairs: [{client: a, server: b, placement: ppg, tcp_buffer_bytes: 16mb}]
tests: [{tool: iperf3, test: tcp, duration_s: 10s, tcp_buffer_bytes: [64K], bitrate: 1 Gbit/s}]
"""

    experiment = read_experiment(text)

    assert experiment.pairs[0].tcp_buffer_bytes == 2**24
    assert experiment.tests[0].tcp_buffer_bytes == (65536,)
    assert experiment.tests[0].duration_s == 10


def test_rate_of_an_option_may_have_a_unit():
    assert [bits_per_second(r) for r in ("2.5G", "900 Mbit/s")] == [2.5e9, 900e6]
