"""Sandboxes that are cloned from a template process: that they are as closed as those that are started, share nothing that
must differ, and end as they should. As root and as an ordinary user."""
import array
import ast
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from helpers import CALLERS, PUBLIC, TOP, USER_ID, all_pids, below, read_stat, remove_group, wait_for
from servelib import IDS_OF_THIS_RUN, Box, Failed, Gone, Serve, frame, read_frame, read_some

LIBRARY = Path(PUBLIC) / "brig-template.so"
MODULES = ["json", "multiprocessing", "numpy", "ssl", "tempfile", "uuid"]
DATA = {"interpreter": "python", "modules": MODULES}


class Interpreter:
    """Of a sandbox that is ready: runs cells in it."""

    def __init__(self, box):
        self.box, self.ready = box, box.ready()
        self.pid = self.ready.value
        self.cold = [m.json["what"] for m in box.kept if m.type == "event" and m.json["kind"] == "cold start"]
        self.fds = self.ready.fds
        assert self.fds, self.ready.json["interpreter_error"]
        for fd in self.fds:
            os.set_blocking(fd, True)
        self.hello = read_frame(self.fds[1])
        self.count = 0

    def claim(self, **kwargs):
        self.box.claim(**kwargs)
        return self

    def run(self, code):
        """What the last expression was, as Python reads it; an error is one here, too."""
        self.count += 1
        os.write(self.fds[0], frame({"op": "execute", "id": self.count, "code": code, "env": {}}))
        text = None
        while True:
            said = read_frame(self.fds[1])
            if said["type"] == "error":
                raise RuntimeError(said["traceback"])
            if said["type"] == "result":
                text = said["data"]["text"]
            if said["type"] == "end":
                return text

    def value(self, code):
        tree = ast.parse(code)
        last = tree.body[-1].value
        tree.body[-1].value = ast.parse("repr(0).encode().hex()", mode="eval").body
        tree.body[-1].value.func.value.func.value.args[0] = last
        return ast.literal_eval(bytes.fromhex(self.run(ast.unparse(ast.fix_missing_locations(tree)))).decode())

    @property
    def init(self):
        return self.box.told["init"]

    @property
    def host_pid(self):
        """Of the interpreter, seen from the host."""
        return int(Path(f"/proc/{self.init}/task/{self.init}/children").read_text().split()[0])

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self.box.close()


def launch(serve, template="data"):
    """As for a pool: it may wait for the template process."""
    id = serve.new_id()
    serve.wire.send("launch", 7, 0, {"id": id, "template": template, "pooled": True})
    while True:
        message = serve.wire.recv()
        assert message.type != "fail", message
        if message.type == "launched":
            return Box(serve, id, message.fds[0])


def clone(serve, template="data", claim=True):
    made = Interpreter(launch(serve, template))
    assert not made.cold, made.cold
    return made.claim() if claim else made


def stem_of(interpreter):
    """(the template process, the first process of its sandbox)"""
    template = read_stat(interpreter.init)[2]
    return template, read_stat(template)[2]


def private_kb(pid):
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.M)))


@pytest.fixture(scope="module", params=CALLERS, ids=lambda caller: caller.name)
def serve(request):
    with Serve(request.param, templates={"data.json": DATA}) as made:
        yield made


@pytest.fixture
def pair(serve):
    made = [clone(serve), clone(serve)]
    yield made
    for each in made:
        each.close()


# What a killed run left behind may carry the process id of a `brig serve` of today.
BEFORE = {path for path, _, _ in os.walk("/sys/fs/cgroup")}


class Left:
    """What there is of one `brig serve`, to be gone after its end. (Others may run on this machine.)"""

    def __init__(self, serve):
        self.serve = serve
        self.pids = set(below(serve.pid))

    def groups(self):
        marks = (f"brig-t{IDS_OF_THIS_RUN}", f"brig-stem-{self.serve.pid}-")
        return [path for path, _, _ in os.walk("/sys/fs/cgroup")
                if path.rsplit("/", 1)[1].startswith(marks) and path not in BEFORE]

    def check(self):
        wait_gone(*self.pids)
        wait_for(lambda: not self.groups(), what=f"the end of {self.groups()}")


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def fresh(request):
    with Serve(request.param, templates={"data.json": DATA}) as made:
        yield made
        left = Left(made)
    left.check()


def test_control_what_there_is_is_seen():
    for caller in CALLERS:
        with Serve(caller, templates={"data.json": DATA}) as serve:
            one = clone(serve)
            left = Left(serve)
            assert {*stem_of(one), one.init, one.host_pid} <= left.pids
            assert caller.uid != 0 or len(left.groups()) >= 4
            one.close()
        left.check()


