"""L rows: nothing outlives its sandbox, whatever dies and whenever."""

import json
import os
import random
import signal
import time

import pytest

import hostview
from escapelib import FENCE, FULL, PLACE, REFUSED, TIERS, cells, end_tree, finish, told

KILLS = 5000 if FULL else 120


@cells(TIERS)
def test_L01_clean_teardown(cell, diff):
    """Sixty runs of every kind of ending, refusals included."""
    folder = PLACE.folder("rw", cell.user, 0o777)
    ways = [
        (["/bin/true"], []), (["/bin/false"], []), (["/no/such/program"], []), ([PLACE.attack, "die", "signal", "11"], []),
        ([PLACE.attack, "linger"], []), ([PLACE.attack, "die", "0"], ["--ro", "/no/such/folder"]),
        (["/bin/sh", "-c", "exit 3"], ["--rw", folder]), (["/bin/true"], ["--timeout", "nonsense"]),
        ([PLACE.attack, "daemons", "/dev/null", "600", "leave"], []), ([PLACE.attack, "stubborn", "600"], ["--timeout", "50ms"]),
    ]
    for _ in range(6):
        for command, options in ways:
            cell.run(command, options)
    assert not list(folder.iterdir())


def count_calls(cell, command, options):
    log = PLACE.folder("log", "user", 0o777) / "calls"
    cell.run(command, options, wrapper=[PLACE.tool("tracer"), "count", log, "--"])
    return int(hostview.read(log))


