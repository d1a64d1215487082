"""brig verify: holds on this host, says what it cannot try, and notices each guard that is left out.

The programs of -Dweaken=true can leave out one guard. They are linked from the objects of the release's own build folder for
brig-proxy; where there is none a folder of their own is made."""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from helpers import BRIG, CALLERS, IS_ROOT, PUBLIC, ROOT, TOP, USER

sys.path.insert(0, str(TOP / "tools"))
ENV = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}
WEAKEN_H = (TOP / "src/os/weaken.h").read_text()
GUARDS = re.findall(r'GUARD\(\w+, "([^"]+)"', WEAKEN_H)


def verify(caller, *options, program=PUBLIC / "brig", env=None, prefix=(), timeout=300):
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


def leftovers():
    return [str(path) for top in ("/tmp", "/var/tmp") for path in Path(top).glob("brig-verify-*")]


@pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
def test_every_level_of_this_host_holds(caller):
    result = verify(caller, "--json")
    answer = told(result)
    failed = [(cell["level"], cell["tier"], row["id"], row["seen"]) for cell in answer["cells"] for row in cell["rows"]
              if row["verdict"] == "failed"]
    assert (result.returncode, failed) == (0, []), result.stderr
    tried = {(cell["level"], cell["tier"]) for cell in answer["cells"] if cell["tried"]}
    assert {("low", "process"), ("medium", "container"), ("high", "container"), ("high", "process")} <= tried
    assert all(cell["why"] for cell in answer["cells"] if not cell["tried"])
    for cell in answer["cells"]:
        assert all(row["why"] for row in cell["rows"] if row["verdict"] == "not applicable")
        held = rows(cell, "held")
        assert not cell["tried"] or len(held) >= 60, f"hardly anything could be tried: {sorted(held)}"
        for boundary in ("kernel", "filesystem", "network", "credentials", "lifecycle"):
            assert not cell["tried"] or any(r["boundary"] == boundary and r["id"] in held for r in cell["rows"])
