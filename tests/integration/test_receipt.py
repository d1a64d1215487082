"""The receipt against what /proc and the cgroup files say while the sandbox runs."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from helpers import NO_CGROUP, PUBLIC, WATCHED, end, find_below, status_fields, wait_for

NAMESPACES = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]


class Seen:
    """What an observer outside sees of a sandbox that sits in `cat`."""

    def __init__(self, caller, *options):
        brig = caller.start("--json", "--timeout", "20m", *options, "--", "cat", stdin=subprocess.PIPE)
        try:
            code = find_below(brig.pid, "cat")
            self.status = status_fields(code)
            self.namespaces = {ns: os.readlink(f"/proc/{code}/ns/{ns}") for ns in NAMESPACES}
            self.uid_map = Path(f"/proc/{code}/uid_map").read_text().split()
            # It has its name before its libraries are loaded, each open for a moment; what must not be there stays.
            wait_for(lambda: self.look_at(code) == [0, 1, 2], what=f"descriptors 0 1 2 alone, not {self.look_at(code)},")
            self.descriptors = [0, 1, 2]
            self.mounts = Path(f"/proc/{code}/mountinfo").read_text().splitlines()
            self.limits = Path(f"/proc/{code}/limits").read_text()
            self.groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{code}/cgroup").read_text().splitlines())
            self.group_files = self.read_groups()
            self.told = json.loads(brig.communicate(b"")[0])
        finally:
            end(brig)
        self.receipt = self.told["receipt"]
        self.facts = self.receipt["boundaries"]

    @staticmethod
    def look_at(pid):
        return sorted(map(int, os.listdir(f"/proc/{pid}/fd")))

    def read_groups(self):
        """{file: value} of the sandbox's own groups, v1 or v2."""
        found = {}
        for mount in Path("/proc/mounts").read_text().splitlines():
            _, place, kind, options = mount.split()[:4]
            if not kind.startswith("cgroup"):
                continue
            keys = [key for key in self.groups if (key in options.split(",") if key else kind == "cgroup2")]
            for key in keys:
                folder = Path(place + self.groups[key])
                if folder.name.startswith("brig-"):
                    for name in ("memory.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes", "pids.max", "memory.max", "cpu.cfs_quota_us"):
                        if (folder / name).exists():
                            found[name] = (folder / name).read_text().strip()
        return found


def test_identity_and_privileges(caller, tier):
    seen = Seen(caller, "--tier", tier)
    kernel = seen.facts["kernel"]
    assert kernel["tier"] == seen.told["tier"] == tier
    assert set(seen.status["Uid"].split()) == {str(kernel["host_uid"])} and kernel["host_uid"] != 0
    if caller.name == "root":
        assert kernel["host_uid"] >= 0x70000000 and seen.status["Groups"] == ""
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(seen.status[name], 16) == kernel["capabilities"] == 0
    assert (seen.status["NoNewPrivs"] == "1") is kernel["no_new_privs"] is True
    assert seen.status["Seccomp"] == "2" and kernel["seccomp"] == "filter"
    assert " ".join(map(str, seen.descriptors)) == kernel["descriptors"] == "0 1 2"


def test_namespaces(caller, tier):
    seen = Seen(caller, "--tier", tier)
    own = {ns: os.readlink(f"/proc/self/ns/{ns}") for ns in NAMESPACES}
    private = [ns for ns in NAMESPACES if seen.namespaces[ns] != own[ns]]
    if tier == "process":
        assert private == [] and seen.facts["kernel"]["namespaces"] == "none"
        return
    assert private == NAMESPACES and seen.facts["kernel"]["namespaces"].split() == NAMESPACES
    assert seen.facts["kernel"]["uid_map"].split() == seen.uid_map


