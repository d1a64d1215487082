"""`brig run`: what comes out, what the result says, and whether it is true."""
import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from helpers import INSTALLERS, IS_ROOT, PUBLIC, ROOT, SANITIZED, end

SH = ["--", "sh", "-c"]


# ---- exit status ----

@pytest.mark.parametrize("status", [0, 1, 42, 125, 255])
def test_the_commands_own_status(box, status):
    assert box.run(*SH, f"exit {status}").returncode == status


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_a_signal(box, number):
    told = box.json(*SH, f"kill -{int(number)} $$; sleep 5")
    assert (told["status"], told["exit_code"], told["signal"]) == (128 + number, None, number)


def test_no_crash_goes_to_a_program_of_the_host(box):
    """With any limit of core files but one byte the kernel starts what kernel.core_pattern names, as root of the host, for each crash
    (tests/integration/vm/guest.sh lets it, with a control). A limit of none, which everybody may set, is among these."""
    changes = "import resource as r\nfor to in (0, 0), (0, 1):\n r.setrlimit(r.RLIMIT_CORE, to)\nprint(r.getrlimit(r.RLIMIT_CORE))"
    for command in (["--", "python3", "-c", changes], [*SH, f"ulimit -S -c 0; ulimit -c 0; exec python3 -c '{changes}'"]):
        assert box.run(*command).stdout == "(1, 1)\n"
    control = subprocess.run(["sh", "-c", "ulimit -S -c 0; grep '^Max core' /proc/self/limits"], capture_output=True, text=True)
    assert control.stdout.split()[4] == "0", "outside it can be set"


def test_a_time_limit_is_124(box):
    assert box.run("--timeout", "300ms", "--", "sleep", "30").returncode == 124


def test_a_refusal_is_125_and_nothing_ran(box):
    result = box.run("--ro", "/no/such/folder", *SH, "echo RAN")
    assert result.returncode == 125 and "RAN" not in result.stdout


@pytest.mark.parametrize("command", ["/usr", "/etc/passwd"])
def test_what_cannot_be_executed_is_126(box, command):
    result = box.run("--", command)
    assert result.returncode == 126 and command in result.stderr


@pytest.mark.parametrize("command", ["no-such-command", "/usr/bin/no-such-command"])
def test_what_does_not_exist_is_127(box, command):
    result = box.run("--", command)
    assert result.returncode == 127 and command in result.stderr


# ---- streams ----

def test_input_and_both_outputs_pass_through(box):
    result = box.run(*SH, "cat; echo to-stderr >&2", input="line\n")
    assert (result.stdout, result.stderr) == ("line\n", "to-stderr\n")


def test_every_byte_passes_in_both_directions(box):
    data = bytes(range(256)) * 4096 + os.urandom(1 << 20)
    result = box.run("--", "cat", input=data, text=False)
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


def test_large_output_streams_while_it_is_made(box):
    result = box.run("--output", "unlimited", *SH, "head -c 60000000 /dev/zero", text=False)
    assert result.returncode == 0 and len(result.stdout) == 60000000


def test_output_arrives_before_the_end(box):
    process = box.start(*SH, "echo first; cat; echo last", stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"first\n"
        process.stdin.close()
        assert process.stdout.read() == b"last\n"
    finally:
        process.stdin = None
        end(process)


def test_a_slow_reader_loses_nothing(box):
    process = box.start(*SH, "head -c 150000 /dev/zero")
    time.sleep(1.5)
    assert len(process.communicate()[0]) == 150000


def test_a_reader_that_goes_away_does_not_hang_the_run(box):
    process = box.start("--timeout", "20s", *SH, "head -c 1000000 /dev/zero; true")
    process.stdout.close()
    process.stdout = None
    assert process.wait(10) == 0
    end(process)


def test_a_reader_that_never_reads_cannot_stop_the_deadline(box):
    process = box.start("--timeout", "1s", "--output", "unlimited", "--", "yes")
    try:
        assert process.wait(10) == 124
    finally:
        end(process)


def test_closed_descriptors_of_the_caller_do_no_harm(box):
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = " ".join(f"'{word}'" for word in box.command(*SH, "echo x; exit 3"))
        assert subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, timeout=20).returncode == 3, closed


