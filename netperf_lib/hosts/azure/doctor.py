"""Everything that can be known of a subscription before anything is created in it, a line each."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Any

from . import checks
from .az import Runs
from .failures import AzError

WRITES = (
    "Microsoft.Resources/deployments/write",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Network/virtualNetworks/write",
    "Microsoft.Network/networkInterfaces/write",
)
"""Actions that placing VMs needs."""


def _ahead(az: Runs, pool: ThreadPoolExecutor, commands: list[tuple[str, ...]]) -> Runs:
    """Run these commands at once, before anybody asks; what else is asked is run then."""
    answers = {command: pool.submit(az, *command) for command in dict.fromkeys(commands)}
    return lambda *command: answers[command].result() if command in answers else az(*command)


def _second_factor(az: Runs, findings: checks.Preflight) -> str:
    if findings.user_type == "servicePrincipal":
        return "not asked of a service principal"
    token = str((az(*TOKEN) or {}).get("accessToken", "")).split(".")
    claims = json.loads(base64.urlsafe_b64decode(token[1] + "==")) if len(token) == 3 else {}
    if "mfa" in claims.get("amr", ()):
        return "given at this login"
    findings.warnings.append("not given: Azure asks for it when something is created; run `az logout`, then `az login`")
    return ""


def _rights(az: Runs, findings: checks.Preflight) -> str:
    permissions = (az(*_permissions(findings)) or {}).get("value") or ()

    def may(action: str) -> bool:
        def fits(patterns: Any) -> bool:
            return any(fnmatchcase(action.lower(), str(p).lower()) for p in patterns or ())

        return any(fits(p.get("actions")) and not fits(p.get("notActions")) for p in permissions)

    where = findings.options.resource_group or "the subscription"
    if lacking := [action for action in WRITES if not may(action)]:
        findings.problems.append(f"no right to {', '.join(lacking)} in {where}: ask its owner for the role Contributor")
    return f"may create what is needed in {where}"


def _permissions(findings: checks.Preflight) -> tuple[str, ...]:
    group = findings.options.resource_group
    scope = f"/subscriptions/{findings.subscription}{f'/resourceGroups/{group}' if group else ''}"
    url = f"{scope}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
    return ("rest", "--method", "get", "--url", url)


TOKEN = ("account", "get-access-token")


def examine(
    findings: checks.Preflight, az: Runs, *, rehearse: Callable[[Runs, checks.Preflight], str]
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order), one after another; nothing is created.

    AzError if `az` is too old or nobody is logged in: nothing else can be known then.
    """
    yield "az", checks.version(az), True
    checks.login(findings, az)
    yield "login", f"user {findings.user}, subscription {findings.subscription}", not findings.problems
    with ThreadPoolExecutor(12) as pool:
        commands = [*checks.commands(findings), _permissions(findings)]
        commands += [TOKEN] if findings.user_type != "servicePrincipal" else []
        ahead = _ahead(az, pool, commands)
        subjects = {"second factor": _second_factor, "rights": _rights, **checks.CHECKS, "policy": rehearse}
        for subject, check in subjects.items():
            before = len(findings.problems), len(findings.elsewhere), len(findings.warnings)
            try:
                words = check(ahead, findings)
            except AzError as failure:
                if failure.deed == "login":
                    raise
                findings.problems.append(re.sub("^az [^:]*: ", "", str(failure)))
                words = ""
            trouble = findings.problems[before[0] :] + findings.elsewhere[before[1] :]
            warned = findings.warnings[before[2] :]
            yield subject, "; ".join([*trouble, *warned]) or words, not trouble
