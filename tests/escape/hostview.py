"""What the harness sees from outside: tasks, mounts, control groups, temporary files. Nothing here asks brig."""

import ctypes
import os
import pathlib
import re
import time
import weakref

PROC = pathlib.Path("/proc")
PR_SET_CHILD_SUBREAPER = 36
CGROUP_ROOT = pathlib.Path("/sys/fs/cgroup")
TEMP_PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var/lib", "/run/lock"]


def become_subreaper():
    """Orphans of anything that we start come back to us, so that nothing can hide by losing its parent."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


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


def chain(pid, root):
    """The tasks between pid and root: what brig put there (init, helpers)."""
    table, out = descendants(root), []
    while pid in table and table[pid][0] != root and table[pid][0] in table:
        pid = table[pid][0]
        out.append(pid)
    return out


def wait_for(condition, seconds=5.0, step=0.02):
    """The first true answer of condition(), or its last one."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


class Fence:
    """A control group of our own (v1) around the whole suite: it keeps a failed containment from hurting the
    machine, and it is where brig's groups appear, so that others' runs are not mistaken for ours."""

    LIMITS = {"memory": ("memory.limit_in_bytes", 8 << 30), "pids": ("pids.max", 4000)}

    def __init__(self):
        self.homes, self.dirs = {}, []

    def raise_up(self):
        for line in read("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            base = CGROUP_ROOT / controllers
            if controllers not in ("memory", "pids", "cpu", "cpuacct") or not base.is_dir():
                continue
            home = base / path.lstrip("/")
            own = home / f"escape-suite-{os.getpid()}"
            try:
                own.mkdir()
                if controllers in self.LIMITS:
                    name, value = self.LIMITS[controllers]
                    (own / name).write_text(str(value))
                (own / "cgroup.procs").write_text(str(os.getpid()))
            except OSError:
                continue
            self.homes[own] = home
            self.dirs.append(own)

    def take_down(self):
        for own, home in self.homes.items():
            try:
                (home / "cgroup.procs").write_text(str(os.getpid()))
                for sub in sorted(own.glob("**/"), reverse=True):
                    sub.rmdir()
            except OSError:
                pass

    def groups(self):
        """The folders that are not ours. os.walk: one that is removed while it is looked at is no error."""
        out = set()
        for own in self.dirs or [CGROUP_ROOT]:
            for folder, names, _ in os.walk(own):
                out.update(os.path.join(folder, n) for n in names if self.dirs or "brig" in n)
        return out


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


class Snapshot:
    """DIFF: the host before and after. `watched` are folders of ours that must end as they began."""

    def __init__(self, fence, base, watched=()):
        self.fence, self.base, self.watched = fence, str(base), list(watched)
        self.before = self.look()

    def look(self):
        reap()
        view = {
            "tasks": {f"{p} {exe(p) or read(f'/proc/{p}/comm').strip()}" for p in alive_below(os.getpid())},
            "mounts": {(m["root"], m["point"], m["source"]) for m in mounts()},
            "groups": self.fence.groups(),
            "temp": temp_entries(self.base),
            # Only how many objects there are: the lines also hold times.
            "ipc": {f"{kind} {len(read(f'/proc/sysvipc/{kind}').splitlines())}" for kind in ("shm", "sem", "msg")},
            "namespaces": {n for p in alive_below(os.getpid()) for n in namespaces(p).values()},
            "watched": {str(p) for w in self.watched for p in pathlib.Path(w).rglob("*")},
        }
        return view

    def extra(self):
        now = self.look()
        return {k: sorted(map(str, now[k] - self.before[k])) for k in now if now[k] - self.before[k]}

    def leftovers(self, settle=5.0):
        """What is there that was not there before, and stays for `settle` seconds; {} is good."""
        end = time.monotonic() + settle
        left = self.extra()
        while left and time.monotonic() < end:
            time.sleep(0.05)
            now = self.extra()
            # Something of another run comes and goes; a leftover is there every time.
            left = {k: [e for e in v if e in now.get(k, ())] for k, v in left.items()}
            left = {k: v for k, v in left.items() if v}
            if "temp" in left:
                left["temp"] = [e for e in left["temp"] if e not in foreign_folders()]
        return {k: v for k, v in left.items() if v}
