"""K rows: the kernel and process boundary, attacked from inside. What the supervisor does while it sets up is in
test_setup.py."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time

import pytest

import hostview
from architecture import MACHINE, absent, number
from escapelib import (ABSENT, ALL, CONTAINERS, DENIED, HERE, NO_SOCKET, PLACE, TIERS, Cell, alone_on_this_machine,
                       assert_denied, cached, cells, control, end_tree, not_here, outside, probes, refused_as, sections,
                       told, values)

DEV_NODES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout",
             "stderr", "console", "core", "mqueue"}
# Probes that ask for something of x86-64: its I/O ports and descriptor tables, calls that no later architecture took
# over, and the two entries for programs of other kinds that are open to 64-bit code.
X86_64_CALLS = {"iopl", "ioperm", "sysfs", "ustat", "modify_ldt"}
X86_64_ENTRIES = {"int80_getpid", "int80_open", "int80_unshare", "int80_socketcall", "int80_keyctl", "x32_getpid",
                  "x32_unshare"}
# The kernel's own trampolines for probes are exempt from every filter, by its design: uretprobe and uprobe.
UNFILTERED = {"x86-64": {335, 336}, "aarch64": set()}[MACHINE]


def kernel_control():
    return cached("control kernel", lambda: probes(control("kernel")))


def kernel_inside(cell):
    return cached(("kernel", cell), lambda: probes(cell.attack("kernel")))


def check_row(cell, row, also=frozenset()):
    return assert_denied(kernel_control().get(row, {}), kernel_inside(cell).get(row, {}), also)


@pytest.mark.controls
def test_controls_of_the_kernel_table():
    """Most of the table must work outside, or the rows below prove nothing."""
    for row, also in (("K-07", ()), ("K-08", ()), ("K-13", ()), ("K-14", ()), ("K-15", ()), ("K-16", NO_SOCKET),
                      ("K-18", ABSENT), ("K-19", ABSENT), ("K-23", ()), ("K-30", ABSENT)):
        results = kernel_control()[row]
        live = [n for n, o in results.items() if n not in not_here(results) and not refused_as(o, DENIED | set(also))]
        # An ordinary user cannot do all of it anywhere; such a row is then skipped as vacuous where it is used.
        assert live or os.getuid() != 0, f"{row}: nothing works outside: {results}"
        assert not_here(results) == absent(X86_64_CALLS if row == "K-23" else ())


@cells()
def test_K01_no_descriptor_leaks(cell):
    """Decoys without close-on-exec in the caller: a folder, a control group, a socket, a secret file."""
    house = PLACE.folder("decoy")
    (house / "token").write_text("K01-SECRET")
    (house / "token").chmod(0o644)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    fds = [os.open(house, os.O_RDONLY), os.open(house / "token", os.O_RDONLY), os.open("/", os.O_RDONLY),
           os.open("/sys/fs/cgroup", os.O_RDONLY), listener.fileno(), os.open("/etc/shadow", os.O_RDONLY)]
    # Above these numbers, and not on top of what the other tests hold there.
    high = [fcntl.fcntl(fds[0], fcntl.F_DUPFD, 700), fcntl.fcntl(fds[1], fcntl.F_DUPFD, 255)]
    try:
        seen = outside(PLACE.attack, "fds", "token", pass_fds=fds + high).out
        assert "openat token" in seen and "K01-SECRET" in seen, "control: decoys are reachable outside"
        process = cell.start([PLACE.attack, "batch", "fds", "token", "--", "stubborn", "280"], json_out=False,
                             pass_fds=fds + high)
        out = told(process, "\nstubborn\n")
        payload = hostview.workload(process.pid, PLACE.attack)
        tables = {pid: hostview.descriptors(pid) for pid in payload + hostview.chain(payload[0], process.pid)}
        end_tree(process)
        assert "REACHED" not in out, out
        inside = {line.split("\t")[1] for line in out.splitlines() if line.startswith("fd\t")}
        assert inside == {"0", "1", "2"}, f"only the three standard streams: {out}"
        decoys = {os.stat(f).st_ino for f in fds if f != listener.fileno()}
        assert tables, "the harness saw no task of the sandbox"
        for pid, table in tables.items():
            bad = {n: t for n, t in table.items() if str(PLACE.base / "decoy") in t or t in ("/", "/etc/shadow")
                   or t.startswith("/sys/fs/cgroup")}
            assert not bad, f"task {pid} ({hostview.exe(pid)}) holds {bad}"
        assert decoys
    finally:
        for fd in fds[:4] + fds[5:] + high:
            os.close(fd)
        listener.close()


@cells()
def test_K05_foreign_entries(cell):
    """int 0x80 and x32 numbers from 64-bit code, which x86-64 alone has, and a whole 32-bit program."""
    target = "/etc/passwd"
    outside_rows = probes(control("compat", target)).get("K-05", {})
    inside = sections(cell.attack("batch", "compat", target))["compat"]
    assert set(outside_rows) == X86_64_ENTRIES and not_here(outside_rows) == absent(X86_64_ENTRIES)
    if MACHINE == "x86-64" and not refused_as(outside_rows["int80_getpid"], DENIED):
        assert_denied(outside_rows, probes(inside).get("K-05", {}))
    program = PLACE.attacks / "attack32"
    if not program.exists():
        pytest.skip((PLACE.attacks / "attack32.missing").read_text().strip())
    try:
        free = outside(program)
    except OSError as error:
        pytest.skip(f"vacuous: this machine runs no 32-bit programs: {error.strerror}")
    # A new namespace is root's to make, inside and outside.
    works = ("write", "socket", "unshare") if os.getuid() == 0 else ("write", "socket")
    assert all(f"program32_{name}\tOK" in free.out for name in works) and free.rc == 42, f"control: {free}"
    result = cell.run([program])
    assert "OK" not in result.json["stdout"], result.json["stdout"]
    assert result.json["exit_code"] != 42, "even the 32-bit exit call went through"


def documented_calls():
    """{number: is it allowed in some way} from this architecture's column of docs/seccomp.md."""
    page = HERE.parent.parent / "docs" / "seccomp.md"
    out, heading, ours = {}, "", None
    for line in page.read_text().splitlines() if page.exists() else []:
        heading = line if line.startswith("## ") else heading
        columns = [c.strip() for c in line.strip().strip("|").split("|")]
        if columns[0] == "call":
            ours = columns.index(MACHINE)
        elif ours and len(columns) > ours and columns[ours].isdigit():
            out[int(columns[ours])] = heading.startswith("## Allowed")
    return out


