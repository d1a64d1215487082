"""Which of a matrix the quick form runs: each test for every caller and on every tier, but not for each pair of them.

Of a test that there is for root and an ordinary user, on the container and on the process tier, two of the four are drawn: one
diagonal or the other, by the test's name, so that all four are tried everywhere in the suite, and always the same. Of a test
that says that it is not about the caller (`@pytest.mark.anyone`), and of a row's variants, one of two is drawn. The full form
runs all of them."""
import zlib

import pytest

from form import FULL

CALLERS, TIERS = ("root", "user"), ("container", "process")
# What each row is tried with besides: uid 0 inside, the lowest level. Every caller has the row without them.
VARIANTS = {"uid0", "low"}


def parts(item):
    """(what else its name says, caller, tier), or None for who is not there once."""
    words = item.callspec.id.split("-") if hasattr(item, "callspec") else []
    callers, tiers = ([word for word in words if word in names] for names in (CALLERS, TIERS))
    rest = (item.parent.nodeid, item.originalname, *(word for word in words if word not in CALLERS + TIERS))
    return rest, callers[0] if len(callers) == 1 else None, tiers[0] if len(tiers) == 1 else None


def leaves(group):
    """Those of a group that the quick form leaves to the full one: (item, caller, tier) with the same name but for these."""
    test = group[0][0]
    second = zlib.crc32("::".join(parts(test)[0]).encode()) & 1
    if len(group) == 4 and len({(caller, tier) for _, caller, tier in group}) == 4:
        return [item for item, caller, tier in group if ((caller == "root") != (tier == "container")) != second]
    one = test.get_closest_marker("anyone") or VARIANTS & {*parts(test)[0]}
    if len(group) == 2 and one and {caller for _, caller, _ in group} == set(CALLERS):
        return [item for item, caller, _ in group if (caller == "root") != second]
    return []


def pytest_configure(config):
    config.addinivalue_line("markers", "anyone: does not depend on who starts it: the quick form has it for one caller")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    # Who names one of the four means it.
    asked = [*(arg for arg in config.args if "[" in arg), *(word for word in CALLERS + TIERS if word in config.option.keyword)]
    if FULL or asked:
        return
    groups = {}
    for item in items:
        rest, caller, tier = parts(item)
        if caller:
            groups.setdefault(rest, []).append((item, caller, tier))
    left = {id(item) for group in groups.values() for item in leaves(group)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
    items[:] = [item for item in items if id(item) not in left]
