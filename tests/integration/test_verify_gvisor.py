"""brig verify --tier gvisor: the rows of the container tier from behind the Sentry, and the G rows; and that it can fail.

With BRIG_TEST_FULL each guard is left out alone; else some of them at once. BRIG_TEST_RUNSC names the runsc (tests/lib/poollib.py)."""

import concurrent.futures
import os
import re
from pathlib import Path

import pytest

import poollib
from form import FULL
from helpers import CALLERS, IS_ROOT, PUBLIC, ROOT, SANITIZED, TOP
from verifylib import fresh_user, rows, told, verify, weak_programs

RUNSC = poollib.runsc()
NAMED = {"BRIG_RUNSC": RUNSC}
pytestmark = [pytest.mark.skipif(SANITIZED, reason="verify sends brig itself inside, and what a sanitizer maps does not fit into a sandbox's limits"),
              pytest.mark.skipif(not Path(RUNSC).exists(), reason=f"no {RUNSC}: apt install runsc")]

GUARDS = re.findall(r'^ +GUARD\(\w+, "([^"]+)"', (TOP / "src/os/weaken.h").read_text(), re.M)
# Without these runsc does not run: there is nothing to attack, and verify says that nothing answered.
NEEDED = {"no-new-privs", "namespace-mount", "root"}
# The process tier's, the wasm tier's; and what an ordinary user can start nothing without.
ELSEWHERE = {"teardown", *(guard for guard in GUARDS if guard.startswith("wasm-")), *(() if IS_ROOT else ["namespace-user"])}
# What Debian's build gives the code of its own. A row that joins them is to be looked at, and not to be waved through.
ANSWERED = {"K-07.user", "K-07.all", "K-10.ptrace", "K-14", "K-15.perf", "K-18.proc", "K-18.sysfs", "K-23.syslog", "K-23.handles", "K-30", "R-06.nice"}
# These must have been tried, whoever calls.
TRIED = {"G-01.spaces", "G-01.engine", "G-03", "G-05", "G-06", "G-07", "K-17.filter", "F-01.read", "F-11.modes", "F-20", "N-01.tcp", "N-05.rule", "C-02", "R-01",
         "R-04", "R-08", "L-02"}


def attack(caller, *options, **kwargs):
    result = verify(caller, "--json", "--tier", "gvisor", "--level", "high", *options, **kwargs)
    answer = told(result)
    assert "cells" in answer, answer
    return result.returncode, answer["cells"][0]


def seen(cell):
    return {row["id"]: row["seen"] for row in cell["rows"] if row["verdict"] == "failed"}


@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_every_row_holds_or_says_why_not(caller):
    status, cell = attack(caller if caller is ROOT else fresh_user(), env=NAMED)
    assert (status, seen(cell)) == (0, {})
    assert cell["tier"] == "gvisor" and TRIED <= rows(cell, "held")
    why = {row["id"]: row["why"] for row in cell["rows"] if row["verdict"] == "not applicable"}
    assert all(why.values())
    answered = {name for name, text in why.items() if "answers it itself" in text}
    assert answered <= ANSWERED or RUNSC != "/usr/bin/runsc", answered - ANSWERED
    assert len(rows(cell, "held")) >= 90


def test_levels_that_the_tier_does_not_have_are_not_attacked():
    """And a policy that names the tier is enough to have it attacked; where there is no runsc, that is said."""
    caller = fresh_user()
    result = verify(caller, "--json", "--tier", "gvisor", "--level", "low", env=NAMED)
    assert result.returncode == 125 and "filesystem.exec" in told(result)["error"]["message"], result
    policy = PUBLIC / "verify-gvisor.yaml"
    policy.write_text("level: high\nkernel: {tier: gvisor}\n")
    policy.chmod(0o644)
    result = verify(caller, "--json", "--policy", str(policy), env={"BRIG_RUNSC": "/nonexistent"})
    assert result.returncode == 125 and "nonexistent" in told(result)["error"]["message"], result


# ---- it can fail ----

def expected(cell, guards):
    return {row["id"] for row in cell["rows"] if guards & set(row["guards"]) and row["verdict"] != "not applicable"}


def without(guards):
    weak = weak_programs()
    as_root = IS_ROOT and "supervisor" not in guards  # without it root's groups would stay
    prefix = ["setpriv", "--groups", "27", "--"] if as_root else []
    return attack(ROOT if as_root else fresh_user(), program=weak / "brig", env={**NAMED, "BRIG_WEAKEN": ",".join(guards)}, prefix=prefix)


def test_without_some_guards_their_rows_fail_and_no_other():
    """The filter, the network's namespace, the empty environment and a limit: among the rows are those that an engine which was broken into
    could do, and what is looked at from outside."""
    guards = {"seccomp", "namespace-net", "environment", "limit-open-files"}
    status, cell = without(sorted(guards))
    assert status == 1 and set(seen(cell)) == expected(cell, guards), seen(cell)
    assert {"G-01.engine", "K-17.filter", "N-01.tcp", "C-01.environment", "R-09"} <= set(seen(cell))


@pytest.mark.skipif(not FULL, reason="one guard at a time: the full form")
def test_without_a_guard_its_rows_fail_and_no_other():
    weak_programs()
    names = [guard for guard in GUARDS if guard not in ELSEWHERE]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for guard, (status, cell) in zip(names, pool.map(lambda guard: without([guard]), names)):
            if guard in NEEDED:
                assert status == 1 and len(seen(cell)) > 50, guard
            else:  # one that this caller or this tier does not have changes nothing
                wanted = expected(cell, {guard})
                assert (status, set(seen(cell))) == (1 if wanted else 0, wanted), (guard, seen(cell))
