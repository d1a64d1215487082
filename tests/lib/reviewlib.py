"""A project, somebody who has it reviewed, and ways to compare trees."""
import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from helpers import PUBLIC


def tree(folder):
    """What a tree is: kinds, modes, contents."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(info.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISDIR(info.st_mode):
            found[name] = ("folder", stat.S_IMODE(info.st_mode))
        elif stat.S_ISREG(info.st_mode):
            found[name] = ("file", stat.S_IMODE(info.st_mode), path.read_bytes())
        else:
            found[name] = ("special", info.st_mode)
    return found


class Lab:
    """Folders that belong to the caller, which a sandbox of root's can walk through as well."""

    def __init__(self, caller, tier, below=None):
        self.caller, self.tier = caller, tier
        self.top = Path(tempfile.mkdtemp(prefix="test-review-", dir=below))
        self.top.chmod(0o755)
        self.project, self.state = self.top / "project", self.top / "state"
        for folder in (self.project, self.state):
            folder.mkdir(mode=0o755)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "XDG_STATE_HOME": str(self.state)}

    def close(self):
        shutil.rmtree(self.top, ignore_errors=True)

    def write(self, name, text="", mode=0o644):
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def own(self):
        """Everything is the caller's."""
        for path in [self.top, *self.top.rglob("*")]:
            os.chown(path, self.caller.uid, self.caller.uid, follow_symlinks=False)

    def outside(self, *command, **kwargs):
        kwargs.setdefault("cwd", self.project)
        env = self.env | kwargs.pop("env", {})
        return subprocess.run(self.caller.outside(*map(str, command)), capture_output=True, text=True, timeout=300,
                              env=env, stdin=subprocess.DEVNULL, check=False, **kwargs)

    def brig(self, *args, **kwargs):
        return self.outside(kwargs.pop("program", PUBLIC / "brig"), *args, **kwargs)

    def review(self, script, *options, shell=("sh", "-c")):
        """Runs the script on a view of the project; the id of what waits, or None."""
        done = self.brig("run", "--json", "--tier", self.tier, *self.caller.options, "--review", self.project, *options, "--",
                         *shell, script)
        told = json.loads(done.stdout)
        assert "error" not in told, done.stderr
        self.told = told
        return told["review"]

    def diff(self, review, *options):
        done = self.brig("diff", review, "--json", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def changes(self, review):
        return {c["path"]: c for c in self.diff(review)["changes"]}

    def apply(self, review, *args, **kwargs):
        return self.brig("apply", review, *args, **kwargs)

    def reviews(self):
        return [r["id"] for r in json.loads(self.brig("diff", "--json").stdout)["reviews"]]
