"""Speaks with an interpreter's driver as the front does: pipes as its descriptors 1 to 4.

Every frame is held against what the front accepts (wire/interp_parse.c). Uses the standard library only: the same file
runs inside a sandbox.
"""
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
DRIVERS = Path(os.environ.get("DRIVERS", HERE.parents[2] / "src" / "interpreters"))
COMMANDS = {
    "python": ["/usr/bin/python3", str(DRIVERS / "python.py")],
    "node": ["node", str(DRIVERS / "node.cjs")],
    "bash": ["bash", str(DRIVERS / "bash.sh")],
    "typescript": ["node", str(DRIVERS / "node.cjs"), "typescript"],
    "r": ["Rscript", "--vanilla", str(DRIVERS / "cells.R")],
    "java": ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.io=ALL-UNNAMED",
             str(DRIVERS / "Cells.java")],
}
FRAME_MAX = 16 << 20
MEMBERS = {"text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript", "data", "chart", "extra"}
PATIENCE = float(os.environ.get("PATIENCE", 300))


class Ended(Exception):
    """The driver's side of the channel is closed."""


def _object(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"two members of one name: {names}"
    return dict(pairs)


def _refuse(word):
    raise AssertionError(f"{word} is no JSON")


def _check(value):
    if isinstance(value, str):
        assert "\0" not in value
        value.encode()  # fails on halves of characters
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int):
        assert -2 ** 63 <= value < 2 ** 63
    elif isinstance(value, dict):
        for name, item in value.items():
            _check(name)
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)


def read_frame(text):
    frame = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    _check(frame)
    if frame["type"] == "result":
        assert set(frame) == {"type", "id", "main", "data"} and set(frame["data"]) <= MEMBERS
    if frame["type"] == "error":
        assert set(frame) == {"type", "id", "name", "value", "traceback"}
        assert len(frame["name"].encode()) <= 256 and len(frame["value"].encode()) <= 64 << 10
        assert len(frame["traceback"].encode()) <= 1 << 20
    return frame


class Execution:
    def __init__(self, frames, out, err):
        assert frames[0]["type"] == "count" and frames[-1]["type"] == "end"
        self.frames, self.out, self.err = frames, out, err
        self.count = frames[0]["value"]
        self.results = [f for f in frames if f["type"] == "result"]
        errors = [f for f in frames if f["type"] == "error"]
        assert len(errors) <= 1
        self.error = errors[0] if errors else None
        mains = [f["data"] for f in self.results if f["main"]]
        assert len(mains) <= 1
        self.data = mains[0] if mains else None
        self.text = self.data and self.data.get("text")
        self.shown = [f["data"] for f in self.results if not f["main"]]


