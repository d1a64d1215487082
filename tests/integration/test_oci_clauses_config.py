"""The runtime specification's config.md, clause by clause (tests/lib/ociclauses.py)."""
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from helpers import status_fields, wait_for
from ociclauses import case, clause
from ocilib import BUSYBOX, CAPS, bundle, hook, hooked, own, refused, runs  # noqa: F401

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root")


# ---- version ----


@clause("config.ociVersion")
@pytest.mark.parametrize("version", ["1.0.0", "1.0.2-dev", "1.2.0", "1.1.0-rc.1+x"])
def test_config_ociVersion(bundle, version):
    bundle.config["ociVersion"] = version
    runs(bundle)


@clause("config.ociVersion", "config.ociVersion.newer", "config.valid-values")
@pytest.mark.parametrize("version", ["1", "1.0", "1.0.", "1.0.x", "v1.0.0", "", "1.9.0", "2.0.0", None, 1])
def test_config_ociVersion_that_is_none_or_not_known(bundle, version):
    bundle.config["ociVersion"] = version
    refused(bundle, "ociVersion")


# ---- root ----


@clause("config.root")
def test_config_root_is_a_folder(bundle):
    for root, why in ((None, "root"), ({}, "root"), ({"path": "nosuch"}, "root"), ({"path": "rootfs/bin/busybox"}, "root")):
        bundle.config["root"] = root
        refused(bundle, why)
    bundle.config["root"] = {"path": "rootfs"}
    runs(bundle)


@clause("config.root.path.relative", "config.root.path.absolute")
def test_config_root_path(bundle):
    for path in ("rootfs", "./rootfs", str(bundle.folder / "rootfs")):
        bundle.config["root"]["path"] = path
        bundle.shell("echo RAN")
        assert bundle.call("run", "--bundle", bundle.folder, bundle.id).stdout == "RAN\n"


@clause("config.root.readonly")
def test_config_root_readonly(bundle):
    for readonly, says in ((True, "Read-only"), (False, "")):
        bundle.config["root"]["readonly"] = readonly
        told = bundle.run("touch /new")
        assert says in told.stderr and (bundle.folder / "rootfs/new").exists() != readonly, told


# ---- mounts ----


@clause("config.mounts.order")
def test_config_mounts_order(bundle):
    """What comes later covers what came before; a place inside an earlier mount is there."""
    bundle.mount("/m", type="tmpfs", options=["mode=700"]).mount("/m/inner", type="tmpfs", options=["mode=710"]).mount("/data", type="tmpfs", options=["mode=701"])
    bundle.mount("/data", type="tmpfs", options=["mode=711"])
    told = bundle.run("stat -c %a /m /m/inner /data; cut -d' ' -f2 /proc/mounts | grep -E '^/(m|data)'")
    assert told.stdout.split() == ["700", "710", "711", "/m", "/m/inner", "/data", "/data"], told


@clause("config.mounts.destination", "config.mounts.destination.relative")
def test_config_mounts_destination(bundle):
    bundle.mount("/absolute", type="tmpfs").mount("relative/two", type="tmpfs")
    bundle.config["process"]["cwd"] = "/tmp"
    told = bundle.run("cut -d' ' -f2 /proc/mounts | grep -E 'absolute|relative'")
    assert told.stdout.split() == ["/absolute", "/relative/two"], told
    bundle.config["mounts"][-1]["destination"] = "../out"
    refused(bundle, "climbs")
    bundle.config["mounts"][-1]["destination"] = ""
    refused(bundle, "destination")


@clause("config.mounts.source.bind", "config.mounts.type.bind")
def test_config_mounts_source_of_a_bind(bundle):
    (bundle.folder / "data").mkdir()
    (bundle.folder / "data/file").write_text("content")
    bundle.mount("/a", type="bind", source=str(bundle.folder / "data"), options=["bind"]).mount("/b", type="none", source="data", options=["rbind"])
    bundle.mount("/c", source="./data/file", options=["bind"]).mount("/d", type="ext4", source="data", options=["bind"])
    assert bundle.run("cat /a/file /b/file /c /d/file").stdout == "content" * 4
    bundle.config["mounts"][-1]["source"] = "nosuch"
    refused(bundle, "source of a mount")


