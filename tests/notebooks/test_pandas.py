"""The table of runs is one for pandas and seaborn, as they are documented."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns

import netperf_lib as npl
from netperf_lib.analysis.runs import measurement
from netperf_lib.data.tables import SCHEMAS


@pytest.fixture(scope="module", params=["lab-full", "zones"])
def exp(request):
    return npl.read(npl.recorded().parent / request.param)


def test_each_column_has_a_value_and_plain_cells(exp):
    assert exp.runs.notna().any().all()
    kinds = {
        type(v) for column in exp.runs for v in exp.runs[column].dropna().astype(object)
    }
    assert kinds <= {str, int, float, bool, pd.Timestamp}
    whole = exp.runs.columns[exp.runs.notna().all()]
    assert all(
        isinstance(t, np.dtype | pd.DatetimeTZDtype | pd.StringDtype)
        for t in exp.runs[whole].dtypes
    )


def test_pandas_counts_groups_and_writes_the_runs(exp, tmp_path):
    assert exp.runs.nunique().min() >= 1
    assert len(exp.runs.drop_duplicates()) == len(exp.runs)
    assert exp.runs.groupby("tool").size().sum() == len(exp.runs)
    place = tmp_path / "runs.xlsx"
    utc = {
        c: exp.runs[c].dt.tz_localize(None) for c in exp.runs.select_dtypes("datetimetz")
    }
    exp.runs.assign(**utc).head(20).to_excel(place, index=False)
    assert list(pd.read_excel(place)) == list(exp.runs)


def test_seaborn_draws_the_runs(exp):
    grid = sns.catplot(exp.runs, x=exp.metrics[0], y="placement", hue="tool", col="test")
    assert grid.axes.flat[0].has_data()
    plt.close("all")


def test_a_cut_table_is_observed_as_the_whole(exp):
    cut = exp.runs[exp.runs["status"] == "ok"]
    assert set(SCHEMAS["runs"].names) <= set(measurement(cut).runs)
    metric = exp.metrics[0]
    assert npl.observe(cut, metric).names == npl.observe(exp, metric).names
