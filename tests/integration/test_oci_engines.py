"""Engines that start containers through `brig oci`: podman as root and as an ordinary user, and containerd by ctr."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
import yaml

from helpers import IS_ROOT, TOP, USER, wait_for
from ocilib import BUSYBOX, OCI, check_terminal, containerd, groups_left, heard, make_root, with_etc
from subids import COUNT, OwnEtc

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="engines of root's, with a root from busybox")
# Root may lack the right to raise them, as here and there in containers.
LIMITS = ["--ulimit", "nofile=512:512", "--ulimit", "nproc=4096:4096"]
NO_NET = ["--network", "none"]


class Podman:
    def __init__(self, folder):
        self.base = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run"), "--tmpdir", str(folder / "tmp"),
                     "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", str(OCI)]

    def __call__(self, *args, **kwargs):
        kwargs.setdefault("timeout", 180)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([*self.base, *map(str, args)], capture_output=True, text=True, **kwargs)

    def run(self, *args, **kwargs):
        return self("run", "--rm", *LIMITS, *NO_NET, *args, **kwargs)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image") / "rootfs"
    make_root(folder)
    tar = folder.parent / "root.tar"
    subprocess.run(["tar", "-C", str(folder), "-cf", str(tar), "."], check=True)
    return tar


@pytest.fixture(scope="module")
def podman(tmp_path_factory, root):
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    engine = Podman(tmp_path_factory.mktemp("podman"))
    with root.open("rb") as tar:
        made = engine("import", "-", "box", stdin=tar)
    assert made.returncode == 0, made.stderr
    yield engine
    engine("rm", "-af", "-t", "0")


def test_podman_run(podman, tmp_path):
    told = podman.run("--cidfile", tmp_path / "id", "-e", "A=b", "-w", "/tmp", "--hostname", "pod", "box", "sh", "-c", "echo $A; pwd; hostname; id -u; exit 7")
    assert (told.returncode, told.stdout.split()) == (7, ["b", "/tmp", "pod", "0"]), told.stderr
    assert groups_left("libpod-" + (tmp_path / "id").read_text().strip()) == []


def test_podman_run_behind_the_walls(podman):
    told = podman.run("box", "sh", "-c", "grep -E 'NoNewPrivs|Seccomp_filters' /proc/self/status; readlink /proc/self/ns/user; mount -t tmpfs x /tmp")
    assert "NoNewPrivs:\t1" in told.stdout and "Seccomp_filters:\t2" in told.stdout  # brig's, and podman's own
    assert os.readlink("/proc/self/ns/user") not in told.stdout and told.returncode != 0


def test_podman_says_that_a_program_is_not_there(podman):
    assert podman.run("box", "nosuch").returncode == 127
    assert podman.run("box", "/tmp").returncode == 126


def test_podman_volumes_users_limits(podman, tmp_path):
    (tmp_path / "in").write_text("given")
    tmp_path.chmod(0o755)
    told = podman.run("-v", f"{tmp_path}:/data:ro", "--user", "1000:1000", "--memory", "64m", "--pids-limit", "50", "--read-only", "box", "sh", "-c",
                      "cat /data/in; id -u; touch /data/x; touch /y; cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max")
    assert "given1000\n" in told.stdout and str(64 << 20) in told.stdout and told.stderr.count("Read-only") == 2, told


def test_podman_set_id_bits_and_file_capabilities(podman, tmp_path):
    """Packages bring both. What podman itself binds does not stand in their way; a volume does, for the host's files."""
    script = "touch /tmp/f; chmod 4755 /tmp/f 2>/dev/null; stat -c %a /tmp/f; grep CapBnd /proc/self/status; echo x >/dev/null; grep -c /run/.containerenv /proc/mounts"
    told = podman.run("--cap-add", "SETFCAP", "box", "sh", "-c", script)
    mode, bound, files = told.stdout.splitlines()
    assert mode == "4755" and int(bound.split()[1], 16) >> 31 & 1 and files == "1", told
    told = podman.run("--cap-add", "SETFCAP", "-v", f"{tmp_path}:/data", "box", "sh", "-c", script)
    mode, bound, files = told.stdout.splitlines()
    assert mode == "644" and not int(bound.split()[1], 16) >> 31 & 1 and files == "1", told


def test_podman_standard_streams(podman):
    told = podman.run("-i", "box", "cat", stdin=None, input="through\n")
    assert told.stdout == "through\n", told.stderr


def test_podman_terminal(podman):
    check_terminal(*podman.base, "run", "--rm", "-it", *LIMITS, *NO_NET, "box")


