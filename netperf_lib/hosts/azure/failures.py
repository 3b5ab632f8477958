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
from typing import Any, NamedTuple

from ...errors import AzureError

WRAPPERS = {
    "DeploymentFailed",
    "InvalidTemplateDeployment",
    "MultipleErrorsOccurred",
    "ResourceDeploymentFailure",
    "ResourceOperationFailure",
}
VAGUE = {*WRAPPERS, "BadRequest", "Conflict", "Forbidden", "Unauthorized"}
"""Codes that say less than the sentence that comes with them."""
DEEDS = {
    "retry": "the same again after a pause: the command, the deployment or the deletion",
    "alternative": "another zone or size, if hosts.options allows one; else as `stop`",
    "login": "ends until you have logged in; nothing is given up, and the next `npl up` goes on",
    "stop": "ends; what was created is deleted",
    "keep": "ends; what was created stays for the next `npl up`, or for `npl down`",
    "absent": "is taken as the answer: it is not there, or it is there already",
}
"""What is done about a failure."""


class Kind(NamedTuple):
    """Failures that have the same remedy."""

    deed: str
    """A key of `DEEDS`."""
    codes: str
    """Pattern of Azure's error codes."""
    remedy: str
    sentences: str = ""
    """Pattern of sentences of Azure that say it under a code that does not."""


