"""An experiment for tests: the recorded one with noise, as if its raw runs had been read."""

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import netperf_lib as npl
from netperf_lib.analysis.runs import measurement
from netperf_lib.data.tables import SCHEMAS
from netperf_lib.metrics import METRICS

NOTICE = (
    "Made-up numbers for a test. No host was measured; nothing here says anything about a "
    "network."
)


@cache
def recorded():
    """The recorded experiment, read once."""
    return npl.read(npl.recorded())


def experiment(root, *, rounds=12, seed=7, name="lab", metrics=METRICS):
    """Write the tables of an experiment; return its folder."""
    store = Path(root, name)
    store.mkdir(parents=True)
    text = (npl.recorded() / "experiment.yaml").read_text("utf-8")
    declared = yaml.safe_load(text) | {"rounds": rounds, "name": name}
    (store / "experiment.yaml").write_text(
        yaml.safe_dump(declared, sort_keys=False), "utf-8"
    )
    exp = recorded()
    runs = (
        measurement(exp)
        .runs.query("round <= @rounds")
        .assign(experiment=name, notice=NOTICE)
    )
    runs["warnings"] = [[]] * len(runs)
    runs[[name for name in exp.metrics if name not in metrics]] = np.nan
    figures = [column for column in runs if column.endswith(("_us", "_bps"))]
    noise = np.random.default_rng(seed).normal(0, 0.02, (len(runs), 1))
    runs[figures] = runs[figures].astype(float) * np.exp(noise)
    tables = {
        "runs": runs,
        "intervals": exp.intervals,
        "percentiles": exp.percentiles,
    }
    for table, frame in tables.items():
        rows = frame[frame["run_id"].isin(runs["run_id"])]
        folder = store / "tables" / table
        folder.mkdir(parents=True)
        written = pa.Table.from_pandas(rows, schema=SCHEMAS[table], preserve_index=False)
        pq.write_table(written, folder / "part-0.parquet")
    return store
