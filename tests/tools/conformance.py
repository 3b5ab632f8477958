"""Real documents of the tools that Debian has, each with what happened as seen from outside of
its reader.

``python tests/tools/conformance.py`` (``make golden`` runs it as root) measures some hundred cases
between network namespaces: each tool × options × TCP and UDP × directions × streams × forms of
output, and tests that something ends: the peer or the client is killed, the network is lost for 2
s, the clock is stepped. It writes ``conformance.jsonl.gz``, a document a line: its text, and what
the counters of the interfaces, ``ss`` and the exit status say. The test beside it holds the readers
against that.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from netperf_lib.experiment.model import Pair, TestSpec, Trial
from netperf_lib.tools import TOOLS

HERE = Path(__file__).parent
CORPUS = HERE / "conformance.jsonl.gz"
RATE, QUEUE = "60mbit", "60k"
"""Each way of a path: so slow that eight at a time do not fill a processor, with so short a
queue that little is under way when a test ends."""
SERVER, PORT = "10.9.0.2", 5201
PATHS = int(os.environ.get("PATHS", "8"))
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long step(void) {
  static int (*real)(clockid_t, struct timespec *); static time_t first; struct timespec t;
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  real(CLOCK_MONOTONIC, &t);
  if (!first) first = t.tv_sec;
  return t.tv_sec > first + 1 ? STEP : 0;
}
int clock_gettime(clockid_t c, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int r = real(c, t); if (c == CLOCK_REALTIME) t->tv_sec += step(); return r;
}
int gettimeofday(struct timeval *restrict v, void *restrict z) {
  struct timespec t; clock_gettime(CLOCK_REALTIME, &t); v->tv_sec = t.tv_sec; v->tv_usec = t.tv_nsec / 1000; return 0;
}
time_t time(time_t *p) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); if (p) *p = t.tv_sec; return t.tv_sec; }
"""  # noqa: E501  (as it is run or printed)
"""A library that steps the clock of one program after a second."""


@dataclass(frozen=True)
class Case:
    """What is run on both ends; ``{server}`` stands for the server's address."""

    tool: str
    client: tuple[str, ...]
    server: tuple[str, ...]
    udp: bool = False
    event: str = ""
    rate: str = RATE
    own: bool = False
    """The commands are those of a trial, and have address and port."""

    @property
    def name(self):
        return " ".join(
            filter(
                None,
                (
                    *self.client,
                    self.own and "(own)",
                    f"(path of {self.rate})" if self.rate != RATE else "",
                    self.event,
                ),
            )
        )


# --- cases ----------------------------------------------------------------------------------------


def iperf3():
    """Every base × every option of TCP or UDP, both ends, in JSON and in text."""
    shared = [
        "",
        "-O 1",
        "-i 0.5",
        "-i 0",
        "-b 20M",
        "-l 1200",
        "-w 128K",
        "--get-server-output",
        "-T title",
        "-n 16M",
    ]
    tcp = [*shared, "-C reno", "-M 1000", "-Z", "-N", "-k 40"]
    udp = [*shared, "-b 90M", "-b 0", "--udp-counters-64bit", "-R -b 90M"]
    forms = ["-J", "", "-V", "-f k", "-f M", "--timestamps"]
    for transport, options in (("", tcp), ("-u", udp)):
        for option, way, streams in itertools.product(
            options, ("", "-R", "--bidir"), ("1", "4")
        ):
            if "-R" in option and way:
                continue
            text = forms[1 + (len(option) + len(way) + int(streams)) % 5]
            for form in ("-J", text):
                rate = "-b 15M" if transport and "-b" not in option else ""
                words = (
                    f"iperf3 -c {{server}} -t 2 {transport} {rate} {option} {way} -P "
                    f"{streams} {form}"
                )
                words = (
                    words.replace("-t 2", "")
                    if "-n" in option or "-k" in option
                    else words
                )
                yield Case(
                    "iperf3",
                    tuple(words.split()),
                    ("iperf3", "-s", "-1", *form.split()),
                    bool(transport),
                )


