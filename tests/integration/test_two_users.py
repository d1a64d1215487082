"""Root beside the ordinary user in one sandbox (kernel.root): who is who, what one cannot do to the other one, and what nobody can."""
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import npmlib
from mcplib import Http
from daemonlib import USERS, Box, Daemon, Result, frames, program, wait_for
from helpers import IS_ROOT, BRIG
from subids import COUNT, FIRST_GID, FIRST_UID, LINES, NAME, OwnEtc
from users import USER_ID

ROOMY = "lifecycle: {sampling: accept, disk: 256M}"
TEMPLATES = {
    "base.yaml": f"policy: {{{ROOMY}}}\n",
    "two.yaml": f"policy: {{kernel: {{root: true}}, {ROOMY}}}\n",
    "wide.yaml": f"policy: {{kernel: {{root: true}}, filesystem: {{writable_root: true}}, {ROOMY}}}\n",
    "mute.yaml": f"policy: {{kernel: {{root: true, unix_sockets: 'off'}}, {ROOMY}}}\n",
}


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    """Of root, which has ids to give, and of an ordinary user, who was given some (newuidmap)."""
    if not IS_ROOT:
        pytest.skip("two ids of the host are root's to give")
    with OwnEtc() as etc, Daemon(request.param, templates=TEMPLATES, wrapper=etc.wrapper if request.param == "user" else ()) as made:
        yield made


@pytest.fixture(scope="module")
def clients():
    return npmlib.install()


@pytest.fixture(params=["two", "wide"])
def box(daemon, request):
    made = daemon.create(request.param)
    yield made
    made.kill()


@pytest.fixture
def wide(daemon):
    made = daemon.create("wide")
    yield made
    made.kill()


def run(box, user, *argv, timeout=60):
    text = base64.b64encode(f"{user}:".encode()).decode()
    headers = box.headers(**{"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1", "Authorization": f"Basic {text}"})
    connection = box.daemon.connection(timeout)
    try:
        connection.request("POST", "/process.Process/Start", box.start_body(list(argv)), headers)
        return Result(frames(connection.getresponse().read()))
    finally:
        connection.close()


def sh(box, user, script):
    return run(box, user, "/bin/sh", "-c", script)


def python(box, user, code):
    return run(box, user, "/usr/bin/python3", "-c", code)


def host_map(box, name="uid_map"):
    """{id inside: id on the host}, each alone."""
    told = sh(box, "user", f"cat /proc/self/{name}").out.decode().split()
    assert told[2::3] == ["1", "1"], told
    return {int(inside): int(outside) for inside, outside in zip(told[::3], told[1::3])}


def host_ids(box):
    return host_map(box)


def is_ours(pid):
    """Not a sandbox's: an ordinary user's daemon has an id that its sandboxes have."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return True


def tasks(ids):
    """{pid: status} of what runs in sandboxes with one of these ids of the host."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if int(status["Uid"].split()[0]) in ids and not is_ours(pid):
            found[int(pid)] = status
    return found


def test_the_real_client_is_who_it_asks_to_be(daemon, clients):
    env = {"PATH": os.environ["PATH"], "HOME": str(clients), "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": daemon.key}
    said = subprocess.run(["node", "two-users.mjs"], cwd=clients, env=env, text=True, capture_output=True, timeout=900)
    assert said.returncode == 0 and "ok " in said.stdout, said.stdout + said.stderr


def test_two_ids_of_the_host_and_no_capability(daemon, box):
    """Neither is root of the host, root's is not another sandbox's, and nothing inside has a right more than the other sandboxes' code."""
    ids, groups = host_ids(box), host_map(box, "gid_map")
    assert sorted(ids) == [0, 1000] and sorted(groups) == [0, 1000] and len(set(ids.values())) == 2, (ids, groups)
    if daemon.uid:
        assert ids[1000] == groups[1000] == daemon.uid, (ids, groups)
        assert FIRST_UID <= ids[0] < FIRST_UID + COUNT and FIRST_GID <= groups[0] < FIRST_GID + COUNT, (ids, groups)
    else:
        assert ids == groups and min(ids.values()) >= 0x70000000, (ids, groups)
    assert sh(box, "user", "sleep 1000 & sudo sh -c 'sleep 1000 > /dev/null 2>&1 &'; echo").status == 0
    found = tasks(ids.values())
    assert {int(s["Uid"].split()[0]) for s in found.values()} == set(ids.values())
    for status in found.values():
        uids, gids = set(status["Uid"].split()), set(status["Gid"].split())
        inside = next(i for i, outside in ids.items() if {str(outside)} == uids)
        assert gids == {str(groups[inside])} and not status.get("Groups", "").split(), status
        assert {int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}, status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    other = daemon.create("two")
    try:
        assert host_ids(other)[0] not in ids.values() and host_map(other, "gid_map")[0] not in groups.values()
    finally:
        other.kill()
    assert box.kill() == 204
    wait_for(lambda: not tasks([ids[0]]), what="the end of root's processes")


