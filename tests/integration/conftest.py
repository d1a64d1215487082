import pytest

from helpers import CALLERS, TIERS


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
    return caller.with_options("--tier", tier, "--quiet")
