"""A tenant against the daemon's memory and its other clients (accounts, docs/threat-model.md AC-1 to AC-3): everything that
a client can make it hold, at once. tests/soak/tenant is the same for ten minutes."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import daemonlib
import pytest
import tenantlib
from daemonlib import USERS, Daemon, wait_for
from tenantlib import MIB, Neighbour, Tenant

SECONDS = 20
LIMIT = 64_000_000


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param) as made:
        yield made
        assert made.process.poll() is None, (made.folder / "said").read_text()


@pytest.fixture(scope="module")
def key(daemon):
    return daemon.add_key("tenant")


@pytest.fixture
def tenant(daemon, key):
    made = Tenant(daemon, key)
    yield made
    made.close()
    wait_for(lambda: not held(daemon), what=f"everything goes back: {held(daemon)}")


def account(daemon, name="tenant"):
    return next(a for a in daemon.request("GET", "/accounts").json if a["name"] == name)


def held(daemon):
    """What the tenant still has; its own question is not among it."""
    return {kind: row["used"] for kind, row in account(daemon).items() if isinstance(row, dict) and row["used"]}


class Watch(threading.Thread):
    """The most memory that the front has."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.stop = pid, 0, threading.Event()

    def run(self):
        while not self.stop.wait(0.02):
            self.most = max(self.most, resident(self.pid))


def test_all_of_it_at_once(daemon, key):
    front, neighbour = daemon.front(), Neighbour(daemon, daemon.add_key("neighbour"))
    before, (half, usual) = resident(front), neighbour.measure(3)
    watch = Watch(front)
    watch.start()
    lib = pathlib.Path(tenantlib.__file__)
    process = subprocess.Popen([sys.executable, lib, str(daemon.port), key, str(SECONDS)], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(lib.parent)})
    times = []
    operator = daemon.seen_from("127.0.0.3")
    try:
        while process.poll() is None:
            _, slow = neighbour.measure(1)
            times += neighbour.times
            # The operator looks, and is looked after.
            assert operator.request("GET", "/health", key=None, timeout=300).status == 200
            events, answer = operator.connection(300), None
            operator.send(events, "GET", "/events")
            answer = events.getresponse()
            assert answer.status == 200, answer.status
            events.close()
    finally:
        process.kill()
        told = json.loads(process.communicate()[0] or "{}")
        watch.stop.set()
        watch.join()
    seen, slow = account(daemon), tenantlib.quantile(times, 0.99)
    rounds = {le: int(n) for le, n in re.findall(r'brig_duration_seconds_bucket{what="round",le="([^"]+)"} (\d+)',
                                                 daemon.request("GET", "/metrics").body.decode())}
    print(f"resident before {before / 1e6:.1f} MB, at most {watch.most / 1e6:.1f} MB; "
          f"p99 of a neighbour {usual * 1e3:.1f} ms, meanwhile {slow * 1e3:.1f} ms (median {half * 1e3:.1f}, "
          f"{tenantlib.quantile(times, 0.5) * 1e3:.1f}); of {rounds['+Inf']} rounds of the loop {rounds['0.002']} took "
          f"less than 2 ms, {rounds['0.05']} less than 50; {told}")
    for id in daemon.live():
        if id != neighbour.box.id:
            daemon.request("DELETE", f"/sandboxes/{id}")
    assert watch.most < LIMIT, f"{watch.most / 1e6:.1f} MB"
    assert not neighbour.wrong, neighbour.wrong[:3]
    assert slow < 20 * max(usual, 0.05), "others wait"
    assert rounds["0.05"] > 0.98 * rounds["+Inf"], f"the loop was held up: {rounds}"
    # The control: it was at its limits.
    assert seen["bytes"]["peak"] > 12 * MIB and seen["bytes"]["refused"] and seen["readers"]["refused"], seen
    wait_for(lambda: not held(daemon), what="everything goes back")
    wait_for(lambda: resident(front) < before + 8 * MIB, what="memory goes back to the system")
    assert neighbour.box.sh("echo fine").out == b"fine\n"
    neighbour.box.kill()


def drip(daemon, key):
    """What the daemon says to a body that comes a few bytes at a time."""
    slow = Tenant(daemon, key)
    s = slow.open()
    s.sendall(slow.head("POST", "/sandboxes", length=100000) + b'{"templateID":"')
    end = time.monotonic() + 120
    try:
        while time.monotonic() < end:
            try:
                s.sendall(b"x" * 10)
                s.settimeout(1)
                return s.recv(4096)
            except TimeoutError:
                pass
        return b""
    finally:
        slow.close()


