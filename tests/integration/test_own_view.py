"""The view `own` of /proc: what free, nproc, uptime, node and Python read there is the sandbox's own, in `brig run --proc own` and in
every sandbox of the daemon, started or cloned. The control is the same program with `--proc system`, where it sees the machine."""
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from daemonlib import USERS, Daemon, program, wait_for
from users import USER_ID

MEMORY = 300 << 20
LIMITS = ("--memory", "300M", "--cpus", "0.5", "--sampling", "accept")
TEMPLATES = {name: f'{{"interpreter": {json.dumps(interpreter)}, "modules": {modules}, "pool": {{"min": 0, "max": 0}},'
             f' "policy": {{"lifecycle": {{"memory": "300M", "disk": "64M", "cpus": 0.5, "sampling": "accept"}}{more}}}}}'
             for name, interpreter, modules, more in [
                 ("cold.yaml", None, "[]", ""), ("warm.yaml", "python", '["json"]', ""),
                 ("machine.yaml", None, "[]", ', "filesystem": {"proc": "system"}'),
                 ("hidden.yaml", None, "[]", ', "filesystem": {"proc": "pid"}')]}
LOOK = r"""
import json, os, time
def read(path):
    try:
        return open(path).read()
    except OSError as e:
        return e.errno
names = ["meminfo", "uptime", "loadavg", "stat", "cpuinfo", "sys/kernel/random/boot_id", "version", "filesystems", "interrupts", "kallsyms"]
print(json.dumps({**{n: read("/proc/" + n) for n in names},
    "online": read("/sys/devices/system/cpu/online"), "possible": read("/sys/devices/system/cpu/possible"),
    "cpu_count": os.cpu_count(), "conf": os.sysconf("SC_NPROCESSORS_CONF"), "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
    "listed": sorted(os.listdir("/proc")), "env": dict(os.environ), "now": time.time(),
    "start": int(read("/proc/self/stat").rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")}))
"""


def run(user, *argv, view="own"):
    ids = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--"]
    as_user = ids if user == "user" and os.geteuid() == 0 else []
    said = subprocess.run([*as_user, program(), "run", "--proc", view, *LIMITS, "--", *argv], capture_output=True, text=True, timeout=300,
                          cwd="/", env={"PATH": os.environ["PATH"], "HOME": "/tmp"})
    assert said.returncode == 0, said
    return said.stdout


def kib(text, name):
    return int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.M)[1])


def host_uptime():
    return float(Path("/proc/uptime").read_text().split()[0])


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param, templates=TEMPLATES) as made:
        yield made


@pytest.fixture(params=["run", "cold", "warm"])
def place(request, daemon):
    """Somewhere to run a program: a run, a sandbox that was started, one that was cloned."""
    if request.param == "run":
        yield lambda *argv: run("root" if daemon.uid == 0 else "user", *argv)
        return
    box = daemon.create(request.param)

    def inside(*argv):
        said = box.run("/usr/bin/env", *argv)
        assert said.status == 0, said
        return said.out.decode()
    yield inside
    box.kill()


def test_python_sees_its_own(place):
    seen = json.loads(place("python3", "-c", LOOK))
    assert kib(seen["meminfo"], "MemTotal") == MEMORY // 1024
    assert 0 <= kib(seen["meminfo"], "MemFree") <= kib(seen["meminfo"], "MemAvailable") <= MEMORY // 1024
    assert seen["cpuinfo"].startswith("processor\t: 0\n") and len(re.findall(r"^processor\s", seen["cpuinfo"], re.M)) == 1
    assert seen["online"] == "0\n" and re.findall(r"^cpu\d+", seen["stat"], re.M) == ["cpu0"]
    assert seen["cpu_count"] in (1, os.cpu_count()), "the C library may ask the scheduler instead"
    assert seen["possible"] == Path("/sys/devices/system/cpu/possible").read_text(), "tables by the number of a CPU must be large enough"
    assert float(seen["uptime"].split()[0]) < 300 < host_uptime()
    assert abs(seen["boottime"] - float(seen["uptime"].split()[0])) < 5 and 0 <= seen["start"] <= seen["boottime"]
    assert abs(int(re.search(r"^btime (\d+)", seen["stat"], re.M)[1]) + seen["boottime"] - seen["now"]) < 10
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n", seen["sys/kernel/random/boot_id"])
    assert seen["sys/kernel/random/boot_id"] != Path("/proc/sys/kernel/random/boot_id").read_text()
    assert re.fullmatch(r"\d+\.\d\d \d+\.\d\d \d+\.\d\d \d+/\d+ \d+ *\n", seen["loadavg"])


def test_who_counts_cpus_counts_those_of_the_limit(place):
    """By the files, or by the environment where the scheduler is asked; where a program sets these itself, it has what it set."""
    if os.cpu_count() == 1:
        pytest.skip("a machine with one CPU has nothing to hide")
    told = place("sh", "-c", "nproc; echo $OMP_NUM_THREADS $GOMAXPROCS $PYTHON_CPU_COUNT; OMP_NUM_THREADS= nproc").split()
    assert told[:4] == ["1"] * 4, told
    assert told[4] == str(len(os.sched_getaffinity(0))), "nothing is pinned: docs/filesystem.md"


