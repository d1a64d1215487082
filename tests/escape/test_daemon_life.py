"""Rows L and R that need a living daemon: verbs on a living sandbox, clients that leave, floods, admission."""
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import daemonlib
import pytest
from daemonlib import USERS, Daemon, parent, wait_for


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param) as made:
        yield made
        assert made.process.poll() is None, (made.folder / "said").read_text()


@pytest.fixture
def nothing_left(daemon):
    """Afterwards no sandbox lives, and every warden that is there belongs to a pool or to a template's process."""
    yield
    wait_for(lambda: not daemon.live(), what="no sandbox lives")
    wait_for(lambda: unowned(daemon) <= 0, 60, f"wardens that belong to nobody: {daemon.children()}")


def unowned(daemon):
    pools = sum(p["idle"] + p["starting"] for p in daemon.request("GET", "/pools").json)
    wardens = [pid for pid, name in daemon.children().items() if name == "brig-warden" and parent(pid) == daemon.pid]
    stems = [pid for pid, name in daemon.children().items() if name == "brig-stem"]
    return len(wardens) - pools - len(stems)


def sleeper_of(daemon, box):
    """The pid of a process that is started in the sandbox, as the host sees it."""
    mark = f"{50000 + next(_marks)}.{os.getpid()}"

    def look():
        for pid in daemon.children():
            try:
                if mark.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid if parent(pid) else None
            except OSError:
                pass
        return None

    box.begin("/bin/sleep", mark)[0].close()
    return wait_for(look, what="its process")


_marks = itertools.count(1)


def below(daemon, top):
    """Pids of all that is below one process of the daemon's."""
    pids = daemon.children()
    parents = {pid: parent(pid) for pid in pids}
    found, size = {top}, 0
    while len(found) != size:
        size = len(found)
        found |= {pid for pid in pids if parents[pid] in found}
    return found


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def in_parallel(count, fn):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(fn, range(count)))


# ---- L-04 ----

def refused_for_good(daemon, box):
    """Every verb on it says that it is not there."""
    for method, path, body in [("GET", "", None), ("POST", "/timeout", {"timeout": 60}), ("POST", "/pause", {}),
                               ("POST", "/resume", {}), ("POST", "/connect", {}), ("PUT", "/network", {}), ("DELETE", "", None)]:
        assert daemon.request(method, f"/sandboxes/{box.id}{path}", body).status == 404, (method, path)
    for path, port in [("/process.Process/List", 49983), ("/filesystem.Filesystem/Stat", 49983), ("/execute", 49999), ("/", 3000)]:
        assert box.request("POST", path, {"path": "/", "code": "1"}, port=port).status == 502, path
    made = daemon.request("POST", "/sandboxes", {"templateID": "base", "sandboxID": box.id})
    assert made.status == 400 and "sandboxID" in made.json["message"], "an id cannot be chosen"


