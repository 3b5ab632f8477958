"""Units are converted once, and an unknown one is never a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib.errors import UsageError
from netperf_lib.metrics import METRICS, format_value, metric, to_bps, to_bytes, to_us


@pytest.mark.parametrize(
    ("value", "unit", "us"),
    [(9304, "ns", 9.304), (58.2, "us", 58.2), (9.9, "ms", 9900), (2, "sec", 2e6)],
)
def test_times(value, unit, us):
    assert to_us(value, unit) == pytest.approx(us)


def test_decimal_and_binary_prefixes_are_told_apart():
    assert to_bps(1, "G", "bit") == 1e9
    assert to_bps(1, "M", "byte") == 8e6
    assert to_bps(1, "Mi", "byte") == 8 * 2**20
    assert to_bytes(64, "Ki") == 65536
    assert to_bytes(64, "k") == 64000


@pytest.mark.parametrize("unit", ["", "us/s", "fortnight", "US"])
def test_an_unknown_unit_is_an_error(unit):
    with pytest.raises(ValueError, match="unknown time unit"):
        to_us(1, unit)


def test_an_unknown_metric_offers_near_ones():
    with pytest.raises(UsageError, match="latency_oneway_us"):
        metric("latency_one_way_us")


def test_every_metric_is_named_by_its_unit():
    for m in METRICS.values():
        assert m.name.endswith(f"_{m.unit}"), m


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (58.2, "us", "58.2 µs"),
        (9900, "us", "9.9 ms"),
        (7.55e9, "bps", "7.55 Gbit/s"),
        (721e6, "bps", "721 Mbit/s"),
        (65536, "bytes", "64 KiB"),
        (1234567, "count", "1,234,567"),
        (0.021, "ratio", "2.1 %"),
        (1.234, "ratio", "123 %"),
        (0.9996, "ratio", "100 %"),
        (999.6, "us", "1,000 µs"),
        (0, "bps", "0 bit/s"),
        (None, "us", "–"),
        (float("nan"), "bps", "–"),
    ],
)
def test_numbers_are_written_as_network_people_say_them(value, unit, text):
    assert format_value(value, unit) == text


@given(
    st.floats(min_value=1e-3, max_value=1e15),
    st.sampled_from(["us", "bps", "bytes", "count", "per_s"]),
)
def test_a_written_number_is_within_its_digits(value, unit):
    text = format_value(value, unit)
    number, _, suffix = text.partition(" ")
    factor = {
        "s": 1e6,
        "ms": 1e3,
        "Tbit/s": 1e12,
        "Gbit/s": 1e9,
        "Mbit/s": 1e6,
        "kbit/s": 1e3,
    }.get(suffix, 1.0)
    factor = {"GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}.get(suffix, factor)
    assert float(number.replace(",", "")) * factor == pytest.approx(value, rel=0.006)
