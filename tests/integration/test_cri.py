"""Pods, as kubelet asks containerd for them (CRI), by the runtime class of the examples. In the full form alone: it needs CNI's plugins and a client for gRPC."""
import json
import os
import shutil
from pathlib import Path

import pytest

import imagelib
from dockerlib import allow
from form import FULL
from helpers import IS_ROOT, TOP, wait_for
from nodeslib import Node
from ocilib import BUSYBOX, OCI, groups_left

pytestmark = pytest.mark.skipif(not FULL or not IS_ROOT or not BUSYBOX, reason="containerd of root's, with an image from busybox: BRIG_TEST_FULL=1")
PLUGINS = Path("/usr/lib/cni")
CONFIG = """version = 2
root = "{folder}/root"
state = "/run/containerd"
[grpc]
  address = "{folder}/s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/box:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/net.d"
"""
POD, OWN, NODE = 0, 1, 2  # whose namespaces: the pod's, the container's, the node's


class Kubelet:
    """Of one node: makes pods, and keeps their containers' logs."""

    def __init__(self, folder):
        import crilib  # its library is there in the full form alone
        self.refused = crilib.Refused
        self.folder = folder
        self.node = Node(folder, "kube", "10.99.0.7")
        allow(self.node, {})
        self.node.start()
        self.group = f"/cri-test-{os.getpid()}"
        (folder / "net.d").mkdir()
        bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipMasq": False,
                  "ipam": {"type": "host-local", "dataDir": str(folder / "ipam"), "ranges": [[{"subnet": "10.98.0.0/24"}]]}}
        (folder / "net.d/10.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}))
        example = (TOP / "dist/cluster/containerd-brig.toml").read_text().replace("/usr/bin/brig-oci", str(OCI))
        (folder / "config.toml").write_text(CONFIG.format(folder=folder, plugins=PLUGINS) + example)
        self.node.daemon("containerd", "--config", folder / "config.toml")
        wait_for(lambda: self.ctr("version").returncode == 0, what="containerd")
        image = imagelib.Image(Cmd=["sleep", "1000000"])
        image.name = "localhost/box:1"
        told = self.ctr("images", "import", "--index-name", image.name, imagelib.pack(image.layout(folder / "image"), folder / "image.tar"))
        assert told.returncode == 0, told
        self.cri = crilib.Cri(folder / "s")

    def ctr(self, *args):
        return self.node("ctr", "--address", self.folder / "s", "--namespace", "k8s.io", *args)

    def config(self, name, network=POD, pid=OWN, ipc=POD, annotations=None, privileged=False):
        # As kubelet has it: the node's network comes with the node's name.
        return {1: {1: name, 2: f"uid-{name}", 3: "default"}, 2: "" if network == NODE else f"host-{name}", 3: str(self.folder / "logs"), 7: annotations or {"a": "b"},
                8: {1: self.group, 2: {1: {1: network, 2: pid, 3: ipc}, 6: privileged}}}

    def container(self, pod, config, name, *command, security=None, mounts=(), resources=None):
        made = self.cri.create(pod, config, {1: {1: name}, 2: {1: "localhost/box:1"}, 3: list(command), 7: list(mounts), 11: f"{name}.log",
                                             15: {1: resources or {4: 64 << 20}, 2: {3: config[8][2][1], **(security or {})}}})
        self.cri.call("StartContainer", {1: made})
        return made

    def log(self, name):
        path = self.folder / "logs" / f"{name}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    def remove(self, pod):
        for verb in ("StopPodSandbox", "RemovePodSandbox"):
            self.cri.call(verb, {1: pod})


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory):
    if not shutil.which("containerd") or not (PLUGINS / "bridge").exists():
        pytest.skip("containerd or CNI's plugins are not installed")
    pytest.importorskip("grpc", reason="python3-grpcio is not installed")
    made = Kubelet(tmp_path_factory.mktemp("cri"))
    yield made
    made.node.stop()
    for folder in groups_left(os.path.basename(made.group)):
        for path, _, _ in sorted(os.walk(folder), reverse=True):
            os.rmdir(path)


@pytest.fixture
def pod(kubelet):
    config = kubelet.config("pod")
    made = kubelet.cri.pod(config)
    yield made, config
    kubelet.remove(made)


