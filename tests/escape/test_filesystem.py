"""F rows that apply to `brig run`: what the code sees, what it can write, and that the second layer stands alone."""

import os
import pathlib
import re
import secrets
import shutil
import subprocess

import pytest

import hostview
from architecture import number, numbers
from escapelib import (ABSENT, CONTAINERS, DENIED, PLACE, REFUSED, ROOT, TIERS, USER_ID, assert_denied, cells,
                       alone_on_this_machine, control, end_tree, finish, outside, probes, refused_as, told)

SENSITIVE = ["/root/.ssh", "/root/.aws", "/root/.config/gcloud", "/home/escape-neighbour/.ssh", "/etc", "/var/lib",
             "/var/log", "/run", "/tmp", "/var/tmp", "/dev/shm", "/srv", "/opt", "/mnt", "/media", "/boot"]
VIEW = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "workspace", "tmp", "var", "dev", "proc",
        "home", "srv", "run", ".", "..", ".brig", ".landlock"}
MAKING = set(numbers(["mkdir", "mkdirat", "symlink", "symlinkat"], only_x86_64=("mkdir", "symlink")).values())


class Canaries:
    """Files with a random token in name and content, in every sensitive place of the host."""

    def __init__(self):
        self.token = "CANARY" + secrets.token_hex(8)
        self.files, self.folders = [], []

    def __enter__(self):
        self.alone = alone_on_this_machine()
        self.alone.__enter__()
        for place in SENSITIVE:
            folder = pathlib.Path(place)
            for parent in [*reversed(folder.parents), folder]:
                if not parent.exists():
                    parent.mkdir(mode=0o755)
                    self.folders.append(parent)
            file = folder / f".{self.token}"
            file.write_text(self.token)
            file.chmod(0o644)
            self.files.append(file)
        return self

    def __exit__(self, *_):
        for file in self.files:
            file.unlink(missing_ok=True)
        for folder in reversed(self.folders):
            folder.rmdir()
        self.alone.__exit__(None, None, None)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can plant canaries everywhere")


@needs_root
@cells()
def test_F01_host_files_are_out_of_sight(cell):
    """Canaries in homes, key folders, state and temporary places; the whole visible tree is walked."""
    with Canaries() as canaries:
        paths = list(map(str, canaries.files))
        found = outside(PLACE.attack, "direct", canaries.token, *paths, user=cell.user).out
        open_places = {p for p in paths if f"direct\t{p}" in found}
        assert len(open_places) > len(paths) // 2, f"control: most canaries are readable outside: {found[-600:]}"
        shown = cell.attack("search", canaries.token, *paths, options=["--output", "4M", "--timeout", "280s"])
        hits = [line for line in shown.splitlines() if line.startswith("FOUND")]
        # The own grant is below /srv and the command line holds the token.
        hits = [h for h in hits if not re.search(r"/proc/\w+/(task/\w+/)?(cmdline|environ)", h)]
        assert not hits, f"seen from inside: {hits[:10]}"
        assert "SEEN" in shown, "the walk did not end"
        if cell.container:
            assert "STAT" not in shown, [x for x in shown.splitlines() if x.startswith("STAT")]
            top = {line.split("\t")[1] for line in shown.splitlines() if line.startswith("TOP")}
            # Who is root inside has /root, which leads to the home.
            view = VIEW | {"root"} if cell.uid == 0 else VIEW
            assert top <= view, f"not in the documented view: {top - view}"
    for secret in ("/etc/shadow", "/root/.bashrc", "/proc/1/environ", "/etc/ssh/ssh_host_ed25519_key"):
        assert not cell.run(["/bin/cat", secret]).json["stdout"], secret


@needs_root
@cells()
def test_F02_climbing_out(cell):
    """A held folder, a nested chroot and long climbs end at the sandbox's root."""
    token = PLACE.folder("climb") / f"token-{secrets.token_hex(4)}"
    token.write_text("outside")
    jail = PLACE.folder("jail")
    shutil.copy2(PLACE.attack, jail / "attack")
    shown = probes(outside("chroot", jail, "/attack", "climb", token).out).get("F-02", {})
    assert shown.get("relative climb") == "OK", f"control: a bare chroot is left that way: {shown}"
    inside = probes(cell.attack("climb", str(token))).get("F-02", {})
    # EBADF: the folder could not even be opened to be held.
    assert_denied({k: v for k, v in shown.items() if k != "fchdir"}, inside, ABSENT | {"EBADF"})


