"""The program az: how it is run, how it fails, and how its failures are read."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netperf_lib.errors import AzureError
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure.az import Az
from netperf_lib.hosts.azure.failures import KINDS, AzError, error_of, read_failure

from ...sshd import alive, wait_until
from .direct import Clock

HERE = Path(__file__).parent
# what az printed for answers that Azure has given (recordings in Azure/azure-cli, MIT), and what
# public threads show
SEEN = [
    json.loads(line)
    for line in (HERE / "recorded_failures.jsonl").read_text().splitlines()
]
# what others were refused: code (or `az`: a text without one), deed, sentence, page that shows it
with (HERE / "refusals.tsv").open(encoding="utf-8", newline="") as _file:
    REFUSED = list(csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))


def printed(code, sentence):
    """A refusal as az prints it for each kind of command."""
    if code == "az":
        return [f"ERROR: {sentence}\n"]
    if code.startswith("AADSTS"):
        return [f"ERROR: {code}: {sentence} Trace ID: 1 Correlation ID: 2\n"]
    error = json.dumps({"code": code, "message": sentence})
    invalid = '{"code": "InvalidTemplateDeployment", "message": "See inner errors."}'
    wrapped = f'{{"code": "ResourceDeploymentFailure", "details": [{error}]}}'
    return [
        f"ERROR: ({code}) {sentence}\nCode: {code}\nMessage: {sentence}\n",
        f'ERROR: Conflict({{"error": {error}}})\n',
        f"ERROR: {invalid}\n\nInner Errors: \n{error}\n",
        f'{{"code": "DeploymentFailed", "message": "", "details": [{wrapped}]}}',
    ]


ACTIONS = {
    "retry": ("passing",),
    "retry-delete": ("passing",),
    "gone": ("absent",),
    "done": ("absent",),
    "login": ("login",),
    "next": ("capacity",),
    "next-size-or-stop": ("permanent",),
    "stop": ("permanent", "permission"),
}
"""What is to be done after a recorded answer, and the kinds that lead to it."""


def test_recorded_answers_lead_to_the_right_action():
    """Az prints the same words for pages of 401, 404, 429 and 503."""
    wrong = []
    for seen in SEEN:
        failure = read_failure("az", 1, seen["stderr"])
        assert not set("{}\n") & set(str(failure)), "a sentence, and no document"
        if failure.kind not in ACTIONS[seen["action"]]:
            wrong.append(seen["file"])
    assert set(wrong) == {"failures/401-html.json", "failures/404-html.json"}
    assert len(wrong) <= 0.05 * len(SEEN)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda r: f"{r['code']}-{r['kind']}")
def test_a_refusal_has_its_kind(refused):
    for text in printed(refused["code"], refused["sentence"]):
        failure = read_failure("az", 1, text)
        assert failure.kind == refused["kind"], failure


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("capacity", "AllocationTimeout NoAvailableCapacity RegionCapacityConstrained"),
        ("capacity", "CapacityReservationNotAvailable ZonalAllocationFailed"),
        ("passing", "500 502 503 504 429 GetVnetError GatewayError"),
    ],
)
def test_a_code_alone_has_its_kind(kind, codes):
    for code in codes.split():
        failure = error_of("az", {"code": code, "message": ""})
        assert str(failure) == f"az: {code}; {KINDS[kind].advice}"


def test_a_missing_second_factor_asks_for_a_login():
    message = "disallowed by Azure: users must use MFA for Create operations."
    error = {"code": "RequestDisallowedByAzure", "message": message}
    assert error_of("az", error).kind == "login"


# the program


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when someone sleeps."""
    passed = Clock()
    monkeypatch.setattr(az_module, "time", passed)
    return passed


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program `az` on PATH, to be written by the test."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "az"