# By the kernel's numbers: PR_SET_MEMORY_MERGE, PR_GET_MEMORY_MERGE, MADV_MERGEABLE.
MERGE, IS_MERGED, MERGEABLE = 67, 68, 12
MERGES = f"""
import ctypes, errno, mmap
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 4096)
at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page)))
told = [str(libc.prctl({IS_MERGED}, 0, 0, 0, 0))]
for call in (lambda: libc.madvise(at, ctypes.c_size_t(4096), {MERGEABLE}), lambda: libc.prctl({MERGE}, 1, 0, 0, 0)):
    told.append(errno.errorcode[ctypes.get_errno()] if call() < 0 else "done")
print(*told)
"""
MERGED = ["python3", "-c", f"import ctypes, os, sys; ctypes.CDLL(None).prctl({MERGE}, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])"]


def test_memory_is_not_merged_with_that_of_others(box):
    """By no word of the code's, nor because brig's caller wants it for all that it starts: who can tell a merged page from another by the time
    of a write knows what others have."""
    control = subprocess.run([*MERGED, "python3", "-c", MERGES], capture_output=True, text=True, timeout=20).stdout
    if control != "1 done done\n":
        pytest.skip(f"this kernel merges no pages, or none of programs that were started (Linux 6.7): {control}")
    # To take it back for the terabytes of addresses that the sanitizers have lasts a minute: there the caller does not want it.
    caller = [] if SANITIZED else MERGED
    inside = subprocess.run([*caller, *box.command("--", "python3", "-c", MERGES)], capture_output=True, text=True, timeout=200)
    assert inside.stdout == "0 EINVAL EINVAL\n", inside


def test_bytes_that_are_no_text_stay_readable_in_json(box):
    told = box.json(*SH, r"printf 'a\377\000b'")
    assert told["exit_code"] == 0
    assert told["stdout"].startswith("a") and told["stdout"].endswith("b")


# ---- the object of --json ----

FIELDS = {
    "sandbox_id": str, "level": str, "tier": str, "exit_code": (int, type(None)), "signal": (int, type(None)),
    "stdout": str, "stderr": str, "stdout_truncated": bool, "stderr_truncated": bool, "timed_out": bool,
    "oom_killed": bool, "limit_hit": (str, type(None)), "duration_ms": (int, float), "cpu_ms": (int, float),
    "peak_memory_bytes": int, "denials": list, "receipt": dict,
}  # fmt: skip


@pytest.mark.parametrize("script", ["echo out; echo err >&2", "kill -9 $$", "sleep 9"])
def test_json_has_the_promised_fields_and_no_others(box, script):
    told = box.json("--timeout", "1s", *SH, script)
    del told["status"]
    assert list(told) == list(FIELDS)
    for name, kind in FIELDS.items():
        assert isinstance(told[name], kind), (name, told[name])


def test_json_tells_time_and_memory(box):
    script = "import time; x = bytearray(60 << 20)\nwhile time.process_time() < 0.3: pass"
    told = box.json("-m", "256M", "--", "python3", "-c", script)
    assert told["duration_ms"] >= 300 and told["cpu_ms"] >= 250
    assert 50 << 20 < told["peak_memory_bytes"] < 256 << 20


# ---- denials ----

CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
bpf = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
for _ in range(3):
    libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
