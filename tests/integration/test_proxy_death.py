"""Whatever part of a run with a network dies, and whenever: no network remains, nothing is left, leases are given back."""
import os
import random
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

import netlab
import traces
from form import FULL
from helpers import PUBLIC, all_pids, below, end, read_stat, wait_for

try:
    import vaultlib
except ImportError:
    vaultlib = None

LOOP = """
import os, socket, sys, time, urllib.request
def get(url, seconds):
    try: return urllib.request.urlopen(url, timeout=seconds).status
    except Exception as e: return type(e).__name__
first = get('https://api.lab.test/first', 30)
s = socket.create_connection(('api.lab.test', 443), 30)
print(first, flush=True)
for line in sys.stdin:
    print(get('https://api.lab.test/again', float(line)), get('http://other.lab.test/again', float(line)), flush=True)
"""


class Run:
    """One run with rules, a secret and an open connection."""

    def __init__(self, box, lab, source=None, env=None):
        self.lab, self.box = lab, box
        self.token = "death" + secrets.token_hex(6)
        self.value = "value-" + secrets.token_hex(12)
        self.quiet = self.tasks()
        key = PUBLIC / f"key-{self.token}"
        key.write_text(self.value)
        key.chmod(0o600)
        os.chown(key, box.uid, box.uid)
        self.key = key
        self.process = box.start("--secret", f"LAB_TOKEN={source or f'file:{key}'}@https://api.lab.test", "--allow", "other.lab.test",
                                 "--timeout", "280s", "--", "python3", "-c", LOOP, self.token, stdin=subprocess.PIPE,
                                 env={**os.environ, **(env or {})})
        first = self.process.stdout.readline().strip()
        assert first == b"200", (first, self.process.stderr.read()[-2000:] if not first else "")

    def tasks(self):
        """Everything that lives in the lab's network, or that was told this run's token."""
        home, found = os.readlink(self.lab.net), {}
        for pid in all_pids():
            stat = read_stat(pid)
            try:
                inside = os.readlink(f"/proc/{pid}/ns/net") == home
                told = self.token in Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            except OSError:
                continue
            if stat and stat[1] not in "ZX" and (inside or told):
                found[pid] = stat[0]
        return found

    def new(self):
        return {p: n for p, n in self.tasks().items() if p not in self.quiet}

    def part(self, name):
        """The pids of one part: supervisor, proxy, keeper, init, code, guardian."""
        tree = below(self.process.pid)
        proxies = sorted(p for p, n in tree.items() if n.startswith("brig-proxy") or "keeper" in n)
        stats = {p: read_stat(p) for p in proxies}  # None: it has ended meanwhile
        keepers = [p for p, stat in stats.items() if stat and stat[2] in proxies]
        return {"supervisor": [self.process.pid], "keeper": keepers, "proxy": [p for p in proxies if p not in keepers],
                "init": [p for p, n in tree.items() if n == "brig-init"], "code": [p for p, n in tree.items() if n.startswith("python3")],
                "guardian": [p for p, n in tree.items() if n == "brig" or "guardian" in n]}[name]

    def again(self, seconds=30):
        """What the code sees now: [status of the origin, status of another host], or None when it is gone. Where no answer is
        due, a few seconds are enough."""
        try:
            self.process.stdin.write(b"%d\n" % seconds)
            self.process.stdin.flush()
        except OSError:
            return None
        line = self.process.stdout.readline().split()
        return line or None

    def finish(self):
        if self.process.stdin:
            try:
                self.process.stdin.close()
            except OSError:
                pass
            self.process.stdin = None
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            end(self.process)
            raise

    def assert_gone(self):
        wait_for(lambda: not self.new(), what=f"the end of {self.new()}")
        wait_for(lambda: not self.lab.run("ss", "-tnH", "state", "established", f"( dst {netlab.API} or dst {netlab.OTHER} )").stdout.strip(),
                 what="the end of its connections")
        self.key.unlink(missing_ok=True)


@pytest.fixture
def folders():
    """Temporary places, before and after."""
    places = traces.Traces(traces.folders)
    yield
    places.none_left()


