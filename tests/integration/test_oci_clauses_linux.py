"""The runtime specification's config-linux.md, clause by clause (tests/lib/ociclauses.py)."""
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from helpers import IS_ROOT, status_fields, wait_for
from ociclauses import case, clause
from ocilib import BUSYBOX, bundle, groups_left, own, refused, runs  # noqa: F401

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root")
CGROUPS = Path("/sys/fs/cgroup")
V2 = (CGROUPS / "cgroup.controllers").exists()


# ---- file systems ----


@clause("config-linux.filesystems")
def test_linux_filesystems(bundle):
    (bundle.folder / "config.json").unlink()
    assert bundle.call("spec", "--bundle", bundle.folder).returncode == 0
    bundle.config = json.loads((bundle.folder / "config.json").read_text())
    told = bundle.run("cut -d' ' -f2,3 /proc/mounts || busybox cut -d' ' -f2,3 /proc/mounts")
    assert {"/proc proc", "/sys sysfs", "/dev/pts devpts", "/dev/shm tmpfs"} <= set(told.stdout.splitlines()), told
    bundle.config["mounts"] = []
    told = bundle.run("cd /proc && echo *")
    assert told.stdout == "*\n", "what is not asked for is not there"


# ---- namespaces ----


@pytest.mark.parametrize("file", [
    case("config-linux.namespaces.pid", "pid"), case("config-linux.namespaces.network", "net"), case("config-linux.namespaces.mount", "mnt"),
    case("config-linux.namespaces.ipc", "ipc"), case("config-linux.namespaces.uts", "uts"), case("config-linux.namespaces.user", "user"),
    case("config-linux.namespaces.cgroup", "cgroup")])
def test_linux_namespaces_are_its_own(bundle, file):
    assert bundle.create("true").returncode == 0
    its = bundle.caller.outside("readlink", f"/proc/{bundle.pid()}/ns/{file}")
    told = subprocess.run(its if not IS_ROOT else its[-2:], capture_output=True, text=True, check=True)
    assert told.stdout.strip().startswith(f"{file}:[") and told.stdout.strip() != os.readlink(f"/proc/self/ns/{file}")


@pytest.mark.parametrize("kind, file, how", [
    case("config-linux.namespaces.path", "network", "net", "-n"), case("config-linux.namespaces.path", "ipc", "ipc", "-i"),
    case("config-linux.namespaces.path", "uts", "uts", "-u")])
