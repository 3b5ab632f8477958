"""The list of commands in ``npl --help``, grouped by who needs them, and an example for each."""

from __future__ import annotations

import click

GROUPS = {
    "Existing logs": ("parse", "import"),
    "Measuring": ("init", "plan", "up", "collect", "run", "down", "ingest", "lab"),
    "Results": ("show", "report", "explore", "compare", "limits"),
    "Storing": ("verify", "exclude"),
    "Teaching": ("workshop",),
    "Setup": ("doctor",),
}
EXAMPLES = {
    "collect": "npl collect data/experiments/lab.yaml --rounds 24",
    "compare": "npl compare results/lab\nnpl compare results/may results/june --fail-on worse",
    "doctor": "npl doctor",
    "down": "npl down data/experiments/azure-placement.yaml",
    "exclude": "npl exclude results/lab d01-r003-qperf-tcp_lat-ppg-2f1a7c30-a1 --because 'maintenance'",
    "explore": "npl explore results/lab -o explorer.html",
    "import": "npl import logs/ --labels labels.csv --into results/mine --pdf mine.pdf",
    "ingest": "npl ingest results/lab",
    "init": "npl init mine.yaml --hosts lab --question placement",
    "limits": "npl limits results/lab",
    "parse": "npl parse iperf3.json\niperf3 -c HOST -J | npl parse -",
    "plan": "npl plan data/experiments/lab.yaml",
    "report": "npl report results/lab",
    "run": "npl run data/experiments/lab.yaml --pdf report.pdf",
    "show": "npl show results/lab",
    "up": "npl up data/experiments/azure-placement.yaml --dry-run",
    "verify": "npl verify results/lab",
    "lab": "npl lab up",
    "lab up": "npl lab up",
    "lab status": "npl lab status",
    "lab down": "npl lab down",
    "lab shell": "npl lab shell client ping -c 3 10.77.0.2",
    "workshop": "npl workshop start",
    "workshop start": "npl workshop start my-workshop",
}


class Verbs(click.Group):
    """A group whose commands end their help with an example, and which lists them by who needs them."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command with its example."""
        key = cmd.name or "" if self.name == "npl" else f"{self.name} {cmd.name}"
        lines = EXAMPLES[key].splitlines()
        cmd.epilog = "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
        super().add_command(cmd, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups."""
        if self.name != "npl":
            super().format_commands(ctx, formatter)
            return
        widest = max(map(len, self.commands))
        for title, names in GROUPS.items():
            rows = [
                (n.ljust(widest), self.commands[n].get_short_help_str(formatter.width - widest - 6))
                for n in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
