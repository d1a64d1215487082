"""`brig serve` itself: its folder, key and sockets, its templates, how it starts and how it ends."""
import hashlib
import json
import os
import re
import secrets
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from helpers import CALLERS, IS_ROOT, PUBLIC, ROOT, below, wait_for
from servelib import Failed, Gone, Left, Serve


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def caller(request):
    return request.param


@pytest.fixture
def serve(caller):
    with Serve(caller) as made:
        yield made


@pytest.fixture
def folder(caller):
    with tempfile.TemporaryDirectory(prefix="test-brig-state-") as name:
        os.chown(name, caller.uid, -1)
        os.chmod(name, 0o700)
        yield Path(name)


def brig_serve(caller, *options, **kwargs):
    """A start that is expected to fail at once."""
    return subprocess.run(caller.outside(str(PUBLIC / "brig"), "serve", *map(str, options)), capture_output=True, text=True,
                          timeout=120, cwd="/", stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]}, **kwargs)


# ---- what the front gets ----

def test_hello(serve):
    hello = serve.hello
    assert re.fullmatch(r"\d+\.\d+\.\d+", hello["version"]) and hello["state"] == str(serve.state)
    templates = {t["name"]: t for t in hello["templates"]}
    assert {"base", "python", "node"} <= set(templates)
    assert templates["python"]["aliases"] == ["code-interpreter-v1"]
    for t in templates.values():
        assert (t["cpus_milli"], t["memory"], t["disk"], t["pids"]) == (2000, 1024 << 20, 512 << 20, 256)
        assert t["pool"]["min"] <= t["pool"]["max"] and t["policy_hash"].startswith("sha256:")
    assert [entry["kind"] for entry in hello["listeners"]] == ["unix", "tcp"]


def test_the_front_has_its_sockets_and_nothing_else(serve):
    arguments, fds, environment = serve.front
    assert arguments == ["unix", "tcp"] and not environment
    assert [fd for fd in fds if fd < 100][:7] == [0, 1, 2, 3, 4, 5, 6]
    assert len(fds) == 9  # the relay's own connection, and the listing


def test_the_key_is_made_once_and_only_its_hash_goes_on(caller, folder):
    key = folder / "my.key"
    for new in (True, False):
        with Serve(caller, "--key-file", str(key)) as serve:
            text = key.read_text().strip()
            assert re.fullmatch("e2b_[0-9a-f]{40}", text)
            assert stat.S_IMODE(key.stat().st_mode) == 0o600 and key.stat().st_uid == caller.uid
            told = serve.hello["operator_key"]
            assert told["hash"] == hashlib.sha256(text.encode()).hexdigest() and told["id"].startswith("k_")
            assert text not in json.dumps(serve.hello)
            line = serve.say_ready()
            status, out, err = serve.stop()
        if new:
            first = text
        assert text == first and text not in line + out + err  # not a terminal: it is not shown


@pytest.mark.parametrize("text", ["e2b_" + "0123456789abcdef" * 2, "e2b_" + "0123456789abcdef" * 6, "brig_" + "aB3-_" * 8 + "xyz"])
def test_a_key_that_the_operator_brings(caller, folder, text):
    """Any that E2B's clients accept and nobody guesses; and those of an earlier brig."""
    key = folder / "own.key"
    key.write_text(text + "\n")
    os.chown(key, caller.uid, -1)
    os.chmod(key, 0o600)
    with Serve(caller, "--key-file", str(key)) as serve:
        assert serve.hello["operator_key"]["hash"] == hashlib.sha256(text.encode()).hexdigest()
        assert key.read_text() == text + "\n"


def test_two_keys_are_not_the_same(caller):
    with Serve(caller) as one, Serve(caller) as two:
        assert (one.state / "key").read_text() != (two.state / "key").read_text()


