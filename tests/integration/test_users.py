"""Root and ordinary user, both tiers, with and without cgroups: what matters, in every combination.

Each attack has its control: the same thing done outside succeeds.
"""
import itertools
import os
import socket
import subprocess
from pathlib import Path

import pytest

from helpers import CALLERS, IS_ROOT, NO_CGROUP, PUBLIC, TIERS, USER, WATCHED, end, find_below, read_stat, remove_group, status_fields, wait_for

CGROUPS = {"cgroup": [], "no-cgroup": NO_CGROUP}


@pytest.fixture(params=itertools.product(CALLERS, TIERS, CGROUPS), ids=lambda p: f"{p[0].name}-{p[1]}-{p[2]}")
def each(request):
    caller, tier, cgroup = request.param
    return caller.with_options("--tier", tier, "-q", *CGROUPS[cgroup])


def python(box, code):
    return box.json("--", "python3", "-c", code)


def test_a_program_runs_and_its_status_comes_out(each):
    told = each.json("--", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (told["stdout"], told["stderr"], told["status"]) == ("out\n", "err\n", 9)


def test_the_receipt_names_the_mechanism(each):
    life = each.json("--", "true")["receipt"]["boundaries"]["lifecycle"]
    if NO_CGROUP[0] in each.options:
        assert life["cgroup"] == "none" and "by cgroup" not in str(life)
    elif each.name == "root":
        assert life["cgroup"] in ("v1", "v2") and "cgroup" in life["memory"]


def test_no_process_has_root_or_a_capability(each):
    brig = each.start("--", "sleep", "1000")
    try:
        code = find_below(brig.pid, "sleep")
        for pid in (code, find_below(brig.pid, "brig-init")):
            status = status_fields(pid)
            assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split()
            assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
            assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    finally:
        end(brig)


def test_files_of_the_caller_are_out_of_reach(each):
    folder = subprocess.check_output(each.outside("mktemp", "-d", "/var/tmp/test-brig.XXXXXX"), text=True).strip()
    secret = Path(folder) / "secret"
    try:
        secret.write_text("treasure")
        os.chown(secret, each.uid, -1)
        assert subprocess.check_output(each.outside("cat", secret)) == b"treasure"
        told = each.json("--", "sh", "-c", f"cat {secret}; ls {folder}; echo > {folder}/planted")
        assert "treasure" not in told["stdout"] and os.listdir(folder) == ["secret"], told
    finally:
        secret.unlink()
        os.rmdir(folder)


def test_other_processes_are_out_of_reach(each):
    victim = subprocess.Popen(each.outside("sleep", "1000"))
    try:
        wait_for(lambda: read_stat(victim.pid)[0] == "sleep", what="it is the caller's")
        told = python(each, f"import os\ntry: os.kill({victim.pid}, 15); print('sent')\nexcept OSError as e: print(e.errno)")
        assert told["stdout"] in ("1\n", "3\n"), told
        told = python(each, f"print(open('/proc/{victim.pid}/environ').read())")
        assert told["exit_code"] == 1
        assert victim.poll() is None
    finally:
        subprocess.run(each.outside("kill", "-TERM", str(victim.pid)), check=True)  # the control
        assert victim.wait(60) == -15


def test_no_way_to_the_network(each):
    listener = subprocess.Popen(
        ["/usr/bin/python3", "-c", "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\nwhile True: s.accept()"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        port = listener.stdout.readline().strip()
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 60); print('connected')"
        assert subprocess.check_output(each.outside("/usr/bin/python3", "-c", code)) == b"connected\n"
        told = python(each, code)
        assert "connected" not in told["stdout"] and told["exit_code"] == 1, told
    finally:
        end(listener)


def test_no_abstract_socket_of_the_host(each):
    name = f"test-brig-{os.getpid()}"
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print('connected')"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        assert subprocess.check_output(each.outside("/usr/bin/python3", "-c", code)) == b"connected\n"
        assert "connected" not in python(each, code)["stdout"]


def test_set_uid_programs_gain_nothing(each):
    told = each.json("--", "sh", "-c", "su -c id root </dev/null; id -u")
    assert told["stdout"].strip().splitlines()[-1] != "0" and "uid=0" not in told["stdout"]


def test_memory_and_processes_are_limited(each):
    told = each.json("-m", "64M", *WATCHED, "--", "python3", "-c", "b = []\nwhile True: b.append(bytearray(1 << 20))")
    assert told["limit_hit"] == "memory" or "MemoryError" in told["stderr"], told
    told = python(each.with_options("--pids", "10", *WATCHED), "import os, time\nfor i in range(30):\n  if os.fork() == 0: time.sleep(1000)")
    assert "BlockingIOError" in told["stderr"], told


def test_time_is_limited_and_the_stragglers_go(each):
    assert each.run("--timeout", "400ms", "--", "sh", "-c", "(setsid sleep 60 &); sleep 60").returncode == 124


def test_the_workspace_is_private_and_writable(each):
    told = each.json("--", "sh", "-c", 'cd "${TMPDIR:-/workspace}" && echo x > f && cat f && ls -A | wc -l')
    assert told["stdout"] == "x\n1\n", told


def test_two_sandboxes_do_not_meet(each):
    first = each.start("--", "sh", "-c", 'echo mine > "${TMPDIR:-/tmp}/f"; echo "${TMPDIR:-/tmp}/f" $$; sleep 1000')
    try:
        place, pid = first.stdout.readline().decode().split()
        host_pid = find_below(first.pid, "sleep")
        told = each.json("--", "sh", "-c", f"cat {place}; kill -9 {host_pid}")
        assert "mine" not in told["stdout"], told
        assert first.poll() is None and find_below(first.pid, "sleep") == host_pid and pid
    finally:
        end(first)


@pytest.mark.skipif(not IS_ROOT, reason="needs another user")
def test_a_delegated_cgroup_is_used():
    """v1: an ordinary user in folders that are theirs, as some batch systems lay them out."""
    made = []
    try:
        for controller in ("memory", "pids", "cpu", "cpuacct"):
            own = next(line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if controller in line.split(":")[1].split(","))
            folder = Path(f"/sys/fs/cgroup/{controller}{own}") / f"test-brig-{os.getpid()}"
            folder.mkdir()
            made.append(folder)
            os.chown(folder, USER.uid, USER.uid)
            for name in ("cgroup.procs", "tasks"):
                os.chown(folder / name, USER.uid, USER.uid)
    except (StopIteration, OSError) as error:
        for folder in made:
            folder.rmdir()
        pytest.skip(f"no cgroup v1 here: {error}")
    try:
        join = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in made)
        command = " ".join(f"'{word}'" for word in USER.command("--json", "-m", "64M", "--", "true"))
        result = subprocess.run(["sh", "-c", f"{join} && exec {command}"], capture_output=True, text=True, timeout=300)
        assert '"cgroup":"v1"' in result.stdout, result
        assert not list(made[0].glob("brig-*"))
    finally:
        for folder in made:
            remove_group(folder)


def test_the_public_copy_is_the_program_under_test():
    assert (PUBLIC / "brig").read_bytes() == Path(os.environ.get("BRIG", Path(__file__).resolve().parents[2] / "build/brig")).read_bytes()