# ---- it is a clone, and a Python like any other ----

def test_modules_are_there_and_cells_run(serve):
    one = clone(serve)
    assert one.hello["language"] == "python" and one.hello["pid"] == one.pid
    assert one.value("import sys; 'numpy' in sys.modules") is True
    assert one.value("import numpy; int(numpy.arange(10).sum())") == 45
    assert one.value("import os; os.getcwd()") == "/home/user"
    assert one.value("import subprocess; subprocess.run(['sh', '-c', 'exit 3']).returncode") == 3
    assert one.value("import threading, queue\nq = queue.Queue()\nthreading.Thread(target=q.put, args=(7,)).start()\n"
                     "q.get()") == 7
    assert one.value("import multiprocessing.pool\nwith multiprocessing.pool.ThreadPool(4) as p: r = p.map(abs, [-1, 2])\n"
                     "r") == [1, 2]
    assert one.value("import concurrent.futures as f\nwith f.ProcessPoolExecutor(2) as p: r = list(p.map(abs, [-3, 4]))\n"
                     "r") == [3, 4]
    one.close()


def test_who_waits_is_not_made_to_wait_for_modules():
    """Before the template process has loaded them, a sandbox that somebody asked for is started."""
    with Serve(CALLERS[0], templates={"data.json": DATA}) as serve:
        cold = Interpreter(serve.launch("data")).claim()
        assert cold.ready.json["start"] == "cold" and cold.value("import sys; 'numpy' in sys.modules") is False
        cold.close()
        one = clone(serve)
        assert one.ready.json["start"] == "clone"
        one.close()

        def start_of_another():
            other = Interpreter(serve.launch("data"))
            other.close()
            return other.ready.json["start"]

        # That the modules are loaded is told beside the first clone, and may be heard after it.
        wait_for(lambda: start_of_another() == "clone", what="a clone for who does not wait")


@pytest.mark.parametrize("pooled", [False, True])
def test_a_policy_of_its_own_is_not_cloned(serve, pooled):
    """The template process was walled in with the template's policy, and so is all that is cloned from it."""
    one = clone(serve)
    other = Interpreter(serve.launch("data", pooled=pooled))
    assert one.ready.json["start"] == other.ready.json["start"] == "clone"  # the control
    tight = Interpreter(serve.launch("data", pooled=pooled, policy='{"filesystem": {"exec": false}}')).claim()
    assert tight.ready.json["start"] == "cold" and not tight.cold
    assert tight.ready.json["policy"]["hash"] != one.ready.json["policy"]["hash"] == other.ready.json["policy"]["hash"]
    for made in (one, other, tight):
        made.close()


def test_templates_say_how_they_start(serve):
    told = {t["name"]: t for t in serve.hello["templates"]}
    assert told["data"]["start"] == told["python"]["start"] == "clone" and told["data"]["start_why"] is None
    assert told["base"]["start"] == "cold" and "Python" in told["base"]["start_why"]


def test_its_parent_is_the_template(pair):
    templates = {stem_of(each) for each in pair}
    assert len(templates) == 1
    template, first = templates.pop()
    assert read_stat(template)[0] == "python3" and read_stat(first)[0] == "brig-init"


def test_an_interrupt_reaches_the_cell(serve):
    one = clone(serve)
    one.count += 1
    code = "import time; print('go', flush=True); time.sleep(1000)"
    os.write(one.fds[0], frame({"op": "execute", "id": one.count, "code": code, "env": {}}))
    assert read_frame(one.fds[1])["type"] == "count"
    assert read_some(one.fds[2], 100) == b"go\n"
    wait_for(lambda: read_stat(one.host_pid)[1] == "S", what="it sleeps")
    one.box.ask("signal", {"pid": one.pid, "signal": int(signal.SIGINT), "group": False})
    assert read_frame(one.fds[1])["name"] == "KeyboardInterrupt"
    assert read_frame(one.fds[1])["type"] == "end"
    one.close()


def test_what_is_printed_comes_through_the_pipes(serve):
    one = clone(serve)
    one.run("import os, sys; print('out'); print('err', file=sys.stderr); os.system('echo child')")
    assert read_some(one.fds[2], 100) == b"out\nchild\n" and read_some(one.fds[3], 100) == b"err\n"
    one.close()


