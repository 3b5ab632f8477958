"""Ways in which the real az fails: what the user reads, and that nothing is left behind.

What Azure's own answers are read as stands in `test_conformance`; here are the failures of az itself, and of deployments.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import cli
from netperf_lib.errors import AzureError
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure import groups
from netperf_lib.hosts.azure.failures import AzError, error_of, read_failure

from .cloud import BASE, Fault
from .conftest import World, experiment
from .emulator import logout
from .recordings import EXPIRED, fault
from .test_end_to_end import write
from .test_place import NSG, VM, outside

pytestmark = pytest.mark.slow

# What az printed for answers that Azure has given (recordings in Azure/azure-cli, MIT), with the true kind of each.
SEEN = [
    json.loads(line)
    for line in (Path(__file__).parent / "recorded_failures.jsonl").read_text("utf-8").splitlines()
]
# What others were refused: code (or `az`: a text without one), deed, sentence, and the public page that shows it.
with (Path(__file__).parent / "refusals.tsv").open(encoding="utf-8", newline="") as _file:
    REFUSED = list(csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))
LOST = {
    # az prints the same few words for a page of 401, 429 and 503: these are all tried again, and a quota told by a 401
    # without its text can only be taken for a login
    ("failures/quota-capital-keys-401.json", "group create"): "login",
    ("failures/quota-capital-keys-401.json", "peering create"): "login",
    **{
        (f"failures/{page}.json", command): "unavailable"
        for page in ("429-plain-text", "401-html")
        for command in ("group show", "network nic list", "vm list")
    },
}


@pytest.mark.parametrize(
    "seen", SEEN, ids=lambda seen: f"{Path(seen['file']).stem}-{seen['command'].replace(' ', '-')}"
)
def test_what_azure_has_answered_is_read_as_what_it_means(seen: dict[str, str]) -> None:
    failure = read_failure("az", 1, seen["stderr"])
    assert failure.kind == LOST.get((seen["file"], seen["command"]), seen["kind"])
    assert not set("{}\n") & set(str(failure)), "a sentence, and no document"


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (
            "InvalidTemplateDeployment",
            "The requested size is currently not available in location 'westus'.",
            "capacity",
        ),
        (
            "InvalidTemplateDeployment",
            "The client 'x' does not have permission to perform action 'y'.",
            "authorization",
        ),
        (
            "InvalidTemplateDeployment",
            "The template deployment failed because of policy violation.",
            "policy",
        ),
        ("ReferencedResourceNotProvisioned", "Resource is in Updating state", "conflict"),
        (
            "ComputeResourceZoneConstraintDoesNotMatchPublicIPAddressZoneConstraint",
            "a zone constraint",
            "usage",
        ),
        (
            "StandardSkuPublicIPAddressesMustBeStatic",
            "must have AllocationMethod set to Static",
            "usage",
        ),
        (" UnauthorizedForMicrosoftPeering", "not authorized", "authorization"),
        ("429", "slow down", "throttled"),
        ("ThisIsNotAllowed", "It is not allowed. Please retry later.", "unavailable"),
    ],
)
def test_a_vague_code_is_read_by_its_sentence(code: str, message: str, kind: str) -> None:
    assert error_of("az", {"code": code, "message": message}).kind == kind


def printed(code: str, sentence: str) -> dict[str, AzError]:
    """A refusal as az prints it for each kind of command, read again."""
    if code == "az":
        return {"as it is": read_failure("az", 1, f"ERROR: {sentence}\n")}
    if code.startswith("AADSTS"):
        return {
            "login": read_failure(
                "az", 1, f"ERROR: {code}: {sentence} Trace ID: 1 Correlation ID: 2\n"
            )
        }
    error = {"code": code, "message": sentence}
    invalid = '{"code": "InvalidTemplateDeployment", "message": "is not valid. See inner errors for details."}'
    wrapped = {
        "code": "ResourceDeploymentFailure",
        "message": "terminal provisioning state",
        "details": [error],
    }
    failed = {
        "provisioningState": "Failed",
        "statusCode": "Conflict",
        "statusMessage": {"error": wrapped},
    }
    return {
        "resource": read_failure(
            "az", 1, f"ERROR: ({code}) {sentence}\nCode: {code}\nMessage: {sentence}\n"
        ),
        "rest": read_failure("az", 1, f"ERROR: Conflict({json.dumps({'error': error})})\n"),
        "validate": read_failure(
            "az", 1, f"ERROR: {invalid}\n\nInner Errors: \n{json.dumps(error)}\n"
        ),
        "deployment": groups._why(groups.Target(name="d1"), {}, [failed]),
    }


@pytest.mark.parametrize(
    "refused", REFUSED, ids=lambda refused: f"{refused['code']}-{refused['deed']}"
)
def test_what_azure_refused_others_has_the_deed_of_an_operator(refused: dict[str, str]) -> None:
    for command, failure in printed(refused["code"], refused["sentence"]).items():
        assert failure.deed == refused["deed"], f"{command}: {failure.kind}: {failure}"


@pytest.mark.parametrize(
    ("status", "deed"),
    [("BadRequest", "stop"), ("Conflict", "keep"), ("ServiceUnavailable", "retry")],
)
def test_of_a_code_that_is_not_known_the_status_decides(status: str, deed: str) -> None:
    """A mistake is not kept running, and what may be anything is not thrown away."""
    error = {"code": "Unheard", "message": "of"}
    reason = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", status)
    failed = {
        "provisioningState": "Failed",
        "statusCode": status,
        "statusMessage": {"error": error},
    }
    quoted = {"code": status, "message": json.dumps({"error": error})}
    for failure in (
        read_failure("az", 1, f"ERROR: {reason}({json.dumps({'error': error})})\n"),
        groups._why(groups.Target(name="d1"), {}, [failed]),
        error_of("az", {"code": "DeploymentFailed", "message": "", "details": [quoted]}),
    ):
        assert (failure.code, failure.deed) == ("Unheard", deed)


def test_the_login_that_az_asks_for_is_told_word_for_word() -> None:
    asked = 'az login --tenant "t1" --scope "https://management.core.windows.net//.default" --claims-challenge "e30="'
    text = f"ERROR: AADSTS50076: you must use multi-factor authentication. Trace ID: 1\nTo log in, run:\n{asked}\n"
    failure = read_failure("az", 1, text)
    assert failure.kind == "login"
    assert asked in str(failure)


def test_az_is_not_kept_from_telling_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As az 2.91 answers a challenge (`aad_error_handler`): a warning, which --only-show-errors would drop."""
    login = 'az login --tenant "t1" --scope "https://management.core.windows.net//.default" --claims-challenge "e30="'
    told = f"WARNING: Run the command below to authenticate interactively:\naz logout\n{login}\n"
    error = "ERROR: AADSTS50076: you must use multi-factor authentication. Trace ID: 1"
    program = tmp_path / "az"
    script = f"case \"$*\" in *--only-show-errors*) ;; *) printf '%s' '{told}' >&2;; esac\necho '{error}' >&2\nexit 1\n"
    program.write_text(f"#!/bin/sh\n{script}", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(AzError) as caught:
        az_module.Az()("group", "create", "--name", "g")
    assert caught.value.deed == "login"
    assert f"run `az logout`, then `{login}`, then try again" in str(caught.value)


def test_a_login_that_ends_gives_nothing_up_and_a_passing_conflict_starts_the_same_deployment_again(
    world: World, tmp_path: Path, canned_preflight: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(az_module.Az.__init__.__kwdefaults__, "patience_s", 0.0)
    monkeypatch.setattr(azure, "AGAIN_S", (0.0, 0.0))
    file, root = (
        str(write(experiment(**world.options()), tmp_path)),
        ("--root", str(tmp_path / "data")),
    )
    world.cloud.faults.append(fault("401-expired-token", match="PUT .*deployments/npl$", times=9))
    assert npl(monkeypatch, "up", file, *root) == 1
    begun = set(world.cloud.groups)
    assert begun, "the group was made, and stays"
    world.cloud.faults[:] = [fault("AnotherOperationInProgress", "resource", NSG)]
    assert npl(monkeypatch, "up", file, *root) == 0
    assert set(world.cloud.groups) == begun
    assert npl(monkeypatch, "down", file, *root) == 0
    assert not world.cloud.groups


def test_a_conflict_in_a_shared_group_is_waited_for_and_the_reason_of_a_refusal_is_told(
    world: World,
) -> None:
    outside(world.cloud)
    where = f"{BASE}/resourceGroups/net/providers/{NSG}/nsg-d1"
    world.cloud.put(where, {"location": "westeurope", "tags": {groups.TAG: "d1"}, "properties": {}})
    az, target, clock = (
        az_module.Az(),
        groups.Target(name="d1", shared="net"),
        azure.Clock(poll_s=0.1),
    )
    world.cloud.faults.append(fault("ScopeLocked", match="DELETE .*nsg-d1$"))
    with pytest.raises(
        AzureError, match="ScopeLocked: the scope is locked; a policy or lock forbids it"
    ):
        groups.remove(az, [target], clock=clock, say=str)
    world.cloud.faults.append(fault("subnet-in-use", match="DELETE .*nsg-d1$", times=2))
    groups.remove(az, [target], clock=clock, say=str)
    assert NSG.lower() not in {r["type"].lower() for r in world.cloud.resources.values()}


GROUPS = "GET .*/resourcegroups$"
FAILURES: dict[str, tuple[Fault | None, tuple[str, ...], str, str, str]] = {
    # case: fault, command, code, kind, remedy
    "secret expired": (
        Fault("token", ".", 401, body=EXPIRED, times=9), ("group", "list"), "AADSTS7000222", "login", "az login",
    ),
    "no such group": (None, ("group", "show", "--name", "nope"), "ResourceGroupNotFound", "missing", "az resource list"),
    "wrong use": (None, ("group", "list", "--frobnicate"), "Usage", "usage", "correct hosts.options"),
    "no such subscription": (
        None, ("group", "list", "--subscription", "99999999-0000-0000-0000-000000000000"), "SubscriptionNotFound", "subscription", "az account set",
    ),
    "region closed": (
        None, ("group", "create", "--name", "g1", "--location", "marsnorth"), "LocationNotAvailableForResourceGroup", "usage", "correct",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_told_in_one_sentence_with_its_remedy(world: World, case: str) -> None:
    failing, command, code, kind, remedy = FAILURES[case]
    if failing:
        world.cloud.faults.append(failing)
    if failing and failing.at == "token":
        for cache in (world.folder / "emulator" / "az").glob("msal_token_cache*"):
            cache.unlink()
    with pytest.raises(AzError) as caught:
        az_module.Az(patience_s=0)(*command)
    assert (caught.value.code, caught.value.kind) == (code, kind)
    text = str(caught.value)
    assert remedy in text
    assert "\n" not in text
    assert "Traceback" not in text


def test_a_login_that_ends_on_the_way_is_renewed_where_a_pipeline_says_who_it_is(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = world.folder / "emulator" / "az"
    for cache in configuration.glob("msal_token_cache*"):
        cache.unlink()
    expired = Fault("token", ".", 401, body=EXPIRED, times=1)
    world.cloud.faults.append(expired)
    with pytest.raises(AzError) as caught:
        az_module.Az(patience_s=0)("group", "list")
    assert caught.value.kind == "login"
    (tmp_path / "assertion").write_text("e30.e30.c2ln\n", "utf-8")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "assertion"))
    expired.times = 1
    assert az_module.Az(patience_s=0)("group", "list") == []
    assert not expired.times


def test_nobody_logged_in(world: World, tmp_path: Path) -> None:
    logout(world.folder / "emulator" / "az")
    with pytest.raises(AzError, match="NotLoggedIn: nobody is logged in to az; run `az login`"):
        azure.up(experiment(**world.options()), number=1, state=tmp_path)
    assert not world.cloud.groups


@pytest.mark.parametrize("status", [429, 503])
def test_what_passes_is_waited_for(world: World, status: int) -> None:
    world.cloud.faults.append(
        fault({429: "429-resource", 503: "503-html"}[status], match=GROUPS, times=2)
    )
    assert az_module.Az()("group", "list") == []


def test_throttling_that_outlasts_az_is_waited_for_by_us(world: World) -> None:
    waits: list[float] = []
    world.cloud.faults.append(fault("429-resource", match=GROUPS, times=6))
    assert az_module.Az(sleep=waits.append)("group", "list") == []
    assert waits
    assert set(waits) == {324.0}, "as long as Azure asked for"


def quoted(failing: Fault) -> Fault:
    """As a resource provider's own error is passed on: a document as the text of another."""
    document = {"error": {"code": failing.code, "message": failing.message}}
    return replace(failing, code="Conflict", message=json.dumps(document))


DEPLOYMENTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "quota, told by validate": (fault("quota-total-regional-cores", "validate", "b$"), {}, "QuotaExceeded: .*ask for more"),
    "quota, told when it starts": (
        fault("quota-total-regional-cores", match="PUT .*deployments/npl$"),
        {}, "QuotaExceeded: .*exceeding approved Total Regional Cores quota.*; ask for more",
    ),
    "size without accelerated networking": (None, {"vm_size": "Standard_B2s"}, "VMSizeIsNotPermittedToEnableAcceleratedNetworking: .*choose a size with accelerated networking"),
    "no such size": (None, {"vm_size": "Standard_D99s_v5"}, "InvalidParameter: The value Standard_D99s_v5 .*correct hosts.options"),
    "never complete": (None, {"deadline_min": 1e-6}, "not complete after 0 min .*raise hosts.options.deadline_min"),
    "an answer that is no JSON": (fault("401-html", match="GET .*deployments/npl$", times=9, status=200), {}, "npl: `?az deployment group show"),
    "placement group full": (fault("OverconstrainedZonalAllocationRequest", "resource", f"{VM} b"), {}, "Overconstrained.*no capacity"),
    "no such image": (None, {"image": "Canonical:ubuntu-99:server:latest"}, "PlatformImageNotFound"),
    "a resource provider's error in quotes": (quoted(fault("PublicIPCountLimitReached", "resource", NSG)), {}, "PublicIPCountLimitReached: .*ask for more"),
}  # fmt: skip


def npl(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The command line, in this process: it finds the emulated cloud where the project finds Azure."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(sys, "argv", ["npl", *words])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


@pytest.mark.parametrize("case", DEPLOYMENTS)
def test_npl_up_says_why_in_one_line_and_npl_down_leaves_nothing(
    world: World,
    tmp_path: Path,
    case: str,
    canned_preflight: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing, options, said = DEPLOYMENTS[case]
    world.machines.silent |= {"a", "b"}  # it does not come so far
    monkeypatch.setitem(az_module.Az.__init__.__kwdefaults__, "patience_s", 0.0)
    if failing:
        world.cloud.faults.append(failing)
    file = str(write(experiment(**world.options(**options)), tmp_path))
    with monkeypatch.context() as patch:
        if case == "never complete":
            patch.setattr(world.cloud, "step_s", 1000.0)
        assert npl(patch, "up", file, "--root", str(tmp_path / "data")) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("npl: ")]
    assert re.search(said, line), line
    assert "Traceback" not in line
    world.cloud.faults.clear()
    world.cloud.settle()
    assert npl(monkeypatch, "down", file, "--root", str(tmp_path / "data")) == 0
    assert not world.cloud.groups
    assert not world.cloud.resources
    assert not list(tmp_path.rglob("id_*"))


def test_passing_trouble_is_got_over(world: World, tmp_path: Path, canned_preflight: None) -> None:
    world.cloud.faults += [
        fault("503-empty-put", match="PUT .*resourcegroups/[^/]*$", times=2),
        fault("429-resource", match="PUT .*deployments/npl$", times=2),
        fault("429-resource", match="GET .*deployments/npl$", times=2),
    ]
    declared = experiment(**world.options())
    assert [h.name for h in azure.up(declared, number=1, state=tmp_path).hosts] == ["a", "b"]
    assert not any(f.times for f in world.cloud.faults)
    azure.down(declared, state=tmp_path)
    assert not world.cloud.groups


def test_az_that_hangs_or_dies_or_talks_nonsense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def az(script: str, timeout_s: float = 300) -> az_module.Az:
        program = tmp_path / "az"
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return az_module.Az(timeout_s=timeout_s)

    with pytest.raises(AzError, match=r"did not answer within 1 s") as caught:
        az("sleep 60", timeout_s=1)("group", "list")
    assert caught.value.kind == "timeout"
    with pytest.raises(AzError, match="was ended by SIGKILL: run the command again"):
        az("kill -9 $$")("group", "list")
    with pytest.raises(AzError, match=r"not JSON .'Name Location'"):
        az("echo 'Name  Location'")("group", "list")
    with pytest.raises(AzError, match="exit code 3 without a message"):
        az("exit 3")("group", "list")
    assert az("printf 'A new version is available: az upgrade\\n[1, 2]\\n'")("group", "list") == [
        1,
        2,
    ]
    assert az("true")("group", "delete") is None
    said = "ERROR: The command failed with an unexpected error.\\nThe content for this response was already consumed"
    with pytest.raises(AzError, match="az lost the error that Azure gave"):
        az(f"printf '{said}' >&2; exit 1")("group", "list")


def test_a_code_without_a_sentence_stands_alone() -> None:
    failure = error_of("deployment of x", {"code": "GatewayError", "message": ""})
    assert str(failure) == "deployment of x: GatewayError; try later"
