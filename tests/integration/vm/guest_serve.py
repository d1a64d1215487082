"""What the checks of `brig serve` with virtual machines share: a daemon, a sandbox of it (`box`), and all that one can do. Prints "yes WHAT"
or "no WHAT"."""
import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.error
import urllib.request
from pathlib import Path

from guest_said import answer

LOG = Path(tempfile.mkdtemp(prefix="serve-log.")) / "log"
STATE = Path(tempfile.mkdtemp(prefix="serve-machines."))
LONG = 900  # by the host's clock, which may be a busy one
ASK = """
import os, urllib.request, urllib.error
def ask(url):
    try: return urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["API_KEY"]}), timeout=600).status
    except (OSError, urllib.error.URLError) as error: return getattr(error, "code", 0)
print(ask("https://api.test:8443/word"), ask("https://other.test:8443/word"), "value-of" in os.environ["API_KEY"])
"""
SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"from the guest" + b"." * 200000)
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Handler)
print("ready", flush=True)
server.serve_forever()
"""


def said(name, question):
    """The first "no" is the last word: what comes after it would wait for long, or mean nothing."""
    truth, why = answer(name, question)
    if not truth:
        print(name, why, "- the last command:", last, "- the daemon's log:", LOG.read_text()[-1500:], file=sys.stderr, flush=True)
        if daemon and daemon.poll() is None:
            daemon.kill()
        os._exit(1)


last = None
box = key = url = ""
daemon = None


def start_daemon():
    global daemon, key, url
    (STATE / "address").unlink(missing_ok=True)
    with LOG.open("a") as log:
        daemon = subprocess.Popen(["brig", "serve", "--foreground", "--listen", "127.0.0.1:0", "--state", STATE], stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log)
    until(lambda: (STATE / "address").exists() or daemon.poll() is not None)
    key = (STATE / "key").read_text().strip()
    url = next(line for line in (STATE / "address").read_text().split() if line.startswith("http"))


def end_daemon():
    daemon.send_signal(signal.SIGTERM)
    said("the daemon ends in order", lambda: daemon.wait(LONG) == 0)
    said("no monitor is left", lambda: until(lambda: not monitors("")))


def add_template(name, text):
    (STATE / "templates").mkdir(exist_ok=True)
    (STATE / "templates" / f"{name}.yaml").write_text(text)


def create(template="machine"):
    """From now on the sandbox that is asked."""
    global box
    made = brig("create", "--template", template, "--timeout", "1h")
    box = made.stdout.decode().split()[0] if made.returncode == 0 else ""
    return box


def start_create(template="machine"):
    """The same, without waiting for it; prints its name."""
    return subprocess.Popen(["brig", "create", "--state", STATE, "--template", template, "--timeout", "1h"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def use(name):
    global box
    box = name


def monitors(way):
    """Those that were started as this word says; all: ""."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"/.brig-tool\0{way}".encode() in content(path)]


