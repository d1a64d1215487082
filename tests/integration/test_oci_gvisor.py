"""Containers behind gVisor's Sentry (brig.tier: gvisor): the same calls and the same walls, and what cannot be kept there is refused."""
import array
import contextlib
import fcntl
import http.server
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

import poollib
from helpers import IS_ROOT, ROOT, below, status_fields, wait_for
from ocilib import BUSYBOX, OCI, bundle_of, check_terminal, containerd, groups_left, heard, operator_call, with_etc, with_programs

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="needs root, and a static busybox for a root")
RUNSC = poollib.runsc()


@pytest.fixture(autouse=True)
def named(monkeypatch):
    if not Path(RUNSC).exists():
        pytest.skip(f"no {RUNSC}: apt install runsc")
    monkeypatch.setenv("BRIG_RUNSC", RUNSC)


def on_gvisor(made):
    made.config["annotations"] = {"brig.tier": "gvisor"}
    return made.save()


@pytest.fixture
def bundle(caller):
    with bundle_of(caller) as made:
        yield on_gvisor(made)


@pytest.fixture
def own():
    with bundle_of(ROOT) as made:
        yield on_gvisor(made)


def plain(bundle):
    bundle.config["annotations"] = {}
    return bundle


def test_the_programs_kernel_is_the_sentry(bundle):
    told = bundle.run("cat /proc/version; id; hostname; echo $A; touch /data/x && echo made; exit 7")
    lines = told.stdout.splitlines()
    assert told.returncode == 7 and os.uname().release not in lines[0] and lines[1].startswith("uid=0 gid=0") and lines[2:] == ["inside", "b", "made"], told
    assert (bundle.folder / "rootfs/data/x").exists()
    assert os.uname().release in plain(bundle).run("cat /proc/version").stdout  # control


def test_what_is_not_there_is_said_by_create(bundle):
    for args, status in ((["nosuch"], 127), (["/nosuch"], 127), (["/etc"], 126)):
        bundle.config["process"]["args"] = args
        bundle.save()
        told = bundle.run()
        assert told.returncode == status and args[0] in told.stderr, told
    assert bundle.run("exit 3").returncode == 3  # control


def test_process_user_caps_limits_and_how_it_ends(own):
    own.caps("CAP_CHOWN", "CAP_FOWNER")
    own.config["process"].update(cwd="/data", rlimits=[{"type": "RLIMIT_NOFILE", "soft": 123, "hard": 200}])
    told = own.run("pwd; ulimit -n; grep CapEff /proc/self/status; touch f; chown 5:6 f && echo given; kill -9 $$").stdout
    assert told.split() == ["/data", "123", "CapEff:", "0000000000000009", "given"], told
    assert (own.folder / "rootfs/data/f").stat().st_uid == 5
    own.config["process"].update(user={"uid": 7, "gid": 8, "additionalGids": [9]})
    told = own.run("id; grep CapEff /proc/self/status; chown 1:1 f; kill -9 $$")
    assert told.stdout.split() == ["uid=7", "gid=8", "groups=9", "CapEff:", "0000000000000000"] and told.returncode == 137, told


def test_life_of_a_container(bundle):
    log = bundle.folder / "log"
    bundle.start("trap 'echo got TERM; exit 9' TERM; echo up; while :; do sleep 0.1; done")
    wait_for(lambda: "up" in bundle.output())
    assert bundle.state() == "running"
    fields = status_fields(bundle.pid())
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2", fields
    assert bundle.call("delete", bundle.id).returncode == 125  # it runs
    assert bundle.call("kill", "--all", bundle.id, "TERM").returncode == 0  # the Sentry's own processes do not get it
    wait_for(lambda: bundle.state() == "stopped")
    assert "got TERM" in bundle.output()
    assert bundle.call("--log", log, "--log-format", "json", "delete", bundle.id).returncode == 0
    kernel = json.loads(log.read_text())["receipt"]["boundaries"]["kernel"]
    assert kernel["tier"] == "gvisor" and kernel["runsc"] == RUNSC and kernel["runsc_sha256"].startswith("sha256:") and kernel["runsc_named"]


def test_the_end_of_its_first_process_is_the_end_of_all(own):
    own.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in own.output())
    all_of_it = [own.pid(), *below(own.pid())]
    assert len(all_of_it) >= 3  # itself, the gofer, the Sentry
    assert own.call("kill", own.id, "KILL").returncode == 0
    wait_for(lambda: own.state() == "stopped" and not any(os.path.exists(f"/proc/{p}/exe") for p in all_of_it if p != own.pid()))
    assert own.remove().returncode == 0 and groups_left(own.id) == []


