"""Docker's engine starts containers through `brig oci`. In the full form alone: it needs Docker."""
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

import dockerlib
from form import FULL
from helpers import IS_ROOT, PUBLIC, wait_for
from ocilib import BUSYBOX, check_terminal, groups_left

pytestmark = pytest.mark.skipif(not FULL or not IS_ROOT or not BUSYBOX, reason="an engine of root's, with a root from busybox: BRIG_TEST_FULL=1")


@pytest.fixture(scope="module")
def docker(tmp_path_factory):
    node, engine = dockerlib.single(tmp_path_factory.mktemp("docker"))
    yield engine
    node.stop()
    engine.sweep()


@pytest.fixture
def life(docker):
    """A container that runs until it is told to end."""
    made = docker.ok("run", "-d", "--name", "life", "--runtime", "brig", "--network", "none", "box", "sh", "-c",
                     "echo up; trap 'exit 4' TERM; while true; do sleep 0.1; done")
    yield made
    docker("rm", "-f", "life")


def status(docker, name, what="{{.State.Status}}"):
    return docker.ok("inspect", "-f", what, name)


def test_docker_run(docker):
    told = docker.run("-e", "A=b", "-w", "/tmp", "--hostname", "pod", "box", "sh", "-c", "echo $A; pwd; hostname; id -u; exit 7")
    assert (told.returncode, told.stdout.split()) == (7, ["b", "/tmp", "pod", "0"]), told
    assert docker.run("-i", "box", "cat", input="through\n").stdout == "through\n"


def test_docker_run_behind_the_walls(docker):
    script = "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; readlink /proc/self/ns/user; mount -t tmpfs x /tmp"
    told = docker.run("box", "sh", "-c", script)
    assert "NoNewPrivs:\t1\nSeccomp:\t2\n" in told.stdout and os.readlink("/proc/self/ns/user") not in told.stdout and told.returncode != 0, told
    # control: the runtime that Docker brings
    told = docker("run", "--rm", "--network", "none", "--runtime", "runc", "box", "sh", "-c", script)
    assert "NoNewPrivs:\t0" in told.stdout and os.readlink("/proc/self/ns/user") in told.stdout, told


def test_docker_says_that_a_program_is_not_there(docker):
    for program, code, why in (("nosuch", 127, "not found"), ("/tmp", 126, "permission denied")):
        told = docker.run("box", program)
        assert told.returncode == code and why in told.stderr, told


def test_docker_users_limits_volumes(docker, tmp_path):
    (tmp_path / "in").write_text("given")
    tmp_path.chmod(0o755)
    told = docker.run("-v", f"{tmp_path}:/data:ro", "--user", "1000:1000", "--memory", "64m", "--pids-limit", "50", "--cpus", "0.5", "--read-only", "--tmpfs", "/y",
                      "--ulimit", "nofile=100:100", "box", "sh", "-c",
                      "cat /data/in; id -u; ulimit -n; touch /data/x; touch /z; touch /y/ok && echo tmpfs; cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max")
    assert told.stdout.split() == ["given1000", "100", "tmpfs", str(64 << 20)] and told.stderr.count("Read-only") == 2, told


def test_docker_volume_is_shared_and_kept(docker):
    assert docker.run("-v", "kept:/data", "box", "sh", "-c", "echo text >/data/f").returncode == 0
    assert docker.run("-v", "kept:/data", "box", "cat", "/data/f").stdout == "text\n"
    docker.ok("volume", "rm", "kept")


def test_docker_terminal(docker):
    check_terminal(*docker.inside("run", "--rm", "-it", "--runtime", "brig", "--network", "none", "box"))


def test_docker_life(docker, life):
    wait_for(lambda: docker.ok("logs", "life") == "up")
    told = docker("exec", "-e", "X=y", "--user", "1000", "life", "sh", "-c", "echo $X; id -u; exit 3")
    assert (told.returncode, told.stdout) == (3, "y\n1000\n"), told
    assert docker("exec", "life", "nosuch").returncode in (126, 127)  # which of them is Docker's to say, by its version
    assert "trap" in docker.ok("top", "life")
    docker.ok("cp", docker.node.folder / "daemon.json", "life:/tmp/x")
    assert "runtimes" in docker.ok("exec", "life", "cat", "/tmp/x")
    docker.ok("pause", "life")
    assert status(docker, "life") == "paused"
    docker.ok("unpause", "life")
    docker.ok("stop", "-t", "30", "life")
    assert status(docker, "life", "{{.State.ExitCode}}") == "4"
    docker.ok("start", "life")
    docker.ok("kill", "life")
    assert status(docker, "life", "{{.State.ExitCode}}") == "137"
    docker.ok("restart", "life")
    docker.ok("rm", "-f", "life")
    assert groups_left(life) == []


