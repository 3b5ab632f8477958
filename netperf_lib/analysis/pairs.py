"""Every pair of ends against every other: zones, availability domains, regions or hosts as a matrix."""

from __future__ import annotations

from ..errors import NothingToReport
from ..metrics import format_span, format_value
from ..metrics import metric as metric_of
from .observe import Data, Observations, levels, observe
from .runs import HOSTS

ENDS = {
    "zone_physical": "physical zone",
    "zone": "zone (logical: the subscription's own number)",
    "region": "region",
    "": "host",
}
"""Names for the two ends of a pair, the most informative first."""
ALIKE = 0.02
"""Pairs whose medians differ by no more are not called best and worst."""


def has_pairs(data: Data, metric: str) -> bool:
    """Whether a metric was measured of pairs that make a matrix: several that differ in nothing but their hosts."""
    try:
        obs = observe(data, metric)
    except NothingToReport:
        return False
    runs = obs.runs
    if not set(HOSTS) <= set(runs.columns):
        return False
    runs = runs.dropna(subset=list(HOSTS))
    others = [f for f in obs.by if not f.startswith(HOSTS)]
    hosts = (
        some[list(HOSTS)]
        for _, some in (runs.groupby(others, dropna=False) if others else [("", runs)])
    )
    return any((pairs.nunique() > 1).all() for pairs in hosts)


def ends_of(data: Data, metric: str) -> tuple[str, str]:
    """The two factors that name the ends of the pairs, so that every cell of a matrix is one pair.

    Raises NothingToReport if there are not several pairs of one placement.

    Examples
    --------
    >>> npl.analysis.ends_of(npl.read("data/recorded/zones"), "latency_oneway_us")
    ('client_zone', 'server_zone')
    """
    if not has_pairs(data, metric):
        raise NothingToReport(
            "a matrix needs several pairs of one placement, with several clients and servers"
        )
    pairs = observe(data, metric).runs.drop_duplicates(list(HOSTS))
    for end in ENDS:
        client, server = (f"{side}_{end}".rstrip("_") for side in HOSTS)
        named = {client, server} <= set(pairs) and not pairs[[client, server]].isna().any(axis=None)
        if named and len(pairs[[client, server]].drop_duplicates()) == len(pairs):
            return client, server
    return "client", "server"


def pairs_words(obs: Observations) -> str:
    """Which pair is best and worst, and how much the two directions of a pair differ, in sentences.

    Examples
    --------
    >>> obs = npl.observe("data/recorded/zones", "latency_oneway_us", by=("client_zone", "server_zone"))
    >>> npl.analysis.pairs_words(obs)[:44]
    'Best is 3 → 1 with 114 µs, worst 2 → 1 with '
    """
    info, table = metric_of(obs.metric), levels(obs).dropna(subset=["median"])
    client, server = obs.asked
    names = table.index.str.removeprefix("zone ")
    table = table.set_axis(names).sort_values("median", ascending=info.better != "higher")
    first, last = (float(table["median"].iloc[i]) for i in (0, -1))
    best, worst = (format_value(v, info.unit) for v in (first, last))
    words = f"Best is {table.index[0]} with {best}, worst {table.index[-1]} with {worst}."
    low, high = sorted((first, last))
    if best == worst:
        words = f"All pairs have {best}."
    elif high <= (1 + ALIKE) * low:
        words = f"All pairs have {format_span(low, high, info.unit)}."
    medians = dict(
        zip(zip(table[client], table[server], strict=True), table["median"], strict=True)
    )
    both = [
        max(m / back, back / m) - 1
        for (a, b), m in medians.items()
        if (back := medians.get((b, a))) and a != b
    ]
    words += (
        f" The two directions of a pair differ by up to {format_value(max(both), 'ratio', 2)}."
        if both
        else " Each pair was measured in one direction."
    )
    sure = table["confidence"].min()
    if sure < 0.95:
        width = (table["high"] / table["low"] - 1).max()
        words += (
            f" The {table.loc[table['confidence'] == sure, 'n'].iloc[0]} runs of a pair differ by up to "
            f"{format_value(width, 'ratio', 2)}: their range covers the median with {100 * sure:.3g} % confidence."
        )
    return words
