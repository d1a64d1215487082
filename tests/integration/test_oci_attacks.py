"""Configurations that attack: rows O-01 to O-13. Each has a control: the same container without the attack runs, or the attack succeeds where the
guard is not there."""
import contextlib
import copy
import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import hangfs
import pytest

from helpers import IS_ROOT, PUBLIC, ROOT, USER, Caller, status_fields, wait_for
from ociclauses import clause
from ocilib import BUSYBOX, OCI, Bundle, bundle_of, groups_left, operator_call, operator_command, refused, runs

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="needs root, and a static busybox for a root")


@pytest.fixture
def bundle():
    with bundle_of(ROOT) as made:
        yield made


@pytest.mark.parametrize("key", ["brig.level", "brig.tier", "brig.policy", "brig.allow", "brig.anything", "Brig.tier", "BRIG.LEVEL"])
def test_O01_annotations_that_widen(bundle, key):
    bundle.config["annotations"] = {key: "/tmp/own.yaml"}
    refused(bundle, key)
    bundle.config["annotations"] = {"run.oci.handler": "wasm", "io.katacontainers.config.hypervisor.path": "/bin/sh", "org.systemd.property.X": "'y'"}
    runs(bundle)  # control: those of others are no orders


def test_O02_a_configuration_without_the_floor(bundle):
    bundle.config["process"].update(noNewPrivileges=False)
    bundle.config["linux"].update(maskedPaths=[], readonlyPaths=[], seccomp={"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86"]})
    bundle.start("mount -t tmpfs x /tmp; mknod /tmp/k c 1 11; chroot / true; echo x >/proc/sys/kernel/hostname; umount /proc/keys; "
                 "cat /proc/keys | wc -c; echo tried; exec sleep 1000")
    wait_for(lambda: "tried" in bundle.output())
    fields = status_fields(bundle.pid())
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2" and fields["Seccomp_filters"] == "2"
    assert bundle.output().split()[-2] == "0"
    assert not os.path.exists(bundle.folder / "rootfs/tmp/k")
    mounts = open(f"/proc/{bundle.pid()}/mounts").read()
    assert " /proc/sys proc ro," in mounts and " /proc/keys " in mounts and "x /tmp" not in mounts
    for ns in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert os.stat(f"/proc/{bundle.pid()}/ns/{ns}").st_ino != os.stat(f"/proc/self/ns/{ns}").st_ino
    bundle.remove()
    every = [f"CAP_{c}" for c in ("SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "BPF", "NET_ADMIN", "DAC_READ_SEARCH", "SYS_RAWIO")]
    for cap in every:
        for kind in ("bounding", "effective", "permitted", "inheritable", "ambient"):
            bundle.config["process"]["capabilities"] = {kind: [cap]}
            bundle.save()
            told = bundle.create()
            assert told.returncode == 125 and cap in told.stderr
    bundle.caps("CAP_CHOWN")
    runs(bundle)


def test_O02_control_the_same_attacks_work_without_the_walls(bundle):
    """A plain mount namespace and root: what the attack above tries is possible there."""
    script = f"mount -t tmpfs x {bundle.folder} && touch {bundle.folder}/worked && mknod {bundle.folder}/k c 1 3 && echo WORKED"
    told = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert told.stdout == "WORKED\n", told.stderr


def elsewhere(bundle, script, drop=(), prefix=()):
    """The control of many rows: the same bundle by a runtime that has no such floor (runc), where the attack works. It wants maps with a user namespace."""
    if not shutil.which("runc"):
        pytest.skip("runc is not installed")
    config = copy.deepcopy(bundle.config)
    config["process"]["args"] = ["sh", "-c", script]
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] not in ("user", "cgroup", *drop)]
    if "uts" in drop:
        del config["hostname"]
    folder = bundle.folder.parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    config["root"]["path"] = str(bundle.folder / "rootfs")
    (folder / "config.json").write_text(json.dumps(config))
    return subprocess.run([*prefix, "runc", "--root", str(folder / "states"), "run", "--bundle", str(folder), "else-" + bundle.id], capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)


FILES = {"network": "net", "mount": "mnt"}


def mounts_of(bundle):
    """On this host, with the bundle's path in them: others mount things at the same time."""
    return [line for line in open("/proc/self/mountinfo") if str(bundle.folder) in line]


@clause("config.mounts.type", "config.mounts.options.remount")
@pytest.mark.parametrize("entry, why", [
    ({"type": "overlay", "source": "overlay", "options": ["lowerdir=/"]}, "type of file system"),
    ({"type": "nfs", "source": "h:/x"}, "type of file system"),
    ({"type": "ext4", "source": "/dev/vda", "options": ["loop"]}, "type of file system"),
    ({"type": "none", "source": "x"}, "type of file system"),
    ({"type": "proc", "source": "proc"}, "one place"),
    ({"type": "sysfs", "source": "sysfs", "options": ["ro"]}, "one place"),
    ({"type": "cgroup", "source": "cgroup"}, "writable cgroup"),
    ({"type": "tmpfs", "source": "x", "options": ["size=1k,huge=always"]}, "not on the list"),
    ({"type": "bind", "source": "/tmp", "options": ["bind", "rshared"]}, "rshared"),
    ({"type": "bind", "source": "/tmp", "options": ["bind", "remount"]}, "remount"),
    ({"type": "bind", "source": "/tmp", "options": ["bind", "idmap"]}, "idmap"),
    ({"type": "bind", "source": "/", "options": ["rbind"]}, "mount of /"),
    ({"type": "bind", "source": "/proc/1/root", "options": ["rbind"]}, "source of a mount"),
    ({"type": "bind", "source": "/proc/sys", "options": ["bind"]}, "host's kernel"),
    ({"type": "bind", "source": "/sys/fs/cgroup/memory", "options": ["bind"]}, "host's kernel"),
    ({"type": "bind", "source": "/dev/kmsg", "options": ["bind"]}, "it is a device"),
    ({"type": "bind", "source": "/etc/shadow", "options": ["bind"]}, "never enters"),
], ids=lambda v: f"{v['type']}-{v['source']}-{'-'.join(v.get('options', []))}".replace("/", "_") if isinstance(v, dict) else "")
def test_O03_mounts_that_open_a_wall(bundle, entry, why):
    before = mounts_of(bundle)
    bundle.mount("/x", **entry)
    refused(bundle, why)
    bundle.config["mounts"].pop()
    bundle.mount("/x", type="tmpfs", source="tmpfs")
    runs(bundle)
    assert mounts_of(bundle) == before


def test_O03_a_mount_is_judged_where_it_comes_to_stand(bundle):
    """Links of the image lead onto /proc; the text of the destination does not."""
    (bundle.folder / "rootfs/innocent").symlink_to("/proc/sys")
    (bundle.folder / "rootfs/out").symlink_to("../../../../../../etc")
    (bundle.folder / "data").mkdir()
    bundle.mount("/innocent", type="bind", source=str(bundle.folder / "data"), options=["bind"])
    refused(bundle, "kernel's own files")
    bundle.config["mounts"][-1]["destination"] = "/out/made"
    told = bundle.run("ls -d /etc/made")
    assert told.stdout == "/etc/made\n", told  # beneath the root, not on the host
    assert not os.path.exists("/etc/made")
    bundle.config["mounts"].pop()
    (bundle.folder / "rootfs/proc").rmdir()
    (bundle.folder / "rootfs/proc").symlink_to("/tmp")
    refused(bundle, "is not a folder")