@pytest.mark.parametrize("part", ["boot", "gofer"])
def test_the_end_of_a_part_of_the_engine(own, part):
    """Without the Sentry nothing runs on, and without its file server the code has no files."""
    (own.folder / "rootfs/etc/words").write_text("")
    own.start("echo up; while :; do cat /etc/words || exit 6; sleep 0.1; done")
    wait_for(lambda: "up" in own.output())
    victim = next(p for p in below(own.pid()) if part.encode() in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0"))
    assert own.state() == "running"  # control
    os.kill(victim, 9)
    wait_for(lambda: own.state() == "stopped")
    assert own.remove().returncode == 0 and groups_left(own.id) == []


def test_exec_is_one_more_program_behind_the_same_sentry(bundle):
    bundle.start("touch /dev/shm/behind; echo up; exec sleep 1000")
    wait_for(lambda: "up" in bundle.output())
    told = bundle.exec("sh", "-c", "cat /proc/version; ls /dev/shm; echo $A; cat; exit 5", stdin=None, input="from outside\n")
    assert told.returncode == 5 and told.stdout.splitlines()[1:] == ["behind", "b", "from outside"] and os.uname().release not in told.stdout, told
    told = bundle.exec("nosuch")
    assert told.returncode == 127 and "nosuch" in told.stderr, told
    told = bundle.call("exec", "--cwd", "/data", bundle.id, "sh", "-c", "pwd; kill -9 $$")
    assert told.stdout == "/data\n" and told.returncode == 137, told


def test_start_returns_when_the_code_has_begun(own):
    """So that who was told that it runs can have one more program in it."""
    for _ in range(5):
        own.start("exec sleep 1000")
        assert own.exec("true").returncode == 0
        own.remove()


def test_exec_as_another_user_and_with_no_more_rights(own):
    own.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in own.output())
    told = own.call("exec", "--user", "1000:1000", own.id, "sh", "-c", "id; grep CapEff /proc/self/status; touch /data/mine || echo denied")
    assert told.stdout.splitlines() == ["uid=1000 gid=1000", "CapEff:\t0000000000000000", "denied"], told
    told = own.call("exec", "--cap", "CAP_SYS_ADMIN", own.id, "true")
    assert told.returncode == 125 and "CAP_SYS_ADMIN" in told.stderr, told
    assert own.exec("touch", "/data/roots").returncode == 0  # control


