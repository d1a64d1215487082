"""Every limit ends in its field, with and without cgroups; each has a control that stays below it."""
import os
import subprocess
import time
from pathlib import Path

import pytest

from helpers import CALLERS, IS_ROOT, NO_CGROUP, PUBLIC, TIERS, WATCHED, below, end, find_below, wait_for

PYTHON = ["--", "python3", "-c"]
CGROUP = {"cgroup": [], "sampled": NO_CGROUP}


# Root has cgroups; an ordinary user has them only where somebody gave a subtree away.
CASES = [(c, t, "cgroup" if c.name == "root" else "sampled") for c in CALLERS for t in TIERS]


def case_id(case):
    return "-".join([case[0].name, *case[1:]])


# What is only there with namespaces: no other is drawn for it.
NAMESPACED = pytest.mark.parametrize("limited", [case for case in CASES if case[1] == "container"], ids=case_id, indirect=True)


@pytest.fixture(params=CASES, ids=case_id)
def limited(request):
    caller, tier, cgroup = request.param
    return caller.with_options("--tier", tier, "-q", *WATCHED, *CGROUP[cgroup])


def hit(told, name, **fields):
    assert told["limit_hit"] == name, told
    for field in ("timed_out", "oom_killed"):
        assert told[field] is fields.get(field, False), told


def not_hit(told):
    assert told["status"] == 0, told
    hit(told, None)


def stayed(run):
    """What run(seconds) tells, where the code stays for so long at what a sampler has to see. On a busy machine the sampler
    may come late: then the code stays longer."""
    for seconds in (0.5, 5, 50):
        told = run(seconds)
        if told["limit_hit"]:
            break
    return told


# ---- memory ----

HEAP = "b = []\nfor i in range({}): b.append(bytearray(1 << 20))"


def refused_or_killed(told):
    """A sampled limit may show as an allocation that fails: then the code has its own status."""
    if told["limit_hit"] is None:
        assert told["exit_code"] == 1 and "MemoryError" in told["stderr"], told
        assert "sampling" in told["receipt"]["boundaries"]["lifecycle"]["memory"]
    else:
        hit(told, "memory", oom_killed=True)


def test_memory_of_the_heap(limited):
    told = limited.json("-m", "64M", *PYTHON, HEAP.format(200))
    if told["status"] == 0 and "sampling" in told["receipt"]["boundaries"]["lifecycle"]["memory"]:
        # What comes and goes between two looks is not promised to be seen.
        told = stayed(lambda seconds: limited.json("-m", "64M", *PYTHON, HEAP.format(200) + f"\nimport time; time.sleep({seconds})"))
    refused_or_killed(told)
    not_hit(limited.json("-m", "64M", *PYTHON, HEAP.format(20)))


def test_memory_of_many_processes_together(limited):
    code = "import os, time\nfor i in range(6):\n  if os.fork() == 0:\n    b = bytearray({} << 20); time.sleep({}); os._exit(0)\nwhile True:\n  try: os.wait()\n  except ChildProcessError: break"
    told = limited.json("-m", "100M", *PYTHON, code.format(30, 60))
    assert told["limit_hit"] == "memory" and told["oom_killed"], told
    not_hit(limited.json("-m", "100M", *PYTHON, code.format(3, 0.5)))


MEMFD = "import os, time\nfd = os.memfd_create('x')\nfor i in range({}): os.write(fd, b'x' * (1 << 20))\ntime.sleep(0.3)"


def test_memory_of_memfd(limited):
    told = limited.json("-m", "64M", *PYTHON, MEMFD.format(200))
    if "sampling" in told["receipt"]["boundaries"]["lifecycle"]["memory"]:
        # Nobody outside can count it there, so that the kernel seems not to have it.
        assert told["exit_code"] == 1 and "Function not implemented" in told["stderr"], told
        return
    hit(told, "memory", oom_killed=True)
    not_hit(limited.json("-m", "64M", *PYTHON, MEMFD.format(20)))


@NAMESPACED
def test_memory_of_the_workspace(limited):
    """Of the process tier it is a folder of the host's disk, not memory."""
    code = "import time\nwith open('/tmp/x', 'wb') as f:\n  for i in range({}): f.write(b'x' * (1 << 20))\n  f.flush(); time.sleep({})"
    hit(limited.json("-m", "64M", "--disk", "300M", *PYTHON, code.format(200, 60)), "memory", oom_killed=True)
    not_hit(limited.json("-m", "64M", "--disk", "300M", *PYTHON, code.format(20, 0.3)))


# ---- processes and CPU ----

