"""`brig serve --tls`: a certificate of its own, whose key is in brig-tls and nowhere else; as root and as an ordinary user."""
import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import daemonlib
import npmlib
import pytest
import tlslib
from daemonlib import IS_ROOT, USER_ID, USERS, wait_for
from tlslib import DOMAIN, TlsDaemon, ask, openssl


# As src/tls/gate.c has it.
WAITING_OF_ONE = 512
PAST, FUTURE = ("20240101000000Z", "20240201000000Z"), ("20980101000000Z", "20990101000000Z")


@pytest.fixture(scope="session")
def ca():
    made = tlslib.Authority()
    yield made
    made.close()


@pytest.fixture(scope="module", params=USERS)
def daemon(request, ca):
    with TlsDaemon(request.param, ca) as made:
        yield made
        assert made.stop() == 0
        assert "brig-tls" not in made.what_it_said().replace("test-brig-tls", ""), "a test of its own kills it"


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


# ---- what is spoken ----

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_both_versions(daemon, ca, version):
    context = ca.context(minimum_version=version, maximum_version=version)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with daemon.connect(context) as s:
        assert s.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
        assert s.selected_alpn_protocol() == "http/1.1"
        assert "GCM" in s.cipher()[0] or "CHACHA20" in s.cipher()[0]
        assert ask(s) == (200, b'"ok"') and ask(s)[0] == 200, "the connection stays"


def test_what_is_not_spoken(daemon, ca):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is old
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        daemon.connect(old)
    cbc = ca.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    cbc.set_ciphers("ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA:AES128-SHA")
    with pytest.raises(ssl.SSLError):
        daemon.connect(cbc)
    http2 = ca.context()
    http2.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        daemon.connect(http2)
    with pytest.raises(ssl.SSLCertVerificationError):
        daemon.connect(ssl.create_default_context())
    with daemon.connect() as s:
        assert ask(s)[0] == 200, "control: the same without these wishes"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_plain_http_is_told_so_and_not_served(daemon, method):
    told = daemon.raw(f"{method} /sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {daemon.key}\r\n\r\n".encode())
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and json.loads(body)["code"] == 400, told
    assert "https://" in json.loads(body)["message"]


@pytest.mark.parametrize("data", [b"\x00" * 100, b"\x16\x03\x01\x40\x01" + b"x" * 400, b"\x80\x2e\x01\x03\x01", b"ssh-2.0-x\r\n", b"\x15\x03\x03\x00\x02\x02\x28"])
def test_nonsense_is_cut(daemon, data):
    assert b"HTTP/" not in daemon.raw(data, shut=True)
    with daemon.connect() as s:
        assert ask(s)[0] == 200


def test_the_unix_socket_stays_as_it_is(daemon):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(daemon.socket))
        assert ask(s, "/sandboxes", "localhost", **{"X-API-KEY": daemon.key})[0] == 200
    listed = subprocess.run([daemonlib.program(), "ps", "--state", str(daemon.state), "--key-file", str(daemon.key_file), "--json"], capture_output=True,
                            text=True, cwd="/", env={"PATH": os.environ["PATH"]})
    assert listed.returncode == 0, listed
    over = subprocess.run([daemonlib.program(), "ps", "--host", daemon.url], capture_output=True, text=True, cwd="/",
                          env={"PATH": os.environ["PATH"], "BRIG_API_KEY": daemon.key})
    assert over.returncode != 0 and "TLS" in over.stderr and "unix:" in over.stderr, over


def test_names(daemon):
    """api.DOMAIN and PORT-ID.DOMAIN are this daemon; others are not, and answers say which are."""
    with daemon.connect() as s:
        assert ask(s)[0] == 200
        assert ask(s, host="other.test")[0] == 403
    box = daemon.create()
    try:
        assert box.told["domain"] == DOMAIN
        with daemon.connect(name=f"3000-{box.id}.{DOMAIN}") as s:
            status, body = ask(s, host=f"3000-{box.id}.{DOMAIN}", **{"E2B-Traffic-Access-Token": box.told["trafficAccessToken"]})
            assert (status, json.loads(body)["port"]) == (502, 3000), body
    finally:
        box.kill()


def test_without_a_domain_the_address_will_do(ca):
    with TlsDaemon(USERS[-1], ca, domain=None) as daemon:
        assert daemon.request("GET", "/sandboxes").status == 200
        with daemon.connect() as s:
            assert ask(s)[0] == 403, "a name that nobody gave it"