def iperf2():
    """The same for iperf 2, in text and enhanced text."""
    shared = [
        "",
        "-i 1",
        "-i 0.5",
        "-b 20M",
        "-l 1200",
        "-w 128K",
        "-n 16M",
        "-f k",
        "-f m",
        "-f M",
    ]
    tcp = [*shared, "-Z reno", "-M 1000", "-N", "--trip-times"]
    udp = [*shared, "-b 90M", "--trip-times", "-b 2000pps"]
    for transport, options in (("", tcp), ("-u", udp)):
        for option, way, streams, form in itertools.product(
            options, ("", "-R"), ("1", "4"), ("", "-e")
        ):
            rate = "-b 15M" if transport and "-b" not in option else ""
            words = (
                f"iperf -c {{server}} -t 2 {transport} {rate} {option} {way} -P {streams} "
                f"{form}"
            )
            words = words.replace("-t 2", "") if "-n" in option else words
            serving = f"iperf -s {transport} {form} {'-i 1' if '-i' in option else ''}"
            serving += f" {option}" if option.startswith("-f") else ""
            yield Case(
                "iperf2", tuple(words.split()), tuple(serving.split()), bool(transport)
            )


def latency_tools():
    """Tests of qperf and sockperf: sizes × options × forms in which they print."""
    tests = ("tcp_lat", "tcp_bw", "udp_lat", "udp_bw")
    sizes = ("", "-m 1", "-m 64", "-m 1000", "-m 1400", "-m 8K", "-m 32K")
    forms = (
        "",
        *"-v|-vv|-vvs -vvt -vvu -uu|-uu -un|-v -vvs|-vvs|-vvt|-vvu|-vvc|-ub|-e 6".split(
            "|"
        ),
    )
    for test, size, form, buffer in itertools.product(
        tests, sizes, forms, ("", "-sb 64K")
    ):
        if test.startswith("udp") and size.endswith("K"):
            continue
        words = f"qperf {{server}} -ip {PORT + 1} -t 1 {form} {size} {buffer} {test}"
        yield Case("qperf", tuple(words.split()), ("qperf",), test.startswith("udp"))
    yield Case(
        "qperf",
        tuple(
            f"qperf {{server}} -ip {PORT + 1} -t 1 -oo msg_size:1:64:*4 tcp_lat".split()
        ),
        ("qperf",),
    )
    modes = ("ping-pong", "under-load", "throughput")
    messages = ("", "-m 64", "-m 200", "-m 1000", "-m 1400")
    options = (
        "",
        "--full-rtt",
        "--full-log /dev/stdout",
        "--pps 500",
        "--burst 4",
        "--no-rdtsc",
        "--dontwarmup",
    )
    options += (
        "--giga-size",
        "--increase_output_precision",
        "--buffer-size 65536",
        "--tcp-avoid-nodelay",
    )
    options += ("--reply-every 10", "--timeout 100", "--client_port 7777")
    for mode, message, option, tcp in itertools.product(
        modes, messages, options, ("", "--tcp")
    ):
        if (mode == "throughput" and option == "--full-rtt") or (
            "reply" in option and mode != "under-load"
        ):
            continue
        if ("nodelay" in option and not tcp) or (
            "log" in option and message not in ("", "-m 1000")
        ):
            continue
        rate = "--mps 2000" if mode != "ping-pong" and "--pps" not in option else ""
        seconds = 2 if option == "--no-rdtsc" else 1  # its first second is not counted
        words = f"sockperf {mode} -i {{server}} -t {seconds} {message} {rate} {option} {tcp}".replace(  # noqa: E501
            "--pps", "--mps"
        )
        yield Case(
            "sockperf",
            tuple(words.split()),
            tuple(f"sockperf server {tcp}".split()),
            not tcp,
        )
    for mode, mps, message, form in itertools.product(
        modes, (500, 1000, 2000, 4000), (14, 100, 500, 1200), ("", "--full-rtt", "--tcp")
    ):
        tcp = form if form == "--tcp" else ""
        words = f"sockperf {mode} -i {{server}} -t 1 --mps {mps} -m {message} {form}"
        if mode != "throughput" or form != "--full-rtt":
            yield Case(
                "sockperf",
                tuple(words.split()),
                tuple(f"sockperf server {tcp}".split()),
                not tcp,
            )


