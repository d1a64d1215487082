"""Figures of the vm tier that need no hardware, in a machine that emulates virtualization: guest-bench.py; prints "figure NAME NUMBER".

How often a guest's processors left for the monitor is counted by the kernel of this machine (tracepoints of KVM), so that the monitor is the
released one and knows nothing of it. How long anything takes means nothing here."""
import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("kvm/kvm_userspace_exit", "kvm/kvm_mmio", "kvm/kvm_pio", "raw_syscalls/sys_enter")
EVENT = re.compile(r"^ *.*-(\d+) +\[\d+\] .*? (\d+\.\d+): (kvm_userspace_exit|kvm_mmio|kvm_pio|sys_enter): (.*)$")
ACCESS = re.compile(r"(write|unsatisfied-read|read) (?:len \d+ gpa|at) 0x([0-9a-f]+)(?: .*val 0x([0-9a-f]+))?")
# Where the devices' windows are, and in each the register of its status; 0xf: the driver is done with it.
DEVICES = {"aarch64": 0x0A000000, "x86_64": 0xD0000000}[os.uname().machine]
DEVICES_END, STATUS, READY = DEVICES + 0x2000, 0x70, "f"
RUNS = re.compile(r"NR \d+ \(\w+, ae80,")  # ioctl KVM_RUN
MILLIONS = 62.5  # of instructions in a second, where this machine's clock counts them (run-vm: 16 ns each)
COUNTED = "icount" in Path("/guest/config").read_text()
STATE = Path(tempfile.mkdtemp(prefix="bench-machines."))
TEMPLATE = """description: a machine
pool: {min: 0, max: 0}
policy:
  kernel: {tier: vm}
  lifecycle: {memory: 512M, disk: 64M}
"""


def setting(name, value):
    (TRACING / name).write_text(value)


def start_tracing():
    subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=True)
    setting("buffer_size_kb", "30000")
    setting("events/raw_syscalls/sys_enter/filter", 'comm == "brig-vmm"')
    for event in EVENTS:
        if (TRACING / "events" / event).exists():
            setting(f"events/{event}/enable", "1")


class Seen:
    """What was traced while `action` went on, of the monitor that is there then: others may park beside it."""

    def __init__(self, action, ended=False):
        setting("trace", "")
        self.result = action()
        threads = None if ended else {path.name for path in (monitor()[0] / "task").iterdir()}
        self.exits, self.calls = [], 0  # (time, address, what was written)
        self.began = None  # the first instruction
        last = {}
        for line in (TRACING / "trace").read_text().splitlines():
            found = EVENT.match(line)
            if found and (ended or found[1] in threads):
                self.take(last, *found.groups())

    def take(self, last, thread, when, event, text):
        if event == "sys_enter":
            self.calls += 1
            if self.began is None and RUNS.match(text):
                self.began = float(when)
        elif event != "kvm_userspace_exit":
            last[thread] = text
        elif "MMIO" in text or "_IO" in text:
            how, address, value = ACCESS.search(last[thread]).groups()
            self.exits.append((float(when), int(address, 16), value if how == "write" else None))
        else:
            self.exits.append((float(when), text, None))

    def of_devices(self):
        """(place, exit) of each access to one."""
        return [(i, exit) for i, exit in enumerate(self.exits) if isinstance(exit[1], int) and DEVICES <= exit[1] < DEVICES_END]

    def before_devices(self):
        """The kernel knows none of them: init loads what drives them, first of all. How many, and millions of instructions."""
        place, (when, *_) = self.of_devices()[0]
        return place, round((when - self.began) * MILLIONS)

    def with_devices(self):
        """Up to the moment when the last one is ready."""
        return [i for i, (_, address, value) in self.of_devices() if value == READY and address & 0xFFF == STATUS][-1] + 1

    def kinds(self):
        count = collections.Counter(("write " if value else "read ") + hex(address) if isinstance(address, int) else address
                                    for _, address, value in self.exits)
        return ", ".join(f"{kind}: {n}" for kind, n in count.most_common(8))


def figure(name, value):
    print("figure", name, value, flush=True)


def show(name, seen):
    figure(name, len(seen.exits))
    print(f"# {name}: {seen.kinds()}", flush=True)


def brig(verb, *rest):
    done = subprocess.run(["brig", verb, "--state", STATE, *rest], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"brig {verb} {rest}: {done.returncode} {done.stderr}")
    return done.stdout


def monitors(*kinds):
    """[(its folder in /proc, its words)]."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            words = path.read_bytes().decode().split("\0")
            if words[0] == "/.brig-tool" and words[1] in kinds:
                found.append((path.parent, words))
    return found


def monitor():
    """The one of the only sandbox."""
    (one,) = monitors("serve", "clone")
    return one


def memory(process, size):
    """KiB that the monitor itself holds, and KiB of the guest's memory that are this guest's alone. A clone's lies in pieces, one behind
    the other: of the file that it is made of, and of no file."""
    pieces, before = [], None  # lists of what lies together
    for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", (process / "smaps").read_text(), flags=re.M)[1:]:
        start, end, name = re.match(r"(\w+)-(\w+) (?:\S+ +){4}(.*)", part).groups()
        field = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+) kB", part, re.M)}
        file = name.startswith("/memfd:brig-machine") or field["Size"] * 1024 == size
        if start != before or not (file or name == ""):
            pieces.append([])
        pieces[-1].append((file, field))
        before = end if file or name == "" else None
    guest = [any(file for file, _ in group) for group in pieces]
    return (sum(field["Rss"] for group, its in zip(pieces, guest) for _, field in group if not its),
            sum(field["Anonymous"] for group, its in zip(pieces, guest) for _, field in group if its))


def run():
    seen = Seen(lambda: subprocess.run(["brig", "run", "--tier", "vm", "--", "true"], check=True), ended=True)
    exits, millions = seen.before_devices()
    figure("run.init", exits)
    if COUNTED:
        figure("run.init.millions", millions)
    figure("run.devices", seen.with_devices())
    show("run.total", seen)


def sandbox(known):
    """One of brig serve's; False if it came up as one that was looked at already."""
    made = Seen(lambda: brig("create", "--template", "machine", "--timeout", "1h").split()[0])
    process, words = monitor()
    kind = words[1]
    if kind not in known:
        show(f"{kind}.ready", made)
        figure(f"{kind}.calls", made.calls)
        figure(f"{kind}.memory", memory(process, int(words[2]))[0])
        figure(f"{kind}.private", memory(process, int(words[2]))[1])
        for name in ("first", "again"):
            seen = Seen(lambda: brig("exec", made.result, "--", "true"))
            show(f"{kind}.true.{name}", seen)
            figure(f"{kind}.true.{name}.calls", seen.calls)
        brig("exec", made.result, "--", "python3", "-c", "pass")
        show(f"{kind}.python.again", Seen(lambda: brig("exec", made.result, "--", "python3", "-c", "pass")))
    brig("rm", made.result)
    return kind


def serve():
    (STATE / "templates").mkdir()
    (STATE / "templates" / "machine.yaml").write_text(TEMPLATE)
    daemon = subprocess.Popen(["brig", "serve", "--listen", "127.0.0.1:0", "--state", STATE], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=sys.stderr)
    while not (STATE / "address").exists() and daemon.poll() is None:
        time.sleep(0.1)
    known = []
    while "clone" not in known and len(known) < 4:  # the first one is booted where none is parked yet
        known.append(sandbox(known))
        while monitors("park"):
            time.sleep(0.1)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait()


start_tracing()
run()
serve()