def test_linux_namespaces_by_path(own, kind, file, how):
    holder = subprocess.Popen(["unshare", how, "sh", "-c", "echo up && exec sleep 1000"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"up\n"
        next(entry for entry in own.config["linux"]["namespaces"] if entry["type"] == kind)["path"] = f"/proc/{holder.pid}/ns/{file}"
        assert own.run(f"readlink /proc/self/ns/{file}").stdout.strip() == os.readlink(f"/proc/{holder.pid}/ns/{file}")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.parametrize("kind, path, why", [
    case("config-linux.namespaces.path.absolute", "network", "proc/self/ns/net", "absolute"),
    case("config-linux.namespaces.path.type", "network", "/proc/self/ns/ipc", "is not a network namespace"),
    case("config-linux.namespaces.path.type", "uts", "/etc/passwd", "is not a uts namespace"),
    case("config-linux.namespaces.path.type", "ipc", "/nosuch", "ipc namespace"),
    case("config-linux.namespaces.path.kinds", "mount", "/proc/self/ns/mnt", "not joined"),
    case("config-linux.namespaces.path.kinds", "user", "/proc/self/ns/user", "not joined"),
    case("config-linux.namespaces.path.kinds", "cgroup", "/proc/self/ns/cgroup", "not joined"),
    case("config-linux.namespaces.path.kinds", "pid", "/proc/self/ns/pid", "not joined"),
])
def test_linux_namespaces_by_a_path_that_is_refused(bundle, kind, path, why):
    next(entry for entry in bundle.config["linux"]["namespaces"] if entry["type"] == kind)["path"] = path
    refused(bundle, why)


@clause("config-linux.namespaces.twice")
def test_linux_namespaces_twice(bundle):
    bundle.config["linux"]["namespaces"].append({"type": "mount"})
    refused(bundle, "mount twice")


@clause("config-linux.namespaces.time", "config-linux.timeOffsets")
def test_linux_namespaces_time(bundle):
    bundle.config["linux"]["namespaces"].append({"type": "time"})
    refused(bundle, "time namespace")
    bundle.config["linux"]["namespaces"].pop()
    bundle.config["linux"]["timeOffsets"] = {"boottime": {"secs": 100}}
    refused(bundle, "timeOffsets")


@clause("config-linux.uidMappings", "config-linux.gidMappings", "config-linux.mappings.ownership")
def test_linux_mappings(own):
    own.config["linux"].update(uidMappings=[{"containerID": 0, "hostID": 700000, "size": 10}, {"containerID": 1000, "hostID": 720000, "size": 1}],
                               gidMappings=[{"containerID": 0, "hostID": 710000, "size": 2000}])
    own.config["process"]["user"] = {"uid": 1000, "gid": 1001}
    root = own.folder / "rootfs"
    subprocess.run(["chown", "-R", "700000:710000", str(root)], check=True)
    os.chown(root / "data", 0, 0)
    own.start("cat /proc/self/uid_map /proc/self/gid_map; touch /tmp/mine; stat -c '%u %g' /data; exec sleep 1000")
    wait_for(lambda: "65534" in own.output())
    assert own.output().split() == "0 700000 10 1000 720000 1 0 710000 2000 65534 65534".split()
    made, kept = (root / "tmp/mine").stat(), (root / "data").stat()
    assert (made.st_uid, made.st_gid, kept.st_uid, kept.st_gid) == (720000, 711001, 0, 0)
    assert status_fields(own.pid())["Uid"].split()[0] == "720000"


# ---- devices ----


@clause("config-linux.devices.default", "config-linux.devices.ptmx", "config-linux.devices.existing")
def test_linux_devices_default(bundle):
    """Also where the image has something else in their place."""
    (bundle.folder / "rootfs/dev").mkdir()
    (bundle.folder / "rootfs/dev/null").write_text("a file")
    bundle.config["mounts"] = [m for m in bundle.config["mounts"] if m["destination"] not in ("/dev", "/dev/shm", "/dev/mqueue")]
    told = bundle.run("for d in null zero full random urandom tty; do stat -c '%n %F %t %T' /dev/$d; done; readlink /dev/ptmx; stat -c %F /dev/pts/ptmx")
    wants = {"null": "1 3", "zero": "1 5", "full": "1 7", "random": "1 8", "urandom": "1 9", "tty": "5 0"}
    assert told.stdout.splitlines() == [f"/dev/{name} character special file {number}" for name, number in wants.items()] + ["pts/ptmx", "character special file"]
    assert (bundle.folder / "rootfs/dev/null").read_text() == "a file"


@clause("config-linux.devices", "config-linux.devices.mode")
def test_linux_devices(bundle):
    null = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666, "uid": 0, "gid": 0}
    bundle.config["linux"]["devices"] = [null]
    assert bundle.run("stat -c '%t %T %a' /dev/null").stdout == "1 3 666\n"
    for change, why in (({"fileMode": 0o600}, "fileMode"), ({"path": "/dev/other"}, "/dev/other"), ({"minor": 1}, "not among"), ({"type": "b"}, "not among"),
                        ({"path": "/dev/fuse", "major": 10, "minor": 229}, "/dev/fuse")):
        bundle.config["linux"]["devices"] = [{**null, **change}]
        refused(bundle, why)


@clause("config-linux.resources.devices")
def test_linux_resources_devices(bundle):
    rules = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}, {"allow": True, "type": "c", "major": 136, "access": "rwm"}]
    bundle.config["linux"]["resources"] = {"devices": rules}
    assert bundle.run("head -c 1 /dev/zero | wc -c; head -c 1 /dev/null | wc -c").stdout.split() == ["1", "0"]
    rules.append({"allow": True, "type": "b", "major": 8, "minor": 0, "access": "r"})
    refused(bundle, "devices that a sandbox does not have")


# ---- groups ----