FORKS = "import os, time\nn = 0\ntry:\n  for i in range({}):\n    if os.fork() == 0: time.sleep(600); os._exit(0)\n    n += 1\nexcept OSError as e: print(e.errno, n, flush=True)\ntime.sleep({})"


def test_processes(limited):
    told = stayed(lambda seconds: limited.json("--pids", "20", *PYTHON, FORKS.format(60, seconds)))
    hit(told, "pids")
    error, made = told["stdout"].split()
    assert error == "11" and int(made) <= 20, told
    not_hit(limited.json("--pids", "20", *PYTHON, FORKS.format(5, 0.5)))


def test_a_fork_bomb_ends_and_neighbours_live(limited):
    neighbour = limited.start("--", "sleep", "4")
    began = time.monotonic()
    told = limited.json("--pids", "64", "-m", "128M", "--timeout", "1s", "--", "bash", "-c", ":(){ :|:& };:; sleep 600")
    assert time.monotonic() - began < 60
    assert told["limit_hit"] in ("pids", "timeout", "memory"), told
    assert neighbour.wait(300) == 0
    neighbour.communicate()


def periods_of(pid):
    """(periods in which the control group of this process ran, those in which it was held back)"""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for place in (names, ""):
            stat = Path(f"/sys/fs/cgroup/{place}{path}/cpu.stat")
            if stat.exists() and "nr_periods" in stat.read_text():
                told = dict(line.split() for line in stat.read_text().splitlines())
                return int(told["nr_periods"]), int(told["nr_throttled"])
    raise AssertionError(f"{pid} has no share of a CPU")


def test_a_share_of_a_cpu():
    brig = CALLERS[0].with_options("-q")
    spin = "import time\nwhile time.process_time() < 0.6: pass"
    quarter = brig.json("--cpus", "0.25", *PYTHON, spin)
    if "cgroup" not in quarter["receipt"]["boundaries"]["lifecycle"]["cpus_milli"]:
        pytest.skip("no cpu controller, and the receipt says so")
    assert quarter["duration_ms"] > 0.75 * 600 / 0.25, quarter
    # How long a whole CPU takes depends on who else wants it: the control is that its share does not hold the code back.
    whole = brig.start("--cpus", "1", *PYTHON, spin + "\nprint('spun', flush=True)\ninput()", stdin=subprocess.PIPE)
    try:
        assert whole.stdout.readline() == b"spun\n"
        periods, throttled = periods_of(find_below(whole.pid, "python3"))
        assert periods > 0 and throttled < 0.3 * periods, f"held back in {throttled} of {periods} periods"
    finally:
        end(whole)


def test_cpu_time(limited):
    told = limited.json("--cpu-time", "500ms", *PYTHON, "while True: pass")
    hit(told, "cpu_time", timed_out=True)
    assert told["status"] == 124 and 400 <= told["cpu_ms"] < 2500
    not_hit(limited.json("--cpu-time", "2s", *PYTHON, "import time; time.sleep(0.7)"))


def test_cpu_time_of_many_short_processes(limited):
    code = "import os\nwhile True:\n  if os.fork() == 0:\n    for i in range(300000): pass\n    os._exit(0)\n  os.wait()"
    told = limited.json("--cpu-time", "700ms", *PYTHON, code)
    hit(told, "cpu_time", timed_out=True)


# A path that takes brig-proxy far longer to judge than the code to send.
COSTLY = """import socket
path, left = "/" + "%2541" * 3200, {}
while left:
    with socket.create_connection(("127.0.0.1", 3128)) as s, s.makefile("rb") as answers:
        line = b"+"
        while left and line:
            left -= 1
            s.sendall(f"GET http://x.test{{path}} HTTP/1.1\\r\\nHost: x.test\\r\\n\\r\\n".encode())
            line, length = answers.readline(), 0
            while (head := answers.readline().strip().lower()):
                length = int(head[15:]) if head.startswith(b"content-length:") else length
            answers.read(length)
"""


@NAMESPACED
def test_cpu_time_that_brig_proxy_takes_for_the_code(limited):
    """LC-11: it is on the account of the code. (On the process tier the code would need brig-proxy's address; the account is the same.)"""
    rules = ["--allow", "http://x.test/pub/**"]
    few = limited.json(*rules, "--cpu-time", "60s", *PYTHON, COSTLY.format(300))
    not_hit(few)
    usage = few["receipt"]["usage"]
    assert usage["cpu_usec"] > usage["cpu_beside_usec"] > usage["cpu_usec"] / 2, f"control: most of it is the proxy's: {usage}"
    told = limited.json(*rules, "--cpu-time", "1s", *PYTHON, COSTLY.format(1000000))
    hit(told, "cpu_time", timed_out=True)
    usage = told["receipt"]["usage"]
    assert usage["cpu_usec"] - usage["cpu_beside_usec"] < 900000, f"the code alone is below its limit: {usage}"


