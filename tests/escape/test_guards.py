"""Guards that no row of the list names: what Landlock does not see, what outlives a sandbox in a granted folder, what the
brokers and reports of the supervisor could be talked into. Python inside is the attacker: it has full power over its process."""

import os
import pathlib
import stat
import subprocess

import pytest

import hostview
from escapelib import AS_USER, FULL, PLACE, TIERS, USER_ID, Cell, outside

PYTHON = "/usr/bin/python3"
CONTAINERS = [cell for cell in TIERS if cell.container]
USER_PROCESS = Cell("user", "process")


def cells(which):
    return pytest.mark.parametrize("cell", which, ids=lambda cell: cell.id)


def inside(cell, code, *arguments, options=(), **more):
    result = cell.run([PYTHON, "-c", code, *arguments], options, **more)
    assert result.rc not in (125, 126, 127), result.err
    return result.json


SET_ID = """
import os, sys
top = sys.argv[1]
def attempt(name, how):
    try:
        how(os.path.join(top, name))
    except OSError as e:
        print(name, e.strerror)
def plain(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755))
def by_chmod(path):
    plain(path); os.chmod(path, 0o6755)
def by_fchmod(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755); os.fchmod(fd, 0o4755)
def by_open(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o6755))
def by_mknod(path):
    os.mknod(path, 0o104755)
def by_tmpfile(path):
    fd = os.open(top, os.O_TMPFILE | os.O_RDWR, 0o4755)
    os.link(f"/proc/self/fd/{fd}", path, follow_symlinks=True)
for name, how in list(globals().items()):
    if name.startswith("by_"):
        attempt(name, how)
"""


