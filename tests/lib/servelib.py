"""`brig serve` with a test in the place of brig-daemon: it speaks wire.h with the launcher and with wardens."""
import array
import json
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from helpers import IS_ROOT, PUBLIC, all_pids, below, wait_for
from wirelib import Gone, Wire

# Hands its launcher socket to the test and lives as long as the test wants.
RELAY = """#!/usr/bin/python3 -I
import array, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "relay.sock"))
told = repr((sys.argv[1:], sorted(int(n) for n in os.listdir("/proc/self/fd")), open("/proc/self/environ").read())).encode()
s.sendmsg([told], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [3]))])
os.close(3)
word = s.recv(1)
sys.exit(word[0] if word else 0)
"""


class Failed(Exception):
    def __init__(self, message):
        super().__init__(message.text.decode())
        self.told = message.json


class Box:
    """One sandbox, through its warden's socket."""

    def __init__(self, serve, id, fd):
        self.serve, self.id, self.wire = serve, id, Wire(fd)
        self.number = 100
        self.kept = []

    def next(self, *types, seconds=60):
        """The next message of one of these types; others are kept."""
        for message in self.kept:
            if message.type in types:
                self.kept.remove(message)
                return message
        end = time.monotonic() + seconds
        while True:
            message = self.wire.recv(max(0.01, end - time.monotonic()))
            if message.type in types:
                return message
            self.kept.append(message)

    def ask(self, type, obj=None, value=0, fds=()):
        self.number += 1
        number = self.number
        try:
            self.wire.send(type, number, value, obj, fds)
        except BrokenPipeError:
            raise AssertionError(f"the warden is gone: {self.last_words()}") from None
        while True:
            message = self.next("done", "fail", "stats")
            if message.request == number:
                if message.type == "fail":
                    raise Failed(message)
                return message
            if message.type == "fail" and message.request == 0:
                raise Failed(message)

    def last_words(self):
        told = [m for m in self.kept if m.type in ("fail", "ended")]
        try:
            while True:
                told.append(self.wire.recv(1))
        except (Gone, OSError):
            return told

    def ready(self, seconds=60):
        message = self.next("ready", "fail", seconds=seconds)
        if message.type == "fail":
            raise Failed(message)
        self.told = message.json
        return message

    def claim(self, env=None, network=None):
        return self.ask("claim", {"env": env or {}, "network": network})

    def spawn(self, *argv, env=None, cwd="", tty=None, stdin=False, interpreter=None):
        message = self.ask("spawn", {"argv": list(argv), "env": env or {}, "cwd": cwd, "tty": tty, "stdin": stdin,
                                     "interpreter": interpreter})
        for fd in message.fds:
            os.set_blocking(fd, True)
        return message

    def exited(self, pid, seconds=60):
        kept = []
        while True:
            message = self.next("exited", seconds=seconds)
            if message.json["pid"] == pid:
                self.kept = kept + self.kept
                return message.value
            kept.append(message)

    def run(self, *argv, input=None, **kwargs):
        """(exit status as the shell says it, stdout, stderr)"""
        message = self.spawn(*argv, stdin=input is not None, **kwargs)
        fds = message.fds
        if input is not None:
            os.write(fds[0], input)
            os.close(fds.pop(0))
        out = [read_all(fd) for fd in fds]
        status = self.exited(message.value)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return (code, *[o.decode(errors="replace") for o in out])

    def python(self, code, **kwargs):
        return self.run("python3", "-c", code, **kwargs)

    def end(self, reason="test"):
        self.wire.send("end", 1, 0, {"reason": reason})
        return self.next("ended")

    def close(self):
        self.wire.close()


