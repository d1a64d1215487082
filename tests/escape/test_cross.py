"""X rows: the posture of every task as the host sees it, interpreters with full power, honest work, two tenants."""

import os
import secrets
import subprocess
import textwrap

import pytest

import hostview
from architecture import number
from escapelib import FENCE, PLACE, TIERS, cells, end_tree, outside, told


def running(cell, options=()):
    process = cell.start([PLACE.attack, "batch", "stubborn", "280"], options, json_out=False)
    told(process, "\nstubborn\n")
    return process, hostview.workload(process.pid, PLACE.attack)


@cells()
def test_X02_posture(cell):
    """Namespaces, identity, capabilities, filter, mounts and groups of every task, read from the host."""
    process, tasks = running(cell, ["-m", "128M", "--pids", "20"])
    try:
        assert tasks, "the harness saw no task of the sandbox"
        host = hostview.namespaces("self")
        init = [p for p in hostview.chain(tasks[0], process.pid)]
        for pid in tasks:
            state = hostview.status(pid)
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                # An ordinary user without a user namespace cannot empty the bounding set.
                exempt = name == "CapBnd" and cell.user == "user" and not cell.container
                assert exempt or int(state[name], 16) == 0, (pid, name, state[name])
            assert state["NoNewPrivs"] == "1" and state["Seccomp"] == "2", state
            uids, gids = set(state["Uid"].split()), set(state["Gid"].split())
            assert len(uids) == 1 and len(gids) == 1, (uids, gids)
            assert "0" not in uids | gids, f"runs with a host-root identity: {uids} {gids}"
            if cell.user == "user":
                assert not set(state["Groups"].split()) - {str(cell.host_uid), "65534"}, state["Groups"]
            else:
                assert "0" not in state["Groups"].split(), state["Groups"]
            assert set(hostview.descriptors(pid)) <= {0, 1, 2}, hostview.descriptors(pid)
            if cell.container:
                own = hostview.namespaces(pid)
                shared = {k for k in host if own[k] == host[k]}
                assert not shared, f"shares {shared} with the host"
                check_mounts(pid)
        for pid in init:
            state = hostview.status(pid)
            assert "0" not in state["Uid"].split(), f"init {pid} runs as host root"
            if hostview.namespaces(pid).get("user", host["user"]) == host["user"]:
                assert int(state["CapEff"], 16) == 0, f"helper {pid} holds host capabilities {state['CapEff']}"
        # Level low asks for no control group; its receipt says what holds instead.
        if cell.user == "root" and cell.level != "low" and FENCE.dirs:
            check_groups(tasks[0])
    finally:
        end_tree(process)


