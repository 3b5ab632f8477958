"""The confusion matrix of "limited by": causes planted in the lab, measured by the real thing,
named by the rules.

``python -m tests.analysis.limits_matrix [--rounds N] [--write]`` (root, Linux, control group of
processors) measures every planted setting once in each round and prints the matrix as Markdown;
``--write`` puts it into the documentation. The truth comes from the settings: of one cause the
cause, of two those that bring 10 % or more when they are raised for real. A run in which the lab
itself waited for a processor is left out, and counted.
"""

import argparse
import contextlib
import os
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

from netperf_lib.analysis.limits import UNKNOWN, of_run
from netperf_lib.data.layout import Store
from netperf_lib.data.load import load
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.hosts import lab
from netperf_lib.measure.collector import collect
from netperf_lib.measure.progress import Progress

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "limits.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
CAUSES = (
    "link",
    "receive window",
    "send buffer",
    "loss",
    "sender's CPU",
    "receiver's CPU",
    "rate",
)
WAITED = 0.1
PAYLOAD = 0.957
"""Payload as a share of the rate of a link."""
GROUP = Path("/sys/fs/cgroup/cpu/netperf_lib_limits")
K = 1024
KEPT = {"net.ipv4.tcp_no_metrics_save": "1"}
LARGE = {
    "net.ipv4.tcp_rmem": f"4096 131072 {32 << 20}",
    "net.ipv4.tcp_wmem": f"4096 16384 {32 << 20}",
}


def small(kind, size):
    return LARGE | {
        f"net.ipv4.tcp_{kind}mem": f"4096 {min(size, 131072 if kind == 'r' else 16384)} {size}"
    }


class Bed:
    """Hosts, links and tests of the experiment, and what was planted in each of its placements."""

    def __init__(self, only):
        self.only = only
        self.hosts = {"client": {"name": "client", "sysctls": LARGE}}
        self.links = {}
        self.pairs = []
        self.tests = []
        self.planted = {}

    def plant(
        self,
        *causes,
        ms,
        rate=None,
        loss=0,
        rmem=0,
        wmem=0,
        streams=1,
        **options,
    ):
        """Plant causes between two hosts: a round-trip time in ms, and what bounds the transfer."""
        if self.only not in causes[0]:
            return
        parts = {
            "t": ms,
            "l": (rate or 0) / 1e6,
            "x": loss,
            "r": rmem // K,
            "w": wmem // K,
        }
        name = "-".join(f"{k}{v:g}" for k, v in parts.items() if v)
        sender = (
            "cpu-sender"
            if "sender's CPU" in causes
            else f"w{wmem // K}"
            if wmem
            else "client"
        )
        receiver = f"cpu-{name}" if "receiver's CPU" in causes else f"s-{name}"
        end = (
            "tx"
            if sender == "cpu-sender"
            else "rx"
            if receiver.startswith("cpu")
            else "p"
        )
        name = f"{name}-{end}"
        self.hosts.setdefault(
            sender, {"name": sender, "sysctls": small("w", wmem) if wmem else LARGE}
        )
        if receiver not in self.hosts:
            self.hosts[receiver] = {
                "name": receiver,
                "sysctls": small("r", rmem) if rmem else LARGE,
            }
        link = {"delay_us": 500 * ms, "loss": loss} | ({"rate_bps": rate} if rate else {})
        self.links[f"{sender}/{receiver}"] = link
        pair = {"client": sender, "server": receiver, "placement": name}
        if pair not in self.pairs:
            self.pairs.append(pair)
        test = {
            "tool": "iperf3",
            "test": "tcp",
            "duration_s": 3,
            "streams": [streams],
            "placements": [name],
        }
        if "CPU" in causes[0]:  # small messages cost the most processor time a byte
            test["message_bytes"] = [2048]
        self.tests.append(test | ({"options": options} if options else {}))
        key = name, "-".join(map(str, options.values())), streams
        self.planted[key] = causes

    def experiment(self, rounds):
        options = {
            "hosts": list(self.hosts.values()),
            "links": self.links,
            "sysctls": KEPT,
        }
        return Experiment.model_validate(
            {
                "name": "limits",
                "hosts": {"source": "lab", "options": options},
                "pairs": self.pairs,
                "tests": self.tests,
                "rounds": rounds,
            }
        )


