"""Every system call, and every allocation, of a whole `brig run` and of a whole cycle of the daemon fails once, one after the
other: no wall is missing where the code runs, nothing is left, nothing crashes, and what went wrong is said.

In each run of the suite some allocations of `brig run`, always the same. With BRIG_TEST_FULL=1 all of a run's calls and
allocations, and sixty of each of the daemon's, which starts anew for each; with BRIG_TEST_CYCLES=all as well, each of them,
which takes a day. (The escape suite's K-26 fails the calls of the set-up in each run.)"""
import errno
import functools
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from form import FULL
from helpers import BRIG, CALLERS, PUBLIC, SANITIZED, TOP, WATCHED, wait_for
from test_faults import Api, ids_of, left_of, walk
from traces import Traces, alone
from verifylib import weak_programs

ALL = 10**6
SOME = ALL if FULL else 10
CYCLES = ALL if os.environ.get("BRIG_TEST_CYCLES") == "all" else 60
DICE = random.Random(1)
full = pytest.mark.skipif(not FULL, reason="takes long: BRIG_TEST_FULL=1")
pytestmark = pytest.mark.skipif(SANITIZED, reason="the sanitizers' own calls and allocations may not fail")


# ---- which calls ----

@functools.cache
def tracer():
    """The tool of the escape suite, which makes the Nth call of a number fail."""
    folder = Path(tempfile.mkdtemp(prefix="test-brig-tracer-"))
    folder.chmod(0o755)
    subprocess.run(["cc", "-std=gnu17", "-O1", "-D_GNU_SOURCE", "-include", "stdbool.h", "-o", folder / "tracer",
                    TOP / "tests/escape/attacks/tracer.c"], check=True)
    return folder / "tracer"


@functools.cache
def call_names():
    """{number: name} of this machine, from the kernel's headers."""
    text = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], capture_output=True, text=True,
                          check=True).stdout
    words = (line.split() for line in text.splitlines() if line.startswith("#define __NR_"))
    return {int(w[2]): w[1][5:] for w in words if len(w) == 3 and w[2].isdigit()}


# Cannot fail, or never return; or are the harness's own. A close that is not done is none of the kernel's failures,
# and arch_prctl is the C library's, which cannot begin without.
NEVER = {"arch_prctl", "close", "exit", "exit_group", "rt_sigreturn", "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "umask",
         "restart_syscall", "set_tid_address", "rt_sigprocmask", "rt_sigaction", "set_robust_list", "brk"}
# brig's own exec, and what its C library does first: it looks whether the standard streams are open, and ends if that fails.
NOT_BRIGS = {("execve", 1), ("poll", 1), ("ppoll", 1)}
ERRORS = {"ENOMEM": {"mmap", "mremap", "munmap", "mprotect", "madvise", "clone", "clone3", "fork", "vfork", "epoll_ctl"},
          "EMFILE": {"openat", "open", "openat2", "dup", "dup2", "dup3", "pipe2", "socket", "socketpair", "accept4", "memfd_create",
                     "pidfd_open", "signalfd4", "epoll_create1", "timerfd_create", "eventfd2", "fcntl"},
          "EIO": {"read", "pread64", "getdents64", "fsync", "fdatasync", "readlinkat", "newfstatat", "fstat", "statx", "unlinkat",
                  "renameat", "renameat2", "mkdirat", "ftruncate", "fstatfs"},
          "ENOSPC": {"write", "pwrite64", "writev", "fallocate"},
          "ECONNRESET": {"sendmsg", "sendto", "recvmsg", "recvfrom", "connect"}}


def error_of(name):
    return next((getattr(errno, code) for code, names in ERRORS.items() if name in names), errno.EPERM)


def calls_of(log, of_brig):
    """[(number, occurrence)] of the calls that brig's own processes made."""
    counts, found, foreign = {}, [], set()
    for line in Path(log).read_text(errors="replace").splitlines():
        fields = line.split("\t")
        if len(fields) < 8:
            continue
        task, nr, text = fields[1], int(fields[2]), fields[7].strip()
        name = call_names().get(nr, "")
        counts[nr] = counts.get(nr, 0) + 1
        if name in ("execve", "execveat") and text:
            (foreign.discard if of_brig(text) else foreign.add)(task)
        if task not in foreign and name and name not in NEVER and (name, counts[nr]) not in NOT_BRIGS:
            found.append((nr, counts[nr]))
    return found


def some(steps, most=SOME):
    return steps if len(steps) <= most else sorted(DICE.sample(steps, most), key=steps.index)


# ---- brig run ----

LOOK = ("grep -E '^(Seccomp|NoNewPrivs|CapEff|CapBnd|CapPrm):' /proc/self/status; id -u; (: > /canary) 2>/dev/null && echo writable; "
        "cat /etc/shadow 2>/dev/null | head -c 1; echo; echo looked")