@pytest.fixture(scope="module")
def dripped(daemon):
    """It takes ten seconds, in which others can be tested; as another tenant, whose account is his own. It is over before the
    test that opens so many connections that idle ones may be closed."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool.submit(drip, daemon, daemon.add_key("slow"))


def test_input_of_a_client_that_left(daemon, tenant, dripped):
    box = tenant.box()
    before = account(daemon)["bytes"]["used"]
    tenant.send_input(box, 6 * MIB, 4)
    assert account(daemon)["bytes"]["peak"] > 6 * MIB, "the control: it was held"
    for s in tenant.sockets:
        s.close()
    tenant.sockets = []
    wait_for(lambda: account(daemon)["bytes"]["used"] < before + MIB // 2, what="what nobody waits for is let go")
    assert box.sh("echo usable").out == b"usable\n"


def test_watchers_end_with_their_sandbox(daemon, tenant):
    box = tenant.box()
    tenant.watchers(box, 8, 50)
    assert account(daemon)["watchers"]["used"] >= 8
    box.kill()
    wait_for(lambda: account(daemon)["watchers"]["used"] == 0, what="they end with it")


def test_a_long_list_is_read_as_it_is_taken(daemon, tenant):
    box = tenant.box()
    tenant.listings(box, count=1, files=20000)
    path = "/home/user/" + "d" * 200
    time.sleep(0.5)
    assert account(daemon)["bytes"]["used"] < 2 * MIB, "what nobody reads stays inside"
    entries = box.call("ListDir", {"path": path}).json["entries"]
    assert len(entries) == 20000 and len({e["name"] for e in entries}) == 20000
    assert box.call("ListDir", {"path": "/nowhere"}).status == 404


def rounds(daemon):
    """How many rounds of the event loop there were, and how many of them held it for longer than 50 ms."""
    text = daemon.request("GET", "/metrics").body.decode()
    seen = {le: int(n) for le, n in re.findall(r'brig_duration_seconds_bucket{what="round",le="([^"]+)"} (\d+)', text)}
    return seen["+Inf"], seen["+Inf"] - seen["0.05"]


def test_a_large_result_is_written_in_pieces(daemon, tenant):
    """2 MiB of what is longest as JSON in ASCII: whole, it held the loop for 90 ms each time."""
    box, times = tenant.box("python"), 10
    text = "\u00e9\"\n" * 500000
    code = "class R:\n def _repr_html_(self): return '\u00e9\"\\n' * 500000\n def __repr__(self): return 'R'\nR()"
    box.execute("1")
    _, before = rounds(daemon)
    for _ in range(times):
        told = [line for line in box.execute(code, timeout=600) if line["type"] == "result"]
        assert len(told) == 1 and told[0]["html"] == text, "nothing of it is missing"
    assert rounds(daemon)[1] - before < times / 2


def test_tunnels_count_and_end_with_their_sandbox(daemon, tenant):
    box = tenant.box()
    tenant.tunnels(box, 300)
    told = account(daemon)["tunnels"]
    assert told["used"] == told["limit"] == 256 and told["refused"] >= 1, tenant.told
    assert tenant.told["tunnel", "429"] >= 1, tenant.told
    box.kill()
    wait_for(lambda: account(daemon)["tunnels"]["used"] == 0, what="they end with it")


def test_readers_of_events_leave_room_for_the_operator(daemon, tenant):
    tenant.readers(80)
    assert tenant.told == {("events", "200"): 8, ("events", "429"): 72}
    c = daemon.connection()
    daemon.send(c, "GET", "/events")
    assert c.getresponse().status == 200
    c.close()


def test_a_body_has_a_pace(dripped):
    """One that is kept until it is complete, a few bytes at a time."""
    told = dripped.result(300)
    assert told.startswith(b"HTTP/1.1 408"), told


def test_idle_connections_keep_nobody_out(daemon, tenant):
    tenant.idle(900)
    for _ in range(5):
        assert daemon.request("GET", "/health", key=None).status == 200
    assert daemon.request("GET", "/v2/sandboxes", key=tenant.key).status == 200


def test_a_refusal_names_the_account_and_the_limit(daemon, tenant):
    for _ in range(8):
        tenant.readers(1)
    answer = daemon.request("GET", "/events", key=tenant.key)
    row = account(daemon)
    assert answer.status == 429 and answer.headers["Retry-After"], answer
    assert f"key {row['key']} has 8 readers of events" in answer.json["message"], answer
    assert "limit of now 8" in answer.json["message"]
    mine = daemon.request("GET", "/accounts", key=tenant.key).json
    assert [a["key"] for a in mine] == [row["key"]], "a key sees its own account alone"
    records = daemon.request("GET", "/audit?kind=account.refused").json["records"]
    assert any(r["key"] == row["key"] for r in records), records
    assert daemon.metric("brig_account_refused_total") >= 1
