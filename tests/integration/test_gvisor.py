"""The gvisor tier: programs of the system run behind gVisor's Sentry, with the same options and verdicts as on the container tier.

The G rows of the attack list: G-01 calls of the engine's profile, G-02 which runsc, G-03 devices, G-04 rights before the walls, G-05
sockets, G-06 options from outside, G-07 the end. BRIG names the program under test, BRIG_TEST_RUNSC the runsc (tests/lib/poollib.py).
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import termios
from pathlib import Path

import pytest

import poollib
from form import FULL
from helpers import CALLERS, PUBLIC, WATCHED, all_pids, below, end, find_below, read_stat, wait_for
from test_terminal import Terminal


RUNSC = poollib.runsc()
NAMED = {**os.environ, "BRIG_RUNSC": RUNSC}
UNNAMED = {k: v for k, v in os.environ.items() if k != "BRIG_RUNSC"}
SOURCES = Path(__file__).parent / "gvisor"
REFUSED = 125


@pytest.fixture(scope="module", autouse=True)
def tier():
    if not Path(RUNSC).exists():
        pytest.skip(f"no {RUNSC}: apt install runsc")


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def box(request):
    return request.param.with_options("--tier", "gvisor", "--quiet", *WATCHED)


@pytest.fixture
def folder(tmp_path_factory):
    """One that every caller may use."""
    made = Path(subprocess.check_output(["mktemp", "-d", "/tmp/test-gvisor-XXXXXX"], text=True).strip())
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def plain(box):
    """The same caller on the container tier."""
    return type(box)(box.name, "--quiet", *WATCHED)


def run(box, *args, env=NAMED, **kwargs):
    return box.run(*args, env=env, **kwargs)


def report(box, *args, **kwargs):
    return box.json(*args, env=NAMED, **kwargs)


# ---- as a program would ----

@pytest.mark.builds
def test_the_code_is_behind_another_kernel(box):
    """Input, output, variables, folder and uid are those of the container tier; the kernel is not."""
    script = "cat; echo $A; pwd; id -u; echo wrong >&2; uname -r; echo x > f && cat f; exit 7"
    there, here = (report(b, "-e", "A=b c", "--", "sh", "-c", script, input="in\n")
                   for b in (plain(box), box))
    assert there["exit_code"] == here["exit_code"] == 7, (there, here)
    assert here["stderr"] == there["stderr"] == "wrong\n"
    assert here["tier"] == "gvisor"
    mine, others = here["stdout"].splitlines(), there["stdout"].splitlines()
    assert mine[:4] == others[:4] == ["in", "b c", "/workspace", "1000"] and mine[5] == "x", here
    assert others[4] == os.uname().release and mine[4] != others[4], "control: without the engine it is the host's kernel"


@pytest.mark.builds
def test_the_receipt_names_the_engine(box):
    kernel = report(box, "--", "true")["receipt"]["boundaries"]["kernel"]
    assert kernel["engine"] == "brig-gvisor" and kernel["runsc"] == RUNSC and kernel["runsc_named"] is True
    digest = subprocess.check_output(["sha256sum", RUNSC], text=True).split()[0]
    assert kernel["runsc_sha256"] == f"sha256:{digest}"
    version = subprocess.check_output([RUNSC, "--version"], text=True).split()[2]
    assert kernel["runsc_version"] == version
    assert kernel["runsc_platform"] in ("systrap", "ptrace") and kernel["capabilities"] == 0


@pytest.mark.builds
def test_programs_of_the_system_work(box):
    """Processes, threads, queues between them, loopback, UNIX sockets of the sandbox's own."""
    told = report(box, "--", "python3", "-c", """
import multiprocessing, os, socket, subprocess, threading
queue = multiprocessing.Queue()
worker = multiprocessing.Process(target=queue.put, args=(5,)); worker.start(); print(queue.get()); worker.join()
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
client.sendall(b"loop"); print(server.accept()[0].recv(4).decode())
a = socket.socket(socket.AF_UNIX); a.bind("/workspace/s"); a.listen()
b = socket.socket(socket.AF_UNIX); b.connect("/workspace/s"); b.sendall(b"unix"); print(a.accept()[0].recv(4).decode())
""")
    assert told["stdout"] == "5\nchild\nloop\nunix\n", told


@pytest.mark.parametrize("script, status, signal_number", [("exit 0", 0, None), ("kill -TERM $$", 143, 15), ("kill -KILL $$", 137, 9)])
def test_it_ends_as_the_code_did(box, script, status, signal_number):
    told = report(box, "--", "sh", "-c", script)
    assert (told["status"], told["signal"]) == (status, signal_number), told


