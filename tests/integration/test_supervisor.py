"""What the code controls holds up nobody, and does not take from others what they share: sockets that linger, descriptors
on their way, file systems that do not answer, the host's tables; and what the code could see of others."""
import contextlib
import ctypes
import errno
import fcntl
import inspect
import json
import mmap
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import pytest

import hangfs
from helpers import ANY, CALLERS, IS_ROOT, ROOT, USER, wait_for
from verifylib import weak_programs

PYTHON = "/usr/bin/python3"
callers = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
meanwhile = pytest.mark.meanwhile
only_root = pytest.mark.skipif(not IS_ROOT, reason="only root can mount a file system")


def container(caller):
    return caller.with_options("--tier", "container")


# ---- a socket that lingers, closed by whoever looks at it ----

LINGER = """
import ctypes, hashlib, os, random, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
block = memoryview(bytes(200_000))
there = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", 81, socket.inet_aton("10.11.12.13"))
def lingering():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1)
    c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    c.connect(s.getsockname()); p, _ = s.accept(); c.setblocking(False)
    try:
        while True: c.send(b"x" * 65536)
    except BlockingIOError: pass
    return c, p, s
null = os.open("/dev/null", os.O_RDONLY)
def closer(fd, go, delay):
    go.wait()
    hashlib.sha256(block[:delay])  # works without the interpreter's lock
    libc.dup2(null, fd)
c = lingering()[0]
print("lingers", struct.unpack("ii", c.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))[0], flush=True)
kept, end = [c], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and len(kept) < 1900:  # who closes last in here waits, too, and is not waited for
    c, p, s = lingering(); s.close(); kept.append(p); go, fd = threading.Event(), c.detach()
    threading.Thread(target=closer, args=(fd, go, random.randrange(2048, len(block))), daemon=True).start()
    go.set(); libc.connect(fd, there, 16)
time.sleep(1000)
"""
# brig, its time limit; far more than it should take, and not so much that a run that hangs is waited for all day.
LIMIT, PATIENCE = 8, 100


