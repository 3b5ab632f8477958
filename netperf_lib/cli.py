"""The commands of the command line.

Each calls the Python function of the same name, and returns what is printed, line by line.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click import argument, option

import netperf_lib

from .data.files import own_path
from .data.layout import experiment_folder, is_experiment
from .errors import (
    NetperfError,
    ReportError,
    UsageError,
    as_cell,
    explain,
    naming,
    visible,
)
from .experiment.starter import HOST_SOURCES, QUESTIONS, starter
from .measure import say_aloud
from .reporting import parse_parameters

if TYPE_CHECKING:
    import pandas as pd

    from .analysis.verdicts import Family
    from .reporting.answer import Answer

Lines: TypeAlias = Iterator[object]
"""What a command prints."""


def _read_by(read: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return what click calls with what was typed, if anything was."""

    def callback(_context: click.Context, _option: click.Parameter, typed: Any) -> Any:
        if typed is None:
            return None
        return read(typed)

    return callback


def _margin(text: str) -> float:
    """Read a percentage: 2% or 0.02."""
    from .analysis.judging import read_margin

    return read_margin(text)


def _levels(texts: Sequence[str]) -> dict[str, str]:
    """Read FACTOR=LEVEL."""
    for text in texts:
        if "=" not in text:
            how = "write FACTOR=LEVEL, for example deployment=1"
            raise click.BadParameter(f"{text!r}: {how}")
    return dict(text.split("=", 1) for text in texts)


def _experiments(folders: Sequence[str]) -> list[str]:
    """Return those of several that are experiments: a shell's pattern names others, too."""
    if len(folders) == 1:
        return [*folders]
    return list(filter(is_experiment, folders)) or [*folders]


PATH, FOLDER = click.Path(path_type=Path), click.Path()
FILE = click.Path(dir_okay=False, path_type=Path)
flag, many = partial(option, is_flag=True), partial(option, multiple=True)
where = partial(many, callback=_read_by(_levels), metavar="FACTOR=LEVEL")
switch = partial(option, default=True, show_default=True)
as_json = flag("--json", "as_json", help="Print machine-readable JSON.")
csv_file = option("--csv", type=FILE, help="Also write the table to this CSV file.")
folder = argument("folder", type=FOLDER)
folders = argument(
    "folders", type=FOLDER, nargs=-1, required=True, callback=_read_by(_experiments)
)
files = argument("files", type=PATH, nargs=-1, required=True)
experiment = argument("experiment", type=FOLDER)
experiment_file = argument("experiment", type=PATH)
root = option(
    "--root",
    default="results",
    show_default=True,
    help="The data root, a folder of experiments.",
)
workers = option(
    "--workers",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    help="Processes that read at a time (default: all cores).",
)
rounds = option(
    "--rounds", help="Number of rounds to measure; +N adds N to those declared."
)
duration = option(
    "--duration",
    "duration_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Duration of every test in seconds.",
)
seed = option(
    "--seed",
    type=int,
    help="Seed of the random order (default: random, stored with the plan).",
)
pattern = option(
    "--pattern",
    help="For raw logs: structure of the paths, such as '{placement}/{tool}-r{round}.txt'.",
)
browser = switch("--browser/--no-browser", help="Open it in the browser.")
MEASURING = (
    experiment_file,
    root,
    rounds,
    duration,
    seed,
    flag("--anew", help="First rename a complete or different measurement of this name."),
    flag("--install", help="Install missing tools on the hosts."),
    flag(
        "--until-decided",
        help="Stop when every contrast is decided, or cannot be decided in the declared rounds.",
    ),
    flag("--anyway", help="Measure even if a declared factor is proven false."),
)
"""What the commands that measure take, named after the parameters of the function called."""


def measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options shared by the commands that measure."""
    for one in reversed(MEASURING):
        command = one(command)
    return command


def _echo(text: object) -> None:
    """Print to standard output.

    The one way there, since labels and names of files come from others.
    """
    click.echo(visible(str(text)))


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, default=str)


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, what of it, words) of what is known of something; what is empty is left out."""
    for name, value in document.items():
        parts = value if isinstance(value, dict) else {"": value}
        for part, words in parts.items():
            if words:
                yield name, part, str(words)