def test_its_end_is_told(serve):
    one = clone(serve)
    one.run("import threading, os, time\ndef leave():\n    while not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
            "    os._exit(5)\nthreading.Thread(target=leave).start()")
    assert one.box.run("touch", "/tmp/go")[0] == 0  # the cell has ended: this is between two
    assert os.WEXITSTATUS(one.box.exited(one.pid)) == 5
    assert one.box.run("echo", "still here")[1] == "still here\n"
    one.close()


# ---- what must differ ----

DIFFERENT = {
    "random": "import random; random.getrandbits(64)",
    "numpy.random": "import numpy; int(numpy.random.randint(2**62))",
    "numpy normal": "import numpy; float(numpy.random.standard_normal())",
    "uuid4": "import uuid; str(uuid.uuid4())",
    "uuid1": "import uuid; uuid.uuid1().clock_seq, str(uuid.uuid1())",
    "urandom": "import os; os.urandom(16)",
    "secrets": "import secrets; secrets.token_hex()",
    "tempfile": "import tempfile; tempfile.mktemp()",
    "openssl": "import ssl; ssl.RAND_bytes(16)",
    "libc": "import ctypes; c = ctypes.CDLL(None); [c.random() for _ in range(4)]",
    "libc drand48": "import ctypes; c = ctypes.CDLL(None); c.drand48.restype = ctypes.c_double; c.drand48()",
    "authkey": "import multiprocessing; bytes(multiprocessing.current_process().authkey)",
    "pid": "import os; os.getpid()",
    "start time": "import logging; logging._startTime",
    "namespaces": "import os; sorted(os.readlink('/proc/self/ns/' + n) for n in os.listdir('/proc/self/ns'))",
}


