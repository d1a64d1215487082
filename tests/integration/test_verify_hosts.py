"""brig verify on hosts as users have them: with engines, buses and agents in /run, and started from control groups of any name.

A row fails for what can be done (somebody could be connected to), never for a name that can be seen: the process tier shows
names (docs/filesystem.md)."""

import concurrent.futures
import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from form import FULL
from helpers import IS_ROOT, NO_CGROUP, PUBLIC, ROOT, SANITIZED, TIERS, remove_group
from verifylib import fresh_user, rows, told, verify, weak_programs

pytestmark = pytest.mark.skipif(SANITIZED, reason="verify sends brig itself inside, and what a sanitizer maps does not fit into a "
                                                   "sandbox's limits")

FAKE = Path(__file__).resolve().parents[1] / "lib" / "fakehost.py"
CALLERS = {"root": lambda: ROOT, "user": fresh_user}
# Of a host on which all may connect to everything, one on which only root may, and one that has nothing but the user's own.
HELD = {("everybody", "root"), ("everybody", "user"), ("root", "root"), ("own", "root"), ("own", "user")}
HOSTS = ["everybody", "root", "own"]

needs_root = pytest.mark.skipif(not IS_ROOT, reason="mounting over /run needs root")


class OnHost:
    """A caller of brig on such a host."""

    def __init__(self, caller, openness):
        self.caller, self.openness = caller, openness

    def outside(self, *command):
        own = ["unshare", "--mount", "--propagation", "private", "/usr/bin/python3", str(FAKE), self.openness, str(self.caller.uid)]
        return [*own, *self.caller.outside(*command)]


def run(job):
    openness, who, tier, *guard = job
    program, env = (weak_programs() / "brig", {"BRIG_WEAKEN": guard[0]}) if guard else (PUBLIC / "brig", {})
    return verify(OnHost(CALLERS[who](), openness), "--json", "--level", "high", "--tier", tier, program=program, env=env)


def run_all(jobs):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return dict(zip(jobs, pool.map(run, jobs)))


def row(result, name="C-13.sockets"):
    (cell,) = told(result)["cells"]
    return next(row for row in cell["rows"] if row["id"] == name)


# Each kind of host for both callers and on both tiers; each with each in the full form.
CLEAN = [(openness, who, tier) for openness in HOSTS for who in CALLERS for tier in TIERS
         if FULL or openness == "everybody" or (who == "root") == (tier == "container")]


@pytest.fixture(scope="module")
def clean():
    return run_all(CLEAN)


@needs_root
@pytest.mark.parametrize("openness, who, tier", CLEAN)
def test_sockets_that_cannot_be_connected_to_are_no_failure(openness, who, tier, clean):
    result = clean[openness, who, tier]
    (cell,) = told(result)["cells"]
    assert (result.returncode, rows(cell, "failed")) == (0, set()), result.stdout
    said = row(result)
    assert said["verdict"] == ("held" if (openness, who) in HELD else "not applicable"), said


# What is left out, and what that opens.
OPEN = [("everybody", "root", "process", "seccomp"), ("everybody", "user", "process", "seccomp"),
        ("everybody", "root", "container", "root"), ("everybody", "user", "container", "root"),
        ("own", "user", "process", "seccomp"), ("own", "user", "container", "root")]
# Root's sandboxes are another user's, to whom these sockets are closed.
CLOSED = [("root", "root", "process", "seccomp"), ("root", "root", "container", "root")]


@pytest.fixture(scope="module")
def weakened():
    weak_programs()
    return run_all(OPEN + CLOSED)


@needs_root
@pytest.mark.parametrize("job", OPEN, ids="-".join)
def test_control_without_the_guard_they_are_connected_to_and_the_row_fails(job, weakened):
    result, said = weakened[job], row(weakened[job])
    assert result.returncode == 1 and said["verdict"] == "failed" and job[3] in said["guards"], said
    assert "/run/user/" in said["seen"] if job[0] == "own" else ".sock was connected to" in said["seen"], said


@needs_root
@pytest.mark.parametrize("job", CLOSED, ids="-".join)
def test_the_uid_of_a_sandbox_is_a_guard_of_its_own(job, weakened):
    said = row(weakened[job])
    assert said["verdict"] == "held" and said["guards"] == [], said


# ---- control groups ----

@contextlib.contextmanager
def group(name):
    """A control group of that name below our own, as far as there are any: its folders."""
    made = []
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, own = line.split(":", 2)
            folder = Path(f"/sys/fs/cgroup/{kinds}{own}") / name
            if kinds in ("", "memory", "pids") and (folder.parent / "cgroup.procs").exists():
                try:
                    folder.mkdir()
                except OSError as error:
                    pytest.skip(f"no control group can be made here: {error}")
                made.append(folder)
        yield made
    finally:
        for folder in made:
            for path, _, _ in os.walk(folder, topdown=False):
                remove_group(path)


class InGroup:
    def __init__(self, caller, folders):
        self.caller, self.folders = caller, folders

    def outside(self, *command):
        join = "".join(f"echo $$ >{folder}/cgroup.procs && " for folder in self.folders)
        return ["sh", "-c", f'{join}exec "$@"', "sh", *self.caller.outside(*command)]


@pytest.mark.skipif(not IS_ROOT, reason="only root can make a control group everywhere")
@pytest.mark.parametrize("who, tier, options", [
    pytest.param(who, tier, options, id=f"{word}-{who}-{tier}")
    for word, options in (("cgroup", []), ("no-cgroup", NO_CGROUP)) for who in CALLERS for tier in TIERS
    if FULL or (who == "root") == ((tier == "container") == (word == "cgroup"))])
def test_who_starts_it_may_be_in_a_group_with_the_name_of_brig(who, tier, options):
    """That group stays, and is nothing that a sandbox left behind."""
    with group(f"brig-ci-{os.getpid()}") as folders:
        if not folders:
            pytest.skip("there are no control groups here")
        result = verify(InGroup(CALLERS[who](), folders), "--json", "--level", "high", "--tier", tier, *options)
        (cell,) = told(result)["cells"]
        assert (result.returncode, rows(cell, "failed")) == (0, set()), result.stdout
        assert row(result, "L-02")["verdict"] == "held"


def test_the_machine_s_own_run_is_left_alone():
    """Without a mount namespace of its own the host that is made for a test is refused."""
    refused = subprocess.run(["/usr/bin/python3", FAKE, "own", "0", "true"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "mount namespace" in refused.stderr
    assert not any(line.startswith("fake ") for line in Path("/proc/self/mounts").read_text().splitlines())
