"""`brig oci`: a bundle's configuration becomes a container; its verbs; names of tests that begin with a clause are the runtime
specification's."""
import array
import concurrent.futures
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from form import FULL
from helpers import ROOT, USER, is_over, read_stat, status_fields, wait_for
from ociclauses import clause
from ocilib import BUSYBOX, OCI, bundle, bundle_of, groups_left, own  # noqa: F401

LOOPS = 200 if FULL else 12

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root")


@clause("runtime.start.program")
def test_runs_a_program_and_gives_its_status(bundle):
    told = bundle.run("echo hello; echo problem >&2; exit 7")
    assert (told.returncode, told.stdout, told.stderr) == (7, "hello\n", "problem\n")
    assert bundle.call("list", "-q").stdout == ""
    assert groups_left(bundle.id) == []


@clause("config.process.noNewPrivileges", "config.hostname")
def test_the_walls_are_in_force(bundle):
    told = bundle.caps().run("grep -E 'NoNewPrivs|Seccomp:|CapBnd|CapEff' /proc/self/status; id -u; ls /proc | grep -c '^[0-9]'; "
                             "hostname; readlink /proc/self/ns/user; readlink /proc/self/ns/net")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.split()
    assert lines[lines.index("NoNewPrivs:") + 1] == "1" and lines[lines.index("Seccomp:") + 1] == "2"
    assert lines[lines.index("CapBnd:") + 1] == lines[lines.index("CapEff:") + 1] == "0" * 16
    assert "inside" in lines
    for ns in ("user", "net"):
        assert os.readlink(f"/proc/self/ns/{ns}") not in lines


PR_SET_MEMORY_MERGE = 67


def test_memory_is_not_merged_with_that_of_others(bundle):
    """Though the engine was to have that, with all that it starts (MemoryKSM= of its service)."""
    def merged(text):
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line).get("ksm_merge_any", "").strip()
    words = "cat /proc/self/ksm_stat"
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0)
    try:
        if merged(subprocess.run(["sh", "-c", words], capture_output=True, text=True).stdout) != "yes":
            pytest.skip("this kernel merges no pages, or does not tell: no control")
        assert merged(bundle.run(words).stdout) == "no"
        bundle.start("exec sleep 1000")
        assert merged(bundle.exec(*words.split()).stdout) == "no"
    finally:
        libc.prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0)


# ---- runtime.md: lifecycle ----


@clause("runtime.scope", "runtime.start.not-created", "runtime.kill.not-running", "runtime.delete.not-stopped", "runtime.delete.missing", "runtime.query.missing")
def test_lifecycle_create_start_kill_delete(bundle):
    assert bundle.create("trap 'exit 3' TERM; echo up; while true; do sleep 0.1; done").returncode == 0
    assert bundle.state() == "created" and bundle.output() == ""
    assert read_stat(bundle.pid())
    # create again, and verbs that need another state
    again = bundle.create()
    assert again.returncode == 125 and "exists" in again.stderr
    refused = bundle.call("delete", bundle.id)
    assert refused.returncode == 125 and "not stopped" in refused.stderr
    assert bundle.exec("true").returncode == 125
    assert bundle.call("start", bundle.id).returncode == 0
    assert bundle.state() == "running"
    wait_for(lambda: bundle.output() == "up\n")
    twice = bundle.call("start", bundle.id)
    assert twice.returncode == 125 and "cannot start" in twice.stderr
    assert bundle.call("delete", bundle.id).returncode == 125
    assert bundle.call("kill", bundle.id).returncode == 0
    wait_for(lambda: bundle.state() == "stopped")
    gone = bundle.call("kill", bundle.id, "KILL")
    assert gone.returncode == 125 and "container not running" in gone.stderr
    assert bundle.call("start", bundle.id).returncode == 125
    assert bundle.call("delete", bundle.id).returncode == 0
    missing = bundle.call("delete", bundle.id)
    assert missing.returncode == 127 and "does not exist" in missing.stderr
    assert bundle.call("delete", "--force", bundle.id).returncode == 0
    assert bundle.call("state", bundle.id).returncode == 127
    assert groups_left(bundle.id) == []