def controller(own, name):
    """The folder of its group, as the host sees it."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{own.pid()}/cgroup").read_text().splitlines()]
    if V2:
        return CGROUPS / lines[0][2].lstrip("/")
    named = next(line for line in lines if name in line[1].split(","))
    mount = next(line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup" and name in line.split()[3].split(","))
    return Path(mount) / named[2].lstrip("/")


@clause("config-linux.cgroups.fit")
def test_linux_cgroups_fit(own):
    """Somebody is in it: neither is moved, and what was there goes on."""
    own.start("exec sleep 1000")
    group = Path(f"/proc/{own.pid()}/cgroup").read_text()
    first, own.id = own.id, own.id + "-b"
    own.config["linux"]["cgroupsPath"] = f"/brig-oci/{first}"
    told = own.run("echo RAN")
    own.id = first
    assert told.returncode == 125 and "is in use" in told.stderr and told.stdout == ""
    assert own.state() == "running" and Path(f"/proc/{own.pid()}/cgroup").read_text() == group


@clause("config-linux.cgroupsPath.absolute", "config-linux.cgroupsPath.relative", "config-linux.cgroupsPath.same", "config-linux.cgroups.ownership")
@pytest.mark.parametrize("path", ["/test-{}/inner", "test-{}/inner"], ids=["absolute", "relative"])
def test_linux_cgroupsPath(own, path):
    own.config["linux"].update(cgroupsPath=path.format(own.id), uidMappings=[{"containerID": 0, "hostID": 700000, "size": 1000}],
                               gidMappings=[{"containerID": 0, "hostID": 700000, "size": 1000}])
    subprocess.run(["chown", "-R", "700000:700000", str(own.folder / "rootfs")], check=True)
    places = []
    try:
        for _ in range(2):
            own.start("exec sleep 1000")
            groups = {line.split(":", 2)[2] for line in Path(f"/proc/{own.pid()}/cgroup").read_text().splitlines()}
            places.append(sorted(group for group in groups if f"test-{own.id}" in group))
            group = controller(own, "memory")
            assert {file.stat().st_uid for file in (group, *group.iterdir())} == {0}
            own.remove()
        assert places[0] == places[1] and len(places[0]) == 1 and places[0][0].endswith(f"/test-{own.id}/inner")
        assert not path.startswith("/") or places[0] == [path.format(own.id)]
    finally:
        own.remove()
        for folder in groups_left(f"test-{own.id}"):
            os.rmdir(folder)


@clause("config-linux.cgroupsPath.invalid")
@pytest.mark.parametrize("path", ["/", "//", "/a/../b", "..", "/a/./b", "a:b:c", "/" + "a" * 300])
def test_linux_cgroupsPath_that_is_none(bundle, path):
    bundle.config["linux"]["cgroupsPath"] = path
    refused(bundle, "cgroupsPath")


@clause("config-linux.resources.memory.limit", "config-linux.resources.memory.reservation", "config-linux.resources.memory.useHierarchy", "config-linux.resources.cpu.shares",
        "config-linux.resources.cpu.quota", "config-linux.resources.cpu.cpus", "config-linux.resources.pids")
def test_linux_resources(own):
    own.config["linux"]["resources"] = {
        "memory": {"limit": 64 << 20, "reservation": 32 << 20, "useHierarchy": True}, "pids": {"limit": 17},
        "cpu": {"shares": 512, "quota": 50000, "period": 100000, "cpus": "0", "mems": "0"}}
    own.start("exec sleep 1000")
    wants = [("memory", "memory.max", str(64 << 20)), ("memory", "memory.low", str(32 << 20)), ("pids", "pids.max", "17"), ("cpu", "cpu.weight", "20"),
             ("cpu", "cpu.max", "50000 100000"), ("cpuset", "cpuset.cpus", "0"), ("cpuset", "cpuset.mems", "0")] if V2 else \
            [("memory", "memory.limit_in_bytes", str(64 << 20)), ("memory", "memory.soft_limit_in_bytes", str(32 << 20)), ("pids", "pids.max", "17"),
             ("cpu", "cpu.shares", "512"), ("cpu", "cpu.cfs_quota_us", "50000"), ("cpu", "cpu.cfs_period_us", "100000"), ("cpuset", "cpuset.cpus", "0"),
             ("cpuset", "cpuset.mems", "0")]
    assert [(name, file, (controller(own, name) / file).read_text().strip()) for name, file, _ in wants] == wants


@clause("config-linux.resources.memory.swap")
def test_linux_resources_memory_swap(own):
    own.config["linux"]["resources"] = {"memory": {"limit": 64 << 20, "swap": 96 << 20}}
    own.start("exec sleep 1000")
    file = controller(own, "memory") / ("memory.swap.max" if V2 else "memory.memsw.limit_in_bytes")
    if not file.exists():
        pytest.skip("this kernel does not count swap")
    assert int(file.read_text()) == ((96 - 64) << 20 if V2 else 96 << 20)


@clause("config-linux.resources.memory.checkBeforeUpdate")
def test_linux_resources_memory_below_what_is_used(own):
    """4 MiB of files in memory count as the container's."""
    own.config["linux"]["resources"] = {"memory": {"limit": 64 << 20}}
    own.start("dd if=/dev/zero of=/dev/fill bs=1048576 count=4 2>/dev/null; echo filled; exec sleep 1000")
    wait_for(lambda: own.output() == "filled\n")
    file = controller(own, "memory") / ("memory.max" if V2 else "memory.limit_in_bytes")
    (own.folder / "r.json").write_text(json.dumps({"memory": {"limit": 1 << 20, "checkBeforeUpdate": True}}))
    told = own.call("update", "--resources", own.folder / "r.json", own.id)
    assert told.returncode == 125 and "limit" in told.stderr and own.state() == "running"
    assert int(file.read_text()) == 64 << 20


