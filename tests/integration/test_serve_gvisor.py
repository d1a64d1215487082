"""The gvisor tier in `brig serve`: a Sentry for each sandbox, booted while it waits, and a leader behind it beside each process.

BRIG names the program under test, BRIG_TEST_RUNSC the runsc (tests/lib/poollib.py).
"""
import concurrent.futures
import contextlib
import http.server
import json
import os
import re
import secrets
import select
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
from pathlib import Path

import npmlib
import poollib
import pytest
from daemonlib import USERS, Daemon, program
from helpers import CALLERS, PUBLIC, below, read_stat, wait_for
from servelib import Failed, Gone, Left, Serve, frame, read_all, read_frame, read_some, start_time


RUNSC = poollib.runsc()
NAMED = {"BRIG_RUNSC": RUNSC}
TIER = {"tier": "gvisor"}
SAMPLED = {"sampling": "accept"}
GVISOR = {"policy": {"level": "high", "kernel": TIER, "lifecycle": {**SAMPLED, "memory": "256M", "disk": "48M"}}}
TEMPLATES = {"gvisor.json": GVISOR, "python.json": {**GVISOR, "interpreter": "python"},
             "container.json": {"policy": {"level": "high", "lifecycle": SAMPLED}},
             "few.json": {"policy": {"level": "high", "kernel": TIER, "lifecycle": {**SAMPLED, "pids": 120}}},
             "tight.json": {"policy": {"level": "high", "kernel": TIER, "lifecycle": {**SAMPLED, "memory": "128M"}}}}


@pytest.fixture(scope="module", autouse=True)
def tier():
    if not Path(RUNSC).exists():
        pytest.skip(f"no {RUNSC}: apt install runsc")


@pytest.fixture(scope="module", params=CALLERS, ids=lambda caller: caller.name)
def serve(request):
    with Serve(request.param, templates=TEMPLATES, env=NAMED) as made:
        yield made


@pytest.fixture(scope="module")
def box(serve):
    """One for all tests that leave nothing behind in it: a Sentry costs more than they do."""
    made = serve.box("gvisor")
    yield made
    made.close()


def parts(box, mark=b""):
    """{what it is: pid} of what stands between the sandbox's init (or a warden) and its code, as the host counts; the join whose words have
    the mark."""
    words, found = {}, {}
    for pid in below(box if isinstance(box, int) else box.told["init"]):
        with contextlib.suppress(OSError):
            words[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    for pid, each in words.items():
        if b"serve" in each and b"reap" in each:
            found["engine"] = pid
        elif each[1:2] == [b"join"] and any(mark in word for word in each):
            found["join"] = pid
    for pid, each in words.items():
        if each[0] in (b"runsc-sandbox", b"runsc-gofer") and (read_stat(pid) or (0, 0, 0))[2] == found.get("engine"):
            found[each[0].decode()] = pid
    return found


# ---- start ----

@pytest.mark.builds
def test_the_sentry_has_booted_when_the_sandbox_is_ready_and_is_attested(serve):
    box = serve.launch("gvisor")
    told = box.ready().json
    kernel = told["boundaries"]["kernel"]
    assert kernel["tier"] == "gvisor" and kernel["engine"] == "brig-gvisor" and kernel["capabilities"] == 0, kernel
    assert kernel["runsc"] == RUNSC and kernel["runsc_platform"] in ("systrap", "ptrace") and kernel["runsc_named"] is True
    assert kernel["runsc_sha256"] == "sha256:" + subprocess.check_output(["sha256sum", RUNSC], text=True).split()[0]
    assert told["boundaries"]["lifecycle"]["pids"].startswith("2048 by ")
    assert {"engine", "runsc-sandbox", "runsc-gofer"} <= parts(box).keys()
    for type, obj in [("spawn", {"argv": ["true"]}), ("file", {"op": "stat", "path": "/"})]:
        with pytest.raises(Failed, match="not claimed"):
            box.ask(type, obj)
    assert box.claim().json["boundaries"] == told["boundaries"]
    assert box.run("uname", "-r") == (0, "4.4.0\n", "")
    control = serve.box("container")
    assert control.run("uname", "-r")[1] == os.uname().release + "\n", "control: without the Sentry it is the host's kernel"
    control.close()
    ended = box.end("done").json
    assert ended["receipt"]["boundaries"]["kernel"]["runsc_version"] == kernel["runsc_version"]
    box.close()


# ---- processes ----

@pytest.mark.builds
def test_processes_are_what_they_are_elsewhere(box):
    assert box.run("sh", "-c", "cat; echo oops >&2; exit 7", input=b"words") == (7, "words", "oops\n")
    assert box.run("sh", "-c", "kill -9 $$")[0] == 137 and box.run("cat") == (0, "", "")
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))), os.getsid(0) == os.getpid() == os.getpgrp(), os.getuid(), os.getcwd())"
    assert box.python(code)[1] == "[0, 1, 2, 3] True 1000 /home/user\n"  # 3 is the listing itself
    status = box.run("grep", "-E", "Sig(Blk|Ign)|CapEff|CapBnd|NoNewPrivs", "/proc/self/status")[1].split()
    assert set(status[1::2]) <= {"0" * 16, "1"}, status
    env = box.run("env", env={"B": "spawn", "C": "ä=ö"})[1].splitlines()
    there = box.serve.box("container")
    assert sorted(env) == sorted(there.run("env", env={"B": "spawn", "C": "ä=ö"})[1].splitlines())
    there.close()
    assert box.run("pwd", cwd="/tmp")[1] == "/tmp\n" and box.run("sh", "-c", "echo $#", "sh", *["x"] * 2000)[1] == "2000\n"


