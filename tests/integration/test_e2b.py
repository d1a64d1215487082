"""The published clients, unmodified, against a real `brig serve`, as root and as an ordinary user."""
import concurrent.futures
import importlib.util
import json
import os
import re
import secrets
import socket
import struct
import subprocess
import time
import urllib.parse
from pathlib import Path

import daemonlib
import npmlib
import pytest
from daemonlib import TOP, USERS, Daemon
from form import FULL


SCRIPTS = ["lifecycle", "commands", "pty", "files", "code", "pause", "ports", "network", "metrics", "notoffered"]


@pytest.fixture(scope="session")
def clients():
    return npmlib.install()


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param, built_in=True) as made:
        yield made


def run_script(daemon, clients, script):
    env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url,
           "E2B_API_KEY": daemon.key}
    return subprocess.run(["node", f"{script}.mjs"], cwd=clients, env=env, text=True, capture_output=True, timeout=900)


@pytest.fixture(scope="module")
def scripts(daemon, clients):
    """All of them: they wait more than they compute, and each has sandboxes of its own."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield {script: pool.submit(run_script, daemon, clients, script) for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS)
def test_client(daemon, scripts, script):
    said = scripts[script].result()
    failed = [line for line in said.stdout.splitlines() if line.startswith("FAILED")]
    assert said.returncode == 0 and not failed, said.stdout + said.stderr
    assert "ok " in said.stdout
    assert daemon.process.poll() is None


VERSIONS = ["oldest", "strict", "stricter", "newest", "code-oldest", "code-newest"]


@pytest.fixture(scope="session")
def versions():
    return npmlib.install("versions")


@pytest.mark.parametrize("daemon", USERS if FULL else USERS[:1], indirect=True)
@pytest.mark.parametrize("name", VERSIONS)
def test_every_version_of_the_client_takes_our_keys(daemon, versions, name):
    """2.27 to 2.45 refuse a key that is not e2b_ and hexadecimal digits before they ask anybody."""
    assert re.fullmatch("e2b_[0-9a-f]+", daemon.key)
    env = {"PATH": os.environ["PATH"], "HOME": str(versions), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url,
           "E2B_API_KEY": daemon.key}
    said = subprocess.run(["node", "versions.mjs", name], cwd=versions, env=env, text=True, capture_output=True, timeout=900)
    assert said.returncode == 0, said.stdout + said.stderr
    own = "checks the key itself" in said.stdout
    assert own == (name in ("strict", "stricter")), "control: a key of another form is refused where the client checks it"


def test_everything_ended_with_its_script(daemon):
    daemonlib.wait_for(lambda: not daemon.live(), what="no sandbox is left over")


# ---- names that are no text ----

def test_names_that_are_not_utf8(daemon, tmp_path):
    """Listed reversibly, and addressed by what was listed."""
    box = daemon.create()
    try:
        made = box.run("/bin/bash", "-c", r"mkdir -p $'d/\xfe'; printf 1 > $'d/a\xff'; ln -s $'a\xff' d/l; printf 2 > $'d/\uf7ff'")
        assert made.status == 0, made
        entries = {e["name"]: e for e in box.call("ListDir", {"path": "/home/user/d"}).json["entries"]}
        assert set(entries) == {"a\uf7ff", "\uf7fe", "l", "\uf7ef\uf79f\uf7bf"}, entries
        assert entries["l"]["symlinkTarget"] == "/home/user/d/a\uf7ff" and entries["l"]["type"] == "FILE_TYPE_FILE"
        assert entries["a\uf7ff"]["path"] == "/home/user/d/a\uf7ff"
        assert box.read(urllib.parse.quote("d/a\uf7ff")) == b"1" and box.read(urllib.parse.quote("d/\uf7ef\uf79f\uf7bf")) == b"2"
        box.write(urllib.parse.quote("d/\uf7fe/new\uf780"), b"3")
        assert box.call("Stat", {"path": "d/\uf7fe/new\uf780"}).json["entry"]["size"] == "1"
        assert box.call("Move", {"source": "d/\uf7fe/new\uf780", "destination": "d/moved\uf7ff"}).status == 200
        assert box.call("Remove", {"path": "d/a\uf7ff"}).status == 200
        assert box.run("/bin/bash", "-c", r"cat $'d/moved\xff'; test ! -e $'d/a\xff' && echo gone").out == b"3gone\n"
        # brig cp keeps the bytes, in both directions.
        os.mkdir(tmp_path / "out"), os.mkdir(tmp_path / "in")
        (tmp_path / "in" / "\udcfe\uf7ff").write_bytes(b"4")  # a byte that is no character, and a character that stands for one elsewhere
        tmp_path.chmod(0o777), (tmp_path / "out").chmod(0o777)
        for way in ([f"{box.id}:d", str(tmp_path / "out" / "d")], [str(tmp_path / "in"), f"{box.id}:back"]):
            told = subprocess.run([daemonlib.program(), "cp", "-r", "--host", daemon.url, *way], capture_output=True, text=True, cwd="/",
                                  env={"PATH": os.environ["PATH"], "BRIG_API_KEY": daemon.key}, timeout=300)
            assert told.returncode == 0, told
        assert set(os.listdir(os.fsencode(tmp_path / "out" / "d"))) == {b"moved\xff", b"\xfe", "\uf7ff".encode()}
        assert box.run("/bin/bash", "-c", r"cat $'back/\xfe\uf7ff'").out == b"4"
        # No slash and no dot can be hidden so: what is not a byte from 0x80 on is no escape.
        assert box.request("GET", "/files?path=" + urllib.parse.quote("d\uf72fmoved")).status == 404
    finally:
        box.kill()


# ---- what is not offered ----

def documented():
    """The paths of the table in docs/serve.md."""
    text = (TOP / "docs" / "serve.md").read_text().partition("| paths, with any method that brig has not | |")[2].partition("\n\n")[0]
    return re.findall(r"`(/[^`]+)`", text)


def test_what_is_not_offered_is_written_down():
    table = (TOP / "src" / "daemon" / "e2b" / "not_offered.c").read_text()
    assert documented() == re.findall(r'\{"(/[^"]+)", \w+\}', table)


def test_what_is_not_offered_says_so(daemon):
    """Never 404, whichever way it is asked for; and what nobody offers is still not found."""
    box = daemon.create()
    try:
        for pattern in documented():
            path = re.sub(r"{\w+}", "a1", pattern)
            for method in ("GET", "POST", "PATCH", "DELETE"):
                if (method, pattern) in {("GET", "/templates"), ("GET", "/v2/templates"), ("DELETE", "/templates/{id}")}:
                    continue  # these are there
                ask = box.request if path in ("/files/compose", "/metrics") else daemon.request
                told = ask(method, path, {} if method in ("POST", "PATCH") else None)
                assert told.status == 501 and told.json["code"] == 501 and len(told.json["message"]) > 20, (method, path, told)
        for body in ({"volumeMounts": [{"name": "v", "path": "/v"}]}, {"mcp": {"a": {}}}, {"iam": {"tokens": {"a": {}}}},
                     {"network": {"rules": {"a.org": []}, "egressProxy": {"address": "a:1"}}}, {"network": {"httpsPorts": [1]}}):
            assert daemon.request("POST", "/sandboxes", {"templateID": "base", **body}).status == 501, body
        told = daemon.request("GET", "/sandboxes/metrics?sandbox_ids=a,b")
        assert told.status == 501 and "/sandboxes/{id}/metrics" in told.json["message"], told
        assert daemon.request("GET", "/nonesuch").status == 404 and daemon.request("PATCH", "/sandboxes").status == 405
        assert daemon.request("GET", "/volumes", key="e2b_" + "0" * 40).status == 401, "who has no key learns nothing"
    finally:
        box.kill()


# ---- names of ports ----

OPEN = {"open.yaml": "ports: public\npool: {max: 0}\n", "closed.yaml": "ports: private\npool: {max: 0}\n"}


@pytest.mark.parametrize("user", USERS)
def test_ports_below_a_domain_and_whose_they_are(user):
    """The domain of answers is what the operator said; a template says whether ports are public, and a request has the last word."""
    with Daemon(user, "--domain", "sandboxes.test:8443", templates=OPEN) as daemon:
        def made(template, **network):
            told = daemon.request("POST", "/sandboxes", {"templateID": template, **({"network": network} if network else {})})
            assert told.status == 201 and told.json["domain"] == "sandboxes.test:8443", told
            return told.json["sandboxID"]

        def status(box, host="{}.sandboxes.test:8443"):
            return daemon.request("GET", "/", headers={"Host": host.format(f"3000-{box}")}, key=None).status

        assert status(made("open")) == 502, "public: nobody listens there"
        assert status(made("open", allowPublicTraffic=False)) == 403
        assert status(made("closed")) == 403
        box = made("closed", allowPublicTraffic=True)
        assert status(box) == 502 and status(box, "{}.localhost") == 502
        assert daemon.request("PUT", f"/sandboxes/{box}/network", {"allowPublicTraffic": False}).status == 400, "never dropped"
        assert daemon.request("GET", "/version", headers={"Host": "api.sandboxes.test"}).status == 200
        assert status(box, "{}.other.test") == 403, "control: a name that is not ours"
        assert daemon.request("GET", f"/sandboxes/{box}").json["domain"] == "sandboxes.test:8443"


def test_a_word_that_closes_is_never_ignored(daemon):
    """Who asks for no network gets none, at whichever level the word stands, or is told that it was no such word."""
    def hosts(box):
        return daemon.request("GET", f"/sandboxes/{box}").json["network"]["allowOut"]

    told = daemon.request("POST", "/sandboxes", {"network": {"allowOut": ["a.example"], "allow_internet_access": False}})
    assert told.status == 201 and hosts(told.json["sandboxID"]) == [], told
    box = daemon.request("POST", "/sandboxes", {"network": {"allowOut": ["a.example"]}}).json["sandboxID"]
    assert hosts(box) == ["a.example"], "control"
    path = f"/sandboxes/{box}/network"
    assert daemon.request("PUT", path, {"allowOut": ["a.example"], "allow_internet_access": "false"}).status == 400
    assert daemon.request("PUT", path, {"allowOut": ["a.example"], "allow_internet_access": False}).status == 204
    assert hosts(box) == []
    for one in (told.json["sandboxID"], box):
        assert daemon.request("DELETE", f"/sandboxes/{one}").status == 204


def test_pause_at_the_end_as_connect_says(daemon):
    """Older clients say it with each connect and resume; one that says nothing changes nothing."""
    box = daemon.request("POST", "/sandboxes", {"templateID": "base", "timeout": 300, "autoPauseMemory": True}).json["sandboxID"]
    at = f"/sandboxes/{box}"

    def at_the_end():
        return daemon.request("GET", at).json["lifecycle"]["onTimeout"]

    assert at_the_end() == "kill"
    for path, body, status, then in (("connect", {"autoPause": True}, 200, "pause"), ("connect", {}, 200, "pause"),
                                     ("connect", {"autoPause": False}, 200, "kill"), ("resume", {"autoPause": True}, 409, "kill"),
                                     ("connect", {"autoPause": "yes"}, 400, "kill"), ("connect", {"memory": False}, 501, "kill")):
        assert daemon.request("POST", f"{at}/{path}", {"timeout": 300} | body).status == status, (path, body)
        assert at_the_end() == then, (path, body)
    assert daemon.request("POST", f"{at}/pause").status == 204
    assert daemon.request("POST", f"{at}/resume", {"timeout": 300, "autoPause": True}).status == 201 and at_the_end() == "pause"
    assert daemon.request("DELETE", at).status == 204
    told = daemon.request("POST", "/sandboxes", {"templateID": "base", "autoPause": True, "autoPauseMemory": False})
    assert told.status == 501 and "with its memory" in told.json["message"], told


@pytest.mark.parametrize("bad", ["", "a b", "127.0.0.1", "localhost", "http://a.org", "a.org/x"])
def test_a_domain_is_a_name(bad):
    said = subprocess.run([daemonlib.program(), "serve", "--domain", bad], capture_output=True, text=True, timeout=300)
    assert said.returncode == 125 and "--domain" in said.stderr, said


# ---- the smallest face ----


def dify(daemon, body, key=True):
    return daemon.request("POST", "/v1/sandbox/run", body, key=key)


def test_dify_runs_python(daemon):
    told = dify(daemon, {"language": "python3", "code": "print('hi'); import sys; print('e', file=sys.stderr)",
                         "preload": "", "enable_network": False})
    assert told.status == 200
    assert told.json == {"code": 0, "message": "success",
                         "data": {"stdout": "hi\n", "stderr": "e\n", "error": "", "exit_code": 0}}


def test_dify_runs_node(daemon):
    told = dify(daemon, {"language": "nodejs", "code": "console.log(6 * 7)"}).json
    assert told["code"] == 0 and told["data"]["stdout"] == "42\n" and told["data"]["error"] == ""


@pytest.mark.parametrize("code, status, word", [("1/0", 1, "ZeroDivisionError"), ("import sys; sys.exit(3)", 3, "code 3")])
def test_dify_says_how_code_failed(daemon, code, status, word):
    data = dify(daemon, {"language": "python3", "code": code}).json["data"]
    assert data["exit_code"] == status
    assert data["error"].startswith(f"process exited with code {status}") and word in data["error"]


def test_dify_uses_a_new_sandbox_each_time(daemon):
    dify(daemon, {"language": "python3", "code": "open('/tmp/left', 'w').write('x'); kept = 1"})
    data = dify(daemon, {"language": "python3", "code": "import os; print(os.path.exists('/tmp/left'), 'kept' in globals())"})
    assert data.json["data"]["stdout"] == "False False\n"
    daemonlib.wait_for(lambda: not daemon.live(), what="none of them lives on")


def test_dify_ends_what_runs_too_long(daemon):
    data = dify(daemon, {"language": "python3", "code": "print('begun', flush=True)\nwhile True: pass"}).json["data"]
    assert data["exit_code"] != 0 and "longer" in data["error"] and data["stdout"] == "begun\n"
    daemonlib.wait_for(lambda: not daemon.live(), what="it ended")


def test_dify_bounds_output(daemon):
    data = dify(daemon, {"language": "python3", "code": "print('x' * 3000000)"}).json["data"]
    assert data["truncated"] is True and 0 < len(data["stdout"]) <= 1 << 20


def test_dify_refuses(daemon):
    assert dify(daemon, {"language": "python3", "code": "1"}, key=None).status == 401
    assert dify(daemon, {"language": "python3", "code": "1"}, key="dify-sandbox").status == 401
    assert dify(daemon, {"language": "cobol", "code": "1"}).json["code"] == -400
    assert dify(daemon, {"language": "python3"}).json["code"] == -400
    assert dify(daemon, "nonsense").json["code"] == -400


def test_dify_health_and_packages(daemon):
    assert daemon.request("GET", "/health", key=None).json == "ok"
    told = daemon.request("GET", "/v1/sandbox/dependencies?language=python3").json
    assert isinstance(told["data"]["dependencies"], list)


# ---- what has no client ----


def test_polling_watchers(daemon):
    """As the Python client watches: create, ask, remove."""
    box = daemon.create()
    box.sh("mkdir w")
    made = box.call("CreateWatcher", {"path": "w", "recursive": False})
    assert made.status == 200, made
    watcher = {"watcherId": made.json["watcherId"]}
    assert box.call("GetWatcherEvents", watcher).json == {"events": []}
    box.sh("echo 1 > w/a; rm w/a")
    seen = []

    def events():
        seen.extend(box.call("GetWatcherEvents", {"watcher_id": watcher["watcherId"]}).json["events"])
        return {"name": "a", "type": "EVENT_TYPE_REMOVE"} in seen

    daemonlib.wait_for(events, what="the removal is told")
    assert {"name": "a", "type": "EVENT_TYPE_CREATE"} in seen
    other = daemon.create()
    assert other.call("GetWatcherEvents", watcher).status == 404, "a watcher belongs to its sandbox"
    assert box.call("RemoveWatcher", watcher).status == 200
    assert box.call("GetWatcherEvents", watcher).status == 404
    assert box.call("CreateWatcher", {"path": "nothing"}).json["code"] == "not_found"
    box.kill(), other.kill()


def test_own_routes(daemon):
    assert json.loads(daemon.request("GET", "/version").body)["version"]
    assert daemon.metric("brig_requests_total") > 0
    pools = daemon.request("GET", "/pools").json
    assert {"base", "python", "node"} <= {p["template"] for p in pools}
    assert daemon.request("PUT", "/pools/base", {"min": 2, "max": 1}).status == 400
    assert daemon.request("PUT", "/pools/nothing", {"min": 0, "max": 1}).status == 404
    assert daemon.request("PUT", "/pools/small", {"min": 0, "max": 3}).status == 204
    assert next(p for p in daemon.request("GET", "/pools").json if p["template"] == "small")["max"] == 3
    assert isinstance(daemon.request("GET", "/anomalies").json, (list, dict))
    assert {t["templateID"] for t in daemon.request("GET", "/templates").json} >= {"base", "python", "node", "small"}
    assert daemon.request("GET", "/templates/aliases/code-interpreter-v1").status == 200
    assert daemon.request("GET", "/templates/aliases/nothing").status == 404


def test_exec_says_what_was_refused(daemon):
    box = daemon.create()
    try:
        command = [daemonlib.program(), "exec", "--host", daemon.url, box.id, "--", "curl", "-sS", "-m", "60"]
        env = {"PATH": os.environ["PATH"], "BRIG_API_KEY": daemon.key}
        told = subprocess.run([*command, "https://pypi.org/"], capture_output=True, text=True, cwd="/", env=env, timeout=300)
        assert told.returncode == 6 and "brig exec: denied: network: look up pypi.org: " in told.stderr and "@pypi" in told.stderr, told
        told = subprocess.run([*command, "nonsense://"], capture_output=True, text=True, cwd="/", env=env, timeout=300)
        assert told.returncode != 0 and "denied" not in told.stderr, "the control: its own fault"
    finally:
        box.kill()


def test_words_that_name_the_next_step(daemon):
    """What cannot be done says what can, and input that is too long is no reason to come again later."""
    box = daemon.create()
    try:
        told = box.request("POST", "/files?path=/data/x", b"x", headers={"Content-Type": "application/octet-stream"})
        assert told.status == 403 and "writable_root: true" in told.json["message"], told
        told = box.request("POST", "/files?path=/tmp/x", b"x", headers={"Content-Type": "application/octet-stream"})
        assert told.status == 200 and told.json == [{"name": "x", "type": "file", "path": "/tmp/x"}], "no metadata, no word of it"
        told = daemon.request("POST", "/sandboxes", {"templateID": "nonesuch"})
        assert told.status == 404 and "GET /templates" in told.json["message"], told
        told = daemon.request("POST", "/sandboxes", {"templateID": "base", "envVars": {"A": "x" * 70000}})
        assert told.status == 400 and "envVars" in told.json["message"] and "Retry-After" not in told.headers, told
        for body, word in (({"mcp": {"a": {}}}, "brig mcp --wrap"), ({"volumeMounts": [{"name": "v", "path": "/v"}]}, "--project"),
                           ({"iam": {"tokens": {"a": {}}}}, "credentials.secrets"), ({"network": {"httpsPorts": [1]}}, "without TLS")):
            told = daemon.request("POST", "/sandboxes", {"templateID": "base", **body})
            assert told.status == 501 and word in told.json["message"], told
        names = [t["templateID"] for t in daemon.request("GET", "/v2/templates").json]
        assert names == [t["templateID"] for t in daemon.request("GET", "/templates").json] and "base" in names
    finally:
        box.kill()


@pytest.mark.parametrize("name", ["plain.txt", "two words", 'q"; x=y', "é😀%", "a\r\nX-Own: 1"])
def test_a_download_has_its_name_and_no_other_header(daemon, name):
    box = daemon.create()
    try:
        box.write(urllib.parse.quote(f"d/{name}"), b"x")
        told = box.request("GET", "/files?path=" + urllib.parse.quote(f"d/{name}"))
        assert told.status == 200 and told.body == b"x" and "X-Own" not in told.headers
        kind, _, given = told.headers["Content-Disposition"].partition("; filename*=UTF-8''")
        assert kind == "attachment" and re.fullmatch("[A-Za-z0-9._~%-]+", given) and urllib.parse.unquote(given) == name, told.headers
    finally:
        box.kill()


def test_logs_of_processes(daemon):
    box = daemon.create()
    told = box.sh("echo kept; exit 4")
    text = daemon.request("GET", f"/sandboxes/{box.id}/logs?pid={told.pid}")
    assert text.body == b"kept\n"
    every = daemon.request("GET", f"/sandboxes/{box.id}/logs?format=text").body
    assert b"kept\n" in every and b"exit status 4" in every
    assert daemon.request("GET", f"/sandboxes/{box.id}/logs?pid=99999").status == 404
    box.kill()


def test_logs_as_the_clients_read_them(daemon):
    """E2B's command line parses every line, and each must have a level."""
    box = daemon.create()
    box.sh("echo said by the program; exit 4")
    box.sh("true")
    told = daemon.request("GET", f"/sandboxes/{box.id}/logs").json
    lines = [json.loads(entry["line"]) for entry in told["logs"]]
    assert [(line["level"], line["event_type"]) for line in lines] == [
        ("info", "process_start"), ("warn", "process_end"), ("info", "process_start"), ("info", "process_end")], lines
    assert lines[1]["result"] == "exit status 4" and "exit 4" in lines[0]["command"]
    assert [e["message"] for e in told["logEntries"]] == [line["message"] for line in lines]
    times = [e["timestamp"] for e in told["logs"]]
    assert times == sorted(times) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", t) for t in times)
    assert not any("result" in line and "said by" in line["message"] for line in lines), "how it ended, not what it said"

    def second(query):
        return daemon.request("GET", f"/v2/sandboxes/{box.id}/logs{query}")

    assert [e["fields"]["event_type"] for e in second("").json["logs"]] == ["process_end", "process_start"] * 2, "the newest first"
    assert second("?direction=forward").json["logs"] == told["logEntries"]
    assert [e["message"] for e in second("?level=warn").json["logs"]] == [lines[1]["message"]]
    assert len(second("?limit=1").json["logs"]) == 1 and second("?search=nonesuch").json == {"logs": []}
    assert second("?cursor=1").json == {"logs": []} and second("?cursor=1&direction=forward").json == second("?direction=forward").json
    for bad in ("?direction=up", "?level=x", "?limit=1001", "?cursor=x", "?search=" + "x" * 300):
        assert second(bad).status == 400, bad
    assert daemon.request("GET", f"/sandboxes/{box.id}/logs?start=9999999999999").json == {"logs": [], "logEntries": []}
    assert daemon.request("GET", f"/sandboxes/{box.id}/logs?format=xml").status == 400
    box.kill()
    assert daemon.request("GET", f"/sandboxes/{box.id}/logs").status == 404