def test_one_line_when_ready_and_the_address_in_a_file(serve):
    address = serve.state / "address"
    assert not address.exists()
    line = serve.say_ready()
    assert line.startswith("brig serve: ready on unix:") and "http://127.0.0.1:" in line
    lines = address.read_text().splitlines()
    assert lines[0] == f"unix:{serve.folder}/brig.sock" and re.fullmatch(r"http://127\.0\.0\.1:\d+", lines[1])
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    sock = serve.folder / "brig.sock"
    assert stat.S_IMODE(sock.stat().st_mode) == 0o600
    port = int(lines[1].rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), 60).close()
    with socket.socket(socket.AF_UNIX) as local:
        local.connect(str(sock))
    state = serve.state
    serve.wire.close()
    serve.relay.close()
    serve.process.wait(60)
    assert not (state / "address").exists() and not sock.exists()


# ---- what it refuses ----

def test_a_second_one_on_the_same_state(serve):
    told = brig_serve(serve.caller, "--state", serve.state, "--socket", serve.folder / "other.sock", "--daemon", "/bin/true")
    assert told.returncode == 125 and "another brig serve" in told.stderr
    assert serve.launch().ready()  # the first is not disturbed


def test_a_folder_that_others_can_write(caller, folder):
    os.chmod(folder, 0o770)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "written by others" in told.stderr
    os.chmod(folder, 0o700)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 1 and "brig-daemon ended with status 0" in told.stderr  # the control: it starts


def test_a_folder_that_is_a_link(caller, folder):
    real = folder / "real"
    real.mkdir(0o700)
    os.chown(real, caller.uid, -1)
    (folder / "link").symlink_to(real)
    told = brig_serve(caller, "--state", folder / "link", "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "state folder" in told.stderr and not list(real.iterdir())


@pytest.mark.skipif(not IS_ROOT, reason="needs two users")
def test_a_folder_of_somebody_else(folder):
    from helpers import USER
    os.chown(folder, 0, -1)
    os.chmod(folder, 0o755)
    told = brig_serve(USER, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "somebody else" in told.stderr


def test_a_key_file_that_others_can_read(caller, folder):
    key = folder / "key"
    key.write_text("brig_" + "a" * 43 + "\n")
    os.chown(key, caller.uid, -1)
    os.chmod(key, 0o644)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "read by others" in told.stderr
    os.chmod(key, 0o600)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert "brig-daemon ended" in told.stderr


@pytest.mark.parametrize("text", ["", "brig_short", "x" * 48, "brig_" + "é" * 43, "e2b_", "e2b_" + "0" * 31, "e2b_" + "A" * 40,
                                  "e2b_" + "0" * 200, "brig_" + "a" * 44])
def test_a_key_file_with_something_else(caller, folder, text):
    key = folder / "key"
    key.write_text(text)
    os.chown(key, caller.uid, -1)
    os.chmod(key, 0o600)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "no key" in told.stderr and key.read_text() == text


def test_a_socket_that_is_served_and_one_that_is_not(caller, folder):
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        os.chown(path, caller.uid, -1)
        other.listen()
        told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", path)
        assert told.returncode == 125 and "already serves" in told.stderr and path.exists()
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", path)
    assert "brig-daemon ended" in told.stderr and not path.exists()  # a stale one was in the way


@pytest.mark.parametrize("options,why", [
    (["--listen", "127.0.0.1"], "ADDRESS:PORT"), (["--listen", "host:80"], "an address"),
    (["--listen", "127.0.0.1:99999"], "ADDRESS:PORT"), (["--template", "x"], "NAME=DIR"),
    (["--template", "../x=/"], "no name"), (["--template", "x=/nonesuch"], None), (["word"], "unexpected"),
    (["--max-sandboxes", "0"], "from 1"),
])
def test_options_that_make_no_sense(caller, folder, options, why):
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s", *options)
    if why:
        assert told.returncode == 125 and why in told.stderr


def test_a_front_that_is_not_there(caller, folder):
    told = brig_serve(caller, "--state", folder, "--daemon", "/nonesuch", "--socket", folder / "s")
    assert told.returncode == 1 and "status 127" in told.stderr


def test_the_number_of_sandboxes_reaches_the_front(caller):
    with Serve(caller, "--max-sandboxes", "17") as serve:
        assert serve.hello["max_boxes"] == 17


# ---- socket activation, notification ----

def test_sockets_of_a_service_manager(caller, folder):
    relay_folder = folder / "front"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(folder / "notify"))
        os.chown(folder / "notify", caller.uid, -1)
        notify.settimeout(60)
        relay_folder.mkdir()
        program = relay_folder / "front"
        program.write_text("#!/usr/bin/python3 -I\nimport sys, os\nsys.path.insert(0, %r)\n"
                           "from wirelib import Wire\nw = Wire(3)\nhello = w.recv().json\n"
                           "open(%r, 'w').write(repr((sys.argv, hello['listeners'])))\nw.send('ready')\nw.recv()\n"
                           % (str(PUBLIC), str(folder / "told")))
        program.chmod(0o755)
        (PUBLIC / "wirelib.py").write_text(wirelib_text())
        starter = ("import os,sys\nos.dup2(%d, 3)\nos.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
                   "os.execv(sys.argv[1], sys.argv[1:])" % tcp.fileno())
        command = caller.outside("/usr/bin/python3", "-c", starter, str(PUBLIC / "brig"), "serve", "--state", str(folder),
                                 "--daemon", str(program))
        brig = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[tcp.fileno()],
                                cwd="/", env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(folder / "notify")})
        try:
            assert notify.recv(100) == b"READY=1"
            arguments, listeners = eval((folder / "told").read_text())
            port = tcp.getsockname()[1]
            assert arguments[1:] == ["tcp"] and listeners == [{"fd": 5, "kind": "tcp", "address": f"http://127.0.0.1:{port}"}]
            brig.terminate()
            assert notify.recv(100) == b"STOPPING=1"
        finally:
            brig.kill()
            brig.communicate()