def faults(pid):
    """Pages that became its own, or were shown to it, since its start."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


def test_a_first_cell_has_its_pages_already(serve):
    one = clone(serve)
    try:
        before = faults(one.host_pid)
        one.run("print(1)")
        first = faults(one.host_pid) - before
        one.run("x = [bytes(4096) for _ in range(1000)]")
        assert faults(one.host_pid) - before > 900  # the control: they are counted
        assert first < 100
    finally:
        one.close()


def test_nothing_is_left_of_the_cell_before_the_first(serve):
    one = clone(serve)
    try:
        assert one.value("sorted(n for n in globals() if n[:2] != '__')") == []
        assert one.value("sorted(n for n in __import__('linecache').cache if n.startswith('<cell'))") == ["<cell 1>", "<cell 2>"]
        assert one.value("sorted(__import__('os').listdir('/proc/self/fd'))")[:5] == ["0", "1", "2", "3", "4"]
    finally:
        one.close()


def test_an_event_loop_is_made_when_it_is_asked_for(serve):
    one = clone(serve)
    try:
        loops = "len([l for l in __import__('gc').get_objects() if type(l).__name__ == '_UnixSelectorEventLoop'])"
        assert one.value(loops) == 0
        assert one.value("import asyncio\nasyncio.get_event_loop() is asyncio.get_event_loop()") is True
        assert one.value(loops) == 1
        assert one.value("asyncio.run(asyncio.sleep(0))\nasyncio.get_event_loop().is_closed()") is False
    finally:
        one.close()


@pytest.mark.parametrize("what", DIFFERENT)
def test_two_clones_differ(pair, what):
    a, b = (each.value(DIFFERENT[what]) for each in pair)
    if what == "namespaces":
        shared = set(a) & set(b)
        assert {name.split(":")[0] for name in shared} <= {"time"}, shared
    else:
        assert a != b


def test_control_a_plain_fork_does_not_differ():
    """What is renewed above would be the same in two copies of one process."""
    code = """if 1:
        import ctypes, numpy, os, random, tempfile
        c = ctypes.CDLL(None)
        def child():
            r, w = os.pipe()
            if c.fork() == 0:  # as Python does not know of it
                os.write(w, repr((random.getrandbits(64), numpy.random.randint(2**62), c.random(),
                                  next(tempfile._get_candidate_names()) )).encode())
                os._exit(0)
            return os.read(r, 1000)
        next(tempfile._get_candidate_names())
        a, b = child(), child()
        print(eval(a)[:3] == eval(b)[:3])"""
    assert subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_hash_seed_is_the_templates_and_changes_with_it(serve, pair):
    """Clones of one template process have one hash seed; each template process has its own."""
    a, b = (each.value("hash('brig')") for each in pair)
    assert a == b
    serve.wire.send("retire", 0, 0, {"template": "data"})
    later = clone(serve)
    assert later.value("hash('brig')") != a
    later.close()


# ---- what they cannot see of each other ----

def test_neither_sees_the_other_or_the_template(pair):
    for each in pair:
        seen = each.value("import os; sorted(int(n) for n in os.listdir('/proc') if n.isdigit())")
        assert seen == [each.pid]
    other = pair[1]
    for pid in (stem_of(pair[0])[0], other.pid, other.host_pid):
        assert pair[0].value(f"import os\ntry: os.kill({pid}, 0); r = 'signalled'\n"
                             f"except ProcessLookupError: r = 'nobody'\nr") == "nobody"
    assert pair[0].value(f"import os\nos.kill({pair[0].pid}, 0); 'control'") == "control"


def test_memory_is_shared_with_nobody(pair, serve):
    a, b = pair
    write = "import builtins, json, ctypes\nbuiltins.mark = json.mark = 'mine'\n" \
            "t = 'an old string of json'; ctypes.memset(id(json.__name__) + object.__basicsize__ + 24, 65, 1); 1"
    a.run(write)
    assert a.value("json.mark, mark") == ("mine", "mine")
    read = "import builtins, json; hasattr(builtins, 'mark'), hasattr(json, 'mark'), json.__name__"
    assert b.value(read) == (False, False, "json")
    third = clone(serve)
    assert third.value(read) == (False, False, "json")
    third.close()


def test_files_and_shared_memory_are_their_own(pair):
    a, b = pair
    a.run("import multiprocessing.shared_memory as m; s = m.SharedMemory('mark', True, 64); s.buf[0] = 7\n"
          "for n in ['/tmp/mark', '/workspace/mark', '/home/user/mark', '/run/mark']: open(n, 'w').write('x')")
    assert a.value("import os; os.path.exists('/dev/shm/mark'), os.path.exists('/tmp/mark')") == (True, True)
    assert b.value("import os; [os.path.exists(n) for n in ['/dev/shm/mark', '/tmp/mark', '/workspace/mark',"
                   "'/home/user/mark', '/run/mark']]") == [False] * 5


def test_descriptors(pair):
    listing = "import os; {int(n): os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') " \
              "if os.path.lexists(f'/proc/self/fd/{n}')}"
    for each in pair:
        found = each.value(listing)
        kinds = {fd: target.split(":")[0] for fd, target in found.items() if fd <= 4}
        assert kinds == {0: "/dev/null", 1: "pipe", 2: "pipe", 3: "pipe", 4: "pipe"}
        rest = {target for fd, target in found.items() if fd > 4}
        # its own stdin, and the event loop that the driver makes for top-level await
        assert all(t.startswith(("/dev/null", "/proc/", "anon_inode:[eventpoll]", "socket:")) for t in rest), rest
        assert each.value("import sys; sys.stdin.fileno(), sys.stdin.read()")[1] == ""
    template, _ = stem_of(pair[0])
    # What it was sent for the last clone it closes after that one has begun.
    wait_for(lambda: sorted(os.listdir(f"/proc/{template}/fd")) == ["0", "1", "2", "3"], what="the template has four descriptors")


# ---- as closed as one that was started ----

POSTURE = r"""
import ctypes, json, locale, os, resource, signal, socket, subprocess, sys
def tree(top):
    return sorted((d, sorted(files)[:50]) for d, _, files in os.walk(top))
def attempt(what):
    try:
        return repr(what())
    except OSError as e:
        return e.errno
libc = ctypes.CDLL(None, use_errno=True)
# name: number on x86-64, on aarch64
NUMBERS = {"mount": (165, 40), "unshare": (272, 97), "ptrace": (101, 117), "setns": (308, 268), "pivot_root": (155, 41),
           "keyctl": (250, 219), "bpf": (321, 280), "setuid": (105, 146), "kill": (62, 129)}
def call(name, *args):
    number = NUMBERS[name][("x86_64", "aarch64").index(os.uname().machine)]
    return ctypes.get_errno() if libc.syscall(number, *args) < 0 else "done"
status = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines())
posture = {
    "status": {k: status[k] for k in ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
                                      "Seccomp", "Seccomp_filters", "Threads", "Umask", "SigBlk"]},
    "mounts": sorted(" ".join(line.split()[3:6]) + " " + line.split(" - ")[1].split()[0]
                     for line in open("/proc/self/mountinfo")),
    "maps": [open("/proc/self/" + n).read().split() for n in ("uid_map", "gid_map", "setgroups")][0:1],
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "environ": dict(os.environ), "initial": open("/proc/self/environ").read(), "cwd": os.getcwd(),
    "names": [open(n).read() for n in ("/etc/passwd", "/etc/hosts", "/etc/resolv.conf")] + [socket.gethostname()],
    "root": sorted(os.listdir("/")), "brig": sorted(os.listdir("/.brig")), "dev": sorted(os.listdir("/dev")),
    "proc": sorted(n for n in os.listdir("/proc") if not n.isdigit()),
    "places": {n: tree(n) for n in ("/workspace", "/tmp", "/home", "/run")},
    "net": socket.if_nameindex(), "cgroup": attempt(lambda: os.listdir("/sys/fs/cgroup")),
    "refused": {
        "mount": call("mount", b"none", b"/tmp", b"tmpfs", 0, 0), "unshare": call("unshare", 0x10000000),
        "ptrace": call("ptrace", 16, 1, 0, 0), "setns": call("setns", 0, 0), "pivot_root": call("pivot_root", b"/", b"/"),
        "keyctl": call("keyctl", 0, -3, 0), "bpf": call("bpf", 0, 0, 0), "setuid": call("setuid", 0),
        "init": call("kill", 1, 0),
        "landlock": attempt(lambda: open("/.landlock")), "write": attempt(lambda: open("/usr/x", "w")),
        "memory of init": attempt(lambda: open("/proc/1/mem", "rb")), "root of init": attempt(lambda: os.listdir("/proc/1/root")),
        "userns": attempt(lambda: subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode),
    },
    "python": {"sys": [repr(getattr(sys, n)) for n in ("executable", "flags", "path", "prefix", "argv", "base_prefix",
                                                        "warnoptions", "_xoptions", "dont_write_bytecode", "platlibdir")],
               "streams": [(s.encoding, s.errors, s.line_buffering, s.mode) for s in (sys.stdout, sys.stderr)],
               "locale": [locale.getpreferredencoding(), locale.setlocale(locale.LC_CTYPE), sys.getfilesystemencoding()],
               "handlers": [str(signal.getsignal(n)).split(" of ")[0] for n in signal.valid_signals() if n < 32],
               "main": sorted(n for n in sys.modules["__main__"].__dict__ if n.startswith("__"))},
    "signals": [n for n in range(1, 65) if int(status["SigIgn"], 16) >> (n - 1) & 1],
}
posture
"""


def test_posture_is_that_of_a_started_sandbox(request, serve):
    """The same template without the library beside brig: its sandboxes are started."""
    folder = serve.folder / "without"
    folder.mkdir()
    shutil.copy(PUBLIC / "brig", folder / "brig")
    folder.chmod(0o755)
    with Serve(serve.caller, templates={"data.json": DATA}, brig=folder / "brig") as other:
        cold = Interpreter(other.launch("data")).claim()
        started = cold.value(POSTURE)
        cold.close()
    one = clone(serve)
    cloned = one.value(POSTURE)
    one.close()
    assert started["refused"]["mount"] not in ("done", 0)
    assert cloned.pop("initial") == ""  # the template was started with an empty environment
    assert started.pop("initial") != ""
    for each in (started, cloned):
        each["maps"] = [[n if i != 1 else "HOST" for i, n in enumerate(m)] for m in each["maps"]]
    for part in started:
        assert cloned[part] == started[part], part
    assert set(cloned) == set(started)


@pytest.mark.parametrize("how", ["cloned", "started"])
def test_no_code_before_init_is_hidden(serve, how):
    """An interpreter that waits may run code as soon as the front knows of the claim: init has hidden its memory by then."""
    one = clone(serve, claim=False) if how == "cloned" else Interpreter(serve.launch("python"))
    look = "def see():\n  try: return open('/proc/1/mem', 'rb').name\n  except OSError as e: return e.errno\nsee()"
    assert one.value(look) == "/proc/1/mem", "the control: it can be seen before"
    os.kill(one.init, signal.SIGSTOP)
    try:
        one.box.wire.send("claim", 99, 0, {"env": {}, "network": None})
        with pytest.raises(TimeoutError):
            one.box.next("done", "fail", seconds=2)
    finally:
        os.kill(one.init, signal.SIGCONT)
    assert one.box.next("done", "fail").type == "done"
    assert one.value(look) == errno.ENOENT
    one.close()


def test_what_is_attested_is_the_same(serve):
    one, base = clone(serve), serve.launch("base")
    base.ready()
    told, other = one.box.told["boundaries"], base.told["boundaries"]
    for each in (told, other):
        for name in ("host_uid", "uid_map"):
            each["kernel"].pop(name)
        # A clone has one in any case: its supervisor is not its parent.
        assert each["lifecycle"].pop("guardian") in ({True} if each is told else {True, False})
    assert told == other
    one.close()
    base.close()


def test_each_has_a_host_uid_of_its_own(serve):
    if serve.caller.uid != 0:
        pytest.skip("an ordinary user has one uid")
    made = [clone(serve) for _ in range(3)]
    template, _ = stem_of(made[0])
    uids = [os.stat(f"/proc/{each.host_pid}").st_uid for each in made] + [os.stat(f"/proc/{template}").st_uid]
    assert len(set(uids)) == 4 and min(uids) >= 0x70000000
    for each in made:
        each.close()


def test_the_template_has_next_to_nothing(serve):
    one = clone(serve)
    template, first = stem_of(one)
    for pid in (template, first):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        # As root: to take the uids of its own block, in its own user namespace.
        allowed = 1 << 6 | 1 << 7 if serve.caller.uid == 0 else 0
        for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
            assert int(status[name], 16) & ~allowed == 0, name
        assert status["NoNewPrivs"] == "1" and "0" not in status["Uid"].split()
        for ns in ("user", "mnt", "pid", "net", "ipc", "uts"):
            assert os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}")
    assert Path(f"/proc/{template}/net/dev").read_text().count(":") == 1
    one.close()


def test_network_rules_and_environment_at_the_claim(serve):
    one = clone(serve, claim=False)
    one.claim(env={"GREETING": "hello"})
    assert one.box.run("sh", "-c", "echo $GREETING")[1] == "hello\n"
    assert one.value("import socket\ns = socket.socket(); s.settimeout(60); s.connect_ex(('192.0.2.1', 80))") == 111
    one.close()


# ---- memory ----

def test_an_idle_clone_has_little_of_its_own(request):
    data = {"interpreter": "python", "modules": ["json", "re", "numpy", "pandas"]}
    with Serve(CALLERS[0], templates={"data.json": data}) as serve:
        made = [clone(serve, claim=False) for _ in range(3)]
        for each in made:
            wait_for(lambda each=each: all(read_stat(pid)[1] == "S" for pid in (each.init, each.host_pid)), what="it is idle")
            assert private_kb(each.init) + private_kb(each.host_pid) <= 1536
        template, _ = stem_of(made[0])
        assert int(re.search(r"Rss:\s+(\d+)", Path(f"/proc/{template}/smaps_rollup").read_text())[1]) > 30000
        for each in made:
            each.close()


# ---- deaths ----

def wait_gone(*pids, seconds=60):
    def gone():
        return all(not (stat := read_stat(pid)) or stat[1] == "Z" for pid in pids)
    wait_for(gone, seconds, f"the end of {pids}")


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: read_stat(pid)[1] == "T", what=f"{pid} stands still")


def usable(serve, seconds=300):
    """A clone, once there can be one again; sandboxes that come before are started, and work."""
    end = time.monotonic() + seconds
    while True:
        made = Interpreter(launch(serve)).claim()
        assert made.value("6 * 7") == 42
        if not made.cold and made.value("import sys; 'numpy' in sys.modules") is True:
            return made
        made.close()
        assert time.monotonic() < end, made.cold
        time.sleep(0.3)


def test_template_killed(fresh):
    one = clone(fresh)
    template, _ = stem_of(one)
    os.kill(template, signal.SIGKILL)
    wait_gone(template)
    assert one.value("6 * 7") == 42  # its clones go on
    other = usable(fresh)
    assert stem_of(other)[0] != template
    assert one.box.run("echo", "here")[1] == "here\n"
    one.close()
    other.close()


def test_template_stopped(fresh):
    """One that does not answer costs patience, not sandboxes."""
    one = clone(fresh)
    template, _ = stem_of(one)
    stop(template)
    made = Interpreter(launch(fresh)).claim()
    assert made.cold and made.value("6 * 7") == 42
    made.close()
    other = usable(fresh)  # and it is replaced
    assert stem_of(other)[0] != template
    os.kill(template, signal.SIGCONT)
    wait_gone(template)
    assert one.value("6 * 7") == 42
    other.close()
    one.close()


def test_first_process_of_the_templates_sandbox_killed(fresh):
    one = clone(fresh)
    template, first = stem_of(one)
    inside = [one.init, one.host_pid]
    os.kill(first, signal.SIGKILL)
    wait_gone(template, first, *inside)
    with pytest.raises(Gone):
        while True:
            one.box.wire.recv()
    other = usable(fresh)
    other.close()


def test_warden_killed(fresh):
    one, other = clone(fresh), clone(fresh)
    one.run("import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True)")
    tree = [one.init, *below(one.init)]
    assert len(tree) == 3
    os.kill(one.box.told["warden"], signal.SIGKILL)
    wait_gone(*tree)
    assert other.value("6 * 7") == 42
    clone(fresh).close()


def test_warden_and_its_guardian_killed(fresh):
    """The clone notices by itself."""
    one = clone(fresh)
    warden, tree = one.box.told["warden"], [one.init, *below(one.init)]
    group = [warden, *below(warden)]
    for pid in group:
        stop(pid)
    for pid in reversed(group):
        os.kill(pid, signal.SIGKILL)
    wait_gone(*tree)
    one.close()
    # Nobody was left to remove them. (Groups of others come and go while we look.)
    for folder in [Path(at) for at, _, _ in os.walk("/sys/fs/cgroup") if at.endswith(f"/brig-{one.box.id}")]:
        remove_group(folder)


def test_first_process_of_a_clone_killed(fresh):
    one, other = clone(fresh), clone(fresh)
    inside = [one.init, *below(one.init)]
    os.kill(one.init, signal.SIGKILL)
    wait_gone(*inside)
    assert "first process" in one.box.next("ended").json["reason"]
    assert other.value("6 * 7") == 42
    other.close()


def test_interpreter_of_an_idle_clone_killed(fresh):
    one = clone(fresh, claim=False)
    os.kill(one.host_pid, signal.SIGKILL)
    one.box.exited(one.pid)
    with pytest.raises(Failed):
        one.box.claim()
    one.close()


@pytest.mark.parametrize("victim", ["launcher", "stem"])
def test_the_rest_goes_along(request, victim):
    for caller in CALLERS:
        with Serve(caller, templates={"data.json": DATA}) as serve:
            made = [clone(serve), clone(serve, claim=False)]
            left = Left(serve)
            template, first = stem_of(made[0])
            everything = [template, first, *(p for each in made for p in (each.init, each.host_pid))]
            if victim == "launcher":
                serve.process.kill()
                serve.wire.close()
                for each in made:
                    each.close()
            else:
                os.kill(read_stat(first)[2], signal.SIGKILL)
            wait_gone(*everything)
            for each in made:
                if each.fds:
                    each.close()
        left.check()


@pytest.mark.parametrize("after_ms", [0, 4, 12])
@pytest.mark.parametrize("victim", ["template", "first", "warden"])
def test_killed_in_the_middle(fresh, victim, after_ms):
    """At some point of a clone's set-up: the sandbox comes cold, or not at all, and nothing stays."""
    one = clone(fresh)
    template, first = stem_of(one)
    before = set(below(fresh.pid))
    box = launch(fresh)
    time.sleep(after_ms / 1000)
    if victim == "warden":
        for pid in set(below(fresh.pid)) - before:
            if (stat := read_stat(pid)) and stat[2] == fresh.pid:
                os.kill(pid, signal.SIGKILL)
    else:
        os.kill(template if victim == "template" else first, signal.SIGKILL)
    try:
        box.ready()
    except TimeoutError:
        raise
    except (Gone, Failed, OSError):
        assert victim != "template"  # then it starts cold
    box.close()
    one.close()
    try:
        usable(fresh).close()
    except (Gone, Failed):
        assert victim == "first"  # ST-1: what was cloned before the launcher heard of that death dies of it too
        usable(fresh).close()