FOR_ROOT = ["echo x > /etc/brig-test", "echo x > /usr/bin/brig-test", "mkdir /brig-test", "rm /etc/hostname", "echo x >> /etc/passwd",
            "cat /root/secret", "ls /root", "echo x > /root/secret", "cat /tmp/secret", "rm -f /tmp/secret && [ ! -e /tmp/secret ]", "rm /usr/bin/env",
            "rm /run/brig-root"]


def test_what_is_roots_is_not_the_users(wide):
    assert sh(wide, "root", "umask 077; echo s > /root/secret; echo s > /tmp/secret").status == 0
    for script in FOR_ROOT:
        told = sh(wide, "user", script)
        assert told.status != 0, (script, told)
    assert sh(wide, "root", "cat /root/secret /tmp/secret; cat /etc/hostname").out == b"s\ns\nbrig\n", "nothing of it was done"
    for script in FOR_ROOT:
        told = sh(wide, "root", script)
        assert told.status == 0, ("control", script, told)


def test_what_is_the_users_is_not_roots(wide):
    """Root in name: without a capability it is one more user, to whom others are closed as they are to anybody."""
    assert sh(wide, "user", "umask 077; echo mine > ~/f; mkdir ~/d").status == 0
    for script in ("cat /home/user/f", "echo x >> /home/user/f", "ls /home/user/d", "rm -f /home/user/f && [ ! -e /home/user/f ]", "touch /home/user/x",
                   "touch /root/x && chown 1000 /root/x", "touch /root/x && chgrp 1000 /root/x"):
        told = sh(wide, "root", script)
        assert told.status != 0, (script, told)
    for script in ("cat /home/user/f", "echo x >> /home/user/f", "ls /home/user/d", "touch /home/user/x"):
        assert sh(wide, "user", script).status == 0, ("control", script)
    # To users that are not there it is pretended, for installers; nothing changes hands.
    assert sh(wide, "root", "touch /root/y && chown 6:12 /root/y && stat -c %u:%g /root/y").out == b"0:0\n"


BECOME = """import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name, args in (("setuid", (WANT,)), ("setresuid", (WANT, WANT, WANT)), ("setgid", (WANT,)), ("setresgid", (WANT, WANT, WANT)), ("setgroups", (1, (ctypes.c_uint * 1)(WANT)))):
    if getattr(libc, name)(*args) == 0:
        sys.exit(name + ": " + str(os.getresuid()))
"""


def test_nobody_becomes_the_other_one(wide):
    for user, want in (("user", 0), ("root", 1000)):
        told = python(wide, user, BECOME.replace("WANT", str(want)))
        assert told.status == 0, (user, told)
        own = python(wide, user, BECOME.replace("WANT", str(1000 - want)))
        assert own.status == 1 and own.err.startswith(b"setuid: "), ("control: its own id it has", own)
    # A set-id program is a program like any other.
    told = sh(wide, "root", "cp /usr/bin/id /usr/local/bin/id2 && chmod 6755 /usr/local/bin/id2")
    assert told.status == 0, told
    assert sh(wide, "user", "/usr/local/bin/id2 -u").out == b"1000\n"


TOUCH = """import ctypes, os, signal, sys
pid = int(sys.argv[1])
done = []
def attempt(what, fn):
    try:
        fn()
        done.append(what)
    except OSError:
        pass
attempt("signal", lambda: os.kill(pid, signal.SIGCONT))
attempt("memory", lambda: open(f"/proc/{pid}/mem", "rb"))
attempt("environment", lambda: open(f"/proc/{pid}/environ", "rb").read(1))
attempt("descriptors", lambda: os.listdir(f"/proc/{pid}/fd"))
attempt("root", lambda: os.readlink(f"/proc/{pid}/root"))
print(" ".join(done))
"""


