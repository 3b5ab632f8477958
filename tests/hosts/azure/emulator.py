"""The emulated cloud behind HTTPS on loopback, so that the real az can talk to it; and what az
needs to find it."""

from __future__ import annotations

import base64
import csv
import json
import re
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from urllib.parse import parse_qsl, urlencode, urlsplit

from .cloud import OTHER, SUBSCRIPTION, TENANT, Answer

CLIENT = "00000000-0000-4000-8000-00000000000c"
CALLER = "192.0.2.7"
"""What the emulated service for one's own address answers."""


class Emulator:
    """Serve a cloud on a port of localhost until closed.

    Parameters
    ----------
    cloud : Cloud
        Its state; a lock keeps requests apart.
    folder : Path
        For certificates and the configuration of az.
    """

    def __init__(self, cloud, folder):
        self.cloud, self.folder, self.lock = cloud, folder, threading.RLock()
        self.after = lambda: None
        """Called after every request to the resource manager."""
        self.listed = recorded_prices()
        """The price list: an item a row."""
        self.page = 1000
        folder.mkdir(parents=True, exist_ok=True)
        certificate(folder)
        emulator = self

        class Handler(_Handler):
            owner = emulator

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.pem", folder / "server.key")
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.handle_error = lambda *_: None  # a client that was killed
        self.base = f"https://localhost:{self._server.server_port}"
        text = Path(__file__).with_name("endpoints.json").read_text("utf-8")
        self.endpoints = json.loads(
            Template(text).substitute(base=self.base, tenant=TENANT)
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def close(self):
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self, version):
        """Environment in which az of this version talks to the emulator, and nobody is looked up
        anywhere else."""
        config = self.folder / "az"
        configure(config, self.base, version)
        authority = str(self.folder / "ca.pem")
        return {
            "AZURE_CONFIG_DIR": str(config),
            "REQUESTS_CA_BUNDLE": authority,
            "SSL_CERT_FILE": authority,
            "AZURE_CORE_COLLECT_TELEMETRY": "no",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    # beside the resource manager

    def answer(self, method, path, query, body, authorized):
        """Answer any request."""
        low = path.lower()
        if low.endswith("/token"):
            with self.lock:
                if fault := self.cloud._fault("token", path):
                    return Answer(fault.status, fault.body)
            times = {"expires_in": 3599, "ext_expires_in": 3599}
            return Answer(200, times | {"token_type": "Bearer", "access_token": token()})
        for end, body_ in self.endpoints.items():
            if low.endswith(end):
                return Answer(200, body_)
        if low == "/prices":
            return self._prices(query.get("$filter", ""), int(query.get("$skip", 0)))
        if low == "/address":
            return Answer(200, CALLER)
        if not authorized:
            error = {"code": "AuthenticationFailed", "message": "Authentication failed."}
            return Answer(401, {"error": error}, {"WWW-Authenticate": "Bearer"})
        with self.lock:
            answer = self.cloud.request(method, path, query, body)
            self.after()
        return answer

    def _prices(self, wanted, skip):
        """A page of the items that fit a filter.

        What has no record in the region that is asked for has the dearest one of the other regions.
        """
        given = dict(re.findall(r"(\w+) eq '([^']*)'", wanted))
        region = given.pop("armRegionName", None)
        fits = [i for i in self.listed if all(i.get(k, v) == v for k, v in given.items())]
        rows = [i for i in fits if region in (None, i["armRegionName"])]
        if not rows and not str(region).startswith("Zone"):
            cheapest_first = sorted(fits, key=lambda i: float(i["retailPrice"]))
            meters = {(i["productName"], i["meterName"]): i for i in cheapest_first}
            rows = [i | {"armRegionName": region} for i in meters.values()]
        end = skip + self.page
        following = urlencode({"$filter": wanted, "$skip": end})
        link = f"{self.base}/prices?{following}" if rows[end:] else None
        page = {
            "Items": rows[skip:end],
            "NextPageLink": link,
            "Count": len(rows[skip:end]),
        }
        return Answer(200, page | {"BillingCurrency": "USD"})


def recorded_prices():
    """Prices that were recorded (`prices.tsv`)."""
    lines = (Path(__file__).parent / "prices.tsv").read_text("utf-8").splitlines()
    rows = csv.DictReader(
        (line for line in lines if not line.startswith("#")), delimiter="\t"
    )
    return [
        {"currencyCode": "USD", "type": "Consumption"}
        | row
        | {key: float(row[key]) for key in ("retailPrice", "tierMinimumUnits")}
        for row in rows
    ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Emulator

    def log_message(self, *_):
        """Silence."""

    def _go(self):
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        body = (
            _body(raw)
            if raw and "json" in (self.headers.get("Content-Type") or "")
            else None
        )
        authorized = (self.headers.get("Authorization") or "").startswith("Bearer ")
        answer = self.owner.answer(
            self.command, parts.path, dict(parse_qsl(parts.query)), body, authorized
        )
        data = (
            b""
            if answer.body is None
            else (
                answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            ).encode()
        )
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": "application/json; charset=utf-8",
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    # http.server wants these names
    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_HEAD = _go  # noqa: N815


def _body(raw):
    """A request's JSON. az sends a template as the text of its file, under a key without quotes."""
    text = raw.decode("utf-8")
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(re.sub(r",\s*template:", ', "template":', text, count=1))


def token():
    """An access token; nobody checks its signature."""

    def part(content):
        return (
            base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
        )

    now = int(time.time())
    claims = {"aud": "https://management.core.windows.net/", "tid": TENANT, "oid": CLIENT}
    claims |= {"iss": f"https://sts.windows.net/{TENANT}/", "appid": CLIENT}
    times = {"iat": now, "nbf": now, "exp": now + 3600}
    return ".".join(
        [part({"alg": "none", "typ": "JWT"}), part(claims | times), "c2lnbmVk"]
    )


def certificate(folder):
    """Write a certificate for localhost, which is its own authority."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    )
    command += " -subj /CN=localhost -keyout server.key -out ca.pem"
    for extension in (
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "keyUsage=critical,digitalSignature,keyCertSign",
    ):
        command += f" -addext {extension}"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


def configure(config, base, version):
    """Write the configuration of an az that is logged in to two subscriptions of the emulator."""
    config.mkdir(parents=True, exist_ok=True)
    names = {
        "subscription": SUBSCRIPTION,
        "other": OTHER,
        "tenant": TENANT,
        "client": CLIENT,
    }
    for file in Path(__file__).with_name("az-config").iterdir():
        text = Template(file.read_text("utf-8")).substitute(
            names, base=base, version=version
        )
        (config / file.name).write_text(text, "utf-8")


def logout(config):
    """Log out."""
    names = ("azureProfile.json", "service_principal_entries.json")
    for file in (*(config / name for name in names), *config.glob("msal_token_cache.*")):
        file.unlink(missing_ok=True)