@pytest.mark.parametrize("part", ["proxy", "keeper", "init", "code", "guardian", "supervisor"])
def test_a_part_is_killed(lab_box, part, lab, folders):
    """SIGKILL for one part: the origin gets nothing more, nobody else either, everything goes."""
    run = Run(lab_box, lab)
    try:
        assert run.again() == [b"200", b"200"], "control: it works until then"
        pids = run.part(part)
        if part == "guardian" and not pids:
            pytest.skip("an ordinary user's container has nothing that a guardian would have to remove")
        assert pids, f"no {part} among {below(run.process.pid)}"
        watch = lab.watch()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not [p for p in pids if (stat := read_stat(p)) and stat[1] not in "ZX"])
        if part in ("proxy", "init", "code", "supervisor"):
            told = run.again(2)
            assert told is None or b"200" not in told, f"{part} is dead, and still: {told}"
            assert not watch.requests() and not watch.sink()
        elif part == "keeper":
            told = run.again(2)
            assert told is None or run.value.encode() not in watch.bytes(netlab.OTHER)
        if part == "supervisor":
            run.process.communicate(timeout=60)
        else:
            run.finish()
        run.assert_gone()
    finally:
        end(run.process)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_the_caller_ends_it(lab_box, sig, lab, folders):
    run = Run(lab_box, lab)
    try:
        run.process.send_signal(sig)
        run.process.communicate(timeout=60)
        run.assert_gone()
    finally:
        end(run.process)


def ended_or_stands(process):
    """For wait_for: the run has ended, or its code goes on for as long as no run does whose guardian or init is gone. What was
    killed was then about to be the proxy, or another of its helpers."""
    since = None

    def look():
        nonlocal since
        if process.poll() is not None:
            return True
        since = (since or time.monotonic()) if "sleep" in below(process.pid).values() else None
        return since is not None and time.monotonic() - since > 10

    return look


def test_killed_at_any_moment(lab_box, lab, folders):
    """The supervisor, or its youngest child, dies within the first milliseconds; eight times each, and in the long form fifty."""
    probe = Run(lab_box, lab)
    probe.finish()
    probe.assert_gone()
    for i in range(100 if FULL else 16):
        process = lab_box.start("--allow", "api.lab.test", "--timeout", "280s", "--", "sleep", "600")
        time.sleep(random.uniform(0, 0.05))
        try:
            parts = below(process.pid)
            victim = process.pid if i % 2 else max(parts, default=process.pid)
            stat = read_stat(victim)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
            # Where the supervisor dies in the same instant as guardian or init, tasks may stay (docs/lifecycle.md): one at a time.
            # Only these two: a child of init that has done its part and gone ends no run; nor does the end of what was about to
            # be brig-proxy or another helper.
            if stat and stat[2] == process.pid and parts[victim] in ("brig", "brig-init"):
                wait_for(ended_or_stands(process), what="the end of the run")
            elif i % 2 == 0:
                time.sleep(0.02)
                process.kill()
        finally:
            end(process)
    wait_for(lambda: not probe.new(), what=f"the end of {probe.new()}")


def test_stopped_and_continued(lab_box, lab, folders):
    """A proxy that was stopped for a while goes on; nothing was sent meanwhile."""
    run = Run(lab_box, lab)
    try:
        pids = run.part("proxy")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        watch = lab.watch()
        told = run.again(2)
        assert told is None or b"200" not in told
        assert not watch.requests()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: run.again() == [b"200", b"200"])
        run.finish()
        run.assert_gone()
    finally:
        end(run.process)


# ---- Vault ----

@pytest.fixture
def vault(lab):
    if vaultlib is None:
        pytest.fail("tests/lib/vaultlib.py is not there")
    server = netlab.in_namespace(lab.net, vault_server)
    yield server
    server.close()


def vault_server():
    return vaultlib.Vault()


def test_a_keeper_that_is_slow_outlives_its_proxy(lab_box, lab, vault, folders):
    """When its proxy dies, the keeper comes up to the supervisor, which kills whatever else comes up there from the sandbox."""
    run = Run(lab_box, lab, source=vault.source, env=vault.env)
    keepers = run.part("keeper")
    try:
        assert keepers and vault.leases and not vault.revoked
        for pid in keepers:
            os.kill(pid, signal.SIGSTOP)
        for pid in run.part("proxy"):
            os.kill(pid, signal.SIGKILL)
        run.finish()
        for pid in keepers:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: set(vault.leases) <= set(vault.revoked), what="the end of the lease")
        run.assert_gone()
    finally:
        end(run.process)


@pytest.mark.parametrize("part", ["nothing", "code", "proxy", "supervisor", "init"])
def test_the_lease_is_revoked(lab_box, part, lab, vault, folders):
    """A dynamic secret of Vault is given back at the end of the run, however it ends."""
    run = Run(lab_box, lab, source=vault.source, env=vault.env)
    try:
        assert vault.leases and not vault.revoked, "control: a lease is held while it runs"
        if part == "nothing":
            run.finish()
        else:
            for pid in run.part(part):
                os.kill(pid, signal.SIGKILL)
            if part != "supervisor":
                run.finish()
            else:
                run.process.communicate(timeout=60)
        wait_for(lambda: set(vault.leases) <= set(vault.revoked), what=f"the end of the lease after {part}")
        run.assert_gone()
    finally:
        end(run.process)
