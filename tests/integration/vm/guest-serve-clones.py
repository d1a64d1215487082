"""Machines of `brig serve` that are clones of a parked one: guest-serve-clones.py COUNT; prints "yes WHAT" or "no WHAT".

The first sandbox is booted, and a machine is parked beside it; the next is a clone and is asked all that a booted one is. COUNT more are made,
each of which must be one of its own."""
import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import guest_serve as serve
from guest_serve import LOG, LONG, STATE, brig, create, monitors, run, said, start_create, until

COUNT = int(sys.argv[1])
TEMPLATE = """description: a machine
pool: {min: %d, max: %d, idle: 1h}
policy:
  kernel: {tier: vm}
  lifecycle: {memory: 512M, disk: 64M}
  network: {allow: ["https://api.test:8443=127.0.0.1"]}
  credentials: {secrets: ["API_KEY=env:API_KEY@https://api.test:8443"]}
"""
# What two machines that were one must not have in common. The port is drawn of some thousands.
OWN = """
import os, random, socket, uuid
s = socket.socket(); s.bind(("127.0.0.1", 0))
maps = open("/proc/self/maps").read().splitlines()
def place(name): return next(line.split("-")[0] for line in maps if name in line)
def kernel(name): return open("/proc/sys/kernel/random/" + name).read().strip()
print(os.urandom(32).hex(), kernel("uuid"), kernel("boot_id"), uuid.uuid4(), random.getrandbits(128), hash("text"), place("[stack]"),
      place("libc.so"), s.getsockname()[1])
"""
OWN_NAMES = ["random bytes", "uuid", "boot id", "Python's uuid", "Python's generator", "hash seed", "stack", "library"]
GET_SEALS, SEALED = 1034, 15


def parked():
    """The files of the parked machine, as the launcher holds them."""
    found = {}
    for link in Path(f"/proc/{serve.daemon.pid}/fd").iterdir():
        match = re.match(r"/memfd:(brig-machine\S*)", os.readlink(link)) if link.is_symlink() else None
        if match:
            found[match[1]] = link
    return found


def digest():
    """By the name of each; {} if one of them can be changed."""
    sums = {}
    for name, link in parked().items():
        with open(link, "rb") as file:
            if fcntl.fcntl(file, GET_SEALS) != SEALED:
                return {}
            sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def wardens():
    """Of stems."""
    return [path for path in Path("/proc").glob("[0-9]*/comm") if serve.content(path).strip() == b"brig-stem"]


def is_parked():
    """The files are there, and whoever filled them is gone."""
    return len(parked()) == 2 and not wardens()


def end(path):
    os.kill(int(path.parent.name), signal.SIGKILL)


def groups():
    return [path for path in Path("/sys/fs/cgroup").rglob("brig-*") if path.is_dir()]


def logged(words):
    return words in LOG.read_text()


def answers(name):
    serve.use(name)
    return run("echo", "there").stdout == b"there\n"


def cloned(name):
    """As the receipt has it; the sandbox ends with that."""
    brig("rm", name)
    request = urllib.request.Request(f"{serve.url}/sandboxes/{name}/receipt", headers={"X-API-KEY": serve.key})
    texts = []

    def there():
        try:
            with urllib.request.urlopen(request, timeout=LONG) as answer:
                texts.append(answer.read())
        except OSError:
            pass
        return bool(texts)

    until(there)
    return re.search(rb'"guest_cloned": *true', texts[0]) is not None


