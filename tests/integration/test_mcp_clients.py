"""The published MCP clients, unmodified: both SDKs, the Inspector's command line, the conformance runner; over stdio and
HTTP, as root and as an ordinary user."""
import json
import os
import re
import shutil
import subprocess

import daemonlib
import npmlib
import pytest
from daemonlib import IS_ROOT, TOP, USER_ID, USERS, Daemon, wait_for
from form import FULL

CLIENTS = TOP / "tests" / "clients" / "mcp"


@pytest.fixture(scope="session")
def clients():
    if not shutil.which("node"):
        pytest.skip("Node.js is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(re.match(r"v(\d+)", version)[1]) < 20:
        pytest.skip(f"these packages need Node.js 20; this is {version.strip()}")
    folder = npmlib.install("mcp")
    shutil.copy(CLIENTS.parent / "check.mjs", folder / "check.mjs")
    return folder


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param, built_in=True) as made:
        yield made
        wait_for(lambda: not made.live(), 60, "no sandbox is left over")


@pytest.fixture(params=USERS if FULL else USERS[-1:])
def command(request, tmp_path):
    """What starts `brig mcp`, and a folder for its files."""
    brig = [daemonlib.program(), "mcp"]
    if not (IS_ROOT and request.param == "user"):
        return brig
    runtime = tmp_path / "run"
    runtime.mkdir(0o700)
    os.chown(runtime, USER_ID, USER_ID)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above != above.parent:
            above.chmod(above.stat().st_mode | 0o011)
    return ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--", "env",
            f"XDG_RUNTIME_DIR={runtime}", *brig]


def node(folder, *args, **env):
    return subprocess.run(["node", *args], cwd=folder, text=True, capture_output=True, timeout=600, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "HOME": str(folder), **env})


def good(said):
    failed = [line for line in said.stdout.splitlines() if line.startswith("FAILED")]
    assert said.returncode == 0 and not failed, said.stdout + said.stderr
    assert said.stdout.count("ok ") == 42


@pytest.mark.parametrize("daemon", USERS if FULL else USERS[:1], indirect=True)
def test_sdks_over_http(clients, daemon):
    good(node(clients, "clients.mjs", MCP_KIND="http", MCP_URL=f"{daemon.url}/mcp", MCP_KEY=daemon.key))


def test_sdks_over_stdio(clients, command):
    good(node(clients, "clients.mjs", MCP_KIND="stdio", MCP_COMMAND=json.dumps(command)))


# ---- the Inspector ----

INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def inspect(clients, *args):
    said = node(clients, INSPECTOR, "--cli", *args)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


@pytest.mark.parametrize("daemon", USERS[:1], indirect=True)
def test_inspector_over_http(clients, daemon):
    here = [f"{daemon.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {daemon.key}"]
    assert len(inspect(clients, *here, "--method", "tools/list")["tools"]) == 8
    told = inspect(clients, *here, "--method", "tools/call", "--tool-name", "run_code", "--tool-arg", "code=print(6*7)")
    assert told["structuredContent"]["stdout"] == "42\n"


def test_inspector_over_stdio(clients):
    told = inspect(clients, daemonlib.program(), "mcp", "--method", "tools/call", "--tool-name", "run_command", "--tool-arg",
                   "command=echo hello")
    assert told["structuredContent"]["stdout"] == "hello\n"


# ---- the conformance runner ----

def conform(clients, daemon, package, scenario, version):
    said = node(clients, "--import", "./conformance_load.mjs", f"node_modules/{package}/dist/index.js", "server", "--url",
                f"{daemon.url}/mcp", "--scenario", scenario, *(["--spec-version", version] if version else []), MCP_KEY=daemon.key)
    text = re.sub(r"\x1b\[\d*m", "", said.stdout)
    checks = dict(re.findall(r"\[([\w-]+) *\] (SUCCESS|FAILURE|WARNING|SKIPPED)", text))
    assert checks, said.stdout + said.stderr
    return checks, text


# What these scenarios want of a server that offers diagnostic tools, or prompts, of a given name is not offered here.
NEEDS_TEST_TOOLS = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
                    "sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
                    "sep-2549-prompts-list-caching-hints"}
OLD, NEXT = "@modelcontextprotocol/conformance", "conformance-next"


# What is said does not depend on the user: one scenario shows it for both.
SCENARIOS = [(OLD, "server-initialize", None), (OLD, "tools-list", None), (OLD, "dns-rebinding-protection", None),
             (NEXT, "server-session-lifecycle", "2025-11-25"), (NEXT, "http-header-validation", "2026-07-28"),
             (NEXT, "caching", "2026-07-28"), (NEXT, "sep-2164-resource-not-found", "2026-07-28")]


@pytest.mark.parametrize("daemon, package, scenario, version",
                         [*((USERS[0], *row) for row in SCENARIOS),
                          *((user, NEXT, "server-stateless", "2026-07-28") for user in USERS)],
                         indirect=["daemon"], ids=lambda value: (value or "").split("/")[-1])
def test_conformance(clients, daemon, package, scenario, version):
    checks, text = conform(clients, daemon, package, scenario, version)
    bad = {name for name, outcome in checks.items() if outcome not in ("SUCCESS", "SKIPPED")}
    assert bad <= NEEDS_TEST_TOOLS, text
    assert "SUCCESS" in checks.values()
