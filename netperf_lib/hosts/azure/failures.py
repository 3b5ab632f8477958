"""Failures read from the output of az: the root cause, its kind, and the remedy in one message.

az prints a failure in one of these shapes: a JSON document after ``ERROR:``; several of them under ``Inner Errors:``;
``(Code) text`` with ``Code:`` and ``Message:`` lines, also inside a traceback; the token service's ``AADSTS…: text``;
a plain sentence.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ...errors import AzureError

WRAPPERS = {
    "DeploymentFailed",
    "InvalidTemplateDeployment",
    "MultipleErrorsOccurred",
    "ResourceDeploymentFailure",
    "ResourceOperationFailure",
}
KINDS: dict[str, tuple[str, str]] = {
    # kind -> (pattern of codes, remedy)
    "capacity": (
        r"AllocationFailed|ZonalAllocationFailed|Overconstrained\w*|SkuNotAvailable",
        "Azure has no capacity for this size there now: try later, or allow hosts.options.alternative_zones or _sizes",
    ),
    "quota": (
        r"QuotaExceeded|PublicIPCountLimitReached|\w*(Quota|CountLimit)\w*",
        "ask for more at https://aka.ms/quota (az quota), or declare fewer or smaller VMs",
    ),
    "throttled": (
        r"TooManyRequests|SubscriptionRequestsThrottled|\w*Throttl\w*",
        "Azure asks for fewer requests: wait a few minutes, then try again",
    ),
    "unavailable": (r"ServerBusy|ServiceUnavailable|ServerTimeout|GatewayTimeout|InternalServerError", "try later"),
    "login": (
        r"ExpiredAuthenticationToken|AuthenticationFailed|InvalidAuthenticationToken\w*|AADSTS\d+|NotLoggedIn",
        "run `az login` (and `az account set --subscription …`), then try again",
    ),
    "authorization": (
        r"AuthorizationFailed|LinkedAuthorizationFailed|AuthorizationPermissionMismatch",
        "ask an owner of the subscription for the role Contributor (az role assignment create), then `az login` again",
    ),
    "policy": (
        r"RequestDisallowedByPolicy|RequestDisallowedByAzure|ScopeLocked",
        "a policy or lock forbids it: ask its owner for an exemption, or declare what it allows",
    ),
    "provider": (
        r"MissingSubscriptionRegistration|NoRegisteredProviderFound",
        "run `az provider register --wait --namespace Microsoft.Compute` and the same for Microsoft.Network",
    ),
    "subscription": (
        r"SubscriptionNotFound|ReadOnlyDisabledSubscription",
        "choose one of `az account list` with `az account set --subscription …`, or fix hosts.options.subscription",
    ),
    "missing": (
        r"ResourceGroupNotFound|ResourceNotFound|NotFound|DeploymentNotFound|ParentResourceNotFound",
        "see `az resource list`",
    ),
    "conflict": (
        r"ResourceGroupBeingDeleted|DeploymentActive|AnotherOperationInProgress|Conflict|RetryableError",
        "wait until it is done, then try again",
    ),
    "accelerated": (
        r"VMSizeIsNotPermittedToEnableAcceleratedNetworking",
        "choose a size with accelerated networking (az vm list-skus -l REGION --size …), or set accelerated: false",
    ),
    "usage": (
        r"Invalid(Parameter|Template|RequestFormat|ResourceReference)|Usage|LocationNotAvailable\w+|NonAzSkusNotAllowed\w+",
        "correct hosts.options",
    ),
}  # fmt: skip
STOP = "see https://aka.ms/azure-status and the activity log (az monitor activity-log list)"


class AzError(AzureError):
    """A command of az, or a deployment, that failed: the message gives cause and remedy.

    `code` is Azure's root error code; `kind` says what can be done: a key of `KINDS`, ``timeout``, ``signal`` or
    ``other``; `wait_s` is the number of seconds that Azure asks to wait.
    """

    def __init__(self, message: str, *, code: str, kind: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.code, self.kind, self.wait_s = code, kind, wait_s


def waits(failure: AzError, attempt: int) -> float | None:
    """Seconds to wait before the same command is tried again, or None if that is pointless."""
    if failure.kind == "throttled":
        return max(failure.wait_s or 0.0, min(10.0 * 2.0**attempt, 120.0))
    if failure.kind == "unavailable" and attempt < 3:
        return 5.0 * 2.0**attempt
    return None


def kind_of(code: str, message: str = "") -> str:
    """Kind of failure of an error code."""
    if re.search(r"multi-?factor|\bMFA\b", message, re.I):  # since 2026 refused as if by a policy
        return "login"
    if code == "OperationNotAllowed":  # one code for quota and many other causes
        return "quota" if re.search(r"quota|limit", message, re.I) else "other"
    for kind, (pattern, _) in KINDS.items():
        if re.fullmatch(pattern, code):
            return kind
    return "other"


def error_of(what: str, error: Any) -> AzError:
    """AzError from an error object of the resource manager: ``{code, message, details}``, possibly nested."""
    found = list(_walk(error))
    return _failure(what, found or [("Unknown", json.dumps(error)[:300])])


def read_failure(what: str, exit_code: int, text: str) -> AzError:
    """AzError from the standard error of an az command."""
    found = list(_documents(text))
    found += re.findall(r"^\s*Code:\s*(\w+)\s*\n\s*Message:\s*(.*)$", text, re.M)
    for shape in (r"^ERROR: \((\w+)\)\s*(.*)", r"(AADSTS\d+): ([^\n]*?)(?: Trace ID.*)?$"):
        found = found or re.findall(shape, text, re.M)[:1]
    if found:
        return _failure(what, found)
    code, message = "Unknown", _sentence(text) or f"exit code {exit_code} without a message"
    if re.search(r"subscription '?[^'\n]*'? (not found|doesn't exist)", text, re.I):
        code = "SubscriptionNotFound"
    elif "az login" in text:
        code, message = "NotLoggedIn", "nobody is logged in to az"
    elif "content for this response was already consumed" in text:
        code, message = "Hidden", "az lost the error that Azure gave; `az deployment group validate` would show it"
    elif exit_code == 2:
        code = "Usage"
    return _failure(what, [(code, message)])


def _failure(what: str, found: list[tuple[str, str]]) -> AzError:
    inner = [f for f in found if f[0] not in WRAPPERS] or found
    # the worst cause first: a permanent failure outranks one that may succeed elsewhere
    stopping = [f for f in inner if kind_of(*f) not in ("capacity", "other")]
    code, message = (stopping or [f for f in inner if kind_of(*f) != "other"] or inner)[-1]
    kind = kind_of(code, message)
    remedy = KINDS[kind][1] if kind in KINDS else STOP
    if kind == "provider" and (m := re.search(r"namespace '([\w.]+)'", message)):
        remedy = f"run `az provider register --wait --namespace {m[1]}`"
    wait = re.search(r"(?:after|in) '?(\d+)'? seconds", message)
    text = re.sub(r"\s+", " ", message).strip().rstrip(".")
    text = re.split(r"\. (?:Setup Alerts|Read more|Submit a|Find out more|Please read more|For more)", text)[0]
    return AzError(
        f"{what}: {code}: {text[:600]}; {remedy}", code=code, kind=kind, wait_s=float(wait[1]) if wait else None
    )


def _documents(text: str) -> Iterator[tuple[str, str]]:
    decoder = json.JSONDecoder()
    for m in re.finditer(r"^(?:ERROR: )?(?:\w+\()?(?=\{)", text, re.M):  # az rest: Forbidden({…})
        try:
            document, _ = decoder.raw_decode(text, m.end())
        except ValueError:
            continue
        yield from _walk(document)


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    """Every (code, message) in an error document, outermost first."""
    if not isinstance(node, dict):
        return
    if isinstance(node.get("error"), dict):
        yield from _walk(node["error"])
    elif "code" in node:
        message = str(node.get("message") or "")
        yield str(node["code"]), message
        if message.lstrip().startswith("{"):  # a resource provider's error, quoted as text
            with contextlib.suppress(ValueError):
                yield from _walk(json.loads(message))
        for detail in node.get("details") or ():
            yield from _walk(detail)


def _sentence(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("ERROR: "):
            return line.removeprefix("ERROR: ").strip()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1] if lines else ""
