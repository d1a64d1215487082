"""Containers of the other tiers: the same calls, the same walls around an engine, and what it cannot do refused by its name."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import IS_ROOT, PUBLIC, ROOT, TOP, status_fields, wait_for
from ocilib import BUSYBOX, OCI, bundle_of, containerd, operator_call

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="needs root, and a static busybox for a root")


def tier_of(name):
    told = json.loads(subprocess.run([str(PUBLIC / "brig"), "doctor", "--json"], capture_output=True, text=True, timeout=300).stdout)
    return next(t for t in told["tiers"] if t["tier"] == name)


# ---- wasm: the program is a module in the container's root ----

@pytest.fixture(scope="module")
def module(tmp_path_factory):
    tier = tier_of("wasm")
    if not tier["available"]:
        pytest.skip(f"no wasm tier here: {tier['why']}")
    made = tmp_path_factory.mktemp("module") / "prog"
    subprocess.run(["clang", "--target=wasm32-wasi", "-O1", "-w", TOP / "tests/integration/wasm/container.c", "-o", made], check=True, timeout=120)
    return made


def with_module(made, module):
    shutil.copy(module, made.folder / "rootfs/bin/prog")
    (made.folder / "rootfs/bin/prog").chmod(0o755)
    (made.folder / "rootfs/etc/words").write_text("of the image")
    made.config["annotations"] = {"brig.tier": "wasm"}
    return made.save()


def steps(bundle, *words, name="prog"):
    bundle.config["process"]["args"] = [name, *words]
    return bundle.save()


@pytest.fixture
def wasm(caller, module):
    with bundle_of(caller) as made:
        yield with_module(made, module)


@pytest.fixture
def roots_wasm(module):
    with bundle_of(ROOT) as made:
        yield with_module(made, module)


def test_wasm_runs_a_module_of_the_image(wasm):
    told = steps(wasm, "read", "/etc/words", "env", "A", "env", "brig:A", "write", "/data/x", "exit", "7").run()
    assert told.stdout.splitlines() == ["/etc/words has of the image", "A=b", "brig:A=(none)", "write /data/x: done"] and told.returncode == 7, told
    assert (wasm.folder / "rootfs/data/x").read_text() == "new\n"


def test_wasm_finds_modules_as_programs_are_found(wasm):
    (wasm.folder / "rootfs/etc/prog2").symlink_to("/bin/prog")  # an absolute link of the image leads inside it
    for name, cwd in (("/bin/prog", "/"), ("bin/prog", "/"), ("./prog", "/bin"), ("../etc/prog2", "/bin"), ("prog", "/data")):
        wasm.config["process"]["cwd"] = cwd
        assert steps(wasm, "exit", "5", name=name).run().returncode == 5, (name, cwd)
    for name, status, why in (("nosuch", 127, "module not found"), ("/nosuch/prog", 127, "module not found"), ("/etc", 126, "/etc"), ("/etc/words", 126, "cannot be run")):
        told = steps(wasm, "exit", "5", name=name).run()
        assert told.returncode == status and why in told.stderr, told


def test_wasm_ends_as_the_module_does(wasm):
    told = steps(wasm, "trap", "now").run()
    assert told.returncode == 134 and "trapped" in told.stderr, told
    assert steps(wasm, "exit", "0").run().returncode == 0  # control


def test_wasm_mounts_and_a_read_only_root(wasm):
    (wasm.folder / "shared").mkdir()
    (wasm.folder / "shared/in").write_text("of the volume")
    wasm.mount("/vol", type="bind", source=str(wasm.folder / "shared"), options=["bind", "ro"])
    wasm.mount("/scratch", type="tmpfs", source="tmpfs", options=["size=64k"])
    words = ("read", "/vol/in", "write", "/vol/in", "write", "/scratch/x", "read", "/scratch/x", "write", "/data/x")
    told = steps(wasm, *words).run().stdout
    assert "/vol/in has of the volume" in told and "write /vol/in: Read-only file system" in told
    assert "/scratch/x has new" in told and "write /data/x: done" in told, told
    wasm.config["root"]["readonly"] = True
    told = steps(wasm, *words).run().stdout
    assert "write /scratch/x: done" in told and "write /data/x: Read-only file system" in told, told


def test_wasm_life_of_a_container(wasm):
    steps(wasm, "wait", "")
    log = wasm.folder / "log"
    hold, feed = os.pipe()
    made = subprocess.run(wasm.command("create", "--bundle", wasm.folder, "--pid-file", wasm.folder / "pid", wasm.id), stdin=hold, capture_output=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=wasm.folder, timeout=120)
    try:
        assert made.returncode == 0 and wasm.state() == "created"
        assert wasm.call("start", wasm.id).returncode == 0 and wasm.state() == "running"
        fields = status_fields(wasm.pid())
        assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2", fields
        # One more module, by the same walls.
        told = wasm.exec("prog", "read", "/etc/words", "exit", "3")
        assert told.returncode == 3 and "of the image" in told.stdout, told
        assert wasm.exec("sh", "-c", "true").returncode == 126  # a program of the host's kind is none
        assert wasm.call("kill", wasm.id, "KILL").returncode == 0
        wait_for(lambda: wasm.state() == "stopped")
        assert wasm.call("--log", log, "--log-format", "json", "delete", wasm.id).returncode == 0
        assert json.loads(log.read_text())["receipt"]["tier"] == "wasm"
    finally:
        os.close(hold)
        os.close(feed)


def test_wasm_limits_are_those_of_the_group(roots_wasm):
    """The engine counts as its module does: what it takes alone is over this limit."""
    roots_wasm.config["linux"]["resources"] = {"memory": {"limit": 4 << 20}}
    assert steps(roots_wasm, "exit", "5").run().returncode not in (0, 5)
    roots_wasm.config["linux"]["resources"] = {"memory": {"limit": 512 << 20}}  # control
    assert steps(roots_wasm, "exit", "5").run().returncode == 5


def test_wasm_OC19_the_engine_is_not_in_what_the_module_sees(wasm, module):
    for name, to in (("host", "/usr"), ("engine", "/engine"), ("up", "../../../.."), ("proc2", "/proc"), ("dev2", "/dev")):
        (wasm.folder / "rootfs" / name).symlink_to(to)
    reads = [word for path in ("/proc/self/status", "/proc/self/mem", "proc/1/mem", "/proc2/self/mem", "/host/bin/env", "/engine", "/up/engine", "/../engine", "/../proc/self/mem",
                               "/sys/kernel/notes", "/dev2/null") for word in ("read", path, "write", path)]
    told = steps(wasm, *reads, "list", "/").run()
    assert told.returncode == 0 and " has " not in told.stdout, told
    # The only writes that reach something make plain files of the image's own.
    for line in told.stdout.splitlines():
        assert not line.endswith(": done") or not line.startswith("write /proc"), told
    # Links of the image that name a folder or a module lead inside it.
    (wasm.folder / "rootfs/usr").mkdir()
    (wasm.folder / "rootfs/usr/mine").write_text("")
    wasm.config["process"]["cwd"] = "/host"
    told = steps(wasm, "list", ".").run()
    assert "./mine" in told.stdout and "./bin" not in told.stdout, told
    assert steps(wasm, "exit", "5", name="/engine").run().returncode in (126, 127)
    # Control: an engine that is given its own root, with a file system of the kernel in it, can be written to by its module.
    engine = Path(os.environ.get("BRIG", TOP / "build/brig")).resolve().parent / "brig-wasm"
    told = subprocess.run([str(engine), "--rw", "/=/", "--", str(module), "prog", "read", "/proc/self/comm", "read", "/usr/lib/os-release"], capture_output=True, text=True, timeout=60)
    assert "brig-wasm" in told.stdout and "/usr/lib/os-release has" in told.stdout, told


def test_wasm_what_cannot_be_is_refused(roots_wasm):
    def runs():
        assert steps(roots_wasm, "exit", "5").run().returncode == 5
    steps(roots_wasm, "exit", "5")
    roots_wasm.config["process"]["terminal"] = True
    roots_wasm.save()
    told = roots_wasm.call("run", "--console-socket", "/nosuch", "--bundle", roots_wasm.folder, roots_wasm.id)
    assert told.returncode == 125 and "no terminals" in told.stderr, told
    roots_wasm.config["process"]["terminal"] = False
    runs()
    told = subprocess.run(["sh", "-c", 'exec 3</dev/null; exec "$@"', "sh", *roots_wasm.command("run", "--preserve-fds", "1", "--bundle", roots_wasm.folder, roots_wasm.id)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert told.returncode == 125 and "standard streams" in told.stderr, told
    roots_wasm.config["annotations"]["brig.allow"] = "origin.test:80"
    roots_wasm.save()
    told = operator_call(roots_wasm, {"allow": ["origin.test:80"]}, "run", "--bundle", roots_wasm.folder, roots_wasm.id)
    assert told.returncode == 125 and "no sockets" in told.stderr, told
    del roots_wasm.config["annotations"]["brig.allow"]
    runs()
    mounts = roots_wasm.config["mounts"].copy()
    roots_wasm.mount("/data", type="tmpfs", source="tmpfs", options=["nosymfollow"]).save()
    told = roots_wasm.run()
    assert told.returncode == 125 and "nosymfollow" in told.stderr, told
    roots_wasm.config["mounts"] = mounts
    runs()
    # Where there is no engine nothing else is put in its place.
    bare = roots_wasm.folder / "bare"
    bare.mkdir()
    shutil.copy(OCI.resolve(), bare / "brig-oci")
    told = subprocess.run([str(bare / "brig-oci"), "--root", str(roots_wasm.states), "run", "--bundle", str(roots_wasm.folder), roots_wasm.id], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    assert told.returncode == 125 and "the tier wasm is not there" in told.stderr, told
    # What it has without being asked by the container: the operator's word.
    roots_wasm.config["annotations"] = {}
    steps(roots_wasm, "exit", "5")
    assert operator_call(roots_wasm, {"tier": "wasm"}, "run", "--bundle", roots_wasm.folder, roots_wasm.id).returncode == 5
    assert roots_wasm.run().returncode != 5  # control: as a program it is none


def podman_of(folder):
    return ["podman", "--root", folder / "root", "--runroot", folder / "run", "--tmpdir", folder / "tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
            "--events-backend", "file", "--runtime", OCI]


def by_podman(folder, *args, **kwargs):
    return subprocess.run([*map(str, podman_of(folder)), *map(str, args)], capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL, **kwargs)


LIMITS = ["--ulimit", "nofile=512:512", "--ulimit", "nproc=4096:4096"]


def test_wasm_by_podman(tmp_path_factory, roots_wasm):
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    folder = tmp_path_factory.mktemp("p")
    told = by_podman(folder, "run", "--rm", *LIMITS, "--network", "none", "--annotation", "brig.tier=wasm", "--rootfs", roots_wasm.folder / "rootfs",
                     "/bin/prog", "read", "/etc/words", "exit", "7")
    assert told.returncode == 7 and "of the image" in told.stdout, told
    told = by_podman(folder, "run", "--rm", *LIMITS, "--network", "none", "--annotation", "brig.tier=process", "--rootfs", roots_wasm.folder / "rootfs", "/bin/prog", "exit", "7")
    assert told.returncode != 7 and "weaker than container" in told.stderr, told


def test_wasm_by_containerd(tmp_path_factory, roots_wasm):
    folder = tmp_path_factory.mktemp("c")
    with containerd(folder) as ctr:
        told = ctr("run", "--rm", "--runc-binary", OCI, "--annotation", "brig.tier=wasm", "--rootfs", roots_wasm.folder / "rootfs", "one", "/bin/prog", "read", "/etc/words",
                   "exit", "7")
        assert told.returncode == 7 and "of the image" in told.stdout, told
