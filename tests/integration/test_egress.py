"""Real programs reach what they may, by the way that each of them knows, and nothing else.

Every program runs against servers of the closed internet in tests/lib/netlab, on both tiers, as root and as an ordinary
user; over TLS once spliced (the program sees the server's own certificate) and once looked into (a rule on methods or a
secret: the program sees the run's authority, which its own trust store must know)."""
import hashlib
import json
import os
import shutil

import pytest

import labcaller
import netlab
from form import FULL
from labcaller import LabCaller, build_programs, policy_file

BIG = ["--sampling", "accept", "-m", "2G", "--pids", "512", "--timeout", "15m", "--disk", "256M", "--output", "4M"]
HOSTS = ["files.lab.test", "registry.lab.test", "pypi.lab.test", "git.lab.test", "ws.lab.test", "api.lab.test"]
HELLO = "hello from nginx\n"


@pytest.fixture(scope="session")
def programs(lab):
    return build_programs()


@pytest.fixture(scope="session")
def rules(lab):
    """How a run gets its rules: {"spliced": options, "intercepted": options}."""
    methods = "[GET, HEAD, POST, PUT]"
    entries = "".join(f"    - {{host: {h}, scheme: {s}, port: {p}, methods: {methods}}}\n"
                      for h in HOSTS for s, p in (("http", 80), ("https", 443)))
    looked = policy_file("intercepted", f"network:\n  mode: allowlist\n  allow:\n{entries}")
    return {"spliced": [x for h in HOSTS for x in ("--allow", h)], "intercepted": ["--policy", str(looked)]}


PY_URLLIB = "import urllib.request as u; print(u.urlopen('https://files.lab.test/').read().decode(), end='')"
PY_REQUESTS = "import requests; r = requests.get('https://files.lab.test/'); print(r.text, end='')"
PY_PLAIN = """
import http.client, ssl
c = http.client.HTTPSConnection('files.lab.test', context=ssl.create_default_context())
c.request('GET', '/'); print(c.getresponse().read().decode(), end='')"""
PY_WEBSOCKET = """
import asyncio, websockets
async def main():
    for url in ('ws://ws.lab.test/ws', 'wss://ws.lab.test/ws'):
        async with websockets.connect(url) as ws:
            await ws.send('over ' + url.split(':')[0]); print(await ws.recv())
            await ws.send('x' * 200000); print(len(await ws.recv()))
asyncio.run(main())"""
NODE_FETCH = "fetch('https://files.lab.test/').then(r => r.text()).then(t => process.stdout.write(t)).catch(e => { console.log(e); process.exit(1) })"
NODE_HTTPS = ("require('https').get('https://files.lab.test/', r => r.on('data', d => process.stdout.write(d)))"
              ".on('error', e => { console.log(e); process.exit(1) })")
BIG_SUM = "curl -sS https://files.lab.test/big.bin | sha256sum | cut -c1-64"