@pytest.mark.parametrize("resources, why", [
    case("config-linux.resources.memory.kernel", {"memory": {"kernel": 1 << 20}}, "kernel"),
    case("config-linux.resources.memory.kernel", {"memory": {"kernelTCP": 1 << 20}}, "kernelTCP"),
    case("config-linux.resources.memory.kernel", {"memory": {"swappiness": 10}}, "swappiness"),
    case("config-linux.resources.memory.disableOOMKiller", {"memory": {"disableOOMKiller": True}}, "disableOOMKiller"),
    *(case("config-linux.resources.cpu.others", {"cpu": {name: 1000}}, name) for name in ("burst", "idle", "realtimeRuntime", "realtimePeriod")),
    case("config-linux.resources.blockIO", {"blockIO": {"weight": 500}}, "blockIO"),
    case("config-linux.resources.hugepageLimits", {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}]}, "hugepageLimits"),
    case("config-linux.resources.network", {"network": {"classID": 5}}, "network"),
    case("config-linux.resources.rdma", {"rdma": {"mlx": {"hcaHandles": 1}}}, "rdma"),
    case("config-linux.resources.unified.unknown", {"unified": {"nosuch.max": "1"}}, "nosuch.max"),
])
def test_linux_resources_that_would_be_lost(bundle, resources, why):
    bundle.config["linux"]["resources"] = resources
    refused(bundle, why)
    bundle.config["linux"]["resources"] = {}
    runs(bundle)


@clause("config-linux.resources.unified", "config-linux.resources.unified.missing")
def test_linux_resources_unified(own):
    own.config["linux"]["resources"] = {"unified": {"pids.max": "19", "memory.high": str(48 << 20)}}
    if not V2:
        refused(own, "needs cgroup v2")
        return
    own.start("exec sleep 1000")
    assert ((controller(own, "") / "pids.max").read_text(), (controller(own, "") / "memory.high").read_text()) == ("19\n", f"{48 << 20}\n")


@clause("config-linux.intelRdt", "config-linux.intelRdt.unset")
def test_linux_intelRdt(bundle):
    resctrl = Path("/sys/fs/resctrl")
    before = sorted(os.listdir(resctrl)) if resctrl.is_dir() else None
    runs(bundle)
    assert (sorted(os.listdir(resctrl)) if resctrl.is_dir() else None) == before
    bundle.config["linux"]["intelRdt"] = {"closID": "x"}
    refused(bundle, "intelRdt")


# ---- settings of the kernel ----


@clause("config-linux.sysctl")
def test_linux_sysctl(bundle):
    bundle.config["linux"]["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "4096", "net.core.somaxconn": "77"}
    told = bundle.run("cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax /proc/sys/net/core/somaxconn")
    assert told.stdout.split() == ["1", "4096", "77"], told


@clause("config-linux.sysctl.host")
@pytest.mark.parametrize("name", ["kernel.core_pattern", "vm.swappiness", "fs.file-max", "kernel.hostname"])
def test_linux_sysctl_of_the_host(bundle, name):
    bundle.config["linux"]["sysctl"] = {name: "1"}
    refused(bundle, name)


# ---- seccomp ----

MKDIR = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}


def filtered(bundle, script, *rules, default="SCMP_ACT_ALLOW", **more):
    bundle.config["linux"]["seccomp"] = {"defaultAction": default, "syscalls": list(rules), **more}
    return bundle.run(script)