KINDS = {
    "quota": Kind(
        "stop",
        r"QuotaExceeded|PublicIPCountLimitReached|\w*(Quota|CountLimit)\w*",
        "ask for more at https://aka.ms/quota (az quota), or declare fewer or smaller VMs",
        r"\bquota\b",
    ),
    "policy": Kind(
        "stop",
        r"RequestDisallowedByPolicy|RequestDisallowedByAzure|ScopeLocked",
        "a policy or lock forbids it: ask its owner for an exemption, or declare what it allows",
        r"disallowed by policy|policy violation",
    ),
    "authorization": Kind(
        "keep",
        (
            r"AuthorizationFailed|LinkedAuthorizationFailed|AuthorizationPermissionMismatch|SubscriptionNotAuthorized|"
            r"UnauthorizedFor\w+|Forbidden"
        ),
        "ask an owner of the subscription for the role Contributor (az role assignment create), then `az login` again",
        r"authorization failed|not have (permission|authorization)|not authorized to perform",
    ),
    "capacity": Kind(
        "alternative",
        r"AllocationFailed|ZonalAllocationFailed|Overconstrained\w*|SkuNotAvailable",
        "Azure has no capacity for this size there now: try later, or allow hosts.options.alternative_zones or _sizes",
        r"not available in (location|zone)|capacity restrictions|allocation failed",
    ),
    "throttled": Kind(
        "retry",
        r"429|TooManyRequests|SubscriptionRequestsThrottled|\w*Throttl\w*",
        "Azure asks for fewer requests: wait a few minutes, then try again",
    ),
    "unavailable": Kind(
        "retry",
        (
            r"5\d\d|BadGateway|ServerBusy|ServiceUnavailable|ServerTimeout|GatewayTimeout|GatewayError|"
            r"InternalServerError|NoDocument"
        ),
        "try later",
    ),
    "login": Kind(
        "login",
        (
            r"ExpiredAuthenticationToken|AuthenticationFailed|InvalidAuthenticationToken\w*|AADSTS\d+|NotLoggedIn|"
            r"InteractionRequired|TokenIssuedBeforeRevocationTimestamp|Unauthorized"
        ),
        "run `az login` (and `az account set --subscription …`), then try again",
    ),
    "provider": Kind(
        "keep",
        r"MissingSubscriptionRegistration|NoRegisteredProviderFound",
        "run `az provider register --wait --namespace Microsoft.Compute` and the same for Microsoft.Network",
    ),
    "subscription": Kind(
        "keep",
        r"SubscriptionNotFound|ReadOnlyDisabledSubscription",
        "choose one of `az account list` with `az account set --subscription …`, or fix hosts.options.subscription",
    ),
    "missing": Kind(
        "absent",
        r"ResourceGroupNotFound|ResourceNotFound|NotFound|DeploymentNotFound|ParentResourceNotFound",
        "see `az resource list`",
    ),
    "exists": Kind("absent", r"\w+(Already)?Exists", "it is there already: nothing to do"),
    "guest": Kind(
        "keep",
        r"VMAgentStatusCommunicationError|OSProvisioning\w+",
        "see the VM's boot diagnostics, or make it anew",
    ),
    "conflict": Kind(
        "retry",
        (
            r"ResourceGroupBeingDeleted|DeploymentActive|AnotherOperationInProgress|Conflict|RetryableError|NicInUse|"
            r"InUse\w+|\w+CannotBeDeleted|\w+NotProvisioned|ParentResourceIsInFailedState|ResourcesLeft|Canceled\w*|"
            r"\w*Internal(Execution|Operation)Error|OperationPreempted"
        ),
        "wait until it is done, then try again",
    ),
    "accelerated": Kind(
        "stop",
        r"VMSizeIsNotPermittedToEnableAcceleratedNetworking",
        "choose a size with accelerated networking (az vm list-skus -l REGION --size …), or set accelerated: false",
    ),
    "usage": Kind(
        "stop",
        (
            r"Invalid\w+|Usage|LocationNotAvailable\w+|NonAzSkusNotAllowed\w+|PrincipalNotFound|MustSpecify\w+|"
            r"\w+(NotSupported|DoesNotMatch|MustBe)\w+"
        ),
        "correct hosts.options",
    ),
    "timeout": Kind("keep", r"Timeout|Deadline", "see https://status.azure.com, then try again"),
    "other": Kind(
        "keep",
        r"Crashed",
        "see https://aka.ms/azure-status and the activity log (az monitor activity-log list)",
    ),
}
"""What Azure can refuse, and what is done about it; the first pattern that fits counts."""
EXCEPTIONS = {
    # something has to be repaired first: the same again would fail again
    "InitiatingCircuitNotProvisioned": "keep",
    "ParentResourceIsInFailedState": "keep",
    "GatewayError": "keep",
    # a new identity is not known everywhere at once
    "PrincipalNotFound": "retry",
}
"""Codes whose deed is not that of their kind."""
SIGNS = (
    # what az prints where it lost Azure's answer: pattern, code, sentence ({0}: what the pattern found)
    (r"subscription '?[^'\n]*'? (?:not found|doesn't exist)", "SubscriptionNotFound", ""),
    (r"az login", "NotLoggedIn", "nobody is logged in to az"),
    (r"'registrationState'", "MissingSubscriptionRegistration", "a resource provider is not registered"),
    (r"Some resources failed to be deleted", "ResourcesLeft", "some resources could not be deleted yet"),
    (
        # a missing resource is told by a document: a page of the front door says nothing about it
        r"^ERROR: Not Found\(<|invalid status 'Not Found'|JSON is invalid|Expecting value: line 1",
        "NoDocument",
        "the answer is a web page or empty, not Azure's own",
    ),
    (r"invalid status '([\w ]+)'", "{0}", "Azure answered {0} and nothing else"),
    # az rest: the reason of the status, and what came with it
    (r"^ERROR: ((?-i:[A-Z]\w+(?: [A-Z]\w+)*))\(<", "{0}", "Azure answered {0} with a web page"),
    (r"^ERROR: ((?-i:[A-Z]\w+(?: [A-Z]\w+)*))\(", "{0}", ""),
    (
        r"response was already consumed",
        "Hidden",
        "az lost the error that Azure gave; `az deployment group validate` would show it",
    ),
    (r"Here is the traceback:\n(?:.*\n)*((?:\w+\.)*\w*(?:Error|Exception): .*)", "Crashed", "az crashed, {0}"),
)