def test_templates_say_since_when(daemon):
    for t in daemon.request("GET", "/templates").json:
        assert re.match(r"20\d\d-\d\d-\d\dT", t["createdAt"]) and t["createdAt"] <= t["updatedAt"], t
        assert {"buildID", "names", "spawnCount", "buildCount", "createdBy", "lastSpawnedAt"} <= set(t), t


def test_a_revoked_key_takes_along_what_its_sandboxes_have(daemon):
    """Tokens and open ports end with the key; the operator still gets there."""
    key = daemon.add_key("leaked")
    box = daemon.create(key=key, network={"allowPublicTraffic": True})

    def port():
        return daemon.request("GET", "/", headers={"Host": f"3000-{box.id}.localhost"}, key=None).status

    assert box.request("GET", "/files?path=/etc/hostname").status == 200 and port() == 502, "control"
    daemon.keys("revoke", "leaked")
    daemonlib.wait_for(lambda: daemon.request("GET", "/v2/sandboxes", key=key).status == 401, what="the key is revoked")
    assert box.request("GET", "/files?path=/etc/hostname").status == 401 and port() == 403
    assert daemon.request("GET", f"/sandboxes/{box.id}").status == 200
    assert daemon.request("GET", "/files?path=/etc/hostname", headers={"E2b-Sandbox-Id": box.id}).status == 200
    assert daemon.request("DELETE", f"/sandboxes/{box.id}").status == 204


