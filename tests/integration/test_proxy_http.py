"""HTTP through brig-proxy, request by request; servers and clients are raw sockets, so that every byte counts."""

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import select
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
from helpers import SANITIZED, wait_for
from proxylib import PROXY, Proxy, Server, drain

HOST = "origin.test"


# ---- a server that keeps what it saw ----

class Origin(Server):
    """Reads requests by their framing, strictly enough for what the proxy writes; `answer(request)` gives bytes."""

    def __init__(self, answer=None):
        self.requests = []
        self.answer = answer or (lambda request: ok(request["target"].encode()))
        super().__init__(self.talk_http)

    def talk_http(self, peer):
        file = peer.makefile("rb")
        while request := self.next(file):
            self.requests.append(request)
            answer = self.answer(request)
            if answer is None:
                return
            peer.sendall(answer)
            if b"\r\nConnection: close" in answer.split(b"\r\n\r\n")[0]:
                return

    @staticmethod
    def next(file):
        try:
            return read_request(file)
        except EOFError:  # a body that was cut off
            return None


def read_request(file):
    line = file.readline()
    if not line:
        return None
    request = {"line": line.decode().rstrip(), "headers": read_headers(file)}
    request["method"], request["target"], request["version"] = request["line"].split(" ")
    headers = dict(request["headers"])
    request["body"] = read_chunks(file) if headers.get("transfer-encoding") else file.read(int(headers.get("content-length", 0)))
    return request


def read_headers(file):
    headers = []
    while (line := file.readline()) not in (b"\r\n", b""):
        name, value = line.decode("latin1").rstrip("\r\n").split(": ", 1) if b": " in line else (line.decode().rstrip()[:-1], "")
        headers.append((name.lower(), value))
    return headers


def chunk_size(file):
    line = file.readline()
    if not line:
        raise EOFError
    return int(line, 16)


def read_chunks(file):
    body = b""
    while size := chunk_size(file):
        body += file.read(size)
        assert file.readline() == b"\r\n"
    assert file.readline() == b"\r\n", "trailers"
    return body


