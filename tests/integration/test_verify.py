"""brig verify: holds on this host, says what it cannot try, and notices each guard that is left out."""

import concurrent.futures
import fcntl
import functools
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from form import FULL
from helpers import BRIG, CALLERS, IS_ROOT, PUBLIC, ROOT, SANITIZED, TOP, USER, all_pids, end, wait_for
from verifylib import ENV, RUNNER, WEAK, fresh_user, own_leftovers, rows, told, verify, weak_programs

pytestmark = pytest.mark.skipif(SANITIZED, reason="verify sends brig itself inside, and what a sanitizer maps does not fit into a "
                                                   "sandbox's limits")

WEAKEN_H = (TOP / "src/os/weaken.h").read_text()
GUARDS = re.findall(r'^ +GUARD\(\w+, "([^"]+)"', WEAKEN_H, re.M)


@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_every_level_of_this_host_holds(caller):
    result = verify(caller, "--json")
    answer = told(result)
    failed = [(cell["level"], cell["tier"], row["id"], row["seen"]) for cell in answer["cells"] for row in cell["rows"]
              if row["verdict"] == "failed"]
    assert (result.returncode, failed) == (0, []), result.stderr
    tried = {(cell["level"], cell["tier"]) for cell in answer["cells"] if cell["tried"]}
    assert {("low", "process"), ("medium", "container"), ("high", "container"), ("high", "process")} <= tried
    assert all(cell["why"] for cell in answer["cells"] if not cell["tried"])
    for cell in answer["cells"]:
        assert all(row["why"] for row in cell["rows"] if row["verdict"] == "not applicable")
        held = rows(cell, "held")
        assert not cell["tried"] or len(held) >= 60, f"hardly anything could be tried: {sorted(held)}"
        for boundary in ("kernel", "filesystem", "network", "credentials", "lifecycle"):
            assert not cell["tried"] or any(r["boundary"] == boundary and r["id"] in held for r in cell["rows"])


@functools.cache
def no_wasm_tier():
    """Why there is none here, or nothing."""
    doctor = json.loads(subprocess.run([PUBLIC / "brig", "doctor", "--json"], capture_output=True, text=True, check=False).stdout)
    return next(tier.get("why", "") for tier in doctor["tiers"] if tier["tier"] == "wasm")


@pytest.mark.parametrize("level, tier", [("low", "wasm"), ("high", "wasm"), ("low", "wasm-process")])
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_the_wasm_tiers_hold(caller, level, tier):
    """Modules that attack, and all other attacks in the place of a runner that was broken. On level low nothing may be executed."""
    if no_wasm_tier():
        pytest.skip(no_wasm_tier())
    # A policy's own folders come before those of the attacks.
    policy = PUBLIC / "verify-wasm.yaml"
    policy.write_text('level: high\nkernel: {tier: wasm}\nfilesystem: {ro: [/usr/share/doc], cwd: /usr/share/doc}\n')
    policy.chmod(0o644)
    result = verify(caller, *(["--policy", str(policy)] if level == "high" else ["--tier", tier, "--level", "low"]), "--json")
    (cell,) = told(result)["cells"]
    assert (result.returncode, cell["tier"], rows(cell, "failed")) == (0, tier, set()), result.stdout
    modules = {row["id"] for row in cell["rows"] if row["id"].startswith("W-")}
    untried = {row["id"]: row["why"] for row in cell["rows"] if row["verdict"] == "not applicable"}
    assert len(modules) == 20 and modules & set(untried) <= {"W-06.sleep", "W-08.loop", "W-08.memory"} | ({"W-10"} if level == "high" else set()), untried
    assert "N-05.rule" not in {row["id"] for row in cell["rows"]}, "it has no sockets, and so no rules"
    assert len(rows(cell, "held") - modules) >= 60


# ---- what it says ----

def test_the_table_for_people():
    result = verify(ROOT if IS_ROOT else USER, "--level", "low", "--tier", "process")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "\033" not in result.stdout and result.stderr == ""
    for word in ("kernel", "filesystem", "network", "credentials", "lifecycle", "K-05.int80", "Not applicable, because"):
        assert word in result.stdout
    assert re.search(r"^\d+ held, 0 FAILED, \d+ not applicable; \d+ sandboxes, [\d.]+ s$", result.stdout, re.M)


