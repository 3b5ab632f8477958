"""What was declared, scheduled and placed; the first run freezes the contrasts, once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter

from ..errors import StoreError
from ..experiment.deployment import Deployment
from ..experiment.model import Contrast, Experiment
from .files import explained, is_there, last_name, names, own_path, read_plain, write
from .layout import (
    DECLARED,
    PLAN,
    experiments,
    is_experiment,
    lock,
    now,
    read_json,
    trial_of,
    without_controls,
    write_json,
)
from .raw import DECLARED_DIGESTS, list_declared, raw_folders, run_ids, runs

FREE = {"rounds", "contrasts", "title", "attempts", "seed", "budget", "factors"}
"""Fields that may change after the first run, since they change no condition. (Contrasts are
frozen separately.)"""
REACH = set(
    "address port user identity known_hosts ssh_config host_keys management".split()
)
"""Options of an inventory that may change too: how SSH reaches a host does not matter to what is
measured on it."""
_DEPLOYMENTS = TypeAdapter(Deployment)
_DEPLOYMENT = re.compile(r"deployment-(\d+)\.json")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declaration made before the data, and later additions."""

    experiment: Experiment
    """The experiment with the contrasts declared before the first run; only these get verdicts."""
    frozen_utc: str | None = None
    """Time of the first run; None before it."""
    digest: str | None = None
    """SHA-256 of the frozen contrasts; every run.json carries it."""
    added: tuple[Contrast, ...] = ()
    """Contrasts declared after the first run."""


class _Frozen(BaseModel):
    """The contrasts that the first run froze."""

    utc: str | None
    alpha: float
    contrasts: tuple[Contrast, ...]
    sha256: str


class _Plan(BaseModel):
    """What is read of plan.json."""

    trials: tuple[dict[str, Any], ...] = ()
    frozen: _Frozen | None = None


def declare(folder: Path, experiment: Experiment) -> None:
    """Store the experiment as declared.

    StoreError if runs were measured under another declaration.

    Once runs exist, the contrasts are frozen: others are stored as added, with the time, and
    get no verdict.
    """
    if not is_measured(folder):
        _write_declared(folder, experiment)
        plan = read_plan(folder) or {}
        if plan.pop("frozen", None):  # by a run that did not appear
            _write_plan(folder, plan)
        return
    freeze(folder)
    before = declaration(folder)
    if not _continues(folder, before.experiment, experiment):
        raise StoreError(
            f"{folder}: runs were measured here under another declaration of "
            f"{experiment.name!r}; measure with --anew, which renames the earlier measurement, "
            "or give the changed experiment another name"
        )
    known = (*before.experiment.contrasts, *before.added)
    seen = set(map(_same, known))
    added = [c for c in experiment.contrasts if _same(c) not in seen]
    changed = experiment.model_copy(update={"contrasts": (*known, *added)})
    if changed != before.experiment.model_copy(update={"contrasts": known}):
        _write_declared(folder, changed)


def is_measured(folder: Path) -> bool:
    """Return whether there is a declaration, and a run."""
    return is_experiment(folder) and bool(raw_folders(folder))


def declaration(folder: Path) -> Declaration:
    """Return what was declared before the first run and what was added later."""
    with explained(folder / DECLARED):
        written = Experiment.model_validate(without_controls(_read_declared(folder)))
    plan = read_plan(folder) or {}
    if (frozen := _Plan.model_validate(plan).frozen) is None:
        return Declaration(experiment=written)
    known = set(map(_same, frozen.contrasts))
    fixed = {"contrasts": frozen.contrasts, "alpha": frozen.alpha}
    return Declaration(
        experiment=written.model_copy(update=fixed),
        frozen_utc=frozen.utc,
        digest=_digest_of(plan["frozen"]),
        added=tuple(c for c in written.contrasts if _same(c) not in known),
    )


def _read_declared(folder: Path) -> Any:
    """Return the content of experiment.yaml.

    It was written without aliases: a few lines of them may unfold to gigabytes.
    """
    text = read_plain(folder, DECLARED)
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            where = f"{folder / DECLARED}: line {line}: an alias of yaml"
            raise StoreError(f"{where}; write what it stands for")
    return yaml.load(text, _LOADER)  # noqa: S506


def freeze(folder: Path, utc: str | None = None) -> dict[str, Any] | None:
    """Freeze the contrasts, unless an earlier run did; return the entry for every run.json."""
    if not is_experiment(folder):
        return None
    plan = read_plan(folder) or {}
    if (frozen := plan.get("frozen")) is None:
        experiment = declaration(folder).experiment
        contrasts = [
            {**c.model_dump(mode="json", exclude_defaults=True), "margin": c.margin}
            for c in experiment.contrasts
        ]
        before = None if raw_folders(folder) else utc or now()
        frozen = {"utc": before, "alpha": experiment.alpha, "contrasts": contrasts}
        frozen["sha256"] = _digest_of(frozen)
        _write_plan(folder, plan | {"frozen": frozen})
    return {"utc": frozen["utc"], "sha256": frozen["sha256"]}


