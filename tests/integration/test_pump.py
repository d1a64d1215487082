"""Sandboxes of `brig serve` with a folder that may stop answering: what the code does with memory from there holds up
nobody else, and everything that a process says arrives as it would without a pump."""
import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import hangfs
import pytest
from daemonlib import IS_ROOT, Daemon, frames, wait_for
from helpers import CALLERS, below
from servelib import Failed, Serve, read_all
from verifylib import weak_programs

pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can mount a file system")
PYTHON = "/usr/bin/python3"
PATIENCE = 100


class WeakDaemon(Daemon):
    """Without pumps: the front does what they do for it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, env={"BRIG_WEAKEN": "errands"}, **kwargs)

    def command(self):
        return [str(weak_programs() / "brig"), *super().command()[1:]]


@contextlib.contextmanager
def hung_daemon(kind=Daemon):
    """A daemon, a template whose folder holds a file that is never read, and the file system that serves it."""
    place = Path(tempfile.mkdtemp(prefix="test-brig-", dir="/srv" if os.access("/srv", os.W_OK) else "/var/tmp"))
    place.chmod(0o755)
    try:
        # The daemon ends last: what hangs is let go first.
        with contextlib.ExitStack() as stack:
            hung = stack.enter_context(hangfs.hang(place))
            text = f"policy: {{filesystem: {{ro: [{place}]}}}}\n"
            made = kind("root", templates={"hung.yaml": text, "local.yaml": "policy: {filesystem: {ro: [/usr/share]}}\n"})
            stack.callback(made.close)
            stack.callback(hung.close)
            hung.close, hung.daemon = lambda: None, made
            yield hung
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def hung():
    with hung_daemon() as made:
        yield made


@pytest.fixture
def box(hung):
    made = hung.daemon.create("hung")
    yield made
    made.kill()


def pumps(daemon):
    return [pid for pid, name in daemon.children().items() if name == "brig-pump"]


class Started:
    """A process whose answer is read piece by piece."""

    def __init__(self, box, *argv, pty=None, stdin=False, timeout=PATIENCE):
        body = {"process": {"cmd": argv[0], "args": list(argv[1:])}, "stdin": stdin}
        if pty:
            body["pty"] = {"size": pty}
        text = json.dumps(body).encode()
        self.box = box
        self.connection = box.daemon.connection(timeout)
        self.connection.request("POST", "/process.Process/Start", struct.pack(">BI", 0, len(text)) + text, box.headers(
            **{"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}))
        self.response = self.connection.getresponse()
        self.pid = self.next()["event"]["start"]["pid"]

    def next(self):
        head = self.response.read(5)
        return json.loads(self.response.read(struct.unpack(">BI", head)[1]))

    def until(self, word):
        seen = b""
        while word not in seen:
            data = self.next()["event"]["data"]
            seen += base64.b64decode(data.get("pty") or data.get("stdout") or "")
        return seen

    def rest(self):
        return frames(self.response.read())

    def tell(self, method, timeout=60, **more):
        return self.box.request("POST", f"/process.Process/{method}", {"process": {"pid": self.pid}, **more}, timeout=timeout)

    def send(self, data, kind="stdin"):
        return self.tell("SendInput", input={kind: base64.b64encode(data).decode()})

    def close(self):
        self.connection.close()


# ---- a pump that comes late ----


def test_what_a_late_pump_brings_is_not_lost(hung, box):
    """On a busy machine a pump may have to wait for its turn longer than the process lives."""
    before = set(pumps(hung.daemon))
    p = Started(box, "/bin/sh", "-c", "sleep 2; echo said")
    (late,) = set(pumps(hung.daemon)) - before
    os.kill(late, signal.SIGSTOP)
    time.sleep(2.8)
    os.kill(late, signal.SIGCONT)
    told = b"".join(base64.b64decode(m["event"]["data"].get("stdout", "")) for flags, m in p.rest() if "data" in m.get("event", {}))
    assert told == b"said\n"
    p.close()


# ---- the code holds a pipe, or a terminal ----

# With memory that is never there: read only, or to be written to.
MAP = """
import fcntl, mmap, os, sys, termios
fd = os.open({place!r} + "/file", os.O_RDONLY)
def mapped(prot): return mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=prot)
r, w = mapped(mmap.PROT_READ), mapped(mmap.PROT_READ | mmap.PROT_WRITE)
"""
WRITES = "os.writev({fd}, [b'x' * 8192, memoryview(r)])"
READS = "print('reads', flush=True); os.readv(0, [w])"
ASKS = "print('asks', flush=True); fcntl.ioctl(0, termios.TIOCGWINSZ, w)"
SIZE = {"cols": 80, "rows": 24}


def output(box, code):
    return Started(box, PYTHON, "-c", code(WRITES.format(fd=1)))


def input_(box, code):
    process = Started(box, PYTHON, "-c", code(READS), stdin=True)
    process.until(b"reads")
    process.send(b"x")
    return process


def terminal(box, code):
    return Started(box, PYTHON, "-c", code(WRITES.format(fd=1)), pty=SIZE)


def size(box, code):
    process = Started(box, PYTHON, "-c", code(ASKS), pty=SIZE)
    process.until(b"asks")
    return process


def interpreter(fd):
    def execute(box, code):
        def run():
            with contextlib.suppress(OSError, AssertionError):
                box.execute(code(WRITES.format(fd=fd)), timeout=20)

        threading.Thread(target=run, daemon=True).start()

    return execute


def read_file(box, code):
    def read():
        with contextlib.suppress(OSError):
            box.request("GET", f"/files?path={code.place}/file", timeout=20)

    threading.Thread(target=read, daemon=True).start()


HOLDS = {"output": output, "input": input_, "terminal": terminal, "size": size, "answers": interpreter(4),
         "interpreter": interpreter(1), "file": read_file}


def hold(hung, how):
    """A sandbox whose code waits with its pipe or terminal locked; what the front does with it goes on."""
    def code(text):
        return MAP.format(place=hung.place) + text

    code.place = hung.place
    hung.asked.clear()
    box = hung.daemon.create("hung")
    process = HOLDS[how](box, code)
    assert hung.asked.wait(60), "it was not asked for the file"
    with contextlib.suppress(OSError):
        if how == "size":
            process.tell("Update", timeout=10, pty={"size": {"cols": 90, "rows": 30}})
        if how == "input":
            process.send(b"more")
    return box


@pytest.mark.meanwhile
@pytest.mark.parametrize("how", HOLDS)
def test_what_the_code_holds_holds_up_nobody_else(how):
    with hung_daemon() as hung:
        held = hold(hung, how)
        before = time.monotonic()
        other = hung.daemon.create("base")
        assert other.sh("echo fine").out == b"fine\n"
        assert held.kill() == 204
        assert other.sh("echo still").out == b"still\n"
        assert time.monotonic() - before < PATIENCE
        wait_for(lambda: held.id not in hung.daemon.live(), PATIENCE, "the end of the sandbox")


def hangs(daemon):
    try:
        daemon.request("GET", "/health", timeout=10)
    except TimeoutError:
        return True
    return False


@pytest.mark.meanwhile
@pytest.mark.parametrize("how", ["output", "answers"])
def test_control_without_a_pump_it_holds_up_all(how):
    """At the latest when the front closes what the code has locked."""
    with hung_daemon(WeakDaemon) as hung:
        with contextlib.suppress(TimeoutError):
            box = hold(hung, how)
            hung.daemon.request("DELETE", f"/sandboxes/{box.id}", timeout=10)
        wait_for(lambda: hangs(hung.daemon), PATIENCE, "the daemon hangs")


# ---- with a pump everything is as without ----

def test_only_sandboxes_that_need_one_have_one(hung, box):
    with contextlib.closing(Started(box, "cat", stdin=True)):
        wait_for(lambda: pumps(hung.daemon), what="a pump")
    box.kill()
    wait_for(lambda: not pumps(hung.daemon), what="its end")
    local = hung.daemon.create("local")
    process = Started(local, "cat", stdin=True)
    process.send(b"x\n")
    process.until(b"x\n")
    local.execute("6 * 7")
    assert pumps(hung.daemon) == []
    process.close()
    local.kill()


def test_output_arrives_whole(box):
    result = box.sh("head -c 10000000 /dev/zero | tr '\\0' x; echo end >&2; exit 7")
    assert (len(result.out), result.err, result.status) == (10_000_000, b"end\n", 7)


def test_input_arrives_whole(box):
    with contextlib.closing(Started(box, "sh", "-c", "wc -c", stdin=True)) as process:
        for _ in range(20):
            process.send(b"x" * 50_000)
        process.tell("CloseStdin")
        assert process.until(b"\n") == b"1000000\n"


def test_a_slow_reader_misses_nothing_of_what_was_written_before_the_end(box):
    """More than the pipes hold: when the process ends, its last words are still with the pump."""
    with contextlib.closing(Started(box, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo last")) as process:
        time.sleep(2)  # the process has ended, or waits for us
        seen = b"".join(base64.b64decode(m["event"]["data"].get("stdout", "")) for flags, m in process.rest()
                        if "data" in m.get("event", {}))
    assert len(seen) == 3_000_005 and seen.endswith(b"last\n")


def test_a_process_whose_children_hold_its_pipes_ends(box):
    before = time.monotonic()
    result = box.sh("echo before; (while sleep 0.1; do echo more; done) & exit 3")
    assert result.status == 3 and result.out.startswith(b"before\n")
    assert time.monotonic() - before < 60


def test_a_terminal(box):
    with contextlib.closing(Started(box, "bash", "--norc", pty=SIZE)) as process:
        process.send(b"stty size\n", "pty")
        process.until(b"24 80")
        process.tell("Update", pty={"size": {"cols": 120, "rows": 33}})
        process.send(b"stty size\n", "pty")
        process.until(b"33 120")
        process.send(b"exit 5\n", "pty")
        assert process.rest()[-2][1]["event"]["end"]["exitCode"] == 5


def test_words_come_after_the_output_before_them(box):
    for i in range(50):
        told = box.execute(f"import sys\nprint('x' * 100000)\nprint('err', file=sys.stderr)\n{i}")
        kinds = [line["type"] for line in told]
        assert sum(len(line["text"]) for line in told if line["type"] == "stdout") == 100001
        assert kinds.index("result") > max(n for n, kind in enumerate(kinds) if kind in ("stdout", "stderr")), kinds


def test_last_words_of_an_interpreter(box):
    told = box.execute("import os\nos.write(1, b'y' * 300000)\nos._exit(3)")
    assert sum(len(line["text"]) for line in told if line["type"] == "stdout") == 300_000
    assert any(line["type"] == "error" for line in told), told[-1]


# ---- a connection to a port inside ----

LISTENS = """
import socket
server = socket.create_server(("127.0.0.1", 8080))
print("listens", flush=True)
while True:
    peer, _ = server.accept()
    data = b""
    while more := peer.recv(65536): data += more
    peer.sendall(str(len(data)).encode())
    peer.close()
