"""The quick form leaves no caller, no tier and no test out (tests/lib/drawn.py)."""
import subprocess
import sys
from pathlib import Path

import pytest

MATRIX = """import pytest

@pytest.mark.parametrize("tier", ["container", "process"])
@pytest.mark.parametrize("caller", ["root", "user"])
@pytest.mark.parametrize("other", ["a", "b", "c", "d"])
def test_each_with_each(other, caller, tier): pass

@pytest.mark.parametrize("caller", ["root", "user"])
def test_of_callers(caller): pass

@pytest.mark.anyone
@pytest.mark.parametrize("caller", ["root", "user"])
@pytest.mark.parametrize("other", ["a", "b", "c", "d", "e", "f"])
def test_of_anyone(other, caller): pass

@pytest.mark.parametrize("cell", ["root-container", "user-container", "user-process"])
def test_that_has_a_gap(cell): pass

def test_of_nothing(): pass
"""


@pytest.fixture
def collect(tmp_path):
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1] / 'lib')!r})\nimport drawn\n"
                                          "def pytest_configure(config):\n    config.pluginmanager.register(drawn)\n")
    (tmp_path / "test_matrix.py").write_text(MATRIX)

    def run(*args, full=False):
        done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-W", "error", *args], cwd=tmp_path,
                              env={"PATH": "/usr/bin:/bin", "BRIG_TEST_FULL": str(int(full))}, capture_output=True, text=True, check=False)
        return {line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line}

    return run


def test_each_caller_and_each_tier_stay(collect):
    some, every = collect(), collect(full=True)
    assert len(every) == 16 + 2 + 12 + 3 + 1 and some < every
    drawn = [name for name in some if name.startswith("test_each")]
    for other in "abcd":
        pairs = {name for name in drawn if f"-{other}]" in name or f"[{other}-" in name}
        assert len(pairs) == 2 and all(any(word in name for name in pairs) for word in ("root", "user", "container", "process")), pairs
    assert {("root" in name) == ("container" in name) for name in drawn} == {True, False}, "both diagonals are drawn"
    assert sum(name.startswith("test_of_anyone") for name in some) == 6
    assert every - some == {name for name in every - some if name.startswith(("test_each", "test_of_anyone"))}, "of what is no matrix all stay"


def test_what_is_named_is_run(collect):
    assert len(collect("-k", "test_each and user and process")) == 4
    for name in sorted(collect(full=True))[:4]:
        assert collect(f"test_matrix.py::{name}") == {name}
