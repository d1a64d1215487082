"""brig in the closed internet of tests/lib/netlab, as root and as an ordinary user."""
import os
import shutil
import subprocess
from pathlib import Path

import netlab
from helpers import PUBLIC, Caller

HERE = Path(__file__).resolve().parent


class LabCaller(Caller):
    lab = None

    def with_options(self, *options):
        return LabCaller(self.name, *self.options, *options)

    def outside(self, *command):
        return [*LabCaller.lab.enter(), *super().outside(*command)]

    def brig(self, *args, **kwargs):
        """Another verb than run."""
        kwargs.setdefault("timeout", 300)
        return subprocess.run(self.outside(str(PUBLIC / "brig"), *map(str, args)), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, **kwargs)


def build_programs():
    """The Go and the Java program, in the folder that every user can read."""
    folder = PUBLIC / "programs"
    folder.mkdir(exist_ok=True)
    cache = PUBLIC / "go-cache"
    env = {**os.environ, "GO111MODULE": "off", "GOCACHE": str(cache), "GOFLAGS": "", "HOME": str(PUBLIC)}
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", folder / "fetch", HERE / "egress" / "fetch.go"], check=True, env=env)
        shutil.rmtree(cache, ignore_errors=True)
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", folder, HERE / "egress" / "Fetch.java"], check=True)
    for path in [folder, *folder.iterdir()]:
        path.chmod(0o755)
    return folder


def policy_file(name, text):
    path = PUBLIC / f"{name}.yaml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def state_folder(caller):
    """Variables that let a caller without a home keep records."""
    folder = PUBLIC / f"state-{caller.name}"
    folder.mkdir(exist_ok=True)
    os.chown(folder, caller.uid, caller.uid)
    folder.chmod(0o700)
    return {**os.environ, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder)}