@needs_root
@cells()
def test_F05_hard_links(cell):
    """A read-only file does not become writable through a second name in a writable folder."""
    readonly, writable = PLACE.folder("readonly", cell.user), PLACE.folder("writable", cell.user, 0o777)
    file = readonly / "file"

    def fresh():
        file.write_text("original")
        if cell.user == "user":
            os.chown(file, USER_ID, USER_ID)
    fresh()
    shown = probes(outside(PLACE.attack, "links", file, writable, user=cell.user).out)["F-05"]
    assert shown["write through link"] == "OK", "control"
    for path in writable.iterdir():
        path.unlink()
    file.unlink(missing_ok=True)
    fresh()
    inside = probes(cell.attack("links", str(file), str(writable), options=["--ro", readonly, "--rw", writable]))
    assert_denied(shown, inside["F-05"], {"EXDEV", *ABSENT})
    assert file.read_text() == "original"


@needs_root
@cells()
def test_F11_read_only_stays_read_only(cell):
    """Every way to change a read-only grant and the system folders."""
    grant = PLACE.folder("grant", cell.user)
    file = grant / "file"

    def fresh():
        for path in grant.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        file.write_text("original")
        if cell.user == "user":
            os.chown(file, USER_ID, USER_ID)
    fresh()
    shown = probes(outside(PLACE.attack, "rowrite", grant, file, user=cell.user).out)["F-11"]
    assert shown["append"] == "OK" and shown["create"] == "OK", f"control: {shown}"
    fresh()
    before = file.stat()
    inside = probes(cell.attack("rowrite", str(grant), str(file), options=["--ro", grant]))["F-11"]
    assert_denied(shown, inside, {"EXDEV", "EOPNOTSUPP"})
    after = file.stat()
    assert [p.name for p in grant.iterdir()] == ["file"] and file.read_text() == "original"
    assert (before.st_mode, before.st_mtime_ns, before.st_uid, before.st_nlink) == \
        (after.st_mode, after.st_mtime_ns, after.st_uid, after.st_nlink)
    for folder, target in (("/usr", "/usr/bin/true"), ("/etc", "/etc/passwd"), ("/bin", "/bin/sh"), ("/", "/bin/sh"),
                           ("/lib", "/lib/os-release"), ("/dev", "/dev/null")):
        rows = probes(cell.attack("rowrite", folder, target, "gentle"))["F-11"]
        through = {n: o for n, o in rows.items() if o == "OK" and not (target == "/dev/null" and n == "append")}
        assert not through, f"{folder}: {through}"


