"""What the harness sees from outside: tasks, mounts, control groups, temporary files. Nothing here asks brig."""

import ctypes
import os
import pathlib
import re
import time
import weakref

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS, CLONE_NEWIPC = 0x20000, 0x08000000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
MNT_DETACH = 2
CGROUP_ROOT = pathlib.Path("/sys/fs/cgroup")
TEMP_PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var/lib", "/run/lock"]


def become_subreaper():
    """Orphans of anything that we start come back to us, so that nothing can hide by losing its parent."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read(path, otherwise=""):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return otherwise


def stat_fields(pid):
    """(parent, state) or None."""
    text = read(f"/proc/{pid}/stat")
    if ")" not in text:
        return None
    rest = text.rpartition(")")[2].split()
    return int(rest[1]), rest[0]


def pids():
    return [int(e.name) for e in os.scandir("/proc") if e.name.isdigit()]


def descendants(root):
    """Every task below root, dead ones included: {pid: (parent, state)}."""
    table = {}
    for pid in pids():
        fields = stat_fields(pid)
        if fields:
            table[pid] = fields
    found, grew = {}, True
    while grew:
        grew = False
        for pid, (parent, state) in table.items():
            if pid not in found and (parent == root or parent in found):
                found[pid] = (parent, state)
                grew = True
    return found


def alive_below(root):
    return {p for p, (_, state) in descendants(root).items() if state not in "ZX"}


STARTED = weakref.WeakSet()  # the harness's own Popen objects: they wait for their process themselves


def reap():
    """Collect dead orphans that came to us."""
    known = {process.pid for process in STARTED if process.returncode is None}
    for pid, (parent, state) in descendants(os.getpid()).items():
        if parent == os.getpid() and state == "Z" and pid not in known:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def status(pid):
    """The fields of /proc/PID/status."""
    out = {}
    for line in read(f"/proc/{pid}/status").splitlines():
        key, _, value = line.partition(":")
        out[key] = value.strip()
    return out


def namespaces(pid):
    out = {}
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        try:
            out[kind] = os.readlink(f"/proc/{pid}/ns/{kind}")
        except OSError:
            pass
    return out


def descriptors(pid):
    out = {}
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                out[int(entry.name)] = os.readlink(entry.path)
            except OSError:
                pass
    except OSError:
        pass
    return out


def mounts(pid="self"):
    """[{point, options, type, source, super}] of a task's mount namespace."""
    out = []
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        left, right = left.split(), right.split()
        out.append({"root": left[3], "point": left[4], "options": left[5].split(","),
                    "optional": left[6:], "type": right[0], "source": right[1],
                    "super": right[2].split(",")})
    return out