class AzError(AzureError):
    """A command of az, or a deployment, that failed: the message gives cause and remedy.

    `code` is Azure's root error code; `kind` is a key of `KINDS`; `wait_s` is the number of seconds that Azure asks to
    wait.
    """

    def __init__(self, message: str, *, code: str, kind: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.code, self.kind, self.wait_s = code, kind, wait_s

    @property
    def deed(self) -> str:
        """What to do about it: a key of `DEEDS`."""
        return EXCEPTIONS.get(self.code, KINDS[self.kind].deed)


def waits(failure: AzError, attempt: int) -> float | None:
    """Seconds to wait before the same command is tried again, or None if that is pointless."""
    if failure.kind == "throttled":
        return max(failure.wait_s or 0.0, min(10.0 * 2.0**attempt, 120.0))
    if failure.kind == "unavailable" and attempt < 3:
        return 5.0 * 2.0**attempt
    return None


def kind_of(code: str, message: str = "") -> str:
    """Kind of failure of an error code and its sentence."""
    if re.search(r"multi-?factor|\bMFA\b", message, re.IGNORECASE):  # since 2026 refused as if by a policy
        return "login"
    if code == "OperationNotAllowed":  # one code for quota and many other causes
        return "quota" if re.search(r"quota|limit", message, re.IGNORECASE) else "other"
    for name, kind in KINDS.items() if code in VAGUE else ():
        if kind.sentences and re.search(kind.sentences, message, re.IGNORECASE):
            return name
    fits = (name for name, kind in KINDS.items() if code not in WRAPPERS and re.fullmatch(kind.codes, code))
    return next(fits, "other")


def error_of(what: str, error: Any) -> AzError:
    """AzError from an error object of the resource manager: ``{code, message, details}``, possibly nested."""
    pairs = list(_walk(error))
    return _failure(what, pairs or [("Unknown", json.dumps(error)[:300])])


def read_failure(what: str, exit_code: int, text: str) -> AzError:
    """AzError from the standard error of an az command."""
    documents = list(_documents(text))
    pairs = [d for d in documents if d[1]]  # of a document that was cut, a part without a message may be left
    pairs += re.findall(r"^\s*Code:\s*(\w+)\s*\n\s*Message:\s*(.*)$", text, re.MULTILINE)
    pairs += re.findall(r"Exception Details:\s*\((\w+)\)\s*(.*)", text)
    for shape in (
        r'"[Cc]ode": "(\w+)", "[Mm]essage": "([^"]*)',  # a document that was cut
        r"^(?:ERROR|[\w.]+Error): \((\w+)\)\s*(.*)",
        r"(AADSTS\d+): ([^\n]*?)(?: Trace ID.*)?$",
    ):
        pairs = pairs or re.findall(shape, text, re.MULTILINE)[:1]
    pairs = pairs or documents
    if pairs:
        return _failure(what, pairs, text)
    message = _sentence(text) or f"exit code {exit_code} without a message"
    code = "Usage" if exit_code == 2 else "Unknown"
    errors = re.sub(r"^WARNING: .*\n", "", text, flags=re.MULTILINE)
    for sign, sign_code, words in SIGNS:
        if m := re.search(sign, errors, re.MULTILINE | re.IGNORECASE):
            part = m[1] if m.re.groups else ""
            code, message = sign_code.format(part.replace(" ", "")), words.format(part) or message
            break
    return _failure(what, [(code, message)], text)


def _failure(what: str, pairs: list[tuple[str, str]], text: str = "") -> AzError:
    explained = {code for code, message in pairs if message}
    inner = [f for f in pairs if f[0] not in WRAPPERS and (f[1] or f[0] not in explained)] or pairs
    # the worst cause first: a permanent failure outranks one that may succeed elsewhere
    stopping = [f for f in inner if kind_of(*f) not in ("capacity", "other")]
    code, message = (stopping or [f for f in inner if kind_of(*f) != "other"] or inner)[-1]
    kind = kind_of(code, message)
    remedy = KINDS[kind].remedy
    if kind == "provider" and (m := re.search(r"namespace '([\w.]+)'", message)):
        remedy = f"run `az provider register --wait --namespace {m[1]}`"
    if kind == "login" and (commands := re.findall(r"^\s*(az log(?:in|out)\b.*?)\s*$", text, re.MULTILINE)):
        # word for word: with a tenant, or the challenge that a second factor is asked for with
        remedy = f"run {', then '.join(f'`{c}`' for c in dict.fromkeys(commands))}, then try again"
    wait = re.search(r"(?:after|in) '?(\d+)'? seconds", message)
    text = re.sub(r"\s+", " ", message).strip().rstrip(".")
    text = re.split(r"\. (?:Setup Alerts|Read more|Submit a|Find out more|Please read more|For more)", text)[0]
    return AzError(
        f"{what}: {code}: {text[:600]}; {remedy}", code=code, kind=kind, wait_s=float(wait[1]) if wait else None
    )


def _documents(text: str) -> Iterator[tuple[str, str]]:
    """The errors of every JSON document in a text, which may begin anywhere: ``Forbidden({…})``, ``Content: {…}``."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            position += 1
        else:
            yield from _walk(document)


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    """Every (code, message) in an error document, outermost first."""
    if not isinstance(node, dict):
        return
    node = {str(key)[:1].lower() + str(key)[1:]: value for key, value in node.items()}
    if isinstance(node.get("error"), dict):
        yield from _walk(node["error"])
    elif "code" in node:
        message = str(node.get("message") or "")
        yield str(node["code"]).strip(), message
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