# ---- the template's life ----

def test_old_ones_are_kept_while_somebody_needs_them(fresh):
    one = clone(fresh)
    template, first = stem_of(one)
    fresh.wire.send("retire", 0, 0, {"template": "data"})
    wait_gone(template)
    assert read_stat(first) and one.value("6 * 7") == 42
    one.close()
    wait_gone(first)
    clone(fresh).close()


def test_reload_takes_new_templates(fresh):
    one = clone(fresh)
    file = fresh.state / "templates" / "data.json"
    file.write_text(json.dumps({**DATA, "modules": ["json", "colorsys"]}))
    os.chown(file, fresh.caller.uid, -1)
    fresh.process.send_signal(signal.SIGHUP)
    while fresh.wire.recv().type != "templates":
        pass
    other = usable_with(fresh, "colorsys")
    assert one.value("import sys; 'colorsys' in sys.modules") is False
    one.close()
    other.close()


def usable_with(serve, module):
    made = Interpreter(launch(serve)).claim()
    assert not made.cold and made.value(f"import sys; {module!r} in sys.modules") is True
    return made


def test_modules_that_are_not_installed_are_left_out(request):
    data = {"interpreter": "python", "modules": ["json", "no_such_module_anywhere"]}
    with Serve(CALLERS[0], "--foreground", templates={"data.json": data}) as serve:
        clone(serve).close()
        assert "no_such_module_anywhere" in serve.stop()[2]