# Fall-backs that are told: refused calls are not listed where nobody can be asked, and without a cgroup the filter is another.
SAID = (".kernel.refused_calls_seen", ".kernel.seccomp_instructions")
# What of the host's cannot be looked at is not shown: there is a mount less.
LOOKS, SHOWN = {"lstat", "newfstatat", "readlink", "readlinkat"}, (".filesystem.mounts_checked",)


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def facts(told):
    """What the walls are, as the receipt has it and as the code found it. Limits may fall back, and say so."""
    boundaries = {name: value for name, value in told["receipt"]["boundaries"].items() if name != "lifecycle"}
    return {"stdout": told["stdout"], **dict(leaves(boundaries))}


def is_as_usual(name, usual, now, call):
    """The call that failed may be one of the code's own, which then says less. What it says is still true."""
    if name == "stdout":
        return set(now.splitlines()) <= set(usual.splitlines())
    return now == usual or name in SAID + (SHOWN if call in LOOKS else ())


class Run:
    """brig run, as one caller on one tier, with a way to make something fail in it."""

    def __init__(self, caller, tier, kind):
        self.caller, self.top = caller, Path(tempfile.mkdtemp(prefix="test-injected-"))
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.top), "XDG_STATE_HOME": str(self.top / "state")}
        for folder in (self.top, self.top / "state", self.top / "project"):
            folder.mkdir(exist_ok=True)
            os.chown(folder, caller.uid, caller.uid)
        kinds = {"plain": [], "review": ["--review", str(self.top / "project")], "egress": ["--allow", "example.org"],
                 "receipt": ["--receipt", str(self.top / "state" / "receipt.json")]}
        self.options = ["run", "--json", "--tier", tier, "--timeout", "200s", *WATCHED, *kinds[kind], "--", "sh", "-c", LOOK]
        first, second = (facts(self.told(self.start())) for _ in range(2))
        self.usual = {name: value for name, value in first.items() if second.get(name) == value}

    def start(self, program=PUBLIC / "brig", wrapper=(), env=None):
        command = self.caller.outside(*map(str, wrapper), str(program), *self.options)
        return subprocess.run(command, capture_output=True, text=True, timeout=400, cwd="/", stdin=subprocess.DEVNULL,
                              env=self.env | (env or {}), check=False)

    @staticmethod
    def told(done):
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def problems(self, done, call=None):
        """What is wrong with how it ended, after that call failed; None: nothing."""
        if done.returncode < 0 or done.returncode in (128 + s for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)):
            return f"it crashed: {done.returncode} {done.stderr[-300:]}"
        if "left behind" in done.stderr:
            return f"left behind: {done.stderr[-300:]}"
        told = self.told(done)
        if not told or "stdout" not in told:
            if done.returncode not in (125, 126, 127) or not (done.stderr + done.stdout).strip():
                return f"nothing ran, and nobody says why: {done}"
            return None
        if "looked" not in told["stdout"] or not told.get("receipt"):
            return None
        now = facts(told)
        weaker = {name: (value, now.get(name)) for name, value in self.usual.items() if not is_as_usual(name, value, now.get(name), call)}
        return f"a wall is missing: {weaker}" if weaker else None

    def left(self, done):
        """Reviews of which nobody says that they wait. One that could not be looked into is kept, and said: nothing is lost."""
        reviews, said = self.top / "state" / "brig" / "reviews", (self.told(done) or {}).get("review")
        return [str(p) for p in reviews.glob("*") if p.name != said] if reviews.exists() else []

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)


CASES = [(CALLERS[0], "container", "plain"), (CALLERS[0], "process", "plain"), (CALLERS[-1], "container", "plain"),
         (CALLERS[-1], "process", "plain"), (CALLERS[0], "container", "review"), (CALLERS[-1], "process", "review"),
         (CALLERS[0], "container", "egress"), (CALLERS[-1], "container", "receipt")]


@pytest.fixture(params=CASES, ids=lambda c: f"{c[0].name}-{c[1]}-{c[2]}")
def run(request):
    made = Run(*request.param)
    yield made
    made.close()


@pytest.fixture
def traces():
    with alone():
        yield Traces()


def is_brig(text):
    return "brig" in text.rsplit("/", 1)[-1] or text.startswith("/proc/self/fd") or text == ""


@full
def test_a_call_that_fails(run, traces):
    log = run.top / "state" / "log"
    done = run.start(wrapper=[tracer(), "log", log, "--"])
    assert run.problems(done) is None, "the control: under the tracer all is well"
    steps = calls_of(log, is_brig)
    log.unlink()
    assert len(steps) > 200, f"the tracer saw only {len(steps)} calls"
    wrong, hits = [], 0
    chosen = some(steps)
    for nr, nth in chosen:
        name = call_names()[nr]
        done = run.start(wrapper=[tracer(), "fail", nr, nth, -error_of(name), "--"])
        if done.returncode == 99:
            continue  # it did not come to that
        hits += 1
        what = run.problems(done, name)
        left = run.left(done)
        if what or left:
            wrong.append(f"{name}#{nth}: {what or left}")
            print(wrong[-1], flush=True)
        shutil.rmtree(run.top / "state" / "brig" / "reviews", ignore_errors=True)
    assert hits > len(chosen) // 3, f"only {hits} of {len(chosen)} injections hit"
    assert not wrong, f"{len(wrong)} of {hits}:\n" + "\n".join(wrong)
    traces.none_left()