# A question is sent by one call with many others, and answered by two.
NAMES_ASKED = """import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 53))
end = time.monotonic() + {}
while time.monotonic() < end:
    s.send(b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x07example\\x03org\\0\\0\\x01\\0\\x01")
"""


@NAMESPACED
def test_cpu_time_of_names_that_are_asked_for(limited):
    """LC-11: without network rules the supervisor answers them, and that is on the account of the code. (On the process tier nobody does.)"""
    asked = limited.json(*PYTHON, NAMES_ASKED.format(1))
    not_hit(asked)
    usage = asked["receipt"]["usage"]
    assert usage["cpu_beside_usec"] > usage["cpu_usec"] / 20, usage
    quiet = limited.json(*PYTHON, "for i in range(3000000): pass")["receipt"]["usage"]
    assert quiet["cpu_beside_usec"] == 0, f"control: {quiet}"


# One such request, of a program that has ended before anybody looked at what it uses.
BRIEF = """exec 3<>/dev/tcp/127.0.0.1/3128
{ printf 'GET http://x.test/'; printf '%%2541%.0s' {1..3000}; printf ' HTTP/1.1\\r\\nHost: x.test\\r\\n\\r\\n'; } >&3
read -r line <&3; echo "$line" >&2"""


def test_cpu_time_that_brig_proxy_takes_for_code_that_ends_at_once():
    """LC-11: what it did before the first look at it is on the account, too."""
    brig = CALLERS[0].with_options("--tier", "container", "-q", *WATCHED)
    told = brig.json("--allow", "http://x.test/pub/**", "--", "bash", "-c", BRIEF)
    not_hit(told)
    assert " 403 " in told["stderr"], "control: brig-proxy judged it"
    assert told["receipt"]["usage"]["cpu_beside_usec"] > 0, told["receipt"]["usage"]


@pytest.mark.parametrize("share", [0.25, 1])
def test_brig_proxy_has_the_share_of_its_sandbox(share):
    """LC-12: with or without a cgroup. A whole processor is the control."""
    brig = CALLERS[0].with_options("--tier", "container", "-q", *WATCHED, *NO_CGROUP)
    told = brig.json("--cpus", str(share), "--allow", "http://x.test/pub/**", "--timeout", "6s", *PYTHON, COSTLY.format(1000000))
    hit(told, "timeout", timed_out=True)
    used, wall = told["receipt"]["usage"]["cpu_beside_usec"] / 1e6, told["duration_ms"] / 1e3
    if share < 1:
        assert used < share * wall + 0.7, f"{used} s of {wall} s"
    else:
        assert used > 2.2 or os.getloadavg()[0] > 2 * os.cpu_count(), f"the control: {used} s of {wall} s"


def test_timeout(limited):
    began = time.monotonic()
    told = limited.json("--timeout", "700ms", "--", "sleep", "600")
    assert time.monotonic() - began < 60
    hit(told, "timeout", timed_out=True)
    assert told["status"] == 124
    not_hit(limited.json("--timeout", "60s", "--", "sleep", "0.2"))


def test_a_timeout_reaches_what_ignores_signals(limited):
    code = "import os, signal, time\nfor s in range(1, 32):\n  if s not in (9, 19): signal.signal(s, signal.SIG_IGN)\nfor i in range(5):\n  if os.fork() == 0: os.setsid(); break\ntime.sleep(600)"
    began = time.monotonic()
    hit(limited.json("--timeout", "700ms", *PYTHON, code), "timeout", timed_out=True)
    assert time.monotonic() - began < 60


# ---- output, disk, descriptors ----

def test_output(limited):
    told = limited.json("--output", "10K", "--", "sh", "-c", "head -c 50000 /dev/zero | tr '\\0' x; echo end >&2")
    hit(told, "output")
    assert told["stdout"] == "x" * 10240 and told["stdout_truncated"] and not told["stderr_truncated"]
    assert told["stderr"] == "end\n" and told["exit_code"] == 0
    told = limited.json("--output", "10K", "--", "sh", "-c", "head -c 10240 /dev/zero | tr '\\0' x")
    not_hit(told)
    assert len(told["stdout"]) == 10240 and not told["stdout_truncated"]


def test_output_flood_while_streaming(limited):
    for seconds in (2, 20, 200):  # a busy machine may need longer for the first megabyte
        result = limited.run("--output", "1M", "--timeout", f"{seconds}s", "--", "sh", "-c", "yes; yes >&2", text=False,
                             timeout=600)
        assert result.returncode == 124
        if len(result.stdout) >= 1 << 20:
            break
    assert len(result.stdout) == 1 << 20