@pytest.mark.parametrize("argv, cwd, code, words", [
    (["nonesuch"], "", "not_found", "nonesuch: command not found"), (["/etc/passwd"], "", "not_executable", "/etc/passwd"),
    (["/nonesuch"], "", "not_found", "/nonesuch"), (["true"], "/nowhere", "not_found", "cannot enter folder /nowhere")])
def test_what_cannot_be_started_is_an_answer(box, argv, cwd, code, words):
    with pytest.raises(Failed) as failed:
        box.spawn(*argv, cwd=cwd)
    assert failed.value.told["code"] == code and words in failed.value.told["message"], failed.value.told
    assert box.run("true")[0] == 0 and not [m for m in box.kept if m.type == "exited"]


def test_what_json_cannot_say_is_refused_in_words(serve):
    box = serve.launch("gvisor")
    box.ready()
    box.claim()
    for bytes_ in (b"\xff", b"\xed\xa0\x80"):
        text = json.dumps({"argv": ["echo", "X"], "env": {}, "cwd": "", "tty": None, "stdin": False, "interpreter": None}).encode()
        box.wire.send("spawn", 9000, 0, text=text.replace(b"X", bytes_))
        assert box.next("fail").request == 9000
    assert box.run("echo", "é\u2028\x01")[1] == "é\u2028\x01\n"
    box.close()


def test_many_at_one_time(box):
    started = [box.spawn("sh", "-c", f"read x; exit {i}", stdin=True) for i in range(12)]
    for message in started:
        message.close()
    assert [os.WEXITSTATUS(box.exited(m.value)) for m in started] == list(range(12))


@pytest.mark.builds
def test_signals(box):
    script = "trap 'echo caught; exit 3' TERM; echo on; sleep 500 & wait"
    one = box.spawn("sh", "-c", script)
    assert read_some(one.fds[0], 10) == b"on\n"
    box.ask("signal", {"pid": one.value, "signal": int(signal.SIGTERM), "group": True})
    assert os.WEXITSTATUS(box.exited(one.value)) == 3
    two = box.spawn("sh", "-c", "echo on; sleep 500 & wait")
    assert read_some(two.fds[0], 10) == b"on\n"
    box.ask("signal", {"pid": two.value, "signal": int(signal.SIGKILL), "group": True})
    assert os.WTERMSIG(box.exited(two.value)) == signal.SIGKILL
    assert read_all(two.fds[0]) == b"", "the end of the pipe: the child of the group is dead as well"
    ticks = box.spawn("python3", "-uc", "import time\nwhile 1: print('x'); time.sleep(0.01)")
    read_some(ticks.fds[0], 10)
    box.ask("signal", {"pid": ticks.value, "signal": int(signal.SIGSTOP), "group": True})
    wait_for(lambda: not select.select([ticks.fds[0]], [], [], 0.3)[0] or not os.read(ticks.fds[0], 65536), what="it has stopped")
    box.ask("signal", {"pid": ticks.value, "signal": int(signal.SIGCONT), "group": True})
    assert read_some(ticks.fds[0], 10)
    with pytest.raises(Failed, match="signal 64"):
        box.ask("signal", {"pid": ticks.value, "signal": 64, "group": True})
    box.ask("signal", {"pid": ticks.value, "signal": 9, "group": True})
    box.exited(ticks.value)


