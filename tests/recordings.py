"""The small recordings that come with the notebooks: planted values, made by ``python -m tests.recordings``.

Each has what one notebook is about: paths, pairs of zones, a day with an incident, and two measurements with a change
between them. The lab cannot measure these; nothing here says anything about a network.
"""

import shutil
from datetime import timedelta
from pathlib import Path

from netperf_lib.experiment.yaml import load_experiment

from .studies.published import DECLARED, START, STUDIES, planted

FOLDER = Path(__file__).parents[1] / "data" / "recorded"
NOTICE = "Synthetic data: values planted around published figures; no network was measured."
ZONES = {"zone1-zone2": 402.0, "zone2-zone3": 386.0, "zone3-zone1": 113.0}


def _declared(study, name, title, **changes):
    experiment = load_experiment(DECLARED / f"{study}.yaml")
    return experiment.model_copy(update={"name": name, "title": title, **changes})


def _zones(trial):
    """Each pair of zones, 2 % slower the other way round."""
    pair = f"{trial.pair.client}-{trial.pair.server}"
    back = pair not in ZONES
    one_way = ZONES["-".join(reversed(pair.split("-"))) if back else pair] * (1.02 if back else 1.0)
    return (
        {"latency_oneway_us": one_way} if trial.test.test == "tcp_lat" else {"throughput_bps": 16e9}
    )


def _after(trial):
    """As before, but the other zone has become slower."""
    slower = 1.15 if trial.pair.placement == "cross-zone" else 1.0
    values = STUDIES["study-placement"](trial)
    return {
        name: value * (slower if name.endswith("_us") else 1.0) for name, value in values.items()
    }


def _incident(at):
    return 1.18 if 15 <= at.hour < 19 else 1.0


def _zones_experiment():
    experiment = _declared(
        "study-domains", "zones", "Every pair of zones, in both directions", rounds=12, contrasts=()
    )
    rename = {"ad1": "zone1", "ad2": "zone2", "ad3": "zone3"}
    there = [
        p.model_copy(update={"client": rename[p.client], "server": rename[p.server]})
        for p in experiment.pairs
    ]
    back = [p.model_copy(update={"client": p.server, "server": p.client}) for p in there]
    options = dict(experiment.hosts.options)
    options["hosts"] = {rename[name]: host for name, host in options["hosts"].items()}
    hosts = experiment.hosts.model_copy(update={"options": options})
    return experiment.model_copy(update={"pairs": (*there, *back), "hosts": hosts})


def write(root=FOLDER):
    """Write every recording below `root`; return their folders."""
    day = _declared(
        "study-minute", "day", "A day, a run every five minutes", rounds=288, pause_s=298.7
    )
    before = _declared("study-placement", "before", "Placements, before a change")
    after = _declared("study-placement", "after", "Placements, a week later")
    midnight = START.replace(hour=0)
    made = {
        "paths": (
            _declared("study-paths", "paths", "Ways between two VMs"),
            STUDIES["study-paths"],
            {},
        ),
        "zones": (_zones_experiment(), _zones, {}),
        "day": (
            day,
            STUDIES["study-minute"],
            {"start": midnight, "change": _incident, "noise": 0.03},
        ),
        "before": (before, STUDIES["study-placement"], {}),
        "after": (after, _after, {"start": START + timedelta(days=7), "seed": 6}),
    }
    folders = []
    for name, (experiment, truth, options) in made.items():
        shutil.rmtree(root / name, ignore_errors=True)
        folders.append(planted(experiment, truth, root, notice=NOTICE, **options))
    return folders


if __name__ == "__main__":
    for path in write():
        print(path)
