"""Every pair of ends against every other.

Zones, availability domains, regions or hosts as a matrix.
"""

from __future__ import annotations

from ..errors import NothingToReport
from ..metrics import format_span, format_value
from ..metrics import metric as metric_of
from .observe import Observations, levels, observe
from .runs import HOSTS, Data

END_NAMES = {
    "zone_physical": "physical zone",
    "zone": "zone (logical: the subscription's own number)",
    "region": "region",
    "": "host",
}
"""Names for the two ends of a pair, the most informative first."""
ALIKE = 0.02
"""Pairs whose medians differ by no more are not called best and worst."""


def has_pairs(data: Data, metric: str) -> bool:
    """Return whether a metric was measured of pairs that make a matrix.

    Several that differ in nothing but their hosts.
    """
    try:
        obs = observe(data, metric)
    except NothingToReport:
        return False
    others = [f for f in obs.by if not f.startswith(HOSTS)]
    runs = (
        obs.runs.reindex(columns=[*others, *HOSTS]).dropna(subset=[*HOSTS]).astype(object)
    )
    hosts = runs.assign(every="").groupby(["every", *others], dropna=False)[[*HOSTS]]
    return bool((hosts.nunique() > 1).all(axis=1).any())


def ends_of(data: Data, metric: str) -> tuple[str, str]:
    """Return the two factors that name the ends of the pairs, so that a cell is one pair.

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
    for end in END_NAMES:
        client, server = (f"{side}_{end}".rstrip("_") for side in HOSTS)
        named = {client, server} <= set(pairs) and not pairs[[client, server]].isna().any(
            axis=None
        )
        if named and len(pairs[[client, server]].drop_duplicates()) == len(pairs):
            return client, server
    return "client", "server"


def pairs_words(obs: Observations) -> str:
    """Return which pair is best and worst, in a sentence.

    Examples
    --------
    >>> obs = npl.observe("data/recorded/zones", "latency_oneway_us", by=("client_zone", "server_zone"))
    >>> npl.analysis.pairs_words(obs)[:44]
    'Best is 3 → 1 with 114 µs, worst 2 → 1 with '
    """  # noqa: E501  (an example is one line)
    info, table = metric_of(obs.metric), levels(obs).dropna(subset=["median", *obs.asked])
    medians = table["median"].sort_values(ascending=info.better != "higher")
    low, high = medians.min(), medians.max()
    one, two = (str(medians.index[i]).removeprefix("zone ") for i in (0, -1))
    best, worst = (format_value(medians.iloc[i], info.unit) for i in (0, -1))
    words = f"Best is {one} with {best}, worst {two} with {worst}."
    if high <= (1 + ALIKE) * low:
        same = best if best == worst else format_span(low, high, info.unit)
        words = f"All pairs have {same}."
    return words
