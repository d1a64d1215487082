"""Docker Swarm, two nodes with a wire between them: jobs and services behind brig's walls. In the full form alone: it needs Docker."""
import json

import pytest

import dockerlib
from form import FULL
from helpers import IS_ROOT, TOP, wait_for
from nodeslib import two_nodes
from ocilib import BUSYBOX

pytestmark = pytest.mark.skipif(not FULL or not IS_ROOT or not BUSYBOX, reason="engines of root's, with a root from busybox: BRIG_TEST_FULL=1")
WALLS = "grep NoNewPrivs /proc/self/status"


class Swarm:
    def __init__(self, nodes):
        self.engines = [dockerlib.Docker(node, "swarm-daemon.json").start().take_root() for node in nodes]
        first, second = self.engines
        first.ok("swarm", "init", "--advertise-addr", nodes[0].address)
        second.ok("swarm", "join", "--advertise-addr", nodes[1].address, "--token", first.ok("swarm", "join-token", "-q", "worker"), f"{nodes[0].address}:2377")
        wait_for(lambda: first.ok("node", "ls", "--format", "{{.Hostname}} {{.Status}}").splitlines().count("n2 Ready"))

    def __call__(self, *args):
        return self.engines[0].ok(*args)

    def tasks(self, service):
        """[(node, wanted, state)] of a service."""
        told = self("service", "ps", "--no-trunc", "--format", "{{.Node}}|{{.DesiredState}}|{{.CurrentState}}|{{.Error}}", service)
        return [tuple(line.split("|")) for line in told.splitlines()]

    def running_on(self, service):
        return sorted(node for node, wanted, state, _ in self.tasks(service) if wanted == "Running" and state.startswith("Running"))


@pytest.fixture(scope="module")
def swarm(tmp_path_factory):
    dockerlib.installed()
    with two_nodes(tmp_path_factory.mktemp("swarm"), lambda node: dockerlib.allow(node, dockerlib.ALLOWED)) as nodes:
        made = Swarm(nodes)
        yield made
    for engine in made.engines:
        engine.sweep()


def local(swarm, i, service):
    """The containers of a service on one node, as its own engine sees them."""
    return swarm.engines[i].ok("ps", "-aq", "--filter", f"label=com.docker.swarm.service.name={service}").split()


def test_swarm_job_on_both_nodes(swarm):
    """A job that each node does once, and one of six tasks, two at a time."""
    swarm("service", "create", "--detach", "--name", "each", "--mode", "global-job", "--restart-condition", "none", "box", "sh", "-c", WALLS)
    wait_for(lambda: sorted(node for node, _, state, _ in swarm.tasks("each") if state.startswith("Complete")) == ["n1", "n2"], 120)
    swarm("service", "create", "--detach", "--name", "six", "--mode", "replicated-job", "--replicas", "6", "--max-concurrent", "2", "--restart-condition", "none",
          "box", "sh", "-c", WALLS)
    wait_for(lambda: [state.split()[0] for _, _, state, _ in swarm.tasks("six")] == ["Complete"] * 6, 120)
    assert {node for node, _, _, _ in swarm.tasks("six")} == {"n1", "n2"}
    for i in (0, 1):
        for container in local(swarm, i, "each") + local(swarm, i, "six"):
            assert swarm.engines[i].ok("logs", container) == "NoNewPrivs:\t1"
            assert swarm.engines[i].ok("inspect", "-f", "{{.HostConfig.Runtime}}", container) == "brig"
    swarm("service", "rm", "each", "six")


def test_swarm_stack_of_the_examples(swarm):
    """dist/cluster/stack.yml as it is, but for the image."""
    text = (TOP / "dist/cluster/stack.yml").read_text().replace("python:3.12-slim", "box").replace('["python3", "-c", "print(6*7)"]', '["sh", "-c", "echo $$((6*7))"]')
    file = swarm.engines[0].node.folder / "stack.yml"
    file.write_text(text)
    swarm("stack", "deploy", "--resolve-image", "never", "-c", file, "untrusted")
    wait_for(lambda: [state.split()[0] for _, _, state, _ in swarm.tasks("untrusted_code")] == ["Complete"] * 4, 120)
    assert {node for node, _, _, _ in swarm.tasks("untrusted_code")} == {"n1", "n2"}
    for i in (0, 1):
        assert {swarm.engines[i].ok("logs", container) for container in local(swarm, i, "untrusted_code")} == {"42"}
    swarm("stack", "rm", "untrusted")