def test_an_allocation_that_fails(run, traces):
    brig = weak_programs() / "brig"
    assert run.problems(run.start(brig)) is None, "the control: the test build runs"
    wrong, hits, nth = [], 0, 0
    while True:
        nth += 1 if FULL else DICE.randint(1, 25)
        done = run.start(brig, env={"BRIG_FAIL_ALLOC": str(nth)})
        if "an allocation fails" not in done.stderr:
            break
        hits += 1
        what, left = run.problems(done), run.left(done)
        if what or left:
            wrong.append(f"allocation {nth}: {what or left}")
            print(wrong[-1], flush=True)
        shutil.rmtree(run.top / "state" / "brig" / "reviews", ignore_errors=True)
    assert hits >= 5, f"there were only {hits} allocations"
    assert not wrong, f"{len(wrong)} of {hits}:\n" + "\n".join(wrong)
    traces.none_left()


# ---- the daemon ----

class Daemon:
    def __init__(self, folder, program=PUBLIC / "brig", wrapper=(), env=None):
        self.folder = folder
        self.process = subprocess.Popen(
            [*map(str, wrapper), program, "serve", "--state", folder / "state", "--socket", folder / "sock", "--key-file",
             folder / "key", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(folder)} | (env or {}))

    def cycle(self):
        """All that test_faults walks through; None, or what a client saw instead."""
        try:
            wait_for(lambda: (self.folder / "sock").exists() or self.process.poll() is not None, 300)
            wait_for(lambda: self.process.poll() is not None or self.up(), 300)
            walk(Api(self.folder / "sock", (self.folder / "key").read_text().strip()))
        except (OSError, http.client.HTTPException, AssertionError, ValueError) as seen:
            return seen
        return None

    def up(self):
        try:
            return Api(self.folder / "sock", (self.folder / "key").read_text().strip()).call("GET", "/health")[0]
        except (OSError, http.client.HTTPException):
            return None

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            text, _ = self.process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, text


@pytest.fixture
def folder():
    path = Path(tempfile.mkdtemp(prefix="test-injected-"))
    yield path
    shutil.rmtree(path)


def after_all(folder):
    """What a daemon left, once the next one has come and gone; and is its record whole?"""
    (folder / "sock").unlink(missing_ok=True)
    try:
        ids = ids_of(folder)
    except subprocess.CalledProcessError:
        ids = set()  # it ended before it had anything to write
    after = Daemon(folder)
    seen = after.cycle()
    status, text = after.end()
    if seen or status:
        return f"the next one does not work: {seen} {status} {text[-500:]}"
    wait_for(lambda: not left_of(folder, ids), 300, f"nothing is left of {ids}")
    good = subprocess.run([BRIG, "audit", "verify", "--state", folder / "state"], capture_output=True, text=True, check=False)
    return None if good.returncode == 0 else f"the record is not whole: {good.stdout}{good.stderr}"


CRASHED = re.compile(r"killed by signal (4|5|6|7|8|11|31)\b|stack smashing|double free|invalid pointer")


def judge(folder, what, status, text):
    """None: it did not crash, and after it all is as it should be."""
    if CRASHED.search(text) or status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGTRAP):
        return f"{what}: it crashed: {status} {text[-500:]}"
    after = after_all(folder)
    return f"{what}: {after} (before: {text[-300:]})" if after else None


@full
def test_a_call_of_the_daemon_that_fails(folder):
    log = folder / "log"
    daemon = Daemon(folder, wrapper=[tracer(), "log", log, "--"])
    assert daemon.cycle() is None, "the control: under the tracer all is well"
    daemon.end()
    steps = calls_of(log, is_brig)
    log.unlink()
    assert len(steps) > 1000, f"the tracer saw only {len(steps)} calls"
    wrong = []
    for nr, nth in some(steps, CYCLES):
        name = call_names()[nr]
        broken = Daemon(folder, wrapper=[tracer(), "fail", nr, nth, -error_of(name), "--"])
        broken.cycle()
        if said := judge(folder, f"{name}#{nth}", *broken.end()):
            wrong.append(said)
            print(said, flush=True)
    assert not wrong, "\n".join(wrong)


@full
@pytest.mark.parametrize("where", ["BRIG_FAIL_ALLOC", "BRIG_FAIL_ALLOC_FRONT"], ids=["launcher and wardens", "front"])
def test_an_allocation_of_the_daemon_that_fails(folder, where):
    wrong, hits, nth = [], 0, 0
    while hits < CYCLES:
        nth += 1 if CYCLES == ALL else DICE.randint(1, 60)
        broken = Daemon(folder, weak_programs() / "brig", env={where: str(nth)})
        broken.cycle()
        status, text = broken.end()
        if "an allocation fails" not in text:
            break
        hits += 1
        if said := judge(folder, f"allocation {nth}", status, text):
            wrong.append(said)
            print(said, flush=True)
    assert hits >= 5, f"there were only {hits} allocations"
    assert not wrong, "\n".join(wrong)
