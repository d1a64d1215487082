"""How the escape tests start things: inside the sandbox, in each cell of the matrix, and outside as the control."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import secrets
import select
import shutil
import signal
import subprocess
import time

import pytest

import hostview
from form import FULL

HERE = pathlib.Path(__file__).resolve().parent
# An ordinary user that nobody else on this machine is, not even a second run of this suite: some limits are counted per
# user. Below the uids that brig takes for itself when it is root's.
USER_ID = 0x60000000 + os.getpid() if os.getuid() == 0 else os.getuid()
AS_USER = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--"]
REFUSED = 125

# Any of these is a refusal; what a row adds to them stands at the row.
DENIED = {"EPERM", "EACCES", "ENOSYS", "EROFS"}
ABSENT = {"ENOENT", "ENOTDIR", "ENXIO", "ENODEV"}
NO_SOCKET = {"EAFNOSUPPORT", "EPROTONOSUPPORT"}


def attacks_stamp():
    """What the attack programs depend on: their sources, and the compilers that there are."""
    compiler = os.environ.get("CC", "gcc")
    state = hashlib.sha256(subprocess.run([*compiler.split(), "--version"], capture_output=True, check=True).stdout)
    state.update(f"{compiler} {shutil.which('arm-linux-gnueabihf-gcc')}".encode())
    for path in [HERE / "build", *sorted((HERE / "attacks").iterdir())]:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def build_attacks(folder, where):
    """Built once, and kept beside brig if it lies in the build folder of this user's; others may be about to do the same."""
    if not os.access(folder / "build.ninja", os.W_OK):
        subprocess.run([HERE / "build", where], check=True)
        return
    kept = folder / "tests" / "attacks"
    kept.mkdir(parents=True, exist_ok=True)
    with open(kept / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = kept / "stamp", attacks_stamp()
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(kept / "programs", ignore_errors=True)
            subprocess.run([HERE / "build", kept / "programs"], check=True)
            stamp.write_text(wanted)
        shutil.copytree(kept / "programs", where)


class Place:
    """Folders of this run: the attack programs and brig itself, readable by everyone, and room for canaries."""

    def __init__(self):
        # Not below /tmp: the sandbox has a /tmp of its own.
        top = "/srv" if os.access("/srv", os.W_OK) else "/var/tmp"
        self.base = pathlib.Path(top, f"escape-suite-{secrets.token_hex(6)}")
        self.attacks = self.base / "attacks"
        self.bin = self.base / "bin"
        self.attack = str(self.attacks / "attack")
        self.count = 0

    def build(self):
        self.base.mkdir()
        self.base.chmod(0o755)
        found = os.environ.get("BRIG") or HERE.parent.parent / "build" / "brig"
        self.source = pathlib.Path(found).resolve()
        build_attacks(self.source.parent, self.attacks)
        self.bin.mkdir()
        if self.source.exists():
            for name in (self.source.name, "brig-init", "brig-proxy"):
                if (self.source.parent / name).exists():
                    shutil.copy2(self.source.parent / name, self.bin / name)
                    (self.bin / name).chmod(0o755)
        self.brig = str(self.bin / self.source.name)
        self.sanitized = self.source.exists() and b"__asan_init" in self.source.read_bytes()
        self.tools = self.bin
        # The harness's own tools are no part of what the sandbox sees.
        for name in ("tracer", "without", "expose"):
            os.rename(self.attacks / name, self.bin / name)

    def tool(self, name):
        return str(self.bin / name)

    def folder(self, name, owner=None, mode=0o755):
        """A fresh folder; owner is 'root' or 'user'."""
        self.count += 1
        path = self.base / f"{name}-{self.count}"
        path.mkdir()
        path.chmod(mode)
        if owner == "user" and os.getuid() == 0:
            os.chown(path, USER_ID, USER_ID)
        return path

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)


PLACE = Place()
FENCE = hostview.Fence()


@dataclasses.dataclass
class Result:
    rc: int
    out: str
    err: str

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"no JSON on stdout: rc={self.rc} out={self.out[:500]!r} err={self.err[:1500]!r}")

    @property
    def refused(self):
        return self.rc == REFUSED


