"""Limits that the kernel cannot keep: refused unless the policy accepts that they are watched, and what hides from a look.

Each attack has a control: under a limit that is large enough the same code holds what it takes, so that it works."""
import functools
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from form import FULL
from helpers import CALLERS, NO_CGROUP, PUBLIC, TIERS, WATCHED
from reviewlib import Lab

PYTHON = ["--", "python3", "-c"]
OFF = PUBLIC / "off.yaml"
OFF.write_text('lifecycle: {cgroup: "off"}\n')


PLACES = [(caller, tier) for caller in CALLERS for tier in TIERS]


def named(place):
    return f"{place[0].name}-{place[1]}"


@pytest.fixture(params=PLACES, ids=named)
def place(request):
    """(caller, tier)"""
    return request.param


def watched_on(place):
    """No cgroup, and watching is accepted."""
    caller, tier = place
    return caller.with_options("--tier", tier, "-q", "--timeout", "280s", *NO_CGROUP, *WATCHED)


@pytest.fixture
def watched(place):
    return watched_on(place)


# ---- refused, or accepted in words ----

KEPT = {  # without a cgroup: does the kernel keep it?
    "memory": lambda caller, tier: False,
    "cpus": lambda caller, tier: False,
    "cpu_time": lambda caller, tier: False,
    "pids": lambda caller, tier: tier == "container" or caller.name == "root",
    "disk": lambda caller, tier: tier == "container",
    "inodes": lambda caller, tier: tier == "container",
    "timeout": lambda caller, tier: True,
    "open_files": lambda caller, tier: True,
    "output": lambda caller, tier: True,
}
ASKED = {"memory": ["-m", "64M"], "cpus": ["--cpus", "0.5"], "cpu_time": ["--cpu-time", "9s"], "pids": ["--pids", "33"],
         "disk": ["--disk", "32M"], "inodes": ["--inodes", "999"], "timeout": ["--timeout", "99s"],
         "open_files": ["--open-files", "99"], "output": ["--output", "1M"]}
NAMES = {"cpus": "cpus_milli", "cpu_time": "cpu_time_ms", "timeout": "timeout_ms"}


def with_proc(options, command):
    """The command where /proc is another one. Its options are its own: no other mount changes."""
    script = 'mount -t proc -o "$0" proc /proc && exec "$@"'
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, options, *command],
                          capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL, timeout=300)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a /proc")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
@pytest.mark.parametrize("hides", [0, 1, 2])
def test_where_processes_can_hide_the_process_tier_is_refused(caller, tier, hides):
    """LC-6: of a process that makes itself undumpable its own user would see nothing, and so would who watches it."""
    done = with_proc(f"hidepid={hides}", caller.command("--tier", tier, *NO_CGROUP, *WATCHED, "--", "echo", "ran"))
    if hides and tier == "process" and caller.name == "user":
        assert done.returncode == 125 and "hidepid" in done.stderr and "--tier container" in done.stderr and not done.stdout, done
    else:
        assert done.returncode == 0 and done.stdout == "ran\n", done


@pytest.mark.parametrize("limit", ASKED)
def test_what_cannot_be_kept_is_refused_or_accepted(place, limit):
    caller, tier = place
    asked = ["--tier", tier, "--policy", OFF, *ASKED[limit]]
    plain = caller.run(*asked, "--", "echo", "ran")
    told = caller.json(*asked, *WATCHED, "--", "echo", "ran")
    life, name = told["receipt"]["boundaries"]["lifecycle"], NAMES.get(limit, limit)
    assert told["stdout"] == "ran\n", "accepted, it runs"
    if KEPT[limit](caller, tier):
        assert plain.returncode == 0 and plain.stdout == "ran\n", plain
        assert f"{name}_overrun" not in life
        return
    assert plain.returncode == 125 and plain.stdout == "", plain
    assert f"lifecycle.{limit}" in plain.stderr and "cannot be kept" in plain.stderr, plain.stderr
    assert "--sampling accept" in plain.stderr, "what would make it run is said"
    assert life[f"{name}_overrun"], "the receipt says by what it can be overrun"
    assert any(limit in sentence for sentence in told["receipt"]["weaker_than_level"]), told["receipt"]["weaker_than_level"]