def settings(only=""):
    """Everything that is planted."""
    bed = Bed(only)
    for ms, rate in ((10, 50e6), (20, 100e6), (4, 200e6), (50, 100e6)):
        for congestion in ("cubic", "bbr"):
            bed.plant("link", ms=ms, rate=rate, congestion=congestion)
    bed.plant("link", ms=20, rate=100e6, streams=4, congestion="cubic")
    bed.plant("link", ms=10, rate=50e6, streams=16, congestion="reno")
    for ms, size in ((10, 128 * K), (20, 256 * K), (50, 512 * K), (4, 96 * K)):
        for congestion in ("cubic", "bbr"):
            bed.plant("receive window", ms=ms, rmem=size, congestion=congestion)
            bed.plant("send buffer", ms=ms, wmem=size, congestion=congestion)
    bed.plant("receive window", ms=10, rmem=128 * K, streams=4, congestion="reno")
    bed.plant("send buffer", ms=10, wmem=128 * K, streams=4, congestion="reno")
    for ms, loss in ((10, 0.01), (20, 0.003), (50, 0.001)):
        bed.plant("loss", ms=ms, loss=loss, congestion="cubic")
        bed.plant("loss", ms=ms, loss=loss, congestion="reno")
    for ms in (4, 10):
        bed.plant("sender's CPU", ms=ms, congestion="cubic")
        bed.plant("receiver's CPU", ms=ms, congestion="cubic")
        bed.plant("sender's CPU", ms=ms, congestion="cubic", streams=4)
        bed.plant("receiver's CPU", ms=ms, congestion="cubic", streams=4)
    for bitrate in ("10M", "40M", "80M"):
        bed.plant("rate", ms=20, congestion="cubic", bitrate=bitrate)
    # pairs: two limits, 0.75 to 1.3 of each other, and the link alone
    for rate in (40e6, 80e6):
        bed.plant("link", ms=10, rate=rate, congestion="cubic")
    bed.plant("rate", "link", ms=20, rate=100e6, congestion="cubic", bitrate="72M")
    bed.plant("link", "rate", ms=20, rate=100e6, congestion="cubic", bitrate="125M")
    for rate in (40e6, 80e6):
        bed.plant(
            "receive window", "link", ms=10, rmem=128 * K, rate=rate, congestion="cubic"
        )
        bed.plant(
            "send buffer", "link", ms=10, wmem=128 * K, rate=rate, congestion="cubic"
        )
    return bed


@contextlib.contextmanager
def watched(folder, share):
    """Hold iperf3 on the hosts named ``cpu-…`` to a share of a core, and note the processor time
    of the lab itself."""
    GROUP.mkdir(exist_ok=True)
    (GROUP / "cpu.cfs_period_us").write_text("20000")
    (GROUP / "cpu.cfs_quota_us").write_text(str(int(20_000 * share)))
    running = lab.status(folder)
    assert running is not None
    assert running.deployment is not None
    slow = {h.data_address for h in running.deployment.hosts if h.name.startswith("cpu-")}
    own = [h.data_address for h in running.deployment.hosts if h.name == "cpu-sender"]
    notes = []
    stop = threading.Event()
    known = set()

    def held(pid):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if "-s" in words:  # the server of a slow host is told by its network
            return _address(pid) in slow - set(own)
        return _address(pid) in own

    def watch():
        due = 0.0
        while not stop.wait(0.02):
            for pid in {p.name for p in Path("/proc").glob("[0-9]*")} - known:
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text() == "iperf3\n":
                        known.add(pid)
                        if held(pid):
                            # the lab's hosts run at real-time priority, which no quota holds
                            os.sched_setscheduler(
                                int(pid), os.SCHED_OTHER, os.sched_param(0)
                            )
                            (GROUP / "cgroup.procs").write_text(pid)
            if time.time() >= due:
                due = time.time() + 0.5
                notes.append((time.time(), dict(_children(running.pid))))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield notes
    finally:
        stop.set()
        thread.join()
        GROUP.rmdir()


def _address(pid):
    """The lab's address in the network of a process, from its routing table."""
    table = Path(f"/proc/{pid}/net/fib_trie").read_text()
    found = [line.split()[-1] for line in table.splitlines() if "|-- 10.10." in line]
    return next((a for a in found if not a.endswith((".0", ".255"))), "")


def _children(pid):
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            yield (
                int(child),
                tuple(map(int, Path(f"/proc/{child}/schedstat").read_text().split()[:2])),
            )


def waited(notes, begin, end):
    """Share of the time that the busiest process of the lab, its emulator, waited for a
    processor."""
    inside = [n for n in notes if begin <= n[0] <= end]
    if len(inside) < 2:
        return 0.0
    (t0, a), (t1, b) = inside[0], inside[-1]
    busiest = max(a.keys() & b.keys(), key=lambda pid: b[pid][0] - a[pid][0])
    return (b[busiest][1] - a[busiest][1]) / 1e9 / (t1 - t0)


