"""What the runtime specification asks of a runtime, clause by clause: version 1.2.0 of runtime.md, config.md and config-linux.md.

Each clause has an id of its own (the document, the member, and where there are several a word of ours), how strongly it is meant,
and what it asks for in our words. `otherwise` says what brig does in its place, and why: such a clause is left out on purpose. Each
has tests with `@clause(ID)`, one that is left out those that show what is done instead. tests/integration/test_oci_clauses.py looks
that none is forgotten, and tools/gen-oci-conformance writes docs/oci-conformance.md from here."""
import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
VERSION = "1.2.0"


@dataclass(frozen=True)
class Clause:
    strength: str
    asks: str
    otherwise: str = ""


def must(asks, otherwise=""):
    return Clause("MUST", asks, otherwise)


def should(asks, otherwise=""):
    return Clause("SHOULD", asks, otherwise)


def may(asks, otherwise=""):
    return Clause("MAY", asks, otherwise)


LOST = "refused by name: it may protect something, and would be lost without a word (OC-1)"

RUNTIME = {
    "runtime.scope": must("who created a container can use every operation on it"),
    "runtime.operations": must("state, create, start, kill and delete are there"),
    "runtime.state.ociVersion": must("the state names the version of the specification"),
    "runtime.state.id": must("the state has the id, which no other container has"),
    "runtime.state.status.creating": must("`creating` while it is being made, as hooks see it"),
    "runtime.state.status.created": must("`created` once it is made and its program has not been executed"),
    "runtime.state.status.running": must("`running` once its program was executed"),
    "runtime.state.status.stopped": must("`stopped` once its process is gone, however it went"),
    "runtime.state.status.additional": must("a further status means a state that has no other name: `paused`"),
    "runtime.state.pid": must("the process id as the host counts, while it is created or running"),
    "runtime.state.bundle": must("the bundle as an absolute path"),
    "runtime.state.annotations": must("the annotations, or none"),
    "runtime.lifecycle.environment": must("create makes what config.json asks for"),
    "runtime.lifecycle.environment.fails": must("what cannot be made is an error"),
    "runtime.lifecycle.config.kept": must("config.json can change after create without effect"),
    "runtime.lifecycle.prestart": must("prestart hooks are run, and one that fails is an error that undoes the container"),
    "runtime.lifecycle.createRuntime": must("createRuntime hooks are run, and one that fails is an error that undoes the container"),
    "runtime.lifecycle.createContainer": must("createContainer hooks are run", "refused: a program of the host would run in a half-built sandbox"),
    "runtime.lifecycle.startContainer": must("startContainer hooks are run", "refused: the first process becomes the container's program and starts no other one before; let that program do it"),
    "runtime.lifecycle.failed.poststop": must("a container that a hook stopped goes on to deletion and the poststop hooks"),
    "runtime.lifecycle.poststart": must("poststart hooks are run"),
    "runtime.lifecycle.poststart.fails": must("one that fails is a warning in the log; the remaining ones are run, and the container runs on"),
    "runtime.lifecycle.destroy": must("delete undoes what create made"),
    "runtime.lifecycle.poststop": must("poststop hooks are run"),
    "runtime.lifecycle.poststop.fails": must("one that fails is a warning in the log; the remaining ones are run, and the container is gone"),
    "runtime.errors": must("an operation that fails leaves everything as it was"),
    "runtime.warnings": must("a warning changes nothing of what the operation does"),
    "runtime.query.no-id": must("state without an id is an error"),
    "runtime.query.missing": must("state of a container that is not there is an error"),
    "runtime.query.returns": must("state returns the state"),
    "runtime.create.arguments": must("create without an id, or without a bundle where it looks for one, is an error"),
    "runtime.create.id.taken": must("an id that is taken is an error, and no container is made"),
    "runtime.create.id.invalid": must("an id that cannot be one is an error, and no container is made"),
    "runtime.create.properties": must("every property but the program is applied by create"),
    "runtime.create.program": must("the program is not run by create"),
    "runtime.start.no-id": must("start without an id is an error"),
    "runtime.start.missing": must("start of a container that is not there is an error"),
    "runtime.start.not-created": must("start of one that is not `created` has no effect and is an error"),
    "runtime.start.program": must("start runs the program, as process says"),
    "runtime.start.no-process": must("start of a container without process is an error, create of one is none",
                                     "create refuses it: the process that waits for start is the container's first one, and has ids, rights and a folder from `process`"),
    "runtime.kill.no-id": must("kill without an id is an error"),
    "runtime.kill.not-running": must("kill of one that is neither created nor running has no effect and is an error"),
    "runtime.kill.signal": must("kill sends the signal that is named to the container's process"),
    "runtime.delete.no-id": must("delete without an id is an error"),
    "runtime.delete.missing": must("delete of a container that is not there is an error"),
    "runtime.delete.not-stopped": must("delete of one that is not stopped has no effect and is an error"),
    "runtime.delete.resources": must("delete removes what create made"),
    "runtime.delete.others": must("delete leaves what create did not make"),
    "runtime.delete.id.again": may("the id is free again"),
}