@cells(TIERS)
def test_K06_every_number(cell):
    """Numbers 0 to 1023: what is not documented as allowed must not reach the kernel."""
    documented = documented_calls()
    if not documented:
        pytest.skip("docs/seccomp.md is not there")
    assert len(documented) > 200, "the page is not read as it is written"
    allowed = {n for n, is_allowed in documented.items() if is_allowed}
    numbers = [n for n in range(1024) if n not in allowed | UNFILTERED]
    answers = {}
    for line in cell.attack("sweep", *map(str, numbers), options=["--output", "1M"]).splitlines():
        nr, _, answer = line.partition("\t")
        answers[int(nr)] = answer
    assert set(answers) == set(numbers), f"no answer for {sorted(set(numbers) - set(answers))[:20]}"
    # These two say what a descriptor of the wrong kind says, upon which programs copy by themselves (docs/seccomp.md).
    unfit = {number("sendfile"), number("splice")}
    through = {n: a for n, a in answers.items() if a not in (("EINVAL",) if n in unfit else ("EPERM", "ENOSYS", "ENDED 31"))}
    assert not through, f"reached the kernel without being documented: {through}"
    unknown = {n: answers[n] for n in numbers if n not in documented and answers[n] != "ENOSYS"}
    assert not unknown, f"unknown numbers must look absent: {unknown}"


@cells()
def test_K07_no_new_namespaces(cell):
    """unshare, clone and clone3 with every flag, and the unshare tool."""
    check_row(cell, "K-07")
    for flags in ("-U", "-m", "-Ur", "-rn"):
        result = cell.run(["/usr/bin/unshare", flags, "/bin/true"])
        assert result.json["exit_code"] != 0, f"unshare {flags} worked"