def measure(bed, rounds, share):
    """The runs as rows of the table, with what was planted and how long the lab waited."""
    experiment = bed.experiment(rounds)
    with tempfile.TemporaryDirectory(prefix="netperf-limits-") as place:
        folder = Path(place)
        deployment = lab.up(experiment, state=folder / "lab")
        try:
            store = Store(folder, "limits")
            store.declare(experiment)
            plan = schedule(experiment, seed=1)
            store.write_plan(plan.to_dict())
            with watched(folder / "lab", share) as notes:
                collect(plan, deployment, store, progress=Progress(lambda _: None))
        finally:
            lab.stop(folder / "lab")
        rows = load(store.location).to_dict("records")
    for row in rows:
        values = [row.get(name) for name in ("congestion", "bitrate")]
        options = "-".join(str(v) for v in values if isinstance(v, str))
        row["planted"] = bed.planted[row["placement"], options, int(row["streams"])]
        began = row["started_utc"].timestamp()
        row["waited"] = waited(notes, began, began + 3.5)
        row["link_bps"] = bed.links[f"{row['client']}/{row['server']}"].get("rate_bps")
    return rows


def truths(rows):
    """Add to each row the causes that are true: of two, those that bring 10 % or more when raised.

    What raising one brings is the other one, measured alone (a rate: as asked for).
    """
    alone = defaultdict(list)
    for row in rows:
        if (
            len(row["planted"]) == 1
            and row["streams"] == 1
            and row["congestion"] == "cubic"
        ):
            alone[row["planted"][0], row["placement"]].append(row["limit_bps"])
    for row in rows:
        row["truth"] = row["planted"]
        if len(row["planted"]) == 1:
            continue
        first, *rest = row["placement"].split("-")
        remains = {}
        for cause in row["planted"]:
            if cause == "rate":
                remains[cause] = float(str(row["bitrate"]).removesuffix("M")) * 1e6
                continue
            letter = {"link": "l", "receive window": "r", "send buffer": "w"}[cause]
            part = next((p for p in rest if p.startswith(letter)), "")
            remains[cause] = median(alone[cause, f"{first}-{part}-p"])
        one, two = row["planted"]
        raised = {one: remains[two], two: remains[one]}
        true = tuple(
            cause for cause in row["planted"] if raised[cause] >= 1.1 * row["limit_bps"]
        )
        row["truth"], row["raised"] = true or row["planted"], raised


def judged(row, **known):
    return of_run({k: v for k, v in row.items() if k != "advertised_bps"} | known)


def ceilings(rows):
    """Predicted against measured, minus 1: of two causes the named one is raised, with the
    link's rate known."""
    errors = []
    for row in rows:
        cause = (judged(row).causes or (UNKNOWN,))[0]
        if cause in row.get("raised", ()):
            known = (
                {} if cause == "link" else {"advertised_bps": PAYLOAD * row["link_bps"]}
            )
            if (ceiling := judged(row, **known).ceiling_bps) is not None:
                errors.append(ceiling / row["raised"][cause] - 1)
    return errors


def markdown(rows, rounds, share):
    """The matrix and its counts."""
    valid = [
        r
        for r in rows
        if r["status"] == "ok"
        and r["limit_bps"] == r["limit_bps"]
        and r["waited"] <= WAITED
    ]
    table = defaultdict(Counter)
    score = Counter()
    for row in valid:
        limit = judged(row)
        named = limit.causes[0] if limit.causes else UNKNOWN
        right = named in row["truth"]
        score["right" if right else UNKNOWN if named == UNKNOWN else "wrong"] += 1
        table[row["truth"][0]][row["truth"][0] if right else named] += 1
        if not right:
            print(
                row["truth"],
                row["placement"],
                row["congestion"],
                row["streams"],
                f"{row['limit_bps'] / 1e6:.1f}",
                limit,
            )
    heads = (*CAUSES, UNKNOWN)
    lines = [f"| actual cause | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    lines += [
        f"| {c} | {' | '.join(str(table[c][h] or '·') for h in heads)} |" for c in CAUSES
    ]
    n = len(valid)
    errors = sorted(map(abs, ceilings(valid)))
    left_out = f"{len(rows) - n} left out: the lab itself waited for a processor, or the run failed"
    counts = (
        f"{score['right']} right ({score['right'] / n:.0%}), {score['wrong']} wrong, "
        f"{score[UNKNOWN]} not known"
    )
    lines += ["", f"{n} runs of {len(rows)} ({left_out}): **{counts}**."]
    if errors:
        within = sum(e <= 0.1 for e in errors)
        lines.append(
            f"Ceilings within 10 % when the cause is raised: {within} of {len(errors)}."
        )
    lines.append(f"Rounds: {rounds}; slow hosts are held to {share:.0%} of a core.")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument(
        "--only", default="", help="only settings whose first cause holds this word"
    )
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    rows = measure(settings(chosen.only), chosen.rounds, chosen.share)
    truths(rows)
    text = markdown(rows, chosen.rounds, chosen.share)
    print(text)
    if chosen.write:
        page = PAGE.read_text("utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