@dataclasses.dataclass(frozen=True)
class Cell:
    """One column of the matrix."""

    user: str
    tier: str
    level: str = "high"
    uid: object = None

    @property
    def id(self):
        name = f"{self.user}-{self.tier}"
        if self.level != "high":
            name += f"-{self.level}"
        return name if self.uid is None else f"{name}-uid{self.uid}"

    @property
    def host_uid(self):
        return 0 if self.user == "root" else USER_ID

    @property
    def container(self):
        return self.tier == "container"

    def prefix(self):
        return AS_USER if self.user == "user" and os.getuid() == 0 else []

    def argv(self, command, options=(), json_out=True, wrapper=()):
        out = [*self.prefix(), *wrapper, PLACE.brig, "run", "--level", self.level, "--sampling", "accept"]
        if self.level != "low":
            out += ["--tier", self.tier]
        if self.uid is not None:
            out += ["--uid", str(self.uid)]
        out += ["--json"] if json_out else []
        out += ["--ro", str(PLACE.attacks), *map(str, options), "--", *map(str, command)]
        return out

    def env(self, extra=None):
        home = str(PLACE.base) if self.user == "root" else "/nonexistent"
        return {"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": home, **(extra or {})}

    def start(self, command, options=(), json_out=True, wrapper=(), env=None, **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("cwd", PLACE.base)
        process = subprocess.Popen(self.argv(command, options, json_out, wrapper), env=self.env(env), **popen)
        hostview.STARTED.add(process)
        return process

    def run(self, command, options=(), json_out=True, wrapper=(), env=None, timeout=300, stdin=None, **popen):
        if stdin is not None:
            popen["stdin"] = subprocess.PIPE
        process = self.start(command, options, json_out, wrapper, env, **popen)
        return finish(process, timeout, stdin)

    def attack(self, *command, options=(), **more):
        """Run one attack and give what it printed; that it ran at all is part of the test."""
        result = self.run([PLACE.attack, *command], options, **more)
        answer = result.json
        assert result.rc not in (REFUSED, 126, 127), f"did not run: {result.err or answer.get('stderr')}"
        return answer["stdout"]


def finish(process, timeout=300, stdin=None):
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        end_tree(process)
        raise AssertionError(f"still running after {timeout} s: {process.args}")
    return Result(process.returncode, (out or b"").decode(errors="surrogateescape"),
                  (err or b"").decode(errors="replace"))


def told(process, text, timeout=60):
    """What it printed up to and with this text: it has come as far as it says. Not for runs with --json."""
    seen, end = b"", time.monotonic() + timeout
    while text.encode() not in seen:
        ready = select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0]
        piece = os.read(process.stdout.fileno(), 65536) if ready else b""
        if not piece:
            raise AssertionError(f"never said {text!r}, only {seen[-500:]!r}: {(end_tree(process) or b'')[-500:]}")
        seen += piece
    return seen.decode(errors="surrogateescape")


def end_tree(process):
    """Kill the supervisor, which must be enough; what is still there after a moment is ended one by one. Returns what it
    said on standard error."""
    below = set(hostview.descendants(process.pid))
    if process.poll() is None:
        process.kill()
    said = process.communicate()[1]
    gone = hostview.wait_for(lambda: not below & hostview.alive_below(os.getpid()))
    for pid in [] if gone else below & hostview.alive_below(os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return said


@contextlib.contextmanager
def alone_on_this_machine():
    """For decoys in places that have one name on the whole machine: a second run of this suite waits."""
    lock = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def outside(*command, user="root", timeout=300, env=None, **popen):
    """The control: the same program without a sandbox."""
    prefix = AS_USER if user == "user" and os.getuid() == 0 else []
    done = subprocess.run([*prefix, *map(str, command)], capture_output=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env=env, cwd=popen.pop("cwd", PLACE.base), **popen)
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def control(*command, **more):
    return outside(PLACE.attack, *command, **more).out


ROOT = [Cell("root", "container"), Cell("root", "process")]
USER = [Cell("user", "container"), Cell("user", "process")]
TIERS = ROOT + USER
ALL = TIERS + [
    Cell("root", "container", uid=0),
    Cell("user", "container", uid=0),
    Cell("root", "process", level="low"),
    Cell("user", "process", level="low"),
]
CONTAINERS = [c for c in ALL if c.container]


def cells(which=ALL):
    """The matrix as a parameter; without root only the ordinary user's half can run."""
    usable = which if os.getuid() == 0 else [c for c in which if c.user == "user"]
    if not usable:
        return pytest.mark.skip(reason="only root can start brig as root")
    return pytest.mark.parametrize("cell", usable, ids=lambda c: c.id)


def probes(text):
    """{row: {name: outcome}}"""
    out = {}
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) == 3:
            out.setdefault(parts[0], {})[parts[1]] = parts[2]
    return out


def sections(text):
    """What `attack batch` printed, by sub-command."""
    out, name = {}, None
    for line in text.splitlines():
        if line.startswith("== "):
            name = line[3:]
            out[name] = ""
        elif name:
            out[name] += line + "\n"
    return out


def values(text):
    """KEY <tab> VALUE lines."""
    return dict(line.split("\t", 1) for line in text.splitlines() if line.count("\t") == 1)


def refused_as(outcome, denied):
    return outcome in denied or outcome in ("SIGNAL 31", "SIGNAL 11")


def not_here(row):
    """The probes that are left out because only another architecture has what they need."""
    return {n: o for n, o in row.items() if o.startswith("ONLY ")}


def assert_denied(control_row, inside_row, also=frozenset()):
    """Every probe that works outside must be refused inside. Returns what could not be judged here."""
    denied = DENIED | set(also)
    assert not_here(control_row) == not_here(inside_row)
    control_row = {n: o for n, o in control_row.items() if n not in not_here(control_row)}
    live = {n for n, o in control_row.items() if not refused_as(o, denied | {"NOFORK"})}
    vacuous = sorted(set(control_row) - live)
    if not live:
        pytest.skip(f"vacuous: the control does not succeed for any of {vacuous}")
    silent = sorted(live - set(inside_row))
    assert not silent, f"no answer from inside for {silent}"
    through = {n: inside_row[n] for n in sorted(live) if not refused_as(inside_row[n], denied)}
    assert not through, f"not refused: {through}"
    return vacuous


_cache = {}


def cached(key, make):
    """One sandbox start for the many rows that look at the same output."""
    if key not in _cache:
        try:
            _cache[key] = (make(), None)
        except AssertionError as error:
            _cache[key] = (None, error)
    value, error = _cache[key]
    if error:
        raise error
    return value