def test_the_list_runs_nothing_and_is_the_table_of_the_manual():
    text = verify(USER, "--list")
    assert text.returncode == 0 and "K-01.inherited" in text.stdout
    listed = told(verify(USER, "--list", "--json"))
    assert len(listed) >= 100 and len({row["id"] for row in listed}) == len(listed)
    assert {row["boundary"] for row in listed} == {"kernel", "filesystem", "network", "credentials", "lifecycle"}
    made = subprocess.run([TOP / "tools/verify-table", BRIG], capture_output=True, text=True, check=True).stdout
    assert made in (TOP / "docs/verify.md").read_text(), "run tools/verify-table --write"


def test_every_guard_is_in_the_manual():
    page = re.findall(r"^\| `([a-z-]+)` \| .* \| ([a-z` ]+) \|$", (TOP / "docs/verify.md").read_text(), re.M)
    assert [guard for guard, _ in page] == GUARDS
    assert {guard for guard, attested in page if attested != "no"} == set(ATTESTED)


def test_on_a_terminal_it_has_colours_and_shows_that_it_works():
    caller = fresh_user()
    ours, theirs = os.openpty()
    process = subprocess.Popen(caller.outside(str(PUBLIC / "brig"), "verify", "--level", "low"), cwd="/", stdin=subprocess.DEVNULL,
                               stdout=theirs, stderr=theirs, env={**ENV, "TERM": "xterm", "LANG": "C.UTF-8"})
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # the other end was closed
    os.close(ours)
    assert process.wait(300) == 0, shown
    assert b"\033[32m" in shown and "✓".encode() in shown and b"attacking: " in shown


def test_who_interrupts_it_is_left_with_nothing():
    caller = fresh_user()
    if not IS_ROOT:
        pytest.skip("an ordinary user cannot be a user of whom nothing else is")
    process = subprocess.Popen(caller.outside(str(PUBLIC / "brig"), "verify"), cwd="/", stdin=subprocess.DEVNULL, env=ENV,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: own_leftovers(caller.uid), 60, "a folder of canaries")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    finally:
        end(process)
    assert process.returncode == 125

    def tasks():
        return [pid for pid in all_pids() if owner(pid) == caller.uid]

    wait_for(lambda: not tasks() and not own_leftovers(caller.uid), 60, "the end of all that it started")


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return None


def test_bad_usage_is_refused():
    for words in (["now"], ["--level", "none"], ["--tier", "hardware"], ["--policy", "/nonexistent"], ["--only", "K-0"], ["--only", ""]):
        assert verify(USER, *words).returncode == 125
    refused = verify(USER, "--level", "critical", "--json")
    assert refused.returncode == 125 and told(refused)["error"]["message"]


def test_only_some_of_the_attacks():
    """By their ids, or what those begin with; no sandbox is made that none of them needs."""
    answer = told(verify(USER, "--level", "low", "--tier", "process", "--only", "F-01", "--only", "R-09", "--json"))
    (cell,) = answer["cells"]
    ids = {row["id"] for row in cell["rows"]}
    assert {"F-01.read", "F-01.write", "R-09"} <= ids and all(re.match("F-01[.]|R-09$", name) for name in ids), ids
    assert answer["summary"]["sandboxes"] == 2 and {"F-01.read", "R-09"} <= rows(cell, "held")


def test_the_policy_of_a_file_is_what_is_attacked():
    """Its level, its tier, its limits; and what it leaves open is not called a failure."""
    caller = fresh_user()
    policy = PUBLIC / "verify.yaml"
    policy.write_text('level: high\nfilesystem: {exec: false}\nlifecycle: {cgroup: "off", timeout: unlimited}\n'
                      'commands: {default: deny}\nnetwork: {allow: ["example.com:443"], ask: true}\n'
                      'credentials: {secrets: [{name: TOKEN, source: "cmd:/bin/false", origin: "https://example.com"}]}\n')
    policy.chmod(0o644)
    result = verify(caller, "--policy", str(policy), "--json")
    answer = told(result)
    assert result.returncode == 0, result.stdout
    other = verify(caller, "--policy", str(policy), "--tier", "process")
    assert other.returncode == 0, other.stdout
    (cell,) = answer["cells"]
    assert (cell["level"], cell["tier"]) == ("high", "container")
    assert "F-28" in rows(cell, "held"), "what was written could be executed"
    assert {"R-07", "K-19.path"} <= rows(cell, "not applicable")
    assert own_leftovers(caller.uid) == [] or not IS_ROOT


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_writable_root_is_attacked_as_any_other(uid):
    """What cannot be tried there says a reason that is true of it; what can be is."""
    caller = fresh_user()
    policy = PUBLIC / f"verify-writable-{uid}.yaml"
    policy.write_text(f'level: high\nkernel: {{tier: container, uid: {uid}}}\nfilesystem: {{writable_root: true}}\nlifecycle: {{cgroup: "off", disk: 64M}}\n')
    policy.chmod(0o644)
    result = verify(caller, "--policy", str(policy), "--json")
    (cell,) = told(result)["cells"]
    assert result.returncode == 0 and rows(cell, "failed") == set(), result.stdout
    assert {"F-01.homes", "F-11.mounts", "F-11.contents"} <= rows(cell, "held"), result.stdout
    why = {row["id"]: row["why"] for row in cell["rows"] if row["verdict"] == "not applicable"}
    assert "Landlock says less" in why["F-20"] and "writable" in why["F-11.system"], why
    assert own_leftovers(caller.uid) == [] or not IS_ROOT