# ---- bytes ----

SERVER = r"""
import base64, hashlib, http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket": return self.ws()
        data = b"z" * 5000000
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def do_POST(self):
        data = hashlib.sha256(self.rfile.read(int(self.headers["Content-Length"]))).hexdigest().encode()
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def ws(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()); self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8: break
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([0x81, len(data) + 5]) + b"echo:" + data); self.wfile.flush()
        self.close_connection = True
class S(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
S(("127.0.0.1", 3000), H).serve_forever()
"""


@pytest.fixture
def served(daemon):
    """A sandbox with a server inside: (sandbox, its name, headers)."""
    box = daemon.create(network={"allowPublicTraffic": True})
    try:
        box.write("/home/user/server.py", SERVER.encode())
        connection, _ = box.begin("/usr/bin/python3", "/home/user/server.py")
        wait_for(lambda: box.request("GET", "/", port=3000).status == 200, what="the server inside")
        yield box, f"3000-{box.id}.{DOMAIN}"
        connection.close()
    finally:
        box.kill()


def frame(text):
    mask = os.urandom(4)
    return bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text))


def upgrade(s, name):
    s.sendall(f"GET /ws HTTP/1.1\r\nHost: {name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
    told = b""
    while b"\r\n\r\n" not in told:
        piece = s.recv(4096)
        assert piece, told
        told += piece
    assert told.startswith(b"HTTP/1.1 101 "), told


def echo(s, word):
    s.sendall(frame(word))
    wanted, told = bytes([0x81, len(word) + 5]) + b"echo:" + word, b""
    while len(told) < len(wanted):
        piece = s.recv(4096)
        assert piece, told
        told += piece
    assert told == wanted


def test_bodies_both_ways(daemon, served):
    box, name = served
    with daemon.connect(name=name) as s:
        assert ask(s, "/", name) == (200, b"z" * 5000000)
    data = os.urandom(4_000_000)
    answer = box.request("POST", "/", data, port=3000)
    assert answer.status == 200 and answer.body.decode() == hashlib.sha256(data).hexdigest()


def test_a_websocket(daemon, served):
    box, name = served
    with daemon.connect(name=name) as s:
        upgrade(s, name)
        for i in range(20):
            echo(s, b"word %d" % i)
        s.sendall(bytes([0x88, 0x80, 1, 2, 3, 4]))
        while s.recv(4096):
            pass  # the end of the one inside is our end


def test_who_does_not_read_costs_little(daemon, served):
    box, name = served
    before = rss(daemon.gate())
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            s = stack.enter_context(daemon.connect(name=name))
            s.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert s.recv(10)
        with daemon.connect() as other:
            assert ask(other)[0] == 200, "nobody else waits for them"
        # 40 × 5 MB are asked for: 16 KiB of each are held, and what OpenSSL has.
        assert rss(daemon.gate()) - before < 16 << 20


def rss(pid):
    return int(next(line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))) * 1024


def test_a_client_that_breaks_off_is_noticed(daemon):
    """Eight readers of /events are all that a key may have: whether their places are free tells whether the front knows that they are gone."""
    key = daemon.add_key("reader")

    def reader():
        s = daemon.connect()
        s.sendall(f"GET /events HTTP/1.1\r\nHost: api.{DOMAIN}\r\nX-API-KEY: {key}\r\n\r\n".encode())
        return s, s.recv(12)

    for last_words in (True, False):
        def all_in():
            made = [reader() for _ in range(8)]
            if all(told == b"HTTP/1.1 200" for _, told in made):
                return [s for s, _ in made]
            for s, _ in made:
                s.close()
            return None
        held = wait_for(all_in, what="eight readers")
        late, told = reader()
        late.close()
        assert told == b"HTTP/1.1 429", "control: there is no ninth"
        for s in held:
            if last_words:
                s.settimeout(5)
                with contextlib.suppress(OSError):
                    s.unwrap()  # close_notify
            else:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            s.close()
    for s in wait_for(all_in, what="eight readers again"):
        s.close()


def test_the_end_of_an_answer_is_said(daemon):
    """Not cut: a client can tell a whole answer from one that somebody on the way has shortened."""
    with daemon.connect() as s:
        s.sendall(f"GET /health HTTP/1.1\r\nHost: api.{DOMAIN}\r\nConnection: close\r\n\r\n".encode())
        told = b""
        while piece := s.recv(4096):  # raises SSLEOFError without a close_notify
            told += piece
        assert told.endswith(b'"ok"')