def wirelib_text():
    """The same messages for a program that cannot read the sources."""
    import wirelib
    text = Path(wirelib.__file__).read_text()
    return re.sub(r"^HEADER = .*\nNAMES = .*$", f"NAMES = {wirelib.NAMES!r}", text, flags=re.M)


# ---- templates ----

def test_templates_of_the_operator(caller):
    files = {
        "tiny.yaml": "description: small\naliases: [t1, t2]\npool: {min: 1, max: 3, idle: 5s}\n"
                     "policy:\n  level: high\n  lifecycle: {memory: 64M, pids: 30, sampling: accept}\n",
        "base.json": {"description": "another base", "policy": {"level": "high", "lifecycle": {"memory": "99M"}}},
        "notes.txt": "no template",
    }
    with Serve(caller, templates=files) as serve:
        told = {t["name"]: t for t in serve.hello["templates"]}
        assert set(told) == {"base", "python", "node", "tiny"}
        assert told["tiny"]["aliases"] == ["t1", "t2"] and told["tiny"]["memory"] == 64 << 20
        assert told["tiny"]["pool"] == {"min": 1, "max": 3, "idle_ms": 5000}
        assert told["base"]["memory"] == 99 << 20 and told["base"]["description"] == "another base"
        box = serve.box("t2")
        assert box.ask("stats").json["memory_limit"] == 64 << 20
        assert "67108864" in box.told["boundaries"]["lifecycle"]["memory"]


@pytest.mark.parametrize("text,why", [
    ("polic: {}", "expected policy"), ("policy: {level: silly}", "level"), ("interpreter: cobol", "interpreter"),
    ("aliases: [../x]", "aliases"), ("modules: ['os; import x']", "modules"), ("pool: {min: 5, max: 2}", "pool"),
    ("policy: {level: low}", "tier"), ("pool: {min: -1}", "pool"), ("- a\n", "keys and values"), ("a: [", ""),
])
def test_a_malformed_template_is_refused_at_the_start(caller, folder, text, why):
    (folder / "templates").mkdir()
    (folder / "templates" / "bad.yaml").write_text(text)
    for path in (folder / "templates", folder / "templates" / "bad.yaml"):
        os.chown(path, caller.uid, -1)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "bad" in told.stderr and why in told.stderr