def test_the_levels_own_numbers_are_watched_and_told(place):
    caller, tier = place
    options = ["--tier", tier, "--policy", OFF]
    plain = caller.run(*options, "--", "true")
    assert plain.returncode == 0 and "not held by the kernel" in plain.stderr, plain
    # The same numbers written down are the same policy.
    same = caller.run(*options, "-m", "512M", "--pids", "256", "--", "true")
    assert same.returncode == 0, same
    strict = caller.run(*options, "--sampling", "refuse", "--", "true")
    assert strict.returncode == 125 and "cannot be kept" in strict.stderr, strict


def test_a_request_cannot_accept_what_the_policy_does_not():
    policy = PUBLIC / "refuse.yaml"
    policy.write_text('lifecycle: {cgroup: "off", sampling: refuse}\n')
    refused = CALLERS[-1].run("--policy", policy, "--", "true")
    assert refused.returncode == 125, refused
    explained = subprocess.run([PUBLIC / "brig", "policy", "explain", "--policy", policy], capture_output=True, text=True,
                               check=True).stdout
    assert "refuse" in explained and "lifecycle.sampling" in explained


def test_a_review_keeps_no_disk_limit_by_itself(place):
    lab = Lab(*place)
    try:
        lab.own()
        command = ["run", "--tier", place[1], "--review", lab.project, "--disk", "32M"]
        refused = lab.brig(*command, "--", "true")
        assert refused.returncode == 125 and "lifecycle.disk" in refused.stderr, refused
        assert lab.brig(*command, *WATCHED, "--", "true").returncode == 0
        assert not list(lab.state.glob("brig/reviews/*")), "nothing is left of the one that was refused"
    finally:
        lab.close()


# ---- memory that belongs to no process ----

# Each takes memory in a way of its own until it holds `want`, says how much that is, and stays.
HOLD = {
    "socketpairs": """
import socket
while held < want and len(kept) < 4000:
    a, b = socket.socketpair(); a.setblocking(False); kept += [a, b]
    try:
        while True: held += a.send(b'x' * 65536)
    except BlockingIOError: pass
""",
    "socketpairs that ask for large buffers": """
import socket
while held < want and len(kept) < 4000:
    a, b = socket.socketpair(); a.setblocking(False); kept += [a, b]
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    try:
        while True: held += a.send(b'x' * 65536)
    except BlockingIOError: pass
""",
    "pipes": """
while held < want and len(kept) < 4000:
    r, w = os.pipe(); os.set_blocking(w, False); kept += [r, w]
    try:
        while True: held += os.write(w, b'x' * 4096)
    except BlockingIOError: pass
""",
    "fifos": """
os.chdir(os.environ.get('TMPDIR', '/tmp'))
while held < want and len(kept) < 4000:
    name = f'f{len(kept)}'; os.mkfifo(name); f = os.open(name, os.O_RDWR | os.O_NONBLOCK); os.unlink(name); kept.append(f)
    try:
        while True: held += os.write(f, b'x' * 4096)
    except BlockingIOError: pass
""",
    "one page each of shared memory without a file": """
import ctypes
c = ctypes.CDLL(None, use_errno=True); c.mmap.restype = ctypes.c_void_p
while held < want:
    at = c.mmap(ctypes.c_void_p(0), ctypes.c_size_t(1 << 20), 3, 0x21, -1, ctypes.c_long(0))
    if at == ctypes.c_void_p(-1).value: raise OSError(ctypes.get_errno(), 'mmap')
    ctypes.memset(at, 1, 1 << 20); c.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t((1 << 20) - 4096)); held += 1 << 20
""",
    "a process whose first thread has ended": """
import threading, ctypes
def rest():
    global held
    time.sleep(0.2)
    while held < want: kept.append(bytearray(b'x') * (1 << 20)); held += 1 << 20; time.sleep(0.005)
    print(held, flush=True)
    time.sleep(3600)
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
""",
}
FRAME = "import os, resource, sys, time\nwant, held, kept = {} << 20, 0, []\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n" \
        "{}\nprint(held, flush=True)\ntime.sleep({})"


@functools.cache
def held_outside(way):
    """What it says that it holds; who runs it makes no difference."""
    with subprocess.Popen(["python3", "-c", FRAME.format(100, HOLD[way], 3600)], stdout=subprocess.PIPE) as process:
        try:
            return int(process.stdout.readline() or 0) if select.select([process.stdout], [], [], 90)[0] else 0
        finally:
            process.kill()