def test_what_cannot_be_started_is_said(box):
    assert run(box, "--", "no-such-program").returncode == 127
    assert run(box, "--", "/etc/passwd").returncode == 126
    odd = run(box, "--", "echo", b"\xff".decode(errors="surrogateescape"))
    assert odd.returncode == 126 and "UTF-8" in odd.stderr, odd


def test_signals_reach_the_code(box):
    process = box.start("--", "sh", "-c", "trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.1; done", env=NAMED)
    try:
        assert process.stdout.readline() == b"ready\n"
        os.kill(find_below(process.pid, ".brig-tool"), signal.SIGUSR1)
        assert (process.stdout.readline(), process.wait(60)) == (b"got it\n", 5)
    finally:
        end(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_the_codes_alone(box, number):
    """What asks brig for the end is the code's to handle, once, with its files still there: runsc's own processes are in no group that gets it."""
    script = ("import os, signal, sys, time\ncount = []\nsignal.signal(int(sys.argv[1]), lambda *_: count.append(1))\nprint('ready', flush=True)\n"
              "while not count: time.sleep(0.01)\ntime.sleep(0.5); print(len(count), len(open('/etc/debian_version').read()) > 0); sys.exit(5)")
    process = box.start("--", "python3", "-c", script, str(int(number)), env=NAMED, start_new_session=True)
    try:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert (process.stdout.read(), process.wait(60)) == (b"1 True\n", 5)
    finally:
        end(process)


def test_an_interrupt_ends_all_that_the_code_started(box):
    process = box.start("--", "bash", "-c", "bash -c 'echo ready; exec sleep 600'; echo went on", env=NAMED, start_new_session=True)
    try:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait(60)) == (b"", 130)
    finally:
        end(process)


# ---- a terminal ----

@pytest.fixture
def terminal(box, monkeypatch):
    monkeypatch.setenv("BRIG_RUNSC", RUNSC)
    opened = []

    def open_terminal(*args):
        opened.append(Terminal(box.command("-t", *args), rows=31, columns=97))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


JOB = """import os, signal; signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"went on %d\\n" % (40 + 3))); os.write(1, b"job-%d\\n" % (40 + 2))
while True: signal.pause()
"""


@pytest.mark.builds
def test_a_shell_on_a_terminal(terminal):
    """^C ends the job and not the shell, ^Z stops it, the status comes out, the caller's settings come back.

    The job executes nothing once it has said that it is there: of a stop that comes in the middle of that gVisor knows nothing afterwards.
    That it goes on is what the shell does last to bring it to the front: a key before that is the shell's.
    """
    t = terminal("-e", "PS1=[$?]> ", "--", "bash", "--norc", "--noprofile", "-i")
    t.until(r"\[0\]> ")
    t.type("test -t 0 && test -t 1 && test -t 2 && echo all-'three'; stty size; uname -r\n")
    t.until("all-three\r")
    t.until("31 97\r")
    t.until(r"\n4\.4\.0\r")
    for key, words in (("\x03", r"\[130\]> "), ("\x1a", r"Stopped[^>]*\[148\]> ")):
        t.type(f"python3 -c '{JOB}'\n")
        t.until("job-42\r")
        t.type(key)
        t.until(words)
    t.type("fg\n")
    t.until("went on 43\r")
    t.type("\x03")
    t.until(r"\[130\]> ")
    t.type("seq 1 20000\n")
    t.until(r"19999\r\n20000\r")
    t.type("exit 37\n")
    assert t.wait() == 37
    assert termios.tcgetattr(t.follower) == t.before


SIZES = """
import fcntl, os, signal, struct, termios
def size(*_): os.write(1, b"size=%d %d;" % struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2])
signal.signal(signal.SIGWINCH, size); size()
while True: signal.pause()
"""


def test_each_change_of_the_size_arrives_once(terminal):
    t = terminal("--", "python3", "-c", SIZES)
    t.until("size=31 97;")
    for columns in range(100, 106):
        t.resize(40, columns)
        t.process.send_signal(signal.SIGWINCH)
        t.until(f"size=40 {columns};")
    t.type("\x03")
    assert b"size" not in t.until(r"(?s)(.*)KeyboardInterrupt").group(1)
    assert t.wait() == 130


def test_what_is_typed_early_and_a_signal_reach_the_code_on_a_terminal(terminal):
    t = terminal("--", "python3", "-c", "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(9))\nprint('got', input())\nsignal.pause()")
    t.type("early\n")
    t.until("got early\r")
    t.process.send_signal(signal.SIGTERM)
    assert t.wait() == 9


