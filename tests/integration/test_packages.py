"""What an agent does first: it installs something. With the real pip and npm and registries of the test's own, in brig run,
in sandboxes of the daemon with the real client, and over MCP."""
import base64
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import npmlib
import pytest
from daemonlib import USERS, Daemon
from form import FULL
from helpers import CALLERS, IS_ROOT, TIERS
from mcplib import Http
from packagelib import MODULE, NAME, Registry

BIG = ["--sampling", "accept", "-m", "2G", "--pids", "512", "--timeout", "15m", "--disk", "256M"]
QUIET = "--no-audit --no-fund --silent"


def need(program):
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="module")
def registry():
    with Registry() as made:
        yield made


PLACES = [(c, t) for c in CALLERS for t in TIERS]


@pytest.fixture(params=PLACES, ids=lambda p: f"{p[0].name}-{p[1]}")
def box(request):
    caller, tier = request.param
    return caller.with_options("--tier", tier)


def tier_of(box):
    return box.options[box.options.index("--tier") + 1]


SHOW = f"python3 -c 'import {MODULE}; print({MODULE}.word())'"
PIP = {
    "pip": f"pip install -q {NAME} && {SHOW} && {NAME}",
    "python-m-pip": f"python3 -m pip install -q {NAME} && {SHOW} && {NAME}",
    "user": f"pip install -q --user {NAME} && {SHOW} && {NAME}",
    "target": f"pip install -q --target t {NAME} && PYTHONPATH=t {SHOW} && PYTHONPATH=t t/bin/{NAME}",
    "venv": f"python3 -m venv v && v/bin/pip install -q {NAME} && v/bin/{SHOW} && v/bin/{NAME}",
}


# One way everywhere, and every way on each tier and for each caller; all of them everywhere in the long form.
SOME = [(way, (caller, tier)) for n, way in enumerate(PIP) for caller, tier in PLACES
        if FULL or not IS_ROOT or way == "pip" or (caller.name == "root") == ((tier == "container") == (n % 2 == 0))]


@pytest.mark.parametrize("way, place", SOME, ids=lambda p: p if isinstance(p, str) else f"{p[0].name}-{p[1]}")
def test_pip(registry, way, place):
    """No flag, no PEP 668, no root; in Python's path and its script in the shell's."""
    need("pip")
    caller, tier = place
    told = caller.json("--tier", tier, *BIG, *registry.options(), "--", "bash", "-c", 'cd "$HOME" && ' + PIP[way], timeout=1000)
    assert (told["exit_code"], told["stdout"]) == (0, "tiny works\n" * 2), told


@pytest.mark.parametrize("script", [f"npm install {QUIET} {NAME} && node -e \"console.log(require('{NAME}')())\"",
                                    f"npm install -g {QUIET} {NAME} && {NAME}-js"], ids=["npm", "npm-global"])
def test_npm(box, registry, script):
    need("npm")
    told = box.json(*BIG, *registry.options(), "--", "bash", "-c", f'mkdir "$HOME/p" && cd "$HOME/p" && {script}', timeout=1000)
    assert (told["exit_code"], told["stdout"]) == (0, "tiny works\n"), told


def test_what_is_installed_dies_with_the_sandbox(box, registry):
    need("pip")
    box.run(*BIG, *registry.options(), "--", "pip", "install", "-q", NAME, timeout=1000)
    assert box.run(*BIG, "--", "sh", "-c", SHOW).returncode == 1
    assert subprocess.run(box.outside("/usr/bin/python3", "-c", f"import {MODULE}"), capture_output=True).returncode == 1


def test_a_variable_of_the_operators_wins(box):
    told = box.run(*BIG, "-e", "HOME=/tmp/else", "-e", "PIP_BREAK_SYSTEM_PACKAGES=0", "--", "sh", "-c",
                   'echo "$PIP_BREAK_SYSTEM_PACKAGES ${PATH%%:*} $npm_config_prefix"')
    assert told.stdout == "0 /tmp/else/.local/bin /tmp/else/.local\n", told


@pytest.mark.parametrize("command,says", [("pip install brig-tiny", "No matching distribution"), ("npm install brig-tiny", "npm")],
                         ids=["pip", "npm"])