def test_a_list_of_processes_with_many_words(daemon):
    """Written a few at a time, and whole: six times as long as the words are."""
    box = daemon.create()
    word = "\x01" * 20000
    running = [box.begin("/bin/sh", "-c", "exec sleep 600", word)[0] for _ in range(20)]
    try:
        told = []

        def all_there():
            answer = box.call("List", {}, service="process.Process")
            assert answer.status == 200
            told[:] = answer.json["processes"]
            return len(told) == 20

        daemonlib.wait_for(all_there, what="all of them are listed")
        assert len({p["pid"] for p in told}) == 20 and all(p["config"]["args"][-1] == word for p in told)
        running.pop().close()
        assert box.call("SendSignal", {"process": {"pid": told[0]["pid"]}, "signal": "SIGNAL_SIGKILL"}, service="process.Process").status == 200
        daemonlib.wait_for(lambda: len(box.call("List", {}, service="process.Process").json["processes"]) == 19, what="one has ended")
    finally:
        for one in running:
            one.close()
        assert box.kill() == 204


# A port whose queue is full: who connects waits.
FULL_QUEUE = b"""
import socket, time
server = socket.socket()
server.bind(("127.0.0.1", 8000))
server.listen(0)
own = [socket.socket() for _ in range(3)]
for one in own:
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", 8000))
open("/home/user/full", "w")
time.sleep(600)
"""