@clause("config-linux.seccomp.errnoRet")
@pytest.mark.parametrize("number", [None, 1, 38, 4095])
def test_linux_seccomp_errnoRet(bundle, number):
    rule = MKDIR if number is None else {**MKDIR, "errnoRet": number}
    told = filtered(bundle, "mkdir /tmp/x || echo refused", rule)
    says = os.strerror(number or 1)
    assert told.stdout == "refused\n" and (number == 4095 or says in told.stderr), told
    del bundle.config["linux"]["seccomp"]
    assert bundle.run("mkdir /tmp/x && echo made").stdout == "made\n"


@clause("config-linux.seccomp.defaultAction", "config-linux.seccomp.defaultErrnoRet")
@pytest.mark.parametrize("number", [None, 38])
def test_linux_seccomp_defaultErrnoRet(bundle, number):
    """All that the programs need is allowed, by all names that the filter knows but those of making a folder."""
    names = [name for name in EVERY if name not in MKDIR["names"]]
    more = {} if number is None else {"defaultErrnoRet": number}
    told = filtered(bundle, "echo up; mkdir /tmp/x || echo refused", {"names": names, "action": "SCMP_ACT_ALLOW"}, default="SCMP_ACT_ERRNO", **more)
    assert told.stdout == "up\nrefused\n" and os.strerror(number or 1) in told.stderr, told


EVERY = """read write open openat close stat fstat lstat newfstatat statx poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl pread64
writev access faccessat faccessat2 pipe pipe2 dup dup2 dup3 getpid gettid getppid clone clone3 fork vfork execve execveat exit exit_group wait4 kill fcntl getcwd chdir
mkdir mkdirat getuid geteuid getgid getegid setpgid getpgid getpgrp uname arch_prctl set_tid_address set_robust_list futex prlimit64 getrandom rseq readlink readlinkat
sysinfo umask getdents64 clock_gettime prctl tgkill sigaltstack ppoll readv madvise sched_getaffinity""".split()


@clause("config-linux.seccomp.errnoRet.wrong", "config-linux.seccomp.names")
@pytest.mark.parametrize("change, why", [
    ({"defaultErrnoRet": 1}, "defaultErrnoRet"),
    ({"syscalls": [{**MKDIR, "action": "SCMP_ACT_KILL", "errnoRet": 1}]}, "errnoRet"),
    ({"syscalls": [{**MKDIR, "action": "SCMP_ACT_ALLOW", "errnoRet": 1}]}, "errnoRet"),
    ({"syscalls": [{**MKDIR, "errnoRet": 4096}]}, "4095"),
    ({"syscalls": [{"names": [], "action": "SCMP_ACT_ERRNO"}]}, "names"),
    ({"syscalls": [{"action": "SCMP_ACT_ERRNO"}]}, "names"),
], ids=["default", "kill", "allow", "large", "empty", "none"])
def test_linux_seccomp_that_is_wrong(bundle, change, why):
    bundle.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", **change}
    refused(bundle, why)


@clause("config-linux.seccomp.action")
@pytest.mark.parametrize("action, code", [("ALLOW", 0), ("LOG", 0), ("ERRNO", 1), ("TRAP", 128 + signal.SIGSYS), ("KILL", 128 + signal.SIGSYS),
                                          ("KILL_THREAD", 128 + signal.SIGSYS), ("KILL_PROCESS", 128 + signal.SIGSYS)])
def test_linux_seccomp_action(bundle, action, code):
    told = filtered(bundle, "mkdir /tmp/x; echo $?", {**MKDIR, "action": f"SCMP_ACT_{action}"})
    assert told.stdout == f"{code}\n", told


@pytest.mark.parametrize("change, why", [
    case("config-linux.seccomp.action.others", {"defaultAction": "SCMP_ACT_TRACE"}, "SCMP_ACT_TRACE"),
    case("config-linux.seccomp.action.others", {"defaultAction": "SCMP_ACT_NOTIFY"}, "SCMP_ACT_NOTIFY"),
    case("config-linux.seccomp.action.others", {"listenerPath": "/run/x"}, "listenerPath"),
    case("config-linux.seccomp.flags", {"flags": ["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]}, "SPEC_ALLOW"),
    case("config-linux.seccomp.flags", {"flags": ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]}, "WAIT_KILLABLE_RECV"),
    case("config-linux.seccomp.architectures", {"architectures": ["SCMP_ARCH_PDP11"]}, "PDP11"),
    case("config-linux.seccomp.args.twice", {"syscalls": [{**MKDIR, "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_GT"}, {"index": 0, "value": 9, "op": "SCMP_CMP_LT"}]}]},
         "two conditions"),
])
def test_linux_seccomp_that_is_refused(bundle, change, why):
    bundle.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", **change}
    refused(bundle, why)


