"""A test that hangs fails with its own stack and a look at what it started, instead of costing the results of its whole file."""
import os
import signal
from pathlib import Path

import pytest
from form import FULL

# Far more than any test needs on a busy machine; the long form has tests that run for hours. A test that needs more says how
# much: @pytest.mark.seconds(3000).
SECONDS = 36000 if FULL else 900


def seen_of(pid, name):
    """Where a process is: its state, what it waits in, and its stack in the kernel where that may be read."""
    told = [f"{pid} {name}"]
    for entry in ("wchan", "syscall", "stack"):
        try:
            told.append(Path(f"/proc/{pid}/{entry}").read_text(errors="replace").strip().replace("\n", " < "))
        except OSError:
            pass
    return "  ".join(told)


def hangs(seconds):
    from helpers import below  # makes copies of the programs under test, which not every suite needs
    started = "\n".join(seen_of(pid, name) for pid, name in sorted(below(os.getpid()).items()))
    raise TimeoutError(f"the test has not ended after {seconds} s; what runs below it:\n{started}")


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(most): a test that may take longer than others")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    mark = item.get_closest_marker("seconds")
    seconds = max(SECONDS, mark.args[0]) if mark else SECONDS
    signal.signal(signal.SIGALRM, lambda number, frame: hangs(seconds))
    signal.alarm(seconds)
    yield
    signal.alarm(0)