def test_without_a_network_it_ends_at_once(box, command, says):
    """A second or two, not the minute of retries; and it is told what would allow it."""
    need(command.split()[0])
    began = time.monotonic()
    told = box.json(*BIG, "--", "bash", "-c", f'cd "${{TMPDIR:-/tmp}}" && {command}', timeout=300)
    assert told["exit_code"] == 1 and says in told["stderr"], told
    assert time.monotonic() - began < 60, "retries take more than that"
    if tier_of(box) == "container":
        assert any("--allow" in d["hint"] for d in told["denials"] if d["boundary"] == "network"), told["denials"]


@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_python_beside_python3(caller):
    box = caller.with_options("--tier", "container")
    told = box.run("--", "python", "-c", "import sys; print(sys.argv[1:], sys.version_info.major)", "a b", "c")
    assert told.stdout == "['a b', 'c'] 3\n", told
    assert box.run("--", "sh", "-c", "printf '#!/usr/bin/env python\\nprint(6 * 7)' > s && chmod +x s && ./s").stdout == "42\n"
    # A real one goes first.
    told = box.run("--", "sh", "-c", "mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho mine' > ~/.local/bin/python && chmod +x ~/.local/bin/python && python")
    assert told.stdout == "mine\n", told
    assert box.run("--", "sh", "-c", "echo x >> /.brig/bin/python").returncode != 0, "nobody inside writes there"


# ---- the daemon ----

@pytest.fixture(scope="module", params=USERS)
def daemon(request, registry):
    python = "interpreter: python\nmodules: [json]\npool: {min: 1, max: 2}\n"
    with Daemon(request.param, templates={"base.yaml": registry.template(),
                                          "python.yaml": registry.template("aliases: [code-interpreter-v1]\n" + python),
                                          "rooted.yaml": "policy: {kernel: {uid: 0}, lifecycle: {sampling: accept}}\n"}) as made:
        yield made


@pytest.fixture(scope="session")
def clients():
    return npmlib.install()


def run_client(daemon, clients, script):
    env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url,
           "E2B_API_KEY": daemon.key}
    said = subprocess.run(["node", script], cwd=clients, env=env, text=True, capture_output=True, timeout=900)
    assert said.returncode == 0 and "ok " in said.stdout, said.stdout + said.stderr


def test_the_real_client_installs(daemon, clients):
    need("pip"), need("npm")
    run_client(daemon, clients, "install.mjs")


def words(lines):
    return "".join(line["text"] for line in lines if line["type"] == "stdout")


WAYS = {"%pip": f"%pip install -q {NAME}", "!pip": f"!pip install -q {NAME}", "lines": f"said = !pip install -q {NAME}",
        "python": f"import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', '-q', '{NAME}'])"}


# Each way in one cell and in two, in a clone and in one that was started; in the long form all of these together.
CELLS = [(way, template, cells) for n, way in enumerate(WAYS) for template in ("python", "base") for cells in (1, 2)
         if FULL or (template == "python") == ((cells == 1) == (n % 2 == 0))]


@pytest.mark.parametrize("way, template, cells", CELLS)
def test_installed_into_a_running_interpreter(daemon, way, cells, template):
    """In the same cell and in the next; in a clone, which has never looked for the folder, and in one that was started."""
    need("pip")
    box = daemon.create(template)
    try:
        use = f"import {MODULE}\nprint({MODULE}.word())"
        code = [f"{WAYS[way]}\n{use}"] if cells == 1 else [WAYS[way], use]
        told = [line for each in code for line in box.execute(each, timeout=300, language="python")]
        assert words(told) == "tiny works\n" and not [line for line in told if line["type"] == "error"], told
    finally:
        box.kill()


def test_what_is_installed_goes_before_the_systems(daemon, registry):
    """A newer one of a package that the system has too, as in an interpreter that is started afterwards."""
    need("pip")
    registry.put_wheel("six", "99.0")
    box = daemon.create("python")
    try:
        told = box.execute("%pip install -q six==99.0\nimport six\nprint(six.version)", timeout=300)
        assert words(told) == "99.0\n", told
        assert box.sh("python3 -c 'import six; print(six.version)'").out == b"99.0\n"
    finally:
        box.kill()


def test_another_home(daemon):
    need("pip")
    box = daemon.create("python", envVars={"HOME": "/workspace/h"})
    try:
        told = box.execute(f"%pip install -q {NAME}\nimport {MODULE}\nprint({MODULE}.__file__)", timeout=300)
        assert words(told).startswith("/workspace/h/.local/"), told
    finally:
        box.kill()