# name: (command, what it prints); the unset line makes a program that knows no proxy of one that does
NO_PROXY = "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy ALL_PROXY all_proxy; "
PROGRAMS = {
    "curl": ("curl -sS https://files.lab.test/ http://files.lab.test/", HELLO * 2),
    "curl-no-proxy": (NO_PROXY + "curl -sS https://files.lab.test/ http://files.lab.test/", HELLO * 2),
    "curl-http1.0": ("curl -sS -0 http://files.lab.test/", HELLO),
    "curl-http2": ("curl -sS --http2 https://files.lab.test/", HELLO),
    "curl-post": ("head -c 300000 /dev/zero | curl -sS --data-binary @- https://api.lab.test/up | python3 -c "
                  "'import json, sys; print(json.load(sys.stdin)[\"length\"])'", "300000\n"),
    "curl-chunked-put": ("head -c 100000 /dev/zero | curl -sS -T - https://api.lab.test/up | python3 -c "
                         "'import json, sys; print(json.load(sys.stdin)[\"length\"])'", "100000\n"),
    "curl-head": ("curl -sSI https://files.lab.test/ | head -1 | cut -c1-12 | sed 's,HTTP/2 ,HTTP/1.1 ,' | cut -c1-12", "HTTP/1.1 200\n"),
    "curl-range": ("curl -sS -r 0-4 http://files.lab.test/; echo", "hello\n"),
    "wget": ("wget -qO- https://files.lab.test/; wget -qO- http://files.lab.test/", HELLO * 2),
    "wget-no-proxy": ("wget --no-proxy -qO- https://files.lab.test/; wget --no-proxy -qO- http://files.lab.test/", HELLO * 2),
    "git": ("git clone -q https://git.lab.test/repo.git r && cat r/file", "from the repository\n"),
    "git-no-proxy": (NO_PROXY + "git clone -q https://git.lab.test/repo.git r && cat r/file", "from the repository\n"),
    "python-urllib": (f'python3 -c "{PY_URLLIB}"', HELLO),
    "python-requests": (f'python3 -c "{PY_REQUESTS}"', HELLO),
    "python-no-proxy": (f'python3 -c "{PY_PLAIN}"', HELLO),
    "python-websockets": (f'python3 -c "{PY_WEBSOCKET}"', "over ws\n200000\nover wss\n200000\n"),
    "node-fetch": (f'node -e "{NODE_FETCH}"', HELLO),
    "node-https": (f'node -e "{NODE_HTTPS}"', HELLO),
    "npm": ("npm install --silent --no-audit --no-fund --no-update-notifier --registry https://registry.lab.test/pkg/ lab-package "
            ">npm.log 2>&1 || cat npm.log; node -e \"console.log(require('lab-package')())\"", "lab-package works\n"),
    "pip": ("/usr/bin/pip3 install -q --no-cache-dir --disable-pip-version-check --no-warn-script-location --break-system-packages "
            "--index-url https://pypi.lab.test/simple/ --target t lab-wheel && PYTHONPATH=t python3 -c 'import lab_wheel; print(lab_wheel.word())'",
            "lab-wheel works\n"),
    "go": ("$PROGRAMS/fetch https://files.lab.test/ http://files.lab.test/", f"200 {HELLO}" * 2),
    "java": ("java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp $PROGRAMS Fetch https://files.lab.test/ http://files.lab.test/ 2>/dev/null", f"200 {HELLO}" * 2),
    "openssl": ("printf 'GET / HTTP/1.0\\r\\nHost: files.lab.test\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -verify_hostname "
                "files.lab.test -servername files.lab.test -connect files.lab.test:443 2>/dev/null | tail -1", HELLO),
    "gnutls": ("printf 'GET / HTTP/1.0\\r\\nHost: files.lab.test\\r\\n\\r\\n' | gnutls-cli --logfile=/dev/null files.lab.test 2>&1 | tail -1", HELLO),
    "big": (BIG_SUM, None),
    "big-no-proxy": (NO_PROXY + BIG_SUM, None),
    "gateway": ("curl -sS -X POST http://brig.proxy/ -H 'X-Forward-To: https://files.lab.test/' -o /dev/null -w '%{http_code}\\n'; "
                "curl -sS http://brig.proxy/ -H 'X-Forward-To: https://files.lab.test/'; "
                f"{NO_PROXY} curl -sS http://brig.proxy/ -H 'X-Forward-To: http://files.lab.test/'", f"405\n{HELLO * 2}"),
}
# Node has a list of authorities of its own, on which the lab's is not: where nothing is looked into the user says so.
NODE_STORE = {"NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"}
GNUTLS = ("wget", "wget-no-proxy", "gnutls")
NEEDS = {"npm": "npm", "node-fetch": "node", "node-https": "node", "java": "java", "gnutls": "gnutls-cli"}


# Each way on each tier, each way as each caller; the whole square would only take longer.
WAYS = [("root", "container", "spliced"), ("user", "container", "intercepted"), ("user", "process", "spliced"),
        ("root", "process", "intercepted")]
# Each program on both tiers, looked into and not; the quick form has it for one caller, in turns.
RUNS = [pytest.param(*way, name, id="-".join((*way, name))) for n, name in enumerate(PROGRAMS) for way in WAYS
        if FULL or way[0] == ("root", "user")[n % 2]]


def on(caller, tier):
    return LabCaller(caller, "--tier", tier)


