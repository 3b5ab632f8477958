"""Verdicts for a pipeline: an exit code of its own, and a report in JUnit's XML that build servers show."""

from __future__ import annotations

from collections.abc import Collection
from xml.etree import ElementTree as ET

from ..errors import NetperfError, visible
from ..stats import Family


class GateError(NetperfError):
    """The verdicts do not let a change pass."""

    exit_code = 3


def check(family: Family, fail_on: Collection[str]) -> str:
    """Say that the gate lets a change pass, and on which verdicts.

    Raises GateError if a comparison has one of the verdicts in `fail_on`, or if there is nothing to judge: a gate that
    saw no data must not open.
    """
    if not len(family):
        raise GateError(
            "gate: nothing was compared (no data, or no condition that both sides share)"
        )
    refused = [c for c in family if c.verdict in fail_on]
    if refused:
        others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise GateError(f"gate: {refused[0].verdict}: {refused[0].words}{others}")
    if all(c.verdict in ("no verdict", "exploratory") for c in family):
        raise GateError(f"gate: no comparison has a verdict; the first: {family[0].words}")
    return f"gate: passed, none is {' or '.join(fail_on)}; {family.summary}"


def junit(family: Family, fail_on: Collection[str] = ("worse",)) -> str:
    """Return the comparisons as JUnit XML: a test case each, failed where its verdict is in `fail_on`.

    A comparison that is not decided is a skipped test case.
    """
    suite = ET.Element(
        "testsuite", name=f"netperf_lib {family.experiment}".strip(), tests=str(len(family))
    )
    failures = skipped = 0
    for comparison in family:
        kind = comparison.metric or "netperf_lib"
        case = ET.SubElement(suite, "testcase", classname=kind, name=comparison.label)
        if comparison.verdict in fail_on:
            failures += 1
            ET.SubElement(case, "failure", message=comparison.words, type=str(comparison.verdict))
        elif not comparison.settled:
            skipped += 1
            ET.SubElement(case, "skipped", message=comparison.words)
        ET.SubElement(case, "system-out").text = comparison.words
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    ET.indent(suite)
    return visible(ET.tostring(suite, encoding="unicode", xml_declaration=True)) + "\n"