def test_the_hidden_verb_is_of_no_use_to_anybody_else():
    for words in ([], ["0"], ["0", "x"], ["99", "/tmp/x y 1"], ["0", "a" * 5000]):
        result = subprocess.run([PUBLIC / "brig", "(verify)", *words], capture_output=True, text=True, timeout=60)
        assert result.returncode == 125


# ---- it can fail ----

@pytest.fixture(scope="module")
def weak():
    return weak_programs()


# Who, level, tier, and a policy where the host's control groups must not be asked for: in what order they are tried.
CELLS = [("root", "high", "container"), ("user", "high", "container"), ("user", "high", "process")]
# Without these something stays that only a run without a control group lets the test take away.
# Guards of the runner; and the limits, which end a module as they end a program.
MODULES = ("user", "low", "wasm")
ENDS = {"limit-memory", "limit-timeout", "limit-cpu-time"}
# In the full form each guard is left out around the runner too. Without a private root it is not found, and no module runs; without
# a user namespace an ordinary user starts nothing.
AROUND = [("user", "high", "wasm"), ("user", "high", "wasm-process")]
NOT_AROUND = {"root", "namespace-mount", "namespace-user", "teardown", "supervisor"}
LEAVES = {"teardown": [("user", "low", "process")], "supervisor": [("user", "high", "container"), ("user", "high", "process")]}
# On both tiers: they are what everything else stands on.
EVERYWHERE = {"seccomp", "landlock"}
NO_CGROUP = ["--policy", str(PUBLIC / "no-cgroup.yaml")]


def run_cell(weak, cell, guard=None, only=()):
    who, level, tier = cell
    caller = ROOT if who == "root" else fresh_user()
    env = {"BRIG_WEAKEN": guard} if guard else {}
    # A group for root to lose, whoever runs the tests.
    prefix = ["setpriv", "--groups", "27", "--"] if who == "root" and IS_ROOT else []
    options = [] if who == "root" else NO_CGROUP
    options = [*options, *(word for row in only for word in ("--only", row))]
    result = verify(caller, "--json", "--level", level, "--tier", tier, *options, program=weak / "brig", env=env, prefix=prefix)
    if IS_ROOT and who == "user":
        for path in own_leftovers(caller.uid):
            shutil.rmtree(path, ignore_errors=True)
    answer = told(result)
    assert "cells" in answer, f"{guard} {cell}: {answer}"
    return result.returncode, answer["cells"][0]


@pytest.fixture(scope="module")
def all_held(weak):
    """Each cell with nothing left out: {cell: (status, what it said)}."""
    cells = [cell for cell in CELLS + LEAVES["teardown"] if cell[0] == "user" or IS_ROOT]
    if not no_wasm_tier():
        cells += [MODULES, *AROUND] if FULL else [MODULES]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return dict(zip(cells, pool.map(lambda cell: run_cell(weak, cell), cells)))


def expected(cell, guard):
    """The rows that name the guard, and could be tried."""
    return {row["id"] for row in cell["rows"] if guard in row["guards"] and row["verdict"] != "not applicable"}


def cells_for(guard, all_held):
    named = [cell for cell in all_held if expected(all_held[cell][1], guard)]
    if guard in LEAVES:
        return [cell for cell in LEAVES[guard] if cell in named]
    modules = [cell for cell in named if cell == MODULES and (guard in ENDS or guard.startswith("wasm-"))]
    modules += [cell for cell in named if cell in AROUND and guard not in NOT_AROUND]
    named = [cell for cell in named if cell in CELLS]
    return ([named[0], named[-1]] if guard in EVERYWHERE else named[:1]) + modules