def test_podman_life(podman):
    made = podman("run", "-d", "--name", "life", *LIMITS, *NO_NET, "box", "sh", "-c", "echo up; trap 'exit 4' TERM; while true; do sleep 0.1; done")
    assert made.returncode == 0, made.stderr
    wait_for(lambda: podman("logs", "life").stdout == "up\n")
    told = podman("exec", "-e", "X=y", "life", "sh", "-c", "echo $X; hostname; exit 3")
    assert told.returncode == 3 and told.stdout.startswith("y\n"), told.stderr
    assert podman("exec", "life", "nosuch").returncode == 127
    assert podman("pause", "life").returncode == 0
    assert podman("inspect", "-f", "{{.State.Status}}", "life").stdout.strip() == "paused"
    assert podman("unpause", "life").returncode == 0
    assert "trap" in podman("top", "life").stdout
    assert podman("stop", "-t", "30", "life").returncode == 0
    assert podman("inspect", "-f", "{{.State.ExitCode}}", "life").stdout.strip() == "4"
    assert podman("start", "life").returncode == 0
    assert podman("kill", "life").returncode == 0
    wait_for(lambda: podman("inspect", "-f", "{{.State.Status}}", "life").stdout.strip() == "exited")
    assert podman("rm", "-f", "-t", "0", "life").returncode == 0
    assert groups_left("libpod-" + made.stdout.strip()) == []


def test_podman_healthcheck(podman):
    made = podman("run", "-d", "--name", "health", *LIMITS, *NO_NET, "--health-cmd", "test -e /tmp/well", "--health-interval", "disable", "--health-retries", "1", "box", "sleep", "1000000")
    assert made.returncode == 0, made.stderr
    state = lambda: podman("inspect", "-f", "{{.State.Health.Status}}", "health").stdout.strip()
    assert podman("healthcheck", "run", "health").returncode == 1 and state() == "unhealthy"
    assert podman("exec", "health", "touch", "/tmp/well").returncode == 0
    assert podman("healthcheck", "run", "health").returncode == 0 and state() == "healthy"
    assert podman("rm", "-f", "-t", "0", "health").returncode == 0


def test_podman_pod(podman, tmp_path, monkeypatch):
    """Its containers share the network, the name and the queues of its first one, and neither processes nor files."""
    (tmp_path / "containers.conf").write_text('[containers]\ndefault_ulimits = ["nofile=512:512", "nproc=4096:4096"]\n')  # the first one takes no options
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    made = podman("pod", "create", "--name", "pod", "--network", "none", "--infra-image", "box", "--infra-command", "sleep 1000000", "--share", "net,ipc,uts", "--hostname", "together")
    assert made.returncode == 0, made.stderr
    told = podman("run", "-d", "--pod", "pod", "--name", "one", *LIMITS, "box", "sh", "-c", "touch /mine; sleep 1000000")
    assert told.returncode == 0, told.stderr
    spaces = "for n in net ipc uts pid mnt user; do readlink /proc/self/ns/$n; done; hostname; ls /mine; true"
    one, two = podman("exec", "one", "sh", "-c", spaces), podman("run", "--rm", "--pod", "pod", *LIMITS, "box", "sh", "-c", spaces)
    assert one.returncode == two.returncode == 0, (one, two)
    one, two = one.stdout.splitlines(), two.stdout.splitlines()
    assert one[:3] == two[:3] and not set(one[3:6]) & set(two[3:6]) and one[6:] == ["together", "/mine"] and two[6:] == ["together"]
    assert podman("pod", "rm", "-f", "-t", "0", "pod").returncode == 0