def many():
    """One after the other, of which the first and the last stay."""
    seen, names = [], []
    for number in range(COUNT):
        names.append(create())
        seen.append(run("python3", "-c", OWN).stdout.split())
        if number:
            said("a clone sees nothing of what others wrote", lambda: run("cat", "/tmp/mine", "/dev/shm/mine").stdout == b"")
        run("sh", "-c", f"echo {number} | tee /tmp/mine >/dev/shm/mine")
        if 0 < number < COUNT - 1:
            brig("rm", names[-1])
    serve.use(names[0])
    said("control: the first one sees what it wrote", lambda: run("cat", "/tmp/mine", "/dev/shm/mine").stdout == b"0\n0\n")
    for at, what in enumerate(OWN_NAMES):
        said(f"clones differ: {what}", lambda: len({words[at] for words in seen}) == COUNT > 1)
    said("clones differ: port", lambda: len({words[-1] for words in seen}) > COUNT // 2)
    return names[0], names[-1]


def ask_until_one_is_parked():
    """Who asks for a sandbox beside which a machine is being parked: after failures there are pauses, and none is begun in them."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        asked = start_create()
        until(lambda: monitors("park") or asked.poll() is not None)
        if monitors("park"):
            return asked
        brig("rm", asked.communicate()[0].split()[0])
    return None


def killed_while_parking():
    """Whoever is killed while a machine is parked, nothing of it is left."""
    for whom in ("its warden", "its monitor", "the launcher"):
        asked = ask_until_one_is_parked()
        said(f"control: a machine is being parked ({whom})", lambda: asked and wardens())
        if whom == "the launcher":
            serve.daemon.kill()
            serve.daemon.wait()
            asked.communicate()
            said("the launcher is killed: nothing is left", lambda: until(lambda: not monitors("") and not wardens() and not groups()))
            continue
        end((wardens() if whom == "its warden" else monitors("park"))[0])
        name = asked.communicate()[0].split()[0].decode()
        said(f"{whom} is killed: nothing is left", lambda: until(lambda: not monitors("park") and not wardens()) and not parked())
        said(f"{whom} is killed: sandboxes go on", lambda: answers(name))
        brig("rm", name)
    said("the log says that it was killed", lambda: logged("could not be kept") and logged("could not be parked"))


def not_up():
    """The monitor of a clone is killed as soon as it is seen, which may be too late: then another one is tried."""
    for _ in range(20):
        done = []
        thread = threading.Thread(target=lambda: done.append(create()))
        thread.start()
        while not monitors("clone") and thread.is_alive():
            pass
        for path in monitors("clone"):
            end(path)
        thread.join()
        if logged("did not come up"):
            return bool(done[0]) and monitors("serve") and answers(done[0])
        brig("rm", done[0])
    return False


def parked_again():
    """At the next sandbox, or when there was enough of a pause."""
    def tried():
        if not wardens() and not parked():
            brig("rm", create())
        return is_parked()

    brig("rm", serve.box)
    return until(tried, LONG)


def another_kernel():
    """The same one with a byte behind its end is another file."""
    image = STATE / "vmlinuz"
    image.write_bytes(next(Path("/boot").glob("vmlinuz-*")).read_bytes() + b"\0")
    added = subprocess.run(["brig", "kernel", "add", image, "--modules", "/lib/modules/" + os.uname().release, "--json"], capture_output=True)
    chosen = subprocess.run(["brig", "kernel", "use", json.loads(added.stdout)["id"]], capture_output=True)
    return chosen.returncode == 0 and create() and monitors("serve") and not monitors("clone") and answers(serve.box)


serve.add_template("machine", TEMPLATE % (0, 0))
serve.start_daemon()
booted = create()
said("control: the first one is booted", lambda: booted and monitors("serve") and not monitors("clone"))
said("a machine is parked", lambda: until(is_parked, LONG))
before = digest()
size = sum(os.stat(link).st_blocks * 512 for link in parked().values())
print("parked", size >> 20, "MiB", flush=True)
said("it is sealed", lambda: len(before) == 2)
clone = create()
said("the next one is a clone", lambda: monitors("clone") and run("cat", "/proc/1/cmdline").stdout == b"/init\0guest\0")
serve.everything()
first, final = many()
said("what is parked has not changed", lambda: digest() == before and before)
print("parked", sum(os.stat(link).st_blocks * 512 for link in parked().values()) >> 20, "MiB", flush=True)
end(monitors("clone")[-1])
said("a killed monitor is the end of one clone", lambda: sum(answers(name) for name in (clone, first, final)) == 2)
said("the receipt says that it was cloned", lambda: [cloned(name) for name in (booted, first)] == [False, True])

for name in (clone, final):
    brig("rm", name)
said("one that does not come up is booted", not_up)
said("the log says so", lambda: logged("given up: it did not come up"))
said("another machine is parked", parked_again)
said("one of another kernel is booted", another_kernel)
said("the log says that, too", lambda: logged("given up: another kernel is to be booted now"))
said("and a machine of that kernel is parked", parked_again)
brig("rm", serve.box)
said("its sandboxes are clones again", lambda: create() and monitors("clone"))
brig("rm", serve.box)

# A pool of clones, which nobody waits for.
serve.end_daemon()
serve.add_template("machine", TEMPLATE % (2, 2))
serve.start_daemon()
said("a pool fills with what can be had", lambda: until(lambda: len(monitors("serve") + monitors("clone")) >= 2 and is_parked(), LONG))
for _ in range(3):
    brig("rm", create())
said("and then with clones", lambda: until(lambda: len(monitors("clone")) >= 2, LONG) and answers(create()))
serve.end_daemon()
serve.add_template("machine", TEMPLATE % (0, 0))
serve.start_daemon()
killed_while_parking()
said("all of it was tried", lambda: True)
