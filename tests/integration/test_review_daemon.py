"""Reviews over the API: a sandbox of the daemon's works on a view of a project that the operator offers."""
import base64
import hashlib
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
        self.wires = []

    def close(self):
        for wire in self.wires:
            wire.close()
        self.process.terminate()
        self.process.communicate(timeout=60)

    def add_key(self, name, *options):
        """A key of somebody who is not the operator."""
        done = self.lab.brig("keys", "add", name, "--state", self.lab.top / "serve", *options)
        assert done.returncode == 0 and "now" in done.stderr, done
        key = done.stdout.strip()
        wait_for(lambda: self.call("GET", "/v2/sandboxes", key=key)[0] == 200, what="the key is known")
        return key

    def call(self, method, path, body=None, box=None, kind="application/json", key=None):
        wire = http.client.HTTPConnection("localhost", timeout=120)
        wire.sock = socket.socket(socket.AF_UNIX)
        wire.sock.connect(str(self.lab.top / "sock"))
        headers = {"X-API-KEY": key or self.key, "Content-Type": kind}
        if box:
            headers |= {"E2b-Sandbox-Id": box, "E2b-Sandbox-Port": "49983"}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        wire.request(method, path, data, headers)
        answer = wire.getresponse()
        text = answer.read()
        wire.close()
        return answer.status, json.loads(text) if answer.getheader("Content-Type", "") == "application/json" else text.decode(errors="replace")

    def operator_id(self):
        return "k_" + hashlib.sha256(self.key.encode()).hexdigest()[:10]

    def begin(self, box, argv, until):
        """Starts a process that goes on, and waits until it says the word; gives a function that waits for the next one."""
        start = json.dumps({"process": {"cmd": argv[0], "args": argv[1:], "cwd": str(self.lab.project)}, "stdin": False}).encode()
        wire = socket.socket(socket.AF_UNIX)
        wire.settimeout(120)
        wire.connect(str(self.lab.top / "sock"))
        head = (f"POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {self.key}\r\n"
                f"Content-Type: application/connect+json\r\nE2b-Sandbox-Id: {box}\r\nE2b-Sandbox-Port: 49983\r\n"
                f"Content-Length: {len(start) + 5}\r\n\r\n")
        wire.sendall(head.encode() + b"\0" + struct.pack(">I", len(start)) + start)
        self.wires.append(wire)
        seen = b""

        def wait(word):
            nonlocal seen
            while base64.b64encode(f"{word}\n".encode()).rstrip(b"=")[:-1] not in seen:
                chunk = wire.recv(65536)
                assert chunk, seen
                seen += chunk

        wait(until)
        return wait

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


# ---- whose it is ----

def test_a_tenant_does_not_apply_its_own_changes(daemon):
    """Files of the host are changed by the operator alone, and `trust` is the operator's word."""
    project = daemon.lab.project
    tenant = daemon.add_key("tenant", "--project", project)
    before = tree(project)
    status, told = daemon.call("POST", "/sandboxes", {"templateID": "base", "project": "project"}, key=tenant)
    assert status == 201, told
    box = told["sandboxID"]
    path = f"/sandboxes/{box}/review"
    daemon.sh(box, "echo evil > Makefile; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo three >> text")
    status, told = daemon.call("GET", path, key=tenant)
    assert status == 200 and "+three" in str(told)
    files = {"files": ["Makefile", "text"], "trust": ["Makefile"], "digest": told["digest"]}
    for body in (files, {"digest": told["digest"], "files": ["text"]}, {"dry_run": True}, {}):
        status, refused = daemon.call("POST", path + "/apply", body, key=tenant)
        assert status == 403 and "operator" in str(refused), (body, refused)
    assert daemon.call("POST", f"/sandboxes/{box}/pause", {}, key=tenant)[0] == 204
    assert daemon.call("POST", path + "/apply", files, key=tenant)[0] == 403
    # Paused or not, its owner can change it after the operator has looked: without the digest nothing is taken.
    status, refused = daemon.call("POST", path + "/apply", {"files": ["text"]})
    assert status >= 400 and "digest" in str(refused), refused
    assert daemon.call("POST", path + "/apply", {"files": ["text"], "dry_run": True})[0] == 200
    assert tree(project) == before
    # The control: it is the key that counts. What is applied is in the records with the key that did it.
    status, done = daemon.call("POST", path + "/apply", files)
    assert status == 200 and (project / "Makefile").read_text() == "evil\n", done
    records = wait_for(lambda: daemon.call("GET", "/audit?kind=review.apply")[1]["records"], what="the record of the apply")
    assert {r["key"] for r in records if r["box"] == box} == {daemon.operator_id()}
    assert daemon.call("POST", path + "/discard", key=tenant)[0] == 200, "its own to throw away"