def test_uid_is_the_policys(box):
    assert run(box, "--uid", "0", "--", "id", "-u").stdout == "0\n"
    assert run(box, "--uid", "4321", "--", "sh", "-c", "id -u; echo x > f; stat -c %u f").stdout.startswith("4321\n")


# ---- limits: the verdicts of the container tier ----

HOG = "a = bytearray(600 << 20)\nfor i in range(0, len(a), 4096): a[i] = 1\nimport time; time.sleep(60)"


@pytest.mark.builds
@pytest.mark.parametrize("options, command, limit", [
    (["--timeout", "1s"], ["sleep", "60"], "timeout"),
    (["--cpu-time", "1s"], ["sh", "-c", "while :; do :; done"], "cpu_time"),
    (["-m", "200M"], ["python3", "-c", HOG], "memory"),
    (["--output", "1k"], ["head", "-c", "100000", "/dev/zero"], "output"),
    (["--disk", "1M"], ["sh", "-c", "head -c 3000000 /dev/zero > /tmp/f"], "disk")], ids=lambda x: x if isinstance(x, str) else "")
def test_limits_have_their_verdicts(box, options, command, limit):
    told = report(box, *options, "--", *command)
    assert told["limit_hit"] == limit, told


ASLEEP = "import sys, time\na = bytearray(int(sys.argv[1]) << 20)\nfor i in range(0, len(a), 4096): a[i] = 1\ntime.sleep(3); print('kept')"


def test_memory_of_code_that_sleeps_counts(box):
    """The Sentry unmaps it: no process has it then, and where no cgroup counts it, the file that holds it is what is left to see."""
    told = report(box, "-m", "200M", "--", "python3", "-c", ASLEEP, "230")
    assert told["limit_hit"] == "memory" and told["stdout"] == "", told
    control = report(box, "-m", "200M", "--", "python3", "-c", ASLEEP, "60")
    assert (control["limit_hit"], control["stdout"]) == (None, "kept\n"), "control: what is allowed is kept"


def test_a_swarm_of_processes_ends(box):
    told = report(box, "--pids", "64", "--timeout", "60s", "--", "sh", "-c", "f() { f | f & }; f; sleep 60")
    assert told["status"] != 0 and told["duration_ms"] < 50000, told


# ---- folders ----

def test_grants_are_kept(box, folder):
    for name in ("ro", "rw"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "ro" / "f").write_text("data\n")
    (folder / "hidden").write_text("canary\n")
    told = report(box, "--ro", folder / "ro", "--rw", f"{folder}/rw:/out", "--", "sh", "-c",
                  f"cat {folder}/ro/f; echo x > {folder}/ro/g; echo x > /etc/g; echo y > /out/g; cat {folder}/hidden; chmod 4755 /out/g; cat /out/g")
    assert told["stdout"] == "data\ny\n" and "canary" not in told["stderr"], told
    assert not (folder / "ro" / "g").exists() and (folder / "rw" / "g").read_text() == "y\n"
    assert not (folder / "rw" / "g").stat().st_mode & 0o6000, "no set-id file in a host's folder"
    told = report(plain(box), "--rw", folder, "--", "cat", f"{folder}/hidden")
    assert told["stdout"] == "canary\n", "control: granted, it is read"


def test_another_root_and_one_that_can_be_written(box, folder):
    """runsc needs nothing of the view that it stands in; what the code changes in a writable root is the sandbox's own."""
    (folder / "bin").mkdir()
    shutil.copy(shutil.which("busybox"), folder / "bin" / "busybox")
    folder.chmod(0o755)
    told = report(box, "--root", folder, "--", "/bin/busybox", "sh", "-c", "busybox ls /bin; echo w > /workspace/x && busybox cat /workspace/x")
    assert told["stdout"] == "busybox\nw\n", told
    told = report(box, "--uid", "0", "--writable-root", "--", "sh", "-c", "echo x > /usr/brig-test && cat /usr/brig-test")
    assert told["stdout"] == "x\n" and not Path("/usr/brig-test").exists(), told