def exe(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def workload(root, program):
    """The tasks below root that run the attack program, youngest last."""
    return sorted(p for p in alive_below(root) if exe(p) == str(program))


def await_turns(pid, count=10):
    """A task that looks and sleeps in turns has looked so often since now: each sleep is a switch of its own accord."""
    def turns():
        return int(status(pid).get("voluntary_ctxt_switches", 0))
    before = turns()
    return wait_for(lambda: turns() >= before + count)


def chain(pid, root):
    """The tasks between pid and root: what brig put there (init, helpers)."""
    table, out = descendants(root), []
    while pid in table and table[pid][0] != root and table[pid][0] in table:
        pid = table[pid][0]
        out.append(pid)
    return out


# What takes a moment has surely happened by then, on a machine that is busy with other things too; what is meant to be
# ended runs for longer than this by itself.
SOON = 30.0


def wait_for(condition, seconds=SOON, step=0.02):
    """The first true answer of condition(), or its last one."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


def make_own_view(base, shown):
    """As root: mount and IPC namespaces of our own, and a /tmp of our own below `base`, in which the folders `shown` are
    still to be seen if they lie there. Whatever other programs of this machine mount, or leave in /tmp or as System V
    objects, is then not there, and whatever is there was left by us."""
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWIPC), "unshare")
    # First away from everybody else, then shared again: as on most machines, so that a mount that gets out of a sandbox
    # would show here.
    mount(None, "/", MS_REC | MS_PRIVATE)
    mount(None, "/", MS_REC | MS_SHARED)
    held = {str(f): os.open(f, os.O_PATH | os.O_DIRECTORY) for f in shown if pathlib.Path(f).is_relative_to("/tmp")}
    own = pathlib.Path(base) / "tmp"
    own.mkdir()
    own.chmod(0o1777)
    mount(own, "/tmp", MS_BIND)
    for folder, fd in held.items():
        os.makedirs(folder, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", folder, MS_BIND)
        os.close(fd)


def leave_own_tmp():
    """Reports and the like may go to the machine's /tmp again."""
    check(LIBC.umount2(b"/tmp", MNT_DETACH), "umount")


def mount(source, target, flags):
    check(LIBC.mount(str(source or "none").encode(), str(target).encode(), None, flags, None), f"mount {target}")


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


class Fence:
    """Control groups of our own around the whole suite: they keep a failed containment from hurting the machine, and
    they are where brig's groups appear, so that others' runs are not mistaken for ours."""

    MEMORY, TASKS = 8 << 30, 4000

    def __init__(self):
        self.homes, self.dirs = {}, []

    def raise_up(self):
        for line in read("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            try:
                if {"memory", "pids", "cpu", "cpuacct"} & set(controllers.split(",")):
                    self.raise_v1(controllers, CGROUP_ROOT / controllers / path.lstrip("/"))
                elif controllers == "":
                    self.raise_v2(path)
            except OSError:
                continue

    def raise_v1(self, controller, home):
        limits = {"memory": ("memory.limit_in_bytes", self.MEMORY), "pids": ("pids.max", self.TASKS)}
        own = home / f"escape-suite-{os.getpid()}"
        own.mkdir()
        self.homes[own] = home
        if controller in limits:
            name, value = limits[controller]
            (own / name).write_text(str(value))
        (own / "cgroup.procs").write_text(str(os.getpid()))
        self.dirs.append(own)

    def raise_v2(self, path):
        """A group may have tasks or hand controllers on, not both: we live in a leaf of the fence, and brig, which looks
        upwards for a group that hands controllers on, finds the fence."""
        top = next((pathlib.Path(m["point"]) for m in mounts() if m["type"] == "cgroup2"), None)
        home = top / path.lstrip("/") if top else None
        above = [f for f in (home, *home.parents) if f.is_relative_to(top)] if top else []
        giving = next((f for f in above if {"memory", "pids"} <= set(read(f / "cgroup.subtree_control").split())), None)
        if giving is None:
            return
        own = giving / f"escape-suite-{os.getpid()}"
        own.mkdir()
        self.homes[own] = home
        for name in read(own / "cgroup.controllers").split():
            if name in ("memory", "pids", "cpu"):
                (own / "cgroup.subtree_control").write_text(f"+{name}")
        (own / "memory.max").write_text(str(self.MEMORY))
        (own / "pids.max").write_text(str(self.TASKS))
        (own / "suite").mkdir()
        (own / "suite" / "cgroup.procs").write_text(str(os.getpid()))
        self.dirs.append(own)

    def take_down(self):
        for own, home in self.homes.items():
            try:
                (home / "cgroup.procs").write_text(str(os.getpid()))
                for sub in sorted(own.glob("**/"), reverse=True):
                    sub.rmdir()
            except OSError:
                pass

    def memory(self):
        """Bytes that everything within has now, without what the kernel keeps of files and can drop; None where there is
        no fence."""
        for own in self.dirs:
            for name, prefix in (("memory.usage_in_bytes", "total_"), ("memory.current", "")):
                if (own / name).exists():
                    said = dict(line.split() for line in read(own / "memory.stat").splitlines())
                    return int(read(own / name)) - sum(int(said[f"{prefix}{age}_file"]) for age in ("active", "inactive"))
        return None

    def groups(self):
        """The folders that are not ours. os.walk: one that is removed while it is looked at is no error."""
        out = set()
        for own in self.dirs or [CGROUP_ROOT]:
            for folder, names, _ in os.walk(own):
                out.update(os.path.join(folder, n) for n in names if self.dirs or "brig" in n)
        return out if self.dirs else {g for g in out if not has_strangers(g)}


def has_strangers(group):
    """Without a fence: a group with a task of somebody else's is somebody else's."""
    ours = descendants(os.getpid())
    return any(int(pid) not in ours for pid in read(f"{group}/cgroup.procs").split())


def foreign_folders():
    """Where tasks that are not ours work: another run of brig on this machine is not our leftover."""
    ours, out = set(descendants(os.getpid())), set()
    for pid in pids():
        if pid not in ours:
            try:
                out.add(os.readlink(f"/proc/{pid}/cwd"))
            except OSError:
                pass
    return out


def temp_entries(ours):
    out = set()
    for place in TEMP_PLACES + [str(p) for p in pathlib.Path("/run/user").glob("*")]:
        try:
            for entry in os.scandir(place):
                if re.fullmatch(r"\.?brig-[0-9a-f]{12,}.*", entry.name) and not entry.path.startswith(ours):
                    out.add(entry.path)
        except OSError:
            pass
    return out


def ipc_objects():
    """{"shm 7", …}. In an IPC namespace of our own all are ours; an ordinary user's are told by their owner."""
    out = set()
    for kind in ("shm", "sem", "msg"):
        lines = [line.split() for line in read(f"/proc/sysvipc/{kind}").splitlines()]
        for fields in lines[1:]:
            row = dict(zip(lines[0], fields))
            if os.getuid() == 0 or str(os.getuid()) in (row["uid"], row["cuid"]):
                out.add(f"{kind} {fields[1]}")
    return out


class Snapshot:
    """DIFF: the host before and after. `watched` are folders of ours that must end as they began."""

    def __init__(self, fence, base, watched=()):
        self.fence, self.base, self.watched = fence, str(base), list(watched)
        self.before = self.look()

    def look(self):
        reap()
        view = {
            "tasks": {f"{p} {exe(p) or read(f'/proc/{p}/comm').strip()}" for p in alive_below(os.getpid())},
            # Who is not root cannot mount anything that is seen here; others can.
            "mounts": {(m["root"], m["point"], m["source"]) for m in mounts()} if os.getuid() == 0 else set(),
            "groups": self.fence.groups(),
            "temp": temp_entries(self.base),
            "ipc": ipc_objects(),
            "namespaces": {n for p in alive_below(os.getpid()) for n in namespaces(p).values()},
            "watched": {str(p) for w in self.watched for p in pathlib.Path(w).rglob("*")},
        }
        return view

    def extra(self):
        now = self.look()
        return {k: sorted(map(str, now[k] - self.before[k])) for k in now if now[k] - self.before[k]}

    def leftovers(self, settle=SOON):
        """What is there that was not there before, and stays for `settle` seconds; {} is good."""
        end = time.monotonic() + settle
        left = self.extra()
        while left and time.monotonic() < end:
            time.sleep(0.05)
            now = self.extra()
            # A leftover is there every time; what an ordinary user shares with others' runs comes and goes.
            left = {k: [e for e in v if e in now.get(k, ())] for k, v in left.items()}
            left = {k: v for k, v in left.items() if v}
            if "temp" in left and os.getuid() != 0:
                left["temp"] = [e for e in left["temp"] if e not in foreign_folders()]
        return {k: v for k, v in left.items() if v}
