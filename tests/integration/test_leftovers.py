"""Nothing is left of a sandbox: no process, mount, cgroup, namespace or file, whatever ended it."""
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from helpers import ANY, CALLERS, TIERS, WATCHED, below, end, find_below, wait_for
from traces import Traces, alone

pytestmark = pytest.mark.everyone


@pytest.fixture
def traces():
    with alone():
        yield Traces()


BUSY = "cd ${TMPDIR:-/tmp}; mkdir -p a/b/c; ln -s / a/l; mkfifo a/p; chmod 0 a/b; (setsid sleep 300 &) ; sleep 300 & "


def test_control_a_running_sandbox_is_seen(caller, tier, traces):
    brig = caller.start("--tier", tier, "--", "sleep", "600")
    try:
        find_below(brig.pid, "sleep")
        with pytest.raises(AssertionError, match="left behind"):
            traces.none_left(0.5)
    finally:
        brig.send_signal(signal.SIGTERM)
        brig.communicate()
    traces.none_left()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave these")
def test_control_a_mount_a_group_and_an_orphan_are_seen(traces):
    place = Path(tempfile.mkdtemp(prefix="test-brig-"))
    name = f"brig-{secrets.token_hex(6)}"
    parents = [p for p in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if (p / "cgroup.procs").exists()]
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    subprocess.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 </dev/null &"], check=True)
    for parent in parents[:1]:
        (parent / name).mkdir()
    orphan = find_below(os.getpid(), "sleep")
    with pytest.raises(AssertionError) as told:
        traces.none_left(0.5)
    subprocess.run(["umount", place], check=True)
    place.rmdir()
    for parent in parents[:1]:
        (parent / name).rmdir()
    os.kill(orphan, signal.SIGKILL)
    assert str(place) in str(told.value) and f"process {orphan}'" in str(told.value)
    assert name in str(told.value) or not parents
    traces.none_left()


@pytest.mark.parametrize("script", ["true", "exit 3", "kill -9 $$", "kill -STOP $PPID; true"])
def test_after_an_end_with_stragglers(box, traces, script):
    box.run("--", "bash", "-c", BUSY + script)
    traces.none_left()


def test_after_limits(box, traces):
    box.run("--timeout", "300ms", "--", "bash", "-c", BUSY + "wait")
    box.run("-m", "32M", "--", "python3", "-c", "x = bytearray(100 << 20)")
    box.run("--pids", "16", "--timeout", "1s", "--", "bash", "-c", ":(){ :|:& };:; sleep 600")
    traces.none_left()


def test_after_refusals(box, traces):
    for options in (["--cwd", "/no/such"], ["--ro", "/no/such"], ["-m", "1K"], ["--pids", "1"]):
        box.run(*options, "--", "true")
    box.run("--", "no-such-command")
    traces.none_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_after_a_signal(box, traces, number):
    brig = box.start("--", "bash", "-c", BUSY + "sleep 300")
    # All three: bash goes on after an interrupt that comes while it waits for a child that ends well.
    wait_for(lambda: list(below(brig.pid).values()).count("sleep") == 3, what="it does nothing any more")
    brig.send_signal(number)
    brig.communicate(timeout=60)
    assert brig.returncode == 128 + number
    traces.none_left()


def test_after_kill_of_the_supervisor_in_the_middle(box, traces):
    brig = box.start("--", "bash", "-c", BUSY + "sleep 300")
    find_below(brig.pid, "sleep")
    brig.send_signal(signal.SIGKILL)
    brig.wait()
    traces.none_left()
    brig.communicate()


def test_after_kill_of_the_supervisor_at_any_point(box, traces):
    """From the first instruction to a little after the last, in random steps."""
    began = time.monotonic()
    box.run("--", "true")
    whole = time.monotonic() - began
    dice = random.Random(os.getpid())
    for _ in range(25):
        brig = box.start("--", "sh", "-c", "cd ${TMPDIR:-/tmp}; echo > f; (setsid sleep 300 &); sleep 0.01")
        time.sleep(dice.uniform(0, 1.3 * whole))
        brig.send_signal(signal.SIGKILL)
        brig.wait()
        brig.communicate()
    traces.none_left()


def test_after_a_signal_at_any_point(box, traces):
    dice = random.Random(os.getpid() + 1)
    for i in range(12):
        brig = box.start("--", "sleep", "0.01")
        time.sleep(dice.uniform(0, 0.03))
        brig.send_signal(signal.SIGINT if i % 2 else signal.SIGTERM)
        brig.communicate(timeout=60)
        assert brig.returncode in (0, 125, 130, 143, -signal.SIGINT, -signal.SIGTERM), brig.returncode
    traces.none_left()


def test_after_kill_of_init(box, traces):
    brig = box.start("--", "bash", "-c", BUSY + "sleep 300")
    find_below(brig.pid, "sleep")
    os.kill(find_below(brig.pid, "brig-init"), signal.SIGKILL)
    brig.communicate(timeout=60)
    assert brig.returncode == 137
    traces.none_left()


def guardian_of(brig):
    found = [pid for pid, name in below(brig.pid).items() if name == "brig"]
    return found[0] if found else None


def test_after_kill_of_the_guardian(box, traces):
    brig = box.start("--", "bash", "-c", BUSY + "sleep 300")
    find_below(brig.pid, "sleep")
    guardian = guardian_of(brig)
    if guardian is None:
        assert "container" in box.options, "without namespaces a guardian is needed"
        brig.send_signal(signal.SIGTERM)
    else:
        os.kill(guardian, signal.SIGKILL)
    brig.communicate(timeout=60)
    assert brig.returncode != 0
    traces.none_left()


