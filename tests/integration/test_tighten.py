"""R-P1 in `brig serve`: a request may make the policy of its sandbox stricter than the template's, and never wider.

Every limit has its control: the same code in a sandbox of the same template whose request says nothing about it."""
import http.server
import json
import os
import subprocess
import threading

import pytest
from daemonlib import USERS, Box, Daemon, parent, program, wait_for
from mcplib import Http


TEMPLATES = {
    "warm.yaml": "description: some wait\npool: {min: 2, max: 2}\n",
    "warm-python.yaml": "description: clones wait\ninterpreter: python\npool: {min: 2, max: 2}\n",
    "rules.yaml": 'policy: {commands: {deny: ["curl **"]}}\n',
    "rooted.yaml": "policy: {kernel: {uid: 0}}\n",
    "loose.yaml": "policy: {level: medium, filesystem: {project: false}}\n",
}
# Stays with it: where the kernel does not hold the limit, brig looks from time to time.
FILL = "import sys, time; data = bytearray(b'x') * (300 << 20); time.sleep(float(sys.argv[1])); print(len(data) >> 20)"
FORKS = """
import os, sys, time
made = []
try:
    for i in range(40):
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        made.append(pid)
except OSError as error:
    pass
print(len(made), flush=True)
for pid in made:
    os.kill(pid, 9)
"""
FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=60).read().decode())
    except OSError as error:
        print(type(error).__name__)
"""


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@pytest.fixture(scope="module", params=USERS)
def daemon(request, web):
    hosts = [f"http://{name}.test:{web}=127.0.0.1" for name in ("one", "two")]
    templates = {**TEMPLATES, "web.json": json.dumps({"policy": {"network": {"allow": hosts}}})}
    with Daemon(request.param, templates=templates) as made:
        made.agent = made.add_key("agent")
        yield made


@pytest.fixture
def make(daemon):
    """Sandboxes that end with the test."""
    made = []

    def make(policy=None, template="base", key=None, **more):
        if policy is not None:
            more["policy"] = policy
        made.append(daemon.create(template, key=key or daemon.agent, **more))
        return made[-1]

    yield make
    for box in made:
        box.kill()


def ask(daemon, policy, template="base", key=None):
    return daemon.request("POST", "/sandboxes", {"templateID": template, "policy": policy}, key=key or daemon.agent)


def wardens(daemon):
    return sum(name == "brig-warden" and parent(pid) == daemon.pid for pid, name in daemon.children().items())


def records(daemon, box, kind):
    """The details of a sandbox's records of this kind."""
    def found():
        told = daemon.request("GET", f"/audit?kind={kind}&box={box.id}&limit=100")
        assert told.status == 200, told
        listed = told.json["records"] if isinstance(told.json, dict) else told.json
        return [r["detail"] for r in listed if r.get("box") == box.id]
    return wait_for(found, what=f"a record {kind}")


# ---- what is stricter is in force ----

@pytest.mark.parametrize("whose", ["agent", "operator"])
def test_memory(daemon, make, whose):
    key = True if whose == "operator" else daemon.agent
    control, tight = make(key=key), make({"lifecycle": {"memory": "128M", "disk": "32M"}}, key=key)
    assert control.run("python3", "-c", FILL, "3").out == b"300\n"
    result = tight.run("python3", "-c", FILL, "600", timeout=300)
    assert result.status == 137 and not result.out, result
    told = tight.info().json
    assert (told["memoryMB"], told["diskSizeMB"]) == (128, 32)
    assert control.info().json["memoryMB"] == 1024
    end = result.events[-1]["event"]["end"]
    assert "limit 128M" in end["error"] and "the policy that it was created with" in end["error"], end


def test_processes(make):
    assert make().run("python3", "-c", FORKS).out == b"40\n"
    count = int(make({"lifecycle": {"pids": 16}}).run("python3", "-c", FORKS).out)
    assert count < 16


def test_disk(make):
    fill = "head -c 64M /dev/zero > /home/user/big && stat -c %s /home/user/big"
    assert make().sh(fill).out == b"67108864\n"
    assert make({"lifecycle": {"disk": "16M"}}).sh(fill).status != 0


def test_files_that_cannot_be_executed(make):
    script = "printf '#!/bin/sh\\necho ran\\n' > /home/user/x; chmod +x /home/user/x; /home/user/x"
    assert make().sh(script).out == b"ran\n"
    refused = make({"filesystem": {"exec": False}}).sh(script)
    assert refused.status == 126 and b"ran" not in refused.out, refused