def kill_after_calls(cell, command, options):
    """The numbers of the calls to kill at, how many of these kills hit, and what each left behind."""
    # A run that is held up looks at its tasks more often: what counts is one that was not.
    total = min(count_calls(cell, command, options) for _ in range(3))
    assert total > 20
    stride = max(1, -(-total // KILLS))
    numbers = list(range(1 + random.randrange(stride), total + 1, stride))
    snapshot = hostview.Snapshot(FENCE, PLACE.base)
    problems, hits = {}, 0
    for n in numbers:
        result = cell.run(command, options, wrapper=[PLACE.tool("tracer"), "kill", str(n), "--"])
        hits += result.rc == 137
        left = snapshot.leftovers()
        if left:
            problems[f"{n} of {total}"] = left
            clear(left)
            snapshot = hostview.Snapshot(FENCE, PLACE.base)
        if len(problems) >= 8:
            break
    return numbers, hits, problems


@cells(TIERS)
def test_L02_supervisor_killed_after_every_call(cell):
    """SIGKILL after the Nth system call of the supervisor, for N from the first to the last."""
    command, options = [PLACE.attack, "linger"], ["--timeout", "200s"]
    # Where all runs that were counted had been held up, the numbers go beyond the last call: then they are counted again.
    for _ in range(5):
        numbers, hits, problems = kill_after_calls(cell, command, options)
        assert not problems, f"killed at call N, left behind: {json.dumps(problems, indent=1)}"
        if hits >= len(numbers) * 0.8:
            break
    assert hits >= len(numbers) * 0.8, f"only {hits} of {len(numbers)} kills hit"
    assert cell.run(["/bin/true"]).rc == 0, "the next run works"


@cells(TIERS)
def test_L02_supervisor_killed_while_it_kills(cell, diff):
    """SIGKILL at each kill(2) of the supervisor: what it has not reached yet does not lose who knows of it."""
    number = str({"x86_64": 62, "aarch64": 129}[os.uname().machine])
    for n in range(1, 60):
        result = cell.run([PLACE.attack, "linger"], ["--timeout", "200s"],
                          wrapper=[PLACE.tool("tracer"), "kill-call", number, str(n), "--"])
        assert hostview.wait_for(lambda: not diff.extra().get("tasks")), f"killed at kill number {n}: {diff.extra()}"
        if result.rc != 137:
            break
    assert result.rc != 137, "it makes no more of them"


def clear(left):
    """Do not let one finding spoil the next measurement."""
    for entry in left.get("tasks", []):
        try:
            os.kill(int(entry.split()[0]), signal.SIGKILL)
        except (OSError, ValueError):
            pass


@cells(TIERS)
def test_L02_killed_while_running(cell, diff):
    """KILL, TERM, INT and HUP for the supervisor of a stubborn workload: all dead, long before its deadline."""
    for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process = cell.start([PLACE.attack, "batch", "daemons", "/dev/null", "600", "leave", "--", "stubborn", "600"],
                             ["--timeout", "280s"], json_out=False)
        told(process, "\nstubborn\n")
        process.send_signal(sig)
        gone = hostview.wait_for(lambda: not diff.extra().get("tasks"))
        left = diff.extra()
        end_tree(process)
        assert gone, f"{sig.name}: {left}"


@cells(TIERS)
def test_L03_killing_single_components(cell, diff):
    """Every helper of a running sandbox is killed by itself, and in its first milliseconds."""
    process = cell.start([PLACE.attack, "stubborn", "600"], ["--timeout", "280s"])
    assert hostview.wait_for(lambda: hostview.workload(process.pid, PLACE.attack))
    helpers = [p for p in diff_tasks(diff) if p != process.pid]
    end_tree(process)
    hostview.wait_for(lambda: not diff.extra().get("tasks"))
    problems = []
    for index in range(len(helpers)):
        process = cell.start([PLACE.attack, "stubborn", "600"], ["--timeout", "10s"])
        assert hostview.wait_for(lambda: hostview.workload(process.pid, PLACE.attack))
        tasks = [p for p in diff_tasks(diff) if p != process.pid]
        if index >= len(tasks):
            end_tree(process)
            continue
        name = hostview.read(f"/proc/{tasks[index]}/comm").strip()
        os.kill(tasks[index], signal.SIGKILL)
        ended = hostview.wait_for(lambda: process.poll() is not None, 10 + hostview.SOON)
        if not ended:
            problems.append(f"{name}: the sandbox runs on after its deadline")
        result = finish(process) if ended else None
        end_tree(process)
        if result and result.rc == 0:
            problems.append(f"{name}: reported as success")
        left = hostview.wait_for(lambda: not diff.extra().get("tasks"))
        if not left:
            problems.append(f"{name}: {diff.extra()}")
    for _ in range(25):
        process = cell.start([PLACE.attack, "linger"], ["--timeout", "200s"])
        end = time.monotonic() + random.uniform(0, 0.006)
        victims = []
        while time.monotonic() < end or not victims and process.poll() is None:
            victims = [p for p in hostview.alive_below(process.pid)]
        for pid in victims[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        finish(process)
    assert not problems, problems


def diff_tasks(snapshot):
    return sorted(int(x.split()[0]) for x in snapshot.extra().get("tasks", []))


def test_L04_no_reuse():
    pytest.skip("`brig run` has no sandbox that a second verb could address")


@cells(TIERS)
def test_L05_no_residue(cell, diff):
    """What one task leaves in files, memory, names and environment, the next one does not find."""
    token = f"RESIDUE{os.getpid()}"
    leave = (f'for d in /workspace /tmp /var/tmp /dev/shm "$HOME" "$TMPDIR" .; do echo {token} > "$d/{token}"; done; '
             f'{PLACE.attack} ipc make {token}; export X={token}; echo {token} >> "$HOME/.bash_history"; echo ok')
    assert "ok" in cell.run(["/bin/sh", "-c", leave]).json["stdout"]
    for _ in range(3):
        shown = cell.attack("search", token, options=["--output", "4M", "--timeout", "280s"])
        hits = [x for x in shown.splitlines() if x.startswith("FOUND") and "/proc/" not in x]
        assert not hits, hits
        assert "OK" not in cell.attack("ipc", "find", token)


# L-06, L-07, L-09 are verbs on a living sandbox and its clients: test_daemon_life.py.


def stop_part(process, which, snapshot):
    """Stops these tasks of a running sandbox and gives their pids; none if it ended before they were all told to stand still."""
    work = hostview.wait_for(lambda: hostview.workload(process.pid, PLACE.attack) or process.poll() is not None)
    if process.poll() is not None:
        return []
    if which == "workload":
        stopped = work
    elif which == "init":
        stopped = hostview.chain(work[0], process.pid)
    else:
        stopped = [p for p in diff_tasks(snapshot) if p != process.pid]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return []
    return stopped if process.poll() is None else []


@pytest.mark.parametrize("which", ["workload", "init", "every helper"])
@cells(TIERS)
def test_L08_a_stopped_part(cell, which, diff):
    """Whatever is stopped, the deadline is met."""
    # The part has to be stopped before the deadline: on a busy machine a later one is tried.
    for seconds in (1, 5, 25):
        process = cell.start([PLACE.attack, "stubborn", "600"], ["--timeout", f"{seconds}s"])
        start = time.monotonic()
        stopped = stop_part(process, which, diff)
        if stopped:
            break
        assert finish(process).rc == 124
    assert stopped, "it always ended first"
    ended = hostview.wait_for(lambda: process.poll() is not None, seconds + hostview.SOON)
    took = time.monotonic() - start
    if not ended:
        end_tree(process)
        for pid in stopped:
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)
    assert ended, f"{which} stopped: still there after {took:.1f} s, with a deadline of {seconds} s"
    assert finish(process).rc == 124


@cells(TIERS)
def test_L08_input_that_never_ends(cell, diff):
    """A workload that waits for input from a pipe that nobody closes meets its deadline."""
    reader, writer = os.pipe()
    try:
        result = finish(cell.start(["/bin/cat"], ["--timeout", "1s"], stdin=reader), 1 + hostview.SOON)
        assert result.rc == 124, result
    finally:
        os.close(reader)
        os.close(writer)


@cells(TIERS)
def test_L10_honest_reasons(cell):
    """Each way to end is told apart."""
    def ending(command, *options):
        result = cell.run(command, options)
        return result.rc, result.json if result.out.strip().startswith("{") else None

    rc, a = ending([PLACE.attack, "die", "7"])
    assert rc == 7 and a["exit_code"] == 7 and a["signal"] in (0, None) and not a["limit_hit"], a
    for number in (9, 11, 15):
        rc, a = ending([PLACE.attack, "die", "signal", str(number)])
        assert rc == 128 + number and a["signal"] == number and not a["timed_out"] and not a["oom_killed"], a
    rc, a = ending([PLACE.attack, "stubborn", "600"], "--timeout", "300ms")
    assert rc == 124 and a["timed_out"] and a["limit_hit"] == "timeout" and not a["oom_killed"], a
    rc, a = ending([PLACE.attack, "memory", "many", "512"], "-m", "48M")
    assert a["oom_killed"] and a["limit_hit"] == "memory" and not a["timed_out"], a
    rc, a = ending([PLACE.attack, "flood", "4"], "--output", "10K")
    assert a["stdout_truncated"] and a["limit_hit"] in (None, "output"), a["limit_hit"]
    assert ending(["/no/such/program"])[0] == 127
    assert ending(["/etc/passwd"])[0] == 126
    assert ending(["/bin/true"], "--level", "critical")[0] == REFUSED
    assert ending(["/bin/true"], "--ro", "/no/such/folder")[0] == REFUSED
    rc, a = ending(["/usr/bin/unshare", "-U", "/bin/true"])
    assert rc not in (0, REFUSED) and any("clone" in d["what"] or "unshare" in d["what"] for d in a["denials"]), a["denials"]


def test_L11_soak():
    pytest.skip("`make soak` runs ten thousand sandboxes; L-01 is its short form")