def _described(title: str, document: Mapping[str, Any]) -> Lines:
    """Yield a title and, below it, what is known: each name once."""
    width = max(map(len, document), default=0)
    before = None
    yield title
    for name, part, words in _facts(document):
        shown = "" if name == before else name
        yield f"  {shown:{width}}  {f'{part}: ' if part else ''}{words}"
        before = name


def _write_csv(table: pd.DataFrame, file: Path) -> None:
    cells = table.map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
    with naming(file):
        cells.to_csv(file, index=False)


@click.group("npl", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="netperf_lib", prog_name="npl")
def npl() -> None:
    """Measure the network between two VMs, and judge what makes a difference.

    Start with `npl show data/recorded/lab-full`, or with `npl parse` on a log of your own.

    To complete commands and files in bash: eval "$(_NPL_COMPLETE=bash_source npl)"; for zsh and
    fish write their names instead.
    """


def _command(
    *examples: str, to: click.Group = npl, **options: Any
) -> Callable[..., click.Command]:
    """Add a command, whose help ends in what to type; what it yields is printed as it comes."""
    lines = ["\b", "Example:", *(f"  {line}" for line in examples)]

    def add(command: Callable[..., Lines | None]) -> click.Command:
        @wraps(command)
        def printed(**given: Any) -> None:
            for line in command(**given) or ():
                _echo(line)

        return to.command(epilog="\n".join(lines), **options)(printed)

    return add


@contextmanager
def _progress(text: str) -> Iterator[Callable[..., None]]:
    """Show a bar of (done, total) and the current item on a terminal, from the first of them on."""
    # in a notebook nothing can be drawn over
    if not sys.stderr.isatty() or "JPY_PARENT_PID" in os.environ:
        yield lambda *_: None
        return
    # here, as few commands draw, and the import takes as long as all of pydantic
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True, emoji=False), transient=True)
    task = bar.add_task(text)

    def show(done: int, total: int, name: str = text) -> None:
        bar.start()  # not before there is something to show
        words = escape(visible(name))
        bar.update(task, completed=done, total=total, description=words)

    try:
        yield show
    finally:
        bar.stop()


@_command("npl doctor")
@option(
    "--azure",
    metavar="EXPERIMENT",
    help="Check what an experiment needs in your Azure subscription.",
)
def doctor(azure: str | None) -> Lines:
    """Report what is missing on this machine and how to install it.

    With --azure: check login, zones, access, price and time, and have Azure validate
    the whole. Nothing is created.
    """
    if azure:
        yield from _examined(azure)
        return
    findings = netperf_lib.doctor()
    for f in findings:
        state = "ok" if f.ok else "missing"
        yield f"{state:7}  {f.what:13}  {f.needed_for:18}  {f.found}".rstrip()
    for f in findings:
        if f.remedy:  # on a line of its own, so that it can be copied whole
            yield f"{f.what} ({f.needed_for}): {f.remedy}"
    if not all(f.ok for f in findings if f.needed_for != "Azure"):
        sys.exit(1)


def _examined(file: str) -> Lines:
    """Yield what can be known before the hosts of an experiment are created.

    Exit code 1 if something prevents it.
    """
    from .pipeline import examine

    problems = 0
    for subject, words, fine in examine(file):
        state = "ok" if fine else "PROBLEM"
        problems += not fine
        yield f"{state:7}  {subject:13}  {words}"
    if problems:
        sys.exit(1)
    yield f"npl run {file}"


@_command("npl plan data/experiments/lab.yaml")
@experiment_file
@rounds
@duration
@seed
@option(
    "--template",
    type=PATH,
    metavar="FOLDER",
    help="For Azure: write the template, and the commands that `npl up` runs, into this folder.",
)
@as_json
def plan(as_json: bool, template: Path | None, **options: Any) -> Lines:
    """Show what an experiment would measure, and at what cost.

    Prints the conditions, the time, the traffic, the price and, for Azure, everything that will
    exist; nothing is asked of Azure.
    """
    from .pipeline import save_template

    preview = netperf_lib.plan(**options)
    yield _json(preview.to_dict()) if as_json else preview
    if template is not None:
        say_aloud(f"written: {save_template(options['experiment'], template)}")