def content(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def brig(*words, **options):
    global last
    verb, *rest = words
    done = subprocess.run(["brig", verb, "--state", STATE, *rest], capture_output=True, timeout=LONG, **options)
    last = done.args, done.returncode, done.stdout[-300:], done.stderr[-300:]
    return done


def run(*command, **options):
    return brig("exec", box, "--", *command, **options)


def start(*command):
    return subprocess.Popen(["brig", "exec", "--state", STATE, box, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def ask(port, path, body=None):
    headers = {"X-API-KEY": key, "E2b-Sandbox-Id": box, "E2b-Sandbox-Port": str(port), "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=LONG) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def until(truth, seconds=300):
    end = time.monotonic() + seconds
    while not truth() and time.monotonic() < end:
        time.sleep(0.2)
    return truth()


def cell(code):
    status, text = ask(49999, "/execute", {"code": code})
    return text if status == 200 else b""


def typed():
    """A terminal, as a person sits at it."""
    fd, follower = pty.openpty()
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    process = subprocess.Popen(["brig", "exec", "--state", STATE, box, "-t", "--", "sh"], stdin=follower, stdout=follower,
                               stderr=follower, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(follower)
    seen = b""

    def wait(pattern):
        nonlocal seen
        end = time.monotonic() + LONG
        while pattern not in seen and time.monotonic() < end and process.poll() is None:
            if select.select([fd], [], [], 1)[0]:
                seen += os.read(fd, 65536)
        return pattern in seen

    os.write(fd, b"tty; stty size; echo fi''rst; cat\n")
    first = wait(b"first") and b"/dev/pts/" in seen and b"33 77" in seen
    os.write(fd, b"there\n")
    wait(b"there\r\nthere")  # the second one is cat's: a key before that may be for a shell that has not made it yet
    os.write(fd, b"\x03")
    wait(b"^C")
    os.write(fd, b"echo sec''ond; exit 5\n")
    second = wait(b"second")
    return first and second and process.wait(LONG) == 5


def signalled():
    """One that can be caught, and the one that cannot."""
    process = start("sh", "-c", 'trap "echo caught; exit 3" TERM; echo ready; while :; do sleep 0.1; done')
    process.stdout.readline()
    brig("kill", box, "--signal", "TERM")
    caught = process.communicate(timeout=LONG)[0] == b"caught\n" and process.returncode == 3
    process = start("sh", "-c", "echo ready; sleep 3333")
    process.stdout.readline()
    brig("kill", box)
    return caught and process.wait(LONG) == 137 and until(lambda: b"sleep 3333" not in run("ps").stdout)


def used():
    """Microseconds of the processor, by the sandbox. (KVM has a thread of the kernel's in a machine's group that is never frozen,
    so that the group does not say it is.)"""
    return sum(int(path.read_text().split()[1]) for path in Path("/sys/fs/cgroup").rglob(f"brig-{box}/cpu.stat"))


def stands_still():
    before = used()
    time.sleep(1)
    return used() - before < 2000


def everything():
    """All that one can do, in the sandbox that is there."""
    done = run("sh", "-c", "echo out; echo err >&2; exit 7")
    said("a command's output and status", lambda: (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7))
    status = dict(line.split(":\t", 1) for line in run("cat", "/proc/self/status").stdout.decode().splitlines() if ":\t" in line)
    said("its walls", lambda: status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1" and status["CapBnd"].strip("0\n") == ""
         and status["Uid"].split() == ["1000"] * 4)
    said("what is not there", lambda: run("/nonexistent").returncode == 127 and b"cannot enter folder" in brig("exec", box, "--cwd", "/nowhere", "--", "true").stderr)
    much = os.urandom(300000)
    back = run("cat", input=much)
    said("much in and out", lambda: hashlib.sha256(back.stdout).digest() == hashlib.sha256(much).digest())
    left = run("sh", "-c", "sleep 1000 & echo left")
    said("what it leaves running is not waited for", lambda: left.stdout == b"left\n" and left.returncode == 0)
    said("a signal", signalled)
    (STATE / "file").write_text("one\n")
    brig("cp", str(STATE / "file"), f"{box}:/tmp/file")
    first = run("cat", "/tmp/file").stdout
    (STATE / "file").write_text("two\n")
    brig("cp", str(STATE / "file"), f"{box}:/tmp/file")
    second = run("sh", "-c", "cat /tmp/file; echo three >/tmp/other").stdout
    brig("cp", f"{box}:/tmp/other", str(STATE / "other"))
    said("files, as they are now", lambda: (first, second, (STATE / "other").read_text()) == (b"one\n", b"two\n", "three\n"))
    # An interpreter that is not there after a minute is given up, and here that is a few seconds of a machine's.
    said("a cell", lambda: until(lambda: b'"42\\n"' in cell("x = 6\nprint(x * 7)"), LONG))
    said("and the next one", lambda: b'"7\\n"' in cell("print(x + 1)"))
    said("a terminal", typed)
    said("rules and a secret", lambda: run("python3", "-c", ASK).stdout == b"200 403 False\n" or
         run("python3", "-c", ASK).stdout.split()[0::2] == [b"200", b"False"])
    server = start("python3", "-c", SERVER)
    server.stdout.readline()
    said("a port", lambda: ask(8000, "/") == (200, b"from the guest" + b"." * 200000))
    said("no server", lambda: ask(8001, "/")[0] == 502)
    server.kill()
    spinning = start("sh", "-c", "echo $$ >/tmp/pid; echo spins; while :; do :; done")
    spinning.stdout.readline()
    said("control: what spins uses the processor", lambda: used() > 0 and not stands_still())
    brig("pause", box)
    said("paused, it stands still", lambda: until(stands_still))
    brig("resume", box)
    said("control: it spins again", lambda: until(lambda: not stands_still()))
    run("sh", "-c", "kill -9 $(cat /tmp/pid)")
    said("and goes on", lambda: run("echo", "again").stdout == b"again\n" and b'"8\\n"' in cell("print(x + 2)"))