def start_time(pid):
    """Tells a process from another one that got its number later; None when it is gone."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if rest[0] in "ZX" else rest[19]


class Left:
    """What is left of the sandboxes of one daemon. Others may run on this machine: only what is ours counts."""

    def __init__(self):
        self.namespaces, self.processes, self.ids, self.held = set(), set(), set(), []

    def __del__(self):
        for fd in self.held:
            os.close(fd)

    def note(self, box):
        self.ids.add(box.id)
        if hasattr(box, "told"):
            # Held: the number of a namespace that is gone is given to the next that is made, whoever makes it.
            self.held.append(os.open(f"/proc/{box.told['init']}/ns/pid", os.O_RDONLY))
            self.namespaces.add(os.readlink(f"/proc/self/fd/{self.held[-1]}"))
            for pid in [box.told["warden"], *below(box.told["warden"])]:
                self.processes.add((pid, start_time(pid)))

    def look(self):
        found = {f"process {pid}" for pid, since in self.processes if since and start_time(pid) == since}
        for pid in all_pids():
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") in self.namespaces and start_time(pid):
                    found.add(f"process {pid} inside")
            except OSError:
                pass
        for path, _, _ in os.walk("/sys/fs/cgroup"):
            found |= {path for id in self.ids if id in path}
        return found

    def none(self, seconds=60):
        try:
            wait_for(lambda: not self.look(), seconds)
        except AssertionError:
            raise AssertionError(f"left behind: {sorted(self.look())}") from None


def read_some(fd, size=65536, seconds=60):
    """What comes next; what the sandbox does not write is not waited for without end."""
    assert select.select([fd], [], [], max(0, seconds))[0], "nothing came, and no end"
    return os.read(fd, size)


def read_all(fd):
    parts = []
    while not parts or parts[-1]:
        parts.append(read_some(fd))
    os.close(fd)
    return b"".join(parts)


# Not by process id: what a killed run left behind may carry the one that this run has now.
IDS_OF_THIS_RUN = secrets.token_hex(4)[:7]


class Serve:
    """A running `brig serve`."""

    def __init__(self, caller, *options, templates=None, state=None, brig=None, env=None):
        self.caller = caller
        self.folder = Path(tempfile.mkdtemp(prefix="test-brig-serve-"))
        relay = self.folder / "relay"
        relay.write_text(RELAY)
        relay.chmod(0o755)
        self.state = state or self.folder / "state"
        self.state.mkdir(0o700, exist_ok=True)
        for name, text in (templates or {}).items():
            (self.state / "templates").mkdir(exist_ok=True)
            (self.state / "templates" / name).write_text(text if isinstance(text, str) else json.dumps(text))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / "relay.sock"))
        listener.listen()
        listener.settimeout(60)
        for path in [self.folder, *self.folder.rglob("*"), self.state, *self.state.rglob("*")]:
            os.chown(path, caller.uid, caller.uid if caller.uid else -1)
        command = [str(brig or PUBLIC / "brig"), "serve", "--state", str(self.state), "--socket",
                   str(self.folder / "brig.sock"), "--daemon", str(relay), *options]
        self.process = subprocess.Popen(caller.outside(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, cwd="/",
                                        env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **(env or {})})
        self.relay = self.wire = None
        try:
            self.relay, _ = listener.accept()
        except TimeoutError:
            self.process.kill()
            raise AssertionError(self.process.communicate()) from None
        finally:
            listener.close()
        self.relay.settimeout(60)
        told, control, _, _ = self.relay.recvmsg(65536, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        self.front = eval(told)  # its arguments, descriptors and environment, as our own relay wrote them
        self.wire = Wire(array.array("i", control[0][2][:4])[0])
        self.hello = self.wire.recv().json
        self.count = 0
        self.boxes = []

    @property
    def pid(self):
        return self.process.pid

    def say_ready(self):
        self.wire.send("ready")
        return self.process.stdout.readline()

    def until_said(self, words, seconds=60):
        """What it says on stderr, up to and with these words."""
        fd, end, said = self.process.stderr.fileno(), time.monotonic() + seconds, b""
        while words.encode() not in said:
            ready = select.select([fd], [], [], max(0, end - time.monotonic()))[0]
            piece = os.read(fd, 65536) if ready else b""
            assert piece, f"{words!r} was not said: {said!r}"
            said += piece
        return said.decode()

    def new_id(self):
        self.count += 1
        return f"t{IDS_OF_THIS_RUN}{self.count:012d}"

    def launch(self, template="base", id=None, **more):
        id = id or self.new_id()
        self.wire.send("launch", 7, 0, {"id": id, "template": template, "pooled": False, **more})
        while True:
            message = self.wire.recv()
            if message.type == "fail":
                raise Failed(message)
            if message.type == "launched":
                assert message.json["id"] == id and len(message.fds) == 1
                self.boxes.append(Box(self, id, message.fds[0]))
                return self.boxes[-1]

    def box(self, template="base", **claim):
        """Launched, ready and claimed."""
        box = self.launch(template)
        box.ready()
        box.claim(**claim)
        return box

    def gone(self, seconds=60):
        while True:
            message = self.wire.recv(seconds)
            if message.type == "gone":
                return message

    def stop(self):
        """The front ends; so does everything."""
        for box in self.boxes:
            box.close()
        if self.wire:
            self.wire.close()
        if self.relay:
            self.relay.close()
        self.relay = self.wire = None
        try:
            out, err = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired as late:
            runs = below(self.pid)
            self.process.kill()
            raise AssertionError(f"brig serve did not end, or its output is held: {runs} {late.stderr}") from None
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def frame(obj):
    data = json.dumps(obj).encode()
    return struct.pack("<I", len(data)) + data


def read_frame(fd):
    def exactly(n):
        data = b""
        while len(data) < n:
            part = read_some(fd, n - len(data))
            if not part:
                raise Gone
            data += part
        return data

    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))


__all__ = ["Box", "Failed", "Gone", "IS_ROOT", "Left", "Serve", "frame", "read_all", "read_frame", "read_some", "signal", "start_time"]