def test_the_guardian_holds_no_folder_of_the_callers(caller, traces):
    """It may stay longer than anybody else, and the folder could not be unmounted."""
    with tempfile.TemporaryDirectory(prefix="test-brig-") as place:
        os.chmod(place, 0o755)
        brig = caller.start("--tier", "process", "--", "sleep", "600", cwd=place)
        find_below(brig.pid, "sleep")
        assert os.readlink(f"/proc/{brig.pid}/cwd") == place, "control: the supervisor does"
        assert os.readlink(f"/proc/{guardian_of(brig)}/cwd") == "/"
        end(brig)
    traces.none_left()


def test_the_code_cannot_kill_its_guardian_or_supervisor(box, traces):
    """With its pid known; the control is that the caller can."""
    brig = box.start("--", "cat", stdin=subprocess.PIPE)
    find_below(brig.pid, "cat")
    told = box.json("--", "python3", "-c", f"import os\ntry: os.kill({brig.pid}, 9)\nexcept OSError as e: print(e.errno)")
    assert told["stdout"] in ("1\n", "3\n"), told
    assert brig.poll() is None
    end(brig)
    traces.none_left()


def test_after_a_deep_and_wide_workspace(caller, traces):
    code = "import os\nos.chdir(os.environ['TMPDIR'])\nfor i in range(1500): open(str(i), 'w').close()\nfor i in range(1200):\n  os.mkdir('d' * 200); os.chdir('d' * 200)"
    told = caller.json("--tier", "process", "-q", *WATCHED, "--inodes", "100k", "--timeout", "280s", "--", "python3", "-c", code)
    assert told["exit_code"] == 0 or told["limit_hit"] == "disk", told  # too deep to be measured
    traces.none_left()


def test_many_runs_grow_nothing(traces):
    for _ in range(40):
        assert ANY.run("--", "true").returncode == 0
    traces.none_left()


SCARCE = [[], ["--review"], ["--allow", "example.org"]]


@pytest.mark.parametrize("options", SCARCE, ids=lambda o: o[0] if o else "plain")
def test_after_a_start_that_wants_descriptors(box, traces, options):
    """Each start is refused a little later than the one before, until one succeeds: no folder, group or record stays."""
    top = Path(tempfile.mkdtemp(prefix="test-scarce-"))
    state = top / "state"
    try:
        for folder in (top, state, top / "project"):
            folder.mkdir(exist_ok=True)
            os.chown(folder, box.uid, box.uid)
        if options == ["--review"]:
            options = ["--review", str(top / "project")]
        refused = 0
        for most in range(4, 64):
            command = ["prlimit", f"--nofile={most}:{most}", *box.command(*options, "--", "true")]
            env = {"PATH": os.environ["PATH"], "HOME": str(top), "XDG_STATE_HOME": str(state)}
            done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=env, stdin=subprocess.DEVNULL,
                                  timeout=300, check=False)
            # Of a run that took place its record of the network stays, and nothing of any start that was refused.
            left = [str(path) for path in state.rglob("*") if path.parent.name in ("reviews", "net")]
            if done.returncode == 0:
                break
            assert done.returncode == 125 and done.stderr.strip(), done
            assert not left, (most, done.stderr, left)
            refused += 1
        assert refused > 8, "the control: there were starts that wanted descriptors"
        traces.none_left()
    finally:
        shutil.rmtree(top)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can keep a folder from being removed")
def test_what_cannot_be_removed_is_said(traces):
    """Something is mounted on the private folder: it stays, and the run does not end as if all were well."""
    box = ANY.with_options("--tier", "process", "--quiet")
    control = box.run("--", "true")
    assert control.returncode == 0 and "left behind" not in control.stderr
    brig = box.start("--json", "--", "sh", "-c", "pwd; cat", stdin=subprocess.PIPE, text=True)
    try:
        folder = os.readlink(f"/proc/{find_below(brig.pid, 'cat')}/cwd")
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        out, err = brig.communicate(timeout=300)
        assert brig.returncode == 125 and "left behind" in err and folder in err, (brig.returncode, err)
        told = json.loads(out)
        assert told["exit_code"] == 0 and folder in told["left_behind"], told
    finally:
        if brig.poll() is None:
            end(brig)
        subprocess.run(["umount", folder], check=True)
    os.rmdir(folder)
    traces.none_left()


def test_a_group_that_cannot_be_removed_is_said(traces):
    box = ANY.with_options("--tier", "container", "--quiet")
    brig = box.start("--", "cat", stdin=subprocess.PIPE, text=True)
    try:
        groups = Path(f"/proc/{find_below(brig.pid, 'cat')}/cgroup").read_text().split()
        mine = [Path("/sys/fs/cgroup", *([] if names == "" else [names]), path.lstrip("/"))
                for _, names, path in (line.split(":", 2) for line in groups) if "/brig-" in path]
        if not mine:
            pytest.skip("this caller has no control groups here")
        inner = mine[0] / "inner"
        inner.mkdir()
        try:
            _, err = brig.communicate(timeout=300)
            assert brig.returncode == 125 and "left behind" in err and str(mine[0]) in err, (brig.returncode, err)
        finally:
            inner.rmdir()
        mine[0].rmdir()
    finally:
        if brig.poll() is None:
            end(brig)
    traces.none_left()


def test_both_callers_and_tiers_are_covered():
    assert len(CALLERS) * len(TIERS) == (4 if os.geteuid() == 0 else 2)
