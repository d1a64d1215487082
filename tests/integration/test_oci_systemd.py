"""`brig oci --systemd-cgroup`: the groups of containers are scopes of a service manager's, of systemd itself."""
import json
import shutil
import subprocess

import pytest

from helpers import IS_ROOT, Caller, wait_for
from ocilib import BUSYBOX, OCI, bundle_of, containerd, heard
from systemdlib import GROUPS, SYSTEMD, Manager

pytestmark = [pytest.mark.skipif(not IS_ROOT, reason="makes nodes: needs root"),
              pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root"),
              pytest.mark.skipif(not SYSTEMD.exists(), reason="systemd is not installed")]
KINDS = [("root", False), ("root", True), ("user", True)]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{'v2' if kind[1] else 'own'}")
def manager(request, tmp_path_factory):
    made = Manager(tmp_path_factory.mktemp("led"), Caller(request.param[0]), request.param[1])
    made.unified = request.param[1]
    yield made
    made.stop()


@pytest.fixture
def bundle(manager):
    with bundle_of(manager.caller) as made:
        # Its calls are made on the manager's node; what the engine says of groups comes with each.
        made.command = lambda *args: manager.command(OCI, "--systemd-cgroup", "--root", made.states, *args)
        made.unit = f"libpod-{made.id}.scope"
        made.config["linux"]["cgroupsPath"] = f"machine-brig.slice:libpod:{made.id}"
        yield made


def groups_of(pid, manager):
    """The paths in each hierarchy, as the host has them."""
    told = manager.node("cat", f"/proc/{pid}/cgroup")
    return [line.split(":", 2)[1:] for line in told.stdout.splitlines()]


def test_a_container_is_in_a_scope_and_its_own_group(bundle, manager):
    bundle.start("sleep 1000000")
    assert bundle.unit in manager.units() and "machine-brig.slice" in manager.units("slice")
    path = f"/{manager.group}/machine.slice/machine-brig.slice/{bundle.unit}/container"
    assert path in [place for _, place in groups_of(bundle.pid(), manager)]
    told = bundle.exec("cat", "/proc/1/cgroup")
    assert told.returncode == 0 and bundle.unit not in told.stdout, told  # it has a cgroup namespace
    assert json.loads(bundle.call("ps", "--format", "json", bundle.id).stdout) == [bundle.pid()]
    assert bundle.call("pause", bundle.id).returncode == 0 and bundle.state() == "paused"
    assert bundle.call("resume", bundle.id).returncode == 0 and bundle.state() == "running"
    assert bundle.remove().returncode == 0
    assert bundle.unit not in manager.units()
    left = manager.node("find", str(GROUPS), "-name", bundle.unit)
    assert left.stdout == "", left


def test_limits_stay_when_the_manager_reads_its_units_again(bundle, manager):
    if manager.unified and not (GROUPS / "cgroup.controllers").exists():
        pytest.skip("the controllers of this host belong to cgroup v1")
    bundle.config["linux"]["resources"] = {"memory": {"limit": 64 << 20}, "pids": {"limit": 20}}
    bundle.start("sleep 1000000")

    def limit():
        return json.loads(bundle.call("events", "--stats", bundle.id).stdout)["data"]["memory"]["usage"]["limit"]
    assert limit() == 64 << 20
    assert manager.call("systemctl", "--user", "daemon-reload").returncode == 0
    assert manager.call("systemctl", "--user", "set-property", "--runtime", bundle.unit, "MemoryMax=infinity", "TasksMax=infinity").returncode == 0
    assert limit() == 64 << 20
    (bundle.folder / "new.json").write_text('{"memory": {"limit": 33554432}}')
    assert bundle.call("update", "--resources", bundle.folder / "new.json", bundle.id).returncode == 0
    assert limit() == 32 << 20


def test_the_name_is_free_again_however_it_ended(bundle, manager):
    for end in ("exit 3", "kill -9 $$", "sleep 1000000"):
        bundle.start(end)
        if end.startswith("sleep"):
            assert bundle.call("kill", bundle.id, "KILL").returncode == 0
        wait_for(lambda: bundle.state() == "stopped", what="its end")
        assert bundle.remove().returncode == 0
        assert bundle.unit not in manager.units()


def test_without_a_path_it_has_the_name_of_the_container(bundle, manager):
    del bundle.config["linux"]["cgroupsPath"]
    bundle.start("sleep 1000000")
    assert f"brig-{bundle.id}.scope" in manager.units()


