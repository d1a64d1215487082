"""Tests that wait more than they compute run side by side with the others of their file.

    @pytest.mark.meanwhile
    def test_what_a_time_limit_ends(caller): ...

They begin with the first test of the run, a few at a time, each in a thread of its own, and are judged after all others; the
longest begins first if it says how long it takes, as in meanwhile(seconds=60). Such
a test has parameters alone: what it needs besides it makes itself, since pytest sets fixtures up one at a time. A fixture
that only hands on its parameter counts as one (caller, tier). It changes nothing that belongs to the whole process (the
environment, the current folder, signals), and nothing that it looks at changes with what others do."""
import concurrent.futures
import threading

import pytest

AT_A_TIME = 6


def marked(item):
    return item.get_closest_marker("meanwhile") is not None


def run(test, given, told, turn):
    with turn:
        try:
            told.set_result(test(**given))
        except BaseException as error:  # a skip, too: it is for who asks for the result
            told.set_exception(error)


def begin(items):
    turn = threading.Semaphore(AT_A_TIME)
    for item in sorted(items, key=lambda item: -item.get_closest_marker("meanwhile").kwargs.get("seconds", 0)):
        given = {name: value for name, value in (item.callspec.params if hasattr(item, "callspec") else {}).items()
                 if name in item._fixtureinfo.argnames}
        told = concurrent.futures.Future()
        threading.Thread(target=run, args=(item.obj, given, told, turn), daemon=True).start()
        item.obj = lambda told=told, **_: told.result()


def pytest_configure(config):
    config.addinivalue_line("markers", "meanwhile: waits more than it computes, and runs beside the others of its file")


def pytest_collection_modifyitems(items):
    for item in filter(marked, items):
        more = set(item._fixtureinfo.argnames) - set(item.callspec.params if hasattr(item, "callspec") else ())
        assert not more, f"{item.nodeid}: a test that runs beside others has no fixtures: {more}"
    items.sort(key=marked)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if not getattr(item.session, "meanwhile_began", False):
        item.session.meanwhile_began = True
        begin([other for other in item.session.items if marked(other)])