def test_L04_no_way_back_after_the_time_is_over(daemon, nothing_left):
    box = daemon.create(timeout=300)
    assert box.sh("echo alive").out == b"alive\n"
    assert daemon.request("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 1}).status == 204
    wait_for(lambda: box.info().status == 404, what="the end of its time")
    refused_for_good(daemon, box)


def test_L04_no_way_back_after_a_crash(daemon, nothing_left):
    box = daemon.create()
    other = daemon.create()
    box.sh("true"), other.sh("true")
    sleeper = sleeper_of(daemon, box)
    # The parent of what runs inside is its init: that one is killed from outside.
    os.kill(parent(sleeper), signal.SIGKILL)
    wait_for(lambda: box.info().status == 404, what="its end is noticed")
    refused_for_good(daemon, box)
    assert other.sh("echo fine").out == b"fine\n", "its neighbour does not care"
    other.kill()


HOG = "x = []\nwhile True: x.append(b'x' * (1 << 23))"


def is_told_of_memory(text):
    """In words: what happened, the limit, what can be done."""
    return text.startswith("oom_killed: ") and "limit 192M" in text and "raise lifecycle.memory in template tight" in text


def test_L04_out_of_memory_is_the_end_of_what_used_it(daemon, nothing_left):
    """Of that process, not of the sandbox with all its state; whoever waits for it is told at once."""
    box = daemon.create("tight")
    box.write("kept", b"kept")
    with_state = {"context_id": box.request("POST", "/contexts", {"language": "python"}, port=49999).json["id"]}
    box.execute("kept = 41", **with_state)
    bystander, stream = box.begin("/bin/sh", "-c", "sleep 600")
    told = box.run("/usr/bin/python3", "-c", HOG, timeout=600)
    end = next(e["event"]["end"] for e in told.events if "end" in e.get("event", {}))
    assert told.status == 137 and is_told_of_memory(end["error"]), end
    assert box.read("kept") == b"kept"
    assert any(line.get("text") == "42" for line in box.execute("kept + 1", **with_state)), "other interpreters keep their state"
    assert "oom_killed" in daemon.request("GET", f"/sandboxes/{box.id}/logs").body.decode()

    # An interpreter: what it was asked is told, and a fresh one is there for what comes next.
    for which in ({}, with_state):
        told = [line for line in box.execute(HOG, timeout=600, **which) if line["type"] == "error"]
        assert [e["name"] for e in told] == ["OutOfMemory"] and is_told_of_memory(told[0]["value"]), told
        assert any(line.get("text") == "2" for line in box.execute("1 + 1", **which)), "a fresh one takes its place"
    assert [line["name"] for line in box.execute("kept", **with_state) if line["type"] == "error"] == ["NameError"]

    listed = [p["config"]["cmd"] for p in box.call("List", {}, "process.Process").json["processes"]]
    assert listed == ["/bin/sh"], "who had no part in it lives on"
    bystander.close()
    box.kill()
    receipt = wait_for(lambda: (a := daemon.request("GET", f"/sandboxes/{box.id}/receipt")).status == 200 and a.json, what="a receipt")
    assert receipt["usage"]["oom_kills"] >= 3 and receipt["verdict"]["limit_hit"] is None, receipt["usage"]
    assert any("oom_killed" in d["what"] for d in receipt["decisions"]["denials"]), receipt["decisions"]
    records = daemon.request("GET", f"/audit?box={box.id}").body.decode()
    assert '"oom_killed":true' in records.replace(" ", "") and '"outcome":"oom_killed"' in records.replace(" ", "")


def test_L04_brig_exec_says_that_memory_ran_out(daemon, nothing_left):
    box = daemon.create("tight")
    command = [daemonlib.program(), "exec", "--host", daemon.url, box.id, "--", "python3", "-c", HOG]
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, cwd="/",
                          env={"PATH": os.environ["PATH"], "BRIG_API_KEY": daemon.key})
    assert told.returncode == 137 and is_told_of_memory(told.stderr.removeprefix("brig exec: ")), told
    box.kill()


# ---- L-06 ----

def test_L06_two_ends_of_one_sandbox(daemon, nothing_left):
    for _ in range(15):
        box = daemon.create()
        told = in_parallel(6, lambda _: box.kill())
        assert told.count(204) >= 1 and set(told) <= {204, 404}, told
        assert box.info().status == 404


def test_L06_the_end_in_the_middle_of_everything(daemon, nothing_left):
    def work(box, what):
        try:
            if what == 0:
                return box.request("POST", "/process.Process/Start", box.start_body(["/bin/sleep", "30"]),
                                   headers={"Content-Type": "application/connect+json"}).status
            if what == 1:
                return box.request("POST", "/files?path=x", b"x" * 4_000_000,
                                   headers={"Content-Type": "application/octet-stream"}).status
            if what == 2:
                return box.request("GET", "/files?path=/usr/bin/python3").status
            if what == 3:
                return box.request("POST", "/execute", {"code": "import time; time.sleep(30)"}, port=49999).status
            if what == 4:
                return daemon.request("POST", f"/sandboxes/{box.id}/pause", {}).status
            return box.request("POST", "/filesystem.Filesystem/ListDir", {"path": "/usr/bin"}).status
        except (OSError, daemonlib.http.client.HTTPException):
            return "cut"

    for turn in range(12):
        box = daemon.create()
        with concurrent.futures.ThreadPoolExecutor(7) as pool:
            busy = [pool.submit(work, box, what) for what in range(6)]
            time.sleep(0.01 * turn)
            ended = pool.submit(box.kill)
            told = [b.result(300) for b in busy]
            assert ended.result(300) == 204
        assert set(told) <= {200, 204, 400, 403, 404, 409, 500, 502, 503, "cut"}, told
        assert box.info().status == 404
    assert daemon.create().kill() == 204, "and the next one is there"