def test_visitors_do_not_keep_the_owner_from_stopping(daemon):
    """Without a key, on a public port: each of them has the sandbox's init wait for a connection."""
    box = daemon.create(network={"allowPublicTraffic": True})
    box.write("full.py", FULL_QUEUE)
    open_ones = [box.begin("python3", "/home/user/full.py")[0]]
    try:
        daemonlib.wait_for(lambda: box.request("GET", "/files?path=full").status == 200, what="the queue is full")
        for _ in range(300):
            open_ones.append(socket.create_connection(("127.0.0.1", daemon.port), timeout=60))
            open_ones[-1].sendall(f"GET / HTTP/1.1\r\nHost: 8000-{box.id}.localhost\r\n\r\n".encode())
        connection, response = box.begin("sleep", "600", timeout_ms=500)
        open_ones.append(connection)
        assert b"deadline_exceeded" in response.read(), "a time limit holds"
        assert daemon.request("POST", f"/sandboxes/{box.id}/pause").status == 204
        assert box.info().json["state"] == "paused"
        assert daemon.request("POST", f"/sandboxes/{box.id}/resume", {"timeout": 300}).status == 201
    finally:
        for one in open_ones:
            one.close()
        assert box.kill() == 204


def test_a_cell_has_the_sandboxs_variables_whatever_else_it_is_given(daemon):
    """Six times as long when it is written down: it must not push the others out."""
    box = daemon.create("python", envVars={"MINE": "here"})
    try:
        for value in ("a" * 60000, "\x01" * 60000):
            told = box.execute("import os; print(os.environ.get('MINE'), os.environ.get('E2B_SANDBOX'), len(os.environ['X']))", env_vars={"X": value})
            assert [line["text"] for line in told if line["type"] == "stdout"] == ["here true 60000\n"], told
    finally:
        assert box.kill() == 204