def test_a_template_file_that_others_can_change(caller, folder):
    (folder / "templates").mkdir()
    file = folder / "templates" / "t.yaml"
    file.write_text("description: x\n")
    os.chown(file, caller.uid, -1)
    os.chmod(file, 0o666)
    told = brig_serve(caller, "--state", folder, "--daemon", "/bin/true", "--socket", folder / "s")
    assert told.returncode == 125 and "changed by others" in told.stderr


def test_a_folder_as_root(caller, folder):
    root = folder / "root"
    for place in ("bin", "etc"):
        (root / place).mkdir(parents=True)
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("no static program to put into it")
    (root / "bin" / "sh").write_bytes(busybox.read_bytes())
    (root / "bin" / "sh").chmod(0o755)
    (root / "etc" / "mark").write_text("from the folder\n")
    os.chmod(folder, 0o755)
    with Serve(caller, "--template", f"own={root}") as serve:
        box = serve.box("own")
        assert box.run("/bin/sh", "-c", "read x </etc/mark; echo $x")[1] == "from the folder\n"
        assert box.run("/bin/sh", "-c", "echo x >/etc/mark")[0] != 0


def test_hangup_loads_the_templates_anew(caller):
    with Serve(caller, "--foreground") as serve:
        (serve.state / "templates").mkdir()
        file = serve.state / "templates" / "later.json"
        file.write_text(json.dumps({"policy": {"level": "high", "lifecycle": {"memory": "70M", "sampling": "accept"}}}))
        for path in (file.parent, file):
            os.chown(path, caller.uid, -1)
        with pytest.raises(Failed, match="no template later"):
            serve.launch("later")
        serve.process.send_signal(signal.SIGHUP)
        told = serve.wire.recv()
        assert told.type == "templates" and "later" in [t["name"] for t in told.json["templates"]]
        box = serve.launch("later")
        box.ready()
        file.write_text("{")
        serve.process.send_signal(signal.SIGHUP)
        said = serve.until_said("stay as they are")
        assert serve.launch("later").ready()  # what was good stays
        assert "loaded anew" in said


# ---- orders of the front ----

@pytest.mark.parametrize("id", ["", "short", "A" * 20, "../../../../../../..", "a" * 21, "aaaaaaaaaaaaaaaaaaa/", None, 5])
def test_a_malformed_id_is_refused(serve, id):
    serve.wire.send("launch", 3, 0, {"id": id, "template": "base"})
    told = serve.wire.recv()
    assert told.type == "fail" and told.request == 3 and told.json["code"] == "protocol"


@pytest.mark.parametrize("policy", [7, {"lifecycle": {"pids": 8}}, ["level: high"], True])
def test_a_policy_that_is_no_text_is_refused(serve, policy):
    with pytest.raises(Failed) as failed:
        serve.launch(policy=policy)
    assert failed.value.told["code"] == "protocol"


@pytest.mark.parametrize("policy, code", [("lifecycle: {pids: 100000}", "refused"), ("level: low", "refused"), ("", "policy"),
                                          ("lifecycle: {timeout: 1s}", "policy"), ("[" * 1000, "policy")])
def test_a_policy_that_cannot_be_had_starts_nothing(serve, policy, code):
    box = serve.launch(policy=policy)
    with pytest.raises(Failed) as failed:
        box.ready()
    assert failed.value.told["code"] == code
    assert box.next("ended").json["reason"] == "it could not be provisioned"
    while serve.gone().json["id"] != box.id:
        pass
    assert serve.launch(policy="lifecycle: {pids: 40}").ready()  # the control


def test_an_id_is_used_once(serve):
    box = serve.launch(id="x" * 20)
    with pytest.raises(Failed, match="already"):
        serve.launch(id="x" * 20)
    box.close()
    assert serve.gone().json["id"] == "x" * 20
    assert serve.launch(id="x" * 20).ready()


def test_an_unknown_template(serve):
    with pytest.raises(Failed) as failed:
        serve.launch("nonesuch")
    assert failed.value.told["code"] == "not_found"
    assert serve.launch("code-interpreter-v1").ready(60)