@cells()
def test_K08_no_mounting(cell):
    """Old and new mount interface; read-only mounts stay read-only."""
    check_row(cell, "K-08")
    folder = PLACE.folder("remount")
    shown = outside("unshare", "-m", "sh", "-c", f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
                    f" && {PLACE.attack} remount {folder}").out
    outcome = probes(shown).get("K-08", {})
    assert outcome.get(f"write {folder}") == "OK", f"control: a remount works outside: {shown}"
    inside = probes(cell.attack("remount")).get("K-08", {})
    through = {n: o for n, o in inside.items() if o == "OK"}
    assert not through, through
    if cell.container:
        assert any(n.startswith("remount ") for n in inside), "the sandbox shows no read-only mount at all"


def start_victim(cell):
    report = PLACE.folder("victim", cell.user) / "report"
    process = subprocess.Popen([*cell.prefix(), PLACE.attack, "victim", report], stdin=subprocess.DEVNULL,
                               start_new_session=True)
    hostview.STARTED.add(process)
    line = hostview.wait_for(lambda: hostview.read(report).startswith("ready") and hostview.read(report))
    return process, report, line.split()[1]


def victim_state(pid):
    fields = hostview.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return {"nice": fields[16], "policy": fields[38], "limits": hostview.read(f"/proc/{pid}/limits"),
            "cpus": hostview.status(pid).get("Cpus_allowed_list"), "tracer": hostview.status(pid).get("TracerPid")}


def attack_victim(cell, inside):
    process, report, address = start_victim(cell)
    try:
        before = victim_state(process.pid)
        if inside:
            text = cell.attack("peer", str(process.pid), address)
        else:
            text = control("peer", str(process.pid), address, user=cell.user)
        process.send_signal(signal.SIGHUP)
        assert hostview.wait_for(lambda: "so far" in hostview.read(report)), "the victim does not answer"
        return probes(text), hostview.read(report), before, victim_state(process.pid), process.poll()
    finally:
        process.kill()
        process.wait()


def victim_control(cell):
    return cached(("control victim", cell.user), lambda: attack_victim(Cell(cell.user, "none"), inside=False))


def victim_inside(cell):
    return cached(("victim", cell), lambda: attack_victim(cell, inside=True))


@cells()
def test_K09_foreign_namespaces_and_descriptors(cell):
    """setns and pidfd_getfd on a host process of the same user, by its true number."""
    assert_denied(victim_control(cell)[0]["K-09"], victim_inside(cell)[0].get("K-09", {}), {"ESRCH", *ABSENT})


@cells()
def test_K10_tracing_across_the_boundary(cell):
    """ptrace, process_vm and /proc files of a host process of the same user."""
    assert_denied(victim_control(cell)[0]["K-10"], victim_inside(cell)[0].get("K-10", {}), {"ESRCH", *ABSENT})
    assert "memory changed" not in victim_inside(cell)[1]


@cells()
def test_K11_the_helper_inside(cell):
    """The parent inside (init) must not be traceable, readable or limited by the workload."""
    shown = probes(cached(("init", cell), lambda: cell.attack("init")))
    bad = {}
    for row in ("K-09", "K-10"):
        for name, outcome in shown.get(row, {}).items():
            # To look at a file name or at a descriptor that leads nowhere is no power; tracing and writing are.
            if outcome == "OK" and name not in ("proc_maps", "proc_root", "proc_cwd", "kcmp", "robust_list",
                                                "proc_fd", "proc_environ"):
                bad[name] = outcome
    assert not bad, f"the workload can act on the helper: {bad}"
    reach = {n for n in ("proc_root", "proc_cwd") if shown["K-10"].get(n) == "OK"}
    if reach:
        found = cell.attack("search", "K11-none", "/etc/shadow")
        assert "STAT\t/etc/shadow" not in found or cell.tier == "process"