@_command("npl init mine.yaml --hosts lab --question placement")
@argument("file", type=FILE)
@switch(
    "--hosts",
    default="lab",
    type=click.Choice(list(HOST_SOURCES)),
    help="Where the hosts are.",
)
@switch(
    "--question",
    default="placement",
    type=click.Choice(list(QUESTIONS)),
    help="The question to answer.",
)
@switch("--rounds", default=10, type=click.IntRange(min=1), help="How many rounds.")
def init(file: Path, **asked: Any) -> Lines:
    """Write a commented experiment file to start from."""
    if file.exists():
        raise click.UsageError(f"{file} exists; choose another name")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._") or "experiment"
    with naming(file):
        file.write_text(starter(name, **asked), "utf-8")
    yield f"{file}: edit it, then `npl plan {file}`"


@_command("npl run data/experiments/lab.yaml --pdf report.pdf")
@measuring
@flag("--or-recorded", help="Report on recorded data if no hosts are available here.")
@option("--pdf", type=PATH, help="Also write the report to this path.")
def run(**options: Any) -> Lines:
    """Place the hosts, measure, report, and remove the hosts."""
    with _progress("notebooks") as progress:
        files = netperf_lib.run(**options, say=say_aloud, progress=progress)
    yield files[-1]


@_command("npl collect data/experiments/lab.yaml --rounds 24")
@measuring
def collect(**options: Any) -> Lines:
    """Measure an experiment, or resume an interrupted measurement."""
    yield netperf_lib.collect(**options, say=say_aloud)


@_command("npl ingest results/lab", "npl ingest results/*")
@folders
@workers
def ingest(folders: Sequence[str], workers: int) -> Lines:
    """Read the raw logs of an experiment, or of several, into tables."""
    from .data.workers import processes

    with _progress("reading") as progress, processes(workers) as executor:
        n = netperf_lib.ingest(folders, progress, executor=executor)
    yield f"{n} runs read"


@_command(
    "npl exclude results/lab d01-r003-qperf-tcp_lat-ppg-2f1a7c30-a1 --because 'maintenance'"
)
@experiment
@argument("run_id")
@option(
    "--because", required=True, metavar="REASON", help="The reason, which reports print."
)
def exclude(experiment: str, run_id: str, because: str) -> None:
    """Exclude one run from every comparison; its raw logs are kept."""
    from .data import raw

    raw.exclude(experiment_folder(experiment), run_id, because)