@clause("config.mounts.type")
def test_config_mounts_type(bundle):
    told = bundle.run("cut -d' ' -f2,3 /proc/mounts")
    assert {"/proc proc", "/sys sysfs", "/dev tmpfs", "/dev/pts devpts", "/dev/mqueue mqueue"} <= set(told.stdout.splitlines()), told
    bundle.mount("/x", type="ext4", source="/dev/sda")
    refused(bundle, "type of file system")


def flags(told, place):
    return next(line.split()[3] for line in told.stdout.splitlines() if line.split()[1] == place).split(",")


@clause("config.mounts.options.access", "config.mounts.options.rights", "config.mounts.options.private", "config.mounts.options.times")
def test_config_mounts_options(bundle):
    (bundle.folder / "data").mkdir()
    bundle.mount("/ro", type="bind", source="data", options=["bind", "ro"]).mount("/rw", type="bind", source="data", options=["bind", "ro", "rw", "noexec", "exec"])
    bundle.mount("/noexec", type="tmpfs", options=["noexec", "suid", "dev"])
    taken = ("async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime lazytime nolazytime iversion noiversion "
             "loud silent mand nomand defaults private rprivate unbindable runbindable suid nosuid dev nodev symfollow").split()
    bundle.mount("/all", type="tmpfs", options=taken).mount("/bound", type="bind", source="data", options=["bind", *taken])
    told = bundle.run("cat /proc/mounts; cat /proc/self/mountinfo | grep -c -E 'shared:|master:'")
    assert "ro" in flags(told, "/ro") and "rw" in flags(told, "/rw") and "noexec" not in flags(told, "/rw"), told
    assert {"noexec", "nosuid", "nodev"} <= set(flags(told, "/noexec"))
    for place in ("/all", "/bound"):
        assert {"rw", "nosuid", "nodev"} <= set(flags(told, place))
    assert told.stdout.splitlines()[-1] == "0"


@clause("config.mounts.options.recursive", "config.mounts.options.recursive.ro")
def test_config_mounts_options_for_all_below(own):
    """A mount below the source is a tmpfs that this test made, in a mount namespace of its own."""
    (own.folder / "data/below").mkdir(parents=True)
    for option, says in (("ro", "ro"), ("rro", "ro"), ("rnoexec", "noexec"), ("rrw", "rw")):
        own.config["mounts"] = own.config["mounts"][:6]
        own.mount("/data", type="bind", source="data", options=["rbind", option]).shell("cat /proc/mounts")
        script = 'mount -t tmpfs -o nosuid t "$1" && shift && exec "$@"'
        told = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(own.folder / "data/below"), *own.command("run", "--bundle", own.folder, own.id)],
                              capture_output=True, text=True, cwd=own.folder, stdin=subprocess.DEVNULL, timeout=60)
        assert told.returncode == 0 and says in flags(told, "/data") and says in flags(told, "/data/below"), told


@clause("config.mounts.options.nosymfollow")
def test_config_mounts_options_nosymfollow(bundle):
    (bundle.folder / "data").mkdir()
    (bundle.folder / "data/file").write_text("content\n")
    (bundle.folder / "data/link").symlink_to("file")
    for options, says in ((["bind"], "content\n"), (["bind", "nosymfollow"], ""), (["bind", "nosymfollow", "symfollow"], "content\n")):
        bundle.config["mounts"] = bundle.config["mounts"][:6]
        bundle.mount("/data", type="bind", source="data", options=options)
        assert bundle.run("cat /data/link").stdout == says
    bundle.mount("/t", type="tmpfs", options=["nosymfollow"])
    assert "symbolic links" in bundle.run("echo x >/t/file; ln -s file /t/link 2>/dev/null || busybox ln -s file /t/link; cat /t/link").stderr


def test_features_names_the_options_that_are_taken(bundle):
    """Each by itself, and none else."""
    told = json.loads(bundle.call("features").stdout)["mountOptions"]
    assert len(told) == len(set(told)) > 50 and not {"shared", "rslave", "remount", "idmap"} & set(told)
    (bundle.folder / "data").mkdir()
    for number, option in enumerate(told):
        kind = {"source": "data"} if option in ("bind", "rbind") else {"type": "tmpfs"}
        bundle.mount(f"/m/{number}", **kind, options=[option])
    runs(bundle)