@clause("runtime.state.ociVersion", "runtime.state.id", "runtime.state.pid", "runtime.state.bundle", "runtime.state.annotations")
def test_state_has_the_fields_of_the_specification(bundle):
    bundle.config["annotations"] = {"com.example.key": "value"}
    assert bundle.create("sleep 1000").returncode == 0
    told = json.loads(bundle.call("state", bundle.id).stdout)
    assert told["ociVersion"] == "1.0.2" and told["id"] == bundle.id and told["status"] == "created"
    assert told["pid"] == bundle.pid() and told["bundle"] == str(bundle.folder)
    assert told["annotations"] == {"com.example.key": "value"}
    listed = json.loads(bundle.call("list", "--format", "json").stdout)
    assert [c["id"] for c in listed] == [bundle.id]
    assert bundle.id in bundle.call("list").stdout


def test_the_first_process_is_pid_1_and_its_parents_child(bundle):
    """Engines wait for it: it becomes a child of the nearest subreaper."""
    bundle.start("echo $$; exec sleep 1000")
    wait_for(lambda: bundle.output() == "1\n")
    assert read_stat(bundle.pid())


@clause("runtime.delete.resources")
def test_delete_force_ends_what_runs(bundle):
    bundle.start("sleep 1000 & exec sleep 1000")
    pid = bundle.pid()
    assert bundle.remove().returncode == 0
    wait_for(lambda: is_over(pid))
    assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []


@clause("runtime.lifecycle.environment.fails", "runtime.errors")
def test_create_fails_without_leftovers(bundle):
    bundle.config["process"]["args"] = ["nosuch"]
    told = bundle.save().create()
    assert told.returncode == 127 and "executable file not found" in told.stderr
    bundle.config["process"]["args"] = ["/etc"]
    assert bundle.save().create().returncode == 126
    bundle.shell("true").config["mounts"].append({"destination": "/x", "type": "bind", "source": "/nosuch", "options": ["bind"]})
    assert bundle.save().create().returncode == 125
    assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []


