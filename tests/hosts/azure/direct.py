"""The commands of az that the project uses, against the emulated cloud in this process: fast, on
a clock of its own.

That it answers as the real az does is itself tested (`test_end_to_end.py` compares the two).
"""

import json
import re
from pathlib import Path

from netperf_lib.hosts.azure.failures import AzError, error_of

from .cloud import BASE, SUBSCRIPTION

GROUPS = f"{BASE}/resourceGroups"
GROUP = f"{GROUPS}/{{resource-group}}/providers"
DEPLOYMENTS = f"{GROUP}/Microsoft.Resources/deployments"
REHEARSAL = f"POST {BASE}/providers/Microsoft.Resources/deployments/{{name}}"
COMMANDS = {
    "group show": f"GET {GROUPS}/{{name}}",
    "group create": f"PUT {GROUPS}/{{name}}",
    "group delete": f"DELETE {GROUPS}/{{name}}",
    "group list": f"GET {GROUPS}",
    "deployment group list": f"GET {DEPLOYMENTS}",
    "deployment group show": f"GET {DEPLOYMENTS}/{{name}}",
    "deployment group create": f"PUT {DEPLOYMENTS}/{{name}}",
    "deployment group cancel": f"POST {DEPLOYMENTS}/{{name}}/cancel",
    "deployment sub validate": f"{REHEARSAL}/validate",
    "deployment sub what-if": f"{REHEARSAL}/whatIf",
    "network nic list": f"GET {GROUP}/Microsoft.Network/networkInterfaces",
    "network vpn-connection show": f"GET {GROUP}/Microsoft.Network/connections/{{name}}",
    "ppg show": "GET {ids}",
    "vm list": f"GET {GROUP}/Microsoft.Compute/virtualMachines",
    "rest": "GET {url}",
}


class Clock:
    """Time that passes only when someone sleeps."""

    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


class DirectAz:
    """Stands where `netperf_lib.hosts.azure.az._once` stands, below all that is repeated."""

    def __init__(self, cloud):
        self.clouds = {"emulated": cloud, SUBSCRIPTION: cloud}
        """By name or id of a subscription."""
        self.selected = "emulated"
        self.commands = []
        self.before = self.after = lambda index, words: None
        """Called around every command; what is returned in a list is the answer."""

    def once(self, command, title):
        end = command.index("--output")
        words, where = tuple(command[1:end]), command[end + 3 :]
        index = len(self.commands)
        self.commands.append(words)
        if answer := self.before(index, words):
            return answer[0]
        try:
            found = self(*words, subscription=where[0] if where else self.selected)
        finally:
            answer = self.after(index, words)
        return answer[0] if answer else found

    def __call__(self, *words, subscription="emulated"):
        line = " ".join(words)
        verb = line.partition(" --")[0]
        given = dict(re.findall(r"--([\w-]+)(?: (?!--)(.*?))?(?= --|$)", line))
        if verb == "account show":
            return self._account(given.get("subscription", subscription))
        method, path = COMMANDS[verb].format(**given).split(" ")
        query, body = {}, None
        if "tag" in given:
            query = {"$filter": f"tagName eq '{given['tag']}'"}
        elif verb == "ppg show":
            query = {"includeColocationStatus": "true"}
        if "tags" in given:
            tags = dict(pair.split("=", 1) for pair in given["tags"].split())
            body = {"location": given["location"], "tags": tags}
        elif "template-file" in given:
            template = json.loads(Path(given["template-file"]).read_text("utf-8"))
            values = json.loads(Path(given["parameters"].lstrip("@")).read_text("utf-8"))
            body = {"properties": {"template": template, **values}}
        cloud = self.clouds[subscription]
        answer = _ask(cloud, method, path.partition("?")[0], query, body)
        if verb.startswith("deployment sub"):
            return answer["properties"]
        if verb.endswith("list"):
            answer = answer["value"]
        if verb == "vm list":
            for vm in answer:
                seen = _ask(cloud, "GET", vm["id"], {"$expand": "instanceView"})
                (state,) = seen["properties"]["instanceView"]["statuses"]
                vm["powerState"] = state["displayStatus"]
        return _flat(answer) if verb.split()[0] in ("vm", "network", "ppg") else answer

    def _account(self, name):
        if name not in self.clouds:
            raise AzError("no such one", code="SubscriptionNotFound", kind="permission")
        ids = [n for n, known in self.clouds.items() if known is self.clouds[name]]
        return {"id": ids[-1], "name": ids[0], "user": {"name": "tester", "type": "user"}}


def _ask(cloud, method, path, query, body=None):
    status, answer = cloud.request(method, path, query, body)
    if status >= 400:
        raise error_of("az", answer["error"])
    return answer


def _flat(node):
    """As az shows a resource: what stands under properties is lifted up, at every level."""
    if isinstance(node, list):
        return [_flat(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    out = {key: _flat(entry) for key, entry in node.items()}
    inside = out.pop("properties", {})
    return out | inside if isinstance(inside, dict) else out
