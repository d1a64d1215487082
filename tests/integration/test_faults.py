"""brig-daemon dies at every named point of create, exec, claim and teardown (src/daemon/base/fault.h): everything of it
goes with it, the next start finds what is left and works, and the records go on with one of the crash (L-02). The one that
dies is one of tests/weak; no release has such points."""
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from helpers import PUBLIC, TOP, all_pids, wait_for
from verifylib import weak_programs

BRIG = PUBLIC / "brig"
POINTS = re.findall(r'^    X\(\w+, "([a-z.]+)"\)', (TOP / "src/daemon/base/fault.h").read_text(), re.MULTILINE)


class Api:
    def __init__(self, path, key):
        self.key = key
        self.wire = http.client.HTTPConnection("localhost", timeout=120)
        self.wire.sock = socket.socket(socket.AF_UNIX)
        self.wire.sock.settimeout(120)
        self.wire.sock.connect(str(path))

    def call(self, method, path, body=None, box=None, port=49983, kind="application/json"):
        headers = {"X-API-KEY": self.key, "Content-Type": kind}
        if box:
            headers |= {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": str(port)}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        self.wire.request(method, path, data, headers)
        answer = self.wire.getresponse()
        return answer.status, answer.read()


def walk(api):
    """Every step that has a point in it."""
    status, text = api.call("POST", "/sandboxes", {"templateID": "python", "timeout": 3600})
    assert status == 201, text
    box = json.loads(text)
    assert b'"1\\n"' in api.call("POST", "/execute", {"code": "print(1)"}, box, 49999)[1]
    start = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "echo hi"]}, "stdin": False}).encode()
    frame = b"\0" + struct.pack(">I", len(start)) + start
    assert b'"exited":true' in api.call("POST", "/process.Process/Start", frame, box, kind="application/connect+json")[1]
    assert api.call("POST", "/files?path=/tmp/x", b"x", box, kind="application/octet-stream")[0] == 200
    assert api.call("POST", f"/sandboxes/{box['sandboxID']}/pause", {})[0] == 204
    assert api.call("DELETE", f"/sandboxes/{box['sandboxID']}")[0] == 204


class Daemon:
    def __init__(self, folder, fault=None, env=None):
        env = env or {"PATH": os.environ["PATH"], "HOME": str(folder)} | ({"BRIG_FAULT": fault} if fault else {})
        self.folder = folder
        program = weak_programs() / "brig" if fault else BRIG
        self.process = subprocess.Popen(
            [program, "serve", "--state", folder / "state", "--socket", folder / "sock", "--key-file", folder / "key",
             "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd="/")
        self.first = self.process.stdout.readline()

    def api(self):
        return Api(self.folder / "sock", (self.folder / "key").read_text().strip())

    def end(self, ask=True):
        """(status, all that it said). Without `ask` it ends by itself."""
        if ask:
            self.process.terminate()
        try:
            text, _ = self.process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, self.first + text


def records(folder):
    out = subprocess.run([BRIG, "audit", "export", "--state", folder / "state"], capture_output=True, text=True,
                         check=True).stdout
    return [r["record"] for r in map(json.loads, out.splitlines()) if "record" in r]


def left_of(folder, ids):
    """Processes and control groups: of this daemon alone, others may run on the machine."""
    found = set()
    for pid in all_pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        if str(folder) in line or any(i in groups for i in ids):
            found.add(f"{pid} {line}")
    for path, _, _ in os.walk("/sys/fs/cgroup"):
        found |= {path for i in ids if i in path}
    return found


@contextlib.contextmanager
def new_folder():
    path = Path(tempfile.mkdtemp(prefix="test-brig-fault-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def folder():
    with new_folder() as path:
        yield path


def ids_of(folder):
    return {r["box"] for r in records(folder) if r["kind"] == "box.provisioning"}


def test_without_a_fault_all_of_it_works(folder):
    daemon = Daemon(folder)
    walk(daemon.api())
    status, text = daemon.end()
    assert status == 0, text
    ids = ids_of(folder)
    wait_for(lambda: not left_of(folder, ids), 300, "nothing is left")
    kinds = [r["kind"] for r in records(folder)]
    assert kinds[-1] == "daemon.stopped" and "daemon.crashed" not in kinds


def test_there_are_points():
    listed = subprocess.run([weak_programs() / "brig-daemon", "--faults"], capture_output=True, text=True, check=True).stdout
    assert len(POINTS) >= 20 and listed.split() == POINTS


def test_no_release_dies_at_them(folder):
    """Whoever can set a variable for the operator's daemon would end the sandboxes of all tenants."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "BRIG_FAULT": "box.launch.before"}
    daemon = Daemon(folder, env=env)
    walk(daemon.api())
    status, text = daemon.end()
    assert status == 0, text


@pytest.mark.meanwhile
@pytest.mark.parametrize("point", POINTS)
def test_everything_goes_with_it_and_the_next_one_works(point):
    with new_folder() as folder:
        die_at(folder, point)


def die_at(folder, point):
    daemon = Daemon(folder, point)
    try:
        walk(daemon.api())
    except (OSError, http.client.HTTPException, AssertionError):
        pass
    # What comes after the last answer, as the pool's refilling, is reached a moment later.
    status, text = daemon.end(ask=point.startswith("daemon."))
    assert point in text.split(), f"the point was not reached: {text}"
    assert status == 1, text
    # A box of which no record was written yet has left a row.
    after = Daemon(folder)
    walk(after.api())
    status, text = after.end()
    assert status == 0, text
    told = records(folder)
    ids = {r["box"] for r in told if r["kind"] == "box.provisioning"}
    ids |= {r["detail"]["id"] for r in told if r["kind"] == "box.leftover"}
    wait_for(lambda: not left_of(folder, ids), 300, "nothing is left")
    kinds = [r["kind"] for r in told]
    assert kinds.count("daemon.crashed") == 1 and kinds[-1] == "daemon.stopped"
    good = subprocess.run([BRIG, "audit", "verify", "--state", folder / "state"], capture_output=True, text=True,
                          check=False)
    assert good.returncode == 0, good.stdout + good.stderr