def test_rules_of_the_network_that_are_left_out(daemon, make, web):
    one, two = f"http://one.test:{web}", f"http://two.test:{web}"
    control, tight = make(template="web"), make({"network": {"allow": [one]}}, "web")
    closed = make({"network": {"mode": "off"}}, "web")
    fetch = lambda box: box.run("python3", "-c", FETCH, one, two).out.decode().split("\n")[:2]  # noqa: E731
    assert fetch(control) == ["from outside"] * 2
    assert fetch(tight)[0] == "from outside" and "Error" in fetch(tight)[1]
    assert all("Error" in line for line in fetch(closed))
    # What was given up does not come back by a change of the rules.
    path = f"/sandboxes/{tight.id}/network"
    for box in (tight, closed):
        answer = daemon.request("PUT", f"/sandboxes/{box.id}/network", {"allowOut": [two]}, key=daemon.agent)
        assert answer.status in (400, 403), answer
    assert daemon.request("PUT", path, {}, key=daemon.agent).status == 204
    assert "Error" in fetch(tight)[1]
    control_path = f"/sandboxes/{control.id}/network"
    assert daemon.request("PUT", control_path, {"allowOut": [two]}, key=daemon.agent).status == 204


def test_network_of_the_same_request_is_within_the_policy(daemon, make, web):
    one, two = f"http://one.test:{web}", f"http://two.test:{web}"
    body = {"templateID": "web", "policy": {"network": {"allow": [one]}}}
    assert daemon.request("POST", "/sandboxes", {**body, "network": {"allowOut": [two]}}, key=daemon.agent).status in (400, 403)
    box = make({"network": {"allow": [one]}}, "web", network={"allowOut": [one]})
    assert box.run("python3", "-c", FETCH, one).out == b"from outside\n"


def test_commands(make):
    control, tight = make(template="rules"), make({"commands": {"deny": ["wget **"]}}, "rules")
    assert control.run("wget", "--version").error is None or "denied" not in str(control.run("wget", "--version").error)
    refused = tight.run("wget", "--version")
    assert refused.error["code"] == "permission_denied" and "commands.deny: wget **" in refused.error["message"], refused
    assert "commands.deny: curl **" in tight.run("curl", "x").error["message"], "the template's rule stays"
    assert tight.run("echo", "wget").out == b"wget\n"


def test_the_user(make):
    control, tight = make(template="rooted"), make({"kernel": {"uid": 1000}}, "rooted")
    assert control.sh("id -u").out == b"0\n"
    assert tight.sh("id -u").out == b"1000\n"


def test_variables(make):
    box = make({"credentials": {"env": {"TIGHT": "yes"}}})
    assert box.sh("echo $TIGHT").out == b"yes\n"
    assert make().sh("echo $TIGHT").out == b"\n"


def test_a_higher_level(make):
    script = "test -e /proc/meminfo && echo there || echo not there"
    assert make(template="loose").sh(script).out == b"there\n"
    assert make({"level": "high"}, "loose").sh(script).out == b"not there\n"


def test_an_interpreter_that_would_have_been_cloned(make):
    box = make({"lifecycle": {"memory": "192M", "disk": "32M"}}, "python")
    lines = box.execute("print(6 * 7)", timeout=300)
    assert any(line.get("text") == "42\n" for line in lines), lines
    assert box.info().json["memoryMB"] == 192


def test_a_policy_as_text(make):
    assert make("lifecycle:\n  memory: 96M # little\n  disk: 16M\n").info().json["memoryMB"] == 96
    assert make('{"lifecycle": {"memory": "96M", "disk": "16M"}}').info().json["memoryMB"] == 96


# ---- it is nobody else's sandbox ----

@pytest.mark.parametrize("template", ["warm", "warm-python"])
def test_it_is_not_taken_from_the_pool(daemon, make, template):
    def waiting():
        return next(p for p in daemon.request("GET", "/pools").json if p["template"] == template)["idle"] >= 2
    wait_for(waiting, 300, "sandboxes wait")
    control = make(template=template)
    wait_for(waiting, 300, "sandboxes wait")
    tight = make({"lifecycle": {"pids": 40}}, template)
    assert records(daemon, control, "box.running")[0].get("reason") == "from the pool"
    assert "reason" not in records(daemon, tight, "box.running")[0]