@pytest.mark.parametrize("kind, options, why", [
    *(case("config.mounts.options.propagation", "bind", ["bind", option], option) for option in ("shared", "rshared", "slave", "rslave")),
    case("config.mounts.options.remount", "bind", ["bind", "remount", "ro"], "remount"),
    case("config.mounts.options.idmap", "bind", ["bind", "idmap"], "idmap"),
    case("config.mounts.options.idmap", "bind", ["rbind", "ridmap"], "ridmap"),
    case("config.mounts.options.data", "tmpfs", ["size=1m", "huge=always"], "huge=always"),
])
def test_config_mounts_options_that_are_refused(bundle, kind, options, why):
    bundle.mount("/x", type=kind, source="/usr", options=options)
    refused(bundle, f"option {why} is not on the list")


@clause("config.mounts.options.data")
def test_config_mounts_options_of_the_file_system(bundle):
    bundle.mount("/t", type="tmpfs", options=["size=64k", "mode=751", "nr_inodes=9"])
    told = bundle.run("grep ' /t ' /proc/mounts; dd if=/dev/zero of=/t/f bs=1024 count=100; ls -l /t/f")
    assert {"size=64k", "mode=751", "nr_inodes=9"} <= set(flags(told, "/t")) and "65536" in told.stdout, told


@clause("config.mounts.options.idmap")
def test_config_mounts_maps_of_their_own_are_refused(bundle):
    ids = [{"containerID": 0, "hostID": 1000, "size": 1}]
    bundle.mount("/x", type="bind", source="/usr", options=["bind"], uidMappings=ids, gidMappings=ids)
    refused(bundle, "uidMappings")


@clause("config.mounts.options.tmpcopyup")
def test_config_mounts_tmpcopyup(bundle):
    bundle.mount("/data", type="tmpfs", options=["tmpcopyup"])
    runs(bundle)
    (bundle.folder / "rootfs/data/file").write_text("x")
    refused(bundle, "tmpcopyup")


# ---- process ----


@clause("config.process.consoleSize.ignored")
def test_config_process_consoleSize_without_a_terminal(bundle):
    bundle.config["process"]["consoleSize"] = {"height": 25, "width": 80}
    assert bundle.run("test -t 0 || echo none").stdout == "none\n"


@clause("config.process.cwd", "config.process.cwd.absolute")
def test_config_process_cwd(bundle):
    for folder in ("/", "/tmp", "/data/../bin"):
        bundle.config["process"]["cwd"] = folder
        assert bundle.run("busybox pwd -P").stdout.strip() == os.path.normpath(folder)
    for folder in ("tmp", "", None):
        bundle.config["process"]["cwd"] = folder
        refused(bundle, "process.cwd")


@clause("config.process.env")
def test_config_process_env(bundle):
    bundle.config["process"]["env"] = ["PATH=/bin", "A=1", "EMPTY=", "SPACES=a  b", "LINES_=a\nb"]
    bundle.config["process"]["args"] = ["env"]
    assert bundle.save().run().stdout == "PATH=/bin\nA=1\nEMPTY=\nSPACES=a  b\nLINES_=a\nb\n"


@clause("config.process.args", "config.process.args.none")
def test_config_process_args(bundle):
    """By a path, by PATH, by a path from the working folder; every byte of the others as it is."""
    (bundle.folder / "rootfs/data/echo").symlink_to("/bin/busybox")
    for program, env, cwd in (("/bin/echo", [], "/"), ("echo", ["PATH=/nosuch:/bin"], "/"), ("./echo", ["PATH=/nosuch"], "/data"), ("bin/echo", [], "/")):
        bundle.config["process"].update(args=[program, "", "a b", "$A", "*"], env=env, cwd=cwd)
        assert bundle.save().run().stdout == " a b $A *\n", program
    bundle.config["process"].update(args=["echo"], env=["PATH=/nosuch"])
    assert bundle.save().run().returncode == 127
    for args in ([], [""], None):
        bundle.config["process"]["args"] = args
        told = bundle.save().run()
        assert told.returncode == 125 and "process.args" in told.stderr


