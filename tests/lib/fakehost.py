"""A host as users have them, for one command: engines, buses and agents listen in /run, and their file systems are mounted.

  unshare --mount --propagation private python3 fakehost.py OPENNESS UID COMMAND...

Everything is made in the mount namespace that the caller made for it: what is the machine's own /run stays as it is. OPENNESS:
everybody: all may connect to all of it; root: only root may, and what is the user's own is a name behind which nobody listens;
own: there are the sockets of the user UID alone."""
import os
import socket
import subprocess
import sys
from pathlib import Path

ENGINES = ["docker.sock", "containerd/containerd.sock", "podman/podman.sock", "dbus/system_bus_socket"]
OWN = ["bus", "podman/podman.sock", "gnupg/S.gpg-agent"]


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def listen(path, mode, uid, heard=True):
    """A socket file, and, if somebody is to be heard there, who listens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    path.chmod(mode)
    os.chown(path, uid, uid)
    if heard:
        made.listen(64)
    return made


def sockets(openness, uid):
    run, own = Path("/run"), Path(f"/run/user/{uid}")
    if openness != "own":
        for name in ENGINES:
            yield listen(run / name, 0o666 if openness == "everybody" else 0o660, 0)
    for name in OWN:
        yield listen(own / name, 0o666 if openness == "everybody" else 0o600, uid, openness != "root")
    if openness != "everybody":
        for folder in (own, *own.rglob("*/")):
            os.chown(folder, uid, uid)
        own.chmod(0o700)


def layers():
    """What engines mount for their containers."""
    top = Path("/var/lib/docker/overlay2/0123456789ab")
    for part in ("lower", "upper", "work", "merged"):
        (top / part).mkdir(parents=True)
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work", str(top / "merged"))
    names = Path("/run/docker/netns/default")
    names.parent.mkdir(parents=True)
    names.touch()
    mount("--bind", "/proc/self/ns/net", str(names))


def main():
    openness, uid, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    if os.readlink("/proc/self/ns/mnt") == os.readlink(f"/proc/{os.getppid()}/ns/mnt"):
        sys.exit("this needs a mount namespace of its own: unshare --mount --propagation private")
    for place in ("/run", "/var/lib"):
        mount("-t", "tmpfs", "-o", "mode=755", "fake", place)
    layers()
    kept = list(sockets(openness, uid))
    status = subprocess.run(command, check=False).returncode
    for each in kept:
        each.close()
    sys.exit(status if status >= 0 else 128 - status)


main()