libc.unshare(0x10000000)
libc.ptrace(16, 1, 0, 0)
libc.syscall(bpf, 0, 0, 0)
"""


def test_refused_calls_are_recorded(box):
    denials = {denial["what"].split("(")[0]: denial for denial in box.json("--", "python3", "-c", CALLS)["denials"]}
    assert set(denials) == {"mount", "unshare", "ptrace", "bpf"}
    for denial in denials.values():
        assert list(denial) == ["boundary", "what", "rule", "count", "hint"]
        assert denial["boundary"] in ("kernel", "filesystem") and denial["rule"] and denial["hint"]
    assert denials["mount"]["count"] == 3 and denials["ptrace"]["count"] == 1


def test_without_json_denials_are_told_after_the_run(caller):
    result = caller.run("--", "python3", "-c", CALLS)
    lines = [line for line in result.stderr.splitlines() if line.startswith("brig: denied: ")]
    assert len(lines) == 4 and any("mount (3 times)" in line for line in lines)


def test_control_an_ordinary_run_has_no_denials(box):
    assert box.json("--", "python3", "-c", "print(1)")["denials"] == []


# ---- environment and identity ----

def test_nothing_of_the_callers_environment_gets_in(box):
    secret = {**os.environ, "BRIG_TEST_SECRET": "leak", "LD_PRELOAD": "", "PYTHONPATH": "/x"}
    inside = dict(line.split("=", 1) for line in box.run("--", "env", env=secret).stdout.splitlines())
    assert set(inside) <= {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "GIT_CONFIG_NOSYSTEM", *INSTALLERS}
    assert b"leak" in subprocess.run(box.outside("env"), env=secret, capture_output=True).stdout


def test_variables_that_were_given(box):
    result = box.run("-e", "A=1", "-e", "B=two words", *SH, 'echo "$A:$B"')
    assert result.stdout == "1:two words\n"


def test_uid_and_names_inside(caller):
    assert caller.run("--", "id", "-un").stdout == "user\n"
    assert caller.run("--uid", "1234", *SH, "id -u; id -g").stdout == "1234\n1234\n"
    assert caller.run("--uid", "0", "--", "id", "-un").stdout == "root\n"


def test_cwd(caller, tier):
    brig = caller.with_options("--tier", tier, "-q")
    assert brig.run("--cwd", "/usr", "--", "pwd").stdout == "/usr\n"
    assert brig.run("--cwd", "/no/such", "--", "pwd").returncode == 125


# ---- no network, in words ----

ASK = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 60)
    except OSError as e:
        print(place, e)
"""


@pytest.mark.parametrize("options", [[], ["--level", "low"]], ids=["plain", "low"])
def test_without_rules_each_refusal_says_what_would_allow_it(caller, options):
    began = time.monotonic()
    told = caller.json("--tier", "container", *options, "--", "python3", "-c", ASK, "pypi.org:443", "api.example.org:80", "192.0.2.7:443",
                       "10.0.0.5:5432", "169.254.169.254:80", "metadata.google.internal:80", "localhost:9")
    denied = {d["what"]: d for d in told["denials"] if d["boundary"] == "network"}
    assert {what: d["hint"] for what, d in denied.items()} == {
        "look up pypi.org": "add --allow pypi.org, or --allow @pypi",
        "look up api.example.org": "add --allow api.example.org",
        "connect to 192.0.2.7 port 443": "",
        "connect to 10.0.0.5 port 5432": "pin it: --allow 10.0.0.5:5432=10.0.0.5",
        "connect to 169.254.169.254 port 80": "",
        "look up metadata.google.internal": "",
    }, told
    assert all(d["rule"] == "the sandbox has no network rules" for d in denied.values())
    assert denied["look up pypi.org"]["count"] == 1, "IPv4 and IPv6 are one try"
    assert time.monotonic() - began < 50, "nobody waited for an answer"