CONFIG = {
    "config.ociVersion": must("the version has the form of SemVer 2.0.0"),
    "config.ociVersion.newer": must("a version that the runtime does not know is an error"),
    "config.root": must("there is a root, and a folder at its path"),
    "config.root.path.relative": must("a relative path counts from the bundle"),
    "config.root.path.absolute": must("an absolute path is taken as it is"),
    "config.root.readonly": must("a read-only root cannot be written, another one can"),
    "config.mounts.order": must("mounts are made in their order"),
    "config.mounts.destination": should("the destination is an absolute path inside"),
    "config.mounts.destination.relative": must("a relative destination counts from the root"),
    "config.mounts.source.bind": must("the source of a bind is absolute, or counts from the bundle; it may be a file or a folder"),
    "config.mounts.type": may("file systems that the kernel has",
                              "bind, tmpfs, proc, sysfs, devpts, mqueue and cgroup, each in its place: others would have the host's kernel read what somebody inside wrote (OC-4)"),
    "config.mounts.type.bind": must("with `bind` or `rbind` the type says nothing"),
    "config.mounts.options.access": must("ro, rw, exec, noexec"),
    "config.mounts.options.recursive": should("rro, rrw, rexec, rnoexec and their like, for all below"),
    "config.mounts.options.recursive.ro": should("`ro` of a recursive bind is for the mount at the top",
                                                 "all below it is read-only, and noexec, as well: what nobody thought of is not left open"),
    "config.mounts.options.nosymfollow": should("nosymfollow and symfollow"),
    "config.mounts.options.times": must("those of times of files, of writing at once, of versions and of silence are taken"),
    "config.mounts.options.rights": must("suid, nosuid, dev, nodev", "all mounts are nosuid and nodev, whatever is said"),
    "config.mounts.options.private": must("private, rprivate, unbindable, runbindable: a bind is none of the host's peers"),
    "config.mounts.options.propagation": must("shared, slave and the recursive forms", "refused: mounts of a sandbox are private (OC-4)"),
    "config.mounts.options.remount": must("remount", "refused: what is mounted by brig keeps its flags; say them where it is mounted (OC-4)"),
    "config.mounts.options.data": should("an option that is not known goes to the file system",
                                         "refused: only size, mode, nr_inodes, nr_blocks, uid, gid of tmpfs and those of devpts go there (OC-4)"),
    "config.mounts.options.idmap": should("idmap and ridmap, uidMappings and gidMappings of a mount",
                                          "refused: give the container maps of its own, and the engine a root that fits them"),
    "config.mounts.options.tmpcopyup": may("the contents below a tmpfs are copied into it", "an empty folder; one with contents is refused"),
    "config.process.terminal": must("with `terminal` it has a terminal of its own as its streams"),
    "config.process.consoleSize": must("the terminal has that size"),
    "config.process.consoleSize.ignored": must("without a terminal the size says nothing"),
    "config.process.cwd": must("it begins in that folder"),
    "config.process.cwd.absolute": must("a relative working folder is an error"),
    "config.process.env": must("it has those variables and no others"),
    "config.process.args": must("the arguments are those, the first one as execvp(3) takes its file: a path, or looked for in PATH"),
    "config.process.args.none": must("without any argument it is an error"),
    "config.process.rlimits": must("soft and hard limit are those that were named"),
    "config.process.rlimits.core": must("RLIMIT_CORE as well", "one byte: a crash inside starts no program of the host (OC-12)"),
    "config.process.rlimits.unknown": must("an unknown type is an error"),
    "config.process.rlimits.twice": must("a type that is named twice is an error"),
    "config.process.capabilities": must("each of the five sets is what was named"),
    "config.process.capabilities.unknown": must("a name that is not known is a warning", "an error: a slip of the pen is told to who made it"),
    "config.process.capabilities.withheld": should("what cannot be granted is a warning, and no failure",
                                                   "an error that names it, the list and the operator's key (OC-2); SETFCAP, where it would reach files of the host, is withheld with a warning in the engine's log (OC-13)"),
    "config.process.noNewPrivileges": must("with `noNewPrivileges` nothing gains rights by an execution"),
    "config.process.noNewPrivileges.false": may("without it programs may gain rights", "it is always set: set-id programs run as who started them (OC-9)"),
    "config.process.oomScoreAdj": must("the score is the one that was named"),
    "config.process.oomScoreAdj.unset": must("without one the caller's stays"),
    "config.process.oomScoreAdj.least": must("-1000 as well", "refused below -999: the sandbox's memory must be among what can be taken back"),
    "config.process.apparmorProfile": may("an AppArmor profile", LOST),
    "config.process.selinuxLabel": may("an SELinux label", LOST),
    "config.process.scheduler": may("a scheduling policy", LOST),
    "config.process.ioPriority": may("a priority of input and output", LOST),
    "config.process.user": must("uid and gid are those of the container's user namespace"),
    "config.process.user.additionalGids": must("it is in those groups besides"),
    "config.process.user.umask": must("the mask is the one that was named"),
    "config.process.user.umask.unset": should("without one the caller's mask stays",
                                              "022 for the first process, as other runtimes have it: what an engine's daemon has says nothing about its containers"),
    "config.hostname": must("it sees that host name"),
    "config.hostname.joined": may("the name of a joined uts namespace", "stays what its owner, the pod, gave it"),
    "config.domainname": must("it sees that domain name"),
    "config.platform": must("what belongs to another platform is an error"),
    "config.hooks.allowed": may("any program of the host can be a hook", "only those that the node's operator names (OC-5)"),
    "config.hooks.order": must("hooks of a kind are run in their order"),
    "config.hooks.state": must("each finds the container's state on its stdin"),
    "config.hooks.path": must("a path that is not absolute is an error"),
    "config.hooks.args": must("it has those arguments"),
    "config.hooks.env": must("it has those variables", "`PATH` alone, of the host's own folders: others make another program of the one that was allowed (OC-5)"),
    "config.hooks.timeout": must("it is ended after that many seconds"),
    "config.hooks.timeout.zero": must("a timeout that is not above zero is an error"),
    "config.hooks.timeout.most": may("a hook may take as long as it likes", "at most 30 seconds, so that a hook that hangs does not hang the engine"),
    "config.hooks.prestart": must("prestart hooks are run by create, in the namespaces of the runtime, before those of createRuntime"),
    "config.hooks.createRuntime": must("createRuntime hooks are run by create, in the namespaces of the runtime, once there are the container's"),
    "config.hooks.createRuntime.pivot": must("and before its root is in place"),
    "config.hooks.createContainer": must("createContainer hooks are run in the container's namespaces", "see runtime.lifecycle.createContainer"),
    "config.hooks.startContainer": must("startContainer hooks are run in the container's namespaces", "see runtime.lifecycle.startContainer"),
    "config.hooks.poststart": must("poststart hooks are run after the program was executed and before start returns"),
    "config.hooks.poststop": must("poststop hooks are run after the container was deleted and before delete returns"),
    "config.annotations": must("a map of strings by keys that are not empty; anything else is an error"),
    "config.annotations.unknown": must("unknown keys change nothing", "so it is, but for those that begin with `brig.`: an order to brig that is not understood is refused (OC-10)"),
    "config.extensibility": must("unknown members are no error and change nothing"),
    "config.valid-values": must("a value that is not valid, or not supported, is an error"),
}

