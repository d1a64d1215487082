"""E2B's own command line, unmodified, against brig serve: what an agent's builder types first.

It looks for newer versions of itself: it and the daemon are in a network with nothing but loopback.
"""
import json
import os
import subprocess

import pytest

import npmlib
from form import FULL
from daemonlib import IS_ROOT, USERS, Daemon, program

ALONE = ["unshare", "--net", "--", "/bin/sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
TEMPLATES = {"base.yaml": "policy: {lifecycle: {sampling: accept}}\n"}


@pytest.fixture(scope="module")
def client():
    return npmlib.install("cli")


# What a client shows does not depend on who runs the daemon.
@pytest.fixture(scope="module", params=USERS if FULL else USERS[-1:])
def daemon(request):
    if not IS_ROOT:
        pytest.skip("a network of its own is root's to make")
    with Daemon(request.param, templates=TEMPLATES, wrapper=ALONE) as made:
        yield made


@pytest.fixture
def e2b(daemon, client, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": daemon.key}

    def run(*words, status=0):
        command = ["nsenter", "--target", str(daemon.pid), "--net", "node", str(client / "node_modules/@e2b/cli/dist/index.js"), *words]
        said = subprocess.run(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert said.returncode == status, (words, said)
        return said.stdout + said.stderr

    return run


@pytest.fixture
def box(daemon):
    host = ["--host", f"unix:{daemon.socket}", "--key-file", str(daemon.key_file)]
    id = subprocess.run([program(), "create", *host], check=True, capture_output=True, text=True, timeout=300).stdout.split()[0]
    yield id
    subprocess.run([program(), "rm", *host, id], capture_output=True, timeout=300)


def test_a_sandbox_from_its_list_to_its_end(e2b, box):
    listed = json.loads(e2b("sandbox", "list", "--format", "json"))
    assert [s["state"] for s in listed if s["sandboxId"] == box] == ["running"], listed
    assert box in e2b("sandbox", "list") and "State: running" in e2b("sandbox", "info", box)
    assert e2b("sandbox", "exec", box, "--", "echo", "hello").endswith("hello\n")
    e2b("sandbox", "exec", box, "--", "/bin/sh", "-c", "exit 7", status=7)
    told = e2b("sandbox", "exec", "-u", "root", box, "--", "id", status=1)
    assert "permission_denied" in told and "kernel: {root: true}" in told, told
    assert "Metrics for sandbox" in e2b("sandbox", "metrics", box)
    assert "echo hello" in e2b("sandbox", "logs", box)
    assert "has been paused" in e2b("sandbox", "pause", box)
    assert box in e2b("sandbox", "list", "--state", "paused") and box not in e2b("sandbox", "list")
    assert "has been resumed" in e2b("sandbox", "resume", box)
    assert e2b("sandbox", "exec", box, "--", "echo", "again").endswith("again\n")
    assert "has been killed" in e2b("sandbox", "kill", box)
    assert "wasn't found" in e2b("sandbox", "kill", box)


def test_templates_and_what_is_not_offered(e2b, box):
    told = e2b("template", "list")
    assert "base" in told and "Invalid Date" not in told, told
    told = e2b("sandbox", "snapshot", "create", box, status=1)
    assert "501" in told and "snapshots and forks of a running sandbox are not offered" in told, told
    assert "o snapshots" in e2b("sandbox", "snapshot", "list")