def after(script):
    """What a command is put behind that shall find these mounts made: in a mount namespace of its own, so that the host has none of them."""
    return ["unshare", "-m", "sh", "-c", script + ' && exec "$@"', "sh"]


def run_after(bundle, mounts, script):
    bundle.shell(script)
    return subprocess.run([*after(mounts), *bundle.command("run", "--bundle", bundle.folder, bundle.id)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, cwd=bundle.folder)


VIEWS = ["proc", "sysfs", "devtmpfs"]


@pytest.mark.parametrize("kind", VIEWS)
def test_O03_what_is_mounted_below_a_source_comes_along(bundle, kind):
    below = bundle.folder / "host with blanks/c"
    below.mkdir(parents=True)
    mounts = f"mount -t {kind} none '{below}'"
    bundle.mount("/data", type="bind", source=str(below.parent), options=["rbind", "rw"])
    told = run_after(bundle, mounts, "echo RAN")
    assert told.returncode == 125 and "the host's kernel, or its devices" in told.stderr and "RAN" not in told.stdout, told
    # controls: without what is below, and with an ordinary file system there, read-only too
    bundle.config["mounts"][-1]["options"] = ["bind", "rw"]
    assert run_after(bundle, mounts, "ls /data/c; echo RAN").stdout == "RAN\n"
    bundle.config["mounts"][-1]["options"] = ["rbind", "rw"]
    told = run_after(bundle, f"mount -t tmpfs none '{below}' && touch '{below}/there'", "ls /data/c; echo x >/data/c/there && echo RAN")
    assert told.stdout == "there\nRAN\n", told
    # it is refused where it is the source itself
    bundle.config["mounts"][-1]["source"] = str(below)
    told = run_after(bundle, mounts, "echo RAN")
    assert told.returncode == 125 and "the host's kernel" in told.stderr, told


@pytest.mark.parametrize("kind", VIEWS)
def test_O03_what_is_mounted_below_the_root_comes_along(bundle, kind):
    below = bundle.folder / "rootfs/data"
    told = run_after(bundle, f"mount -t {kind} none {below}", "echo RAN")
    assert told.returncode == 125 and "the host's kernel, or its devices" in told.stderr and "RAN" not in told.stdout, told
    told = run_after(bundle, f"mount -t tmpfs none {below} && touch {below}/there", "ls /data; echo RAN")
    assert told.stdout == "there\nRAN\n", told  # control


def test_O03_control_the_hosts_settings_can_be_written_below_a_source(bundle):
    """With the value that they have."""
    below = bundle.folder / "host/c"
    below.mkdir(parents=True)
    bundle.mount("/data", type="bind", source=str(below.parent), options=["rbind", "rw"])
    at = "/data/c/sys/kernel/core_pattern"
    told = elsewhere(bundle, f'x=$(cat {at}) && echo "$x" >{at} && echo WROTE', prefix=after(f"mount -t proc none {below}"))
    assert told.stdout == "WROTE\n", told


# As setcap writes cap_setuid=ep; the kernel adds whose it is where it is not the host's root.
SETS_CAPABILITY = """import os, struct, sys
try:
    os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0))
    print("SET")
except PermissionError:
    print("DENIED")
"""


@pytest.fixture
def python(bundle):
    """The same with the host's python inside, and with the right to set capabilities of files."""
    root = bundle.folder / "rootfs"
    for name in ("lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to("usr/" + name)
        elif Path("/", name).exists():
            bundle.mount("/" + name, type="bind", source="/" + name, options=["bind", "ro"])
    bundle.mount("/usr", type="bind", source="/usr", options=["bind", "ro"])
    (root / "sets.py").write_text(SETS_CAPABILITY)
    (root / "tmp/f").write_text("")
    bundle.caps("CAP_SETFCAP", "CAP_CHOWN", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_DAC_OVERRIDE")
    return bundle


def capability_of(path):
    try:
        return os.getxattr(path, "security.capability")
    except OSError:
        return None


def test_O03_capabilities_of_the_hosts_files(python):
    """Root inside is the host's root to a file: what it grants there holds outside."""
    bundle, host = python, python.folder / "host"
    host.mkdir()
    (host / "f").write_text("")
    command = "/usr/bin/python3 /sets.py "
    assert bundle.run(command + "/tmp/f").stdout == "SET\n"  # control: the right itself, where nothing of the host's can be written
    bundle.mount("/data", type="bind", source=str(host), options=["bind", "rw"])
    assert bundle.run(command + "/data/f; grep CapBnd /proc/self/status").stdout == "DENIED\nCapBnd:\t00000000000000cb\n"
    assert capability_of(host / "f") is None
    bundle.start("exec sleep 1000")
    assert bundle.exec("--cap", "CAP_SETFCAP", "/usr/bin/python3", "/sets.py", "/data/f").stdout == "DENIED\n"
    bundle.remove()
    bundle.config["mounts"][-1]["options"] = ["bind", "ro"]
    assert bundle.run(command + "/tmp/f").stdout == "SET\n"  # control
    bundle.config["mounts"][-1].update(source=str(host / "f"), destination="/data/f", options=["bind", "rw"])
    assert bundle.run(command + "/data/f").stdout == "DENIED\n"


def test_O03_control_capabilities_of_a_mapped_root_are_its_own(python):
    bundle, host = python, python.folder / "host"
    host.mkdir()
    (host / "f").write_text("")
    bundle.mount("/data", type="bind", source=str(host), options=["bind", "rw"])
    subprocess.run(["chown", "-R", "100000:100000", str(host), str(bundle.folder / "rootfs")], check=True)
    bundle.config["linux"].update({key: [{"containerID": 0, "hostID": 100000, "size": 65536}] for key in ("uidMappings", "gidMappings")})
    assert bundle.run("/usr/bin/python3 /sets.py /data/f").stdout == "SET\n"
    assert capability_of(host / "f")[-4:] == (100000).to_bytes(4, "little")  # of no use to anybody else's


def test_O03_control_without_the_guard_they_are_the_hosts(python):
    bundle, host = python, python.folder / "host"
    host.mkdir()
    (host / "f").write_text("")
    bundle.mount("/data", type="bind", source=str(host), options=["bind", "rw"])
    told = elsewhere(bundle, "/usr/bin/python3 /sets.py /data/f")
    assert told.stdout == "SET\n", told
    assert len(capability_of(host / "f")) == 20  # nobody's in particular: everybody's


def test_O03_set_id_bits_of_a_single_file(bundle):
    file = bundle.folder / "file"
    file.write_text("")
    script = "chmod 4755 /data/f 2>/dev/null; stat -c %a /data/f"
    bundle.mount("/data/f", type="bind", source=str(file), options=["bind", "rw"])
    assert bundle.run(script).stdout == "644\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert bundle.run("chmod 755 /data/f; stat -c %a /data/f").stdout == "755\n"  # control
    # controls: one that can only be read, and one that nobody but root comes to, as engines keep the names of hosts
    bundle.config["mounts"][-1]["options"] = ["bind", "ro"]
    assert bundle.run("touch /tmp/g; chmod 4755 /tmp/g; stat -c %a /tmp/g").stdout == "4755\n"
    closed = bundle.folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "f").write_text("")
    bundle.config["mounts"][-1].update(source=str(closed / "f"), options=["bind", "rw"])
    assert bundle.run(script).stdout == "4755\n"
    closed.chmod(0o701)
    (closed / "f").chmod(0o644)
    assert bundle.run(script).stdout == "644\n"


def test_O03_set_id_bits_of_a_file_that_came_along(bundle):
    """As standard output: a redirection."""
    script = "chmod 4755 /proc/self/fd/1 2>/dev/null; touch /tmp/g; chmod 4755 /tmp/g 2>/dev/null; stat -c %a /tmp/g >&2"
    with (bundle.folder / "file").open("w") as out:
        bundle.shell(script)
        told = subprocess.run(bundle.command("run", "--bundle", bundle.folder, bundle.id), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
                              text=True, timeout=120, cwd=bundle.folder)
    assert told.stderr == "644\n" and stat.S_IMODE(os.stat(bundle.folder / "file").st_mode) == 0o644
    assert bundle.run(script).stderr == "4755\n"  # control: a pipe


def test_O03_a_socket_of_the_host(bundle, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        bundle.mount("/s", type="bind", source=str(tmp_path / "s"), options=["bind"])
        refused(bundle, "a door to what listens there")
        bundle.shell("test -S /s && echo THERE")
        told = operator_call(bundle, {"sockets": [str(tmp_path / "s")]}, "run", "--bundle", bundle.folder, bundle.id)
        assert told.stdout == "THERE\n", told.stderr  # control: the operator can


CONNECTS = """import socket, sys
try:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1])
    print("CONNECTED")
except OSError as e:
    print(type(e).__name__)
"""


@contextlib.contextmanager
def listening(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(str(path))
        if kind == socket.SOCK_STREAM:
            server.listen(4)
        yield server


@pytest.mark.parametrize("option", ["ro", "rw"])
def test_O03_sockets_of_the_host_below_a_folder(python, option):
    """They are as good as the file itself, and a mount that is read-only keeps nobody from connecting."""
    bundle, host = python, python.folder / "host"
    (bundle.folder / "rootfs/connects.py").write_text(CONNECTS)
    (host / "deep er").mkdir(parents=True)
    at = host / "deep er/s"
    bundle.mount("/data", type="bind", source=str(host), options=["bind", option])
    command = "/usr/bin/python3 /connects.py '/data/deep er/s'; echo RAN"
    with listening(at):
        refused(bundle, "a door to what listens")
        bundle.shell(command)
        told = operator_call(bundle, {"sockets": [str(at)]}, "run", "--bundle", bundle.folder, bundle.id)
        assert told.stdout == "CONNECTED\nRAN\n", told  # control: the operator can, and it is a door
    # controls: nobody listens any more, the file is gone, and a folder beside it with the same beginning
    assert bundle.run(command).stdout == "ConnectionRefusedError\nRAN\n"
    at.unlink()
    runs(bundle)
    (bundle.folder / "host2").mkdir()
    with listening(bundle.folder / "host2/s"):
        runs(bundle)


def test_O03_sockets_by_other_names_and_kinds(bundle):
    """Bound by way of a link, as those in /var/run; for messages, where nobody listens; and below the root."""
    host = bundle.folder / "host"
    host.mkdir()
    (bundle.folder / "link").symlink_to("host")
    bundle.mount("/data", type="bind", source=str(host), options=["rbind", "ro"])
    with listening(bundle.folder / "link/s"):
        refused(bundle, "a door to what listens")
    (host / "s").unlink()
    with listening(host / "s", socket.SOCK_DGRAM):
        refused(bundle, "a door to what listens")
    (host / "s").unlink()
    runs(bundle)
    with listening(bundle.folder / "rootfs/tmp/s"):
        refused(bundle, "a door to what listens")
    runs(bundle)


LISTEN = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(1); print('up', flush=True); time.sleep(1000)"


class Elsewhere(Caller):
    """Root in a network namespace of its own: who asks there sees the sockets that were bound there."""

    def __init__(self, space):
        super().__init__("root")
        self.space = space

    def outside(self, *command):
        return ["nsenter", f"--net=/run/netns/{self.space}", "--", *command]


def test_O03_a_socket_whose_file_system_does_not_answer():
    """Anybody may have bound a name that leads there: who creates a container does not wait for it, and says so. Tests beside this one would be told, too, if
    the name were the host's."""
    name = f"brig-hang-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with bundle_of(Elsewhere(name)) as bundle:
            host, silent = bundle.folder / "host", bundle.folder / "silent"
            host.mkdir()
            silent.mkdir()
            bundle.mount("/data", type="bind", source=str(host), options=["bind", "ro"])
            listener = subprocess.Popen(bundle.caller.outside("/usr/bin/python3", "-c", LISTEN, str(silent / "hang")), stdout=subprocess.PIPE)
            try:
                assert listener.stdout.readline() == b"up\n"
                runs(bundle)
                with hangfs.hang(silent) as hung:
                    refused(bundle, "does not answer")
                    assert hung.asked.is_set()
            finally:
                listener.kill()
                listener.wait()
                listener.stdout.close()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.parametrize("folder", ["podman", "docker", "containerd", "crio", "dbus", "systemd", "user", "user/1000"])
def test_O03_folders_of_services(bundle, folder):
    """Whoever listens there later is not seen. Folders below are the engines' own for containers."""
    mounts = f"mount -t tmpfs none /run && mkdir -p /run/{folder}/some/one"
    bundle.mount("/data", type="bind", source=f"/run/{folder}", options=["bind", "ro"])
    told = run_after(bundle, mounts, "echo RAN")
    assert told.returncode == 125 and "the host's own sockets" in told.stderr and "RAN" not in told.stdout, told
    bundle.config["mounts"][-1]["source"] += "/some/one"
    assert run_after(bundle, mounts, "echo RAN").stdout == "RAN\n"


def test_O03_control_a_read_only_folder_is_a_door_without_the_guard(python):
    bundle, host = python, python.folder / "host"
    (bundle.folder / "rootfs/connects.py").write_text(CONNECTS)
    host.mkdir()
    bundle.mount("/data", type="bind", source=str(host), options=["bind", "ro"])
    with listening(host / "s") as server:
        assert elsewhere(bundle, "/usr/bin/python3 /connects.py /data/s").stdout == "CONNECTED\n"
        with server.accept()[0] as other:
            assert struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == 0  # the host's root, to who listens


@clause("config-linux.namespaces.path.type", "config-linux.namespaces.path.kinds")
@pytest.mark.parametrize("kind, path, why", [
    ("pid", "/proc/1/ns/pid", "pid namespace is not joined"),
    ("mount", "/proc/1/ns/mnt", "mount namespace is not joined"),
    ("user", "/proc/1/ns/user", "user namespace is not joined"),
    ("network", "/proc/1/ns/net", "host's network"),
    ("network", "/proc/self/ns/net", "host's network"),
    ("ipc", "/proc/1/ns/ipc", "host's ipc"),
    ("network", "/proc/1/ns/ipc", "is not a network namespace"),
    ("network", "/etc/passwd", "is not a network namespace"),
    ("network", "/dev/null", "is not a network namespace"),
    ("network", "/nosuch", "open the network namespace"),
])
def test_O04_namespaces_by_path(bundle, kind, path, why):
    if not os.access("/proc/1/ns/net", os.R_OK):  # root may lack the right to look at the first process
        path = path.replace("/proc/1/", f"/proc/{os.getpid()}/")
    for entry in bundle.config["linux"]["namespaces"]:
        if entry["type"] == kind:
            entry["path"] = path
    refused(bundle, why)


@pytest.mark.parametrize("kind", ["pid", "network", "ipc"])
def test_O04_control_a_runtime_without_the_guard_joins_the_hosts(bundle, kind):
    file = FILES.get(kind, kind)
    next(entry for entry in bundle.config["linux"]["namespaces"] if entry["type"] == kind)["path"] = f"/proc/{os.getpid()}/ns/{file}"
    told = elsewhere(bundle, f"readlink /proc/self/ns/{file}")
    assert told.stdout.strip() == os.readlink(f"/proc/self/ns/{file}"), told


@pytest.mark.parametrize("kind", ["pid", "network", "ipc", "uts"])
def test_O04_control_left_out_is_the_hosts_without_the_guard(bundle, kind):
    file = FILES.get(kind, kind)
    told = elsewhere(bundle, f"readlink /proc/self/ns/{file}", drop=(kind,))
    assert told.stdout.strip() == os.readlink(f"/proc/self/ns/{file}"), told


def test_O04_the_pid_namespace_of_another_container(bundle):
    """The operator alone lets one look into another; with his word it works."""
    with bundle_of(ROOT) as other:
        other.start("exec sleep 1000")
        bundle.config["linux"]["namespaces"][0]["path"] = f"/proc/{other.pid()}/ns/pid"
        refused(bundle, "pid namespace is not joined")
        bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["type"] != "proc"]  # a view of its processes is not made for others
        bundle.shell("echo $$")
        told = operator_call(bundle, {"joins": ["pid", "network", "ipc", "uts"]}, "run", "--bundle", bundle.folder, bundle.id)
        assert int(told.stdout) > 1, told  # control: PID 1 is the other's
        del bundle.config["linux"]["namespaces"][0]["path"]
        assert bundle.run("echo $$").stdout == "1\n"


@clause("config-linux.namespaces.left-out")
@pytest.mark.parametrize("kind", ["pid", "network", "ipc", "uts"])
def test_O04_namespaces_left_out(bundle, kind):
    spaces = bundle.config["linux"]["namespaces"]
    bundle.config["linux"]["namespaces"] = [n for n in spaces if n["type"] != kind]
    refused(bundle, f"has no {kind}")
    # control, and the others: missing means a new one
    bundle.config["linux"]["namespaces"] = [n for n in spaces if n["type"] in ("pid", "network", "ipc", "uts")]
    told = bundle.run("readlink /proc/self/ns/user; readlink /proc/self/ns/mnt; readlink /proc/self/ns/cgroup")
    assert len(told.stdout.split()) == 3
    for ns in ("user", "mnt", "cgroup"):
        assert os.readlink(f"/proc/self/ns/{ns}") not in told.stdout


@clause("config.hooks.allowed", "config.hooks.state")
@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "poststart", "poststop"])
def test_O05_hooks(bundle, tmp_path, stage):
    mark = tmp_path / "ran"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >{mark}\nenv >>{mark}\nls /proc/self/fd | wc -l >>{mark}\n")
    hook.chmod(0o755)
    bundle.config["hooks"] = {stage: [{"path": str(hook), "env": ["PATH=/usr/bin:/bin"]}]}
    refused(bundle, "outside of the sandbox")
    assert not mark.exists()
    bundle.shell("echo RAN")
    told = operator_call(bundle, {"hooks": [str(hook)]}, "run", "--bundle", bundle.folder, bundle.id)
    assert told.stdout == "RAN\n", told.stderr
    text = mark.read_text()
    assert json.loads(text.splitlines()[0].split("}")[0] + "}")["id"] == bundle.id
    assert "PATH=/usr/bin:/bin\n" in text and "HOME=" not in text


@clause("config.hooks.env")
@pytest.mark.parametrize("entry", ["LD_PRELOAD={0}/evil.so", "BASH_ENV={0}/x", "PATH={0}:/usr/bin:/bin", "PATH=", "PATH=/usr/bin:", "PATH=:/usr/bin", "PATH=.",
                                   "PATH=/usr/bin/../../{0}", "PATH", "", "path=/bin", "ONLY=this"])
def test_O05_variables_of_hooks(bundle, tmp_path, entry):
    """A program that the operator allowed is no other one by what the bundle gives it; its PATH alone would do."""
    evil, hook = tmp_path / "evil", tmp_path / "hook"
    evil.mkdir()
    (evil / "cat").write_text(f"#!/bin/sh\n: >{tmp_path}/worked\n")
    hook.write_text(f"#!/bin/sh\ncat >/dev/null\nenv >{tmp_path}/env\n")
    for file in (evil / "cat", hook):
        file.chmod(0o755)
    allowed = {"hooks": [str(hook)]}
    bundle.config["hooks"] = {"createRuntime": [{"path": str(hook), "env": ["PATH=/bin", entry.format(evil)]}]}
    bundle.shell("echo RAN")
    told = operator_call(bundle, allowed, "run", "--bundle", bundle.folder, bundle.id)
    assert told.returncode == 125 and "RAN" not in told.stdout and "would lead the hook to other programs" in told.stderr, told
    assert "state on its stdin" in told.stderr and not (tmp_path / "env").exists() and not (tmp_path / "worked").exists()
    # controls: a plain PATH, and the one of a hook that names none
    for env, path in ([["PATH=/usr/bin:/bin"], "PATH=/usr/bin:/bin\n"], [[], "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"]):
        bundle.config["hooks"] = {"createRuntime": [{"path": str(hook), "env": env}]}
        bundle.save()
        told = operator_call(bundle, allowed, "run", "--bundle", bundle.folder, bundle.id)
        assert told.stdout == "RAN\n" and path in (tmp_path / "env").read_text(), told


def test_O05_control_a_path_makes_another_program_of_a_hook(bundle, tmp_path):
    evil, hook = tmp_path / "evil", tmp_path / "hook"
    evil.mkdir()
    (evil / "cat").write_text(f"#!/bin/sh\n: >{tmp_path}/worked\n")
    hook.write_text("#!/bin/sh\ncat >/dev/null\n")
    for file in (evil / "cat", hook):
        file.chmod(0o755)
    bundle.config["hooks"] = {"createRuntime": [{"path": str(hook), "env": [f"PATH={evil}:/usr/bin:/bin"]}]}
    assert elsewhere(bundle, "echo RAN").stdout == "RAN\n" and (tmp_path / "worked").exists()


@clause("runtime.lifecycle.createRuntime", "config.hooks.timeout")
def test_O05_hooks_that_fail_or_do_not_end(bundle, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\nexit 3\n")
    bad.chmod(0o755)
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    bundle.shell("echo RAN")
    for hook, why in ((bad, "status 3"), (slow, "within 1 seconds")):
        bundle.config["hooks"] = {"createRuntime": [{"path": str(hook), "timeout": 1}]}
        bundle.save()
        told = operator_call(bundle, {"hooks": [str(bad), str(slow)]}, "run", "--bundle", bundle.folder, bundle.id)
        assert told.returncode == 125 and why in told.stderr and "RAN" not in told.stdout
        assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []


@clause("config-linux.cgroupsPath.invalid", "config-linux.resources.unified.unknown")
@pytest.mark.parametrize("change, why", [
    ({"cgroupsPath": "/a/../../b"}, "climbs"),
    ({"cgroupsPath": "system.slice:brig:x"}, "service manager"),
    ({"cgroupsPath": "/"}, "cgroupsPath"),
    ({"resources": {"memory": {"limit": -7}}}, "negative"),
    ({"resources": {"unified": {"cgroup.procs": "1"}}}, "cgroup.procs"),
    ({"resources": {"unified": {"../x": "1"}}}, "../x"),
    ({"resources": {"devices": [{"allow": True, "access": "rwm"}]}}, "devices"),
    ({"resources": {"memory": {"disableOOMKiller": True}}}, "disableOOMKiller"),
])
def test_O06_groups_and_resources(bundle, change, why):
    bundle.config["linux"].update(change)
    refused(bundle, why)
    for key in change:
        del bundle.config["linux"][key]
    runs(bundle)


@clause("config-linux.cgroups.fit")
def test_O06_a_group_that_others_are_in(bundle):
    other = Bundle(bundle.folder.parent / "other", ROOT)
    try:
        other.config["linux"]["cgroupsPath"] = f"/brig-oci/{other.id}"
        other.start("exec sleep 1000")
        bundle.config["linux"]["cgroupsPath"] = f"/brig-oci/{other.id}"
        refused(bundle, "is in use")
        assert other.state() == "running"
    finally:
        other.remove()


def test_O06_limits_of_the_operator(bundle, tmp_path):
    allowed = {"memory": 64 << 20, "pids": 20}
    for limit, code in ((64 << 20, 0), (65 << 20, 125), (-1, 125), (0, 125)):
        bundle.config["linux"]["resources"] = {"memory": {"limit": limit}, "pids": {"limit": 20}}
        bundle.shell("true")
        told = operator_call(bundle, allowed, "run", "--bundle", bundle.folder, bundle.id)
        assert told.returncode == code, (limit, told)


def memory_group(bundle):
    """Where its memory is counted, on v1."""
    line = next((at for at in open(f"/proc/{bundle.pid()}/cgroup").read().split() if at.split(":")[1] == "memory"), None)
    return Path("/sys/fs/cgroup/memory" + line.split(":", 2)[2]) if line else None


needs_v1 = pytest.mark.skipif(not Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists(), reason="memory is not counted by cgroup v1 here")


@clause("config-linux.resources.memory.swap")
@needs_v1
@pytest.mark.skipif(not Path("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists(), reason="this kernel does not count swap")
def test_O06_swap_is_memory_as_well(bundle, tmp_path):
    for allowed, most in (({"memory": 64 << 20, "pids": 20}, 64 << 20), ({"pids": 20}, 256 << 20)):
        bundle.config["linux"]["resources"] = {"memory": {"limit": 64 << 20, "swap": 256 << 20}, "pids": {"limit": 20}}
        bundle.shell("exec sleep 1000")
        command = operator_command(bundle, allowed, "create", "--pid-file", bundle.folder / "pid", "--bundle", bundle.folder, bundle.id)
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bundle.folder, check=True, timeout=120)
        group = memory_group(bundle)
        assert int((group / "memory.memsw.limit_in_bytes").read_text()) == most, "the second is the control"
        assert int((group / "memory.limit_in_bytes").read_text()) == 64 << 20
        bundle.call("delete", "--force", bundle.id)


# What nobody reads waits in the kernel, in the buffers of both ends.
TCP_HOARD = """
for i in $(seq 1 12); do sleep 1000 | nc -l -p $((2000 + i)) | sleep 1000 & done
sleep 1
for i in $(seq 1 12); do { head -c 8000000 /dev/zero; sleep 1000; } | nc 127.0.0.1 $((2000 + i)) & done
exec sleep 1000
"""


@needs_v1
def test_O06_buffers_of_sockets_are_memory_as_well(bundle):
    """cgroup v1 counts them apart, and limits them only where it is told to."""
    held = {}
    for limit in (None, 64 << 20):
        bundle.config["linux"]["resources"] = {"memory": {"limit": limit}} if limit else {}
        bundle.start(TCP_HOARD)
        for _ in range(60):
            queues = [line.split()[4].split(":") for line in open(f"/proc/{bundle.pid()}/net/tcp").readlines()[1:]]
            held[limit] = max(held.get(limit, 0), sum(int(sent, 16) + int(received, 16) for sent, received in queues))
            time.sleep(0.1)
        bundle.call("delete", "--force", bundle.id)
    assert held[None] > 16 << 20, f"the control: without a limit they hold {held[None]} bytes"
    assert held[64 << 20] <= 5 << 20, held


@clause("config-linux.devices", "config-linux.sysctl.host")
@pytest.mark.parametrize("change, why", [
    ({"devices": [{"path": "/dev/x", "type": "b", "major": 254, "minor": 0}]}, "/dev/x"),
    ({"devices": [{"path": "/dev/mem", "type": "c", "major": 1, "minor": 1}]}, "/dev/mem"),
    ({"devices": [{"path": "/dev/../../x", "type": "c", "major": 1, "minor": 3}]}, "devices"),
    ({"sysctl": {"kernel.core_pattern": "|/x"}}, "kernel.core_pattern"),
    ({"sysctl": {"net/../kernel/core_pattern": "|/x"}}, "core_pattern"),
    ({"sysctl": {"vm.overcommit_memory": "1"}}, "vm.overcommit_memory"),
])
def test_O07_devices_and_sysctls(bundle, change, why):
    before = open("/proc/sys/kernel/core_pattern").read()
    bundle.config["linux"].update(change)
    refused(bundle, why)
    assert open("/proc/sys/kernel/core_pattern").read() == before


@pytest.fixture
def nodes():
    """The host's, with their modes put back, should they have changed."""
    made = {name: stat.S_IMODE(os.stat(name).st_mode) for name in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")}
    yield made
    for name, mode in made.items():
        os.chmod(name, mode)


# A mode that nobody notices, in case that it works.
CHANGE = 'for at in "$@"; do chmod 667 "$at" 2>/dev/null && echo "$at"; done; true'


def modes_of(names):
    return {name: stat.S_IMODE(os.stat(name).st_mode) for name in names}


def test_O07_the_hosts_device_nodes_stay_as_they_are(bundle, nodes):
    """They are the host's inodes; those that mask files too, and the one that came along as standard input."""
    bundle.caps("CAP_FOWNER", "CAP_CHOWN", "CAP_DAC_OVERRIDE")
    bundle.config["linux"]["maskedPaths"] = ["/etc/masked"]
    (bundle.folder / "rootfs/etc/masked").write_text("")
    bundle.mount("/mine", type="bind", source="/dev/full", options=["bind", "rw"])
    use = 'echo x >/dev/null && head -c 3 /dev/zero | wc -c && head -c 3 /dev/urandom | wc -c; (echo x >/mine) 2>&1; cat /dev/null; wc -c </etc/masked; echo x >/etc/masked'
    told = bundle.run(f'set -- /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /etc/masked /mine /proc/self/fd/0 /proc/keys; {CHANGE}; {use}')
    assert told.stdout == "3\n3\nsh: write error: No space left on device\n0\n", told  # nothing changed, and all work as ever (control)
    assert modes_of(nodes) == nodes


def test_O07_device_nodes_that_come_along(bundle, nodes):
    """By their descriptors, at the start and with an exec; what is read and written stays what it was."""
    change = f"set -- /proc/self/fd/0 /proc/self/fd/1; {CHANGE} >&2; head -c 3 | wc -c >&2; echo x; echo $? >&2"

    def call(*args):
        with open("/dev/zero") as source, open("/dev/full", "w") as sink:
            return subprocess.run(bundle.command(*args), stdin=source, stdout=sink, stderr=subprocess.PIPE, text=True, timeout=120, cwd=bundle.folder)
    assert call("run", "--bundle", bundle.shell(change).folder, bundle.id).stderr == "3\nsh: write error: No space left on device\n1\n"
    bundle.start("exec sleep 1000")
    assert call("exec", bundle.id, "sh", "-c", change).stderr == "3\nsh: write error: No space left on device\n1\n"
    assert modes_of(nodes) == nodes


def test_O07_control_a_node_changes_where_its_mount_is_not_read_only(tmp_path):
    script = ('mount -t tmpfs t "$1" && cd "$1" && mknod n c 1 7 && touch b && mount --bind n b && chmod 640 b && stat -c %a n && '
              'mount -o remount,bind,ro b && ! chmod 600 b 2>/dev/null && stat -c %a n && echo x | tee b >/dev/null')
    told = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path)], capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C"})
    assert told.stdout == "640\n640\n" and "No space left" in told.stderr, told


def test_O07_control_without_the_lists_nodes_and_settings_are_the_hosts(bundle):
    """A runtime without the list makes the node; and root outside of the walls, with the same proc, sets what is the whole host's."""
    bundle.config["linux"]["devices"] = [{"path": "/dev/mem", "type": "c", "major": 1, "minor": 1, "fileMode": 0o666}]
    told = elsewhere(bundle, "stat -c %t:%T /dev/mem")
    assert told.stdout == "1:1\n", told
    del bundle.config["linux"]["devices"]
    told = bundle.run("stat -c %t:%T /dev/mem; echo $?; echo x 2>/dev/null >/proc/sys/kernel/core_pattern || echo shut")
    assert "1:1" not in told.stdout and "shut" in told.stdout
    with open("/proc/sys/kernel/core_pattern", "r+") as setting:
        before = setting.read()
        setting.seek(0)
        setting.write(before)  # the same again: the host's stays as it is


def test_O08_exec_with_a_process_of_its_own(bundle):
    bundle.start("exec sleep 1000")

    def attempt(**change):
        process = {**bundle.config["process"], "args": ["sh", "-c", "echo RAN; grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; ls -l /proc/self/fd | wc -l"],
                   **change}
        (bundle.folder / "p.json").write_text(json.dumps(process))
        return bundle.call("exec", "--process", bundle.folder / "p.json", bundle.id)
    good = attempt(noNewPrivileges=False)  # control
    assert "RAN" in good.stdout and "NoNewPrivs:\t1" in good.stdout and "Seccomp:\t2" in good.stdout
    assert good.stdout.split()[-1] == "5"  # three, the folder, and the heading
    for change, why in (({"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}, "CAP_SYS_ADMIN"), ({"selinuxLabel": "x"}, "selinuxLabel"),
                        ({"apparmorProfile": "unconfined"}, "apparmorProfile"), ({"oomScoreAdj": -1000}, "oomScoreAdj"),
                        ({"args": []}, "process.args"), ({"cwd": "relative"}, "process.cwd")):
        told = attempt(**change)
        assert told.returncode == 125 and why in told.stderr and "RAN" not in told.stdout, told
    assert bundle.call("exec", "nosuch", "true").returncode == 127
    assert bundle.call("exec", "../" + bundle.id, "true").returncode == 125
    # What runs inside cannot look into one that is on its way, nor reach this program's file.
    told = bundle.exec("sh", "-c", "readlink /proc/self/exe; ls -l /proc/1/exe")
    assert "brig" not in told.stdout
    bundle.call("kill", bundle.id, "KILL")
    wait_for(lambda: bundle.state() == "stopped")
    assert bundle.exec("true").returncode == 125


def test_O08_a_program_that_points_back_at_the_runtime(bundle):
    """The known attack: the container's program is a script whose interpreter is /proc/self/exe, and something inside writes to it."""
    (bundle.folder / "rootfs/bin/trap").write_text("#!/proc/self/exe\n")
    (bundle.folder / "rootfs/bin/trap").chmod(0o755)
    before = open(os.path.realpath(OCI), "rb").read()
    bundle.start("while true; do for p in /proc/[0-9]*; do (echo broken >$p/exe) 2>/dev/null && echo WROTE; done; done")
    for _ in range(20):
        bundle.exec("/bin/trap")
    assert "WROTE" not in bundle.output()
    assert open(os.path.realpath(OCI), "rb").read() == before


def test_O09_files_and_sockets_that_the_caller_names(bundle, tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(target)
    bundle.shell("true")
    told = bundle.call("--log", link, "start", "nosuch")
    assert told.returncode == 127 and target.read_text() == "precious"
    os.mkfifo(tmp_path / "fifo")
    assert bundle.call("--log", tmp_path / "fifo", "start", "nosuch", timeout=60).returncode == 127
    # A pid file takes the place of the link, and does not go through it.
    bundle.folder.joinpath("pid").symlink_to(target)
    assert bundle.create("true").returncode == 0
    assert target.read_text() == "precious" and bundle.pid() > 0
    bundle.remove()
    # Configurations that are links, FIFOs or folders.
    bundle.folder.joinpath("config.json").rename(tmp_path / "config.json")
    bundle.folder.joinpath("config.json").symlink_to(tmp_path / "config.json")
    assert bundle.create().returncode == 125
    bundle.folder.joinpath("config.json").unlink()
    os.mkfifo(bundle.folder / "config.json")
    assert bundle.create(timeout=60).returncode == 125
    bundle.folder.joinpath("config.json").unlink()
    # A state folder that others can change.
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    told = subprocess.run([OCI, "--root", shared, "list"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 125 and "others" in told.stderr


def test_O09_console_sockets(bundle, tmp_path):
    bundle.config["process"]["terminal"] = True
    bundle.shell("true")
    (tmp_path / "plain").write_text("")
    for path in (tmp_path / "plain", tmp_path / "nosuch", "/dev/null"):
        assert bundle.create(None, "--console-socket", path).returncode == 125
    with socket.socket(socket.AF_UNIX) as server:  # nobody ever takes the connection
        server.bind(str(tmp_path / "s"))
        server.listen(1)
        assert bundle.create(None, "--console-socket", tmp_path / "s", timeout=60).returncode in (0, 125)
    bundle.remove()
    assert bundle.call("list", "-q").stdout == ""


@clause("runtime.lifecycle.config.kept")
def test_O10_create_is_not_start(bundle):
    data = bundle.folder / "data"
    data.mkdir()
    (data / "which").write_text("first")
    bundle.mount("/data", type="bind", source=str(data), options=["bind"])
    assert bundle.create("cat /data/which; echo $A; exec sleep 1000").returncode == 0
    # Everything is exchanged.
    bundle.config["process"].update(args=["sh", "-c", "echo SECOND"], env=["PATH=/bin", "A=second"])
    bundle.save()
    data.rename(bundle.folder / "old")
    data.mkdir()
    (data / "which").write_text("second")
    assert bundle.call("start", bundle.id).returncode == 0
    wait_for(lambda: bundle.output() == "firstb\n")
    assert "SECOND" not in bundle.output()
    # exec goes by the kept copy too.
    bundle.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_KILL"}
    bundle.save()
    assert bundle.exec("echo", "still").stdout == "still\n"


@clause("runtime.start.not-created")
def test_O10_start_twice_at_once(bundle):
    assert bundle.create("echo x; exec sleep 1000").returncode == 0
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(bundle.call("start", bundle.id).returncode)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert sorted(codes) == [0] + [125] * 7
    wait_for(lambda: bundle.output() == "x\n")


@pytest.mark.parametrize("change, why", [
    (lambda c: c["process"].update(apparmorProfile="p"), "apparmorProfile"),
    (lambda c: c["linux"].update(mountLabel="l"), "mountLabel"),
    (lambda c: c["linux"].update(personality={"domain": "LINUX32"}), "personality"),
    (lambda c: c["linux"].update(timeOffsets={"boottime": {"secs": 5}}), "timeOffsets"),
    (lambda c: c["linux"].update(seccomp={"defaultAction": "SCMP_ACT_NEW"}), "SCMP_ACT_NEW"),
    (lambda c: c["linux"].update(seccomp={"defaultAction": "SCMP_ACT_ALLOW", "flags": ["NEW"]}), "NEW"),
    (lambda c: c["linux"].update(seccomp={"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x"}), "listenerPath"),
    (lambda c: c["linux"].update(resources={"blockIO": {"weight": 5}}), "blockIO"),
    (lambda c: c.update(ociVersion="1.9.0"), "ociVersion"),
    (lambda c: c["process"].update(user={"uid": "root"}), "process.user.uid"),
], ids=range(10))
def test_O11_a_protective_field_is_not_understood(bundle, change, why):
    runs(bundle)  # control: what ignoring it would come to
    change(bundle.config)
    refused(bundle, why)


def test_O11_control_what_a_filter_that_is_not_understood_would_lose(bundle):
    """Understood, it is in force; by a word that is not known, nothing runs; left out, the call that it was to stop goes through."""
    rule = {"names": ["mkdirat", "mkdir"], "action": "SCMP_ACT_ERRNO"}
    bundle.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    assert "not permitted" in bundle.run("mkdir /tmp/x && echo MADE").stderr
    rule["action"] = "SCMP_ACT_DENY"
    refused(bundle, "SCMP_ACT_DENY")
    del bundle.config["linux"]["seccomp"]
    assert bundle.run("mkdir /tmp/x && echo MADE").stdout == "MADE\n"


@pytest.mark.parametrize("text", ['{"ociVersion":"1.0.2","ociVersion":"1.0.1"}', "[" * 100000, '{"a":' * 5000, " " * (5 << 20), "\0", ""],
                         ids=["twice", "deep", "deep-objects", "large", "nul", "empty"])
def test_O11_texts_that_are_no_configuration(bundle, text):
    (bundle.folder / "config.json").write_text(text)
    told = bundle.create()
    assert told.returncode == 125 and "config.json" in told.stderr


def test_O12_a_user_cannot_touch_the_containers_of_others(bundle):
    """brig acts with its caller's rights: another's states are out of reach."""
    bundle.start("exec sleep 1000")
    for verb in (["kill", bundle.id, "KILL"], ["delete", "--force", bundle.id], ["exec", bundle.id, "true"], ["state", bundle.id]):
        told = subprocess.run(["setpriv", "--reuid", "43001", "--regid", "43001", "--clear-groups", str(OCI), "--root", str(bundle.states), *verb],
                              capture_output=True, text=True, timeout=60)
        assert told.returncode == 125, told
    assert bundle.state() == "running"  # control: its owner can
    assert bundle.exec("true").returncode == 0


def job(bundle):
    told = bundle.run("echo RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout, told
    assert bundle.call("list", "-q").stdout == ""
    return told.stderr


def test_O12_a_job_of_a_users_own_bundle(tmp_path):
    """Slurm and its like run it as the job's user: he has his own rights and no more, whatever his configuration says."""
    secret = Path(tempfile.mkdtemp(dir=PUBLIC))  # root's alone
    (secret / "secret").write_text("SECRET")
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    outside = {"containerID": 0, "hostID": 0, "size": 1}
    with bundle_of(USER) as bundle:
        bundle.mount("/x", type="bind", source=str(secret), options=["bind"])
        assert "SECRET" not in bundle.run("cat /x/secret").stdout
        bundle.config["mounts"].pop()
        bundle.config["linux"].update(uidMappings=[outside], gidMappings=[outside])  # to be root of the host's files
        assert "ids that the caller has" in job(bundle)
        del bundle.config["linux"]["uidMappings"], bundle.config["linux"]["gidMappings"]
        bundle.config["hooks"] = {"createRuntime": [{"path": str(hook)}]}
        assert "outside of the sandbox" in job(bundle)
        del bundle.config["hooks"]
        bundle.config["annotations"] = {"brig.allow": "example.org"}
        assert "/etc/brig/oci.json" in job(bundle)
        del bundle.config["annotations"]
        assert bundle.run("echo RAN; id -u").stdout.startswith("RAN\n")  # control
    with bundle_of(ROOT) as bundle:  # control: who may read it can have it mounted
        bundle.mount("/x", type="bind", source=str(secret), options=["bind"])
        assert bundle.run("cat /x/secret").stdout == "SECRET"
    shutil.rmtree(secret)


def test_O12_root_does_not_obey_the_states_of_a_user(tmp_path):
    """A user's states are his to write: root that is pointed at them does not act on what they say."""
    with bundle_of(USER) as bundle:
        bundle.start("exec sleep 1000")
        victim = subprocess.Popen(["sleep", "1000"])
        try:
            state = bundle.states / bundle.id / "state.json"
            forged = json.loads(state.read_text())
            start = Path(f"/proc/{victim.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
            forged.update(pid=victim.pid, start=int(start))
            whole = state.read_text()
            state.write_text(json.dumps(forged))
            told = subprocess.run([str(OCI), "--root", str(bundle.states), "kill", bundle.id, "KILL"], capture_output=True, text=True, timeout=60)
            assert told.returncode == 125 and victim.poll() is None, told
            state.write_text(whole)
            assert bundle.call("kill", bundle.id, "KILL").returncode == 0  # control: the user himself
        finally:
            victim.kill()
            victim.wait(60)


@pytest.mark.parametrize("tier", ["vm", "gvisor", "process", "VM", "strongest", ""])
def test_O13_another_tier_is_refused_and_never_replaced(bundle, tier):
    bundle.config["annotations"] = {"brig.tier": tier}
    refused(bundle, "brig.tier")
    bundle.config["linux"]["devices"] = [{"path": "/dev/kvm", "type": "c", "major": 10, "minor": 232}]
    refused(bundle, "")


def test_O13_control_the_tier_that_it_has_and_the_receipt_says_which(bundle):
    bundle.config["annotations"] = {"brig.tier": "container"}
    log = bundle.folder / "log"
    bundle.shell("echo RAN")
    assert bundle.call("--log", log, "--log-format", "json", "run", "--bundle", bundle.folder, bundle.id).stdout == "RAN\n"
    receipt = json.loads(log.read_text())["receipt"]
    assert receipt["tier"] == receipt["boundaries"]["kernel"]["tier"] == "container" and receipt["level"] == "none"


@pytest.mark.parametrize("file, annotations, why", [
    ({"tier": "vm"}, {}, "brig.tier"),
    ({"tier": "vm"}, {"brig.tier": "container"}, "weaker than vm"),
    ({"level": "critical"}, {}, "brig.tier"),
    ({"level": "high"}, {"brig.level": "medium"}, "weaker than high"),
    ({"level": "high"}, {"brig.level": "HIGH"}, "is not known"),
    ({}, {"brig.level": "critical", "brig.tier": "container"}, "level critical"),
    ({}, {"brig.tier": "wasm-process"}, "weaker than container"),
])
def test_O13_an_annotation_only_strengthens(bundle, file, annotations, why):
    bundle.config["root"]["readonly"] = True
    bundle.config["annotations"] = annotations
    bundle.shell("echo RAN")
    told = operator_call(bundle, file, "run", "--bundle", bundle.folder, bundle.id)
    assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr, told
    assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []
    bundle.config["annotations"] = {"brig.level": "high", "brig.tier": "container"}
    bundle.save()
    told = operator_call(bundle, {"tier": "container", "level": "high"}, "run", "--bundle", bundle.folder, bundle.id)  # control
    assert told.stdout == "RAN\n", told


@pytest.mark.parametrize("file", [{"tier": "process"}, {"tier": "strong"}, {"tier": 3}, {"level": "none"}, {"level": ""}, {"receipts": "yes"}])
def test_O13_words_of_the_operator_that_are_not_known(bundle, file):
    bundle.shell("echo RAN")
    told = operator_call(bundle, file, "run", "--bundle", bundle.folder, bundle.id)
    assert told.returncode == 125 and "RAN" not in told.stdout and next(iter(file)) in told.stderr, told
    runs(bundle)  # control


def writable_root(bundle):
    bundle.config["root"]["readonly"] = False


def writable_folder(bundle):
    bundle.mount("/data", type="bind", source=str(bundle.folder / "shared"), options=["bind", "rw"])


def engines_network(bundle):
    bundle.config["linux"]["namespaces"][1]["path"] = f"/run/netns/brig-{bundle.id}"


def ways_out(bundle):
    bundle.config["annotations"]["brig.allow"] = "origin.test:80"


@pytest.mark.parametrize("level, change, why", [
    ("low", writable_root, "a root that is read-only"), ("medium", writable_root, "a root that is read-only"), ("high", writable_root, "a root that is read-only"),
    ("low", writable_folder, "can be written"), ("medium", writable_folder, None), ("high", writable_folder, "can be written"),
    ("low", engines_network, "made outside"), ("medium", engines_network, "made outside"), ("high", engines_network, "made outside"),
    ("low", ways_out, "no ways out"), ("medium", ways_out, None), ("high", ways_out, None),
])
def test_O13_a_level_is_held_against_the_configuration(bundle, level, change, why):
    """Of the annotation and of the operator's file. What the change asks for is there without a level."""
    (bundle.folder / "shared").mkdir()
    bundle.config["root"]["readonly"] = True
    rules = {"allow": ["origin.test:80"]}
    subprocess.run(["ip", "netns", "add", f"brig-{bundle.id}"], check=True)

    def told(file, annotations):
        bundle.config["annotations"] = annotations
        change(bundle)
        bundle.shell("echo RAN; echo x >/x && echo root; echo x >/data/x && echo folder")
        return operator_call(bundle, rules | file, "run", "--bundle", bundle.folder, bundle.id)
    try:
        plain = bundle.config["mounts"].copy()
        for file, annotations in (({}, {"brig.level": level}), ({"level": level}, {})):
            bundle.config["mounts"] = plain.copy()
            answer = told(file, annotations)
            if why is None:
                assert answer.stdout.startswith("RAN\n"), answer
            else:
                assert answer.returncode == 125 and "RAN" not in answer.stdout and why in answer.stderr and level in answer.stderr, answer
        bundle.config["mounts"] = plain.copy()
        answer = told({}, {})  # control: what the level is against works without it
        assert answer.stdout.startswith("RAN\n"), answer
        assert ("root" in answer.stdout) == (change is writable_root) and (change is not writable_folder or "folder" in answer.stdout), answer
    finally:
        subprocess.run(["ip", "netns", "del", f"brig-{bundle.id}"], check=True)


def test_O13_a_higher_level_widens_nothing(bundle):
    """Medium has folders that can be written, and low has none: who names medium below an operator's low has none."""
    writable_folder_of_host(bundle)
    told = level_of(bundle, {"level": "low"}, {"brig.level": "medium"})
    assert told.returncode == 125 and "level low has no folder" in told.stderr and "RAN" not in told.stdout, told
    assert level_of(bundle, {}, {"brig.level": "medium"}).stdout == "RAN\nwrote\n"  # control


def writable_folder_of_host(bundle):
    (bundle.folder / "shared").mkdir()
    (bundle.folder / "shared/file").write_text("old")
    (bundle.folder / "shared/file").chmod(0o666)
    (bundle.folder / "rootfs/vol").mkdir()
    (bundle.folder / "rootfs/vol/file").write_text("")
    bundle.config["root"]["readonly"] = True
    bundle.mount("/vol", type="bind", source=str(bundle.folder / "shared"), options=["bind"])


def level_of(bundle, file, annotations):
    bundle.config["annotations"] = annotations
    bundle.shell("echo RAN; echo x >/vol/file && echo wrote")
    return operator_call(bundle, file, "run", "--bundle", bundle.folder, bundle.id)


def test_O13_files_of_the_host_are_no_way_around_a_level(bundle):
    writable_folder_of_host(bundle)
    bundle.config["mounts"][-1].update(destination="/vol/file", source=str(bundle.folder / "shared/file"))
    for file, annotations in (({"level": "high"}, {}), ({}, {"brig.level": "low"})):
        told = level_of(bundle, file, annotations)
        assert told.returncode == 125 and "can be written" in told.stderr and (bundle.folder / "shared/file").read_text() == "old", told
    assert level_of(bundle, {}, {}).stdout == "RAN\nwrote\n"  # control


def test_O13_an_interface_that_comes_between_create_and_start_of_a_level(bundle):
    """As Docker brings them: not by a path, but into a namespace that create has made."""
    bundle.config["root"]["readonly"] = True

    def start(annotations):
        bundle.config["annotations"] = annotations
        assert bundle.create("echo RAN; exec sleep 1000").returncode == 0
        made = subprocess.run(["nsenter", "-t", str(bundle.pid()), "-n", "ip", "tuntap", "add", "dev", "way", "mode", "tun"], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip("no interface can be made here: " + made.stderr)
        return bundle.call("start", bundle.id)
    told = start({"brig.level": "high"})
    assert told.returncode == 125 and "interface other than loopback" in told.stderr and bundle.output() == "", told
    bundle.remove()
    assert start({}).returncode == 0  # control
    wait_for(lambda: "RAN" in bundle.output())


def test_O13_a_root_that_is_no_folder(bundle, tmp_path):
    (tmp_path / "file").write_text("")
    os.mknod(tmp_path / "disk", 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "file", tmp_path / "disk", tmp_path / "fifo", "/dev/null", "", tmp_path / "nosuch"):
        bundle.config["root"]["path"] = str(path)
        refused(bundle, "root")
    bundle.config["root"]["path"] = "rootfs"
    runs(bundle)