# To a user the kernel gives small ones only, of which it takes thousands: root's are found by the same look.
HELD = [(place, way) for place in PLACES for way in HOLD if FULL or way != "fifos" or place[0].name == "root"]


@pytest.mark.parametrize("place, way", HELD, ids=lambda p: p if isinstance(p, str) else named(p))
def test_memory_that_hides_is_found(place, way):
    watched = watched_on(place)
    big = ["--open-files", "4096", "-m", "4G"]
    if way.startswith("a process"):
        assert held_outside(way) >= 100 << 20, "the control holds it, outside"
    else:
        control = watched.json(*big, *PYTHON, FRAME.format(100, HOLD[way], 0))
        assert control["exit_code"] == 0 and int(control["stdout"]) >= 64 << 20, control
    told = watched.json("--open-files", "4096", "-m", "64M", *PYTHON, FRAME.format(1000, HOLD[way], 3600))
    assert told["limit_hit"] == "memory" and told["oom_killed"], told


HIDDEN = """
import os, sys, time
for i in range(4):
    r, w = os.pipe()
    if os.fork() == 0:
        os.set_inheritable(w, True)
        hold = "import os, time; kept = bytearray(b'x') * (40 << 20); os.write(int(os.sys.argv[1]), b'x'); time.sleep(3600)"
        os.execv(sys.argv[1], ["python3", "-c", hold, str(w)])
    os.close(w)
    assert os.read(r, 1) == b'x'
print('all', flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that the caller may not read")
def test_processes_whose_program_may_not_be_read_are_seen(watched):
    """The kernel lets nobody look into them, and a /proc that hides what may not be looked into does not list them."""
    with tempfile.TemporaryDirectory(dir=PUBLIC) as folder:
        os.chmod(folder, 0o755)
        program = Path(folder, "python3")
        shutil.copy(os.path.realpath("/usr/bin/python3"), program)
        os.chmod(program, 0o711)
        command = ["--ro", f"{folder}:/hidden" if "container" in watched.options else folder]
        at = "/hidden/python3" if "container" in watched.options else str(program)
        control = subprocess.run(watched.outside("/usr/bin/python3", "-c", HIDDEN + "os.killpg(0, 9)", str(program), "0"), capture_output=True, text=True,
                                 check=False, start_new_session=True)
        assert control.stdout == "all\n", f"outside the same code holds it: {control}"
        # What they have open is out of sight, which ends the run too, in a second: on a busy machine that may come first.
        for _ in range(10):
            told = watched.json(*command, "-m", "64M", *PYTHON, HIDDEN, at, "3600")
            assert told["limit_hit"] == "memory", told
            if told["oom_killed"]:
                break
        assert told["oom_killed"], told


ONE_CONNECTION = """
import socket
l = socket.create_server(('127.0.0.1', 0)); a = socket.create_connection(l.getsockname()); b = l.accept()[0]
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
a.settimeout(2); held = 0
try:
    while True: held += a.send(b'x' * 65536)
except TimeoutError: pass
print(held)
"""


@pytest.mark.meanwhile
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_a_connection_holds_no_more_than_it_is_counted_for(caller):
    control = subprocess.run(["python3", "-c", ONE_CONNECTION], capture_output=True, text=True, check=True)
    assert int(control.stdout) > 1 << 20, "the control: as the kernel has it, it holds more"
    told = caller.json("--tier", "container", *NO_CGROUP, *WATCHED, "-m", "1G", *PYTHON, ONE_CONNECTION)
    counted = 2 * 2 * max(int(Path(f"/proc/sys/net/core/{name}_default").read_text()) for name in ("wmem", "rmem"))
    assert 0 < int(told["stdout"]) <= counted, told


REFUSED = {
    "shared memory without a file": "import mmap; mmap.mmap(-1, (1 << 20) + 1)",
    "the same by way of /dev/zero": "import mmap, os; mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 20)",
    "a larger pipe": "import fcntl, os; fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)",
    "System V messages": "import ctypes; c = ctypes.CDLL(None, use_errno=True); e = c.msgget(0, 0o1600)\nif e < 0: raise OSError(ctypes.get_errno(), 'msgget')",
    "System V semaphores": "import ctypes; c = ctypes.CDLL(None, use_errno=True); e = c.semget(0, 9, 0o1600)\nif e < 0: raise OSError(ctypes.get_errno(), 'semget')",
    "a table of descriptors of a thread's own": "import ctypes; c = ctypes.CDLL(None, use_errno=True)\nif c.unshare(0x400): raise OSError(ctypes.get_errno(), 'unshare')",
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_no_look_would_find_is_refused(watched, way):
    assert subprocess.run(["python3", "-c", REFUSED[way]], check=False).returncode == 0, "the control: it works outside"
    told = watched.json("-m", "200M", *PYTHON, REFUSED[way])
    assert told["exit_code"] == 1 and "PermissionError" in told["stderr"], told


@pytest.mark.parametrize("way", [way for way in REFUSED if not way.startswith(("System V", "a table"))])
def test_nobody_is_refused_for_a_number_that_nobody_gave(place, way):
    """The level's own number of memory is watched as well as it can be, and stops no program that does nothing wrong."""
    caller, tier = place
    told = caller.json("--tier", tier, "-q", *NO_CGROUP, *PYTHON, REFUSED[way])
    assert told["exit_code"] == 0, told
    assert told["receipt"]["boundaries"]["lifecycle"]["memory_overrun"], "and it is said what that means"


