"""The commands of az that the project uses, against the emulated cloud in this process: fast, on a clock of its own.

That it answers as the real az does is itself tested (`test_end_to_end.py` compares the two).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netperf_lib.hosts.azure.failures import AzError, error_of

from .cloud import BASE, SUBSCRIPTION, Cloud

COMPUTE, NETWORK = "providers/Microsoft.Compute", "providers/Microsoft.Network"


class Clock:
    """Time that passes only when someone sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class DirectAz:
    """Stands where `netperf_lib.hosts.azure.az.Az` stands."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.commands: list[tuple[str, ...]] = []
        self.user = {"name": "tester", "type": "user"}  # who is logged in
        self.interrupt_at: int | None = None
        self.interrupt_when: Callable[[tuple[str, ...]], bool] | None = None
        self.interrupt_after = False
        self.stopping: Callable[[], Any] = lambda: None
        """Called when it is interrupted."""
        self.version = "2.91.0"

    def __call__(self, *words: str) -> Any:
        index = len(self.commands)
        self.commands.append(words)
        due = index == self.interrupt_at or bool(self.interrupt_when and self.interrupt_when(words))
        if due and not self.interrupt_after:
            self.stopping()
            raise KeyboardInterrupt
        try:
            return self._run(*words)
        finally:
            if due:
                self.stopping()
                raise KeyboardInterrupt

    def _run(self, *words: str) -> Any:
        verb = []
        rest = list(words)
        while rest and not rest[0].startswith("--"):
            verb.append(rest.pop(0))
        given: dict[str, list[str]] = {}
        name = ""
        for word in rest:
            if word.startswith("--"):
                name = word
                given[name] = []
            else:
                given[name].append(word)
        method = getattr(self, "_" + "_".join(verb).replace("-", "_"))
        return method({k.lstrip("-").replace("-", "_"): v for k, v in given.items()})

    def _ask(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Any = None
    ) -> Any:
        answer = self.cloud.request(method, f"{BASE}/{path}", query, body)
        if answer.status >= 400:
            error = (answer.body or {}).get("error", {"code": "NotFound", "message": path})
            raise error_of("az", error)
        if answer.status == 202 and method == "POST":  # az waits for the result
            return self.cloud.request("GET", answer.headers["Location"].partition("?")[0]).body
        return answer.body

    def _list(self, path: str, query: dict[str, str] | None = None) -> Any:
        return [_flat(r) for r in self._ask("GET", path, query)["value"]]

    def _account_show(self, o: dict[str, list[str]]) -> Any:
        wanted = o.get("subscription", [SUBSCRIPTION])[0]
        if wanted not in (SUBSCRIPTION, "emulated"):
            raise AzError("no such subscription", code="SubscriptionNotFound", kind="subscription")
        return {"id": SUBSCRIPTION, "name": "emulated", "state": "Enabled", "user": self.user}

    def _version(self, o: dict[str, list[str]]) -> Any:
        return {"azure-cli": self.version}

    def _rest(self, o: dict[str, list[str]]) -> Any:
        answer = self.cloud.request(o["method"][0].upper(), o["url"][0].partition("?")[0])
        if answer.status >= 400:
            raise error_of("az", answer.body["error"])
        return answer.body

    def _vm_image_show(self, o: dict[str, list[str]]) -> Any:
        publisher, offer, sku, version = o["urn"][0].split(":")
        where = f"{COMPUTE}/locations/{o['location'][0]}/publishers/{publisher}/artifacttypes/vmimage/offers/{offer}/skus"
        if version == "latest":
            version = self._ask("GET", f"{where}/{sku}/versions")[0]["name"]
        return _flat(self._ask("GET", f"{where}/{sku}/versions/{version}"))

    def _network_list_usages(self, o: dict[str, list[str]]) -> Any:
        return self._ask("GET", f"{NETWORK}/locations/{o['location'][0]}/usages")["value"]

    def _network_nsg_rule_update(self, o: dict[str, list[str]]) -> Any:
        group = self._of(
            {"resource_group": o["resource_group"]}, f"{NETWORK}/networkSecurityGroups"
        )
        path = f"{group}/{o['nsg_name'][0]}/securityRules/{o['name'][0]}"
        rule = self._ask("GET", path)
        rule["properties"] |= {
            "sourceAddressPrefix": None,
            "sourceAddressPrefixes": o["source_address_prefixes"],
        }
        self._ask("PUT", path, body=rule)

    def _network_nic_show_effective_route_table(self, o: dict[str, list[str]]) -> Any:
        return self._ask(
            "POST", self._of(o, f"{NETWORK}/networkInterfaces") + "/effectiveRouteTable"
        )

    def _vm_list_skus(self, o: dict[str, list[str]]) -> Any:
        found = self._ask(
            "GET", f"{COMPUTE}/skus", {"$filter": f"location eq '{o['location'][0]}'"}
        )["value"]
        return [s for s in found if o["size"][0].lower() in s["name"].lower()]

    def _vm_list_usage(self, o: dict[str, list[str]]) -> Any:
        return self._ask("GET", f"{COMPUTE}/locations/{o['location'][0]}/usages")["value"]

    def _group_create(self, o: dict[str, list[str]]) -> Any:
        tags = dict(t.split("=", 1) for t in o.get("tags", []))
        return self._ask(
            "PUT",
            f"resourceGroups/{o['name'][0]}",
            body={"location": o["location"][0], "tags": tags},
        )

    def _group_show(self, o: dict[str, list[str]]) -> Any:
        return self._ask("GET", f"resourceGroups/{o['name'][0]}")

    def _group_list(self, o: dict[str, list[str]]) -> Any:
        query = {"$filter": f"tagName eq '{o['tag'][0]}'"} if "tag" in o else {}
        return self._ask("GET", "resourceGroups", query)["value"]

    def _group_delete(self, o: dict[str, list[str]]) -> Any:
        self._ask("DELETE", f"resourceGroups/{o['name'][0]}")

    def _deployment(self, o: dict[str, list[str]], tail: str = "") -> str:
        name = o.get("name", ["x"])[0]
        return f"resourceGroups/{o['resource_group'][0]}/providers/Microsoft.Resources/deployments/{name}{tail}"

    def _body(self, o: dict[str, list[str]]) -> Any:
        template = json.loads(Path(o["template_file"][0]).read_text("utf-8"))
        given = json.loads(Path(o["parameters"][0].removeprefix("@")).read_text("utf-8"))
        return {
            "properties": {
                "mode": "Incremental",
                "template": template,
                "parameters": given["parameters"],
            }
        }

    def _deployment_sub_validate(self, o: dict[str, list[str]]) -> Any:
        return self._ask(
            "POST",
            self._rehearsal(o, "/validate"),
            body=self._body(o) | {"location": o["location"][0]},
        )

    def _deployment_sub_what_if(self, o: dict[str, list[str]]) -> Any:
        body = self._body(o) | {"location": o["location"][0]}
        return self._ask("POST", self._rehearsal(o, "/whatIf"), body=body)["properties"]

    def _rehearsal(self, o: dict[str, list[str]], tail: str) -> str:
        return f"providers/Microsoft.Resources/deployments/{o['name'][0]}{tail}"

    def _deployment_group_create(self, o: dict[str, list[str]]) -> Any:
        self._ask("PUT", self._deployment(o), body=self._body(o))

    def _deployment_group_list(self, o: dict[str, list[str]]) -> Any:
        where = f"resourceGroups/{o['resource_group'][0]}/providers/Microsoft.Resources/deployments"
        return self._ask("GET", where)["value"]

    def _deployment_group_cancel(self, o: dict[str, list[str]]) -> Any:
        self._ask("POST", self._deployment(o, "/cancel"))

    def _deployment_group_show(self, o: dict[str, list[str]]) -> Any:
        return self._ask("GET", self._deployment(o))

    def _deployment_operation_group_list(self, o: dict[str, list[str]]) -> Any:
        return self._ask("GET", self._deployment(o, "/operations"))["value"]

    def _of(self, o: dict[str, list[str]], kind: str) -> str:
        return f"resourceGroups/{o['resource_group'][0]}/{kind}" + (
            f"/{o['name'][0]}" if "name" in o else ""
        )

    def _vm_list(self, o: dict[str, list[str]]) -> Any:
        found = self._list(self._of(o, f"{COMPUTE}/virtualMachines"))
        if "show_details" in o:
            for vm in found:
                view = self._ask("GET", f"{vm['id'].removeprefix(BASE + '/')}/instanceView")
                vm["powerState"] = next(
                    s["displayStatus"] for s in view["statuses"] if "PowerState" in s["code"]
                )
        return found

    def _network_nic_list(self, o: dict[str, list[str]]) -> Any:
        return self._list(self._of(o, f"{NETWORK}/networkInterfaces"))

    def _network_public_ip_list(self, o: dict[str, list[str]]) -> Any:
        return self._list(self._of(o, f"{NETWORK}/publicIPAddresses"))

    def _network_vnet_list(self, o: dict[str, list[str]]) -> Any:
        return self._list(self._of(o, f"{NETWORK}/virtualNetworks"))

    def _network_vpn_connection_show(self, o: dict[str, list[str]]) -> Any:
        return _flat(self._ask("GET", self._of(o, f"{NETWORK}/connections")))

    def _ppg_show(self, o: dict[str, list[str]]) -> Any:
        path = o["ids"][0].removeprefix(BASE + "/")
        return _flat(self._ask("GET", path, {"includeColocationStatus": "true"}))


def _flat(node: Any) -> Any:
    """As az shows a resource: what stands under properties is lifted up, at every level."""
    if isinstance(node, list):
        return [_flat(x) for x in node]
    if not isinstance(node, dict):
        return node
    out = {k: _flat(v) for k, v in node.items() if k != "properties"}
    return out | (_flat(node["properties"]) if isinstance(node.get("properties"), dict) else {})