@pytest.mark.builds
def test_a_terminal(box):
    message = box.spawn("bash", "--norc", env={"PS1": "[$?]> "}, tty={"cols": 91, "rows": 22})
    shown, typed, sizes = message.fds
    assert all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in message.fds)
    seen = b""

    def until(word):
        nonlocal seen
        end = time.monotonic() + 60
        while word not in seen:
            assert time.monotonic() < end and select.select([shown], [], [], max(0, end - time.monotonic()))[0], (word, seen)
            seen += read_some(shown, 4096, end - time.monotonic())

    os.write(typed, b"tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo al''l; echo T=$TERM\n")
    for word in (b"/dev/pts/", b"22 91", b"all\r", b"T=xterm-256color\r"):
        until(word)
    # Told is whoever has the terminal at that moment.
    waits = "import signal as s; s.signal(28, print); s.pthread_sigmask(0, {28}); print(\"trap\" \"ped\", flush=True); s.sigwait({28}); print(\"chan\" \"ged\")"
    os.write(typed, f"python3 -c '{waits}'\n".encode())
    until(b"trapped\r")
    os.write(sizes, struct.pack("HHHH", 33, 120, 0, 0))
    until(b"changed\r")
    os.write(typed, b"stty size\n")
    until(b"33 120")
    for key, words in ((b"\x03", b"[130]> "), (b"\x1a", b"[148]> ")):
        seen = b""
        os.write(typed, b"python3 -c 'import os, signal as s; s.signal(2, s.SIG_DFL); os.write(1, b\"job-%d\" % (40 + 2)); s.pause()'\n")
        until(b"job-42")
        os.write(typed, key)
        until(words)
    seen = b""
    os.write(typed, b"seq 1 20000\n")
    until(b"19999\r\n20000\r")
    os.write(typed, b"exit 5\nexit 5\n")
    assert os.WEXITSTATUS(box.exited(message.value)) == 5
    message.close()


