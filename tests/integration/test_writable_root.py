"""A root that can be written: everything of it, in a layer that is the sandbox's own, counted, and gone with it. And what that is
for: apt-get, with an archive of the test's own. By root and by an ordinary user, over a view of the host and over a folder."""
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from daemonlib import USERS, Daemon
from helpers import CALLERS, IS_ROOT, NO_CGROUP, WATCHED, Caller
from packagelib import NAME, Registry


ROOMY = [*WATCHED, "-m", "2G", "--pids", "512", "--timeout", "15m", "--disk", "256M"]


@pytest.fixture(params=CALLERS, ids=lambda c: c.name)
def caller(request):
    return request.param.with_options("--tier", "container", *ROOMY)


@pytest.fixture
def box(caller):
    return caller.with_options("--writable-root")


@pytest.fixture(scope="module")
def registry():
    with Registry() as made:
        yield made


def host_files():
    """What the changes below would show in, if they reached the host."""
    made = [p for p in ("/data", "/usr/bin/brig-new", "/usr/share/doc/brig-new", "/usr/bin/.t", "/var/lib/brig-new", "/opt/brig-new", "/etc/n") if os.path.lexists(p)]
    kept = [(p, os.stat(p).st_ino, os.stat(p).st_mtime_ns, os.stat(p).st_nlink) for p in ("/usr/bin/tac", "/etc/hosts", "/etc/ld.so.cache")]
    return made, kept


