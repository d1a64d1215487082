"""Grants that lie in each other or on files that are there: what is mounted on, and what stays on the host."""

import os
import pathlib
import subprocess

import pytest

BRIG = os.environ.get("BRIG") or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "brig")


def brig(*arguments):
    return subprocess.run([BRIG, "run", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "file").write_text("extra")
    (tmp_path / "project" / "file").write_text("project")
    return tmp_path


def test_a_file_covers_one_that_is_there(folder):
    done = brig("--ro", f"{folder}/extra/file:/etc/hosts", "--", "cat", "/etc/hosts")
    assert done.stdout == "extra", done.stderr
    done = brig("--rw", f"{folder}/project:/p", "--ro", f"{folder}/extra/file:/p/file", "--", "cat", "/p/file")
    assert done.stdout == "extra", done.stderr
    assert (folder / "project" / "file").read_text() == "project"


def test_a_file_does_not_cover_a_link(folder):
    done = brig("--ro", f"{folder}/extra/file:/etc/os-release", "--", "true")
    assert done.returncode == 125 and "not a plain file" in done.stderr, done.stderr


@pytest.mark.parametrize("place", ["sub", "sub/deeper"])
def test_nothing_is_made_in_a_granted_folder_to_mount_on(folder, place):
    done = brig("--rw", f"{folder}/project:/p", "--ro", f"{folder}/extra:/p/{place}", "--", "ls", f"/p/{place}")
    assert done.returncode == 125 and "make it first" in done.stderr, done.stderr
    assert sorted(os.listdir(folder / "project")) == ["file"]
    (folder / "project" / place).mkdir(parents=True)
    done = brig("--rw", f"{folder}/project:/p", "--ro", f"{folder}/extra:/p/{place}", "--", "ls", f"/p/{place}")
    assert done.stdout == "file\n", done.stderr
    assert os.listdir(folder / "project" / place) == []


@pytest.mark.parametrize("kind", ["--rw", "--ro", "--review"])
def test_a_grant_can_be_the_work_folder(folder, kind):
    """As the ground layer of Landlock and the mount both say: what is read-only is so there too."""
    command = [kind, f"{folder}/project:/workspace", "-q", "--", "sh", "-c", "pwd; ls; echo new > made; mkdir -p /tmp/x"]
    done = brig(*command)
    assert done.stdout == "/workspace\nfile\n", done
    assert done.returncode == 0 and ("Read-only" in done.stderr) == (kind == "--ro"), done
    assert (folder / "project" / "made").exists() == (kind == "--rw")


@pytest.mark.parametrize("place", ["/tmp", "/home", "/home/user", "/run", "/usr", "/.brig"])
def test_a_grant_hides_nothing_of_the_sandboxs_own(folder, place):
    done = brig("--ro", f"{folder}/extra:{place}", "--", "true")
    assert done.returncode == 125 and "the sandbox has its own" in done.stderr and "attestation" not in done.stderr, done.stderr