def test_a_terminal_is_killed_with_its_job(box):
    message = box.spawn("bash", "--norc", tty={"cols": 80, "rows": 24})
    os.write(message.fds[1], b"sleep 4321\n")
    wait_for(lambda: b"4321" in box.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")[1].encode(), what="the job")
    box.ask("signal", {"pid": message.value, "signal": 9, "group": True})
    assert os.WTERMSIG(box.exited(message.value)) == 9
    wait_for(lambda: "sleep 4321" not in box.run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")[1].replace("cat /proc", ""),
             what="the job is gone")
    message.close()


def test_orphans_are_reaped(box):
    box.run("sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.2")
    code = "import glob; print(sum('State:\\tZ' in open(p).read() for p in glob.glob('/proc/[0-9]*/status')))"
    wait_for(lambda: box.python(code)[1] == "0\n", what="all are reaped")


# ---- interpreters, files, ports ----

@pytest.mark.builds
def test_an_interpreter_waits_before_the_claim_and_runs_cells(serve):
    box = serve.launch("python")
    message = box.ready()
    assert message.json["interpreter"] == "python" and message.json["start"] == "cold"
    requests, answers, out, err = message.fds
    os.set_blocking(answers, True)
    assert read_frame(answers)["type"] == "ready"
    box.claim()
    os.write(requests, frame({"op": "execute", "id": 1, "code": "print('seen')\nimport os; os.uname().release", "env": {}}))
    told = []
    while not told or told[-1]["type"] != "end":
        told.append(read_frame(answers))
    assert [t["data"]["text"] for t in told if t["type"] == "result"] == ["4.4.0"] and read_some(out, 100) == b"seen\n"
    os.close(requests)
    box.exited(message.value)
    for fd in (answers, out, err):
        os.close(fd)
    box.close()


def read_frames(fd):
    data, found = read_all(fd), []
    while data:
        length = struct.unpack_from("<I", data, 4)[0]
        found.append((data[0], data[8:8 + length]))
        data = data[8 + length:]
    return found


def test_files_go_through_inits_workers_and_both_sides_see_them(box):
    written = box.ask("file", {"op": "write", "path": "deep/er/name.txt"})
    out, into = written.fds
    os.set_blocking(out, True)
    os.write(into, b"content")
    os.close(into)
    assert struct.unpack("<iIQ", read_frames(out)[0][1])[0::2] == (0, 7)
    assert box.run("cat", "deep/er/name.txt")[1] == "content"
    box.run("sh", "-c", "echo more >> deep/er/name.txt")
    message = box.ask("file", {"op": "read", "path": "/home/user/deep/er/name.txt"})
    os.set_blocking(message.fds[0], True)
    assert [data for kind, data in read_frames(message.fds[0]) if kind == 4] == [b"contentmore\n"]


def test_a_connection_to_a_port_inside(box):
    with pytest.raises(Failed) as failed:
        box.ask("connect", {"port": 8000})
    assert failed.value.told["errno"] == 111
    server = box.spawn("python3", "-uc", "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nprint('up\\n', end='')\nc, _ = s.accept()\nc.sendall(b'hello ' + c.recv(10))")
    assert read_some(server.fds[0], 10) == b"up\n"
    with socket.socket(fileno=box.ask("connect", {"port": 8000}).fds[0]) as connection:
        connection.setblocking(True)
        connection.sendall(b"you")
        assert connection.recv(100) == b"hello you"
    box.exited(server.value)


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside, with " + self.headers.get("X-Key", "nothing").encode()[:5])

    def log_message(self, *_):
        pass


def test_the_network_has_its_rules_and_a_secret_never_enters(serve):
    value = "value-" + secrets.token_hex(12)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        host = f"http://web.test:{web.server_port}"
        template = {"policy": {**GVISOR["policy"], "network": {"allow": [f"{host}=127.0.0.1"]}}}
        with Serve(serve.caller, templates={"web.json": template}, env=NAMED) as other:
            other.count = 3000
            box = other.launch("web", headers={"web.test": [{"transform": {"headers": {"X-Key": value}}}]})
            assert box.ready().json["boundaries"]["network"]["mode"] == "allowlist"
            box.claim()
            code = ("import sys, urllib.request\ntry: print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())\n"
                    "except Exception as e: print(type(e).__name__)")
            fetch = lambda url: box.run("python3", "-c", code, url)[1].strip()  # noqa: E731
            assert fetch(host) == "from outside, with value"
            seen = box.next("event").json
            assert (seen["boundary"], seen["kind"]) == ("network", "allowed") and "web.test" in seen["what"]
            assert fetch(f"http://other.test:{web.server_port}") == fetch("http://1.2.3.4/") == "HTTPError", "the control is the fetch above"
            assert value not in box.run("sh", "-c", "env; cat /proc/[0-9]*/environ")[1]
            box.ask("network", {"allow": [], "block": []})
            assert "from outside" not in fetch(host)
            box.close()
        web.shutdown()


@pytest.mark.builds
def test_pause_and_resume(serve):
    box = serve.box("gvisor")
    counter = box.spawn("python3", "-uc", "import time\nwhile 1: print('x'); time.sleep(0.01)")
    read_some(counter.fds[0], 10)
    assert box.ask("freeze", value=1).value == 1
    wait_for(lambda: not select.select([counter.fds[0]], [], [], 0.5)[0] or not os.read(counter.fds[0], 65536), what="silence")
    with pytest.raises(Failed, match="paused"):
        box.ask("spawn", {"argv": ["true"]})
    assert box.ask("freeze", value=0).value == 0
    assert read_some(counter.fds[0], 10)
    assert box.run("true")[0] == 0
    box.ask("freeze", value=1)
    assert box.end("over").json["reason"] == "over"
    box.close()


# ---- limits ----

@pytest.mark.builds
def test_out_of_memory_ends_the_sandbox_and_is_named(serve):
    """All memory of the code is the Sentry's: there is no single process that could go."""
    box = serve.box("tight")
    assert box.run("python3", "-c", "bytearray(8 << 20)")[0] == 0
    box.spawn("python3", "-c", "x = []\nwhile 1: x.append(b'x' * (1 << 20))")
    message = box.next("fail", seconds=90)
    assert message.request == 0 and message.json["code"] == "limit" and "memory" in message.json["message"], message.json
    ended = box.next("ended", seconds=90).json
    assert ended["reason"] == "limit: memory" and ended["limit_hit"] == "memory", ended
    box.close()


def test_a_full_disk_is_an_error_inside(box):
    code = "import errno\ntry: open('/tmp/f', 'wb').write(bytes(64 << 20))\nexcept OSError as e: print(errno.errorcode[e.errno])"
    assert box.python(code)[1] == "ENOSPC\n"
    box.run("rm", "-f", "/tmp/f")
    assert box.run("true")[0] == 0


def test_a_request_for_one_process_too_many_is_refused_and_the_sandbox_lives(serve):
    box = serve.box("few")
    started = []
    with pytest.raises(Failed) as failed:
        for _ in range(60):
            started.append(box.spawn("sleep", "600"))
    assert started and failed.value.told["errno"] == 11 and "lifecycle.pids" in failed.value.told["hint"], failed.value.told
    for each in started:
        box.ask("signal", {"pid": each.value, "signal": 9, "group": True})
        box.exited(each.value)
    assert wait_for(lambda: can_run(box), what="room for a process")
    box.close()


def can_run(box):
    with contextlib.suppress(Failed):
        return box.run("true")[0] == 0


def test_code_that_starts_too_many_ends_its_sandbox_with_the_reason(serve):
    box = serve.box("few")
    box.spawn("python3", "-c", "import os, time\nwhile 1:\n  try:\n    if os.fork() == 0: time.sleep(600)\n  except OSError: time.sleep(0.1)")
    told = box.next("fail", seconds=90).json
    reason = box.next("ended", seconds=90).json["reason"]
    if box.told["boundaries"]["lifecycle"]["pids"].endswith("cgroup"):
        assert "pids" in told["message"] and reason == "limit: pids", (told, reason)
    else:
        # What an rlimit refuses nobody counts; a look may see that it is reached.
        assert "Sentry ended" in told["message"] + reason or reason == "limit: pids", told
        assert "lifecycle.pids" in told["hint"], told
    box.close()


# ---- who is hostile behind the Sentry ----

def test_code_that_ends_its_leader_ends_its_own_request_alone(box):
    """GV-5"""
    other = box.spawn("sh", "-c", "read x; echo lives", stdin=True)
    one = box.spawn("sh", "-c", "cat /proc/$PPID/comm; kill -9 $PPID; sleep 600")
    assert os.WTERMSIG(box.exited(one.value)) == 9
    assert read_some(one.fds[0], 100) == b"brig-lead\n"
    os.write(other.fds[0], b"\n")
    assert read_all(other.fds[1]) == b"lives\n" and box.exited(other.value) == 0
    one.fds = []


def test_code_cannot_end_the_first_process_nor_trace_its_leader(box):
    code = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def may(f, *args):
    try: return f(*args) or 'yes'
    except OSError as e: return 'no'
child = os.fork()
if child == 0: signal.pause()
leader = os.getppid()
def trace(pid): return 'yes' if libc.ptrace(16, pid, 0, 0) == 0 else 'no'
print(may(os.kill, 1, 9), trace(1), trace(leader))
print(may(os.kill, child, 0), trace(child), may(os.kill, child, 9))
"""
    denied, control = box.python(code)[1].splitlines()
    assert denied == "no no no"
    assert control == "yes yes yes", "control: what is its own it may trace and end"
    assert box.run("sh", "-c", "trap '' TERM; kill -TERM -1; sleep 0.1; echo here")[0] in (0, 143)
    assert box.run("true")[0] == 0, "the sandbox goes on"


# The pipe of the request has number 5, and nothing else is open.
AS_INIT = "import os, sys; os.dup2(int(sys.argv[1]), 5); os.closerange(6, 4096); os.execve(sys.argv[2], sys.argv[2:], {'brig:A': 'b'})"


class StandIn:
    """A Sentry that says what a test wants: its control socket, and a join that was started for it."""

    def __init__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        for number in range(os.getpid() % 4096, 0xfffff):
            try:
                self.listener.bind(f"\0{number:05x}")
                break
            except OSError:
                continue
        self.listener.listen()
        self.listener.settimeout(30)
        status, theirs = os.pipe()
        out, told = os.pipe()
        name = self.listener.getsockname()[1:].decode()
        words = [PUBLIC / "brig-gvisor", "join", name, "/.brig-program", "1000", "3", "-", "/tmp", "--", "prog", "arg"]
        self.process = subprocess.Popen(["/usr/bin/python3", "-IS", "-c", AS_INIT, str(theirs), *words], stdin=subprocess.DEVNULL,
                                        stdout=told, stderr=told, pass_fds=(theirs,))
        os.close(theirs), os.close(told)
        self.status, self.out = status, out
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(30)
        text, self.fds, _, _ = socket.recv_fds(self.connection, 1 << 20, 16)
        self.asked = json.loads(text)

    def say(self, **answer):
        self.connection.sendall(json.dumps({"success": True, "err": "", **answer}).encode())

    def started(self):
        self.say(result=7)
        wait = json.loads(self.connection.recv(65536))
        assert wait == {"method": "containerManager.WaitPID", "arg": {"CID": "brig", "PID": 7}}

    def failure(self):
        """What the warden is told, or None: it was executed."""
        told = b""
        while part := os.read(self.status, 4096):
            told += part
        return struct.unpack_from("<iii512s", told)[3].split(b"\0")[0].decode() if told else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for fd in (self.status, self.out, *self.fds):
            os.close(fd)
        self.connection.close()
        self.listener.close()


STARTED, EXECUTE = struct.pack("<ii", 0, 0), struct.pack("<ii", 4, 2)


def test_a_join_asks_for_a_leader_without_rights():
    with StandIn() as sentry:
        arg = sentry.asked["arg"]
        assert sentry.asked["method"] == "containerManager.ExecuteAsync" and len(sentry.fds) == 5
        assert arg["argv"] == ["brig-lead", "3", "-", "/tmp", "prog", "arg"] and arg["envv"] == ["A=b"] and arg["wd"] == "/"
        assert arg["KUID"] == arg["KGID"] == 1000 and set(arg["Capabilities"].values()) == {0} and len(arg["Capabilities"]) == 5
        assert arg["GuestFDs"] == [0, 1, 2, 3, 4]
        assert all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in sentry.fds[3:]), "a pipe carries no descriptors"
        sentry.started()
        # It holds nothing of the program's any more.
        held = {os.readlink(f"/proc/{sentry.process.pid}/fd/{n}") for n in os.listdir(f"/proc/{sentry.process.pid}/fd")}
        assert not held & {os.readlink(f"/proc/self/fd/{sentry.fds[1]}")} and len(held) == 5, held
        os.write(sentry.fds[4], STARTED)
        assert sentry.failure() is None
        sentry.process.send_signal(signal.SIGUSR1)
        assert os.read(sentry.fds[3], 10) == bytes([signal.SIGUSR1])
        sentry.say(result=7 << 8)
        assert sentry.process.wait(30) == 7


@pytest.mark.parametrize("lie, status", [
    (b'{"success":true,"err":"","result":"x"}', 125), (b'{"success":true,"err":"","result":-5}', 125), (b"garbage", 125), (b"{" * 70000, 125),
    (b'{"success":true,"err":"","result":7}{"success":true,"err":"","result":0}', 125), (b'{"success":false,"err":"no\\u001b[31m"}', 125), (b"", 125)])
def test_a_sentry_that_lies_ends_one_request(lie, status):
    with StandIn() as sentry:
        try:
            sentry.connection.sendall(lie)
        except (BrokenPipeError, ConnectionResetError):
            pass
        sentry.connection.shutdown(socket.SHUT_WR)
        assert sentry.process.wait(30) == status
        told = sentry.failure()
        assert told and re.fullmatch("[ -~]+", told), told


@pytest.mark.parametrize("word, status, told", [
    (EXECUTE, 127, "prog: command not found inside the sandbox"), (struct.pack("<ii", 3, 13), 127, "cannot enter folder /tmp: Permission denied"),
    (struct.pack("<ii", 99, 13), 125, "its leader was ended"), (struct.pack("<ii", 4, -1), 126, "cannot execute prog: I/O error"), (b"", 125, "its leader was ended"),
    (b"half", 125, "its leader was ended")])
def test_a_leader_that_lies_ends_its_own_request(word, status, told):
    """GV-5"""
    with StandIn() as sentry:
        sentry.started()
        os.write(sentry.fds[4], word * (1 if len(word) < 8 else 4000))  # one word is read, whatever else comes
        os.close(sentry.fds.pop(4))
        if "leader" in told:
            sentry.say(result=0)
        assert sentry.process.wait(30) == status
        said = sentry.failure()
        assert told.replace("I/O error", "") in said, said


def test_a_leader_that_does_not_listen_holds_up_nothing():
    """Signals are lost then; the end is not, since it is the end of a pipe."""
    with StandIn() as sentry:
        sentry.started()
        os.write(sentry.fds[4], STARTED)
        assert sentry.failure() is None
        for _ in range(2000):
            sentry.process.send_signal(signal.SIGUSR1)
        sentry.process.kill()
        sentry.process.wait(30)
        os.set_blocking(sentry.fds[3], True)
        while os.read(sentry.fds[3], 65536):
            pass


def test_descriptors_that_a_sentry_sends_are_not_kept():
    with StandIn() as sentry:
        before = len(os.listdir(f"/proc/{sentry.process.pid}/fd"))
        passed, other = socket.socketpair()
        socket.send_fds(sentry.connection, [b'{"success":true,"err":"",'], [passed.fileno()])
        passed.close()
        other.settimeout(30)
        assert other.recv(1) == b"", "the kernel closed it: nobody asked for it"
        sentry.connection.sendall(b'"result":7}')
        sentry.connection.recv(65536)
        assert len(os.listdir(f"/proc/{sentry.process.pid}/fd")) <= before
        other.close()


def test_a_join_that_is_held_up_holds_up_nobody(box):
    one = box.spawn("sh", "-c", "echo on; sleep 6543")
    assert read_some(one.fds[0], 10) == b"on\n"
    held = parts(box, b"6543")["join"]
    os.kill(held, signal.SIGSTOP)
    try:
        assert box.run("echo", "others") == (0, "others\n", "")
        assert box.ask("stats").type == "stats"
    finally:
        os.kill(held, signal.SIGCONT)
    box.ask("signal", {"pid": one.value, "signal": 9, "group": True})
    box.exited(one.value)


# ---- what is not there, and what a request may ask for ----

def test_a_request_may_ask_for_it_where_the_template_has_containers(serve):
    box = serve.launch("container", policy="kernel: {tier: gvisor}\n")
    box.ready()
    box.claim()
    assert box.run("uname", "-r")[1] == "4.4.0\n"
    box.close()
    with pytest.raises(Failed, match="kernel.tier"):
        serve.launch("gvisor", policy="kernel: {tier: container}\n").ready()


def test_what_is_not_there_is_refused_with_the_reason(serve):
    with pytest.raises(Failed, match="memory"):
        serve.launch("gvisor", policy="lifecycle: {memory: 32M}\n").ready()
    with pytest.raises(Failed, match="exec"):
        serve.launch("gvisor", policy="filesystem: {exec: false}\n").ready()


def test_no_runsc_no_sandbox(serve):
    """A sandbox is refused where its tier is not available, and nothing weaker comes in its place."""
    with Serve(serve.caller, templates={"gvisor.json": GVISOR}, env={"BRIG_RUNSC": "/nonesuch/runsc"}) as other:
        other.count = 2000
        with pytest.raises(Failed, match="runsc"):
            other.launch("gvisor").ready()
        assert other.box("base").run("true")[0] == 0


# ---- ends ----

def until_gone(serve, box):
    """Others may have ended a moment ago."""
    while serve.gone().json["id"] != box.id:
        pass


BUSY = "mkdir -p a/b; mkfifo a/p; (setsid sleep 300 &) ; sleep 300 & sleep 300"


@pytest.mark.builds
@pytest.mark.parametrize("part", ["engine", "runsc-sandbox", "runsc-gofer", "init", "warden"])
def test_killing_a_part_leaves_nothing(serve, part):
    left = Left()
    box = serve.box("gvisor")
    box.spawn("sh", "-c", BUSY)
    left.note(box)
    known = {**parts(box), "init": box.told["init"], "warden": box.told["warden"]}
    os.kill(known[part], signal.SIGKILL)
    if part != "warden":
        told = box.next("fail")
        assert told.request == 0 and ("Sentry" in told.json["message"] or part == "init"), told.json
        assert box.next("ended").json["reason"]
    until_gone(serve, box)
    left.none()
    box.close()


@pytest.mark.parametrize("part", ["warden", "engine", "runsc-gofer", "runsc-sandbox"])
def test_killing_a_part_while_the_sentry_boots_leaves_nothing(serve, part):
    """As soon as it is there: nobody is told that a sandbox is ready whose Sentry is not."""
    left = Left()
    box = serve.launch("gvisor")
    warden = wait_for(lambda: [pid for pid, name in below(serve.pid).items() if name == "brig-warden" and read_stat(pid)[2] == serve.pid and not known(serve, pid)])[0]
    left.ids.add(box.id)

    def victim():
        left.processes |= {(pid, start_time(pid)) for pid in (warden, *below(warden))}
        return warden if part == "warden" else parts(warden).get(part)

    pid = wait_for(victim)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises((Failed, Gone)) as failed:
        box.ready()
        box.next("ended")  # it was faster
        raise Gone
    assert failed.type is Gone or "Sentry" in str(failed.value), failed.value
    until_gone(serve, box)
    left.none()
    box.close()


def known(serve, pid):
    return any(getattr(box, "told", {}).get("warden") == pid for box in serve.boxes)


def test_killing_a_join_ends_its_process(box):
    one = box.spawn("sh", "-c", "echo on; sleep 5432 & sleep 5432")
    assert read_some(one.fds[0], 10) == b"on\n"
    os.kill(parts(box, b"5432")["join"], signal.SIGKILL)
    assert os.WTERMSIG(box.exited(one.value)) == 9
    assert read_all(one.fds[0]) == b"", "all that it started has ended"


def test_killing_the_daemon_leaves_nothing(serve):
    left = Left()
    other = Serve(serve.caller, templates=TEMPLATES, env=NAMED)
    other.count = 1000  # names of its own
    box = other.box("gvisor")
    box.spawn("sh", "-c", BUSY)
    waiting = other.launch("gvisor")
    waiting.ready()
    left.note(box), left.note(waiting)
    other.process.kill()
    box.close(), waiting.close()
    assert other.stop()[0] == -9
    left.none()


# ---- the published clients ----

YAML = "policy: {kernel: {tier: gvisor}, lifecycle: {memory: 1G, sampling: accept}}\n"
CLIENT_TEMPLATES = {"small.yaml": "description: little room\npolicy: {kernel: {tier: gvisor}, lifecycle: {disk: 48M, sampling: accept}}\n",
                    "base.yaml": "description: behind a Sentry\n" + YAML,
                    "python.yaml": "description: Python\naliases: [code-interpreter-v1]\ninterpreter: python\nmodules: [json]\npool: {min: 1}\n" + YAML}
# Each for one of the callers, in the full form for both.
SCRIPTS = {"root": ["commands", "files", "code", "ports"], "user": ["pty", "pause"]}
FULL = os.environ.get("BRIG_TEST_FULL") == "1"
CLIENTS = [(user, script) for user in USERS for script in (sum(SCRIPTS.values(), []) if FULL or len(USERS) == 1 else SCRIPTS[user])]


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param, templates=CLIENT_TEMPLATES, built_in=True, env=NAMED) as made:
        made.caller = request.param
        yield made


@pytest.fixture(scope="module")
def scripts(daemon):
    """All of them side by side: they wait more than they compute."""
    clients = npmlib.install()
    env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": daemon.key}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield {script: pool.submit(subprocess.run, ["node", f"{script}.mjs"], cwd=clients, env=env, text=True, capture_output=True, timeout=900)
               for user, script in CLIENTS if user == daemon.caller}


@pytest.mark.parametrize("daemon, script", CLIENTS, indirect=["daemon"], scope="module")
def test_client(scripts, script):
    said = scripts[script].result()
    failed = [line for line in said.stdout.splitlines() if line.startswith("FAILED")]
    assert said.returncode == 0 and not failed and "ok " in said.stdout, said.stdout + said.stderr


def test_brig_exec_and_the_pool(daemon):
    wait_for(lambda: daemon.metric("brig_pool_idle") >= 1, what="one waits, and its Sentry has booted")
    before = daemon.metric("brig_pool_hits_total")
    box = daemon.create("python")
    assert daemon.metric("brig_pool_hits_total") == before + 1
    env = {"PATH": os.environ["PATH"], "BRIG_API_KEY": daemon.key}
    told = subprocess.run([program(), "exec", "--host", daemon.url, box.id, "--", "sh", "-c", "uname -r; exit 3"], env=env, capture_output=True, text=True,
                          timeout=300, cwd="/")
    assert (told.returncode, told.stdout) == (3, "4.4.0\n"), told
    assert box.kill() == 204