FILL = "import os, time\np = os.environ.get('TMPDIR', '/tmp') + '/x'\ntry:\n  with open(p, 'wb', 0) as f:\n    for i in range({}): f.write(b'x' * (1 << 20))\nexcept OSError as e: print(e.errno)\ntime.sleep({})"


def test_disk(limited):
    told = stayed(lambda seconds: limited.json("--disk", "8M", *PYTHON, FILL.format(30, seconds)))
    hit(told, "disk")
    assert told["stdout"] in ("28\n", "27\n", ""), told
    not_hit(limited.json("--disk", "8M", *PYTHON, FILL.format(3, 0.5)))


def test_disk_in_many_files(limited):
    code = "import os, time\nd = os.environ.get('TMPDIR', '/tmp')\ntry:\n  for i in range({}):\n    with open(f'{{d}}/{{i}}', 'wb', 0) as f: f.write(b'x' * (1 << 20))\nexcept OSError as e: print(e.errno)\ntime.sleep({})"
    hit(stayed(lambda seconds: limited.json("--disk", "8M", *PYTHON, code.format(30, seconds))), "disk")
    not_hit(limited.json("--disk", "8M", *PYTHON, code.format(3, 0.5)))


def test_inodes(limited):
    code = "import os, time\nd = os.environ.get('TMPDIR', '/tmp')\ntry:\n  for i in range({}): open(f'{{d}}/{{i}}', 'w').close()\nexcept OSError as e: print(e.errno)\ntime.sleep({})"
    hit(stayed(lambda seconds: limited.json("--inodes", "100", *PYTHON, code.format(500, seconds))), "inodes")
    not_hit(limited.json("--inodes", "100", *PYTHON, code.format(20, 0.5)))


def test_open_files(limited):
    code = "import os, time\nf = []\ntry:\n  for i in range({}): f.append(open('/dev/null'))\nexcept OSError as e: print(e.errno)\ntime.sleep({})"
    told = stayed(lambda seconds: limited.json("--open-files", "50", *PYTHON, code.format(100, seconds)))
    hit(told, "open_files")
    assert told["stdout"] == "24\n"
    not_hit(limited.json("--open-files", "50", *PYTHON, code.format(10, 0.5)))


# ---- the host ----

def test_pipes_do_not_eat_the_hosts_memory(limited):
    code = "import os, fcntl\np = []\ntry:\n  while True:\n    r, w = os.pipe(); p.append((r, w)); fcntl.fcntl(w, 1031, 1 << 20); os.set_blocking(w, False); os.write(w, b'x' * (1 << 20))\nexcept OSError as e: print(e.errno)"
    told = limited.json("-m", "64M", "--open-files", "4096", *PYTHON, code)
    assert told["limit_hit"] in ("memory", "open_files", None), told
    assert told["status"] != 125


def test_page_tables_count_as_memory():
    brig = CALLERS[0].with_options("-q", "--timeout", "280s")
    code = "import mmap\nm = mmap.mmap(-1, 200 << 30, flags=mmap.MAP_PRIVATE | 0x4000 | mmap.MAP_ANONYMOUS)\nfor i in range(0, 200 << 30, 2 << 20): m[i]"
    told = brig.json("-m", "64M", *PYTHON, code)
    assert told["oom_killed"] and told["limit_hit"] == "memory", told


@pytest.mark.skipif(not IS_ROOT, reason="needs a mount")
def test_what_others_keep_in_a_tmpfs_is_not_counted():
    """/run hides behind a tmpfs that holds the program, then /tmp behind one that is nearly full."""
    command = " ".join(CALLERS[0].command("--tier", "process", "-q", "--json", "-m", "64M", *NO_CGROUP, "--", "sleep", "0.3"))
    script = f"""mount -t tmpfs t /run && cp -r {PUBLIC} /run/public && mount -t tmpfs t /tmp && fallocate -l 100M /tmp/others &&
        exec {command.replace(str(PUBLIC), "/run/public")}"""
    result = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and '"limit_hit":null' in result.stdout, result


def test_the_host_stays_responsive():
    brig = CALLERS[-1].with_options("-q", *WATCHED)
    bomb = brig.start("--timeout", "280s", "--pids", "100", "--", "bash", "-c", ":(){ :|:& };:; while :; do :; done")
    try:
        wait_for(lambda: len(below(bomb.pid)) > 50, what="the bomb goes off")
        began = time.monotonic()
        assert subprocess.run(["true"]).returncode == 0
        assert CALLERS[-1].run("--", "true").returncode == 0
        assert time.monotonic() - began < 60
    finally:
        end(bomb)
    assert os.getloadavg()
