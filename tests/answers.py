"""What the recorded experiments and the five studies answer: lead paragraph, verdicts, intervals,
whole.

``python -m tests.answers`` writes them to ``tests/answers``; a difference is a decision, and its
commit says why.
"""

import json
import tempfile
from pathlib import Path

import netperf_lib as npl
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.data.imports import import_logs

from .studies.kept import LOGS, kept
from .studies.published import STUDIES, measured

FOLDER = Path(__file__).with_name("answers")
RECORDED = ("lab-full", "before", "after", "paths", "zones", "day")
NAMES = [
    *RECORDED,
    "before-after",
    *STUDIES,
    *(f"{study}-logs" for study in STUDIES),
]


def comparison(result):
    """Return a comparison as one line."""
    figures = " ".join(
        f"{number:.6g}" for number in (result.ratio, result.low, result.high)
    )
    sides = (
        f"{result.label} below {result.threshold:.6g}"
        if result.threshold
        else result.label
    )
    return f"{result.metric}: {sides}: {result.verdict} {figures} n={result.n}"


def answer(name, folder):
    """Return the lead paragraph and the comparisons of an experiment by its name."""
    recorded = npl.recorded().parent
    if name == "before-after":
        found = npl.compare(recorded / "before", recorded / "after")
        return {"comparisons": [comparison(result) for result in found]}
    if name in RECORDED:
        experiment = npl.read(recorded / name)
    elif name in STUDIES:
        experiment = npl.read(measured(name, folder / "measured"))
    else:
        study = name.removesuffix("-logs")
        rounds, contrasts = LOGS[study]
        logs, labels = kept(study, folder / "logs", rounds=rounds)
        experiment = import_logs(
            logs, labels=labels, into=folder / study, contrasts=contrasts or ()
        )
    return {
        "lead": str(lead_paragraph(experiment)).split(". "),
        "comparisons": [comparison(result) for result in npl.compare(experiment)],
    }


if __name__ == "__main__":
    for each in NAMES:
        with tempfile.TemporaryDirectory() as temporary:
            text = json.dumps(answer(each, Path(temporary)), indent=1, ensure_ascii=False)
        (FOLDER / f"{each}.json").write_text(text + "\n", "utf-8")
        print(each)