TICKS = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.1)\n"
# Answers every connection with ticks: chunks, or what follows an upgrade.
SERVER = """
import socket, threading, time
def serve(s):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += s.recv(65536)
    upgrade = b"upgrade: websocket" in head.lower()
    s.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n" if upgrade
              else b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
    while True:
        s.sendall(b"\\x81\\x04tick" if upgrade else b"4\\r\\ntick\\r\\n")
        time.sleep(0.1)
listener = socket.create_server(("127.0.0.1", 3000))
print("listens", flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"""


class Stream:
    """An answer that stays open, as bytes."""

    def __init__(self, daemon, method, path, headers, body=b"", wait=True):
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        head = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *[f"{name}: {value}" for name, value in head.items()], "", ""]
        self.socket.sendall("\r\n".join(lines).encode() + body)
        if wait:
            self.begin()

    def begin(self):
        """Waits for its first words; a call that takes long says that it goes on every few seconds."""
        self.first = self.socket.recv(65536)
        assert self.first.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")), self.first

    def lives(self):
        """Something comes, and then something more."""
        self.socket.settimeout(60)
        return all(self.socket.recv(65536) for _ in range(3))

    def is_quiet(self):
        """Open, with nothing to say."""
        self.socket.settimeout(0)
        try:
            while self.socket.recv(65536):
                pass
        except BlockingIOError:
            return True
        return False

    def ended(self):
        end = time.monotonic() + 60
        self.socket.settimeout(60)
        try:
            while self.socket.recv(65536):
                if time.monotonic() > end:
                    return False  # it goes on talking
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