def test_O06_a_unit_of_others_is_neither_entered_nor_ended(bundle, manager):
    other = f"other-{bundle.id}.scope"
    holder = subprocess.Popen(manager.command("systemd-run", "--user", "--scope", "-p", "Delegate=yes", "--unit", other, "sleep", "1000000"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: other in manager.units(), what="the scope of somebody else")
        bundle.config["linux"]["cgroupsPath"] = f"app.slice:other:{bundle.id}"
        made = bundle.create("sleep 1000000")
        assert made.returncode == 125 and other in made.stderr, made.stderr
        assert bundle.state() is None
        assert other in manager.units() and holder.poll() is None
        # The same name is one's where nobody has it.
        assert manager.call("systemctl", "--user", "stop", other).returncode == 0
        wait_for(lambda: other not in manager.units(), what="its end")
        bundle.start("sleep 1000000")
        assert other in manager.units()
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize("path", ["a.slice:b", "/a/b", "a.slice:b:c:d", "a.slice:b/../c:d", "../a.slice:b:c", "a--b.slice:b:c", "a.service:b:c", "a.slice/b.slice:b:c",
                                  "a.slice:b:c.slice", "a.slice:b:", "a.slice:b:c@d", "a.slice:b:c d", "-a.slice:b:c"])
def test_O06_names_that_are_no_scopes(bundle, manager, path):
    bundle.config["linux"]["cgroupsPath"] = path
    made = bundle.create("true")
    assert made.returncode == 125 and "linux.cgroupsPath" in made.stderr, made.stderr
    assert bundle.state() is None


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_killed_create_leaves_nothing(bundle, manager, nth):
    """At each word that it says, to the manager or to its first process: that one goes with it, and then the scope has nobody."""
    bundle.shell("sleep 1000000")
    command = bundle.command("create", "--bundle", bundle.folder, bundle.id)
    at = command.index(str(OCI))
    tracer = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e", f"inject=sendto:signal=KILL:when={nth}"]
    done = subprocess.run([*map(str, command[:at]), *tracer, *map(str, command[at:])], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=120, check=False)
    assert done.returncode in (0, -9, 137) and (nth > 4 or done.returncode), "the control: it is killed"
    assert bundle.remove().returncode == 0
    assert bundle.state() is None
    # Of groups of v1 that got empty a user's manager is not told.
    wait_for(lambda: not manager.unified or bundle.unit not in manager.units(), what="the end of the scope")


@pytest.mark.skipif(not shutil.which("podman"), reason="podman is not installed")
def test_podman_with_its_usual_manager(manager, bundle):
    """What podman does where systemd runs, without an option."""
    if manager.caller.name != "root":
        pytest.skip("podman asks the manager of the whole host here")
    podman = ["podman", "--runtime", str(OCI), "--root", bundle.folder / "p", "--runroot", bundle.folder / "r", "--cgroup-manager", "systemd"]
    told = manager.call(*podman, "run", "--network", "none", "--rm", "--rootfs", bundle.folder / "rootfs", "sh", "-c", "echo inside; cat /proc/self/cgroup")
    assert told.returncode == 0 and "inside" in told.stdout, told


def test_containerd_with_systemd(manager, bundle, tmp_path):
    """As kubelet has it with `cgroupDriver: systemd`: the shim calls with --systemd-cgroup, and the events of the group are its."""
    if manager.caller.name != "root":
        pytest.skip("containerd is root's")
    if manager.unified and not (GROUPS / "cgroup.controllers").exists():
        pytest.skip("the controllers of this host belong to cgroup v1")
    with containerd(tmp_path, manager.node.inside(), manager.node.inside()) as ctr:
        told = ctr("run", "--detach", "--runc-binary", OCI, "--runc-systemd-cgroup", "--cgroup", f"kubepods-brig.slice:cri:{bundle.id}", "--rootfs", bundle.folder / "rootfs",
                   bundle.id, "sleep", "1000000")
        assert told.returncode == 0, told
        assert f"cri-{bundle.id}.scope" in manager.units() and "kubepods-brig.slice" in manager.units("slice")
        pid = next(line.split()[1] for line in ctr("task", "ls").stdout.splitlines() if line.startswith(bundle.id))
        assert f"/{manager.group}/kubepods.slice/kubepods-brig.slice/cri-{bundle.id}.scope/container" in [place for _, place in groups_of(pid, manager)]
        told = heard(ctr, "task", "exec", "--exec-id", "x", bundle.id, "echo", "inside")
        assert told.stdout == "inside\n", told
        assert ctr("task", "kill", "-s", "KILL", bundle.id).returncode == 0
        wait_for(lambda: "STOPPED" in ctr("task", "ls").stdout, what="its end")
        assert ctr("task", "delete", bundle.id).returncode in (0, 137)
        assert f"cri-{bundle.id}.scope" not in manager.units()
