"""The commands of az that the project uses, against the emulated cloud in this process: fast, on
a clock of its own.

That it answers as the real az does is itself tested (`test_end_to_end.py` compares the two).
"""

import json
from pathlib import Path

from netperf_lib.hosts.azure.failures import AzError, error_of

from .cloud import BASE, SUBSCRIPTION

COMPUTE, NETWORK = "providers/Microsoft.Compute", "providers/Microsoft.Network"


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

    def __init__(self, cloud, **others):
        self.cloud = cloud
        self.clouds = {"emulated": cloud, SUBSCRIPTION: cloud, **others}
        """By name or id of a subscription."""
        self.selected = "emulated"
        self.commands = []
        self.before = self.after = lambda index, words: None
        """Called around every command; what the first returns in a list is the answer."""

    def once(self, command, title):
        words = tuple(command[1 : command.index("--output")])
        where = command[command.index("--output") + 2 :]
        index = len(self.commands)
        self.commands.append(words)
        if answer := self.before(index, words):
            return answer[0]
        try:
            self.cloud = self.clouds[where[1] if where else self.selected]
            found = self(*words)
        except AzError as failure:
            text = f"{title}: {failure}"
            raise AzError(
                text, code=failure.code, kind=failure.kind, wait_s=failure.wait_s
            ) from None
        finally:
            answer = self.after(index, words)
        return answer[0] if answer else found

    def __call__(self, *words):
        return self._run(*words)

    def _run(self, *words):
        first = next((i for i, w in enumerate(words) if w.startswith("--")), len(words))
        verb, given = " ".join(words[:first]), dict[str, list[str]]()
        for word in words[first:]:
            if word.startswith("--"):
                name = word.lstrip("-").replace("-", "_")
                given[name] = []
            else:
                given[name].append(word)
        one = {name: values[0] for name, values in given.items() if values}
        if verb in SHOWN:
            flat, path = SHOWN[verb]
            query = {"includeColocationStatus": "true"} if verb == "ppg show" else {}
            answer = self._ask("GET", path.format(**one).removeprefix(BASE + "/"), query)
            answer = answer["value"] if verb.split()[-1].startswith("list") else answer
            return _flat(answer) if flat else answer
        if verb in DONE:
            method, path = DONE[verb]
            body = _body(one) if "template_file" in one else None
            answer = self._ask(method, path.format(**one), body=body)
            return answer and answer.get("properties", answer)
        return getattr(self, "_" + verb.replace(" ", "_").replace("-", "_"))(one, given)

    def _ask(self, method, path, query=None, body=None):
        answer = self.cloud.request(method, f"{BASE}/{path}", query, body)
        if answer.status >= 400:
            raise error_of("az", answer.body["error"])
        return answer.body

    def _account_show(self, one, _):
        name = one.get("subscription", self.selected)
        if name not in self.clouds:
            raise AzError(
                "no such subscription", code="SubscriptionNotFound", kind="permission"
            )
        cloud = self.clouds[name]
        ids = [n for n, known in self.clouds.items() if known is cloud]
        user = {"name": "tester", "type": "user"}
        return {"id": ids[-1], "name": ids[0], "state": "Enabled", "user": user}

    def _rest(self, one, _):
        return self.cloud.request("GET", one["url"].partition("?")[0]).body

    def _group_create(self, one, given):
        tags = dict(t.split("=", 1) for t in given["tags"])
        body = {"location": one["location"], "tags": tags}
        return self._ask("PUT", f"resourceGroups/{one['name']}", body=body)

    def _group_list(self, one, _):
        query = {"$filter": f"tagName eq '{one['tag']}'"}
        return self._ask("GET", "resourceGroups", query)["value"]

    def _vm_list(self, one, given):
        path = f"resourceGroups/{one['resource_group']}/{COMPUTE}/virtualMachines"
        found = _flat(self._ask("GET", path)["value"])
        for vm in found if "show_details" in given else ():
            view = self._ask("GET", f"{path}/{vm['name']}/instanceView")
            vm["powerState"] = view["statuses"][-1]["displayStatus"]
        return found


def _body(one):
    files = one["template_file"], one["parameters"].removeprefix("@")
    template, given = (json.loads(Path(file).read_text("utf-8")) for file in files)
    properties = {"template": template, "parameters": given["parameters"]}
    return {"properties": properties, "location": one.get("location")}


GROUP = "resourceGroups/{resource_group}"
DEPLOYMENTS = f"{GROUP}/providers/Microsoft.Resources/deployments"
SUB = "providers/Microsoft.Resources/deployments/{name}"
SHOWN = {
    # command: (whether what stands under properties is lifted up, path)
    "group show": (False, "resourceGroups/{name}"),
    "network list-usages": (False, f"{NETWORK}/locations/{{location}}/usages"),
    "deployment group list": (False, DEPLOYMENTS),
    "deployment group show": (False, f"{DEPLOYMENTS}/{{name}}"),
    "network nic list": (True, f"{GROUP}/{NETWORK}/networkInterfaces"),
    "network vpn-connection show": (True, f"{GROUP}/{NETWORK}/connections/{{name}}"),
    "ppg show": (True, "{ids}"),
}
DONE = {
    "group delete": ("DELETE", "resourceGroups/{name}"),
    "deployment group create": ("PUT", f"{DEPLOYMENTS}/{{name}}"),
    "deployment group cancel": ("POST", f"{DEPLOYMENTS}/{{name}}/cancel"),
    "deployment sub validate": ("POST", f"{SUB}/validate"),
    "deployment sub what-if": ("POST", f"{SUB}/whatIf"),
}


def _flat(node):
    """As az shows a resource: what stands under properties is lifted up, at every level."""
    if isinstance(node, list):
        return [_flat(x) for x in node]
    if not isinstance(node, dict):
        return node
    out = {k: _flat(v) for k, v in node.items() if k != "properties"}
    return out | (
        _flat(node["properties"]) if isinstance(node.get("properties"), dict) else {}
    )