CHANGES = {
    "a folder at the top": "mkdir /data && echo yes > /data/x && cat /data/x",
    "a program": "printf '#!/bin/sh\\necho yes' > /usr/bin/brig-new && chmod +x /usr/bin/brig-new && brig-new",
    "deep down": "mkdir /usr/share/doc/brig-new && echo yes > /usr/share/doc/brig-new/x && cat /usr/share/doc/brig-new/x",
    "in the place of a program": "rm /usr/bin/tac && printf '#!/bin/sh\\necho yes' > /usr/bin/tac && chmod +x /usr/bin/tac && tac",
    "by renaming": "printf '#!/bin/sh\\necho yes' > /usr/bin/.t && chmod +x /usr/bin/.t && mv /usr/bin/.t /usr/bin/tac && tac",
    "a file of /etc": "echo '127.0.0.9 brig.new' >> /etc/hosts && grep -q brig.new /etc/hosts && echo yes",
    "in the place of a file of /etc": "cp /etc/ld.so.cache /etc/n && mv /etc/n /etc/ld.so.cache && echo yes",
    "var, opt and srv": "mkdir -p /var/lib/brig-new /opt/brig-new /srv/brig-new && echo yes",
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_can_be_changed_everywhere(caller, box, change):
    before = host_files()
    told = box.json("--", "bash", "-c", CHANGES[change])
    assert (told.get("exit_code"), told.get("stdout", "").strip()) == (0, "yes"), told
    assert host_files() == before and before[0] == [], "nothing reached the host"
    assert caller.run("--", "bash", "-c", CHANGES[change]).returncode != 0, "control: without the option it cannot"


def test_it_ends_with_the_sandbox(box):
    assert box.run("--", "sh", "-c", "mkdir /data && touch /usr/bin/brig-new").returncode == 0
    assert box.run("--", "sh", "-c", "ls -d /data /usr/bin/brig-new").stdout == ""


def with_disk(caller, size):
    return Caller(caller.name, "--tier", "container", *ROOMY[:-1], size, "--writable-root")


@pytest.mark.parametrize("place", ["/data", "/usr/share/brig-new", "/etc", "/var/lib/dpkg"])
def test_the_limit_counts_it(caller, place):
    box = with_disk(caller, "24M")
    told = box.json("--", "sh", "-c", f"mkdir -p {place} && head -c 40000000 /dev/urandom > {place}/big; wc -c < {place}/big; touch /tmp/x; echo z > /tmp/x")
    assert "No space left" in told["stderr"] and 0 < int(told["stdout"].split()[0]) <= 24 << 20, told
    roomy = caller.with_options("--writable-root")
    assert roomy.run("--", "sh", "-c", f"mkdir -p {place} && head -c 40000000 /dev/urandom > {place}/big").returncode == 0, "control"


def test_a_start_that_does_not_fit_says_so(caller):
    told = with_disk(caller, "4K").run("--", "true")
    assert told.returncode == 125 and "lifecycle.disk" in told.stderr, told


KEPT = ["touch /dev/x", "rm /dev/ptmx", "mv /dev /d", "rmdir /dev/shm", "touch /.brig/x", "rm /.brig/bin/python", "mv /.brig /b", "touch /sys/x",
        "echo x > /sys/devices/system/cpu/online", "touch /proc/x", "echo x > /proc/meminfo", "umount /usr", "mount -o remount,rw /.brig", "mknod /n c 1 3",
        "mknod /usr/n b 8 0", "chroot /usr true"]


@pytest.mark.parametrize("command", KEPT)
@pytest.mark.parametrize("uid", [0, 1000])
def test_what_stays_as_it_is(box, command, uid):
    told = box.json("--uid", uid, "--proc", "own", "--", "sh", "-c", f"({command}) 2>/dev/null && echo done; ls -d /dev/ptmx /dev/shm /.brig/bin/python")
    assert told["stdout"].split() == ["/.brig/bin/python", "/dev/ptmx", "/dev/shm"], told


def test_grants_keep_their_flags(box):
    """No rule of Landlock says it a second time here: the mount does."""
    with tempfile.TemporaryDirectory(prefix="test-brig-") as top:
        os.chmod(top, 0o777)
        for name in ("ro", "rw"):
            Path(top, name).mkdir()
            os.chown(Path(top, name), box.uid, box.uid)
        told = box.run("--ro", f"{top}/ro:/given/ro", "--rw", f"{top}/rw:/given/rw", "--",
                       "sh", "-c", "touch /given/rw/x && ! touch /given/ro/x && ! rm -r /given/ro && ! mv /given/ro /r && touch /given/y && echo yes")
        assert told.stdout == "yes\n", told
        assert sorted(os.listdir(f"{top}/rw")) == ["x"] and os.listdir(f"{top}/ro") == [], "and nothing else came of it"


@pytest.mark.skipif(not IS_ROOT, reason="only root can put a file into the host's /usr")
def test_a_file_that_only_the_hosts_root_may_read_stays_one(caller, box):
    """Whoever may change the folder is not the owner of what is in it."""
    top = Path(tempfile.mkdtemp(prefix="test-brig-", dir="/usr/local/share"))
    try:
        top.chmod(0o755)
        (top / "secret").write_text("canary")
        (top / "secret").chmod(0o600)
        (top / "plain").write_text("plain")
        (top / "plain").chmod(0o644)
        (top / "closed").mkdir(mode=0o700)
        (top / "closed" / "file").write_text("canary")
        (top / "closed" / "file").chmod(0o644)
        for uid in (0, 1000):
            told = box.json("--uid", uid, "--", "sh", "-c", f"""cd {top}; cat plain
                cat secret; cat closed/file; ls closed; cp secret /tmp/s; mv secret moved; ln secret linked; chmod 644 secret; chown {uid} secret
                ls -l /proc/self/fd >/dev/null; echo x >> plain; cat secret moved linked; mkdir closed/x; rm -rf closed; cat closed/file""")
            assert told["stdout"] == "plain", told
        assert (top / "plain").read_text() == "plain" and (top / "secret").read_text() == (top / "closed" / "file").read_text() == "canary"
        (top / "secret").chmod(0o644)
        assert box.run("--", "cat", top / "secret").stdout == "canary", "control: it is the permission that holds"
    finally:
        shutil.rmtree(top)


@pytest.mark.parametrize("writable", [["--writable-root"], []], ids=["writable", "control"])
def test_memory_that_only_a_cgroup_counts(caller, writable):
    """Where memory is only watched there is no /dev/zero available for writing: elsewhere a rule of Landlock's refuses it, here
    none can."""
    told = caller.json(*NO_CGROUP, *writable, "--", "python3", "-c", """if 1:
        import os
        for flags in (os.O_RDWR, os.O_RDONLY):
            try:
                os.close(os.open("/dev/zero", flags))
                print("open")
            except OSError as e:
                print(e.strerror)""")
    assert told["stdout"].splitlines() == (["No such file or directory"] * 2 if writable else ["Permission denied", "open"]), told


def test_nothing_more_is_given(box):
    """One id, no capability, every mount without set-id and devices."""
    told = box.json("--uid", "0", "--", "sh", "-c", "grep -h Cap /proc/self/status | cut -f2 | sort -u; tr -s ' ' < /proc/self/uid_map; cat /proc/self/mountinfo")
    caps, ids, *mounts = told["stdout"].splitlines()
    assert caps == "0" * 16 and ids.split()[0] == "0" and ids.split()[2] == "1" and ids.split()[1] != "0", told
    for mount in mounts:
        place, flags = mount.split()[4], mount.split()[5].split(",")
        assert "nosuid" in flags, mount
        assert "nodev" in flags or place.startswith("/dev/"), mount
        assert "ro" in flags or not place == "/.brig" and not place == "/dev", mount
    assert {m.split()[4] for m in mounts} >= {"/", "/usr", "/dev", "/.brig"}, mounts


def test_the_receipt_says_it(box, caller):
    for who, want in ((box, True), (caller, False)):
        with tempfile.TemporaryDirectory(prefix="test-brig-") as folder:
            os.chown(folder, who.uid, who.uid)
            who.run("--receipt", f"{folder}/r", "--", "true", env={**os.environ, "XDG_STATE_HOME": folder})
            assert f'"writable_root":{str(want).lower()}' in Path(folder, "r").read_text().replace(" ", "").replace("\n", "")


@pytest.mark.parametrize("options,says", [(["--tier", "process"], "tier process has no mount namespace"), (["--no-workspace"], "filesystem.workspace is false"),
                                          (["--noexec"], "filesystem.exec is false")], ids=["process", "workspace", "exec"])
@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_where_it_cannot_be(caller, options, says):
    told = caller.run("--writable-root", *options, "--", "true")
    assert told.returncode == 125 and says in told.stderr and told.stdout == "", told


@pytest.mark.parametrize("writable", [[], ["--writable-root"]], ids=["control", "writable"])
def test_files_of_the_host_that_were_asked_for_are_reported(caller, writable):
    """That all of the root can be written does not show anything of the host. What is there inside as well, and what nobody has, was
    not refused."""
    script = "cat /etc/shadow; cat /root; cat /nowhere-at-all; echo x > /tmp/own; cat /tmp/own; ls / /usr /etc /var" + ("; mkdir /mnt && ls /mnt" if writable else "")
    told = caller.json("--report-files", *writable, "--", "sh", "-c", script)
    reads = {d["what"]: d["rule"] for d in told["denials"] if d["what"].startswith("read ")}
    assert reads == {"read /etc/shadow": "filesystem.view: not in view", "read /root": "filesystem.view: not in view"}, told
    assert [d["what"] for d in told["denials"] if d["what"].startswith("write ")] == [], told


# ---- a folder as root ----

@pytest.fixture
def image(caller):
    """The few programs of a shell, owned by the caller."""
    with tempfile.TemporaryDirectory(prefix="test-brig-") as top:
        os.chmod(top, 0o755)
        for name in ("bin", "etc", "srv"):
            Path(top, name).mkdir()
        for program in ("sh", "cat", "ls", "rm", "mkdir", "mv", "ln", "chmod", "id", "touch"):
            real = Path(shutil.which(program, path="/usr/bin:/bin")).resolve()
            shutil.copy(real, Path(top, "bin", program))
            for line in subprocess.run(["ldd", real], capture_output=True, text=True).stdout.splitlines():
                for word in line.split():
                    if word.startswith("/"):
                        Path(top, word[1:]).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(Path(word).resolve(), Path(top, word[1:]))
        Path(top, "etc", "own").write_text("mine")
        Path(top, "etc", "own").chmod(0o600)
        for at in [Path(top), *Path(top).rglob("*")]:
            os.chown(at, caller.uid, caller.uid, follow_symlinks=False)
        yield Path(top)


def test_a_folder_as_root_is_the_sandboxs_own(box, caller, image):
    """Its owner named it to be the root: files in it can be changed in place, read by the owner's right, renamed and linked."""
    before = {p: (p.stat().st_mtime_ns, stat.S_IMODE(p.stat().st_mode)) for p in image.rglob("*")}
    script = "cat /etc/own; echo more >> /etc/own; cat /etc/own; mv /etc/own /etc/other; ln /etc/other /etc/linked; mkdir /srv/d /top; chmod 777 /bin/ls; rm /bin/id; ls /srv"
    told = box.json("--root", image, "--", "sh", "-c", script)
    assert (told["exit_code"], told["stdout"]) == (0, "mineminemore\nd\n"), told
    assert {p: (p.stat().st_mtime_ns, stat.S_IMODE(p.stat().st_mode)) for p in image.rglob("*")} == before, "and the folder is as it was"
    assert caller.run("--root", image, "--", "sh", "-c", "echo more >> /etc/own").returncode != 0, "control"


@pytest.mark.skipif(not IS_ROOT, reason="only root can put a file where no sandbox has a place of its own")
@pytest.mark.parametrize("writable", [[], ["--writable-root"]], ids=["control", "writable"])
def test_what_lies_elsewhere_is_learned(caller, image, writable):
    """That it could be written there does not make a file of the host's one of the other root's."""
    with tempfile.TemporaryDirectory(prefix="test-brig-", dir="/opt") as top:
        os.chmod(top, 0o755)
        Path(top, "data").write_text("1,2")
        os.chmod(Path(top, "data"), 0o644)
        told = caller.json("--learn", *writable, "--root", image, "--", "cat", f"{top}/data")
        assert f"{top}/data" in [p["value"] for p in told["learned"]["proposals"]], told


# ---- what it is for ----

def need_apt():
    if not (shutil.which("apt-get") and Path("/var/lib/dpkg/status").exists()):
        pytest.skip("this is no Debian")


def install(registry):
    return (f"echo '{registry.source}' > /etc/apt/sources.list && sudo apt-get -qq update && sudo apt-get -qq install -y {NAME} >&2 && {NAME}-deb "
            f"&& ls -d /opt/{NAME} && dpkg-query -W -f '${{Status}}\\n' {NAME}")


def test_apt_get_install(box, registry):
    need_apt()
    told = box.json("--uid", "0", *registry.options(), "--", "bash", "-c", install(registry), timeout=900)
    assert (told["exit_code"], told["stdout"]) == (0, f"tiny works\n/opt/{NAME}\ninstall ok installed\n"), told
    assert not Path(f"/usr/bin/{NAME}-deb").exists() and subprocess.run(["dpkg-query", "-W", NAME], capture_output=True).returncode != 0
    told = box.json("--uid", "0", *registry.options(), "--", "bash", "-c", f"{install(registry)} && apt-get -qq remove -y {NAME} >&2; {NAME}-deb", timeout=900)
    assert told["exit_code"] == 127, "and it can be removed again"


def test_without_a_writable_root_apt_get_fails(caller, registry):
    need_apt()
    told = caller.json("--uid", "0", *registry.options(), "--", "apt-get", "install", "-y", NAME)
    assert told["exit_code"] == 100, told


def test_the_archive_is_the_distributions(box):
    """And nothing of the host's /etc/apt, whose addresses may hold tokens."""
    need_apt()
    told = box.json("--uid", "0", "--", "sh", "-c", "find /etc/apt -type f | sort; cat /etc/apt/sources.list; "
                    "cat $(sed 's/.*signed-by=//; s/].*//' /etc/apt/sources.list | sort -u) | wc -c")
    files, sources, keys = told["stdout"].splitlines()[:2], told["stdout"].splitlines()[2:-1], int(told["stdout"].splitlines()[-1])
    assert files == ["/etc/apt/apt.conf.d/00brig", "/etc/apt/sources.list"] and keys > 1000, told
    assert len(sources) == 3 and all(re.fullmatch(r"deb \[signed-by=/usr/share/keyrings/[a-z-]+\.gpg\] http://[a-z.]+/[a-z-]+ [a-z-]+ [a-z ]+", s) for s in sources), told


def test_the_hosts_packages_are_shown_to_root_alone(box):
    """Nobody else can install anything: what the host has installed is then no business of the code's."""
    need_apt()
    look = ["--", "sh", "-c", "ls -d /var/lib/dpkg /etc/apt; grep -c ' /var/lib/dpkg ' /proc/self/mountinfo"]
    assert box.run("--uid", "1000", *look).stdout == "0\n"
    assert box.run("--uid", "0", *look).stdout.split() == ["/etc/apt", "/var/lib/dpkg", "1"], "control"


def test_owners_are_pretended_for_root_of_a_writable_root_alone(box, caller):
    script = "touch /tmp/f && chown 33:33 /tmp/f && stat -c %u /tmp/f"
    assert box.run("--uid", "0", "--", "sh", "-c", script).stdout == "0\n", "nothing happens, and the call says that it did"
    assert caller.run("--uid", "0", "--", "sh", "-c", script).returncode != 0
    assert box.run("--", "sh", "-c", script).returncode != 0


# ---- the daemon ----

@pytest.fixture(scope="module", params=USERS)
def daemon(request, registry):
    policy = "filesystem: {writable_root: true}"
    rooted = registry.template().replace("policy:\n", f"policy:\n  {policy}\n  kernel: {{uid: 0}}\n")
    python = f"interpreter: python\npool: {{min: 1, max: 1}}\npolicy: {{{policy}, lifecycle: {{sampling: accept}}}}\n"
    with Daemon(request.param, templates={"rooted.yaml": rooted, "pythonic.yaml": python}) as made:
        yield made


def test_apt_get_install_in_the_daemon(daemon, registry):
    need_apt()
    box = daemon.create("rooted")
    try:
        told = box.sh(install(registry))
        assert told.out.startswith(b"tiny works\n"), told
    finally:
        box.kill()


def test_new_folders_at_the_top_in_the_daemon(daemon):
    for template in ("rooted", "pythonic"):
        box = daemon.create(template)
        try:
            told = box.request("POST", "/files?path=/data/deep/x", b"written", headers={"Content-Type": "application/octet-stream"})
            assert told.status == 200, told
            assert box.sh("cat /data/deep/x").out == b"written"
        finally:
            box.kill()


def test_an_interpreter_in_a_writable_root(daemon):
    """It is started and not cloned: a clone would have the layers of its template."""
    boxes = [daemon.create("pythonic") for _ in range(2)]
    try:
        for i, box in enumerate(boxes):
            told = box.execute(f"import os\nos.makedirs('/data')\nopen('/data/x', 'w').write('{i}')\nprint(open('/data/x').read(), os.listdir('/data'))")
            assert [line["text"] for line in told if line["type"] == "stdout"] == [f"{i} ['x']\n"], told
    finally:
        for box in boxes:
            box.kill()
