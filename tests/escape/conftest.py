"""Sets the escape suite up: builds the attack programs, puts brig where an ordinary user can run it, and raises
a fence around everything that the suite starts. All of it is one process's own, so that several runs (of different files, to
be faster) can stand side by side on one machine."""

import os
import pathlib

import pytest

import costs
import daemonlib
import drawn
import hostview
import lablib
import timelimit
import whole
from escapelib import FENCE, HERE, PLACE, USER_ID

# The suite's own ordinary user for the daemons too: limits that are counted per user count nobody else.
daemonlib.USER_ID = USER_ID


@pytest.fixture(scope="session", autouse=True)
def house():
    hostview.become_subreaper()
    PLACE.build()
    if os.getuid() == 0:
        FENCE.raise_up()
        hostview.make_own_view(PLACE.base, [HERE.parents[1], PLACE.source.parent])
    yield
    if os.getuid() == 0:
        hostview.leave_own_tmp()
    PLACE.remove()
    FENCE.take_down()


@pytest.fixture(scope="session", autouse=True)
def needs_brig(request, house):
    """Without the binary only the controls can be run: pytest -m controls."""
    if not pathlib.Path(PLACE.brig).exists() and request.config.option.markexpr != "controls":
        pytest.exit(f"no brig at {PLACE.source}: build it, or set BRIG", returncode=2)


def pytest_configure(config):
    for plugin in (costs, drawn, timelimit, whole):
        config.pluginmanager.register(plugin)
    config.addinivalue_line("markers", "controls: shows that the attacks work where nothing contains them")


@pytest.fixture
def diff(house):
    """DIFF: nothing may be left on the host when the test is over."""
    snapshot = hostview.Snapshot(FENCE, PLACE.base)
    yield snapshot
    left = snapshot.leftovers()
    assert not left, f"left behind: {left}"


@pytest.fixture(scope="session")
def lab(house):
    """The closed internet; made when the first test asks for it."""
    import netlab
    made = netlab.Lab()
    try:
        made.start()
        hostview.STARTED.update(made.processes)
        lablib.set_lab(made)
        yield made
    finally:
        lablib.set_lab(None)
        made.stop()