@pytest.fixture(scope="module")
def without(weak, all_held):
    """Each guard left out, on the cells that have it: {guard: [(cell, status, what it said)]}. The quick form tries the rows that
    must fail, the full one whether no other does."""
    jobs = [(guard, cell) for guard in GUARDS for cell in cells_for(guard, all_held)]

    def rows_of(guard, cell):
        return () if FULL else sorted(expected(all_held[cell][1], guard))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda job: (*job, *run_cell(weak, job[1], job[0], rows_of(*job))), jobs))
    return {guard: [rest for name, *rest in done if name == guard] for guard in GUARDS}


def test_with_no_guard_left_out_everything_holds(all_held):
    for cell, (status, said) in all_held.items():
        assert (status, rows(said, "failed")) == (0, set()), cell


@pytest.mark.parametrize("guard", GUARDS)
def test_without_a_guard_its_rows_fail_and_no_other(guard, all_held, without):
    if guard.startswith("wasm-") and no_wasm_tier():
        pytest.skip(no_wasm_tier())
    if not without[guard]:
        assert not IS_ROOT, f"no row of this host needs {guard}"
        pytest.skip("only root has it to lose")
    for cell, status, said in without[guard]:
        failed = {row["id"]: row["seen"] for row in said["rows"] if row["verdict"] == "failed"}
        assert failed and set(failed) == expected(said, guard), (cell, failed)
        assert status == 1


# Guards that the attestation reads back; with options that make them be there.
ATTESTED = {
    **{guard: [] for guard in ("seccomp", "landlock", "no-new-privs", "capabilities", "namespace-mount", "namespace-pid",
                               "namespace-net", "namespace-ipc", "namespace-uts", "namespace-cgroup", "root", "read-only",
                               "descriptors", "environment", "limit-open-files")},
    "proc": ["--proc", "system"], "limit-pids": [], "groups": [], "namespace-user": [], "limit-memory": [],
}
ONLY_ROOT = {"groups", "namespace-user", "limit-memory"}


@pytest.mark.parametrize("guard", ATTESTED)
def test_attestation_alone_finds_a_guard_missing(guard, weak):
    if guard in ONLY_ROOT and not IS_ROOT:
        pytest.skip("only root has it to lose")
    caller = ROOT if guard in ONLY_ROOT else fresh_user()
    prefix = ["setpriv", "--groups", "27", "--"] if guard == "groups" else []
    if guard == "limit-memory" and not has_cgroup():
        pytest.skip("no control group counts memory here")

    def start(env):
        # A descriptor that is not closed on exec, for the guard that closes it.
        leak = fcntl.fcntl(0, fcntl.F_DUPFD, 230)
        try:
            command = caller.outside(*prefix, str(weak / "brig"), "run", *ATTESTED[guard], "--", "true")
            return subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, env={**ENV, **env},
                                  stdin=subprocess.DEVNULL, close_fds=True, pass_fds=[leak])
        finally:
            os.close(leak)

    control = start({})
    assert control.returncode == 0, control.stderr
    weakened = start({"BRIG_WEAKEN": guard})
    assert weakened.returncode == 0, f"without its check it is not started either: {weakened.stderr}"
    caught = start({"BRIG_WEAKEN": guard, "BRIG_WEAKEN_ATTESTED": "1"})
    assert caught.returncode == 125 and "attestation" in caught.stderr, caught


def has_cgroup():
    report = json.loads(subprocess.run([PUBLIC / "brig", "doctor", "--json"], capture_output=True, text=True, check=False).stdout)
    return any(fact["name"] == "cgroup limits" and fact["present"] for fact in report["facts"])


# Each switch of the tests, and the programs of tests/weak that have it.
SWITCHES = {b"BRIG_WEAKEN": WEAK, b"brig:BRIG_WEAKEN": (RUNNER,), b"BRIG_FAULT": ("brig", "brig-daemon"), b"BRIG_REVIEW_FAULT": ("brig",),
            b"BRIG_FAIL_ALLOC": WEAK, b"--faults": ("brig-daemon",)}


def test_what_is_installed_has_no_switch(weak):
    for word, names in SWITCHES.items():
        for name in names:
            assert name == RUNNER and no_wasm_tier() or word in (weak / name).read_bytes(), f"the control {name} has no {word} either"
        for name in (*WEAK, RUNNER, "brig-template.so"):
            path = Path(BRIG).parent / name
            assert not path.exists() or word not in path.read_bytes(), (name, word)
    ignored = subprocess.run([PUBLIC / "brig", "run", "--json", "--", "true"], capture_output=True, text=True, check=False,
                             env={**ENV, "BRIG_WEAKEN": "seccomp"})
    assert json.loads(ignored.stdout)["receipt"]["boundaries"]["kernel"]["seccomp"] == "filter"