class Driver:
    def __init__(self, language, command=None, **options):
        requests_end, requests = os.pipe()
        answers, answers_end = os.pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self.language, self.requests, self.answers, self.out, self.err = language, requests, answers, out, err

        def place():
            ends = [os.dup(requests_end), os.dup(answers_end)]  # out of the way of each other
            for fd, end in zip((3, 4), ends):
                os.dup2(end, fd)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background of a shell has it ignored

        self.process = subprocess.Popen(command or COMMANDS[language], stdin=subprocess.DEVNULL, stdout=out_end,
                                        stderr=err_end, preexec_fn=place, pass_fds=(3, 4), start_new_session=True,
                                        **options)
        for fd in (requests_end, answers_end, out_end, err_end):
            os.close(fd)
        self.bytes, self.id, self.output = b"", 0, {out: b"", err: b""}
        self.ready = self.frame()
        assert self.ready["type"] == "ready"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.end_requests()
        for fd in (self.answers, self.out, self.err):
            os.close(fd)

    def end_requests(self):
        if self.requests >= 0:
            os.close(self.requests)
        self.requests = -1

    def _receive(self, end):
        ready = select.select([self.answers, *self.output], [], [], max(0, end - time.monotonic()))[0]
        assert ready, f"nothing is said any more; so far {self.output}"
        for fd in ready:
            if fd == self.answers:
                data = os.read(fd, 1 << 20)
                if not data:
                    raise Ended
                self.bytes += data
            else:
                self._drain(fd)

    def _drain(self, fd):
        while fd in self.output and select.select([fd], [], [], 0)[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                return
            self.output[fd] += data

    def raw_frame(self, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            if len(self.bytes) >= 4:
                length, = struct.unpack("<I", self.bytes[:4])
                assert 0 < length <= FRAME_MAX, f"a frame of {length} bytes"
                if len(self.bytes) >= 4 + length:
                    text, self.bytes = self.bytes[4:4 + length], self.bytes[4 + length:]
                    return text
            self._receive(end)

    def frame(self):
        return read_frame(self.raw_frame())

    def send(self, request, ascii_only=False):
        body = json.dumps(request, ensure_ascii=ascii_only, separators=(",", ":")).encode()
        data = struct.pack("<I", len(body)) + body
        while data:
            data = data[os.write(self.requests, data):]

    def start(self, code, env=None, ascii_only=False):
        self.id += 1
        self.send({"op": "execute", "id": self.id, "code": code, "env": env or {}}, ascii_only)

    def _until_end(self, while_silent=None):
        """The frames of the cell that runs; `while_silent` is called after every second in which nothing was said."""
        frames, end = [], time.monotonic() + PATIENCE
        while not frames or frames[-1]["type"] != "end":
            if while_silent and not self._holds_frame() and not select.select([self.answers], [], [], 1)[0]:
                assert time.monotonic() < end, f"it goes on and on; so far {frames} {self.output}"
                while_silent()
                continue
            frames.append(self.frame())
            assert frames[-1]["id"] == self.id
        return frames

    def _holds_frame(self):
        return len(self.bytes) >= 4 and len(self.bytes) >= 4 + struct.unpack("<I", self.bytes[:4])[0]

    def finish(self, while_silent=None):
        frames = self._until_end(while_silent)
        texts = []
        for fd in (self.out, self.err):
            self._drain(fd)
            texts.append(self.output[fd].decode(errors="replace"))
            self.output[fd] = b""
        return Execution(frames, *texts)

    def run(self, code, env=None, ascii_only=False):
        self.start(code, env, ascii_only)
        return self.finish()

    def wait_output(self, word):
        """Until the code has printed this."""
        end = time.monotonic() + PATIENCE
        while word.encode() not in self.output[self.out]:
            self._receive(end)

    def interrupt(self, group=True):
        (os.killpg if group else os.kill)(self.process.pid, signal.SIGINT)

    def wait_asleep(self):
        """Until it waits in the kernel: a signal that comes between the last look for signals and the call that waits has no
        effect before that call returns."""
        end = time.monotonic() + PATIENCE
        while (state := Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]) != "S":
            assert time.monotonic() < end, f"it does not sleep: {state}"
            time.sleep(0.01)

    def interrupted(self, code, group=True, again=False, asleep=False):
        """The end of a cell that prints "go" and is interrupted then, or when it sleeps; again and again, until it notices."""
        self.start(code)
        self.wait_output("go")
        if asleep:
            self.wait_asleep()
        sent = 1
        self.interrupt(group)

        def repeat():
            nonlocal sent
            sent += 1
            self.interrupt(group)

        done = self.finish(repeat if again else None)
        # What was sent twice may arrive after the end of the cell that it was meant for.
        while sent > 1 and self.run(":" if self.language == "bash" else "1").error:
            pass
        return done

    def ends(self):
        """Waits until the driver has closed the channel; its exit status."""
        try:
            while True:
                self.raw_frame()
        except Ended:
            return self.process.wait(PATIENCE)


SMOKE = {
    "python": ("import subprocess, threading, asyncio\nx = 20\nprint('out')\nawait asyncio.sleep(0)\nx + 1", "21",
               "import time\nprint('go')\ntime.sleep(1000)"),
    "node": ("const x = 20; console.log('out'); await null; x + 1", "21", "console.log('go'); for (;;) ;"),
    "bash": ("x=20; echo out", None, "echo go; sleep 1000"),
}


def smoke(language):
    """That a driver works at all, wherever this runs."""
    code, text, busy = SMOKE[language]
    with Driver(language) as driver:
        done = driver.run(code)
        assert done.error is None, done.error
        assert done.out == "out\n" and done.text == text
        assert driver.interrupted(busy, again=True).error
        kept = driver.run("echo $x" if language == "bash" else "x")
        assert (kept.out.strip() if language == "bash" else kept.text) == "20"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        smoke(name)
        print(name, "works")