def weak(caller, guards, *args):
    command = caller.outside(str(weak_programs() / "brig"), "run", "--tier", "container", *args)
    return subprocess.Popen(command, cwd="/", env={**os.environ, "BRIG_WEAKEN": guards}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def linger_against(process):
    """(its status or None, what it printed)."""
    try:
        out, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        process.kill()
        process.communicate()


def linger_run(times=1):
    """The attack lasts 5 seconds of the limit's 8, or so many times as long."""
    return ["--allow", "example.com", "--open-files", "4000", "--pids", "2500", "--timeout", f"{LIMIT * times}s",
            "--", PYTHON, "-c", LINGER, str(5 * times)]


@meanwhile
@callers
def test_a_socket_that_lingers_does_not_hold_up_its_supervisor(caller):
    before = time.monotonic()
    status, out = linger_against(container(caller).start(*linger_run(), text=True))
    assert status == 124 and time.monotonic() - before < PATIENCE
    assert "lingers 0" in out, "a socket inside can linger"


@pytest.mark.meanwhile(seconds=25)
@pytest.mark.parametrize("guard", ["socket-options", "errands"])
def test_each_of_its_two_guards_is_enough(guard):
    status, out = linger_against(weak(ANY, guard, *linger_run()))
    assert status == 124
    assert ("lingers 1" in out) == (guard == "socket-options")


@pytest.mark.meanwhile(seconds=25)
def test_control_without_both_the_supervisor_hangs():
    """The time limit passes, and the supervisor closes a socket of the code's. It is a race, which the weakened program makes
    easy to win (os/errand.c): more than one try, and longer ones, since on a busy machine the code hardly comes to it."""
    for times in range(1, 11):
        process = weak(ANY, "socket-options,errands", *linger_run(times))
        try:
            process.wait(LIMIT * times + 12)
        except subprocess.TimeoutExpired:
            return
        finally:
            process.kill()
            process.communicate()
    raise AssertionError("the attack does not work at all")


def test_a_socket_that_lingers_on_the_process_tier():
    """There the supervisor takes every socket that is to be connected."""
    code = "import socket, struct\ns = socket.socket(); s.setsockopt(1, 13, struct.pack('ii', 1, 600))\n" \
           "print(s.getsockopt(1, 13, 8) == bytes(8), s.connect_ex(('10.11.12.13', 81)))"
    told = ANY.with_options("--tier", "process").run("--allow", "example.com", "--", PYTHON, "-c", code)
    assert told.stdout.split()[0] == "True", told


@meanwhile
@callers
def test_a_flood_of_calls_that_are_shown_keeps_nobody_from_the_time_limit(caller):
    """Removing a file by its name is shown to the supervisor of the process tier (/dev/shm)."""
    code = ("import os, threading\n"
            "def flood():\n"
            "    while True:\n"
            "        try: os.close(os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)); os.unlink('/dev/shm/x'); os.unlink('nothing')\n"
            "        except OSError: pass\n"
            "for _ in range(8): threading.Thread(target=flood).start()\n")
    before = time.monotonic()
    done = caller.with_options("--tier", "process").run("--timeout", "4s", "--", PYTHON, "-c", code, timeout=PATIENCE)
    assert done.returncode == 124 and time.monotonic() - before < PATIENCE, done


# ---- calls that wait with a pipe locked ----

# Each waits for a socket or a terminal for ever. A program that is refused them says so, and goes on.
HOLD_BY_CALL = """
import os, pty, socket, sys, time
def mute():
    return socket.socketpair()
def full():
    a, b = socket.socketpair(); a.setblocking(False)
    try:
        while True: a.send(b"x" * 4096)
    except BlockingIOError: a.setblocking(True)
    return a, b
how = sys.argv[1]
try:
    kept = full() if how == "input" else pty.openpty() if how == "terminal" else mute()
    end = kept[1] if how == "terminal" else kept[0].fileno()
    os.write(1, b"begins\\n")  # whoever reads this finds the pipe locked: nothing stands between
    if how == "splice" or how == "terminal": os.splice(end, 1, 4096)
    if how == "sendfile": os.sendfile(1, end, None, 4096)
    if how == "input": os.splice(0, end, 4096)
except OSError as error:
    print(error.strerror, flush=True)
time.sleep(1000)
"""
CALLS = ["splice", "sendfile", "terminal", "input"]


def start_holding(command, how, env=None):
    # So that somebody goes on writing into the code's pipe. It ends with its reader.
    drops = subprocess.Popen(["sh", "-c", "while echo x; do sleep 0.05; done"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with drops.stdout:
        return subprocess.Popen([*command, PYTHON, "-c", HOLD_BY_CALL, how], cwd="/", env={**os.environ, **(env or {})},
                                stdin=drops.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def descendants(pid):
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [other for child in children for other in (child, *descendants(child))]


def names_of_groups(pid):
    """As its sandbox's are called."""
    try:
        return set(re.findall(r"/(brig-[0-9a-f]+)$", Path(f"/proc/{pid}/cgroup").read_text(), re.M))
    except OSError:
        return set()


def let_go(process):
    """Whoever holds up another is killed, until all have gone. The guardian is among them: its work is done here."""
    pids = [*descendants(process.pid), process.pid]
    names = set().union(*map(names_of_groups, pids))
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    for path in [path for name in names for path in groups_of(name)]:
        wait_for(lambda: removed(path), what=f"{path} is empty")


def removed(path):
    try:
        os.rmdir(path)
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


@meanwhile
@callers
@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("how", CALLS)
def test_a_call_does_not_hold_up_who_has_the_other_end_of_a_pipe(caller, tier, how):
    command = caller.with_options("--tier", tier).command("--timeout", "3s", "--")
    process = start_holding(command, how)
    try:
        out, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        let_go(process)
        raise
    assert process.returncode == 124, out
    assert (how == "terminal" and tier == "process") or out == b"begins\nInvalid argument\n", out


def holds_up(how):
    command = [str(weak_programs() / "brig"), "run", "--tier", "container", "--timeout", "1s", "--"]
    process = start_holding(command, how, {"BRIG_WEAKEN": "pipes"})
    try:
        process.wait(15)
        return False
    except subprocess.TimeoutExpired:
        return True
    finally:
        let_go(process)


@pytest.mark.meanwhile(seconds=25)
@pytest.mark.parametrize("how", CALLS)
def test_control_of_the_calls_that_hold_up(how):
    """A reader that is quick finds the pipe before it is locked, and empty afterwards: the code may try as often as it likes."""
    assert any(holds_up(how) for _ in range(30))


COPY = """
import shutil, socket, subprocess
open("/tmp/from", "w").write("text" * 1000)
shutil.copyfile("/tmp/from", "/tmp/to")
a, b = socket.socketpair()
a.sendfile(open("/tmp/from", "rb")); a.close()
got = b""
while part := b.recv(65536): got += part
print(open("/tmp/to", "rb").read() == got, subprocess.run(["cat", "/tmp/from"], capture_output=True).stdout == got)
"""


@callers
def test_programs_copy_instead(caller):
    done = container(caller).run("--", PYTHON, "-c", COPY)
    assert done.stdout == "True True\n", done


FLOOD_BOTH = "yes & exec yes >&2"


@meanwhile
@callers
@pytest.mark.parametrize("tier", ["container", "process"])
def test_a_reader_who_stops_does_not_hold_up_the_supervisor_of_both_streams(caller, tier):
    """`2>&1 | less`: what poll says of a pipe is no longer so when the other stream has written to it."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # room for one of the two
    process = caller.with_options("--tier", tier).start("--timeout", "5s", "--", "sh", "-c", FLOOD_BOTH, stdout=writer, stderr=writer)
    os.close(writer)

    def flooding():
        return [pid for pid in descendants(process.pid) if comm(pid) == "yes"]

    try:
        wait_for(lambda: len(flooding()) == 2, what="both are written to")
        os.read(reader, 4096)
        wait_for(lambda: not flooding(), PATIENCE, what="the time limit")  # brig itself then waits to say so
    finally:
        os.close(reader)
        process.kill()
        process.wait()


# ---- a file system that does not answer ----

@contextlib.contextmanager
def new_place():
    """A folder that everybody can reach, where no sandbox has one of its own."""
    made = Path(tempfile.mkdtemp(prefix="test-brig-", dir="/srv" if os.access("/srv", os.W_OK) else "/var/tmp"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextlib.contextmanager
def hung_place():
    with new_place() as place, hangfs.hang(place) as made:
        yield made


@pytest.fixture
def place():
    with new_place() as made:
        yield made


@pytest.fixture
def hung():
    with hung_place() as made:
        yield made


def with_hung(test):
    """Makes the file system for a test that runs beside others."""
    def with_one_of_its_own(**given):
        with hung_place() as made:
            test(hung=made, **given)

    wanted = inspect.signature(test)
    with_one_of_its_own.__name__, with_one_of_its_own.__doc__ = test.__name__, test.__doc__
    with_one_of_its_own.__signature__ = wanted.replace(parameters=[p for p in wanted.parameters.values() if p.name != "hung"])
    return with_one_of_its_own


@meanwhile
@only_root
@with_hung
def test_code_that_waits_for_a_file_system_is_left_behind(hung):
    """It cannot be killed; the run ends all the same, and says so."""
    before = time.monotonic()
    done = container(USER).run("--ro", hung.place, "--timeout", "3s", "--", "cat", f"{hung.place}/file", timeout=PATIENCE)
    assert hung.asked.is_set(), "it was not asked for the file"
    assert done.returncode == 124 and "could not be killed" in done.stderr, done
    assert time.monotonic() - before < PATIENCE


def groups_of(sandbox):
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith("/" + sandbox)]


@pytest.mark.meanwhile(seconds=45)
@only_root
def test_what_was_left_behind_goes_when_the_file_system_answers():
    """Nobody waits for the guardian: it stays until the last task has ended, and then removes the groups."""
    one_round = 30  # seconds: longer than one attempt at each group
    with hung_place() as hung:
        done = ROOT.with_options("--tier", "container").run(
            "--json", "--ro", hung.place, "--timeout", "3s", "--", "cat", f"{hung.place}/file", timeout=PATIENCE)
        sandbox = json.loads(done.stdout)["sandbox_id"]
        if not groups_of(sandbox):
            pytest.skip("this machine has no cgroups for it")
        time.sleep(one_round)
        assert groups_of(sandbox), "control: as long as a task is in there they cannot go"
    wait_for(lambda: not groups_of(sandbox), what=f"the end of {groups_of(sandbox)}")


# The kernel locks a pipe while it copies to or from memory; here that memory is a file that does not answer.
HOLD_OUTPUT = """
import mmap, os, sys, time
m = mmap.mmap(os.open(sys.argv[1] + "/file", os.O_RDONLY), 4096, prot=mmap.PROT_READ)
os.writev(1, [b"x" * 8192, memoryview(m)])
"""
HOLD_INPUT = """
import mmap, os, sys, time
m = mmap.mmap(os.open(sys.argv[1] + "/file", os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
print("reads", flush=True)
os.readv(0, [m])
"""


def end_of(process):
    """(its status or None if it hangs, what it said)."""
    try:
        out, err = process.communicate(input=b"x" * (1 << 20), timeout=PATIENCE)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()  # and it is not waited for: it cannot be killed
        return None, b"", b""


@meanwhile
@only_root
@callers
@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("code", [HOLD_OUTPUT, HOLD_INPUT], ids=["output", "input"])
@with_hung
def test_a_pipe_that_the_code_holds_does_not_hold_up_its_supervisor(hung, caller, tier, code):
    before = time.monotonic()
    status, _, said = end_of(caller.with_options("--tier", tier).start(
        "--ro", hung.place, "--timeout", "3s", "--", PYTHON, "-c", code, hung.place, stdin=subprocess.PIPE))
    assert hung.asked.is_set(), "it was not asked for the file"
    assert status == 124 and b"could not be killed" in said, (status, said)
    assert time.monotonic() - before < PATIENCE


# The size of a terminal is locked while somebody is told it.
HOLD_SIZE = """
import fcntl, mmap, os, sys, termios
m = mmap.mmap(os.open(sys.argv[1] + "/file", os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
print("asks", flush=True)
fcntl.ioctl(0, termios.TIOCGWINSZ, m)
"""


def resized(command, env, asked):
    """Its status, or None if it hangs, with a terminal whose size changes while the code holds it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd="/", env={**os.environ, **env}, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert asked.wait(60), "it was not asked for the file"
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 120, 0, 0))
    process.send_signal(signal.SIGWINCH)
    try:
        return process.wait(25)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        os.close(ours)


@meanwhile
@only_root
@pytest.mark.parametrize("tier", ["container", "process"])
@with_hung
def test_the_size_of_a_terminal_that_the_code_holds_does_not_hold_up_its_supervisor(hung, tier):
    command = ANY.command("--tier", tier, "--tty", "--ro", hung.place, "--timeout", "3s", "--", PYTHON, "-c", HOLD_SIZE, hung.place)
    assert resized(command, {}, hung.asked) == 124


@pytest.mark.meanwhile(seconds=25)
@only_root
@with_hung
def test_control_of_the_size_of_a_terminal(hung):
    command = [str(weak_programs() / "brig"), "run", "--tier", "container", "--tty", "--ro", hung.place, "--timeout", "3s", "--",
               PYTHON, "-c", HOLD_SIZE, hung.place]
    assert resized(command, {"BRIG_WEAKEN": "errands"}, hung.asked) is None


@only_root
@pytest.mark.parametrize("tier", ["container", "process"])
def test_a_terminal_that_is_pumped_has_the_callers_size(hung, tier):
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 21, 77, 0, 0))
    command = ANY.command("--tier", tier, "--tty", "--ro", hung.place, "--", "sh", "-c",
                          "trap 'stty size; exit 4' WINCH; stty size; echo ready; while :; do sleep 0.1; done")
    process = subprocess.Popen(command, cwd="/", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(ours, 1000)
    assert b"21 77" in seen
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 120, 0, 0))
    process.send_signal(signal.SIGWINCH)
    while b"33 120" not in seen:
        seen += os.read(ours, 1000)
    assert process.wait(60) == 4
    os.close(ours)


def comm(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()


def pumps(process):
    return [pid for pid in descendants(process.pid) if comm(pid) == "brig-pump"]


@only_root
@callers
@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("where", ["nowhere", "granted", "below", "local"])
def test_there_is_a_pump_where_it_is_needed(place, caller, tier, where):
    """For a granted folder that may stop answering, or one below it; nobody else pays for one."""
    (place / "below").mkdir()
    options = {"nowhere": [], "local": ["--ro", place], "granted": ["--ro", place / "below"], "below": ["--ro", place, "--submounts"]}[where]
    with hangfs.hang(place / "below") if where in ("granted", "below") else contextlib.nullcontext():
        process = caller.with_options("--tier", tier).start(*options, "--", "cat", stdin=subprocess.PIPE)
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        assert len(pumps(process)) == (where in ("granted", "below"))
        process.communicate()
        assert process.returncode == 0


def killed_pump(process):
    out, err = process.communicate()
    return process.returncode, out, b"its pump died" in err


@meanwhile
@only_root
@pytest.mark.parametrize("tier", ["container", "process"])
@with_hung
def test_a_pump_that_is_killed_ends_the_run(hung, tier):
    process = ANY.with_options("--tier", tier).start("--ro", hung.place, "--", "cat", stdin=subprocess.PIPE)
    process.stdin.write(b"x")
    process.stdin.flush()
    assert process.stdout.read(1) == b"x"
    os.kill(pumps(process)[0], signal.SIGKILL)
    assert killed_pump(process) == (137, b"", True)


@meanwhile
@only_root
@pytest.mark.parametrize("tier", ["container", "process"])
@with_hung
def test_output_that_is_lost_with_a_pump_is_no_success(hung, tier):
    """The code has ended, and well; its last words were still with the pump."""
    with tempfile.TemporaryDirectory(prefix="test-brig-", dir=Path(hung.place).parent) as flags:
        os.chmod(flags, 0o755)
        process = ANY.with_options("--tier", tier).start("--ro", hung.place, "--ro", flags, "--", "sh", "-c",
                                                         f"echo ready; until [ -e {flags}/go ]; do sleep 0.05; done; echo last")
        assert process.stdout.read(6) == b"ready\n"
        pump = pumps(process)[0]
        os.kill(pump, signal.SIGSTOP)
        Path(flags, "go").touch()
        wait_for(lambda: not [p for p in descendants(process.pid) if comm(p) == "sh"], what="the end of the code")
        os.kill(pump, signal.SIGKILL)
        assert killed_pump(process) == (137, b"", True)


@meanwhile
@only_root
@pytest.mark.parametrize("tier", ["container", "process"])
@with_hung
def test_a_pump_that_is_stopped_is_no_reason_of_its_own(hung, tier):
    """The limit ended the run; that the pump was killed for it, and how long that took, is nobody's concern."""
    process = ANY.with_options("--tier", tier).start("--ro", hung.place, "--timeout", "3s", "--", "sh", "-c", "echo ready; exec sleep 1000")
    assert process.stdout.read(6) == b"ready\n"
    os.kill(pumps(process)[0], signal.SIGSTOP)
    out, err = process.communicate()
    assert process.returncode == 124 and b"pump" not in err, err


@meanwhile
@only_root
@with_hung
def test_output_that_a_pump_keeps_back_is_no_success(hung):
    """It is given time, since nothing else ended the run."""
    with tempfile.TemporaryDirectory(prefix="test-brig-", dir=Path(hung.place).parent) as flags:
        os.chmod(flags, 0o755)
        process = ANY.start("--json", "--ro", hung.place, "--ro", flags, "--", "sh", "-c",
                            f"until [ -e {flags}/go ]; do sleep 0.05; done; echo last")
        wait_for(lambda: pumps(process), what="its pump")
        os.kill(pumps(process)[0], signal.SIGSTOP)
        Path(flags, "go").touch()
        told = json.loads(process.communicate()[0])
    why = "its pump did not pass on all that the code wrote"
    assert process.returncode == 137 and told["exit_code"] is None and told["stdout"] == "", told
    assert told["ended_because"] == told["receipt"]["verdict"]["ended_because"] == why, told
    assert "pump" not in str(told["receipt"]["weaker_than_level"])


needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")


def failing(call, error, when, *args):
    """A run in which one call of the supervisor's fails: its status, its report, and whether the call was made at all."""
    with tempfile.NamedTemporaryFile("r") as log:
        prefix = ["strace", "-qq", "-o", log.name, "-e", f"trace={call}"]
        inject = ["-e", f"inject={call}:error={error}:when={when}"] if when else []
        done = subprocess.run([*prefix, *inject, *ANY.command("--json", *args)], capture_output=True, cwd="/", stdin=subprocess.DEVNULL, timeout=300)
        return done.returncode, json.loads(done.stdout), "(INJECTED)" in log.read()


@needs_strace
@pytest.mark.parametrize("when", [None, 2])
def test_output_that_cannot_be_watched_for_is_no_success(when):
    """The code has ended, and well; its pipe is still open, and the second loop is the one that reads it to its end. A supervisor
    that was held up finds the pipe closed already, and has no second loop."""
    for _ in range(20):
        status, told, failed = failing("epoll_create1", "ENOSPC", when, "--", "sh", "-c", "sleep 1000 & echo last")
        if failed:
            break
        assert status == 0 and told["stdout"] == "last\n" and not told.get("ended_because"), told
        if not when:
            return
    assert failed, "the second loop was never made"
    why = "what the code wrote last could not be watched for"
    assert status == 137 and told["exit_code"] is None and told["ended_because"] == why, told


@needs_strace
@pytest.mark.parametrize("when", [None, "3+"])
def test_a_disk_that_cannot_be_measured_at_the_end_is_no_success(when):
    """The sockets of init and of the notary are the first two; from the third on they are for who looks at the folder."""
    status, told, failed = failing("socketpair", "EMFILE", when, "--tier", "process", "--", "sh", "-c", "echo some > file")
    assert failed == bool(when) and told["limit_hit"] is None and not told["timed_out"] and not told["oom_killed"], told
    if not when:
        assert status == told["exit_code"] == 0 and "ended_because" not in told, told
        return
    why = "what it left on disk could not be measured"
    assert status == 137 and told["exit_code"] is None, told
    assert told["ended_because"] == told["receipt"]["verdict"]["ended_because"] == why, told


@pytest.mark.meanwhile(seconds=25)
@only_root
def test_control_without_a_pump_it_does():
    """It ends when the file system is taken away."""
    with new_place() as place, hangfs.hang(place):
        process = weak(ANY, "errands", "--ro", place, "--timeout", "3s", "--", PYTHON, "-c", HOLD_OUTPUT, place)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(25)
        process.kill()
    process.communicate()


@meanwhile
@only_root
@callers
@with_hung
def test_a_path_that_does_not_answer_holds_up_no_report(caller, hung):
    """Report mode looks whether the host has what the code asks for."""
    code = f"try: open({hung.place + '/hang/x'!r})\nexcept OSError: pass\nprint('went on')"
    done = container(caller).run("--report-files", "--timeout", "60s", "--", PYTHON, "-c", code, timeout=PATIENCE)
    assert hung.asked.is_set(), "nobody looked"
    assert done.returncode == 0 and "went on" in done.stdout, done


@meanwhile
@only_root
@with_hung
def test_memory_on_a_file_system_that_does_not_answer(hung):
    """The name of a call lies in a page of such a file: whoever reads it waits."""
    code = f"""
import ctypes, mmap, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.connect.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
fd = os.open({hung.place + '/file'!r}, os.O_RDONLY)
page = libc.mmap(None, 4096, 1, 1, fd, 0)
import socket
s = socket.socket()
print(libc.connect(s.fileno(), page, 16), flush=True)
"""
    before = time.monotonic()
    process = container(USER).start("--ro", hung.place, "--allow", "example.com", "--timeout", "8s", "--", PYTHON, "-c", code,
                                    text=True)
    out, err = process.communicate(timeout=PATIENCE)
    assert hung.asked.is_set(), (out, err)
    assert process.returncode == 124 and time.monotonic() - before < PATIENCE, (out, err)


# ---- descriptors on their way ----

# What others of this user had on their way when they ended is taken back by the kernel in its own time, also after this one had
# as much as it may: then it sends more.
FLOOD = """
import array, os, socket, sys, time
sent, kept, told, end = 0, [], False, time.monotonic() + 60
null = os.open("/dev/null", os.O_RDONLY)
while sent < 20000:
    before = sent
    try:
        a, b = socket.socketpair(); kept += [a, b]
        for _ in range(8):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 200))])
            sent += 200
    except OSError as error:
        if not told and (sent > 200 or time.monotonic() > end):
            print(sent, error.errno, flush=True)
            told = True
        elif not told:
            kept, sent = [], 0
        elif sent == before:
            del kept[-2:]
        time.sleep(0.1)
time.sleep(1000)
"""
ONE = """
import array, errno, os, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
a, b = socket.socketpair()
try:
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
except OSError as error:
    print(errno.errorcode[error.errno])
else:
    print("sent")
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs a user of whom nothing else on this machine is")
@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("hard", [None, 1024])
def test_descriptors_on_their_way_do_not_keep_others_from_starting(tier, hard):
    """They are counted by user. A sandbox takes as many as it may, and all others of that user start all the same."""
    def limit():
        if hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def one():
        return subprocess.run(USER.outside(PYTHON, "-c", ONE), capture_output=True, text=True, check=False).stdout

    def begin():
        wait_for(lambda: one() == "sent\n", what="nothing of others is on its way")
        flood = USER.start("--tier", tier, "--", PYTHON, "-c", FLOOD, text=True, preexec_fn=limit)
        said = flood.stdout.readline().split()
        assert said and int(said[0]) > 200 and int(said[1]) == errno.ETOOMANYREFS, said or flood.communicate()
        return flood

    def is_control():
        """A program of that user cannot send. (What the kernel counts for it goes up and down with what others had; then it is begun anew.)"""
        return hard or any(one() == "ETOOMANYREFS\n" for _ in range(200))

    flood = begin()
    try:
        for _ in range(10):
            if control := is_control():
                break
            print("not blocked; the flood:", flood.poll())
            flood.kill()
            print(flood.communicate())
            flood = begin()
        assert control
        for other in ("container", "process"):
            done = USER.run("--tier", other, "--", "echo", "started", preexec_fn=limit)
            assert done.stdout == "started\n", (other, done)
        done = USER.run("--tier", "container", "--allow", "example.com", "--", "echo", "network", preexec_fn=limit)
        assert done.stdout == "network\n", done
    finally:
        flood.kill()
        flood.communicate()


@callers
def test_the_code_has_what_the_policy_says(caller):
    told = caller.json("--open-files", "300", "--", "sh", "-c", "ulimit -n; ulimit -Hn")
    assert told["stdout"] == "300\n300\n"
    small = caller.json("--", "sh", "-c", "ulimit -Hn", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700)))
    assert small["stdout"] == "188\n", "less than brig's own, so that brig can still send"


# ---- tables of the host ----

AIO = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
number, made = (0 if platform.machine() == "aarch64" else 206), 0
while made < 64:
    context = ctypes.c_ulong(0)
    if libc.syscall(number, 8192, ctypes.byref(context)) < 0: break
    made += 1
print(made, ctypes.get_errno(), flush=True)
input()
"""


def aio_in_use():
    return int(Path("/proc/sys/fs/aio-nr").read_text())


@callers
@pytest.mark.parametrize("tier", ["container", "process"])
def test_queues_for_asynchronous_io_are_not_for_one_sandbox(caller, tier):
    process = caller.start("--tier", tier, "--", PYTHON, "-c", AIO, text=True, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline().split() == ["0", str(errno.ENOSYS)]
    finally:
        process.kill()
        process.communicate()


def test_control_queues_for_asynchronous_io():
    before = aio_in_use()
    process = subprocess.Popen([PYTHON, "-c", AIO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert int(process.stdout.readline().split()[0]) > 0 and aio_in_use() > before
    finally:
        process.kill()
        process.communicate()


class Unwritten:
    """A page of a file on a disk of the host's that is not written back yet. The kernel does that by itself after half a minute."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(dir="/var/tmp")
        self.file.write(bytes(4096))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.map = mmap.mmap(self.file.fileno(), 4096)
        self.change()

    def change(self):
        os.pwrite(self.file.fileno(), b"x", 0)

    def is_there(self):
        assert self.map[0] == ord("x")  # so that the page is mapped
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        pagemap, flags = os.open("/proc/self/pagemap", os.O_RDONLY), os.open("/proc/kpageflags", os.O_RDONLY)
        try:
            frame = struct.unpack("Q", os.pread(pagemap, 8, address // 4096 * 8))[0] & (1 << 55) - 1
            return bool(struct.unpack("Q", os.pread(flags, 8, frame * 8))[0] & 1 << 4)
        finally:
            os.close(pagemap)
            os.close(flags)


@pytest.mark.skipif(not IS_ROOT or not os.path.exists("/proc/kpageflags") or os.sysconf("SC_PAGE_SIZE") != 4096, reason="root can see whether a page was written back")
@callers
@pytest.mark.parametrize("tier", ["container", "process"])
def test_nobody_has_all_of_the_host_written_back(caller, tier):
    """K-14: sync is for all file systems of the host, and waits for each. Others on this machine may ask for it just then."""
    page = Unwritten()
    if not page.is_there():
        pytest.skip("/var/tmp is no disk")

    def stays():
        page.change()
        done = caller.run("--tier", tier, "--", PYTHON, "-c", "import os; print(os.sync())")
        assert done.stdout == "None\n", done
        return page.is_there()

    wait_for(stays, 600, "it is not written back")
    os.sync()
    assert not page.is_there(), "the control: outside it is"


# ---- what the code sees of others ----

WATCH = """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
masks = {"all": 0xfff, "open": 0x20, "access": 0x1, "close": 0x10, "some": 0x22}
for name, mask in masks.items():
    number = libc.inotify_add_watch(fd, sys.argv[1].encode(), mask | 0x20000000)
    print(name, number if number > 0 else os.strerror(ctypes.get_errno()))
print("watching", flush=True)
input()
seen = set()
while select.select([fd], [], [], 0.3)[0]:
    data = os.read(fd, 65536)
    while data:
        _, mask, _, size = struct.unpack_from("iIII", data)
        seen.add(mask & 0xfff); data = data[16 + size:]
print("saw", sorted(seen))
"""
SHARED = "/usr/share"


def watch(process):
    """Starts it, opens a file of the host in the folder that it watches, and gives what it said."""
    said = ""
    while "watching" not in said:
        line = process.stdout.readline()
        assert line, process.communicate()
        said += line
    for path in Path(SHARED).iterdir():
        if path.is_dir():
            os.listdir(path)
    out, _ = process.communicate("\n", timeout=60)
    return said + out


@callers
def test_who_reads_a_shared_file_is_not_seen(caller):
    said = watch(container(caller).start("--", PYTHON, "-c", WATCH, SHARED, text=True, stdin=subprocess.PIPE))
    assert "saw []" in said and "all 1" in said and "some 1" in said, said
    for name in ("open", "access", "close"):
        assert f"{name} Operation not permitted" in said, said


def test_control_who_reads_a_file_is_seen_outside():
    said = watch(subprocess.Popen([PYTHON, "-c", WATCH, SHARED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    assert "saw []" not in said and "saw [" in said, said


CHANGES = """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
os.chdir("/tmp"); os.mkdir("d"); os.mkdir("d/sub"); os.symlink("d", "link")
def events(fd):
    seen = []
    while select.select([fd], [], [], 0.2)[0]:
        data = os.read(fd, 65536)
        while data:
            _, mask, _, size = struct.unpack_from("iIII", data)
            seen.append((mask & 0xfff, data[16:16 + size].rstrip(b"\\0").decode())); data = data[16 + size:]
    return seen
for name, path in (("absolute", b"/tmp/d"), ("relative", b"d"), ("link", b"link"), ("dots", b"d/sub/..")):
    fd = libc.inotify_init1(0)
    assert libc.inotify_add_watch(fd, path, 0xfff | 0x01000000) > 0, (name, ctypes.get_errno())
    open("d/new-" + name, "w").write("x")
    print(name, (0x100, "new-" + name) in events(fd))
fd = libc.inotify_init1(0)
for path, mask in ((b"/nonesuch", 0xfff), (b"link", 0xfff | 0x02000000 | 0x01000000), (b"/proc/1/root", 0xfff)):
    print(path.decode(), libc.inotify_add_watch(fd, path, mask) < 0)
print("descriptor", libc.inotify_add_watch(1, b"/tmp", 0xfff) < 0, libc.inotify_add_watch(99, b"/tmp", 0xfff) < 0)
"""


@callers
def test_changes_are_seen_by_who_asks_for_everything(caller):
    """Libraries ask for all events and need few."""
    done = container(caller).run("--", PYTHON, "-c", CHANGES)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()[1::2]) == {"True"} or "False" not in done.stdout, done.stdout


NOTIFY = """
import errno, fcntl, os, sys
def attempt(command, argument, path, flags):
    fd = os.open(path, flags)
    try:
        fcntl.fcntl(fd, command, argument)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
own = sys.argv[1] + "/own"
open(own, "w").close()
print(attempt(1026, 0x21, sys.argv[1], os.O_RDONLY), attempt(1024, 1, own, os.O_WRONLY))
"""


@callers
@pytest.mark.parametrize("tier", ["container", "process"])
def test_no_leases_and_no_notification_of_folders(caller, tier):
    place = "/tmp" if tier == "container" else "."
    done = caller.with_options("--tier", tier).run("--", "sh", "-c", f'cd "${{TMPDIR:-/tmp}}"; exec "$@"', "-", PYTHON, "-c", NOTIFY, place)
    assert done.stdout == "EPERM EPERM\n", done


def test_control_leases_and_notification_of_folders(tmp_path):
    done = subprocess.run([PYTHON, "-c", NOTIFY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "done done\n", done


@callers
def test_the_names_of_its_groups_are_not_seen(caller):
    done = container(caller).run("--", "cat", "/proc/self/cgroup", "/proc/1/cgroup")
    paths = {line.split(":", 2)[2] for line in done.stdout.splitlines()}
    assert paths == {"/"}, done.stdout


# ---- options of sockets ----

OPTIONS = """
import errno, socket, struct, sys
tcp, udp, six = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET6)
program = struct.pack("=H6xQ", 1, 0)
def attempt(name, sock, level, option, value=1):
    try:
        sock.setsockopt(level, option, value)
        print(name, "set")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt("UDP_ENCAP", udp, 17, 100, 2)
attempt("UDP_GRO", udp, 17, 104)
attempt("SO_ZEROCOPY", tcp, 1, 60)
attempt("SO_LOCK_FILTER", tcp, 1, 44)
attempt("SO_BINDTOIFINDEX", tcp, 1, 62)
attempt("TCP_FASTOPEN_CONNECT", tcp, 6, 30)
attempt("TCP_INQ", tcp, 6, 36)
attempt("IP_RECVFRAGSIZE", udp, 0, 25)
attempt("IP_MULTICAST_ALL", udp, 0, 49, 0)
attempt("IPV6_RECVRTHDR", six, 41, 56)
attempt("IPV6_AUTOFLOWLABEL", six, 41, 70)
"""
NEEDED = """
import socket
tcp, udp, six = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET6)
a, _ = socket.socketpair()
for sock, level, options in ((tcp, 1, (2, 6, 7, 8, 9, 15, 20)), (tcp, 6, (1, 4, 5, 6, 18, 25)), (udp, 0, (1, 2, 8, 10, 11, 12, 13, 33, 34)),
                             (six, 41, (16, 23, 25, 26, 49, 67)), (a, 1, (7, 8, 16))):
    for option in options:
        sock.setsockopt(level, option, bytes([2] + [0] * 15) if option == 20 else 2 if option == 4 else 1)
print("all set")
"""


def outcomes(text):
    return dict(line.split() for line in text.splitlines())


@callers
def test_socket_options_that_no_program_needs(caller):
    control = outcomes(subprocess.run([PYTHON, "-c", OPTIONS], capture_output=True, text=True, check=True).stdout)
    works = {name for name, outcome in control.items() if outcome == "set"}
    assert {"UDP_ENCAP", "SO_ZEROCOPY", "IP_MULTICAST_ALL"} <= works, f"the control: {control}"
    inside = outcomes(container(caller).run("--", PYTHON, "-c", OPTIONS).stdout)
    assert {inside[name] for name in control} == {"ENOPROTOOPT"}, inside


@callers
def test_socket_options_that_programs_need(caller):
    done = container(caller).run("--", PYTHON, "-c", NEEDED)
    assert done.stdout == "all set\n", done.stderr


# ---- sockets of the host in another root ----

CONNECT_C = r"""
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/srv/host.sock"};
    char text[16] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        return perror("connect"), 1;
    return read(fd, text, 15) < 0 || puts(text) < 0;
}
"""


@pytest.fixture
def other_root(place):
    """A root with a socket on which somebody of the host listens, who lets everybody in."""
    top = place
    for name in ("bin", "srv", "tmp"):
        (top / name).mkdir()
    subprocess.run(["gcc", "-static", "-x", "c", "-o", top / "bin/connect", "-"], input=CONNECT_C, text=True, check=True)
    with socket.socket(socket.AF_UNIX) as server:
        path = top / "srv/host.sock"
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        yield top, server


@callers
def test_a_socket_of_the_host_in_another_root_is_out_of_reach(caller, other_root):
    top, server = other_root
    denied = container(caller).run("--root", top, "--", "/bin/connect")
    assert denied.returncode == 1 and "not permitted" in denied.stderr, denied
    assert not select.select([server], [], [], 0)[0], "somebody knocked"
    process = container(caller).start("--root", top, "--unix-sockets", "require", "--", "/bin/connect", text=True)
    assert select.select([server], [], [], 60)[0], "the control: with the sockets allowed it is reached"
    with server.accept()[0] as peer:
        peer.sendall(b"reached")
    assert process.communicate(timeout=60)[0] == "reached\n"
