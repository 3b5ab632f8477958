"""The small recordings that come with the notebooks: planted values, made by ``python -m
tests.recordings``.

Each has what one notebook is about: paths, pairs of zones, a day with an incident, and two
measurements with a change between them. The lab cannot measure these; nothing here says anything
about a network.
"""

import shutil
from datetime import timedelta
from pathlib import Path

from netperf_lib.experiment.yaml import load_experiment

from .studies.published import DECLARED, START, STUDIES, planted

FOLDER = Path(__file__).parents[1] / "data" / "recorded"
NOTICE = (
    "Synthetic data: values planted around published figures; no network was measured."
)
ZONES = {"zone1-zone2": 402.0, "zone2-zone3": 386.0, "zone3-zone1": 113.0}


def _declared(study, name, title, **changes):
    experiment = load_experiment(DECLARED / f"{study}.yaml")
    return experiment.model_copy(update={"name": name, "title": title, **changes})


def _zones(trial):
    """Return each pair of zones, 2 % slower the other way round."""
    there, back = f"{trial.pair.client}-{trial.pair.server}", 1.0
    if there not in ZONES:
        there, back = f"{trial.pair.server}-{trial.pair.client}", 1.02
    if trial.test.test == "tcp_lat":
        return {"latency_oneway_us": ZONES[there] * back}
    return {"throughput_bps": 16e9}


def _after(trial):
    """Return what was before, but the other zone has become slower."""
    slower = 1.15 if trial.pair.placement == "cross-zone" else 1.0
    values = STUDIES["study-placement"](trial)
    return {
        name: value * (slower if name.endswith("_us") else 1)
        for name, value in values.items()
    }


def _incident(at):
    return 1.18 if 15 <= at.hour < 19 else 1.0


def _zones_experiment():
    title = "Every pair of zones, in both directions"
    experiment = _declared("study-domains", "zones", title, rounds=12, contrasts=())
    rename = {"ad1": "zone1", "ad2": "zone2", "ad3": "zone3"}
    ends = [(rename[p.client], rename[p.server]) for p in experiment.pairs]
    both = [*zip(experiment.pairs, ends, strict=True)]
    both += [(pair, (server, client)) for pair, (client, server) in both]
    pairs = tuple(p.model_copy(update={"client": a, "server": b}) for p, (a, b) in both)
    given = experiment.hosts.options
    hosts = {rename[name]: host for name, host in given["hosts"].items()}
    source = experiment.hosts.model_copy(update={"options": {**given, "hosts": hosts}})
    return experiment.model_copy(update={"pairs": pairs, "hosts": source})


def write(root=FOLDER):
    """Write every recording below `root`; return their folders."""
    every = {"rounds": 288, "pause_s": 298.7}
    day = _declared("study-minute", "day", "A day, a run every five minutes", **every)
    before = _declared("study-placement", "before", "Placements, before a change")
    after = _declared("study-placement", "after", "Placements, a week later")
    paths = _declared("study-paths", "paths", "Ways between two VMs")
    hours = {"start": START.replace(hour=0), "change": _incident, "noise": 0.03}
    later = {"start": START + timedelta(days=7), "seed": 6}
    made = [
        (paths, STUDIES["study-paths"], {}),
        (_zones_experiment(), _zones, {}),
        (day, STUDIES["study-minute"], hours),
        (before, STUDIES["study-placement"], {}),
        (after, _after, later),
    ]
    folders = []
    for experiment, truth, options in made:
        shutil.rmtree(root / experiment.name, ignore_errors=True)
        folders.append(planted(experiment, truth, root, notice=NOTICE, **options))
    return folders


if __name__ == "__main__":
    for path in write():
        print(path)