EVENTS = (
    "peer killed",
    "client SIGINT",
    "client SIGTERM",
    "client SIGKILL",
    "network lost for 2 s",
    "clock +1 h",
)
EVENTS += ("clock -1 h",)


def broken():
    """Tests that something happens to after a second."""
    commands = [
        (
            "iperf3",
            f"iperf3 -c {{server}} -t 4 {u} {way} {form}",
            f"iperf3 -s -1 {form}",
            bool(u),
        )
        for u in ("", "-u -b 15M")
        for way in ("", "-R", "--bidir")
        for form in ("-J", "", "-i 0.5")
    ]
    commands += [
        (
            "iperf2",
            f"iperf -c {{server}} -t 4 {u} {way} {form}",
            f"iperf -s {u[:2]} {form}",
            bool(u),
        )
        for u in ("", "-u -b 15M")
        for way in ("", "-R")
        for form in ("", "-e -i 1", "-i 0.5")
    ]
    commands += [
        ("qperf", f"qperf {{server}} -ip {PORT + 1} -t 4 -v {t}", "qperf", "udp" in t)
        for t in ("tcp_lat", "tcp_bw", "udp_bw")
    ]
    commands += [
        (
            "sockperf",
            f"sockperf {m} -i {{server}} -t 4 --mps 2000 {t}",
            f"sockperf server {t}",
            not t,
        )
        for m in ("ping-pong", "under-load")
        for t in ("", "--tcp")
    ]
    for (tool, client, server, udp), event in itertools.product(commands, EVENTS):
        client = client.replace("--mps 2000", "") if "ping-pong" in client else client
        yield Case(tool, tuple(client.split()), tuple(server.split()), udp, event)


def lossy():
    """Datagrams at 20 Mbit/s over paths that are a little too slow for them."""
    rates = ("20500kbit", "19500kbit", "15mbit")
    for rate, way, streams, form in itertools.product(
        rates, ("", "-R", "--bidir"), (1, 4), ("-J", "")
    ):
        words = (
            f"iperf3 -c {{server}} -t 2 -u -b {20 // streams}M {way} -P {streams} {form}"
        )
        yield Case(
            "iperf3",
            tuple(words.split()),
            ("iperf3", "-s", "-1", *form.split()),
            udp=True,
            rate=rate,
        )
    for rate, streams, form in itertools.product(rates, (1, 4), ("", "-e")):
        words = f"iperf -c {{server}} -t 2 -u -b {20 // streams}m -P {streams} {form}"
        yield Case(
            "iperf2",
            tuple(words.split()),
            tuple(f"iperf -s -u {form}".split()),
            udp=True,
            rate=rate,
        )


def own():
    """What the project itself runs."""
    options = {
        "tcp": [
            {},
            {"reverse": True},
            {"bidir": True},
            {"congestion": "reno"},
            {"interval_s": 0.5},
            {"bitrate": "20M"},
        ],
        "udp": [
            {"bitrate": "15M"},
            {"bitrate": "90M"},
            {"bitrate": "15M", "reverse": True},
            {"bitrate": 0},
        ],
        "ping-pong": [{}, {"protocol": "tcp"}, {"full_rtt": True}],
        "under-load": [{"mps": 2000}, {"mps": 2000, "protocol": "tcp"}],
        "throughput": [{"mps": 2000}],
    }
    for tool in TOOLS.values():
        for test in tool.TESTS:
            for given, streams in itertools.product(options.get(test, [{}]), (1, 4)):
                many = streams > 1 and tool.NAME not in ("iperf2", "iperf3")
                if (
                    many
                    or "sctp" in test
                    or not given.keys() <= {o.name for o in tool.OPTIONS}
                ):
                    continue
                spec = TestSpec(tool=tool.NAME, test=test, options=given, duration_s=2)
                pair = Pair(client="a", server="b", placement="ppg")
                trial = Trial(
                    deployment=1, round=1, order=0, pair=pair, test=spec, streams=streams
                )
                commands = tool.commands(trial.request, SERVER, PORT)
                assert commands.server
                udp = "udp" in (test, given.get("protocol"), test[:3]) or (
                    tool.NAME == "sockperf" and not given.get("protocol")
                )
                yield Case(tool.NAME, commands.client, commands.server, udp, own=True)