def test_podman_network_of_a_namespace(podman):
    name = f"brig-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        told = podman("run", "--rm", *LIMITS, "--network", f"ns:/run/netns/{name}", "box", "readlink", "/proc/self/ns/net")
        assert told.stdout.strip() == f"net:[{os.stat(f'/run/netns/{name}').st_ino}]", told.stderr
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.parametrize("options, why", [
    (["--privileged"], "CAP_"),
    (["--cap-add", "sys_admin"], "CAP_SYS_ADMIN"),
    (["--pid", "host"], "has no pid"),
    (["--ipc", "host"], "has no ipc"),
    (["--uts", "host"], "has no uts"),
    (["--network", "host"], "has no network"),
    (["-v", "/:/host"], "mount of /"),
    (["-v", "/dev:/host"], "mount of /dev"),
    (["-v", "/proc:/host"], "mount of /proc"),
    (["-v", "/tmp:/x:rshared"], "shared"),
    (["--device", "/dev/kmsg"], "devices"),
    (["--annotation", "brig.level=low"], "brig.level"),
], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_podman_is_told_why_it_is_refused(podman, options, why):
    network = [] if "--network" in options else NO_NET
    told = podman("run", "--rm", *LIMITS, *network, *options, "box", "echo", "RAN")
    assert told.returncode != 0 and "RAN" not in told.stdout
    assert why in told.stderr and "hint:" in told.stderr, told.stderr


class UsersPodman(Podman):
    """As an ordinary user, who has no further ids: podman calls from a user namespace in which the user is root."""

    def __init__(self, folder):
        super().__init__(folder)
        environment = [f"PATH={os.environ['PATH']}", f"HOME={folder}/home", f"XDG_RUNTIME_DIR={folder}/x"]
        self.base = USER.outside("env", "-i", "-C", str(folder), *environment, *self.base)


@pytest.fixture
def users_podman():
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    folder = Path(tempfile.mkdtemp(prefix="p-", dir="/tmp"))  # a short name: podman wants one
    for name in ("home", "x"):
        (folder / name).mkdir()
    make_root(folder / "rootfs")
    subprocess.run(["chown", "-R", f"{USER.uid}:{USER.uid}", str(folder)], check=True)
    engine = UsersPodman(folder)
    engine.box = ["--rootfs", str(folder / "rootfs")]
    yield engine
    engine("rm", "-af", "-t", "0")
    engine("system", "migrate")  # ends what keeps the user namespace for the next call
    shutil.rmtree(folder, ignore_errors=True)


def test_podman_as_an_ordinary_user(users_podman):
    podman = users_podman
    told = podman.run(*podman.box, "sh", "-c", "id -u; grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; readlink /proc/self/ns/user; mount -t tmpfs x /tmp; exit 7")
    assert told.returncode == 7 and told.stdout.startswith("0\nNoNewPrivs:\t1\nSeccomp:\t2\n") and "denied" in told.stderr, told
    assert os.readlink("/proc/self/ns/user") not in told.stdout
    made = podman("run", "-d", "--name", "life", *LIMITS, *NO_NET, *podman.box, "sh", "-c", "echo up; trap 'exit 4' TERM; while true; do sleep 0.1; done")
    assert made.returncode == 0, made.stderr
    wait_for(lambda: podman("logs", "life").stdout == "up\n")
    told = podman("exec", "-e", "X=y", "life", "sh", "-c", "echo $X; exit 3")
    assert (told.returncode, told.stdout) == (3, "y\n"), told.stderr
    assert podman("stop", "-t", "30", "life").returncode == 0
    assert podman("inspect", "-f", "{{.State.ExitCode}}", "life").stdout.strip() == "4"
    assert podman("rm", "life").returncode == 0


def test_podman_of_an_ordinary_user_with_further_ids(users_podman, tmp_path):
    """With /etc/subuid podman's namespace has many ids, and the container has those that podman maps. An operator's file beside it is nobody's there too."""
    podman = users_podman
    if not shutil.which("newuidmap"):
        pytest.skip("uidmap is not installed")
    with OwnEtc() as etc:
        own = podman.base
        podman.base = [*etc.wrapper, *own]
        told = podman.run(*podman.box, "sh", "-c", "cat /proc/self/uid_map; id -u; chown 33:33 /tmp && stat -c %u /tmp; exit 7")
        assert told.returncode == 7 and told.stdout.splitlines()[-2:] == ["0", "33"], told
        assert any(line.split()[2] == str(COUNT) for line in told.stdout.splitlines()[:-2]), told
        told = podman.run("--user", "1000:1000", *podman.box, "id", "-u")
        assert told.stdout == "1000\n", told
        podman("system", "migrate")
        podman.base = [*with_etc(tmp_path, {"capabilities": ["CAP_SYS_PTRACE"]}), *etc.wrapper, *own]
        assert podman.run(*podman.box, "echo", "RAN").stdout == "RAN\n"
        told = podman.run("--cap-add", "SYS_PTRACE", *podman.box, "echo", "RAN")
        assert told.returncode != 0 and "CAP_SYS_PTRACE" in told.stderr, told
        podman("system", "migrate")


def test_podman_of_an_ordinary_user_is_told_why_it_is_refused(users_podman, tmp_path):
    for options, why in ((["--privileged"], "CAP_"), (["--pid", "host"], "has no pid"), (["--annotation", "brig.allow=x.test"], "/etc/brig/oci.json")):
        told = users_podman.run(*options, *users_podman.box, "echo", "RAN")
        assert told.returncode != 0 and "RAN" not in told.stdout and why in told.stderr, told


def beside(podman, folder, allowed):
    """Their next calls see such an operator's file."""
    podman("system", "migrate")
    folder.mkdir()
    podman.base = [*with_etc(folder, allowed), *podman.own]


def test_podman_of_an_ordinary_user_beside_an_operators_file(users_podman, tmp_path):
    """In the user's namespace root's file is nobody's, and whether it is the operator's cannot be told: what it allows is not allowed, its limits hold."""
    podman, box = users_podman, users_podman.box
    podman.own = podman.base
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    os.chmod(tmp_path / "s", 0o777)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    beside(podman, tmp_path / "a", {"allow": ["x.test"], "policies": {"p": ["x.test"]}, "sockets": [str(tmp_path / "s")], "capabilities": ["CAP_SYS_PTRACE"], "joins": ["pid"]})
    assert podman.run(*box, "echo", "RAN").stdout == "RAN\n", "the control"
    for options, why in ((["--annotation", "brig.allow=x.test"], "brig.allow"), (["--annotation", "brig.policy=p"], "brig.policy"), (["--cap-add", "SYS_PTRACE"], "CAP_SYS_PTRACE"),
                         (["-v", f"{tmp_path}/s:/s"], "socket"), (["--pid", "ns:/proc/self/ns/pid"], "pid namespace")):
        told = podman.run(*options, *box, "echo", "RAN")
        assert told.returncode != 0 and "RAN" not in told.stdout and why in told.stderr, (options, told)
    beside(podman, tmp_path / "b", {"pids": 64})
    told = podman.run(*box, "echo", "RAN")
    assert told.returncode != 0 and "RAN" not in told.stdout and "pids.limit" in told.stderr, told
    listener.close()


# ---- containerd ----

@pytest.fixture(scope="module")
def ctr(tmp_path_factory, root):
    with containerd(tmp_path_factory.mktemp("ctr")) as call:
        call.root = root.parent / "rootfs"
        yield call


def start(ctr, name, *command, options=()):
    return ctr("run", "--runc-binary", OCI, "--rootfs", *options, ctr.root, name, *command)


def test_containerd_runs_and_gives_the_status(ctr):
    told = start(ctr, "one", "sh", "-c", "echo hello; grep NoNewPrivs /proc/self/status; exit 7", options=["--rm"])
    assert (told.returncode, told.stdout) == (7, "hello\nNoNewPrivs:\t1\n"), told.stderr


def test_containerd_life(ctr):
    assert start(ctr, "two", "sleep", "1000", options=["--detach"]).returncode == 0
    told = heard(ctr, "task", "exec", "--exec-id", "e1", "two", "sh", "-c", "echo inside; exit 3")
    assert (told.returncode, told.stdout) == (3, "inside\n"), told.stderr
    assert ctr("task", "pause", "two").returncode == 0
    assert "PAUSED" in ctr("task", "ls").stdout
    assert ctr("task", "resume", "two").returncode == 0
    assert len(ctr("task", "ps", "two").stdout.splitlines()) == 2
    assert ctr("task", "kill", "-s", "KILL", "two").returncode == 0
    wait_for(lambda: "STOPPED" in ctr("task", "ls").stdout)
    assert ctr("task", "delete", "two").returncode in (0, 137)
    assert ctr("container", "delete", "two").returncode == 0


def test_containerd_is_told_why_it_is_refused(ctr):
    told = start(ctr, "three", "echo", "RAN", options=["--rm", "--privileged"])
    assert told.returncode != 0 and "RAN" not in told.stdout and "CAP_" in told.stderr, told.stderr
    ctr("container", "delete", "three")


# ---- examples ----


def test_examples_for_clusters_name_the_program():
    folder = TOP / "dist" / "cluster"
    drop_in = tomllib.loads((folder / "containerd-brig.toml").read_text())
    runtime = drop_in["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["brig"]
    assert runtime["runtime_type"] == "io.containerd.runc.v2" and runtime["options"] == {"BinaryName": "/usr/bin/brig-oci", "SystemdCgroup": False}
    kind, pod = yaml.safe_load_all((folder / "runtimeclass.yaml").read_text())
    assert (kind["apiVersion"], kind["kind"], kind["handler"]) == ("node.k8s.io/v1", "RuntimeClass", "brig")
    assert pod["spec"]["runtimeClassName"] == kind["metadata"]["name"]
    for name in ("daemon.json", "swarm-daemon.json"):
        assert json.loads((folder / name).read_text())["runtimes"] == {"brig": {"path": "/usr/bin/brig-oci"}}
    assert yaml.safe_load((folder / "stack.yml").read_text())["services"]["code"]["deploy"]["restart_policy"] == {"condition": "none"}
    runs = [line.partition("=")[2].strip('"').split() for line in (folder / "slurm/oci.conf").read_text().splitlines() if line.startswith("RunTime")]
    assert len(runs) == 4 and all("/usr/bin/brig-oci" in run and "--root=/run/brig-slurm/%u" in run for run in runs)
    assert 'runtime = "brig"' in (folder / "nomad.hcl").read_text()
