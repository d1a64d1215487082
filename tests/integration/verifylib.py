"""Running brig verify as different callers, and the programs of which it is to find something wrong.

The programs of -Dweaken=true can leave out one guard, or die at a point that is named. They are linked from the objects of the release's own build folder for
brig-proxy; where there is none a folder of their own is made."""

import atexit
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from helpers import BRIG, IS_ROOT, PUBLIC, TOP, USER
from users import claim_user

WEAK = ("brig", "brig-proxy", "brig-daemon")
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
    build = Path(str(Path(BRIG).resolve().parent) + "-proxy")
    env = {**os.environ, "CC": "gcc"}
    made = None
    if (build / "build.ninja").exists() and os.access(build / "build.ninja", os.W_OK):
        setup = ["meson", "setup", "--reconfigure", str(build), "-Dweaken=true"]
    else:
        build = made = Path(tempfile.mkdtemp(prefix="test-brig-weak-"))
        setup = ["meson", "setup", str(build), str(TOP), "-Dweaken=true", "-Doptimization=0"]
    # Others may be about to build the same: one at a time.
    lock = os.open(build, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(setup, check=True, capture_output=True, env=env, cwd=TOP)
        done = subprocess.run(["ninja", "-C", str(build), *(f"tests/weak/{name}" for name in WEAK)], capture_output=True,
                              text=True, env=env, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        folder = Path(tempfile.mkdtemp(prefix="test-brig-weak-programs-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        for name in WEAK:
            shutil.copy(build / "tests/weak" / name, folder / name)
        if (PUBLIC / "brig-template.so").exists():
            shutil.copy(PUBLIC / "brig-template.so", folder)
    finally:
        os.close(lock)
    if made:
        shutil.rmtree(made)
    return folder