def cases():
    every = (*own(), *iperf3(), *iperf2(), *latency_tools(), *lossy(), *broken())
    return list(dict.fromkeys(every))


# --- measuring ------------------------------------------------------------------------------------


def run(command):
    return subprocess.run(
        command.split(), capture_output=True, text=True, check=True
    ).stdout


class Link:
    """Two namespaces and a path between them; counters at both ends."""

    def __init__(self, number):
        self.client, self.server = (
            f"conf{os.getpid()}c{number}",
            f"conf{os.getpid()}s{number}",
        )
        for name in (self.client, self.server):
            run(f"ip netns add {name}")
        run(f"ip -n {self.client} link add v0 type veth peer name v0 netns {self.server}")
        for name, address in ((self.client, "10.9.0.1"), (self.server, SERVER)):
            run(f"ip netns exec {name} sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
            # little is written and not yet sent when a test ends
            memory = ["net.ipv4.tcp_wmem=4096 16384 65536"]
            subprocess.run(
                ["ip", "netns", "exec", name, "sysctl", "-qw", *memory], check=True
            )
            run(f"ip -n {name} addr add {address}/24 dev v0")
            run(f"ip -n {name} link set v0 gso_max_segs 1 up")
            run(f"ip -n {name} link set lo up")

    def shape(self, rate):
        for name in (self.client, self.server):
            options = f"tbf rate {rate} burst 10k limit {QUEUE}"
            run(f"tc -n {name} qdisc replace dev v0 root {options}")

    def switch(self, state):
        run(f"ip -n {self.server} link set v0 {state}")

    def counters(self):
        found = {}
        for name, way in ((self.client, "forward"), (self.server, "reverse")):
            (link,) = json.loads(run(f"ip -j -s -n {name} link show v0"))
            (disc,) = json.loads(run(f"tc -j -s -n {name} qdisc show dev v0"))
            sent = link["stats64"]["tx"]
            found |= {f"{way}_bytes": sent["bytes"], f"{way}_packets": sent["packets"]}
            found[f"{way}_dropped"] = disc["drops"]
        return found

    def round_trips(self):
        text = run(f"ip netns exec {self.client} ss -tinHO dport = :{PORT}")
        sizes = [
            (int(b[1]), float(r[1]))
            for line in text.splitlines()
            if (r := re.search(r"\brtt:([\d.]+)", line))
            and (b := re.search(r"bytes_acked:(\d+)", line))
        ]
        return [1e3 * rtt for size, rtt in sizes if size > 50_000]

    def close(self):
        for name in (self.client, self.server):
            subprocess.run(["ip", "netns", "del", name], check=False)


def inside(namespace, host, words, log, **options):
    """Start a program in a namespace, under another name of the host; both its outputs go to the
    log."""
    with log.open("wb") as out:
        script = f'hostname {host}; exec "$@"'
        return subprocess.Popen(
            [
                *f"ip netns exec {namespace} unshare --uts sh -c".split(),
                script,
                "sh",
                *words,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            **options,
        )


def stop(process, number):
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening(link, udp, port):
    kind = "-u" if udp else "-t"
    return bool(
        run(f"ip netns exec {link.server} ss -lnH {kind} sport = :{port}").strip()
    )


def measure(case, link, folder):
    """Run a case and return a document for each end."""
    link.shape(case.rate)
    chosen = ("-lp" if case.tool == "qperf" else "-p", str(PORT))
    words = tuple(w.replace("{server}", SERVER) for w in case.client)
    command = (
        (words[0], *chosen, *words[1:]) if case.tool != "sockperf" else (*words, *chosen)
    )
    serving = (
        *case.server,
        *chosen,
        *(("-i", SERVER) if case.tool == "sockperf" else ()),
    )
    if case.own:
        command, serving = case.client, case.server
    logs = {"server": folder / "server", "client": folder / "client"}
    server = inside(link.server, "server", serving, logs["server"])
    udp_port = case.udp and case.tool in ("sockperf", "iperf2")
    for _ in range(100):
        if listening(link, udp_port, PORT):
            break
        time.sleep(0.05)
    environment = dict(os.environ)
    if case.event.startswith("clock"):
        environment["LD_PRELOAD"] = str(
            folder.parent / ("ahead.so" if "+" in case.event else "back.so")
        )
    before, started = link.counters(), time.monotonic()
    client = inside(link.client, "client", command, logs["client"], env=environment)
    rtts = []
    happened = False
    while client.poll() is None and time.monotonic() - started < 20:
        passed = time.monotonic() - started
        if case.event and not happened and passed > 1.5:
            happened = True
            happen(case.event, client, server, link)
        if not case.udp:
            rtts += link.round_trips()
        time.sleep(0.1)
    elapsed = time.monotonic() - started
    hung = client.poll() is None
    stop(client, signal.SIGKILL)
    try:
        server.wait(1.0 if case.tool == "iperf3" else 0.3)
    except subprocess.TimeoutExpired:
        stop(server, signal.SIGINT)
    truth = {k: v - before[k] for k, v in link.counters().items()}
    truth |= {"elapsed_s": round(elapsed, 3), "exit": None if hung else client.returncode}
    if len(rtts) >= 10:
        truth |= {"rtt_us": [round(min(rtts)), round(max(rtts))]}
    shared = {
        "tool": case.tool,
        "command": case.name,
        "event": case.event,
        "udp": case.udp,
        "rate": case.rate,
    }
    shared["truth"] = truth
    texts = {
        end: log.read_bytes().decode("utf-8", "replace") for end, log in logs.items()
    }
    return [
        shared | {"end": end, "text": texts[end]}
        for end in ("client", "server")
        if end == "client" or case.tool in ("iperf2", "iperf3")
    ]


def happen(event, client, server, link):
    if event == "peer killed":
        server.kill()
    elif event.startswith("client"):
        client.send_signal(getattr(signal, event.split()[1]))
    elif event.startswith("network"):
        link.switch("down")
        threading.Timer(2.0, link.switch, ["up"]).start()


def every(chosen, tell=lambda _: None):
    """Measure all cases, `PATHS` at a time."""
    waiting = queue.SimpleQueue()
    for item in enumerate(chosen):
        waiting.put(item)
    done = {}
    with tempfile.TemporaryDirectory() as name:
        for library, step in (("ahead", "3600"), ("back", "-3600")):
            source = Path(name) / f"{library}.c"
            source.write_text(CLOCK)
            run(f"cc -shared -fPIC -DSTEP={step} -o {name}/{library}.so {source} -ldl")

        def work(number):
            folder = Path(name) / str(number)
            folder.mkdir()
            link = Link(number)
            try:
                while not waiting.empty():
                    try:
                        i, case = waiting.get_nowait()
                    except queue.Empty:
                        return
                    try:
                        done[i] = measure(case, link, folder)
                    except (subprocess.CalledProcessError, OSError) as error:
                        print(f"{case.name}: {error}", file=sys.stderr)
                    tell(len(done))
            finally:
                link.close()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(PATHS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [document for i in sorted(done) for document in done[i]]


def read():
    """Return the committed documents."""
    with gzip.open(CORPUS, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def write(documents, to=CORPUS):
    with (
        to.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as f,
    ):
        for document in documents:
            f.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression for the command")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--out", type=Path, default=CORPUS)
    a = parser.parse_args()
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "ss", "unshare", "cc"))):
        print(
            "the conformance corpus is not made anew: that needs root, iproute2 and a C compiler"
        )
        return
    chosen = [c for c in cases() if re.search(a.only, c.name)] * a.times
    documents = every(
        chosen,
        lambda n: print(f"\r{n} of {len(chosen)}", end="", file=sys.stderr, flush=True),
    )
    write(documents, a.out)
    print(f"\n{len(documents)} documents, {a.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