def test_L06_ends_and_beginnings_at_once(daemon, nothing_left):
    def cycle(_):
        seen = set()
        for _ in range(4):
            box = daemon.create()
            seen.add(box.id)
            assert box.sh("echo $$").status == 0
            assert box.kill() == 204
        return seen

    ids = in_parallel(6, cycle)
    assert len(set().union(*ids)) == 24


# ---- L-07 ----

def drop(daemon, method, path, body=b"", headers=None, after=0.0, key=True):
    """A client that sends and is gone: after so many seconds, or when something has happened. Its port is told."""
    sent = {"Host": "localhost", "Content-Length": str(len(body)), **(headers or {})}
    if key:
        sent["X-API-KEY"] = daemon.key
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in sent.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port)) as s:
        ours = s.getsockname()[1]
        s.sendall(head.encode() + body)
        after() if callable(after) else time.sleep(after)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return ours


def held(port, peer):
    """Does the process at this port still hold its end of the connection with that one?"""
    ends = f":{port:04X}", f":{peer:04X}"
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[9] != "0" for row in rows)


def went_away(daemon):
    """How many sandboxes have ended because whoever asked for them left."""
    text = daemon.request("GET", "/metrics").body.decode()
    found = re.search(r'^brig_boxes_ended_by_reason_total\{reason="the_client_went_away"\} (\d+)$', text, re.M)
    return int(found[1]) if found else 0


def test_L07_a_client_that_leaves_during_create(daemon, nothing_left):
    """Nobody knows the id of such a sandbox: it ends. (One from a pool would be there before the client can leave.)

    What launches is stopped meanwhile: otherwise a client that gets no CPU for some milliseconds leaves too late."""
    assert daemon.request("PUT", "/pools/small", {"min": 0, "max": 0}).status == 204
    created, ended = daemon.metric("brig_boxes_created_total"), went_away(daemon)
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            control = pool.submit(daemon.create, "small")
            for turn in range(10):
                ours = drop(daemon, "POST", "/sandboxes", b'{"templateID":"small"}', after=0.002 * turn)
                wait_for(lambda ours=ours: not held(daemon.port, ours), what="the daemon lets go of the connection")
            assert daemon.metric("brig_boxes_created_total") == created and not control.done(), "none of them is made yet"
            os.kill(daemon.pid, signal.SIGCONT)
            control = control.result(300)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    try:
        wait_for(lambda: daemon.live() == [control.id], what="only that of the client that stayed lives")
        wait_for(lambda: went_away(daemon) - ended == daemon.metric("brig_boxes_created_total") - created - 1 > 0,
                 what="and all the others ended for this reason")
    finally:
        control.kill()


def test_L07_a_client_that_leaves_about_when_it_is_answered(daemon, nothing_left):
    """Before or after, as it happens: a sandbox ends at once, or when its time is over."""
    assert daemon.request("PUT", "/pools/small", {"min": 0, "max": 0}).status == 204
    for turn in range(20):
        drop(daemon, "POST", "/sandboxes", b'{"templateID":"small","timeout":2}', after=0.0005 * turn)
    assert daemon.create("small").kill() == 204


def test_L07_a_client_that_leaves_during_a_command(daemon, nothing_left):
    """The command goes on, listed and owned by its sandbox, and ends with it."""
    box = daemon.create()
    connection, _ = box.begin("/bin/sleep", "600")
    ours = connection.sock.getsockname()[1]
    connection.close()
    wait_for(lambda: not held(daemon.port, ours), what="the daemon lets go of the connection")
    running = box.call("List", {}, service="process.Process").json["processes"]
    assert [p["config"]["cmd"] for p in running] == ["/bin/sleep"]
    box.kill()