def open_all(daemon, box, key):
    """Everything that can stay open: by the sandbox's token, by the key, and by nothing at all."""
    code = json.dumps({"code": TICKS, "language": "python"}).encode()
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"command": "sleep 600"}, "_meta": {"progressToken": 1}}}).encode()
    connect = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
    watch = json.dumps({"path": "/home/user"}).encode()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": "13"}
    own, port = box.headers(), box.headers(3000)
    by_key = {name: value for name, value in own.items() if name != "X-Access-Token"} | {"X-API-KEY": key}
    named = {"Host": f"3000-{box.id}.localhost"}
    ticks = box.start_body(["python3", "-c", TICKS])

    def begun(*words):
        return Stream(daemon, *words, wait=False)

    talking, quiet = {
        "process": begun("POST", "/process.Process/Start", own | connect, ticks),
        "process-by-key": begun("POST", "/process.Process/Start", by_key | connect, ticks),
        "execute": begun("POST", "/execute", box.headers(49999), code),
        "port": begun("GET", "/", port),
        "port-by-name": begun("GET", "/", named),
        "websocket": begun("GET", "/", port | upgrade),
        "websocket-by-name": begun("GET", "/", named | upgrade),
    }, {
        "watch": begun("POST", "/filesystem.Filesystem/WatchDir", own | connect, struct.pack(">BI", 0, len(watch)) + watch),
        "events": begun("GET", "/events", {"X-API-KEY": key}),
        "mcp": begun("POST", "/mcp", {"X-API-KEY": key, "Content-Type": "application/json", "MCP-Protocol-Version": "2025-06-18",
                                      "Accept": "application/json, text/event-stream"}, call),
    }
    for stream in (*talking.values(), *quiet.values()):
        stream.begin()
    return talking, quiet