def test_projects_are_bound_to_keys(daemon):
    project, other = daemon.lab.project, daemon.lab.top / "other"
    bound = {"none": daemon.add_key("none"), "other": daemon.add_key("other", "--project", other),
             "mine": daemon.add_key("mine", "--project", other, "--project", f"{project}/../project")}
    want = {"templateID": "base", "timeout": 60}
    for name, key in bound.items():
        for said in ("project", str(project)):
            status, told = daemon.call("POST", "/sandboxes", want | {"project": said}, key=key)
            assert status == (201 if name == "mine" else 404), (name, said, told)
    # A key that may not have it cannot tell it from one that there is not.
    said = [daemon.call("POST", "/sandboxes", want | {"project": p}, key=bound["none"])[1]["message"] for p in ("project", "absent")]
    assert said[0].replace("project\"", "") == said[1].replace("absent\"", ""), said
    keys = json.loads(daemon.lab.brig("keys", "list", "--json", "--state", daemon.lab.top / "serve").stdout)["keys"]
    assert {k["name"]: k["projects"] for k in keys} == {"none": [], "other": [str(other)], "mine": [str(other), str(project)]}
    listed = daemon.lab.brig("keys", "list", "--state", daemon.lab.top / "serve").stdout
    assert f"on {other}, {project}" in listed
    # Revoked, it keeps what it was bound to, and is good for nothing.
    assert daemon.lab.brig("keys", "revoke", "mine", "--state", daemon.lab.top / "serve").returncode == 0
    assert daemon.call("POST", "/sandboxes", want | {"project": "project"}, key=bound["mine"])[0] == 401
    added = wait_for(lambda: [r["detail"] for r in daemon.call("GET", "/audit?kind=key.added")[1]["records"]
                              if r["detail"].get("name") == "mine"], what="the record of the key")
    assert added[0]["projects"] == [str(other), str(project)]


def rpc(daemon, key, name, arguments):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    status, told = daemon.call("POST", "/mcp", body, key=key)
    assert status == 200, told
    text = told if isinstance(told, dict) else json.loads(next(line[5:] for line in told.splitlines() if line.startswith("data:")))
    return text["result"]


def test_a_model_gets_no_project_that_its_key_has_not(daemon):
    bound, free = daemon.add_key("bound", "--project", daemon.lab.project), daemon.add_key("free")
    assert "project" in rpc(daemon, bound, "create_session", {})["structuredContent"]
    assert "project" not in rpc(daemon, free, "create_session", {})["structuredContent"]
    refused = rpc(daemon, free, "create_session", {"project": "project"})
    assert refused["isError"], refused


# ---- RV-7: what was shown is what is applied ----

FLIP = """
import mmap, os, sys
one, two = b"benign!!", b"EVIL!!!!"
with open("text", "r+b") as file:
    file.truncate(0)
    file.write(one * 512)
os.chmod("text", 0o755)
with open("text", "r+b") as file:
    page = mmap.mmap(file.fileno(), 4096)
print("flipping", flush=True)
while True:
    page[:] = two * 512
    page[:] = one * 512
"""


def words(lines):
    found = {word for word in ("benign!!", "EVIL!!!!") if word in lines}
    return found


def test_bytes_that_change_without_a_trace_are_not_applied_unseen(daemon):
    """A page that is dirty already changes neither time nor size when it is written: at every moment somebody may look at
    the one and get the other."""
    project = daemon.lab.project
    box = daemon.create(project="project")
    path = f"/sandboxes/{box}/review"
    daemon.begin(box, ["/usr/bin/python3", "-c", FLIP], until="flipping")
    applied = seen = 0
    for _ in range(60):
        status, told = daemon.call("GET", path)
        assert status == 200, told
        change = next((c for c in told["changes"] if c["path"] == "text"), None)
        if change is None:
            continue
        seen += 1
        before = (project / "text").read_bytes()
        status, _ = daemon.call("POST", path + "/apply", {"digest": told["digest"], "files": ["text"]})
        after = (project / "text").read_bytes()
        if status != 200:
            assert after == before
            continue
        applied += 1
        new = "".join(line[1:] for line in (change["diff"] or "").splitlines() if line.startswith("+"))
        shown = new.encode() if change["change"] != "mode" else before
        assert after == shown, f"shown {shown[:24]!r}, applied {after[:24]!r}"
    assert seen > 10, "the code never changed anything"
    # The control: what stands still is applied.
    assert daemon.call("POST", f"/sandboxes/{box}/pause", {})[0] == 204
    told = daemon.call("GET", path)[1]
    if told["changes"]:
        assert daemon.call("POST", path + "/apply", {"digest": told["digest"], "files": ["text"]})[0] == 200


