"""Two machines on one: namespaces with a wire between them, each with an /etc and a /run of its own.

A node is the first process of its pid namespace: when that ends so does all that runs on the node, as if its power were cut, and its
mounts and its network are gone with it. Nothing of the host's network or mounts is touched."""
import contextlib
import os
import shutil
import subprocess
import sys

from helpers import below, end

# Waits for whoever becomes its child, as a machine's first process does.
REAP = "import os, signal, time\nprint('up', flush=True)\nwhile True:\n try: os.wait()\n except ChildProcessError: time.sleep(0.05)\n"
SETUP = """hostname "$1" && ip link set lo up && mount -t tmpfs run /run && mount --bind "$2" /etc && shift 2 && exec "$@" """
SPACES = ["--mount", "--net", "--uts", "--ipc", "--pid"]


class Node:
    def __init__(self, folder, name, address, own_etc=True):
        self.folder, self.name, self.address = folder / name, name, address
        self.folder.mkdir()
        self.etc = self.folder / "etc" if own_etc else "/etc"
        if own_etc:
            subprocess.run(["cp", "-a", "/etc", str(self.etc)], check=True)
        self.holder = None

    def start(self):
        """Power on: with the /etc that was made before. It ends with the test, however that ends."""
        self.holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", *SPACES, "--fork", "--kill-child", "--mount-proc", "sh", "-c", SETUP, "sh", self.name, str(self.etc),
                                        sys.executable, "-c", REAP], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"up\n", self.name
        self.pid = next(iter(below(self.holder.pid)))
        return self

    def inside(self, *command):
        """What starts a command on this node."""
        return ["nsenter", "--target", str(self.pid), *SPACES, "--", *map(str, command)]

    def __call__(self, *command, **kwargs):
        kwargs.setdefault("timeout", 180)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.inside(*command), capture_output=True, text=True, **kwargs)

    def daemon(self, *command, env=None):
        """One that stays in the foreground; it ends with the node."""
        with (self.folder / f"{os.path.basename(str(command[0]))}.log").open("ab") as log:
            return subprocess.Popen(self.inside(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})})

    def log(self, name):
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / f"{name}.log").read_text(errors="replace")
        return ""

    def stop(self):
        """Power off, without a word to anybody."""
        if self.holder:
            end(self.holder)
        self.holder = None


def wire(one, other):
    """Both ends are made where they belong: the host never has one."""
    subprocess.run(["ip", "link", "add", "wire", "netns", str(one.pid), "type", "veth", "peer", "name", "wire", "netns", str(other.pid)], check=True)
    for node in (one, other):
        for command in (["ip", "address", "add", f"{node.address}/24", "dev", "wire"], ["ip", "link", "set", "wire", "up"]):
            assert node(*command).returncode == 0, command


@contextlib.contextmanager
def two_nodes(folder, prepare=lambda node: None):
    """Running, with a wire; `prepare` may change the /etc of each before."""
    nodes = [Node(folder, f"n{i}", f"10.99.0.{i}") for i in (1, 2)]
    try:
        for node in nodes:
            with (node.etc / "hosts").open("a") as hosts:
                hosts.writelines(f"{other.address} {other.name}\n" for other in nodes)
            prepare(node)
            node.start()
        wire(*nodes)
        yield nodes
    finally:
        for node in nodes:
            node.stop()
            shutil.rmtree(node.etc, ignore_errors=True)