def test_what_a_cgroup_counts_is_not_refused():
    brig = CALLERS[0].with_options("-q")
    told = brig.json(*PYTHON, REFUSED["shared memory without a file"])
    if told["receipt"]["boundaries"]["lifecycle"]["cgroup"] == "none":
        pytest.skip("no cgroup counts memory here")
    for way in ("shared memory without a file", "the same by way of /dev/zero", "a larger pipe", "System V messages"):
        told = brig.json(*PYTHON, REFUSED[way])
        assert told["exit_code"] == 0, (way, told)


# ---- what a cgroup does not count ----

TCP = """
import socket
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64)
while held < want and len(kept) < 4000:
    c = socket.create_connection(l.getsockname()); s, _ = l.accept(); c.setblocking(False); kept += [c, s]
    try:
        while True: held += c.send(b'x' * 65536)
    except BlockingIOError: pass
"""
NETLINK = """
import socket, struct
while len(kept) < want >> 15 and len(kept) < 4000:
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.setblocking(False); s.bind((0, 0)); kept.append(s)
    for k in range(30):
        try: held += s.send(struct.pack('=IHHIIBBHiII', 32, 18, 0x301, k, 0, 0, 0, 0, 0, 0, 0))
        except OSError: break
"""


@pytest.fixture
def counted():
    brig = CALLERS[0].with_options("-q", "--timeout", "280s", "--open-files", "4096")
    if brig.json("--", "true")["receipt"]["boundaries"]["lifecycle"]["cgroup"] == "none":
        pytest.skip("no cgroup counts memory here")
    return brig


def test_buffers_of_tcp_count(counted):
    control = subprocess.run(["python3", "-c", FRAME.format(100, TCP, 0)], capture_output=True, check=True)
    assert int(control.stdout) >= 100 << 20, "the control: outside nothing holds it back"
    told = counted.json("-m", "64M", *PYTHON, FRAME.format(100, TCP, 2))
    assert told["limit_hit"] == "memory" or int(told["stdout"]) < 64 << 20, told


def test_buffers_of_netlink_count(counted):
    control = counted.json("-m", "4G", *PYTHON, FRAME.format(100, NETLINK, 0))
    assert control["exit_code"] == 0, control
    told = counted.json("-m", "32M", *PYTHON, FRAME.format(100, NETLINK, 60))
    assert told["limit_hit"] == "memory" and told["oom_killed"], told


# Every second byte of each file: a lock is 192 bytes of the kernel's, and a process gives hundreds of thousands a second.
LOCKS = """
import fcntl
os.chdir(os.environ.get('TMPDIR', '/tmp'))
while held < want and len(kept) < 4000:
    f = open(f'l{len(kept)}', 'w+'); kept.append(f)
    for i in range(400): fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, i * 2)
    held += 400 * 192
"""


def test_locks_of_files_count(counted):
    control = counted.json("-m", "4G", *PYTHON, FRAME.format(80, LOCKS, 0))
    assert control["exit_code"] == 0 and control["receipt"]["usage"]["memory_peak_bytes"] < 40 << 20, f"no cgroup counts them: {control}"
    told = counted.json("-m", "40M", *PYTHON, FRAME.format(200, LOCKS, 60))
    assert told["limit_hit"] == "memory" and told["oom_killed"], told


