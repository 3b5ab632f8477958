"""What the lessons claim about the recorded experiment is computed from it."""

from __future__ import annotations

from pathlib import Path

import netperf_lib as npl

REPO = Path(__file__).parents[2]
WORKSHOP = REPO / "notebooks" / "workshop"


def test_lesson_2_says_what_its_rounds_show() -> None:
    runs = npl.load(REPO / "data" / "recorded" / "lab-full")
    where = {"tool": "qperf", "placement": ["same-zone", "cross-zone"]}
    obs = npl.observe(runs, "latency_oneway_us", by="placement", where=where).main()
    wide = obs.runs.pivot_table(
        index="round", columns="placement", values="latency_oneway_us", observed=True
    )
    nearer = wide["cross-zone"] < wide["same-zone"]
    assert nearer.mean() in (0, 1)
    guide = (WORKSHOP / "TEACHER.md").read_text("utf-8")
    lesson = (WORKSHOP / "2-one-run-is-no-run.ipynb").read_text("utf-8")
    assert "every round ranks the two zones alike" in guide
    assert "each run ranks the two as all rounds do" in lesson