@clause("config-linux.seccomp.architectures", "config-linux.seccomp.flags", "config-linux.seccomp.order")
def test_linux_seccomp_architectures_flags_order(bundle):
    told = filtered(bundle, "mkdir /tmp/x || echo refused", {**MKDIR, "errnoRet": 33}, {**MKDIR, "errnoRet": 34}, architectures=["SCMP_ARCH_X86", "SCMP_ARCH_ARM", "SCMP_ARCH_RISCV64"],
                    flags=["SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG"])
    assert told.stdout == "refused\n" and os.strerror(33) in told.stderr, told


@clause("config-linux.seccomp.args")
@pytest.mark.parametrize("op, value, two, hit", [
    ("EQ", 10, 0, {10}), ("NE", 10, 0, {0, 12, 15}), ("LT", 12, 0, {0, 10}), ("LE", 12, 0, {0, 10, 12}), ("GT", 10, 0, {12, 15}), ("GE", 12, 0, {12, 15}),
    ("MASKED_EQ", 0b1100, 0b1100, {12, 15})])
def test_linux_seccomp_args(bundle, op, value, two, hit):
    """A signal that the shell sends itself and ignores."""
    rule = {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "value": value, "valueTwo": two, "op": f"SCMP_CMP_{op}"}]}
    told = filtered(bundle, "trap '' 10 12 15; for s in 0 10 12 15; do kill -$s $$ 2>/dev/null || echo $s; done", rule)
    assert {int(word) for word in told.stdout.split()} == hit, told


# ---- propagation, paths, labels ----


@clause("config-linux.rootfsPropagation", "config-linux.rootfsPropagation.others")
@pytest.mark.parametrize("value", ["", "private", "rprivate", "unbindable", "runbindable", "slave", "rslave"])
def test_linux_rootfsPropagation(bundle, value):
    bundle.config["linux"]["rootfsPropagation"] = value
    told = bundle.run("wc -l </proc/self/mountinfo; grep -c -E 'shared:|master:' /proc/self/mountinfo")
    mounts, shared = map(int, told.stdout.split())
    assert mounts > 5 and shared == 0, told


@clause("config-linux.rootfsPropagation.others")
@pytest.mark.parametrize("value", ["shared", "rshared", "nosuch"])
def test_linux_rootfsPropagation_that_is_refused(bundle, value):
    bundle.config["linux"]["rootfsPropagation"] = value
    refused(bundle, "rootfsPropagation")


@clause("config-linux.maskedPaths", "config-linux.readonlyPaths")
def test_linux_masked_and_readonly_paths(bundle):
    root = bundle.folder / "rootfs"
    (root / "data/folder").mkdir()
    for file in ("data/folder/secret", "data/secret", "etc/file"):
        (root / file).write_text("content\n")
    script = "ls /data/folder; cat /data/secret; cat /etc/file; echo x >/etc/file; touch /etc/new"
    control = bundle.run(script)
    assert control.stdout == "secret\ncontent\ncontent\n" and (root / "etc/new").exists(), control
    (root / "etc/new").unlink()
    (root / "etc/file").write_text("content\n")
    bundle.config["linux"].update(maskedPaths=["/data/folder", "/data/secret", "/nosuch"], readonlyPaths=["/etc", "/nosuch"])
    told = bundle.run(script)
    assert told.stdout == "content\n" and told.stderr.count("Read-only") == 2 and not (root / "etc/new").exists(), told


@pytest.mark.parametrize("change, why", [
    case("config-linux.maskedPaths.absolute", {"maskedPaths": ["data"]}, "maskedPaths"),
    case("config-linux.readonlyPaths.absolute", {"readonlyPaths": ["./etc"]}, "readonlyPaths"),
    case("config-linux.mountLabel", {"mountLabel": "system_u:object_r:x:s0"}, "mountLabel"),
    case("config-linux.personality", {"personality": {"domain": "LINUX32"}}, "personality"),
])
def test_linux_members_that_are_refused(bundle, change, why):
    bundle.config["linux"].update(change)
    refused(bundle, why)