LARGE = """
import mmap, os, time
with open("large", "w+b") as file:
    file.truncate(65 << 20)
    page = mmap.mmap(file.fileno(), 4096)
page[:8] = b"benign!!"
print("written", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)
page[:8] = b"EVIL!!!!"
print("changed", flush=True)
time.sleep(3600)
"""


def test_large_files_are_hashed_too(daemon):
    project = daemon.lab.project
    box = daemon.create(project="project")
    path = f"/sandboxes/{box}/review"
    process = daemon.begin(box, ["/usr/bin/python3", "-c", LARGE], until="written")
    digest = daemon.call("GET", path + "?format=stat")[1]["digest"]
    assert daemon.call("GET", path + "?format=stat")[1]["digest"] == digest
    daemon.sh(box, "touch /tmp/go")
    process("changed")
    status, told = daemon.call("POST", path + "/apply", {"digest": digest, "files": ["large"]})
    assert status >= 400 and not (project / "large").exists(), told
    # The control: with the digest of what it is now, it is applied.
    digest = daemon.call("GET", path + "?format=stat")[1]["digest"]
    assert daemon.call("POST", path + "/apply", {"digest": digest, "files": ["large"]})[0] == 200
    assert (project / "large").stat().st_size == 65 << 20
    with open(project / "large", "rb") as file:
        assert file.read(8) == b"EVIL!!!!"


def test_the_text_has_the_digest_of_what_it_shows(daemon):
    box = daemon.create(project="project")
    daemon.sh(box, "echo three >> text")
    path = f"/sandboxes/{box}/review"
    text = daemon.call("GET", path + "?format=text")[1]
    assert text.splitlines()[0] == "# DIGEST " + daemon.call("GET", path)[1]["digest"]


# ---- brig cp: FS-7 for what is copied ----

def test_copies_go_through_no_planted_link(daemon):
    """A folder that a sandbox may have written: its links lead neither a copy in nor a copy out."""
    lab = daemon.lab
    vol, secret = lab.top / "vol", lab.top / "secret"
    for folder in (vol, vol / "plain", secret):
        folder.mkdir()
    (secret / "key").write_text("secret")
    (vol / "link").symlink_to("../secret")
    (vol / "file").symlink_to("../secret/key")
    (vol / "own").write_text("own")
    lab.own()
    box = daemon.create()
    daemon.sh(box, "mkdir -p /workspace/out; echo evil > /workspace/out/key; echo evil > /workspace/key")

    def cp(*words):
        return lab.brig("cp", *words, "--state", lab.top / "serve", cwd=vol)

    for source in ("link/key", "file", vol / "link" / "key"):
        done = cp(source, f"{box}:/workspace/stolen")
        assert done.returncode == 125 and "is a link" in done.stderr and str(secret / "key") in done.stderr, done
    assert cp("-r", "link", f"{box}:/workspace/stolen").returncode == 125
    for target in ("link", "link/", "link/key", "link/new"):
        done = cp(f"{box}:/workspace/key", target)
        assert done.returncode == 125 and "is a link" in done.stderr, (target, done)
        assert cp("-r", f"{box}:/workspace/out", target).returncode == 125
    assert tree(secret) == {"key": ("file", 0o644, b"secret")}
    # The controls: the same without links.
    assert cp("own", f"{box}:/workspace/own").returncode == 0
    assert cp(secret / "key", f"{box}:/workspace/given").returncode == 0
    for target, made in (("plain", "plain/key"), ("plain/", "plain/key"), ("plain/other", "plain/other"), (".", "key"), ("new", "new")):
        assert cp(f"{box}:/workspace/key", target).returncode == 0 and (vol / made).read_text() == "evil\n", target
    assert cp("-r", f"{box}:/workspace/out", "folder").returncode == 0 and (vol / "folder" / "key").read_text() == "evil\n"
    done = cp(f"{box}:/workspace/key", "absent/key")
    assert done.returncode == 125 and "No such file" in done.stderr, done