@pytest.mark.builds
def test_a_review_shows_what_the_container_tier_shows(box, folder, state):
    """The same changes, the same digest, by the same verbs; what is written is limited, each file by the Sentry and all of it by who looks."""
    project = folder / "project"
    project.mkdir()
    (project / "d").mkdir()
    for name in ("a", "d/y", "same"):
        (project / name).write_text(f"{name}\n")
    for path in (project, *project.rglob("*")):
        os.chown(path, box.uid, box.uid)
    env = state(RUNSC)

    def brig(*args):
        return subprocess.run(box.outside(PUBLIC / "brig", *args), capture_output=True, text=True, env=env, cwd="/", timeout=120)

    change = "echo more >>a; rm d/y; echo new >n; mkdir e; mv d e/d; ln -s a l; chmod 700 same; mv same moved"
    shown = {}
    for each in (plain(box), box):
        told = each.json("--review", project, "--", "sh", "-ec", change, env=env)
        assert told["exit_code"] == 0, told
        shown[told["tier"]] = brig("diff", told["sandbox_id"]).stdout
        applied = brig("apply" if each is box else "discard", told["sandbox_id"])
        assert applied.returncode == 0, applied
    assert shown["gvisor"] == shown["container"] and "+more" in shown["gvisor"] and "# DIGEST" in shown["gvisor"], shown
    assert (project / "a").read_text() == "a\nmore\n" and (project / "e/d").is_dir() and not (project / "d").exists()
    script = "trap '' XFSZ; truncate -s 1G {0}/hole || echo refused; dd if=/dev/zero of={0}/one bs=1M count=20 2>/dev/null || echo refused; {1}"
    limited = box.json("--disk", "4M", "--review", project, "--", "sh", "-c", script.format(project, "sleep 100"), env=env)
    # Who looks may have ended it before it said the second one.
    assert limited["limit_hit"] == "disk" and limited["stdout"] in ("refused\n", "refused\nrefused\n"), limited
    free = box.json("--disk", "64M", "--review", project, "--", "sh", "-c", script.format(project, "true"), env=env)
    assert free["limit_hit"] is None and free["stdout"] == "refused\n", f"control: {free}"


# ---- what is not offered ----

@pytest.mark.parametrize("options, words", [(["--noexec"], "filesystem.exec"), (["--report-files"], "--report-files"), (["-m", "64M"], "96 MiB")],
                         ids=["noexec", "report", "memory"])
def test_what_is_not_there_is_refused(box, options, words):
    result = run(box, *options, "--", "echo", "RAN")
    assert result.returncode == REFUSED and words in result.stderr and "RAN" not in result.stdout, result


# ---- G-01: the engine's own calls, and an engine that was broken into ----

INSIDE = """
import ctypes, errno, os
c = ctypes.CDLL(None, use_errno=True)
def try_(name, *args):
    r = getattr(c, name)(*args)
    print(name, "done" if r >= 0 else errno.errorcode[ctypes.get_errno()])
try_("ptrace", 16, 1, 0, 0)            # the first process of the sandbox, as the code numbers it: itself
try_("mount", b"none", b"/mnt", b"tmpfs", 0, None)
try_("chroot", b"/usr")
try_("setns", 0, 0)
print(sorted(os.listdir("/proc/1/task")) and open("/proc/1/comm").read().strip())
"""


@pytest.mark.builds
def test_g01_the_code_has_none_of_the_engines_calls(box):
    """ptrace, mount and chroot of the code end at the Sentry: it has no capability there, and its first process is the code itself."""
    told = report(box, "--", "python3", "-c", INSIDE)
    lines = told["stdout"].splitlines()
    assert lines[1:3] == ["mount EPERM", "chroot EPERM"] and lines[-1].startswith("python3"), told
    assert "done" not in lines[0] and "done" not in lines[3], told
    assert told["denials"] == [], "nothing of it came to the host's filter"


@pytest.fixture(scope="module")
def standin():
    path = PUBLIC / "standin"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-w", "-static", "-o", path, SOURCES / "standin.c"], check=True, timeout=120)
    path.chmod(0o755)
    return path


def attacked(folder):
    wait_for(lambda: (folder / "said").exists() and "end\n" in (folder / "said").read_text(), what="the stand-in is through")
    return dict(line.split() for line in (folder / "said").read_text().splitlines() if " " in line)


def test_g01_an_engine_that_was_broken_into_is_in_the_container_tiers_walls(box, folder, standin):
    canary = folder.parent / (folder.name + "-canary")
    canary.write_text("secret")
    canary.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as server:
        (folder / "targets").write_text(f"{canary} {server.getsockname()[1]}\n")
        control = subprocess.run([standin, folder], timeout=60)
        free = attacked(folder)
        (folder / "said").unlink()
        process = box.start("--timeout", "60s", "--rw", f"{folder}:/attack", "--", "true", env={**os.environ, "BRIG_RUNSC": str(standin)})
        try:
            held = attacked(folder)
        finally:
            end(process)
            canary.unlink()
    assert control.returncode == 0
    for what in ("canary", "host_port", "unix", "trace_own") + (("new_mount", "mount", "chroot", "packet", "handle") if os.geteuid() == 0 else ()):
        assert free[what] == "done", f"control: {what} works outside: {free}"
    assert held.pop("trace_own") == "done", "what the engine needs"
    assert all(answer != "done" for answer in held.values()), held


