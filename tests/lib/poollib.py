"""Files of Debian's archive that no package of this machine's release has, and that nothing else needs: builds and sources to try brig with."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import PUBLIC, TOP

FOLDER = TOP / "build/pool"


def fetched(place, digest):
    """The file with this place in the archive and this hash, fetched once; skips where it cannot be had."""
    file = FOLDER / place.rsplit("/", 1)[1]
    told = subprocess.run([TOP / "tools/pool", place, digest, file], capture_output=True, text=True, timeout=300, check=False)
    if told.returncode == 77:
        pytest.skip(told.stderr.strip(), allow_module_level=True)
    assert told.returncode == 0, told
    return file


# gVisor as Debian has it for those who want a newer one than the release's (bookworm-backports).
NEWER = {"x86_64": ("amd64", "afdde883e3876ea807e19c708d4432674a20cb10186a7a5b554d62f38ea8de46"),
         "aarch64": ("arm64", "b984477f968f9dfe15564d19f6654863327e01244935526d8eecd1741a0bd49d")}


def runsc():
    """The runsc that the gvisor tier is to be tried with, by BRIG_TEST_RUNSC: a path, `newer`, or that of this machine."""
    asked = os.environ.get("BRIG_TEST_RUNSC", "/usr/bin/runsc")
    if asked != "newer":
        return asked
    arch, digest = NEWER[os.uname().machine]
    package = fetched(f"pool/main/g/golang-gvisor-gvisor/runsc_0.0~20240729.0-4~bpo12+2_{arch}.deb", digest)
    folder = Path(PUBLIC) / "newer"
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=120)
    shutil.move(folder / "usr/bin/runsc", Path(PUBLIC) / "runsc")
    shutil.rmtree(folder)
    return str(Path(PUBLIC) / "runsc")