def test_mounts_of_the_container(caller):
    seen = Seen(caller)
    assert seen.facts["filesystem"]["mounts_checked"] == len(seen.mounts)
    for line in seen.mounts:
        place, options = line.split()[4:6]
        assert "nosuid" in options, line
        assert "nodev" in options or place.startswith("/dev"), line
        writable = place in ("/workspace", "/tmp", "/var/tmp", "/home/user", "/run", "/dev/shm", "/dev/pts", "/proc")
        assert writable or options.startswith("ro"), line
        assert "shared:" not in line and "master:" not in line, line


def test_limits_by_cgroup_or_by_rlimit(caller, tier):
    seen = Seen(caller, "--tier", tier, "-m", "100M", "--pids", "40", "--open-files", "99", *WATCHED)
    life = seen.facts["lifecycle"]
    assert "Max open files            99                   99" in seen.limits and life["open_files"].startswith("99 ")
    version = life["cgroup"]
    if caller.name == "root":
        assert version in ("v1", "v2"), "root has cgroups on this machine"
    if version == "none":
        assert seen.group_files == {} and "sampling" in life["memory"] and "RLIMIT_NPROC" in life["pids"]
        data = int(re.search(r"Max data size +(\d+)", seen.limits).group(1))
        assert 100 << 20 <= data <= 400 << 20  # the sampler ends the run; this stops what would outrun it
        return
    files = seen.group_files
    if version == "v1":  # a part of it is for the buffers of sockets
        assert int(files["memory.limit_in_bytes"]) + int(files["memory.kmem.tcp.limit_in_bytes"]) == 100 << 20
    else:
        assert files["memory.max"] == str(100 << 20)
    assert files["pids.max"] == "41"  # and init
    assert "by cgroup" in life["memory"] and "by cgroup" in life["pids"]


def test_without_cgroup_the_receipt_says_so(caller, tier):
    seen = Seen(caller, "--tier", tier, *NO_CGROUP)
    assert seen.facts["lifecycle"]["cgroup"] == "none" and seen.group_files == {}


def test_the_hash_is_that_of_the_policy(caller):
    policy = PUBLIC / "hash.yaml"
    policy.write_text("lifecycle: {memory: 77M, sampling: accept}\n")
    checked = subprocess.run([PUBLIC / "brig", "policy", "check", policy], capture_output=True, text=True)
    told = caller.json("--policy", policy, "--", "true")
    other = caller.json("-m", "78M", *WATCHED, "--", "true")
    assert told["receipt"]["policy_hash"] in checked.stdout
    assert told["receipt"]["policy_hash"] != other["receipt"]["policy_hash"]


def test_a_weaker_tier_is_told(caller):
    result = caller.run("--tier", "process", "--", "true")
    assert "level high asks for the container tier" in result.stderr
    tier, *limits = caller.json("--tier", "process", "--", "true")["receipt"]["weaker_than_level"]
    assert "container tier" in tier and len(limits) == 1 and "not held by the kernel" in limits[0], (tier, limits)


def test_limits_that_are_only_watched_are_told(caller):
    """With a cgroup there is nothing to tell; without one, a sentence and the receipt say of which limits, and why."""
    receipt = caller.json("--", "true")["receipt"]
    life, weaker = receipt["boundaries"]["lifecycle"], receipt["weaker_than_level"]
    if life["cgroup"] != "none":
        assert weaker == [] and not [name for name in life if name.endswith("_overrun")], receipt
        return
    assert len(weaker) == 1 and "memory" in weaker[0] and life["cgroup_missing"][:60] in weaker[0], weaker
    assert life["memory_overrun"] and weaker[0] in caller.run("--", "true").stderr
    assert caller.run("-q", "--", "true").stderr == ""


@pytest.mark.parametrize("level, tier", [("low", "process"), ("medium", "container"), ("high", "container")])
def test_the_level_decides_the_tier(caller, level, tier):
    folder = subprocess.check_output(caller.outside("mktemp", "-d", "/var/tmp/test-brig.XXXXXX"), text=True).strip()
    try:
        told = caller.json("--level", level, "--", "true", cwd=folder)
        assert (told["level"], told["tier"], told["exit_code"]) == (level, tier, 0)
    finally:
        os.rmdir(folder)
