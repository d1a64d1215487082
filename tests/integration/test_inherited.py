"""What brig was started with and did not ask for: descriptors that the caller left open, with a service manager's word for them or without. None of
them reaches the code, nor a process of brig's that others talk to. The control: a program that is started the same way has them."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import poollib
from daemonlib import USERS, Daemon
from helpers import CALLERS, TIERS, WATCHED, below, end
from ocilib import BUSYBOX, bundle_of

RUNSC = poollib.runsc()
# A socket that listens, a folder, a file and one end of a pair, at numbers that brig itself uses inside and far from them.
STARTER = """import os, socket, sys
folder, listening, *command = sys.argv[1:]
here, there = socket.socketpair()
held = [socket.create_server(("127.0.0.1", 0)).detach(), os.open(folder, os.O_RDONLY), os.open(folder + "/secret", os.O_RDONLY), here.detach()]
spare = [os.dup2(fd, 200 + n) for n, fd in enumerate(held)]
for at in (*range(3, 12), 60, 900):
    os.dup2(spare[0 if at == 3 else at % len(spare)], at)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=listening, LISTEN_FDNAMES="x")
os.execvp(command[0], command)"""


@pytest.fixture
def decoys():
    folder = Path(tempfile.mkdtemp(prefix="test-brig-decoys-"))
    folder.chmod(0o755)
    (folder / "secret").write_text("canary")
    (folder / "secret").chmod(0o644)
    yield folder
    shutil.rmtree(folder)


def started(decoys, command, listening=4):
    return [sys.executable, "-c", STARTER, str(decoys), str(listening), *map(str, command)]


def links(pid):
    """What a process has open, by name."""
    try:
        return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except FileNotFoundError:
        return set()


def names_of(pid, decoys):
    """The decoys, as the process that was started with them has them."""
    mine = {os.readlink(f"/proc/{pid}/fd/{at}") for at in (900, 60, 200, 201, 202, 203)}
    assert {str(decoys), str(decoys / "secret")} < mine and len(mine) == 4, mine
    return mine


def test_control_a_program_has_them(decoys):
    told = subprocess.run(started(decoys, ["sh", "-c", "cat <&6; ls /proc/self/fd; echo $LISTEN_FDS"]), capture_output=True, text=True)
    assert told.stdout.startswith("canary") and {"3", "60", "900"} < set(told.stdout.split()), told


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
@pytest.mark.parametrize("tier", [*TIERS, "gvisor"])
def test_of_a_run(decoys, caller, tier):
    """With rules, so that brig-proxy is there too."""
    if tier == "gvisor" and not Path(RUNSC).exists():
        pytest.skip(f"no {RUNSC}: apt install runsc")
    command = caller.command("-q", *WATCHED, "--tier", tier, "--allow", "example.com", "--", "sh", "-c", "env; echo ready; exec sleep 60")
    run = subprocess.Popen(started(decoys, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                           env={**os.environ, "BRIG_RUNSC": RUNSC})
    try:
        said = b""
        while b"ready\n" not in said:
            line = run.stdout.readline()
            assert line, run.stderr.read()
            said += line
        assert b"LISTEN_" not in said
        decoy, others = names_of(run.pid, decoys), below(run.pid)
        assert len(others) >= 3, others
        for pid in others:
            assert not links(pid) & decoy, (pid, Path(f"/proc/{pid}/comm").read_text(), links(pid))
    finally:
        end(run)


@pytest.mark.parametrize("user", USERS)
def test_of_a_daemon(decoys, user):
    """The first is the one that it listens on; the others are nobody's."""
    with Daemon(user, wrapper=started(decoys, [], listening=1)) as daemon:
        box = daemon.create("python")
        told = box.execute("import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')], "
                           "[n for n in os.environ if 'LISTEN' in n])")
        text = "".join(line.get("text", "") for line in told if line["type"] == "stdout")
        assert "canary" not in text and str(decoys) not in text and text.rstrip().endswith("[]"), told
        decoy, front, others = names_of(daemon.pid, decoys), daemon.front(), daemon.children()
        listener = os.readlink(f"/proc/{daemon.pid}/fd/3")
        assert listener in decoy and listener in links(front), "control: what it was given to listen on is used"
        assert len(others) >= 4, others
        for pid, name in others.items():
            assert not links(pid) & (decoy - {listener} if pid == front else decoy), (name, links(pid))


@pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root")
@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
def test_of_a_container(decoys, caller):
    """But those that --preserve-fds names, which are the engine's to hand on."""
    look = "ls -l /proc/self/fd; env"
    with bundle_of(caller) as bundle:
        bundle.shell(look)
        told = subprocess.run(started(decoys, bundle.command("run", "-b", bundle.folder, bundle.id)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert told.returncode == 0 and "A=b" in told.stdout and str(decoys) not in told.stdout and "socket" not in told.stdout, told
        kept = subprocess.run(started(decoys, bundle.command("run", "--preserve-fds", 4, "-b", bundle.folder, bundle.id)), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        assert kept.returncode == 0 and "socket" in kept.stdout and " 6 -> " in kept.stdout and " 7 -> " not in kept.stdout, kept
        bundle.start("sleep 60")
        told = subprocess.run(started(decoys, bundle.command("exec", bundle.id, "sh", "-c", look)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert told.returncode == 0 and "A=b" in told.stdout and str(decoys) not in told.stdout and "socket" not in told.stdout, told
        assert bundle.remove().returncode == 0
