"""How well changes of a series are found.

A change for four hours is planted at a random hour of real days and of simulated ones; counted
are the days in which something is reported though nothing was planted, and in which what was
planted is found, and dated within two periods.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from netperf_lib.analysis.series import changes

DATA = Path(__file__).with_name("real.csv.gz")
HOURS = 4.0


def ours(values, hours=None, *, alpha=0.01):
    """Return first and last period, and ratio, of each change; by default of ten minutes."""
    hours = np.arange(values.size) / 6 if hours is None else hours
    times = pd.Timestamp("2026-03-02") + pd.to_timedelta(np.round(3600 * hours), "s")
    found = changes(pd.Series(values, times), alpha=alpha)
    number = {time: n for n, time in enumerate(times)}
    return [(number[c.start], number.get(c.end, values.size), c.ratio) for c in found]


def real_days(name, every):
    """Yield every n-th day of a real series, as medians of ten minutes."""
    rows = pd.read_csv(DATA).query("series == @name")
    times = pd.DatetimeIndex(pd.to_datetime(rows["time"]))
    series = pd.Series(rows["value"].to_numpy(), index=times).sort_index()
    for _, day in list(series.groupby(series.index.date))[::every]:
        medians = day.resample("10min").median().dropna()
        if len(medians) >= 40:
            hours = (medians.index - medians.index[0]).total_seconds() / 3600
            yield medians.to_numpy(), np.asarray(hours)


def simulated_days(days, periods, noise, correlation, wave):
    rng = np.random.default_rng(1)
    hours = np.arange(periods) * 24 / periods
    for _ in range(days):
        z = rng.standard_normal(periods)
        for t in range(1, periods):
            z[t] = correlation * z[t - 1] + math.sqrt(1 - correlation**2) * z[t]
        shape = wave * np.sin(2 * np.pi * (hours / 24 + rng.random()))
        yield np.exp(noise * z + shape), hours


def shares(find, days, size):
    """Return the percentages of days: reported without a change, found, dated."""
    rng = np.random.default_rng(5)
    counts = []
    for values, hours in days:
        start = rng.uniform(2, hours[-1] - HOURS - 2)
        inside = (hours >= start) & (hours < start + HOURS)
        first, last = np.flatnonzero(inside)[[0, -1]]
        end = int(last) + 1
        planted = find(values * np.where(inside, size, 1.0), hours)
        hits = [
            (a, b)
            for a, b, ratio in planted
            if (ratio > 1) == (size > 1)
            and min(b, end) - max(a, first) >= (end - first) / 2
        ]
        dated = [
            hit for hit in hits if abs(hit[0] - first) <= 2 and abs(hit[1] - end) <= 2
        ]
        counts.append([bool(find(values, hours)), bool(hits), bool(dated)])
    return [float(share) for share in 100 * np.mean(counts, axis=0)]
