"""What the reader must know before relying on a comparison."""

from __future__ import annotations

from typing import Any

from ..experiment.factors import factor, level_words
from ..metrics import format_value, plural
from .observe import Observations
from .runs import HOSTS, MEASUREMENT, warned
from .verdicts import Comparison, Question
from .words import SEVERAL

PLACE = {
    "placement",
    *HOSTS,
    "client_zone",
    "server_zone",
    "client_zone_physical",
    "server_zone_physical",
    "client_region",
    "server_region",
}
"""Factors that describe where the VMs landed."""
HARDWARE = {"client_cpu", "server_cpu", "nic_driver", "server_nic_driver"}
"""What VMs of one size may land on."""
NOTICEABLE = 0.01
"""Share of lost datagrams from which on a throughput is not shown without it."""
HARDLY = 1.005
"""A ratio that three written digits do not show."""
ALIKE = 0.01
"""p below which neighbouring rounds resemble each other."""
THESE = "for these VMs"
"""What the statements of one deployment apply to."""
QUOTIENT = (
    "the ratio is the typical one of common rounds, and not the quotient of the two medians, "
    "which are of all runs"
)
NEIGHBOURS = (
    "neighbouring rounds resemble each other: another hour may differ from those measured"
)
UNPAIRED = (
    "unpaired: any drift between the two sides' measurements is part of the difference"
)


def moved(q: Question) -> bool:
    """Return whether the sides were measured on different VMs."""
    obs = q.obs
    if obs is None or q.threshold is not None or MEASUREMENT in obs.by:
        return False
    return bool(q.differ & PLACE) or obs.hosts.get(q.a) != obs.hosts.get(q.b)


def scope(c: Comparison) -> str:
    """Return what the statement applies to."""
    obs = c.question.obs
    if c.deployments > 1:
        return f"over {c.deployments} deployments"
    # without hosts or a deployment nobody knows what was measured
    if obs is None or MEASUREMENT in obs.by or not obs.on_known_hosts:
        return ""
    return THESE


# -- what is known of the sides --------------------------------------------------------------------


def warnings(c: Comparison) -> list[str]:
    """Return what to know before relying on a comparison."""
    q = c.question
    obs = q.obs
    told = []
    if obs is not None:
        told += _of_runs(c, obs)
        if MEASUREMENT in obs.by:
            # between two measurements everything may have changed, and the family says so once
            return told + _of_rounds(c)
        told = _false_claims(q, obs) + told
        measured = all(name and obs.value(name, "n") > 0 for name in q.conditions)
        if q.threshold is None and measured:
            told += _confounded(q, obs)
            told += _not_switched(q, obs)
    return told + _of_rounds(c) + _of_result(c)


def _false_claims(q: Question, obs: Observations) -> list[str]:
    """Warn of claims about the hosts that turned out false: a verdict rests on them."""
    # a claim without a host is about all of them
    hosts: set[str | None] = {None}
    for condition in q.conditions:
        hosts |= obs.hosts.get(condition, set())
    proofs: dict[Any, str] = {}
    for claim in obs.origin.failed_claims:
        if claim["host"] in hosts:
            text = f"it rests on a claim that does not hold: {claim['claim']}"
            if claim.get("evidence"):
                text += f" ({claim['evidence']})"
            proofs[claim["claim"]] = text
    return list(proofs.values())


def _of_runs(c: Comparison, obs: Observations) -> list[str]:
    """Warn of a side that lost datagrams, and count the runs that carry a warning."""
    lost, counted = [], []
    for name, condition in zip(c.names, c.question.conditions, strict=False):
        if obs.unit == "bps" and (share := lost_share(obs, condition)) > NOTICEABLE:
            lost.append(f"{name} lost {format_value(share, 'ratio')} of its datagrams")
        rows = obs.runs["condition"] == condition
        words = warned(obs.runs[["warnings"]][rows], name)
        if words:
            counted.append(words)
    return lost + counted


def lost_share(obs: Observations, condition: str) -> float:
    """Return the median share of datagrams that runs of a condition lost; 0: none was counted."""
    rows = obs.runs["condition"] == condition
    shares = obs.runs.loc[rows, "lost_ratio"].dropna()
    return float(shares.median()) if len(shares) else 0.0


def _confounded(q: Question, obs: Observations) -> list[str]:
    """Warn about what the sides differ in besides what makes them two."""
    differ = q.differ
    # other hosts go without saying, and so does another place where places are compared
    implied = {*HOSTS}.union(*q.sides)
    if differ & PLACE:
        implied |= PLACE
    told = []
    for name in obs.apart:
        if name in implied or differ & {*factor(name).follows}:
            continue
        one, two = obs.at(q.a, name), obs.at(q.b, name)
        apart = one != two
        levels = f"{level_words(name, one)} and {level_words(name, two)}"
        if SEVERAL in (one, two):
            # hardware that some runs had is another explanation, if it was not that of both sides
            held = obs.runs.groupby("condition")[name].unique()
            apart = name in HARDWARE and {*held[q.a]} != {*held[q.b]}
            levels = "in some runs"
        if apart:
            what = f"the sides also differ in {factor(name).label or name} ({levels})"
            told.append(f"{what}: the difference may be due to that")
    return told


def _not_switched(q: Question, obs: Observations) -> list[str]:
    """Warn where the virtual function of accelerated networking does not differ with it."""
    up, other = obs.at(q.a, "vf_up"), obs.at(q.b, "vf_up")
    if "accelerated" not in q.differ or up != other or up in (None, SEVERAL):
        return []
    had = "both had a" if up else "both had no"
    text = f"the sides differ in accelerated networking, but {had} virtual function"
    return [f"{text}: it was not switched"]


# -- what was found --------------------------------------------------------------------------------


def _of_rounds(c: Comparison) -> list[str]:
    """Return how many rounds failed, and how many have no run."""
    told = []
    failed_a, failed_b = c.failed
    if failed_a or failed_b:
        rounds = plural(c.rounds, "round")
        text = f"failed, missing or repeated: {c.names[0]} in {failed_a} of {rounds}"
        if c.threshold is None:
            text += f", {c.names[1]} in {failed_b}"
        told.append(text)
    if c.absent:
        absent = plural(c.absent, "round")
        told.append(f"{absent} of {c.rounds} without a run on either side")
    return told


def _of_result(c: Comparison) -> list[str]:
    """Return what the interval does not allow for, and what the ratio is not."""
    told = []
    if not c.paired:
        told.append(UNPAIRED)
    elif c.neighbours_p < ALIKE / c.family:
        told.append(NEIGHBOURS)
    # who divides the two medians on the page should not be surprised
    if c.threshold is None and min(c.medians) > 0:
        quotient = c.medians[0] / c.medians[1]
        if not c.low / HARDLY <= quotient <= c.high * HARDLY:
            told.append(QUOTIENT)
    return told