def start_server(box):
    connection, answer = box.begin("python3", "-c", SERVER)
    told = b""
    while b"bGlzdGVucw" not in told:  # "listens"
        piece = answer.read1(65536)
        assert piece, told
        told += piece
    return connection


def test_what_a_key_has_opened_ends_with_it(daemon):
    """DM-8: streams, WebSockets, ports, events and calls are cut when their key is revoked; those of other keys go on, and so
    do the operator's in the same sandbox."""
    leaked = "leaked-" + secrets.token_hex(4)
    keys = {"leaked": daemon.add_key(leaked), "kept": daemon.add_key("kept-" + secrets.token_hex(4))}
    boxes = {name: daemon.create("python", key=key, network={"allowPublicTraffic": True}) for name, key in keys.items()}
    held = [start_server(box) for box in boxes.values()]
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            made = pool.map(open_all, [daemon] * 3, [boxes["leaked"], boxes["kept"], boxes["leaked"]], [*keys.values(), daemon.key])
        of_leaked, of_kept, (operators, _) = made
        opened = {"leaked": of_leaked, "kept": of_kept}
        for talking, quiet in opened.values():
            assert all(s.lives() for s in talking.values()) and all(s.is_quiet() for s in quiet.values()), "control"
        daemon.keys("revoke", leaked)
        for name, stream in {**opened["leaked"][0], **opened["leaked"][1]}.items():
            assert stream.ended(), name
        for name in ("process", "execute", "port", "websocket"):
            assert operators[name].ended(), f"{name}: the sandbox's own token ends with its key, whoever shows it"
        assert operators["process-by-key"].lives(), "the operator's key is good"
        talking, quiet = opened["kept"]
        assert [name for name, s in talking.items() if not s.lives()] == []
        assert [name for name, s in quiet.items() if not s.is_quiet()] == []
        assert daemon.process.poll() is None
    finally:
        for connection in held:
            connection.close()
        for box in boxes.values():
            box.kill()


def test_an_operator_who_was_revoked_sees_nothing_of_others_any_more(daemon):
    name = "boss-" + secrets.token_hex(4)
    key = json.loads(daemon.keys("add", name, "--operator", "--json"))["key"]
    daemonlib.wait_for(lambda: daemon.request("GET", "/v2/sandboxes", key=key).status == 200, what="the key is known")
    box = daemon.create(key=daemon.add_key("tenant-" + secrets.token_hex(4)))
    connect = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
    ticks = box.start_body(["python3", "-c", TICKS])
    try:
        mine = Stream(daemon, "POST", "/process.Process/Start", {"E2b-Sandbox-Id": box.id, "X-API-KEY": key} | connect, ticks)
        own = Stream(daemon, "POST", "/process.Process/Start", box.headers() | connect, ticks)
        assert mine.lives() and own.lives()
        daemon.keys("revoke", name)
        assert mine.ended() and own.lives()
    finally:
        box.kill()


# ---- what was refused to a cell ----

RULED = {"ruled.json": json.dumps({"interpreter": "python", "policy": {"network": {"allow": ["http://allowed.test=127.0.0.1"]}}})}
MOUNT = "import ctypes, os\nif ctypes.CDLL(None, use_errno=True).mount(b'none', b'/mnt', b'tmpfs', 0, None): raise OSError(ctypes.get_errno(), 'mount')"


def error_of(box, code):
    return next((line for line in box.execute(code) if line["type"] == "error"), None)


