"""K rows about set-up, where sandboxes have been broken most often: hostile roots, hooks that run early, steps that
fail, features that are missing."""

import errno
import hashlib
import json
import os
import re
import shutil
import time

import pytest

import hostview
from architecture import number, numbers
from escapelib import (FENCE, ALL, FULL, PLACE, REFUSED, TIERS, USER_ID, cached, cells, control, finish, outside, probes,
                       values)

# The steps of set-up that must not fail unnoticed. EPERM unless said otherwise.
STEPS = numbers("""
    write open openat openat2 mkdir mkdirat symlinkat mknodat mount umount2 pivot_root chroot open_tree move_mount
    fsopen fsconfig fsmount mount_setattr landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp prctl capset
    setresuid setresgid setgroups setuid setgid unshare clone3 clone prlimit64 setrlimit sethostname setdomainname close_range
    dup2 dup3 chdir fchdir execve execveat memfd_create fcntl pidfd_open pidfd_getfd socketpair pipe2 setsid ioctl bind sendmsg
    recvmsg fchmod fchown umask personality fchmodat fchownat read readlink readlinkat poll ppoll waitid
    epoll_create1 epoll_ctl epoll_pwait
    """.split(), only_x86_64=("open", "mkdir", "dup2", "readlink", "poll"))
EXECS = number("execve"), number("execveat")
# brig's own exec, and what its C library does first: it looks whether the standard streams are open, and cannot go on if that fails.
NOT_BRIGS_FIRST = number("execve"), STEPS.get("poll", STEPS["ppoll"])
# These apply a boundary: if one fails, nothing may run, whatever else still stands.
BOUNDARY = {"landlock_restrict_self", "pivot_root", "move_mount", "fsmount", "capset", "setresuid", "setresgid",
            "unshare", "execveat"}
# What differs from run to run, and what only says how the filter was written.
VOLATILE = ("receipt.started", "receipt.finished", "receipt.sandbox_id", "receipt.outputs.stdout", "receipt.usage", "receipt.states_usec",
            "receipt.verdict", "receipt.boundaries.kernel.seccomp_instructions", "receipt.boundaries.kernel.host_uid")
# A run that falls back and says so in its receipt did not do it in silence.
SAID = ("receipt.boundaries.lifecycle", "receipt.why_not_signed")
CLONE_NEWUSER = 0x10000000
# The steps at which a boundary is put up are always among them.
SAMPLE = 5000 if FULL else 75