def test_locks_of_files_count_where_memory_is_watched():
    told = watched_on((CALLERS[-1], "process")).json("--open-files", "4096", "-m", "40M", *PYTHON, FRAME.format(200, LOCKS, 60))
    assert told["limit_hit"] == "memory" and told["oom_killed"], told


def test_locks_that_no_descriptor_tells_of_are_refused(counted):
    """A lock of an open file stays while the file is mapped. Programs fall back at EINVAL, as on a kernel without such locks."""
    take = "import fcntl, struct; f = open('/tmp/f', 'w+'); fcntl.fcntl(f, {}, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 1, 0)); print('locked')"
    for number in (37, 38):
        assert subprocess.run(["python3", "-c", take.replace("/tmp/f", "/dev/null").format(number)], check=True, capture_output=True).stdout == b"locked\n"
        told = counted.json("-m", "64M", *PYTHON, take.format(number))
        assert told["exit_code"] == 1 and "Invalid argument" in told["stderr"], told
    assert counted.json("-m", "64M", *PYTHON, take.format("fcntl.F_SETLK"))["stdout"] == "locked\n", "others are not"


# A merged folder of an overlay is read, and changed so that the next reader gets a list of its own.
LISTS = """import os, socket, sys, time
folder, names, count, way, rest = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], float(sys.argv[5])
for i in range(names): open(f'{folder}/{"x" * 240}{i}', 'w').close()
kept, sockets = [], []
for i in range(count):
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    entries = os.scandir(fd); next(entries)
    open(f'{folder}/c{i}', 'w').close()
    if way == 'open':
        os.close(fd); kept.append(entries)
        continue
    # In a socket that is in flight itself.
    a, b = socket.socketpair(); c, d = socket.socketpair()
    socket.send_fds(c, [b'x'], [fd]); socket.send_fds(a, [b'x'], [d.fileno()])
    os.close(fd); entries.close(); c.close(); d.close(); sockets += [a, b]
print('held', flush=True)
time.sleep(rest)
"""


@pytest.fixture(params=["writable root", "review"])
def layered(request):
    """run(caller, *options, *arguments of LISTS behind the folder): in a folder that an overlay merges."""
    labs = []

    def run(caller, options, *wanted):
        if request.param == "writable root":
            return caller.json("-q", "--tier", "container", "--timeout", "280s", "--writable-root", *options, *PYTHON, LISTS,
                               "/usr/local/share", *wanted)
        lab = Lab(caller, "container")
        labs.append(lab)
        lab.own()
        return json.loads(lab.brig("run", "--json", "-q", "--tier", "container", "--timeout", "280s", "--review", lab.project,
                                   *options, *PYTHON, LISTS, lab.project, *wanted).stdout)

    yield run
    for lab in labs:
        lab.close()


# Root has a cgroup wherever there are any; an ordinary user has one here and there: in the long form.
LISTED = [(caller, options) for caller in CALLERS for options in (WATCHED, [*NO_CGROUP, *WATCHED])
          if FULL or caller.name == "root" or options != WATCHED]


@pytest.mark.parametrize("way", ["open", "in flight"])
@pytest.mark.parametrize("caller, options", LISTED, ids=lambda p: p.name if hasattr(p, "name") else "no cgroup" if p[0] == "--policy" else "cgroup if there is one")
def test_lists_of_merged_folders_count(caller, options, layered, way):
    """Kernel memory that no cgroup counts: 512 bytes for each of these names and each reader, 150 MB in all."""
    # What is in flight for a second is not waited for, however large the limit is.
    control = layered(caller, [*options, "-m", "4G"], 2000, 150 if way == "open" else 5, way, 0)
    assert control["exit_code"] == 0 and control["stdout"] == "held\n", control
    told = layered(caller, [*options, "-m", "64M"], 2000, 150, way, 60)
    assert told["limit_hit"] in ("memory", *limit_of(way)[:way == "in flight"]), told
    assert told["oom_killed"] or way == "in flight", told


DOZEN = """import itertools, os
folder = '/usr/local/share'
for i in range(2000): open(f'{folder}/a-file-with-an-ordinary-name-{i}', 'w').close()
kept = []
for path, names, files in list(itertools.islice(os.walk('/usr'), 12)):
    for again in range(2):
        kept.append(os.scandir(path)); next(kept[-1], None)
end = time.monotonic() + 2
while time.monotonic() < end: os.listdir(folder)
print(len(kept))
"""


