"""Running brig verify as different callers, and the programs of which it is to find something wrong.

The programs of tests/weak can leave out one guard, or die at a point that is named. They are linked from the objects of the
release's own build folder; where there is none a folder of their own is made."""

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from buildlib import build_folder, release_folder
from helpers import IS_ROOT, PUBLIC, TOP, USER
from users import claim_user

WEAK = ("brig", "brig-proxy", "brig-daemon")
RUNNER = "brig-wasm"  # is built where JavaScriptCore is
ENV = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}


def verify(caller, *options, program=PUBLIC / "brig", env=None, prefix=(), timeout=900):
    command = caller.outside(*prefix, str(program), "verify", *options)
    return subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=timeout, stdin=subprocess.DEVNULL,
                          env={**ENV, **(env or {})})


def told(result):
    try:
        return json.loads(result.stdout)
    except ValueError:
        raise AssertionError(f"no JSON: {result}") from None


def rows(cell, verdict):
    return {row["id"] for row in cell["rows"] if row["verdict"] == verdict}


def own_leftovers(uid):
    """What a run of this uid's left in the places for temporary files: canaries, and the private folders of sandboxes."""
    found = []
    for top in ("/tmp", "/var/tmp"):
        for path in Path(top).glob("brig-*"):
            try:
                ours = re.fullmatch(r"brig-(verify-)?[0-9a-f]{16,}", path.name) and path.lstat().st_uid == uid
                found += [path] if ours else []
            except FileNotFoundError:
                pass
    return found


def fresh_user():
    """An ordinary user of whom nothing else on this machine is, so that runs can go side by side."""
    caller = type(USER)("user")
    if IS_ROOT:
        caller.uid = claim_user()
    return caller


@functools.cache
def weak_programs():
    """A folder that every user can read, with the programs of tests/weak and what else is beside brig."""
    build = release_folder()
    made = None
    if not build:
        build = made = Path(tempfile.mkdtemp(prefix="test-brig-weak-"))
        subprocess.run(["meson", "setup", str(build), str(TOP), "-Doptimization=0", "-Dman=disabled"], check=True,
                       capture_output=True)
    with build_folder(build):
        if stale(build / "build.ninja"):
            subprocess.run(["meson", "setup", "--reconfigure", str(build)], check=True, capture_output=True, cwd=TOP)
        names = [*WEAK, *([RUNNER] if f"build tests/weak/{RUNNER}:" in (build / "build.ninja").read_text() else [])]
        done = subprocess.run(["ninja", "-C", str(build), *(f"tests/weak/{name}" for name in names)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        folder = Path(tempfile.mkdtemp(prefix="test-brig-weak-programs-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        for name in names:
            shutil.copy(build / "tests/weak" / name, folder / name)
        for name in ("brig-template.so", "brig-gvisor"):
            if (PUBLIC / name).exists():
                shutil.copy(PUBLIC / name, folder)
    if made:
        shutil.rmtree(made)
    return folder


def stale(ninja):
    """Which files ask for guards was looked up when the folder was configured; one that changed since may be new to it."""
    asks = re.compile(rb'^#include "(os/weaken|daemon/base/fault)\.h"', re.M)
    return any(file.stat().st_mtime > ninja.stat().st_mtime and asks.search(file.read_bytes()) for file in TOP.glob("src/**/*.c"))
