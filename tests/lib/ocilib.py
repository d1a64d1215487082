"""Bundles for `brig oci`, and engines that call it."""
import contextlib
import copy
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from helpers import IS_ROOT, PUBLIC, ROOT, end, wait_for

OCI = PUBLIC / "brig-oci"
if not OCI.exists():
    OCI.symlink_to("brig")
BUSYBOX = shutil.which("busybox")
APPLETS = ["sh", "ls", "cat", "id", "sleep", "mount", "ps", "echo", "grep", "touch", "mknod", "hostname", "stat", "true", "umount",
           "chmod", "mkdir", "readlink", "wc", "tr", "kill", "chown", "chroot", "dd", "head", "pwd", "env", "test", "ulimit"]
CAPS = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_NET_BIND_SERVICE", "CAP_MKNOD",
        "CAP_SYS_CHROOT"]

CONFIG = {
    "ociVersion": "1.0.2",
    "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["true"], "cwd": "/",
                "env": ["PATH=/bin", "A=b"],
                "capabilities": {"bounding": CAPS, "effective": CAPS, "permitted": CAPS}, "noNewPrivileges": True},
    "root": {"path": "rootfs"},
    "hostname": "inside",
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=1m"]},
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    ],
    "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount", "user", "cgroup")]},
}


def make_root(folder):
    (folder / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "bin" / "busybox")
    for name in APPLETS:
        (folder / "bin" / name).symlink_to("busybox")
    for name in ("tmp", "etc", "data"):
        (folder / name).mkdir()
    (folder / "tmp").chmod(0o1777)


def with_programs(made):
    """The host's: the static one of the others cannot ask for names."""
    for name in ("lib", "lib64"):
        (made.folder / "rootfs" / name).symlink_to(f"usr/{name}")
    made.mount("/usr", type="bind", source="/usr", options=["rbind", "ro"])
    made.config["process"]["env"] = ["PATH=/bin:/usr/bin", "HTTP_PROXY=http://127.0.0.1:9"]
    return made


class Bundle:
    """A bundle of one caller's, with its own folder of states."""

    count = 0

    def __init__(self, folder, caller):
        self.folder, self.caller = folder, caller
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        make_root(folder / "rootfs")
        self.config = copy.deepcopy(CONFIG)
        self.states = folder / "states"
        Bundle.count += 1
        self.id = f"t{os.getpid()}-{Bundle.count}"
        self.save()

    def save(self):
        (self.folder / "config.json").write_text(json.dumps(self.config))
        if self.caller.uid != os.geteuid():
            subprocess.run(["chown", "-R", f"{self.caller.uid}:{self.caller.uid}", str(self.folder)], check=True)
        return self

    def shell(self, script):
        self.config["process"]["args"] = ["sh", "-c", script]
        return self.save()

    def caps(self, *names):
        self.config["process"]["capabilities"] = {key: list(names) for key in ("bounding", "effective", "permitted")}
        return self

    def mount(self, destination, **entry):
        self.config["mounts"].append({"destination": destination, **entry})
        return self

    def command(self, *args):
        return self.caller.outside(str(OCI), "--root", str(self.states), *map(str, args))

    def call(self, *args, **kwargs):
        kwargs.setdefault("timeout", 120)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(*args), capture_output=True, text=True, cwd=self.folder, **kwargs)

    def run(self, script=None, **kwargs):
        if script is not None:
            self.shell(script)
        return self.call("run", "--bundle", self.folder, self.id, **kwargs)

    def create(self, script=None, *more, line=None, **kwargs):
        """Its first process keeps stdout: it goes to a file, so that nobody waits for its end. `line` makes the command of its arguments."""
        if script is not None:
            self.shell(script)
        out = self.folder / "out"
        with out.open("wb") as sink, (self.folder / "err").open("w+b") as errors:
            kwargs.setdefault("timeout", 120)
            made = subprocess.run((line or self.command)("create", "--bundle", self.folder, "--pid-file", self.folder / "pid", *more, self.id),
                                  stdin=subprocess.DEVNULL, stdout=sink, stderr=errors, cwd=self.folder, **kwargs)
            errors.seek(0)
            made.stderr = errors.read().decode()
        return made

    def start(self, script=None, *more):
        made = self.create(script, *more)
        assert made.returncode == 0, made.stderr
        started = self.call("start", self.id)
        assert started.returncode == 0, started.stderr
        return self

    def output(self):
        return (self.folder / "out").read_text()

    def pid(self):
        return int((self.folder / "pid").read_text())

    def state(self):
        told = self.call("state", self.id)
        return json.loads(told.stdout)["status"] if told.returncode == 0 else None

    def exec(self, *command, **kwargs):
        return self.call("exec", self.id, *command, **kwargs)

    def remove(self):
        return self.call("delete", "--force", self.id)


def operator_command(bundle, allowed, *args, mode="644"):
    """The same call where /etc/brig/oci.json says so: in a mount namespace of its own, so that the host's file is not touched."""
    folder = bundle.folder.parent / "etc-brig"
    folder.mkdir(exist_ok=True)
    (folder / "oci.json").write_text(allowed if isinstance(allowed, str) else json.dumps(allowed))
    script = 'mount -t tmpfs t /etc && mkdir /etc/brig && cp "$1/oci.json" /etc/brig/ && chmod "$2" /etc/brig/oci.json && shift 2 && exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh", str(folder), mode, *bundle.command(*args)]