def test_over_mcp(daemon):
    need("pip")
    http = Http(daemon)
    told, failed = http.call("run_code", code=f"%pip install -q {NAME}\nimport {MODULE}\nprint({MODULE}.word())", language="python")
    assert not failed and "tiny works" in told["stdout"], told
    told, failed = http.call("run_command", command=f"pip install -q {NAME} && {NAME} && python -c 'import {MODULE}'")
    assert not failed and told["stdout"] == "tiny works\n", told


# ---- who ----

def test_the_real_client_is_who_it_asks_to_be(daemon, clients):
    run_client(daemon, clients, "users.mjs")


def basic(text):
    return {"Authorization": "Basic " + base64.b64encode(text).decode()}


def test_nobody_is_somebody_else(daemon):
    """Whatever a request is for and however the name is spelled, it does nothing for a user that there is not."""
    box = daemon.create("base")
    try:
        start = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
        body = box.start_body(["/bin/sh", "-c", "touch /tmp/ran"])
        for name, word in ((b"root:", b"gives no root"), (b"root", b"gives no root"), (b"root:x", b"gives no root"),
                           (b"nobody:", b"invalid username: 'nobody'"), (b"user\0root:", b"invalid username"), (b"ROOT:", b"invalid username"),
                           (b"\xffroot:", b"invalid username"), (b"r" * 200, b"invalid username")):
            told = box.request("POST", "/process.Process/Start", body, headers={**start, **basic(name)})
            assert told.status == 200 and word in told.body and b'"error"' in told.body, (name, told)
            told = box.request("POST", "/filesystem.Filesystem/MakeDir", {"path": "/tmp/made"}, headers=basic(name))
            assert told.status == (403 if b"root" in word else 401) and word in told.body, (name, told)
        told = box.request("POST", "/process.Process/Start", body, headers={**start, "Authorization": "Basic ?"})
        assert b"invalid username" in told.body, told
        for query, status in (("username=root", 403), ("username=%72oot", 403), ("username=nobody", 401), ("username=user", 200), ("username=", 200)):
            told = box.request("POST", f"/files?path=/tmp/{status}&{query}", b"x", headers={"Content-Type": "application/octet-stream"})
            assert told.status == status, (query, told)
        told = box.request("GET", "/files?path=/tmp/200&username=user", headers=basic(b"root:"))
        assert told.status == 401, "two names"
        assert box.sh("ls /tmp").out == b"200\n"
    finally:
        box.kill()


@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_root_is_root_of_nothing(caller):
    """The name and nothing else: the uid of the host is no other one, there is no capability, and what needs one fails."""
    box = caller.with_options("--tier", "container", "--uid", "0")
    told = box.json("--", "sh", "-c", "id -u; sudo id -u; grep -h Cap /proc/self/status | cut -f2 | sort -u; cat /proc/self/uid_map | tr -s ' '")
    number, sudo, caps, uid_map = told["stdout"].splitlines()
    assert (number, sudo, caps) == ("0", "0", "0" * 16), told
    assert uid_map.split()[0] == "0" and uid_map.split()[1] != "0" and uid_map.split()[2] == "1", told
    for command in ("mount -t tmpfs none /mnt", "chroot / true", "mknod /tmp/d c 1 3", "touch /usr/x", "touch /tmp/f && chown 1000 /tmp/f",
                    "unshare -U true", "touch /.brig/sbin/x", "rm /.brig/sbin/sudo", "hostname x", "date -s 12:00"):
        assert box.run("--", "sudo", "sh", "-c", command).returncode != 0, command
    told = caller.run("--tier", "container", "--", "sudo", "-n", "id", "-u")
    assert told.returncode == 1 and told.stdout == "" and "brig run --uid 0" in told.stderr, "control: nobody else has it, and is told who can give it"


@pytest.mark.parametrize("place", ["/root", "/root/project"])
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_a_grant_may_stand_in_roots_home(caller, place):
    """Who works in /root and is root inside, too, grants just that. Elsewhere /root leads to the home."""
    box = caller.with_options("--tier", "container", "--uid", "0")
    with tempfile.TemporaryDirectory(prefix="test-brig-") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "there").write_text("yes")
        told = box.json("--ro", f"{folder}:{place}", "--", "cat", f"{place}/there")
    assert told.get("stdout") == "yes", told
    assert box.json("--", "readlink", "/root")["stdout"].strip() == "/home/user", "control"
