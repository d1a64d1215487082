"""Which of a matrix the quick form runs: each attack on every tier, each other test once.

What a test promises is seldom about who started it, or about the tier, and every file has plenty of both. So of a test that there
is for root and an ordinary user, on the container and on the process tier, or for root and an ordinary user alone, the quick form
has one, drawn by the test's name: always the same, and all of them somewhere in a file. A row of the escape suite has two of the
four, each caller and each tier once. Where it is the very matrix that a test is about, `@pytest.mark.everyone` says so. Of a
row's variants one of two is drawn. The full form runs all of them."""
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


def is_row(test):
    return test.path.parent.name == "escape"


def leaves(group):
    """Those of a group that the quick form leaves to the full one: (item, caller, tier) with the same name but for these."""
    test = group[0][0]
    number = zlib.crc32("::".join(parts(test)[0]).encode())
    cells = sorted({(caller, str(tier)) for _, caller, tier in group})
    if len(cells) < len(group) or len(cells) == 1 or test.get_closest_marker("everyone"):
        return []
    if not is_row(test) or (len(cells) == 2 and VARIANTS & {*parts(test)[0]}):
        taken = {cells[number % len(cells)]}
    elif len(cells) == 4:
        diagonal = cells[0], cells[3]
        taken = {*diagonal} if number & 1 else {*cells} - {*diagonal}
    else:
        return []
    return [item for item, caller, tier in group if (caller, str(tier)) not in taken]


def pytest_configure(config):
    config.addinivalue_line("markers", "everyone: the quick form has it for every caller on every tier, too")


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