def test_a_flood_of_names_fills_a_counter_and_nothing_else(caller):
    """Also what is no question: it is hostile input for the supervisor."""
    code = ("import os, socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('127.0.0.1', 53))\n"
            "for i in range(3000):\n"
            "    n = b'n%d' % i\n"
            "    s.send(os.urandom(2) + b'\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(n)]) + n + b'\\3org\\0\\0\\1\\0\\1')\n"
            "    s.send(os.urandom(i % 700))\n"
            "try: socket.getaddrinfo('last.example.org', 80)\nexcept OSError as e: print('answered', e)\n")
    told = caller.json("--tier", "container", "--", "python3", "-c", code)
    assert told["exit_code"] == 0 and len(told["denials"]) <= 64, told


# ---- folders ----

@pytest.fixture
def folder(caller):
    path = Path(subprocess.check_output(caller.outside("mktemp", "-d", str("/var/tmp/test-brig.XXXXXX")), text=True).strip())
    (path / "in").write_text("from outside\n")
    path.chmod(0o755)
    os.chown(path / "in", caller.uid, -1)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


def test_a_read_only_folder(box, folder):
    result = box.run("--ro", folder, *SH, f"cat {folder}/in; touch {folder}/new || echo refused; echo > {folder}/in")
    assert result.stdout == "from outside\nrefused\n"
    assert os.listdir(folder) == ["in"] and (folder / "in").read_text() == "from outside\n"


def test_control_without_a_grant_the_folder_is_not_there(box, folder):
    assert box.run(*SH, f"cat {folder}/in").returncode != 0


def test_a_writable_folder(caller, folder, tier):
    if caller.name == "root" and tier == "process":
        folder.chmod(0o777)  # there the code has a uid of its own, and no mount translates it
        (folder / "in").chmod(0o666)
    box = caller.with_options("--tier", tier, "-q")
    result = box.run("--rw", folder, *SH, f"echo new > {folder}/out; echo more >> {folder}/in; mkdir {folder}/d")
    assert result.returncode == 0, result
    assert (folder / "out").read_text() == "new\n" and (folder / "in").read_text() == "from outside\nmore\n"
    if caller.name == "user" or tier == "container":
        assert (folder / "out").stat().st_uid == (folder / "d").stat().st_uid == caller.uid


@pytest.mark.skipif(not IS_ROOT, reason="only root has two uids")
@pytest.mark.parametrize("caller", [ROOT], ids=["root"])
def test_a_folder_that_the_sandboxs_uid_cannot_write_is_refused(caller, folder):
    result = caller.run("--tier", "process", "--rw", folder, *SH, "echo RAN")
    assert result.returncode == 125 and "RAN" not in result.stdout
    assert str(folder) in result.stderr and "--tier container" in result.stderr


def test_a_folder_at_another_place(caller, folder):
    result = caller.run("--ro", f"{folder}:/data/deep/place", *SH, "cat /data/deep/place/in")
    assert result.stdout == "from outside\n", result


def test_a_single_file(box, folder):
    result = box.run("--ro", folder / "in", *SH, f"cat {folder}/in; echo > {folder}/in || echo refused")
    assert result.stdout == "from outside\nrefused\n", result


def test_another_root(caller, folder):
    for name in ("bin", "lib", "tmp"):
        (folder / name).mkdir()
    subprocess.run(["cp", "/bin/busybox", folder / "bin"], check=True)
    (folder / "marker").write_text("root\n")
    folder.chmod(0o755)
    result = caller.run("--root", folder, "--", "/bin/busybox", "sh", "-c", "busybox cat /marker; busybox ls /usr")
    assert result.stdout == "root\n", result


def test_policy_file_and_option_over_it(caller):
    policy = PUBLIC / "policy.yaml"
    policy.write_text("lifecycle: {pids: 33, memory: 100M, sampling: accept}\ncredentials: {env: {FROM: file}}\n")
    told = caller.json("--policy", policy, "-m", "200M", *SH, "echo $FROM")
    limits = told["receipt"]["boundaries"]["lifecycle"]
    assert told["stdout"] == "file\n"
    assert limits["pids"].startswith("33 ") and limits["memory"].startswith(str(200 << 20))
