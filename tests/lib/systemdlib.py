"""A service manager of one's own: systemd as it runs for a user, on a node that has its own /run, in a group of its own. Nothing of the host's manager, if there is one, is touched."""
import contextlib
import os
from pathlib import Path

from helpers import wait_for
from nodeslib import Node

SYSTEMD = Path("/usr/lib/systemd/systemd")
GROUPS = Path("/sys/fs/cgroup")
# What is mounted in the place of the host's hierarchies: the one of cgroup v2 alone.
UNIFIED = "umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup"
# The group that its manager takes for the root of all.
BEGIN = """group=$1; run=$2; shift 2
for place in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
  [ -e "$place/cgroup.procs" ] && mkdir -p "$place/$group" && chown -R "$BRIG_UID" "$place/$group" && echo $$ >"$place/$group/cgroup.procs"
done
exec "$@"
"""


def hierarchies():
    """Of the host: where the folders of groups are."""
    return [place for place in (GROUPS, *GROUPS.iterdir()) if (place / "cgroup.procs").exists()]


class Manager:
    """`unified`: on cgroup v2, also where the host has v1."""

    def __init__(self, folder, caller, unified):
        self.caller, self.group = caller, f"manager-test-{os.getpid()}-{caller.name}-{'v2' if unified else 'own'}"
        self.node = Node(folder, "led", "10.99.0.9", own_etc=False).start()
        self.run = Path("/run/user", str(caller.uid))
        units = self.run / "units"  # none of the host's
        prepare = f"mkdir -p /run/systemd/system {self.run}/systemd {units} && printf '[Unit]\\nDescription=nothing\\n' >{units}/default.target && chown -R {caller.uid} {self.run} && ln -s {self.run}/systemd/private /run/systemd/private"
        told = self.node("sh", "-ec", prepare + (f" && {UNIFIED}" if unified else ""))
        assert told.returncode == 0, told.stderr
        self.env = {"XDG_RUNTIME_DIR": str(self.run), "HOME": str(self.run), "SYSTEMD_UNIT_PATH": str(units), "BRIG_UID": str(caller.uid)}
        self.daemon = self.node.daemon("sh", "-ec", BEGIN, "sh", self.group, str(self.run), *caller.outside(str(SYSTEMD), "--user", "--log-target=console"), env=self.env)
        wait_for(lambda: self.daemon.poll() is not None or self.call("systemctl", "--user", "is-active", "default.target").stdout == "active\n", what="systemd")
        assert self.daemon.poll() is None, self.node.log("sh")

    def command(self, *args):
        """One of its caller's, on its node and in its group, as a shell of that user's."""
        return ["env", *(f"{key}={value}" for key, value in self.env.items()),
                *self.node.inside("sh", "-ec", BEGIN, "sh", f"{self.group}/shell", str(self.run), *self.caller.outside(*args))]

    def call(self, *args):
        return self.node(*self.caller.outside("env", *(f"{key}={value}" for key, value in self.env.items()), *map(str, args)))

    def units(self, kind="scope"):
        told = self.call("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", f"--type={kind}")
        assert told.returncode == 0, told.stderr
        return sorted(line.split()[0] for line in told.stdout.splitlines())

    def stop(self):
        self.node.stop()
        wait_for(lambda: not self.groups(), what="the end of all that was in its groups")

    def groups(self):
        """What is left of them."""
        for place in hierarchies():
            for path, _, _ in sorted(os.walk(place / self.group), reverse=True):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        return [place for place in hierarchies() if (place / self.group).exists()]
