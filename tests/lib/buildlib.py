"""The build folders, for tests that build or install something."""

import contextlib
import fcntl
import os
from pathlib import Path

from helpers import BRIG, TOP


def release_folder():
    """Where the release is built that this user may build in, or None: of brig itself, or, if that is under the sanitizers, the usual one."""
    for folder in (Path(BRIG).resolve().parent, TOP / "build"):
        if (folder / "tests/weak").is_dir() and os.access(folder / "build.ninja", os.W_OK):
            return folder
    return None


@contextlib.contextmanager
def build_folder(folder):
    """Others may be about to build there, and Ninja does not look for them: one at a time."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)