def test_without_the_library_sandboxes_are_started(request):
    for caller in CALLERS:
        folder = Path(PUBLIC) / "without"
        folder.mkdir(exist_ok=True)
        shutil.copy(PUBLIC / "brig", folder / "brig")
        with Serve(caller, templates={"data.json": DATA}, brig=folder / "brig") as serve:
            cold = Interpreter(serve.launch("data")).claim()
            assert cold.value("import sys; 'numpy' in sys.modules") is False and cold.value("6 * 7") == 42
            cold.close()


# ---- the template process itself, outside of any sandbox ----

@pytest.fixture
def template(tmp_path):
    """Starts it with a driver of the test's own; (process, its door)."""
    made = []

    def start(driver, modules=()):
        shutil.copy(TOP / "src" / "template" / "template.py", tmp_path)
        shutil.copy(LIBRARY, tmp_path / "template.so")
        (tmp_path / "python.py").write_text(driver)
        (tmp_path / "template.json").write_text(json.dumps({"modules": list(modules), "environ": {"PATH": "/bin"}}))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(60)

        def place():
            os.dup2(theirs.fileno(), 3)

        process = subprocess.Popen(["/usr/bin/python3", "-I", str(tmp_path / "template.py")], preexec_fn=place,
                                   pass_fds=[3], env={})
        theirs.close()
        made.append(process)
        return process, ours

    yield start
    for process in made:
        process.kill()
        process.wait()