@pytest.mark.parametrize("sig", ["KILL", "STOP"])
@cells(TIERS)
def test_K11_ending_the_helper_ends_the_sandbox(cell, sig, diff):
    """The workload kills or stops the helper above it: daemons must not outlive the run or its deadline."""
    folder = PLACE.folder("beats", cell.user, 0o777)
    beats = folder / "beats"
    # The daemons have to run before the deadline: on a busy machine a later one is tried.
    for seconds in (2, 10, 50):
        result = cell.run([PLACE.attack, "killinit", sig, beats], ["--rw", folder, "--timeout", f"{seconds}s"])
        if beats.exists() and beats.stat().st_size >= 3:
            break
    assert beats.exists() and beats.stat().st_size >= 3, f"the daemons never ran: {result}"
    gone = hostview.wait_for(lambda: not diff.extra().get("tasks"))
    for entry in diff.extra().get("tasks", []):
        os.kill(int(entry.split()[0]), 9)
    assert gone, f"daemons live on after brig ended with {result.rc}: {result.out[:300]}"


@cells()
def test_K12_no_typing_into_the_terminal(cell):
    """The terminal that brig was started from receives nothing, with -t and without."""
    def typed(argv, env=None):
        """What a later reader of the same terminal would get as input."""
        script = ["/bin/sh", "-c", '"$@"; stty -icanon -echo min 0 time 2; printf "GOT<"; head -c 64; printf ">END"',
                  "sh", *argv]
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(PLACE.base)
            os.execvpe(script[0], script, env or os.environ)
        text, end = b"", time.monotonic() + 60
        while b">END" not in text and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    text += os.read(master, 65536)
                except OSError:
                    break
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
        os.close(master)
        return text.partition(b"GOT<")[2].partition(b">END")[0].decode(errors="replace")

    shown = cached("control tiocsti", lambda: typed([PLACE.attack, "tiocsti", "INJECTED"]))
    if "INJECTED" not in shown:
        pytest.skip("vacuous: this kernel has no terminal injection even for root")
    for extra in ([], ["-t"]):
        argv = cell.argv([PLACE.attack, "tiocsti", "INJECTED"], extra, json_out=False)
        got = typed(argv, cell.env())
        assert "INJECT" not in got, f"{extra}: the parent terminal got {got!r}"


@cells()
def test_K13_keyrings(cell):
    check_row(cell, "K-13")


@cells()
def test_K14_io_uring(cell):
    check_row(cell, "K-14")


@cells()
def test_K15_bpf_and_perf(cell):
    check_row(cell, "K-15")


@cells()
def test_K16_raw_packet_netlink(cell):
    """Only a route socket in an empty network may exist, and it may change nothing."""
    inside = dict(kernel_inside(cell).get("K-16", {}))
    outside_row = dict(kernel_control()["K-16"])
    if cell.container and inside.get("netlink_route") == "OK":
        outside_row.pop("netlink_route")
    assert_denied(outside_row, inside, NO_SOCKET)


@cells()
def test_K17_no_capabilities_no_gain(cell):
    """All five sets are empty for first process, thread, child and grandchild; set-id programs give nothing."""
    shown = values(cached(("posture", cell), lambda: cell.attack("posture")))
    for who in ("first", "thread", "child", "grandchild"):
        for name in ("effective", "permitted", "inheritable"):
            assert int(shown[f"{who}.{name}"], 16) == 0, (who, name, shown)
        assert shown[f"{who}.ambient"] == "0", (who, shown)
        # Only who has CAP_SETPCAP can empty the bounding set: not an ordinary user without a user namespace.
        assert shown[f"{who}.bounding"] == "0" or cell.user == "user" and not cell.container, (who, shown)
        assert shown[f"{who}.no_new_privs"] == "1" and shown[f"{who}.seccomp"] == "2", (who, shown)
    if os.getuid() != 0:
        pytest.skip("only root can make set-id programs; the sets were checked")
    folder = PLACE.folder("setid")
    for name in ("suid", "fcap"):
        (folder / name).write_bytes((PLACE.attacks / "ids").read_bytes())
        (folder / name).chmod(0o755)
    (folder / "suid").chmod(0o4755)
    subprocess.run(["setcap", "cap_sys_admin,cap_dac_override+ep", folder / "fcap"], check=True)
    assert "euid=0" in outside(folder / "suid", user="user").out, "control: set-uid works outside"
    assert "caps=0000000000000000" not in outside(folder / "fcap", user="user").out, "control: file capabilities work"
    for name in ("suid", "fcap"):
        out = cell.run([folder / name], ["--ro", folder]).json.get("stdout")
        if not out:
            continue  # not even started: fine
        uid, euid, caps = re.match(r"uid=(\d+) euid=(\d+) caps=(\w+)", out).groups()
        assert uid == euid and int(caps, 16) == 0, f"{name}: {out}"


