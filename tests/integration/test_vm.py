"""brig on another kernel: Debian's, emulated, with cgroup v2. See vm/run-vm."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
RUN_VM = HERE / "vm" / "run-vm"
BRIG = Path(os.environ.get("BRIG", TOP / "build" / "brig"))


def run_vm(*parts):
    result = subprocess.run(
        [RUN_VM, "-b", BRIG, *parts], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3000
    )
    if result.returncode == 77:
        pytest.skip(result.stderr.strip())
    failed = [line for line in result.stdout.splitlines() if line.startswith("not ok ")]
    assert result.returncode == 0 and not failed, "\n".join(failed) + "\n\n" + result.stdout + result.stderr
    return [line for line in result.stdout.splitlines() if line.startswith("ok ")]


def test_cgroup_v2():
    passed = run_vm("cgroup")
    for role in ("root", "user"):
        assert f"ok {role}: the guardian leaves nothing" in passed
    assert "ok cgroup: nothing is left" in passed


def test_brig():
    if not BRIG.exists():
        pytest.skip(f"{BRIG} is not built")
    if subprocess.run([BRIG, "no-such-verb"], capture_output=True).returncode == 0:
        pytest.skip("this brig has no verbs yet")
    passed = run_vm("brig")
    for role in ("root", "user", "stranger"):
        assert any(line.startswith(f"ok {role}: ") for line in passed)


def test_serve():
    passed = run_vm("serve")
    for role in ("root", "user"):
        for what in ("a cell runs in it", "pause freezes its group", "a killed daemon leaves no cgroup"):
            assert f"ok {role}: {what}" in passed


def test_systemd():
    """The units of dist/systemd: notification, reload, restart, delegated groups, socket activation."""
    passed = run_vm("systemd")
    for role in ("system", "user"):
        for what in ("its group is below the unit's", "a killed service is started again", "the first client starts it"):
            assert f"ok {role}: {what}" in passed