def test_root_touches_neither_init_nor_the_users_processes(box):
    started = box.begin("/bin/sleep", "1000")
    try:
        pid = wait_for(lambda: sh(box, "user", "pgrep -x sleep").out.decode().split(), what="the user's process")[0]
        every = "signal memory environment descriptors root"
        for victim in (pid, "1"):
            told = run(box, "root", "/usr/bin/python3", "-c", TOUCH, victim)
            assert told.status == 0 and told.out == b"\n", (victim, told)
        told = run(box, "user", "/usr/bin/python3", "-c", TOUCH, pid)
        assert told.out.decode().strip() == every, ("control: it is the user's own", told)
    finally:
        started[0].close()
    # Root's part of init has root's id: it can be ended, which is the end of all, but not looked into.
    told = python(box, "root", "import os\nfor n in range(2, os.getpid()):\n try:\n  os.kill(n, 0)\n  print('there')\n  open(f'/proc/{n}/mem')\n  print('open')\n"
                               " except OSError: pass")
    assert told.out == b"there\n", told


WATCH = """import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
IN_OPEN, IN_CREATE = 0x20, 0x100
for path in sys.argv[1:]:
    # Who reads is not told: such a watch is set by brig, in the place of the code and with its rights.
    number = libc.inotify_add_watch(fd, path.encode(), IN_OPEN | IN_CREATE)
    print("set" if number > 0 else os.strerror(ctypes.get_errno()), end=";")
"""


def test_a_watch_is_set_with_the_callers_rights(box):
    assert sh(box, "user", "mkdir -m 700 ~/shut && touch ~/shut/f && chmod 600 ~/shut/f").status == 0
    assert sh(box, "root", "touch ~/f && chmod 600 ~/f").status == 0
    both = ("/root", "/root/f", "/home/user/shut", "/home/user/shut/f", "/tmp")
    told = {user: run(box, user, "/usr/bin/python3", "-c", WATCH, *both).out for user in ("user", "root")}
    no = b"Permission denied;"
    assert told == {"user": no * 2 + b"set;" * 3, "root": b"set;" * 2 + no * 2 + b"set;"}, told


def test_installers_find_the_accounts_that_they_give_files_to(daemon, wide):
    """`install -o man`, as man-db's trigger has it after every package with a manual: the name is there, and nothing else is."""
    told = sh(wide, "root", "install -d -o man -g man /var/x && chown www-data:staff /var/x && stat -c %u:%g /var/x && getent passwd man | cut -d: -f1,3,4,7")
    assert told.status == 0 and told.out == b"0:0\nman:6:12:/usr/sbin/nologin\n", told
    for user in ("user", "root"):
        assert python(wide, user, "import os\nfor become in (os.setuid, os.setgid):\n try: become(6); print('became')\n except OSError: pass").out == b"", "nobody becomes it"
    assert "invalid username" in str(run(wide, "man", "/bin/true").error)
    narrow = daemon.create("two")
    try:
        assert sh(narrow, "root", "getent passwd man").status != 0, "the control: where nothing can be installed"
    finally:
        narrow.kill()


def test_root_is_root_of_nothing(box):
    for script in ("mount -t tmpfs none /mnt", "chroot / true", "mknod /tmp/d c 1 3", "unshare -U true", "hostname x", "date -s 12:00", "touch /.brig/sbin/x",
                   "rm /.brig/sbin/sudo", "echo 1 > /proc/sys/kernel/hostname", "mount -o remount,rw /.brig", "echo -1000 > /proc/self/oom_score_adj"):
        assert sh(box, "root", script).status != 0, script
    assert sh(box, "root", "touch ~/x && [ -O ~/x ] && rm ~/x").status == 0, "control"


JUNK = """import array, os, socket
def dial():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/brig-root")
    return s
kept = [dial() for _ in range(8)]                      # who says nothing
for data in (b"", b"x", b"\\xff" * 700, os.urandom(4096), b"\\x1b\\0\\0\\0" * 300):
    for count in (0, 1, 5, 7, 20):
        s = dial()
        fds = array.array("i", [os.open("/dev/null", os.O_RDWR)] * count)
        try:
            s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if count else [])
        except OSError:
            pass
        for fd in set(fds):
            os.close(fd)
print(os.popen("sudo id -u").read().strip(), len(kept))
"""


def test_whatever_is_said_to_roots_part(box):
    told = python(box, "user", JUNK)
    assert told.out == b"0 8\n", told
    assert sh(box, "root", "id -u").out == b"0\n"


def runs_anywhere(command):
    return " ".join(command) in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_roots_part_that_is_stopped_is_the_end(wide):
    """It has root's id: whoever is root inside can stop it, and nobody could pause or end then what root runs."""
    with contextlib.suppress(OSError):
        run(wide, "root", "/usr/bin/python3", "-c", "import os, signal; os.kill(os.getppid(), signal.SIGSTOP); signal.pause()", timeout=20)
    wait_for(lambda: wide.info().status == 404, what="the end of the sandbox")


