"""`network.rules` of a request: headers that brig-proxy sets on what the sandbox sends to a host. A header goes only where
the rules lead anyway, and its value is nowhere but in the request: each case has its control, a sandbox of the same template
without the rule, and what the server got is the witness."""
import http.server
import json
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

import npmlib
import pytest
from daemonlib import IS_ROOT, USERS, Daemon, wait_for
from netlab import pki


# The only store of the daemon's world, in a mount namespace of its own.
TRUSTING = 'mount --make-rprivate / && mount --bind "$0" /etc/ssl/certs && exec "$@"'
FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    name, _, url = url.partition("=")
    try:
        request = urllib.request.Request(url, headers={"X-Own": "yes", **({name: "of-the-code"} if name else {})})
        print(urllib.request.urlopen(request, timeout=60).read().decode())
    except OSError as error:
        print(type(error).__name__, getattr(error, "code", ""))
"""


def random_value():
    """A value of this test's own: whatever is found of it comes from here."""
    return "value-" + secrets.token_hex(12)


class Web:
    """Tells what it was sent, and remembers it."""

    def __init__(self, context=None):
        self.seen = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                got = {name.lower(): value for name, value in self.headers.items()}
                web.seen.append(got)
                body = json.dumps(got).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def world():
    """(plain server, TLS server, trust folder)"""
    folder = Path(tempfile.mkdtemp(prefix="test-brig-rules-"))
    folder.chmod(0o755)
    ca = pki.Authority(folder / "ca")
    cert, key = ca.issue("tls", ["tls.test"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    plain, tls = Web(), Web(context)
    yield plain, tls, pki.trust_folder(folder / "trust", ca.pem)
    plain.close()
    tls.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=USERS)
def daemon(request, world):
    plain, tls, trust = world
    allow = [f"http://{name}.test:{plain.port}=127.0.0.1" for name in ("api", "other", "tls", "bound")]
    allow += [f"https://tls.test:{tls.port}=127.0.0.1", f"any.test:{plain.port}=127.0.0.1", f"http://*.wild.test:{plain.port}=127.0.0.1"]
    operators = {"name": "OPERATORS", "source": "env:BRIG_TEST_OPERATORS", "origin": f"http://bound.test:{plain.port}"}
    policy = {"network": {"allow": allow, "block": ["blocked.wild.test"]}, "credentials": {"secrets": [operators]}}
    templates = {"web.json": json.dumps({"policy": policy})}
    wrapper = ["unshare", "--mount", "sh", "-c", TRUSTING, str(trust)] if IS_ROOT else []
    with Daemon(request.param, templates=templates, wrapper=wrapper, env={"BRIG_TEST_OPERATORS": "operators-value"}) as made:
        made.agent = made.add_key("agent")
        yield made


@pytest.fixture
def make(daemon):
    made = []

    def make(rules=None, key=None, template="web", **network):
        network = {**({"rules": rules} if rules else {}), **network}
        made.append(daemon.create(template, key=key or daemon.agent, **({"network": network} if network else {})))
        return made[-1]

    yield make
    for box in made:
        box.kill()


def rule(host, **headers):
    return {host: [{"transform": {"headers": {name.replace("_", "-"): value for name, value in headers.items()}}}]}


def fetch(box, *urls):
    return box.run("python3", "-c", FETCH, *urls).out.decode().splitlines()


# ---- where it goes ----

def test_a_header_is_set_where_its_rule_says_and_nowhere_else(world, make):
    plain, value = world[0], random_value()
    urls = [f"X-Api-Key=http://{name}.test:{plain.port}/" for name in ("api", "other")]
    control, box = make(), make(rule("api.test", X_Api_Key=value))
    for sandbox, expected in ((control, ["of-the-code"] * 2), (box, [value, "of-the-code"])):
        del plain.seen[:]
        fetch(sandbox, *urls)
        assert [got["x-api-key"] for got in plain.seen] == expected
        assert all(got["x-own"] == "yes" for got in plain.seen)


def test_what_the_server_repeats_is_not_readable_inside(world, make):
    plain, value, token = world[0], random_value(), random_value()
    box = make(rule("api.test", X_Api_Key=value, Authorization=f"Bearer {token}"))
    del plain.seen[:]
    [told] = fetch(box, f"=http://api.test:{plain.port}/")
    assert (plain.seen[0]["x-api-key"], plain.seen[0]["authorization"]) == (value, f"Bearer {token}")
    told = json.loads(told)
    assert told["x-api-key"] == "*" * len(value), "control: the server repeats what it got"
    assert told["authorization"] == "Bearer " + "*" * len(token)
    seen = box.sh("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true").out.decode(errors="replace")
    assert "PATH=" in seen and value not in seen and token not in seen and "NETWORK_RULE" not in seen


def test_over_https(world, make):
    """And not over http where there is https: code that asks for http:// would make it readable on the way."""
    if not IS_ROOT:
        pytest.skip("a trust store of its own needs root")
    plain, tls, _ = world
    value = random_value()
    urls = [f"X-Api-Key=https://tls.test:{tls.port}/", f"X-Api-Key=http://tls.test:{plain.port}/"]
    for sandbox, expected in ((make(), "of-the-code"), (make(rule("tls.test", X_Api_Key=value)), value)):
        del plain.seen[:], tls.seen[:]
        told = fetch(sandbox, *urls)
        assert [got["x-api-key"] for got in tls.seen] == [expected], told
        assert value not in json.dumps(plain.seen) and value not in "".join(told)


def test_a_host_below_a_pattern_of_the_template(world, make, daemon):
    plain, value = world[0], random_value()
    box = make(rule("one.wild.test", X_Api_Key=value))
    del plain.seen[:]
    fetch(box, *[f"=http://{name}.wild.test:{plain.port}/" for name in ("one", "two", "blocked")])
    assert [got.get("x-api-key") for got in plain.seen] == [value, None]
    told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": rule("blocked.wild.test", X_Api_Key=value)}})
    assert told.status == 403, told


# ---- nothing is wider for it ----

def test_a_header_opens_no_host(world, make, daemon):
    """R-P1: for the key of an agent, and within what the same request asks for."""
    plain, value = world[0], random_value()
    one, two = f"http://api.test:{plain.port}", f"http://other.test:{plain.port}"
    for body, key in (({"rules": rule("beyond.test", X_Api_Key=value)}, daemon.agent),
                      ({"rules": rule("beyond.test", X_Api_Key=value)}, True),
                      ({"rules": rule("other.test", X_Api_Key=value), "allowOut": [one]}, daemon.agent),
                      ({"rules": rule("api.test", X_Api_Key=value), "denyOut": ["api.test"]}, daemon.agent),
                      ({"rules": rule("api.test", X_Api_Key=value), "allow_internet_access": False}, daemon.agent),
                      ({"rules": rule("beyond.test", X_Api_Key=value), "allowOut": ["beyond.test"]}, daemon.agent)):
        told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": body}, key=key)
        assert told.status == 403 and value not in told.body.decode(), (body, told)
    box = make(rule("api.test", X_Api_Key=value), allowOut=[one])
    del plain.seen[:]
    told = fetch(box, f"={one}/", f"={two}/")
    assert [got["x-api-key"] for got in plain.seen] == [value] and "Error" in told[1]
    # An operator's key may name hosts beyond the template's, also where the template has none.
    for template in ("web", "base"):
        make(rule("beyond.test", X_Api_Key=value), key=True, template=template, allowOut=["beyond.test"])
    assert daemon.request("POST", "/sandboxes", {"network": {"rules": rule("beyond.test", X_Api_Key=value)}}).status == 403


def test_where_the_operator_binds_a_secret_a_request_says_nothing(world, make, daemon):
    plain, value = world[0], random_value()
    del plain.seen[:]
    fetch(make(), f"=http://bound.test:{plain.port}/")
    assert plain.seen[0]["authorization"] == "Bearer operators-value"
    for name in ("Authorization", "X-Api-Key"):
        told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": rule("bound.test", **{name: value})}})
        assert told.status == 403 and "OPERATORS" in told.json["message"], told


PROMISES = ["Host", "host", "Content-Length", "Content_Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
            "Expect", "Proxy-Authorization", "Proxy-Connection", "proxy-anything", "Accept-Encoding", "Range", "Content-Type",
            "Content-Encoding", "Sec-WebSocket-Protocol", "X-HTTP-Method-Override", "X-Http-Method", "X-Method-Override", "X-Forwarded-Host",
            "Forwarded", "X-Original-URL", "X-Rewrite-Url", "X-Host"]


@pytest.mark.parametrize("name", PROMISES)
def test_headers_that_would_break_a_promise(daemon, name):
    value = random_value()
    told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": {"api.test": [{"transform": {"headers": {name: value}}}]}}})
    assert told.status == 400 and name in told.json["message"] and value not in told.body.decode(), told


def headers(given):
    return {"api.test": [{"transform": {"headers": given}}]}


BAD = {
    "name-blank": headers({"X Key": "12345678"}), "name-colon": headers({"X-Key:": "12345678"}), "name-empty": headers({"": "12345678"}),
    "name-line": headers({"X-Key\r\nX-Other": "12345678"}), "name-long": headers({"X" * 65: "12345678"}), "name-brace": headers({"X-{}": "12345678"}),
    "value-line": headers({"X-Key": "sekret12\r\nX-Other: 1"}), "value-short": headers({"X-Key": "sekret1"}), "value-empty": headers({"X-Key": ""}),
    "value-long": headers({"X-Key": "sekret" * 400}), "value-utf8": headers({"X-Key": "sekretéééé"}), "value-number": headers({"X-Key": 12345678}),
    "value-blank": headers({"X-Key": " sekret12"}), "twice": headers({"X-Key": "sekret12", "x_key": "sekret34"}),
    "many": headers({f"X-{i}": "sekret12" for i in range(21)}), "hosts": {f"h{i}.test": [] for i in range(11)},
    "pattern": rule("*.wild.test", X_Key="sekret12"), "port": rule("api.test:80", X_Key="sekret12"), "rules": {"api.test": [{}, {}]},
    "list": {"api.test": {"transform": {}}}, "unknown": {"api.test": [{"transform": {"body": "sekret12"}}]}, "other": {"api.test": [{"redirect": 1}]},
    "text": {"api.test": [{"transform": "sekret12"}]}, "any-scheme": rule("any.test", X_Key="sekret12"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_malformed(daemon, name):
    told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": BAD[name]}})
    assert told.status == (403 if name == "any-scheme" else 400), told
    assert "sekret" not in told.body.decode() and len(told.json["message"]) > 20


def test_nothing_to_set_is_nothing(make):
    for rules in ({"api.test": []}, {"api.test": [{}]}, {"api.test": [{"transform": {}}]}, {"api.test": [{"transform": {"headers": {}}}]}):
        make(rules)


def test_what_is_not_offered(daemon):
    for name in ("e2b.secrets.key", "e2b.identity.tokens.aws"):
        told = daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": rule("api.test", X_Key=f"${{{name}}}")}})
        assert told.status == 501, told
    box = daemon.create("web")
    try:
        told = daemon.request("PUT", f"/sandboxes/{box.id}/network", {"rules": rule("api.test", X_Key="12345678")})
        assert told.status == 400 and "when a sandbox is made" in told.json["message"]
    finally:
        box.kill()


def test_it_stays_when_the_rules_are_changed(world, make, daemon):
    plain, value = world[0], random_value()
    one = f"http://api.test:{plain.port}"
    box = make(rule("api.test", X_Api_Key=value))
    for allow, reached in (([one], True), ([], False), ([one], True)):
        assert daemon.request("PUT", f"/sandboxes/{box.id}/network", {"allowOut": allow}, key=daemon.agent).status == 204
        del plain.seen[:]
        fetch(box, f"={one}/")
        assert [got["x-api-key"] for got in plain.seen] == [value] * reached


# ---- and it is nowhere else ----

def files_with(folder, mark):
    for path in Path(folder).rglob("*"):
        if path.is_file() and mark in path.read_bytes():
            yield path


def processes_with(daemon, mark):
    for pid in [daemon.pid, *daemon.children()]:
        for name in ("cmdline", "environ"):
            try:
                if mark in Path(f"/proc/{pid}/{name}").read_bytes():
                    yield pid, name
            except OSError:
                pass


def test_the_value_is_in_no_answer_record_receipt_file_or_process(world, make, daemon):
    plain, value, name = world[0], random_value(), "X-" + random_value()
    box = make(rule("api.test", **{name.replace("-", "_"): value}))
    del plain.seen[:]
    fetch(box, f"=http://api.test:{plain.port}/")
    assert plain.seen[0][name.lower()] == value
    assert not list(processes_with(daemon, value.encode()))
    for path in (f"/sandboxes/{box.id}", "/v2/sandboxes", f"/sandboxes/{box.id}/logs", "/templates", "/metrics", "/accounts"):
        told = daemon.request("GET", path)
        assert told.status == 200 and value not in told.body.decode(), path
    # One that is refused, with the value in it, and one that ends.
    assert daemon.request("POST", "/sandboxes", {"templateID": "web", "network": {"rules": rule("beyond.test", X_Key=value)}}).status == 403
    box.kill()

    receipt = wait_for(lambda: (told := daemon.request("GET", f"/sandboxes/{box.id}/receipt")).status == 200 and told, what="its receipt")
    audit = [daemon.request("GET", path).body.decode() for path in (f"/audit?box={box.id}&limit=100", "/audit?kind=box.refused&limit=100")]
    assert all("records" in told and value not in told for told in audit) and box.id in audit[0] and "beyond.test" in audit[1]
    assert value not in receipt.body.decode() and "NETWORK_RULE_1" in receipt.body.decode()
    assert not list(files_with(daemon.folder, value.encode()))
    if IS_ROOT:
        assert list(files_with(daemon.folder, box.id.encode())), "control: what is recorded is found"


# ---- the real client ----

def test_client(daemon, world):
    clients = npmlib.install()
    value = random_value()
    env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url,
           "E2B_API_KEY": daemon.agent, "WEB": str(world[0].port), "VALUE": value}
    del world[0].seen[:]
    said = subprocess.run(["node", "headers.mjs"], cwd=clients, env=env, text=True, capture_output=True, timeout=900)
    assert said.returncode == 0 and "ok " in said.stdout, said.stdout + said.stderr
    assert [got["x-api-key"] for got in world[0].seen] == ["of-the-code", value]