@pytest.mark.meanwhile
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_a_few_open_folders_are_nothing(caller):
    told = caller.json("-q", "--tier", "container", "-m", "64M", *WATCHED, "--writable-root", *PYTHON, "import time\n" + DOZEN)
    assert told["stdout"] == "24\n" and told["limit_hit"] is None, told


# ---- CPU time ----

UNWAITED = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
    time.sleep(0.32)
"""


@pytest.mark.meanwhile(seconds=10)
def test_cpu_time_of_children_that_nobody_waits_for(place):
    watched = watched_on(place)
    told = watched.json("--cpu-time", "1500ms", *PYTHON, "import os, time\n" + UNWAITED)
    assert told["limit_hit"] == "cpu_time" and told["timed_out"], told
    # The control: nobody of whom the kernel still tells has used so much.
    code = UNWAITED.replace("60", "3") + "import resource\nprint(sum(sum(resource.getrusage(w)[:2]) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))"
    control = watched.json(*PYTHON, "import os, time\n" + code)
    assert control["exit_code"] == 0 and float(control["stdout"]) < 1, control


@pytest.mark.meanwhile(seconds=10)
def test_cpu_time_of_children_that_are_waited_for_is_counted_once(place):
    watched = watched_on(place)
    code = "import os, time\nfor i in range(8):\n  if os.fork() == 0:\n    while time.process_time() < 0.1: pass\n    os._exit(0)\n  os.wait()"
    told = watched.json("--cpu-time", "60s", *PYTHON, code)
    assert told["exit_code"] == 0 and 700 < told["cpu_ms"] < 2400, told


# ---- files that no walk of the folder finds ----

HIDE = {
    "deleted and open": "f = open(name, 'wb', 0); os.unlink(name); kept.append(f); fill(f)",
    "without a name": "f = open(os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600), 'wb', 0); kept.append(f); fill(f)",
    "deleted, mapped and closed":
        "f = open(name, 'w+b', 0); fill(f); assert map_page(f.fileno()) > 0; os.unlink(name); f.close()",
    "in a folder that cannot be read":
        "os.makedirs(f'd{i}', 0o700); f = open(f'd{i}/f', 'wb', 0); os.chmod(f'd{i}', 0o300); fill(f); f.close()",
    "in a folder that cannot be entered":
        "os.makedirs(f'd{i}', 0o700); f = open(f'd{i}/f', 'wb', 0); os.chmod(f'd{i}', 0); fill(f); f.close()",
    "deleted, and only in flight between two sockets": """
f = open(name, 'wb', 0); os.unlink(name); fill(f)
a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [f.fileno()]); f.close(); kept += [a, b]; time.sleep(0.05)""",
    "deleted, and open in a process whose first thread has ended": """
if os.fork() == 0:
    def rest():
        time.sleep(0.1); f = open(name, 'wb', 0); os.unlink(name); fill(f); time.sleep(3600)
    threading.Thread(target=rest).start()
    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
time.sleep(0.5)""",
}
# Python's own mmap keeps a descriptor.
MAP_PAGE = """import ctypes
def map_page(fd):
    c = ctypes.CDLL(None)
    c.mmap.restype = ctypes.c_long
    return c.mmap(ctypes.c_void_p(0), ctypes.c_size_t(4096), 1, 2, fd, ctypes.c_long(0))
"""
HIDING = MAP_PAGE + """import os, socket, threading, time
kept = []
block = os.urandom(1 << 20)
def fill(f):
    for k in range(4): f.write(block)
os.chdir({!r} or os.environ['TMPDIR'])
for i in range({}):
    name = f'n{{i}}'
    {}
    print(i, flush=True)