@clause("runtime.errors")
@pytest.mark.parametrize("nth", range(1, 40) if FULL else (1, 4, 9))
def test_a_killed_create_leaves_nothing_that_delete_cannot_remove(bundle, nth):
    """At each folder that it makes: its own, and those of its groups."""
    bundle.shell("sleep 1000")
    tracer = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=?mkdir,?mkdirat", "-e", f"inject=?mkdir,?mkdirat:signal=KILL:when={nth}"]
    done = subprocess.run(bundle.caller.outside(*tracer, str(OCI), "--root", str(bundle.states), "create", "--bundle", str(bundle.folder), bundle.id),
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode in (0, -9, 137) and (nth > 1 or done.returncode), "the control: it is killed"
    assert bundle.remove().returncode == 0
    assert bundle.call("list", "-q").stdout == ""
    wait_for(lambda: groups_left(bundle.id) == [])


# ---- config.md: process ----


@clause("config.process.args", "config.process.env", "config.process.cwd")
def test_process_args_env_cwd_user(bundle):
    bundle.config["process"].update(env=["PATH=/bin", "ONLY=this"], cwd="/made/for/it")
    told = bundle.run("pwd; env; id -u; id -g")
    assert told.returncode == 0, told.stderr
    assert "/made/for/it" in told.stdout and "ONLY=this" in told.stdout and "HOME" not in told.stdout


@clause("config.process.user", "config.process.user.additionalGids", "config.process.user.umask")
def test_process_user_groups_umask(own):
    own.config["process"]["user"] = {"uid": 1000, "gid": 1001, "additionalGids": [7, 8], "umask": 0o27}
    told = own.run("id -u; id -g; id -G; umask; touch /tmp/x; stat -c %a:%u /tmp/x")
    assert told.stdout.split() == ["1000", "1001", "1001", "7", "8", "0027", "640:1000"], told


@clause("config.process.rlimits", "config.process.rlimits.core")
def test_process_rlimits(own):
    own.config["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200},
                                        {"type": "RLIMIT_CORE", "soft": 0, "hard": 18446744073709551615}]
    told = own.run("ulimit -n; ulimit -Hn; ulimit -c")
    assert told.stdout.split() == ["100", "200", "0"], told


@clause("config.process.capabilities")
def test_process_capabilities_are_those_of_the_list_that_were_asked_for(own):
    own.caps("CAP_CHOWN", "CAP_KILL").config["process"]["capabilities"]["bounding"].append("CAP_SETUID")
    told = own.run("grep -E 'CapEff|CapBnd|CapPrm' /proc/self/status")
    caps = dict(line.split() for line in told.stdout.splitlines())
    assert int(caps["CapEff:"], 16) == 1 << 0 | 1 << 5 and int(caps["CapBnd:"], 16) == 1 << 0 | 1 << 5 | 1 << 7


@clause("config.process.oomScoreAdj")
def test_process_oom_score(own):
    own.config["process"]["oomScoreAdj"] = 123
    assert own.run("cat /proc/self/oom_score_adj").stdout == "123\n"


@clause("config.process.oomScoreAdj")
def test_process_oom_score_that_the_caller_may_not_give():
    with bundle_of(USER) as bundle:
        bundle.config["process"]["oomScoreAdj"] = -500
        told = bundle.run("echo RAN")
        assert told.returncode == 125 and "RAN" not in told.stdout and "CAP_SYS_RESOURCE" in told.stderr, told
        bundle.config["process"]["oomScoreAdj"] = 999
        assert bundle.run("echo RAN").stdout == "RAN\n"


@clause("config.process.terminal", "config.process.consoleSize", "config-linux.devices.console")
def test_process_terminal_and_console_socket(bundle):
    bundle.config["process"].update(terminal=True, consoleSize={"height": 33, "width": 77})
    without = bundle.create("true")
    assert without.returncode == 125 and "--console-socket" in without.stderr
    path = bundle.folder / "c.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        os.chown(path, bundle.caller.uid, -1)
        server.listen(1)
        server.settimeout(60)
        made = bundle.create("test -t 0 && echo terminal; ls -l /dev/console; exec sleep 1000", "--console-socket", path)
        assert made.returncode == 0, made.stderr
        peer, _ = server.accept()
        with peer:
            _, ancillary, _, _ = peer.recvmsg(100, socket.CMSG_SPACE(4))
    fds = array.array("i")
    fds.frombytes(ancillary[0][2][:4])
    import fcntl
    import struct
    import termios
    assert struct.unpack("HHHH", fcntl.ioctl(fds[0], termios.TIOCGWINSZ, b"\0" * 8))[:2] == (33, 77)
    assert bundle.call("start", bundle.id).returncode == 0
    seen = b""
    while b"console" not in seen:
        seen += os.read(fds[0], 1000)
    assert b"terminal" in seen
    os.close(fds[0])


# ---- config.md: root, mounts; config-linux.md ----


@clause("config.root.readonly")
def test_root_readonly(bundle):
    bundle.config["root"]["readonly"] = True
    told = bundle.run("touch /x; touch /dev/shm/y && echo shm")
    assert "Read-only" in told.stderr and told.stdout == "shm\n" and not (bundle.folder / "rootfs/x").exists()


@clause("config.mounts.order", "config.mounts.options.access", "config.mounts.source.bind")
def test_mounts_in_order_with_options(bundle):
    (bundle.folder / "data").mkdir()
    (bundle.folder / "data/file").write_text("content")
    bundle.mount("/a/b", type="bind", source=str(bundle.folder / "data"), options=["rbind", "ro"])
    bundle.mount("/a/c", type="tmpfs", source="tmpfs", options=["size=64k", "mode=700", "noexec"])
    bundle.mount("/etc/one", type="bind", source=str(bundle.folder / "data/file"), options=["bind"])
    told = bundle.run("cat /a/b/file /etc/one; touch /a/b/x; stat -c %a /a/c; mount | grep ' /a/'")
    assert told.stdout.startswith("contentcontent700\n"), told
    assert "Read-only" in told.stderr
    lines = {line.split()[2]: line for line in told.stdout.splitlines() if " /a/" in line}
    assert "ro," in lines["/a/b"] and "nosuid" in lines["/a/b"] and "noexec" in lines["/a/c"]


def test_containers_that_share_a_root_make_its_places_together(caller):
    """The tasks of a job, started at one moment on one root: a place that another one has just made is as good as one's own."""
    with bundle_of(caller) as first, contextlib.ExitStack() as stack:
        bundles = [first, *(stack.enter_context(bundle_of(caller)) for _ in range(3))]
        for bundle in bundles:
            bundle.config["root"]["path"] = str(first.folder / "rootfs")
            bundle.mount("/made", type="tmpfs").shell("echo RAN")
        with concurrent.futures.ThreadPoolExecutor(len(bundles)) as pool:
            for turn in range(LOOPS // 2):
                for bundle in bundles:
                    bundle.config["mounts"][-1]["destination"] = f"/made/{turn}/by/whom"
                    bundle.save()
                told = list(pool.map(lambda bundle: bundle.run(), bundles))
                assert [one.stdout for one in told] == ["RAN\n"] * len(bundles), told


@clause("config-linux.devices.default", "config-linux.devices.ptmx")
def test_default_devices_and_links(bundle):
    told = bundle.run("for d in null zero full random urandom tty; do test -c /dev/$d || echo no $d; done; readlink /dev/fd; readlink /dev/ptmx; "
                      "echo x >/dev/null; head -c 2 /dev/zero | wc -c")
    assert told.stdout.split() == ["/proc/self/fd", "pts/ptmx", "2"], told


@clause("config-linux.maskedPaths", "config-linux.readonlyPaths")
def test_masked_and_readonly_paths(bundle):
    (bundle.folder / "rootfs/data/secret").write_text("secret")
    (bundle.folder / "rootfs/etc/file").write_text("file")
    bundle.config["linux"].update(maskedPaths=["/data", "/nosuch"], readonlyPaths=["/etc"])
    told = bundle.run("ls /data; cat /etc/file; echo x >/etc/file; cat /proc/kcore | wc -c; echo 1 >/proc/sys/kernel/core_pattern; ls /sys/firmware")
    assert told.stdout == "file0\n" and told.stderr.count("Read-only") == 2, told


@clause("config-linux.namespaces.path", "runtime.delete.others")
def test_namespaces_network_by_path(own):
    name = f"brig-{own.id}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        own.config["linux"]["namespaces"][1]["path"] = f"/run/netns/{name}"
        own.config["linux"]["sysctl"] = {"net.ipv4.ip_unprivileged_port_start": "80"}
        told = own.run("readlink /proc/self/ns/net; ls /sys/class/net; cat /proc/sys/net/ipv4/ip_unprivileged_port_start")
        assert told.returncode == 0, told.stderr
        assert told.stdout.split() == [f"net:[{os.stat(f'/run/netns/{name}').st_ino}]", "lo", "80"]
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@clause("config-linux.uidMappings", "config-linux.gidMappings")
def test_uid_and_gid_mappings(own):
    own.config["linux"].update(uidMappings=[{"containerID": 0, "hostID": 700000, "size": 1000}],
                               gidMappings=[{"containerID": 0, "hostID": 700000, "size": 1000}])
    subprocess.run(["chown", "-R", "700000:700000", str(own.folder / "rootfs")], check=True)
    own.start("touch /tmp/mine; cat /proc/self/uid_map; exec sleep 1000")
    wait_for(lambda: "700000" in own.output())
    assert (own.folder / "rootfs/tmp/mine").stat().st_uid == 700000
    assert status_fields(own.pid())["Uid"].split()[0] == "700000"


@clause("config-linux.sysctl", "config.hostname", "config.domainname")
def test_sysctl_hostname_domainname(own):
    own.config["linux"]["sysctl"] = {"kernel.shmmax": "1234567", "net.ipv4.ip_forward": "1"}
    own.config["domainname"] = "example.org"
    before = open("/proc/sys/net/ipv4/ip_forward").read()
    told = own.run("cat /proc/sys/kernel/shmmax /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/domainname; hostname")
    assert told.stdout.split() == ["1234567", "1", "example.org", "inside"], told
    assert open("/proc/sys/net/ipv4/ip_forward").read() == before


@clause("config-linux.cgroupsPath.absolute", "config-linux.resources.memory.limit", "config-linux.resources.pids")
def test_cgroups_path_and_resources(own):
    path = f"/brig-test-{own.id}/{own.id}-c"
    own.config["linux"].update(cgroupsPath=path, resources={"memory": {"limit": 64 << 20}, "pids": {"limit": 20},
                                                            "cpu": {"shares": 512, "quota": 50000, "period": 100000}})
    own.start("exec sleep 1000")
    groups = open(f"/proc/{own.pid()}/cgroup").read()
    assert f":{path}\n" in groups
    stats = json.loads(own.call("events", "--stats", own.id).stdout)
    assert stats["data"]["memory"]["usage"]["limit"] == 64 << 20 and stats["data"]["pids"]["limit"] == 20
    (own.folder / "r.json").write_text(json.dumps({"memory": {"limit": 96 << 20}, "pids": {"limit": 30}}))
    assert own.call("update", "--resources", own.folder / "r.json", own.id).returncode == 0
    stats = json.loads(own.call("events", "--stats", own.id).stdout)
    assert stats["data"]["memory"]["usage"]["limit"] == 96 << 20 and stats["data"]["pids"]["limit"] == 30
    assert own.pid() in json.loads(own.call("ps", "--format", "json", own.id).stdout)
    own.remove()
    assert groups_left(own.id + "-c") == []
    for folder in groups_left(f"brig-test-{own.id}"):  # what was made on the way stays: others may be in it
        os.rmdir(folder)


@clause("runtime.delete.others")
def test_the_group_around_containers_goes_with_the_last(own):
    """A place of the test's own for it, because others may have containers in the usual one."""
    top = f"test-{own.id}"
    with bundle_of(ROOT) as other:
        for one in (own, other):
            one.config["linux"]["cgroupsPath"] = f"/{top}/brig-oci/{one.id}"
            one.start("exec sleep 1000")
        tops = groups_left(top)
        around = [f"{path}/brig-oci" for path in tops]
        assert around and own.remove().returncode == 0
        assert not [path for path in around if os.path.exists(f"{path}/{own.id}")]
        assert all(os.path.isdir(f"{path}/{other.id}") for path in around)
        assert other.remove().returncode == 0
    assert not [path for path in around if os.path.exists(path)]
    for path in tops:
        os.rmdir(path)


def test_containers_that_come_and_go_together_do_not_take_each_others_group(own):
    """Each is the other's last one, now and then; and somebody else removes what is empty as often as the kernel lets it."""
    top, over = f"test-{own.id}", threading.Event()

    def rounds(bundle):
        bundle.config["linux"]["cgroupsPath"] = f"/{top}/brig-oci/{bundle.id}"
        bundle.shell("true")
        return next((told.stderr for told in (bundle.run() for _ in range(LOOPS)) if told.returncode != 0), "")

    def remove_what_is_empty():
        around = [f"{path}/brig-oci" for path in groups_left(top)]
        while not over.is_set():
            for path in around:
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    with bundle_of(ROOT) as other, concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert rounds(own) == ""  # makes the places
        remover = pool.submit(remove_what_is_empty)
        try:
            assert list(pool.map(rounds, (own, other))) == ["", ""]
        finally:
            over.set()
        remover.result(60)
    assert not [path for path in groups_left("brig-oci") if top in path]
    for path in groups_left(top):
        os.rmdir(path)


def test_cgroup_file_system_is_read_only(own):
    own.mount("/sys/fs/cgroup", type="cgroup", source="cgroup", options=["nosuid", "noexec", "nodev", "relatime", "ro"])
    told = own.run("cat /proc/self/cgroup; ls /sys/fs/cgroup; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x")
    assert told.returncode == 1 and "Read-only" in told.stderr
    assert all(line.endswith(":/") for line in told.stdout.splitlines() if line[0].isdigit() and ":" in line)


def test_cgroup_file_system_is_read_only_whatever_docker_leaves_out(own):
    """With ids of the container's own it leaves `ro` out (userns-remap)."""
    ids = [{"containerID": 0, "hostID": 700000, "size": 1000}]
    own.config["linux"].update(uidMappings=ids, gidMappings=ids)
    own.mount("/sys/fs/cgroup", type="cgroup", source="cgroup", options=["nosuid", "noexec", "nodev"]).save()
    subprocess.run(["chown", "-R", "700000:700000", str(own.folder / "rootfs")], check=True)
    told = own.run("grep cgroup /proc/mounts; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x")
    mounts = [line.split()[3].split(",")[0] for line in told.stdout.splitlines()]
    assert told.returncode == 1 and "Read-only" in told.stderr and mounts and set(mounts) == {"ro"}, told


@clause("config-linux.seccomp.errnoRet", "config-linux.seccomp.args")
def test_seccomp_of_the_configuration_comes_on_top(bundle):
    deny = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 33}]}
    control = bundle.run("mkdir /tmp/one && echo made; grep Seccomp_filters /proc/self/status")
    assert "made" in control.stdout and control.stdout.split()[-1] == "1"
    bundle.config["linux"]["seccomp"] = deny
    told = bundle.run("mkdir /tmp/two || echo refused; grep Seccomp_filters /proc/self/status")
    assert "refused" in told.stdout and told.stdout.split()[-1] == "2"
    assert os.strerror(33) in told.stderr
    # A condition on an argument: a mode of kill(2).
    deny["syscalls"] = [{"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "value": 10, "op": "SCMP_CMP_EQ"}]}]
    told = bundle.run("kill -USR1 $$ || echo refused; kill -0 $$ && echo allowed")
    assert told.stdout.split() == ["refused", "allowed"], told


# ---- exec, pause, kill ----


def test_exec_runs_inside_with_the_same_walls(bundle):
    bundle.start("exec sleep 1000")
    told = bundle.exec("sh", "-c", "echo $$; hostname; grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; cat /proc/1/comm; exit 5")
    assert told.returncode == 5, told
    lines = told.stdout.split()
    assert int(lines[0]) > 1 and "inside" in lines and "sleep" in lines
    assert lines[lines.index("NoNewPrivs:") + 1] == "1" and lines[lines.index("Seccomp:") + 1] == "2"
    assert bundle.exec("nosuch").returncode == 127
    told = bundle.call("exec", "--cwd", "/tmp", "--env", "X=y", bundle.id, "sh", "-c", "pwd; echo $X$A")
    assert told.stdout.split() == ["/tmp", "yb"]


def test_exec_process_file_detached_with_pid_file(bundle):
    bundle.start("exec sleep 1000")
    process = {**bundle.config["process"], "args": ["sleep", "999"]}
    (bundle.folder / "p.json").write_text(json.dumps(process))
    bundle.save()
    told = subprocess.run(bundle.command("exec", "--process", bundle.folder / "p.json", "--detach", "--pid-file",
                                         bundle.folder / "p.pid", bundle.id),
                          timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert told.returncode == 0
    pid = int((bundle.folder / "p.pid").read_text())
    assert read_stat(pid) and os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat(f"/proc/{bundle.pid()}/ns/pid").st_ino
    bundle.remove()
    wait_for(lambda: is_over(pid))


@clause("runtime.state.status.additional")
def test_pause_and_resume(own):
    own.start("while true; do echo x; sleep 0.05; done")
    wait_for(lambda: len(own.output()) > 4)
    assert own.call("resume", own.id).returncode == 125
    assert own.call("pause", own.id).returncode == 0
    assert own.state() == "paused" and own.exec("true").returncode == 125
    paused = own.output()
    assert own.call("pause", own.id).returncode == 125
    assert own.output() == paused
    assert own.call("resume", own.id).returncode == 0
    wait_for(lambda: len(own.output()) > len(paused))
    assert own.call("pause", own.id).returncode == 0
    assert own.remove().returncode == 0  # also while it is paused


def test_kill_all(own):
    own.start("sleep 998 & sleep 997 & exec sleep 1000")
    wait_for(lambda: len(json.loads(own.call("ps", "-f", "json", own.id).stdout)) == 3)
    assert own.call("kill", "--all", own.id, "9").returncode == 0
    wait_for(lambda: own.state() == "stopped")


def test_signals_are_handed_on_by_run(bundle):
    bundle.shell("trap 'exit 9' TERM; echo up; while true; do sleep 0.1; done")
    process = subprocess.Popen(bundle.command("run", "--bundle", bundle.folder, bundle.id), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    # Not before it waits for its child: then it has set its handlers.
    wait_for(lambda: "wait" in open(f"/proc/{process.pid}/wchan").read() or read_stat(process.pid) is None)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 9
    process.stdout.close()


def test_preserve_fds(bundle):
    read, write = os.pipe()
    bundle.shell("echo through >&3; ls /proc/self/fd | wc -l")
    told = subprocess.run(["bash", "-c", f'exec 3>&{write} {write}>&-; exec "$@"', "bash",
                           *bundle.command("run", "--preserve-fds", "1", "--bundle", bundle.folder, bundle.id)],
                          pass_fds=[write], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    os.close(write)
    assert told.returncode == 0, told.stderr
    assert os.read(read, 100) == b"through\n" and told.stdout == "5\n"  # 0 to 3, and the folder itself
    os.close(read)
    missing = bundle.call("run", "--preserve-fds", "5", "--bundle", bundle.folder, bundle.id)
    assert missing.returncode == 125 and "is not open" in missing.stderr


def test_log_in_json_for_engines(bundle):
    log = bundle.folder / "log.json"
    told = bundle.call("--log", log, "--log-format", "json", "start", "nosuch")
    assert told.returncode == 127
    entry = json.loads(log.read_text())
    assert entry["level"] == "error" and "does not exist" in entry["msg"]
    # Behind the verb it means the same.
    assert bundle.call("start", "--log", log, "nosuch").returncode == 127
    assert len(log.read_text().splitlines()) == 2


def test_features_and_spec(bundle):
    features = json.loads(bundle.call("features").stdout)
    assert features["ociVersionMin"] == "1.0.0" and "CAP_CHOWN" in features["linux"]["capabilities"]
    assert "CAP_SYS_ADMIN" not in features["linux"]["capabilities"]
    (bundle.folder / "config.json").unlink()
    assert bundle.call("spec", "--bundle", bundle.folder).returncode == 0
    assert bundle.call("spec", "--bundle", bundle.folder).returncode == 125
    bundle.config = json.loads((bundle.folder / "config.json").read_text())
    assert bundle.run("echo spec").stdout == "spec\n"


def test_names_and_help():
    told = subprocess.run([OCI, "--version"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and told.stdout.startswith("brig-oci version ")
    told = subprocess.run([OCI, "create", "--help"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and "--console-socket" in told.stdout
    told = subprocess.run([OCI, "--nosuch", "create"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 125 and "unknown option" in told.stderr
