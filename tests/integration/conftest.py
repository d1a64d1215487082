import os

import pytest

import costs
import drawn
import meanwhile
import timelimit
import whole
from helpers import ANY, CALLERS, TIERS, WATCHED
from imagelib import Store


def pytest_configure(config):
    for plugin in (costs, drawn, meanwhile, timelimit, whole):
        config.pluginmanager.register(plugin)
    config.addinivalue_line("markers", "clause(*ids): what of the runtime specification it shows (tests/lib/ociclauses.py)")
    config.addinivalue_line("markers", "builds: asked of a newer build of gVisor as well (tools/run-tests, tests/lib/poollib.py)")


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def caller(request):
    """brig at its defaults, as root and as an ordinary user."""
    return request.param


@pytest.fixture(params=TIERS)
def tier(request):
    return request.param


@pytest.fixture
def box(caller, tier):
    """brig on each tier, as root and as an ordinary user."""
    return caller.with_options("--tier", tier, "--quiet", *WATCHED)


@pytest.fixture
def store(caller):
    """A store of images of its own, for each caller."""
    with Store(caller) as made:
        yield made


@pytest.fixture
def one():
    """The same for one caller, where it makes no difference who that is."""
    with Store(ANY) as made:
        yield made


@pytest.fixture(scope="session")
def lab():
    """The closed internet of tests/lib/netlab; made when the first test asks for it."""
    if os.geteuid() != 0:
        pytest.skip("the lab's namespaces need root")
    import netlab
    from labcaller import LabCaller
    made = netlab.Lab()
    try:
        LabCaller.lab = made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["root", "user"])
def lab_caller(request, lab):
    from labcaller import LabCaller
    return LabCaller(request.param)


@pytest.fixture
def lab_box(lab_caller, tier):
    """brig in the lab on each tier, as root and as an ordinary user."""
    return lab_caller.with_options("--tier", tier)
