"""A host that goes away for good; this machine stands in for it, so no other test measures on
it."""

from pathlib import Path

import pytest

from netperf_lib.experiment.deployment import Deployment

from ..sshd import Sshd, alive, processes, wait_until
from .test_collector import (
    THROUGHPUT,
    descends,
    experiment,
    marked,
    meanwhile,
    measure,
    records,
)


@pytest.mark.slow
def test_a_host_that_goes_away_for_good(tmp_path):
    servers = {name: Sshd(tmp_path / name) for name in ("client", "near", "far")}
    try:
        hosts = tuple(
            s.host(name=name, data_address=f"127.0.0.{i}")
            for i, (name, s) in enumerate(servers.items(), 1)
        )
        gone = Deployment(deployment_id="loopback", source="inventory", hosts=hosts)
        store = Path(tmp_path, "t")

        served = set()  # others may run the same tool on this machine

        def go():
            marked("iperf3", 0.5, "127.0.0.2")
            served.update(set(alive("iperf3 -s")).intersection(processes(descends)))
            servers["near"].close()

        # so long that it is noticed on a busy machine, too
        declared = experiment(
            tests=[THROUGHPUT | {"duration_s": 8}], hosts={"source": "inventory"}
        )
        with meanwhile(go):
            tally = measure(declared, gone, store)
        assert (tally.ok, tally.failed) == (1, 1)
        first, second = (r["error"] for r in records(store) if r["error"])
        assert "host near" in first
        assert first.endswith("is the machine still running?")
        assert second.endswith(
            "connection refused; is the machine up and sshd running on that port?"
        )
        assert served
        assert wait_until(lambda: not served.intersection(alive("iperf3 -s")))
    finally:
        for server in servers.values():
            server.close()
