"""brig net, brig proxy and brig secrets check: what the command line does around the network of runs.

Everything is on loopback: a server of the test's own, pinned to a name that exists nowhere.
"""
import http.server
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from waiting import wait_for

TOP = Path(__file__).resolve().parents[2]
BRIG = os.environ.get("BRIG", str(TOP / "build" / "brig"))
SECRET = "s3cr3t-value-of-the-test"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.seen = []
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    httpd.rule = f"http://web.test:{httpd.server_port}=127.0.0.1"
    httpd.url = f"http://web.test:{httpd.server_port}/"
    httpd.origin = f"http://web.test:{httpd.server_port}"
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def env(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}


def brig(env, *args, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([BRIG, *map(str, args)], capture_output=True, text=True, timeout=60, env=env, **kwargs)


def runs(env):
    return json.loads(brig(env, "net", "--json").stdout)["runs"]


# ---- brig net ----

def test_without_runs_it_says_how_to_get_one(env):
    result = brig(env, "net")
    assert result.returncode == 0 and "--allow" in result.stdout
    assert runs(env) == []


@pytest.mark.parametrize("tier", ["container", "process"])
def test_a_run_is_recorded(env, server, tier):
    script = f"curl -sS {server.url}a?token=hidden; curl -sS -o /dev/null http://evil.test/"
    result = brig(env, "run", "--tier", tier, "--allow", server.rule, "--", "sh", "-c", script)
    assert result.stdout == "hello\n", result
    [run] = runs(env)
    assert (run["state"], run["total"], run["allowed"], run["denied"]) == ("ended", 2, 1, 1)
    record = json.loads(brig(env, "net", run["sandbox_id"], "--json").stdout)
    network = record["network"]
    assert network["by_method"] == {"GET": 2}
    assert network["by_host"] == {"web.test": 1, "evil.test": 1}
    assert network["by_status"]["200"] == 1
    assert network["denied_list"][0]["what"] == "GET http://evil.test:80"
    assert "--allow evil.test:80" in network["denied_list"][0]["hint"]
    assert [e["path"] for e in network["recent"]] == ["/a", "/"]
    assert "hidden" not in json.dumps(record)
    text = brig(env, "net", run["sandbox_id"]).stdout
    for part in ("2: 1 allowed, 1 denied", "web.test", "add --allow evil.test:80", "GET 2"):
        assert part in text, text
    assert "\033" not in text
    assert run["sandbox_id"] in brig(env, "net").stdout


@pytest.mark.parametrize("id", ["brig-0", "../../etc/passwd", "x", "brig-0.json"])
def test_an_unknown_run_is_refused(env, id):
    result = brig(env, "net", id)
    assert result.returncode == 125 and result.stdout == ""
    assert "no record" in result.stderr


WAITER = """
import subprocess, sys
def ask(): print(subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", sys.argv[1]],
                                capture_output=True, text=True).stdout, flush=True)
ask()
sys.stdin.readline()
ask()
"""


@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("change, second", [(None, "200"), (["--none"], "403"), (["--allow", "other.test"], "403"),
                                            (["--allow", "RULE"], "200"), (["--allow", "RULE", "--block", "web.test"], "403")],
                         ids=["control", "none", "other", "same", "block"])
def test_the_rules_of_a_running_sandbox_are_replaced(env, server, tier, change, second):
    args = [BRIG, "run", "--tier", tier, "--allow", server.rule, "--", "python3", "-c", WAITER, server.url]
    process = subprocess.Popen(args, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "200\n"
    [run] = wait_for(lambda: runs(env))
    assert run["state"] == "running"
    if change:
        options = [server.rule if word == "RULE" else word for word in change]
        result = brig(env, "net", run["sandbox_id"], *options)
        assert result.returncode == 0, result
        assert "rules are in force" in result.stdout
    out, err = process.communicate("\n", timeout=60)
    assert out == f"{second}\n", err
    assert brig(env, "net", run["sandbox_id"], "--none").returncode == 125, "it has ended"


def test_a_run_whose_supervisor_was_killed_is_not_running(env, server):
    fetch = f"curl -sS {server.url}; exec sleep 600"
    run = subprocess.Popen([BRIG, "run", "-q", "--allow", server.rule, "--", "sh", "-c", fetch], env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        recorded = wait_for(lambda: runs(env))[0]
        assert recorded["state"] == "running"
        alive = json.loads(brig(env, "net", recorded["sandbox_id"], "--json").stdout)
        assert alive["state"] == "running"
    finally:
        run.kill()
        run.wait()
    assert [r["state"] for r in runs(env)] == ["gone"]
    gone = json.loads(brig(env, "net", recorded["sandbox_id"], "--json").stdout)
    assert gone["state"] == "gone" and {**gone, "state": 0}.keys() == {**alive, "state": 0}.keys()


def test_new_rules_need_a_run_and_a_rule(env):
    assert "which run" in brig(env, "net", "--allow", "x.org").stderr
    assert "--none" in brig(env, "net", "brig-0", "--block", "x.org").stderr
    assert "contradict" in brig(env, "net", "brig-0", "--none", "--allow", "x.org").stderr


# ---- brig proxy ----

def test_a_command_gets_the_variables_and_a_placeholder(env, server):
    env["REAL"] = SECRET
    script = f'curl -sS {server.url}x; curl -sS -o /dev/null http://evil.test/; env; exit 7'
    result = brig(env, "proxy", "--allow", server.rule, "--secret", f"TOKEN=env:REAL@{server.origin}", "--", "sh", "-c", script)
    assert result.returncode == 7, result
    assert result.stdout.startswith("hello\n")
    assert server.seen == [("/x", f"Bearer {SECRET}")]
    assert re.search(r"^TOKEN=brig_placeholder_\w+$", result.stdout, re.M)
    assert SECRET not in result.stdout + result.stderr
    assert "denied: GET http://evil.test:80: no rule for this host; add --allow evil.test:80" in result.stderr


@pytest.fixture
def serving(env, server):
    """Starts `brig proxy` and waits for its lines."""
    started = []

    def start(*options):
        process = subprocess.Popen([BRIG, "proxy", "--allow", server.rule, *options], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        line = process.stdout.readline()
        assert line.startswith("export HTTP_PROXY="), process.communicate()
        return process, line.strip().split("=", 1)[1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def curl(env, proxy, url):
    return subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-x", proxy, url], capture_output=True,
                          text=True, timeout=60, env={"PATH": env["PATH"]}).stdout


def test_it_serves_who_knows_the_password_until_it_is_interrupted(env, server, serving):
    process, proxy = serving()
    assert re.fullmatch(r"http://brig:[0-9a-f]{32}@127\.0\.0\.1:\d+", proxy)
    assert curl(env, proxy, server.url) == "200"
    assert curl(env, re.sub("brig:.*@", "", proxy), server.url) == "407"
    assert curl(env, re.sub("brig:.*@", "brig:wrong@", proxy), server.url) == "407"
    assert curl(env, proxy, "http://evil.test/") == "403"
    assert len(server.seen) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "evil.test" in err


def test_without_auth_everybody_is_served(env, server, serving):
    _, proxy = serving("--no-auth")
    assert "@" not in proxy
    assert curl(env, proxy, server.url) == "200"


def test_certificates_are_there_while_it_serves(env, serving, tmp_path):
    kept = tmp_path / "ca.pem"
    for options in ([], ["--ca", str(kept)]):
        process, _ = serving("--allow", "https://tls.test/x", *options)
        lines = [process.stdout.readline() for _ in range(5)]
        [path] = {line.strip().split("=", 1)[1] for line in lines if "SSL_CERT_FILE" in line and "NIX" not in line}
        assert "BEGIN CERTIFICATE" in Path(path).read_text()
        assert "PRIVATE" not in Path(path).read_text()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert Path(path).exists() == bool(options)


def test_json_tells_the_start_and_each_request(env, server):
    result = brig(env, "proxy", "--json", "--allow", server.rule, "--", "curl", "-sS", "-o", "/dev/null", server.url)
    start, event = map(json.loads, result.stdout.splitlines())
    assert start["environment"]["HTTP_PROXY"].endswith(f"@127.0.0.1:{start['port']}")
    assert (event["verdict"], event["host"], event["status"]) == ("allowed", "web.test", 200)


@pytest.mark.parametrize("args, part", [
    ([], "nothing is allowed"),
    (["--allow", "x.org", "--listen", "localhost:80"], "ADDRESS:PORT"),
    (["--allow", "x.org", "--listen", "127.0.0.1"], "ADDRESS:PORT"),
    (["--allow", "x.org", "--ca", "/tmp/x.pem"], "--ca"),
    (["--allow", "x.org", "true"], "after --"),
], ids=" ".join)
def test_mistakes_are_refused(env, args, part):
    result = brig(env, "proxy", *args)
    assert result.returncode == 125 and part in result.stderr, result


def test_a_command_that_is_not_there(env, server):
    assert brig(env, "proxy", "--allow", server.rule, "--", "/no/such/program").returncode == 127


# ---- brig secrets check ----

def test_each_source_is_asked_and_nothing_of_it_is_shown(env, tmp_path):
    env["REAL"] = SECRET
    good = tmp_path / "good"
    good.write_text(SECRET)
    good.chmod(0o600)
    open_to_all = tmp_path / "open"
    open_to_all.write_text(SECRET)
    open_to_all.chmod(0o644)
    sources = {"A": "env:REAL", "B": f"file:{good}", "C": f"cmd:cat {good}", "D": "env:MISSING", "E": f"file:{open_to_all}",
               "F": "cmd:false"}
    options = [word for name, source in sources.items() for word in ("--secret", f"{name}={source}@https://x.test")]
    result = brig(env, "secrets", "check", "--json", *options)
    assert result.returncode == 1, result
    report = json.loads(result.stdout)
    assert not report["ok"]
    assert {s["name"]: s["ok"] for s in report["secrets"]} == {"A": True, "B": True, "C": True, "D": False, "E": False, "F": False}
    assert all(bool(s["error"]) != s["ok"] for s in report["secrets"])
    text = brig(env, "secrets", "check", *options)
    assert text.returncode == 1
    assert SECRET not in result.stdout + result.stderr + text.stdout + text.stderr
    assert brig(env, "secrets", "check", *options[:6]).returncode == 0, "control: the good ones alone"


def test_secrets_of_a_policy_file(env, tmp_path):
    env["REAL"] = SECRET
    policy = tmp_path / "p.yaml"
    policy.write_text('credentials: {secrets: ["A=env:REAL@https://x.test"]}\n')
    result = brig(env, "secrets", "check", "--policy", policy)
    assert (result.returncode, result.stdout.split()) == (0, ["ok", "A", "env:REAL"]), result


def test_no_secret_is_a_mistake(env):
    result = brig(env, "secrets", "check")
    assert result.returncode == 125 and "no secret to check" in result.stderr
