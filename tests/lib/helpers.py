"""Running brig as different callers, and looking at a running sandbox from outside.

BRIG names the program under test; without it, build/brig.
"""
import atexit
import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from users import USER_ID
from waiting import wait_for

TOP = Path(__file__).resolve().parents[2]
BRIG = os.environ.get("BRIG", str(TOP / "build" / "brig"))
SANITIZED = b"__asan_init" in Path(BRIG).read_bytes()  # keeps what was freed, and is slow
TIERS = ["container", "process"]
IS_ROOT = os.geteuid() == 0


def _public_folder():
    """A folder that every user can read, with a copy of the program and the policies of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="test-brig-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    shutil.copy(BRIG, folder / "brig")
    for name in ("brig-proxy", "brig-daemon", "brig-tls", "brig-unpack", "brig-gvisor", "brig-lead", "brig-wasm", "brig-template.so", "javascript.wasm"):
        if (Path(BRIG).parent / name).exists():
            shutil.copy(Path(BRIG).parent / name, folder / name)
    (folder / "no-cgroup.yaml").write_text('lifecycle: {cgroup: "off", sampling: accept}\n')
    return folder


PUBLIC = _public_folder()
NO_CGROUP = ["--policy", str(PUBLIC / "no-cgroup.yaml")]
# Variables by which pip and npm work inside.
INSTALLERS = {"PIP_BREAK_SYSTEM_PACKAGES", "PIP_NO_CACHE_DIR", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_RETRIES", "npm_config_prefix",
              "npm_config_update_notifier", "npm_config_fetch_retries"}
# Limits that can only be watched here are good enough: for tests that are about something else.
WATCHED = ["--sampling", "accept"]


class Caller:
    """Somebody who runs brig, with options that each run gets."""

    def __init__(self, name, *options):
        self.name = name
        self.options = list(options)
        self.uid = USER_ID if IS_ROOT and name == "user" else os.geteuid()

    def with_options(self, *options):
        return Caller(self.name, *self.options, *options)

    def outside(self, *command):
        """The command as this caller runs it without brig: for controls."""
        if self.uid == os.geteuid():
            return list(command)
        ids = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        return ["setpriv", *ids, "--", *command]

    def command(self, *args):
        return self.outside(str(PUBLIC / "brig"), "run", *self.options, *map(str, args))

    def run(self, *args, **kwargs):
        kwargs.setdefault("timeout", 300)
        kwargs.setdefault("cwd", "/")
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("text", True)
        return subprocess.run(self.command(*args), capture_output=True, **kwargs)

    def json(self, *args, **kwargs):
        result = self.run("--json", *args, **kwargs)
        try:
            told = json.loads(result.stdout)
        except ValueError:
            raise AssertionError(f"no JSON: {result}") from None
        told["status"] = result.returncode
        return told

    def start(self, *args, **kwargs):
        kwargs.setdefault("cwd", "/")
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.command(*args), **kwargs)


ROOT = Caller("root")
USER = Caller("user")
CALLERS = [ROOT, USER] if IS_ROOT else [USER]
ANY = CALLERS[0]


def read_stat(pid):
    """(name, state, parent) of a process, or None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
    fields = rest.split()
    return name, fields[0], int(fields[1])


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def below(top):
    """The living descendants of a process: {pid: name}."""
    stats = {pid: stat for pid in all_pids() if (stat := read_stat(pid))}
    found, size = {top}, 0
    while len(found) != size:
        size = len(found)
        found |= {pid for pid, (_, state, parent) in stats.items() if parent in found and state != "Z"}
    return {pid: stats[pid][0] for pid in found if pid != top and pid in stats}


def find_below(top, name, seconds=60):
    """The pid of the descendant with this name, once it is there."""

    def look():
        return [pid for pid, found in below(top).items() if found == name]

    return wait_for(look, seconds, f"{name} below {top}")[0]


def status_fields(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def is_over(pid):
    """It has ended; whether somebody has waited for it is another question. It may do so while one looks."""
    try:
        return status_fields(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def remove_group(folder):
    """A control group that is over; those who were in it may be about to leave."""

    def gone():
        try:
            os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    wait_for(gone, what=f"{folder} is empty")


def end(process):
    """End a brig that a test started, by its pid, and wait for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate()