def test_cri_life_of_a_container(kubelet, pod):
    made = kubelet.container(*pod, "one", "sh", "-c", "echo up; grep NoNewPrivs /proc/self/status; trap 'exit 4' TERM; while true; do sleep 0.1; done")
    wait_for(lambda: kubelet.log("one") == ["up", "NoNewPrivs:\t1"])
    assert kubelet.cri.status(made) == (1, 0)
    code, out, _ = kubelet.cri.exec(made, "sh", "-c", "busybox hostname; id -u; cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max; exit 3")
    assert (code, out.split()) == (3, ["host-pod", "0", str(64 << 20)])
    assert len(kubelet.cri.call("ContainerStats", {1: made})[1]) > 100
    kubelet.cri.call("UpdateContainerResources", {1: made, 2: {4: 32 << 20}})
    assert kubelet.cri.exec(made, "sh", "-c", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max")[1] == f"{32 << 20}\n"
    kubelet.cri.call("StopContainer", {1: made, 2: 30})
    assert kubelet.cri.status(made) == (2, 4)
    kubelet.cri.call("RemoveContainer", {1: made})
    assert groups_left(made) == []


def test_cri_containers_of_a_pod_share_its_network_and_nothing_else(kubelet, pod):
    kubelet.container(*pod, "web", "sh", "-c", "echo secret >/only-here; while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nhello' | busybox nc -l -p 8080; done")
    other = kubelet.container(*pod, "other", "sleep", "1000")
    wait_for(lambda: kubelet.cri.exec(other, "busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/")[1] == "hello")
    assert "10.98.0." in kubelet.cri.exec(other, "busybox", "ip", "a")[1]
    assert kubelet.cri.exec(other, "cat", "/only-here")[0] == 1 and "nc -l" not in kubelet.cri.exec(other, "busybox", "ps")[1]
    # by the pod's address, as a probe of kubelet's calls
    address = next(word for word in kubelet.cri.exec(other, "busybox", "ip", "a")[1].split() if word.startswith("10.98.0.") and "/" in word).split("/")[0]
    wait_for(lambda: kubelet.node(BUSYBOX, "wget", "-q", "-O", "-", f"http://{address}:8080/").stdout == "hello")


@pytest.mark.parametrize("more, why", [
    ({"security": {2: True}}, "no privileged container allowed"),  # containerd itself, since its pod is not
    ({"security": {1: {1: ["SYS_ADMIN"]}}}, "CAP_SYS_ADMIN"),
    ({"mounts": [{1: "/host", 2: "/"}]}, "mount of /"),
    ({"mounts": [{1: "/host", 2: "/etc"}]}, "mount of /etc"),
    ({"mounts": [{1: "/sock", 2: "@/s"}]}, "a socket of the host"),
    ({"mounts": [{1: "/m", 2: "/opt", 5: 2}]}, "shared"),
], ids=["privileged", "capability", "root", "etc", "socket", "shared"])
def test_cri_pod_is_told_why_it_is_refused(kubelet, pod, more, why):
    if "mounts" in more:
        more = {"mounts": [{**mount, 2: mount[2].replace("@", str(kubelet.folder))} for mount in more["mounts"]]}
    with pytest.raises(kubelet.refused) as error:
        kubelet.container(*pod, f"bad{abs(hash(why))}", "echo", "RAN", **more)
    assert why in str(error.value), error.value


def test_cri_privileged_container_of_a_privileged_pod(kubelet):
    config = kubelet.config("mighty", privileged=True)
    pod = kubelet.cri.pod(config)
    with pytest.raises(kubelet.refused) as error:
        kubelet.container(pod, config, "mighty", "echo", "RAN", security={2: True})
    assert "CAP_" in str(error.value), error.value
    kubelet.remove(pod)


@pytest.mark.parametrize("name, more, why", [("network", {"network": NODE}, "network"), ("pid", {"pid": NODE}, "has no pid"), ("ipc", {"ipc": NODE}, "has no ipc"),
                                             ("ways", {"annotations": {"brig.allow": "pypi.org"}}, "/etc/brig/oci.json"),
                                             ("level", {"annotations": {"brig.level": "low"}}, "brig.level")])
def test_cri_sandbox_is_told_why_it_is_refused(kubelet, name, more, why):
    """The node's own namespaces; and what a pod's annotations ask of brig reaches it, by the example's pod_annotations."""
    config = kubelet.config(name, **more)
    with pytest.raises(kubelet.refused) as error:
        kubelet.cri.pod(config)
    assert why in str(error.value), error.value
    # control: runc does what is asked, and does not know the annotations
    kubelet.remove(kubelet.cri.pod({**config, 1: {1: f"{name}-runc", 2: "uid", 3: "default"}}, handler="runc"))
