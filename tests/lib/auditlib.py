"""A front of one's own for the recorder: speaks src/wire/wire.h to `brig-daemon recorder` over a socket pair."""
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
from pathlib import Path

from helpers import ANY, PUBLIC, TOP

DAEMON = os.environ.get("DAEMON", str(PUBLIC / "brig-daemon"))
HEAD = struct.Struct("=IIqII")
MAX = 160 * 1024 + HEAD.size


def _types():
    """The numbers of the messages, from the header that defines them."""
    text = (TOP / "src" / "wire" / "wire.h").read_text()
    names = re.findall(r"^    X\((\w+),", text, re.M)
    return {name: number for number, name in enumerate(names, 1)}


TYPE = _types()
NAME = {number: name for name, number in TYPE.items()}


class Gone(Exception):
    """The recorder ended."""


class Recorder:
    def __init__(self, state, caller=ANY, prefix=(), wait=True):
        self.state = Path(state)
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        folder = os.open(self.state, os.O_RDONLY | os.O_DIRECTORY)

        def place():
            # First out of the way of each other.
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs.fileno(), folder)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.closerange(5, 200)

        self.process = subprocess.Popen([*prefix, *caller.outside(DAEMON, "recorder")], preexec_fn=place, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        theirs.close()
        os.close(folder)
        self.request = 0
        self.restored = {}
        self.late = []
        if wait:
            self.await_ready()

    # ---- messages ----

    def send(self, kind, body=None, request=0):
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self.ours.send(HEAD.pack(TYPE[kind], request, 0, len(text), 0) + text)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None

    def receive(self, seconds=60):
        self.ours.settimeout(seconds)
        try:
            packet = self.ours.recv(MAX)
        except ConnectionResetError:
            packet = b""
        if not packet:
            raise Gone
        kind, request, _, length, _ = HEAD.unpack(packet[:HEAD.size])
        text = packet[HEAD.size:]
        assert len(text) == length
        return NAME[kind], request, json.loads(text) if text else None

    def await_ready(self):
        while True:
            kind, _, body = self.receive()
            if kind == "RESTORE":
                self.restored[body["table"], body["key"]] = body["value"]
                continue
            if kind == "FAIL":
                raise RuntimeError(body["message"])
            assert kind == "DONE"
            return

    def ask(self, kind, body=None, seconds=60):
        """The answer to a question: (DONE or FAIL, what it says)."""
        self.request += 1
        self.send(kind, body, self.request)
        while True:
            answer, request, said = self.receive(seconds)
            if request == self.request:
                return answer, said
            self.late.append((answer, said))

    def sync(self):
        kind, said = self.ask("SYNC")
        assert kind == "DONE", said

    def record(self, kind, boundary="lifecycle", box=None, key=None, detail=None):
        body = {"boundary": boundary, "kind": kind}
        body.update({name: value for name, value in (("box", box), ("key", key), ("detail", detail)) if value})
        self.send("RECORD", body)

    def query(self, **question):
        kind, said = self.ask("QUERY", question)
        assert kind == "DONE", said
        return said

    def records(self, **filters):
        """All of them, page by page."""
        found, after = [], 0
        while after is not None:
            page = self.query(what="audit", after=after, **filters)
            found += page["records"]
            after = page["next"]
        return found

    # ---- end ----

    def stop(self):
        """As a front that ends in good order."""
        self.record("daemon.stopping", "api")
        return self.drop()

    def drop(self):
        """The front is gone without a word."""
        self.ours.close()
        return self.wait()

    def wait(self):
        status = self.process.wait(60)
        self.stderr = self.process.stderr.read().decode()
        self.process.stderr.close()
        return status

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.ours.close()
        return self.wait()


def brig(*args, caller=ANY, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs.setdefault("timeout", 120)
    kwargs.setdefault("cwd", "/")
    return subprocess.run(caller.outside(str(PUBLIC / "brig"), *map(str, args)), capture_output=True, text=True, **kwargs)
