"""Packages from npm, as a lock file names them: fetched once, until it changes."""
import fcntl
import hashlib
import shutil
import subprocess

import pytest
from helpers import TOP

OFFLINE = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")


def fetch(source, folder):
    wanted = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, folder / name)
    said = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, text=True, capture_output=True,
                          timeout=600)
    if said.returncode != 0:
        if any(code in said.stderr for code in OFFLINE):
            pytest.skip("the packages cannot be fetched: " + said.stderr.strip().splitlines()[0])
        raise AssertionError(said.stderr)
    stamp.write_text(wanted)


def install(name=""):
    """The packages of tests/clients, or of a folder in it, with the scripts that lie beside them."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    source = TOP / "tests" / "clients" / name
    folder = TOP / "build" / (f"clients-{name}" if name else "clients")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch(source, folder)
        for script in source.glob("*.mjs"):
            place_script(script, folder)
    return folder


def place_script(script, folder):
    """All of it at once: somebody else may be about to start the one that is there."""
    new = folder / f"{script.name}.new"
    shutil.copy(script, new)
    new.rename(folder / script.name)
