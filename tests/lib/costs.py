"""How much CPU time each test took, with all processes that it waited for, in the report that tools/run-tests reads.

Of tests that run side by side (meanwhile.py) the first one pays for what the others do meanwhile."""
import resource

import pytest


def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    item.cpu_before = used()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield
    if hasattr(item, "cpu_before"):
        item.user_properties.append(("cpu", round(used() - item.cpu_before, 3)))