def test_exec_that_is_killed_takes_its_program_along(own):
    own.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in own.output())
    process = subprocess.Popen(own.command("exec", "--pid-file", own.folder / "exec", own.id, "sh", "-c", "echo up; exec sleep 4321"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, cwd=own.folder)
    try:
        assert process.stdout.readline() == b"up\n"
        assert "sleep 4321" in own.exec("ps").stdout  # control: it runs
        os.kill(int((own.folder / "exec").read_text()), 9)
        assert process.wait(60) == 137
        wait_for(lambda: "sleep 4321" not in own.exec("ps").stdout)
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
    # Others are told by their number.
    process = subprocess.Popen(own.command("exec", "--pid-file", own.folder / "exec", own.id, "sh", "-c", "trap 'exit 8' USR1; echo up; while :; do sleep 0.1; done"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=own.folder)
    try:
        assert process.stdout.readline() == b"up\n"
        os.kill(int((own.folder / "exec").read_text()), 10)
        assert process.wait(60) == 8
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


def test_mounts_a_read_only_root_and_masked_paths(bundle):
    (bundle.folder / "shared").mkdir()
    (bundle.folder / "shared/in").write_text("of the volume\n")
    (bundle.folder / "rootfs/etc/secret").write_text("hidden\n")
    bundle.mount("/vol", type="bind", source=str(bundle.folder / "shared"), options=["bind", "ro"])
    bundle.mount("/tmp", type="bind", source=str(bundle.folder / "shared"), options=["bind", "rw"])
    bundle.mount("/scratch", type="tmpfs", source="tmpfs", options=["size=8m", "noexec"])
    script = "cat /vol/in; touch /vol/x || echo shut; echo y >/scratch/y && cat /scratch/y; touch /data/z && echo open; touch /tmp/kept; cat /etc/secret"
    told = bundle.run(script).stdout.split("\n")
    assert told[:5] == ["of the volume", "shut", "y", "open", "hidden"], told
    assert (bundle.folder / "shared/kept").exists()
    (bundle.folder / "rootfs/data/z").unlink()
    bundle.config["root"]["readonly"] = True
    bundle.config["linux"]["maskedPaths"] = ["/etc/secret"]
    told = bundle.run(script).stdout
    assert "open" not in told and "hidden" not in told and "y\n" in told, told
    told = bundle.run("for at in /scratch /tmp; do cat /bin/busybox >$at/ls; chmod 755 $at/ls; $at/ls -d /vol && echo from $at; done").stdout
    assert "from /tmp" in told and "from /scratch" not in told, told  # noexec, and its control


def test_the_configurations_filter_is_the_sentrys_to_keep(own):
    script = "mkdir /data/made && echo made; echo done"
    own.config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
                                      "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}
    assert own.run(script).stdout == "done\n" and not (own.folder / "rootfs/data/made").exists()
    # exec would be without it, and is not made.
    own.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in own.output())
    told = own.exec("true")
    assert told.returncode == 125 and "filter" in told.stderr, told
    own.remove()
    del own.config["linux"]["seccomp"]
    assert own.run(script).stdout == "made\ndone\n"  # control


def test_terminal_and_console_socket(own):
    own.config["process"].update(terminal=True)
    path = own.folder / "c.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)
        server.settimeout(60)
        made = own.create("test -t 0 && echo a-terminal; read line; echo got $line; exec sleep 1000", "--console-socket", path)
        assert made.returncode == 0, made.stderr
        peer, _ = server.accept()
        with peer:
            _, ancillary, _, _ = peer.recvmsg(100, socket.CMSG_SPACE(4))
    fds = array.array("i")
    fds.frombytes(ancillary[0][2][:4])
    assert own.call("start", own.id).returncode == 0
    seen = b""
    while b"a-terminal" not in seen:
        seen += os.read(fds[0], 1000)
    os.write(fds[0], b"words\n")
    while b"got words" not in seen:
        seen += os.read(fds[0], 1000)
    # ^C reaches the job in front.
    os.write(fds[0], b"\x03")
    wait_for(lambda: own.state() == "stopped")
    os.close(fds[0])


def test_pause_resume_and_groups(own):
    own.config["linux"]["resources"] = {"memory": {"limit": 256 << 20}, "pids": {"limit": 200}}
    own.start("echo up; while :; do echo x >>/data/ticks; sleep 0.05; done")
    wait_for(lambda: "up" in own.output())
    ticks = own.folder / "rootfs/data/ticks"
    assert own.call("pause", own.id).returncode == 0 and own.state() == "paused"
    seen = ticks.stat().st_size
    time.sleep(0.5)
    assert ticks.stat().st_size == seen
    assert own.call("resume", own.id).returncode == 0
    wait_for(lambda: ticks.stat().st_size > seen)  # control
    own.remove()
    told = own.run("head -c 400000000 /dev/zero >/dev/shm/x; echo still there")
    assert "still there" not in told.stdout and told.returncode != 0, told
    own.config["linux"]["resources"] = {"memory": {"limit": 1024 << 20}}
    assert "still there" in own.run("head -c 400000000 /dev/zero >/dev/shm/x; echo still there").stdout  # control


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside\n")

    def log_message(self, *_):
        pass


def test_ways_out_are_brig_proxys(own):
    """The Sentry's sockets are those of the container's own network; what is denied, and the receipt, are in the log."""
    log = own.folder / "log"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = f"origin.test:{server.server_address[1]}"
        with_programs(own).config["annotations"]["brig.allow"] = site
        own.shell(f"curl -sS -m 60 http://{site}/x; curl -sS -m 60 --noproxy '*' http://{site}/x; curl -sS -m 60 http://bad.test/x")
        file = {"allow": [f"{site}=127.0.0.1"]}
        told = operator_call(own, file, "--log", log, "--log-format", "json", "run", "--bundle", own.folder, own.id)
        assert told.stdout.count("from outside\n") == 2 and "no-rule" in told.stdout, told
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert "bad.test" in lines[0]["denial"]["what"] and lines[-1]["receipt"]["network"]["allowed"] == 2
        del own.config["annotations"]["brig.allow"]
        assert "from outside" not in own.run().stdout  # control: without rules there is no way at all
        server.shutdown()


def test_OC20_nobody_else_speaks_with_the_sentry(own):
    """In a pod's network all containers see the same abstract names; there is none of the Sentry's."""
    name = f"brig-{own.id}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = ["ip", "netns", "exec", name]

    def names():
        return [line.split()[-1] for line in subprocess.run([*inside, "cat", "/proc/net/unix"], capture_output=True, text=True, check=True).stdout.splitlines() if " @" in line]
    try:
        own.config["linux"]["namespaces"][1]["path"] = f"/run/netns/{name}"
        own.start("echo up; exec sleep 1000")
        wait_for(lambda: "up" in own.output())
        assert names() == []
        assert stat.S_IMODE((own.states / own.id).stat().st_mode) == 0o700
        assert own.exec("true").returncode == 0
        with socket.socket(socket.AF_UNIX) as control:  # control: an abstract one would be seen
            fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
            process = subprocess.Popen([*inside, "/usr/bin/python3", "-c", "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0there'); print('up', flush=True); input()"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                process.stdout.readline()
                assert names() == ["@there"]
            finally:
                process.communicate(b"\n", timeout=60)
                os.close(fd)
    finally:
        own.remove()
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_OC21_the_engines_programs_cannot_be_written(bundle):
    """Who broke out of the Sentry could else change what the next container is started with. Of root's: mounts of their own, read-only; of a user's: sealed copies."""
    bundle.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in bundle.output())
    shut = 0
    for pid in [bundle.pid(), *below(bundle.pid())]:
        exe = Path(f"/proc/{pid}/exe")
        with contextlib.suppress(FileNotFoundError), exe.open("rb") as program:
            if bundle.caller.uid == 0:
                assert os.fstatvfs(program.fileno()).f_flag & os.ST_RDONLY, os.readlink(exe)
            else:
                assert fcntl.fcntl(program, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE, os.readlink(exe)
            shut += 1
    assert shut >= 3
    # Control: a program that is started in a container without that is neither.
    assert not os.statvfs(bundle.folder / "rootfs/bin/busybox").f_flag & os.ST_RDONLY
    with (bundle.folder / "rootfs/bin/busybox").open("rb") as program, pytest.raises(OSError):
        fcntl.fcntl(program, fcntl.F_GET_SEALS)


def test_a_link_of_the_image_in_the_place_of_tmp(own):
    """By such a link the file server would serve what the kernel says of the engine itself."""
    shutil.rmtree(own.folder / "rootfs/tmp")
    (own.folder / "rootfs/tmp").symlink_to("/proc")
    told = own.run("cat /tmp/version; cat /tmp/1/comm; for p in /tmp/[0-9]*; do cat $p/comm; done")
    assert os.uname().release not in told.stdout and "runsc" not in told.stdout and "brig" not in told.stdout and "sh" in told.stdout, told


@pytest.mark.parametrize("change, why", [
    (lambda c: c["linux"].update(sysctl={"kernel.shm_rmid_forced": "1"}), "settings of the kernel"),
    (lambda c: c["linux"].update(resources={"memory": {"limit": 64 << 20}}), "96 MiB"),
    (lambda c: c["linux"].update(resources={"pids": {"limit": 20}}), "64 processes"),
    (lambda c: c["process"]["user"].update(umask=0o77), "umask"),
    (lambda c: c["mounts"].pop(0), "proc"),
    (lambda c: c["mounts"].append({"destination": "/data", "type": "tmpfs", "source": "tmpfs", "options": ["nosymfollow"]}), "nosymfollow"),
])
def test_OC18_what_cannot_be_kept_is_refused(own, change, why):
    change(own.config)
    told = own.run("echo RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr and "gvisor" in told.stderr, told
    assert own.call("list", "-q").stdout == "" and groups_left(own.id) == []
    assert plain(own).run("echo RAN").stdout == "RAN\n"  # control: on the container tier it can be


def test_OC18_a_pid_namespace_and_further_descriptors(own):
    with bundle_of(ROOT) as other:
        other.start("exec sleep 1000")
        own.config["linux"]["namespaces"][0]["path"] = f"/proc/{other.pid()}/ns/pid"
        own.shell("echo RAN")
        told = operator_call(own, {"joins": ["pid"]}, "run", "--bundle", own.folder, own.id)
        assert told.returncode == 125 and "pid namespace" in told.stderr and "RAN" not in told.stdout, told
    del own.config["linux"]["namespaces"][0]["path"]
    own.save()
    told = subprocess.run(["sh", "-c", 'exec 3</dev/null; exec "$@"', "sh", *own.command("run", "--preserve-fds", "1", "--bundle", own.folder, own.id)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert told.returncode == 125 and "standard streams" in told.stderr, told
    assert own.run("echo RAN").stdout == "RAN\n"  # control


def test_OC18_a_terminal_of_exec(own):
    own.start("echo up; exec sleep 1000")
    wait_for(lambda: "up" in own.output())
    told = own.call("exec", "--tty", "--console-socket", "/nosuch", own.id, "true")
    assert told.returncode == 125 and "terminals of exec" in told.stderr, told
    assert own.exec("true").returncode == 0  # control


def test_without_runsc_nothing_is_put_in_its_place(own, monkeypatch):
    monkeypatch.setenv("BRIG_RUNSC", "/nosuch/runsc")
    told = own.run("echo RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout and "the tier gvisor is not there" in told.stderr, told
    monkeypatch.setenv("BRIG_RUNSC", RUNSC)
    assert own.run("echo RAN").stdout == "RAN\n"  # control


def test_the_operator_can_ask_for_it(own):
    script = "cat /proc/version"
    plain(own).shell(script)
    told = operator_call(own, {"tier": "gvisor"}, "run", "--bundle", own.folder, own.id)
    assert told.returncode == 0 and "Linux" in told.stdout and os.uname().release not in told.stdout, told
    own.config["annotations"] = {"brig.tier": "wasm"}
    own.save()
    told = operator_call(own, {"tier": "gvisor"}, "run", "--bundle", own.folder, own.id)
    assert told.returncode == 125 and "weaker than gvisor" in told.stderr, told


LIMITS = ["--ulimit", "nofile=512:512", "--ulimit", "nproc=4096:4096"]


def test_by_podman(tmp_path_factory, own):
    """Its monitor hands no variable on: which runsc is used is the operator's word."""
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    folder = tmp_path_factory.mktemp("p")
    podman = [str(word) for word in (*with_etc(folder, {"runsc": RUNSC}), "podman", "--root", folder / "root", "--runroot", folder / "run", "--tmpdir", folder / "tmp", "--storage-driver", "vfs", "--cgroup-manager",
                                     "cgroupfs", "--events-backend", "file", "--runtime", OCI)]

    def call(*args):
        return subprocess.run([*podman, *map(str, args)], capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
    asked = ["--network", "none", *LIMITS, "--annotation", "brig.tier=gvisor"]
    root = ["--rootfs", own.folder / "rootfs"]
    told = call("run", "--rm", *asked, *root, "sh", "-c", "cat /proc/version; exit 7")
    assert told.returncode == 7 and "Linux" in told.stdout and os.uname().release not in told.stdout, told
    check_terminal(*podman, "run", "-it", "--rm", *map(str, asked), *map(str, root))
    try:
        assert call("run", "-d", "--name", "one", "--security-opt", "seccomp=unconfined", *asked, *root, "sh", "-c", "echo up; exec sleep 1000").returncode == 0
        wait_for(lambda: "up" in call("logs", "one").stdout)
        told = call("exec", "one", "sh", "-c", "cat /proc/version; exit 4")
        assert told.returncode == 4 and "Linux" in told.stdout and os.uname().release not in told.stdout, told
        assert call("stop", "-t", "1", "one").returncode == 0
    finally:
        assert call("rm", "-f", "one").returncode == 0


def test_by_containerd(tmp_path_factory, own):
    with containerd(tmp_path_factory.mktemp("c")) as ctr:
        told = ctr("run", "--rm", "--runc-binary", OCI, "--annotation", "brig.tier=gvisor", "--rootfs", own.folder / "rootfs", "one", "sh", "-c",
                   "cat /proc/version; exit 7")
        assert told.returncode == 7 and "Linux" in told.stdout and os.uname().release not in told.stdout, told
        assert ctr("run", "-d", "--runc-binary", OCI, "--annotation", "brig.tier=gvisor", "--rootfs", own.folder / "rootfs", "two", "sleep", "1000").returncode == 0
        told = heard(ctr, "task", "exec", "--exec-id", "e", "two", "sh", "-c", "cat /proc/version; exit 3")
        assert told.returncode == 3 and "Linux" in told.stdout and os.uname().release not in told.stdout, told