# ---- the key ----

def regions(pid):
    """All of the memory of a process that can be read."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            first, last = (int(n, 16) for n in line.split()[0].split("-"))
            if "r" not in line.split()[1] or line.rstrip().endswith(("[vvar]", "[vsyscall]", "[vdso]", "[vvar_vclock]")):
                continue
            if last - first > 4 << 30:
                continue  # a sanitizer's map of the memory, larger than the machine's
            try:
                mem.seek(first)
                data = mem.read(last - first)
            except OSError:
                continue
            yield data


def secrets_of(key):
    """The number itself, as big-endian bytes and as OpenSSL has it, and the text of the file."""
    text = openssl("pkey", "-noout", "-text", input=key).decode()
    number = bytes.fromhex(text.split("priv:")[1].split("pub:")[0].replace(":", "").replace("\n", "").replace(" ", ""))[-32:]
    body = b"".join(key.splitlines()[1:-1])
    return {"number": number, "limbs": number[::-1], "text": body[40:80]}


def found_in(pid, secrets):
    return {name for data in regions(pid) for name, secret in secrets.items() if secret in data}


@pytest.mark.skipif(not IS_ROOT, reason="reads the memory of others")
def test_the_key_is_in_brig_tls_alone(daemon):
    secrets = secrets_of(daemon.certificate_key.read_bytes())
    box = daemon.create()
    try:
        assert daemon.serial() and daemon.request("GET", "/sandboxes").status == 200
        gate, children = daemon.gate(), daemon.children()
        assert found_in(gate, secrets), "control: it is found where it is"
        others = [daemon.pid, *(pid for pid in children if pid != gate)]
        assert daemon.front() in others and len(others) > 3
        for pid in others:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                assert not found_in(pid, secrets), (pid, children.get(pid))
    finally:
        box.kill()


@pytest.mark.skipif(not IS_ROOT, reason="looks at the descriptors of others")
def test_it_is_sealed(daemon):
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{daemon.gate()}/status").read_text().splitlines() if ":\t" in line)
    assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16), int(status["CapBnd"], 16)) == ("2", "1", 0, 0 if daemon.uid == 0 else int(status["CapBnd"], 16))
    uid = int(status["Uid"].split()[0])
    front = int(Path(f"/proc/{daemon.front()}/status").read_text().split("Uid:\t")[1].split()[0])
    assert uid == daemon.uid if daemon.uid else uid not in (0, front)
    # Sockets, the loop, nothing of the file system but /dev/null; and no port is the front's.
    for fd in os.listdir(f"/proc/{daemon.gate()}/fd"):
        with contextlib.suppress(FileNotFoundError):
            assert os.readlink(f"/proc/{daemon.gate()}/fd/{fd}").startswith(("socket:", "anon_inode:[eventpoll]", "/dev/null"))
    listening = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"}

    def ports(pid):
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        return [link for link in links if link[8:-1] in listening]
    assert ports(daemon.gate()), "control: it is seen where it is"
    assert not ports(daemon.front())


@pytest.mark.parametrize("user", USERS)
def test_no_sandbox_sees_the_key(ca, user):
    """Not even one that is offered the folder that it lies in; control: the same folder without it."""
    project = Path(tempfile.mkdtemp(prefix="test-brig-project-"))
    try:
        (project / "file").write_text("mine\n")
        (project / "inner").mkdir()
        if IS_ROOT and user == "user":
            for path in (project, project / "file", project / "inner"):
                os.chown(path, USER_ID, USER_ID)
        with TlsDaemon(user, ca, "--project", str(project)) as daemon:
            box = daemon.create(project=str(project))
            assert box.sh(f"cat {project}/file").out == b"mine\n"
            box.kill()
        with TlsDaemon(user, ca, "--project", str(project), at=project / "inner") as daemon:
            answer = daemon.request("POST", "/sandboxes", {"templateID": "base", "project": str(project)})
            assert answer.status >= 400 and "key.pem" in answer.body.decode(), answer
    finally:
        shutil.rmtree(project, ignore_errors=True)


# ---- another certificate ----

def reload(daemon):
    os.kill(daemon.pid, signal.SIGHUP)


def test_reload(daemon, ca):
    first = daemon.serial()
    with daemon.connect() as before:
        assert ask(before)[0] == 200
        for kind in ("rsa", "ec"):
            seen = daemon.serial()
            daemon.put(*ca.make(kind=kind))
            gate = daemon.gate()
            reload(daemon)
            wait_for(lambda: daemon.serial() != seen, what="the new certificate")
            assert daemon.gate() == gate, "the same process"
            assert ask(before)[0] == 200, "what was open goes on"
        assert int(before.getpeercert()["serialNumber"], 16) == first


def test_a_pair_that_is_no_good_changes_nothing(daemon, ca):
    good = daemon.certificate.read_bytes(), daemon.certificate_key.read_bytes()
    serial = daemon.serial()
    other = ca.make()
    bad = {
        "not that of the certificate": (good[0], other[1]),
        "expired on": ca.make(dates=PAST),
        "not valid before": ca.make(dates=FUTURE),
        "no certificate": (b"nothing\n", good[1]),
        "no private key": (good[0], b"nothing\n"),
        "*." + DOMAIN: ca.make("DNS:other.test"),
        "open to others": (*ca.make(), 0o644),
        "passphrase": ca.make(passphrase="secret"),
    }
    try:
        for words, pair in bad.items():
            said = len(daemon.what_it_said())
            daemon.put(*pair)
            reload(daemon)
            wait_for(lambda: words in daemon.what_it_said()[said:], what=f"a word about it: {words}")
            assert "the certificate stays as it is" in daemon.what_it_said()[said:]
            assert daemon.serial() == serial
        daemon.certificate_key.unlink()
        said = len(daemon.what_it_said())
        reload(daemon)
        wait_for(lambda: "No such file" in daemon.what_it_said()[said:], what="a word about it")
        assert daemon.serial() == serial
    finally:
        daemon.put(*ca.make())
    reload(daemon)
    wait_for(lambda: daemon.serial() != serial, what="control: a good one is taken")


# ---- at the start ----

@pytest.fixture
def home(ca):
    made = Path(tempfile.mkdtemp(prefix="test-brig-start-"))
    certificate, key = ca.make()
    (made / "cert.pem").write_bytes(certificate)
    (made / "key.pem").write_bytes(key)
    (made / "key.pem").chmod(0o600)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def refused(home, tls, *more, env=None):
    """What it says when it does not start; nothing is left."""
    told = subprocess.run([daemonlib.program(), "serve", "--state", str(home / "state"), "--socket", str(home / "s"), "--tls", tls, *more], capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, cwd=home, env={"PATH": os.environ["PATH"], "HOME": str(home), **(env or {})})
    assert told.returncode == 125 and "ready" not in told.stdout, told
    assert not (home / "s").exists() and not (home / "state" / "address").exists()
    return told.stderr


@pytest.mark.parametrize("tls", ["cert.pem", "cert.pem,", ",key.pem", "cert.pem,key.pem,ca.pem", ""])
def test_start_needs_two_files(home, tls):
    assert "CERT,KEY" in refused(home, tls)


def test_start_with_what_is_no_good(home, ca):
    assert "No such file" in refused(home, "missing.pem,key.pem")
    assert "No such file" in refused(home, "cert.pem,missing.pem")
    assert "no certificate" in refused(home, "key.pem,cert.pem").replace("open to others", "no certificate")  # the wrong way round
    assert "*.other.test" in refused(home, "cert.pem,key.pem", "--domain", "other.test")
    for name, pair, words in [("a", (ca.make()[0], ca.make()[1]), "not that of the certificate"), ("b", ca.make(dates=PAST), "expired on"),
                              ("g", ca.make(dates=FUTURE), "not valid before"),
                              ("c", ca.make(passphrase="x"), "passphrase"), ("d", ca.make(kind="weak"), "too weak"),
                              ("e", (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ca.make()[1]), "malformed"),
                              ("f", (b"x" * 300_000, ca.make()[1]), "over 262144 bytes")]:
        (home / f"{name}.pem").write_bytes(pair[0])
        (home / f"{name}.key").write_bytes(pair[1])
        (home / f"{name}.key").chmod(0o600)
        assert words in refused(home, f"{name}.pem,{name}.key"), name


def test_start_trusts_no_file_of_others(home):
    (home / "key.pem").chmod(0o640)
    assert "open to others" in refused(home, "cert.pem,key.pem")
    (home / "key.pem").chmod(0o600)
    (home / "cert.pem").chmod(0o666)
    assert "changed by others" in refused(home, "cert.pem,key.pem")
    (home / "cert.pem").chmod(0o644)
    os.mkfifo(home / "fifo")
    assert "FIFO" in refused(home, "fifo,key.pem")


def test_start_without_a_port(home):
    """A service manager that opened a UNIX socket alone."""
    script = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1]); s.listen()
os.dup2(s.fileno(), 3); os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
    told = subprocess.run(["/usr/bin/python3", "-c", script, str(home / "passed"), daemonlib.program(), "serve", "--state", str(home / "state"), "--tls",
                           "cert.pem,key.pem"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd=home)
    assert told.returncode == 125 and "no TCP socket" in told.stderr and "--listen" in told.stderr, told


# ---- strangers ----

def test_handshakes_that_never_end_are_bounded_and_keep_nobody_out(daemon):
    """Silent ones, and ones in the middle of a first message, of two addresses: 512 of each at most."""
    gate = daemon.gate()
    before = descriptors_of(gate)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 50
    with contextlib.ExitStack() as stack:
        held = {"127.0.0.2": [], "127.0.0.3": []}
        for source, sockets in held.items():
            for i in range(WAITING_OF_ONE + 100):
                s = stack.enter_context(daemon.plain(source))
                if i % 2:
                    s.sendall(hello)
                sockets.append(s)
        with daemon.connect() as s:
            assert ask(s)[0] == 200
        with daemon.connect(source="127.0.0.2") as s:
            assert ask(s)[0] == 200, "not even of the same address: the longest wait gives way"
        assert descriptors_of(gate) - before <= 2 * WAITING_OF_ONE + 64
        for source, sockets in held.items():
            open_ones = sum(is_open(s) for s in sockets)
            assert 0 < open_ones <= WAITING_OF_ONE, (source, open_ones)
    wait_for(lambda: descriptors_of(gate) <= before + 8, what="nothing is held for them")


def memory_of(pid):
    """In MiB, what is in memory now."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


