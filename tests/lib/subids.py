"""Subordinate ids for an ordinary user of the tests: files of /etc that only the program that is started so sees. Nothing of the
host's is changed."""
import shlex
import shutil
import tempfile
from pathlib import Path

from users import USER_ID

# Other numbers for groups than for users, so that one is not taken for the other.
FIRST_UID, FIRST_GID, COUNT = 700_000_000, 800_000_000, 65536
NAME = "brig-test"
LINES = {"subuid": f"{NAME}:{FIRST_UID}:{COUNT}\n", "subgid": f"{NAME}:{FIRST_GID}:{COUNT}\n"}


class OwnEtc:
    """`lines`: what /etc/subuid and /etc/subgid say; `programs`: what stands in the place of programs of the host's, as scripts."""

    def __init__(self, lines=LINES, programs=None, named=True):
        self.folder = Path(tempfile.mkdtemp(prefix="test-brig-etc-"))
        self.folder.chmod(0o755)
        passwd = Path("/etc/passwd").read_text() + (f"{NAME}:x:{USER_ID}:{USER_ID}::/:/bin/sh\n" if named else "")
        group = Path("/etc/group").read_text() + f"{NAME}:x:{USER_ID}:\n"
        self.places = []
        for name, text in {"passwd": passwd, "group": group, **lines}.items():
            self.put(f"/etc/{name}", text, 0o644)
        for path, text in (programs or {}).items():
            self.put(path, text, 0o755)

    def put(self, path, text, mode):
        file = self.folder / Path(path).name
        file.write_text(text)
        file.chmod(mode)
        assert Path(path).exists(), f"{path} is not on this host (tools/bootstrap test)"
        self.places.append((file, path))

    @property
    def wrapper(self):
        """In front of a command, which is still the same process."""
        mounts = " && ".join(f"mount --bind {shlex.quote(str(file))} {shlex.quote(path)}" for file, path in self.places)
        return ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", f'{mounts} && exec "$@"', "sh"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)