def test_nonsense_ends_everything(caller):
    left = Left()
    for text in (b"x", b"\xff" * 24, b""):
        with Serve(caller) as serve:
            box = serve.box()
            left.note(box)
            if text:
                serve.wire.sock.send(text)
            else:
                serve.wire.send("exited", 0, 0, {})
            with pytest.raises((Gone, ConnectionResetError)):
                while True:
                    serve.wire.recv()
    left.none()


def test_no_launch_after_stop(serve):
    serve.launch().ready()
    serve.wire.send("stop")
    with pytest.raises(Failed, match="ending"):
        serve.launch()


def test_many_sandboxes_at_one_time(serve):
    boxes = [serve.launch() for _ in range(12)]
    for box in boxes:
        box.ready()
        box.claim(env={"ME": box.id})
    assert [box.run("sh", "-c", "echo $ME")[1].strip() for box in boxes] == [box.id for box in boxes]


@pytest.mark.skipif(not IS_ROOT, reason="only root can leave a group behind here")
def test_leftovers_of_an_earlier_run_are_removed_and_nothing_else():
    ours, other = (secrets.token_hex(10) for _ in range(2))
    parents = [p for p in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if p.is_dir()]
    if not (parents[0] / "tasks").exists() and not (parents[0] / "cgroup.procs").exists():
        pytest.skip("no cgroup to make one in")
    with Serve(ROOT) as serve:
        probe = serve.box()
        places = {path.rpartition("/")[0] for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith("brig-" + probe.id)}
        assert places
        made = [Path(place) / f"brig-{name}" for place in places for name in (ours, other)]
        sleepers = []
        try:
            for path in made:
                path.mkdir()
                sleeper = subprocess.Popen(["sleep", "1000"])
                sleepers.append((path, sleeper))
                (path / "cgroup.procs").write_text(str(sleeper.pid))
            serve.wire.send("clean", 5, 0, {"ids": [ours, probe.id, "nonsense", "s" * 20]})
            told = serve.wire.recv()
            assert told.type == "done" and told.request == 5 and told.value == 1
            for path, sleeper in sleepers:
                if ours in path.name:
                    assert not path.exists() and sleeper.wait(60) == -signal.SIGKILL
                else:
                    assert path.exists() and sleeper.poll() is None
            assert probe.run("true")[0] == 0
        finally:
            for path, sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()
            for path in made:
                if path.exists():
                    wait_for(lambda path=path: remove(path))


def remove(path):
    try:
        path.rmdir()
    except OSError:
        return False
    return True


# ---- ends ----

def test_terminate_drains_in_order(caller):
    left = Left()
    with Serve(caller) as serve:
        box = serve.box()
        left.note(box)
        serve.process.send_signal(signal.SIGTERM)
        assert serve.wire.recv().type == "stop"
        assert box.run("echo", "still here")[1] == "still here\n"  # the front decides when
        assert box.end("drained").json["reason"] == "drained"
        status, _, err = serve.stop()
        assert status == 0 and not err
    left.none()


def test_terminate_twice_ends_at_once(caller):
    left = Left()
    with Serve(caller) as serve:
        box = serve.box()
        left.note(box)
        serve.process.send_signal(signal.SIGTERM)
        serve.wire.recv()
        serve.process.send_signal(signal.SIGTERM)
        relay = [pid for pid, name in below(serve.pid).items() if name == "relay"]
        wait_for(lambda: not [pid for pid in relay if pid in below(serve.pid)], what="the end of the front")
        assert serve.stop()[0] == 1
    left.none()


def test_the_status_of_the_front_is_told(caller):
    serve = Serve(caller)
    serve.relay.send(bytes([7]))
    status, _, err = serve.stop()
    assert status == 1 and "status 7" in err


def test_a_full_disk_is_an_error_and_not_the_end(caller):
    """The disk is memory. (Allocated, not written: it counts the same and takes no time.)"""
    fill = "fallocate -l 511M /tmp/a; fallocate -l 20M /tmp/b 2>&1; echo $?; rm /tmp/a; fallocate -l 20M /tmp/b; echo $?"
    with Serve(caller) as serve:
        status, out, _ = serve.box("base").run("/bin/sh", "-c", fill)
        assert status == 0 and "No space left" in out and out.split("\n")[-3:] == ["1", "0", ""], out