"""


def test_a_connection_goes_by_a_pump(hung):
    """PU-5: whoever had a copy of its socket inside could lock it with memory that is not there."""
    template = {"policy": {"filesystem": {"ro": [hung.place]}}}
    with Serve(CALLERS[0], templates={"hung.json": template}) as serve:
        box = serve.box("hung")
        started = box.spawn(PYTHON, "-c", LISTENS)
        assert os.read(started.fds[0], 10) == b"listens\n"
        others = len([name for name in below(box.told["warden"]).values() if name == "brig-pump"])
        (fd,) = box.ask("connect", {"port": 8080}).fds
        with socket.socket(fileno=fd) as ours:
            assert ours.family == socket.AF_UNIX
            wait_for(lambda: [*below(box.told["warden"]).values()].count("brig-pump") == others + 1, what="its pump, by its name")
            ours.setblocking(True)
            ours.sendall(b"x" * 3_000_000)
            ours.shutdown(socket.SHUT_WR)
            assert ours.recv(100) == b"3000000" and ours.recv(1) == b""
        wait_for(lambda: [*below(box.told["warden"]).values()].count("brig-pump") == others, what="the end of its pump")
        with pytest.raises(Failed, match="refused"):
            box.ask("connect", {"port": 8081})
        wait_for(lambda: [*below(box.told["warden"]).values()].count("brig-pump") == others, what="nothing is left of it")
        box.close()


def test_control_a_socket_that_is_shared_can_be_locked(hung):
    """O_NONBLOCK and MSG_DONTWAIT do not help."""
    server = socket.create_server(("127.0.0.1", 0))
    shared = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    hung.asked.clear()
    code = MAP.format(place=hung.place) + f"import socket\nsocket.socket(fileno={shared.fileno()}).sendmsg([b'x', memoryview(r)])"
    holds = subprocess.Popen([PYTHON, "-c", code], pass_fds=[shared.fileno()])
    try:
        assert hung.asked.wait(60)
        waits = subprocess.Popen([PYTHON, "-c", f"import socket\nsocket.socket(fileno={shared.fileno()}).recv(1, socket.MSG_DONTWAIT)"],
                                 pass_fds=[shared.fileno()], stderr=subprocess.DEVNULL)
        wait_for(lambda: "lock_sock" in Path(f"/proc/{waits.pid}/stack").read_text(), what="it waits for the lock")
        waits.kill()
    finally:
        holds.kill()
        for each in (server, shared, peer):
            each.close()


# ---- work on files ----

def holders(box, fd):
    """Which processes of the sandbox hold an end of this pipe; {pid: name}."""
    pipe, found = f"pipe:[{os.fstat(fd).st_ino}]", {}
    for pid, name in below(box.told["warden"]).items():
        with contextlib.suppress(OSError):
            if any(os.readlink(f"/proc/{pid}/fd/{n}") == pipe for n in os.listdir(f"/proc/{pid}/fd")):
                found[pid] = name
    return found


@contextlib.contextmanager
def boxes(hung, **more):
    """One that needs pumps, and one that does not."""
    templates = {f"{name}.json": {"policy": {"filesystem": {"ro": [str(place)]}}} for name, place in (("hung", hung.place), ("local", "/usr/share"))}
    with Serve(CALLERS[0], templates=templates, **more) as serve:
        made = serve.box("hung"), serve.box("local")
        yield made
        for box in made:
            box.close()


def test_work_on_files_goes_by_a_pump(hung):
    """PU-1: whoever is inside has no pipe that the front has an end of, so that it can lock none with memory that is not there.
    The control, without folders that may stop answering: it is the same pipe."""
    with boxes(hung) as made:
        for box, inside in zip(made, (False, True)):
            out, into = box.ask("file", {"op": "write", "path": "/tmp/file"}).fds
            for fd in (out, into):
                found = holders(box, fd)
                assert found and ("brig-pump" not in found.values()) == inside, found
                assert len(found) == 1, found
            os.close(out)
            os.close(into)
        wait_for(lambda: "brig-pump" not in below(made[0].told["warden"]).values(), what="the end of its pump")


def pipes_of(*pids):
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {link for n in os.listdir(f"/proc/{pid}/fd") if (link := os.readlink(f"/proc/{pid}/fd/{n}")).startswith("pipe:")}
    return found


def shared_while_it_starts(hung, box, tty):
    """Pipes of the warden that somebody inside has an end of, while a program is being executed that is never found."""
    hung.asked.clear()
    box.wire.send("spawn", 1, 0, {"argv": [f"{hung.place}/hang"], "env": {}, "cwd": "", "tty": tty, "stdin": False, "interpreter": None}, ())
    assert hung.asked.wait(60), "it was not asked for the program"
    box.ask("stats")  # by now it has let go of what it only handed on
    return pipes_of(box.told["warden"]) & pipes_of(box.told["init"], *below(box.told["init"]))


@pytest.mark.parametrize("tty", [None, SIZE], ids=["pipes", "terminal"])
def test_how_a_start_went_goes_by_a_pump(tty):
    """PU-1: the pipe by which the warden hears it, and closes it. The control does without pumps."""
    with hung_daemon() as hung, boxes(hung) as (box, _):
        assert shared_while_it_starts(hung, box, tty) == set()
    with hung_daemon() as hung, boxes(hung, brig=weak_programs() / "brig", env={"BRIG_WEAKEN": "errands"}) as (box, _):
        assert shared_while_it_starts(hung, box, tty)


@pytest.mark.parametrize("tty", [None, SIZE], ids=["pipes", "terminal"])
def test_a_start_that_failed_is_told_by_a_pump(hung, tty):
    with boxes(hung) as made:
        for box in made:
            with pytest.raises(Failed, match="no such program|not found|No such file"):
                box.spawn("/nosuch/program", tty=tty)


def test_files_arrive_whole_by_a_pump(hung):
    data = os.urandom(3_000_000)
    with boxes(hung) as (box, _):
        out, into = box.ask("file", {"op": "write", "path": "/tmp/whole"}).fds
        os.set_blocking(into, True)
        for at in range(0, len(data), 65536):
            os.write(into, data[at:at + 65536])
        os.close(into)
        assert told(out)[0] == (1, struct.pack("<iIQ", 0, 0, len(data)))
        (out,) = box.ask("file", {"op": "read", "path": "/tmp/whole"}).fds
        assert b"".join(body for kind, body in told(out) if kind == 4) == data
        assert box.run("sh", "-c", "sha256sum </tmp/whole")[1].split()[0] == hashlib.sha256(data).hexdigest()


def test_an_upload_that_was_given_up_leaves_nothing_by_a_pump(hung):
    """Also when both its ends come to the pump at one time."""
    with boxes(hung) as (box, _):
        for stopped in (False, True) * 5:
            out, into = box.ask("file", {"op": "write", "path": "/tmp/half"}).fds
            (pump,) = holders(box, into)
            os.write(into, b"half of it")
            if stopped:
                os.kill(pump, signal.SIGSTOP)
            os.close(out)
            os.close(into)
            if stopped:
                os.kill(pump, signal.SIGCONT)
            wait_for(lambda: "brig-pump" not in below(box.told["warden"]).values(), what="the end of its pump")
            assert box.run("sh", "-c", "ls -A /tmp")[1] == ""
        out, into = box.ask("file", {"op": "write", "path": "/tmp/half"}).fds
        os.write(into, b"all of it")
        os.close(into)
        assert told(out)[-1][0] == 5, "the control: one that is still listened for"
        assert box.run("cat", "/tmp/half")[1] == "all of it"


def told(out):
    """The frames of an answer: [(type, what it holds)]."""
    data, frames, at = read_all(out), [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<BxxxI", data, at)
        frames.append((kind, data[at + 8:at + 8 + length]))
        at += 8 + length
    return frames