def set_id_files(folder):
    return [p.name for p in pathlib.Path(folder).iterdir() if p.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


@cells([cell for cell in TIERS if cell.id != "root-process"])
def test_set_id_files_do_not_outlive_the_sandbox(cell):
    """As root a granted folder is the owner's to the code: a set-id file there would be root's, for everyone to run."""
    mine = PLACE.folder("control", cell.user)
    outside(PYTHON, "-c", SET_ID, mine, user=cell.user)
    assert len(set_id_files(mine)) >= 4, "the control made no set-id files"

    granted = PLACE.folder("granted", cell.user)
    answer = inside(cell, SET_ID, granted, options=["--rw", granted])
    assert (granted / "by_chmod").exists(), "the folder was not writable at all"
    assert set_id_files(granted) == []
    assert any("set-id" in d["what"] for d in answer["denials"]) or cell is USER_PROCESS or not cell.container


METADATA = """
import os, sys
target = sys.argv[1]
def attempt(name, how, *more):
    try:
        how(*more)
        print(name, "done")
    except OSError as e:
        print(name, e.strerror)
attempt("chmod", os.chmod, target, 0o777)
attempt("chmod-link", lambda: (os.symlink(target, "l"), os.chmod("l", 0o777)))
attempt("utime", os.utime, target, (1, 1))
attempt("truncate", os.truncate, target, 0)
attempt("setxattr", os.setxattr, target, "user.brig", b"x")
attempt("chdir-chmod", lambda: (os.chdir(os.path.dirname(target)), os.chmod(os.path.basename(target), 0o777)))
attempt("read-only-truncate", lambda: os.open(target, os.O_RDONLY | os.O_TRUNC))
attempt("path-descriptor", lambda: os.chmod(f"/proc/self/fd/{os.open(target, os.O_PATH)}", 0o777))
"""


def metadata(path):
    s = os.stat(path)
    return s.st_mode, s.st_size, s.st_mtime_ns, os.listxattr(path)


def test_metadata_of_host_files_on_the_process_tier():
    """Landlock guards contents; permissions, times and attributes of the caller's own files must not change either."""
    folder = PLACE.folder("home", "user")
    canary = folder / "canary"

    def plant():
        canary.write_text("secret")
        os.chown(canary, USER_ID, USER_ID)
        canary.chmod(0o600)
        os.utime(canary, (1000, 1000))
        return metadata(canary)

    before = plant()
    outside(PYTHON, "-c", METADATA, canary, user="user", cwd=PLACE.folder("cwd", "user"))
    assert metadata(canary) != before, "the control changed nothing"

    canary.unlink()
    before = plant()
    answer = inside(USER_PROCESS, METADATA, str(canary))
    assert metadata(canary) == before, answer["stdout"]


def test_the_process_tier_can_still_change_its_own_files():
    code = "import os; open('f','w').close(); os.chmod('f', 0o640); os.utime('f', (7, 7)); s = os.stat('f');" \
           "print(oct(s.st_mode & 0o777), int(s.st_mtime))"
    assert inside(USER_PROCESS, code)["stdout"] == "0o640 7\n"


RACE = """
import ctypes, os, sys, threading
target, rounds = sys.argv[1].encode(), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
mine = os.path.join(os.getcwd(), "m").encode()
open(mine, "w").write("mine")
room = ctypes.create_string_buffer(max(len(target), len(mine)) + 1)
stop = False
def flip():
    while not stop:
        ctypes.memmove(room, target + b"\\0", len(target) + 1)
        ctypes.memmove(room, mine + b"\\0", len(mine) + 1)
thread = threading.Thread(target=flip); thread.start()
got = hits = 0
for i in range(rounds):
    if sys.argv[3] == "chmod":
        libc.chmod(room, 0o777)
    else:
        fd = libc.open(room, 0)
        if fd >= 0:
            hits += 1
            got += os.read(fd, 6) == b"secret"
            os.close(fd)
stop = True; thread.join()
print(got, hits)
"""


@pytest.mark.parametrize("how", ["chmod", "open"])
def test_K24_a_path_that_changes_while_the_supervisor_looks(how):
    """Brokered chmod is done on what the supervisor itself opened; a reported open is let go on but decided by the kernel."""
    folder = PLACE.folder("raced", "user")
    canary = folder / "canary"
    canary.write_text("secret")
    os.chown(canary, USER_ID, USER_ID)
    canary.chmod(0o600)

    def control_hits():
        free = outside(PYTHON, "-c", RACE, canary, "20000", how, user="user", cwd=PLACE.folder("cwd", "user"))
        return canary.stat().st_mode & 0o777 == 0o777 if how == "chmod" else int(free.out.split()[0]) > 0

    # On a busy machine the two threads of a round may hardly ever run at the same time.
    assert any(control_hits() for _ in range(20)), "the control never hit the window"
    canary.chmod(0o600)

    answer = inside(USER_PROCESS, RACE, str(canary), "20000" if FULL else "4000", how, options=["--report-files", "--timeout", "3000s"],
                    timeout=3010)
    assert answer["exit_code"] == 0, answer["stderr"]
    assert canary.stat().st_mode & 0o777 == 0o600
    assert how == "chmod" or answer["stdout"].split()[0] == "0"


KERNEL_FILES = """
import os
keep = {"cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "net", "self", "stat", "thread-self", "uptime", "version"}
for name in sorted(os.listdir("/proc")):
    path = "/proc/" + name
    if name.isdigit() or name in keep:
        continue
    try:
        seen = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
    except OSError:
        seen = None
    if seen:
        print(name)
"""


@cells(CONTAINERS)
@pytest.mark.parametrize("view", ["pid", "own", "system"])
def test_kernel_files_in_proc(cell, view):
    free = outside(PYTHON, "-c", KERNEL_FILES).out.split()
    assert {"kallsyms", "sys"} <= set(free), "the control saw nothing"
    assert inside(cell, KERNEL_FILES, options=["--proc", view])["stdout"] == ("sys\n" if view == "own" else "")
    if view == "own":
        below = "import os\nfor top, _, files in os.walk('/proc/sys'):\n    for f in files: print(os.path.join(top, f))"
        assert inside(cell, below, options=["--proc", view])["stdout"] == "/proc/sys/kernel/random/boot_id\n", "and that is brig's"
        kept = "print(*[open('/proc/' + n).read() for n in ('version', 'filesystems')], sep='')"
        assert inside(cell, kept, options=["--proc", view])["stdout"].strip() == ""
    usual = "import os; print(len(open('/proc/stat').read()) > 0, len(open('/proc/meminfo').read()) > 0)"
    if view != "pid":
        assert inside(cell, usual, options=["--proc", view])["stdout"] == "True True\n"


@pytest.mark.skipif(os.getuid() != 0, reason="entering another user namespace needs root")
@cells(CONTAINERS)
def test_K07_no_user_namespace_below_even_without_the_filter(cell):
    """The second layer alone: a process without brig's filter, put into the sandbox's user namespace."""
    process = cell.start(["sleep", "280"], json_out=False)
    try:
        def code():
            return [p for p in hostview.descendants(process.pid)
                    if hostview.read(f"/proc/{p}/comm").strip() == "sleep"]
        assert hostview.wait_for(code)
        enter = ["nsenter", "--target", str(code()[0]), "--user", "--preserve-credentials"]
        free = subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False)
        assert free.returncode == 0, "the control cannot make one either"
        held = subprocess.run([*enter, "unshare", "--user", "true"], capture_output=True, text=True, check=False)
        assert held.returncode != 0 and "No space left" in held.stderr, held.stderr
    finally:
        process.kill()
        process.communicate()