def test_nothing_else_of_the_kernel_is_shown(place):
    seen = json.loads(place("python3", "-c", LOOK))
    for name in ("version", "filesystems", "interrupts", "kallsyms"):
        assert not isinstance(seen[name], str) or seen[name] == "", name
    shown = json.loads(run("root" if os.geteuid() == 0 else "user", "python3", "-c", LOOK, view="system"))
    assert "Linux" in shown["version"], "the control"


@pytest.mark.parametrize("view, own", [("own", True), ("system", False)])
@pytest.mark.parametrize("user", USERS)
def test_programs(user, view, own):
    total = int(re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)[1])
    free = run(user, "free", "-k", view=view)
    assert (int(free.splitlines()[1].split()[1]) == (MEMORY // 1024 if own else total)), free
    assert (int(run(user, "nproc", view=view)) == (1 if own else os.cpu_count()))
    since = time.time() - time.mktime(time.strptime(run(user, "uptime", "-s", view=view).strip(), "%Y-%m-%d %H:%M:%S"))
    assert (since < 300) is own or host_uptime() < 300, since
    if shutil.which("node"):
        told = json.loads(run(user, "node", "-p", "const o=require('os');JSON.stringify([o.cpus().length,o.totalmem(),o.uptime()])", view=view))
        assert (told[0] == 1) is own or os.cpu_count() == 1
        assert (told[1] == MEMORY) is own, told
        assert (told[2] < 300) is own or host_uptime() < 300, told
    if own:
        # ps cuts a part off the time since boot: to it, who started in the same hundredth of a second may be 2^32 s old.
        age = run(user, "sh", "-c", "sleep 0.1; exec ps -o etimes= -p $$", view=view)
        assert 0 <= int(age) < 300, "start times and the time since boot are of one clock"


def test_psutil(place):
    told = json.loads(place("python3", "-c", "import psutil, json\nm = psutil.virtual_memory()\n"
                            "print(json.dumps([m.total, m.available, psutil.boot_time(), psutil.cpu_times().idle]))"))
    assert told[0] == MEMORY and 0 <= told[1] <= MEMORY and time.time() - told[2] < 600


def test_numbers_change_while_it_runs(place):
    """Memory that is taken shows within the time of a few looks."""
    out = place("python3", "-c", """
import re, time
def available(): return int(re.search(r"MemAvailable:\\s+(\\d+)", open("/proc/meminfo").read())[1])
room = None
before, end = available(), time.monotonic() + 120
hold = bytearray(100 << 20)
for i in range(0, len(hold), 4096): hold[i] = 1
while available() > before - (80 << 10) and time.monotonic() < end: time.sleep(0.1)
print(before - available())""")
    assert int(out) >= 80 << 10, out


def test_they_cannot_be_changed_from_inside(place):
    out = place("python3", "-c", """
import os, ctypes, fcntl
def refused(fn, *args):
    try: fn(*args)
    except OSError: return True
libc = ctypes.CDLL(None, use_errno=True)
for name in ("meminfo", "stat", "loadavg", "cpuinfo", "sys/kernel/random/boot_id"):
    path = "/proc/" + name
    fd = os.open(path, os.O_RDONLY)
    assert refused(os.open, path, os.O_WRONLY) and refused(os.open, path, os.O_RDWR), name
    assert refused(os.chmod, path, 0o666) and refused(os.fchmod, fd, 0o666) and refused(os.unlink, path), name
    assert refused(os.truncate, path, 0) and refused(os.ftruncate, fd, 0), name
    assert refused(os.open, f"/proc/self/fd/{fd}", os.O_WRONLY), name
    assert refused(os.rename, path, "/tmp/x") and libc.umount2(path.encode(), 2) == -1, name
assert refused(os.open, "/sys/devices/system/cpu/online", os.O_WRONLY)
print("good")""")
    assert out == "good\n"


def test_each_sandbox_has_its_own(daemon):
    """Clones of one warm process: boot id, uptime, and what one uses is not the other's."""
    first, second = daemon.create("warm"), daemon.create("warm")
    ids = {b.sh("cat /proc/sys/kernel/random/boot_id").out for b in (first, second)}
    assert len(ids) == 2, ids
    if os.path.exists("/proc/sys/kernel/ns_last_pid"):
        assert any("True" in json.dumps(line) for line in first.execute("import os; os.getpid() >= 300")), "it is no clone"
    code = "import re; re.search(r'MemTotal:\\s+(\\d+)', open('/proc/meminfo').read())[1]"
    assert any(str(MEMORY // 1024) in json.dumps(line) for line in first.execute(code)), "the interpreter itself, not only what it starts"
    up = [line for line in first.execute("float(open('/proc/uptime').read().split()[0]) < 300") if "True" in json.dumps(line)]
    assert up, "a clone does not have the time of the process that it was cloned from"
    for box in (first, second):
        box.kill()
    wait_for(lambda: not daemon.live(), 60, "no sandbox is left over")


def test_a_template_may_say_otherwise(daemon):
    box = daemon.create("hidden")
    assert "cpuinfo" not in str(box.sh("ls /proc").out)
    box.kill()
    box = daemon.create("machine")
    total = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)[1]
    assert total in str(box.sh("cat /proc/meminfo").out), "the control"
    box.kill()
