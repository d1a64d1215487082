"""MCP as bytes: over HTTP to a daemon of daemonlib, and over stdin and stdout of `brig mcp`."""
import itertools
import json
import os
import queue
import subprocess
import threading
from pathlib import Path

import daemonlib
from daemonlib import IS_ROOT, USER_ID

MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"
# Ends in order may take the time that brig gives to what was asked before: ten seconds and more.
WAIT = 300
_marks = itertools.count(1)


def meta(version=MODERN, **more):
    return {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}, **more}


def request(method, params=None, id=1):
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def initialize(version="2025-11-25"):
    return request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})


def tool(name, arguments=None, id=1, **params):
    return request("tools/call", {"name": name, "arguments": arguments or {}, **params}, id)


def events(body):
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


class Http:
    def __init__(self, daemon, key=True):
        self.daemon, self.key = daemon, key

    def post(self, message, key=None, **headers):
        body = message if isinstance(message, (bytes, str)) else json.dumps(message)
        sent = {"Content-Type": "application/json", "Accept": ACCEPT,
                **{name.replace("_", "-"): value for name, value in headers.items() if value is not None}}
        sent = {name: value for name, value in sent.items() if value != ""}
        return self.daemon.request("POST", "/mcp", body, sent, key=self.key if key is None else key)

    def modern(self, method, params=None, id=1, **headers):
        params = {"_meta": meta(), **(params or {})}
        name = params.get("name", params.get("uri"))
        sent = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **({"Mcp_Name": name} if name else {}), **headers}
        return self.post(request(method, params, id), **sent)

    def call(self, name, key=None, **arguments):
        """structuredContent, and whether it is an error."""
        answer = self.post(tool(name, arguments), key=key)
        assert answer.status == 200, answer
        # One that takes longer than a few seconds is answered as a stream, whose last event is the answer.
        streamed = answer.headers["Content-Type"].startswith("text/event-stream")
        result = (events(answer.body)[-1] if streamed else answer.json)["result"]
        return result["structuredContent"], result["isError"]

    def session(self, key=None, **arguments):
        told, failed = self.call("create_session", key=key, **arguments)
        assert not failed, told
        return told["session_id"]


def new_mark():
    """A time to sleep that nobody else on this machine sleeps."""
    return f"{70000 + next(_marks)}.{os.getpid()}"


def processes(mark):
    """Pids of `sleep` whose command line has this word, as the host sees them. (To read another one's command line is to wait
    for its memory, and somebody else's process may keep that locked for minutes.)"""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/comm").read_text(errors="replace") == "sleep\n" and \
                    mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            pass
    return found


def below(pid):
    """Pids of everything below a process."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            rest = Path(f"/proc/{name}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if rest[0] != "Z":
            parents[int(name)] = int(rest[1])
    found, size = {pid}, 0
    while len(found) != size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Stdio:
    """A running `brig mcp`."""

    def __init__(self, user, folder, *options):
        self.runtime = Path(folder)
        self.runtime.mkdir(exist_ok=True)
        self.runtime.chmod(0o700)
        state = self.runtime / "state"
        state.mkdir(0o700, exist_ok=True)
        command = [daemonlib.program(), "mcp", *options]
        if IS_ROOT and user == "user":
            os.chown(self.runtime, USER_ID, USER_ID)
            os.chown(state, USER_ID, USER_ID)
            command = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                                        env={"PATH": os.environ["PATH"], "HOME": str(self.runtime),
                                             "XDG_RUNTIME_DIR": str(self.runtime), "XDG_STATE_HOME": str(state)})
        self.lines, self.said = queue.Queue(), []
        self.readers = [threading.Thread(target=self.read, daemon=True), threading.Thread(target=self.listen, daemon=True)]
        for reader in self.readers:
            reader.start()

    def launcher(self):
        """The pid of its own `brig serve`, or None."""
        for pid in below(self.process.pid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.process.pid and words[1:2] == [b"serve"]:
                return pid
        return None

    def own_folder(self):
        pid = daemonlib.wait_for(self.launcher, what="its daemon is there")
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return Path(words[words.index(b"--state") + 1].decode())

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def listen(self):
        for line in self.process.stderr:
            self.said.append(line.decode(errors="replace"))

    def send(self, *messages):
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def next(self, seconds=WAIT):
        """The next message; None at the end."""
        line = self.lines.get(timeout=seconds)
        return line and json.loads(line)

    def ask(self, message, seconds=WAIT):
        """Its answer; what comes before it is dropped."""
        self.send(message)
        while (told := self.next(seconds)) is not None:
            if told.get("id") == message["id"] and "method" not in told:
                return told
        raise AssertionError("brig mcp ended")

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            self.process.wait(WAIT)
        for reader in self.readers:
            reader.join(WAIT)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