@pytest.mark.parametrize("claim, records", [(32768, 2), (32768, 7), (131064, 2)], ids=["what they may", "more", "they claim more"])
def test_what_a_thousand_half_open_handshakes_hold(daemon, claim, records):
    """Of one address, each in the middle of a hello that says how long it is, in records of 16 KiB."""
    hello = b"\x16\x03\x01\x40\x00\x01" + claim.to_bytes(3, "big") + bytes(16384 - 4) + (b"\x16\x03\x01\x40\x00" + bytes(16384)) * (records - 1)
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(1000):
            held.append(stack.enter_context(daemon.plain("127.0.0.4")))
            with contextlib.suppress(ConnectionError):
                held[-1].sendall(hello)
        with daemon.connect() as s:
            assert ask(s)[0] == 200, "they have not the whole gate"
        used = memory_of(daemon.gate())
        assert used < 80, f"{used} MiB"
        most = WAITING_OF_ONE if (claim, records) == (32768, 2) else 0
        wait_for(lambda: sum(is_open(s) for s in held) <= most, what="those beyond are cut")


def test_a_long_hello_is_taken(daemon, ca):
    """The control: six times as long as those of today's clients."""
    context = ca.context()
    context.set_alpn_protocols(["http/1.1", *(f"{i:0>200}" for i in range(60))])
    with daemon.connect(context) as s:
        assert ask(s)[0] == 200