DRIVER = "import sys\ndef warm(modules): return list(modules)\ndef prepare(requests, answers): pass\n" \
         "def rehearse(): pass\ndef rehearse_often(times): pass\ndef run(): pass\n"


def test_control_what_is_shared_is_the_same_in_all_copies():
    """T-4: as two clones would be, which are copies of one process."""
    code = """if 1:
        import mmap, os
        m = mmap.mmap(-1, 4096)
        for word in (b"one", b"two"):
            if os.fork() == 0:
                print(m[:3])
                m[:3] = word
                os._exit(0)
            os.wait()"""
    told = subprocess.run(["/usr/bin/python3", "-uc", code], capture_output=True, text=True)
    assert told.stdout.split() == ["b'\\x00\\x00\\x00'", "b'one'"]


@pytest.mark.parametrize("line, why", [
    ("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()", "threads"),
    ("f = open('/etc/passwd')", "/etc/passwd"),
    ("import mmap; m = mmap.mmap(-1, 4096)", "share memory"),
    ("import multiprocessing; m = multiprocessing.Lock()", "share memory")])
def test_what_cannot_be_cloned_is_refused(template, line, why):
    process, door = template(DRIVER + line)
    said = json.loads(door.recv(65536))
    assert said["ready"] is False and why in said["error"]
    assert process.wait(60) == 1


def test_a_driver_that_fails_is_reported(template):
    process, door = template("1 / 0")
    said = json.loads(door.recv(65536))
    assert said["ready"] is False and "ZeroDivisionError" in said["error"]
    assert process.wait(60) == 1


def not_taken(sock):
    """Bytes that the other side has not read yet."""
    number = array.array("i", [0])
    fcntl.ioctl(sock, termios.TIOCOUTQ, number)
    return number[0]


def test_nonsense_is_dropped(template):
    process, door = template(DRIVER)
    assert json.loads(door.recv(65536))["ready"] is True
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(9)]
    head = array.array("I", [0x31636c6f, 1000, 1000, 1000, 0, 0]).tobytes()
    for data, passed in [(b"x", []), (head, []), (head, fds[:3]), (head[:-4], fds[:7]), (head + b"xxxx", fds[:7]),
                         (b"\0" * 24, fds[:7]), (head[:16] + b"\xff" * 8, fds[:7]),
                         (array.array("I", [0x31636c6f, 0, 0, 0, 2, 1]).tobytes(), fds[:9])]:
        door.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else [])
    wait_for(lambda: not_taken(door) == 0, what="it has taken them all")
    # With each of them it may have got nine; of the last it may just be getting rid.
    wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= 5, what="it keeps none of what it was sent")
    assert process.poll() is None
    door.close()
    assert process.wait(60) == 0
    for fd in fds:
        os.close(fd)


__all__ = ["Interpreter", "clone", "USER_ID", "all_pids", "sys"]