@needs_root
@cells()
def test_F12_device_nodes(cell):
    """None can be made; nodes in a granted folder cannot be used."""
    shown, inside = probes(control("kernel")), probes(cell.attack("kernel"))
    assert_denied(shown["F-12"], inside["F-12"], {"ENOENT"})
    if not cell.container:
        return  # there are no mounts to carry nodev; a grant gives what its owner's rights give
    folder = PLACE.folder("nodes")
    for name, major, minor, kind in (("zero", 1, 5, 0o020666), ("loop", 7, 0, 0o060666)):
        os.mknod(folder / name, kind, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    nodes = [str(folder / "zero"), str(folder / "loop")]
    assert probes(control("nodes", *nodes))["F-12"][nodes[0]] == "OK", "control"
    for option in ("--ro", "--rw"):
        rows = probes(cell.attack("nodes", *nodes, options=[option, folder]))["F-12"]
        assert all(refused_as(o, DENIED) for o in rows.values()), rows


@cells(CONTAINERS)
def test_F13_writable_means_nosuid_nodev(cell):
    """Flags of every mount, read on the host; set-id files give nothing (see K-17)."""
    folder = PLACE.folder("rw", cell.user)
    process = cell.start([PLACE.attack, "stubborn", "280"], ["--rw", folder], json_out=False)
    try:
        task = hostview.wait_for(lambda: hostview.workload(process.pid, PLACE.attack))
        assert task, "no task seen"
        bad = []
        for mount in hostview.mounts(task[-1]):
            writable = "rw" in mount["options"] and "ro" not in mount["super"]
            if "nosuid" not in mount["options"]:
                bad.append(f"{mount['point']}: no nosuid")
            if writable and "nodev" not in mount["options"] and mount["type"] != "devpts" \
                    and not mount["point"].startswith("/dev/"):
                bad.append(f"{mount['point']}: no nodev")
        assert not bad, bad
    finally:
        end_tree(process)


@needs_root
@cells(CONTAINERS)
def test_F15_no_propagation(cell, diff):
    """A mount made on the host after the start does not come in; none of ours appears on the host."""
    shared = PLACE.folder("shared")
    (shared / "sub").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", shared], check=True)
    try:
        subprocess.run(["mount", "--make-shared", shared], check=True)
        (shared / "sub").mkdir()
        host = {(m["point"], m["source"]) for m in hostview.mounts()}
        await_late = [PLACE.attack, "await", shared / "sub" / "late", "file", "280"]
        process = cell.start(await_late, ["--ro", shared], json_out=False)
        told(process, "waiting\n")
        watcher = subprocess.Popen(await_late, stdout=subprocess.PIPE)
        hostview.STARTED.add(watcher)
        told(watcher, "waiting\n")
        during = {(m["point"], m["source"]) for m in hostview.mounts()}
        subprocess.run(["mount", "-t", "tmpfs", "none", shared / "sub"], check=True)
        (shared / "sub" / "late").mkdir()
        seen = watcher.communicate(timeout=300)[0].decode()
        still = [p for p in hostview.workload(process.pid, PLACE.attack) if hostview.await_turns(p)]
        end_tree(process)
        subprocess.run(["umount", shared / "sub"], check=True)
        assert "exists\tOK" in seen, "control: outside, the mount is seen"
        assert still, "the late mount came in"
        assert during == host, f"mounts on the host during the run: {during - host}"
    finally:
        subprocess.run(["umount", "-R", shared], check=True)


@cells()
def test_F16_neighbours_files(cell):
    """What one sandbox plants in all its writable places, another does not find."""
    token = "PLANT" + secrets.token_hex(6)
    plant = ('for d in /workspace /tmp /var/tmp /dev/shm "$HOME" "$TMPDIR" .; do '
             f'[ -n "$d" ] && echo {token} > "$d/{token}" 2>/dev/null && echo "planted $d"; done; echo ready; sleep 280')
    process = cell.start(["/bin/sh", "-c", plant], ["--timeout", "290s"], json_out=False)
    try:
        text = told(process, "ready\n")
        planted = [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith("planted")]
        if not planted:
            pytest.skip("this level has no writable place at all")
        paths = [f"{d}/{token}" for d in planted if d.startswith("/")]
        shown = cell.attack("search", token, *paths, options=["--output", "4M", "--timeout", "280s"])
        hits = [x for x in shown.splitlines() if x.startswith("FOUND") and "/proc/" not in x]
        assert not hits, hits
    finally:
        end_tree(process)


def test_F17_protected_paths():
    pytest.skip("this version has no protected paths: nothing inside a writable grant is exempt")


@cells()
def test_F19_extended_attributes(cell):
    """Privileged classes are refused; attributes cannot be used to store without limit."""
    shown = probes(control("xattrs", PLACE.folder("attributes")))["F-19"]
    assert shown["security.capability"] == "OK", f"control: {shown}"
    text = cell.run(["/bin/sh", "-c", f'exec {PLACE.attack} xattrs "${{TMPDIR:-/tmp}}"'],
                    ["--disk", "8M", "-m", "64M"]).json["stdout"]
    inside = probes(text)["F-19"]
    if inside["create"] != "OK":
        pytest.skip("this level has no writable place")
    assert_denied({k: v for k, v in shown.items() if k != "create"}, inside, {"ENOTSUP", "EOPNOTSUPP"})
    taken = int(re.search(r"USER\t(\d+)", text)[1])
    # tmpfs takes attributes out of the inode budget, a KiB each: the default is 32 000 inodes.
    assert taken <= 33 << 20, f"{taken} bytes of attributes"


@needs_root
@cells(CONTAINERS)
def test_F20_landlock_alone(cell):
    """The mount view is broken on purpose from the host: Landlock must still refuse what appears."""
    outcomes = {}
    for guard in ("off", "require"):
        folder = PLACE.folder("exposed", mode=0o777)
        (folder / "secret").write_text("F20")
        (folder / "secret").chmod(0o666)
        policy = PLACE.folder("policy") / "p.json"
        policy.write_text('{"filesystem": {"landlock": "%s"}}' % guard)
        process = cell.start([PLACE.attack, "await", "/exposed", "secret", "280"], ["--policy", policy], json_out=False)
        try:
            told(process, "waiting\n")
            task = hostview.workload(process.pid, PLACE.attack)
            done = outside(PLACE.tool("expose"), task[-1], folder, "exposed")
            if done.rc != 0:
                pytest.skip(f"the harness could not break the view: {done.err}")
            outcomes[guard] = probes(finish(process).out).get("await", {})
        finally:
            end_tree(process)
        if guard == "require":
            assert (folder / "secret").read_text() == "F20"
    assert outcomes["off"].get("exists") == "OK" and outcomes["off"].get("read") == "OK", \
        f"control: without Landlock the folder can be used: {outcomes['off']}"
    # Landlock knows no rule for one folder alone: so that `ls /` works, names can be listed everywhere in the private
    # root (docs/filesystem.md). Contents, and every change, are refused.
    held = {k: v for k, v in outcomes["off"].items() if k not in ("exists", "list")}
    assert_denied(held, outcomes["require"], ABSENT)


def created_paths(log):
    """Paths that the supervisor made on the host: (call, path, flags)."""
    out = []
    first = None
    for line in hostview.read(log).splitlines():
        fields = line.split("\t")
        if len(fields) < 8:
            continue
        first = first or fields[1]
        if fields[1] != first or int(fields[3]) < 0:
            continue
        nr, path = int(fields[2]), fields[7]
        if nr in MAKING or nr == number("openat") and int(fields[6]) & os.O_CREAT:
            out.append((nr, path, int(fields[6])))
    assert first, "the tracer saw no call"
    return out


@needs_root
@cells(ROOT)
def test_F21_places_of_the_runtime_cannot_be_seeded(cell):
    """What brig makes on the host has an unguessable name and is made exclusively; a seeded name is not followed."""
    logs = []
    for _ in range(2):
        log = PLACE.folder("log", mode=0o777) / "calls"
        cell.run(["/bin/true"], wrapper=[PLACE.tool("tracer"), "log", log, "--"])
        logs.append(created_paths(log))
    public = ("/tmp", "/var/tmp", "/dev/shm")
    for nr, path, flags in logs[0]:
        if nr == number("openat") and path.startswith(public):
            assert flags & os.O_EXCL, f"{path} is opened with create but not exclusively"
    same = {p for _, p, _ in logs[0] if p.startswith(public)} & {p for _, p, _ in logs[1]}
    canary = PLACE.folder("seeded")
    before = list(canary.rglob("*"))
    made = []
    for path in same:
        if not os.path.lexists(path):
            subprocess.run(["setpriv", "--reuid", "2001", "--regid", "2001", "--clear-groups", "ln", "-s", canary, path])
            made.append(path)
    try:
        result = cell.run(["/bin/true"])
        assert result.rc in (0, REFUSED)
        assert list(canary.rglob("*")) == before, f"followed a seeded link at {made}"
    finally:
        for path in made:
            if os.path.islink(path):
                os.unlink(path)


@needs_root
@cells(TIERS)
def test_F18_nothing_is_started_because_of_the_tree(cell):
    """With hostile git and shell configuration in the granted folder, the host side executes nothing but init."""
    tree = PLACE.folder("repository", cell.user)
    (tree / ".git").mkdir()
    (tree / ".git" / "config").write_text("[core]\n\tfsmonitor = /tmp/evil\n")
    (tree / ".envrc").write_text("touch /tmp/evil\n")
    log = PLACE.folder("log", mode=0o777) / "calls"
    # As root the process tier runs the code as a uid that could not write there, and so refuses to grant it.
    grant = "--ro" if cell.id == "root-process" else "--rw"
    result = cell.run(["/bin/true"], [grant, tree, "--cwd", tree], wrapper=[PLACE.tool("tracer"), "log", log, "--"])
    assert result.rc == 0, result
    started = [f[7] for f in (x.split("\t") for x in hostview.read(log).splitlines())
               if len(f) > 7 and int(f[2]) == number("execve") and int(f[3]) == 0]
    assert any(p.endswith("/bin/true") for p in started), f"the tracer did not even see the code start: {started}"
    foreign = [p for p in started if not p.endswith(("/bin/true", "/brig")) and p not in ("", "/bin/true")
               and "/proc/self/fd" not in p and "brig" not in p]
    assert not foreign, started
