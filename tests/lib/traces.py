"""What sandboxes leave on the host, of those that this process started. Others may run sandboxes on this machine, and so may other
runs of these tests: only what is ours counts.

Of a task it is known: who loses its parent is given to the nearest ancestor that asked for it (PR_SET_CHILD_SUBREAPER), which
we are meanwhile. Mounts are looked at in a namespace of our own. A control group or a folder has no parent; it is somebody
else's if a task that is not ours is in it, or has the uid that it belongs to."""
import contextlib
import ctypes
import os
import re
from pathlib import Path

from helpers import USER_ID, all_pids, below, read_stat, wait_for

LEASED = 0x70000000  # root's sandboxes have a host uid above this
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")
PR_SET_CHILD_SUBREAPER, CLONE_NEWNS = 36, 0x20000
MS_REC, MS_PRIVATE, MS_SHARED = 1 << 14, 1 << 18, 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def _owner(path):
    try:
        return os.lstat(path).st_uid
    except FileNotFoundError:
        return None


def _members(group):
    """Who is in it, or in a group below: the one around all containers has nobody in itself."""
    inside = set(map(int, Path(group, "cgroup.procs").read_text().split()))
    for path, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            inside.update(map(int, Path(path, "cgroup.procs").read_text().split()))
    return inside


def groups():
    """The control groups of sandboxes in which nobody is but us."""
    ours, found = {os.getpid(), *below(os.getpid())}, set()
    for path, _, _ in os.walk("/sys/fs/cgroup"):
        name = os.path.basename(path)
        if not name.startswith("brig-"):
            continue
        try:
            inside = _members(path)
        except OSError:  # gone, or of threads alone
            continue
        if inside <= ours:
            found.add(path)
    return found


def folders():
    """The private folders of sandboxes, in all places for temporary files."""
    ours = {os.getpid(), *below(os.getpid())}
    others = {_owner(f"/proc/{pid}") for pid in all_pids() if pid not in ours}
    found = set()
    for path in (entry for top in PLACES for entry in Path(top).glob("*brig-*")):
        if not re.fullmatch(r"\.?brig-[0-9a-f]{24}", path.name):
            continue
        uid = _owner(path)
        if uid in (USER_ID, os.geteuid()) or (uid and uid >= LEASED and uid not in others):
            found.add(str(path))
    return found


def tasks():
    """What we started and what that started, whoever its parent is by now. Without the name, which changes at an exec."""
    return {f"process {pid}" for pid in below(os.getpid())}


def mounts():
    """Without the options: somebody else may change those of a file system that he has mounted, too."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    return {f"mount {number} of {root} on {place}" for number, _, _, root, place, *_ in map(str.split, lines)}


class Traces:
    """What there is before a test, to be compared with what there is afterwards. Only what stays counts."""

    def __init__(self, *looks):
        self.looks = looks or (groups, folders, tasks, mounts)
        self.before = self.look()

    def look(self):
        return set().union(*(look() for look in self.looks))

    def none_left(self, seconds=60):
        left = self.look() - self.before

        def gone():
            nonlocal left
            left &= self.look()
            return not left

        try:
            wait_for(gone, seconds)
        except AssertionError:
            raise AssertionError(f"left behind: {sorted(left)}, of {below(os.getpid())}") from None


def _call(name, *words):
    if getattr(_libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), name)


@contextlib.contextmanager
def _mounts_of_our_own():
    """A mount namespace in which nobody else mounts anything. It is shared, so that a sandbox which forgot to make its mounts
    private would be seen; as it is on most hosts."""
    if os.geteuid() != 0:  # nothing that an ordinary user does shows in the host's mounts
        yield
        return
    before, folder = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY), os.getcwd()
    try:
        _call("unshare", CLONE_NEWNS)
        _call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
        _call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SHARED), None)
        yield
    finally:
        _call("setns", before, CLONE_NEWNS)
        os.close(before)
        os.chdir(folder)


@contextlib.contextmanager
def alone():
    """Orphans of what is started meanwhile are ours, and mounts that are seen are nobody else's."""
    with _mounts_of_our_own():
        _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            yield
        finally:
            _call("prctl", PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            for pid in all_pids():
                stat = read_stat(pid)
                if stat and stat[1] == "Z" and stat[2] == os.getpid():
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