# ---- G-02: which runsc ----

def test_g02_a_build_that_cannot_run_ls_is_used_only_by_name(box):
    told = report(box, "--", "ls", "-d", "/")
    unnamed = run(box, "--", "echo", "RAN", env=UNNAMED)
    if "Invalid argument" in told["stderr"] and RUNSC == "/usr/bin/runsc" and not Path("/usr/local/bin/runsc").exists():
        assert unnamed.returncode == REFUSED and "cannot run programs" in unnamed.stderr and "BRIG_RUNSC" in unnamed.stderr, unnamed
    else:
        assert told["stdout"] == "/\n", told


def test_g02_only_a_runsc_that_nobody_else_can_change(box, folder):
    """In PATH it has no say; one that others may write, that lies where others may replace it, or that is a script is refused."""
    good, place = folder / "good", folder / "bin"
    place.mkdir(mode=0o755)
    for path in (place / "runsc", place / "open"):
        shutil.copy(RUNSC, path)
        path.chmod(0o755)
    (place / "open").chmod(0o777)
    (place / "script").write_text("#!/bin/sh\necho release-20300101 RAN\n")
    (place / "script").chmod(0o755)
    shutil.copy(RUNSC, good)
    for bad, words in ((good, ""), (place / "open", ""), (place / "script", ""), (Path("relative"), ""), (place / "absent", "")):
        result = run(box, "--", "echo", "RAN", env={**os.environ, "BRIG_RUNSC": str(bad)})
        assert result.returncode == REFUSED and "RAN" not in result.stdout and words in result.stderr, (bad, result)
    first = report(box, "--", "true", cwd="/")["receipt"]["boundaries"]["kernel"]["runsc"]
    assert first == RUNSC
    env = {**NAMED, "PATH": f"{place}:{os.environ['PATH']}"}
    assert box.json("--", "true", env=env)["receipt"]["boundaries"]["kernel"]["runsc"] == RUNSC


# ---- G-03, G-05: devices and sockets ----

def test_g03_devices_are_the_sentrys(box):
    told = report(box, "--", "python3", "-c", """
import os, stat
for name in sorted(os.listdir('/dev')):
    if stat.S_ISCHR(os.stat('/dev/' + name).st_mode) if name not in ('fd', 'stdin', 'stdout', 'stderr') else False: print(name)
    assert not stat.S_ISBLK(os.lstat('/dev/' + name).st_mode)
try: os.mknod('/workspace/kvm', 0o20666, os.makedev(10, 232)); print('MADE')
except OSError: pass
""")
    assert set(told["stdout"].split()) <= {"full", "fuse", "null", "ptmx", "random", "tty", "urandom", "zero", "net"}, told


KMSG = (1, 11)  # the kernel's log: a device of the host that the Sentry has none of
OPEN = "import os, sys\ntry: os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK); print('OPENED')\nexcept OSError as e: print(e.strerror)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device node")
def test_g03_a_node_that_a_folder_brings_leads_to_no_device(box, folder):
    """In a granted folder and in a root of its own; the same node opens the host's device where no sandbox is."""
    os.mknod(folder / "node", 0o20666, os.makedev(*KMSG))
    (folder / "node").chmod(0o666)
    outside = subprocess.run(["python3", "-c", OPEN, folder / "node"], capture_output=True, text=True, timeout=60).stdout
    assert outside == "OPENED\n", f"control: outside it is the host's device: {outside}"
    told = report(box, "--rw", f"{folder}:/opt/given", "--", "python3", "-c", OPEN, "/opt/given/node")
    assert told["exit_code"] == 0 and "OPENED" not in told["stdout"], told
    (folder / "bin").mkdir()
    shutil.copy(shutil.which("busybox"), folder / "bin" / "busybox")
    folder.chmod(0o755)
    told = report(box, "--root", folder, "--", "/bin/busybox", "sh", "-c", "(exec 3< /node) 2>/dev/null && echo OPENED; echo through")
    assert told["stdout"] == "through\n", told