def ok(body=b"", *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client:
    """One connection into the proxy."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def send(self, data):
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def answer(self, method="GET"):
        """(status, headers, body); None at the end of the connection."""
        line = self.file.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers = dict(read_headers(self.file))
        if status < 200 or status in (204, 304) or method == "HEAD":
            body = b""
        elif headers.get("transfer-encoding"):
            body = read_chunks(self.file)
        elif "content-length" in headers:
            body = self.file.read(int(headers["content-length"]))
        else:
            body = self.file.read()
        return status, headers, body

    def ask(self, target, method="GET", headers="", body=b"", host=None):
        host = host or target.split("/")[2]
        self.send(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode() + body)
        return self.answer(method)


def reason(answer):
    return answer[0], json.loads(answer[2])["error"]["reason"]


@contextlib.contextmanager
def through(origin, rules=(), own=True, **more):
    """A proxy that may reach this server under the name HOST; yields (proxy, url)."""
    base = [f"{HOST}:{origin.port}=127.0.0.1"] if own else []
    with origin, Proxy([*base, *rules], **more) as proxy:
        yield proxy, f"http://{HOST}:{origin.port}"


def rule(origin, **more):
    return {"host": HOST, "scheme": "http", "port": origin.port, "address": "127.0.0.1", **more}


# ---- plain requests ----

def test_request_is_written_anew():
    with through(Origin()) as (proxy, url):
        client = Client(proxy.explicit())
        status, headers, body = client.ask(url + "/a/b?c=d", headers=(
            "Accept:   */*\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic x\r\n"
            "Proxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: yes\r\n"))
        assert (status, body) == (200, b"/a/b?c=d")
        assert headers["connection"] == "keep-alive"
        event = proxy.event(verdict="allowed")
        assert (event["method"], event["path"], event["status"], event["entry"]) == ("GET", "/a/b", 200, "proxy")
        assert "c=d" not in json.dumps(event)


def test_request_as_the_server_sees_it():
    origin = Origin()
    with through(origin) as (proxy, url):
        assert Client(proxy.explicit()).ask(url + "/x", headers="X-Kept: yes\r\nConnection: X-Hop\r\nX-Hop: 1\r\n")[0] == 200
        seen = origin.requests[0]
        assert seen["line"] == "GET /x HTTP/1.1"
        assert seen["headers"] == [("host", f"{HOST}:{origin.port}"), ("x-kept", "yes")]


def test_kept_connection_is_one_upstream_connection_and_many_decisions():
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        for i in range(20):
            assert client.ask(f"{url}/{i}")[2] == f"/{i}".encode()
        assert origin.connections == 1
        assert reason(client.ask("http://evil.test/")) == (403, "no-rule")
        assert reason(client.ask(f"http://{HOST}:{origin.port + 1}/")) == (403, "port")
        assert client.ask(f"{url}/again")[2] == b"/again"
        assert origin.connections == 1
        proxy.event(path="/again")
        assert len(proxy.events) == 23


def test_methods_and_paths_are_decided_per_request():
    origin = Origin()
    rules = [rule(origin, methods=["GET", "HEAD"], paths=["/public/**"])]
    with through(origin, rules, own=False) as (proxy, url):
        for client in (Client(proxy.explicit()), Client(proxy.connect(HOST, origin.port))):
            def ask(path, method="GET", **more):
                return client.ask(url + path, method, **more)
            assert ask("/public/a")[0] == 200
            assert reason(ask("/private")) == (403, "path")
            for trick in ("/public/../private", "/public/%2e%2e/private", "/public//x", "/public/..;/x", "/public/%2fprivate",
                          "/public/%252e%252e/private", "/public/.%2e/x"):
                assert reason(ask(trick)) == (403, "path"), trick
            assert reason(ask("/public/a", "DELETE")) == (403, "method")
            assert reason(ask("/public/a", "get")) == (403, "method")
            assert ask("/public/b")[0] == 200
        assert {request["target"] for request in origin.requests} == {"/public/a", "/public/b"}


# ---- one reading (N-16) ----

SECOND = {
    "method": ["X-HTTP-Method: DELETE", "X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE", "x_http_method_override: DELETE",
               "X.HTTP.Method: DELETE", "X-Original-Method: DELETE", "HTTP-Method: DELETE", "X-Forward-Method: DELETE"],
    "path": ["X-Original-URL: /private", "X-Rewrite-URL: /private", "X_Original_URL: /private", "X-Original-URI: /private",
             "X-Override-URL: /private", "X-Envoy-Original-Path: /private", "Request-Uri: /private", "X-Middleware-Rewrite: /private",
             "Destination: /private", "X-Amz-Copy-Source: /private", "X-Script-Name: /public", "X-Route: /private"],
    "host": ["X-Forwarded-Host: evil.test", "X-Forwarded-Uri: /private", "X-Forwarded-Prefix: /private", "Forwarded: host=evil.test",
             "X-Host: evil.test", "X-HTTP-Host-Override: evil.test", "X_Forwarded_Host: evil.test", "X-Original-Host: evil.test"],
}
ALL_SECOND = [header for headers in SECOND.values() for header in headers]


@pytest.mark.parametrize("limits", [{"methods": ["GET", "POST"]}, {"paths": ["/public/**"]}])
def test_a_second_method_path_or_host_is_refused_under_a_rule_that_speaks_of_them(limits):
    origin = Origin()
    with through(origin, [rule(origin, **limits)], own=False) as (proxy, url):
        for client in (Client(proxy.explicit()), Client(proxy.connect(HOST, origin.port))):
            for header in ALL_SECOND:
                status, headers, body = client.ask(url + "/public/a", headers=f"{header}\r\n")
                assert (status, headers["x-brig-denied"]) == (403, "ambiguous"), header
                assert header.split(":")[0] in json.loads(body)["error"]["hint"], header
            assert client.ask(url + "/public/a", headers="Access-Control-Request-Method: DELETE\r\nX-Kept: 1\r\n")[0] == 200
        event = proxy.event(verdict="denied")
        assert event["reason"] == "ambiguous" and "X-HTTP-Method" in event["hint"]
        assert len(origin.requests) == 2


def test_without_such_a_rule_methods_and_paths_pass_and_hosts_are_taken_out():
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        for kind, headers in SECOND.items():
            for header in headers:
                assert client.ask(url + "/public/a", headers=f"{header}\r\nX-Kept: 1\r\n")[0] == 200
                seen = dict(origin.requests[-1]["headers"])
                assert seen["x-kept"] == "1"
                assert (header.split(":")[0].lower() in seen) == (kind != "host"), header
        many = "".join(f"X-Forwarded-{i}: x\r\n" for i in range(40)) + "X-Forwarded-Host: evil.test\r\n"
        assert client.ask(url + "/public/a", headers=many)[0] == 200
        assert [name for name, _ in origin.requests[-1]["headers"]] == ["host"]


def test_a_rule_names_what_may_pass():
    origin = Origin()
    rules = [rule(origin, methods=["POST"], **{"pass": ["X-HTTP-Method-Override", "?_method"]})]
    with through(origin, rules, own=False) as (proxy, url):
        client = Client(proxy.explicit())
        headers = "Content-Length: 0\r\nx-http_method-override: PATCH\r\n"
        assert client.ask(url + "/a?_method=PUT", "POST", headers)[0] == 200
        assert reason(client.ask(url + "/a", "POST", headers + "X-Original-URL: /b\r\n")) == (403, "ambiguous")
        assert len(origin.requests) == 1


MEMBERS = ["_method=DELETE", "a=1&_method=DELETE", "%5Fmethod=DELETE", "_METHOD=DELETE", "a=1;_method=DELETE", "_%6dethod=DELETE",
           "+_method=DELETE", ".method=DELETE", "[method=DELETE", "X-HTTP-Method-Override=DELETE", "_method[]=DELETE"]


def test_a_method_in_the_query():
    origin = Origin()
    with through(origin, [rule(origin, methods=["GET", "POST"])], own=False) as (proxy, url):
        client = Client(proxy.explicit())
        for member in MEMBERS:
            assert reason(client.ask(f"{url}/a?{member}")) == (403, "ambiguous"), member
        assert client.ask(f"{url}/a?method=flickr.search&http=1&a=_method")[0] == 200
        assert len(origin.requests) == 1
    other = Origin()
    with through(other) as (proxy, url):
        assert Client(proxy.explicit()).ask(f"{url}/a?_method=DELETE")[0] == 200, "control: it would have come"
        assert other.requests[0]["target"] == "/a?_method=DELETE"


FORM = "application/x-www-form-urlencoded"
PARTS = 'multipart/form-data; boundary="b"'


def part(name):
    return f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\nDELETE\r\n'


BODIES = [*[(FORM, member) for member in MEMBERS], (None, "_method=DELETE"), (f"{FORM}; charset=utf-8", "%20" * 200 + "_method=DELETE"),
          (PARTS, part("a") + part("_method") + "--b--\r\n"), ("application/json", '{"a": {"x": "}"}, "_method": "DELETE"}'),
          ("application/vnd.api+json", '{"\\u005fmethod": "DELETE"}'),
          # Read by some servers as the form that a word or parameter of the type names, or as form-data; a type of nothing is none.
          (PARTS + "; a=urlencoded", part("_method") + "--b--\r\n"), ("application/json; a=urlencoded", '{"_method": "DELETE", "a": "="}'),
          (FORM + "; a=/json", '{"_method": "DELETE"}'), ("", "_method=DELETE"),
          ("multipart/mixed; boundary=b", part("_method") + "--b--\r\n"),
          ("multipart/related; boundary=b", "--b\r\nContent-ID: _method\r\n\r\nDELETE\r\n--b--\r\n")]
PLAIN = [(FORM, "a=_method&method=x&http_method=1"), (PARTS, part("a") + "--b--\r\n"), ("text/plain", "_method=DELETE"),
         ("application/json", '{"messages": [{"_method": "x"}], "text": "_method", "http_method": 1}'), ("application/octet-stream", "_method="),
         ('multipart/related; boundary=b; type="application/json"', '--b\r\nContent-ID: 1\r\nContent-Type: application/json\r\n\r\n{"name": "x"}\r\n--b--\r\n')]
# Parts that one reader calls by one name and another by another.
TWICE = [(PARTS, "--b\r\nX: Content-Disposition: form-data; name=_method\r\nContent-Disposition: form-data; name=a\r\n\r\nDELETE\r\n--b--\r\n"),
         (PARTS, "--b\r\nContent-Disposition: form-data; name*=utf-8''_method; name=a\r\n\r\nDELETE\r\n--b--\r\n"),
         ("multipart/form-data; boundary=x; boundary=b", part("_method") + "--b--\r\n")]


@pytest.mark.parametrize("chunked", (False, True))
@pytest.mark.parametrize("pieces", (1, 1000))
def test_a_method_in_the_body(chunked, pieces):
    origin = Origin()

    def post(proxy, url, kind, body):
        client = Client(proxy.explicit())
        data = body.encode()
        head = f"POST {url}/a HTTP/1.1\r\nHost: {url[7:]}\r\n" + (f"Content-Type: {kind}\r\n" if kind is not None else "")
        client.send(head + ("Transfer-Encoding: chunked\r\n\r\n" if chunked else f"Content-Length: {len(data)}\r\n\r\n"))
        with contextlib.suppress(OSError):
            for at in range(0, len(data), pieces):
                piece = data[at:at + pieces]
                client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            client.send(b"0\r\n\r\n" if chunked else b"")
        return client.answer()

    with through(origin, [rule(origin, methods=["POST"])], own=False) as (proxy, url):
        for kind, body in BODIES:
            assert reason(post(proxy, url, kind, body)) == (403, "ambiguous"), (kind, body)
        for kind, body in TWICE:
            assert reason(post(proxy, url, kind, body)) == (400, "malformed"), (kind, body)
        assert not [r for r in origin.requests if b"_method=D" in r["body"]], "a whole one has come"
        for kind, body in PLAIN:
            assert post(proxy, url, kind, body)[0] == 200, (kind, body)
        bodies = {body.encode() for _, body in PLAIN}
        assert bodies <= {request["body"] for request in origin.requests}
    control = Origin()
    with through(control) as (proxy, url):
        for kind, body in BODIES + TWICE:
            assert post(proxy, url, kind, body)[0] == 200, "control: without a rule on methods it passes"
        assert len(control.requests) == len(BODIES + TWICE)


@pytest.mark.parametrize("headers", ["Content-Type: text/plain\r\nContent-Type: " + FORM, "Content-Encoding: gzip\r\nContent-Type: " + FORM,
                                     "Content-Encoding: gzip\r\nContent-Type: application/json", "Content-Encoding: br\r\nContent-Type: multipart/mixed"])
def test_a_form_that_cannot_be_looked_at(headers):
    origin = Origin()
    with through(origin, [rule(origin, methods=["POST"])], own=False) as (proxy, url):
        assert reason(Client(proxy.explicit()).ask(url + "/", "POST", headers + "\r\nContent-Length: 3\r\n", b"a=1")) == (403, "ambiguous")
        assert not origin.requests


@pytest.mark.parametrize("limit", [{"methods": ["POST"]}, {"paths": ["/a"]}])
def test_a_charset_in_which_the_bytes_are_other_letters(limit):
    origin = Origin()

    def post(url, proxy, charset):
        body = "_method=DELETE".encode("cp037")
        return Client(proxy.explicit()).ask(f"{url}/a", "POST", f"Content-Type: {FORM}; charset={charset}\r\nContent-Length: {len(body)}\r\n", body)

    with through(origin, [rule(origin, **limit)], own=False) as (proxy, url):
        assert reason(post(url, proxy, "ibm037")) == (403, "ambiguous") and not origin.requests
        assert post(url, proxy, "utf-8")[0] == 200
    control = Origin()
    with through(control) as (proxy, url):
        assert post(url, proxy, "ibm037")[0] == 200 and control.requests, "control: without such a rule it passes"


def test_a_type_that_does_not_leave_is_none():
    """What Connection names is taken out, and a body without a type is a form to some."""
    origin = Origin()
    with through(origin, [rule(origin, methods=["POST"])], own=False) as (proxy, url):
        headers = "Content-Type: text/plain\r\nConnection: Content-Type\r\nContent-Length: 14\r\n"
        assert reason(Client(proxy.explicit()).ask(url + "/", "POST", headers, b"_method=DELETE")) == (403, "ambiguous")
        assert not origin.requests


TRICKS = ["/pub/%c0%ae%c0%ae/secret", "/pub/%C0%AE%C0%AE/secret", "/pub/%e0%80%ae%e0%80%ae/secret", "/pub/%c0%af../secret", "/pub/..%c0%af",
          "/pub/%ef%bc%8e%ef%bc%8e/secret", "/pub/%ef%bc%8fsecret", "/pub/%e2%80%a5/secret", "/pub/%e2%88%95..", "/pub/.%e2%80%8b./secret",
          "/pub/%u002e%u002e/secret", "/pub/..%20/secret", "/pub/.../secret", "/pub/%20/secret", "/pub/..%3b/secret", "/pub/..%3fx/secret",
          "/pub/%ff/secret", "/pub/a%00b", "/pub/%5c..%5csecret", "/pub/%25%32%65", "/pub/%uff0e", "/pub/%ed%a0%80", "/pub/%e9"]


def test_paths_that_could_be_read_in_two_ways():
    origin = Origin()
    with through(origin, [rule(origin, paths=["/pub/**"])], own=False) as (proxy, url):
        client = Client(proxy.explicit())
        for trick in TRICKS:
            assert reason(client.ask(url + trick)) == (403, "path"), trick
        good = ["/pub/%C3%A9t%C3%A9.pdf", "/pub/Inc.", "/pub/a;v=1/b", "/pub/a%20b", "/pub/what%3f", "/pub/%E4%B8%AD%E6%96%87", "/pub/a...b"]
        assert [client.ask(url + path)[0] for path in good] == [200] * len(good)
        assert [request["target"] for request in origin.requests] == good
    control = Origin()
    with through(control) as (proxy, url):
        assert Client(proxy.explicit()).ask(url + TRICKS[0])[0] == 200, "control: without a rule on paths it passes"


def test_a_suffix_that_a_server_cuts_off_does_not_count():
    origin = Origin()
    with through(origin, [rule(origin, paths=["/api/*.json"])], own=False) as (proxy, url):
        client = Client(proxy.explicit())
        for trick in ("/api/users;.json", "/api/users%3b.json", "/api/users%3f.json", "/api/users%23.json", "/api/users;x=.json"):
            assert reason(client.ask(url + trick)) == (403, "path"), trick
        assert client.ask(url + "/api/users.json")[0] == 200 and client.ask(url + "/api/users.json;v=.json")[0] == 200


@pytest.mark.parametrize("header", ["Content_Length: 0", "Content_Type: text/plain", "Transfer_Encoding: chunked", "Transfer.Encoding: chunked", "Host_: evil.test",
                                    "Content--Length: 3"])
def test_headers_that_could_be_read_as_framing(header):
    origin = Origin()
    with through(origin) as (proxy, url):
        assert reason(Client(proxy.explicit()).ask(url + "/", headers=header + "\r\n")) == (400, "malformed")
        assert not origin.requests


def test_denied_answer_tells_what_would_help():
    with through(Origin()) as (proxy, _):
        status, headers, body = Client(proxy.explicit()).ask("http://evil.test/secret?token=1")
        error = json.loads(body)["error"]
        assert (status, headers["x-brig-denied"]) == (403, "no-rule")
        assert error["boundary"] == "network" and "--allow" in error["hint"]
        event = proxy.event(host="evil.test", verdict="denied")
        assert event["reason"] == "no-rule" and event["path"] == "/secret" and "token" not in json.dumps(event)


# ---- who is asked for ----

@pytest.mark.parametrize("host", ["evil.test", HOST, f"{HOST}:1", f"x.{HOST}:PORT"])
def test_host_header_that_disagrees(host):
    origin = Origin()
    with through(origin, ["evil.test"]) as (proxy, url):
        host = host.replace("PORT", str(origin.port))
        assert reason(Client(proxy.explicit()).ask(url + "/", host=host)) == (400, "malformed")
        transparent = Client(proxy.connect(HOST, origin.port))
        transparent.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert reason(transparent.answer()) == (400, "malformed")
        assert not origin.requests
        assert Client(proxy.explicit()).ask(url + "/")[0] == 200


def test_origin_form_at_the_explicit_proxy():
    origin = Origin()
    with through(origin) as (proxy, _):
        client = Client(proxy.explicit())
        client.send(f"GET / HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n")
        assert reason(client.answer()) == (400, "malformed")
        assert not origin.requests


def test_transparent_requests_in_both_forms():
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.connect(HOST, origin.port))
        client.send(f"GET /a HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n")
        assert client.answer()[2] == b"/a"
        assert client.ask(url + "/b")[2] == b"/b"
        assert reason(client.ask("http://evil.test/")) == (400, "malformed")
        assert origin.connections == 1
        assert proxy.event(path="/a")["entry"] == "transparent"


@pytest.mark.parametrize("url", ["http://user@HOST/", "http://HOST@evil.test/", "http://HOST#@evil.test/", "http://HOST\\@evil.test/",
                                 "http://HOST%00.evil.test/", "http://0x7f000001/", "http://127.1/", "http://2130706433/",
                                 "http://[::ffff:127.0.0.1]/", "ftp://HOST/", "http://HOST:0/", "http:///", "//HOST/", "HOST"])
def test_urls_with_two_readings(url):
    origin = Origin()
    with through(origin) as (proxy, _):
        url = url.replace("HOST", f"{HOST}:{origin.port}")
        assert reason(Client(proxy.explicit()).ask(url, host=HOST)) == (400, "malformed")
        assert not origin.requests


# ---- framing of requests ----

GET = "GET URL/smuggled HTTP/1.1\r\nHost: HOST\r\n"
POST = "POST URL/ HTTP/1.1\r\nHost: HOST\r\n"
AMBIGUOUS = {
    "cl-te": POST + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te-cl": POST + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "cl-cl": POST + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "cl-cl-same": POST + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "cl-list": POST + "Content-Length: 4, 4\r\n\r\nabcd",
    "cl-sign": POST + "Content-Length: +4\r\n\r\nabcd",
    "cl-negative": POST + "Content-Length: -1\r\n\r\n",
    "cl-hex": POST + "Content-Length: 0x4\r\n\r\nabcd",
    "cl-huge": POST + "Content-Length: 99999999999999999999999\r\n\r\n",
    "te-te": POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "te-list": POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "te-other": POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te-blank": POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "te-tab": POST + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "te-1.0": POST.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare-lf": GET.replace("\r\n", "\n") + "\n",
    "bare-lf-in-head": GET + "A: b\nX: y\r\n\r\n",
    "bare-cr": GET + "A: b\rX: y\r\n\r\n",
    "fold": GET + "A: b\r\n c\r\n\r\n",
    "nul": GET + "A: b\0c\r\n\r\n",
    "no-colon": GET + "A\r\n\r\n",
    "blank-in-name": GET + "A b: c\r\n\r\n",
    "two-hosts": GET + "Host: evil.test\r\n\r\n",
    "no-host": "GET URL/ HTTP/1.1\r\n\r\n",
    "two-blanks": "GET  URL/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "no-version": "GET URL/\r\nHost: HOST\r\n\r\n",
    "version-2": "GET URL/ HTTP/2.0\r\nHost: HOST\r\n\r\n",
    "empty-line": "\r\n" + GET + "\r\n",
    "garbage": "\x16\x03\x01\x00\xff" + "A" * 100 + "\r\n\r\n",
    "connect-body": "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc",
    "expect": POST + "Expect: nothing\r\nContent-Length: 1\r\n\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_ambiguous_requests_end_the_connection(name):
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        text = AMBIGUOUS[name].replace("URL", url).replace("HOST", f"{HOST}:{origin.port}")
        client.send((text + GET.replace("URL", url).replace("HOST", f"{HOST}:{origin.port}") + "\r\n").encode("latin1"))
        assert reason(client.answer()) == (400, "malformed")
        assert client.answer() is None
        assert not origin.requests
        assert Client(proxy.explicit()).ask(url + "/control")[0] == 200


BAD_CHUNKS = ["5;ext=1\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
              "5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "ffffffffffffffff\r\nhello", "g\r\n", "-1\r\n",
              "00000000000000005\r\nhello\r\n0\r\n\r\n", "0\r\n\n", "0\r\nA : b\r\n\r\n"]


@pytest.mark.parametrize("chunks", BAD_CHUNKS)
def test_malformed_chunks(chunks):
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        client.send(f"POST {url}/ HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
        assert reason(client.answer()) == (400, "malformed")
        assert client.answer() is None
        time.sleep(0.05)
        assert not origin.requests, "a request with half a body was served"


def test_heads_over_the_limits():
    origin = Origin()
    with through(origin) as (proxy, url):
        head = f"GET {url}/ HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n"
        for more in ("A: " + "b" * 70000, "A: b\r\n" * 1000, "A: b\r\n" * 127 + "A: b"):
            client = Client(proxy.explicit())
            client.send(head + more + "\r\n\r\n")
            status = client.answer()[0]
            assert status == 431
        client = Client(proxy.explicit())
        client.send(f"GET {url}/{'a' * 20000} HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n")
        assert client.answer()[0] == 431
        assert not origin.requests
        client = Client(proxy.explicit())
        client.send(head + "A: " + "b" * 50000 + "\r\n" + "C: d\r\n" * 100 + "\r\n")
        assert client.answer()[0] == 200


def test_pipelined_requests_are_answered_in_order():
    origin = Origin()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        one = "GET {}/{} HTTP/1.1\r\nHost: {}\r\n\r\n"
        host = f"{HOST}:{origin.port}"
        client.send("".join([one.format(url, 1, host), one.format("http://evil.test", 2, "evil.test"), one.format(url, 3, host)]))
        assert client.answer()[2] == b"/1"
        assert reason(client.answer()) == (403, "no-rule")
        assert client.answer()[2] == b"/3"


def test_byte_by_byte():
    origin = Origin()
    with through(origin) as (proxy, url):
        sock = proxy.explicit()
        client = Client(sock)
        for byte in (f"POST {url}/ HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "5\r\nhello\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n").encode():
            sock.send(bytes([byte]))
        assert client.answer()[0] == 200
        assert origin.requests[0]["body"] == b"helloabc"


# ---- bodies ----

def test_large_bodies_both_ways():
    body = os.urandom(5 << 20)
    digest = hashlib.sha256(body).hexdigest()

    def answer(request):
        assert hashlib.sha256(request["body"]).hexdigest() == digest
        return ok(request["body"]) if "length" in request["target"] else chunked(request["body"])

    def chunked(data):
        pieces = [data[i:i + 70001] for i in range(0, len(data), 70001)]
        coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\nSome: trailer\r\n\r\n"

    origin = Origin(answer)
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        for target in ("/length", "/chunked"):
            for framing in ("length", "chunked"):
                if framing == "length":
                    head, data = f"Content-Length: {len(body)}\r\n", body
                else:
                    pieces = [body[i:i + 50000] for i in range(0, len(body), 50000)]
                    head = "Transfer-Encoding: chunked\r\n"
                    data = b"".join(b"%X\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
                sender = threading.Thread(target=client.send, args=(
                    f"POST {url}{target} HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n{head}\r\n".encode() + data,))
                sender.start()
                status, _, got = client.answer()
                sender.join()
                assert status == 200 and hashlib.sha256(got).hexdigest() == digest
        assert origin.connections == 1
        event = proxy.event(path="/chunked")
        assert event["up"] > len(body) and event["down"] > len(body)


@pytest.mark.parametrize(("method", "answer", "expected"), [
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", (200, {"content-length": "1234"}, b"")),
    ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", (200, {}, b"")),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", (204, {}, b"")),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: x\r\n\r\n", (304, {"etag": "x"}, b"")),
    ("GET", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", (200, {}, b"hi")),
    ("GET", b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
     (302, {"location": "http://169.254.169.254/"}, b"")),
    ("GET", b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\nKeep-Alive: timeout=5\r\nX-A: b\r\n\r\nbad", (500, {"x-a": "b"}, b"bad")),
])
def test_responses_without_and_with_bodies(method, answer, expected):
    origin = Origin(lambda request: answer if request["target"] == "/" else ok(b"next"))
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        status, headers, body = client.ask(url + "/", method)
        assert (status, body) == (expected[0], expected[2])
        assert expected[1].items() <= headers.items() and "keep-alive" not in headers
        assert client.ask(url + "/next")[2] == b"next"
        assert origin.connections == 1


def test_body_that_ends_with_the_connection():
    origin = Origin(lambda request: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc")
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        status, headers, body = client.ask(url + "/")
        assert (status, body, headers.get("transfer-encoding")) == (200, b"abc", "chunked")
        assert client.ask(url + "/")[2] == b"abc"
        assert origin.connections == 2


def test_old_clients():
    origin = Origin(lambda request: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    with through(origin) as (proxy, url):
        sock = proxy.explicit()
        sock.sendall(f"GET {url}/ HTTP/1.0\r\n\r\n".encode())
        head, body = drain(sock).split(b"\r\n\r\n", 1)
        assert body == b"abc" and b"chunked" not in head and b"Connection: close" in head


BAD_ANSWERS = {
    "garbage": b"\0\1\2garbage\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "status": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "upgrade": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "interim": b"HTTP/1.1 102 Processing\r\n\r\n" * 100,
    "huge-head": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100000,
    "nul": b"HTTP/1.1 200 OK\r\nA: \0\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_malformed_answers(name):
    origin = Origin(lambda request: BAD_ANSWERS[name] if request["target"] == "/" else ok(b"fine"))
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        assert reason(client.ask(url + "/")) == (502, "response")
        assert client.ask(url + "/control")[2] == b"fine"
        assert origin.connections == 2


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n"])
def test_answers_that_are_cut_off_are_never_whole(answer):
    def talk(peer):
        read_request(peer.makefile("rb"))
        peer.sendall(answer)
        peer.shutdown(socket.SHUT_WR)
        peer.recv(100)

    with through(Server(talk)) as (proxy, url):
        sock = proxy.explicit()
        sock.sendall(f"GET {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(1000):
                got += piece
        assert not got.endswith(b"0\r\n\r\n") and b"Content-Length: 3\r\n" not in got
        proxy.event(path="/", status=200, verdict="denied" if b"X" in answer else "error")


def test_continue_is_asked_of_the_server():
    def talk(peer):
        file = peer.makefile("rb")
        file.readline()
        headers = dict(read_headers(file))
        assert headers["expect"] == "100-continue"
        if "refuse" in headers:
            peer.sendall(ok(b"no", "Connection: close", status="417 Expectation Failed"))
            return
        peer.sendall(b"HTTP/1.1 100 Continue\r\nX-Secret: not passed\r\n\r\n")
        peer.sendall(ok(file.read(int(headers["content-length"]))))

    with through(Server(talk)) as (proxy, url):
        client = Client(proxy.explicit())
        head = f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"
        client.send(head + "\r\n")
        assert client.answer() == (100, {}, b"")
        client.send("hello")
        assert client.answer()[2] == b"hello"
        refused = Client(proxy.explicit())
        refused.send(head + "Refuse: 1\r\n\r\n")
        assert refused.answer()[0] == 417
        assert refused.answer() is None
        assert reason(Client(proxy.explicit()).ask("http://evil.test/", "POST", "Expect: 100-continue\r\nContent-Length: 5\r\n")) == (
            403, "no-rule")


def test_answer_before_the_body_is_sent():
    def talk(peer):
        peer.recv(1000)
        peer.sendall(ok(b"too much", "Connection: close", status="413 Content Too Large"))

    with through(Server(talk)) as (proxy, url):
        client = Client(proxy.explicit())

        def send():
            with contextlib.suppress(OSError):
                client.send(f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nContent-Length: 50000000\r\n\r\n".encode() + bytes(50000000))

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        status, headers, body = client.answer()
        assert (status, body, headers["connection"]) == (413, b"too much", "close")


# ---- connections to servers ----

def test_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with Proxy([f"{HOST}:{port}=127.0.0.1"]) as proxy:
        client = Client(proxy.explicit())
        status, _, body = client.ask(f"http://{HOST}:{port}/")
        assert (status, json.loads(body)["error"]["reason"]) == (502, "unreachable")
        assert b"127.0.0.1" not in body and b"refused" not in body
        assert "refused" in proxy.event(verdict="error", status=502)["note"].lower()
        assert reason(client.ask(f"http://{HOST}:{port}/"))[0] == 502


def test_kept_connection_that_the_server_has_closed():
    origin = Origin(lambda request: ok(b"one"))

    def once(peer):
        origin.requests.append(read_request(peer.makefile("rb")))
        peer.sendall(ok(b"one"))

    origin.talk = once
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        for _ in range(3):
            assert client.ask(url + "/")[2] == b"one"
            time.sleep(0.05)
        assert origin.connections == 3


def test_request_on_a_dying_connection_is_repeated_only_if_harmless():
    """The server takes the second request of each connection and closes without an answer."""
    def talk(peer):
        file = peer.makefile("rb")
        origin.requests.append(read_request(file))
        peer.sendall(ok(b"first"))
        origin.requests.append(read_request(file))

    origin = Origin()
    origin.talk = talk
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        assert client.ask(url + "/a")[2] == b"first"
        assert client.ask(url + "/b")[2] == b"first"
        assert [r["target"] for r in origin.requests] == ["/a", "/b", "/b"]
        status, _, body = client.ask(url + "/c", "POST", "Content-Length: 1\r\n", b"x")
        assert (status, json.loads(body)["error"]["reason"]) == (502, "unreachable")
        assert [r["target"] for r in origin.requests].count("/c") == 1


# ---- upgrades ----

def frame(payload, opcode=1, mask=None):
    head = bytes([0x80 | opcode, (0x80 if mask else 0) | len(payload)])
    if mask:
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return head + (mask or b"") + payload


WS = ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      "Sec-WebSocket-Extensions: permessage-deflate\r\n")


class WebSocketServer(Origin):
    def talk_http(self, peer):
        file = peer.makefile("rb")
        request = read_request(file)
        self.requests.append(request)
        if "upgrade" not in dict(request["headers"]):
            peer.sendall(ok(b"plain"))
            return
        accept = base64.b64encode(hashlib.sha1(b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
        extra = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if request["target"] == "/deflate" else ""
        peer.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Accept: {accept}\r\n{extra}\r\n".encode() + frame(b"welcome"))
        while head := file.read(2):
            mask = file.read(4)
            payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(file.read(head[1] & 127)))
            self.note(payload)
            peer.sendall(b"raw bytes that are no frame" if payload == b"misbehave" else frame(payload))


def test_websocket():
    origin = WebSocketServer()
    with through(origin, [rule(origin, paths=["/ws", "/deflate"])], own=False) as (proxy, url):
        assert reason(Client(proxy.explicit()).ask(url + "/other", headers=WS)) == (403, "path")
        client = Client(proxy.explicit())
        client.send(f"GET {url}/ws HTTP/1.1\r\nHost: {url[7:]}\r\n{WS}\r\n".encode() + frame(b"early", mask=b"abcd"))
        status, headers, _ = client.answer()
        assert (status, headers["upgrade"].lower(), headers["sec-websocket-accept"]) == (101, "websocket", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        assert client.file.read(9) == frame(b"welcome")
        assert client.file.read(7) == frame(b"early")
        client.send(frame(b"hello", mask=b"1234"))
        assert client.file.read(7) == frame(b"hello")
        seen = dict(origin.requests[0]["headers"])
        assert "sec-websocket-extensions" not in seen and seen["connection"].lower() == "upgrade"
        client.send("SSH-2.0-OpenSSH_9.2p1\r\n")
        assert drain(client.sock) == b""
        event = proxy.event(status=101)
        assert event["reason"] == "malformed" and event["up"] >= 11
        assert b"SSH" not in origin.received


def test_websocket_server_that_sends_something_else():
    origin = WebSocketServer()
    with through(origin) as (proxy, url):
        client = Client(proxy.explicit())
        assert client.ask(url + "/ws", headers=WS)[0] == 101
        assert client.file.read(9) == frame(b"welcome")
        client.send(frame(b"misbehave", mask=b"abcd"))
        assert b"raw" not in client.file.read()
        assert reason(Client(proxy.explicit()).ask(url + "/deflate", headers=WS)) == (502, "response")


@pytest.mark.parametrize("headers", [
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n",
    "Connection: Upgrade\r\nUpgrade: websocket, tcp\r\n",
    "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"])
def test_other_upgrades_are_left_out(headers):
    origin = WebSocketServer()
    with through(origin) as (proxy, url):
        assert Client(proxy.explicit()).ask(url + "/", headers=headers)[2] == b"plain"
        names = {name for name, _ in origin.requests[0]["headers"]}
        assert not names & {"upgrade", "connection", "http2-settings"}


# ---- CONNECT and the gateway ----

def test_connect():
    origin = Origin()
    with through(origin) as (proxy, url):
        status, sock, _ = proxy.tunnel(HOST, origin.port)
        assert status == 200
        client = Client(sock)
        client.send(f"GET /in HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n")
        assert client.answer()[2] == b"/in"
        assert reason(client.ask("http://evil.test/")) == (400, "malformed")
        denied = Client(proxy.explicit())
        denied.send("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
        assert reason(denied.answer()) == (403, "no-rule")
        assert denied.ask(url + "/after")[2] == b"/after"
        denied.send(f"CONNECT {HOST}:1 HTTP/1.1\r\nHost: {HOST}:1\r\n\r\n")
        assert reason(denied.answer()) == (403, "port")
        assert proxy.event(path="/in")["entry"] == "connect"
        assert proxy.event(host="evil.test", reason="no-rule")["entry"] == "connect"


def test_connect_with_bytes_that_came_along():
    origin = Origin()
    with through(origin) as (proxy, _):
        client = Client(proxy.explicit())
        name = f"{HOST}:{origin.port}"
        client.send(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\nGET /early HTTP/1.1\r\nHost: {name}\r\n\r\n")
        assert client.answer("HEAD")[0] == 200
        assert client.answer()[2] == b"/early"


def test_gateway():
    origin = Origin()
    with through(origin, [rule(origin, methods=["GET", "POST"], paths=["/ok/**"])], own=False) as (proxy, url):
        for target in ("http://brig.proxy/", "/"):
            client = Client(proxy.explicit())

            def ask(to, method="POST", more="", body=b""):
                head = f"X-Forward-To: {to}\r\n{more}Content-Length: {len(body)}\r\n"
                return client.ask(target, method, head, body, host="brig.proxy")

            assert ask(url + "/ok/a?b=c", body=b"data")[2] == b"/ok/a?b=c"
            seen = origin.requests[-1]
            assert (seen["method"], seen["body"]) == ("POST", b"data")
            assert not [name for name, _ in seen["headers"] if name.startswith("x-forward")]
            assert dict(seen["headers"])["host"] == url[7:]
            assert ask(url + "/ok/b", more="X-Forward-Method: GET\r\n")[2] == b"/ok/b"
            assert (origin.requests[-1]["method"], "content-length" in dict(origin.requests[-1]["headers"])) == ("GET", False)
            assert reason(ask(url + "/other")) == (403, "path")
            assert reason(ask(url + "/ok/a", more="X-Forward-Method: DELETE\r\n")) == (403, "method")
            assert reason(ask("http://evil.test/")) == (403, "no-rule")
            assert ask(url + "/ok/c")[0] == 200
        assert proxy.event(path="/ok/a")["entry"] == "gateway"


@pytest.mark.parametrize("headers", ["", "X-Forward-To: nonsense\r\n", "X-Forward-To: http://u@URL/\r\n", "X-Forward-To: file:///etc/passwd\r\n",
                                     "X-Forward-To: URL/\r\nX-Forward-To: URL/\r\n", "X-Forward-To: URL/\r\nX-Forward-Method: CONNECT\r\n",
                                     "X-Forward-To: URL/\r\nX-Forward-Method: G T\r\n", "X-Forward-To: URL/\r\nX-Forward-Method:\r\n"])
def test_gateway_with_nonsense(headers):
    origin = Origin()
    with through(origin) as (proxy, url):
        answer = Client(proxy.explicit()).ask("http://brig.proxy/", "POST", headers.replace("URL", url) + "Content-Length: 0\r\n")
        assert reason(answer) == (400, "malformed")
        assert not origin.requests


def test_password():
    origin = Origin()
    with through(origin, auth="token") as (proxy, url):
        good = "Proxy-Authorization: Basic " + base64.b64encode(b"brig:token").decode() + "\r\n"
        for bad in ("", "Proxy-Authorization: Basic x\r\n", good[:-3] + "\r\n", good + good, "Authorization: " + good[21:]):
            status, headers, _ = Client(proxy.explicit()).ask(url + "/", headers=bad)
            assert (status, "proxy-authenticate" in headers) == (407, True)
        assert not origin.requests
        client = Client(proxy.explicit())
        assert client.ask(url + "/", headers=good)[0] == 200
        assert client.ask(url + "/")[0] == 407
        assert "proxy-authorization" not in dict(origin.requests[0]["headers"])
        connect = Client(proxy.explicit())
        connect.send(f"CONNECT {url[7:]} HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n")
        assert connect.answer()[0] == 407


# ---- budgets and live change ----

def test_requests_per_minute():
    origin = Origin()
    with through(origin, [rule(origin, requests=3)], own=False) as (proxy, url):
        client = Client(proxy.explicit())
        assert [client.ask(url + "/")[0] for _ in range(5)] == [200, 200, 200, 429, 429]
        assert len(origin.requests) == 3
        assert proxy.event(verdict="denied")["reason"] == "requests"


def test_upload_budget():
    origin = Origin()
    with through(origin, [rule(origin, upload=3000)], own=False) as (proxy, url):
        client = Client(proxy.explicit())
        assert client.ask(url + "/", "POST", "Content-Length: 1000\r\n", bytes(1000))[0] == 200
        assert reason(client.ask(url + "/", "POST", "Content-Length: 5000\r\n", bytes(5000))) == (429, "upload")
        assert proxy.event(verdict="denied")["reason"] == "upload"
        assert reason(Client(proxy.explicit()).ask(url + "/" + "a" * 2000)) == (429, "upload")
        assert len(origin.requests) == 1


def test_connections_at_one_time():
    origin = Origin()
    with through(origin, [rule(origin, max_connections=2)], own=False) as (proxy, url):
        clients = [Client(proxy.explicit()) for _ in range(3)]
        assert [client.ask(url + "/")[0] for client in clients] == [200, 200, 429]
        clients[0].sock.close()
        clients[0].file.close()
        for _ in range(100):
            if clients[2].ask(url + "/")[0] == 200:
                break
            time.sleep(0.02)
        else:
            pytest.fail("a connection that ended still counts")


def test_other_rules_for_a_running_session():
    release = threading.Event()

    def answer(request):
        if request["target"] == "/slow":
            release.wait(10)
        return ok(b"served")

    origin = Origin(answer)
    allowed = rule(origin)
    with through(origin, [allowed], own=False) as (proxy, url):
        idle, busy = Client(proxy.explicit()), Client(proxy.explicit())
        assert idle.ask(url + "/")[0] == 200
        busy.send(f"GET {url}/slow HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n")
        while not any(request["target"] == "/slow" for request in origin.requests):
            time.sleep(0.01)
        assert proxy.replace([allowed, "other.test"]) == 0
        assert proxy.replace([rule(origin, methods=["GET"])]) == 0
        assert idle.ask(url + "/")[0] == 200
        assert reason(idle.ask(url + "/", "POST", "Content-Length: 0\r\n")) == (403, "method")
        assert proxy.replace(["other.test"]) == 1
        assert drain(busy.sock) == b""
        assert reason(idle.ask(url + "/")) == (403, "no-rule")
        assert proxy.event(path="/slow", verdict="denied")["reason"] == "no-rule"
        assert proxy.replace([allowed]) == 0
        assert idle.ask(url + "/")[0] == 200
        release.set()


# ---- clients and servers that misbehave ----

def grows_by(proxy, fill, times=5):
    """KiB for each further one: the first brings in code and shared buffers."""
    if SANITIZED:
        pytest.skip("the sanitizer keeps what was freed")
    fill()
    before = proxy.rss()
    for _ in range(times):
        fill()
    return (proxy.rss() - before) / times


def test_client_that_never_reads():
    """Some of them ask for an endless body: memory stays bounded, and others are served."""
    def talk(peer):
        request = read_request(peer.makefile("rb"))
        if request["target"] == "/small":
            peer.sendall(ok(b"small"))
            return
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + bytes(65536) + b"\r\n"
        while True:
            peer.sendall(piece)

    with through(Server(talk)) as (proxy, url):
        def fill():
            proxy.explicit().sendall(f"GET {url}/endless HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
            time.sleep(0.1)

        assert grows_by(proxy, fill, 10) < 256
        assert Client(proxy.explicit()).ask(url + "/small")[2] == b"small"


def test_server_that_never_reads():
    stop = threading.Event()
    with through(Server(lambda peer: stop.wait(20))) as (proxy, url):
        def fill():
            sock = proxy.explicit(timeout=0.3)
            sock.sendall(f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            with pytest.raises(TimeoutError):
                while True:
                    sock.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")

        assert grows_by(proxy, fill) < 256
        stop.set()


def test_client_that_sends_without_end_while_it_waits():
    release = threading.Event()

    def answer(request):
        release.wait(10)
        return ok(b"done")

    with through(Origin(answer)) as (proxy, url):
        def fill():
            sock = proxy.explicit(timeout=0.3)
            sock.sendall(f"GET {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
            with pytest.raises(TimeoutError):
                while True:
                    sock.sendall(b"GET " * 10000)

        assert grows_by(proxy, fill) < 64
        release.set()


def test_a_thousand_idle_connections():
    origin = Origin()
    with through(origin) as (proxy, url):
        warm = [Client(proxy.explicit()) for _ in range(20)]
        assert all(client.ask(url + "/")[0] == 200 for client in warm)
        before = proxy.rss()
        clients = [Client(proxy.explicit()) for _ in range(400)]
        half = f"GET {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode()
        for client in clients[:200]:
            assert client.ask(url + "/")[0] == 200
        for client in clients[200:]:
            client.send(half[:30])
        assert warm[0].ask(url + "/")[0] == 200
        assert (proxy.rss() - before) / 400 < 32
        for client in clients[200:]:
            client.send(half[30:])
            assert client.answer()[0] == 200


def test_heads_that_never_end():
    """Silence, and one byte now and then: both end, while a client that works stays."""
    origin = Origin()
    with through(origin) as (proxy, url):
        working, silent, dripping = Client(proxy.explicit()), proxy.explicit(timeout=60), proxy.explicit(timeout=60)
        head = f"GET {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\n".encode()
        silent.sendall(head)
        dripping.sendall(head)
        ended = False
        for _ in range(80):
            assert working.ask(url + "/")[0] == 200
            try:
                dripping.send(b"A")
            except OSError:
                ended = True
                break
            time.sleep(0.5)
        assert ended, "a head that comes byte by byte is waited for without end"
        assert drain(silent) == b""
        assert working.ask(url + "/")[0] == 200


def test_client_that_goes_away_frees_its_connections():
    release = threading.Event()
    closed = threading.Event()

    def talk(peer):
        read_request(peer.makefile("rb"))
        release.set()
        if not peer.recv(1):
            closed.set()

    with through(Server(talk)) as (proxy, url):
        sock = proxy.explicit()
        sock.sendall(f"GET {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
        assert release.wait(5)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        assert closed.wait(5)
        assert "went away" in proxy.event(path="/")["note"]


def test_client_that_only_stops_sending_gets_its_answer():
    origin = Origin()
    with through(origin) as (proxy, url):
        sock = proxy.explicit()
        sock.sendall(f"GET {url}/half HTTP/1.1\r\nHost: {url[7:]}\r\n\r\n".encode())
        sock.shutdown(socket.SHUT_WR)
        assert drain(sock).endswith(b"/half")


# ---- secrets ----

SECRET = "s3cr3t-VALUE/with+signs=42"
PLACEHOLDER = "brig_placeholder_0123456789abcdef"


def secret_of(server, scheme="http", **more):
    return {"name": "TOKEN", "source": "env:TOKEN", "origin": f"{scheme}://{HOST}:{server.port}", "placeholder": PLACEHOLDER, **more}


@contextlib.contextmanager
def with_secret(origin, rules=(), secret=None, **more):
    egress = {"rules": [rule(origin), *rules], "secrets": [secret_of(origin, **(secret or {}))]}
    with origin, Proxy(egress=egress, env={"TOKEN": SECRET}, **more) as proxy:
        yield proxy, f"http://{HOST}:{origin.port}"
        proxy.read()
        assert SECRET not in json.dumps(proxy.events), "a secret in an event"


def forms(value):
    """What a server could make of it."""
    raw = value.encode()
    quoted = "".join(f"%{byte:02X}" for byte in raw).encode()
    return [raw, base64.b64encode(raw), base64.b64encode(b"x" + raw + b"y"), base64.urlsafe_b64encode(b"xx" + raw), raw.hex().encode(), quoted]


def test_secret_is_put_in_and_what_the_client_sent_there_is_not():
    origin = Origin()
    with with_secret(origin) as (proxy, url):
        client = Client(proxy.explicit())
        assert client.ask(url + "/", headers="Authorization: Bearer mine\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-3\r\n")[0] == 200
        seen = origin.requests[0]["headers"]
        assert [value for name, value in seen if name == "authorization"] == [f"Bearer {SECRET}"]
        assert [value for name, value in seen if name == "accept-encoding"] == ["identity"]
        assert "range" not in dict(seen)


OWN = ["Authorization: Bearer mine", "X-Api-Key: mine", "Api-Key: mine", "X_API_KEY: mine", "Cookie: session=mine", "X-Authorization: mine",
       "Private-Token: mine", "X-Auth-Token: mine", "X-Amz-Security-Token: mine", "X-Goog-Api-Key: mine", "X-Vault-Token: mine",
       "Ocp-Apim-Subscription-Key: mine", "X-Password: mine", "X-Signature: mine", "X-Client-Cert: mine", "Remote-User: mine", "X-JWT: mine",
       "Impersonate-User: mine", "Sudo: mine", "X-PagerDuty-Token: mine", "X-Nextcloud-Token: mine", "X-Cursor-Access-Token: mine",
       "x.api.key: mine", "X-Session-Id: mine", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.mine"]
OWN_MEMBERS = ["access_token", "token", "api_key", "apikey", "key", "sig", "signature", "X-Amz-Signature", "X-Amz-Credential", "X-Goog-Signature",
               "auth", "password", "client_secret", "jwt", "AWSAccessKeyId", "access%5Ftoken", "ACCESS_TOKEN", "access.token", "access_token[]",
               "accessToken", "session", "page_access_token", "resume_user_token", "token_string"]
INNOCENT = ["Idempotency-Key: kept", "Mcp-Session-Id: kept", "X-Request-Id: kept", "X-Author: kept", "Accept-Language: kept", "X-Page-Token: kept"]
INNOCENT_MEMBERS = ["page_token", "nextToken", "continuation-token", "max_tokens", "$skiptoken", "pagination_token", "keyword", "sort_key", "author", "design", "state"]


@pytest.mark.parametrize("secret", [{}, {"header": "X-Own: {}"}, {"query": "own"}, {"paths": ["/other/**"]}, {"methods": ["PUT"]}])
def test_no_credential_of_the_clients_own_goes_to_a_host_with_a_secret(secret):
    origin = Origin()
    with with_secret(origin, secret=secret) as (proxy, url):
        client = Client(proxy.explicit())
        for header in OWN:
            assert client.ask(url + "/", headers=f"{header}\r\nX-Kept: 1\r\n")[0] == 200
            assert "mine" not in str(origin.requests[-1]) and ("x-kept", "1") in origin.requests[-1]["headers"], header
        for name in OWN_MEMBERS:
            for query in (f"{name}=mine", f"a=1&{name}=mine&b=2", f"a=1;{name}=mine"):
                assert client.ask(f"{url}/p?{query}")[0] == 200
                assert "mine" not in str(origin.requests[-1]), query
                assert ("a=1" in query) == ("a=1" in origin.requests[-1]["target"]), query
        for path in ("/a;jsessionid=mine", "/a;v=1;access_token=mine/b", "/a%3Bsid=mine"):
            assert client.ask(url + path)[0] == 200
            assert "mine" not in str(origin.requests[-1]) and origin.requests[-1]["target"].startswith("/a"), path
        for header in INNOCENT:
            client.ask(url + "/", headers=header + "\r\n")
            assert "kept" in str(origin.requests[-1]["headers"]), header
        for name in INNOCENT_MEMBERS:
            client.ask(f"{url}/p?{name}=kept")
            assert f"{name}=kept" in origin.requests[-1]["target"], name
        proxy.read()
        said = [event["hint"] or "" for event in proxy.events]
        assert any("X-Api-Key was taken out" in hint for hint in said) or "query" in secret, "there the answer's echo is said"
        assert "mine" not in json.dumps(proxy.events)
    control = Origin()
    with through(control) as (proxy, url):
        client = Client(proxy.explicit())
        for header in OWN:
            client.ask(f"{url}/?access_token=mine", headers=header + "\r\n")
            assert str(control.requests[-1]).count("mine") >= 2, "control: without a secret it passes"


def test_a_rule_names_the_credentials_that_pass():
    origin = Origin()
    named = rule(origin, **{"pass": ["Cookie", "?access_token"]})
    with origin, Proxy(egress={"rules": [named], "secrets": [secret_of(origin)]}, env={"TOKEN": SECRET}) as proxy:
        url = f"http://{HOST}:{origin.port}"
        client = Client(proxy.explicit())
        headers = "Cookie: a=mine\r\nX-Api-Key: lost\r\n"
        assert client.ask(f"{url}/?access_token=mine&token=lost", headers=headers)[0] == 200
        assert origin.requests[0]["target"] == "/?access_token=mine" and dict(origin.requests[0]["headers"])["cookie"] == "a=mine"
        assert "lost" not in str(origin.requests[0])


@pytest.mark.parametrize("named,comes", [({}, False), ({"pass": ["Cookie"]}, True)])
def test_a_session_of_the_secrets_account_does_not_come_back(named, comes):
    origin = Origin(lambda request: ok(b"", "Set-Cookie: session=as-good-as-the-secret", "set-cookie: b=c"))
    with origin, Proxy(egress={"rules": [rule(origin, **named)], "secrets": [secret_of(origin)]}, env={"TOKEN": SECRET}) as proxy:
        status, headers, _ = Client(proxy.explicit()).ask(f"http://{HOST}:{origin.port}/")
        assert status == 200 and ("set-cookie" in headers) == comes
    with through(Origin(origin.answer)) as (proxy, url):
        assert "set-cookie" in Client(proxy.explicit()).ask(url + "/")[1], "control: without a secret it does"


def test_a_placeholder_alone_stays_and_nothing_rides_with_it():
    origin = Origin()
    with with_secret(origin, secret={"header": "none"}) as (proxy, url):
        client = Client(proxy.explicit())
        basic = base64.b64encode(f"me:{PLACEHOLDER}".encode()).decode()
        for header, arrives in ((f"X-Api-Key: {PLACEHOLDER}", f"{SECRET}"), (f"Authorization: token {PLACEHOLDER}", f"token {SECRET}"),
                                (f"Cookie: s={PLACEHOLDER}", f"s={SECRET}"),
                                (f"Authorization: Basic {basic}", "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode())):
            assert client.ask(url + "/", headers=header + "\r\n")[0] == 200
            assert arrives in dict(origin.requests[-1]["headers"]).values(), header
        for header in (f"Cookie: session=mine; s={PLACEHOLDER}", f"X-Api-Key: mine, {PLACEHOLDER}", f"Authorization: Bearer mine {PLACEHOLDER}"):
            client.ask(url + "/", headers=header + "\r\n")
            assert "mine" not in str(origin.requests[-1]) and SECRET not in str(origin.requests[-1]), header


def test_no_credential_of_the_clients_own_on_another_port_of_that_host():
    origin, other = Origin(), Origin()
    with other, with_secret(origin, [rule(other)]) as (proxy, _):
        url = f"http://{HOST}:{other.port}/"
        assert Client(proxy.explicit()).ask(url, headers="X-Api-Key: mine\r\n")[0] == 200
        assert "mine" not in str(other.requests) and SECRET not in str(other.requests)


@pytest.mark.parametrize("secret", [{"methods": ["GET"]}, {"paths": ["/public/**"]}])
def test_a_secret_that_goes_by_method_or_path_needs_one_reading(secret):
    origin = Origin()
    with with_secret(origin, secret=secret) as (proxy, url):
        client = Client(proxy.explicit())
        for header in ALL_SECOND:
            assert reason(client.ask(url + "/public/a", headers=header + "\r\n")) == (403, "ambiguous"), header
        assert client.ask(url + "/public/%c0%ae%c0%ae/secret")[0] == 200
        assert (SECRET in str(origin.requests[-1])) == ("methods" in secret), "no path that is not plain has the secret"


def test_a_second_host_never_goes_with_a_secret():
    origin = Origin()
    with with_secret(origin) as (proxy, url):
        client = Client(proxy.explicit())
        for header in SECOND["host"]:
            assert client.ask(url + "/", headers=header + "\r\n")[0] == 200
            assert header.split(":")[0].lower() not in dict(origin.requests[-1]["headers"]), header
        assert client.ask(url + "/", headers="X-HTTP-Method-Override: PATCH\r\n")[0] == 200, "any method is allowed there"
        assert "x-http-method-override" in dict(origin.requests[-1]["headers"])


def test_secret_goes_nowhere_else():
    origin, other = Origin(), Origin()
    with other, with_secret(origin, [{**rule(other), "host": "other.test"}]) as (proxy, url):
        client = Client(proxy.explicit())
        elsewhere = f"http://other.test:{other.port}/"
        assert client.ask(elsewhere, headers=f"Authorization: Bearer {PLACEHOLDER}\r\n")[0] == 200
        assert client.ask(url + "/")[0] == 200
        assert SECRET in str(origin.requests)
        assert SECRET not in str(other.requests)
        assert dict(other.requests[0]["headers"])["authorization"] == f"Bearer {PLACEHOLDER}"
        assert "TOKEN" in proxy.event(host="other.test")["hint"]
        gateway = Client(proxy.explicit())
        assert gateway.ask("http://brig.proxy/", "POST", f"X-Forward-To: {url}/gw\r\nContent-Length: 0\r\n")[0] == 200
        assert dict(origin.requests[-1]["headers"])["authorization"] == f"Bearer {SECRET}"


def test_secret_that_the_server_sends_back():
    def answer(request):
        value = dict(request["headers"])["authorization"].split()[1]
        text = b" ".join([b"begin", *forms(value), b"end"])
        echo = f"X-Echo: {value}"
        if request["target"] == "/length":
            return ok(text, echo)
        if request["target"] == "/close":
            return f"HTTP/1.1 200 OK\r\nConnection: close\r\n{echo}\r\n\r\n".encode() + text
        if request["target"] == "/status":
            return ok(text, status=f"200 {value}")
        pieces = [text[i:i + 3] for i in range(0, len(text), 3)]
        return (f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{echo}\r\n\r\n".encode() +
                b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nX-Trailer: " + value.encode() + b"\r\n\r\n")

    origin = Origin(answer)
    with with_secret(origin) as (proxy, url):
        for target in ("/length", "/chunked", "/close", "/status"):
            sock = proxy.explicit()
            sock.sendall(f"GET {url}{target} HTTP/1.1\r\nHost: {url[7:]}\r\nConnection: close\r\n\r\n".encode())
            head, body = drain(sock).split(b"\r\n\r\n", 1)
            got = head + (read_chunks(io.BytesIO(body)) if b"chunked" in head else body)
            assert b"begin" in got and b"end" in got, "the control: the answer came"
            for form in forms(SECRET):
                assert form not in got and form[4:-6] not in got, (target, form)
        assert "overwritten" in proxy.event(path="/length")["hint"]


@pytest.mark.parametrize(("headers", "status"), [(["Content-Encoding: gzip"], "200 OK"), (["Content-Encoding: identity", "Content-Encoding: br"], "200 OK"),
                                                 ([], "206 Partial Content")])
def test_answers_that_cannot_be_searched(headers, status):
    plain = Origin(lambda request: ok(b"packed", *headers, status=status))
    with through(plain) as (proxy, url):
        assert Client(proxy.explicit()).ask(url + "/")[2] == b"packed", "the control: without a secret it passes"
    origin = Origin(lambda request: ok(b"packed", *headers, status=status))
    with with_secret(origin) as (proxy, url):
        assert reason(Client(proxy.explicit()).ask(url + "/")) == (502, "response")


def test_placeholder_in_the_body():
    origin = Origin()
    with with_secret(origin, secret={"header": "none", "swap": ["header", "body"]}) as (proxy, url):
        client = Client(proxy.explicit())
        body = b'{"token": "' + PLACEHOLDER.encode() + b'"}'
        assert client.ask(url + "/", "POST", f"X-Key: {PLACEHOLDER}\r\nContent-Length: {len(body)}\r\n", body)[0] == 200
        assert json.loads(origin.requests[0]["body"]) == {"token": SECRET}
        assert dict(origin.requests[0]["headers"])["x-key"] == SECRET
        half = len(body) // 2
        coded = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (half, body[:half], len(body) - half, body[half:])
        client.send(f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert client.answer()[0] == 100
        client.send(coded)
        assert client.answer()[0] == 200
        assert json.loads(origin.requests[1]["body"]) == {"token": SECRET}
        large = Client(proxy.explicit())
        with contextlib.suppress(OSError):
            large.send(f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nContent-Length: 1100000\r\n\r\n".encode() + bytes(1100000))
        assert reason(large.answer()) == (413, "too-large")
        assert len(origin.requests) == 2


def test_bodies_that_are_collected_are_bounded_together():
    """Each of them is; but a client can begin thousands, and needs no connection of the rule's for that."""
    origin = Origin()
    with with_secret(origin, secret={"header": "none", "swap": ["header", "body"]}) as (proxy, url):
        head, body = f"POST {url}/ HTTP/1.1\r\nHost: {url[7:]}\r\nContent-Length: 1040001\r\n\r\n".encode(), bytes(1040000)
        before = proxy.rss()
        clients = [Client(proxy.explicit()) for _ in range(72)]
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(head + body)
        told = [c for c in clients if c.sock in select.select([c.sock for c in clients], [], [], 60)[0]]
        assert told and reason(told[0].answer()) == (429, "busy")
        assert proxy.rss() - before < 100 << 10
        for client in clients:
            client.file.close()
            client.sock.close()
        wait_for(lambda: proxy.read() and len([e for e in proxy.events if "went away" in (e["note"] or "")]) >= 60)
        assert Client(proxy.explicit()).ask(url + "/", "POST", "Content-Length: 1000000\r\n", bytes(1000000))[0] == 200, "and given back"


def test_secret_in_the_query_is_in_no_event():
    origin = Origin()
    with with_secret(origin, secret={"query": "key"}) as (proxy, url):
        assert Client(proxy.explicit()).ask(url + "/p?a=b&key=mine")[0] == 200
        target = origin.requests[0]["target"]
        assert "a=b" in target and "mine" not in target and "key=" in target
        event = proxy.event(path="/p")
        assert "key" not in json.dumps(event)


# ---- TLS ----

@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")

    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", 2, "-subj", "/CN=test authority")
    for name in (HOST, "wrong.test"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "ext").write_text(f"subjectAltName=DNS:{name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", 2,
                "-extfile", "ext", "-out", f"{name}.pem")
    folder.chmod(0o755)
    return folder


class SecureOrigin(Origin):
    def __init__(self, pki, answer=None, name=HOST):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pki / f"{name}.pem", pki / f"{name}.key")
        super().__init__(answer)

    def run(self, peer):
        with contextlib.suppress(OSError), self.context.wrap_socket(peer, server_side=True) as secure:
            self.talk(secure)


