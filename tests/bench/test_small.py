"""What `make bench` measures is right: its programs on small sizes, without a clock."""

import pyarrow.parquet as pq
import pytest

from netperf_lib import recorded, tools
from netperf_lib.analysis.compare import compare
from netperf_lib.data.layout import Store

from . import bench_parse, bench_sockperf, bench_stats


@pytest.mark.parametrize("packets", [1_000, 200_000])
def test_the_log_of_packets_is_read_whole(packets, tmp_path):
    log, out = tmp_path / "packets.csv", tmp_path / "packets.parquet"
    offset = bench_sockperf.write_log(log, packets)
    assert bench_sockperf.to_parquet(str(log), str(out)) == packets
    assert bench_sockperf.bare(str(log), offset) == pq.read_metadata(out).num_rows == packets


def test_the_time_between_tools_is_that_of_the_records():
    from .bench_collect import gaps  # which is skipped where no lab can run

    between = gaps(Store(recorded().parent, recorded().name))
    assert len(between) == 263
    assert min(between) > 0


@pytest.mark.parametrize("streams", [1, 16])
def test_the_document_of_iperf3_is_read_without_a_warning(streams):
    (run,) = tools.parse(bench_parse.iperf3_document(1 << 20, streams))
    assert (run.status, run.error, list(run.warnings)) == ("ok", None, [])
    assert (
        len(run.intervals["start_s"]) % (streams + (streams > 1)) == 0
    )  # each stream, and the sum of several


def test_conditions_of_one_level_are_judged_the_same_or_not_at_all():
    runs = bench_stats.family(6, 15)
    found = compare(runs)
    assert len(found) == 15
    assert not [c.words for c in found if c.verdict in ("better", "worse")]
    assert all(c.low < 1 < c.high for c in found)