def check_mounts(pid):
    allowed_writable = ("/workspace", "/tmp", "/var/tmp", "/dev", "/home", "/proc", "/run", "/root")
    mounts = hostview.mounts(pid)
    points = {m["point"] for m in mounts}
    assert "/" in points and not any(p.startswith("/sys") for p in points), points
    for mount in mounts:
        writable = "rw" in mount["options"] and "ro" not in mount["super"]
        if writable:
            assert mount["point"].startswith(allowed_writable), f"writable: {mount}"
        if mount["point"] == "/":
            assert "ro" in mount["options"] or "ro" in mount["super"], f"the root is writable: {mount}"
        assert not any(o.startswith(("shared", "master")) for o in mount["optional"]), mount
        # A device comes in by itself, never the folder that has them all.
        single = mount["type"] == "devtmpfs" and mount["root"] != "/" and mount["point"] == "/dev" + mount["root"]
        assert single or mount["type"] not in ("sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "devtmpfs"), mount


def check_groups(pid):
    paths = {}
    for line in hostview.read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        paths[names] = path
    if "memory" in paths:
        memory = hostview.read(f"/sys/fs/cgroup/memory{paths['memory']}/memory.limit_in_bytes").strip()
        pids = hostview.read(f"/sys/fs/cgroup/pids{paths['pids']}/pids.max").strip()
    else:
        top = next(m["point"] for m in hostview.mounts() if m["type"] == "cgroup2")
        memory = hostview.read(f"{top}{paths['']}/memory.max").strip()
        pids = hostview.read(f"{top}{paths['']}/pids.max").strip()
    assert memory.isdigit() and int(memory) <= 160 << 20, f"memory limit {memory} in {paths}"
    assert pids != "max" and int(pids) <= 32, f"pids limit {pids}"


@cells()
def test_X03_an_interpreter_with_full_power(cell):
    """Native calls and child processes from Python meet the same refusals: nothing depends on the language."""
    canary = PLACE.folder("outside") / "token"
    canary.write_text("X03" + secrets.token_hex(4))
    code = textwrap.dedent(f"""
        import ctypes, os, subprocess
        libc = ctypes.CDLL(None, use_errno=True)
        def call(name, nr, *a):
            ctypes.set_errno(0)
            r = libc.syscall(nr, *a)
            print(name, 'OK' if r >= 0 else ctypes.get_errno())
        call('unshare', {number("unshare")}, 0x10000000)
        call('mount', {number("mount")}, b'none', b'/tmp', b'tmpfs', 0, 0)
        call('keyctl', {number("keyctl")}, 0, -3, 1)
        call('io_uring_setup', {number("io_uring_setup")}, 4, ctypes.create_string_buffer(120))
        call('bpf', {number("bpf")}, 0, ctypes.create_string_buffer(120), 120)
        call('ptrace_parent', {number("ptrace")}, 16, os.getppid(), 0, 0)
        call('packet', {number("socket")}, 17, 3, 0)
        for path in ({str(canary)!r}, '/etc/shadow', '/root/.bashrc'):
            try: print('READ', open(path).read()[:20])
            except OSError: pass
        for who in (print, str, int): who.__class__.__mro__
        p = subprocess.run(['/bin/sh', '-c', 'cat {canary} 2>/dev/null; id -u'], capture_output=True, text=True)
        print('SH', p.stdout)
    """)
    loud = outside("/usr/bin/python3", "-c", code).out
    assert "unshare OK" in loud and "READ X03" in loud, f"control: {loud}"
    answer = cell.run(["/usr/bin/python3", "-c", code], ["--timeout", "200s"]).json
    shown = answer["stdout"]
    assert "SH" in shown, answer["stderr"]
    through = [x for x in shown.splitlines() if x.endswith(" OK") or x.startswith("READ") or "X03" in x]
    assert not through, through


JOBS = {
    "python": (["/usr/bin/python3", "-c", "import json, re, hashlib, decimal, concurrent.futures as f, tempfile, sqlite3\n"
                "with f.ThreadPoolExecutor(4) as p: assert sum(p.map(lambda x: x*x, range(100))) == 328350\n"
                "d = tempfile.mkdtemp(); c = sqlite3.connect(d + '/x.db'); c.execute('create table t(a)');"
                "c.execute('insert into t values (42)'); c.commit(); print(c.execute('select a from t').fetchone()[0])"], "42"),
    "subprocesses": (["/bin/bash", "-c", "for i in 1 2 3; do (echo $i | tr 1 x | sed s/x/y/) & done; wait; echo done"], "done"),
    "multiprocessing": (["/usr/bin/python3", "-c", "import subprocess as s\nprint(sum(int(s.run(['echo', str(i)],"
                         "capture_output=True).stdout) for i in range(10)))"], "45"),
    "compile": (["/bin/sh", "-c", 'cd "${TMPDIR:-/tmp}" && printf \'#include <stdio.h>\\nint main(void){puts("built");}\' '
                 '> a.c && gcc -O1 a.c -o a && ./a'], "built"),
    "git": (["/bin/sh", "-c", 'cd "${TMPDIR:-/tmp}" && git init -q r && cd r && git config user.email a@b && '
             'git config user.name n && echo x > f && git add f && git commit -qm m && git log --oneline | wc -l'], "1"),
    "node": (["/usr/bin/node", "-e", "require('fs').writeFileSync((process.env.TMPDIR||'/tmp')+'/n','x');"
              "console.log([1,2,3].map(x=>x*2).join())"], "2,4,6"),
    "perl": (["/usr/bin/perl", "-e", 'print join(",", sort {$a <=> $b} (3,1,2)), "\\n"'], "1,2,3"),
    "large file": (["/bin/sh", "-c", 'cd "${TMPDIR:-/tmp}" && dd if=/dev/zero of=big bs=1M count=20 2>/dev/null && wc -c < big'],
                   "20971520"),
    "busybox": (["/usr/bin/busybox", "sh", "-c", "echo hi | busybox wc -c"], "3"),
}


@pytest.mark.parametrize("job", JOBS)
@cells(TIERS)
def test_X05_honest_work(cell, job):
    """Ordinary jobs pass under the default profile, so that refusing everything is no way to pass this suite."""
    command, expected = JOBS[job]
    if not os.path.exists(command[0]):
        pytest.skip(f"{command[0]} is not installed here")
    result = cell.run(command, ["--timeout", "280s"])
    answer = result.json
    assert result.rc == 0 and expected in answer["stdout"].strip().splitlines()[-1:], \
        f"rc {result.rc}: {answer['stdout']} {answer['stderr'][-800:]} {answer['denials']}"


@cells(TIERS)
def test_X05_code_by_standard_input(cell):
    argv = cell.argv(["end"], ["--lang", "python", "-"], json_out=False)[:-2]
    done = subprocess.run(argv, input=b"print(6*7)", capture_output=True, env=cell.env(), cwd=PLACE.base, timeout=300)
    assert done.returncode == 0 and done.stdout.strip() == b"42", done


@cells(TIERS)
def test_X06_two_tenants(cell):
    """Two sandboxes look for each other's mark at the same time, in files, names, tasks and memory objects."""
    marks = ["TENANT" + secrets.token_hex(6) for _ in range(2)]
    script = ('for d in /workspace /tmp /var/tmp /dev/shm "$HOME" "$TMPDIR"; do echo {0} > "$d/{0}"; done 2>/dev/null; '
              'export MARK={0}; {2} ipc make {0} >/dev/null; echo planted; read go; {2} search {1} | '
              'grep -v "/proc/.*cmdline"; grep -l {1} /proc/*/environ 2>/dev/null; echo searched; read go')
    both = [cell.start(["/bin/sh", "-c", script.format(a, b, PLACE.attack)], ["--output", "4M", "--timeout", "280s"],
                       json_out=False, stdin=subprocess.PIPE) for a, b in (marks, marks[::-1])]
    try:
        for process in both:
            told(process, "planted\n")
        for process in both:
            os.write(process.stdin.fileno(), b"go\n")
        for process in both:
            shown = told(process, "searched\n")
            assert "SEEN" in shown, shown
            hits = [x for x in shown.splitlines() if x.startswith(("FOUND", "/proc/"))]
            assert not hits, hits
    finally:
        for process in both:
            end_tree(process)