@_command(
    "npl compare results/lab", "npl compare results/may results/june --fail-on worse"
)
@folder
@argument("after", required=False, type=FOLDER)
@option("--metric", help="Compare only this metric.")
@option(
    "--by",
    help="With one folder: the factor to compare. With two: the factors that define a condition.",
)
@option(
    "--margin",
    callback=_read_by(_margin),
    metavar="PERCENT",
    help="Margin that counts as equivalent, for example 5%.",
)
@where("--where", help="Use only these runs.")
@where("--where-after", help="The same for AFTER.")
@pattern
@many(
    "--fail-on",
    type=click.Choice(["worse", "inconclusive", "no verdict"]),
    help="Exit with code 3 if a comparison has this verdict; can be repeated.",
)
@csv_file
@as_json
def compare(
    folder: str,
    after: str | None,
    by: str | None,
    where_after: dict[str, str],
    csv: Path | None,
    fail_on: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> Lines:
    """Print the verdicts of an experiment, or compare two.

    With one folder: the declared contrasts or, if there are none, every level of each factor
    against the usual level. With AFTER: the conditions of AFTER against those of FOLDER. FOLDER and
    AFTER are experiments or raw logs.

    With one folder, --by prints the levels and ratios of a factor, as in the notebooks.
    """
    from .analysis.verdicts import check_gate
    from .terminal import compared

    factors = by.split(",") if by else None
    lead: Sequence[str] = ()
    levels = None
    result: Family | Answer
    if after is not None:
        options["where_after"] = where_after or None
        result = family = netperf_lib.compare(folder, after, by=factors, **options)
    elif where_after:
        raise click.UsageError("--where-after is for two folders: use --where")
    elif factors:
        result = netperf_lib.ask(folder, by=factors, **options)
        family, levels = result.verdicts, result.levels
    else:
        family, lead = _opening(folder, **options)
        result = family
    if csv is not None:
        _write_csv(family.to_frame(), csv)
    if as_json:
        yield _json({"summary": family.summary, "lead": list(lead), **result.to_dict()})
    else:
        yield compared(family, lead=lead, levels=levels, two=after is not None)
    if fail_on:
        say_aloud(check_gate(family, fail_on))


def _opening(folder: str, **options: Any) -> tuple[Family, Sequence[str]]:
    """Return the comparisons of an experiment as a whole, and what is said of them."""
    from .analysis.lead import lead_paragraph
    from .analysis.observe import observe
    from .analysis.runs import measurement
    from .metrics import PAGES

    lead = lead_paragraph(folder, **options)
    if lead.family:
        return lead.family, lead.lines
    runs = measurement(folder, options["pattern"])
    measured = runs.measured(PAGES)
    if options["where"] and measured:
        # a level that no run has is refused with those that there are
        observe(runs, options["metric"] or measured[0], where=options["where"])
    sentences = filter(None, [*lead.lines, lead.family.notice])
    raise UsageError(f"there is nothing to compare by rule. {' '.join(sentences)}")


@_command("npl limits results/lab")
@experiment
def limits(experiment: str) -> Lines:
    """Print what limits the throughput of each condition.

    Prints the cause (advertised bandwidth, receive window, send buffer, path, a processor, the rate
    that was asked for, or not known) and its evidence.
    """
    from .analysis import limits as transfers
    from .analysis.runs import measurement
    from .metrics import format_value

    source = measurement(experiment)
    limited = transfers.limits(source)
    if source.origin.notice:
        yield source.origin.notice
    for condition, row in limited.iterrows():
        rate = format_value(row.filter(like="throughput").iloc[0], "bps")
        yield f"{condition}: {rate}, limited by: {row['cause']}"
        yield f"  {row['what_to_do']}".rstrip()
    yield transfers.limits_words(limited)


@_command("npl show results/lab", "npl show results/*")
@folders
@csv_file
@as_json
def show(folders: Sequence[str], csv: Path | None, as_json: bool) -> Lines:
    """Show what is in an experiment, or in several.

    Prints its runs, rounds, factors with their levels, metrics and contrasts, and whether it is
    complete.
    """
    from .analysis.contents import at_a_glance

    experiments = at_a_glance(folders)
    if csv is not None:
        _write_csv(_table_of(experiments), csv)
    if as_json:
        yield _json(experiments)
        return
    for one in experiments:
        title = f"{one.pop('experiment')}: {one.pop('title')}".removesuffix(": ")
        yield from _described(title, one)


def _table_of(experiments: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each thing that is said of an experiment."""
    import pandas as pd

    rows = []
    for one in experiments:
        rows += [(one["experiment"], *fact) for fact in _facts(one)]
    return pd.DataFrame(rows, columns=["experiment", "what", "name", "value"])


@_command("npl report results/lab", "npl report results/azure*")
@folders
@many("--notebook", "notebooks", help="Run only this notebook; can be repeated.")
@many(
    "-p",
    "parameters",
    callback=_read_by(parse_parameters),
    metavar="NAME=VALUE",
    help="Set a parameter of the notebooks.",
)
@option(
    "--to",
    type=click.Choice(["pdf", "html"]),
    default="pdf",
    show_default=True,
    help="Format of the report.",
)
@flag("--code", help="Include the code.")
def report(folders: Sequence[str], notebooks: Sequence[str], **options: Any) -> Lines:
    """Make the report of an experiment, or of several over time, as PDF or HTML.

    Executes the notebooks on the experiment and sets them. With --to html, the explorer is written
    beside the pages, which link to it.
    """
    options["notebooks"] = list(notebooks) or None
    try:
        with _progress("notebooks") as progress:
            files = netperf_lib.report(folders, progress=progress, **options)
    except ReportError as error:
        yield from error.reports
        raise
    yield from files


@_command("npl parse iperf3.json", "iperf3 -c HOST -J | npl parse -")
@files
@as_json
def parse(files: Sequence[Path], as_json: bool) -> Lines:
    """Read logs of network benchmarks and print their figures.

    Reads logs of qperf, iperf3, iperf 2, sockperf and ntttcp. FILES are logs (plain or gzipped),
    folders of logs, or - for standard input.
    """
    from .data.logs import parse_files

    with _progress("logs") as progress:
        runs, errors = parse_files(files, progress=progress)
    if as_json:
        yield _json(runs)
    else:
        for run in runs:
            yield from _figures(run)
    for error in errors:
        say_aloud(error)
    if errors:
        sys.exit(1)


@_command(
    "npl import logs/ --labels labels.csv --into results/mine --pdf mine.pdf",
    name="import",
)
@files
@option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the experiment to import into.",
)
@option(
    "--labels", type=FILE, help="CSV file with a row for each log or pattern of logs."
)
@pattern
@option("--pdf", type=FILE, help="Also make the report and write it here.")
@flag("--labels-template", help="Print a labels file to fill in; write nothing.")
def import_(
    files: Sequence[Path],
    into: Path | None,
    pdf: Path | None,
    labels_template: bool,
    **labels: Any,
) -> Lines:
    """Import existing logs as an experiment.

    They can then be compared and reported like measured data. FILES are logs, folders of logs or
    patterns, or tables of figures (CSV, a row a run, metrics and factors as columns). Labels add
    what a log does not contain: placement, hosts, round.
    """
    from .data import imports

    if labels_template:
        yield imports.labels_template(files).removesuffix("\n")
        return
    if into is None:
        raise click.UsageError("use --into results/NAME, or --labels-template")
    with _progress("logs") as progress:
        done = imports.import_logs(files, into=into, **labels, progress=progress)
    yield f"{imports.usable(done.runs)} in {done.path}"
    yield done.notice
    yield imports.factors_in_words(done)
    if done.runs["status"].eq("ok").any():
        from .analysis.lead import lead_paragraph

        yield ""
        yield from lead_paragraph(done).lines
    if pdf is not None:
        from .pipeline import report_to

        yield report_to(done.path, pdf)[-1]


_STATED = ("protocol", "direction", "streams", "message_bytes")
"""Settings that a log states and that `parse` prints."""


def _figures(run: Mapping[str, Any]) -> Lines:
    """Yield where a run is, what it is, and its figures or why it has none."""
    from .experiment.factors import level_words
    from .metrics import METRICS, format_value

    given = run["parameters"]
    stated = [level_words(name, given[name]) for name in _STATED if name in given]
    facts = {"settings": ", ".join(stated)}
    for name, value in run["metrics"].items():
        metric = METRICS[name]
        facts[metric.label] = format_value(value, metric.unit)
    facts["warnings"] = "; ".join(run["warnings"])
    what = " ".join(filter(None, (run["tool"], run["tool_version"], run["test"])))
    states = filter(None, (what, run["status"], run["error"]))
    return _described(f"{run['file']}:{run['line']}: {': '.join(states)}", facts)


@_command("npl up data/experiments/azure-placement.yaml")
@experiment_file
@root
def up(**options: Any) -> Lines:
    """Place the hosts of an experiment and leave them running."""
    for placed in netperf_lib.up(**options):
        yield f"{placed.deployment_id}: {', '.join(h.name for h in placed.hosts)}"


@_command("npl down data/experiments/azure-placement.yaml")
@argument("experiment", type=PATH, required=False)
@root
@flag(
    "--all",
    "every",
    help="Remove all that has this project's tag in the subscription.",
)
@flag("--expired", help="With --all: only what has expired.")
@flag("--yes", help="With --all: do not ask for confirmation.")
def down(
    experiment: Path | None, root: str, every: bool, expired: bool, yes: bool
) -> Lines:
    """Remove the hosts of an experiment; safe to repeat."""
    from .hosts import azure

    if every == (experiment is not None) or (expired and not every):
        raise click.UsageError("give an experiment, or --all (with --expired)")
    if experiment is not None:
        netperf_lib.down(experiment, root=root)
        return
    identity, name = azure.subscription()
    groups = azure.leftovers(identity, expired=expired)
    if not groups:
        kind = "expired" if expired else "of this project"
        yield f"nothing {kind} in subscription {name} ({identity})"
    for group in groups:
        times = f"created {group.created_utc}, expires {group.expires_utc}"
        yield f"{group.name}: {group.experiment}, {times}"
    if groups and (yes or click.confirm("Delete these resource groups?", err=True)):
        azure.down_all(identity, groups)


@_command("npl explore results/lab -o explorer.html")
@argument("experiment", required=False, type=PATH)
@option(
    "-o", "--output", type=PATH, help="The file (default: in reports/ of the experiment)."
)
@browser
def explore(experiment: Path | None, output: Path | None, browser: bool) -> Lines:
    """Write one HTML file that shows every run, and open it.

    The file needs no server, network or Python, and can be sent by mail. The default EXPERIMENT is
    the one measured in the lab or, if there is none, the recorded one.
    """
    folder = netperf_lib.workshop.usual_experiment(experiment)
    file = output or own_path(folder, "reports/explorer.html")
    file.parent.mkdir(parents=True, exist_ok=True)
    netperf_lib.explore(folder).save(file)
    yield file
    if browser:
        click.launch(file.resolve().as_uri())


@npl.group(epilog="\b\nExample:\n  npl workshop start")
def workshop() -> None:
    """Teach with the local lab: lessons with self-checking exercises."""


@_command("npl workshop start my-workshop", to=workshop)
@argument("folder", default="workshop", type=PATH)
@option("--experiment", type=PATH, help="The measured experiment that the lessons use.")
@browser
@switch("--lab/--no-lab", help="Keep the local lab running meanwhile.")
def start(folder: Path, **options: Any) -> None:
    """Copy the lessons into FOLDER and open JupyterLab there, with the lab running."""
    sys.exit(netperf_lib.workshop.start(folder, say=_echo, **options))


@npl.group(epilog="\b\nExample:\n  npl lab up")
def lab() -> None:
    """Run emulated hosts on this machine.

    No cloud account is needed; the tools and SSH are real.
    """


lab_folder = option(
    "--folder", type=PATH, help="Folder of the lab (default: one for each user)."
)


@_command("npl lab up", to=lab, name="up")
@argument("experiment", required=False, type=PATH)
@lab_folder
def lab_up(experiment: Path | None, folder: Path | None) -> None:
    """Run a lab until interrupted: the default lab, or that of an EXPERIMENT."""
    from . import hosts
    from .hosts import lab as source

    options = source.Options()
    if experiment:
        from .experiment.yaml import load_experiment

        options = hosts.options(load_experiment(experiment))
    source.run_foreground(options, folder)


@_command(
    "npl lab shell client ping -c 3 region",
    to=lab,
    context_settings={"ignore_unknown_options": True},
)
@argument("host")
@argument("command", nargs=-1, type=click.UNPROCESSED)
@lab_folder
def shell(host: str, command: tuple[str, ...], folder: Path | None) -> None:
    """Open a shell on a HOST of the running lab, or run a COMMAND there."""
    from .hosts import lab as source

    sys.exit(source.shell(host, folder, command))


def main() -> None:
    """Run the command line; an error that a user can cause is one line and an exit code."""
    # importing libraries creates hardly any garbage, and exit frees the rest: collecting takes a
    # quarter of the time
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    # SIGTERM or a closed terminal unwinds like Ctrl-C, so that the hosts placed are taken down
    for number in (
        signal.SIGTERM,
        getattr(signal, "SIGHUP", signal.SIGTERM),
    ):  # not on Windows
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        npl.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        # an interrupt within an `exec`, as libraries do when imported, leaves a mark by which
        # `python -m` later dies of the signal; the next `exec` takes it away
        exec("")  # noqa: S102
        say_aloud("npl: interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except NetperfError as error:
        say_aloud(f"npl: {error}")
        sys.exit(error.exit_code)
    except Exception as error:
        if (text := explain(error)) is None:
            raise
        say_aloud(f"npl: {text}")
        sys.exit(1)


if __name__ == "__main__":
    main()
