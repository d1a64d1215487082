"""The quick form leaves no caller, no tier and no test out (tests/lib/drawn.py)."""
import subprocess
import sys
from pathlib import Path

import pytest

MATRIX = """import pytest

@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("caller", ["root", "user"])
@pytest.mark.parametrize("other", list("abcdefghijkl"))
def test_each_with_each(other, caller, tier): pass

@pytest.mark.parametrize("caller", ["root", "user"])
@pytest.mark.parametrize("other", ["a", "b", "c", "d", "e", "f"])
def test_of_callers(other, caller): pass

@pytest.mark.everyone
@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("caller", ["root", "user"])
def test_of_everyone(caller, tier): pass

@pytest.mark.parametrize("variant", ["", "-low"])
@pytest.mark.parametrize("caller", ["root", "user"])
def test_of_variants(caller, variant): pass

@pytest.mark.parametrize("cell", ["root-container", "user-container", "user-process"])
def test_that_has_a_gap(cell): pass

@pytest.mark.parametrize("tier", ["container", "process"])
def test_of_tiers(tier): pass

def test_of_nothing(): pass
"""
PAIRS = {(caller, tier) for caller in ("root", "user") for tier in ("container", "process")}


@pytest.fixture
def collect(tmp_path):
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1] / 'lib')!r})\nimport drawn\n"
                                          "def pytest_configure(config):\n    config.pluginmanager.register(drawn)\n")
    for suite in ("integration", "escape"):
        (tmp_path / suite).mkdir()
        (tmp_path / suite / "test_matrix.py").write_text(MATRIX)

    def run(*args, suite="integration", full=False):
        done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-W", "error", *(args or [suite])],
                              cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "BRIG_TEST_FULL": str(int(full))}, capture_output=True, text=True, check=False)
        return {line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line}

    return run


def pairs(names, test, *more):
    """Whom a test has been drawn for: one (caller, tier) for each of its names."""
    words = [name.partition("[")[2].rstrip("]").split("-") for name in names if name.startswith(test + "[")]
    return [(caller, tier) for w in words if {*more} <= {*w} for caller, tier in PAIRS if {caller, tier} <= {*w}]


def test_each_test_stays_for_one(collect):
    some, every = collect(), collect(full=True)
    assert len(every) == 48 + 12 + 4 + 4 + 3 + 2 + 1 and some < every
    assert all(len(pairs(some, "test_each_with_each", other)) == 1 for other in "abcdefghijkl")
    assert {*pairs(some, "test_each_with_each")} == PAIRS, "all four are drawn for something"
    callers = [name for name in some if name.startswith("test_of_callers")]
    assert len(callers) == 6 and {"root" in name for name in callers} == {True, False}
    assert len(pairs(some, "test_that_has_a_gap")) == 1
    assert len([name for name in some if name.startswith("test_of_variants")]) == 2, "each variant for one"
    assert all(name in some for name in every if name.startswith(("test_of_everyone", "test_of_tiers", "test_of_nothing")))


def test_each_attack_stays_for_each_caller_and_on_each_tier(collect):
    some, every = collect(suite="escape"), collect(suite="escape", full=True)
    for other in "abcdefghijkl":
        drawn = pairs(some, "test_each_with_each", other)
        assert len(drawn) == 2 and {caller for caller, _ in drawn} == {"root", "user"} and {tier for _, tier in drawn} == {"container", "process"}
    assert {*pairs(some, "test_each_with_each")} == PAIRS, "both diagonals are drawn"
    assert sum("-low]" in name for name in some) == 1, "a variant has one caller"
    assert every - some == {name for name in every - some if name.startswith("test_each") or "-low]" in name}, "of the rest all stay"


def test_what_is_named_is_run(collect):
    for suite in ("integration", "escape"):
        assert len(collect(suite, "-k", "test_each and user and process")) == 12
        for name in sorted(collect(suite=suite, full=True))[:4]:
            assert collect(f"{suite}/test_matrix.py::{name}") == {name}