def _digest_of(frozen: Mapping[str, Any]) -> str:
    """Digest of frozen contrasts."""
    content = {"alpha": frozen["alpha"], "contrasts": frozen["contrasts"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _same(contrast: Contrast) -> str:
    """Key under which two contrasts are the same: everything but the wording of the question."""
    document = contrast.model_dump(mode="json", exclude={"question"})
    return json.dumps(document, sort_keys=True)


def _continues(folder: Path, declared: Experiment, changed: Experiment) -> bool:
    """Whether runs of the changed experiment belong to those that exist."""
    measured = any(record.started_utc for record in runs(folder))
    return _fixed(declared, measured) == _fixed(changed, measured)


def _fixed(experiment: Experiment, measured: bool) -> dict[str, Any]:
    """What may not change any more.

    While nothing was measured, all that is said of the hosts of an inventory may.
    """
    fixed = experiment.model_dump(mode="json", exclude=FREE)
    if experiment.hosts.source == "inventory":
        options = fixed["hosts"]["options"] if measured else {}
        hosts = {}
        for name, machine in (options.get("hosts") or {}).items():
            known = {"data_address": (machine or {}).get("address", name)}
            hosts[name] = known | _without(machine or {}, REACH)
        fixed["hosts"] = _without(options, REACH) | {"hosts": hosts}
    return fixed


def _without(document: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    return {k: v for k, v in document.items() if k not in keys}


def set_aside_unless_open(folder: Path, experiment: Experiment) -> Path | None:
    """Make room for measuring `experiment` again.

    Return the new location of the previous measurement.

    An incomplete measurement of the same declaration stays in place: then, as if nothing was
    measured, None.
    """
    if not is_measured(folder):
        return None
    declared = declaration(folder).experiment
    same = _continues(folder, declared, experiment)
    measured = set(map(trial_of, run_ids(folder)))
    trials = (read_plan(folder) or {}).get("trials", ())
    is_open = declared.rounds == experiment.rounds and len(measured) < len(trials)
    if same and is_open:
        return None
    aside = folder.with_name(f"{last_name(folder)}-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    with lock(folder):
        folder.rename(aside)
    return aside


def last_set_aside(folder: Path) -> str | None:
    """Return the path of the last measurement of this name that was set aside.

    None if there is none.
    """
    aside = re.compile(re.escape(folder.name) + r"-\d{8}T\d{6}(-\d+)?")
    beside = experiments(folder.parent)
    return max((one for one in beside if aside.fullmatch(Path(one).name)), default=None)


# -- the schedule ----------------------------------------------------------------------------------


def write_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Store the schedule (a JSON document); the frozen contrasts stay."""
    before = read_plan(folder) or {}
    kept = {"frozen": before["frozen"]} if "frozen" in before else {}
    _write_plan(folder, {**plan, **kept})


def read_plan(folder: Path) -> dict[str, Any] | None:
    """Return the schedule, or None if there is none."""
    plan = read_json(folder, PLAN)
    with explained(folder / PLAN):
        _Plan.model_validate(plan or {})
    return plan


def _write_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    write_json(folder, PLAN, plan)
    _list_again(folder)


def _write_declared(folder: Path, experiment: Experiment) -> None:
    document = experiment.model_dump(mode="json", exclude_unset=True)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    write(own_path(folder, DECLARED), text.encode())
    _list_again(folder)


def _list_again(folder: Path) -> None:
    """List what was declared and scheduled, if an earlier state of it is listed."""
    if is_there(folder / DECLARED_DIGESTS):
        list_declared(folder)


# -- the hosts -------------------------------------------------------------------------------------


def write_deployment(folder: Path, number: int, deployment: Deployment) -> None:
    """Store where the hosts of deployment `number` were placed, and the proofs."""
    write_json(folder, f"hosts/deployment-{number:02d}.json", asdict(deployment))


def deployments(folder: Path) -> dict[int, Deployment]:
    """Return every stored deployment by its number, in order."""
    stored = {}
    for name in names(folder / "hosts"):
        if match := _DEPLOYMENT.fullmatch(name):
            with explained(folder / "hosts" / name):
                document = read_json(folder, f"hosts/{name}")
                stored[int(match[1])] = _DEPLOYMENTS.validate_python(document)
    return stored


def claims(folder: Path) -> list[dict[str, Any]]:
    """Return the claims about the hosts.

    Each a `Proof` with ``deployment`` and ``host`` (empty: of all).
    """
    found = []
    for deployment in deployments(folder).values():
        made = sorted(deployment.claims(), key=lambda claim: claim[0] != "")
        for host, proof in made:
            where = {"host": host, "deployment": deployment.deployment_id}
            found.append(asdict(proof) | where)
    return found