def sha(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


@cells(ALL)
def test_K02_the_runtime_binary_stays_as_it_is(cell):
    """Entry points that lead to /proc/self/exe, and a writer that tries every visible program file."""
    copy = PLACE.folder("exe", "user") / "program"
    shutil.copy2(PLACE.attack, copy)
    if os.getuid() == 0:
        os.chown(copy, USER_ID, USER_ID)
    shown = probes(control("exewrite", copy, user="user")).get("exe", {})
    assert shown.get("held after end") == "OK", f"control: the old trick works outside: {shown}"
    folder = PLACE.folder("entry", cell.user)
    (folder / "link").symlink_to("/proc/self/exe")
    (folder / "script").write_text("#!/proc/self/exe\n")
    (folder / "script").chmod(0o755)
    before = sha(PLACE.brig)
    binary = os.stat(PLACE.brig)
    for command in (["/proc/self/exe"], [folder / "link"], [folder / "script"], ["/proc/1/exe"]):
        cell.run(command, ["--ro", folder, "--timeout", "200s"])
    for _ in range(5):
        inside = probes(cell.attack("exewrite")).get("exe", {})
        for name, outcome in inside.items():
            assert outcome != "OK" or f"ino {binary.st_ino}" not in name, f"writable: {name}"
            assert not (outcome == "ETXTBSY" and f"ino {binary.st_ino}" in name), f"only busy, not closed: {name}"
    assert sha(PLACE.brig) == before


def hostile_root(canary, links):
    root = PLACE.folder("root")
    (root / "bin").mkdir()
    shutil.copy2(PLACE.attack, root / "bin" / "attack")
    for name, target in links.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target == "file":
            path.write_text("not a device\n")
        elif target == "folder":
            path.mkdir()
        else:
            path.symlink_to(target)
    return root


def tree(folder):
    return {str(p): (p.lstat().st_mode, p.lstat().st_mtime_ns, p.lstat().st_uid) for p in [folder, *folder.rglob("*")]}


@cells(TIERS)
def test_K03_substituted_devices(cell):
    """A root whose /dev/null and friends are links, files or folders must not undo any mask."""
    canary = PLACE.folder("canary")
    (canary / "file").write_text("canary")
    core = hostview.read("/proc/sys/kernel/core_pattern")
    for kind in ("/proc/sys/kernel/core_pattern", str(canary / "file"), "file", "folder"):
        names = ("dev/null", "dev/zero", "dev/full", "dev/random", "dev/tty", "dev/ptmx")
        root = hostile_root(canary, {n: kind for n in names})
        before = tree(canary)
        result = cell.run(["/bin/attack", "controls"], ["--root", root])
        if result.rc != REFUSED:
            assert "WRITABLE" not in result.json["stdout"], result.json["stdout"]
        assert tree(canary) == before
    assert hostview.read("/proc/sys/kernel/core_pattern") == core


@cells(TIERS)
def test_K04_links_in_the_root(cell):
    """Set-up must not follow links that the root brought, out of the sandbox."""
    canary = PLACE.folder("canary", cell.user, mode=0o777)
    for name in ("dev", "etc", "tmp", "workspace", "home", "srv", "var"):
        (canary / name).mkdir()
    (canary / "etc" / "hosts").write_text("canary")
    naive = hostile_root(canary, {"tmp": str(canary / "tmp")})
    (naive / "tmp" / "made").mkdir()
    assert (canary / "tmp" / "made").is_dir(), "control: a careless set-up writes through the link"
    (canary / "tmp" / "made").rmdir()
    climb = "../" * 12
    for style in ("{0}", climb + "{0}"):
        for names in (["dev"], ["etc"], ["tmp"], ["workspace"], ["var", "home"], ["srv"], ["proc"]):
            links = {n: style.format(str(canary / n)).replace("//", "/") for n in names if n != "proc"}
            if names == ["proc"]:
                links = {"proc": str(canary), "etc/hosts": str(canary / "etc" / "hosts"),
                         "etc/resolv.conf": str(canary / "etc" / "new")}
            root = hostile_root(canary, links)
            before = tree(canary)
            result = cell.run(["/bin/attack", "die", "0"], ["--root", root])
            assert result.rc in (0, REFUSED, 126, 127), (names, result)
            assert tree(canary) == before, f"{names}: the host was changed through a link"


@cells(TIERS)
def test_K25_restrictions_hold_at_the_first_instruction(cell):
    """A preloaded library and an interpreter hook run before main: everything must be in force already."""
    loud = outside("/bin/true", env={"LD_PRELOAD": str(PLACE.attacks / "preload.so"), "PATH": "/usr/bin"}).out
    assert "seccomp=0 no_new_privs=0" in loud, "control: the hook runs outside, unrestricted"
    result = cell.run(["/usr/bin/env", "true"], ["-e", f"LD_PRELOAD={PLACE.attacks}/preload.so"])
    lines = [x for x in (result.json["stdout"] if result.rc != REFUSED else "").splitlines() if "startup" in x]
    assert result.rc == REFUSED or lines, result
    for line in lines:
        assert "seccomp=2 no_new_privs=1" in line, f"hook ran before the restrictions: {line}"
        assert cell.host_uid != 0 or cell.container or "uid=0" not in line, line
    hook = PLACE.folder("site")
    (hook / "sitecustomize.py").write_text(
        "import ctypes; c=ctypes.CDLL(None)\nprint('startup\\tseccomp=%d no_new_privs=%d' % (c.prctl(21,0,0,0,0), c.prctl(39,0,0,0,0)))\n")
    result = cell.run(["/usr/bin/python3", "-c", "pass"], ["--ro", hook, "-e", f"PYTHONPATH={hook}"])
    assert "seccomp=2 no_new_privs=1" in result.json["stdout"], result
    # A hook in brig's own environment must not come along.
    result = cell.run(["/usr/bin/env"], env={"PYTHONPATH": str(hook), "BASH_ENV": "/x", "LD_LIBRARY_PATH": "/x"})
    for name in ("PYTHONPATH", "BASH_ENV", "LD_LIBRARY_PATH"):
        assert name not in result.json["stdout"]


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


class Payload:
    """Runs a workload that leaves a mark, and tells whether it ran and how well it was held."""

    def __init__(self, cell):
        self.cell = cell
        self.folder = PLACE.folder("ran", cell.user, mode=0o777)
        self.canary = self.folder / "canary"
        self.command = [PLACE.attack, "batch", "touch", self.canary, "--", "posture"]
        self.options = ["--rw", self.folder, "--timeout", "200s"]
        first, second = self.run()[1], self.run()[1]
        self.golden = {k: v for k, v in first.items() if second.get(k) == v and not k.startswith(VOLATILE)}

    def run(self, wrapper=()):
        """(ran, posture and receipt, result)"""
        if self.canary.exists():
            self.canary.unlink()
        result = self.cell.run(self.command, self.options, wrapper=wrapper)
        ran, view = self.canary.exists(), {}
        try:
            answer = json.loads(result.out)
            view = {f"posture.{k}": v for k, v in values(answer["stdout"]).items() if k != "pid"}
            ran = ran or bool(view)
            receipt = answer.get("receipt", {})
            view.update(leaves(receipt, "receipt"))
        except (ValueError, KeyError):
            pass
        return ran, view, result

    def weaker(self, view):
        """What is not as usual. Lines of output that were lost say nothing about the posture."""
        return {k: (v, view.get(k)) for k, v in self.golden.items()
                if view.get(k) != v and (k in view or not k.startswith("posture"))}


def ended_for(result):
    """Why brig ended the run, as it says itself."""
    try:
        answer = json.loads(result.out)
    except ValueError:
        return None
    return answer.get("ended_because") or answer.get("limit_hit")


def setup_calls(payload):
    """[(name, occurrence)] of the calls made before the workload's first instruction."""
    log = PLACE.folder("log", "user", mode=0o777) / "calls"
    payload.run(wrapper=[PLACE.tool("tracer"), "log", log, "--"])
    names = {nr: name for name, nr in STEPS.items()}
    counts, out, started = {}, [], False
    for line in hostview.read(log).splitlines():
        fields = line.split("\t")
        if len(fields) < 8:
            continue
        nr = int(fields[2])
        if nr in EXECS and fields[7].strip().startswith(PLACE.attack):
            break
        counts[nr] = counts.get(nr, 0) + 1
        started = started or nr == number("execve")
        if nr in names and (nr not in NOT_BRIGS_FIRST or counts[nr] > 1) and started:
            out.append((names[nr], counts[nr]))
    return out


@cells(TIERS)
def test_K26_a_failing_step_stops_the_start(cell):
    """Each step of set-up fails in turn: exit 125, nothing run, nothing left; or what runs is held just as well."""
    payload = Payload(cell)
    assert payload.canary.exists(), "control: the payload runs when nothing fails"
    steps = setup_calls(payload)
    assert len(steps) > 20, f"the tracer saw only {len(steps)} steps"
    stride = max(1, len(steps) // SAMPLE + (len(steps) % SAMPLE > 0))
    must = [s for s in steps if s[0] in BOUNDARY]
    first = TIERS.index(cell) * stride // len(TIERS)  # a sample of its own on each tier
    chosen = sorted(set(steps[first::stride]) | set(must), key=steps.index)
    snapshot = hostview.Snapshot(FENCE, PLACE.base)
    problems, hits = [], 0
    for name, nth in chosen:
        start = time.monotonic()
        error = -13 if name.startswith("open") else -1
        wrapper = [PLACE.tool("tracer"), "fail", str(STEPS[name]), str(nth), str(error), "--"]
        try:
            ran, view, result = payload.run(wrapper)
        except AssertionError as hang:
            problems.append(f"{name}#{nth}: {str(hang)[:80]}")
            continue
        hits += result.rc != 99
        if ran and result.rc != 99:
            weaker = {k: v for k, v in payload.weaker(view).items() if not k.startswith(SAID)}
            if weaker:
                problems.append(f"{name}#{nth}: ran weaker (exit {result.rc}): {dict(list(weaker.items())[:4])}")
            elif name in BOUNDARY:
                problems.append(f"{name}#{nth}: a boundary step failed and the workload ran")
        elif not ran and PLACE.sanitized and result.rc == 127 and "while loading shared libraries" in result.err:
            pass  # the dynamic loader of that build, before brig's first instruction
        elif not ran and result.rc == 137 and ended_for(result):
            pass  # it had been started; a part failed before the code's first step, and the run was ended for it
        elif not ran and result.rc not in (REFUSED, 99):
            problems.append(f"{name}#{nth}: nothing ran, but exit {result.rc}: {result.err[-200:]!r}")
        elif not ran and result.rc == REFUSED and not result.err.strip() and not result.out.strip():
            problems.append(f"{name}#{nth}: refused without a word")
        if time.monotonic() - start > hostview.SOON:
            problems.append(f"{name}#{nth}: took {time.monotonic() - start:.0f} s to fail")
        left = snapshot.leftovers()
        if left:
            problems.append(f"{name}#{nth}: left behind {left}")
            snapshot = hostview.Snapshot(FENCE, PLACE.base)
    assert hits > len(chosen) // 2, f"only {hits} of {len(chosen)} injections hit"
    assert not problems, f"{len(problems)} of {len(chosen)}:\n" + "\n".join(problems)


def answers(error, *names, first_argument=None):
    """Rules for `without`: these calls fail so, or only if their first argument has one of these bits."""
    return [f"{number(name)}:{error}" + (f":{first_argument:#x}" if first_argument else "") for name in names]


MISSING = {
    # name: (filter rules, tiers that need it, what the message must mention)
    "landlock off": (answers(errno.EOPNOTSUPP, "landlock_create_ruleset"), {"process", "container"}, "(?i)landlock"),
    "landlock not built": (answers(errno.ENOSYS, "landlock_create_ruleset"), {"process", "container"}, "(?i)landlock"),
    "user namespaces": (answers(errno.ENOSYS, "clone3") + answers(errno.EPERM, "clone", "unshare", first_argument=CLONE_NEWUSER),
                        {"container"}, "(?i)namespace"),
    "seccomp": (answers(errno.EINVAL, "seccomp"), {"process", "container"}, "(?i)seccomp"),
    "new mount API": (answers(errno.ENOSYS, "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "mount_setattr"),
                      {"container"}, "(?i)mount"),
    "openat2": (answers(errno.ENOSYS, "openat2"), set(), ""),
    "pidfd_open": (answers(errno.ENOSYS, "pidfd_open"), set(), ""),
    "close_range": (answers(errno.ENOSYS, "close_range"), set(), ""),
    "memfd_create": (answers(errno.ENOSYS, "memfd_create"), set(), ""),
}


@pytest.mark.parametrize("feature", MISSING)
@cells(TIERS)
def test_K27_a_missing_feature_is_a_refusal(cell, feature):
    """The kernel lacks something: refused with the reason, never run with less in silence."""
    rules, needed, words = MISSING[feature]
    payload = cached(("payload", cell), lambda: Payload(cell))
    ran, view, result = payload.run(wrapper=[PLACE.tool("without"), *rules, "--"])
    if cell.tier in needed and not (feature == "user namespaces" and cell.user == "root"):
        assert not ran and result.rc == REFUSED, f"ran without {feature}: exit {result.rc}"
        assert re.search(words, result.err + result.out), f"the message does not say why: {result.err!r}"
    elif ran:
        weaker = {k: v for k, v in payload.weaker(view).items() if k.startswith("posture")}
        assert not weaker, f"ran weaker without {feature}: {weaker}"
    else:
        assert result.rc == REFUSED and result.err.strip(), result


@cells(TIERS)
def test_K27_an_old_landlock_is_visible(cell):
    """ABI 1 instead of the host's: refused, or the receipt says what was achieved."""
    payload = cached(("payload", cell), lambda: Payload(cell))
    found = [n for name, n in setup_calls(payload) if name == "landlock_create_ruleset"]
    if not found:
        pytest.skip("the tracer saw no Landlock probe")
    ran, view, result = payload.run(wrapper=[PLACE.tool("tracer"), "fail", str(number("landlock_create_ruleset")), "0", "1", "--"])
    assert not ran and result.rc == REFUSED or ran and payload.weaker(view), \
        "an old Landlock went unnoticed: same receipt as with the new one"


@cells(TIERS)
def test_K27_weaker_on_request_is_said(cell):
    """The operator may switch Landlock off for the container; receipt and stderr then say so."""
    policy = PLACE.folder("policy") / "weak.json"
    policy.write_text('{"filesystem": {"landlock": "off"}}')
    payload = cached(("payload", cell), lambda: Payload(cell))
    process = cell.start(payload.command, [*payload.options, "--policy", policy])
    result = finish(process)
    if result.rc == REFUSED:
        assert not cell.container, f"the operator's word is refused: {result.err}"
        return
    view = dict(leaves(result.json["receipt"], "receipt"))
    differs = {k for k, v in payload.golden.items() if k.startswith("receipt") and view.get(k) != v}
    still_held = view.get("receipt.boundaries.filesystem.landlock_probe_denied") is True
    assert still_held or any("landlock" in k.lower() for k in differs) or "landlock" in result.err.lower(), differs