def test_the_end_of_roots_part_is_the_end(daemon, box):
    # An ordinary user's sandboxes have that user's id in common.
    ids = [host_ids(box)[0]] if daemon.uid else list(host_ids(box).values())
    command = ["/bin/sleep", f"{os.getpid()}4712"]
    started = box.begin(*command)
    wait_for(lambda: runs_anywhere(command), what="the user's process")
    try:
        sh(box, "root", "kill -9 -1")
    except OSError:
        pass
    wait_for(lambda: box.info().status == 404, what="the end of the sandbox")
    wait_for(lambda: not tasks(ids), what="the end of its processes")
    wait_for(lambda: not runs_anywhere(command), what="the end of the user's process")
    started[0].close()


def test_a_pause_holds_both(daemon):
    box = daemon.create("two")
    spin = "while :; do :; done"
    try:
        ids = host_ids(box)
        for user in ("user", "root"):
            assert sh(box, user, f"({spin}) > /dev/null 2>&1 & echo").status == 0

        def busy():
            ticks = {}
            for pid in tasks(ids.values()):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                uid = Path(f"/proc/{pid}").stat().st_uid
                ticks[uid] = ticks.get(uid, 0) + int(fields[11])
            return ticks

        def runs(uid):
            before = busy().get(uid, 0)
            wait_for(lambda: busy().get(uid, 0) > before, what=f"{uid} runs")

        for uid in ids.values():
            runs(uid)
        assert daemon.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204

        def stopped():
            states = [s["State"][0] for s in tasks(ids.values()).values() if s["Name"] == "sh"]
            frozen = not any(s == "R" for s in states)
            return frozen and len(states) >= 2
        wait_for(stopped, what="both stand")
        assert daemon.request("POST", f"/sandboxes/{box.id}/resume", {"timeout": 300}).status == 201
        for uid in ids.values():
            runs(uid)
        assert sh(box, "root", "id -u").out == b"0\n"
    finally:
        box.kill()


