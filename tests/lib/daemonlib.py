"""A real `brig serve` on a loopback port, as root or as an ordinary user, and a plain HTTP client for it.

BRIG names the program; what it needs (brig-daemon, brig-proxy, brig-tls) lies beside it.
"""
import atexit
import base64
import copy
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

from users import USER_ID
from waiting import wait_for

TOP = Path(__file__).resolve().parents[2]
BRIG = Path(os.environ.get("BRIG", TOP / "build" / "brig"))
IS_ROOT = os.geteuid() == 0
# Who runs the daemon. Under the sanitizers it is one of them in every test run, both in the full form (tools/run-tests).
USERS = os.environ.get("BRIG_TEST_USERS", "").split() or (["root", "user"] if IS_ROOT else ["user"])
READY = re.compile(r"ready on .*\b(https?)://127\.0\.0\.1:(\d+)")
# The disk is memory: a sandbox that can be filled without being ended.
TEMPLATES = {"small.yaml": "description: little room\npolicy: {lifecycle: {disk: 48M, sampling: accept}}\n",
             "tight.yaml": "description: little memory\npolicy: {lifecycle: {memory: 192M, disk: 48M, sampling: accept}}\n"}
# As the one that is built in, but for numpy, pandas and matplotlib: to load them is most of what the start of a daemon takes.
PYTHON = ("description: Python, started and waiting\naliases: [code-interpreter-v1]\ninterpreter: python\n"
          "modules: [json, re, math, datetime, collections, itertools, random]\n")


def _public_folder():
    """A folder that every user can read, with a copy of the programs."""
    folder = Path(tempfile.mkdtemp(prefix="test-brig-daemon-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for path in [*BRIG.parent.glob("brig*"), *BRIG.parent.glob("javascript.wasm")]:
        if path.is_file():
            shutil.copy(path, folder / path.name)
    return folder


_public = None


def program():
    global _public
    if _public is None:
        _public = _public_folder()
    return str(_public / BRIG.name)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class Daemon:
    """A running `brig serve`; ends with the test."""

    source = None  # the address that requests come from

    def __init__(self, user="root", *options, templates=TEMPLATES, built_in=False, folder=None, env=None, wrapper=()):
        """With `built_in` its Python is the one that users have."""
        self.uid = USER_ID if IS_ROOT and user == "user" else os.geteuid()
        self.own_folder = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="test-brig-serve-"))
        self.state = self.folder / "state"
        self.key_file = self.folder / "key"
        self.socket = self.folder / "brig.sock"
        self.state.mkdir(0o700, exist_ok=True)
        for name, text in {**({} if built_in else {"python.yaml": PYTHON}), **templates}.items():
            (self.state / "templates").mkdir(exist_ok=True)
            (self.state / "templates" / name).write_text(text)
        if self.uid != os.geteuid():
            for path in [self.folder, self.state, self.state / "templates", *self.state.glob("templates/*")]:
                if path.exists():
                    os.chown(path, self.uid, self.uid)
        self.options, self.env, self.wrapper = options, env or {}, wrapper
        self.process = None
        self.start()

    def command(self):
        command = [program(), "serve", "--state", str(self.state), "--key-file", str(self.key_file), "--socket",
                   str(self.socket), "--listen", "127.0.0.1:0", *self.options]
        if self.uid == os.geteuid():
            return [*self.wrapper, *command]
        ids = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        return [*self.wrapper, "setpriv", *ids, "--", *command]

    def start(self):
        self.said = open(self.folder / "said", "ab")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.said, cwd="/", text=True,
                                        env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.env})
        line = self.process.stdout.readline()
        found = READY.search(line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"brig serve did not start: {line!r} {(self.folder / 'said').read_text()!r}")
        self.port = int(found[2])
        self.url = f"{found[1]}://127.0.0.1:{self.port}"
        self.key = self.key_file.read_text().strip()

    @property
    def pid(self):
        return self.process.pid

    def children(self):
        """{pid: name} of everything below the launcher."""
        stats = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = Path(f"/proc/{name}/stat").read_text(errors="replace")
            except OSError:
                continue
            head, rest = text[text.index("(") + 1:].rsplit(")", 1)
            if rest.split()[0] != "Z":
                stats[int(name)] = (head, int(rest.split()[1]))
        found, size = {self.pid}, 0
        while len(found) != size:
            size = len(found)
            found |= {pid for pid, (_, parent) in stats.items() if parent in found}
        return {pid: stats[pid][0] for pid in found if pid != self.pid and pid in stats}

    def front(self):
        """The pid of brig-daemon; the recorder is its child."""
        mine = [pid for pid, name in self.children().items() if name == "brig-daemon"]
        return next(pid for pid in mine if parent(pid) == self.pid)

    def stop(self, seconds=300):
        """In order; returns the status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("brig serve did not end") from None

    def close(self):
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.said.close()
            self.process.stdout.close()
            if self.own_folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- requests ----

    def seen_from(self, address):
        """The same daemon for a client with another address, of those that all lead here (127.0.0.0/8)."""
        other = copy.copy(self)
        other.source = (address, 0)
        return other

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=self.source)

    def request(self, method, path, body=None, headers=None, key=True, timeout=60):
        """key: True for the operator's, None for none, or a text."""
        connection = self.connection(timeout)
        try:
            try:
                self.send(connection, method, path, body, headers, key)
            except (BrokenPipeError, ConnectionResetError):
                pass  # an answer may have come before the body was taken
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def send(self, connection, method, path, body=None, headers=None, key=True):
        sent = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        if key:
            sent.setdefault("X-API-KEY", self.key if key is True else key)
        connection.request(method, path, body, sent)

    def raw(self, data, seconds=60, shut=False):
        """Bytes as they are; everything that comes back until the other side closes or is quiet."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            try:
                s.sendall(data)
                if shut:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            told = b""
            try:
                while piece := s.recv(65536):
                    told += piece
            except (TimeoutError, ConnectionError):
                pass
            return told

    def create(self, template="base", key=True, **more):
        answer = self.request("POST", "/sandboxes", {"templateID": template, **more}, key=key)
        assert answer.status == 201, answer
        return Box(self, answer.json)

    def keys(self, *words):
        command = [program(), "keys", *words, "--state", str(self.state)]
        if self.uid != os.geteuid():
            command = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", "--", *command]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def add_key(self, name):
        """A key of an agent's: not an operator's. The running daemon takes it within a moment."""
        key = json.loads(self.keys("add", name, "--json"))["key"]
        wait_for(lambda: self.request("GET", "/v2/sandboxes", key=key).status == 200, what="the key is known")
        return key

    def live(self):
        return [s["sandboxID"] for s in self.request("GET", "/v2/sandboxes").json]

    def metric(self, name):
        text = self.request("GET", "/metrics").body.decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.M)
        assert found, f"{name} is not among the metrics"
        return sum(map(float, found))


class Remote(Daemon):
    """One that another program has started, by its port and a key."""

    def __init__(self, port, key):
        self.port, self.key, self.process = port, key, None

    def close(self):
        pass


def parent(pid):
    """Of a process; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def frames(data):
    """[(flags, message)] of a Connect stream."""
    found, at = [], 0
    while at < len(data):
        flags, size = struct.unpack_from(">BI", data, at)
        found.append((flags, json.loads(data[at + 5:at + 5 + size])))
        at += 5 + size
    return found