def test_what_is_said_about_it_names_its_own_policy(daemon, make):
    control, again, tight = make(), make(), make({"lifecycle": {"pids": 40}})
    hashes = [box.info().json["policyHash"] for box in (control, again, tight)]
    assert hashes[0] == hashes[1] != hashes[2]
    listed = {s["sandboxID"]: s["policyHash"] for s in daemon.request("GET", "/v2/sandboxes").json}
    for box, named in zip((control, again, tight), hashes):
        assert named.startswith("sha256:") and len(named) == 71
        assert listed[box.id] == named
        assert records(daemon, box, "box.running")[0]["policy_hash"] == named
        box.kill()
        found = wait_for(lambda b=box: (a := daemon.request("GET", f"/sandboxes/{b.id}/receipt")).status == 200 and a.json,
                         what="a receipt")
        assert found["policy_hash"] == named, found


def test_the_template_stays_as_it_is(daemon, make):
    before = make().info().json
    make({"lifecycle": {"memory": "96M", "disk": "16M", "pids": 20}})
    after = make().info().json
    assert (before["policyHash"], before["memoryMB"]) == (after["policyHash"], after["memoryMB"])


# ---- what is wider is refused ----

WIDER = [
    ("base", {"level": "low"}, "level is high", "low"),
    ("base", {"kernel": {"tier": "process"}}, "kernel.tier is container", "process"),
    ("base", {"kernel": {"uid": 0}}, "kernel.uid is 1000", "0"),
    ("base", {"filesystem": {"root": "/srv"}}, "filesystem.root is host", "/srv"),
    ("base", {"filesystem": {"project": True}}, "filesystem.project is false", "true"),
    ("base", {"filesystem": {"proc": "system"}}, "filesystem.proc is ", "system"),
    ("base", {"filesystem": {"landlock": "off"}}, "filesystem.landlock is require", "off"),
    ("base", {"filesystem": {"ro": ["/etc"]}}, "filesystem.ro", "/etc"),
    ("base", {"filesystem": {"rw": ["/etc"]}}, "filesystem.rw", "/etc"),
    ("base", {"network": {"mode": "allowlist"}}, "network.mode is off", "allowlist"),
    ("base", {"network": {"allow": ["example.org"]}}, "network.", ""),
    ("web", {"network": {"allow": ["example.org"]}}, "network.allow", "example.org"),
    ("base", {"credentials": {"secrets": ["T=env:PATH@https://example.org"]}}, "", ""),
    ("base", {"lifecycle": {"memory": "2G"}}, "lifecycle.memory is 1G", "2G"),
    ("base", {"lifecycle": {"pids": 257}}, "lifecycle.pids is 256", "257"),
    ("base", {"lifecycle": {"cpus": "unlimited"}}, "lifecycle.cpus is 2", "unlimited"),
    ("base", {"lifecycle": {"cgroup": "off"}}, "lifecycle.cgroup is auto", "off"),
    ("rules", {"commands": {"default": "allow", "allow": ["curl **"]}}, "commands", ""),
    # One field that is stricter does not carry another one along.
    ("base", {"lifecycle": {"pids": 8, "memory": "2G"}}, "lifecycle.memory is 1G", "2G"),
]


@pytest.mark.parametrize("whose", ["agent", "operator"])
@pytest.mark.parametrize("template, policy, have, want", WIDER, ids=lambda v: json.dumps(v) if isinstance(v, dict) else "")
def test_wider(daemon, whose, template, policy, have, want):
    live = daemon.live()
    answer = ask(daemon, policy, template, key=True if whose == "operator" else None)
    assert answer.status == 403, answer
    message = answer.json["message"]
    assert "a request may only tighten the policy" in message and have in message and want in message, message
    assert daemon.live() == live


def test_nothing_is_left_of_what_was_refused(daemon):
    """A warden is started for each, and is gone; there is room for as many again."""
    for _ in range(20):
        assert ask(daemon, {"lifecycle": {"memory": "2G"}}).status == 403

    def expected():
        pooled = sum(p["idle"] + p["starting"] for p in daemon.request("GET", "/pools").json)
        return pooled + len(daemon.live())
    wait_for(lambda: wardens(daemon) <= expected(), 120, "their wardens are gone")
    box = daemon.create(key=daemon.agent)
    assert box.sh("echo alive").out == b"alive\n"
    box.kill()