def test_the_command_line(daemon, box):
    program = [BRIG, "exec", "--host", f"unix:{daemon.socket}", "--key-file", str(daemon.key_file)]
    for user, number in (("root", "0"), ("user", "1000")):
        told = subprocess.run([*program, "-u", user, box.id, "--", "id", "-u"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert told.returncode == 0 and told.stdout == number + "\n", told
    other = daemon.create("base")
    try:
        told = subprocess.run([*program, "--user", "root", other.id, "--", "touch", "/tmp/ran"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert told.returncode != 0 and "gives no root" in told.stderr and "kernel: {root: true}" in told.stderr, told
        assert other.sh("ls /tmp").out == b"", "and it was not run as somebody else"
    finally:
        other.kill()


def test_over_mcp(daemon):
    http = Http(daemon)
    told, failed = http.call("create_session", template="two")
    assert not failed, told
    session = told["session_id"]
    for user, number in (("root", "0"), ("user", "1000"), (None, "1000")):
        more = {"user": user} if user else {}
        told, failed = http.call("run_command", session_id=session, command="id -u", **more)
        assert not failed and told["stdout"] == number + "\n", told
    told, failed = http.call("write_file", session_id=session, path="/root/f", content="x", user="root")
    assert not failed, told
    told, failed = http.call("read_file", session_id=session, path="/root/f", user="root")
    assert not failed and told["content"] == "x", told
    for name, more in (("read_file", {"path": "/root/f"}), ("list_files", {"path": "/root"}), ("run_command", {"command": "cat /root/f"})):
        told, failed = http.call(name, session_id=session, **more)
        assert failed or told.get("exit_code") == 1, (name, told)
    told, failed = http.call("run_command", session_id=session, command="true", user="postgres")
    assert failed and "expected user or root" in told["error"]["message"], told
    told, failed = http.call("run_command", command="id", template="base", user="root")
    assert failed and "gives no root" in told["error"]["message"] and "kernel: {root: true}" in told["error"]["hint"], told
    http.call("destroy_session", session_id=session)


def test_without_unix_sockets_sudo_says_so(daemon):
    box = daemon.create("mute")
    try:
        told = sh(box, "user", "sudo id")
        assert told.status == 1 and b"UNIX sockets" in told.err and not told.out, told
        assert sh(box, "root", "id -u; sudo id -u").out == b"0\n0\n", "control"
    finally:
        box.kill()


def test_a_request_may_give_root_up(daemon):
    told = daemon.request("POST", "/sandboxes", {"templateID": "two", "policy": {"kernel": {"root": False}}})
    assert told.status == 201, told
    box = Box(daemon, told.json)
    try:
        assert "gives no root" in str(run(box, "root", "/bin/true").error)
        assert sh(box, "user", "cut -c1-11 /proc/self/uid_map").out == b"      1000 \n"
    finally:
        box.kill()
    told = daemon.request("POST", "/sandboxes", {"templateID": "base", "policy": {"kernel": {"root": True}}})
    assert told.status == 403 and "kernel.root" in told.json["message"], told


@pytest.mark.skipif(not IS_ROOT, reason="two ids of the host are root's to give")
def test_a_project_is_shown_to_one_user():
    with tempfile.TemporaryDirectory(prefix="test-brig-") as folder, Daemon("root", "--project", folder, templates=TEMPLATES) as daemon:
        told = daemon.request("POST", "/sandboxes", {"templateID": "two", "project": folder})
        assert told.status == 501 and "two users" in told.json["message"], told
        control = daemon.request("POST", "/sandboxes", {"templateID": "base", "project": folder})
        assert control.status == 201, control


needs_another_user = pytest.mark.skipif(not IS_ROOT, reason="needs another user")
NOBODYS = {"subuid": "somebody:100000:65536\n", "subgid": "somebody:100000:65536\n"}


def users_daemon(etc, **more):
    return Daemon("user", templates=more.pop("templates", TEMPLATES), wrapper=etc.wrapper, **more)


@needs_another_user
@pytest.mark.parametrize("lines, words", [(NOBODYS, "/etc/subuid gives user"), ({**LINES, "subgid": ""}, "/etc/subgid gives user"),
                                          ({**LINES, "subuid": f"{NAME}:0:1000\n{NAME}:x:5\n{NAME}:4294967295:2\n"}, "/etc/subuid gives user")])
def test_who_has_one_id_is_told(lines, words):
    """Without a second id two users cannot be mapped: nothing is started, least of all something with one user."""
    with OwnEtc(lines) as etc, users_daemon(etc) as daemon:
        told = daemon.request("POST", "/sandboxes", {"templateID": "two"})
        assert told.status == 501 and "two users are not available here" in told.json["message"] and words in told.json["message"], told
        assert "usermod --add-subuids" in told.json["message"] and "start brig serve as root" in told.json["message"], told
        assert daemon.create("base").sh("id -u").out == b"1000\n", "control"


FAKES = {
    "fails": ("#!/bin/sh\necho 'no: newuidmap says so' >&2\nexit 1\n", "newuidmap says so"),
    "does nothing": ("#!/bin/sh\nexit 0\n", ""),
    "is silent": ("#!/bin/sh\nexit 1\n", "it gives no reason"),
    "ends by a signal": ("#!/bin/sh\nkill -9 $$\n", "it gives no reason"),
    "floods": ("#!/bin/sh\nhead -c 3000000 /dev/zero >&2\nexit 3\n", "newuidmap could not map"),
    "hangs": ("#!/bin/sh\nexec sleep 4711\n", "did not end in 10 s"),
}


@needs_another_user
@pytest.mark.parametrize("fake", FAKES)
def test_a_map_that_is_not_made_is_no_sandbox(fake):
    """Whatever the host's program does: no sandbox, in time, with a reason; and others are served meanwhile."""
    script, words = FAKES[fake]
    with OwnEtc(programs={"/usr/bin/newuidmap": script}) as etc, users_daemon(etc) as daemon:
        connection = daemon.connection()
        daemon.send(connection, "POST", "/sandboxes", {"templateID": "two"})
        assert daemon.create("base").sh("id -u").out == b"1000\n", "control: others are served meanwhile"
        answer = connection.getresponse()
        told = answer.read().decode()
        assert answer.status >= 500 and words in told and "envdAccessToken" not in told, (answer.status, told)
        connection.close()
        wait_for(lambda: "sleep" not in daemon.children().values(), what="the program's end")
        assert daemon.request("GET", "/v2/sandboxes").json[1:] == [], "and nothing counts as one"


@needs_another_user
def test_nothing_stays_of_a_start_that_is_killed():
    """kill -9 of whoever waits for the map, and of the whole daemon."""
    with OwnEtc(programs={"/usr/bin/newgidmap": FAKES["hangs"][0]}) as etc:
        for victim in ("brig-warden", "brig"):
            with users_daemon(etc) as daemon:
                connection = daemon.connection()
                daemon.send(connection, "POST", "/sandboxes", {"templateID": "two"})
                wait_for(lambda: "sleep" in daemon.children().values(), what="the program runs")
                every = [daemon.pid, *daemon.children()]
                holder = next(p for p, name in daemon.children().items() if name == "sleep")
                warden = int(Path(f"/proc/{holder}/stat").read_text().rsplit(")", 1)[1].split()[1])
                os.kill(daemon.pid if victim == "brig" else warden, 9)
                below = [p for p in every if victim == "brig" or p in (warden, holder)]
                wait_for(lambda: not any(alive(p) for p in below), what="the end of what was started")
                connection.close()
                if victim == "brig":
                    daemon.process.wait()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@needs_another_user
def test_few_ids_are_shared_and_many_are_not():
    """Of two ids both are taken, and then one twice. (Sandboxes that wait in the pool have some, too.)"""
    few = {"subuid": f"{NAME}:{FIRST_UID}:2\n", "subgid": f"{NAME}:{FIRST_GID}:1\n"}
    with OwnEtc(few) as etc, users_daemon(etc) as daemon:
        boxes = [daemon.create("two") for _ in range(3)]
        ids = [host_ids(box)[0] for box in boxes]
        assert set(ids) == {FIRST_UID, FIRST_UID + 1}, ids
        assert [sh(box, "root", "id -u; touch /root/x").out for box in boxes] == [b"0\n"] * 3
    by_number = {"subuid": f"{USER_ID}:{FIRST_UID}:64\n", "subgid": f"{USER_ID}:{FIRST_GID}:64\n"}
    with OwnEtc(by_number) as etc, users_daemon(etc) as daemon:
        ids = [host_ids(daemon.create("two"))[0] for _ in range(8)]
        assert len(set(ids)) == 8 and all(FIRST_UID <= i < FIRST_UID + 64 for i in ids), ids


@needs_another_user
def test_files_of_the_host_for_both():
    """What is granted is the caller's, who is `user`; root inside has the rights of an id that owns nothing, and a folder to write to is refused."""
    with OwnEtc() as etc, tempfile.TemporaryDirectory(prefix="test-brig-") as name:
        folder = Path(name)
        closed = folder / "closed"
        closed.mkdir(0o700)
        for file, owner, mode in (("mine", USER_ID, 0o600), ("all", USER_ID, 0o666), ("roots", 0, 0o600)):
            (closed / file).write_text(file)
            os.chown(closed / file, owner, owner)
            (closed / file).chmod(mode)
        for path in (folder, closed):
            os.chown(path, USER_ID, USER_ID)
        granted = f"policy: {{kernel: {{root: true}}, filesystem: {{{{}}: [{name}]}}, {ROOMY}}}\n"
        templates = {"ro.yaml": granted.replace("{}", "ro"), "rw.yaml": granted.replace("{}", "rw"),
                     "inner.yaml": granted.replace("{}", "ro").replace(f"[{name}]", f"[{closed}]")}
        with users_daemon(etc, templates=templates) as daemon:
            told = daemon.request("POST", "/sandboxes", {"templateID": "rw"})
            assert told.status == 501 and "for writing" in told.json["message"] and "for reading (ro)" in told.json["message"], told
            box = daemon.create("ro")
            assert sh(box, "user", f"cat {closed}/mine {closed}/all").out == b"mineall", "control: the owner reads"
            for script in (f"cat {closed}/mine", f"cat {closed}/all", f"cat {closed}/roots", f"ls {closed}"):
                assert sh(box, "root", script).status != 0, script
            for user in ("user", "root"):
                for script in (f"echo x >> {closed}/all", f"cat {closed}/roots", f"touch {name}/x", f"chmod 777 {closed}", f"rm -f {closed}/all && [ ! -e {closed}/all ]"):
                    assert sh(box, user, script).status != 0, (user, script)
            # A folder that only its owner may open is found by its owner's rights, whoever builds the sandbox.
            inner = daemon.create("inner")
            assert sh(inner, "user", f"cat {closed}/mine").out == b"mine"
            assert sh(inner, "root", f"cat {closed}/all").status != 0


@needs_another_user
@pytest.mark.parametrize("writable", [False, True])
def test_a_folder_as_root_for_both(writable):
    """The caller's own files are `user`'s inside; in a writable root the folders are root's, so that root can put others in their place."""
    with OwnEtc() as etc, tempfile.TemporaryDirectory(prefix="test-brig-") as name:
        top = Path(name) / "closed" / "root"
        (top / "bin").mkdir(parents=True)
        (top / "usr").mkdir()
        shutil.copy("/bin/busybox", top / "bin" / "busybox")
        for link in ("sh", "id", "cat", "ls", "touch", "rm", "stat", "cp", "test", "env", "mkdir", "cut"):
            (top / "bin" / link).symlink_to("busybox")
        for path in [Path(name), top.parent, top, *top.rglob("*")]:
            os.chown(path, USER_ID, USER_ID, follow_symlinks=False)
        top.parent.chmod(0o700)  # the caller's alone: whoever builds the sandbox finds it with the caller's rights
        policy = f"{{kernel: {{root: true}}, filesystem: {{root: {top}, writable_root: {str(writable).lower()}}}, {ROOMY}}}"
        with users_daemon(etc, templates={"folder.yaml": f"policy: {policy}\n"}) as daemon:
            box = daemon.create("folder")
            for user, number in (("user", b"1000\n"), ("root", b"0\n")):
                assert sh(box, user, "id -u").out == number
            assert sh(box, "user", "touch /bin/x").status != 0, "the folder is not the user's to write to"
            assert (sh(box, "root", "rm /bin/stat && touch /bin/x /usr/y && mkdir /opt").status == 0) == writable
            if writable:
                assert sh(box, "user", "ls /bin/stat").status != 0 and sh(box, "user", "ls /bin/x").status == 0
        assert (top / "bin" / "stat").is_symlink() and not (top / "bin" / "x").exists(), "nothing of it is on the host"


@needs_another_user
def test_programs_of_somebody_elses_are_not_started():
    """SI-1: what stands at the place of newuidmap must be root's, and nobody else's to write."""
    with OwnEtc(programs={"/usr/bin/newuidmap": "#!/bin/sh\ntouch /tmp/$$-ran-it\n"}) as etc:
        for spoil in (lambda f: os.chown(f, USER_ID, USER_ID), lambda f: f.chmod(0o777), lambda f: f.chmod(0o644)):
            file = etc.folder / "newuidmap"
            os.chown(file, 0, 0)
            file.chmod(0o755)
            spoil(file)
            with users_daemon(etc) as daemon:
                told = daemon.request("POST", "/sandboxes", {"templateID": "two"})
                assert told.status == 501 and "not in /usr/bin" in told.json["message"] and "apt-get install -y uidmap" in told.json["message"], told
    assert not list(Path("/tmp").glob("*-ran-it"))


@needs_another_user
def test_groups_of_the_caller_stay_with_both():
    """Who is kept out of something by a group does not lose that group inside, and gets none."""
    with OwnEtc() as etc, tempfile.TemporaryDirectory(prefix="test-brig-") as name:
        group = USER_ID + 100_000
        kept = Path(name) / "kept-out"
        kept.write_text("x")
        os.chown(kept, 0, group)
        kept.chmod(0o604)
        Path(name).chmod(0o755)
        template = {"ro.yaml": f"policy: {{kernel: {{root: true}}, filesystem: {{ro: [{name}]}}, {ROOMY}}}\n"}

        class InGroup(Daemon):
            groups = ["--groups", str(group)]

            def command(self):
                return [word for part in super().command() for word in (self.groups if part == "--clear-groups" else [part])]

        class InNone(InGroup):
            groups = ["--clear-groups"]

        for kind, status in ((InGroup, 1), (InNone, 0)):
            with kind("user", templates=template, wrapper=etc.wrapper) as daemon:
                box = daemon.create("ro")
                for user in ("user", "root"):
                    assert sh(box, user, f"cat {kept}").status == status, (kind, user)
                    assert sh(box, user, "cat /proc/self/setgroups").out == b"deny\n"
                    told = python(box, user, f"import os\ntry: os.setgroups([])\nexcept PermissionError: print('no')\nprint({group} in os.getgroups())")
                    assert told.out.startswith(b"no\n"), told


FORK = """import os, time
made = 0
try:
    for _ in range(400):
        if os.fork() == 0:
            for fd in range(3):
                os.close(fd)
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError:
    pass
os.write(1, b"%d\\n" % made)
os._exit(0)
"""


@needs_another_user
@pytest.mark.parametrize("user", ["user", "root"])
def test_tasks_of_either_are_counted(user):
    """Of 60 each has half, by the kernel's count; who has more for a moment is seen by who samples."""
    policy = "{kernel: {root: true}, lifecycle: {cgroup: 'off', sampling: accept, pids: PIDS, disk: 64M, memory: 16G}}"
    templates = {"few.yaml": f"policy: {policy.replace('PIDS', '60')}\n", "many.yaml": f"policy: {policy.replace('PIDS', '1000')}\n"}
    with OwnEtc() as etc, users_daemon(etc, templates=templates) as daemon:
        for template, bounds in (("few", range(-1, 200)), ("many", range(400, 401))):
            box = daemon.create(template)
            try:
                told = python(box, user, FORK)
                made = int(told.out or -1)
            except OSError as error:  # the sandbox was ended
                told, made = error, -1
            assert made in bounds, (template, "many: the control, 400 are had where they may be", told)


@needs_another_user
@pytest.mark.parametrize("user", ["user", "root"])
def test_limits_see_what_either_holds(user):
    """Without control groups memory is watched by looking at tasks, and what they hold open as well: root's too, which is another user to the host."""
    policy = "{kernel: {root: true}, lifecycle: {cgroup: 'off', sampling: accept, memory: 160M, disk: 64M}}"
    pipes = "import os, time\nkept = []\nfor i in range(400):\n  for j in range(5):\n    r, w = os.pipe(); os.set_blocking(w, False); kept += [r, w]\n    try: os.write(w, b'x' * 65536)\n    except OSError: pass\n  time.sleep(0.01)\nprint('all')"
    with OwnEtc() as etc, users_daemon(etc, templates={"small.yaml": f"policy: {policy}\n"}) as daemon:
        for code in ("x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(30)\nprint('all')", "import resource\nn = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (n, n))\n" + pipes):
            box = daemon.create("small")
            assert python(box, user, "print(1)").out == b"1\n", "control"
            try:
                told = python(box, user, code)
                assert told.status != 0 and b"all" not in told.out, told
            except OSError:
                pass  # it took the sandbox along


def test_what_root_is_denied_is_told(daemon):
    """The address lies in the memory of a task that an ordinary user's supervisor may not open."""
    http = Http(daemon)
    told, failed = http.call("create_session", template="two")
    assert not failed, told
    session = told["session_id"]
    for user, port in (("user", 443), ("root", 444)):
        code = f"import socket; socket.socket().connect(('192.0.2.7', {port}))"
        told, _ = http.call("run_command", session_id=session, command=f'python3 -c "{code}"', user=user)
        assert any(f"192.0.2.7 port {port}" in d["what"] and d["boundary"] == "network" for d in told["denials"]), (user, told)
    told, _ = http.call("run_command", session_id=session, command="true", user="root")
    assert told["denials"] == [], ("control", told)
    http.call("destroy_session", session_id=session)


@needs_another_user
def test_the_doctor_knows():
    """What is missing, and the command that gives it."""
    command = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--", program(), "doctor"]

    def doctor(etc, *more):
        said = subprocess.run([*etc.wrapper, *command, *more, "--json"], capture_output=True, text=True, timeout=300, cwd="/")
        return json.loads(said.stdout)

    with OwnEtc() as etc:
        assert next(f for f in doctor(etc)["facts"] if f["name"] == "two users")["present"]
    with OwnEtc(NOBODYS) as etc:
        fact = next(f for f in doctor(etc)["facts"] if f["name"] == "two users")
        assert not fact["present"] and "/etc/subuid" in fact["why"] and f"usermod --add-subuids 165536-231071 --add-subgids 165536-231071 {NAME}" in fact["how"], fact
        fix = next(f for f in doctor(etc, "--fix")["fixes"] if f["name"] == "two users")
        assert fix["root"] and fix["command"].startswith("usermod --add-subuids") and not fix["tried"], fix


@needs_another_user
def test_a_set_id_program_gives_nothing_inside():
    """newuidmap itself, inside: no-new-privileges holds, and there is no namespace available."""
    with OwnEtc() as etc, users_daemon(etc) as daemon:
        box = daemon.create("two")
        for user in ("user", "root"):
            assert sh(box, user, "/usr/bin/newuidmap $$ 0 0 1").status != 0
            assert sh(box, user, "unshare -U sleep 0").status != 0
    with OwnEtc() as etc:
        control = subprocess.run([*etc.wrapper, "setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--", "unshare", "--user", "--map-users", f"{FIRST_UID},0,1", "--map-groups", f"{FIRST_GID},0,1", "id", "-u"], capture_output=True, text=True, cwd="/")
        assert control.returncode == 0, ("control: outside it maps", control)


def test_one_command_has_one_user():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as policy:
        policy.write("kernel: {root: true}\n")
        policy.flush()
        os.chmod(policy.name, 0o644)
        told = subprocess.run([BRIG, "run", "--policy", policy.name, "--", "true"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert told.returncode == 125 and "one user" in told.stderr and "brig serve" in told.stderr, told