KINDS = {"RLIMIT_NOFILE": "Max open files", "RLIMIT_CPU": "Max cpu time", "RLIMIT_FSIZE": "Max file size", "RLIMIT_STACK": "Max stack size",
         "RLIMIT_AS": "Max address space", "RLIMIT_DATA": "Max data size", "RLIMIT_RSS": "Max resident set", "RLIMIT_NPROC": "Max processes",
         "RLIMIT_MEMLOCK": "Max locked memory", "RLIMIT_LOCKS": "Max file locks", "RLIMIT_SIGPENDING": "Max pending signals",
         "RLIMIT_MSGQUEUE": "Max msgqueue size", "RLIMIT_NICE": "Max nice priority", "RLIMIT_RTPRIO": "Max realtime priority", "RLIMIT_RTTIME": "Max realtime timeout"}


@clause("config.process.rlimits", "config.process.rlimits.core")
def test_config_process_rlimits(bundle):
    """Every type; none is raised, so that an ordinary user may."""
    def limits(text):
        return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()[1:]}
    at, ours = 1 << 29, limits(Path("/proc/self/limits").read_text())
    small = {"RLIMIT_NICE": 0, "RLIMIT_RTPRIO": 0, "RLIMIT_NOFILE": 200, "RLIMIT_NPROC": 2000, "RLIMIT_SIGPENDING": 1000, "RLIMIT_MEMLOCK": 65536, "RLIMIT_MSGQUEUE": 8192}
    hard = {kind: min(small.get(kind, at), *(int(word) for word in ours[name][1:] if word != "unlimited"), at) for kind, name in KINDS.items()}
    bundle.config["process"]["rlimits"] = [{"type": kind, "soft": value // 2, "hard": value} for kind, value in hard.items()] + [
        {"type": "RLIMIT_CORE", "soft": 4096, "hard": 8192}]
    told = bundle.run("cat /proc/self/limits")
    assert told.returncode == 0, told.stderr
    lines = limits(told.stdout)
    assert {kind: lines[name] for kind, name in KINDS.items()} == {kind: [str(value // 2), str(value)] for kind, value in hard.items()}
    assert lines["Max core file size"] == ["1", "1"]


@pytest.mark.parametrize("limits, why", [
    case("config.process.rlimits.unknown", [{"type": "RLIMIT_NOSUCH", "soft": 1, "hard": 1}], "RLIMIT_NOSUCH"),
    case("config.process.rlimits.unknown", [{"type": "", "soft": 1, "hard": 1}], "unknown limit"),
    case("config.process.rlimits.twice", [{"type": "RLIMIT_NOFILE", "soft": 9, "hard": 9}] * 2, "twice"),
    case("config.valid-values", [{"type": "RLIMIT_NOFILE", "soft": 10, "hard": 9}], "over its hard one"),
])
def test_config_process_rlimits_that_are_none(bundle, limits, why):
    bundle.config["process"]["rlimits"] = limits
    refused(bundle, why)


@clause("config.process.capabilities")
def test_config_process_capabilities(own):
    sets = {"bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID", "CAP_FOWNER"], "permitted": ["CAP_CHOWN", "CAP_KILL", "CAP_FOWNER"],
            "effective": ["CAP_CHOWN"], "inheritable": ["CAP_KILL", "CAP_FOWNER"], "ambient": ["CAP_KILL"]}
    bits = {"CAP_CHOWN": 0, "CAP_FOWNER": 3, "CAP_KILL": 5, "CAP_SETUID": 7}
    names = {"bounding": "CapBnd", "permitted": "CapPrm", "effective": "CapEff", "inheritable": "CapInh", "ambient": "CapAmb"}
    own.config["process"]["capabilities"] = sets
    own.create("true")
    fields = status_fields(own.pid())  # before its program: an execution as root would fill sets up
    assert {kind: int(fields[names[kind]], 16) for kind in sets} == {kind: sum(1 << bits[cap] for cap in caps) for kind, caps in sets.items()}


@clause("config.process.capabilities")
def test_config_process_capabilities_without_any(own):
    del own.config["process"]["capabilities"]
    told = own.run("grep ^Cap /proc/self/status")
    assert {line.split()[1] for line in told.stdout.splitlines()} == {"0" * 16} and told.stdout, told


@pytest.mark.parametrize("name", [case("config.process.capabilities.unknown", "CAP_NOSUCH"), case("config.process.capabilities.withheld", "CAP_SYS_ADMIN")])
def test_config_process_capabilities_that_are_refused(bundle, name):
    bundle.caps(name)
    refused(bundle, name)
    bundle.caps(*CAPS)
    runs(bundle)


@clause("config.process.capabilities.withheld")
def test_config_process_capabilities_that_are_withheld(own, tmp_path):
    """A folder of the host that can be written from inside; read-only, it is the control."""
    (own.folder / "data").mkdir()
    own.caps("CAP_CHOWN", "CAP_SETFCAP").shell("grep CapBnd /proc/self/status")
    for option, bits, names in (("rw", 1, ["CAP_SETFCAP"]), ("ro", 1 | 1 << 31, [])):
        own.config["mounts"] = own.config["mounts"][:6]
        own.mount("/data", type="bind", source="data", options=["bind", option]).save()
        log = tmp_path / option
        told = own.call("--log", log, "--log-format", "json", "run", "--bundle", own.folder, own.id)
        assert int(told.stdout.split()[1], 16) == bits, told
        assert [entry["capability"]["name"] for entry in map(json.loads, log.read_text().splitlines()) if entry["level"] == "warning"] == names


@clause("config.process.noNewPrivileges", "config.process.noNewPrivileges.false")
@pytest.mark.parametrize("value", [True, False, None])
def test_config_process_noNewPrivileges(bundle, value):
    bundle.config["process"]["noNewPrivileges"] = value
    assert bundle.run("grep NoNewPrivs /proc/self/status").stdout.split() == ["NoNewPrivs:", "1"]


@clause("config.process.oomScoreAdj", "config.process.oomScoreAdj.unset")
def test_config_process_oomScoreAdj(bundle):
    ours = Path("/proc/self/oom_score_adj").read_text()
    assert bundle.run("cat /proc/self/oom_score_adj").stdout == ours
    for score in (900, 1000):
        bundle.config["process"]["oomScoreAdj"] = score
        assert bundle.run("cat /proc/self/oom_score_adj").stdout == f"{score}\n"
    bundle.config["process"]["oomScoreAdj"] = 1001
    refused(bundle, "oomScoreAdj")


@pytest.mark.parametrize("change, why", [
    case("config.process.oomScoreAdj.least", {"oomScoreAdj": -1000}, "oomScoreAdj"),
    case("config.process.apparmorProfile", {"apparmorProfile": "p"}, "apparmorProfile"),
    case("config.process.selinuxLabel", {"selinuxLabel": "l"}, "selinuxLabel"),
    case("config.process.scheduler", {"scheduler": {"policy": "SCHED_BATCH"}}, "scheduler"),
    case("config.process.ioPriority", {"ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 1}}, "ioPriority"),
])
def test_config_process_what_would_be_lost(bundle, change, why):
    runs(bundle)
    bundle.config["process"].update(change)
    refused(bundle, why)


@clause("config.process.user", "config.process.user.additionalGids", "config.process.user.umask")
def test_config_process_user(own):
    own.config["process"]["user"] = {"uid": 1234, "gid": 2345, "additionalGids": [5, 77], "umask": 0o77}
    told = own.run("id -u; id -g; grep ^Groups /proc/self/status; umask; touch /tmp/x; stat -c '%u %g %a' /tmp/x")
    assert told.stdout.split() == ["1234", "2345", "Groups:", "5", "77", "0077", "1234", "2345", "600"], told


@clause("config.process.user.umask.unset")
def test_config_process_user_umask_that_is_not_named(bundle):
    assert bundle.run("umask", umask=0o77).stdout == "0022\n"


# ---- names, platform ----


@clause("config.hostname", "config.domainname")
def test_config_hostname_and_domainname(bundle):
    bundle.config.update(hostname="mrs.dalloway", domainname="example.test")
    assert bundle.run("hostname; cat /proc/sys/kernel/domainname").stdout.split() == ["mrs.dalloway", "example.test"]


@clause("config.hostname.joined")
def test_config_hostname_of_a_joined_namespace(own):
    holder = subprocess.Popen(["unshare", "-u", "sh", "-c", "hostname pod && echo up && exec sleep 1000"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"up\n"
        own.config["linux"]["namespaces"][3]["path"] = f"/proc/{holder.pid}/ns/uts"
        assert own.run("hostname").stdout == "pod\n"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@clause("config.platform")
@pytest.mark.parametrize("member", ["windows", "solaris", "vm", "zos"])
def test_config_of_another_platform(bundle, member):
    bundle.config[member] = {"something": "x"}
    refused(bundle, member)


# ---- hooks ----


@clause("config.hooks.allowed")
@pytest.mark.parametrize("kind", ["prestart", "createRuntime", "poststart", "poststop"])
def test_config_hooks_are_the_operators_to_allow(own, tmp_path, kind):
    own.config["hooks"] = {kind: [{"path": hook(tmp_path, "hook", f": >{tmp_path}/ran")}]}
    refused(own, "outside of the sandbox")
    assert not (tmp_path / "ran").exists()


@clause("config.hooks.order", "config.hooks.args", "config.hooks.prestart", "config.hooks.createRuntime")
def test_config_hooks_order_and_arguments(own, tmp_path):
    path = hook(tmp_path, "hook", f'echo "$0 $*" >>{tmp_path}/seen')
    own.config["hooks"] = {"createRuntime": [{"path": path, "args": ["name", "c"]}, {"path": path, "args": ["name", "d e"]}],
                           "prestart": [{"path": path, "args": ["name", "a"]}, {"path": path}]}
    assert hooked(own, "true").returncode == 0
    assert (tmp_path / "seen").read_text().splitlines() == [f"{path} a", f"{path} ", f"{path} c", f"{path} d e"]


@clause("config.hooks.prestart", "config.hooks.createRuntime", "config.hooks.createRuntime.pivot", "config.hooks.env")
@pytest.mark.parametrize("kind", ["prestart", "createRuntime"])
def test_config_hooks_before_the_program(own, tmp_path, kind):
    """In the namespaces of who calls, when those of the container are there, and its root is not yet the root."""
    spaces = ("mnt", "net", "pid", "uts", "ipc", "user")
    look = "; ".join(f"readlink /proc/$1/ns/{ns}" for ns in spaces)
    path = hook(tmp_path, "hook", "pid=$(grep -o '\"pid\":[0-9]*' | cut -d: -f2)\n"
                f"look() {{ {look}; }}\nlook self >{tmp_path}/hooks; look $pid >{tmp_path}/containers\n"
                f"ls /proc/$pid/root/ >{tmp_path}/root; env >{tmp_path}/env")
    own.config["hooks"] = {kind: [{"path": path, "env": ["PATH=/usr/bin:/bin"]}]}
    assert hooked(own, "echo RAN").returncode == 0
    ours, its = ((tmp_path / name).read_text().split() for name in ("hooks", "containers"))
    assert own.output() == "" and len(ours) == len(its) == len(spaces)
    for ns, one, other in zip(spaces, ours, its):
        assert one != other and (ns == "mnt" or one == os.readlink(f"/proc/self/ns/{ns}"))  # the operator's file is in a mount namespace of the test's
        assert other == os.readlink(f"/proc/{own.pid()}/ns/{ns}")
    assert "usr" in (tmp_path / "root").read_text().split(), "the host's root"
    assert "usr" not in os.listdir(f"/proc/{own.pid()}/root"), "control: it was pivoted afterwards"
    assert "PATH=/usr/bin:/bin" in (tmp_path / "env").read_text().split()
    own.config["hooks"][kind][0]["env"].append("ONLY=this")
    own.remove()
    assert hooked(own).returncode == 125


@clause("config.hooks.path", "config.hooks.timeout.zero", "config.valid-values")
@pytest.mark.parametrize("change, why", [({"path": "bin/true"}, "absolute"), ({"path": ""}, "absolute"), ({"timeout": 0}, "timeout"), ({"timeout": -1}, "timeout"),
                                         ({"args": "x"}, "args")], ids=["relative", "empty", "zero", "negative", "args"])
def test_config_hooks_that_are_none(own, change, why):
    own.config["hooks"] = {"createRuntime": [{"path": "/bin/true", **change}]}
    made = hooked(own, "true")
    assert made.returncode == 125 and why in made.stderr, made


@clause("config.hooks.timeout", "config.hooks.timeout.most")
def test_config_hooks_timeout(own, tmp_path):
    own.config["hooks"] = {"createRuntime": [{"path": hook(tmp_path, "slow", f"echo $$ >{tmp_path}/pid; exec sleep 1000"), "timeout": 1}]}
    began = time.monotonic()
    made = hooked(own, "true")
    assert made.returncode == 125 and "within 1 seconds" in made.stderr and time.monotonic() - began < 30
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    own.config["hooks"]["createRuntime"][0].update(path=hook(tmp_path, "quick", "exit 0"), timeout=100000)
    assert hooked(own, "true").returncode == 0


@clause("config.hooks.poststart")
def test_config_hooks_poststart(own, tmp_path):
    """Its program was executed, and start has not returned."""
    own.config["hooks"] = {"poststart": [{"path": hook(tmp_path, "hook", "pid=$(grep -o '\"pid\":[0-9]*' | cut -d: -f2)\n"
                                                       f"readlink /proc/$pid/exe >{tmp_path}/exe")}]}
    assert hooked(own, "exec sleep 1000").returncode == 0
    assert not (tmp_path / "exe").exists(), "not by create"
    assert own.call("start", own.id).returncode == 0
    assert (tmp_path / "exe").read_text() == "/bin/busybox\n"


@clause("config.hooks.poststop")
def test_config_hooks_poststop(own, tmp_path):
    """It is gone when they are run: they can ask."""
    script = f"cat >/dev/null; ls {own.states} >{tmp_path}/states; find /sys/fs/cgroup -name '{own.id}' >{tmp_path}/groups"
    own.config["hooks"] = {"poststop": [{"path": hook(tmp_path, "hook", script)}]}
    assert hooked(own, "exec sleep 1000").returncode == 0
    assert own.call("start", own.id).returncode == 0 and not (tmp_path / "states").exists()
    own.call("kill", own.id, "KILL")
    wait_for(lambda: own.state() == "stopped")
    assert not (tmp_path / "states").exists()
    assert own.call("delete", own.id).returncode == 0
    assert (tmp_path / "states").read_text() == (tmp_path / "groups").read_text() == ""


# ---- annotations, what is not known ----


@clause("config.annotations", "config.annotations.unknown")
def test_config_annotations(bundle):
    bundle.config["annotations"] = {"com.example.key": "value", "org.opencontainers.image.os": "plan9", "empty": ""}
    runs(bundle)
    for wrong in ({"a": 1}, {"a": None}, {"a": {"b": "c"}}, {"": "x"}, ["a"], "a"):
        bundle.config["annotations"] = wrong
        refused(bundle, "annotations")
    bundle.config["annotations"] = {"brig.nosuch": "x"}
    refused(bundle, "brig.nosuch")


@clause("config.extensibility")
def test_config_members_that_are_not_known(bundle):
    for part in (bundle.config, bundle.config["process"], bundle.config["process"]["user"], bundle.config["root"], bundle.config["mounts"][0],
                 bundle.config["linux"], bundle.config["linux"]["namespaces"][0]):
        part["x-nobody-knows"] = {"a": [1, None, {"b": True}]}
    bundle.config["linux"]["resources"] = {"x": 1, "memory": {"x": 1}}
    runs(bundle)


@clause("config.valid-values")
@pytest.mark.parametrize("change, why", [
    (lambda c: c["process"].update(terminal="yes"), "process.terminal"),
    (lambda c: c["process"]["user"].update(uid=-1), "process.user.uid"),
    (lambda c: c["process"]["user"].update(umask=0o1000), "process.user.umask"),
    (lambda c: c["process"].update(env=["novalue"]), "NAME=VALUE"),
    (lambda c: c["root"].update(readonly=1), "root.readonly"),
    (lambda c: c.update(hostname="a/b"), "hostname"),
    (lambda c: c.update(hostname="a" * 65), "hostname"),
    (lambda c: c.update(mounts={}), "mounts"),
    (lambda c: c["linux"].update(resources={"pids": {"limit": "x"}}), "pids"),
    (lambda c: c["linux"]["namespaces"].append({"type": "nosuch"}), "nosuch"),
], ids=range(10))
def test_config_valid_values(bundle, change, why):
    change(bundle.config)
    refused(bundle, why)


def test_config_is_one_json_object(bundle):
    for text in ("", "[]", "{", json.dumps(bundle.config) + "x"):
        (bundle.folder / "config.json").write_text(text)
        assert bundle.create().returncode == 125