def test_swarm_secrets_and_configs(swarm):
    """Files of a file system in memory that Docker mounts below the container's own folder."""
    for what in ("secret", "config"):
        file = swarm.engines[0].node.folder / what
        file.write_text(f"the {what}")
        swarm(what, "create", f"a-{what}", file)
    swarm("service", "create", "--detach", "--name", "told", "--mode", "global-job", "--restart-condition", "none", "--secret", "a-secret", "--config", "a-config", "box", "sh", "-c",
          "cat /run/secrets/a-secret /a-config; touch /run/secrets/a-secret 2>&1; true")
    wait_for(lambda: len(local(swarm, 0, "told")) == len(local(swarm, 1, "told")) == 1 and all(state.split()[0] in ("Complete", "Failed", "Rejected") for _, _, state, _ in swarm.tasks("told")), 120)
    for i in (0, 1):
        container, = local(swarm, i, "told")
        assert "the secretthe config" in swarm.engines[i].ok("logs", container) and "Read-only" in swarm.engines[i].ok("logs", container), swarm.tasks("told")
    swarm("service", "rm", "told")


def test_swarm_overlay_network_and_published_port(swarm):
    """A network of both nodes, with names, and a port of each node."""
    if swarm.engines[0].node("ip", "link", "add", "try", "type", "vxlan", "id", "7", "dstport", "4790").returncode != 0:
        pytest.skip("this kernel has no vxlan")
    swarm("network", "create", "--driver", "overlay", "both")
    # By names of tasks: addresses of services need IPVS in the kernel.
    swarm("service", "create", "--detach", "--name", "page", "--network", "both", "--endpoint-mode", "dnsrr", "--publish", "mode=host,published=8080,target=80",
          "--mode", "global", "--hostname", "on-{{.Node.Hostname}}", "box", "sh", "-c",
          "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n%s' $(hostname) | busybox nc -l -p 80; done")
    wait_for(lambda: swarm.running_on("page") == ["n1", "n2"], 120)
    for engine in swarm.engines:
        wait_for(lambda here=engine.node: here(BUSYBOX, "wget", "-q", "-O", "-", "http://127.0.0.1:8080/").stdout == f"on-{here.name}")
    first, = local(swarm, 0, "page")
    wait_for(lambda: swarm("exec", first, "busybox", "nslookup", "tasks.page").count("Address: ") == 2)
    names = swarm("exec", first, "busybox", "nslookup", "tasks.page").split()
    addresses = [word for word in names if word.startswith("10.")]
    seen = {swarm("exec", first, "busybox", "wget", "-q", "-O", "-", f"http://{address}/") for address in addresses}
    assert seen == {"on-n1", "on-n2"}, (names, seen)
    swarm("service", "rm", "page")


def test_swarm_user_is_told_why_it_is_refused(swarm):
    for name, options, why in (("caps", ["--cap-add", "CAP_SYS_ADMIN"], "CAP_SYS_ADMIN"), ("host", ["--network", "host"], "network namespace"),
                               ("root", ["--mount", "type=bind,source=/etc,target=/host"], "mount of /etc")):
        swarm("service", "create", "--detach", "--name", name, "--restart-condition", "none", *options, "box", "sleep", "1000")
        wait_for(lambda: any("Rejected" in state or "Failed" in state for _, _, state, _ in swarm.tasks(name)), 120)
        assert all(why in error for _, _, state, error in swarm.tasks(name) if error), swarm.tasks(name)
        assert swarm.running_on(name) == []
        swarm("service", "rm", name)


def test_swarm_service_fails_over_when_a_node_dies(swarm):
    """The last of this file: one of the nodes is gone afterwards."""
    swarm("service", "create", "--detach", "--name", "web", "--replicas", "4", "box", "sh", "-c", f"{WALLS}; while true; do sleep 0.1; done")
    wait_for(lambda: swarm.running_on("web") == ["n1", "n1", "n2", "n2"], 120)
    containers = local(swarm, 1, "web")
    inside = json.loads(swarm.engines[1].ok("inspect", containers[0]))[0]
    assert inside["HostConfig"]["Runtime"] == "brig" and inside["State"]["Running"]
    swarm.engines[1].node.stop()
    wait_for(lambda: swarm.running_on("web") == ["n1"] * 4, 180, "the failover")
    for container in local(swarm, 0, "web"):
        assert swarm.engines[0].ok("logs", container) == "NoNewPrivs:\t1"
    swarm("service", "rm", "web")