def operator_call(bundle, allowed, *args, mode="644", **kwargs):
    kwargs.setdefault("timeout", 120)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(operator_command(bundle, allowed, *args, mode=mode), capture_output=True, text=True, cwd=bundle.folder, **kwargs)


@contextlib.contextmanager
def bundle_of(caller):
    """In a folder that every user can reach: pytest's own is closed again by each pytest that starts."""
    folder = Path(tempfile.mkdtemp(prefix="oci-", dir=PUBLIC))
    folder.chmod(0o755)
    made = Bundle(folder / "b", caller)
    try:
        yield made
    finally:
        made.remove()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bundle(caller):
    with bundle_of(caller) as made:
        yield made


@pytest.fixture
def own():
    """Of root's alone."""
    if not IS_ROOT:
        pytest.skip("needs root")
    with bundle_of(ROOT) as made:
        yield made


def refused(bundle, why, code=125):
    """Nothing ran, nothing is left, and the rule is named; without what `why` is about it would have run (control of each row)."""
    told = bundle.run("echo RAN")
    assert told.returncode == code and "RAN" not in told.stdout, told
    assert why in told.stderr, told.stderr
    assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []


def runs(bundle):
    told = bundle.run("echo RAN")
    assert told.stdout == "RAN\n", told


def hook(folder, name, script):
    """A program for the operator to allow; it is beside what it leaves there."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def hooked(bundle, script=None):
    """create, where the operator allows all hooks of the configuration."""
    if script is not None:
        bundle.shell(script)
    allowed = {"hooks": [entry["path"] for entries in bundle.config["hooks"].values() for entry in entries]}
    bundle.save()
    return bundle.create(None, line=lambda *args: operator_command(bundle, allowed, *args))


def groups_left(name):
    """Folders of groups with that in their names, the deepest first."""
    # Others' groups go while one looks.
    found = [path for path, _, _ in os.walk("/sys/fs/cgroup") if name in os.path.basename(path)]
    return sorted(found, key=len, reverse=True)


CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
                    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{folder}/c.sock"
[ttrpc]
  address = "{folder}/t.sock"
"""


@contextlib.contextmanager
def containerd(folder, prefix=(), callers=()):
    """A containerd of one's own, started behind `prefix`; what is yielded calls its ctr, behind `callers`."""
    if not shutil.which("containerd") or not shutil.which("ctr"):
        pytest.skip("containerd is not installed")
    (folder / "config.toml").write_text(CONTAINERD.format(folder=folder))
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([*prefix, "containerd", "--config", str(folder / "config.toml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    # The states of its containers, and their groups, lie where those of every containerd of this host do: by the namespace. It has
    # not brig's name, which others take for what a sandbox left behind.
    space = f"ctr-test-{os.getpid()}-{folder.name}"

    def call(*args, **kwargs):
        return subprocess.run([*callers, "ctr", "--address", str(folder / "c.sock"), "--namespace", space, *map(str, args)], capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, **kwargs)
    try:
        wait_for(lambda: daemon.poll() is not None or call("version").returncode == 0)
        if daemon.poll() is not None:
            pytest.skip("containerd does not start here: " + (folder / "log").read_text()[-300:])
        try:
            yield call
        finally:
            for name in call("task", "ls", "-q").stdout.split():
                call("task", "kill", "-s", "KILL", name)
                call("task", "delete", "-f", name)
            for name in call("container", "ls", "-q").stdout.split():
                call("container", "delete", name)
    finally:
        end(daemon)
        for made in (Path("/run/containerd/runc", space), *Path("/sys/fs/cgroup").glob(f"*/{space}"), Path("/sys/fs/cgroup", space)):
            with contextlib.suppress(OSError):
                made.rmdir()


def heard(ctr, *args):
    """One call of ctr's whose program says something. containerd waits two seconds for the last that it says, which a busy host does not always
    make: then it is asked again."""
    for _ in range(10):
        told = ctr(*args)
        if told.stdout or told.stderr:
            break
    return told


def with_etc(folder, allowed):
    """What a command is put behind that shall see an /etc with such an operator's file: for engines, which need the rest of it too."""
    etc = folder / "etc"
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=True)
    (etc / "brig").mkdir(exist_ok=True)
    (etc / "brig/oci.json").write_text(json.dumps(allowed))
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /etc && shift && exec "$@"', "sh", str(etc)]


def check_terminal(*run):
    """A container with a terminal of its own. It waits for a line, so that nothing is lost by an end that comes too soon."""
    outer, inner = os.openpty()
    process = subprocess.Popen([*run, "sh", "-c", "test -t 0 && echo a-terminal; read line; exit 6"],
                               stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    seen = b""
    while b"a-terminal" not in seen and select.select([outer], [], [], 120)[0]:
        seen += os.read(outer, 1000)
    assert b"a-terminal" in seen
    os.write(outer, b"x\n")
    assert process.wait(120) == 6
    os.close(outer)