@pytest.mark.parametrize("caller,tier,mode,name", RUNS)
def test_program(caller, tier, mode, name, rules, programs, lab):
    """It prints what it prints without brig, every byte came from the lab, nothing was denied."""
    lab_box = on(caller, tier)
    if name in NEEDS and not shutil.which(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    script, expected = PROGRAMS[name]
    if expected is None:
        expected = hashlib.sha256((lab.sites.www / "big.bin").read_bytes()).hexdigest() + "\n"
    node = [x for k, v in NODE_STORE.items() for x in ("-e", f"{k}={v}")] if mode == "spliced" else []
    watch = lab.watch()
    told = lab_box.json(*BIG, *rules[mode], *node, "--ro", programs, "-e", f"PROGRAMS={programs}", "--", "bash", "-c",
                        'cd "${TMPDIR:-/tmp}" && ' + script, timeout=1000)
    if name in GNUTLS and mode == "intercepted" and "process" in lab_box.options:
        # Its list of authorities is a file of the host that no variable moves: it must refuse, not go on unsure.
        assert told["stdout"] != expected and "from nginx" not in told["stdout"].partition(HELLO)[2], told
        return
    assert (told["exit_code"], told["stdout"]) == (0, expected), told
    # Some libraries try a bind to learn whether there is IPv6; the process tier refuses that and says so.
    assert not [d for d in told["denials"] if d["boundary"] in ("network", "credentials") and "seccomp" not in d["rule"]], told["denials"]
    assert told["receipt"]["network"]["allowed"] > 0 and told["receipt"]["network"]["denied"] == 0
    watch.only(netlab.NGINX, netlab.NGINX6, netlab.API, netlab.API6)
    assert set(watch.names()) <= set(HOSTS), watch.names()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_control(lab, name, programs):
    """The programs do their work in the lab without brig: what the tests above expect is what they say."""
    if name in NEEDS and not shutil.which(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    if name == "gateway":
        pytest.skip("the gateway exists inside only")
    script, expected = PROGRAMS[name]
    done = lab.run("bash", "-c", 'cd "$(mktemp -d)" && ' + script + '; rm -rf "$PWD"',
                   env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "PROGRAMS": str(programs), "TMPDIR": "/tmp",
                        **NODE_STORE})
    assert done.stdout == (expected or hashlib.sha256((lab.sites.www / "big.bin").read_bytes()).hexdigest() + "\n"), done


DENIED = {
    "curl": "curl -sS -m 60 https://evil.test/", "curl-no-proxy": NO_PROXY + "curl -sS -m 60 https://evil.test/",
    "curl-literal": NO_PROXY + f"curl -sSk -m 60 https://{netlab.EVIL}/", "wget": "wget -q -T 60 -t 1 -O- https://evil.test/",
    "git": "git clone -q https://evil.test/repo.git r", "python": "python3 -c \"import urllib.request as u; u.urlopen('https://evil.test/', timeout=60)\"",
    "node": "node -e \"fetch('https://evil.test/').catch(e => process.exit(1))\"", "go": "$PROGRAMS/fetch https://evil.test/",
    "java": "java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp $PROGRAMS Fetch https://evil.test/", "dig-like": "getent hosts evil.test",
    "port": "curl -sSf -m 60 http://files.lab.test:8080/", "plain": NO_PROXY + "curl -sS -m 60 http://evil.test/", }


@pytest.mark.parametrize("name", DENIED)
def test_program_denied(lab_box, name, rules, programs, lab):
    """The same programs to a host that no rule names: they fail, nothing arrives, the result says why and what would allow it."""
    watch = lab.watch()
    told = lab_box.json(*BIG, *rules["spliced"], "--ro", programs, "-e", f"PROGRAMS={programs}", "--", "bash", "-c",
                        'cd "${TMPDIR:-/tmp}" && ' + DENIED[name] + " || exit 7", timeout=1000)
    assert told["exit_code"] == 7, told
    watch.nothing()
    network = [d for d in told["denials"] if d["boundary"] == "network"]
    assert network, told
    if name in ("curl", "wget", "python"):
        assert any("evil.test" in d["what"] and "--allow evil.test" in (d["hint"] or "") for d in network), network


def test_program_denied_control(lab, programs):
    """Without brig they reach it."""
    watch = lab.watch()
    for name in ("curl", "go", "node"):
        lab.run("bash", "-c", DENIED[name], env={"PATH": "/usr/bin:/bin", "PROGRAMS": str(programs), "HOME": "/nonexistent",
                                                  **NODE_STORE})
    assert len(watch.connections(netlab.EVIL)) + len(watch.connections(netlab.EVIL6)) >= 3


# ---- other protocols ----

@pytest.mark.parametrize("spec,host,address", [("redis.lab.test:6379", "redis.lab.test", netlab.REDIS),
                                               ("tcp://redis.lab.test:6379", "redis.lab.test", netlab.REDIS),
                                               ("db.lab.test:6379=10.0.0.5", "db.lab.test", netlab.DATABASE)])
def test_redis(lab_box, spec, host, address, lab):
    """redis-cli knows no proxy: a plain TCP rule, and a name pinned to a private address."""
    watch = lab.watch()
    told = lab_box.json("--allow", spec, "--", "sh", "-c", f"redis-cli -h {host} set k v; redis-cli -h {host} get k; redis-cli -h {host} del k")
    assert told["stdout"] == "OK\nv\n1\n", told
    assert {r[1:] for r in watch.reached()} == {(address, 6379)}
    watch.again()
    told = lab_box.json("--allow", "files.lab.test", "--", "sh", "-c", f"timeout 60 redis-cli -h {host} ping")
    assert "PONG" not in told["stdout"]
    assert not watch.reached()


def test_ipv6(lab_box, lab):
    """A name with an IPv6 address only, by the proxy and by itself."""
    told = lab_box.json("--allow", "v6.lab.test", "--", "sh", "-c", f"curl -sS https://v6.lab.test/ && {NO_PROXY} curl -sS -m 60 http://v6.lab.test/")
    assert told["exit_code"] == 0 and told["stdout"].count(netlab.API6) == 2, told


def test_a_shut_down_half(lab_box, lab):
    """A client that closes its sending side still gets the answer, through a plain TCP rule."""
    told = lab_box.json("--allow", "tcp://api.lab.test:8080", "--", "python3", "-c", """
import socket
s = socket.create_connection(("api.lab.test", 8080))
s.sendall(b"GET /slow/0.3 HTTP/1.1\\r\\nHost: api.lab.test\\r\\nConnection: close\\r\\n\\r\\n")
s.shutdown(socket.SHUT_WR)
data = b""
while piece := s.recv(9999):
    data += piece
    if b'"sni"' in data: break
print(data[:12].decode())""")
    assert told["stdout"] == "HTTP/1.1 200\n", told


# ---- trust ----

TRUST = {
    "openssl": "curl -sS https://files.lab.test/",
    "gnutls": "wget -qO- https://files.lab.test/",
    "python": f'python3 -c "{PY_URLLIB}"',
    "requests": f'python3 -c "{PY_REQUESTS}"',
    "node": f'node -e "{NODE_FETCH}"',
    "git": "git ls-remote https://git.lab.test/repo.git | cut -f2 | tail -1 | sed 's/.*/hello from nginx/'",
    "go": "$PROGRAMS/fetch https://files.lab.test/ | cut -c5-",
    "java": "java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp $PROGRAMS Fetch https://files.lab.test/ 2>/dev/null | cut -c5-",
}


@pytest.mark.parametrize("store", TRUST)
@pytest.mark.parametrize("caller,tier", [("user", "container"), ("root", "process")])
def test_trust_stores(caller, tier, store, rules, programs, lab):
    """Each store knows the run's authority where TLS is looked into, and only there; what the server's bad certificate
    means is not hidden by it."""
    lab_box = on(caller, tier)
    def run(options, script):
        return lab_box.json(*BIG, *options, "--ro", programs, "-e", f"PROGRAMS={programs}", "--", "bash", "-c",
                            'cd "${TMPDIR:-/tmp}" && ' + script)
    told = run(rules["intercepted"], TRUST[store])
    if store == "gnutls" and "process" in lab_box.options:
        assert told["stdout"] == "", told
    else:
        assert told["stdout"] == HELLO, told
    for mode in ("spliced", "intercepted"):
        bad = policy_file(f"bad-{mode}", "network:\n  mode: allowlist\n  allow:\n    - {host: wrongname.lab.test, scheme: https, port: 443"
                          + (", methods: [GET]}\n" if mode == "intercepted" else "}\n"))
        watch = lab.watch()
        told = run(["--policy", str(bad)], TRUST[store].replace("files.lab.test", "wrongname.lab.test").replace("git.lab.test", "wrongname.lab.test"))
        assert HELLO not in told["stdout"] and '"method"' not in told["stdout"], told
        assert not watch.requests(), "a request went to a server with the wrong certificate"


# ---- secrets, as a user types them ----

def test_a_secret_as_the_readme_shows(lab_box, lab):
    """curl with the variable, curl without it: the server gets the value, the program a placeholder."""
    watch = lab.watch()
    value = "ghp_" + os.urandom(16).hex()
    told = lab_box.json("--secret", "GITHUB_TOKEN=env:GITHUB_TOKEN@https://api.lab.test", "--", "sh", "-c",
                        'curl -sS https://api.lab.test/user -H "Authorization: token $GITHUB_TOKEN" -o /dev/null; curl -sS https://api.lab.test/plain; '
                        'echo; echo "$GITHUB_TOKEN"', env={**os.environ, "GITHUB_TOKEN": value})
    assert told["exit_code"] == 0 and value not in json.dumps(told), told
    sent = {r.target: r.get("authorization") for r in watch.requests()}
    assert sent["/plain"] == [f"Bearer {value}"] and len(sent["/user"]) == 1 and value in sent["/user"][0], sent
    assert told["receipt"]["boundaries"]["credentials"]["secrets"], told["receipt"]["boundaries"]["credentials"]


# ---- what is told ----

def test_what_is_told(lab_box, lab):
    """The result, the receipt and `brig net` agree with what the servers and the programs saw."""
    state = labcaller.state_folder(lab_box)
    told = lab_box.json("--allow", "api.lab.test", "--", "sh", "-c",
                        "curl -sS 'http://api.lab.test/a?query-not-told=1' http://api.lab.test/b -o /dev/null -o /dev/null; "
                        "curl -sS -X POST -d hidden-body http://api.lab.test/c -o /dev/null; curl -sS http://evil.test/d -D -; "
                        "curl -sS http://api.lab.test:81/e -o /dev/null; true", env=state)
    head, _, body = told["stdout"].replace("\r\n", "\n").partition("\n\n")
    assert head.startswith("HTTP/1.1 403") and "x-brig-denied:" in head.lower(), told["stdout"]
    refusal = json.loads(body)
    assert "evil.test" in body and "--allow" in body, refusal
    net = told["receipt"]["network"]
    assert (net["allowed"], net["denied"]) == (3, 2) and net["total"] == 5, net
    assert net["by_method"] == {"GET": 4, "POST": 1} or net["by_method"].get("POST") == 1, net
    assert net["by_host"]["api.lab.test"] >= 3 and "evil.test" in net["by_host"], net
    what = {d["what"]: d for d in told["denials"] if d["boundary"] == "network"}
    assert any("evil.test" in w for w in what) and any("81" in w for w in what), what
    network = told["receipt"]["boundaries"]["network"]
    assert network["mode"] == "allowlist", network
    asked = lab_box.brig("net", told["sandbox_id"], "--json", env=state)
    assert asked.returncode == 0, asked
    shown = json.loads(asked.stdout)["network"]
    assert (shown["allowed"], shown["denied"]) == (3, 2) and len(shown["recent"]) == 5, shown
    for text in (asked.stdout, json.dumps(told["receipt"]), lab_box.brig("net", told["sandbox_id"], env=state).stdout):
        assert "query-not-told" not in text and "hidden-body" not in text
    assert lab_box.brig("net", "brig-000000000000").returncode != 0


def test_the_receipt_says_what_is_weaker(lab_box, tier, lab):
    """On the process tier there is no namespace, and that is said."""
    told = lab_box.json("--allow", "api.lab.test", "--", "true")
    network = told["receipt"]["boundaries"]["network"]
    text = json.dumps(network)
    assert network["mode"] == "allowlist"
    if tier == "process":
        assert "broker" in text or "connect" in text or "notif" in text, network
    else:
        assert "lo" in text, network


def test_brig_proxy_alone(lab, lab_caller):
    """`brig proxy` serves other tools, asks for its password, and keeps the same rules."""
    import re
    import subprocess
    process = subprocess.Popen(lab_caller.outside(str(labcaller.PUBLIC / "brig"), "proxy", "--allow", "api.lab.test"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE)
    try:
        text = process.stdout.readline()
        url = re.search(r"http://[^\s'\"]+", text)
        assert url, f"no address in {text!r}"
        url = url.group(0)
        assert '"target"' in lab.run("curl", "-sS", "-x", url, "http://api.lab.test/x").stdout, text
        watch = lab.watch()
        assert "403" in lab.run("curl", "-sSi", "-x", url, "http://evil.test/x").stdout
        bare = re.sub(r"//[^@/]*@", "//", url)
        assert "@" in url and "407" in lab.run("curl", "-sSi", "-x", bare, "http://api.lab.test/x").stdout, "without the password"
        watch.nothing()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_secrets_check(lab, lab_caller):
    """Which sources resolve, without a value."""
    folder = labcaller.PUBLIC / f"keys-{lab_caller.name}"
    folder.mkdir(exist_ok=True)
    path = folder / "key"
    path.write_text("value-that-is-not-told")
    path.chmod(0o600)
    os.chown(path, lab_caller.uid, lab_caller.uid)
    done = lab_caller.brig("secrets", "check", "--secret", f"GOOD=file:{path}@https://api.lab.test", "--secret", "BAD=env:NO_SUCH@https://api.lab.test")
    assert done.returncode != 0 and "GOOD" in done.stdout and "BAD" in done.stdout, done
    assert "value-that-is-not-told" not in done.stdout + done.stderr
    assert lab_caller.brig("secrets", "check", "--secret", f"GOOD=file:{path}@https://api.lab.test").returncode == 0