def inside(proxy, sock):
    """The client's end of an intercepted connection."""
    context = ssl.create_default_context(cadata=proxy.ready["ca"])
    return Client(context.wrap_socket(sock, server_hostname=HOST))


def test_intercepted_requests_are_decided_one_by_one(pki):
    big = os.urandom(2 << 20)
    origin = SecureOrigin(pki, lambda r: ok(big) if r["target"] == "/ok/big" else ok(r["body"] or r["target"].encode()))
    rules = [{"host": HOST, "scheme": "https", "port": origin.port, "address": "127.0.0.1", "paths": ["/ok/**"]}]
    with origin, Proxy(rules, roots=str(pki / "ca.pem")) as proxy:
        for entry in ("connect", "transparent"):
            sock = proxy.tunnel(HOST, origin.port)[1] if entry == "connect" else proxy.connect(HOST, origin.port)
            client = inside(proxy, sock)
            name = f"{HOST}:{origin.port}"

            def ask(path, method="GET", headers="", body=b""):
                client.send(f"{method} {path} HTTP/1.1\r\nHost: {name}\r\n{headers}\r\n".encode() + body)
                return client.answer(method)

            assert ask("/ok/a")[2] == b"/ok/a"
            assert reason(ask("/other")) == (403, "path")
            assert ask("/ok/big")[2] == big
            assert ask("/ok/c", "POST", f"Content-Length: {len(big)}\r\n", big)[2] == big
            client.send("GET /ok/d HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            assert reason(client.answer()) == (400, "malformed")
            assert proxy.event(path="/other", entry=entry)["scheme"] == "https"
        assert origin.connections == 2
        whole = Client(proxy.explicit()).ask(f"https://{HOST}:{origin.port}/ok/absolute")
        assert whole[2] == b"/ok/absolute"
        assert reason(Client(proxy.explicit()).ask(f"https://{HOST}:{origin.port}/other")) == (403, "path")


def test_server_with_the_wrong_certificate(pki):
    origin = SecureOrigin(pki, name="wrong.test")
    rules = [{"host": HOST, "scheme": "https", "port": origin.port, "address": "127.0.0.1", "paths": ["/**"]}]
    with origin, Proxy(rules, roots=str(pki / "ca.pem")) as proxy:
        answer = Client(proxy.explicit()).ask(f"https://{HOST}:{origin.port}/")
        assert reason(answer) == (502, "unreachable")
        assert not origin.requests
        assert proxy.event(status=502)["note"]


def test_secret_over_tls(pki):
    origin = SecureOrigin(pki, lambda r: ok(json.dumps(dict(r["headers"])).encode()))
    egress = {"rules": [{"host": HOST, "scheme": "https", "port": origin.port, "address": "127.0.0.1"}],
              "secrets": [secret_of(origin, "https")]}
    with origin, Proxy(egress=egress, env={"TOKEN": SECRET}, roots=str(pki / "ca.pem")) as proxy:
        client = inside(proxy, proxy.connect(HOST, origin.port))
        client.send(f"GET / HTTP/1.1\r\nHost: {HOST}:{origin.port}\r\n\r\n")
        status, _, body = client.answer()
        assert status == 200 and dict(origin.requests[0]["headers"])["authorization"] == f"Bearer {SECRET}"
        assert SECRET.encode() not in body and b"*" * len(SECRET) in body


# ---- real programs ----

@contextlib.contextmanager
def nginx(tmp_path):
    if not shutil.which("nginx"):
        pytest.fail("nginx is not installed (tools/bootstrap test)")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    (tmp_path / "big").write_bytes(os.urandom(3 << 20))
    (tmp_path / "nginx.conf").write_text(f"""
        daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; worker_processes 1; user root;
        events {{ worker_connections 256; }}
        http {{ access_log off; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
                uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
                server {{ listen 127.0.0.1:{port}; root {tmp_path}; location /hello {{ return 200 "hello\\n"; }} }} }}""")
    process = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def test_real_programs_and_a_real_server(tmp_path):
    with nginx(tmp_path) as port, Proxy([f"{HOST}:{port}=127.0.0.1"]) as proxy:
        entry = f"http://127.0.0.1:{proxy.listen(PROXY)}"
        env = {**os.environ, "http_proxy": entry, "HTTP_PROXY": entry, "no_proxy": ""}
        url = f"http://{HOST}:{port}"

        def run(*command):
            return subprocess.run(command, env=env, capture_output=True, timeout=30)

        assert run("curl", "-s", url + "/hello", url + "/hello").stdout == b"hello\nhello\n"
        assert run("curl", "-s", url + "/big").stdout == (tmp_path / "big").read_bytes()
        assert run("curl", "-s", "-r", "10-19", url + "/big").stdout == (tmp_path / "big").read_bytes()[10:20]
        assert run("curl", "-s", "-p", url + "/hello").stdout == b"hello\n"
        assert run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://evil.test/").stdout == b"403"
        assert run("curl", "-sI", url + "/big").stdout.startswith(b"HTTP/1.1 200")
        if shutil.which("wget"):
            assert run("wget", "-qO-", url + "/hello").stdout == b"hello\n"
        script = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
        assert run("python3", "-c", script, url + "/hello").stdout == b"hello\n"
        connection = http.client.HTTPConnection("127.0.0.1", int(entry.rsplit(":", 1)[1]), timeout=10)
        for _ in range(3):
            connection.request("GET", url + "/hello")
            assert connection.getresponse().read() == b"hello\n"