class Result:
    def __init__(self, told):
        self.events = [message for flags, message in told if not flags & 2]
        self.error = next((message.get("error") for flags, message in told if flags & 2), "no end")
        out, err = [], []
        self.pid = self.status = None
        for event in (e["event"] for e in self.events if "event" in e):
            self.pid = event.get("start", {}).get("pid", self.pid)
            out.append(base64.b64decode(event.get("data", {}).get("stdout", "")))
            err.append(base64.b64decode(event.get("data", {}).get("stderr", "")))
            if "end" in event:
                self.status = event["end"].get("exitCode", 0)
        self.out, self.err = b"".join(out), b"".join(err)

    def __repr__(self):
        return f"<{self.status} {self.error} {self.out[:200]!r} {self.err[:200]!r}>"


class Box:
    """One sandbox, with its own token."""

    def __init__(self, daemon, told):
        self.daemon, self.told, self.id = daemon, told, told["sandboxID"]
        self.token = told["envdAccessToken"]

    def headers(self, port=49983, **more):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), "X-Access-Token": self.token, **more}

    def request(self, method, path, body=None, port=49983, headers=None, timeout=60):
        return self.daemon.request(method, path, body, self.headers(port, **(headers or {})), key=None, timeout=timeout)

    def call(self, method, body, service="filesystem.Filesystem"):
        return self.request("POST", f"/{service}/{method}", body)

    def start_body(self, argv, **more):
        stdin = more.pop("stdin", False)
        process = {"cmd": argv[0], "args": list(argv[1:]), **more}
        text = json.dumps({"process": process, "stdin": stdin}).encode()
        return struct.pack(">BI", 0, len(text)) + text

    def begin(self, *argv, timeout_ms=None, timeout=60, **more):
        """A process whose answer is read by the caller: (connection, response)."""
        headers = self.headers(**{"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
        if timeout_ms:
            headers["Connect-Timeout-Ms"] = str(timeout_ms)
        connection = self.daemon.connection(timeout)
        connection.request("POST", "/process.Process/Start", self.start_body(argv, **more), headers)
        return connection, connection.getresponse()

    def run(self, *argv, timeout=60, **more):
        connection, response = self.begin(*argv, timeout=timeout, **more)
        try:
            data = response.read()
            assert response.status == 200, (response.status, data)
            return Result(frames(data))
        finally:
            connection.close()

    def sh(self, script, **more):
        return self.run("/bin/sh", "-c", script, **more)

    def execute(self, code, timeout=60, **more):
        """The lines of an execution."""
        answer = self.request("POST", "/execute", {"code": code, **more}, port=49999, timeout=timeout)
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.body.splitlines()]

    def write(self, path, data):
        answer = self.request("POST", f"/files?path={path}", data, headers={"Content-Type": "application/octet-stream"})
        assert answer.status == 200, answer

    def read(self, path):
        answer = self.request("GET", f"/files?path={path}")
        assert answer.status == 200, answer
        return answer.body

    def info(self):
        return self.daemon.request("GET", f"/sandboxes/{self.id}")

    def kill(self):
        return self.daemon.request("DELETE", f"/sandboxes/{self.id}").status