def is_open(s):
    s.setblocking(False)
    try:
        return s.recv(1) != b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


@pytest.mark.meanwhile(seconds=10)
@pytest.mark.parametrize("user", USERS)
def test_a_handshake_has_its_time(user):
    with contextlib.closing(tlslib.Authority()) as ca, TlsDaemon(user, ca) as daemon:
        began = time.monotonic()
        with daemon.plain() as s:
            s.settimeout(100)
            assert s.recv(1) == b"", "it is closed"
        assert time.monotonic() - began > 5


def test_callers_are_told_apart_by_their_address(daemon):
    """The front lets one address have 512 connections: those of another one do not give way for it."""
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(daemon.connect(source="127.0.0.5"))
        assert ask(other)[0] == 200
        mine = [stack.enter_context(daemon.connect(source="127.0.0.6")) for _ in range(530)]
        assert ask(mine[-1])[0] == 200
        wait_for(lambda: sum(is_open(s) for s in mine) <= 512, what="the oldest of its own give way")
        # Not all of the others: on a slow machine the oldest are closed because they have not said anything for so long.
        assert all(is_open(s) for s in mine[-50:]), "only the oldest"
        assert ask(other)[0] == 200


# ---- its death ----

@pytest.mark.parametrize("user", USERS)
def test_it_is_started_again(ca, user):
    """Connections are cut, sandboxes live on, and not for a moment is anything served in the clear."""
    with TlsDaemon(user, ca) as daemon:
        box = daemon.create()
        front = daemon.front()
        for _ in range(3):
            with daemon.connect() as s:
                assert ask(s)[0] == 200
                gate = wait_for(daemon.gate)
                os.kill(gate, signal.SIGKILL)
                plain = daemon.raw(f"GET /sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {daemon.key}\r\n\r\n".encode())
                assert plain == b"" or plain.startswith(b"HTTP/1.1 400 "), plain
                with pytest.raises((OSError, AssertionError)):
                    s.settimeout(60)
                    assert s.recv(1) != b""
                    raise OSError
            wait_for(lambda: daemon.gate() not in (0, gate), what="another one")
            assert daemon.request("GET", f"/sandboxes/{box.id}").status == 200
            assert box.sh("echo alive").out == b"alive\n"
        assert daemon.front() == front
        assert daemon.what_it_said().count("brig-tls was killed by signal 9; its connections are cut, and it is started again") == 3
        # With the pair that was in force, whatever lies there now; and the reload that came meanwhile is made up for.
        serial = daemon.serial()
        daemon.put(*ca.make())
        os.kill(daemon.gate(), signal.SIGKILL)
        wait_for(lambda: daemon.what_it_said().count("was killed by signal 9") == 4, what="a word about it")
        assert daemon.serial() == serial
        reload(daemon)
        wait_for(lambda: daemon.serial() != serial, what="the new certificate")
        assert daemon.stop() == 0