@cells(TIERS)
def test_socket_files_in_granted_folders(cell):
    """Neither mounts nor Landlock stop a connection to a socket that lies in a granted folder."""
    folder = PLACE.folder("sockets", cell.user)
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('connected')"
    server = subprocess.Popen([*(AS_USER if cell.user == "user" else []), PYTHON, "-c",
                               "import socket, sys, time\ns = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])\n"
                               "s.listen(8); print('up', flush=True); time.sleep(600)", str(folder / "s")],
                              stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        assert outside(PYTHON, "-c", code, folder / "s", user=cell.user).out == "connected\n"
        answer = inside(cell, code, str(folder / "s"), options=["--ro", folder])
        assert "connected" not in answer["stdout"]
        assert any(d["what"].startswith("socket(AF_UNIX") for d in answer["denials"])
    finally:
        server.kill()
        server.communicate()


RANDOM_CALLS = """
import ctypes, os, random, signal, sys, time
libc = ctypes.CDLL(None)
seed, seconds = int(sys.argv[1]), float(sys.argv[2])
room = ctypes.create_string_buffer(b"/usr/bin/env\\0" + os.urandom(4096), 8192)
end, rounds = time.monotonic() + seconds, 0
def value(r):
    return r.choice((0, 1, 2, 3, 5, -1, 2**31, 2**63 - 1, r.getrandbits(8), r.getrandbits(32), r.getrandbits(64),
                     ctypes.addressof(room), ctypes.addressof(room) + r.randrange(8000), 0x7ffff000, os.getpid(), 1))
while time.monotonic() < end:
    rounds += 1
    pid = os.fork()
    if pid == 0:
        signal.alarm(1)
        r = random.Random(seed * 1000003 + rounds)
        for _ in range(200):
            libc.syscall(ctypes.c_long(r.randrange(0, 480)), *[ctypes.c_long(value(r) & (2**64 - 1)) for _ in range(6)])
        os._exit(0)
    deadline = time.monotonic() + 2
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.001)
sys.stderr.write(f"rounds {rounds}\\n")
"""

RANDOM_SEEDS = 12


@cells(TIERS)
def test_X04_random_calls(cell, diff):
    """Random numbers with random arguments for a few seconds: brig gives a verdict, the host and its canary stay, nothing is left."""
    canary = PLACE.folder("canary", cell.user) / "c"
    canary.write_text("still here")
    name = os.uname().nodename
    tried = set()
    # A seed can hit upon kill(-1, 9) at once, which ends the whole sandbox: the next one goes on.
    for attempt in range(RANDOM_SEEDS):
        result = cell.run([PYTHON, "-c", RANDOM_CALLS, str(os.getpid() + attempt), "2"],
                          ["--timeout", "280s", "--output", "64K"])
        answer = result.json
        assert result.rc != 125 and answer["receipt"], result.err
        tried.update(d["what"] for d in answer["denials"])
        if attempt > 0 and len(tried) >= 10:
            break
    assert len(tried) >= 10, f"hardly anything was tried: {tried}"
    assert canary.read_text() == "still here" and os.uname().nodename == name
    assert cell.run(["/bin/true"]).rc == 0, "no new sandbox can be started"