def test_L07_a_client_that_leaves_during_transfers(daemon, nothing_left):
    box = daemon.create()
    box.sh("head -c 30000000 /dev/zero > large")
    warden = parent(parent(sleeper_of(daemon, box)))  # of the first process of its sandbox
    assert daemon.children()[warden] == "brig-warden"
    workers = below(daemon, warden)
    assert len(workers) >= 3
    for turn in range(5):
        drop(daemon, "GET", "/files?path=large", headers=box.headers(), after=0.05 * turn, key=False)
        drop(daemon, "POST", "/files?path=half", b"x" * 100_000, {**box.headers(), "Content-Length": "5000000"},
             after=0.05 * turn, key=False)
        drop(daemon, "POST", "/filesystem.Filesystem/WatchDir", b"\0\0\0\0\x0d{\"path\":\"/\"} ", box.headers(), after=0.05, key=False)
    # Of this sandbox alone: pools fill up meanwhile.
    wait_for(lambda: below(daemon, warden) <= workers, what="no worker is left")
    assert box.request("GET", "/files?path=half").status == 404, "half an upload is no file"
    assert box.sh("ls -A").out == b"large\n"
    box.kill()


def test_L07_a_client_that_leaves_during_an_execution(daemon, nothing_left):
    box = daemon.create("python")
    box.execute("import time; ran = []")
    code = json.dumps({"code": "ran.append(1)\ntry:\n    open('begun', 'w').close()\n    time.sleep(600)\nfinally:\n    ran.append(2)"}).encode()
    drop(daemon, "POST", "/execute", code, box.headers(49999), key=False,
         after=lambda: wait_for(lambda: box.request("GET", "/files?path=begun").status == 200, what="the code runs"))
    told = wait_for(lambda: [t for t in box.execute("ran") if t["type"] == "result"], what="the context is free again")
    assert told[0]["text"] == "[1, 2]"
    box.kill()


# ---- L-08 ----

def test_L08_a_warden_that_does_not_answer(daemon, nothing_left):
    """One that is held up (here by a signal, in place of a file system that something inside serves) is killed, and all of its sandbox ends.
    Control: the next sandbox ends without that."""
    box, control = daemon.create(), daemon.create()
    inside = sleeper_of(daemon, box)
    warden = parent(parent(inside))
    assert daemon.children()[warden] == "brig-warden"
    os.kill(warden, signal.SIGSTOP)
    assert control.kill() == 204 and parent(warden), "and this one is still there"
    answer = daemon.request("DELETE", f"/sandboxes/{box.id}", timeout=300)
    assert answer.status == 204, answer
    wait_for(lambda: not {warden, inside} & daemon.children().keys(), what="its warden and its process have ended")
    assert box.id not in daemon.live()


# ---- L-09 ----

STAY = r"""
trap '' TERM HUP INT
for i in 1 2 3; do (setsid sh -c "trap '' TERM HUP; while :; do date > /tmp/beat; sleep 0.1; done" &) ; done
while :; do echo busy; (: < /dev/tcp/127.0.0.1/49983) 2>/dev/null; sleep 0.05; done
"""


def test_L09_time_is_not_made_inside(daemon, nothing_left):
    short, long = daemon.create(timeout=3000), daemon.create(timeout=3000)
    streams = [b.begin("/bin/sh", "-c", STAY) for b in (short, long)]
    for b in (short, long):
        # Not read: it is written anew all the time, and a file that became shorter meanwhile ends in a reset.
        wait_for(lambda b=b: b.call("Stat", {"path": "/tmp/beat"}).status == 200, what="what wants to stay runs")
    begin = time.monotonic()
    assert daemon.request("POST", f"/sandboxes/{short.id}/timeout", {"timeout": 3}).status == 204
    while short.info().status == 200:
        try:
            short.request("GET", "/files?path=/tmp/beat")  # use does not extend it either
        except (OSError, daemonlib.http.client.HTTPException):
            pass  # it ended in the middle
        assert time.monotonic() - begin < 300, "it lives on"
        time.sleep(0.1)
    assert time.monotonic() - begin > 1.5, "it lived"
    assert long.info().status == 200 and long.sh("echo alive").out == b"alive\n", "the control: the same, with more time"
    for connection, _ in streams:
        connection.close()
    long.kill()


# ---- R-12 ----