@pytest.mark.meanwhile(seconds=30)
def test_one_that_does_not_answer_is_started_again():
    """It has half a minute to say whether it takes a certificate."""
    with contextlib.closing(tlslib.Authority()) as ca, TlsDaemon(USERS[-1], ca) as daemon:
        gate, serial = daemon.gate(), daemon.serial()
        daemon.put(*ca.make())
        os.kill(gate, signal.SIGSTOP)
        reload(daemon)
        wait_for(lambda: "does not say whether it takes the certificate" in daemon.what_it_said(), seconds=300, what="a word about it")
        wait_for(lambda: daemon.gate() not in (0, gate), what="another one")
        wait_for(lambda: daemon.serial() != serial, what="the new certificate, read once more")
        assert daemon.stop() == 0


@pytest.mark.parametrize("user", USERS)
def test_it_ends_with_the_launcher(ca, user):
    with TlsDaemon(user, ca) as daemon:
        gate = daemon.gate()
        born = Path(f"/proc/{gate}/stat").read_text().rsplit(")", 1)[1].split()[19]
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.process.wait()

        def gone():
            try:
                fields = Path(f"/proc/{gate}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                return True
            return fields[0] in "ZX" or fields[19] != born
        wait_for(gone, what="its end")


def test_without_the_program_nothing_starts(home):
    """Not in the clear instead."""
    place = home / "bin"
    place.mkdir()
    for path in Path(daemonlib.program()).parent.glob("brig*"):
        if path.name != "brig-tls":
            shutil.copy(path, place / path.name)
    told = subprocess.run([str(place / Path(daemonlib.program()).name), "serve", "--state", str(home / "state"), "--socket", str(home / "s"), "--tls",
                           "cert.pem,key.pem"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd=home)
    assert told.returncode == 125 and "brig-tls is not beside brig" in told.stderr, told


# ---- the published client ----

@pytest.mark.parametrize("user", USERS)
def test_e2b_by_its_own_addresses(ca, user):
    clients = npmlib.install()
    with TlsDaemon(user, ca, domain=f"{DOMAIN}:@PORT@") as daemon:
        env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_DOMAIN": f"{DOMAIN}:{daemon.port}", "E2B_API_KEY": daemon.key,
               "NODE_EXTRA_CA_CERTS": str(ca.path)}
        said = subprocess.run(["node", "tls.mjs"], cwd=clients, env=env, text=True, capture_output=True, timeout=900)
        assert said.returncode == 0 and "FAILED" not in said.stdout and "ok a port by its own address" in said.stdout, said.stdout + said.stderr
        without = subprocess.run(["node", "tls.mjs"], cwd=clients, env={k: v for k, v in env.items() if k != "NODE_EXTRA_CA_CERTS"}, text=True,
                                 capture_output=True, timeout=900)
        assert without.returncode != 0 and "certificate" in without.stdout + without.stderr, "control: the certificate is looked at"
