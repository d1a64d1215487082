"""Published npm packages, as their lock file names them, in a folder of the build."""
import hashlib
import re
import shutil
import subprocess

import pytest
from daemonlib import TOP

UNREACHABLE = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")


def _install(source, folder):
    """Once, until the lock file changes."""
    stamp = folder / "stamp"
    wanted = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, folder / name)
    said = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, text=True,
                          capture_output=True, timeout=600)
    if said.returncode != 0:
        if any(code in said.stderr for code in UNREACHABLE):
            pytest.skip("the packages cannot be fetched: " + said.stderr.strip().splitlines()[0])
        raise AssertionError(said.stderr)
    stamp.write_text(wanted)


def packages(source, build, node=18):
    """The folder with node_modules and a copy of the scripts. Skips where there is no npm, or a Node.js that is too old."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(re.match(r"v(\d+)", version)[1]) < node:
        pytest.skip(f"these packages need Node.js {node}; this is {version.strip()}")
    folder = TOP / "build" / build
    folder.mkdir(parents=True, exist_ok=True)
    _install(source, folder)
    for script in source.glob("*.mjs"):
        shutil.copy(script, folder / script.name)
    return folder