@cells()
def test_K18_control_files(cell):
    """Kernel settings cannot be opened for writing and are the same afterwards."""
    files = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname"]
    before = [hostview.read(f) for f in files]
    check_row(cell, "K-18", ABSENT)
    shown = cell.attack("controls")
    assert "WRITABLE" not in shown, shown
    assert before == [hostview.read(f) for f in files]


@cells()
def test_K19_control_groups(cell):
    check_row(cell, "K-19", ABSENT)


@cells()
def test_K20_visibility_and_signals(cell):
    """No signal, limit or priority change reaches a host process; only own tasks are visible."""
    also = {"ESRCH", *ABSENT}
    outside_row, inside_row = dict(victim_control(cell)[0]["K-20"]), dict(victim_inside(cell)[0].get("K-20", {}))
    # Lowering one's own priority is no attack; the victim's state is compared below. F_SETOWN may be accepted:
    # what counts is whether the signal arrived.
    for name in ("setpriority_user", "fowner_signal"):
        outside_row.pop(name, None)
    assert_denied(outside_row, inside_row, also)
    _, report, before, after, ended = victim_inside(cell)
    assert "signals" not in report, f"a signal arrived: {report}"
    assert "signals" in victim_control(cell)[1], "control: signals arrive outside"
    assert ended is None, "the victim died"
    assert before == after, (before, after)
    shown = cached(("init", cell), lambda: cell.attack("init"))
    tasks = [int(line.split("\t")[1]) for line in shown.splitlines() if line.startswith("task\t")]
    if cell.container:
        assert max(tasks, default=0) < 200, f"foreign tasks are visible: {tasks}"
    else:
        readable = [t for t in tasks if t != 1] if os.getpid() in tasks else []
        if readable:
            result = cell.run(["/bin/cat", f"/proc/{os.getpid()}/cmdline", "/proc/1/cmdline"])
            assert not result.json["stdout"], f"host tasks can be read: {result.json['stdout'][:200]}"
    everyone = probes(shown)["K-20"].get("kill_everyone")
    assert everyone in ("EPERM", "ESRCH", "EACCES", "ENOSYS", "OK"), everyone


@cells()
def test_K21_engine_and_agent_sockets(cell):
    """Decoy sockets at the usual places, and an abstract one: none is visible, none is reached."""
    places = ["/run/docker.sock", "/run/podman-decoy.sock", "/tmp/ssh-escape/agent.1", "/var/tmp/escape-bus",
              "/run/dbus/system_bus_socket", str(PLACE.folder("bus") / "agent")]
    # These places have one name on the whole machine, and others may try them at the same time (`brig verify` does). What
    # comes out of this sandbox comes each time.
    with alone_on_this_machine():
        assert any(not try_decoys(cell, places) for _ in range(3)), "somebody connected"


def try_decoys(cell, places):
    """Which listeners somebody reached besides the control."""
    listeners, made, folders = [], [], []
    for path in places:
        if os.path.exists(path) or not os.access(os.path.dirname(os.path.dirname(path)) or "/", os.W_OK):
            continue
        if not os.path.isdir(os.path.dirname(path)):
            os.mkdir(os.path.dirname(path))
            folders.append(os.path.dirname(path))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen()
        listener.setblocking(False)
        listeners.append(listener)
        made.append(path)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0escape-{os.getpid()}")
    abstract.listen()
    abstract.setblocking(False)
    targets = [f"unix:{p}" for p in made] + [f"unix:@escape-{os.getpid()}"]
    try:
        shown = probes(control("reach", *targets, user=cell.user))["reach"]
        inside = sections(cell.attack("batch", "reach", *targets, "--", "sockets"))
        for listener in [*listeners, abstract]:
            listener.accept()[0].close()  # the control's
        assert_denied(shown, probes(inside["reach"])["reach"], ABSENT | NO_SOCKET | {"ECONNREFUSED", "EINVAL"})
        visible = [line for line in inside["sockets"].splitlines() if line.startswith("SOCKET")]
        if cell.container:
            assert not visible, visible
        reached = select.select([*listeners, abstract], [], [], 0)[0]
        known_to_us_alone = [abstract, *(one for one, path in zip(listeners, made) if path.startswith(str(PLACE.base)))]
        assert not set(known_to_us_alone) & set(reached)
        return reached
    finally:
        for listener in [*listeners, abstract]:
            listener.close()
        for path in made:
            os.unlink(path)
        for folder in folders:
            os.rmdir(folder)