def test_R12_output_without_end(daemon, nothing_left):
    """One client reads as fast as it can, one never: memory stays, others are served."""
    box = daemon.create()
    front = daemon.front()
    before = resident(front)
    reader, response = box.begin("/usr/bin/yes", "x" * 1000)
    idle = [box.begin("/usr/bin/yes", "y" * 1000) for _ in range(4)]
    got, end = 0, time.monotonic() + 3
    while time.monotonic() < end or got <= 10 << 20:
        got += len(response.read1(1 << 16))
    assert daemon.request("GET", "/version").status == 200
    assert resident(front) < before + (48 << 20), "memory grew"
    told = box.sh("head -c 100000000 /dev/zero", timeout=600)
    assert len(told.out) == 100_000_000 and told.status == 0
    assert resident(front) < before + (48 << 20), "memory grew"
    for connection, _ in [(reader, response), *idle]:
        connection.close()
    box.kill()


def test_R12_results_without_end(daemon, nothing_left):
    box = daemon.create("python")
    front = daemon.front()
    before = resident(front)
    told = box.execute("'x' * (64 << 20)", timeout=600)
    assert told[-1]["type"] == "end_of_execution"
    assert sum(len(json.dumps(t)) for t in told) < 40 << 20
    assert resident(front) < before + (160 << 20)
    wait_for(lambda: any(t.get("text") == "2" for t in box.execute("1+1")), what="the sandbox goes on")
    box.kill()


# ---- R-13 ----

def test_R13_output_as_it_was_written(daemon, nothing_left):
    box = daemon.create()
    every = bytes(range(256)) * 100
    told = box.run("/usr/bin/python3", "-c", "import os, sys; os.write(1, bytes(range(256)) * 100); os.write(2, bytes(range(256)))")
    assert told.out == every and told.err == bytes(range(256))
    told = box.sh("i=0; while [ $i -lt 3000 ]; do printf x; i=$((i+1)); done")
    assert told.out == b"x" * 3000
    told = box.run("/usr/bin/python3", "-c", "print('l' * 50000000, end='')", timeout=600)
    assert len(told.out) == 50_000_000
    # Were the end held by the child, there would be no answer in time.
    told = box.sh("echo main; (sleep 100000; echo late) & exit 5")
    assert (told.status, told.out) == (5, b"main\n")
    told = box.sh("exec 1>&-; exec 2>&-; sleep 0.2; exit 7")
    assert (told.status, told.out) == (7, b"")
    box.kill()


def test_R13_both_streams_and_a_slow_client(daemon, nothing_left):
    box = daemon.create()
    connection, response = box.begin("/bin/sh", "-c", "head -c 5000000 /dev/zero >&2 & head -c 5000000 /dev/zero; wait")
    time.sleep(1)
    told = daemonlib.Result(daemonlib.frames(response.read()))
    connection.close()
    assert (len(told.out), len(told.err), told.status) == (5_000_000, 5_000_000, 0)
    box.kill()


# ---- R-14 ----

@pytest.mark.parametrize("user", USERS)
def test_R14_admission(user):
    limit = 6
    with Daemon(user, "--max-sandboxes", str(limit)) as daemon:
        # What waits in a pool counts as well; here it would only blur the numbers.
        assert daemon.request("PUT", "/pools/base", {"min": 0, "max": 0}).status == 204
        seen, stop = [], threading.Event()

        def watch():
            while not stop.is_set():
                seen.append(len(daemon.live()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        told = in_parallel(60, lambda _: daemon.request("POST", "/sandboxes", {"templateID": "base"}))
        stop.set()
        watcher.join()
        made = [t for t in told if t.status == 201]
        rest = [t for t in told if t.status != 201]
        assert 1 <= len(made) <= limit and max(seen) <= limit, (len(made), max(seen))
        assert {t.status for t in rest} == {429} and all(t.headers["Retry-After"] for t in rest), {t.status for t in rest}
        assert sorted(daemon.live()) == sorted(t.json["sandboxID"] for t in made)
        for t in made:
            assert daemon.request("DELETE", f"/sandboxes/{t.json['sandboxID']}").status == 204
        wait_for(lambda: not daemon.live())
        again = [daemon.request("POST", "/sandboxes", {"templateID": "base"}).status for _ in range(limit + 2)]
        assert again == [201] * limit + [429] * 2, "the count is exact afterwards"