def quiet_cells(box):
    """A cell that does not fail says on stderr what was refused to it, each time anew; and the next one that fails is not told of it."""
    for _ in range(3):
        lines = box.execute("import subprocess\nsubprocess.call(['curl', '-sS', '-m', '60', 'https://quiet.test/'])")
        assert not [line for line in lines if line["type"] == "error"], lines
        told = "".join(line["text"] for line in lines if line["type"] == "stderr")
        assert "curl: " in told and "brig: denied: network: " in told and "quiet.test" in told.partition("brig: denied: ")[2], lines
        assert lines[-1]["type"] == "end_of_execution", lines
        assert error_of(box, "raise ValueError('own')")["value"] == "own", "the control: its own fault"
        assert [line["type"] for line in box.execute("1")] == ["number_of_executions", "result", "end_of_execution"], "nothing was refused"


@pytest.mark.parametrize("user", USERS)
def test_an_error_of_a_cell_says_what_was_refused(user):
    """Each error has what was refused while its cell ran, however late the refusal is told; and nothing of another's."""
    with Daemon(user, templates=RULED) as daemon:
        ruled, bare = daemon.create("ruled"), daemon.create("python")
        for n in range(12 if FULL else 4):
            name = f"host{n}.denied.test"
            for box, how in ((ruled, f"http://{name}/"), (ruled, f"https://{name}/"), (bare, f"https://{name}/")):
                told = error_of(box, f"import urllib.request\nurllib.request.urlopen('{how}', timeout=60).read()")
                for part in ("value", "traceback"):
                    words = told[part][told[part].index("denied: network: "):]
                    assert name in words and not any(f"host{m}.denied.test" in words for m in range(n)), told
        assert "denied: filesystem: mount: " in error_of(bare, MOUNT)["value"]
        fetch = "import urllib.request\nurllib.request.urlopen('https://dify.test/', timeout=60)"
        told = dify(daemon, {"language": "python3", "code": fetch}).json["data"]
        assert "denied: network: " in told["error"] and "dify.test" in told["error"].rpartition("denied: ")[2], told
        told = dify(daemon, {"language": "python3", "code": "raise ValueError('mine')"}).json["data"]
        assert "mine" in told["error"] and "denied" not in told["error"], "the control: its own fault"
        told = error_of(ruled, "raise ValueError('mine')")
        assert told["value"] == "mine" and "denied" not in told["traceback"], "the control: its own fault"
        quiet_cells(ruled), quiet_cells(bare)
        failed = ruled.run("python3", "-c", "import urllib.request; urllib.request.urlopen('http://process.test/')")
        assert "process.test" in failed.events[-1]["event"]["end"]["error"], failed.events[-1]


def test_how_often_others_use_a_template_is_not_told(daemon):
    def spawned(key):
        return sum(t["spawnCount"] for t in daemon.request("GET", "/templates", key=key).json)

    before = spawned(True)
    daemon.create().kill()
    assert spawned(True) == before + 1
    assert spawned(daemon.add_key("curious")) == 0


def test_audit_is_asked_for(daemon):
    box = daemon.create()
    box.sh("true")
    box.kill()

    def kinds():
        told = daemon.request("GET", f"/audit?box={box.id}&limit=100").json
        found = {record["kind"] for record in told["records"]}
        return found if "box.ended" in found or "box.gone" in found else None

    found = daemonlib.wait_for(kinds, what="its records")
    assert any(kind.startswith("process.") for kind in found), found
    assert daemon.request("GET", "/audit/verify").json["good"] is True
    assert daemon.request("GET", "/audit?limit=x").status == 400


def test_a_start_that_fails_says_why(daemon):
    box = daemon.create()
    told = box.run("/no/such/program")
    assert told.error["code"] == "not_found" and "/no/such/program" in told.error["message"]
    box.sh("echo text > /tmp/plain")
    told = box.run("/tmp/plain")
    assert told.error["code"] == "permission_denied", told.error
    box.kill()


def test_the_unix_socket_serves_the_same(daemon):
    said = subprocess.run(["curl", "-sS", "--unix-socket", str(daemon.socket), "-H", f"X-API-KEY: {daemon.key}",
                           "http://localhost/version"], capture_output=True, text=True, timeout=120)
    assert "version" in said.stdout, said
    assert oct(Path(daemon.socket).stat().st_mode & 0o777) == "0o600"


# ---- the built-in Python template ----

def test_the_template_has_matplotlib_loaded(daemon):
    """What must have a folder to write to is loaded all the same, whole, and its clones draw."""
    if not importlib.util.find_spec("matplotlib"):
        pytest.skip("matplotlib is not installed")

    def drawn():
        box = daemon.create("python")
        try:
            said = box.execute("import sys\nprint('matplotlib.pyplot' in sys.modules)\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
            warm = [line["text"] for line in said if line["type"] == "stdout"] == ["True\n"]
            known = box.execute("sys.modules['brig_charts'].own.MEASURED['proven']") if warm else []
        finally:
            box.kill()
        assert not [line for line in said if line["type"] == "error"], said
        assert [line["chart"]["type"] for line in said if line["type"] == "result"] == ["line"], said
        # A clone knows that it need not draw a figure before it measures it.
        assert not warm or [line["text"] for line in known if line["type"] == "result"] == ["True"], known
        return warm

    daemonlib.wait_for(drawn, seconds=240, what="a clone that has it")  # on a busy machine it takes a minute to load
