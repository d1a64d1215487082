"""Reviews over the API: a sandbox of the daemon's works on a view of a project that the operator offers."""
import http.client
import json
import os
import socket
import struct
import subprocess

import pytest
from helpers import IS_ROOT, PUBLIC, Caller, wait_for
from reviewlib import Lab, tree

CALLERS = [Caller("root"), Caller("user")] if IS_ROOT else [Caller("user")]


class Daemon:
    def __init__(self, lab, *options):
        self.lab = lab
        (lab.top / "serve").mkdir()
        (lab.top / "other").mkdir()
        lab.own()
        command = lab.caller.outside(
            str(PUBLIC / "brig"), "serve", "--state", str(lab.top / "serve"), "--socket", str(lab.top / "sock"), "--listen",
            "127.0.0.1:0", *options)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/",
                                        env=lab.env)
        assert "ready" in self.process.stdout.readline()
        self.key = (lab.top / "serve" / "key").read_text().strip()

    def close(self):
        self.process.terminate()
        self.process.communicate(timeout=60)

    def call(self, method, path, body=None, box=None, kind="application/json"):
        wire = http.client.HTTPConnection("localhost", timeout=120)
        wire.sock = socket.socket(socket.AF_UNIX)
        wire.sock.connect(str(self.lab.top / "sock"))
        headers = {"X-API-KEY": self.key, "Content-Type": kind}
        if box:
            headers |= {"E2b-Sandbox-Id": box, "E2b-Sandbox-Port": "49983"}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        wire.request(method, path, data, headers)
        answer = wire.getresponse()
        text = answer.read()
        wire.close()
        return answer.status, json.loads(text) if answer.getheader("Content-Type", "") == "application/json" else text.decode(errors="replace")

    def create(self, **more):
        status, box = self.call("POST", "/sandboxes", {"templateID": "base", "timeout": 3600} | more)
        assert status == 201, box
        return box["sandboxID"]

    def sh(self, box, script):
        start = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", script]}, "stdin": False}).encode()
        _, text = self.call("POST", "/process.Process/Start", b"\0" + struct.pack(">I", len(start)) + start, box,
                            "application/connect+json")
        assert '"exited":true' in text and '"exitCode"' not in text, text
        return text


@pytest.fixture(params=CALLERS, ids=lambda c: c.name)
def daemon(request):
    lab = Lab(request.param, "container")
    lab.write("text", "one\ntwo\n")
    lab.write("gone", "gone")
    daemon = Daemon(lab, "--project", str(lab.project))
    yield daemon
    daemon.close()
    lab.close()


def test_a_sandbox_works_on_a_view_of_the_project(daemon):
    project = daemon.lab.project
    before = tree(project)
    box = daemon.create(project="project")
    path = f"/sandboxes/{box}/review"
    assert daemon.call("GET", path)[1]["changes"] == []
    daemon.sh(box, "pwd; echo three >> text; rm gone; mkdir new; echo x > new/x; echo evil > Makefile")
    assert tree(project) == before
    status, told = daemon.call("GET", path)
    changes = {c["path"]: c for c in told["changes"]}
    assert status == 200 and set(changes) == {"text", "gone", "new", "new/x", "Makefile"} and told["running"]
    assert changes["Makefile"]["trust"] and "+three" in changes["text"]["diff"]
    assert "diff" not in daemon.call("GET", path + "?format=stat")[1]["changes"][0]
    assert "+three\n" in daemon.call("GET", path + "?format=text")[1]
    assert daemon.call("GET", path + "?format=other")[0] == 400
    # Without the digest of what was looked at, while it runs, nothing; nor without trust, nor with another digest.
    assert daemon.call("POST", path + "/apply", {"files": ["text"]})[0] >= 400
    assert daemon.call("POST", path + "/apply", {"digest": told["digest"]})[0] >= 400
    assert daemon.call("POST", path + "/apply", {"digest": "0" * 64, "files": ["text"]})[0] >= 400
    assert tree(project) == before
    status, done = daemon.call("POST", path + "/apply", {"digest": told["digest"], "files": ["text", "new"]})
    assert status == 200 and done["applied"] == ["new", "new/x", "text"], done
    assert (project / "text").read_text() == "one\ntwo\nthree\n" and (project / "gone").exists()
    # It goes on: what was applied is no change any more, and can be changed again.
    daemon.sh(box, "echo four >> text")
    status, told = daemon.call("GET", path)
    changes = {c["path"]: c for c in told["changes"]}
    assert set(changes) == {"text", "gone", "Makefile"} and not any(c["conflict"] for c in changes.values()), told
    assert daemon.call("POST", f"/sandboxes/{box}/pause", {})[0] == 204
    status, done = daemon.call("POST", path + "/apply", {"trust": ["Makefile"]})
    assert status == 200, done
    assert (project / "text").read_text() == "one\ntwo\nthree\nfour\n" and (project / "Makefile").read_text() == "evil\n"
    assert daemon.call("DELETE", f"/sandboxes/{box}")[0] == 204


def test_discard_ends_the_sandbox(daemon):
    before = tree(daemon.lab.project)
    box = daemon.create(project=str(daemon.lab.project))
    daemon.sh(box, "echo x > x")
    assert daemon.call("POST", f"/sandboxes/{box}/review/discard")[0] == 200
    assert tree(daemon.lab.project) == before
    # What ends with changes leaves them to be looked at from the shell.
    box = daemon.create(project="project")
    daemon.sh(box, "echo y > y")
    assert daemon.call("DELETE", f"/sandboxes/{box}")[0] == 204
    assert daemon.lab.reviews() == [f"brig-{box}"]
    assert daemon.lab.apply(f"brig-{box}").returncode == 0
    assert (daemon.lab.project / "y").read_text() == "y\n"


def test_only_what_the_operator_named(daemon):
    for other in (str(daemon.lab.top / "other"), "..", "", "/", "projec", str(daemon.lab.project) + "/"):
        status, told = daemon.call("POST", "/sandboxes", {"templateID": "base", "project": other})
        assert status == 404, (other, told)
    box = daemon.create()
    assert daemon.call("GET", f"/sandboxes/{box}/review")[0] == 403
    assert daemon.call("POST", f"/sandboxes/{box}/review/apply", {})[0] == 403
    assert not os.path.exists(daemon.lab.project / "x")