def write(program, script):
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sleep 60", "did not answer within 1 s"),
        ("kill -9 $$", "exit code -9 without a message"),
        ("exit 3", "exit code 3 without a message"),
        ("echo '<html>'", "a web page or empty, not Azure's own"),
        ("true", "a web page or empty, not Azure's own"),
    ],
)
def test_what_is_not_known_may_pass(program, monkeypatch, script, message):
    monkeypatch.setattr(az_module, "TIMEOUT_S", 1)
    write(program, script)
    with pytest.raises(AzError, match=message) as caught:
        Az()("group", "list", patience_s=0)
    assert caught.value.kind == "passing"


@pytest.mark.parametrize(("code", "message"), [(2, "does not take it"), (127, "missing")])
def test_an_error_of_our_own_end_is_not_repeated(program, clock, code, message):
    write(program, f"exit {code}")
    with pytest.raises(AzureError, match=message):
        Az()("group", "list")
    assert clock.monotonic() == 0


def test_a_program_that_answers(program):
    write(program, "echo A new version >&2; echo [1]")
    assert Az()("group", "list") == [1]
    write(program, "true")
    assert Az()("group", "delete") is None


def test_trouble_that_lasts_has_a_bound_that_is_said(program, clock, capsys):
    write(program, "echo 'ERROR: (ServiceUnavailable) later' >&2; exit 1")
    with pytest.raises(AzError, match=r"ServiceUnavailable.*it was repeated for \d+ min"):
        Az()("group", "list")
    assert 500 < clock.monotonic() <= 600
    told = capsys.readouterr().err.splitlines()
    assert 8 <= len(told) <= 10
    assert all("ServiceUnavailable: later" in line for line in told)


def test_as_long_as_azure_asks_is_waited(program, clock):
    again = "ERROR: (TooManyRequests) try again after 30 seconds"
    write(
        program,
        f"[ -e $0.seen ] && echo [] && exit; touch $0.seen; echo '{again}' >&2; exit 1",
    )
    assert Az()("group", "list") == []
    assert clock.monotonic() == 30


def test_the_login_that_az_asks_for_is_said(program):
    login = 'az login --tenant "t1" --claims-challenge "e30="'
    error = "ERROR: AADSTS50076: you must use multi-factor authentication. Trace ID: 1"
    write(program, f"printf 'az logout\\n{login}\\n' >&2; echo '{error}' >&2; exit 1")
    with pytest.raises(AzError) as caught:
        Az()("group", "create")
    assert caught.value.kind == "login"
    assert f"run `az logout`, then `{login}`, then try again" in str(caught.value)


def test_az_is_told_apart_from_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    command = f"{re.escape(shlex.quote(sys.executable))} -m pip install azure-cli"
    with pytest.raises(AzureError, match=f"not installed here: run `{command}`"):
        Az()


LEAVING = """
import os, signal
from netperf_lib.hosts.azure.az import Az
seen = []
def leave(*_):
    seen.append(1)
    raise SystemExit(143 if len(seen) == 1 else "the first signal was dropped")
signal.signal(signal.SIGTERM, leave)
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGTERM))
Az()("group", "list")
"""


def test_a_signal_is_not_lost_while_az_starts(program):
    """What a signal raises in a hook of fork is dropped by Python."""
    write(program, "kill -TERM $PPID\nsleep 60")
    assert subprocess.run([sys.executable, "-c", LEAVING], timeout=300).returncode == 143


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_az_dies_with_its_caller(program, by):
    """As the packages of Debian install it: a shell that starts Python without exec."""
    sign = f"30{os.getpid()}{by.value}"
    write(program, f"sleep {sign}\ntrue")
    driver = "from netperf_lib.hosts.azure.az import Az; Az()('group', 'list')"
    with subprocess.Popen([sys.executable, "-c", driver]) as caller:
        assert wait_until(lambda: alive(f"sleep {sign}"), 90)
        caller.send_signal(by)
    assert wait_until(lambda: not alive(f"sleep {sign}"), 30), (
        "az goes on without its caller"
    )
