"""A machine that is parked once, and clones of it: guest-park.py PROCESSORS CLONES; prints "yes WHAT" or "no WHAT".

It plays the part that the launcher and the warden have: makes the files that a parked machine lies in, hands them over, seals them,
and joins programs to the clones. The monitor stands without walls here; what is tried is the machine."""
import ctypes
import fcntl
import io
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from guest_said import answer

PROCESSORS, CLONES = int(sys.argv[1]), int(sys.argv[2])
MEMORY = 192 << 20
LONG = 1200  # by the host's clock, which may be a busy one
VMM = "/usr/bin/brig-vmm"
MODULES = ("drivers/virtio/virtio.ko", "drivers/virtio/virtio_ring.ko", "drivers/virtio/virtio_mmio.ko", "net/vmw_vsock/vsock.ko",
           "net/vmw_vsock/vmw_vsock_virtio_transport_common.ko", "net/vmw_vsock/vmw_vsock_virtio_transport.ko", "fs/fuse/fuse.ko",
           "fs/fuse/virtiofs.ko")
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
# What tells one guest from another, as a program sees it.
PROGRAM = r"""
import os, socket
s = socket.socket(); s.bind(("127.0.0.1", 0))
stack = [line for line in open("/proc/self/maps") if line.rstrip().endswith("[stack]")][0]
read = lambda name: open("/proc/sys/kernel/random/" + name).read().strip()
print(os.urandom(16).hex(), read("uuid"), read("boot_id"), s.getsockname()[1], stack.split("-")[0], open("/proc/uptime").read().split()[0],
      len([line for line in open("/proc/stat") if line.startswith("cpu") and line[3].isdigit()]), int(__import__("time").time()))
"""


def said(name, question):
    truth, why = answer(name, question)
    if not truth:
        print(name, why, file=sys.stderr, flush=True)


def memfd(name, content=b"", size=0):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    os.ftruncate(fd, size or len(content))
    return fd


def replaced_x86(init, add, tell, renew, nothing):
    """Where the one follows soon after the other: the numbers are in the instructions as they are."""
    at = init.index(struct.pack("<I", renew))
    before = init.index(struct.pack("<I", add), at - 200, at)
    return (init[:before] + struct.pack("<I", tell) + init[before + 4 : at] + struct.pack("<I", nothing) + init[at + 4 :])


def replaced_arm(init, add, tell, renew, nothing):
    """The numbers are in halves: "mov" and "movk", of a register of either width."""
    words = [word for (word,) in struct.iter_unpack("<I", init[: len(init) & ~3])]
    at = next(n for n, word in enumerate(words) if word & 0x7FFFFFE0 == 0x52800000 | renew << 5)
    words[at] ^= (renew ^ nothing) << 5
    for n in range(at - 50, at):
        if words[n] & 0x7FFFFFE0 == 0x52800000 | (add & 0xFFFF) << 5:
            words[n] ^= (add & 0xFFFF ^ tell & 0xFFFF) << 5
        elif words[n] & 0x7FFFFFE0 == 0x72A00000 | (add >> 16) << 5:
            words[n] ^= (add >> 16 ^ tell >> 16) << 5
    return struct.pack(f"<{len(words)}I", *words) + init[len(init) & ~3 :]


def without_renewal(init):
    """The same program, but that its two calls by which the kernel takes random numbers, and throws away what it made of old ones, have
    the numbers of one that tells how many there are and of one that does nothing."""
    numbers = 0x40085203, 0x80045200, 0x5207, 0x5206
    return (replaced_x86 if os.uname().machine == "x86_64" else replaced_arm)(init, *numbers)


