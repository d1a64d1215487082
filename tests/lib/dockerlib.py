"""A Docker engine of a test's own on a node (nodeslib), with brig as a runtime beside runc."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import wait_for
from nodeslib import Node
from ocilib import OCI, groups_left, make_root

EXAMPLES = Path(__file__).parents[2] / "dist" / "cluster"
# What the operator of a node with Docker writes.
ALLOWED = {**json.loads((EXAMPLES / "oci.json").read_text()), "docker": os.path.realpath(shutil.which("dockerd") or "/usr/sbin/dockerd")}


def installed():
    if not shutil.which("dockerd") or not shutil.which("docker"):
        pytest.skip("docker.io is not installed")


def allow(node, allowed):
    """The operator's file of a node."""
    (node.etc / "brig").mkdir(exist_ok=True)
    (node.etc / "brig/oci.json").write_text(json.dumps(allowed))


class Docker:
    def __init__(self, node, example="daemon.json", **more):
        self.node = node
        self.parent = f"/docker-test-{os.getpid()}-{node.name}"
        settings = json.loads((EXAMPLES / example).read_text())
        settings["runtimes"]["brig"]["path"] = str(OCI)
        (node.folder / "daemon.json").write_text(json.dumps({**settings, "data-root": str(node.folder / "docker"), "iptables": False, "ip6tables": False,
                                                             "ip-masq": False, "cgroup-parent": self.parent, **more}))

    def start(self):
        self.daemon = self.node.daemon("dockerd", "--config-file", self.node.folder / "daemon.json")
        wait_for(lambda: self.daemon.poll() is not None or self("version").returncode == 0, 120, "Docker's engine")
        assert self.daemon.poll() is None, self.node.log("dockerd")
        return self

    def inside(self, *args):
        return self.node.inside("docker", "--host", "unix:///run/docker.sock", *args)

    def __call__(self, *args, **kwargs):
        kwargs.setdefault("timeout", 180)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.inside(*args), capture_output=True, text=True, **kwargs)

    def ok(self, *args, **kwargs):
        told = self(*args, **kwargs)
        assert told.returncode == 0, told
        return told.stdout.strip()

    def run(self, *args, network="none", **kwargs):
        return self("run", "--rm", "--runtime", "brig", "--network", network, *args, **kwargs)

    def take_root(self):
        """The image `box`, from busybox."""
        root = self.node.folder / "root"
        make_root(root)
        tar = self.node.folder / "root.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(tar), "."], check=True)
        self.ok("import", tar, "box")
        return self

    def sweep(self):
        """After the node's end: groups have no namespace, and stay."""
        for folder in groups_left(os.path.basename(self.parent)):
            for path, _, _ in sorted(os.walk(folder), reverse=True):
                os.rmdir(path)


def single(folder, name="dock", prepare=lambda node: None, **more):
    """(node, its engine), running."""
    installed()
    node = Node(folder, name, "10.99.0.9")
    allow(node, ALLOWED)
    prepare(node)
    node.start()
    return node, Docker(node, **more).start().take_root()
