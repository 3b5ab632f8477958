"""Spark reads the tables where they lie, filters pushed down. Opt-in: with pyspark in this or another environment.

``NETPERF_SPARK=/path/to/python`` names a Python that has pyspark (``pip install 'pyspark>=4,<4.2'``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import netperf_lib as npl

from ..synth import synth

PYTHON = os.environ.get("NETPERF_SPARK") or sys.executable

QUERIES = """
import json, sys
from pyspark.sql import SparkSession, functions as f

settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.enableVectorizedReader": "false",  # samples are byte-stream split
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
files = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem
root = sys.argv[1]

def counted(query):
    before = sum(s.getBytesRead() for s in files.getAllStatistics())
    [row] = query.collect()
    return [*row, sum(s.getBytesRead() for s in files.getAllStatistics()) - before]

runs = spark.read.parquet(f"{root}/*/tables/runs/*.parquet")
samples = spark.read.parquet(f"{root}/*/tables/samples/*.parquet")
total = [f.count("*"), f.sum("latency_us")]
one = samples.where("experiment = 'fleet-0003'").agg(*total)
print(json.dumps({
    "all": counted(samples.agg(*total)),
    "one": counted(one),
    "plan": one._jdf.queryExecution().toString(),
    "joined": counted(samples.join(runs, ["experiment", "run_id"]).where("placement = 'ppg'").agg(*total)),
    "first": str(runs.agg(f.min("started_utc")).collect()[0][0]),
}))
"""


@pytest.fixture(scope="module")
def spark() -> str:
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        pytest.skip(
            "Spark needs Java 17 or later, which is not here: apt-get install default-jre-headless"
        )
    if subprocess.run([PYTHON, "-c", "import pyspark"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no pyspark; NETPERF_SPARK names a Python that has")
    return PYTHON


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a JVM starts, on a busy machine too
def test_spark_reads_one_experiments_share(tmp_path: Path, spark: str) -> None:
    synth(tmp_path, runs=8, experiments=4, samples=110_000, tools=("sockperf",))
    npl.ingest(tmp_path)
    done = subprocess.run(
        [spark, "-c", QUERIES, str(tmp_path)], capture_output=True, text=True, timeout=1740
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    samples = npl.load(npl.experiments(tmp_path), "samples").astype({"latency_us": float})
    runs = npl.load(npl.experiments(tmp_path))
    samples = samples.merge(runs[["experiment", "run_id", "placement"]])
    mine = samples[samples["experiment"] == "fleet-0003"]
    ppg = samples[samples["placement"] == "ppg"]
    for name, rows in (("all", samples), ("one", mine), ("joined", ppg)):
        count, total, _ = found[name]
        assert count == len(rows)
        assert total == pytest.approx(rows["latency_us"].sum())
    assert "EqualTo(experiment,fleet-0003)" in found["plan"]
    print(f"Spark read {found['one'][2]} bytes of {found['all'][2]} for one experiment of four")
    assert found["one"][2] < 0.4 * found["all"][2]
    assert found["first"] == str(runs["started_utc"].min().tz_localize(None))
