"""What the page on extending says, applied as it stands to a copy of the package, and used."""

import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from .conftest import REPO
from .warm import warm

PAGE = (REPO / "docs" / "how-to" / "extend.md").read_text("utf-8")


def blocks(language, section):
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)


def apply(diff, root):
    """Apply a block: the lines before and after must be in the file once."""
    name, *lines = diff.splitlines()
    file = root / name.removeprefix("--- ")
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
    text = file.read_text("utf-8")
    assert text.count(old) == 1, f"{file.name} does not hold once:\n{old}"
    file.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(REPO / "netperf_lib", tmp_path / "netperf_lib")  # compiled files, too
    shutil.copytree(
        REPO / "notebooks",
        tmp_path / "notebooks",
        ignore=shutil.ignore_patterns("workshop"),
    )
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What runs code in a copy, in a Python that has imported all but the library itself."""
    program = tmp_path_factory.mktemp("warm") / "python"
    imports = "import pandas, pyarrow.dataset, pyarrow.parquet, pydantic, yaml"
    with warm(program, Path(sys.executable), imports):
        yield partial(_run, program)


def _run(python, copy, code, *words):
    done = subprocess.run(
        [python, "-c", code, *words],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


EXPERIMENT = """
name: extended
hosts: {source: lab}
pairs: [{client: client, server: zone, placement: same-zone}]
"""


@pytest.mark.parametrize(("entries", "words"), [(1, "tos 32"), (2, "type of service 32")])
def test_an_option_is_crossed_compared_and_passed_on(run, copy, entries, words):
    for diff in blocks("diff", "An option of a test")[:entries]:
        apply(diff, copy)
    [yaml] = blocks("yaml", "An option of a test")
    (copy / "x.yaml").write_text(EXPERIMENT + yaml)
    code = """
from netperf_lib.data.tables import SCHEMAS
from netperf_lib.experiment.factors import level_words
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.tools import TOOLS

plan = schedule(load_experiment("x.yaml"), seed=1)
for trial in plan.trials[:6]:
    print(*TOOLS["iperf3"].commands(trial.request, "192.0.2.1", 5201).client)
for contrast in plan.experiment.contrasts:
    print("contrast", contrast.a["tos"], contrast.b["tos"])
print("type", SCHEMAS["runs"].field("tos").type)
print("words", level_words("tos", 32))
"""
    lines = run(copy, code).splitlines()
    assert sorted(re.findall(r"-S (\d+)", "\n".join(lines))) == ["184", "184", "32", "32"]
    contrasts = [line for line in lines if line.startswith("contrast")]
    assert sorted(contrasts) == ["contrast 184 None"] * 2 + ["contrast 32 None"] * 2
    assert lines[-2:] == ["type int64", f"words {words}"]


def test_a_metric_is_a_column_with_a_unit_and_a_direction(run, copy):
    for diff in blocks("diff", "A metric"):
        apply(diff, copy)
    code = """
from netperf_lib.data.tables import SCHEMAS
from netperf_lib.metrics import format_value, metric

found = metric("handshake_us")
print(SCHEMAS["runs"].field("handshake_us").type, found.better, format_value(1500.0, found.unit))
"""
    assert run(copy, code) == "double lower 1.5 ms\n"


def test_a_fact_of_the_hosts_is_a_column(run, copy):
    for diff in blocks("diff", "A fact of the hosts"):
        apply(diff, copy)
    shutil.copytree(REPO / "data" / "recorded" / "lab-full", copy / "measured")
    code = """
import netperf_lib as npl
from netperf_lib.experiment.factors import level_words

print(*{level_words("mtu", n) for n in npl.load("measured")["mtu"]})
"""
    assert run(copy, code) == "MTU 1500 B\n"


def test_a_placement_has_hosts_a_proof_a_price_and_an_order(run, copy):
    for diff in blocks("diff", "A placement"):
        apply(diff, copy)
    (copy / "x.yaml").write_text(
        "name: extended\ntests: [{tool: qperf, test: tcp_lat}]\n"
        "hosts: {source: azure, options: {region: westeurope, vm_size: Standard_D4s_v4}}\n"
        "pairs: [{client: a, server: b, placement: peered-lb},\n"
        " {client: a, server: c, placement: ppg}]\n"
    )
    code = """
from netperf_lib import hosts
from netperf_lib.experiment.factors import sort_levels
from netperf_lib.experiment.yaml import load_experiment
from netperf_lib.hosts.azure.topology import topology

experiment = load_experiment("x.yaml")
made = topology(experiment, hosts.options(experiment))
print(made.vm("b").network, made.vm("b").address, *made.peerings[0])
print(*sort_levels("placement", ["vpn", "peered-lb", "standard-lb"]))
"""
    assert run(copy, code).splitlines() == [
        "peered its load balancer home peered",
        "standard-lb peered-lb vpn",
    ]


def test_a_page_comes_where_its_column_was_measured_and_runs(run, copy):
    [notebook] = blocks("json", "A page")
    [diff] = blocks("diff", "A page")
    apply(diff, copy)
    (copy / "notebooks" / "retransmissions.ipynb").write_text(notebook)
    code = """
import json
import sys
import netperf_lib as npl
from netperf_lib.analysis.contents import pages

runs = npl.load(sys.argv[1])
print(*(page.key for page in pages(runs.drop(columns="retransmits_count"))))
print(*(page.key for page in pages(runs)))
*_, cell = json.load(open("notebooks/retransmissions.ipynb"))["cells"]
setup, answer = cell["source"].rsplit("\\n", 1)
names = {"experiment": sys.argv[1]}
exec(setup, names)
print(" ".join(eval(answer, names)._repr_markdown_().split()))
"""
    without, page, answer = run(
        copy, code, str(REPO / "data" / "recorded" / "lab-full")
    ).splitlines()
    assert page.split() == [*without.split()[:-1], "retransmissions", "07-quality"]
    assert "Retransmitted segments: 0 (ppg" in answer


def test_a_source_of_hosts_provides_them(run, copy):
    [module] = blocks("py", "A source of hosts")
    (copy / module.splitlines()[0].removeprefix("# ")).write_text(module)
    for diff in blocks("diff", "A source of hosts"):
        apply(diff, copy)
    listed = [
        {"name": n, "address": f"192.0.2.{i}", "zone": "1"}
        for i, n in enumerate(("client", "zone", "other"), 1)
    ]
    (copy / "hosts.json").write_text(json.dumps(listed))
    (copy / "x.yaml").write_text(
        EXPERIMENT.replace(
            "{source: lab}",
            f"{{source: service, options: {{url: '{(copy / 'hosts.json').as_uri()}'}}}}",
        )
        + "tests: [{tool: qperf, test: tcp_lat}]\n"
    )
    code = """
from pathlib import Path
from netperf_lib import hosts
from netperf_lib.experiment.yaml import load_experiment

with hosts.deployed(load_experiment("x.yaml"), state=Path()) as deployment:
    print(*(f"{host.name}={host.address}" for host in deployment.hosts))
"""
    assert run(copy, code) == "client=192.0.2.1 zone=192.0.2.2\n"
    plan = (
        "import sys; from netperf_lib.cli import main; sys.argv = ['npl', 'plan', 'x.yaml']; "
        "main()"
    )
    assert "nothing beyond what the hosts cost anyway" in run(copy, plan)