time.sleep({})
"""


def limit_of(way):
    """What is in flight may be memory as well, where that is watched, too."""
    return ("disk", "memory") if "in flight" in way else ("disk",)


def hiding(folder, count, way, rest):
    return HIDING.format(folder, count, HIDE[way].strip().replace("\n", "\n    "), rest)


@pytest.mark.meanwhile
@pytest.mark.parametrize("way", HIDE)
def test_files_that_hide_in_the_private_folder_are_found(way):
    for caller in CALLERS:
        brig = caller.with_options("--tier", "process", "-q", "--timeout", "280s", *WATCHED)
        control = brig.json("--disk", "1G", *PYTHON, hiding("", 4, way, 0))
        if control["exit_code"] != 0 and "NotSupported" in control["stderr"] + control["stdout"]:
            pytest.skip("the file system has no files without a name")
        assert control["exit_code"] == 0 and control["stdout"].split() == list("0123"), (caller.name, control)
        told = brig.json("--disk", "16M", *PYTHON, hiding("", 100, way, 3600))
        assert told["limit_hit"] in limit_of(way), (caller.name, told)


@pytest.mark.meanwhile
@pytest.mark.parametrize("way", HIDE)
def test_files_that_hide_in_a_review_are_found(place, way):
    lab = Lab(*place)
    try:
        lab.own()
        folder = str(lab.project) if place[1] == "container" else "."
        command = ["run", "--json", "--tier", place[1], "-q", "--timeout", "280s", "--review", lab.project, *WATCHED]
        control = json.loads(lab.brig(*command, "--disk", "1G", *PYTHON, hiding(folder, 4, way, 0)).stdout)
        if control["exit_code"] != 0 and "NotSupported" in control["stderr"] + control["stdout"]:
            pytest.skip("the file system has no files without a name")
        assert control["exit_code"] == 0 and control["stdout"].split() == list("0123"), control
        told = json.loads(lab.brig(*command, "--disk", "16M", *PYTHON, hiding(folder, 100, way, 3600)).stdout)
        assert told["limit_hit"] in limit_of(way), told
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(lab.top)], check=False)
        lab.close()


@pytest.mark.parametrize("below, options", [("/tmp", []), ("/var/tmp", ["--writable-root"])], ids=["work folder", "writable root"])
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_a_project_that_is_moved_hides_nothing(caller, below, options):
    """The code may rename a folder that the project lies below: then every file of it has another name."""
    lab = Lab(caller, "container", below)
    try:
        lab.own()
        move = f"import os\nos.chdir('/')\nos.rename({str(lab.top)!r}, {str(lab.top) + '-moved'!r})\n"
        command = ["run", "--json", "--tier", "container", "-q", "--timeout", "280s", "--review", lab.project, *WATCHED, *options]
        folder, way = f"{lab.top}-moved/project", "deleted, mapped and closed"
        control = json.loads(lab.brig(*command, "--disk", "1G", *PYTHON, move + hiding(folder, 4, way, 0)).stdout)
        assert control["exit_code"] == 0 and control["stdout"].split() == list("0123"), control
        told = json.loads(lab.brig(*command, "--disk", "64M", *PYTHON, move + hiding(folder, 40, way, 60)).stdout)
        assert told["limit_hit"] == "disk", told
    finally:
        lab.close()


def test_a_project_file_that_is_replaced_while_it_is_mapped_takes_no_disk(place):
    """It is still in the project: only the view has another one."""
    caller, tier = place
    lab = Lab(caller, tier)
    try:
        lab.write("data", b"x" * (24 << 20))
        lab.own()
        script = MAP_PAGE + ("import os, time\nf = open('data', 'rb'); assert map_page(f.fileno()) > 0; f.close()\n"
                             "open('new', 'w').write('1'); os.rename('new', 'data'); time.sleep(1.5)")
        done = lab.brig("run", "--json", "--tier", tier, "-q", "--review", lab.project, *WATCHED, "--disk", "16M", *PYTHON, script)
        told = json.loads(done.stdout)
        if tier == "process":  # there it is a copy, which takes room
            return
        assert told["exit_code"] == 0 and told["limit_hit"] is None, told
    finally:
        lab.close()


def test_a_hidden_folder_is_left_as_it_was():
    """Looking changes the mode of a folder for a moment; what the code sees in the end is its own."""
    brig = CALLERS[-1].with_options("--tier", "process", "-q", *WATCHED)
    code = ("import os, time\nos.chdir(os.environ['TMPDIR']); os.mkdir('d', 0o700); open('d/f', 'w').close(); os.chmod('d', 0o300)\n"
            "seen = set()\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: seen.add(os.stat('d').st_mode & 0o777)\n"
            "os.chmod('d', 0o111); time.sleep(0.3)\nprint(oct(os.stat('d').st_mode & 0o777), 0o300 in seen)")
    told = brig.json(*PYTHON, code)
    assert told["stdout"].split()[1] == "True" and told["limit_hit"] is None, told