def archive(init):
    """The first file system of the guest, as brig makes it."""
    out = io.BytesIO()

    def entry(name, mode, data=b"", minor=0):
        numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 1 if minor else 0, minor, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name.encode() + b"\0"
        for piece in (head, data):
            out.write(piece + b"\0" * (-len(piece) % 4))

    entry("dev", 0o040755)
    entry("dev/null", 0o020666, minor=3)
    entry("modules", 0o040700)
    entry("init", 0o100700, init)
    folder = Path("/lib/modules") / os.uname().release / "kernel"
    for number, name in enumerate(name for name in MODULES if (folder / name).exists()):
        entry(f"modules/{number:02}.ko", 0o100600, (folder / name).read_bytes())
    entry("TRAILER!!!", 0)
    return out.getvalue()


def monitor(mode, fds, memory=MEMORY, **options):
    """Started as brig starts it: what it needs comes over descriptor 3."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(["/bin/sh", "-c", f'exec 3<&{theirs.fileno()}; exec "$@"', "sh", VMM, mode, str(memory), str(PROCESSORS), "1000", "0",
                                "1200"], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    socket.send_fds(ours, [b"x"], fds)
    theirs.close()
    process.keep = ours
    return process


def grow_old(process, stops):
    """Its clock goes on while it is stopped."""
    for _ in range(stops):
        time.sleep(0.3)
        if process.poll() is not None:
            return
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        process.send_signal(signal.SIGCONT)


def park(memory, state, files, stops=0):
    process = monitor("park", [kvm, kernel, files, memory, state], stdout=subprocess.PIPE)
    grow_old(process, stops)
    out, err = process.communicate(timeout=LONG)
    print("park:", process.returncode, out, err, file=sys.stderr)
    return process.returncode, out, err


def clone(memory, state, size=MEMORY):
    return monitor("clone", [kvm, memory, state, plan], size, stdout=subprocess.PIPE)


def refused(memory, state, word, size=MEMORY):
    process = clone(memory, state, size)
    out, err = process.communicate(timeout=LONG)
    print("refused:", process.returncode, out, err, file=sys.stderr)
    return process.returncode == 125 and out == b"" and word in err


def sealed(content):
    fd = memfd("state", content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def changed(at, byte):
    return sealed(content[:at] + bytes([byte]) + content[at + 1:])


def run(name, *command):
    """One program in the guest, as init of the sandbox starts it."""
    read, write = os.pipe()
    process = subprocess.run(["/bin/sh", "-c", f'exec 5>&{write}; exec "$@"', "sh", VMM, "join", name, "3", "-", "/", "--", *command],
                             pass_fds=[write], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONG)
    os.close(write)
    print("run:", process.returncode, process.stdout, process.stderr, os.read(read, 64), file=sys.stderr)
    os.close(read)
    return process.stdout.decode().split()


def first_numbers(names):
    """What the first program that runs in each of them gets of the kernel's random numbers: many, because what else draws some is
    not quite the same in each."""
    return [set(run(name, "/bin/cat", *40 * ["/proc/sys/kernel/random/uuid"])) for name in names]


def same_without_renewal():
    """A kernel throws its old numbers away by itself when they are half as old as it is: so this one is made to be old, and its clones
    run one after the other, so that each is asked as soon as can be."""
    files = memfd("initramfs", archive(without_renewal(INIT)))
    for stops in (12, 20, 30, 16, 25, 40):
        memory, state = memfd("memory", size=MEMORY), memfd("state")
        if park(memory, state, files, stops)[0] != 0:
            return False
        for fd in (memory, state):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        numbers = []
        for _ in range(2):
            process = clone(memory, state)
            numbers += first_numbers([process.stdout.readline().decode().strip()])
            process.kill()
            process.wait()
        for fd in (memory, state):
            os.close(fd)
        if numbers[0] & numbers[1]:
            print("same after", stops, file=sys.stderr)
            return True
    return False


INIT = Path("/usr/bin/brig-init").read_bytes()
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no-new-privs, as within the walls: a user's monitor could load no filter without
kvm = os.open("/dev/kvm", os.O_RDWR)
kernel = os.open(next(Path("/boot").glob("vmlinuz-*")), os.O_RDONLY)
initramfs = memfd("initramfs", archive(INIT))
plan = memfd("plan", struct.pack("<II", 0x31676c70, 0))
memory, state = memfd("memory", size=MEMORY), memfd("state")

begun = time.monotonic()
status, out, err = park(memory, state, initramfs)
parked = time.monotonic()
said("a machine is parked", lambda: (status, out, err) == (0, b"", b""))
if status != 0:
    sys.exit(1)
said("control: one that is not sealed is refused", lambda: refused(memory, state, b"not sealed"))
for fd in (memory, state):
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
said("its files are sealed", lambda: fcntl.fcntl(memory, fcntl.F_GET_SEALS) & SEALS == SEALS)
content = os.pread(state, 1 << 20, 0)
print("state:", len(content), "bytes, parked after", int(time.monotonic() - begun), "s", file=sys.stderr)
said("a state that is cut off is refused", lambda: refused(memory, sealed(content[:-1]), b"malformed"))
said("a state of another machine is refused", lambda: refused(memory, state, b"another machine", MEMORY - (2 << 20)))
said("a state with another tag is refused", lambda: refused(memory, changed(0, 0), b"another machine"))
said("what is beyond the file is not memory", lambda: refused(memory, state, b"too short", MEMORY + (2 << 20)))

clones = [clone(memory, state) for _ in range(CLONES)]
names = [process.stdout.readline().decode().strip() for process in clones]
for process, name in zip(clones, names):
    if not name:
        print("clone:", process.wait(LONG), process.stderr.read(), file=sys.stderr)
said("clones come up", lambda: all(len(name) == 5 for name in names) and len(set(names)) == CLONES)
first = first_numbers(names)
said("first random numbers differ", lambda: len(set.union(*first)) == 40 * CLONES)
if PROCESSORS == 1:  # each processor has numbers of its own, and a program starts on any of them
    said("control: without renewal they are the same", same_without_renewal)
seen = [run(name, "/usr/bin/python3", "-c", PROGRAM) for name in names]
said("programs run in them", lambda: all(len(words) == 8 for words in seen))
for number, what in enumerate(("random bytes", "uuids", "boot ids", "ports", "places of the stack")):
    said(f"{what} differ", lambda: len({words[number] for words in seen}) == CLONES)
said("all processors are there", lambda: all(int(words[6]) == PROCESSORS for words in seen))
said("the clock is right", lambda: all(abs(int(words[7]) - time.time()) < LONG for words in seen))
mine = run(names[0], "/bin/sh", "-c", "echo mine >/dev/shm/mark; cat /dev/shm/mark")
others = [run(name, "/bin/sh", "-c", "cat /dev/shm/mark; echo none") for name in names[1:]]
said("what one writes no other sees", lambda: mine == ["mine"] and all(words == ["none"] for words in others))
said("the parked machine is as it was", lambda: os.pread(state, 1 << 20, 0) == content)


def stood_still():
    """Where it did not, another clone would have been up for at least as long as the parked one lies there."""
    up = float(seen[0][5])
    while time.monotonic() - parked < 2 * up:
        time.sleep(1)
    start = time.monotonic()
    clones.append(clone(memory, state))
    name = clones[-1].stdout.readline().decode().strip()
    if not name:
        print("late clone:", clones[-1].wait(LONG), clones[-1].stderr.read(), file=sys.stderr)
    late = run(name, "/bin/cat", "/proc/uptime")
    print("uptime:", late[0], "after", up, "and", time.monotonic() - start, file=sys.stderr)
    return float(late[0]) < up + time.monotonic() - start


said("its time stood still", stood_still)
if PROCESSORS > 1:
    spin = "import os; os.sched_setaffinity(0, {1}); print(sum(range(100000)))"
    said("a program runs on the second processor", lambda: run(names[-1], "/usr/bin/python3", "-c", spin) == ["4999950000"])
for process in clones:
    process.kill()
    process.wait()