def test_docker_stats_and_update(docker, life):
    told = json.loads(docker.ok("stats", "--no-stream", "--format", "{{json .}}", "life"))
    assert int(told["PIDs"]) >= 1 and not told["MemUsage"].startswith("0B"), told
    docker.ok("update", "--memory", "64m", "--memory-swap", "64m", "--pids-limit", "50", "--cpus", "0.5", "life")
    assert docker.ok("exec", "life", "sh", "-c", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max") == str(64 << 20)


def test_docker_healthcheck(docker):
    docker.ok("run", "-d", "--name", "sick", "--runtime", "brig", "--network", "none", "--health-cmd", "test -e /tmp/well", "--health-interval", "1s",
              "--health-retries", "1", "box", "sh", "-c", "touch /tmp/well; while true; do sleep 0.1; done")
    wait_for(lambda: status(docker, "sick", "{{.State.Health.Status}}") == "healthy")
    docker.ok("exec", "sick", "busybox", "mv", "/tmp/well", "/tmp/no-more")
    wait_for(lambda: status(docker, "sick", "{{.State.Health.Status}}") == "unhealthy")
    docker.ok("rm", "-f", "sick")


def test_docker_restart_policy_and_init(docker):
    docker.ok("run", "-d", "--name", "again", "--runtime", "brig", "--network", "none", "--restart", "on-failure:2", "box", "sh", "-c", "exit 3")
    wait_for(lambda: status(docker, "again", "{{.RestartCount}} {{.State.Status}} {{.State.ExitCode}}") == "2 exited 3")
    docker.ok("rm", "-f", "again")
    assert docker.run("--init", "box", "cat", "/proc/1/comm").stdout == "docker-init\n"


def test_docker_out_of_memory_is_told(docker):
    docker.ok("run", "-d", "--name", "greedy", "--runtime", "brig", "--network", "none", "--memory", "20m", "box", "sh", "-c",
              "sleep 1; dd if=/dev/zero of=/dev/shm/x bs=1M count=60; echo $?")
    wait_for(lambda: status(docker, "greedy") == "exited")
    assert docker.ok("logs", "greedy").splitlines()[-1] == "137" and status(docker, "greedy", "{{.State.OOMKilled}}") == "true"
    docker.ok("rm", "-f", "greedy")


def test_docker_networks_and_published_port(docker):
    """Networks are Docker's: it puts an interface into the container's own network namespace."""
    docker.ok("network", "create", "net")
    docker.ok("run", "-d", "--name", "web", "--runtime", "brig", "--network", "net", "-p", "127.0.0.1:8080:80", "box", "sh", "-c",
              "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nhello' | busybox nc -l -p 80; done")
    wait_for(lambda: docker.node(BUSYBOX, "wget", "-q", "-O", "-", "http://127.0.0.1:8080/").stdout == "hello")
    # by its name, from another container, and by loopback from one that shares its network
    wait_for(lambda: docker.run("box", "busybox", "wget", "-q", "-O", "-", "http://web/", network="net").stdout == "hello")
    wait_for(lambda: docker.run("box", "busybox", "wget", "-q", "-O", "-", "http://127.0.0.1/", network="container:web").stdout == "hello")
    docker.ok("network", "connect", "bridge", "web")
    assert "eth1" in docker.ok("exec", "web", "busybox", "ip", "a")
    docker.ok("rm", "-f", "web")
    docker.ok("network", "rm", "net")


@pytest.mark.parametrize("options, why", [
    (["--privileged"], "CAP_"),
    (["--cap-add", "SYS_ADMIN"], "CAP_SYS_ADMIN"),
    (["--cap-add", "ALL"], "CAP_"),
    (["--pid", "host"], "has no pid"),
    (["--ipc", "host"], "has no ipc"),
    (["--uts", "host"], "has no uts"),
    (["--network", "host"], "the host's network"),
    (["-v", "/:/host"], "mount on /host"),
    (["-v", "/tmp:/host"], "name a narrower one"),
    (["-v", "/etc:/host"], "mount of /etc"),
    (["-v", "/dev:/host"], "mount of /dev"),
    (["-v", "/proc:/host"], "mount of /proc"),
    (["-v", "/sys:/host"], "mount of /sys"),
    (["-v", "/run/docker.sock:/sock"], "a socket of the host"),
    (["-v", "/run:/host"], "mount o"),
    (["-v", "/opt:/proc/sys"], "the kernel's own files"),
    (["--device", "/dev/kmsg"], "devices"),
    (["--device", "/dev/null:/dev/other"], "/dev/other"),
    (["--device-cgroup-rule", "c *:* rwm"], "devices"),
    (["--oom-score-adj", "-1000"], "oomScoreAdj"),
    (["--memory", "64m", "--oom-kill-disable"], "disableOOMKiller"),
    (["--memory", "64m", "--memory-swappiness", "10"], "swappiness"),
], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_docker_user_is_told_why_it_is_refused(docker, options, why):
    network = [] if "--network" in options else ["--network", "none"]
    told = docker("run", "--rm", "--runtime", "brig", *network, *options, "box", "echo", "RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr, told
    assert "config: " in told.stderr and "(" in told.stderr, told  # the rule, and the hint behind it


@pytest.mark.parametrize("options", [["--security-opt", "seccomp=unconfined"], ["--security-opt", "systempaths=unconfined"], ["--security-opt", "no-new-privileges=false"],
                                     ["--security-opt", "apparmor=unconfined"], ["--userns", "host"], ["--ulimit", "core=-1"]], ids=" ".join)
def test_docker_options_that_lower_nothing(docker, options):
    """They ask for less than Docker's own walls; brig's stand whatever they say."""
    script = ("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; ulimit -c; readlink /proc/self/ns/user; wc -c </proc/keys; (: >/proc/sys/kernel/core_pattern) 2>&1; "
              "busybox unshare -m true 2>&1; mount -t tmpfs x /tmp 2>&1; true")
    told = docker.run(*options, "box", "sh", "-c", script)
    assert "NoNewPrivs:\t1\nSeccomp:\t2\n0\n" in told.stdout and os.readlink("/proc/self/ns/user") not in told.stdout, told
    assert "\n0\n" in told.stdout and "Read-only" in told.stdout and "unshare" in told.stdout and "mount: " in told.stdout, told


def test_docker_exec_cannot_have_more(docker, life):
    told = docker("exec", "--privileged", "life", "echo", "RAN")
    assert told.returncode != 0 and "RAN" not in told.stdout and "CAP_" in told.stdout + told.stderr, told


def test_docker_without_a_word_of_the_operator(docker):
    """Docker gives networks by a hook, and hooks are the operator's: the error says what he has to write, and for which program."""
    try:
        for allowed, why in (({}, '{"docker": "/usr/sbin/dockerd"}'), ({"docker": "/usr/bin/env"}, "is not the program /usr/bin/env"),
                             ({"hooks": [dockerlib.ALLOWED["docker"]]}, '{"docker": "/usr/sbin/dockerd"}')):
            dockerlib.allow(docker.node, allowed)
            told = docker.run("box", "echo", "RAN")
            assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr and "/etc/brig/oci.json" in told.stderr, told
    finally:
        dockerlib.allow(docker.node, dockerlib.ALLOWED)
    assert docker.run("box", "echo", "RAN").stdout == "RAN\n"  # control


def _ids_for_docker(node):
    for name, line in (("subuid", "dockremap:200000:65536\n"), ("subgid", "dockremap:200000:65536\n"), ("passwd", "dockremap:x:48123:48123::/:/bin/false\n"),
                       ("group", "dockremap:x:48123:\n")):
        with (node.etc / name).open("a") as file:
            file.write(line)


def test_docker_with_ids_of_its_own():
    """userns-remap: root inside is nobody on the host. Its folder is where those ids can go."""
    folder = Path(tempfile.mkdtemp(prefix="docker-", dir=PUBLIC))
    folder.chmod(0o755)
    node, engine = dockerlib.single(folder, "remapped", _ids_for_docker, **{"userns-remap": "dockremap"})
    try:
        told = engine.run("-v", "vol:/data", "box", "sh", "-c", "id -u; cat /proc/self/uid_map; touch /data/x /y; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x", network="bridge")
        assert told.stdout.split() == ["0", "0", "200000", "65536"] and "Read-only" in told.stderr, told
        assert Path(engine.ok("volume", "inspect", "-f", "{{.Mountpoint}}", "vol"), "x").stat().st_uid == 200000
    finally:
        node.stop()
        engine.sweep()
        shutil.rmtree(folder, ignore_errors=True)


def test_docker_ways_out(docker):
    """By annotations, where the engine's version hands them on."""
    if "--annotation" not in docker.ok("run", "--help") or tuple(map(int, docker.ok("version", "-f", "{{.Server.APIVersion}}").split("."))) < (1, 43):
        pytest.skip("this version of Docker hands no annotations on")
    told = docker.run("--annotation", "brig.allow=x.test", "box", "echo", "RAN")
    assert told.returncode == 125 and "/etc/brig/oci.json" in told.stderr, told