SOCKETS = """
import socket, sys
def attempt(what, f):
    try: f(); print(what, 'done')
    except OSError as e: print(what, 'refused')
def tcp(): socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).close()
def abstract(): socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[2])
def path(): socket.socket(socket.AF_UNIX).connect(sys.argv[3])
attempt('tcp', tcp); attempt('abstract', abstract); attempt('path', path)
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
"""


@pytest.mark.builds
def test_g05_sockets_of_the_host_are_out_of_reach(box, folder):
    name = f"brig-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as path:
        abstract.bind("\0" + name)
        path.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        for each in (abstract, path):
            each.listen()
        args = ["python3", "-c", SOCKETS, str(tcp.getsockname()[1]), name, str(folder / "socket")]
        control = subprocess.run(args, capture_output=True, text=True, timeout=60).stdout
        told = report(box, "--rw", folder, "--", *args)
    wanted = 5 if os.geteuid() == 0 else 3
    assert control.count("done") == wanted, f"control: outside they are reached: {control}"
    assert told["stdout"].count("refused") == 5, told


# ---- G-04, G-06: what runsc is started with ----

@contextlib.contextmanager
def running(box, *options):
    process = box.start(*options, "--", "sh", "-c", "echo ready; sleep 600", env={**NAMED, "RUNSC_FLAGS": "--network=sandbox"})
    try:
        assert process.stdout.readline() == b"ready\n"
        tasks = {}
        for pid in below(process.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                tasks.setdefault(words[0].decode(), pid)
        yield process, tasks
    finally:
        end(process)


def test_g06_brig_alone_says_how_runsc_is_started(box, folder):
    flags = {"-e": ["RUNSC_FLAGS=--platform=kvm", "GODEBUG=x", "GOTRACEBACK=crash"]}
    with running(box, *[x for v in flags["-e"] for x in ("-e", v)]) as (_, tasks):
        for name in ("runsc-gofer", "runsc-sandbox"):
            pid = tasks[name]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if os.geteuid() == 0:
                assert Path(f"/proc/{pid}/environ").read_bytes() == b"", name
            assert "--network=host" in words and "--host-uds=none" in words and "--platform=kvm" not in words
            assert not [w for w in words if "debug" in w or "strace" in w or "root=" in w.replace("setup-root=", "")], words
            status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
            assert (status["CapEff"], status["CapPrm"], status["NoNewPrivs"], status["Seccomp"]) == ("0" * 16, "0" * 16, "1", "2")
            assert "0" not in status["Uid"].split(), "G-04: never the host's root"


# ---- G-07: ends ----

@pytest.mark.builds
@pytest.mark.parametrize("victim", ["runsc-sandbox", "runsc-gofer", "brig"])
def test_g07_nothing_outlives_a_kill(box, victim):
    with running(box, "--timeout", "60s") as (process, tasks):
        everything = list(below(process.pid))
        # As an ordinary user the sandbox's processes are his; as root too.
        os.kill(process.pid if victim == "brig" else tasks[victim], signal.SIGKILL)
        if victim != "runsc-gofer":
            wait_for(lambda: process.poll() is not None, what="brig ends")
        else:
            end(process)
        wait_for(lambda: not [pid for pid in everything if (s := read_stat(pid)) and s[1] != "Z"], what="all are gone")
        if victim == "runsc-sandbox":
            # The code may speak before the Sentry has told that it began.
            assert process.returncode == 137
            assert re.search(rb"runsc ended before the code (began|did)\n", process.stderr.read())
    assert not [p for p in os.listdir("/tmp") if p.startswith("runsc")] and not Path("/var/run/runsc").exists()


# Who is killed, and what has just appeared when it is: brig's own processes and runsc's, from the first of them to the code's end.
VICTIMS = ("brig", "engine", "runsc-gofer", "runsc-sandbox")
STEPS = ("engine", "runsc-gofer", "runsc-sandbox", "code", "end")
SAMPLE = {("brig", "runsc-gofer"), ("engine", "runsc-sandbox"), ("runsc-gofer", "code"), ("runsc-sandbox", "end"), ("brig", "code")}
KILLS = [(v, s) for v in VICTIMS for s in STEPS if FULL or (v, s) in SAMPLE]


def parts(process):
    """The processes of a run that have a name: {name: pid}."""
    found = {"brig": process.pid}
    for pid in below(process.pid):
        with contextlib.suppress(OSError):
            word = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            found.setdefault("engine" if word == "/.brig-tool" else word, pid)
    return found


def inside(mark):
    """Every process that sees a folder of this name at a mount of its own: the sandbox's, whoever their parent is by now."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(pid)
    return found


def groups(pids):
    """Folders of brig's control groups that these processes are in."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                _, kind, where = line.split(":", 2)
                if "/brig-" in where:
                    found.add(f"/sys/fs/cgroup/{kind}{where}")
    return found


def reached(process, step, done):
    if step in ("code", "end"):
        return done[step] or process.poll() is not None
    return step in parts(process) or process.poll() is not None


@pytest.mark.parametrize("victim, step", KILLS)
def test_g07_a_kill_at_any_step_leaves_nothing(box, folder, state, victim, step):
    mark, env = folder.name, state(RUNSC)
    # Which platform works is known then: a trial that is killed is no run, and another platform is tried.
    assert run(box, "--", "true", env=env).returncode == 0
    process = box.start("--timeout", "60s", "--ro", f"{folder}:/opt/mark", "--", "sh", "-c", "echo code; sleep 0.5; echo end", env=env)
    done = {"code": False, "end": False}
    try:
        for word in ("code", "end")[:("code", "end").index(step) + 1 if step in done else 0]:
            done[word] = process.stdout.readline() == f"{word}\n".encode()
        wait_for(lambda: reached(process, step, done), what=f"the step {step}")
        there = parts(process)
        held = groups(there.values())
        if victim in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(there[victim], signal.SIGKILL)
        wait_for(lambda: process.poll() is not None, what="brig ends")
        wait_for(lambda: not inside(mark), what="nobody is left in the sandbox")
        wait_for(lambda: not [group for group in held if Path(group).exists()], what="its control groups are gone")
        if victim in there and victim != "brig" and step in ("engine", "runsc-gofer"):
            assert process.returncode != 0, "an engine that was killed is no success"
    finally:
        end(process)
    assert not Path("/var/run/runsc").exists() and not [p for p in os.listdir("/tmp") if p.startswith("runsc")]


def test_g07_the_search_finds_what_is_there(box, folder):
    """The control of the above: while the sandbox lives, its processes are found by the folder that they see."""
    with running(box, "--ro", f"{folder}:/opt/mark") as (_, tasks):
        assert {tasks["runsc-gofer"], tasks["runsc-sandbox"]} <= set(inside(folder.name))


# ---- the choice ----

def tiers(env):
    told = json.loads(subprocess.run([PUBLIC / "brig", "doctor", "--json"], capture_output=True, text=True, env=env).stdout)
    return {t["tier"]: t for t in told["tiers"]}


def test_a_wish_takes_it_where_it_can_be_had(box, folder):
    policy = folder / "policy.yaml"
    policy.write_text("kernel: {tier: [gvisor, container]}\n")
    policy.chmod(0o644)
    args = ["--policy", policy, "--", "true"]
    assert tiers(NAMED)["gvisor"]["available"]
    folder.chmod(0o755)
    os.chown(folder, box.uid, -1)
    os.chown(policy, box.uid, -1)
    assert plain(box).json(*args, env=NAMED)["tier"] == "gvisor"
    absent = {**os.environ, "BRIG_RUNSC": "/nonexistent"}
    assert not tiers(absent)["gvisor"]["available"] and re.search("runsc|nonexistent", tiers(absent)["gvisor"]["why"])
    assert plain(box).json(*args, env=absent)["tier"] == "container"


# ---- platforms ----

def doctor(box, env):
    told = json.loads(subprocess.run(box.outside(PUBLIC / "brig", "doctor", "--json"), capture_output=True, text=True, env=env, cwd="/", timeout=300).stdout)
    return next(t for t in told["tiers"] if t["tier"] == "gvisor")


@pytest.fixture
def state(box, folder):
    """A state folder of this caller's own, and the environment that names it and a runsc."""
    place = folder / "state"
    place.mkdir(mode=0o700)
    os.chown(place, box.uid, -1)
    folder.chmod(0o755)
    return lambda runsc: {**os.environ, "XDG_STATE_HOME": str(place), "BRIG_RUNSC": str(runsc)}


@pytest.fixture(scope="module")
def promising():
    """It says that it has systrap and has not; its ptrace works."""
    if b"platform/systrap" in Path(RUNSC).read_bytes():
        pytest.skip(f"{RUNSC} has systrap itself: /usr/bin/runsc of Debian 12 has not")
    path = PUBLIC / "promising"
    path.write_bytes(Path(RUNSC).read_bytes() + b"platform/systrap")
    path.chmod(0o755)
    return path


def test_doctor_tries_the_platforms(box, state, promising):
    for runsc, words in ((RUNSC, r"platform \w+ \(tried\)$"), (promising, r"platform ptrace \(tried\); systrap does not work: unknown platform: systrap$")):
        told = doctor(box, state(runsc))
        assert told["available"] and re.search(words, told["with"]), told


@pytest.mark.parametrize("box", CALLERS[-1:], ids=lambda caller: caller.name, indirect=True)
def test_a_run_uses_the_platform_that_works_and_tries_once(box, folder, state, promising):
    env, counts = state(promising), []
    for _ in range(2):
        told = box.json("--", "true", env=env)
        assert told["status"] == 0 and told["receipt"]["boundaries"]["kernel"]["runsc_platform"] == "ptrace", told
        counts.append((folder / "state/brig/gvisor/platform").stat().st_mtime_ns)
    assert counts[0] == counts[1], "what is known is not tried again"
    kept = folder / "state/brig/gvisor/platform"
    line = kept.read_text().split()
    assert line == [told["receipt"]["boundaries"]["kernel"]["runsc_sha256"], os.uname().release, "ptrace"]
    # Of another kernel, of another file, of no platform: tried anew. One of them is enough where time matters.
    for text in (f"{line[0]} 0.0 systrap\n", f"sha256:{'0' * 64} {line[1]} systrap\n", f"{line[0]} {line[1]} kvm\n")[:3 if FULL else 1]:
        kept.write_text(text)
        assert box.json("--", "true", env=env)["receipt"]["boundaries"]["kernel"]["runsc_platform"] == "ptrace"
        assert kept.read_text().split() == line, text
    kept.write_text(f"{line[0]} {line[1]} systrap\n")
    control = run(box, "--", "echo", "RAN", env=env)
    assert control.returncode == 137 and "booted" in control.stderr and "unknown platform" in control.stderr and not control.stdout, "control: what is kept is used"
    assert doctor(box, env)["available"] and kept.read_text().split() == line, "doctor sets it right"


@pytest.fixture(scope="module")
def nowhere():
    path = PUBLIC / "nowhere"
    subprocess.run(["cc", "-O1", "-w", "-static", "-o", path, SOURCES / "nowhere.c"], check=True, timeout=120)
    path.chmod(0o755)
    return path


def test_where_no_platform_works_it_is_refused_with_why(box, folder, state, nowhere):
    env = state(nowhere)
    result = run(box, "--", "echo", "RAN", env=env)
    assert result.returncode == REFUSED and "RAN" not in result.stdout, result
    assert "systrap: not on this ?host; ptrace: not on this ?host" in result.stderr and "brig doctor" in result.stderr, result
    told = doctor(box, env)
    assert not told["available"] and "systrap does not work: not on this" in told["why"] and "--tier container" in told["how"], told
    assert not (folder / "state/brig/gvisor/platform").exists(), "what fails is not kept"


@pytest.mark.skipif(not FULL, reason="waits for the time limit of a trial; BRIG_TEST_FULL=1")
def test_a_platform_that_hangs_is_given_up(box, state, standin):
    told = doctor(box, state(standin))
    assert not told["available"] and "does not start within 20s" in told["why"], told


# ---- the network ----

@pytest.mark.builds
@pytest.mark.parametrize("name", ["root", "user"])
def test_rules_hold_behind_the_sentry(name, lab, monkeypatch):
    """TCP and DNS go through the sandbox's own network to brig-proxy: by the proxy's address, and by the host's own name and port."""
    import netlab
    from labcaller import LabCaller
    monkeypatch.setenv("BRIG_RUNSC", RUNSC)
    box = LabCaller(name, "--tier", "gvisor", *WATCHED)
    watch = lab.watch()
    bare = "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy ALL_PROXY all_proxy; "
    told = box.json("--allow", "files.lab.test", "--", "bash", "-c",
                    f"curl -sS https://files.lab.test/; {bare} curl -sS http://files.lab.test/ https://files.lab.test/")
    assert told["stdout"] == "hello from nginx\n" * 3, told
    watch.only(netlab.NGINX, netlab.NGINX6)
    watch.again()
    told = box.json("--allow", "files.lab.test", "--", "bash", "-c",
                    f"curl -sS -m 30 https://evil.test/; {bare} curl -sS -m 30 http://evil.test/; curl -sSk -m 30 https://{netlab.EVIL}/; exit 7")
    assert told["exit_code"] == 7 and [d for d in told["denials"] if d["boundary"] == "network"], told
    watch.nothing()
    lab.run("curl", "-sSk", "-m", "30", f"https://{netlab.EVIL}/", env={"PATH": "/usr/bin:/bin"})
    assert watch.connections(netlab.EVIL), "control: without brig it is reached"