LINUX = {
    "config-linux.filesystems": should("/proc, /sys, /dev/pts and /dev/shm are there", "they are what `mounts` says, as with other runtimes; `brig oci spec` writes all of them"),
    "config-linux.namespaces.pid": should("a pid namespace of its own"),
    "config-linux.namespaces.network": should("a network namespace of its own"),
    "config-linux.namespaces.mount": should("a mount namespace of its own"),
    "config-linux.namespaces.ipc": should("an ipc namespace of its own"),
    "config-linux.namespaces.uts": should("a uts namespace of its own"),
    "config-linux.namespaces.user": should("a user namespace of its own"),
    "config-linux.namespaces.cgroup": should("a cgroup namespace of its own"),
    "config-linux.namespaces.time": should("a time namespace of its own", "refused: an offset of the clock is none of the walls"),
    "config-linux.namespaces.path": must("the process is in the namespace that the path leads to"),
    "config-linux.namespaces.path.absolute": must("a path that is not absolute is an error"),
    "config-linux.namespaces.path.type": must("a path to a namespace of another type, or to none, is an error"),
    "config-linux.namespaces.path.kinds": must("every type can be joined by path",
                                               "network, ipc and uts, and pid where the operator says so; never the host's, and never a mount, user or cgroup namespace (OC-3)"),
    "config-linux.namespaces.left-out": must("a type that is not listed is the runtime's", "pid, network, ipc, uts: refused; mount, user, cgroup: a new one (OC-3)"),
    "config-linux.namespaces.twice": must("a type that is listed twice is an error"),
    "config-linux.uidMappings": must("uids inside are those of the host by the map"),
    "config-linux.gidMappings": must("gids inside are those of the host by the map"),
    "config-linux.mappings.ownership": should("owners of files are not changed for the sake of a map"),
    "config-linux.timeOffsets": may("offsets of a time namespace", LOST),
    "config-linux.devices": must("listed devices are there", "null, zero, full, random, urandom and tty are, listed or not; every other one is refused"),
    "config-linux.devices.existing": must("a file at that path that is not the device is an error", "the device comes to stand over it: a mount changes nothing of the image"),
    "config-linux.devices.mode": may("mode and owner of a device", "the host's own nodes, mode 0666; another mode is refused (OC-14)"),
    "config-linux.devices.default": must("null, zero, full, random, urandom and tty are there"),
    "config-linux.devices.console": must("/dev/console is the terminal, where there is one"),
    "config-linux.devices.ptmx": must("/dev/ptmx leads to the container's own"),
    "config-linux.cgroups.fit": must("a group that is not fit, such as one that somebody is in, is an error"),
    "config-linux.cgroups.ownership": should("groups keep their owner"),
    "config-linux.cgroupsPath.absolute": must("an absolute path counts from where the hierarchy is mounted"),
    "config-linux.cgroupsPath.relative": may("a relative one counts from a place of the runtime's"),
    "config-linux.cgroupsPath.same": must("the same path leads to the same place each time"),
    "config-linux.cgroupsPath.invalid": must("a path that is none is an error"),
    "config-linux.resources.devices": must("rules about devices are applied in their order",
                                           "v1: the six devices and terminals, whatever is written; v2: there is no other node and none can be made; a rule that allows more is refused"),
    "config-linux.resources.memory.limit": may("the limit of memory"),
    "config-linux.resources.memory.reservation": may("the soft limit"),
    "config-linux.resources.memory.swap": may("the limit of memory and swap together"),
    "config-linux.resources.memory.kernel": may("limits of the kernel's own memory, swappiness", LOST),
    "config-linux.resources.memory.disableOOMKiller": may("no process is killed for the limit", "refused: the sandbox would hang where it should end"),
    "config-linux.resources.memory.useHierarchy": may("groups below share the limit: taken; kernels do so in any case"),
    "config-linux.resources.memory.checkBeforeUpdate": must("a limit below what is used is an error"),
    "config-linux.resources.cpu.shares": may("the share of processors"),
    "config-linux.resources.cpu.quota": may("quota and period"),
    "config-linux.resources.cpu.cpus": may("the list of processors and of memory nodes"),
    "config-linux.resources.cpu.others": may("burst, idle, realtime", LOST),
    "config-linux.resources.pids": may("the number of processes"),
    "config-linux.resources.blockIO": may("weights and rates of block devices", LOST),
    "config-linux.resources.hugepageLimits": may("limits of huge pages", LOST),
    "config-linux.resources.network": may("classes and priorities of packets", LOST),
    "config-linux.resources.rdma": may("limits of RDMA", LOST),
    "config-linux.resources.unified": must("each value is written to its file, and its controller is switched on"),
    "config-linux.resources.unified.missing": must("a controller that is not there, or a host without cgroup v2, is an error"),
    "config-linux.resources.unified.unknown": must("a key that the runtime does not know is written as well",
                                                   "refused: by its name nobody can tell whether it limits or frees (OC-6)"),
    "config-linux.intelRdt": must("the process is put into a class of resctrl", LOST),
    "config-linux.intelRdt.unset": must("without it resctrl is not touched"),
    "config-linux.sysctl": may("settings of the container's namespaces"),
    "config-linux.sysctl.host": may("settings of the host", "refused: `net.*`, `fs.mqueue.*`, `kernel.shm*`, `kernel.msg*`, `kernel.sem` and `kernel.domainname` are a sandbox's own"),
    "config-linux.seccomp.defaultAction": must("what no rule is about has the default's answer"),
    "config-linux.seccomp.defaultErrnoRet": must("the default's errno, EPERM without one"),
    "config-linux.seccomp.errnoRet": must("the rule's errno, EPERM without one"),
    "config-linux.seccomp.errnoRet.wrong": must("an errno for an action that has none is an error"),
    "config-linux.seccomp.names": must("a rule without a system call is an error"),
    "config-linux.seccomp.action": must("ALLOW, LOG, ERRNO, TRAP, KILL, KILL_THREAD, KILL_PROCESS answer as they say"),
    "config-linux.seccomp.action.others": may("TRACE, NOTIFY and its listener", "refused: no other process decides about calls (OC-1)"),
    "config-linux.seccomp.args": must("the seven comparisons of an argument"),
    "config-linux.seccomp.args.twice": may("two conditions on one argument", "refused: whether both or one of them is meant cannot be told"),
    "config-linux.seccomp.order": may("rules as libseccomp orders them", "the first one that fits decides"),
    "config-linux.seccomp.architectures": may("the known ones are taken, another name is an error"),
    "config-linux.seccomp.flags": may("flags of the filter", "TSYNC, which is in force, and LOG; others are refused"),
    "config-linux.rootfsPropagation": may("private and unbindable"),
    "config-linux.rootfsPropagation.others": may("shared, slave", "shared is refused; slave is private, so that nothing that the host mounts later comes in"),
    "config-linux.maskedPaths": may("what lies there cannot be read"),
    "config-linux.maskedPaths.absolute": must("a path that is not absolute is an error"),
    "config-linux.readonlyPaths": may("what lies there cannot be written"),
    "config-linux.readonlyPaths.absolute": must("a path that is not absolute is an error"),
    "config-linux.mountLabel": may("the SELinux context of mounts", LOST),
    "config-linux.personality": may("an execution domain", LOST),
}

CLAUSES = {**RUNTIME, **CONFIG, **LINUX}


def clause(*ids):
    """The test shows these clauses."""
    return pytest.mark.clause(*ids)


def case(name, *values):
    """One case of a test with parameters, which shows one clause."""
    return pytest.param(*values, marks=clause(name), id=name)


def ids_in(node):
    """Those that a decorator names: clause(ID, …), or the first words of case(ID, …) in it."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("clause", "case"):
            named = call.args if call.func.id == "clause" else call.args[:1]
            yield from (ast.literal_eval(arg) for arg in named)


def shown():
    """{id: [FILE::TEST, …]}, of all tests of `brig oci`."""
    found = {}
    for path in sorted((TOP / "tests/integration").glob("test_oci*.py")):
        for test in ast.parse(path.read_text()).body:
            for decorator in getattr(test, "decorator_list", []):
                for name in ids_in(decorator):
                    found.setdefault(name, []).append(f"{path.name}::{test.name}")
    return found
