"""A client of MCP over stdio in a few lines, so that the tests can also say what no proper client would."""
import json
import os
import queue
import subprocess
import threading
from pathlib import Path

from helpers import PUBLIC

HERE = Path(__file__).resolve().parent
WAIT = 300  # a server that does not want to end has five seconds by itself


class Session:
    """A process that speaks one JSON message per line."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, cwd="/", env=env)
        self.lines = queue.Queue()
        self.stderr = ""
        self.last = 0
        self.others = []  # what came that answers nothing of ours
        self.readers = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._listen, daemon=True)]
        for reader in self.readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(WAIT)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _listen(self):
        for line in self.process.stderr:
            self.stderr += line.decode(errors="replace")

    def write(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message))

    def receive(self):
        """The next message; every line must be one. None at the end."""
        line = self.lines.get(timeout=WAIT)
        return None if line is None else json.loads(line)

    def request(self, method, params=None, id=None):
        self.last += 1
        id = self.last if id is None else id
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})})
        return id

    def answer_to(self, id):
        while True:
            message = self.receive()
            assert message is not None, self.stderr
            if message.get("id") == id and "method" not in message:
                return message
            self.others.append(message)

    def ask(self, method, params=None):
        return self.answer_to(self.request(method, params))

    def call(self, name, arguments=None):
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}})["result"]

    def initialize(self):
        told = self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}, "sampling": {}},
                                       "clientInfo": {"name": "c", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return told["result"]

    def names(self):
        return [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]

    def end(self):
        """Closes our side; the exit status."""
        self.process.stdin.close()
        status = self.process.wait(WAIT)
        for reader in self.readers:
            reader.join(WAIT)
        return status

    def saw(self):
        """What the server saw, as it says itself."""
        return [json.loads(line[4:]) for line in self.stderr.splitlines() if line.startswith("saw ")]


def publish():
    """The server where every user can read it."""
    folder = PUBLIC / "wrap"
    folder.mkdir(exist_ok=True)
    (folder / "server.py").write_text((HERE / "wrap" / "server.py").read_text())
    return folder


def plain(caller, mode, **env):
    """The server without brig: for controls."""
    return Session(caller.outside("/usr/bin/python3", publish() / "server.py", mode), env={**os.environ, **env})


def wrapped(caller, mode, *options, server=None, env=None):
    folder = publish()
    command = server or ["python3", "/server/server.py", mode]
    return Session(caller.outside(str(PUBLIC / "brig"), "mcp", "--wrap", *caller.options, "--ro", f"{folder}:/server", *options, "--",
                                  *command), env=env)
