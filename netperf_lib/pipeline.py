"""The commands that join the parts: place the hosts, measure, read, report, remove the hosts.

The modules that read and measure are imported by the functions that need them, so that `plan`
answers at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import hosts
from .data.declaration import (
    declare,
    read_plan,
    set_aside_unless_open,
    write_deployment,
    write_plan,
)
from .data.layout import hosts_dir, lock, trial_of
from .data.raw import run_ids, runs
from .data.shipped import PathLike, recorded
from .errors import CollectError, HostError, ReportError, UsageError
from .experiment import estimate
from .experiment.deployment import Deployment
from .experiment.estimate import Preview
from .experiment.model import Experiment
from .experiment.origin import Measured, Origin
from .experiment.schedule import Plan, schedule
from .experiment.yaml import load_experiment
from .reporting.execute import PageProgress, report


def plan(
    experiment: PathLike,
    *,
    rounds: str | int | None = None,
    duration_s: float | None = None,
    seed: int | None = None,
) -> Preview:
    """Preview an experiment: trials, duration, traffic and cost.

    Parameters
    ----------
    experiment, rounds, duration_s, seed
        As in `run`.

    Examples
    --------
    >>> str(npl.plan("data/experiments/lab.yaml")).splitlines()[1]
    '168 trials = 14 conditions × 12 rounds'
    """
    declared = _load(experiment, rounds, duration_s)
    scheduled = schedule(declared, seed=seed)
    source = hosts.source(declared.hosts.source)
    try:
        price = source.cost(declared, workload=_workload(scheduled))
    except UsageError as error:
        raise UsageError(f"{experiment}: {error}") from None
    return Preview(plan=scheduled, price=price)


def save_template(experiment: PathLike, folder: PathLike) -> Path:
    """Write the template of a cloud, and the commands that `up` will run, into a new folder.

    Returns
    -------
    Path
        The commands; the template and its parameters, with private keys, are beside it.

    Raises
    ------
    UsageError
        The hosts of this source are not created in a cloud, or the folder exists.
    """
    declared, place = _load(experiment), Path(folder)
    source = _cloud(declared)
    if place.exists():
        raise UsageError(f"{place} exists; choose another name")
    script: Path = source.write_template(declared, place)
    return script


def run(
    experiment: PathLike,
    *,
    root: PathLike = "results",
    or_recorded: bool = False,
    pdf: PathLike | None = None,
    say: Callable[[str], None] = print,
    progress: PageProgress | None = None,
    **measuring: Any,
) -> list[Path]:
    """Measure an experiment and report on it, or resume an interrupted measurement.

    Parameters
    ----------
    experiment, root, say
        As in `collect`.
    or_recorded : bool
        If the hosts are not available here, say why and report on the `recorded` experiment.
    pdf : path, optional
        Where to write a copy of the combined report.
    progress : callable, optional
        Called while the report is made, as `netperf_lib.report` does.
    **measuring
        Further parameters of `collect`.

    Returns
    -------
    list of Path
        The PDFs; the combined report is the last.
    """
    from .analysis.lead import lead_paragraph
    from .data.ingest import ingest

    failed = None
    try:
        folder = collect(experiment, root=root, say=say, **measuring)
    except HostError as error:
        if not or_recorded:
            raise
        say(f"Nothing can be measured here: {error}")
        say(f"The report is made from recorded data instead: {recorded()}")
        # a copy, because the original may be in a read-only location
        folder = Path(root, f"{recorded().name}-recorded")
        shutil.copytree(recorded(), folder, dirs_exist_ok=True)
    except CollectError as error:  # runs that were measured are reported anyway
        folder = Path(root, _load(experiment).name)
        if not any(record.status == "ok" for record in runs(folder)):
            raise
        failed = error
        say(str(error))
    say(f"{ingest(folder)} runs read into tables under {folder}")
    say("The report is being made")
    files = report_to(folder, pdf, progress)
    for line in lead_paragraph(folder).lines:
        say(line)
    if failed:
        raise failed
    return files


def report_to(
    folder: PathLike,
    pdf: PathLike | None = None,
    progress: PageProgress | None = None,
) -> list[Path]:
    """Make the reports of an experiment, and copy the combined one to `pdf`.

    Even if a page failed.
    """
    try:
        files = report(folder, progress=progress)
    except ReportError as error:
        if pdf is not None and error.reports:
            shutil.copyfile(error.reports[-1], pdf)
        raise
    if pdf is not None:
        files.append(Path(shutil.copyfile(files[-1], pdf)))
    return files


def collect(
    experiment: PathLike,
    *,
    root: PathLike = "results",
    rounds: str | int | None = None,
    duration_s: float | None = None,
    seed: int | None = None,
    anew: bool = False,
    install: bool = False,
    until_decided: bool = False,
    anyway: bool = False,
    say: Callable[[str], None] = print,
) -> Path:
    """Measure an experiment, or resume an interrupted measurement.

    Parameters
    ----------
    experiment, root : path
        The YAML file of the experiment, and the data root.
    rounds : int or str, optional
        Rounds to measure; ``"+6"`` adds six to those declared.
    duration_s : float, optional
        Duration of every test in seconds, instead of those declared.
    seed : int, optional
        Seed of the random order.
    anew : bool
        First rename a complete or different measurement of this name.
    install : bool
        Install missing tools on the hosts.
    until_decided : bool
        Stop after the round in which every declared contrast is settled, or cannot be settled in
        the declared rounds. The verdicts are then those of a sequential design, which stay valid
        however often the data are examined.
    anyway : bool
        Measure even if a declared factor, such as the placement, is proven false; the report says
        so.
    say : callable
        Called with each progress message.

    Raises
    ------
    HostError
        The hosts cannot be reached or placed, or a declared factor is proven false.
    CollectError
        Some trials have no complete run after all attempts; everything else was measured.
    """
    from .measure.collector import failures

    declared = _load(experiment, rounds, duration_s)
    folder = Path(root, declared.name)
    if anew and (aside := set_aside_unless_open(folder, declared)):
        say(f"The previous measurement is kept in {aside}")
    enough = decided(folder, declared) if until_decided else None
    # before any host is touched: running hosts may be another collector's
    with lock(folder):
        scheduled = _schedule(folder, declared, seed, looked=until_decided)
        for number in range(1, declared.deployments + 1):
            how = {"install": install, "enough": enough, "say": say}
            _measure(scheduled, folder, number, anyway=anyway, **how)
        if why := failures(scheduled, folder):
            raise CollectError(why)
    return folder


def _measure(
    scheduled: Plan, folder: Path, number: int, *, anyway: bool, **how: Any
) -> None:
    """Place the hosts of a deployment and measure what is left of it."""
    from .measure.collector import collect as measure
    from .measure.collector import is_complete

    declared, state, say = scheduled.experiment, hosts_dir(folder), how["say"]
    if is_complete(scheduled, folder, number=number):
        say(f"Deployment {number}: nothing is left to measure.")
        hosts.release(declared, state=state, number=number)
        return

    def spent() -> str | None:
        """Return a message if the cost of the hosts has reached the budget."""
        if declared.budget is None:
            return None
        done = len(run_ids(folder)) / len(scheduled.trials)
        return hosts.budget_reached(declared, state=state, done=min(1.0, done))

    workload = _workload(scheduled)
    with hosts.deployed(
        declared, number=number, state=state, workload=workload
    ) as placed:
        write_deployment(folder, number, placed)
        if placed.notice:
            say(placed.notice)
        if false := "; ".join(placed.contradictions()):
            say(f"Proven false: {false}")
            if not anyway:
                raise HostError(
                    f"{declared.name}: nothing was measured, since it is proven false that "
                    f"{false}: change the declaration, or measure --anyway"
                )
        how |= {"number": number, "spent": spent, "locked": True}
        say(f"{measure(scheduled, placed, folder, **how)}.")


def decided(folder: Path, experiment: Experiment) -> Callable[[], str | None]:
    """Return the stopping rule: every declared contrast is settled or futile."""
    if not experiment.contrasts:
        raise UsageError(
            f"{experiment.name}: declares no contrasts, so there is nothing to decide; declare some"
        )

    def enough() -> str | None:
        from .analysis.compare import compare
        from .analysis.judging import until_decided
        from .data.load import load

        runs = load(folder)
        # earlier deployments are complete
        latest = runs[runs["deployment"] == runs["deployment"].max()]
        rounds_left = experiment.rounds - int(latest["round"].max())
        declared = experiment.model_dump(mode="json", include={"contrasts", "alpha"})
        looked = Origin(declared | {"design": "sequential"})
        family = compare(Measured(latest, looked))
        interim = until_decided(family, rounds_left=rounds_left)
        if interim.stop:
            return interim.words
        return None

    return enough


def _load(
    experiment: PathLike, rounds: str | int | None = None, duration_s: float | None = None
) -> Experiment:
    declared = load_experiment(experiment, rounds=rounds, duration_s=duration_s)
    hosts.options(declared, experiment)
    return declared


def _cloud(experiment: Experiment) -> Any:
    """Return the source of hosts of an experiment; UsageError if it creates nothing in a cloud."""
    source = hosts.source(experiment.hosts.source)
    if not hasattr(source, "examine"):
        raise UsageError(
            f"source {experiment.hosts.source!r} creates nothing in a cloud; use `npl plan` alone"
        )
    return source


def _workload(scheduled: Plan) -> hosts.Workload:
    """Summarize the plan for a source of hosts."""
    return hosts.Workload(
        measuring_s=estimate.duration_s(scheduled),
        traffic=estimate.traffic(scheduled),
        notes=tuple(Preview(plan=scheduled).notes()),
    )


def _schedule(folder: Path, declared: Experiment, seed: int | None, looked: bool) -> Plan:
    """Return the schedule, in which trials that were measured keep their positions.

    It is stored, with those of rounds no longer asked for, and whether the data ever decided when
    to stop: verdicts are then judged more strictly.
    """
    declare(folder, declared)
    stored = read_plan(folder) or {}
    measured = {trial_of(run_id) for run_id in run_ids(folder)}
    before = stored.get("seed")
    if seed is None:
        seed = before
    elif measured and before not in (None, seed):
        raise UsageError(
            f"{folder} was started with seed {before}; omit --seed, or choose another root"
        )
    scheduled = schedule(declared, seed=seed)
    rows = {}
    if measured:
        rows = {row["run_id"]: row for row in stored.get("trials", ())}
    scheduled = scheduled.in_order_of(rows)
    document = scheduled.to_dict()
    planned = {row["run_id"] for row in document["trials"]}
    kept = measured - planned
    document["trials"] += [row for run_id, row in rows.items() if run_id in kept]
    document["looked"] = looked or bool(stored.get("looked"))
    write_plan(folder, document)
    return scheduled


def up(experiment: PathLike, *, root: PathLike = "results") -> list[Deployment]:
    """Place the hosts of an experiment and leave them running; safe to repeat.

    Raises
    ------
    UsageError
        Hosts of this source exist only as long as the process that placed them.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> [placed] = npl.up("data/recorded/zones/experiment.yaml", root=mkdtemp())
    >>> [host.name for host in placed.hosts]
    ['zone1', 'zone2', 'zone3']
    """
    declared = _load(experiment)
    source = hosts.source(declared.hosts.source)
    if source.EPHEMERAL and not source.HOLDS:
        raise UsageError(
            f"hosts of source {declared.hosts.source!r} exist only during a measurement; "
            "use `npl run` or `npl collect`, or `npl lab up` to keep a lab running"
        )
    folder = Path(root, declared.name)
    declare(folder, declared)
    state = hosts_dir(folder)
    deployments = []
    workload = _workload(schedule(declared, seed=0))
    for number in range(1, declared.deployments + 1):
        deployments.append(
            source.up(declared, number=number, state=state, workload=workload)
        )
        write_deployment(folder, number, deployments[-1])
    return deployments


def down(experiment: PathLike, *, root: PathLike = "results") -> None:
    """Remove the hosts of an experiment; safe to repeat.

    Examples
    --------
    >>> npl.down("data/experiments/lab.yaml")  # a lab ends with its caller
    """
    declared = _load(experiment)
    state = hosts_dir(Path(root, declared.name))
    hosts.source(declared.hosts.source).down(declared, state=state)


def examine(experiment: PathLike) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, finding or remedy, in order?) of what is known of a cloud at once.

    Nothing is created for it.
    """
    declared = _load(experiment)
    source = _cloud(declared)
    yield from source.examine(declared, workload=_workload(schedule(declared, seed=0)))