@cells()
def test_K22_ipc(cell):
    """Objects with fixed keys, made on the host and in another sandbox, are not found."""
    name = f"escape-{os.getpid()}"
    try:
        made = probes(control("ipc", "make", name, user=cell.user)).get("K-22", {})
        shown = probes(control("ipc", "find", name, user=cell.user)).get("K-22", {})
        assert "OK" in made.values() and "OK" in shown.values(), "control: IPC works outside"
        inside = probes(cell.attack("ipc", "find", name)).get("K-22", {})
        assert_denied(shown, inside, ABSENT | {"EINVAL"})
        cell.attack("ipc", "remove", name)
        left = probes(control("ipc", "find", name, user=cell.user)).get("K-22", {})
        assert left == shown, f"removed from inside: {left}"
    finally:
        outside(PLACE.attack, "ipc", "remove", name, user=cell.user)
    other = cell.start([PLACE.attack, "ipc", "make", name, "60"], json_out=False)
    try:
        mine = probes(told(other, "made\n"))["K-22"]
        posix = {mine["posix shm"], mine["posix sem"]}
        assert posix == {"OK"} or cell.level == "low", f"the row proves nothing: {mine}"
        found = probes(cell.attack("ipc", "find", name)).get("K-22", {})
        assert "OK" not in found.values(), f"found what another sandbox made: {found}"
        on_host = probes(control("ipc", "find", name)).get("K-22", {})
        assert "OK" not in on_host.values(), f"the host sees what the sandbox made: {on_host}"
    finally:
        end_tree(other)


@cells()
def test_K23_administration(cell):
    hostname = os.uname().nodename
    check_row(cell, "K-23")
    assert os.uname().nodename == hostname


@cells()
def test_K28_K29_write_then_execute(cell):
    """Direct execution from writable places follows the policy; with exec off it is refused."""
    places = ["/workspace", "/tmp", "/dev/shm"] if cell.container else []
    script = 'exec "$0" exec "${TMPDIR:-/tmp}" "$@"'
    policy = PLACE.folder("policy") / "noexec.json"
    policy.write_text('{"filesystem": {"exec": false}}')
    result = cell.run(["/bin/sh", "-c", script, PLACE.attack, *places], ["--policy", policy])
    shown = probes(result.json["stdout"])
    ran = {n: o for n, o in shown.get("K-28", {}).items() if n.startswith("direct") and o == "OK"}
    assert not ran, f"exec is off, and yet: {ran}"
    copied = [n for n, o in shown.get("K-28", {}).items() if n.startswith("copy") and o == "OK"]
    if not copied and cell.level != "low":
        raise AssertionError(f"no writable place found, the row proves nothing: {shown} {result.json['stderr']}")
    free = probes(control("exec", PLACE.folder("free")))
    assert any(n.startswith("direct") and o == "OK" for n, o in free["K-28"].items()), "control"


@cells(CONTAINERS)
def test_K30_minimal_dev(cell):
    check_row(cell, "K-30", ABSENT)
    listed = set(cell.run(["/bin/ls", "-A", "/dev"]).json["stdout"].split())
    assert listed <= DEV_NODES, f"undocumented: {listed - DEV_NODES}"


@cells([c for c in ALL if not c.container])
def test_K30_devices_of_the_host(cell):
    check_row(cell, "K-30", ABSENT)


def test_K31_virtual_devices():
    pytest.skip("the guest's words to the monitor are fuzzed (tests/fuzz, vm_*) and tried in an emulated machine (test_vm)")