@pytest.mark.parametrize("policy, status, place", [
    ({"lifecycle": {"memry": "1M"}}, 400, "policy:1:"),
    ({"lifecycle": {"memory": -1}}, 400, "policy:1:"),
    ({"lifecycle": {"memory": None}}, 400, "policy:1:"),
    ({"unknown": {}}, 400, "policy:1:2:"),
    ({}, 400, "policy:1:1:"),
    ("", 400, "policy:1:1:"),
    ("level: high\nlifecycle:\n  memry: 1M\n", 400, "policy:3:3:"),
    ("level: high\n\tx", 400, "policy:2:"),
    ({"lifecycle": {"timeout": "1s"}}, 400, "lifecycle.timeout"),
    ({"lifecycle": {"output": "1k"}}, 400, "lifecycle.output"),
    ({"filesystem": {"cwd": "/tmp"}}, 400, "filesystem.cwd"),
    ({"tools": {"allow": []}}, 400, "tools"),
    ({"kernel": {"tier": "vm"}}, 501, "vm"),
    ({"level": "critical"}, 501, "vm"),
    ([1], 400, '"policy": expected an object or a string'),
    (7, 400, '"policy": expected an object or a string'),
    ("#" * 20000, 400, '"policy": more than'),
    ({"credentials": {"env": {"A": "x" * 20000}}}, 400, '"policy": more than'),
])
def test_malformed(daemon, policy, status, place):
    live = daemon.live()
    answer = ask(daemon, policy)
    assert answer.status == status and place in answer.json["message"], answer
    assert daemon.live() == live


def test_null_is_no_policy(daemon):
    answer = ask(daemon, None)
    assert answer.status == 201
    Box(daemon, answer.json).kill()


# ---- over MCP ----

def test_sessions_and_single_calls_of_mcp(daemon):
    mcp = Http(daemon, key=daemon.agent)
    policy = {"lifecycle": {"pids": 16}}
    run = {"command": "python3", "args": ["-c", FORKS], "template": "base"}
    told, failed = mcp.call("run_command", **run)
    assert not failed and told["stdout"] == "40\n"  # the control
    told, failed = mcp.call("run_command", policy=policy, **run)
    assert not failed and int(told["stdout"]) < 16, told
    session = mcp.session(template="base", policy=policy)
    told, failed = mcp.call("run_command", session_id=session, command="python3", args=["-c", FORKS])
    assert not failed and int(told["stdout"]) < 16, told
    told, failed = mcp.call("run_command", session_id=session, command="true", policy=policy)
    assert failed and '"policy" and "session_id"' in told["error"]["message"]
    mcp.call("destroy_session", session_id=session)
    for tool, more in (("create_session", {}), ("run_code", {"code": "1"}), ("run_command", {"command": "true"})):
        told, failed = mcp.call(tool, template="base", policy={"lifecycle": {"pids": 1000}}, **more)
        assert failed and told["error"]["code"] == "refused" and "lifecycle.pids is 256" in told["error"]["message"], told


# ---- from the shell ----

def test_brig_create(daemon):
    folder = daemon.folder / "policies"
    folder.mkdir()
    good, wide = folder / "good.yaml", folder / "wide.yaml"
    good.write_text("lifecycle:\n  memory: 96M\n  disk: 16M\n")
    wide.write_text("lifecycle:\n  memory: 96G\n")
    for path in (folder, good, wide):
        os.chown(path, daemon.uid, daemon.uid)

    def create(*options):
        command = [program(), "create", *map(str, options)]
        if daemon.uid != os.geteuid():
            command = ["setpriv", "--reuid", str(daemon.uid), "--regid", str(daemon.uid), "--clear-groups", "--", *command]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/",
                              env={**os.environ, "BRIG_HOST": daemon.url, "BRIG_API_KEY": daemon.key})
    made = create("--policy", good)
    assert made.returncode == 0, made
    assert daemon.request("GET", f"/sandboxes/{made.stdout.strip()}").json["memoryMB"] == 96
    assert daemon.request("DELETE", f"/sandboxes/{made.stdout.strip()}").status == 204
    refused = create("--policy", wide)
    assert refused.returncode == 125 and "lifecycle.memory is 1G" in refused.stderr and not refused.stdout, refused
    missing = create("--policy", folder / "missing")
    assert missing.returncode == 125 and "missing" in missing.stderr, missing
