"""The emulated cloud behind HTTPS on loopback, so that the real az can talk to it; and what az
needs to find it."""

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

from .cloud import OTHER, SUBSCRIPTION

HERE = Path(__file__).parent
TENANT = "7e7e7e7e-0000-4000-8000-000000000002"
CLIENT = "00000000-0000-4000-8000-00000000000c"
CALLER = "192.0.2.7"
"""What the emulated service for one's own address answers."""
CERTIFICATE = """openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2
-subj /CN=localhost -keyout server.key -out ca.pem
-addext subjectAltName=DNS:localhost,IP:127.0.0.1
-addext keyUsage=critical,digitalSignature,keyCertSign"""


class Emulator:
    """Serve a cloud on a port of localhost until closed; `folder` is for the files of az."""

    def __init__(self, cloud, folder):
        self.cloud, self.folder, self.lock = cloud, folder, threading.RLock()
        self.after = lambda: None
        """Called after every request to the resource manager."""
        self.page = 1000
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.pem", folder / "server.key")
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.handle_error = lambda *_: None  # a client that was killed
        self.base = f"https://localhost:{self._server.server_port}"
        text = Template((HERE / "endpoints.json").read_text("utf-8"))
        self.fixed = json.loads(text.substitute(base=self.base, tenant=TENANT))
        self.fixed["/token"] = {"expires_in": 3599, "access_token": token()}
        self.fixed["/token"] |= {"ext_expires_in": 3599, "token_type": "Bearer"}
        self.fixed["/address"] = CALLER
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        ).start()

    def close(self):
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def environment(self, version):
        """Environment in which az of this version is logged in to two subscriptions here."""
        config, authority = self.folder / "az", str(self.folder / "ca.pem")
        config.mkdir(exist_ok=True)
        names = {"subscription": SUBSCRIPTION, "other": OTHER, "tenant": TENANT}
        names |= {"client": CLIENT, "base": self.base, "version": version}
        for file in (HERE / "az-config").iterdir():
            text = Template(file.read_text("utf-8")).substitute(names)
            (config / file.name).write_text(text, "utf-8")
        return {
            "AZURE_CONFIG_DIR": str(config),
            "REQUESTS_CA_BUNDLE": authority,
            "SSL_CERT_FILE": authority,
            "AZURE_CORE_COLLECT_TELEMETRY": "no",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def logout(self):
        """Log out."""
        for file in (self.folder / "az").iterdir():
            if re.match("azureProfile|service_principal|msal_token", file.name):
                file.unlink()

    def answer(self, method, path, query, body):
        """Answer any request with a status and a document."""
        for end, fixed in self.fixed.items():
            if path.lower().endswith(end):
                return 200, fixed
        if path == "/prices":
            return 200, self._prices(query["$filter"], int(query.get("$skip", 0)))
        with self.lock:
            answer = self.cloud.request(method, path, query, body)
            self.after()
        return answer

    def _prices(self, wanted, skip):
        """A page of the recorded prices that fit a filter.

        What has no record in the region that is asked for has the dearest one of the other regions.
        """
        given = dict(re.findall(r"(\w+) eq '([^']*)'", wanted))
        region = given.pop("armRegionName")
        fits, dearest = [], {}
        for row in recorded_prices():
            if given.items() <= row.items():
                fits.append(row)
                dearest[row["productName"], row["meterName"]] = row
        rows = [row for row in fits if row["armRegionName"] == region]
        if not rows and region.isalnum():
            rows = [*dearest.values()]
        end = skip + self.page
        following = f"{self.base}/prices?{urlencode({'$filter': wanted, '$skip': end})}"
        more = following if rows[end:] else None
        return {"Items": rows[skip:end], "NextPageLink": more}


def recorded_prices():
    """Prices that were recorded (`prices.tsv`), the cheapest first."""
    lines = (HERE / "prices.tsv").read_text("utf-8").splitlines()
    table = csv.DictReader((n for n in lines if not n.startswith("#")), delimiter="\t")
    rows = [{"priceType": "Consumption"} | row for row in table]
    return sorted(rows, key=lambda row: float(row["retailPrice"]))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Silence."""

    def _go(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        is_json = "json" in (self.headers.get("Content-Type") or "")
        # az sends a template as the text of its file, under a key without quotes
        quoted = re.sub(r",\s*template:", ', "template":', raw, count=1)
        body = json.loads(quoted) if raw and is_json else None
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        status, answer = self.owner.answer(self.command, parts.path, query, body)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        data = b"" if answer is None else text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        if status >= 429:
            self.send_header("Retry-After", "0.01")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    # http.server wants these names
    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_HEAD = _go  # noqa: N815


def token():
    """An access token; nobody checks its signature."""
    now = int(time.time())
    claims = {"aud": "https://management.core.windows.net/", "tid": TENANT, "oid": CLIENT}
    claims |= {"appid": CLIENT, "iat": now, "nbf": now, "exp": now + 36000}
    texts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    head, body = (base64.urlsafe_b64encode(text).rstrip(b"=") for text in texts)
    return f"{head.decode()}.{body.decode()}.s"
